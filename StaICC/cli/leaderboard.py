"""The command ``leaderboard``: a site of the saved results in a folder."""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from urllib.parse import quote

from StaICC.benchmarks import verify as checks
from StaICC.benchmarks.findings import Contradicted, Unchecked, status_of
from StaICC.benchmarks.verdict_cache import VerdictCache, digest_of_inputs
from StaICC.benchmarks.verify import RECORDED
from StaICC.cli import output, saved_results
from StaICC.comparing.alignment import MOST_RUNS
from StaICC.datasets.table_files import data_file_digest
from StaICC.errors import ArgumentError, StaICCError
from StaICC.files.output import write_output
from StaICC.report.html import element, join, table
from StaICC.report.page import Section, report_html
from StaICC.results.copies import SAME_SCORES, Place, places_of, ranked_runs
from StaICC.results.result import Result, ResultGroup, load
from StaICC.results.runs import split_runs
from StaICC.safe_text import one_line


def add_leaderboard(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of the command."""
    text = "folders with results saved by run, or such files"
    parser.add_argument("results", nargs="+", type=Path, metavar="RESULT", help=text)
    parser.add_argument("--output", "-o", type=Path, default=Path("site"), metavar="SITE", help="default: site")
    parser.add_argument("--title", default="StaICC leaderboard", help="title of the page")


@dataclass(frozen=True, slots=True)
class _File:
    """A file of a leaderboard."""

    status: str
    found: str
    """The reason for the status, or who shares its place."""
    result: Result | ResultGroup | None = None
    """Its result; ``None`` if it is not ranked."""


def _read(path: Path, verdicts: VerdictCache) -> _File:
    """Return a file, verified unless it was before; a new verdict is added.

    Args:
        path: The file.
        verdicts: Those of earlier verifications.
    """
    try:
        digest = data_file_digest(path)
        result = load(path)
        split_runs({path.name: result})
        inputs = digest_of_inputs(digest, result, [path.parent, Path()])
        if verdicts.has(digest, inputs):
            return _File("recomputed", "", result)
        status = status_of(checks.verify_file(path))
    except (StaICCError, OSError) as error:
        return _File("UNREADABLE", one_line(str(error)))
    if isinstance(status, Contradicted):
        return _File("CONTRADICTED: the file was changed, or is damaged", one_line(status.difference))
    if isinstance(status, Unchecked):
        return _File("UNCHECKED: not ranked", one_line(status.reason))
    verdicts.add(digest, inputs)
    return _File("recomputed", "", result)


COPIES = (
    "Results of one leaderboard with equal labels in all queries, and label scores that differ by at most "
    f"{SAME_SCORES:g}, share one place with the names of all: they are copies, or one model that was run twice. Their "
    "test rows and conditions are equal; k, sampler, templates and method may differ. Which of them was first is not "
    "known, since a file can state any time. A place shows the model, settings and scores of one result, whatever its "
    "name is: the one with the lowest mean probability of the true label. A run that shares all of its places with a "
    "run that has more of them is named there, with the benchmarks that it shares. Where two runs share some places, "
    "and each has others, both keep a row and name each other. Copies with one changed or missing label, other scores "
    "for the same labels, or another number of repeats are not recognised. Results with equal labels and other scores "
    "are named below; all others have to be predicted again (verify --rerun)."
)
"""What a leaderboard says about copies."""


def _said_of_places(places: Sequence[Place]) -> dict[str, list[str]]:
    """Return, for each run, with which others it shares a place, and which have equal labels but other scores."""
    said: dict[str, list[str]] = {}
    for place in places:
        for name in place.holders:
            others = [other for other in place.holders if other != name]
            if others:
                said.setdefault(name, []).append(f"{place.benchmark}: one place with {', '.join(others)}")
            ranges = place.score_ranges()
            if ranges:
                listed = ", ".join(f"{key} {low:.4f} to {high:.4f}" for key, (low, high) in ranges.items())
                said.setdefault(name, []).append(
                    f"{place.benchmark}: scores of this place differ ({listed}), those of {place.shown} are shown"
                )
            if place.other_scores:
                listed = ", ".join(place.other_scores)
                said.setdefault(name, []).append(
                    f"{place.benchmark}: equal labels in all queries as {listed}, other scores"
                )
    return said


def leaderboard(args: argparse.Namespace) -> output.Printed:
    """Write a static site of all saved results in a folder, each of them verified.

    Every .json file in a folder and its subfolders is verified, as by the command verify; hidden ones are not read.
    Results that are recomputed as a whole are ranked with those that are comparable; the others are listed with status
    and reason. Results with the same predictions share one place, with the names of all. To add or remove a run, add or
    remove its file and repeat the command: files that did not change, and whose data did not change, are not verified
    again. The site is index.html with copies of the results, and needs no server. Of more than 20 runs it has the
    leaderboards only.

    exit status: 0 if every file is recomputed, 1 if one is not

    examples:
      python -m StaICC leaderboard runs -o site
    """
    own, index = (args.output / "results").resolve(), args.output / "index.html"
    given = [path.resolve() for path in args.results]
    if own.is_dir() and (any(own in (path, *path.parents) for path in given) or not index.exists()):
        raise ArgumentError(
            f"{args.output / 'results'} is not the one of an earlier site; copies of results could replace its saving. "
            "Give another folder with -o"
        )
    names: dict[Path, str] = {}
    for folder in args.results:
        for path in saved_results.result_files([folder]):
            if own not in path.resolve().parents:
                place = path.relative_to(folder if folder.is_dir() else folder.parent)
                names[path] = place.with_suffix("").as_posix()
    if len({*names.values()}) < len(names):
        raise ArgumentError("two results have the same name. Give the folder that contains both")
    verdicts = VerdictCache()
    read = {name: _read(path, verdicts) for path, name in names.items()}
    results = {name: file.result for name, file in read.items() if file.result is not None}
    if not results:
        raise ArgumentError(f"no result is recomputed. {'; '.join(file.found for file in read.values())}")
    runs_of = {name: split_runs({name: result}) for name, result in results.items()}
    places = places_of({run: parts for runs in runs_of.values() for run, parts in runs.items()})
    said = _said_of_places(places)
    for name, runs in runs_of.items():
        found = "; ".join(text for run in runs for text in said.get(run, ()))
        read[name] = replace(read[name], found=found)
    args.output.mkdir(parents=True, exist_ok=True)
    output.check_output(index, inputs=names)
    rows = []
    for name in sorted(read, key=lambda name: name in results):
        link = element("a", name, href=quote(os.fsencode(f"results/{name}.json")))
        rows.append([link if name in results else element("bdi", name), read[name].status, read[name].found])
    lost = f"{len(read) - len(results)} of {len(read)} files are not ranked."
    recorded = element("p", f"Recorded by the runs, and not computed again: {RECORDED}.", class_="soft")
    copies = element("p", COPIES, class_="soft")
    listed = table("Files", ["file", "status", "what was found"], rows, words=(1, 2))
    warned = element("p", lost, class_="warn") if len(results) < len(read) else ""
    section = Section("files", "Files", join([warned, listed, copies, recorded]))
    ranked = {name: ResultGroup(name, parts) for name, parts in ranked_runs(places).items()}
    page = report_html(ranked, args.title, section, summary=len(ranked) > MOST_RUNS)
    for path, name in names.items():
        if name in results:
            copy = own / f"{name}.json"
            copy.parent.mkdir(parents=True, exist_ok=True)
            write_output(copy, [path.read_bytes()])
    for copy in own.rglob("*.json"):  # of files that are no longer ranked
        name = copy.relative_to(own).with_suffix("").as_posix()
        if name not in results and data_file_digest(copy) in verdicts.files:
            copy.unlink()
    verdicts.save()
    write_output(index, [page.encode("utf-8")])
    print(f"{index}: {len(results)} of {len(read)} files recomputed", file=sys.stderr)
    listing = [
        {"file": str(path), "status": read[name].status, "found": read[name].found} for path, name in names.items()
    ]
    return output.Printed(listing, (), 1 if len(results) < len(read) else 0)

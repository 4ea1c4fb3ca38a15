"""The commands that read saved results again: ``verify``, ``report``, ``leaderboard``."""

from __future__ import annotations

import argparse
import contextlib
import os
import sys
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, replace
from functools import cache, partial
from pathlib import Path
from typing import Any
from urllib.parse import quote

from StaICC import benchmark_names
from StaICC.benchmarks import verify as checks
from StaICC.benchmarks.findings import Contradicted, Recomputed, Status, Unchecked, Verification, status_of
from StaICC.benchmarks.rerunning import Rerun
from StaICC.benchmarks.saved_prompts import written_prompts
from StaICC.benchmarks.verdict_cache import VerdictCache, digest_of_inputs
from StaICC.benchmarks.verify import RECORDED
from StaICC.cli import options, saving
from StaICC.comparing.alignment import MOST_RUNS
from StaICC.datasets.source import data_file_digest
from StaICC.errors import ArgumentError, StaICCError
from StaICC.files.output import write_output
from StaICC.layout import Block, Line
from StaICC.report.html import element, join, table
from StaICC.report.page import Section, query_section, report_html, write_report
from StaICC.results.copies import SAME_SCORES, Place, places_of, ranked_runs
from StaICC.results.result import Result, ResultGroup, load
from StaICC.results.runs import split_runs
from StaICC.safe_text import one_line

_EXIT: dict[type[Status], int] = {Contradicted: 1, Unchecked: 3, Recomputed: 0}


def add_verify(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of the command."""
    add = parser.add_argument
    saving.add_results(parser, skip=False)
    add("--data-dir", type=Path, metavar="DIR", help="data of LongICL (default: as installed)")
    text = "files of own data, under any name (default: searched next to the result and in the current folder)"
    add("--data", type=Path, nargs="+", action="extend", default=[], metavar="FILE", help=text)
    group = parser.add_argument_group("predict again")
    group.add_argument("--rerun", type=int, metavar="N", help="predict N random queries of each result again")
    options.add_model(group, "the model of the results, as for run")
    group.add_argument("--seed", type=int, metavar="N", help="choose the queries of an earlier --rerun again")
    options.add_text_options(group)
    text = "write the result with the predictions of --rerun in the place of the saved ones, such as to rank it"
    group.add_argument("--output", "-o", type=Path, metavar="FILE", help=text)


def verify(args: argparse.Namespace) -> saving.Printed:
    """Recompute saved results from their records, and their prompts from the data.

    A result is recomputed (every value that a reader quotes follows from its records and the data), contradicted (a
    value differs) or unchecked (a value cannot be computed again here; the reason is printed). With --rerun, some
    queries are predicted again with the model: their accuracy is printed as it is recomputed, and the saved accuracy of
    all queries as a range, since close predictions may differ. A file that cannot be read is named, and the others are
    verified.

    exit status: 0 if every result is recomputed, 1 if one is contradicted, 2 if a file cannot be read or --data is
    another file, 3 if a result is unchecked

    examples:
      python -m StaICC verify result.json
      python -m StaICC verify a.json b.json --json
      python -m StaICC verify result.json --rerun 20 --model hf:gpt2
    """
    checked: dict[Path, list[Verification]] = {}
    data = _data_files(args)
    args.model = options.model_of(args)
    if (args.rerun is None) is not (not args.model):
        raise ArgumentError("--rerun N and --model belong together: got one of them. Give both")
    if args.output is not None:
        if args.rerun is None or len(args.results) > 1:
            raise ArgumentError("-o writes the result of one --rerun: give --rerun N, and one result")
        saving.check_output(args.output, inputs=args.results)
    model = cache(lambda of_long_icl: options.load_model(args, of_long_icl)[0])
    for path in args.results:
        try:
            rerun = None if args.rerun is None else _rerun(args, path, model)
            checked[path] = checks.verify_file(path, data_dir=args.data_dir, data_files=data.get(path, ()), rerun=rerun)
        except (StaICCError, OSError) as error:
            if len(args.results) == 1:
                raise
            reason = one_line(getattr(error, "strerror", None) or str(error)).removeprefix(f"{path}: ")
            print(f"staicc: {path}: {reason}", file=sys.stderr)
    for parts in checked.values():
        recomputed = parts[-1].recomputed
        if args.output is not None and recomputed is not None:
            recomputed.save(args.output)
    document = [_plain(path, part) for path, parts in checked.items() for part in parts]
    blocks: list[Block] = []
    for path, parts in checked.items():
        blocks += [Line(f"{path}:", "code")] * (len(args.results) > 1)
        blocks += [Line(line, "code") for part in parts for line in _lines(part)]
    blocks += [Line(f"recorded by the run, not computed again: {RECORDED}", "code")] * bool(checked)
    kinds = {type(status_of(parts)) for parts in checked.values()}
    unread = len(checked) < len({*args.results})
    return saving.Printed(document, blocks, 2 if unread else next(_EXIT[kind] for kind in _EXIT if kind in kinds))


def _rerun(args: argparse.Namespace, path: Path, model: Callable[[bool], Any]) -> Rerun:
    """Return which queries to predict again, with the model as ``run`` loads it for the benchmark of the result."""
    of_long_icl = any(part.benchmark == benchmark_names.LONG_ICL for part in load(path).results())
    return Rerun(model(of_long_icl), args.rerun, **({} if args.seed is None else {"seed": args.seed}))


def _data_files(args: argparse.Namespace) -> dict[Path, list[str | os.PathLike[str]]]:
    """Return the files and folders of ``--data`` for each result that can be read.

    Raises:
        StaICCError: A file is not there, or belongs to none of the results.
    """
    results: dict[Path, Result | ResultGroup] = {}
    for path in args.results if args.data else ():
        with contextlib.suppress(StaICCError, OSError):  # named when it is verified
            results[path] = load(path)
    files_of = checks.matching_files(list(results.values()), args.data) if results else []
    return dict(zip(results, files_of, strict=True))


def _plain(path: Path, part: Verification) -> dict[str, Any]:
    fields = ("benchmark", "dataset", "status", "message", "same", "first_difference", "contradicted", "unchecked")
    values = {field: getattr(part, field) for field in fields}
    values |= {field: list(values[field]) for field in ("contradicted", "unchecked")}
    if part.scores:
        values["scores"] = [asdict(score) for score in part.scores]
    return {"file": str(path), **values, "status": type(part.status).__name__.lower()}


def _lines(part: Verification) -> list[str]:
    status = type(part.status)
    word = status.__name__.lower() if status is Recomputed else status.__name__.upper()
    head = f"{word}  {', '.join(filter(None, (part.benchmark, part.dataset)))}: {part.message}"
    return [head, *(f"    {line}" for line in (*part.contradicted, *(f"unchecked: {line}" for line in part.unchecked)))]


def add_report(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of the command."""
    saving.add_results(parser, "one run each")
    saving.add_output(parser, "default: report.html", Path("report.html"))
    parser.add_argument("--title", default="StaICC report", help="title of the page")
    text = "add a view of every query with its prompt; the file then contains texts of the data sets"
    parser.add_argument("--queries", action="store_true", help=text)


def report(args: argparse.Namespace) -> saving.Printed:
    """Write saved results as one self-contained HTML page with figures.

    The page is one file and needs no network, server or other package.

    examples:
      python -m StaICC report result.json -o report.html
      python -m StaICC report a.json b.json -o report.html --title "Two models"
      python -m StaICC report a.json b.json -o report.html --queries
    """
    saving.check_output(args.output, inputs=args.results)
    results = saving.load_named(args.results)
    folders = [*dict.fromkeys(Path(path).parent for path in args.results), Path()]
    parts = [part for result in results.values() for part in result.results()]
    data = [folder / str(file["file"]) for folder in folders for part in parts for file in part.files.values()]
    saving.check_output(args.output, inputs=[*args.results, *data])
    prompts = partial(written_prompts, data_files=folders)
    size = write_report(results, args.output, args.title, query_section(results, prompts) if args.queries else None)
    print(f"{args.output}: {size / 1e6:.2f} MB", file=sys.stderr)
    return saving.Printed({"path": str(args.output), "bytes": size, "runs": list(results)}, ())


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


def leaderboard(args: argparse.Namespace) -> saving.Printed:
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
        for path in saving.result_files([folder]):
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
    saving.check_output(index, inputs=names)
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
    return saving.Printed(listing, (), 1 if len(results) < len(read) else 0)

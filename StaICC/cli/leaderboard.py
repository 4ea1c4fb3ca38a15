"""The command ``leaderboard``: a site of the saved results in a folder."""

from __future__ import annotations

import argparse
import os
import re
import sys
from collections.abc import Collection, Container, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from urllib.parse import quote

from StaICC.benchmarks.findings import Contradicted, Unchecked, status_of
from StaICC.benchmarks.logged_verification import ONLY_THE_HARNESS_KNOWS
from StaICC.benchmarks.verdict_cache import VerdictCache, digest_of_inputs
from StaICC.benchmarks.verify import RECORDED, verify_file
from StaICC.cli import output, saved_results
from StaICC.comparing.alignment import MOST_RUNS
from StaICC.errors import ArgumentError, StaICCError
from StaICC.files.json_reading import refuse_device
from StaICC.files.missing import message_about_missing_file
from StaICC.files.output import file_digest, write_output
from StaICC.logs.recognition import is_log, logs_in_folder
from StaICC.report.html import element, join
from StaICC.report.page import report_html
from StaICC.report.parts import Section
from StaICC.report.tables import table
from StaICC.results.copies import SAME_SCORES, Place, places_of, ranked_runs
from StaICC.results.result import Result, ResultGroup, load
from StaICC.results.runs import split_runs
from StaICC.safe_text import one_line

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


FROM_LOGS = "read from logs: the scores are those of the logged samples, nothing else is checked"
"""The status of results that were read from logs of other harnesses."""


def add_leaderboard(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of the command."""
    parser.add_argument(
        "results",
        nargs="+",
        type=Path,
        metavar="RESULT",
        help="folders with results saved by run or with logs, or such files",
    )
    parser.add_argument("--output", "-o", type=Path, default=Path("site"), metavar="SITE", help="default: site")
    parser.add_argument("--title", default="StaICC leaderboard", help="title of the page")
    saved_results.add_metric_options(parser)


@dataclass(frozen=True, slots=True)
class _CheckedFile:
    """A file of a leaderboard, verified."""

    status: str
    remark: str
    """The reason for the status, or who shares its place."""
    result: Result | ResultGroup | None = None
    """Its result; ``None`` if it is not ranked."""
    copy: str | None = None
    """The name of the copy of a result of logs in the site; ``None`` for the name of the file."""


def leaderboard(args: argparse.Namespace) -> output.Printed:
    """Write a static site of all saved results in a folder, each of them verified.

    Every .json file in a folder and its subfolders is verified, as by the command verify; hidden ones are not read.
    Logs of other harnesses are read, and ranked among themselves: their scores are those of the logged samples.
    Results that are recomputed as a whole are ranked with those that are comparable; the others are listed with status
    and reason. Results with the same predictions share one place, with the names of all. To add or remove a run, add or
    remove its file and repeat the command: files that did not change, and whose data did not change, are not verified
    again. Results of LongICL and HELMET are verified with their data, which have to be installed (data install
    long-icl). The site is index.html with copies of the results, and needs no server. Of more than 20 runs it has the
    leaderboards only.

    exit status: 0 if every file is recomputed, 1 if one is not

    examples:
      python -m StaICC leaderboard runs -o site
    """
    if args.output.is_file():
        raise ArgumentError(f"--output: got the file {args.output}, expected a folder for the site")
    copies_folder = (args.output / "results").resolve()
    index = args.output / "index.html"
    _refuse_other_folder(args, copies_folder, index)
    logs = _logs(args.results)
    if not logs:
        saved_results.refuse_metric_options(args)
    name_by_path = _names_of_files(args.results, copies_folder, logs)

    verdicts = VerdictCache()
    saved_files = {name: _check_file(path, verdicts) for path, name in name_by_path.items()}
    files_of_logs = _read_logs(logs, args, used_names=saved_files)
    files = saved_files | files_of_logs
    results = {name: file.result for name, file in files.items() if file.result is not None}
    if not results:
        raise ArgumentError(f"no result is recomputed. {'; '.join(file.remark for file in files.values())}")
    places = _places(results)
    files = _with_remarks_on_places(files, places)

    args.output.mkdir(parents=True, exist_ok=True)
    output.check_output(index, inputs=name_by_path)
    ranked = {name: ResultGroup(name, parts) for name, parts in ranked_runs(places).items()}
    has_too_many_runs = len(ranked) > MOST_RUNS
    page = report_html(ranked, args.title, _section_of_files(files), summary=has_too_many_runs)

    # The page is written last, so that its links are those of the copies.
    ranked_paths = {name: path for path, name in name_by_path.items() if name in results}
    _copy_results(ranked_paths, copies_folder)
    _save_results_of_logs(files_of_logs.values(), copies_folder)
    names_of_copies = {files[name].copy or name for name in results}
    _remove_old_copies(copies_folder, kept=names_of_copies, known_digests=verdicts.files)
    verdicts.save()
    write_output(index, [page.encode("utf-8")])
    for name, file in files.items():
        if file.result is None:
            print(one_line(f"not ranked: {name}: {file.status}: {file.remark}"), file=sys.stderr)
    print(f"{index}: {len(results)} of {len(files)} results are ranked", file=sys.stderr)

    document = []
    for path, name in name_by_path.items():
        document.append({"file": str(path), "status": files[name].status, "found": files[name].remark})
    for name in files_of_logs:
        document.append({"file": name, "status": files[name].status, "found": files[name].remark})
    all_are_ranked = len(results) == len(files)
    return output.Printed(document, (), status=0 if all_are_ranked else 1)


# The files.


def _refuse_other_folder(args: argparse.Namespace, copies_folder: Path, index: Path) -> None:
    """Refuse a folder ``results`` in which copies could replace the user's own results.

    Args:
        args: The arguments of the command.
        copies_folder: The folder for the copies.
        index: The page of the site, which an earlier site has.

    Raises:
        ArgumentError: The folder exists, and the site has no page; or results in it are to be read.
    """
    if not copies_folder.is_dir():
        return
    reads_copies = any(path.resolve().is_relative_to(copies_folder) for path in args.results)
    if reads_copies or not index.exists():
        raise ArgumentError(
            f"{args.output / 'results'} is not the one of an earlier site; copies of results could replace its saving. "
            "Give another folder with -o"
        )


def _logs(given: Iterable[Path]) -> list[Path]:
    """Return the logs of other harnesses: those that are given, and those in given folders."""
    logs = []
    for path in given:
        if path.is_dir():
            logs += logs_in_folder(path)
        elif is_log(path):
            logs.append(path)
    return logs


def _names_of_files(given: Sequence[Path], copies_folder: Path, logs: Sequence[Path]) -> dict[Path, str]:
    """Return the files of results, each with its path in its folder as its name.

    Copies of an earlier site are left out, and so are logs and the files next to them.

    Args:
        given: The given files and folders.
        copies_folder: The folder with the copies of the site.
        logs: The logs of other harnesses.

    Raises:
        ArgumentError: Two files have the same name, or a folder has neither results nor logs.
    """
    folders_of_logs = {log.parent for log in logs}
    names: dict[Path, str] = {}
    for given_path in given:
        if given_path in logs:
            continue
        folder = given_path if given_path.is_dir() else given_path.parent
        has_logs = given_path.is_dir() and any(given_path in log.parents for log in logs)
        for path in saved_results.result_files([given_path], needs_results=not has_logs):
            is_copy = copies_folder in path.resolve().parents
            if is_copy:
                continue
            is_next_to_log = path.parent in folders_of_logs
            if is_next_to_log and output.saved_result_digest(path) is None:
                continue
            names[path] = path.relative_to(folder).with_suffix("").as_posix()
    if len(set(names.values())) < len(names):
        raise ArgumentError("two results have the same name. Give the folder that contains both")
    return names


def _check_file(path: Path, verdicts: VerdictCache) -> _CheckedFile:
    """Return a file of a result with the status of its verification.

    A file that was verified before, with the same data, is not verified again.

    Args:
        path: The file.
        verdicts: The earlier verifications of files that are recomputed; this one is added if the file is.
    """
    try:
        refuse_device(path, expected="the file of a saved result")
        digest = file_digest(path)
        result = load(path)
        split_runs({path.name: result})  # raises an error if a group has two results of one run
        inputs = digest_of_inputs(digest, result, [path.parent, Path()])
        if verdicts.has(digest, inputs):
            return _CheckedFile("recomputed", "", result)
        status = status_of(verify_file(path))
    except FileNotFoundError:
        return _CheckedFile("UNREADABLE", one_line(message_about_missing_file(path)))
    except (StaICCError, OSError) as error:
        return _CheckedFile("UNREADABLE", one_line(str(error)))

    if isinstance(status, Contradicted):
        return _CheckedFile("CONTRADICTED: the file was changed, or is damaged", one_line(status.difference))
    if isinstance(status, Unchecked):
        if status.reason == ONLY_THE_HARNESS_KNOWS:
            return _CheckedFile(FROM_LOGS, "", result)
        return _CheckedFile("UNCHECKED: not ranked", one_line(status.reason))
    verdicts.add(digest, inputs)
    return _CheckedFile("recomputed", "", result)


def _read_logs(logs: Sequence[Path], args: argparse.Namespace, used_names: Collection[str]) -> dict[str, _CheckedFile]:
    """Return the results of logs by name.

    Args:
        logs: The logs.
        args: The arguments of the command.
        used_names: Names that other results have.
    """
    if not logs:
        return {}
    files = {}
    names_of_copies = set(used_names)  # the copy of a saved result has the name of the result
    for name, result in saved_results.read_logs_of_command(logs, args).items():
        unused_name = f"{name} (log)" if name in used_names else name
        copy_name = _copy_name(unused_name)
        while copy_name in names_of_copies:
            copy_name += "_"
        names_of_copies.add(copy_name)
        files[unused_name] = _CheckedFile(FROM_LOGS, remark="", result=result, copy=copy_name)
    return files


def _copy_name(name: str) -> str:
    """Return the name of a result of logs as that of a file: names in logs may be paths that lead anywhere."""
    return "log_" + re.sub(r"[^A-Za-z0-9._-]+", "_", name)[:100]


def _save_results_of_logs(files: Iterable[_CheckedFile], folder: Path) -> None:
    """Save the results of logs in the folder of the copies."""
    folder.mkdir(parents=True, exist_ok=True)
    for file in files:
        if file.result is not None:
            file.result.save(folder / f"{file.copy}.json")


def _copy_results(paths: Mapping[str, Path], folder: Path) -> None:
    """Copy files of results into a folder.

    Args:
        paths: The files by the names of their copies, which may have subfolders: "first/result".
        folder: The folder.
    """
    for name, path in paths.items():
        copy = folder / f"{name}.json"
        copy.parent.mkdir(parents=True, exist_ok=True)
        content = path.read_bytes()
        write_output(copy, [content])


def _remove_old_copies(folder: Path, kept: Collection[str], known_digests: Container[str]) -> None:
    """Remove copies of results that are no longer ranked.

    Args:
        folder: The folder of the copies.
        kept: The names of those that are ranked.
        known_digests: The digests of files that were verified once. Other files are the user's, and stay.
    """
    for copy in folder.rglob("*.json"):
        name = copy.relative_to(folder).with_suffix("").as_posix()
        if name not in kept and file_digest(copy) in known_digests:
            copy.unlink()


# The page.


def _places(results: Mapping[str, Result | ResultGroup]) -> list[Place]:
    """Return the places of the leaderboards of all runs in the results of files."""
    parts_by_run: dict[str, dict[str, Result]] = {}
    for name, result in results.items():
        parts_by_run.update(split_runs({name: result}))
    return places_of(parts_by_run)


def _with_remarks_on_places(files: Mapping[str, _CheckedFile], places: Sequence[Place]) -> dict[str, _CheckedFile]:
    """Return files with remarks on their runs: with which others a run shares a place of the leaderboard.

    Args:
        files: The files by name; those that are not ranked are returned unchanged.
        places: The places of the leaderboards.
    """
    remarks_by_run = _remarks_on_places(places)
    files_with_remarks = dict(files)
    for name, file in files.items():
        if file.result is None:
            continue
        remarks: list[str] = []
        for run in split_runs({name: file.result}):
            remarks += remarks_by_run.get(run, [])
        files_with_remarks[name] = replace(file, remark="; ".join(remarks))
    return files_with_remarks


def _remarks_on_places(places: Sequence[Place]) -> dict[str, list[str]]:
    """Return, for each run, with which others it shares a place, and which have equal labels but other scores."""
    remarks: dict[str, list[str]] = {}
    for place in places:
        for run in place.holders:
            remarks_on_run = _remarks_on_place(place, run)
            if remarks_on_run:
                remarks.setdefault(run, []).extend(remarks_on_run)
    return remarks


def _remarks_on_place(place: Place, run: str) -> list[str]:
    """Return the remarks about a place in the leaderboard, for one of the runs that share it; none if it has it alone.

    Runs share a place if they have equal predictions, as copies of a result have.

    Args:
        place: The place.
        run: The name of the run.
    """
    remarks = []
    others = [holder for holder in place.holders if holder != run]
    if others:
        remarks.append(f"{place.benchmark}: one place with {', '.join(others)}")
    ranges = place.score_ranges()
    if ranges:
        listed = ", ".join(f"{key} {low:.4f} to {high:.4f}" for key, (low, high) in ranges.items())
        remarks.append(f"{place.benchmark}: scores of this place differ ({listed}), those of {place.shown} are shown")
    if place.other_scores:
        listed = ", ".join(place.other_scores)
        remarks.append(f"{place.benchmark}: equal labels in all queries as {listed}, other scores")
    return remarks


def _section_of_files(files: Mapping[str, _CheckedFile]) -> Section:
    """Return the section with the status of each file; those that are ranked come last, with links to their copies."""
    unranked_rows = []
    ranked_rows = []
    for name, file in files.items():
        if file.result is None:
            unranked_rows.append([element("bdi", name), file.status, file.remark])
        else:
            link = element("a", name, href=quote(os.fsencode(f"results/{file.copy or name}.json")))
            ranked_rows.append([link, file.status, file.remark])

    parts = []
    if unranked_rows:
        parts.append(element("p", f"{len(unranked_rows)} of {len(files)} files are not ranked.", class_="warn"))
    columns_of_text = (1, 2)
    parts.append(
        table("Files", ["file", "status", "what was found"], unranked_rows + ranked_rows, words=columns_of_text)
    )
    parts.append(element("p", COPIES, class_="soft"))
    parts.append(element("p", f"Recorded by the runs, and not computed again: {RECORDED}.", class_="soft"))
    return Section("files", "Files", join(parts))

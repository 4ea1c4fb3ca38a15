"""Saved results, or logs of other harnesses, as arguments of commands, one by one or as a folder."""

from __future__ import annotations

import argparse
import sys
from collections import Counter
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from StaICC.argument_syntax import flag
from StaICC.cli.output import saved_result_digest
from StaICC.errors import ArgumentError, StaICCError
from StaICC.files.output import StrPath
from StaICC.logs.recognition import is_log, logs_in_folder
from StaICC.results.files import read_result_file
from StaICC.results.result import Result, ResultGroup, load
from StaICC.safe_text import one_line


def add_results(parser: argparse.ArgumentParser, note: str = "", nargs: str = "+", skip: bool = True) -> None:
    """Add the saved results that a command reads.

    Args:
        parser: The parser of the command, or of its action.
        note: What else its help says.
        nargs: How many there are, in the words of argparse.
        skip: As for :func:`result_files`.
    """
    text = (
        "results saved by run, logs of lm_eval, inspect_ai, HELM or Every Eval Ever, tables of scores, or folders with "
        "such files"
    )
    if note:
        text += f", {note}"
    parser.add_argument("results", nargs=nargs, action=_StoreResultFiles, const=skip, metavar="RESULT", help=text)


class _StoreResultFiles(argparse.Action):
    """Stores the files of results, those in folders included; ``const`` is ``skip`` of :func:`result_files`."""

    def __call__(self, parser: Any, namespace: argparse.Namespace, values: Any, option_string: Any = None) -> None:
        files = result_files(values, skip=bool(self.const))
        setattr(namespace, self.dest, files)
        namespace.found_logs = _found_logs(files, values)


def add_metric_options(parser: argparse.ArgumentParser) -> None:
    """Add the options that say what is not known about a metric of a log: ``--range`` and ``--direction``."""
    parser.add_argument(
        "--range",
        nargs=2,
        type=float,
        metavar=("LOW", "HIGH"),
        help="lowest and highest value of a metric of logs for one sample: of --metric, else where it is not known",
    )
    parser.add_argument(
        "--direction",
        choices=("higher", "lower"),
        help="which values of a metric of logs are better: of --metric, else where it is not known",
    )


def load_of_command(args: argparse.Namespace) -> dict[str, Result | ResultGroup]:
    """Load the saved results and logs that a command names, by name.

    The options ``--range`` and ``--direction`` (:func:`add_metric_options`) are about metrics of logs of other
    harnesses. They are refused if all results are of StaICC, since they would have no effect.

    Args:
        args: The arguments of the command.

    Raises:
        ArgumentError: One of the options was given without a log.
        SchemaError: A file is neither a result nor a log.
    """
    stated = _stated_in_options(args)
    results = load_named(
        args.results,
        value_range=stated.value_range,
        higher_is_better=stated.higher_is_better,
        found_logs=args.found_logs,
    )
    for result in results.values():
        for single_result in result.results():
            is_of_log = bool(single_result.samples)
            if is_of_log:
                return results
    refuse_metric_options(args)
    return results


def refuse_metric_options(args: argparse.Namespace) -> None:
    """Refuse the options ``--range`` and ``--direction``, for a command that got no log of another harness.

    Raises:
        ArgumentError: One of them was given.
    """
    for name in ("range", "direction"):
        if getattr(args, name) is not None:
            raise ArgumentError(
                f"{flag(name)} is about metrics of logs: got results of StaICC only, whose metrics are known. Leave "
                "it out"
            )


def read_logs_of_command(logs: Sequence[StrPath], args: argparse.Namespace) -> dict[str, Result]:
    """Read the logs of a command that has the options of :func:`add_metric_options`, by name.

    Args:
        logs: The logs. One that cannot be read is left out with a warning, unless the command names it.
        args: The arguments of the command.
    """
    from StaICC.logs.reading import read_found_logs, stated_metrics  # only logs need it

    stated = _stated_in_options(args)
    paths = [Path(log) for log in logs]
    optional_logs = _found_logs(paths, args.results)
    return read_found_logs(paths, optional_logs, stated_metrics(stated.value_range, stated.higher_is_better))


@dataclass(frozen=True, slots=True)
class _StatedMetrics:
    """What ``--range`` and ``--direction`` state about metrics of logs.

    With ``--metric``, each value is a mapping for this metric, such as ``{"bleu": (0.0, 100.0)}``. Otherwise it is
    about all metrics for which nothing is known.
    """

    value_range: Any
    """A range such as ``(0.0, 100.0)``; ``None`` if it is not stated."""
    higher_is_better: Any
    """Whether higher values are better; ``None`` if it is not stated."""


def _stated_in_options(args: argparse.Namespace) -> _StatedMetrics:
    """Return what the options of a command state about metrics of logs."""
    value_range: Any = None
    if args.range is not None:
        value_range = tuple(args.range)
    higher_is_better: Any = None
    if args.direction is not None:
        higher_is_better = args.direction == "higher"

    metric = getattr(args, "metric", None)
    if metric is not None:
        if value_range is not None:
            value_range = {metric: value_range}
        if higher_is_better is not None:
            higher_is_better = {metric: higher_is_better}
    return _StatedMetrics(value_range, higher_is_better)


def load_named(
    paths: Sequence[StrPath],
    value_range: Any = None,
    higher_is_better: Any = None,
    found_logs: Collection[Path] = (),
) -> dict[str, Result | ResultGroup]:
    """Load saved results and logs, with the shortest names that distinguish them.

    Args:
        paths: Their files, without duplicates, and folders with such files.
        value_range: The range of metrics of logs, as for :func:`~StaICC.logs.reading.read_logs`.
        higher_is_better: The direction of metrics of logs, as for :func:`~StaICC.logs.reading.read_logs`.
        found_logs: The logs among the files that were found in folders before. One that cannot be read, such as that of
            a run that failed, is left out with a warning.

    Returns:
        The saved results, in order, by file name without suffix, or by path if two files have the same name. Then the
        results of logs by the name of their model.

    Raises:
        ArgumentError: A file is given twice.
        OSError: A file cannot be read.
        SchemaError: A file is not a result, and no log.
    """
    files = result_files(paths)
    for file, count in Counter(files).items():
        if count > 1:
            raise ArgumentError(f"duplicate result: got {file} twice, expected different files")
    saved_files: list[Path] = []
    logs: list[Path] = []
    for file in files:
        if is_log(file):
            logs.append(file)
        else:
            saved_files.append(file)

    results: dict[str, Result | ResultGroup] = {}
    has_distinct_stems = len({file.stem for file in saved_files}) == len(saved_files)
    for file in saved_files:
        name = file.stem if has_distinct_stems else str(file)
        results[name] = load(file)
    states_metrics = value_range is not None or higher_is_better is not None
    if not logs and not states_metrics:
        return results

    from StaICC.logs.reading import read_found_logs, stated_metrics  # only logs, and results of logs, need it
    from StaICC.logs.result_of_scores import with_stated_metrics

    stated = stated_metrics(value_range, higher_is_better)
    for name, saved_result in results.items():
        if isinstance(saved_result, Result):
            results[name] = with_stated_metrics(saved_result, stated)
    if not logs:
        return results
    optional_logs = {*found_logs, *_found_logs(files, paths)}
    for name, result_of_log in read_found_logs(logs, optional_logs, stated).items():
        name_is_taken = name in results
        unused_name = f"{name} (log)" if name_is_taken else name
        results[unused_name] = result_of_log
    return results


def _found_logs(files: Iterable[Path], named: Iterable[StrPath]) -> list[Path]:
    """Return the logs that were found in folders: those of the files that were not named."""
    named_paths = {Path(path) for path in named}
    return [file for file in files if file not in named_paths and is_log(file)]


def result_files(given: Iterable[StrPath], skip: bool = False, needs_results: bool = True) -> list[Path]:
    """Return files of saved results; a folder means the .json files in it and its subfolders, without hidden ones.

    Args:
        given: Files and folders.
        skip: Leave out files of folders that are no results, or copies of others, with a line on stderr.
        needs_results: Whether a folder without such a file is an error.

    Raises:
        ArgumentError: A folder has no such file.
    """
    paths = [Path(path) for path in given]
    files: list[Path] = []
    if not skip:
        for path in paths:
            files += _files_at(path, needs_results)
        return files

    # A file that is named is read, whatever it is; its copies in folders are left out.
    originals = _named_results(paths)
    for path in paths:
        if path.is_dir():
            files += _new_results_in_folder(path, originals)
        else:
            files.append(path)
    return files


def _named_results(paths: Sequence[Path]) -> dict[str, Path]:
    """Return those of the paths that are files of saved results, by the digest of the result.

    They serve to recognise copies in the folders among the paths. So without a folder, no file is read.
    """
    folders = [path for path in paths if path.is_dir()]
    if not folders:
        return {}
    results: dict[str, Path] = {}
    for path in paths:
        if path in folders:
            continue
        digest = saved_result_digest(path)
        if digest is not None:
            results[digest] = path
    return results


def _files_at(path: Path, needs_results: bool) -> list[Path]:
    """Return the file itself, or the .json files of a folder.

    Raises:
        ArgumentError: The folder has no such file, and needs one.
    """
    if not path.is_dir():
        return [path]
    files = _json_files_in_folder(path)
    if needs_results and not files:
        raise _no_result_error(path)
    return files


def _json_files_in_folder(folder: Path) -> list[Path]:
    """Return the .json files of a folder and its subfolders, sorted, without hidden files and folders."""
    files = []
    for file in sorted(folder.rglob("*.json")):
        is_hidden = any(name.startswith(".") for name in file.relative_to(folder).parts)
        if file.is_file() and not is_hidden:
            files.append(file)
    return files


def _new_results_in_folder(folder: Path, originals: dict[str, Path]) -> list[Path]:
    """Return the files of a folder with results that are not copies of earlier ones, then its logs.

    The other .json files are left out, and named on stderr with the reason. Those next to logs are not named:
    harnesses write many kinds of files.

    Args:
        folder: The folder.
        originals: The files of earlier results, by the digest of the result; those of the folder are added.

    Raises:
        ArgumentError: The folder has neither a saved result nor a log.
    """
    digests = {file: saved_result_digest(file) for file in _json_files_in_folder(folder)}
    logs = logs_in_folder(folder)
    if not any(digests.values()) and not logs:
        raise _no_result_error(folder)
    folders_of_logs = {log.parent for log in logs}
    files = []
    for file, digest in digests.items():
        if digest is None:
            if file.parent not in folders_of_logs:
                _say_left_out(_why_no_result(file))
            continue
        original = originals.setdefault(digest, file)
        is_copy = original != file
        if is_copy:  # such as in the site of a leaderboard
            _say_left_out(f"{file} is a copy of {original}")
        else:  # also if this file was named before: the caller refuses duplicates
            files.append(file)
    return files + logs


def _why_no_result(file: Path) -> str:
    """Return why a .json file is no saved result: it cannot be read, or it is another document."""
    try:
        read_result_file(file)
    except (StaICCError, OSError, ValueError) as error:
        return str(error)
    return f"{file} is no saved result"


def _no_result_error(folder: Path) -> ArgumentError:
    return ArgumentError(f"{folder}: the folder has no saved result, expected .json files in it, or logs")


def _say_left_out(reason: str) -> None:
    print(f"left out: {one_line(reason)}", file=sys.stderr)

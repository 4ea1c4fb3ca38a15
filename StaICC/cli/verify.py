"""The command ``verify``: saved results are computed again."""

from __future__ import annotations

import argparse
import contextlib
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict
from functools import cache
from pathlib import Path
from typing import Any

from StaICC import benchmark_names
from StaICC.benchmarks.findings import Contradicted, Recomputed, Status, Unchecked, Verification, status_of
from StaICC.benchmarks.rerunning import Rerun
from StaICC.benchmarks.verify import RECORDED, matching_files, verify_file
from StaICC.cli import model_options, output, saved_results
from StaICC.errors import ArgumentError, StaICCError
from StaICC.files.missing import message_about_missing_file
from StaICC.files.output import StrPath
from StaICC.inference.contract import Inference
from StaICC.layout import Block, Line
from StaICC.results.result import Result, ResultGroup, load
from StaICC.safe_text import one_line

_EXIT_STATUS: Mapping[type[Status], int] = {Contradicted: 1, Unchecked: 3, Recomputed: 0}
"""The exit status for each status of a result, the worst first."""

_UNREAD = 2
"""The exit status if a file cannot be read."""


def add_verify(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of the command."""
    saved_results.add_results(parser, skip=False)
    parser.add_argument("--data-dir", type=Path, metavar="DIR", help="data of LongICL (default: as installed)")
    parser.add_argument(
        "--data",
        type=Path,
        nargs="+",
        action="extend",
        default=[],
        metavar="FILE",
        help="files of own data, under any name (default: searched next to the result and in the current folder)",
    )
    group = parser.add_argument_group("predict again")
    group.add_argument("--rerun", type=int, metavar="N", help="predict N random queries of each result again")
    model_options.add_model(group, "the model of the results, as for run")
    group.add_argument("--seed", type=int, metavar="N", help="choose the queries of an earlier --rerun again")
    model_options.add_text_options(group)
    group.add_argument(
        "--output",
        "-o",
        type=Path,
        metavar="FILE",
        help="write the result with the predictions of --rerun in the place of the saved ones, such as to rank it",
    )


def verify(args: argparse.Namespace) -> output.Printed:
    """Recompute saved results from their records, and their prompts from the data.

    A result is recomputed (every value that a reader quotes follows from its records and the data), contradicted (a
    value differs) or unchecked (a value cannot be computed again here; the reason is printed). With --rerun, some
    queries are predicted again with the model: their accuracy is printed as it is recomputed, and the saved accuracy of
    all queries as a range, since close predictions may differ. A file that cannot be read is named, and the others are
    verified.

    Of several files, one that is recomputed is one line. A single file has a line for each data set, and a line with
    what a run records, which is not computed again.

    exit status: 0 if every result is recomputed, 1 if one is contradicted, 2 if a file cannot be read or --data is
    another file, 3 if a result is unchecked

    examples:
      python -m StaICC verify result.json
      python -m StaICC verify a.json b.json --json
      python -m StaICC verify result.json --rerun 20 --model hf:gpt2
    """
    data_files = _data_files(args)
    args.model = model_options.model_of(args)
    _check_options(args)

    has_several_files = len(args.results) > 1
    findings: dict[Path, list[Verification]] = {}
    load_model = _model_loader(args)
    for path in args.results:
        try:
            rerun = None
            if args.rerun is not None:
                rerun = _rerun(args, path, load_model)
            findings[path] = verify_file(path, data_dir=args.data_dir, data_files=data_files.get(path, ()), rerun=rerun)
        except (StaICCError, OSError) as error:
            if not has_several_files:
                raise
            print(f"staicc: {path}: {_reason(error, path)}", file=sys.stderr)
    if args.output is not None:
        _save_recomputed(findings, args.output)

    document = []
    for path, findings_of_file in findings.items():
        document += [_record(path, finding) for finding in findings_of_file]
    all_are_read = len(findings) == len(set(args.results))
    status = _exit_status(findings) if all_are_read else _UNREAD
    return output.Printed(document, _blocks(findings, with_paths=has_several_files), status)


def _check_options(args: argparse.Namespace) -> None:
    """Refuse options of a rerun that do not belong together.

    Raises:
        ArgumentError: One of them is given without another that it needs.
    """
    has_rerun = args.rerun is not None
    has_model = bool(args.model)
    if has_rerun and args.rerun < 1:
        raise ArgumentError(f"--rerun: got {args.rerun}, expected a number of queries of at least 1")
    if has_rerun != has_model:
        raise ArgumentError("--rerun N and --model belong together: got one of them. Give both")
    if args.output is not None:
        if not has_rerun or len(args.results) > 1:
            raise ArgumentError("-o writes the result of one --rerun: give --rerun N, and one result")
        output.check_output(args.output, inputs=args.results)


def _data_files(args: argparse.Namespace) -> dict[Path, list[StrPath]]:
    """Return the files and folders of ``--data`` for each result that can be read.

    Raises:
        StaICCError: A file is not there, or belongs to none of the results.
    """
    if not args.data:
        return {}
    results: dict[Path, Result | ResultGroup] = {}
    for path in args.results:
        with contextlib.suppress(StaICCError, OSError):  # the error is printed when the result is verified
            results[path] = load(path)
    if not results:
        return {}
    files_of_results = matching_files(list(results.values()), args.data)
    return dict(zip(results, files_of_results, strict=True))


_ModelLoader = Callable[[bool, bool], Inference]
"""Loads a model: whether it generates text by default, and whether it reads prompts as in the published runs."""


def _model_loader(args: argparse.Namespace) -> _ModelLoader:
    """Return a function that loads the model of the command. Equal calls load it once.

    A result is verified with the model that made it. The command ``run`` loads a model in different ways for different
    benchmarks, so a folder of results may need several.
    """

    @cache
    def load_model(prefers_text: bool, as_published: bool) -> Inference:
        """Return the inference function of the model.

        Args:
            prefers_text: Whether text is generated, if the model can, as in runs of LongICL.
            as_published: Whether the model continues the blank at the end of a prompt, as in the published runs of
                LongICL.
        """
        return model_options.load_model(args, prefers_text, as_published).function

    return load_model


def _rerun(args: argparse.Namespace, path: Path, load_model: _ModelLoader) -> Rerun:
    """Return which queries of a saved result are predicted again, and with which model.

    The model is loaded as ``run`` loads it for the benchmark of the result.

    Args:
        args: The arguments of the command.
        path: The file of the result.
        load_model: Loads the model.
    """
    results = list(load(path).results())
    prefers_text = any(benchmark_names.has_long_contexts(result.benchmark) for result in results)
    as_published = any(result.setting("parsing") == "published" for result in results)
    model = load_model(prefers_text, as_published)
    if args.seed is None:
        return Rerun(model, args.rerun)
    return Rerun(model, args.rerun, seed=args.seed)


def _reason(error: Exception, path: Path) -> str:
    """Return why a file cannot be verified, without the path at the start."""
    if isinstance(error, FileNotFoundError):
        return one_line(message_about_missing_file(path))
    reason = error.strerror if isinstance(error, OSError) else None
    return one_line(reason or str(error)).removeprefix(f"{path}: ")


def _save_recomputed(findings: Mapping[Path, Sequence[Verification]], path: Path) -> None:
    """Save the result with the predictions of a rerun.

    Args:
        findings: Those of one file, or none if it could not be read. The last finding of a file has the result.
        path: Where to save it.
    """
    for findings_of_file in findings.values():
        recomputed = findings_of_file[-1].recomputed
        if recomputed is not None:
            recomputed.save(path)


def _exit_status(findings: Mapping[Path, Sequence[Verification]]) -> int:
    """Return the exit status for the results that were read: that of the worst one."""
    statuses = set()
    for findings_of_file in findings.values():
        status = status_of(findings_of_file)
        statuses.add(type(status))
    for kind, exit_status in _EXIT_STATUS.items():
        if kind in statuses:
            return exit_status
    raise AssertionError("no result was verified")


def _record(path: Path, finding: Verification) -> dict[str, Any]:
    """Return the verification of a part of a result file as JSON values.

    Args:
        path: The file.
        finding: The verification.
    """
    record: dict[str, Any] = {
        "file": str(path),
        "benchmark": finding.benchmark,
        "dataset": finding.dataset,
        "status": type(finding.status).__name__.lower(),
        "message": finding.message,
        "same": finding.same,
        "first_difference": finding.first_difference,
        "contradicted": list(finding.contradicted),
        "unchecked": list(finding.unchecked),
    }
    if finding.scores:
        record["scores"] = [asdict(score) for score in finding.scores]
    return record


def _blocks(findings: Mapping[Path, Sequence[Verification]], with_paths: bool) -> list[Block]:
    """Return the findings as lines; of several files, one line for each that is recomputed.

    Args:
        findings: The findings of each file.
        with_paths: Whether there are several files.
    """
    lines: list[str] = []
    for path, findings_of_file in findings.items():
        if with_paths and _is_recomputed(findings_of_file):
            lines.append(_summary(path, findings_of_file))
            continue
        if with_paths:
            lines.append(f"{path}:")
        for finding in findings_of_file:
            lines += _lines(finding)
    if findings and not with_paths:
        lines.append(f"recorded by the run, not computed again: {RECORDED}")
    return [Line(line, "code") for line in lines]


def _is_recomputed(findings: Sequence[Verification]) -> bool:
    """Return whether all is well with a file, and no query was predicted again: one line says it all."""
    has_new_scores = any(finding.scores for finding in findings)
    return isinstance(status_of(findings), Recomputed) and not has_new_scores


def _summary(path: Path, findings: Sequence[Verification]) -> str:
    """Return the line of a file of which every value was computed again and is the same."""
    benchmarks = dict.fromkeys(finding.benchmark for finding in findings if finding.benchmark)
    datasets = {(finding.benchmark, finding.dataset) for finding in findings if finding.dataset}
    count = "1 data set" if len(datasets) == 1 else f"{len(datasets)} data sets"
    return f"recomputed  {path}: {', '.join(benchmarks)}, {count}"


def _lines(finding: Verification) -> list[str]:
    """Return the verification of a part of a result as lines of text.

    The first line has the status, the names of benchmark and data set, and the message. A status other than
    "recomputed" is in capitals, so that it is seen. The other lines are the differences and what was not checked.
    """
    status = type(finding.status).__name__
    if isinstance(finding.status, Recomputed):
        status = status.lower()
    else:
        status = status.upper()
    names = [name for name in (finding.benchmark, finding.dataset) if name]
    message = finding.message
    if isinstance(finding.status, Contradicted) and finding.same:  # that the prompts are the same is no contradiction
        message = f"saved values differ ({message})"
    lines = [f"{status}  {', '.join(names)}: {message}"]
    lines += [f"    {difference}" for difference in finding.contradicted]
    lines += [f"    unchecked: {reason}" for reason in finding.unchecked]
    return lines

"""The command ``verify``: saved results are computed again."""

from __future__ import annotations

import argparse
import contextlib
import os
import sys
from collections.abc import Callable
from dataclasses import asdict
from functools import cache
from pathlib import Path
from typing import Any

from StaICC import benchmark_names
from StaICC.benchmarks import verify as checks
from StaICC.benchmarks.findings import Contradicted, Recomputed, Status, Unchecked, Verification, status_of
from StaICC.benchmarks.rerunning import Rerun
from StaICC.benchmarks.verify import RECORDED
from StaICC.cli import model_options, output, saved_results
from StaICC.errors import ArgumentError, StaICCError
from StaICC.layout import Block, Line
from StaICC.results.result import Result, ResultGroup, load
from StaICC.safe_text import one_line

_EXIT: dict[type[Status], int] = {Contradicted: 1, Unchecked: 3, Recomputed: 0}


def add_verify(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of the command."""
    add = parser.add_argument
    saved_results.add_results(parser, skip=False)
    add("--data-dir", type=Path, metavar="DIR", help="data of LongICL (default: as installed)")
    text = "files of own data, under any name (default: searched next to the result and in the current folder)"
    add("--data", type=Path, nargs="+", action="extend", default=[], metavar="FILE", help=text)
    group = parser.add_argument_group("predict again")
    group.add_argument("--rerun", type=int, metavar="N", help="predict N random queries of each result again")
    model_options.add_model(group, "the model of the results, as for run")
    group.add_argument("--seed", type=int, metavar="N", help="choose the queries of an earlier --rerun again")
    model_options.add_text_options(group)
    text = "write the result with the predictions of --rerun in the place of the saved ones, such as to rank it"
    group.add_argument("--output", "-o", type=Path, metavar="FILE", help=text)


def verify(args: argparse.Namespace) -> output.Printed:
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
    args.model = model_options.model_of(args)
    if (args.rerun is None) is not (not args.model):
        raise ArgumentError("--rerun N and --model belong together: got one of them. Give both")
    if args.output is not None:
        if args.rerun is None or len(args.results) > 1:
            raise ArgumentError("-o writes the result of one --rerun: give --rerun N, and one result")
        output.check_output(args.output, inputs=args.results)
    model = cache(lambda of_long_icl: model_options.load_model(args, of_long_icl).function)
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
    return output.Printed(document, blocks, 2 if unread else next(_EXIT[kind] for kind in _EXIT if kind in kinds))


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

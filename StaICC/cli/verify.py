"""``python -m StaICC verify``: recompute saved results from their records, and their prompts from the data.

A result is recomputed (every value that a reader quotes follows from its records and the data), contradicted (a value
differs) or unchecked (a value cannot be computed again here; the reason is printed). With --rerun, some queries are
predicted again with the model.

exit status: 0 if every result is recomputed, 1 if one is contradicted, 2 if a file cannot be read or --data is another
file, 3 if a result is unchecked

examples:
  python -m StaICC verify result.json
  python -m StaICC verify a.json b.json --json
  python -m StaICC verify result.json --rerun 20 --model hf:gpt2
"""

from __future__ import annotations

import argparse
import contextlib
import os
import sys
from pathlib import Path
from typing import Any

from StaICC.benchmarks.verify import (
    RECORDED,
    Contradicted,
    Recomputed,
    Rerun,
    Status,
    Unchecked,
    Verification,
    matching_files,
    status_of,
    verify_file,
)
from StaICC.cli import long_icl
from StaICC.cli.files import print_json
from StaICC.cli.run import add_model_options, add_text_options, load_model, model_of
from StaICC.errors import ArgumentError, StaICCError
from StaICC.results import Result, ResultGroup, load
from StaICC.safe_text import one_line


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of the command."""
    parser.add_argument("results", nargs="+", type=Path, metavar="RESULT", help="results saved by run --json")
    parser.add_argument("--data-dir", type=Path, metavar="DIR", help="data of LongICL (default: as installed)")
    parser.add_argument(
        "--data",
        type=Path,
        nargs="+",
        default=[],
        metavar="FILE",
        help="files of own data, under any name (default: searched next to the result and in the current folder)",
    )
    parser.add_argument("--json", action="store_true", help="print JSON instead of lines")
    group = parser.add_argument_group("predict again")
    group.add_argument("--rerun", type=int, metavar="N", help="predict N random queries of each result again")
    group.add_argument("--model", help="the model of the results, as for run")
    group.add_argument("--seed", type=int, metavar="N", help="choose the queries of an earlier --rerun again")
    add_model_options(group)
    add_text_options(group)


def run(args: argparse.Namespace) -> int:
    """Verify the results. A file that cannot be read is named, and the others are verified.

    Returns:
        The exit status (see the module); of several results the one that comes first in the order 2, 1, 3, 0.
    """
    found: dict[Path, list[Verification]] = {}
    unreadable = []
    data = _data_files(args)
    if (args.rerun is None) != (args.model is None):
        raise ArgumentError("--rerun N and --model belong together: got one of them. Give both")
    args.model = None if args.model is None else model_of(args)
    models: dict[bool, Any] = {}  # of LongICL, and of all other benchmarks
    for path in args.results:
        try:
            rerun = None if args.rerun is None else _rerun(args, path, models)
            found[path] = verify_file(path, data_dir=args.data_dir, data_files=data.get(path, ()), rerun=rerun)
        except (StaICCError, OSError) as error:
            if len(args.results) == 1:
                raise
            unreadable.append(path)
            print(f"staicc: {path}: {one_line(getattr(error, 'strerror', None) or str(error))}", file=sys.stderr)
    if args.json:
        print_json([_plain(path, one) for path, findings in found.items() for one in findings], indent=1)
    else:
        for path, findings in found.items():
            if len(args.results) > 1:
                print(f"{path}:")
            _print_findings(findings)
        if found:
            print(f"recorded by the run, not computed again: {RECORDED}")
    if unreadable:
        return 2
    return min((_EXIT[type(status_of(findings))] for findings in found.values()), key=(1, 3, 0).index)


_EXIT: dict[type[Status], int] = {Recomputed: 0, Contradicted: 1, Unchecked: 3}


def _rerun(args: argparse.Namespace, path: Path, models: dict[bool, Any]) -> Rerun:
    """Return which queries to predict again, with the model as ``run`` loads it for the benchmark of the result."""
    of_long_icl = any(one.benchmark == "LongICL" for one in load(path).results())
    if of_long_icl not in models:
        models[of_long_icl] = long_icl.load_model(args)[0] if of_long_icl else load_model(args)
    return Rerun(models[of_long_icl], args.rerun, **({} if args.seed is None else {"seed": args.seed}))


def _data_files(args: argparse.Namespace) -> dict[Path, list[str | os.PathLike[str]]]:
    """Return the files and folders of ``--data`` for each result that can be read.

    Raises:
        StaICCError: A file is not there, or belongs to none of the results.
    """
    if not args.data:
        return {}
    results: dict[Path, Result | ResultGroup] = {}
    for path in args.results:
        with contextlib.suppress(StaICCError, OSError):  # named when it is verified
            results[path] = load(path)
    if not results:
        return {}
    return dict(zip(results, matching_files(list(results.values()), args.data), strict=True))


def _plain(path: Path, one: Verification) -> dict[str, Any]:
    return {
        "file": str(path),
        "benchmark": one.benchmark,
        "dataset": one.dataset,
        "status": type(one.status).__name__.lower(),
        "message": one.message,
        "same": one.same,
        "first_difference": one.first_difference,
        "contradicted": list(one.contradicted),
        "unchecked": list(one.unchecked),
    }


def _print_findings(findings: list[Verification]) -> None:
    for one in findings:
        status = type(one.status)
        word = status.__name__.lower() if status is Recomputed else status.__name__.upper()
        print(f"{word}  {', '.join(filter(None, (one.benchmark, one.dataset)))}: {one.message}")
        for line in one.contradicted:
            print(f"    {line}")
        for line in one.unchecked:
            print(f"    unchecked: {line}")

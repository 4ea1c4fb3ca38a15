"""``verify``: recompute saved results."""

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
from StaICC.cli.benchmark_options import add_model_options, add_text_options, load_model, model_of
from StaICC.cli.files import print_json
from StaICC.errors import ArgumentError, StaICCError
from StaICC.results import Result, ResultGroup, load
from StaICC.safe_text import one_line

_EXIT: dict[type[Status], int] = {Recomputed: 0, Contradicted: 1, Unchecked: 3}


def add_verify(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of the command."""
    add = parser.add_argument
    add("results", nargs="+", type=Path, metavar="RESULT", help="results saved by run --json")
    add("--data-dir", type=Path, metavar="DIR", help="data of LongICL (default: as installed)")
    text = "files of own data, under any name (default: searched next to the result and in the current folder)"
    add("--data", type=Path, nargs="+", default=[], metavar="FILE", help=text)
    add("--json", action="store_true", help="print JSON instead of lines")
    group = parser.add_argument_group("predict again")
    group.add_argument("--rerun", type=int, metavar="N", help="predict N random queries of each result again")
    group.add_argument("--model", help="the model of the results, as for run")
    group.add_argument("--seed", type=int, metavar="N", help="choose the queries of an earlier --rerun again")
    add_model_options(group)
    add_text_options(group)


def verify(args: argparse.Namespace) -> int:
    """Recompute saved results from their records, and their prompts from the data.

    A result is recomputed (every value that a reader quotes follows from its records and the data), contradicted (a
    value differs) or unchecked (a value cannot be computed again here; the reason is printed). With --rerun, some
    queries are predicted again with the model. A file that cannot be read is named, and the others are verified.

    exit status: 0 if every result is recomputed, 1 if one is contradicted, 2 if a file cannot be read or --data is
    another file, 3 if a result is unchecked

    examples:
      python -m StaICC verify result.json
      python -m StaICC verify a.json b.json --json
      python -m StaICC verify result.json --rerun 20 --model hf:gpt2
    """
    checked: dict[Path, list[Verification]] = {}
    data = _data_files(args)
    if (args.rerun is None) != (args.model is None):
        raise ArgumentError("--rerun N and --model belong together: got one of them. Give both")
    args.model = None if args.model is None else model_of(args)
    models: dict[bool, Any] = {}  # of LongICL, and of all other benchmarks
    for path in args.results:
        try:
            rerun = None if args.rerun is None else _rerun(args, path, models)
            checked[path] = verify_file(path, data_dir=args.data_dir, data_files=data.get(path, ()), rerun=rerun)
        except (StaICCError, OSError) as error:
            if len(args.results) == 1:
                raise
            print(f"staicc: {path}: {one_line(getattr(error, 'strerror', None) or str(error))}", file=sys.stderr)
    if args.json:
        print_json([_plain(path, part) for path, parts in checked.items() for part in parts], indent=1)
    else:
        for path, parts in checked.items():
            if len(args.results) > 1:
                print(f"{path}:")
            _print_parts(parts)
        if checked:
            print(f"recorded by the run, not computed again: {RECORDED}")
    if len(checked) < len({*args.results}):
        return 2
    return min((_EXIT[type(status_of(parts))] for parts in checked.values()), key=(1, 3, 0).index)


def _rerun(args: argparse.Namespace, path: Path, models: dict[bool, Any]) -> Rerun:
    """Return which queries to predict again, with the model as ``run`` loads it for the benchmark of the result."""
    of_long_icl = any(part.benchmark == "LongICL" for part in load(path).results())
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


def _plain(path: Path, part: Verification) -> dict[str, Any]:
    fields = ("benchmark", "dataset", "status", "message", "same", "first_difference", "contradicted", "unchecked")
    values = {field: getattr(part, field) for field in fields}
    values |= {field: list(values[field]) for field in ("contradicted", "unchecked")}
    return {"file": str(path), **values, "status": type(part.status).__name__.lower()}


def _print_parts(parts: list[Verification]) -> None:
    for part in parts:
        status = type(part.status)
        word = status.__name__.lower() if status is Recomputed else status.__name__.upper()
        print(f"{word}  {', '.join(filter(None, (part.benchmark, part.dataset)))}: {part.message}")
        for line in (*part.contradicted, *(f"unchecked: {line}" for line in part.unchecked)):
            print(f"    {line}")

"""``python -m StaICC verify``: recompute saved results from their records, and their prompts from the data.

exit status: 0 if everything checkable is consistent, 1 if not, 2 if a file cannot be read or --data is another file

examples:
  python -m StaICC verify result.json
  python -m StaICC verify a.json b.json --json
"""

from __future__ import annotations

import argparse
import contextlib
import dataclasses
import os
import sys
from pathlib import Path
from typing import Any

from StaICC.benchmarks.verify import Verification, matching_files, verify_file
from StaICC.cli.files import print_json
from StaICC.errors import StaICCError
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


def run(args: argparse.Namespace) -> int:
    """Verify the results. A file that cannot be read is named, and the others are verified.

    Returns:
        The exit status: 1 if a result is inconsistent, 2 if one of several cannot be read.
    """
    found: dict[Path, list[Verification]] = {}
    unreadable = []
    data = _data_files(args)
    for path in args.results:
        try:
            found[path] = verify_file(path, data_dir=args.data_dir, data_files=data.get(path, ()))
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
    if unreadable:
        return 2
    return 0 if all(one.consistent for findings in found.values() for one in findings) else 1


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
    return {"file": str(path), **dataclasses.asdict(one), "consistent": one.consistent}


def _print_findings(findings: list[Verification]) -> None:
    skipped: dict[str, int] = {}
    for number, one in enumerate(findings):
        place = (
            f"{one.benchmark}, {one.dataset}" if one.dataset else f"{one.benchmark}, {'means' if number else 'file'}"
        )
        verdict = "consistent" if one.consistent else "INCONSISTENT"
        print(f"{verdict}  {place}: {one.message}" + (f" (checked: {', '.join(one.checked)})" if one.checked else ""))
        for line in one.inconsistent:
            print(f"    {line}")
        for line in one.not_checkable:
            skipped[line] = skipped.get(line, 0) + 1
    for line, times in skipped.items():
        print(f"not checkable  {line}" + (f" ({times} times)" if times > 1 else ""))

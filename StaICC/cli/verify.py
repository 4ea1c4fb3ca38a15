"""``python -m StaICC verify``: check that a saved result was asked the prompts that this library asks."""

from __future__ import annotations

import argparse
import dataclasses
import json
from pathlib import Path

from StaICC.benchmarks.verify import verify
from StaICC.results import load

__all__ = ["EPILOG", "add_arguments", "run"]

EPILOG = """\
examples:
  python -m StaICC verify result.json
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of ``verify`` to its parser.

    Args:
        parser: The parser of the subcommand.
    """
    parser.add_argument("result", type=Path, metavar="RESULT", help="a result that run --json saved")
    parser.add_argument("--data-dir", type=Path, metavar="DIR", help="data of LongICL (default: as installed)")
    parser.add_argument("--json", action="store_true", help="print JSON instead of lines")


def run(args: argparse.Namespace) -> int:
    """Verify the result.

    Args:
        args: The parsed arguments.

    Returns:
        The exit status: 1 if some prompt differs.
    """
    found = verify(load(args.result), data_dir=args.data_dir)
    if args.json:
        print(json.dumps([dataclasses.asdict(one) for one in found], indent=1))
    else:
        for one in found:
            print(f"{'same' if one.same else 'DIFFERS'}  {one.benchmark}, {one.dataset}: {one.message}")
    return 0 if all(one.same for one in found) else 1

"""``python -m StaICC compare``: compare saved results in pairs, query by query."""

from __future__ import annotations

import argparse
import sys

from StaICC.cli.files import load_named
from StaICC.results.comparison_formats import FORMATS, compare_all, format_comparisons

__all__ = ["EPILOG", "add_arguments", "run"]

EPILOG = """\
Each result is compared with the first. Both must have been asked the same prompts: results whose signatures differ are
refused, naming the part that differs.

examples:
  python -m StaICC compare a.json b.json
  python -m StaICC compare a.json b.json c.json --format markdown
  python -m StaICC compare a.json b.json --json
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of ``compare`` to its parser.

    Args:
        parser: The parser of the subcommand.
    """
    parser.add_argument("results", nargs="+", metavar="RESULT", help="results that run --json saved, two at least")
    parser.add_argument(
        "--format", choices=tuple(FORMATS), default="text", help=f"{', '.join(FORMATS)} (default: text)"
    )
    parser.add_argument("--json", action="store_true", help="the same as --format json")
    parser.add_argument("--seed", default="StaICC", help="text from which permutations and resamples are drawn")


def run(args: argparse.Namespace) -> int:
    """Compare the results.

    Args:
        args: The parsed arguments.

    Returns:
        The exit status.

    Raises:
        StaICCError: The results cannot be read or compared.
    """
    found, left_out = compare_all(load_named(args.results), args.seed)
    print(format_comparisons(found, "json" if args.json else args.format))
    if left_out:
        print(f"left out: {', '.join(left_out)}", file=sys.stderr)
    return 0

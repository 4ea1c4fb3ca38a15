"""``python -m StaICC compare``: compare saved results with paired significance tests.

All pairs of results are compared, test row by test row, by the main metric of their benchmark or the one of --metric.
The runs must have the same test rows and true labels; prompts, methods and settings may differ, and each difference is
listed. Data sets and queries that are not compared are named with the reason.

examples:
  python -m StaICC compare a.json b.json
  python -m StaICC compare a.json b.json --metric macro_F1 --margin 0.01
  python -m StaICC compare a.json b.json c.json --format markdown
  python -m StaICC compare a.json b.json --json
"""

from __future__ import annotations

import argparse
import sys

from StaICC.cli.files import STDOUT, load_named, write_text
from StaICC.results.comparison import FORMATS, compare_all, format_comparisons


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of the command."""
    parser.add_argument("results", nargs="+", metavar="RESULT", help="results saved by run --json, at least two")
    parser.add_argument("--metric", metavar="NAME", help="a score with a mean over data sets (default: the main one)")
    parser.add_argument(
        "--margin", type=float, metavar="M", help="also test that a run is not worse than the other by more than M"
    )
    parser.add_argument(
        "--format", choices=tuple(FORMATS), default="text", help=f"{', '.join(FORMATS)} (default: text)"
    )
    parser.add_argument("--json", action="store_true", help="the same as --format json")


def run(args: argparse.Namespace) -> int:
    """Compare the results.

    Returns:
        The exit status.

    Raises:
        StaICCError: The results cannot be read or compared.
    """
    found, left_out = compare_all(load_named(args.results), args.metric, margin=args.margin)
    text = format_comparisons(found, "json" if args.json else args.format)
    if args.json or args.format in ("json", "csv"):
        write_text(STDOUT, [text, "\n"])
    else:
        print(text)
    if left_out:
        print(f"left out: {'; '.join(left_out)}", file=sys.stderr)
    return 0

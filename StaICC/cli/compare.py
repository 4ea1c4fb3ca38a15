"""The commands that compare saved results pairwise: ``compare``, ``rank``."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable, Iterable, Sequence
from functools import partial

from StaICC.cli.output import STDOUT, print_fitted, write_text
from StaICC.cli.parser import add_arguments
from StaICC.cli.saved_results import add_results, load_named
from StaICC.comparing import ranking
from StaICC.comparing.comparison import compare_all, display_comparisons, of_benchmarks
from StaICC.comparing.formats import FORMATS, RANKING_FORMATS, format_comparisons, format_rankings
from StaICC.layout import Block, Line


def add_compare(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of the command."""
    add_results(parser, "at least two")
    add_arguments(parser, compare_all, "metric", "margin")
    _add_format(parser, FORMATS)


def _add_format(parser: argparse.ArgumentParser, formats: Iterable[str]) -> None:
    text = f"{', '.join(formats)} (default: text)"
    parser.add_argument("--format", choices=tuple(formats), default="text", help=text)
    parser.add_argument("--json", dest="format", action="store_const", const="json", help="the same as --format json")


def compare(args: argparse.Namespace) -> None:
    """Compare saved results with paired significance tests.

    All pairs of results are compared, test row by test row, by the main metric of their benchmark or the one of
    --metric. The runs must have the same test rows and true labels; prompts, methods and settings may differ, and each
    difference is listed. Data sets and queries that are not compared are named with the reason.

    examples:
      python -m StaICC compare a.json b.json
      python -m StaICC compare a.json b.json --metric macro_F1 --margin 0.01
      python -m StaICC compare a.json b.json c.json --format markdown
      python -m StaICC compare a.json b.json --json
    """
    comparisons, left_out = compare_all(load_named(args.results), args.metric, margin=args.margin)
    _print(args, display_comparisons(comparisons), partial(format_comparisons, comparisons), left_out)


def _print(
    args: argparse.Namespace, blocks: Iterable[Block], write: Callable[[str], str], left_out: Sequence[str]
) -> None:
    """Print blocks, or what is written in another format, and name what is left out."""
    if args.format == "text":
        print_fitted(blocks)
    else:
        write_text(STDOUT, [write(args.format), "\n"], args.format in ("json", "csv"))
    if left_out:
        print(f"left out: {'; '.join(left_out)}", file=sys.stderr)


def add_rank(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of the command."""
    add_results(parser, "at least two")
    add_arguments(parser, ranking.rank, "metric")
    _add_format(parser, RANKING_FORMATS)


def rank(args: argparse.Namespace) -> None:
    """Rank saved results, with intervals of ranks.

    All pairs of results are tested as by compare. The intervals of ranks together contain all true ranks with
    probability 0.95. Next to them: groups of runs that are not shown to differ, and the range of ranks over
    templates or demonstrations.

    examples:
      python -m StaICC rank runs
      python -m StaICC rank a.json b.json c.json --metric macro_F1 --format latex
      python -m StaICC rank runs --json
    """
    ranked = partial(ranking.rank, metric=args.metric)
    rankings, left_out = of_benchmarks(load_named(args.results), ranked)
    blocks = [block for place in rankings for block in (*place.display_blocks(), Line(""))][:-1]
    _print(args, blocks, partial(format_rankings, rankings), left_out)

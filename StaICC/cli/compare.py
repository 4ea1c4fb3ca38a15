"""The commands that compare saved results pairwise: ``compare``, ``rank``."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterable, Sequence
from functools import partial

from StaICC.cli.output import STDOUT, print_fitted, write_text
from StaICC.cli.parser import add_arguments
from StaICC.cli.saved_results import add_metric_options, add_results, load_of_command
from StaICC.comparing import ranking
from StaICC.comparing.comparison import compare_all, of_benchmarks
from StaICC.comparing.comparison_results import display_comparisons
from StaICC.comparing.formats import FORMATS, RANKING_FORMATS, format_comparisons, format_rankings
from StaICC.layout import Block, Line


def _add_format(parser: argparse.ArgumentParser, formats: Iterable[str]) -> None:
    """Add the options ``--format`` and, as another name of one format, ``--json``."""
    parser.add_argument(
        "--format", choices=tuple(formats), default="text", help=f"{', '.join(formats)} (default: text)"
    )
    parser.add_argument("--json", dest="format", action="store_const", const="json", help="the same as --format json")


def add_compare(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of the command."""
    add_results(parser, "at least two")
    add_arguments(parser, compare_all, "metric", "margin")
    add_metric_options(parser)
    _add_format(parser, FORMATS)


def compare(args: argparse.Namespace) -> None:
    """Compare saved results with paired significance tests.

    All pairs of results are compared, test row by test row, by the main metric of their benchmark or the one of
    --metric. Logs of other harnesses are compared sample by sample. The runs must have the same test rows and true
    labels; prompts, methods and settings may differ, and each difference is listed. Data sets and queries that are not
    compared are named with the reason.

    examples:
      python -m StaICC compare a.json b.json
      python -m StaICC compare a.json b.json --metric macro_F1 --margin 0.01
      python -m StaICC compare a.json b.json c.json --format markdown
      python -m StaICC compare a.json b.json --json
      python -m StaICC compare out/first_model out/second_model --metric acc_norm
      python -m StaICC compare a.csv b.csv --range 0 100
    """
    results = load_of_command(args)
    comparisons, left_out = compare_all(results, args.metric, margin=args.margin)
    if args.format == "text":
        print_fitted(display_comparisons(comparisons))
    else:
        _write(format_comparisons(comparisons, args.format), args.format)
    _name_left_out(left_out)


def add_rank(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of the command."""
    add_results(parser, "at least two")
    add_arguments(parser, ranking.rank, "metric")
    add_metric_options(parser)
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
    results = load_of_command(args)
    rankings, left_out = of_benchmarks(results, partial(ranking.rank, metric=args.metric))
    if args.format == "text":
        print_fitted(_ranking_blocks(rankings))
    else:
        _write(format_rankings(rankings, args.format), args.format)
    _name_left_out(left_out)


def _ranking_blocks(rankings: Sequence[ranking.Ranking]) -> list[Block]:
    """Return the rankings of several benchmarks, with an empty line between them."""
    blocks: list[Block] = []
    for single_ranking in rankings:
        if blocks:
            blocks.append(Line(""))
        blocks += single_ranking.display_blocks()
    return blocks


def _write(text: str, form: str) -> None:
    """Write a comparison in one of the other formats to stdout."""
    write_text(STDOUT, [text, "\n"], as_json=form in ("json", "csv"))


def _name_left_out(reasons: Sequence[str]) -> None:
    """Name on stderr the results that were not compared, with the reasons."""
    if reasons:
        print(f"left out: {'; '.join(reasons)}", file=sys.stderr)

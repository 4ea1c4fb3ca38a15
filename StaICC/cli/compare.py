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
from StaICC.comparing.benchmark_comparison import display_comparisons
from StaICC.comparing.comparison import compare_all, of_benchmarks
from StaICC.comparing.formats import FORMATS, RANKING_FORMATS, TableOfRuns, format_comparisons, format_tables
from StaICC.comparing.several_metrics import compare_metrics
from StaICC.comparing.subgroups import compare_subgroups
from StaICC.errors import ArgumentError
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
    parser.add_argument(
        "--metric",
        action="append",
        help="a score, such as macro_F1; by default the main one of each benchmark. Given several times, it compares "
        "by several metrics, with p-values corrected for all of them",
    )
    add_arguments(parser, compare_all, "margin")
    add_metric_options(parser)
    parser.add_argument(
        "--by",
        metavar="COLUMN",
        help="compare on subgroups of the test rows: label for the rows of each true label, or a column that own data "
        "were read with (run --subgroups)",
    )
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
      python -m StaICC compare a.json b.json --metric accuracy --metric macro_F1
      python -m StaICC compare a.json b.json --by label
    """
    metrics = args.metric or []
    if len(metrics) > 1:
        _compare_metrics(args, metrics)
        return
    args.metric = metrics[0] if metrics else None
    if args.by is not None:
        _compare_subgroups(args)
        return
    results = load_of_command(args)
    comparisons, left_out = compare_all(results, args.metric, margin=args.margin)
    if args.format == "text":
        print_fitted(display_comparisons(comparisons))
    else:
        _write(format_comparisons(comparisons, args.format), args.format)
    named_in_tables: set[str] = set()
    for comparison in comparisons:
        for pair in comparison.comparisons:
            named_in_tables.update(pair.left_out)
    _name_left_out([reason for reason in left_out if reason not in named_in_tables])


def _compare_subgroups(args: argparse.Namespace) -> None:
    """Compare saved results on subgroups of their test rows."""
    if args.margin is not None:
        raise ArgumentError("--margin: it is about all test rows. Leave out --by or --margin")
    _check_table_format(args.format, "--by")
    results = load_of_command(args)
    pairs_by_benchmark, left_out = of_benchmarks(results, partial(compare_subgroups, by=args.by, metric=args.metric))
    pairs: list[TableOfRuns] = []
    for pairs_of_benchmark in pairs_by_benchmark:
        pairs += pairs_of_benchmark
    _write_tables(pairs, args.format)
    _name_left_out(left_out)


def _compare_metrics(args: argparse.Namespace, metrics: Sequence[str]) -> None:
    """Compare saved results by several metrics, with one correction."""
    for option, value in (("--by", args.by), ("--margin", args.margin)):
        if value is not None:
            raise ArgumentError(f"{option}: got it with {len(metrics)} metrics, but it is for one. Give --metric once")
    _check_table_format(args.format, "several metrics")
    args.metric = None  # a stated range or direction is for each metric where it is not known
    results = load_of_command(args)
    compared, left_out = of_benchmarks(results, partial(compare_metrics, metrics=metrics))
    _write_tables(compared, args.format)
    _name_left_out(left_out)


def _check_table_format(form: str, option: str) -> None:
    """Raise an error if an option has no output in a format."""
    if form not in RANKING_FORMATS:
        raise ArgumentError(f"--format: got {form} with {option}, expected one of {', '.join(RANKING_FORMATS)}")


def _write_tables(tables: Sequence[TableOfRuns], form: str) -> None:
    """Write objects that have one table each, with an empty line between them."""
    if form == "text":
        print_fitted(_separated(tables))
    else:
        _write(format_tables(tables, form), form)


def _separated(tables: Sequence[TableOfRuns]) -> list[Block]:
    """Return the blocks of objects that are printed, with an empty line between them."""
    blocks: list[Block] = []
    for table in tables:
        if blocks:
            blocks.append(Line(""))
        blocks += table.display_blocks()
    return blocks


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
    _write_tables(rankings, args.format)
    _name_left_out(left_out)


def _write(text: str, form: str) -> None:
    """Write a comparison in one of the other formats to stdout."""
    write_text(STDOUT, [text, "\n"], as_json=form in ("json", "csv"))


def _name_left_out(reasons: Sequence[str]) -> None:
    """Name on stderr the results that were not compared, with the reasons."""
    if reasons:
        print(f"left out: {'; '.join(reasons)}", file=sys.stderr)

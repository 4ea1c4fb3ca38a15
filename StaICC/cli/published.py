"""The command ``published``: the figures of the papers."""

from __future__ import annotations

import argparse
import dataclasses
from collections.abc import Sequence

from StaICC.cli.output import Printed
from StaICC.cli.parser import add_arguments
from StaICC.cli.saved_results import load_named
from StaICC.comparing.published import PublishedFigure, published_figures
from StaICC.comparing.published_comparison import compare_with_published, display_published
from StaICC.errors import ArgumentError
from StaICC.layout import Block, Line, TextTable
from StaICC.results.runs import split_runs


def add_published(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of the command."""
    add_arguments(parser, published_figures, "benchmark", "model", "method", "dataset", "metric")
    parser.add_argument("--result", metavar="RESULT", help="a saved result to compare with the published figures")


def published(args: argparse.Namespace) -> Printed:
    """Print the figures of the papers, or compare a saved result with them.

    Figures are as printed; percentages of LongICLBench are converted to shares. A number in brackets, such as [1],
    refers to a warning below the table. With --result, the figures of a saved result are compared with published ones
    if both measure the same; otherwise the reason is printed.

    examples:
      python -m StaICC published
      python -m StaICC published --method hidden-calibration
      python -m StaICC published --model Pythia --metric macro_F1
      python -m StaICC published --benchmark diagnosis --json
      python -m StaICC published --benchmark long-icl --dataset banking77
      python -m StaICC published --result result.json
    """
    if args.result is not None:
        return _compare_with_papers(args)
    figures = published_figures(
        args.benchmark, model=args.model, method=args.method, dataset=args.dataset, metric=args.metric
    )
    if not figures:
        raise ArgumentError("no published figure matches all of these options; remove one of them")
    document = [{**dataclasses.asdict(figure), "doubtful": figure.doubtful} for figure in figures]

    of_one_benchmark = [figure for figure in figures if figure.benchmark == figures[0].benchmark]
    methods = {figure.method for figure in of_one_benchmark}
    models = {figure.model for figure in of_one_benchmark}
    fits_page = len(methods) == 1 or len(models) <= 3
    if args.metric is None and not fits_page:
        of_one_metric = [figure for figure in of_one_benchmark if figure.metric == "accuracy"]
        return Printed(document, _figure_blocks(of_one_metric))
    return Printed(document, _figure_blocks(of_one_benchmark))


def _figure_blocks(figures: Sequence[PublishedFigure]) -> list[Block]:
    """Return figures as a table, with numbered warnings and the sources below.

    Columns are methods if there are several and one metric, otherwise metrics. Each combination of the other fields
    is a row.
    """
    has_several_methods = len({figure.method for figure in figures}) > 1
    has_one_metric = len({figure.metric for figure in figures}) == 1
    column_field = "method" if has_several_methods and has_one_metric else "metric"
    columns = list(dict.fromkeys(getattr(figure, column_field) for figure in figures))
    row_fields = []
    for field in ("model", "method", "dataset"):
        if field != column_field and any(getattr(figure, field) for figure in figures):
            row_fields.append(field)

    note_numbers: dict[str, int] = {}
    cells_by_row: dict[tuple[str, ...], dict[str, str]] = {}  # by the values of the row fields, then by column
    for figure in figures:
        row = tuple(getattr(figure, field) or "" for field in row_fields)
        column = getattr(figure, column_field)
        cells_by_row.setdefault(row, {})[column] = _figure_cell(figure, note_numbers)

    table_rows = []
    for row, cells_by_column in cells_by_row.items():
        cells = [cells_by_column.get(column, "") for column in columns]
        table_rows.append([*row, *cells])
    notes = [Line(f"[{number}] {note}") for note, number in note_numbers.items()]
    sources = dict.fromkeys(figure.source for figure in figures if figure.value is not None)
    lines_of_sources = [Line(f"source: {source}") for source in sources]
    return [TextTable([*row_fields, *columns], table_rows), *notes, *lines_of_sources]


def _figure_cell(figure: PublishedFigure, note_numbers: dict[str, int]) -> str:
    """Return a figure with the numbers of its notes, such as ``0.5678[1][3]``; new notes get the next number.

    Args:
        figure: The figure.
        note_numbers: The number of each note so far; new notes are added.
    """
    value = "-"
    notes: Sequence[str] = figure.warnings
    if figure.value is not None:
        value = f"{figure.value:.4f}"
    if figure.absent is not None:
        notes = (figure.absent,)
    marks = ""
    for note in notes:
        number = note_numbers.setdefault(note, len(note_numbers) + 1)
        marks += f"[{number}]"
    return value + marks


def _compare_with_papers(args: argparse.Namespace) -> Printed:
    """Compare a saved result, or each result of a saved group, with the published figures."""
    runs = split_runs(load_named([args.result]))
    document = []
    blocks: list[Block] = []
    for run_name, results_by_benchmark in runs.items():
        for result in results_by_benchmark.values():
            comparisons = compare_with_published(result, args.method)
            for comparison in comparisons:
                record = {"run": run_name, **dataclasses.asdict(comparison)}
                record |= {"below": comparison.below, "better_than": comparison.better_than}
                document.append(record)
            if blocks:
                blocks.append(Line(""))
            if len(runs) > 1:
                blocks.append(Line(run_name, "title"))
            blocks += display_published(comparisons)
    return Printed(document, blocks)

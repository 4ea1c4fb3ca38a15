"""The command ``published``: the figures of the papers."""

from __future__ import annotations

import argparse
import dataclasses
from collections.abc import Mapping, Sequence

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
    return Printed(document, _figure_blocks(_figures_of_table(figures, args.metric)))


def _figures_of_table(figures: Sequence[PublishedFigure], metric: str | None) -> Sequence[PublishedFigure]:
    """Return the figures that a command shows as its table; all of them are in its JSON.

    These are the figures of the first benchmark; only its accuracies if all would make a table that fits no page.

    Args:
        figures: The figures that match the options of the command.
        metric: The metric that the user named; ``None`` for all.
    """
    of_one_benchmark = [figure for figure in figures if figure.benchmark == figures[0].benchmark]
    methods = {figure.method for figure in of_one_benchmark}
    models = {figure.model for figure in of_one_benchmark}
    fits_page = len(methods) == 1 or len(models) <= 3
    if metric is not None or fits_page:
        return of_one_benchmark
    return [figure for figure in of_one_benchmark if figure.metric == "accuracy"]


def _figure_blocks(figures: Sequence[PublishedFigure]) -> list[Block]:
    """Return figures as a table, with numbered warnings and the sources below.

    Columns are methods if there are several and one metric, otherwise metrics. Each combination of the other fields
    is a row.
    """
    has_several_methods = len({figure.method for figure in figures}) > 1
    has_one_metric = len({figure.metric for figure in figures}) == 1
    column_field = "metric"
    if has_several_methods and has_one_metric:
        column_field = "method"
    columns = list(dict.fromkeys(getattr(figure, column_field) for figure in figures))
    row_fields = []
    for field in ("model", "method", "dataset"):
        is_used = any(getattr(figure, field) for figure in figures)
        if is_used and field != column_field:
            row_fields.append(field)

    note_numbers = _numbered_notes(figures)
    row_by_names: dict[tuple[str, ...], dict[str, str]] = {}
    for figure in figures:
        names_of_row = tuple(getattr(figure, field) or "" for field in row_fields)
        row = row_by_names.setdefault(names_of_row, {})
        column = getattr(figure, column_field)
        row[column] = _figure_cell(figure, note_numbers)

    table_rows = []
    for names_of_row, row in row_by_names.items():
        cells = [row.get(column, "") for column in columns]
        table_rows.append([*names_of_row, *cells])
    table = TextTable([*row_fields, *columns], table_rows)
    notes = [Line(f"[{number}] {note}") for note, number in note_numbers.items()]
    sources = dict.fromkeys(figure.source for figure in figures if figure.value is not None)
    return [table, *notes, *(Line(f"source: {source}") for source in sources)]


def _notes_on(figure: PublishedFigure) -> Sequence[str]:
    """Return the notes on a figure: why its paper does not have it, or else the warnings about it."""
    if figure.absent is not None:
        return (figure.absent,)
    return figure.warnings


def _numbered_notes(figures: Sequence[PublishedFigure]) -> dict[str, int]:
    """Return the numbers of the notes on figures, from 1 on, in the order in which the notes come first."""
    numbers: dict[str, int] = {}
    for figure in figures:
        for note in _notes_on(figure):
            if note not in numbers:
                numbers[note] = len(numbers) + 1
    return numbers


def _figure_cell(figure: PublishedFigure, note_numbers: Mapping[str, int]) -> str:
    """Return a figure with the numbers of the notes on it, such as ``0.5678[1][3]``; ``-`` for a missing figure.

    Args:
        figure: The figure.
        note_numbers: The number of each note.
    """
    value = "-"
    if figure.value is not None:
        value = f"{figure.value:.4f}"
    marks = [f"[{note_numbers[note]}]" for note in _notes_on(figure)]
    return value + "".join(marks)


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

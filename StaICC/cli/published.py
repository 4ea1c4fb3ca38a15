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


def _table(known: Sequence[PublishedFigure]) -> list[Block]:
    """Return figures as a table, with numbered warnings below; models and other fields that differ are rows."""
    several = len({figure.method for figure in known}) > 1 and len({figure.metric for figure in known}) == 1
    across = "method" if several else "metric"
    fields = [field for field in ("model", "method", "dataset") if field != across]
    down = [field for field in fields if any(getattr(figure, field) for figure in known)]
    heads = list(dict.fromkeys(getattr(figure, across) for figure in known))
    lines: dict[tuple[str, ...], dict[str, str]] = {}
    notes: dict[str, int] = {}
    for figure in known:
        warnings = figure.warnings if figure.absent is None else (figure.absent,)
        marks = "".join(f"[{notes.setdefault(warning, len(notes) + 1)}]" for warning in warnings)
        line = lines.setdefault(tuple(getattr(figure, field) or "" for field in down), {})
        line[getattr(figure, across)] = ("-" if figure.value is None else f"{figure.value:.4f}") + marks
    rows = [[*key, *(cells.get(head, "") for head in heads)] for key, cells in lines.items()]
    below = [f"[{number}] {note}" for note, number in notes.items()]
    below += dict.fromkeys(f"source: {figure.source}" for figure in known if figure.value is not None)
    return [TextTable([*down, *heads], rows), *map(Line, below)]


def _compare_with_papers(args: argparse.Namespace) -> Printed:
    runs = split_runs(load_named([args.result]))
    parts = [(name, compare_with_published(part, args.method)) for name, run in runs.items() for part in run.values()]
    document = [
        {"run": name, **dataclasses.asdict(figure), "below": figure.below, "better_than": figure.better_than}
        for name, comparisons in parts
        for figure in comparisons
    ]
    blocks: list[Block] = []
    for name, comparisons in parts:
        blocks += [Line("")] * bool(blocks) + [Line(name, "title")] * (len(runs) > 1) + display_published(comparisons)
    return Printed(document, blocks)


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
    wanted = {name: getattr(args, name) for name in ("model", "method", "dataset", "metric")}
    known = published_figures(args.benchmark, **wanted)
    if not known:
        raise ArgumentError("no published figure matches all of these options; remove one of them")
    document = [{**dataclasses.asdict(figure), "doubtful": figure.doubtful} for figure in known]
    shown = [figure for figure in known if figure.benchmark == known[0].benchmark]
    methods, models = ({getattr(figure, key) for figure in shown} for key in ("method", "model"))
    if args.metric is None and len(methods) > 1 and len(models) > 3:  # too large: only the first metric
        shown = [figure for figure in shown if figure.metric == "accuracy"]
    return Printed(document, _table(shown))

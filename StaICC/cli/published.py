"""``python -m StaICC published``: print the figures of the papers, or compare a saved result with them.

Figures are as printed; percentages of LongICLBench are converted to shares. A number in brackets, such as [1], refers
to a warning below the table. With --result, the figures of a saved result are compared with published ones if both
measure the same; otherwise the reason is printed.

examples:
  python -m StaICC published
  python -m StaICC published --method hidden-calibration
  python -m StaICC published --model Pythia --metric macro_F1
  python -m StaICC published --benchmark diagnosis --json
  python -m StaICC published --benchmark long-icl --dataset banking77
  python -m StaICC published --result result.json
"""

from __future__ import annotations

import argparse
import dataclasses
from collections.abc import Sequence
from typing import Any

from StaICC.cli.files import load_named, print_json
from StaICC.errors import ArgumentError
from StaICC.results.published import (
    BENCHMARKS,
    LONG_ICL,
    PublishedFigure,
    compare_with_published,
    figures,
    format_published,
)
from StaICC.results.result import format_columns
from StaICC.results.runs import split_runs


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of the command."""
    parser.add_argument("--benchmark", help=f"{', '.join(BENCHMARKS)} (default: Normal)")
    parser.add_argument("--model", help="a model, such as 'GPT2 1.61', or a family, such as Pythia")
    parser.add_argument("--method", metavar="METHOD", help="an inference method, such as vanilla or batch-calibration")
    parser.add_argument("--dataset", help="a data set of LongICL, such as banking77")
    parser.add_argument("--metric", metavar="NAME", help="a metric, such as accuracy, or a round, such as 1R")
    parser.add_argument("--result", metavar="RESULT", help="a saved result to compare with the published figures")
    parser.add_argument("--json", action="store_true", help="print JSON instead of a table")


def _columns(found: Sequence[PublishedFigure]) -> str:
    """Return the field for the columns of the table; models and other fields that differ are rows."""
    methods = {one.method for one in found}
    metrics = {one.metric for one in found}
    return "method" if len(methods) > 1 and len(metrics) == 1 else "metric"


def _table(found: Sequence[PublishedFigure]) -> str:
    """Return figures as a table, with numbered warnings below."""
    across = _columns(found)
    down = [name for name in ("model", "method", "dataset") if name != across and any(getattr(o, name) for o in found)]
    heads = list(dict.fromkeys(getattr(one, across) for one in found))
    lines: dict[tuple[str, ...], dict[str, str]] = {}
    notes: dict[str, int] = {}
    for one in found:
        marks = "".join(f"[{notes.setdefault(warning, len(notes) + 1)}]" for warning in one.warnings)
        if one.absent is not None:
            marks = f"[{notes.setdefault(one.absent, len(notes) + 1)}]"
        line = lines.setdefault(tuple(getattr(one, name) or "" for name in down), {})
        line[getattr(one, across)] = ("-" if one.value is None else f"{one.value:.4f}") + marks
    rows = [[*key, *(cells.get(head, "") for head in heads)] for key, cells in lines.items()]
    table = format_columns([*down, *heads], rows)
    sources = dict.fromkeys(one.source for one in found if one.value is not None)
    return "\n".join(
        [table, *(f"[{number}] {note}" for note, number in notes.items()), *(f"source: {one}" for one in sources)]
    )


def _compare(args: argparse.Namespace) -> int:
    runs = split_runs(load_named([args.result]))
    found = {
        (name, benchmark): compare_with_published(result, args.method)
        for name, results in runs.items()
        for benchmark, result in results.items()
    }
    if args.json:
        document: list[dict[str, Any]] = [
            {"run": name, **dataclasses.asdict(one), "below": one.below, "better_than": one.better_than}
            for (name, _), comparisons in found.items()
            for one in comparisons
        ]
        print_json(document, indent=1)
    else:
        titles = {key: f"{key[0]}\n" if len(runs) > 1 else "" for key in found}
        print("\n\n".join(titles[key] + format_published(comparisons) for key, comparisons in found.items()))
    return 0


def run(args: argparse.Namespace) -> int:
    """Print the figures.

    Returns:
        The exit status.

    Raises:
        StaICCError: A name is unknown, nothing fits, or the result cannot be read.
    """
    if args.result is not None:
        return _compare(args)
    benchmark, metric = args.benchmark, args.metric
    known = figures(benchmark, model=args.model, method=args.method, dataset=args.dataset, metric=metric)
    if benchmark is None and known and not args.json:
        benchmark = LONG_ICL if args.dataset else known[0].benchmark
        known = figures(benchmark, model=args.model, method=args.method, dataset=args.dataset, metric=metric)
    if not known:
        raise ArgumentError("no published figure matches all of these options; remove one of them")
    if args.json:
        document = [{**dataclasses.asdict(one), "doubtful": one.doubtful} for one in known]
        print_json(document, indent=1)
        return 0
    if metric is None and len({one.method for one in known}) > 1 and len({one.model for one in known}) > 3:
        known = figures(benchmark, model=args.model, metric="accuracy")  # too large: only the first metric
    print(_table(known))
    return 0

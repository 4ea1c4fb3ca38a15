"""``compare``, ``published`` and ``cite``: saved results next to each other and next to the literature."""

from __future__ import annotations

import argparse
import dataclasses
import sys
from collections.abc import Sequence

from StaICC.cli.files import STDOUT, add_results, load_named, print_json, write_text
from StaICC.datasets import names
from StaICC.errors import ArgumentError, UnknownNameError, unknown_name
from StaICC.results.citations import Work, entries, find_work, works
from StaICC.results.comparison import FORMATS, compare_all, format_comparisons
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


def add_compare(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of the command."""
    add = parser.add_argument
    add_results(parser, "at least two")
    add("--metric", metavar="NAME", help="a score with a mean over data sets (default: the main one)")
    text = "also test that a run is not worse than the other by more than M"
    add("--margin", type=float, metavar="M", help=text)
    add("--format", choices=tuple(FORMATS), default="text", help=f"{', '.join(FORMATS)} (default: text)")
    add("--json", action="store_true", help="the same as --format json")


def compare(args: argparse.Namespace) -> int:
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
    text = format_comparisons(comparisons, "json" if args.json else args.format)
    if args.json or args.format in ("json", "csv"):
        write_text(STDOUT, [text, "\n"])
    else:
        print(text)
    if left_out:
        print(f"left out: {'; '.join(left_out)}", file=sys.stderr)
    return 0


def add_published(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of the command."""
    add = parser.add_argument
    add("--benchmark", help=f"{', '.join(BENCHMARKS)} (default: Normal)")
    add("--model", help="a model, such as 'GPT2 1.61', or a family, such as Pythia")
    add("--method", metavar="METHOD", help="an inference method, such as vanilla or batch-calibration")
    add("--dataset", help="a data set of LongICL, such as banking77")
    add("--metric", metavar="NAME", help="a metric, such as accuracy, or a round, such as 1R")
    add("--result", metavar="RESULT", help="a saved result to compare with the published figures")
    add("--json", action="store_true", help="print JSON instead of a table")


def _table(known: Sequence[PublishedFigure]) -> str:
    """Return figures as a table, with numbered warnings below; models and other fields that differ are rows."""
    several = len({figure.method for figure in known}) > 1 and len({figure.metric for figure in known}) == 1
    across = "method" if several else "metric"
    fields = [field for field in ("model", "method", "dataset") if field != across]
    down = [field for field in fields if any(getattr(figure, field) for figure in known)]
    heads = list(dict.fromkeys(getattr(figure, across) for figure in known))
    lines: dict[tuple[str, ...], dict[str, str]] = {}
    notes: dict[str, int] = {}
    for figure in known:
        marks = "".join(f"[{notes.setdefault(warning, len(notes) + 1)}]" for warning in figure.warnings)
        if figure.absent is not None:
            marks = f"[{notes.setdefault(figure.absent, len(notes) + 1)}]"
        line = lines.setdefault(tuple(getattr(figure, field) or "" for field in down), {})
        line[getattr(figure, across)] = ("-" if figure.value is None else f"{figure.value:.4f}") + marks
    rows = [[*key, *(cells.get(head, "") for head in heads)] for key, cells in lines.items()]
    below = [f"[{number}] {note}" for note, number in notes.items()]
    below += dict.fromkeys(f"source: {figure.source}" for figure in known if figure.value is not None)
    return "\n".join([format_columns([*down, *heads], rows), *below])


def _compare_with_papers(args: argparse.Namespace) -> int:
    runs = split_runs(load_named([args.result]))
    parts = [(name, compare_with_published(part, args.method)) for name, run in runs.items() for part in run.values()]
    if args.json:
        document = [
            {"run": name, **dataclasses.asdict(figure), "below": figure.below, "better_than": figure.better_than}
            for name, comparisons in parts
            for figure in comparisons
        ]
        print_json(document, indent=1)
    else:
        titles = {name: f"{name}\n" if len(runs) > 1 else "" for name in runs}
        print("\n\n".join(titles[name] + format_published(comparisons) for name, comparisons in parts))
    return 0


def published(args: argparse.Namespace) -> int:
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
    benchmark, metric = args.benchmark, args.metric
    wanted = {"model": args.model, "method": args.method, "dataset": args.dataset, "metric": metric}
    known = figures(benchmark, **wanted)
    if benchmark is None and known and not args.json:
        benchmark = LONG_ICL if args.dataset else known[0].benchmark
        known = figures(benchmark, **wanted)
    if not known:
        raise ArgumentError("no published figure matches all of these options; remove one of them")
    if args.json:
        print_json([{**dataclasses.asdict(figure), "doubtful": figure.doubtful} for figure in known], indent=1)
        return 0
    if metric is None and len({figure.method for figure in known}) > 1 and len({figure.model for figure in known}) > 3:
        known = figures(benchmark, model=args.model, metric="accuracy")  # too large: only the first metric
    print(_table(known))
    return 0


def add_cite(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of the command."""
    parser.add_argument("names", nargs="*", metavar="NAME", help="what to cite (default: the benchmark and its data)")
    parser.add_argument("--methods", action="store_true", help="also all methods of the paper")
    parser.add_argument("--json", action="store_true", help="print JSON instead of BibTeX")


def _find(name: str) -> Work:
    """Return the work of a name; the data sets of LongICL are loaded only if nothing else matches."""
    try:
        return find_work(name)
    except UnknownNameError:
        from StaICC.benchmarks.long_icl import cards

        card = cards().get(name.casefold().replace("-", "_"))
        if card is None:
            legal = [*names(), *cards(), *(known for work in works() for known in work.names)]
            raise unknown_name("data set, method or benchmark", name, legal) from None
        return Work((card.name,), "data set", card.citation)


def cite(args: argparse.Namespace) -> int:
    """Print the BibTeX of the benchmark, its data sets and the methods.

    Without a name: the benchmark and its ten data sets. NAME is a data set (including those of LongICL), a benchmark, a
    method of the paper (hidden-calibration, ...), or 'random baselines'. The benchmark is always printed first.

    examples:
      python -m StaICC cite
      python -m StaICC cite TREC AGNews hidden-calibration
      python -m StaICC cite LongICL banking77
      python -m StaICC cite --methods --json
    """
    methods = [work.names[0] for work in works() if work.kind == "method"] if args.methods else []
    chosen = [*args.names, *methods] or list(names())
    cited = list(dict.fromkeys(_find(name) for name in ["StaICC", *chosen]))
    if args.json:
        print_json([{"names": list(w.names), "kind": w.kind, "bibtex": w.bibtex.strip()} for w in cited], indent=1)
    else:
        print("\n\n".join(entries(cited)))
    return 0

"""The commands that compare: ``compare``, ``rank``, ``components``, ``plan``, ``published``, ``cite``, ``baseline``."""

from __future__ import annotations

import argparse
import dataclasses
import math
import sys
from collections.abc import Callable, Iterable, Sequence
from decimal import MIN_EMIN, Context, Decimal
from functools import partial

from StaICC.cli import saving
from StaICC.cli.parser import add_arguments, converted
from StaICC.cli.saving import STDOUT, Printed, add_prices, add_results, load_named, show, write_text
from StaICC.comparing import ranking
from StaICC.comparing.citing import Work, entries, find_work, works
from StaICC.comparing.comparison import compare as compare_results
from StaICC.comparing.comparison import compare_all, of_benchmarks
from StaICC.comparing.comparison_results import display_comparisons
from StaICC.comparing.formats import FORMATS, RANKING_FORMATS, format_comparisons, format_rankings
from StaICC.comparing.generalisation import compare_generalising, variance_components
from StaICC.comparing.planning import components_of
from StaICC.comparing.planning import plan as plan_run
from StaICC.comparing.published import PublishedFigure, published_figures
from StaICC.comparing.published_comparison import compare_with_published, display_published
from StaICC.datasets.catalogue import names
from StaICC.errors import ArgumentError
from StaICC.inference.forecast import token_cost
from StaICC.layout import Block, Line, TextTable
from StaICC.metrics.random_baselines import RandomBaseline
from StaICC.results.result import Result
from StaICC.results.runs import split_runs

_ALPHA = 0.05
_GOALS = ("half_width", "difference", "power", "max_datasets", "max_rows", "max_templates")
_TOKENS = (166, 0)  # 382,592 of 2,304 queries
_LONG = 1_000_000  # queries; more take seconds


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
        show(blocks)
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


def _runs(args: argparse.Namespace) -> dict[str, Result]:
    """Return the results of generalisation that the command is about."""
    found = load_named(args.results)
    runs = {name: result for name, result in found.items() if isinstance(result, Result)}
    if len(runs) < len(found) or len(runs) > 2:
        raise ArgumentError(f"results: got {', '.join(found)}, expected at most two results of run generalisation")
    return runs


def add_components(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of the command."""
    add_results(parser, "results of run generalisation: one, or two to compare")


def components(args: argparse.Namespace) -> Printed:
    """Print the sources of variance of an accuracy, with an interval over rows, demonstrations and templates.

    With two results, their difference is tested over rows, demonstrations and templates, next to the test with fixed
    ones. Results are those of the benchmark generalisation.

    examples:
      python -m StaICC run generalisation --json first.json
      python -m StaICC components first.json
      python -m StaICC components first.json second.json
    """
    runs = _runs(args)
    components = {name: variance_components(result) for name, result in runs.items()}
    compared = []
    if len(runs) == 2:
        first, second = runs.values()
        compared = [compare_results(first, second, "accuracy"), compare_generalising(first, second)]
    lines = {name: [line.to_dict() for line in part.lines] for name, part in components.items()}
    tables = [(name, part.display_blocks()) for name, part in components.items()]
    if compared:
        tables += [("over rows", [TextTable(*compared[0].table())]), ("", compared[1].display_blocks())]
    blocks = [block for title, table in tables for block in (Line(title, "title"), *table, Line(""))]
    document = {"components": lines, "comparisons": [pair.to_dict() for pair in compared]}
    return Printed(document, blocks[:-1])


def add_plan(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of the command."""
    add_results(parser, "a pilot: one result of run generalisation, or two for their difference", nargs="*")
    add_arguments(parser, plan_run, *_GOALS)
    text = "of a query: tokens that the model reads and generates (default: 166 and 0, as measured for SmolLM2, k = 4)"
    parser.add_argument("--tokens", nargs=2, type=int, default=_TOKENS, metavar=("INPUT", "OUTPUT"), help=text)
    add_prices(parser)


def plan(args: argparse.Namespace) -> Printed:
    """Plan a run: print the designs that reach a precision or the power for a difference with the fewest tokens.

    Each line is the cheapest design for a number of data sets. Rows, draws and templates are those of each data set;
    queries, tokens and cost those of one model. The sources of variance are those of the pilot, or, without one, of
    runs of SmolLM2-135M and ppm (docs/comparing.md).

    examples:
      python -m StaICC plan --half-width 0.05 --max-datasets 10
      python -m StaICC plan --difference 0.1 --max-datasets 10 --prices 0.1 0.4
      python -m StaICC plan first.json second.json --difference 0.2 --max-datasets 10
    """
    runs = list(_runs(args).values())
    if min(args.tokens) < 0:
        raise ArgumentError(f"--tokens: got {args.tokens}, expected two numbers of at least 0")
    given = {name: getattr(args, name) for name in _GOALS}
    planned = plan_run(components_of(*runs) if runs else None, **given)
    rows: list[dict[str, object]] = []
    lines = []
    for design in planned.designs:
        tokens, output_tokens = (design.queries * of_query for of_query in args.tokens)
        counts: dict[str, float] = {"queries": design.queries, "tokens": tokens, "output_tokens": output_tokens}
        row: dict[str, object] = {"data sets": design.datasets, "rows": design.rows, "draws": design.draws}
        row |= {"templates": design.templates, "queries": f"{design.queries:,}"}
        row |= {"tokens": f"{tokens + output_tokens:,}", "half width": f"{design.half_width:.3f}"}
        row |= {} if design.power is None else {"power": f"{design.power:.2f}"}
        if args.prices is not None:
            counts["cost"] = token_cost(tokens, output_tokens, args.prices)
            row["cost"] = f"{counts['cost']:.2f}"
        rows.append(row)
        lines.append(dataclasses.asdict(design) | counts)
    best = planned.designs[0]
    command = "python -m StaICC run generalisation"
    command += f" --limit {best.rows} --draws {best.draws} --templates {best.templates}"
    blocks: list[Block] = [saving.table(rows), Line(f"sources of variance: {planned.components.source}")]
    for k in dict.fromkeys(result.signature.fields.get("k") for result in runs) if runs else ["4"]:
        more = "" if k == "4" else f" --k {k}"
        blocks.append(Line(f"for {best.datasets} data set{'s' * (best.datasets > 1)}: {command}{more}", "code"))
    return Printed({**dataclasses.asdict(planned), "designs": lines}, blocks)


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


def add_cite(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of the command."""
    parser.add_argument("names", nargs="*", metavar="NAME", help="what to cite (default: the benchmark and its data)")
    parser.add_argument("--methods", action="store_true", help="also all methods of the paper")


def cite(args: argparse.Namespace) -> Printed:
    """Print the BibTeX of the benchmark, its data sets and the methods.

    Without a name: the benchmark and its ten data sets. NAME is a data set (including those of LongICL), a benchmark, a
    method of the paper (hidden-calibration, ...), or 'random baselines'. The benchmark is always printed first.

    examples:
      python -m StaICC cite
      python -m StaICC cite TREC AGNews hidden-calibration
      python -m StaICC cite LongICL banking77
      python -m StaICC cite --methods --json
    """
    from StaICC.long_icl.cards import cards

    methods = [work.names[0] for work in works() if work.kind == "method"] if args.methods else []
    chosen = [*args.names, *methods] or list(names())
    more = [Work((card.name,), "data set", card.citation) for card in cards(None).values()]
    cited = list(dict.fromkeys(find_work(name, more) for name in ["StaICC", *chosen]))
    records = [{"names": list(work.names), "kind": work.kind, "bibtex": work.bibtex.strip()} for work in cited]
    return Printed(records, [Line(line, "code") for line in "\n\n".join(entries(cited)).split("\n")])


def _label_counts(text: str) -> int | dict[int, int]:
    """Parse ``5`` (five labels for all queries) or ``2:50,5:50`` (number of labels: number of queries)."""
    pairs = [part.split(":") for part in text.split(",")]
    counts = int(text) if ":" not in text else {int(labels): int(queries) for labels, queries in pairs}
    if isinstance(counts, dict) and len(counts) < len(pairs):
        raise argparse.ArgumentTypeError(f"duplicate number of labels: got {text!r}")
    return counts


def add_baseline(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of the command."""
    add = parser.add_argument
    add("--n", type=int, required=True, help="number of scored queries")
    counts = converted(_label_counts, "a number of labels, such as 2, or labels:queries pairs, such as 2:50,5:50")
    add("--labels", type=counts, required=True, help="number of labels, or labels:queries pairs if it varies")
    add("--t", type=int, nargs="+", action="extend", help="number of settings tried (default: 1)")
    text = "accuracy to test against random guessing, as a share (0.6, not 60); rounded as in tables"
    add("--accuracy", help=text)


def baseline(args: argparse.Namespace) -> Printed:
    """Print random baselines, and the p-value of an accuracy.

    The maximum random baseline is the expected accuracy of the best of t random guessers (Yauney and Mimno 2024).
    Set t to the number of settings (prompts, templates, seeds, ...) that you tried and of which you report the best.

    examples:
      python -m StaICC baseline --n 100 --labels 2 --t 1 10 --accuracy 0.6
      python -m StaICC baseline --n 1024 --labels 2 --accuracy 0.5508
      python -m StaICC baseline --n 100 --labels 2:50,5:50 --t 10 --json
    """
    uniform = {args.labels: args.n} if isinstance(args.labels, int) else args.labels
    guessing = RandomBaseline(args.n, uniform)
    correct = None if args.accuracy is None else guessing.count_of_rounded(args.accuracy)
    lines: list[dict[str, float | None]] = []
    table: list[dict[str, object]] = []
    for t in args.t or [1]:
        if args.n >= _LONG:
            print(f"computing the baselines of {args.n:,} queries for t = {t} ...", file=sys.stderr, flush=True)
        count = guessing.critical_count(t, _ALPHA)
        needed, expected = None if count is None else count / args.n, guessing.max_random_baseline(t)
        lines.append({"t": t, "baseline": expected, "significant_from": needed})
        from_share = "never" if needed is None else f"{needed:.5f}"
        table.append({"t": t, "baseline": f"{expected:.5f}", f"p <= {_ALPHA} from": from_share})
        if correct is not None:
            logarithm, p_value = guessing.log_p_value(correct / args.n, t), guessing.p_value_of_count(correct, t)
            log10 = logarithm / math.log(10) if math.isfinite(logarithm) else None
            lines[-1] |= {"p_value": p_value, "log10_p_value": log10}
            small = f"{Context(Emin=MIN_EMIN).exp(Decimal(logarithm)):.2e}"  # floating point may have no such number
            table[-1][f"p-value of {correct}/{args.n}"] = f"{p_value:.4f}" if p_value > 1e-4 else small
    labels = {str(labels): queries for labels, queries in uniform.items()}
    accuracy = None if correct is None else float(args.accuracy)
    document = {"n": args.n, "labels": labels, "accuracy": accuracy, "correct": correct, "alpha": _ALPHA}
    return Printed({**document, "baselines": lines}, [saving.table(table, ())])

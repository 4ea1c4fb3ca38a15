"""The page: saved results as one self-contained HTML file.

A leaderboard has runs as rows and the headline scores as columns, one table for each group of comparable runs. Two
runs are comparable if they have the same data sets, test rows, metrics and benchmark options. Model, method, k,
templates and label scoring may differ: they are what a leaderboard compares. The best run of a column is compared with
every other one by the paired test of :mod:`StaICC.results.comparison`, and each run has a verdict. Then follows one
section for each question about the runs.

The page makes no network requests, and its content security policy forbids them: it allows no image, font, frame or
connection, and no scripts except those in the page: one sorts tables and unfolds sections for printing, the other shows
single queries. The page is readable without scripts. All text from data is escaped. The same results give the same
bytes.
"""

from __future__ import annotations

import base64
import hashlib
import itertools
import os
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import partial
from typing import NamedTuple

from StaICC.datasets.storage import write_output
from StaICC.errors import ArgumentError, StaICCError
from StaICC.metrics.paired_tests import LEVEL
from StaICC.metrics.registry import COLUMNS, HEADLINE, Column, score_record
from StaICC.results.comparison import (
    Best,
    Tied,
    Untested,
    Verdict,
    compare_runs,
    describe,
    latex_cell,
    latex_table,
    p_text,
    standings,
    word_of,
)
from StaICC.results.paired_records import metrics_of
from StaICC.results.published import PublishedComparison, compare_with_published, published_cells
from StaICC.results.report.figures import (
    Runs,
    Score,
    accuracy_by_dataset,
    accuracy_of,
    baselines_of,
    bias_distributions,
    dataset_names,
    experiment_chart,
    figure,
    labels_of,
    model_size_chart,
    noise_lines,
    reliability_diagrams,
    rounds_chart,
    score_of,
    scores_of,
    shots_chart,
    shots_lines,
)
from StaICC.results.report.html import (
    STYLE,
    Figure,
    Markup,
    Missing,
    element,
    fold,
    inline,
    join,
    resource,
    table,
    void,
)
from StaICC.results.result import Result, ResultGroup, remarks, result_rows
from StaICC.results.runs import by_benchmark
from StaICC.version import __version__

_SAME = ("datasets", "data", "split", "limit", "rows", "metrics", "options", "stopping", "unparsed")
"""Fields of the signature that comparable runs share."""
_HIDDEN = {*_SAME, "benchmark", "prompts", "method", "failed"}
_SLOPES = ("GLER", "Template_sens", "Demo_sens")
"""Benchmarks whose scores of a data set are under ``sensitivity``."""
_LATEX_STYLES = {Best: r"$\mathbf{%s}$", Tied: r"$\underline{%s}$", Untested: "$%s^{*}$"}
_SHADES = 11


def _comparable_by(result: Result) -> tuple[object, ...]:
    fields = result.signature.fields
    return (*sorted(result.divided), *(fields.get(name) for name in _SAME))


def comparable_groups(benchmarks: Mapping[str, Runs]) -> list[dict[str, dict[str, Result]]]:
    """Split runs into groups of comparable runs.

    A run joins the first group that has one of its benchmarks and agrees in all that both have.

    Args:
        benchmarks: For each benchmark, the results by the name of their run.

    Returns:
        The groups; each has the results by benchmark and run.
    """
    groups: list[tuple[dict[str, tuple[object, ...]], dict[str, dict[str, Result]]]] = []
    for name in dict.fromkeys(name for runs in benchmarks.values() for name in runs):
        own = {benchmark: runs[name] for benchmark, runs in benchmarks.items() if name in runs}
        keys = {benchmark: _comparable_by(result) for benchmark, result in own.items()}
        for known, members in groups:  # noqa: B007 (both are used after the loop)
            shared = known.keys() & keys.keys()
            if shared and all(known[benchmark] == keys[benchmark] for benchmark in shared):
                break
        else:
            known, members = {}, {}
            groups.append((known, members))
        known.update(keys)
        for benchmark in own:
            members.setdefault(benchmark, {})[name] = own[benchmark]
    return [members for _, members in groups]


def group_title(group: Mapping[str, Runs]) -> str:
    """Return what the runs of a group share, in a few words.

    Args:
        group: The results by benchmark and run.
    """
    result = next(iter(next(iter(group.values())).values()))
    sets = list(result.divided)
    parts = [", ".join(sets) if len(sets) < 4 else f"{len(sets)} data sets"]
    parts += [f"{name} {value}" for name in ("limit", "metrics") if (value := result.signature.fields.get(name))]
    parts += ["stopped early"] if result.stopping is not None else []
    return ", ".join(part for part in parts if part != "metrics standard")


def _direction(column: Column, runs: Runs) -> bool | None:
    """Return whether larger values of a column are better; ``None`` if that is not known."""
    stated = {
        score_record(column.benchmark, column.key, run.higher_is_better).higher_is_better
        for run in runs.values()
        if column in COLUMNS or column.key in run.higher_is_better
    }
    return stated.pop() if len(stated) == 1 else None


def _words(better: bool | None) -> str:
    return "" if better is None else f"{'higher' if better else 'lower'} is better"


def _verdicts(column: Column, runs: Runs) -> dict[str, Verdict]:
    """Return the verdict about each run; none if it is not known which values are better."""
    better = _direction(column, runs)
    return {} if better is None else standings(runs, column.key, better)


def _above_chance(runs: Runs, name: str) -> list[bool]:
    """Return for each data set of a run whether the interval of its accuracy is above the random baseline."""
    own = runs[name]
    known = ((score_of(own, one, "accuracy").interval, baselines_of({name: own}, one)) for one in own.divided)
    return [interval.low > base.max_random for interval, base in known if interval is not None and base is not None]


def _different_settings(own: Sequence[Result], every: Sequence[Result]) -> str:
    """Return the settings of a run in which the runs of its group differ."""
    found = {}
    for name in dict.fromkeys(name for one in every for name in one.signature.fields if name not in _HIDDEN):
        by_benchmark: dict[str, set[str | None]] = {}
        for one in every:
            by_benchmark.setdefault(one.benchmark, set()).add(one.signature.fields.get(name))
        if any(len(values) > 1 for values in by_benchmark.values()):
            values = dict.fromkeys(one.signature.fields.get(name) or "default" for one in own)
            found[name] = "/".join(values)
    return ", ".join(f"{name} {value}" for name, value in found.items())


def _headline_columns(group: Mapping[str, Runs]) -> list[Column]:
    columns = [one for one in COLUMNS if one.benchmark in group]
    for benchmark, runs in group.items():
        result = next(iter(runs.values()))
        keys = [key for key in metrics_of(result) if key in result.higher_is_better]
        if benchmark not in HEADLINE:  # benchmarks from other packages: their first score
            keys = list(dict.fromkeys([*metrics_of(result)[:1], *keys]))
        columns += [Column(benchmark, key, f"{benchmark}: {key}") for key in keys]
    scored = {(name, key) for name, runs in group.items() for one in runs.values() for key in one.averaged}
    return [one for one in columns if (one.benchmark, one.key) in scored]


def latex_scores(results: Mapping[str, Result | ResultGroup]) -> str:
    """Return the headline scores as LaTeX in the layout of the StaICC paper: scores as rows, runs as columns.

    The best run of a row is bold, runs that are tied with it are underlined, and runs that could not be tested against
    it have an asterisk. There is a table for each group of comparable runs, followed by the signatures as comments.

    Args:
        results: Results, or groups of results, by the name of their run.

    Raises:
        ArgumentError: A run has two results of one benchmark.
    """
    blocks = []
    for group in comparable_groups(by_benchmark(results)):
        names = list(dict.fromkeys(name for runs in group.values() for name in runs))
        rows, untested = [], False
        for column in _headline_columns(group):
            runs = group[column.benchmark]
            verdicts = _verdicts(column, runs)
            untested = untested or any(isinstance(verdict, Untested) for verdict in verdicts.values())
            arrow = {True: r" $\uparrow$", False: r" $\downarrow$", None: ""}[_direction(column, runs)]
            cells = [latex_cell(column.title) + arrow]
            for name in names:
                value = runs[name].averaged.get(column.key) if name in runs else None
                style = _LATEX_STYLES.get(type(verdicts.get(name)), "$%s$")
                cells.append("--" if value is None else style % f"{value:.4f}")
            rows.append(cells)
        caption = [group_title(group), "bold: best", "underlined: not shown to be worse than the best (Holm, 0.05)"]
        caption += ["*: not tested against the best"] if untested else []
        caption += ["--: not run, or undefined"] if any("--" in row for row in rows) else []
        signatures = dict.fromkeys(f"% {result.signature}" for runs in group.values() for result in runs.values())
        blocks.append("\n".join([latex_table(caption, ["", *names], rows) + "\\end{table}", *signatures]))
    return "\n\n".join(blocks)


def leaderboard(group: Mapping[str, Runs]) -> Markup:
    """Return the leaderboard of comparable runs, the best in the first headline score first.

    Args:
        group: The results by benchmark and run.
    """
    columns = _headline_columns(group)
    names = list(dict.fromkeys(name for runs in group.values() for name in runs))
    cells: dict[str, list[str]] = {name: [] for name in names}
    heads, notes, levels = [], [], set()
    for column in columns:
        runs = group[column.benchmark]
        verdicts = _verdicts(column, runs)
        untested = [(name, verdict.reason) for name, verdict in verdicts.items() if isinstance(verdict, Untested)]
        reasons = dict.fromkeys(reason for _, reason in untested)
        for reason in reasons:
            listed = ", ".join(name for name, own in untested if own == reason)
            notes.append(f"{column.title}: untested: {listed} ({reason}).")
        heads.append(join([column.title, " ", element("small", _words(_direction(column, runs)))]))
        for name in names:
            if name not in runs:
                cells[name].append(Missing(f"{column.benchmark} was not run"))
                continue
            found = scores_of(runs[name], f"sensitivity.{column.key}" if column.benchmark in _SLOPES else column.key)
            value, interval, reason = found.get(None, Score())
            if value is None:
                cells[name].append(Missing(f"{column.title}: {reason}"))
                continue
            verdict = verdicts.get(name)
            parts: list[str] = [element("b", f"{value:.4f}") if isinstance(verdict, Best | Tied) else f"{value:.4f}"]
            if verdict is not None:
                parts += [" ", element("span", word_of(verdict), class_=word_of(verdict), title=describe(verdict))]
            if interval is not None:
                levels.add(f"{100 * interval.level:g} %")
                parts.append(element("small", f"{interval.low:.3f} .. {interval.high:.3f}"))
            if column == COLUMNS[0] and (above := _above_chance(runs, name)):
                parts.append(element("small", f"{sum(above)} of {len(above)} above chance"))
            cells[name].append(join(parts))
    first = columns[0] if columns else None

    def order(name: str) -> tuple[bool, float]:
        value = figure(group[first.benchmark][name].averaged, first.key) if first and name in cells else None
        up = first is not None and _direction(first, group[first.benchmark]) is not False
        return value is None, 0.0 if value is None else -value if up else value

    ranked = sorted(names, key=lambda name: order(name) if first and name in group[first.benchmark] else (True, 0.0))
    every = [result for runs in group.values() for result in runs.values()]
    described = {}
    for name in names:
        own = [runs[name] for runs in group.values() if name in runs]
        failed = sum(details.failed for one in own for details in one.details.values())
        dates = sorted(one.started[:10] for result in own for one in result.provenance.predictors if one.started)
        facts = [
            own[0].model,
            own[0].method,
            _different_settings(own, every),
            dates[-1] if dates else "date not recorded",
        ]
        partial = element("small", f"PARTIAL: {failed} queries failed", class_="partial") if failed else ""
        about = element("small", element("bdi", ", ".join(filter(None, facts))))
        described[name] = join([element("bdi", name), about, partial])
    head = ["run: model, method, settings, date", *heads]
    rows = [[described[name], *cells[name]] for name in ranked]
    shown = table(f"Leaderboard: {group_title(group)}", head, rows, classes="sortable board")
    lines = []
    if len(names) > 1:
        lines.append(
            "Best: the best value of a column. Worse: shown to be worse by the paired test over test rows (that of the "
            f"compare command, Holm's correction for the pairs with the best run, level {LEVEL:g}). Tied: not shown. "
            "Untested: there is no valid test. Partial runs are not ranked."
        )
    lines += [f"Below each score is its {' or '.join(sorted(levels))} interval."] if levels else []
    if "Normal" in group and levels:
        lines.append("Above chance: data sets whose accuracy has an interval above the random baseline.")
    return join([shown, element("p", " ".join([*lines, *notes]), class_="soft") if lines or notes else ""])


def heat_map(benchmark: str, runs: Runs, title: str, metric: str, baselines: bool = False) -> Markup:
    """Return a score of each run on each data set as a shaded table.

    Args:
        benchmark: Name of the benchmark.
        runs: Comparable results of it, by the name of their run.
        title: Its caption.
        metric: The key of the score in the scores of a data set, nested keys joined by dots.
        baselines: Whether to add the baselines of the accuracy.
    """
    datasets = dataset_names(runs)
    places: list[str | None] = [*datasets, *([None] if len(datasets) > 1 else [])]
    scores = {name: scores_of(result, metric) for name, result in runs.items()}
    known = [one.value for own in scores.values() for one in own.values() if one.value is not None]
    if not known:
        return Markup("")
    low, span = min(known), max(known) - min(known)

    def cell(name: str, place: str | None) -> str:
        score = scores[name].get(place, Score(reason="not evaluated"))
        if score.value is None:
            return score.cell
        shade = round((_SHADES - 1) * (score.value - low) / span) if span else 0
        return element("td", score.cell, class_=f"h{shade}")

    rows = [[name, *(cell(name, place) for place in places)] for name in runs]
    foot = []
    if baselines:
        for label, attribute in (("random baseline", "max_random"), ("majority baseline", "majority")):
            bases = [baselines_of(runs, dataset) for dataset in datasets]
            found = [None if base is None else float(getattr(base, attribute)) for base in bases]
            whole = [one for one in found if one is not None]
            mean = [sum(whole) / len(found) if len(whole) == len(found) else None] if len(datasets) > 1 else []
            foot.append([label, *(Score(one).cell for one in [*found, *mean])])
    direction = _words(score_record(benchmark, metric.removeprefix("sensitivity.")).higher_is_better)
    caption = f"{title} ({direction}; a darker cell is a higher value)"
    return table(caption, ["run", *(place or "mean" for place in places)], rows, foot, classes="sortable heat")


def _where(one: PublishedComparison) -> str:
    return score_record(one.benchmark, one.metric).title if one.dataset is None else f"{one.dataset}, {one.metric}"


def _listed(which: Iterable[PublishedComparison]) -> str:
    """Return the names of figures, grouped by data set."""
    parts = []
    for dataset, own in itertools.groupby(which, lambda one: one.dataset):
        if dataset is None:
            parts += [_where(one) for one in own]
        else:
            parts.append(" ".join([dataset, *(one.metric for one in own)]))
    return ", ".join(parts)


def published_figures(runs: Runs) -> Markup:
    """Return the comparison of the runs of one benchmark with the published figures, or the reasons against it.

    Args:
        runs: Results of one benchmark by the name of their run.
    """
    rows: list[list[str]] = []
    cautions: dict[str, None] = {}
    differences: dict[str, None] = {}
    refused: dict[str, dict[str, list[PublishedComparison]]] = {}  # by reason and run
    for name, result in runs.items():
        for one in compare_with_published(result):
            if one.reason is not None:
                refused.setdefault(one.reason, {}).setdefault(name, []).append(one)
                continue
            rows.append([name, _where(one), *published_cells(one)])
            differences |= {f"{name}: {difference}": None for difference in one.differences}
            cautions |= {f"{_where(one)}: {caution}": None for caution in one.cautions}
    parts: list[str] = []
    if differences:  # before the figures
        parts.append(element("ul", *(element("li", one) for one in differences)))
    if rows:
        head = ["run", "figure", "value", "better than", "nearest published"]
        benchmark = next(iter(runs.values())).benchmark
        parts.append(table(f"{benchmark}: comparison with the published figures", head, rows, words=(1, 4)))
    for reason, by_run in refused.items():
        listed = "; ".join(f"{name} ({_listed(which)})" for name, which in by_run.items())
        text = f"Not comparable with the published figures: {listed}: {reason}."
        parts.append(element("p", text, class_="soft"))
    if cautions:
        parts.append(fold("Cautions", element("ul", *(element("li", one) for one in cautions)), class_="short"))
    return join(parts)


_BIAS = ("Contextual_bias", "Domain_bias", "Post_bias")
_VARIED = {
    "Template_sens": "Consistency over nine templates",
    "Demo_sens": "Consistency over eight lists of demonstrations",
}
_MOST_LABELS = 12
"""Of larger label spaces, only the most frequent confusions are listed."""
_MOST_ROWS = 20
_TOO_FEW = "the runs differ on too few rows"

Group = Mapping[str, Runs]
"""Comparable results by benchmark and run."""


class Section(NamedTuple):
    """A part of the page with its own heading."""

    key: str
    title: str
    content: Markup
    assets: str = ""
    """Name of the script and the style sheet that only this section needs."""


def _figure(make: Callable[[], Figure], name: str = "") -> Markup:
    """Return a figure with its caption and its numbers; a figure without data is replaced by the reason."""
    try:
        figure = make()
    except ArgumentError as error:
        return element("p", f"Not drawn{f', {name}' if name else ''}: {error}.", class_="soft")
    title = f"{figure.title}, {name}" if name else figure.title
    caption = element("figcaption", element("strong", f"{title}."), " ", figure.caption)
    numbers = table(f"{title}: numbers", figure.head, figure.rows, words=figure.words)
    return element("figure", caption, Markup(inline(figure)), fold("Numbers", numbers, class_="numbers"))


def _confusions(name: str, result: Result) -> Iterator[Markup]:
    """Yield a confusion matrix for each data set; of a large label space, its most frequent confusions."""
    for dataset, details in result.details.items():
        labels, record = labels_of(details), details.conditions[0] if details.conditions else None
        if record is None or not labels:
            continue
        counts = Counter(zip(record.truth, record.predictions, strict=True))
        title = f"{dataset}, {name}"
        if len(labels) > _MOST_LABELS:
            wrong = [one for one in counts.most_common() if None not in one[0] and one[0][0] != one[0][1]]
            rows = [[labels[truth], labels[found or 0], str(count)] for (truth, found), count in wrong[:_MOST_ROWS]]
            yield table(f"{title}: confusions", ["true label", "predicted label", "queries"], rows, words=(1,))
            continue
        rows = []
        for truth, label in enumerate(labels):
            total = sum(counts[truth, found] for found in range(len(labels)))
            cells = [
                element(
                    "td", str(n), class_=f"{'h' if truth == found else 'e'}{round(10 * n / total)}" if total else None
                )
                for found in range(len(labels))
                for n in [counts[truth, found]]
            ]
            rows.append([label, *cells])
        yield table(title, ["true \\ predicted", *labels], rows, classes="heat")


def _each(runs: Runs, title: str, make: Callable[[str, Result], Markup]) -> Markup:
    """Return one folded part for each run, folded together."""
    parts = [fold(name, make(name, result)) for name, result in runs.items()]
    return fold(title, *parts) if len(runs) > 1 else fold(title, *(make(name, one) for name, one in runs.items()))


def _map(shown: Markup, title: str, opened: bool = False) -> Markup:
    return fold(f"{title}, by data set", shown, opened=opened) if shown else shown


def _accurate(group: Group) -> Iterator[Markup]:
    if (runs := group.get("Normal")) is not None:
        yield heat_map("Normal", runs, "Accuracy by data set", "accuracy", baselines=True)
        if shots_lines(runs):
            yield fold("Number of demonstrations", _figure(partial(shots_chart, runs)))
        yield fold("Accuracy with intervals and baselines", _figure(partial(accuracy_by_dataset, runs)))
        note = element("p", "Rows are true labels. Blue is correct, orange is wrong.", class_="soft")
        yield _each(runs, "Confusion matrices", lambda name, result: join([note, *_confusions(name, result)]))
    if (runs := group.get("LongICL")) is not None:
        if any("experiment" in scores for result in runs.values() for scores in result.divided.values()):
            yield _figure(partial(experiment_chart, runs))
            return
        yield heat_map("LongICL", runs, "LongICL, mean of rounds", "mean")
        yield _figure(partial(rounds_chart, runs))


def _calibrated(group: Group) -> Iterator[Markup]:
    if (runs := group.get("Normal")) is not None:
        yield _figure(partial(reliability_diagrams, runs))
        key = "expected_calibration_error_1"
        yield fold("Calibration error by data set", heat_map("Normal", runs, "Calibration error (ECE-1)", key))
        yield _each(
            runs, "Reliability by data set", lambda name, result: _figure(partial(reliability_diagrams, result), name)
        )


def _biased(group: Group) -> Iterator[Markup]:
    for benchmark in _BIAS:
        if benchmark in group:
            key = HEADLINE[benchmark]
            title = score_record(benchmark, key).title
            yield _map(heat_map(benchmark, group[benchmark], title, key), title, benchmark == "Contextual_bias")

    def preferred(name: str, result: Result) -> Markup:
        own = {benchmark: group[benchmark][name] for benchmark in _BIAS if name in group.get(benchmark, {})}
        return _figure(partial(bias_distributions, own), name)

    yield _each({name: one for key in _BIAS for name, one in group.get(key, {}).items()}, "Preferred labels", preferred)


def _robust(group: Group) -> Iterator[Markup]:
    if (runs := group.get("GLER")) is not None:
        title = "Slope of accuracy against label noise (GLER)"
        yield _map(heat_map("GLER", runs, title, "sensitivity.accuracy"), title, True)
        yield fold("Accuracy against label noise", _figure(partial(noise_lines, runs)))
    for benchmark, title in _VARIED.items():
        if (runs := group.get(benchmark)) is None:
            continue
        yield _map(heat_map(benchmark, runs, title, "sensitivity.consistency"), title)
        rows = []
        for name, result in runs.items():
            for dataset, details in result.details.items():
                found = [value for one in details.conditions if (value := accuracy_of(one)) is not None]
                ends = [Score(end(found, default=None), reason="no predictions are recorded") for end in (min, max)]
                consistency = score_of(result, dataset, "sensitivity", "consistency")
                rows.append([dataset, name, consistency.interval_cell, *(one.cell for one in ends)])
        head = ["data set", "run", "interval of the consistency", "lowest accuracy", "highest accuracy"]
        yield fold(f"{title}: intervals and range of accuracies", table(f"{title}: range", head, rows, words=(1,)))


def _changed(group: Group) -> Iterator[Markup]:
    """Compare every run with the first, by the main metric of each benchmark."""
    first = next(iter(next(iter(group.values()))))
    names = list(dict.fromkeys(name for runs in group.values() for name in runs))[1:]
    heads: list[str] = []
    cells: dict[str, list[str]] = {name: [] for name in names}
    details: dict[str, list[str]] = {name: [] for name in names}
    for benchmark, runs in group.items():
        try:
            compared = compare_runs(runs, reference=first)
        except StaICCError as error:
            yield element("p", f"{benchmark}: {error}.", class_="soft")
            continue
        found = {one.second: one for one in compared.comparisons}
        heads.append(score_record(benchmark, compared.metric).title)
        for name in names:
            if (pair := found.get(name)) is None:
                cells[name].append(Missing("; ".join(compared.left_out) or f"{benchmark} was not run"))
                continue
            one, span = pair.overall, pair.overall.interval
            small = [f"{span.low:+.3f} .. {span.high:+.3f}"] if span else []
            outcome = one.outcome
            small.append(f"untested: {outcome.reason}" if isinstance(outcome, Untested) else p_text(outcome.holm))
            cells[name].append(join([f"{one.difference:+.4f}", *(element("small", text) for text in small)]))
            head, rows = pair.table()
            shown = [
                [Missing("; ".join(pair.conclusion()) or _TOO_FEW) if cell == "-" else cell for cell in row]
                for row in rows
            ]
            foot = [shown.pop()] if pair.mean else []
            lines = element("ul", *(element("li", line) for line in [*pair.introduction(), *pair.conclusion()]))
            title = f"{benchmark}: {first} (first) and {name} (second)"
            details[name].append(join([lines, table(title, head, shown, foot)]))
    if not heads:
        return
    caption = f"{first} minus each other run"
    yield table(
        caption, ["run", *heads], [[name, *own] for name, own in cells.items() if own], classes="sortable board"
    )
    text = (
        "The main metric of each benchmark on the same test rows, with its 95 % interval. p is from a paired test "
        "over test rows, corrected for the pairs of runs (Holm). The folded parts list every difference in settings "
        "and models. Detectable is the smallest difference that a sample of this size detects with power 0.8."
    )
    yield element("p", text, class_="soft")
    yield fold(
        "Differences, data set by data set", *(fold(f"{first} and {name}", *one) for name, one in details.items())
    )


def _scores(name: str, result: Result) -> Markup:
    """Return all scores of a result with their intervals, and its notes."""
    head, rows = result_rows(result)
    reasons = {dataset: "; ".join(dict.fromkeys(one.missing.values())) for dataset, one in result.details.items()}
    shown = [
        [Missing(reasons.get(row[0]) or "the notes below have the reason") if cell == "-" else cell for cell in row]
        for row in rows
    ]
    foot = shown[-1:] if len(shown) > len(result.divided) else []
    notes = element("ul", *(element("li", note) for note in remarks(result)))
    title = f"{result.benchmark}: all scores of {name}"
    return join([table(title, head, shown[: len(result.divided)], foot), notes])


def _published(group: Group) -> Iterator[Markup]:
    runs = group.get("Normal", {})
    try:
        model_size_chart(runs) if runs else None
    except ArgumentError:
        runs = {}
    if runs:  # only if a run is in the figure
        yield _figure(partial(model_size_chart, runs))
    for benchmark in group:
        if benchmark in HEADLINE and (found := published_figures(group[benchmark])):
            yield fold(f"{benchmark}: comparison with the published figures", found)


_QUESTIONS: dict[str, tuple[str, Callable[[Group], Iterator[Markup]]]] = {
    "accurate": ("How accurate?", _accurate),
    "calibrated": ("How calibrated?", _calibrated),
    "biased": ("How biased?", _biased),
    "robust": ("How robust?", _robust),
    "changed": ("What changed between two runs?", _changed),
    "published": ("Published figures", _published),
}


def _all_scores(group: Group) -> Iterator[Markup]:
    for name in dict.fromkeys(name for runs in group.values() for name in runs):
        yield fold(name, *(_scores(name, runs[name]) for runs in group.values() if name in runs))


def sections(benchmarks: Mapping[str, Runs]) -> Iterator[Section]:
    """Yield the sections of the benchmarks; results that are not comparable are in separate tables and figures.

    Args:
        benchmarks: For each benchmark, the results by the name of their run.
    """
    groups = comparable_groups(benchmarks)
    several = len(groups) > 1
    why = "These runs are not comparable with each other: data sets, limit, metrics or options differ. Each group has "
    boards = [leaderboard(group) for group in groups]
    text = [element("p", f"{why}a leaderboard of its own.", class_="soft")] if several else []
    yield Section("leaderboard", "Leaderboard", join([*text, *boards]))
    for key, (title, make) in {**_QUESTIONS, "scores": ("All scores", _all_scores)}.items():
        parts: list[str] = []
        for group in groups:
            if key == "changed":
                group = {benchmark: runs for benchmark, runs in group.items() if len(runs) > 1}
            found = [one for one in make(group) if one] if group else []
            if found:
                parts += [element("h3", group_title(group))] if several else []
                parts += found
        if parts:
            yield Section(key, title, join(parts))


def _run_warnings(benchmarks: Mapping[str, Runs]) -> Iterator[Markup]:
    """Yield the warnings of the runs about data and prompts, each once, after the names of its runs."""
    found: dict[str, dict[str, None]] = {}
    for runs in benchmarks.values():
        for name, result in runs.items():
            for warning in result.warnings:
                found.setdefault(warning, {})[name] = None
    if found:
        lines = [element("li", element("strong", ", ".join(names)), f": {text}") for text, names in found.items()]
        yield fold(f"Warnings about data and prompts: {len(lines)}", element("ul", *lines))


def _policy(scripts: Sequence[str]) -> str:
    """Return a content security policy that allows only the scripts of the page."""
    hashes = [hashlib.sha256(script.encode()).digest() for script in scripts]
    allowed = [f"'sha256-{base64.b64encode(digest).decode()}'" for digest in hashes]
    parts = (
        "default-src 'none'",
        "style-src 'unsafe-inline'",  # the style element, and widths of figures
        f"script-src {' '.join(allowed)}",
        "base-uri 'none'",
        "form-action 'none'",
    )
    return "; ".join(parts)


def _provenance(benchmarks: Mapping[str, Runs]) -> Section:
    """Return counts of queries, failures, signatures, models and environments."""
    counts, failures = [], []
    signatures: dict[str, list[str]] = {}
    environments: dict[str, str] = {}
    predictors: dict[tuple[str, ...], None] = {}
    for benchmark, runs in benchmarks.items():
        for name, result in runs.items():
            predictors |= dict.fromkeys(_predictor_rows(name, result))
            details = result.details.values()
            sums = [sum(getattr(one, key) for one in details) for key in ("asked", "distinct", "scored", "failed")]
            seconds = result.timing.get("seconds")
            counts.append(
                [name, benchmark, *map(str, sums), Missing("not recorded") if seconds is None else f"{seconds:.1f}"]
            )
            signatures.setdefault(str(result.signature), []).append(name)
            environments[name] = ", ".join(f"{key} {value}" for key, value in result.environment.items())
            failures += [
                [name, benchmark, dataset, one.condition, str(one.query), one.reason]
                for dataset, own in result.details.items()
                for one in own.failures
            ]
    head = ["run", "benchmark", "queries", "distinct", "scored", "failed", "seconds"]
    parts: list[str] = [fold("Queries of each benchmark", table("Queries of each benchmark", head, counts, words=(1,)))]
    if failures:
        where = ["run", "benchmark", "data set", "condition", "query", "reason"]
        shown = table("Failed queries", where, failures[:200], words=(1, 2, 3, 5))
        more = [] if len(failures) <= 200 else [element("p", f"The first 200 of {len(failures)}.")]
        parts.append(fold(f"{len(failures)} failed queries", shown, *more))
    listed = [element("li", f"{', '.join(names)}: ", _code(text)) for text, names in signatures.items()]
    meaning = "Runs with the same signature have the same prompts and the same settings."
    parts.append(fold("Signatures", element("p", meaning, class_="soft"), element("ul", *listed)))
    columns = ["run", "model", "settings", "data sets", "from (UTC)", "to (UTC)", "computed", "reused", "retried"]
    parts.append(fold("Models", table("Models", columns, list(map(list, predictors)), words=(1, 2, 3, 4, 5))))
    parts.append(fold("Environments", *(element("p", f"{name}: {text}") for name, text in environments.items())))
    return Section("runs", "Runs", join(parts))


def _predictor_rows(name: str, result: Result) -> Iterator[tuple[str, ...]]:
    """Yield one row for each model of a run."""
    for one in result.provenance.predictors:
        counts = (str(count) for count in (one.computed, one.reused, one.retried))
        method = {"method": result.provenance.method} if result.provenance.method else {}
        how = ", ".join(f"{key} {value}" for key, value in {**method, **one.how}.items())
        served = ", ".join(one.datasets) if len(one.datasets) < 4 else f"{len(one.datasets)} data sets"
        yield name, one.label, how or "default", served, one.started, one.finished, *counts


def _code(signature: str) -> Markup:
    """Return a signature with possible line breaks between its fields."""
    fields = signature.split("|")
    return element("code", *(join([field, "|", void("wbr")]) for field in fields[:-1]), fields[-1])


def _warnings(benchmarks: Mapping[str, Runs]) -> Iterator[Markup]:
    """Yield what a reader must know before the scores."""
    every = [(f"{name}, {benchmark}", one) for benchmark, runs in benchmarks.items() for name, one in runs.items()]
    incomplete = [name for name, one in every if not one.complete]
    early = [name for name, one in every if one.stopping is not None]
    if incomplete:
        yield element("p", f"PARTIAL, failed queries: {'; '.join(incomplete)}.", class_="warn")
    if early:
        text = f"STOPPED EARLY, do not compare with full runs: {'; '.join(early)}."
        yield element("p", text, class_="warn")


def report_html(
    results: Mapping[str, Result | ResultGroup], title: str = "StaICC report", more: Section | None = None
) -> str:
    """Return a report of saved results as an HTML document.

    Args:
        results: Results, or groups of results, by the name of their run.
        title: Its title.
        more: A section to add after the leaderboard, such as
            :func:`~StaICC.results.report.queries.query_section`.

    Returns:
        The document.

    Raises:
        ArgumentError: There are no results, or a run has two of one benchmark.
    """
    if not results:
        raise ArgumentError("a report needs at least one result")
    benchmarks = by_benchmark(results)
    board, *others = sections(benchmarks)
    built = [board, *([more] if more is not None else []), *others, _provenance(benchmarks)]
    assets = [one.assets for one in built if one.assets]
    scripts = [resource(f"{name}.js") for name in ("page", *assets)]
    style = "".join(resource(f"{name}.css") for name in ("style", *assets))
    head = [
        void("meta", charset="utf-8"),
        void("meta", http_equiv="Content-Security-Policy", content=_policy(scripts)),
        void("meta", name="viewport", content="width=device-width, initial-scale=1"),
        void("meta", name="color-scheme", content="light dark"),
        element("title", title),
        element("style", Markup(style + STYLE)),
    ]
    runs = list(dict.fromkeys(name for own in benchmarks.values() for name in own))
    count = "1 run" if len(runs) == 1 else f"{len(runs)} runs"
    links = [element("li", element("a", section.title, href=f"#{section.key}")) for section in built]
    body = [
        element(
            "header",
            element("h1", title),
            element("p", f"{count}. Benchmarks: {', '.join(benchmarks)}. StaICC {__version__}.", class_="lead"),
            element("nav", element("ul", *links), aria_label="Sections"),
            element("div", class_="tools"),
        ),
        element(
            "main",
            *_warnings(benchmarks),
            *_run_warnings(benchmarks),
            *(
                element("section", fold(element("h2", one.title), one.content, opened=True), id=one.key)
                for one in built
            ),
        ),
        *(element("script", Markup(script)) for script in scripts),
    ]
    return f"<!DOCTYPE html>\n{element('html', element('head', *head), element('body', *body), lang='en')}\n"


def write_report(
    results: Mapping[str, Result | ResultGroup] | Result | ResultGroup,
    path: str | os.PathLike[str],
    title: str = "StaICC report",
    more: Section | None = None,
) -> int:
    """Write a report of saved results, atomically.

    Args:
        results: A result, a group of results, or several by the name of their run.
        path: The file.
        title: Its title.
        more: A section to add after the leaderboard, such as
            :func:`~StaICC.results.report.queries.query_section`.

    Returns:
        Its size in bytes.

    Raises:
        ArgumentError: There are no results, or a run has two of one benchmark.
        OSError: The file cannot be written.
    """
    if isinstance(results, (Result, ResultGroup)):
        results = {"run": results}
    document = report_html(results, title, more).encode("utf-8")
    write_output(path, [document])
    return len(document)

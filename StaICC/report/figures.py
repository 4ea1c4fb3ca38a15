"""The figures of a report, each a function from results to a :class:`~StaICC.report.plots.Figure`.

A figure is a list of points. :func:`chart` draws them and writes the table of their numbers.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from itertools import compress
from types import MappingProxyType
from typing import Any, NamedTuple

from StaICC import benchmark_names
from StaICC.arguments import known_name
from StaICC.comparing.comparable_scores import default_metric, metrics_of
from StaICC.comparing.comparison_results import Comparison
from StaICC.comparing.generalisation import variance_components
from StaICC.comparing.published import published_figures, published_models
from StaICC.comparing.published_comparison import compare_with_published
from StaICC.comparing.verdicts import Tested, p_text
from StaICC.errors import ArgumentError
from StaICC.metrics.classification import ConfidenceBin
from StaICC.metrics.crossed_effects import SOURCES
from StaICC.metrics.diagnosis import label_frequencies, noisy_label_shares
from StaICC.metrics.intervals import Interval
from StaICC.metrics.scores import score_record
from StaICC.report.html import Missing
from StaICC.report.plots import SERIES, Axis, Figure, Panel, Shape, row_axis
from StaICC.results.details import DatasetDetails
from StaICC.results.left_out import with_marks
from StaICC.results.result import Result, ResultGroup
from StaICC.results.score_records import score_records


class ChartScore(NamedTuple):
    """A score with its interval and its baselines."""

    value: float | None = None
    interval: Interval | None = None
    reason: str = "not recorded"
    """Why there is no value, or no interval."""
    random: float | None = None
    """The expected best accuracy of guessing."""
    majority: float | None = None
    """The accuracy of the most frequent label."""
    left_out: int = 0
    """Number of queries that it leaves out."""
    stopped_early: bool = False
    """Whether the run stopped early."""

    @property
    def cell(self) -> str:
        """The value as a cell of a table, with its marks; ``-`` with the reason if there is none."""
        if self.value is None:
            return Missing(self.reason)
        return with_marks(f"{self.value:.4f}", self.left_out, self.stopped_early)

    @property
    def interval_cell(self) -> str:
        """The interval as a cell of a table; ``-`` with the reason if there is none."""
        interval = self.interval
        return Missing(self.reason) if interval is None else f"{interval.low:.3f} .. {interval.high:.3f}"


class Point(NamedTuple):
    """A score in a figure, and a row of its table."""

    panel: str
    series: str
    place: str
    """The name of its row, or of its place on the horizontal axis."""
    score: ChartScore
    x: float | None = None
    """The place on the horizontal axis; without one, a point is in the table only."""
    more: tuple[str, ...] = ()
    """Further cells of the table."""
    size: float = 1.0


ResultsByRun = Mapping[str, Result]
"""Results of one benchmark by the name of their run."""

Given = Result | Mapping[str, Result]
"""The argument of a figure: one result, or several by the name of their run."""

SLOPES = (benchmark_names.GLER, benchmark_names.TEMPLATE_SENSITIVITY, benchmark_names.DEMONSTRATION_SENSITIVITY)
"""Benchmarks whose scores of a data set are under ``sensitivity``."""
_NOT_EVALUATED = ChartScore(reason="data set not evaluated")


def named(given: Given) -> dict[str, Result]:
    """Return results by the name of their run.

    Args:
        given: One result, or results by name.

    Raises:
        ArgumentError: There are none.
    """
    runs = {given.benchmark: given} if isinstance(given, Result) else dict(given)
    if not runs or not all(isinstance(result, Result) for result in runs.values()):
        raise ArgumentError("a figure needs a result, or results by the name of their run")
    return runs


def dataset_names(runs: ResultsByRun) -> list[str]:
    """Return the data sets of all runs, each once.

    Args:
        runs: The runs.
    """
    return list(dict.fromkeys(name for result in runs.values() for name in result.divided))


def mean_key(benchmark: str, metric: str) -> str:
    """Return the key of the mean of a metric in :func:`scores_of`.

    Args:
        benchmark: Name of the benchmark.
        metric: The metric.
    """
    return f"sensitivity.{metric}" if benchmark in SLOPES else metric


def scores_of(result: Result) -> dict[tuple[str | None, str], ChartScore]:
    """Return every score with its interval, or the reason why it is undefined.

    Args:
        result: The result.

    Returns:
        The scores by data set (``None``: the mean) and key. Nested keys are joined by dots; a mean has the key of the
        scores that it averages.
    """
    scores: dict[tuple[str | None, str], ChartScore] = {}
    for record in score_records(result):
        place, key = record["dataset"], record["metric"]
        key = mean_key(result.benchmark, key) if place is None else key
        interval = None if record["low"] is None else Interval(record["low"], record["high"], record["level"], "")
        reason = record["missing"] or "not recorded"
        marks = record["left_out"], record["stopped_early"]
        score = ChartScore(record["value"], interval, reason, record["random"], record["majority"], *marks)
        if place is None:
            own = {name: scores[name, key] for name in result.divided if (name, key) in scores}
            if undefined := [name for name, score in own.items() if score.value is None]:
                where = ", ".join(undefined) if len(undefined) < len(own) else f"all {len(own)} data sets"
                score = score._replace(reason=f"undefined on {where}")
        scores[place, key] = score
    return scores


def labels_of(details: DatasetDetails) -> tuple[str, ...]:
    """Return the label names of a data set; label indices if the result has no names.

    Args:
        details: The details of the data set.
    """
    if details.labels:
        return details.labels
    seen = [label for record in details.conditions for label in (*record.truth, *record.predictions)]
    return tuple(map(str, range(1 + max((label for label in seen if label is not None), default=-1))))


_NO_NAMES = ("", "best", "other", "significant", "data sets")
"""Names of series that are not those of runs."""
_SHARE = Axis((0, 1), [(0, "0"), (0.5, "0.5"), (1, "1")])
_ACCURACY = _SHARE._replace(label="accuracy")
_BASELINES = [Shape(text="random baseline"), Shape(kind="dashed", text="majority baseline")]


def _range_axis(values: Iterable[float], steps: int) -> Axis:
    """Return an axis that contains all values, with round ticks: at most so many steps within the range."""
    known = sorted(values)
    span = max(known[-1] - known[0], 1e-3)
    step = 10.0 ** math.floor(math.log10(span))
    step = next(step * factor for factor in (0.2, 0.5, 1.0, 2.0, 5.0, 10.0) if span / (step * factor) <= steps)
    ends = (math.floor(known[0] / step), math.ceil(known[-1] / step))
    ends = (ends[0], max(ends[1], ends[0] + 1))
    ticks = [(tick * step, f"{tick * step:.6g}") for tick in range(ends[0], ends[1] + 1)]
    return Axis((ticks[0][0], ticks[-1][0]), ticks)


def chart(
    title: str,
    caption: str,
    head: Sequence[str],
    points: Sequence[Point],
    series: Mapping[str, int | None] | None = None,
    *,
    needs: str = "",
    across: Axis | Mapping[str, Axis] | None = None,
    values: Axis | Mapping[str, Axis] | None = None,
    lines: Mapping[str, Sequence[Shape]] = MappingProxyType({}),
    legend: Sequence[Shape] = (),
    dodge: float = 0.0,
    width: int = 244,
) -> Figure:
    """Return a figure of points, with the table of their numbers.

    Args:
        title: The title.
        caption: What it shows.
        head: The names of panels, series, places, scores and further cells; a column without a name is left out.
        points: The points, in the order of the table.
        series: The number of each series, which decides its marker and colour (``None`` is grey); by default in the
            order of the points, with a legend. Lines connect the points of a numbered series in a curve.
        needs: The message if no point has a value; without one, a figure may have no panels.
        across: The horizontal axis of curves, or of each panel. Without one, each place is a row, and the baselines are
            lines in it.
        values: The axis of the scores, or that of each panel; by default it contains all of them.
        lines: Lines in the background of each panel.
        legend: Further entries of the legend.
        dodge: Distance of series from each other at the same place.
        width: Pixels; rows of a panel below 200 pixels have no names.

    Raises:
        ArgumentError: No point has a value, and there is a message for that.
    """
    names = list(dict.fromkeys(point.series for point in points))
    numbers = {name: number for number, name in enumerate(names)} if series is None else series

    def panel(name: str, own: Sequence[Point]) -> Panel:
        horizontal, vertical = (axis.get(name) if isinstance(axis, Mapping) else axis for axis in (across, values))
        rows = list(dict.fromkeys(point.place for point in own))
        shapes, marks, curves = [*lines.get(name, ())], list[Shape](), dict[int | None, list[tuple[float, float]]]()
        for point in own:
            score, number = point.score, numbers[point.series]
            place = point.x if horizontal else float(rows.index(point.place))
            if score.value is None or place is None or (number or 0) >= SERIES:
                continue
            for base, kind in ((score.random, "line"), (score.majority, "dashed")):
                if base is not None and horizontal is None:
                    shapes.append(Shape([(base, place - 0.5), (base, place + 0.5)], kind=kind))
            place += dodge * ((number or 0) - (len(numbers) - 1) / 2)
            figures_ = [score.value, *((score.interval.low, score.interval.high) if score.interval else ())]
            middle, *ends = [(place, value) if horizontal else (value, place) for value in figures_]
            shapes += [Shape(ends, number)] if ends else []
            text = ", ".join(filter(None, dict.fromkeys((point.series, point.place))))
            marks.append(Shape([middle], number, "mark", f"{text}: {score.cell}", point.size))
            curves.setdefault(number, []).append(middle)
        spread = [end[1 if horizontal else 0] for shape in (*shapes, *marks) for end in shape.points]
        vertical = vertical or (_range_axis(spread, width // 80) if spread else _SHARE)
        if horizontal:
            shapes += [Shape(curve, number) for number, curve in curves.items() if number is not None]
            return Panel(name, horizontal, vertical, [*shapes, *marks], width)
        shown = row_axis([row if width >= 200 else "" for row in rows], 16 if width < 300 else 30)
        return Panel(name, vertical, shown, [*shapes, *marks], width)

    by_panel: dict[str, list[Point]] = {}
    for point in points:
        by_panel.setdefault(point.panel, []).append(point)
    drawn = {name: own for name, own in by_panel.items() if any(point.score.value is not None for point in own)}
    if not drawn and needs:
        raise ArgumentError(f"{title}: {needs}")
    keys = [Shape((), numbers[name], "mark", name) for name in names if name] if head[1] and len(names) > 1 else []
    baselines = across is None and any(point.score.random is not None for point in points)
    bounds = any(point.score.interval for point in points)
    columns = [*head[:4], "interval" * bounds, *(key.text * baselines for key in _BASELINES), *head[4:]]
    rows = []
    for point in points:
        score = point.score
        bases = (ChartScore(score.random).cell, ChartScore(score.majority).cell)
        row = (*point[:3], score.cell, score.interval_cell, *bases, *point.more)
        rows.append([*compress(row, columns)])
    if len(keys) > SERIES:
        caption += f" The first {SERIES} of {len(keys)} are drawn, the table has all."
    return Figure(
        title,
        f"{caption}{_marks_note(points)}",
        [*map(panel, drawn, drawn.values())],
        [*filter(None, columns)],
        rows,
        range(sum(map(bool, head[:3]))),
        [*keys[:SERIES], *(_BASELINES if baselines else ()), *legend],
    )


def _left_out_note(given: Given) -> str:
    """Return the sentence of a caption about queries that the predictions of a figure leave out; empty without any."""
    runs = named(given)
    counts = {name: sum(own.asked - own.scored for own in run.details.values()) for name, run in runs.items()}
    listed = "; ".join(f"{name}: {count}" for name, count in counts.items() if count)
    return f" Queries left out: {listed}." if listed else ""


def _marks_note(points: Iterable[Point]) -> str:
    """Return the sentences of a caption about scores that are not of all queries."""
    marked: dict[str, list[str]] = {}
    for point in points:
        score = point.score
        if score.value is None:
            continue
        name = ", ".join(dict.fromkeys(part for part in (point.series, point.place) if part not in _NO_NAMES))
        if score.left_out:
            marked.setdefault("Queries left out", []).append(f"{name}: {score.left_out}")
        if score.stopped_early:
            marked.setdefault("Stopped early", []).append(name)
    return "".join(f" {mark}: {'; '.join(dict.fromkeys(names))}." for mark, names in marked.items())


def accuracy_by_dataset(given: Given) -> Figure:
    """Return accuracy by data set, with confidence intervals, the random baseline and the majority baseline.

    Args:
        given: A result of a benchmark that scores accuracy by data set (Normal), or several by the name of their run.

    Raises:
        ArgumentError: There are no results, or none has an accuracy.
    """
    runs = named(given)
    scores = {name: scores_of(result) for name, result in runs.items()}
    places = [(dataset, name) for dataset in dataset_names(runs) for name in runs]
    return chart(
        "Accuracy by data set",
        "Points are accuracies, with their confidence intervals. The solid line is the random baseline (the expected "
        "best of the tried settings), the dashed line is the majority baseline.",
        ["data set", "", "run", "accuracy"],
        [Point(set_, run, run, scores[run].get((set_, "accuracy"), _NOT_EVALUATED)) for set_, run in places],
        needs="no result has an accuracy. Use results of Normal",
        values=_SHARE,
    )


def forest(given: Given, metric: str | None = None) -> Figure:
    """Return a forest plot: the data sets of one result and their mean, or the means of several results.

    Args:
        given: A result, or several of one benchmark by the name of their run.
        metric: A score with a mean; by default the main one of the benchmark, or the first condition of an experiment.

    Raises:
        ArgumentError: There are no results, they are of several benchmarks, or none has the score.
    """
    runs = named(given)
    benchmarks = list(dict.fromkeys(result.benchmark for result in runs.values()))
    if len(benchmarks) > 1:
        raise ArgumentError(f"expected results of one benchmark, got {', '.join(benchmarks)}. Plot one of them")
    first = next(iter(runs.values()))
    metric = metric or default_metric(first) or next(iter(metrics_of(first)), "accuracy")
    key = mean_key(first.benchmark, metric)
    record = score_record(first.benchmark, metric, first.higher_is_better)
    title = record.title
    if len(runs) == 1:
        own = scores_of(first)
        kinds = dict.fromkeys(first.divided, "data sets") | ({None: "mean"} if len(first.divided) > 1 else {})
        points = [
            Point(title, kind, name or "mean", own.get((name, key), ChartScore())) for name, kind in kinds.items()
        ]
    else:
        means = {name: scores_of(run).get((None, key), ChartScore()) for name, run in runs.items()}
        points = [Point(title, "", name, mean._replace(random=None, majority=None)) for name, mean in means.items()]
    better = {True: "Higher is better. ", False: "Lower is better. ", None: ""}[record.higher_is_better]
    return chart(
        title,
        f"{better}Points with confidence intervals.",
        ["", "", "data set" if len(runs) == 1 else "run", title],
        points,
        needs=f"no value in the results; scores with a mean: {', '.join(first.averaged)}",
        width=400,
    )


def differences(compared: Sequence[Comparison]) -> Figure:
    """Return a forest plot of the differences between two runs by data set, or of several pairs in the mean.

    Args:
        compared: Comparisons by one metric.

    Raises:
        ArgumentError: There are none.
    """
    if not compared:
        raise ArgumentError("a figure needs a comparison of two runs at least")
    (first, *others), points = compared, []
    title = f"Difference in {first.metric}" + ("" if others else f": {first.first} - {first.second}")
    for pair in compared:
        for line in pair.claims if others else pair.lines:
            outcome = line.outcome
            p = p_text(outcome.corrected_p_value) if isinstance(outcome, Tested) else Missing(outcome.reason)
            kind = "significant" if isinstance(outcome, Tested) and outcome.significant else "other"
            name = line.dataset
            if others:
                name = f"{pair.first} - {pair.second}{f', {line.dataset}' if pair.by_condition else ''}"
            reason = "it has no bound" if line.difference is not None else "no query of a data set has a score"
            difference = ChartScore(line.difference, line.interval, reason, left_out=sum(line.missing))
            points.append(Point(title, kind, name, difference, more=(p,)))
    return chart(
        title,
        "First minus second run, with intervals. Significant differences (Holm) are coloured, others are grey.",
        ["", "", "runs" if others else "data set", "difference", "p (Holm)"],
        points,
        {"significant": 0, "other": None},
        lines={title: [Shape([(0, -0.5), (0, len(points) - 0.5)])]},
        width=400,
    )


def confusion_counts(details: DatasetDetails) -> list[list[int]]:
    """Return the number of queries of all conditions by true label (rows) and predicted label.

    Args:
        details: The details of a data set.
    """
    if not details.conditions:
        return []
    labels = range(len(labels_of(details)))
    counts = Counter(pair for own in details.conditions for pair in zip(own.truth, own.predictions, strict=True))
    return [[counts[truth, predicted] for predicted in labels] for truth in labels]


def confusion_note(result: Result) -> str:
    """Return what confusion matrices of a result leave out; an empty text if it is nothing.

    Args:
        result: The result.
    """
    guesses = [guess for details in result.details.values() for own in details.conditions for guess in own.predictions]
    lost = sum(guess is None or guess < 0 for guess in guesses)
    return f" {lost} of {len(guesses)} queries have no predicted label." if lost else ""


def confusion_matrices(given: Given) -> Figure:
    """Return the confusion matrices of a result: a panel for each data set.

    Args:
        given: One result, or one result by the name of its run.

    Raises:
        ArgumentError: There are several results, or the result has no predictions.
    """
    runs = named(given)
    if len(runs) > 1:
        raise ArgumentError(f"expected one result, got {len(runs)}. Plot them one by one")
    (result,) = runs.values()
    panels, rows = [], []
    for dataset, details in result.details.items():
        labels, cells = labels_of(details), []
        for truth, row in enumerate(confusion_counts(details)):
            for predicted, queries in enumerate(row):
                share = queries / (sum(row) or 1)
                cells.append(Shape([(predicted, truth)], int(truth != predicted), "cell", str(queries), share))
                rows.append([dataset, labels[truth], labels[predicted], str(queries)])
        if cells:
            across = row_axis(labels, 7)
            axis = across._replace(ends=(-0.5, len(labels) - 0.5), label="predicted label")
            panels.append(Panel(dataset, axis, row_axis(labels), cells, 124 + 52 * len(labels)))
    if not panels:
        raise ArgumentError("the result has no predictions of queries")
    return Figure(
        "Confusion matrices",
        "Queries of all conditions by true label (row) and predicted label (column). Blue is correct, orange is wrong."
        + confusion_note(result),
        panels,
        ["data set", "true label", "predicted label", "queries"],
        rows,
        (1, 2),
    )


def _costs(result: Result) -> dict[str, float | None]:
    prompts = [result.timing.get(f"{key}_prompts") for key in ("training", "test")]
    known = [number for number in prompts if number is not None]
    return {"tokens": result.timing.get("tokens_alone"), "prompts": sum(known) if len(known) == 2 else None}


def cost_chart(given: Given) -> Figure:
    """Return the accuracy and the cost of each method: its tokens where all results have them, else its prompts.

    Args:
        given: Results of methods by name, such as the table of :func:`~StaICC.methods.run.run_all`.

    Raises:
        ArgumentError: No result has a cost and an accuracy.
    """
    runs = named(given)
    costs = {name: _costs(result) for name, result in runs.items()}
    unit = "prompts" if any(own["tokens"] is None for own in costs.values()) else "tokens"
    points, spent, best = [], [], list[tuple[float, float]]()
    for row, name in enumerate(sorted(runs, key=lambda name: costs[name][unit] or math.inf)):
        cost, score = costs[name][unit], scores_of(runs[name]).get((None, "accuracy"), ChartScore())
        point = Point("Accuracy", "", name, score, more=(Missing("not recorded") if cost is None else f"{cost:.0f}",))
        points.append(point)
        spent.append(point._replace(panel=f"Thousand {unit}", score=ChartScore(cost / 1000 if cost else None)))
        if cost and score.value is not None:
            highest = max(score.value, best[-1][0] if best else 0.0)
            best += [(highest, row - 0.5), (highest, row + 0.5)]
    if not best:
        raise ArgumentError("no result has a cost and an accuracy. Use the results of run_all")
    figure = chart(
        "Accuracy and cost",
        f"Accuracy (mean over the data sets) with its interval, and the {unit} of training and test. The cheapest "
        "method is at the top.",
        ["", "", "method", "accuracy", unit],
        points,
        lines={"Accuracy": [Shape(best, 1)]},
        legend=[Shape((), 1, text="highest accuracy of the methods that cost no more")],
        width=320,
    )
    return replace(figure, panels=[*figure.panels, *chart("", "", [""] * 4, spent, width=320).panels])


def _bins(result: Result) -> dict[str, tuple[ConfidenceBin, ...]]:
    """Return the confidence bins of each data set whose conditions have them."""
    by_dataset = {}
    for dataset, details in result.details.items():
        of_conditions = [own.calibration for own in details.conditions if own.calibration is not None]
        bins = _pooled(of_conditions) if len(of_conditions) == len(details.conditions) else ()
        if any(inside.queries for inside in bins):
            by_dataset[dataset] = bins
    return by_dataset


def _pooled(bins: Iterable[tuple[ConfidenceBin, ...]]) -> tuple[ConfidenceBin, ...]:
    every = zip(*bins, strict=True)
    return tuple(ConfidenceBin(*(sum(values) for values in zip(*same, strict=True))) for same in every)


def reliability_diagrams(given: Given) -> Figure:
    """Return accuracy against confidence in ten bins: one panel for each data set, or for each of several runs.

    Args:
        given: A result of Normal with probabilities: a panel for each data set. Or results by the name of their run: a
            panel for each run, with the queries of all data sets.

    Raises:
        ArgumentError: No result has confidence bins: the predictions are labels, or ambiguous scores.
    """
    if isinstance(given, Result):
        by, every = "data set", _bins(given)
    else:
        by, every = "run", {name: _pooled(_bins(run).values()) for name, run in named(given).items()}
    points = []
    for name, bins in every.items():
        total = sum(inside.queries for inside in bins)
        for place, (queries, confidences, correct) in enumerate(bins):
            if queries:
                confidence, span = confidences / queries, f"{place / len(bins):g} to {(place + 1) / len(bins):g}"
                more, size = (f"{confidence:.3f}", str(queries)), 0.5 + (queries / total) ** 0.5
                points.append(Point(name, "", span, ChartScore(correct / queries), confidence, more, size))
    return chart(
        f"Reliability by {by}",
        "Accuracy (vertical) against confidence in ten bins. The size of a point grows with the number of queries. "
        "Points on the dashed line are calibrated, points below it are overconfident." + _left_out_note(given),
        [by, "", "confidence", "accuracy", "mean confidence", "queries"],
        points,
        needs="the result has no confidences: its predictions are labels, or ambiguous scores",
        across=_SHARE._replace(label="confidence"),
        values=_ACCURACY,
        lines={name: [Shape([(0, 0), (1, 1)], kind="dashed")] for name in every},
        width=200,
    )


_PREDICTED_FROM = {
    benchmark_names.CONTEXTUAL_BIAS: "empty query",
    benchmark_names.DOMAIN_BIAS: "random words",
    benchmark_names.POSTERIOR_BIAS: "test queries",
}


def bias_distributions(given: Given) -> Figure:
    """Return the mean predictions of the bias benchmarks over the labels of each data set.

    Args:
        given: A result of a bias benchmark, or the results of one run, such as a group of results.

    Raises:
        ArgumentError: There are no distributions, or two results are of one benchmark.
    """
    results = {result.benchmark: result for result in named(given).values()}
    if len(results) < len(named(given)):
        raise ArgumentError(f"expected the results of one run, got {', '.join(named(given))}. Plot them one by one")
    points, lines = [], {}
    for dataset in dataset_names(results):
        for benchmark, source in _PREDICTED_FROM.items():
            result = results.get(benchmark)
            distribution = result.divided.get(dataset, {}).get("distribution") if result else None
            if not result or not isinstance(distribution, (list, tuple)):
                continue
            details = result.details[dataset]
            labels = details.labels or tuple(map(str, range(len(distribution))))
            shares = {source: distribution}
            if benchmark == benchmark_names.POSTERIOR_BIAS and details.conditions:
                shares["true labels"] = label_frequencies(details.conditions[0].truth, len(labels))
            uniform = [(1 / len(labels), -0.5), (1 / len(labels), len(labels) - 0.5)]
            lines[dataset] = [Shape(uniform, kind="dashed")]
            for name, own in shares.items():
                points += [
                    Point(dataset, name, label, ChartScore(share)) for label, share in zip(labels, own, strict=True)
                ]
    return chart(
        "Mean predictions",
        "Mean predicted probability of each label for empty queries, random words and test queries, and the "
        "frequencies of the true labels. The dashed line is the uniform distribution." + _left_out_note(given),
        ["data set", "queries", "label", "mean prediction"],
        points,
        needs="no result has a mean prediction. Use results of the bias benchmarks",
        values=_SHARE,
        lines=lines,
        legend=[Shape(kind="dashed", text="uniform")],
        dodge=0.2,
    )


def noise_lines(given: Given) -> Figure:
    """Return accuracy against the share of correct labels in the demonstrations, with the GLER regression line.

    Args:
        given: A result of GLER, or several by the name of their run.

    Raises:
        ArgumentError: No result has an accuracy by noise rate.
    """
    points = []
    for name, result in named(given).items():
        scores, k = scores_of(result), result.signature.fields.get("k") or ""
        # Without k, the shares that the noise rates aim at.
        demonstrations = int(k) if k.isdigit() and int(k) else 10**6
        for dataset, values in result.divided.items():
            slope = scores.get((dataset, "sensitivity.accuracy"), ChartScore())
            cell = slope.cell if slope.value is None else f"{slope.value:+.4f}"
            steps = sorted(int(key) for key in values if key.isdigit())
            for step, share in zip(steps, noisy_label_shares(demonstrations, len(steps)), strict=True):
                score = scores.get((dataset, f"{step}.accuracy"), ChartScore())
                points.append(Point(dataset, name, f"{share:.2f}", score, share, (cell,)))
    return chart(
        "Accuracy against label noise",
        "From all demonstration labels wrong (left) to all correct (right). GLER is the slope of a line through the "
        "points: how much the demonstration labels influence the predictions.",
        ["data set", "run", "share of correct labels", "accuracy", "slope (GLER)"],
        points,
        needs="no result has an accuracy by noise rate. Use results of GLER",
        across=_SHARE._replace(label="share of correct labels"),
        values=_ACCURACY,
        width=200,
    )


def variance_chart(given: Given) -> Figure:
    """Return by how much the accuracy varies with test rows, draws of demonstrations, templates and their interactions.

    Args:
        given: A result of ``Generalisation``, or several by the name of their run.

    Raises:
        ArgumentError: There are no results, or one is of another benchmark.
    """
    points = []
    for name, result in named(given).items():
        for line in variance_components(result).lines:
            for source, (deviation, ends) in zip(SOURCES.values(), line.deviations, strict=True):
                interval = Interval(*ends, 0.95, "") if ends else None
                score = ChartScore(deviation, interval, "too few levels, or no variation")
                points.append(Point(line.dataset, name, source, score))
    return chart(
        "Sources of variance",
        "Standard deviation of the accuracy that comes from each source, at the numbers of rows, draws and templates "
        "of the run, with 95 % intervals. Estimates of variances below 0 are shown as 0." + _left_out_note(given),
        ["data set", "run", "source", "standard deviation"],
        points,
        dodge=0.1,
    )


_NOT_SETTINGS = ("prompts", "failed", "version")


def shots_lines(given: Given) -> dict[str, dict[int, Result]]:
    """Return the runs that differ in ``k`` only, by model, method and other settings, each with its results by ``k``.

    Args:
        given: Results of Normal.
    """
    lines: dict[tuple[tuple[str, str | None], ...], dict[int, Result]] = {}
    for result in named(given).values():
        fields = {name: value for name, value in result.signature.fields.items() if name not in _NOT_SETTINGS}
        if (k := str(fields.pop("k", None))).isdigit():
            own = {"method": result.method, "demonstrations": "default", **fields, "model": result.model}
            lines.setdefault(tuple(own.items()), {})[int(k)] = result
    drawn = [(dict(own), dict(sorted(line.items()))) for own, line in lines.items() if len(line) > 1]
    fields = dict.fromkeys(name for own, _ in drawn for name in own)
    names = [field for field in fields if len({own.get(field) for own, _ in drawn}) > 1]
    always = ("method", "demonstrations", "model")
    shown = [*always, *(name for name in names if name not in always)]
    return {
        ", ".join(f"{own[name]}" if name in always else f"{name} {own.get(name, 'not set')}" for name in shown): line
        for own, line in drawn
    }


def shots_chart(given: Given) -> Figure:
    """Return accuracy and cost against the number of demonstrations, one line for each model and method.

    Args:
        given: Results with different ``k``, by the name of their run, such as those of
            :func:`~StaICC.methods.many_shot.run_many_shot`.

    Raises:
        ArgumentError: No two results differ in ``k`` only.
    """

    def place(k: int) -> float:
        return math.log2(k) if k else -1.0

    lines = shots_lines(given)
    points = []
    keys = {"Thousand characters": "prompt_characters", "Without shared prefixes": "new_characters"}
    for title, key in {"Accuracy": None, **keys}.items():
        for name, line in lines.items():
            for k, result in line.items():
                score = scores_of(result).get((None, "accuracy"), ChartScore())
                if key is not None:
                    cost = result.timing.get(key)
                    score = ChartScore(None if cost is None else cost / 1000)
                points.append(Point(title, name, str(k), score, place(k)))
    ks = sorted({k for line in lines.values() for k in line}) or [0]
    ticks = [(place(k), str(k)) for k in ks]
    return chart(
        "Number of demonstrations",
        "Accuracy (mean over the data sets) against k with confidence intervals, and the characters of all test "
        "prompts: in total, and without the prefixes that prompts share with each other and with the prompts of a "
        "smaller k.",
        ["panel", "model and method", "k", "value"],
        points,
        needs="no two results differ in k only. Use results of run_many_shot",
        across=Axis((ticks[0][0] - 0.3, ticks[-1][0] + 0.3), ticks, "demonstrations (k)"),
        values={"Accuracy": _SHARE},
        dodge=0.1,
    )


def rounds_chart(given: Given) -> Figure:
    """Return the score of each data set by rounds of demonstrations, with the published models in the background.

    Args:
        given: A result of LongICL, or several by the name of their run.

    Raises:
        ArgumentError: No result has a score of a round.
    """
    runs = named(given)
    scores = {name: scores_of(result) for name, result in runs.items()}
    places = {f"{n}R": float(n) for n in range(1, 6)}
    points: list[Point] = []
    lines: dict[str, list[Shape]] = {}
    for dataset in dataset_names(runs):
        for name, own in scores.items():
            found = {key: own.get((dataset, key), _NOT_EVALUATED) for key in places}
            points += [Point(dataset, name, key, score, places[key]) for key, score in found.items()]
        curves: dict[str, list[tuple[float, float]]] = {}
        for figure in published_figures(benchmark_names.LONG_ICL):
            if figure.dataset == dataset and figure.value is not None and figure.metric in places:
                curves.setdefault(figure.model, []).append((places[figure.metric], figure.value))
        uniform = [own.get((dataset, "uniform"), ChartScore()).value for own in scores.values()]
        guess = [Shape([(0.7, value), (5.3, value)], kind="dashed") for value in uniform if value is not None]
        lines[dataset] = [*map(Shape, curves.values()), *guess[:1]]
    return chart(
        "Score by rounds of demonstrations",
        "Accuracy or micro F1 (vertical). Each round adds one demonstration of every label. Grey lines are the "
        "published models, the dashed line is the random baseline.",
        ["data set", "run", "round", "score"],
        points,
        needs="no result has a score of a round. Use results of LongICL",
        across=Axis((0.7, 5.3), [(x, f"{x:g}") for x in places.values()], "rounds of demonstrations"),
        values=_SHARE._replace(label="score"),
        lines=lines,
        legend=[Shape(text="published models"), Shape(kind="dashed", text="random baseline")],
    )


def model_size_chart(given: Given, method: str = "Vanilla ICL") -> Figure:
    """Return the published accuracies against the number of parameters, and each comparable run as a horizontal line.

    Args:
        given: A result of Normal, or several by the name of their run.
        method: The inference method whose published figures are drawn.

    Raises:
        ArgumentError: No run is comparable with the published figures
            (:mod:`StaICC.comparing.published`).
        UnknownNameError: There is no such published method.
    """
    own = [
        (name, compared.value)
        for name, result in list(named(given).items())[:SERIES]
        for compared in compare_with_published(result, method)
        if compared.metric == "accuracy" and compared.reason is None and compared.value is not None
    ]
    if not own:
        raise ArgumentError("no run is comparable with the published figures")
    sizes = {model.name: model.params_b for model in published_models()}
    title, points = "Accuracy, mean of ten data sets", []
    for figure in published_figures(benchmark_names.NORMAL, method=method, metric="accuracy"):
        if figure.value is not None:
            size = sizes[figure.model]
            place, more = None if figure.doubtful else math.log10(size), (f"{size:g}", "; ".join(figure.warnings))
            points.append(Point(title, "published models", figure.model, ChartScore(figure.value), place, more))
    unknown = Missing("the parameters of a run are not recorded")
    points += [Point(title, "runs", name, ChartScore(value), None, (unknown, "")) for name, value in own]
    ticks = [(-2.0, "10M"), (-1.0, "100M"), (0.0, "1B"), (1.0, "10B"), (2.0, "100B")]
    keys = [Shape((), number, text=name) for number, (name, _) in enumerate(own)]
    return chart(
        "Comparison with the published models",
        f"Accuracy of the published models ({method}) against their number of parameters. A horizontal line is a run "
        "with the published prompts.",
        ["", "", "model", "accuracy", "parameters (billions)", "warnings"],
        points,
        {"published models": None, "runs": 0},
        across=Axis((-2, 2.3), ticks, "parameters"),
        lines={title: [Shape([(-2, value), (2.3, value)], number) for number, (_, value) in enumerate(own)]},
        legend=[Shape(kind="mark", text="published models"), *keys],
        width=640,
    )


_CURVES = {
    "context": "tokens of the context",
    "shots": "demonstrations per label",
    "position": "part of the context",
    benchmark_names.HELMET: "length of HELMET",
}


def _conditions(result: Result, dataset: str) -> Mapping[str, Mapping[str, Any]]:
    conditions: Mapping[str, Any] = (result.divided.get(dataset, {}).get("experiment") or {}).get("conditions", {})
    return conditions


def _length(result: Result, dataset: str, name: str) -> float:
    """Return the logarithm of the length of a context, by the tokenizer of the model where it is known."""
    tokens = result.timing.get(f"{dataset}, {name}, tokens")
    return math.log2(max(1.0, tokens or _conditions(result, dataset)[name].get("reference_tokens") or 1.0))


def experiment_chart(given: Given) -> Figure:
    """Return the scores of an experiment of LongICL, or of HELMET's lengths, by condition, with their intervals.

    The axis of the experiment ``context`` is the number of tokens, by the model's tokenizer where it is known.

    Args:
        given: A result of LongICL with an experiment, or of HELMET; or several of the same experiment by the name of
            their run.

    Raises:
        ArgumentError: There is no experiment, or there are several.
    """
    runs = named(given)
    every = (values.get("experiment") for result in runs.values() for values in result.divided.values())
    kinds = {str(experiment["name"]) for experiment in every if experiment}
    if len(kinds) != 1:
        raise ArgumentError(f"expected results of one experiment of LongICL, got {', '.join(sorted(kinds)) or 'none'}")
    (kind,) = kinds
    points: list[Point] = []
    bands, across = dict[str, list[Shape]](), dict[str, Axis]()
    for dataset in dataset_names(runs):
        rows = {name: row for result in runs.values() for name, row in _conditions(result, dataset).items()}
        names, places, bands[dataset] = list(rows), list[float](), []
        if kind in ("shots", benchmark_names.HELMET):  # runs may have other levels
            names.sort(key=lambda name: rows[name].get("demonstrations") or 0)
        for number, (run, result) in enumerate(runs.items()):
            own, at = _conditions(result, dataset), dict[str, float]()
            for name, row in own.items():
                at[name] = _length(result, dataset, name) if kind == "context" else float(names.index(name))
                if kind == "position":  # the middle of the part; runs may have other numbers of parts
                    at[name] = (at[name] + 0.5) * len(names) / len(own) - 0.5
                low, high = row.get("score_low"), row.get("score_high")
                interval = None if low is None or high is None else Interval(low, high, 0.95, "")
                score = ChartScore(row.get("score"), interval, "undefined or not measured")
                score = score._replace(left_out=result.left_out_of(name, dataset))
                points.append(Point(dataset, run, name, score, at[name]))
            places += at.values()
            for key in ("band_low", "band_high") if number < SERIES else ():
                band = [(at[name], row[key]) for name, row in own.items() if row.get(key) is not None]
                bands[dataset] += [Shape(band, number, "dashed")] if band else []
        if kind in _CURVES and places:
            ticks = [(float(n), name.removeprefix("part ").removesuffix(" shots")) for n, name in enumerate(names)]
            if kind == "context":
                powers = range(math.floor(min(places)), math.ceil(max(places)) + 1)
                ticks = [(float(power), f"{2**power // 1024}K" if power >= 10 else str(2**power)) for power in powers]
            across[dataset] = Axis((ticks[0][0] - 0.3, ticks[-1][0] + 0.3), ticks, _CURVES[kind])
    curves = "Dashed lines are simultaneous intervals, for all conditions of a run together. "
    return chart(
        "HELMET" if kind == benchmark_names.HELMET else f"Experiment: {kind}",
        f"Accuracy or micro F1 by condition, with intervals. {curves if across else ''}",
        ["data set", "run", "condition", "score"],
        points,
        across=across or None,
        values=_SHARE._replace(label="score" * bool(across)),
        lines=bands if across else {},
        dodge=0.0 if across else 0.1,
    )


KINDS: Mapping[str, Callable[..., Figure]] = {
    "forest": forest,
    "accuracy": accuracy_by_dataset,
    "reliability": reliability_diagrams,
    "confusion": confusion_matrices,
    "bias": bias_distributions,
    "noise": noise_lines,
    "variance": variance_chart,
    "rounds": rounds_chart,
    "experiment": experiment_chart,
    "shots": shots_chart,
    "cost": cost_chart,
    "models": model_size_chart,
}
"""The figures of a result by name."""


def figure_of(result: Result | ResultGroup, kind: str = "forest", **options: Any) -> Figure:
    """Return a figure of a result or of a group of results.

    Args:
        result: The result; of a group, all of its results are drawn.
        kind: One of :data:`KINDS`.
        **options: Further arguments of the figure, such as ``metric`` of :func:`forest`.

    Raises:
        ArgumentError: The result has not what the figure needs; the message says what.
        UnknownNameError: There is no such figure.
    """
    draw = KINDS[known_name("figure", kind, KINDS)]
    return draw(result if isinstance(result, Result) else dict(result), **options)

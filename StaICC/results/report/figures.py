"""The figures of a report. Each takes results and returns a :class:`~StaICC.results.report.plots.Figure`.

The first functions read the values of figures and tables from results by run name.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from itertools import chain
from typing import Any, NamedTuple

from StaICC.errors import ArgumentError, unknown_name
from StaICC.metrics import gler
from StaICC.metrics.classification import ConfidenceBin
from StaICC.metrics.crossed_effects import SOURCES
from StaICC.metrics.diagnosis import label_frequencies, noisy_label_shares
from StaICC.metrics.intervals import Interval
from StaICC.metrics.registry import HEADLINE, score_record
from StaICC.results.comparison import Comparison, Tested, p_text
from StaICC.results.generalisation import variance_components
from StaICC.results.provenance import Baselines, ConditionRecord, DatasetDetails
from StaICC.results.published import compare_with_published, figures, models, other_long_icl
from StaICC.results.report.html import Missing
from StaICC.results.report.plots import SERIES, Axis, Bar, Cell, Figure, Key, Line, Mark, Panel, row_axis
from StaICC.results.result import Result, ResultGroup, experiment_rows, score_records


class Score(NamedTuple):
    """A score with its interval."""

    value: float | None = None
    interval: Interval | None = None
    reason: str = "not recorded"
    """Why there is no value, or no interval."""

    @property
    def cell(self) -> str:
        """The value as a cell of a table; ``-`` with the reason if there is none."""
        return Missing(self.reason) if self.value is None else f"{self.value:.4f}"

    @property
    def interval_cell(self) -> str:
        """The interval as a cell of a table; ``-`` with the reason if there is none."""
        if self.interval is None:
            return Missing(self.reason)
        return f"{self.interval.low:.3f} .. {self.interval.high:.3f}"


Runs = Mapping[str, Result]
"""Results of one benchmark by the name of their run."""

Given = Result | Mapping[str, Result]
"""The argument of a figure: one result, or several by the name of their run."""

NOT_EVALUATED = Score(reason="data set not evaluated")
SLOPES = ("GLER", "Template_sens", "Demo_sens")
"""Benchmarks whose scores of a data set are under ``sensitivity``."""


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


def dataset_names(runs: Runs) -> list[str]:
    """Return the data sets of all runs, each once.

    Args:
        runs: The runs.
    """
    return list(dict.fromkeys(name for result in runs.values() for name in result.divided))


def scores_of(result: Result) -> dict[tuple[str | None, str], Score]:
    """Return every score with its interval, or the reason why it is undefined.

    Args:
        result: The result.

    Returns:
        The scores by data set (``None``: the mean) and key. Nested keys are joined by dots; a mean has the key of the
        scores that it averages.
    """
    scores: dict[tuple[str | None, str], Score] = {}
    for record in score_records(result):
        place, key = record["dataset"], record["metric"]
        key = mean_key(result.benchmark, key) if place is None else key
        interval = None if record["low"] is None else Interval(record["low"], record["high"], record["level"], "")
        score = Score(record["value"], interval, record["missing"] or "not recorded")
        if place is None:
            own = {name: scores[name, key] for name in result.divided if (name, key) in scores}
            if undefined := [name for name, score in own.items() if score.value is None]:
                where = ", ".join(undefined) if len(undefined) < len(own) else f"all {len(own)} data sets"
                score = score._replace(reason=f"undefined on {where}")
            if len(result.divided) == len(own) == 1:  # the mean of one data set has its interval
                score = score._replace(interval=next(iter(own.values())).interval or interval)
        scores[place, key] = score
    return scores


def baselines_of(runs: Runs, dataset: str) -> Baselines | None:
    """Return the baselines of a data set, from the first run that has them.

    Args:
        runs: The runs.
        dataset: Name of the data set.
    """
    baselines = (result.details[dataset].baselines for result in runs.values() if dataset in result.details)
    return next((base for by_condition in baselines for base in by_condition.values()), None)


def accuracy_of(record: ConditionRecord) -> float | None:
    """Return the accuracy over the queries of a condition that have a prediction; ``None`` if none has.

    Args:
        record: The condition.
    """
    pairs = zip(record.predictions, record.truth, strict=True)
    correct = [prediction == truth for prediction, truth in pairs if prediction is not None]
    return sum(correct) / len(correct) if correct else None


def labels_of(details: DatasetDetails) -> tuple[str, ...]:
    """Return the label names of a data set; label indices if the result has no names.

    Args:
        details: The details of the data set.
    """
    if details.labels:
        return details.labels
    seen = {label for record in details.conditions for label in (*record.truth, *record.predictions)}
    highest = max((label for label in seen if label is not None), default=-1)
    return tuple(str(label) for label in range(highest + 1))


_SHARE = Axis((0, 1), [(0, "0"), (0.5, "0.5"), (1, "1")])
_ACCURACY, _SCORE = _SHARE._replace(label="accuracy"), _SHARE._replace(label="score")
_SOURCES = {"Contextual_bias": "empty query", "Domain_bias": "random words", "Post_bias": "test queries"}
_Points = Mapping[str, Sequence[tuple[float, float, str]]]
"""Of each run, the points of a curve with their names."""


def _curves(runs: _Points) -> tuple[list[Mark], list[Line]]:
    """Return the points of the first runs, and the lines through them."""
    marks, lines = [], []
    for number, (name, points) in enumerate(list(runs.items())[:SERIES]):
        marks += [Mark(x, y, number, f"{name}, {where}", y) for x, y, where in points]
        lines += [Line([(x, y) for x, y, _ in points], number)] if points else []
    return marks, lines


def _keys(runs: Iterable[str]) -> list[Key]:
    keys = [Key(name, number) for number, name in enumerate(runs)]
    return keys[:SERIES] if len(keys) > 1 else []


def _limit(runs: Runs) -> str:
    return f" The first {SERIES} of {len(runs)} runs are drawn, the table has all." if len(runs) > SERIES else ""


def mean_key(benchmark: str, metric: str) -> str:
    """Return the key of the mean of a metric in :func:`scores_of`.

    Args:
        benchmark: Name of the benchmark.
        metric: The metric.
    """
    return f"sensitivity.{metric}" if benchmark in SLOPES else metric


class ForestRow(NamedTuple):
    """A row of a forest plot: a score with its interval and its baselines."""

    name: str
    score: Score
    series: int | None = 0
    random: float | None = None
    majority: float | None = None


def range_axis(values: Iterable[float], steps: int = 4) -> Axis:
    """Return an axis that contains all values, with round ticks.

    Args:
        values: The values; without any, the axis is that of shares.
        steps: The range of the values has at most so many steps between ticks.
    """
    known = sorted(values)
    if not known:
        return _SHARE
    span = max(known[-1] - known[0], 1e-3)
    step = 10.0 ** math.floor(math.log10(span))
    step = next(step * factor for factor in (0.2, 0.5, 1.0, 2.0, 5.0, 10.0) if span / (step * factor) <= steps)
    ends = (math.floor(known[0] / step), math.ceil(known[-1] / step))
    ends = (ends[0], max(ends[1], ends[0] + 1))
    ticks = [(tick * step, f"{tick * step:.4g}") for tick in range(ends[0], ends[1] + 1)]
    return Axis((ticks[0][0], ticks[-1][0]), ticks)


def forest_panel(title: str, rows: Sequence[ForestRow], axis: Axis | None = None, width: int = 244) -> Panel:
    """Return a panel with a point and an interval in each row; lines are the baselines.

    Args:
        title: The title.
        rows: The rows, the first at the top.
        axis: The axis of the scores; by default it contains all values.
        width: Pixels; a panel below 200 pixels has no names of rows.
    """
    marks, lines, values = [], [], []
    for place, row in enumerate(rows):
        for value, dashed in ((row.random, False), (row.majority, True)):
            if value is not None:
                lines.append(Line([(value, place - 0.5), (value, place + 0.5)], dashed=dashed))
                values.append(value)
        if row.score.value is not None:
            span = (row.score.interval.low, row.score.interval.high) if row.score.interval else None
            marks.append(Mark(row.score.value, place, row.series, row.name, row.score.value, span))
            values += [row.score.value, *(span or ())]
    names = row_axis([row.name if width >= 200 else "" for row in rows], 16 if width < 300 else 30)
    return Panel(title, axis or range_axis(values, width // 80), names, marks, lines, width=width)


_BASELINES = [Key("random baseline", kind="line"), Key("majority baseline", kind="dashed")]


def accuracy_by_dataset(given: Given) -> Figure:
    """Return accuracy by data set, with confidence intervals, the random baseline and the majority baseline.

    Args:
        given: A result of a benchmark that scores accuracy by data set (Normal), or several by the name of their run.

    Raises:
        ArgumentError: There are no results.
    """
    runs = named(given)
    scores = {name: scores_of(result) for name, result in runs.items()}
    panels, rows = [], []
    for dataset in dataset_names(runs):
        known = baselines_of(runs, dataset)
        baselines = (known.max_random, known.majority) if known else (None, None)
        forest_rows = []
        for number, name in enumerate(runs):
            score = scores[name].get((dataset, "accuracy"), NOT_EVALUATED)
            forest_rows.append(ForestRow(name, score, number, *baselines))
            rows.append([dataset, name, score.cell, score.interval_cell, *(Score(value).cell for value in baselines)])
        panels.append(forest_panel(dataset, forest_rows, _SHARE))
    return Figure(
        "Accuracy by data set",
        "Points are accuracies, with their confidence intervals. The solid line is the random baseline (the expected "
        "best of the tried settings), the dashed line is the majority baseline.",
        panels,
        ["data set", "run", "accuracy", "interval", "random baseline", "majority baseline"],
        rows,
        (1,),
        _BASELINES,
    )


def forest(given: Given, metric: str | None = None) -> Figure:
    """Return a forest plot: the data sets of one result and their mean, or the means of several results.

    Args:
        given: A result, or several of one benchmark by the name of their run.
        metric: A score with a mean; by default the main one of the benchmark.

    Raises:
        ArgumentError: There are no results, they are of several benchmarks, or none has the score.
    """
    runs = named(given)
    benchmarks = list(dict.fromkeys(result.benchmark for result in runs.values()))
    if len(benchmarks) > 1:
        raise ArgumentError(f"expected results of one benchmark, got {', '.join(benchmarks)}. Plot one of them")
    first = next(iter(runs.values()))
    metric = metric or HEADLINE.get(first.benchmark) or next(iter(first.averaged), "accuracy")
    key = mean_key(first.benchmark, metric)
    scores = {name: scores_of(result) for name, result in runs.items()}
    rows = []
    if len(runs) == 1:
        (own,) = scores.values()
        for dataset in first.divided:
            base = baselines_of(runs, dataset) if metric == "accuracy" and key == metric else None
            baselines = (base.max_random, base.majority) if base else (None, None)
            rows.append(ForestRow(dataset, own.get((dataset, key), Score()), 0, *baselines))
        rows += [ForestRow("mean", own.get((None, key), Score()), 1)] if len(rows) > 1 else []
    else:
        rows = [ForestRow(name, own.get((None, key), Score())) for name, own in scores.items()]
    if all(row.score.value is None for row in rows):
        raise ArgumentError(f"{metric}: no value in the results; scores with a mean: {', '.join(first.averaged)}")
    record = score_record(first.benchmark, metric, first.higher_is_better)
    better = {True: "Higher is better. ", False: "Lower is better. ", None: ""}[record.higher_is_better]
    drawn = any(row.random is not None for row in rows)
    return Figure(
        record.title,
        f"{better}Points with confidence intervals.",
        [forest_panel(record.title, rows, width=400)],
        ["data set" if len(runs) == 1 else "run", record.title, "interval", "random baseline", "majority baseline"],
        [
            [row.name, row.score.cell, row.score.interval_cell, Score(row.random).cell, Score(row.majority).cell]
            for row in rows
        ],
        (),
        _BASELINES if drawn else [],
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
    (first, *others), rows, cells = compared, [], []
    for pair in compared:
        for line in [pair.overall] if others else pair.lines:
            name = f"{pair.first} - {pair.second}" if others else line.dataset
            score = Score(line.difference, line.interval, "it has no bound")
            significant = isinstance(line.outcome, Tested) and line.outcome.significant
            rows.append(ForestRow(name, score, 0 if significant else None, random=0.0))
            p = p_text(line.outcome.holm) if isinstance(line.outcome, Tested) else Missing(line.outcome.reason)
            cells.append([name, score.cell, score.interval_cell, p])
    title = f"Difference in {first.metric}" + ("" if others else f": {first.first} - {first.second}")
    return Figure(
        title,
        "First minus second run, with intervals. Significant differences (Holm) are coloured, others are grey.",
        [forest_panel(title, rows, width=400)],
        ["runs" if others else "data set", "difference", "interval", "p (Holm)"],
        cells,
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
    counted = sum(map(sum, chain.from_iterable(map(confusion_counts, result.details.values()))))
    queries = sum(len(own.truth) for details in result.details.values() for own in details.conditions)
    return f" {queries - counted} of {queries} queries have no predicted label." if counted < queries else ""


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
        labels, counts = labels_of(details), confusion_counts(details)
        cells = []
        for truth, row in enumerate(counts):
            for predicted, queries in enumerate(row):
                share = queries / (sum(row) or 1)
                cells.append(Cell(predicted, truth, share, 0 if truth == predicted else 1, str(queries)))
                rows.append([dataset, labels[truth], labels[predicted], str(queries)])
        if cells:
            across = row_axis(labels, 7)
            axis = across._replace(ends=(-0.5, len(labels) - 0.5), label="predicted label")
            panels.append(Panel(dataset, axis, row_axis(labels), cells=cells, width=124 + 52 * len(labels)))
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


def cost_chart(given: Given) -> Figure:
    """Return accuracy against the cost of each method: its tokens where all results have them, else its prompts.

    Args:
        given: Results of methods by name, such as the table of :func:`~StaICC.methods.run.run_all`.

    Raises:
        ArgumentError: No result has a cost and an accuracy.
    """
    runs = named(given)
    prompts = {
        name: [result.timing.get(f"{key}_prompts") for key in ("training", "test")] for name, result in runs.items()
    }
    every = {
        "tokens": {name: result.timing.get("tokens_alone") for name, result in runs.items()},
        "prompts": {name: None if None in own else sum(filter(None, own)) for name, own in prompts.items()},
    }
    unit = "prompts" if None in every["tokens"].values() else "tokens"
    scores = {name: scores_of(result).get((None, "accuracy"), Score()) for name, result in runs.items()}
    points = {
        name: (cost, score.value)
        for (name, cost), score in zip(every[unit].items(), scores.values(), strict=True)
        if cost and score.value is not None
    }
    if not points:
        raise ArgumentError("no result has a cost and an accuracy. Use the results of run_all")
    marks, lines, labels = [], [], []
    front: list[tuple[float, float]] = []
    for name, (cost, value) in sorted(points.items(), key=lambda point: (point[1][0], -point[1][1])):
        x = math.log10(cost)
        if interval := scores[name].interval:
            lines.append(Line([(x, interval.low), (x, interval.high)], 0))
        marks.append(Mark(x, value, 0, f"{name}, {cost:.0f} {unit}", value))
        labels.append((x, value, name))
        if not front or value > front[-1][1]:
            front += [(x, front[-1][1])] if front else []
            front.append((x, value))
    lines.append(Line(front, dashed=True))
    y_axis = range_axis([value for line in lines for _, value in line.points])
    powers = range(math.floor(marks[0].x), math.ceil(marks[-1].x + 1e-9) + 1)
    x_axis = Axis(
        (powers[0], powers[-1]), [(power, f"{10**power:,}") for power in powers], f"{unit}, training and test"
    )
    return Figure(
        "Accuracy and cost",
        f"Accuracy (mean over the data sets) with its interval against the {unit} of training and test. The dashed "
        "line connects the methods that no cheaper one exceeds.",
        [Panel("Accuracy", x_axis, y_axis, marks, lines, labels=labels, width=640)],
        ["method", unit, "accuracy", "interval"],
        [
            [
                name,
                Missing("not recorded") if every[unit][name] is None else f"{every[unit][name]:.0f}",
                score.cell,
                score.interval_cell,
            ]
            for name, score in scores.items()
        ],
    )


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
    every = (
        _bins(given)
        if isinstance(given, Result)
        else {name: _pooled(_bins(result).values()) for name, result in named(given).items()}
    )
    drawn = {name: bins for name, bins in every.items() if bins}
    if not drawn:
        raise ArgumentError("the result has no confidences: its predictions are labels, or ambiguous scores")
    panels, rows = [], []
    for name, bins in drawn.items():
        total, width = sum(inside.queries for inside in bins), 1 / len(bins)
        bars, marks = [], []
        for place, (queries, confidences, correct) in enumerate(bins):
            if not queries:
                continue
            confidence, accuracy, share = confidences / queries, correct / queries, queries / total
            bars.append(Bar(((place + 0.05) * width, (place + 0.95) * width), (0, 0.3 * share)))
            marks.append(Mark(confidence, accuracy, 0, f"{queries} queries", accuracy, None, 0.5 + share**0.5))
            span = f"{place * width:g} to {(place + 1) * width:g}"
            rows.append([name, span, str(queries), f"{confidence:.3f}", f"{accuracy:.3f}"])
        lines = [Line([(0, 0), (1, 1)], dashed=True), Line([(mark.x, mark.y) for mark in marks], 0)]
        panels.append(Panel(name, _SHARE._replace(label="confidence"), _ACCURACY, marks, lines, bars, width=200))
    by = "data set" if isinstance(given, Result) else "run"
    return Figure(
        f"Reliability by {by}",
        "Accuracy (vertical) against confidence in ten bins. The size of a point grows with the number of queries, the "
        "bars are the distribution of confidences. Points on the dashed line are calibrated, points below it are "
        "overconfident.",
        panels,
        [by, "confidence", "queries", "mean confidence", "accuracy"],
        rows,
        (1,),
    )


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
    datasets: dict[str, tuple[tuple[str, ...], dict[str, Sequence[float]]]] = {}
    for benchmark, source in _SOURCES.items():
        if (result := results.get(benchmark)) is None:
            continue
        for dataset, values in result.divided.items():
            distribution, details = values.get("distribution"), result.details[dataset]
            if not isinstance(distribution, (list, tuple)) or not details.conditions:
                continue
            labels = details.labels or tuple(str(label) for label in range(len(distribution)))
            known = datasets.setdefault(dataset, (labels, {}))[1]
            known[source] = distribution
            if benchmark == "Post_bias":
                known["true labels"] = label_frequencies(details.conditions[0].truth, len(labels))
    if not datasets:
        raise ArgumentError("no result has a mean prediction. Use results of the bias benchmarks")
    columns = [name for name in (*_SOURCES.values(), "true labels") if any(name in own for _, own in datasets.values())]
    panels, rows = [], []
    for dataset, (labels, known) in datasets.items():
        bars = [Bar((0, share), (n - 0.35, n + 0.35)) for n, share in enumerate(known.get("true labels", ()))]
        marks = [
            Mark(value, place + 0.22 * (number - 1), number, f"{labels[place]}, {source}", value)
            for number, source in enumerate(_SOURCES.values())
            for place, value in enumerate(known.get(source, ()))
        ]
        lines = [Line([(1 / len(labels), -0.5), (1 / len(labels), len(labels) - 0.5)], dashed=True)]
        panels.append(Panel(dataset, _SHARE, row_axis(labels), marks, lines, bars))
        for place, label in enumerate(labels):
            shares = (known[column][place] if column in known else None for column in columns)
            cells = [Missing("not evaluated") if share is None else f"{share:.3f}" for share in shares]
            rows.append([dataset, label, *cells, f"{1 / len(labels):.3f}"])
    legend = [Key(source, number) for number, source in enumerate(_SOURCES.values()) if source in columns]
    legend += [Key("true labels", kind="bar")] if "true labels" in columns else []
    return Figure(
        "Mean predictions",
        "Mean predicted probability of each label for empty queries, random words and test queries. Bars are the "
        "frequencies of the true labels, the dashed line is the uniform distribution.",
        panels,
        ["data set", "label", *columns, "uniform"],
        rows,
        (1,),
        [*legend, Key("uniform", kind="dashed")],
    )


def noise_series(result: Result) -> dict[str, list[tuple[float, float]]]:
    """Return for each data set the share of correct labels and the accuracy, from no noise to all labels wrong."""
    k = result.signature.fields.get("k") or ""
    k_or_many = int(k) if k.isdigit() and int(k) else 10**6  # without k, the shares that the noise rates aim at
    scores, series = scores_of(result), {}
    for dataset, values in result.divided.items():
        steps = sorted(int(key) for key in values if key.isdigit())
        accuracies = [scores.get((dataset, f"{step}.accuracy"), Score()).value for step in steps]
        shares = noisy_label_shares(k_or_many, len(steps))
        points = [(share, value) for share, value in zip(shares, accuracies, strict=True) if value is not None]
        if points:
            series[dataset] = points
    return series


def noise_lines(given: Given) -> Figure:
    """Return accuracy against the share of correct labels in the demonstrations, with the GLER regression line.

    Args:
        given: A result of GLER, or several by the name of their run.

    Raises:
        ArgumentError: No result has an accuracy by noise rate.
    """
    runs = named(given)
    series = {name: noise_series(result) for name, result in runs.items()}
    slopes = {name: scores_of(result) for name, result in runs.items()}
    panels, rows = [], []
    for dataset in dataset_names(runs):
        points = {name: own.get(dataset, []) for name, own in series.items()}
        marks, _ = _curves({name: [(x, y, f"{x:.2f} correct") for x, y in own] for name, own in points.items()})
        lines = []
        for number, (name, own) in enumerate(points.items()):
            if number < SERIES and len({x for x, _ in own}) > 1:
                # Fitted to the points: with the metrics of 0.1.1, the line in the result uses other x values.
                slope, intercept = gler([y for _, y in own], [x for x, _ in own])
                lines.append(Line([(0, intercept), (1, intercept + slope)], number))
            saved = slopes[name].get((dataset, "sensitivity.accuracy"), NOT_EVALUATED)
            cell = saved.cell if saved.value is None else f"{saved.value:+.4f}"
            rows += [[dataset, name, f"{x:.2f}", f"{y:.4f}", cell] for x, y in own]
        if any(points.values()):
            x_axis = _SHARE._replace(label="share of correct labels")
            panels.append(Panel(dataset, x_axis, _ACCURACY, marks, lines, width=200))
    if not panels:
        raise ArgumentError("no result has an accuracy by noise rate. Use results of GLER")
    return Figure(
        "Accuracy against label noise",
        "From all demonstration labels wrong (left) to all correct (right). The slope of the regression line is GLER: "
        f"how much the demonstration labels influence the predictions.{_limit(runs)}",
        panels,
        ["data set", "run", "share of correct labels", "accuracy", "slope (GLER)"],
        rows,
        (1,),
        _keys(runs),
    )


_NO_LIMITS = "too few levels, or no variation"


def variance_chart(given: Given) -> Figure:
    """Return by how much the accuracy varies with test rows, draws of demonstrations, templates and their interactions.

    Args:
        given: A result of ``Generalisation``, or several by the name of their run.

    Raises:
        ArgumentError: There are no results, or one is of another benchmark.
    """
    runs = named(given)
    found = {name: variance_components(result).lines for name, result in runs.items()}
    panels, rows = [], []
    sources = list(SOURCES.values())
    largest = 0.0
    for dataset in dict.fromkeys(line.dataset for lines in found.values() for line in lines):
        marks = []
        for number, (name, lines) in enumerate(found.items()):
            for line in (line for line in lines if line.dataset == dataset):
                for y, (deviation, ends) in enumerate(line.deviations):
                    if number < SERIES:
                        marks.append(Mark(deviation, y, number, f"{name}, {sources[y]}", deviation, ends))
                        largest = max(largest, ends[1] if ends else deviation)
                    cell = Missing(_NO_LIMITS) if ends is None else f"{ends[0]:.4f} .. {ends[1]:.4f}"
                    rows.append([dataset, name, sources[y], f"{deviation:.4f}", cell])
        bars = [Bar((0, mark.x), (mark.y - 0.35, mark.y + 0.35)) for mark in marks if len(runs) == 1]
        panels.append((dataset, marks, bars))
    end = largest or 1.0
    axis = Axis((0, end), [(0, "0"), (end, f"{end:.2g}")])
    return Figure(
        "Sources of variance",
        "Standard deviation of the accuracy that comes from each source, at the numbers of rows, draws and templates "
        "of the run, with 95 % intervals. Estimates of variances below 0 are shown as 0." + _limit(runs),
        [Panel(dataset, axis, row_axis(sources), marks, (), bars) for dataset, marks, bars in panels],
        ["data set", "run", "source", "standard deviation", "95 %"],
        rows,
        (1,),
        _keys(runs),
    )


def shots_lines(given: Given) -> dict[str, dict[int, Result]]:
    """Return the runs that differ in ``k`` only, by model, method and other settings, each with its results by ``k``.

    Args:
        given: Results of Normal.
    """
    lines: dict[tuple[str, tuple[tuple[str, str | None], ...]], dict[int, Result]] = {}
    for result in named(given).values():
        fields = {name: value for name, value in result.signature.fields.items() if name not in _NOT_SETTINGS}
        if (k := str(fields.pop("k", None))).isdigit():
            lines.setdefault((result.model, tuple(fields.items())), {})[int(k)] = result
    drawn = [({"model": model, **dict(own)}, line) for (model, own), line in lines.items() if len(line) > 1]
    several = [name for name in dict.fromkeys(name for own, _ in drawn for name in own) if name not in _NAMED]
    several = [name for name in several if len({own.get(name) for own, _ in drawn}) > 1]
    named_lines = {}
    for own, line in drawn:
        parts = (next(iter(line.values())).method, own.get("demonstrations") or "default", str(own["model"]))
        name = ", ".join([*parts, *(f"{field} {own.get(field, 'not set')}" for field in several)])
        named_lines[name] = dict(sorted(line.items()))
    return named_lines


_NOT_SETTINGS = ("prompts", "failed", "version")
_NAMED = ("method", "demonstrations", "model")
_COSTS = {
    "prompt_characters": "Characters of all prompts",
    "new_characters": "Characters without shared prefixes",
}
"""The costs of ``shots_chart``: the title of the panel by the key in the timing of a result."""


def shots_chart(given: Given) -> Figure:
    """Return accuracy and cost against the number of demonstrations, one line for each model and method.

    Args:
        given: Results with different ``k``, by the name of their run, such as those of
            :func:`~StaICC.methods.run.run_many_shot`.

    Raises:
        ArgumentError: No two results differ in ``k`` only.
    """
    lines = shots_lines(given)
    if not lines:
        raise ArgumentError("no two results differ in k only. Use results of run_many_shot")

    def place(k: int) -> float:
        return math.log2(k) if k else -1.0

    ks = sorted({k for line in lines.values() for k in line})
    x = Axis((place(ks[0]) - 0.3, place(ks[-1]) + 0.3), [(place(k), str(k)) for k in ks], "demonstrations (k)")
    panels: dict[str, dict[str, list[tuple[float, float, str]]]]
    panels = {title: {name: [] for name in lines} for title in ("Accuracy", *_COSTS.values())}
    spans, rows = [], []
    for number, (name, line) in enumerate(lines.items()):
        for k, result in line.items():
            accuracy = scores_of(result).get((None, "accuracy"), Score())
            at = place(k) + 0.1 * (number - (len(lines) - 1) / 2)  # lines next to each other, so that intervals differ
            if accuracy.interval is not None and number < SERIES:
                spans.append(Line([(at, accuracy.interval.low), (at, accuracy.interval.high)], number))
            costs = [result.timing.get(key) for key in _COSTS]
            for points, value in zip(panels.values(), [accuracy.value, *costs], strict=True):
                points[name] += [] if value is None else [(at, value, f"k = {k}")]
            cells = [Missing("not recorded") if value is None else f"{value:.0f}" for value in costs]
            rows.append([name, str(k), accuracy.cell, accuracy.interval_cell, *cells])
    drawn = []
    for title, points in panels.items():
        marks, curves = _curves(points)
        top = max((mark.y for mark in marks), default=1.0) or 1.0
        y = _SHARE if title == "Accuracy" else Axis((0, top), [(0, "0"), (top, f"{top / 1000:.0f}k")])
        drawn.append(Panel(title, x, y, marks, curves + (spans if title == "Accuracy" else [])))
    return Figure(
        "Number of demonstrations",
        "Accuracy (mean over the data sets) against k with confidence intervals, and the characters of all test "
        "prompts: in total, and without the prefixes that prompts share with each other and with the prompts of a "
        "smaller k.",
        drawn,
        ["model and method", "k", "accuracy", "interval", *(key.replace("_", " ") for key in _COSTS)],
        rows,
        (),
        _keys(lines),
    )


def _published_curves(dataset: str, places: Mapping[str, float]) -> list[Line]:
    """Return the curves of the published models of LongICL; ``places`` are the x values of the rounds."""
    curves: dict[str, list[tuple[float, float]]] = {}
    for figure in figures("LongICL"):
        if figure.dataset == dataset and figure.value is not None and figure.metric in places:
            curves.setdefault(figure.model, []).append((places[figure.metric], figure.value))
    return list(map(Line, curves.values()))


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
    axis = Axis((0.7, 5.3), [(x, f"{x:g}") for x in places.values()], "rounds of demonstrations")
    panels, rows = [], []
    for dataset in dataset_names(runs):
        points: dict[str, list[tuple[float, float, str]]] = {}
        for name, result in runs.items():
            own = {key: scores[name].get((dataset, key), Score()) for key in (*places, "mean", "uniform", "majority")}
            known = [(x, own[key].value, f"round {x:g}") for key, x in places.items()]
            points[name] = [(x, y, where) for x, y, where in known if y is not None]
            if dataset in result.divided:
                metric = result.divided[dataset].get("metric") or Missing("not recorded")
                rows.append([dataset, name, metric, *(score.cell for score in own.values())])
        if any(points.values()):
            marks, lines = _curves(points)
            uniform = [own[dataset, "uniform"].value for own in scores.values() if (dataset, "uniform") in own]
            ends = [[(0.7, value), (5.3, value)] for value in uniform if value is not None]
            background = [*_published_curves(dataset, places), *(Line(line, dashed=True) for line in ends[:1])]
            panels.append(Panel(dataset, axis, _SCORE, marks, background + lines))
    if not panels:
        raise ArgumentError("no result has a score of a round. Use results of LongICL")
    return Figure(
        "Score by rounds of demonstrations",
        "Accuracy or micro F1 (vertical). Each round adds one demonstration of every label. Grey lines are the "
        f"published models, the dashed line is the random baseline.{_limit(runs)}",
        panels,
        ["data set", "run", "metric", *places, "mean", "random baseline", "majority baseline"],
        rows,
        (1, 2),
        [*_keys(runs), Key("published models", kind="line"), Key("random baseline", kind="dashed")],
    )


def model_size_chart(given: Given, method: str = "Vanilla ICL") -> Figure:
    """Return the published accuracies against the number of parameters, and each comparable run as a horizontal line.

    Args:
        given: A result of Normal, or several by the name of their run.
        method: The inference method whose published figures are drawn.

    Raises:
        ArgumentError: No run is comparable with the published figures
            (:mod:`StaICC.results.published`).
        UnknownNameError: There is no such published method.
    """
    runs = dict(list(named(given).items())[:SERIES])
    own = [
        (number, name, comparison.value)
        for number, (name, result) in enumerate(runs.items())
        for comparison in compare_with_published(result, method)
        if comparison.metric == "accuracy" and comparison.reason is None and comparison.value is not None
    ]
    if not own:
        raise ArgumentError("no run is comparable with the published figures")
    sizes = {model.name: model for model in models()}
    printed = figures("Normal", method=method, metric="accuracy")
    known = [(figure, figure.value) for figure in printed if figure.value is not None]
    marks: list[Mark] = []
    labels: list[tuple[float, float, str]] = []
    for figure, value in sorted(known, key=lambda pair: -pair[1]):
        if figure.doubtful:
            continue
        model = sizes[figure.model]
        x = math.log10(model.params_b)
        marks.append(Mark(x, value, None, f"{figure.model}, {model.params_b:g}B", value))
        if all(abs(x - left) > 0.75 or abs(value - low) > 0.025 for left, low, _ in labels) and x < 1.4:
            labels.append((x, value, f"{model.family}, {model.params_b:g}B"))  # the best ones, where there is room
    lines = [Line([(-2, value), (2.3, value)], number) for number, _, value in own]
    bottom = min([0.2, *(mark.y for mark in marks), *(value for *_, value in own)])
    ticks = [(-2.0, "10M"), (-1.0, "100M"), (0.0, "1B"), (1.0, "10B"), (2.0, "100B")]
    y = Axis(
        (bottom, 0.9), [(tick / 10, f"{tick / 10:g}") for tick in range(math.ceil(10 * bottom), 10, 2)], "accuracy"
    )
    panel = Panel(
        "Accuracy, mean of ten data sets",
        Axis((-2, 2.3), ticks, "parameters"),
        y,
        marks,
        lines,
        labels=labels,
        width=640,
    )
    rows = [
        [figure.model, f"{sizes[figure.model].params_b:g}", f"{value:.4f}", "; ".join(figure.warnings)]
        for figure, value in known
    ]
    unknown = Missing("the parameters of a run are not recorded")
    rows += [[name, unknown, f"{value:.4f}", ""] for _, name, value in own]
    return Figure(
        "Comparison with the published models",
        f"Accuracy of the published models ({method}) against their number of parameters. A horizontal line is a run "
        "with the published prompts.",
        [panel],
        ["model", "parameters (billions)", "accuracy", "warnings"],
        rows,
        (3,),
        [Key("published models"), *(Key(name, number, "line") for number, name, _ in own)],
    )


_CURVES = {
    "context": "tokens of the context",
    "shots": "demonstrations per label",
    "position": "part of the context",
    "helmet": "length of HELMET",
}


def _conditions(result: Result, dataset: str) -> Mapping[str, Mapping[str, Any]]:
    experiment = result.divided.get(dataset, {}).get("experiment")
    return experiment["conditions"] if experiment else {}


def _length(result: Result, dataset: str, name: str) -> float:
    """Return the logarithm of the length of a context, by the tokenizer of the model where it is known."""
    tokens = result.timing.get(f"{dataset}, {name}, tokens")
    return math.log2(max(1.0, tokens or _conditions(result, dataset)[name].get("reference_tokens") or 1.0))


def _rounds_in(kind: str, result: Result, dataset: str, names: Sequence[str]) -> dict[str, float]:
    """Return the x values of the published rounds; none if the prompts are not the published ones."""
    scores, conditions = result.divided[dataset], _conditions(result, dataset)
    if other_long_icl(scores.get("settings", {}), set(), None):
        return {}
    labels = max((len(scored.get("labels", ())) for scored in scores.get("rounds", {}).values()), default=0)
    last, row = list(conditions.items())[-1]
    if not labels or not row.get("demonstrations"):
        return {}
    if kind == "context":
        tokens = 2 ** _length(result, dataset, last) / row["demonstrations"]
        return {f"{number}R": math.log2(number * labels * tokens) for number in range(1, 6)}
    shots = {f"{number}R": f"{number} shots" for number in range(1, 6)} if kind == "shots" else {}
    return {key: float(names.index(name)) for key, name in shots.items() if name in names}


def _experiment_panel(kind: str, runs: Runs, dataset: str) -> Panel:
    shown = {name: row for result in runs.values() for name, row in _conditions(result, dataset).items()}
    names = list(shown)
    if kind in ("shots", "helmet"):  # runs may have other levels
        names.sort(key=lambda name: shown[name].get("demonstrations") or 0)
    marks: list[Mark] = []
    bands: list[Line] = []
    points: dict[str, list[tuple[float, float, str]]] = {}
    for number, (run, result) in enumerate(list(runs.items())[:SERIES]):
        own = _conditions(result, dataset)
        ends: dict[str, list[tuple[float, float]]] = {"band_low": [], "band_high": []}
        points[run] = []
        for name, row in own.items():
            if (value := row.get("score")) is None:
                continue
            place = _length(result, dataset, name) if kind == "context" else float(names.index(name))
            if kind == "position":  # the middle of the part; runs may have other numbers of parts
                place = (place + 0.5) * len(names) / len(own) - 0.5
            points[run].append((place, value, name))
            for key, band in ends.items():
                band += [] if row.get(key) is None else [(place, row[key])]
            low, high = row.get("score_low"), row.get("score_high")
            span = None if low is None or high is None else (low, high)
            marks.append(Mark(value, place + 0.1 * number, number, f"{run}, {name}", value, span))
        bands += [Line(band, number, dashed=True) for band in ends.values() if band]
    if kind not in _CURVES:
        return Panel(dataset, _SHARE, row_axis(names), marks)
    marks, lines = _curves(points)
    first = next(result for result in runs.values() if _conditions(result, dataset))
    lines = [*_published_curves(dataset, _rounds_in(kind, first, dataset, names)), *lines, *bands]
    ticks = [(float(place), name.removeprefix("part ").removesuffix(" shots")) for place, name in enumerate(names)]
    if kind == "context":
        places = [x for line in lines for x, _ in line.points] or [12.0]
        powers = range(math.floor(min(places)), math.ceil(max(places)) + 1)
        ticks = [(float(power), f"{2**power // 1024}K" if power >= 10 else str(2**power)) for power in powers]
    return Panel(dataset, Axis((ticks[0][0] - 0.3, ticks[-1][0] + 0.3), ticks, _CURVES[kind]), _SCORE, marks, lines)


def experiment_chart(given: Given) -> Figure:
    """Return the scores of an experiment of LongICL by condition, with their intervals.

    The axis of the experiment ``context`` is the number of tokens, by the model's tokenizer where it is known. There,
    and for ``shots``, the published models are in the background if the result has the published prompts.

    Args:
        given: A result of LongICL with an experiment, or several of the same experiment by the name of their run.

    Raises:
        ArgumentError: There is no experiment, or there are several.
    """
    every = named(given)
    runs = {name: result for name, result in every.items() if any(_conditions(result, own) for own in result.divided)}
    scores = [own for result in runs.values() for own in result.divided.values()]
    kinds = {str(own["experiment"]["name"]) for own in scores if own.get("experiment")}
    if len(kinds) != 1:
        raise ArgumentError(f"expected results of one experiment of LongICL, got {', '.join(sorted(kinds)) or 'none'}")
    (kind,) = kinds
    panels = [
        _experiment_panel(kind, runs, dataset)
        for dataset in dataset_names(runs)
        if any(_conditions(result, dataset) for result in runs.values())
    ]
    tables = {name: experiment_rows(result) for name, result in runs.items()}
    head = max((own for own, _ in tables.values()), key=len)
    rows = []
    for name, (columns, cells_of) in tables.items():
        for first, *others in cells_of:
            cells = {column: cell for column, cell in zip(columns[1:], others, strict=True) if cell != "-"}
            shown = [cells.get(column, Missing("undefined or not measured")) for column in head[1:]]
            rows.append([first, name, *shown])
    legend = _keys(runs)
    if any(line.series is None for panel in panels for line in panel.lines):
        legend.append(Key("published models, 500 items, rounds 1 to 5", kind="line"))
    band = "Lines are intervals; dashed lines are simultaneous ones, for all conditions of a run together."
    how = band if kind in _CURVES else "Lines are intervals."
    return Figure(
        f"Experiment: {kind}",
        f"Accuracy or micro F1 by condition. {how} A difference is that from the first condition (experiment position: "
        "from the mean of the other parts), on the same test items. Published models are placed by their number of "
        "demonstrations.",
        panels,
        [head[0], "run", *head[1:]],
        rows,
        (1,),
        legend,
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
    if kind not in KINDS:
        raise unknown_name("figure", kind, KINDS)
    given = result if isinstance(result, Result) else dict(result)
    return KINDS[kind](given, **options)

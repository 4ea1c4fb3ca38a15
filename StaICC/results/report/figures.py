"""The figures of a report. Each takes results and returns a :class:`~StaICC.results.report.html.Figure`.

The first functions read the values of figures and tables from results by run name.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from StaICC.errors import ArgumentError
from StaICC.metrics import gler
from StaICC.metrics.bias import label_frequencies
from StaICC.metrics.classification import ConfidenceBin
from StaICC.metrics.intervals import Interval
from StaICC.metrics.robustness import noisy_label_shares
from StaICC.results.details import Baselines, ConditionRecord, DatasetDetails
from StaICC.results.published import PublishedFigure, compare_with_published, figures, models, other_long_icl
from StaICC.results.report.html import SERIES, Axis, Bar, Figure, Key, Line, Mark, Missing, Panel, row_axis
from StaICC.results.result import Result, experiment_rows, score_records


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


def figure(values: Mapping[str, Any] | None, *keys: str) -> float | None:
    """Return a single score.

    Args:
        values: Scores of a data set, or averages.
        *keys: The keys, from the outside in.

    Returns:
        The number; ``None`` if there is none.
    """
    found: Any = values
    for key in keys:
        found = found.get(key) if isinstance(found, Mapping) else None
    return float(found) if isinstance(found, (int, float)) and not isinstance(found, bool) else None


def scores_of(result: Result, metric: str) -> dict[str | None, Score]:
    """Return a score by data set, with its interval or the reason why it is undefined; ``None`` is the mean.

    Args:
        result: The result.
        metric: The key of the score in the scores of a data set, nested keys joined by dots.
    """
    mean = metric.removeprefix("sensitivity.")
    found = {}
    for one in score_records(result):
        place = one["dataset"]
        if one["metric"] == (mean if place is None else metric):
            interval = None if one["low"] is None else Interval(one["low"], one["high"], one["level"], "")
            found[place] = Score(one["value"], interval, one["missing"] or "not recorded")
    if len(result.divided) == 1 and None in found and found[None].interval is None:
        only = found.get(next(iter(result.divided)))
        found[None] = found[None]._replace(interval=only.interval if only else None)
    undefined = [str(place) for place, one in found.items() if place is not None and one.value is None]
    if undefined and None in found:
        found[None] = found[None]._replace(reason=f"undefined on {', '.join(undefined)}")
    return found


def score_of(result: Result, dataset: str, *keys: str) -> Score:
    """Return a score of a data set, with its interval or the reason why it is undefined.

    Args:
        result: The result.
        dataset: Name of the data set.
        *keys: The keys of the score, from the outside in.
    """
    if dataset not in result.divided:
        return Score(reason="data set not evaluated")
    value, details = figure(result.divided[dataset], *keys), result.details.get(dataset)
    if details is None:
        return Score(value)
    key = ".".join(keys)
    return Score(value, details.intervals.get(key), details.missing.get(key) or "not recorded")


def baselines_of(runs: Runs, dataset: str) -> Baselines | None:
    """Return the baselines of a data set, from the first run that has them.

    Args:
        runs: The runs.
        dataset: Name of the data set.
    """
    for result in runs.values():
        details = result.details.get(dataset)
        if details is not None and details.baselines:
            return next(iter(details.baselines.values()))
    return None


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
    seen = [label for one in details.conditions for label in (*one.truth, *one.predictions) if label is not None]
    return tuple(str(label) for label in range(max(seen, default=-1) + 1))


_SHARE = Axis((0, 1), [(0, "0"), (0.5, "0.5"), (1, "1")])
_SOURCES = {"Contextual_bias": "empty query", "Domain_bias": "random words", "Post_bias": "test queries"}
_ROUNDS = range(1, 6)


def _label(label: str) -> Axis:
    return _SHARE._replace(label=label)


def _keys(runs: Sequence[str]) -> list[Key]:
    return [Key(name, number) for number, name in enumerate(runs[:SERIES])] if len(runs) > 1 else []


def _drawn(runs: Runs) -> dict[str, Result]:
    return dict(list(runs.items())[:SERIES])


def _limit(runs: Runs) -> str:
    return f" The first {SERIES} of {len(runs)} runs are drawn, the table has all." if len(runs) > SERIES else ""


def accuracy_by_dataset(given: Given) -> Figure:
    """Return accuracy by data set, with confidence intervals, the random baseline and the majority baseline.

    Args:
        given: A result of a benchmark that scores accuracy by data set (Normal), or several by the name of their run.

    Raises:
        ArgumentError: There are no results.
    """
    runs = named(given)
    panels, rows = [], []
    for dataset in dataset_names(runs):
        known = baselines_of(runs, dataset)
        ends = (-0.5, len(runs) - 0.5)
        lines = [] if known is None else [Line([(known.max_random, y) for y in ends])]
        lines += [] if known is None else [Line([(known.majority, y) for y in ends], dashed=True)]
        marks = []
        for number, (name, result) in enumerate(runs.items()):
            score = score_of(result, dataset, "accuracy")
            if score.value is not None:
                span = (score.interval.low, score.interval.high) if score.interval else None
                marks.append(Mark(score.value, number, number, name, score.value, span))
            baselines = (known.max_random, known.majority) if known else (None, None)
            cells = [score.cell, score.interval_cell, *(Score(one).cell for one in baselines)]
            rows.append([dataset, name, *cells])
        panels.append(Panel(dataset, _SHARE, row_axis(list(runs)), marks, lines))
    return Figure(
        "Accuracy by data set",
        "Points are accuracies, with their confidence intervals. The solid line is the random baseline (the expected "
        "best of the tried settings), the dashed line is the majority baseline.",
        panels,
        ["data set", "run", "accuracy", "interval", "random baseline", "majority baseline"],
        rows,
        (1,),
        [Key("random baseline", kind="line"), Key("majority baseline", kind="dashed")],
    )


def _bins(result: Result) -> dict[str, tuple[ConfidenceBin, ...]]:
    """Return the confidence bins of each data set that has them."""
    found = {}
    for dataset, details in result.details.items():
        bins = details.conditions[0].calibration if details.conditions else None
        if bins is not None and any(one.queries for one in bins):
            found[dataset] = bins
    return found


def _pooled(result: Result) -> tuple[ConfidenceBin, ...]:
    every = zip(*_bins(result).values(), strict=True)
    return tuple(ConfidenceBin(*(sum(values) for values in zip(*one, strict=True))) for one in every)


def reliability_diagrams(given: Given) -> Figure:
    """Return accuracy against confidence in ten bins: one panel for each data set, or for each of several runs.

    Args:
        given: A result of Normal with probabilities: a panel for each data set. Or results by the name of their run: a
            panel for each run, with the queries of all data sets.

    Raises:
        ArgumentError: No result has confidence bins: the predictions are labels, or ambiguous scores.
    """
    every = _bins(given) if isinstance(given, Result) else {name: _pooled(one) for name, one in named(given).items()}
    found = {name: bins for name, bins in every.items() if bins}
    if not found:
        raise ArgumentError("the result has no confidences: its predictions are labels, or ambiguous scores")
    panels, rows = [], []
    for name, bins in found.items():
        total, width = sum(one.queries for one in bins), 1 / len(bins)
        bars, marks = [], []
        for place, one in enumerate(bins):
            if not one.queries:
                continue
            confidence, accuracy, share = one.confidence / one.queries, one.correct / one.queries, one.queries / total
            bars.append(Bar(((place + 0.05) * width, (place + 0.95) * width), (0, 0.3 * share)))
            marks.append(Mark(confidence, accuracy, 0, f"{one.queries} queries", accuracy, None, 0.5 + share**0.5))
            span = f"{place * width:g} to {(place + 1) * width:g}"
            rows.append([name, span, str(one.queries), f"{confidence:.3f}", f"{accuracy:.3f}"])
        lines = [Line([(0, 0), (1, 1)], dashed=True), Line([(one.x, one.y) for one in marks], 0)]
        panels.append(Panel(name, _label("confidence"), _SHARE, marks, lines, bars, width=200))
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


def bias_distributions(results: Mapping[str, Result]) -> Figure:
    """Return the mean predictions of the bias benchmarks over the labels of each data set.

    Args:
        results: Results of one run by benchmark, such as a group of results: ``Contextual_bias``, ``Domain_bias``,
            ``Post_bias``, as available.

    Raises:
        ArgumentError: There are no distributions.
    """
    found: dict[str, tuple[tuple[str, ...], dict[str, list[float]]]] = {}
    for benchmark, source in _SOURCES.items():
        result = results.get(benchmark)
        for dataset, values in result.divided.items() if result is not None else ():
            assert result is not None
            distribution, details = values.get("distribution"), result.details.get(dataset)
            if not isinstance(distribution, (list, tuple)) or details is None or not details.conditions:
                continue
            labels = details.labels or tuple(str(label) for label in range(len(distribution)))
            known = found.setdefault(dataset, (labels, {}))[1]
            known[source] = [float(value) for value in distribution]
            if benchmark == "Post_bias":
                known["true labels"] = label_frequencies(details.conditions[0].truth, len(labels))
    if not found:
        raise ArgumentError("no result has a mean prediction. Use results of the bias benchmarks")
    sources = [one for one in _SOURCES.values() if any(one in known for _, known in found.values())]
    columns = [*sources, *(["true labels"] if any("true labels" in known for _, known in found.values()) else [])]
    panels, rows = [], []
    for dataset, (labels, known) in found.items():
        bars = [Bar((0, one), (n - 0.35, n + 0.35)) for n, one in enumerate(known.get("true labels", ()))]
        marks = [
            Mark(value, place + 0.22 * (number - 1), number, f"{labels[place]}, {source}", value)
            for number, source in enumerate(_SOURCES.values())
            for place, value in enumerate(known.get(source, ()))
        ]
        lines = [Line([(1 / len(labels), -0.5), (1 / len(labels), len(labels) - 0.5)], dashed=True)]
        panels.append(Panel(dataset, _SHARE, row_axis(labels), marks, lines, bars))
        for place, label in enumerate(labels):
            cells = [f"{known[one][place]:.3f}" if one in known else Missing("not evaluated") for one in columns]
            rows.append([dataset, label, *cells, f"{1 / len(labels):.3f}"])
    legend = [Key(source, number) for number, source in enumerate(_SOURCES.values()) if source in sources]
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
    k = result.signature.fields.get("k")
    found = {}
    for dataset, values in result.divided.items():
        steps = sorted(int(key) for key in values if key.isdigit())
        points = []
        # without a number of demonstrations, the shares that the noise rates aim at
        shares = noisy_label_shares(int(k) if k is not None and k.isdigit() and int(k) else 10**6, len(steps))
        for place, step in enumerate(steps):
            value = score_of(result, dataset, str(step), "accuracy").value
            if value is not None:
                points.append((shares[place], value))
        if points:
            found[dataset] = points
    return found


def noise_lines(given: Given) -> Figure:
    """Return accuracy against the share of correct labels in the demonstrations, with the GLER regression line.

    Args:
        given: A result of GLER, or several by the name of their run.

    Raises:
        ArgumentError: No result has an accuracy by noise rate.
    """
    runs = named(given)
    points = {name: noise_series(result) for name, result in runs.items()}
    datasets = [name for name in dataset_names(runs) if any(name in own for own in points.values())]
    if not datasets:
        raise ArgumentError("no result has an accuracy by noise rate. Use results of GLER")
    panels, rows = [], []
    for dataset in datasets:
        marks, lines = [], []
        for number, name in enumerate(_drawn(runs)):
            at = points[name].get(dataset, [])
            marks += [Mark(x, y, number, f"{name}, {x:.2f} correct", y) for x, y in at]
            if len({x for x, _ in at}) > 1:
                # Fitted to the points: with the metrics of 0.1.1, the line in the result uses other x values.
                slope, intercept = gler([y for _, y in at], [x for x, _ in at])
                lines.append(Line([(0, intercept), (1, intercept + slope)], number))
        panels.append(Panel(dataset, _label("share of correct labels"), _SHARE, marks, lines, width=200))
        for name, result in runs.items():
            line = result.divided.get(dataset, {}).get("sensitivity", {}).get("accuracy")
            why = score_of(result, dataset, "sensitivity", "accuracy").reason
            slope_cell = f"{line[0]:+.4f}" if isinstance(line, (list, tuple)) else Missing(why)
            rows += [[dataset, name, f"{x:.2f}", f"{y:.4f}", slope_cell] for x, y in points[name].get(dataset, [])]
    return Figure(
        "Accuracy against label noise",
        "From all demonstration labels wrong (left) to all correct (right). The slope of the regression line is GLER: "
        f"how much the demonstration labels influence the predictions.{_limit(runs)}",
        panels,
        ["data set", "run", "share of correct labels", "accuracy", "slope (GLER)"],
        rows,
        (1,),
        _keys(list(runs)),
    )


def shots_lines(given: Given) -> dict[str, dict[int, Result]]:
    """Return the runs that differ in ``k`` only, by model and method, each with its results by ``k``.

    Args:
        given: Results of Normal.
    """
    lines: dict[str, dict[int, Result]] = {}
    for result in named(given).values():
        fields = result.signature.fields
        if (k := str(fields.get("k"))).isdigit():
            parts = (result.method, fields.get("demonstrations") or "default", result.model)
            lines.setdefault(", ".join(parts), {})[int(k)] = result
    return {name: dict(sorted(line.items())) for name, line in lines.items() if len(line) > 1}


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

    costs = ("prompt_characters", "new_characters")
    ks = sorted({k for line in lines.values() for k in line})
    x = Axis((place(ks[0]) - 0.3, place(ks[-1]) + 0.3), [(place(k), str(k)) for k in ks], "demonstrations (k)")
    marks: list[list[Mark]] = [[], [], []]
    spans: list[Line] = []
    rows = []
    for number, (name, line) in enumerate(lines.items()):
        for k, one in line.items():
            accuracy = scores_of(one, "accuracy").get(None) or Score()
            at = place(k) + 0.1 * (number - (len(lines) - 1) / 2)  # lines next to each other, so that intervals differ
            if accuracy.interval is not None:
                spans.append(Line([(at, accuracy.interval.low), (at, accuracy.interval.high)], number))
            values = [accuracy.value, *(one.timing.get(key) for key in costs)]
            for own, value in zip(marks, values, strict=True):
                own += [] if value is None else [Mark(at, value, number, f"{name}, k = {k}", value)]
            shown = [Missing("not recorded") if value is None else f"{value:.0f}" for value in values[1:]]
            rows.append([name, str(k), accuracy.cell, accuracy.interval_cell, *shown])
    panels = []
    titles = ("Accuracy", "Characters of all prompts", "Characters without shared prefixes")
    for title, own in zip(titles, marks, strict=True):
        top = max((one.y for one in own), default=1.0) or 1.0
        y = _SHARE if title == titles[0] else Axis((0, top), [(0, "0"), (top, f"{top / 1000:.0f}k")])
        ways = [[(one.x, one.y) for one in own if one.series == number] for number in range(len(lines))]
        drawn = [Line(way, number) for number, way in enumerate(ways) if way]
        panels.append(Panel(title, x, y, own, drawn + (spans if title == titles[0] else [])))
    return Figure(
        "Number of demonstrations",
        "Accuracy (mean over the data sets) against k with confidence intervals, and the characters of all test "
        "prompts: in total, and without the prefixes that prompts share with each other and with the prompts of a "
        "smaller k.",
        panels,
        ["model and method", "k", "accuracy", "interval", *(key.replace("_", " ") for key in costs)],
        rows,
        (),
        _keys(list(lines)),
    )


def rounds_chart(given: Given) -> Figure:
    """Return the score of each data set by rounds of demonstrations, with the published models in the background.

    Args:
        given: A result of LongICL, or several by the name of their run.

    Raises:
        ArgumentError: No result has a score of a round.
    """
    runs = named(given)
    known = {
        (dataset, name): {n: y for n in _ROUNDS if (y := score_of(result, dataset, f"{n}R").value) is not None}
        for dataset in dataset_names(runs)
        for name, result in runs.items()
    }
    if not any(known.values()):
        raise ArgumentError("no result has a score of a round. Use results of LongICL")
    panels, rows = [], []
    rounds = Axis((0.7, 5.3), [(n, str(n)) for n in _ROUNDS], "rounds of demonstrations")
    for dataset in dataset_names(runs):
        background: dict[str, list[tuple[float, float]]] = {}
        for one in figures("LongICL"):
            if one.dataset == dataset and one.value is not None and one.metric[0].isdigit():
                background.setdefault(one.model, []).append((int(one.metric[0]), one.value))
        uniform = next((value for one in runs.values() if (value := score_of(one, dataset, "uniform").value)), None)
        lines = [Line(line) for line in background.values()]
        lines += [] if uniform is None else [Line([(0.7, uniform), (5.3, uniform)], dashed=True)]
        marks = []
        for number, name in enumerate(_drawn(runs)):
            own = known[dataset, name]
            lines += [Line(list(own.items()), number)] if own else []
            marks += [Mark(n, y, number, f"{name}, round {n}", y) for n, y in own.items()]
        if any(known[dataset, name] for name in runs):
            panels.append(Panel(dataset, rounds, _SHARE, marks, lines))
        for name, result in runs.items():
            if (values := result.divided.get(dataset)) is not None:
                keys = [*(f"{n}R" for n in _ROUNDS), "mean", "uniform", "majority"]
                cells = [score_of(result, dataset, key).cell for key in keys]
                rows.append([dataset, name, values.get("metric") or Missing("not recorded"), *cells])
    return Figure(
        "Score by rounds of demonstrations",
        "Accuracy or micro F1 (vertical). Each round adds one demonstration of every label. Grey lines are the "
        f"published models, the dashed line is the random baseline.{_limit(runs)}",
        panels,
        ["data set", "run", "metric", *(f"{n}R" for n in _ROUNDS), "mean", "random baseline", "majority baseline"],
        rows,
        (1, 2),
        [*_keys(list(runs)), Key("published models", kind="line"), Key("random baseline", kind="dashed")],
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
    runs = _drawn(named(given))
    sizes = {model.name: model for model in models()}
    published = [one for one in figures("Normal", method=method, metric="accuracy") if one.value is not None]
    own = [
        (name, one.value)
        for name, result in runs.items()
        for one in compare_with_published(result, method)
        if one.metric == "accuracy" and one.reason is None and one.value is not None
    ]
    if not own:
        raise ArgumentError("no run is comparable with the published figures")

    def mark(one: PublishedFigure) -> Mark:
        model, value = sizes[one.model], one.value or 0.0
        return Mark(math.log10(model.params_b), value, None, f"{one.model}, {model.params_b:g}B", value)

    known = sorted((one for one in published if not one.doubtful), key=lambda one: -(one.value or 0.0))
    marks = [mark(one) for one in known]
    labels: list[tuple[float, float, str]] = []
    for one, at in zip(known, marks, strict=True):  # the best models are named, where there is room
        if all(abs(at.x - left) > 0.75 or abs(at.y - low) > 0.025 for left, low, _ in labels) and at.x < 1.4:
            labels.append((at.x, at.y, f"{sizes[one.model].family}, {sizes[one.model].params_b:g}B"))
    lines = [Line([(-2, value), (2.3, value)], list(runs).index(name)) for name, value in own]
    low = min([0.2, *(one.y for one in marks), *(value for _, value in own)])
    ticks = [(-2.0, "10M"), (-1.0, "100M"), (0.0, "1B"), (1.0, "10B"), (2.0, "100B")]
    y = Axis((low, 0.9), [(tick / 10, f"{tick / 10:g}") for tick in range(math.ceil(10 * low), 10, 2)])
    x = Axis((-2, 2.3), ticks, "parameters")
    rows = [
        [one.model, f"{sizes[one.model].params_b:g}", f"{one.value:.4f}", "; ".join(one.warnings)] for one in published
    ]
    rows += [[name, Missing("the parameters of a run are not recorded"), f"{value:.4f}", ""] for name, value in own]
    return Figure(
        "Comparison with the published models",
        f"Accuracy of the published models ({method}) against their number of parameters. A horizontal line is a run "
        "with the published prompts.",
        [Panel("Accuracy, mean of ten data sets", x, y, marks, lines, labels=labels, width=640)],
        ["model", "parameters (billions)", "accuracy", "warnings"],
        rows,
        (3,),
        [Key("published models"), *(Key(name, list(runs).index(name), "line") for name, _ in own)],
    )


_CURVES = {"context": "tokens of the context", "shots": "demonstrations per label", "position": "part of the context"}
_SCORE = Axis((0, 1), [(0, "0"), (0.5, "0.5"), (1, "1")])


def _conditions(result: Result, dataset: str) -> Mapping[str, Mapping[str, Any]]:
    experiment = result.divided.get(dataset, {}).get("experiment")
    return experiment["conditions"] if experiment else {}


def _length(result: Result, dataset: str, name: str) -> float:
    """Return the logarithm of the length of a context, by the tokenizer of the model where it is known."""
    tokens = result.timing.get(f"{dataset}, {name}, tokens")
    return math.log2(max(1.0, tokens or _conditions(result, dataset)[name].get("reference_tokens") or 1.0))


def _published(kind: str, result: Result, dataset: str, names: Sequence[str]) -> Iterator[Line]:
    """Yield the curves of the published models, if the prompts are the published ones."""
    scores = result.divided[dataset]
    if kind not in ("context", "shots") or other_long_icl(scores.get("settings", {}), set(), None):
        return
    labels = max((len(one.get("labels", ())) for one in scores.get("rounds", {}).values()), default=0)
    last, row = list(_conditions(result, dataset).items())[-1]
    if not labels or not row.get("demonstrations"):
        return
    places: dict[str, float] = {
        f"{number}R": names.index(f"{number} shots") for number in range(1, 6) if f"{number} shots" in names
    }
    if kind == "context":
        each = 2 ** _length(result, dataset, last) / row["demonstrations"]
        places = {f"{number}R": math.log2(number * labels * each) for number in range(1, 6)}
    curves: dict[str, list[tuple[float, float]]] = {}
    for one in figures("LongICL"):
        if one.dataset == dataset and one.value is not None and one.metric in places:
            curves.setdefault(one.model, []).append((places[one.metric], one.value))
    yield from map(Line, curves.values())


def _panel(kind: str, runs: Runs, dataset: str) -> Panel:
    names = list(dict.fromkeys(name for one in runs.values() for name in _conditions(one, dataset)))
    if kind == "shots":  # runs may have other levels
        shown = {
            name: row.get("demonstrations") or 0
            for one in runs.values()
            for name, row in _conditions(one, dataset).items()
        }
        names.sort(key=lambda name: shown[name])
    first = next(one for one in runs.values() if _conditions(one, dataset))
    curve = kind in _CURVES
    lines = list(_published(kind, first, dataset, names))
    marks: list[Mark] = []
    for number, (run, result) in enumerate(list(runs.items())[:SERIES]):
        points: list[tuple[float, float, Any, Any]] = []
        own = _conditions(result, dataset)
        for name, row in own.items():
            value, low, high = (row.get(key) for key in ("score", "score_low", "score_high"))
            if value is None:
                continue
            place = _length(result, dataset, name) if kind == "context" else float(names.index(name))
            if kind == "position":  # the middle of the part; runs may have other numbers of parts
                place = (place + 0.5) * len(names) / len(own) - 0.5
            points.append((place, value, low, high))
            span = None if curve or low is None or high is None else (low, high)
            x, y = (place, value) if curve else (value, place + 0.1 * number)
            marks.append(Mark(x, y, number, f"{run}, {name}", value, span))
        if curve and points:
            lines.append(Line([one[:2] for one in points], number))
            for end in (2, 3):
                band = [(one[0], float(one[end])) for one in points if one[end] is not None]
                lines += [Line(band, number, dashed=True)] if band else []
    if not curve:
        return Panel(dataset, _SCORE, row_axis(names), marks, lines)
    ticks = [(float(place), name.removeprefix("part ").removesuffix(" shots")) for place, name in enumerate(names)]
    if kind == "context":
        places = [x for line in lines for x, _ in line.points] or [12.0]
        powers = range(math.floor(min(places)), math.ceil(max(places)) + 1)
        ticks = [(float(power), f"{2**power // 1024}K" if power >= 10 else str(2**power)) for power in powers]
    ends = (ticks[0][0] - 0.3, ticks[-1][0] + 0.3)
    return Panel(dataset, Axis(ends, ticks, _CURVES[kind]), _SCORE, marks, lines)


def experiment_chart(given: Given) -> Figure:
    """Return the scores of an experiment of LongICL by condition, with their intervals.

    The axis of the experiment ``context`` is the number of tokens, by the model's tokenizer where it is known. There,
    and for ``shots``, the published models are in the background if the result has the published prompts.

    Args:
        given: A result of LongICL with an experiment, or several of the same experiment by the name of their run.

    Raises:
        ArgumentError: There is no experiment, or there are several.
    """
    runs = {
        name: one for name, one in named(given).items() if any(_conditions(one, dataset) for dataset in one.divided)
    }
    kinds = {
        str(one["experiment"]["name"])
        for result in runs.values()
        for one in result.divided.values()
        if one.get("experiment")
    }
    if len(kinds) != 1:
        raise ArgumentError(
            f"expected results of one experiment of LongICL, found {', '.join(sorted(kinds)) or 'none'}"
        )
    (kind,) = kinds
    panels = [
        _panel(kind, runs, dataset)
        for dataset in dataset_names(runs)
        if any(_conditions(one, dataset) for one in runs.values())
    ]
    tables = {name: experiment_rows(result) for name, result in runs.items()}
    longest = max((head for head, _ in tables.values()), key=len)
    rows = []
    for name, (head, found) in tables.items():
        for row in found:
            cells = dict(zip(head, row, strict=True))
            shown = [cells.get(column, "-") for column in longest[1:]]
            rows.append([row[0], name, *(Missing("undefined or not measured") if one == "-" else one for one in shown)])
    drawn = list(runs)[:SERIES]
    legend = [Key(name, number) for number, name in enumerate(drawn)] if len(drawn) > 1 else []
    if any(line.series is None for panel in panels for line in panel.lines):
        legend.append(Key("published models, 500 items, rounds 1 to 5", kind="line"))
    how = "Dashed lines are the ends of the intervals." if kind in _CURVES else "Lines are intervals."
    return Figure(
        f"Experiment: {kind}",
        f"Accuracy or micro F1 by condition. {how} A difference is that from the first condition (experiment position: "
        "from the mean of the other parts), on the same test items. Published models are placed by their number of "
        "demonstrations.",
        panels,
        [longest[0], "run", *longest[1:]],
        rows,
        (1,),
        legend,
    )

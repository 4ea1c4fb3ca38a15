"""How a score generalises to other test rows, demonstrations, templates.

Reads results of :class:`~StaICC.benchmarks.tasks.generalisation.Generalisation`, whose conditions cross draws of
demonstrations with templates. The statistics are in :mod:`~StaICC.metrics.crossed_effects`.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from statistics import fmean
from typing import Any, NamedTuple

from StaICC import benchmark_names
from StaICC.comparing.alignment import align, corrected
from StaICC.comparing.comparison import compare
from StaICC.comparing.comparison_results import Comparison, DatasetComparison
from StaICC.comparing.missing_queries import RunDifference, mean_of_differences
from StaICC.comparing.verdicts import Tested
from StaICC.errors import ArgumentError, UndefinedMetricError
from StaICC.layout import Block, Displayed, Line, TextTable
from StaICC.metrics import crossed_effects as crossed
from StaICC.metrics.clusters import level_over_clusters, too_few_clusters
from StaICC.metrics.crossed_effects import SOURCES, CrossedEffects, generalise, mean_effects
from StaICC.metrics.intervals import Interval, mean_interval, ratio_part
from StaICC.metrics.paired_tests import holm
from StaICC.metrics.statistics import Statistic
from StaICC.results.interval_scope import cluster_notes
from StaICC.results.result import Result

BENCHMARK = benchmark_names.GENERALISATION
_Cells = list[float | None]
"""The correctness of the predictions for one test row: 1 if correct, 0 if wrong, ``None`` without a prediction.

There is one cell for each condition. A condition is a draw of demonstrations with a template. The order is draw by
draw, each with all templates: (draw 1, template 1), (draw 1, template 2), and so on.
"""
Clusters = tuple[int, ...] | None
"""The number of the cluster of each test row; ``None`` if rows are independent."""


class Deviation(NamedTuple):
    """The standard deviation of an accuracy from one source."""

    value: float
    interval: tuple[float, float] | None
    """Lower and upper limit; ``None`` with fewer than two degrees of freedom, or without variation."""


@dataclass(frozen=True, slots=True)
class Decomposition:
    """The accuracy on one data set, or its mean over data sets, with its sources of variance."""

    dataset: str
    """Name of the data set, or ``"mean"``."""
    value: float
    """The accuracy."""
    effects: CrossedEffects
    """The mean squares, from which the variance of each source is estimated."""
    fixed: Interval
    """The interval over test rows only: it is about the draws and templates of the run."""
    generalising: Interval
    """The interval over test rows, draws and templates: it is about other draws and templates too."""

    @property
    def deviations(self) -> list[Deviation]:
        """The standard deviation of the accuracy from each source: the square root of its part in the variance.

        The estimate of a part can be negative. Then the standard deviation is 0.
        """
        variances = self.effects.contributions
        intervals = self.effects.intervals(self.fixed.level)
        deviations = []
        for variance, limits in zip(variances.values(), intervals.values(), strict=True):
            interval = None
            if limits is not None:
                low, high = limits
                interval = (math.sqrt(low), math.sqrt(high))
            deviations.append(Deviation(math.sqrt(max(0.0, variance)), interval))
        return deviations

    def to_dict(self) -> dict[str, Any]:
        """Return plain values for JSON. The components are variances of single effects, not of the accuracy."""
        rows, draws, templates = self.effects.sizes
        return {
            "dataset": self.dataset,
            "rows": rows,
            "draws": draws,
            "templates": templates,
            "accuracy": self.value,
            "over_rows": [self.fixed.low, self.fixed.high],
            "over_rows_draws_templates": [self.generalising.low, self.generalising.high],
            "components": self.effects.components,
            "component_intervals": self._component_intervals(),
        }

    def _component_intervals(self) -> dict[str, list[float] | None]:
        """Return the confidence interval of each component of variance, by the name of its source.

        A component is the variance of one effect, such as that of a row. The accuracy is a mean over many effects, so
        the part of a source in its variance is smaller::

            part = component / level count

        The level count of the rows is the number of rows. That of the interaction of rows and draws is rows times
        draws. So the limits of a component are the limits of the part, times the level count.

        Returns:
            The lower and the upper limit; ``None`` where they are undefined: with fewer than two degrees of freedom, or
            without variation.
        """
        limits_of_parts = self.effects.intervals(self.fixed.level)
        intervals: dict[str, list[float] | None] = {}
        for factors, name in SOURCES.items():
            limits = limits_of_parts[name]
            if limits is None:
                intervals[name] = None
                continue
            low, high = limits
            level_count = math.prod(self.effects.sizes[factor] for factor in factors)
            intervals[name] = [low * level_count, high * level_count]
        return intervals


@dataclass(frozen=True, slots=True)
class VarianceComponents(Displayed):
    """The sources of variance of a run."""

    lines: tuple[Decomposition, ...]
    """One line for each data set, then one for their mean if there are several."""
    left_out: Mapping[str, int]
    """Number of test rows that lack a prediction in some condition, by data set. They count for the accuracy and its
    interval over rows, but not for the sources of variance."""
    notes: tuple[str, ...] = ()
    """Sentences about data sets whose rows are in clusters, which then are the rows of the table."""

    def table(self) -> tuple[list[str], list[list[str]]]:
        """Return the column heads, and two table rows for each data set.

        The first table row has the accuracy with its two intervals, and the standard deviation of the accuracy from
        each source. The second table row has the intervals of these standard deviations, after their nominal coverage,
        such as ``95%``.
        """
        head = ["data set", "rows", "accuracy", "over rows", "over rows, draws, templates", *SOURCES.values()]
        table_rows = []
        for line in self.lines:
            test_row_count, _, _ = line.effects.sizes
            deviations = [f"{deviation.value:.4f}" for deviation in line.deviations]
            table_rows.append(
                [
                    line.dataset,
                    str(test_row_count),
                    f"{line.value:.4f}",
                    _ends_text(line.fixed.low, line.fixed.high),
                    _ends_text(line.generalising.low, line.generalising.high),
                    *deviations,
                ]
            )
            deviation_intervals = []
            for deviation in line.deviations:
                if deviation.interval is None:
                    deviation_intervals.append("undefined")
                else:
                    low, high = deviation.interval
                    deviation_intervals.append(_ends_text(low, high))
            level = f"{line.fixed.level:.0%}"
            table_rows.append(["", "", "", "", level, *deviation_intervals])
        return head, table_rows

    def display_blocks(self) -> list[Block]:
        """Return the table, the meaning of its columns, and a note about each data set with missing predictions."""
        head, rows = self.table()
        _, draws, templates = self.lines[0].effects.sizes
        blocks: list[Block] = [
            TextTable(head, rows),
            Line(
                f"{draws} draws x {templates} templates; right: standard deviation of the accuracy from each source, "
                "and its interval (undefined: fewer than two degrees of freedom, or no variation)"
            ),
        ]
        for note in self.notes:
            blocks.append(Line(f"{note} Rows of the table are clusters there."))
        for dataset, row_count in self.left_out.items():
            note = (
                f"note: {row_count} rows of {dataset} lack predictions: the accuracy and its intervals are conditional "
                "on a prediction, the sources of variance are those of the other rows"
            )
            blocks.append(Line(note))
        return blocks


def _ends_text(low: float, high: float) -> str:
    """Return an interval as a cell of a table."""
    return f"{low:.3f} .. {high:.3f}"


def variance_components(result: Result, level: float = 0.95) -> VarianceComponents:
    """Return the accuracy of a run on each data set, with the sources of its variance and two intervals.

    The sources are the test rows, the draws of demonstrations, the templates, and their interactions. One interval is
    over test rows only. The other one is over test rows, draws and templates.

    Args:
        result: A result of ``Generalisation``.
        level: Nominal coverage of the intervals.

    Raises:
        ArgumentError: It is a result of another benchmark.
        UndefinedMetricError: Fewer than two rows have predictions of all draws and templates.
    """
    lines: list[Decomposition] = []
    left_out: dict[str, int] = {}
    for dataset in result.details:
        # Each test row has a cell for each draw and template: whether the prediction is correct, None without one.
        cells_by_row = _correctness_by_row(result, dataset)
        line = _decomposition(dataset, cells_by_row, result, level)
        incomplete_row_count = sum(None in cells for cells in cells_by_row.values())
        if incomplete_row_count > 0:
            left_out[dataset] = incomplete_row_count
        lines.append(line)
    if len(lines) > 1:
        lines.append(_mean_decomposition(lines))
    return VarianceComponents(tuple(lines), left_out, notes=tuple(cluster_notes(result)))


def _decomposition(dataset: str, correct: Mapping[int, _Cells], result: Result, level: float) -> Decomposition:
    """Return the accuracy on one data set with its sources of variance, and its two intervals.

    The accuracy is the number of correct predictions divided by that of all predictions. Both are sums over independent
    units: the test rows, or their clusters. So its interval over units is that of a ratio of two sums. The second
    interval, over rows, draws and templates, adds the variance of draws and templates to the first one
    (:func:`~StaICC.metrics.crossed_effects.generalise`).

    Args:
        dataset: The data set.
        correct: The correctness of the predictions for each test row.
        result: The result.
        level: Nominal coverage of the intervals.

    Raises:
        UndefinedMetricError: Fewer than two rows have predictions of all draws and templates, or the rows are in
            clusters, and these are too few.
    """
    clusters = result.details[dataset].clusters
    effects = _effects(dataset, correct, result, clusters)
    hits: dict[int, float] = {}  # the number of correct predictions of each unit
    predictions: dict[int, float] = {}  # the number of all predictions of each unit
    for row, cells in correct.items():
        correctness = _known(cells)  # 1 or 0 for each draw and template with a prediction
        if not correctness:
            continue
        unit = _unit_of(row, clusters)
        hits[unit] = hits.get(unit, 0.0) + math.fsum(correctness)
        predictions[unit] = predictions.get(unit, 0.0) + len(correctness)
    level_of_formulas = level
    if clusters is not None:
        # If clusters differ in size, the formulas reach the nominal coverage only at a higher level.
        total = math.fsum(predictions.values())
        cluster_shares = [count / total for count in predictions.values()]
        level_of_formulas = level_over_clusters(level, cluster_shares)
    accuracy = ratio_part(list(hits.values()), list(predictions.values()), level_of_formulas)
    over_rows = accuracy.interval(level, Statistic.method)
    return Decomposition(
        dataset=dataset,
        value=accuracy.value,
        effects=effects,
        fixed=over_rows,
        generalising=generalise(accuracy.value, over_rows, effects),
    )


def _mean_decomposition(lines: Sequence[Decomposition]) -> Decomposition:
    """Return the mean accuracy over data sets with its sources of variance, from the lines of the data sets.

    The data sets are fixed: only rows, draws and templates vary.
    """
    values = [line.value for line in lines]
    mean = fmean(values)
    effects = mean_effects([line.effects for line in lines])
    over_rows = mean_interval(values, [line.fixed for line in lines])
    return Decomposition(
        dataset="mean", value=mean, effects=effects, fixed=over_rows, generalising=generalise(mean, over_rows, effects)
    )


# -- two runs


@dataclass(frozen=True, slots=True)
class _EffectBounds:
    """The mean squares of the difference of two runs, for both extreme assumptions about missing queries."""

    lowest: CrossedEffects
    """Mean squares of the lowest difference: missing queries of the first run are wrong, those of the second run
    correct."""
    highest: CrossedEffects
    """Mean squares of the highest difference: missing queries of the first run are correct, those of the second run
    wrong."""


def compare_generalising(first: Result, second: Result) -> Comparison:
    """Compare the accuracies of two runs over test rows, draws and templates.

    The runs have the same draws and templates. An effect of a draw or a template on both runs cancels in the
    difference. Missing queries count at their worst for each direction (:mod:`StaICC.comparing.missing_queries`).

    Args:
        first: A result of ``Generalisation``.
        second: The other result, on the same rows, draws and templates.

    Returns:
        The comparison of :func:`~StaICC.comparing.comparison.compare`, with intervals and p-values over rows, draws and
        templates. Holm's correction is for the data sets. There are no detectable differences.

    Raises:
        ArgumentError: The results are of another benchmark, or cannot be compared.
        UndefinedMetricError: The runs share fewer than two rows.
    """
    over_rows = compare(first, second, "accuracy")
    pair = align({"first": first, "second": second}, "accuracy").pair("first", "second")
    bounds: dict[str, _EffectBounds] = {}
    uncorrected_lines = []
    for line in over_rows.datasets:
        bounds[line.dataset] = _effect_bounds(first, second, line.dataset)
        uncorrected_lines.append(_generalised(line, pair.differences[line.dataset], bounds[line.dataset]))
    outcomes = corrected([line.outcome for line in uncorrected_lines], holm)
    lines = [replace(line, outcome=outcome) for line, outcome in zip(uncorrected_lines, outcomes, strict=True)]

    # The mean over the data sets is one test, without a correction.
    mean = over_rows.mean
    if mean is not None:
        bounds_of_mean = _EffectBounds(
            lowest=mean_effects([of_dataset.lowest for of_dataset in bounds.values()]),
            highest=mean_effects([of_dataset.highest for of_dataset in bounds.values()]),
        )
        difference_of_mean = mean_of_differences([pair.differences[dataset] for dataset in bounds])
        mean = _generalised(mean, difference_of_mean, bounds_of_mean)
    return replace(
        over_rows,
        metric="accuracy, over rows, draws and templates",
        datasets=tuple(lines),
        mean=mean,
        scope=tuple(pair.cluster_notes),  # draws and templates are not fixed here
    )


def _generalised(line: DatasetComparison, difference: RunDifference, bounds: _EffectBounds) -> DatasetComparison:
    """Return a line of a comparison with the interval and the p-value over rows, draws and templates.

    The estimand is the difference of the two runs in the mean over all rows, draws and templates that might have been
    drawn. Missing queries allow differences from a lowest to a highest one. The interval begins where that of the
    lowest difference begins, and ends where that of the highest difference ends, so that it is valid for all of them.

    An untested line stays untested. The line has no detectable difference.

    Args:
        line: The line with interval and p-value over rows only.
        difference: The lowest and the highest difference.
        bounds: The mean squares of these two differences.
    """
    if difference.ends is None:
        return replace(line, detectable=None)
    lowest, highest = difference.ends
    outcome = line.outcome
    if isinstance(outcome, Tested):
        p_value = _generalised_p_value(outcome.p_value, lowest, highest, bounds)
        outcome = Tested(p_value, corrected_p_value=p_value)
    interval = line.interval
    if interval is not None:
        of_lowest = generalise(lowest, interval, bounds.lowest, difference=True)
        of_highest = generalise(highest, interval, bounds.highest, difference=True)
        interval = replace(of_lowest, high=of_highest.high)
    return replace(line, interval=interval, outcome=outcome, detectable=None)


def _generalised_p_value(p_value: float, lowest: float, highest: float, bounds: _EffectBounds) -> float:
    """Return the p-value of a difference over rows, draws and templates, valid for all scores of missing queries.

    If the difference is positive for all of these scores, it is that of the lowest difference, which has the largest
    p-value. If it is negative for all of them, it is that of the highest difference. Otherwise it is 1: the difference
    may be 0.

    Args:
        p_value: The p-value over rows only.
        lowest: The lowest difference that missing queries allow.
        highest: The highest difference that missing queries allow.
        bounds: The mean squares of these two differences.
    """
    if lowest > 0.0:
        return crossed.generalising_p_value(lowest, p_value, bounds.lowest)
    if highest < 0.0:
        return crossed.generalising_p_value(highest, p_value, bounds.highest)
    return 1.0


def _effect_bounds(first: Result, second: Result, dataset: str) -> _EffectBounds:
    """Return the mean squares of the lowest and of the highest difference of two runs, on the rows that both have.

    The lowest difference has missing predictions of the first run as wrong, and those of the second run as correct. The
    highest one has them the other way round.

    Args:
        first: A result of ``Generalisation``.
        second: The other result.
        dataset: The data set.
    """
    first_correct = _correctness_by_row(first, dataset)
    second_correct = _correctness_by_row(second, dataset)
    lowest: dict[int, list[float]] = {}
    highest: dict[int, list[float]] = {}
    for row, first_cells in first_correct.items():
        if row in second_correct:
            second_cells = second_correct[row]
            lowest[row] = _differences(_filled(first_cells, 0.0), _filled(second_cells, 1.0))
            highest[row] = _differences(_filled(first_cells, 1.0), _filled(second_cells, 0.0))
    clusters = clusters_of_either(first, second, dataset)
    return _EffectBounds(
        lowest=_effects(dataset, lowest, first, clusters), highest=_effects(dataset, highest, first, clusters)
    )


def _differences(first_cells: Sequence[float], second_cells: Sequence[float]) -> list[float]:
    """Return the difference of each cell of a row, first minus second."""
    return [first - second for first, second in zip(first_cells, second_cells, strict=True)]


def _filled(cells: _Cells, value: float) -> list[float]:
    """Return the cells of a row; each missing cell has the given value."""
    return [value if cell is None else cell for cell in cells]


# -- mean squares


def effects_of(first: Result, second: Result | None, names: Iterable[str]) -> dict[str, CrossedEffects]:
    """Return the mean squares of each data set, of a run or of the difference between two runs.

    A difference is that of the cells which both runs predicted.

    Args:
        first: A result of ``Generalisation``.
        second: The other run; ``None`` for the mean squares of the first run alone.
        names: The data sets.

    Raises:
        ArgumentError: A result is of another benchmark.
        UndefinedMetricError: Fewer than two rows have predictions of all draws and templates.
    """
    effects = {}
    for dataset in names:
        rows = _correctness_by_row(first, dataset)
        if second is not None:
            rows = _row_differences(rows, _correctness_by_row(second, dataset))
        effects[dataset] = _effects(dataset, rows, first, clusters_of_either(first, second, dataset))
    return effects


def clusters_of_either(first: Result, second: Result | None, dataset: str) -> Clusters:
    """Return the clusters of the test rows of a data set, which one of two runs may not record.

    Args:
        first: A result.
        second: A result that can be compared with it, so that both have the same clusters if both have some; ``None``
            if there is one result only.
        dataset: The data set.
    """
    clusters = first.details[dataset].clusters
    if clusters is None and second is not None:
        return second.details[dataset].clusters
    return clusters


def _row_differences(first: Mapping[int, _Cells], second: Mapping[int, _Cells]) -> dict[int, _Cells]:
    """Return the differences of the cells of two runs, first minus second, by test row.

    Test rows that only one run has are left out. A difference is ``None`` if one of the runs has no prediction.
    """
    differences: dict[int, _Cells] = {}
    for row, first_cells in first.items():
        if row not in second:
            continue
        differences[row] = []
        for first_cell, second_cell in zip(first_cells, second[row], strict=True):
            if first_cell is None or second_cell is None:
                differences[row].append(None)
            else:
                differences[row].append(first_cell - second_cell)
    return differences


def _known(cells: Sequence[float | None]) -> list[float]:
    """Return the cells of a row without the missing ones."""
    return [cell for cell in cells if cell is not None]


def _unit_of(row: int, clusters: Clusters) -> int:
    """Return the number of the unit that a test row belongs to: its cluster, or the row itself if it has none."""
    if clusters is None:
        return row
    return clusters[row]


def _mean_cells(rows: Sequence[Sequence[float]]) -> list[float]:
    """Return for each cell the mean over test rows."""
    return [fmean(cells) for cells in zip(*rows, strict=True)]


def _effects(
    dataset: str, rows: Mapping[int, Sequence[float | None]], result: Result, clusters: Clusters
) -> CrossedEffects:
    """Return the effects of test rows, draws of demonstrations and templates on the values of a data set.

    Test rows without a value for one of the draws and templates are left out. If the test rows are in clusters, the
    mean over the rows of a cluster takes the place of a row. Each cluster then has the same weight, whatever its number
    of rows.

    Args:
        dataset: The data set, for the message.
        rows: The cells of each test row, one for each draw and template, draw by draw. A cell is the correctness in a
            run, or the difference of two runs; ``None`` for a failed query.
        result: The result, which has the number of templates.
        clusters: The number of the cluster of each test row; ``None`` if the rows are in no clusters.

    Raises:
        UndefinedMetricError: There are fewer than two such rows, or too few clusters of rows.
    """
    complete_rows: dict[int, Sequence[float]] = {}
    for row, cells in rows.items():
        known = _known(cells)
        if len(known) == len(cells):
            complete_rows[row] = known
    if len(complete_rows) < 2:
        raise UndefinedMetricError(
            f"{dataset}: {len(complete_rows)} of {len(rows)} test rows have predictions of all draws and templates, "
            "expected at least two. Use more test rows, or predict the failed queries again"
        )
    rows_by_unit: dict[int, list[Sequence[float]]] = {}  # a unit is a cluster, or a row if there are no clusters
    for row, complete_cells in complete_rows.items():
        rows_by_unit.setdefault(_unit_of(row, clusters), []).append(complete_cells)
    if clusters is not None:
        reason = too_few_clusters([len(rows_of_cluster) for rows_of_cluster in rows_by_unit.values()])
        if reason is not None:
            raise UndefinedMetricError(f"{dataset}: {reason}")

    template_count = result.arguments["options"]["templates"]
    values: list[list[list[float]]] = []  # values[unit][draw][template]
    for rows_of_unit in rows_by_unit.values():
        mean_cells = _mean_cells(rows_of_unit)
        values.append(_by_draw(mean_cells, template_count))
    return crossed.crossed_effects(values)


def _by_draw(cells: Sequence[float], template_count: int) -> list[list[float]]:
    """Return the cells of a row as a list for each draw, with the cell of each template.

    With two templates, ``[1, 0, 1, 1]`` becomes ``[[1, 0], [1, 1]]``: the cells are listed draw by draw.
    """
    cells_by_draw = []
    for start in range(0, len(cells), template_count):
        cells_by_draw.append(list(cells[start : start + template_count]))
    return cells_by_draw


def _correctness_by_row(result: Result, dataset: str) -> dict[int, _Cells]:
    """Return the cells of each test row, by the index of the row.

    A row has one cell for each condition, which is a draw of demonstrations with a template. The cell is 1 if the
    prediction is correct, 0 if it is wrong, and ``None`` if there is none. A reply without a label that counts as wrong
    (``unparsed="wrong"``) has a 0.

    Raises:
        ArgumentError: The result is of another benchmark, or lacks conditions.
    """
    conditions = result.details[dataset].conditions
    options = result.arguments.get("options", {})
    expected_count = options.get("draws", 0) * options.get("templates", 0)  # one condition for each draw and template
    if result.benchmark != BENCHMARK or not conditions or len(conditions) != expected_count:
        raise ArgumentError(
            f"{dataset}: got a result of {result.benchmark} with {len(conditions)} conditions, expected "
            f"{BENCHMARK} with one for each draw and template (python -m StaICC run generalisation)"
        )
    counted_wrong = result.counted_wrong(dataset)
    correct: dict[int, _Cells] = {}
    for condition_index, record in enumerate(conditions):
        queries = zip(record.rows, record.truth, record.predictions, strict=True)
        for query_index, (row, truth, prediction) in enumerate(queries):
            cells = correct.setdefault(row, [None] * len(conditions))
            if prediction is not None:
                cells[condition_index] = float(prediction == truth)
            elif (record.name, query_index) in counted_wrong:
                cells[condition_index] = 0.0
    return correct

"""How a score generalises to other test rows, demonstrations, templates.

Reads results of :class:`~StaICC.benchmarks.tasks.generalisation.Generalisation`, whose conditions cross draws of
demonstrations with templates. The statistics are in :mod:`~StaICC.metrics.crossed_effects`.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from operator import sub
from statistics import fmean
from typing import Any

from StaICC import benchmark_names
from StaICC.comparing.alignment import align, corrected
from StaICC.comparing.comparison import compare
from StaICC.comparing.comparison_results import Comparison, DatasetComparison
from StaICC.comparing.missing_queries import RunDifference, mean_of_differences
from StaICC.comparing.verdicts import Tested
from StaICC.errors import ArgumentError, UndefinedMetricError
from StaICC.layout import Block, Displayed, Line, TextTable
from StaICC.metrics import crossed_effects as crossed
from StaICC.metrics.crossed_effects import SOURCES, CrossedEffects, generalise, mean_effects
from StaICC.metrics.intervals import Interval, mean_interval, ratio_part
from StaICC.metrics.paired_tests import holm
from StaICC.metrics.statistics import Statistic
from StaICC.results.result import Result

BENCHMARK = benchmark_names.GENERALISATION
_Cells = list[float | None]
"""Of a test row: for each draw and template whether the prediction is correct; ``None`` without one."""


@dataclass(frozen=True, slots=True)
class Decomposition:
    """The accuracy on one data set, or its mean over data sets, with its sources of variance."""

    dataset: str
    value: float
    effects: CrossedEffects
    fixed: Interval
    """Over test rows: draws and templates are those of the run."""
    generalising: Interval
    """Over test rows, draws and templates."""

    @property
    def deviations(self) -> list[tuple[float, tuple[float, float] | None]]:
        """The standard deviation of the accuracy from each source, and its interval; ``None`` where undefined."""
        limits = self.effects.intervals(self.fixed.level)
        return [
            (math.sqrt(max(0.0, part)), ends and (math.sqrt(ends[0]), math.sqrt(ends[1])))
            for part, ends in zip(self.effects.contributions.values(), limits.values(), strict=True)
        ]

    def to_dict(self) -> dict[str, Any]:
        """Return plain values for JSON; the components are variances."""
        sizes = {name: math.prod(self.effects.sizes[factor] for factor in source) for source, name in SOURCES.items()}
        return {
            "dataset": self.dataset,
            **dict(zip(("rows", "draws", "templates"), self.effects.sizes, strict=True)),
            "accuracy": self.value,
            "over_rows": [self.fixed.low, self.fixed.high],
            "over_rows_draws_templates": [self.generalising.low, self.generalising.high],
            "components": self.effects.components,
            "component_intervals": {
                name: ends and [end * sizes[name] for end in ends]
                for name, ends in self.effects.intervals(self.fixed.level).items()
            },
        }


@dataclass(frozen=True, slots=True)
class VarianceComponents(Displayed):
    """The sources of variance of a run."""

    lines: tuple[Decomposition, ...]
    """The data sets, then their mean if there are several."""
    left_out: Mapping[str, int]
    """Test rows without a prediction in every condition, by data set: they count for accuracy and interval only."""

    def table(self) -> tuple[list[str], list[list[str]]]:
        """Return the head and two rows for each data set: accuracy, standard deviations from each source; intervals."""
        head = ["data set", "rows", "accuracy", "over rows", "over rows, draws, templates", *SOURCES.values()]
        rows = []
        for line in self.lines:
            intervals = [f"{interval.low:.3f} .. {interval.high:.3f}" for interval in (line.fixed, line.generalising)]
            values = [f"{deviation:.4f}" for deviation, _ in line.deviations]
            rows.append([line.dataset, str(line.effects.sizes[0]), f"{line.value:.4f}", *intervals, *values])
            ends = ["undefined" if ends is None else f"{ends[0]:.3f} .. {ends[1]:.3f}" for _, ends in line.deviations]
            rows.append(["", "", "", "", f"{line.fixed.level:.0%}", *ends])
        return head, rows

    def display_blocks(self) -> list[Block]:
        """Return the table with its notes."""
        notes = [
            f"note: {number} rows of {name} lack predictions: the accuracy and its intervals are conditional on a "
            "prediction, the sources of variance are those of the other rows"
            for name, number in self.left_out.items()
        ]
        _, draws, templates = self.lines[0].effects.sizes
        text = (
            f"{draws} draws x {templates} templates; right: standard deviation of the accuracy from each source, and "
            "its interval (undefined: fewer than two degrees of freedom, or no variation)"
        )
        return [TextTable(*self.table()), *map(Line, [text, *notes])]


def variance_components(result: Result, level: float = 0.95) -> VarianceComponents:
    """Return the sources of variance of a run, with intervals over rows, and over rows, draws and templates.

    Args:
        result: A result of ``Generalisation``.
        level: Nominal coverage of the intervals.

    Raises:
        ArgumentError: It is a result of another benchmark.
        UndefinedMetricError: Fewer than two rows have predictions of all draws and templates.
    """
    lines: list[Decomposition] = []
    left_out: dict[str, int] = {}
    for name in result.details:
        correct = list(_correct(result, name).values())
        effects = _effects(name, correct, result)
        if effects.sizes[0] < len(correct):
            left_out[name] = len(correct) - effects.sizes[0]
        predicted = [cells for row in correct if (cells := [value for value in row if value is not None])]
        part = ratio_part([math.fsum(row) for row in predicted], [float(len(row)) for row in predicted], level)
        fixed = part.interval(level, Statistic.method)
        lines.append(Decomposition(name, part.value, effects, fixed, generalise(part.value, fixed, effects)))
    if len(lines) > 1:
        effects = mean_effects([line.effects for line in lines])
        value = fmean(line.value for line in lines)
        fixed = mean_interval([line.value for line in lines], [line.fixed for line in lines])
        lines.append(Decomposition("mean", value, effects, fixed, generalise(value, fixed, effects)))
    return VarianceComponents(tuple(lines), left_out)


def compare_generalising(first: Result, second: Result) -> Comparison:
    """Compare the accuracies of two runs over test rows, draws and templates.

    The runs have the same draws and templates, so what these do to both cancels. Missing queries count at their worst
    for each direction (:mod:`StaICC.comparing.missing_queries`).

    Args:
        first: A result of ``Generalisation``.
        second: Another, on the same rows, draws and templates.

    Returns:
        What :func:`~StaICC.comparing.comparison.compare` returns, with other intervals and p-values (Holm's correction
        is for the data sets), and without detectable differences.

    Raises:
        ArgumentError: The results are of another benchmark, or cannot be compared.
        UndefinedMetricError: The runs share fewer than two rows.
    """
    runs = {"first": first, "second": second}
    comparison = compare(first, second, "accuracy")
    aligned = align(runs, "accuracy")
    differences = [aligned.datasets[line.dataset].difference(*runs) for line in comparison.datasets]
    designs = [_completed_effects(first, second, line.dataset) for line in comparison.datasets]
    lines = [
        _generalised(line, difference, *design)
        for line, difference, design in zip(comparison.datasets, differences, designs, strict=True)
    ]
    outcomes = corrected([line.outcome for line in lines], holm)
    mean = comparison.mean
    if mean is not None:
        lowest = mean_effects([lowest for lowest, _ in designs])
        highest = mean_effects([highest for _, highest in designs])
        mean = _generalised(mean, mean_of_differences(differences), lowest, highest)
    return replace(
        comparison,
        metric="accuracy, over rows, draws and templates",
        datasets=tuple(replace(line, outcome=outcome) for line, outcome in zip(lines, outcomes, strict=True)),
        mean=mean,
    )


def _generalised(
    line: DatasetComparison, difference: RunDifference, lowest: CrossedEffects, highest: CrossedEffects
) -> DatasetComparison:
    """Return a line with the interval and the p-value over rows, draws and templates; untested stays untested.

    Args:
        line: The line with draws and templates fixed.
        difference: The difference over rows.
        lowest: The mean squares of the lowest difference: missing queries at their worst for the first run.
        highest: Those of the highest difference.
    """
    outcome, interval = line.outcome, line.interval
    if difference.ends is None:
        return replace(line, detectable=None)
    low, high = difference.ends
    if isinstance(outcome, Tested):
        p_value = 1.0
        if low > 0.0:
            p_value = crossed.generalising_p_value(low, outcome.p_value, lowest)
        elif high < 0.0:
            p_value = crossed.generalising_p_value(high, outcome.p_value, highest)
        outcome = Tested(p_value, p_value)
    if interval is not None:
        below = generalise(low, interval, lowest, difference=True)
        above = generalise(high, interval, highest, difference=True)
        interval = replace(below, high=above.high)
    return replace(line, interval=interval, outcome=outcome, detectable=None)


def _completed_effects(first: Result, second: Result, name: str) -> tuple[CrossedEffects, CrossedEffects]:
    """Return the mean squares of the lowest and of the highest difference on the rows that both runs have.

    A missing query of the first run is wrong in the lowest difference and correct in the highest one, one of the second
    run the other way round.
    """
    ours, others = _correct(first, name), _correct(second, name)
    shared = [row for row in ours if row in others]
    lowest = [list(map(sub, _filled(ours[row], 0.0), _filled(others[row], 1.0))) for row in shared]
    highest = [list(map(sub, _filled(ours[row], 1.0), _filled(others[row], 0.0))) for row in shared]
    return _effects(name, lowest, first), _effects(name, highest, first)


def _filled(cells: _Cells, value: float) -> list[float]:
    """Return the cells of a row with a value in the place of missing ones."""
    return [value if cell is None else cell for cell in cells]


def effects_of(first: Result, second: Result | None, names: Iterable[str]) -> dict[str, CrossedEffects]:
    """Return the mean squares of data sets: of a run, or of the differences between two on what both predicted.

    Raises:
        ArgumentError: A result is of another benchmark.
        UndefinedMetricError: Fewer than two rows have predictions of all draws and templates.
    """
    designs = {}
    for name in names:
        rows = _correct(first, name)
        if second is not None:
            others = _correct(second, name)
            rows = {row: list(map(_difference, rows[row], others[row])) for row in rows if row in others}
        designs[name] = _effects(name, list(rows.values()), first)
    return designs


def _difference(ours: float | None, other: float | None) -> float | None:
    return None if ours is None or other is None else ours - other


def _effects(name: str, rows: Sequence[Sequence[float | None]], result: Result) -> CrossedEffects:
    """Return the mean squares of the rows that have a value for each draw and template."""
    complete = [cells for row in rows if len(cells := [value for value in row if value is not None]) == len(row)]
    if len(complete) < 2:
        raise UndefinedMetricError(
            f"{name}: {len(complete)} of {len(rows)} test rows have predictions of all draws and templates, expected "
            "at least two. Use more test rows, or predict the failed queries again"
        )
    templates = result.arguments["options"]["templates"]
    return crossed.crossed_effects(
        [[cells[start : start + templates] for start in range(0, len(cells), templates)] for cells in complete]
    )


def _correct(result: Result, name: str) -> dict[int, _Cells]:
    """Return whether the predictions of each test row are correct."""
    conditions, options = result.details[name].conditions, result.arguments.get("options", {})
    expected = options.get("draws", 0) * options.get("templates", 0)
    if result.benchmark != BENCHMARK or not expected == len(conditions) > 0:
        raise ArgumentError(
            f"{name}: got a result of {result.benchmark} with {len(conditions)} conditions, expected "
            f"{BENCHMARK} with one for each draw and template (python -m StaICC run generalisation)"
        )
    wrong = result.counted_wrong(name)
    correct: dict[int, _Cells] = {}
    for number, record in enumerate(conditions):
        for query, (row, truth, label) in enumerate(zip(record.rows, record.truth, record.predictions, strict=True)):
            cells = correct.setdefault(row, [None] * len(conditions))
            if label is not None or (record.name, query) in wrong:
                cells[number] = float(label == truth)
    return correct

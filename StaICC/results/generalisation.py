"""What an accuracy owes to its test rows, demonstrations and template, and whether a difference generalises over them.

Reads results of :class:`~StaICC.benchmarks.tasks.Generalisation`, whose conditions cross draws of demonstrations with
templates. The statistics are in :mod:`~StaICC.metrics.crossed_effects`.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from StaICC.errors import ArgumentError, UndefinedMetricError
from StaICC.layout import Block, Displayed, Line, TextTable
from StaICC.metrics.crossed_effects import (
    SOURCES,
    CrossedEffects,
    crossed_effects,
    generalise,
    generalising_p_value,
    mean_effects,
)
from StaICC.metrics.intervals import Interval, mean_interval, ratio_part
from StaICC.metrics.paired_tests import holm
from StaICC.metrics.registry import SCORES
from StaICC.results.comparison import Comparison, DatasetComparison, Tested, compare
from StaICC.results.result import Result

BENCHMARK = "Generalisation"
_MEAN = "mean"
_Correct = dict[int, list[list[float | None]]]
"""For each test row, draw and template whether the prediction is correct; ``None`` without one."""


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
        rows, draws, templates = self.effects.sizes
        sizes = {name: math.prod(self.effects.sizes[factor] for factor in source) for source, name in SOURCES.items()}
        return {
            "dataset": self.dataset,
            "rows": rows,
            "draws": draws,
            "templates": templates,
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

    datasets: tuple[Decomposition, ...]
    mean: Decomposition | None
    """The mean over the data sets, if there are several."""
    left_out: Mapping[str, int]
    """Test rows without a prediction in every condition, by data set: they count for accuracy and interval only."""

    @property
    def lines(self) -> list[Decomposition]:
        """The data sets, then their mean if there are several."""
        return [*self.datasets, *([self.mean] if self.mean else [])]

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
            f"note: {number} rows of {name} lack predictions: the sources of variance are those of the others"
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
    found: list[Decomposition] = []
    left_out: dict[str, int] = {}
    for name in result.details:
        correct = list(_correct(result, name).values())
        effects = _effects(name, correct)
        if effects.sizes[0] < len(correct):
            left_out[name] = len(correct) - effects.sizes[0]
        predicted = [[value for draw in row for value in draw if value is not None] for row in correct]
        predicted = [row for row in predicted if row]
        part = ratio_part([math.fsum(row) for row in predicted], [float(len(row)) for row in predicted], level)
        fixed = part.interval(level, SCORES["accuracy"].interval)
        general = generalise(part.value, fixed, effects)
        found.append(Decomposition(name, part.value, effects, fixed, general))
    mean = None
    if len(found) > 1:
        effects = mean_effects([line.effects for line in found])
        value = math.fsum(line.value for line in found) / len(found)
        fixed = mean_interval([line.value for line in found], [line.fixed for line in found])
        mean = Decomposition(_MEAN, value, effects, fixed, generalise(value, fixed, effects))
    return VarianceComponents(tuple(found), mean, left_out)


def compare_generalising(first: Result, second: Result) -> Comparison:
    """Compare the accuracies of two runs over test rows, draws and templates.

    The runs have the same draws and templates, so what these do to both cancels.

    Args:
        first: A result of ``Generalisation``.
        second: Another, on the same rows, draws and templates.

    Returns:
        What :func:`~StaICC.results.comparison.compare` returns, with other intervals and p-values (Holm's correction is
        for the data sets), and without detectable differences.

    Raises:
        ArgumentError: The results are of another benchmark, or cannot be compared.
        UndefinedMetricError: Fewer than two rows have predictions of all draws and templates in both runs.
    """
    comparison = compare(first, second, "accuracy")
    designs = list(effects_of(first, second, [line.dataset for line in comparison.datasets]).values())
    lines = list(map(_generalised, comparison.datasets, designs))
    corrected = zip(lines, holm([line.p_value for line in lines]), strict=True)
    return replace(
        comparison,
        metric="accuracy, over rows, draws and templates",
        datasets=tuple(
            line if p is None else replace(line, outcome=Tested(line.p_value or p, p)) for line, p in corrected
        ),
        mean=comparison.mean and _generalised(comparison.mean, mean_effects(designs)),
    )


def _generalised(line: DatasetComparison, effects: CrossedEffects) -> DatasetComparison:
    """Return a line with the interval and the p-value over rows, draws and templates; untested stays untested."""
    interval = line.interval and generalise(line.difference, line.interval, effects, difference=True)
    outcome = line.outcome
    if isinstance(outcome, Tested):
        p = generalising_p_value(line.difference, outcome.p_value, effects)
        outcome = Tested(p, p)
    return replace(line, interval=interval, outcome=outcome, detectable=None)


def effects_of(first: Result, second: Result | None, names: Iterable[str]) -> dict[str, CrossedEffects]:
    """Return the mean squares of data sets: of a run, or of the differences between two on what both predicted.

    Raises:
        ArgumentError: A result is of another benchmark.
        UndefinedMetricError: Fewer than two rows have predictions of all draws and templates.
    """
    designs = {}
    for name in names:
        correct = _correct(first, name)
        rows = list(correct.values())
        if second is not None:
            others = _correct(second, name)
            rows = [_differences(correct[row], others[row]) for row in correct if row in others]
        designs[name] = _effects(name, rows)
    return designs


def _differences(
    ours: Sequence[Sequence[float | None]], others: Sequence[Sequence[float | None]]
) -> list[list[float | None]]:
    return [
        [None if None in (a, b) else (a or 0.0) - (b or 0.0) for a, b in zip(*pair, strict=True)]
        for pair in zip(ours, others, strict=True)
    ]


def _effects(name: str, rows: Sequence[Sequence[Sequence[float | None]]]) -> CrossedEffects:
    """Return the mean squares of the rows that have a value for each draw and template."""
    complete = [row for row in rows if all(None not in draw for draw in row)]
    if len(complete) < 2:
        raise UndefinedMetricError(
            f"{name}: {len(complete)} of {len(rows)} test rows have predictions of all draws and templates, expected "
            "at least two. Use more test rows, or predict the failed queries again"
        )
    return crossed_effects([[[value or 0.0 for value in draw] for draw in row] for row in complete])


def _correct(result: Result, name: str) -> _Correct:
    """Return whether the predictions of each test row are correct."""
    details, options = result.details[name], result.arguments.get("options", {})
    draws, templates = (options.get(factor, 0) for factor in ("draws", "templates"))
    if result.benchmark != BENCHMARK or draws * templates != len(details.conditions) or not details.conditions:
        raise ArgumentError(
            f"{name}: got a result of {result.benchmark} with {len(details.conditions)} conditions, expected "
            f"{BENCHMARK} with one for each draw and template (python -m StaICC run generalisation)"
        )
    wrong = result.counted_wrong(name)
    correct: _Correct = {}
    for number, record in enumerate(details.conditions):
        draw, template = divmod(number, templates)
        for query, (row, truth, label) in enumerate(zip(record.rows, record.truth, record.predictions, strict=True)):
            cells = correct.setdefault(row, [[None] * templates for _ in range(draws)])
            if label is not None or (record.name, query) in wrong:
                cells[draw][template] = float(label == truth)
    return correct

"""Uncertainty and baselines beside the scores.

Intervals come from a bootstrap over test rows (Efron 1979): the repeats of a row, and its conditions, stay together,
since they are not independent. They are computed from sums per row, never by scoring again. Accuracy has Wilson's
interval (1927), widened by the design effect of the repeats. What guessing would score follows Yauney and Mimno
(2024, arXiv 2404.13020).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache

from StaICC.benchmarks.task import Outcome
from StaICC.errors import ArgumentError, UndefinedMetricError
from StaICC.metrics import entropy, kl_divergence
from StaICC.metrics.classification_sums import ClassificationSums
from StaICC.metrics.intervals import Interval, bootstrap_metrics, bootstrap_sums, design_effect, wilson
from StaICC.metrics.random_baselines import RandomBaseline
from StaICC.metrics.resampling import BOOTSTRAP_VERSION
from StaICC.results import Baselines

__all__ = [
    "Statistics",
    "baselines_of",
    "bias_intervals",
    "classification_intervals",
    "consistency_intervals",
    "slope_intervals",
]


@dataclass(frozen=True, slots=True)
class Statistics:
    """What to compute beside the scores.

    Raises:
        ArgumentError: A value is unfit.
    """

    level: float = 0.95
    """Nominal coverage of the intervals."""
    resamples: int = 1000
    """Bootstrap resamples; 0 computes no intervals."""
    tried: int = 1
    """How many settings were tried of which this is the best; the random baseline grows with it."""
    seed: str = "StaICC"
    """Text from which the resamples are drawn."""

    def __post_init__(self) -> None:
        if not isinstance(self.resamples, int) or self.resamples < 0:
            raise ArgumentError(f"resamples must be a whole number of at least 0, not {self.resamples!r}")
        if not isinstance(self.tried, int) or self.tried < 1:
            raise ArgumentError(f"tried must be a whole number of at least 1, not {self.tried!r}")
        if not 0 < self.level < 1:
            raise ArgumentError(f"level must lie between 0 and 1, not {self.level!r}")

    def for_signature(self) -> str | None:
        """Return what the intervals depend on, as text; ``None`` if there are none."""
        if not self.resamples:
            return None
        return f"{BOOTSTRAP_VERSION}-{self.resamples}-{self.level:g}-{self.seed}"


@lru_cache(maxsize=64)  # ten data sets have four shapes
def _guessing(queries: int, labels: int) -> RandomBaseline:
    return RandomBaseline(queries, 1 / labels)


def baselines_of(outcome: Outcome, tried: int) -> Baselines | None:
    """Return what knowing nothing would have scored on an outcome.

    Args:
        outcome: The answers of one condition.
        tried: How many settings were tried of which this is the best.

    Returns:
        The baselines; ``None`` without answers.
    """
    if not outcome.queries:
        return None
    labels = len(outcome.queries[0].label_space)
    queries = len(outcome.truth)
    guessing = _guessing(queries, labels)
    right = sum(query.label == label for query, label in zip(outcome.queries, outcome.answered, strict=True))
    return Baselines(
        queries=queries,
        labels=labels,
        uniform=1 / labels,
        majority=max(outcome.truth.count(label) for label in set(outcome.truth)) / queries,
        tried=tried,
        max_random=guessing.max_random_baseline(tried),
        p_value=guessing.p_value_of_count(right, tried),
    )


def classification_intervals(outcome: Outcome, statistics: Statistics) -> dict[str, Interval]:
    """Return the intervals of the four classification metrics on one outcome.

    ``accuracy`` is Wilson's; ``accuracy (bootstrap)`` stands beside it.
    """
    rows = [query.row for query in outcome.queries]
    if len(set(rows)) < 2:
        return {}
    probabilities = None if outcome.hard else outcome.normalised.probabilities
    found = bootstrap_metrics(
        outcome.truth,
        outcome.rows if probabilities is None else probabilities,
        rows,
        len(outcome.rows[0]),
        statistics.resamples,
        statistics.level,
        seed=statistics.seed,
        likelihood=probabilities is not None,
    )
    correct = [query.label == label for query, label in zip(outcome.queries, outcome.answered, strict=True)]
    found["accuracy (bootstrap)"] = found["accuracy"]
    effect = design_effect(correct, rows)
    found["accuracy"] = wilson(sum(correct), len(correct), statistics.level, design_effect=effect)
    return found


def _by_row(outcomes: Sequence[Outcome]) -> dict[int, list[tuple[int, int]]]:
    """Group answered queries, as (condition, place), by test row."""
    found: dict[int, list[tuple[int, int]]] = {}
    for number, outcome in enumerate(outcomes):
        for place, query in enumerate(outcome.queries):
            found.setdefault(query.row, []).append((number, place))
    return dict(sorted(found.items()))


def bias_intervals(
    outcome: Outcome, statistics: Statistics, names: Mapping[str, str], divergence: bool
) -> dict[str, Interval]:
    """Return intervals of entropy (or divergence) figures.

    Args:
        outcome: The answers.
        statistics: Level, resamples, seed.
        names: Which figure stands under which key: ``"entropy of mean"``, ``"mean entropy"`` or ``"divergence"``.
        divergence: Whether the true labels take part.
    """
    probabilities = outcome.normalised.probabilities
    groups = _by_row([outcome])
    if probabilities is None or len(groups) < 2:
        return {}
    width = len(probabilities[0])
    columns = []
    for places in groups.values():
        rows = [probabilities[place] for _, place in places]
        truth = [float(sum(outcome.truth[place] == label for _, place in places)) for label in range(width)]
        sums = [math.fsum(column) for column in zip(*rows, strict=True)]
        columns.append([float(len(rows)), *sums, math.fsum(map(entropy, rows)), *(truth if divergence else [])])

    def figures(sums: Sequence[float]) -> dict[str, float]:
        count = sums[0]
        total = math.fsum(sums[1 : 1 + width])
        mean = [value / total for value in sums[1 : 1 + width]]
        found = {"entropy of mean": entropy(mean), "mean entropy": -sums[1 + width] / count}
        if divergence:
            frequencies = [value / count for value in sums[2 + width :]]
            if any(p > 0 and q == 0 for p, q in zip(mean, frequencies, strict=True)):
                raise UndefinedMetricError("the divergence is infinite on some resample")
            found["divergence"] = kl_divergence(mean, frequencies)
        return {key: found[figure] for key, figure in names.items()}

    # These figures live near an end of their range, and resampling pushes them away from it.
    ends = {"entropy of mean": (0.0, math.log(width)), "divergence": (0.0, math.inf)}
    mirrored = {key: ends[figure] for key, figure in names.items() if figure in ends}
    return _bootstrap(columns, figures, statistics, mirrored)


def _bootstrap(
    columns: Sequence[Sequence[float]],
    figures: Callable[[Sequence[float]], Mapping[str, float]],
    statistics: Statistics,
    mirrored: Mapping[str, tuple[float, float]] | None = None,
) -> dict[str, Interval]:
    """Bootstrap sums; no interval where a figure is undefined on some resample."""
    try:
        return bootstrap_sums(
            columns,
            figures,
            seed=statistics.seed,
            resamples=statistics.resamples,
            level=statistics.level,
            mirrored=mirrored,
        )
    except UndefinedMetricError:
        return {}


def slope_intervals(
    outcomes: Sequence[Outcome], shares: Sequence[float], statistics: Statistics
) -> dict[str, Interval]:
    """Return intervals of the regression slopes of the classification metrics over conditions.

    Args:
        outcomes: One for each share.
        shares: Share of correct labels of each condition.
        statistics: Level, resamples, seed.
    """
    rows = [[query.row for query in outcome.queries] for outcome in outcomes]
    readable = all(not outcome.hard and outcome.normalised.probabilities is not None for outcome in outcomes)
    if len(set(shares)) < 2 or len(set(rows[0])) < 2 or any(set(one) != set(rows[0]) for one in rows):
        return {}
    sums = ClassificationSums(len(outcomes[0].rows[0]), readable)
    each = []
    for outcome, asked in zip(outcomes, rows, strict=True):
        probabilities = outcome.normalised.probabilities if readable else outcome.rows
        assert probabilities is not None
        each.append(sums.of_rows(outcome.truth, probabilities, asked))
    columns = [[value for part in parts for value in part] for parts in zip(*each, strict=True)]
    width = len(each[0][0])
    middle = math.fsum(shares) / len(shares)
    spread = math.fsum((share - middle) ** 2 for share in shares)
    weights = [(share - middle) / spread for share in shares]  # the slope is a weighted sum of the values

    def slopes(total: Sequence[float]) -> dict[str, float]:
        values = [sums.metrics(total[start : start + width]) for start in range(0, len(total), width)]
        return {
            f"sensitivity.{name}": math.fsum(weight * one[name] for weight, one in zip(weights, values, strict=True))
            for name in values[0]
        }

    return _bootstrap(columns, slopes, statistics)


def consistency_intervals(outcomes: Sequence[Outcome], statistics: Statistics) -> dict[str, Interval]:
    """Return the interval of the consistency over conditions.

    Args:
        outcomes: The conditions, over the same queries.
        statistics: Level, resamples, seed.
    """
    by_query = zip(*(outcome.predictions for outcome in outcomes), strict=True)
    shares: dict[int, list[float]] = {}
    for query, labels in zip(outcomes[0].condition.queries, by_query, strict=True):
        if None not in labels:
            most = max(labels.count(label) for label in set(labels))
            shares.setdefault(query.row, []).append(most / len(labels))
    if len(shares) < 2:
        return {}
    columns = [[math.fsum(values), float(len(values))] for values in shares.values()]
    return _bootstrap(columns, lambda sums: {"sensitivity.consistency": sums[0] / sums[1]}, statistics)

"""Paired comparison of two results: is one model better on the same prompts, and could this sample have shown it?

Both results answered the same queries, so accuracies are compared query by query: McNemar's exact test (queries as
independent), a permutation test and a bootstrap over test rows (the repeats of a row stay together), Holm's
correction over the data sets, and the smallest difference that the sample could have shown.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from StaICC.errors import ArgumentError
from StaICC.metrics.intervals import Interval
from StaICC.metrics.power import minimum_detectable_difference
from StaICC.metrics.significance import holm, mcnemar_exact, paired_bootstrap, paired_permutation
from StaICC.results.details import ConditionRecord
from StaICC.results.result import Result
from StaICC.results.table import format_columns

__all__ = ["Comparison", "DatasetComparison", "compare"]

_SEED = "StaICC"
_NOT_SET = "not set"
_MAY_DIFFER = frozenset({"method", "statistics", "failed"})


@dataclass(frozen=True, slots=True)
class DatasetComparison:
    """Two runs on one data set, or on all of them together."""

    dataset: str
    condition: str
    queries: int
    """Queries that both runs answered."""
    accuracies: tuple[float, float]
    difference: float
    """First minus second accuracy."""
    interval: Interval
    """Of the difference, by bootstrap over test rows."""
    only_first: int
    """Queries that only the first run answered right."""
    only_second: int
    mcnemar: float
    """P-value of McNemar's exact test; too small where rows were asked more than once."""
    permutation: float
    """P-value of the paired permutation test over test rows."""
    holm: float | None
    """The permutation test's p-value, corrected for the number of data sets; ``None`` for all of them together."""
    detectable: float | None
    """The smallest true difference that such a sample shows with power 0.8 at level 0.05; ``None`` where the runs
    never disagree."""


@dataclass(frozen=True, slots=True)
class Comparison:
    """Two results, compared in pairs."""

    signature: str
    """What both were asked."""
    datasets: tuple[DatasetComparison, ...]
    together: DatasetComparison | None
    """All data sets in one, if there are several; rows of different data sets stay apart."""

    def table(self) -> tuple[list[str], list[list[str]]]:
        """Return the head and the rows of the comparison, as text; all data sets together come last."""
        head = ["data set", "first", "second", "difference", "interval", "p (Holm)", "p", "McNemar", "detectable"]
        head[4] = f"{100 * self.datasets[0].interval.level:g} % interval"
        rows = [
            [
                one.dataset if one.condition == "normal" else f"{one.dataset}, {one.condition}",
                *(f"{value:.4f}" for value in one.accuracies),
                f"{one.difference:+.4f}",
                f"{one.interval.low:+.3f} .. {one.interval.high:+.3f}",
                "" if one.holm is None else f"{one.holm:.3g}",
                f"{one.permutation:.3g}",
                f"{one.mcnemar:.3g}",
                "-" if one.detectable is None else f"{one.detectable:.3f}",
            ]
            for one in [*self.datasets, *([self.together] if self.together else [])]
        ]
        return head, rows

    def __str__(self) -> str:
        return f"{format_columns(*self.table())}\n{self.signature}"


@dataclass(frozen=True, slots=True)
class _Pairs:
    """Right (1) and wrong (0) answers of two runs, and the rows that they belong to."""

    first: list[int]
    second: list[int]
    rows: list[int]


def compare(first: Result, second: Result, seed: str = _SEED) -> Comparison:
    """Compare the accuracies of two results.

    Args:
        first: A result of a benchmark that scores accuracy.
        second: Another, of the same signature.
        seed: Text from which permutations and resamples are drawn.

    Returns:
        The comparison.

    Raises:
        ArgumentError: The results were not asked the same, or have no accuracy to compare. The message names the part
            of the signature that differs.
    """
    different = {
        field: values
        for field, values in first.signature.differences(second.signature).items()
        if field not in _MAY_DIFFER
    }
    if different:
        parts = "; ".join(f"{field}: {a or _NOT_SET} and {b or _NOT_SET}" for field, (a, b) in different.items())
        raise ArgumentError(f"the results were not asked the same, so they cannot be compared in pairs ({parts})")
    found: list[tuple[str, str, _Pairs]] = []
    for name, details in first.details.items():
        others = {record.name: record for record in second.details[name].conditions}
        for record in details.conditions:
            if record.name in details.baselines:
                found.append((name, record.name, _pairs(name, record, others[record.name])))
    if not found:
        raise ArgumentError(f"{first.benchmark} scores no accuracy, so there is nothing to compare in pairs")
    single = [_compare(name, condition, pairs, seed) for name, condition, pairs in found]
    corrected = holm([one.permutation for one in single])
    datasets = tuple(replace(one, holm=value) for one, value in zip(single, corrected, strict=True))
    asked = {condition for _, condition, _ in found}
    together = _together([(name, pairs) for name, _, pairs in found]) if len(first.details) > 1 else None
    whole = _compare("all", asked.pop() if len(asked) == 1 else "all conditions", together, seed) if together else None
    return Comparison(str(first.signature), datasets, whole)


def _pairs(dataset: str, first: ConditionRecord, second: ConditionRecord) -> _Pairs:
    """Give the queries that both answered."""
    if first.truth != second.truth or first.rows != second.rows:
        raise ArgumentError(
            f"{dataset}, {first.name}: the results have other queries although their signatures are equal"
        )
    answered = [
        (int(a == truth), int(b == truth), row)
        for a, b, truth, row in zip(first.predictions, second.predictions, first.truth, first.rows, strict=True)
        if a is not None and b is not None
    ]
    if not answered:
        raise ArgumentError(f"{dataset}, {first.name}: no query was answered by both runs")
    return _Pairs([a for a, _, _ in answered], [b for _, b, _ in answered], [row for _, _, row in answered])


def _together(parts: Sequence[tuple[str, _Pairs]]) -> _Pairs:
    """Join data sets, keeping their rows apart; the conditions of a data set ask the same rows."""
    numbers: dict[tuple[str, int], int] = {}
    rows = [numbers.setdefault((name, row), len(numbers)) for name, pairs in parts for row in pairs.rows]
    return _Pairs([a for _, pairs in parts for a in pairs.first], [b for _, pairs in parts for b in pairs.second], rows)


def _compare(dataset: str, condition: str, pairs: _Pairs, seed: str) -> DatasetComparison:
    queries = len(pairs.rows)
    only_first = sum(a > b for a, b in zip(pairs.first, pairs.second, strict=True))
    only_second = sum(b > a for a, b in zip(pairs.first, pairs.second, strict=True))
    bootstrap = paired_bootstrap(pairs.first, pairs.second, pairs.rows, seed=seed)
    return DatasetComparison(
        dataset,
        condition,
        queries,
        (sum(pairs.first) / queries, sum(pairs.second) / queries),
        (only_first - only_second) / queries,
        bootstrap.interval,
        only_first,
        only_second,
        mcnemar_exact(only_first, only_second).p_value,
        paired_permutation(pairs.first, pairs.second, pairs.rows, seed=seed).p_value,
        None,
        _detectable(len(set(pairs.rows)), (only_first + only_second) / queries),
    )


def _detectable(rows: int, discordant: float) -> float | None:
    """Take test rows as the sample: the repeats of a row are no further evidence of their own."""
    return minimum_detectable_difference(rows, discordant=discordant).difference if discordant else None

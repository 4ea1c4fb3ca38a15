"""What a report is about: saved results by the name of their run, taken apart by benchmark; and what figures read."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from StaICC.errors import ArgumentError
from StaICC.results.details import ConditionRecord, DatasetDetails
from StaICC.results.result import Result, ResultGroup
from StaICC.results.runs import split_runs

__all__ = [
    "Given",
    "Runs",
    "accuracy_of",
    "by_benchmark",
    "dataset_names",
    "figure",
    "labels_of",
    "named",
    "one_run",
    "shares_of",
]

Runs = Mapping[str, Result]
"""Results of one benchmark by the name of their run."""

Given = Result | Mapping[str, Result]
"""What a figure takes: one result, or several by the name of their run."""


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


def one_run(given: Given) -> Result:
    """Return the result that a figure of one run is about.

    Args:
        given: A result, or a mapping with one.

    Raises:
        ArgumentError: There are several, or none.
    """
    if isinstance(given, Result):
        return given
    runs = named(given)
    if len(runs) > 1:
        raise ArgumentError(f"this figure is of one run, and {len(runs)} were given: {', '.join(runs)}; choose one")
    return next(iter(runs.values()))


def by_benchmark(results: Mapping[str, Result | ResultGroup]) -> dict[str, dict[str, Result]]:
    """Take groups apart (see :func:`~StaICC.results.runs.split_runs`).

    Args:
        results: Results, or groups of results, by name.

    Returns:
        For each benchmark, the results by the name of their run.

    Raises:
        ArgumentError: Two results of one benchmark come under one name.
    """
    found: dict[str, dict[str, Result]] = {}
    for name, own in split_runs(results).items():
        for benchmark, result in own.items():
            found.setdefault(benchmark, {})[name] = result
    return found


def dataset_names(runs: Runs) -> list[str]:
    """Return the data sets of all runs, each once.

    Args:
        runs: The runs.
    """
    return list(dict.fromkeys(name for result in runs.values() for name in result.divided))


def figure(values: Mapping[str, Any] | None, *keys: str) -> float | None:
    """Look a single figure up.

    Args:
        values: Scores of a data set, or averages.
        *keys: The way to it.

    Returns:
        The number; ``None`` if it is not there.
    """
    found: Any = values
    for key in keys:
        found = found.get(key) if isinstance(found, Mapping) else None
    return float(found) if isinstance(found, (int, float)) and not isinstance(found, bool) else None


def accuracy_of(record: ConditionRecord) -> float | None:
    """Return the share of a condition's answered queries that were answered right; ``None`` without any.

    Args:
        record: The condition.
    """
    answered = [
        prediction == truth
        for prediction, truth in zip(record.predictions, record.truth, strict=True)
        if prediction is not None
    ]
    return sum(answered) / len(answered) if answered else None


def shares_of(labels: tuple[int, ...], width: int) -> list[float]:
    """Return how often each label occurs, as shares.

    Args:
        labels: Label indexes, one at least.
        width: Size of the label space.
    """
    return [labels.count(label) / len(labels) for label in range(width)]


def labels_of(details: DatasetDetails) -> tuple[str, ...]:
    """Return the names of the labels; their numbers, in results that do not name them.

    Args:
        details: Of a data set.
    """
    if details.labels:
        return details.labels
    seen = [label for record in details.conditions for label in _all_labels(record)]
    return tuple(str(label) for label in range(max(seen, default=-1) + 1))


def _all_labels(record: ConditionRecord) -> Iterator[int]:
    yield from record.truth
    yield from (label for label in record.predictions if label is not None)

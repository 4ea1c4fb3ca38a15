"""The input of a report: results by run name and benchmark, and the values that figures and tables read from them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from StaICC.errors import ArgumentError
from StaICC.metrics.intervals import Interval
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
    "interval_cell",
    "interval_of",
    "labels_of",
    "named",
    "number_cell",
    "one_run",
    "shares_of",
]

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


def one_run(given: Given) -> Result:
    """Return the result of a figure that shows one run.

    Args:
        given: A result, or a mapping with one.

    Raises:
        ArgumentError: There are several, or none.
    """
    if isinstance(given, Result):
        return given
    runs = named(given)
    if len(runs) > 1:
        raise ArgumentError(f"this figure shows one run: got {len(runs)} ({', '.join(runs)}). Choose one")
    return next(iter(runs.values()))


def by_benchmark(results: Mapping[str, Result | ResultGroup]) -> dict[str, dict[str, Result]]:
    """Return the results of each benchmark; groups are split (see :func:`~StaICC.results.runs.split_runs`).

    Args:
        results: Results, or groups of results, by name.

    Returns:
        For each benchmark, the results by the name of their run.

    Raises:
        ArgumentError: A run has two results of one benchmark.
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


def interval_of(result: Result, dataset: str, key: str) -> Interval | None:
    """Return the confidence interval of a score; ``None`` if there is none.

    Args:
        result: The result.
        dataset: Name of the data set.
        key: The score's key in the details of the data set.
    """
    details = result.details.get(dataset)
    return details.intervals.get(key) if details else None


def number_cell(value: float | None) -> str:
    """Return a score as a cell of a table; ``-`` if there is none.

    Args:
        value: The score.
    """
    return "-" if value is None else f"{value:.4f}"


def interval_cell(interval: Interval | None) -> str:
    """Return an interval as a cell of a table; ``-`` if there is none.

    Args:
        interval: The interval.
    """
    return "-" if interval is None else f"{interval.low:.3f} .. {interval.high:.3f}"


def accuracy_of(record: ConditionRecord) -> float | None:
    """Return the accuracy over the queries of a condition that have a prediction; ``None`` if none has.

    Args:
        record: The condition.
    """
    pairs = zip(record.predictions, record.truth, strict=True)
    correct = [prediction == truth for prediction, truth in pairs if prediction is not None]
    return sum(correct) / len(correct) if correct else None


def shares_of(labels: tuple[int, ...], width: int) -> list[float]:
    """Return the relative frequency of each label.

    Args:
        labels: Label indices, at least one.
        width: Size of the label space.
    """
    return [labels.count(label) / len(labels) for label in range(width)]


def labels_of(details: DatasetDetails) -> tuple[str, ...]:
    """Return the label names of a data set; label indices if the result has no names.

    Args:
        details: The details of the data set.
    """
    if details.labels:
        return details.labels
    seen = [label for one in details.conditions for label in (*one.truth, *one.predictions) if label is not None]
    return tuple(str(label) for label in range(max(seen, default=-1) + 1))

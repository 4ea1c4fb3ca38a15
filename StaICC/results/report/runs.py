"""The input of a report: results by run name and benchmark, and the values that figures and tables read from them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

from StaICC.errors import ArgumentError
from StaICC.metrics.intervals import Interval
from StaICC.results.details import Baselines, ConditionRecord, DatasetDetails
from StaICC.results.records import score_records
from StaICC.results.report.html import Missing
from StaICC.results.result import Result


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

"""Details of one data set's scores: counts, prompts, intervals, baselines, notes and one record per query.

They make a score checkable: how many queries were evaluated and failed, the digests of their prompts, why a score is
undefined, and the accuracy of guessing.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from dataclasses import dataclass, field
from types import UnionType
from typing import Any, Union, get_args, get_origin, get_type_hints

from StaICC.datasets.card import plain_values
from StaICC.errors import SchemaError
from StaICC.metrics.classification import ConfidenceBin
from StaICC.metrics.intervals import Interval
from StaICC.results.label_scores import check_scores

__all__ = ["Baselines", "ConditionRecord", "DatasetDetails", "FailedQuery", "MeanDetails", "check_fields"]


@dataclass(frozen=True, slots=True)
class Baselines:
    """Accuracies of predictors without a model, and p-values of the accuracy against them."""

    queries: int
    """Number of queries that the accuracy was measured on."""
    labels: int
    """Size of the label space; 0 for a mean over data sets."""
    uniform: float
    """Expected accuracy of uniform guessing: 1 / labels."""
    majority: float
    """Accuracy of always predicting the most frequent true label of the queries."""
    tried: int
    """Settings of which this is the best (``t`` of Yauney and Mimno 2024)."""
    max_random: float
    """Expected best accuracy of ``tried`` uniform guessers (their Equation 9)."""
    p_value: float
    """Probability that the best of ``tried`` uniform guessers, with a guess for each query, reaches the accuracy."""
    p_value_rows: float | None = None
    """The same for guessers with one guess for each test row, repeated in all its queries; ``None`` in older files."""
    p_value_majority: float | None = None
    """One-sided p-value of the sign test over test rows against always the most frequent true label."""
    last_demonstration: float | None = None
    """Accuracy of always predicting the label of the last demonstration; ``None`` where it is not known."""
    p_value_last_demonstration: float | None = None
    """One-sided p-value of the sign test over test rows against it."""


@dataclass(frozen=True, slots=True)
class MeanDetails:
    """Intervals and baselines of the means over the data sets."""

    intervals: Mapping[str, Interval] = field(default_factory=dict)
    """Confidence intervals by key of the mean."""
    missing: Mapping[str, str] = field(default_factory=dict)
    """Why a mean has no interval, by its key."""
    baselines: Mapping[str, Baselines] = field(default_factory=dict)
    """Baselines of the mean accuracy, by condition."""

    def to_dict(self) -> dict[str, Any]:
        """Return plain JSON values."""
        return {item.name: plain_values(getattr(self, item.name)) for item in dataclasses.fields(self)}

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> MeanDetails:
        """Read what :meth:`to_dict` wrote.

        Raises:
            SchemaError: A field is missing, unknown, or holds a value of another type.
        """
        try:
            details = cls(
                {name: Interval.from_dict(record) for name, record in data["intervals"].items()},
                data["missing"],
                {name: Baselines(**record) for name, record in data["baselines"].items()},
            )
            check_fields(details)
            return details
        except (KeyError, TypeError, AttributeError) as error:
            raise SchemaError(f"the details of the means cannot be read: {error!r}") from error


@dataclass(frozen=True, slots=True)
class FailedQuery:
    """A query without a prediction."""

    condition: str
    query: int
    """Number within the condition."""
    reason: str


@dataclass(frozen=True, slots=True)
class ConditionRecord:
    """One condition: true labels, predictions and label scores of its queries."""

    name: str
    output: str
    """Kind of the predictions: ``"probabilities"``, ``"logits"``, ``"labels"``, ``"ambiguous"`` or ``"none"``."""
    truth: tuple[int, ...]
    """True label index of each query."""
    predictions: tuple[int | None, ...]
    """Predicted label index of each query; ``None`` for a failed query."""
    rows: tuple[int, ...]
    """Test row of each query."""
    calibration: tuple[ConfidenceBin, ...] | None = None
    """Ten bins by confidence, for a reliability diagram; ``None`` if the predictions have no probabilities."""
    scores: str | None = None
    """Label scores of the queries that did not fail, as :mod:`StaICC.results.label_scores` writes them; ``None`` if the
    predictions are labels or texts, and in files of result schema 1."""

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> ConditionRecord:
        """Read plain values."""
        values: dict[str, Any] = {key: tuple(item) if isinstance(item, list) else item for key, item in data.items()}
        if values.get("calibration") is not None:
            values["calibration"] = tuple(ConfidenceBin(*one) for one in values["calibration"])
        return cls(**values)


@dataclass(frozen=True, slots=True)
class DatasetDetails:
    """Everything about the run over one data set, except its scores."""

    asked: int
    """Queries of the benchmark."""
    distinct: int
    """Different (prompt, label space) pairs among them."""
    scored: int
    """Queries that the scores count."""
    failed: int
    """Queries without a prediction."""
    prompts: str
    """Digest of all prompts, in order."""
    query_digests: str
    """The first 32 bits of each prompt's digest, in order, as base64: finds the first query that differs."""
    conditions: tuple[ConditionRecord, ...]
    missing: Mapping[str, str] = field(default_factory=dict)
    """Why a score is undefined, by its key."""
    notes: tuple[str, ...] = ()
    """Warnings of the checks of the predictions."""
    intervals: Mapping[str, Interval] = field(default_factory=dict)
    """Confidence intervals by metric."""
    baselines: Mapping[str, Baselines] = field(default_factory=dict)
    """Accuracy of guessing, by the condition whose accuracy it belongs to."""
    failures: tuple[FailedQuery, ...] = ()
    unparsed: tuple[FailedQuery, ...] = ()
    """Generated replies without a label, with the beginning of each."""
    bounds: Mapping[str, tuple[float | None, ...]] = field(default_factory=dict)
    """Scores that exclude unparsed replies: their values if all of these were wrong, and if all were right."""
    labels: tuple[str, ...] = ()
    """Label names in the order of the label space; empty in older files."""
    data: str | None = None
    """Digest of the test texts, in order, without labels (true labels are in the records); of the whole table where
    queries have no content, of the test file for LongICL. ``None`` in older files."""

    def to_dict(self) -> dict[str, Any]:
        """Return plain JSON values."""
        return {item.name: plain_values(getattr(self, item.name)) for item in dataclasses.fields(self)}

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> DatasetDetails:
        """Read what :meth:`to_dict` wrote.

        Raises:
            SchemaError: A field is missing, unknown, or holds a value of another type.
        """
        try:
            values = {key: data[key] for key in data.keys()}  # noqa: SIM118 (a text or a list has no keys)
            values["conditions"] = tuple(map(ConditionRecord.from_dict, values["conditions"]))
            values["intervals"] = {name: Interval.from_dict(record) for name, record in values["intervals"].items()}
            values["baselines"] = {name: Baselines(**record) for name, record in values["baselines"].items()}
            values["failures"] = tuple(FailedQuery(**record) for record in values["failures"])
            values["unparsed"] = tuple(FailedQuery(**record) for record in values.get("unparsed", ()))
            values["bounds"] = {key: tuple(pair) for key, pair in values.get("bounds", {}).items()}
            values["notes"] = tuple(values["notes"])
            values["labels"] = tuple(values.get("labels", ()))
            details = cls(**values)
            check_fields(details)
            _check_conditions(details)
            return details
        except (KeyError, TypeError, AttributeError) as error:
            raise SchemaError(f"the details of a data set cannot be read: {error!r}") from error


def _check_conditions(details: DatasetDetails) -> None:
    """Raise for a condition whose fields contradict each other."""
    for record in details.conditions:
        if not len(record.truth) == len(record.predictions) == len(record.rows):
            raise SchemaError(f"condition {record.name!r:.60} has truth, predictions and rows of different lengths")
        if details.labels:  # LongICL's have none here, and -1 for a prediction that names no label
            known = {None, *range(len(details.labels))}
            wrong = {*record.truth, *record.predictions} - known
            if wrong:
                raise SchemaError(
                    f"condition {record.name!r:.60} has the label index {next(iter(wrong))}, "
                    f"expected 0 to {len(details.labels) - 1}"
                )
        if record.scores is not None:
            check_scores(record.scores)


def check_fields(record: Any) -> None:
    """Check the types of all fields of a record, and of the records in it.

    Raises:
        SchemaError: A field holds a value of another type.
    """
    for name, hint in get_type_hints(type(record)).items():
        if not _fits(value := getattr(record, name), hint):
            raise SchemaError(f"{type(record).__name__}.{name} must be {hint}, not {value!r:.60}")


def _fits(value: Any, hint: Any) -> bool:
    parts = get_args(hint)
    if get_origin(hint) in (Union, UnionType):
        return any(_fits(value, part) for part in parts)
    if get_origin(hint) is tuple:
        return isinstance(value, tuple) and all(_fits(item, parts[0]) for item in value)
    if get_origin(hint) is Mapping:
        return isinstance(value, Mapping) and all(_fits(item, parts[1]) for item in value.values())
    if hint in (int, float):
        return isinstance(value, (int, hint)) and not isinstance(value, bool)
    if not isinstance(value, hint):
        return False
    if dataclasses.is_dataclass(hint) or hasattr(hint, "_fields"):
        check_fields(value)
    return True

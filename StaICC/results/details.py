"""What stands beside the scores of one data set: counts, intervals, baselines, notes.

These records are what makes a figure checkable: how many queries were asked and answered, which prompts they were,
why a value is missing, what guessing would have scored.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from dataclasses import dataclass, field
from types import UnionType
from typing import Any, Union, get_args, get_origin, get_type_hints

from StaICC.errors import SchemaError
from StaICC.metrics.classification import ConfidenceBin
from StaICC.metrics.intervals import Interval

__all__ = ["Baselines", "ConditionRecord", "DatasetDetails", "FailedQuery"]


@dataclass(frozen=True, slots=True)
class Baselines:
    """What knows nothing would have scored on accuracy, and how surprising the accuracy is under guessing."""

    queries: int
    """Accuracy was measured on so many queries."""
    labels: int
    uniform: float
    """Expected accuracy of uniform guessing: 1 / labels."""
    majority: float
    """Accuracy of always answering the most frequent true label of the asked queries."""
    tried: int
    """Settings of which this is the best (``t`` of Yauney and Mimno 2024)."""
    max_random: float
    """Expected best accuracy of ``tried`` uniform guessers (their Equation 9)."""
    p_value: float
    """Probability that the best of ``tried`` uniform guessers reaches the accuracy."""


@dataclass(frozen=True, slots=True)
class FailedQuery:
    """A query without an answer."""

    condition: str
    query: int
    """Number within the condition."""
    reason: str


@dataclass(frozen=True, slots=True)
class ConditionRecord:
    """One condition: what was asked and which labels came out."""

    name: str
    output: str
    """How the answers were read: ``"probabilities"``, ``"logits"``, ``"labels"``, ``"ambiguous"`` or ``"none"``."""
    truth: tuple[int, ...]
    """True label index of each query."""
    predictions: tuple[int | None, ...]
    """Predicted label index of each query; ``None`` for a query without an answer."""
    rows: tuple[int, ...]
    """Test row of each query."""
    calibration: tuple[ConfidenceBin, ...] | None = None
    """Ten bins by confidence, which is all that a reliability diagram needs; ``None`` where the answers have no
    probabilities."""

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> ConditionRecord:
        """Read plain values."""
        values: dict[str, Any] = {key: tuple(item) if isinstance(item, list) else item for key, item in data.items()}
        if values.get("calibration") is not None:
            values["calibration"] = tuple(ConfidenceBin(*one) for one in values["calibration"])
        return cls(**values)


@dataclass(frozen=True, slots=True)
class DatasetDetails:
    """Everything about one data set's run but the scores."""

    asked: int
    """Queries of the benchmark."""
    distinct: int
    """Different (prompt, label space) pairs among them."""
    scored: int
    """Queries with an answer that counts."""
    failed: int
    """Queries without one."""
    prompts: str
    """Digest of all prompts, in order."""
    query_digests: str
    """The first 32 bits of each prompt's digest, in order, as base64: finds the first query that differs."""
    conditions: tuple[ConditionRecord, ...]
    missing: Mapping[str, str] = field(default_factory=dict)
    """Why a value is missing, by its key."""
    notes: tuple[str, ...] = ()
    """What the audit found."""
    intervals: Mapping[str, Interval] = field(default_factory=dict)
    """Confidence intervals by metric."""
    baselines: Mapping[str, Baselines] = field(default_factory=dict)
    """What knowing nothing would have scored, by the condition whose accuracy it belongs to."""
    failures: tuple[FailedQuery, ...] = ()
    labels: tuple[str, ...] = ()
    """The label space's texts, in order; empty in files that do not say."""

    def to_dict(self) -> dict[str, Any]:
        """Return plain JSON values."""
        return {item.name: _plain(getattr(self, item.name)) for item in dataclasses.fields(self)}

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> DatasetDetails:
        """Read what :meth:`to_dict` wrote.

        Raises:
            SchemaError: A field is missing, unknown, or holds a value of another type.
        """
        try:
            values = dict(data)
            values["conditions"] = tuple(map(ConditionRecord.from_dict, values["conditions"]))
            values["intervals"] = {name: Interval(**record) for name, record in values["intervals"].items()}
            values["baselines"] = {name: Baselines(**record) for name, record in values["baselines"].items()}
            values["failures"] = tuple(FailedQuery(**record) for record in values["failures"])
            values["notes"] = tuple(values["notes"])
            values["labels"] = tuple(values.get("labels", ()))
            details = cls(**values)
            _check_fields(details)
            return details
        except (KeyError, TypeError, AttributeError) as error:
            raise SchemaError(f"the details of a data set cannot be read: {error!r}") from error


def _check_fields(record: Any) -> None:
    """Refuse a record, or one within it, whose fields hold values of other types: a file may hold anything."""
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
        _check_fields(value)
    return True


def _plain(value: Any) -> Any:
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return {item.name: _plain(getattr(value, item.name)) for item in dataclasses.fields(value)}
    if isinstance(value, Mapping):
        return {key: _plain(item) for key, item in value.items()}
    return [_plain(item) for item in value] if isinstance(value, (list, tuple)) else value

"""Details of one data set's scores: counts, prompts, intervals, baselines, notes and one record per query.

They make a score checkable: how many queries were evaluated and failed, the digests of their prompts, why a score is
undefined, and the accuracy of guessing.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from dataclasses import dataclass, field
from types import UnionType
from typing import TYPE_CHECKING, Any, TypeVar, Union, get_args, get_origin, get_type_hints

from StaICC.datasets.card import plain_fields
from StaICC.errors import SchemaError
from StaICC.metrics.classification import ConfidenceBin
from StaICC.metrics.intervals import Interval
from StaICC.results.label_scores import check_scores

if TYPE_CHECKING:
    from typing_extensions import Self


Record = TypeVar("Record")


class SavedRecord:
    """A part of a result that goes to JSON values and back: the base of a dataclass."""

    __slots__ = ()
    _what = ""
    """What it is, for errors."""

    def to_dict(self) -> dict[str, Any]:
        """Return plain JSON values."""
        return plain_fields(self)

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> Self:
        """Read what :meth:`to_dict` wrote: lists become tuples, and mappings the records that the annotations name.

        Raises:
            SchemaError: A field is missing, unknown, or holds a value of another type.
        """
        check_type(cls._what, data, Mapping[str, object])
        missing = [one.name for one in dataclasses.fields(cls) if one.name not in data]  # type: ignore[arg-type]
        if missing:
            raise SchemaError(f"{cls._what} cannot be read: the field {missing[0]!r} is missing")
        try:
            record = read_record(cls, data)
            check_fields(record)
        except (TypeError, AttributeError) as error:
            raise SchemaError(f"{cls._what} cannot be read: {error!r}") from error
        record.check()
        return record

    def check(self) -> None:
        """Raise a SchemaError for fields that contradict each other."""


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
    """The same for guessers with one guess for each test row, repeated in all its queries; ``None`` for LongICL."""
    p_value_majority: float | None = None
    """One-sided p-value of the sign test over test rows against always the most frequent true label."""
    last_demonstration: float | None = None
    """Accuracy of always predicting the label of the last demonstration; ``None`` where it is not known."""
    p_value_last_demonstration: float | None = None
    """One-sided p-value of the sign test over test rows against it."""


@dataclass(frozen=True, slots=True)
class MeanDetails(SavedRecord):
    """Intervals and baselines of the means over the data sets."""

    _what = "the details of the means"

    intervals: Mapping[str, Interval] = field(default_factory=dict)
    """Confidence intervals by key of the mean."""
    missing: Mapping[str, str] = field(default_factory=dict)
    """Why a mean has no interval, by its key."""
    baselines: Mapping[str, Baselines] = field(default_factory=dict)
    """Baselines of the mean accuracy, by condition."""


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
    predictions are labels or texts."""


@dataclass(frozen=True, slots=True)
class DatasetDetails(SavedRecord):
    """Everything about the run over one data set, except its scores."""

    _what = "the details of a data set"

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
    """Label names in the order of the label space; empty for LongICL."""
    data: str | None = None
    """Digest of the test texts, in order, without labels (true labels are in the records); of the whole table where
    queries have no content, of the test file for LongICL."""

    def check(self) -> None:
        """Raise for a condition whose fields contradict each other."""
        for record in self.conditions:
            if not len(record.truth) == len(record.predictions) == len(record.rows):
                raise SchemaError(f"condition {record.name!r:.60} has truth, predictions and rows of different lengths")
            if self.labels:  # LongICL's have none here, and -1 for a prediction that names no label
                known = {None, *range(len(self.labels))}
                wrong = {*record.truth, *record.predictions} - known
                if wrong:
                    raise SchemaError(
                        f"condition {record.name!r:.60} has the label index {next(iter(wrong))}, "
                        f"expected 0 to {len(self.labels) - 1}"
                    )
            if record.scores is not None:
                check_scores(record.scores)


def read_record(kind: type[Record], data: Mapping[str, Any]) -> Record:
    """Return a dataclass of fields that were read from JSON, without a check of their types."""
    hints = get_type_hints(kind)
    return kind(**{key: _read(hints.get(key), value) for key, value in data.items()})


def _read(hint: Any, value: Any) -> Any:
    """Return a plain value as its annotation says; a value that does not fit is refused by :func:`check_fields`."""
    if get_origin(hint) in (Union, UnionType):
        hint = get_args(hint)[0]  # a type or None
    if get_origin(hint) is tuple and isinstance(value, list):
        inner = get_args(hint)[0]
        return tuple(value) if inner in (int, str, int | None) else tuple(_read(inner, item) for item in value)
    if get_origin(hint) is Mapping and isinstance(value, Mapping):
        return {key: _read(get_args(hint)[1], item) for key, item in value.items()}
    if dataclasses.is_dataclass(hint) and value is not None:
        return read_record(hint, value)  # type: ignore[arg-type]
    return hint(*value) if hasattr(hint, "_fields") else value


def check_fields(record: Any) -> None:
    """Check the types of all fields of a record, and of the records in it.

    Raises:
        SchemaError: A field holds a value of another type.
    """
    for name, hint in get_type_hints(type(record)).items():
        check_type(f"{type(record).__name__}.{name}", getattr(record, name), hint)


def check_type(name: str, value: Any, hint: Any) -> None:
    """Check the type of a value, and of what it holds.

    Args:
        name: What the value is, for the error.
        value: The value.
        hint: Its type, as an annotation names it.

    Raises:
        SchemaError: The value has another type.
    """
    if not fits(value, hint):
        raise SchemaError(f"{name} must be {_in_words(hint)}, not {value!r:.60}")


_WORDS = {str: "text", int: "whole number", float: "number"}


def _in_words(hint: Any, several: bool = False) -> str:
    """Return a type in words, as JSON has it: one value, or several."""
    parts = get_args(hint)
    if get_origin(hint) in (Union, UnionType):
        return " or ".join(_in_words(part, several) for part in parts)
    if get_origin(hint) in (tuple, Mapping):
        kind, inner = ("a list", parts[0]) if get_origin(hint) is tuple else ("an object", parts[1])
        return f"{kind.split()[1]}s" if several else f"{kind} of {_in_words(inner, True)}"
    if hint in (bool, type(None)):
        return "true or false" if hint is bool else "null"
    if hint in _WORDS:
        return f"{_WORDS[hint]}s" if several else f"a {_WORDS[hint]}"
    return "values" if hint is object else "records" if several else "a record"


def fits(value: Any, hint: Any) -> bool:
    """Return whether a value has a type, and what it holds, too.

    Args:
        value: The value.
        hint: Its type, as an annotation names it; a list has the type of a tuple.
    """
    parts = get_args(hint)
    if get_origin(hint) in (Union, UnionType):
        return any(fits(value, part) for part in parts)
    if get_origin(hint) is tuple:
        several = isinstance(value, (list, tuple)) and (parts[1] is Ellipsis or len(value) == len(parts))
        return several and all(fits(item, parts[0]) for item in value)
    if get_origin(hint) is Mapping:
        return isinstance(value, Mapping) and all(fits(item, parts[1]) for item in value.values())
    if hint in (int, float):
        return isinstance(value, (int, hint)) and not isinstance(value, bool)
    if not isinstance(value, hint):
        return False
    if dataclasses.is_dataclass(hint) or hasattr(hint, "_fields"):
        check_fields(value)
    return True

"""Details of one data set's scores.

They make a score checkable: how many queries were evaluated and failed, the digests of their prompts, intervals,
baselines, notes, one record per query, why a score is undefined, the accuracy of guessing.
"""

from __future__ import annotations

import base64
import math
import struct
from array import array
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from StaICC.datasets.catalogue import plain_values
from StaICC.errors import SchemaError
from StaICC.metrics.classification import ConfidenceBin, Kind, normalise
from StaICC.metrics.intervals import Interval


class SavedRecord:
    """A part of a result that goes to JSON values and back: the base of a dataclass. A file has all its fields."""

    __slots__ = ()

    def to_dict(self) -> dict[str, Any]:
        """Return plain JSON values."""
        return dict(plain_values(self))

    def check_saved(self, where: str) -> None:
        """Raise a SchemaError for fields that contradict each other."""


@dataclass(frozen=True, slots=True)
class Baselines:
    """Accuracies of predictors without a model, and p-values of the accuracy against them."""

    queries: int
    """Number of queries; one without a prediction counts as wrong in all p-values."""
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
    """One-sided p-value of the paired test over test rows against always the most frequent true label, for the best of
    ``tried`` independent tries."""
    last_demonstration: float | None = None
    """Accuracy of always predicting the label of the last demonstration; ``None`` where it is not known."""
    p_value_last_demonstration: float | None = None
    """One-sided p-value of the paired test over test rows against it, for the best of ``tried`` independent tries."""


@dataclass(frozen=True, slots=True)
class MeanDetails(SavedRecord):
    """Intervals and baselines of the means over the data sets."""

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
    """Label scores of the queries that did not fail, as :func:`pack_scores` writes them; ``None`` if the
    predictions are labels or texts."""

    def label_scores(self, labels: int) -> list[list[float] | None]:
        """Return the label scores of each query; ``None`` for queries without them.

        Args:
            labels: How many labels there are.

        Raises:
            SchemaError: The scores are damaged, or of another number of queries.
        """
        if self.scores is None:
            return [None] * len(self.predictions)
        rows = unpack_scores(self.scores, labels)
        predicted = len(self.predictions) - self.predictions.count(None)
        if len(rows) != predicted:
            raise SchemaError(f"the file has label scores of {len(rows)} queries, and predictions of {predicted}")
        following = iter(rows)
        return [None if label is None else next(following) for label in self.predictions]

    def probabilities(self, labels: int) -> list[list[float] | None]:
        """Return the label scores of each query as the metrics read them: probabilities with the sum 1.

        Args:
            labels: How many labels there are.

        Returns:
            ``None`` for queries without scores, and for all if the scores may be probabilities or logits.
        """
        scores = self.label_scores(labels)
        if self.output not in ("probabilities", "logits"):
            return [None] * len(scores)
        kind: Kind = "logits" if self.output == "logits" else "probabilities"
        read = iter(normalise([row for row in scores if row is not None], kind).probabilities or ())
        return [None if row is None else list(next(read)) for row in scores]


@dataclass(frozen=True, slots=True)
class QueryScores:
    """The score of each query of a metric of the user's own, which is their mean: comparisons read them."""

    low: float
    """The lowest possible score."""
    high: float
    """The highest possible score."""
    values: Mapping[str, Mapping[str, tuple[float | None, ...] | None]]
    """By data set and condition; ``None`` for a query that no score counts, and for an undefined metric."""


QueryPosition = tuple[int, int]
"""Test row, and place among the queries of this row."""


def query_positions(rows: Sequence[int]) -> list[QueryPosition]:
    """Return for each query its test row, and its place among the queries of this row.

    Args:
        rows: The test row of each query.
    """
    seen: Counter[int] = Counter()
    keys = []
    for row in rows:
        keys.append((row, seen[row]))
        seen[row] += 1
    return keys


@dataclass(frozen=True, slots=True)
class DatasetDetails(SavedRecord):
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
    """Label names in the order of the label space; empty for LongICL."""
    label_mass: Mapping[str, float] = field(default_factory=dict)
    """Mean total probability of the labels, by condition; only where the predictions record it."""
    dropped: Mapping[str, tuple[int, int]] = field(default_factory=dict)
    """By condition, how many prompts were longer than the model reads and lost demonstrations, and how many
    demonstrations they lost together; only where there are any."""
    data: str | None = None
    """Digest of the test texts, in order, without labels (true labels are in the records); of the whole table where
    queries have no content, of the test file for LongICL."""

    def check_saved(self, where: str) -> None:
        """Raise a SchemaError for a condition whose fields contradict each other."""
        for record in self.conditions:
            name = f"{where}, condition {record.name!r:.60}"
            if not len(record.truth) == len(record.predictions) == len(record.rows):
                raise SchemaError(f"{name} has truth, predictions and rows of different lengths")
            wrong = {*record.truth, *record.predictions} - {None, *range(len(self.labels))}
            if wrong and self.labels:  # LongICL's have none here, and -1 for a prediction that names no label
                raise SchemaError(f"{name} has the label index {wrong.pop()}, expected 0 to {len(self.labels) - 1}")
            if record.scores is not None:
                _numbers(record.scores)
        self._check_recorded(where)

    def _check_recorded(self, where: str) -> None:
        """Raise a SchemaError for a label mass that is no probability, and for impossible counts of dropped ones."""
        names = {record.name for record in self.conditions}
        for name in {*self.label_mass, *self.dropped}:
            if names and name not in names:  # LongICL's sets with several labels have no records
                raise SchemaError(f"{where} has facts of the condition {name!r:.60}, which it does not have")
        for name, mass in self.label_mass.items():
            if not 0 <= mass <= 1:
                raise SchemaError(f"{where}, condition {name!r:.60} has the label mass {mass!r}, expected 0 to 1")
        for name, (prompts, demonstrations) in self.dropped.items():
            if not 1 <= prompts <= min(demonstrations, self.asked):
                raise SchemaError(
                    f"{where}, condition {name!r:.60}: {prompts} prompts lost {demonstrations} demonstrations, "
                    f"expected at most {self.asked} prompts, and at least one demonstration for each"
                )


@dataclass(frozen=True, slots=True)
class EarlyStopping(SavedRecord):
    """The outcome of a run with ``precision``, or of a race between two models.

    A run that stopped early is never confused with a full one: its signature has the field ``stopping``, its table
    begins with a remark, and ``compare`` refuses it.
    """

    rule: str
    """``"precision"``: until the interval of the score is narrow; ``"race"``: until the better model is known, or
    the difference is known to be below a margin."""
    score: str
    """The score, a mean over data sets of means over test rows. In a race its difference, first minus second model."""
    target: float
    """The precision (half the width of the interval), or the margin."""
    estimate: float
    """The score of the evaluated rows, or its difference."""
    interval: Interval
    """Of the score that the full benchmark would give; it is valid whenever the run stops."""
    rounds: int
    """Rounds that were evaluated; a round is one test row of each data set that has rows left, with all its repeats."""
    all_rounds: int
    """Rounds of the full benchmark."""
    queries: int
    """Queries that were evaluated, of each model."""
    all_queries: int
    """Queries of the full benchmark."""
    reason: str
    """Why the run stopped."""

    @property
    def saved(self) -> float:
        """The share of the queries of the full benchmark that were not evaluated."""
        return 1 - self.queries / max(self.all_queries, 1)

    @property
    def settings(self) -> str:
        """The field ``stopping`` of the signature."""
        target = "precision" if self.rule == "precision" else "race with margin"
        return (
            f"{target} {self.target!r} of {self.score} at level {self.interval.level!r} ({self.interval.method}): "
            f"{self.rounds} of {self.all_rounds} rounds"
        )

    def __str__(self) -> str:
        what, sign = self.score, ""
        if self.rule == "race":
            what, sign = f"the difference of {self.score}, first minus second,", "+"
        return (
            f"EARLY STOPPING: {self.reason}. On the evaluated rows {what} is {self.estimate:{sign}.4f}. "
            "For the full benchmark the "
            f"{100 * self.interval.level:g} % interval, valid at any stopping time, is {self.interval.low:{sign}.4f} "
            f".. {self.interval.high:{sign}.4f}. {self.queries} of {self.all_queries} queries were evaluated "
            f"({100 * self.saved:.0f} % saved). Other scores have no valid interval. Do not compare this result with "
            "full runs."
        )

    def check_saved(self, where: str) -> None:
        """Raise a SchemaError for another rule, and for a wrong number of rounds."""
        if self.rule not in ("precision", "race") or not 0 < self.rounds <= self.all_rounds:
            raise SchemaError(
                f"{where}: got {self.rule!r:.40} with {self.rounds} of {self.all_rounds} "
                "rounds, expected 'precision' or 'race' and at least 1 round"
            )


# -- label scores: one line of text, ``f8:`` or ``f4:``, then base64 of the little-endian numbers, row by row. ``f4``
# (single precision) is used where no number loses a bit by it. The text is not compressed: scores hardly compress, and
# compressors of different versions write different bytes.

_SCORE_TYPES = {"f4": "f", "f8": "d"}


def pack_scores(rows: Sequence[Sequence[float]]) -> str:
    """Write label scores as text.

    Args:
        rows: One row for each query with an answer, one number for each label; a logit may be minus infinity.

    Returns:
        The text; :func:`unpack_scores` gives the same numbers back, bit for bit.

    Example:
        >>> pack_scores([[0.5, 0.25]])
        'f4:AAAAPwAAgD4='
    """
    double = array("d", [value for row in rows for value in row])
    kind = "f4" if array("d", array("f", double)) == double else "f8"
    numbers = struct.pack(f"<{len(double)}{_SCORE_TYPES[kind]}", *double)
    return f"{kind}:{base64.b64encode(numbers).decode('ascii')}"


def _numbers(text: str) -> tuple[float, ...]:
    kind, colon, coded = text.partition(":")
    if not colon or kind not in _SCORE_TYPES:
        raise SchemaError(f"label scores start with 'f4:' or 'f8:', not {text[:8]!r}")
    try:
        data = base64.b64decode(coded.encode("ascii"), validate=True)
        numbers: tuple[float, ...] = struct.unpack(f"<{len(data) // int(kind[1])}{_SCORE_TYPES[kind]}", data)
    except (struct.error, ValueError) as error:
        raise SchemaError(f"label scores cannot be decoded ({error})") from error
    if not all(number < math.inf for number in numbers):
        raise SchemaError("label scores must be finite numbers or minus infinity")
    return numbers


def unpack_scores(text: str, labels: int) -> list[list[float]]:
    """Read what :func:`pack_scores` wrote.

    Args:
        text: The text.
        labels: How many labels there are.

    Returns:
        One row for each query with an answer.

    Raises:
        SchemaError: The text has another form, or its numbers do not fill rows of this length.

    Example:
        >>> unpack_scores("f4:AAAAPwAAgD4=", 2)
        [[0.5, 0.25]]
    """
    numbers = _numbers(text)
    if labels < 1 or len(numbers) % labels:
        raise SchemaError(f"there are {len(numbers)} label scores, which do not fill rows of {labels} labels")
    return [list(numbers[start : start + labels]) for start in range(0, len(numbers), labels)]

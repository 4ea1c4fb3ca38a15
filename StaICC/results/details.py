"""Details of one data set's scores.

They make a score checkable: how many queries were evaluated and failed, the digests of their prompts, intervals,
baselines, notes, one record per query, why a score is undefined, the accuracy of guessing.
"""

from __future__ import annotations

import base64
import math
import struct
from array import array
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from StaICC.datasets.catalogue import plain_values
from StaICC.errors import SchemaError
from StaICC.files.json_reading import LEFT_OUT_IF_NONE
from StaICC.metrics.classification import ConfidenceBin, Kind, normalise
from StaICC.metrics.intervals import Interval


class SavedRecord:
    """A part of a result that goes to JSON values and back: the base of a dataclass. A file has all its fields."""

    __slots__ = ()

    def to_dict(self) -> dict[str, Any]:
        """Return plain JSON values."""
        return dict(plain_values(self))

    def check_saved(self, where: str) -> None:
        """Raise a SchemaError if fields of the saved record contradict each other.

        Args:
            where: Where the record is in the file, for the message.
        """


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
    ``tried`` independent tries; ``None`` if the test rows are in too few clusters."""
    last_demonstration: float | None = None
    """Accuracy of always predicting the label of the last demonstration; ``None`` where it is not known."""
    p_value_last_demonstration: float | None = None
    """One-sided p-value of the paired test over test rows against it, for the best of ``tried`` independent tries;
    ``None`` if the test rows are in too few clusters, or if the baseline is not known."""


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
    """Name of its condition."""
    query: int
    """Number within the condition."""
    reason: str
    """The error, or the beginning of a reply without a label."""


@dataclass(frozen=True, slots=True)
class ConditionRecord:
    """One condition: true labels, predictions and label scores of its queries."""

    name: str
    """Name of the condition, such as ``"normal"``."""
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
        return _rows_by_query(rows, [prediction is not None for prediction in self.predictions])

    def probabilities(self, labels: int) -> list[list[float] | None]:
        """Return the label scores of each query as the metrics read them: probabilities with the sum 1.

        Args:
            labels: How many labels there are.

        Returns:
            ``None`` for queries without scores, and for all if the scores may be probabilities or logits.
        """
        scores_by_query = self.label_scores(labels)
        kind: Kind
        if self.output == "probabilities":
            kind = "probabilities"
        elif self.output == "logits":
            kind = "logits"
        else:
            return [None] * len(scores_by_query)
        known_scores = [scores for scores in scores_by_query if scores is not None]
        probabilities = normalise(known_scores, kind).probabilities
        assert probabilities is not None  # only a kind that is not stated can be ambiguous
        return _rows_by_query(map(list, probabilities), [scores is not None for scores in scores_by_query])


def _rows_by_query(rows: Iterable[list[float]], has_row: Sequence[bool]) -> list[list[float] | None]:
    """Return the row of each query, ``None`` for queries without one.

    Args:
        rows: The rows of the queries that have one, in order.
        has_row: For each query, whether it has a row.

    Example:
        >>> _rows_by_query([[0.5], [0.25]], [True, False, True])
        [[0.5], None, [0.25]]
    """
    rows_by_query: list[list[float] | None] = [None] * len(has_row)
    queries_with_row = [query for query, query_has_row in enumerate(has_row) if query_has_row]
    for query, row in zip(queries_with_row, rows, strict=True):
        rows_by_query[query] = row
    return rows_by_query


@dataclass(frozen=True, slots=True)
class QueryScores:
    """The score of each query of a metric that is not of this library, and is their mean: comparisons read them."""

    low: float | None
    """The lowest possible score; ``None`` if the range is not known, as of some metrics of other harnesses."""
    high: float | None
    """The highest possible score; ``None`` if the range is not known."""
    values: Mapping[str, Mapping[str, tuple[float | None, ...] | None]]
    """By data set and condition; ``None`` for a query that no score counts, and for an undefined metric."""


SAMPLES = "samples"
"""The condition under which the query scores of logged samples are saved: logs have no other conditions."""


@dataclass(frozen=True, slots=True)
class LoggedSamples(SavedRecord):
    """The samples of one task that another harness ran and logged. Their scores are :class:`QueryScores`.

    The lists have one item for each sample, in one order.
    """

    documents: tuple[str, ...]
    """Id of the document, which is the test row."""
    repeats: tuple[int, ...]
    """Number of the repeat (epoch, trial) of the document, from 0."""
    digests: tuple[str | None, ...]
    """Digest of document and target; ``None`` if the log does not have them."""
    task_version: str | None
    """Version of the task; ``None`` if the log does not say."""

    def check_saved(self, where: str) -> None:
        """Raise a SchemaError for lists of different lengths, and for a sample that is listed twice."""
        if not len(self.documents) == len(self.repeats) == len(self.digests):
            raise SchemaError(f"{where} has documents, repeats and digests of different lengths")
        positions = set(zip(self.documents, self.repeats, strict=True))
        if len(positions) < len(self.documents):
            raise SchemaError(f"{where} has a document twice with the same repeat")


QueryPosition = tuple[int, int]
"""Test row, and place among the queries of this row."""


def query_positions(rows: Sequence[int]) -> list[QueryPosition]:
    """Return for each query its test row, and its place among the queries of this row.

    Args:
        rows: The test row of each query.
    """
    count_of_row: dict[int, int] = {}
    positions = []
    for row in rows:
        earlier_queries = count_of_row.get(row, 0)
        positions.append((row, earlier_queries))
        count_of_row[row] = earlier_queries + 1
    return positions


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
    """True labels, predictions and label scores by condition; empty for LongICL's data sets with several labels, whose
    labels are among the scores (``rounds``, by round, ``items``)."""
    missing: Mapping[str, str] = field(default_factory=dict)
    """Why a score is undefined, by its key."""
    notes: tuple[str, ...] = ()
    """Warnings of the checks of the predictions."""
    intervals: Mapping[str, Interval] = field(default_factory=dict)
    """Confidence intervals by metric."""
    baselines: Mapping[str, Baselines] = field(default_factory=dict)
    """Accuracy of guessing, by the condition whose accuracy it belongs to."""
    failures: tuple[FailedQuery, ...] = ()
    """Queries without a prediction, with the reason of each."""
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
    clusters: tuple[int, ...] | None = field(default=None, metadata=LEFT_OUT_IF_NONE)
    """Number of the cluster of each test row, where rows are not independent: rows with the same number share a
    document, a topic or a duplicate. Without it, rows are assumed to be independent."""
    subgroups: Mapping[str, tuple[str, ...]] | None = field(default=None, metadata=LEFT_OUT_IF_NONE)
    """For each column of subgroups of a user's data set the subgroup of each test row: comparisons divide the rows."""

    @property
    def dropped_demonstrations(self) -> int:
        """Number of demonstrations that the prompts of all conditions lost because they were too long."""
        return sum(demonstrations for _, demonstrations in self.dropped.values())

    def check_saved(self, where: str) -> None:
        """Raise a SchemaError for a condition whose fields contradict each other."""
        for record in self.conditions:
            where_of_condition = f"{where}, condition {record.name!r:.60}"
            self._check_condition(record, where_of_condition)
            self._check_clusters(record, where_of_condition)
            self._check_subgroups(record, where_of_condition)
        self._check_condition_names(where)
        self._check_label_mass(where)
        self._check_dropped(where)

    def _check_condition(self, record: ConditionRecord, where: str) -> None:
        """Raise a SchemaError for lists of different lengths, for unknown labels, and for damaged label scores."""
        if not len(record.truth) == len(record.predictions) == len(record.rows):
            raise SchemaError(f"{where} has truth, predictions and rows of different lengths")
        # LongICL has no label names here, and the prediction -1 for a reply that names no label.
        if self.labels:
            known_labels = {None, *range(len(self.labels))}
            unknown_labels = {*record.truth, *record.predictions} - known_labels
            if unknown_labels:
                label = unknown_labels.pop()
                raise SchemaError(f"{where} has the label index {label}, expected 0 to {len(self.labels) - 1}")
        if record.scores is not None:
            _numbers(record.scores)

    def _check_subgroups(self, record: ConditionRecord, where: str) -> None:
        """Raise a SchemaError if a column of subgroups is too short for the test rows of a condition.

        A column, such as "language", has the subgroup of each test row in the order of the rows.

        Args:
            record: The condition, with the number of the test row of each query.
            where: The condition in messages.
        """
        if self.subgroups is None:
            return
        for name, groups in self.subgroups.items():
            for row in record.rows:
                if not 0 <= row < len(groups):
                    raise SchemaError(
                        f"{where} has the test row {row}, but there are subgroups {name!r:.60} of {len(groups)} rows"
                    )

    def _check_clusters(self, record: ConditionRecord, where: str) -> None:
        """Raise a SchemaError for a test row that has no cluster, in a data set whose rows have clusters."""
        if self.clusters is None:
            return
        for row in record.rows:
            if not 0 <= row < len(self.clusters):
                raise SchemaError(
                    f"{where} has the test row {row}, but there are clusters of {len(self.clusters)} rows"
                )

    def _check_condition_names(self, where: str) -> None:
        """Raise a SchemaError for facts about a condition that the data set does not have."""
        names = {record.name for record in self.conditions}
        if not names:  # the data sets of LongICL with several labels have no records
            return
        for name in (*self.label_mass, *self.dropped):
            if name not in names:
                raise SchemaError(f"{where} has facts of the condition {name!r:.60}, which it does not have")

    def _check_label_mass(self, where: str) -> None:
        """Raise a SchemaError for a label mass that is no probability."""
        for name, mass in self.label_mass.items():
            if not 0 <= mass <= 1:
                raise SchemaError(f"{where}, condition {name!r:.60} has the label mass {mass!r}, expected 0 to 1")

    def _check_dropped(self, where: str) -> None:
        """Raise a SchemaError for impossible counts of prompts that lost demonstrations."""
        for name, (prompts, demonstrations) in self.dropped.items():
            if prompts < 1 or prompts > self.asked or demonstrations < prompts:
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
    the models are known to be equivalent within a margin."""
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
        if self.rule == "precision":
            target_name = "precision"
        else:
            target_name = "race with margin"
        return (
            f"{target_name} {self.target!r} of {self.score} at level {self.interval.level!r} ({self.interval.method}): "
            f"{self.rounds} of {self.all_rounds} rounds"
        )

    def __str__(self) -> str:
        """Return why the run stopped, its estimate with the interval, and how many queries were saved, as sentences."""
        if self.rule == "race":
            estimated = f"the difference of {self.score}, first minus second,"
            number_format = "+.4f"
        else:
            estimated = self.score
            number_format = ".4f"
        estimate = format(self.estimate, number_format)
        low = format(self.interval.low, number_format)
        high = format(self.interval.high, number_format)
        return (
            f"EARLY STOPPING: {self.reason}. On the evaluated rows {estimated} is {estimate}. For the full benchmark "
            f"the {100 * self.interval.level:g} % interval, valid at any stopping time, is {low} .. {high}. "
            f"{self.queries} of {self.all_queries} queries were evaluated ({100 * self.saved:.0f} % saved). Other "
            "scores have no valid interval. Do not compare this result with full runs."
        )

    def check_saved(self, where: str) -> None:
        """Check the values that a file has.

        Raises:
            SchemaError: The rule is unknown, or the number of rounds is not from 1 to that of all rounds.
        """
        is_known_rule = self.rule in ("precision", "race")
        is_possible_round = 1 <= self.rounds <= self.all_rounds
        if not is_known_rule or not is_possible_round:
            raise SchemaError(
                f"{where}: got {self.rule!r:.40} with {self.rounds} of {self.all_rounds} "
                "rounds, expected 'precision' or 'race' and at least 1 round"
            )


# -- label scores: one line of text, ``f8:`` or ``f4:``, then base64 of the little-endian numbers, row by row. ``f4``
# (single precision) is used where no number loses a bit by it. The text is not compressed: scores hardly compress, and
# compressors of different versions write different bytes.

_NUMBER_CODES = {"f4": "f", "f8": "d"}
"""The code of :mod:`struct` for each kind of number; the digit of a kind is its size in bytes."""


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
    numbers = array("d")
    for row in rows:
        numbers.extend(row)
    # Single precision takes half the space. It is used if no number changes by it.
    in_single_precision = array("f", numbers)
    is_lossless = array("d", in_single_precision) == numbers
    kind = "f4" if is_lossless else "f8"
    data = struct.pack(f"<{len(numbers)}{_NUMBER_CODES[kind]}", *numbers)
    return f"{kind}:{base64.b64encode(data).decode('ascii')}"


def _numbers(text: str) -> tuple[float, ...]:
    """Return the numbers of packed label scores, those of all rows in one tuple.

    Args:
        text: What :func:`pack_scores` returned.

    Raises:
        SchemaError: The text has another form, or a number is not finite and not minus infinity.
    """
    kind, colon, coded = text.partition(":")
    if not colon or kind not in _NUMBER_CODES:
        raise SchemaError(f"label scores start with 'f4:' or 'f8:', not {text[:8]!r}")
    number_size = int(kind[1])
    try:
        data = base64.b64decode(coded.encode("ascii"), validate=True)
        count = len(data) // number_size
        numbers: tuple[float, ...] = struct.unpack(f"<{count}{_NUMBER_CODES[kind]}", data)
    except (struct.error, ValueError) as error:
        raise SchemaError(f"label scores cannot be decoded ({error})") from error
    are_finite = all(map(math.isfinite, numbers))
    if not are_finite and not all(number < math.inf for number in numbers):
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
    if labels < 1 or len(numbers) % labels != 0:
        raise SchemaError(f"there are {len(numbers)} label scores, which do not fill rows of {labels} labels")
    rows = []
    for start in range(0, len(numbers), labels):
        rows.append(list(numbers[start : start + labels]))
    return rows


def name_without_no_filter(metric: str) -> str:
    """Return the name of a metric as results of logs have it: ``acc`` of ``acc,none``, which lm_eval writes."""
    return metric.removesuffix(",none")

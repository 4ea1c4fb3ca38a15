"""The records of one run on one data set, as a paired test needs them."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, NamedTuple

from StaICC import benchmark_names
from StaICC.comparing.comparable_scores import saved_value
from StaICC.errors import StaICCError
from StaICC.metrics.diagnosis import noisy_label_shares
from StaICC.metrics.scores import score_of_condition
from StaICC.metrics.statistics import Statistic, lacks_score
from StaICC.results.details import (
    SAMPLES,
    ConditionRecord,
    DatasetDetails,
    LoggedSamples,
    QueryPosition,
    QueryScores,
    query_positions,
)
from StaICC.results.result import Result
from StaICC.results.score_names import column_head

_MOST_LABELS_OF_A_REPLY = 100.0
"""Labels that one reply can name, where the result does not say how many: the default limit of its tokens."""


class NotComparableError(StaICCError):
    """A data set cannot be compared, for the reason in the message."""


class RecordedQuery(NamedTuple):
    """The true label and the prediction of one query."""

    truth: int | None
    """Index of the true label. For several labels per item, the number of true labels; ``None`` if the query failed."""
    prediction: Any
    """The prediction in the form that the metric reads: a label index, a list of probabilities, or a score. For micro
    F1, it is a pair: the number of correct labels, and the number of true and predicted labels together. ``None`` if
    the query is missing."""


Queries = Mapping[QueryPosition, RecordedQuery]
"""The queries of one condition, by test row and number among the queries of this row."""


@dataclass(frozen=True, slots=True)
class LabelLimits:
    """The largest possible numbers of labels of a query. The test of a micro F1 needs them."""

    true: float
    """Largest number of true labels."""
    predicted: float
    """Largest number of predicted labels."""


@dataclass(frozen=True)
class RunRecords:
    """The records of one run on one data set."""

    conditions: Mapping[str, Queries]
    """The queries of each condition."""
    labels: tuple[str, ...]
    """The label names, in the order of the label indexes."""
    weights: tuple[float, ...]
    """Weight of each condition in the score."""
    data_digest: str | None
    """Digest of the test texts; ``None`` if the file has none."""
    pooled: bool = False
    """Whether the queries of all conditions have one score together; else the score is the weighted sum over the
    conditions."""
    label_limits: LabelLimits | None = None
    """The largest numbers of labels of a query if the score is a micro F1; ``None`` for other scores."""
    clusters: tuple[int, ...] | None = None
    """The number of the cluster of each test row; ``None`` if rows are independent."""
    subgroups: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    """For each column of subgroups the subgroup of each test row."""
    samples: LoggedSamples | None = None
    """The samples of a run that was read from the logs of another harness; ``None`` for a run of this library."""

    @property
    def queries(self) -> int:
        """Number of queries of all conditions."""
        return sum(len(queries) for queries in self.conditions.values())

    @cached_property
    def truth_by_row(self) -> dict[str, dict[int, int | None]]:
        """The true label of each test row, by condition: all queries of a row have the same one.

        It is ``None`` if no query of the row has a known true label.
        """
        truth_by_row = {}
        for condition, queries in self.conditions.items():
            truth_of_row: dict[int, int | None] = {}
            for (row, _), query in queries.items():
                if truth_of_row.get(row) is None:
                    truth_of_row[row] = query.truth
            truth_by_row[condition] = truth_of_row
        return truth_by_row


def read_records(result: Result, dataset: str, metric: str, statistic: Statistic) -> RunRecords:
    """Return the recorded queries of a run on one data set, with the true label and the prediction that a metric reads.

    Args:
        result: The run.
        dataset: The data set.
        metric: Name of the score.
        statistic: The definition of the score, which says what it reads of a prediction.

    Raises:
        NotComparableError: The run has no such data set or no records of it, or the metric is undefined there.
    """
    details = result.details.get(dataset)
    scores = result.divided.get(dataset)
    if details is None or scores is None:
        raise NotComparableError("not in this run")

    has_rounds = benchmark_names.has_long_contexts(result.benchmark)
    if has_rounds:
        records = _read_rounds(details, scores, metric)
    elif dataset in result.samples:
        if metric not in scores:
            raise NotComparableError(_reason_for_missing_in_log(details, metric))
        records = _read_samples(result, dataset, metric)
    else:
        records = _read_conditions(result, dataset, metric, statistic)

    if saved_value(scores, metric) is None:
        # The score is undefined. The data set is compared nevertheless if the reason is that queries are missing: the
        # score of a round is undefined with a single failed query, other scores without any query that has a score.
        queries_are_missing = (has_rounds and details.failed > 0) or _lacks_queries(records, statistic)
        if not queries_are_missing:
            raise NotComparableError(_reason_for_missing(details, metric))
    return records


def _reason_for_missing_in_log(details: DatasetDetails, metric: str) -> str:
    """Return why the log of a task has no metric: the note about this metric, if there is one."""
    for note in details.notes:
        if note.startswith(f"{metric} "):
            return note
    return f"the task has no {metric}"


def _reason_for_missing(details: DatasetDetails, metric: str) -> str:
    """Return why a metric is undefined on a data set: its own reason, else the first note of the run."""
    for key in (metric, f"sensitivity.{metric}"):
        if details.missing.get(key):
            return details.missing[key]
    if details.notes and details.notes[0]:
        return details.notes[0]
    return f"the run has no {column_head(metric)} here"


# -- benchmarks of classification


def _read_conditions(result: Result, dataset: str, metric: str, statistic: Statistic) -> RunRecords:
    """Return the queries of a benchmark of classification, by condition.

    Most metrics are about all conditions. A score such as ``names.accuracy`` is about one: the accuracy in ``names``.

    Args:
        result: The run.
        dataset: The data set.
        metric: Name of the score.
        statistic: The definition of the score, which says what it reads of a prediction.

    Raises:
        NotComparableError: The file has no records of these queries.
    """
    details = result.details[dataset]
    if not details.conditions:
        raise NotComparableError("the file has no records of its queries")
    of_condition = score_of_condition(metric)
    conditions: dict[str, Queries] = {}
    for record in details.conditions:
        if of_condition is not None and record.name != of_condition.condition:
            continue
        predictions = _predictions_for(metric, statistic, result, dataset, record)
        conditions[record.name] = _by_position(record.rows, record.truth, predictions)
    if not conditions:
        raise NotComparableError(f"the run has no condition that {metric} is about")
    return RunRecords(
        conditions,
        labels=details.labels,
        weights=_condition_weights(result, len(conditions)),
        data_digest=details.data,
        pooled=result.benchmark == benchmark_names.GENERALISATION,
        clusters=details.clusters,
        subgroups=details.subgroups or {},
    )


def _by_position(rows: Sequence[int], truth: Sequence[int | None], predictions: Sequence[Any]) -> Queries:
    """Return the queries of a condition by position: the test row, and the number of the query of this row, from 0.

    Args:
        rows: The test row of each query.
        truth: The true label of each query.
        predictions: The prediction of each query, as the metric reads it.
    """
    queries = {}
    for position, label, prediction in zip(query_positions(rows), truth, predictions, strict=True):
        queries[position] = RecordedQuery(label, prediction)
    return queries


def _condition_weights(result: Result, count: int) -> tuple[float, ...]:
    """Return the weight of each condition: the score of a data set is the weighted sum of the scores of its conditions.

    In most benchmarks it is their mean, so each weight is 1 / count. For label noise (``GLER``) it is the slope of the
    regression line through the points (x, score), where x is the share of correct labels in a condition. With the mean
    m of the x, the weight of a condition is::

        (x - m) / sum((x - m) ** 2)

    Args:
        result: The run.
        count: Number of conditions.
    """
    if result.benchmark != benchmark_names.GLER:
        return (1.0 / count,) * count
    k = str(result.setting("k"))
    if not k.isdecimal() or count < 2:
        raise NotComparableError(f"the run has no single k ({k}), so the slope has no abscissas")
    shares = noisy_label_shares(int(k), count)
    mean_share = sum(shares) / len(shares)
    squares = sum((share - mean_share) ** 2 for share in shares)
    if squares == 0.0:
        raise NotComparableError("without demonstrations, labels cannot be wrong")
    return tuple((share - mean_share) / squares for share in shares)


def _predictions_for(
    metric: str, statistic: Statistic, result: Result, dataset: str, record: ConditionRecord
) -> list[Any]:
    """Return the predictions of the queries of a condition, in the form that a metric reads.

    A metric of the library reads the predicted label of each query, or its distribution over the labels. A metric of
    the user's own is a function that the file does not have, so the score of each query was saved in place of what it
    reads.

    Args:
        metric: Name of the metric.
        statistic: The definition of the metric.
        result: The run.
        dataset: The data set.
        record: The saved queries of the condition.

    Returns:
        One prediction, or one saved score, for each query; ``None`` for a query that failed, or whose reply was left
        out.

    Raises:
        NotComparableError: The file does not have these predictions, or has impossible ones.
    """
    saved_scores = result.query_scores.get(metric)  # None: a metric of the library
    scores_of_condition = _saved_query_scores(saved_scores, dataset, record.name)
    if not scores_of_condition and _has_no_prediction(result, dataset, record):
        # All queries failed, so that nothing was saved for the metric: this is no error of the file.
        return [None] * len(record.predictions)
    if saved_scores is None:
        return _predictions_for_statistic(statistic, result, dataset, record)
    # The check also refuses a file that lacks the scores of the condition.
    _check_query_scores(metric, saved_scores, scores_of_condition, expected_count=len(record.truth))
    return scores_of_condition


def _predictions_for_statistic(
    statistic: Statistic, result: Result, dataset: str, record: ConditionRecord
) -> list[Any]:
    """Return the labels or distributions that a metric of the library reads of the queries of a condition.

    A metric of distributions reads a bare label as the distribution in which it has probability 1. Replies without a
    label that count as wrong (``unparsed="wrong"``) get a wrong label. Which one does not matter: it is the label after
    the true one.

    Returns:
        A label index or a distribution for each query; ``None`` for a query without a prediction.

    Raises:
        NotComparableError: The metric needs distributions, and the file has none.
    """
    label_count = _label_count(result.details[dataset].labels, record)
    predictions: list[Any]
    if statistic.reads == "labels":
        predictions = list(record.predictions)
    elif statistic.reads == "distributions" and record.output == "labels":
        predictions = [_certain_or_none(label, label_count) for label in record.predictions]
    else:
        predictions = _saved_probabilities(record, label_count)

    if not statistic.of_classification:
        return predictions
    for condition, query_index in result.counted_wrong(dataset):
        if condition != record.name:
            continue
        wrong_label = (record.truth[query_index] + 1) % label_count
        if statistic.reads == "labels":
            predictions[query_index] = wrong_label
        else:
            predictions[query_index] = _certain(wrong_label, label_count)
    return predictions


def _saved_query_scores(saved_scores: QueryScores | None, dataset: str, condition: str) -> list[float | None]:
    """Return the saved scores of the queries of a condition by a metric of the user's own; empty if there are none.

    Args:
        saved_scores: The scores of the queries of all data sets by this metric; ``None`` if it is one of the library.
        dataset: The data set.
        condition: The condition.
    """
    if saved_scores is None or dataset not in saved_scores.values:
        return []
    return list(saved_scores.values[dataset].get(condition) or ())


def _has_no_prediction(result: Result, dataset: str, record: ConditionRecord) -> bool:
    """Return whether all queries of a condition are missing: none has a prediction, and no reply counts as wrong."""
    return all(label is None for label in record.predictions) and not result.counted_wrong(dataset)


def _check_query_scores(
    metric: str, saved_scores: QueryScores, query_scores: Sequence[float | None], expected_count: int
) -> None:
    """Raise an error unless each query of a condition has a score or ``None``, and each score is within its range.

    Args:
        metric: Name of a metric of the user's own.
        saved_scores: Its scores on all data sets, with their range.
        query_scores: The scores in one condition.
        expected_count: Number of queries of the condition.
    """
    if len(query_scores) != expected_count:
        raise NotComparableError(f"the file has {metric} of {len(query_scores)} queries, expected {expected_count}")
    if saved_scores.low is None or saved_scores.high is None:
        return  # The range is not known, so that any score is possible.
    for score in query_scores:
        if score is not None and not saved_scores.low <= score <= saved_scores.high:
            raise NotComparableError(
                f"the file has {metric} of a query outside its range {saved_scores.low:g} to {saved_scores.high:g}"
            )


def _label_count(labels: Sequence[str], record: ConditionRecord) -> int:
    """Return the number of labels; if their names are unknown, one more than the largest label index of the record."""
    if labels:
        return len(labels)
    predicted = [label for label in record.predictions if label is not None]
    return 1 + max([0, *record.truth, *predicted])


def _certain(label: int, label_count: int) -> list[float]:
    """Return the distribution in which one label has probability 1."""
    return [float(index == label) for index in range(label_count)]


def _certain_or_none(label: int | None, label_count: int) -> list[float] | None:
    """Return the distribution in which a predicted label has probability 1; ``None`` for a missing query."""
    if label is None:
        return None
    return _certain(label, label_count)


def _saved_probabilities(record: ConditionRecord, label_count: int) -> list[Any]:
    """Return the label probabilities of each query; ``None`` for missing queries.

    Raises:
        NotComparableError: The inference function returned bare labels or texts, which have no probabilities.
    """
    if record.scores is not None and record.output in ("probabilities", "logits"):
        return record.probabilities(label_count)
    kind = "bare labels" if record.output == "labels" else record.output
    raise NotComparableError(f"the predictions are {kind}, which have no probabilities")


# -- logs of other harnesses


def _read_samples(result: Result, dataset: str, metric: str) -> RunRecords:
    """Return the samples of a task that another harness logged, as queries of one condition.

    A document is a test row, and its repeats are the queries of this row. In the place of a prediction, a query has the
    logged score of its sample.

    Args:
        result: The run, as it was read from the log.
        dataset: The task.
        metric: Name of a logged metric.

    Raises:
        NotComparableError: The log has no scores of the samples by this metric, or impossible ones.
    """
    samples = result.samples[dataset]
    logged_metric = result.query_scores.get(metric)
    scores = _saved_query_scores(logged_metric, dataset, SAMPLES)
    if logged_metric is None or not scores:
        raise NotComparableError(_reason_for_missing(result.details[dataset], metric))
    _check_query_scores(metric, logged_metric, scores, len(samples.documents))

    queries: dict[QueryPosition, RecordedQuery] = {}
    for document, repeat, score in zip(samples.documents, samples.repeats, scores, strict=True):
        queries[_row_of_document(document), repeat] = RecordedQuery(truth=None, prediction=score)
    return RunRecords(
        {SAMPLES: queries},
        labels=(),
        weights=(1.0,),
        data_digest=result.details[dataset].data,
        samples=samples,
    )


def _row_of_document(document: str) -> int:
    """Return the number of a document as a test row: the same number for the same id, in all runs.

    Ids of documents are texts, test rows are numbers. So the number is the SHA-256 of the id.
    """
    return int.from_bytes(hashlib.sha256(document.encode("utf-8", "surrogatepass")).digest(), "big")


# -- LongICL, whose conditions are rounds


def _read_rounds(details: DatasetDetails, scores: Mapping[str, Any], metric: str) -> RunRecords:
    """Return the queries of LongICL, by round. Rounds are the conditions of LongICL.

    Args:
        details: The saved details of the data set.
        scores: Its saved scores.
        metric: ``"mean"`` for all rounds, or the name of a round, such as ``"1R"``.

    Raises:
        NotComparableError: The run has no rounds, or the file has no records of the queries of one.
    """
    rounds = scores.get("rounds") or {}
    names = list(rounds) if metric == "mean" else [metric]
    if not names:
        raise NotComparableError("the run has no rounds here")

    is_micro_f1 = scores.get("metric") == "micro_f1"
    most_labels_of_reply = float(scores.get("most_labels_of_reply", _MOST_LABELS_OF_A_REPLY))
    records = {record.name: record for record in details.conditions}
    conditions: dict[str, Queries] = {}
    limits = LabelLimits(1.0, 1.0)
    for name in names:
        items_with_several_labels = rounds.get(name, {}).get("items")
        if name in records:
            conditions[name] = _read_single_label_round(records[name], is_micro_f1)
        elif items_with_several_labels is not None:
            conditions[name] = _read_several_label_round(items_with_several_labels)
            limits = _larger_limits(limits, items_with_several_labels, most_labels_of_reply)
        else:
            raise NotComparableError(f"the file has no records of the queries of {name}; run again with this version")
    return RunRecords(
        conditions,
        labels=details.labels,
        weights=(1.0 / len(names),) * len(names),
        data_digest=details.data,
        label_limits=limits if is_micro_f1 else None,
    )


def _read_single_label_round(record: ConditionRecord, is_micro_f1: bool) -> Queries:
    """Return the queries of a round whose items have one true label each.

    For the accuracy, a prediction is a label. For micro F1 it is a pair: the number of correct labels (0 or 1), and the
    number of true and predicted labels together (2, or 1 if the reply has no label).
    """
    if not is_micro_f1:
        return _by_position(record.rows, record.truth, record.predictions)
    counts: list[tuple[int, int] | None] = []
    for true_label, predicted_label in zip(record.truth, record.predictions, strict=True):
        if predicted_label is None:
            counts.append(None)
            continue
        correct = int(predicted_label == true_label)
        # A reply without a label has a negative index: it adds no predicted label to the true one.
        label_count = 2 if predicted_label >= 0 else 1
        counts.append((correct, label_count))
    return _by_position(record.rows, record.truth, counts)


LabelList = Sequence[str] | None
RoundItem = tuple[int, LabelList, LabelList, LabelList]
"""Test row, and true, predicted, and correct labels, of an item with several labels. The labels are ``None`` if its
query failed."""


def _read_several_label_round(items: Sequence[RoundItem]) -> Queries:
    """Return the queries of a round whose items have several labels each.

    The truth of a query is its number of true labels. Its prediction is a pair: the number of correct labels, and the
    number of true and predicted labels together. Both are ``None`` if the query failed.
    """
    rows: list[int] = []
    true_counts: list[int | None] = []
    counts: list[tuple[int, int] | None] = []
    for row, true_labels, predicted_labels, correct_labels in items:
        rows.append(row)
        if true_labels is None or predicted_labels is None or correct_labels is None:
            true_counts.append(None)
            counts.append(None)
        else:
            true_counts.append(len(true_labels))
            counts.append((len(correct_labels), len(true_labels) + len(predicted_labels)))
    return _by_position(rows, true_counts, counts)


def _larger_limits(limits: LabelLimits, items: Sequence[RoundItem], most_labels_of_reply: float) -> LabelLimits:
    """Return limits that hold for one more round too: the larger ones of the limits and of its label counts.

    Args:
        limits: The largest numbers of labels so far.
        items: The items of the round.
        most_labels_of_reply: The number of labels that a reply can name, also one that is missing.
    """
    most_true = limits.true
    most_predicted = max(limits.predicted, most_labels_of_reply)
    for _, true_labels, predicted_labels, _ in items:
        if true_labels is not None and predicted_labels is not None:
            most_true = max(most_true, float(len(true_labels)))
            most_predicted = max(most_predicted, float(len(predicted_labels)))
    return LabelLimits(most_true, most_predicted)


# -- what a metric reads


def _lacks_queries(records: RunRecords, statistic: Statistic) -> bool:
    """Return whether the score of a run is undefined because no query of a condition has a score.

    A data set with such a score is compared nevertheless: the queries count as missing ones
    (:mod:`StaICC.comparing.missing_queries`).
    """
    predictions = {}
    for condition, queries in records.conditions.items():
        predictions[condition] = [query.prediction for query in queries.values()]
    return is_undefined(metric_inputs(statistic, predictions), records.pooled)


def metric_inputs(statistic: Statistic, predictions: Mapping[str, list[Any]]) -> Mapping[str, list[Any]]:
    """Return the inputs of a metric by condition: one for each query.

    For most metrics, they are the predictions. Some compare the conditions, which have the same queries
    (:attr:`~StaICC.metrics.statistics.Statistic.compares_conditions`), as the consistency does. The input for a query
    is then a tuple with the predicted labels in all conditions. These tuples are listed under the first condition, and
    there is no other one. So ``{"a": [0, 1], "b": [0, 2]}`` becomes ``{"a": [(0, 0), (1, 2)]}``.
    """
    if not statistic.compares_conditions:
        return predictions
    first_condition = next(iter(predictions))
    return {first_condition: list(zip(*predictions.values(), strict=True))}


def is_undefined(inputs: Mapping[str, Sequence[Any]], pooled: bool) -> bool:
    """Return whether the score of a run is undefined because too many queries are missing.

    A pooled score is undefined if all queries are missing. Any other score is undefined if all queries of one condition
    are missing.

    Args:
        inputs: The inputs of the metric by condition, one for each query (:func:`metric_inputs`).
        pooled: Whether the queries of all conditions have one score together.
    """
    conditions_without_score = []
    for queries in inputs.values():
        conditions_without_score.append(all(lacks_score(prediction) for prediction in queries))
    if pooled:
        return all(conditions_without_score)
    return any(conditions_without_score)

"""The records of one run on one data set, as a paired test needs them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

from StaICC import benchmark_names
from StaICC.comparing.comparable_scores import saved_value
from StaICC.errors import StaICCError
from StaICC.metrics.diagnosis import noisy_label_shares
from StaICC.metrics.scores import CONSISTENCY, score_of_condition
from StaICC.metrics.statistics import Statistic, lacks_score
from StaICC.results.details import ConditionRecord, DatasetDetails, QueryPosition, QueryScores, query_positions
from StaICC.results.result import Result

_MOST_LABELS_OF_A_REPLY = 100.0
"""Labels that one reply can name: the default limit of its tokens."""


class NotComparableError(StaICCError):
    """A data set cannot be compared, for the reason in the message."""


class RecordedQuery(NamedTuple):
    """What is recorded of one query."""

    truth: int | None
    """Index of the true label. For several labels per item, the number of true labels; ``None`` if the query failed."""
    prediction: Any
    """What the metric reads: a label, a list of probabilities, a score, or for micro F1 the number of correct labels
    and the number of true and predicted ones together. ``None`` without a score."""


Queries = Mapping[QueryPosition, RecordedQuery]
"""The queries of one condition."""


@dataclass(frozen=True, slots=True)
class LabelLimits:
    """The largest possible numbers of labels of a query, for micro F1."""

    true: float
    predicted: float


@dataclass(frozen=True, slots=True)
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
    """Whether the score is that of the queries of all conditions together, not the mean of their scores."""
    label_limits: LabelLimits | None = None
    """Set if the score is a micro F1."""

    @property
    def queries(self) -> int:
        """Number of queries of all conditions."""
        return sum(len(queries) for queries in self.conditions.values())


def read_records(result: Result, dataset: str, metric: str, statistic: Statistic) -> RunRecords:
    """Return what a paired test of a metric needs of one data set of a run.

    Raises:
        NotComparableError: The run has no such data set or no records of it, or the metric is undefined there.
    """
    details = result.details.get(dataset)
    scores = result.divided.get(dataset)
    if details is None or scores is None:
        raise NotComparableError("not in this run")

    if result.benchmark == benchmark_names.LONG_ICL:
        records = _read_rounds(details, scores, metric)
        # Of a round with failed queries, the score is undefined. They are missing queries.
        may_be_undefined = details.failed > 0
    else:
        records = _read_conditions(result, dataset, metric, statistic)
        may_be_undefined = False

    undefined = saved_value(scores, metric) is None and not may_be_undefined
    if undefined and not _lacks_queries(records, statistic):
        raise NotComparableError(_reason_for_missing(details, metric))
    return records


def _reason_for_missing(details: DatasetDetails, metric: str) -> str:
    """Return why a metric is undefined on a data set: its own reason, else the first note of the run."""
    for key in (metric, f"sensitivity.{metric}"):
        if details.missing.get(key):
            return details.missing[key]
    if details.notes and details.notes[0]:
        return details.notes[0]
    return f"the run has no {metric} here"


# -- benchmarks of classification


def _read_conditions(result: Result, dataset: str, metric: str, statistic: Statistic) -> RunRecords:
    """Return the records of the conditions of a benchmark of classification that a metric is about.

    These are all, or the one that a score such as ``names.accuracy`` names.
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
    )


def _by_position(rows: Sequence[int], truth: Sequence[int | None], predictions: Sequence[Any]) -> Queries:
    """Return the queries of a condition by test row and place among the queries of this row."""
    queries = {}
    for position, label, prediction in zip(query_positions(rows), truth, predictions, strict=True):
        queries[position] = RecordedQuery(label, prediction)
    return queries


def _condition_weights(result: Result, count: int) -> tuple[float, ...]:
    """Return the weights with which the scores of conditions make the score of a data set.

    The score is their mean. For label noise it is the slope of the regression line through the points (x, score), where
    x is the share of correct labels. With the mean m of the x, its weights are::

        (x - m) / sum((x - m) ** 2)
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
    """Return what a metric reads of each query of a condition; ``None`` for queries without it.

    Raises:
        NotComparableError: The file does not have it, or has something impossible.
    """
    own_scores = result.query_scores.get(metric)
    scores_of_queries = _saved_query_scores(own_scores, dataset, record.name)
    if not scores_of_queries and _has_no_prediction(result, dataset, record):
        return [None] * len(record.predictions)
    if own_scores is not None:
        _check_query_scores(metric, own_scores, scores_of_queries, len(record.truth))
        return scores_of_queries

    label_count = _label_count(result.details[dataset].labels, record)
    predictions: list[Any]
    if statistic.reads == "labels":
        predictions = list(record.predictions)
    elif statistic.reads == "distributions" and record.output == "labels":
        predictions = [_certain_or_none(label, label_count) for label in record.predictions]
    else:
        predictions = _saved_probabilities(record, label_count)

    if statistic.of_classification:
        # Replies without a label count as wrong ones: any wrong label does, the next one is taken.
        for condition, number in result.counted_wrong(dataset):
            if condition == record.name:
                wrong_label = (record.truth[number] + 1) % label_count
                if statistic.reads == "labels":
                    predictions[number] = wrong_label
                else:
                    predictions[number] = _certain(wrong_label, label_count)
    return predictions


def _saved_query_scores(scores: QueryScores | None, dataset: str, condition: str) -> list[float | None]:
    """Return the scores of the queries of a condition by a metric of the user's own; empty if there are none."""
    if scores is None or dataset not in scores.values:
        return []
    return list(scores.values[dataset].get(condition) or ())


def _has_no_prediction(result: Result, dataset: str, record: ConditionRecord) -> bool:
    """Return whether no query of a condition has a prediction, nor counts as wrong."""
    return all(label is None for label in record.predictions) and not result.counted_wrong(dataset)


def _check_query_scores(metric: str, scores: QueryScores, of_queries: Sequence[float | None], expected: int) -> None:
    """Raise an error unless there are so many scores of queries, each within the range of its metric."""
    if len(of_queries) != expected:
        raise NotComparableError(f"the file has {metric} of {len(of_queries)} queries, expected {expected}")
    for score in of_queries:
        if score is not None and not scores.low <= score <= scores.high:
            raise NotComparableError(
                f"the file has {metric} of a query outside its range {scores.low:g} to {scores.high:g}"
            )


def _label_count(labels: Sequence[str], record: ConditionRecord) -> int:
    """Return the number of labels; without their names, what the largest index in a record implies."""
    if labels:
        return len(labels)
    predicted = [label for label in record.predictions if label is not None]
    return 1 + max([0, *record.truth, *predicted])


def _certain(label: int, label_count: int) -> list[float]:
    """Return the distribution in which one label has probability 1."""
    return [float(index == label) for index in range(label_count)]


def _certain_or_none(label: int | None, label_count: int) -> list[float] | None:
    if label is None:
        return None
    return _certain(label, label_count)


def _saved_probabilities(record: ConditionRecord, label_count: int) -> list[Any]:
    """Return the probabilities of each query; ``None`` for failed ones."""
    if record.scores is not None and record.output in ("probabilities", "logits"):
        return record.probabilities(label_count)
    kind = "bare labels" if record.output == "labels" else record.output
    raise NotComparableError(f"the predictions are {kind}, which have no probabilities")


# -- LongICL, whose conditions are rounds


def _read_rounds(details: DatasetDetails, scores: Mapping[str, Any], metric: str) -> RunRecords:
    """Return the records of the rounds of LongICL that a metric is about: all for their mean, else the one it names."""
    rounds = scores.get("rounds") or {}
    names = list(rounds) if metric == "mean" else [metric]
    if not names:
        raise NotComparableError("the run has no rounds here")

    is_micro_f1 = scores.get("metric") == "micro_f1"
    records = {record.name: record for record in details.conditions}
    conditions: dict[str, Queries] = {}
    limits = LabelLimits(1.0, 1.0)
    for name in names:
        items = rounds.get(name, {}).get("items")
        if name in records:
            conditions[name] = _read_single_label_round(records[name], is_micro_f1)
        elif items is not None:
            conditions[name] = _read_several_label_round(items)
            limits = _larger_limits(limits, items)
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
    """Return the queries of a round whose items have one label each."""
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


RoundItem = tuple[int, int | None, int | None, int | None]
"""Test row, and numbers of true, predicted, and correct labels, of an item with several labels. The numbers are
``None`` if its query failed."""


def _read_several_label_round(items: Sequence[RoundItem]) -> Queries:
    """Return the queries of a round whose items have several labels each."""
    rows: list[int] = []
    true_counts: list[int | None] = []
    counts: list[tuple[int, int] | None] = []
    for row, true_count, predicted_count, correct_count in items:
        rows.append(row)
        true_counts.append(true_count)
        if true_count is None or predicted_count is None or correct_count is None:
            counts.append(None)
        else:
            counts.append((correct_count, true_count + predicted_count))
    return _by_position(rows, true_counts, counts)


def _larger_limits(limits: LabelLimits, items: Sequence[RoundItem]) -> LabelLimits:
    """Return the limits with those of one more round."""
    most_true = limits.true
    most_predicted = max(limits.predicted, _MOST_LABELS_OF_A_REPLY)
    for _, true_count, predicted_count, _ in items:
        if true_count is not None and predicted_count is not None:
            most_true = max(most_true, float(true_count))
            most_predicted = max(most_predicted, float(predicted_count))
    return LabelLimits(most_true, most_predicted)


# -- what a metric reads


def _lacks_queries(records: RunRecords, statistic: Statistic) -> bool:
    """Return whether the score of a run is undefined only because no query of a condition has a score.

    Such a data set is compared: its queries are missing ones (:mod:`StaICC.comparing.missing_queries`).
    """
    predictions = {}
    for condition, queries in records.conditions.items():
        predictions[condition] = [query.prediction for query in queries.values()]
    return is_undefined(metric_inputs(statistic, predictions), records.pooled)


def metric_inputs(statistic: Statistic, predictions: Mapping[str, list[Any]]) -> Mapping[str, list[Any]]:
    """Return what a metric reads of the predictions, by condition.

    The consistency compares the conditions, which have the same queries: it reads a tuple with the label of each
    condition for each query, here listed under the first condition.
    """
    if statistic is not CONSISTENCY:
        return predictions
    first_condition = next(iter(predictions))
    return {first_condition: list(zip(*predictions.values(), strict=True))}


def is_undefined(inputs: Mapping[str, Sequence[Any]], pooled: bool) -> bool:
    """Return whether a score is undefined because queries have none.

    Args:
        inputs: What the metric reads of each query, by condition.
        pooled: Whether the queries of all conditions have one score together: then any of them suffices. Otherwise each
            condition needs one.
    """
    without_score = [all(lacks_score(prediction) for prediction in queries) for queries in inputs.values()]
    if pooled:
        return all(without_score)
    return any(without_score)

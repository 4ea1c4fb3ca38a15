"""The records of one run on one data set, as a paired test needs them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from StaICC import benchmark_names
from StaICC.comparing.comparable_scores import saved_value
from StaICC.errors import StaICCError
from StaICC.metrics.diagnosis import noisy_label_shares
from StaICC.metrics.scores import CONSISTENCY
from StaICC.metrics.statistics import Statistic, lacks_score
from StaICC.results.details import ConditionRecord, QueryPosition, query_positions
from StaICC.results.result import Result

_LONGEST_REPLY = 100.0
"""Labels that one reply can name: the default limit of its tokens."""


@dataclass(frozen=True, slots=True)
class RunRecords:
    """The records of one run on one data set."""

    conditions: Mapping[str, Mapping[QueryPosition, tuple[Any, Any]]]
    """By condition and query: the true label (or the number of true labels), and what the metric needs of the
    prediction; ``None`` without a score."""
    labels: tuple[str, ...]
    weights: tuple[float, ...]
    """Of the conditions in the score."""
    queries: int
    """Number of queries."""
    data: str | None
    """Digest of the test texts."""
    pooled: bool = False
    """Whether the score is that of the queries of all conditions together, not the mean of their scores."""
    most: tuple[float, float] | None = None
    """The largest possible numbers of true and of predicted labels of a query, for micro F1."""


class NotComparableError(StaICCError):
    """A data set cannot be compared, for the reason in the message."""


def _certain(label: int, width: int) -> list[float]:
    return [float(place == label) for place in range(width)]


def _weights(result: Result, names: Sequence[str]) -> tuple[float, ...]:
    """Return the weights of the conditions: a regression slope for label noise, else their mean."""
    if result.benchmark != benchmark_names.GLER:
        return (1.0 / len(names),) * len(names)
    k = str(result.setting("k"))
    if not k.isdecimal() or len(names) < 2:
        raise NotComparableError(f"the run has no single k ({k}), so the slope has no abscissas")
    shares = noisy_label_shares(int(k), len(names))
    middle = sum(shares) / len(shares)
    spread = sum((share - middle) ** 2 for share in shares)
    if not spread:
        raise NotComparableError("without demonstrations, labels cannot be wrong")
    return tuple((share - middle) / spread for share in shares)


def read_records(result: Result, name: str, metric: str, statistic: Statistic) -> RunRecords:
    """Read what a statistic needs of one data set.

    Raises:
        NotComparableError: The metric, or the records, are missing.
    """
    details, values, long_icl = (
        result.details.get(name),
        result.divided.get(name),
        result.benchmark == benchmark_names.LONG_ICL,
    )
    if details is None or values is None:
        raise NotComparableError("not in this run")
    records = {record.name: record for record in details.conditions}
    rounds = (values.get("rounds") or {}) if long_icl else {}
    if not long_icl:
        names = list(records)
    elif metric == "mean":
        names = list(rounds)
    else:
        names = [metric]
    if not names:
        raise NotComparableError("the run has no rounds here" if long_icl else "the file has no records of its queries")
    f1 = long_icl and values.get("metric") == "micro_f1"
    conditions: dict[str, dict[QueryPosition, tuple[Any, Any]]] = {}
    most, queries = (1.0, 1.0), 0
    for condition in names:
        answers: list[Any]
        if (record := records.get(condition)) is not None:
            rows, truth = record.rows, record.truth
            answers = list(record.predictions) if long_icl else _answers(result, name, record, metric, statistic)
            if f1:
                guesses = zip(truth, answers, strict=True)
                answers = [None if guess is None else (int(guess == own), 1 + (guess >= 0)) for own, guess in guesses]
        elif (items := rounds.get(condition, {}).get("items")) is not None:  # several labels per item
            rows, truth = (tuple(item[place] for item in items) for place in (0, 1))
            answers = [None if gold is None else (correct, gold + predicted) for _, gold, predicted, correct in items]
            counts = [(float(gold), float(predicted)) for _, gold, predicted, _ in items if gold is not None]
            most = max([most[0], *(gold for gold, _ in counts)]), max([_LONGEST_REPLY, *(size for _, size in counts)])
        else:
            raise NotComparableError(
                f"the file has no records of the queries of {condition}; run again with this version"
            )
        queries += len(rows)
        keyed = zip(query_positions(rows), truth, answers, strict=True)
        conditions[condition] = {key: (label, answer) for key, label, answer in keyed}
    weights = _weights(result, names)
    pooled = result.benchmark == benchmark_names.GENERALISATION
    read = RunRecords(conditions, details.labels, weights, queries, details.data, pooled, most if f1 else None)
    undefined = saved_value(values, metric) is None and not (details.failed and long_icl)
    if undefined and not _lacks_queries(read, statistic):
        reason = details.missing.get(metric) or details.missing.get(f"sensitivity.{metric}")
        raise NotComparableError(reason or next(iter(details.notes), None) or f"the run has no {metric} here")
    return read


def _lacks_queries(records: RunRecords, statistic: Statistic) -> bool:
    """Return whether the score of a run is undefined only because no query of a condition has one.

    Such a score is not left out: its queries are missing ones (:mod:`StaICC.comparing.missing_queries`).
    """
    predictions = {name: [answer for _, answer in own.values()] for name, own in records.conditions.items()}
    return undefined_on(read_by(statistic, predictions), records.pooled)


def read_by(statistic: Statistic, predictions: Mapping[str, list[Any]]) -> Mapping[str, list[Any]]:
    """Return what a metric reads, by condition; of a consistency, the labels of each query as one."""
    if statistic is CONSISTENCY:  # over the conditions, which have the same queries
        return {next(iter(predictions)): list(zip(*predictions.values(), strict=True))}
    return predictions


def undefined_on(predictions: Mapping[str, Sequence[Any]], pooled: bool) -> bool:
    """Return whether the score of predictions is undefined: a condition, or all of a pooled score, has none."""
    empty = [all(map(lacks_score, own)) for own in predictions.values()]
    return all(empty) if pooled else any(empty)


def _answers(result: Result, name: str, record: ConditionRecord, metric: str, statistic: Statistic) -> list[Any]:
    """Return what a statistic needs of each prediction of a condition; ``None`` for queries without it."""
    labels, own = result.details[name].labels, result.query_scores.get(metric)
    width = len(labels) or 1 + max(*record.truth, *(label or 0 for label in record.predictions))
    answers: list[Any] = list(record.predictions)
    scores_of_queries = [] if own is None else list(own.values.get(name, {}).get(record.name) or ())
    nothing_predicted = all(label is None for label in record.predictions) and not result.counted_wrong(name)
    if nothing_predicted and not scores_of_queries:
        return answers
    if own is not None:
        answers = scores_of_queries
        if len(answers) != len(record.truth):
            raise NotComparableError(f"the file has {metric} of {len(answers)} queries, expected {len(record.truth)}")
        if any(score is not None and not own.low <= score <= own.high for score in answers):
            raise NotComparableError(f"the file has {metric} of a query outside its range {own.low:g} to {own.high:g}")
    elif statistic.reads == "distributions" and record.output == "labels":
        answers = [label if label is None else _certain(label, width) for label in answers]
    elif statistic.reads != "labels":
        if record.scores is None or record.output not in ("probabilities", "logits"):
            kind = {"labels": "bare labels"}.get(record.output, record.output)
            raise NotComparableError(f"the predictions are {kind}, which have no probabilities")
        answers = list(record.probabilities(width))
    for condition, number in result.counted_wrong(name) if statistic.of_classification else ():
        if condition == record.name:
            label = (record.truth[number] + 1) % width
            answers[number] = label if statistic.reads == "labels" else _certain(label, width)
    return answers

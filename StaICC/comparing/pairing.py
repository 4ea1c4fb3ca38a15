"""The records of several runs on one data set, paired by test row.

Runs are comparable if they have the same test rows with the same true labels, whatever their prompts: method, k,
template and channel may differ. A query is found again by its test row and its place among the queries of that row, so
the order of the records does not matter.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, NamedTuple

from StaICC import benchmark_names
from StaICC.errors import StaICCError
from StaICC.metrics.diagnosis import noisy_label_shares
from StaICC.metrics.paired_tests import PairedDifference, paired_difference
from StaICC.metrics.scores import CONSISTENCY, score_record
from StaICC.metrics.statistics import Contributions, Mean, MicroF1, Sample, Statistic
from StaICC.results.details import ConditionRecord, QueryPosition, query_positions
from StaICC.results.result import Result, single_scores
from StaICC.safe_text import one_line

_NOT_SCORES = frozenset({"distribution", "uniform", "majority"})

_LONGEST_REPLY = 100.0
"""Labels that one reply can name: the default limit of its tokens."""


def metrics_of(result: Result) -> list[str]:
    """Return the scores of a result that have a mean over data sets."""
    return [name for name in result.averaged if name not in _NOT_SCORES]


@dataclass(frozen=True, slots=True)
class _Records:
    """The records of one run on one data set."""

    conditions: Mapping[str, Mapping[QueryPosition, tuple[int, Any]]]
    """By condition and query that has a prediction: the true label (or the number of true labels), and what the metric
    needs of the prediction."""
    labels: tuple[str, ...]
    weights: tuple[float, ...]
    """Of the conditions in the score."""
    queries: int
    """Number of queries, also without a prediction."""
    data: str | None
    """Digest of the test texts."""
    most: tuple[float, float] | None = None
    """The largest possible numbers of true and of predicted labels of a query, for micro F1."""

    @property
    def predicted(self) -> int:
        """Number of queries that have a prediction."""
        return sum(map(len, self.conditions.values()))


_Term = tuple[float, Contributions]
"""A condition's weight, and what each row contributes to its metric."""


class _LeftOutError(StaICCError):
    """A data set cannot be compared, for the reason in the message."""


def _certain(label: int, width: int) -> list[float]:
    return [float(place == label) for place in range(width)]


def _weights(result: Result, names: Sequence[str]) -> tuple[float, ...]:
    """Return the weights of the conditions: a regression slope for label noise, else their mean."""
    if result.benchmark != benchmark_names.GLER:
        return (1.0 / len(names),) * len(names)
    k = str(result.setting("k"))
    if not k.isdecimal() or len(names) < 2:
        raise _LeftOutError(f"the run has no single k ({k}), so the slope has no abscissas")
    shares = noisy_label_shares(int(k), len(names))
    middle = sum(shares) / len(shares)
    spread = sum((share - middle) ** 2 for share in shares)
    if not spread:
        raise _LeftOutError("without demonstrations, labels cannot be wrong")
    return tuple((share - middle) / spread for share in shares)


def _read(result: Result, name: str, metric: str, statistic: Statistic) -> _Records:
    """Read what a statistic needs of one data set.

    Raises:
        _LeftOutError: The metric, or the records, are missing.
    """
    details, values, long_icl = (
        result.details.get(name),
        result.divided.get(name),
        result.benchmark == benchmark_names.LONG_ICL,
    )
    if details is None or values is None:
        raise _LeftOutError("not in this run")
    if saved_value(values, metric) is None and not (details.failed and long_icl):
        reason = details.missing.get(metric) or details.missing.get(f"sensitivity.{metric}")
        raise _LeftOutError(reason or next(iter(details.notes), None) or f"the run has no {metric} here")
    records = {record.name: record for record in details.conditions}
    rounds = (values.get("rounds") or {}) if long_icl else {}
    if not long_icl:
        names = list(records)
    elif metric == "mean":
        names = list(rounds)
    else:
        names = [metric]
    if not names:
        raise _LeftOutError("the run has no rounds here" if long_icl else "the file has no records of its queries")
    f1 = long_icl and values.get("metric") == "micro_f1"
    conditions: dict[str, dict[QueryPosition, tuple[int, Any]]] = {}
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
            raise _LeftOutError(f"the file has no records of the queries of {condition}; run again with this version")
        queries += len(rows)
        keyed = zip(query_positions(rows), truth, answers, strict=True)
        conditions[condition] = {key: (label, answer) for key, label, answer in keyed if answer is not None}
    weights = _weights(result, names)
    return _Records(conditions, details.labels, weights, queries, details.data, most if f1 else None)


def _answers(result: Result, name: str, record: ConditionRecord, metric: str, statistic: Statistic) -> list[Any]:
    """Return what a statistic needs of each prediction of a condition; ``None`` for queries without it."""
    labels, own = result.details[name].labels, result.query_scores.get(metric)
    width = len(labels) or 1 + max(*record.truth, *(label or 0 for label in record.predictions))
    answers: list[Any] = list(record.predictions)
    if own is not None:
        answers = list(own.values.get(name, {}).get(record.name) or ())
        if len(answers) != len(record.truth):
            raise _LeftOutError(f"the file has {metric} of {len(answers)} queries, expected {len(record.truth)}")
        if any(score is not None and not own.low <= score <= own.high for score in answers):
            raise _LeftOutError(f"the file has {metric} of a query outside its range {own.low:g} to {own.high:g}")
    elif statistic.reads == "distributions" and record.output == "labels":
        answers = [label if label is None else _certain(label, width) for label in answers]
    elif statistic.reads != "labels":
        if record.scores is None or record.output not in ("probabilities", "logits"):
            kind = {"labels": "bare labels"}.get(record.output, record.output)
            raise _LeftOutError(f"the predictions are {kind}, which have no probabilities")
        answers = list(record.probabilities(width))
    for condition, number in result.counted_wrong(name) if statistic.of_classification else ():
        if condition == record.name:
            label = (record.truth[number] + 1) % width
            answers[number] = label if statistic.reads == "labels" else _certain(label, width)
    return answers


def saved_value(values: Mapping[str, Any], metric: str) -> float | None:
    """Return a score as a result has it; the slope, for a regression line."""
    scores = dict(single_scores(values))
    return scores.get(metric, scores.get(f"sensitivity.{metric}"))


def _relabelled(records: _Records, labels: tuple[str, ...], are_scores: bool) -> _Records:
    """Return records with label indexes of another order of the same names; unchanged if the names differ."""
    if records.labels == labels or sorted(records.labels) != sorted(labels) or len(set(labels)) < len(labels):
        return records
    new = [labels.index(name) for name in records.labels]
    old = [records.labels.index(name) for name in labels]

    def moved(answer: Any) -> Any:
        if isinstance(answer, (list, tuple)):
            return [answer[place] for place in old]
        return answer if are_scores else new[answer]

    conditions = {
        name: {key: (new[truth], moved(answer)) for key, (truth, answer) in queries.items()}
        for name, queries in records.conditions.items()
    }
    return replace(records, conditions=conditions, labels=labels)


class PairedRecords:
    """Several runs on the same queries of one data set.

    Args:
        statistic: What the score measures by which they are compared.
        runs: Their records, with labels in the same order.
        keys: The queries of each condition that every run predicted.
    """

    def __init__(
        self, statistic: Statistic, runs: Mapping[str, _Records], keys: Mapping[str, Sequence[QueryPosition]]
    ) -> None:
        self.runs, self._keys, self.statistic = runs, keys, statistic
        self.queries = sum(map(len, keys.values()))
        reference = next(iter(runs.values()))
        places = {row: n for n, row in enumerate(sorted({row for own in keys.values() for row, _ in own}))}
        self._samples = {
            name: Sample(
                [reference.conditions[name][key][0] for key in own],
                [places[row] for row, _ in own],
                len(places),
                len(reference.labels),
            )
            for name, own in keys.items()
        }
        self._predictions = {
            run: {name: [records.conditions[name][key][1] for key in own] for name, own in keys.items()}
            for run, records in runs.items()
        }

    def difference(self, first: str, second: str) -> PairedDifference:
        """Return the difference of the metric between two runs."""
        if self.statistic.independent:
            return paired_difference(self._own_terms[first], self._own_terms[second])
        return paired_difference(self._terms(first, second), self._terms(second, first))

    @cached_property
    def alone(self) -> dict[str, PairedDifference]:
        """The metric of each run as a sum over test rows, in the place of a difference from 0."""
        return {run: paired_difference(terms, []) for run, terms in self._own_terms.items()}

    @cached_property
    def _own_terms(self) -> dict[str, list[_Term]]:
        return {run: self._terms(run, run) for run in self.runs}

    @property
    def notes(self) -> Iterator[str]:
        """The number of queries that are not compared, by run."""
        for run, records in self.runs.items():
            if left_out := records.queries - self.queries:
                failed = records.queries - records.predicted
                reason = f"; {failed} of them have no prediction" if failed else ""
                yield f"{left_out} of {records.queries} queries of {run} are not compared{reason}"

    @property
    def condition_values(self) -> dict[str, dict[str, float]]:
        """The metric of each run by condition and repeat of the rows; empty if it is no mean over the conditions."""
        weights = {weight for records in self.runs.values() for weight in records.weights}
        if len(weights) > 1 or isinstance(self.statistic, MicroF1) or self.statistic is CONSISTENCY:
            return {}
        values: dict[str, dict[str, float]] = {}
        for name, keys in self._keys.items():
            for repeat in sorted({repeat for _, repeat in keys}):
                part = PairedRecords(self.statistic, self.runs, {name: [key for key in keys if key[1] == repeat]})
                values[f"{name} {repeat}"] = {
                    run: self.statistic.of_run(part._samples[name], predictions[name]).value
                    for run, predictions in part._predictions.items()
                }
        return values

    def _terms(self, run: str, other: str) -> list[_Term]:
        """Return the weights of the conditions, and what each row contributes to the metric of a run."""
        ours, others = self._predictions[run], self._predictions[other]
        if self.statistic is CONSISTENCY:  # over the conditions, which have the same queries
            labels = list(zip(*ours.values(), strict=True))
            return [(1.0, CONSISTENCY.of_run(next(iter(self._samples.values())), labels))]
        parts = (self.statistic.of_run(sample, ours[name], others[name]) for name, sample in self._samples.items())
        return list(zip(self.runs[run].weights, parts, strict=True))


def _statistic(runs: Mapping[str, Result], metric: str) -> Statistic:
    """Return what a score of all runs measures.

    Raises:
        _LeftOutError: It is not known.
    """
    scores = [score_record(run.benchmark, metric, run.higher_is_better) for run in runs.values()]
    own = [run.query_scores.get(metric) for run in runs.values()]
    ranges = {(of_run.low, of_run.high) for of_run in own if of_run is not None}
    if None not in own and len(ranges) == len({score.higher_is_better for score in scores}) == 1:
        return Mean(*ranges.pop())
    if len(benchmarks := dict.fromkeys(run.benchmark for run in runs.values())) > 1:
        raise _LeftOutError(f"the runs are of other benchmarks: {', '.join(benchmarks)}")
    statistics = [score.statistic for score in scores]
    if statistics[0] is None or None in statistics:
        raise _LeftOutError(
            f"{metric} cannot be recomputed from a file: it is no metric of this library, and not in all runs a MeanOf "
            "with the same range and direction"
        )
    return statistics[0]


def pair_records(results: Mapping[str, Result], name: str, metric: str) -> PairedRecords:
    """Return the records of several runs on one data set.

    Args:
        results: The runs, by name, all of the same benchmark.
        name: The data set.
        metric: A score of the benchmark.

    Raises:
        _LeftOutError: They cannot be compared.
    """
    statistic = _statistic(results, metric)
    runs: dict[str, _Records] = {}
    for run, result in results.items():
        try:
            records = _read(result, name, metric, statistic)
        except StaICCError as error:
            raise _LeftOutError(f"{run}: {error}") from error
        first, reference = next(iter(runs.items()), (run, records))
        runs[run] = _relabelled(records, reference.labels, metric in result.query_scores)
        if run != first and (reason := _unlike(reference, runs[run])):
            raise _LeftOutError(f"{first} and {run} have {reason}")
    kinds = {result.divided[name].get("metric") for result in results.values()}
    if len(kinds) > 1:
        raise _LeftOutError(f"the runs have other metrics here: {', '.join(map(str, kinds))}")
    keys = {
        condition: sorted(set.intersection(*(set(records.conditions[condition]) for records in runs.values())))
        for condition in reference.conditions
    }
    if statistic is CONSISTENCY:
        keys = dict.fromkeys(keys, sorted(set.intersection(*map(set, keys.values()))))
    if not all(keys.values()):
        raise _LeftOutError("no test row has a prediction in every run")
    limits = [records.most for records in runs.values() if records.most is not None]
    if limits:
        statistic = MicroF1((max(gold for gold, _ in limits), max(predicted for _, predicted in limits)))
    paired = PairedRecords(statistic, runs, keys)
    if any(math.isinf(own.first) for own in paired.alone.values()):
        raise _LeftOutError(f"{metric} is infinite on the compared rows")
    return paired


def _unlike(reference: _Records, records: _Records) -> str | None:
    """Return why two runs are not on the same test rows with the same labels; ``None`` if they are."""
    if list(reference.conditions) != list(records.conditions):
        return f"other conditions: {', '.join(reference.conditions)} and {', '.join(records.conditions)}"
    if len(reference.labels) != len(records.labels) and reference.labels and records.labels:
        return f"other labels: {len(reference.labels)} and {len(records.labels)}"
    for condition, queries in reference.conditions.items():
        for key in queries.keys() & records.conditions[condition].keys():
            truths = queries[key][0], records.conditions[condition][key][0]
            if truths[0] != truths[1]:
                return f"other true labels (test row {key[0]}: label {truths[0]} and {truths[1]})"
    if reference.data != records.data or records.data is None:
        return f"other data under this name (digests {reference.data!s:.12} and {records.data!s:.12})"
    return None


class Difference(NamedTuple):
    """A setting, or a fact about the model, in which two runs differ."""

    field: str
    first: str | None
    second: str | None

    def __str__(self) -> str:
        return one_line(f"{self.field}: {shown_value(self.first)} and {shown_value(self.second)}")


def shown_value(value: str | None) -> str:
    """Return the value of a setting as one line; "not set" without one."""
    return "not set" if value is None else " ".join(value.split())


def list_differences(first: Result, second: Result) -> tuple[Difference, ...]:
    """Return the settings (fields of the signature) and the facts about the models in which two runs differ.

    Args:
        first: A result.
        second: Another.

    Returns:
        The settings, then the facts. A fact with the name of a setting is marked, and left out if it says the same.
    """
    settings = first.signature.differences(second.signature)
    ours, others = first.provenance.facts(), second.provenance.facts()
    facts = {name: (ours.get(name), others.get(name)) for name in dict.fromkeys([*ours, *others])}
    differing = {name: pair for name, pair in facts.items() if pair[0] != pair[1] and pair != settings.get(name)}
    marked = {f"{name} (model)" if name in settings else name: pair for name, pair in differing.items()}
    return tuple(Difference(name, *pair) for name, pair in [*settings.items(), *marked.items()])


def label_differences(first: Result, second: Result, pairs: Mapping[str, PairedRecords]) -> Iterator[Difference]:
    """Yield the data sets whose label names differ in two runs."""
    for dataset in pairs:
        labels = [result.details[dataset].labels for result in (first, second)]
        if labels[0] != labels[1]:
            yield Difference(f"labels of {dataset}", *("/".join(names) or None for names in labels))


def leaves_queries_out(result: Result) -> str | None:
    """Return which queries the scores of a run leave out: the others can be those that it predicts well."""
    if not result.complete:
        return "some of its queries failed"
    return f"its scores leave out {result.excluded} replies without a label" if result.excluded else None

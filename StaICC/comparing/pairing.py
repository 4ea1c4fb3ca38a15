"""The records of several runs on one data set, paired by test row.

Runs are comparable if they have the same test rows with the same true labels, whatever their prompts: method, k,
template and channel may differ. A query is found again by its test row and its place among the queries of that row, so
the order of the records does not matter. Queries without a score stay among them
(:mod:`StaICC.comparing.missing_queries`).
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from functools import cached_property
from itertools import chain
from typing import Any

from StaICC.comparing.missing_queries import MEANING, RunDifference, why_not_comparable
from StaICC.comparing.run_records import NotComparableError, RunRecords, read_by, read_records, undefined_on
from StaICC.errors import StaICCError
from StaICC.metrics.paired_tests import paired_difference
from StaICC.metrics.scores import CONSISTENCY, score_record
from StaICC.metrics.statistics import Contributions, Mean, MicroF1, RangeEnd, Sample, Statistic, lacks_score
from StaICC.results.details import QueryPosition
from StaICC.results.result import Result

_Term = tuple[float, Contributions]
"""A condition's weight, and what each row contributes to its metric."""


def _relabelled(records: RunRecords, labels: tuple[str, ...], are_scores: bool) -> RunRecords:
    """Return records with label indexes of another order of the same names; unchanged if the names differ."""
    if records.labels == labels or sorted(records.labels) != sorted(labels) or len(set(labels)) < len(labels):
        return records
    new = [labels.index(name) for name in records.labels]
    old = [records.labels.index(name) for name in labels]

    def moved(answer: Any) -> Any:
        if answer is None:
            return None
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
        metric: Name of the score by which they are compared.
        statistic: What it measures.
        runs: Their records, with labels in the same order.
        keys: The queries of each condition that every run has, also without a prediction.
    """

    def __init__(
        self,
        metric: str,
        statistic: Statistic,
        runs: Mapping[str, RunRecords],
        keys: Mapping[str, Sequence[QueryPosition]],
    ) -> None:
        self.metric, self.runs, self.keys, self.statistic = metric, runs, keys, statistic
        self.queries = sum(map(len, keys.values()))
        reference = next(iter(runs.values()))
        places = {row: n for n, row in enumerate(sorted({row for own in keys.values() for row, _ in own}))}
        self.rows = len(places)
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
        self.missing = {
            run: sum(map(lacks_score, chain.from_iterable(predictions.values())))
            for run, predictions in self._predictions.items()
        }
        """Number of compared queries of each run without a score."""

    def why_not_comparable(self, run: str) -> str | None:
        """Return why a run cannot be compared because queries have no score; ``None`` if it can."""
        return why_not_comparable(self.metric, self.statistic, self.missing[run], self.queries)

    def difference(self, first: str, second: str) -> RunDifference:
        """Return the difference of the metric between two runs."""
        values = self.values[first], self.values[second]
        missing = self.missing[first], self.missing[second]
        reason = self.why_not_comparable(first) or self.why_not_comparable(second)
        if reason is not None:
            return RunDifference(values, self.rows, missing, None, reason)
        if missing == (0, 0):
            ours, others = self._own_terms[first], self._own_terms[second]
            if not self.statistic.independent:
                ours, others = self._terms(first, second), self._terms(second, first)
            difference = paired_difference(ours, others)
            return RunDifference(values, self.rows, missing, (difference, difference))
        lowest = paired_difference(self._lowest_terms[first], self._highest_terms[second])
        highest = paired_difference(self._highest_terms[first], self._lowest_terms[second])
        return RunDifference(values, self.rows, missing, (lowest, highest))

    @cached_property
    def alone(self) -> dict[str, RunDifference]:
        """The metric of each run as a sum over test rows, in the place of a difference from 0."""
        return {run: self._alone(run) for run in self.runs}

    def _alone(self, run: str) -> RunDifference:
        values: tuple[float | None, float] = (self.values[run], 0.0)
        missing = (self.missing[run], 0)
        reason = self.why_not_comparable(run)
        if reason is not None:
            return RunDifference(values, self.rows, missing, None, reason)
        if missing == (0, 0):
            difference = paired_difference(self._own_terms[run], [])
            return RunDifference(values, self.rows, missing, (difference, difference))
        lowest = paired_difference(self._lowest_terms[run], [])
        highest = paired_difference(self._highest_terms[run], [])
        return RunDifference(values, self.rows, missing, (lowest, highest))

    @cached_property
    def values(self) -> dict[str, float | None]:
        """The metric of each run on the compared queries that it predicted; ``None`` if it is undefined on them."""
        return {run: self._value_of_predicted(run) for run in self.runs}

    def _value_of_predicted(self, run: str) -> float | None:
        """Return the metric of a run on the queries that have a score; ``None`` if a condition has none."""
        if self.missing[run] == 0:
            return math.fsum(weight * part.value for weight, part in self._own_terms[run])
        if undefined_on(self._of_metric(run), self.runs[run].pooled):
            return None
        values, numbers = [], []
        for condition, predictions in self._of_metric(run).items():
            known = [place for place, prediction in enumerate(predictions) if not lacks_score(prediction)]
            value = 0.0
            if known:
                sample = self._samples[condition].of_queries(known)
                value = self.statistic.of_run(sample, [predictions[place] for place in known]).value
            values.append(value)
            numbers.append(len(known))
        weights: Sequence[float] = self._weights(self.runs[run])
        if self.runs[run].pooled:
            weights = [number / sum(numbers) for number in numbers]
        return math.fsum(weight * value for weight, value in zip(weights, values, strict=True))

    def _of_metric(self, run: str) -> Mapping[str, list[Any]]:
        """Return what the metric reads of the compared queries of a run, by condition."""
        return read_by(self.statistic, self._predictions[run])

    def _weights(self, records: RunRecords) -> tuple[float, ...]:
        return (1.0,) if self.statistic is CONSISTENCY else records.weights

    @cached_property
    def _own_terms(self) -> dict[str, list[_Term]]:
        return {run: self._terms(run, run) for run in self.runs if self.missing[run] == 0}

    @cached_property
    def _lowest_terms(self) -> dict[str, list[_Term]]:
        return {run: self._terms_with_missing(run, "lowest") for run in self.runs}

    @cached_property
    def _highest_terms(self) -> dict[str, list[_Term]]:
        return {run: self._terms_with_missing(run, "highest") for run in self.runs}

    def _terms_with_missing(self, run: str, end: RangeEnd) -> list[_Term]:
        """Return the terms of a mean over queries, with missing queries so that it is as low or high as possible."""
        if self.missing[run] == 0:
            return self._own_terms[run]
        if not isinstance(self.statistic, Mean):
            raise TypeError(f"{self.metric} is no mean over queries")
        terms = []
        predictions = self._of_metric(run)
        for weight, name in zip(self._weights(self.runs[run]), predictions, strict=True):
            missing_at: RangeEnd = "lowest" if (end == "lowest") == (weight > 0.0) else "highest"
            of_condition = self.statistic.with_missing(self._samples[name], predictions[name], missing_at)
            terms.append((weight, of_condition))
        return terms

    @property
    def notes(self) -> Iterator[str]:
        """The number of queries that are not compared, and of those without a score, by run."""
        for run, records in self.runs.items():
            if left_out := records.queries - self.queries:
                yield f"{left_out} of {records.queries} queries of {run} are not compared"
            if missing := self.missing[run]:
                how = "the metric is untested" if self.why_not_comparable(run) else MEANING
                yield f"{missing} of {self.queries} queries of {run} have no score: {how}"

    @property
    def condition_values(self) -> dict[str, dict[str, float]]:
        """The metric of each run by condition and repeat of the rows.

        It is empty if the metric is no mean over the conditions, or if queries have no score.
        """
        weights = {weight for records in self.runs.values() for weight in records.weights}
        if len(weights) > 1 or isinstance(self.statistic, MicroF1) or self.statistic is CONSISTENCY:
            return {}
        if any(self.missing.values()):
            return {}
        values: dict[str, dict[str, float]] = {}
        for name, keys in self.keys.items():
            for repeat in sorted({repeat for _, repeat in keys}):
                chosen = {name: [key for key in keys if key[1] == repeat]}
                part = PairedRecords(self.metric, self.statistic, self.runs, chosen)
                values[f"{name} {repeat}"] = {
                    run: self.statistic.of_run(part._samples[name], predictions[name]).value
                    for run, predictions in part._predictions.items()
                }
        return values

    def _terms(self, run: str, other: str) -> list[_Term]:
        """Return the weights of the conditions, and what each row contributes to the metric of a run."""
        ours, others = self._of_metric(run), self._of_metric(other)
        parts = [self.statistic.of_run(self._samples[name], own, others[name]) for name, own in ours.items()]
        return list(zip(self._weights(self.runs[run]), parts, strict=True))


def _statistic(runs: Mapping[str, Result], metric: str) -> Statistic:
    """Return what a score of all runs measures.

    Raises:
        NotComparableError: It is not known.
    """
    scores = [score_record(run.benchmark, metric, run.higher_is_better) for run in runs.values()]
    own = [run.query_scores.get(metric) for run in runs.values()]
    ranges = {(of_run.low, of_run.high) for of_run in own if of_run is not None}
    if None not in own and len(ranges) == len({score.higher_is_better for score in scores}) == 1:
        return Mean(*ranges.pop())
    if len(benchmarks := dict.fromkeys(run.benchmark for run in runs.values())) > 1:
        raise NotComparableError(f"the runs are of other benchmarks: {', '.join(benchmarks)}")
    statistics = [score.statistic for score in scores]
    if statistics[0] is None or None in statistics:
        raise NotComparableError(
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
        NotComparableError: They cannot be compared.
    """
    statistic = _statistic(results, metric)
    runs: dict[str, RunRecords] = {}
    for run, result in results.items():
        try:
            records = read_records(result, name, metric, statistic)
        except StaICCError as error:
            raise NotComparableError(f"{run}: {error}") from error
        first, reference = next(iter(runs.items()), (run, records))
        runs[run] = _relabelled(records, reference.labels, metric in result.query_scores)
        if run != first and (reason := _unlike(reference, runs[run])):
            raise NotComparableError(f"{first} and {run} have {reason}")
    kinds = {result.divided[name].get("metric") for result in results.values()}
    if len(kinds) > 1:
        raise NotComparableError(f"the runs have other metrics here: {', '.join(map(str, kinds))}")
    keys = {
        condition: sorted(set.intersection(*(set(records.conditions[condition]) for records in runs.values())))
        for condition in reference.conditions
    }
    if statistic is CONSISTENCY:
        keys = dict.fromkeys(keys, sorted(set.intersection(*map(set, keys.values()))))
    if not all(keys.values()):
        raise NotComparableError("the runs share no test row")
    limits = [records.most for records in runs.values() if records.most is not None]
    if limits:
        statistic = MicroF1((max(gold for gold, _ in limits), max(predicted for _, predicted in limits)))
    paired = PairedRecords(metric, statistic, runs, keys)
    if any(value is not None and math.isinf(value) for value in paired.values.values()):
        raise NotComparableError(f"{metric} is infinite on the compared rows")
    return paired


def _unlike(reference: RunRecords, records: RunRecords) -> str | None:
    """Return why two runs are not on the same test rows with the same labels; ``None`` if they are."""
    if list(reference.conditions) != list(records.conditions):
        return f"other conditions: {', '.join(reference.conditions)} and {', '.join(records.conditions)}"
    if len(reference.labels) != len(records.labels) and reference.labels and records.labels:
        return f"other labels: {len(reference.labels)} and {len(records.labels)}"
    for condition, queries in reference.conditions.items():
        for key in queries.keys() & records.conditions[condition].keys():
            truths = queries[key][0], records.conditions[condition][key][0]
            if None not in truths and truths[0] != truths[1]:  # of failed queries with several labels, it is not saved
                return f"other true labels (test row {key[0]}: label {truths[0]} and {truths[1]})"
    if reference.data != records.data or records.data is None:
        return f"other data under this name (digests {reference.data!s:.12} and {records.data!s:.12})"
    return None

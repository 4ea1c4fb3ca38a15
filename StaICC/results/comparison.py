"""Paired comparison of runs by any metric: is one better on the same test rows, and could this sample have shown it?

Runs are compared on the test rows that all of them predicted, by the metric of the tables. The tests are in
:mod:`StaICC.metrics.paired_tests`. Outcomes of tests and verdicts about runs are closed types: every reader handles
every case. Comparisons are written as text, Markdown, LaTeX, CSV and JSON.

The records of several runs on one data set, paired by test row, and the scores by which they are compared.

Runs are comparable if they have the same test rows with the same true labels, whatever their prompts: method, k,
template and channel may differ. A query is found again by its test row and its place among the queries of that row, so
the order of the records does not matter.

**Ranks.** Every pair of runs is tested by the paired test of :mod:`StaICC.metrics.paired_tests`; the p-values of both
directions of all pairs are corrected together (:func:`~StaICC.metrics.paired_tests.directional_holm`). A run is behind
each run that is shown to be better, and before each one that is shown to be worse. So all intervals of ranks together
contain the true ranks with probability 0.95 (Mogstad, Romano, Shaikh and Wilhelm 2024, "Inference for Ranks", Review of
Economic Studies 91; Klein, Wright and Wieczorek 2020, "A joint confidence region for an overall ranking of
populations", JRSS C 69).

Of more than :data:`~StaICC.results.comparison.MOST_RUNS` runs, most pairs are decided by a bound. The p-value is a tail
of a sum of exponential variables, each times the step t of a row. By Chernoff's inequality, for each s > 0 with s w < 1
and s a < 1 (w: largest step, a: size of the pseudo-row)::

    p <= exp(-sum(log(1 + s t))) / (1 - s a)

Of all steps with the same number, sum and sum of squares, those with two values, one of them -w, have the smallest sum
of logarithms (Karlin and Studden 1966, "Tchebycheff Systems"), so the bound needs only these sums. A pair whose bound
is below the level over the number of hypotheses is different. A pair whose normal score is far below what the last step
of the correction needs is not, whatever its p-value: it counts as 1, which cannot raise the error rate. The others are
tested.

**Probability of being the best.** The share of bootstrap samples of the test rows (within each data set) in which the
run has the best mean; runs with the same mean share it. It describes the sample, and is not a p-value.

**Win rate.** The share of (other run, data set) pairs in which a run has the better value; ties count half. Its
interval is for other data sets of the same kind, which few data sets make wide.

**Bradley-Terry.** Strengths b for which the run i beats j with probability 1 / (1 + exp(b_j - b_i)), by maximum
likelihood from the same wins (Hunter 2004, "MM algorithms for generalized Bradley-Terry models", Annals of Statistics
32). Each run has one more tie with a run of strength 0, so all strengths are finite. The ends of the interval are the
strengths at the ends of the interval of the win rate, with those of the other runs unchanged.
"""

from __future__ import annotations

import csv
import dataclasses
import io
import json
import math
import random
import re
import sys
from array import array
from bisect import bisect_left, bisect_right
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from itertools import combinations, groupby, islice
from operator import mul, sub
from statistics import NormalDist
from typing import Any, NamedTuple, TypeVar

from StaICC.errors import ArgumentError, StaICCError, UnknownNameError, known_name, validate_integer
from StaICC.layout import Block, Displayed, Line, TextTable, layout, shared_lines
from StaICC.metrics import paired_tests
from StaICC.metrics.diagnosis import noisy_label_shares
from StaICC.metrics.intervals import Interval
from StaICC.metrics.paired_tests import (
    SIGNIFICANCE_LEVEL,
    PairedDifference,
    directional_holm,
    mean_difference,
    paired_difference,
)
from StaICC.metrics.registry import CONSISTENCY, HEADLINE, Contributions, Mean, MicroF1, Sample, Statistic, score_record
from StaICC.registry import import_reference
from StaICC.results.provenance import ConditionRecord, QueryPosition, query_positions
from StaICC.results.result import Result, ResultGroup, by_benchmark, single_scores, split_runs
from StaICC.safe_text import csv_cell, latex_cell, one_line

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
    if result.benchmark != "GLER":
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
    details, values, long_icl = result.details.get(name), result.divided.get(name), result.benchmark == "LongICL"
    if details is None or values is None:
        raise _LeftOutError("not in this run")
    if saved_value(values, metric) is None and not (details.failed and long_icl):
        reason = details.missing.get(metric) or details.missing.get(f"sensitivity.{metric}")
        raise _LeftOutError(reason or next(iter(details.notes), None) or f"the run has no {metric} here")
    records = {record.name: record for record in details.conditions}
    rounds = (values.get("rounds") or {}) if long_icl else {}
    names = list(records) if not long_icl else list(rounds) if metric == "mean" else [metric]
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


@dataclass(frozen=True)
class Tested:
    """The outcome of a valid test of a difference."""

    case: str = field(default="tested", init=False)
    p_value: float
    holm: float
    """The p-value, corrected by Holm's method."""

    @property
    def significant(self) -> bool:
        """Whether the difference is significant after the correction."""
        return self.holm <= SIGNIFICANCE_LEVEL


@dataclass(frozen=True)
class Untested:
    """No valid test: nothing is known about the difference."""

    case: str = field(default="untested", init=False)
    reason: str


TestOutcome = Tested | Untested
"""What a test of a difference says."""


@dataclass(frozen=True)
class Best:
    """The run has the best value."""

    case: str = field(default="best", init=False)


@dataclass(frozen=True)
class Tied:
    """The run is not shown to be worse than the best one."""

    case: str = field(default="tied", init=False)
    p_value: float
    """Corrected by Holm's method."""


@dataclass(frozen=True)
class Worse:
    """The run is shown to be worse than the best one."""

    case: str = field(default="worse", init=False)
    p_value: float
    """Corrected by Holm's method."""


Verdict = Best | Tied | Worse | Untested
"""What is said about a run of a ranking, in comparison with the best one."""


def verdict_of(outcome: TestOutcome) -> Verdict:
    """Return the verdict about a run whose value is not the best.

    Args:
        outcome: The test of its difference from the best run.
    """
    if isinstance(outcome, Untested):
        return outcome
    return Worse(outcome.holm) if outcome.significant else Tied(outcome.holm)


def p_text(p_value: float) -> str:
    """Return a p-value with three significant digits.

    Args:
        p_value: The p-value.

    Example:
        >>> p_text(0.01234), p_text(1e-7)
        ('p = 0.0123', 'p < 0.0001')
    """
    return f"p = {p_value:.3g}" if p_value >= 1e-4 else "p < 0.0001"


def describe(verdict: Verdict) -> str:
    """Return the verdict with its p-value or its reason.

    Args:
        verdict: The verdict.

    Example:
        >>> describe(Best()), describe(Tied(0.5)), describe(Untested("one row"))
        ('best', 'tied (p = 0.5)', 'untested (one row)')
    """
    if isinstance(verdict, Best):
        return verdict.case
    return f"{verdict.case} ({verdict.reason if isinstance(verdict, Untested) else p_text(verdict.p_value)})"


class Difference(NamedTuple):
    """A setting, or a fact about the model, in which two runs differ."""

    field: str
    first: str | None
    second: str | None

    def __str__(self) -> str:
        return one_line(f"{self.field}: {_shown(self.first)} and {_shown(self.second)}")


def _shown(value: str | None) -> str:
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


COVERAGE = 0.95
MOST_RUNS = 20
"""Of more runs than this, each is compared with the best one only, not with each other one. The correction is still for
all pairs, because the best run is known only from the same rows."""
_TABLE_TOLERANCE = 1e-6


@dataclass(frozen=True, slots=True)
class DatasetComparison:
    """Two runs on one data set, or their means over the data sets."""

    dataset: str
    rows: int
    """Test rows that both runs predicted."""
    queries: int
    """Queries of each run on these rows."""
    values: tuple[float, float]
    """The metric of the first and of the second run."""
    difference: float
    """First minus second."""
    interval: Interval | None
    """Of the difference; ``None`` if it has no bound."""
    outcome: TestOutcome
    """Of the test over test rows. Holm's correction is for all data sets and pairs of runs; that of the mean, or of the
    only data set, for both directions of the pairs of runs."""
    detectable: float | None
    """The smallest true difference that the test finds with probability 0.8 at level 0.05; ``None`` if the runs differ
    on too few rows for any."""

    @property
    def p_value(self) -> float | None:
        """The p-value; ``None`` if untested."""
        return self.outcome.p_value if isinstance(self.outcome, Tested) else None

    @property
    def holm(self) -> float | None:
        """The corrected p-value; ``None`` if untested."""
        return self.outcome.holm if isinstance(self.outcome, Tested) else None


@dataclass(frozen=True, slots=True)
class NonInferiority:
    """Whether a run is not worse than another by more than a margin, in the mean over the data sets."""

    run: str
    than: str
    margin: float
    p_value: float | None
    """One-sided, corrected for the pairs of runs (Holm); ``None`` if undefined."""
    shown: bool
    """Whether it is shown at the one-sided level 0.025, that of a 95 % interval."""

    def __str__(self) -> str:
        p_value = "undefined" if self.p_value is None else f"{self.p_value:.3g}"
        return (
            f"{self.run} not worse than {self.than} by more than {self.margin:g}: "
            f"{'shown' if self.shown else 'not shown'} (one-sided p {p_value}, level 0.025)"
        )


@dataclass(frozen=True, slots=True)
class Comparison(Displayed):
    """Two runs, compared by one metric."""

    benchmark: str
    metric: str
    higher_is_better: bool
    first: str
    """Name of the first run."""
    second: str
    models: tuple[str, str]
    """Who predicted, by name and short identity."""
    differences: tuple[Difference, ...]
    """Settings and facts about the models in which the runs differ."""
    datasets: tuple[DatasetComparison, ...]
    mean: DatasetComparison | None
    """The means over the data sets, if there are several."""
    non_inferiority: tuple[NonInferiority, ...]
    """In both directions, if a margin was given."""
    left_out: tuple[str, ...]
    """Data sets and queries that are not compared, with the reason."""
    signature: str
    """Of the first run; the fields in which that of the second differs are among the differences."""

    @property
    def overall(self) -> DatasetComparison:
        """The mean over the data sets, or the only data set."""
        return self.mean or self.datasets[0]

    @property
    def lines(self) -> list[DatasetComparison]:
        """The data sets, then their mean if there are several."""
        return [*self.datasets, *([self.mean] if self.mean else [])]

    def table(self) -> tuple[list[str], list[list[str]]]:
        """Return the head and the rows of the comparison, as text; the mean comes last."""
        head = ["data set", "rows", "first", "second", "difference", f"{100 * COVERAGE:g} % interval"]
        rows = [
            [
                line.dataset,
                str(line.rows),
                *(f"{value:.4f}" for value in line.values),
                f"{line.difference:+.4f}",
                "-" if line.interval is None else f"{line.interval.low:+.3f} .. {line.interval.high:+.3f}",
                *("-" if p is None else f"{p:.3g}" for p in (line.p_value, line.holm)),
                "-" if line.detectable is None else f"{line.detectable:.3f}",
            ]
            for line in self.lines
        ]
        return [*head, "p", "p (Holm)", "detectable"], rows

    def introduction(self) -> list[str]:
        """Return what a reader must know before the figures: metric, models, each difference, what is left out."""
        lone = [difference for difference in self.differences if None in difference]
        return [
            f"metric: {self.metric} ({'higher' if self.higher_is_better else 'lower'} is better)",
            *(f"{place}: {model}" for place, model in zip(("first", "second"), self.models, strict=True)),
            *(f"they differ in {difference}" for difference in self.differences if difference not in lone),
            *(
                f"only the {place} has {'; '.join(facts)}"
                for place in ("first", "second")
                if (facts := [f"{one.field}: {_shown(getattr(one, place))}" for one in lone if getattr(one, place)])
            ),
            *(f"left out: {reason}" for reason in self.left_out),
        ]

    def conclusion(self) -> list[str]:
        """Return what belongs below the figures: the better run, what is not tested, and non-inferiority."""
        texts = [
            f"untested: {line.dataset} ({line.outcome.reason})"
            for line in self.lines
            if isinstance(line.outcome, Untested)
        ]
        if isinstance(outcome := self.overall.outcome, Tested):
            better = self.first if (self.overall.difference > 0.0) is self.higher_is_better else self.second
            answer = f"{better} is better" if outcome.significant else "neither run is shown to be better"
            texts.insert(0, f"{answer} ({p_text(outcome.holm)})")
        return [*texts, *map(str, self.non_inferiority)]

    def plot(self) -> Any:
        """Return a forest plot of the differences by data set, as matplotlib axes.

        Raises:
            MissingDependencyError: Matplotlib is not installed.
        """
        return _plot([self])

    def to_dict(self) -> dict[str, Any]:
        """Return plain values for JSON."""
        plain = dataclasses.asdict(self)
        plain["differences"] = [difference._asdict() for difference in self.differences]
        for figures in filter(None, [*plain["datasets"], plain["mean"]]):
            outcome = figures["outcome"]
            figures |= {"outcome": outcome.pop("case"), "p_value": None, "holm": None, "reason": None, **outcome}
        return plain

    def display_blocks(self) -> list[Block]:
        """Return the table with what a reader must know before and after it."""
        return [
            Line(f"{self.benchmark}: first {self.first}, second {self.second}", "title"),
            *map(Line, self.introduction()),
            TextTable(*self.table()),
            *map(Line, self.conclusion()),
            Line(f"The signature of {self.first}:", "code"),
            Line(self.signature, "code"),
        ]


@dataclass(frozen=True, slots=True)
class Wins:
    """How a run does against the others over several data sets."""

    rate: float
    """Share of (other run, data set) pairs in which the run has the better value; ties count half."""
    interval: Interval
    """Of the rate, over data sets."""
    strength: float
    """Of the Bradley-Terry model."""
    strength_interval: tuple[float, float]
    """Over data sets."""


@dataclass(frozen=True, slots=True)
class Rank:
    """The place of one run among several."""

    run: str
    value: float
    """The metric, as the mean over the compared data sets."""
    groups: str
    """Letters; two runs share a letter if they are not shown to differ (Holm, level 0.05). Empty for more than
    :data:`MOST_RUNS` runs."""
    verdict: Verdict
    """In comparison with the best run."""
    ranks: tuple[int, int] | None = None
    """The lowest and the highest rank that it can have: all such intervals together contain the true ranks with
    probability 0.95. ``None`` if not all pairs of runs are tested."""
    best: float | None = None
    """Probability of being the best, over bootstrap samples of the test rows (:func:`rank`)."""
    condition_ranks: tuple[int, int] | None = None
    """The lowest and the highest rank with one template, or one draw of the demonstrations (:func:`rank`); ``None`` if
    there is one of each, or if the metric is not the mean over them."""
    wins: Wins | None = None
    """Over the data sets (:func:`rank`); ``None`` if there is only one."""

    @property
    def interval_cell(self) -> str:
        """The interval of ranks as text."""
        return _ends(self.ranks)


def _ends(ends: tuple[float, float] | None, form: str = "") -> str:
    return "-" if ends is None else " .. ".join(dict.fromkeys(format(end, form) for end in ends))


def _rank_table(ranks: Sequence[Rank], metric: str) -> TextTable:
    """Return the runs with what is known of all of them."""
    head, rows = ["rank", "95 %", "run", "group", "verdict", metric], []
    head += ["best"] * (ranks[0].best is not None) + ["conditions"] * (ranks[0].condition_ranks is not None)
    head += ["wins", "95 %", "strength", "95 %"] * (ranks[0].wins is not None)
    for number, rank in enumerate(ranks, 1):
        cells = [str(number), rank.interval_cell, rank.run, rank.groups, describe(rank.verdict), f"{rank.value:.4f}"]
        cells += [] if rank.best is None else [f"{rank.best:.3f}"]
        cells += [] if rank.condition_ranks is None else [_ends(rank.condition_ranks)]
        if wins := rank.wins:
            cells += [f"{wins.rate:.3f}", _ends((wins.interval.low, wins.interval.high), ".2f")]
            cells += [f"{wins.strength:+.2f}", _ends(wins.strength_interval, "+.2f")]
        rows.append(cells)
    return TextTable(head, rows, range(5))


@dataclass(frozen=True, slots=True)
class Ranking(Displayed):
    """Runs of one benchmark, ranked by the mean of one metric."""

    benchmark: str
    metric: str
    higher_is_better: bool
    datasets: tuple[str, ...]
    rows: int
    """Test rows, over all data sets."""
    draws: int
    """Bootstrap samples."""
    seed: int
    runs: tuple[Rank, ...]
    """The best first."""
    left_out: tuple[str, ...]
    """Runs, data sets and queries that are not ranked, with the reason."""

    def to_dict(self) -> dict[str, Any]:
        """Return plain values for JSON."""
        return dataclasses.asdict(self)

    def display_blocks(self) -> list[Block]:
        """Return the table with what its columns mean."""
        direction = "higher" if self.higher_is_better else "lower"
        below = [
            f"95 %: all intervals of ranks together have the true ranks with probability 0.95 (paired tests, Holm over "
            f"both directions of all pairs, level {SIGNIFICANCE_LEVEL:g}). best: share of {self.draws} bootstrap "
            f"samples of the rows (seed {self.seed}) in which the run has the best mean."
        ]
        if self.runs[0].condition_ranks:
            below.append("conditions: lowest and highest rank with one template or one draw of the demonstrations.")
        if self.runs[0].wins:
            below.append("wins: share of other runs and data sets; strength: Bradley-Terry; over data sets.")
        return [
            Line(f"{self.benchmark}: {len(self.runs)} runs", "title"),
            Line(f"{self.metric} ({direction} is better), {len(self.datasets)} data sets, {self.rows} test rows"),
            _rank_table(self.runs, self.metric),
            *map(Line, [*below, *(f"left out: {reason}" for reason in self.left_out)]),
        ]


@dataclass(frozen=True, slots=True)
class BenchmarkComparison(Displayed):
    """Several runs, compared by one metric of one benchmark."""

    benchmark: str
    metric: str
    comparisons: tuple[Comparison, ...]
    ranking: tuple[Rank, ...]
    """The runs, the best first."""
    left_out: tuple[str, ...]
    """Runs and data sets that are not compared, with the reason."""

    def display_blocks(self) -> list[Block]:
        """Return the table of each pair, and the ranking."""
        return display_comparisons([self])

    def plot(self) -> Any:
        """Return a forest plot of the differences from the best run (all, if there is no ranking), as matplotlib axes.

        Raises:
            MissingDependencyError: Matplotlib is not installed.
        """
        best = self.ranking[0].run if self.ranking else None
        return _plot([pair for pair in self.comparisons if best in (None, pair.first, pair.second)])


_PLOTTER = "StaICC.results.report.figures:differences"
"""Draws comparisons, loaded by name: comparisons know no figures."""


def _plot(compared: Sequence[Comparison]) -> Any:
    return import_reference(_PLOTTER)(compared).axes()[0]


def compare(first: Result, second: Result, metric: str | None = None, *, margin: float | None = None) -> Comparison:
    """Compare two results of one benchmark by one metric.

    Args:
        first: A result.
        second: Another, on the same test rows; prompts, method and settings may differ.
        metric: A score with a mean over data sets, such as ``"macro_F1"``; by default the benchmark's main one.
        margin: Also test whether each run is not worse than the other by more than this.

    Returns:
        The comparison.

    Raises:
        ArgumentError: No data set can be compared; the message says why.
        UnknownNameError: The benchmark has no such metric.

    Example:
        >>> from StaICC import Normal
        >>> runs = [Normal(datasets=["mini"], limit=20)(lambda prompt, label_space, n=n: n) for n in (0, 1)]
        >>> found = compare(*runs, "macro_F1")
        >>> found.datasets[0].values == tuple(run["Averaged results"]["macro_F1"] for run in runs)
        True
    """
    return compare_runs({"first": first, "second": second}, metric, margin=margin).comparisons[0]


def compare_runs(
    results: Mapping[str, Result],
    metric: str | None = None,
    *,
    margin: float | None = None,
    reference: str | None = None,
) -> BenchmarkComparison:
    """Compare all pairs of several results of one benchmark by one metric.

    Args:
        results: The results, by the names of their runs; two at least. Of more than :data:`MOST_RUNS`, each is
            compared with the best one.
        metric: As for :func:`compare`.
        margin: As for :func:`compare`.
        reference: Compare this run with each other one, instead of all pairs; there is no ranking then.

    Returns:
        The comparisons, with one correction for all of them, and the ranking.

    Raises:
        ArgumentError: Fewer than two runs can be compared; the message says why.
        UnknownNameError: The benchmark has no such metric, or there is no such reference.
    """
    if margin is not None and (
        isinstance(margin, bool) or not isinstance(margin, (int, float)) or not 0.0 < margin < 1.0
    ):
        raise ArgumentError(f"margin: got {margin!r}, expected a number between 0 and 1, such as 0.01")
    aligned = align(results, metric, reference)
    datasets, better = aligned.datasets, aligned.higher_is_better
    pairs, chosen_from = _pairs(aligned, reference)
    steps = [[paired.difference(*pair) for paired in datasets.values()] for pair in pairs]
    means = [mean_difference(own) for own in steps]
    outcomes = of_datasets = corrected(list(map(difference_outcome, means)), chosen_from=chosen_from)
    if len(datasets) > 1:
        tests = [difference_outcome(step) for own in steps for step in own]
        of_datasets = corrected(tests, paired_tests.holm, chosen_from * len(datasets))
    lines, queries = iter(of_datasets), [paired.queries for paired in datasets.values()]
    not_worse: list[list[NonInferiority]] = [[] for _ in pairs]
    for turn in () if margin is None else (1, -1):
        gains = [mean if (turn == 1) is better else mean.negated for mean in means]
        above = corrected([_above(gain, -(margin or 0.0)) for gain in gains], paired_tests.holm, chosen_from)
        for own, pair, test in zip(not_worse, pairs, above, strict=True):
            p, (run, than) = test.holm if isinstance(test, Tested) else None, pair[::turn]
            shown = p is not None and p <= (1.0 - COVERAGE) / 2.0
            own.append(NonInferiority(run, than, margin or 0.0, p, shown))
    notes = {run: list(_table_notes(run, aligned)) for run in aligned.runs}
    made = []
    for number, pair in enumerate(pairs):
        first, second = (aligned.runs[run] for run in pair)
        figures = map(_figures, datasets, steps[number], queries, lines)
        of_mean = _figures(f"mean of {len(datasets)} data sets", means[number], sum(queries), outcomes[number])
        made.append(
            Comparison(
                aligned.benchmark,
                aligned.metric,
                better,
                *pair,
                (first.model, second.model),
                (*_label_differences(first, second, datasets), *list_differences(first, second)),
                tuple(figures),
                of_mean if len(datasets) > 1 else None,
                tuple(not_worse[number]),
                tuple(dict.fromkeys([*aligned.left_out, *(note for run in pair for note in notes[run])])),
                str(first.signature),
            )
        )
    ranking = ranks_of(aligned, pairs, outcomes) if reference is None else ()
    return BenchmarkComparison(aligned.benchmark, aligned.metric, tuple(made), ranking, aligned.left_out)


@dataclass(frozen=True)
class AlignedRuns:
    """Runs of one benchmark, paired on the data sets and test rows that all of them predicted."""

    benchmark: str
    metric: str
    higher_is_better: bool
    runs: Mapping[str, Result]
    datasets: Mapping[str, PairedRecords]
    left_out: tuple[str, ...]
    """Runs, data sets and queries that are not compared, with the reason."""
    partial: str
    """Why the runs are untested although they can be compared: one of two leaves queries out. Empty if none does."""

    @cached_property
    def means(self) -> dict[str, PairedDifference]:
        """The mean of each run over the data sets, as a sum over their test rows."""
        return {run: mean_difference([paired.alone[run] for paired in self.datasets.values()]) for run in self.runs}

    @cached_property
    def order(self) -> list[str]:
        """The runs, the best first."""
        return sorted(self.runs, key=lambda run: self.means[run].first, reverse=self.higher_is_better)

    @cached_property
    def leaders(self) -> list[str]:
        """The runs with the best value."""
        return [run for run in self.order if self.means[run].first == self.means[self.order[0]].first]

    @property
    def strata(self) -> tuple[int, ...]:
        """The number of test rows of each data set."""
        return self.means[self.order[0]].strata

    def difference(self, first: str, second: str) -> PairedDifference:
        """Return the difference of the means of two runs."""
        return mean_difference([paired.difference(first, second) for paired in self.datasets.values()])


def align(results: Mapping[str, Result], metric: str | None, reference: str | None = None) -> AlignedRuns:
    """Pair the records of several results of one benchmark.

    Args:
        results: As for :func:`compare_runs`.
        metric: As for :func:`compare`.
        reference: A run that must be among those compared.

    Raises:
        ArgumentError: Fewer than two runs can be compared; the message says why.
        UnknownNameError: The benchmark has no such metric, or there is no such reference.
    """
    if not isinstance(results, Mapping) or not all(isinstance(result, Result) for result in results.values()):
        raise ArgumentError(f"results: got {results!r:.80}, expected a mapping of names to results. load() reads files")
    early = "it stopped early, and these tests need a fixed number of rows: use race, or full runs"
    left_out = [f"{name} ({early})" for name, result in results.items() if result.stopping is not None]
    results = {name: result for name, result in results.items() if result.stopping is None}
    if reference is not None:
        results = {reference: results[known_name("run", reference, results)], **results}
    partial = {name: reason for name, result in results.items() if (reason := _leaves_queries_out(result))}
    if len(results) - len(partial) >= 2 and reference not in partial:  # their rows are those of all runs
        left_out += [f"{name} ({reason}: compare it with one run at a time)" for name, reason in partial.items()]
        results = {name: result for name, result in results.items() if name not in partial}
        partial = {}
    if len(results) < 2:
        listed = "; ".join(left_out) or "none"
        raise ArgumentError(f"at least two runs are needed: got {len(results)}. Left out: {listed}")
    leader, first = next(iter(results.items()))
    known = metrics_of(first)
    if metric is None:
        metric = HEADLINE.get(first.benchmark, "")
        metric = metric if metric in known else next(iter(known), "accuracy")
    known_name("metric", metric, known)
    better = score_record(first.benchmark, metric, first.higher_is_better).higher_is_better
    if better is None and metric in first.query_scores:
        raise ArgumentError(f"{metric}: got a metric without a direction, expected Metric(..., higher_is_better=...)")
    kept = dict(results)
    pairs, reasons = _pair_datasets(kept, metric)
    for name, result in results.items() if reasons else ():  # because of one of the runs, or of all
        common, why = _pair_datasets({leader: first, name: result}, metric)
        listed = "; ".join(f"{sets}: {reason}" for reason, sets in why.items())
        if first.divided.keys().isdisjoint(result.divided):
            listed = f"its data sets are {', '.join(result.divided)}, not {', '.join(first.divided)}"
        if name != leader and not common:
            left_out.append(f"{name} ({listed})")
            del kept[name]
    if reasons:
        pairs, reasons = _pair_datasets(kept, metric) if len(kept) > 1 else ({}, {})
    left_out += [f"{sets} ({reason})" for reason, sets in reasons.items()]
    if not pairs:
        raise ArgumentError(f"nothing can be compared with {leader} by {metric}: {'; '.join(dict.fromkeys(left_out))}")
    left_out += [f"{dataset}: {note}" for dataset, paired in pairs.items() for note in paired.notes]
    left_out = list(dict.fromkeys(left_out))
    return AlignedRuns(first.benchmark, metric, bool(better), kept, pairs, tuple(left_out), "; ".join(partial.values()))


def _pair_datasets(runs: Mapping[str, Result], metric: str) -> tuple[dict[str, PairedRecords], dict[str, str]]:
    """Return the records of the runs by data set, and by reason the data sets on which they cannot be compared."""
    pairs: dict[str, PairedRecords] = {}
    reasons: dict[str, str] = {}
    for dataset in dict.fromkeys(name for result in runs.values() for name in result.divided):
        try:
            pairs[dataset] = pair_records(runs, dataset, metric)
        except StaICCError as error:
            reasons[str(error)] = f"{reasons[str(error)]}, {dataset}" if str(error) in reasons else dataset
    return pairs, reasons


def standings(
    runs: Mapping[str, Result], metric: str, higher_is_better: bool, all_pairs: bool = False
) -> dict[str, Rank]:
    """Return the place of each run that has a value of a metric, with the verdict in comparison with the best value.

    Args:
        runs: Results of one benchmark, by the names of their runs.
        metric: A score with a mean over data sets.
        higher_is_better: Whether larger values are better.
        all_pairs: Test all pairs of runs, which intervals of ranks need; by default, more than :data:`MOST_RUNS` runs
            are compared with the best one only.
    """
    values = {name: value for name, result in runs.items() if (value := result.averaged.get(metric)) is not None}
    partial = {name: reason for name in values if (reason := _leaves_queries_out(runs[name]))}
    known = {name: value for name, value in values.items() if name not in partial}
    best = (max if higher_is_better else min)(known.values(), default=None)
    shown: dict[str, Rank] = {}
    try:
        aligned = align({name: runs[name] for name in known}, metric)
        ranks, reason = rank_runs(aligned, all_pairs), "; ".join(aligned.left_out)
        shown = {place.run: place for place in ranks if abs(place.value - known[place.run]) <= _TABLE_TOLERANCE}
    except StaICCError as error:
        reason = str(error)
    if not any(known[name] == best for name in shown):
        shown = {}
    reason = reason or "the comparison has another value of this score"
    places = {}
    for name, value in values.items():
        place = shown.get(name, Rank(name, value, "", Untested(partial.get(name, reason))))
        places[name] = replace(place, verdict=Best()) if value == best and name in known else place
    return places


def corrected(
    outcomes: Sequence[TestOutcome],
    method: Callable[[Sequence[float | None]], list[float | None]] = directional_holm,
    chosen_from: int = 0,
) -> list[TestOutcome]:
    """Return tests with corrected p-values.

    Args:
        outcomes: The tests.
        method: The correction; by default that for both directions of all pairs of runs.
        chosen_from: Number of tests from which these were chosen by their values (Bonferroni); 0 if they were not
            chosen.
    """
    p_values = [outcome.p_value if isinstance(outcome, Tested) else None for outcome in outcomes]
    adjusted = [p and min(1.0, p * chosen_from) for p in p_values] if chosen_from else method(p_values)
    return [
        replace(outcome, holm=p) if isinstance(outcome, Tested) and p is not None else outcome
        for outcome, p in zip(outcomes, adjusted, strict=True)
    ]


def _pairs(aligned: AlignedRuns, reference: str | None = None) -> tuple[list[tuple[str, str]], int]:
    """Return the pairs that are compared, and from how many they were chosen by their values; 0 if they were not."""
    runs, few = list(aligned.runs), reference is None and len(aligned.runs) <= MOST_RUNS
    hubs = runs if few else [reference] if reference is not None else aligned.leaders
    pairs = [(hub, run) for place, hub in enumerate(hubs) for run in runs if run not in hubs[: place + 1]]
    return pairs, 0 if few or reference is not None else math.comb(len(runs), 2)


def difference_outcome(difference: PairedDifference) -> TestOutcome:
    """Return the test of a difference, without a correction.

    Args:
        difference: The difference.
    """
    if (reason := paired_tests.too_few_rows(difference)) is not None:
        return Untested(reason)
    p = paired_tests.p_value(difference)
    return Tested(p, p)


def _above(difference: PairedDifference, least: float) -> TestOutcome:
    """Return the one-sided test of "the difference is at most `least`"."""
    if difference.unbounded:
        return Untested("one more row could change the metric without limit")
    p = paired_tests.upper_p_value(difference, least)
    return Tested(p, p)


def _figures(name: str, difference: PairedDifference, queries: int, outcome: TestOutcome) -> DatasetComparison:
    values, interval = (difference.first, difference.second), paired_tests.difference_interval(difference, COVERAGE)
    detectable, rows = paired_tests.detectable_difference(difference), len(difference.steps)
    return DatasetComparison(name, rows, queries, values, difference.difference, interval, outcome, detectable)


def _table_notes(run: str, aligned: AlignedRuns) -> Iterator[str]:
    """Yield where a run's table has another value although all its queries are compared."""
    result = aligned.runs[run]
    for dataset, paired in aligned.datasets.items():
        saved, value = saved_value(result.divided[dataset], aligned.metric), paired.alone[run].first
        if paired.runs[run].queries == paired.queries and saved is not None and abs(saved - value) > _TABLE_TOLERANCE:
            metrics = result.signature.fields.get("metrics") or "standard"
            yield (
                f"{dataset}: the table of {run} has {saved:.4f} (metrics {metrics}); from its records it is "
                f"{value:.4f}. Another version or another metric set has other definitions; otherwise the file "
                "may have been changed: check it with verify"
            )


def _label_differences(first: Result, second: Result, pairs: Mapping[str, PairedRecords]) -> Iterator[Difference]:
    for dataset in pairs:
        labels = [result.details[dataset].labels for result in (first, second)]
        if labels[0] != labels[1]:
            yield Difference(f"labels of {dataset}", *("/".join(names) or None for names in labels))


def _leaves_queries_out(result: Result) -> str | None:
    """Return which queries the scores of a run leave out: the others can be those that it predicts well."""
    if not result.complete:
        return "some of its queries failed"
    return f"its scores leave out {result.excluded} replies without a label" if result.excluded else None


def ranks_of(
    aligned: AlignedRuns, pairs: Sequence[tuple[str, str]], outcomes: Sequence[TestOutcome]
) -> tuple[Rank, ...]:
    """Return the runs with their verdicts, the best first.

    If :func:`directional_holm` corrected the p-values of all pairs, the intervals of ranks contain all true ranks with
    probability 0.95 (Mogstad, Romano, Shaikh and Wilhelm 2024, "Inference for Ranks", Review of Economic Studies 91):
    a run is behind each run that is shown to be better, and before each one that is shown to be worse. If several runs
    have the best value, the verdict about another is that of the smallest p-value.

    Args:
        aligned: The runs.
        pairs: All pairs of runs, or each with a run of the best value.
        outcomes: Their tests.
    """
    order, leaders = aligned.order, aligned.leaders
    values = {run: aligned.means[run].first for run in order}
    if aligned.partial:
        return tuple(Rank(run, values[run], "", Untested(aligned.partial)) for run in order)
    tested = dict(zip(map(frozenset, pairs), outcomes, strict=True))
    complete = len(tested) == len(order) * (len(order) - 1) // 2
    differ = {pair for pair, test in tested.items() if isinstance(test, Tested) and test.significant}
    groups = _groups(order, differ) if complete and len(order) <= MOST_RUNS else []
    ranks = []
    for place, run in enumerate(order):
        letters = "".join(_letter(n) for n, group in enumerate(groups) if run in group)
        better = sum(frozenset((run, other)) in differ for other in order[:place])
        worse = sum(frozenset((run, other)) in differ for other in order[place + 1 :])
        tests = [] if run in leaders else [tested[frozenset((leader, run))] for leader in leaders]
        verdict = verdict_of(min(tests, key=_evidence)) if tests else Best()
        interval = (1 + better, len(order) - worse) if complete else None
        ranks.append(Rank(run, values[run], letters, verdict, interval))
    return tuple(ranks)


def _evidence(outcome: TestOutcome) -> tuple[float, str]:
    """Return what sorts the strongest evidence first."""
    return (outcome.holm, "") if isinstance(outcome, Tested) else (2.0, outcome.reason)


def _letter(number: int) -> str:
    return chr(ord("a") + number) if number < 26 else f"({number + 1})"


def _groups(order: Sequence[str], differing: set[frozenset[str]]) -> list[set[str]]:
    """Return groups in which no two runs differ, so that any two runs that do not differ are together in one of them.

    Each group begins with two runs that are in no group together yet, and takes all others that fit, the best first.
    """
    groups: list[set[str]] = []
    together: set[frozenset[str]] = set()
    for place, first in enumerate(order):
        for second in order[place:]:
            if frozenset((first, second)) in differing | together:
                continue
            group = {first, second}
            for run in order:
                if not any(frozenset((run, other)) in differing for other in group):
                    group.add(run)
            together |= {frozenset((a, b)) for a in group for b in group}
            groups.append(group)
    return sorted(groups, key=lambda group: sorted(map(order.index, group)))


def rank(results: Mapping[str, Result], metric: str | None = None, *, draws: int = 1000, seed: int = 0) -> Ranking:
    """Rank results of one benchmark by the mean of one metric.

    Args:
        results: The results, by the names of their runs; two at least.
        metric: A score with a mean over data sets; by default the benchmark's main one.
        draws: Bootstrap samples for the probability of being the best.
        seed: Of the bootstrap.

    Returns:
        The runs, the best first. Runs and data sets that cannot be compared are left out, with the reason.

    Raises:
        ArgumentError: Fewer than two runs can be compared; the message says why.
        UnknownNameError: The benchmark has no such metric.

    Example:
        >>> from StaICC import Normal
        >>> runs = {str(n): Normal(datasets=["mini"], limit=20)(lambda prompt, label_space, n=n: n) for n in (0, 1, 2)}
        >>> ranking = rank(runs)
        >>> [run.ranks for run in ranking.runs]
        [(1, 3), (1, 3), (1, 3)]
    """
    draws = validate_integer("draws", draws, 1)
    seed = validate_integer("seed", seed, 0)
    aligned = align(results, metric)
    best, conditions, wins = _shares_of_best(aligned, draws, seed), _condition_ranks(aligned), _wins(aligned)
    runs = tuple(
        replace(place, best=best[place.run], condition_ranks=conditions.get(place.run), wins=wins.get(place.run))
        for place in rank_runs(aligned)
    )
    facts = aligned.benchmark, aligned.metric, aligned.higher_is_better, tuple(aligned.datasets), sum(aligned.strata)
    return Ranking(*facts, draws, seed, runs, aligned.left_out)


def rank_runs(aligned: AlignedRuns, all_pairs: bool = True) -> tuple[Rank, ...]:
    """Return the runs with the intervals of their ranks, the best first.

    Args:
        aligned: The runs.
        all_pairs: Test all pairs of runs, which intervals of ranks need; else more than :data:`MOST_RUNS` runs are
            compared with the best one only.
    """
    pairs, chosen_from = (list(combinations(aligned.order, 2)), 0) if all_pairs else _pairs(aligned)
    bound = _bounds(aligned) if all_pairs and len(aligned.runs) > MOST_RUNS else lambda first, second: None
    outcomes: list[TestOutcome] = []
    for first, second in pairs:  # of many runs, only those of the best ones have their exact p-value
        p = None if first in aligned.leaders else bound(first, second)
        outcomes.append(difference_outcome(aligned.difference(first, second)) if p is None else Tested(p, p))
    return ranks_of(aligned, pairs, corrected(outcomes, chosen_from=chosen_from))


def _bounds(aligned: AlignedRuns) -> Callable[[str, str], float | None]:
    """Return upper bounds of p-values that are as good as the p-values for the correction of many pairs.

    Returns:
        A function of two runs, the second of which is not better. It returns a bound of the two-sided p-value (see the
        module); ``None`` if there is none, and the pair must be tested.
    """
    means = aligned.means
    columns = list(zip(*(mean.steps for mean in means.values()), strict=True))
    width, rows = max(max(column) - min(column) for column in columns), len(columns)
    hypotheses = len(means) * (len(means) - 1)
    last_step = 2.0 * SIGNIFICANCE_LEVEL / hypotheses
    needed = (0.9 * NormalDist().inv_cdf(1.0 - last_step)) ** 2
    simple = all(
        paired.statistic.independent and not own.unbounded and not own.raised and not own.lowered
        for paired in aligned.datasets.values()
        for own in paired.alone.values()
    )

    def bound(first: str, second: str) -> float | None:
        above, below = (means[run] for run in ((first, second) if aligned.higher_is_better else (second, first)))
        size, square = above.first - below.first, math.dist(above.steps, below.steps) ** 2
        if size * size <= needed * (square - size * size / rows):
            return 1.0
        if not simple:
            return None
        low, high = above.low - below.high, above.high - below.low
        if (p := _chernoff(size, square, width, -low, rows)) > SIGNIFICANCE_LEVEL / hypotheses:
            steps = list(map(sub, above.steps, below.steps))
            gap = PairedDifference(above.first, below.first, steps, low, high, strata=above.strata)
            p = paired_tests.upper_p_value(gap)
        return 1.0 if p > last_step else 2.0 * p

    return bound


def _chernoff(size: float, square: float, width: float, pseudo_row: float, rows: int) -> float:
    """Return an upper bound of the one-sided p-value of a positive difference of this size (see the module)."""
    mean = size / rows
    variance = max(0.0, square / rows - mean * mean)
    upper = mean + variance / (mean + width)
    share = variance / (variance + (mean + width) ** 2)
    best = 0.0
    for part in range(1, 20):
        s = 0.05 * part / max(width, pseudo_row)
        of_rows = share * math.log1p(-s * width) + (1.0 - share) * math.log1p(s * upper)
        best = min(best, -rows * of_rows - math.log1p(-s * pseudo_row))
    return math.exp(best)


def _shares_of_best(aligned: AlignedRuns, draws: int, seed: int) -> dict[str, float]:
    """Return the share of bootstrap samples of the test rows in which each run has the best mean.

    The contributions of a row to all means are the 64-bit fields of one integer, so that all runs are summed at once.
    They are rounded to 20 bits above the smallest one of the row: only differences of runs can be computed from them.
    """
    means = aligned.means
    rows = list(zip(*(mean.steps for mean in means.values()), strict=True))
    unit = max(max(row) - min(row) for row in rows) / (2**20 - 1) or 1.0
    numbers = (array("Q", [round((x - least) / unit) for x in row]) for row in rows for least in [min(row)])
    packed = [int.from_bytes(of_runs.tobytes(), sys.byteorder) for of_runs in numbers]
    following = iter(packed)
    parts = [list(islice(following, size)) for size in aligned.strata]
    generator, wins, best = random.Random(seed), [0.0] * len(means), max if aligned.higher_is_better else min
    for _ in range(draws):
        total = sum(sum(generator.choices(part, k=len(part))) for part in parts)
        values = array("Q", total.to_bytes(8 * len(means), sys.byteorder))
        first = best(values)
        for number in (number for number, value in enumerate(values) if value == first):
            wins[number] += 1.0 / values.count(first)
    return {run: share / draws for run, share in zip(means, wins, strict=True)}


def _places(values: Mapping[str, float], higher_is_better: bool) -> Iterator[tuple[str, int, int]]:
    """Yield each run with the number of runs that are better, and of those that are worse."""
    ordered = sorted(values.values())
    for run, value in values.items():
        below, above = bisect_left(ordered, value), len(ordered) - bisect_right(ordered, value)
        yield (run, above, below) if higher_is_better else (run, below, above)


def _condition_ranks(aligned: AlignedRuns) -> dict[str, tuple[int, int]]:
    """Return the range of the ranks of each run over templates and draws of demonstrations."""
    ranks: dict[str, list[int]] = {run: [] for run in aligned.runs}
    values = [paired.condition_values for paired in aligned.datasets.values()]
    if len({tuple(of_dataset) for of_dataset in values}) > 1:  # data sets with other conditions
        return {}
    for condition in values[0]:
        means = {run: math.fsum(of_dataset[condition][run] for of_dataset in values) for run in aligned.runs}
        for run, better, _ in _places(means, aligned.higher_is_better):
            ranks[run].append(1 + better)
    return {run: (min(of_run), max(of_run)) for run, of_run in ranks.items() if len(of_run) > 1}


def _wins(aligned: AlignedRuns) -> dict[str, Wins]:
    """Return win rate and strength of each run; nothing with one data set."""
    others, count = len(aligned.runs) - 1, len(aligned.datasets)
    if count < 2:
        return {}
    rates: dict[str, list[float]] = {run: [] for run in aligned.runs}
    for paired in aligned.datasets.values():
        values = {run: own.first for run, own in paired.alone.items()}
        for run, better, worse in _places(values, aligned.higher_is_better):
            rates[run].append((others + worse - better) / 2.0 / others)
    means = {run: math.fsum(own) / count for run, own in rates.items()}
    strengths = _strengths(means, count)
    wins = {}
    for run, own in rates.items():
        steps = [(rate - 0.5) / count for rate in own]
        lead = PairedDifference(means[run], 0.5, steps, -0.5 / count, 0.5 / count, 0.5)
        interval = paired_tests.difference_interval(lead)
        assert interval is not None  # a rate has bounds
        interval = replace(interval, low=interval.low + 0.5, high=interval.high + 0.5)
        rivals = [*(strength for other, strength in strengths.items() if other != run), 0.0]
        low, high = (_newton(rate * count * others + 0.5, rivals, count) for rate in (interval.low, interval.high))
        wins[run] = Wins(means[run], interval, strengths[run], (min(low, strengths[run]), max(high, strengths[run])))
    return wins


def _newton(wanted: float, rivals: Sequence[float], games: int, strength: float = 0.0, steps: int = 100) -> float:
    """Return the strength with the wanted number of wins, by steps of size 1 at most.

    Args:
        wanted: The number of wins.
        rivals: Their strengths; the last one is met once.
        games: The number of games against each of the others.
        strength: Where the steps begin.
        steps: How many steps are made at most.
    """
    for _ in range(steps):
        *chances, last = [1.0 / (1.0 + math.exp(min(700.0, rival - strength))) for rival in rivals]
        wins = math.fsum(chances)
        slope = games * (wins - math.fsum(map(mul, chances, chances))) + last * (1.0 - last)
        step = (wanted - games * wins - last) / slope
        strength += max(-1.0, min(1.0, step))
        if abs(step) < 1e-9:
            break
    return strength


def _strengths(win_rates: Mapping[str, float], count: int) -> dict[str, float]:
    """Return the strengths that maximise the likelihood, by Newton steps for one run after the other."""
    values = [0.0] * len(win_rates)
    for _ in range(200):
        shift = _newton(len(values) / 2.0, [-value for value in values], 1)  # the ties alone decide about it
        values = [value + shift for value in values]
        before = list(values)
        for place, rate in enumerate(win_rates.values()):
            rivals = [*values[:place], *values[place + 1 :], 0.0]
            values[place] = _newton(rate * count * (len(values) - 1) + 0.5, rivals, count, values[place], steps=1)
        if max(map(abs, map(sub, values, before))) < 1e-7:
            break
    return dict(zip(win_rates, values, strict=True))


_MEANING = (
    "difference: first minus second, with its interval over test rows; p: paired test over test rows (-: untested); p "
    "(Holm): of a data set, corrected for data sets and pairs of runs, of the mean, for pairs of runs and directions; "
    "detectable: if the true difference were this large, a test on such rows would be significant (level 0.05) with "
    "probability 0.8 (-: too few rows differ to state one)"
)


_Made = TypeVar("_Made")


def of_benchmarks(
    results: Mapping[str, Result | ResultGroup], function: Callable[[dict[str, Result]], _Made]
) -> tuple[list[_Made], list[str]]:
    """Call a function with the runs of each benchmark that has two at least.

    Args:
        results: Results, or groups of results, by the name that tells them apart (see
            :func:`~StaICC.results.result.split_runs`); two runs at least.
        function: Compares results of one benchmark.

    Returns:
        What the function returned, and what was left out, with the reason in brackets.

    Raises:
        ArgumentError: There are fewer than two runs, or nothing can be compared; the message says why.
        UnknownNameError: No benchmark has the metric.
    """
    runs = split_runs(results)
    if len(runs) < 2:
        raise ArgumentError(f"a comparison needs two results at least, {len(runs)} given")
    left_out: list[str] = []
    made: list[_Made] = []
    errors: list[ArgumentError | UnknownNameError] = []
    for benchmark, own in by_benchmark(results).items():
        if missing := [name for name in runs if name not in own]:
            left_out.append(f"{benchmark} (not in {', '.join(missing)})")
        try:
            made += [function(own)] if len(own) > 1 else []
        except (ArgumentError, UnknownNameError) as error:
            errors.append(error)
            left_out.append(f"{benchmark} ({error})")
    if not made:
        described = " and ".join(f"{name} ({', '.join(parts)})" for name, parts in runs.items())
        raise errors[0] if errors else ArgumentError(f"{described} share no benchmark")
    return made, left_out


def compare_all(
    results: Mapping[str, Result | ResultGroup], metric: str | None = None, *, margin: float | None = None
) -> tuple[tuple[BenchmarkComparison, ...], tuple[str, ...]]:
    """Compare all pairs of results.

    Args:
        results: As for :func:`of_benchmarks`.
        metric: A score, such as ``"macro_F1"``; by default the main one of each benchmark.
        margin: Also test whether each run is not worse than the other by more than this.

    Returns:
        The comparison of each benchmark, and what was left out, with the reason in brackets. Errors are those of
        :func:`of_benchmarks`.
    """
    compared, left_out = of_benchmarks(results, lambda own: compare_runs(own, metric, margin=margin))
    return tuple(compared), (*left_out, *(reason for comparison in compared for reason in comparison.left_out))


def _ranking_blocks(comparison: BenchmarkComparison) -> list[Block]:
    below = [f"The verdict is in comparison with the best run (Holm, level {SIGNIFICANCE_LEVEL:g})."]
    if any(rank.groups for rank in comparison.ranking):
        below.append("Runs share a letter if they are not shown to differ in the mean.")
    title = Line(f"{comparison.benchmark}: ranking", "title")
    return [title, _rank_table(comparison.ranking, comparison.metric), *map(Line, below)]


def _groups_of_blocks(comparisons: Sequence[BenchmarkComparison]) -> Iterator[list[Block]]:
    for comparison in comparisons:
        yield from (pair.display_blocks() for pair in comparison.comparisons)
        if len(comparison.ranking) > 2:
            yield _ranking_blocks(comparison)


def display_comparisons(comparisons: Sequence[BenchmarkComparison]) -> list[Block]:
    """Return comparisons and rankings as tables with what is known about them.

    Args:
        comparisons: The comparisons.
    """
    groups, shared = shared_lines(list(_groups_of_blocks(comparisons)))
    spaced = [block for group in groups for block in (*group, Line(""))]
    return [*shared, *spaced, Line(_MEANING)]


def _line(text: str) -> str:
    """Return a text as one line, whatever names it holds."""
    return one_line(" ".join(text.split()))


def _markdown_cell(text: str) -> str:
    return "".join(f"\\{letter}" if letter in "\\`*_{}[]<>#|~$&" else letter for letter in _line(text))


def _markdown_code(text: str) -> str:
    """Set a text as code; the fence is longer than any row of backticks within."""
    fence = "`" * (1 + max(map(len, re.findall("`+", text)), default=0))
    return f"{fence}{text}{fence}" if len(fence) == 1 else f"{fence} {text} {fence}"


def _markdown_block(block: Block) -> str:
    if isinstance(block, TextTable):
        rule = ["---" if column in block.texts else "---:" for column in range(len(block.head))]
        head, *rows = ([_markdown_cell(cell) for cell in row] for row in (block.head, *block.rows))
        return "\n".join(f"| {' | '.join(row)} |" for row in (head, rule, *rows))
    if block.kind == "code":
        return _markdown_code(_line(block.text))
    text = _markdown_cell(block.text)
    return f"**{text}**" if block.kind == "title" else f"* {text}"


def _markdown(blocks: Iterable[Block]) -> str:
    groups = groupby(blocks, lambda block: "table" if isinstance(block, TextTable) else block.kind)
    return "\n\n".join("\n".join(map(_markdown_block, group)) for _, group in groups)


def _latex_number(text: str) -> str:
    """Set the minus sign as one, and the dots of an interval."""
    escaped = latex_cell(text)
    if not escaped or escaped == "-":
        return "--" if escaped else ""
    return " .. ".join(f"${part}$" for part in escaped.split(" .. ")).replace("$ .. $", r" \ldots ")


def latex_table(caption: Sequence[str], head: Sequence[str], rows: Sequence[Sequence[str]], left: int = 1) -> str:
    """Return a table for LaTeX, without its end, so that comments can follow.

    Args:
        caption: The parts of the caption, as plain text.
        head: Column heads, as plain text.
        rows: Cells, as LaTeX.
        left: Number of columns that are aligned left.
    """
    lines = [" & ".join(map(latex_cell, head)) + r" \\", *(" & ".join(row) + r" \\" for row in rows)]
    return (
        "\\begin{table}\n\\centering\n"
        f"\\caption{{{'; '.join(map(latex_cell, caption))}}}\n"
        f"\\begin{{tabular}}{{{'l' * left}{'r' * (len(head) - left)}}}\n\\hline\n{lines[0]}\n\\hline\n"
        + "\n".join(lines[1:])
        + "\n\\hline\n\\end{tabular}\n"
    )


def _latex(blocks: Sequence[Block]) -> str:
    lines = [block for block in blocks if isinstance(block, Line)]
    (table,) = (block for block in blocks if isinstance(block, TextTable))
    cells = [
        [latex_cell(cell) if column in table.texts else _latex_number(cell) for column, cell in enumerate(row)]
        for row in table.rows
    ]
    text = latex_table([line.text for line in lines if line.kind != "code"], table.head, cells, len(table.texts))
    return text + "".join(f"% {_line(line.text)}\n" for line in lines if line.kind == "code") + "\\end{table}"


def _csv(comparisons: Sequence[BenchmarkComparison]) -> str:
    """Return one line for each data set and mean of each pair, with all digits; the last line has all other notes."""
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    runs = ("first run", "second run", "data set", "rows", "first", "second", "difference")
    writer.writerow(["benchmark", "metric", *runs, "low", "high", "p", "p (Holm)", "detectable", "note"])
    for pair in (pair for comparison in comparisons for pair in comparison.comparisons):
        for line in pair.lines:
            ends = (line.interval.low, line.interval.high) if line.interval else (None, None)
            names = (pair.benchmark, pair.metric, pair.first, pair.second, line.dataset)
            figures = (line.rows, *line.values, line.difference, *ends, line.p_value, line.holm, line.detectable)
            note = line.outcome.reason if isinstance(line.outcome, Untested) else ""
            note = "; ".join([*pair.left_out, *pair.conclusion()]) if line is pair.overall else note
            *cells, note = (csv_cell(_line(cell)) for cell in (*names, note))
            writer.writerow([*cells, *figures, note])
    return text.getvalue().rstrip("\n")


TABLE_FORMATS: Mapping[str, Callable[[Sequence[Block]], str]] = {"text": layout, "markdown": _markdown, "latex": _latex}
"""What writes a table down, by format."""
FORMATS = (*TABLE_FORMATS, "csv", "json")
"""What :func:`format_comparisons` can write."""
RANKING_FORMATS = (*TABLE_FORMATS, "json")
"""What :func:`format_rankings` can write."""


def format_comparisons(comparisons: Sequence[BenchmarkComparison], form: str = "text") -> str:
    """Write comparisons down.

    Args:
        comparisons: The comparisons.
        form: One of :data:`FORMATS`.

    Returns:
        The text; names of data sets and files are escaped as the format needs.

    Raises:
        UnknownNameError: There is no such format.
    """
    if known_name("format", form, FORMATS) == "csv":
        return _csv(comparisons)
    if form == "json":
        plain = [
            dataclasses.asdict(comparison) | {"comparisons": [pair.to_dict() for pair in comparison.comparisons]}
            for comparison in comparisons
        ]
        return json.dumps(plain, ensure_ascii=False, indent=1, allow_nan=False)
    if form == "text":
        return layout(display_comparisons(comparisons))
    return "\n\n".join(map(TABLE_FORMATS[form], _groups_of_blocks(comparisons)))


def format_rankings(rankings: Sequence[Ranking], form: str = "text") -> str:
    """Write rankings down; arguments and errors as for :func:`format_comparisons`, without CSV."""
    if known_name("format", form, RANKING_FORMATS) == "json":
        return json.dumps([ranking.to_dict() for ranking in rankings], ensure_ascii=False, indent=1, allow_nan=False)
    return "\n\n".join(TABLE_FORMATS[form](ranking.display_blocks()) for ranking in rankings)

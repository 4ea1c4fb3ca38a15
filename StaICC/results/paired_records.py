"""The records of several runs on one data set, paired by test row, and the scores by which they are compared.

Runs are comparable if they have the same test rows with the same true labels, whatever their prompts: method, k,
template and channel may differ. A query is found again by its test row and its place among the queries of that row, so
the order of the records does not matter.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

from StaICC.errors import StaICCError
from StaICC.metrics import paired_tests
from StaICC.metrics.diagnosis import noisy_label_shares
from StaICC.metrics.paired_tests import Contributions, PairedDifference, Queries, contributions, paired_difference
from StaICC.metrics.registry import ScoreRecord, score_record
from StaICC.results.provenance import ConditionRecord, DatasetDetails, Key, query_keys
from StaICC.results.result import Result

_NOT_SCORES = frozenset({"distribution", "uniform", "majority"})

_LONGEST_REPLY = 100.0
"""Labels that one reply can name: the default limit of its tokens."""


def metrics_of(result: Result) -> list[str]:
    """Return the scores of a result that have a mean over data sets."""
    return [name for name in result.averaged if name not in _NOT_SCORES]


@dataclass(frozen=True, slots=True)
class _Records:
    """The records of one run on one data set."""

    conditions: Mapping[str, Mapping[Key, tuple[int, Any]]]
    """By condition and query: the true label (or the number of true labels), and what the metric needs of the
    prediction; ``None`` for a failed query."""
    labels: tuple[str, ...]
    weights: tuple[float, ...]
    """Of the conditions in the score."""
    queries: int
    most: tuple[float, float] | None = None
    """The largest possible numbers of true and of predicted labels of a query, for micro F1."""


_Term = tuple[float, Contributions]
"""A condition's weight, and what each row contributes to its metric."""


class _LeftOutError(StaICCError):
    """A data set cannot be compared, for the reason in the message."""


def probabilities_of(record: ConditionRecord, width: int) -> list[Any]:
    """Return one distribution for each query; ``None`` for failed ones.

    Args:
        record: The records of a condition.
        width: Size of the label space.

    Raises:
        StaICCError: The predictions have no probabilities.
    """
    if record.output == "labels":
        one_hot = [[float(label == place) for place in range(width)] for label in range(width)]
        return [None if label is None else one_hot[label] for label in record.predictions]
    if record.scores is None or record.output not in ("probabilities", "logits"):
        raise _LeftOutError(f"the predictions are {record.output}, which have no probabilities")
    return record.probabilities(width)


def _weights(result: Result, names: Sequence[str]) -> tuple[float, ...]:
    """Return the weights of the conditions: a regression slope for label noise, else their mean."""
    if result.benchmark != "GLER":
        return (1.0 / len(names),) * len(names)
    k = result.signature.fields.get("k") or ""
    if not k.isdecimal() or len(names) < 2:
        raise _LeftOutError(f"the run has no single k ({k}), so the slope has no abscissas")
    shares = noisy_label_shares(int(k), len(names))
    middle = sum(shares) / len(shares)
    spread = sum((share - middle) ** 2 for share in shares)
    if not spread:
        raise _LeftOutError("without demonstrations, labels cannot be wrong")
    return tuple((share - middle) / spread for share in shares)


def _read(result: Result, name: str, score: ScoreRecord) -> _Records:
    """Read what a metric needs of one data set.

    Raises:
        _LeftOutError: The metric, or the records, are missing.
    """
    details, values, metric = result.details.get(name), result.divided.get(name), score.key
    if details is None or values is None:
        raise _LeftOutError("not in this run")
    saved = saved_value(values, metric)
    if saved is None and not (details.failed and result.benchmark == "LongICL"):
        reason = details.missing.get(metric) or details.missing.get(f"sensitivity.{metric}")
        raise _LeftOutError(reason or next(iter(details.notes), None) or f"the run has no {metric} here")
    if result.benchmark == "LongICL":
        return _read_long_icl(details, values, metric)
    if not details.conditions:
        raise _LeftOutError("the file has no records of its queries")
    conditions: dict[str, dict[Key, tuple[int, Any]]] = {}
    bare = {record.name for record in details.conditions if record.output == "labels"}
    if score.reads == "probabilities" and bare:
        raise _LeftOutError("the predictions are bare labels, which have no probabilities")
    count_wrong = result.signature.fields.get("unparsed") == "wrong" and score.of_classification
    for record in details.conditions:
        width = len(details.labels) or 1 + max(*record.truth, *(label or 0 for label in record.predictions))
        answers = list(record.predictions) if score.reads == "labels" else probabilities_of(record, width)
        for reply in details.unparsed if count_wrong else ():
            if reply.condition == record.name:
                label = (record.truth[reply.query] + 1) % width
                answers[reply.query] = label if score.reads == "labels" else [float(n == label) for n in range(width)]
        pairs = zip(record.truth, answers, strict=True)
        conditions[record.name] = dict(zip(query_keys(record.rows), pairs, strict=True))
    queries = sum(len(record.truth) for record in details.conditions)
    return _Records(conditions, details.labels, _weights(result, list(conditions)), queries)


def _read_long_icl(details: DatasetDetails, values: Mapping[str, Any], metric: str) -> _Records:
    rounds = values.get("rounds") or {}
    records = {record.name: record for record in details.conditions}
    conditions: dict[str, dict[Key, tuple[int, Any]]] = {}
    most = (1.0, 1.0)
    f1 = values.get("metric") == "micro_f1"
    for name in rounds if metric == "mean" else [metric]:
        pairs: list[tuple[int, Any]]
        if (record := records.get(name)) is not None:
            rows: Sequence[int] = record.rows
            pairs = [
                (truth, guess if guess is None or not f1 else (int(guess == truth), 1 + (guess >= 0)))
                for truth, guess in zip(record.truth, record.predictions, strict=True)
            ]
        elif (items := rounds.get(name, {}).get("items")) is not None:  # several labels per item
            rows = [item[0] for item in items]
            pairs = [
                (-1, None) if gold is None else (gold, (correct, gold + predicted))
                for _, gold, predicted, correct in items
            ]
            counts = [(float(gold), float(predicted)) for _, gold, predicted, _ in items if gold is not None]
            most = max([most[0], *(gold for gold, _ in counts)]), max([_LONGEST_REPLY, *(size for _, size in counts)])
        else:
            raise _LeftOutError(f"the file has no records of the queries of {name}; run again with this version")
        conditions[name] = dict(zip(query_keys(rows), pairs, strict=True))
    if not conditions:
        raise _LeftOutError("the run has no rounds here")
    weights = (1.0 / len(conditions),) * len(conditions)
    return _Records(conditions, details.labels, weights, sum(map(len, conditions.values())), most if f1 else None)


def saved_value(values: Mapping[str, Any], metric: str) -> float | None:
    """Return a score as a result has it; the slope, for a regression line."""
    saved = values.get(metric, (values.get("sensitivity") or {}).get(metric))
    if isinstance(saved, (list, tuple)):
        saved = saved[0]
    return saved if isinstance(saved, (int, float)) and not isinstance(saved, bool) else None


def _relabelled(records: _Records, labels: tuple[str, ...]) -> _Records:
    """Return records with label indexes of another order of the same names; unchanged if the names differ."""
    if records.labels == labels or sorted(records.labels) != sorted(labels) or len(set(labels)) < len(labels):
        return records
    new = [labels.index(name) for name in records.labels]
    old = [records.labels.index(name) for name in labels]

    def moved(answer: Any) -> Any:
        if isinstance(answer, (list, tuple)):
            return [answer[place] for place in old]
        return None if answer is None else new[answer]

    conditions = {
        name: {key: (new[truth], moved(answer)) for key, (truth, answer) in queries.items()}
        for name, queries in records.conditions.items()
    }
    return replace(records, conditions=conditions, labels=labels)


@dataclass(frozen=True)
class PairedRecords:
    """Several runs on the same queries of one data set."""

    score: ScoreRecord
    runs: Mapping[str, _Records]
    keys: Mapping[str, Sequence[Key]]
    """The queries of each condition that every run predicted."""
    notes: tuple[str, ...]
    """Queries that are not compared, by run."""

    @cached_property
    def _places(self) -> dict[int, int]:
        """The number of each test row."""
        return {row: n for n, row in enumerate(sorted({row for keys in self.keys.values() for row, _ in keys}))}

    @cached_property
    def _queries(self) -> dict[str, Queries]:
        reference = next(iter(self.runs.values()))
        return {
            name: Queries(
                [reference.conditions[name][key][0] for key in keys],
                [self._places[row] for row, _ in keys],
                len(self._places),
                len(reference.labels),
            )
            for name, keys in self.keys.items()
        }

    @cached_property
    def _predictions(self) -> dict[str, dict[str, list[Any]]]:
        """The predictions of each run, by condition, in the order of the keys."""
        return {
            run: {name: [records.conditions[name][key][1] for key in keys] for name, keys in self.keys.items()}
            for run, records in self.runs.items()
        }

    @property
    def queries(self) -> int:
        """Number of queries, over all conditions."""
        return sum(map(len, self.keys.values()))

    def difference(self, first: str, second: str) -> PairedDifference:
        """Return the difference of the metric between two runs."""
        if self.separable:
            return paired_difference(self._own_terms(first), self._own_terms(second))
        return paired_difference(*self._terms(first, second))

    def alone(self, run: str) -> PairedDifference:
        """Return the metric of one run as a sum over test rows, in the place of a difference from 0."""
        return paired_difference(self._own_terms(run), [])

    @property
    def separable(self) -> bool:
        """Whether what a row contributes to the metric of a run does not depend on the run that it is compared with."""
        together = ("macro F1", "calibration error")
        return self.score.statistic not in together and all(records.most is None for records in self.runs.values())

    @property
    def condition_values(self) -> dict[str, dict[str, float]]:
        """The metric of each run by condition and repeat of the rows; empty if it is no mean over the conditions."""
        weights = {weight for records in self.runs.values() for weight in records.weights}
        several_labels = any(records.most is not None for records in self.runs.values())
        if len(weights) > 1 or several_labels or self.score.statistic in (None, "consistency"):
            return {}
        values: dict[str, dict[str, float]] = {}
        for name, keys in self.keys.items():
            for repeat in sorted({repeat for _, repeat in keys}):
                places = [place for place, key in enumerate(keys) if key[1] == repeat]
                truth = [self._queries[name].truth[place] for place in places]
                queries = Queries(truth, range(len(places)), len(places), self._queries[name].n_labels)
                values[f"{name} {repeat}"] = of_runs = {}
                for run, predictions in self._predictions.items():
                    own = [predictions[name][place] for place in places]
                    of_runs[run] = contributions(self.score.statistic, queries, own, own)[0].value
        return values

    @cached_property
    def _known_terms(self) -> dict[str, list[_Term]]:
        return {}

    def _own_terms(self, run: str) -> list[_Term]:
        """Return the weights of the conditions with what each row contributes to the metric of one run."""
        if run not in self._known_terms:
            self._known_terms[run] = self._terms(run, run)[0]
        return self._known_terms[run]

    def _terms(self, first: str, second: str) -> tuple[list[_Term], list[_Term]]:
        """Return the weights of the conditions with what each row contributes to the metrics of two runs."""
        if self.score.statistic == "consistency":
            return [(1.0, self._consistency(first))], [(1.0, self._consistency(second))]
        first_terms, second_terms = [], []
        for number, (name, queries) in enumerate(self._queries.items()):
            parts = self._parts(queries, self._predictions[first][name], self._predictions[second][name])
            first_terms.append((self.runs[first].weights[number], parts[0]))
            second_terms.append((self.runs[second].weights[number], parts[1]))
        return first_terms, second_terms

    def _consistency(self, run: str) -> Contributions:
        """Return the mean share of the most frequent label over the conditions."""
        predictions = self._predictions[run]
        shares = [max(map(labels.count, labels)) / len(labels) for labels in zip(*predictions.values(), strict=True)]
        queries = next(iter(self._queries.values()))
        least = math.ceil(len(predictions) / (queries.n_labels or len(predictions))) / len(predictions)
        return paired_tests.of_mean(shares, queries.rows, queries.n_rows, (least, 1.0))

    def _parts(
        self, queries: Queries, first: Sequence[Any], second: Sequence[Any]
    ) -> tuple[Contributions, Contributions]:
        limits = [records.most for records in self.runs.values() if records.most is not None]
        if not limits:
            return contributions(self.score.statistic or "accuracy", queries, first, second)
        counts = [[(0.0, 0.0)] * queries.n_rows for _ in (first, second)]
        for run, of_rows in zip((first, second), counts, strict=True):
            for (correct, size), row in zip(run, queries.rows, strict=True):
                of_rows[row] = of_rows[row][0] + correct, of_rows[row][1] + size
        times = paired_tests.most_queries(queries.rows)
        most = times * max(gold for gold, _ in limits), times * max(predicted for _, predicted in limits)
        return paired_tests.of_f1(counts[0], counts[1], most)


def pair_records(results: Mapping[str, Result], name: str, metric: str) -> PairedRecords | str:
    """Return the records of several runs on one data set, or why they cannot be compared.

    Args:
        results: The runs, by name, all of the same benchmark.
        name: The data set.
        metric: A score of the benchmark.
    """
    result = next(iter(results.values()))
    score = score_record(result.benchmark, metric, result.higher_is_better)
    if score.statistic is None:
        return f"{metric} cannot be recomputed from a file: it is no metric of this library"
    runs: dict[str, _Records] = {}
    for run, result in results.items():
        try:
            records = _read(result, name, score)
        except StaICCError as error:
            return f"{run}: {error}"
        runs[run] = _relabelled(records, next(iter(runs.values())).labels) if runs else records
    (first, reference), *others = runs.items()
    for run, records in others:
        reason = _unlike(name, results[first], reference, results[run], records)
        if reason is not None:
            return f"{first} and {run} have {reason}"
    kinds = {result.divided[name].get("metric") for result in results.values()}
    if len(kinds) > 1:
        return f"the runs have other metrics here: {', '.join(map(str, kinds))}"
    keys: dict[str, list[Key]] = {}
    for condition in reference.conditions:
        predicted = [
            {key for key, (_, answer) in records.conditions[condition].items() if answer is not None}
            for records in runs.values()
        ]
        keys[condition] = sorted(set.intersection(*predicted))
    if score.statistic == "consistency":
        whole = set.intersection(*map(set, keys.values()))
        keys = dict.fromkeys(keys, sorted(whole))
    if not all(keys.values()):
        return "no test row has a prediction in every run"
    return PairedRecords(score, runs, keys, tuple(_dropped(runs, keys)))


def _unlike(name: str, first: Result, reference: _Records, second: Result, records: _Records) -> str | None:
    """Return why two runs are not on the same test rows with the same labels; ``None`` if they are."""
    if list(reference.conditions) != list(records.conditions):
        return f"other conditions: {', '.join(reference.conditions)} and {', '.join(records.conditions)}"
    if len(reference.labels) != len(records.labels) and reference.labels and records.labels:
        return f"other labels: {len(reference.labels)} and {len(records.labels)}"
    compared = 0
    for condition, queries in reference.conditions.items():
        for key in queries.keys() & records.conditions[condition].keys():
            truths = queries[key][0], records.conditions[condition][key][0]
            compared += 1
            if truths[0] != truths[1] and -1 not in truths:
                return f"other true labels (test row {key[0]}: label {truths[0]} and {truths[1]})"
    if not compared:
        return "no test row in common"
    data = first.details[name].data, second.details[name].data
    if data[0] == data[1] is not None:
        return None
    return f"other data under this name (digests {data[0]!s:.12} and {data[1]!s:.12})"


def _dropped(runs: Mapping[str, _Records], keys: Mapping[str, Sequence[Key]]) -> list[str]:
    notes = []
    compared = sum(map(len, keys.values()))
    for run, records in runs.items():
        failed = sum(answer is None for queries in records.conditions.values() for _, answer in queries.values())
        if compared < records.queries:
            reason = f"; {failed} of them failed in it" if failed else ""
            notes.append(f"{records.queries - compared} of {records.queries} queries of {run} are not compared{reason}")
    return notes

"""The records of several runs on one data set, paired by test row.

Runs are comparable if they have the same test rows with the same true labels, whatever their prompts: method, k,
template and channel may differ. A query is found again by its test row and its place among the queries of that row, so
the order of the records does not matter.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

from StaICC.errors import StaICCError
from StaICC.metrics.metric_comparison import (
    Part,
    RowSteps,
    calibration_part,
    combine,
    divergence_part,
    entropy_part,
    f1_parts,
    macro_f1_parts,
    mean_part,
)
from StaICC.metrics.normalisation import normalise
from StaICC.results.details import ConditionRecord, DatasetDetails
from StaICC.results.label_scores import unpack_scores
from StaICC.results.result import Result


class Column(NamedTuple):
    """A headline score."""

    benchmark: str
    key: str
    """The key in the averaged results."""
    title: str


COLUMNS = (
    Column("Normal", "accuracy", "accuracy"),
    Column("Normal", "macro_F1", "macro F1"),
    Column("Normal", "averaged_truelabel_likelihood", "true-label likelihood"),
    Column("Normal", "expected_calibration_error_1", "calibration error (ECE-1)"),
    Column("Contextual_bias", "contextual_bias", "contextual bias"),
    Column("Domain_bias", "domain_bias", "domain bias"),
    Column("Post_bias", "DL div.", "posterior bias"),
    Column("GLER", "accuracy", "label noise (GLER)"),
    Column("Template_sens", "consistency", "template consistency"),
    Column("Demo_sens", "consistency", "demonstration consistency"),
    Column("LongICL", "mean", "LongICL, mean of rounds or conditions"),
)
"""The scores that a leaderboard shows, by benchmark; the main one comes first."""

HEADLINE = {one.benchmark: one.key for one in reversed(COLUMNS)}
"""The metric that is compared by default, by benchmark; for other benchmarks it is the first."""

_NOT_SCORES = frozenset({"distribution", "uniform", "majority"})
_LOWER = frozenset({"expected_calibration_error_1", "contextual_bias", "domain_bias", "DL div.", "empirical_bias"})
_PROBABILITIES = _LOWER | {"averaged_truelabel_likelihood", "entropy"}
"""Metrics of label probabilities; the others depend on the predicted labels only."""
_ENTROPIES = frozenset({"contextual_bias", "domain_bias"})
_OF_LABELS = frozenset({"entropy", "DL div.", "empirical_bias"})
"""Metrics of probabilities that bare labels have, too."""

_OF_WRONG = frozenset({"accuracy", "macro_F1", "averaged_truelabel_likelihood", "expected_calibration_error_1"})
"""Metrics for which an unparsed reply may count as a wrong prediction."""
Key = tuple[int, int]
"""Test row, and place among the queries of this row."""


def metrics_of(result: Result) -> list[str]:
    """Return the scores of a result that have a mean over data sets."""
    return [name for name in result.averaged if name not in _NOT_SCORES]


def higher_is_better(benchmark: str, metric: str) -> bool:
    """Return whether larger values of a metric are better.

    A GLER slope is what the metric loses as the labels become wrong. For a metric that should be high, a small slope is
    better; for ECE-1, which should be low, a large one: a negative slope says that label noise makes calibration worse.
    """
    return (metric not in _LOWER) != (benchmark == "GLER")


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


class _LeftOutError(StaICCError):
    """A data set cannot be compared, for the reason in the message."""


def query_keys(rows: Sequence[int]) -> list[Key]:
    """Return for each query its test row, and its place among the queries of this row.

    Args:
        rows: The test row of each query.
    """
    seen: dict[int, int] = {}
    keys = []
    for row in rows:
        keys.append((row, seen.get(row, 0)))
        seen[row] = seen.get(row, 0) + 1
    return keys


def probabilities_of(record: ConditionRecord, width: int) -> list[Any]:
    """Return one distribution for each query; ``None`` for failed ones.

    Args:
        record: The records of a condition.
        width: Size of the label space.

    Raises:
        StaICCError: The predictions have no probabilities.
    """
    answered = [label for label in record.predictions if label is not None]
    if record.output == "labels":
        rows: Sequence[Sequence[float]] = [[float(label == place) for place in range(width)] for label in answered]
    elif record.scores is None or record.output not in ("probabilities", "logits"):
        raise _LeftOutError(f"the predictions are {record.output}, which have no probabilities")
    else:
        rows = (
            normalise(
                unpack_scores(record.scores, width), "logits" if record.output == "logits" else "probabilities"
            ).probabilities
            or []
        )
    if len(rows) != len(answered):
        raise _LeftOutError(f"the file has label scores of {len(rows)} queries, and predictions of {len(answered)}")
    numbers = iter(rows)
    return [None if label is None else next(numbers) for label in record.predictions]


def _weights(result: Result, metric: str, names: Sequence[str]) -> tuple[float, ...]:
    """Return the weights of the conditions: a regression slope for label noise, else their mean."""
    if result.benchmark != "GLER":
        return (1.0 / len(names),) * len(names)
    k = result.signature.fields.get("k") or ""
    if not k.isdecimal() or len(names) < 2:
        raise _LeftOutError(f"the run has no single k ({k}), so the slope has no abscissas")
    rates = [step / (len(names) - 1) for step in range(len(names))]
    shares = [1.0 - int(int(k) * rate) / int(k) if int(k) else 1.0 for rate in rates]
    middle = sum(shares) / len(shares)
    spread = sum((share - middle) ** 2 for share in shares)
    if not spread:
        raise _LeftOutError("without demonstrations, labels cannot be wrong")
    return tuple((share - middle) / spread for share in shares)


def _read(result: Result, name: str, metric: str) -> _Records:
    """Read what a metric needs of one data set.

    Raises:
        _LeftOutError: The metric, or the records, are missing.
    """
    details, values = result.details.get(name), result.divided.get(name)
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
    for record in details.conditions:
        width = len(details.labels) or 1 + max(*record.truth, *(label or 0 for label in record.predictions))
        answers = probabilities_of(record, width) if metric in _PROBABILITIES else list(record.predictions)
        if result.signature.fields.get("unparsed") == "wrong" and metric in _OF_WRONG:
            for one in details.unparsed:
                if one.condition == record.name:
                    label = (record.truth[one.query] + 1) % width
                    row = [float(place == label) for place in range(width)]
                    answers[one.query] = row if metric in _PROBABILITIES else label
        if metric in _PROBABILITIES - _OF_LABELS and record.output == "labels":
            raise _LeftOutError("the predictions are bare labels, which have no probabilities")
        conditions[record.name] = dict(
            zip(query_keys(record.rows), zip(record.truth, answers, strict=True), strict=True)
        )
    queries = sum(len(record.truth) for record in details.conditions)
    return _Records(conditions, details.labels, _weights(result, metric, list(conditions)), queries)


def _read_long_icl(details: DatasetDetails, values: Mapping[str, Any], metric: str) -> _Records:
    rounds = values.get("rounds") or {}
    names = list(rounds) if metric == "mean" else [metric]
    records = {record.name: record for record in details.conditions}
    conditions: dict[str, dict[Key, tuple[int, Any]]] = {}
    for name in names:
        items = rounds.get(name, {}).get("items")
        record = records.get(name)
        pairs: list[tuple[int, Any]]
        if record is not None:
            keys = query_keys(record.rows)
            f1 = values.get("metric") == "micro_f1"
            pairs = [
                (truth, guess if guess is None or not f1 else (int(guess == truth), 1 + (guess >= 0)))
                for truth, guess in zip(record.truth, record.predictions, strict=True)
            ]
        elif items is not None:  # several labels per item
            keys = query_keys([item[0] for item in items])
            pairs = [
                (-1, None) if gold is None else (gold, (correct, gold + predicted))
                for _, gold, predicted, correct in items
            ]
        else:
            raise _LeftOutError(f"the file has no records of the queries of {name}; run again with this version")
        conditions[name] = dict(zip(keys, pairs, strict=True))
    if not conditions:
        raise _LeftOutError("the run has no rounds here")
    weights = (1.0 / len(conditions),) * len(conditions)
    return _Records(conditions, details.labels, weights, sum(map(len, conditions.values())))


def saved_value(values: Mapping[str, Any], metric: str) -> float | None:
    """Return a score as a result has it; the slope, for a regression line."""
    found = values.get(metric, (values.get("sensitivity") or {}).get(metric))
    if isinstance(found, (list, tuple)):
        found = found[0]
    return found if isinstance(found, (int, float)) and not isinstance(found, bool) else None


def _relabelled(records: _Records, labels: tuple[str, ...]) -> _Records:
    """Return records with label indexes of another order of the same names; unchanged if the names differ."""
    if records.labels == labels or sorted(records.labels) != sorted(labels) or len(set(labels)) < len(labels):
        return records
    new = [labels.index(name) for name in records.labels]
    old = [records.labels.index(name) for name in labels]

    def moved(answer: Any) -> Any:
        if answer is None or isinstance(answer, int):
            return answer if answer is None else new[answer]
        return [answer[place] for place in old]

    conditions = {
        name: {key: (new[truth], moved(answer)) for key, (truth, answer) in queries.items()}
        for name, queries in records.conditions.items()
    }
    return _Records(conditions, labels, records.weights, records.queries)


@dataclass(frozen=True, slots=True)
class PairedRecords:
    """Several runs on the same queries of one data set."""

    metric: str
    f1: bool
    """Whether the records are counts of labels."""
    runs: Mapping[str, _Records]
    keys: Mapping[str, Sequence[Key]]
    """The queries of each condition that every run predicted."""
    notes: tuple[str, ...]
    """Queries that are not compared, by run."""

    @property
    def rows(self) -> list[int]:
        """The test rows, in order."""
        return sorted({row for keys in self.keys.values() for row, _ in keys})

    @property
    def queries(self) -> int:
        """Number of queries, over all conditions."""
        return sum(map(len, self.keys.values()))

    def rarest_label(self) -> tuple[int, int]:
        """Return the label with the fewest test rows, and their number."""
        records = next(iter(self.runs.values()))
        rows: dict[int, set[int]] = {label: set() for label in range(len(records.labels))}
        for name, keys in self.keys.items():
            for key in keys:
                rows.setdefault(records.conditions[name][key][0], set()).add(key[0])
        return min(((label, len(found)) for label, found in rows.items()), key=lambda one: one[1])

    def difference(self, first: str, second: str) -> RowSteps:
        """Return the difference of the metric between two runs."""
        place = {row: number for number, row in enumerate(self.rows)}
        pair = self.runs[first], self.runs[second]
        if self.metric == "consistency":
            rows = [place[row] for row, _ in next(iter(self.keys.values()))]
            parts = [mean_part(self._agreement(records), rows, len(place)) for records in pair]
            return combine([(1.0, parts[0])], [(1.0, parts[1])])
        sums: tuple[list[tuple[float, Part]], list[tuple[float, Part]]] = ([], [])
        for number, (name, keys) in enumerate(self.keys.items()):
            rows = [place[row] for row, _ in keys]
            truth = [pair[0].conditions[name][key][0] for key in keys]
            answers = [[records.conditions[name][key][1] for key in keys] for records in pair]
            for records, part, found in zip(pair, self._parts(truth, answers, rows, len(place)), sums, strict=True):
                found.append((records.weights[number], part))
        differing = {
            place[key[0]]
            for name, keys in self.keys.items()
            for key in keys
            if pair[0].conditions[name][key][1] != pair[1].conditions[name][key][1]
        }
        return combine(*sums, frozenset(range(len(place))) - differing)

    def _agreement(self, records: _Records) -> list[float]:
        names = list(self.keys)
        shares = []
        for key in self.keys[names[0]]:
            labels = [records.conditions[name][key][1] for name in names]
            shares.append(max(map(labels.count, labels)) / len(labels))
        return shares

    def _parts(self, truth: list[int], answers: list[list[Any]], rows: list[int], n_rows: int) -> Sequence[Part]:
        metric, width = self.metric, len(next(iter(self.runs.values())).labels)
        if self.f1:
            counts = [[(0.0, 0.0)] * n_rows for _ in answers]
            for run, found in zip(answers, counts, strict=True):
                for (correct, size), row in zip(run, rows, strict=True):
                    found[row] = found[row][0] + correct, found[row][1] + size
            return f1_parts(*counts)
        if metric == "macro_F1":
            width = width or 1 + max(map(max, [truth, *answers]))
            return macro_f1_parts(truth, answers[0], answers[1], rows, n_rows, width)
        if metric == "expected_calibration_error_1":
            return [calibration_part(truth, run, rows, n_rows) for run in answers]
        if metric == "entropy":
            return [entropy_part(run, rows, n_rows) for run in answers]
        if metric in ("DL div.", "empirical_bias"):
            return [divergence_part(truth, run, rows, n_rows) for run in answers]
        score_range = None
        if metric in _ENTROPIES:
            score_range = math.log(len(answers[0][0]))
            scores = [[math.fsum(p * math.log(p) for p in row if p > 0.0) for row in run] for run in answers]
        elif metric == "averaged_truelabel_likelihood":
            score_range = 1.0
            scores = [[row[label] for row, label in zip(run, truth, strict=True)] for run in answers]
        else:
            scores = [[float(guess == label) for guess, label in zip(run, truth, strict=True)] for run in answers]
        return [mean_part(run, rows, n_rows, score_range) for run in scores]


def pair_records(results: Mapping[str, Result], name: str, metric: str) -> PairedRecords | str:
    """Return the records of several runs on one data set, or why they cannot be compared.

    Args:
        results: The runs, by name, all of the same benchmark.
        name: The data set.
        metric: A score of the benchmark.
    """
    if metric not in _KNOWN and results and next(iter(results.values())).benchmark != "LongICL":
        return f"{metric} cannot be recomputed from a file: it is no metric of this library"
    runs: dict[str, _Records] = {}
    for run, result in results.items():
        try:
            records = _read(result, name, metric)
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
    for condition, queries in reference.conditions.items():
        shared = [key for key in queries if all(key in records.conditions[condition] for records in runs.values())]
        keys[condition] = sorted(
            key for key in shared if all(records.conditions[condition][key][1] is not None for records in runs.values())
        )
    if metric == "consistency":
        whole = set.intersection(*map(set, keys.values()))
        keys = dict.fromkeys(keys, sorted(whole))
    if not all(keys.values()):
        return "no test row has a prediction in every run"
    return PairedRecords(metric, kinds == {"micro_f1"}, runs, keys, tuple(_dropped(runs, keys)))


_KNOWN = frozenset({"accuracy", "macro_F1", "consistency", "entropy", *_PROBABILITIES})


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

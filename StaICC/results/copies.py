"""Runs with the same predictions, which share one place of a leaderboard: copies, or one model that was run twice.

Two results have the same predictions if they are comparable, have equal labels in all queries of the same data, test
rows and conditions, and label scores within a tolerance. Their prompts may differ (another k, sampler or template),
since a copy is written under any of them. What else their files say, such as names and times, does not matter: anyone
can write it.

No name decides which scores a place shows. They are the least favourable ones of its results: those with the lowest
mean probability of the true label.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field

from StaICC.results.comparable import comparable_by
from StaICC.results.result import Result
from StaICC.results.signature import digest

SAME_SCORES = 0.05
"""Largest difference of two label probabilities that are the same. It is the largest difference that a kernel of this
library declares for one model that is computed twice (16 bits)."""


def labels_key(result: Result) -> str:
    """Return a digest of the test rows and predicted labels of a result, in all queries.

    Results that are not comparable have different digests: each leaderboard has places of its own. A result without
    records of its queries has the digest of all that equal runs share.
    """
    if not any(details.conditions for details in result.details.values()):
        return digest(result.reproducible())
    datasets = {}
    for name, details in sorted(result.details.items()):
        conditions = [[record.name, list(record.rows), list(record.predictions)] for record in details.conditions]
        datasets[name] = [details.data, conditions]
    return digest([result.benchmark, comparable_by(result), datasets])


def same_scores(first: Result, second: Result) -> bool:
    """Return whether the label scores of two results with equal labels are the same to the tolerance.

    A result whose predictions are labels without scores cannot be distinguished from one with the same labels.
    """
    for name, details in first.details.items():
        others = second.details[name]
        labels = len(details.labels)
        for record, other in zip(details.conditions, others.conditions, strict=True):
            if record.scores is None or other.scores is None:
                continue
            rows = record.probabilities(labels)
            if any(row is not None for row in rows):
                other_rows = other.probabilities(labels)
            else:  # the numbers may be probabilities or logits
                rows, other_rows = record.label_scores(labels), other.label_scores(labels)
            if not all(map(_same_row, rows, other_rows)):
                return False
    return True


def _same_row(first: Sequence[float] | None, second: Sequence[float] | None) -> bool:
    if first is None or second is None:
        return first is second
    pairs = zip(first, second, strict=True)
    return all(a == b or math.isclose(a, b, rel_tol=0.0, abs_tol=SAME_SCORES) for a, b in pairs)


def true_label_score(result: Result) -> float | None:
    """Return the mean score of the true label, as a probability where that is known; ``None`` without label scores."""
    scores = []
    for details in result.details.values():
        labels = len(details.labels)
        for record in details.conditions:
            rows = record.probabilities(labels)
            if all(row is None for row in rows):  # the numbers may be probabilities or logits
                rows = record.label_scores(labels)
            scores += [row[label] for row, label in zip(rows, record.truth, strict=True) if row is not None]
    return math.fsum(scores) / len(scores) if scores else None


def least_favourable_first(result: Result) -> tuple[bool, float, str]:
    """Return the key by which results with equal labels are sorted: from the contents of the result, never its name.

    Results without label scores come last.
    """
    score = true_label_score(result)
    if score is None:
        return True, 0.0, digest(result.reproducible())
    return False, score, digest(result.reproducible())


@dataclass(slots=True)
class Place:
    """One place of a leaderboard: the results with the same predictions on one benchmark."""

    benchmark: str
    shown: str
    """The name of the run whose result is shown: the first one by :func:`least_favourable_first`."""
    holders: dict[str, Result]
    """The results, by the name of their run, in the order of the names."""
    other_scores: list[str] = field(default_factory=list)
    """Runs with the same labels in all queries, but other scores, so that they have a place of their own."""

    @property
    def result(self) -> Result:
        """The result that is shown."""
        return self.holders[self.shown]

    def score_ranges(self) -> dict[str, tuple[float, float]]:
        """Return the lowest and the highest value of each mean score in which the results differ as it is printed."""
        ranges = {}
        for key in self.result.averaged:
            values = [value for holder in self.holders.values() if (value := holder.averaged.get(key)) is not None]
            if values and f"{min(values):.4f}" != f"{max(values):.4f}":
                ranges[key] = (min(values), max(values))
        return ranges


def places_of(runs: Mapping[str, Mapping[str, Result]]) -> list[Place]:
    """Return the places of a leaderboard.

    Args:
        runs: The results of each run, by benchmark.

    Returns:
        Each result is in one place.
    """
    results_by_labels: dict[str, dict[str, Result]] = {}
    for name in sorted(runs):
        for result in runs[name].values():
            results_by_labels.setdefault(labels_key(result), {})[name] = result
    return [place for results in results_by_labels.values() for place in _places_of_equal_labels(results)]


def _places_of_equal_labels(results: Mapping[str, Result]) -> list[Place]:
    """Return the places of results that have equal labels in all queries, by the name of their run.

    A result is in the first place whose shown result has the same scores. Results without label scores are thus in the
    place of the least favourable scores.
    """
    places: list[Place] = []
    for name in sorted(results, key=lambda name: least_favourable_first(results[name])):
        for place in places:
            if same_scores(place.result, results[name]):
                place.holders[name] = results[name]
                break
        else:
            places.append(Place(results[name].benchmark, name, {name: results[name]}))
    for place in places:
        place.holders = dict(sorted(place.holders.items()))
        place.other_scores = [name for name in results if name not in place.holders]
    return places


def ranked_runs(places: Sequence[Place]) -> dict[str, dict[str, Result]]:
    """Return the rows of a leaderboard.

    Runs that share all of their places are one row, named after all of them. A run whose places are some of those of
    another run has no row of its own; it is named at the row of the other, with the benchmarks that it shares. Where
    each of two runs has a place that the other lacks, both have a row with the shared place, and name each other.

    Args:
        places: The places of all benchmarks.

    Returns:
        For each row its results by benchmark.
    """
    places_of_run: dict[str, list[int]] = {}
    for number, place in enumerate(places):
        for name in place.holders:
            places_of_run.setdefault(name, []).append(number)
    rows: dict[tuple[int, ...], list[str]] = {}
    for name in sorted(places_of_run):
        rows.setdefault(tuple(places_of_run[name]), []).append(name)
    runs: dict[str, dict[str, Result]] = {}
    for numbers, names in rows.items():
        if any({*numbers} < {*others} for others in rows):
            continue
        own_places = [places[number] for number in numbers]
        title = _unused(_row_name(names, own_places), runs)
        runs[title] = {place.benchmark: place.result for place in own_places}
    return runs


def _row_name(names: Sequence[str], places: Sequence[Place]) -> str:
    """Return the name of a row: the runs that have all of its places, then those that share some of them."""
    shared: dict[str, list[str]] = {}
    for place in places:
        for name in place.holders:
            if name not in names:
                shared.setdefault(name, []).append(place.benchmark)
    partly = [f"{name} ({', '.join(benchmarks)})" for name, benchmarks in shared.items()]
    return " = ".join([*names, *partly])


def _unused(name: str, names: Collection[str]) -> str:
    """Return a name, with a number if it is one of some other names: a file may have the name of a row."""
    unused, number = name, 1
    while unused in names:
        number += 1
        unused = f"{name} [{number}]"
    return unused

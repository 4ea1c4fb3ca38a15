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
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from StaICC.results.comparable import comparable_by
from StaICC.results.details import ConditionRecord
from StaICC.results.result import Result
from StaICC.results.signature import digest

SAME_SCORES = 0.05
"""Largest difference between two label probabilities that count as the same. It is the largest difference that a kernel
of this library declares for one model that is computed twice (16 bits)."""


def labels_key(result: Result) -> str:
    """Return a digest of the test rows and predicted labels of a result, in all queries.

    Results that are not comparable have different digests, since they are in different leaderboards. The digest of a
    result without records of its queries is that of everything that equal runs share.
    """
    if not any(details.conditions for details in result.details.values()):
        return digest(result.reproducible())
    labels_by_dataset = {}
    for dataset, details in sorted(result.details.items()):
        conditions = [[record.name, list(record.rows), list(record.predictions)] for record in details.conditions]
        labels_by_dataset[dataset] = [details.data, conditions]
    return digest([result.benchmark, comparable_by(result), labels_by_dataset])


_ScoreRows = list[list[float] | None]
"""The label scores of each query; ``None`` for a query without them."""


def _probabilities_or_scores(record: ConditionRecord, label_count: int) -> _ScoreRows:
    """Return the probabilities of the labels of each query, or the scores where these may be of either kind."""
    probabilities = record.probabilities(label_count)
    if all(row is None for row in probabilities):
        return record.label_scores(label_count)
    return probabilities


def same_scores(first: Result, second: Result) -> bool:
    """Return whether the label scores of two results with equal labels are the same to the tolerance.

    A result whose predictions are labels without scores cannot be distinguished from one with the same labels.
    """
    for dataset, details in first.details.items():
        label_count = len(details.labels)
        second_conditions = second.details[dataset].conditions
        for first_record, second_record in zip(details.conditions, second_conditions, strict=True):
            if first_record.scores is None or second_record.scores is None:
                continue
            first_rows = first_record.probabilities(label_count)
            if all(row is None for row in first_rows):
                # They may be probabilities or logits: the scores are compared as the two models returned them.
                first_rows = first_record.label_scores(label_count)
                second_rows = second_record.label_scores(label_count)
            else:
                second_rows = second_record.probabilities(label_count)
            for first_row, second_row in zip(first_rows, second_rows, strict=False):
                if not _is_same_row(first_row, second_row):
                    return False
    return True


def _is_same_row(first: Sequence[float] | None, second: Sequence[float] | None) -> bool:
    """Return whether the scores of a query are the same to the tolerance; two queries without scores are."""
    if first is None and second is None:
        return True
    if first is None or second is None:
        return False
    for first_score, second_score in zip(first, second, strict=True):
        # Most scores of a copy are equal, which is seen faster than that they are close.
        if first_score == second_score:
            continue
        if not math.isclose(first_score, second_score, rel_tol=0.0, abs_tol=SAME_SCORES):
            return False
    return True


def true_label_score(result: Result) -> float | None:
    """Return the mean score of the true label, as a probability where that is known; ``None`` without label scores."""
    scores = []
    for details in result.details.values():
        for record in details.conditions:
            rows = _probabilities_or_scores(record, len(details.labels))
            scores += [row[label] for row, label in zip(rows, record.truth, strict=True) if row is not None]
    if not scores:
        return None
    return math.fsum(scores) / len(scores)


def least_favourable_first(result: Result) -> tuple[bool, float, str]:
    """Return the sort key that puts the least favourable of several results with equal labels first.

    These are in the order of :func:`true_label_score`; results without label scores come last. The digest of the
    contents decides between equal scores. The name of a result is not in the key.
    """
    score = true_label_score(result)
    content_digest = digest(result.reproducible())
    if score is None:
        return True, 0.0, content_digest
    return False, score, content_digest


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
        """Return the lowest and the highest value of each mean score that is not printed alike for all results."""
        ranges = {}
        for key in self.result.averaged:
            values = []
            for holder in self.holders.values():
                value = holder.averaged.get(key)
                if value is not None:
                    values.append(value)
            if not values:
                continue
            lowest = min(values)
            highest = max(values)
            if f"{lowest:.4f}" != f"{highest:.4f}":
                ranges[key] = (lowest, highest)
        return ranges


def places_of(runs: Mapping[str, Mapping[str, Result]]) -> list[Place]:
    """Return the places of a leaderboard.

    Args:
        runs: The results of each run, by benchmark.

    Returns:
        The places. Each result is in exactly one.
    """
    results_by_labels: dict[str, dict[str, Result]] = {}
    for run in sorted(runs):
        for result in runs[run].values():
            results_of_runs = results_by_labels.setdefault(labels_key(result), {})
            results_of_runs[run] = result

    places = []
    for results_of_runs in results_by_labels.values():
        places += _places_of_equal_labels(results_of_runs)
    return places


def _places_of_equal_labels(results: Mapping[str, Result]) -> list[Place]:
    """Return the places of results that have equal labels in all queries, by the name of their run.

    A result is in the first place whose shown result has the same scores. Results without label scores are thus in the
    place of the least favourable scores.
    """
    places: list[Place] = []
    for run in sorted(results, key=lambda run: least_favourable_first(results[run])):
        place = _place_with_same_scores(places, results[run])
        if place is None:
            places.append(Place(results[run].benchmark, shown=run, holders={run: results[run]}))
        else:
            place.holders[run] = results[run]

    for place in places:
        place.holders = dict(sorted(place.holders.items()))
        place.other_scores = [run for run in results if run not in place.holders]
    return places


def _place_with_same_scores(places: Sequence[Place], result: Result) -> Place | None:
    """Return the first place whose shown result has the same scores as a result; ``None`` if there is none."""
    for place in places:
        if same_scores(place.result, result):
            return place
    return None


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
    place_indexes_of_run: dict[str, list[int]] = {}
    for place_index, place in enumerate(places):
        for run in place.holders:
            place_indexes_of_run.setdefault(run, []).append(place_index)

    # Runs that share all of their places are one row.
    runs_by_places: dict[tuple[int, ...], list[str]] = {}
    for run in sorted(place_indexes_of_run):
        place_indexes = tuple(place_indexes_of_run[run])
        runs_by_places.setdefault(place_indexes, []).append(run)

    rows: dict[str, dict[str, Result]] = {}
    for place_indexes, names in runs_by_places.items():
        if _is_within_another(place_indexes, runs_by_places):
            continue
        places_of_row = [places[place_index] for place_index in place_indexes]
        title = _unused_name(_row_name(names, places_of_row), rows)
        rows[title] = {place.benchmark: place.result for place in places_of_row}
    return rows


def _is_within_another(place_indexes: Sequence[int], all_place_indexes: Iterable[Sequence[int]]) -> bool:
    """Return whether the places of some runs are a proper subset of the places of other runs."""
    return any(set(place_indexes) < set(others) for others in all_place_indexes)


def _row_name(names: Sequence[str], places: Sequence[Place]) -> str:
    """Return the name of a row: the runs that have all of its places, then those that share some of them."""
    shared_benchmarks: dict[str, list[str]] = {}
    for place in places:
        for run in place.holders:
            if run not in names:
                shared_benchmarks.setdefault(run, []).append(place.benchmark)
    parts = list(names)
    for run, benchmarks in shared_benchmarks.items():
        parts.append(f"{run} ({', '.join(benchmarks)})")
    return " = ".join(parts)


def _unused_name(name: str, used_names: Collection[str]) -> str:
    """Return a name for a row, with a number if a row has this name already.

    This happens where a file has a name that looks like that of a row with several runs.
    """
    unused = name
    number = 1
    while unused in used_names:
        number += 1
        unused = f"{name} [{number}]"
    return unused

"""Runs with the same predictions, which share one place of a leaderboard: copies, or one model that was run twice.

Two results have the same predictions if they are comparable, have equal labels in all queries of the same data, test
rows and conditions, and label scores within a tolerance. Their prompts may differ (another k, sampler or template),
since a copy can be made under any of them. What else their files say, such as names and times, does not matter: anyone
can write it.

No name decides which scores a place shows. It shows the result with the lowest mean score of the true label, the least
favourable one, so that a copy with changed scores gains nothing.

A *place* is a row of the leaderboard of one benchmark. Its *holders* are the runs whose results have the same
predictions. A *row* of the leaderboard of all benchmarks has the places of one run, or of runs that share all places.
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

    Two comparable results have the same digest if they have the same predicted labels for the same test rows. Results
    that are not comparable have different digests, because they are in different leaderboards. A result without records
    of its queries has a digest of its whole reproducible content instead.
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
    """Return the label probabilities of each query, or its raw scores if no query has probabilities.

    Without probabilities, the kind of the scores is ambiguous: they may be probabilities or logits.

    Args:
        record: The condition.
        label_count: Number of labels.
    """
    probabilities = record.probabilities(label_count)
    if all(row is None for row in probabilities):
        return record.label_scores(label_count)
    return probabilities


def same_scores(first: Result, second: Result) -> bool:
    """Return whether the label scores of two results with equal labels are the same to the tolerance.

    The scores are compared condition by condition. Some models return labels without scores. A condition in which one
    of the results has no scores is skipped, because nothing there distinguishes the results.
    """
    for dataset, details in first.details.items():
        label_count = len(details.labels)
        second_conditions = second.details[dataset].conditions
        for first_record, second_record in zip(details.conditions, second_conditions, strict=True):
            if first_record.scores is None or second_record.scores is None:
                continue
            if not _same_condition_scores(first_record, second_record, label_count):
                return False
    return True


def _same_condition_scores(first: ConditionRecord, second: ConditionRecord, label_count: int) -> bool:
    """Return whether the label scores of two records of one condition are the same to the tolerance.

    Probabilities are compared. If the first scores may be probabilities or logits, the scores are compared as the two
    models returned them.

    Args:
        first: The record of the first result.
        second: The record of the second result.
        label_count: Number of labels.
    """
    first_rows = first.probabilities(label_count)
    if all(row is None for row in first_rows):
        first_rows = first.label_scores(label_count)
        second_rows = second.label_scores(label_count)
    else:
        second_rows = second.probabilities(label_count)
    # Both have as many queries, because their labels are equal.
    for first_row, second_row in zip(first_rows, second_rows, strict=True):
        if not _is_same_row(first_row, second_row):
            return False
    return True


def _is_same_row(first: Sequence[float] | None, second: Sequence[float] | None) -> bool:
    """Return whether two rows of label scores are the same to the tolerance; ``None`` is the same as ``None`` only."""
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
    """Return the mean score of the true label over all queries that have label scores; ``None`` if there are none.

    The score is the probability of the true label. In a condition whose scores may be probabilities or logits, it is
    the score as the model returned it, so that the mean can mix both. It only orders results with equal labels.
    """
    scores = []
    for details in result.details.values():
        for record in details.conditions:
            rows = _probabilities_or_scores(record, len(details.labels))
            scores += [row[label] for row, label in zip(rows, record.truth, strict=True) if row is not None]
    if not scores:
        return None
    return math.fsum(scores) / len(scores)


def least_favourable_first(result: Result) -> tuple[bool, float, str]:
    """Return a sort key that puts the least favourable of several results with equal labels first.

    The results are in ascending order of :func:`true_label_score`; results without label scores come last. The digest
    of the contents decides between equal scores. The name of a result does not matter.
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
    """Names of runs with the same labels in all queries, but other scores. They have a place of their own."""

    @property
    def result(self) -> Result:
        """The result that is shown."""
        return self.holders[self.shown]

    def score_ranges(self) -> dict[str, tuple[float, float]]:
        """Return the lowest and the highest value of each mean score that differs between the results.

        Scores that are printed alike, with four digits, do not differ.
        """
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

    A place has one result of a benchmark, or several that are copies of each other: they have the same predicted labels
    and the same label scores, to a tolerance, in all queries. Each result is at exactly one place.

    Args:
        runs: The results of each run, by benchmark.
    """
    # Copies have equal labels. So the results are grouped by the key of their labels, and in a group by run. The key
    # contains the benchmark, of which a run has one result, so that no run has two results in a group.
    groups: dict[str, dict[str, Result]] = {}
    for run in sorted(runs):
        for result in runs[run].values():
            group = groups.setdefault(labels_key(result), {})
            group[run] = result

    places = []
    for group in groups.values():
        places += _places_of_equal_labels(group)
    return places


def _places_of_equal_labels(results: Mapping[str, Result]) -> list[Place]:
    """Return the places of results that have equal labels in all queries.

    The results are taken from the least favourable one on. Each joins the first place whose shown result has the same
    scores; if there is none, it is shown at a new place. A result without label scores has the same scores as any
    other, so it joins the place of the least favourable result.

    Args:
        results: The results, by the name of their run.
    """
    if len(results) == 1:
        (run, result), *_ = results.items()
        return [Place(result.benchmark, shown=run, holders={run: result})]

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

    There are three cases:

    - Runs that share all of their places are one row, named after all of them.
    - A run whose places are some of those of another run has no row. It is named at the row of the other run, with the
      benchmarks that it shares.
    - If each of two runs has a place that the other lacks, both have a row with the shared place, and name each other.

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
    for place_indexes, runs_of_row in runs_by_places.items():
        if _is_within_another(place_indexes, runs_by_places):
            continue
        places_of_row = [places[place_index] for place_index in place_indexes]
        title = _unused_title(_row_title(runs_of_row, places_of_row), rows)
        rows[title] = {place.benchmark: place.result for place in places_of_row}
    return rows


def _is_within_another(place_indexes: Sequence[int], all_place_indexes: Iterable[Sequence[int]]) -> bool:
    """Return whether the places of some runs are a proper subset of the places of other runs."""
    return any(set(place_indexes) < set(others) for others in all_place_indexes)


def _row_title(runs_of_row: Sequence[str], places: Sequence[Place]) -> str:
    """Return the title of a row of a leaderboard, such as ``first = second = third (Normal, GLER)``.

    It has the names of the runs that have all places of the row. Then come the runs that have only some of the places,
    each with the benchmarks of these places.

    Args:
        runs_of_row: Names of the runs that have all places of the row.
        places: The places of the row.
    """
    benchmarks_by_other_run: dict[str, list[str]] = {}
    for place in places:
        for run in place.holders:
            if run not in runs_of_row:
                benchmarks_by_other_run.setdefault(run, []).append(place.benchmark)
    names = list(runs_of_row)
    for run, benchmarks in benchmarks_by_other_run.items():
        names.append(f"{run} ({', '.join(benchmarks)})")
    return " = ".join(names)


def _unused_title(title: str, used_titles: Collection[str]) -> str:
    """Return the title of a row, with a number if another row has the same title.

    Two titles can be equal if the name of a run looks like the title of a row with several runs.
    """
    unused = title
    number = 1
    while unused in used_titles:
        number += 1
        unused = f"{title} [{number}]"
    return unused

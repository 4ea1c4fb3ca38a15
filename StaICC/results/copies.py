"""Runs with the same predictions, which share one place of a leaderboard: copies, or one model that was run twice.

Two results have the same predictions if they have equal labels in all queries of equal prompts, and label scores within
a tolerance. What else their files say, such as names and times, does not matter: anyone can write it.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from StaICC.results.comparable import comparable_by
from StaICC.results.result import Result
from StaICC.results.signature import digest

SAME_SCORES = 0.05
"""Largest difference of two label probabilities that are the same. It is the largest difference that a kernel of this
library declares for one model that is computed twice (16 bits)."""


def labels_key(result: Result) -> str:
    """Return a digest of the prompts and predicted labels of a result, in all queries.

    Results that are not comparable have different digests: each leaderboard has places of its own. A result without
    records of its queries has the digest of all that equal runs share.
    """
    if not any(details.conditions for details in result.details.values()):
        return digest(result.reproducible())
    datasets = {}
    for name, details in sorted(result.details.items()):
        conditions = [[record.name, list(record.predictions)] for record in details.conditions]
        datasets[name] = [details.prompts, details.data, conditions]
    return digest([result.benchmark, comparable_by(result), datasets])


def same_scores(first: Result, second: Result) -> bool:
    """Return whether the label scores of two results with equal labels are the same to the tolerance.

    A result whose predictions are labels without scores cannot be told apart from one with the same labels.
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


@dataclass(slots=True)
class Place:
    """One place of a leaderboard: the results with the same predictions on one benchmark."""

    benchmark: str
    holders: dict[str, Result]
    """The results, by the name of their run, in the order of the names."""
    other_scores: list[str] = field(default_factory=list)
    """Runs with the same labels in all queries, but other scores, so that they have a place of their own."""

    @property
    def result(self) -> Result:
        """The result that is shown: the first one with label scores, or else the first one."""
        for result in self.holders.values():
            for details in result.details.values():
                if any(record.scores is not None for record in details.conditions):
                    return result
        return next(iter(self.holders.values()))


def places_of(runs: Mapping[str, Mapping[str, Result]]) -> list[Place]:
    """Return the places of a leaderboard.

    Args:
        runs: The results of each run, by benchmark.

    Returns:
        Each result is in one place.
    """
    places_by_labels: dict[str, list[Place]] = {}
    for name, benchmark, result in _each_result(runs):
        same_labels = places_by_labels.setdefault(labels_key(result), [])
        for place in same_labels:
            if same_scores(place.result, result):
                place.holders[name] = result
                break
        else:
            same_labels.append(Place(benchmark, {name: result}))
    for places in places_by_labels.values():
        for place in places:
            place.other_scores = [name for other in places if other is not place for name in other.holders]
    return [place for places in places_by_labels.values() for place in places]


def _each_result(runs: Mapping[str, Mapping[str, Result]]) -> Iterator[tuple[str, str, Result]]:
    for name in sorted(runs):
        for benchmark, result in runs[name].items():
            yield name, benchmark, result


def ranked_runs(places: Sequence[Place]) -> dict[str, dict[str, Result]]:
    """Return the runs that are ranked: one for each place, named after all of its holders.

    Results of one run stay together, where they have the same holders.

    Args:
        places: The places of all benchmarks.

    Returns:
        For each run its results by benchmark.
    """
    runs: dict[str, dict[str, Result]] = {}
    for place in places:
        name = " = ".join(place.holders)
        runs.setdefault(name, {})[place.benchmark] = place.result
    return runs

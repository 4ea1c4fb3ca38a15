"""Runs aligned on the test rows that all of them predicted, with the pairs that are tested."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property

from StaICC.arguments import known_name
from StaICC.comparing.comparable_scores import default_metric, metrics_of
from StaICC.comparing.missing_queries import RunDifference, mean_of_differences
from StaICC.comparing.pairing import PairedRecords, pair_records
from StaICC.comparing.verdicts import Tested, TestOutcome
from StaICC.errors import ArgumentError, StaICCError
from StaICC.metrics.paired_tests import bonferroni, directional_holm
from StaICC.metrics.scores import score_record
from StaICC.results.result import Result

MOST_RUNS = 20
"""Of more runs than this, each is compared with the best one only, not with each other one. The correction is still for
all pairs, because the best run is known only from the same rows."""
TABLE_TOLERANCE = 1e-6


@dataclass(frozen=True)
class AlignedRuns:
    """Runs of one benchmark, paired on the data sets and test rows that all of them predicted."""

    benchmark: str
    metric: str
    higher_is_better: bool
    runs: Mapping[str, Result]
    datasets: Mapping[str, PairedRecords]
    left_out: tuple[str, ...]
    """Runs, data sets and queries that are not compared, and queries without a score, with the reason."""

    @cached_property
    def means(self) -> dict[str, RunDifference]:
        """The mean of each run over the data sets, as a sum over their test rows."""
        return {run: mean_of_differences([paired.alone[run] for paired in self.datasets.values()]) for run in self.runs}

    def at_worst(self, run: str) -> float | None:
        """Return the mean of a run with each missing query at its worst; ``None`` if it is not known."""
        return self.means[run].at_worst(self.higher_is_better)

    def sorted_by(self, run: str) -> float:
        """Return the value by which a run is sorted: with each missing query at its worst.

        If that is not known, the run is untested, and this is the value of the other queries.
        """
        at_worst = self.at_worst(run)
        if at_worst is not None:
            return at_worst
        value, _ = self.means[run].values
        if value is not None:
            return value
        return -math.inf if self.higher_is_better else math.inf

    @cached_property
    def order(self) -> list[str]:
        """The runs, the best first; missing queries count at their worst."""
        return sorted(self.runs, key=self.sorted_by, reverse=self.higher_is_better)

    @cached_property
    def leaders(self) -> list[str]:
        """The runs with the best value; missing queries count at their worst."""
        return [run for run in self.order if self.sorted_by(run) == self.sorted_by(self.order[0])]

    @property
    def rows(self) -> int:
        """The number of test rows, over all data sets."""
        return sum(paired.rows for paired in self.datasets.values())

    def difference(self, first: str, second: str) -> RunDifference:
        """Return the difference of the means of two runs."""
        return mean_of_differences([paired.difference(first, second) for paired in self.datasets.values()])


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
    if len(results) < 2:
        listed = "; ".join(left_out) or "none"
        raise ArgumentError(f"at least two runs are needed: got {len(results)}. Left out: {listed}")
    leader, first = next(iter(results.items()))
    known = metrics_of(first)
    metric = metric or default_metric(first)
    if metric is None:
        raise ArgumentError(
            f"the conditions of an experiment have no common mean: got no metric, expected one of {', '.join(known)}"
        )
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
    incomparable = _incomparable_runs(kept, pairs)
    if len(kept) - len(incomparable) >= 2 and reference not in incomparable:
        left_out += [f"{name} ({reason})" for name, reason in incomparable.items()]
        kept = {name: result for name, result in kept.items() if name not in incomparable}
        pairs, reasons = _pair_datasets(kept, metric)
    left_out += [f"{sets} ({reason})" for reason, sets in reasons.items()]
    if not pairs:
        raise ArgumentError(f"nothing can be compared with {leader} by {metric}: {'; '.join(dict.fromkeys(left_out))}")
    left_out += [f"{dataset}: {note}" for dataset, paired in pairs.items() for note in paired.notes]
    left_out = list(dict.fromkeys(left_out))
    return AlignedRuns(first.benchmark, metric, bool(better), kept, pairs, tuple(left_out))


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


def _incomparable_runs(runs: Mapping[str, Result], pairs: Mapping[str, PairedRecords]) -> dict[str, str]:
    """Return the runs that cannot be compared because queries have no score, with the reason."""
    reasons: dict[str, str] = {}
    for run in runs:
        for paired in pairs.values():
            reason = paired.why_not_comparable(run)
            if reason is not None:
                reasons.setdefault(run, reason)
    return reasons


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
    adjusted = [bonferroni(p_value, chosen_from) for p_value in p_values] if chosen_from else method(p_values)
    return [
        replace(outcome, holm=p) if isinstance(outcome, Tested) and p is not None else outcome
        for outcome, p in zip(outcomes, adjusted, strict=True)
    ]


def corrected_for_conditions(outcome: TestOutcome, conditions: int) -> TestOutcome:
    """Return a test in one condition of an experiment, corrected for all conditions that are shown (Bonferroni)."""
    if not isinstance(outcome, Tested):
        return outcome
    return replace(outcome, holm=min(1.0, outcome.holm * conditions))


def compared_pairs(aligned: AlignedRuns, reference: str | None = None) -> tuple[list[tuple[str, str]], int]:
    """Return the pairs that are compared, and from how many they were chosen by their values; 0 if they were not."""
    runs = list(aligned.runs)
    if reference is not None:
        return _pairs_with([reference], runs), 0
    if len(runs) <= MOST_RUNS:
        return _pairs_with(runs, runs), 0
    return _pairs_with(aligned.leaders, runs), math.comb(len(runs), 2)


def _pairs_with(hubs: Sequence[str], runs: Sequence[str]) -> list[tuple[str, str]]:
    """Return each pair of a hub and another run once."""
    return [(hub, run) for place, hub in enumerate(hubs) for run in runs if run not in hubs[: place + 1]]

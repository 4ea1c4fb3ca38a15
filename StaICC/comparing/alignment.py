"""Runs aligned on the test rows that all of them predicted, with the pairs that are tested."""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property

from StaICC.arguments import known_name
from StaICC.comparing.comparable_scores import default_metric, metrics_of, scores_not_chosen
from StaICC.comparing.missing_queries import RunDifference, mean_of_differences
from StaICC.comparing.pairing import PairedRecords, pair_records
from StaICC.comparing.verdicts import Tested, TestOutcome
from StaICC.errors import ArgumentError, StaICCError
from StaICC.metrics.paired_tests import bonferroni, directional_holm
from StaICC.metrics.scores import score_record
from StaICC.results.details import name_without_no_filter
from StaICC.results.result import Result

MOST_RUNS = 20
"""Largest number of runs of which all pairs are compared. Of more runs, each is compared with the best one only. The
p-values are still corrected for all pairs, because the best run was chosen by the same test rows."""
TABLE_TOLERANCE = 1e-6
"""A value of a table and the value from its records are the same, up to rounding, if they differ by less than this."""


@dataclass(frozen=True)
class AlignedRuns:
    """Runs of one benchmark, paired on the data sets and test rows that all of them predicted."""

    benchmark: str
    metric: str
    higher_is_better: bool
    runs: Mapping[str, Result]
    """The results, by the names of the runs."""
    datasets: Mapping[str, PairedRecords]
    """The records of all runs, by data set."""
    left_out: tuple[str, ...]
    """Sentences about runs, data sets and queries that are not compared, and about queries without a score."""
    other_metrics: tuple[str, ...] = ()
    """The other scores of a benchmark without a main score, if its first one was taken; empty if a metric was given."""

    @cached_property
    def means(self) -> dict[str, RunDifference]:
        """The mean of each run over the data sets, written as its difference from 0: the second value is always 0."""
        means = {}
        for run in self.runs:
            means[run] = mean_of_differences([paired.alone[run] for paired in self.datasets.values()])
        return means

    def at_worst(self, run: str) -> float | None:
        """Return the mean of a run with each missing query at its worst; ``None`` if it is not known."""
        return self.means[run].at_worst(self.higher_is_better)

    def sorted_by(self, run: str) -> float:
        """Return the value by which a run is sorted: its mean with each missing query at its worst.

        If that is not known, the run is untested, and is sorted by its mean over the other queries. Without such a mean
        the run is the last one: its value is minus infinity, or infinity if lower values are better.
        """
        at_worst = self.at_worst(run)
        if at_worst is not None:
            return at_worst
        value, _ = self.means[run].values
        if value is not None:
            return value
        if self.higher_is_better:
            return -math.inf
        return math.inf

    @cached_property
    def order(self) -> list[str]:
        """The names of the runs, the best first; missing queries count at their worst."""
        return sorted(self.runs, key=self.sorted_by, reverse=self.higher_is_better)

    @cached_property
    def leaders(self) -> list[str]:
        """The names of the runs with the best value, one or several; missing queries count at their worst."""
        best_value = self.sorted_by(self.order[0])
        return [run for run in self.order if self.sorted_by(run) == best_value]

    @property
    def rows(self) -> int:
        """The number of test rows, over all data sets."""
        return sum(paired.rows for paired in self.datasets.values())

    def log_notes(self, names: Collection[str]) -> tuple[str, ...]:
        """Return what is unusual in the logs from which runs were read, such as how epochs are averaged.

        Args:
            names: The names of the runs. Those that are not from logs have no notes.
        """
        notes: dict[str, None] = {}
        for name in names:
            result = self.runs[name]
            if result.samples:
                notes.update(dict.fromkeys(f"{name}: {warning}" for warning in result.warnings))
        return tuple(notes)

    def difference(self, first: str, second: str) -> RunDifference:
        """Return the difference of the means of two runs over the data sets, first minus second."""
        return mean_of_differences([paired.difference(first, second) for paired in self.datasets.values()])


def align(results: Mapping[str, Result], metric: str | None, reference: str | None = None) -> AlignedRuns:
    """Return the runs that can be compared, paired on the data sets and test rows that all of them have.

    Runs that cannot be compared are left out in three steps:

    1. runs that stopped early;
    2. if runs cannot be compared on a data set: runs that cannot be compared with the first one on any data set;
    3. runs with missing queries, if the metric is no mean over queries.

    Args:
        results: The results of one benchmark, by the names of their runs; two at least.
        metric: A score with a mean over data sets; ``None`` for the main one of the benchmark.
        reference: Name of a run that must be among those compared; ``None`` if there is no such run.

    Raises:
        ArgumentError: Fewer than two runs can be compared; the message says why.
        UnknownNameError: The benchmark has no such metric, or there is no such reference.
    """
    runs, left_out = _complete_runs(results, reference)
    first_name = next(iter(runs))
    first = runs[first_name]
    other_metrics = () if metric else scores_not_chosen(first)
    metric, higher_is_better = _checked_metric(first, metric)

    datasets, reasons = _pair_datasets(runs, metric)
    if reasons:
        # A data set may be lost because of a single run. Such a run is left out, and the others are paired again.
        not_like_first = _runs_unlike_first(runs, metric)
        left_out += [f"{run} ({reason})" for run, reason in not_like_first.items()]
        runs = _without(runs, not_like_first)
        datasets, reasons = {}, {}
        if len(runs) > 1:
            datasets, reasons = _pair_datasets(runs, metric)

    # Runs with missing queries are left out only if two others can still be compared, and the reference is not one of
    # them. Otherwise they are kept: their pairs are untested, with the reason.
    incomparable = _incomparable_runs(runs, datasets)
    if len(runs) - len(incomparable) >= 2 and reference not in incomparable:
        left_out += [f"{run} ({reason})" for run, reason in incomparable.items()]
        runs = _without(runs, incomparable)
        datasets, reasons = _pair_datasets(runs, metric)

    left_out += [f"{names} ({reason})" for reason, names in reasons.items()]
    if not datasets:
        listed = "; ".join(dict.fromkeys(left_out))
        raise ArgumentError(f"nothing can be compared with {first_name} by {metric}: {listed}")
    for dataset, paired in datasets.items():
        left_out += [f"{dataset}: {note}" for note in paired.notes]
    return AlignedRuns(
        benchmark=first.benchmark,
        metric=metric,
        higher_is_better=higher_is_better,
        runs=runs,
        datasets=datasets,
        left_out=tuple(dict.fromkeys(left_out)),
        other_metrics=other_metrics,
    )


def _complete_runs(results: Mapping[str, Result], reference: str | None) -> tuple[dict[str, Result], list[str]]:
    """Return the runs that did not stop early, and those left out with the reason.

    Args:
        results: The results, by the names of their runs.
        reference: A run that comes first; ``None`` for the order of the results.

    Raises:
        ArgumentError: The results are no mapping of names to results, or fewer than two runs did not stop early.
        UnknownNameError: There is no such reference.
    """
    if not isinstance(results, Mapping) or not all(isinstance(result, Result) for result in results.values()):
        raise ArgumentError(f"results: got {results!r:.80}, expected a mapping of names to results. load() reads files")
    runs: dict[str, Result] = {}
    left_out: list[str] = []
    for name, result in results.items():
        if result.stopping is None:
            runs[name] = result
        else:
            left_out.append(
                f"{name} (it stopped early, and these tests need a fixed number of rows: use race, or full runs)"
            )
    if reference is not None:
        known_name("run", reference, runs)
        runs = {reference: runs[reference], **runs}
    if len(runs) < 2:
        listed = "; ".join(left_out) or "none"
        raise ArgumentError(f"at least two runs are needed: got {len(runs)}. Left out: {listed}")
    return runs, left_out


def _checked_metric(result: Result, metric: str | None) -> tuple[str, bool]:
    """Return the name of the metric by which runs are compared, and whether higher values are better.

    A metric of the user's own may have no direction. There are two cases:

    - The result has the score of each query, so the metric could be tested. This is an error: the direction is needed.
    - The result does not have these scores, so the metric cannot be tested. Then its direction does not matter, and the
      returned truth value is False.

    Args:
        result: The first run.
        metric: Name of the metric; ``None`` for the main one of the benchmark.

    Raises:
        ArgumentError: No metric was given for an experiment, whose conditions have no common mean; or a metric with
            query scores has no direction; or the metric of a log was left out when it was read.
        UnknownNameError: The result has no such metric.
    """
    known = metrics_of(result)
    metric = metric or default_metric(result)
    if metric is not None and result.samples:
        metric = name_without_no_filter(metric)
        _check_not_left_out(result, metric, known)
    if metric is None:
        raise ArgumentError(
            f"the conditions of an experiment have no common mean: got no metric, expected one of {', '.join(known)}"
        )
    known_name("metric", metric, known)
    higher_is_better = score_record(result.benchmark, metric, result.higher_is_better).higher_is_better
    if higher_is_better is None and result.samples:
        raise ArgumentError(
            f"{metric}: it is not known whether higher values of this metric of a log are better. State it: "
            "--direction higher or lower, in Python read_logs(..., higher_is_better=True or False)"
        )
    if higher_is_better is None and metric in result.query_scores:
        raise ArgumentError(f"{metric}: got a metric without a direction, expected Metric(..., higher_is_better=...)")
    return metric, bool(higher_is_better)


def _check_not_left_out(result: Result, metric: str, known: Collection[str]) -> None:
    """Raise an ArgumentError with the reason if a metric of a log was left out when the log was read."""
    if metric in known:
        return
    for dataset, details in result.details.items():
        for note in details.notes:
            if note.startswith(f"{metric} is left out: "):
                raise ArgumentError(f"{dataset}: {note}. There are: {', '.join(known)}")


def _pair_datasets(runs: Mapping[str, Result], metric: str) -> tuple[dict[str, PairedRecords], dict[str, str]]:
    """Return the paired records of the runs by data set, and the data sets on which the runs cannot be compared.

    The second dictionary has the reason as key, and the names of the data sets with this reason as value, such as
    ``{"the runs share no test row": "TREC, AGNews"}``.
    """
    names: dict[str, None] = {}
    for result in runs.values():
        names |= dict.fromkeys(result.divided)

    paired: dict[str, PairedRecords] = {}
    reasons: dict[str, str] = {}
    for dataset in names:
        try:
            paired[dataset] = pair_records(runs, dataset, metric)
        except StaICCError as error:
            reason = str(error)
            if reason in reasons:
                reasons[reason] += f", {dataset}"
            else:
                reasons[reason] = dataset
    return paired, reasons


def _runs_unlike_first(runs: Mapping[str, Result], metric: str) -> dict[str, str]:
    """Return the runs that cannot be compared with the first one on any data set: names and reasons."""
    first_name = next(iter(runs))
    first = runs[first_name]
    unlike: dict[str, str] = {}
    for name, result in runs.items():
        if name == first_name:
            continue
        paired, reasons = _pair_datasets({first_name: first, name: result}, metric)
        if paired:
            continue
        if first.divided.keys().isdisjoint(result.divided):
            unlike[name] = f"its data sets are {', '.join(result.divided)}, not {', '.join(first.divided)}"
        else:
            unlike[name] = "; ".join(f"{names}: {reason}" for reason, names in reasons.items())
    return unlike


def _incomparable_runs(runs: Mapping[str, Result], datasets: Mapping[str, PairedRecords]) -> dict[str, str]:
    """Return the runs that cannot be compared because queries are missing: names and reasons.

    The reason is that of the first data set on which a run cannot be compared.
    """
    reasons: dict[str, str] = {}
    for run in runs:
        for paired in datasets.values():
            reason = paired.why_not_comparable(run)
            if reason is not None:
                reasons[run] = reason
                break
    return reasons


def _without(runs: Mapping[str, Result], left_out: Collection[str]) -> dict[str, Result]:
    """Return the runs whose names are not left out."""
    return {name: result for name, result in runs.items() if name not in left_out}


# -- which pairs are tested, and how their p-values are corrected


def compared_pairs(aligned: AlignedRuns, reference: str | None = None) -> tuple[list[tuple[str, str]], int]:
    """Return the pairs of runs that are compared, and the number of pairs from which they were chosen by their values.

    - With a reference: the pairs of the reference and each other run. They do not depend on the values of the runs, so
      the number is 0.
    - Of up to :data:`MOST_RUNS` runs: all pairs. The number is 0.
    - Of more runs: the pairs of the best run and each other run. Which run is best depends on the values, so the number
      is that of all pairs.

    Args:
        aligned: The runs.
        reference: Name of the reference; ``None`` without one.
    """
    runs = list(aligned.runs)
    if reference is not None:
        return _pairs_with([reference], runs), 0
    if len(runs) <= MOST_RUNS:
        return _pairs_with(runs, runs), 0
    return _pairs_with(aligned.leaders, runs), math.comb(len(runs), 2)


def _pairs_with(hubs: Sequence[str], runs: Sequence[str]) -> list[tuple[str, str]]:
    """Return each pair of a hub and another run once.

    Args:
        hubs: The runs that are compared with all other runs.
        runs: All runs.
    """
    pairs = []
    for index, hub in enumerate(hubs):
        done = hubs[: index + 1]  # the hub itself, and those whose pairs are listed
        pairs += [(hub, run) for run in runs if run not in done]
    return pairs


def corrected(
    outcomes: Sequence[TestOutcome],
    method: Callable[[Sequence[float | None]], list[float | None]] = directional_holm,
    chosen_from: int = 0,
) -> list[TestOutcome]:
    """Return tests with corrected p-values.

    Args:
        outcomes: The tests.
        method: The function that corrects p-values for the number of tests, if the tests were not chosen by their
            values; by default, the method of Holm for both directions of each test.
        chosen_from: Number of tests from which these were chosen by their values; 0 if they were not. Chosen tests are
            corrected by Bonferroni's method for this number of tests.
    """
    p_values = [outcome.p_value if isinstance(outcome, Tested) else None for outcome in outcomes]
    if chosen_from > 0:
        adjusted = [bonferroni(p_value, chosen_from) for p_value in p_values]
    else:
        adjusted = method(p_values)

    corrected_outcomes: list[TestOutcome] = []
    for outcome, p_value in zip(outcomes, adjusted, strict=True):
        if isinstance(outcome, Tested) and p_value is not None:
            outcome = replace(outcome, holm=p_value)
        corrected_outcomes.append(outcome)
    return corrected_outcomes


def corrected_for_conditions(outcome: TestOutcome, conditions: int) -> TestOutcome:
    """Return a test in one condition of an experiment, corrected for the number of conditions (Bonferroni).

    Args:
        outcome: The test; untested is returned unchanged.
        conditions: Number of conditions that are shown together.
    """
    if not isinstance(outcome, Tested):
        return outcome
    return replace(outcome, holm=min(1.0, outcome.holm * conditions))

"""Runs that can be compared, with the pairs that are tested."""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from itertools import islice

from StaICC.argument_syntax import in_each_syntax
from StaICC.arguments import known_name
from StaICC.comparing.comparable_scores import (
    default_metric,
    first_score_note,
    metric_key,
    metrics_of,
    scores_not_chosen,
)
from StaICC.comparing.missing_queries import RunDifference
from StaICC.comparing.run_pairs import RunPair, ScoredRun, pair_runs, read_run
from StaICC.comparing.verdicts import CorrectionMethod, Tested, TestOutcome
from StaICC.errors import ArgumentError
from StaICC.metrics.paired_tests import bonferroni, directional_holm
from StaICC.metrics.scores import score_record
from StaICC.results.details import name_without_no_filter
from StaICC.results.result import Result, ResultGroup
from StaICC.results.runs import check_results_by_name

MOST_RUNS = 20
"""Largest number of runs of which all pairs are compared. Of more runs, each is compared with the best one only. The
p-values are still corrected for all pairs, because the best run was chosen by the same test rows."""
TABLE_TOLERANCE = 1e-6
"""A value of a table and the value from its records are the same, up to rounding, if they differ by less than this."""


@dataclass(frozen=True)
class AlignedRuns:
    """Runs of one benchmark that can be compared: a score depends on its run only, a pair on its two runs."""

    benchmark: str
    metric: str
    higher_is_better: bool
    runs: Mapping[str, Result]
    """The results, by the names of the runs."""
    scored: Mapping[str, ScoredRun]
    """The score of each run on its data sets, by the names of the runs."""
    runs_left_out: tuple[str, ...]
    """The runs that cannot be compared, with the reason."""
    other_metrics: tuple[str, ...] = ()
    """The other scores of a benchmark without a main score, if its first one was taken; empty if a metric was given."""
    _pairs: dict[tuple[str, str], RunPair] = field(default_factory=dict, repr=False)
    """The pairs that were asked for so far."""

    def pair(self, first: str, second: str) -> RunPair:
        """Return two runs, paired on their data sets."""
        names = (first, second)
        if names not in self._pairs:
            self._pairs[names] = pair_runs(self.scored[first], self.scored[second], self.metric)
        return self._pairs[names]

    def is_comparable(self, first: str, second: str) -> bool:
        """Return whether two runs can be compared on a data set at least. Their order does not matter."""
        reversed_pair = self._pairs.get((second, first))
        if reversed_pair is not None:
            return bool(reversed_pair.datasets)
        return bool(self.pair(first, second).datasets)

    @cached_property
    def have_same_rows(self) -> bool:
        """Whether all runs have the same data sets and test rows, so that all queries count in each pair.

        If this is so for the first run and each other one, it is so for all pairs.
        """
        first, *others = self.runs
        return all(self.pair(first, other).has_all_queries for other in others)

    @cached_property
    def means(self) -> dict[str, RunDifference]:
        """The mean of each run over its data sets, written as its difference from 0: the second value is always 0."""
        return {name: scored.mean for name, scored in self.scored.items()}

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
    def datasets(self) -> list[str]:
        """The data sets on which a run can be compared, in the order of the first run that has them."""
        return list(dict.fromkeys(dataset for scored in self.scored.values() for dataset in scored.scores))

    @property
    def rows(self) -> int:
        """The number of test rows that any run has, over all data sets."""
        row_count = 0
        for dataset in self.datasets:
            rows_of_any_run: set[int] = set()
            for scored in self.scored.values():
                if dataset in scored.scores:
                    rows_of_any_run.update(scored.scores[dataset].row_numbers)
            row_count += len(rows_of_any_run)
        return row_count

    @property
    def left_out(self) -> tuple[str, ...]:
        """Sentences about what is not compared: runs, data sets of a run, and queries without a score."""
        sentences = list(self.runs_left_out)
        for name, scored in self.scored.items():
            unreadable_in_all_runs = [dataset for dataset in scored.unreadable if dataset not in self.datasets]
            for dataset in [*self.datasets, *unreadable_in_all_runs]:
                reason = scored.why_not_on(dataset)
                if reason is not None:
                    sentences.append(f"{dataset} ({name}: {reason})")
        for scored in self.scored.values():
            sentences += scored.missing_notes
        return tuple(dict.fromkeys(sentences))

    @property
    def notes(self) -> tuple[str, ...]:
        """Sentences about data sets on which the runs have other test rows, or other numbers of queries for each."""
        sentences = []
        for dataset in self.datasets:
            scores = [scored.scores[dataset] for scored in self.scored.values() if dataset in scored.scores]
            first = scores[0]
            if any(score.rows_by_condition != first.rows_by_condition for score in scores):
                row_counts = _range_text([score.rows for score in scores])
                sentences.append(
                    f"{dataset}: the runs have other test rows ({row_counts}). The value of a run is that of all its "
                    "rows, and pairs are tested on the rows that both have"
                )
            elif any(score.positions != first.positions for score in scores):
                query_counts = _range_text([score.queries for score in scores])
                sentences.append(
                    f"{dataset}: the runs have {query_counts} queries of {first.rows} test rows. Runs with other "
                    "numbers of queries are paired by the mean of each test row"
                )
        return tuple(sentences)

    def log_notes(self, names: Collection[str]) -> tuple[str, ...]:
        """Return what is unusual in the logs of other harnesses from which runs were read, such as averaged epochs.

        Args:
            names: The names of the runs. Those of this library have no logs, and no notes here.

        Returns:
            The notes, each with the name of its run, and each once.
        """
        notes = []
        for name in names:
            result = self.runs[name]
            is_from_logs = bool(result.samples)
            if is_from_logs:
                notes += [f"{name}: {warning}" for warning in result.warnings]
        return tuple(dict.fromkeys(notes))


def _range_text(numbers: Collection[int]) -> str:
    """Return the smallest and the largest number as text, such as "128 to 256"; of equal ones a single number."""
    smallest = min(numbers)
    largest = max(numbers)
    if smallest == largest:
        return str(smallest)
    return f"{smallest} to {largest}"


def align(results: Mapping[str, Result], metric: str | None, reference: str | None = None) -> AlignedRuns:
    """Return the runs that can be compared.

    Runs that cannot be compared are left out:

    - runs that stopped early;
    - runs that can be compared with no other run on any data set (with a reference: not with the reference);
    - runs with missing queries, if the metric is no mean over queries.

    Args:
        results: The results of one benchmark, by the names of their runs; two at least.
        metric: A score with a mean over data sets; ``None`` for the main one of the benchmark.
        reference: Name of a run that must be among those compared; ``None`` if there is no such run.

    Raises:
        ArgumentError: Fewer than two runs can be compared; the message says why.
        UnknownNameError: The benchmark has no such metric, or there is no such reference.
    """
    runs, left_out = _complete_runs(results, reference)
    first = next(iter(runs.values()))
    other_metrics = () if metric else scores_not_chosen(first)
    metric, higher_is_better = _checked_metric(first, metric)
    aligned = AlignedRuns(
        benchmark=first.benchmark,
        metric=metric,
        higher_is_better=higher_is_better,
        runs=runs,
        scored={name: read_run(name, result, metric) for name, result in runs.items()},
        runs_left_out=tuple(left_out),
        other_metrics=other_metrics,
    )
    comparable = _without(aligned, _incomparable_runs(aligned, reference))
    return _without_missing_queries(comparable, reference)


def _without_missing_queries(aligned: AlignedRuns, reference: str | None) -> AlignedRuns:
    """Return the runs without those that missing queries make incomparable.

    All runs are returned if the reference is among these, or if no two runs can be compared without them. The pairs of
    such a run are untested then, with the reason.

    Args:
        aligned: The runs.
        reference: The run with which each other one is compared; ``None`` if all pairs are.
    """
    incomplete: dict[str, str] = {}
    for name, scored in aligned.scored.items():
        reason = scored.why_not_comparable()
        if reason is not None:
            incomplete[name] = reason
    if reference in incomplete or len(aligned.runs) - len(incomplete) < 2:
        return aligned

    complete = _without(aligned, incomplete)
    for run, partners in _partners(complete, reference).items():
        if any(complete.is_comparable(run, partner) for partner in partners):
            return _without(complete, _incomparable_runs(complete, reference))
    return aligned


def _partners(aligned: AlignedRuns, reference: str | None) -> dict[str, list[str]]:
    """Return for each run the runs with which it is compared.

    Without a reference (``None``), these are all other runs. With a reference, each run is compared with the reference
    only, and the reference with all others.
    """
    partners = {}
    for run in aligned.runs:
        if reference is None or run == reference:
            partners[run] = [other for other in aligned.runs if other != run]
        else:
            partners[run] = [reference]
    return partners


def _incomparable_runs(aligned: AlignedRuns, reference: str | None) -> dict[str, str]:
    """Return the runs that can be compared with no other run, each with the reason.

    The reason is that of the pair with the first run; for the first run itself, that of the pair with the second one.

    Args:
        aligned: The runs.
        reference: The run with which each other one is compared, which is then the first; ``None`` if all pairs are.

    Raises:
        ArgumentError: No two runs can be compared.
    """
    first_run, second_run, *_ = aligned.runs
    incomparable: dict[str, str] = {}
    for run, partners in _partners(aligned, reference).items():
        if any(aligned.is_comparable(run, partner) for partner in partners):
            continue
        other_run = second_run if run == first_run else first_run
        pair = aligned.pair(other_run, run)  # the reason is about the second run of the pair
        incomparable[run] = pair.why_not_comparable()
    if len(incomparable) == len(aligned.runs):
        reasons_of_others = {run: reason for run, reason in incomparable.items() if run != first_run}
        reasons = [*aligned.runs_left_out, *_with_reasons(reasons_of_others)]
        if aligned.other_metrics:
            reasons.append(first_score_note(aligned.other_metrics))
        listed = "; ".join(reasons)
        raise ArgumentError(f"nothing can be compared with {first_run} by {aligned.metric}: {listed}")
    return incomparable


def _with_reasons(runs: Mapping[str, str]) -> list[str]:
    """Return names of runs with their reasons in brackets."""
    return [f"{run} ({reason})" for run, reason in runs.items()]


def _without(aligned: AlignedRuns, left_out: Mapping[str, str]) -> AlignedRuns:
    """Return the runs without some, which are left out for the given reasons."""
    if not left_out:
        return aligned
    return replace(
        aligned,
        runs={name: result for name, result in aligned.runs.items() if name not in left_out},
        scored={name: scored for name, scored in aligned.scored.items() if name not in left_out},
        runs_left_out=(*aligned.runs_left_out, *_with_reasons(left_out)),
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
    check_results_by_name(results)
    for name, result in results.items():
        if isinstance(result, ResultGroup):
            raise ArgumentError(
                f"results, {name!r}: got a group of results, {', '.join(result)}, expected one result. Take it from "
                "the group by its name"
            )
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

    A metric of the user's own may have no direction. If the result has its score of each query, this is an error,
    because a test needs the direction. Otherwise the metric cannot be tested, so its direction does not matter, and the
    returned truth value is False.

    Args:
        result: The first run.
        metric: Name of the metric; ``None`` for the main one of the benchmark.

    Raises:
        ArgumentError: No metric was given for an experiment, whose conditions have no common mean; or a metric with
            query scores has no direction; or the metric of a log was left out when it was read.
        UnknownNameError: The result has no such metric.
    """
    is_log = bool(result.samples)
    known = metrics_of(result)
    metric = metric or default_metric(result)
    if metric is None:
        raise ArgumentError(
            f"the conditions of an experiment have no common mean: got no metric, expected one of {', '.join(known)}"
        )
    if is_log:
        metric = name_without_no_filter(metric)
        _check_not_left_out(result, metric, known)
    metric = metric_key(result, metric)
    known_name("metric", metric, known)

    higher_is_better = score_record(result.benchmark, metric, result.higher_is_better).higher_is_better
    if higher_is_better is None and is_log:
        how = in_each_syntax("read_logs(..., higher_is_better=True or False)", "--direction higher or lower")
        raise ArgumentError(
            f"{metric}: it is not known whether higher values of this metric of a log are better. State it: {how}"
        )
    if higher_is_better is None and metric in result.query_scores:
        raise ArgumentError(f"{metric}: got a metric without a direction, expected Metric(..., higher_is_better=...)")
    return metric, bool(higher_is_better)


def _check_not_left_out(result: Result, metric: str, known: Collection[str]) -> None:
    """Raise an ArgumentError with the reason if a metric of a log was left out when the log was read."""
    if metric in known:
        return
    for dataset, details in result.details.items():
        if metric in details.missing:
            reason = details.missing[metric]
            raise ArgumentError(f"{dataset}: {metric} is undefined: {reason}. There are: {', '.join(known)}")


def is_same_value(first: float | None, second: float | None) -> bool:
    """Return whether two values are the same up to rounding; two undefined values (``None``) are the same."""
    if first is None or second is None:
        return first is None and second is None
    return abs(first - second) <= TABLE_TOLERANCE


# -- which pairs are tested, and how their p-values are corrected


@dataclass(frozen=True)
class ComparedPairs:
    """The pairs of runs that are compared, by the names of the runs."""

    pairs: Sequence[tuple[str, str]]
    """All these pairs, with those that share no data set."""
    comparable: Sequence[tuple[str, str]]
    """The pairs with a data set on which both runs have the score. P-values are corrected for the number of these: a
    pair without such a data set is no test."""
    chosen_from: int
    """Number of pairs from which the pairs were chosen by the values of the runs; 0 if they were not chosen so."""

    @property
    def method(self) -> CorrectionMethod:
        """The method by which :func:`corrected` corrects their p-values."""
        if self.chosen_from > 0:
            return "Bonferroni"
        return "Holm"

    @property
    def test_count(self) -> int:
        """Number of pairs for which p-values are corrected: all comparable ones, or all from which they were chosen."""
        if self.chosen_from > 0:
            return self.chosen_from
        return len(self.comparable)


def compared_pairs(aligned: AlignedRuns, reference: str | None = None) -> ComparedPairs:
    """Return the pairs of runs that are compared.

    - With a reference: the pairs of the reference and each other run.
    - Of up to :data:`MOST_RUNS` runs: all pairs.
    - Of more runs: the pairs of the best run (or of each run with the best value) and each other run.

    In the last case the pairs are chosen by the same values that are tested. A chosen pair differs by chance more than
    a pair that was fixed before. So its p-value is corrected for all pairs from which it was chosen.

    Args:
        aligned: The runs.
        reference: Name of the reference; ``None`` without one.
    """
    runs = list(aligned.runs)
    chosen_from = 0  # not chosen by the values of the runs
    if reference is not None:
        pairs = _pairs_with([reference], runs)
    elif len(runs) <= MOST_RUNS:
        pairs = _pairs_with(runs, runs)
    else:
        pairs = _pairs_with(aligned.leaders, runs)
        chosen_from = math.comb(len(runs), 2)
    comparable = [(first, second) for first, second in pairs if aligned.is_comparable(first, second)]
    return ComparedPairs(pairs, comparable, chosen_from)


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
            outcome = replace(outcome, corrected_p_value=p_value)
        corrected_outcomes.append(outcome)
    return corrected_outcomes


def corrected_in_groups(
    groups: Sequence[Sequence[TestOutcome]],
    method: Callable[[Sequence[float | None]], list[float | None]] = directional_holm,
    chosen_from: int = 0,
) -> list[list[TestOutcome]]:
    """Return groups of tests with p-values that are corrected for the tests of all groups together.

    Args:
        groups: The tests in groups, such as those of one pair of runs.
        method: As for :func:`corrected`.
        chosen_from: As for :func:`corrected`.
    """
    tests = [outcome for group in groups for outcome in group]
    corrected_tests = iter(corrected(tests, method, chosen_from))
    return [list(islice(corrected_tests, len(group))) for group in groups]


def corrected_for_conditions(outcome: TestOutcome, conditions: int) -> TestOutcome:
    """Return a test in one condition of an experiment, corrected for the number of conditions (Bonferroni).

    Args:
        outcome: The test; untested is returned unchanged.
        conditions: Number of conditions that are shown together.
    """
    if not isinstance(outcome, Tested):
        return outcome
    corrected_p = min(1.0, outcome.corrected_p_value * conditions)
    return replace(outcome, corrected_p_value=corrected_p)

"""Ranks of runs, with intervals that hold together.

Every pair of runs is tested by the paired test of :mod:`StaICC.metrics.paired_tests`; the p-values of both
directions of all pairs are corrected together (:func:`~StaICC.metrics.paired_tests.directional_holm`). A run is behind
each run that is shown to be better, and before each one that is shown to be worse. So all intervals of ranks together
contain the true ranks with probability 0.95 (Mogstad, Romano, Shaikh and Wilhelm 2024, "Inference for Ranks", Review of
Economic Studies 91; Klein, Wright and Wieczorek 2020, "A joint confidence region for an overall ranking of
populations", JRSS C 69).

Of more than :data:`~StaICC.comparing.alignment.MOST_RUNS` runs, most pairs are decided by a bound
(:mod:`~StaICC.comparing.rank_bounds`).
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import combinations
from typing import Any

from StaICC.comparing.alignment import (
    MOST_RUNS,
    TABLE_TOLERANCE,
    AlignedRuns,
    align,
    compared_pairs,
    corrected,
    corrected_for_conditions,
)
from StaICC.comparing.missing_queries import difference_outcome
from StaICC.comparing.rank_bounds import p_value_bounds
from StaICC.comparing.verdicts import Best, Tested, TestOutcome, Untested, Verdict, describe, verdict_of
from StaICC.errors import StaICCError
from StaICC.layout import Block, Displayed, Line, TextTable
from StaICC.metrics.paired_tests import SIGNIFICANCE_LEVEL
from StaICC.results.result import Result


@dataclass(frozen=True, slots=True)
class Rank:
    """The place of one run among several."""

    run: str
    value: float | None
    """The metric, as the mean over the compared data sets, on the queries that have a score; ``None`` if no query of a
    data set (or of a condition) has one."""
    groups: str
    """Letters; two runs share a letter if they are not shown to differ (Holm, level 0.05). Empty for more than
    :data:`MOST_RUNS` runs."""
    verdict: Verdict
    """In comparison with the best run."""
    ranks: tuple[int, int] | None = None
    """The lowest and the highest rank that it can have: all such intervals together contain the true ranks with
    probability 0.95. ``None`` if not all pairs of runs are tested."""
    condition_ranks: tuple[int, int] | None = None
    """The lowest and the highest rank with one template, or one draw of the demonstrations (:func:`rank`); ``None`` if
    there is one of each, or if the metric is not the mean over them."""
    missing: int = 0
    """Number of queries without a score."""
    at_worst: float | None = None
    """The metric with each missing query at its worst, by which runs are sorted; ``None`` without missing queries, and
    if it is not known because the metric is no mean over queries."""

    @property
    def sorted_by(self) -> float | None:
        """The value by which runs are sorted: missing queries count at their worst.

        If that is not known, the run is untested, and this is the value of the other queries.
        """
        return self.value if self.at_worst is None else self.at_worst

    @property
    def worst_cell(self) -> str:
        """The value with missing queries at their worst as text; ``-`` if it is not known."""
        worst = self.value if self.missing == 0 else self.at_worst
        return "-" if worst is None else f"{worst:.4f}"

    @property
    def interval_cell(self) -> str:
        """The interval of ranks as text."""
        return _ends(self.ranks)


def _ends(ends: tuple[int, int] | None) -> str:
    if ends is None:
        return "-"
    low, high = ends
    return str(low) if low == high else f"{low} .. {high}"


MISSING_NOTE = (
    "no score: queries that failed, or whose reply has no label. The value is that of the other queries; runs are "
    "sorted and tested with missing queries at their worst (-: not known, and not tested)."
)


def rank_table(ranks: Sequence[Rank], metric: str) -> TextTable:
    """Return the runs with what is known of all of them."""
    with_conditions = any(rank.condition_ranks is not None for rank in ranks)
    with_missing = any(rank.missing for rank in ranks)
    head = ["rank", "95 %", "run", "group", "verdict", metric]
    if with_missing:
        head += ["no score", "at worst"]
    if with_conditions:
        head.append("conditions")
    rows = []
    for number, rank in enumerate(ranks, 1):
        value = "-" if rank.value is None else f"{rank.value:.4f}"
        row = [str(number), rank.interval_cell, rank.run, rank.groups, describe(rank.verdict), value]
        if with_missing:
            row += [str(rank.missing), rank.worst_cell]
        if with_conditions:
            row.append(_ends(rank.condition_ranks))
        rows.append(row)
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
        datasets = f"{len(self.datasets)} data sets" if len(self.datasets) > 1 else "1 data set"
        below = [
            f"95 %: all intervals of ranks together have the true ranks with probability 0.95 (paired tests, Holm over "
            f"both directions of all pairs, level {SIGNIFICANCE_LEVEL:g})."
        ]
        if any(run.missing for run in self.runs):
            below.append(MISSING_NOTE)
        if any(run.condition_ranks for run in self.runs):
            below.append("conditions: lowest and highest rank with one template or one draw of the demonstrations.")
        return [
            Line(f"{self.benchmark}: {len(self.runs)} runs", "title"),
            Line(f"{self.metric} ({direction} is better), {datasets}, {self.rows} test rows"),
            rank_table(self.runs, self.metric),
            *map(Line, [*below, *(f"left out: {reason}" for reason in self.left_out)]),
        ]


def standings(
    runs: Mapping[str, Result], metric: str, higher_is_better: bool, all_pairs: bool = False, conditions: int = 1
) -> dict[str, Rank]:
    """Return the place of each run that has a value of a metric, with the verdict in comparison with the best value.

    A run that predicted no query of a data set has no value, but a place: it is compared with these queries at their
    worst, as every run.

    Args:
        runs: Results of one benchmark, by the names of their runs.
        metric: A score with a mean over data sets.
        higher_is_better: Whether larger values are better.
        all_pairs: Test all pairs of runs, which intervals of ranks need; by default, more than :data:`MOST_RUNS` runs
            are compared with the best one only.
        conditions: Number of conditions of an experiment that are shown together, for which verdicts are corrected.
    """
    values = {name: result.averaged.get(metric) for name, result in runs.items()}
    missing = {name: runs[name].left_out_of(metric) for name in values}
    values = {name: value for name, value in values.items() if value is not None or missing[name] > 0}
    shown: dict[str, Rank] = {}
    try:
        aligned = align({name: runs[name] for name in values}, metric)
        ranks, reason = rank_runs(aligned, all_pairs, conditions), "; ".join(aligned.left_out)
        shown = {place.run: place for place in ranks if _same_value(place.value, values[place.run])}
    except StaICCError as error:
        reason = str(error)
    at_worst = {name: value for name, value in values.items() if missing[name] == 0 and value is not None}
    at_worst |= {name: place.at_worst for name, place in shown.items() if place.at_worst is not None}
    best = (max if higher_is_better else min)(at_worst.values(), default=None)
    if not any(at_worst.get(name) == best for name in shown):
        shown = {}
    reason = reason or "the comparison has another value of this score"
    places = {}
    for name, value in values.items():
        if value is None and name not in at_worst:  # nothing is known of this run
            continue
        place = shown.get(name, Rank(name, value, "", Untested(reason), missing=missing[name]))
        untested = name in shown and isinstance(place.verdict, Untested)
        if at_worst.get(name) == best and (name in shown or missing[name] == 0) and not untested:
            place = replace(place, verdict=Best())
        places[name] = place
    return places


def _same_value(first: float | None, second: float | None) -> bool:
    """Return whether two values are the same in a table; undefined ones are."""
    if first is None or second is None:
        return first is second
    return abs(first - second) <= TABLE_TOLERANCE


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
    incomparable = [reason for run in order if (reason := aligned.means[run].reason) is not None]
    if incomparable:  # each pair has a run that cannot be compared
        return tuple(_rank(aligned, run, "", Untested(incomparable[0])) for run in order)
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
        ranks.append(_rank(aligned, run, letters, verdict, interval))
    return tuple(ranks)


def _rank(
    aligned: AlignedRuns, run: str, letters: str, verdict: Verdict, interval: tuple[int, int] | None = None
) -> Rank:
    """Return a run with its value, and what its missing queries make of it."""
    mean = aligned.means[run]
    missing, _ = mean.missing
    at_worst = None
    if missing > 0 and mean.bounds is not None:
        at_worst = aligned.at_worst(run)
    return Rank(run, mean.values[0], letters, verdict, interval, missing=missing, at_worst=at_worst)


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


def rank(results: Mapping[str, Result], metric: str | None = None) -> Ranking:
    """Rank results of one benchmark by the mean of one metric.

    Args:
        results: The results, by the names of their runs; two at least.
        metric: A score with a mean over data sets; by default the benchmark's main one.

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
    aligned = align(results, metric)
    conditions = _condition_ranks(aligned)
    runs = tuple(replace(place, condition_ranks=conditions.get(place.run)) for place in rank_runs(aligned))
    return Ranking(
        aligned.benchmark,
        aligned.metric,
        aligned.higher_is_better,
        tuple(aligned.datasets),
        aligned.rows,
        runs,
        aligned.left_out,
    )


def rank_runs(aligned: AlignedRuns, all_pairs: bool = True, conditions: int = 1) -> tuple[Rank, ...]:
    """Return the runs with the intervals of their ranks, the best first.

    Args:
        aligned: The runs.
        all_pairs: Test all pairs of runs, which intervals of ranks need; else more than :data:`MOST_RUNS` runs are
            compared with the best one only.
        conditions: As for :func:`standings`.
    """
    pairs, chosen_from = (list(combinations(aligned.order, 2)), 0) if all_pairs else compared_pairs(aligned)
    bound = p_value_bounds(aligned) if all_pairs and len(aligned.runs) > MOST_RUNS else lambda first, second: None
    outcomes: list[TestOutcome] = []
    for first, second in pairs:  # of many runs, only those of the best ones have their exact p-value
        p = None if first in aligned.leaders else bound(first, second)
        outcomes.append(difference_outcome(aligned.difference(first, second)) if p is None else Tested(p, p))
    of_pairs = corrected(outcomes, chosen_from=chosen_from)
    return ranks_of(aligned, pairs, [corrected_for_conditions(outcome, conditions) for outcome in of_pairs])


def _condition_ranks(aligned: AlignedRuns) -> dict[str, tuple[int, int]]:
    """Return the range of the ranks of each run over templates and draws of demonstrations."""
    ranks: dict[str, list[int]] = {run: [] for run in aligned.runs}
    values = [paired.condition_values for paired in aligned.datasets.values()]
    if len({tuple(of_dataset) for of_dataset in values}) > 1:  # data sets with other conditions
        return {}
    for condition in values[0]:
        means = {run: math.fsum(of_dataset[condition][run] for of_dataset in values) for run in aligned.runs}
        for run, mean in means.items():
            better = sum(other > mean if aligned.higher_is_better else other < mean for other in means.values())
            ranks[run].append(1 + better)
    return {run: (min(of_run), max(of_run)) for run, of_run in ranks.items() if len(of_run) > 1}

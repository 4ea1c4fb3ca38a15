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

from StaICC.benchmark_names import class_name
from StaICC.comparing.alignment import (
    MOST_RUNS,
    AlignedRuns,
    align,
    compared_pairs,
    corrected,
    corrected_for_conditions,
    is_same_value,
)
from StaICC.comparing.comparable_scores import first_score_note
from StaICC.comparing.missing_queries import difference_outcome
from StaICC.comparing.rank_bounds import p_value_bounds
from StaICC.comparing.run_pairs import ScoredRun
from StaICC.comparing.verdicts import (
    Best,
    Tested,
    TestOutcome,
    Untested,
    Verdict,
    describe,
    describe_briefly,
    verdict_of,
)
from StaICC.errors import StaICCError
from StaICC.layout import Block, Displayed, Line, TextTable
from StaICC.metrics.paired_tests import SIGNIFICANCE_LEVEL
from StaICC.results.result import Result
from StaICC.results.score_names import column_head, name_of_mean


@dataclass(frozen=True, slots=True)
class Rank:
    """One run in a ranking."""

    run: str
    """Name of the run."""
    value: float | None
    """The mean of the metric over the compared data sets, on the queries that have a score; ``None`` if no query of a
    data set (or of a condition) has a score."""
    groups: str
    """Letters; two runs share a letter if they are not shown to differ (Holm, level 0.05). Empty for more than
    :data:`MOST_RUNS` runs."""
    verdict: Verdict
    """The verdict of the test against the best run."""
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

        If that is not known, the run is untested, and is sorted by its value on the other queries. ``None`` if that
        value is undefined too.
        """
        if self.at_worst is not None:
            return self.at_worst
        return self.value

    @property
    def worst_cell(self) -> str:
        """The value with missing queries at their worst as text; ``-`` if it is not known."""
        if self.missing == 0:
            return _value_cell(self.value)
        return _value_cell(self.at_worst)

    @property
    def interval_cell(self) -> str:
        """The interval of ranks as text, such as ``2 .. 4``; ``-`` without one."""
        return _range_cell(self.ranks)


def _value_cell(value: float | None) -> str:
    """Return the value of a metric as a cell of a table; ``-`` without one."""
    if value is None:
        return "-"
    return f"{value:.4f}"


def _range_cell(ranks: tuple[int, int] | None) -> str:
    """Return an interval of ranks as a cell of a table, such as ``2 .. 4``; ``-`` without one."""
    if ranks is None:
        return "-"
    lowest, highest = ranks
    if lowest == highest:
        return str(lowest)
    return f"{lowest} .. {highest}"


MISSING_NOTE = (
    "no score: queries that failed, or whose reply has no label. The value is that of the other queries; runs are "
    "sorted and tested with missing queries at their worst (-: not known, and not tested)."
)


CONDITIONS_NOTE = (
    "conditions: lowest and highest rank with one template or one draw of the demonstrations, among the runs that have "
    "the same templates and draws (-: no other run has them)."
)


def rank_table(ranks: Sequence[Rank], metric: str, with_reasons: bool = True) -> TextTable:
    """Return the table of a ranking, with one table row for each run.

    The columns are the place, the interval of ranks, the name of the run, the letters of its groups (runs that are not
    shown to differ share a letter), the verdict, and the value. If a run has missing queries, two columns follow: their
    number, and the value with the worst possible score for each of them. If a run has ranks by condition, they are in
    the last column.

    Args:
        ranks: The runs, the best first.
        metric: Name of the metric. Its column has the same head as in the table of a result.
        with_reasons: Whether the verdict of an untested run has the reason. Set it to ``False`` where the reason is in
            another line of the output.
    """
    with_missing = any(rank.missing for rank in ranks)
    with_conditions = any(rank.condition_ranks is not None for rank in ranks)
    text_heads = ["rank", "95 %", "run", "group", "verdict"]
    number_heads = [column_head(metric)]
    if with_missing:
        number_heads += ["no score", "at worst"]
    if with_conditions:
        number_heads.append("conditions")

    rows: list[list[str]] = []
    for number, rank in enumerate(ranks, 1):
        verdict = describe_briefly(rank.verdict)
        if with_reasons:
            verdict = describe(rank.verdict)
        row = [str(number), rank.interval_cell, rank.run, rank.groups, verdict, _value_cell(rank.value)]
        if with_missing:
            row += [str(rank.missing), rank.worst_cell]
        if with_conditions:
            row.append(_range_cell(rank.condition_ranks))
        rows.append(row)
    return TextTable([*text_heads, *number_heads], rows, range(len(text_heads)))


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
    notes: tuple[str, ...] = ()
    """Data sets on which the runs have other test rows, or other numbers of queries for each."""
    log_notes: tuple[str, ...] = ()
    """What is unusual in the logs from which the runs were read, each with the name of its run."""
    other_metrics: tuple[str, ...] = ()
    """The names of the other scores, if no metric was given and the benchmark has no main score: the metric is then its
    first score."""

    def to_dict(self) -> dict[str, Any]:
        """Return plain values for JSON."""
        return dataclasses.asdict(self)

    def display_blocks(self) -> list[Block]:
        """Return the title, the table, the meaning of its columns, and what is left out."""
        direction = "higher" if self.higher_is_better else "lower"
        datasets = "1 data set" if len(self.datasets) == 1 else f"{len(self.datasets)} data sets"
        metric = name_of_mean(self.metric, self.benchmark)
        blocks: list[Block] = [
            Line(f"{class_name(self.benchmark)}: {len(self.runs)} runs", "title"),
            Line(f"{metric} ({direction} is better), {datasets}, {self.rows} test rows"),
        ]
        if self.other_metrics:
            blocks.append(Line(f"note: {first_score_note(self.other_metrics)}"))
        blocks += [
            rank_table(self.runs, self.metric),
            Line(
                "95 %: all intervals of ranks together have the true ranks with probability 0.95 (paired tests, Holm "
                f"over both directions of all pairs, level {SIGNIFICANCE_LEVEL:g})."
            ),
        ]
        if any(run.missing for run in self.runs):
            blocks.append(Line(MISSING_NOTE))
        if any(run.condition_ranks for run in self.runs):
            blocks.append(Line(CONDITIONS_NOTE))
        blocks += [Line(f"left out: {reason}") for reason in self.left_out]
        blocks += [Line(f"note: {note}") for note in (*self.notes, *self.log_notes)]
        return blocks


@dataclass(frozen=True, slots=True)
class _TableScore:
    """The score of a run, as its table has it."""

    value: float | None
    """The mean over the data sets on the queries that have a score; ``None`` if it is undefined."""
    missing: int
    """Number of queries without a score."""


def standings(
    runs: Mapping[str, Result], metric: str, higher_is_better: bool, all_pairs: bool = False, conditions: int = 1
) -> dict[str, Rank]:
    """Return the rank of each run of a table, by its name, with the verdict of its test against the best run.

    A query is missing if it has no score, because it failed or because its reply has no label. For ranks and tests,
    each missing query has the worst score that is possible, so that no run gains by failing at hard queries. The best
    run is the one whose value at worst is best.

    The verdict of a run is *untested* in three cases: the run cannot be compared with others; its table has another
    value than its records, which the test reads; or one of these two holds for the best run.

    Runs of which nothing is known are left out: they have neither a value nor missing queries, or no value and no
    value at worst.

    Args:
        runs: Results of one benchmark, by the names of their runs.
        metric: A score with a mean over data sets.
        higher_is_better: Whether larger values are better.
        all_pairs: Whether all pairs of runs are tested, which intervals of ranks need. By default, more than
            :data:`MOST_RUNS` runs are compared with the best one only.
        conditions: Number of conditions of an experiment that are shown together, for which verdicts are corrected.
    """
    scores = _table_scores(runs, metric)
    scored_runs = {run: runs[run] for run in scores}
    comparison = _tested_ranks(scored_runs, metric, all_pairs, conditions)
    # A test is about the value of the records. If the table has another value, the test says nothing about the table.
    ranks_with_value_of_table: dict[str, Rank] = {}
    for run, tested_rank in comparison.ranks.items():
        if is_same_value(tested_rank.value, scores[run].value):
            ranks_with_value_of_table[run] = tested_rank

    values_at_worst = _values_at_worst(scores, ranks_with_value_of_table)
    best_of = max if higher_is_better else min
    best_value = best_of(values_at_worst.values(), default=None)  # None: no value at worst is known
    best_is_tested = any(values_at_worst.get(run) == best_value for run in ranks_with_value_of_table)
    # Verdicts are about the difference to the best run. Without a test of that run, no run has a tested verdict.
    tested_ranks = ranks_with_value_of_table if best_is_tested else {}

    why_untested = comparison.left_out or "the comparison has another value of this score"
    ranks: dict[str, Rank] = {}
    for run, score in scores.items():
        is_unknown = score.value is None and run not in values_at_worst
        if is_unknown:
            continue
        has_best_value = values_at_worst.get(run) == best_value
        if run in tested_ranks:
            ranks[run] = _rank_of_tested(tested_ranks[run], has_best_value)
        else:
            ranks[run] = _rank_of_untested(run, score, has_best_value, why_untested)
    return ranks


def _table_scores(runs: Mapping[str, Result], metric: str) -> dict[str, _TableScore]:
    """Return the score of each run in its table, by the name of the run.

    A run without a value and without missing queries is left out: it has no such metric.
    """
    scores: dict[str, _TableScore] = {}
    for run, result in runs.items():
        score = _TableScore(result.averaged.get(metric), result.left_out_of(metric))
        if score.value is not None or score.missing > 0:
            scores[run] = score
    return scores


def _values_at_worst(scores: Mapping[str, _TableScore], tested_ranks: Mapping[str, Rank]) -> dict[str, float]:
    """Return the value of each run with the worst possible score for each missing query, by the name of the run.

    Of a run without missing queries, this is the value of the table. Of a run with missing queries, the comparison
    computes it from the records. A run has no entry if it has missing queries and is not compared, or if its metric is
    no mean over queries, whose worst value is not known.

    Args:
        scores: The score of each run in its table.
        tested_ranks: The ranks of the runs that can be compared.
    """
    values_at_worst: dict[str, float] = {}
    for run, score in scores.items():
        if score.value is not None and score.missing == 0:
            values_at_worst[run] = score.value
    for run, tested_rank in tested_ranks.items():
        if tested_rank.at_worst is not None:
            values_at_worst[run] = tested_rank.at_worst
    return values_at_worst


def _rank_of_tested(tested_rank: Rank, has_best_value: bool) -> Rank:
    """Return the rank of a compared run: that of the comparison, with the verdict "best" if its value is the best.

    The comparison decides by the values of the records, which differ from those of the table by rounding. So a run that
    shares the best value of the table may have another verdict in the comparison. An *untested* verdict is kept: the
    run could not be compared with the best one.

    Args:
        tested_rank: The rank of the run by the comparison.
        has_best_value: Whether no run of the table has a better value.
    """
    if has_best_value and not isinstance(tested_rank.verdict, Untested):
        return replace(tested_rank, verdict=Best())
    return tested_rank


def _rank_of_untested(run: str, score: _TableScore, has_best_value: bool, reason: str) -> Rank:
    """Return the rank of a run that has no valid test.

    Its verdict is *untested*, with the reason. Only a run with the best value and without missing queries is the best
    one: of missing queries, it is not known what their worst scores make of its value.

    Args:
        run: The name of the run.
        score: Its score in the table.
        has_best_value: Whether no run of the table has a better value.
        reason: Why it is untested.
    """
    verdict: Verdict = Untested(reason)
    if has_best_value and score.missing == 0:
        verdict = Best()
    return Rank(run, score.value, groups="", verdict=verdict, missing=score.missing)


@dataclass(frozen=True, slots=True)
class _TestedRanks:
    """The ranks of the runs that can be compared."""

    ranks: Mapping[str, Rank]
    """By the name of the run; empty if no two runs can be compared."""
    left_out: str
    """What is not compared, with the reasons; empty for nothing."""


def _tested_ranks(runs: Mapping[str, Result], metric: str, all_pairs: bool, conditions: int) -> _TestedRanks:
    """Return the ranks of those runs that can be compared, and the reasons for the others.

    Args:
        runs: The results, by the names of their runs.
        metric: As for :func:`standings`, like the other arguments.
        all_pairs: Whether all pairs of runs are tested.
        conditions: Number of conditions for which verdicts are corrected.
    """
    try:
        aligned = align(runs, metric)
        ranks = rank_runs(aligned, all_pairs, conditions)
    except StaICCError as error:
        return _TestedRanks(ranks={}, left_out=str(error))
    return _TestedRanks({rank.run: rank for rank in ranks}, left_out="; ".join(aligned.left_out))


def ranks_of(
    aligned: AlignedRuns, outcomes: Mapping[tuple[str, str], TestOutcome], pairs: Sequence[tuple[str, str]]
) -> tuple[Rank, ...]:
    """Return the runs with their verdicts, the best first.

    If :func:`directional_holm` corrected the p-values of all pairs, all intervals of ranks together contain the true
    ranks with probability 0.95 (Mogstad et al. 2024). If several runs have the best value, the verdict about
    any other run is that of the test with the smallest p-value.

    Args:
        aligned: The runs.
        outcomes: The corrected test of each pair that can be compared.
        pairs: All pairs of runs, or all pairs with a run that has the best value.
    """
    order = aligned.order
    for run in order:
        reason = aligned.means[run].reason
        if reason is not None:
            # align() keeps such a run only if fewer than two of the other runs can be compared. So each pair of runs
            # contains one that cannot be compared, and no pair can be tested.
            return tuple(_rank(aligned, other, group_letters="", verdict=Untested(reason)) for other in order)

    outcomes_by_pair: dict[frozenset[str], TestOutcome] = {}
    for pair in pairs:
        outcomes_by_pair[frozenset(pair)] = _outcome_in_ranking(aligned, pair, outcomes.get(pair))
    different_pairs = _different_pairs(outcomes_by_pair)

    # Groups and intervals of ranks need the tests of all pairs.
    all_pairs_tested = len(outcomes_by_pair) == math.comb(len(order), 2)
    groups: list[set[str]] = []
    if all_pairs_tested and len(order) <= MOST_RUNS:
        groups = _groups(order, different_pairs)
    ranks = []
    for run in order:
        letters = [_letter(number) for number, group in enumerate(groups) if run in group]
        interval = None
        if all_pairs_tested:
            interval = _rank_interval(run, order, different_pairs)
        verdict = _verdict(run, aligned.leaders, outcomes_by_pair)
        ranks.append(_rank(aligned, run, "".join(letters), verdict, interval))
    return tuple(ranks)


def _different_pairs(outcomes_by_pair: Mapping[frozenset[str], TestOutcome]) -> set[frozenset[str]]:
    """Return the pairs of runs that are shown to differ."""
    different_pairs: set[frozenset[str]] = set()
    for pair, outcome in outcomes_by_pair.items():
        if isinstance(outcome, Tested) and outcome.significant:
            different_pairs.add(pair)
    return different_pairs


def _rank_interval(run: str, order: Sequence[str], different_pairs: set[frozenset[str]]) -> tuple[int, int]:
    """Return the lowest and the highest rank that a run can have, such as ``(2, 4)``.

    The run is behind each run that is shown to be better, so its rank is at least 1 and the number of these runs. It is
    before each run that is shown to be worse, so its rank is at most the number of all runs minus the number of those.
    If all pairs that are shown to differ do differ, the interval contains the true rank (Mogstad et al. 2024).

    Args:
        run: The run.
        order: All runs, the best first.
        different_pairs: The pairs of runs that are shown to differ.
    """
    index = order.index(run)
    shown_better = sum(frozenset((run, other)) in different_pairs for other in order[:index])
    shown_worse = sum(frozenset((run, other)) in different_pairs for other in order[index + 1 :])
    return (1 + shown_better, len(order) - shown_worse)


def _outcome_in_ranking(aligned: AlignedRuns, pair: tuple[str, str], outcome: TestOutcome | None) -> TestOutcome:
    """Return the test of a pair of runs if it is about the values by which they are ranked; else why it is untested.

    These values are the means of all data sets and test rows of a run. The test is about what both runs have:

    - If the runs have other data sets, it is about other means. So nothing is known about those of the ranking.
    - If they have other test rows of the same data sets, it is about the same true means. But the better run on the
      shared rows can be the one with the smaller value.

    Args:
        aligned: The runs.
        pair: The names of two runs.
        outcome: The corrected test of the pair; ``None`` if it cannot be compared.
    """
    if outcome is not None and aligned.have_same_rows:
        return outcome
    compared = aligned.pair(*pair)
    if outcome is None:
        return Untested(compared.why_not_comparable())
    if not compared.has_same_datasets:
        return Untested("the mean of one of the runs is over other data sets: compare the two runs alone")
    is_significant = isinstance(outcome, Tested) and outcome.significant
    if compared.has_all_queries or not is_significant:
        return outcome

    ends = compared.difference.ends
    better_in_ranking = min(pair, key=aligned.order.index)
    if ends is not None and _better_run(pair, ends, aligned.higher_is_better) != better_in_ranking:
        return Untested("on the test rows that both runs have, the one with the worse value is better")
    return outcome


def _better_run(pair: tuple[str, str], ends: tuple[float, float], higher_is_better: bool) -> str:
    """Return the better one of two runs that are shown to differ.

    Args:
        pair: The names of the runs.
        ends: The lowest and the highest difference, first minus second, which have one sign.
        higher_is_better: Whether higher values of the metric are better.
    """
    first, second = pair
    lowest, _ = ends
    first_is_higher = lowest > 0.0
    if first_is_higher is higher_is_better:
        return first
    return second


def _verdict(run: str, leaders: Sequence[str], outcomes_by_pair: Mapping[frozenset[str], TestOutcome]) -> Verdict:
    """Return the verdict about a run: the best one, or the outcome of its test against a leader.

    Args:
        run: The run.
        leaders: The runs with the best value. If there are several, the test with the smallest p-value counts.
        outcomes_by_pair: The corrected tests.
    """
    if run in leaders:
        return Best()
    outcomes = [outcomes_by_pair[frozenset((leader, run))] for leader in leaders]
    return verdict_of(min(outcomes, key=_strongest_first))


def _strongest_first(outcome: TestOutcome) -> tuple[float, str]:
    """Return a key that sorts tests: the smallest p-value first, untested pairs last, in the order of their reasons."""
    # A p-value is at most 1, so 2 is behind all of them.
    if isinstance(outcome, Untested):
        return (2.0, outcome.reason)
    return (outcome.corrected_p_value, "")


def _rank(
    aligned: AlignedRuns,
    run: str,
    group_letters: str,
    verdict: Verdict,
    rank_interval: tuple[int, int] | None = None,
) -> Rank:
    """Return a run of a ranking, with its value, its missing queries, and its value at worst.

    The value at worst is the metric with the worst possible score for each missing query. The mean of a single run is
    saved as the difference between the run and 0. So of each pair of figures, the first one is that of the run, and the
    second one, which is 0, is not used.

    Args:
        aligned: The runs.
        run: The name of the run.
        group_letters: The letters of the groups that contain the run.
        verdict: The verdict about the run.
        rank_interval: The lowest and the highest rank of the run; ``None`` if not all pairs of runs are tested.
    """
    difference_from_zero = aligned.means[run]
    value, _ = difference_from_zero.values
    missing_count, _ = difference_from_zero.missing
    at_worst = None
    if missing_count > 0 and difference_from_zero.bounds is not None:
        at_worst = aligned.at_worst(run)
    return Rank(
        run=run,
        value=value,
        groups=group_letters,
        verdict=verdict,
        ranks=rank_interval,
        missing=missing_count,
        at_worst=at_worst,
    )


def _letter(number: int) -> str:
    """Return the name of the group with a number from 0 on: a letter, or from the 27th group on a name like "(27)"."""
    if number < 26:
        return chr(ord("a") + number)
    return f"({number + 1})"


def _groups(order: Sequence[str], different_pairs: set[frozenset[str]]) -> list[set[str]]:
    """Return groups of runs: two runs share a group exactly if they are not shown to differ.

    Each group begins with a run that is in no group yet, or with two runs that do not differ and share no group yet.
    Then each other run, the best first, is added if it differs from no member.

    Args:
        order: The runs, the best first.
        different_pairs: The pairs of runs that are shown to differ.
    """

    def differ(first: str, second: str) -> bool:
        return frozenset((first, second)) in different_pairs

    groups: list[set[str]] = []
    for index, first in enumerate(order):
        for second in order[index:]:  # the first one is the run itself
            share_a_group = any(first in group and second in group for group in groups)
            if share_a_group or differ(first, second):
                continue
            new_group = {first, second}
            for run in order:
                if not any(differ(run, member) for member in new_group):
                    new_group.add(run)
            groups.append(new_group)

    def positions(group: set[str]) -> list[int]:
        return sorted(order.index(run) for run in group)

    return sorted(groups, key=positions)


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
    condition_ranks = _condition_ranks(aligned)
    ranks = []
    for run_rank in rank_runs(aligned):
        ranks.append(replace(run_rank, condition_ranks=condition_ranks.get(run_rank.run)))
    return Ranking(
        benchmark=aligned.benchmark,
        metric=aligned.metric,
        higher_is_better=aligned.higher_is_better,
        datasets=tuple(aligned.datasets),
        rows=aligned.rows,
        runs=tuple(ranks),
        left_out=aligned.left_out,
        notes=aligned.notes,
        log_notes=aligned.log_notes(aligned.runs),
        other_metrics=aligned.other_metrics,
    )


def rank_runs(aligned: AlignedRuns, all_pairs: bool = True, conditions: int = 1) -> tuple[Rank, ...]:
    """Return the runs with their verdicts and the intervals of their ranks, the best first.

    Args:
        aligned: The runs.
        all_pairs: Whether all pairs of runs are tested, which the intervals of ranks need. Otherwise, more than
            :data:`MOST_RUNS` runs are compared with the best one only.
        conditions: Number of conditions of an experiment that are shown together, for which p-values are corrected.
    """
    pairs: Sequence[tuple[str, str]]
    if all_pairs:
        pairs = list(combinations(aligned.order, 2))
        chosen_from = 0
    else:
        compared = compared_pairs(aligned)
        pairs = compared.pairs
        chosen_from = compared.chosen_from
    bounds = None
    if all_pairs and len(aligned.runs) > MOST_RUNS:
        bounds = p_value_bounds(aligned)

    outcomes: dict[tuple[str, str], TestOutcome] = {}
    for first, second in pairs:
        p_value_bound = None
        # An upper bound of the p-value is enough to decide whether two runs differ. Pairs with a leader are tested,
        # because their p-values are shown with the verdicts.
        if bounds is not None and first not in aligned.leaders:
            p_value_bound = bounds.of_pair(first, second)
        if p_value_bound is not None:
            outcomes[first, second] = Tested(p_value_bound, corrected_p_value=p_value_bound)
        elif aligned.is_comparable(first, second):
            outcomes[first, second] = difference_outcome(aligned.pair(first, second).difference)

    corrected_outcomes = {}
    for pair, outcome in zip(outcomes, corrected(list(outcomes.values()), chosen_from=chosen_from), strict=True):
        corrected_outcomes[pair] = corrected_for_conditions(outcome, conditions)
    return ranks_of(aligned, corrected_outcomes, pairs)


def _condition_ranks(aligned: AlignedRuns) -> dict[str, tuple[int, int]]:
    """Return the lowest and the highest rank of each run over the conditions, by the name of the run.

    A condition is a template, or a draw of the demonstrations. A run is ranked among the runs that have the same data
    sets and conditions. It has no ranks if there is no other such run, if it has one condition only, if its data sets
    have different conditions, or if the metric is not the mean over the conditions.
    """
    sums_by_run: dict[str, dict[str, float]] = {}
    for run, scored in aligned.scored.items():
        sums = _sums_over_datasets(scored)
        if len(sums) >= 2:
            sums_by_run[run] = sums

    ranks = {}
    for run, sums in sums_by_run.items():
        datasets = aligned.scored[run].scores.keys()
        sums_of_peers = []  # of the runs with the same data sets and conditions, this run included
        for other, other_sums in sums_by_run.items():
            if list(other_sums) == list(sums) and aligned.scored[other].scores.keys() == datasets:
                sums_of_peers.append(other_sums)
        if len(sums_of_peers) < 2:
            continue
        ranks_in_conditions = []
        for condition, own_sum in sums.items():
            peer_sums = [peer[condition] for peer in sums_of_peers]
            ranks_in_conditions.append(_rank_among(own_sum, peer_sums, aligned.higher_is_better))
        ranks[run] = (min(ranks_in_conditions), max(ranks_in_conditions))
    return ranks


def _sums_over_datasets(scored: ScoredRun) -> dict[str, float]:
    """Return the sum of the scores of a run over its data sets, by condition: it ranks runs as their mean does.

    It is empty if the data sets have different conditions, or no scores by condition.
    """
    values_by_dataset = [score.condition_values for score in scored.scores.values()]
    conditions = list(values_by_dataset[0])
    sums = {}
    for condition in conditions:
        if any(list(values) != conditions for values in values_by_dataset):
            return {}
        sums[condition] = math.fsum(values[condition] for values in values_by_dataset)
    return sums


def _rank_among(value: float, values: Sequence[float], higher_is_better: bool) -> int:
    """Return the rank of a value among several, itself included: 1 plus the number of better ones.

    Equal values have the same rank: the first two of 0.9, 0.9 and 0.8 have rank 1, the third one has rank 3.
    """
    if higher_is_better:
        better = [other for other in values if other > value]
    else:
        better = [other for other in values if other < value]
    return 1 + len(better)

"""The headline scores of comparable runs, with the verdict about each run."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple

from StaICC.comparing.comparable_scores import metrics_of
from StaICC.comparing.ranking import Rank, standings
from StaICC.comparing.verdicts import Best, Untested
from StaICC.metrics.scores import COLUMNS, HEADLINE, Column, score_record
from StaICC.report.chart_scores import ChartScore, Scores, mean_key, scores_of
from StaICC.report.comparable_groups import Group, each_result
from StaICC.report.runs_by_name import ResultsByRun
from StaICC.results.experiment_table import is_experiment
from StaICC.results.result import Result


class Headline(NamedTuple):
    """A headline score of comparable runs."""

    column: Column
    better: bool | None
    """Whether larger values are better; ``None`` if that is not known."""
    scores: dict[str, ChartScore]
    """The means by run; without the runs that lack the benchmark."""
    ranks: dict[str, Rank]
    """Of the runs that have a value, or one with missing queries at their worst; the best first."""

    @property
    def has_baselines(self) -> bool:
        """Whether there are baselines for this score: only for the accuracy of Normal, the first column."""
        return self.column == COLUMNS[0]

    @property
    def has_verdicts(self) -> bool:
        """Whether runs are compared by this score."""
        return len(self.scores) > 1 and self.better is not None

    def sorted_by(self, run: str) -> float:
        """Return the value of a run with missing queries at their worst; larger is better."""
        value = self.ranks[run].sorted_by
        if value is None:
            return -math.inf
        if self.better is False:
            return -value
        return value

    def score(self, run: str) -> ChartScore:
        """Return the mean of a run; without a value if the run lacks the benchmark."""
        return self.scores.get(run, ChartScore())


def headlines_of(group: Group) -> Iterator[Headline]:
    """Yield the headline scores of comparable runs; those without a mean in any run are left out.

    The first one has the tests of all pairs of runs, which intervals of ranks need.
    """
    columns = _columns(group)
    scores_by_result: dict[tuple[str, str], Scores] = {}
    for run, benchmark, result in each_result(group):
        scores_by_result[benchmark, run] = scores_of(result)

    columns_with_mean = []
    for column in columns:
        if any(column.key in result.averaged for result in group[column.benchmark].values()):
            columns_with_mean.append(column)
    for number, column in enumerate(columns_with_mean):
        runs = group[column.benchmark]
        key_of_mean = (None, mean_key(column.benchmark, column.key))  # no data set: the mean over all
        scores = {}
        for run in runs:
            scores[run] = scores_by_result[column.benchmark, run].get(key_of_mean, ChartScore())

        # The ranks of tested runs replace those without a test.
        ranks = _ranks_without_tests(scores)
        higher_is_better = _common_direction(column, runs)
        if higher_is_better is not None:
            is_first = number == 0
            conditions = _conditions_shown(column.benchmark, runs, columns)
            ranks |= standings(runs, column.key, higher_is_better, all_pairs=is_first, conditions=conditions)
        yield _best_first(Headline(column, higher_is_better, scores, ranks))


def _columns(group: Group) -> list[Column]:
    """Return the headline scores as columns of a leaderboard.

    First come the main scores that this library names for its benchmarks (:data:`COLUMNS`). Then come further scores:
    each condition of an experiment, which has no main score, and scores of benchmarks of users.

    Args:
        group: Comparable results, by benchmark and run. The results of a benchmark are all of the same kind.
    """
    library_columns = []
    for column in COLUMNS:
        runs = group.get(column.benchmark)
        if runs is not None and not is_experiment(_first_of(runs)):
            library_columns.append(column)

    further_columns = []
    for benchmark, runs in group.items():
        for key in _further_keys(benchmark, runs):
            further_columns.append(Column(benchmark, key, f"{benchmark}: {key}"))
    return library_columns + further_columns


def _first_of(runs: ResultsByRun) -> Result:
    """Return one of the results of a benchmark; comparable results have the same scores."""
    return next(iter(runs.values()))


def _further_keys(benchmark: str, runs: ResultsByRun) -> list[str]:
    """Return the keys of those headline scores of a benchmark that are not among the main scores of this library.

    - Of an experiment: its conditions, which are its scores.
    - Of a benchmark of this library: the user's own metrics whose better direction is known.
    - Of a benchmark of another package: the same, and its first score in any case.

    Args:
        benchmark: The name of the benchmark.
        runs: Its results, by the names of their runs.
    """
    result = _first_of(runs)
    if is_experiment(result):
        conditions: dict[str, None] = {}  # a dictionary keeps the order
        for result_of_run in runs.values():
            conditions |= dict.fromkeys(metrics_of(result_of_run))
        return list(conditions)

    keys = metrics_of(result)
    keys_with_direction = [key for key in keys if key in result.higher_is_better]
    if benchmark in HEADLINE:
        return keys_with_direction
    # A benchmark of another package: its first score, whether its direction is known or not.
    return list(dict.fromkeys([*keys[:1], *keys_with_direction]))


def _common_direction(column: Column, runs: ResultsByRun) -> bool | None:
    """Return whether larger values are better; ``None`` if that is not known, or not the same in all runs."""
    directions = set()
    for result in runs.values():
        directions.add(score_record(column.benchmark, column.key, result.higher_is_better).higher_is_better)
    if len(directions) == 1:
        return directions.pop()
    return None


def _ranks_without_tests(scores: Mapping[str, ChartScore]) -> dict[str, Rank]:
    """Return a rank without a test for each run that has a value."""
    unknown = Untested("it is not recorded which values are better")
    ranks = {}
    for run, score in scores.items():
        if score.value is not None:
            ranks[run] = Rank(run, score.value, groups="", verdict=unknown)
    return ranks


def _conditions_shown(benchmark: str, runs: ResultsByRun, columns: Sequence[Column]) -> int:
    """Return the number of conditions of an experiment, each of which has a verdict; 1 for other benchmarks."""
    if not is_experiment(_first_of(runs)):
        return 1
    return sum(column.benchmark == benchmark for column in columns)


def _best_first(headline: Headline) -> Headline:
    """Return a headline score with its ranks in order: the runs with the verdict "best", then the others.

    Within both, runs are sorted by their values, the best first.
    """
    by_value = sorted(headline.ranks, key=headline.sorted_by, reverse=True)
    best = [run for run in by_value if isinstance(headline.ranks[run].verdict, Best)]
    others = [run for run in by_value if run not in best]
    return headline._replace(ranks={run: headline.ranks[run] for run in [*best, *others]})


def direction_words(better: bool | None) -> str:
    """Return which values are better, in words; empty if that is not known."""
    if better is None:
        return ""
    return "higher is better" if better else "lower is better"

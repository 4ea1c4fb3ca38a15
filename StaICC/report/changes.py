"""What changed from the leading run to each other one: settings, models, main scores."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from StaICC.comparing.comparison import compare_runs
from StaICC.comparing.comparison_results import Comparison
from StaICC.comparing.verdicts import Tested, TestOutcome, Tied, Untested, Verdict, Worse
from StaICC.errors import StaICCError
from StaICC.report.comparable_groups import Group
from StaICC.report.figures.difference_plot import differences
from StaICC.report.headlines import Headline
from StaICC.report.html import Markup, element, fold, join
from StaICC.report.parts import folded_parts
from StaICC.report.runs_by_name import ResultsByRun
from StaICC.report.tables import printed

_INTRODUCTION = (
    "The main metric of each benchmark on the same test rows: the leading run minus each other one, with 95 % "
    "intervals. p is from a paired test over test rows, corrected (Holm): that of the mean is the one of the "
    "leaderboard, for all pairs of runs; that of a data set is for the data sets and pairs of this section. Blue: the "
    "leading run is significantly better, also where lower values are better; grey: not significant. The lists have "
    "every difference in settings and models. Detectable is the smallest difference that a sample of this size "
    "detects with power 0.8."
)


def changes(group: Group, headlines: Sequence[Headline]) -> str:
    """Return comparisons of the leading run with every other one, by the main metric of each benchmark.

    The text is empty if no benchmark has two runs.

    Args:
        group: Comparable results.
        headlines: Their headline scores.
    """
    main_score_by_benchmark: dict[str, Headline] = {}
    for headline in headlines:  # The first headline score of a benchmark is its main one.
        main_score_by_benchmark.setdefault(headline.column.benchmark, headline)
    parts: list[Markup] = []
    for benchmark, runs in group.items():
        main_score = main_score_by_benchmark.get(benchmark)
        try:
            compared = _comparisons_with_leader(runs, main_score)
        except StaICCError as error:
            parts.append(element("p", f"{benchmark}: {error}.", class_="soft"))
            continue
        if compared:
            is_first_part = len(parts) == 0
            parts.append(_benchmark_part(benchmark, compared, opened=is_first_part))
    if not parts:
        return ""
    return join([element("p", _INTRODUCTION, class_="soft"), *parts])


def _comparisons_with_leader(runs: ResultsByRun, main_score: Headline | None) -> Sequence[Comparison]:
    """Return the comparison of the leading run with each other run of a benchmark; none for a single run.

    Args:
        runs: The results of the benchmark.
        main_score: Its main headline score, by which a run leads; ``None`` if it has none, so that the first run is
            compared with the others.

    Raises:
        StaICCError: The runs cannot be compared.
    """
    if len(runs) < 2:
        return ()
    leader = next(iter(runs))
    if main_score is not None and main_score.ranks:
        leader = next(iter(main_score.ranks))  # They are sorted, the best first.
    leader_first = {leader: runs[leader], **runs}
    compared = compare_runs(leader_first, reference=leader).comparisons
    if main_score is None:
        return compared
    return [_with_verdict(pair, main_score) for pair in compared]


def _benchmark_part(benchmark: str, compared: Sequence[Comparison], opened: bool) -> Markup:
    """Return a folded part about a benchmark: the figure of the differences, and a table for each pair of runs.

    Args:
        benchmark: The name of the benchmark.
        compared: The comparisons of its leading run with the others.
        opened: Whether the part is unfolded at first.
    """
    tables = {}
    for pair in compared:
        names = f"{pair.first}, {pair.second}"
        tables[names] = printed(pair.display_blocks(), f"{benchmark}: {names}")
    drawn = element("figure", differences(compared).inline())  # without its numbers, which the tables have
    return fold(benchmark, drawn, folded_parts(tables), opened=opened)


def _with_verdict(pair: Comparison, main_score: Headline) -> Comparison:
    """Return a comparison whose p-value for the mean is that of the leaderboard, which is corrected for all pairs.

    The comparison is returned unchanged if the leaderboard has no p-value for it: an experiment has no mean, the second
    run has no rank, or the comparison is by another metric.

    Args:
        pair: The comparison of the leading run with another one.
        main_score: The score of the leaderboard.
    """
    rank = main_score.ranks.get(pair.second)
    if pair.by_condition or rank is None or pair.metric != main_score.column.key:
        return pair
    overall = replace(pair.overall, outcome=_outcome(rank.verdict, pair.overall.outcome))
    if pair.mean is None:  # There is a single data set, whose line is the overall one.
        return replace(pair, datasets=(overall,))
    return replace(pair, mean=overall)


def _outcome(verdict: Verdict, outcome: TestOutcome) -> TestOutcome:
    """Return the outcome of a test, with the corrected p-value of a verdict if the verdict has one.

    Args:
        verdict: The verdict of the leaderboard.
        outcome: The outcome of the test of this pair of runs alone. It is kept if both runs are the best.
    """
    if isinstance(verdict, Untested):
        return verdict
    if isinstance(verdict, Tied | Worse) and isinstance(outcome, Tested):
        return replace(outcome, corrected_p_value=verdict.p_value)
    return outcome

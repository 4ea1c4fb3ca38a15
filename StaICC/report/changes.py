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
    """Compare the leading run with every other one, by the main metric of each benchmark.

    Args:
        group: Comparable results.
        headlines: Their headline scores.
    """
    parts: list[Markup] = []
    for benchmark, runs in group.items():
        if len(runs) < 2:
            continue
        headline = next((headline for headline in headlines if headline.column.benchmark == benchmark), None)
        leader = next(iter(runs))
        if headline is not None:
            leader = next(iter(headline.ranks), leader)
        leader_first = {leader: runs[leader], **runs}
        try:
            compared = compare_runs(leader_first, reference=leader).comparisons
        except StaICCError as error:
            parts.append(element("p", f"{benchmark}: {error}.", class_="soft"))
            continue
        if not compared:
            continue
        if headline is not None:
            compared = tuple(_with_verdict(pair, headline) for pair in compared)
        tables = {}
        for pair in compared:
            names = f"{pair.first}, {pair.second}"
            tables[names] = printed(pair.display_blocks(), f"{benchmark}: {names}")
        drawn = element("figure", differences(compared).inline())  # the tables have the numbers
        parts.append(fold(benchmark, drawn, folded_parts(tables), opened=not parts))
    if not parts:
        return ""
    return join([element("p", _INTRODUCTION, class_="soft"), *parts])


def _with_verdict(pair: Comparison, headline: Headline) -> Comparison:
    """Return a comparison whose test of the mean is that of the leaderboard, which is corrected for all pairs.

    An experiment has no mean, and a comparison by another metric keeps its own test.
    """
    rank = headline.ranks.get(pair.second)
    if pair.by_condition or rank is None or pair.metric != headline.column.key:
        return pair
    overall = replace(pair.overall, outcome=_outcome(rank.verdict, pair.overall.outcome))
    if pair.mean is None:
        return replace(pair, datasets=(overall,))
    return replace(pair, mean=overall)


def _outcome(verdict: Verdict, outcome: TestOutcome) -> TestOutcome:
    """Return the outcome of a test with the corrected p-value of a verdict.

    Args:
        verdict: The verdict of the leaderboard.
        outcome: The outcome of the test of this pair of runs alone. It is kept if both runs are the best.
    """
    if isinstance(verdict, Untested):
        return verdict
    if isinstance(verdict, Tied | Worse) and isinstance(outcome, Tested):
        return replace(outcome, corrected_p_value=verdict.p_value)
    return outcome

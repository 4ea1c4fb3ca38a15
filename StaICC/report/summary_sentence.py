"""The sentence above a leaderboard: which run leads, by how much, by what test, on which data."""

from __future__ import annotations

from collections.abc import Sequence

from StaICC.comparing.comparison import compare
from StaICC.comparing.verdicts import Best, Tied, Untested, Worse, describe, p_text
from StaICC.errors import StaICCError
from StaICC.report.comparable_groups import Group, listed, run_names
from StaICC.report.headlines import Headline
from StaICC.report.html import Markup, breakable, element
from StaICC.report.runs_by_name import ResultsByRun
from StaICC.results.above_chance import above_chance
from StaICC.results.result import Result


def summary_sentence(headlines: Sequence[Headline], group: Group) -> Markup:
    """Return a paragraph about a leaderboard: which run leads, by how much, by what test, and what is missing.

    Args:
        headlines: The headline scores, at least one; the paragraph is about the first.
        group: Comparable results.
    """
    headline = headlines[0]
    if not headline.ranks:
        reasons = dict.fromkeys(score.reason for score in headline.scores.values())
        text = f"No run has a value of {headline.column.title}: {'; '.join(reasons)}."
        return element("p", text, class_="lead")
    leader = next(iter(headline.ranks))  # They are sorted, the best first.
    text = _claim(headline, group)
    text += _runs_without_claim(headline, leader)
    if headline.has_baselines:
        several_are_best = len(_with_verdict(headline, Best)) > 1
        text += _above_chance(group[headline.column.benchmark][leader], leader, shares_the_best=several_are_best)
    text += _missing_values(headlines, run_names(group))
    return element("p", element("strong", breakable(leader)), breakable(text), class_="answer")


def _with_verdict(headline: Headline, verdict: type) -> list[str]:
    """Return the runs that have a verdict of a kind, the best first."""
    return [run for run, rank in headline.ranks.items() if isinstance(rank.verdict, verdict)]


def _claim(headline: Headline, group: Group) -> str:
    """Return what follows the name of the leading run, up to the first or the second full stop.

    For example: `` leads with accuracy 0.8120, TREC. a minus b is +0.0400: a significant difference (p = 0.001).``

    Args:
        headline: The score, with at least one ranked run.
        group: Comparable results.
    """
    leader, *others = headline.ranks
    runs = group[headline.column.benchmark]
    best = _with_verdict(headline, Best)
    value = f"{headline.column.title} {_leading_value(headline, leader, best)}{_described_data(runs[leader])}"
    if not others:
        return f": {value}."
    verdict = headline.ranks[leader].verdict
    no_run_is_best = headline.better is None or isinstance(verdict, Untested)
    if no_run_is_best:
        return f": {value}. {describe(verdict).capitalize()}."
    if len(best) > 1:
        return f" and {listed(best[1:], 'runs')} share the best {value}."
    # An untested run may have a better value than the leader. The difference to such a run is not stated.
    for run in others:
        if headline.sorted_by(leader) >= headline.sorted_by(run):
            return f" leads with {value}. {_difference(headline, runs, leader, run)}."
    return f" leads with {value}."


def _leading_value(headline: Headline, leader: str, best: Sequence[str]) -> str:
    """Return the value of the leading run, with its interval; or the value with missing queries at their worst.

    A query without a prediction is missing. Runs are sorted by their value with missing queries at their worst. This
    value is stated in two cases: if several runs share it as the best, and if the leading run has no other value.

    Args:
        headline: The score.
        leader: The leading run.
        best: The runs with the verdict "best".
    """
    score = headline.scores[leader]
    value_at_worst = headline.ranks[leader].sorted_by
    is_shared_at_worst = len(best) > 1 and any(headline.ranks[run].missing for run in best)
    if value_at_worst is not None and (is_shared_at_worst or score.value is None):
        return f"{value_at_worst:.4f} with missing queries at their worst"
    if score.interval is None:
        return score.cell
    return f"{score.cell} ({100 * score.interval.level:g} % interval {score.interval_cell})"


def _described_data(result: Result) -> str:
    """Return the data of a result in words: the data sets, and the number of test rows if it is limited.

    Examples are ``, TREC`` and ``, mean of 10 data sets (the first 100 test rows of each)``.
    """
    datasets = list(result.divided)  # the scores by data set
    text = f", {datasets[0]}"
    of_each = ""
    if len(datasets) > 1:
        text = f", mean of {len(datasets)} data sets"
        of_each = " of each"
    limit = result.signature.fields.get("limit")
    stopped_early = result.stopping is not None  # The limit is then not the number of evaluated test rows.
    if limit and not stopped_early:
        text += f" (the first {limit} test rows{of_each})"
    return text


def _difference(headline: Headline, runs: ResultsByRun, leader: str, other: str) -> str:
    """Return a clause about the difference between two runs, leader minus other: its value, interval and verdict.

    Sign, interval and p-value are those of the section about changes (:mod:`StaICC.report.changes`).

    Args:
        headline: The score.
        runs: The results of its benchmark.
        leader: The leading run.
        other: A run whose value is not better.
    """
    difference = _difference_at_worst(headline, leader, other)
    if headline.ranks[leader].missing or headline.ranks[other].missing:
        basis = " with missing queries at their worst"
    else:
        basis = _interval_in_words(runs[leader], runs[other], headline.column.key, difference)
    verdict = headline.ranks[other].verdict
    # The interval is about this pair alone. It can exclude 0 although the corrected test is not significant.
    correction = ", corrected for all pairs of runs" if len(headline.ranks) > 2 else ""
    meaning = ""
    if isinstance(verdict, Untested):
        meaning = f"not tested: {verdict.reason}"
    elif isinstance(verdict, Tied):
        meaning = f"not a significant difference ({p_text(verdict.p_value)}{correction})"
    elif isinstance(verdict, Worse):
        meaning = f"a significant difference ({p_text(verdict.p_value)}{correction})"
    return f"{leader} minus {other} is {difference:+.4f}{basis}: {meaning}"


def _interval_in_words(first: Result, second: Result, metric: str, difference: float) -> str:
    """Return the interval of the difference of two results, such as `` (95 % interval -0.010 .. +0.040)``.

    Returns:
        The text. It is empty if the two cannot be compared, if the difference has no interval, or if the comparison
        computes another difference than the one that is stated, for example because it leaves out a data set.
    """
    try:
        overall = compare(first, second, metric).overall
    except StaICCError:
        return ""  # The verdict has the reason.
    if overall.difference is None or overall.interval is None:
        return ""
    is_stated_difference = abs(overall.difference - difference) < 1e-6
    if not is_stated_difference:
        return ""
    return f" (95 % interval {overall.interval.low:+.3f} .. {overall.interval.high:+.3f})"


def _difference_at_worst(headline: Headline, leader: str, other: str) -> float:
    """Return the difference of the values by which two runs are sorted: leader minus other.

    These values have missing queries at their worst. If lower values are better, they are sorted with the opposite
    sign, which is turned back here.
    """
    difference = headline.sorted_by(leader) - headline.sorted_by(other)
    lower_is_better = headline.better is False
    if lower_is_better:
        return -difference
    return difference


def _runs_without_claim(headline: Headline, leader: str) -> str:
    """Return sentences about runs that are tied with the leader, or not tested."""
    text = ""
    tied = _with_verdict(headline, Tied)
    if len(tied) > 1:
        text += f" {len(tied)} runs are not shown to be worse."
    untested = [run for run in _with_verdict(headline, Untested) if run != leader]
    if untested and len(headline.ranks) > 2:
        text += f" Not tested: {listed(untested, 'runs')}."
    return text


def _above_chance(result: Result, leader: str, shares_the_best: bool) -> str:
    """Return the sentence about which baselines the leading run beats; empty if its result has no baselines.

    Args:
        result: The result of the leading run.
        leader: Its name.
        shares_the_best: Whether other runs have the same value. The sentence then names the run.
    """
    verdicts = above_chance(result)
    if verdicts is None:
        return ""
    subject = leader if shares_the_best else "It"
    # It "is better than every baseline", or it "has no verdict in the mean".
    verb = "is" if verdicts.mean else "has"
    return f" {subject} {verb} {verdicts.headline}."


def _missing_values(headlines: Sequence[Headline], names: Sequence[str]) -> str:
    """Return the sentence about headline scores without a value, with the runs that lack them; empty without any.

    An example is `` No value: accuracy, macro F1 (a, b).``

    Args:
        headlines: The headline scores.
        names: The names of all runs.
    """
    titles_by_runs: dict[str, list[str]] = {}
    for headline in headlines:
        runs_without_value = [name for name in names if headline.score(name).value is None]
        if not runs_without_value:
            continue
        runs_text = listed(runs_without_value, "runs")
        if len(names) > 1 and len(runs_without_value) == len(names):
            runs_text = "all runs"
        titles_by_runs.setdefault(runs_text, []).append(headline.column.title)
    if not titles_by_runs:
        return ""
    missing = [f"{listed(titles, 'scores')} ({runs_text})" for runs_text, titles in titles_by_runs.items()]
    return f" No value: {'; '.join(missing)}."

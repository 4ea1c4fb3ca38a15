"""The sentence above a leaderboard: which run leads, by how much, by what test, on which data."""

from __future__ import annotations

import contextlib
from collections.abc import Sequence

from StaICC.comparing.comparison import compare
from StaICC.comparing.verdicts import Best, Tied, Untested, Worse, describe, p_text
from StaICC.errors import StaICCError
from StaICC.metrics.scores import COLUMNS
from StaICC.report.comparable_groups import Group, listed, run_names
from StaICC.report.headlines import Headline
from StaICC.report.html import Markup, breakable, element
from StaICC.report.runs_by_name import ResultsByRun
from StaICC.results.above_chance import above_chance
from StaICC.results.result import Result


def summary_sentence(headlines: Sequence[Headline], group: Group) -> Markup:
    """Return in a sentence which run leads, by how much, by what test, on which data, and what is missing.

    Args:
        headlines: The headline scores, at least one; the sentence is about the first.
        group: Comparable results.
    """
    headline = headlines[0]
    if not headline.ranks:
        reasons = dict.fromkeys(score.reason for score in headline.scores.values())
        text = f"No run has a value of {headline.column.title}: {'; '.join(reasons)}."
        return element("p", text, class_="lead")
    leader = next(iter(headline.ranks))
    result = group[headline.column.benchmark][leader]
    text = _claim(headline, group)
    text += _runs_without_claim(headline, leader)
    if headline.column == COLUMNS[0]:
        text += _above_chance(result, leader, shares_the_best=len(_with_verdict(headline, Best)) > 1)
    text += _missing_values(headlines, run_names(group))
    return element("p", element("strong", breakable(leader)), breakable(text), class_="answer")


def _with_verdict(headline: Headline, verdict: type) -> list[str]:
    """Return the runs that have a verdict of a kind, the best first."""
    return [run for run, rank in headline.ranks.items() if isinstance(rank.verdict, verdict)]


def _claim(headline: Headline, group: Group) -> str:
    """Return what follows the name of the leading run, up to the first full stop."""
    leader, *others = headline.ranks
    best = _with_verdict(headline, Best)
    verdict = headline.ranks[leader].verdict
    runs = group[headline.column.benchmark]
    value = f"{headline.column.title} {_leading_value(headline, leader, best)}{_data(runs[leader])}"
    if not others:
        return f": {value}."
    if headline.better is None or isinstance(verdict, Untested):  # no run can be called the best one
        return f": {value}. {describe(verdict).capitalize()}."
    if len(best) > 1:
        return f" and {listed(best[1:], 'runs')} share the best {value}."
    # Runs with a better value have no verdict.
    lower = [run for run in others if headline.sorted_by(leader) >= headline.sorted_by(run)]
    if not lower:
        return f" leads with {value}."
    return f" leads with {value}. {_difference(headline, runs, leader, lower[0])}."


def _leading_value(headline: Headline, leader: str, best: Sequence[str]) -> str:
    """Return the value of the leading run, with its interval.

    Runs share the value that they were sorted by, and a run can lead without another one: with missing queries at
    their worst.
    """
    score = headline.scores[leader]
    rank = headline.ranks[leader]
    shared_with_missing = len(best) > 1 and any(headline.ranks[run].missing for run in best)
    if (shared_with_missing or score.value is None) and rank.sorted_by is not None:
        return f"{rank.sorted_by:.4f} with missing queries at their worst"
    if score.interval is None:
        return score.cell
    return f"{score.cell} ({100 * score.interval.level:g} % interval {score.interval_cell})"


def _data(result: Result) -> str:
    """Return the data that a value is about: the data sets, and the number of test rows if it is limited."""
    datasets = list(result.divided)  # its keys: the scores are divided by data set
    text = f", {datasets[0]}"
    if len(datasets) > 1:
        text = f", mean of {len(datasets)} data sets"
    limit = result.signature.fields.get("limit")
    # A run that stopped early has no fixed number of rows: the limit is only the largest one.
    if limit and not result.stopping:
        of_each = " of each" if len(datasets) > 1 else ""
        text += f" (the first {limit} test rows{of_each})"
    return text


def _difference(headline: Headline, runs: ResultsByRun, leader: str, other: str) -> str:
    """Return the difference between two runs, leader minus other, with its interval and the verdict.

    Sign, interval and p-value are those of the section about changes (:mod:`StaICC.report.changes`).
    """
    difference = _difference_at_worst(headline, leader, other)
    basis = ""
    if headline.ranks[leader].missing or headline.ranks[other].missing:
        basis = " with missing queries at their worst"
    else:
        with contextlib.suppress(StaICCError):  # the verdict says why
            overall = compare(runs[leader], runs[other], headline.column.key).overall
            is_same = overall.difference is not None and abs(overall.difference - difference) < 1e-6
            if overall.interval is not None and is_same:
                basis = f" (95 % interval {overall.interval.low:+.3f} .. {overall.interval.high:+.3f})"
    verdict = headline.ranks[other].verdict
    meaning = ""
    if isinstance(verdict, Untested):
        meaning = f"not tested: {verdict.reason}"
    elif isinstance(verdict, Tied):
        meaning = f"not a significant difference ({p_text(verdict.p_value)})"
    elif isinstance(verdict, Worse):
        meaning = f"a significant difference ({p_text(verdict.p_value)})"
    return f"{leader} minus {other} is {difference:+.4f}{basis}: {meaning}"


def _difference_at_worst(headline: Headline, leader: str, other: str) -> float:
    """Return the difference of the values by which two runs are sorted."""
    lead = headline.sorted_by(leader) - headline.sorted_by(other)
    return -lead if headline.better is False else lead


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
    """Return the sentence about the baselines; empty without baselines.

    Args:
        result: The result of the leading run.
        leader: Its name.
        shares_the_best: Whether other runs have the same value.
    """
    verdicts = above_chance(result)
    if verdicts is None:
        return ""
    subject = leader if shares_the_best else "It"
    verb = "is" if verdicts.mean else "has"
    return f" {subject} {verb} {verdicts.headline}."


def _missing_values(headlines: Sequence[Headline], names: Sequence[str]) -> str:
    """Return the sentence about headline scores without a value, each with its runs; empty if all have values."""
    titles_by_runs: dict[str, list[str]] = {}
    for headline in headlines:
        without = [name for name in names if headline.score(name).value is None]
        if not without:
            continue
        runs = listed(without, "runs")
        if len(without) == len(names) > 1:
            runs = "all runs"
        titles_by_runs.setdefault(runs, []).append(headline.column.title)
    if not titles_by_runs:
        return ""
    missing = [f"{listed(titles, 'scores')} ({runs})" for runs, titles in titles_by_runs.items()]
    return f" No value: {'; '.join(missing)}."

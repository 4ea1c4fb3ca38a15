"""The leaderboard: comparable runs as rows, the headline scores as columns.

A setting that varies is a column, which sorts; what all runs share is stated once. The best run of a score is compared
with every other one by the paired test of :mod:`StaICC.comparing.comparison`, so that each run has a verdict.
"""

from __future__ import annotations

from collections.abc import Sequence

from StaICC import benchmark_names
from StaICC.comparing.alignment import MOST_RUNS
from StaICC.comparing.ranking import Rank
from StaICC.comparing.verdicts import Best, Tied, Untested, describe
from StaICC.metrics.paired_tests import SIGNIFICANCE_LEVEL
from StaICC.report.board_facts import board_facts, shared_chance_verdict
from StaICC.report.chart_scores import ChartScore
from StaICC.report.comparable_groups import Group, each_result, group_title, run_names
from StaICC.report.headlines import Headline, direction_words
from StaICC.report.html import Markup, Missing, breakable, element, fold, items, join
from StaICC.report.latex_tables import MANY_RUNS_NOTE
from StaICC.report.overview import overview_figure
from StaICC.report.run_settings import RunSettings, run_settings
from StaICC.report.summary_sentence import summary_sentence
from StaICC.report.tables import table
from StaICC.results.above_chance import LEVEL, above_chance
from StaICC.results.interval_scope import all_scope_notes
from StaICC.results.left_out import LEFT_OUT_NOTE, with_marks

_FEW_COLUMNS = 7
"""A table with more columns has a smaller font."""


def leaderboard(group: Group, headlines: Sequence[Headline]) -> Markup:
    """Return who leads, a forest plot and the leaderboard of comparable runs, the best in the first score first.

    Args:
        group: Comparable results.
        headlines: Their headline scores.
    """
    names = run_names(group)
    if headlines:
        names = list(dict.fromkeys([*headlines[0].ranks, *names]))
    settings = run_settings(names, group)
    facts = board_facts(headlines, names, settings, group)
    parts: list[str] = [facts]
    if headlines:
        parts = [summary_sentence(headlines, group), facts, overview_figure(headlines, names)]
    parts.append(_table(headlines, names, settings, group))
    parts.append(_explanation(headlines, names, group))
    return join(parts)


def _table(headlines: Sequence[Headline], names: Sequence[str], settings: RunSettings, group: Group) -> Markup:
    """Return the table of the leaderboard: the runs, what differs between them, and the scores that a run has.

    Args:
        headlines: The headline scores.
        names: The runs, the best first.
        settings: What distinguishes the runs, and what they share.
        group: Comparable results.
    """
    shown = [headline for headline in headlines if headline.ranks]
    # The columns are: the run, the first score, the settings, the other scores. The first score is next to the name, so
    # that it is seen on a phone, too.
    head: list[str] = ["run"]
    head += [_score_head(headline) for headline in shown[:1]]
    first_setting = len(head)
    head += settings.differing
    text_columns = range(first_setting, len(head))
    head += [_score_head(headline) for headline in shown[1:]]
    columns_with_chance = []
    for headline in shown:
        # A verdict that all runs share is stated once, above the table.
        if headline.has_baselines and not shared_chance_verdict(headline, group[headline.column.benchmark]):
            columns_with_chance.append(headline.column)
    rows = []
    for name in names:
        score_cells = []
        for headline in shown:
            is_first = headline is headlines[0]
            shows_ranks = is_first and _has_ranks(headline)
            shows_chance = headline.column in columns_with_chance
            score_cells.append(_cell(headline, name, group, shows_ranks=shows_ranks, shows_chance=shows_chance))
        setting_cells = [value_by_run[name] for value_by_run in settings.differing.values()]
        rows.append([_run_cell(name, group), *score_cells[:1], *setting_cells, *score_cells[1:]])
    caption = f"Leaderboard: {group_title(group)}"
    classes = "sortable board"
    if len(head) > _FEW_COLUMNS:
        classes += " wide"  # in a smaller font
    return table(caption, head, rows, words=text_columns, classes=classes)


def _score_head(headline: Headline) -> Markup:
    """Return the column head of a score: its title, and which values are better."""
    words = element("small", direction_words(headline.better))
    return join([headline.column.title, " ", words])


def _run_cell(name: str, group: Group) -> Markup:
    """Return the name of a run, with a mark if queries failed."""
    failed_count = 0
    for runs in group.values():
        if name in runs:
            failed_count += sum(details.failed for details in runs[name].details.values())
    shown_name = element("bdi", breakable(name))  # isolated, because it may be written from right to left
    if failed_count == 0:
        return shown_name
    return join([shown_name, element("small", f"PARTIAL: {failed_count} queries failed", class_="partial")])


def _has_ranks(headline: Headline) -> bool:
    """Return whether intervals of ranks are shown: of three runs or more, if they are known."""
    return len(headline.ranks) > 2 and any(rank.ranks is not None for rank in headline.ranks.values())


def _cell(headline: Headline, name: str, group: Group, shows_ranks: bool, shows_chance: bool) -> str:
    """Return the cell of a run: its score, the verdict, the interval, the interval of ranks, and the baselines.

    A run without a rank has no value, and a cell with the reason.

    Args:
        headline: The score.
        name: The run.
        group: Comparable results.
        shows_ranks: Whether intervals of ranks are shown.
        shows_chance: Whether the verdict about the baselines is shown.
    """
    column = headline.column
    rank = headline.ranks.get(name)
    if rank is None:
        if name not in headline.scores:
            return Missing(f"{column.benchmark} was not run")
        return Missing(f"{column.title}: {headline.scores[name].reason}")

    score = headline.score(name)
    parts = _score_parts(score, rank)
    if headline.has_verdicts:
        case = rank.verdict.case
        parts += [" ", element("span", case, class_=case, title=describe(rank.verdict))]
    marks = with_marks("", score.left_out, score.stopped_early).strip()
    if marks and score.value is not None:
        parts.append(element("small", marks))
    if score.interval is not None:
        parts.append(element("small", score.interval_cell))
    if shows_ranks and rank.ranks is not None:
        parts.append(element("small", f"rank {rank.interval_cell}", class_="rank"))
    if shows_chance:
        verdicts = above_chance(group[column.benchmark][name])
        if verdicts is not None:
            parts.append(element("small", verdicts.short, class_="chance", title=verdicts.headline))
    return join(parts)


def _score_parts(score: ChartScore, rank: Rank) -> list[str]:
    """Return the value of a run as parts of a cell, without its marks, which are below it.

    A value that is missing because queries have no prediction is followed by the one with these queries at their worst.
    """
    value = score._replace(left_out=0, stopped_early=False).cell
    if isinstance(value, Missing):
        value = element("span", value, title=value.reason)
    if isinstance(rank.verdict, Best | Tied):
        value = element("strong", value)
    parts = [value]
    if score.value is None and rank.at_worst is not None:
        parts.append(element("small", f"{score.left_out} left out, at worst {rank.at_worst:.4f}"))
    return parts


def _explanation(headlines: Sequence[Headline], names: Sequence[str], group: Group) -> str:
    """Return the folded text "How to read the table", with notes about single runs; empty if nothing needs one.

    Args:
        headlines: The headline scores.
        names: The runs, the best first.
        group: Comparable results.
    """
    sentences = _sentences(headlines, names, group)
    notes: list[str] = []
    for headline in headlines:
        notes += _notes(headline, names)
    notes += all_scope_notes(result for _, _, result in each_result(group))
    if not sentences and not notes:
        return ""
    return fold("How to read the table", element("p", " ".join(sentences)), items(notes))


def _notes(headline: Headline, names: Sequence[str]) -> list[str]:
    """Return a note for each reason why ranked runs have no value, and for each reason why they are not tested.

    Args:
        headline: The score.
        names: The runs, the best first. A run without a rank has its reason below the table.
    """
    runs_without_value: dict[str, list[str]] = {}
    untested_runs: dict[str, list[str]] = {}
    for name in names:
        if name not in headline.ranks:
            continue
        score = headline.score(name)
        if score.value is None:
            runs_without_value.setdefault(score.reason, []).append(name)
        verdict = headline.ranks[name].verdict
        if headline.has_verdicts and isinstance(verdict, Untested):
            untested_runs.setdefault(verdict.reason, []).append(name)
    title = headline.column.title
    notes = [f"{title}: {', '.join(runs)}: {reason}." for reason, runs in runs_without_value.items()]
    notes += [f"{title}: untested: {', '.join(runs)} ({reason})." for reason, runs in untested_runs.items()]
    return notes


def _sentences(headlines: Sequence[Headline], names: Sequence[str], group: Group) -> list[str]:
    """Return the sentences that explain what the table has, such as the verdicts and the intervals.

    Args:
        headlines: The headline scores.
        names: The runs.
        group: Comparable results.
    """
    levels_of_intervals = set()
    any_left_out = False
    for headline in headlines:
        for name, score in headline.scores.items():
            if score.left_out:
                any_left_out = True
            if name in headline.ranks and score.interval is not None:
                levels_of_intervals.add(f"{100 * score.interval.level:g} %")
    sentences = []
    if len(names) > 1:
        sentences.append(
            "Best: the best value of a column. Worse: shown to be worse by the paired test over test rows (that of the "
            f"compare command, Holm's correction for the pairs of runs, level {SIGNIFICANCE_LEVEL:g}; of an "
            "experiment, also Bonferroni's for its conditions). Tied: not shown. Untested: there is no valid test."
        )
    if len(names) > MOST_RUNS:
        sentences.append(_sentence_of(MANY_RUNS_NOTE))
    if any_left_out:
        sentences.append(_sentence_of(LEFT_OUT_NOTE))
    if headlines and _has_ranks(headlines[0]):
        sentences.append("Rank: all intervals of ranks together contain the true ranks with probability 0.95.")
    if levels_of_intervals:
        sentences.append(f"Below each score is its {' or '.join(sorted(levels_of_intervals))} interval.")
    if benchmark_names.NORMAL in group:
        sentences.append(
            "Baselines: uniform guessing, always the majority label, a copy of the last demonstration's label; one is "
            f"beaten if the p-value of its test is at most {LEVEL:g}."
        )
    return sentences


def _sentence_of(note: str) -> str:
    """Return a note as a sentence: with a capital letter and a full stop."""
    return f"{note[0].upper()}{note[1:]}."

"""The leaderboard: comparable runs as rows, the headline scores as columns.

The best run of a column is compared with every other one by the paired test of :mod:`StaICC.comparing.comparison`, so
that each run has a verdict.
"""

from __future__ import annotations

from collections.abc import Sequence

from StaICC import benchmark_names
from StaICC.comparing.alignment import MOST_RUNS
from StaICC.comparing.ranking import Rank
from StaICC.comparing.verdicts import Best, Tied, Untested, describe
from StaICC.metrics.paired_tests import SIGNIFICANCE_LEVEL
from StaICC.metrics.scores import COLUMNS
from StaICC.report.chart_scores import ChartScore
from StaICC.report.comparable_groups import Group, each_result, group_title, run_names
from StaICC.report.headlines import Headline, direction_words, headlines_of
from StaICC.report.html import Markup, Missing, element, fold, items, join
from StaICC.report.latex_tables import MANY_RUNS_NOTE
from StaICC.report.overview import overview_figure
from StaICC.report.summary_sentence import summary_sentence
from StaICC.report.tables import table
from StaICC.results.above_chance import LEVEL, above_chance
from StaICC.results.comparable import SHARED_FIELDS
from StaICC.results.interval_scope import all_scope_notes
from StaICC.results.left_out import LEFT_OUT_NOTE
from StaICC.results.result import Result

_HIDDEN_FIELDS = {*SHARED_FIELDS, "benchmark", "prompts", "method", "failed"}
"""Fields of a signature that are no settings of a run, or are shown elsewhere."""


def leaderboard(group: Group) -> Markup:
    """Return who leads, a forest plot and the leaderboard of comparable runs, the best in the first score first.

    Args:
        group: Comparable results.
    """
    headlines = list(headlines_of(group))
    names = run_names(group)
    if headlines:
        names = list(dict.fromkeys([*headlines[0].places, *names]))
    parts: list[str] = []
    if headlines:
        parts += [summary_sentence(headlines, group), overview_figure(headlines, names)]
    parts.append(_table(headlines, names, group))
    parts.append(_explanation(headlines, names, group))
    return join(parts)


def _table(headlines: Sequence[Headline], names: Sequence[str], group: Group) -> Markup:
    """Return the table of the leaderboard.

    Args:
        headlines: The headline scores.
        names: The runs, the best first.
        group: Comparable results.
    """
    head: list[str] = ["run: model, method, settings, date"]
    for headline in headlines:
        words = element("small", direction_words(headline.better))
        head.append(join([headline.column.title, " ", words]))
    settings = _differing_settings(group)
    rows = []
    for name in names:
        row: list[str] = [_described_run(name, group, settings)]
        for headline in headlines:
            is_first = headline is headlines[0]
            row.append(_cell(headline, name, group, shows_ranks=is_first and _has_ranks(headline)))
        rows.append(row)
    return table(f"Leaderboard: {group_title(group)}", head, rows, classes="sortable board")


def _differing_settings(group: Group) -> list[str]:
    """Return the settings in which results of one benchmark differ."""
    differing: dict[str, None] = {}
    for runs in group.values():
        fields_of_runs = [result.signature.fields for result in runs.values()]
        for name in dict.fromkeys(name for fields in fields_of_runs for name in fields):
            values = {fields.get(name) for fields in fields_of_runs}
            if name not in _HIDDEN_FIELDS and len(values) > 1:
                differing[name] = None
    return list(differing)


def _described_run(name: str, group: Group, settings: Sequence[str]) -> Markup:
    """Return a run with its model, its method, the settings in which the runs of its group differ, and its date."""
    results = [runs[name] for runs in group.values() if name in runs]
    facts = [results[0].model, results[0].method]
    facts += [", ".join(f"{setting} {_values_of(setting, results)}" for setting in settings)]
    text = "".join(f"{fact}, " for fact in facts if fact)
    dates = [predictor.started[:10] for result in results for predictor in result.provenance.predictors]
    date = element("span", max(dates, default="") or "date not recorded", class_="date")
    parts = [element("bdi", name), element("small", element("bdi", text, date))]
    failed = sum(details.failed for result in results for details in result.details.values())
    if failed:
        parts.append(element("small", f"PARTIAL: {failed} queries failed", class_="partial"))
    return join(parts)


def _values_of(setting: str, results: Sequence[Result]) -> str:
    """Return the value of a setting of a run; several if its benchmarks have different ones."""
    values = dict.fromkeys(result.signature.fields.get(setting) or "default" for result in results)
    return "/".join(values)


def _has_ranks(headline: Headline) -> bool:
    """Return whether intervals of ranks are shown: of three runs or more, if they are known."""
    return len(headline.places) > 2 and any(place.ranks is not None for place in headline.places.values())


def _has_verdicts(headline: Headline) -> bool:
    """Return whether runs are compared by a score."""
    return len(headline.scores) > 1 and headline.better is not None


def _cell(headline: Headline, name: str, group: Group, shows_ranks: bool) -> str:
    """Return the cell of a run: its score, the verdict, the interval, the interval of ranks, and the baselines.

    Args:
        headline: The score.
        name: The run.
        group: Comparable results.
        shows_ranks: Whether intervals of ranks are shown.
    """
    column = headline.column
    place = headline.places.get(name)
    if place is None:
        if name not in headline.scores:
            return Missing(f"{column.benchmark} was not run")
        return Missing(f"{column.title}: {headline.scores[name].reason}")

    score = headline.score(name)
    parts = _score_parts(score, place)
    if _has_verdicts(headline):
        case = place.verdict.case
        parts += [" ", element("span", case, class_=case, title=describe(place.verdict))]
    if score.interval is not None:
        parts.append(element("small", score.interval_cell))
    if shows_ranks and place.ranks is not None:
        parts.append(element("small", f"rank {place.interval_cell}", class_="rank"))
    if column == COLUMNS[0]:
        verdicts = above_chance(group[column.benchmark][name])
        if verdicts is not None:
            parts.append(element("small", verdicts.short, title=verdicts.headline))
    return join(parts)


def _score_parts(score: ChartScore, place: Rank) -> list[str]:
    """Return the value of a run as parts of a cell; without one, the value with missing queries at their worst."""
    value = score.cell
    if isinstance(value, Missing):
        value = element("span", value, title=value.reason)
    if isinstance(place.verdict, Best | Tied):
        value = element("strong", value)
    parts = [value]
    if score.value is None and place.at_worst is not None:
        parts.append(element("small", f"{score.left_out} left out, at worst {place.at_worst:.4f}"))
    return parts


def _explanation(headlines: Sequence[Headline], names: Sequence[str], group: Group) -> str:
    """Return how to read the table, with notes about single runs; empty without a need."""
    sentences = _sentences(headlines, names, group)
    notes = [note for headline in headlines for note in _notes(headline, names)]
    notes += all_scope_notes(result for _, _, result in each_result(group))
    if not sentences and not notes:
        return ""
    return fold("How to read the table", element("p", " ".join(sentences)), items(notes))


def _notes(headline: Headline, names: Sequence[str]) -> list[str]:
    """Return notes about runs without a value, and about runs that are not tested, with the reasons."""
    without_value: dict[str, list[str]] = {}
    untested: dict[str, list[str]] = {}
    for name in names:
        if name not in headline.places:
            continue
        score = headline.score(name)
        if score.value is None:
            without_value.setdefault(score.reason, []).append(name)
        verdict = headline.places[name].verdict
        if _has_verdicts(headline) and isinstance(verdict, Untested):
            untested.setdefault(verdict.reason, []).append(name)
    title = headline.column.title
    notes = [f"{title}: {', '.join(runs)}: {reason}." for reason, runs in without_value.items()]
    notes += [f"{title}: untested: {', '.join(runs)} ({reason})." for reason, runs in untested.items()]
    return notes


def _sentences(headlines: Sequence[Headline], names: Sequence[str], group: Group) -> list[str]:
    """Return the sentences that explain what is in the table."""
    shown_scores = [
        headline.scores[name] for headline in headlines for name in headline.places if name in headline.scores
    ]
    levels = {f"{100 * score.interval.level:g} %" for score in shown_scores if score.interval is not None}
    sentences = []
    if len(names) > 1:
        sentences.append(
            "Best: the best value of a column. Worse: shown to be worse by the paired test over test rows (that of the "
            f"compare command, Holm's correction for the pairs of runs, level {SIGNIFICANCE_LEVEL:g}; of an "
            "experiment, also Bonferroni's for its conditions). Tied: not shown. Untested: there is no valid test."
        )
    if len(names) > MOST_RUNS:
        sentences.append(_sentence_of(MANY_RUNS_NOTE))
    if any(score.left_out for headline in headlines for score in headline.scores.values()):
        sentences.append(_sentence_of(LEFT_OUT_NOTE))
    if headlines and _has_ranks(headlines[0]):
        sentences.append("Rank: all intervals of ranks together contain the true ranks with probability 0.95.")
    if levels:
        sentences.append(f"Below each score is its {' or '.join(sorted(levels))} interval.")
    if benchmark_names.NORMAL in group:
        sentences.append(
            "Baselines: uniform guessing, always the majority label, a copy of the last demonstration's label; one is "
            f"beaten if the p-value of its test is at most {LEVEL:g}."
        )
    return sentences


def _sentence_of(note: str) -> str:
    """Return a note as a sentence: with a capital letter and a full stop."""
    return f"{note[0].upper()}{note[1:]}."

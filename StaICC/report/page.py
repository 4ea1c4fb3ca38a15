"""The page: saved results as one self-contained HTML file.

A leaderboard has runs as rows and the headline scores as columns, one table for each group of comparable runs. Two
runs are comparable if they have the same data sets, test rows, metrics and benchmark options. Model, method, k,
templates and label scoring may differ: they are what a leaderboard compares. The best run of a column is compared with
every other one by the paired test of :mod:`StaICC.comparing.comparison`, and each run has a verdict. Then follows one
section for each question about the runs.

The page makes no network requests, and its content security policy forbids them: it allows no image, font, frame or
connection, and no scripts except those in the page: one sorts tables and unfolds sections for printing, the other shows
single queries. The page is readable without scripts. All text from data is escaped. The same results give the same
bytes.
"""

from __future__ import annotations

import base64
import contextlib
import hashlib
import json
import math
import os
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import count
from typing import Any, NamedTuple

from StaICC import benchmark_names
from StaICC.comparing.alignment import MOST_RUNS
from StaICC.comparing.comparable_scores import metrics_of
from StaICC.comparing.comparison import compare, compare_runs
from StaICC.comparing.formats import latex_table
from StaICC.comparing.published_comparison import compare_with_published, display_published
from StaICC.comparing.ranking import Rank, standings
from StaICC.comparing.verdicts import Best, Tied, Untested, Worse, describe, p_text
from StaICC.errors import ArgumentError, SchemaError, StaICCError
from StaICC.files.output import write_output
from StaICC.metrics.paired_tests import SIGNIFICANCE_LEVEL
from StaICC.metrics.scores import COLUMNS, HEADLINE, Column, score_record
from StaICC.report import figures as charts
from StaICC.report.figures import ChartScore, Point, ResultsByRun, labels_of, mean_key, scores_of
from StaICC.report.html import Markup, Missing, breakable, element, fold, items, join, printed, resource, table
from StaICC.report.plots import STYLE, Figure, row_axis
from StaICC.results.above_chance import LEVEL, above_chance
from StaICC.results.comparable import SHARED_FIELDS, comparable_by
from StaICC.results.details import ConditionRecord, query_positions
from StaICC.results.experiment_table import is_experiment
from StaICC.results.interval_scope import all_scope_notes
from StaICC.results.left_out import LEFT_OUT_NOTE, STOPPED_EARLY_NOTE, with_marks
from StaICC.results.result import Prompts, Result, ResultGroup
from StaICC.results.runs import by_benchmark
from StaICC.safe_text import json_escaped, latex_cell, valid_unicode
from StaICC.version import __version__

Group = Mapping[str, ResultsByRun]
"""Results by benchmark and run."""

_HIDDEN = {*SHARED_FIELDS, "benchmark", "prompts", "method", "failed"}
_LATEX_STYLES = {Best: r"$\mathbf{%s}$", Tied: r"$\underline{%s}$", Untested: "$%s^{*}$"}
_LATEX_STYLES_OF_TEXT = {Best: r"\textbf{%s}", Tied: r"\underline{%s}", Untested: "%s$^{*}$"}
_MANY_RUNS_NOTE = (
    f"of more than {MOST_RUNS} runs, Holm's correction for all pairs is that of the first score; the others have "
    "Bonferroni's, and can be tied where rank has worse"
)
_SHADES = 11
_BOARD = "sortable board"
_MOST_LABELS = 12
"""Of larger label spaces, only the most frequent confusions are listed."""
_MOST_ROWS = 20
_FEW_RUNS = 6
"""Of more runs, all parts behind the leaderboard are folded at first."""
_MOST_FAILURES = 200


class Section(NamedTuple):
    """A part of the page with its own heading."""

    key: str
    title: str
    content: Markup
    assets: str = ""
    """Name of the script and the style sheet that only this section needs."""


def run_names(group: Group) -> list[str]:
    """Return the names of all runs, each once.

    Args:
        group: The results.
    """
    return list(dict.fromkeys(name for runs in group.values() for name in runs))


def _each_result(group: Group) -> Iterator[tuple[str, str, Result]]:
    """Yield the name of the run, the benchmark and the result."""
    return ((name, benchmark, result) for benchmark, runs in group.items() for name, result in runs.items())


def comparable_groups(benchmarks: Group) -> list[dict[str, dict[str, Result]]]:
    """Split runs into groups of comparable runs.

    A run joins the first group that has one of its benchmarks and agrees in all that both have.

    Args:
        benchmarks: All results.

    Returns:
        The groups.
    """
    groups: list[dict[str, dict[str, Result]]] = []
    for name in run_names(benchmarks):
        own = {benchmark: runs[name] for benchmark, runs in benchmarks.items() if name in runs}
        for group in groups:
            firsts = {benchmark: next(iter(group[benchmark].values())) for benchmark in own if benchmark in group}
            if firsts and all(comparable_by(own[key]) == comparable_by(first) for key, first in firsts.items()):
                break
        else:
            groups.append(group := {})
        for benchmark, result in own.items():
            group.setdefault(benchmark, {})[name] = result
    return groups


def group_title(group: Group) -> str:
    """Return what the runs of a group share, in a few words.

    Args:
        group: Comparable results.
    """
    result = next(iter(next(iter(group.values())).values()))
    parts = [_listed(list(result.divided), "data sets")]
    parts += [f"{name} {value}" for name in ("limit", "metrics") if (value := result.signature.fields.get(name))]
    parts += ["stopped early"] if result.stopping is not None else []
    return ", ".join(part for part in parts if part != "metrics standard")


def _listed(names: Sequence[str], kind: str) -> str:
    return ", ".join(names) if len(names) < 4 else f"{len(names)} {kind}"


def _words(better: bool | None) -> str:
    return "" if better is None else f"{'higher' if better else 'lower'} is better"


# -- the leaderboard


class _Headline(NamedTuple):
    """A headline score of comparable runs."""

    column: Column
    better: bool | None
    """Whether larger values are better; ``None`` if that is not known."""
    scores: dict[str, ChartScore]
    """The means by run; without the runs that lack the benchmark."""
    places: dict[str, Rank]
    """Of the runs that have a value, or one with missing queries at their worst; the best first."""

    def sorted_by(self, run: str) -> float:
        """Return the value of a run with missing queries at their worst; larger is better."""
        value = self.places[run].sorted_by
        if value is None:
            return -math.inf
        return -value if self.better is False else value


def _headlines(group: Group) -> Iterator[_Headline]:
    columns = [column for column in COLUMNS if column.benchmark in group]
    for benchmark, runs in group.items():
        result = next(iter(runs.values()))
        if is_experiment(result):
            conditions = dict.fromkeys(name for run in runs.values() for name in metrics_of(run))
            columns = [column for column in columns if column.benchmark != benchmark]
            columns += [Column(benchmark, name, f"{benchmark}: {name}") for name in conditions]
            continue
        keys = [key for key in metrics_of(result) if key in result.higher_is_better]
        if benchmark not in HEADLINE:  # benchmarks from other packages: their first score
            keys = list(dict.fromkeys([*metrics_of(result)[:1], *keys]))
        columns += [Column(benchmark, key, f"{benchmark}: {key}") for key in keys]
    every = {(benchmark, name): scores_of(result) for name, benchmark, result in _each_result(group)}
    first = None
    for column in columns:
        benchmark, key, _ = column
        runs = group[benchmark]
        if not any(key in run.averaged for run in runs.values()):
            continue
        first = first or column
        scores = {name: every[benchmark, name].get((None, mean_key(benchmark, key)), ChartScore()) for name in runs}
        stated = {score_record(benchmark, key, run.higher_is_better).higher_is_better for run in runs.values()}
        better = stated.pop() if len(stated) == 1 else None
        unknown = Untested("it is not recorded which values are better")
        places = {name: Rank(name, x, "", unknown) for name, score in scores.items() if (x := score.value) is not None}
        if better is not None:  # intervals of ranks need the tests of all pairs, and are shown for the first score
            places |= standings(
                runs, key, better, all_pairs=column is first, conditions=_conditions_shown(benchmark, runs, columns)
            )
        headline = _Headline(column, better, scores, places)
        by_value = sorted(places, key=headline.sorted_by, reverse=True)
        order = sorted(by_value, key=lambda name: not isinstance(places[name].verdict, Best))
        yield headline._replace(places={name: places[name] for name in order})


def _conditions_shown(benchmark: str, runs: ResultsByRun, columns: Sequence[Column]) -> int:
    """Return the number of conditions of an experiment, each of which has a verdict; 1 for other benchmarks."""
    if not is_experiment(next(iter(runs.values()))):
        return 1
    return sum(column.benchmark == benchmark for column in columns)


def latex_scores(results: Mapping[str, Result | ResultGroup]) -> str:
    """Return the headline scores as LaTeX in the layout of the StaICC paper: scores as rows, runs as columns.

    The best run of a row is bold, runs that are tied with it are underlined, and runs that could not be tested against
    it have an asterisk. A score has the number of queries that it leaves out, and after early stopping its interval.
    There is a table for each group of comparable runs, followed by the signatures as comments.

    Args:
        results: Results, or groups of results, by the name of their run.

    Raises:
        ArgumentError: A run has two results of one benchmark.
    """
    arrows = {True: r" $\uparrow$", False: r" $\downarrow$", None: ""}
    blocks = []
    for group in comparable_groups(by_benchmark(results)):
        names, rows = run_names(group), []
        marked: list[ChartScore] = []
        for column, better, scores, places in _headlines(group):
            cells = [latex_cell(column.title) + arrows[better]]
            for name in names:
                place = places.get(name) if len(scores) > 1 and better is not None else None
                score = scores.get(name, ChartScore())
                cells.append(_latex_score(score, place))
                marked.append(score)
            rows.append(cells)
        caption = [group_title(group), "bold: best", "underlined: not shown to be worse than the best (Holm, 0.05)"]
        caption += ["*: not tested against the best"] if any("^{*}" in cell for row in rows for cell in row) else []
        if any(score.left_out for score in marked):
            caption.append(LEFT_OUT_NOTE)
        if any(score.stopped_early for score in marked):
            caption.append(STOPPED_EARLY_NOTE)
        caption += ["--: not run, or undefined"] if any("--" in row for row in rows) else []
        if len(names) > 1 and any(is_experiment(result) for _, _, result in _each_result(group)):
            caption.append("conditions of an experiment: verdicts are corrected for all of them (Bonferroni)")
        if len(names) > MOST_RUNS:
            caption.append(_MANY_RUNS_NOTE)
        signatures = dict.fromkeys(f"% {result.signature}" for _, _, result in _each_result(group))
        blocks.append("\n".join([latex_table(caption, ["", *names], rows) + "\\end{table}", *signatures]))
    return "\n\n".join(blocks)


def _latex_score(score: ChartScore, place: Rank | None) -> str:
    """Return a score in the style of its verdict, with its marks; after early stopping with its interval."""
    if score.value is None:
        style = "%s" if place is None else _LATEX_STYLES_OF_TEXT.get(type(place.verdict), "%s")
        return style % "--" if place is None else with_marks(style % "--", score.left_out)
    style = "$%s$" if place is None else _LATEX_STYLES.get(type(place.verdict), "$%s$")
    text = style % f"{score.value:.4f}"
    if score.stopped_early and score.interval is not None:
        text += f" [{score.interval.low:.3f}, {score.interval.high:.3f}]"
    return with_marks(text, score.left_out, score.stopped_early)


def _differing_settings(group: Group) -> list[str]:
    """Return the settings in which results of one benchmark differ."""
    differing: dict[str, None] = {}
    for runs in group.values():
        fields = [run.signature.fields for run in runs.values()]
        names = (name for own in fields for name in own if name not in _HIDDEN)
        differing |= dict.fromkeys(name for name in names if len({own.get(name) for own in fields}) > 1)
    return list(differing)


def _described(name: str, group: Group, differing: Sequence[str]) -> Markup:
    """Return a run with its model, its method, the settings in which the runs of its group differ, and its date."""
    own = [runs[name] for runs in group.values() if name in runs]
    settings = ", ".join(
        f"{field} {'/'.join(dict.fromkeys(result.signature.fields.get(field) or 'default' for result in own))}"
        for field in differing
    )
    failed = sum(details.failed for result in own for details in result.details.values())
    dates = [predictor.started[:10] for result in own for predictor in result.provenance.predictors]
    facts = "".join(f"{fact}, " for fact in (own[0].model, own[0].method, settings) if fact)
    date = element("span", max(dates, default="") or "date not recorded", class_="date")
    about = element("small", element("bdi", facts, date))
    partial = element("small", f"PARTIAL: {failed} queries failed", class_="partial") if failed else ""
    return join([element("bdi", name), about, partial])


def _difference(headline: _Headline, runs: ResultsByRun, first: str, second: str) -> str:
    """Return by how much a run leads, with the interval, and what the test says."""
    leader, other = headline.places[first], headline.places[second]
    lead, verdict = headline.sorted_by(first) - headline.sorted_by(second), other.verdict
    how = ""
    if leader.missing or other.missing:
        how = ", with missing queries at their worst,"
    else:
        pair = (runs[first], runs[second]) if headline.better else (runs[second], runs[first])
        with contextlib.suppress(StaICCError):  # the verdict says why
            overall = compare(*pair, headline.column.key).overall
            unchanged = overall.difference is not None and abs(overall.difference - lead) < 1e-6
            if overall.interval is not None and unchanged:
                how = f" (95 % interval {overall.interval.low:.3f} .. {overall.interval.high:.3f})"
    meaning = f"not tested: {verdict.reason}" if isinstance(verdict, Untested) else ""
    if isinstance(verdict, Tied | Worse):
        meaning = f"{'not ' * isinstance(verdict, Tied)}a significant difference ({p_text(verdict.p_value)})"
    return f"by {lead:.4f}{how} before {second}: {meaning}"


def _leading_value(headline: _Headline, leader: str, best: Sequence[str]) -> str:
    """Return the value of the leading run, with its interval.

    Runs share the value that they were sorted by, and a run can lead without another one: with missing queries at
    their worst.
    """
    score, place = headline.scores[leader], headline.places[leader]
    shared = len(best) > 1 and any(headline.places[name].missing for name in best)
    if (shared or score.value is None) and place.sorted_by is not None:
        return f"{place.sorted_by:.4f} with missing queries at their worst"
    if score.interval is None:
        return score.cell
    return f"{score.cell} ({100 * score.interval.level:g} % interval {score.interval_cell})"


def _summary(headlines: Sequence[_Headline], group: Group) -> Markup:
    """Return in a sentence which run leads, by how much, by what test, on which data, and what is missing."""
    headline, names = headlines[0], run_names(group)
    title, runs, places = headline.column.title, group[headline.column.benchmark], headline.places
    if not places:
        reasons = dict.fromkeys(score.reason for score in headline.scores.values())
        return element("p", f"No run has a value of {title}: {'; '.join(reasons)}.", class_="lead")
    leader, *others = places
    best, tied, untested = (
        [name for name, place in places.items() if isinstance(place.verdict, kind)] for kind in (Best, Tied, Untested)
    )
    sets = list(runs[leader].divided)
    value = f"{title} {_leading_value(headline, leader, best)}"
    value += f", mean of {len(sets)} data sets" if len(sets) > 1 else f", {sets[0]}"
    limit = None if runs[leader].stopping else runs[leader].signature.fields.get("limit")
    value += f" (the first {limit} test rows{' of each' * (len(sets) > 1)})" if limit else ""
    lower = [name for name in others if headline.sorted_by(leader) >= headline.sorted_by(name)]
    if not others or headline.better is None:
        text = f": {value}. {describe(places[leader].verdict).capitalize()}." if others else f": {value}."
    elif isinstance(places[leader].verdict, Untested):  # no run can be called the best one
        text = f": {value}. {describe(places[leader].verdict).capitalize()}."
    elif len(best) > 1:
        text = f" and {_listed(best[1:], 'runs')} share the best {value}."
    else:  # runs with a better value have no verdict
        text = f" leads with {value}{f', {_difference(headline, runs, leader, lower[0])}' if lower else ''}."
    text += f" {len(tied)} runs are not shown to be worse." if len(tied) > 1 else ""
    unranked = [name for name in untested if name != leader]
    text += f" Not tested: {_listed(unranked, 'runs')}." if unranked and len(others) > 1 else ""
    if headline.column == COLUMNS[0] and (verdicts := above_chance(runs[leader])):
        subject = "It" if len(best) < 2 else leader
        text += f" {subject} {'is' if verdicts.mean else 'has'} {verdicts.headline}."
    titles: dict[str, list[str]] = {}
    for column, _, scores, _ in headlines:
        if without := [name for name in names if scores.get(name, ChartScore()).value is None]:
            of_runs = "all runs" if len(without) == len(names) > 1 else _listed(without, "runs")
            titles.setdefault(of_runs, []).append(column.title)
    missing = "; ".join(f"{_listed(own, 'scores')} ({of_runs})" for of_runs, own in titles.items())
    text += f" No value: {missing}." if missing else ""
    return element("p", element("strong", breakable(leader)), breakable(text), class_="answer")


def _forest(headlines: Sequence[_Headline], names: Sequence[str]) -> Markup:
    """Return the means of the main score of each benchmark; the rows are those of the leaderboard."""
    shown, title = names[:_MOST_ROWS], "Overview"
    firsts = {headline.column.benchmark: headline for headline in reversed(headlines)}
    points = []
    for column, _, scores, places in reversed(firsts.values()):
        for name in shown:
            marked = len(names) == 1 or (name in places and isinstance(places[name].verdict, Best | Tied))
            score = scores.get(name, ChartScore())._replace(random=None, majority=None)
            points.append(Point(column.title, "best" if marked else "other", name, score))
    better = "Blue: the best run and those that are not shown to be worse. " if len(names) > 1 else ""
    of_all = f"all {len(names)} runs and " if len(names) > _MOST_ROWS else ""
    caption = f"Means over the data sets, with intervals. {better}The table below has {of_all}the numbers."
    series = {"best": 0, "other": None}
    figure = charts.chart(title, caption, ["", "", "run", "mean"], points, series, width=148)
    if not figure.panels:
        return Markup("")
    first, *others = figure.panels
    figure = replace(figure, panels=[first._replace(width=280, y=row_axis(shown, 25)), *others])
    return element("figure", figure.inline(), element("figcaption", figure.caption), class_="overview")


def leaderboard(group: Group) -> Markup:
    """Return who leads, a forest plot and the leaderboard of comparable runs, the best in the first score first.

    Args:
        group: Comparable results.
    """
    headlines = list(_headlines(group))
    names = list(dict.fromkeys([*(headlines[0].places if headlines else ()), *run_names(group)]))
    differing = _differing_settings(group)
    rows: dict[str, list[str]] = {name: [_described(name, group, differing)] for name in names}
    heads, notes, levels, ranked = [], [], set(), False
    for headline in headlines:
        column, better, scores, places = headline
        heads.append(join([column.title, " ", element("small", _words(better))]))
        untested: dict[str, list[str]] = {}
        missing_reasons: dict[str, list[str]] = {}
        for name in names:
            score, place = scores.get(name, ChartScore()), places.get(name)
            if place is None:
                missing = f"{column.title}: {score.reason}" if name in scores else f"{column.benchmark} was not run"
                rows[name].append(Missing(missing))
                continue
            verdict = place.verdict
            cell = score.cell
            if isinstance(cell, Missing):
                cell = element("span", cell, title=cell.reason)
                missing_reasons.setdefault(score.reason, []).append(name)
            parts: list[str] = [element("strong", cell) if isinstance(verdict, Best | Tied) else cell]
            if score.value is None and place.at_worst is not None:
                parts.append(element("small", f"{score.left_out} left out, at worst {place.at_worst:.4f}"))
            if len(scores) > 1 and better is not None:
                parts += [" ", element("span", verdict.case, class_=verdict.case, title=describe(verdict))]
                if isinstance(verdict, Untested):
                    untested.setdefault(verdict.reason, []).append(name)
            if score.interval is not None:
                levels.add(f"{100 * score.interval.level:g} %")
                parts.append(element("small", score.interval_cell))
            if headline is headlines[0] and len(places) > 2 and place.ranks is not None:
                ranked = True
                parts.append(element("small", f"rank {place.interval_cell}", class_="rank"))
            if column == COLUMNS[0] and (verdicts := above_chance(group[column.benchmark][name])):
                parts.append(element("small", verdicts.short, title=verdicts.headline))
            rows[name].append(join(parts))
        notes += [f"{column.title}: {', '.join(runs)}: {reason}." for reason, runs in missing_reasons.items()]
        notes += [f"{column.title}: untested: {', '.join(runs)} ({reason})." for reason, runs in untested.items()]
    notes += all_scope_notes(result for _, _, result in _each_result(group))
    head = ["run: model, method, settings, date", *heads]
    shown = table(f"Leaderboard: {group_title(group)}", head, list(rows.values()), classes=_BOARD)
    lines = {
        "Best: the best value of a column. Worse: shown to be worse by the paired test over test rows (that of the "
        f"compare command, Holm's correction for the pairs of runs, level {SIGNIFICANCE_LEVEL:g}; of an experiment, "
        "also Bonferroni's for its conditions). Tied: not shown. Untested: there is no valid test.": len(names) > 1,
        f"{_MANY_RUNS_NOTE[0].upper()}{_MANY_RUNS_NOTE[1:]}.": len(names) > MOST_RUNS,
        f"{LEFT_OUT_NOTE[0].upper()}{LEFT_OUT_NOTE[1:]}.": any(
            score.left_out for headline in headlines for score in headline.scores.values()
        ),
        "Rank: all intervals of ranks together contain the true ranks with probability 0.95.": ranked,
        f"Below each score is its {' or '.join(sorted(levels))} interval.": levels,
        f"Baselines: uniform guessing, always the majority label, a copy of the last demonstration's label; one is "
        f"beaten if the p-value of its test is at most {LEVEL:g}.": benchmark_names.NORMAL in group,
    }
    first = [_summary(headlines, group), _forest(headlines, names)] if headlines else []
    text = element("p", " ".join(line for line, needed in lines.items() if needed))
    explained = fold("How to read the table", text, items(notes)) if notes or any(lines.values()) else ""
    return join([*first, shown, explained])


# -- the questions. Each has parts; a part takes comparable results, and is empty if they have not what it needs.

ReportPart = Callable[[Group], str]


def heat_map(benchmark: str, metric: str = "") -> ReportPart:
    """Return a part: a score of each run on each data set as a shaded table.

    Args:
        benchmark: Name of the benchmark.
        metric: The headline score; by default the main one of the benchmark. The baselines of an accuracy are below it.
    """
    column = next(column for column in COLUMNS if column.benchmark == benchmark and metric in ("", column.key))
    key, better = mean_key(*column[:2]), score_record(*column[:2]).higher_is_better

    def make(group: Group) -> str:
        runs = group.get(benchmark, {})
        datasets = charts.dataset_names(runs)
        places: list[str | None] = [*datasets, *([None] if len(datasets) > 1 else [])]
        scores = [scores_of(result) for result in runs.values()]
        cells = [[own.get((place, key), ChartScore(reason="not evaluated")) for place in places] for own in scores]
        known = [score.value for row in cells for score in row if score.value is not None]
        if not known:
            return ""
        low, span = min(known), (max(known) - min(known)) or 1.0

        def shaded(score: ChartScore) -> str:
            shade = 0 if score.value is None else round((_SHADES - 1) * (score.value - low) / span)
            return score.cell if score.value is None else element("td", score.cell, class_=f"h{shade}")

        rows = [[name, *map(shaded, row)] for name, row in zip(runs, cells, strict=True)]
        foot = []
        for label, attribute in (("random baseline", "random"), ("majority baseline", "majority")):
            values = ([getattr(score, attribute) for score in own] for own in zip(*cells, strict=True))
            bases = [next((value for value in own if value is not None), None) for own in values]
            foot += [[label, *(ChartScore(value).cell for value in bases)]] if any(bases) else []
        caption = f"{column.title}, by data set ({_words(better)}; a darker cell is a higher value)"
        return table(caption, ["run", *(place or "mean" for place in places)], rows, foot, classes="sortable heat")

    return make


def _figure(make: Callable[..., Figure], given: Any, name: str = "", optional: bool = False) -> str:
    """Return a figure with its caption and its numbers; without data, the reason, or nothing if it is optional."""
    try:
        figure = make(given)
    except ArgumentError as error:
        return "" if optional else element("p", f"Not drawn{f', {name}' if name else ''}: {error}.", class_="soft")
    title = f"{figure.title}, {name}" if name else figure.title
    caption = element("figcaption", element("strong", f"{title}."), " ", figure.caption)
    numbers = table(f"{title}: numbers", figure.head, figure.rows, words=figure.words)
    return element("figure", caption, figure.inline(), fold("Numbers", numbers, class_="numbers"))


def figure_part(benchmark: str, make: Callable[..., Figure], optional: bool = False) -> ReportPart:
    """Return a part: a figure of the runs of a benchmark.

    Args:
        benchmark: Name of the benchmark.
        make: The figure.
        optional: Whether nothing is said about results without the data for it.
    """
    return lambda group: _figure(make, group[benchmark], optional=optional) if benchmark in group else ""


def run_part(benchmarks: Sequence[str], make: Callable[[str, ResultsByRun], str]) -> ReportPart:
    """Return a part that has a folded part for each run.

    Args:
        benchmarks: Names of benchmarks.
        make: Takes the name of a run and its results of these benchmarks.
    """

    def parts(group: Group) -> str:
        chosen = {benchmark: group[benchmark] for benchmark in benchmarks if benchmark in group}
        names = run_names(chosen)
        shown = {name: make(name, {key: runs[name] for key, runs in chosen.items() if name in runs}) for name in names}
        return _each(shown)

    return parts


def _each(shown: Mapping[str, Markup | str]) -> Markup:
    """Return parts by their names, each folded if there are several."""
    return join(map(fold, shown, shown.values()) if len(shown) > 1 else shown.values())


def _confusions(name: str, runs: ResultsByRun) -> str:
    """Return a confusion matrix for each data set; of a large label space, its most frequent confusions."""
    (result,) = runs.values()
    tables: list[str] = []
    for dataset, details in result.details.items():
        labels, cells, wrong = labels_of(details), [], list[tuple[int, int, int]]()
        for truth, counts in enumerate(charts.confusion_counts(details)):
            row = []
            for label, n in enumerate(counts):
                chosen = json.dumps([valid_unicode(name), result.benchmark, dataset, truth, label])
                place = json_escaped(chosen, only_ascii=True)
                style = f"{'h' if truth == label else 'e'}{round(10 * n / (sum(counts) or 1))}"
                row.append(element("td", str(n), class_=style, data_queries=place))  # for the script of the queries
                wrong += [(-n, truth, label)] if n and truth != label else []
            cells.append(row)
        if len(labels) > _MOST_LABELS:
            most = sorted(wrong)[:_MOST_ROWS]
            rows = [[labels[truth], labels[label], cells[truth][label]] for _, truth, label in most]
            head = ["true label", "predicted label", "queries"]
            tables.append(table(f"{dataset}, {name}: confusions", head, rows, words=(1,), classes="sortable heat"))
        elif cells:
            rows = [[label, *row] for label, row in zip(labels, cells, strict=True)]
            tables.append(table(f"{dataset}, {name}", ["true \\ predicted", *labels], rows, classes="heat"))
    colours = "Rows are true labels. Blue is correct, orange is wrong."
    return join([element("p", colours + charts.confusion_note(result), class_="soft"), *tables])


def _changed(group: Group) -> str:
    """Compare every run with the first, by the main metric of each benchmark."""
    first = run_names(group)[0]
    parts = []
    for benchmark, runs in group.items():
        try:
            compared = compare_runs(runs, reference=first).comparisons if len(runs) > 1 else ()
        except StaICCError as error:
            parts.append(element("p", f"{benchmark}: {error}.", class_="soft"))
            continue
        pairs = {f"{pair.first}, {pair.second}": pair.display_blocks() for pair in compared}
        shown = {names: printed(blocks, f"{benchmark}: {names}") for names, blocks in pairs.items()}
        if compared:
            drawn = element("figure", charts.differences(compared).inline())  # the tables have the numbers
            parts.append(fold(benchmark, drawn, _each(shown), opened=not parts))
    text = (
        "The main metric of each benchmark on the same test rows: the first run minus each other one, with 95 % "
        "intervals. p is from a paired test over test rows, corrected for the pairs of runs (Holm). Significant "
        "differences are coloured. The lists have every difference in settings and models. Detectable is the smallest "
        "difference that a sample of this size detects with power 0.8."
    )
    return join([element("p", text, class_="soft"), *parts]) if parts else ""


def _published(group: Group) -> str:
    """Compare runs with the published figures, or say why not."""
    parts: list[str] = []
    refused: dict[str, dict[str, list[str]]] = {}
    for name, benchmark, result in _each_result(group):
        compared = compare_with_published(result) if benchmark in HEADLINE else ()
        if usable := [figure for figure in compared if figure.reason is None]:
            title = f"{benchmark}, {name}: comparison with the published figures"
            parts.append(fold(title, printed(display_published(usable), title)))
        for reason in {figure.reason: None for figure in compared if figure.reason is not None}:
            refused.setdefault(reason, {}).setdefault(name, []).append(benchmark)
    for reason, runs in refused.items():
        listed = ", ".join(f"{name} ({_listed(own, 'benchmarks')})" for name, own in runs.items())
        text = f"Not comparable with the published figures: {listed}: {reason}."
        parts.append(element("p", text, class_="soft"))
    return join(parts)


def _scores(name: str, runs: ResultsByRun) -> str:
    """Return what the results of a run print."""
    return join(printed(run.display_blocks(), f"{key}: all scores of {name}") for key, run in runs.items())


_BIAS = (benchmark_names.CONTEXTUAL_BIAS, benchmark_names.DOMAIN_BIAS, benchmark_names.POSTERIOR_BIAS)
_SECTIONS: dict[str, dict[str, ReportPart]] = {
    "How accurate?": {
        "Accuracy by data set": heat_map(benchmark_names.NORMAL),
        "Number of demonstrations": figure_part(benchmark_names.NORMAL, charts.shots_chart, optional=True),
        "Accuracy with intervals and baselines": figure_part(benchmark_names.NORMAL, charts.accuracy_by_dataset),
        "Confusion matrices": run_part([benchmark_names.NORMAL], _confusions),
        "Experiments of LongICL": figure_part(benchmark_names.LONG_ICL, charts.experiment_chart, optional=True),
        "HELMET by length": figure_part(benchmark_names.HELMET, charts.experiment_chart, optional=True),
        "LongICL by data set": heat_map(benchmark_names.LONG_ICL),
        "LongICL by rounds": figure_part(benchmark_names.LONG_ICL, charts.rounds_chart, optional=True),
    },
    "How calibrated?": {
        "Reliability": figure_part(benchmark_names.NORMAL, charts.reliability_diagrams),
        "Calibration error by data set": heat_map(benchmark_names.NORMAL, "expected_calibration_error_1"),
        "Reliability by data set": run_part(
            [benchmark_names.NORMAL],
            lambda name, runs: _figure(charts.reliability_diagrams, runs[benchmark_names.NORMAL], name),
        ),
    },
    "How biased?": {
        "Contextual bias by data set": heat_map(benchmark_names.CONTEXTUAL_BIAS),
        "Domain bias by data set": heat_map(benchmark_names.DOMAIN_BIAS),
        "Posterior bias by data set": heat_map(benchmark_names.POSTERIOR_BIAS),
        "Preferred labels": run_part(_BIAS, lambda name, runs: _figure(charts.bias_distributions, runs, name)),
    },
    "How robust?": {
        "Slope against label noise (GLER) by data set": heat_map(benchmark_names.GLER),
        "Accuracy against label noise": figure_part(benchmark_names.GLER, charts.noise_lines),
        "Accuracy over demonstrations and templates": figure_part(
            benchmark_names.GENERALISATION, charts.variance_chart
        ),
        "Consistency over templates by data set": heat_map(benchmark_names.TEMPLATE_SENSITIVITY),
        "Consistency over demonstrations by data set": heat_map(benchmark_names.DEMONSTRATION_SENSITIVITY),
    },
    "What changed between two runs?": {"": _changed},
    "Published figures": {
        "Among the published models": figure_part(benchmark_names.NORMAL, charts.model_size_chart, optional=True),
        "": _published,
    },
    "All scores": {"": lambda group: run_part(list(group), _scores)(group)},
}
"""The parts of each section by their titles, under which they are folded; a part without a title is not."""


def sections(benchmarks: Group) -> Iterator[Section]:
    """Yield the sections of the benchmarks; results that are not comparable are in separate tables and figures.

    Args:
        benchmarks: All results.
    """
    groups = comparable_groups(benchmarks)
    several = len(groups) > 1
    why = "These runs are not comparable with each other: data sets, limit, metrics or options differ. Each group has "
    text = [element("p", f"{why}a leaderboard of its own.", class_="soft")] if several else []
    yield Section("leaderboard", "Leaderboard", join([*text, *map(leaderboard, groups)]))
    for title, parts in _SECTIONS.items():
        shown: list[str] = []
        for group in groups:
            made = {name: content for name, make in parts.items() if (content := make(group))}
            few = len(run_names(group)) <= _FEW_RUNS
            shown += [element("h3", group_title(group))] if several and made else []
            for number, (name, content) in enumerate(made.items()):
                shown.append(fold(name, content, opened=few and not number) if name else content)
        if shown:
            yield Section(title.split()[1].strip("?"), title, join(shown))


def _provenance(benchmarks: Group) -> Section:
    """Return counts of queries, failures, models and environments."""
    counts: list[list[str]] = []
    failures: Counter[tuple[str, ...]] = Counter()
    environments: dict[str, str] = {}
    models: list[list[str]] = []
    for name, benchmark, result in _each_result(benchmarks):
        own, seconds = list(result.details.values()), result.timing.get("seconds")
        sums = [sum(getattr(part, key) for part in own) for key in ("asked", "distinct", "scored", "failed")]
        shown = Missing("not recorded") if seconds is None else f"{seconds:.1f}"
        counts.append([name, benchmark, *map(str, sums), shown])
        environments[name] = ", ".join(f"{key} {value}" for key, value in result.environment.items())
        for dataset, details in result.details.items():
            failures.update((name, benchmark, dataset, query.reason) for query in details.failures)
        method = {"method": result.provenance.method} if result.provenance.method else {}
        for model in result.provenance.predictors:
            how = ", ".join(f"{key} {value}" for key, value in {**method, **model.how}.items()) or "default"
            row = [name, model.label, how, _listed(model.datasets, "data sets"), model.started, model.finished]
            row += map(str, (model.computed, model.reused, model.retried))
            models += [] if row in models else [row]

    def part(title: str, head: str, rows: Sequence[Sequence[str]], words: Sequence[int]) -> Markup:
        return fold(title, table(title, head.split(", "), rows, words=words)) if rows else Markup("")

    failed = [[*where, str(number)] for where, number in failures.most_common(_MOST_FAILURES)]
    head = "run, model, settings, data sets, from (UTC), to (UTC), computed, reused, retried"
    parts = [
        part("Queries", "run, benchmark, queries, distinct, scored, failed, seconds", counts, (1,)),
        part("Failed queries, by reason", "run, benchmark, data set, reason, queries", failed, (1, 2, 3)),
        part("Models", head, models, (1, 2, 3, 4, 5)),
        fold("Environments", items(f"{name}: {text}" for name, text in environments.items())),
    ]
    return Section("runs", "Runs", join(parts))


def _warnings(benchmarks: Group) -> Iterator[Markup]:
    """Yield what a reader must know before the scores; warnings of the runs are listed once, with their runs."""
    every = list(_each_result(benchmarks))
    incomplete = [f"{name}, {benchmark}" for name, benchmark, result in every if not result.complete]
    early = [f"{name}, {benchmark}" for name, benchmark, result in every if result.stopping is not None]
    kinds = {"PARTIAL, failed queries": incomplete, "STOPPED EARLY, do not compare with full runs": early}
    yield from (element("p", f"{kind}: {'; '.join(own)}.", class_="warn") for kind, own in kinds.items() if own)
    runs: dict[str, dict[str, None]] = {}
    for name, _, result in every:
        for warning in result.warnings:
            runs.setdefault(warning, {})[name] = None
    if runs:
        listed = items(join([element("strong", ", ".join(names)), f": {text}"]) for text, names in runs.items())
        yield fold(f"Warnings: {len(runs)}", listed)


# -- single queries: a list with filters, which a script fills from data in the page. The data are JSON in ASCII without
# ``<``, ``>`` and ``&``, and the script writes them as text only, so texts of data sets cannot become markup. Texts are
# hidden until the reader chooses to see them: some data sets contain offensive ones.

_FAILED, _UNPARSED = -2, -3
_INTRODUCTION = (
    "Every query of the runs, with its predictions. Prompts are written again from the data, and shown only if they "
    "have the digests of the run. Some data sets contain offensive texts, so all texts are hidden until you choose to "
    "see them. The address of this page follows the filters and the selected query: copy it as a link."
)


def query_section(results: Mapping[str, Result | ResultGroup], prompts_of: Prompts) -> Section:
    """Return the view of all queries, for :func:`write_report`.

    Args:
        results: Results, or groups of results, by the name of their run.
        prompts_of: Returns the prompts of a result.

    Raises:
        ArgumentError: A run has two results of one benchmark.
    """
    benchmarks = by_benchmark(results)
    names = run_names(benchmarks)
    conditions, parts, prompts = _numbers(), _numbers(), _numbers()
    sets: dict[tuple[object, ...], dict[str, Any]] = {}
    known: dict[tuple[object, ...], Mapping[str, Sequence[tuple[str, ...]] | str]] = {}
    for name, benchmark, result in _each_result(benchmarks):
        mark: tuple[object, ...] = (benchmark, *result.details)  # equal digests: equal prompts, in this order
        for details in result.details.values():
            mark += (details.query_digests, *((record.rows, record.truth) for record in details.conditions))
        if any(isinstance(texts, str) for texts in known.get(mark, {"": ""}).values()):
            known[mark] = prompts_of(result)  # not written yet, or not from the other result
        for dataset, details in result.details.items():
            if not details.conditions:
                continue
            labels, written = labels_of(details), known[mark].get(dataset, "the benchmark has no such data set")
            key = (benchmark, dataset, labels, details.data)
            if key not in sets:
                copy = sum(other[:2] == key[:2] for other in sets)
                own = {"benchmark": benchmark, "dataset": dataset, "labels": labels, "copy": copy}
                sets[key] = {**own, "queries": _numbers(), "runs": {}}
            why, texts = (written, iter(())) if isinstance(written, str) else ("", iter(written))
            queries: dict[int, tuple[object, ...]] = {}
            sets[key]["runs"][names.index(name)] = {"missing": why, "queries": queries}
            lost = {(query.condition, query.query): (_FAILED, query.reason) for query in details.failures}
            lost |= {(query.condition, query.query): (_UNPARSED, query.reason) for query in details.unparsed}
            for record in details.conditions:
                # Empty and random queries have the label of a test row, which is not theirs.
                truths = (
                    [-1] * len(record.truth)
                    if benchmark in (benchmark_names.CONTEXTUAL_BIAS, benchmark_names.DOMAIN_BIAS)
                    else record.truth
                )
                columns = (truths, record.predictions, _probabilities(record, len(labels)))
                rows = enumerate(zip(query_positions(record.rows), *columns, strict=True))
                for number, (row, truth, label, scores) in rows:
                    query = (conditions[record.name], *row, truth)
                    place = sets[key]["queries"][query]
                    written_parts = tuple(parts[text] for text in next(texts, ()))
                    state = lost.get((record.name, number), (_FAILED if label is None else label, ""))
                    queries[place] = (*state, scores, prompts[written_parts] if written_parts else -1)
    values = {
        "runs": list(map(valid_unicode, names)),
        "conditions": list(conditions),
        "sets": [{**own, "queries": list(own["queries"])} for own in sets.values()],
        "parts": list(parts),
        "prompts": list(prompts),
    }
    text = json.dumps(values, separators=(",", ":"), allow_nan=False)
    for letter in "<>&":
        text = text.replace(letter, f"\\u{ord(letter):04x}")
    shown = [element("p", _INTRODUCTION, class_="soft"), element("div", id="query-view")]
    shown.append(element("noscript", element("p", "This part of the page needs JavaScript.")))
    shown.append(element("script", Markup(text), type="application/json", id="query-data"))
    return Section("queries", "Queries", join(shown), "queries")


def _numbers() -> defaultdict[Any, int]:
    """Return a dictionary that numbers keys in the order in which they are looked up."""
    return defaultdict(count().__next__)


def _probabilities(record: ConditionRecord, width: int) -> list[list[int] | None]:
    """Return label probabilities in units of 0.0001; ``None`` for queries without them."""
    try:
        rows = record.probabilities(width)
    except SchemaError:  # damaged scores
        rows = [None] * len(record.predictions)
    return [None if row is None else [round(10000 * value) for value in row] for row in rows]


# -- the page


def _policy(scripts: Sequence[str]) -> str:
    """Return a content security policy that allows only the scripts of the page."""
    digests = (base64.b64encode(hashlib.sha256(script.encode()).digest()).decode() for script in scripts)
    allowed = " ".join(f"'sha256-{digest}'" for digest in digests)
    style = "style-src 'unsafe-inline'"  # the style element, and widths of figures
    return f"default-src 'none'; {style}; script-src {allowed}; base-uri 'none'; form-action 'none'"


def report_html(
    results: Mapping[str, Result | ResultGroup],
    title: str = "StaICC report",
    more: Section | None = None,
    *,
    summary: bool = False,
) -> str:
    """Return a report of saved results as an HTML document.

    Args:
        results: Results, or groups of results, by the name of their run.
        title: Its title.
        more: A section to add after the leaderboard, such as
            :func:`query_section`.
        summary: Whether to write the leaderboards only, without figures and provenance.

    Returns:
        The document.

    Raises:
        ArgumentError: There are no results, or a run has two of one benchmark.
    """
    if not results:
        raise ArgumentError("a report needs at least one result")
    benchmarks = by_benchmark(results)
    board, *others = sections(benchmarks) if not summary else [next(sections(benchmarks))]
    built = [board, *([more] if more else []), *others, *([] if summary else [_provenance(benchmarks)])]
    assets = [section.assets for section in built if section.assets]
    scripts = [resource(f"{name}.js") for name in ("page", *assets)]
    style = "".join(resource(f"{name}.css") for name in ("style", *assets))
    head = [
        element("meta", charset="utf-8"),
        element("meta", http_equiv="Content-Security-Policy", content=_policy(scripts)),
        element("meta", name="viewport", content="width=device-width, initial-scale=1"),
        element("meta", name="color-scheme", content="light dark"),
        element("title", title),
        element("style", Markup(style + STYLE)),
    ]
    n_runs = len(run_names(benchmarks))
    about = f"{n_runs} run{'s' * (n_runs > 1)}. Benchmarks: {', '.join(benchmarks)}. StaICC {__version__}."
    links = items(element("a", section.title, href=f"#{section.key}") for section in built)
    bar = element("div", element("nav", links, aria_label="Sections"), element("div", class_="tools"), class_="bar")
    folds = {section.key: fold(element("h2", section.title), section.content, opened=True) for section in built}
    body = [
        element("header", element("h1", title), element("p", about, class_="lead"), bar),
        element("main", *_warnings(benchmarks), *(element("section", shown, id=key) for key, shown in folds.items())),
        *(element("script", Markup(script)) for script in scripts),
    ]
    return f"<!DOCTYPE html>\n{element('html', element('head', *head), element('body', *body), lang='en')}\n"


def write_report(
    results: Mapping[str, Result | ResultGroup] | Result | ResultGroup,
    path: str | os.PathLike[str],
    title: str = "StaICC report",
    more: Section | None = None,
) -> int:
    """Write a report of saved results, atomically.

    Args:
        results: A result, a group of results, or several by the name of their run.
        path: The file.
        title: Its title.
        more: A section to add after the leaderboard, such as
            :func:`query_section`.

    Returns:
        Its size in bytes.

    Raises:
        ArgumentError: There are no results, or a run has two of one benchmark.
        OSError: The file cannot be written.
    """
    if isinstance(results, (Result, ResultGroup)):
        results = {"run": results}
    document = report_html(results, title, more).encode("utf-8")
    write_output(path, [document])
    return len(document)

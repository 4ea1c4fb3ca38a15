"""The page: saved results as one self-contained HTML file.

A leaderboard has runs as rows and the headline scores as columns, one table for each group of comparable runs. Two
runs are comparable if they have the same data sets, test rows, metrics and benchmark options. Model, method, k,
templates and label scoring may differ: they are what a leaderboard compares. The best run of a column is compared with
every other one by the paired test of :mod:`StaICC.results.comparison`, and each run has a verdict. Then follows one
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
import os
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import groupby
from typing import Any, NamedTuple

import StaICC.results.report.figures as charts
from StaICC.datasets.storage import write_output
from StaICC.errors import ArgumentError, SchemaError, StaICCError
from StaICC.metrics.paired_tests import LEVEL
from StaICC.metrics.registry import COLUMNS, HEADLINE, Column, score_record
from StaICC.results.comparison import (
    Best,
    Rank,
    Tied,
    Untested,
    Verdict,
    Worse,
    align,
    compare_runs,
    describe,
    latex_cell,
    latex_table,
    metrics_of,
    p_text,
    standings,
    word_of,
)
from StaICC.results.provenance import ConditionRecord, DatasetDetails, query_keys
from StaICC.results.published import PublishedComparison, compare_with_published, published_cells
from StaICC.results.ranking import rank_runs
from StaICC.results.report.figures import (
    Runs,
    Score,
    accuracy_of,
    baselines_of,
    dataset_names,
    labels_of,
    scores_of,
)
from StaICC.results.report.html import Markup, Missing, breakable, element, fold, join, resource, table, void
from StaICC.results.report.plots import STYLE, Figure, inline, row_axis
from StaICC.results.result import Prompts, Result, ResultGroup, by_benchmark, remarks, result_rows
from StaICC.safe_text import json_escaped
from StaICC.version import __version__

Group = Mapping[str, Runs]
"""Results by benchmark and run."""

_SAME = ("datasets", "data", "split", "limit", "rows", "metrics", "options", "stopping", "unparsed")
"""Fields of the signature that comparable runs share."""
_HIDDEN = {*_SAME, "benchmark", "prompts", "method", "failed"}
_LATEX_STYLES = {Best: r"$\mathbf{%s}$", Tied: r"$\underline{%s}$", Untested: "$%s^{*}$"}
_SHADES = 11
_BOARD = "sortable board"


def run_names(group: Group) -> list[str]:
    """Return the names of all runs, each once.

    Args:
        group: The results.
    """
    return list(dict.fromkeys(name for runs in group.values() for name in runs))


def _comparable_by(result: Result) -> tuple[object, ...]:
    fields = result.signature.fields
    return (*sorted(result.divided), *(fields.get(name) for name in _SAME))


def comparable_groups(benchmarks: Group) -> list[dict[str, dict[str, Result]]]:
    """Split runs into groups of comparable runs.

    A run joins the first group that has one of its benchmarks and agrees in all that both have.

    Args:
        benchmarks: All results.

    Returns:
        The groups.
    """
    groups: list[tuple[dict[str, tuple[object, ...]], dict[str, dict[str, Result]]]] = []
    for name in run_names(benchmarks):
        own = {benchmark: runs[name] for benchmark, runs in benchmarks.items() if name in runs}
        keys = {benchmark: _comparable_by(result) for benchmark, result in own.items()}
        for group in groups:
            shared = group[0].keys() & keys.keys()
            if shared and all(group[0][benchmark] == keys[benchmark] for benchmark in shared):
                break
        else:
            groups.append(group := ({}, {}))
        group[0].update(keys)
        for benchmark, result in own.items():
            group[1].setdefault(benchmark, {})[name] = result
    return [members for _, members in groups]


def group_title(group: Group) -> str:
    """Return what the runs of a group share, in a few words.

    Args:
        group: Comparable results.
    """
    result = next(iter(next(iter(group.values())).values()))
    sets = list(result.divided)
    parts = [", ".join(sets) if len(sets) < 4 else f"{len(sets)} data sets"]
    parts += [f"{name} {value}" for name in ("limit", "metrics") if (value := result.signature.fields.get(name))]
    parts += ["stopped early"] if result.stopping is not None else []
    return ", ".join(part for part in parts if part != "metrics standard")


def _direction(column: Column, runs: Runs) -> bool | None:
    """Return whether larger values of a column are better; ``None`` if that is not known."""
    stated = {
        score_record(column.benchmark, column.key, run.higher_is_better).higher_is_better
        for run in runs.values()
        if column in COLUMNS or column.key in run.higher_is_better
    }
    return stated.pop() if len(stated) == 1 else None


def _words(better: bool | None) -> str:
    return "" if better is None else f"{'higher' if better else 'lower'} is better"


def _above_chance(result: Result) -> list[bool]:
    """Return for each data set of a run whether the interval of its accuracy is above the random baseline."""
    scores = scores_of(result)
    known = (
        (scores.get((dataset, "accuracy"), Score()).interval, baselines_of({"": result}, dataset))
        for dataset in result.divided
    )
    return [interval.low > base.max_random for interval, base in known if interval is not None and base is not None]


def _differing_settings(every: Sequence[Result]) -> list[str]:
    """Return the settings in which results of one benchmark differ."""
    names = dict.fromkeys(name for result in every for name in result.signature.fields if name not in _HIDDEN)
    differing = []
    for name in names:
        by_benchmark: dict[str, set[str | None]] = {}
        for result in every:
            by_benchmark.setdefault(result.benchmark, set()).add(result.signature.fields.get(name))
        if any(len(values) > 1 for values in by_benchmark.values()):
            differing.append(name)
    return differing


class _Headline(NamedTuple):
    """A headline score of comparable runs."""

    column: Column
    better: bool | None
    """Whether larger values are better; ``None`` if that is not known."""
    scores: dict[str, Score]
    """The means by run; without the runs that lack the benchmark."""
    verdicts: dict[str, Verdict]
    """Of each run that has a value."""

    @property
    def key(self) -> str:
        """The key of the means in the scores of a run."""
        return charts.mean_key(self.column.benchmark, self.column.key)

    @property
    def order(self) -> list[str]:
        """The runs that have a value, the best first."""
        values = {name: score.value for name, score in self.scores.items() if score.value is not None}
        sign = 1 if self.better is False else -1
        return sorted(values, key=lambda name: (not isinstance(self.verdicts[name], Best), sign * values[name]))


def _headlines(group: Group) -> Iterator[_Headline]:
    columns = [column for column in COLUMNS if column.benchmark in group]
    for benchmark, runs in group.items():
        result = next(iter(runs.values()))
        keys = [key for key in metrics_of(result) if key in result.higher_is_better]
        if benchmark not in HEADLINE:  # benchmarks from other packages: their first score
            keys = list(dict.fromkeys([*metrics_of(result)[:1], *keys]))
        columns += [Column(benchmark, key, f"{benchmark}: {key}") for key in keys]
    every = {(benchmark, name): scores_of(result) for name, benchmark, result in _each_result(group)}
    for column in columns:
        runs = group[column.benchmark]
        if any(column.key in result.averaged for result in runs.values()):
            key = charts.mean_key(column.benchmark, column.key)
            scores = {name: every[column.benchmark, name].get((None, key), Score()) for name in runs}
            better = _direction(column, runs)
            known = {} if better is None else standings(runs, column.key, better)
            verdicts = {
                name: known.get(name) or _alone(runs[name], better)
                for name, score in scores.items()
                if score.value is not None
            }
            yield _Headline(column, better, scores, verdicts)


def _alone(result: Result, better: bool | None) -> Verdict:
    """Return the verdict about a run that no other one is compared with."""
    if better is None:
        return Untested("it is not recorded which values are better")
    if not result.complete or result.excluded:
        return Untested("some of its queries have no prediction")
    return Best()


def latex_scores(results: Mapping[str, Result | ResultGroup]) -> str:
    """Return the headline scores as LaTeX in the layout of the StaICC paper: scores as rows, runs as columns.

    The best run of a row is bold, runs that are tied with it are underlined, and runs that could not be tested against
    it have an asterisk. There is a table for each group of comparable runs, followed by the signatures as comments.

    Args:
        results: Results, or groups of results, by the name of their run.

    Raises:
        ArgumentError: A run has two results of one benchmark.
    """
    arrows = {True: r" $\uparrow$", False: r" $\downarrow$", None: ""}
    blocks = []
    for group in comparable_groups(by_benchmark(results)):
        names, (headlines, _) = run_names(group), _ranked(group)
        rows = []
        for column, better, scores, verdicts in headlines:
            cells = [latex_cell(column.title) + arrows[better]]
            for name in names:
                value = scores.get(name, Score()).value
                ranked = len(scores) > 1 and better is not None
                style = _LATEX_STYLES.get(type(verdicts[name]), "$%s$") if ranked and value is not None else "$%s$"
                cells.append("--" if value is None else style % f"{value:.4f}")
            rows.append(cells)
        caption = [group_title(group), "bold: best", "underlined: not shown to be worse than the best (Holm, 0.05)"]
        caption += ["*: not tested against the best"] if any("^{*}" in cell for row in rows for cell in row) else []
        caption += ["--: not run, or undefined"] if any("--" in row for row in rows) else []
        signatures = dict.fromkeys(f"% {result.signature}" for runs in group.values() for result in runs.values())
        blocks.append("\n".join([latex_table(caption, ["", *names], rows) + "\\end{table}", *signatures]))
    return "\n\n".join(blocks)


def _described(name: str, group: Group, differing: Sequence[str]) -> Markup:
    """Return a run with its model, its method, the settings in which the runs of its group differ, and its date."""
    own = [runs[name] for runs in group.values() if name in runs]
    settings = ", ".join(
        f"{setting} {'/'.join(dict.fromkeys(result.signature.fields.get(setting) or 'default' for result in own))}"
        for setting in differing
    )
    failed = sum(details.failed for result in own for details in result.details.values())
    predictors = (predictor for result in own for predictor in result.provenance.predictors)
    dates = [predictor.started[:10] for predictor in predictors if predictor.started]
    facts = "".join(f"{fact}, " for fact in (own[0].model, own[0].method, settings) if fact)
    date = element("span", max(dates, default="date not recorded"), class_="date")
    about = element("small", element("bdi", facts, date))
    partial = element("small", f"PARTIAL: {failed} queries failed", class_="partial") if failed else ""
    return join([element("bdi", name), about, partial])


def _listed_runs(names: Sequence[str]) -> str:
    return ", ".join(names) if len(names) < 4 else f"{len(names)} runs"


def _difference(headline: _Headline, runs: Runs, first: str, second: str) -> str:
    """Return by how much a run leads, with the interval, and what the test says."""
    lead = abs((headline.scores[first].value or 0.0) - (headline.scores[second].value or 0.0))
    verdict, span = headline.verdicts[second], ""
    with contextlib.suppress(StaICCError):  # the verdict says why
        pair = compare_runs({first: runs[first], second: runs[second]}, headline.column.key).comparisons[0].overall
        if pair.interval is not None and abs(abs(pair.difference) - lead) < 1e-6:
            ends = (pair.interval.low, pair.interval.high)
            low, high = ends if pair.difference >= 0 else (-ends[1], -ends[0])
            span = f" (95 % interval {low:.3f} .. {high:.3f})"
    if isinstance(verdict, Untested):
        meaning = f"not tested: {verdict.reason}"
    elif isinstance(verdict, Worse):
        meaning = f"a significant difference ({p_text(verdict.p_value)})"
    elif isinstance(verdict, Tied):
        meaning = f"not a significant difference ({p_text(verdict.p_value)})"
    else:
        meaning = "the same value"
    return f"by {lead:.4f}{span} before {second}: {meaning}"


def _exceeds(headline: _Headline, name: str, leader: str) -> bool:
    """Return whether a run that is not ranked has a better value than the leader."""
    ahead = (headline.scores[name].value or 0.0) - (headline.scores[leader].value or 0.0)
    return ahead < 0 if headline.better is False else ahead > 0


def _summary(headline: _Headline, group: Group) -> Markup:
    """Return in a sentence which run leads, by how much, and whether that was tested."""
    title, runs, order = headline.column.title, group[headline.column.benchmark], headline.order
    if not order:
        reasons = dict.fromkeys(score.reason for score in headline.scores.values())
        return element("p", f"No run has a value of {title}: {'; '.join(reasons)}.", class_="lead")
    leader, others = order[0], order[1:]
    best = [name for name in order if isinstance(headline.verdicts[name], Best)]
    score, sets = headline.scores[leader], list(runs[leader].divided)
    where = f"mean of {len(sets)} data sets" if len(sets) > 1 else sets[0]
    value = f"{title} {score.value:.4f}"
    if score.interval is not None:
        value += f" ({100 * score.interval.level:g} % interval {score.interval.low:.3f} .. {score.interval.high:.3f})"
    parts: list[str] = [element("strong", breakable(leader))]
    if not others:
        parts.append(f": {value}, {where}.")
    elif headline.better is None:
        parts.append(f": {value}, {where}. {describe(headline.verdicts[leader]).capitalize()}.")
    elif len(best) > 1:
        parts.append(f" and {_listed_runs(best[1:])} share the best {value}, {where}.")
    else:
        lower = [name for name in others if not _exceeds(headline, name, leader)]
        parts.append(f" leads with {value}, {where}")
        parts += [", ", breakable(_difference(headline, runs, leader, lower[0]))] if lower else []
        parts.append(".")
    tied = [name for name in others if isinstance(headline.verdicts[name], Tied)]
    if len(tied) > 1:
        parts.append(f" {len(tied)} runs are not shown to be worse.")
    unranked = [name for name in others if isinstance(headline.verdicts[name], Untested)]
    if unranked and len(others) > 1:
        parts.append(f" Not tested: {_listed_runs(unranked)}.")
    if headline.column == COLUMNS[0] and (above := _above_chance(runs[leader])):
        parts.append(f" {'It' if len(best) < 2 else leader} is above chance on {sum(above)} of {len(above)} data sets.")
    return element("p", *parts, class_="answer")


def _forest(headlines: Sequence[_Headline], names: Sequence[str], group: Group) -> Markup:
    """Return the means of the main score of each benchmark; the rows are those of the leaderboard."""
    panels, of_all = [], f"all {len(names)} runs and " if len(names) > _MOST_ROWS else ""
    names = names[:_MOST_ROWS]
    for headline in {headline.column.benchmark: headline for headline in reversed(headlines)}.values():
        rows = []
        for name in names:
            verdict = headline.verdicts.get(name, Untested(""))
            own = Score() if name not in headline.scores else headline.scores[name]
            marked = isinstance(verdict, Best | Tied) or len(names) == 1
            rows.append(charts.ForestRow(name, own, 0 if marked else None))
        panels.append(charts.forest_panel(headline.column.title, rows, width=140))
    panels.reverse()
    panels[0] = replace(panels[0], width=330, y=row_axis(names, 25))
    better = "Blue: the best run and those that are not shown to be worse. " if len(names) > 1 else ""
    caption = f"Means over the data sets, with intervals. {better}The table below has {of_all}the numbers."
    figure = Figure("Overview", caption, panels, [], [])
    return element("figure", Markup(inline(figure)), element("figcaption", caption), class_="overview")


def _ranks(headline: _Headline, group: Group) -> dict[str, Rank]:
    """Return the ranks of three runs or more by the values that the leaderboard shows; none if they are others."""
    shown = {name: score.value for name, score in headline.scores.items() if score.value is not None}
    if len(shown) < 3 or headline.better is None:
        return {}
    runs = group[headline.column.benchmark]
    try:
        ranks = rank_runs(align({name: runs[name] for name in shown}, headline.column.key))
    except StaICCError:
        return {}
    same = len(ranks) > 2 and all(abs(shown[place.run] - place.value) <= 1e-6 for place in ranks)
    return {place.run: place for place in ranks} if same else {}


def _ranked(group: Group) -> tuple[list[_Headline], dict[str, Rank]]:
    """Return the headlines, the first one with the verdicts of the ranks, and the ranks."""
    headlines = list(_headlines(group))
    ranks = _ranks(headlines[0], group) if headlines else {}
    if ranks:
        verdicts = headlines[0].verdicts | {name: rank.verdict for name, rank in ranks.items()}
        headlines[0] = headlines[0]._replace(verdicts=verdicts)
    return headlines, ranks


def leaderboard(group: Group) -> Markup:
    """Return who leads, a forest plot and the leaderboard of comparable runs, the best in the first score first.

    Args:
        group: Comparable results.
    """
    (headlines, ranks), names = _ranked(group), run_names(group)
    if headlines:
        ranked = headlines[0].order
        names = [*ranked, *(name for name in names if name not in ranked)]
    differing = _differing_settings([result for runs in group.values() for result in runs.values()])
    rows: dict[str, list[str]] = {name: [_described(name, group, differing)] for name in names}
    heads, notes, levels = [], [], set()
    for headline in headlines:
        column, better, scores, verdicts = headline
        heads.append(join([column.title, " ", element("small", _words(better))]))
        untested: dict[str, list[str]] = {}
        for name in names:
            value, interval, reason = scores.get(name, Score(reason=""))
            if value is None:
                missing = f"{column.title}: {reason}" if name in scores else f"{column.benchmark} was not run"
                rows[name].append(Missing(missing))
                continue
            verdict = verdicts[name]
            number = f"{value:.4f}"
            parts: list[str] = [element("strong", number) if isinstance(verdict, Best | Tied) else number]
            if len(scores) > 1 and better is not None:
                parts += [" ", element("span", word_of(verdict), class_=word_of(verdict), title=describe(verdict))]
                if isinstance(verdict, Untested):
                    untested.setdefault(verdict.reason, []).append(name)
            if interval is not None:
                levels.add(f"{100 * interval.level:g} %")
                parts.append(element("small", f"{interval.low:.3f} .. {interval.high:.3f}"))
            if column == headlines[0].column and name in ranks:
                parts.append(element("small", f"rank {ranks[name].interval_cell}", class_="rank"))
            if column == COLUMNS[0] and (above := _above_chance(group[column.benchmark][name])):
                parts.append(element("small", f"{sum(above)} of {len(above)} above chance"))
            rows[name].append(join(parts))
        notes += [f"{column.title}: untested: {', '.join(runs)} ({reason})." for reason, runs in untested.items()]
    head = ["run: model, method, settings, date", *heads]
    shown = table(f"Leaderboard: {group_title(group)}", head, list(rows.values()), classes=_BOARD)
    lines = []
    if len(names) > 1:
        lines.append(
            "Best: the best value of a column. Worse: shown to be worse by the paired test over test rows (that of the "
            f"compare command, Holm's correction for the pairs with the best run, level {LEVEL:g}). Tied: not shown. "
            "Untested: there is no valid test. Partial runs are not ranked."
        )
    if ranks:
        lines.append("Rank: all intervals of ranks together contain the true ranks with probability 0.95.")
    lines += [f"Below each score is its {' or '.join(sorted(levels))} interval."] if levels else []
    if "Normal" in group and levels:
        lines.append("Above chance: data sets whose accuracy has an interval above the random baseline.")
    first = [_summary(headlines[0], group), _forest(headlines, names, group)] if headlines else []
    explained = fold("How to read the table", element("p", " ".join(lines)), _list(notes)) if lines or notes else ""
    return join([*first, shown, explained])


def heat_map(benchmark: str, runs: Runs, title: str, metric: str, baselines: bool = False) -> Markup:
    """Return a score of each run on each data set as a shaded table.

    Args:
        benchmark: Name of the benchmark.
        runs: Comparable results of it, by the name of their run.
        title: Its caption.
        metric: The key of the score in the scores of a data set, nested keys joined by dots.
        baselines: Whether to add the baselines of the accuracy.
    """
    datasets = dataset_names(runs)
    places: list[str | None] = [*datasets, *([None] if len(datasets) > 1 else [])]
    scores = {name: scores_of(result) for name, result in runs.items()}
    cells = [[own.get((place, metric), Score(reason="not evaluated")) for place in places] for own in scores.values()]
    known = [score.value for row in cells for score in row if score.value is not None]
    if not known:
        return Markup("")
    low, span = min(known), max(known) - min(known)

    def shaded(score: Score) -> str:
        if score.value is None:
            return score.cell
        shade = round((_SHADES - 1) * (score.value - low) / span) if span else 0
        return element("td", score.cell, class_=f"h{shade}")

    rows = [[name, *map(shaded, row)] for name, row in zip(runs, cells, strict=True)]
    foot = []
    for label, attribute in (("random baseline", "max_random"), ("majority baseline", "majority")) if baselines else ():
        values = [getattr(baselines_of(runs, dataset), attribute, None) for dataset in datasets]
        known = [value for value in values if value is not None]
        mean = sum(known) / len(known) if len(known) == len(values) else None
        foot.append([label, *(Score(value).cell for value in [*values, mean][: len(places)])])
    direction = _words(score_record(benchmark, metric.removeprefix("sensitivity.")).higher_is_better)
    caption = f"{title} ({direction}; a darker cell is a higher value)"
    return table(caption, ["run", *(place or "mean" for place in places)], rows, foot, classes="sortable heat")


def _where(placed: PublishedComparison) -> str:
    title = score_record(placed.benchmark, placed.metric).title
    return title if placed.dataset is None else f"{placed.dataset}, {placed.metric}"


def _listed(which: Iterable[PublishedComparison]) -> str:
    """Return the names of figures, grouped by data set."""
    parts: list[str] = []
    for dataset, group in groupby(which, lambda comparison: comparison.dataset):
        own = list(group)
        rounds = " ".join(comparison.metric for comparison in own)
        parts += map(_where, own) if dataset is None else [f"{dataset} {rounds}"]
    return ", ".join(parts)


def _list(items: Iterable[str]) -> Markup:
    return element("ul", *(element("li", item) for item in items))


def published_figures(runs: Runs) -> Markup:
    """Return the comparison of the runs of one benchmark with the published figures, or the reasons against it.

    Args:
        runs: Results of one benchmark by the name of their run.
    """
    rows: list[list[str]] = []
    cautions: dict[str, None] = {}
    differences: dict[str, None] = {}
    refused: dict[str, dict[str, list[PublishedComparison]]] = {}  # by reason and run
    for name, result in runs.items():
        for comparison in compare_with_published(result):
            if comparison.reason is not None:
                refused.setdefault(comparison.reason, {}).setdefault(name, []).append(comparison)
                continue
            rows.append([name, _where(comparison), *published_cells(comparison)])
            differences |= {f"{name}: {difference}": None for difference in comparison.differences}
            cautions |= {f"{_where(comparison)}: {caution}": None for caution in comparison.cautions}
    parts: list[str] = [_list(differences)] if differences else []  # before the figures
    if rows:
        head = ["run", "figure", "value", "better than", "nearest published"]
        benchmark = next(iter(runs.values())).benchmark
        parts.append(table(f"{benchmark}: comparison with the published figures", head, rows, words=(1, 4)))
    for reason, by_run in refused.items():
        listed = "; ".join(f"{name} ({_listed(which)})" for name, which in by_run.items())
        text = f"Not comparable with the published figures: {listed}: {reason}."
        parts.append(element("p", text, class_="soft"))
    if cautions:
        parts.append(fold("Cautions", _list(cautions), class_="short"))
    return join(parts)


_BIAS = ("Contextual_bias", "Domain_bias", "Post_bias")
_VARIED = {
    "Template_sens": "Consistency over nine templates",
    "Demo_sens": "Consistency over eight lists of demonstrations",
}
_MOST_LABELS = 12
"""Of larger label spaces, only the most frequent confusions are listed."""
_MOST_ROWS = 20
_FEW_RUNS = 6
"""Of more runs, figures and tables behind the leaderboard are folded at first."""


class Section(NamedTuple):
    """A part of the page with its own heading."""

    key: str
    title: str
    content: Markup
    assets: str = ""
    """Name of the script and the style sheet that only this section needs."""


def _figure(make: Callable[..., Figure], *given: object, name: str = "") -> Markup:
    """Return a figure with its caption and its numbers; a figure without data is replaced by the reason."""
    try:
        figure = make(*given)
    except ArgumentError as error:
        return element("p", f"Not drawn{f', {name}' if name else ''}: {error}.", class_="soft")
    title = f"{figure.title}, {name}" if name else figure.title
    caption = element("figcaption", element("strong", f"{title}."), " ", figure.caption)
    numbers = table(f"{title}: numbers", figure.head, figure.rows, words=figure.words)
    return element("figure", caption, Markup(inline(figure)), fold("Numbers", numbers, class_="numbers"))


def _confusions(name: str, result: Result) -> Iterator[Markup]:
    """Yield a confusion matrix for each data set; of a large label space, its most frequent confusions."""
    colours = "Rows are true labels. Blue is correct, orange is wrong."
    yield element("p", colours + charts.confusion_note(result), class_="soft")
    for dataset, details in result.details.items():
        labels, counts = labels_of(details), charts.confusion_counts(details)
        if not counts:
            continue

        def cell(truth: int, predicted: int, queries: int, style: str = "", dataset: str = dataset) -> Markup:
            """Return a cell, with the queries that it counts for the script of the queries."""
            place = json.dumps([_utf8(name), result.benchmark, dataset, truth, predicted])
            return element("td", str(queries), class_=style or None, data_queries=json_escaped(place, only_ascii=True))

        title = f"{dataset}, {name}"
        if len(labels) > _MOST_LABELS:
            pairs = [(n, truth, label) for truth, row in enumerate(counts) for label, n in enumerate(row)]
            wrong = sorted((pair for pair in pairs if pair[0] and pair[1] != pair[2]), key=lambda pair: -pair[0])
            rows = [[labels[truth], labels[label], cell(truth, label, n)] for n, truth, label in wrong[:_MOST_ROWS]]
            yield table(f"{title}: confusions", ["true label", "predicted label", "queries"], rows, words=(1,))
            continue
        rows = []
        for truth, row in enumerate(counts):
            shades = [
                f"{'h' if truth == guess else 'e'}{round(10 * n / (sum(row) or 1))}" for guess, n in enumerate(row)
            ]
            cells = (cell(truth, guess, n, shade) for guess, (n, shade) in enumerate(zip(row, shades, strict=True)))
            rows.append([labels[truth], *cells])
        yield table(title, ["true \\ predicted", *labels], rows, classes="heat")


def _utf8(text: str) -> str:
    """Return a text that a link can contain: without lone surrogates."""
    return text.encode("utf-8", "backslashreplace").decode()


def _each(runs: Runs, title: str, make: Callable[[str, Result], Markup]) -> Markup:
    """Return one folded part for each run, folded together."""
    parts = [make(name, result) for name, result in runs.items()]
    return fold(title, *(map(fold, runs, parts) if len(runs) > 1 else parts))


def _map(shown: Markup, title: str, opened: bool = False) -> Markup:
    return fold(f"{title}, by data set", shown, opened=opened) if shown else shown


def _accurate(group: Group) -> Iterator[Markup]:
    if (runs := group.get("Normal")) is not None:
        yield heat_map("Normal", runs, "Accuracy by data set", "accuracy", baselines=True)
        if charts.shots_lines(runs):
            yield fold("Number of demonstrations", _figure(charts.shots_chart, runs))
        yield fold("Accuracy with intervals and baselines", _figure(charts.accuracy_by_dataset, runs))
        yield _each(runs, "Confusion matrices", lambda name, result: join(_confusions(name, result)))
    if (runs := group.get("LongICL")) is not None:
        if any("experiment" in scores for result in runs.values() for scores in result.divided.values()):
            yield _figure(charts.experiment_chart, runs)
            return
        yield heat_map("LongICL", runs, "LongICL, mean of rounds", "mean")
        yield _figure(charts.rounds_chart, runs)


def _calibrated(group: Group) -> Iterator[Markup]:
    if (runs := group.get("Normal")) is not None:
        yield fold("Reliability", _figure(charts.reliability_diagrams, runs), opened=len(runs) <= _FEW_RUNS)
        key = "expected_calibration_error_1"
        yield fold("Calibration error by data set", heat_map("Normal", runs, "Calibration error (ECE-1)", key))
        yield _each(
            runs,
            "Reliability by data set",
            lambda name, result: _figure(charts.reliability_diagrams, result, name=name),
        )


def _biased(group: Group) -> Iterator[Markup]:
    for benchmark in _BIAS:
        if benchmark in group:
            key = HEADLINE[benchmark]
            title = score_record(benchmark, key).title
            yield _map(
                heat_map(benchmark, group[benchmark], title, key),
                title,
                benchmark == _BIAS[0] and len(group[benchmark]) <= _FEW_RUNS,
            )

    def preferred(name: str, result: Result) -> Markup:
        own = {benchmark: group[benchmark][name] for benchmark in _BIAS if name in group.get(benchmark, {})}
        return _figure(charts.bias_distributions, own, name=name)

    runs = {name: run for key in _BIAS for name, run in group.get(key, {}).items()}
    yield _each(runs, "Preferred labels", preferred)


def _robust(group: Group) -> Iterator[Markup]:
    if (runs := group.get("GLER")) is not None:
        title = "Slope of accuracy against label noise (GLER)"
        yield _map(heat_map("GLER", runs, title, "sensitivity.accuracy"), title, len(runs) <= _FEW_RUNS)
        yield fold("Accuracy against label noise", _figure(charts.noise_lines, runs))
    if (runs := group.get("Generalisation")) is not None:
        yield fold("Accuracy over demonstrations and templates", _figure(charts.variance_chart, runs))
    for benchmark, title in _VARIED.items():
        if (runs := group.get(benchmark)) is None:
            continue
        yield _map(heat_map(benchmark, runs, title, "sensitivity.consistency"), title)
        rows = []
        for name, result in runs.items():
            scores = scores_of(result)
            for dataset, details in result.details.items():
                accuracies = [value for record in details.conditions if (value := accuracy_of(record)) is not None]
                none = "no predictions are recorded"
                ends = [Score(end(accuracies, default=None), reason=none) for end in (min, max)]
                consistency = scores.get((dataset, "sensitivity.consistency"), Score())
                rows.append([dataset, name, consistency.interval_cell, *(end.cell for end in ends)])
        head = ["data set", "run", "interval of the consistency", "lowest accuracy", "highest accuracy"]
        yield fold(f"{title}: intervals and range of accuracies", table(f"{title}: range", head, rows, words=(1,)))


def _changed(group: Group) -> Iterator[Markup]:
    """Compare every run with the first, by the main metric of each benchmark."""
    first, *names = run_names(group)
    heads: list[str] = []
    rows: dict[str, list[str]] = {name: [name] for name in names}
    details: dict[str, list[str]] = {name: [] for name in names}
    for benchmark, runs in group.items():
        try:
            compared = compare_runs(runs, reference=first)
        except StaICCError as error:
            yield element("p", f"{benchmark}: {error}.", class_="soft")
            continue
        pairs = {pair.second: pair for pair in compared.comparisons}
        heads.append(score_record(benchmark, compared.metric).title)
        for name in names:
            if (pair := pairs.get(name)) is None:
                rows[name].append(Missing("; ".join(compared.left_out) or f"{benchmark} was not run"))
                continue
            overall, span, outcome = pair.overall, pair.overall.interval, pair.overall.outcome
            small = [f"{span.low:+.3f} .. {span.high:+.3f}"] if span else []
            small.append(f"untested: {outcome.reason}" if isinstance(outcome, Untested) else p_text(outcome.holm))
            rows[name].append(join([f"{overall.difference:+.4f}", *(element("small", text) for text in small)]))
            head, lines = pair.table()
            reason = "; ".join(pair.conclusion()) or "the runs differ on too few rows"
            notes = _list([*pair.introduction(), *pair.conclusion()])
            title = f"{benchmark}: {first} (first) and {name} (second)"
            details[name].append(join([notes, _table_of(title, head, lines, len(pair.datasets), reason)]))
    if not heads:
        return
    yield table(f"{first} minus each other run", ["run", *heads], list(rows.values()), classes=_BOARD)
    text = (
        "The main metric of each benchmark on the same test rows, with its 95 % interval. p is from a paired test "
        "over test rows, corrected for the pairs of runs (Holm). The folded parts list every difference in settings "
        "and models. Detectable is the smallest difference that a sample of this size detects with power 0.8."
    )
    yield element("p", text, class_="soft")
    yield fold(
        "Differences, data set by data set", *(fold(f"{first} and {name}", *parts) for name, parts in details.items())
    )


def _table_of(
    title: str, head: Sequence[str], rows: Sequence[Sequence[str]], size: int, reason: str | Mapping[str, str]
) -> Markup:
    """Return a table whose first rows are data sets and whose last one may be their mean; ``-`` gets a reason."""
    reasons = dict.fromkeys((row[0] for row in rows), reason) if isinstance(reason, str) else reason
    shown = [
        [Missing(reasons.get(row[0]) or "the notes below have the reason") if cell == "-" else cell for cell in row]
        for row in rows
    ]
    return table(title, head, shown[:size], shown[size:])


def _scores(name: str, result: Result) -> Markup:
    """Return all scores of a result with their intervals, and its notes."""
    reasons = {name: "; ".join(dict.fromkeys(own.missing.values())) for name, own in result.details.items()}
    title = f"{result.benchmark}: all scores of {name}"
    return join([_table_of(title, *result_rows(result), len(result.divided), reasons), _list(remarks(result))])


def _published(group: Group) -> Iterator[Markup]:
    runs = group.get("Normal", {})
    placed = [comparison for run in runs.values() for comparison in compare_with_published(run, "Vanilla ICL")]
    if any(comparison.reason is None for comparison in placed):
        yield _figure(charts.model_size_chart, runs)
    for benchmark in group:
        if benchmark in HEADLINE and (found := published_figures(group[benchmark])):
            yield fold(f"{benchmark}: comparison with the published figures", found)


_QUESTIONS: dict[str, tuple[str, Callable[[Group], Iterator[Markup]]]] = {
    "accurate": ("How accurate?", _accurate),
    "calibrated": ("How calibrated?", _calibrated),
    "biased": ("How biased?", _biased),
    "robust": ("How robust?", _robust),
    "changed": ("What changed between two runs?", _changed),
    "published": ("Published figures", _published),
}


def _all_scores(group: Group) -> Iterator[Markup]:
    for name in run_names(group):
        yield fold(name, *(_scores(name, runs[name]) for runs in group.values() if name in runs))


def sections(benchmarks: Group) -> Iterator[Section]:
    """Yield the sections of the benchmarks; results that are not comparable are in separate tables and figures.

    Args:
        benchmarks: All results.
    """
    groups = comparable_groups(benchmarks)
    several = len(groups) > 1
    why = "These runs are not comparable with each other: data sets, limit, metrics or options differ. Each group has "
    boards = [leaderboard(group) for group in groups]
    text = [element("p", f"{why}a leaderboard of its own.", class_="soft")] if several else []
    yield Section("leaderboard", "Leaderboard", join([*text, *boards]))
    for key, (title, make) in {**_QUESTIONS, "scores": ("All scores", _all_scores)}.items():
        parts: list[str] = []
        for group in groups:
            if key == "changed":
                group = {benchmark: runs for benchmark, runs in group.items() if len(runs) > 1}
            parts_of_group = [part for part in make(group) if part] if group else []
            if parts_of_group:
                parts += [element("h3", group_title(group))] if several else []
                parts += parts_of_group
        if parts:
            yield Section(key, title, join(parts))


def _policy(scripts: Sequence[str]) -> str:
    """Return a content security policy that allows only the scripts of the page."""
    hashes = [hashlib.sha256(script.encode()).digest() for script in scripts]
    allowed = [f"'sha256-{base64.b64encode(digest).decode()}'" for digest in hashes]
    parts = (
        "default-src 'none'",
        "style-src 'unsafe-inline'",  # the style element, and widths of figures
        f"script-src {' '.join(allowed)}",
        "base-uri 'none'",
        "form-action 'none'",
    )
    return "; ".join(parts)


def _provenance(benchmarks: Group) -> Section:
    """Return counts of queries, failures, signatures, models and environments."""
    counts, failures = [], []
    signatures: dict[str, list[str]] = {}
    environments: dict[str, str] = {}
    predictors: dict[tuple[str, ...], None] = {}
    for name, benchmark, result in _each_result(benchmarks):
        predictors |= dict.fromkeys(_predictor_rows(name, result))
        details = result.details.values()
        sums = [sum(getattr(own, key) for own in details) for key in ("asked", "distinct", "scored", "failed")]
        seconds = result.timing.get("seconds")
        shown = Missing("not recorded") if seconds is None else f"{seconds:.1f}"
        counts.append([name, benchmark, *map(str, sums), shown])
        signatures.setdefault(str(result.signature), []).append(name)
        environments[name] = ", ".join(f"{key} {value}" for key, value in result.environment.items())
        failures += [
            [name, benchmark, dataset, query.condition, str(query.query), query.reason]
            for dataset, own in result.details.items()
            for query in own.failures
        ]
    head = ["run", "benchmark", "queries", "distinct", "scored", "failed", "seconds"]
    parts: list[str] = [fold("Queries of each benchmark", table("Queries of each benchmark", head, counts, words=(1,)))]
    if failures:
        head = ["run", "benchmark", "data set", "condition", "query", "reason"]
        more = [] if len(failures) <= 200 else [element("p", f"The first 200 of {len(failures)}.")]
        first = table("Failed queries", head, failures[:200], words=(1, 2, 3, 5))
        parts.append(fold(f"{len(failures)} failed queries", first, *more))
    listed = _list(join([f"{', '.join(names)}: ", _code(text)]) for text, names in signatures.items())
    meaning = "Runs with the same signature have the same prompts and the same settings."
    parts.append(fold("Signatures", element("p", meaning, class_="soft"), listed))
    head = ["run", "model", "settings", "data sets", "from (UTC)", "to (UTC)", "computed", "reused", "retried"]
    parts.append(fold("Models", table("Models", head, list(map(list, predictors)), words=(1, 2, 3, 4, 5))))
    parts.append(fold("Environments", *(element("p", f"{name}: {text}") for name, text in environments.items())))
    return Section("runs", "Runs", join(parts))


def _predictor_rows(name: str, result: Result) -> Iterator[tuple[str, ...]]:
    """Yield one row for each model of a run."""
    method = {"method": result.provenance.method} if result.provenance.method else {}
    for predictor in result.provenance.predictors:
        how = ", ".join(f"{key} {value}" for key, value in {**method, **predictor.how}.items())
        served = (
            ", ".join(predictor.datasets) if len(predictor.datasets) < 4 else f"{len(predictor.datasets)} data sets"
        )
        counts = map(str, (predictor.computed, predictor.reused, predictor.retried))
        yield name, predictor.label, how or "default", served, predictor.started, predictor.finished, *counts


def _each_result(benchmarks: Group) -> Iterator[tuple[str, str, Result]]:
    """Yield the name of the run, the benchmark and the result."""
    return ((name, benchmark, result) for benchmark, runs in benchmarks.items() for name, result in runs.items())


def _code(signature: str) -> Markup:
    """Return a signature with possible line breaks between its fields."""
    fields = signature.split("|")
    return element("code", *(join([field, "|", void("wbr")]) for field in fields[:-1]), fields[-1])


def _warnings(benchmarks: Group) -> Iterator[Markup]:
    """Yield what a reader must know before the scores; warnings of the runs are listed once, with their runs."""
    every = list(_each_result(benchmarks))
    incomplete = [f"{name}, {benchmark}" for name, benchmark, result in every if not result.complete]
    early = [f"{name}, {benchmark}" for name, benchmark, result in every if result.stopping is not None]
    if incomplete:
        yield element("p", f"PARTIAL, failed queries: {'; '.join(incomplete)}.", class_="warn")
    if early:
        yield element("p", f"STOPPED EARLY, do not compare with full runs: {'; '.join(early)}.", class_="warn")
    runs: dict[str, dict[str, None]] = {}
    for name, _, result in every:
        for warning in result.warnings:
            runs.setdefault(warning, {})[name] = None
    if runs:
        listed = _list(join([element("strong", ", ".join(names)), f": {text}"]) for text, names in runs.items())
        yield fold(f"Warnings about data and prompts: {len(runs)}", listed)


# -- single queries: a list with filters, which a script fills from data in the page. The data are JSON in ASCII without
# ``<``, ``>`` and ``&``, and the script writes them as text only, so texts of data sets cannot become markup. Texts are
# hidden until the reader chooses to see them: some data sets contain offensive ones.

_FAILED, _UNPARSED, _NOT_RUN = -2, -3, -4
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
    view = _View(prompts_of)
    for benchmark, runs in benchmarks.items():
        for name, result in runs.items():
            view.add(names.index(name), benchmark, result)
    values = {
        "runs": list(map(_utf8, names)),
        "conditions": list(view.conditions),
        "sets": [own.values for own in view.sets],
        "parts": list(view.parts),
        "prompts": list(view.prompts),
    }
    text = json.dumps(values, separators=(",", ":"), allow_nan=False)
    for letter in "<>&":
        text = text.replace(letter, f"\\u{ord(letter):04x}")
    content = join(
        [
            element("p", _INTRODUCTION, class_="soft"),
            element("noscript", element("p", "This part of the page needs JavaScript.")),
            element("div", id="query-view"),
            element("script", Markup(text), type="application/json", id="query-data"),
        ]
    )
    return Section("queries", "Queries", content, "queries")


class _Set:
    """The queries of one data set in one benchmark, from all runs."""

    def __init__(self, benchmark: str, dataset: str, labels: Sequence[str], copy: int) -> None:
        self.places: dict[tuple[int, int, int], int] = {}
        """By condition, test row, and place among the queries of this row."""
        self.columns: dict[str, list[int]] = {"condition": [], "row": [], "nth": [], "truth": []}
        self.values: dict[str, Any] = {"benchmark": benchmark, "dataset": dataset, "labels": labels, "copy": copy}
        self.values |= self.columns | {"runs": {}}

    def fits(self, queries: Sequence[tuple[int, int, int, int]]) -> bool:
        """Return whether the true labels agree."""
        known = self.columns["truth"]
        places = ((self.places.get(query[:3]), query[3]) for query in queries)
        return all(place is None or known[place] == truth for place, truth in places)

    def place(self, query: tuple[int, int, int, int]) -> int:
        """Return the position of a query; a new one is added."""
        if query[:3] not in self.places:
            self.places[query[:3]] = len(self.places)
            for column, value in zip(self.columns.values(), query, strict=True):
                column.append(value)
        return self.places[query[:3]]


class _View:
    def __init__(self, prompts_of: Prompts) -> None:
        self.prompts_of = prompts_of
        self.conditions: dict[str, int] = {}
        self.parts: dict[str, int] = {}
        self.prompts: dict[tuple[int, ...], int] = {}
        self.sets: list[_Set] = []
        self.known: dict[tuple[object, ...], list[_Set]] = {}
        self.written: dict[tuple[object, ...], list[int] | str] = {}

    def add(self, run: int, benchmark: str, result: Result) -> None:
        """Add the queries of a result."""
        written: Mapping[str, Sequence[tuple[str, ...]] | str] | None = None
        for dataset, details in result.details.items():
            if not details.conditions:
                continue
            # Equal digests are equal prompts, in the order of the records.
            records = tuple((record.rows, record.truth) for record in details.conditions)
            mark = (benchmark, dataset, details.prompts, details.query_digests, records)
            if isinstance(self.written.get(mark, ""), str):  # not written yet, or not from the other result
                written = self.prompts_of(result) if written is None else written
                prompts = written.get(dataset, "the benchmark has no such data set")
                self.written[mark] = prompts if isinstance(prompts, str) else list(map(self._number, prompts))
            self._add(run, benchmark, dataset, details, self.written[mark])

    def _number(self, prompt: tuple[str, ...]) -> int:
        parts = tuple(self.parts.setdefault(part, len(self.parts)) for part in prompt)
        return self.prompts.setdefault(parts, len(self.prompts))

    def _add(self, run: int, benchmark: str, dataset: str, details: DatasetDetails, prompts: list[int] | str) -> None:
        labels = labels_of(details)
        # Empty and random queries have the label of a test row, which is not theirs.
        labelled = benchmark not in ("Contextual_bias", "Domain_bias")
        queries = [
            (self.conditions.setdefault(record.name, len(self.conditions)), *key, truth if labelled else -1)
            for record in details.conditions
            for key, truth in zip(query_keys(record.rows), record.truth, strict=True)
        ]
        same = self.known.setdefault((benchmark, dataset, details.labels, details.data), [])
        own = next((queries_of for queries_of in same if queries_of.fits(queries)), None)
        if own is None:
            names = [(known.values["benchmark"], known.values["dataset"]) for known in self.sets]
            copy = names.count((benchmark, dataset))
            own = _Set(benchmark, dataset, labels, copy)
            same.append(own)
            self.sets.append(own)
        own.values["labels"] = max(own.values["labels"], labels, key=len)  # without names, as many as were seen
        places = [own.place(query) for query in queries]
        missing = {(query.condition, query.query): (_FAILED, query.reason) for query in details.failures}
        missing |= {(query.condition, query.query): (_UNPARSED, query.reason) for query in details.unparsed}
        predictions = [_NOT_RUN] * len(own.places)
        reasons: dict[int, str] = {}
        scores: list[list[int] | None] = [None] * len(own.places)
        shown = [-1] * len(own.places)
        if not isinstance(prompts, str):
            for place, prompt in zip(places, prompts, strict=True):
                shown[place] = prompt
        following = iter(places)
        for record in details.conditions:
            rows = _probabilities(record, len(labels))
            for query, (label, place) in enumerate(zip(record.predictions, following, strict=False)):
                state = _FAILED if label is None else label
                predictions[place], reason = missing.get((record.name, query), (state, ""))
                scores[place] = rows[query]
                reasons |= {place: reason} if reason else {}
        own.values["runs"][run] = {
            "predictions": predictions,
            "scores": scores if any(scores) else None,
            "prompts": None if isinstance(prompts, str) else shown,
            "missing": prompts if isinstance(prompts, str) else "",
            "reasons": reasons,
        }


def _probabilities(record: ConditionRecord, width: int) -> list[list[int] | None]:
    """Return label probabilities in units of 0.0001; ``None`` for queries without them."""
    try:
        rows = record.probabilities(width)
    except SchemaError:  # damaged scores
        rows = [None] * len(record.predictions)
    return [None if row is None else [round(10000 * value) for value in row] for row in rows]


# -- the page


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
    board = next(every := sections(benchmarks))
    others = [] if summary else [*every, _provenance(benchmarks)]
    built = [board, *([more] if more is not None else []), *others]
    assets = [section.assets for section in built if section.assets]
    scripts = [resource(f"{name}.js") for name in ("page", *assets)]
    style = "".join(resource(f"{name}.css") for name in ("style", *assets))
    head = [
        void("meta", charset="utf-8"),
        void("meta", http_equiv="Content-Security-Policy", content=_policy(scripts)),
        void("meta", name="viewport", content="width=device-width, initial-scale=1"),
        void("meta", name="color-scheme", content="light dark"),
        element("title", title),
        element("style", Markup(style + STYLE)),
    ]
    runs = run_names(benchmarks)
    count = "1 run" if len(runs) == 1 else f"{len(runs)} runs"
    links = _list(element("a", section.title, href=f"#{section.key}") for section in built)
    body = [
        element(
            "header",
            element("h1", title),
            element("p", f"{count}. Benchmarks: {', '.join(benchmarks)}. StaICC {__version__}.", class_="lead"),
            element("div", element("nav", links, aria_label="Sections"), element("div", class_="tools"), class_="bar"),
        ),
        element(
            "main",
            *_warnings(benchmarks),
            *(
                element("section", fold(element("h2", section.title), section.content, opened=True), id=section.key)
                for section in built
            ),
        ),
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

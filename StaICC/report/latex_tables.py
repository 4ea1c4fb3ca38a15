"""Headline scores as LaTeX tables, in the layout of the StaICC paper."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from StaICC.comparing.alignment import MOST_RUNS
from StaICC.comparing.formats import latex_table, latex_tabular
from StaICC.comparing.ranking import Rank
from StaICC.comparing.verdicts import Best, Tied, Untested
from StaICC.metrics.paired_tests import SIGNIFICANCE_LEVEL
from StaICC.report.chart_scores import ChartScore
from StaICC.report.comparable_groups import Group, comparable_groups, each_result, group_title, run_names
from StaICC.report.headlines import headlines_of
from StaICC.results.experiment_table import is_experiment
from StaICC.results.left_out import LEFT_OUT_NOTE, STOPPED_EARLY_NOTE, with_marks
from StaICC.results.result import Result, ResultGroup
from StaICC.results.runs import by_benchmark
from StaICC.safe_text import latex_cell, with_latex_engine

_STYLES = {Best: r"$\mathbf{%s}$", Tied: r"$\underline{%s}$", Untested: "$%s^{*}$"}
"""How a number of a verdict is set."""
_STYLES_OF_TEXT = {Best: r"\textbf{%s}", Tied: r"\underline{%s}", Untested: "%s$^{*}$"}
"""How a text of a verdict is set."""
_ARROWS = {True: r" $\uparrow$", False: r" $\downarrow$", None: ""}
"""The mark of a score, by whether higher values are better."""
MANY_RUNS_NOTE = (
    f"of more than {MOST_RUNS} runs, Holm's correction for all pairs is that of the first score; the others have "
    "Bonferroni's, and can be tied where rank has worse"
)
"""How the verdicts of many runs are corrected."""


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
    tables = [_group_table(group) for group in comparable_groups(by_benchmark(results))]
    return with_latex_engine("\n\n".join(tables))


def _group_table(group: Group) -> str:
    """Return the table of comparable runs as LaTeX, followed by a comment line for each different signature."""
    names = run_names(group)
    rows = []
    scores: list[ChartScore] = []
    for headline in headlines_of(group):
        row = [latex_cell(headline.column.title) + _ARROWS[headline.better]]
        for name in names:
            score = headline.score(name)
            scores.append(score)
            rank = None
            if headline.has_verdicts:
                rank = headline.ranks.get(name)
            row.append(_score_cell(score, rank))
        rows.append(row)
    table = latex_table(_caption(group, names, rows, scores), [latex_tabular(["", *names], rows)]) + "\\end{table}"
    signatures = [f"% {result.signature}" for _, _, result in each_result(group)]
    return "\n".join([table, *dict.fromkeys(signatures)])


def _caption(
    group: Group, names: Sequence[str], rows: Sequence[Sequence[str]], scores: Sequence[ChartScore]
) -> list[str]:
    """Return the parts of the caption: what the runs share, and the meaning of the marks that are in the table.

    Args:
        group: The results.
        names: The names of the runs.
        rows: The cells of the table. The marks ``*`` and ``--`` are explained if a cell has them.
        scores: All scores of the table.
    """
    cells = [cell for row in rows for cell in row]
    caption = [
        group_title(group),
        "bold: best",
        f"underlined: not shown to be worse than the best (Holm, {SIGNIFICANCE_LEVEL})",
    ]
    if any("^{*}" in cell for cell in cells):
        caption.append("*: not tested against the best")
    if any(score.left_out for score in scores):
        caption.append(LEFT_OUT_NOTE)
    if any(score.stopped_early for score in scores):
        caption.append(STOPPED_EARLY_NOTE)
    if any("--" in cell for cell in cells):
        caption.append("--: not run, or undefined")
    if len(names) > 1 and any(is_experiment(result) for _, _, result in each_result(group)):
        caption.append("conditions of an experiment: verdicts are corrected for all of them (Bonferroni)")
    if len(names) > MOST_RUNS:
        caption.append(MANY_RUNS_NOTE)
    return caption


def _score_cell(score: ChartScore, rank: Rank | None) -> str:
    """Return a score in the style of its verdict, with its marks; after early stopping with its interval.

    Args:
        score: The score.
        rank: The rank with the verdict; ``None`` without one.
    """
    if score.value is None:
        if rank is None:
            return "--"
        # A run without a value can have a verdict, by its value with missing queries at their worst.
        style_of_text = _STYLES_OF_TEXT.get(type(rank.verdict), "%s")
        return with_marks(style_of_text % "--", score.left_out)
    style = "$%s$"
    if rank is not None:
        style = _STYLES.get(type(rank.verdict), style)
    text = style % f"{score.value:.4f}"
    if score.stopped_early and score.interval is not None:
        text += f" [{score.interval.low:.3f}, {score.interval.high:.3f}]"
    return with_marks(text, score.left_out, score.stopped_early)

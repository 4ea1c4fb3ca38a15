"""Heat maps: a score of each run on each data set, as a shaded table."""

from __future__ import annotations

import math
from collections.abc import Sequence

from StaICC.metrics.scores import COLUMNS, Column, score_record
from StaICC.report.chart_scores import ChartScore, mean_key, scores_of
from StaICC.report.comparable_groups import Group
from StaICC.report.headlines import direction_words
from StaICC.report.html import element
from StaICC.report.parts import ReportPart
from StaICC.report.runs_by_name import ResultsByRun, dataset_names
from StaICC.report.tables import table

_SHADES = 11
"""Number of shades; the style sheet has a class for each."""


def heat_map(benchmark: str, metric: str = "") -> ReportPart:
    """Return a part: a score of each run on each data set as a shaded table.

    Args:
        benchmark: Name of the benchmark.
        metric: The headline score; by default the main one of the benchmark. The baselines of an accuracy are below it.
    """
    columns = [column for column in COLUMNS if column.benchmark == benchmark and metric in ("", column.key)]
    column = columns[0]

    def part(group: Group) -> str:
        return _heat_map(column, group.get(benchmark, {}))

    return part


def _heat_map(column: Column, runs: ResultsByRun) -> str:
    """Return the table of a score; empty if no run has a value."""
    datasets = dataset_names(runs)
    columns: list[str | None] = [*datasets]
    if len(datasets) > 1:
        columns.append(None)  # the mean
    key = mean_key(column.benchmark, column.key)
    scores_by_run = {}
    for run, result in runs.items():
        scores = scores_of(result)
        scores_by_run[run] = [
            scores.get((column_name, key), ChartScore(reason="not evaluated")) for column_name in columns
        ]
    score_rows = [*scores_by_run.values()]
    if not any(score.value is not None for scores in score_rows for score in scores):
        return ""

    better = score_record(column.benchmark, column.key).higher_is_better
    shades = _shades(score_rows, higher_is_better=better is not False)
    rows = []
    for run, scores_of_run, shades_of_run in zip(scores_by_run, score_rows, shades, strict=True):
        cells = [_shaded_cell(score, shade) for score, shade in zip(scores_of_run, shades_of_run, strict=True)]
        rows.append([run, *cells])
    meaning = "better than the other runs on the data set" if len(rows) > 1 else "better than on the other data sets"
    caption = f"{column.title}, by data set ({direction_words(better)}; darker: {meaning})"
    head = ["run", *[name or "mean" for name in columns]]
    return table(caption, head, rows, _baseline_rows(score_rows), classes="sortable heat")


def _shades(rows: Sequence[Sequence[ChartScore]], higher_is_better: bool) -> list[list[int]]:
    """Return the shade of each cell, which grows with how much better a score is than the worst one next to it.

    The scores of several runs are compared by data set, those of a single run with each other. One scale is used for
    the whole table: a cell has the darkest shade if it is better by the largest difference of all.

    Args:
        rows: The scores by run, then by data set.
        higher_is_better: Whether larger values are better.
    """
    sign = 1.0 if higher_is_better else -1.0
    values = [[_finite(score.value, sign) for score in scores] for scores in rows]
    if len(values) == 1:
        worst_of_columns = [_worst(values[0])] * len(values[0])
    else:
        worst_of_columns = [_worst(column) for column in zip(*values, strict=True)]
    leads = []
    for row in values:
        leads.append(
            [0.0 if value is None else value - worst for value, worst in zip(row, worst_of_columns, strict=True)]
        )
    largest = max(max(row) for row in leads) or 1.0
    return [[round((_SHADES - 1) * lead / largest) for lead in row] for row in leads]


def _finite(value: float | None, sign: float) -> float | None:
    """Return a value with a sign; ``None`` for no value, and for one without bound, which has no place on a scale."""
    if value is None or not math.isfinite(value):
        return None
    return sign * value


def _worst(values: Sequence[float | None]) -> float:
    """Return the lowest value; 0 without any."""
    return min((value for value in values if value is not None), default=0.0)


def _shaded_cell(score: ChartScore, shade: int) -> str:
    """Return the cell of a score with a shade; one without a value has none."""
    if score.value is None:
        return score.cell
    return element("td", score.cell, class_=f"h{shade}")


def _baseline_rows(rows: Sequence[Sequence[ChartScore]]) -> list[list[str]]:
    """Return a row for each baseline that is known, from the first run that has it on a data set.

    Args:
        rows: The scores by run, then by data set.
    """
    random_row = ["random baseline"]
    majority_row = ["majority baseline"]
    for scores in zip(*rows, strict=True):
        random = next((score.random for score in scores if score.random is not None), None)
        majority = next((score.majority for score in scores if score.majority is not None), None)
        random_row.append(ChartScore(random).cell)
        majority_row.append(ChartScore(majority).cell)
    return [row for row in (random_row, majority_row) if any(cell != "-" for cell in row[1:])]

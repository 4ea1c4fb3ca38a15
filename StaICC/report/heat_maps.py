"""Heat maps: a score of each run on each data set, as a shaded table."""

from __future__ import annotations

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
    places: list[str | None] = [*datasets]
    if len(datasets) > 1:
        places.append(None)  # the mean
    key = mean_key(column.benchmark, column.key)
    scores_by_run = {}
    for run, result in runs.items():
        scores = scores_of(result)
        scores_by_run[run] = [scores.get((place, key), ChartScore(reason="not evaluated")) for place in places]
    known = [score.value for scores in scores_by_run.values() for score in scores if score.value is not None]
    if not known:
        return ""

    rows = []
    for run, scores_of_run in scores_by_run.items():
        rows.append([run, *[_shaded(score, min(known), max(known)) for score in scores_of_run]])
    direction = direction_words(score_record(column.benchmark, column.key).higher_is_better)
    caption = f"{column.title}, by data set ({direction}; a darker cell is a higher value)"
    head = ["run", *[place or "mean" for place in places]]
    return table(caption, head, rows, _baseline_rows([*scores_by_run.values()]), classes="sortable heat")


def _shaded(score: ChartScore, lowest: float, highest: float) -> str:
    """Return a cell whose shade grows with the score.

    Args:
        score: The score.
        lowest: The lowest score of the table.
        highest: The highest score of the table.
    """
    if score.value is None:
        return score.cell
    span = (highest - lowest) or 1.0
    shade = round((_SHADES - 1) * (score.value - lowest) / span)
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

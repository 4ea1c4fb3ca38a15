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
    """Return a function that writes a score of each run on each data set as a shaded table.

    If the score is an accuracy, the last rows of the table are its baselines.

    Args:
        benchmark: Name of the benchmark.
        metric: The key of a headline score of the benchmark; by default its first one.
    """
    headline_scores = [column for column in COLUMNS if column.benchmark == benchmark]
    score = headline_scores[0]
    if metric:
        (score,) = [column for column in headline_scores if column.key == metric]

    def part(group: Group) -> str:
        """Return the table of comparable results; empty if no run has a value."""
        return _heat_map(score, group.get(benchmark, {}))

    return part


def _heat_map(column: Column, runs: ResultsByRun) -> str:
    """Return the table of a score, with a row for each run and a column for each data set; empty without any value.

    Args:
        column: The score.
        runs: The results of its benchmark.
    """
    datasets = dataset_names(runs)
    dataset_of_column: list[str | None] = list(datasets)
    head = ["run", *datasets]
    if len(datasets) > 1:
        dataset_of_column.append(None)  # the key of the mean over the data sets
        head.append("mean")
    key = mean_key(column.benchmark, column.key)
    score_rows = []
    for result in runs.values():
        scores = scores_of(result)
        score_rows.append([scores.get((name, key), ChartScore(reason="not evaluated")) for name in dataset_of_column])
    if not any(score.value is not None for scores in score_rows for score in scores):
        return ""

    higher_is_better = score_record(column.benchmark, column.key).higher_is_better
    shades = _shades(score_rows, higher_is_better=higher_is_better is not False)
    rows = []
    for run, scores_of_run, shades_of_run in zip(runs, score_rows, shades, strict=True):
        cells = [_shaded_cell(score, shade) for score, shade in zip(scores_of_run, shades_of_run, strict=True)]
        rows.append([run, *cells])
    meaning = "better than on the other data sets"
    if len(rows) > 1:
        meaning = "better than the other runs on the data set"
    caption = f"{column.title}, by data set ({direction_words(higher_is_better)}; darker: {meaning})"
    return table(caption, head, rows, _baseline_rows(score_rows), classes="sortable heat")


def _shades(rows: Sequence[Sequence[ChartScore]], higher_is_better: bool) -> list[list[int]]:
    """Return the shade of each cell, from 0 to 10: how much better its score is than the worst one next to it.

    The lead of a score is its difference to the worst score of its column, or of the table if there is a single run. A
    cell has the shade ``10 * lead / largest lead of the table``, rounded; without a finite value it has the shade 0.

    Args:
        rows: The scores by run, then by data set.
        higher_is_better: Whether larger values are better.
    """
    goodness_rows = [[_goodness(score, higher_is_better) for score in scores] for scores in rows]
    n_columns = len(rows[0])
    if len(rows) == 1:
        worst_of_columns = [_worst(goodness_rows[0])] * n_columns
    else:
        worst_of_columns = [_worst([row[column] for row in goodness_rows]) for column in range(n_columns)]

    leads = []
    for goodness_row in goodness_rows:
        leads_of_run = []
        for goodness, worst in zip(goodness_row, worst_of_columns, strict=True):
            leads_of_run.append(0.0 if goodness is None else goodness - worst)
        leads.append(leads_of_run)
    largest_lead = max(max(leads_of_run) for leads_of_run in leads) or 1.0
    return [[round((_SHADES - 1) * lead / largest_lead) for lead in leads_of_run] for leads_of_run in leads]


def _goodness(score: ChartScore, higher_is_better: bool) -> float | None:
    """Return the value of a score, with its sign turned if lower values are better; ``None`` without a finite value."""
    if score.value is None or not math.isfinite(score.value):
        return None
    return score.value if higher_is_better else -score.value


def _worst(goodness_values: Sequence[float | None]) -> float:
    """Return the lowest of several values, some of which may be undefined; 0 if all are."""
    return min((value for value in goodness_values if value is not None), default=0.0)


def _shaded_cell(score: ChartScore, shade: int) -> str:
    """Return the cell of a score with a shade; one without a value has none."""
    if score.value is None:
        return score.cell
    return element("td", score.cell, class_=f"h{shade}")


def _baseline_rows(rows: Sequence[Sequence[ChartScore]]) -> list[list[str]]:
    """Return the cells of a row for each baseline; a baseline that no data set has is left out.

    Comparable runs have the same baselines, so the value on a data set is that of the first run that has one.

    Args:
        rows: The scores by run, then by data set.
    """
    random_cells = []
    majority_cells = []
    for scores_of_dataset in zip(*rows, strict=True):
        random_cells.append(_first_cell([score.random for score in scores_of_dataset]))
        majority_cells.append(_first_cell([score.majority for score in scores_of_dataset]))
    baseline_rows = []
    if any(cell != "-" for cell in random_cells):
        baseline_rows.append(["random baseline", *random_cells])
    if any(cell != "-" for cell in majority_cells):
        baseline_rows.append(["majority baseline", *majority_cells])
    return baseline_rows


def _first_cell(values: Sequence[float | None]) -> str:
    """Return the first value that is not ``None`` as a cell of a table; ``-`` if there is none."""
    for value in values:
        if value is not None:
            return ChartScore(value).cell
    return ChartScore().cell

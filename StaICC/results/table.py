"""The table of a result, followed by its remarks, its signature, its warnings."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

from StaICC import benchmark_names
from StaICC.layout import Block, Line, TextTable
from StaICC.metrics.scores import BASELINE_KEYS
from StaICC.numerics import mean
from StaICC.results.cells import cell_text, figure_text
from StaICC.results.experiment_table import experiment_rows
from StaICC.results.protocol import ResultLike
from StaICC.results.remarks import is_warning, remarks
from StaICC.results.score_names import column_head, slope_head

_SENSITIVITY = "sensitivity."
"""How the keys of regression lines begin: slopes of metrics over conditions."""


@dataclass(frozen=True, slots=True)
class _TextColumn:
    """A column of the table as text."""

    head: str
    cells: Sequence[str]
    """A cell for each data set, then that of the mean."""


@dataclass(frozen=True, slots=True)
class _ScoreColumn:
    """The records of one score."""

    key: str
    """The key in the scores of a data set, such as ``"accuracy"`` or ``"sensitivity.accuracy"``."""
    records: Sequence[Mapping[str, Any]]
    """The record of each data set, then that of the mean; an empty one where a data set has no such score."""

    @property
    def metric(self) -> str:
        """The key of the mean, which is the name of the metric: a slope is saved without ``sensitivity.`` there."""
        return _key_of_mean(self.key)

    @property
    def left_out(self) -> tuple[int, ...]:
        """How many queries the score leaves out, in each row of the table."""
        return tuple(record.get("left_out", 0) for record in self.records)


def _key_of_mean(key: str) -> str:
    """Return the key that the mean of a score has.

    A slope has the key ``sensitivity.accuracy`` on a data set. The mean of the slopes has the key ``accuracy``.
    """
    return key.removeprefix(_SENSITIVITY)


def _is_slope(key: str) -> bool:
    """Return whether a key is that of the slope of a regression line; its intercept has a key of its own."""
    return key.startswith(_SENSITIVITY) and not key.endswith(" (intercept)")


def _score_columns(result: ResultLike) -> list[_ScoreColumn]:
    """Return the columns with scores, in the order in which the data sets have them."""
    records = {}
    for record in result.score_records():
        records[record["dataset"], record["metric"]] = record
    columns = []
    for key in _keys_with_column(result, records):
        of_datasets = [records.get((dataset, key), {}) for dataset in result.divided]
        of_mean = records.get((None, _key_of_mean(key)), {})
        columns.append(_ScoreColumn(key, [*of_datasets, of_mean]))
    return columns


def _keys_with_column(result: ResultLike, scores: Iterable[tuple[str | None, str]]) -> list[str]:
    """Return the keys of the scores that have a column.

    A score of a data set has a column if there is a mean with its key, if it is not nested in another score, or if it
    is the slope of a regression line.

    Args:
        result: The result.
        scores: The data set and the key of each score; the data set of a mean is ``None``.
    """
    scores = list(scores)
    keys_of_means = {key for dataset, key in scores if dataset is None}
    keys: dict[str, None] = {}
    for dataset, key in scores:
        if dataset is None:
            continue
        is_nested = key not in result.divided[dataset]
        if key in keys_of_means or not is_nested or _is_slope(key):
            keys[key] = None
    return list(keys)


def _shared_left_out(columns: Sequence[_ScoreColumn]) -> tuple[int, ...] | None:
    """Return how many queries all scores leave out, in each row of the table.

    It is ``None`` if the scores leave out different numbers. Baselines leave out nothing, and do not count.
    """
    counts = {column.left_out for column in columns if column.key not in BASELINE_KEYS}
    if len(counts) == 1:
        return counts.pop()
    return None


def _column_head(column: _ScoreColumn, benchmark: str) -> str:
    """Return the head of the column of a score."""
    metric = column.metric
    is_slope = metric != column.key
    if is_slope and benchmark == benchmark_names.GLER:
        return slope_head(metric)
    return column_head(metric)


def _score_cells(column: _ScoreColumn, with_left_out: bool) -> list[str]:
    """Return the cells of a score.

    Args:
        column: The records of the score; an empty one where a data set has no such score.
        with_left_out: Whether each cell says how many queries the score leaves out.
    """
    cells = []
    for record in column.records:
        left_out = record.get("left_out", 0) if with_left_out else 0
        cells.append(cell_text(record.get("value"), record.get("low"), record.get("high"), left_out))
    return cells


def _unparsed_bounds(result: ResultLike, dataset: str) -> Mapping[str, tuple[float | None, ...]]:
    """Return the bounds of the scores of a data set that exclude unparsed replies.

    For each metric, they are its value if all unparsed replies counted as wrong, and its value if all counted as right.
    """
    if dataset in result.details:
        return result.details[dataset].bounds
    return {}


def _bounds_column(result: ResultLike, column: _ScoreColumn, head: str) -> _TextColumn | None:
    """Return the column with the bounds of a score that excludes unparsed replies.

    A cell has two values, such as ``"0.5000, 0.7000"``: the score if all unparsed replies counted as wrong, and the
    score if all counted as right. A data set without unparsed replies has its score two times. The last cell has the
    means over the data sets.

    Args:
        result: The result.
        column: The records of the score.
        head: The head of the column of the score.

    Returns:
        The column; ``None`` if the score has no bounds on any data set.
    """
    bounds_by_dataset = [_unparsed_bounds(result, dataset).get(column.metric) for dataset in result.divided]
    if all(bounds is None for bounds in bounds_by_dataset):
        return None
    values_if_wrong: list[float | None] = []
    values_if_right: list[float | None] = []
    records_of_datasets = column.records[:-1]  # the last record is that of the mean
    for bounds, record in zip(bounds_by_dataset, records_of_datasets, strict=True):
        if bounds:
            if_wrong, if_right = bounds
        else:
            if_wrong = record.get("value")
            if_right = if_wrong
        values_if_wrong.append(if_wrong)
        values_if_right.append(if_right)
    values_if_wrong.append(mean(values_if_wrong))
    values_if_right.append(mean(values_if_right))

    cells = []
    for if_wrong, if_right in zip(values_if_wrong, values_if_right, strict=True):
        cells.append(f"{figure_text(if_wrong)}, {figure_text(if_right)}")
    return _TextColumn(f"{head} if unparsed wrong, right", cells)


def _baseline_columns(column: _ScoreColumn) -> list[_TextColumn]:
    """Return the columns with the baselines of an accuracy; none for other scores."""
    columns = []
    for baseline in ("random", "majority"):
        accuracies = [record.get(baseline) for record in column.records]
        if any(accuracy is not None for accuracy in accuracies):
            columns.append(_TextColumn(baseline, [figure_text(accuracy) for accuracy in accuracies]))
    return columns


def _unparsed_text(unparsed: int, asked: int) -> str:
    """Return the number of unparsed replies, and their share of all queries."""
    if asked == 0:
        return "-"
    return f"{unparsed} ({unparsed / asked:.1%})"


def _unparsed_column(result: ResultLike) -> _TextColumn | None:
    """Return the column with the numbers of unparsed replies; ``None`` if there are none."""
    total_unparsed = 0
    total_asked = 0
    cells = []
    for dataset in result.divided:
        unparsed = 0
        asked = 0
        if dataset in result.details:
            unparsed = len(result.details[dataset].unparsed)
            asked = result.details[dataset].asked
        cells.append(_unparsed_text(unparsed, asked))
        total_unparsed += unparsed
        total_asked += asked
    if total_unparsed == 0:
        return None
    cells.append(_unparsed_text(total_unparsed, total_asked))
    return _TextColumn("unparsed", cells)


def _text_columns(result: ResultLike) -> list[_TextColumn]:
    """Return the columns of a result's table, from left to right.

    - The first column has the names of the data sets, and ``mean`` for the last row.
    - Each score has a column, followed by those of its bounds and its baselines, if it has any.
    - Then comes the number of unparsed replies, if there are any.
    - The last column is the number of left-out queries, if it is the same for all scores and some queries are left out.
    """
    score_columns = _score_columns(result)
    # If all scores leave out the same queries, their number has a column of its own. Otherwise it is in each cell.
    shared_left_out = _shared_left_out(score_columns)
    is_in_cells = shared_left_out is None

    columns = [_TextColumn("data set", [*result.divided, "mean"])]
    for column in score_columns:
        head = _column_head(column, result.benchmark)
        columns.append(_TextColumn(head, _score_cells(column, with_left_out=is_in_cells)))
        bounds_column = _bounds_column(result, column, head)
        if bounds_column is not None:
            columns.append(bounds_column)
        columns.extend(_baseline_columns(column))

    unparsed_column = _unparsed_column(result)
    if unparsed_column is not None:
        columns.append(unparsed_column)
    if shared_left_out is not None and any(shared_left_out):
        columns.append(_TextColumn("left out", [str(count) for count in shared_left_out]))
    return columns


def result_rows(result: ResultLike) -> tuple[list[str], list[list[str]]]:
    """Return the head and the rows of a result's table, as text.

    Each score has its interval in brackets, and accuracy has its baselines in the next columns. The last row has the
    means over the data sets, with their intervals and baselines.

    Args:
        result: The result.

    Returns:
        The column heads, and one row for each data set, the mean last. A single data set has no row of the mean.
    """
    columns = _text_columns(result)
    row_count = len(result.divided)
    if row_count > 1:  # the mean of a single data set is that of its row
        row_count += 1
    rows = []
    for row_index in range(row_count):
        rows.append([column.cells[row_index] for column in columns])
    return [column.head for column in columns], rows


LOGGED_WARNING = "WARNING: "
"""The beginning of a line with a warning that the run also logged."""


_COUNT = re.compile(r"(?P<count>\d+ of \d+) (?P<rest>predictions .+)", re.DOTALL)
"""A warning that begins with a number of predictions, such as "5 of 1024 predictions have a tie ..."."""


def result_blocks(result: ResultLike) -> list[Block]:
    """Return a result as a table with its remarks, its model, its signature and its warnings."""
    head, rows = experiment_rows(result)
    if not rows:
        head, rows = result_rows(result)

    blocks: list[Block] = [Line(benchmark_names.class_name(result.benchmark), "title"), TextTable(head, rows)]
    for remark in remarks(result):
        if is_warning(remark):
            blocks.append(Line(remark, "warning"))
        else:
            blocks.append(Line(remark))
    blocks.append(Line(f"model: {result.model}"))
    blocks.append(Line(str(result.signature), "code"))
    blocks += _warning_lines(result)
    return blocks


def _warning_lines(result: ResultLike) -> list[Block]:
    """Return the warnings of a result as lines; a warning that several data sets have is one line with their names.

    Warnings that differ in the number of predictions only are one line, too, which has the number of each data set.
    """
    lines: list[Block] = []
    counted_datasets_by_text: dict[str, list[_CountedDataset]] = {}
    for warning in result.warnings:
        dataset = _dataset_of(warning, result)
        if dataset is None:
            lines.append(Line(f"{LOGGED_WARNING}{warning}", "warning"))
            continue
        text = warning.removeprefix(f"{dataset}: ")
        count = ""
        match = _COUNT.fullmatch(text)
        if match is not None:
            count = match["count"]
            text = match["rest"]
        counted_datasets_by_text.setdefault(text, []).append(_CountedDataset(dataset, count))

    for text, counted in counted_datasets_by_text.items():
        lines.append(Line(f"{LOGGED_WARNING}{_with_datasets(text, counted, len(result.details))}", "warning"))
    return lines


class _CountedDataset(NamedTuple):
    """A data set that has a warning."""

    name: str
    concerned: str
    """How many predictions the warning is about, such as "5 of 1024"; empty if the warning does not begin with it."""


def _with_datasets(text: str, counted: Sequence[_CountedDataset], dataset_count: int) -> str:
    """Return a warning with its data sets in front, and with the numbers of their predictions.

    Args:
        text: The warning, without the number of predictions that it begins with.
        counted: The data sets that have it.
        dataset_count: The number of all data sets of the result.
    """
    if len(counted) == 1:
        name, concerned = counted[0]
        return f"{name}: {concerned} {text}" if concerned else f"{name}: {text}"
    if any(dataset.concerned for dataset in counted):
        names = [f"{dataset.name} ({dataset.concerned})" for dataset in counted]
        return f"{', '.join(names)}: {text}"
    if len(counted) == dataset_count:
        return f"all {dataset_count} data sets: {text}"
    return f"{', '.join(dataset.name for dataset in counted)}: {text}"


def _dataset_of(warning: str, result: ResultLike) -> str | None:
    """Return the data set with whose name a warning begins; ``None`` if it is about the whole result."""
    names = [name for name in result.details if warning.startswith(f"{name}: ")]
    return max(names, key=len, default=None)


def shared_warning_lines(warnings_by_result: Mapping[str, Sequence[str]]) -> list[Line]:
    """Return the warnings of several results as lines, each warning once.

    A warning that only some of the results have begins with their names.

    Args:
        warnings_by_result: The warnings of each result, by name.
    """
    names_by_warning: dict[str, list[str]] = {}
    for name, warnings in warnings_by_result.items():
        for warning in warnings:
            names_by_warning.setdefault(warning, []).append(name)
    lines = []
    for warning, names in names_by_warning.items():
        text = f"{LOGGED_WARNING}{warning}"
        if len(names) < len(warnings_by_result):
            text = f"{LOGGED_WARNING}{', '.join(names)}: {warning}"
        lines.append(Line(text, "warning"))
    return lines

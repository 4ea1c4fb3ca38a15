"""Subgroups of test rows: which rows have the same true label, or the same value in a column of a user's data set."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from StaICC.benchmark_names import has_true_labels
from StaICC.comparing.pairing import PairedScores
from StaICC.comparing.run_records import NotComparableError
from StaICC.datasets.subgroups import BY_LABEL
from StaICC.metrics.statistics import Mean
from StaICC.results.score_names import column_head

Rows = Mapping[str, frozenset[int]]
"""Test rows by condition."""

_UNKNOWN_LABEL = "(label not known)"
"""The name of the subgroup of rows whose true label is unknown."""


def row_groups(paired: PairedScores, benchmark: str, by: str) -> dict[str, Rows]:
    """Return the test rows that two runs share on a data set, by the name of their subgroup.

    Each row is in one subgroup of each condition. Subgroups are in the order in which they are shown.

    Args:
        paired: The two runs on the data set.
        benchmark: The name of their benchmark.
        by: ``"label"`` for the true label, or the name of a column of subgroups.

    Raises:
        NotComparableError: The rows have no such subgroups; the message has the reason.
    """
    if by != BY_LABEL:
        return _groups_by_column(paired, by)
    reason = _why_no_labels(paired, benchmark)
    if reason is not None:
        raise NotComparableError(reason)
    return _groups_by_label(paired)


def _groups_by_column(paired: PairedScores, column: str) -> dict[str, Rows]:
    """Return the test rows of each value of a column, in alphabetical order.

    The value of a row is a fact about the row. So if one run records it, the other need not.

    Raises:
        NotComparableError: No run has the column, or the runs have other values.
    """
    first = paired.first.records.subgroups
    second = paired.second.records.subgroups
    if column in first and column in second and first[column] != second[column]:
        raise NotComparableError(f"the runs have other values of {column!r}")
    columns = {**second, **first}
    if column not in columns:
        names = [BY_LABEL, *columns]
        raise NotComparableError(f"there is no column {column!r}. There are: {', '.join(names)}")

    group_of_row = columns[column]  # by the number of the row
    rows_by_group: dict[str, Rows] = {}
    for group in sorted(set(group_of_row)):
        rows_of_group = {}
        for condition, rows in paired.first.rows_by_condition.items():
            rows_of_group[condition] = frozenset(row for row in rows if group_of_row[row] == group)
        has_compared_rows = any(rows_of_group.values())
        if has_compared_rows:
            rows_by_group[group] = rows_of_group
    return rows_by_group


def _why_no_labels(paired: PairedScores, benchmark: str) -> str | None:
    """Return why the test rows of two runs have no subgroups by true label; ``None`` if they have.

    The rows need a single true label each. The metric must be a mean over queries: it then means the same on the rows
    of one label as on all rows.

    Args:
        paired: The scores of the runs on a data set.
        benchmark: The name of the benchmark.
    """
    metric = paired.first.metric
    statistic = paired.first.statistic
    records = paired.first.records
    if not has_true_labels(benchmark):
        return f"the queries of {benchmark} have no text of a test row, and so no true label"
    if records.samples is not None:
        return "logs of other harnesses have no true labels"
    if records.label_limits is not None:
        return "the texts have several labels each"
    if not isinstance(statistic, Mean):
        return (
            f"{column_head(metric)} is no mean over queries, and compares labels with each other: on rows of one label "
            "it has another meaning. Use a mean over queries, such as accuracy"
        )
    return None


def _groups_by_label(paired: PairedScores) -> dict[str, Rows]:
    """Return the test rows of each true label, by the name of the label, in the order of the labels.

    The rows are a set for each condition: the true label of a row may differ between conditions.
    """
    conditions = list(paired.first.rows_by_condition)
    rows_by_truth: dict[int | None, dict[str, set[int]]] = {}
    for condition in conditions:
        for row, truth in _truth_of_rows(paired, condition).items():
            if truth not in rows_by_truth:
                rows_by_truth[truth] = {name: set() for name in conditions}
            rows_by_truth[truth][condition].add(row)

    names = _names_of_labels(paired.first.records.labels)
    rows_by_group: dict[str, Rows] = {}
    for truth in sorted(rows_by_truth, key=_label_order):
        name = _group_of_label(truth, names)
        rows_by_group[name] = {condition: frozenset(rows) for condition, rows in rows_by_truth[truth].items()}
    return rows_by_group


def _truth_of_rows(paired: PairedScores, condition: str) -> dict[int, int | None]:
    """Return the true label of each compared test row in a condition; ``None`` if neither run knows it.

    The true label of a query that failed can be unknown in one of the runs.
    """
    first_truth = paired.first.records.truth_by_row[condition]
    second_truth = paired.second.records.truth_by_row[condition]
    truth_of_row = {}
    for row in paired.first.rows_by_condition[condition]:
        truth_of_row[row] = first_truth[row]
        if first_truth[row] is None:
            truth_of_row[row] = second_truth[row]
    return truth_of_row


def _label_order(truth: int | None) -> tuple[bool, int]:
    """Return a key that sorts labels by their index, and rows of unknown label behind them."""
    if truth is None:
        return (True, 0)
    return (False, truth)


def _names_of_labels(labels: Sequence[str]) -> list[str]:
    """Return names of subgroups by label that all differ: with the index of the label, if labels have the same name."""
    are_distinct = len(set(labels)) == len(labels)
    if are_distinct and _UNKNOWN_LABEL not in labels:
        return list(labels)
    return [f"{name} (label {index})" for index, name in enumerate(labels)]


def _group_of_label(truth: int | None, names: Sequence[str]) -> str:
    """Return the name of the subgroup of a true label.

    Args:
        truth: The index of the label; ``None`` if it is not known.
        names: The names of all labels; empty if they are not known.
    """
    if truth is None:
        return _UNKNOWN_LABEL
    if truth >= len(names):
        return f"label {truth}"
    return names[truth]


def share_of_queries(paired: PairedScores, rows: Rows) -> float | None:
    """Return the share of the queries of two runs that are about some test rows.

    Args:
        paired: The two runs.
        rows: The test rows by condition.

    Returns:
        The share; ``None`` if it differs between conditions or between the runs.
    """
    shares = set()
    for run in (paired.first, paired.second):
        for condition, positions in run.positions.items():
            count = sum(1 for row, _ in positions if row in rows[condition])
            shares.add(count / len(positions))
    if len(shares) > 1:
        return None
    return shares.pop()


def adds_up(paired: PairedScores) -> bool:
    """Return whether the score of all rows is the mean of those of subgroups, weighted by their shares.

    This is so for means over queries, without missing queries.
    """
    return isinstance(paired.first.statistic, Mean) and paired.missing == (0, 0)

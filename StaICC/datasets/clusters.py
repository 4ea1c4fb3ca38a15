"""Clusters of rows: rows of a user's data set that share a document, a topic or a duplicate.

Rows of one cluster are not independent: a model that reads a document wrongly fails on several of its rows. So the
cluster is the unit of confidence intervals and tests. A data set has the *number* of the cluster of each row, never
what the rows share: numbers count the clusters in the order of the table, from 0. They do not depend on the values of
the column, so that a saved result does not contain names of documents or persons.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Hashable, Iterable, Sequence
from dataclasses import dataclass

from StaICC.argument_syntax import argument
from StaICC.datasets.further_columns import texts_of_values
from StaICC.datasets.records import Records
from StaICC.datasets.table import Row
from StaICC.errors import ArgumentError

ClusterRule = str | Callable[[Row], object] | None
"""What the rows of a cluster share: the name of a column, or a function of the row; ``None`` if rows are
independent."""

FUNCTION = "function"
"""The name of clusters that a function of the row makes."""


@dataclass(frozen=True, slots=True)
class Clusters:
    """The cluster of each row of a data set."""

    name: str
    """The column that rows of a cluster share, or ``"function"``."""
    numbers: tuple[int, ...]
    """The number of the cluster of each row, in the order of the table."""

    @property
    def count(self) -> int:
        """The number of clusters."""
        return len(set(self.numbers))


def column_of(rule: object) -> str | None:
    """Return the name of the cluster column that a rule is; ``None`` for a function, and without a rule.

    Raises:
        ArgumentError: The rule is neither a name nor a function.
    """
    if rule is None or callable(rule):
        return None
    if not isinstance(rule, str) or not rule:
        raise ArgumentError(
            f"{argument('cluster')}: got {rule!r:.60}, expected the name of a column, or a function of the row"
        )
    return rule


def clusters_of(records: Records, table: Iterable[Row], rule: ClusterRule) -> Clusters | None:
    """Return the clusters of the rows of a data set; ``None`` without a rule.

    Args:
        records: The rows as they were read, with the values of the cluster column if the rule is a column.
        table: The rows, checked.
        rule: What the rows of a cluster share.

    Raises:
        ArgumentError: A row has no value, a value is no text and no number, the rows have no such column, or all rows
            are one cluster.
    """
    if rule is None:
        return None
    name = column_of(rule) or FUNCTION
    if callable(rule):
        values: Sequence[object] = [rule(row) for row in table]
    else:
        values = _values_of_column(records, name)

    advice = "A row that shares nothing with other rows needs a value of its own"
    texts = texts_of_values(values, records, "the cluster", advice)
    numbers = _numbers_of_values(texts)
    if len(set(numbers)) == 1:
        raise ArgumentError(
            f"{argument('cluster')}: all {len(numbers)} rows are in one cluster, expected two or more clusters"
        )
    return Clusters(name, numbers)


def _values_of_column(records: Records, column: str) -> Sequence[object]:
    """Return the value of each row in the cluster column.

    Raises:
        ArgumentError: The rows were passed in a list by a script, so they have no columns.
    """
    if column not in records.further:
        raise ArgumentError(
            f"{argument('cluster')}: got {column!r}, but (text, label) pairs have no columns. Give a function of the "
            "row, such as cluster=lambda row: row.texts[0]"
        )
    return records.further[column]


def _numbers_of_values(values: Iterable[Hashable]) -> tuple[int, ...]:
    """Return a number for each value, the same for equal values, counted from 0 in the order of first occurrence.

    The values ``b, a, b`` have the numbers 0, 1 and 0.
    """
    number_of_value: dict[Hashable, int] = {}
    numbers = []
    for value in values:
        if value not in number_of_value:
            number_of_value[value] = len(number_of_value)
        numbers.append(number_of_value[value])
    return tuple(numbers)


def digest_of_clusters(numbers: Sequence[int]) -> str:
    """Return the SHA-256 of the cluster numbers of rows, the same for every way to number the same clusters.

    Args:
        numbers: The number of the cluster of each row.

    Example:
        >>> digest_of_clusters([5, 5, 7]) == digest_of_clusters([0, 0, 1])
        True
    """
    renumbered = json.dumps(_numbers_of_values(numbers), separators=(",", ":"))
    return hashlib.sha256(renumbered.encode()).hexdigest()

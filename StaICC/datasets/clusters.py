"""Clusters of rows: rows of a user's data set that share a document, a topic or a duplicate.

Rows of one cluster are not independent: a model that reads a document wrongly fails on several of its rows. So the
cluster is the unit of confidence intervals and tests. A data set has the *number* of the cluster of each row, never
what the rows share: numbers count the clusters in the order of the table, from 0. They do not depend on the values of
the column, so that a saved result does not contain names of documents or persons.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Iterable, Sequence
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
    column = column_of(rule)
    if callable(rule):
        values: Sequence[object] = [rule(row) for row in table]
        name = FUNCTION
    elif column is None:
        return None
    elif column not in records.further:
        raise ArgumentError(
            f"{argument('cluster')}: got {column!r}, but (text, label) pairs have no columns. Give a function of the "
            "row, such as cluster=lambda row: row.texts[0]"
        )
    else:
        values = records.further[column]
        name = column
    numbers = _numbered(values, records)
    if len(set(numbers)) == 1:
        raise ArgumentError(
            f"{argument('cluster')}: all {len(numbers)} rows are in one cluster, expected two or more clusters"
        )
    return Clusters(name, numbers)


def _numbered(values: Sequence[object], records: Records) -> tuple[int, ...]:
    """Return the number of the cluster of each row: clusters are counted in the order in which they first occur.

    Equal values are one cluster, as :func:`~StaICC.datasets.further_columns.texts_of_values` compares them.

    Args:
        values: What the rows of a cluster share, for each row.
        records: The rows, for messages.

    Raises:
        ArgumentError: A value is missing, or is no text and no number.
    """
    advice = "A row that shares nothing with other rows needs a value of its own"
    texts = texts_of_values(values, records, "the cluster", advice)
    number_of_text: dict[str, int] = {}
    return tuple([number_of_text.setdefault(text, len(number_of_text)) for text in texts])


def digest_of_clusters(numbers: Sequence[int]) -> str:
    """Return the SHA-256 of the cluster numbers of rows, the same for every way to number the same clusters.

    Args:
        numbers: The number of the cluster of each row.

    Example:
        >>> digest_of_clusters([5, 5, 7]) == digest_of_clusters([0, 0, 1])
        True
    """
    first_seen: dict[int, int] = {}
    renumbered = [first_seen.setdefault(number, len(first_seen)) for number in numbers]
    return hashlib.sha256(json.dumps(renumbered, separators=(",", ":")).encode()).hexdigest()

"""Subgroups of rows: in which group of a column each row of a user's data set is.

A subgroup has a name, such as the domain of a text, because comparisons print it. So the values of these columns are
part of saved results, unlike those of clusters.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, TypeGuard

from StaICC.argument_syntax import argument
from StaICC.datasets.further_columns import texts_of_values
from StaICC.datasets.records import Records
from StaICC.datasets.table import Row
from StaICC.errors import ArgumentError

SubgroupRule = str | Sequence[str] | Mapping[str, Callable[[Row], object]] | None
"""What the rows of a subgroup share: a column, several columns, or functions of the row by a name for each."""

Subgroups = Mapping[str, tuple[str, ...]]
"""For each column the subgroup of each row, in the order of the table."""

MOST_SUBGROUPS = 100
"""The largest number of subgroups of a column. A column with more values, such as an id, has too few rows of each."""
BY_LABEL = "label"
"""The name of the subgroups by true label, which need no column."""


def subgroup_columns(rule: Any) -> list[str]:
    """Return the names of the columns that a rule is; empty for functions, and without a rule.

    Raises:
        ArgumentError: The rule is none of the kinds of :data:`SubgroupRule`.
    """
    if rule is None:
        return []
    if isinstance(rule, Mapping):
        _check_functions(rule)
        return []
    names = [rule] if isinstance(rule, str) else rule
    if not _are_different_names(names):
        raise ArgumentError(
            f"{argument('subgroups')}: got {rule!r:.60}, expected the name of a column, several names, or functions of "
            "the row by name"
        )
    return [str(name) for name in names]


def _check_functions(functions: Mapping[Any, Any]) -> None:
    """Refuse a mapping that has anything but functions by a name.

    Raises:
        ArgumentError: A key is no name, or a value is no function.
    """
    for name, function in functions.items():
        is_name = isinstance(name, str) and name != ""
        if not is_name or not callable(function):
            raise ArgumentError(
                f"{argument('subgroups')}: got {name!r:.60}: {function!r:.60}, expected a name and a function"
            )


def _are_different_names(names: object) -> TypeGuard[Sequence[str]]:
    """Return whether a value is a list of texts, each once and none empty."""
    if not isinstance(names, (list, tuple)):
        return False
    for name in names:
        if not isinstance(name, str) or not name:
            return False
    return len(set(names)) == len(names)


def subgroups_of(records: Records, table: Iterable[Row], rule: SubgroupRule) -> Subgroups:
    """Return the subgroups of the rows of a data set.

    Args:
        records: The rows as they were read, with the values of the columns.
        table: The rows, checked.
        rule: What the rows of a subgroup share.

    Raises:
        ArgumentError: A row has no value, a value is no text and no number, the rows have no such column, or a column
            has too many values.
    """
    columns = subgroup_columns(rule)
    values_by_name: dict[str, Sequence[object]] = {}
    if isinstance(rule, Mapping):
        for name, function in rule.items():
            values_by_name[name] = [function(row) for row in table]
    for column in columns:
        if column not in records.further:
            raise ArgumentError(
                f"{argument('subgroups')}: got {column!r}, but (text, label) pairs have no columns. Give a function of "
                "the row, such as subgroups={'length': lambda row: 'long' if len(row.texts[0]) > 99 else 'short'}"
            )
        values_by_name[column] = records.further[column]

    subgroups = {}
    for name, values in values_by_name.items():
        subgroups[name] = _subgroup_of_rows(name, values, records)
    return subgroups


def _subgroup_of_rows(name: str, values: Sequence[object], records: Records) -> tuple[str, ...]:
    """Return the subgroup of each row as a text.

    Args:
        name: The column, or the name of the function.
        values: Its value for each row.
        records: The rows, for messages.

    Raises:
        ArgumentError: A value is missing, or is no text and no number; or there are too many values; or the name is
            that of the subgroups by label.
    """
    if name == BY_LABEL:
        raise ArgumentError(
            f"{argument('subgroups')}: got {name!r}, which is the name of the subgroups by true label. Rename "
            "the column"
        )
    advice = "Rows that belong to no group need a name, such as 'other'"
    groups = texts_of_values(values, records, f"the subgroup {name!r}", advice)
    count = len(set(groups))
    if count > MOST_SUBGROUPS:
        raise ArgumentError(
            f"{argument('subgroups')}: {name!r} has {count} values, expected at most {MOST_SUBGROUPS}: a subgroup "
            "needs several rows. Join values before you read the data"
        )
    return tuple(groups)

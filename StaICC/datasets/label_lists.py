"""Lists of labels: the labels of rows that have several each.

A data set with such rows has a label name for each set of labels: the JSON text of the list, such as
``["late", "refund"]``. The list has each label once, in the order of all labels, so rows with the same labels have the
same name. The single labels are in :attr:`~StaICC.datasets.catalogue.Card.labels_in_lists` of the card.
"""

from __future__ import annotations

import ast
import json
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import NamedTuple

from StaICC.argument_syntax import argument
from StaICC.datasets.label_values import (
    LabelReading,
    Labels,
    given_names,
    label_text,
    list_text,
    names_by_value,
    names_of_values,
    unnamed_label,
)
from StaICC.errors import ArgumentError


def values_in_list(value: str, separator: str | None) -> list[str] | None:
    """Return the values that the label of a row lists; ``None`` if it is no list.

    A list is written as JSON or as Python writes it, or as values with a separator between them.

    Args:
        value: The label of a row as text. A list of a format with types was converted to its JSON text.
        separator: The text between two values, if the user named one. A label without it lists one value.

    Example:
        >>> values_in_list('["late", "refund"]', None), values_in_list("['late']", None), values_in_list("late", None)
        (['late', 'refund'], ['late'], None)
        >>> values_in_list("late; refund;", ";")
        ['late', 'refund']
    """
    listed = _parse_list(value)
    if listed is not None:
        return listed
    if separator is None:
        return None
    parts = [part.strip() for part in value.split(separator)]
    return [part for part in parts if part]


def _parse_list(text: str) -> list[str] | None:
    """Return the values of a list as JSON or as Python (and pandas) write it; ``None`` for any other text.

    An empty list is no list of labels, and neither is one with values that are no labels, such as further lists.
    """
    has_brackets = text.startswith("[") and text.endswith("]")
    if not has_brackets:
        return None
    values = _parse_json_or_python(text)
    if not isinstance(values, list) or not values:
        return None
    try:
        return [label_text(value) for value in values]
    except ArgumentError:
        return None


def _parse_json_or_python(text: str) -> object:
    """Return the value of a text as JSON, otherwise as a literal of Python; ``None`` if it is neither."""
    for parse in (json.loads, ast.literal_eval):
        try:
            return parse(text)
        except (ValueError, SyntaxError, RecursionError, MemoryError):
            continue
    return None


def are_lists(values: Sequence[str], labels: Labels, separator: str | None, has_typed_list: bool) -> bool:
    """Return whether the labels of rows are lists of labels.

    They are if the user named a separator, or if the format of the rows has lists. Otherwise the labels are texts, and
    all of these must be written as lists, such as ``["late", "refund"]``. There is one exception: texts that the user
    named as the labels of the data set are single labels, even if they are written like lists.

    Args:
        values: The label of each row as text.
        labels: The names of the labels, checked.
        separator: The separator that the user named.
        has_typed_list: Whether a label is a list in the format of the rows.
    """
    if separator is not None or has_typed_list:
        return True
    different_values = set(values)
    values_with_a_name = names_by_value(labels).keys()
    if different_values <= values_with_a_name:
        return False
    return all(_parse_list(value) is not None for value in different_values)


def check_separator(separator: object) -> str | None:
    """Return the separator of labels, checked.

    Raises:
        ArgumentError: It is no text, or blank.
    """
    if separator is None:
        return None
    if not isinstance(separator, str) or not separator.strip():
        raise ArgumentError(
            f"{argument('label_separator')}: got {separator!r:.60}, expected the text between the labels of "
            "a row, such as ';'"
        )
    return separator


def refuse_unused_separator(values: Sequence[str], separator: str, source: str) -> None:
    """Refuse a separator of labels if no row has several labels: none has the separator, and none is a list.

    The user has probably named the wrong separator, or rows have one label each.

    Args:
        values: The label of each row as text.
        separator: The separator that the user named, checked.
        source: The file or the object, for messages; empty for rows that a script passes in a list.

    Raises:
        ArgumentError: No label has the separator, and none is written as a list.
    """
    for value in values:
        if separator in value or _parse_list(value) is not None:  # several labels, or a list of labels
            return
    where = f"{source}: " if source else ""
    raise ArgumentError(
        f"{where}{argument('label_separator', separator)}: none of the {len(values)} labels has {separator!r}, such as "
        f"{values[0]!r:.60}. Leave it out if each row has one label, otherwise name the text between its labels"
    )


def read_label_lists(
    values: Sequence[str],
    labels: Labels,
    separator: str | None,
    source: str,
    place: Callable[[int], str],
    untyped: bool = False,
) -> LabelReading:
    """Return the labels of rows that list several labels each: every different list becomes a label name.

    Args:
        values: The label of each row as text; none is empty.
        labels: The names of the single labels, checked.
        separator: The separator that the user named.
        source: The file or the object, for messages; empty for rows that a script passes in a list.
        place: Returns where a row is, by its number, for messages.
        untyped: Whether the values are from a format that has texts only.

    Raises:
        ArgumentError: A label has no name or two possible ones, or all rows have the same labels.
    """
    values_by_row = [values_in_list(value, separator) or [value] for value in values]
    name_of_single_value = _names_of_single_values(values_by_row, labels, source, place, untyped)
    single_labels = list(dict.fromkeys(name_of_single_value.values()))  # several values may have one name

    # Each list as the positions of its labels among the single labels: equal for lists with the same labels.
    position_of_label = {label: position for position, label in enumerate(single_labels)}
    position_of_value = {value: position_of_label[name] for value, name in name_of_single_value.items()}
    list_of_row = [_positions_in_order(row_values, position_of_value) for row_values in values_by_row]
    different_lists = sorted(set(list_of_row))
    if len(different_lists) < 2:
        where = f"{source}: " if source else ""
        raise ArgumentError(f"{where}all {len(values)} rows have the same labels, {values[0]!r:.80}")

    # Each different list is one label name of the data set.
    label_space = []
    for positions in different_lists:
        label_space.append(list_text([single_labels[position] for position in positions]))
    index_of_list = {positions: index for index, positions in enumerate(different_lists)}
    indexes = [index_of_list[positions] for positions in list_of_row]
    name_of_value = {}
    for value, index in sorted(set(zip(values, indexes, strict=True))):
        name_of_value[value] = label_space[index]
    return LabelReading(indexes, label_space, name_of_value, labels_in_lists=tuple(single_labels))


def _positions_in_order(values: Sequence[str], position_of_value: Mapping[str, int]) -> tuple[int, ...]:
    """Return the labels of a row as positions among all labels: each once, in order.

    So rows with the same labels are equal, in whatever order they list them.

    Args:
        values: The values in the list of the row.
        position_of_value: For each value, the position of its label.
    """
    positions = {position_of_value[value] for value in values}
    return tuple(sorted(positions))


def _names_of_single_values(
    values_by_row: Sequence[Sequence[str]],
    labels: Labels,
    source: str,
    place: Callable[[int], str],
    untyped: bool,
) -> dict[str, str]:
    """Return the label name of each value that a list has.

    Args:
        values_by_row: The values in the list of each row.
        labels: The names that the user gave, checked; ``None`` if the values are the names.
        source: The file or the object, for messages.
        place: Returns where a row is, by its number, for messages.
        untyped: Whether the values are from a format that has texts only.

    Raises:
        ArgumentError: A value has no name, or two possible ones.
    """
    row_counts: Counter[str] = Counter()
    for row_values in values_by_row:
        different_values = dict.fromkeys(row_values)  # in their order, because messages show the first one
        row_counts.update(different_values.keys())
    if labels is None:
        names = names_of_values(row_counts, row_counts.total(), source, untyped)
    else:
        names = given_names(labels, row_counts)
    for row_index, row_values in enumerate(values_by_row):
        for value in row_values:
            if value not in names:
                raise unnamed_label(value, names, place(row_index))
    return names


def labels_of_name(name: str) -> tuple[str, ...]:
    """Return the single labels in the label name of a list.

    Example:
        >>> labels_of_name('["late", "refund"]')
        ('late', 'refund')
    """
    return tuple(json.loads(name))


def rarest_labels(indexes: Sequence[int], space: Sequence[str]) -> tuple[int, ...]:
    """Return the rarest label of each row, as a number. A stratified split divides rows with several labels by it.

    A split by the sets of labels would not be stratified, because many sets have one row only. Of the labels of a row,
    the rarest is the one that a random split would most probably leave out of a part.

    Args:
        indexes: For each row, the index of its label name.
        space: The label names, each the JSON text of a list of labels, such as ``["late", "refund"]``.

    Returns:
        A number for each row; rows with the same rarest label have the same number.

    Source:
        Sechidis et al. 2011, "On the Stratification of Multi-label Data", who distribute rows by the rarest label.
    """
    labels_by_name = [labels_of_name(name) for name in space]
    row_counts: Counter[str] = Counter()  # how many rows have each label
    for name_index in indexes:
        row_counts.update(labels_by_name[name_index])
    number_of_label = {label: number for number, label in enumerate(row_counts)}

    def rarity(label: str) -> tuple[int, str]:
        """Return the key by which the rarest label is first; of several, the first one in the alphabet."""
        return row_counts[label], label

    rarest_by_name = {}
    for name_index in set(indexes):
        rarest_label = min(labels_by_name[name_index], key=rarity)
        rarest_by_name[name_index] = number_of_label[rarest_label]
    return tuple(rarest_by_name[name_index] for name_index in indexes)


def check_names_of_lists(space: Iterable[str], labels: Sequence[str], owner: str) -> None:
    """Refuse a card with a label name that is no list of its single labels.

    Args:
        space: The label names of the card.
        labels: The single labels of the card.
        owner: The card, for the message.

    Raises:
        ArgumentError: A name is not the JSON text of a list of these labels.
    """
    for name in space:
        if not _is_name_of_list(name, labels):
            raise ArgumentError(f"{owner}: the label {name!r:.80} is no list of the labels in 'labels_in_lists'")


def _is_name_of_list(name: str, labels: Sequence[str]) -> bool:
    """Return whether a label name is the JSON text of a list of labels, each once and in their order."""
    listed_labels = _parse_list(name)
    if listed_labels is None:
        return False
    is_json_of_library = list_text(listed_labels) == name
    labels_in_order = [label for label in labels if label in listed_labels]
    return is_json_of_library and listed_labels == labels_in_order


class LabelOfRow(NamedTuple):
    """One of the labels of a row."""

    row: int
    """The row, counted from 0."""
    label: int
    """The index of the label among the single labels."""


def labels_of_rows(indexes: Sequence[int], space: Sequence[str], labels: Sequence[str]) -> list[LabelOfRow]:
    """Return each label of each row, row by row, of rows that have several labels.

    Each combination of labels is one label name of the data set: the JSON text of a list, such as ``["late",
    "refund"]``.

    Args:
        indexes: For each row, the index of its label name.
        space: The label names.
        labels: The single labels, such as ``"late"``; the result has their indexes.
    """
    index_of_label = {label: index for index, label in enumerate(labels)}
    labels_of_all_rows = []
    for row_index, name_index in enumerate(indexes):
        for label in labels_of_name(space[name_index]):
            labels_of_all_rows.append(LabelOfRow(row_index, index_of_label[label]))
    return labels_of_all_rows

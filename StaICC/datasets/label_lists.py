"""Lists of labels: the labels of rows that have several each.

The name of such a row's label is the JSON text of its list, such as ``["late", "refund"]``. The list has each label
once, in the order of all labels, so rows with the same labels have the same name. A card with lists has all labels in
:attr:`~StaICC.datasets.catalogue.Card.labels_in_lists`.
"""

from __future__ import annotations

import ast
import json
from collections import Counter
from collections.abc import Callable, Iterable, Sequence

from StaICC.datasets.label_values import (
    LabelReading,
    Labels,
    given_names,
    label_text,
    list_text,
    names_by_value,
    names_of_values,
)
from StaICC.errors import ArgumentError, unknown_name


def values_in_list(value: str, separator: str | None) -> list[str] | None:
    """Return the values that a label lists; ``None`` if it is no list.

    Args:
        value: The label of a row as text. A list of a format with types is its JSON text here.
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
    """Return the values of a list as JSON or as Python (and pandas) write it; ``None`` for any other text."""
    if not (text.startswith("[") and text.endswith("]")):
        return None
    listed: object = None
    for parse in (json.loads, ast.literal_eval):
        try:
            listed = parse(text)
        except (ValueError, SyntaxError, RecursionError, MemoryError):
            continue
        break
    if not isinstance(listed, list) or not listed:
        return None
    try:
        return [label_text(element) for element in listed]
    except ArgumentError:
        return None


def are_lists(values: Sequence[str], labels: Labels, separator: str | None, has_typed_list: bool) -> bool:
    """Return whether the labels of rows are lists of labels.

    They are if the user named a separator, if the format has lists, or if each of the texts is a list. Texts that the
    user named as labels are labels, whatever they look like.

    Args:
        values: The label of each row as text.
        labels: The names of the labels, checked.
        separator: The separator that the user named.
        has_typed_list: Whether a label is a list in the format of the rows.
    """
    if separator is not None or has_typed_list:
        return True
    distinct_values = set(values)
    if distinct_values <= names_by_value(labels).keys():
        return False
    return all(_parse_list(value) is not None for value in distinct_values)


def check_separator(separator: object) -> str | None:
    """Return the separator of labels, checked.

    Raises:
        ArgumentError: It is no text, or blank.
    """
    if separator is None:
        return None
    if not isinstance(separator, str) or not separator.strip():
        raise ArgumentError(
            f"label_separator: got {separator!r:.60}, expected the text between the labels of a row, such as ';'"
        )
    return separator


def read_label_lists(
    values: Sequence[str],
    labels: Labels,
    separator: str | None,
    source: str,
    place: Callable[[int], str],
    untyped: bool = False,
) -> LabelReading:
    """Return the labels of rows that have several each.

    Args:
        values: The label of each row as text; none is empty.
        labels: The names of the single labels, checked.
        separator: The separator that the user named.
        source: The file or the object, for messages; empty for rows of a program.
        place: Returns where a row is, by its number, for messages.
        untyped: Whether the values are from a format that has texts only.

    Raises:
        ArgumentError: A label has no name or two possible ones, or all rows have the same labels.
    """
    values_by_row = [values_in_list(value, separator) or [value] for value in values]
    counts: Counter[str] = Counter()
    for row_values in values_by_row:
        counts.update(set(row_values))
    if labels is None:
        names = names_of_values(counts, counts.total(), source, untyped)
    else:
        names = given_names(labels, counts)
    for row_index, row_values in enumerate(values_by_row):
        for value in row_values:
            if value not in names:
                message = unknown_name("label", value, names)
                raise ArgumentError(f"{place(row_index)}: {message} Add it to the labels")

    single_labels = list(dict.fromkeys(names.values()))  # several values may have one name
    position_of_label = {label: position for position, label in enumerate(single_labels)}
    positions_by_value: dict[str, tuple[int, ...]] = {}
    for value, row_values in zip(values, values_by_row, strict=True):
        positions = {position_of_label[names[element]] for element in row_values}
        positions_by_value[value] = tuple(sorted(positions))

    distinct_lists = sorted(set(positions_by_value.values()))
    if len(distinct_lists) < 2:
        where = f"{source}: " if source else ""
        raise ArgumentError(f"{where}all {len(values)} rows have the same labels, {values[0]!r:.80}")
    index_of_list = {positions: index for index, positions in enumerate(distinct_lists)}
    space = [list_text([single_labels[position] for position in positions]) for positions in distinct_lists]
    name_of_value = {value: space[index_of_list[positions]] for value, positions in positions_by_value.items()}
    return LabelReading(
        indexes=[index_of_list[positions_by_value[value]] for value in values],
        space=space,
        name_of_value=dict(sorted(name_of_value.items())),
        labels_in_lists=tuple(single_labels),
    )


def labels_of_name(name: str) -> tuple[str, ...]:
    """Return the labels that the name of a list has.

    Example:
        >>> labels_of_name('["late", "refund"]')
        ('late', 'refund')
    """
    return tuple(json.loads(name))


def rarest_labels(indexes: Sequence[int], space: Sequence[str]) -> tuple[int, ...]:
    """Return for each row the rarest of its labels, by which a stratified split divides rows with several labels.

    Sets of labels are often unique, so that a split by sets would be no stratified one. The rarest label is the one
    that a random split would most probably leave out of a part. Sechidis et al. 2011, "On the Stratification of
    Multi-label Data", distribute rows by the rarest label, too.

    Args:
        indexes: The index of each row's list into the names.
        space: The names of the lists.

    Returns:
        A number for each row; rows with the same rarest label have the same number.
    """
    lists = [labels_of_name(name) for name in space]
    rows_with_label = Counter(label for index in indexes for label in lists[index])
    number_of_label = {label: number for number, label in enumerate(rows_with_label)}
    rarest_of_list = [min(labels, key=lambda label: (rows_with_label[label], label), default="") for labels in lists]
    return tuple(number_of_label[rarest_of_list[index]] for index in indexes)


def check_names_of_lists(space: Iterable[str], labels: Sequence[str], owner: str) -> None:
    """Refuse a card whose label names are no lists of its labels.

    Args:
        space: The label names of the card.
        labels: Its single labels.
        owner: The card, for the message.

    Raises:
        ArgumentError: A name is not the JSON text of a list of these labels.
    """
    for name in space:
        if not _is_name_of_list(name, labels):
            raise ArgumentError(f"{owner}: the label {name!r:.80} is no list of the labels in 'labels_in_lists'")


def _is_name_of_list(name: str, labels: Sequence[str]) -> bool:
    """Return whether a label name is the JSON text of a list of labels, each once and in their order."""
    listed = _parse_list(name)
    if listed is None or list_text(listed) != name:
        return False
    return listed == [label for label in labels if label in listed]


def rows_of_labels(indexes: Sequence[int], space: Sequence[str], labels: Sequence[str]) -> list[tuple[int, int]]:
    """Return a pair for each label of each row: the index of the row, and that of the label among the single labels.

    Args:
        indexes: The index of each row's list into the names.
        space: The names of the lists.
        labels: The single labels.
    """
    index_of_label = {label: index for index, label in enumerate(labels)}
    pairs = []
    for row_index, list_index in enumerate(indexes):
        for label in labels_of_name(space[list_index]):
            pairs.append((row_index, index_of_label[label]))
    return pairs

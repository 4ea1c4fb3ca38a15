"""Labels of rows: from the values of a label column to indexes of label names.

The same labels have the same names, whatever a file format or a library makes of them: the Boolean ``true`` of JSON and
pandas is the text ``True`` of a CSV file, and the number 1.0 is ``1``.
"""

from __future__ import annotations

import json
import math
from collections import Counter
from collections.abc import Callable, Container, Mapping, Sequence
from typing import Any, NamedTuple

from StaICC.argument_syntax import in_each_syntax
from StaICC.arguments import whole_number
from StaICC.errors import ArgumentError, unknown_name
from StaICC.safe_text import has_lone_surrogate

Labels = Sequence[str] | Mapping[Any, str] | None
"""Label names in the order of the label space, or by the labels of the rows; ``None`` for the labels of the rows."""


_MOST_DIGITS = 300
"""Most digits of a whole number that is a label: a longer one cannot be converted to a float."""


def label_text(value: object, known: Container[object] = ()) -> str:
    """Return the label of a row as text; empty if it is missing (nothing, NaN, blanks only).

    Args:
        value: The label.
        known: Labels with surrounding spaces, which are kept; those of other labels are removed.

    Example:
        >>> [label_text(value) for value in (" spam ", 1, 1.0, True, None, float("nan"), " ")]
        ['spam', '1', '1', 'True', '', '', '']
        >>> label_text(["late", 2])
        '["late", "2"]'

    Raises:
        ArgumentError: The value is neither a text nor a number, nor a list of these.
    """
    elements = elements_of(value)
    if elements is not None:
        return _text_of_list(elements)
    is_numpy_scalar = type(value).__module__ == "numpy" and hasattr(value, "item")
    if is_numpy_scalar:
        value = value.item()  # type: ignore[attr-defined]
    if value is None:
        return ""
    if isinstance(value, str):
        if has_lone_surrogate(value):
            raise ArgumentError(f"a label holds a lone surrogate: {value!r:.60}")
        if value in known:
            return str(value)
        return value.strip()
    if isinstance(value, bool):
        return str(value)
    if isinstance(value, float):
        return _text_of_float(value)
    whole = whole_number(value)
    if whole is None:
        raise ArgumentError(f"a label must be a text or a number: got {value!r:.60}")
    if abs(whole) >= 10**_MOST_DIGITS:
        raise ArgumentError(f"a label must be a text or a number of at most {_MOST_DIGITS} digits")
    return str(whole)


def elements_of(value: object) -> list[object] | None:
    """Return the elements of a label that is a list, a tuple or an array; ``None`` for a single label."""
    if isinstance(value, (list, tuple)):
        return list(value)
    is_numpy_array = type(value).__module__ == "numpy" and getattr(value, "ndim", 0) > 0
    if is_numpy_array:
        return list(value.tolist())  # type: ignore[attr-defined]
    return None


def _text_of_list(elements: Sequence[object]) -> str:
    """Return a list of labels as JSON text; empty for an empty list, which is a missing label.

    Raises:
        ArgumentError: An element is no label, or missing.
    """
    texts = []
    for element in elements:
        if elements_of(element) is not None:
            raise ArgumentError(f"a label must be a text or a number, or a list of these: got {elements!r:.60}")
        text = label_text(element)
        if not text:
            raise ArgumentError(f"a list of labels has an empty label: got {elements!r:.60}")
        texts.append(text)
    if not texts:
        return ""
    return list_text(texts)


def list_text(labels: Sequence[str]) -> str:
    """Return labels as the JSON text of a list, which is the name of a list of labels."""
    return json.dumps(list(labels), ensure_ascii=False)


def _text_of_float(value: float) -> str:
    """Return a number as text: ``1`` for 1.0, and nothing for NaN, which marks a missing label."""
    if math.isnan(value):
        return ""
    if value.is_integer():
        return str(int(value))
    return repr(value)


class LabelReading(NamedTuple):
    """The labels of the rows of a data set."""

    indexes: list[int]
    """The index of each row's label into the label space."""
    space: list[str]
    """The label names, in order."""
    name_of_value: dict[str, str]
    """The label name of each value of the rows, in the order of the label space."""
    labels_in_lists: tuple[str, ...] = ()
    """The single labels, if each label name is a list of them (:mod:`StaICC.datasets.label_lists`)."""


def read_labels(
    values: Sequence[str], labels: Labels, source: str, place: Callable[[int], str], untyped: bool = False
) -> LabelReading:
    """Return the label index of each row, the label space, and the label name of each value.

    Args:
        values: The label of each row, as :func:`label_text` writes it; none is empty.
        labels: The names of the labels, checked.
        source: The file or the object, for messages; empty for rows that a script passes in a list.
        place: Returns where a row is, by its number, for messages.
        untyped: Whether the values are from a format that has texts only.

    Raises:
        ArgumentError: A label has no name or two possible ones, or the labels are not those of a classification.
    """
    counts = Counter(values)
    if labels is None:
        names = names_of_values(counts, len(values), source, untyped)
    else:
        names = given_names(labels, counts)
    for row_index, value in enumerate(values):
        if value not in names:
            raise unnamed_label(value, names, place(row_index))

    label_space = list(dict.fromkeys(names.values()))  # several values may have one name
    index_of_name = {name: index for index, name in enumerate(label_space)}
    index_of_value = {value: index_of_name[names[value]] for value in counts}
    indexes = [index_of_value[value] for value in values]
    name_of_value = {}
    for value in sorted(counts, key=index_of_value.__getitem__):
        name_of_value[value] = names[value]
    return LabelReading(indexes, label_space, name_of_value)


def names_by_value(labels: Labels) -> dict[str, str]:
    """Return the name of each value that a user's labels state, before the values of the rows are known."""
    if labels is None:
        return {}
    if isinstance(labels, Mapping):
        return {label_text(value): str(name) for value, name in labels.items()}
    return {name: name for name in labels}


def given_names(labels: Sequence[str] | Mapping[Any, str], counts: Mapping[str, int]) -> dict[str, str]:
    """Return the name of each value that a user's labels state.

    A mapping states the names. In a list, the values are either all names or all indexes: with the labels ``["no",
    "yes"]``, the values may be ``no`` and ``yes``, or ``0`` and ``1``.

    Args:
        labels: The label names.
        counts: How many rows have each value.

    Raises:
        ArgumentError: A value may be an index and a name.
    """
    names = names_by_value(labels)
    if isinstance(labels, Mapping):
        return names
    name_of_index = {str(index): name for index, name in enumerate(labels)}
    all_are_names = counts.keys() <= names.keys()
    all_are_indexes = counts.keys() <= name_of_index.keys()
    if all_are_names or not all_are_indexes:
        return names  # the caller reports a value that has no name
    for value in counts:
        refuse_numbers_with_two_meanings(int(value), labels)
    return name_of_index


def unnamed_label(value: str, names: Mapping[str, str], place: str) -> ArgumentError:
    """Return the error about a label that is not among the labels that were named, for the caller to raise.

    Args:
        value: The label.
        names: Value -> name of each label.
        place: Where its row is.
    """
    message = unknown_name("label", value, names)
    where_labels_are_named = in_each_syntax("the labels", "'labels' of the card file")
    return ArgumentError(f"{place}: {message} Add it to {where_labels_are_named}, or correct the row")


def refuse_numbers_with_two_meanings(label: object, labels: Labels) -> None:
    """Refuse a number that is an index into a list of labels, and also the name of another label of the list.

    Args:
        label: The label of a row.
        labels: The names of the labels.

    Raises:
        ArgumentError: It is such a number: of ``["1", "0"]``, 0 may be the first label or the label ``"0"``.
    """
    if labels is None or isinstance(labels, Mapping) or isinstance(label, str):
        return
    index = whole_number(label)
    if index is None or not 0 <= index < len(labels):
        return
    label_at_index = labels[index]
    label_with_name = str(index)
    if label_with_name in labels and label_at_index != label_with_name:
        raise ArgumentError(
            f"the label {index} may be the index of {label_at_index!r} or the name {label_with_name!r} in the labels "
            f"{', '.join(map(repr, labels))}. Give the names instead of numbers, or say what each number means: "
            f"labels={{{index}: {label_at_index!r}, ...}}"
        )


def names_of_values(counts: Mapping[str, int], row_count: int, source: str, untyped: bool) -> dict[str, str]:
    """Return the name of each value, if no names are given: the values, in the order of numbers or of the alphabet.

    Args:
        counts: How many rows have each value.
        row_count: The number of rows.
        source: The file or the object, for messages.
        untyped: Whether the values are from a format that has texts only (CSV), so that a text may be a number.

    Raises:
        ArgumentError: All rows have one label, or each row has its own.
    """
    values = list(counts)
    _refuse_no_classes(values, row_count, source)
    if untyped:
        names = names_of_untyped(values)
    else:
        names = {value: value for value in values}

    def by_number(value: str) -> tuple[float, str]:
        """Return the sort key of a value that is a number."""
        return float(value), names[value]

    all_are_numbers = all(number_of(value) is not None for value in values)
    if all_are_numbers:
        values.sort(key=by_number)
    else:
        values.sort(key=names.__getitem__)
    return {value: names[value] for value in values}


def _refuse_no_classes(values: Sequence[str], row_count: int, source: str) -> None:
    """Refuse labels that are no classes.

    Args:
        values: The different labels.
        row_count: The number of rows.
        source: The file or the object, for messages.

    Raises:
        ArgumentError: All rows have one label, or each row has its own.
    """
    where = f"{source}: " if source else ""
    if len(values) < 2:
        python_argument = "labels" if source else "label_space"
        all_labels = in_each_syntax(
            f"name all labels with {python_argument}=[...]", "list all labels under [labels] in its card"
        )
        raise ArgumentError(
            f"{where}all {row_count} rows have the label {values[0]!r}. Classification needs at least two labels: "
            f"choose another label column, or {all_labels}"
        )
    if row_count > 2 and len(values) == row_count:
        raise ArgumentError(
            f"{where}each of the {row_count} rows has a label of its own, such as {values[0]!r}. Choose the column of "
            "the classes as the label column"
        )


def names_of_untyped(values: Sequence[str]) -> dict[str, str]:
    """Return the names of the values of a format that has texts only, as formats with types would have them.

    ``true`` and ``TRUE`` are ``True``, if *all* values are Booleans. ``1.0`` is ``1``, if all values are what programs
    write for floating-point numbers: ``3.10`` is not, so versions, codes and other digits keep their spelling. Values
    that would get one name keep their spellings, so that no two labels become one.

    Example:
        >>> names_of_untyped(["false", "TRUE"])
        {'false': 'False', 'TRUE': 'True'}
        >>> names_of_untyped(["0.0", "0.5", "1.0"])
        {'0.0': '0', '0.5': '0.5', '1.0': '1'}
        >>> names_of_untyped(["3.9", "3.10", "4.0"])
        {'3.9': '3.9', '3.10': '3.10', '4.0': '4.0'}
    """
    spellings = {value: value for value in values}
    all_are_booleans = all(value.casefold() in ("true", "false") for value in values)
    if all_are_booleans:
        names = {value: value.capitalize() for value in values}
    elif all(_is_written_float(value) for value in values):
        names = {value: _text_of_float(float(value)) for value in values}
    else:
        names = spellings
    several_values_have_one_name = len(set(names.values())) < len(names)
    if several_values_have_one_name:
        return spellings
    return names


def _is_written_float(text: str) -> bool:
    """Return whether a text is what Python writes for a finite floating-point number."""
    number = number_of(text)
    return number is not None and repr(number) == text


def number_of(text: str) -> float | None:
    """Return the finite number that a text is; ``None`` for other texts."""
    try:
        number = float(text)
    except ValueError:
        return None
    return number if math.isfinite(number) else None

"""Columns of a user's data set that say what its rows share, such as a document or a domain."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence

from StaICC.argument_syntax import argument
from StaICC.datasets.label_values import elements_of, label_text
from StaICC.datasets.records import Records
from StaICC.errors import ArgumentError


def refuse_label(argument_name: str, columns: Sequence[str], label: str, where: str, advice: str) -> None:
    """Raise an ArgumentError if the label column is among the further columns of an argument.

    Args:
        argument_name: The argument, for the message.
        columns: The columns that it names.
        label: The name of the label column.
        where: The file or the object, for the message.
        advice: What to do instead, for the message.
    """
    if label not in columns:
        return
    raise ArgumentError(f"{where}: {argument(argument_name)}: got the label column {label!r}. {advice}")


def columns_to_read(texts: Sequence[str], label: str, further: Sequence[str]) -> list[str]:
    """Return the columns to read: the texts, the further columns that are no texts, and the label last.

    Args:
        texts: The names of the text columns.
        label: The name of the label column.
        further: The names of the further columns; one that is a text is read once.
    """
    columns = list(texts)
    for name in further:
        if name not in columns:
            columns.append(name)
    columns.append(label)
    return columns


def with_further_columns(records: Records, texts: Sequence[str], label: str, further: Sequence[str]) -> Records:
    """Return records with the texts and the values of the further columns apart.

    Columns are read together (:func:`columns_to_read`), so the records have the further values as if they were texts.
    With the text column ``text`` and the further column ``topic``, the row ``(("It rains.", "weather"), "no")`` becomes
    ``(("It rains.",), "no")``, and ``further`` gets ``{"topic": ["weather"]}``.

    Args:
        records: The records as they were read.
        texts: The names of the text columns.
        label: The name of the label column.
        further: The names of the further columns.
    """
    if not further:
        return records
    columns_read = columns_to_read(texts, label, further)
    values_by_column = {}
    for name in further:
        position = columns_read.index(name)
        values_by_column[name] = [values[position] for values, _ in records.rows]

    text_count = len(texts)
    rows = [(tuple(values[:text_count]), label) for values, label in records.rows]
    remaining_columns = []
    for name in records.columns:
        is_further_only = name in further and name not in texts
        if not is_further_only:
            remaining_columns.append(name)
    file = records.file
    if file is not None:
        file = dataclasses.replace(file, texts=tuple(texts))
    return dataclasses.replace(records, rows=rows, columns=remaining_columns, file=file, further=values_by_column)


def texts_of_values(values: Sequence[object], records: Records, name: str, advice: str) -> list[str]:
    """Return what rows share as texts, one for each row.

    Values are equal if they are equal as labels (:func:`~StaICC.datasets.label_values.label_text`), so that they are
    the same in every file format: 7, 7.0, ``"7"`` and ``"7 "`` are one value, and blanks are a missing one.

    Args:
        values: What the rows share, for each row.
        records: The rows, for messages.
        name: What a value is, for messages, such as ``"the cluster"``.
        advice: What to do about a row without a value.

    Raises:
        ArgumentError: A value is missing, or is no text and no number.
    """
    texts = []
    for row_index, value in enumerate(values):
        text = _text_of_value(value)
        if not text:
            raise ArgumentError(
                f"{records.place(row_index)}: {name} is {value!r:.60}, expected a text or a number. {advice}"
            )
        texts.append(text)
    return texts


def _text_of_value(value: object) -> str:
    """Return a value as a text; empty if it is missing, or neither a text nor a number."""
    if elements_of(value) is not None:  # a list of labels is a label, but no single value
        return ""
    try:
        return label_text(value)
    except ArgumentError:
        return ""

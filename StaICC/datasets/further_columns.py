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
    other_columns = [name for name in dict.fromkeys(further) if name not in texts]
    return [*texts, *other_columns, label]


def with_further_columns(records: Records, texts: Sequence[str], label: str, further: Sequence[str]) -> Records:
    """Return records with the values of the further columns, which are taken out of the texts.

    Columns are read as texts and label (:func:`columns_to_read`), so the values are behind the texts first.

    Args:
        records: The records as they were read.
        texts: The names of the text columns.
        label: The name of the label column.
        further: The names of the further columns.
    """
    if not further:
        return records
    names_read = columns_to_read(texts, label, further)[:-1]
    values_by_column = {}
    for name in dict.fromkeys(further):
        position = names_read.index(name)
        values_by_column[name] = [values[position] for values, _ in records.rows]
    rows = [(tuple(values[: len(texts)]), label) for values, label in records.rows]
    columns = [name for name in records.columns if name in texts or name not in further]
    file = records.file
    if file is not None:
        file = dataclasses.replace(file, texts=tuple(texts))
    return dataclasses.replace(records, rows=rows, columns=columns, file=file, further=values_by_column)


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

"""Checks of a user's rows: all problems are found first, then reported at once."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from StaICC.datasets.catalogue import LABEL_NAMES
from StaICC.datasets.label_values import Labels, label_text, names_by_value, refuse_numbers_with_two_meanings
from StaICC.datasets.records import Records
from StaICC.datasets.row_problems import RowProblem, refuse_rows
from StaICC.datasets.table import is_list_of_values
from StaICC.errors import ArgumentError
from StaICC.safe_text import has_lone_surrogate


def check_label_names(labels: Labels) -> Labels:
    """Return label names after checking them: at least two, each once, and none empty.

    Raises:
        ArgumentError: They are not.
    """
    if labels is None:
        return None
    several = isinstance(labels, Sequence | Mapping) and not isinstance(labels, str)
    names = [*map(str, labels.values() if isinstance(labels, Mapping) else labels)] if several else []
    twice = isinstance(labels, Sequence) and len(set(names)) < len(names)
    if twice or len(set(names)) < 2 or not all(map(str.strip, names)):
        expected = f"{LABEL_NAMES}: a list, or a mapping of the rows' labels to names"
        raise ArgumentError(f"label names: got {labels!r:.200}, expected {expected}")
    return labels if isinstance(labels, Mapping) else names


def checked_labels(records: Records, labels: Labels) -> list[str]:
    """Return the labels of rows as texts, after checking their texts and labels.

    Raises:
        ArgumentError: A row cannot be used. All problems are in the message, each kind with its first rows. Or a label
            is a number with two meanings.
    """
    values, problems = _texts_of_labels(records, labels)
    if records.malformed is not None:
        problems.insert(0, records.malformed)
    problems += _problems_of_texts(records)
    rows = len(records.rows) + (len(records.malformed.numbers) if records.malformed else 0)
    refuse_rows(problems, rows, records.unit)
    return values


_UNREADABLE = "?"
"""In the place of a label that cannot be read. It is not empty, because an empty one is missing."""


def _texts_of_labels(records: Records, labels: Labels) -> tuple[list[str], list[RowProblem]]:
    """Return the labels of rows as texts, and what is wrong with them: no text and no number, or missing.

    Raises:
        ArgumentError: A label is a number with two meanings: not a fault of its row, but of the label names.
    """
    names = names_by_value(labels)
    values: list[str] = []
    unreadable: dict[int, str] = {}
    text_of: dict[str, str] = {}  # many rows have few labels
    for number, (_, label) in enumerate(records.rows):
        if isinstance(label, str) and label in text_of:
            values.append(text_of[label])
            continue
        try:
            refuse_numbers_with_two_meanings(label, labels)
        except ArgumentError as error:
            raise ArgumentError(f"{records.place(number)}: {error}") from None
        try:
            text = label_text(label, names)
        except ArgumentError as error:
            column = f", column {records.columns[-1]!r}" if records.columns else ""
            unreadable[number] = f"{records.place(number)}{column}: {error}"
            values.append(_UNREADABLE)
            continue
        values.append(text)
        if isinstance(label, str):
            text_of[label] = text
    problems = []
    if unreadable:
        first = next(iter(unreadable.values()))
        problems.append(_problem(records, list(unreadable), first, "Correct or remove these rows"))
    missing = [number for number, value in enumerate(values) if not value]
    if missing:
        first = f"{records.place(missing[0])} has no label"
        problems.append(_problem(records, missing, first, "Remove or fill in these rows"))
    return values, problems


def _problems_of_texts(records: Records) -> list[RowProblem]:
    """Return what is wrong with the texts of rows: no text, no string, or no Unicode text."""
    wrong_type: dict[int, str] = {}
    surrogates: dict[int, str] = {}
    empty: list[int] = []
    for number, (given, _) in enumerate(records.rows):
        texts = (given,) if isinstance(given, str) else given
        if not is_list_of_values(texts):
            continue  # the table refuses it
        for column, text in enumerate(texts):
            is_valid = isinstance(text, str) and not has_lone_surrogate(text)
            if not is_valid:
                name = f"column {records.columns[column]!r}" if records.columns else f"text {column}"
                where = f"{records.place(number)}: {name}"
                if isinstance(text, str):
                    surrogates.setdefault(number, f"{where} holds a lone surrogate: {text!r:.80}")
                else:
                    wrong_type.setdefault(number, f"{where} must be a string, not {text!r:.80}")
        if texts and all(isinstance(text, str) and not text.strip() for text in texts):
            empty.append(number)
    problems = []
    if empty:
        first = f"{records.place(empty[0])} has no text"
        problems.append(_problem(records, empty, first, "Remove these rows"))
    for found in (wrong_type, surrogates):
        if found:
            first = next(iter(found.values()))
            problems.append(_problem(records, list(found), first, "Correct or remove these rows"))
    return problems


def _problem(records: Records, rows: Sequence[int], first: str, advice: str) -> RowProblem:
    return RowProblem(first, advice, [records.numbers[row] for row in rows])

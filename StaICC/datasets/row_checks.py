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

    Args:
        labels: A list of names, which are returned as texts; a mapping of the rows' labels to names, of which several
            may have one name; or ``None``.

    Raises:
        ArgumentError: They are not as said.
    """
    if labels is None:
        return None
    if isinstance(labels, Mapping):
        names = [str(name) for name in labels.values()]
        names_are_unique = True  # several labels of rows may be one class
    elif isinstance(labels, Sequence) and not isinstance(labels, str):
        names = [str(name) for name in labels]
        names_are_unique = len(set(names)) == len(names)
    else:
        names = []
        names_are_unique = True
    has_two_names = len(set(names)) >= 2
    has_empty_name = not all(name.strip() for name in names)
    if not names_are_unique or not has_two_names or has_empty_name:
        raise ArgumentError(
            f"label names: got {labels!r:.200}, expected {LABEL_NAMES}: a list, or a mapping of the rows' labels to "
            "names"
        )
    if isinstance(labels, Mapping):
        return labels
    return names


def checked_labels(records: Records, labels: Labels) -> list[str]:
    """Return the labels of rows as texts, after checking the rows.

    Args:
        records: The rows.
        labels: The label names, checked.

    Raises:
        ArgumentError: A row cannot be used; the message has all problems, each kind with its first rows. Or a label is
            a number with two meanings.
    """
    values, label_problems = _texts_of_labels(records, labels)
    problems = []
    row_count = len(records.rows)
    if records.malformed is not None:
        problems.append(records.malformed)
        row_count += len(records.malformed.numbers)
    problems += label_problems
    problems += _problems_of_texts(records)
    refuse_rows(problems, row_count, records.unit)
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
    unreadable = _Findings()
    missing = _Findings()
    text_of_label: dict[str, str] = {}  # many rows have few labels, so each is read once
    for row_index, (_, label) in enumerate(records.rows):
        if isinstance(label, str) and label in text_of_label:
            values.append(text_of_label[label])
            continue
        try:
            refuse_numbers_with_two_meanings(label, labels)
        except ArgumentError as error:
            raise ArgumentError(f"{records.place(row_index)}: {error}") from None
        try:
            text = label_text(label, names)
        except ArgumentError as error:
            unreadable.add(row_index, f"{_place_of_label(records, row_index)}: {error}")
            values.append(_UNREADABLE)
            continue
        values.append(text)
        if isinstance(label, str):
            text_of_label[label] = text
    for row_index, value in enumerate(values):
        if not value:
            missing.add(row_index, f"{records.place(row_index)} has no label")
    problems = []
    if unreadable.rows:
        problems.append(unreadable.problem(records, "Correct or remove these rows"))
    if missing.rows:
        problems.append(missing.problem(records, "Remove or fill in these rows"))
    return values, problems


def _place_of_label(records: Records, row_index: int) -> str:
    """Return where a label is, for messages."""
    place = records.place(row_index)
    if not records.columns:
        return place
    return f"{place}, column {records.columns[-1]!r}"


def _problems_of_texts(records: Records) -> list[RowProblem]:
    """Return what is wrong with the texts of rows: no text, no string, or no Unicode text."""
    empty = _Findings()
    wrong_type = _Findings()
    surrogates = _Findings()
    for row_index, (text_or_texts, _) in enumerate(records.rows):
        texts = (text_or_texts,) if isinstance(text_or_texts, str) else text_or_texts
        if not is_list_of_values(texts):
            continue  # the table refuses it
        is_empty = len(texts) > 0
        for column, text in enumerate(texts):
            if not isinstance(text, str):
                where = _place_of_text(records, row_index, column)
                wrong_type.add(row_index, f"{where} must be a string, not {text!r:.80}")
                is_empty = False
                continue
            if has_lone_surrogate(text):
                where = _place_of_text(records, row_index, column)
                surrogates.add(row_index, f"{where} holds a lone surrogate: {text!r:.80}")
            if text.strip():
                is_empty = False
        if is_empty:
            empty.add(row_index, f"{records.place(row_index)} has no text")
    problems = []
    if empty.rows:
        problems.append(empty.problem(records, "Remove these rows"))
    if wrong_type.rows:
        problems.append(wrong_type.problem(records, "Correct or remove these rows"))
    if surrogates.rows:
        problems.append(surrogates.problem(records, "Correct or remove these rows"))
    return problems


def _place_of_text(records: Records, row_index: int, column: int) -> str:
    """Return where a text is, for messages."""
    name = f"column {records.columns[column]!r}" if records.columns else f"text {column}"
    return f"{records.place(row_index)}: {name}"


class _Findings:
    """The rows with one kind of problem, and the message about the first of them."""

    def __init__(self) -> None:
        self.rows: list[int] = []
        self.message = ""

    def add(self, row_index: int, message: str) -> None:
        """Note that a row has the problem; a row counts once."""
        if not self.rows:
            self.message = message
        is_noted = bool(self.rows) and self.rows[-1] == row_index
        if not is_noted:
            self.rows.append(row_index)

    def problem(self, records: Records, advice: str) -> RowProblem:
        """Return the problem, with the rows as they are counted in messages."""
        return RowProblem(self.message, advice, [records.numbers[row_index] for row_index in self.rows])

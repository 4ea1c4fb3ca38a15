"""Checks of a user's rows: all problems are found first, then reported at once."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from StaICC.datasets.catalogue import LABEL_NAMES, are_label_names
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
        different_names = {str(name) for name in labels.values()}  # several labels of rows may be one class
        if are_label_names(list(different_names)):
            return labels
    elif isinstance(labels, Sequence) and not isinstance(labels, str):
        names = [str(name) for name in labels]
        if are_label_names(names):
            return names
    raise ArgumentError(
        f"label names: got {labels!r:.200}, expected {LABEL_NAMES}: a list, or a mapping of the rows' labels to names"
    )


def checked_labels(records: Records, labels: Labels) -> list[str]:
    """Return the labels of rows as texts, after checking the rows.

    Args:
        records: The rows.
        labels: The label names, checked.

    Raises:
        ArgumentError: A row cannot be used; the message has all problems, each kind with its first rows. Or a label is
            a number with two meanings.
    """
    read_labels = _read_labels(records, labels)
    problems = []
    row_count = len(records.rows)
    if records.malformed is not None:
        problems.append(records.malformed)
        row_count += len(records.malformed.numbers)
    problems += read_labels.problems
    problems += _problems_of_texts(records)
    refuse_rows(problems, row_count, records.unit)
    return read_labels.texts


_UNREADABLE = "?"
"""In the place of a label that cannot be read. It is not empty, because an empty one is missing."""


@dataclass(frozen=True, slots=True)
class _ReadLabels:
    """The labels of rows as texts, with what is wrong with them."""

    texts: list[str]
    """The label of each row; if there are problems, empty for a missing one, and :data:`_UNREADABLE`."""
    problems: list[RowProblem]


def _read_labels(records: Records, labels: Labels) -> _ReadLabels:
    """Return the labels of rows as texts, and the problems of rows without a usable label.

    A label that is neither a text nor a number is one kind of problem, and a missing label is another one.

    Args:
        records: The rows.
        labels: The label names, checked.

    Raises:
        ArgumentError: A label is a number with two meanings: not a fault of its row, but of the label names.
    """
    names = names_by_value(labels)
    texts: list[str] = []
    unreadable = _Findings("Correct or remove these rows")
    text_of_label: dict[str, str] = {}  # the labels that were read: many rows have one of few labels
    for row_index, (_, label) in enumerate(records.rows):
        if isinstance(label, str) and label in text_of_label:
            texts.append(text_of_label[label])
            continue
        try:
            refuse_numbers_with_two_meanings(label, labels)
        except ArgumentError as error:
            raise ArgumentError(f"{records.place(row_index)}: {error}") from None
        try:
            text = label_text(label, names)
        except ArgumentError as error:
            unreadable.add(row_index, f"{_place_of_label(records, row_index)}: {error}")
            texts.append(_UNREADABLE)
            continue
        texts.append(text)
        if isinstance(label, str):
            text_of_label[label] = text

    missing = _Findings("Remove or fill in these rows")
    for row_index, text in enumerate(texts):
        if not text:
            missing.add(row_index, f"{records.place(row_index)} has no label")
    return _ReadLabels(texts, _problems_found(records, unreadable, missing))


def _place_of_label(records: Records, row_index: int) -> str:
    """Return where a label is, for messages."""
    place = records.place(row_index)
    if not records.columns:
        return place
    return f"{place}, column {records.columns[-1]!r}"


def _problems_of_texts(records: Records) -> list[RowProblem]:
    """Return what is wrong with the texts of rows, one problem for each kind: no text, no string, no Unicode text."""
    # Each kind of problem collects its rows, and has the advice about them.
    empty = _Findings("Remove these rows")
    wrong_type = _Findings("Correct or remove these rows")
    surrogates = _Findings("Correct or remove these rows")
    for row_index, (text_or_texts, _) in enumerate(records.rows):
        texts = (text_or_texts,) if isinstance(text_or_texts, str) else text_or_texts
        if not is_list_of_values(texts):
            continue  # a row without texts; MemoryTable refuses it with its own message
        if _are_blank(texts):
            empty.add(row_index, f"{records.place(row_index)} has no text")
        for column, text in enumerate(texts):
            if not isinstance(text, str):
                where = _place_of_text(records, row_index, column)
                wrong_type.add(row_index, f"{where} must be a string, not {text!r:.80}")
            elif has_lone_surrogate(text):
                where = _place_of_text(records, row_index, column)
                surrogates.add(row_index, f"{where} holds a lone surrogate: {text!r:.80}")
    return _problems_found(records, empty, wrong_type, surrogates)


def _are_blank(texts: Sequence[object]) -> bool:
    """Return whether there are texts, and all of them are blank."""
    for text in texts:
        if not isinstance(text, str) or text.strip():
            return False
    return len(texts) > 0


def _place_of_text(records: Records, row_index: int, column: int) -> str:
    """Return where a text is, for messages."""
    name = f"column {records.columns[column]!r}" if records.columns else f"text {column}"
    return f"{records.place(row_index)}: {name}"


class _Findings:
    """The rows with one kind of problem, and the message about the first of them.

    Args:
        advice: What to do about such rows.
    """

    def __init__(self, advice: str) -> None:
        self.advice = advice
        self.message = ""
        self.rows: list[int] = []

    def add(self, row_index: int, message: str) -> None:
        """Note that a row has the problem. Rows are added in order; a row counts once."""
        if not self.rows:
            self.message = message
        elif self.rows[-1] == row_index:
            return
        self.rows.append(row_index)


def _problems_found(records: Records, *kinds: _Findings) -> list[RowProblem]:
    """Return the problems that at least one row has, with the rows as they are counted in messages."""
    problems = []
    for findings in kinds:
        if findings.rows:
            numbers = [records.numbers[row_index] for row_index in findings.rows]
            problems.append(RowProblem(findings.message, findings.advice, numbers))
    return problems

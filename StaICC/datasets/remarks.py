"""Remarks: what is suspicious, but possible, about the rows of a user's data set. A run repeats them as warnings.

Each check has one function, which returns a sentence with the first row that it concerns, or nothing.
"""

from __future__ import annotations

import re
import unicodedata
from collections import Counter
from collections.abc import Callable, Container, Sequence
from dataclasses import dataclass

from StaICC.argument_syntax import argument_and_option
from StaICC.datasets.label_values import number_of

_FREQUENT = 5
"""A label with one row is suspicious if two other labels have at least so many rows."""
_SINGLE_SHARE = 0.1
"""Labels with one row are usual, as in a data set of many labels, if more of the rows have such labels."""
_MANY_NUMBERS = 20
"""More different numbers than these, in a column of labels, may be measurements."""
_ID_SHARE = 0.9
"""If so many of the texts look like identifiers, the column may be the wrong one."""
_LEAST_ROWS_FOR_IDENTIFIERS = 10
"""In a table of fewer rows, short texts may look like identifiers by chance."""
_MISSING_WORDS = frozenset(
    ("-1", "-99", "-999", "na", "n/a", "#n/a", "nan", "none", "null", "nil", "undefined", "missing", "?", "-", "true")
)
"""Labels, in lower case, that programs write for a row without a label; :func:`is_usual_class` has the exceptions."""
_LIST = re.compile(r"\[.*\]|\{.*\}|\(.*,.*\)", re.DOTALL)
_SEPARATORS = (";", "|")
"""Characters that usually separate several labels of one text."""
_LOOK_ALIKE = str.maketrans(
    # Cyrillic and Greek letters, each with the Latin letter of the same shape.
    "\u0430\u0435\u043e\u0440\u0441\u0443\u0445\u0456\u0458\u0455\u04bb\u0501"
    "\u0410\u0412\u0415\u041a\u041c\u041d\u041e\u0420\u0421\u0422\u0423\u0425\u0406\u0408\u0405"
    "\u03b1\u03bf\u03c1\u03bd\u03b9\u0391\u0392\u0395\u0396\u0397\u0399\u039a\u039c\u039d\u039f\u03a1\u03a4\u03a5\u03a7",
    "aeopcyxijshdABEKMHOPCTYXIJSaopviABEZHIKMNOPTYX",
)
_SCRIPTS = ("LATIN", "CYRILLIC", "GREEK")


@dataclass(frozen=True, slots=True)
class RowsToCheck:
    """The rows of a data set, as the checks read them."""

    texts: Sequence[tuple[str, ...]]
    given_labels: Sequence[object]
    """The labels as they were given."""
    indexes: Sequence[int]
    """The label index of each row."""
    space: Sequence[str]
    """The label names."""
    place: Callable[[int], str]
    """Returns where a row is, for a sentence."""

    def first_with(self, label: int) -> str:
        """Return the place of the first row with a label; the label has one."""
        return self.place(self.indexes.index(label))

    def counts(self) -> Counter[int]:
        """Return how many rows each label has."""
        return Counter(self.indexes)

    def labels_with_rows(self) -> list[int]:
        """Return the labels that at least one row has, in the order of the label space."""
        return sorted(set(self.indexes))


def remarks_on(rows: RowsToCheck) -> tuple[str, ...]:
    """Return what is suspicious about rows, one sentence each."""
    return (*remarks_on_labels(rows), *remarks_on_texts(rows))


def remarks_on_labels(rows: RowsToCheck) -> tuple[str, ...]:
    """Return what is suspicious about the labels of rows, one sentence each."""
    return _sentences_of(_CHECKS_OF_LABELS, rows)


def remarks_on_texts(rows: RowsToCheck) -> tuple[str, ...]:
    """Return what is suspicious about the texts of rows, one sentence each."""
    return _sentences_of(_CHECKS_OF_TEXTS, rows)


def _sentences_of(checks: Sequence[Callable[[RowsToCheck], str | None]], rows: RowsToCheck) -> tuple[str, ...]:
    """Return the sentences of checks that have something to say."""
    sentences = []
    for check in checks:
        sentence = check(rows)
        if sentence is not None:
            sentences.append(sentence)
    return tuple(sentences)


def spaces_around_labels(rows: RowsToCheck) -> str | None:
    """Return a remark on labels with surrounding spaces, which are removed; ``None`` if there are none."""
    spaced_count = 0
    for label in rows.given_labels:
        has_spaces = isinstance(label, str) and label != label.strip()
        if has_spaces and label not in rows.space:  # a label name with spaces keeps them
            spaced_count += 1
    if spaced_count == 0:
        return None
    subject = "one row has a label" if spaced_count == 1 else f"{spaced_count} rows have labels"
    return f"{subject} with surrounding spaces, which are not part of the label"


def spellings_of_one_label(rows: RowsToCheck) -> str | None:
    """Return a remark on labels that look alike; ``None`` if there are none.

    They differ only in case, blanks, Unicode form, letters of the same shape, or the form of a number.
    """
    counts = rows.counts()
    sentences = []
    for labels in _labels_that_look_alike(rows.space):
        listed = ", ".join(repr(rows.space[label]) for label in labels)
        sentence = f"the labels {listed} differ only in spelling; they are different labels. Is one a mistake?"
        labels_with_rows = [label for label in labels if counts[label] > 0]
        if labels_with_rows:
            rarest = min(labels_with_rows, key=counts.__getitem__)
            sentence += f" {rows.space[rarest]!r} has {counts[rarest]} rows (first: {rows.first_with(rarest)})"
        sentences.append(sentence)
    if not sentences:
        return None
    return ". ".join(sentences)


def _labels_that_look_alike(space: Sequence[str]) -> list[list[int]]:
    """Return the groups of two or more labels that are one number, or have one spelling key.

    Of the label names ``Yes``, ``no`` and ``yes``, the labels 0 and 2 are a group.
    """
    labels_by_key: dict[object, list[int]] = {}
    for label, name in enumerate(space):
        key: object = number_of(name)
        if key is None:
            key = spelling_key(name)
        labels_by_key.setdefault(key, []).append(label)
    return [labels for labels in labels_by_key.values() if len(labels) > 1]


def two_scripts_in_a_label(rows: RowsToCheck) -> str | None:
    """Return a remark on a label with letters of two scripts in one word, such as Cyrillic and Latin; else ``None``."""
    for label in rows.labels_with_rows():
        name = rows.space[label]
        for word in name.split():
            scripts = scripts_of(word)
            if len(scripts) > 1:
                listed = " and ".join(script.capitalize() for script in scripts)
                return f"the label {name!r} has {listed} letters in one word (first: {rows.first_with(label)})"
    return None


def numbers_as_labels(rows: RowsToCheck) -> str | None:
    """Return a remark on labels that are numbers: measurements, or names without a meaning; ``None`` for others."""
    numbers = []
    for name in rows.space:
        number = number_of(name)
        if number is not None:
            numbers.append(number)
    most_labels_are_numbers = len(numbers) * 2 > len(rows.space)
    if not most_labels_are_numbers:
        return None
    has_fractions = any(not number.is_integer() for number in numbers)
    has_few_rows_of_each = len(numbers) * 4 > len(rows.indexes)
    if len(numbers) > _MANY_NUMBERS and (has_fractions or has_few_rows_of_each):
        shown = ", ".join(rows.space[:3])
        return (
            f"the label column has {len(numbers)} different numbers in {len(rows.indexes)} rows, such as {shown}: "
            "these may be measurements (regression), not classes. Choose another label column, or make classes of them"
        )
    if len(numbers) == len(rows.space):
        return (
            "the labels are numbers, which say little to a model. Name them: in Python "
            f"labels={{{rows.space[0]!r}: 'NAME', ...}}, for a file the section [labels] of its card"
        )
    return None


def mostly_single_rows(rows: RowsToCheck) -> str | None:
    """Return a remark on a data set in which most labels have one row; ``None`` for others."""
    counts = rows.counts()
    labels_with_one_row = [label for label, count in counts.items() if count == 1]
    if 2 * len(labels_with_one_row) > len(counts):
        return f"there are {len(rows.space)} labels in {len(rows.indexes)} rows: most labels have one row"
    return None


def single_labels(rows: RowsToCheck) -> str | None:
    """Return a remark on labels with one row among frequent labels; ``None`` if there are none.

    Such a label may be a typing error, a row of totals, or a repeated header. In a data set of many rare labels it is
    usual.
    """
    labels_with_one_row = []
    frequent_count = 0
    for label, count in rows.counts().items():
        if count == 1:
            labels_with_one_row.append(label)
        elif count >= _FREQUENT:
            frequent_count += 1
    single_count = len(labels_with_one_row)
    are_usual = single_count > _SINGLE_SHARE * len(rows.indexes)
    if single_count == 0 or frequent_count < 2 or are_usual:
        return None
    examples = [f"{rows.space[label]!r} ({rows.first_with(label)})" for label in labels_with_one_row[:3]]
    if single_count > 3:
        examples.append("...")
    subject = "one label has one row" if single_count == 1 else f"{single_count} labels have one row each"
    return f"{subject}: {', '.join(examples)}. Is it a mistake, a row of totals or a repeated header?"


def words_for_missing_labels(rows: RowsToCheck) -> str | None:
    """Return a remark on labels such as ``NA`` or ``-1``, which often mark a row without a label; else ``None``."""
    counts = rows.counts()
    folded = {name.casefold() for name in rows.space}
    shown = []
    for label in rows.labels_with_rows():
        name = rows.space[label]
        if name.casefold() in _MISSING_WORDS and not is_usual_class(name, folded):
            shown.append(f"{name!r} ({counts[label]} rows, first: {rows.first_with(label)})")
    if not shown:
        return None
    return f"labels that may mark rows without a label: {', '.join(shown)}. If they do, remove these rows"


def is_usual_class(name: str, folded: Container[str]) -> bool:
    """Return whether a label that looks like a missing one, such as "-1", is a class of its data set all the same.

    Args:
        name: The name of the label.
        folded: The names of all labels in lower case.
    """
    if name == "none":  # in lower case, a class of many data sets, next to others such as "for" and "against"
        return True
    if name.casefold() == "true":
        return "false" in folded
    if name == "-":
        return "+" in folded
    if name == "-1":  # in a scale such as -2, -1, 0, 1, 2
        return "-2" in folded
    return False


def lists_as_labels(rows: RowsToCheck) -> str | None:
    """Return a remark on labels that are lists written as texts; ``None`` if there are none.

    Each combination would be a class of its own.
    """
    lists = [label for label in rows.labels_with_rows() if _LIST.fullmatch(rows.space[label])]
    if not lists:
        return None
    first = lists[0]
    return (
        f"{len(lists)} labels look like lists, such as {rows.space[first]!r} (first: {rows.first_with(first)}): each "
        "combination is a class of its own. Keep rows with one label, and write it without brackets"
    )


def separators_in_labels(rows: RowsToCheck) -> str | None:
    """Return a remark on labels that may be several labels with a separator between them; ``None`` if there are none.

    Such labels combine a few parts, so they have fewer different parts than there are labels: "late", "refund" and
    "late;refund" are three labels of two parts. The labels "yes;no" and "A;B" have four parts: they only happen to have
    the character.
    """
    for separator in _SEPARATORS:
        # A label is an index; its name is in the label space.
        labels_with_separator = [label for label in rows.labels_with_rows() if separator in rows.space[label]]
        different_parts: set[str] = set()
        for name in rows.space:
            different_parts.update(part.strip() for part in name.split(separator))
        labels_combine_parts = len(different_parts) < len(rows.space)
        if not labels_with_separator or not labels_combine_parts:
            continue
        first = labels_with_separator[0]
        return (
            f"{len(labels_with_separator)} labels have the character {separator!r}, such as {rows.space[first]!r} "
            f"(first: {rows.first_with(first)}): each combination is a class of its own. If they are several labels of "
            f"one text, say so with {argument_and_option('label_separator', separator)}"
        )
    return None


def rows_with_an_empty_text(rows: RowsToCheck) -> str | None:
    """Return a remark on rows of several texts of which one is empty; ``None`` if there are none."""
    rows_with_blank = []
    for row_index, texts in enumerate(rows.texts):
        if any(not text.strip() for text in texts):
            rows_with_blank.append(row_index)
    if not rows_with_blank:
        return None
    first_place = rows.place(rows_with_blank[0])
    return f"{len(rows_with_blank)} rows have an empty text in one of their columns (first: {first_place})"


def identifiers_as_texts(rows: RowsToCheck) -> str | None:
    """Return a remark on a text column of numbers or identifiers, which may be the wrong one; else ``None``."""
    row_count = len(rows.texts)
    if row_count < _LEAST_ROWS_FOR_IDENTIFIERS:
        return None
    for column in range(len(rows.texts[0])):
        texts = [texts_of_row[column].strip() for texts_of_row in rows.texts]
        rows_with_identifier = [row_index for row_index, text in enumerate(texts) if _is_identifier(text)]
        most_are_identifiers = len(rows_with_identifier) >= _ID_SHARE * row_count
        most_are_different = len(set(texts)) * 2 > row_count
        if most_are_identifiers and most_are_different:
            first = rows_with_identifier[0]
            return (
                f"{len(rows_with_identifier)} of {row_count} texts look like identifiers or numbers, such as "
                f"{texts[first]!r:.40} ({rows.place(first)}). Is this the column of the texts?"
            )
    return None


_CHECKS_OF_LABELS: tuple[Callable[[RowsToCheck], str | None], ...] = (
    spaces_around_labels,
    spellings_of_one_label,
    two_scripts_in_a_label,
    numbers_as_labels,
    mostly_single_rows,
    single_labels,
    words_for_missing_labels,
    lists_as_labels,
    separators_in_labels,
)
_CHECKS_OF_TEXTS: tuple[Callable[[RowsToCheck], str | None], ...] = (
    rows_with_an_empty_text,
    identifiers_as_texts,
)


def spelling_key(name: str) -> str:
    """Return a key that label names have in common if they look alike.

    It is the name in lower case, in one Unicode form (NFKC), with Latin letters in place of Cyrillic and Greek ones of
    the same shape, with single spaces, and without zero-width characters.
    """
    composed = unicodedata.normalize("NFKC", name)
    visible = "".join(
        letter for letter in composed if unicodedata.category(letter) != "Cf"
    )  # Cf: zero-width characters
    latin = visible.translate(_LOOK_ALIKE)
    with_single_spaces = " ".join(latin.casefold().split())
    return unicodedata.normalize("NFKC", with_single_spaces)  # again: lower case can have another form


def scripts_of(word: str) -> list[str]:
    """Return which of the scripts with look-alike letters a word has, in the order of :data:`_SCRIPTS`."""
    first_words = set()
    for letter in word:
        if letter.isalpha():
            # The name of a letter begins with its script: "LATIN SMALL LETTER A".
            script, _, _ = unicodedata.name(letter, "").partition(" ")
            first_words.add(script)
    return [script for script in _SCRIPTS if script in first_words]


def _is_identifier(text: str) -> bool:
    """Return whether a text is a number, or one word of letters and digits with at least one digit."""
    if not text or " " in text:
        return False
    if number_of(text) is not None:
        return True
    is_one_word = re.fullmatch(r"[\w.:/-]+", text) is not None
    return is_one_word and any(character.isdigit() for character in text)

"""Prompts that methods learn from.

There are two kinds: labelled prompts about rows of the calibration set, and content-free prompts, whose query says
nothing about any label (Zhao et al. 2021) or has random words of the domain (Fei et al. 2023).
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple, Protocol

from StaICC.arguments import validate_integer, whole_number
from StaICC.errors import ArgumentError
from StaICC.methods.labelled_rows import LabelledRows
from StaICC.prompting.stable_random import StableRandom

CONTENT_FREE = ("N/A", "[MASK]", "")
"""The three content-free texts of Zhao et al. (2021)."""


class CalibrationSet(Protocol):
    """A calibration set: rows of (input texts, label)."""

    def __len__(self) -> int: ...

    def __getitem__(self, index: int, /) -> Any: ...


class TrainingSource(Protocol):
    """What training prompts are written from: a method's data is one."""

    @property
    def calibration_set(self) -> CalibrationSet:
        """Rows for queries and demonstrations."""

    @property
    def label_space(self) -> Sequence[str]:
        """The labels."""

    @property
    def calibration_number(self) -> int:
        """How many training prompts the run has."""

    @property
    def k(self) -> int:
        """Demonstrations of each prompt."""

    @property
    def text_count(self) -> int:
        """Input texts of a row."""

    def write(self, demonstration_rows: Sequence[Any], texts: Sequence[str]) -> Any:
        """Return a prompt with demonstrations (rows) and the input texts of its query."""


@dataclass(frozen=True)
class GivenSource:
    """A source of training prompts whose parts are given one by one, as ``train`` of a calibration gets them."""

    prompt_maker: Any
    calibration_set: Any
    label_space: Sequence[str]
    calibration_number: int
    k: int

    @property
    def text_count(self) -> int:
        """Input texts of a row; one if there is none."""
        has_rows = self.calibration_set is not None and len(self.calibration_set)
        return len(self.calibration_set[0][0]) if has_rows else 1

    def write(self, demonstration_rows: Sequence[Any], texts: Sequence[str]) -> Any:
        """Return a prompt."""
        return self.prompt_maker(list(demonstration_rows), list(texts))


@dataclass(frozen=True)
class SameDemonstrations:
    """Another source with the same demonstrations for all prompts, such as none."""

    source: TrainingSource
    demonstrations: Sequence[Any]

    @property
    def calibration_set(self) -> CalibrationSet:
        """Rows for queries."""
        return self.source.calibration_set

    @property
    def label_space(self) -> Sequence[str]:
        """The labels."""
        return self.source.label_space

    @property
    def calibration_number(self) -> int:
        """How many training prompts the run has."""
        return self.source.calibration_number

    @property
    def k(self) -> int:
        """Demonstrations of each prompt."""
        return self.source.k

    @property
    def text_count(self) -> int:
        """Input texts of a row."""
        return self.source.text_count

    def write(self, demonstration_rows: Sequence[Any], texts: Sequence[str]) -> Any:
        """Return a prompt with the same demonstrations as all others."""
        return self.source.write(self.demonstrations, texts)


class LabelledPrompts(NamedTuple):
    """Prompts whose query has a known label."""

    prompts: list[Any]
    labels: list[int]
    """The label index of each prompt's query."""


def checked_rows(source: TrainingSource) -> CalibrationSet:
    """Return the calibration set; refuse an empty one."""
    rows = source.calibration_set
    if rows is None or not len(rows):
        raise ArgumentError("the calibration set is empty. Pass experimentor.calibration_set()")
    return rows


def checked_number(source: TrainingSource) -> int:
    """Return the number of training prompts; refuse less than one."""
    return validate_integer("calibration_number", source.calibration_number, 1)


# -- labelled prompts


def labelled_prompts(source: TrainingSource, per_label: int | None = None) -> LabelledPrompts:
    """Write prompts about rows of the calibration set, whose labels are known.

    No row is used twice before all were used, and none is one of its own demonstrations. Each label that the set has
    is drawn where the number allows.

    Args:
        source: A method's data.
        per_label: Draw this many rows of each label instead of ``source.calibration_number`` rows; all rows of a label
            that has fewer.

    Raises:
        ArgumentError: A number is invalid, there are too few rows, or a row's label is not in the label space.
    """
    rows = checked_rows(source)
    k = validate_integer("k", source.k, 0)
    number = checked_number(source) if per_label is None else 0
    labels = _Labels(rows, source.label_space)
    if len(rows) < 2 and k:
        raise ArgumentError("a calibration set of one row leaves no demonstration for it; use k = 0 or a larger set")

    generator = StableRandom()
    if per_label is None:
        queries = _rows_with_each_label(generator, labels, number)
    else:
        queries = _rows_of_each_label(generator, labels, validate_integer("samples_per_label", per_label, 1))
    demonstrations = [_other_rows(generator, len(rows), query, k) for query in queries]

    prompts = []
    for query, positions in zip(queries, demonstrations, strict=True):
        shown = [rows[position] for position in positions]
        prompts.append(source.write(shown, rows[query][0]))
    return LabelledPrompts(prompts, [labels[query] for query in queries])


class _Labels:
    """The label indexes of the rows of a set, each read when it is needed: labels that are read count as a cost."""

    def __init__(self, rows: CalibrationSet, label_space: Sequence[str]) -> None:
        """Read no label yet.

        Args:
            rows: The set.
            label_space: The labels, in the order of their indexes.
        """
        self._rows = rows
        self.label_space = label_space

    def __len__(self) -> int:
        return len(self._rows)

    def __getitem__(self, position: int) -> int:
        """Return the label index of the row at a position, which counts as read."""
        return label_index(self._rows[position][1], self.label_space)

    def groups(self) -> list[list[int]]:
        """Return for each label that occurs the positions of its rows, in the order of the label space."""
        if isinstance(self._rows, LabelledRows):
            return self._rows.positions_by_label()  # this counts no label as read
        positions_of_label: dict[int, list[int]] = {}
        for position in range(len(self)):
            positions_of_label.setdefault(self[position], []).append(position)
        return [positions_of_label[label] for label in sorted(positions_of_label)]


def label_index(label: object, label_space: Sequence[str]) -> int:
    """Return the index of a row's label, which is an index or a text of the label space."""
    index = whole_number(label)
    if index is None and isinstance(label, str) and label in label_space:
        index = list(label_space).index(label)
    if index is None or not 0 <= index < len(label_space):
        raise ArgumentError(
            f"the calibration set has the label {label!s}, which is not one of {', '.join(label_space)}"
        )
    return index


def _rows_of_each_label(generator: StableRandom, labels: _Labels, count: int) -> list[int]:
    """Return the positions of random rows, equally many of each label, label by label.

    Args:
        generator: Draws the rows.
        labels: The labels of all rows.
        count: How many rows of each label; all rows of a label that has fewer.
    """
    drawn = []
    for positions in labels.groups():
        chosen = generator.sample_indexes(len(positions), min(count, len(positions)))
        drawn += [positions[index] for index in chosen]
    return drawn


def _rows_with_each_label(generator: StableRandom, labels: _Labels, number: int) -> list[int]:
    """Return the positions of random rows, among which each label occurs if there are enough rows.

    Rows are drawn without repetition; if more are needed than the set has, the drawn rows are repeated in the same
    order. For a label that was not drawn, one of its rows replaces the last drawn row of the most frequent label.

    Args:
        generator: Draws the rows.
        labels: The labels of all rows.
        number: How many rows.
    """
    order = generator.sample_indexes(len(labels), len(labels))  # of all rows, at random
    drawn = list(itertools.islice(itertools.cycle(order), number))
    not_drawn = order[number:]
    drawn_labels = [labels[position] for position in drawn]
    missing_labels = set(range(len(labels.label_space))) - set(drawn_labels)
    for missing_label in sorted(missing_labels):
        most_frequent = max(sorted(set(drawn_labels)), key=drawn_labels.count)
        if drawn_labels.count(most_frequent) < 2:
            break  # each label that was drawn has one row, which it keeps
        replacement = _first_with_label(labels, not_drawn, missing_label)
        if replacement is None:
            continue  # no row of the set has this label
        last_index = max(index for index, label in enumerate(drawn_labels) if label == most_frequent)
        drawn[last_index] = replacement
        drawn_labels[last_index] = missing_label
    return drawn


def _first_with_label(labels: _Labels, positions: Sequence[int], wanted: int) -> int | None:
    """Return the first of some positions whose row has a label; no label is read after it."""
    for position in positions:
        if labels[position] == wanted:
            return position
    return None


def _other_rows(generator: StableRandom, size: int, query: int, k: int) -> list[int]:
    """Return the positions of k random rows that are not the row of the query.

    Args:
        generator: Draws the rows.
        size: Number of rows.
        query: The position of the row of the query.
        k: How many rows.
    """
    positions = []
    for index in generator.sample_indexes(size - 1, k):  # indexes of the rows without that of the query
        if index < query:
            positions.append(index)
        else:
            positions.append(index + 1)
    return positions


# -- content-free prompts


def content_free_prompts(source: TrainingSource) -> list[Any]:
    """Write ``source.calibration_number`` prompts about the texts of :data:`CONTENT_FREE`, in turn."""
    columns = len(checked_rows(source)[0][0])
    texts = itertools.cycle([(text,) * columns for text in CONTENT_FREE])
    return prompts_about(source, texts)


def random_word_prompts(source: TrainingSource, sample_length: int) -> list[Any]:
    """Write ``source.calibration_number`` prompts about random words of the calibration set.

    Args:
        source: A method's data.
        sample_length: Words in each input text.
    """
    rows = checked_rows(source)
    sample_length = validate_integer("sample_length", sample_length, 1)
    texts_of_rows = [rows[position][0] for position in range(len(rows))]
    lengths = [sample_length] * len(texts_of_rows[0])
    return prompts_about(source, random_texts(texts_of_rows, lengths))


def prompts_about(
    source: TrainingSource,
    texts: Iterator[Sequence[str]],
    draw: Callable[[StableRandom, int, int], list[int]] = StableRandom.sample_indexes,
) -> list[Any]:
    """Write ``source.calibration_number`` prompts about given texts, with demonstrations of the calibration set.

    Args:
        source: A method's data.
        texts: The input texts of each prompt, at least as many as prompts.
        draw: Draws the positions of the demonstrations of a prompt, from a generator, the number of rows and ``k``;
            without repetition by default.
    """
    rows = checked_rows(source)
    number = checked_number(source)
    k = validate_integer("k", source.k, 0)
    generator = StableRandom()
    prompts = []
    for query in itertools.islice(texts, number):
        positions = draw(generator, len(rows), k)
        prompts.append(source.write([rows[position] for position in positions], query))
    return prompts


# -- texts of random words


def domain_texts(rows: CalibrationSet, number: int, length: int | None = None) -> list[tuple[str, ...]]:
    """Return content-free texts of random words, as Fei et al. (2023) write them: lower case, a full stop at the end.

    Args:
        rows: The rows whose words are drawn. (The authors take the test set.)
        number: How many texts.
        length: Words in each input text; ``None`` for the average number of words of the rows, rounded down.

    Returns:
        Each in the form of a row: one text for each input text.
    """
    texts_of_rows = [[text.lower() for text in rows[position][0]] for position in range(len(rows))]
    lengths = []  # of each input text
    for column in zip(*texts_of_rows, strict=True):
        if length is None:
            word_count = sum(len(text.split()) for text in column)
            lengths.append(max(1, word_count // len(column)))
        else:
            lengths.append(validate_integer("sample_length", length, 1))
    endless_texts = random_texts(texts_of_rows, lengths)
    drawn = itertools.islice(endless_texts, validate_integer("texts", number, 1))
    return [tuple(f"{text} ." for text in texts) for texts in drawn]


def random_texts(texts_of_rows: Sequence[Sequence[str]], lengths: Sequence[int]) -> Iterator[list[str]]:
    """Return an endless sequence of random input texts, in which each occurrence of a word is equally probable.

    Args:
        texts_of_rows: The input texts of rows; a text is made of words of its own column.
        lengths: Words of each input text.

    Raises:
        ArgumentError: A column has no word.
    """
    words_of_columns = []
    for column in zip(*texts_of_rows, strict=True):
        words_of_columns.append([word for text in column for word in text.split()])
    if not words_of_columns or not all(words_of_columns):
        raise ArgumentError("the calibration set has no words to draw a domain text from")
    return _endless_texts(words_of_columns, lengths)


def _endless_texts(words_of_columns: Sequence[Sequence[str]], lengths: Sequence[int]) -> Iterator[list[str]]:
    """Yield random input texts without end: in each column, as many random words as its length says."""
    generator = StableRandom()
    while True:
        texts = []
        for words, length in zip(words_of_columns, lengths, strict=True):
            drawn = [words[generator.integer(0, len(words))] for _ in range(length)]
            texts.append(" ".join(drawn))
        yield texts

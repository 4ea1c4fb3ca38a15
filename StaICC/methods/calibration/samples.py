"""Prompts that calibrations learn from: content-free ones, random words, and rows of the calibration set."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from itertools import cycle, islice, repeat
from typing import Any, NamedTuple, Protocol

from StaICC.datasets.table import Row
from StaICC.errors import ArgumentError, validate_integer, whole_number
from StaICC.methods.specification import PromptMaker, Variant
from StaICC.prompting import StableRandom, SubsetView
from StaICC.prompting.prompt_writer import domain_queries, empty_queries

CONTENT_FREE = ("N/A", "[MASK]", "")
"""The three content-free texts of Zhao et al. (2021)."""


class CalibrationSet(Protocol):
    """A calibration set: rows of (input texts, label)."""

    def __len__(self) -> int: ...

    def __getitem__(self, index: int, /) -> tuple[list[str], Any]: ...


class LabelledPrompts(NamedTuple):
    """Prompts whose query has a known label."""

    prompts: list[Any]
    labels: list[int]
    """Label index of each prompt's row."""


def _checked(calibration_set: CalibrationSet | None, number: int, k: int) -> tuple[CalibrationSet, int, int]:
    if calibration_set is None or not len(calibration_set):
        raise ArgumentError("the calibration set is empty. Pass experimentor.calibration_set()")
    return calibration_set, validate_integer("calibration_number", number, 1), validate_integer("k", k, 0)


def neutral_prompts(
    make_prompt: PromptMaker,
    calibration_set: CalibrationSet | None,
    number: int,
    k: int,
    variant: Variant,
    queries_of: Callable[[CalibrationSet, Variant], Iterator[Sequence[str]]],
) -> LabelledPrompts:
    """Return prompts with demonstrations of the calibration set and queries that should favour no label.

    Args:
        make_prompt: Writes a prompt.
        calibration_set: Where words and demonstrations come from.
        number: How many prompts.
        k: Demonstrations per prompt.
        variant: ``"0.1.1"`` draws demonstrations with repetition.
        queries_of: Returns the queries, such as :func:`content_free_queries`.

    Raises:
        ArgumentError: A number is unfit, there is no calibration set, or it has no words.
    """
    rows, number, k = _checked(calibration_set, number, k)
    generator, size = StableRandom(), len(rows)
    prompts = []
    for query in islice(queries_of(rows, variant), number):
        if variant == "0.1.1":
            positions = [generator.integer(0, size) for _ in range(k)]
        else:
            positions = generator.sample_indexes(size, k)
        prompts.append(make_prompt([rows[position] for position in positions], list(query)))
    return LabelledPrompts(prompts, [])


def content_free_queries(rows: CalibrationSet, variant: Variant) -> Iterator[Sequence[str]]:
    """Return the texts of :data:`CONTENT_FREE` in turn; in ``"0.1.1"`` only the empty text."""
    columns = len(rows[0][0])
    return empty_queries(columns) if variant == "0.1.1" else ((text,) * columns for text in cycle(CONTENT_FREE))


def random_word_queries(length: int, rows: CalibrationSet, variant: Variant) -> Iterator[Sequence[str]]:
    """Return texts of random words of the calibration set.

    ``"0.1.1"`` draws a row, then a word of it, and never the last row or a row's last word; the others draw from all
    words of the set, each occurrence alike.
    """
    length = validate_integer("sample_length", length, 1)
    if variant == "0.1.1":
        plain: Any = [Row(tuple(rows[index][0]), 0) for index in range(len(rows))]
        return domain_queries(SubsetView("the calibration set", plain, range(len(rows)), []), length)
    bags, generator = _bags_of_words([rows[index][0] for index in range(len(rows))]), StableRandom()
    return ([" ".join(bag[generator.integer(0, len(bag))] for _ in range(length)) for bag in bags] for _ in repeat(0))


def domain_texts(rows: CalibrationSet, number: int, length: int | None = None) -> list[tuple[str, ...]]:
    """Return texts of random words, as Fei et al. (2023) write them: lower case, with a full stop at the end.

    Args:
        rows: Where the words come from. (The authors take the test set.)
        number: How many texts.
        length: Words in each; ``None`` for the average number of words of the set's texts, rounded down.
    """
    texts = [[text.lower() for text in rows[index][0]] for index in range(len(rows))]
    means = [sum(len(text.split()) for text in column) // len(texts) for column in zip(*texts, strict=True)]
    generator = StableRandom()
    bags = _bags_of_words(texts)
    lengths = [max(1, mean) if length is None else validate_integer("sample_length", length, 1) for mean in means]
    return [
        tuple(
            " ".join(bag[generator.integer(0, len(bag))] for _ in range(count)) + " ."
            for bag, count in zip(bags, lengths, strict=True)
        )
        for _ in range(validate_integer("texts", number, 1))
    ]


def _bags_of_words(texts: Sequence[Sequence[str]]) -> list[list[str]]:
    """Return the words of each column of texts."""
    bags = [[word for text in column for word in text.split()] for column in zip(*texts, strict=True)]
    if not bags or not all(bags):
        raise ArgumentError("the calibration set has no words to draw a domain text from")
    return bags


def labelled_prompts(
    make_prompt: PromptMaker,
    calibration_set: CalibrationSet | None,
    label_space: Sequence[str],
    number: int,
    k: int,
    variant: Variant,
    per_label: int | None = None,
) -> LabelledPrompts:
    """Write prompts about rows of the calibration set, whose labels are known.

    Args:
        make_prompt: Writes a prompt.
        calibration_set: Where queries and demonstrations come from.
        label_space: The labels.
        number: How many prompts.
        k: Demonstrations per prompt.
        variant: ``"0.1.1"``: demonstrations, then the row, drawn with repetition. Otherwise no row is used twice before
            all were used, none is one of its own demonstrations, and each label that the set has is drawn where
            ``number`` allows (the last rows of the most frequent labels give way).
        per_label: Draw this many rows of each label instead of ``number``; all rows of a label that has fewer.

    Returns:
        The prompts with their label indexes.

    Raises:
        ArgumentError: A number is unfit, there is no calibration set, or a row's label is not in the label space.
    """
    rows, number, k = _checked(calibration_set, number, k)
    size = len(rows)
    generator = StableRandom()
    if variant == "0.1.1":
        drawn = [[generator.integer(0, size) for _ in range(k + 1)] for _ in range(number)]
        queries, lists = [positions[-1] for positions in drawn], [positions[:-1] for positions in drawn]
    elif size < 2 and k:
        raise ArgumentError("a calibration set of one row leaves no demonstration for it; use k = 0 or a larger set")
    else:
        if per_label is None:
            queries = _covering(generator, rows, label_space, number)
        else:
            queries = _balanced(generator, rows, label_space, validate_integer("samples_per_label", per_label, 1))
        lists = [_others(generator, size, k, query) for query in queries]
    prompts = [
        make_prompt([rows[position] for position in positions], list(rows[query][0]))
        for positions, query in zip(lists, queries, strict=True)
    ]
    return LabelledPrompts(prompts, [_label_index(rows[query][1], label_space) for query in queries])


def _others(generator: StableRandom, size: int, k: int, query: int) -> list[int]:
    """Draw demonstrations from all rows but the query's."""
    return [index + (index >= query) for index in generator.sample_indexes(size - 1, k)] if k else []


def _balanced(generator: StableRandom, rows: CalibrationSet, label_space: Sequence[str], count: int) -> list[int]:
    """Draw equally many rows of each label."""
    labels = [_label_index(rows[index][1], label_space) for index in range(len(rows))]
    drawn: list[int] = []
    for label in range(len(label_space)):
        indexes = [index for index, row_label in enumerate(labels) if row_label == label]
        drawn += [indexes[place] for place in generator.sample_indexes(len(indexes), min(count, len(indexes)))]
    return drawn


def _covering(generator: StableRandom, rows: CalibrationSet, label_space: Sequence[str], number: int) -> list[int]:
    """Draw query rows, each label that the set has among them if the number allows."""
    order = generator.sample_indexes(len(rows), len(rows))
    labels = [_label_index(rows[index][1], label_space) for index in order]
    places = [place % len(order) for place in range(number)]
    missing = [label for label in range(len(label_space)) if label not in {labels[place] for place in places}]
    for label in missing:
        if label not in labels:
            continue
        drawn = [labels[place] for place in places]
        frequent = max(range(len(label_space)), key=drawn.count)
        if drawn.count(frequent) < 2:
            break
        replaced = len(drawn) - 1 - drawn[::-1].index(frequent)
        places[replaced] = labels.index(label)
    return [order[place] for place in places]


def _label_index(label: object, label_space: Sequence[str]) -> int:
    index = whole_number(label)
    if index is not None and 0 <= index < len(label_space):
        return index
    if isinstance(label, str) and label in label_space:
        return list(label_space).index(label)
    raise ArgumentError(f"the calibration set has the label {label!s}, which is not one of {', '.join(label_space)}")

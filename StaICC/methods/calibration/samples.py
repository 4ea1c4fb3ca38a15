"""The prompts that a calibration is trained on: which rows of the calibration set, with which demonstrations.

There are three kinds of query. *Content-free* prompts have an empty or meaningless query (Zhao et al. 2021), *domain*
prompts a query of random words (Fei et al. 2023), *labelled* prompts a query whose label is known. Demonstrations come
from the calibration set too, never from the benchmark's demonstration or test set.

Every draw is made by the benchmark's own generator, fresh each time: the same set gives the same prompts. ``"0.1.1"``
draws as the release does, with repetition, so that a row may be one of its own demonstrations. The other variants do
not repeat rows before all were used, and draw each label.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from itertools import islice
from operator import index as as_index
from typing import Any, Literal, NamedTuple, Protocol, SupportsIndex, cast, get_args

from StaICC.errors import ArgumentError, unknown_name, validate_integer
from StaICC.prompting import StableRandom
from StaICC.prompting.pseudo_query import domain_queries, empty_queries

Variant = Literal["paper", "staicc", "0.1.1"]
"""``"paper"``: as the method's own paper defines it; ``"staicc"``: the protocol of StaICC's Table 2, the same number of
calibration samples for all methods; ``"0.1.1"``: as the release computes it."""

PromptMaker = Callable[[list[Any], list[str]], Any]
"""Writes a prompt from demonstrations (rows of a set) and the input texts of the query."""

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


def check_variant(variant: str) -> Variant:
    """Return a variant, or refuse it."""
    for known in get_args(Variant):
        if variant == known:
            return cast(Variant, known)
    raise unknown_name("variant", variant, get_args(Variant))


def _check(calibration_set: CalibrationSet | None, number: int, k: int) -> CalibrationSet:
    validate_integer("calibration_number", number, 1)
    validate_integer("k", k, 0)
    if calibration_set is None or not len(calibration_set):
        raise ArgumentError("the calibration set is empty. Pass experimentor.calibration_set()")
    return calibration_set


def _rows(rows: CalibrationSet, indexes: Sequence[int]) -> list[Any]:
    return [rows[index] for index in indexes]


def _demonstrations(generator: StableRandom, size: int, k: int, variant: Variant) -> list[int]:
    if variant == "0.1.1":
        return [generator.integer(0, size) for _ in range(k)]
    return generator.sample_indexes(size, k)


def _unlabelled(
    make_prompt: PromptMaker,
    rows: CalibrationSet,
    queries: Iterator[Sequence[str]],
    number: int,
    k: int,
    variant: Variant,
) -> list[Any]:
    generator = StableRandom()
    return [
        make_prompt(_rows(rows, _demonstrations(generator, len(rows), k, variant)), list(query))
        for query in islice(queries, number)
    ]


def content_free_prompts(
    make_prompt: PromptMaker, calibration_set: CalibrationSet | None, number: int, k: int, variant: Variant
) -> list[Any]:
    """Return prompts with a content-free query.

    Args:
        make_prompt: Writes a prompt.
        calibration_set: Where demonstrations come from.
        number: How many prompts.
        k: Demonstrations per prompt.
        variant: ``"0.1.1"`` takes the empty text only, the others the texts of :data:`CONTENT_FREE` in turn.

    Returns:
        The prompts.

    Raises:
        ArgumentError: A number is unfit, or there is no calibration set.
    """
    rows = _check(calibration_set, number, k)
    columns = len(rows[0][0])
    queries = empty_queries(columns) if variant == "0.1.1" else _in_turn(columns)
    return _unlabelled(make_prompt, rows, queries, number, k, variant)


def _in_turn(columns: int) -> Iterator[tuple[str, ...]]:
    while True:
        for text in CONTENT_FREE:
            yield (text,) * columns


def domain_prompts(
    make_prompt: PromptMaker,
    calibration_set: CalibrationSet | None,
    number: int,
    k: int,
    length: int,
    variant: Variant,
) -> list[Any]:
    """Return prompts whose query is random words of the calibration set.

    Args:
        make_prompt: Writes a prompt.
        calibration_set: Where words and demonstrations come from.
        number: How many prompts.
        k: Demonstrations per prompt.
        length: Words in each input text.
        variant: ``"0.1.1"`` draws a row, then a word of it, and never the last row or a row's last word; the others
            draw from all words of the set, each occurrence alike.

    Returns:
        The prompts.

    Raises:
        ArgumentError: A number is unfit, there is no calibration set, or it has no words.
    """
    rows = _check(calibration_set, number, k)
    validate_integer("sample_length", length, 1)
    if variant == "0.1.1":
        queries: Iterator[Sequence[str]] = domain_queries(_WithTexts(rows), length)  # type: ignore[arg-type]
    else:
        queries = _random_words(rows, length)
    return _unlabelled(make_prompt, rows, queries, number, k, variant)


class _WithTexts:
    """Any calibration set, as :func:`~StaICC.prompting.pseudo_query.domain_queries` wants one."""

    def __init__(self, rows: CalibrationSet) -> None:
        self._rows = rows

    def __len__(self) -> int:
        return len(self._rows)

    def texts(self, index: int) -> list[str]:
        return self._rows[index][0]


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


def _random_words(rows: CalibrationSet, length: int) -> Iterator[list[str]]:
    bags = _bags_of_words([rows[index][0] for index in range(len(rows))])
    generator = StableRandom()
    while True:
        yield [" ".join(bag[generator.integer(0, len(bag))] for _ in range(length)) for bag in bags]


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
    rows = _check(calibration_set, number, k)
    size = len(rows)
    generator = StableRandom()
    if variant == "0.1.1":
        drawn = [[generator.integer(0, size) for _ in range(k + 1)] for _ in range(number)]
        queries, lists = [one[-1] for one in drawn], [one[:-1] for one in drawn]
    else:
        if size < 2 and k:
            raise ArgumentError(
                "a calibration set of one row leaves no demonstration for it; use k = 0 or a larger set"
            )
        queries = (
            _covering(generator, rows, label_space, number)
            if per_label is None
            else _balanced(generator, rows, label_space, validate_integer("samples_per_label", per_label, 1))
        )
        lists = [_others(generator, size, k, query) for query in queries]
    prompts = [
        make_prompt(_rows(rows, indexes), list(rows[query][0])) for indexes, query in zip(lists, queries, strict=True)
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
        own = [index for index, each in enumerate(labels) if each == label]
        drawn += [own[place] for place in generator.sample_indexes(len(own), min(count, len(own)))]
    return drawn


def _covering(generator: StableRandom, rows: CalibrationSet, label_space: Sequence[str], number: int) -> list[int]:
    """Draw the rows that are asked, each label that the set has among them if the number allows."""
    order = generator.sample_indexes(len(rows), len(rows))
    labels = [_label_index(rows[index][1], label_space) for index in order]
    places = [place % len(order) for place in range(number)]
    missing = [label for label in range(len(label_space)) if label not in {labels[place] for place in places}]
    for label in missing:
        if label not in labels:
            continue
        asked = [labels[place] for place in places]
        frequent = max(range(len(label_space)), key=asked.count)
        if asked.count(frequent) < 2:
            break
        given_up = len(asked) - 1 - asked[::-1].index(frequent)
        places[given_up] = labels.index(label)
    return [order[place] for place in places]


def _label_index(label: object, label_space: Sequence[str]) -> int:
    if isinstance(label, SupportsIndex) and not isinstance(label, bool) and 0 <= as_index(label) < len(label_space):
        return as_index(label)
    if isinstance(label, str) and label in label_space:
        return list(label_space).index(label)
    raise ArgumentError(f"the calibration set has the label {label!s}, which is not one of {', '.join(label_space)}")

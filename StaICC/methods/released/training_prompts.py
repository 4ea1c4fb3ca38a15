"""Training prompts as 0.1.1 draws them: rows with repetition, one empty text, words that never end a row."""

from __future__ import annotations

import itertools
from typing import Any

from StaICC.arguments import validate_integer
from StaICC.datasets.table import Row
from StaICC.errors import ArgumentError
from StaICC.methods.training_prompts import (
    LabelledPrompts,
    TrainingSource,
    checked_number,
    checked_rows,
    label_index,
    prompts_about,
)
from StaICC.prompting.pseudo_queries import domain_queries
from StaICC.prompting.stable_random import StableRandom
from StaICC.prompting.views import SubsetView


def labelled_prompts(source: TrainingSource) -> LabelledPrompts:
    """Return prompts about rows of the calibration set, with the label of each of these rows.

    For each prompt, ``k`` demonstrations and then the row that it is about are drawn, all with repetition, as in the
    release.
    """
    rows = checked_rows(source)
    number = checked_number(source)
    k = validate_integer("k", source.k, 0)
    generator = StableRandom()
    prompts = []
    labels = []
    for _ in range(number):
        demonstrations = [rows[generator.integer(0, len(rows))] for _ in range(k)]
        row = rows[generator.integer(0, len(rows))]
        texts, label = row[0], row[1]
        prompts.append(source.write(demonstrations, texts))
        labels.append(label_index(label, source.label_space))
    return LabelledPrompts(prompts, labels)


def empty_prompts(source: TrainingSource) -> list[Any]:
    """Write prompts about empty texts."""
    columns = len(checked_rows(source)[0][0])
    return prompts_about(source, itertools.repeat(("",) * columns), draw_with_repetition)


def random_word_prompts(source: TrainingSource, sample_length: int) -> list[Any]:
    """Write prompts about random words: a row is drawn, then a word of it; never the last row, or a row's last word."""
    rows = checked_rows(source)
    sample_length = validate_integer("sample_length", sample_length, 1)
    plain: Any = [Row(tuple(rows[position][0]), 0) for position in range(len(rows))]
    view = SubsetView("the calibration set", plain, range(len(plain)), [])
    return prompts_about(source, domain_queries(view, sample_length), draw_with_repetition)


def draw_with_repetition(generator: StableRandom, size: int, number: int) -> list[int]:
    """Draw positions of rows, each time from all rows, as the release does."""
    return [generator.integer(0, size) for _ in range(number)]


def refuse_rows_of_each_label(option: str, per_label: int | None) -> None:
    """Refuse a number of rows of each label.

    Args:
        option: Its name, for the message.
        per_label: The number; ``None`` if none is given.

    Raises:
        ArgumentError: A number is given.
    """
    if per_label is not None:
        raise ArgumentError(f"{option}: the release draws rows of any label. Use variant 'paper' or 'staicc'")

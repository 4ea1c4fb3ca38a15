"""The warning about exchanged labels visits only labels that occur, and finds what the full formulas find."""

from __future__ import annotations

import math
import random
import time
from collections import Counter
from collections.abc import Sequence
from fractions import Fraction

import pytest

from StaICC.benchmarks.task import Condition, Outcome
from StaICC.benchmarks.warnings import (
    _association,
    _below_chance,
    _best_renaming,
    _exchanged_labels,
    _gain,
    _LabelledRow,
    _renamed_unit,
    _units,
    find_warnings,
)
from StaICC.prompting.prompt_writer import Query

TestRow = tuple[tuple[int, ...], int]

KINDS_OF_DATA = ["any label", "few labels occur", "skilled", "exchanged", "one prediction", "one true label"]


def random_rows(draw: random.Random, kind: str, width: int) -> list[TestRow]:
    """Draw test rows with one to three predictions each."""
    number = draw.randrange(4, 40)
    predictable, possible = range(width), range(width)
    if kind == "few labels occur":
        predictable = possible = range(draw.randrange(width), width)
    elif kind == "one prediction":
        predictable = range(width - 1, width)
    elif kind == "one true label":
        possible = range(1)
    rows = []
    for _ in range(number):
        true = draw.choice(possible)
        predictions = []
        for _ in range(draw.randrange(1, 4)):
            follows = draw.random() < 0.7
            if kind == "skilled" and follows:
                predictions.append(true)
            elif kind == "exchanged" and follows:
                predictions.append((true + 1) % width)
            else:
                predictions.append(draw.choice(predictable))
        rows.append((tuple(predictions), true))
    return rows


def many_rows() -> list[tuple[list[TestRow], int]]:
    samples = []
    for kind in KINDS_OF_DATA:
        for seed in range(50):
            draw = random.Random(f"{kind} {seed}")
            width = draw.randrange(2, 12)
            samples.append((random_rows(draw, kind, width), width))
    return samples


def association_of_all_labels(matches: Sequence[Sequence[float]], labels: Sequence[int]) -> tuple[float, float, float]:
    """Return mean, excess and standard errors with a residual for each row and each label."""
    size, width = len(matches), len(matches[0])
    share = [labels.count(label) / size for label in range(width)]
    row_mean = [math.fsum(share[label] * row[label] for label in range(width)) for row in matches]
    label_mean = [math.fsum(row[label] for row in matches) / size for label in range(width)]
    mean = math.fsum(share[label] * label_mean[label] for label in range(width))
    residuals = [
        [row[label] - of_row - label_mean[label] + mean for label in range(width)]
        for row, of_row in zip(matches, row_mean, strict=True)
    ]
    observed = [row[label] for row, label in zip(residuals, labels, strict=True)]
    excess = math.fsum(observed) / size
    permuted = math.fsum(share[label] * row[label] ** 2 for row in residuals for label in range(width))
    if permuted < 1e-9:
        return mean, 0.0, 0.0
    sample = math.fsum((value - excess) ** 2 for value in observed)
    return mean, excess, excess / math.sqrt(max(permuted, sample) / (size * (size - 1)))


def renaming_of_all_pairs(rows: Sequence[TestRow], width: int) -> list[int]:
    """Return the renaming with the excess of each pair of labels, in exact fractions."""
    share = [Fraction(sum(true == label for _, true in rows), len(rows)) for label in range(width)]
    excess = {}
    for predicted in range(width):
        for label in range(width):
            excess[predicted, label] = sum(
                Fraction(predictions.count(predicted), len(predictions)) * ((true == label) - share[label])
                for predictions, true in rows
            )
    renaming: dict[int, int] = {}
    for predicted, label in sorted(excess, key=lambda pair: (-excess[pair], pair[0] != pair[1], pair)):
        if predicted not in renaming and label not in renaming.values():
            renaming[predicted] = label
    return [renaming[label] for label in range(width)]


def shares_of_all_labels(rows: Sequence[TestRow], width: int) -> list[list[float]]:
    return [[predictions.count(label) / len(predictions) for label in range(width)] for predictions, _ in rows]


def labelled(rows: Sequence[TestRow]) -> list[_LabelledRow]:
    return [_LabelledRow(predictions, label) for predictions, label in rows]


def test_the_association_is_that_of_residuals_of_all_labels() -> None:
    for rows, width in many_rows():
        labels = [true for _, true in rows]
        expected = association_of_all_labels(shares_of_all_labels(rows, width), labels)
        assert _association(_units(labelled(rows))) == pytest.approx(expected, rel=1e-12, abs=1e-12)


def test_the_gain_of_a_renaming_is_that_of_residuals_of_all_labels() -> None:
    for rows, width in many_rows():
        labels = [true for _, true in rows]
        renaming = list(range(width))
        random.Random(str(rows)).shuffle(renaming)
        old = shares_of_all_labels(rows, width)
        new = [[row[renaming.index(label)] for label in range(width)] for row in old]
        gains = [[b - a for a, b in zip(before, after, strict=True)] for before, after in zip(old, new, strict=True)]
        units = _units(labelled(rows))
        renamed = [_renamed_unit(unit, renaming) for unit in units]
        found = _association([_gain(before, after) for before, after in zip(units, renamed, strict=True)])
        assert _association(renamed) == pytest.approx(association_of_all_labels(new, labels), rel=1e-12, abs=1e-12)
        assert found == pytest.approx(association_of_all_labels(gains, labels), rel=1e-12, abs=1e-12)


def test_the_renaming_is_that_of_the_excesses_of_all_pairs() -> None:
    renamed = Counter[bool]()
    for rows, width in many_rows():
        expected = renaming_of_all_pairs(rows, width)
        assert _best_renaming(labelled(rows), width) == expected
        renamed[expected != list(range(width))] += 1
    assert renamed[True] > 100  # the samples have renamings
    assert renamed[False] > 10


def test_a_label_that_occurs_nowhere_keeps_its_name() -> None:
    exchanged = [((1,), 0), ((0,), 1)] * 5
    assert _best_renaming(labelled(exchanged), 4) == [1, 0, 2, 3]


def test_equal_frequencies_do_not_rename_labels_by_rounding() -> None:
    rows = [((label,), true) for label in range(3) for true in range(3)]  # all pairs of labels, once
    assert _best_renaming(labelled(rows), 3) == [0, 1, 2]


def test_an_accuracy_of_zero_has_no_sign() -> None:
    for seed in range(20):
        draw = random.Random(f"always wrong {seed}")
        space = tuple(f"label {label}" for label in range(3))
        queries = [Query(f"prompt {row}", space, draw.choice((0, 0, 1, 2)), row, 0) for row in range(100)]
        wrong = [(query.label + draw.randrange(1, 3)) % 3 for query in queries]
        (warning,) = find_warnings([Outcome(Condition("c", tuple(queries)), wrong, "auto")])
        assert "predictions is 0.000, below" in warning


def test_two_thousand_labels_take_less_than_a_second() -> None:
    """Formulas with all pairs of labels took 34 seconds for a thousand."""
    width = 2000
    draw = random.Random("many labels")
    space = tuple(f"label {label}" for label in range(width))
    queries = [Query(f"prompt {row}", space, draw.randrange(width), row, 0) for row in range(512)]
    exchanged = [(query.label + 1) % width if draw.random() < 0.5 else draw.randrange(width) for query in queries]
    outcome = Outcome(Condition("c", tuple(queries)), exchanged, "auto")
    started = time.process_time()
    renamed = _exchanged_labels(outcome)
    below = _below_chance(outcome)
    assert time.process_time() - started < 1
    assert (renamed, below) == (None, None)  # with few rows of each label, no half of them can choose a renaming

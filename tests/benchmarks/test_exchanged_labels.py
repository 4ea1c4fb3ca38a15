"""The warning about exchanged labels visits only labels that occur, and finds what the full formulas find."""

from __future__ import annotations

import math
import random
from collections import Counter
from fractions import Fraction

import numpy as np
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
from tests.processor_time import check_seconds

TestRow = tuple[tuple[int, ...], int]

KINDS_OF_DATA = ["any label", "few labels occur", "skilled", "exchanged", "one prediction", "one true label"]


def random_rows(draw: random.Random, kind: str, n_labels: int) -> list[TestRow]:
    """Return test rows with one to three predictions each and a true label, of one kind of data."""
    predictable_labels = range(n_labels)
    true_labels = range(n_labels)
    if kind == "few labels occur":
        predictable_labels = true_labels = range(draw.randrange(n_labels), n_labels)
    elif kind == "one prediction":
        predictable_labels = range(n_labels - 1, n_labels)
    elif kind == "one true label":
        true_labels = range(1)

    rows = []
    for _ in range(draw.randrange(4, 40)):
        true_label = draw.choice(true_labels)
        predictions = []
        for _ in range(draw.randrange(1, 4)):
            follows_the_true_label = draw.random() < 0.7
            if kind == "skilled" and follows_the_true_label:
                predictions.append(true_label)
            elif kind == "exchanged" and follows_the_true_label:
                predictions.append((true_label + 1) % n_labels)
            else:
                predictions.append(draw.choice(predictable_labels))
        rows.append((tuple(predictions), true_label))
    return rows


def fifty_samples_of_each_kind() -> list[tuple[list[TestRow], int]]:
    """Return samples of test rows, each with its number of labels (2 to 11)."""
    samples = []
    for kind in KINDS_OF_DATA:
        for seed in range(50):
            draw = random.Random(f"{kind} {seed}")
            n_labels = draw.randrange(2, 12)
            samples.append((random_rows(draw, kind, n_labels), n_labels))
    return samples


def association_of_all_labels(shares: np.ndarray, true_labels: list[int]) -> tuple[float, float, float]:
    """Return mean, excess and standard errors of the excess, with a residual for each row and each label.

    The residual of a row and a label is the share of the row's predictions that are the label, without the means of
    the row and of the label: ``share - row_mean - label_mean + mean``. The excess is the mean residual of true labels.
    """
    size, n_labels = shares.shape
    frequencies = np.bincount(true_labels, minlength=n_labels) / size
    row_means = shares @ frequencies
    label_means = shares.mean(axis=0)
    mean = float(label_means @ frequencies)
    residuals = shares - row_means[:, np.newaxis] - label_means + mean

    residuals_of_true_labels = residuals[np.arange(size), true_labels]
    excess = float(residuals_of_true_labels.mean())
    squares_over_permutations = (residuals**2 @ frequencies).sum()
    squares_of_the_sample = ((residuals_of_true_labels - excess) ** 2).sum()
    if squares_over_permutations < 1e-9:
        return mean, 0.0, 0.0
    squares = max(squares_over_permutations, squares_of_the_sample)
    standard_error = math.sqrt(squares / (size * (size - 1)))
    return mean, excess, excess / standard_error


def renaming_of_all_pairs(rows: list[TestRow], n_labels: int) -> list[int]:
    """Return the new name of each label: the pair with the largest excess first, in exact fractions.

    The excess of a pair is the covariance of "predicted is the first" with "true is the second". Of equal excesses,
    a label keeps its name.
    """
    excess = {}
    for predicted in range(n_labels):
        for label in range(n_labels):
            frequency = Fraction(sum(true_label == label for _, true_label in rows), len(rows))
            excess[predicted, label] = Fraction(0)
            for predictions, true_label in rows:
                share = Fraction(predictions.count(predicted), len(predictions))
                excess[predicted, label] += share * ((true_label == label) - frequency)

    renaming: dict[int, int] = {}
    for predicted, label in sorted(excess, key=lambda pair: (-excess[pair], pair[0] != pair[1], pair)):
        if predicted not in renaming and label not in renaming.values():
            renaming[predicted] = label
    return [renaming[label] for label in range(n_labels)]


def shares_of_all_labels(rows: list[TestRow], n_labels: int) -> np.ndarray:
    """Return the share of each label (column) in the predictions of each row."""
    shares = np.zeros((len(rows), n_labels))
    for row, (predictions, _) in enumerate(rows):
        for predicted in predictions:
            shares[row, predicted] += 1 / len(predictions)
    return shares


def labelled(rows: list[TestRow]) -> list[_LabelledRow]:
    """Return the rows in the type of the warning."""
    return [_LabelledRow(predictions, true_label) for predictions, true_label in rows]


def test_the_association_is_that_of_residuals_of_all_labels() -> None:
    for rows, n_labels in fifty_samples_of_each_kind():
        true_labels = [true_label for _, true_label in rows]

        association = _association(_units(labelled(rows)))

        expected = association_of_all_labels(shares_of_all_labels(rows, n_labels), true_labels)
        assert association == pytest.approx(expected, rel=1e-12, abs=1e-12), rows


def test_the_association_after_a_renaming_is_that_of_residuals_of_all_labels() -> None:
    for rows, n_labels in fifty_samples_of_each_kind():
        true_labels = [true_label for _, true_label in rows]
        renaming = random.Random(str(rows)).sample(range(n_labels), n_labels)

        association = _association([_renamed_unit(unit, renaming) for unit in _units(labelled(rows))])

        renamed_rows = []
        for predictions, true_label in rows:
            renamed_predictions = tuple(renaming[label] for label in predictions)
            renamed_rows.append((renamed_predictions, true_label))
        expected = association_of_all_labels(shares_of_all_labels(renamed_rows, n_labels), true_labels)
        assert association == pytest.approx(expected, rel=1e-12, abs=1e-12), rows


def test_the_gain_of_a_renaming_is_that_of_residuals_of_all_labels() -> None:
    """The gain is the association of the differences: shares after the renaming minus shares before it."""
    for rows, n_labels in fifty_samples_of_each_kind():
        true_labels = [true_label for _, true_label in rows]
        renaming = random.Random(str(rows)).sample(range(n_labels), n_labels)

        gains = [_gain(unit, _renamed_unit(unit, renaming)) for unit in _units(labelled(rows))]

        old_shares = shares_of_all_labels(rows, n_labels)
        new_shares = np.zeros_like(old_shares)
        new_shares[:, renaming] = old_shares
        expected = association_of_all_labels(new_shares - old_shares, true_labels)
        assert _association(gains) == pytest.approx(expected, rel=1e-12, abs=1e-12), rows


def test_the_renaming_is_that_of_the_excesses_of_all_pairs() -> None:
    for rows, n_labels in fifty_samples_of_each_kind():
        assert _best_renaming(labelled(rows), n_labels) == renaming_of_all_pairs(rows, n_labels), rows


def test_samples_with_and_without_a_renaming_occur() -> None:
    is_renamed = Counter[bool]()
    for rows, n_labels in fifty_samples_of_each_kind():
        unchanged = list(range(n_labels))
        is_renamed[_best_renaming(labelled(rows), n_labels) != unchanged] += 1

    assert is_renamed[True] > 100
    assert is_renamed[False] > 10


def test_a_label_that_occurs_nowhere_keeps_its_name() -> None:
    exchanged = [((1,), 0), ((0,), 1)] * 5

    assert _best_renaming(labelled(exchanged), 4) == [1, 0, 2, 3]


def test_equal_frequencies_do_not_rename_labels_by_rounding() -> None:
    rows = [((label,), true) for label in range(3) for true in range(3)]  # all pairs of labels, once

    assert _best_renaming(labelled(rows), 3) == [0, 1, 2]


LABELS_OF_THREE = ("label 0", "label 1", "label 2")


def test_an_accuracy_of_zero_has_no_sign() -> None:
    """A negative number near zero would be written as -0.000."""
    for seed in range(20):
        draw = random.Random(f"always wrong {seed}")
        true_labels = draw.choices((0, 1, 2), weights=(2, 1, 1), k=100)
        queries = [Query(f"prompt {row}", LABELS_OF_THREE, label, row, 0) for row, label in enumerate(true_labels)]
        wrong_predictions = [(label + draw.choice((1, 2))) % 3 for label in true_labels]

        (warning,) = find_warnings([Outcome(Condition("c", tuple(queries)), wrong_predictions, "auto")])

        assert "predictions is 0.000, below" in warning


def test_two_thousand_labels_take_less_than_a_second() -> None:
    """Formulas with all pairs of labels took 34 seconds for a thousand."""
    n_labels = 2000
    draw = random.Random("many labels")
    label_space = tuple(f"label {label}" for label in range(n_labels))
    queries = []
    predictions = []
    for row in range(512):
        true_label = draw.randrange(n_labels)
        exchanged_label = (true_label + 1) % n_labels
        queries.append(Query(f"prompt {row}", label_space, true_label, row, 0))
        predictions.append(exchanged_label if draw.random() < 0.5 else draw.randrange(n_labels))
    outcome = Outcome(Condition("c", tuple(queries)), predictions, "auto")

    def warnings() -> tuple[object, object]:
        return _exchanged_labels(outcome), _below_chance(outcome)

    check_seconds(warnings, below=1)
    assert warnings() == (None, None), "with few rows of each label, no half of them can choose a renaming"

"""Warnings about renamed labels, accuracies below chance, echoes and leaks: of broken models, not of honest ones."""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from typing import Any

import pytest

from StaICC.benchmarks.evaluation import _association, _Unit, find_warnings
from StaICC.benchmarks.task import Condition, Outcome
from StaICC.prompting import Query

KINDS = {"may be exchanged": "renamed", "below the": "below", "last demonstration": "echo", "are right": "leak"}


def kinds(warnings: Sequence[str]) -> set[str]:
    return {kind for warning in warnings for text, kind in KINDS.items() if text in warning}


def outcome(
    predict: Callable[[Query, random.Random], int],
    shares: Sequence[int],
    rows: int = 256,
    last: Callable[[int, random.Random], int | None] | None = None,
) -> Outcome:
    """Return the predictions of a model, over two repeats of each row; `shares` are the frequencies of the labels."""
    draw = random.Random(str(shares))
    labels = [label for label, share in enumerate(shares) for _ in range(share)]
    space = tuple(f"label {label}" for label in range(len(shares)))
    queries = []
    for repeat in range(2):
        order = random.Random("truth")
        for row in range(rows):
            truth = order.choice(labels)
            shown = draw.choice(labels) if last is None else last(truth, draw)
            queries.append(Query(f"prompt {row} {repeat}", space, truth, row, repeat, shown))
    return Outcome(Condition("c", queries), [predict(query, draw) for query in queries], "auto")


def warned(*arguments: Any, **options: Any) -> tuple[str, ...]:
    return find_warnings([outcome(*arguments, **options)])


def skilled(accuracy: float, renaming: Sequence[int] | None = None) -> Callable[[Query, random.Random], int]:
    def predict(query: Query, draw: random.Random) -> int:
        width = len(query.label_space)
        label = query.label if draw.random() < accuracy else draw.randrange(width)
        return label if renaming is None else renaming[label]

    return predict


@pytest.mark.parametrize("accuracy", [0.0, 0.3, 0.9])
@pytest.mark.parametrize("shares", [(1, 1), (9, 1), (3, 2, 1), (1,) * 6])
def test_honest_models_have_no_warning(shares: Sequence[int], accuracy: float) -> None:
    assert warned(skilled(accuracy), shares) == ()
    assert kinds(warned(lambda query, draw: len(shares) - 1, shares)) == set()  # one rare label, far below guessing
    assert warned(lambda query, draw: draw.choice((query.last_label or 0, query.label)), shares) == ()


def test_exchanged_labels_are_named_with_the_gain() -> None:
    (warning,) = warned(skilled(0.9, (1, 2, 0)), (1, 1, 1))
    for old, new in enumerate((2, 0, 1)):
        assert f"'label {old}' to 'label {new}'" in warning
    assert " 0.8" in warning or " 0.9" in warning
    (warning,) = warned(skilled(0.5, (0, 2, 1, 3)), (3, 1, 1, 1))
    assert "'label 1' to 'label 2'" in warning
    assert "'label 0'" not in warning
    assert kinds(warned(skilled(0.9, (1, 0)), (1, 1), rows=20)) == set()  # half of the rows are too few for a test


def test_the_least_probable_label_is_below_chance() -> None:
    def wrong(query: Query, draw: random.Random) -> int:
        return (query.label + draw.randrange(1, 6)) % 6

    (warning,) = warned(wrong, (1,) * 6)
    assert "0.000" in warning
    assert "0.16" in warning
    assert kinds(warned(skilled(0.9, (1, 0)), (1, 1))) == {"renamed"}  # one cause, one warning


def test_an_echo_of_the_last_demonstration() -> None:
    def echo(query: Query, draw: random.Random) -> int:
        assert query.last_label is not None
        return query.last_label

    assert kinds(warned(echo, (2, 1, 1))) == {"echo"}
    assert kinds(warned(echo, (1, 1), last=lambda truth, draw: 0)) == set()  # nothing to tell it from one label
    assert kinds(warned(skilled(0.97), (1, 1), last=lambda truth, draw: truth)) == set()  # it is the true label
    assert kinds(warned(lambda query, draw: 0, (1, 1), last=lambda truth, draw: None)) == set()


def test_a_leak_needs_many_rows_without_an_error() -> None:
    perfect = skilled(1.0)
    assert kinds(warned(perfect, (1, 1))) == {"leak"}
    assert kinds(warned(perfect, (1, 1), rows=255)) == set()
    assert kinds(warned(skilled(0.9), (1, 1))) == set()


def test_mean_and_variance_of_matches_under_permutation() -> None:
    """Against all permutations of a small sample."""
    from itertools import permutations
    from statistics import fmean, pvariance

    matches, labels = [[1.0, 0.0], [0.5, 0.5], [0.0, 1.0], [0.0, 1.0], [1.0, 0.0]], [0, 1, 1, 0, 0]
    means = [fmean(row[label] for row, label in zip(matches, order, strict=True)) for order in permutations(labels)]
    mean, excess, z = _association([_Unit(row, label, 1) for row, label in zip(matches, labels, strict=True)])
    observed = fmean(row[label] for row, label in zip(matches, labels, strict=True))
    assert mean == pytest.approx(fmean(means))
    assert excess == pytest.approx(observed - fmean(means))
    assert 0 < z <= excess / pvariance(means) ** 0.5 + 1e-12


def test_falsified_demonstrations_and_empty_queries_are_no_fault() -> None:
    """A model that follows wrong labels is below chance where all are wrong."""
    right, wrong = skilled(0.9), skilled(0.9, (1, 0))
    true, false = outcome(right, (1, 1)), outcome(wrong, (1, 1), last=lambda truth, draw: None)
    assert find_warnings([true, false]) == ()
    assert kinds(find_warnings([false])) == {"renamed"}  # without demonstrations
    assert find_warnings([false], content_free=True) == ()

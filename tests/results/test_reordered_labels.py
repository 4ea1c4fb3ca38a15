"""Runs whose data sets name the same labels in another order: `compare` finds the labels by name."""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any

import pytest

import StaICC
from StaICC.datasets import Dataset
from StaICC.results import compare

COLOURS = ("red", "green", "blue")
TEXTS = [f"text {row} {row * 7919 % 101}" for row in range(400)]


def coloured(order: tuple[str, ...]) -> Dataset:
    """Rows with the same texts and label names, whatever the order of the labels."""
    rows = [(text, order.index(COLOURS[row * 7919 % 101 % 3])) for row, text in enumerate(TEXTS)]
    return Dataset.from_rows(rows, name="own", label_space=list(order))


def by_name(salt: str) -> Callable[..., list[float]]:
    """Probabilities that depend on the name of the label, not on its place."""

    def function(prompt: str, label_space: list[str]) -> list[float]:
        text = prompt.rpartition("text ")[2]
        draws = [random.Random(f"{salt} {text} {label}") for label in label_space]  # no ties
        weights = [draw.random() ** 3 for draw in draws]
        return [weight / sum(weights) for weight in weights]

    return function


@pytest.mark.parametrize("benchmark", [StaICC.Normal, StaICC.PosteriorBias])
@pytest.mark.parametrize("order", [("green", "blue", "red"), ("blue", "red", "green")])
def test_labels_in_a_cycle_are_found_by_name(benchmark: Any, order: tuple[str, ...]) -> None:
    """A cycle of three is not its own inverse, as an exchange of two labels is."""
    first, second, same = (
        benchmark(datasets=[coloured(labels)], limit=60)(by_name(salt))
        for labels, salt in ((COLOURS, "a"), (order, "b"), (order, "a"))
    )
    assert [run.details["own"].labels for run in (first, second)] == [COLOURS, order]
    metrics = [metric for metric in first.averaged if metric not in ("distribution", "uniform", "majority")]
    assert len(metrics) >= 2
    for metric in metrics:
        for left, right in ((first, second), (second, first)):
            values = compare(left, right, metric).datasets[0].values
            assert values == pytest.approx((left.averaged[metric], right.averaged[metric]))
        alike = compare(first, same, metric).datasets[0]
        assert alike.difference == pytest.approx(0.0, abs=1e-12)
        assert first.averaged[metric] != pytest.approx(second.averaged[metric])

"""Confidence sequences: valid by enumeration of all orders, with frozen limits, exact at the end."""

from __future__ import annotations

import itertools
import math
import random
from collections import Counter, defaultdict
from collections.abc import Sequence

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from StaICC.metrics.intervals import ConfidenceSequence

Population = Sequence[Sequence[float]]

TINY: list[Population] = [
    [[0, 1, 1, 0]],
    [[0, 0, 0, 0, 0, 1]],
    [[0.5, 0.5], [1, 0, 1]],
    [[1, 1, 1], [0, 0, 0]],
    [[0, 1, 0], [1, 1, 0.5]],
    [[0.9, 0.1, 1e-6, 1], [1.0]],
    [[1, 1, 1, 1, 0]],
    [[0, 1], [0, 1], [0, 1]],
]


def mean(population: Population) -> float:
    return math.fsum(math.fsum(rows) / len(rows) for rows in population) / len(population)


def round_of(orders: Population, place: int) -> list[float | None]:
    return [rows[place] if place < len(rows) else None for rows in orders]


def sequence_of(population: Population, level: float = 0.95, **range_: float) -> ConfidenceSequence:
    return ConfidenceSequence([len(rows) for rows in population], level, **range_)


@pytest.mark.parametrize("population", TINY)
@pytest.mark.parametrize("gap", [0.02, 0.2, 5.0])
def test_all_orders(population: Population, gap: float) -> None:
    """Exact, without simulation: the share of orders whose interval ever excludes the mean, and the expected capital.

    The capital at the true means is the supermartingale behind the bounds. Rows without exact sums need some room.
    """
    truth, means = mean(population), [math.fsum(rows) / len(rows) for rows in population]
    capital: defaultdict[tuple[int, str], float] = defaultdict(float)
    wrong: Counter[float] = Counter()
    orders = 0
    for order in itertools.product(*(itertools.permutations(rows) for rows in population)):
        orders += 1
        for level in (0.2, 0.5, 0.8):
            sequence, excluded = sequence_of(population, level), False
            for place in range(sequence.all_rounds):
                sequence.update(round_of(order, place), gap)
                low, high = sequence.interval
                excluded |= not low - 1e-12 <= truth <= high + 1e-12
                alive = [one for one, rows in zip(means, population, strict=True) if len(rows) > place + 1]
                for name, bound in (("below", sequence._below), ("above", sequence._above)) if level == 0.5 else ():
                    unknown = sum(alive) if name == "below" else len(alive) - sum(alive)
                    capital[place, name] += math.exp(bound._evidence - bound._total_bet * unknown)
            wrong[level] += excluded
    assert capital
    assert max(capital.values()) / orders <= 1 + 1e-9
    assert all(count <= (1 - level) * orders for level, count in wrong.items())


@pytest.mark.parametrize(
    ("gap", "limits"),
    [
        (0.05, {40: (0.520015718, 0.804164012), 80: (0.596334673, 0.716251403), 140: (0.663019864, 0.716251403)}),
        (0.2, {40: (0.539386941, 0.759450124), 80: (0.570315081, 0.730977758), 140: (0.599892919, 0.730977758)}),
    ],
)
def test_limits_are_those_of_the_stated_version(gap: float, limits: dict[int, tuple[float, float]]) -> None:
    """A second implementation, the direct product over draws, had these limits, too; one data set ends at 120."""
    draw = random.Random("limits")
    sizes = {200: 0.9, 120: 0.5, 300: 0.7}
    population = [[float(draw.random() < chance) for _ in range(size)] for size, chance in sizes.items()]
    sequence = sequence_of(population)
    found = {}
    for place in range(140):
        sequence.update(round_of(population, place), gap)
        found[sequence.rounds] = sequence.interval
    assert {number: found[number] for number in limits} == {
        number: pytest.approx(ends) for number, ends in limits.items()
    }
    assert sequence.standard_error == pytest.approx(0.011259121)


@settings(max_examples=50, deadline=None)
@example([[0.0] * 5 + [1.0, 1.0], [0.0] * 5 + [1.0, 1.0, 0.0], [0.0, 0.0, 1.0]], 0.25)  # the bounds cross
@given(
    st.lists(st.lists(st.floats(0, 1), min_size=1, max_size=12), min_size=1, max_size=4),
    st.floats(0.001, 0.4),
)
def test_the_sequence_shrinks_and_ends_with_the_exact_mean(population: list[list[float]], gap: float) -> None:
    sequence = sequence_of(population)
    before = (0.0, 1.0)
    for place in range(sequence.all_rounds):
        assert 0 <= sequence.estimate <= 1
        sequence.update(round_of(population, place), gap)
        low, high = sequence.interval
        if sequence.rounds < sequence.all_rounds and low < high:  # a point: the bounds have crossed, as a few may
            assert before[0] <= low <= high <= before[1]
            before = low, high
    assert sequence.interval == (sequence.estimate, sequence.estimate)
    assert sequence.estimate == pytest.approx(mean(population), abs=1e-12)


@pytest.mark.slow
@pytest.mark.parametrize("chance", [0.02, 0.6, 1.0])
def test_coverage_over_all_rounds(chance: float) -> None:
    """A small version of tests/performance/early_stopping.py."""
    rng = random.Random(f"coverage {chance}")
    population = [[float(rng.random() < chance) for _ in range(128)] for _ in range(10)]
    truth, wrong = mean(population), 0
    for _ in range(400):
        order = [rng.sample(rows, len(rows)) for rows in population]
        sequence = sequence_of(population)
        for place in range(sequence.all_rounds - 1):
            sequence.update(round_of(order, place), 0.02)
        low, high = sequence.interval  # the intersection of all rounds
        wrong += not low - 1e-9 <= truth <= high + 1e-9
    assert wrong <= 33  # 0.05 * 400 plus three standard errors

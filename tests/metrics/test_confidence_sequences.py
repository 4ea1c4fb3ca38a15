"""Confidence sequences: valid by enumeration of all orders, equal to the direct product, exact at the end."""

from __future__ import annotations

import itertools
import math
import random
from collections import Counter, defaultdict
from collections.abc import Sequence

import pytest
from hypothesis import assume, example, given, settings
from hypothesis import strategies as st

from StaICC.errors import ArgumentError
from StaICC.metrics.confidence_sequences import ConfidenceSequence

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


def direct_capital(rounds: Sequence[Sequence[float | None]], sizes: Sequence[int], means: Sequence[float]) -> float:
    """Log capital against these means, as the product over draws; bets for a gap of 0.05, written again."""
    drawn, sums = [0] * len(sizes), [0.0] * len(sizes)
    squares, total = 0.25, 0.0
    for values in rounds:
        alive = [number for number, value in enumerate(values) if value is not None]
        left = {number: (sizes[number] - drawn[number]) / sizes[number] for number in alive}
        pooled = (0.5 + sum(sums)) / (1 + sum(drawn))
        centres = {number: (2 * pooled + sums[number]) / (2 + drawn[number]) for number in alive}
        shift = 0.05 * len(sizes)
        variance = squares / (1 + sum(drawn))
        bet = shift / (variance * sum(one**2 for one in left.values()) + shift**2 / len(alive))
        bet = min(bet, *(0.9 / (left[number] * centres[number]) for number in alive))
        for number in alive:
            value = values[number]
            assert value is not None
            rest = (sizes[number] * means[number] - sums[number]) / (sizes[number] - drawn[number])
            own = bet * left[number]
            total += math.log(1 + own * (value - centres[number])) - own * (rest - centres[number])
        for number in alive:
            value = values[number]
            assert value is not None
            squares += (value - centres[number]) ** 2
            sums[number] += value
            drawn[number] += 1
    return total


@settings(max_examples=60, deadline=None)
@given(st.integers(0, 10**9), st.lists(st.integers(3, 30), min_size=1, max_size=4))
def test_the_lower_bound_is_where_the_direct_product_reaches_the_threshold(seed: int, sizes: list[int]) -> None:
    rng = random.Random(seed)
    chance = rng.random()
    rounds = [
        [float(rng.random() < chance) if place < size else None for size in sizes] for place in range(max(sizes) - 1)
    ]
    sequence = ConfidenceSequence(sizes)
    low = 0.0
    for number, values in enumerate(rounds):
        sequence.update(values, 0.05)
        bound = sequence._below.value / len(sizes)
        drawn = [[one[place] for one in rounds[: number + 1] if one[place] is not None] for place in range(len(sizes))]
        sums = [sum(filter(None, rows)) / size for rows, size in zip(drawn, sizes, strict=True)]
        if bound <= max(low, sum(sums) / len(sizes) + 1e-12):
            continue  # an earlier round, or what is certain, gives the bound
        low = bound
        known = {place: sums[place] for place, rows in enumerate(drawn) if len(rows) == sizes[place]}
        alive = [place for place in range(len(sizes)) if place not in known]
        assume(alive)
        share = (bound * len(sizes) - sum(known.values())) / len(alive)
        for _ in range(3):  # how the sum is spread over the data sets makes no difference
            means = dict.fromkeys(alive, share)
            if len(alive) > 1:
                one, other = rng.sample(alive, 2)
                moved = rng.uniform(-0.3, 0.3)
                means[one], means[other] = means[one] + moved, means[other] - moved
            capital = direct_capital(
                rounds[: number + 1], sizes, [(means | known)[place] for place in range(len(sizes))]
            )
            assert capital == pytest.approx(math.log(2 / 0.05), abs=1e-6)


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


def followed(population: Population, rounds: int, **range_: float) -> tuple[float, float]:
    sequence = sequence_of(population, **range_)
    for place in range(rounds):
        sequence.update(round_of(population, place), 0.05 * sequence._width)
    return sequence.interval


def test_the_ends_mirror_each_other_and_scale_with_the_range() -> None:
    rng = random.Random(1)
    population = [[rng.choice([0, 0.5, 1]) for _ in range(60)] for _ in range(3)]
    low, high = followed(population, 30)
    assert 0 < low < high < 1
    mirrored = followed([[1 - one for one in rows] for rows in population], 30)
    assert mirrored == pytest.approx((1 - high, 1 - low))
    scaled = followed([[2 * one - 1 for one in rows] for rows in population], 30, low=-1.0)
    assert scaled == pytest.approx((2 * low - 1, 2 * high - 1))


@pytest.mark.parametrize("value", [1.1, -0.1, math.nan])
def test_a_value_out_of_range_changes_nothing(value: float) -> None:
    sequence = ConfidenceSequence([2, 3])
    with pytest.raises(ArgumentError, match="wrong value"):
        sequence.update([value, 0.0], 0.02)
    assert sequence.interval == (0.0, 1.0)


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

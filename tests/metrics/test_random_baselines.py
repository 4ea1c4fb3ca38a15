"""Random baselines and null models: mpmath (400 digits), enumeration, simulation and the figures of the paper."""

from __future__ import annotations

import itertools
import json
import math
from collections.abc import Callable, Sequence
from fractions import Fraction
from functools import partial
from pathlib import Path
from typing import Any

import mpmath
import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from scipy import stats

from StaICC.errors import ArgumentError
from StaICC.metrics.random_baselines import RandomBaseline, expected_best, guessing_p_value, log_tail, p_value_of_best

GOLDEN = json.loads((Path(__file__).parent.parent / "golden" / "random_baselines.json").read_text())
CHANCES = [1 / 174, 1 / 77, 0.1, 1 / 6, 0.25, 1 / 3, 0.5]
TRIES = [1, 2, 10, 200, 10_000, 10**30]
DIGITS = mpmath.MPContext()
DIGITS.dps = 400  # enough for F(k)^t - F(k - 1)^t to keep digits where it is 1e-300


HALF = RandomBaseline(100, 0.5)


def exact_binomial(n: int, p: float) -> list[mpmath.mpf]:
    """P(X = k) for all k; the float p is taken at its exact value."""
    chance = DIGITS.mpf(p)
    odds = chance / (1 - chance)
    value = (1 - chance) ** n
    values = [value]
    for k in range(n):
        value = value * (n - k) / (k + 1) * odds
        values.append(value)
    return values


def exact_poisson_binomial(chances: list[float]) -> list[mpmath.mpf]:
    """P(X = k) for all k by adding one trial after another."""
    values = [DIGITS.mpf(1)]
    for chance in map(DIGITS.mpf, chances):
        values = [
            (values[k] * (1 - chance) if k < len(values) else 0) + (values[k - 1] * chance if k else 0)
            for k in range(len(values) + 1)
        ]
    return values


def exact_upper(values: list[mpmath.mpf]) -> list[mpmath.mpf]:
    """P(X >= k) for k = 0 to n + 1, summed from the thin end."""
    return [*[*itertools.accumulate(reversed(values))][::-1], DIGITS.mpf(0)]


def exact_baseline(upper: list[mpmath.mpf], t: int) -> mpmath.mpf:
    return DIGITS.fsum(1 - (1 - tail) ** t for tail in upper[1:-1]) / (len(upper) - 2)


def exact_p_value(upper: list[mpmath.mpf], k: int, t: int) -> mpmath.mpf:
    return -DIGITS.expm1(t * DIGITS.log1p(-upper[k])) if upper[k] < 1 else DIGITS.mpf(1)


def relative(ours: float, truth: mpmath.mpf) -> float:
    return float(abs(ours - truth) / truth)


def check_against_exact(baseline: RandomBaseline, values: list[mpmath.mpf], counts: list[int]) -> None:
    upper = exact_upper(values)
    for t in TRIES:
        assert relative(baseline.max_random_baseline(t), exact_baseline(upper, t)) < 1e-12
        for k in counts:
            truth = exact_p_value(upper, k, t)
            if truth > 1e-307:
                assert relative(baseline.p_value_of_count(k, t), truth) < 1e-11, (k, t)
            log_truth = float(DIGITS.log(truth))
            assert baseline.log_p_value(Fraction(k, baseline.n), t) == pytest.approx(log_truth, rel=1e-12, abs=1e-12)


@pytest.mark.parametrize("p", CHANCES)
@pytest.mark.parametrize("n", [1, 2, 7, 100, 512, 1024])
def test_plain_p_equals_mpmath(n: int, p: float) -> None:
    counts = sorted({0, 1, n // 7, n // 3, n // 2, int(0.6 * n), int(0.9 * n), n - 1, n})
    check_against_exact(RandomBaseline(n, p), exact_binomial(n, p), counts)


@pytest.mark.parametrize(
    "chances",
    [
        [0.5, 0.25, 0.5, 1 / 3],
        [1 / (2 + i % 6) for i in range(100)],
        [1 / (2 + i % 173) for i in range(300)],
        [0.0, 1.0, 1.0, 0.5, 0.9],
    ],
    ids=["four", "six kinds", "many kinds", "certain ones"],
)
def test_mixed_p_equals_mpmath(chances: list[float]) -> None:
    n = len(chances)
    values = exact_poisson_binomial(chances)
    possible = [k for k, value in enumerate(exact_upper(values)[:-1]) if value > 0]
    counts = [k for k in possible if k in {n // 4, n // 3, n // 2, int(0.8 * n), possible[-1]}]
    check_against_exact(RandomBaseline(n, chances), values, counts)


def test_the_ends_of_floating_point_and_of_the_levels() -> None:
    far = RandomBaseline(1024, 1 / 6)
    assert far.p_value(1.0, 10) == 0.0
    assert far.log_p_value(1.0, 10) == pytest.approx(math.log(10) - 1024 * math.log(6), rel=1e-14)
    baseline = RandomBaseline(3, [0.0, 0.5, 0.5])
    assert baseline.p_value(1.0) == 0.0
    assert baseline.log_p_value(1.0) == -math.inf
    level = RandomBaseline(20, 0.5).p_value_of_count(13)
    assert RandomBaseline(20, 0.5).critical_count(alpha=level) == 13  # a p-value that equals the level is enough
    assert RandomBaseline(20, 0.5).critical_count() == RandomBaseline(20, 0.5).critical_count(1, 0.05) == 15
    assert RandomBaseline(3, 0.5).critical_count() is None  # three right of three happen by chance


def test_counts_are_recovered_without_slips() -> None:
    for n in (1, 3, 7, 100, 512, 1000, 1024, 10_000):
        baseline = RandomBaseline(n, 0.5)
        for k in range(0, n + 1, max(1, n // 499)):
            assert baseline.count(k / n) == k
            assert baseline.count(Fraction(k, n)) == k
            if k < n:
                assert baseline.count(math.nextafter(k / n, 1.0)) == k
    assert RandomBaseline(100, 0.2).count(0.29) == 29
    assert HALF.count_of_rounded(" 5e-1 ") == 50
    assert RandomBaseline(1024, 0.5).count_of_rounded("5.508e-1") == 564
    assert RandomBaseline(1024, 0.5).count_of_rounded("0.551") == 564  # 0.5508; its neighbours are 0.550 and 0.552


@example([1.0, 1.0, 0.75, 0.9999999999999999], 3)
@given(st.lists(st.floats(0, 1), min_size=1, max_size=40), st.integers(0, 40))
def test_any_mixture_equals_exact_arithmetic(chances: list[float], number: int) -> None:
    """Chances from 0 to 1, tiny ones included: the smaller tail, to nine digits."""
    chances = [chance if chance > 1e-300 else 0.0 for chance in chances]
    values = exact_poisson_binomial(chances)
    upper, lower = exact_upper(values), list(itertools.accumulate(values))
    k = number % (len(chances) + 1)
    tail, is_upper = log_tail(RandomBaseline(len(chances), chances).p, k)
    truth = upper[k] if is_upper else lower[k]
    if truth == 0:
        assert tail == -math.inf
    elif truth > 1e-290:
        assert relative(math.exp(tail), truth) < 1e-9
    else:
        assert tail == pytest.approx(float(DIGITS.log(truth)), rel=1e-9)


BAD_TEXTS = ("", "nan", "inf", "-0.1", "1.1", "60", "1/2", "0,5")
BAD_EXAMPLES: list[tuple[Any, Any, str]] = [
    (0, 0.5, "n must .* 0"),
    (2.5, 0.5, "n must .* 2.5"),
    (True, 0.5, "n must .* True"),
    (10, 1.5, "p must .* 1.5"),
    (10, -0.5, "p must .* -0.5"),
    (10, math.nan, "p must .* nan"),
    (10, "0.5", r"p\[0\] must .* '0'"),
    (10, None, "p must .* None"),
    (3, [0.5, 0.5], "p .* 2 .* n is 3"),
    (2, [0.5, 1.5], r"p\[1\] must .* 1.5"),
    (2, [0.5, "x"], r"p\[1\] must .* 'x'"),
    (3, {2: 2}, "p .* 2 .* n is 3"),
    (3, {0: 3}, "number of labels in p .* 0"),
    (3, {2.5: 3}, "number of labels in p .* 2.5"),
    (3, {2: -1, 3: 4}, "number of examples with 2 labels in p .* -1"),
]


@pytest.mark.parametrize(
    ("call", "message"),
    [
        *((partial(RandomBaseline, n, p), message) for n, p, message in BAD_EXAMPLES),
        *((partial(HALF.count, acc), "an accuracy must") for acc in (-0.1, 1.2, math.nan, math.inf, True, "0.5", None)),
        *((partial(HALF.count_of_rounded, text), "an accuracy must") for text in BAD_TEXTS),
        *((partial(HALF.count, acc), rf"{acc} is no multiple of 1/100.* nearest is") for acc in (0.333, 0.9999)),
        (partial(HALF.p_value_of_count, 101), "101 .* n = 100"),
        (partial(HALF.p_value_of_count, 50, 0), "t must"),
        (partial(HALF.critical_count, alpha=1.5), "alpha must .* 1.5"),
    ],
)
def test_bad_input(call: Callable[[], object], message: str) -> None:
    with pytest.raises(ArgumentError, match=message):
        call()


@given(st.integers(1, 60), st.floats(0.001, 0.999), st.integers(1, 500), st.floats(0.001, 0.5))
def test_the_critical_count_is_the_first_below_alpha(n: int, p: float, t: int, alpha: float) -> None:
    baseline = RandomBaseline(n, p)
    k = baseline.critical_count(t, alpha)
    if k is None:
        assert baseline.p_value_of_count(n, t) > alpha
    else:
        assert baseline.p_value_of_count(k, t) <= alpha
        assert k == 0 or baseline.p_value_of_count(k - 1, t) > alpha


def test_figures_of_the_paper() -> None:
    example = GOLDEN["section_4_example"]
    ours = RandomBaseline(example["n"], 1 / example["labels"]).max_random_baseline(example["t"])
    assert abs(ours - example["expected_maximum_accuracy"]) < example["good_to"]
    assert round(ours, 5) == 0.57678  # equation 9, evaluated exactly
    assert ours > 0.57  # "by more than 7 points of accuracy"
    large = GOLDEN["section_4_large_set"]
    assert RandomBaseline(large["n"], 1 / large["labels"]).max_random_baseline(large["t"]) < large["stays_below"]
    for n in GOLDEN["table_1"]["examples"].values():
        upper = exact_upper(exact_binomial(n, 0.5))
        for t in (n, GOLDEN["table_1"]["t"]):  # one-shot runs have only n prompts
            assert relative(RandomBaseline(n, 0.5).max_random_baseline(t), exact_baseline(upper, t)) < 1e-13


def test_thirty_million_examples_where_a_lower_tail_is_below_floating_point() -> None:
    guessing = RandomBaseline(30_000_000, 0.5)
    # The best of 10 normal variables is 1.5387527 standard deviations above the mean (David and Nagaraja 2003).
    expected = 0.5 + 1.5387527 * math.sqrt(0.25 / 30_000_000)
    assert guessing.max_random_baseline(10) == pytest.approx(expected, rel=1e-7)


# -- p-values against guesses: enumeration, with errors of the first kind


SHAPES = st.lists(
    st.tuples(st.integers(2, 6), st.sampled_from([1, 2, 3, 5, 10]), st.integers(0, 2)), min_size=1, max_size=3
)


def guesses_of(shapes: Sequence[tuple[int, int, int]]) -> tuple[list[tuple[float, int, int]], dict[Fraction, float]]:
    """Return guesses of rows with two queries, of some of which one failed, and the exact distribution of the score."""
    guesses, chances = [], {Fraction(0): 1.0}
    for labels, rows, failed in shapes:
        failed = min(failed, rows - 1)
        total = (2 * rows - failed) * len(shapes)
        for size, count in ((1, failed), (2, rows - failed)):
            if count:
                guesses.append((size / total, labels, count))
                grown: dict[Fraction, float] = {}
                for place, chance in chances.items():
                    for right, weight in enumerate(stats.binom.pmf(range(count + 1), count, 1 / labels)):
                        key = place + Fraction(size * right, total)
                        grown[key] = grown.get(key, 0.0) + chance * float(weight)
                chances = grown
    return guesses, chances


@settings(max_examples=30, deadline=None)
@given(SHAPES, st.sampled_from([1, 2, 10, 100]))
def test_p_values_and_best_scores_equal_enumeration(shapes: list[tuple[int, int, int]], tried: int) -> None:
    guesses, chances = guesses_of(shapes)
    scores = sorted(chances)
    below = np.minimum(1.0, np.cumsum([chances[score] for score in scores]))
    best = np.diff(below**tried, prepend=0.0)
    expected = float(np.dot([float(score) for score in scores], best))
    assert expected_best(guesses, tried) == pytest.approx(expected, abs=1e-3)
    p_values = np.array([guessing_p_value(guesses, float(score), tried) for score in scores])
    exact = np.cumsum(best[::-1])[::-1]
    assert np.all(p_values >= exact * 0.999 - 1e-12)
    assert np.all(p_values <= exact + 0.01)
    for level in (0.001, 0.01, 0.05):
        assert best[p_values <= level].sum() <= level * 1.001


def test_guesses_that_are_right_as_often_as_the_run_reach_its_mean_accuracy_however_it_is_rounded() -> None:
    """Ten queries with two labels, seven with three: some means of two accuracies are an ulp above the exact one."""
    guesses = [(1 / 20, 2, 10), (1 / 14, 3, 7)]
    chances = {
        (first, second): stats.binom.pmf(first, 10, 1 / 2) * stats.binom.pmf(second, 7, 1 / 3)
        for first, second in itertools.product(range(11), range(8))
    }
    exact_scores = {counts: Fraction(counts[0], 20) + Fraction(counts[1], 14) for counts in chances}
    rounded_up = 0
    for counts, exact_score in exact_scores.items():
        score = math.fsum([counts[0] / 10, counts[1] / 7]) / 2
        rounded_up += score > exact_score
        at_least = math.fsum(chance for other, chance in chances.items() if exact_scores[other] >= exact_score)
        assert guessing_p_value(guesses, score) == pytest.approx(at_least, rel=1e-9)
    assert rounded_up > 5


def test_tails_on_a_grid_next_to_enumeration() -> None:
    """Thin ones, too: all outcomes of the three other groups, and the exact tail of the third."""
    guesses = [(1 / 4096, 2, 1024), (1 / 4092, 2, 1023), (1 / 4088, 2, 1022), (1 / 24, 2, 6)]
    first, second = np.arange(1025)[:, None], np.arange(1024)[None, :]
    chances = stats.binom.pmf(first, 1024, 0.5) * stats.binom.pmf(second, 1023, 0.5)
    for score in (0.45, 0.53, 0.62, 0.675, 0.7):
        exact = 0.0
        for few in range(7):
            needed = np.ceil((score - few / 24 - first / 4096 - second / 4092) * 4088 - 1e-7)
            exact += stats.binom.pmf(few, 6, 0.5) * (chances * stats.binom.sf(needed - 1, 1022, 0.5)).sum()
        assert math.log(guessing_p_value(guesses, score)) == pytest.approx(math.log(exact), rel=0.04)


def test_best_of_100_means_of_the_ten_data_sets() -> None:
    """The figure of the issue: 0.356, where the mean of the bests of 100 is 0.381."""
    sizes = (2, 2, 3, 5, 6, 4, 2, 4, 2, 4)
    guesses = [(1 / (1024 * 10), labels, 1024) for labels in sizes]
    draw = np.random.default_rng(2)
    simulated = sum(draw.binomial(1024, 1 / labels, size=(4_000, 100)) for labels in sizes).max(1).mean() / 10_240
    assert expected_best(guesses, 100) == pytest.approx(simulated, abs=5e-4)
    assert expected_best(guesses, 100) == pytest.approx(0.356, abs=5e-4)
    mean_of_bests = np.mean([expected_best([(1 / 1024, labels, 1024)], 100) for labels in sizes])
    assert mean_of_bests == pytest.approx(0.381, abs=1e-3)


@pytest.mark.parametrize("tried", [1, 2, 10, 100])
def test_the_p_value_of_the_best_of_independent_tries_is_uniform(tried: int) -> None:
    """The smallest of t p-values is at most x with probability 1 - (1 - x)^t."""
    draw = np.random.default_rng(3)
    smallest = draw.random((20_000, tried)).min(axis=1)
    corrected = [p_value_of_best(float(p), tried) for p in smallest]
    for level in (0.01, 0.05, 0.5):
        assert np.mean(np.array(corrected) <= level) == pytest.approx(level, abs=0.012)
    assert p_value_of_best(1.0, tried) == 1.0
    assert p_value_of_best(1e-18, tried) == pytest.approx(tried * 1e-18)

"""Random baselines and null models: mpmath (400 digits), enumeration, simulation and the figures of the paper."""

from __future__ import annotations

import itertools
import json
import math
from fractions import Fraction
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
"""Guesses of 100 examples with two labels."""


def exact_binomial(n: int, p: float) -> list[mpmath.mpf]:
    """Return P(X = k) for all k; the float p is taken at its exact value."""
    chance = DIGITS.mpf(p)
    odds = chance / (1 - chance)
    value = (1 - chance) ** n
    values = [value]
    for k in range(n):
        value = value * (n - k) / (k + 1) * odds
        values.append(value)
    return values


def exact_poisson_binomial(chances: list[float]) -> list[mpmath.mpf]:
    """Return P(X = k) for all k by adding one trial after another."""
    values = [DIGITS.mpf(1)]
    for chance in map(DIGITS.mpf, chances):
        after_failure = [*[value * (1 - chance) for value in values], DIGITS.mpf(0)]
        after_success = [DIGITS.mpf(0), *[value * chance for value in values]]
        values = [failure + success for failure, success in zip(after_failure, after_success, strict=True)]
    return values


def exact_upper(values: list[mpmath.mpf]) -> list[mpmath.mpf]:
    """Return P(X >= k) for k = 0 to n + 1, summed from the thin end."""
    sums_from_the_end = list(itertools.accumulate(reversed(values)))
    return [*reversed(sums_from_the_end), DIGITS.mpf(0)]


def exact_baseline(upper: list[mpmath.mpf], t: int) -> mpmath.mpf:
    """Return the expected best accuracy of t guesses: the mean over k >= 1 of P(best >= k)."""
    n = len(upper) - 2
    return DIGITS.fsum(1 - (1 - tail) ** t for tail in upper[1 : n + 1]) / n


def exact_p_value(upper: list[mpmath.mpf], k: int, t: int) -> mpmath.mpf:
    """Return the probability that the best of t guesses has at least k correct ones: 1 - (1 - P(X >= k))^t."""
    if upper[k] >= 1:
        return DIGITS.mpf(1)
    return -DIGITS.expm1(t * DIGITS.log1p(-upper[k]))


def relative_error(value: float, truth: mpmath.mpf) -> float:
    """Return the relative error of a value."""
    return float(abs(value - truth) / truth)


def assert_p_values_are_exact(baseline: RandomBaseline, values: list[mpmath.mpf], counts: list[int]) -> None:
    """Fail if a p-value of one of these counts, or its logarithm, differs from that of the exact distribution."""
    upper = exact_upper(values)
    for t, k in itertools.product(TRIES, counts):
        truth = exact_p_value(upper, k, t)
        if truth > 1e-307:
            assert relative_error(baseline.p_value_of_count(k, t), truth) < 1e-11, (k, t)
        log_truth = float(DIGITS.log(truth))
        assert baseline.log_p_value(Fraction(k, baseline.n), t) == pytest.approx(log_truth, rel=1e-12, abs=1e-12)


def assert_best_of_guesses_is_exact(baseline: RandomBaseline, values: list[mpmath.mpf]) -> None:
    """Fail if an expected best accuracy differs from that of the exact distribution."""
    for t in TRIES:
        truth = exact_baseline(exact_upper(values), t)
        assert relative_error(baseline.max_random_baseline(t), truth) < 1e-12, t


@pytest.mark.parametrize("p", CHANCES)
@pytest.mark.parametrize("n", [1, 2, 7, 100, 512, 1024])
def test_guesses_with_one_chance_equal_mpmath(n: int, p: float) -> None:
    counts = sorted({0, 1, n // 7, n // 3, n // 2, int(0.6 * n), int(0.9 * n), n - 1, n})
    baseline, values = RandomBaseline(n, p), exact_binomial(n, p)

    assert_best_of_guesses_is_exact(baseline, values)
    assert_p_values_are_exact(baseline, values, counts)


@pytest.mark.parametrize(
    ("chances", "counts"),
    [
        ([0.5, 0.25, 0.5, 1 / 3], [1, 2, 3, 4]),
        ([1 / (2 + i % 6) for i in range(100)], [25, 33, 50, 80, 100]),
        ([1 / (2 + i % 173) for i in range(300)], [75, 100, 150, 240, 300]),
        ([0.0, 1.0, 1.0, 0.5, 0.9], [1, 2, 3, 4]),
    ],
    ids=["four", "six kinds", "many kinds", "certain ones"],
)
def test_guesses_with_different_chances_equal_mpmath(chances: list[float], counts: list[int]) -> None:
    baseline, values = RandomBaseline(len(chances), chances), exact_poisson_binomial(chances)

    assert_best_of_guesses_is_exact(baseline, values)
    assert_p_values_are_exact(baseline, values, counts)


def test_a_p_value_below_floating_point_has_its_logarithm() -> None:
    """The best of ten guesses is right on all of 1024 examples with about 10 * (1/6)^1024."""
    baseline = RandomBaseline(1024, 1 / 6)

    assert baseline.p_value(1.0, 10) == 0.0
    assert baseline.log_p_value(1.0, 10) == pytest.approx(math.log(10) - 1024 * math.log(6), rel=1e-14)


def test_the_p_value_of_what_is_impossible_is_zero() -> None:
    one_is_never_right = RandomBaseline(3, [0.0, 0.5, 0.5])

    assert one_is_never_right.p_value(1.0) == 0.0
    assert one_is_never_right.log_p_value(1.0) == -math.inf


def test_the_critical_count_has_a_p_value_of_at_most_the_level() -> None:
    baseline = RandomBaseline(20, 0.5)

    assert baseline.critical_count(alpha=baseline.p_value_of_count(13)) == 13
    assert baseline.critical_count() == baseline.critical_count(t=1, alpha=0.05) == 15


def test_there_is_no_critical_count_where_guesses_may_be_right_on_everything() -> None:
    """Three of three are right with the probability 1/8."""
    assert RandomBaseline(3, 0.5).critical_count() is None


@pytest.mark.parametrize("n", [1, 3, 7, 100, 512, 1000, 1024, 10_000])
def test_the_count_of_an_accuracy_is_recovered(n: int) -> None:
    """Also if the accuracy is rounded up."""
    baseline = RandomBaseline(n, 0.5)

    for k in range(0, n, max(1, n // 499)):
        assert baseline.count(k / n) == k
        assert baseline.count(Fraction(k, n)) == k
        assert baseline.count(math.nextafter(k / n, 1.0)) == k
    assert baseline.count(1.0) == n


def test_the_count_of_an_accuracy_that_floats_round_down_is_recovered() -> None:
    assert 0.29 * 100 < 29
    assert RandomBaseline(100, 0.2).count(0.29) == 29


@pytest.mark.parametrize(("n", "text", "count"), [(100, " 5e-1 ", 50), (1024, "5.508e-1", 564), (1024, "0.551", 564)])
def test_the_count_of_a_rounded_accuracy_is_recovered(n: int, text: str, count: int) -> None:
    """564 of 1024 are 0.5508; the neighbours round to 0.550 and 0.552."""
    assert RandomBaseline(n, 0.5).count_of_rounded(text) == count


TINY = 1e-290
"""Near the smallest numbers of floating point, logarithms are compared in place of probabilities."""


@example([1.0, 1.0, 0.75, 0.9999999999999999], 3)
@given(st.lists(st.floats(1e-300, 1) | st.just(0.0), min_size=1, max_size=40), st.integers(0, 40))
def test_the_smaller_tail_of_any_chances_is_exact_to_nine_digits(chances: list[float], k: int) -> None:
    k = min(k, len(chances))
    values = exact_poisson_binomial(chances)

    log_of_tail, is_upper = log_tail(RandomBaseline(len(chances), chances).p, k)

    truth = exact_upper(values)[k] if is_upper else DIGITS.fsum(values[: k + 1])
    if truth == 0:
        assert log_of_tail == -math.inf
    elif truth > TINY:
        assert relative_error(math.exp(log_of_tail), truth) < 1e-9
    else:
        assert log_of_tail == pytest.approx(float(DIGITS.log(truth)), rel=1e-9)


BAD_ARGUMENTS: list[tuple[Any, Any, str]] = [
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


@pytest.mark.parametrize(("n", "p", "message"), BAD_ARGUMENTS)
def test_a_baseline_with_a_bad_argument_is_refused(n: Any, p: Any, message: str) -> None:
    with pytest.raises(ArgumentError, match=message):
        RandomBaseline(n, p)


@pytest.mark.parametrize("accuracy", [-0.1, 1.2, math.nan, math.inf, True, "0.5", None])
def test_a_value_that_is_no_accuracy_is_refused(accuracy: Any) -> None:
    with pytest.raises(ArgumentError, match="an accuracy must"):
        HALF.count(accuracy)


@pytest.mark.parametrize("text", ["", "nan", "inf", "-0.1", "1.1", "60", "1/2", "0,5"])
def test_a_text_that_is_no_accuracy_is_refused(text: str) -> None:
    with pytest.raises(ArgumentError, match="an accuracy must"):
        HALF.count_of_rounded(text)


@pytest.mark.parametrize("accuracy", [0.333, 0.9999])
def test_an_accuracy_that_no_count_has_is_refused(accuracy: float) -> None:
    with pytest.raises(ArgumentError, match=rf"{accuracy} is no multiple of 1/100.* nearest is"):
        HALF.count(accuracy)


def test_a_count_above_the_number_of_examples_is_refused() -> None:
    with pytest.raises(ArgumentError, match=r"101 .* n = 100"):
        HALF.p_value_of_count(101)


def test_a_number_of_tries_below_one_is_refused() -> None:
    with pytest.raises(ArgumentError, match="t must"):
        HALF.p_value_of_count(50, t=0)


def test_a_level_above_one_is_refused() -> None:
    with pytest.raises(ArgumentError, match=r"alpha must .* 1\.5"):
        HALF.critical_count(alpha=1.5)


@given(st.integers(1, 60), st.floats(0.001, 0.999), st.integers(1, 500), st.floats(0.001, 0.5))
def test_the_critical_count_is_the_first_whose_p_value_is_at_most_alpha(n: int, p: float, t: int, alpha: float) -> None:
    baseline = RandomBaseline(n, p)
    significant_counts = [k for k in range(n + 1) if baseline.p_value_of_count(k, t) <= alpha]

    critical_count = baseline.critical_count(t, alpha)

    if significant_counts:
        assert critical_count == significant_counts[0]
    else:
        assert critical_count is None


def test_the_example_of_section_4_of_the_paper_is_reproduced() -> None:
    """Equation 9, evaluated exactly, is 0.57678: more than 7 points above 1/2, as the paper has it."""
    example = GOLDEN["section_4_example"]

    best = RandomBaseline(example["n"], 1 / example["labels"]).max_random_baseline(example["t"])

    assert best == pytest.approx(example["expected_maximum_accuracy"], abs=example["good_to"])
    assert best == pytest.approx(0.57678, abs=5e-6)


def test_the_large_set_of_section_4_of_the_paper_is_reproduced() -> None:
    large = GOLDEN["section_4_large_set"]

    best = RandomBaseline(large["n"], 1 / large["labels"]).max_random_baseline(large["t"])

    assert best < large["stays_below"]


@pytest.mark.parametrize("n", GOLDEN["table_1"]["examples"].values())
def test_the_data_sets_of_table_1_of_the_paper_equal_mpmath(n: int) -> None:
    """One-shot runs have only n prompts, the others as many as the paper tried."""
    upper = exact_upper(exact_binomial(n, 0.5))

    for t in (n, GOLDEN["table_1"]["t"]):
        best = RandomBaseline(n, 0.5).max_random_baseline(t)
        assert relative_error(best, exact_baseline(upper, t)) < 1e-13


def test_thirty_million_examples_where_a_lower_tail_is_below_floating_point() -> None:
    """The best of 10 normal variables is 1.5387527 standard deviations above the mean (David and Nagaraja 2003)."""
    n = 30_000_000
    standard_deviation = math.sqrt(0.25 / n)

    best = RandomBaseline(n, 0.5).max_random_baseline(10)

    assert best == pytest.approx(0.5 + 1.5387527 * standard_deviation, rel=1e-7)


# -- p-values against guesses: enumeration, with errors of the first kind


Guesses = list[tuple[float, int, int]]
"""For each group of rows: what a right row adds to the score, the number of labels, and the number of rows."""


@st.composite
def groups_of_guesses(draw: st.DrawFn) -> Guesses:
    """Guesses of one to three data sets, of rows with two queries; a row may have one query because the other failed.

    The score is the mean over data sets of the mean over queries.
    """
    datasets = draw(st.integers(1, 3))
    guesses = []
    for _ in range(datasets):
        labels = draw(st.integers(2, 6))
        rows = draw(st.sampled_from([1, 2, 3, 5, 10]))
        rows_with_one_query = draw(st.integers(0, min(2, rows - 1)))
        queries = 2 * rows - rows_with_one_query
        guesses.append((2 / (queries * datasets), labels, rows - rows_with_one_query))
        if rows_with_one_query > 0:
            guesses.append((1 / (queries * datasets), labels, rows_with_one_query))
    return guesses


def distribution_of_score(guesses: Guesses) -> dict[Fraction, float]:
    """Return the probability of each score, in increasing order."""
    chances = {Fraction(0): 1.0}
    for step, labels, rows in guesses:
        exact_step = Fraction(step).limit_denominator(1000)
        grown: dict[Fraction, float] = {}
        for score, chance in chances.items():
            for right in range(rows + 1):
                grown_score = score + exact_step * right
                chance_of_right = float(stats.binom.pmf(right, rows, 1 / labels))
                grown[grown_score] = grown.get(grown_score, 0.0) + chance * chance_of_right
        chances = grown
    return dict(sorted(chances.items()))


def distribution_of_best(guesses: Guesses, tried: int) -> dict[float, float]:
    """Return the probability of each score of the best of so many guesses, in increasing order."""
    chances = distribution_of_score(guesses)
    at_most = np.minimum(1.0, np.cumsum(list(chances.values())))
    of_best = np.diff(at_most**tried, prepend=0.0)
    return dict(zip(map(float, chances), of_best.tolist(), strict=True))


@settings(max_examples=30, deadline=None)
@given(groups_of_guesses(), st.sampled_from([1, 2, 10, 100]))
def test_the_expected_best_equals_enumeration(guesses: Guesses, tried: int) -> None:
    chances = distribution_of_best(guesses, tried)

    expected = math.fsum(score * chance for score, chance in chances.items())
    assert expected_best(guesses, tried) == pytest.approx(expected, abs=1e-3)


@settings(max_examples=30, deadline=None)
@given(groups_of_guesses(), st.sampled_from([1, 2, 10, 100]))
def test_a_p_value_is_at_least_that_of_enumeration_and_little_more(guesses: Guesses, tried: int) -> None:
    probability_of_score = distribution_of_best(guesses, tried)
    for score in probability_of_score:
        as_good = [probability for other, probability in probability_of_score.items() if other >= score]
        exact_p_value = math.fsum(as_good)

        p_value = guessing_p_value(guesses, score, tried)

        assert p_value >= exact_p_value * 0.999 - 1e-12, score
        assert p_value <= exact_p_value + 0.01, score


@settings(max_examples=30, deadline=None)
@given(groups_of_guesses(), st.sampled_from([1, 2, 10, 100]), st.sampled_from([0.001, 0.01, 0.05]))
def test_guesses_are_rarely_significant(guesses: Guesses, tried: int, level: float) -> None:
    """The probability that the best of them has a p-value of at most the level is at most the level."""
    chances = distribution_of_best(guesses, tried)

    significant = [chance for score, chance in chances.items() if guessing_p_value(guesses, score, tried) <= level]
    assert math.fsum(significant) <= level * 1.001


def test_guesses_that_are_right_as_often_as_the_run_reach_its_mean_accuracy_however_it_is_rounded() -> None:
    """Ten queries with two labels, seven with three: some means of two accuracies are an ulp above the exact one."""
    guesses = [(1 / 20, 2, 10), (1 / 14, 3, 7)]
    outcomes = list(itertools.product(range(11), range(8)))  # right guesses on both data sets
    probability_of, exact_score_of = {}, {}
    for first, second in outcomes:
        probability_of[first, second] = stats.binom.pmf(first, 10, 1 / 2) * stats.binom.pmf(second, 7, 1 / 3)
        exact_score_of[first, second] = Fraction(first, 20) + Fraction(second, 14)

    rounded_up = 0
    for first, second in outcomes:
        exact_score = exact_score_of[first, second]
        rounded_score = (first / 10 + second / 7) / 2
        if rounded_score > exact_score:
            rounded_up += 1

        p_value = guessing_p_value(guesses, rounded_score)

        as_good = [probability_of[outcome] for outcome in outcomes if exact_score_of[outcome] >= exact_score]
        assert p_value == pytest.approx(math.fsum(as_good), rel=1e-9), (first, second)
    assert rounded_up > 5


@pytest.mark.parametrize("score", [0.45, 0.53, 0.62, 0.675, 0.7])
def test_a_p_value_of_large_groups_is_that_of_enumeration(score: float) -> None:
    """Thin tails, too: all outcomes of three groups of rows, with the exact tail of the third one in the list."""
    guesses = [(1 / 4096, 2, 1024), (1 / 4092, 2, 1023), (1 / 4088, 2, 1022), (1 / 24, 2, 6)]
    right_in_first, right_in_second = np.arange(1025)[:, None], np.arange(1024)[None, :]
    probabilities = stats.binom.pmf(right_in_first, 1024, 0.5) * stats.binom.pmf(right_in_second, 1023, 0.5)

    exact_p_value = 0.0
    for right_in_fourth in range(7):
        missing_score = score - right_in_first / 4096 - right_in_second / 4092 - right_in_fourth / 24
        needed_in_third = np.ceil(missing_score * 4088 - 1e-7)
        probability_of_enough_in_third = stats.binom.sf(needed_in_third - 1, 1022, 0.5)
        probability_of_fourth = stats.binom.pmf(right_in_fourth, 6, 0.5)
        exact_p_value += probability_of_fourth * (probabilities * probability_of_enough_in_third).sum()

    assert math.log(guessing_p_value(guesses, score)) == pytest.approx(math.log(exact_p_value), rel=0.04)


LABELS_OF_BENCHMARK = (2, 2, 3, 5, 6, 4, 2, 4, 2, 4)
"""The number of labels of each of the ten data sets of the benchmark, which have 1,024 queries each."""


def test_the_best_of_100_means_over_the_ten_data_sets_is_that_of_a_simulation() -> None:
    guesses = [(1 / 10_240, labels, 1024) for labels in LABELS_OF_BENCHMARK]
    generator = np.random.default_rng(2)
    correct = sum(generator.binomial(1024, 1 / labels, size=(4_000, 100)) for labels in LABELS_OF_BENCHMARK)
    simulated = float(np.mean(correct.max(axis=1))) / 10_240

    assert expected_best(guesses, 100) == pytest.approx(simulated, abs=5e-4)
    assert expected_best(guesses, 100) == pytest.approx(0.356, abs=5e-4)


def test_the_mean_of_the_bests_is_larger_than_the_best_of_the_means() -> None:
    best_of_each = [expected_best([(1 / 1024, labels, 1024)], 100) for labels in LABELS_OF_BENCHMARK]
    best_of_means = 0.356  # of the test before

    assert np.mean(best_of_each) == pytest.approx(0.381, abs=1e-3)
    assert np.mean(best_of_each) > best_of_means


@pytest.mark.parametrize("tried", [1, 2, 10, 100])
def test_the_p_value_of_the_best_of_independent_tries_is_uniform(tried: int) -> None:
    generator = np.random.default_rng(3)
    smallest = generator.random((20_000, tried)).min(axis=1)

    corrected = np.array([p_value_of_best(float(p), tried) for p in smallest])

    for level in (0.01, 0.05, 0.5):
        assert np.mean(corrected <= level) == pytest.approx(level, abs=0.012)


@pytest.mark.parametrize("tried", [1, 2, 10, 100])
def test_the_p_value_of_the_best_at_its_ends(tried: int) -> None:
    """The smallest of t p-values is at most x with the probability 1 - (1 - x)^t, which is nearly t x for small x."""
    assert p_value_of_best(1.0, tried) == 1.0
    assert p_value_of_best(1e-18, tried) == pytest.approx(tried * 1e-18)

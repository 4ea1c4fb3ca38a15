"""Paired tests of two runs: against exact tests, closed forms, brute force over possible rows, and skewed nulls."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from fractions import Fraction
from itertools import combinations, product
from typing import Any, NamedTuple

import numpy as np
import pytest
from hypothesis import assume, example, given, settings
from hypothesis import strategies as st
from scipy import optimize, stats

from StaICC.errors import ArgumentError
from StaICC.metrics import classification, diagnosis
from StaICC.metrics import paired_tests as paired
from StaICC.metrics.intervals import Interval
from StaICC.metrics.scores import CONSISTENCY, SCORES, STATISTICS
from StaICC.metrics.statistics import Contributions, MacroF1, Mean, MicroF1, OtherRun, Sample, ValueOnly
from tests.performance.skewed_nulls import (
    FURTHER_NULLS,
    NULLS,
    contributions_of_two_runs,
    difference_by_score,
    difference_of_contributions,
)


def difference_of_means(scores: Sequence[float], largest: float = 1.0) -> paired.PairedDifference:
    """Return the difference of two means over test rows, whose rows have these differences."""
    n = len(scores)
    steps = [score / n for score in scores]
    return paired.PairedDifference(math.fsum(steps), 0.0, steps, -largest / n, largest / n, largest)


# -- probabilities


@settings(max_examples=80, deadline=None)
@given(st.lists(st.integers(-60, 60).filter(bool), min_size=2, max_size=9, unique=True))
def test_the_chance_of_a_weighted_sum_is_the_closed_form(numbers: list[int]) -> None:
    """The probability that a sum of exponential variables, each times a term, is not positive.

    For different terms: one minus the sum over positive terms of the products of term / (term - other).
    """
    terms = [Fraction(number, 7) for number in numbers]
    probability_positive = Fraction(0)
    for term in terms:
        if term > 0:
            factors = [term / (term - other) for other in terms if other != term]
            probability_positive += math.prod(factors, start=Fraction(1))

    probability = paired._probability_not_positive({float(term): 1 for term in terms})

    assert probability == pytest.approx(float(1 - probability_positive), abs=1e-9, rel=1e-6)


STEPS_OF_700_ROWS = {
    "normal": lambda draw: draw.normal(0.1, 1.0, 700),
    "skewed": lambda draw: draw.lognormal(0.0, 1.5, 700) - 2.0,
    "rare": lambda draw: np.where(draw.random(700) < 0.01, draw.normal(30.0, 5.0, 700), draw.normal(-0.3, 0.1, 700)),
    "tiny": lambda draw: np.where(draw.random(700) < 0.9, draw.normal(0.0, 1e-9, 700), draw.normal(0.05, 1.0, 700)),
}


def probability_that_a_weighted_sum_is_negative(terms: np.ndarray) -> float:
    """Return the probability that a sum of exponential variables, each times a term, is negative.

    By inversion of the characteristic function, the product of 1 / (1 - i y term) (Gil-Pelaez 1951), with y = exp(x).
    """
    points = np.geomspace(1e-6, 1e3, 4_001) / np.linalg.norm(terms)
    values = np.exp(-np.log(1.0 - 1j * np.outer(points, terms)).sum(axis=1)).imag
    return float(0.5 - np.trapezoid(values, np.log(points)) / math.pi)


@pytest.mark.parametrize("distance", [-2.0, 0.0, 1.0])
@pytest.mark.parametrize("strata", [(700,), (300, 50, 350)], ids=["one data set", "three data sets"])
@pytest.mark.parametrize("kind", STEPS_OF_700_ROWS)
def test_a_p_value_with_joined_steps_is_that_with_all_steps(
    kind: str, strata: tuple[int, ...], distance: float
) -> None:
    """The p-value joins similar steps (fewer than 160 terms of 700); here it is computed with each of them.

    The hypothesis is that the difference is larger than ``least``, so many standard errors from the observed one. One
    more row is the worst possible, or, with the weight ``favourable``, the best possible.
    """
    steps = (STEPS_OF_700_ROWS[kind](np.random.default_rng(7)) / 700).tolist()
    lowest_step, highest_step = min(steps), -min(steps)
    difference = paired.PairedDifference(math.fsum(steps), 0.0, steps, lowest_step, highest_step, strata=strata)
    joined_steps = sum(len(values) for _, values in difference.condensed)
    assert joined_steps < 160
    least = difference.difference + distance * math.sqrt(difference.variance)

    row_weights = np.concatenate([np.full(size, 1.0 / size / len(strata)) for size in strata])
    terms_of_rows = np.array(steps) - least * row_weights
    shift_of_row = least / min(strata) / len(strata)
    worst_row = min(0.0, lowest_step - shift_of_row)
    best_row = max(0.0, highest_step - shift_of_row)
    with_worst_row = probability_that_a_weighted_sum_is_negative(np.array([*terms_of_rows, worst_row]))
    with_best_row = probability_that_a_weighted_sum_is_negative(np.array([*terms_of_rows, best_row]))
    favourable = expected_weight(min(strata) * len(strata))
    expected = (1 - favourable) * with_worst_row + favourable * with_best_row

    assert paired.upper_p_value(difference, least) == pytest.approx(expected, abs=2e-6)


# -- tests with a known answer


def expected_weight(rows: int) -> float:
    """The weight of the outcomes that are more extreme than the observed one, but not of the observed one."""
    return min(0.25, 0.0214 * math.sqrt(rows))


@settings(max_examples=60, deadline=None)
@given(st.integers(0, 400), st.integers(0, 400))
def test_the_p_value_of_accuracies_is_between_mcnemars_exact_and_mid_p_value(only_first: int, only_second: int) -> None:
    """The observed outcome counts in part: in the exact test in full, in the mid-p-value with half its probability."""
    both_equal = 100
    difference = difference_of_means([1.0] * only_first + [-1.0] * only_second + [0.0] * both_equal)

    differing = only_first + only_second
    most = max(only_first, only_second)
    observed_share = 1 - expected_weight(differing + both_equal)
    one_sided = stats.binom.sf(most, differing, 0.5) + observed_share * stats.binom.pmf(most, differing, 0.5)
    expected = min(1.0, 2 * one_sided) if differing else 1.0
    assert paired.p_value(difference) == pytest.approx(expected, rel=1e-6, abs=1e-30)


def test_the_p_value_is_midway_between_the_exact_and_the_mid_p_value_of_statsmodels() -> None:
    """Of 546 rows, only the first run is right on 40, and only the second one on 22."""
    contingency = pytest.importorskip("statsmodels.stats.contingency_tables", reason="needs the package statsmodels")
    exact = contingency.mcnemar([[300, 40], [22, 184]], exact=True).pvalue
    probability_of_22_of_62 = stats.binom.pmf(22, 62, 0.5)
    mid_p_value = exact - probability_of_22_of_62

    p_value = paired.p_value(difference_of_means([1.0] * 40 + [-1.0] * 22 + [0.0] * (300 + 184)))

    assert paired.favourable_weight(546) == 0.25
    assert p_value == pytest.approx((exact + mid_p_value) / 2, rel=1e-6)


@settings(max_examples=60, deadline=None)
@given(st.integers(0, 60), st.integers(1, 60), st.floats(0.02, 0.98))
def test_the_test_of_a_share_against_a_constant_is_binomial(right: int, wrong: int, constant: float) -> None:
    """The observed outcome counts in part, as in the test before."""
    rows = right + wrong
    difference = replace(
        difference_of_means([1.0 - constant] * right + [-constant] * wrong),
        lowest_step=-constant / rows,  # of one more wrong row
        highest_step=(1.0 - constant) / rows,  # of one more right row
    )

    observed_share = 1 - expected_weight(rows)
    more_right = stats.binom.sf(right, rows, constant)
    as_many_right = stats.binom.pmf(right, rows, constant)
    expected = more_right + observed_share * as_many_right
    assert paired.upper_p_value(difference) == pytest.approx(expected, rel=1e-6, abs=1e-12)


def size_of_test_of_differing_rows(differing: int, observed_share: float) -> float:
    """Return the probability that p is at most 0.05, if each of so many rows has either direction with a half."""
    gains = np.arange(differing + 1)
    probabilities = stats.binom.pmf(gains, differing, 0.5)
    first_better = stats.binom.sf(gains, differing, 0.5) + observed_share * probabilities
    p_values = 2 * np.minimum(first_better, first_better[::-1])
    return float(probabilities[p_values <= 0.05].sum())


def test_equal_accuracies_are_called_different_in_at_most_55_of_1000_samples() -> None:
    """The exact size for 4 to 600 rows: rows differ with a probability of 0.05 to 1."""
    for rows in [*range(4, 120), 150, 200, 256, 300, 450, 512, 600]:
        observed_share = 1 - paired.favourable_weight(rows)
        size_of_differing = [0.0]  # no row differs
        for differing in range(1, rows + 1):
            size_of_differing.append(size_of_test_of_differing_rows(differing, observed_share))

        for rate in (0.05, 0.1, 0.2, 0.4, 0.6, 0.8, 0.9, 1.0):
            probability_of_differing = stats.binom.pmf(np.arange(rows + 1), rows, rate)
            size = float(probability_of_differing @ size_of_differing)
            assert size <= 0.055, f"{rows} rows, of which {rate:.0%} differ: size {size:.4f}"


@pytest.mark.parametrize("rows", [20, 50, 128, 512, 5120])
@pytest.mark.parametrize("rare", [0.01, 0.02, 0.05, 0.125, 0.3])
def test_equal_means_with_rare_large_differences_are_called_different_in_at_most_55_of_1000_samples(
    rows: int, rare: float
) -> None:
    """The exact size: one run always has 1 - rare, the other one 0 with the probability rare, and else 1."""
    fewest_zeros, most_zeros = stats.binom.ppf([1e-6, 1 - 1e-6], rows, rare).astype(int)

    size = 0.0
    for zeros in range(fewest_zeros, most_zeros + 1):
        difference = difference_of_means([1.0 - rare] * zeros + [-rare] * (rows - zeros))
        is_tested = paired.too_few_rows(difference) is None
        if is_tested and paired.p_value(difference) <= 0.05:
            size += float(stats.binom.pmf(zeros, rows, rare))

    assert size <= 0.055


DIFFERENCES_OF_ROWS = st.lists(st.floats(-1, 1), min_size=2, max_size=40)
SEARCH_MEETS_THE_END = [0.0] * 5 + [1.0, 1.0, 0.5, -0.75, -0.875, -0.25]
"""For these, the search for an end of the interval meets it exactly."""


@settings(max_examples=40, deadline=None)
@given(DIFFERENCES_OF_ROWS)
def test_the_p_value_is_the_same_for_rows_in_another_order(scores: list[float]) -> None:
    in_given_order = paired.p_value(difference_of_means(scores))
    in_sorted_order = paired.p_value(difference_of_means(sorted(scores)))

    assert 0.0 < in_given_order <= 1.0
    assert in_sorted_order == pytest.approx(in_given_order, rel=1e-6)


@settings(max_examples=40, deadline=None)
@given(DIFFERENCES_OF_ROWS)
def test_the_p_value_is_the_same_for_exchanged_runs(scores: list[float]) -> None:
    difference = difference_of_means(scores)

    assert paired.p_value(difference.negated) == pytest.approx(paired.p_value(difference))


@settings(max_examples=40, deadline=None)
@example(SEARCH_MEETS_THE_END)
@given(DIFFERENCES_OF_ROWS)
def test_a_difference_is_significant_where_its_interval_excludes_zero(scores: list[float]) -> None:
    difference = difference_of_means(scores)
    interval = interval_of(difference)
    assume(abs(interval.low) > 1e-5 and abs(interval.high) > 1e-5)  # not decided by rounding

    is_significant = paired.p_value(difference) <= 0.05

    excludes_zero = interval.low > 0.0 or interval.high < 0.0
    assert is_significant == excludes_zero


@settings(max_examples=40, deadline=None)
@example(SEARCH_MEETS_THE_END)
@given(DIFFERENCES_OF_ROWS)
def test_the_interval_of_a_difference_holds_it_and_is_from_minus_1_to_1(scores: list[float]) -> None:
    difference = difference_of_means(scores)

    interval = interval_of(difference)

    assert -1.0 <= interval.low <= difference.difference <= interval.high <= 1.0


@settings(max_examples=40, deadline=None)
@example(SEARCH_MEETS_THE_END, 0.375)
@given(DIFFERENCES_OF_ROWS, st.floats(0.01, 0.5))
def test_a_run_is_not_inferior_where_the_interval_is_above_the_margin(scores: list[float], margin: float) -> None:
    difference = difference_of_means(scores)
    interval = interval_of(difference)
    assume(abs(interval.low + margin) > 1e-5)  # not decided by rounding

    is_not_inferior = paired.upper_p_value(difference, -margin) <= 0.025

    assert is_not_inferior == (interval.low > -margin)


def test_the_p_value_is_twice_the_smaller_tail_also_if_the_other_run_is_better() -> None:
    """The first run is better by 0.0125 on average, but one more row can hardly raise this, and can lower it a lot."""
    scores = difference_of_means([-0.004, -0.228, -0.04, -0.304, 0.761, -0.11])
    lopsided = replace(scores, lowest_step=-0.93 / 6, highest_step=0.003 / 6)
    assert lopsided.difference == pytest.approx(0.0125)

    p_first_better = paired.upper_p_value(lopsided)
    p_second_better = paired.upper_p_value(lopsided.negated)

    assert p_first_better > 0.5 > p_second_better
    assert paired.p_value(lopsided) == pytest.approx(2 * p_second_better)


def test_an_upward_bias_is_taken_off_the_difference() -> None:
    unbiased = difference_of_means([0.3, 0.1] * 40)
    raised = replace(unbiased, upward_bias=0.04)

    assert paired.p_value(raised) > paired.p_value(unbiased)
    assert paired.upper_p_value(raised) == pytest.approx(paired.upper_p_value(unbiased, 0.04))


def test_a_downward_bias_is_not_added_to_the_difference() -> None:
    unbiased = difference_of_means([0.3, 0.1] * 40)
    lowered = replace(unbiased, downward_bias=0.04)

    assert paired.p_value(lowered) == paired.p_value(unbiased)


def interval_of(difference: paired.PairedDifference) -> Interval:
    """Return the interval of a difference, which must have one."""
    interval = paired.difference_interval(difference)
    assert interval is not None
    return interval


def test_a_bias_widens_the_interval_on_its_side() -> None:
    unbiased = difference_of_means([0.3, 0.1] * 40)

    interval = interval_of(unbiased)
    interval_of_raised = interval_of(replace(unbiased, upward_bias=0.04))
    interval_of_lowered = interval_of(replace(unbiased, downward_bias=0.04))

    assert interval_of_raised.low == pytest.approx(interval.low - 0.04, abs=1e-6)
    assert interval_of_lowered.high == pytest.approx(interval.high + 0.04, abs=1e-6)


# -- what is not tested


EQUAL_ROWS = [0.0] * 60


@pytest.mark.parametrize(
    "differences",
    [[1.0], [1.0] * 5, [1.0, -1.0, 1.0, -1.0, 1.0]],
    ids=["one", "five in one direction", "five in both directions"],
)
def test_fewer_than_six_rows_with_other_predictions_are_no_test_of_accuracy(differences: list[float]) -> None:
    assert paired.too_few_rows(difference_of_means(differences + EQUAL_ROWS)) is not None


def test_equal_predictions_are_a_test_of_accuracy() -> None:
    """The p-value of equal predictions is 1 whatever the number of rows."""
    assert paired.too_few_rows(difference_of_means(EQUAL_ROWS)) is None


@pytest.mark.parametrize("differences", [[1.0] * 6, [1.0, -1.0] * 3, [1.0] * 40, [1.0, -1.0] * 20])
def test_six_rows_with_other_predictions_are_a_test_of_accuracy(differences: list[float]) -> None:
    assert paired.too_few_rows(difference_of_means(differences + EQUAL_ROWS)) is None


def test_the_reason_says_that_rows_are_too_few() -> None:
    reason = paired.too_few_rows(difference_of_means([1.0] * 5 + [0.0] * 55))

    assert reason == "too few rows differ: p would be above 0.05 even if all their differences had one direction"


def test_the_reason_says_that_differences_are_too_small() -> None:
    """Forty rows that differ are not too few, but one more row could outweigh them: 1 / 60 is 0.017."""
    reason = paired.too_few_rows(difference_of_means([0.01] * 40 + [0.0] * 20))

    assert reason == (
        "one more row could change the difference by about 0.017, and each of the 40 rows that contribute to it "
        "changes it by 0.00017 at most: p would be above 0.05 even if all their differences had one direction"
    )


def test_a_metric_without_a_bound_is_not_tested() -> None:
    """The divergence has no largest value: the third label is never true, so that its frequency is 0."""
    truth, rows = [0, 0, 1, 1], [0, 1, 2, 3]
    first, second = [[1.0, 0.0, 0.0]] * 4, [[0.5, 0.5, 0.0]] * 4

    difference = difference_by_score("DL div.", truth, [first, second], rows, 4, 3)

    assert paired.too_few_rows(difference) is not None
    assert paired.difference_interval(difference) is None
    assert paired.detectable_difference(difference) is None


# -- contributions


class TwoRuns(NamedTuple):
    """The predictions of two runs for the queries of test rows."""

    truth: list[int]
    """The true label of each query."""
    first: list[list[float]]
    """The label probabilities of the first run for each query."""
    second: list[list[float]]
    rows: list[int]
    """The test row of each query."""
    n_rows: int
    n_labels: int

    @property
    def probabilities(self) -> tuple[list[list[float]], list[list[float]]]:
        return self.first, self.second

    @property
    def sample(self) -> Sample:
        return Sample(self.truth, self.rows, self.n_rows, self.n_labels)


def draw_two_runs(seed: int, labels: int = 3, rows: int = 40, repeats: int = 2) -> TwoRuns:
    """Draw true labels, and probabilities from a uniform Dirichlet distribution, with several queries of a row."""
    draw = np.random.default_rng(seed)
    truth = np.repeat(draw.integers(0, labels, rows), repeats)
    first, second = (draw.dirichlet(np.ones(labels), rows * repeats).tolist() for _ in range(2))
    row_of_query = np.repeat(np.arange(rows), repeats).tolist()
    return TwoRuns(truth.tolist(), first, second, row_of_query, rows, labels)


def predicted_labels(probabilities: Sequence[Sequence[float]]) -> list[int]:
    """Return the label of the highest probability of each query."""
    return [list(row).index(max(row)) for row in probabilities]


def score_by_function(key: str, truth: Sequence[int], probabilities: Sequence[Sequence[float]]) -> float:
    """Return a score of a run by another way than the sums over test rows."""
    function = SCORES[key].metric
    if function is not None:
        return float(function(truth, probabilities))
    if key == "contextual_bias":
        return diagnosis.negated_mean_entropy(probabilities)
    if key == "entropy":
        return diagnosis.entropy_of_mean(probabilities)
    return diagnosis.empirical_bias(probabilities, truth)


def contributions_to(name: str, runs: TwoRuns) -> list[Contributions]:
    """Return what each test row contributes to a score of both runs."""
    statistic = STATISTICS[name]
    first: list[Any] = runs.first
    second: list[Any] = runs.second
    if statistic.reads == "labels":
        first = predicted_labels(runs.first)
        second = predicted_labels(runs.second)
    return contributions_of_two_runs(statistic, runs.sample, first, second)


def is_defined(name: str, runs: TwoRuns) -> bool:
    """Return whether a score is defined for both runs.

    The AUROC of confidence needs correct and wrong predictions, and the Matthews correlation different labels.
    """
    labels_of_runs = [predicted_labels(run) for run in runs.probabilities]
    if name == "auroc_confidence":
        for labels in labels_of_runs:
            is_correct = [label == true_label for label, true_label in zip(labels, runs.truth, strict=True)]
            if len(set(is_correct)) == 1:
                return False
    if name == "matthews":
        return min(len(set(labels)) for labels in (runs.truth, *labels_of_runs)) > 1
    return True


def names_of_scores_of_queries() -> list[str]:
    """Return the first name of each statistic with a paired test, but not the consistency, of several conditions."""
    names: dict[Any, str] = {}
    for name, statistic in STATISTICS.items():
        has_test = statistic != STATISTICS["nll"] and not isinstance(statistic, ValueOnly)
        if has_test and statistic != CONSISTENCY:
            names.setdefault(statistic, name)
    return list(names.values())


SCORES_OF_QUERIES = names_of_scores_of_queries()
"""The scores of the library that read the queries of one condition and have a paired test."""

of_each_score = pytest.mark.parametrize("name", SCORES_OF_QUERIES)
with_two_to_five_labels = pytest.mark.parametrize(("seed", "labels"), [(0, 2), (1, 3), (2, 4), (3, 5), (4, 2), (5, 3)])


@of_each_score
@with_two_to_five_labels
def test_steps_add_up_to_the_difference_of_the_scores(name: str, seed: int, labels: int) -> None:
    runs = draw_two_runs(seed, labels)

    difference = difference_of_contributions(contributions_to(name, runs))

    first = score_by_function(name, runs.truth, runs.first)
    second = score_by_function(name, runs.truth, runs.second)
    assert difference.first == pytest.approx(first, abs=1e-12)
    assert difference.second == pytest.approx(second, abs=1e-12)
    assert math.fsum(difference.steps) == pytest.approx(first - second, abs=1e-12)


@of_each_score
@with_two_to_five_labels
def test_one_more_row_changes_a_difference_most_if_it_is_extreme_for_both_runs(
    name: str, seed: int, labels: int
) -> None:
    """A step is a change of the difference times its 40 rows; after one more row, there are 41."""
    first, second = contributions_to(name, draw_two_runs(seed, labels, rows=40))

    difference = difference_of_contributions([first, second])

    lowest_after_row = (difference.difference + difference.lowest_step) * 40 / 41
    highest_after_row = (difference.difference + difference.highest_step) * 40 / 41
    assert lowest_after_row == pytest.approx(first.lowest_after_row - second.highest_after_row)
    assert highest_after_row == pytest.approx(first.highest_after_row - second.lowest_after_row)


@of_each_score
@with_two_to_five_labels
def test_the_biases_of_both_runs_add_up(name: str, seed: int, labels: int) -> None:
    """A difference is too high by what the first run is too high, and the second one too low."""
    first, second = contributions_to(name, draw_two_runs(seed, labels))

    difference = difference_of_contributions([first, second])

    assert difference.upward_bias == pytest.approx(first.upward_bias + second.downward_bias)
    assert difference.downward_bias == pytest.approx(first.downward_bias + second.upward_bias)


@of_each_score
@with_two_to_five_labels
def test_the_largest_difference_is_the_range_of_the_score(name: str, seed: int, labels: int) -> None:
    difference = difference_of_contributions(contributions_to(name, draw_two_runs(seed, labels)))

    lowest, highest = STATISTICS[name].range(labels)
    assert difference.largest_size == pytest.approx(highest - lowest)


@pytest.mark.parametrize("name", [name for name in SCORES_OF_QUERIES if isinstance(STATISTICS[name], Mean | MacroF1)])
@with_two_to_five_labels
def test_a_mean_is_extreme_after_one_row_that_is_certain_or_even(name: str, seed: int, labels: int) -> None:
    """Certain: one label has all the probability; even: all labels have the same. Each row has two queries."""
    runs = draw_two_runs(seed, labels, repeats=2)
    certain_predictions = np.eye(labels).tolist()
    even_prediction = [1 / labels] * labels

    of_first, _ = contributions_to(name, runs)

    scores_after_row = []
    for true_label in range(labels):
        for prediction in [*certain_predictions, even_prediction]:
            truth = [*runs.truth, true_label, true_label]
            predictions = [*runs.first, prediction, prediction]
            scores_after_row.append(score_by_function(name, truth, predictions))
    assert of_first.lowest_after_row == pytest.approx(min(scores_after_row))
    assert of_first.highest_after_row == pytest.approx(max(scores_after_row))


@st.composite
def runs_and_one_more_row(draw: st.DrawFn) -> tuple[TwoRuns, int, list[float]]:
    """Draw two runs, sometimes with certain predictions, and a row: its true label and the probabilities for it.

    The probabilities are certain, even, or their mean.
    """
    labels = draw(st.integers(2, 4))
    runs = draw_two_runs(
        seed=draw(st.integers(0, 10**6)),
        labels=labels,
        rows=draw(st.integers(1, 8)),
        repeats=draw(st.integers(1, 3)),
    )
    if draw(st.booleans()):
        first, second = (np.eye(labels)[predicted_labels(run)].tolist() for run in runs.probabilities)
        runs = runs._replace(first=first, second=second)
    true_label = draw(st.integers(0, labels - 1))
    predicted_label = draw(st.integers(0, labels - 1))
    weight_of_certain = draw(st.sampled_from([1.0, 0.0, 0.5]))
    certain = np.eye(labels)[predicted_label]
    even = np.full(labels, 1 / labels)
    return runs, true_label, (weight_of_certain * certain + (1 - weight_of_certain) * even).tolist()


@settings(max_examples=150, deadline=None)
@given(case=runs_and_one_more_row())
def test_a_score_after_one_more_row_is_between_its_extremes(
    case: tuple[TwoRuns, int, list[float]],
) -> None:
    """Except for the divergence, whose bounds are those of the influence of a row: see the next test."""
    runs, true_label, probabilities = case
    repeats = len(runs.truth) // runs.n_rows
    truth_after_row = [*runs.truth, *[true_label] * repeats]
    run_after_row = [*runs.first, *[probabilities] * repeats]
    rounding = 1e-12
    for name in SCORES_OF_QUERIES:
        if name == "DL div." or not is_defined(name, runs):
            continue

        of_first, _ = contributions_to(name, runs)

        score_after_row = score_by_function(name, truth_after_row, run_after_row)
        assert of_first.lowest_after_row - rounding <= score_after_row, name
        assert score_after_row <= of_first.highest_after_row + rounding, name


def divergence_with_row(runs: TwoRuns, run: list[list[float]], true_label: int, predicted: int, weight: float) -> float:
    """Return the divergence of a run in which a certain prediction has a weight, next to that of all queries."""
    certain = np.eye(runs.n_labels)
    mean = (1 - weight) * np.mean(run, axis=0) + weight * certain[predicted]
    frequencies = (1 - weight) * np.bincount(runs.truth) / len(runs.truth) + weight * certain[true_label]
    return float(mean @ np.log(mean / frequencies))


@pytest.mark.parametrize(("seed", "labels"), [(0, 2), (1, 3), (2, 4), (3, 2), (4, 3)])
def test_the_influence_of_a_row_on_a_difference_of_divergences_is_between_its_bounds(seed: int, labels: int) -> None:
    """The influence is the derivative by the weight of one more row, here as a quotient of differences.

    The bounds are no more than twice as far as the largest influence, but for what the library adds: half a query of
    each label.
    """
    runs = draw_two_runs(seed, labels, rows=40)
    difference = difference_of_contributions(contributions_to("DL div.", runs))

    weight = 1e-6
    influences = []
    for true_label, first_label, second_label in product(range(labels), repeat=3):
        first = divergence_with_row(runs, runs.first, true_label, first_label, weight)
        second = divergence_with_row(runs, runs.second, true_label, second_label, weight)
        influences.append((first - second - difference.difference) / weight)

    lower_bound = difference.lowest_step * 40 - difference.difference
    upper_bound = difference.highest_step * 40 - difference.difference
    added_queries = 0.05 * (upper_bound - lower_bound)
    assert lower_bound - added_queries <= min(influences)
    assert max(influences) <= upper_bound + added_queries
    assert lower_bound > 2.0 * min(influences) - added_queries
    assert upper_bound < 2.0 * max(influences) + added_queries


TWENTY_SURE = [[1.0, 0.0]] * 20
TWENTY_CAUTIOUS = [[0.96, 0.04]] * 20
SURE_AND_CAUTIOUS = TwoRuns([0] * 20, TWENTY_SURE, TWENTY_CAUTIOUS, list(range(20)), n_rows=20, n_labels=2)
"""Both runs are always right."""


def test_the_calibration_error_is_highest_after_a_wrong_prediction_that_is_sure() -> None:
    """Both runs are right on 20 rows with the label 0, with the probability 1 and 0.96."""
    of_sure, of_cautious = contributions_to("expected_calibration_error_1", SURE_AND_CAUTIOUS)

    truth_and_wrong_row = [0] * 20 + [1]
    sure_predictions = [[1.0, 0.0]] * 21
    error_after_wrong_row = classification.expected_calibration_error_1(truth_and_wrong_row, sure_predictions)
    assert of_sure.highest_after_row == pytest.approx(error_after_wrong_row)
    assert of_cautious.lowest_after_row >= 0.0


def test_the_entropy_of_equal_predictions_is_highest_after_the_other_label() -> None:
    of_sure, _ = contributions_to("entropy", SURE_AND_CAUTIOUS)

    assert of_sure.highest_after_row == pytest.approx(diagnosis.entropy_of_mean([*TWENTY_SURE, [0.0, 1.0]]))
    assert of_sure.lowest_after_row == 0.0


def macro_f1_without(left_out: int, truth: Sequence[int], guesses: Sequence[int], rows: Sequence[int], n: int) -> float:
    """The macro F1 over n labels without the queries of one test row; a label without a query counts 0."""
    pairs = [(label, guess) for label, guess, row in zip(truth, guesses, rows, strict=True) if row != left_out]
    f1_by_label = []
    for label in range(n):
        hits = pairs.count((label, label))
        size = sum(true == label for true, _ in pairs) + sum(guess == label for _, guess in pairs)
        f1_by_label.append(2 * hits / size if size else 0.0)
    return float(np.mean(f1_by_label))


@pytest.mark.parametrize("run", [0, 1], ids=["first run", "second run"])
@pytest.mark.parametrize(("seed", "labels"), [(0, 2), (1, 3), (2, 4), (3, 5)])
def test_the_bias_of_macro_f1_is_that_of_the_jackknife(seed: int, labels: int, run: int) -> None:
    """(n - 1) times the difference of the mean over samples without one row from the value; it has one direction."""
    n_rows = 30
    runs = draw_two_runs(seed, labels, rows=n_rows)
    guesses = predicted_labels(runs.probabilities[run])

    contributions = contributions_to("macro_F1", runs)[run]

    without_each_row = [macro_f1_without(row, runs.truth, guesses, runs.rows, labels) for row in range(n_rows)]
    jackknife_bias = (n_rows - 1) * (np.mean(without_each_row) - contributions.value)
    assert contributions.upward_bias - contributions.downward_bias == pytest.approx(jackknife_bias, abs=1e-12)
    assert min(contributions.upward_bias, contributions.downward_bias) == 0.0


@pytest.mark.parametrize("run", [0, 1], ids=["first run", "second run"])
@pytest.mark.parametrize(("seed", "labels"), [(0, 2), (1, 3), (2, 4), (4, 5)])
def test_a_row_with_correct_predictions_adds_to_macro_f1_what_is_missing_without_it(
    seed: int, labels: int, run: int
) -> None:
    runs = draw_two_runs(seed, labels, rows=30)
    guesses = predicted_labels(runs.probabilities[run])

    contributions = STATISTICS["macro_F1"].of_run(runs.sample, guesses)

    wrong_rows = {row for row, label, guess in zip(runs.rows, runs.truth, guesses, strict=True) if label != guess}
    correct_rows = sorted(set(range(30)) - wrong_rows)
    assert correct_rows
    for row in correct_rows:
        without_row = macro_f1_without(row, runs.truth, guesses, runs.rows, labels)
        assert contributions.rows[row] == pytest.approx(contributions.value - without_row), f"test row {row}"


def runs_with_the_same_errors(generator: np.random.Generator, n_rows: int) -> paired.PairedDifference:
    """Return the difference in macro F1 of two runs whose macro F1 is equal in the population.

    There are three labels. Both runs are wrong on the same 60 % of the rows of label 2: the first predicts label 0 for
    them, the second label 1. So the labels have another F1 in one run than in the other, and a sample with more rows of
    label 0 than of label 1 shows a difference.
    """
    truth = generator.choice(3, n_rows)
    is_wrong = (truth == 2) & (generator.random(n_rows) < 0.6)
    sample = Sample(truth.tolist(), range(n_rows), n_rows, 3)
    first = np.where(is_wrong, 0, truth).tolist()
    second = np.where(is_wrong, 1, truth).tolist()
    macro_f1 = STATISTICS["macro_F1"]
    of_first = macro_f1.of_run(sample, first, OtherRun(sample, second))
    of_second = macro_f1.of_run(sample, second, OtherRun(sample, first))
    return paired.paired_difference([(1.0, of_first)], [(1.0, of_second)])


def test_equal_macro_f1_is_called_different_in_at_most_a_tenth_of_samples_if_labels_differ() -> None:
    """With an F1 that is pooled over both runs, it was in 53 of 150 samples."""
    generator = np.random.default_rng(7)
    p_values = [paired.p_value(runs_with_the_same_errors(generator, n_rows=2_048)) for _ in range(60)]

    n_significant = sum(p_value <= 0.05 for p_value in p_values)

    assert n_significant <= 6


def draw_runs_without_extreme_probabilities(seed: int) -> TwoRuns:
    """Draw two runs on 100 rows with three labels, each with the mean of some probabilities and of (1, 0, 0)."""
    runs = draw_two_runs(seed, labels=3, rows=100)
    first, second = ((np.array(run) + np.eye(3)[0]) / 2 for run in runs.probabilities)
    return runs._replace(first=first.tolist(), second=second.tolist())


def score_with_a_row_twice(name: str, truth: list[int], run: list[list[float]], row: int) -> float:
    """Return a score in which the two queries of a test row count twice."""
    queries = (2 * row, 2 * row + 1)
    more_truth = [truth[query] for query in queries]
    more_probabilities = [run[query] for query in queries]
    return score_by_function(name, [*truth, *more_truth], [*run, *more_probabilities])


# The risk of the k most confident queries has the weight 1 / k. So a row among the first few of 200 queries adds up to
# 7 % more than its influence. tests/metrics/test_further_scores.py checks it with 2,000 rows. The contributions of a
# run to "DL div." lack what both runs share: see the next test. Here all predictions are the first label, so that there
# is no Matthews correlation.
SCORES_BY_INFLUENCE = [name for name in SCORES_OF_QUERIES if name not in ("aurc", "DL div.", "matthews")]


@pytest.mark.parametrize("seed", [0, 1])
@pytest.mark.parametrize("name", SCORES_BY_INFLUENCE)
def test_the_contribution_of_a_row_is_what_it_adds_if_it_counts_twice(name: str, seed: int) -> None:
    """An independent check of the influence functions: 100 rows before, 101 after."""
    runs = draw_runs_without_extreme_probabilities(seed)

    of_first, _ = contributions_to(name, runs)

    added_by_rows = []
    for row in range(100):
        change = score_with_a_row_twice(name, runs.truth, runs.first, row) - of_first.value
        added_by_rows.append(change * 101 / 100)
    centred_contributions = np.array(of_first.rows) - np.mean(of_first.rows)
    tolerance = 0.1 * np.std(added_by_rows)
    assert centred_contributions == pytest.approx(np.array(added_by_rows), abs=tolerance)


@pytest.mark.parametrize("seed", [0, 1])
def test_a_step_of_a_difference_of_divergences_is_what_a_row_adds_if_it_counts_twice(seed: int) -> None:
    runs = draw_runs_without_extreme_probabilities(seed)

    difference = difference_of_contributions(contributions_to("DL div.", runs))

    added_by_rows = []
    for row in range(100):
        first = score_with_a_row_twice("DL div.", runs.truth, runs.first, row)
        second = score_with_a_row_twice("DL div.", runs.truth, runs.second, row)
        change = first - second - difference.difference
        added_by_rows.append(change * 101 / 100)
    centred_steps = np.array(difference.steps) - np.mean(difference.steps)
    tolerance = 0.1 * np.std(added_by_rows)
    assert centred_steps == pytest.approx(np.array(added_by_rows), abs=tolerance)


@pytest.fixture
def f1_of_two_runs() -> list[Contributions]:
    """Return what two rows contribute to the micro F1 of two runs; one more row may have 3 true and 5 predicted labels.

    A prediction is (hits, size): the first run has 2 hits of 4 and 0 of 3, so its F1 is 2 * 2 / (4 + 3) = 4 / 7; the
    second run has (1, 4) and (1, 2), so its F1 is 2 * 2 / (4 + 2) = 4 / 6.
    """
    first_run = [(2, 4), (0, 3)]
    second_run = [(1, 4), (1, 2)]
    sample = Sample([0, 0], [0, 1], 2, 0)
    return contributions_of_two_runs(MicroF1((3.0, 5.0)), sample, first_run, second_run)


def test_the_micro_f1_is_that_of_the_sums_of_counts(f1_of_two_runs: list[Contributions]) -> None:
    """The first run has 2 hits of 4 and 0 of 3; the second one 1 of 4 and 1 of 2."""
    first, second = f1_of_two_runs

    assert first.value == 2 * (2 + 0) / (4 + 3)
    assert second.value == 2 * (1 + 1) / (4 + 2)


def test_the_micro_f1_after_one_more_row_is_between_all_missed_and_all_found(
    f1_of_two_runs: list[Contributions],
) -> None:
    """The row has up to 3 true and 5 predicted labels. The run has 2 hits, of a size of 4 + 3 = 7, before."""
    first, _ = f1_of_two_runs

    all_missed = 2 * 2 / (7 + 3 + 5)
    all_found = 2 * (2 + 3) / (7 + 3 + 3)
    assert first.lowest_after_row == all_missed
    assert first.highest_after_row == all_found


def test_a_row_contributes_to_the_micro_f1_what_it_has_more_than_the_f1_of_both_runs(
    f1_of_two_runs: list[Contributions],
) -> None:
    """A row with h hits of the size s contributes (2 h - s F1) / 7, where 7 is the size of all rows of the run."""
    f1_of_both_runs = 2 * (2 + 2) / (7 + 6)

    first, _ = f1_of_two_runs

    row_with_2_hits_of_4 = (2 * 2 - 4 * f1_of_both_runs) / 7
    row_with_0_hits_of_3 = (2 * 0 - 3 * f1_of_both_runs) / 7
    assert first.rows == pytest.approx([row_with_2_hits_of_4, row_with_0_hits_of_3])


def test_steps_of_the_micro_f1_sum_to_the_difference_of_two_runs(f1_of_two_runs: list[Contributions]) -> None:
    difference = difference_of_contributions(f1_of_two_runs)

    assert math.fsum(difference.steps) == pytest.approx(4 / 7 - 4 / 6)


def test_the_micro_f1_without_a_hit_is_0() -> None:
    no_label = [(0, 0)]  # hits and size
    no_hit_of_two = [(0, 2)]

    of_no_label, of_no_hit = contributions_of_two_runs(
        MicroF1((1.0, 1.0)), Sample([0], [0], 1, 0), no_label, no_hit_of_two
    )

    assert of_no_label.value == 0.0
    assert of_no_hit.value == 0.0


def test_an_uncertain_sign_of_a_bin_does_not_hide_its_variance() -> None:
    """Two of 256 rows are wrong. With both bins on one side by chance, wrong rows would cancel out."""
    rows, truth = list(range(256)), [0] * 254 + [1] * 2
    confident, less_confident = [[0.985, 0.015]] * 256, [[0.955, 0.045]] * 256

    found = difference_by_score("expected_calibration_error_1", truth, [confident, less_confident], rows, 256)

    steps_if_second_has_the_larger_error = found.negated.tested_steps
    spread = max(steps_if_second_has_the_larger_error) - min(steps_if_second_has_the_larger_error)
    assert spread > 1.5 / 256


def test_equal_calibration_errors_are_as_likely_as_so_few_wrong_rows() -> None:
    """With 3 % wrong rows, both errors would be 0.015. Two or fewer of 256 rows are wrong with a known probability."""
    rows, truth = list(range(256)), [0] * 254 + [1] * 2
    confident, less_confident = [[0.985, 0.015]] * 256, [[0.955, 0.045]] * 256

    found = difference_by_score("expected_calibration_error_1", truth, [confident, less_confident], rows, 256)

    assert paired.p_value(found) > stats.binom.cdf(2, 256, 0.03)


@pytest.fixture
def mean_of_two_datasets() -> paired.PairedDifference:
    """Return the mean of a data set of two rows and one of three: each step counts half."""
    one = paired.PairedDifference(0.6, 0.5, [0.1, 0.0], -0.5, 0.5, 1.0, upward_bias=0.02, lower_steps=[0.1, -0.1])
    two = paired.PairedDifference(0.2, 0.5, [-0.1, -0.1, -0.1], -0.3, 0.3, 1.0, downward_bias=0.04)
    return paired.mean_difference([one, two])


def test_the_mean_over_data_sets_keeps_rows_apart(mean_of_two_datasets: paired.PairedDifference) -> None:
    assert mean_of_two_datasets.strata == (2, 3)
    assert mean_of_two_datasets.steps == [0.05, 0.0, -0.05, -0.05, -0.05]
    assert mean_of_two_datasets.tested_steps == [0.05, -0.05, -0.05, -0.05, -0.05]
    assert mean_of_two_datasets.negated.tested_steps == [-0.05, 0.0, 0.05, 0.05, 0.05]


def test_the_mean_over_data_sets_has_the_means_of_their_values(mean_of_two_datasets: paired.PairedDifference) -> None:
    assert (mean_of_two_datasets.first, mean_of_two_datasets.second) == (0.4, 0.5)
    assert (mean_of_two_datasets.upward_bias, mean_of_two_datasets.downward_bias) == (0.01, 0.02)


def test_the_extreme_steps_of_a_mean_are_those_of_the_data_set_with_the_larger_ones(
    mean_of_two_datasets: paired.PairedDifference,
) -> None:
    assert (mean_of_two_datasets.lowest_step, mean_of_two_datasets.highest_step) == (-0.25, 0.25)
    assert mean_of_two_datasets.largest_size == 1.0


def test_the_variance_of_a_mean_of_two_is_a_quarter_of_the_sum() -> None:
    first_dataset, second_dataset = difference_of_means([1.0, 0.0, 0.5]), difference_of_means([0.2, -0.4])

    mean = paired.mean_difference([first_dataset, second_dataset])

    assert mean.variance == pytest.approx((first_dataset.variance + second_dataset.variance) / 4)


@pytest.mark.parametrize("labels", [2, 3, 4])
@pytest.mark.parametrize("conditions", [1, 2, 3, 4, 5])
def test_the_least_possible_consistency_is_that_of_the_most_different_labels(labels: int, conditions: int) -> None:
    sample = Sample([0], [0], 1, labels)
    consistencies = []
    for labels_in_conditions in product(range(labels), repeat=conditions):
        (consistency_of_query,) = CONSISTENCY.scores(sample, [labels_in_conditions])
        consistencies.append(consistency_of_query)

    least, highest = CONSISTENCY.possible(sample, [(0,) * conditions])

    assert least == min(consistencies)
    assert highest == 1.0


def test_the_interval_of_a_metric_with_one_possible_value_is_a_point() -> None:
    """The consistency over one condition is always 1. Before, the search for an end of the interval never ended."""
    run = CONSISTENCY.of_run(Sample([0, 1], [0, 1], 2, 2), [(0,), (1,)])
    difference = paired.paired_difference([(1.0, run)], [(1.0, run)])

    interval = interval_of(difference)

    assert interval.low == 0.0
    assert interval.high == 0.0


# -- skewed nulls: both runs have the same true score, and most samples lack the rows that say so


ALL_NULLS = {**NULLS, **FURTHER_NULLS}


@pytest.mark.parametrize("n", [20, 50, 256])
@pytest.mark.parametrize("name", ALL_NULLS)
def test_equal_runs_with_rare_large_differences_are_rarely_called_different(name: str, n: int) -> None:
    """A small part of ``tests/performance/comparison.py``; the sign-flip test rejected up to all of these pairs."""
    draw = np.random.default_rng(n)
    samples = 30 if "ten" in name else 100  # means over ten data sets take longer

    called_different = 0
    for _ in range(samples):
        difference = ALL_NULLS[name](draw, n)
        is_tested = paired.too_few_rows(difference) is None
        if is_tested and paired.p_value(difference) <= 0.05:
            called_different += 1

    assert called_different <= 11  # of 100, a rate of 0.06 has more with a probability of 0.02


# -- the detectable difference


def excess_of_detectable(
    difference: float, bias: float, variance: float, shift_variance: float, favourable: float
) -> float:
    """Return the two sides of the equation of the detectable difference, subtracted: 0 at the detectable difference.

    It is a bias, what one more row of 200 may take off, and the quantiles of a test at 5 % with a power of 80 %.
    """
    z_test, z_power, step = stats.norm.ppf(0.975), stats.norm.ppf(0.8), 1 / 200
    spread_of_test = math.sqrt(variance + step**2 + difference**2 * shift_variance)
    spread = z_test * spread_of_test + z_power * math.sqrt(variance)
    return float((1 - 2 * favourable) * step + bias + spread - difference)


@pytest.mark.parametrize("sizes", [(200,), (50, 400)], ids=["one data set", "two data sets"])
@pytest.mark.parametrize(
    ("lowest", "highest", "upward_bias", "downward_bias"), [(1, 1, 0, 0), (0.3, 1, 0.02, 0.01), (1, 0.3, 0, 0.02)]
)
def test_the_detectable_difference_solves_its_equation(
    sizes: tuple[int, ...], lowest: float, highest: float, upward_bias: float, downward_bias: float
) -> None:
    draw = np.random.default_rng(1)
    datasets = [difference_of_means(draw.uniform(-1, 1, size=size).tolist()) for size in sizes]
    mean = paired.mean_difference(datasets) if len(datasets) > 1 else datasets[0]
    found = replace(
        mean,
        lowest_step=-lowest / 200,
        highest_step=highest / 200,
        upward_bias=upward_bias,
        downward_bias=downward_bias,
    )
    bias = max(upward_bias, downward_bias)
    shift_variance = sum(1 / size for size in sizes) / len(sizes) ** 2  # what rows that all are 1 add to the variance
    favourable = expected_weight(min(sizes) * len(sizes))
    expected = optimize.brentq(excess_of_detectable, 0.0, 1.0, args=(bias, mean.variance, shift_variance, favourable))

    assert paired.detectable_difference(found) == pytest.approx(expected, rel=1e-9)


# -- Holm's correction


P_VALUES_OR_NONE = st.one_of(st.floats(0, 1), st.sampled_from([0.01, 0.02, 0.05]), st.none())


@given(st.lists(P_VALUES_OR_NONE, min_size=1, max_size=7))
def test_holm_is_the_closed_test_of_bonferroni(p_values: list[float | None]) -> None:
    """Each hypothesis is rejected where Bonferroni rejects each set that contains it (Marcus et al. 1976).

    A test that failed counts as one with p = 1.
    """
    known = [1.0 if p_value is None else p_value for p_value in p_values]
    p_value_of_set = {}
    for size in range(1, len(known) + 1):
        for hypotheses in combinations(range(len(known)), size):
            p_value_of_set[hypotheses] = min(1.0, size * min(known[hypothesis] for hypothesis in hypotheses))

    corrected = paired.holm(p_values)

    for hypothesis, p_value in enumerate(p_values):
        if p_value is None:
            assert corrected[hypothesis] is None
        else:
            p_values_of_its_sets = [p for hypotheses, p in p_value_of_set.items() if hypothesis in hypotheses]
            assert corrected[hypothesis] == pytest.approx(max(p_values_of_its_sets), abs=1e-12)


@pytest.mark.parametrize("wrong", [1.5, -0.1, math.nan, "0.5"])
def test_holm_refuses_what_is_no_p_value_and_says_which(wrong: Any) -> None:
    with pytest.raises(ArgumentError, match=f"p-value 2 is {wrong!r}"):
        paired.holm([0.5, None, wrong])

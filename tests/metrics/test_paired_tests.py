"""Paired tests of two runs: against exact tests, closed forms, brute force over possible rows, and skewed nulls."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from fractions import Fraction
from itertools import combinations, product

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from scipy import optimize, stats

from StaICC.errors import ArgumentError
from StaICC.metrics import classification, diagnosis
from StaICC.metrics import paired_tests as paired
from StaICC.metrics.scores import CONSISTENCY, SCORES, STATISTICS
from StaICC.metrics.statistics import Contributions, MacroF1, Mean, MicroF1, Sample, ValueOnly
from tests.performance.skewed_nulls import FURTHER_NULLS, NULLS, both, of_pair, of_score


def of_scores(scores: Sequence[float], largest: float = 1.0) -> paired.PairedDifference:
    """A difference of means whose rows have these differences."""
    n = len(scores)
    steps = [score / n for score in scores]
    return paired.PairedDifference(math.fsum(steps), 0.0, steps, -largest / n, largest / n, largest)


# -- probabilities


@settings(max_examples=80, deadline=None)
@given(st.lists(st.integers(-60, 60).filter(bool), min_size=2, max_size=9, unique=True))
def test_the_chance_of_a_weighted_sum_is_the_closed_form(numbers: list[int]) -> None:
    """For different terms: one minus the sum over positive terms of the products of term / (term - other)."""
    terms = [Fraction(number, 7) for number in numbers]
    exact = 1 - sum(
        math.prod((term / (term - other) for other in terms if other != term), start=Fraction(1))
        for term in terms
        if term > 0
    )
    found = paired._probability_not_positive({float(term): 1 for term in terms})
    assert found == pytest.approx(float(exact), abs=1e-9, rel=1e-6)


@pytest.mark.parametrize("strata", [(700,), (300, 50, 350)])
@pytest.mark.parametrize("kind", ["normal", "skewed", "rare", "tiny"])
def test_of_many_steps_the_chance_is_the_inversion_with_all_of_them(kind: str, strata: tuple[int, ...]) -> None:
    draw = np.random.default_rng(7)
    drawn = {
        "normal": draw.normal(0.1, 1.0, 700),
        "skewed": draw.lognormal(0.0, 1.5, 700) - 2.0,
        "rare": np.where(draw.random(700) < 0.01, draw.normal(30.0, 5.0, 700), draw.normal(-0.3, 0.1, 700)),
        "tiny": np.where(draw.random(700) < 0.9, draw.normal(0.0, 1e-9, 700), draw.normal(0.05, 1.0, 700)),
    }
    steps = (drawn[kind] / 700).tolist()
    low = min(steps)
    difference = paired.PairedDifference(math.fsum(steps), 0.0, steps, low, -low, strata=strata)
    assert sum(len(values) for _, values in difference.condensed) < 160
    weights = np.concatenate([np.full(size, 1.0 / size / len(strata)) for size in strata])
    for distance in (-2.0, 0.0, 1.0):
        least = difference.difference + distance * math.sqrt(difference.variance)
        exact = 0.0
        favourable = min(0.25, 0.0214 * math.sqrt(min(strata) * len(strata)))
        shift = least / min(strata) / len(strata)
        for weight, pseudo_row in ((1 - favourable, min(0.0, low - shift)), (favourable, max(0.0, -low - shift))):
            terms = np.array([*(np.array(steps) - least * weights), pseudo_row])
            points = np.geomspace(1e-6, 1e3, 4_001) / np.linalg.norm(terms)  # Gil-Pelaez, y = exp(x)
            values = np.exp(-np.log(1.0 - 1j * np.outer(points, terms)).sum(axis=1)).imag
            exact += weight * (0.5 - np.trapezoid(values, np.log(points)) / math.pi)
        assert paired.upper_p_value(difference, least) == pytest.approx(exact, abs=2e-6), (kind, distance)


# -- tests with a known answer


def expected_weight(rows: int) -> float:
    """The weight of the outcomes that are more extreme than the observed one, but not of the observed one."""
    return min(0.25, 0.0214 * math.sqrt(rows))


@settings(max_examples=60, deadline=None)
@given(st.integers(0, 400), st.integers(0, 400))
def test_of_accuracies_it_is_between_mcnemars_exact_and_mid_p_value(only_first: int, only_second: int) -> None:
    """The observed outcome counts in part: in the exact test in full, in the mid-p-value with half its probability."""
    found = of_scores([1.0] * only_first + [-1.0] * only_second + [0.0] * 100)
    differing = only_first + only_second
    most = max(only_first, only_second)
    observed_share = 1 - expected_weight(differing + 100)
    one_sided = stats.binom.sf(most, differing, 0.5) + observed_share * stats.binom.pmf(most, differing, 0.5)
    expected = min(1.0, 2 * one_sided) if differing else 1.0
    assert paired.p_value(found) == pytest.approx(expected, rel=1e-6, abs=1e-30)


def test_it_is_between_the_exact_and_the_mid_p_value_of_statsmodels() -> None:
    contingency = pytest.importorskip("statsmodels.stats.contingency_tables", reason="needs the package statsmodels")
    found = of_scores([1.0] * 40 + [-1.0] * 22 + [0.0] * 484)
    exact = contingency.mcnemar([[300, 40], [22, 184]], exact=True).pvalue
    mid_p_value = exact - stats.binom.pmf(22, 62, 0.5)
    assert paired.favourable_weight(546) == 0.25
    assert paired.p_value(found) == pytest.approx((exact + mid_p_value) / 2, rel=1e-6)


@settings(max_examples=60, deadline=None)
@given(st.integers(0, 60), st.integers(1, 60), st.floats(0.02, 0.98))
def test_of_a_share_and_a_constant_it_is_a_binomial_test(right: int, wrong: int, level: float) -> None:
    n = right + wrong
    found = of_scores([1.0 - level] * right + [-level] * wrong)
    found = replace(found, lowest_step=-level / n, highest_step=(1.0 - level) / n)  # what a share can be
    observed_share = 1 - expected_weight(n)
    expected = stats.binom.sf(right, n, level) + observed_share * stats.binom.pmf(right, n, level)
    assert paired.upper_p_value(found) == pytest.approx(expected, rel=1e-6, abs=1e-12)


def test_equal_accuracies_are_called_different_in_at_most_55_of_1000_samples() -> None:
    """The exact size for 4 to 600 rows: rows differ with a probability of 0.05 to 1, in each direction with a half."""
    for rows in [*range(4, 120), 150, 200, 256, 300, 450, 512, 600]:
        observed_share = 1 - paired.favourable_weight(rows)
        size_of_differing = [0.0]
        for differing in range(1, rows + 1):
            gains = np.arange(differing + 1)
            probabilities = stats.binom.pmf(gains, differing, 0.5)
            first_better = stats.binom.sf(gains, differing, 0.5) + observed_share * probabilities
            p_values = 2 * np.minimum(first_better, first_better[::-1])
            size_of_differing.append(float(probabilities[p_values <= 0.05].sum()))
        for rate in (0.05, 0.1, 0.2, 0.4, 0.6, 0.8, 0.9, 1.0):
            size = float(stats.binom.pmf(np.arange(rows + 1), rows, rate) @ size_of_differing)
            assert size <= 0.055, f"{rows} rows, of which {rate:.0%} differ: size {size:.4f}"


@pytest.mark.parametrize("rows", [20, 50, 128, 512, 5120])
@pytest.mark.parametrize("rare", [0.01, 0.02, 0.05, 0.125, 0.3])
def test_equal_means_with_rare_large_differences_are_called_different_in_at_most_55_of_1000_samples(
    rows: int, rare: float
) -> None:
    """The exact size: one run always has 1 - rare, the other one 0 with the probability rare, and else 1."""
    likely = stats.binom.ppf([1e-6, 1 - 1e-6], rows, rare).astype(int)
    size = 0.0
    for zeros in range(likely[0], likely[1] + 1):
        found = of_scores([1.0 - rare] * zeros + [-rare] * (rows - zeros))
        if paired.too_few_rows(found) is None and paired.p_value(found) <= 0.05:
            size += float(stats.binom.pmf(zeros, rows, rare))
    assert size <= 0.055


@settings(max_examples=40, deadline=None)
@example([0.0] * 5 + [1.0, 1.0, 0.5, -0.75, -0.875, -0.25], 0.375)  # the search meets the end exactly
@given(st.lists(st.floats(-1, 1), min_size=2, max_size=40), st.floats(0.01, 0.5))
def test_p_value_interval_and_margin_agree(scores: list[float], margin: float) -> None:
    found = of_scores(scores)
    assert 0.0 < paired.p_value(found) <= 1.0
    assert paired.p_value(of_scores(sorted(scores))) == pytest.approx(paired.p_value(found), rel=1e-6)
    interval = paired.difference_interval(found)
    assert interval is not None
    assert -1.0 <= interval.low <= found.difference <= interval.high <= 1.0
    assert paired.p_value(found.negated) == pytest.approx(paired.p_value(found))
    if abs(interval.low) > 1e-5 < abs(interval.high):
        assert (paired.p_value(found) <= 0.05) == (not interval.low < 0.0 < interval.high)
    if abs(interval.low + margin) > 1e-5:
        assert (paired.upper_p_value(found, -margin) <= 0.025) == (interval.low > -margin)


def test_the_smaller_tail_counts_twice_also_where_it_is_the_other_side() -> None:
    scores = of_scores([-0.004, -0.228, -0.04, -0.304, 0.761, -0.11])
    lopsided = replace(
        scores, lowest_step=-0.93 / 6, highest_step=0.003 / 6
    )  # one more row can hardly raise the difference
    tails = [paired.upper_p_value(side) for side in (lopsided, lopsided.negated)]
    assert tails[0] > 0.5 > tails[1]
    assert paired.p_value(lopsided) == pytest.approx(2 * tails[1])


def test_bias_is_taken_off_the_test_and_widens_the_interval() -> None:
    plain = of_scores([0.3, 0.1] * 40)
    raised, lowered = replace(plain, upward_bias=0.04), replace(plain, downward_bias=0.04)
    assert paired.p_value(plain) < paired.p_value(raised)
    assert paired.p_value(plain) == paired.p_value(lowered)
    assert paired.upper_p_value(raised) == pytest.approx(paired.upper_p_value(plain, 0.04))
    ends = [paired.difference_interval(one) or pytest.fail("no interval") for one in (plain, raised, lowered)]
    assert ends[1].low == pytest.approx(ends[0].low - 0.04, abs=1e-6)
    assert ends[2].high == pytest.approx(ends[0].high + 0.04, abs=1e-6)


# -- what is not tested


@pytest.mark.parametrize(("differ", "tested"), [(0, True), (1, False), (5, False), (6, True), (40, True)])
def test_fewer_than_six_rows_with_other_predictions_are_no_test_of_accuracy(differ: int, tested: bool) -> None:
    for scores in ([1.0] * differ, [1.0, -1.0] * (differ // 2) + [1.0] * (differ % 2)):
        assert (paired.too_few_rows(of_scores([*scores, *[0.0] * 60])) is None) is tested


def test_the_reason_says_whether_rows_are_too_few_or_their_steps_too_small() -> None:
    """Forty rows that differ are not too few: here it is one more row that could outweigh them."""
    few = paired.too_few_rows(of_scores([1.0] * 5 + [0.0] * 55))
    assert few == "too few rows differ: p would be above 0.05 even if all their differences had one direction"
    many = of_scores([0.01] * 40 + [0.0] * 20)
    assert paired.too_few_rows(many) == (
        "one more row could change the difference by about 0.017, and each of the 40 rows that differ changes it by "
        "0.00017 at most: p would be above 0.05 even if all their differences had one direction"
    )


def test_a_metric_without_a_bound_is_not_tested() -> None:
    truth, rows = [0, 0, 1, 1], [0, 1, 2, 3]
    runs = [[[1.0, 0.0, 0.0]] * 4, [[0.5, 0.5, 0.0]] * 4]  # the third label is never true
    found = of_score("DL div.", truth, runs, rows, 4, 3)
    assert paired.too_few_rows(found) is not None
    assert paired.difference_interval(found) is None
    assert paired.detectable_difference(found) is None


# -- contributions


def simulated(
    seed: int, labels: int = 3, rows: int = 40, repeats: int = 2
) -> tuple[list[int], list[list[list[float]]], list[int]]:
    draw = np.random.default_rng(seed)
    truth = np.repeat(draw.integers(0, labels, rows), repeats)
    runs = [draw.dirichlet(np.ones(labels), rows * repeats) for _ in range(2)]
    return truth.tolist(), [run.tolist() for run in runs], np.repeat(np.arange(rows), repeats).tolist()


def guesses_of(runs: Sequence[Sequence[Sequence[float]]]) -> list[list[int]]:
    return [[row.index(max(row)) for row in run] for run in runs]  # type: ignore[attr-defined]


def metric(key: str, truth: Sequence[int], run: Sequence[Sequence[float]]) -> float:
    """A score by another way than the sums over test rows."""
    of_classification = SCORES[key].metric
    if of_classification is not None:
        return float(of_classification(truth, run))
    if key == "contextual_bias":
        return diagnosis.negated_mean_entropy(run)
    return diagnosis.entropy_of_mean(run) if key == "entropy" else diagnosis.empirical_bias(run, truth)


def cases(
    truth: Sequence[int], runs: Sequence[Sequence[Sequence[float]]], rows: Sequence[int], n_rows: int, labels: int
) -> dict[str, list[Contributions]]:
    """What each row contributes to every score of the library that reads the queries of one condition."""
    sample, guesses = Sample(truth, rows, n_rows, labels), guesses_of(runs)
    without = (CONSISTENCY, STATISTICS["nll"])  # one reads several conditions, one has no paired test
    own = {}
    for key, statistic in reversed([*STATISTICS.items()]):
        if statistic not in without and not isinstance(statistic, ValueOnly):
            own[statistic] = key
    if not all(has_both_kinds(truth, of_run) for of_run in guesses):
        del own[STATISTICS["auroc_confidence"]]
    if any(len(set(labels)) == 1 for labels in (truth, *guesses)):  # the correlation is undefined
        del own[STATISTICS["matthews"]]
    return {key: both(one, sample, *(guesses if one.reads == "labels" else runs)) for one, key in own.items()}


def has_both_kinds(truth: Sequence[int], predicted: Sequence[int]) -> bool:
    """Whether a run has correct and wrong predictions, without which the AUROC of confidence is undefined."""
    correct = [label == guess for label, guess in zip(truth, predicted, strict=True)]
    return any(correct) and not all(correct)


@pytest.mark.parametrize("seed", range(6))
def test_steps_add_up_to_the_difference_of_the_metrics(seed: int) -> None:
    labels = 2 + seed % 4
    truth, runs, rows = simulated(seed, labels)
    for name, parts in cases(truth, runs, rows, 40, labels).items():
        found = of_pair(parts)
        values = [metric(name, truth, run) for run in runs]
        assert [found.first, found.second] == pytest.approx(values, abs=1e-12)
        assert math.fsum(found.steps) == pytest.approx(values[0] - values[1], abs=1e-12)
        one, two = parts
        lowest_after_row = (found.difference + found.lowest_step) * 40 / 41
        highest_after_row = (found.difference + found.highest_step) * 40 / 41
        assert lowest_after_row == pytest.approx(one.lowest_after_row - two.highest_after_row)
        assert highest_after_row == pytest.approx(one.highest_after_row - two.lowest_after_row)
        assert (found.upward_bias, found.downward_bias) == pytest.approx(
            (one.upward_bias + two.downward_bias, one.downward_bias + two.upward_bias)
        )
        low, high = STATISTICS[name].range(labels)
        assert found.largest_size == pytest.approx(high - low)
        if isinstance(STATISTICS[name], Mean | MacroF1):  # the extreme values are reached by one certain or even row
            news = [*np.eye(labels).tolist(), [1 / labels] * labels]
            after = [metric(name, [*truth, t, t], [*runs[0], row, row]) for t in range(labels) for row in news]
            assert (one.lowest_after_row, one.highest_after_row) == pytest.approx((min(after), max(after)))


@settings(max_examples=150, deadline=None)
@given(st.integers(0, 10**6), st.integers(2, 4), st.integers(1, 8), st.integers(1, 3), st.data())
def test_no_row_changes_a_metric_by_more_than_the_largest_possible_step(
    seed: int, labels: int, n_rows: int, repeats: int, data: st.DataObject
) -> None:
    truth, runs, rows = simulated(seed, labels, n_rows, repeats)
    if data.draw(st.booleans(), label="certain"):
        runs = [np.eye(labels)[guess].tolist() for guess in guesses_of(runs)]
    true = data.draw(st.integers(0, labels - 1), label="true label of the new row")
    corner = np.eye(labels)[data.draw(st.integers(0, labels - 1), label="predicted")]
    weight = data.draw(st.sampled_from([1.0, 0.0, 0.5]), label="certainty")
    row = (weight * corner + (1 - weight) / labels).tolist()
    for name, parts in cases(truth, runs, rows, n_rows, labels).items():
        if name == "DL div.":  # its bounds are those of the influence of a row: see the next test
            continue
        after = metric(name, [*truth, *[true] * repeats], [*runs[0], *[row] * repeats])
        assert parts[0].lowest_after_row - 1e-12 <= after <= parts[0].highest_after_row + 1e-12, name


@pytest.mark.parametrize("seed", range(5))
def test_no_row_has_more_influence_on_a_difference_of_divergences_than_the_largest_possible_step(seed: int) -> None:
    """The influence is the derivative by the weight of one more row, here as a quotient of differences."""
    labels = 2 + seed % 3
    truth, runs, rows = simulated(seed, labels)
    found = of_pair(cases(truth, runs, rows, 40, labels)["DL div."])
    weight = 1e-6
    influences = []
    for new_label, first_label, second_label in product(range(labels), repeat=3):
        divergences = []
        for run, predicted in zip(runs, (first_label, second_label), strict=True):
            mean = (1 - weight) * np.mean(run, axis=0) + weight * np.eye(labels)[predicted]
            frequencies = (1 - weight) * np.bincount(truth) / len(truth) + weight * np.eye(labels)[new_label]
            divergences.append(float(mean @ np.log(mean / frequencies)))
        influences.append((divergences[0] - divergences[1] - found.difference) / weight)
    lowest, highest = ((step * 40 - found.difference) for step in (found.lowest_step, found.highest_step))
    margin = 0.05 * (highest - lowest)  # of the half query that is added to each label
    assert lowest - margin <= min(influences)
    assert max(influences) <= highest + margin
    assert lowest > 2.0 * min(influences) - margin
    assert highest < 2.0 * max(influences) + margin


def test_the_largest_possible_step_is_reached() -> None:
    truth, rows = [0] * 20, list(range(20))
    sure, cautious = [[1.0, 0.0]] * 20, [[0.96, 0.04]] * 20
    one, two = cases(truth, [sure, cautious], rows, 20, 2)["expected_calibration_error_1"]
    assert one.highest_after_row == pytest.approx(
        classification.expected_calibration_error_1([*truth, 1], [*sure, [1.0, 0.0]])
    )
    assert two.lowest_after_row >= 0.0
    certain, _ = cases(truth, [sure, cautious], rows, 20, 2)["entropy"]
    assert certain.highest_after_row == pytest.approx(diagnosis.entropy_of_mean([*sure, [0.0, 1.0]]))
    assert certain.lowest_after_row == 0.0


def macro_f1_without(left_out: int, truth: Sequence[int], guesses: Sequence[int], rows: Sequence[int], n: int) -> float:
    """The macro F1 over n labels without the queries of one test row; a label without a query counts 0."""
    pairs = [(label, guess) for label, guess, row in zip(truth, guesses, rows, strict=True) if row != left_out]
    f1_by_label = []
    for label in range(n):
        hits = pairs.count((label, label))
        size = sum(true == label for true, _ in pairs) + sum(guess == label for _, guess in pairs)
        f1_by_label.append(2 * hits / size if size else 0.0)
    return float(np.mean(f1_by_label))


@pytest.mark.parametrize("seed", range(4))
def test_the_bias_of_macro_f1_is_that_of_the_jackknife(seed: int) -> None:
    n_rows, n_labels = 30, 2 + seed
    truth, runs, rows = simulated(seed, n_labels, n_rows)
    of_runs = cases(truth, runs, rows, n_rows, n_labels)["macro_F1"]
    for run, own, guesses in zip(("first run", "second run"), of_runs, guesses_of(runs), strict=True):
        without_row = [macro_f1_without(row, truth, guesses, rows, n_labels) for row in range(n_rows)]
        expected = (n_rows - 1) * (np.mean(without_row) - own.value)
        bias = own.upward_bias - own.downward_bias
        assert bias == pytest.approx(expected, abs=1e-12), (
            f"{run}, {n_labels} labels: the bias of macro F1 is {bias:.6f}, that of the jackknife {expected:.6f}"
        )
        assert min(own.upward_bias, own.downward_bias) == 0.0, f"{run}: a bias has one direction"


@pytest.mark.parametrize("seed", range(4))
def test_a_row_with_correct_predictions_adds_to_macro_f1_what_is_missing_without_it(seed: int) -> None:
    n_rows, n_labels = 30, 2 + seed
    truth, runs, rows = simulated(seed, n_labels, n_rows)
    checked_count = 0
    for run, guesses in zip(("first run", "second run"), guesses_of(runs), strict=True):
        own = STATISTICS["macro_F1"].of_run(Sample(truth, rows, n_rows, n_labels), guesses)
        wrong_rows = {row for row, label, guess in zip(rows, truth, guesses, strict=True) if label != guess}
        for row in set(range(n_rows)) - wrong_rows:
            checked_count += 1
            missing = own.value - macro_f1_without(row, truth, guesses, rows, n_labels)
            assert own.rows[row] == pytest.approx(missing), f"{run}, test row {row}"
    assert checked_count > 0, "no test row has correct predictions only"


@pytest.mark.parametrize("seed", range(2))
def test_a_step_is_what_a_row_adds_if_it_counts_twice(seed: int) -> None:
    """An independent check of the influence functions."""
    truth, runs, place = simulated(seed, 3, 100)
    runs = [[[(p + (label == 0)) / 2 for label, p in enumerate(row)] for row in run] for run in runs]  # no extremum
    for name, (part, other) in cases(truth, runs, place, 100, 3).items():
        if name == "aurc":
            # The risk of the k most confident queries has the weight 1 / k. So a row among the first few of 200 queries
            # adds up to 7 % more than its influence. tests/metrics/test_further_scores.py checks it with 2,000 rows.
            continue
        of_difference = name == "DL div."  # the contributions of a run lack what both runs share
        value = part.value - other.value if of_difference else part.value
        contributions = of_pair((part, other)).steps if of_difference else part.rows
        added = []
        for row in range(100):
            twice = [*range(200), 2 * row, 2 * row + 1]
            after = metric(name, [truth[i] for i in twice], [runs[0][i] for i in twice])
            if of_difference:
                after -= metric(name, [truth[i] for i in twice], [runs[1][i] for i in twice])
            added.append((after - value) * 101 / 100)
        steps = np.array(contributions) - np.mean(contributions)
        assert steps == pytest.approx(np.array(added), abs=0.1 * np.std(added)), name


def test_f1_of_counts() -> None:
    sample = Sample([0, 0], [0, 1], 2, 0)
    first, second = both(MicroF1((3.0, 5.0)), sample, [(2, 4), (0, 3)], [(1, 4), (1, 2)])
    assert (first.value, second.value) == (4 / 7, 4 / 6)
    assert (first.lowest_after_row, first.highest_after_row) == (4 / 15, 10 / 13)
    assert first.rows == pytest.approx([(4 - 4 * 8 / 13) / 7, -3 * 8 / 13 / 7])  # at the F1 of both runs together
    assert math.fsum(of_pair((first, second)).steps) == pytest.approx(4 / 7 - 4 / 6)
    empty, other = both(MicroF1((1.0, 1.0)), Sample([0], [0], 1, 0), [(0, 0)], [(0, 2)])
    assert (empty.value, other.value) == (0.0, 0.0)


def test_an_uncertain_sign_of_a_bin_does_not_hide_its_variance() -> None:
    """With both bins on one side by chance, wrong rows would cancel out, and all steps would be equal."""
    rows, truth = list(range(256)), [0] * 254 + [1] * 2
    runs = [[[0.985, 0.015]] * 256, [[0.955, 0.045]] * 256]
    found = of_score("expected_calibration_error_1", truth, runs, rows, 256)
    tested = found.negated.tested_steps  # the second run has the larger error
    assert max(tested) - min(tested) > 1.5 / 256
    # With 3 % wrong rows, both errors are 0.015. So few wrong rows have this probability then.
    assert paired.p_value(found) > stats.binom.cdf(2, 256, 0.03)


def test_the_mean_over_data_sets_keeps_rows_apart() -> None:
    one = paired.PairedDifference(0.6, 0.5, [0.1, 0.0], -0.5, 0.5, 1.0, upward_bias=0.02, lower_steps=[0.1, -0.1])
    two = paired.PairedDifference(0.2, 0.5, [-0.1, -0.1, -0.1], -0.3, 0.3, 1.0, downward_bias=0.04)
    found = paired.mean_difference([one, two])
    assert (found.first, found.second) == (0.4, 0.5)
    assert found.strata == (2, 3)
    assert found.steps == [0.05, 0.0, -0.05, -0.05, -0.05]
    assert found.tested_steps == [0.05, -0.05, -0.05, -0.05, -0.05]
    assert found.negated.tested_steps == [-0.05, 0.0, 0.05, 0.05, 0.05]
    assert (found.lowest_step, found.highest_step, found.largest_size) == (-0.25, 0.25, 1.0)
    assert (found.upward_bias, found.downward_bias) == (0.01, 0.02)
    assert found.variance == pytest.approx((one.variance + two.variance) / 4)


@pytest.mark.parametrize("labels", [2, 3, 4])
@pytest.mark.parametrize("conditions", [1, 2, 3, 4, 5])
def test_the_least_consistency_is_that_of_all_labels(labels: int, conditions: int) -> None:
    sample = Sample([0], [0], 1, labels)
    queries = [[query] for query in product(range(labels), repeat=conditions)]
    least = min(CONSISTENCY.scores(sample, query)[0] for query in queries)
    assert CONSISTENCY.possible(sample, queries[0]) == (least, 1.0)


def test_the_interval_of_a_metric_with_one_possible_value_is_a_point() -> None:
    """The consistency over one condition is always 1. The search for an end never ended."""
    run = CONSISTENCY.of_run(Sample([0, 1], [0, 1], 2, 2), [(0,), (1,)])
    difference = paired.paired_difference([(1.0, run)], [(1.0, run)])
    interval = paired.difference_interval(difference)
    assert interval is not None
    assert (interval.low, interval.high) == (0.0, 0.0)


# -- skewed nulls: both runs have the same true score, and most samples lack the rows that say so

ALL_NULLS = {**NULLS, **FURTHER_NULLS}


@pytest.mark.parametrize("n", [20, 50, 256])
@pytest.mark.parametrize("name", ALL_NULLS)
def test_equal_runs_with_rare_large_differences_are_not_rejected(name: str, n: int) -> None:
    """A small part of ``tests/performance/comparison.py``; the sign-flip test rejected up to all of these pairs."""
    draw = np.random.default_rng(n)
    pairs = [ALL_NULLS[name](draw, n) for _ in range(30 if "ten" in name else 100)]
    rejected = sum(paired.too_few_rows(one) is None and paired.p_value(one) <= 0.05 for one in pairs)
    assert rejected <= 11  # 0.06 has more with a probability of 0.02


# -- the detectable difference


def test_the_detectable_difference_solves_its_equation() -> None:
    draw = np.random.default_rng(1)
    z_a, z_b, edge = stats.norm.ppf(0.975), stats.norm.ppf(0.8), 1 / 200

    def excess(d: float, bias: float, variance: float, of_shift: float, weight: float) -> float:
        spread = z_a * math.sqrt(variance + edge**2 + d * d * of_shift) + z_b * math.sqrt(variance)
        return float((1 - 2 * weight) * edge + bias + spread - d)

    settings = [(1, 1, 0, 0), (0.3, 1, 0.02, 0.01), (1, 0.3, 0, 0.02)]
    for sizes, (low, high, raised, lowered) in product([(200,), (50, 400)], settings):
        parts = [of_scores(draw.uniform(-1, 1, size=size).tolist()) for size in sizes]
        found = paired.mean_difference(parts) if len(parts) > 1 else parts[0]
        of_shift = sum(1 / size for size in sizes) / len(sizes) ** 2  # what rows that all are 1 add to the variance
        lopsided = replace(
            found, lowest_step=-low * edge, highest_step=high * edge, upward_bias=raised, downward_bias=lowered
        )
        weight = expected_weight(min(sizes) * len(sizes))
        root = optimize.brentq(excess, 0.0, 1.0, args=(max(raised, lowered), found.variance, of_shift, weight))
        assert paired.detectable_difference(lopsided) == pytest.approx(root, rel=1e-9)


# -- Holm's correction


@given(st.lists(st.one_of(st.floats(0, 1), st.sampled_from([0.01, 0.02, 0.05]), st.none()), min_size=1, max_size=7))
def test_holm_is_the_closed_test_of_bonferroni(p_values: list[float | None]) -> None:
    """Each hypothesis is rejected where Bonferroni rejects every intersection that contains it (Marcus et al. 1976)."""
    sizes = range(1, len(p_values) + 1)
    known = [1.0 if p is None else p for p in p_values]  # a test that failed counts
    intersections = [chosen for size in sizes for chosen in combinations(range(len(known)), size)]
    bonferroni = {chosen: min(1.0, len(chosen) * min(known[i] for i in chosen)) for chosen in intersections}
    closed = [max(p for chosen, p in bonferroni.items() if i in chosen) for i in range(len(known))]
    expected = [None if p is None else pytest.approx(q, abs=1e-12) for p, q in zip(p_values, closed, strict=True)]
    assert paired.holm(p_values) == expected
    for wrong in (1.5, -0.1, math.nan, "0.5"):
        with pytest.raises(ArgumentError, match=f"p-value {len(p_values)} is {wrong!r}"):
            paired.holm([*p_values, wrong])  # type: ignore[list-item]

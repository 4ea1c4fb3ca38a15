"""Steps, sign-flip test and interval of paired comparisons, against brute force, SciPy and the metrics themselves."""

from __future__ import annotations

import itertools
import math
import random
from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import optimize, stats

from StaICC.metrics import bias, classification
from StaICC.metrics.metric_comparison import (
    Part,
    RowSteps,
    _bounded_tail,
    calibration_part,
    combine,
    difference_interval,
    difference_p_value,
    divergence_part,
    entropy_part,
    f1_parts,
    macro_f1_parts,
    mean_part,
    mean_steps,
    non_inferiority_p_value,
    sign_flip_p_value,
)
from StaICC.metrics.power import detectable_difference


def flipped(steps: Sequence[float], observed: float) -> float:
    """The two-sided mid-p value over all choices of signs."""
    sums = [
        math.fsum(x * s for x, s in zip(steps, signs, strict=True))
        for signs in itertools.product((1, -1), repeat=len(steps))
    ]
    above = sum(one > abs(observed) + 1e-9 for one in sums)
    equal = sum(abs(one - abs(observed)) <= 1e-9 for one in sums)
    return min(1.0, 2 * (above + equal / 2) / len(sums)) if abs(observed) > 1e-9 else 1.0


@settings(max_examples=150, deadline=None)
@given(st.lists(st.sampled_from([-1.0, -0.5, 0.0, 0.5, 1.0]) | st.floats(-1, 1), min_size=1, max_size=11))
def test_the_exact_p_value_is_that_of_all_flips(steps: list[float]) -> None:
    steps = [round(step, 3) for step in steps]
    assert sign_flip_p_value(steps) == pytest.approx(flipped(steps, math.fsum(steps)), abs=1e-9)


@pytest.mark.parametrize("lean", [0.0, 0.2, 0.5, 0.9])
def test_the_saddlepoint_agrees_with_all_flips(lean: float) -> None:
    draw = random.Random(f"{lean}")
    steps = [draw.random() * (1 if draw.random() < 0.5 + lean / 2 else -1) for _ in range(15)]
    exact = flipped(steps, math.fsum(steps))
    assert sign_flip_p_value(steps) == pytest.approx(exact, rel=0.04, abs=1e-4)


@settings(max_examples=50, deadline=None)
@given(st.integers(0, 400), st.integers(0, 400))
def test_of_accuracies_it_is_mcnemars_mid_p(only_first: int, only_second: int) -> None:
    steps = [1 / 900] * only_first + [-1 / 900] * only_second + [0.0] * 100
    n, most = only_first + only_second, max(only_first, only_second)
    expected = 2 * stats.binom.sf(most, n, 0.5) + stats.binom.pmf(most, n, 0.5) if only_first != only_second else 1.0
    assert sign_flip_p_value(steps) == pytest.approx(expected, rel=1e-6, abs=1e-290)


@given(st.lists(st.floats(-1, 1), max_size=60), st.randoms())
def test_order_and_sign_do_not_matter(steps: list[float], draw: random.Random) -> None:
    p_value = sign_flip_p_value(steps)
    assert 0.0 <= p_value <= 1.0
    mixed = [*steps]
    draw.shuffle(mixed)
    assert sign_flip_p_value(mixed) == pytest.approx(p_value, rel=1e-9)
    assert sign_flip_p_value([-step for step in mixed]) == pytest.approx(p_value, rel=1e-9)


def test_extremes_of_the_sign_flip_test() -> None:
    assert sign_flip_p_value([]) == sign_flip_p_value([0.0] * 9) == 1.0
    assert sign_flip_p_value([0.3]) == pytest.approx(0.5)
    rising = [1 + number / 1000 for number in range(40)]  # too many sums: all on one side
    assert sign_flip_p_value(rising) == 2.0**-40
    assert 0.0 < sign_flip_p_value([1 + number / 1e4 for number in range(5000)]) < 1e-290


# -- steps


def simulated(
    seed: int, labels: int = 3, rows: int = 40, repeats: int = 2
) -> tuple[list[int], list[list[list[float]]], list[int]]:
    draw = np.random.default_rng(seed)
    truth = np.repeat(draw.integers(0, labels, rows), repeats)
    runs = [draw.dirichlet(np.ones(labels), rows * repeats) for _ in range(2)]
    return truth.tolist(), [run.tolist() for run in runs], np.repeat(np.arange(rows), repeats).tolist()


def of_pair(parts: Sequence[Part]) -> RowSteps:
    return combine([(1.0, parts[0])], [(1.0, parts[1])])


@pytest.mark.parametrize("seed", range(6))
def test_steps_add_up_to_the_difference_of_the_metrics(seed: int) -> None:
    labels = 2 + seed % 4
    truth, runs, rows = simulated(seed, labels)
    guesses = [[row.index(max(row)) for row in run] for run in runs]
    hits = [[float(g == t) for g, t in zip(guess, truth, strict=True)] for guess in guesses]
    cases = {
        classification.accuracy: [mean_part(one, rows, 40) for one in hits],
        classification.macro_F1: macro_f1_parts(truth, guesses[0], guesses[1], rows, 40, labels),
        classification.expected_calibration_error_1: [calibration_part(truth, run, rows, 40) for run in runs],
        lambda _, run: bias.entropy_of_mean(run): [entropy_part(run, rows, 40) for run in runs],
        lambda t, run: bias.empirical_bias(run, t): [divergence_part(truth, run, rows, 40) for run in runs],
    }
    for metric, parts in cases.items():
        found = of_pair(parts)
        values = [metric(truth, run) for run in runs]
        assert [found.first, found.second] == pytest.approx(values, abs=1e-12)
        slack = 0.01 if metric is classification.macro_F1 else 0.0  # enlarged by leverage
        assert math.fsum(found.steps) == pytest.approx(values[0] - values[1], abs=1e-12 + slack)


@pytest.mark.parametrize("seed", range(4))
def test_the_bias_of_macro_f1_is_that_of_the_jackknife(seed: int) -> None:
    truth, runs, rows = simulated(seed, 2 + seed, 30)
    guesses = [[row.index(max(row)) for row in run] for run in runs]
    parts = macro_f1_parts(truth, guesses[0], guesses[1], rows, 30, 2 + seed)
    for part, guess in zip(parts, guesses, strict=True):
        without = []
        for left in range(30):
            kept = [place for place, row in enumerate(rows) if row != left]
            hits = [[truth[i] == label == guess[i] for i in kept] for label in range(2 + seed)]
            sizes = [sum((truth[i] == label) + (guess[i] == label) for i in kept) for label in range(2 + seed)]
            without.append(
                np.mean([2 * sum(hit) / size if size else 0.0 for hit, size in zip(hits, sizes, strict=True)])
            )
        assert part.bias == pytest.approx(29 * (np.mean(without) - part.value), abs=1e-12)


@pytest.mark.parametrize("rare", [0.05, 0.01])
@pytest.mark.parametrize("rows", [20, 50, 128])
def test_rare_errors_of_confident_models_are_no_evidence_of_likelihood(rare: float, rows: int) -> None:
    """One run is always cautious, the other nearly sure and rarely wrong; their likelihoods are the same."""
    draw = np.random.default_rng(rows)
    rejected = covered = 0
    for _ in range(200):
        sure = np.where(draw.random(rows) < rare, 0.0, 0.99).tolist()
        parts = [mean_part(one, range(rows), rows, 1.0) for one in ([0.99 * (1 - rare)] * rows, sure)]
        found = of_pair(parts)
        rejected += difference_p_value(found) <= 0.05
        interval = difference_interval(found)
        covered += interval.low <= 0.0 <= interval.high
        assert (difference_p_value(found) <= 0.05) == (not interval.low <= 0.0 <= interval.high)
    assert rejected <= 12
    assert covered >= 186


@settings(max_examples=60, deadline=None)
@given(st.integers(0, 60), st.integers(1, 60), st.floats(0.02, 0.98))
def test_the_bounded_test_is_that_of_clopper_and_pearson(right: int, wrong: int, level: float) -> None:
    """A run of zeros and ones against a constant: the exact binomial test."""
    scores = [1.0] * right + [0.0] * wrong
    constant = Part(level, [level / len(scores)] * len(scores), bound=0.0)
    found = of_pair([mean_part(scores, range(len(scores)), len(scores)), constant])
    exact = stats.binom.sf(right - 1, len(scores), level)
    found = replace(found, bound=level / len(scores))
    # The saddlepoint approximation is exact to 0.3 % downwards, and to 3.5 % upwards (two rows, level 0.02).
    assert exact * 0.997 - 1e-4 <= _bounded_tail(found, 0.0) <= exact * 1.036 + 1e-4


@pytest.mark.parametrize("rows", [5, 40, 96, 512])
def test_bounded_p_values_are_never_zero(rows: int) -> None:
    steps = RowSteps(1.0, 0.0, [1.0 / rows] * rows, bound=1.0 / rows)
    assert difference_p_value(steps) == pytest.approx(2.0 * 0.5**rows, rel=0.1, abs=0.0)


@settings(max_examples=40, deadline=None)
@given(st.lists(st.floats(-1, 1), min_size=2, max_size=40), st.floats(0.01, 0.5))
def test_bounded_p_value_interval_and_margin_agree(scores: list[float], margin: float) -> None:
    count = len(scores)
    found = RowSteps(math.fsum(scores) / count, 0.0, [score / count for score in scores], bound=1.0 / count)
    interval, turned = difference_interval(found), replace(found, first=0.0, second=found.first)
    turned = replace(turned, steps=[-step for step in found.steps])
    assert interval.low <= found.difference <= interval.high
    assert -1.0 <= interval.low < interval.high <= 1.0
    assert difference_p_value(turned) == pytest.approx(difference_p_value(found))
    shown = non_inferiority_p_value(found, margin, True) <= 0.025
    assert shown == (interval.low >= -margin) or abs(interval.low + margin) < 1e-4


@pytest.mark.parametrize("seed", range(4))
def test_the_variance_of_the_steps_is_that_of_resampled_metrics(seed: int) -> None:
    """An independent check of the influence functions: the spread of the metric on resampled rows."""
    rows = 300
    truth, runs, place = simulated(seed, 3, rows)
    runs = [
        [[p * (1 + 2 * (label == t)) for label, p in enumerate(row)] for row, t in zip(run, truth, strict=True)]
        for run in runs
    ]
    runs = [[[p / sum(row) for p in row] for row in run] for run in runs]
    guesses = [[row.index(max(row)) for row in run] for run in runs]
    cases = {
        classification.macro_F1: macro_f1_parts(truth, guesses[0], guesses[1], place, rows, 3),
        classification.expected_calibration_error_1: [calibration_part(truth, run, place, rows) for run in runs],
        lambda t, run: bias.empirical_bias(run, t): [divergence_part(truth, run, place, rows) for run in runs],
    }
    draw = np.random.default_rng(seed)
    samples = [np.repeat(draw.integers(0, rows, rows) * 2, 2) + np.tile([0, 1], rows) for _ in range(250)]
    for metric, parts in cases.items():
        values = []
        for sample in samples:
            of_truth = [truth[i] for i in sample]
            one, two = (metric(of_truth, [run[i] for i in sample]) for run in runs)
            values.append(one - two)
        assert 0.75 < math.sqrt(of_pair(parts).variance) / np.std(values) < 1.6  # more where a bin is calibrated


def test_f1_of_counts() -> None:
    first, second = f1_parts([(2, 4), (0, 3)], [(1, 4), (1, 2)])
    assert (first.value, second.value) == (4 / 7, 4 / 6)
    assert math.fsum(of_pair((first, second)).steps) == pytest.approx(4 / 7 - 4 / 6)
    empty, other = f1_parts([(0, 0)], [(0, 2)])
    assert (empty.value, other.value) == (0.0, 0.0)


def test_a_label_that_one_run_never_names_has_a_sampling_error() -> None:
    """One right prediction of a label with two test rows is no evidence, however few the others' errors."""
    truth = [0] * 100 + [1] * 2
    parts = macro_f1_parts(truth, [0] * 100 + [1, 0], [0] * 102, range(102), 102, 2)
    found = combine([(1.0, parts[0])], [(1.0, parts[1])], frozenset(range(102)) - {100})
    assert found.difference > 0.3
    assert sign_flip_p_value(found.steps, None, found.alike) == 0.5


@pytest.mark.parametrize("differ", [1, 3, 5])
@pytest.mark.parametrize("rows", [40, 500])
def test_rows_with_the_same_predictions_decide_no_tie(differ: int, rows: int) -> None:
    """With a few rows that differ, F1 is as significant as accuracy; the many equal rows are no evidence."""
    truth = [place % 3 for place in range(rows)]
    second = [(label + (place % 5 == 0)) % 3 for place, label in enumerate(truth)]
    places = [place for place in range(rows) if place % 5 == 0][:differ]
    first = [truth[place] if place in places else guess for place, guess in enumerate(second)]
    alike = frozenset(range(rows)) - frozenset(places)
    for parts in (
        macro_f1_parts(truth, first, second, range(rows), rows, 3),
        f1_parts(
            *([(float(g == t), 2.0 - (g == 1)) for g, t in zip(run, truth, strict=True)] for run in (first, second))
        ),
    ):
        found = combine([(1.0, parts[0])], [(1.0, parts[1])], alike)
        assert found.difference > 0
        assert sign_flip_p_value(found.steps, None, alike) == pytest.approx(2.0**-differ, abs=1e-9)


def test_unequal_weights_leave_the_sum_right() -> None:
    part = Part(0.5, [0.25, 0.25])
    found = combine([(1.0, part), (-1.0, part)], [(2.0, part)])
    assert found.difference == -1.0 == math.fsum(found.steps)


def test_the_mean_over_data_sets_keeps_rows_apart() -> None:
    one, two = RowSteps(0.6, 0.5, [0.1, 0.0]), RowSteps(0.2, 0.5, [-0.1, -0.1, -0.1])
    found = mean_steps([one, two])
    assert (found.first, found.second) == (0.4, 0.5)
    assert found.strata == (2, 3)
    assert found.steps == [0.05, 0.0, -0.05, -0.05, -0.05]
    assert found.variance == pytest.approx((one.variance + two.variance) / 4)


# -- intervals


@pytest.mark.parametrize(("b", "c", "n"), [(10, 4, 100), (0, 0, 20), (3, 0, 30)])
def test_the_interval_of_accuracies_is_that_of_bonett_and_price(b: int, c: int, n: int) -> None:
    found = difference_interval(RowSteps((b - c) / n, 0.0, [1 / n] * b + [-1 / n] * c + [0.0] * (n - b - c)))
    p12, p21 = (b + 1) / (n + 2), (c + 1) / (n + 2)
    reach = stats.norm.ppf(0.975) * math.sqrt((p12 + p21 - (p12 - p21) ** 2) / (n + 2))
    assert (found.low, found.high) == pytest.approx((p12 - p21 - reach, p12 - p21 + reach), abs=1e-12)


def test_non_inferiority_follows_the_interval() -> None:
    steps = RowSteps(0.5, 0.48, [0.02] * 8 + [-0.02] * 7 + [0.0] * 85)
    edge = -difference_interval(steps).low
    assert non_inferiority_p_value(steps, edge, True) == pytest.approx(0.025)
    assert non_inferiority_p_value(steps, difference_interval(steps).high, False) == pytest.approx(0.025)


def test_bias_widens_the_interval_and_is_taken_off_the_test() -> None:
    plain = RowSteps(0.3, 0.2, [0.01] * 10)
    biased = RowSteps(0.3, 0.2, [0.01] * 10, (0.04, 0.01))
    assert biased.tested == pytest.approx(0.07)
    assert RowSteps(0.3, 0.2, [0.01] * 10, (0.0, 0.01)).tested == plain.tested == pytest.approx(0.1)
    assert RowSteps(0.3, 0.2, [0.01] * 10, (0.9, 0.0)).tested == 0.0
    assert difference_interval(biased).low == pytest.approx(difference_interval(plain).low - 0.04)
    assert difference_interval(biased).high == pytest.approx(difference_interval(plain).high + 0.01)


# -- power


def test_the_detectable_difference_solves_its_equation() -> None:
    draw = np.random.default_rng(1)
    steps = RowSteps(0.0, 0.0, (draw.normal(size=200) / 200).tolist())
    found = detectable_difference(steps)
    z_a, z_b = stats.norm.ppf(0.975), stats.norm.ppf(0.8)
    root = optimize.brentq(
        lambda d: z_a * math.sqrt(steps.variance + d * d / 200) + z_b * math.sqrt(steps.variance) - d, 0.0, 1.0
    )
    assert found == pytest.approx(root, rel=1e-9)


def test_too_few_rows_that_differ_state_no_difference() -> None:
    assert detectable_difference(RowSteps(0.0, 0.0, [0.0] * 50)) is None
    assert detectable_difference(RowSteps(0.1, 0.0, [0.01] * 15 + [0.0] * 85)) is None
    assert detectable_difference(RowSteps(0.1, 0.0, [0.01, -0.01] * 20 + [0.0] * 60)) is not None


@pytest.mark.slow
def test_errors_and_power_in_a_small_simulation() -> None:
    """A tenth of `tests/performance/comparison.py`: accuracies on 128 rows with two repeats."""
    draw = np.random.default_rng(7)

    def pair(ahead: float) -> RowSteps:
        counts = draw.multinomial(128, [0.2, 0.2, 0.6])
        mean = 0.3
        steps: list[float] = []
        for size, count in zip((1.0, 0.5), counts, strict=False):
            right = draw.binomial(count, (1 + ahead / mean) / 2)
            steps += [size / 128] * right + [-size / 128] * (count - right)
        return RowSteps(math.fsum(steps), 0.0, steps + [0.0] * (128 - len(steps)))

    null = [pair(0.0) for _ in range(1500)]
    assert np.mean([sign_flip_p_value(one.steps) <= 0.05 for one in null]) <= 0.065
    assert np.mean([(i := difference_interval(one)).low <= 0 <= i.high for one in null]) >= 0.93
    stated = float(np.mean([detectable_difference(one) or 0.0 for one in null]))
    assert np.mean([sign_flip_p_value(pair(stated).steps) <= 0.05 for _ in range(1500)]) == pytest.approx(0.8, abs=0.05)
    worse = [non_inferiority_p_value(pair(-0.01), 0.01, True) <= 0.025 for _ in range(1500)]
    assert np.mean(worse) <= 0.06

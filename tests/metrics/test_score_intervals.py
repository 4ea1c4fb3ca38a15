"""Intervals of scores and confidence sequences: independent oracles, frozen limits, properties, simulated coverage."""

from __future__ import annotations

import itertools
import json
import math
import random
import sys
from collections import defaultdict
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from scipy import stats
from statsmodels.stats.proportion import proportion_confint

from StaICC.errors import ArgumentError
from StaICC.metrics.confidence_sequences import ConfidenceSequence
from StaICC.metrics.intervals import (
    INTERVAL_VERSION,
    BinRows,
    Interval,
    calibration_part,
    divergence_interval,
    likelihood_part,
    mean_interval,
    ratio_part,
    student_quantile,
    wilson_distances,
)

ROOT = Path(__file__).resolve().parents[2]
GOLDEN = ROOT / "tests" / "golden" / "intervals.json"
sys.path.append(str(ROOT / "tests" / "performance"))
import interval_coverage as coverage  # noqa: E402

sys.path.pop()


def ends(interval: Any) -> tuple[float, float]:
    """Return the limits of an interval, or of the 95 % interval of a term."""
    interval = interval if isinstance(interval, Interval) else interval.interval(0.95, "")
    return interval.low, interval.high


def share_of(hits: int, rows: int, level: float = 0.95) -> Any:
    """Return the term of a share: so many hits of so many rows."""
    return ratio_part([1.0] * hits + [0.0] * (rows - hits), [1.0] * rows, level)


# -- independent oracles


@pytest.mark.parametrize("rows", [2, 3, 4, 5, 10, 20, 128, 512, 10_001, 20_000])
def test_student_quantiles_equal_scipy(rows: int) -> None:
    for level in (0.5, 0.8, 0.95, 0.99, 0.999, 0.9999):
        rel = 1e-10 if rows <= 10_001 and level <= 0.999 else 1e-8
        assert student_quantile(level, rows) == pytest.approx(stats.t.ppf((1 + level) / 2, rows - 1), rel=rel)


@given(st.integers(5, 400), st.floats(0, 1), st.sampled_from([0.8, 0.95, 0.99]))
def test_one_query_per_row_is_wilson_with_t(n: int, share: float, level: float) -> None:
    k = round(n * share)
    part = share_of(k, n, level)
    z = student_quantile(level, n)
    low, high = proportion_confint(k, n, alpha=2 * stats.norm.sf(z), method="wilson")
    rare = -math.log(2 * stats.norm.cdf(z) - 1) / n  # one event: the exact limit of a Poisson variable
    low, high = min(low, rare) if k == 1 else low, max(high, 1 - rare) if k == n - 1 else high
    assert part.value == k / n
    assert (part.value - part.below, part.value + part.above) == pytest.approx((max(0, low), min(1, high)), abs=1e-9)
    own = part.interval(0.95, "")
    assert ends(mean_interval([part.value], [own])) == pytest.approx(ends(own), abs=1e-9)  # of one data set


@pytest.mark.parametrize("wrong", [[0] * 10, [1] * 7 + [0] * 3, [1] + [0] * 9, [2] * 10, [10] * 10, [0] * 5 + [10] * 5])
@pytest.mark.parametrize("rows", [20, 50, 512])
def test_the_mean_of_shares_is_nearly_the_share_of_all_rows(rows: int, wrong: list[int]) -> None:
    """Seven errors in ten data sets of 20 rows: [0.903, 0.976] in the mean before, [0.930, 0.983] of all 200 rows."""
    parts = [share_of(rows - k, rows) for k in wrong]
    mean = mean_interval([part.value for part in parts], [part.interval(0.95, "") for part in parts])
    low, high = proportion_confint(10 * rows - sum(wrong), 10 * rows, method="wilson")
    assert ends(mean) == pytest.approx((low, high), abs=0.15 * (high - low))


@pytest.mark.parametrize(("right", "wrong"), [(0.98, 0.0), (0.97, 0.005), (0.9, 0.01)])
def test_means_of_scores_at_both_ends_cover_their_truth(right: float, wrong: float) -> None:
    """Exact: all outcomes of two data sets."""
    rows, covered = 20, 0.0
    found = [share_of(hits, rows).interval(0.95, "") for hits in range(rows + 1)]
    for one in range(rows + 1):
        for other in range(rows + 1):
            interval = mean_interval([one / rows, other / rows], [found[one], found[other]])
            assert interval.low < interval.high
            chance = stats.binom.pmf(one, rows, right) * stats.binom.pmf(other, rows, wrong)
            covered += chance * coverage.covers(interval, (right + wrong) / 2)
    assert covered >= 0.95


# -- frozen limits


def simulated(seed: int) -> tuple[dict[str, Any], dict[str, tuple[float, Interval]]]:
    """A run of any kind, also certain, constant and perfect ones, drawn with the generator of the standard library."""
    draw = random.Random(seed)
    labels, rows, repeats = draw.randint(2, 5), draw.randint(2, 40), draw.randint(1, 3)
    sharpness, error = draw.choice([0.2, 1, 30]), draw.choice([0, 0.3, 1])
    truth = [draw.randrange(labels) for _ in range(rows)]
    predicted = [[(t + (draw.random() < error)) % labels for t in truth] for _ in range(repeats)]
    if seed % 5 == 0:
        predicted = [[0] * rows] * repeats
    confidence = [[draw.random() ** (1 / sharpness) for _ in truth] for _ in predicted]
    clipped = np.clip(np.array(confidence)[:, None], 1 / labels + 1e-3, 1 - 1e-9)
    run = coverage.sums(np.array([truth]), np.array(predicted)[:, None], clipped, labels)
    return run, coverage.intervals_of(run, 0)


def rounded_limits(interval: Interval) -> list[float | None]:
    """Return the limits and the centre of an interval with ten decimals."""
    low, high = ends(interval)
    return [None if number is None else round(number, 10) for number in (low, high, interval.centre)]


def limits_of_scores() -> dict[str, list[float | None]]:
    """Return the limits of each score of 30 simulated runs."""
    limits = {}
    for seed in range(30):
        _, scores = simulated(seed)
        for score, (_, interval) in scores.items():
            limits[f"{score}, run {seed}"] = rounded_limits(interval)
    return limits


def limits_of_means() -> dict[str, list[float | None]]:
    """Return the limits of the mean of each score over three of the simulated runs; a run may lack a score."""
    limits = {}
    for first in range(0, 30, 3):
        scores_of_three = [simulated(seed)[1] for seed in (first, first + 1, first + 2)]
        for score in scores_of_three[0]:
            having_it = [scores[score] for scores in scores_of_three if score in scores]
            values, intervals = [value for value, _ in having_it], [interval for _, interval in having_it]
            highest = 1.0 if intervals[0].centre is None else math.log(5)
            mean = mean_interval(values, intervals, [(0.0, highest)] * len(values))
            limits[f"mean of {score}, from run {first}"] = rounded_limits(mean)
    return limits


def limits_of_slopes() -> dict[str, list[float | None]]:
    """Return the limits of the slope of each score over five samples of one model."""
    model = (0.8, True, "over", 0.5, 0.5, 2, 1.0)
    run = coverage.sums(*coverage.simulate(np.random.default_rng(0), np.array([0.7, 0.3]), model, 5, 30), 2)
    samples = [coverage.parts_of(run, sample) for sample in range(5)]
    limits = {}
    for score in samples[0]:
        limits[f"slope of {score}"] = rounded_limits(coverage.slope([parts[score] for parts in samples]))
    return limits


@pytest.mark.parametrize("limits_of", [limits_of_scores, limits_of_means, limits_of_slopes])
def test_limits_are_those_of_the_stated_version(limits_of: Any) -> None:
    """Other limits need another ``INTERVAL_VERSION``. A second implementation, in NumPy, had the frozen ones too."""
    golden = json.loads(GOLDEN.read_text("utf-8"))
    assert golden["version"] == INTERVAL_VERSION
    for name, limits in limits_of().items():
        assert limits == pytest.approx(golden["limits"][name], abs=1e-8), name


def test_all_frozen_limits_are_compared() -> None:
    golden = json.loads(GOLDEN.read_text("utf-8"))
    assert golden["limits"].keys() == {*limits_of_scores(), *limits_of_means(), *limits_of_slopes()}


# -- properties


@settings(max_examples=60, deadline=None)
@given(st.integers(0, 10**6))
def test_intervals_hold_the_estimate_and_are_never_points(seed: int) -> None:
    run, scores = simulated(seed)
    width = ends(scores["accuracy"][1])[1] - ends(scores["accuracy"][1])[0]
    for score, (value, interval) in scores.items():
        top = {"entropy of mean": math.log(len(run["counts"])), "posterior bias": math.inf}.get(score, 1.0)
        assert interval.low + 1e-12 >= 0.0
        assert interval.low - 1e-12 <= value <= interval.high + 1e-12 <= top + 2e-12
        assert interval.high - interval.low > (0.02 * width if top == 1.0 else 0.0)
    for part in coverage.parts_of(run, 0).values():
        assert abs(math.fsum(part.influence)) < 1e-9


@given(st.lists(st.booleans(), min_size=2, max_size=60))
def test_repeats_that_are_copies_tell_nothing_new(correct: list[bool]) -> None:
    once = ratio_part(list(map(int, correct)), [1] * len(correct), 0.95)
    twice = ratio_part([2 * one for one in correct], [2] * len(correct), 0.95)
    assert (twice.below, twice.above) == pytest.approx((once.below, once.above), abs=1e-12)


def test_a_certain_and_perfect_model_is_as_uncertain_as_its_accuracy() -> None:
    """The issue's case: likelihood [1, 1] and calibration error [0, 0] next to an accuracy of [0.84, 1]."""
    ones, none = [1.0] * 20, [0.0] * 20
    low, _ = ends(ratio_part(ones, ones, 0.95))
    assert low == pytest.approx(0.82, abs=0.01)
    assert ends(likelihood_part(ones, ones, ones, ones, 0.95))[0] == pytest.approx(low, abs=0.02)
    certain_bin = BinRows(hits=ones, queries=ones, errors=none)
    assert ends(calibration_part([certain_bin], ones, 0.95))[1] == pytest.approx(1 - low, abs=0.02)
    # of one event the design effect is (2 + 1) / 2
    large = ratio_part([10.0] + [0.0] * 100, [10.0] + [1.0] * 100, 0.95)
    limits = wilson_distances(1 / 11, 1.5 * 10 / 121 * 200 / 110**2, student_quantile(0.95, 101))
    assert (large.below, large.above) == pytest.approx(limits)


@pytest.mark.parametrize(("rows", "rare_share"), [(10, 0.1), (20, 0.05), (128, 0.01)])
def test_the_likelihood_allows_for_rare_rows_that_the_sample_lacks(rows: int, rare_share: float) -> None:
    """All rows are right with 0.1, which a third of the samples shows if some rows of the population have 0.95."""
    ones, low = [1.0] * rows, [0.1] * rows
    _, high = ends(likelihood_part(low, ones, low, ones, 0.95))
    assert high > 0.1 + rare_share * (0.95 - 0.1)


@pytest.mark.parametrize("sign", [1, -1])
def test_the_mean_allows_for_no_bias_and_for_twice_the_estimated_one(sign: int) -> None:
    """Calibration errors of ten data sets, 0.15 and 0.09 without bias: upper limit 0.169 before, coverage 0.89."""
    limits = sorted((0.5 - 0.5 * sign, 0.5 + sign * (0.34 - 0.5)))
    own = Interval(*limits, 0.95, "any", centre=0.5 + sign * (0.09 - 0.5))
    mean = mean_interval([0.5 + sign * (0.15 - 0.5)] * 10, [own] * 10)
    toward, away = (mean.high, mean.low) if sign > 0 else (1 - mean.low, 1 - mean.high)
    assert toward == pytest.approx(0.09 + math.hypot(0.25 / 10**0.5, 0.06), abs=1e-12)
    assert away == 0.0


@given(st.lists(st.tuples(st.floats(-1, 1), st.floats(0, 0.5), st.floats(0, 0.5)), min_size=1, max_size=6))
def test_means_of_opposite_scores_have_opposite_intervals(scores: list[tuple[float, float, float]]) -> None:
    """Scores from -1 to 1, such as slopes, each with the distances to its lower and to its upper limit."""
    values = [value for value, _, _ in scores]
    intervals = [Interval(value - below, value + above, 0.95, "any") for value, below, above in scores]
    opposite_values = [-value for value in values]
    opposite_intervals = [Interval(-interval.high, -interval.low, 0.95, "any") for interval in intervals]
    ranges = [(-1.0, 1.0)] * len(scores)

    mean = mean_interval(values, intervals, ranges)
    opposite_mean = mean_interval(opposite_values, opposite_intervals, ranges)

    assert (opposite_mean.low, opposite_mean.high) == pytest.approx((-mean.high, -mean.low), abs=1e-9)


def test_the_interval_of_a_mean_grows_with_the_unit_of_the_score() -> None:
    """Percentages have the limits of shares times 100, where the data sets have different ranges, too."""
    shares = [Interval(0.5, 0.8, 0.95, "any"), Interval(0.9, 1.0, 0.95, "any")]
    percentages = [Interval(50.0, 80.0, 0.95, "any"), Interval(90.0, 100.0, 0.95, "any")]

    of_shares = mean_interval([0.7, 0.97], shares, [(0.0, 1.0), (0.0, 2.0)])
    of_percentages = mean_interval([70.0, 97.0], percentages, [(0.0, 100.0), (0.0, 200.0)])

    assert (of_percentages.low, of_percentages.high) == pytest.approx((100 * of_shares.low, 100 * of_shares.high))


@settings(max_examples=200)
@given(st.integers(2, 8), st.integers(1, 4), st.integers(0, 10**6))
def test_means_hold_the_estimate_and_stay_in_range(labels: int, count: int, seed: int) -> None:
    """Also where every prediction is nearly uniform, so that the largest entropy is the estimate."""
    draw, top = np.random.default_rng(seed), math.log(labels)
    values, found = [], []
    for _ in range(count):
        rows = draw.dirichlet([draw.choice([0.01, 1.0, 1e6])] * labels, size=20)
        one = divergence_interval(rows.T.tolist(), None, [1.0] * 20, 0.95)
        values.append(float(-(rows.mean(0) * np.log(rows.mean(0))).sum()))
        found.append(Interval(max(0.0, top - one.high), top - one.low, 0.95, "any", centre=top - one.centre))
    mean = mean_interval(values, found, [(0.0, top)] * count)
    assert 0.0 <= mean.low <= math.fsum(values) / count <= mean.high <= top + 1e-9


# -- coverage in small simulations; tests/performance/interval_coverage.py is the full one


def covered(intervals: Iterable[Interval], truth: float) -> float:
    return float(np.mean([coverage.covers(interval, truth) for interval in intervals]))


@pytest.mark.parametrize(
    ("repeats", "accuracy", "kind"),
    [(2, 0.98, "under"), (8, 0.8, "even"), pytest.param(8, 0.95, "under", marks=pytest.mark.slow)],
)
def test_calibration_errors_cover_where_repeats_share_their_errors(repeats: int, accuracy: float, kind: str) -> None:
    """The queries of a row are right or wrong together, with confidences in several bins; 0.76 before."""
    model = (accuracy, False, kind, 1.0, 0.5, repeats, 1.0)
    truth = coverage.truths((25, 25), model)["ECE-1"]
    draw = np.random.default_rng([repeats, int(100 * accuracy)])
    run = coverage.sums(*coverage.simulate(draw, np.array([0.5, 0.5]), model, 200, 50), 2)
    parts = [coverage.parts_of(run, sample)["ECE-1"] for sample in range(200)]
    assert covered((part.interval(0.95, "") for part in parts), truth) > 0.89  # 0.93 has less with probability 0.02


@pytest.mark.slow
@pytest.mark.parametrize("limit", [20, 128])
def test_intervals_cover(limit: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each score covers in 0.89 of samples or more (0.93 nominally, 200 samples)."""
    few = {name: coverage.COUNTS[name] for name in ("financial_phrasebank", "SST5", "hate_speech_18")}
    monkeypatch.setattr(coverage, "COUNTS", few)
    names = ("0.6 leaning calibrated copy 0.3 spread 0.5 x 2", "0.95 leaning certain copy 0.3 spread 0 x 2")
    cells = [cell for name in names for cell in coverage.classification_cells(limit, 200, f"{name}, errors x 1.0")]
    cells += [cell for score in coverage.RATIOS for cell in coverage.ratio_cells(limit, 200, score)]
    for cell in cells:
        assert cell["coverage"] is None or cell["coverage"] > 0.89, cell


@pytest.mark.slow
@pytest.mark.parametrize("rows", [20, 128])
@pytest.mark.parametrize("agree", [True, False])
@pytest.mark.parametrize(
    "accuracies", [[one] * n for n in (1, 2, 10) for one in (0.5, 0.9, 0.97, 0.99)] + [[0.99] * 8 + [0.9] * 2]
)
def test_means_of_accuracies_cover(rows: int, agree: bool, accuracies: Sequence[float]) -> None:
    """Two queries per row, agreeing or independent; 0.86 to 0.90 for ten data sets of good models before."""
    draw = np.random.default_rng([rows, agree, len(accuracies)])
    hits = draw.binomial(1, np.array(accuracies)[:, None, None], size=(200, len(accuracies), rows, 2))
    row_hits = 2.0 * hits[..., 0] if agree else hits.sum(-1).astype(float)
    means = []
    for sample in row_hits.tolist():
        parts = [ratio_part(own, [2.0] * rows, 0.95) for own in sample]
        means.append(mean_interval([part.value for part in parts], [part.interval(0.95, "") for part in parts]))
    assert covered(means, float(np.mean(accuracies))) > 0.89


# -- confidence sequences: valid by enumeration of all orders, with frozen limits, exact at the end


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
    """Return the mean of the means of data sets."""
    return math.fsum(math.fsum(rows) / len(rows) for rows in population) / len(population)


def round_of(orders: Population, place: int) -> list[float | None]:
    """Return the row of each data set at a place of its order; ``None`` for one that has no more rows."""
    return [rows[place] if place < len(rows) else None for rows in orders]


def sequence_of(population: Population, level: float = 0.95, **range_: float) -> ConfidenceSequence:
    """Return the sequence of intervals of the mean of data sets, before the first round."""
    return ConfidenceSequence([len(rows) for rows in population], level, **range_)


def all_orders(population: Population) -> Iterable[Population]:
    """Return the rows of each data set in each order."""
    return itertools.product(*(itertools.permutations(rows) for rows in population))


def ever_excludes(sequence: ConfidenceSequence, order: Population, truth: float, gap: float) -> bool:
    """Return whether the interval excludes a mean after any round; rows without exact sums need some room."""
    excluded = False
    for place in range(sequence.all_rounds):
        sequence.update(round_of(order, place), gap)
        low, high = sequence.interval
        if not low - 1e-12 <= truth <= high + 1e-12:
            excluded = True
    return excluded


@pytest.mark.parametrize("population", TINY)
@pytest.mark.parametrize("gap", [0.02, 0.2, 5.0])
@pytest.mark.parametrize("level", [0.2, 0.5, 0.8])
def test_the_share_of_orders_whose_interval_ever_excludes_the_mean_is_at_most_one_minus_the_level(
    population: Population, gap: float, level: float
) -> None:
    """Exact, without simulation."""
    truth = mean(population)
    excluded = [ever_excludes(sequence_of(population, level), order, truth, gap) for order in all_orders(population)]
    assert sum(excluded) <= (1 - level) * len(excluded)


@pytest.mark.parametrize("population", TINY)
@pytest.mark.parametrize("gap", [0.02, 0.2, 5.0])
def test_the_expected_capital_at_the_true_means_is_at_most_1_in_each_round(population: Population, gap: float) -> None:
    """The capital of the bets is the supermartingale behind the bounds. Exact, over all orders.

    It is exp(evidence - bet * unknown), where ``unknown`` is the sum of the means of the data sets that have rows left,
    for the bound from below; the bound from above is that of 1 minus all values.
    """
    capital: defaultdict[tuple[int, str], float] = defaultdict(float)
    number_of_orders = 0
    for order in all_orders(population):
        number_of_orders += 1
        sequence = sequence_of(population, level=0.5)
        for place in range(sequence.all_rounds):
            sequence.update(round_of(order, place), gap)
            means_left = [math.fsum(rows) / len(rows) for rows in population if len(rows) > place + 1]
            below, above = sequence._lower_bound, sequence._bound_of_mirrored
            unknown_below = sum(means_left)
            unknown_above = sum(1 - value for value in means_left)
            capital[place, "below"] += math.exp(below._evidence - below._total_bet * unknown_below)
            capital[place, "above"] += math.exp(above._evidence - above._total_bet * unknown_above)
    assert max(capital.values()) / number_of_orders <= 1 + 1e-9


@pytest.mark.parametrize(
    ("gap", "limits"),
    [
        (0.05, {40: (0.520015718, 0.804164012), 80: (0.596334673, 0.716251403), 140: (0.663019864, 0.716251403)}),
        (0.2, {40: (0.539386941, 0.759450124), 80: (0.570315081, 0.730977758), 140: (0.599892919, 0.730977758)}),
    ],
)
def test_limits_of_sequences_are_those_that_were_frozen(gap: float, limits: dict[int, tuple[float, float]]) -> None:
    """A second implementation, the direct product over draws, had these limits, too; one data set ends at 120."""
    draw = random.Random("limits")
    sizes = {200: 0.9, 120: 0.5, 300: 0.7}
    population = [[float(draw.random() < chance) for _ in range(size)] for size, chance in sizes.items()]
    sequence = sequence_of(population)
    found = {}
    for place in range(140):
        sequence.update(round_of(population, place), gap)
        found[sequence.rounds] = sequence.interval
    assert {n: found[n] for n in limits} == {n: pytest.approx(ends) for n, ends in limits.items()}
    assert sequence.standard_error == pytest.approx(0.011259121)


VALUES_OF_DATASETS = st.lists(st.lists(st.floats(0, 1), min_size=1, max_size=12), min_size=1, max_size=4)
BOUNDS_CROSS = [[0.0] * 5 + [1.0] * 3] * 3
"""For these values, the lower bound gets above the upper one, so that the interval is a point."""


@settings(max_examples=50, deadline=None)
@example(BOUNDS_CROSS, 0.25)
@given(VALUES_OF_DATASETS, st.floats(0.001, 0.4))
def test_each_interval_is_within_the_one_before(population: list[list[float]], gap: float) -> None:
    """Until the bounds cross, which a few may."""
    sequence = sequence_of(population)
    low_before, high_before = 0.0, 1.0
    for place in range(sequence.all_rounds - 1):
        sequence.update(round_of(population, place), gap, gap / 2)
        low, high = sequence.interval
        assert 0 <= low <= high <= 1
        if low < high:
            assert low_before <= low <= high <= high_before
            low_before, high_before = low, high


@settings(max_examples=50, deadline=None)
@example(BOUNDS_CROSS, 0.25)
@given(VALUES_OF_DATASETS, st.floats(0.001, 0.4))
def test_the_sequence_ends_with_the_exact_mean(population: list[list[float]], gap: float) -> None:
    sequence = sequence_of(population)
    for place in range(sequence.all_rounds):
        sequence.update(round_of(population, place), gap, gap / 2)
    assert sequence.interval == (sequence.estimate, sequence.estimate)
    assert sequence.estimate == pytest.approx(mean(population), abs=1e-12)


@settings(max_examples=50, deadline=None)
@example(BOUNDS_CROSS, 0.25)
@given(VALUES_OF_DATASETS, st.floats(0.001, 0.4))
def test_the_sequence_of_scaled_values_is_scaled(population: list[list[float]], gap: float) -> None:
    """Each value x as 2 - 5 x, from -3 to 2: all distances are five times as large, and the limits are exchanged."""
    scaled_population = [[2 - 5 * value for value in values] for values in population]
    sequence, scaled = sequence_of(population), sequence_of(scaled_population, low=-3.0, high=2.0)
    for place in range(sequence.all_rounds):
        assert (2 - scaled.estimate) / 5 == pytest.approx(sequence.estimate)
        assert scaled.standard_error / 5 == pytest.approx(sequence.standard_error)
        sequence.update(round_of(population, place), gap, gap / 2)
        scaled.update(round_of(scaled_population, place), 5 * gap / 2, 5 * gap)
        low, high = sequence.interval
        assert scaled.interval == pytest.approx((2 - 5 * high, 2 - 5 * low), abs=1e-9)


def test_a_value_out_of_the_range_is_refused() -> None:
    sequence = sequence_of([[2.0]], low=-3.0, high=2.0)
    with pytest.raises(ArgumentError, match=r"wrong value: got 2\.1, expected -3 to 2"):
        sequence.update([2.1], 0.1)

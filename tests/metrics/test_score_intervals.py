"""Intervals of scores and confidence sequences: independent oracles, frozen limits, properties, simulated coverage."""

from __future__ import annotations

import itertools
import json
import math
import random
import sys
from collections import defaultdict
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pytest
from hypothesis import assume, example, given, settings
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


def limits_of(interval: Any) -> tuple[float, float]:
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
        is_extreme = rows > 10_001 or level > 0.999
        tolerance = 1e-8 if is_extreme else 1e-10
        of_scipy = stats.t.ppf((1 + level) / 2, rows - 1)
        assert student_quantile(level, rows) == pytest.approx(of_scipy, rel=tolerance), level


def wilson_by_statsmodels(hits: int, rows: int, quantile: float) -> tuple[float, float]:
    """Return Wilson's interval of a share with a quantile of another distribution in the place of the normal one."""
    low, high = proportion_confint(hits, rows, alpha=2 * stats.norm.sf(quantile), method="wilson")
    return low, high


@pytest.mark.parametrize("level", [0.8, 0.95, 0.99])
@given(rows=st.integers(5, 400), share=st.floats(0, 1))
def test_the_interval_of_a_share_is_that_of_wilson_with_the_quantile_of_t(
    level: float, rows: int, share: float
) -> None:
    """Except with a single hit or a single miss, for which the limit is at least the exact one of a Poisson variable.

    Of one event in n rows, this limit is -log(level) / n; the level is that of the quantile in a normal distribution.
    """
    hits = round(rows * share)

    part = share_of(hits, rows, level)

    quantile = student_quantile(level, rows)
    low, high = wilson_by_statsmodels(hits, rows, quantile)
    normal_level = 2 * stats.norm.cdf(quantile) - 1
    limit_of_one_event = -math.log(normal_level) / rows
    if hits == 1:
        low = min(low, limit_of_one_event)
    if hits == rows - 1:
        high = max(high, 1 - limit_of_one_event)
    assert part.value == hits / rows
    assert part.value - part.below == pytest.approx(max(0, low), abs=1e-9)
    assert part.value + part.above == pytest.approx(min(1, high), abs=1e-9)


def test_the_mean_over_one_data_set_has_the_interval_of_that_data_set() -> None:
    interval = Interval(0.1, 0.7, 0.95, "any")

    assert mean_interval([0.3], [interval]) == interval


@pytest.mark.parametrize(
    "errors_of_datasets",
    [
        [0] * 10,
        [1] * 7 + [0] * 3,
        [1] + [0] * 9,
        [2] * 10,
        [10] * 10,
        [0] * 5 + [10] * 5,
    ],
    ids=str,
)
@pytest.mark.parametrize("rows", [20, 50, 512])
def test_the_interval_of_a_mean_over_ten_data_sets_is_nearly_that_of_all_their_rows(
    rows: int, errors_of_datasets: list[int]
) -> None:
    """Seven errors in ten data sets of 20 rows: [0.903, 0.976] in the mean before, [0.930, 0.983] of all 200 rows."""
    shares = [share_of(rows - errors, rows) for errors in errors_of_datasets]

    mean = mean_interval([share.value for share in shares], [share.interval(0.95, "") for share in shares])

    hits_in_all = 10 * rows - sum(errors_of_datasets)
    low, high = proportion_confint(hits_in_all, 10 * rows, method="wilson")
    assert (mean.low, mean.high) == pytest.approx((low, high), abs=0.15 * (high - low))


@pytest.mark.parametrize(("first_accuracy", "second_accuracy"), [(0.98, 0.0), (0.97, 0.005), (0.9, 0.01)])
def test_the_interval_of_a_mean_of_a_high_and_a_low_accuracy_has_the_level(
    first_accuracy: float, second_accuracy: float
) -> None:
    """Exact: the probability of each pair of numbers of hits on two data sets of 20 rows, where the interval covers."""
    rows = 20
    true_mean = (first_accuracy + second_accuracy) / 2
    interval_of_hits = [share_of(hits, rows).interval(0.95, "") for hits in range(rows + 1)]

    probability_of_covering = 0.0
    for first_hits, second_hits in itertools.product(range(rows + 1), repeat=2):
        intervals = [interval_of_hits[first_hits], interval_of_hits[second_hits]]
        mean = mean_interval([first_hits / rows, second_hits / rows], intervals)
        assert mean.low < mean.high
        if coverage.covers(mean, true_mean):
            probability_of_first = stats.binom.pmf(first_hits, rows, first_accuracy)
            probability_of_second = stats.binom.pmf(second_hits, rows, second_accuracy)
            probability_of_covering += probability_of_first * probability_of_second

    assert probability_of_covering >= 0.95


# -- frozen limits


class SimulatedRun(NamedTuple):
    """The sums over the queries of each row of a run, and its scores with their intervals."""

    sums: coverage.RowSums
    scores: dict[str, coverage.ScoreInterval]


def simulate_run(seed: int) -> SimulatedRun:
    """Simulate a run of some kind with the generator of the standard library: also perfect, certain and constant ones.

    The seed decides on 2 to 5 labels, 2 to 40 rows and 1 to 3 queries of each row, on the error rate (0, 0.3 or 1) and
    on the confidences: the root of a uniform number of the degree 0.2, 1 or 30, so that they are low or nearly 1. Every
    fifth run always predicts label 0.
    """
    draw = random.Random(seed)
    n_labels = draw.randint(2, 5)
    rows = draw.randint(2, 40)
    repeats = draw.randint(1, 3)
    degree = draw.choice([0.2, 1, 30])
    error_rate = draw.choice([0, 0.3, 1])
    truth = [draw.randrange(n_labels) for _ in range(rows)]
    predicted = []
    for _ in range(repeats):
        predicted.append([(label + (draw.random() < error_rate)) % n_labels for label in truth])
    if seed % 5 == 0:
        predicted = [[0] * rows] * repeats
    confidence = []
    for _ in range(repeats):
        confidence.append([draw.random() ** (1 / degree) for _ in range(rows)])

    queries = coverage.Queries(
        truth=np.array([truth]),  # one sample
        predicted=np.array(predicted)[:, np.newaxis],
        confidence=np.clip(np.array(confidence)[:, np.newaxis], 1 / n_labels + 1e-3, 1 - 1e-9),
    )
    sums = coverage.sum_over_queries(queries, n_labels)
    return SimulatedRun(sums, coverage.intervals_of(sums, sample=0))


def rounded_limits(interval: Interval) -> list[float | None]:
    """Return the limits and the centre of an interval with ten decimals."""
    centre = None if interval.centre is None else round(interval.centre, 10)
    return [round(interval.low, 10), round(interval.high, 10), centre]


def limits_of_scores() -> dict[str, list[float | None]]:
    """Return the limits of each score of 30 simulated runs."""
    limits = {}
    for seed in range(30):
        for score, found in simulate_run(seed).scores.items():
            limits[f"{score}, run {seed}"] = rounded_limits(found.interval)
    return limits


def limits_of_means() -> dict[str, list[float | None]]:
    """Return the limits of the mean of each score over three of the simulated runs; a run may lack a score."""
    limits = {}
    for first_seed in range(0, 30, 3):
        runs = [simulate_run(seed).scores for seed in range(first_seed, first_seed + 3)]
        for score in runs[0]:
            values = [run[score].value for run in runs if score in run]
            intervals = [run[score].interval for run in runs if score in run]
            highest = 1.0 if intervals[0].centre is None else math.log(5)
            mean = mean_interval(values, intervals, [(0.0, highest)] * len(values))
            limits[f"mean of {score}, from run {first_seed}"] = rounded_limits(mean)
    return limits


def limits_of_slopes() -> dict[str, list[float | None]]:
    """Return the limits of the slope of each score over five samples of one model."""
    model = coverage.Model(
        accuracy=0.8, leaning=True, confidence="over", copy=0.5, spread=0.5, repeats=2, error_factor=1.0
    )
    queries = coverage.simulate(np.random.default_rng(0), np.array([0.7, 0.3]), model, samples=5, rows=30)
    sums = coverage.sum_over_queries(queries, n_labels=2)
    parts_of_samples = [coverage.parts_of(sums, sample) for sample in range(5)]
    limits = {}
    for score in parts_of_samples[0]:
        limits[f"slope of {score}"] = rounded_limits(coverage.slope([parts[score] for parts in parts_of_samples]))
    return limits


@pytest.mark.parametrize("compute_limits", [limits_of_scores, limits_of_means, limits_of_slopes])
def test_limits_are_those_that_were_frozen_with_this_version_of_the_intervals(
    compute_limits: Callable[[], dict[str, list[float | None]]],
) -> None:
    """Other limits need another ``INTERVAL_VERSION``. A second implementation, in NumPy, had the frozen ones too."""
    golden = json.loads(GOLDEN.read_text("utf-8"))

    assert golden["version"] == INTERVAL_VERSION
    for name, limits in compute_limits().items():
        assert limits == pytest.approx(golden["limits"][name], abs=1e-8), name


def test_all_frozen_limits_are_compared() -> None:
    golden = json.loads(GOLDEN.read_text("utf-8"))

    assert golden["limits"].keys() == {*limits_of_scores(), *limits_of_means(), *limits_of_slopes()}


# -- properties


@settings(max_examples=60, deadline=None)
@given(seed=st.integers(0, 10**6))
def test_an_interval_holds_its_score_and_is_within_the_range_of_the_score(seed: int) -> None:
    run = simulate_run(seed)
    n_labels = len(run.sums.truths_by_label)
    largest = {"entropy of mean": math.log(n_labels), "posterior bias": math.inf}
    rounding = 1e-12

    for score, (value, interval) in run.scores.items():
        assert interval.low >= -rounding, score
        assert interval.low - rounding <= value <= interval.high + rounding, score
        assert interval.high <= largest.get(score, 1.0) + rounding, score


@settings(max_examples=60, deadline=None)
@given(seed=st.integers(0, 10**6))
def test_no_interval_is_a_point(seed: int) -> None:
    """Scores between 0 and 1 have at least 2 % of the width of the accuracy."""
    scores = simulate_run(seed).scores
    width_of_accuracy = scores["accuracy"].interval.high - scores["accuracy"].interval.low

    for score, (_, interval) in scores.items():
        width = interval.high - interval.low
        if score in ("entropy of mean", "posterior bias"):
            assert width > 0.0, score
        else:
            assert width > 0.02 * width_of_accuracy, score


@settings(max_examples=60, deadline=None)
@given(seed=st.integers(0, 10**6))
def test_the_influences_of_the_rows_sum_to_zero(seed: int) -> None:
    run = simulate_run(seed)

    for score, part in coverage.parts_of(run.sums, sample=0).items():
        assert math.fsum(part.influence) == pytest.approx(0.0, abs=1e-9), score


@given(st.lists(st.booleans(), min_size=2, max_size=60))
def test_a_second_query_with_the_same_prediction_does_not_narrow_the_interval(correct: list[bool]) -> None:
    hits = [1 if is_correct else 0 for is_correct in correct]
    rows = len(hits)

    once = ratio_part(hits, [1] * rows, 0.95)
    twice = ratio_part([2 * hit for hit in hits], [2] * rows, 0.95)

    assert (twice.below, twice.above) == pytest.approx((once.below, once.above), abs=1e-12)


TWENTY_ONES = [1.0] * 20
TWENTY_ZEROS = [0.0] * 20


def test_the_likelihood_of_a_certain_and_perfect_model_is_as_uncertain_as_its_accuracy() -> None:
    """20 of 20 rows are correct: the accuracy has [0.82, 1]. The likelihood had [1, 1]."""
    accuracy_low, _ = limits_of(ratio_part(TWENTY_ONES, TWENTY_ONES, 0.95))
    assert accuracy_low == pytest.approx(0.82, abs=0.01)

    # The likelihoods of the rows, correct queries, likelihoods of correct queries, and queries.
    likelihood = likelihood_part(TWENTY_ONES, TWENTY_ONES, TWENTY_ONES, TWENTY_ONES, 0.95)

    assert limits_of(likelihood)[0] == pytest.approx(accuracy_low, abs=0.02)


def test_the_calibration_error_of_a_certain_and_perfect_model_is_as_uncertain_as_its_accuracy() -> None:
    """The interval was [0, 0] before."""
    accuracy_low, _ = limits_of(ratio_part(TWENTY_ONES, TWENTY_ONES, 0.95))
    bin_of_certain_predictions = BinRows(hits=TWENTY_ONES, queries=TWENTY_ONES, errors=TWENTY_ZEROS)

    calibration_error = calibration_part([bin_of_certain_predictions], TWENTY_ONES, 0.95)

    assert limits_of(calibration_error)[1] == pytest.approx(1 - accuracy_low, abs=0.02)


def test_one_row_with_ten_correct_queries_has_the_mean_of_the_design_effects_one_and_two() -> None:
    """One row of ten correct queries and 100 rows of one wrong query: a share of 10 / 110 = 1 / 11."""
    hits = [10.0] + [0.0] * 100
    queries = [10.0] + [1.0] * 100

    part = ratio_part(hits, queries, 0.95)

    share = 1 / 11
    design_effect = (1 + 2) / 2
    variance_of_queries = share * (1 - share)
    sum_of_squared_sizes = 10**2 + 100 * 1**2
    variance = design_effect * variance_of_queries * sum_of_squared_sizes / 110**2
    below, above = wilson_distances(share, variance, student_quantile(0.95, 101))
    assert part.below == pytest.approx(below)
    assert part.above == pytest.approx(above)


@pytest.mark.parametrize(("rows", "rare_share"), [(10, 0.1), (20, 0.05), (128, 0.01)])
def test_the_likelihood_allows_for_rare_rows_that_the_sample_lacks(rows: int, rare_share: float) -> None:
    """All rows are right with 0.1, which a third of the samples shows if some rows of the population have 0.95."""
    likelihoods = [0.1] * rows
    ones = [1.0] * rows

    part = likelihood_part(likelihoods, ones, likelihoods, ones, 0.95)

    _, high = limits_of(part)
    assert high > 0.1 + rare_share * (0.95 - 0.1)


def test_the_mean_allows_for_no_bias_and_for_twice_the_estimated_one() -> None:
    """Calibration errors of ten data sets are 0.15, and 0.09 without their bias; the limits of each are 0 and 0.34."""
    of_dataset = Interval(0.0, 0.34, 0.95, "any", centre=0.09)

    mean = mean_interval([0.15] * 10, [of_dataset] * 10)

    distance_of_mean = (0.34 - 0.09) / 10**0.5
    bias = 0.15 - 0.09
    assert mean.high == pytest.approx(0.09 + math.hypot(distance_of_mean, bias), abs=1e-12)
    assert mean.low == 0.0, "the end of the range"


def test_the_mean_allows_for_the_opposite_bias_in_the_same_way() -> None:
    """The scores, centres and limits are 1 minus those of the test before."""
    of_dataset = Interval(0.66, 1.0, 0.95, "any", centre=0.91)

    mean = mean_interval([0.85] * 10, [of_dataset] * 10)

    distance_of_mean = (0.91 - 0.66) / 10**0.5
    bias = 0.91 - 0.85
    assert mean.low == pytest.approx(0.91 - math.hypot(distance_of_mean, bias), abs=1e-12)
    assert mean.high == 1.0, "the end of the range"


def entropy_of_mean(distributions: np.ndarray, largest: float) -> coverage.ScoreInterval:
    """Return the entropy of the mean distribution with its interval: log(labels) minus the divergence from uniform."""
    rows = len(distributions)
    divergence = divergence_interval(distributions.T.tolist(), None, [1.0] * rows, 0.95)
    assert divergence.centre is not None
    low = max(0.0, largest - divergence.high)
    interval = Interval(low, largest - divergence.low, 0.95, "any", centre=largest - divergence.centre)
    means = distributions.mean(axis=0)
    return coverage.ScoreInterval(float(-(means * np.log(means)).sum()), interval)


SORTED_THOUSANDTHS = st.lists(st.integers(-1000, 1000), min_size=3, max_size=3).map(sorted)


@given(st.lists(SORTED_THOUSANDTHS, min_size=1, max_size=6))
def test_means_of_opposite_scores_have_opposite_intervals(thousandths: list[list[int]]) -> None:
    """Each data set has a lower limit, a score from -1 to 1, such as a slope, and an upper limit."""
    any_at_its_lower_limit = any(low == value < high for low, value, high in thousandths)
    any_at_its_upper_limit = any(low < value == high for low, value, high in thousandths)
    # Then the data sets are divided by the side of their skewness. One without skewness belongs to neither side.
    assume(not (any_at_its_lower_limit and any_at_its_upper_limit))
    values, opposite_values, intervals, opposite_intervals = [], [], [], []
    for low, value, high in thousandths:
        values.append(value / 1000)
        opposite_values.append(-value / 1000)
        intervals.append(Interval(low / 1000, high / 1000, 0.95, "any"))
        opposite_intervals.append(Interval(-high / 1000, -low / 1000, 0.95, "any"))
    ranges = [(-1.0, 1.0)] * len(values)

    mean = mean_interval(values, intervals, ranges)
    opposite_mean = mean_interval(opposite_values, opposite_intervals, ranges)

    assert opposite_mean.low == pytest.approx(-mean.high, abs=1e-9)
    assert opposite_mean.high == pytest.approx(-mean.low, abs=1e-9)


def test_scores_that_cannot_vary_have_a_mean_that_cannot_vary() -> None:
    """With one label, an entropy is always 0."""
    certain = Interval(0.0, 0.0, 0.95, "any")

    mean = mean_interval([0.0, 0.0], [certain, certain], [(0.0, 0.0), (0.0, 0.0)])

    assert (mean.low, mean.high) == (0.0, 0.0)


def test_the_interval_of_a_mean_grows_with_the_unit_of_the_score() -> None:
    """Percentages have the limits of shares times 100, where the data sets have different ranges, too."""
    shares = [Interval(0.5, 0.8, 0.95, "any"), Interval(0.9, 1.0, 0.95, "any")]
    percentages = [Interval(50.0, 80.0, 0.95, "any"), Interval(90.0, 100.0, 0.95, "any")]

    of_shares = mean_interval([0.7, 0.97], shares, [(0.0, 1.0), (0.0, 2.0)])
    of_percentages = mean_interval([70.0, 97.0], percentages, [(0.0, 100.0), (0.0, 200.0)])

    assert (of_percentages.low, of_percentages.high) == pytest.approx((100 * of_shares.low, 100 * of_shares.high))


@settings(max_examples=200)
@given(n_labels=st.integers(2, 8), n_datasets=st.integers(1, 4), seed=st.integers(0, 10**6))
def test_the_interval_of_a_mean_of_entropies_holds_it_and_stays_in_range(
    n_labels: int, n_datasets: int, seed: int
) -> None:
    """Also where every prediction is nearly uniform (evenness 1e6), so that the largest entropy is the estimate."""
    draw = np.random.default_rng(seed)
    largest = math.log(n_labels)
    entropies = []
    for _ in range(n_datasets):
        evenness = draw.choice([0.01, 1.0, 1e6])
        entropies.append(entropy_of_mean(draw.dirichlet([evenness] * n_labels, size=20), largest))

    values = [entropy.value for entropy in entropies]
    mean = mean_interval(values, [entropy.interval for entropy in entropies], [(0.0, largest)] * n_datasets)

    mean_value = math.fsum(values) / n_datasets
    assert 0.0 <= mean.low <= mean_value <= mean.high <= largest + 1e-9


# -- coverage in small simulations; tests/performance/interval_coverage.py is the full one


def share_that_covers(intervals: Iterable[Interval], truth: float) -> float:
    return float(np.mean([coverage.covers(interval, truth) for interval in intervals]))


SAMPLES = 200
LEAST_COVERAGE = 0.89
"""A true coverage of 0.93 has less in 200 samples with a probability of 0.02."""


@pytest.mark.parametrize(
    ("repeats", "accuracy", "confidence"),
    [(2, 0.98, "under"), (8, 0.8, "even"), pytest.param(8, 0.95, "under", marks=pytest.mark.slow)],
)
def test_calibration_errors_cover_where_repeats_share_their_errors(
    repeats: int, accuracy: float, confidence: str
) -> None:
    """The queries of a row are right or wrong together, with confidences in several bins; 0.76 before."""
    model = coverage.Model(
        accuracy, leaning=False, confidence=confidence, copy=1.0, spread=0.5, repeats=repeats, error_factor=1.0
    )
    true_error = coverage.truths((25, 25), model)["ECE-1"]
    draw = np.random.default_rng([repeats, int(100 * accuracy)])
    queries = coverage.simulate(draw, np.array([0.5, 0.5]), model, SAMPLES, rows=50)
    sums = coverage.sum_over_queries(queries, n_labels=2)

    intervals = []
    for sample in range(SAMPLES):
        intervals.append(coverage.parts_of(sums, sample)["ECE-1"].interval(0.95, ""))

    assert share_that_covers(intervals, true_error) > LEAST_COVERAGE


@pytest.mark.slow
@pytest.mark.parametrize("limit", [20, 128])
@pytest.mark.parametrize(
    "model",
    [
        "0.6 leaning calibrated copy 0.3 spread 0.5 x 2, errors x 1.0",
        "0.95 leaning certain copy 0.3 spread 0 x 2, errors x 1.0",
    ],
)
def test_intervals_of_all_scores_cover_on_three_data_sets(
    model: str, limit: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    three = {name: coverage.COUNTS[name] for name in ("financial_phrasebank", "SST5", "hate_speech_18")}
    monkeypatch.setattr(coverage, "COUNTS", three)

    for cell in coverage.classification_cells(limit, SAMPLES, model):
        assert cell["coverage"] is None or cell["coverage"] > LEAST_COVERAGE, cell


@pytest.mark.slow
@pytest.mark.parametrize("limit", [20, 128])
@pytest.mark.parametrize("score", coverage.RATIOS)
def test_intervals_of_ratios_cover(score: str, limit: int) -> None:
    for cell in coverage.ratio_cells(limit, SAMPLES, score):
        assert cell["coverage"] is None or cell["coverage"] > LEAST_COVERAGE, cell


ACCURACIES_OF_DATASETS = [
    *([accuracy] * datasets for datasets in (1, 2, 10) for accuracy in (0.5, 0.9, 0.97, 0.99)),
    [0.99] * 8 + [0.9] * 2,
]


@pytest.mark.slow
@pytest.mark.parametrize("rows", [20, 128])
@pytest.mark.parametrize("agree", [True, False], ids=["both queries agree", "independent queries"])
@pytest.mark.parametrize("accuracies", ACCURACIES_OF_DATASETS, ids=str)
def test_means_of_accuracies_cover(rows: int, agree: bool, accuracies: Sequence[float]) -> None:
    """Two queries for each row; 0.86 to 0.90 for ten data sets of good models before."""
    draw = np.random.default_rng([rows, agree, len(accuracies)])
    probabilities = np.array(accuracies)[:, np.newaxis, np.newaxis]
    hits_of_queries = draw.binomial(1, probabilities, size=(SAMPLES, len(accuracies), rows, 2))
    first_query_twice = 2.0 * hits_of_queries[..., 0]
    hits_of_rows = first_query_twice if agree else hits_of_queries.sum(axis=-1).astype(float)

    means = []
    for sample in hits_of_rows.tolist():
        parts = [ratio_part(hits_of_dataset, [2.0] * rows, 0.95) for hits_of_dataset in sample]
        means.append(mean_interval([part.value for part in parts], [part.interval(0.95, "") for part in parts]))

    assert share_that_covers(means, float(np.mean(accuracies))) > LEAST_COVERAGE


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


def mean_of_means(population: Population) -> float:
    """Return the mean of the means of data sets."""
    return math.fsum(math.fsum(rows) / len(rows) for rows in population) / len(population)


def values_of_round(population: Population, number: int) -> list[float | None]:
    """Return the value of the row with this number of each data set; ``None`` for one that has no more rows."""
    return [rows[number] if number < len(rows) else None for rows in population]


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
        sequence.update(values_of_round(order, place), gap)
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
    true_mean = mean_of_means(population)

    excludes_mean = []
    for order in all_orders(population):
        excludes_mean.append(ever_excludes(sequence_of(population, level), order, true_mean, gap))

    assert sum(excludes_mean) / len(excludes_mean) <= (1 - level) + 1e-12


def means_of_datasets_with_rows_left(population: Population, n_rounds: int) -> list[float]:
    """Return the mean of each data set that has more rows than this number of rounds."""
    return [math.fsum(rows) / len(rows) for rows in population if len(rows) > n_rounds]


@pytest.mark.parametrize("population", TINY)
@pytest.mark.parametrize("gap", [0.02, 0.2, 5.0])
def test_the_expected_capital_at_the_true_means_is_at_most_1_in_each_round(population: Population, gap: float) -> None:
    """The bounds rest on bets without a gain on average if the means are the true ones. Exact, over all orders.

    The capital is ``exp(evidence - total bet * sum of the means that are still unknown)``. An unknown mean is that of a
    data set that has rows left. The upper bound is the lower bound of ``1 - value``, with the means ``1 - mean``.
    """
    capital_of_lower_bound: defaultdict[int, float] = defaultdict(float)  # by round, summed over the orders
    capital_of_upper_bound: defaultdict[int, float] = defaultdict(float)
    orders = list(all_orders(population))
    for order in orders:
        sequence = sequence_of(population, level=0.5)
        for number in range(sequence.all_rounds):
            sequence.update(values_of_round(order, number), gap)
            unknown_means = means_of_datasets_with_rows_left(population, number + 1)
            lower = sequence._lower_bound
            upper = sequence._bound_of_mirrored
            unknown_mirrored_means = [1 - mean for mean in unknown_means]
            capital_of_lower_bound[number] += math.exp(lower._evidence - lower._total_bet * sum(unknown_means))
            capital_of_upper_bound[number] += math.exp(upper._evidence - upper._total_bet * sum(unknown_mirrored_means))

    assert max(capital_of_lower_bound.values()) / len(orders) <= 1 + 1e-9
    assert max(capital_of_upper_bound.values()) / len(orders) <= 1 + 1e-9


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
    population = []
    for rows, accuracy in ((200, 0.9), (120, 0.5), (300, 0.7)):
        population.append([float(draw.random() < accuracy) for _ in range(rows)])
    sequence = sequence_of(population)

    interval_after = {}
    for number in range(140):
        sequence.update(values_of_round(population, number), gap)
        interval_after[sequence.rounds] = sequence.interval

    for rounds, frozen_limits in limits.items():
        assert interval_after[rounds] == pytest.approx(frozen_limits), f"after {rounds} rounds"
    assert sequence.standard_error == pytest.approx(0.011259121), "frozen, too"


VALUES_OF_DATASETS = st.lists(st.lists(st.floats(0, 1), min_size=1, max_size=12), min_size=1, max_size=4)
BOUNDS_CROSS = [[0.0] * 5 + [1.0] * 3] * 3
"""For these values, the lower bound gets above the upper one, so that the interval is a point."""


@settings(max_examples=50, deadline=None)
@example(BOUNDS_CROSS, 0.25)
@given(VALUES_OF_DATASETS, st.floats(0.001, 0.4))
def test_each_interval_is_within_the_one_before(population: list[list[float]], gap: float) -> None:
    """Until the bounds cross, which a few may; then the interval is a point."""
    sequence = sequence_of(population)
    low_before, high_before = 0.0, 1.0
    for number in range(sequence.all_rounds - 1):
        sequence.update(values_of_round(population, number), gap, gap / 2)

        low, high = sequence.interval
        assert 0 <= low <= high <= 1
        if low < high:
            assert low_before <= low
            assert high <= high_before
            low_before, high_before = low, high


@settings(max_examples=50, deadline=None)
@example(BOUNDS_CROSS, 0.25)
@given(VALUES_OF_DATASETS, st.floats(0.001, 0.4))
def test_the_sequence_ends_with_the_exact_mean(population: list[list[float]], gap: float) -> None:
    sequence = sequence_of(population)

    for number in range(sequence.all_rounds):
        sequence.update(values_of_round(population, number), gap, gap / 2)

    assert sequence.estimate == pytest.approx(mean_of_means(population), abs=1e-12)
    assert sequence.interval == (sequence.estimate, sequence.estimate)


@settings(max_examples=50, deadline=None)
@example(BOUNDS_CROSS, 0.25)
@given(VALUES_OF_DATASETS, st.floats(0.001, 0.4))
def test_the_sequence_of_scaled_values_is_scaled(population: list[list[float]], gap: float) -> None:
    """Each value x as 2 - 5 x, from -3 to 2: all distances are five times as large, and the limits are exchanged."""
    scaled_population = [[2 - 5 * value for value in values] for values in population]
    sequence = sequence_of(population)
    scaled = sequence_of(scaled_population, low=-3.0, high=2.0)
    for number in range(sequence.all_rounds):
        assert scaled.estimate == pytest.approx(2 - 5 * sequence.estimate)
        assert scaled.standard_error == pytest.approx(5 * sequence.standard_error)

        sequence.update(values_of_round(population, number), gap, gap / 2)
        scaled.update(values_of_round(scaled_population, number), 5 * gap / 2, 5 * gap)

        low, high = sequence.interval
        assert scaled.interval == pytest.approx((2 - 5 * high, 2 - 5 * low), abs=1e-9)


def test_a_value_out_of_the_range_is_refused() -> None:
    sequence = sequence_of([[2.0]], low=-3.0, high=2.0)

    with pytest.raises(ArgumentError, match=r"wrong value: got 2\.1, expected -3 to 2"):
        sequence.update([2.1], 0.1)

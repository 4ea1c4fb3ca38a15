"""Intervals of scores: against statsmodels and SciPy, properties of any input, and coverage in small simulations."""

from __future__ import annotations

import importlib.util
import math
from pathlib import Path
from types import ModuleType

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats
from statsmodels.stats.proportion import proportion_confint

from StaICC.errors import UndefinedMetricError
from StaICC.metrics.intervals import (
    LEAST_ROWS,
    Interval,
    calibration_part,
    combine,
    divergence_interval,
    likelihood_part,
    macro_part,
    mean_interval,
    ratio_part,
    rows_of_labels,
    student_quantile,
)

ROOT = Path(__file__).resolve().parents[2]


def limits(part) -> tuple[float, float]:
    interval = part.interval(0.95, "")
    return interval.low, interval.high


@pytest.mark.parametrize("level", [0.5, 0.8, 0.95, 0.99, 0.999, 0.9999])
@pytest.mark.parametrize("rows", [2, 3, 4, 5, 10, 20, 128, 512, 10_000, 1_000_000])
def test_student_quantiles_equal_scipy(level: float, rows: int) -> None:
    expected = stats.t.ppf((1 + level) / 2, rows - 1)
    assert student_quantile(level, rows) == pytest.approx(expected, rel=1e-8)


def test_one_row_has_no_interval() -> None:
    with pytest.raises(UndefinedMetricError, match="at least two test rows, not 1"):
        ratio_part([1], [2], 0.95)


@given(st.integers(5, 400), st.floats(0, 1), st.sampled_from([0.8, 0.95, 0.99]))
def test_one_query_per_row_is_wilson_with_t(n: int, share: float, level: float) -> None:
    k = round(n * share)
    part = ratio_part([1] * k + [0] * (n - k), [1] * n, level)
    z = student_quantile(level, n)
    low, high = proportion_confint(k, n, alpha=2 * stats.norm.sf(z), method="wilson")
    rare = -math.log(2 * stats.norm.cdf(z) - 1) / n  # one event: the exact limit of a Poisson variable
    low, high = min(low, rare) if k == 1 else low, max(high, 1 - rare) if k == n - 1 else high
    assert part.value == k / n
    assert (part.value - part.below, part.value + part.above) == pytest.approx((max(0, low), min(1, high)), abs=1e-9)


@given(st.lists(st.booleans(), min_size=2, max_size=60))
def test_repeats_that_are_copies_tell_nothing_new(correct: list[bool]) -> None:
    once = ratio_part(list(map(int, correct)), [1] * len(correct), 0.95)
    twice = ratio_part([2 * one for one in correct], [2] * len(correct), 0.95)
    assert (twice.below, twice.above) == pytest.approx((once.below, once.above), abs=1e-12)


@settings(max_examples=60, deadline=None)
@given(st.integers(2, 5), st.integers(2, 40), st.integers(1, 3), st.integers(0, 10**6), st.sampled_from([0.2, 1, 30]))
def test_intervals_hold_the_estimate_and_are_never_points(
    labels: int, rows: int, repeats: int, seed: int, sharpness: float
) -> None:
    """Any predictions, also certain, constant and perfect ones."""
    coverage = load_coverage()
    draw = np.random.default_rng(seed)
    truth = draw.integers(labels, size=(1, rows))
    predicted = (truth + (draw.random((repeats, 1, rows)) < draw.choice([0, 0.3, 1]))) % labels
    if seed % 5 == 0:
        predicted = np.zeros_like(predicted)
    confidence = np.clip(draw.random((repeats, 1, rows)) ** (1 / sharpness), 1 / labels + 1e-3, 1 - 1e-9)
    run = coverage.sums(truth, predicted, confidence, labels)

    def columns(key: str) -> list[list[float]]:
        return [one[0].tolist() for one in run[key]]

    queries = run["queries"][0].tolist()
    parts = [
        ratio_part(run["correct"][0].tolist(), queries, 0.95),
        macro_part(columns("hits"), columns("sizes"), 0.95),
        likelihood_part(
            run["lik"][0].tolist(), run["correct"][0].tolist(), run["of_correct"][0].tolist(), queries, 0.95
        ),
        calibration_part(columns("bin_hits"), columns("bin_sizes"), columns("excess"), queries, 0.95),
    ]
    accuracy = parts[0].interval(0.95, "")
    for part in parts:
        interval = part.interval(0.95, "")
        assert 0.0 <= interval.low <= part.value + 1e-12
        assert part.value <= interval.high + 1e-12 <= 1.0 + 2e-12
        assert interval.high - interval.low > 0.02 * (accuracy.high - accuracy.low)
        assert abs(math.fsum(part.influence)) < 1e-9
    sums = [list(row) for row in zip(*columns("probabilities"), strict=True)]
    interval = divergence_interval(sums, None, queries, 0.95)
    assert 0.0 <= interval.low < interval.high <= math.log(labels) + 1e-12


def test_a_certain_and_perfect_model_is_as_uncertain_as_its_accuracy() -> None:
    """The issue's case: likelihood [1, 1] and calibration error [0, 0] next to an accuracy of [0.84, 1]."""
    ones, none = [1.0] * 20, [0.0] * 20
    accuracy = ratio_part(ones, ones, 0.95)
    likelihood = likelihood_part(ones, ones, ones, ones, 0.95)
    error = calibration_part([ones], [ones], [none], ones, 0.95)
    assert limits(accuracy)[0] == pytest.approx(0.82, abs=0.01)
    assert limits(likelihood)[0] == pytest.approx(limits(accuracy)[0], abs=0.02)
    assert limits(error)[1] == pytest.approx(1 - limits(accuracy)[0], abs=0.02)


def test_the_calibration_error_of_a_calibrated_model_may_be_zero() -> None:
    draw = np.random.default_rng(1)
    confidence = draw.uniform(0.5, 1, size=400)
    right = (draw.random(400) < confidence).astype(float)
    inside = [(np.minimum((confidence * 10).astype(int), 9) == place).astype(float) for place in range(10)]
    part = calibration_part(
        [(right * b).tolist() for b in inside],
        [b.tolist() for b in inside],
        [((right - confidence) * b).tolist() for b in inside],
        [1.0] * 400,
        0.95,
    )
    assert limits(part)[0] == 0.0
    assert limits(part)[1] > part.value > 0.0


def test_mean_of_equal_intervals() -> None:
    interval = mean_interval([0.5] * 4, [Interval(0.4, 0.6, 0.95, "any")] * 4)
    assert (interval.low, interval.high) == pytest.approx((0.45, 0.55), abs=1e-3)


@pytest.mark.parametrize(("right", "wrong"), [(0.98, 0.0), (0.97, 0.005), (0.9, 0.01)])
def test_means_of_scores_at_both_ends_cover_their_truth(right: float, wrong: float) -> None:
    rows = 20
    found = [
        ratio_part([1.0] * hits + [0.0] * (rows - hits), [1.0] * rows, 0.95).interval(0.95, "")
        for hits in range(rows + 1)
    ]
    covered = 0.0
    for one in range(rows + 1):
        for other in range(rows + 1):
            interval = mean_interval([one / rows, other / rows], [found[one], found[other]])
            assert interval.low < interval.high
            chance = stats.binom.pmf(one, rows, right) * stats.binom.pmf(other, rows, wrong)
            covered += chance * (interval.low <= (right + wrong) / 2 <= interval.high)
    assert covered >= 0.95


@given(st.integers(5, 400), st.floats(0, 1))
def test_the_mean_of_one_data_set_is_its_interval(n: int, share: float) -> None:
    k = round(n * share)
    part = ratio_part([1] * k + [0] * (n - k), [1] * n, 0.95)
    own, mean = part.interval(0.95, ""), mean_interval([part.value], [part.interval(0.95, "")])
    assert (mean.low, mean.high) == pytest.approx((own.low, own.high), abs=1e-9)


@pytest.mark.parametrize("wrong", [[0] * 10, [1] * 7 + [0] * 3, [1] + [0] * 9, [2] * 10, [10] * 10, [0] * 5 + [10] * 5])
@pytest.mark.parametrize("rows", [20, 50, 512])
def test_the_mean_of_shares_is_nearly_the_share_of_all_rows(rows: int, wrong: list[int]) -> None:
    """Seven errors in ten data sets of 20 rows: [0.903, 0.976] in the mean before, [0.930, 0.983] of all 200 rows."""
    parts = [ratio_part([1] * (rows - k) + [0] * k, [1] * rows, 0.95) for k in wrong]
    mean = mean_interval([part.value for part in parts], [part.interval(0.95, "") for part in parts])
    low, high = proportion_confint(10 * rows - sum(wrong), 10 * rows, method="wilson")
    width = high - low
    assert mean.low == pytest.approx(low, abs=0.15 * width)
    assert mean.high == pytest.approx(high, abs=0.15 * width)


@pytest.mark.parametrize("sign", [1, -1])
def test_the_mean_allows_for_no_bias_and_for_twice_the_estimated_one(sign: int) -> None:
    """Calibration errors of ten data sets, 0.15 and 0.09 without bias: upper limit 0.169 before, coverage 0.89."""
    ends = sorted((0.5 - 0.5 * sign, 0.5 + sign * (0.34 - 0.5)))
    own = Interval(*ends, 0.95, "any", centre=0.5 + sign * (0.09 - 0.5))
    mean = mean_interval([0.5 + sign * (0.15 - 0.5)] * 10, [own] * 10)
    toward, away = (mean.high, mean.low) if sign > 0 else (1 - mean.low, 1 - mean.high)
    assert toward == pytest.approx(0.09 + math.hypot(0.25 / 10**0.5, 0.06), abs=1e-12)
    assert away == 0.0


@settings(max_examples=200)
@given(st.integers(2, 8), st.integers(1, 4), st.integers(0, 10**6))
def test_means_hold_the_estimate_and_stay_in_range(labels: int, count: int, seed: int) -> None:
    """Also where every prediction is nearly uniform, so that the largest entropy is the estimate."""
    draw = np.random.default_rng(seed)
    queries, values, found = [1.0] * 20, [], []
    for _ in range(count):
        rows = draw.dirichlet([draw.choice([0.01, 1.0, 1e6])] * labels, size=20)
        one = divergence_interval(rows.tolist(), None, queries, 0.95)
        assert one.centre is not None
        values.append(float(-(rows.mean(0) * np.log(rows.mean(0))).sum()))
        top = math.log(labels)
        found.append(Interval(max(0.0, top - one.high), top - one.low, 0.95, "any", centre=top - one.centre))
    mean = mean_interval(values, found, math.log(labels))
    assert 0.0 <= mean.low <= math.fsum(values) / count <= mean.high <= math.log(labels) + 1e-9


@pytest.mark.parametrize("rows", [20, 50, 128, 512])
def test_a_slope_of_rows_that_never_change_is_no_point(rows: int) -> None:
    """All influences cancel; rows that change may be missing in the sample."""
    part = ratio_part([2.0, 0.0] * (rows // 2), [2.0] * rows, 0.95)
    slope = combine([part] * 5, [0.4, 0.2, 0.0, -0.2, -0.4])
    assert slope.value == 0.0
    assert slope.above > 0.6 * 2.0 / rows  # 2 of the next rows, and more, may change in the largest way
    assert combine([part] * 2, [0.5, 0.5]).above == pytest.approx(part.above)  # a sum has no pseudo-rows


def test_labels_with_few_rows_have_a_reason() -> None:
    assert rows_of_labels([LEAST_ROWS, LEAST_ROWS]) is None
    assert rows_of_labels([4, 20]) == "1 of 2 labels have fewer than 5 test rows"
    assert "none (F1 of a label without test rows is 0 for every model)" in str(rows_of_labels([0, 20]))


def load_coverage() -> ModuleType:
    """The simulation, whose models the tests use too."""
    spec = importlib.util.spec_from_file_location(
        "coverage_simulation", ROOT / "tests" / "performance" / "interval_coverage.py"
    )
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_the_simulation_computes_the_same_intervals() -> None:
    """The coverage study repeats the functions for many samples at once."""
    coverage = load_coverage()
    assert coverage.check() < 1e-5
    draw = np.random.default_rng(3)
    for biased in (False, True):
        values = draw.integers(0, 21, size=(5, 40)) / 20
        lows = values * draw.random(values.shape)
        highs = values + (1 - values) * draw.random(values.shape)
        centres = values + draw.normal(0, 0.05, size=values.shape) if biased else None
        ends = coverage.mean_interval(list(values), list(lows), list(highs), centres, 1.0)
        for place in range(40):
            found = [
                Interval(lows[i, place], highs[i, place], 0.95, "", centre=None if not biased else centres[i, place])
                for i in range(5)
            ]
            mean = mean_interval(values[:, place].tolist(), found)
            assert (mean.low, mean.high) == pytest.approx((ends[0][place], ends[1][place]), abs=1e-12)


@pytest.mark.slow
@pytest.mark.parametrize("limit", [20, 50, 128])
def test_intervals_cover(limit: int) -> None:
    """A reduced simulation: each score covers in 0.91 of samples or more (0.93 nominally, 600 samples)."""
    coverage = load_coverage()
    vars(coverage)["COUNTS"] = {
        name: coverage.COUNTS[name] for name in ("financial_phrasebank", "SST5", "hate_speech_18")
    }
    for name in ("0.6 leaning calibrated copy 0.3 spread 0.5 x 2", "0.95 leaning certain copy 0.3 spread 0 x 2"):
        for cell in coverage.classification_cells(limit, f"{name}, errors x 1.0", 600):
            assert cell["coverage"] is None or cell["reported"] < 0.05 or cell["coverage"] > 0.91, cell
    for cells in (coverage.consistency_cells(limit, "", 600), coverage.micro_f1_cells(limit, "", 600)):
        assert min(cell["coverage"] for cell in cells) > 0.91


@pytest.mark.parametrize("repeats", [2, 8])
@pytest.mark.parametrize(("accuracy", "kind"), [(0.98, "under"), (0.95, "under"), (0.8, "even")])
def test_calibration_errors_cover_where_repeats_share_their_errors(repeats: int, accuracy: float, kind: str) -> None:
    """The queries of a row are right or wrong together, with confidences in several bins; 0.76 before."""
    coverage = load_coverage()
    model = (accuracy, False, kind, 1.0, 0.5, repeats, 1.0)
    prior, truth = np.array([0.5, 0.5]), coverage.truths((25, 25), model)["ECE-1"]
    draw = np.random.default_rng([repeats, int(100 * accuracy)])
    sums = coverage.sums(*coverage.simulate(draw, prior, model, 400, 50), 2)
    value, low, high, *_ = coverage.scored(sums, student_quantile(0.95, 50))["ECE-1"]
    assert np.mean((low <= truth + 1e-9) & (truth - 1e-9 <= high)) > 0.905  # 0.93 has less with a probability of 0.03
    assert np.all(low <= value)


def test_bins_of_one_query_each_are_not_more_than_independent() -> None:
    """With one query for each row, bins share no rows: the interval is nearly that of independent bins."""
    draw = np.random.default_rng(1)
    bins, errors = draw.integers(0, 3, 200), draw.random(200) - 0.4
    sizes = [(bins == place).astype(float).tolist() for place in range(3)]
    hits = [((bins == place) & (errors > 0)).astype(float).tolist() for place in range(3)]
    excess = [np.where(bins == place, errors, 0.0).tolist() for place in range(3)]
    part = calibration_part(hits, sizes, excess, [1.0] * 200, 0.95)
    alone = [
        calibration_part([hit], [size], [over], [1.0] * 200, 0.95)
        for hit, size, over in zip(hits, sizes, excess, strict=True)
    ]
    assert part.above == pytest.approx(math.sqrt(sum(one.above**2 for one in alone)), rel=0.15)


ACCURACIES = (0.5, 0.9, 0.97, 0.99, 0.995)


@pytest.mark.slow
@pytest.mark.parametrize("rows", [20, 128])
@pytest.mark.parametrize("agree", [True, False])
@pytest.mark.parametrize("accuracies", [[one] * n for n in (1, 2, 10) for one in ACCURACIES] + [[0.99] * 8 + [0.9] * 2])
def test_means_of_accuracies_cover(rows: int, agree: bool, accuracies: list[float]) -> None:
    """Two queries per row, agreeing or independent; 0.86 to 0.90 for ten data sets of good models before."""
    coverage = load_coverage()
    draw = np.random.default_rng([rows, agree, len(accuracies)])
    q, covered, samples = student_quantile(0.95, rows), 0, 800
    for near in (0.75, 1.0, 1.33):
        errors = [(1.0 - one) * near for one in accuracies]
        parts = []
        for error in errors:
            hits = draw.binomial(1, 1.0 - error, size=(samples, rows, 2))
            row_hits = (2 * hits[..., 0] if agree else hits.sum(-1)).astype(float)
            parts.append(coverage.ratio_part(row_hits, np.full((samples, rows), 2.0), q))
        values = [part[0] for part in parts]
        lows = [np.maximum(0, part[0] - part[1]) for part in parts]
        highs = [np.minimum(1, part[0] + part[2]) for part in parts]
        low, high = coverage.mean_interval(values, lows, highs, None, 1.0)
        truth = 1.0 - sum(errors) / len(errors)
        covered += int(((low <= truth + 1e-9) & (truth - 1e-9 <= high)).sum())
    assert covered / (3 * samples) > 0.92


@pytest.mark.slow
@pytest.mark.parametrize("rows", [20, 50, 128])
@pytest.mark.parametrize("accuracy", [0.5, 0.6, 0.8, 0.95])
def test_slopes_of_rows_that_rarely_change_cover(rows: int, accuracy: float) -> None:
    """Predictions repeat in all conditions, except for few rows that turn wrong in one of them; 0.65 to 0.88 before."""
    coverage = load_coverage()
    weights = [0.4, 0.2, 0.0, -0.2, -0.4]
    q, samples = student_quantile(0.95, rows), 1000
    for share in (0.01, 0.03, 0.1, 0.2):
        draw, covered = np.random.default_rng([rows, int(1000 * share)]), 0
        for near in (0.75, 1.0, 1.33):
            right = draw.random((samples, rows)) < accuracy
            changes = draw.random((samples, rows)) < share * near
            first = draw.integers(1, 5, size=(samples, rows))
            hits = [2.0 * np.where(changes, place < first, right) for place in range(5)]
            parts = [coverage.ratio_part(one, np.full((samples, rows), 2.0), q) for one in hits]
            value, below, above, _, _ = coverage.combine([coverage.of_difference(one, q) for one in parts], weights)
            truth = 0.5 * share * near
            covered += int(((value - below <= truth) & (truth <= value + above)).sum())
            assert (below + above > 0).all()
        assert covered / (3 * samples) > 0.92

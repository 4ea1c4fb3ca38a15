"""Intervals against statsmodels, SciPy, NumPy and plain rescoring; draws frozen; coverage in a simulation."""

from __future__ import annotations

import hashlib
import math
import random
from collections import Counter
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats
from sklearn.metrics import f1_score
from statsmodels.stats.proportion import proportion_confint

from StaICC.errors import ArgumentError, OutputError, UndefinedMetricError
from StaICC.metrics import classification
from StaICC.metrics.classification_sums import ClassificationSums
from StaICC.metrics.intervals import (
    Interval,
    bootstrap_metrics,
    bootstrap_replicates,
    bootstrap_statistic,
    bootstrap_sums,
    design_effect,
    mirrored_interval,
    percentile_interval,
    quantile,
    wilson,
)
from StaICC.metrics.resampling import (
    BOOTSTRAP_VERSION,
    PackedRows,
    draw_resamples,
    draw_subsets,
    generator,
    group_by_row,
)

METRICS = ["accuracy", "averaged_truelabel_likelihood", "macro_F1", "expected_calibration_error_1"]


def simulate(seed: int, rows: int, repeats: int, labels: int, sharpness: float = 1.0):
    """A run whose repeats are alike: true labels, predictions, test rows (one repeat after the other)."""
    draw = np.random.default_rng(seed)
    truth = draw.integers(labels, size=rows)
    shared = draw.normal(size=(rows, labels))
    shared[np.arange(rows), truth] += 1.0
    scores = np.concatenate([shared + draw.normal(0, 0.7, size=shared.shape) for _ in range(repeats)])
    weights = np.exp(sharpness * (scores - scores.max(axis=1, keepdims=True)))
    predictions = weights / weights.sum(axis=1, keepdims=True)
    return np.tile(truth, repeats).tolist(), predictions.tolist(), list(range(rows)) * repeats


def rescored(truth, predictions, queries) -> dict[str, float]:
    chosen = [truth[i] for i in queries], [predictions[i] for i in queries]
    return {name: getattr(classification, name)(*chosen) for name in METRICS}


# --- draws -----------------------------------------------------------------------------------------------------------


def digest(numbers) -> str:
    return hashlib.sha256(",".join(map(str, numbers)).encode()).hexdigest()[:16]


def test_draws_are_frozen() -> None:
    """If this fails the draws have changed: then BOOTSTRAP_VERSION must change, and all published intervals with it."""
    assert BOOTSTRAP_VERSION == "bootstrap-1"
    draw = generator("seed", "purpose")
    assert [draw.getrandbits(32) for _ in range(3)] == FROZEN_WORDS
    drawn = {
        n: digest(number for sample in draw_resamples(range(n), 3, generator("seed", "bootstrap")) for number in sample)
        for n in (3, 100, 512, 4096, 4097, 5000)
    }
    assert drawn == FROZEN_RESAMPLES
    flips = draw_subsets(range(40), 2, generator("seed", "permutation"))
    assert digest(number for subset in flips for number in subset) == FROZEN_SUBSETS


FROZEN_WORDS = [4047020139, 1383158239, 3817444882]
FROZEN_RESAMPLES = {
    3: "5dc9b7648e61ae8a",
    100: "94c79675c87b1b90",
    512: "9ed65ca75134796b",
    4096: "9d837924d74073a6",
    4097: "3a522308e02e691f",
    5000: "7e62817475989c90",
}
FROZEN_SUBSETS = "3e0de29af03c4f1a"


def test_purposes_and_seeds_have_streams_of_their_own() -> None:
    first = {generator(seed, purpose).getrandbits(64) for seed in ("a", "b", "") for purpose in ("x", "y")}
    assert len(first) == 6
    assert generator("a", "b").getrandbits(64) != generator("b", "a").getrandbits(64)
    with pytest.raises(ArgumentError, match="a seed is a text"):
        generator(42, "bootstrap")  # type: ignore[arg-type]


@pytest.mark.parametrize("n", [1, 3, 7, 100, 5000])
def test_every_item_is_drawn_equally_often(n: int) -> None:
    times = 200_000 // n
    counts = Counter(item for sample in draw_resamples(range(n), times, generator("even", str(n))) for item in sample)
    assert sum(counts.values()) == n * times
    assert set(counts) <= set(range(n))
    if n > 1:
        assert stats.chisquare([counts[item] for item in range(n)]).pvalue > 1e-4


def test_subsets_take_half_and_keep_the_order() -> None:
    drawn = [list(subset) for subset in draw_subsets(range(101), 2000, generator("half", "test"))]
    assert all(subset == sorted(set(subset)) for subset in drawn)
    assert stats.binomtest(sum(map(len, drawn)), 101 * 2000, 0.5).pvalue > 1e-4
    assert stats.chisquare(np.bincount([i for subset in drawn for i in subset], minlength=101)).pvalue > 1e-4


def test_drawing_leaves_the_global_generator_alone() -> None:
    state = random.getstate()
    list(draw_resamples(range(10), 3, generator("a", "b")))
    assert random.getstate() == state


# --- packed sums -----------------------------------------------------------------------------------------------------

column = st.one_of(
    st.integers(-(10**6), 10**6), st.floats(-1e6, 1e6), st.floats(-1, 1), st.sampled_from([0, 1, 2, 1e-300, 1e15])
)


@settings(max_examples=200)
@given(
    st.integers(1, 5).flatmap(lambda width: st.lists(st.lists(column, min_size=width, max_size=width), min_size=1)),
    st.randoms(),
)
def test_packed_rows_add_like_fractions(rows: list[list[float]], draw: random.Random) -> None:
    packed = PackedRows(rows)
    chosen = [draw.randrange(len(rows)) for _ in rows]
    signs = [draw.choice((-1, 1)) for _ in rows]
    found = packed.unpack(sum(sign * packed.items[i] for i, sign in zip(chosen, signs, strict=True)))
    for place, total in enumerate(found):
        exact = sum(sign * Fraction(rows[i][place]) for i, sign in zip(chosen, signs, strict=True))
        largest = max(abs(row[place]) for row in rows)
        slack = largest * len(rows) ** 2 * 2.0**-60 + abs(float(exact)) * 2.0**-52 + len(rows) * 2.0**-1000
        assert abs(total - exact) <= slack
        if all(row[place] == int(row[place]) for row in rows) and largest * len(rows) < 2**60:
            assert total == exact
            assert isinstance(total, int)


@pytest.mark.parametrize("edge", [2**15, 2**31, 2**61])
def test_whole_numbers_at_the_edges_of_fields_stay_exact(edge: int) -> None:
    for value in (edge - 1, edge, edge + 1, edge // 2 + 1):
        packed = PackedRows([[value, 7, -value]])
        (item,) = packed.items
        assert packed.unpack(item) == [value, 7, -value]
        assert packed.unpack(-item) == [-value, -7, value]


@pytest.mark.parametrize(
    ("rows", "message"),
    [
        ([], "of one length"),
        ([[]], "of one length"),
        ([[1], [1, 2]], r"not \[1, 2\]"),
        ([[math.nan]], "finite"),
        ([[1], [math.inf]], "finite"),
    ],
)
def test_rows_that_cannot_be_packed_are_refused(rows: list[list[float]], message: str) -> None:
    with pytest.raises(ArgumentError, match=message):
        PackedRows(rows)


def test_rows_are_grouped_in_their_own_order() -> None:
    assert group_by_row([5, 1, 5, 1, 9], 5) == [[1, 3], [0, 2], [4]]
    with pytest.raises(ArgumentError, match="each of 3 queries, but there are 2 rows"):
        group_by_row([0, 1], 3)
    with pytest.raises(ArgumentError, match="there are no queries"):
        group_by_row([], 0)


# --- Wilson ----------------------------------------------------------------------------------------------------------


@given(st.integers(1, 5000), st.floats(0, 1), st.sampled_from([0.5, 0.9, 0.95, 0.999]))
def test_wilson_equals_statsmodels(n: int, share: float, level: float) -> None:
    successes = round(n * share)
    ours = wilson(successes, n, level)
    low, high = proportion_confint(successes, n, alpha=1 - level, method="wilson")
    assert ours.low == pytest.approx(low, abs=1e-12)
    assert ours.high == pytest.approx(high, abs=1e-12)
    assert 0.0 <= ours.low <= successes / n <= ours.high <= 1.0
    assert (ours.level, ours.method, ours.resamples, ours.seed) == (level, "Wilson score", None, None)


def test_wilson_at_the_ends() -> None:
    assert wilson(0, 10).low == 0.0
    assert wilson(0, 10).high > 0.2
    assert {wilson(n, n).high for n in range(1, 200)} == {1.0}  # whatever rounding does
    assert {wilson(0, n).low for n in range(1, 200)} == {0.0}
    assert wilson(0, 10).high == pytest.approx(1.0 - wilson(10, 10).low, abs=1e-15)


def test_a_design_effect_divides_the_sample() -> None:
    wide = wilson(60, 100, design_effect=2.0)
    half = wilson(30, 50)
    assert (wide.low, wide.high) == (half.low, half.high)
    assert wide.method == "Wilson score, design effect 2"


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ((5, 4), "0 <= successes <= n"),
        ((-1, 4), "0 <= successes <= n"),
        ((0, 0), "n >= 1"),
        ((0.5, 4), "two whole numbers"),
        ((True, 4), "two whole numbers"),
        ((1, 4, 95), "level must lie between 0 and 1"),
        ((1, 4, 1.0), "level must lie between 0 and 1"),
        ((1, 4, 0.0), "level must lie between 0 and 1"),
    ],
)
def test_wilson_refuses(arguments: tuple, message: str) -> None:
    with pytest.raises(ArgumentError, match=message):
        wilson(*arguments)
    for effect in (0.5, math.inf, math.nan):
        with pytest.raises(ArgumentError, match="a design effect is at least 1"):
            wilson(1, 4, design_effect=effect)


def test_design_effect_of_copies_and_of_independent_repeats() -> None:
    draw = random.Random(1)
    rows = 4000
    single = [draw.random() < 0.7 for _ in range(rows)]
    assert design_effect(single, range(rows)) == 1.0
    assert design_effect(single * 2, [*range(rows)] * 2) == pytest.approx(2.0, rel=1e-3)
    fresh = [draw.random() < 0.7 for _ in range(rows)]
    assert design_effect(single + fresh, [*range(rows)] * 2) == pytest.approx(1.0, abs=0.06)
    assert design_effect([True] * 6, [0, 0, 0, 1, 1, 1]) == 3.0  # no spread to see: as if repeats were copies
    assert design_effect([False] * 2, [0, 0]) == 2.0
    assert design_effect([False] * 6, [0, 0, 0, 1, 1, 1]) == 3.0
    with pytest.raises(ArgumentError, match="each of 2 queries"):
        design_effect([True, False], [0])


def test_design_effect_of_two_rows_and_of_a_single_hit_by_hand() -> None:
    """3 of 4 and 1 of 4 right: means 0.75 and 0.25, variance of their mean 0.125 / 2, binomial 0.25 / 8: ratio 2."""
    right = [True] * 3 + [False] * 4 + [True]
    assert design_effect(right, [0] * 4 + [1] * 4) == pytest.approx(2.0, rel=1e-12)
    # One hit of six: variance of the mean of (1/2, 0, 0) is (1/12) / 3, binomial (5/36) / 6: ratio 6/5.
    assert design_effect([True] + [False] * 5, [0, 0, 1, 1, 2, 2]) == pytest.approx(1.2, rel=1e-12)


def test_design_effect_is_the_ratio_of_variances() -> None:
    truth, predictions, rows = simulate(1, 300, 2, 3)
    right = np.array([row.index(max(row)) == true for row, true in zip(predictions, truth, strict=True)]).reshape(
        2, 300
    )
    share = right.mean()
    between = right.mean(axis=0).var(ddof=1) / 300
    assert design_effect(right.ravel().tolist(), rows) == pytest.approx(
        between / (share * (1 - share) / 600), rel=1e-12
    )


# --- bootstrap -------------------------------------------------------------------------------------------------------


@given(st.lists(st.floats(-10, 10), min_size=1), st.floats(0, 1))
def test_quantiles_equal_numpy(values: list[float], share: float) -> None:
    assert quantile(sorted(values), share) == pytest.approx(float(np.quantile(values, share)), abs=1e-12)


def test_quantiles_reach_the_last_number() -> None:
    assert quantile([1.0, 2.0, 4.0], 0.75) == 3.0
    assert quantile([1.0, 2.0, 4.0], 1.0) == 4.0
    assert quantile([7.0], 0.5) == 7.0


def test_a_thousand_resamples_unless_said_otherwise() -> None:
    def share(sums) -> dict[str, float]:
        return {"share": sums[0] / 2}

    truth, predictions, rows = simulate(1, 20, 1, 2)
    assert bootstrap_metrics(truth, predictions, rows, 2, seed="a")["accuracy"].resamples == 1000
    assert len(bootstrap_replicates([[0], [1]], share, seed="a")["share"]) == 1000
    assert bootstrap_sums([[0], [1]], share, seed="a", resamples=50)["share"].resamples == 50


def test_percentile_interval_equals_scipy() -> None:
    """SciPy draws otherwise, so the ends agree within their own noise; the noise is a few per cent of the spread."""
    values = np.random.default_rng(3).gamma(2.0, size=400)
    ours = bootstrap_statistic(values.tolist(), lambda drawn: math.fsum(drawn) / 400, seed="scipy", resamples=5000)
    theirs = stats.bootstrap((values,), np.mean, method="percentile", n_resamples=5000, rng=1).confidence_interval
    spread = values.std() / 20
    assert ours.low == pytest.approx(theirs.low, abs=0.1 * spread)
    assert ours.high == pytest.approx(theirs.high, abs=0.1 * spread)


@pytest.mark.parametrize("labels", [2, 4, 6])
def test_the_sums_give_the_metrics(labels: int) -> None:
    truth, predictions, rows = simulate(labels, 60, 2, labels, sharpness=3.0)
    sums = ClassificationSums(labels)
    columns = sums.of_rows(truth, predictions, rows)
    assert len(columns) == 60
    found = sums.metrics([math.fsum(column) for column in zip(*columns, strict=True)])
    assert found == pytest.approx(rescored(truth, predictions, range(120)), abs=1e-14)
    assert set(found) == set(METRICS)


def test_confidences_in_the_lowest_bin() -> None:
    """With twelve labels the largest probability can be below 0.1."""
    predictions = [[1 / 12 + (0.01 if label == query else -0.01 / 11) for label in range(12)] for query in range(12)]
    truth, rows = [0] * 12, range(12)
    sums = ClassificationSums(12)
    total = [math.fsum(column) for column in zip(*sums.of_rows(truth, predictions, rows), strict=True)]
    assert sums.metrics(total) == pytest.approx(rescored(truth, predictions, rows), abs=1e-14)
    assert max(map(max, predictions)) < 0.1
    assert {len(row) for row in ClassificationSums(12, False).of_rows(truth, predictions, rows)} == {3 * 12}


def test_confidences_on_the_edges_of_bins() -> None:
    predictions = [[c, 1 - c] for c in (0.5, 0.6, 0.7, 0.8, 0.9, 1.0, 0.30000000000000004, 0.0)]
    truth = [0, 1, 0, 1, 0, 1, 0, 1]
    sums = ClassificationSums(2)
    total = [math.fsum(column) for column in zip(*sums.of_rows(truth, predictions, range(8)), strict=True)]
    assert sums.metrics(total) == pytest.approx(rescored(truth, predictions, range(8)), abs=1e-15)


def test_resamples_from_sums_equal_rescoring() -> None:
    """Draw the same test rows, score their queries with the metric functions, and take NumPy's quantiles."""
    labels, rows, times = 4, 50, 60
    truth, predictions, places = simulate(5, rows, 2, labels)
    groups = group_by_row(places, len(truth))
    scores = [
        rescored(truth, predictions, [query for group in drawn for query in group])
        for drawn in draw_resamples(groups, times, generator("rescoring", "bootstrap"))
    ]
    ours = bootstrap_metrics(truth, predictions, places, labels, times, 0.9, seed="rescoring")
    assert list(ours) == [name for name in ours if name in METRICS]
    for name in METRICS:
        low, high = np.quantile([score[name] for score in scores], [0.05, 0.95])
        assert ours[name].high == pytest.approx(high, abs=1e-13)
        if name != "expected_calibration_error_1":
            assert ours[name].low == pytest.approx(low, abs=1e-13)
    drawn_f1 = [
        f1_score(
            [truth[q] for group in drawn for q in group],
            [int(np.argmax(predictions[q])) for group in drawn for q in group],
            labels=range(labels),
            average="macro",
            zero_division=0,
        )
        for drawn in draw_resamples(groups, times, generator("rescoring", "bootstrap"))
    ]
    assert ours["macro_F1"].low == pytest.approx(np.quantile(drawn_f1, 0.05), abs=1e-13)


def test_intervals_are_frozen() -> None:
    truth, rows = [query * query % 3 for query in range(40)], [*range(20)] * 2
    weights = [[(query * 7 + i * 5) % 11 + 1 + 4 * (query * query % 3 == i) for i in range(3)] for query in range(40)]
    predictions = [[weight / sum(row) for weight in row] for row in weights]
    found = bootstrap_metrics(truth, predictions, rows, 3, 200, seed="frozen")
    for name, ends in FROZEN_INTERVALS.items():
        assert (found[name].low, found[name].high) == pytest.approx(ends, abs=1e-14), name
    accuracy = found["accuracy"]
    assert (accuracy.level, accuracy.resamples, accuracy.seed) == (0.95, 200, "frozen")
    assert accuracy.method == "percentile bootstrap of test rows (bootstrap-1)"
    assert found["expected_calibration_error_1"].method == "mirrored percentile bootstrap of test rows (bootstrap-1)"


FROZEN_INTERVALS = {
    "accuracy": (0.3493750000000001, 0.625),
    "macro_F1": (0.2289495167189133, 0.44017071638039384),
    "averaged_truelabel_likelihood": (0.4243012887699588, 0.5143274406028162),
    "expected_calibration_error_1": (0.19540008679986304, 0.35662437199889246),
}


def test_the_order_of_the_queries_does_not_matter() -> None:
    truth, predictions, rows = simulate(8, 40, 2, 3)
    order = list(range(80))
    random.Random(1).shuffle(order)
    mixed = bootstrap_metrics(*([column[i] for i in order] for column in (truth, predictions, rows)), 3, seed="a")
    plain = bootstrap_metrics(truth, predictions, rows, 3, seed="a")
    assert mixed == plain
    assert plain != bootstrap_metrics(truth, predictions, rows, 3, seed="b")


def test_repeats_that_are_copies_tell_nothing_new() -> None:
    truth, predictions, rows = simulate(9, 50, 1, 3)
    once = bootstrap_metrics(truth, predictions, rows, 3, seed="a")
    twice = bootstrap_metrics(truth * 2, predictions * 2, rows * 2, 3, seed="a")
    for name in METRICS:
        assert twice[name].low == pytest.approx(once[name].low, abs=1e-14)
        assert twice[name].high == pytest.approx(once[name].high, abs=1e-14)


def test_without_probabilities_only_the_order_counts() -> None:
    truth, predictions, rows = simulate(2, 40, 2, 3)
    logits = [[10 * math.log(value) for value in row] for row in predictions]
    found = bootstrap_metrics(truth, logits, rows, 3, seed="a", likelihood=False)
    full = bootstrap_metrics(truth, predictions, rows, 3, seed="a")
    assert found == {name: full[name] for name in ("accuracy", "macro_F1")}


def test_rows_of_unequal_size_are_weighted_by_their_queries() -> None:
    truth, predictions = [0, 0, 0, 1], [[0.9, 0.1], [0.8, 0.2], [0.6, 0.4], [0.7, 0.3]]
    found = bootstrap_metrics(truth, predictions, [0, 0, 0, 1], 2, seed="unequal")
    assert (found["accuracy"].low, found["accuracy"].high) == (0.0, 1.0)
    draws = bootstrap_replicates([[3, 3], [0, 1]], lambda s: {"share": s[0] / s[1]}, seed="unequal", resamples=200)
    assert set(draws["share"]) == {0.0, 0.75, 1.0}


def test_the_calibration_interval_holds_the_estimate_and_reaches_zero_for_calibrated_runs() -> None:
    estimate = classification.expected_calibration_error_1
    draw = random.Random(4)
    sharp = simulate(4, 200, 2, 4, sharpness=4.0)
    found = bootstrap_metrics(*sharp, 4, seed="a")["expected_calibration_error_1"]
    assert 0.0 < found.low < estimate(*sharp[:2]) < found.high
    assert found.low == pytest.approx(2 * estimate(*sharp[:2]) - found.high, abs=1e-12)
    predictions = [[p, 1 - p] for p in (draw.random() for _ in range(400))]
    truth = [int(draw.random() > row[0]) for row in predictions]
    found = bootstrap_metrics(truth, predictions, range(400), 2, seed="a")["expected_calibration_error_1"]
    assert found.low == 0.0
    assert found.high > estimate(truth, predictions)


def test_calibration_is_refuted_where_the_bins_of_resamples_stray_less_than_the_error() -> None:
    """Test rows of one to three queries, some runs well calibrated and some not; the bins are added up again here."""
    refuted, above_zero = Counter(), 0
    for seed in range(24):
        truth, predictions, places = simulate(seed, 30, 3, 3, sharpness=1.5 + seed / 16)
        kept = [query for query in range(90) if query < 30 or query % 5]
        truth, predictions, places = ([column[i] for i in kept] for column in (truth, predictions, places))
        groups = group_by_row(places, len(truth))

        def excess(queries: list[int], truth=truth, predictions=predictions) -> np.ndarray:
            bins = np.zeros(10)
            for query in queries:
                confidence = max(predictions[query])
                bins[int(confidence * 10)] += (predictions[query].index(confidence) == truth[query]) - confidence
            return bins

        own = excess(list(range(len(truth)))) / len(truth)
        strays = []
        for sample in draw_resamples(groups, 100, generator(str(seed), "bootstrap")):
            drawn = [query for group in sample for query in group]
            strays.append(np.abs(excess(drawn) / len(drawn) - own).sum())
        error = np.abs(own).sum()
        found = bootstrap_metrics(truth, predictions, places, 3, 100, 0.9, seed=str(seed))
        interval = found["expected_calibration_error_1"]
        mirrored = max(0.0, 2 * error - interval.high)
        refuted[error > np.quantile(strays, 0.95)] += 1
        if error > np.quantile(strays, 0.95):
            assert interval.low == pytest.approx(mirrored, abs=1e-12)
        else:
            assert interval.low == 0.0
            above_zero += mirrored > 0.0
    assert min(refuted[True], refuted[False], above_zero) >= 3


def test_a_calibration_error_is_at_most_one() -> None:
    found = bootstrap_metrics([1] * 19 + [0], [[1.0, 0.0]] * 20, range(20), 2, seed="wrong")
    interval = found["expected_calibration_error_1"]
    assert 0.7 < interval.low < 0.95
    assert interval.high == 1.0


def test_a_mirrored_interval_is_the_hull_of_an_interval_and_its_mirror_image() -> None:
    plain = Interval(0.3, 0.4, 0.9, "percentile", 100, "x")
    assert mirrored_interval(plain, 0.31) == Interval(0.31 - (0.4 - 0.31), 0.4, 0.9, "mirrored percentile", 100, "x")
    assert mirrored_interval(plain, 0.39) == Interval(0.3, 0.39 + (0.39 - 0.3), 0.9, "mirrored percentile", 100, "x")
    cut = mirrored_interval(plain, 0.2, least=0.1, most=0.39)
    assert (cut.low, cut.high) == (0.1, 0.39)


def test_the_entropy_of_an_even_mean_is_covered() -> None:
    """Predictions without a preferred label: every resample is less even than the truth."""

    def entropy(sums) -> dict[str, float]:
        return {"entropy": -math.fsum(x / math.fsum(sums) * math.log(x / math.fsum(sums)) for x in sums)}

    draw = np.random.default_rng(6)
    rows = draw.dirichlet([1.0] * 4, size=300).tolist()
    plain = bootstrap_sums(rows, entropy, seed="a")["entropy"]
    mirrored = bootstrap_sums(rows, entropy, seed="a", mirrored={"entropy": (0.0, math.log(4))})["entropy"]
    assert plain.high < math.log(4)
    assert mirrored.high == math.log(4)
    assert mirrored.low == plain.low
    assert mirrored.method == "mirrored percentile bootstrap of test rows (bootstrap-1)"


def test_statistics_of_rows_and_of_sums_agree() -> None:
    draw = random.Random(2)
    values = [draw.random() for _ in range(64)]
    of_rows = bootstrap_statistic(values, lambda drawn: math.fsum(drawn) / len(drawn), seed="a")
    of_sums = bootstrap_sums([[value] for value in values], lambda sums: {"mean": sums[0] / 64}, seed="a")["mean"]
    assert of_rows.low == pytest.approx(of_sums.low, abs=1e-15)
    assert of_rows.high == pytest.approx(of_sums.high, abs=1e-15)
    assert of_rows.low < of_rows.high
    assert len(bootstrap_replicates([[1], [3]], lambda sums: {"sum": sums[0]}, seed="a", resamples=1)["sum"]) == 1
    for one in (of_rows, of_sums):
        assert (one.level, one.resamples, one.seed) == (0.95, 1000, "a")
        assert one.method == "percentile bootstrap of test rows (bootstrap-1)"
    with pytest.raises(ArgumentError, match="number of resamples"):
        bootstrap_statistic(values, max, seed="a", resamples=99.5)  # type: ignore[arg-type]


def test_bad_input_is_refused() -> None:
    truth, predictions, rows = simulate(1, 20, 2, 3)
    with pytest.raises(ArgumentError, match=r"20 resamples are too few for a level of 0\.95; take 40 or more"):
        bootstrap_metrics(truth, predictions, rows, 3, 20, seed="a")
    with pytest.raises(ArgumentError, match="level must lie between 0 and 1"):
        bootstrap_metrics(truth, predictions, rows, 3, level=95, seed="a")
    with pytest.raises(ArgumentError, match="have 3 columns, but there are 2 labels"):
        bootstrap_metrics(truth, predictions, rows, 2, seed="a")
    with pytest.raises(ArgumentError, match="test row of each of 40 queries"):
        bootstrap_metrics(truth, predictions, rows[:-1], 3, seed="a")
    with pytest.raises(ArgumentError, match="true label"):
        bootstrap_metrics([7, *truth[1:]], predictions, rows, 3, seed="a")
    with pytest.raises(OutputError, match="row 1 of the predictions is no probability distribution"):
        bootstrap_metrics(truth, [predictions[0], [1.0, 2.0, 3.0], *predictions[2:]], rows, 3, seed="a")
    with pytest.raises(ArgumentError, match="a seed is a text"):
        bootstrap_metrics(truth, predictions, rows, 3, seed=1)  # type: ignore[arg-type]
    with pytest.raises(UndefinedMetricError, match="at least two test rows to resample, not 1"):
        bootstrap_metrics(truth, predictions, [0] * 40, 3, seed="a")
    with pytest.raises(UndefinedMetricError, match="the statistic is inf on a resample"):
        bootstrap_statistic([1.0, 2.0], lambda drawn: math.inf, seed="a")
    with pytest.raises(UndefinedMetricError, match="slope is nan on a resample"):
        bootstrap_sums([[1.0], [2.0]], lambda sums: {"slope": math.nan}, seed="a")
    with pytest.raises(ArgumentError, match="too few"):
        percentile_interval([1.0] * 10, 0.95, "a")


def test_an_interval_is_a_frozen_record() -> None:
    interval = Interval(0.1, 0.2, 0.95, "Wilson score")
    with pytest.raises(AttributeError):
        interval.low = 0.0  # type: ignore[misc]
    assert interval == Interval(0.1, 0.2, 0.95, "Wilson score", None, None)


# --- coverage --------------------------------------------------------------------------------------------------------


@pytest.mark.slow
def test_intervals_cover_the_truth() -> None:
    """200 samples: a rate of 0.95 has a standard error of 0.015, so 0.90 is more than three of them away."""
    samples, rows, labels = 200, 256, 3
    large = simulate(10**6, 200_000, 2, labels, sharpness=2.0)
    sums = ClassificationSums(labels)
    truth = sums.metrics([math.fsum(column) for column in zip(*sums.of_rows(*large), strict=True)])
    covered: Counter[str] = Counter()
    for sample in range(samples):
        run = simulate(sample, rows, 2, labels, sharpness=2.0)
        right = [row.index(max(row)) == true for row, true in zip(run[1], run[0], strict=True)]
        found = bootstrap_metrics(*run, labels, 400, seed=str(sample))
        found["Wilson"] = wilson(sum(right), len(right), design_effect=design_effect(right, run[2]))
        for name, interval in found.items():
            covered[name] += interval.low <= truth.get(name, truth["accuracy"]) <= interval.high
    for name in (*METRICS, "Wilson"):
        assert 0.90 <= covered[name] / samples <= 0.99, (name, covered[name])

"""Paired tests against SciPy, statsmodels and enumeration; p-values under the null hypothesis; power."""

from __future__ import annotations

import itertools
import math
import random
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import optimize, stats
from statsmodels.stats.contingency_tables import mcnemar
from statsmodels.stats.multitest import multipletests

from StaICC.errors import ArgumentError, OutputError, UndefinedMetricError
from StaICC.metrics import classification
from StaICC.metrics.metric_comparison import compare_metrics
from StaICC.metrics.power import minimum_detectable_difference
from StaICC.metrics.resampling import draw_resamples, draw_subsets, generator, group_by_row
from StaICC.metrics.significance import (
    RANDOM_PERMUTATION,
    centred_bootstrap_test,
    holm,
    mcnemar_exact,
    paired_bootstrap,
    paired_permutation,
    sign_flip_test,
)

METRICS = ["accuracy", "averaged_truelabel_likelihood", "macro_F1", "expected_calibration_error_1"]


def answers(seed: int, rows: int, repeats: int = 1, gain: float = 0.0):
    """Right and wrong answers of two runs that share what is hard; the second one is better by `gain`."""
    draw = random.Random(seed)
    first, second, places = [], [], []
    for row in range(rows):
        ease = draw.random()
        for _ in range(repeats):
            first.append(int(draw.random() < ease))
            second.append(int(draw.random() < min(1.0, ease + gain)))
            places.append(row)
    return first, second, places


def predictions(seed: int, rows: int, repeats: int, labels: int, runs: int = 2):
    """True labels, exchangeable runs, and test rows."""
    draw = np.random.default_rng(seed)
    truth = np.repeat(draw.integers(labels, size=rows), repeats)
    shared = np.repeat(draw.normal(size=(rows, labels)), repeats, axis=0)
    shared[np.arange(rows * repeats), truth] += 1.0
    made = []
    for _ in range(runs):
        weights = np.exp(shared + draw.normal(0, 0.7, size=shared.shape))
        made.append((weights / weights.sum(axis=1, keepdims=True)).tolist())
    return truth.tolist(), made, np.repeat(np.arange(rows), repeats).tolist()


# --- McNemar ---------------------------------------------------------------------------------------------------------


@given(st.integers(0, 3000), st.integers(0, 3000))
def test_mcnemar_equals_scipy_and_statsmodels(b: int, c: int) -> None:
    ours = mcnemar_exact(b, c)
    assert (ours.only_first, ours.only_second) == (b, c)
    assert ours.method == "McNemar, exact binomial, two-sided"
    if b + c:
        theirs = stats.binomtest(b, b + c, 0.5).pvalue  # 0 for some p-values up to 1e-262; the next test is exact
        assert ours.p_value == pytest.approx(theirs, rel=1e-10, abs=1e-250)
        table = mcnemar([[0, b], [c, 0]], exact=True).pvalue
        assert ours.p_value == pytest.approx(table, rel=1e-9, abs=1e-250)
    assert ours.p_value == mcnemar_exact(c, b).p_value


@settings(max_examples=50)
@given(st.integers(0, 1500), st.integers(0, 1500))
def test_mcnemar_equals_whole_numbers(b: int, c: int) -> None:
    ways = 2 * sum(math.comb(b + c, k) for k in range(min(b, c) + 1))
    exact = min(Fraction(1), Fraction(ways, 2 ** (b + c)))
    assert mcnemar_exact(b, c).p_value == pytest.approx(float(exact), rel=1e-12, abs=1e-305)


@pytest.mark.parametrize(("b", "c"), [(499_000, 501_000), (5_000_000, 5_010_000), (20_000, 30_000)])
def test_mcnemar_of_huge_samples(b: int, c: int) -> None:
    assert mcnemar_exact(b, c).p_value == pytest.approx(stats.binomtest(b, b + c, 0.5).pvalue, rel=1e-7)


def test_mcnemar_of_a_thousand_million_answers() -> None:
    n, gap = 10**9, 60_000
    z = (gap - 1) / math.sqrt(n)
    p_value = mcnemar_exact((n - gap) // 2, (n + gap) // 2).p_value
    assert p_value == pytest.approx(math.erfc(z / math.sqrt(2)), rel=1e-4)


def test_mcnemar_without_discordant_answers() -> None:
    assert mcnemar_exact(0, 0).p_value == 1.0
    assert mcnemar_exact(7, 7).p_value == 1.0
    assert mcnemar_exact(5, 0).p_value == 2 / 32
    assert mcnemar_exact(0, 3000).p_value == 0.0  # 2^-2999 is below floating point


@pytest.mark.parametrize(("b", "c"), [(-1, 2), (2, -1), (1.5, 2), (True, 2), ("1", 2)])
def test_mcnemar_refuses(b: object, c: object) -> None:
    with pytest.raises(ArgumentError, match="two whole numbers of queries"):
        mcnemar_exact(b, c)  # type: ignore[arg-type]


# --- permutation -----------------------------------------------------------------------------------------------------


def enumerated(differences: list[int]) -> float:
    """Two-sided p-value over all choices of signs."""
    signs = itertools.product((1, -1), repeat=len(differences))
    sums = [abs(sum(s * d for s, d in zip(choice, differences, strict=True))) for choice in signs]
    return sum(value >= abs(sum(differences)) for value in sums) / len(sums)


small = st.lists(st.tuples(st.integers(0, 1), st.integers(0, 1), st.integers(0, 4)), min_size=1, max_size=12)


@given(small)
def test_the_exact_permutation_test_equals_enumeration(queries: list[tuple[int, int, int]]) -> None:
    a, b, rows = (list(column) for column in zip(*queries, strict=True))
    found = paired_permutation(a, b, rows, seed="unused")
    differences = [sum(a[i] - b[i] for i in group) for group in group_by_row(rows, len(rows))]
    assert found.p_value == pytest.approx(enumerated(differences), abs=1e-15)
    assert found.difference == pytest.approx((sum(a) - sum(b)) / len(a), abs=1e-15)
    assert (found.rows, found.permutations, found.seed) == (len(set(rows)), None, None)
    assert found.method == "exact paired permutation of test rows, two-sided"


@given(st.lists(st.integers(-20, 20), min_size=1, max_size=9), st.sampled_from([10, 3, 1000]))
def test_real_scores_are_enumerated_too_and_their_ties_count(whole: list[int], parts: int) -> None:
    found = sign_flip_test([number / parts for number in whole], len(whole), seed="unused")
    assert found.permutations is None
    assert found.p_value == pytest.approx(enumerated(whole), abs=1e-15)


def test_the_exact_permutation_test_equals_scipy() -> None:
    a, b, rows = answers(3, 12)
    theirs = stats.permutation_test(
        (np.array(a), np.array(b)), lambda x, y: np.mean(x) - np.mean(y), permutation_type="samples", n_resamples=np.inf
    )
    assert paired_permutation(a, b, rows, seed="x").p_value == pytest.approx(theirs.pvalue, abs=1e-12)


def test_with_one_query_a_row_the_exact_test_is_mcnemar() -> None:
    for seed in range(20):
        a, b, rows = answers(seed, 512, gain=0.03)
        split = [sum(x > y for x, y in zip(a, b, strict=True)), sum(x < y for x, y in zip(a, b, strict=True))]
        found = paired_permutation(a, b, rows, seed="x")
        assert found.permutations is None
        assert found.p_value == pytest.approx(mcnemar_exact(*split).p_value, rel=1e-12)


def test_a_benchmark_of_two_repeats_is_counted_exactly_and_equals_random_exchanges() -> None:
    a, b, rows = answers(5, 512, repeats=2, gain=0.02)
    found = paired_permutation(a, b, rows, seed="x")
    assert found.permutations is None
    differences = np.array([sum(a[i] - b[i] for i in group) for group in group_by_row(rows, len(rows))])
    signs = np.random.default_rng(1).choice((-1, 1), size=(20_000, 512))
    share = np.mean(np.abs(signs @ differences) >= abs(differences.sum()))
    assert found.p_value == pytest.approx(share, abs=4 * math.sqrt(share / 20_000))


def test_random_exchanges_agree_with_scipy_and_name_their_draws() -> None:
    draw = np.random.default_rng(2)
    a, b = draw.normal(size=200), draw.normal(0.1, 1.0, size=200)
    found = paired_permutation(a.tolist(), b.tolist(), range(200), seed="text", permutations=5000)
    theirs = stats.permutation_test(
        (a, b),
        lambda x, y, axis: np.mean(x - y, axis=axis),
        permutation_type="samples",
        n_resamples=20_000,
        vectorized=True,
        rng=1,
    )
    assert found.p_value == pytest.approx(theirs.pvalue, abs=0.03)
    assert (found.permutations, found.seed) == (5000, "text")
    assert found.method == "random paired permutation of test rows, two-sided, add-one (bootstrap-1)"
    assert found.difference == pytest.approx(float(np.mean(a - b)), abs=1e-15)
    assert found == paired_permutation(a.tolist(), b.tolist(), range(200), seed="text", permutations=5000)
    assert found.p_value * 5001 == pytest.approx(round(found.p_value * 5001), abs=1e-6)


def test_a_random_p_value_is_never_zero() -> None:
    a = [0.5 + i / 1000 for i in range(100)]
    found = paired_permutation(a, [0.0] * 100, range(100), seed="x", permutations=500)
    assert found.p_value == 1 / 501


def test_equal_runs_do_not_differ() -> None:
    a, _, rows = answers(1, 50, repeats=2)
    assert paired_permutation(a, a, rows, seed="x").p_value == 1.0
    found = paired_bootstrap(a, a, rows, seed="x")
    assert (found.difference, found.p_value, found.interval.low, found.interval.high) == (0.0, 1.0, 0.0, 0.0)


@given(small)
def test_exchanging_the_runs_changes_the_sign_only(queries: list[tuple[int, int, int]]) -> None:
    a, b, rows = (list(column) for column in zip(*queries, strict=True))
    one, other = paired_permutation(a, b, rows, seed="x"), paired_permutation(b, a, rows, seed="x")
    assert one.difference == -other.difference
    assert one.p_value == other.p_value


# --- bootstrap -------------------------------------------------------------------------------------------------------


def test_the_paired_bootstrap_equals_plain_resampling() -> None:
    a, b, rows = answers(7, 60, repeats=2, gain=0.1)
    differences = [(sum(a[i] - b[i] for i in group), len(group)) for group in group_by_row(rows, len(rows))]
    replicates = [
        sum(d for d, _ in drawn) / sum(n for _, n in drawn)
        for drawn in draw_resamples(differences, 400, generator("plain", "bootstrap"))
    ]
    found = paired_bootstrap(a, b, rows, seed="plain", resamples=400, level=0.9)
    assert found.interval.low == pytest.approx(np.quantile(replicates, 0.05), abs=1e-15)
    assert found.interval.high == pytest.approx(np.quantile(replicates, 0.95), abs=1e-15)
    extreme = sum(abs(value - np.mean(replicates)) >= abs(found.difference) - 1e-9 for value in replicates)
    assert found.p_value == (1 + extreme) / 401
    assert (found.rows, found.interval.resamples, found.interval.seed) == (60, 400, "plain")


def test_the_paired_bootstrap_is_close_to_the_t_test() -> None:
    draw = np.random.default_rng(4)
    a = draw.normal(size=400)
    b = a + draw.normal(0.1, 1.0, size=400)
    found = paired_bootstrap(a.tolist(), b.tolist(), range(400), seed="x", resamples=5000)
    theirs = stats.ttest_rel(a, b)
    assert found.p_value == pytest.approx(theirs.pvalue, abs=0.02)
    interval = theirs.confidence_interval()
    assert found.interval.low == pytest.approx(interval.low, abs=0.01)
    assert found.interval.high == pytest.approx(interval.high, abs=0.01)


@pytest.mark.parametrize("test", [paired_permutation, paired_bootstrap])
def test_bad_pairs_are_refused(test) -> None:
    with pytest.raises(ArgumentError, match="there are 2 and 1 scores"):
        test([1, 0], [1], [0, 1], seed="x")
    with pytest.raises(ArgumentError, match="each of 2 queries, but there are 1 rows"):
        test([1, 0], [1, 1], [0], seed="x")
    with pytest.raises(ArgumentError, match="there are no queries"):
        test([], [], [], seed="x")
    with pytest.raises(ArgumentError, match="score 1 of the second run is nan"):
        test([1, 0], [1, math.nan], [0, 1], seed="x")
    with pytest.raises(ArgumentError, match="score 0 of the first run is '1'"):
        test(["1", 0], [1, 0], [0, 1], seed="x")


def test_bad_numbers_of_draws_are_refused() -> None:
    with pytest.raises(ArgumentError, match="number of permutations must be a whole number of at least 1, not 0"):
        paired_permutation([1, 0], [0, 0], [0, 1], seed="x", permutations=0)
    with pytest.raises(ArgumentError, match=r"number of resamples must be a whole number of at least 1, not 1\.5"):
        paired_bootstrap([1, 0], [0, 0], [0, 1], seed="x", resamples=1.5)  # type: ignore[arg-type]
    with pytest.raises(ArgumentError, match="10 resamples are too few"):
        paired_bootstrap([1, 0], [0, 0], [0, 1], seed="x", resamples=10)
    with pytest.raises(UndefinedMetricError, match="at least two test rows"):
        paired_bootstrap([1, 0], [0, 0], [0, 0], seed="x")
    with pytest.raises(ArgumentError, match="too few"):
        centred_bootstrap_test(0.1, [0.1, 0.2], 2, seed="x")


# --- all metrics -----------------------------------------------------------------------------------------------------


def scored(truth, run, queries) -> dict[str, float]:
    chosen = [truth[i] for i in queries], [run[i] for i in queries]
    return {name: getattr(classification, name)(*chosen) for name in METRICS}


def test_p_values_are_at_most_one_whatever_rounding_does() -> None:
    assert {mcnemar_exact(count, count).p_value for count in range(200)} == {1.0}
    narrow = [mcnemar_exact(count + 1, count).p_value for count in range(500)]
    assert max(narrow) <= 1.0
    assert narrow == pytest.approx([1.0] * 500, abs=1e-12)


def test_random_exchanges_are_those_of_the_stream_of_their_name() -> None:
    draw = random.Random(3)
    first, second = ([draw.random() for _ in range(60)] for _ in range(2))
    found = paired_permutation(first, second, range(60), seed="stream")
    assert (found.rows, found.permutations, found.seed) == (60, 10_000, "stream")
    differences = [a - b for a, b in zip(first, second, strict=True)]
    total = math.fsum(differences)
    extreme = sum(
        abs(total - 2 * math.fsum(flipped)) >= abs(total)
        for flipped in draw_subsets(differences, 10_000, generator("stream", "permutation"))
    )
    assert found.p_value == (1 + extreme) / 10_001
    assert sign_flip_test(differences, 60, seed="stream") == found
    assert paired_bootstrap(first, second, range(60), seed="stream").interval.resamples == 1000


def test_comparing_metrics_equals_rescoring() -> None:
    labels, rows = 3, 40
    truth, (first, second), places = predictions(1, rows, 2, labels)
    groups = group_by_row(places, len(truth))
    found = compare_metrics(
        truth, first, second, places, labels, seed="rescore", resamples=50, permutations=50, level=0.9
    )
    one, two = scored(truth, first, range(2 * rows)), scored(truth, second, range(2 * rows))
    drawn = [
        [q for group in sample for q in group]
        for sample in draw_resamples(groups, 50, generator("rescore", "bootstrap"))
    ]
    replicates = [(scored(truth, first, queries), scored(truth, second, queries)) for queries in drawn]
    exchanged = []
    for subset in draw_subsets(range(rows), 50, generator("rescore", "permutation")):
        a, b = list(first), list(second)
        for query in (q for row in subset for q in groups[row]):
            a[query], b[query] = second[query], first[query]
        exchanged.append((scored(truth, a, range(2 * rows)), scored(truth, b, range(2 * rows))))
    assert sorted(found) == sorted(METRICS)
    for name in METRICS:
        comparison = found[name]
        assert comparison.first == pytest.approx(one[name], abs=1e-14)
        assert comparison.second == pytest.approx(two[name], abs=1e-14)
        assert comparison.difference == pytest.approx(one[name] - two[name], abs=1e-14)
        differences = [a[name] - b[name] for a, b in replicates]
        assert comparison.bootstrap.interval.low == pytest.approx(np.quantile(differences, 0.05), abs=1e-13)
        assert comparison.bootstrap.interval.high == pytest.approx(np.quantile(differences, 0.95), abs=1e-13)
        if name in ("macro_F1", "expected_calibration_error_1"):
            extreme = sum(abs(a[name] - b[name]) >= abs(comparison.difference) - 1e-9 for a, b in exchanged)
            assert comparison.permutation.p_value == (1 + extreme) / 51
            assert (comparison.permutation.permutations, comparison.permutation.seed) == (50, "rescore")
    right = [
        [int(row.index(max(row)) == true) for row, true in zip(run, truth, strict=True)] for run in (first, second)
    ]
    assert found["accuracy"].permutation == paired_permutation(*right, places, seed="rescore", permutations=50)
    mean = paired_bootstrap(*right, places, seed="rescore", resamples=50, level=0.9)
    assert found["accuracy"].bootstrap.p_value == mean.p_value
    assert found["accuracy"].bootstrap.interval.high == pytest.approx(mean.interval.high, abs=1e-14)
    likelihoods = [[row[true] for row, true in zip(run, truth, strict=True)] for run in (first, second)]
    linear = paired_permutation(*likelihoods, places, seed="rescore", permutations=50)
    assert found["averaged_truelabel_likelihood"].permutation.p_value == linear.p_value


def test_a_comparison_says_how_it_was_made() -> None:
    truth, (first, second), places = predictions(1, 400, 2, 3)
    found = compare_metrics(truth, first, second, places, 3, seed="facts", resamples=40, permutations=30)
    for comparison in found.values():
        test, bootstrap = comparison.permutation, comparison.bootstrap
        assert test.difference == pytest.approx(comparison.difference, abs=1e-14)
        assert bootstrap.difference == comparison.difference
        assert (test.rows, bootstrap.rows) == (400, 400)
        assert (bootstrap.interval.resamples, bootstrap.interval.seed) == (40, "facts")
        if test.permutations is not None:
            assert (test.method, test.permutations, test.seed) == (RANDOM_PERMUTATION, 30, "facts")
    assert found["macro_F1"].permutation.permutations == 30
    by_default = compare_metrics(truth[:80], first[:80], second[:80], range(80), 3, seed="facts")
    assert by_default["macro_F1"].permutation.permutations == 2000
    assert by_default["macro_F1"].bootstrap.interval.resamples == 1000


def test_an_accuracy_over_too_many_rows_to_count_says_so() -> None:
    truth, right, wrong = [0] * 2100, [[1.0, 0.0]] * 2100, [[0.0, 1.0]] * 2100
    found = compare_metrics(
        truth, right, wrong, range(2100), 2, seed="many", resamples=40, permutations=20, likelihood=False
    )
    test = found["accuracy"].permutation
    assert (test.permutations, test.seed, test.p_value) == (20, "many", 1 / 21)


def test_exchanges_that_change_only_the_sign_are_as_extreme() -> None:
    """Only one of three rows differs, so every exchange gives the observed difference or its opposite."""
    first, second = [[0.9, 0.1], [0.2, 0.8], [0.7, 0.3]], [[0.9, 0.1], [0.2, 0.8], [0.3, 0.7]]
    for comparison in compare_metrics([0, 1, 0], first, second, range(3), 2, seed="sign", permutations=50).values():
        assert comparison.difference != 0.0
        assert comparison.permutation.p_value == 1.0


def test_comparing_bare_labels_leaves_probabilities_out() -> None:
    truth, (first, second), places = predictions(2, 30, 2, 3)
    found = compare_metrics(truth, first, second, places, 3, seed="x", permutations=50, likelihood=False)
    assert sorted(found) == ["accuracy", "macro_F1"]


def test_comparing_refuses_what_does_not_fit() -> None:
    truth, (first, second), places = predictions(2, 30, 2, 3)
    with pytest.raises(ArgumentError, match="true labels for 59 rows"):
        compare_metrics(truth, first, second[:-1], places, 3, seed="x")
    with pytest.raises(OutputError, match="no probability distribution"):
        compare_metrics(truth, first, [[1.0, 1.0, 1.0]] * 60, places, 3, seed="x")
    with pytest.raises(ArgumentError, match="number of permutations"):
        compare_metrics(truth, first, second, places, 3, seed="x", permutations=0)
    with pytest.raises(ArgumentError, match="number of resamples"):
        compare_metrics(truth, first, second, places, 3, seed="x", resamples=0)


# --- the null hypothesis ---------------------------------------------------------------------------------------------


@pytest.mark.slow
def test_p_values_are_uniform_where_runs_are_equally_good() -> None:
    """Of real scores they are uniform (Kolmogorov and Smirnov); of counts they may only be too large."""
    real, counts, bootstrap = [], [], []
    for seed in range(500):
        truth, runs, places = predictions(seed, 80, 2, 3)
        a, b = ([row[true] for row, true in zip(run, truth, strict=True)] for run in runs)
        real.append(paired_permutation(a, b, places, seed=str(seed), permutations=499).p_value)
        bootstrap.append(paired_bootstrap(a, b, places, seed=str(seed), resamples=499).p_value)
        right = ([int(row.index(max(row)) == true) for row, true in zip(run, truth, strict=True)] for run in runs)
        counts.append(paired_permutation(*right, places, seed=str(seed)).p_value)
    assert stats.kstest(real, "uniform").pvalue > 0.01
    assert stats.kstest(bootstrap, "uniform").pvalue > 0.01
    for level in (0.05, 0.1, 0.2, 0.5):
        too_many = stats.binomtest(sum(p <= level for p in counts), 500, level, alternative="greater").pvalue
        assert too_many > 0.001, level


@pytest.mark.slow
def test_mcnemar_over_repeats_is_too_sure_of_itself_and_the_permutation_of_rows_is_not() -> None:
    """Why rows are the unit: answers that differ alike in both repeats are one piece of evidence, not two."""
    draw = random.Random(1)
    over_queries = over_rows = 0
    for _ in range(400):
        pairs = [(draw.random() < 0.6, draw.random() < 0.6) for _ in range(100)] * 2
        a, b = ([int(x) for x in column] for column in zip(*pairs, strict=True))
        b_only, a_only = sum(x < y for x, y in zip(a, b, strict=True)), sum(x > y for x, y in zip(a, b, strict=True))
        over_queries += mcnemar_exact(a_only, b_only).p_value <= 0.05
        over_rows += paired_permutation(a, b, [*range(100)] * 2, seed="x").p_value <= 0.05
    assert over_queries / 400 > 0.1
    assert over_rows / 400 <= 0.075


# --- Holm ------------------------------------------------------------------------------------------------------------


@settings(max_examples=50)
@given(st.lists(st.one_of(st.floats(0, 1), st.sampled_from([0.01, 0.02, 0.05])), min_size=1, max_size=15))
def test_holm_equals_statsmodels(p_values: list[float]) -> None:
    assert holm(p_values) == pytest.approx(list(multipletests(p_values, method="holm")[1]), abs=1e-12)


@given(st.lists(st.one_of(st.floats(0, 1), st.none()), min_size=1, max_size=15), st.randoms())
def test_holm_keeps_order_ties_and_gaps(p_values: list[float | None], draw: random.Random) -> None:
    adjusted = holm(p_values)
    assert [p is None for p in adjusted] == [p is None for p in p_values]
    assert adjusted == [
        None if p is None else q
        for p, q in zip(p_values, holm([1.0 if p is None else p for p in p_values]), strict=True)
    ]
    order = list(range(len(p_values)))
    draw.shuffle(order)
    assert holm([p_values[i] for i in order]) == [adjusted[i] for i in order]
    made = [(p, q) for p, q in zip(p_values, adjusted, strict=True) if p is not None and q is not None]
    assert all(p <= q <= 1.0 for p, q in made)
    assert all(q1 == q2 for (p1, q1), (p2, q2) in itertools.product(made, made) if p1 == p2)


def test_holm_of_nothing_and_of_bad_input() -> None:
    assert holm([]) == []
    assert holm([None, None]) == [None, None]
    assert holm([0.01] * 10) == [0.1] * 10
    for bad in (1.5, -0.1, math.nan, "0.5"):
        with pytest.raises(ArgumentError, match="p-value 1 is"):
            holm([0.5, bad])  # type: ignore[list-item]


# --- power -----------------------------------------------------------------------------------------------------------


@settings(max_examples=100)
@given(
    st.integers(50, 20_000), st.floats(0.02, 1.0), st.sampled_from([0.01, 0.05, 0.1]), st.sampled_from([0.5, 0.8, 0.95])
)
def test_the_detectable_difference_solves_its_equation(n: int, share: float, alpha: float, power: float) -> None:
    found = minimum_detectable_difference(n, discordant=share, alpha=alpha, power=power)
    z_a, z_b = stats.norm.ppf(1 - alpha / 2), stats.norm.ppf(power)

    def needed(d: float) -> float:
        return (z_a * math.sqrt(share) + z_b * math.sqrt(share - d * d)) ** 2 / (d * d)

    if found.difference is None:
        assert needed(share) > n * (1 - 1e-9)
        assert "even all of them on one side" in (found.reason or "")
    else:
        root = optimize.brentq(lambda d: needed(d) - n, 1e-6, share)
        assert found.difference == pytest.approx(root, rel=1e-6)


@settings(max_examples=100)
@given(st.integers(1, 3000), st.floats(0, 1), st.sampled_from([0.01, 0.05]))
def test_the_smallest_significant_split_is_the_first(n: int, share: float, alpha: float) -> None:
    found = minimum_detectable_difference(n, discordant=share, alpha=alpha)
    discordant = round(share * n)
    if found.smallest_significant_split is None:
        assert mcnemar_exact(0, discordant).p_value > alpha
        assert found.reason is not None
        assert found.smallest_significant_difference is None
    else:
        larger, smaller = found.smallest_significant_split
        assert larger + smaller == discordant
        assert mcnemar_exact(larger, smaller).p_value <= alpha
        assert mcnemar_exact(larger - 1, smaller + 1).p_value > alpha
        assert found.smallest_significant_difference == (larger - smaller) / n


def test_a_difference_of_that_size_is_found_as_often_as_promised() -> None:
    n, share = 1000, 0.3
    found = minimum_detectable_difference(n, discordant=share)
    assert found.difference is not None
    draw = np.random.default_rng(1)
    sides = [(share + found.difference) / 2, (share - found.difference) / 2, 1 - share]
    splits = draw.multinomial(n, sides, size=4000)
    z = (splits[:, 0] - splits[:, 1]) / np.sqrt(splits[:, 0] + splits[:, 1])
    assert np.mean(np.abs(z) >= stats.norm.ppf(0.975)) == pytest.approx(0.8, abs=0.02)
    exact = np.mean([mcnemar_exact(int(b), int(c)).p_value <= 0.05 for b, c in splits[:1000, :2]])
    assert 0.72 < exact < 0.82  # the exact test is a little more careful


def test_four_answers_can_show_only_a_nearly_perfect_difference() -> None:
    found = minimum_detectable_difference(4, discordant=1.0, alpha=0.05, power=0.8)
    z_a, z_b = stats.norm.ppf(0.975), stats.norm.ppf(0.8)
    d = found.difference
    assert d is not None
    assert (z_a + z_b * math.sqrt(1 - d * d)) ** 2 / d**2 == pytest.approx(4, rel=1e-9)
    assert (found.n, found.discordant, found.alpha, found.power) == (4, 1.0, 0.05, 0.8)
    assert found.smallest_significant_split is None  # four to none has the p-value 1/8
    assert found.reason == "no split of 4 discordant answers is significant at 0.05"


def test_a_split_whose_p_value_is_the_level_is_significant() -> None:
    assert minimum_detectable_difference(6, discordant=1.0, alpha=2 / 2**6).smallest_significant_split == (6, 0)
    assert minimum_detectable_difference(6, discordant=1.0, alpha=1.99 / 2**6).smallest_significant_split is None


def test_an_accuracy_stands_for_independent_answers() -> None:
    by_accuracy = minimum_detectable_difference(512, accuracy=0.7)
    by_share = minimum_detectable_difference(512, discordant=2 * 0.7 * (1 - 0.7))
    assert by_accuracy.difference == pytest.approx(by_share.difference, rel=1e-12)
    assert by_accuracy.discordant == pytest.approx(0.42)
    assert "Connor 1987" in by_accuracy.method
    more = minimum_detectable_difference(2048, accuracy=0.7).difference
    assert more is not None
    assert by_share.difference is not None
    assert more < by_share.difference


def test_what_no_sample_can_show_is_none_with_a_reason() -> None:
    found = minimum_detectable_difference(100, discordant=0.03)
    assert (found.difference, found.smallest_significant_split, found.smallest_significant_difference) == (
        None,
        None,
        None,
    )
    assert "even all of them on one side would be too few" in (found.reason or "")
    assert minimum_detectable_difference(512, discordant=0.0).difference is None
    assert minimum_detectable_difference(1, discordant=1.0).difference is None


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"n": 0, "discordant": 0.1}, "n must be a whole number"),
        ({"n": 10.5, "discordant": 0.1}, "n must be a whole number"),
        ({"n": 10}, "either the share of discordant queries or an accuracy"),
        ({"n": 10, "discordant": 0.1, "accuracy": 0.5}, "either the share of discordant queries or an accuracy"),
        ({"n": 10, "discordant": 1.1}, "discordant must lie between 0 and 1"),
        ({"n": 10, "accuracy": 55}, "accuracy must lie between 0 and 1, not 55"),
        ({"n": 10, "accuracy": 0.5, "alpha": 0.0}, "alpha must lie between 0 and 1, both excluded"),
        ({"n": 10, "accuracy": 0.5, "power": 1.0}, "power must lie between 0 and 1, both excluded"),
    ],
)
def test_bad_samples_are_refused(arguments: dict, message: str) -> None:
    with pytest.raises(ArgumentError, match=message):
        minimum_detectable_difference(**arguments)

"""Entropies and divergences against SciPy and at zeros; consistency and the exact slope of GLER."""

from __future__ import annotations

import math
from collections import Counter
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

from StaICC.metrics.diagnosis import (
    consistency,
    empirical_bias,
    entropy,
    entropy_of_mean,
    gler,
    kl_divergence,
    label_frequencies,
    mean_distribution,
    negated_mean_entropy,
)


@st.composite
def distributions(draw, width=None, lowest=0.0, rows=None):
    columns = width or draw(st.integers(1, 6))
    value = st.one_of(st.just(max(lowest, 1.0)), st.floats(lowest, 1))
    row = st.lists(value, min_size=columns, max_size=columns).filter(lambda v: math.fsum(v) > 1e-3)
    count = rows or draw(st.integers(1, 12))
    return [[v / math.fsum(r) for v in r] for r in draw(st.lists(row, min_size=count, max_size=count))]


@settings(deadline=None)
@given(distributions())
def test_entropies_equal_scipy(rows):
    array = np.array(rows)
    assert mean_distribution(rows) == pytest.approx(array.mean(axis=0).tolist(), abs=1e-15)
    assert entropy(rows[0]) == pytest.approx(float(stats.entropy(array[0])), abs=1e-13)
    assert entropy_of_mean(rows) == pytest.approx(float(stats.entropy(array.mean(axis=0))), abs=1e-13)
    assert negated_mean_entropy(rows) == pytest.approx(-float(stats.entropy(array, axis=1).mean()), abs=1e-13)
    highest = math.log(len(rows[0])) + 1e-12
    assert 0 <= entropy_of_mean(rows) <= highest
    assert -highest <= negated_mean_entropy(rows) <= 0


@settings(deadline=None)
@given(st.data(), st.integers(2, 6))
def test_divergence_equals_scipy(data, width):
    p = data.draw(distributions(width, rows=1))[0]
    q = data.draw(distributions(width, lowest=0.01, rows=1))[0]
    assert kl_divergence(p, q) == pytest.approx(float(stats.entropy(p, q)), abs=1e-12)
    assert kl_divergence(p, p) == 0
    distance = sum(abs(a - b) for a, b in zip(p, q, strict=True))
    assert kl_divergence(p, q) >= distance**2 / 2 - 1e-12  # Pinsker's inequality


@pytest.mark.parametrize(
    ("p", "q", "expected"),
    [
        ([1.0, 0.0], [0.5, 0.5], math.log(2)),  # 0 log 0 = 0, where the release stops
        ([0.0, 1.0], [0.0, 1.0], 0.0),
        ([1e-320, 1.0], [0.5, 0.5], math.log(2)),
        ([1.0, 0.0], [1e-320, 1.0], -math.log(1e-320)),
        ([0.5, 0.25, 0.25], [0.5, 0.5, 0.0], math.inf),
    ],
)
def test_divergence_with_zeros(p, q, expected):
    assert kl_divergence(p, q) == pytest.approx(expected)


def test_empirical_bias_by_hand():
    rows, truth = [[0.75, 0.25], [0.25, 0.75], [1.0, 0.0], [0.0, 1.0]], [0, 0, 0, 1]
    expected = 0.5 * math.log(0.5 / 0.75) + 0.5 * math.log(0.5 / 0.25)
    assert empirical_bias(rows, truth) == empirical_bias(rows, truth, labels=2) == pytest.approx(expected)
    assert empirical_bias([[0.5, 0.25, 0.25]] * 2, [0, 1]) == math.inf  # a label that is never true
    assert empirical_bias([[0.5, 0.5, 0.0]] * 2, [0, 1]) == 0
    assert label_frequencies([2, 0, 2, 2], 4) == [0.25, 0.0, 0.75, 0.0]


# -- robustness

rate = st.integers(0, 1024).map(lambda hits: hits / 1024)  # accuracies of 1024 queries
runs = st.integers(1, 9).flatmap(
    lambda count: st.lists(st.lists(st.integers(0, 5), min_size=count, max_size=count), min_size=1, max_size=20)
)


@settings(deadline=None)
@given(runs)
def test_consistency_by_counters(predictions):
    shares = [Fraction(Counter(labels).most_common(1)[0][1], len(labels)) for labels in predictions]
    assert consistency(predictions) == float(sum(shares) / len(shares))


@settings(deadline=None)
@given(st.lists(st.tuples(rate, rate), min_size=2, max_size=12).filter(lambda v: len({x for _, x in v}) > 1))
def test_slope_equals_numpy(points):
    values, shares = zip(*points, strict=True)
    if max(shares) - min(shares) >= 0.05:  # polyfit loses digits on points that nearly coincide
        assert gler(values, shares) == pytest.approx(np.polyfit(shares, values, 1).tolist(), abs=1e-9)

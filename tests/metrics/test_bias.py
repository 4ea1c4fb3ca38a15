"""Entropies and divergences against SciPy, at zeros, and between the two definitions of bias."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

from StaICC.errors import ArgumentError, OutputError, UndefinedMetricError
from StaICC.metrics.bias import (
    empirical_bias,
    entropy,
    entropy_of_mean,
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


def test_the_two_definitions_differ_as_their_names_say():
    certain_of_either, always_the_same, uniform = [[1.0, 0.0], [0.0, 1.0]], [[1.0, 0.0]] * 3, [[0.25] * 4] * 3
    assert entropy_of_mean(certain_of_either) == math.log(2)  # no bias, by the release's definition
    assert negated_mean_entropy(certain_of_either) == 0  # the strongest bias, by the paper's
    assert entropy_of_mean(always_the_same) == negated_mean_entropy(always_the_same) == 0
    assert entropy_of_mean(uniform) == -negated_mean_entropy(uniform) == pytest.approx(math.log(4))


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


@pytest.mark.parametrize(
    ("function", "arguments", "error", "message"),
    [
        (kl_divergence, ([0.5, 0.5], [0.5, 0.25, 0.25]), ArgumentError, "2 and 3 labels"),
        (kl_divergence, ([0.5, 0.5], [2.0, 3.0]), OutputError, "no probability distribution"),
        (kl_divergence, ([-0.5, 1.5], [0.5, 0.5]), OutputError, "no probability distribution"),
        (empirical_bias, ([[0.5, 0.5]] * 2, [0]), ArgumentError, "1 true labels for 2 rows"),
        (empirical_bias, ([[0.5, 0.5]] * 2, [0, 2]), ArgumentError, "true label 1 is 2"),
        (empirical_bias, ([[0.5, 0.5]] * 2, [0, 1], 3), ArgumentError, "3 labels, but the rows have 2 columns"),
        (negated_mean_entropy, ([],), UndefinedMetricError, "no predictions"),
        (label_frequencies, ([], 2), UndefinedMetricError, "no true labels"),
    ],
)
def test_bad_input(function, arguments, error, message):
    with pytest.raises(error, match=message):
        function(*arguments)

"""Consistency of predictions, and the slope of GLER, which has to be exact."""

from __future__ import annotations

import math
from collections import Counter
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from StaICC.errors import ArgumentError, UndefinedMetricError
from StaICC.metrics.robustness import Line, consistency, gler, shares_of_correct_labels

QUARTERS = [1, 0.75, 0.5, 0.25, 0]
rate = st.integers(0, 1024).map(lambda hits: hits / 1024)  # accuracies of 1024 queries
runs = st.integers(1, 9).flatmap(
    lambda count: st.lists(st.lists(st.integers(0, 5), min_size=count, max_size=count), min_size=1, max_size=20)
)


@settings(deadline=None)
@given(runs)
def test_consistency_by_counters(predictions):
    shares = [Fraction(Counter(labels).most_common(1)[0][1], len(labels)) for labels in predictions]
    assert consistency(predictions) == float(sum(shares) / len(shares))


def test_consistency_of_thirds_is_exact():
    # Adding a hundred rounded thirds gives 0.3333333333333329 in the release.
    assert consistency([[0, 1, 2]] * 100) == 1 / 3
    assert consistency(((1,), (0,))) == 1.0


@settings(deadline=None)
@given(rate, rate)
def test_a_linear_fall_from_a_to_b_has_the_slope_a_minus_b_exactly(a, b):
    # Accuracies of 1024 queries and their quarters are numbers of the machine, so nothing may be lost.
    values = [b + share * (a - b) for share in QUARTERS]
    assert gler(values, QUARTERS) == gler(values, shares_of_correct_labels(5)) == Line(slope=a - b, intercept=b)


@settings(deadline=None)
@given(st.lists(st.tuples(rate, rate), min_size=2, max_size=12).filter(lambda v: len({x for _, x in v}) > 1))
def test_slope_equals_numpy(points):
    values, shares = zip(*points, strict=True)
    if max(shares) - min(shares) >= 0.05:  # polyfit loses digits on points that nearly coincide
        assert gler(values, shares) == pytest.approx(np.polyfit(shares, values, 1).tolist(), abs=1e-9)


def test_slope_by_hand():
    # Centred shares 0.5, 0.25, 0, -0.25, -0.5: (0.5 * 0.4 + 0.25 * 0.1) / 0.625
    values = [Fraction(9, 10), Fraction(7, 10), Fraction(7, 10), Fraction(6, 10), Fraction(5, 10)]
    assert gler(values, QUARTERS).slope == 0.36
    assert shares_of_correct_labels(4) == (1, Fraction(2, 3), Fraction(1, 3), 0)


@pytest.mark.parametrize(
    ("function", "arguments", "error", "message"),
    [
        (consistency, ([],), UndefinedMetricError, "no queries"),
        (consistency, ([[], []],), UndefinedMetricError, "no runs"),
        (consistency, ([[0, 1], [0]],), ArgumentError, "query 1 has 1 predictions, query 0 has 2"),
        (consistency, ([[0, 1], [0, 0.5]],), ArgumentError, "query 1 is 0.5"),
        (consistency, ([["a", "b"]],), ArgumentError, "query 0 is 'a'"),
        (consistency, ([[None]],), ArgumentError, "query 0 is None"),
        *(
            (shares_of_correct_labels, (given,), ArgumentError, f"interpolations .* {given!r}")
            for given in (1, 0, -3, 2.0, "5", None, True)
        ),
        (gler, ([0.5, 0.5], [1]), ArgumentError, "2 values for 1 shares"),
        (gler, ([0.5, math.nan], [1, 0]), ArgumentError, "value 1 is nan"),
        (gler, ([0.5, math.inf], [1, 0]), ArgumentError, "value 1 is inf"),
        (gler, ([0.5, None], [1, 0]), ArgumentError, "value 1 is None"),
        (gler, (["0.5", 0.5], [1, 0]), ArgumentError, "value 0 is '0.5'"),
        (gler, ([0.5, 0.5], [1, math.nan]), ArgumentError, "share of correct labels 1 is nan"),
        *((gler, points, UndefinedMetricError, "two different") for points in (([], []), ([0.5, 0.6], [0.5, 0.5]))),
    ],
)
def test_bad_input(function, arguments, error, message):
    with pytest.raises(error, match=message):
        function(*arguments)

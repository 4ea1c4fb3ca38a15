"""Consistency of answers, and the slope of GLER, which has to be exact."""

from __future__ import annotations

import math
from collections import Counter
from fractions import Fraction

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from StaICC.errors import ArgumentError, UndefinedMetricError
from StaICC.metrics.robustness import Line, consistency, gler, shares_of_correct_labels

QUARTERS = [1, 0.75, 0.5, 0.25, 0]
rate = st.integers(0, 1024).map(lambda hits: hits / 1024)  # accuracies of 1024 queries

# --- consistency -----------------------------------------------------------------------------------------------------


@st.composite
def answers(draw):
    runs = draw(st.integers(1, 9))
    return draw(st.lists(st.lists(st.integers(0, 5), min_size=runs, max_size=runs), min_size=1, max_size=20))


@settings(deadline=None)
@given(answers())
def test_consistency_by_counters(predictions):
    shares = [Fraction(Counter(labels).most_common(1)[0][1], len(labels)) for labels in predictions]
    assert consistency(predictions) == float(sum(shares) / len(shares))


def test_consistency_of_thirds_is_exact():
    # Adding a hundred rounded thirds gives 0.3333333333333329 in the release.
    assert consistency([[0, 1, 2]] * 100) == 1 / 3
    assert consistency([[0, 1, 2], [4, 4, 4]]) == 2 / 3
    assert consistency(((1,), (0,))) == 1.0


def test_consistency_of_nothing_is_undefined():
    with pytest.raises(UndefinedMetricError, match="no queries"):
        consistency([])
    with pytest.raises(UndefinedMetricError, match="no runs"):
        consistency([[], []])


@pytest.mark.parametrize(
    ("predictions", "message"),
    [
        ([[0, 1], [0]], "query 1 has 1 predictions, query 0 has 2"),
        ([[0, 1], [0, 0.5]], "a prediction of query 1 is 0.5; expected a label index"),
        ([["a", "b"]], "a prediction of query 0 is 'a'"),
        ([[[0.1, 0.9], [0.5, 0.5]]], "a prediction of query 0 is"),
        ([[None]], "a prediction of query 0 is None"),
    ],
)
def test_consistency_refuses(predictions, message):
    with pytest.raises(ArgumentError, match=message):
        consistency(predictions)


# --- slope -----------------------------------------------------------------------------------------------------------


@settings(deadline=None)
@given(rate, rate)
def test_a_linear_fall_from_a_to_b_has_the_slope_a_minus_b_exactly(a, b):
    # Accuracies of 1024 queries and their quarters are numbers of the machine, so nothing may be lost.
    values = [b + share * (a - b) for share in QUARTERS]
    assert gler(values, QUARTERS) == Line(slope=a - b, intercept=b)
    assert gler(values, shares_of_correct_labels(5)) == Line(slope=a - b, intercept=b)


@settings(deadline=None)
@given(st.lists(st.tuples(rate, rate), min_size=2, max_size=12).filter(lambda v: len({x for _, x in v}) > 1))
def test_slope_equals_numpy(points):
    np = pytest.importorskip("numpy")
    values, shares = [value for value, _ in points], [share for _, share in points]
    slope, intercept = gler(values, shares)
    if max(shares) - min(shares) < 0.05:  # polyfit loses digits on points that nearly coincide
        return
    expected = np.polyfit(shares, values, 1)
    assert slope == pytest.approx(expected[0], abs=1e-9)
    assert intercept == pytest.approx(expected[1], abs=1e-9)


def test_slope_by_hand():
    # Centred shares 0.5, 0.25, 0, -0.25, -0.5: (0.5 * 0.4 + 0.25 * 0.1) / 0.625
    values = [Fraction(9, 10), Fraction(7, 10), Fraction(7, 10), Fraction(6, 10), Fraction(5, 10)]
    assert gler(values, QUARTERS).slope == 0.36


def test_shares():
    assert shares_of_correct_labels() == (1, Fraction(3, 4), Fraction(1, 2), Fraction(1, 4), 0)
    assert shares_of_correct_labels(4) == (1, Fraction(2, 3), Fraction(1, 3), 0)
    assert shares_of_correct_labels(2) == (1, 0)


@pytest.mark.parametrize("interpolations", [1, 0, -3, 2.0, "5", None, True])
def test_shares_refuse(interpolations):
    with pytest.raises(ArgumentError, match="interpolations must be an integer of at least 2"):
        shares_of_correct_labels(interpolations)


@pytest.mark.parametrize(
    ("values", "shares", "message"),
    [
        ([0.5, 0.5], [1], "there are 2 values for 1 shares"),
        ([0.5, math.nan], [1, 0], "value 1 is nan; expected a finite number"),
        ([0.5, math.inf], [1, 0], "value 1 is inf"),
        ([0.5, None], [1, 0], "value 1 is None"),
        (["0.5", 0.5], [1, 0], "value 0 is '0.5'"),
        ([0.5, 0.5], [1, math.nan], "share of correct labels 1 is nan"),
    ],
)
def test_slope_refuses(values, shares, message):
    with pytest.raises(ArgumentError, match=message):
        gler(values, shares)


@pytest.mark.parametrize(("values", "shares"), [([], []), ([0.5], [1]), ([0.5, 0.6], [0.5, 0.5])])
def test_slope_of_one_share_is_undefined(values, shares):
    with pytest.raises(UndefinedMetricError, match="at least two different shares"):
        gler(values, shares)

"""Holm's correction against statsmodels."""

from __future__ import annotations

import itertools
import math
import random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from statsmodels.stats.multitest import multipletests

from StaICC.errors import ArgumentError
from StaICC.metrics.paired_tests import holm


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

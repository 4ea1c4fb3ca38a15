"""Confidence bins: sums of ten bins, from which calibration error and reliability diagrams follow."""

from __future__ import annotations

from fractions import Fraction

from hypothesis import given
from hypothesis import strategies as st

from StaICC.metrics.classification import ConfidenceBin, confidence_bins

ROW = st.lists(st.integers(0, 50), min_size=3, max_size=3).filter(any).map(lambda row: [n / sum(row) for n in row])
QUERIES = st.lists(st.tuples(ROW, st.integers(0, 2)), min_size=1, max_size=60)


def by_hand(truth: list[int], rows: list[list[float]], bins: int) -> list[tuple[int, Fraction, int]]:
    """Another way: exact fractions, and the bin by comparing with each edge as a float, the last one closed."""
    found = [(0, Fraction(0), 0)] * bins
    for true, row in zip(truth, rows, strict=True):
        top = max(row)
        place = next((b for b in range(bins) if b / bins <= top < (b + 1) / bins), bins - 1)
        count, confidence, correct = found[place]
        found[place] = (count + 1, confidence + Fraction(top), correct + (row.index(top) == true))
    return found


@given(QUERIES, st.sampled_from([1, 2, 7, 10]))
def test_against_a_sum_by_hand(queries: list[tuple[list[float], int]], bins: int) -> None:
    rows, truth = [row for row, _ in queries], [true for _, true in queries]
    found = confidence_bins(truth, rows, bins)
    expected = by_hand(truth, rows, bins)
    assert [(one.queries, one.correct) for one in found] == [(count, correct) for count, _, correct in expected]
    assert [one.confidence for one in found] == [float(confidence) for _, confidence, _ in expected]


def test_edges() -> None:
    found = confidence_bins([0, 0, 0, 1], [[0.5, 0.5], [0.6, 0.4], [1.0, 0.0], [1.0, 0.0]])
    assert found[5] == ConfidenceBin(1, 0.5, 1)
    assert found[6] == ConfidenceBin(1, 0.6, 1)
    assert found[9] == ConfidenceBin(2, 2.0, 1)
    assert sum(one.queries for one in found) == 4

"""The test of a run against predictions that are known without a model."""

from __future__ import annotations

import math

import pytest

from StaICC.metrics.fixed_baselines import CorrectPredictions, p_value_against_labels
from StaICC.metrics.statistics import Sample
from tests.performance.fixed_baselines import LEVEL, Counts, exact_error, paired


def correct_predictions(rows: int, gains: int, losses: int, repeats: int = 1) -> CorrectPredictions:
    """Return which predictions of a run and of the baseline are correct: in the first rows only those of the run.

    In the next ones (``losses``) only those of the baseline, in the other rows none. A row has a query in each repeat.
    """
    of_run = [row < gains for row in range(rows)] * repeats
    of_baseline = [gains <= row < gains + losses for row in range(rows)] * repeats
    sample = Sample(truth=[0] * len(of_run), rows=[*range(rows)] * repeats, n_rows=rows, n_labels=2)
    return CorrectPredictions(sample, of_run, of_baseline)


def mcnemar_with_part_of_the_outcome(gains: int, losses: int, rows: int) -> float:
    """Return the one-sided p-value of McNemar's test, in which the observed outcome counts in part."""
    share_of_observed = 1 - 0.0214 * math.sqrt(rows)
    differing = gains + losses
    more_extreme = sum(math.comb(differing, k) for k in range(losses))
    return (more_extreme + share_of_observed * math.comb(differing, losses)) / 2**differing


@pytest.mark.parametrize(("gains", "losses"), [(6, 0), (9, 2), (12, 12), (3, 8)])
def test_on_one_data_set_it_is_the_test_of_mcnemar_in_which_the_outcome_counts_in_part(gains: int, losses: int) -> None:
    p_value = p_value_against_labels([correct_predictions(30, gains, losses)])

    assert p_value == pytest.approx(mcnemar_with_part_of_the_outcome(gains, losses, rows=30), rel=1e-5)


def test_the_queries_of_a_row_are_no_further_rows() -> None:
    once = p_value_against_labels([correct_predictions(30, gains=9, losses=2)])
    twice = p_value_against_labels([correct_predictions(30, gains=9, losses=2, repeats=2)])

    assert twice == pytest.approx(once, rel=1e-9)


@pytest.mark.parametrize("sizes", [(20, 512), (50, 512), (96, 512), (256, 512)])
@pytest.mark.parametrize("rate", [0.005, 0.01, 0.02, 0.05])
def test_data_sets_of_different_sizes_keep_the_level(sizes: tuple[int, int], rate: float) -> None:
    """The mean difference is 0, but in most samples the small data set does not show its few large losses."""
    assert exact_error(paired, sizes, rate) <= LEVEL


def test_the_simulated_test_of_two_data_sets_is_that_of_the_library() -> None:
    small = correct_predictions(20, gains=0, losses=0)
    large = correct_predictions(512, gains=11, losses=0)

    of_library = p_value_against_labels([small, large])

    counts = Counts(gains_in_small=0, losses_in_small=0, gains_in_large=11, losses_in_large=0)
    assert of_library == pytest.approx(paired((20, 512), counts))


def test_the_best_of_several_tries_has_a_larger_p_value() -> None:
    of_one = p_value_against_labels([correct_predictions(100, gains=20, losses=8)])
    assert of_one is not None

    of_best = p_value_against_labels([correct_predictions(100, gains=20, losses=8)], tried=10)

    assert of_best == pytest.approx(1 - (1 - of_one) ** 10)

"""The test of a run against predictions that are known without a model."""

from __future__ import annotations

import math

import pytest

from StaICC.metrics.fixed_baselines import CorrectPredictions, p_value_against_labels
from StaICC.metrics.statistics import Sample
from tests.performance.fixed_baselines import LEVEL, exact_error, paired


def dataset(size: int, gains: int, losses: int, repeats: int = 1) -> CorrectPredictions:
    """A run that is right where the baseline is wrong on some rows, and the other way round on others."""
    of_run = [row < gains for row in range(size)] * repeats
    of_baseline = [gains <= row < gains + losses for row in range(size)] * repeats
    return CorrectPredictions(Sample([0] * len(of_run), [*range(size)] * repeats, size, 2), of_run, of_baseline)


def test_on_one_data_set_it_is_the_one_sided_test_of_mcnemar_in_which_the_outcome_counts_in_part() -> None:
    observed_share = 1 - 0.0214 * math.sqrt(30)
    for gains, losses in ((6, 0), (9, 2), (12, 12), (3, 8)):
        n = gains + losses
        more_extreme = sum(math.comb(n, k) for k in range(losses))
        expected = (more_extreme + observed_share * math.comb(n, losses)) / 2**n
        for repeats in (1, 2):  # the queries of a row are no further rows
            p_value = p_value_against_labels([dataset(30, gains, losses, repeats)])
            assert p_value == pytest.approx(expected, rel=1e-5)


@pytest.mark.parametrize("sizes", [(20, 512), (50, 512), (96, 512), (256, 512)])
def test_data_sets_of_other_sizes_keep_the_level(sizes: tuple[int, int]) -> None:
    """The mean difference is 0, but in most samples the small data set does not show its few large losses."""
    for rate in (0.005, 0.01, 0.02, 0.05):
        assert exact_error(paired, sizes, rate) <= LEVEL
    gains = [dataset(sizes[0], 0, 0), dataset(sizes[1], 11, 0)]
    assert p_value_against_labels(gains) == pytest.approx(paired(sizes, (0, 0, 11, 0)))


def test_the_best_of_several_tries_has_a_larger_p_value() -> None:
    one = p_value_against_labels([dataset(100, 20, 8)])
    assert p_value_against_labels([dataset(100, 20, 8)], tried=10) == pytest.approx(1 - (1 - one) ** 10)

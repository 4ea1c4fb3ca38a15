"""Tests of a run against predictions that are known without a model: one label for all queries, or a copied label.

Such predictions are no guesses: on frozen prompts they are fixed. So a run is compared with them on the same queries,
as with another run, by the paired test of all comparisons (:mod:`StaICC.metrics.paired_tests`). The unit is the test
row. In a mean over data sets, the rows of a small data set have a larger weight than those of a large one.

A simpler test would only change the signs of the observed differences. It would not be valid for data sets of different
sizes: a small data set whose sample shows no difference may have rare differences, and these are large in the mean. No
change of signs shows them.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from StaICC.metrics.paired_tests import mean_difference, paired_difference, too_few_clusters_of, upper_p_value
from StaICC.metrics.random_baselines import p_value_of_best
from StaICC.metrics.statistics import Contributions, Sample, mean_contributions


@dataclass(frozen=True, slots=True)
class CorrectPredictions:
    """Which queries of a data set a run, and a baseline, predict correctly."""

    sample: Sample
    """All queries of the data set."""
    of_run: Sequence[bool]
    """For each query whether the run is correct; a query without a prediction is not."""
    of_baseline: Sequence[bool]
    """For each query whether the baseline is correct."""


def p_value_against_labels(datasets: Sequence[CorrectPredictions], tried: int = 1) -> float | None:
    """Return the p-value of the one-sided paired test of the mean accuracy of a run against that of a baseline.

    The null hypothesis is that the true accuracy of the run, the mean over data sets, is at most that of the baseline.
    The test is that of all comparisons of two runs, :func:`~StaICC.metrics.paired_tests.upper_p_value`.

    Args:
        datasets: The correct predictions of each data set.
        tried: Number of settings that were tried; the run is the best of them (:func:`p_value_of_best`).

    Returns:
        The p-value; ``None`` if the rows of a data set are in clusters, and these are too few for a test.

    Example:
        >>> sample = Sample([0] * 6, range(6), 6, 2)
        >>> p_value = p_value_against_labels([CorrectPredictions(sample, [True] * 6, [False] * 6)])
        >>> round(p_value, 6)  # 1/2 to the power of 6, of which the share 1 - 0.0214 * sqrt(6) counts
        0.014806
    """
    differences = []
    for dataset in datasets:
        units = dataset.sample.by_cluster()
        run = _accuracy(units, dataset.of_run)
        baseline = _accuracy(units, dataset.of_baseline)
        # A paired difference is one of two weighted sums. Here each sum has one term, the accuracy, with the weight 1.
        difference = paired_difference(
            first=[(1.0, run)], second=[(1.0, baseline)], cluster_shares=units.cluster_shares
        )
        differences.append(difference)
    mean = mean_difference(differences)
    if too_few_clusters_of(mean) is not None:
        return None
    return p_value_of_best(upper_p_value(mean), tried)


def _accuracy(sample: Sample, correct: Sequence[bool]) -> Contributions:
    """Return the accuracy of a run or a baseline, with the contribution of each test row.

    Args:
        sample: The queries.
        correct: For each query whether its prediction is correct.
    """
    scores = [float(is_correct) for is_correct in correct]
    return mean_contributions(sample, scores, ends=(0.0, 1.0))

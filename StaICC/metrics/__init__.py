"""Metrics, their confidence intervals, significance tests and random baselines.

- :mod:`~StaICC.metrics.classification`: probabilities or logits, decided for the whole matrix or named ambiguous.
- :mod:`~StaICC.metrics.classification`: accuracy, likelihood, macro F1, calibration error.
- :mod:`~StaICC.metrics.diagnosis`: entropies and divergences of predictions (contextual, domain, empirical bias).
- :mod:`~StaICC.metrics.diagnosis`: consistency of predictions, slope against label noise (GLER).
- :mod:`~StaICC.metrics.registry`: named sets of metrics, as benchmarks use them.
- :mod:`~StaICC.metrics.random_baselines`: what guessing would have scored (Yauney and Mimno 2024).
- :mod:`~StaICC.metrics.intervals`, :mod:`~StaICC.metrics.paired_tests`: confidence intervals, paired tests, and what a
  sample could have shown.
- :mod:`~StaICC.metrics.released`: StaICC 0.1.1 bug for bug. Its functions share names with the right ones, so they are
  reached through the module (or as the set ``"0.1.1"``).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from StaICC.metrics.classification import (
    SUM_TOLERANCE,
    Kind,
    Normalised,
    accuracy,
    averaged_truelabel_likelihood,
    expected_calibration_error_1,
    macro_F1,
    normalise,
    predicted_labels,
    softmax,
)
from StaICC.metrics.diagnosis import (
    Line,
    consistency,
    empirical_bias,
    entropy,
    entropy_of_mean,
    gler,
    kl_divergence,
    label_frequencies,
    mean_distribution,
    negated_mean_entropy,
    shares_of_correct_labels,
)
from StaICC.metrics.intervals import Interval
from StaICC.metrics.registry import Metric, MetricFunction, MetricSet, Score, metric_set
from StaICC.optional import lazy_names

if TYPE_CHECKING:
    from StaICC.metrics.paired_tests import holm
    from StaICC.metrics.random_baselines import RandomBaseline

__all__ = [
    "SUM_TOLERANCE",
    "Interval",
    "Kind",
    "Line",
    "Metric",
    "MetricFunction",
    "MetricSet",
    "Normalised",
    "RandomBaseline",
    "Score",
    "accuracy",
    "averaged_truelabel_likelihood",
    "consistency",
    "empirical_bias",
    "entropy",
    "entropy_of_mean",
    "expected_calibration_error_1",
    "gler",
    "holm",
    "kl_divergence",
    "label_frequencies",
    "macro_F1",
    "mean_distribution",
    "metric_set",
    "negated_mean_entropy",
    "normalise",
    "predicted_labels",
    "shares_of_correct_labels",
    "softmax",
]

__getattr__ = lazy_names(
    __name__,
    {
        "StaICC.metrics.random_baselines": "RandomBaseline",
        "StaICC.metrics.paired_tests": "holm",
    },
)

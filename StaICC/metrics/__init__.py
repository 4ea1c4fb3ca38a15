"""Metrics, their confidence intervals, significance tests and random baselines.

- :mod:`~StaICC.metrics.classification`: probabilities or logits, decided for the whole matrix or named ambiguous;
  accuracy, likelihood, macro F1, calibration error.
- :mod:`~StaICC.metrics.diagnosis`: entropies and divergences of predictions (contextual, domain, empirical bias),
  consistency of predictions, slope against label noise (GLER).
- :mod:`~StaICC.metrics.registry`: named sets of metrics, as benchmarks use them.
- :mod:`~StaICC.metrics.random_baselines`: what guessing would have scored (Yauney and Mimno 2024).
- :mod:`~StaICC.metrics.intervals`, :mod:`~StaICC.metrics.paired_tests`: confidence intervals, paired tests, and what a
  sample could have shown.
- :mod:`~StaICC.metrics.released`: StaICC 0.1.1 bug for bug. Its functions share names with the right ones, so they are
  reached through the module (or as the set ``"0.1.1"``).
"""

from __future__ import annotations

from StaICC.metrics.classification import Kind as Kind
from StaICC.metrics.classification import accuracy as accuracy
from StaICC.metrics.classification import averaged_truelabel_likelihood as averaged_truelabel_likelihood
from StaICC.metrics.classification import expected_calibration_error_1 as expected_calibration_error_1
from StaICC.metrics.classification import macro_F1 as macro_F1
from StaICC.metrics.classification import normalise as normalise
from StaICC.metrics.classification import predicted_labels as predicted_labels
from StaICC.metrics.classification import softmax as softmax
from StaICC.metrics.diagnosis import consistency as consistency
from StaICC.metrics.diagnosis import empirical_bias as empirical_bias
from StaICC.metrics.diagnosis import entropy as entropy
from StaICC.metrics.diagnosis import entropy_of_mean as entropy_of_mean
from StaICC.metrics.diagnosis import gler as gler
from StaICC.metrics.diagnosis import kl_divergence as kl_divergence
from StaICC.metrics.diagnosis import label_frequencies as label_frequencies
from StaICC.metrics.diagnosis import mean_distribution as mean_distribution
from StaICC.metrics.diagnosis import negated_mean_entropy as negated_mean_entropy
from StaICC.metrics.diagnosis import shares_of_correct_labels as shares_of_correct_labels
from StaICC.metrics.intervals import Interval as Interval
from StaICC.metrics.registry import MeanOf as MeanOf
from StaICC.metrics.registry import Metric as Metric
from StaICC.metrics.registry import MetricFunction as MetricFunction
from StaICC.metrics.registry import MetricSet as MetricSet
from StaICC.metrics.registry import Score as Score
from StaICC.metrics.registry import metric_set as metric_set

"""What a score means: metrics, intervals, tests, baselines.

- :mod:`~StaICC.metrics.classification`: probabilities or logits, decided for the whole matrix or named ambiguous;
  accuracy, likelihood, macro F1, calibration error.
- :mod:`~StaICC.metrics.diagnosis`: entropies and divergences of predictions (contextual, domain, empirical bias),
  consistency of predictions, slope against label noise (GLER).
- :mod:`~StaICC.metrics.metric_set`: named sets of metrics, as benchmarks use them.
- :mod:`~StaICC.metrics.random_baselines`: what guessing would have scored (Yauney and Mimno 2024).
- :mod:`~StaICC.metrics.intervals`, :mod:`~StaICC.metrics.paired_tests`: confidence intervals, paired tests, and what a
  sample could have shown.
- :mod:`~StaICC.metrics.released`: StaICC 0.1.1 bug for bug. Its functions share names with the right ones, so they are
  reached through the module (or as the set ``"0.1.1"``).
"""

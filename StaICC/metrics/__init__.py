"""What a score means: metrics, intervals, tests, baselines.

Metrics:

- :mod:`~StaICC.metrics.classification` reads the rows of a run as probabilities or logits, and computes accuracy,
  true-label likelihood, macro F1 and calibration error.
- :mod:`~StaICC.metrics.diagnosis` computes entropies and divergences of predictions (contextual, domain, empirical
  bias), the consistency of predictions, and the slope against label noise (GLER).
- :mod:`~StaICC.metrics.metric_set` has the named sets of metrics that benchmarks use.
- :mod:`~StaICC.metrics.released` has the metrics of StaICC 0.1.1 with their bugs. Its functions share names with the
  corrected ones, so they are reached through the module (or as the set ``"0.1.1"``).

Inference:

- :mod:`~StaICC.metrics.scores` has one record for each score, :mod:`~StaICC.metrics.statistics` what a score is as a
  function of the test rows.
- :mod:`~StaICC.metrics.intervals` computes confidence intervals, :mod:`~StaICC.metrics.confidence_sequences` intervals
  that are valid whenever one stops.
- :mod:`~StaICC.metrics.paired_tests` tests the difference of two runs, and says what a sample could have shown;
  :mod:`~StaICC.metrics.equivalence` concludes that two runs are equivalent within a margin.
- :mod:`~StaICC.metrics.crossed_effects` splits the variance into that of rows, demonstrations and templates.
- :mod:`~StaICC.metrics.random_baselines` says what guessing would have scored (Yauney and Mimno 2024), and
  :mod:`~StaICC.metrics.fixed_baselines` tests a run against predictions that are known without a model.
"""

"""The divergence of the mean prediction from the label frequencies as a statistic of a sample of rows."""

from __future__ import annotations

import math
from collections.abc import Sequence
from operator import mul
from typing import Any

from StaICC.errors import UndefinedMetricError
from StaICC.metrics import intervals
from StaICC.metrics.diagnosis import empirical_bias, label_frequencies
from StaICC.metrics.entropy_of_mean import code_lengths, means_of_other_rows, row_sums_by_label, sums_by_label
from StaICC.metrics.intervals import Interval
from StaICC.metrics.statistics import Contributions, OtherRun, Sample, Statistic


class Divergence(Statistic):
    """The Kullback-Leibler divergence of the mean prediction from the frequencies of the true labels."""

    reads = "distributions"
    weighs_labels = True
    independent = False

    def range(self, labels: int) -> tuple[float, float]:
        """Return the lowest and the highest possible value."""
        return 0.0, math.inf

    def value(self, sample: Sample, predictions: Sequence[Any]) -> float:
        """Return the divergence.

        Raises:
            UndefinedMetricError: The divergence is infinite.
        """
        value = empirical_bias(predictions, sample.truth)
        if math.isinf(value):
            raise UndefinedMetricError("infinite: a label that no test row has gets a positive probability")
        return value

    def _interval(self, sample: Sample, predictions: Sequence[Any], level: float) -> Interval:
        """Return the confidence interval, even if labels have too few test rows."""
        frequencies = []
        for label in range(sample.n_labels):
            frequencies.append(sample.sums([float(label == true_label) for true_label in sample.truth]))
        return intervals.divergence_interval(
            row_sums_by_label(sample, predictions), frequencies, queries=sample.sizes, level=level
        )

    def of_run(self, sample: Sample, predictions: Sequence[Any], other: OtherRun | None = None) -> Contributions:
        """Return the divergence of one run, and the contribution of each test row.

        With m the mean probability and f the frequency of each label, the divergence is ``sum(m * log(m / f))``. A
        query with the probabilities p and the true label t contributes
        ``(sum(p * log(m / f)) + (c[t] - m[t]) / f[t]) / queries``: the first term is its influence by way of m, the
        second one by way of f (:func:`_label_terms`).

        The divergence is infinite if a label that is never true has a positive mean probability. After one more row, it
        could be infinite if any label is never true.

        Chance raises the divergence on average, because it lowers the entropy of m, which is subtracted. So the upper
        estimate has this entropy, and the lower estimate has the code length in its place
        (:func:`~StaICC.metrics.entropy_of_mean.code_lengths`). In both, the logarithm of f is that of the other rows.
        """
        count = len(predictions)
        mean = [total / count for total in sums_by_label(predictions)]
        frequencies = label_frequencies(sample.truth, len(mean))
        is_infinite = any(p > 0.0 and f == 0.0 for p, f in zip(mean, frequencies, strict=True))
        if is_infinite:
            return Contributions(
                math.inf,
                rows=[0.0] * sample.n_rows,
                lowest_after_row=0.0,
                highest_after_row=math.inf,
                range_width=math.inf,
            )

        mean_of_other = mean
        if other is not None:
            mean_of_other = [total / len(other.predictions) for total in sums_by_label(other.predictions)]
        label_terms = _label_terms(mean, mean_of_other, frequencies)
        log_means = [_logarithm(probability) for probability in mean]
        log_frequencies = [_logarithm(frequency) for frequency in frequencies]

        row_sums = list(zip(*row_sums_by_label(sample, predictions), strict=True))
        row_labels = list(zip(*_label_counts_by_row(sample, len(mean)), strict=True))
        frequencies_of_others = means_of_other_rows(row_labels, sample.sizes)
        rows = []
        lower_rows = []
        upper_rows = []
        for row, code_length in enumerate(code_lengths(sample, predictions)):
            negative_entropy = math.fsum(map(mul, row_sums[row], log_means))
            cross_entropy = -math.fsum(map(mul, row_sums[row], log_frequencies))
            cross_entropy_of_others = -math.fsum(map(mul, row_sums[row], map(math.log, frequencies_of_others[row])))
            label_term = math.fsum(map(mul, row_labels[row], label_terms))
            rows.append((negative_entropy + cross_entropy + label_term) / count)
            lower_rows.append((cross_entropy_of_others - code_length + label_term) / count)
            upper_rows.append((cross_entropy_of_others + negative_entropy + label_term) / count)

        value = max(0.0, math.fsum(map(mul, mean, log_means)) - math.fsum(map(mul, mean, log_frequencies)))
        lowest_after_row, highest_after_row = _values_after_row(sample, value, mean, frequencies, label_terms)
        return Contributions(
            value=value,
            rows=rows,
            lowest_after_row=lowest_after_row,
            highest_after_row=highest_after_row,
            range_width=math.inf,
            lower_rows=lower_rows,
            upper_rows=upper_rows,
        )


def _logarithm(number: float) -> float:
    """Return the logarithm of a number; 0 for 0, whose logarithm has the weight 0."""
    return math.log(number) if number > 0.0 else 0.0


def _label_counts_by_row(sample: Sample, n_labels: int) -> list[list[float]]:
    """Return for each label the number of queries of each test row that have it as their true label."""
    counts = []
    for label in range(n_labels):
        counts.append(sample.sums([float(true_label == label) for true_label in sample.truth]))
    return counts


def _label_terms(mean: Sequence[float], mean_of_other: Sequence[float], frequencies: Sequence[float]) -> list[float]:
    """Return the influence of the true label of a query on the divergence, for each label: ``(c - m) / f``.

    The influence is ``-m / f`` up to a constant. Both runs have the same frequencies, so that an error of f changes
    both divergences nearly alike. With c the mean of m over both runs, ``c / f`` is the same for both and cancels in
    their difference. So a rare label, which has a large ``1 / f``, matters only as far as the runs differ.

    Args:
        mean: The mean probability m of each label in this run.
        mean_of_other: That in the other run.
        frequencies: The frequency f of each label.
    """
    terms = []
    for own, other, frequency in zip(mean, mean_of_other, frequencies, strict=True):
        common = (own + other) / 2.0
        terms.append((common - own) / frequency if frequency else 0.0)
    return terms


def _values_after_row(
    sample: Sample,
    value: float,
    mean: Sequence[float],
    frequencies: Sequence[float],
    label_terms: Sequence[float],
) -> tuple[float, float]:
    """Return the lowest and the highest divergence after one more test row, as its influence gives them.

    All queries of the row have the same true label and the same certain prediction: the label with the lowest or the
    highest ``log(m / f)``. Half a query is added to m, for labels that no query predicts.

    Args:
        sample: The queries.
        value: The divergence.
        mean: The mean probability m of each label.
        frequencies: The frequency f of each label.
        label_terms: The influence of the true label (:func:`_label_terms`).
    """
    if not all(frequencies):  # a row with a label that is never true could make the divergence infinite
        return 0.0, math.inf
    count = len(sample.truth)
    logarithms = []
    for probability, frequency in zip(mean, frequencies, strict=True):
        positive_mean = (probability * count + 0.5) / (count + 0.5 * len(mean))
        logarithms.append(math.log(positive_mean / frequency))
    # A row with the contribution x, in a sample of n rows, changes the value v to (v + x) * n / (n + 1).
    new_share = sample.most_queries_per_row / count
    lowest = new_share * (min(logarithms) + min(label_terms))
    highest = new_share * (max(logarithms) + max(label_terms))
    shrinkage = sample.n_rows / (sample.n_rows + 1)
    return (value + lowest) * shrinkage, (value + highest) * shrinkage

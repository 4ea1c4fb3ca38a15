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

        With m the mean probability and f the frequency of each label, the divergence is the cross-entropy of m and f
        minus the entropy of m: ``-sum(m * log(f)) + sum(m * log(m))``. A query with the probabilities p and the true
        label t contributes to it, divided by the number of queries::

            value:          -sum(p * log(f))            + sum(p * log(m))  + label term of t
            lower estimate: -sum(p * log(f of others))  - code length      + label term of t
            upper estimate: -sum(p * log(f of others))  + sum(p * log(m))  + label term of t

        The label term is the influence of the query by way of f (:func:`_label_terms`).

        Chance raises the divergence on average, because it lowers the entropy of m, which is subtracted. So the upper
        estimate keeps this entropy. The lower estimate has the code length in its place, which is not below the true
        entropy on average (:func:`~StaICC.metrics.entropy_of_mean.code_lengths`). In both, the frequencies are those
        of the other rows, so that the logarithm does not depend on the row itself.
        """
        count = len(predictions)
        mean = _mean_probabilities(predictions)  # m
        frequencies = label_frequencies(sample.truth, len(mean))  # f
        # The divergence is infinite if a label that is never true has a positive mean probability.
        if any(p > 0.0 and f == 0.0 for p, f in zip(mean, frequencies, strict=True)):
            return _infinite_contributions(sample)

        mean_of_other = mean if other is None else _mean_probabilities(other.predictions)
        label_terms = _label_terms(mean, mean_of_other, frequencies)
        log_means = [_logarithm(probability) for probability in mean]
        log_frequencies = [_logarithm(frequency) for frequency in frequencies]

        # Each of these lists has one member for each test row: for each label the sum of p over the queries of the row,
        # the number of its queries with this true label, and the frequency f in the other rows; then the code length.
        probability_sums = list(zip(*row_sums_by_label(sample, predictions), strict=True))
        label_counts = list(zip(*_label_counts_by_row(sample, len(mean)), strict=True))
        frequencies_in_others = means_of_other_rows(label_counts, sample.sizes)
        lengths = code_lengths(sample, predictions)

        rows = []
        lower_rows = []
        upper_rows = []
        for row in range(sample.n_rows):
            negative_entropy = _dot(probability_sums[row], log_means)
            cross_entropy = -_dot(probability_sums[row], log_frequencies)
            log_frequencies_in_others = list(map(math.log, frequencies_in_others[row]))
            cross_entropy_with_others = -_dot(probability_sums[row], log_frequencies_in_others)
            label_influence = _dot(label_counts[row], label_terms)
            rows.append((negative_entropy + cross_entropy + label_influence) / count)
            lower_rows.append((cross_entropy_with_others - lengths[row] + label_influence) / count)
            upper_rows.append((cross_entropy_with_others + negative_entropy + label_influence) / count)

        value = max(0.0, _dot(mean, log_means) - _dot(mean, log_frequencies))
        lowest_after_row, highest_after_row = _values_after_row(sample, value, mean, frequencies, label_terms)
        return Contributions(
            value=value,
            rows=rows,
            lowest_after_row=lowest_after_row,
            highest_after_row=highest_after_row,
            range_width=math.inf,  # a divergence has no largest value
            lower_rows=lower_rows,
            upper_rows=upper_rows,
        )


def _infinite_contributions(sample: Sample) -> Contributions:
    """Return the contributions to an infinite divergence: no row can be said to contribute a part of it."""
    return Contributions(
        value=math.inf,
        rows=[0.0] * sample.n_rows,
        lowest_after_row=0.0,
        highest_after_row=math.inf,
        range_width=math.inf,
    )


def _mean_probabilities(predictions: Sequence[Any]) -> list[float]:
    """Return the mean probability of each label."""
    return [total / len(predictions) for total in sums_by_label(predictions)]


def _dot(first: Sequence[float], second: Sequence[float]) -> float:
    """Return the sum of the products."""
    return math.fsum(map(mul, first, second))


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
    """Return for each label what a query with this true label adds to the divergence by way of the frequencies.

    A query with the true label t raises the frequency f of t. To first order, this changes the divergence
    ``sum over labels of m * log(m / f)`` by ``-m[t] / f[t]``, up to a constant that is the same for all queries.

    The result is ``(c - m) / f`` instead, with c the mean of m over both runs that are compared. Both runs have the
    same frequencies, so that ``c / f`` is the same for both, and cancels out in their difference. What remains is large
    only where the runs differ: without c, a rare label would add a large ``1 / f`` to the variance of each run.

    Args:
        mean: The mean probability m of each label in this run.
        mean_of_other: That in the other run.
        frequencies: The frequency f of each label; the result is 0 for a label without queries.
    """
    terms = []
    for m, other_m, frequency in zip(mean, mean_of_other, frequencies, strict=True):
        if frequency == 0.0:  # no query has this label
            terms.append(0.0)
            continue
        c = (m + other_m) / 2.0
        terms.append((c - m) / frequency)
    return terms


def _values_after_row(
    sample: Sample,
    value: float,
    mean: Sequence[float],
    frequencies: Sequence[float],
    label_terms: Sequence[float],
) -> tuple[float, float]:
    """Return the lowest and the highest divergence that one more test row could lead to, to first order.

    A query adds ``log(m / f)`` of its predicted label and the term of its true label, each divided by the number of
    queries. So all queries of the row that changes the divergence most have the same true label and the same certain
    prediction: those with the lowest terms, or those with the highest ones.

    Args:
        sample: The queries.
        value: The divergence.
        mean: The mean probability m of each label.
        frequencies: The frequency f of each label.
        label_terms: What a query with each true label adds by way of the frequencies (:func:`_label_terms`).
    """
    if not all(frequencies):  # a row with a label that is never true could make the divergence infinite
        return 0.0, math.inf
    count = len(sample.truth)
    logarithms = []
    for probability, frequency in zip(mean, frequencies, strict=True):
        # Half a query of each label is added, so that a label that no query predicts has a finite logarithm.
        positive_mean = (probability * count + 0.5) / (count + 0.5 * len(mean))
        logarithms.append(math.log(positive_mean / frequency))
    new_share = sample.most_queries_per_row / count
    lowest_contribution = new_share * (min(logarithms) + min(label_terms))
    highest_contribution = new_share * (max(logarithms) + max(label_terms))

    # A row with the contribution x, in a sample of n rows, changes the value v to (v + x) * n / (n + 1).
    shrinkage = sample.n_rows / (sample.n_rows + 1)
    return (value + lowest_contribution) * shrinkage, (value + highest_contribution) * shrinkage

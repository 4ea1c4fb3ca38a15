"""The entropy of the mean prediction as a statistic of a sample of rows."""

from __future__ import annotations

import math
from collections.abc import Sequence
from operator import mul
from typing import Any

from StaICC.metrics import intervals
from StaICC.metrics.diagnosis import entropy, entropy_of_mean
from StaICC.metrics.intervals import Interval
from StaICC.metrics.statistics import Contributions, OtherRun, Sample, Statistic, interval_from_distance

_STANDARD_ERRORS = (0.5, 1.0, 1.5, 2.0)
"""How much less even the alternatives to the mean are. The lower limit of a 95 % interval has 1.96 standard errors."""

_ROUNDING = 1e-9
"""Vectors that are shorter than this differ from 0 by rounding alone."""


class EntropyOfMean(Statistic):
    """The entropy of the mean prediction."""

    reads = "distributions"

    def range(self, labels: int) -> tuple[float, float]:
        """Return the lowest and the highest possible value."""
        return 0.0, math.log(labels)

    def value(self, sample: Sample, predictions: Sequence[Any]) -> float:
        """Return the entropy of the mean prediction."""
        return entropy_of_mean(predictions)

    def _interval(self, sample: Sample, predictions: Sequence[Any], level: float) -> Interval:
        """Return the confidence interval.

        The entropy of a distribution is log(labels) minus its divergence from the uniform distribution. So the interval
        follows from that of the divergence.
        """
        divergence = intervals.divergence_interval(
            row_sums_by_label(sample, predictions), frequencies=None, queries=sample.sizes, level=level
        )
        value = entropy_of_mean(predictions)
        highest = math.log(sample.n_labels)
        if not highest:  # there is one label only
            highest = 1.0
        return interval_from_distance(value, divergence, low=0.0, high=highest)

    def of_run(self, sample: Sample, predictions: Sequence[Any], other: OtherRun | None = None) -> Contributions:
        """Return the entropy of the mean prediction of one run, and the contribution of each test row.

        With m the mean probability of each label, the entropy is ``-sum(m * log(m))``. A query with the probabilities p
        contributes ``-sum(p * log(m)) / queries``, its influence up to a constant; these add up to the entropy.

        Chance lowers the entropy on average: the mean of few predictions is less even than that of all. So it is its
        own lower estimate, with :func:`code_lengths_of_less_even_means` as alternatives; the upper one is
        :func:`code_lengths`.
        """
        count = len(predictions)
        label_sums = sums_by_label(predictions)
        surprises = [_surprise(label_sum / count) for label_sum in label_sums]
        scores = [math.fsum(map(mul, row, surprises)) for row in predictions]

        # One more row lowers the entropy most if it is certain of the likeliest label.
        new_queries = sample.most_queries_per_row
        new_count = count + new_queries
        likeliest = label_sums.index(max(label_sums))
        least_even_sums = list(label_sums)
        least_even_sums[likeliest] += new_queries
        lowest_after_row = entropy([total / new_count for total in least_even_sums])

        # It raises the entropy most if it makes the mean as even as possible.
        equal_weights = [1.0] * len(label_sums)
        most_even_sums = sums_nearest_to_weights(label_sums, equal_weights, new_queries)
        highest_after_row = entropy([total / new_count for total in most_even_sums])

        lower_alternatives = []
        for lengths in code_lengths_of_less_even_means(sample, predictions):
            lower_alternatives.append([length / count for length in lengths])
        return Contributions(
            value=entropy_of_mean(predictions),
            rows=[row_sum / count for row_sum in sample.sums(scores)],
            lowest_after_row=lowest_after_row,
            highest_after_row=highest_after_row,
            range_width=math.log(len(label_sums)),
            upper_rows=[length / count for length in code_lengths(sample, predictions)],
            lower_alternatives=tuple(lower_alternatives),
        )


def _surprise(mean: float) -> float:
    """Return minus the logarithm of the mean probability of a label; 0 if no query gives the label a probability.

    Surprises are multiplied by the probabilities of the label, so that of such a label has no effect.
    """
    if mean > 0.0:
        return -math.log(mean)
    return 0.0


def code_lengths(sample: Sample, predictions: Sequence[Any]) -> list[float]:
    """Return for each test row the code length in nats of its predictions, given those of the other rows.

    With p the probabilities of a query and q the mean probabilities of the queries of all other rows
    (:func:`means_of_other_rows`), the code length of the query is ``-sum(p * log(q))``. That of a row is the sum over
    its queries.

    As q does not depend on the row, the expected code length is the cross-entropy of the true mean and q. It is at
    least the entropy of the true mean (Gibbs' inequality). So the mean code length is at least the true entropy on
    average, whatever q is.

    Args:
        sample: The queries.
        predictions: The probabilities of each query.
    """
    sums_by_row = list(zip(*row_sums_by_label(sample, predictions), strict=True))
    means_by_row = means_of_other_rows(sums_by_row, sample.sizes)
    lengths = []
    for row_sums, other_means in zip(sums_by_row, means_by_row, strict=True):
        logarithms = map(math.log, other_means)
        lengths.append(-math.fsum(map(mul, row_sums, logarithms)))
    return lengths


def code_lengths_of_less_even_means(sample: Sample, predictions: Sequence[Any]) -> list[list[float]]:
    """Return the code lengths of each test row for several means that are less even than that of the sample.

    The claim that the entropy is large is tested with the mean that makes it hardest: with the mean m of the sample, or
    with one that is up to two standard errors less even (:func:`_standard_shift`).

    The reason: with the true mean q, which is not known, the code lengths ``-sum(p * log(q))`` of the rows would have
    the true entropy as their expected value, and the right variance. With m, their sum is the lowest, and their
    variance is too small if m is more even than q. Near the uniform distribution, all ``log(m)`` are nearly the same.
    The code lengths of all rows then are, too, whatever q is.

    Args:
        sample: The queries.
        predictions: The probabilities of each query.

    Returns:
        For each of the less even means the code length of each row; nothing if all rows are the same.
    """
    sums_by_label_and_row = row_sums_by_label(sample, predictions)
    sums_by_row = list(zip(*sums_by_label_and_row, strict=True))
    means = [math.fsum(row_sums) / len(predictions) for row_sums in sums_by_label_and_row]
    shifts = _standard_shift(sums_by_label_and_row, means, sample.sizes)
    if not any(shifts):
        return []

    lengths_by_mean = []
    for standard_errors in _STANDARD_ERRORS:
        shifted_means = [mean + standard_errors * shift for mean, shift in zip(means, shifts, strict=True)]
        if _lacks_label(means, shifted_means):  # this shift is too far, and the following ones are larger
            break
        surprises = [_surprise(mean) for mean in shifted_means]
        lengths_by_mean.append([math.fsum(map(mul, row_sums, surprises)) for row_sums in sums_by_row])
    return lengths_by_mean


def _lacks_label(means: Sequence[float], shifted_means: Sequence[float]) -> bool:
    """Return whether a shift takes the whole probability of a label that occurs, whose true mean is positive."""
    return any(mean > 0.0 >= shifted for mean, shifted in zip(means, shifted_means, strict=True))


def _standard_shift(
    sums_by_label_and_row: Sequence[Sequence[float]], means: Sequence[float], sizes: Sequence[float]
) -> list[float]:
    """Return how the mean of each label changes if the entropy becomes one standard error smaller.

    With x the sums of the labels over the queries of a row, minus their expected values, the entropy moves with
    ``z = sum(x * log(m))``. The change of each mean is the covariance of x and z over rows, divided by the standard
    deviation of z and by the root of the number of rows. It does not depend on the size of z. If z is 0 in all rows,
    because m is uniform, z is x of the label that varies most.

    Args:
        sums_by_label_and_row: For each label its sum over the queries of each row.
        means: The mean m of each label.
        sizes: Number of queries of each row.
    """
    x_by_label = []
    for row_sums, mean in zip(sums_by_label_and_row, means, strict=True):
        x_by_label.append([row_sum - size * mean for row_sum, size in zip(row_sums, sizes, strict=True)])
    logarithms = [math.log(mean) if mean > 0.0 else 0.0 for mean in means]
    x_by_row = zip(*x_by_label, strict=True)
    z = [math.fsum(map(mul, x_of_row, logarithms)) for x_of_row in x_by_row]
    if _length(z) <= _ROUNDING:
        z = max(x_by_label, key=_length)
    length_of_z = _length(z)
    if length_of_z <= _ROUNDING:  # all rows are the same
        return [0.0] * len(means)
    count = math.fsum(sizes)
    return [math.fsum(map(mul, x_of_label, z)) / length_of_z / count for x_of_label in x_by_label]


def _length(vector: Sequence[float]) -> float:
    """Return the Euclidean length of a vector."""
    return math.sqrt(math.fsum(map(mul, vector, vector)))


def means_of_other_rows(sums_by_row: Sequence[Sequence[float]], sizes: Sequence[float]) -> list[list[float]]:
    """Return for each test row the mean probability of each label in the other rows; none of them is 0.

    Half a row is added for each label (Krichevsky and Trofimov 1981), so that a label that the other rows lack has a
    positive mean. It is as large as the mean row: the means of runs that differ in the queries for each row, and not in
    their predictions, are the same.

    Args:
        sums_by_row: For each row the sum of the probabilities of each label over its queries.
        sizes: Number of queries of each row.
    """
    totals = [math.fsum(row_sums) for row_sums in zip(*sums_by_row, strict=True)]
    count = math.fsum(sizes)
    half_row = 0.5 * count / len(sizes)
    means_by_row = []
    for row_sums, size in zip(sums_by_row, sizes, strict=True):
        other_count = count - size + half_row * len(totals)
        means = []
        for total, row_sum in zip(totals, row_sums, strict=True):
            means.append((total - row_sum + half_row) / other_count)
        means_by_row.append(means)
    return means_by_row


def sums_nearest_to_weights(sums: Sequence[float], weights: Sequence[float], amount: float) -> list[float]:
    """Return sums after an amount was distributed over them, so that they are nearly proportional to their weights.

    No sum becomes smaller. The method is water-filling: the sums with the smallest ratios ``sum / weight`` are raised
    to a common ratio, the level, and the other ones stay. So each sum becomes ``max(sum, level * weight)``. With the
    weights 1 and 1 and the amount 2, for example, the sums 1 and 4 become 3 and 4.

    Args:
        sums: The sums.
        weights: The weight of each sum; sums with the weight 0 get nothing.
        amount: The amount that is distributed.
    """
    ratios_with_weights = []
    for value, weight in zip(sums, weights, strict=True):
        if weight:
            ratios_with_weights.append((value / weight, weight))

    # One sum after the other is raised, from the smallest ratio on. After each, the level is the ratio to which the
    # amount raises all of them. It ends when the next sum is above the level.
    level = 0.0
    raised_total = amount
    raised_weight = 0.0
    for ratio, weight in sorted(ratios_with_weights):
        if raised_weight and level <= ratio:
            break
        raised_total += ratio * weight
        raised_weight += weight
        level = raised_total / raised_weight
    return [max(value, level * weight) for value, weight in zip(sums, weights, strict=True)]


def sums_by_label(distributions: Sequence[Sequence[float]]) -> list[float]:
    """Return for each label the sum of its probabilities."""
    columns = zip(*distributions, strict=True)
    return list(map(math.fsum, columns))


def row_sums_by_label(sample: Sample, distributions: Sequence[Sequence[float]]) -> list[list[float]]:
    """Return for each label the sum of its probabilities over the queries of each test row."""
    columns = zip(*distributions, strict=True)
    return list(map(sample.sums, columns))

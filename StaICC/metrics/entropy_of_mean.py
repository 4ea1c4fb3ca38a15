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
"""By how many standard errors of the entropy the alternatives to the mean prediction have a lower entropy. It is up to
2, because the lower limit of a 95 % interval is 1.96 standard errors below the value."""

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
        if sample.n_labels == 1:  # the entropy can only be 0, and a range needs a positive width
            highest = 1.0
        return interval_from_distance(value, divergence, low=0.0, high=highest)

    def of_run(self, sample: Sample, predictions: Sequence[Any], other: OtherRun | None = None) -> Contributions:
        """Return the entropy of the mean prediction of one run, and the contribution of each test row.

        With m the mean probability of each label, the entropy is ``-sum over labels of m * log(m)``. A query with the
        probabilities p contributes ``-sum over labels of p * log(m) / queries``. This is its influence up to a
        constant, and the sum over all queries is the entropy.

        Two estimates serve the paired tests. Chance lowers the entropy on average: the mean of few predictions is less
        even than that of all. So the value is its own lower estimate, with the alternatives of
        :func:`code_lengths_of_less_even_means`. The upper estimate is that of :func:`code_lengths`.
        """
        n_queries = len(predictions)
        label_sums = sums_by_label(predictions)
        surprises = [_surprise(label_sum / n_queries) for label_sum in label_sums]
        query_scores = [math.fsum(map(mul, probabilities, surprises)) for probabilities in predictions]

        # One more row lowers the entropy most if it is certain of the likeliest label.
        new_queries = sample.most_queries_per_row
        new_count = n_queries + new_queries
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
            lower_alternatives.append([length / n_queries for length in lengths])
        return Contributions(
            value=entropy_of_mean(predictions),
            rows=[row_sum / n_queries for row_sum in sample.sums(query_scores)],
            lowest_after_row=lowest_after_row,
            highest_after_row=highest_after_row,
            range_width=math.log(len(label_sums)),  # from 0 to the entropy of the uniform distribution
            upper_rows=[length / n_queries for length in code_lengths(sample, predictions)],
            lower_alternatives=tuple(lower_alternatives),
        )


def _surprise(mean: float) -> float:
    """Return the surprise of a label, ``-log(mean)``, with the mean of its probabilities over all queries.

    It is 0 for a mean of 0, whose logarithm is infinite. No query gives such a label a probability, and surprises are
    only multiplied by probabilities of the label, so that any number would do.
    """
    if mean > 0.0:
        return -math.log(mean)
    return 0.0


def code_lengths(sample: Sample, predictions: Sequence[Any]) -> list[float]:
    """Return for each test row the code length of its predictions in nats.

    The mean code length of a query is an upper estimate of the entropy of the mean prediction. The code length of a
    query with the probabilities p is the cross-entropy ``-sum over labels of p * log(q)``, where q are the mean
    probabilities of the queries of all *other* rows (:func:`means_of_other_rows`; none of them is 0). The code length
    of a row is the sum over its queries. As all of them have the same q, it is
    ``-sum over labels of (sum over queries of p) * log(q)``.

    Why it is an upper estimate: q does not depend on the row. So the expected code length of a query is the
    cross-entropy of the true mean and q, which is at least the entropy of the true mean, whatever q is (Gibbs'
    inequality).

    Args:
        sample: The queries.
        predictions: The probabilities of each query.
    """
    sums_by_label = row_sums_by_label(sample, predictions)
    sums_by_row = list(zip(*sums_by_label, strict=True))  # for each row the sum over its queries of each p
    means_by_row = means_of_other_rows(sums_by_row, sample.sizes)
    lengths = []
    for sums_of_p, q in zip(sums_by_row, means_by_row, strict=True):
        logarithms_of_q = map(math.log, q)
        lengths.append(-math.fsum(map(mul, sums_of_p, logarithms_of_q)))
    return lengths


def code_lengths_of_less_even_means(sample: Sample, predictions: Sequence[Any]) -> list[list[float]]:
    """Return the code lengths of each test row for several label distributions of lower entropy than the mean m.

    The code length of a row for a distribution q of the labels is ``-sum(p * log(q))``, summed over the probabilities p
    of its queries. The distributions q here are m moved by 0.5, 1, 1.5 and 2 standard errors towards lower entropy,
    that is, towards a less even distribution: ``q = m + standard_errors * shift`` (:func:`_standard_shift`).

    Why they are needed: a paired test of the claim "the entropy is large" takes the sum of the code lengths, and its
    variance over rows. With the true mean as q, which is unknown, sum and variance would be right. The observed m
    has the lowest sum, but where m is more even than the true mean, the variance is too small: for the uniform
    distribution, all rows have the same code length. So the test uses the q that makes the claim hardest.

    Args:
        sample: The queries.
        predictions: The probabilities of each query.

    Returns:
        For each distribution the code length of each row. There are fewer than four distributions if a shift would
        leave a label that occurs without probability, and none if all rows have the same predictions.
    """
    sums_by_label_and_row = row_sums_by_label(sample, predictions)
    sums_by_row = list(zip(*sums_by_label_and_row, strict=True))
    means = [math.fsum(row_sums) / len(predictions) for row_sums in sums_by_label_and_row]
    shifts = _standard_shift(sums_by_label_and_row, means, sample.sizes)
    rows_are_the_same = not any(shifts)
    if rows_are_the_same:
        return []

    lengths_by_distribution = []
    for standard_errors in _STANDARD_ERRORS:
        shifted_means = [mean + standard_errors * shift for mean, shift in zip(means, shifts, strict=True)]
        if _lacks_label(means, shifted_means):  # it is no possible true mean, and larger shifts are none either
            break
        surprises = [_surprise(shifted_mean) for shifted_mean in shifted_means]
        lengths_by_distribution.append([math.fsum(map(mul, row_sums, surprises)) for row_sums in sums_by_row])
    return lengths_by_distribution


def _lacks_label(means: Sequence[float], shifted_means: Sequence[float]) -> bool:
    """Return whether shifted means give no probability, or a negative one, to a label that has a positive mean.

    Such a label occurs in the predictions, so that its true mean is positive.
    """
    return any(mean > 0.0 >= shifted for mean, shifted in zip(means, shifted_means, strict=True))


def _standard_shift(
    sums_by_label_and_row: Sequence[Sequence[float]], means: Sequence[float], sizes: Sequence[float]
) -> list[float]:
    """Return how the mean probability m of each label is likely to change if the entropy is one standard error lower.

    Let x_l be the deviation of a row for label l: the sum of the probabilities of the label over the queries of the
    row, minus its expected value, size times m_l. To first order, the row changes the entropy in proportion to ``-z``,
    with ``z = sum over labels of x_l * log(m_l)``. If the entropy is one standard error lower, the mean of label
    l is expected to be higher by the regression of x_l on z::

        shift_l = sum over rows of x_l * z / sqrt(sum over rows of z^2) / queries

    The shift does not depend on the scale of z. If m is uniform, z is 0 in all rows, and no direction lowers the
    entropy to first order. Then z is x_l of the label that varies most.

    Args:
        sums_by_label_and_row: For each label the sum of its probabilities over the queries of each row.
        means: The mean m of each label.
        sizes: Number of queries of each row.

    Returns:
        One shift for each label; all of them are 0 if all rows have the same predictions.
    """
    x_by_label = []
    for row_sums, mean in zip(sums_by_label_and_row, means, strict=True):
        x_by_label.append([row_sum - size * mean for row_sum, size in zip(row_sums, sizes, strict=True)])
    x_by_row = zip(*x_by_label, strict=True)
    # x of a label that no query gives a probability is 0 in all rows, whatever its logarithm is.
    logarithms = [math.log(mean) if mean > 0.0 else 0.0 for mean in means]
    z = [math.fsum(map(mul, x_of_row, logarithms)) for x_of_row in x_by_row]

    if _length(z) <= _ROUNDING:  # m is uniform
        z = max(x_by_label, key=_length)
    length_of_z = _length(z)
    if length_of_z <= _ROUNDING:  # all rows are the same
        return [0.0] * len(means)
    n_queries = math.fsum(sizes)
    return [math.fsum(map(mul, x_of_label, z)) / length_of_z / n_queries for x_of_label in x_by_label]


def _length(vector: Sequence[float]) -> float:
    """Return the Euclidean length of a vector."""
    return math.sqrt(math.fsum(map(mul, vector, vector)))


def means_of_other_rows(sums_by_row: Sequence[Sequence[float]], sizes: Sequence[float]) -> list[list[float]]:
    """Return for each test row the mean probability of each label in all other rows; none of them is 0.

    To keep the mean of a label that the other rows lack above 0, half a row of each label is added to them (Krichevsky
    and Trofimov 1981). This half row has half the mean number of queries of a row. So runs with the same predictions
    have the same means, also if one of them has more queries for each row.

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

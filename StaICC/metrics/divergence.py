"""The divergence of the mean prediction from the label frequencies as a statistic of a sample of rows."""

from __future__ import annotations

import math
from collections.abc import Sequence
from operator import mul
from typing import Any

from StaICC.errors import UndefinedMetricError
from StaICC.metrics import intervals
from StaICC.metrics.diagnosis import empirical_bias, label_frequencies
from StaICC.metrics.entropy_of_mean import bias_of_entropy, row_sums_by_label, sums_by_label, sums_nearest_to_weights
from StaICC.metrics.intervals import Interval
from StaICC.metrics.statistics import Contributions, OtherRun, Sample, Statistic


class Divergence(Statistic):
    """The Kullback-Leibler divergence of the mean prediction from the frequencies of the true labels."""

    reads = "distributions"
    weighs_labels = True

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
        ``(sum(p * log(m / f)) + 1 - m[t] / f[t]) / queries``: the first term is its influence by way of m, the other
        ones by way of f. These add up to the divergence.

        The divergence is infinite if a label that is never true has a positive mean probability. After one more row, it
        could be infinite if any label is never true. Chance raises it on average: means and frequencies of a sample
        differ more than those of all rows.
        """
        count = len(predictions)
        new_queries = sample.most_queries_per_row
        label_sums = sums_by_label(predictions)
        mean = [total / count for total in label_sums]
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

        logarithms = [math.log(p / f) if p > 0.0 else 0.0 for p, f in zip(mean, frequencies, strict=True)]
        scores = []
        for row, label in zip(predictions, sample.truth, strict=True):
            prediction_term = math.fsum(map(mul, row, logarithms))
            label_term = 1.0 - mean[label] / frequencies[label]
            scores.append(prediction_term + label_term)

        label_counts = [frequency * count for frequency in frequencies]
        possible_values = _divergences_after_one_row(
            label_sums, label_counts, new_queries=new_queries, new_count=count + new_queries
        )
        return Contributions(
            value=max(0.0, math.fsum(map(mul, mean, logarithms))),
            rows=[row_sum / count for row_sum in sample.sums(scores)],
            lowest_after_row=min(possible_values),
            highest_after_row=max(possible_values),
            range_width=math.inf,
            upward_bias=bias_of_entropy(len(mean), sample.n_rows),
        )


def _divergences_after_one_row(
    label_sums: Sequence[float], label_counts: Sequence[float], new_queries: int, new_count: int
) -> list[float]:
    """Return candidates for the smallest and the largest divergence after one more test row.

    For each true label of the new row, the divergence is smallest if its predictions bring the mean prediction as near
    to the label frequencies as possible. It is largest for a certain prediction of some label, because it is a convex
    function of the prediction.

    Args:
        label_sums: For each label the sum of its probabilities.
        label_counts: For each label its number of queries.
        new_queries: Number of queries of the new row.
        new_count: Number of all queries with those of the new row.
    """
    divergences = []
    for true_label in range(len(label_sums)):
        new_counts = list(label_counts)
        new_counts[true_label] += new_queries
        candidates = [sums_nearest_to_weights(label_sums, new_counts, new_queries)]
        for predicted_label in range(len(label_sums)):
            certain_sums = list(label_sums)
            certain_sums[predicted_label] += new_queries
            candidates.append(certain_sums)
        for new_sums in candidates:
            divergences.append(_divergence_of_sums(new_sums, new_counts, new_count))
    return divergences


def _divergence_of_sums(label_sums: Sequence[float], label_counts: Sequence[float], count: int) -> float:
    """Return the Kullback-Leibler divergence of the mean prediction from the frequencies of the true labels.

    It is ``sum(label_sum * log(label_sum / label_count)) / count`` over all labels. It is infinite if a label has a
    positive sum and no query.

    Args:
        label_sums: For each label the sum of its probabilities over all queries.
        label_counts: For each label the number of queries that have it as their true label.
        count: Number of all queries.
    """
    terms = []
    for label_sum, label_count in zip(label_sums, label_counts, strict=True):
        if label_sum <= 0.0:
            continue
        if not label_count:
            return math.inf
        terms.append(label_sum * math.log(label_sum / label_count))
    return max(0.0, math.fsum(terms) / count)

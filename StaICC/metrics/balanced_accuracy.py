"""Balanced accuracy: the mean of the accuracies on the queries of each true label."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence
from typing import Any

from StaICC.metrics import intervals
from StaICC.metrics.classification import check_truth, predicted_labels, valid_rows
from StaICC.metrics.intervals import MetricTerm
from StaICC.metrics.statistics import Contributions, OtherRun, Sample, Statistic


def balanced_accuracy(ground_truth: Sequence[int], prediction: Sequence[Sequence[float]]) -> float:
    """Mean over the labels of the share of their queries that are predicted correctly (macro-averaged recall).

    The recall of a label without queries is 0/0. Such labels are left out, as in scikit-learn's
    ``balanced_accuracy_score``: they are the same for every model. With a single true label it is the accuracy.

    Returns:
        A number from 0 to 1. A constant prediction has one over the number of labels.

    Source:
        Brodersen, Ong, Stephan and Buhmann 2010, "The balanced accuracy and its posterior distribution", ICPR.

    Example:
        >>> balanced_accuracy([0, 0, 0, 1], [[0.9, 0.1], [0.8, 0.2], [0.6, 0.4], [0.7, 0.3]])
        0.5
    """
    rows = valid_rows(prediction)
    truth = check_truth(ground_truth, rows)
    return _mean_recall(truth, predicted_labels(rows))


def _mean_recall(truth: Sequence[int], predictions: Sequence[int]) -> float:
    """Return the mean recall of the labels that occur in the truth."""
    query_counts = Counter(truth)
    hit_counts = _hit_counts(truth, predictions)
    recalls = [hit_counts[label] / count for label, count in query_counts.items()]
    return math.fsum(recalls) / len(recalls)


def _hit_counts(truth: Sequence[int], predictions: Sequence[int]) -> Counter[int]:
    """Return for each true label the number of its queries that are predicted correctly."""
    return Counter(label for label, guess in zip(truth, predictions, strict=True) if label == guess)


class BalancedAccuracy(Statistic):
    """The balanced accuracy."""

    method = "variance recovery over labels, unit: test row"
    of_classification = True
    weighs_labels = True
    independent = False

    def part(self, sample: Sample, predictions: Sequence[Any], level: float) -> MetricTerm:
        """Return the balanced accuracy with the distances to its confidence limits, and the influence of each row.

        It is a mean of ratios over labels, as macro F1 is, and has the limits of such a mean.
        """
        hits_by_label = {label: [0.0] * sample.n_rows for label in sorted(set(sample.truth))}
        queries_by_label = {label: [0.0] * sample.n_rows for label in hits_by_label}
        for row, label, guess in zip(sample.rows, sample.truth, predictions, strict=True):
            queries_by_label[label][row] += 1.0
            if label == guess:
                hits_by_label[label][row] += 1.0
        return intervals.macro_part(list(hits_by_label.values()), list(queries_by_label.values()), level)

    def of_run(self, sample: Sample, predictions: Sequence[Any], other: OtherRun | None = None) -> Contributions:
        """Return the balanced accuracy of one run, and the contribution of each test row.

        A query of a label with n queries and the recall r contributes ``(1 - r) / n / labels`` if it is correct, and
        ``-r / n / labels`` if it is wrong: the derivative. The recall in this formula is that of both runs together.
        Both have the same true labels, so the recall makes no difference to the difference of the runs. With the pooled
        one, a row with the same predictions has the step 0.
        """
        if other is None:
            other = OtherRun(sample, predictions)
        query_counts = Counter(sample.truth)
        hit_counts = _hit_counts(sample.truth, predictions)
        pooled_recalls = _pooled_recalls(sample, predictions, other)

        n_labels = len(query_counts)
        scores = []
        for label, guess in zip(sample.truth, predictions, strict=True):
            hit = 1.0 if label == guess else 0.0
            scores.append((hit - pooled_recalls[label]) / query_counts[label] / n_labels)

        value = _mean_recall(sample.truth, predictions)
        values_after_row = _values_after_row(sample, hit_counts, query_counts, value)
        return Contributions(
            value=value,
            rows=sample.sums(scores),
            lowest_after_row=min(values_after_row),
            highest_after_row=max(values_after_row),
            range_width=1.0,
        )


def _pooled_recalls(sample: Sample, predictions: Sequence[int], other: OtherRun) -> dict[int, float]:
    """Return for each true label the recall of two runs together: the hits of both, divided by the queries of both.

    Args:
        sample: The queries of the first run.
        predictions: The predicted label of each of them.
        other: The other run. Its queries are weighted, so that both runs count the same.
    """
    query_counts = Counter(sample.truth)
    hit_counts = _hit_counts(sample.truth, predictions)
    other_query_counts = Counter(other.sample.truth)
    other_hit_counts = _hit_counts(other.sample.truth, other.predictions)
    other_weight = other.weight(sample)
    recalls = {}
    for label, query_count in query_counts.items():
        pooled_hits = hit_counts[label] + other_weight * other_hit_counts[label]
        pooled_queries = query_count + other_weight * other_query_counts[label]
        recalls[label] = pooled_hits / pooled_queries
    return recalls


def _values_after_row(
    sample: Sample, hit_counts: Counter[int], query_counts: Counter[int], value: float
) -> list[float]:
    """Return the balanced accuracies that one more test row could lead to, of which the extremes are needed.

    All queries of the new row have one label, and are all wrong or all correct. There are two numbers for each label.

    Args:
        sample: The queries.
        hit_counts: For each label the number of its queries that are predicted correctly.
        query_counts: For each label the number of its queries.
        value: The balanced accuracy.
    """
    new_queries = sample.most_queries_per_row
    n_labels = len(query_counts)
    values = []
    for label, count in query_counts.items():
        hits = hit_counts[label]
        recall = hits / count
        recall_if_wrong = hits / (count + new_queries)
        recall_if_correct = (hits + new_queries) / (count + new_queries)
        values.append(value + (recall_if_wrong - recall) / n_labels)
        values.append(value + (recall_if_correct - recall) / n_labels)

    # The row can have a label that the sample lacks. Then the mean is over one more label, with the recall 0 or 1.
    if sample.n_labels > n_labels:
        sum_of_recalls = value * n_labels
        values.append(sum_of_recalls / (n_labels + 1))
        values.append((sum_of_recalls + 1.0) / (n_labels + 1))
    return values

"""Matthews correlation coefficient of predicted with true labels, for any number of labels (Gorodkin 2004)."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from StaICC.errors import UndefinedMetricError
from StaICC.metrics.classification import check_truth, predicted_labels, valid_rows
from StaICC.metrics.intervals import Interval, MetricTerm, share_of_rows_part
from StaICC.metrics.statistics import Contributions, OtherRun, Sample, Statistic

LEAST_OTHER_ROWS = 5
"""An interval needs this many test rows without the most common true label, and as many with another prediction than
the most common one."""


def matthews(ground_truth: Sequence[int], prediction: Sequence[Sequence[float]]) -> float:
    """Matthews correlation coefficient (MCC): the correlation of the true and the predicted labels.

    Returns:
        A number from -1 to 1; 0 for predictions that are independent of the true labels.

    Raises:
        UndefinedMetricError: All true labels or all predicted labels are the same, so that the coefficient is 0/0.
            (scikit-learn's ``matthews_corrcoef`` returns 0 then.)

    Source:
        Gorodkin 2004, "Comparing two K-category assignments by a K-category correlation coefficient", Computational
        Biology and Chemistry 28.

    Example:
        >>> matthews([0, 0, 1, 1], [[0.9, 0.1], [0.8, 0.2], [0.3, 0.7], [0.6, 0.4]])
        0.5773502691896258
    """
    rows = valid_rows(prediction)
    truth = check_truth(ground_truth, rows)
    return _Counts.of(truth, predicted_labels(rows)).correlation


@dataclass(frozen=True, slots=True)
class _Counts:
    """What the coefficient needs of a run: how often each label is true, predicted, and predicted correctly."""

    n: int
    """Number of queries."""
    correct: int
    """Number of correct predictions."""
    true: Mapping[int, int]
    """For each label the number of queries that have it."""
    predicted: Mapping[int, int]
    """For each label the number of its predictions."""
    sum_true_predicted: int
    """The sum over the labels of true times predicted."""
    sum_true_squared: int
    """The sum over the labels of true times true."""
    sum_predicted_squared: int
    """The sum over the labels of predicted times predicted."""

    @classmethod
    def of(cls, truth: Sequence[int], predictions: Sequence[int]) -> _Counts:
        """Count labels.

        Args:
            truth: True label of each query.
            predictions: Predicted label of each query.

        Raises:
            UndefinedMetricError: All true labels or all predicted labels are the same.
        """
        true = Counter(truth)
        predicted = Counter(predictions)
        if len(true) == 1:
            raise UndefinedMetricError(
                f"all {len(truth)} queries have the same true label, so that there is no correlation"
            )
        if len(predicted) == 1:
            raise UndefinedMetricError(
                f"all {len(truth)} predictions are the same label, so that there is no correlation"
            )
        return cls(
            n=len(truth),
            correct=sum(1 for label, guess in zip(truth, predictions, strict=True) if label == guess),
            true=true,
            predicted=predicted,
            sum_true_predicted=sum(count * predicted[label] for label, count in true.items()),
            sum_true_squared=sum(count * count for count in true.values()),
            sum_predicted_squared=sum(count * count for count in predicted.values()),
        )

    @property
    def correlation(self) -> float:
        """The Matthews correlation coefficient.

        With n queries, c of them correct, and for each label the number t of its queries and p of its predictions::

            MCC = (n c - sum(t p)) / sqrt((n^2 - sum(t^2)) (n^2 - sum(p^2)))

        All of these numbers are integers.
        """
        covariance = self.n * self.correct - self.sum_true_predicted
        true_variance = self.n * self.n - self.sum_true_squared
        predicted_variance = self.n * self.n - self.sum_predicted_squared
        return covariance / math.sqrt(true_variance * predicted_variance)

    def after_row(self, label: int, guess: int, new_queries: int) -> float:
        """Return the coefficient after one more test row.

        Args:
            label: The true label of the row.
            guess: The predicted label of all its queries.
            new_queries: Number of its queries.
        """
        new_true = self.true.get(label, 0)
        new_predicted = self.predicted.get(guess, 0)
        # (t + q) (p + q) is t p + q p + q t + q^2. If only t or only p grows, the product grows by q p or q t.
        growth_of_products = new_queries * (self.predicted.get(label, 0) + self.true.get(guess, 0))
        is_correct = label == guess
        return replace(
            self,
            n=self.n + new_queries,
            correct=self.correct + new_queries * is_correct,
            sum_true_predicted=self.sum_true_predicted + growth_of_products + new_queries * new_queries * is_correct,
            sum_true_squared=self.sum_true_squared + new_queries * (2 * new_true + new_queries),
            sum_predicted_squared=self.sum_predicted_squared + new_queries * (2 * new_predicted + new_queries),
        ).correlation


def _row_influences(sample: Sample, predictions: Sequence[int], counts: _Counts) -> list[float]:
    """Return the influence of each test row on the coefficient M: its derivative by the weight of the row.

    With the share c of correct predictions, and the shares t of the true and p of the predicted labels::

        M = C / sqrt(T P)   with   C = c - sum(t p),   T = 1 - sum(t^2),   P = 1 - sum(p^2)

    One of n queries, with the true label y and the predicted label g, which is h = 1 for a correct prediction and 0 for
    a wrong one, has the influence::

        1/n * ((h - p_y - t_g - c + 2 sum(t p)) / sqrt(T P) + M ((t_y - sum(t^2)) / T + (p_g - sum(p^2)) / P))

    The influence of a row is the sum of those of its queries.

    Args:
        sample: The queries.
        predictions: Predicted label of each query.
        counts: The counts of the run.
    """
    n = counts.n
    correct = counts.correct / n
    products = counts.sum_true_predicted / n**2
    true_squares = counts.sum_true_squared / n**2
    predicted_squares = counts.sum_predicted_squared / n**2
    true_variance = 1.0 - true_squares
    predicted_variance = 1.0 - predicted_squares
    deviation = math.sqrt(true_variance * predicted_variance)

    influences = []
    for label, guess in zip(sample.truth, predictions, strict=True):
        hit = 1.0 if label == guess else 0.0
        # The share of predictions of the true label, and the share of the predicted label among the true ones.
        predicted_share_of_label = counts.predicted.get(label, 0) / n
        true_share_of_guess = counts.true.get(guess, 0) / n
        covariance_change = hit - predicted_share_of_label - true_share_of_guess - correct + 2.0 * products
        true_change = (counts.true[label] / n - true_squares) / true_variance
        predicted_change = (counts.predicted[guess] / n - predicted_squares) / predicted_variance
        influence = covariance_change / deviation + counts.correlation * (true_change + predicted_change)
        influences.append(influence / n)
    return sample.sums(influences)


class Matthews(Statistic):
    """The Matthews correlation coefficient."""

    method = "score interval, variance of the influences, unit: test row"
    of_classification = True

    def range(self, labels: int) -> tuple[float, float]:
        """Return the lowest and the highest possible value."""
        return -1.0, 1.0

    def part(self, sample: Sample, predictions: Sequence[Any], level: float) -> MetricTerm:
        """Return the coefficient with the distances to its confidence limits, and the influence of each test row.

        The number (1 + MCC) / 2 is from 0 to 1, and has the limits of a share of an effective number of rows
        (:func:`~StaICC.metrics.intervals.share_of_rows_part`). With two labels that are equally common, both among the
        true labels and among the predictions, it is the accuracy, a share of all n rows. In general, a wrong prediction
        among correct ones changes it by about ``1 / (2 n T)``, where T is 1 minus the sum of the squared shares of the
        labels. So it is a share of ``2 n T`` rows. T is that of the true or that of the predicted labels, the smaller
        one.

        Raises:
            UndefinedMetricError: Fewer than :data:`LEAST_OTHER_ROWS` test rows have another true label than the most
                common one, or another prediction. The variance would be that of very few rows.
        """
        _check_other_rows(sample, predictions)
        counts = _Counts.of(sample.truth, predictions)
        half_influences = [influence / 2.0 for influence in _row_influences(sample, predictions, counts)]
        true_variance = 1.0 - counts.sum_true_squared / counts.n**2
        predicted_variance = 1.0 - counts.sum_predicted_squared / counts.n**2
        rows_of_share = max(2, int(2.0 * sample.n_rows * min(true_variance, predicted_variance)))
        half = share_of_rows_part((1.0 + counts.correlation) / 2.0, half_influences, rows_of_share, level)
        return replace(half.scaled(2.0), value=counts.correlation)

    def _interval(self, sample: Sample, predictions: Sequence[Any], level: float) -> Interval:
        """Return the confidence interval, from -1 to 1 at most."""
        return self.part(sample, predictions, level).interval(level, self.method, low=-1.0)

    def of_run(self, sample: Sample, predictions: Sequence[Any], other: OtherRun | None = None) -> Contributions:
        """Return the coefficient of one run, and the contribution of each test row, its influence.

        The influences are those at the shares of the run itself. Those at the shares of both runs together would be too
        small if the runs predict the labels with different frequencies: the standard deviation of a difference was
        0.031 in the place of 0.033 in a simulation.
        """
        counts = _Counts.of(sample.truth, predictions)
        values_after_row = list(_values_after_row(sample, counts))
        return Contributions(
            value=counts.correlation,
            rows=_row_influences(sample, predictions, counts),
            lowest_after_row=min(values_after_row),
            highest_after_row=max(values_after_row),
            range_width=2.0,
        )


def _values_after_row(sample: Sample, counts: _Counts) -> Iterator[float]:
    """Yield the coefficients that one more test row could lead to, of which the extremes are needed.

    All its queries have the same true label, and get the same prediction: any two labels of the data set. Labels that
    no query has, and that are never predicted, all lead to the same value.

    Args:
        sample: The queries.
        counts: The counts of the run.
    """
    labels = list(counts.true.keys() | counts.predicted.keys())
    if sample.n_labels == 0 or sample.n_labels > len(labels):
        unseen_label = 1 + max(labels)
        labels.append(unseen_label)
    for label in labels:
        for guess in labels:
            yield counts.after_row(label, guess, sample.most_queries_per_row)


def _check_other_rows(sample: Sample, predictions: Sequence[int]) -> None:
    """Raise an :class:`UndefinedMetricError` if too few test rows have another label than the most common one.

    Args:
        sample: The queries.
        predictions: Predicted label of each query.
    """
    for kind, labels in (("true label", sample.truth), ("prediction", predictions)):
        ((most_common, _),) = Counter(labels).most_common(1)
        other_rows = {row for row, label in zip(sample.rows, labels, strict=True) if label != most_common}
        if len(other_rows) < LEAST_OTHER_ROWS:
            raise UndefinedMetricError(
                f"{len(other_rows)} test rows have another {kind} than the most common one, expected "
                f"{LEAST_OTHER_ROWS} for an interval"
            )

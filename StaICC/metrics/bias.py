"""Metrics of prediction bias: what a model predicts before, or in spite of, what it reads.

Contextual and domain bias ask about queries without meaning. An unbiased model would then be uniform, so the entropy of
its predictions (in nats) measures the bias. Two definitions are in use, and the names say which one is meant:

- :func:`entropy_of_mean`, the entropy of the averaged prediction, is what the README of StaICC 0.1.1 describes and its
  code returns. Larger is *less* biased, by at most the logarithm of the number of labels.
- :func:`negated_mean_entropy`, minus the average of the entropies, is Eq. 2 of the paper. Larger is *more* biased. A
  model that is sure of a different label each time is maximally biased here and not at all by the first definition.

Empirical bias (:func:`empirical_bias`, Eq. 3) asks about real queries, and compares the averaged prediction with the
frequency of the true labels by Kullback-Leibler divergence.

Inputs are probabilities (:func:`StaICC.metrics.normalisation` makes them); anything else is refused. 0 log 0 is
0. A divergence can be infinite: ``math.inf``. A result has a missing value with that reason instead, because JSON has
no infinity.

Source: Cho and Inoue (2025), section 3.3, Eqs. 2 and 3.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

from StaICC.errors import ArgumentError, UndefinedMetricError
from StaICC.metrics.classification import check_labels, check_probabilities


def _distributions(rows: Sequence[Sequence[float]]) -> list[list[float]]:
    checked = check_probabilities(rows)
    if not checked:
        raise UndefinedMetricError("there are no predictions, so their bias is undefined")
    return checked


def _entropy(distribution: Sequence[float]) -> float:
    total = -math.fsum(p * math.log(p) for p in distribution if p > 0)
    return min(math.log(len(distribution)), max(0.0, total))  # rounding: no negative zero, nothing outside the range


def entropy(distribution: Sequence[float]) -> float:
    """Shannon entropy of one distribution, in nats.

    Args:
        distribution: Probabilities that sum to 1.

    Returns:
        A number from 0 to the logarithm of the number of labels.

    Raises:
        OutputError: The numbers are not a distribution.

    Example:
        >>> entropy([1.0, 0.0])
        0.0
        >>> entropy([0.5, 0.5]) == math.log(2)
        True
    """
    return _entropy(check_probabilities([distribution])[0])


def mean_distribution(rows: Sequence[Sequence[float]]) -> list[float]:
    """Average predictions label by label.

    Args:
        rows: One distribution over the labels per query.

    Returns:
        The mean probability of each label.

    Raises:
        OutputError: A row is not a distribution.
        UndefinedMetricError: There are no rows.

    Example:
        >>> mean_distribution([[1.0, 0.0], [0.5, 0.5]])
        [0.75, 0.25]
    """
    checked = _distributions(rows)
    return [math.fsum(column) / len(checked) for column in zip(*checked, strict=True)]


def entropy_of_mean(rows: Sequence[Sequence[float]]) -> float:
    """Entropy of the averaged prediction, in nats: the bias metric of StaICC 0.1.1 and its README.

    Args:
        rows: One distribution over the labels per query.

    Returns:
        A number from 0 (always the same label: most biased) to the logarithm of the number of labels (no bias).

    Raises:
        OutputError: A row is not a distribution.
        UndefinedMetricError: There are no rows.

    Example:
        >>> entropy_of_mean([[1.0, 0.0], [0.0, 1.0]]) == math.log(2)
        True
    """
    return _entropy(mean_distribution(rows))


def negated_mean_entropy(rows: Sequence[Sequence[float]]) -> float:
    """Minus the mean entropy of the single predictions, in nats: the paper's contextual and domain bias (Eq. 2).

    Args:
        rows: One distribution over the labels per query.

    Returns:
        A number from minus the logarithm of the number of labels (no bias) to 0 (always certain: most biased).

    Raises:
        OutputError: A row is not a distribution.
        UndefinedMetricError: There are no rows.

    Example:
        >>> negated_mean_entropy([[1.0, 0.0], [0.0, 1.0]])
        0.0
        >>> negated_mean_entropy([[0.5, 0.5]]) == -math.log(2)
        True
    """
    checked = _distributions(rows)
    return 0.0 - math.fsum(map(_entropy, checked)) / len(checked)


def kl_divergence(p: Sequence[float], q: Sequence[float]) -> float:
    """Kullback-Leibler divergence of `q` from `p`, in nats: the sum of p log(p/q).

    Args:
        p: A distribution; a label with probability 0 adds nothing.
        q: A distribution over the same labels.

    Returns:
        A number >= 0, infinite if a label has a positive probability in `p` and probability 0 in `q`.

    Raises:
        ArgumentError: The distributions differ in length.
        OutputError: The numbers are not a distribution.

    Example:
        >>> kl_divergence([1.0, 0.0], [0.5, 0.5]) == math.log(2)
        True
        >>> kl_divergence([0.5, 0.5], [1.0, 0.0])
        inf
    """
    expected, model = check_probabilities([p])[0], check_probabilities([q])[0]
    if len(expected) != len(model):
        raise ArgumentError(
            f"the distributions have {len(expected)} and {len(model)} labels; expected the same label space for both"
        )
    terms = []
    for a, b in zip(expected, model, strict=True):
        if a > 0 and b == 0:
            return math.inf
        if a > 0:
            terms.append(a * (math.log(a) - math.log(b)))  # a / b could overflow
    return max(0.0, math.fsum(terms))  # rounding alone can put it below


def label_frequencies(ground_truth: Sequence[int], labels: int) -> list[float]:
    """Share of each label among the true labels.

    Args:
        ground_truth: One label index per query.
        labels: The size of the label space.

    Returns:
        One share per label.

    Raises:
        ArgumentError: An entry is not an index of the label space.
        UndefinedMetricError: There are no true labels.

    Example:
        >>> label_frequencies([0, 0, 1, 0], labels=3)
        [0.75, 0.25, 0.0]
    """
    truth = check_labels(ground_truth, len(ground_truth), labels)
    if not truth:
        raise UndefinedMetricError("there are no true labels, so their frequencies are undefined")
    return [truth.count(label) / len(truth) for label in range(labels)]


def empirical_bias(rows: Sequence[Sequence[float]], ground_truth: Sequence[int], labels: int | None = None) -> float:
    """Divergence of the label frequency from the averaged prediction (Eq. 3; the "posterior bias" of StaICC 0.1.1).

    Args:
        rows: One distribution over the labels per query.
        ground_truth: One label index per query.
        labels: The size of the label space, to be checked against the rows; their width by default.

    Returns:
        KL(mean prediction || label frequency) in nats, >= 0; infinite where a label is predicted that never is
        true; the results of benchmarks name the data set. Replace infinity by a missing value before writing JSON.

    Raises:
        ArgumentError: The true labels or `labels` do not fit the rows.
        OutputError: A row is not a distribution.
        UndefinedMetricError: There are no rows.

    Example:
        >>> empirical_bias([[1.0, 0.0], [0.0, 1.0]], [0, 1])
        0.0
    """
    mean = mean_distribution(rows)
    if labels is not None and labels != len(mean):
        raise ArgumentError(f"the label space has {labels} labels, but the rows have {len(mean)} columns")
    truth = check_labels(ground_truth, len(rows), len(mean))
    return kl_divergence(mean, label_frequencies(truth, len(mean)))

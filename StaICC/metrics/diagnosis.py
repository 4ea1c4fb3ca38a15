"""Metrics of the diagnostic benchmarks: bias of predictions, their dependence on templates or demonstrations.

**Contextual and domain bias.** The queries have no meaning, so an unbiased model would predict the uniform
distribution. The entropy of its predictions (in nats) therefore measures the bias. Two definitions are in use:

- :func:`entropy_of_mean`, the entropy of the mean prediction, is what the README of StaICC 0.1.1 describes and its code
  returns. It is from 0 to the logarithm of the number of labels, and larger is *less* biased.
- :func:`negated_mean_entropy`, minus the mean of the entropies, is Eq. 2 of the paper. Larger is *more* biased. A model
  that is certain of a different label for each query has the largest bias by this definition, and none by the first.

**Empirical bias** (:func:`empirical_bias`, Eq. 3) uses the predictions for the test queries. It is the Kullback-Leibler
divergence of the mean prediction from the frequencies of the true labels. It can be infinite: ``math.inf``. The result
of a benchmark then has a missing value with the reason, because JSON has no infinity.

These metrics accept probabilities only (:func:`StaICC.metrics.classification` makes them). 0 log 0 is 0.

**Consistency** (template and demonstration sensitivity). The same query is evaluated in several runs, such as one for
each template. Its score is the share of its most frequent prediction, whether correct or not. The consistency is the
mean over the queries.

**GLER** (label noise; Yoo et al. 2022). A metric is measured with more and more wrong labels in the demonstrations, and
regressed on the *share of correct labels*. The slope is the gain of the metric from only wrong to only correct labels.
A large slope is a high sensitivity to noise. (Regressed on the noise rate, the slope would have the opposite sign.)

Consistency and slope are computed with integers or fractions and rounded once, at the end. So a metric that falls
linearly from a to b has exactly the slope a - b.

Source: Cho and Inoue (2025), section 3.3, Eqs. 2 and 3.
"""

from __future__ import annotations

import math
import operator
from collections.abc import Sequence
from typing import TYPE_CHECKING, NamedTuple

from StaICC import numerics
from StaICC.arguments import validate_integer
from StaICC.errors import ArgumentError, UndefinedMetricError
from StaICC.metrics.classification import check_labels, check_probabilities

if TYPE_CHECKING:
    from fractions import Fraction


def _check_distributions(rows: Sequence[Sequence[float]]) -> list[list[float]]:
    """Return the rows as lists, after checking that they are distributions and that there is at least one."""
    checked = check_probabilities(rows)
    if not checked:
        raise UndefinedMetricError("there are no predictions, so their bias is undefined")
    return checked


def _entropy(distribution: Sequence[float]) -> float:
    """Return the entropy of a distribution that is known to be valid."""
    # Rounding can give a negative zero, or put the sum outside its range by an ulp.
    at_least_zero = max(0.0, numerics.entropy(distribution))
    return min(math.log(len(distribution)), at_least_zero)


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
    """Mean over the queries of the probability of each label.

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
    checked = _check_distributions(rows)
    probabilities_by_label = zip(*checked, strict=True)
    return [math.fsum(probabilities) / len(checked) for probabilities in probabilities_by_label]


def entropy_of_mean(rows: Sequence[Sequence[float]]) -> float:
    """Entropy of the mean prediction, in nats: the bias metric of StaICC 0.1.1 and its README.

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
    """Minus the mean over the queries of the entropy, in nats: the paper's contextual and domain bias (Eq. 2).

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
    checked = _check_distributions(rows)
    mean_entropy = math.fsum(map(_entropy, checked)) / len(checked)
    return 0.0 - mean_entropy  # -mean_entropy could be a negative zero


def kl_divergence(p: Sequence[float], q: Sequence[float]) -> float:
    """Kullback-Leibler divergence KL(p || q), in nats: the sum over the labels of p log(p / q).

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
    p = check_probabilities([p])[0]
    q = check_probabilities([q])[0]
    if len(p) != len(q):
        raise ArgumentError(
            f"the distributions have {len(p)} and {len(q)} labels; expected the same label space for both"
        )
    terms = []
    for p_label, q_label in zip(p, q, strict=True):
        if p_label == 0:
            continue  # 0 log 0 is 0
        if q_label == 0:
            return math.inf
        terms.append(p_label * (math.log(p_label) - math.log(q_label)))  # p_label / q_label could overflow
    return max(0.0, math.fsum(terms))  # rounding alone can put the sum below 0


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
    truth = check_labels(ground_truth, queries=len(ground_truth), labels=labels)
    if not truth:
        raise UndefinedMetricError("there are no true labels, so their frequencies are undefined")
    return [truth.count(label) / len(truth) for label in range(labels)]


def empirical_bias(rows: Sequence[Sequence[float]], ground_truth: Sequence[int], labels: int | None = None) -> float:
    """Divergence of the mean prediction from the label frequencies (Eq. 3; "posterior bias" in StaICC 0.1.1).

    Args:
        rows: One distribution over the labels per query.
        ground_truth: One label index per query.
        labels: The expected number of labels; an error if the rows have another one. By default it is not checked.

    Returns:
        KL(mean prediction || label frequencies) in nats, >= 0. It is infinite if a label that is never true has a
        positive mean probability. Replace infinity by a missing value before writing JSON.

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
    truth = check_labels(ground_truth, queries=len(rows), labels=len(mean))
    return kl_divergence(mean, label_frequencies(truth, labels=len(mean)))


class Line(NamedTuple):
    """A straight line: value = slope * share + intercept.

    Attributes:
        slope: Change of the value from the share 0 to the share 1.
        intercept: Value at the share 0.
    """

    slope: float
    intercept: float


def _as_fraction(number: float | Fraction) -> Fraction | None:
    """Return a finite number as a fraction; ``None`` for anything else, such as infinity.

    Texts are no numbers here, although ``float("0.5")`` would convert them.
    """
    from fractions import Fraction  # slow to import

    if isinstance(number, Fraction):
        return number
    if isinstance(number, (str, bytes)):
        return None
    try:
        return Fraction(float(number))
    except (TypeError, ValueError, OverflowError):
        return None


def _fractions(numbers: Sequence[float | Fraction], name: str) -> list[Fraction]:
    """Return numbers as fractions.

    Args:
        numbers: The numbers.
        name: What a number is, for the error message, such as "value".

    Raises:
        ArgumentError: An entry is not a finite number.
    """
    fractions = []
    for position, number in enumerate(numbers):
        fraction = _as_fraction(number)
        if fraction is None:
            raise ArgumentError(f"{name} {position} is {number!r}; expected a finite number")
        fractions.append(fraction)
    return fractions


def consistency(predictions: Sequence[Sequence[int]]) -> float:
    """Mean over the queries of the share of the most frequent prediction.

    Args:
        predictions: For each query the predicted label indexes, one for each run.

    Returns:
        A number from 1 over the number of runs (a different prediction every time) to 1 (always the same prediction).

    Raises:
        ArgumentError: Some queries have more predictions than others, or a prediction is not a label index.
        UndefinedMetricError: There are no queries, or no runs.

    Example:
        >>> consistency([[0, 0, 1], [2, 2, 2]])
        0.8333333333333334
    """
    if len(predictions) == 0 or len(predictions[0]) == 0:
        raise UndefinedMetricError("there are no queries or no runs, so the consistency of predictions is undefined")
    run_count = len(predictions[0])
    # All queries have the same number of runs. So the mean of their shares is a sum of counts, divided once.
    most_frequent_count = 0
    for query_index, predicted in enumerate(predictions):
        if len(predicted) != run_count:
            raise ArgumentError(
                f"query {query_index} has {len(predicted)} predictions, query 0 has {run_count}; expected one per run"
            )
        try:
            labels = list(map(operator.index, predicted))
        except TypeError:
            raise ArgumentError(
                f"the predictions of query {query_index} are {predicted!r}; expected label indexes"
            ) from None
        most_frequent_count += max(map(labels.count, labels))
    return most_frequent_count / (len(predictions) * run_count)


def shares_of_correct_labels(interpolations: int = 5) -> tuple[Fraction, ...]:
    """Shares of correct labels at which GLER measures a metric: from 1 to 0, in equal steps.

    Args:
        interpolations: Number of shares, at least 2.

    Returns:
        The shares as fractions, which are exact for thirds as well.

    Raises:
        ArgumentError: The number is not an integer of at least 2.

    Example:
        >>> [float(share) for share in shares_of_correct_labels()]
        [1.0, 0.75, 0.5, 0.25, 0.0]
    """
    from fractions import Fraction

    interpolations = validate_integer("interpolations", interpolations, minimum=2)
    last_step = interpolations - 1
    return tuple(Fraction(last_step - step, last_step) for step in range(interpolations))


def noisy_label_shares(k: int, conditions: int) -> list[float]:
    """Share of the demonstrations with a correct label, for each noise rate of GLER.

    GLER evaluates prompts in which more and more demonstrations have a wrong label. At a noise rate, ``int(k * rate)``
    of the k demonstrations of a prompt do, so the share of correct ones is one minus the rate only if this product is a
    whole number.

    Args:
        k: Number of demonstrations of a prompt. Without demonstrations no label is wrong.
        conditions: Number of noise rates, from 0 to 1 at equal distances. A single one is the rate 0.

    Example:
        >>> noisy_label_shares(2, 5)  # at the noise rates 0, 0.25, 0.5, 0.75 and 1
        [1.0, 1.0, 0.5, 0.5, 0.0]
    """
    if k == 0:
        return [1.0] * conditions
    distance_count = max(1, conditions - 1)
    shares = []
    for number in range(conditions):
        noise_rate = number / distance_count
        wrong_labels = int(k * noise_rate)
        shares.append(1 - wrong_labels / k)
    return shares


def gler(values: Sequence[float | Fraction], shares_of_correct_labels: Sequence[float | Fraction]) -> Line:
    """Least-squares line of a metric on the share of correct labels in the demonstrations, without rounding errors.

    Args:
        values: The metric at each share, such as accuracies.
        shares_of_correct_labels: The shares, such as 1, 0.75, 0.5, 0.25, 0; one per value, not all equal.

    Returns:
        The line. Its slope is the paper's GLER if the values are accuracies. Slope and intercept are computed with
        fractions and rounded once.

    Raises:
        ArgumentError: The two lists differ in length, or an entry is not a finite number.
        UndefinedMetricError: There are fewer than two different shares, so the slope is undefined.

    Example:
        >>> gler([0.75, 0.6875, 0.625, 0.5625, 0.5], [1, 0.75, 0.5, 0.25, 0])
        Line(slope=0.25, intercept=0.5)
    """
    if len(values) != len(shares_of_correct_labels):
        raise ArgumentError(
            f"there are {len(values)} values for {len(shares_of_correct_labels)} shares of correct labels; "
            "expected one each"
        )
    ordinates = _fractions(values, "value")
    abscissas = _fractions(shares_of_correct_labels, "share of correct labels")
    different_shares = len(set(abscissas))
    if different_shares < 2:
        raise UndefinedMetricError(
            f"the slope needs at least two different shares of correct labels; given: {different_shares}"
        )

    # With shares x and values y: slope = sum (x - mean x) y / sum (x - mean x)^2, intercept = mean y - slope * mean x
    count = len(abscissas)
    mean_share = sum(abscissas) / count
    deviations = [share - mean_share for share in abscissas]
    covariance_sum = sum(map(operator.mul, deviations, ordinates))
    variance_sum = sum(map(operator.mul, deviations, deviations))
    slope = covariance_sum / variance_sum
    intercept = sum(ordinates) / count - slope * mean_share
    return Line(float(slope), float(intercept))

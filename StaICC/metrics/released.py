"""The metrics of StaICC 0.1.1, bug for bug, to compare a run with figures of the release.

Do not use them for anything else; :mod:`StaICC.metrics.classification` and :mod:`~StaICC.metrics.diagnosis` are right.
What StaICC 0.1.1 does, found by running it on crafted inputs:

- A matrix counts as probabilities only if every value is in [0, 1] and every row, added from left to right, gives
  *exactly* 1.0. If any row misses that by an ulp, every row goes through softmax, so most probabilities are softmaxed
  once more. (StaICC 0.1.1 adds with the interpreter's ``sum``, which rounds differently from Python 3.12 on; here it is
  always plain addition, as under the Python 3.11 that made the reference figures.)
- Accuracy and macro F1 look at the matrix after that step, so logits closer than softmax can tell apart are ties.
- Calibration error has the bins [b/10, (b+1)/10): the confidence 1.0 falls in none, and certain predictions cost
  nothing. It refuses fewer than 10 queries.
- Label indexes are expanded to one-hot rows of width *largest index + 1*, not of the label space. If a true label is
  beyond that, StaICC 0.1.1 ends with an IndexError.
- The bias metrics average raw outputs, logits too. Entropy then takes a softmax by the rule above; the divergence does
  not, and stops at any zero, in the prediction or in the label frequency.
- "distribution" of the posterior bias is the averaged prediction *minus* the label frequency.
- GLER regresses on 1, 0.75, 0.25, -0.5, -1.5: the noise rates are subtracted one after the other.

Where StaICC 0.1.1 ends with an exception, these functions raise :class:`~StaICC.errors.UndefinedMetricError` and say
so. NaN, which it accepts, and true labels that do not fit the rows are errors as everywhere in this library.
"""

from __future__ import annotations

import math
import operator
from collections.abc import Iterable, Sequence
from functools import reduce

from StaICC.arguments import validate_integer, whole_number
from StaICC.errors import ArgumentError, UndefinedMetricError
from StaICC.metrics import classification, diagnosis
from StaICC.metrics.classification import check_labels, numeric_rows, predicted_labels
from StaICC.metrics.diagnosis import Line, label_frequencies

_BINS = 10
"""Bins of the calibration error."""


def _plain_sum(values: Iterable[float]) -> float:
    """Return the sum from left to right, rounded after each addition.

    It is not ``sum()``, which reduces rounding errors from Python 3.12 on, and so gives other last digits.
    """
    return reduce(operator.add, values, 0.0)


def softmax(row: Sequence[float]) -> list[float]:
    """Return the softmax of a row, added up from left to right as in StaICC 0.1.1.

    The order matters: the last bit of a probability can decide which label is the largest, and the confidence bin.
    """
    largest = max(row)
    powers = [math.exp(value - largest) for value in row]
    total = _plain_sum(powers)
    return [power / total for power in powers]


def _error_as_release_fails(exception: str, cause: str) -> UndefinedMetricError:
    """Return the error to raise for an input on which StaICC 0.1.1 itself ends with an exception.

    The release has no value there, so that the metric is undefined. The message says how the release ends, and why.

    Args:
        exception: The kind of the exception of the release, with its article, such as ``a ValueError``.
        cause: What is wrong with the input.
    """
    return UndefinedMetricError(f"StaICC 0.1.1 ends with {exception} here: {cause}")


def _non_empty_rows(prediction: Sequence[Sequence[float]]) -> list[list[float]]:
    """Return the rows that the inference function returned, one for each query, as lists of floats.

    Raises:
        UndefinedMetricError: There are no rows; StaICC 0.1.1 ends with an error then, too.
        OutputError: A row cannot be read as numbers.
    """
    rows = numeric_rows(prediction)
    if not rows:
        raise _error_as_release_fails("an error", "there are no predictions")
    return rows


def probability_like(row: Sequence[float]) -> bool:
    """Return whether StaICC 0.1.1 treats a row as probabilities.

    Args:
        row: One number per label.

    Returns:
        True if all numbers are in [0, 1] and their sum, added from left to right with rounding, is exactly 1.0.

    Example:
        >>> probability_like([0.1, 0.2, 0.7])
        True
        >>> probability_like([0.7, 0.2, 0.1])  # in this order, rounding gives 0.9999999999999999
        False
    """
    if not all(0 <= value <= 1 for value in row):
        return False
    return _plain_sum(row) == 1.0


def _softmax_unless_probabilities(rows: list[list[float]]) -> list[list[float]]:
    """Return the rows unchanged if every row is probability-like, else the softmax of every row."""
    if all(map(probability_like, rows)):
        return rows
    return [softmax(row) for row in rows]


def _checked_input(
    ground_truth: Sequence[int], prediction: Sequence[Sequence[float]]
) -> tuple[list[int], list[list[float]]]:
    """Return the true labels, and the rows that a metric of StaICC 0.1.1 reads, after checking both.

    The rows are unchanged if StaICC 0.1.1 treats all of them as probabilities. Otherwise they are the softmax of each
    row.

    Args:
        ground_truth: One label index per query.
        prediction: One row per query, as the inference function returned it.
    """
    rows = _non_empty_rows(prediction)
    truth = check_labels(ground_truth, queries=len(rows), labels=len(rows[0]))
    return truth, _softmax_unless_probabilities(rows)


def accuracy(ground_truth: Sequence[int], prediction: Sequence[Sequence[float]]) -> float:
    """Accuracy as in StaICC 0.1.1: the predicted label is the first maximum of a row.

    If the matrix does not count as probabilities, this is the first maximum after a softmax, which can make ties.

    Args:
        ground_truth: One label index per query.
        prediction: One row per query, as the inference function returned it.

    Returns:
        A number from 0 to 1.

    Raises:
        ArgumentError: The true labels do not fit the rows.
        OutputError: A row cannot be read as numbers.
        UndefinedMetricError: There are no predictions.

    Example:
        >>> accuracy([1], [[0.0, 1e-17]])  # a tie, after softmax
        0.0
    """
    truth, rows = _checked_input(ground_truth, prediction)
    return classification.accuracy(truth, rows)


def averaged_truelabel_likelihood(ground_truth: Sequence[int], prediction: Sequence[Sequence[float]]) -> float:
    """Mean probability of the true label as in StaICC 0.1.1.

    If the matrix does not count as probabilities, this is the probability after a softmax of every row.

    Args:
        ground_truth: One label index per query.
        prediction: One row per query, as the inference function returned it.

    Returns:
        A number from 0 to 1.

    Raises:
        ArgumentError: The true labels do not fit the rows.
        OutputError: A row cannot be read as numbers.
        UndefinedMetricError: There are no predictions.

    Example:
        >>> averaged_truelabel_likelihood([0], [[0.9, 0.1]])
        0.9
        >>> round(averaged_truelabel_likelihood([0], [[0.9, 0.1000001]]), 2)  # the sum is not 1: softmax
        0.69
    """
    truth, rows = _checked_input(ground_truth, prediction)
    return classification.averaged_truelabel_likelihood(truth, rows)


def macro_F1(ground_truth: Sequence[int], prediction: Sequence[Sequence[float]]) -> float:
    """Macro F1 as in StaICC 0.1.1: a label that is neither predicted nor true has an F1 of 0.

    Args:
        ground_truth: One label index per query.
        prediction: One row per query, as the inference function returned it.

    Returns:
        A number from 0 to 1.

    Raises:
        ArgumentError: The true labels do not fit the rows.
        OutputError: A row cannot be read as numbers.
        UndefinedMetricError: There are no predictions.

    Example:
        >>> macro_F1([0, 0], [[1.0, 0.0], [1.0, 0.0]])
        0.5
    """
    truth, rows = _checked_input(ground_truth, prediction)
    return classification.macro_F1(truth, rows)


def expected_calibration_error_1(ground_truth: Sequence[int], prediction: Sequence[Sequence[float]]) -> float:
    """Calibration error as in StaICC 0.1.1: the last bin lacks its upper end, so that a confidence of 1.0 is in no bin.

    Args:
        ground_truth: One label index per query.
        prediction: One row per query, as the inference function returned it.

    Returns:
        A number from 0 to 1.

    Raises:
        ArgumentError: The true labels do not fit the rows.
        OutputError: A row cannot be read as numbers.
        UndefinedMetricError: There are fewer than ten predictions.

    Example:
        >>> expected_calibration_error_1([1] * 10, [[1.0, 0.0]] * 10)
        0.0
    """
    truth, rows = _checked_input(ground_truth, prediction)
    if len(rows) < _BINS:
        cause = f"its calibration error needs at least {_BINS} queries; there are {len(rows)}"
        raise _error_as_release_fails("a ValueError", cause)

    # Certain predictions are in no bin. They add nothing to the error, but count in the number of queries.
    truth_in_bins = []
    rows_in_bins = []
    for true_label, row in zip(truth, rows, strict=True):
        if max(row) < 1.0:
            truth_in_bins.append(true_label)
            rows_in_bins.append(row)
    if not rows_in_bins:
        return 0.0
    error_in_bins = classification.expected_calibration_error_1(truth_in_bins, rows_in_bins)
    # This error is divided by the number of predictions in bins, and the one of StaICC 0.1.1 by that of all.
    return error_in_bins * len(rows_in_bins) / len(rows)


def expand_label_indexes(indexes: Sequence[int], ground_truth: Sequence[int] = ()) -> list[list[float]]:
    """Make one-hot rows of label indexes as StaICC 0.1.1 does: as wide as the largest index requires.

    Args:
        indexes: One predicted label index per query.
        ground_truth: The true label indexes, where the rows are to be scored against them.

    Returns:
        One row per query, all of width largest index + 1.

    Raises:
        ArgumentError: A predicted label is not an integer >= 0.
        UndefinedMetricError: There are no indexes, or a true label is larger than every predicted one, so that it has
            no column.

    Example:
        >>> expand_label_indexes([0, 1, 0])  # even if there is a third label
        [[1.0, 0.0], [0.0, 1.0], [1.0, 0.0]]
    """
    if len(indexes) == 0:
        raise _error_as_release_fails("an IndexError", "there are no predictions")
    for query_index, label in enumerate(indexes):
        label_index = whole_number(label)
        if label_index is None or label_index < 0:
            raise ArgumentError(
                f"predicted label {query_index} is {label!r}; expected a label index, an integer from 0 on"
            )
    width = max(indexes) + 1
    highest_true_label = max(ground_truth, default=0)
    if highest_true_label >= width:
        raise _error_as_release_fails(
            "an IndexError",
            f"label {highest_true_label} is true somewhere, but no label above {width - 1} is predicted, and the "
            f"release makes one-hot rows of only {width} columns",
        )
    rows = []
    for label in indexes:
        row = [0.0] * width
        row[label] = 1.0
        rows.append(row)
    return rows


def mean_distribution(prediction: Sequence[Sequence[float]]) -> list[float]:
    """Mean output of each label ("distribution" of contextual and domain bias).

    Args:
        prediction: One row per query, as the inference function returned it; logits are averaged as such.

    Returns:
        One mean per label. These are a probability distribution only if all rows are.

    Raises:
        OutputError: A row cannot be read as numbers.
        UndefinedMetricError: There are no predictions.

    Example:
        >>> mean_distribution([[1.0, 2.0], [3.0, 5.0]])
        [2.0, 3.5]
    """
    rows = _non_empty_rows(prediction)
    columns = zip(*rows, strict=True)  # one for each label
    return [_plain_sum(column) / len(rows) for column in columns]


def entropy(values: Sequence[float]) -> float:
    """Entropy as in StaICC 0.1.1, in nats: of the values if they are exactly probabilities, else of their softmax.

    Args:
        values: One number per label.

    Returns:
        A number from 0 to the logarithm of the number of labels.

    Raises:
        OutputError: The values cannot be read as numbers.

    Example:
        >>> round(entropy([2.0, 3.5]), 4)
        0.4751
    """
    rows = _softmax_unless_probabilities(numeric_rows([values]))
    terms = [p * math.log(p) for p in rows[0] if p != 0]
    return -_plain_sum(terms) + 0.0  # + 0.0 turns a negative zero into zero


def entropy_of_mean(prediction: Sequence[Sequence[float]]) -> float:
    """Entropy of the mean output ("entropy" of contextual and domain bias).

    The outputs are averaged as they were returned, logits as logits. Then :func:`entropy` applies the softmax to the
    mean, unless StaICC 0.1.1 treats the mean as probabilities.

    Args:
        prediction: One row per query, as the inference function returned it.

    Returns:
        A number from 0 to the logarithm of the number of labels.

    Raises:
        OutputError: A row cannot be read as numbers.
        UndefinedMetricError: There are no predictions, or each label has minus infinity in a row.

    Example:
        >>> round(entropy_of_mean([[1.0, 2.0], [3.0, 5.0]]), 4)  # of the softmax of [2.0, 3.5]
        0.4751
    """
    mean = mean_distribution(prediction)
    if max(mean) == -math.inf:
        raise UndefinedMetricError("each label has a logit of minus infinity in some row, so its mean has no softmax")
    return entropy(mean)


def kl_divergence(p: Sequence[float], q: Sequence[float]) -> float:
    """Sum of p log(p/q) as in StaICC 0.1.1, in nats, for any positive numbers.

    It is the Kullback-Leibler divergence if both arguments are distributions, which is not checked.

    Args:
        p: One positive number per label.
        q: As many positive numbers.

    Returns:
        The sum. It can be negative if an argument is no distribution.

    Raises:
        ArgumentError: The lengths differ.
        UndefinedMetricError: A number is zero or negative.

    Example:
        >>> round(kl_divergence([2.0, 3.5], [0.5, 0.5]), 4)
        9.5833
    """
    if len(p) != len(q):
        raise ArgumentError(
            f"the distributions have {len(p)} and {len(q)} labels; expected the same label space for both"
        )
    terms = []
    for label, (p_label, q_label) in enumerate(zip(p, q, strict=True)):
        if q_label == 0:
            raise _error_as_release_fails("a ZeroDivisionError", f"label {label} has the frequency 0")
        ratio = p_label / q_label
        if not ratio > 0:  # also for NaN
            cause = f"the averaged prediction of label {label} is {p_label}"
            raise _error_as_release_fails("a ValueError (math domain error)", cause)
        terms.append(p_label * math.log(ratio))
    return _plain_sum(terms)


def _label_frequencies(ground_truth: Sequence[int], rows: list[list[float]]) -> list[float]:
    """Return the share of each label among the true labels, after checking them against the rows."""
    label_count = len(rows[0])
    truth = check_labels(ground_truth, queries=len(rows), labels=label_count)
    return label_frequencies(truth, label_count)


def divergence(ground_truth: Sequence[int], prediction: Sequence[Sequence[float]]) -> float:
    """Divergence of the label frequencies from the mean output ("DL div." of the posterior bias).

    Args:
        ground_truth: One label index per query.
        prediction: One row per query, as the inference function returned it.

    Returns:
        The sum of m log(m/f) over the labels, with m the mean output and f the frequency.

    Raises:
        ArgumentError: The true labels do not fit the rows.
        OutputError: A row cannot be read as numbers.
        UndefinedMetricError: There are no predictions, a label is never true, or a mean output is not positive.

    Example:
        >>> round(divergence([0, 1], [[1.0, 2.0], [3.0, 5.0]]), 4)
        9.5833
    """
    rows = _non_empty_rows(prediction)
    return kl_divergence(mean_distribution(rows), _label_frequencies(ground_truth, rows))


def excess_distribution(ground_truth: Sequence[int], prediction: Sequence[Sequence[float]]) -> list[float]:
    """Mean output of each label minus its share of the true labels (the key "distribution" of the posterior bias).

    Args:
        ground_truth: One label index per query.
        prediction: One row per query, as the inference function returned it.

    Returns:
        One difference per label, positive if the mean output is larger.

    Raises:
        ArgumentError: The true labels do not fit the rows.
        OutputError: A row cannot be read as numbers.
        UndefinedMetricError: There are no predictions.

    Example:
        >>> excess_distribution([0, 1], [[1.0, 2.0], [3.0, 5.0]])
        [1.5, 3.0]
    """
    rows = _non_empty_rows(prediction)
    means = mean_distribution(rows)
    frequencies = _label_frequencies(ground_truth, rows)
    return [mean - frequency for mean, frequency in zip(means, frequencies, strict=True)]


def gler_abscissas(interpolations: int = 5) -> list[float]:
    """Abscissas of GLER in StaICC 0.1.1, which are not the shares of correct labels.

    The first one is 1. Each further one is the abscissa before it minus the next noise rate.

    Args:
        interpolations: The number of noise rates, at least 2.

    Returns:
        One abscissa per noise rate.

    Raises:
        ArgumentError: The number is not an integer of at least 2.

    Example:
        >>> gler_abscissas()  # for the noise rates 0, 0.25, 0.5, 0.75, 1
        [1.0, 0.75, 0.25, -0.5, -1.5]
    """
    interpolations = validate_integer("interpolations", interpolations, minimum=2)
    abscissas = []
    abscissa = 1.0
    for step in range(interpolations):
        noise_rate = step / (interpolations - 1)
        abscissa -= noise_rate
        abscissas.append(abscissa)
    return abscissas


def gler(values: Sequence[float]) -> Line:
    """Regression line of a metric on the abscissas of StaICC 0.1.1 ("sensitivity" of GLER).

    Args:
        values: The metric at the noise rates from 0 to 1, in equal steps.

    Returns:
        Slope and intercept.

    Raises:
        ArgumentError: There are fewer than two values.

    Example:
        >>> round(gler([1.0, 0.75, 0.5, 0.25, 0.0]).slope, 4)  # a fall of 1 per unit of the noise rate
        0.3788
    """
    return diagnosis.gler(values, gler_abscissas(len(values)))


def consistency(prediction: Sequence[Sequence[float]], queries: int) -> float:
    """Consistency as in StaICC 0.1.1, from the rows of all runs in one list.

    Args:
        prediction: The rows of the first run, then those of the second, and so on.
        queries: The number of queries in a run.

    Returns:
        A number from 1 over the number of runs to 1.

    Raises:
        ArgumentError: The number of rows is not a multiple of the number of queries.
        OutputError: A row cannot be read as numbers.
        UndefinedMetricError: There are no predictions.

    Example:
        >>> consistency([[1, 0], [0, 1], [1, 0], [1, 0]], queries=2)
        0.75
    """
    rows = _non_empty_rows(prediction)
    if queries < 1 or len(rows) % queries != 0:
        raise ArgumentError(f"there are {len(rows)} rows for runs of {queries} queries; expected a multiple of that")
    predicted = predicted_labels(_softmax_unless_probabilities(rows))
    labels_of_queries: list[list[int]] = [[] for _ in range(queries)]
    for row_index, label in enumerate(predicted):
        labels_of_queries[row_index % queries].append(label)
    return diagnosis.consistency(labels_of_queries)

"""The metrics of StaICC 0.1.1, bug for bug, to compare a run with figures of the release.

Do not use them for anything else; :mod:`StaICC.metrics.classification` and :mod:`~StaICC.metrics.diagnosis` are right.
What the release does, found by running it on crafted inputs:

- A matrix counts as probabilities only if every value is in [0, 1] and every row, added from left to right, gives
  *exactly* 1.0. If any row misses that by an ulp, every row goes through softmax, so most probabilities are softmaxed
  once more. (The release adds with the interpreter's ``sum``, which rounds differently from Python 3.12 on; here it is
  always plain addition, as under the Python 3.11 that made the reference figures.)
- Accuracy and macro F1 look at the matrix after that step, so logits closer than softmax can tell apart are ties.
- Calibration error has the bins [b/10, (b+1)/10): the confidence 1.0 falls in none, and certain predictions cost
  nothing. It refuses fewer than 10 queries.
- Label indexes are expanded to one-hot rows of width *largest index + 1*, not of the label space. If a true label is
  beyond that, the release ends with an IndexError.
- The bias metrics average raw outputs, logits too. Entropy then takes a softmax by the rule above; the divergence does
  not, and stops at any zero, in the prediction or in the label frequency.
- "distribution" of the posterior bias is the averaged prediction *minus* the label frequency.
- GLER regresses on 1, 0.75, 0.25, -0.5, -1.5: the noise rates are subtracted one after the other.

Where the release crashed, these functions raise :class:`~StaICC.errors.UndefinedMetricError` and say so. NaN, which it
let pass, and true labels that do not fit the rows are refused as everywhere in this library.
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


def _total(values: Iterable[float]) -> float:
    """Add from left to right without compensation (`sum` compensates from Python 3.12 on)."""
    return reduce(operator.add, values, 0.0)


def softmax(row: Sequence[float]) -> list[float]:
    """Return the softmax by the additions of the release: the last bit decides ties, and the bin of a confidence."""
    largest = max(row)
    powers = [math.exp(value - largest) for value in row]
    total = _total(powers)
    return [power / total for power in powers]


def _crashed(how: str, why: str) -> UndefinedMetricError:
    return UndefinedMetricError(f"StaICC 0.1.1 ends with {how} here: {why}")


def _rows(prediction: Sequence[Sequence[float]]) -> list[list[float]]:
    rows = numeric_rows(prediction)
    if not rows:
        raise _crashed("an error", "there are no predictions")
    return rows


def probability_like(row: Sequence[float]) -> bool:
    """Return whether the release takes a row for probabilities.

    Args:
        row: One number per label.

    Returns:
        True if all lie in [0, 1] and their sum from left to right is exactly 1.0.

    Example:
        >>> probability_like([0.1, 0.2, 0.7]), probability_like([0.7, 0.2, 0.1])
        (True, False)
    """
    return all(0 <= value <= 1 for value in row) and _total(row) == 1.0


def _reshaped(rows: list[list[float]]) -> list[list[float]]:
    """Softmax every row unless every row is probability-like."""
    return rows if all(map(probability_like, rows)) else list(map(softmax, rows))


def _scored(ground_truth: Sequence[int], prediction: Sequence[Sequence[float]]) -> tuple[list[int], list[list[float]]]:
    rows = _rows(prediction)
    return check_labels(ground_truth, len(rows), len(rows[0])), _reshaped(rows)


def accuracy(ground_truth: Sequence[int], prediction: Sequence[Sequence[float]]) -> float:
    """Accuracy as released: of the first maximum after the softmax that the release may take.

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
    return classification.accuracy(*_scored(ground_truth, prediction))


def averaged_truelabel_likelihood(ground_truth: Sequence[int], prediction: Sequence[Sequence[float]]) -> float:
    """Mean probability of the true label as released: of the rows after the softmax that the release may take.

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
        >>> round(averaged_truelabel_likelihood([0], [[0.9, 0.1000001]]), 2)
        0.69
    """
    return classification.averaged_truelabel_likelihood(*_scored(ground_truth, prediction))


def macro_F1(ground_truth: Sequence[int], prediction: Sequence[Sequence[float]]) -> float:
    """Macro F1 as released: 0 for a label that is neither predicted nor true.

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
    return classification.macro_F1(*_scored(ground_truth, prediction))


def expected_calibration_error_1(ground_truth: Sequence[int], prediction: Sequence[Sequence[float]]) -> float:
    """Calibration error as released: ten bins without their upper ends, so that the confidence 1.0 counts nowhere.

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
    truth, rows = _scored(ground_truth, prediction)
    if len(rows) < _BINS:
        raise _crashed("a ValueError", f"its calibration error needs at least {_BINS} queries; there are {len(rows)}")
    binned = [(true, row) for true, row in zip(truth, rows, strict=True) if max(row) < 1.0]
    if not binned:
        return 0.0
    labels, inside = zip(*binned, strict=True)
    return classification.expected_calibration_error_1(labels, inside) * len(binned) / len(rows)


def expand_label_indexes(indexes: Sequence[int], ground_truth: Sequence[int] = ()) -> list[list[float]]:
    """Make one-hot rows of label indexes as the release does: as wide as the largest index requires.

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
        raise _crashed("an IndexError", "there are no predictions")
    for number, label in enumerate(indexes):
        if (whole := whole_number(label)) is None or whole < 0:
            raise ArgumentError(f"predicted label {number} is {label!r}; expected a label index, an integer from 0 on")
    width = max(indexes) + 1
    highest = max(ground_truth, default=0)
    if highest >= width:
        raise _crashed(
            "an IndexError",
            f"label {highest} is true somewhere, but no label above {width - 1} is predicted, and the release makes "
            f"one-hot rows of only {width} columns",
        )
    return [[1.0 if column == label else 0.0 for column in range(width)] for label in indexes]


def mean_distribution(prediction: Sequence[Sequence[float]]) -> list[float]:
    """Average raw outputs label by label ("distribution" of contextual and domain bias).

    Args:
        prediction: One row per query, as the inference function returned it; logits are averaged as such.

    Returns:
        One mean per label, no distribution unless the rows are.

    Raises:
        OutputError: A row cannot be read as numbers.
        UndefinedMetricError: There are no predictions.

    Example:
        >>> mean_distribution([[1.0, 2.0], [3.0, 5.0]])
        [2.0, 3.5]
    """
    rows = _rows(prediction)
    return [_total(column) / len(rows) for column in zip(*rows, strict=True)]


def entropy(values: Sequence[float]) -> float:
    """Entropy as released, in nats: of the softmax of the values unless they are exactly probabilities.

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
    (row,) = _reshaped(numeric_rows([values]))
    return -_total(value * math.log(value) for value in row if value != 0) + 0.0


def entropy_of_mean(prediction: Sequence[Sequence[float]]) -> float:
    """Entropy of the averaged raw outputs ("entropy" of contextual and domain bias).

    Args:
        prediction: One row per query, as the inference function returned it.

    Returns:
        A number from 0 to the logarithm of the number of labels.

    Raises:
        OutputError: A row cannot be read as numbers.
        UndefinedMetricError: There are no predictions, or each label has minus infinity in a row.

    Example:
        >>> round(entropy_of_mean([[1.0, 2.0], [3.0, 5.0]]), 4)
        0.4751
    """
    mean = mean_distribution(prediction)
    if max(mean) == -math.inf:
        raise UndefinedMetricError("each label has a logit of minus infinity in some row, so its mean has no softmax")
    return entropy(mean)


def kl_divergence(p: Sequence[float], q: Sequence[float]) -> float:
    """Sum of p log(p/q) as released, for any positive numbers, in nats.

    Args:
        p: One positive number per label.
        q: As many positive numbers.

    Returns:
        The sum; no divergence, and possibly negative, unless both are distributions.

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
    for label, (a, b) in enumerate(zip(p, q, strict=True)):
        if b == 0:
            raise _crashed("a ZeroDivisionError", f"label {label} has the frequency 0")
        if not a / b > 0:
            raise _crashed("a ValueError (math domain error)", f"the averaged prediction of label {label} is {a}")
    return _total(a * math.log(a / b) for a, b in zip(p, q, strict=True))


def _frequencies(ground_truth: Sequence[int], rows: list[list[float]]) -> list[float]:
    return label_frequencies(check_labels(ground_truth, len(rows), len(rows[0])), len(rows[0]))


def divergence(ground_truth: Sequence[int], prediction: Sequence[Sequence[float]]) -> float:
    """Divergence of the label frequency from the averaged raw outputs ("DL div." of the posterior bias).

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
    rows = _rows(prediction)
    return kl_divergence(mean_distribution(rows), _frequencies(ground_truth, rows))


def excess_distribution(ground_truth: Sequence[int], prediction: Sequence[Sequence[float]]) -> list[float]:
    """Averaged raw outputs minus the label frequency ("distribution" of the posterior bias).

    Args:
        ground_truth: One label index per query.
        prediction: One row per query, as the inference function returned it.

    Returns:
        One difference per label.

    Raises:
        ArgumentError: The true labels do not fit the rows.
        OutputError: A row cannot be read as numbers.
        UndefinedMetricError: There are no predictions.

    Example:
        >>> excess_distribution([0, 1], [[1.0, 2.0], [3.0, 5.0]])
        [1.5, 3.0]
    """
    rows = _rows(prediction)
    return list(map(operator.sub, mean_distribution(rows), _frequencies(ground_truth, rows)))


def gler_abscissas(interpolations: int = 5) -> list[float]:
    """Abscissas of the released GLER: the noise rates, subtracted from 1 one after the other.

    Args:
        interpolations: The number of noise rates, at least 2.

    Returns:
        One abscissa per noise rate.

    Raises:
        ArgumentError: The number is not an integer of at least 2.

    Example:
        >>> gler_abscissas()
        [1.0, 0.75, 0.25, -0.5, -1.5]
    """
    interpolations = validate_integer("interpolations", interpolations, 2)
    abscissas, abscissa = [], 1.0
    for step in range(interpolations):
        abscissa -= step / (interpolations - 1)
        abscissas.append(abscissa)
    return abscissas


def gler(values: Sequence[float]) -> Line:
    """Regress a metric on the released abscissas ("sensitivity" of GLER).

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
    """Consistency as released, from the rows of all runs in one list.

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
    predicted = predicted_labels(_reshaped(_rows(prediction)))
    if queries < 1 or len(predicted) % queries:
        raise ArgumentError(
            f"there are {len(predicted)} rows for runs of {queries} queries; expected a multiple of that"
        )
    return diagnosis.consistency([predicted[query::queries] for query in range(queries)])

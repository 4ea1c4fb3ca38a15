"""Metrics of classification: accuracy, averaged true-label likelihood, macro F1, expected calibration error.

Each metric has the shape ``metric(ground_truth, prediction) -> float``: one true label index per query, and one row per
query with one number per label. The width of the rows is the size of the label space, whatever labels occur. The
prediction of a row is its *first* maximum (:func:`predicted_labels`).

Accuracy and macro F1 depend on the order within a row only, so probabilities, logits and one-hot rows are all valid.
Likelihood and calibration error need probabilities (:func:`normalise`) and are undefined for bare labels.

Arguments of all metrics: ``ground_truth`` is one label index per query; ``prediction`` is one row per query with one
number per label, which for likelihood and calibration error must be a probability distribution. Errors of all:
``ArgumentError`` if the true labels do not fit the rows, ``OutputError`` if a row is invalid, and
``UndefinedMetricError`` if there are no predictions.

All sums are exact (integers, `math.fsum`), so the result does not depend on the order of the queries. Definitions:
Cho and Inoue (2025), section 3.2.

**Probabilities or logits** (:func:`normalise`). A function may return probabilities or logits, and nothing in a row of
numbers says which. The kind is therefore decided once for the *whole matrix* (one row per query, one column per label).
Three rules are tried in this order:

================================================================== =================================================
the matrix                                                         kind
================================================================== =================================================
every row is non-negative and sums to 1 within `SUM_TOLERANCE`     probabilities
some value is negative, and few rows look like probabilities       logits
everything else: no value is negative and a row does not sum to 1, ambiguous
or a mixture of both kinds of rows
================================================================== =================================================

A value is negative if it is below minus `EXACT_TOLERANCE`. A value between that and zero is a probability of zero with
a rounding error, and counts as zero.

Non-negative rows that are no probabilities can be logits, counts, ratings, percentages, votes, weights, probabilities
cut from a vocabulary, or negative log-likelihoods. Their values do not tell which, so they are always ambiguous.

A row of logits can look like probabilities by chance, but rarely. A matrix with values outside [0, 1] is called a
mixture in three cases:

- 1 % of its rows or more sum to 1 within `EXACT_TOLERANCE`. (By chance, two normal logits do so in a few rows of a
  million in single precision, in less than two of a thousand on the coarse grid of bfloat16.)
- 10 % of its rows or more sum to 1 within `SUM_TOLERANCE`. (By chance, less than 2 %.)
- More than half of its rows lie in [0, 1] altogether. (By chance, at most a quarter for two logits around zero.)

An ambiguous matrix is not converted: there are then no probabilities but a reason, metrics that need probabilities are
undefined, and metrics that only look at the order within a row still work on the rows as they are. A caller who knows
the kind states it. Rows that are already a distribution to within rounding stay as they are, bit for bit.

NaN, plus infinity and rows of unequal length are errors that name the row. Minus infinity is a logit: probability zero.
"""

from __future__ import annotations

import math
import reprlib
from bisect import bisect_right
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal, NamedTuple, get_args

from StaICC import numerics
from StaICC.arguments import known_name, validate_integer, whole_number
from StaICC.errors import ArgumentError, OutputError, UndefinedMetricError

Kind = Literal["auto", "probabilities", "logits"]
"""The kind of a matrix of predictions. ``"auto"``: it is decided from the values."""

SUM_TOLERANCE = 2.0**-7
"""How far from 1 the sum of a row of probabilities may be.

Rounding each of some non-negative numbers to a format changes their sum by no more than the format's unit roundoff,
however many there are: 2^-24 in single precision, 2^-11 in half precision, 2^-8 in bfloat16. The tolerance is twice the
largest of these, which also covers truncation to bfloat16.
"""

EXACT_TOLERANCE = 1e-6
"""How near to 1 a sum must be to count as exact when mixtures are looked for, and how far below 0 a probability may be.

Single precision reaches it.
"""

_EXACT_SHARE = 0.01
"""Share of rows that sum to 1 within `EXACT_TOLERANCE` from which on a matrix with negative values is a mixture.

By chance, two normal logits do so in less than two rows of a thousand, even in bfloat16.
"""

_ROUGH_SHARE = 0.1
"""Share of rows that sum to 1 within `SUM_TOLERANCE` from which on such a matrix is a mixture.

By chance, it is less than 0.02.
"""

_RANGE_SHARE = 0.5
"""Share of rows within [0, 1] above which such a matrix is a mixture.

By chance, it is at most a quarter for two logits around zero.
"""

_SUM_ROUNDING = 2.0**-50
"""A row whose sum is this near to 1 stays unchanged, bit for bit: dividing would only add rounding."""

LOSSES = "of losses, return the negatives, which are logits"
"""Advice about numbers that may be losses."""
_ADVICE = "say what they are: outputs='probabilities' divides each row by its sum, outputs='logits' takes the softmax"


class ValidRows(tuple[tuple[float, ...], ...]):
    """Rows of predictions that :func:`valid_rows` checked. They cannot be changed, so they are checked only once."""

    __slots__ = ()


class ValidProbabilities(ValidRows):
    """Rows that are probability distributions, as :func:`valid_probabilities` checks them."""

    __slots__ = ()


@dataclass(frozen=True, slots=True)
class Normalised:
    """A matrix of predictions, read as probabilities or logits, or ambiguous.

    Attributes:
        probabilities: One distribution per row, or None if the kind is ambiguous.
        kind: What the matrix was taken for.
        reason: Why the kind is ambiguous, naming rows; None otherwise.
    """

    probabilities: ValidProbabilities | None
    kind: Literal["probabilities", "logits", "ambiguous"]
    reason: str | None = None


@dataclass(frozen=True, slots=True)
class _Matrix:
    """A matrix of predictions that was read as floats; all rows have the same length."""

    rows: list[list[float]]
    totals: list[float]
    """The exact sum of each row, infinite if it is beyond the range of floats."""


@dataclass(frozen=True, slots=True)
class _RowGroups:
    """The indexes of the rows of a matrix, in three groups by the values of the row. Each row is in one group."""

    sum_to_one: list[int]
    """No value is negative, and the sum is 1 within `SUM_TOLERANCE`."""
    within_0_and_1: list[int]
    """All values are in [0, 1], with another sum."""
    others: list[int]


def _row_error(row_index: int, row: Sequence[float], problem: str) -> OutputError:
    """Return the error for a row that cannot be read as numbers; ``problem`` is the verb phrase about the row."""
    return OutputError(
        f"row {row_index} of the predictions {problem}: {reprlib.repr(row)}; expected one finite number per label"
    )


def _refuse_nan_and_plus_infinity(row_index: int, values: list[float]) -> None:
    """Raise an OutputError for NaN, for plus infinity, and for a row with minus infinity in every column."""
    for column, value in enumerate(values):
        if math.isnan(value) or value == math.inf:
            raise OutputError(
                f"row {row_index}, column {column} of the predictions is {value}; expected a finite number "
                "(minus infinity is allowed as a logit: probability zero)"
            )
    if all(value == -math.inf for value in values):
        raise OutputError(f"row {row_index} of the predictions is minus infinity in every column; one must be finite")


def sum_or_infinity(numbers: Sequence[float]) -> float:
    """Return the exact sum of numbers, or plus infinity where :func:`math.fsum` has no sum.

    It has none for infinities of both signs, and for finite numbers that add up to more than a float holds. Numbers
    with infinities of one sign have this infinity as their sum, and numbers with NaN have NaN.

    Raises:
        TypeError: An item is no number. In contrast to ``float()``, ``math.fsum()`` refuses a text such as "0.5".
    """
    try:
        return math.fsum(numbers)
    except (ValueError, OverflowError):
        return math.inf


def _read_row(row_index: int, row: Sequence[float]) -> tuple[list[float], float]:
    """Return the values of one row as floats, and their exact sum, which may be infinite (:func:`sum_or_infinity`).

    Args:
        row_index: Its index, for error messages.
        row: The row as the inference function returned it.

    Raises:
        OutputError: The row is not a sequence of numbers, is empty, has NaN or plus infinity, or has minus infinity for
            every label.
    """
    if isinstance(row, (str, bytes)):
        raise _row_error(row_index, row, "is text")
    try:
        numbers = row if isinstance(row, (list, tuple)) else list(row)
        total = sum_or_infinity(numbers)
        values = list(map(float, numbers))
    except (TypeError, ValueError, OverflowError) as error:
        raise _row_error(row_index, row, f"cannot be read as numbers ({error})") from None
    if not math.isfinite(total):  # a row with a finite sum has neither NaN nor infinity
        _refuse_nan_and_plus_infinity(row_index, values)
    if not values:
        raise _row_error(row_index, row, "is empty")
    return values, total


def _read_matrix(matrix: Sequence[Sequence[float]]) -> _Matrix:
    """Return a copy of a matrix as lists of floats, after checking it (see :func:`numeric_rows`)."""
    rows: list[list[float]] = []
    totals: list[float] = []
    for row_index, row in enumerate(matrix):
        values, total = _read_row(row_index, row)
        if rows and len(values) != len(rows[0]):
            raise OutputError(
                f"row {row_index} of the predictions has {len(values)} columns, row 0 has {len(rows[0])}; "
                "expected one number per label in every row"
            )
        rows.append(values)
        totals.append(total)
    return _Matrix(rows, totals)


def _group_rows(matrix: _Matrix) -> _RowGroups:
    """Return the rows in groups by their values.

    Args:
        matrix: The matrix. Rounding errors below zero must have been replaced by zero (:func:`_rounded_to_zero`).
    """
    groups = _RowGroups(sum_to_one=[], within_0_and_1=[], others=[])
    for row_index, (row, total) in enumerate(zip(matrix.rows, matrix.totals, strict=True)):
        is_non_negative = min(row) >= 0
        if is_non_negative and abs(total - 1.0) <= SUM_TOLERANCE:
            groups.sum_to_one.append(row_index)
        elif is_non_negative and max(row) <= 1:
            groups.within_0_and_1.append(row_index)
        else:
            groups.others.append(row_index)
    return groups


def _has_negative_value(rows: list[list[float]]) -> bool:
    """Return whether any value of any row is negative."""
    return min(map(min, rows)) < 0


def _is_mixture(matrix: _Matrix, groups: _RowGroups) -> bool:
    """Return whether a matrix with negative values has rows of probabilities, too, so that not all rows are logits.

    Some rows of logits look like probabilities by chance. The matrix is a mixture if the share of such rows is larger
    than chance explains, in one of three ways of counting them (see the top of this module).
    """
    exact_count = 0
    for row_index in groups.sum_to_one:
        if abs(matrix.totals[row_index] - 1.0) <= EXACT_TOLERANCE:
            exact_count += 1
    row_count = len(matrix.rows)
    if exact_count / row_count >= _EXACT_SHARE:
        return True
    if len(groups.sum_to_one) / row_count >= _ROUGH_SHARE:
        return True
    in_range_count = len(groups.sum_to_one) + len(groups.within_0_and_1)
    return in_range_count / row_count > _RANGE_SHARE


def _decide_kind(matrix: _Matrix, groups: _RowGroups) -> Literal["probabilities", "logits", "ambiguous"]:
    """Return what a matrix holds by the rules at the top of this module."""
    if len(groups.sum_to_one) == len(matrix.rows):
        return "probabilities"
    if _has_negative_value(matrix.rows) and not _is_mixture(matrix, groups):
        return "logits"
    return "ambiguous"


def _why_ambiguous(matrix: _Matrix, groups: _RowGroups) -> str:
    """Return the reason why the kind of a matrix is ambiguous, with the first row that shows it."""
    if not _has_negative_value(matrix.rows):
        first = min([*groups.within_0_and_1, *groups.others])
        return (
            f"no value is negative, but row {first} sums to {matrix.totals[first]:.6g}. So the numbers "
            "may be positive logits, counts, percentages, losses, or probabilities of some tokens of a vocabulary; "
            f"{_ADVICE}; {LOSSES}"
        )
    return _why_mixture(matrix, groups)


def _why_mixture(matrix: _Matrix, groups: _RowGroups) -> str:
    """Return the reason why a matrix with negative values is a mixture, with the first row of both kinds."""
    row_count = len(matrix.rows)
    if groups.sum_to_one:
        looks_like_probabilities = (
            f"{len(groups.sum_to_one)} of {row_count} rows sum to 1 (the first is row {groups.sum_to_one[0]})"
        )
    else:
        looks_like_probabilities = (
            f"{len(groups.within_0_and_1)} of {row_count} rows lie in [0, 1] "
            f"(the first is row {groups.within_0_and_1[0]})"
        )
    # A matrix with a negative value has at least one row in the group of others.
    first = groups.others[0]
    outside = [value for value in matrix.rows[first] if not 0 <= value <= 1]
    return (
        f"the predictions are a mixture: {looks_like_probabilities}, but row {first} has the value {outside[0]:.6g} "
        f"outside [0, 1]; {_ADVICE}"
    )


def _without_rounding_below_zero(rows: list[list[float]]) -> list[list[float]]:
    """Return rows with zero in place of negative values that are rounding errors; the same list if there are none.

    A function that computes ``1 - p`` for a probability p may return -1e-17 instead of 0. If any value is below minus
    `EXACT_TOLERANCE`, the negative values are no rounding errors.
    """
    lowest = min(map(min, rows))
    has_rounding_errors = -EXACT_TOLERANCE <= lowest < 0
    if not has_rounding_errors:
        return rows
    return [[max(value, 0.0) for value in row] for row in rows]


def _rounded_to_zero(matrix: _Matrix) -> _Matrix:
    """Return a matrix with zero in place of rounding errors below zero, and with the sums of its new rows."""
    rows = _without_rounding_below_zero(matrix.rows)
    if rows is matrix.rows:  # nothing was replaced
        return matrix
    totals = []
    for row, total in zip(rows, matrix.totals, strict=True):
        if math.isfinite(total):
            total = math.fsum(row)
        totals.append(total)
    return _Matrix(rows, totals)


def _divide_by_sum(row_index: int, row: list[float], total: float) -> tuple[float, ...]:
    """Return probabilities: non-negative numbers divided by their sum.

    Args:
        row_index: The index of the row, for error messages.
        row: The numbers.
        total: Their sum; infinite if it is beyond the range of floats.

    Raises:
        OutputError: A number is negative, or all are zero.
    """
    lowest = min(row)
    if lowest < 0:
        raise OutputError(
            f"row {row_index}, column {row.index(lowest)} of the predictions is {lowest}, "
            "which cannot be a probability; expected numbers of at least 0, or outputs='logits'"
        )
    if total == 0:
        raise OutputError(
            f"row {row_index} of the predictions sums to 0, so it has no probabilities; expected a positive sum"
        )
    if abs(total - 1.0) <= _SUM_ROUNDING:
        return tuple(row)
    if math.isinf(total):  # divided by the largest number first, the row has a finite sum
        largest = max(row)
        row = [value / largest for value in row]
        total = math.fsum(row)
    return tuple([value / total for value in row])


def numeric_rows(matrix: Sequence[Sequence[float]]) -> list[list[float]]:
    """Return a copy of a matrix of predictions as lists of floats, after checking its rows.

    Args:
        matrix: One row per query, one real number per label. Arrays and tensors will do.

    Returns:
        The rows. The argument is not changed.

    Raises:
        OutputError: A row is not a sequence of real numbers, is empty, differs in length from the first, has NaN or
            plus infinity, or has minus infinity for every label. The message names row and column.

    Example:
        >>> numeric_rows([(1, 0), (0.25, 0.75)])
        [[1.0, 0.0], [0.25, 0.75]]
    """
    return _read_matrix(matrix).rows


def valid_rows(matrix: Sequence[Sequence[float]]) -> ValidRows:
    """Return a matrix of predictions as tuples of floats, after the checks of :func:`numeric_rows`.

    Valid rows are returned unchanged, without a second check.

    Raises:
        OutputError: As for :func:`numeric_rows`.
    """
    if isinstance(matrix, ValidRows):
        return matrix
    return ValidRows(map(tuple, numeric_rows(matrix)))


def softmax(row: Sequence[float]) -> list[float]:
    """Turn logits into probabilities, without overflow.

    Args:
        row: One logit per label; minus infinity means probability zero.

    Returns:
        Probabilities in the same order; they sum to 1 to within rounding.

    Raises:
        OutputError: The row is empty, holds something that is no number, NaN or plus infinity, or has minus infinity
            for every label.

    Example:
        >>> softmax([1000.0, 1000.0, float("-inf")])
        [0.5, 0.5, 0.0]
    """
    return numerics.softmax(numeric_rows([row])[0])


def normalise(matrix: Sequence[Sequence[float]], kind: Kind = "auto") -> Normalised:
    """Turn a matrix of probabilities or logits into probabilities.

    Args:
        matrix: One row per query, one number per label.
        kind: ``"auto"`` decides for the whole matrix by the rule at the top of this module; ``"logits"`` takes the
            softmax of each row; ``"probabilities"`` divides each row by its sum.

    Returns:
        The probabilities with the kind that was found, or no probabilities and the reason.

    Raises:
        OutputError: A row cannot be read (see :func:`numeric_rows`), or cannot be probabilities although they were
            demanded: it has a negative value or sums to zero.
        UndefinedMetricError: There are no rows.
        UnknownNameError: There is no such kind.

    Example:
        >>> normalise([[0.9, 0.1], [0.5, 0.5]]).kind
        'probabilities'
        >>> normalise([[3.0, -1.0], [0.5, 0.5]], kind="logits").probabilities[1]
        (0.5, 0.5)
        >>> normalise([[0.09, 0.01], [0.2, 0.2]]).probabilities is None
        True
        >>> normalise([[0.09, 0.01], [0.2, 0.2]], kind="probabilities").probabilities[1]
        (0.5, 0.5)
    """
    known_name("kind of predictions", kind, get_args(Kind))
    read = _read_matrix(matrix)
    if not read.rows:
        raise UndefinedMetricError("there are no predictions, so nothing can be said about their kind")

    if kind == "auto":
        read = _rounded_to_zero(read)
        groups = _group_rows(read)
        decided = _decide_kind(read, groups)
        if decided == "ambiguous":
            return Normalised(None, "ambiguous", reason=_why_ambiguous(read, groups))
        kind = decided
    elif kind == "probabilities":
        read = _rounded_to_zero(read)

    if kind == "logits":
        return Normalised(ValidProbabilities([tuple(numerics.softmax(row)) for row in read.rows]), "logits")
    probabilities = []
    for row_index, (row, total) in enumerate(zip(read.rows, read.totals, strict=True)):
        probabilities.append(_divide_by_sum(row_index, row, total))
    return Normalised(ValidProbabilities(probabilities), "probabilities")


class ConfidenceBin(NamedTuple):
    """Sums over the queries whose confidence falls into one bin: enough for ECE-1 and for a reliability diagram."""

    queries: int
    """Queries in the bin."""
    confidence: float
    """The sum of their confidences."""
    correct: int
    """How many of them are predicted correctly."""


def check_labels(ground_truth: Sequence[int], queries: int, labels: int) -> list[int]:
    """Check true label indexes against the predictions that they belong to.

    Args:
        ground_truth: One label index per query.
        queries: The number of queries that were predicted.
        labels: The number of labels.

    Returns:
        The indexes as integers.

    Raises:
        ArgumentError: An entry is not an integer or not an index of the label space, or there are more or fewer entries
            than queries.

    Example:
        >>> check_labels((0, 1), queries=2, labels=2)
        [0, 1]
    """
    if len(ground_truth) != queries:
        raise ArgumentError(
            f"there are {len(ground_truth)} true labels for {queries} rows of predictions; expected one label per row"
        )
    is_common_case = set(map(type, ground_truth)) == {int}
    if is_common_case and min(ground_truth) >= 0 and max(ground_truth) < labels:
        return list(ground_truth)

    checked = []
    for query_index, label in enumerate(ground_truth):
        label_index = whole_number(label)
        if label_index is None or not 0 <= label_index < labels:
            raise ArgumentError(
                f"true label {query_index} is {label!r}; expected a label index, an integer from 0 to {labels - 1}, "
                f"for rows of {labels} columns"
            )
        checked.append(label_index)
    return checked


def check_probabilities(rows: Sequence[Sequence[float]]) -> list[list[float]]:
    """Check that each row is a probability distribution.

    Args:
        rows: One row per query, one probability per label.

    Returns:
        The rows as lists of floats.

    Raises:
        OutputError: A row cannot be read as numbers, has a value below minus `EXACT_TOLERANCE`, or does not sum to 1
            within `SUM_TOLERANCE`.

    Example:
        >>> check_probabilities([(0.5, 0.5)])
        [[0.5, 0.5]]
    """
    checked = numeric_rows(rows)
    if not checked:
        return []
    for row_index, row in enumerate(checked):
        lowest = min(row)
        total = math.fsum(row)
        if lowest < -EXACT_TOLERANCE or abs(total - 1.0) > SUM_TOLERANCE:
            raise OutputError(
                f"row {row_index} of the predictions is no probability distribution (lowest value {lowest:.6g}, sum "
                f"{total:.6g}); expected numbers from 0 to 1 that sum to 1, as normalise() of StaICC.metrics makes them"
            )
    return _without_rounding_below_zero(checked)


def valid_probabilities(rows: Sequence[Sequence[float]]) -> ValidProbabilities:
    """Return rows as tuples of floats, after the checks of :func:`check_probabilities`.

    Valid probabilities, such as those of :func:`normalise`, are returned unchanged, without a second check.

    Raises:
        OutputError: As for :func:`check_probabilities`.
    """
    if isinstance(rows, ValidProbabilities):
        return rows
    return ValidProbabilities(map(tuple, check_probabilities(rows)))


def check_truth(ground_truth: Sequence[int], rows: Sequence[Sequence[float]]) -> list[int]:
    """Return the true labels after checking them against the rows.

    Raises:
        ArgumentError: The true labels do not fit the rows.
        UndefinedMetricError: There are neither rows nor labels.
    """
    if not rows and len(ground_truth) == 0:
        raise UndefinedMetricError("there are no predictions to score; a metric of nothing is undefined")
    label_count = len(rows[0]) if rows else 0
    return check_labels(ground_truth, queries=len(rows), labels=label_count)


def predicted_labels(prediction: Sequence[Sequence[float]]) -> list[int]:
    """Take the predicted label of each row: the index of its first maximum.

    Args:
        prediction: One row per query, one number per label: probabilities or logits.

    Returns:
        One label index per row. Of tied labels the first in the label space wins, as in NumPy and in StaICC 0.1.1.

    Raises:
        OutputError: A row cannot be read as numbers.

    Example:
        >>> predicted_labels([[0.2, 0.8], [0.5, 0.5]])
        [1, 0]
    """
    return [row.index(max(row)) for row in valid_rows(prediction)]


def accuracy(ground_truth: Sequence[int], prediction: Sequence[Sequence[float]]) -> float:
    """Share of the queries whose predicted label is the true one.

    Returns:
        A number from 0 to 1.

    Example:
        >>> accuracy([0, 1], [[0.9, 0.1], [0.6, 0.4]])
        0.5
    """
    rows = valid_rows(prediction)
    truth = check_truth(ground_truth, rows)
    correct_count = 0
    for true_label, predicted_label in zip(truth, predicted_labels(rows), strict=True):
        if predicted_label == true_label:
            correct_count += 1
    return correct_count / len(rows)


def averaged_truelabel_likelihood(ground_truth: Sequence[int], prediction: Sequence[Sequence[float]]) -> float:
    """Mean probability that the predictions assign to the true label (the paper's TLP, or ATL).

    Returns:
        A number from 0 to 1.

    Example:
        >>> averaged_truelabel_likelihood([0, 1], [[0.75, 0.25], [0.5, 0.5]])
        0.625
    """
    rows = valid_probabilities(prediction)
    truth = check_truth(ground_truth, rows)
    likelihoods = [row[true_label] for row, true_label in zip(rows, truth, strict=True)]
    return math.fsum(likelihoods) / len(likelihoods)


def brier_of_query(true_label: int, row: Sequence[float]) -> float:
    """Return the squared distance of a row of probabilities to the row that is certain of the true label.

    The distance is ``sum over labels y of (p(y) - t(y))^2``, where t is 1 for the true label and 0 for the others.

    Returns:
        A number from 0 (certain of the true label) to 2 (certain of another label).

    Example:
        >>> brier_of_query(0, [0.75, 0.25])
        0.125
    """
    squares = []
    for label, probability in enumerate(row):
        target = 1.0 if label == true_label else 0.0
        squares.append((probability - target) ** 2)
    return math.fsum(squares)


def brier(ground_truth: Sequence[int], prediction: Sequence[Sequence[float]]) -> float:
    """Brier score: mean squared distance of the probabilities to the true label (see :func:`brier_of_query`).

    It is the sum over all labels, as Brier defined it: scikit-learn's ``brier_score_loss(..., scale_by_half=False)``.
    For two labels, it is twice the binary score ``(p - t)^2``.

    Returns:
        A number from 0 to 2; lower is better.

    Source:
        Brier 1950, "Verification of forecasts expressed in terms of probability", Monthly Weather Review 78.

    Example:
        >>> brier([0, 1], [[0.75, 0.25], [0.5, 0.5]])
        0.3125
    """
    rows = valid_probabilities(prediction)
    truth = check_truth(ground_truth, rows)
    distances = [brier_of_query(true_label, row) for row, true_label in zip(rows, truth, strict=True)]
    return math.fsum(distances) / len(distances)


def nll(ground_truth: Sequence[int], prediction: Sequence[Sequence[float]]) -> float:
    """Negative log-likelihood: minus the mean natural logarithm of the probability of the true label (log loss).

    Returns:
        A number from 0 on, without a largest value; lower is better.

    Raises:
        UndefinedMetricError: Some true labels have the probability 0, whose logarithm is infinite.

    Example:
        >>> nll([0, 1], [[1.0, 0.0], [0.5, 0.5]])
        0.34657359027997264
    """
    rows = valid_probabilities(prediction)
    truth = check_truth(ground_truth, rows)
    likelihoods = [row[true_label] for row, true_label in zip(rows, truth, strict=True)]
    zero_count = likelihoods.count(0.0)
    if zero_count:
        raise UndefinedMetricError(
            f"{zero_count} of {len(likelihoods)} queries have the probability 0 for the true label, whose negative "
            "logarithm is infinite"
        )
    surprisals = [negative_logarithm(likelihood) for likelihood in likelihoods]
    return math.fsum(surprisals) / len(surprisals)


def negative_logarithm(probability: float) -> float:
    """Return minus the natural logarithm of a probability; infinity for the probability 0."""
    if probability == 0.0:
        return math.inf
    # Rounding can make a probability larger than 1. Its negative logarithm would be below 0, the lowest value.
    return max(0.0, -math.log(probability))


def macro_F1(ground_truth: Sequence[int], prediction: Sequence[Sequence[float]]) -> float:
    """Mean over all labels of the harmonic mean of precision and recall.

    A label that is neither predicted nor true has F1 = 0/0. It counts as 0: the paper divides by the size of the label
    space, and so do StaICC 0.1.1 and scikit-learn's ``f1_score(average="macro", labels=range(L), zero_division=0)``.
    The mean is thus over the same number of labels for every model and every part of the data.

    Returns:
        A number from 0 to 1.

    Example:
        >>> macro_F1([0, 1, 1], [[0.9, 0.1], [0.2, 0.8], [0.6, 0.4]])
        0.6666666666666666
    """
    rows = valid_rows(prediction)
    truth = check_truth(ground_truth, rows)
    label_count = len(rows[0])
    correct = [0] * label_count
    true = [0] * label_count
    predicted = [0] * label_count
    for true_label, predicted_label in zip(truth, predicted_labels(rows), strict=True):
        true[true_label] += 1
        predicted[predicted_label] += 1
        if predicted_label == true_label:
            correct[true_label] += 1

    # With precision P = correct / predicted and recall R = correct / true,
    # F1 = 2 P R / (P + R) = 2 correct / (true + predicted). It is 0/0 only for a label that does not occur at all.
    f1_scores = []
    for label in range(label_count):
        occurrences = true[label] + predicted[label]
        if occurrences == 0:
            f1_scores.append(0.0)
        else:
            f1_scores.append(2 * correct[label] / occurrences)
    return math.fsum(f1_scores) / label_count


def confidence_bin(confidence: float, bins: int = 10) -> int:
    """Return the index of the bin that holds a confidence, from 0 to ``bins`` - 1 (see :func:`confidence_bins`).

    Args:
        confidence: Highest probability of a row.
        bins: The number of bins.

    Example:
        >>> confidence_bin(0.35), confidence_bin(0.4), confidence_bin(1.0)
        (3, 4, 9)
    """
    return bisect_right(inner_edges(bins), confidence)  # the number of edges that are not above the confidence


def inner_edges(bins: int = 10) -> list[float]:
    """Return the edges between bins of equal width: ``1 / bins``, ``2 / bins`` and so on."""
    return [edge / bins for edge in range(1, bins)]


def confidence_bins(
    ground_truth: Sequence[int], prediction: Sequence[Sequence[float]], bins: int = 10
) -> tuple[ConfidenceBin, ...]:
    """Sort the queries into bins of equal width by confidence, the highest probability of their row.

    Bin b of B holds the confidences from b/B to (b + 1)/B, without the upper end. The last bin includes its upper end,
    so that a confidence of 1 is in a bin.

    Args:
        ground_truth: One label index per query.
        prediction: One probability distribution over the labels per query.
        bins: The number of bins; the benchmark has 10.

    Returns:
        The bins, in ascending order of confidence.

    Raises:
        ArgumentError: ``bins`` is not a positive integer.

    Example:
        >>> confidence_bins([1, 0], [[0.25, 0.75], [0.0, 1.0]], bins=2)[1]
        ConfidenceBin(queries=2, confidence=1.75, correct=1)
    """
    bins = validate_integer("bins", bins, minimum=1)
    rows = valid_probabilities(prediction)
    truth = check_truth(ground_truth, rows)
    edges = inner_edges(bins)
    confidences_by_bin: list[list[float]] = [[] for _ in range(bins)]
    correct_by_bin = [0] * bins
    for true_label, row in zip(truth, rows, strict=True):
        confidence = max(row)
        bin_index = bisect_right(edges, confidence)  # as confidence_bin() does it
        confidences_by_bin[bin_index].append(confidence)
        if row.index(confidence) == true_label:
            correct_by_bin[bin_index] += 1

    sums_by_bin = []
    for confidences, correct in zip(confidences_by_bin, correct_by_bin, strict=True):
        confidence_sum = math.fsum(confidences)
        sums_by_bin.append(ConfidenceBin(queries=len(confidences), confidence=confidence_sum, correct=correct))
    return tuple(sums_by_bin)


def expected_calibration_error_1(
    ground_truth: Sequence[int], prediction: Sequence[Sequence[float]], bins: int = 10
) -> float:
    """Mean gap between confidence and accuracy over bins of equal width (ECE-1; see :func:`confidence_bins`).

    The weight of a bin in the mean is its share of the queries.

    Args:
        ground_truth: One label index per query.
        prediction: One probability distribution over the labels per query.
        bins: The number of bins; the benchmark has 10.

    Returns:
        A number from 0 (calibrated) to 1 (certain and always wrong).

    Raises:
        ArgumentError: ``bins`` is not a positive integer.

    Example:
        >>> expected_calibration_error_1([1, 1], [[1.0, 0.0], [1.0, 0.0]])
        1.0
        >>> expected_calibration_error_1([0, 1], [[0.75, 0.25], [0.75, 0.25]])
        0.25
    """
    # ECE-1 = sum over bins b of n_b / n * |accuracy_b - confidence_b|, where accuracy and confidence are means over the
    # n_b queries of the bin. With sums in place of means, n_b cancels.
    sums_by_bin = confidence_bins(ground_truth, prediction, bins)
    gaps = [abs(sums.correct - sums.confidence) for sums in sums_by_bin]
    return math.fsum(gaps) / len(prediction)

"""Rows of requests in which some are missing: predictions or features that a run collected as failures."""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterable, Sequence
from typing import Any

from StaICC.inference.replies import Failure, failure_of_error, output_error


def is_missing(row: Any) -> bool:
    """Return whether there is a failure, or an exception that a kernel returned, in the place of a row."""
    return isinstance(row, (Failure, BaseException))


def failure_in(row: Any) -> Failure:
    """Return the failure in the place of a row that is missing."""
    if isinstance(row, Failure):
        return row
    return failure_of_error(row, str(row))


def present(rows: Iterable[Any]) -> list[Any]:
    """Return the rows that are neither failures nor exceptions."""
    return [row for row in rows if not is_missing(row)]


def apply_present(rows: Sequence[Any], apply: Callable[[list[Any]], Sequence[Any]]) -> list[Any]:
    """Return rows of which a function has replaced all but the missing ones.

    Failures and exceptions in the places of rows stay there.

    Args:
        rows: The rows; they are not changed.
        apply: Gets a list of copies of the rows that are not missing, and returns a new row for each. It is not called
            if there are none.
    """
    results = list(rows)
    positions = [position for position, row in enumerate(results) if not is_missing(row)]
    if positions:
        copies = [copy.copy(results[position]) for position in positions]
        for position, result in zip(positions, apply(copies), strict=True):
            results[position] = result
    return results


def without_failures(rows: Any, *others: Sequence[Any]) -> tuple[Any, ...]:
    """Return rows without the failures among them, and other lists without their elements at the same positions.

    Args:
        rows: Predictions or features; failures occur only in runs that collect them.
        *others: Lists of the same length, such as the labels of the rows.

    Returns:
        The shortened rows, followed by the other lists.

    Raises:
        OutputError: All rows are failures.
    """
    answered = [position for position, row in enumerate(rows) if not isinstance(row, Failure)]
    if len(answered) == len(rows):
        return (rows, *others)
    if not answered:
        check_answered(rows[:1], "calibration prompt")  # raises the error of the first failure
    shortened = []
    for values in (rows, *others):
        shortened.append([values[position] for position in answered])
    return tuple(shortened)


def check_answered(rows: Iterable[Any], what: str) -> list[Any]:
    """Return the predictions as a list; some kernels return an exception in the place of a prediction.

    Args:
        rows: Predictions of a kernel.
        what: What a row is, for the message, such as ``"calibration prompt"``.

    Raises:
        OutputError: A prediction is an exception.
    """
    predictions = list(rows)
    for number, row in enumerate(predictions):
        if is_missing(row):
            failure = failure_in(row)
            raise output_error(f"{what} {number} has no prediction: {failure.reason}", failure)
    return predictions

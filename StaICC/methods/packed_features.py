"""Features as JSON values, as a store keeps them: vectors are base64 of their bytes."""

from __future__ import annotations

import base64
import math
from collections.abc import Sequence
from typing import Any

from StaICC.errors import OutputError
from StaICC.inference.contract import Answer, Features, check_answer
from StaICC.methods.requests import CAPABILITIES, OF_TEXTS, VECTORS, Feature
from StaICC.optional import Package

numpy = Package("numpy", "hf", "this method")


def packed_row(feature: Feature, row: Any, label_space: Sequence[str]) -> Any:
    """Return a feature of a prompt as a JSON value: a list of numbers, a text for each vector, or a number.

    Args:
        feature: The name of the feature.
        row: Its value, as the kernel returned it.
        label_space: The labels, which label probabilities are checked against.

    Raises:
        OutputError: The row has NaN or an infinity, or is not what the feature is.
        BaseException: The row itself, where a kernel returned an error in its place.
    """
    if isinstance(row, BaseException):
        raise row
    if feature not in OF_TEXTS:
        return check_answer(row, label_space)
    if feature == "layers":
        return [_packed_vector("hidden", state) for state in row]
    if feature in VECTORS:
        return _packed_vector(feature, row)
    if not math.isfinite(row):
        raise OutputError(f"the loss {row} is not finite; use a wider number type of the model, such as float32")
    return float(row)


def _packed_vector(feature: Feature, row: Any) -> str:
    """Return a vector as text: its number type (``<f4`` or ``<f8``), then the base64 of its bytes."""
    array = numpy.asarray(row)
    is_vector = array.ndim == 1 and array.size > 0 and array.dtype.kind in "fiu"
    if not is_vector or not numpy.isfinite(array).all():
        raise OutputError(f"{CAPABILITIES[feature].value} must be a row of finite numbers, not NaN or infinite")
    is_single_precision = array.dtype.kind == "f" and array.dtype.itemsize <= 4
    number_type = "<f4" if is_single_precision else "<f8"
    return number_type + base64.b64encode(array.astype(number_type).tobytes()).decode("ascii")


def unpacked_row(feature: Any, value: Any) -> Any:
    """Return a feature of a prompt from its JSON value: vectors as arrays, everything else unchanged."""
    if feature == "layers":
        return numpy.stack([_unpacked_vector(state) for state in value])
    if feature in VECTORS:
        return _unpacked_vector(value)
    return value


def _unpacked_vector(text: str) -> Any:
    """Return the vector of a text that :func:`_packed_vector` made."""
    number_type, encoded = text[:3], text[3:]
    return numpy.frombuffer(base64.b64decode(encoded), dtype=number_type)


def comparable_numbers(answer: Answer) -> Answer:
    """Return the numbers of all features of a prompt in one list, to compare two computations of them.

    The numbers of a feature are divided by its largest absolute value, if this is above 1. So one tolerance fits all
    features. A prediction that is no :class:`Features` is returned unchanged.
    """
    if not isinstance(answer, Features):
        return answer
    numbers: list[float] = []
    for feature, value in sorted(answer.items()):
        row = _numbers_of(unpacked_row(feature, value))
        scale = max(1.0, *(abs(number) for number in row if math.isfinite(number)))
        numbers += [number / scale for number in row]
    return numbers


def _numbers_of(row: Any) -> list[float]:
    """Return the numbers of a row: an array, a list, or one number."""
    if isinstance(row, (int, float)):
        return [row]
    if isinstance(row, list):
        return row
    numbers: list[float] = row.ravel().tolist()
    return numbers

"""Label scores in saved results: exact, and small enough for one file.

The scores of a condition are one line of text: ``f8:`` or ``f4:``, then base64 of the little-endian numbers, row by
row. ``f4`` (single precision) is used where no number loses a bit by it, as with the scores of most models. The text is
not compressed: scores hardly compress, and compressors of different versions write different bytes.
"""

from __future__ import annotations

import base64
import binascii
import math
import sys
from array import array
from collections.abc import Sequence

from StaICC.errors import SchemaError

_TYPES = {"f4": "f", "f8": "d"}


def pack_scores(rows: Sequence[Sequence[float]]) -> str:
    """Write label scores as text.

    Args:
        rows: One row for each query with an answer, one number for each label; a logit may be minus infinity.

    Returns:
        The text; :func:`unpack_scores` gives the same numbers back, bit for bit.

    Example:
        >>> pack_scores([[0.5, 0.25]])
        'f4:AAAAPwAAgD4='
    """
    double = array("d", [value for row in rows for value in row])
    single = array("f", double)
    kind, numbers = ("f4", single) if array("d", single) == double else ("f8", double)
    if sys.byteorder == "big":
        numbers.byteswap()
    return f"{kind}:{base64.b64encode(numbers.tobytes()).decode('ascii')}"


def _numbers(text: str) -> array[float]:
    kind, colon, coded = text.partition(":")
    if not colon or kind not in _TYPES:
        raise SchemaError(f"label scores start with 'f4:' or 'f8:', not {text[:8]!r}")
    numbers: array[float] = array(_TYPES[kind])
    try:
        numbers.frombytes(base64.b64decode(coded.encode("ascii"), validate=True))
    except (binascii.Error, ValueError) as error:
        raise SchemaError(f"label scores cannot be decoded ({error})") from error
    if sys.byteorder == "big":
        numbers.byteswap()
    if not all(number < math.inf for number in numbers):
        raise SchemaError("label scores must be finite numbers or minus infinity")
    return numbers


def check_scores(text: str) -> None:
    """Refuse a text that holds no label scores.

    Raises:
        SchemaError: It has another form, or a number is NaN or plus infinity.
    """
    _numbers(text)


def unpack_scores(text: str, labels: int) -> list[list[float]]:
    """Read what :func:`pack_scores` wrote.

    Args:
        text: The text.
        labels: How many labels there are.

    Returns:
        One row for each query with an answer.

    Raises:
        SchemaError: The text has another form, or its numbers do not fill rows of this length.

    Example:
        >>> unpack_scores("f4:AAAAPwAAgD4=", 2)
        [[0.5, 0.25]]
    """
    numbers = _numbers(text).tolist()
    if labels < 1 or len(numbers) % labels:
        raise SchemaError(f"there are {len(numbers)} label scores, which do not fill rows of {labels} labels")
    return [numbers[start : start + labels] for start in range(0, len(numbers), labels)]

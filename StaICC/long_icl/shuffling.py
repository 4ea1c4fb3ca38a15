"""Random orders that are the same in all versions of Python."""

from __future__ import annotations

import random
from collections.abc import Sequence
from typing import TypeVar

_Value = TypeVar("_Value")


def shuffled(values: Sequence[_Value], seed: int | str) -> list[_Value]:
    """Return a random order that is the same in all versions of Python."""
    draw = random.Random(seed).random  # only random() is promised to stay the same
    return [value for _, _, value in sorted((draw(), place, value) for place, value in enumerate(values))]

"""Random orders that are the same in all versions of Python."""

from __future__ import annotations

import random
from collections.abc import Sequence
from typing import TypeVar

_Value = TypeVar("_Value")


def shuffled(values: Sequence[_Value], seed: int | str) -> list[_Value]:
    """Return a copy of the values in a random order, which depends on the seed and the number of values alone.

    Each value gets a random number, and the values are sorted by their numbers. Python promises that ``random()`` stays
    the same in all of its versions, and makes no such promise for ``shuffle()``.
    """
    generator = random.Random(seed)
    sort_keys = [generator.random() for _ in values]
    order = sorted(range(len(values)), key=sort_keys.__getitem__)
    return [values[index] for index in order]

"""``StaICC.util.stable_random`` of 0.1.1: its generator, with the same draws as :class:`StaICC.StableRandom`."""

from __future__ import annotations

import copy
from collections.abc import Sequence
from typing import TypeVar

from StaICC.errors import ArgumentError
from StaICC.prompting.stable_random import SEED, StableRandom

T = TypeVar("T")


class stable_random:
    """The generator of 0.1.1.

    Args:
        seed: The state before the first draw.

    Example:
        >>> stable_random().sample_index_set(3, 10, allow_repetition=True)
        [2, 0, 5]
    """

    def __init__(self, seed: int = SEED) -> None:
        self._generator = StableRandom(seed)

    def get_float(self) -> float:
        """Draw a float in [0, 1)."""
        return self._generator.random()

    def get_int_from_range(self, start: int, end: int) -> int:
        """Draw an integer of ``start``, ..., ``end - 1``."""
        return self._generator.integer(start, end)

    def sample_one_element_from_list(self, list: Sequence[T]) -> T:
        """Draw an element."""
        return list[self._generator.integer(0, len(list))]

    def sample_n_elements_from_list(self, list: Sequence[T], n: int, allow_repetition: bool = False) -> list[T]:
        """Draw copies of ``n`` elements, each element at most once unless ``allow_repetition``.

        Raises:
            ArgumentError: There are fewer elements than ``n``, and they may not repeat.
        """
        return [copy.deepcopy(list[index]) for index in self.sample_index_set(n, len(list), allow_repetition)]

    def sample_index_set(self, sample_number: int, max_index: int, allow_repetition: bool = False) -> list[int]:
        """Draw ``sample_number`` of the positions ``0``, ..., ``max_index - 1``.

        Args:
            sample_number: How many positions to draw.
            max_index: How many positions there are.
            allow_repetition: Each draw is from all positions; otherwise a position is drawn at most once.

        Raises:
            ArgumentError: There are fewer positions than draws, and they may not repeat.
        """
        if allow_repetition:
            return [int(draw * max_index) for draw in self._generator.floats(sample_number)]
        if sample_number > max_index:
            raise ArgumentError(f"cannot draw {sample_number} of {max_index} positions without repetition")
        return self._generator.sample_indexes(max_index, sample_number)

    def shuffle_list(self, list: Sequence[T]) -> list[T]:
        """Return copies of the elements in a random order; the given list is not changed."""
        return copy.deepcopy(self._generator.sample(list, len(list)))

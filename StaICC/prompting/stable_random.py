"""The stable generator, which fixes every draw of the published benchmark.

Splits, demonstrations, label noise and pseudo-queries come from one linear congruential generator, so it must produce
the same numbers on every machine and in every Python version; the standard library's :mod:`random` promises that only
for ``random()``. It is not a good generator in the statistical sense, and that does not matter here: it only fixes
which rows are used. Recurrence: X <- (1664525 X + 1013904223) mod 2^32 with X0 = 42 (the constants of Numerical
Recipes); a float is X / 2^32.
"""

from __future__ import annotations

from array import array
from bisect import insort
from collections.abc import Iterator, Sequence
from functools import lru_cache
from typing import TypeVar

from StaICC.errors import ArgumentError

SEED = 42
_MULTIPLIER = 1664525
_INCREMENT = 1013904223
_MASK = 2**32 - 1
_MODULUS = 2**32
_FEW = 24  # draws that are faster without a list of all positions

T = TypeVar("T")


@lru_cache(maxsize=64)
def _leap(n: int) -> tuple[int, int]:
    """Return multiplier and increment of ``n`` steps of the recurrence at once."""
    multiplier, increment = 1, 0
    for _ in range(n):
        multiplier, increment = multiplier * _MULTIPLIER & _MASK, (increment * _MULTIPLIER + _INCREMENT) & _MASK
    return multiplier, increment


class StableRandom:
    """A generator of reproducible draws.

    Args:
        seed: The state before the first draw.

    Example:
        >>> StableRandom().sample(["a", "b", "c", "d"], 2)
        ['b', 'a']
    """

    __slots__ = ("state",)

    def __init__(self, seed: int = SEED) -> None:
        self.state = seed

    def random(self) -> float:
        """Draw a float in [0, 1)."""
        self.state = (_MULTIPLIER * self.state + _INCREMENT) & _MASK
        return self.state / _MODULUS

    def floats(self, n: int) -> Iterator[float]:
        """Draw ``n`` floats in [0, 1), all of them before the first is given."""
        state = self.state
        draws = [(state := (_MULTIPLIER * state + _INCREMENT) & _MASK) / _MODULUS for _ in range(n)]
        self.state = state
        return iter(draws)

    def skip(self, n: int) -> None:
        """Pass over ``n`` draws."""
        multiplier, increment = _leap(n)
        self.state = (multiplier * self.state + increment) & _MASK

    def skip_samples(self, refused: Sequence[bool], n: int, most: int) -> int:
        """Pass over samples whose first position is refused, as if they had been drawn.

        Args:
            refused: For each position, whether a sample must not begin with it.
            n: How many positions a sample has, at least 1.
            most: How many samples to pass over at most.

        Returns:
            How many samples were passed over; the next one begins well, unless that is ``most``.
        """
        multiplier, increment = _leap(n)
        passed = 0
        while passed < most and refused[int(StableRandom(self.state).random() * len(refused))]:
            self.state = (multiplier * self.state + increment) & _MASK
            passed += 1
        return passed

    def integer(self, low: int, high: int) -> int:
        """Draw an integer in [low, high), or ``low`` if ``low == high``."""
        return int(low + (high - low) * self.random())

    def sample_indexes(self, size: int, n: int) -> list[int]:
        """Draw ``n`` of the positions ``0 .. size - 1``, without repetition where that is possible.

        Draw by draw, position ``int(float * len(rest))`` of the rest (in its order) is taken and removed. If ``n``
        exceeds ``size``, nothing is removed and positions may repeat.

        Args:
            size: How many positions there are.
            n: How many to draw.

        Returns:
            The drawn positions, in the order drawn.

        Raises:
            ArgumentError: ``n`` is negative, or there is nothing to draw from.
        """
        if n < 0 or (n > 0 and size < 1):
            raise ArgumentError(f"cannot draw {n} of {size} positions; expected n >= 0, and at least 1 position")
        if n > size:
            return [int(self.random() * size) for _ in range(n)]
        if n > _FEW:
            rest = array("I", range(size))  # small items: removing one moves those after it
            return [rest.pop(int(draw * len(rest))) for draw in self.floats(n)]
        drawn: list[int] = []
        ascending: list[int] = []
        for length in range(size, size - n, -1):
            position = int(self.random() * length)
            for taken in ascending:
                if taken > position:
                    break
                position += 1
            insort(ascending, position)
            drawn.append(position)
        return drawn

    def sample(self, population: Sequence[T], n: int) -> list[T]:
        """Draw ``n`` elements of a sequence (see :meth:`sample_indexes`)."""
        return [population[index] for index in self.sample_indexes(len(population), n)]

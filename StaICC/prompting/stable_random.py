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
"""The state before the first draw of every draw of the published benchmark."""
_MULTIPLIER = 1664525
_INCREMENT = 1013904223
_MODULUS = 2**32
_MASK = _MODULUS - 1
"""``x & _MASK`` is ``x % _MODULUS``."""
_FEW = 24
"""So many draws are faster without a list of all positions (measured)."""

T = TypeVar("T")


@lru_cache(maxsize=64)
def _leap(n: int) -> tuple[int, int]:
    """Return the multiplier A and the increment C of ``n`` steps at once: the state X becomes (A X + C) mod 2^32.

    They are those of no step, A = 1 and C = 0, to which one step after the other is added.
    """
    multiplier = 1
    increment = 0
    for _ in range(n):
        # One more step: a (A X + C) + c = (a A) X + (a C + c), with a and c of the recurrence.
        multiplier = (multiplier * _MULTIPLIER) & _MASK
        increment = (increment * _MULTIPLIER + _INCREMENT) & _MASK
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
        """Draw ``n`` floats in [0, 1). All are drawn when this is called, however many of them are read."""
        state = self.state
        draws = []
        for _ in range(n):
            state = (_MULTIPLIER * state + _INCREMENT) & _MASK
            draws.append(state / _MODULUS)
        self.state = state
        return iter(draws)

    def skip(self, n: int) -> None:
        """Pass over ``n`` draws."""
        multiplier, increment = _leap(n)
        self.state = (multiplier * self.state + increment) & _MASK

    def skip_samples(self, refused: Sequence[bool], n: int, most: int) -> int:
        """Pass over the next samples of positions as long as they begin with a refused one.

        The state is then as if they had been drawn (:meth:`sample_indexes`). To save time, only the first position of
        each sample is computed, and the state leaps over its other draws.

        Args:
            refused: For each position that may be drawn, whether a sample must not begin with it.
            n: How many positions a sample has, at least 1.
            most: How many samples to pass over at most.

        Returns:
            How many samples were passed over. If they are fewer than ``most``, the next sample begins with a position
            that is not refused.
        """
        multiplier, increment = _leap(n)
        passed_over = 0
        while passed_over < most:
            first_draw = StableRandom(self.state).random()  # of a copy, so that this generator does not move
            first_position = int(first_draw * len(refused))
            if not refused[first_position]:
                break
            self.state = (multiplier * self.state + increment) & _MASK
            passed_over += 1
        return passed_over

    def integer(self, low: int, high: int) -> int:
        """Draw an integer in [low, high), or ``low`` if ``low == high``."""
        return int(low + (high - low) * self.random())

    def sample_indexes(self, size: int, n: int) -> list[int]:
        """Draw ``n`` of the positions ``0 .. size - 1``, without repetition where that is possible.

        Draw by draw, number ``int(float * len(remaining))`` of the remaining positions (ascending) is taken and
        removed. If ``n`` exceeds ``size``, nothing is removed and positions may repeat.

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
        if n <= _FEW:
            return self._sample_few(size, n)
        remaining = array("I", range(size))  # small items, because removing one moves those after it
        drawn = []
        for draw in self.floats(n):
            index = int(draw * len(remaining))
            drawn.append(remaining.pop(index))
        return drawn

    def _sample_few(self, size: int, n: int) -> list[int]:
        """Return what :meth:`sample_indexes` draws, without a list of the remaining positions.

        A draw is an index into the positions that remain. Each position that was taken before, and is not above the
        drawn one, moves it up by one. If 1 was taken of the positions 0 to 4, the draw 2 is position 3, because 0, 2,
        3 and 4 remain.
        """
        drawn: list[int] = []
        taken_ascending: list[int] = []
        for remaining_count in range(size, size - n, -1):
            position = int(self.random() * remaining_count)
            for taken in taken_ascending:
                if taken > position:
                    break
                position += 1
            insort(taken_ascending, position)
            drawn.append(position)
        return drawn

    def sample(self, population: Sequence[T], n: int) -> list[T]:
        """Draw ``n`` elements of a sequence (see :meth:`sample_indexes`)."""
        return [population[index] for index in self.sample_indexes(len(population), n)]

"""A sequence whose elements are made each time they are read, because all of them together would need much memory."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Generic, TypeVar

T = TypeVar("T")


class LazySequence(Sequence[T], Generic[T]):
    """A sequence that keeps none of its elements. A slice of it is a list.

    Args:
        element_at: Returns the element at a position, counted from 0.
        count: The number of elements.
    """

    def __init__(self, element_at: Callable[[int], T], count: int) -> None:
        self._element_at = element_at
        self._positions = range(count)  # indexing it checks an index, and counts a negative one from the end

    def __len__(self) -> int:
        return len(self._positions)

    def __getitem__(self, index: Any) -> Any:
        """Return the element at an index, or the list of those of a slice; each is made now."""
        positions = self._positions[index]
        if isinstance(positions, int):
            return self._element_at(positions)
        return [self._element_at(position) for position in positions]

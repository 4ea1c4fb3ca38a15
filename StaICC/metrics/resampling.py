"""Draws for the bootstrap and for permutation tests, and sums of many columns at the price of one.

Draws. A seed is the SHA-256 of a version, a purpose and the caller's text, so that every purpose has its own
stream and a number can be traced to a line that a paper can print. All draws are whole words from
``random.Random.getrandbits``; a word that would favour some items is thrown away, so each item is equally
likely, exactly. :data:`BOOTSTRAP_VERSION` names this rule; if the rule changes, so must the name.

Packed sums. A resample needs the sum of each column over the drawn rows. Each row's columns are packed into
one integer, side by side, wide enough that no sum can reach the neighbour; then one ``sum`` of integers adds
all columns, exactly, whatever the order. Columns of whole numbers stay whole; others are kept in fixed point,
with 62 bits for the largest sum.
"""

from __future__ import annotations

import hashlib
import math
import random
import struct
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import compress
from typing import TypeVar

from StaICC.errors import ArgumentError

__all__ = [
    "BOOTSTRAP_VERSION",
    "PackedRows",
    "check_draws",
    "draw_resamples",
    "draw_subsets",
    "generator",
    "group_by_row",
]

BOOTSTRAP_VERSION = "bootstrap-1"
"""Name of the rule by which seeds and draws are made. Equal version and seed text give equal draws."""

_LARGEST = 1 << 62
"""What no sum of a column may reach; numbers that are not whole are scaled up towards it."""

_FIELDS = (("H", 16), ("I", 32), ("Q", 64))
"""Widths of a column: the codes of :mod:`struct`, and bits."""

_SHORT_WORD_ITEMS = 4096
"""Up to so many items a word of 16 bits is drawn for each, beyond it one of 32 bits."""

_ZERO_ONE = bytes.maketrans(b"01", b"\x00\x01")

Item = TypeVar("Item")


def generator(seed: str, purpose: str) -> random.Random:
    """Make the generator for one purpose.

    Args:
        seed: Any text, such as the signature of a run and the name of a data set.
        purpose: What the draws are for; equal seeds with other purposes give unrelated draws.

    Returns:
        A generator that nobody else holds.

    Raises:
        ArgumentError: The seed is not text.

    Example:
        >>> generator("demo", "bootstrap").getrandbits(16)
        46751
    """
    if not isinstance(seed, str):
        raise ArgumentError(f"a seed is a text (it is hashed), not {seed!r}")
    digest = hashlib.sha256("\0".join((BOOTSTRAP_VERSION, purpose, seed)).encode()).digest()
    return random.Random(int.from_bytes(digest, "big"))


def check_draws(name: str, draws: int) -> None:
    """Check a number of resamples or permutations.

    Args:
        name: What is drawn, in the plural.
        draws: How many.

    Raises:
        ArgumentError: It is not a whole number of at least 1.
    """
    if isinstance(draws, bool) or not isinstance(draws, int) or draws < 1:
        raise ArgumentError(f"the number of {name} must be a whole number of at least 1, not {draws!r}")


def _words(draw: random.Random, bits: int, size: int) -> tuple[int, ...]:
    code = "H" if bits == 16 else "I"
    return struct.unpack(f"<{size}{code}", draw.getrandbits(bits * size).to_bytes(bits * size // 8, "little"))


def draw_resamples(items: Sequence[Item], times: int, draw: random.Random) -> Iterator[list[Item]]:
    """Draw as many items as there are, with repetition, again and again.

    Args:
        items: What to draw from, at least one.
        times: How many resamples.
        draw: The generator.

    Yields:
        One resample after another.

    Example:
        >>> list(draw_resamples("abc", 2, generator("demo", "bootstrap")))
        [['c', 'c', 'c'], ['b', 'c', 'a']]
    """
    n = len(items)
    bits = 16 if n <= _SHORT_WORD_ITEMS else 32
    limit = (1 << bits) // n * n
    table = list(items) * (limit // n) if bits == 16 else []  # word -> item without a division
    for _ in range(times):
        words: Sequence[int] = _words(draw, bits, n)
        if limit < 1 << bits:
            kept = [word for word in words if word < limit]
            while len(kept) < n:
                kept += [word for word in _words(draw, bits, n - len(kept)) if word < limit]
            words = kept
        yield [table[word] for word in words] if table else [items[word % n] for word in words]


def draw_subsets(items: Sequence[Item], times: int, draw: random.Random) -> Iterator[Iterator[Item]]:
    """Take each item or leave it, by the flip of a fair coin, again and again.

    Args:
        items: What to choose from, at least one.
        times: How many subsets.
        draw: The generator.

    Yields:
        One subset after another, in the order of the items.
    """
    n = len(items)
    for _ in range(times):
        flips = format(draw.getrandbits(n), f"0{n}b").encode().translate(_ZERO_ONE)
        yield compress(items, flips)


def group_by_row(rows: Sequence[int], queries: int) -> list[list[int]]:
    """Find the queries of each test row.

    Args:
        rows: Test row of each query.
        queries: How many queries there should be.

    Returns:
        For each test row, in rising order of the row, the positions of its queries.

    Raises:
        ArgumentError: The number of rows is not the number of queries, or there are none.

    Example:
        >>> group_by_row([7, 3, 7, 3], 4)
        [[1, 3], [0, 2]]
    """
    if len(rows) != queries:
        raise ArgumentError(f"rows must name the test row of each of {queries} queries, but there are {len(rows)} rows")
    if not queries:
        raise ArgumentError("there are no queries, so there is nothing to resample")
    groups: dict[int, list[int]] = {}
    for position, row in enumerate(rows):
        groups.setdefault(row, []).append(position)
    return [groups[row] for row in sorted(groups)]


@dataclass(frozen=True, slots=True, init=False)
class PackedRows:
    """Rows of numbers, each row packed into one integer.

    Attributes:
        items: One integer a row. Any sum of at most as many items as there are rows (repeated or not, added
            or subtracted) can be unpacked.

    Example:
        >>> packed = PackedRows([[1, 0.5], [2, -0.25]])
        >>> packed.unpack(sum(packed.items))
        [3, 0.25]
    """

    items: tuple[int, ...]
    _layout: struct.Struct
    _columns: tuple[tuple[int, float], ...]  # what was added to keep the field positive, and its unit
    _lift: int

    def __init__(self, rows: Sequence[Sequence[float]]) -> None:
        """Pack the rows.

        Args:
            rows: At least one row, all of the same length (at least one), of finite numbers.

        Raises:
            ArgumentError: There are no rows, they differ in length, or a number is not finite.
        """
        lengths = {len(row) for row in rows}
        if len(lengths) != 1 or lengths == {0}:
            raise ArgumentError(f"rows to be summed must be of one length, not {sorted(lengths)}")
        if not all(math.isfinite(value) for row in rows for value in row):
            raise ArgumentError("rows to be summed must hold finite numbers only")
        layout, columns, lift, offset = "<", [], 0, 0
        items = [0] * len(rows)
        for column in zip(*rows, strict=True):
            bound, shift = len(rows) * max(map(abs, column)), 0
            if bound >= _LARGEST or any(value != int(value) for value in column):
                shift = min(1000, _LARGEST.bit_length() - 1 - math.frexp(bound)[1])
                bound = _LARGEST
            code, bits = next((code, bits) for code, bits in _FIELDS if bound < 1 << (bits - 1))
            for position, value in enumerate(column):
                items[position] += (round(math.ldexp(value, shift)) if shift else int(value)) << offset
            half = 1 << (bits - 1)
            columns.append((half, math.ldexp(1.0, -shift) if shift else 1))
            lift += half << offset
            layout += code
            offset += bits
        object.__setattr__(self, "items", tuple(items))
        object.__setattr__(self, "_layout", struct.Struct(layout))
        object.__setattr__(self, "_columns", tuple(columns))
        object.__setattr__(self, "_lift", lift)

    def unpack(self, total: int) -> list[float]:
        """Read the columns of a sum of items.

        Args:
            total: A sum of items.

        Returns:
            The sum of each column: a whole number where the column holds whole numbers only.
        """
        fields = self._layout.unpack((total + self._lift).to_bytes(self._layout.size, "little"))
        return [(value - half) * unit for value, (half, unit) in zip(fields, self._columns, strict=True)]

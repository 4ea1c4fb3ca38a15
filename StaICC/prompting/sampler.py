"""The demonstration sampler: the demonstrations of each query.

One fresh generator draws, for each of ``repeats * queries`` prompts in order, ``k`` positions of the demonstration
set. Prompt ``i + r * queries`` is for test row ``i`` in repeat ``r``. The full list is drawn at once, so a prompt's
demonstrations do not depend on which prompts are evaluated, in which order, or where.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Sequence
from functools import lru_cache

from StaICC.errors import ArgumentError
from StaICC.prompting.split import SubsetView
from StaICC.prompting.stable_random import StableRandom

_MOST_REDRAWS = 1_000_000  # per prompt; possible in principle but so rare that waiting would look like hanging

DemonstrationLists = tuple[tuple[int, ...], ...]
"""For each prompt, the positions of its demonstrations in the demonstration set, in the order shown."""


@lru_cache(maxsize=64)  # the parts of a suite use the same lists
def _draw(pool: int, k: int, prompts: int) -> tuple[DemonstrationLists, int]:
    generator = StableRandom()
    lists = tuple(tuple(generator.sample_indexes(pool, k)) for _ in range(prompts))
    return lists, generator.state


def sample_demonstrations(pool: int, k: int, prompts: int) -> DemonstrationLists:
    """Draw the demonstrations of all prompts.

    Args:
        pool: Size of the demonstration set.
        k: Demonstrations per prompt. If ``k`` exceeds ``pool``, demonstrations repeat.
        prompts: How many prompts: repeats times queries.

    Returns:
        One tuple of ``k`` positions per prompt.

    Raises:
        ArgumentError: There is nothing to draw from.

    Example:
        >>> sample_demonstrations(10, 3, 2)
        ((2, 0, 6), (2, 4, 0))
    """
    if k and not pool:
        raise ArgumentError(f"there are no demonstrations to draw k = {k} from; choose k = 0, or another split")
    return _draw(pool, k, prompts)[0]


@lru_cache(maxsize=64)
def sample_nested(pool: int, k: int, prompts: int, shared: int = 1) -> DemonstrationLists:
    """Draw demonstrations that are nested in ``k``: those of a smaller ``k`` are the first ones of a larger.

    Each list has a generator of its own, whose seed is the beginning of the SHA-256 of ``nested`` and its number.

    Args:
        pool: Size of the demonstration set.
        k: Demonstrations per prompt.
        prompts: How many prompts.
        shared: How many prompts after another have the same list.

    Returns:
        One tuple of ``k`` different positions per prompt.

    Raises:
        ArgumentError: ``k`` exceeds ``pool``.

    Example:
        >>> sample_nested(10, 2, 2), sample_nested(10, 4, 2)
        (((4, 8), (6, 0)), ((4, 8, 3, 0), (6, 0, 7, 3)))
    """
    if k > pool:
        raise ArgumentError(f"nested demonstrations: got k = {k}, expected at most {pool}, all that there are")
    digests = [hashlib.sha256(b"nested %d" % (number // shared)).digest() for number in range(prompts)]
    return tuple(tuple(StableRandom(int.from_bytes(one[:4], "big")).sample_indexes(pool, k)) for one in digests)


def restrict_to_domain(
    pool: int,
    k: int,
    query_labels: Sequence[int],
    demonstration_label: Callable[[int], int],
    inside: bool,
    where: str,
) -> DemonstrationLists:
    """Draw demonstrations that contain (or lack) the query's own label.

    Starts from :func:`sample_demonstrations`; the lists that do not fit are redrawn in order, from the same
    generator, continued.

    Args:
        pool: Size of the demonstration set.
        k: Demonstrations per prompt.
        query_labels: The true label index of each prompt's query.
        demonstration_label: Returns the label index of a position of the demonstration set.
        inside: ``True``: each query's label must occur among its demonstrations; ``False``: it must not.
        where: Name of the data set, for the message.

    Returns:
        One tuple of ``k`` positions per prompt.

    Raises:
        ArgumentError: A label cannot be made to occur (or to be missing), whatever is drawn.
    """
    labels = tuple(demonstration_label(position) for position in range(pool))
    return _redraw(k, tuple(query_labels), labels, inside, where)


@lru_cache(maxsize=32)  # called before every run, and slow where most draws do not fit
def _redraw(
    k: int, query_labels: tuple[int, ...], labels: tuple[int, ...], inside: bool, where: str
) -> DemonstrationLists:
    pool = len(labels)
    _check_feasible(labels, k, query_labels, inside, where)
    lists, state = _draw(pool, k, len(query_labels))
    generator = StableRandom(state)
    redrawn = list(lists)
    refused = {own: [not inside and label == own for label in labels] for own in set(query_labels)}
    for number, own in enumerate(query_labels):
        tries = 0
        while any(labels[position] == own for position in redrawn[number]) is not inside:
            tries += 1 + generator.skip_samples(refused[own], k, _MOST_REDRAWS)
            if tries > _MOST_REDRAWS:
                raise ArgumentError(
                    f"{'in' if inside else 'out-of'}-domain mode on {where}: {_MOST_REDRAWS} draws of k = {k} "
                    f"demonstrations gave none that fits label index {own}; choose another k"
                )
            redrawn[number] = tuple(generator.sample_indexes(pool, k))
    return tuple(redrawn)


def _check_feasible(labels: Sequence[int], k: int, query_labels: Sequence[int], inside: bool, where: str) -> None:
    """Refuse what redrawing could never reach (the release loops for ever there)."""
    for own in sorted(set(query_labels)):
        count = labels.count(own)
        others = len(labels) - count
        if inside and (count == 0 or k == 0):
            raise ArgumentError(
                f"in-domain mode cannot succeed on {where}: with k = {k}, no demonstration of label index {own} can be "
                f"drawn ({count} of {len(labels)} demonstrations have it)"
            )
        enough = others > 0 if k > len(labels) else others >= k
        if not inside and not enough:
            raise ArgumentError(
                f"out-of-domain mode cannot succeed on {where}: k = {k} demonstrations without label index {own} are "
                f"needed, but only {others} of {len(labels)} demonstrations lack it"
            )


def check_demonstration_lists(sampler: object, queries: int, k: int, pool: int) -> DemonstrationLists:
    """Check demonstrations that a user chose by hand.

    Args:
        sampler: One sequence of ``k`` positions of the demonstration set for each query.
        queries: How many queries there are.
        k: Demonstrations per query.
        pool: Size of the demonstration set.

    Returns:
        The same, as tuples.

    Raises:
        ArgumentError: The shape or a position is wrong; the first bad row is named.
    """
    if isinstance(sampler, (str, bytes)) or not hasattr(sampler, "__len__") or not hasattr(sampler, "__getitem__"):
        raise ArgumentError(f"the sampler must be a list of lists of positions, not {type(sampler).__name__}")
    if len(sampler) != queries:
        raise ArgumentError(f"the sampler has {len(sampler)} rows, expected one for each of the {queries} test rows")
    checked: list[tuple[int, ...]] = []
    for number in range(queries):
        row = sampler[number]
        if isinstance(row, (str, bytes)) or not hasattr(row, "__len__") or not hasattr(row, "__iter__"):
            raise ArgumentError(f"row {number} of the sampler must be a list of positions, not {type(row).__name__}")
        if len(row) != k:
            raise ArgumentError(
                f"row {number} of the sampler has {len(row)} positions, expected k = {k} (set_k changes k)"
            )
        positions = []
        for position in row:
            index = _as_index(position, pool)
            if index is None:
                raise ArgumentError(
                    f"row {number} of the sampler holds {position!r}, expected positions 0 to {pool - 1} of the "
                    "demonstration set"
                )
            positions.append(index)
        checked.append(tuple(positions))
    return tuple(checked)


def check_position(position: object, rows: SubsetView) -> int:
    """Check a position of a set.

    Args:
        position: What was given.
        rows: The set.

    Returns:
        The position, as an ``int``.

    Raises:
        ArgumentError: The set has no such position.
    """
    index = _as_index(position, len(rows))
    if index is None:
        raise ArgumentError(f"{position!r} is no position of {rows.name}, expected 0 to {len(rows) - 1}")
    return index


def _as_index(value: object, size: int) -> int | None:
    """Read a position (an int, NumPy's too, but no bool); ``None`` if it is none."""
    if isinstance(value, bool) or not hasattr(value, "__index__"):
        return None
    index = int(value.__index__())
    return index if 0 <= index < size else None

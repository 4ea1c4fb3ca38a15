"""The demonstration sampler: which demonstrations a query gets.

For each of ``repeats * queries`` prompts in order, ``k`` positions of the demonstration set are drawn with one fresh
generator. Prompt ``i + r * queries`` is for test row ``i`` in repeat ``r``. The full list is drawn at once, so a
prompt's demonstrations do not depend on which prompts are evaluated, in which order, or where.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Sequence
from functools import lru_cache
from itertools import zip_longest

from StaICC.arguments import validate_integer
from StaICC.errors import ArgumentError
from StaICC.frozen import FrozenList
from StaICC.prompting.stable_random import SEED, StableRandom, T

_MOST_REDRAWS = 1_000_000
"""Draws for one prompt after which it is given up: a fitting one is possible, but so rare that waiting would look like
hanging."""

DemonstrationLists = tuple[tuple[int, ...], ...]
"""For each prompt, the positions of its demonstrations in the demonstration set, in the order shown."""


@lru_cache(maxsize=64)  # the parts of a suite use the same lists
def _draw(pool: int, k: int, prompts: int, seed: int = SEED) -> tuple[DemonstrationLists, int]:
    """Return the demonstrations of all prompts, and the state of the generator after the last draw."""
    generator = StableRandom(seed)
    # One object for each position: without it, the lists of a million prompts would have millions of integers.
    shared_positions = tuple(range(pool))
    lists = []
    for _ in range(prompts):
        drawn = generator.sample_indexes(pool, k)
        lists.append(tuple([shared_positions[position] for position in drawn]))
    return tuple(lists), generator.state


class DemonstrationSampler(FrozenList):
    """The demonstrations of each prompt, as a list that cannot be changed."""

    __slots__ = ()

    def get_sampled_indexes(self, index: int) -> list[int]:
        """Return the positions of the demonstrations of a prompt.

        Raises:
            ArgumentError: There is no such prompt.
        """
        positions: list[int] = self[validate_integer("index", index, 0, len(self) - 1)]
        return positions


def sample_demonstrations(pool: int, k: int, prompts: int, seed: int = SEED) -> DemonstrationLists:
    """Draw the demonstrations of all prompts.

    Args:
        pool: Size of the demonstration set.
        k: Demonstrations per prompt. If ``k`` exceeds ``pool``, demonstrations repeat.
        prompts: How many prompts: repeats times queries.
        seed: The state of the generator before the first draw.

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
    lists, _ = _draw(pool, k, prompts, seed)
    return lists


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
    lists = []
    for prompt_index in range(prompts):
        list_number = prompt_index // shared
        digest = hashlib.sha256(b"nested %d" % list_number).digest()
        seed = int.from_bytes(digest[:4], "big")
        lists.append(tuple(StableRandom(seed).sample_indexes(pool, k)))
    return tuple(lists)


def turns_of(labels: Iterable[T | None]) -> list[list[int]]:
    """Return turns of rows: the first row of each label, then the second row of each label, and so on.

    A label that has no further row is left out of a turn. Rows without a label (``None``) are in no turn.

    Example:
        >>> turns_of(["b", "a", "a", None, "a"])
        [[0, 1], [2], [4]]
    """
    turns = []
    for rows_of_turn in zip_longest(*rows_by_label(labels)):
        turns.append([row for row in rows_of_turn if row is not None])
    return turns


def rows_by_label(labels: Iterable[T | None]) -> list[list[int]]:
    """Return the rows of each label, labels in the order in which they first occur."""
    rows_of_label: dict[T, list[int]] = {}
    for row, label in enumerate(labels):
        if label is not None:
            rows_of_label.setdefault(label, []).append(row)
    return list(rows_of_label.values())


@lru_cache(maxsize=32)  # called before every run, and slow where most draws do not fit
def restrict_to_domain(
    labels: tuple[int, ...], k: int, query_labels: tuple[int, ...], inside: bool, where: str, prompts: int = 0
) -> DemonstrationLists:
    """Draw demonstrations that contain (or lack) the query's own label.

    Starts from :func:`sample_demonstrations`; the lists that do not fit are redrawn in order, from the same
    generator, continued.

    Args:
        labels: The label index of each demonstration of the set.
        k: Demonstrations per prompt.
        query_labels: The true label index of each prompt's query.
        inside: ``True``: each query's label must occur among its demonstrations; ``False``: it must not.
        where: Name of the data set, for the message.
        prompts: How many prompts the first lists are drawn for, where the test set was cut since; else 0.

    Returns:
        One tuple of ``k`` positions per prompt; those of further prompts are not redrawn.

    Raises:
        ArgumentError: A label cannot be made to occur (or to be missing), whatever is drawn.
    """
    _check_feasible(labels, k, query_labels, inside, where)
    # A list whose first position is refused cannot fit. Such lists are passed over without drawing the other positions.
    refused_first = {}
    for query_label in set(query_labels):
        refused_first[query_label] = [not inside and label == query_label for label in labels]

    lists, state = _draw(len(labels), k, prompts or len(query_labels))
    generator = StableRandom(state)
    fitting_lists = list(lists)
    for prompt_index, query_label in enumerate(query_labels):
        redraws = 0
        while _has_label(fitting_lists[prompt_index], labels, query_label) is not inside:
            passed_over = generator.skip_samples(refused_first[query_label], k, _MOST_REDRAWS)
            redraws += passed_over + 1
            if redraws > _MOST_REDRAWS:
                raise ArgumentError(
                    f"{_mode(inside)} mode on {where}: {_MOST_REDRAWS} draws of k = {k} demonstrations gave none that "
                    f"fits label index {query_label}; choose another k"
                )
            fitting_lists[prompt_index] = tuple(generator.sample_indexes(len(labels), k))
    return tuple(fitting_lists)


def _mode(inside: bool) -> str:
    """Return the name of a domain mode, for messages."""
    if inside:
        return "in-domain"
    return "out-of-domain"


def _has_label(positions: Iterable[int], labels: Sequence[int], label: int) -> bool:
    """Return whether one of the demonstrations has a label."""
    return any(labels[position] == label for position in positions)


def _check_feasible(labels: Sequence[int], k: int, query_labels: Sequence[int], inside: bool, where: str) -> None:
    """Refuse what redrawing could never reach (the release loops for ever there).

    Raises:
        ArgumentError: A label of a query cannot be made to occur (or to be missing).
    """
    for query_label in sorted(set(query_labels)):
        with_label = labels.count(query_label)
        without_label = len(labels) - with_label
        if inside:
            possible = k > 0 and with_label > 0
        elif k > len(labels):
            possible = without_label >= 1  # demonstrations repeat where there are too few
        else:
            possible = without_label >= k
        if not possible:
            raise ArgumentError(
                f"{_mode(inside)} mode cannot succeed on {where} with k = {k}: {with_label} of {len(labels)} "
                f"demonstrations have label index {query_label}"
            )


def check_demonstration_lists(
    sampler: object, queries: int, k: int | None, pool: int, name: str = "the sampler"
) -> DemonstrationLists:
    """Check demonstrations that a user or a method chose.

    Args:
        sampler: One sequence of ``k`` positions of the demonstration set for each query.
        queries: How many queries there are.
        k: Demonstrations per query; ``None`` for as many as the first query has.
        pool: Size of the demonstration set.
        name: What the lists are, for messages.

    Returns:
        The same, as tuples.

    Raises:
        ArgumentError: The shape or a position is wrong; the first bad row is named.
    """
    # A generator or a set is refused: the lists have an order, and may be read again.
    if not hasattr(sampler, "__getitem__"):
        raise _no_lists_of_positions(sampler, name)
    try:
        rows = [list(row) for row in sampler]  # type: ignore[attr-defined]
    except TypeError:
        raise _no_lists_of_positions(sampler, name) from None
    if len(rows) != queries:
        raise ArgumentError(f"{name} has {len(rows)} rows, expected one for each of the {queries} test rows")
    if k is None:
        expected_length = len(rows[0])
        reason = f"expected {expected_length}, as row 0 has"
    else:
        expected_length = k
        reason = f"expected k = {k} (set_k changes k)"
    checked_rows = []
    for row_number, row in enumerate(rows):
        where = f"row {row_number} of {name}"
        if len(row) != expected_length:
            raise ArgumentError(f"{where} has {len(row)} positions, {reason}")
        positions = []
        for position in row:
            positions.append(validate_integer(f"{where}: a demonstration", position, 0, pool - 1))
        checked_rows.append(tuple(positions))
    return tuple(checked_rows)


def _no_lists_of_positions(sampler: object, name: str) -> ArgumentError:
    """Return the error about a sampler that is no list of lists."""
    return ArgumentError(f"{name} must be a list of lists of positions, not {sampler!r:.80}")

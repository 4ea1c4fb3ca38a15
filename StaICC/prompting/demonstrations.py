"""The demonstration sampler: which demonstrations a query gets.

For each of ``repeats * queries`` prompts in order, ``k`` positions of the demonstration set are drawn with one fresh
generator. Prompt ``i + r * queries`` is for test row ``i`` in repeat ``r``. The full list is drawn at once, so a
prompt's demonstrations do not depend on which prompts are evaluated, in which order, or where.
"""

from __future__ import annotations

import contextlib
import hashlib
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, NamedTuple

from StaICC.arguments import validate_integer
from StaICC.errors import ArgumentError
from StaICC.frozen import FrozenList
from StaICC.prompting.stable_random import SEED, StableRandom, T

_MOST_REDRAWS = 1_000_000
"""Draws for one prompt after which it is given up: a fitting one is possible, but so rare that waiting would look like
hanging."""

DemonstrationLists = tuple[tuple[int, ...], ...]
"""For each prompt, the positions of its demonstrations in the demonstration set, in the order shown."""


class _Drawn(NamedTuple):
    """The demonstrations of all prompts."""

    lists: DemonstrationLists
    state_after: int
    """The state of the generator after the last draw."""


@lru_cache(maxsize=64)  # the parts of a suite use the same lists
def _draw(pool: int, k: int, prompts: int, seed: int = SEED) -> _Drawn:
    """Draw the demonstrations of all prompts, as :func:`sample_demonstrations` does."""
    generator = StableRandom(seed)
    # One object for each position: without it, the lists of a million prompts would have millions of integers.
    shared_positions = tuple(range(pool))
    lists = []
    for _ in range(prompts):
        drawn = generator.sample_indexes(pool, k)
        lists.append(tuple([shared_positions[position] for position in drawn]))
    return _Drawn(tuple(lists), generator.state)


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
    return _draw(pool, k, prompts, seed).lists


@lru_cache(maxsize=64)
def sample_nested(pool: int, k: int, prompts: int, shared: int = 1) -> DemonstrationLists:
    """Draw demonstrations that are nested in ``k``: those of a smaller ``k`` are the first ones of a larger.

    Each list has a generator of its own, so that it does not depend on how many demonstrations the others have. The
    seed is the first four bytes of the SHA-256 of ``nested`` and the number of the list.

    Args:
        pool: Size of the demonstration set.
        k: Demonstrations per prompt.
        prompts: How many prompts.
        shared: How many successive prompts have the same list.

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
    """Return rows in turns: the first turn has the first row of each label, the second turn the second, and so on.

    A label that has no further row is left out of a turn. Rows without a label (``None``) are in no turn.

    Args:
        labels: The label of each row.

    Returns:
        For each turn, the numbers of its rows, in the order in which the labels first occur.

    Example:
        >>> turns_of(["b", "a", "a", None, "a"])
        [[0, 1], [2], [4]]
    """
    turns: list[list[int]] = []
    for rows_of_label in rows_by_label(labels):
        for turn, row in enumerate(rows_of_label):
            if turn == len(turns):
                turns.append([])
            turns[turn].append(row)
    return turns


def rows_by_label(labels: Iterable[T | None]) -> list[list[int]]:
    """Return the numbers of the rows of each label; labels in the order in which they first occur.

    Rows without a label (``None``) are left out.

    Example:
        >>> rows_by_label(["b", "a", "a", None, "a"])
        [[0], [1, 2, 4]]
    """
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
        prompts: How many lists are drawn before the first redraw, at least one for each query. More than that are
            drawn if the test set was longer before a cut, so that the remaining queries have the same lists as
            before. 0: one for each query.

    Returns:
        For each prompt, a tuple of ``k`` positions in the set. If ``prompts`` is larger than the number of queries,
        the further lists are returned as they were drawn first.

    Raises:
        ArgumentError: A label cannot be made to occur (or to be missing), whatever is drawn.
    """
    restriction = _DomainRestriction(labels, k, inside, where)
    unfit_beginnings_by_label = {}
    for query_label in sorted(set(query_labels)):
        restriction.check_feasible(query_label)
        unfit_beginnings_by_label[query_label] = restriction.unfit_beginnings(query_label)

    list_count = prompts or len(query_labels)
    drawn = _draw(len(labels), k, list_count)
    generator = StableRandom(drawn.state_after)  # continues where the first lists end
    lists = list(drawn.lists)
    for prompt_index, query_label in enumerate(query_labels):
        if not restriction.fits(lists[prompt_index], query_label):
            unfit_beginnings = unfit_beginnings_by_label[query_label]
            lists[prompt_index] = restriction.redraw(generator, query_label, unfit_beginnings)
    return tuple(lists)


@dataclass(frozen=True, slots=True)
class _DomainRestriction:
    """The rule of the in-domain and out-of-domain modes: the label of a query is among its demonstrations, or is not.

    The fields are the arguments of :func:`restrict_to_domain`.
    """

    labels: tuple[int, ...]
    """The label index of each demonstration of the set."""
    k: int
    inside: bool
    where: str

    @property
    def mode(self) -> str:
        """The name of the mode, for messages."""
        if self.inside:
            return "in-domain"
        return "out-of-domain"

    def fits(self, positions: Iterable[int], query_label: int) -> bool:
        """Return whether demonstrations, as positions in the set, contain (or lack) the label of the query."""
        has_label = any(self.labels[position] == query_label for position in positions)
        return has_label == self.inside

    def check_feasible(self, query_label: int) -> None:
        """Refuse a label for which no list fits, so that redrawing would never end (as it does in 0.1.1).

        Raises:
            ArgumentError: The label cannot be made to occur (or to be missing).
        """
        with_label = self.labels.count(query_label)
        without_label = len(self.labels) - with_label
        if self.inside:
            possible = self.k > 0 and with_label > 0
        elif self.k > len(self.labels):
            possible = without_label >= 1  # demonstrations repeat where there are too few
        else:
            possible = without_label >= self.k
        if not possible:
            raise ArgumentError(
                f"{self.mode} mode cannot succeed on {self.where} with k = {self.k}: {with_label} of "
                f"{len(self.labels)} demonstrations have label index {query_label}"
            )

    def unfit_beginnings(self, query_label: int) -> list[bool]:
        """Return for each demonstration of the set whether it is unfit as the first one: no list with it first fits.

        In-domain, none is unfit: a demonstration with the label may follow any first one. Out-of-domain, those with
        the label are unfit.
        """
        if self.inside:
            return [False] * len(self.labels)
        return [label == query_label for label in self.labels]

    def redraw(self, generator: StableRandom, query_label: int, unfit_beginnings: Sequence[bool]) -> tuple[int, ...]:
        """Draw lists of demonstrations until one fits the label of a query, and return it.

        Args:
            generator: Draws the lists.
            query_label: The label of the query.
            unfit_beginnings: For each demonstration, whether no list that begins with it fits
                (:meth:`unfit_beginnings`). Such a list counts as drawn, but its other positions are not computed, to
                save time.

        Raises:
            ArgumentError: None of :data:`_MOST_REDRAWS` lists fits.
        """
        redraws = 0
        while True:
            skipped_lists = generator.skip_samples(unfit_beginnings, n=self.k, most=_MOST_REDRAWS)
            redraws += skipped_lists + 1  # and the list below
            if redraws > _MOST_REDRAWS:
                raise ArgumentError(
                    f"{self.mode} mode on {self.where}: {_MOST_REDRAWS} draws of k = {self.k} demonstrations gave none "
                    f"that fits label index {query_label}; choose another k"
                )
            positions = tuple(generator.sample_indexes(len(self.labels), self.k))
            if self.fits(positions, query_label):
                return positions


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
    rows = _rows_of(sampler, name)
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
        positions = [validate_integer(f"{where}: a demonstration", position, 0, pool - 1) for position in row]
        checked_rows.append(tuple(positions))
    return tuple(checked_rows)


def _rows_of(sampler: Any, name: str) -> list[list[Any]]:
    """Return the lists of a list of lists.

    Raises:
        ArgumentError: It is something else.
    """
    # A generator or a set is refused: the lists have an order, and may be read again.
    has_order = hasattr(sampler, "__getitem__")
    if has_order:
        with contextlib.suppress(TypeError):
            return [list(row) for row in sampler]
    raise ArgumentError(f"{name} must be a list of lists of positions, not {sampler!r:.80}")

"""The demonstration sampler: which demonstrations a query gets.

For each of ``repeats * queries`` prompts in order, ``k`` positions of the demonstration set are drawn with one fresh
generator. Prompt ``i + r * queries`` is for test row ``i`` in repeat ``r``. The full list is drawn at once, so a
prompt's demonstrations do not depend on which prompts are evaluated, in which order, or where.
"""

from __future__ import annotations

import hashlib
import math
import re
from collections import Counter
from collections.abc import Iterable, Sequence
from functools import lru_cache
from itertools import zip_longest

from StaICC.arguments import validate_integer
from StaICC.errors import ArgumentError
from StaICC.frozen import FrozenList
from StaICC.prompting.stable_random import SEED, StableRandom, T

_MOST_REDRAWS = 1_000_000  # per prompt; possible in principle but so rare that waiting would look like hanging

DemonstrationLists = tuple[tuple[int, ...], ...]
"""For each prompt, the positions of its demonstrations in the demonstration set, in the order shown."""


@lru_cache(maxsize=64)  # the parts of a suite use the same lists
def _draw(pool: int, k: int, prompts: int, seed: int = SEED) -> tuple[DemonstrationLists, int]:
    generator = StableRandom(seed)
    shared = tuple(range(pool))  # one object for each position: the lists of a million prompts would have millions
    lists = tuple(tuple([shared[position] for position in generator.sample_indexes(pool, k)]) for _ in range(prompts))
    return lists, generator.state


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
    return _draw(pool, k, prompts, seed)[0]


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
    return tuple(tuple(StableRandom(int.from_bytes(digest[:4], "big")).sample_indexes(pool, k)) for digest in digests)


_WORDS = re.compile(r"\w+")


def turns_of(labels: Iterable[T | None]) -> list[list[int]]:
    """Return all turns of one row of each label, as far as the rows go; an exhausted label is left out.

    Example:
        >>> turns_of(["b", "a", "a", None, "a"])
        [[0, 1], [2], [4]]
    """
    return [[row for row in turn if row is not None] for turn in zip_longest(*rows_by_label(labels))]


def rows_by_label(labels: Iterable[T | None]) -> list[list[int]]:
    """Return the rows of each label, labels in the order in which they first occur."""
    groups: dict[T, list[int]] = {}
    for place, label in enumerate(labels):
        if label is not None:
            groups.setdefault(label, []).append(place)
    return list(groups.values())


def bm25_scores(queries: Sequence[str], texts: Sequence[str]) -> list[list[float]]:
    """Return the score of each text for each query; higher is more similar.

    Okapi BM25 (Robertson and Zaragoza 2009) with k1 = 1.5, b = 0.75, the inverse document frequency
    ``log(1 + (N - n + 0.5) / (n + 0.5))``, and words in lower case without punctuation.

    Example:
        >>> [round(score, 3) for score in bm25_scores(["a lost card"], ["My card is lost.", "Where is it?"])[0]]
        [1.303, 0.0]
    """
    bags = [Counter(_WORDS.findall(text.casefold())) for text in texts]
    lengths = [bag.total() for bag in bags]
    mean = max(sum(lengths) / max(len(lengths), 1), 1e-12)
    norm = [1.5 * (0.25 + 0.75 * length / mean) for length in lengths]
    places: dict[str, list[tuple[int, int]]] = {}
    for place, bag in enumerate(bags):
        for word, count in bag.items():
            places.setdefault(word, []).append((place, count))
    all_scores = []
    for query in queries:
        scores = [0.0] * len(texts)
        for word in _WORDS.findall(query.casefold()):
            there = places.get(word, [])
            weight = math.log(1 + (len(texts) - len(there) + 0.5) / (len(there) + 0.5))
            for place, count in there:
                scores[place] += weight * count * 2.5 / (count + norm[place])
        all_scores.append(scores)
    return all_scores


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
    lists, state = _draw(len(labels), k, prompts or len(query_labels))
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
            redrawn[number] = tuple(generator.sample_indexes(len(labels), k))
    return tuple(redrawn)


def _check_feasible(labels: Sequence[int], k: int, query_labels: Sequence[int], inside: bool, where: str) -> None:
    """Refuse what redrawing could never reach (the release loops for ever there)."""
    for own in sorted(set(query_labels)):
        others = len(labels) - labels.count(own)
        needed = 1 if k > len(labels) else k  # demonstrations repeat where there are too few
        possible = (k > 0 and others < len(labels)) if inside else others >= needed
        if not possible:
            raise ArgumentError(
                f"{'in' if inside else 'out-of'}-domain mode cannot succeed on {where} with k = {k}: "
                f"{len(labels) - others} of {len(labels)} demonstrations have label index {own}"
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
    try:
        rows = list(map(list, sampler if hasattr(sampler, "__getitem__") else None))  # type: ignore[call-overload]
    except TypeError:
        raise ArgumentError(f"the sampler must be a list of lists of positions, not {sampler!r:.80}") from None
    if len(rows) != queries:
        raise ArgumentError(f"the sampler has {len(rows)} rows, expected one for each of the {queries} test rows")
    for number, row in enumerate(rows):
        where = f"row {number} of the sampler"
        if len(row) != k:
            raise ArgumentError(f"{where} has {len(row)} positions, expected k = {k} (set_k changes k)")
        row[:] = [validate_integer(f"{where}: a demonstration", position, 0, pool - 1) for position in row]
    return tuple(map(tuple, rows))

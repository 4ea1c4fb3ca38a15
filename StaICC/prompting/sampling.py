"""Which rows a query gets: the stable generator, the triplet split and the demonstration sampler.

Every draw of the published benchmark (splits, demonstrations, label noise, pseudo-queries) comes from one linear
congruential generator, so it must produce the same numbers on every machine and in every Python version; the standard
library's :mod:`random` promises that only for ``random()``. It is not a good generator in the statistical sense, and
that does not matter here: it only fixes which rows are used. Recurrence: X <- (1664525 X + 1013904223) mod 2^32 with
X0 = 42 (the constants of Numerical Recipes); a float is X / 2^32.

The triplet split is a calibration set, a demonstration set and a test set. One fresh generator draws all rows that are
needed, without repetition, from the frozen table; the first part of the draw is the calibration set, then comes the
demonstration set, then the test set. A shorter test set is therefore a prefix of a longer one. The default split of
users' own data is stratified by label.

The demonstration sampler draws, for each of ``repeats * queries`` prompts in order, ``k`` positions of the
demonstration set, with one fresh generator. Prompt ``i + r * queries`` is for test row ``i`` in repeat ``r``. The full
list is drawn at once, so a prompt's demonstrations do not depend on which prompts are evaluated, in which order, or
where.
"""

from __future__ import annotations

import hashlib
import math
import re
from array import array
from bisect import insort
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import zip_longest
from typing import SupportsIndex, TypeVar

from StaICC.datasets.catalogue import SplitSizes
from StaICC.datasets.dataset import Dataset
from StaICC.datasets.table import Row, Table
from StaICC.errors import ArgumentError, FixedAttributes, FrozenList, validate_integer
from StaICC.safe_text import one_line

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


@dataclass(frozen=True, slots=True)
class SplitIndexes:
    """Row numbers of the frozen table, part by part, in the order drawn."""

    calibration: tuple[int, ...]
    demonstration: tuple[int, ...]
    test: tuple[int, ...]


class Label(str):
    """The label of a row: its text, which also knows its index in the label space of the data set.

    It compares, hashes, concatenates and serialises as the text. ``operator.index(label)`` is the index, and
    ``sequence[label]`` the item at that index. ``int(label)`` and ``float(label)`` read the text: label names may
    be numbers.

    Example:
        >>> label = Label("5", 4)
        >>> label == "5", int(label), ["one", "two", "three", "four", "five"][label]
        (True, 5, 'five')
    """

    __slots__ = ("_place",)
    _place: int

    def __new__(cls, text: str, index: int) -> Label:
        """Make the label with this text and index."""
        label = super().__new__(cls, text)
        label._place = index
        return label

    def __reduce_ex__(self, protocol: SupportsIndex) -> tuple[type[Label], tuple[str, int]]:
        return Label, (str(self), self._place)

    def __index__(self) -> int:
        return self._place

    def __int__(self) -> int:  # without it, int() would return the index; the same holds for float()
        return int(str(self))

    def __float__(self) -> float:
        return float(str(self))


class SubsetView(FixedAttributes):
    """Some rows of a table, with their label space: a calibration, demonstration or test set.

    This is the object that 0.1.1 calls ``basic_datasets_loader``. It holds row numbers and reads a row when it is
    asked for.

    Args:
        name: What to call it, such as ``"TREC-test"``.
        table: The table.
        indexes: Row numbers of the table.
        label_space: The labels' texts.
    """

    __slots__ = ("_label_space", "_table", "indexes", "name")

    def __init__(self, name: str, table: Table, indexes: Sequence[int], label_space: Sequence[str]) -> None:
        self.name = name
        self.indexes = indexes if isinstance(indexes, tuple) else tuple(indexes)
        self._table = table
        self._label_space = tuple(label_space)

    def __len__(self) -> int:
        return len(self.indexes)

    def __getitem__(self, index: int) -> tuple[list[str], Label]:
        """Return the input texts of row ``index`` of this set, as a list that cannot be changed, and its label."""
        row = self._table[self.indexes[index]]
        return FrozenList(row.texts), Label(self._label_space[row.label], row.label)

    def __iter__(self) -> Iterator[tuple[list[str], Label]]:
        return (self[index] for index in range(len(self)))

    def __repr__(self) -> str:
        return one_line(f"<{self.name}: {len(self)} rows, labels {', '.join(self._label_space)}>")

    def row(self, index: int) -> Row:
        """Return row ``index`` of this set, unchanged."""
        return self._table[self.indexes[index]]

    def texts(self, index: int) -> tuple[str, ...]:
        """Return the input texts of row ``index`` of this set."""
        return self._table[self.indexes[index]].texts

    def label(self, index: int) -> int:
        """Return the label index of row ``index`` of this set."""
        return self._table[self.indexes[index]].label

    def label_index_to_text(self, index: SupportsIndex) -> str:
        """Return the text of a label index, or of the label of a row.

        Raises:
            ArgumentError: The label space has no such index.
        """
        return self._label_space[validate_integer("a label index", index, 0, len(self._label_space) - 1)]

    def find_index_from_label(self, label: str) -> int:
        """Return the label index of a label's text.

        Raises:
            ArgumentError: The label space has no such label.
        """
        try:
            return self._label_space.index(label)
        except ValueError:
            known = ", ".join(self._label_space)
            raise ArgumentError(f"{label!r} is no label of {self.name}; labels: {known}") from None

    def get_input_text(self, index: int) -> list[str]:
        """Return the input texts of row ``index`` of this set, as a list that cannot be changed."""
        return FrozenList(self.texts(index))

    def get_label(self, index: int) -> str:
        """Return the text of the label of row ``index`` of this set."""
        return self._label_space[self.label(index)]

    def get_label_space(self) -> list[str]:
        """Return the labels' texts."""
        return list(self._label_space)

    def get_dataset_name(self) -> str:
        """Return the name of this set."""
        return self.name

    def split(self, split_indexes: Sequence[Sequence[int]]) -> list[SubsetView]:
        """Return one view for each list of row numbers (of this set)."""
        return [
            SubsetView(self.name, self._table, [self.indexes[index] for index in part], self._label_space)
            for part in split_indexes
        ]


@dataclass(frozen=True, slots=True)
class TripletSplit:
    """The three sets of one data set."""

    calibration: SubsetView
    demonstration: SubsetView
    test: SubsetView

    @property
    def dataset_name(self) -> str:
        """The name of the data set."""
        return self.test.name.removesuffix("-test")

    def get_dataset_name(self) -> str:
        """Return the name of the data set."""
        return self.dataset_name

    def get_label_space(self) -> list[str]:
        """Return the labels' texts."""
        return self.test.get_label_space()

    def get_default_ground_truth_label_index(self, index: int) -> int:
        """Return the label index of a test row.

        Raises:
            ArgumentError: The test set has no such row.
        """
        return self.test.label(validate_integer("index", index, 0, len(self.test) - 1))

    def get_default_ground_truth_label(self, index: int) -> str:
        """Return the text of the label of a test row; see :meth:`get_default_ground_truth_label_index`."""
        return self.test.label_index_to_text(self.get_default_ground_truth_label_index(index))


@lru_cache(maxsize=64)  # a suite splits the same ten tables for each of its parts
def split_indexes(rows: int, sizes: SplitSizes, labels: tuple[int, ...] = ()) -> SplitIndexes:
    """Draw the row numbers of the three sets.

    A stratified split orders the rows at random, and then by their position among the rows of their label, as a share
    of these. So each set, and the first rows of each set, have the label shares of the table to rounding.

    Args:
        rows: How many rows the table has.
        sizes: How many rows each set gets.
        labels: The label of each row, for a stratified split.

    Returns:
        The row numbers, in the order drawn.

    Raises:
        ArgumentError: The table has too few rows.
    """
    if sizes.total > rows:
        raise ArgumentError(f"the split needs {sizes.total} rows ({sizes}), but the table has {rows}")
    if sizes.stratified:
        draws = list(StableRandom().floats(rows))
        order = sorted(range(rows), key=draws.__getitem__)
        counts, seen, shares = Counter(labels), Counter[int](), {}
        for row in order:
            shares[row] = (seen[labels[row]] + 0.5) / counts[labels[row]]
            seen[labels[row]] += 1
        drawn = tuple(sorted(order, key=shares.__getitem__)[: sizes.total])
    else:
        drawn = tuple(StableRandom().sample_indexes(rows, sizes.total))
    first = sizes.calibration + sizes.demonstration
    return SplitIndexes(drawn[: sizes.calibration], drawn[sizes.calibration : first], drawn[first:])


def split_dataset(dataset: Dataset) -> TripletSplit:
    """Split a data set into its calibration, demonstration and test sets.

    Args:
        dataset: The data set; its card has the sizes.

    Returns:
        The three sets.
    """
    card = dataset.card
    labels = tuple(row.label for row in dataset.table) if card.split.stratified else ()
    indexes = split_indexes(len(dataset.table), card.split, labels)
    return TripletSplit(
        *(
            SubsetView(f"{card.name}-{part}", dataset.table, getattr(indexes, part), card.label_space)
            for part in ("calibration", "demonstration", "test")
        )
    )


_MOST_REDRAWS = 1_000_000  # per prompt; possible in principle but so rare that waiting would look like hanging

DemonstrationLists = tuple[tuple[int, ...], ...]
"""For each prompt, the positions of its demonstrations in the demonstration set, in the order shown."""


@lru_cache(maxsize=64)  # the parts of a suite use the same lists
def _draw(pool: int, k: int, prompts: int) -> tuple[DemonstrationLists, int]:
    generator = StableRandom()
    lists = tuple(tuple(generator.sample_indexes(pool, k)) for _ in range(prompts))
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
    labels: tuple[int, ...], k: int, query_labels: tuple[int, ...], inside: bool, where: str
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

    Returns:
        One tuple of ``k`` positions per prompt.

    Raises:
        ArgumentError: A label cannot be made to occur (or to be missing), whatever is drawn.
    """
    _check_feasible(labels, k, query_labels, inside, where)
    lists, state = _draw(len(labels), k, len(query_labels))
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

"""Orders of the demonstrations of a query."""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence

from StaICC.benchmarks.experimentor import Experimentor
from StaICC.methods import specification as spec
from StaICC.prompting.stable_random import StableRandom


def views_of_orders(
    experimentor: Experimentor, lists: Sequence[Sequence[int]], number: int, variant: spec.Variant
) -> list[Experimentor]:
    """Return copies of an experimentor, each with another order of its ``k`` demonstrations.

    Args:
        experimentor: The experimentor.
        lists: For each test row within the limit, positions of the demonstration set.
        number: As for :func:`order_patterns`, and ``variant``.
        variant: ``"paper"``, ``"staicc"`` or ``"0.1.1"``.
    """
    patterns = order_patterns(len(lists), len(lists[0]), experimentor.get_k(), number, variant)
    views = [zip(lists, orders, strict=True) for orders in zip(*patterns, strict=True)]
    shown = [[[row[place] for place in order] for row, order in pairs] for pairs in views]
    return [spec.with_demonstrations(experimentor, of_view) for of_view in shown]


def order_patterns(
    queries: int, candidates: int, k: int, number: int, variant: spec.Variant
) -> list[list[tuple[int, ...]]]:
    """Return the orders of demonstrations that self-adaptive in-context learning evaluates for each query.

    Args:
        queries: How many queries.
        candidates: How many near demonstrations each query has.
        k: How many of them a prompt has.
        number: Number of orders; fewer if fewer exist.
        variant: ``"paper"``: drawn at random, all different, and as the last one the order of TopK, with the nearest
            next to the query (in the authors' code, random ones can be equal); ``"staicc"``: drawn at random;
            ``"0.1.1"``: the first in lexicographic order (the release shuffles them, and throws the shuffled list
            away).

    Returns:
        For each query its orders, each of ``k`` places among the candidates. A query's do not depend on how many
        queries come after it.

    Example:
        >>> order_patterns(1, 3, 2, 4, "0.1.1")
        [[(0, 1), (0, 2), (1, 0), (1, 2)]]
    """
    first = list(itertools.islice(itertools.permutations(range(candidates), k), number))
    if variant == "0.1.1" or math.perm(candidates, k) <= number:
        return [first for _ in range(queries)]
    generator = StableRandom()
    last = [tuple(reversed(range(k)))] if variant == "paper" else []
    patterns = []
    for _ in range(queries):
        drawn: dict[tuple[int, ...], None] = {}
        while len(drawn) < number - len(last):
            order = tuple(generator.sample_indexes(candidates, k))
            if order not in last:
                drawn[order] = None
        patterns.append([*drawn, *last])
    return patterns

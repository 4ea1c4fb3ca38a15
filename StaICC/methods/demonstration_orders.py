"""Orders of the demonstrations of a query."""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence

from StaICC.methods.contract import MethodData
from StaICC.prompting.stable_random import StableRandom

Order = tuple[int, ...]
"""Places among the candidates of a query, in the order shown."""


def first_orders(candidates: int, k: int, number: int) -> list[Order]:
    """Return the first orders of ``k`` of the candidates, in lexicographic order.

    Example:
        >>> first_orders(3, 2, 4)
        [(0, 1), (0, 2), (1, 0), (1, 2)]
    """
    return list(itertools.islice(itertools.permutations(range(candidates), k), number))


def random_orders(queries: int, candidates: int, k: int, number: int, nearest_last: bool = False) -> list[list[Order]]:
    """Draw orders of ``k`` of the candidates for each query, all different.

    Args:
        queries: How many queries.
        candidates: How many candidates each query has, the nearest first.
        k: How many of them a prompt has.
        number: How many orders. If fewer exist, all of them, in lexicographic order.
        nearest_last: Whether the last order is not drawn, but that of TopK: the ``k`` nearest, the nearest next to the
            query.

    Returns:
        The orders of each query. They do not depend on how many queries come after it.
    """
    if math.perm(candidates, k) <= number:
        all_orders = first_orders(candidates, k, number)
        return [all_orders for _ in range(queries)]
    fixed: list[Order] = []
    if nearest_last:
        fixed.append(tuple(reversed(range(k))))
    generator = StableRandom()
    orders_of_queries = []
    for _ in range(queries):
        drawn: list[Order] = []
        while len(drawn) < number - len(fixed):
            order = tuple(generator.sample_indexes(candidates, k))
            if order not in drawn and order not in fixed:
                drawn.append(order)
        orders_of_queries.append(drawn + fixed)
    return orders_of_queries


def in_each_order(
    data: MethodData, candidates: Sequence[Sequence[int]], orders_of_queries: Sequence[Sequence[Order]]
) -> list[MethodData]:
    """Return the data with the demonstrations in each order.

    Args:
        data: The data of the method.
        candidates: For each test row, positions of the demonstration set.
        orders_of_queries: The orders of each test row, equally many.

    Returns:
        One for each order: the first has the first order of each test row, and so on.
    """
    views = []
    for number in range(len(orders_of_queries[0])):
        shown = []
        for positions, orders in zip(candidates, orders_of_queries, strict=True):
            shown.append([positions[place] for place in orders[number]])
        views.append(data.on(demonstrations=shown))
    return views

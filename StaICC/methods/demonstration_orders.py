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
    """Return for each query random orders of ``k`` of its candidates, all different.

    An order is a tuple of ``k`` numbers of candidates. Candidate 0 is the nearest one.

    Args:
        queries: How many queries.
        candidates: How many candidates each query has, the nearest first.
        k: How many of them a prompt has.
        number: How many orders each query has. If fewer exist, all of them, in lexicographic order.
        nearest_last: Whether the last of a query's orders is that of TopK, which is not random: the ``k`` nearest
            candidates, of which the nearest is the last one of the prompt, next to the query.

    Returns:
        The orders of each query. They do not depend on how many queries come after it.
    """
    order_count = math.perm(candidates, k)
    if order_count <= number:
        all_orders = first_orders(candidates, k, number)
        return [all_orders for _ in range(queries)]
    order_of_topk = tuple(reversed(range(k)))  # (k - 1, ..., 1, 0)
    fixed_orders: list[Order] = [order_of_topk] if nearest_last else []
    random_count = number - len(fixed_orders)
    generator = StableRandom()
    orders_of_queries = []
    for _ in range(queries):
        drawn: list[Order] = []
        while len(drawn) < random_count:
            order = tuple(generator.sample_indexes(candidates, k))
            if order not in drawn and order not in fixed_orders:
                drawn.append(order)
        orders_of_queries.append(drawn + fixed_orders)
    return orders_of_queries


def in_each_order(
    data: MethodData, candidates: Sequence[Sequence[int]], orders_of_queries: Sequence[Sequence[Order]]
) -> list[MethodData]:
    """Return copies of the data of a method whose prompts show demonstrations in different orders.

    Args:
        data: The data of the method.
        candidates: For each test row the candidates, as positions of the demonstration set.
        orders_of_queries: For each test row its orders, equally many. An order has numbers of candidates, from 0.

    Returns:
        As many copies as a test row has orders: the first copy shows each test row its first order, and so on.
    """
    views = []
    order_count = len(orders_of_queries[0])
    for order_number in range(order_count):
        demonstrations = []
        for positions, orders in zip(candidates, orders_of_queries, strict=True):
            order = orders[order_number]
            demonstrations.append([positions[candidate] for candidate in order])
        views.append(data.on(demonstrations=demonstrations))
    return views

"""Rules that choose demonstrations by their distances to a query."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal

from StaICC.errors import ArgumentError
from StaICC.methods.determinantal_process import greedy_map, quality_similarity_kernel
from StaICC.methods.nearness import nearest
from StaICC.methods.packed_features import numpy
from StaICC.methods.text_distances import TextDistances
from StaICC.methods.vote_k import representatives
from StaICC.prompting.demonstrations import turns_of

SelectionRule = Literal["nearest", "diverse", "balanced", "vote-k", "dpp"]
"""How demonstrations are chosen; see :func:`choose_demonstrations`."""

REPRESENTATIVES = 100
"""Demonstrations that vote-k keeps (Su et al. 2023 annotate 18 or 100)."""

DIVERSE_CANDIDATES = 10
"""For each demonstration that ``"diverse"`` chooses, how many of the nearest it chooses from."""

DPP_CANDIDATES = 100
"""How many of the nearest ``"dpp"`` chooses from, as the authors of CEIL (their ``candidate_num``)."""


@dataclass(frozen=True)
class Pool:
    """The demonstrations that a rule chooses from. All have a text."""

    texts: Sequence[str]
    labels: Sequence[int] | None
    """The label of each; ``None`` if the rule does not read labels."""


def choose_demonstrations(
    pool: Pool,
    query_texts: Sequence[str],
    text_distances: TextDistances,
    count: int,
    rule: SelectionRule = "nearest",
    exclude_duplicates: bool = False,
) -> list[list[int] | None]:
    """Choose demonstrations for each query.

    Args:
        pool: The demonstrations to choose from, with labels if the rule is ``"balanced"``.
        query_texts: The text of each query.
        text_distances: Computes the distances between texts of the pool and of the queries.
        count: How many to choose.
        rule: ``"nearest"`` (Liu et al. 2022); ``"balanced"``: the nearest of each label in turn, the label with the
            nearest first; ``"diverse"``: maximal marginal relevance (:func:`diverse`); ``"vote-k"``: the nearest of 100
            demonstrations that represent all (:func:`~StaICC.methods.vote_k.representatives`); ``"dpp"``: a
            determinantal point process (:func:`determinantal`).
        exclude_duplicates: Never choose a demonstration with exactly the text of the query.

    Returns:
        For each query, positions in the pool, the nearest first and the first of equals first (``"diverse"``: in the
        order chosen). ``None`` for a query without text: nothing is near to it.

    Raises:
        ArgumentError: There are too many duplicates of a query, or the rule needs vectors and there are none.
        OutputError: An encoding has NaN or an infinity.
    """
    distinct_queries = [text for text in dict.fromkeys(query_texts) if text]
    if not distinct_queries:
        return [None for _ in query_texts]
    distances = distances_to_pool(text_distances, distinct_queries, pool.texts)
    if exclude_duplicates:
        _exclude_duplicates(distances, distinct_queries, pool.texts, count)
    if rule == "vote-k":
        distances_within_pool = distances_to_pool(text_distances, pool.texts, pool.texts)
        kept = representatives(distances_within_pool, max(count, REPRESENTATIVES))
        _exclude_all_but(distances, kept)

    chosen: dict[str, list[int]] = {}  # by the text of the query
    orders_of_pool = nearest(distances, len(pool.texts)).tolist()
    for query, query_distances, order_of_pool in zip(distinct_queries, distances, orders_of_pool, strict=True):
        # Excluded demonstrations have the distance infinity.
        order = [position for position in order_of_pool if query_distances[position] < numpy.inf]
        if rule == "balanced":
            chosen[query] = balanced(order, pool, count)
        elif rule == "diverse":
            chosen[query] = diverse(order, query_distances, pool, text_distances, count)
        elif rule == "dpp":
            chosen[query] = determinantal(order, query, pool, text_distances, count)
        else:
            chosen[query] = order[:count]
    return [list(chosen[text]) if text else None for text in query_texts]


def distances_to_pool(text_distances: TextDistances, texts: Sequence[str], pool_texts: Sequence[str]) -> Any:
    """Return the distance of each text to each text of a pool: array (texts, pool).

    The distances of distinct texts are computed once, and then repeated for equal texts. So equal texts have distances
    that are equal to the last bit, and their order is that of the pool.

    Args:
        text_distances: Computes the distances.
        texts: The texts, some of which may be equal.
        pool_texts: The texts of the pool, some of which may be equal.
    """
    row_of_text = {text: row for row, text in enumerate(dict.fromkeys(texts))}
    column_of_text = {text: column for column, text in enumerate(dict.fromkeys(pool_texts))}
    distances = numpy.array(text_distances.distances(list(row_of_text), list(column_of_text)))
    rows = [row_of_text[text] for text in texts]
    columns = [column_of_text[text] for text in pool_texts]
    return distances[rows][:, columns]


def _exclude_duplicates(distances: Any, queries: Sequence[str], pool_texts: Sequence[str], count: int) -> None:
    """Set the distance of each query to demonstrations of exactly its text to infinity.

    Args:
        distances: The distance of each query to each demonstration of the pool, array (queries, pool); it is changed.
        queries: The text of each query.
        pool_texts: The text of each demonstration.
        count: How many other demonstrations each query needs.

    Raises:
        ArgumentError: There are fewer other demonstrations.
    """
    for query, query_distances in zip(queries, distances, strict=True):
        is_duplicate = [text == query for text in pool_texts]
        query_distances[is_duplicate] = numpy.inf
        remaining = len(pool_texts) - sum(is_duplicate)
        if remaining < count:
            raise ArgumentError(f"got too many duplicates of a query, expected at least {count} other demonstrations")


def _exclude_all_but(distances: Any, kept: Sequence[int]) -> None:
    """Set the distances to all demonstrations but some to infinity."""
    is_excluded = numpy.ones(distances.shape[1], bool)
    is_excluded[list(kept)] = False
    distances[:, is_excluded] = numpy.inf


def balanced(order: Sequence[int], pool: Pool, count: int) -> list[int]:
    """Choose the nearest demonstration of each label, then the second nearest of each label, and so on.

    Args:
        order: The demonstrations that may be chosen, nearest first.
        pool: The pool with its labels.
        count: How many.
    """
    if pool.labels is None:
        raise ArgumentError("rule='balanced' chooses by labels: got a pool without labels")
    labels = [pool.labels[position] for position in order]
    chosen: list[int] = []
    for indexes in turns_of(labels):  # of the nearest of each label, then of the second nearest of each, ...
        chosen += [order[index] for index in indexes]
    return chosen[:count]


def diverse(
    order: Sequence[int], query_distances: Any, pool: Pool, text_distances: TextDistances, count: int
) -> list[int]:
    """Choose by maximal marginal relevance (Carbonell and Goldstein 1998), from the ``10 * count`` nearest.

    One after the other, the demonstration with the largest value is chosen. With the distance ``d``, the query ``q``,
    those chosen so far ``S`` and equal weights of relevance and novelty, the value of a demonstration ``x`` is::

        -d(x, q) - max(-d(x, s) for s in S)

    Args:
        order: The demonstrations that may be chosen, nearest first.
        query_distances: The distance of each demonstration of the pool to the query.
        pool: The pool.
        text_distances: Computes the distances between texts of the pool.
        count: How many.
    """
    nearest_positions = order[: DIVERSE_CANDIDATES * count]
    texts = [pool.texts[position] for position in nearest_positions]
    distances_between = text_distances.distances(texts, texts)

    # A candidate is a number from 0: its index in ``nearest_positions`` and in ``distances_between``.
    remaining = list(range(len(nearest_positions)))
    chosen: list[int] = []
    while len(chosen) < count:
        values = []
        for candidate in remaining:
            relevance = -query_distances[nearest_positions[candidate]]
            similarity_to_chosen = 0.0
            if chosen:
                similarity_to_chosen = max(-distances_between[candidate, other] for other in chosen)
            values.append(relevance - similarity_to_chosen)
        best = remaining[values.index(max(values))]
        chosen.append(best)
        remaining.remove(best)
    return [nearest_positions[candidate] for candidate in chosen]


def determinantal(order: Sequence[int], query: str, pool: Pool, text_distances: TextDistances, count: int) -> list[int]:
    """Choose the most probable set of a determinantal point process, by greedy search, from the 100 nearest.

    Ye et al. 2023, "Compositional Exemplars for In-context Learning" (CEIL), with the encoder as it is: they also train
    one. As in their code, those chosen are shown by their relevance, the most relevant first.

    Args:
        order: The demonstrations that may be chosen, nearest first.
        query: The text of the query.
        pool: The pool.
        text_distances: Computes the cosines between texts, from vectors.
        count: How many.
    """
    candidates = order[: max(count, DPP_CANDIDATES)]
    texts = [pool.texts[position] for position in candidates]
    relevance = text_distances.cosines([query], texts)[0]
    kernel = quality_similarity_kernel(relevance, text_distances.cosines(texts, texts))
    chosen = greedy_map(kernel, count)
    by_relevance = sorted(chosen, key=lambda candidate: (-relevance[candidate], candidate))
    return [candidates[candidate] for candidate in by_relevance]

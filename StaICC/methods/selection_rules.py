"""Rules that choose demonstrations by their distances."""

from __future__ import annotations

import math
import operator
from collections.abc import Sequence
from typing import Any, Literal

from StaICC.errors import ArgumentError
from StaICC.methods import specification as spec
from StaICC.methods.calibration.neighbours import nearest
from StaICC.methods.features import numpy
from StaICC.methods.text_distances import Distances
from StaICC.prompting.demonstrations import turns_of

SelectionRule = Literal["nearest", "diverse", "balanced", "vote-k"]
"""How demonstrations are chosen by their distances; see :func:`nearest_demonstrations`."""


def nearest_demonstrations(
    distances_of: Distances,
    demonstrations: Any,
    queries: Sequence[Sequence[str]],
    count: int,
    variant: spec.Variant = "paper",
    rule: SelectionRule = "nearest",
    exclude_duplicates: bool = False,
) -> list[list[int]]:
    """Choose demonstrations for each query (TopK; Liu et al. 2022, "What Makes Good In-Context Examples").

    Args:
        distances_of: Compares the texts; several input texts of a row are joined by blanks.
        demonstrations: Rows to choose from, each its input texts and its label.
        queries: Input texts of each query.
        count: How many to choose.
        variant: ``"0.1.1"`` counts positions among the demonstrations with text only, so that every demonstration after
            one without text is taken for the one before it (``tweet_eval_hate`` has four without).
        rule: ``"nearest"``; ``"balanced"``: the nearest of each label in turn, the label with the nearest first;
            ``"diverse"``: of the ``10 * count`` nearest, one after the other, the one that is most similar to the query
            and least to those chosen, with equal weights (maximal marginal relevance; Carbonell and Goldstein 1998);
            ``"vote-k"``: the nearest of 100 demonstrations that represent all (Su et al. 2023, fast vote-k).
        exclude_duplicates: Never choose a demonstration with exactly the text of the query.

    Returns:
        For each query, positions of the demonstrations, the nearest first and the first of equals first (``"diverse"``:
        in the order chosen). A demonstration without text is never chosen; a query without text gets the first ones.

    Raises:
        ArgumentError: There are too many duplicates of a query.
        OutputError: A state has NaN or an infinity.
    """
    texts = [" ".join(demonstrations[place][0]) for place in range(len(demonstrations))]
    usable = [place for place, text in enumerate(texts) if text]
    query_texts = [" ".join(query) for query in queries]
    # Equal texts share a column, so that their distances are equal to the last bit and their order is that of the set.
    distinct = {text: column for column, text in enumerate(dict.fromkeys(texts[place] for place in usable))}
    rows = {text: row for row, text in enumerate(dict.fromkeys(filter(None, query_texts)))}
    if not rows:
        return [usable[:count] for _ in query_texts]
    columns = [distinct[texts[place]] for place in usable]
    distances = numpy.array(distances_of(list(rows), list(distinct))[:, columns])
    if exclude_duplicates:
        for text, row in rows.items():
            distances[row, [texts[place] == text for place in usable]] = math.inf
        if (numpy.isfinite(distances).sum(1) < count).any():
            raise ArgumentError(f"got too many duplicates of a query, expected at least {count} other demonstrations")
    if rule == "vote-k":
        between = distances_of(list(distinct), list(distinct))[columns][:, columns]
        outside = numpy.ones(len(usable), bool)
        outside[representatives(between, max(count, 100))] = False
        distances[:, outside] = math.inf
    positions = range(len(usable)) if variant == "0.1.1" else usable
    lists = {}
    for text, own, order in zip(rows, distances, nearest(distances, len(usable)).tolist(), strict=True):
        if rule == "balanced":  # the nearest of each label in turn
            turns = turns_of([operator.index(demonstrations[usable[place]][1]) for place in order])
            order = [order[place] for turn in turns for place in turn]
        elif rule == "diverse":
            order = _diverse(distances_of, order[: 10 * count], own, [texts[place] for place in usable], count)
        lists[text] = [positions[place] for place in order[:count]]
    return [list(lists[text]) if text else usable[:count] for text in query_texts]


def _diverse(
    distances_of: Distances, candidates: Sequence[int], distances: Any, texts: Sequence[str], count: int
) -> list[int]:
    """Choose by maximal marginal relevance."""
    candidate_texts = [texts[place] for place in candidates]
    between = distances_of(candidate_texts, candidate_texts)
    rest, chosen = list(range(len(candidates))), list[int]()
    while len(chosen) < count:
        similarity = [max((-between[place, other] for other in chosen), default=0.0) for place in rest]
        values = [-distances[candidates[place]] - near for place, near in zip(rest, similarity, strict=True)]
        chosen.append(rest.pop(values.index(max(values))))
    return [candidates[place] for place in chosen]


def representatives(between: Any, number: int) -> list[int]:
    """Choose rows that represent all, by fast vote-k.

    Each row votes for its 150 nearest. The vote of a row counts a tenth for each chosen row that it voted for; chosen
    rows have no vote. Of equals, the one with most votes at the start is chosen, then the one that was voted for first,
    as in the authors' code.
    """
    others = between.copy()
    numpy.fill_diagonal(others, math.inf)
    votes = numpy.zeros(between.shape)
    numpy.put_along_axis(votes, nearest(others, min(150, len(between) - 1)), 1.0, axis=1)
    weights = numpy.ones(len(between))
    voter = votes.argmax(0)
    order = numpy.lexsort((-between[voter, range(len(between))], voter, -votes.sum(0)))
    chosen: list[int] = []
    while len(chosen) < min(number, len(between)):
        scores = weights @ votes
        scores[chosen] = -1.0
        chosen.append(int(order[scores[order].argmax()]))
        weights[votes[:, chosen[-1]] > 0] /= 10
        weights[chosen[-1]] = 0.0
    return chosen

"""Fast vote-k: the rows that represent all rows.

Su et al. 2023, "Selective Annotation Makes Language Models Better Few-Shot Learners".
"""

from __future__ import annotations

import math
from typing import Any

from StaICC.methods.nearness import nearest
from StaICC.methods.packed_features import numpy

VOTES = 150
"""Rows that each row votes for, as in the authors' code."""


def representatives(between: Any, number: int) -> list[int]:
    """Choose rows that represent all, one after the other: each time the row with the highest score.

    A row votes for its 150 nearest. The score of a row is the sum of the weights of those that vote for it. The weight
    of a voter is ``10 ** -(number of chosen rows that it voted for)``; chosen rows have the weight 0.

    Args:
        between: The distance of each row to each other, array (n, n).
        number: How many rows; all rows if there are fewer.

    Returns:
        The rows in the order chosen. Of equal scores, the row with most votes wins, then the one that was voted for
        first, as in the authors' code.
    """
    size = len(between)
    votes = _votes(between)  # array (voters, rows): 1 for a vote, otherwise 0
    order = _order_of_equals(between, votes)

    weights = numpy.ones(size)  # of each voter
    chosen: list[int] = []
    while len(chosen) < min(number, size):
        scores = weights @ votes
        scores[chosen] = -1.0  # below all others: a row is chosen once
        place_in_order = scores[order].argmax()  # the first of equal scores
        best = int(order[place_in_order])
        chosen.append(best)
        voted_for_best = votes[:, best] > 0
        weights[voted_for_best] /= 10
        weights[best] = 0.0
    return chosen


def _votes(between: Any) -> Any:
    """Return an array (voters, rows): 1 where a voter votes for a row, otherwise 0."""
    to_others = between.copy()
    numpy.fill_diagonal(to_others, math.inf)
    voted_for = nearest(to_others, min(VOTES, len(between) - 1))
    votes = numpy.zeros(between.shape)
    numpy.put_along_axis(votes, voted_for, 1.0, axis=1)
    return votes


def _order_of_equals(between: Any, votes: Any) -> Any:
    """Return the rows in the order in which equal scores are decided.

    Rows with more votes come first, then rows whose first voter comes first; of the rows of one voter, the farthest.

    Args:
        between: The distance of each row to each other, array (n, n).
        votes: Array (voters, rows), with as many voters as rows: 1 where a voter votes for a row, otherwise 0.
    """
    vote_counts = votes.sum(axis=0)
    first_voter = votes.argmax(axis=0)  # the index of the first 1 of each column
    distance_of_first_voter = between[first_voter, range(len(between))]
    # lexsort sorts by its last key; where that is equal, by the key before it. A minus sorts the largest first.
    return numpy.lexsort((-distance_of_first_voter, first_voter, -vote_counts))

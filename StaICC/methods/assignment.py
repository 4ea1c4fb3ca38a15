"""The assignment problem: each row of a square matrix gets a column of its own, at the smallest total cost."""

from __future__ import annotations

import math
from collections.abc import Sequence

from StaICC.methods.packed_features import numpy


def assignment(costs: Sequence[Sequence[float]]) -> list[int]:
    """Return the column of each row, all different, so that the sum of costs is smallest.

    By shortest augmenting paths (Kuhn 1955, Munkres 1957; cubic time). Each row and each column has a potential; the
    reduced cost of a cell, its cost minus both, is never negative and 0 for assigned cells. A new row takes the path of
    the smallest reduced costs to a free column; the rows on the path move on by one column.

    Example:
        >>> assignment([[4, 1, 3], [2, 0, 5], [3, 2, 2]])
        [1, 0, 2]
    """
    size = len(costs)
    matrix = numpy.asarray(costs, float)
    row_potentials = numpy.zeros(size)
    column_potentials = numpy.zeros(size + 1)
    start = size  # an additional column, from which the path of a new row begins
    owner = numpy.full(size + 1, -1)  # the row of each column; -1 for a free column

    for new_row in range(size):
        owner[start] = new_row
        column = start
        distances = numpy.full(size, math.inf)  # of each column from the new row
        previous_column = numpy.zeros(size, int)  # on the path to each column
        visited = numpy.zeros(size + 1, bool)

        while owner[column] >= 0:
            visited[column] = True
            row = owner[column]
            reduced = matrix[row] - row_potentials[row] - column_potentials[:size]
            nearer = ~visited[:size] & (reduced < distances)
            distances[nearer] = reduced[nearer]
            previous_column[nearer] = column
            column = int(numpy.where(visited[:size], math.inf, distances).argmin())
            step = distances[column]
            row_potentials[owner[visited]] += step
            column_potentials[visited] -= step
            distances[~visited[:size]] -= step

        while column != start:  # back along the path: each column gets the row of the one before it
            owner[column] = owner[previous_column[column]]
            column = int(previous_column[column])

    columns_of_rows: list[int] = numpy.argsort(owner[:size]).tolist()
    return columns_of_rows

"""The assignment problem: each row of a square matrix gets a column of its own, at the smallest total cost."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from StaICC.methods.packed_features import numpy

NONE = -1
"""In the place of a row or a column: there is none."""


def assignment(costs: Sequence[Sequence[float]]) -> list[int]:
    """Return the column of each row, all different, so that the sum of costs is smallest.

    The Hungarian algorithm (Kuhn 1955, Munkres 1957; cubic time) assigns one row after the other. A new row may take
    the column of another row, which then takes the column of a third one, until a row takes a free column. Of all such
    chains, the algorithm takes the one that adds the smallest cost.

    Args:
        costs: A square matrix: the cost of each column for each row.

    Example:
        >>> assignment([[4, 1, 3], [2, 0, 5], [3, 2, 2]])
        [1, 0, 2]
    """
    problem = _PartialAssignment(numpy.asarray(costs, float))
    for row in range(len(costs)):
        problem.add(row)
    columns_of_rows: list[int] = numpy.argsort(problem.row_of_column).tolist()
    return columns_of_rows


class _PartialAssignment:
    """The best assignment of the rows that were added so far.

    Each column has a price. Of its cost minus the price, the assigned column of a row has the smallest one in the row.
    So a row that gives up its column for another one never gains, and the best chain is a shortest path (Dijkstra).

    Attributes:
        row_of_column: The row of each column; :data:`NONE` for a free column.
    """

    def __init__(self, costs: Any) -> None:
        """Begin without rows: all columns are free, and their prices are 0.

        Args:
            costs: The square matrix with the cost of each row (dimension 0) in each column (dimension 1).
        """
        size = len(costs)
        self.row_of_column = numpy.full(size, NONE)
        self._costs = costs
        self._prices = numpy.zeros(size)

    def add(self, new_row: int) -> None:
        """Assign one more row at the smallest additional cost; rows that were added before may get other columns.

        The chain begins with a column that the new row takes, and ends with a free column. Dijkstra's algorithm finds
        the shortest one: again and again, it visits the nearest column that was not visited. If that column is
        assigned, its row may take any other column, so these may become nearer.
        """
        distances = self._costs[new_row] - self._prices  # the additional cost of a chain up to each column
        column_before = numpy.full(len(distances), NONE)  # in the shortest chain to each column
        visited = numpy.zeros(len(distances), bool)

        column = _nearest(distances, visited)
        while self.row_of_column[column] != NONE:
            visited[column] = True
            # The row of this column may change to any other column. That costs the difference of the reduced costs
            # (cost minus price), which is not negative: its own column has the smallest one.
            reduced_costs = self._costs[self.row_of_column[column]] - self._prices
            through_this_column = distances[column] + reduced_costs - reduced_costs[column]
            is_shorter = ~visited & (through_this_column < distances)
            distances[is_shorter] = through_this_column[is_shorter]
            column_before[is_shorter] = column
            column = _nearest(distances, visited)

        # The price of a visited column falls by how much nearer it is than the end of the chain. So the column that a
        # row has from now on is again the one with the smallest reduced cost in the row.
        self._prices[visited] += distances[visited] - distances[column]
        # Backwards along the chain: each column gets the row of the column before it, the first one the new row.
        while column_before[column] != NONE:
            self.row_of_column[column] = self.row_of_column[column_before[column]]
            column = column_before[column]
        self.row_of_column[column] = new_row


def _nearest(distances: Any, visited: Any) -> int:
    """Return the column with the smallest distance among those that were not visited."""
    return int(numpy.where(visited, numpy.inf, distances).argmin())

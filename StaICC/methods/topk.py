"""TopK: the demonstrations that are nearest to the query (Liu et al. 2022, "What Makes Good In-Context Examples")."""

from __future__ import annotations

from StaICC.methods import specification as spec
from StaICC.methods.nearest_demonstrations import HIDDEN_STATES, RetrievalOptions, near_demonstrations


def topk(data: spec.MethodData) -> spec.Steps:
    """Show each test example the demonstrations that are nearest to it, nearest first."""
    k = data.experimentor.get_k()
    lists = yield from near_demonstrations(data, k, k)
    data.experimentor = spec.with_demonstrations(data.experimentor, lists)
    (rows,) = yield [data.queries()]
    return rows


TOPK = spec.MethodSpec("topk", "TopK", topk, HIDDEN_STATES, options=RetrievalOptions)

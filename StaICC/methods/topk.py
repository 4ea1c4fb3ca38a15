"""TopK: the demonstrations that are nearest to the query (Liu et al. 2022, "What Makes Good In-Context Examples")."""

from __future__ import annotations

from StaICC.kernels.protocol import Capability
from StaICC.methods.contract import MethodData, MethodSpec, Steps
from StaICC.methods.nearest_demonstrations import SelectionOptions, nearest_demonstrations


def topk(data: MethodData) -> Steps:
    """Show each test example the demonstrations that are nearest to it, nearest first."""
    nearest = yield from nearest_demonstrations(data, data.k, data.options)
    view = data.on(demonstrations=nearest)
    (rows,) = yield [view.ask()]
    return view.predictions(rows)


TOPK = MethodSpec("topk", "TopK", topk, frozenset({Capability.HIDDEN_STATES}), options=SelectionOptions)

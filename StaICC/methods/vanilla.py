"""Vanilla inference: the model's own predictions."""

from __future__ import annotations

from StaICC.methods.contract import MethodData, MethodSpec, Steps


def vanilla(data: MethodData) -> Steps:
    """Predict what the model predicts."""
    (rows,) = yield [data.ask()]
    return data.predictions(rows)


VANILLA = MethodSpec("vanilla", "Vanilla", vanilla, frozenset())

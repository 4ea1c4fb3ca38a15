"""Vanilla inference: the predictions of the model, unchanged."""

from __future__ import annotations

from StaICC.methods.specification import MethodData, MethodSpec, Steps


def vanilla(data: MethodData) -> Steps:
    """Predict what the model predicts."""
    (rows,) = yield [data.queries()]
    return rows


VANILLA = MethodSpec("vanilla", "Vanilla", vanilla, frozenset())

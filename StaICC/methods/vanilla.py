"""Vanilla inference: the model's own predictions."""

from __future__ import annotations

from StaICC.methods import specification as spec


def vanilla(data: spec.MethodData) -> spec.Steps:
    """Predict what the model predicts."""
    (rows,) = yield [data.ask()]
    return data.predictions(rows)


VANILLA = spec.MethodSpec("vanilla", "Vanilla", vanilla, frozenset())

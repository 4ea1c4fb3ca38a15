"""Why the scores of a model are not finite: its weights, or the range of its number type."""

from __future__ import annotations

from typing import Any


def why_not_finite(model: Any) -> str:
    """Return a sentence on the cause of scores that are NaN or infinite, with what to do.

    Args:
        model: A model of ``transformers``.
    """
    for name, weight in model.named_parameters():
        if weight.is_floating_point() and not bool(weight.isfinite().all()):
            return f"The weight {name} has values that are not finite: the checkpoint is damaged. Load it again"
    dtype = str(model.dtype).removeprefix("torch.")
    if dtype in ("float16", "bfloat16"):
        return f"The model is computed in {dtype}. Use dtype=float32"
    return f"All weights are finite, and the model is computed in {dtype}: its computation overflows on this prompt"

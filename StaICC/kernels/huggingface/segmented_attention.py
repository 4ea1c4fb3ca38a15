"""Attention over rows that follow each other in one sequence, computed row by row.

Rows of different lengths are computed as one sequence without padding. Each row attends to itself only, so most pairs
of positions would be masked out. Inside :func:`segmented_attention`, and only in its thread, calls of
``torch.nn.functional.scaled_dot_product_attention`` with its mask are computed segment by segment instead. Nothing is
patched. All entries of the mask are NaN: in a model that computes attention in another way, or changes the mask, the
result is NaN, never a wrong number, and ``capabilities`` finds that such a model cannot be run in this way.
"""

from __future__ import annotations

import functools
from collections.abc import Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import Any

from StaICC.optional import require


@dataclass(frozen=True, slots=True)
class Segment:
    """Positions ``first`` to ``end - 1``, which attend to positions from ``start`` on.

    Attributes:
        start: First position of the row.
        first: First position of the segment.
        end: Position after the last one.
        mask: Additive mask of shape (end - first, end - start); None for causal attention, with ``first == start``.
    """

    start: int
    first: int
    end: int
    mask: Any = None


@functools.cache
def _mode() -> Any:
    """The class that redirects (made late, because its base class needs torch)."""
    torch = require("torch", "hf", "the causal language model kernel")
    from torch.overrides import TorchFunctionMode

    attention = torch.nn.functional.scaled_dot_product_attention

    class SegmentedAttention(TorchFunctionMode):  # type: ignore[misc, unused-ignore]
        """Redirects attention with one mask."""

        def __init__(self, mask: Any, pieces: Sequence[Segment]) -> None:
            super().__init__()
            self.mask, self.pieces = mask, pieces

        def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
            if func is attention:
                return self._attend(*args, **(kwargs or {}))
            return func(*args, **(kwargs or {}))

        def _attend(
            self,
            query: Any,
            key: Any,
            value: Any,
            attn_mask: Any = None,
            dropout_p: float = 0.0,
            is_causal: bool = False,
            **kwargs: Any,
        ) -> Any:
            ours = attn_mask is not None and attn_mask.data_ptr() == self.mask.data_ptr()
            sizes = {query.shape[-2], key.shape[-2], *self.mask.shape[-2:], *(attn_mask.shape[-2:] if ours else ())}
            if not ours or is_causal or len(sizes) > 1:
                return attention(query, key, value, attn_mask, dropout_p, is_causal, **kwargs)
            parts = []
            for piece in self.pieces:
                seen = slice(piece.start, piece.end)
                part = attention(
                    query[..., piece.first : piece.end, :],
                    key[..., seen, :],
                    value[..., seen, :],
                    piece.mask,
                    dropout_p,
                    piece.mask is None,
                    **kwargs,
                )
                parts.append(part.transpose(-3, -2))  # the layout in which attention returns its result
            return torch.cat(parts, -3).transpose(-3, -2)

    return SegmentedAttention


def segmented_attention(mask: Any, pieces: Sequence[Segment]) -> AbstractContextManager[Any]:
    """Context in which attention with a mask is computed by segments.

    Args:
        mask: The mask, a tensor of shape (1, 1, positions, positions); its values are not used.
        pieces: The segments, in order.
    """
    context: AbstractContextManager[Any] = _mode()(mask, pieces)
    return context

"""Operators that replace those of torch inside a context, in one thread: nothing is patched.

**Matrix products.** On a CPU, PyTorch multiplies float32 matrices with the library that it was built with, usually MKL,
which uses AVX2 on processors of other makers even where they have AVX-512. oneDNN, which PyTorch ships too, generates
code for the current processor. The arithmetic is the same (float32, only the order of additions differs), the speed
differs by 6 to 15 % of a run. On Intel's processors MKL is the faster one, by 10 to 15 % for 512 rows and more. Inside
:func:`fast_products`, calls of ``torch.nn.functional.linear`` and ``torch.addmm`` are redirected where the operands are
plain float32 tensors on the CPU. This is decided by the processor's maker and instruction set (AVX-512), not by a
timing trial: results must not depend on how busy the machine is.

**Attention** over rows that follow each other in one sequence is computed row by row, without padding. Each row attends
to itself only, so most pairs of positions would be masked out. Inside :func:`segmented_attention`, calls of
``torch.nn.functional.scaled_dot_product_attention`` with its mask are computed segment by segment instead. All entries
of the mask are NaN: in a model that computes attention in another way, or changes the mask, the result is NaN, never a
wrong number, and the trial finds that such a model cannot be run in this way.
"""

from __future__ import annotations

import contextlib
import functools
import platform
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from StaICC.kernels.huggingface import torch

LEAST_PACKED_ROWS = 8
"""Fewer rows than this are left to the default: laying out the weights would cost more than the product."""


@functools.cache
def uses_onednn() -> bool:
    """Return whether float32 products are given to oneDNN.

    They are on processors with AVX-512, unless both the processor and PyTorch's library (MKL) are Intel's.
    """
    if not torch.backends.cpu.get_cpu_capability().startswith("AVX512"):
        return False
    linux_description = Path("/proc/cpuinfo")
    if linux_description.exists():
        processor = linux_description.read_text("utf-8", "replace")
    else:
        processor = platform.processor()
    if "GenuineIntel" in processor and torch.backends.mkl.is_available():
        return False
    return torch.backends.mkldnn.is_available() and hasattr(torch.ops.mkldnn, "_linear_pointwise")


@functools.cache
def _replacement_class() -> Any:
    """Return a class of contexts in which functions of torch are replaced; its argument are the replacements.

    The class is made in the first call of this function, because its base class is imported from torch.
    """
    from torch.overrides import TorchFunctionMode

    class Replacement(TorchFunctionMode):  # type: ignore[misc, unused-ignore]
        """Inside this context, other functions are called instead of some of torch."""

        def __init__(self, replacements: Mapping[Any, Callable[..., Any]]) -> None:
            """Make a context, which is opened by ``with``.

            Args:
                replacements: The functions that are called, by the functions of torch that they replace.
            """
            super().__init__()
            self.replacements = replacements

        def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
            """Return what the replacement of a function returns, or the function itself if it has none.

            Torch calls this method inside the context in the place of each of its functions, with the arguments of the
            call (https://pytorch.org/docs/stable/torch.overrides.html).
            """
            function = self.replacements.get(func, func)
            if kwargs is None:
                return function(*args)
            return function(*args, **kwargs)

    return Replacement


def _replaced(replacements: Mapping[Any, Callable[..., Any]]) -> Any:
    """Return a context in which functions of torch are replaced, in the current thread.

    Args:
        replacements: The functions that are called, by the functions of torch that they replace.
    """
    context_class = _replacement_class()
    return context_class(replacements)


# Matrix products


def fast_products() -> Any:
    """Return a context in which oneDNN computes matrix products where it can."""
    return _replaced(_products())


@functools.cache
def _products() -> dict[Any, Callable[..., Any]]:
    """Return functions that use oneDNN where it can compute a product, by the functions of torch that they replace."""
    # Its arguments are inputs, weight, bias, and the function that is applied to the result with its parameters: none.
    onednn_product = torch.ops.mkldnn._linear_pointwise
    linear = torch.nn.functional.linear
    addmm = torch.addmm

    def fast_linear(inputs: Any, weight: Any, bias: Any = None) -> Any:
        """Return ``inputs @ weight.T + bias``, as ``torch.nn.functional.linear``."""
        if _fits_onednn(inputs, weight, bias):
            return onednn_product(inputs, weight, bias, "none", [], "")
        return linear(inputs, weight, bias)

    def fast_addmm(bias: Any, inputs: Any, weight: Any, **kwargs: Any) -> Any:
        """Return ``bias + inputs @ weight``, as ``torch.addmm``, which the layers of GPT-2 call."""
        if not kwargs and inputs.dim() == 2 and _fits_onednn(inputs, weight, bias):
            # The weights of oneDNN are the other way round: (outputs, inputs).
            return onednn_product(inputs, weight.t(), bias, "none", [], "")
        return addmm(bias, inputs, weight, **kwargs)

    return {linear: fast_linear, addmm: fast_addmm}


def _fits_onednn(inputs: Any, weight: Any, bias: Any) -> bool:
    """Return whether oneDNN can compute a product, and is worth its cost.

    Args:
        inputs: The rows, of shape (..., inputs).
        weight: The matrix, in two dimensions.
        bias: A vector, or None.
    """
    if not _is_plain_float32(inputs) or not _is_plain_float32(weight) or weight.dim() != 2:
        return False
    if bias is not None and not (_is_plain_float32(bias) and bias.dim() == 1):
        return False
    # A subclass of the user's or of a library may compute the product in its own way.
    if type(inputs) is not torch.Tensor:
        return False
    width = inputs.shape[-1]
    return bool(width > 0 and inputs.numel() >= LEAST_PACKED_ROWS * width)


def _is_plain_float32(tensor: Any) -> bool:
    """Return whether a tensor is in float32, in the memory of the CPU, and neither sparse nor packed."""
    return tensor.dtype is torch.float32 and tensor.device.type == "cpu" and tensor.layout is torch.strided


# Attention


@dataclass(frozen=True, slots=True)
class Segment:
    """Neighbouring positions of a sequence in which rows follow each other. They attend to their own row only.

    Attributes:
        row_start: The position where their row begins, the first one to which they attend.
        start: The first of these positions.
        end: The position after the last one.
        mask: What is added to the attention scores, of shape (1, 1, end - start, end - row_start); None for causal
            attention, in which each position attends to all that precede it in the row (``start == row_start``).
    """

    row_start: int
    start: int
    end: int
    mask: Any


@dataclass(frozen=True, slots=True)
class _Segmentation:
    """What :func:`segmented_attention` was opened with: the mask of the calls of attention, and their segments."""

    mask: Any
    segments: Sequence[Segment]


_thread = threading.local()
"""Has the attribute ``segmentation`` in each thread in which :func:`segmented_attention` is open."""


@contextlib.contextmanager
def segmented_attention(mask: Any, segments: Sequence[Segment]) -> Iterator[None]:
    """Open a context in which calls of attention with a certain mask are computed segment by segment.

    The function that computes them (:func:`_attention_by_segments`) finds mask and segments in
    ``_thread.segmentation``. Each thread has its own, and contexts may be nested.

    Args:
        mask: The mask by which these calls are recognised, of shape (1, 1, positions, positions). Its values are not
            used.
        segments: The segments, in order. Together they have all positions.
    """
    outer_segmentation = getattr(_thread, "segmentation", None)
    _thread.segmentation = _Segmentation(mask, segments)
    try:
        with _replaced(_replacement_of_attention()):
            yield
    finally:
        _thread.segmentation = outer_segmentation


def _attention_by_segments(
    query: Any,
    key: Any,
    value: Any,
    attn_mask: Any = None,
    dropout_p: float = 0.0,
    is_causal: bool = False,
    **further: Any,
) -> Any:
    """Return what torch's ``scaled_dot_product_attention`` returns; for the mask of a segmentation, segment by segment.

    That mask is the one with which :func:`segmented_attention` was opened in this thread. The positions of a segment
    attend to positions from the beginning of their row to the end of the segment, with the mask of the segment.

    Args:
        query: The queries, of shape (..., heads, positions, width).
        key: The keys.
        value: The values.
        attn_mask: The mask of the call, or None.
        dropout_p: The share of attention weights that are dropped in training.
        is_causal: Whether each position attends to those before it; there is no mask then.
        **further: Further arguments of torch's function.
    """
    attention = torch.nn.functional.scaled_dot_product_attention
    segmentation: _Segmentation = _thread.segmentation
    if is_causal or not _is_mask_of_segmentation(attn_mask, segmentation.mask, query, key):
        return attention(query, key, value, attn_mask, dropout_p, is_causal, **further)

    outputs = []
    for segment in segmentation.segments:
        attending = slice(segment.start, segment.end)
        attended = slice(segment.row_start, segment.end)
        output = attention(
            query[..., attending, :],
            key[..., attended, :],
            value[..., attended, :],
            attn_mask=segment.mask,
            dropout_p=dropout_p,
            is_causal=segment.mask is None,
            **further,
        )
        # (..., positions, heads, width): torch has it in this order in memory, so joining copies whole blocks.
        outputs.append(_heads_and_positions_swapped(output))
    joined_outputs = torch.cat(outputs, -3)
    return _heads_and_positions_swapped(joined_outputs)


def _heads_and_positions_swapped(tensor: Any) -> Any:
    """Return a tensor (..., heads, positions, width) as (..., positions, heads, width), and the other way round."""
    return tensor.transpose(-3, -2)


def _is_mask_of_segmentation(attn_mask: Any, mask: Any, query: Any, key: Any) -> bool:
    """Return whether the mask of a call of attention is the mask with which :func:`segmented_attention` was opened.

    Args:
        attn_mask: The mask of the call, or None.
        mask: The mask of the segmentation, for all positions.
        query: The queries of the call, (..., positions, width).
        key: The keys of the call.
    """
    if attn_mask is None:
        return False
    is_same_memory = attn_mask.data_ptr() == mask.data_ptr()
    # A part of the mask is in the same memory, too, so the numbers of positions must all be equal.
    position_counts = {query.shape[-2], key.shape[-2], *mask.shape[-2:], *attn_mask.shape[-2:]}
    return is_same_memory and len(position_counts) == 1


_SCHEMA = (
    "(Tensor query, Tensor key, Tensor value, Tensor? attn_mask=None, float dropout_p=0.0, bool is_causal=False, *, "
    "float? scale=None, bool enable_gqa=False) -> Tensor"
)
"""The schema of ``scaled_dot_product_attention``."""


@functools.cache
def _replacement_of_attention() -> dict[Any, Callable[..., Any]]:
    """Return the function that takes the place of ``scaled_dot_product_attention``, by the function that it replaces.

    It is :func:`_attention_by_segments`, but torch's compiler cannot follow that one. In compiled code, it is called as
    an operator of its own, into which the compiler does not look. The compiler must know the shape of an operator's
    result and its layout in memory beforehand. So the operator has a fixed layout, and a second function that returns
    an empty result.
    """

    def attention_in_fixed_layout(*args: Any, **kwargs: Any) -> Any:
        """Return attention, (..., heads, positions, width), which is in memory as (..., positions, heads, width)."""
        in_memory = _heads_and_positions_swapped(_attention_by_segments(*args, **kwargs)).contiguous()
        return _heads_and_positions_swapped(in_memory)

    def empty_result(query: Any, *args: Any, **kwargs: Any) -> Any:
        """Return a tensor with the shape and the layout of the result for a query, and without its numbers."""
        swapped_query = _heads_and_positions_swapped(query)
        in_memory = torch.empty_like(swapped_query, memory_format=torch.contiguous_format)
        return _heads_and_positions_swapped(in_memory)

    operator: Any = attention_in_fixed_layout
    if hasattr(torch.library, "custom_op"):  # since torch 2.4
        operator = torch.library.custom_op(
            "staicc::segmented_attention", attention_in_fixed_layout, mutates_args=(), schema=_SCHEMA
        )
        operator.register_fake(empty_result)
    # The compiler follows functions, but not the import of a package, so this one is looked up here.
    is_compiling = torch.compiler.is_compiling

    def attention(*args: Any, **kwargs: Any) -> Any:
        """Return attention by segments; the arguments are those of ``scaled_dot_product_attention``."""
        if is_compiling():
            return operator(*args, **kwargs)
        return _attention_by_segments(*args, **kwargs)

    return {torch.nn.functional.scaled_dot_product_attention: attention}

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
from pathlib import Path
from typing import Any

from StaICC.kernels.huggingface import torch

LEAST_PACKED_ROWS = 8
"""Fewer rows than this are left to the default: laying out the weights would cost more than the product."""


@functools.cache
def uses_onednn() -> bool:
    """Whether float32 products are given to oneDNN: on processors with AVX-512, if they or PyTorch are not Intel's."""
    if not torch.backends.cpu.get_cpu_capability().startswith("AVX512"):
        return False
    linux = Path("/proc/cpuinfo")
    processor = linux.read_text("utf-8", "replace") if linux.exists() else platform.processor()
    suits = "GenuineIntel" not in processor or not torch.backends.mkl.is_available()
    return suits and torch.backends.mkldnn.is_available() and hasattr(torch.ops.mkldnn, "_linear_pointwise")


@functools.cache
def _redirection() -> Any:
    """A class of contexts that replace functions (made late, because its base class needs torch)."""
    from torch.overrides import TorchFunctionMode

    class Redirection(TorchFunctionMode):  # type: ignore[misc, unused-ignore]
        """Calls other functions instead of some of torch."""

        def __init__(self, replacements: Mapping[Any, Callable[..., Any]]) -> None:
            super().__init__()
            self.replacements = replacements

        def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
            return self.replacements.get(func, func)(*args, **(kwargs or {}))

    return Redirection


@functools.cache
def _products() -> dict[Any, Callable[..., Any]]:
    """Matrix products that oneDNN computes where it can, by the functions of torch that they replace."""
    operator, linear, addmm = torch.ops.mkldnn._linear_pointwise, torch.nn.functional.linear, torch.addmm

    def product(inputs: Any, weight: Any, bias: Any) -> Any:
        return operator(inputs, weight, bias, "none", [], "")

    def usable(inputs: Any, *weights: Any) -> bool:
        tensors = [tensor for tensor in (inputs, *weights) if tensor is not None]
        plain = all(t.dtype is torch.float32 and t.device.type == "cpu" and t.layout is torch.strided for t in tensors)
        fits = [tensor.dim() for tensor in tensors[1:]] in ([2], [2, 1])
        return (
            plain
            and fits
            and type(inputs) is torch.Tensor
            and inputs.numel() >= LEAST_PACKED_ROWS * inputs.shape[-1] > 0
        )

    def fast_layer(inputs: Any, weight: Any, bias: Any = None) -> Any:
        return product(inputs, weight, bias) if usable(inputs, weight, bias) else linear(inputs, weight, bias)

    def fast_addmm(bias: Any, inputs: Any, weight: Any, **kwargs: Any) -> Any:
        # GPT-2 keeps its weights the other way round.
        if not kwargs and inputs.dim() == 2 and usable(inputs, weight, bias):
            return product(inputs, weight.t(), bias)
        return addmm(bias, inputs, weight, **kwargs)

    return {linear: fast_layer, addmm: fast_addmm}


_SCHEMA = (
    "(Tensor query, Tensor key, Tensor value, Tensor? attn_mask=None, float dropout_p=0.0, bool is_causal=False, *, "
    "float? scale=None, bool enable_gqa=False) -> Tensor"
)
"""That of ``scaled_dot_product_attention``."""

_current = threading.local()
"""The mask and the segments of the thread."""


Segment = tuple[int, int, int, Any]
"""``start``, ``first``, ``end`` and a mask: positions ``first`` to ``end - 1`` attend to positions from ``start`` on,
by an additive mask of shape (end - first, end - start), or None for causal attention, with ``first == start``."""


def _attend(
    query: Any,
    key: Any,
    value: Any,
    attn_mask: Any = None,
    dropout_p: float = 0.0,
    is_causal: bool = False,
    **more: Any,
) -> Any:
    """``scaled_dot_product_attention``, by segments where the mask is that of the thread."""
    attention = torch.nn.functional.scaled_dot_product_attention
    mask, segments = _current.work
    ours = attn_mask is not None and attn_mask.data_ptr() == mask.data_ptr()
    sizes = {query.shape[-2], key.shape[-2], *mask.shape[-2:], *(attn_mask.shape[-2:] if ours else ())}
    if not ours or is_causal or len(sizes) > 1:
        return attention(query, key, value, attn_mask, dropout_p, is_causal, **more)
    parts = []
    for start, first, end, allowed in segments:
        inputs = query[..., first:end, :], key[..., start:end, :], value[..., start:end, :]
        part = attention(*inputs, allowed, dropout_p, allowed is None, **more)
        parts.append(part.transpose(-3, -2))  # the layout in which attention returns its result
    return torch.cat(parts, -3).transpose(-3, -2)


@functools.cache
def _attention() -> dict[Any, Callable[..., Any]]:
    """:func:`_attend`, by the function of torch that it replaces."""

    def operator(*args: Any, **kwargs: Any) -> Any:
        return _attend(*args, **kwargs).transpose(-3, -2).contiguous().transpose(-3, -2)

    def shape(query: Any, *args: Any, **kwargs: Any) -> Any:
        return torch.empty_like(query.transpose(-3, -2), memory_format=torch.contiguous_format).transpose(-3, -2)

    is_compiling = torch.compiler.is_compiling  # the compiler follows functions, but not the import of a package
    compiled: Any = operator
    if hasattr(torch.library, "custom_op"):  # since torch 2.4; the compiler does not look into it
        options = {"mutates_args": (), "schema": _SCHEMA}
        compiled = torch.library.custom_op("staicc::segmented_attention", operator, **options)
        compiled.register_fake(shape)

    def attention(*args: Any, **kwargs: Any) -> Any:
        return (compiled if is_compiling() else _attend)(*args, **kwargs)

    return {torch.nn.functional.scaled_dot_product_attention: attention}


@contextlib.contextmanager
def segmented_attention(mask: Any, segments: Sequence[Segment]) -> Iterator[None]:
    """Context in which attention with a mask is computed by segments.

    Args:
        mask: The mask, a tensor of shape (1, 1, positions, positions); its values are not used.
        segments: The segments, in order.
    """
    before = getattr(_current, "work", None)
    _current.work = mask, segments
    try:
        with _redirection()(_attention()):
            yield
    finally:
        _current.work = before


def fast_products() -> Any:
    """Return a context in which oneDNN computes matrix products where it can."""
    return _redirection()(_products())

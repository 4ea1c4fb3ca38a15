"""Operators that replace those of torch inside a context, in one thread: nothing is patched.

**Matrix products.** On a CPU, PyTorch multiplies float32 matrices with the library that it was built with, usually MKL,
which uses AVX2 on processors of other makers even where they have AVX-512. oneDNN, which PyTorch ships too, generates
code for the current processor. The arithmetic is the same (float32, only the order of additions differs), the speed can
differ by a factor of two. On Intel's processors MKL is the faster one, by 10 to 15 % for 512 rows and more. Inside
:func:`fast_linear`, calls of ``torch.nn.functional.linear`` and ``torch.addmm`` are redirected where the operands are
plain float32 tensors on the CPU. This is decided by the processor's maker and instruction set (AVX-512), not by a
timing trial: results must not depend on how busy the machine is.

**Attention** over rows that follow each other in one sequence is computed row by row, without padding. Each row attends
to itself only, so most pairs of positions would be masked out. Inside :func:`segmented_attention`, calls of
``torch.nn.functional.scaled_dot_product_attention`` with its mask are computed segment by segment instead. All entries
of the mask are NaN: in a model that computes attention in another way, or changes the mask, the result is NaN, never a
wrong number, and the trial of ``forward`` finds that such a model cannot be run in this way. Attention over a number of
keys that is no multiple of :data:`ALIGNMENT` takes up to twice as long. A segment therefore includes the positions that
follow it up to the next multiple, as keys that are masked out and as queries whose results are dropped.

**Compiled layers.** Normalisation, rotary positions, activation functions and additions read and write every number
once per operator, and in bfloat16 on a CPU they take as long as the matrix products. ``torch.compile`` fuses them. The
code is made for one layer and for sequences of any length; all layers of its class share it. It is used within
:meth:`CompiledLayers.used` only, so the model remains as it is.
"""

from __future__ import annotations

import contextlib
import functools
import platform
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from StaICC.kernels.huggingface import torch_module
from StaICC.safe_text import logger

VARIANTS = 256
"""Maximum number of variants of one layer's code in a process: for number types, sizes, and settings of models."""


def opaque(name: str, function: Callable[..., Any], schema: str, shape: Callable[..., Any]) -> Any:
    """Return a function as an operator that the compiler does not look into; unchanged before torch 2.4.

    Args:
        name: Name of the operator.
        function: Computes it.
        schema: Its arguments and result.
        shape: Returns a tensor like the result, from the same arguments.
    """
    library = torch_module().library
    if not hasattr(library, "custom_op"):
        return function
    operator = library.custom_op(f"staicc::{name}", function, mutates_args=(), schema=schema)
    operator.register_fake(shape)
    return operator


class CompiledLayers:
    """The layers of a model with their compiled code, which is made at the first call.

    Args:
        model: A causal language model of ``transformers``.
    """

    def __init__(self, model: Any) -> None:
        self.torch = torch_module()
        names = set(getattr(model, "_no_split_modules", None) or ())
        layers = [module for module in model.modules() if type(module).__name__ in names]
        self.layers = [(layer, self.torch.compile(layer.forward, dynamic=True, fullgraph=True)) for layer in layers]

    @contextlib.contextmanager
    def used(self) -> Iterator[None]:
        """Context in which calls of the model run the compiled code."""
        before = [layer._compiled_call_impl for layer, _ in self.layers]
        for layer, code in self.layers:
            layer._compiled_call_impl = code
        try:
            with self.torch._dynamo.config.patch(recompile_limit=VARIANTS):
                yield
        finally:
            for (layer, _), code in zip(self.layers, before, strict=True):
                layer._compiled_call_impl = code


LEAST_ROWS = 8
"""Fewer rows than this are left to the default: laying out the weights would cost more than the product."""

_log = logger(__name__)


def _product(torch: Any) -> Any:
    """The oneDNN operator, or None."""
    try:
        return torch.ops.mkldnn._linear_pointwise if torch.backends.mkldnn.is_available() else None
    except (AttributeError, RuntimeError):
        return None


def _made_by_intel() -> bool:
    try:
        facts = Path("/proc/cpuinfo").read_text("utf-8", "replace")
    except OSError:  # not Linux
        facts = platform.processor()
    return "GenuineIntel" in facts


@functools.cache
def uses_onednn() -> bool:
    """Whether float32 products on this machine's processor are given to oneDNN.

    Returns:
        Whether the processor has AVX-512 and is not Intel's, and the operator exists and returns the default's result.
    """
    torch = torch_module()
    product = _product(torch)
    processor = getattr(torch.backends, "cpu", None)  # not in old releases
    if product is None or processor is None or not processor.get_cpu_capability().startswith("AVX512"):
        return False
    if torch.backends.mkl.is_available() and _made_by_intel():
        return False
    generator = torch.Generator().manual_seed(0)
    inputs = torch.randn(64, 96, generator=generator)
    weight = torch.randn(128, 96, generator=generator)
    try:
        with torch.inference_mode():
            expected = torch.nn.functional.linear(inputs, weight)
            return bool(torch.allclose(product(inputs, weight, None, "none", [], ""), expected, atol=1e-4, rtol=1e-4))
    except (RuntimeError, TypeError, NotImplementedError) as error:
        _log.debug("oneDNN cannot be used for float32 products: %s", error)
        return False


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
    torch = torch_module()
    eager, linear, addmm = _product(torch), torch.nn.functional.linear, torch.addmm

    def operator(inputs: Any, weight: Any, bias: Any) -> Any:
        return eager(inputs, weight, bias, "none", [], "")

    compiled = opaque(
        "linear",
        operator,
        "(Tensor inputs, Tensor weight, Tensor? bias) -> Tensor",
        lambda inputs, weight, bias: inputs.new_empty((*inputs.shape[:-1], weight.shape[0])),
    )

    def product(inputs: Any, weight: Any, bias: Any) -> Any:
        return (compiled if torch.compiler.is_compiling() else operator)(inputs, weight, bias)

    def usable(inputs: Any, weight: Any, bias: Any) -> bool:
        return (
            type(inputs) is torch.Tensor
            and inputs.dtype is torch.float32
            and weight.dtype is torch.float32
            and weight.dim() == 2
            and inputs.device.type == "cpu"
            and weight.layout is torch.strided
            and inputs.numel() >= LEAST_ROWS * inputs.shape[-1] > 0
            and (bias is None or (bias.dim() == 1 and bias.dtype is torch.float32))
        )

    def fast_layer(inputs: Any, weight: Any, bias: Any = None) -> Any:
        return product(inputs, weight, bias) if usable(inputs, weight, bias) else linear(inputs, weight, bias)

    def fast_addmm(bias: Any, inputs: Any, weight: Any, **kwargs: Any) -> Any:
        # GPT-2 keeps its weights the other way round.
        if not kwargs and bias.dim() == 1 and inputs.dim() == 2 and usable(inputs, weight, bias):
            return product(inputs, weight.t(), bias)
        return addmm(bias, inputs, weight, **kwargs)

    return {linear: fast_layer, addmm: fast_addmm}


def fast_linear(onednn: bool) -> AbstractContextManager[Any]:
    """Context in which float32 products on the CPU are computed by oneDNN.

    Args:
        onednn: Whether they are; otherwise nothing is redirected.
    """
    if not onednn:
        return nullcontext()
    context: AbstractContextManager[Any] = _redirection()(_products())
    return context


ALIGNMENT = 16
"""Numbers of type float32 in a register of AVX-512."""

_SCHEMA = (
    "(Tensor query, Tensor key, Tensor value, Tensor? attn_mask=None, float dropout_p=0.0, bool is_causal=False, *, "
    "float? scale=None, bool enable_gqa=False) -> Tensor"
)
"""That of ``scaled_dot_product_attention``."""

_current = threading.local()
"""The mask and the segments of the thread."""


@dataclass(frozen=True, slots=True)
class Segment:
    """Positions ``first`` to ``end - 1``, which attend to positions from ``start`` on.

    Attributes:
        start: First position of the row.
        first: First position of the segment.
        end: Position after the last one.
        mask: Additive mask of shape (end - first, keys), with at least ``end - start`` keys; None for causal attention,
            with ``first == start``.
    """

    start: int
    first: int
    end: int
    mask: Any = None


def aligned(start: int, end: int, limit: int) -> int:
    """Return the end of the keys from ``start`` on that attention is computed over.

    Args:
        start: First position.
        end: Position after the last one.
        limit: Number of positions of the sequence.

    Example:
        >>> aligned(0, 86, 200), aligned(100, 186, 190)
        (96, 186)
    """
    wide = start - (start - end) // ALIGNMENT * ALIGNMENT
    return wide if wide <= limit else end


def _attend(
    query: Any,
    key: Any,
    value: Any,
    attn_mask: Any = None,
    dropout_p: float = 0.0,
    is_causal: bool = False,
    **kwargs: Any,
) -> Any:
    """``scaled_dot_product_attention``, by segments where the mask is that of the thread."""
    torch = torch_module()
    attention = torch.nn.functional.scaled_dot_product_attention
    mask, pieces = _current.work
    ours = attn_mask is not None and attn_mask.data_ptr() == mask.data_ptr()
    sizes = {query.shape[-2], key.shape[-2], *mask.shape[-2:], *(attn_mask.shape[-2:] if ours else ())}
    if not ours or is_causal or len(sizes) > 1:
        return attention(query, key, value, attn_mask, dropout_p, is_causal, **kwargs)
    parts = []
    for piece in pieces:
        causal = piece.mask is None
        last = aligned(piece.start, piece.end, key.shape[-2]) if causal else piece.start + piece.mask.shape[-1]
        seen = slice(piece.start, last)
        part = attention(
            query[..., piece.first : last if causal else piece.end, :],
            key[..., seen, :],
            value[..., seen, :],
            piece.mask,
            dropout_p,
            causal,
            **kwargs,
        )
        # The layout in which attention returns its result.
        parts.append(part[..., : piece.end - piece.first, :].transpose(-3, -2))
    return torch.cat(parts, -3).transpose(-3, -2)


@functools.cache
def _attention() -> dict[Any, Callable[..., Any]]:
    """:func:`_attend`, by the function of torch that it replaces."""
    torch = torch_module()

    def operator(*args: Any, **kwargs: Any) -> Any:
        return _attend(*args, **kwargs).transpose(-3, -2).contiguous().transpose(-3, -2)

    def shape(query: Any, *args: Any, **kwargs: Any) -> Any:
        return torch.empty_like(query.transpose(-3, -2), memory_format=torch.contiguous_format).transpose(-3, -2)

    compiled = opaque("segmented_attention", operator, _SCHEMA, shape)

    def attention(*args: Any, **kwargs: Any) -> Any:
        return (compiled if torch.compiler.is_compiling() else _attend)(*args, **kwargs)

    return {torch.nn.functional.scaled_dot_product_attention: attention}


@contextlib.contextmanager
def segmented_attention(mask: Any, pieces: Sequence[Segment]) -> Iterator[None]:
    """Context in which attention with a mask is computed by segments.

    Args:
        mask: The mask, a tensor of shape (1, 1, positions, positions); its values are not used.
        pieces: The segments, in order.
    """
    before = getattr(_current, "work", None)
    _current.work = mask, pieces
    try:
        with _redirection()(_attention()):
            yield
    finally:
        _current.work = before

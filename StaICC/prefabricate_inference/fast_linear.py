"""Matrix products of float32 layers through oneDNN where that is faster than the default.

On a CPU, PyTorch multiplies float32 matrices with the library that it was built with, usually MKL, which uses AVX2 on
processors of other makers even where they have AVX-512. oneDNN, which PyTorch ships too, generates code for the
machine at hand. The arithmetic is the same (float32, only the order of additions differs), the speed can differ by a
factor of two.

Nothing is patched: inside :func:`fast_linear`, and only in its thread, calls of ``torch.nn.functional.linear`` and
``torch.addmm`` are redirected where the operands are plain float32 tensors on the CPU. Whether that pays is measured
once per process, and the results are compared, before anything is redirected. Where the operator is missing or not
faster, nothing happens.
"""

from __future__ import annotations

import functools
import logging
import time
from contextlib import AbstractContextManager, nullcontext
from typing import Any

from StaICC.optional import require

__all__ = ["fast_linear", "onednn_gain"]

LEAST_ROWS = 8
"""Fewer rows than this are left to the default: laying out the weights would cost more than the product."""

LEAST_GAIN = 1.15
"""Speed-up in the trial from which on products are redirected."""

_log = logging.getLogger(__name__)


def _product(torch: Any) -> Any:
    """The oneDNN operator, or None."""
    try:
        return torch.ops.mkldnn._linear_pointwise if torch.backends.mkldnn.is_available() else None
    except (AttributeError, RuntimeError):
        return None


@functools.cache
def onednn_gain() -> float:
    """How many times faster oneDNN is on this machine for a float32 product of a usual shape.

    Returns:
        The ratio of the best times in a short trial, or 0.0 where the operator is missing or its result differs.
    """
    torch = require("torch", "hf", "the causal language model kernel")
    product = _product(torch)
    if product is None:
        return 0.0
    generator = torch.Generator().manual_seed(0)
    inputs = torch.randn(256, 768, generator=generator)
    weight = torch.randn(1024, 768, generator=generator)
    try:
        with torch.inference_mode():
            expected = torch.nn.functional.linear(inputs, weight)
            if not torch.allclose(product(inputs, weight, None, "none", [], ""), expected, atol=1e-3, rtol=1e-4):
                return 0.0
            best = {"default": float("inf"), "onednn": float("inf")}
            for _ in range(8):
                start = time.perf_counter()
                torch.nn.functional.linear(inputs, weight)
                middle = time.perf_counter()
                product(inputs, weight, None, "none", [], "")
                end = time.perf_counter()
                best["default"] = min(best["default"], middle - start)
                best["onednn"] = min(best["onednn"], end - middle)
    except (RuntimeError, TypeError, NotImplementedError) as error:
        _log.debug("oneDNN cannot be used for float32 products: %s", error)
        return 0.0
    return best["default"] / best["onednn"]


@functools.cache
def _mode() -> Any:
    """The class that redirects (made late, because its base class needs torch)."""
    torch = require("torch", "hf", "the causal language model kernel")
    from torch.overrides import TorchFunctionMode

    product = _product(torch)
    linear = torch.nn.functional.linear
    addmm = torch.addmm

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

    class OneDnnProducts(TorchFunctionMode):  # type: ignore[misc, unused-ignore]
        """Redirects float32 products on the CPU to oneDNN."""

        def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
            if func is linear and not kwargs:
                inputs, weight, bias = (*args, None)[:3]
                if usable(inputs, weight, bias):
                    return product(inputs, weight, bias, "none", [], "")
            elif func is addmm and not kwargs and len(args) == 3:
                # GPT-2 keeps its weights the other way round.
                bias, inputs, weight = args
                if bias.dim() == 1 and inputs.dim() == 2 and usable(inputs, weight, bias):
                    return product(inputs, weight.t(), bias, "none", [], "")
            return func(*args, **(kwargs or {}))

    return OneDnnProducts


def fast_linear(device: str, dtype: str) -> AbstractContextManager[Any]:
    """Context in which float32 products on the CPU take the faster of two libraries.

    Args:
        device: Type of the device, such as ``"cpu"``.
        dtype: Name of the model's number type, such as ``"float32"``.

    Returns:
        A context manager that does nothing where nothing is to be gained.
    """
    if device != "cpu" or dtype != "float32" or onednn_gain() < LEAST_GAIN:
        return nullcontext()
    mode: AbstractContextManager[Any] = _mode()()
    return mode

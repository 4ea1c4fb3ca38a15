"""Digests of what a model consists of: tensors, settings, and the objects that hold them.

Tensors on the CPU are hashed by SHA-256 over their bytes. On another device the bytes stay there: each 32-bit word is
mixed with its position by a bijective 64-bit function, and the results are added up modulo 2**64, in two lanes with
different constants. Integer addition is exact and has no order, so the sum is the same for every reduction. A single
changed word always changes both sums (the mix is a bijection); for changes of several words the sums agree by chance
once in 2**128. That protects against accidents; it is no defence against an adversary who solves for a collision.
"""

from __future__ import annotations

import enum
import functools
import hashlib
import os
import sys
import types
from collections.abc import Mapping, Sequence, Set
from concurrent.futures import ThreadPoolExecutor
from typing import Any

from StaICC.optional import require

LIBRARIES = (
    "torch",
    "transformers",
    "peft",
    "accelerate",
    "tokenizers",
    "bitsandbytes",
    "auto_gptq",
    "gptqmodel",
    "awq",
    "optimum",
    "torchao",
    "compressed_tensors",
    "hqq",
    "flash_attn",
    "mamba_ssm",
    "numpy",
    "collections",
    "functools",
    "builtins",
    "kernels",
)
"""Packages whose code is identified by their version."""
PIECE = 1 << 22
"""Words that are mixed at once on a device."""
DEEPEST = 20


class Unidentifiable(Exception):
    """A value whose influence on predictions cannot be digested."""


def _in_library(module: str | None) -> bool:
    return (module or "").partition(".")[0] in LIBRARIES


def is_library_type(kind: type) -> bool:
    """Whether a class comes from a package that is identified by its version."""
    return _in_library(kind.__module__)


@functools.lru_cache(maxsize=4096)
def _in_library_folder(filename: str) -> bool:
    path = os.path.abspath(filename)
    for name in LIBRARIES:
        where = getattr(sys.modules.get(name), "__file__", None)
        if where and path.startswith(os.path.dirname(os.path.abspath(where)) + os.sep):
            return True
    return filename.startswith("<frozen ")


def is_library_code(function: object) -> bool:
    """Whether a function, with all functions that it wraps, was written in one of these packages' files."""
    while type(function) in (types.MethodType, functools.partial):  # a proxy of wrapt only seems to be one
        function = function.__func__ if isinstance(function, types.MethodType) else function.func  # type: ignore[attr-defined]
    if type(function) in (types.BuiltinFunctionType, types.MethodWrapperType) or isinstance(function, type):
        return _in_library(getattr(function, "__module__", None))
    if type(function) is not types.FunctionType:
        return is_library_type(type(function))
    if not _in_library_folder(function.__code__.co_filename):
        return False
    inner = getattr(function, "__wrapped__", None)
    return inner is None or is_library_code(inner)


def digest_of_tensor(tensor: Any) -> str:
    """Digest of a tensor's number type, shape and every byte, computed where the tensor is.

    Raises:
        Unidentifiable: The values are not there to be read (on the meta device), or have a layout of their own.
    """
    torch = require("torch", "hf", "the causal language model kernel")
    head = f"{tensor.dtype} {tuple(tensor.shape)}"
    if tensor.device.type == "meta":
        raise Unidentifiable("its values are not in memory (offloaded)")
    if tensor.layout is not torch.strided or tensor.is_quantized:
        raise Unidentifiable(f"a tensor of layout {tensor.layout} cannot be hashed")
    with torch.inference_mode():
        plain = tensor.detach().contiguous().reshape(-1)
        if not plain.numel():
            return f"{head} empty"
        raw = plain.view(torch.uint8)
        if raw.device.type == "cpu":
            return f"{head} {hashlib.sha256(memoryview(raw.numpy())).hexdigest()}"
        return f"{head} {_mixed(torch, raw)}"


def _mixed(torch: Any, raw: Any) -> str:
    """Two 64-bit sums of mixed words over the bytes of a tensor, in hexadecimal."""
    if len(raw) % 4:
        raw = torch.nn.functional.pad(raw, (0, 4 - len(raw) % 4))
    words = raw.view(torch.int32)
    lanes = [torch.zeros((), dtype=torch.int64, device=raw.device) for _ in _LANES]
    for start in range(0, len(words), PIECE):
        piece = words[start : start + PIECE].to(torch.int64) & 0xFFFFFFFF
        place = torch.arange(start, start + len(piece), dtype=torch.int64, device=raw.device)
        for number, (step, first, second) in enumerate(_LANES):
            mixed = piece + place * step  # distinct for one place: the step only shifts it
            mixed = (mixed ^ ((mixed >> 30) & ((1 << 34) - 1))) * first
            mixed = (mixed ^ ((mixed >> 27) & ((1 << 37) - 1))) * second
            lanes[number] += (mixed ^ ((mixed >> 31) & ((1 << 33) - 1))).sum()
    return "-".join(f"{int(lane) & ((1 << 64) - 1):016x}" for lane in lanes)


def _signed(number: int) -> int:
    return number - (1 << 64) if number >> 63 else number


_LANES = [
    (_signed(0x9E3779B97F4A7C15), _signed(0xBF58476D1CE4E5B9), _signed(0x94D049BB133111EB)),
    (_signed(0xD1B54A32D192ED03), _signed(0xFF51AFD7ED558CCD), _signed(0xC4CEB9FE1A85EC53)),
]
"""Constants of the two lanes, all odd: the step per position, and the multipliers of SplitMix64 and of MurmurHash3."""


def checksum(model: Any) -> int:
    """Return the sum of all parameters and buffers, read as integers: one pass over the memory of the model.

    A change of one value always changes it. Exchanging values may not.
    """
    torch = require("torch", "hf", "the causal language model kernel")
    total = 0
    with torch.inference_mode():
        for tensor in (*model.parameters(), *model.buffers()):
            if tensor.device.type == "meta" or tensor.layout is not torch.strided or not tensor.numel():
                continue
            raw = tensor.detach().contiguous().reshape(-1).view(torch.uint8)
            whole = 0 if raw.storage_offset() % 8 else raw.numel() // 8 * 8
            total += int(raw[:whole].view(torch.int64).sum()) + int(raw[whole:].sum())
    return total


def digests_of_tensors(tensors: Sequence[Any]) -> list[str]:
    """Digests of many tensors, in order, by as many threads as torch uses."""
    torch = require("torch", "hf", "the causal language model kernel")
    with ThreadPoolExecutor(max(1, torch.get_num_threads())) as pool:
        return list(pool.map(digest_of_tensor, tensors))


_PLAIN = (type(None), bool, int, float, complex, str, bytes)


def digest_of_value(value: object) -> str:
    """Digest of a setting: plain values, containers, tensors, and objects of known packages with their attributes.

    Raises:
        Unidentifiable: The value, or one inside, is code or state that cannot be digested.
    """
    return hashlib.sha256(_text(value, ()).encode("utf-8", "surrogatepass")).hexdigest()


def _text(value: object, around: tuple[int, ...]) -> str:
    """The value as a text without addresses; ``around`` are the identities of the objects that hold it."""
    if type(value) in _PLAIN:
        return repr(value)
    if len(around) > DEEPEST:
        raise Unidentifiable("it is nested too deeply")
    if isinstance(value, enum.Enum):
        return f"{type(value).__qualname__}.{value.name}"
    if id(value) in around:
        return "an object that holds this one"

    def inner(one: object) -> str:
        return _text(one, (*around, id(value)))

    name = f"{type(value).__module__}.{type(value).__qualname__}"
    if type(value) is types.MethodType:
        raise Unidentifiable(f"the method {value.__qualname__} of an object")
    if isinstance(value, Mapping):
        return f"{name}{{{','.join(sorted(f'{inner(key)}:{inner(one)}' for key, one in value.items()))}}}"
    if isinstance(value, Set):
        return f"{name}{{{','.join(sorted(map(inner, value)))}}}"
    if isinstance(value, (list, tuple)):
        return f"{name}[{','.join(map(inner, value))}]"
    torch = require("torch", "hf", "the causal language model kernel")
    if isinstance(value, torch.Tensor):
        return digest_of_tensor(value)
    if isinstance(value, (torch.dtype, torch.device)):
        return str(value)
    if isinstance(value, type):
        if is_library_type(value):
            return f"class {value.__module__}.{value.__qualname__}"
    elif callable(value) and not hasattr(value, "__dict__"):
        if is_library_code(value):
            return f"function {getattr(value, '__qualname__', name)}"
    elif type(value) is types.FunctionType:
        if is_library_code(value) and not value.__closure__:
            return f"function {value.__module__}.{value.__qualname__}"
    elif isinstance(value, functools.partial):
        return f"partial({inner(value.func)},{inner(value.args)},{inner(value.keywords)})"
    elif hasattr(value, "tobytes") and hasattr(value, "dtype"):
        return f"{value.dtype} {hashlib.sha256(value.tobytes()).hexdigest()}"
    elif is_library_type(type(value)) and hasattr(value, "__dict__"):
        return f"{name}({inner(vars(value))})"
    raise Unidentifiable(f"a {type(value).__name__} cannot be digested")

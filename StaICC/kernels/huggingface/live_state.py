"""What a model in memory consists of, as facts for its identity: everything that determines its predictions.

That is every parameter and buffer with its number type, the class of every module, the attributes of the modules
(adapters of ``peft`` keep their state there: active, disabled, merged, scaling), the configuration, and the tokenizer.
Rotary frequencies are left out where they equal those that the module computes from its configuration, because their
last digit depends on the machine.

What is not known to be identified by a digest or by the version of a library is a reason why the model is
*unidentified*: hooks, patched methods and compiled code, modules of other code, values that are not in memory. Hooks
that the libraries themselves install are theirs and are not counted.

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
import json
import os
import sys
import types
from collections.abc import Iterator, Mapping, Set
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any

from StaICC.inference.identity import replaced_methods
from StaICC.kernels.huggingface import FEATURE, torch_module
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
_DEPENDENCIES = frozenset({"huggingface_hub", "numpy", "packaging", "safetensors", "tokenizers", "tqdm"})
"""Packages whose functions the modules of models import."""
PIECE = 1 << 22
"""Words that are mixed at once on a device."""
DEEPEST = 20
HOOKS = ("_forward_hooks", "_forward_pre_hooks")
_OWN = frozenset(
    {
        "forward",
        "name_or_path",
        "gradient_checkpointing",
        "_gradient_checkpointing_func",
        "max_seq_len_cached",
        "hf_device_map",
        "warnings_issued",
        "_cache",
        "_caches",
        "_is_hf_initialized",
        "_output_capturing_hooks_installed",
        "_compiled_call_impl",
    }
)
"""Attributes of modules that are a reason of their own, name places, or change when a model is run."""
_CONFIG_PLACES = frozenset(
    {"_name_or_path", "transformers_version", "_commit_hash", "use_cache", "torch_dtype", "dtype", "gguf_file"}
)
"""Entries of a configuration that say where a model comes from, or that the parameters themselves tell."""
_TOKENIZER_PLACES = frozenset(
    {
        "_tokenizer",
        "_should_update_post_processor",
        "_in_target_context_manager",
        "init_inputs",
        "init_kwargs",
        "name_or_path",
        "verbose",
        "deprecation_warnings",
        "files_loaded",
        "vocab_file",
        "merges_file",
        "padding_side",
        "truncation_side",
    }
)
"""Attributes of tokenizers that are digested elsewhere, name places, or change with a call."""


class Unidentifiable(Exception):
    """A value whose influence on predictions cannot be digested."""


@dataclass(frozen=True)
class LiveState:
    """A model in memory."""

    who: dict[str, str]
    """Facts by name, as in :class:`~StaICC.inference.identity.Identity`."""
    unidentified: tuple[str, ...]
    """Reasons why they are not complete."""


# Code


def _in_library(module: str | None) -> bool:
    return (module or "").partition(".")[0] in LIBRARIES


def is_library_type(kind: type) -> bool:
    """Whether a class comes from a package that is identified by its version."""
    return _in_library(kind.__module__)


@functools.lru_cache(maxsize=4096)
def _in_library_folder(filename: str) -> bool:
    files = (getattr(sys.modules.get(name), "__file__", None) for name in LIBRARIES)
    folders = tuple(os.path.dirname(os.path.abspath(file)) + os.sep for file in files if file)
    return os.path.abspath(filename).startswith(folders) or filename.startswith("<frozen ")


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


def _replaced(place: type | types.ModuleType) -> Iterator[str]:
    """Name the functions of a class or module of a library that other code has replaced."""
    for name, member in vars(place).items():
        function = member.__func__ if isinstance(member, (staticmethod, classmethod)) else member
        is_proxy = isinstance(function, types.FunctionType) and type(function) is not types.FunctionType  # of wrapt
        if not is_proxy and (type(function) is not types.FunctionType or is_library_code(function)):
            continue
        if place is sys.modules["torch"] and name.startswith("_"):
            continue
        if is_proxy or (function.__module__ or "").partition(".")[0] not in _DEPENDENCIES:
            yield name


def _named(name: str) -> str:
    return name or "the model"


def _code(model: Any) -> Iterator[tuple[str, bool]]:
    """Walk over the code that a model runs: what no version identifies, and whether it may depend on the batch."""
    torch = torch_module()
    every = torch.nn.modules.module
    for kind in ("_global_forward_hooks", "_global_forward_pre_hooks"):
        if not all(map(is_library_code, getattr(every, kind, {}).values())):
            yield "a forward hook on all modules of torch", True
    classes = set()
    for name, module in model.named_modules():
        classes.add(type(module))
        for kind in HOOKS:
            if not all(map(is_library_code, module.__dict__[kind].values())):
                yield f"a forward {'pre-hook' if 'pre' in kind else 'hook'} on {_named(name)}", True
        for method in replaced_methods(module):  # by the user, or by a library (hooks of accelerate)
            yield f"a replaced {method} of {_named(name)}", not is_library_code(module.__dict__[method])
        if module.__dict__.get("_compiled_call_impl") is not None:
            yield f"compiled code of {_named(name)}", False
    for cls in classes:
        if not is_library_type(cls):
            yield f"modules of the class {cls.__module__}.{cls.__qualname__}, whose code has no version", False
    for base in {base for kind in classes for base in kind.__mro__ if is_library_type(base)} | {torch.Tensor}:
        for name in _replaced(base):
            yield f"a replaced method of the class {base.__qualname__}: {name}", True
    for place in {kind.__module__ for kind in classes if is_library_type(kind)} | {"torch", "torch.nn.functional"}:
        for name in _replaced(sys.modules[place]):
            yield f"a replaced function of {place}: {name}", True
    attention = getattr(model.config, "_attn_implementation", None)
    known = getattr(require("transformers", "hf", FEATURE).modeling_utils, "ALL_ATTENTION_FUNCTIONS", {})
    if attention in known and known[attention] is not None and not is_library_code(known[attention]):
        yield f"the attention function {attention!r} is not one of a library", False


def foreign_code(model: Any) -> list[str]:
    """Hooks, replaced methods and replaced functions that do not come with torch, transformers and the like.

    Args:
        model: The model.

    Returns:
        One reason for each, readable; empty for a model as its library made it.
    """
    return sorted(reason for reason, depends_on_batch in _code(model) if depends_on_batch)


def numerics() -> dict[str, str]:
    """Settings of torch that change what the same weights compute, where they are not the defaults."""
    torch = torch_module()
    settings = [
        f"autocast {device} {str(torch.get_autocast_dtype(device)).removeprefix('torch.')}"
        for device in ("cpu", "cuda")
        if torch.is_autocast_enabled(device)
    ]
    products = torch.backends.cuda.matmul
    try:
        precision = torch.get_float32_matmul_precision()
        settings += [f"float32 products {precision}"] if precision != "highest" else []
    except RuntimeError:  # raised once the precision of a single backend was set
        places = {"all": torch.backends, "cuda": products, "mkldnn": torch.backends.mkldnn.matmul}
        precisions = {name: place.fp32_precision for name, place in places.items()}
        lower = {name: value for name, value in precisions.items() if value not in ("none", "ieee")}
        settings += [f"float32 products {name} {value}" for name, value in lower.items()]
    switches = {
        "allow_fp16_accumulation": False,
        "allow_bf16_reduced_precision_reduction": True,
        "allow_fp16_reduced_precision_reduction": True,
    }
    settings += [name for name, default in switches.items() if getattr(products, name, default) != default]
    return {"numerics": ", ".join(settings)} if settings else {}


# Values


def digest_of_tensor(tensor: Any) -> str:
    """Digest of a tensor's number type, shape and every byte, computed where the tensor is.

    Raises:
        Unidentifiable: The values are not there to be read (on the meta device), or have a layout of their own.
    """
    torch = torch_module()
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


_LANES = [
    (0x9E3779B97F4A7C15, 0xBF58476D1CE4E5B9, 0x94D049BB133111EB),
    (0xD1B54A32D192ED03, 0xFF51AFD7ED558CCD, 0xC4CEB9FE1A85EC53),
]
"""Constants of the two lanes, all odd: the step per position, and the multipliers of SplitMix64 and of MurmurHash3."""


def _mixed(torch: Any, raw: Any) -> str:
    """Two 64-bit sums of mixed words over the bytes of a tensor, in hexadecimal."""
    words = torch.nn.functional.pad(raw, (0, -len(raw) % 4)).view(torch.int32)
    lanes = [torch.zeros((), dtype=torch.int64, device=raw.device) for _ in _LANES]
    for start in range(0, len(words), PIECE):
        piece = words[start : start + PIECE].to(torch.int64) & 0xFFFFFFFF
        place = torch.arange(start, start + len(piece), dtype=torch.int64, device=raw.device)
        for number, constants in enumerate(_LANES):
            step, first, second = (constant - (constant >> 63 << 64) for constant in constants)  # signed
            mixed = piece + place * step  # distinct for one place: the step only shifts it
            mixed = (mixed ^ ((mixed >> 30) & ((1 << 34) - 1))) * first
            mixed = (mixed ^ ((mixed >> 27) & ((1 << 37) - 1))) * second
            lanes[number] += (mixed ^ ((mixed >> 31) & ((1 << 33) - 1))).sum()
    return "-".join(f"{int(lane) & ((1 << 64) - 1):016x}" for lane in lanes)


def checksum(model: Any) -> int:
    """Return the sum of all parameters and buffers, read as integers: one pass over the memory of the model.

    A change of one value always changes it. Exchanging values may not.
    """
    torch = torch_module()
    total = 0
    with torch.inference_mode():
        for tensor in (*model.parameters(), *model.buffers()):
            if tensor.device.type == "meta" or tensor.layout is not torch.strided or not tensor.numel():
                continue
            raw = tensor.detach().contiguous().reshape(-1).view(torch.uint8)
            whole = 0 if raw.storage_offset() % 8 else raw.numel() // 8 * 8
            total += int(raw[:whole].view(torch.int64).sum()) + int(raw[whole:].sum())
    return total


def _digest(text: str) -> str:
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()


def digest_of_value(value: object) -> str:
    """Digest of a setting: plain values, containers, tensors, and objects of known packages with their attributes.

    Raises:
        Unidentifiable: The value, or one inside, is code or state that cannot be digested.
    """
    return _digest(_text(value, ()))


def _text(value: Any, around: tuple[int, ...]) -> str:
    """The value as a text without addresses; ``around`` are the identities of the objects that hold it."""
    kind = type(value)
    name = f"{kind.__module__}.{kind.__qualname__}"
    if kind in (type(None), bool, int, float, complex, str, bytes) or name == "tokenizers.AddedToken":
        return repr(value)
    if len(around) > DEEPEST:
        raise Unidentifiable("it is nested too deeply")
    if isinstance(value, enum.Enum):
        return f"{kind.__qualname__}.{value.name}"
    if id(value) in around:
        return "an object that holds this one"
    inner = functools.partial(_text, around=(*around, id(value)))
    if kind is types.MethodType:
        raise Unidentifiable(f"the method {value.__qualname__} of an object")
    if isinstance(value, Mapping):
        return f"{name}{{{','.join(sorted(f'{inner(key)}:{inner(item)}' for key, item in value.items()))}}}"
    if isinstance(value, Set):
        return f"{name}{{{','.join(sorted(map(inner, value)))}}}"
    if isinstance(value, (list, tuple)):
        return f"{name}[{','.join(map(inner, value))}]"
    torch = torch_module()
    if isinstance(value, torch.Tensor):
        return digest_of_tensor(value)
    if isinstance(value, (torch.dtype, torch.device)):
        return str(value)
    if isinstance(value, functools.partial):
        return f"partial({inner(value.func)},{inner(value.args)},{inner(value.keywords)})"
    if isinstance(value, type) or kind is types.FunctionType or (callable(value) and not hasattr(value, "__dict__")):
        if is_library_code(value) and not getattr(value, "__closure__", None):
            return f"{value.__module__}.{getattr(value, '__qualname__', name)}"
    elif hasattr(value, "tobytes") and hasattr(value, "dtype"):
        return f"{value.dtype} {hashlib.sha256(value.tobytes()).hexdigest()}"
    elif is_library_type(kind) and hasattr(value, "__dict__"):
        return f"{name}({inner(vars(value))})"
    raise Unidentifiable(f"a {kind.__name__} cannot be digested")


# The model and its tokenizer


def _derived(torch: Any, module: Any) -> set[str]:
    """Buffers that a rotary embedding computed from its configuration, found by computing them again."""
    buffers = {name: module._buffers.get(name) for name in module._non_persistent_buffers_set}
    if not is_library_type(type(module)) or "otary" not in type(module).__qualname__:
        return set()
    dynamic = getattr(module, "rope_type", None) in ("dynamic", "longrope")
    if dynamic and module.max_seq_len_cached > module.original_max_seq_len:
        return set(buffers)  # adjusted to a long input
    try:
        with torch.random.fork_rng(devices=[]):
            again = dict(type(module)(config=module.config).named_buffers(recurse=False))
    except Exception:  # of a class that is made otherwise: its buffers are digested
        return set()

    def rounded_alike(computed: Any, held: Any) -> bool:
        if held.dtype != torch.float32:
            return bool(torch.equal(computed.to(held.dtype), held))
        return computed.shape == held.shape and bool(torch.allclose(computed.float(), held, rtol=1e-6, atol=0))

    present = {name: held.detach().cpu() for name, held in buffers.items() if held is not None and name in again}
    return {name for name, held in present.items() if rounded_alike(again[name], held)}


def _without_places(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _without_places(entry) for key, entry in value.items() if key not in _CONFIG_PLACES}
    return value


def digest_of_tokenizer(tokenizer: Any) -> str:
    """Digest of a complete tokenizer: vocabulary, merges, normaliser, added and special tokens, chat template.

    Raises:
        Unidentifiable: It is of foreign code, or has replaced methods.
    """
    if tokenizer is None:
        return "none"
    kind = type(tokenizer)
    if not is_library_type(kind):
        raise Unidentifiable(f"the tokenizer is of the class {kind.__qualname__}, whose code has no version")
    for base in filter(is_library_type, kind.__mro__):
        for name in _replaced(base):
            raise Unidentifiable(f"a replaced {name} of the class of the tokenizer")
    for name in replaced_methods(tokenizer):
        raise Unidentifiable(f"a replaced {name} of the tokenizer")
    facts = {name: value for name, value in vars(tokenizer).items() if name not in _TOKENIZER_PLACES}
    backend = getattr(tokenizer, "backend_tokenizer", None)
    if backend is not None:
        # What comes before the added tokens (version, truncation, padding) follows from the last call.
        try:
            facts["backend"] = backend.to_str().partition('"added_tokens"')[2]
        except Exception as error:  # what tokenizers raises for a part in Python
            raise Unidentifiable(f"the tokenizer: {error}") from error
    else:
        for name, value in facts.items():
            proto = getattr(value, "serialized_model_proto", None)
            facts[name] = proto() if callable(proto) else value
        facts["vocabulary"] = tokenizer.get_vocab()
    return digest_of_value({"class": kind.__qualname__, **facts})


def _weights(torch: Any, model: Any, reasons: list[str]) -> str:
    """Digest of all parameters and buffers, by name."""
    tensors: dict[str, Any] = {}
    for prefix, module in model.named_modules(remove_duplicate=False):
        derived = _derived(torch, module)
        for name, tensor in (*module._parameters.items(), *module._buffers.items()):
            if tensor is not None and name not in derived:
                tensors[f"{prefix}.{name}"] = tensor
    distinct = {id(tensor): tensor for tensor in tensors.values()}
    try:
        with ThreadPoolExecutor(max(1, torch.get_num_threads())) as pool:
            digests = dict(zip(distinct, pool.map(digest_of_tensor, distinct.values()), strict=True))
    except Unidentifiable as error:
        reasons.append(f"weights: {error}")
        return "unknown"
    whole = hashlib.sha256()
    for name in sorted(tensors):
        tensor = tensors[name]
        whole.update(f"{name} {digests[id(tensor)]}\n".encode())
        # Quantised parameters keep their scales in attributes, and the compiler its notes.
        state = {
            key: value
            for key, value in getattr(tensor, "__dict__", {}).items()
            if key != "_is_hf_initialized" and not key.startswith("_dynamo_")
        }
        if set(state) - {"tensor_model_parallel"}:
            try:
                whole.update(digest_of_value(state).encode())
            except Unidentifiable as error:
                reasons.append(f"the parameter {name}: {error}")
    return whole.hexdigest()


def _modules(torch: Any, model: Any, reasons: list[str]) -> str:
    """Digest of the tree of modules: classes and attributes."""
    lines = []
    own = _OWN | vars(torch.nn.Module()).keys()
    configs: dict[int, str] = {}
    for prefix, module in model.named_modules(remove_duplicate=False):
        parts = []
        for name, value in module.__dict__.items():
            if name in own:
                continue
            if type(value).__name__ == "MatmulLtState":  # of bitsandbytes; all but the scales is of the last call
                value = value.SCB
            try:
                if callable(getattr(value, "to_dict", None)) and "Config" in type(value).__name__:
                    if id(value) not in configs:
                        configs[id(value)] = digest_of_value(_without_places(value.to_dict()))
                    text = configs[id(value)]
                else:
                    text = digest_of_value(value)
            except Unidentifiable as error:
                reasons.append(f"the attribute {name} of {_named(prefix)}: {error}")
                text = type(value).__qualname__
            parts.append(f"{name}={text}")
        kind = f"{type(module).__module__}.{type(module).__qualname__}"
        lines.append(f"{prefix} {kind} {' '.join(sorted(parts))}\n")
    return _digest("".join(lines))


def versions(model: Any | None = None) -> dict[str, str]:
    """Versions of the packages whose code computes the predictions."""
    names = {"torch", "transformers"}
    if model is not None:
        kinds = {type(module) for module in model.modules()}
        names |= {kind.__module__.partition(".")[0] for kind in kinds if is_library_type(kind)}
    return {name: str(require(name, "hf", "the model").__version__) for name in sorted(names)}


def live_state(model: Any, tokenizer: Any) -> LiveState:
    """Digest a model and its tokenizer as they are in memory now.

    Args:
        model: A causal language model of ``transformers``, or one that ``peft`` wraps.
        tokenizer: Its tokenizer.

    Returns:
        The facts, and the reasons why they are not complete.
    """
    torch = torch_module()
    reasons = sorted(reason for reason, _ in _code(model))
    sizes: dict[str, int] = {}
    for weight in model.parameters():
        name = str(weight.dtype).removeprefix("torch.")
        sizes[name] = sizes.get(name, 0) + weight.numel()
    who = {
        "model": type(model).__name__,
        "weights": _weights(torch, model, reasons),
        "modules": _modules(torch, model, reasons),
        "dtype": ", ".join(f"{name} ({sizes[name]})" for name in sorted(sizes)) if len(sizes) > 1 else "".join(sizes),
        "device": ", ".join(sorted({weight.device.type for weight in model.parameters()})),
    }
    try:
        who["tokenizer"] = digest_of_tokenizer(tokenizer)
    except Unidentifiable as error:
        reasons.append(str(error))
        who["tokenizer"] = "unknown"
    if attention := getattr(model.config, "_attn_implementation", None):
        who["attention"] = str(attention)
    if quantisation := getattr(model.config, "quantization_config", None):
        plain = quantisation if isinstance(quantisation, dict) else quantisation.to_dict()
        who["quantisation"] = json.dumps(_without_places(plain), sort_keys=True, default=str)
    # Adapters of peft; which of them are merged or disabled is an attribute of the modules.
    active = [module.__dict__["_active_adapter"] for module in model.modules() if "_active_adapter" in module.__dict__]
    if active:
        who["adapters"] = ", ".join(
            sorted({name for names in active for name in ([names] if isinstance(names, str) else names)})
        )
    return LiveState(who | versions(model), tuple(dict.fromkeys(reasons)))

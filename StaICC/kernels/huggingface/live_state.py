"""What a model in memory consists of, as facts for its identity: everything that determines its predictions.

That is every parameter and buffer with its number type, the class of every module, the attributes of the modules
(adapters of ``peft`` keep their state there: active, disabled, merged, scaling), the configuration, and the tokenizer.

What is not known to be identified by a digest or by the version of a library is a reason why the model is
*unidentified*: hooks, patched methods and compiled code, modules of other code, values that are not in memory. Hooks
that the libraries themselves install are theirs and are not counted.

Tensors are digested where they are, at the speed of memory: in a table of 64-bit words, each row and each column (of
:data:`WIDTH`) is summed up. Sums of integers are exact and have no order, so they are the same on every device. A
changed word changes two of them, and exchanged rows or columns change their order. That protects against accidents; it
is no defence against an adversary who solves for changes that leave all sums.
"""

from __future__ import annotations

import enum
import functools
import hashlib
import json
import os
import sys
import types
from collections import Counter
from collections.abc import Iterator, Mapping, Set
from typing import Any

from StaICC.inference.identity import Identity, replaced_methods
from StaICC.kernels.huggingface import FEATURE, torch
from StaICC.optional import require

_COMPUTATION = ("torch", "transformers", "peft", "accelerate", "tokenizers", "kernels", "flash_attn", "mamba_ssm")
_QUANTISATION = ("bitsandbytes", "auto_gptq", "gptqmodel", "awq", "optimum", "torchao", "compressed_tensors", "hqq")
_DEPENDENCIES = ("numpy", "huggingface_hub", "packaging", "safetensors", "tqdm", "typing_extensions")
LIBRARIES = (*_COMPUTATION, *_QUANTISATION, *_DEPENDENCIES, "collections", "functools", "builtins", "typing")
"""Packages whose code is identified by their version, and those whose functions the modules of models import."""
WIDTH = 511
"""Words in a row of the table that is summed up: an odd number, as two changed signs of a sum can cancel."""
FEW = 4096
"""Computed buffers of at most so many numbers are digested with four digits."""
HOOKS = ("_forward_hooks", "_forward_pre_hooks")
_PLACES = ("name_or_path", "hf_device_map", "_cache", "_caches", "warnings_issued")
_OF_INPUT = ("max_seq_len_cached", "long_inv_freq")
_REASONS = ("forward", "_compiled_call_impl", "gradient_checkpointing", "_gradient_checkpointing_func")
_OWN = frozenset({*_PLACES, *_OF_INPUT, *_REASONS, "_is_hf_initialized", "_output_capturing_hooks_installed"})
"""Attributes of modules that name places, change when a model is run, or are a reason of their own."""
_CONFIG_PLACES = frozenset(
    {"_name_or_path", "transformers_version", "_commit_hash", "use_cache", "torch_dtype", "dtype", "gguf_file"}
)
"""Entries of a configuration that say where a model comes from, or that the parameters themselves tell."""
_OF_FILES = ("name_or_path", "files_loaded", "vocab_file", "merges_file", "init_inputs", "init_kwargs", "_tokenizer")
_OF_CALLS = ("verbose", "deprecation_warnings", "padding_side", "truncation_side", "_in_target_context_manager")
_TOKENIZER_PLACES = frozenset({*_OF_FILES, *_OF_CALLS, "_should_update_post_processor"})
"""Attributes of tokenizers that are digested elsewhere, name places, or change with a call."""


class Unidentifiable(Exception):
    """A value whose influence on predictions cannot be digested."""


# Code


def in_library(value: object) -> bool:
    """Whether a class or a function comes from a package that is identified by its version, by its own account."""
    return (getattr(value, "__module__", None) or "").partition(".")[0] in LIBRARIES


@functools.lru_cache(maxsize=4096)
def _in_library_folder(filename: str) -> bool:
    path, standard = os.path.abspath(filename), os.path.dirname(os.path.abspath(os.__file__)) + os.sep
    if path.startswith(standard):  # other packages may be installed in a folder of this folder
        top = path.removeprefix(standard).partition(os.sep)[0].partition(".")[0]
        if top in sys.stdlib_module_names:
            return True
    modules = [sys.modules[name] for name in LIBRARIES if name in sys.modules]
    folders = tuple(os.path.abspath(folder) + os.sep for place in modules for folder in getattr(place, "__path__", ()))
    files = [getattr(place, "__file__", None) for place in modules]
    return path.startswith(folders) or filename in files or filename.startswith("<frozen ")


def is_library_code(function: Any) -> bool:
    """Whether a function, with all functions that it wraps, was written in one of these packages' files."""
    kind = type(function)
    if kind in (types.MethodType, functools.partial):  # a proxy of wrapt only seems to be one
        return is_library_code(function.__func__ if kind is types.MethodType else function.func)
    if kind in (types.BuiltinFunctionType, types.MethodWrapperType) or issubclass(kind, type):
        return in_library(function)
    if not in_library(kind) or (kind is types.FunctionType and not _in_library_folder(function.__code__.co_filename)):
        return False
    inner = getattr(function, "__wrapped__", None)
    return inner is None or is_library_code(inner)


def _replaced(place: type | types.ModuleType) -> Iterator[str]:
    """Name the functions of a class or module of a library that other code has replaced."""
    for name, member in vars(place).items():
        function = member.__func__ if isinstance(member, (staticmethod, classmethod)) else member
        is_plain = issubclass(type(function), (type, types.BuiltinFunctionType))  # a proxy of wrapt only seems to be
        is_plain = is_plain or name.startswith("__compiled_fn_")  # what torch.compile made of a library's functions
        if callable(function) and not is_plain and not is_library_code(function):
            yield name


def _code(model: Any) -> Iterator[tuple[str, bool]]:
    """Walk over the code that a model runs: what no version identifies, and whether it may depend on the batch."""
    of_all = torch.nn.modules.module._global_forward_hooks, torch.nn.modules.module._global_forward_pre_hooks
    if not all(is_library_code(hook) for hooks in of_all for hook in hooks.values()):
        yield "a forward hook on all modules of torch", True
    classes = {type(module) for module in model.modules()}
    for place, module in model.named_modules():
        name = place or "the model"
        for kind in HOOKS:
            if not all(map(is_library_code, module.__dict__[kind].values())):
                yield f"a forward {'pre-hook' if 'pre' in kind else 'hook'} on {name}", True
        for method in replaced_methods(module):  # by the user, or by a library (hooks of accelerate)
            yield f"a replaced {method} of {name}", not is_library_code(module.__dict__[method])
        if module.__dict__.get("_compiled_call_impl") is not None:
            yield f"compiled code of {name}", False
    for cls in classes:
        if not in_library(cls):
            yield f"modules of the class {cls.__module__}.{cls.__qualname__}, whose code has no version", False
    places = {base for kind in classes for base in kind.__mro__ if in_library(base)} | {torch.Tensor}
    modules = {sys.modules[kind.__module__] for kind in {torch.Tensor, *classes} if in_library(kind)}
    for place in places | modules | {torch.nn.functional}:
        for name in _replaced(place):
            what = "method of the class" if place in places else "function of"
            yield f"a replaced {what} {place.__name__}: {name}", True
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
    settings = [
        f"autocast {device} {str(torch.get_autocast_dtype(device)).removeprefix('torch.')}"
        for device in ("cpu", "cuda")
        if torch.is_autocast_enabled(device)
    ]
    products = torch.backends.cuda.matmul
    try:
        precisions = {"": torch.get_float32_matmul_precision()}
    except RuntimeError:  # raised once the precision of a single backend was set
        places = {"all ": torch.backends, "cuda ": products, "mkldnn ": torch.backends.mkldnn.matmul}
        precisions = {name: place.fp32_precision for name, place in places.items()}
    exact = ("highest", "none", "ieee")
    settings += [f"float32 products {name}{value}" for name, value in precisions.items() if value not in exact]
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
    if tensor.device.type == "meta":
        raise Unidentifiable("its values are not in memory (offloaded)")
    if tensor.layout is not torch.strided or tensor.is_quantized:
        raise Unidentifiable(f"a tensor of layout {tensor.layout} cannot be hashed")
    digest = hashlib.sha256(f"{tensor.dtype} {tuple(tensor.shape)}".encode())
    with torch.inference_mode():
        raw = tensor.detach().contiguous().reshape(-1).view(torch.uint8)
        raw = raw.clone() if raw.storage_offset() % 8 else raw
        whole = len(raw) // (8 * WIDTH) * 8 * WIDTH
        table = raw[:whole].view(torch.int64).reshape(-1, WIDTH)
        table = table.numpy() if table.device.type == "cpu" else table  # NumPy sums up columns twice as fast
        for part in (table.sum(0), table.sum(1), raw[whole:]):
            digest.update(torch.as_tensor(part).cpu().numpy().tobytes())
    return digest.hexdigest()


def _digest_of_computed(tensor: Any) -> str:
    """Digest of a buffer that a module computes itself, whose last digits depend on the machine."""
    if not tensor.is_floating_point() or tensor.numel() > FEW or tensor.device.type == "meta":
        return digest_of_tensor(tensor)
    numbers = " ".join(f"{number:.3e}" for number in tensor.detach().reshape(-1).tolist())
    return f"{tensor.dtype} {tuple(tensor.shape)} {numbers}"


def _digest(text: str) -> str:
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()


def digest_of_value(value: object) -> str:
    """Digest of a setting: plain values, containers, tensors, and objects of known packages with their attributes.

    Raises:
        Unidentifiable: The value, or one inside, is code or state that cannot be digested.
    """
    try:
        return _digest(_text(value))
    except RecursionError:
        raise Unidentifiable("an object that holds itself cannot be digested") from None


_PLAIN = frozenset({type(None), bool, int, float, complex, str, bytes})


def _text(value: Any) -> str:
    """The value as a text without addresses."""
    kind = type(value)
    if kind in _PLAIN:  # most of the values: a vocabulary has hundreds of thousands
        return repr(value)
    if kind is list or kind is tuple:
        return f"builtins.{kind.__name__}[{','.join(map(_text, value))}]"
    name = f"{kind.__module__}.{kind.__qualname__}"
    if kind in (torch.dtype, torch.device) or name == "tokenizers.AddedToken":
        return repr(value)
    if isinstance(value, enum.Enum):
        return f"{kind.__qualname__}.{value.name}"
    if isinstance(value, Mapping):
        return f"{name}{{{','.join(sorted(f'{_text(key)}:{_text(item)}' for key, item in value.items()))}}}"
    if isinstance(value, Set):
        return f"{name}{{{','.join(sorted(map(_text, value)))}}}"
    if isinstance(value, (list, tuple)):
        return f"{name}[{','.join(map(_text, value))}]"
    if isinstance(value, torch.Tensor):
        return digest_of_tensor(value)
    if isinstance(value, functools.partial):
        return f"partial({_text((value.func, value.args, value.keywords))})"
    if isinstance(value, (type, types.FunctionType, types.BuiltinFunctionType)):
        if is_library_code(value) and not getattr(value, "__closure__", None):
            return f"{value.__module__}.{value.__qualname__}"
    elif in_library(kind) and hasattr(value, "__dict__") and kind is not types.MethodType:
        return f"{name}({_text(vars(value))})"
    raise Unidentifiable(f"a {kind.__name__} cannot be digested")


# The model and its tokenizer


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
    if not in_library(kind):
        raise Unidentifiable(f"the tokenizer is of the class {kind.__qualname__}, whose code has no version")
    of_class = (name for base in kind.__mro__ if in_library(base) for name in _replaced(base))
    for name in (*replaced_methods(tokenizer), *of_class):
        raise Unidentifiable(f"a replaced {name} of the tokenizer or of its class")
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


def _tensors(model: Any) -> Iterator[tuple[str, Any, bool]]:
    """Yield parameters and buffers with their names, and whether their module computes them itself."""
    for prefix, module in model.named_modules(remove_duplicate=False):
        # Frequencies that the module adjusts to a long input follow from the input, and from the original ones.
        rope = getattr(module, "rope_type", None)
        stretched = rope == "dynamic" and module.max_seq_len_cached > module.original_max_seq_len
        for name, tensor in (*module._parameters.items(), *module._buffers.items()):
            is_computed = name in module._non_persistent_buffers_set
            if name == "inv_freq" and (stretched or rope == "longrope"):
                tensor = module.original_inv_freq
            if tensor is not None:
                yield f"{prefix}.{name}", tensor, is_computed


def digest_of_weights(model: Any) -> tuple[str, list[str]]:
    """Digest of all parameters and buffers, by name; and what cannot be digested."""
    digests: dict[int, str] = {}
    lines, reasons = [], []
    for name, tensor, is_computed in _tensors(model):
        # Quantised parameters keep their scales in attributes, and the compiler its notes.
        notes = ("_is_hf_initialized", "tensor_model_parallel")
        entries = getattr(tensor, "__dict__", {}).items()
        state = {key: value for key, value in entries if key not in notes and not key.startswith("_dynamo_")}
        try:
            if id(tensor) not in digests:
                digests[id(tensor)] = _digest_of_computed(tensor) if is_computed else digest_of_tensor(tensor)
            lines.append(f"{name} {digests[id(tensor)]} {digest_of_value(state) if state else ''}")
        except Unidentifiable as error:
            reasons.append(f"the parameter {name}: {error}")
    return _digest("\n".join(sorted(lines))), reasons


def _modules(model: Any, reasons: list[str]) -> str:
    """Digest of the tree of modules: classes and attributes."""
    lines = []
    own = _OWN | vars(torch.nn.Module()).keys()
    configs: dict[int, str] = {}
    for prefix, module in model.named_modules(remove_duplicate=False):
        texts = [prefix, f"{type(module).__module__}.{type(module).__qualname__}"]
        for name, value in module.__dict__.items():
            if name in own:
                continue
            if type(value).__name__ == "MatmulLtState":  # of bitsandbytes; all but the scales is of the last call
                value = value.SCB
            try:
                if callable(getattr(value, "to_dict", None)) and "Config" in type(value).__name__:
                    if id(value) not in configs:
                        configs[id(value)] = digest_of_value(_without_places(value.to_dict()))
                    texts.append(f"{name}={configs[id(value)]}")
                else:
                    texts.append(f"{name}={digest_of_value(value)}")
            except Unidentifiable as error:
                reasons.append(f"the attribute {name} of {prefix or 'the model'}: {error}")
        lines.append(" ".join([*texts[:2], *sorted(texts[2:])]))
    return _digest("\n".join(lines))


def versions(model: Any | None = None) -> dict[str, str]:
    """Versions of the packages whose code computes the predictions."""
    names = {"torch", "transformers"}
    if model is not None:
        kinds = {type(module) for module in model.modules()}
        names |= {kind.__module__.partition(".")[0] for kind in kinds if in_library(kind)}
    return {name: str(require(name, "hf", "the model").__version__) for name in sorted(names)}


def live_state(model: Any, tokenizer: Any) -> Identity:
    """Digest a model and its tokenizer as they are in memory now.

    Args:
        model: A causal language model of ``transformers``, or one that ``peft`` wraps.
        tokenizer: Its tokenizer.

    Returns:
        The facts, and the reasons why they are not complete.
    """
    weights, reasons = digest_of_weights(model)
    reasons = sorted(reason for reason, _ in _code(model)) + reasons
    sizes: Counter[str] = Counter()
    for weight in model.parameters():
        sizes[str(weight.dtype).removeprefix("torch.")] += weight.numel()
    who = {
        "model": type(model).__name__,
        "weights": weights,
        "modules": _modules(model, reasons),
        "dtype": ", ".join(f"{name} ({sizes[name]})" for name in sorted(sizes)) if len(sizes) > 1 else "".join(sizes),
        "device": ", ".join(sorted({weight.device.type for weight in model.parameters()})),
    }
    try:
        who["tokenizer"] = digest_of_tokenizer(tokenizer)
    except Unidentifiable as error:
        reasons.append(str(error))
    if attention := getattr(model.config, "_attn_implementation", None):
        who["attention"] = str(attention)
    if quantisation := getattr(model.config, "quantization_config", None):
        plain = quantisation if isinstance(quantisation, dict) else quantisation.to_dict()
        who["quantisation"] = json.dumps(_without_places(plain), sort_keys=True, default=str)
    # Adapters of peft; which of them are merged or disabled is an attribute of the modules.
    active = [module.__dict__.get("_active_adapter", ()) for module in model.modules()]
    if names := {name for given in active for name in ([given] if isinstance(given, str) else given)}:
        who["adapters"] = ", ".join(sorted(names))
    return Identity(who | versions(model), {}, tuple(dict.fromkeys(reasons)))

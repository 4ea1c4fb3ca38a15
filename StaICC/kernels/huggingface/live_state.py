"""What a model in memory consists of, as facts for its identity: everything that determines its predictions.

That is every parameter and buffer with its number type, the class of every module, the attributes of the modules
(adapters of ``peft`` keep their state there: active, disabled, merged, scaling), the configuration, and the tokenizer.
Rotary frequencies are left out where they equal those that the module computes from its configuration, because their
last digit depends on the machine.

What cannot be digested is a reason why the model is *unidentified*: hooks and patched methods of the user, modules of
other code, values that are not in memory. Hooks that the libraries themselves install are theirs and are not counted.
"""

from __future__ import annotations

import hashlib
import json
import sys
import types
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from StaICC.inference.identity import replaced_methods
from StaICC.kernels.huggingface.values import (
    Unidentifiable,
    digest_of_value,
    digests_of_tensors,
    is_library_code,
    is_library_type,
)
from StaICC.optional import require

_HOOKS = ("_forward_hooks", "_forward_pre_hooks")
_OWN = frozenset(
    {
        "training",
        "_parameters",
        "_buffers",
        "_modules",
        "_non_persistent_buffers_set",
        "_is_full_backward_hook",
        "_is_hf_initialized",
        "_output_capturing_hooks_installed",
        "gradient_checkpointing",
        "name_or_path",
        "max_seq_len_cached",
        "_gradient_checkpointing_func",
        "kernel_config",
        "_tp_plan",
        "_ep_plan",
        "_pp_plan",
        "_fsdp_plan",
        "warnings_issued",
        "_keep_in_fp32_modules",
        "_keep_in_fp32_modules_strict",
        "_no_split_modules",
        "_skip_keys_device_placement",
        "_keys_to_ignore_on_load_unexpected",
        "_keys_to_ignore_on_load_missing",
        "_keys_to_ignore_on_save",
        "all_tied_weights_keys",
        "_caches",
        "hf_device_map",
        "_compiled_call_impl",
        "device_map",
        "_hf_peft_config_loaded",
        "_is_stateful",
        "_cache",
        "_loss_function",
    }
)
"""Attributes of modules that are digested elsewhere or determine no prediction."""
_CONFIG_PLACES = (
    "_name_or_path",
    "transformers_version",
    "_commit_hash",
    "use_cache",
    "torch_dtype",
    "dtype",
    "gguf_file",
)
"""Entries of a configuration that say where a model comes from, or that the parameters themselves tell."""
_DEPENDENCIES = frozenset({"huggingface_hub", "numpy", "packaging", "safetensors", "tokenizers", "tqdm"})
"""Packages whose functions the modules of models import."""
_SELF_ADJUSTING = ("dynamic", "longrope")
"""Kinds of rotary embedding that change their frequencies with the length of the input."""
_TOKENIZER_SETTINGS = (
    "_add_bos_token",
    "_add_eos_token",
    "add_bos_token",
    "add_eos_token",
    "model_max_length",
    "split_special_tokens",
    "clean_up_tokenization_spaces",
    "clean_up_tokenization_spaces_for_bpe_even_though_it_will_corrupt_output",
    "chat_template",
    "add_prefix_space",
    "legacy",
)
_TOKENIZER_PLACES = frozenset(
    {
        "init_inputs",
        "init_kwargs",
        "name_or_path",
        "verbose",
        "deprecation_warnings",
        "files_loaded",
        "vocab_file",
        "merges_file",
        "_in_target_context_manager",
        "padding_side",
        "truncation_side",
    }
)


@dataclass(frozen=True)
class LiveState:
    """A model in memory."""

    who: dict[str, str]
    """Facts by name, as in :class:`~StaICC.inference.identity.Identity`."""
    unidentified: tuple[str, ...]
    """Reasons why they are not complete."""


def _named(name: str) -> str:
    return name or "the model"


def foreign_code(model: Any) -> list[str]:
    """Hooks and replaced methods in a model that do not come with torch, transformers and the like.

    Args:
        model: The model.

    Returns:
        One reason for each, readable; empty for a model as its library made it.
    """
    torch = require("torch", "hf", "the causal language model kernel")
    found = []
    every = torch.nn.modules.module
    for kind in ("_global_forward_hooks", "_global_forward_pre_hooks"):
        if any(not is_library_code(hook) for hook in getattr(every, kind, {}).values()):
            found.append("a forward hook on all modules of torch")
    classes = set()
    for name, module in model.named_modules():
        for kind in _HOOKS:
            if any(not is_library_code(hook) for hook in module.__dict__[kind].values()):
                what = "pre-hook" if kind == "_forward_pre_hooks" else "hook"
                found.append(f"a forward {what} on {_named(name)}")
        found += [
            f"a replaced {method} of {_named(name)}"
            for method in replaced_methods(module)
            if not is_library_code(module.__dict__[method])
        ]
        classes.add(type(module))
    bases = {base for one in classes for base in one.__mro__ if is_library_type(base)} | {torch.Tensor}
    found += [
        f"a replaced method of the class {base.__qualname__}: {name}" for base in bases for name in _replaced(base)
    ]
    modules = {one.__module__ for one in classes if is_library_type(one)} | {"torch", "torch.nn.functional"}
    found += [f"a replaced function of {one}: {name}" for one in modules for name in _replaced(sys.modules[one])]
    return sorted(found)


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


def _library_patches(model: Any) -> list[str]:
    """Forward methods that a library replaced on a module (hooks of accelerate), and modules that were compiled."""
    found = []
    for name, module in model.named_modules():
        found += [f"a replaced {method} of {_named(name)}" for method in replaced_methods(module)]
        if module.__dict__.get("_compiled_call_impl") is not None:
            found.append(f"compiled code of {_named(name)}")
    return found


def numerics() -> dict[str, str]:
    """Settings of torch that change what the same weights compute, where they are not the defaults."""
    torch = require("torch", "hf", "the causal language model kernel")
    found = [
        f"autocast {device} {str(torch.get_autocast_dtype(device)).removeprefix('torch.')}"
        for device in ("cpu", "cuda")
        if torch.is_autocast_enabled(device)
    ]
    products = torch.backends.cuda.matmul
    try:
        precision = torch.get_float32_matmul_precision()
        found += [f"float32 products {precision}"] if precision != "highest" else []
    except RuntimeError:  # raised once the precision of a single backend was set
        places = {"all": torch.backends, "cuda": products, "mkldnn": torch.backends.mkldnn.matmul}
        precisions = {name: place.fp32_precision for name, place in places.items()}
        found += [f"float32 products {name} {one}" for name, one in precisions.items() if one not in ("none", "ieee")]
    switches = {
        "allow_fp16_accumulation": False,
        "allow_bf16_reduced_precision_reduction": True,
        "allow_fp16_reduced_precision_reduction": True,
    }
    found += [name for name, default in switches.items() if getattr(products, name, default) != default]
    return {"numerics": ", ".join(found)} if found else {}


def _rounded_alike(torch: Any, computed: Any, held: Any) -> bool:
    """Whether a buffer holds the computed values, up to the last digit that depends on the machine."""
    if held.dtype != torch.float32:
        return bool(torch.equal(computed.to(held.dtype), held))
    return bool(torch.allclose(computed.float(), held, rtol=1e-6, atol=0))


def _derived(torch: Any, module: Any) -> set[str]:
    """Buffers that the module computed from its configuration, found by computing them again."""
    names = [name for name in module._non_persistent_buffers_set if module._buffers.get(name) is not None]
    if not names or not is_library_type(type(module)) or "otary" not in type(module).__qualname__:
        return set()
    if (
        getattr(module, "rope_type", None) in _SELF_ADJUSTING
        and module.max_seq_len_cached > module.original_max_seq_len
    ):
        return set(names)  # adjusted to a long input
    try:
        with torch.random.fork_rng(devices=[]):
            again = dict(type(module)(config=module.config).named_buffers(recurse=False))
    except Exception:  # of a class that is made otherwise: its buffers are digested
        return set()
    return {
        name
        for name in names
        if name in again
        and again[name].shape == module._buffers[name].shape
        and _rounded_alike(torch, again[name], module._buffers[name].detach().cpu())
    }


def _config_digest(config: Any) -> str:
    plain = config.to_dict() if callable(getattr(config, "to_dict", None)) else vars(config)
    return digest_of_value(_without_places(plain))


def _without_places(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _without_places(one) for key, one in value.items() if key not in _CONFIG_PLACES}
    return value


def _is_foreign_attention(name: str | None) -> bool:
    transformers = require("transformers", "hf", "the causal language model kernel")
    known = getattr(transformers.modeling_utils, "ALL_ATTENTION_FUNCTIONS", {})
    return name in known and known[name] is not None and not is_library_code(known[name])


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
    for base in kind.__mro__:
        for name in _replaced(base) if is_library_type(base) else ():
            raise Unidentifiable(f"a replaced {name} of the class of the tokenizer")
    for name, value in vars(tokenizer).items():
        if callable(value) and not isinstance(value, type) and hasattr(kind, name):
            raise Unidentifiable(f"a replaced {name} of the tokenizer")
    digest = hashlib.sha256(kind.__qualname__.encode())
    backend = getattr(tokenizer, "backend_tokenizer", None)
    if backend is not None:
        # What comes before the added tokens (version, truncation, padding) follows from the last call.
        digest.update(backend.to_str().partition('"added_tokens"')[2].encode("utf-8", "surrogatepass"))
        facts = {name: getattr(tokenizer, name, None) for name in _TOKENIZER_SETTINGS}
    else:
        facts = {name: value for name, value in vars(tokenizer).items() if name not in _TOKENIZER_PLACES}
        for name, value in facts.items():
            proto = getattr(value, "serialized_model_proto", None)
            if callable(proto):
                facts[name] = proto()
        facts["vocabulary"] = tokenizer.get_vocab()
    facts["special"] = {key: str(value) for key, value in tokenizer.special_tokens_map.items()}
    facts.pop("_special_tokens_map", None)
    digest.update(digest_of_value(facts).encode())
    return digest.hexdigest()


def _number_types(model: Any) -> str:
    sizes: dict[str, int] = {}
    for weight in model.parameters():
        name = str(weight.dtype).removeprefix("torch.")
        sizes[name] = sizes.get(name, 0) + weight.numel()
    return ", ".join(f"{name} ({sizes[name]})" for name in sorted(sizes)) if len(sizes) > 1 else "".join(sizes)


def _weights(torch: Any, model: Any, reasons: list[str]) -> str:
    """Digest of all parameters and buffers, by name."""
    tensors: dict[str, Any] = {}
    distinct: dict[int, int] = {}
    values: list[Any] = []
    for prefix, module in model.named_modules():
        derived = _derived(torch, module)
        for members in (module._parameters, module._buffers):
            for name, tensor in members.items():
                if tensor is not None and name not in derived:
                    tensors[f"{prefix}.{name}"] = tensor
                    if id(tensor) not in distinct:
                        distinct[id(tensor)] = len(values)
                        values.append(tensor)
    try:
        digests = digests_of_tensors(values)
    except Unidentifiable as error:
        reasons.append(f"weights: {error}")
        return "unknown"
    whole = hashlib.sha256()
    for name in sorted(tensors):
        tensor = tensors[name]
        whole.update(f"{name} {digests[distinct[id(tensor)]]}\n".encode())
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


def _modules(model: Any, reasons: list[str]) -> str:
    """Digest of the tree of modules: classes and attributes."""
    lines = []
    configs: dict[int, str] = {}
    own = (*_OWN, *(name for name in vars(require("torch", "hf", "").nn.Module())))
    for prefix, module in model.named_modules():
        parts = []
        for name, value in module.__dict__.items():
            if name in own or name == "forward":  # a replaced one is a reason of its own
                continue
            if type(value).__name__ == "MatmulLtState":  # of bitsandbytes; all but the scales is of the last call
                value = value.SCB
            try:
                if name in ("config", "generation_config") or "Config" in type(value).__name__:
                    text = configs.get(id(value)) or _config_digest(value)
                    configs[id(value)] = text
                else:
                    text = digest_of_value(value)
            except Unidentifiable as error:
                reasons.append(f"the attribute {name} of {_named(prefix)}: {error}")
                text = type(value).__qualname__
            parts.append(f"{name}={text}")
        kind = f"{type(module).__module__}.{type(module).__qualname__}"
        lines.append(f"{prefix} {kind} {' '.join(sorted(parts))}\n")
    return hashlib.sha256("".join(lines).encode("utf-8", "surrogatepass")).hexdigest()


def _adapters(model: Any) -> str | None:
    """Adapters of ``peft`` in words: which are active, merged, disabled."""
    active, merged, disabled = set(), set(), False
    for module in model.modules():
        state = module.__dict__
        if "_active_adapter" in state:
            found = state["_active_adapter"]
            active |= {found} if isinstance(found, str) else set(found)
            merged |= set(state.get("merged_adapters", ()))
            disabled = disabled or bool(state.get("_disable_adapters"))
    if not active:
        return None
    words = f"active: {', '.join(sorted(active))}"
    if merged:
        words += f"; merged: {', '.join(sorted(merged))}"
    return words + ("; disabled" if disabled else "")


def _quantisation(config: Any) -> str | None:
    found = getattr(config, "quantization_config", None)
    if found is None:
        return None
    plain = found if isinstance(found, dict) else found.to_dict()
    return json.dumps(_without_places(plain), sort_keys=True, default=str)


def versions(model: Any | None = None) -> dict[str, str]:
    """Versions of the packages whose code computes the predictions."""
    names = {"torch", "transformers"}
    if model is not None:
        names |= {type(one).__module__.partition(".")[0] for one in model.modules() if is_library_type(type(one))}
    return {name: str(require(name, "hf", "the model").__version__) for name in sorted(names)}


def live_state(model: Any, tokenizer: Any) -> LiveState:
    """Digest a model and its tokenizer as they are in memory now.

    Args:
        model: A causal language model of ``transformers``, or one that ``peft`` wraps.
        tokenizer: Its tokenizer.

    Returns:
        The facts, and the reasons why they are not complete.
    """
    torch = require("torch", "hf", "the causal language model kernel")
    classes = {f"{type(one).__module__}.{type(one).__qualname__}": type(one) for one in model.modules()}
    foreign = [name for name in sorted(classes) if not is_library_type(classes[name])]
    reasons = (
        foreign_code(model)
        + _library_patches(model)
        + [f"modules of the class {name}, whose code has no version" for name in foreign]
    )
    attention = getattr(model.config, "_attn_implementation", None)
    if _is_foreign_attention(attention):
        reasons.append(f"the attention function {attention!r} is not one of a library")
    who = {
        "model": type(model).__name__,
        "weights": _weights(torch, model, reasons),
        "modules": _modules(model, reasons),
        "dtype": _number_types(model),
        "device": ", ".join(sorted({weight.device.type for weight in model.parameters()})),
    }
    try:
        who["tokenizer"] = digest_of_tokenizer(tokenizer)
    except Unidentifiable as error:
        reasons.append(str(error))
        who["tokenizer"] = "unknown"
    for name, value in (
        ("attention", attention),
        ("quantisation", _quantisation(model.config)),
        ("adapters", _adapters(model)),
    ):
        if value is not None:
            who[name] = str(value)
    return LiveState(who | versions(model), tuple(dict.fromkeys(reasons)))

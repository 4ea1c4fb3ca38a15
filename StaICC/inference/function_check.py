"""Which objects cannot be an inference function, with what to pass instead.

Users of other libraries pass a model of transformers, a pipeline, a classifier of scikit-learn, or a class. Some of
these are callable, and would fail only at the first query, with an error of the other library. They are known by their
class or their methods. Nothing of the object is called.
"""

from __future__ import annotations

import inspect
import itertools
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from StaICC.errors import ArgumentError
from StaICC.inference.contract import own_attribute


@dataclass(frozen=True, slots=True)
class _ForeignClass:
    """A class of another library, whose objects are no inference functions."""

    package: str
    name: str
    advice: str


_OF_TRANSFORMERS = (
    "A causal language model is passed with its tokenizer: CausalLMKernel(model, tokenizer). A model of another kind, "
    "such as a classifier, needs a function of your own"
)
_FOREIGN_CLASSES = (
    _ForeignClass("transformers", "PreTrainedModel", _OF_TRANSFORMERS),
    _ForeignClass("peft", "PeftModel", _OF_TRANSFORMERS),
    _ForeignClass(
        "transformers",
        "Pipeline",
        "Pass the model of the pipeline: CausalLMKernel(pipeline.model, pipeline.tokenizer)",
    ),
    _ForeignClass(
        "transformers", "PreTrainedTokenizerBase", "Pass it with its model: CausalLMKernel(model, tokenizer)"
    ),
    _ForeignClass("vllm", "LLM", "Pass load_kernel('vllm:NAME'), which loads the model by its name"),
    _ForeignClass("llama_cpp", "Llama", "Pass load_kernel('llama:FILE.gguf'), which loads the file"),
)
"""Classes whose objects and derived objects are refused; the first one in this list gives the advice."""

_ADVICE_BY_METHOD: Mapping[str, str] = {
    "auto_run": "A benchmark gets the function: benchmark(my_inference)",
    "predict": (
        "Write a function that calls it, such as lambda prompt, label_space: model.predict([prompt])[0], or pass "
        "predictions that you have as preentered_prediction=[...]"
    ),
    "generate": (
        "Write a function that returns its reply, such as lambda prompt, label_space: model.generate(prompt). A kernel "
        "with generate(prompts, max_new_tokens, stop) is passed as text_inference(kernel)"
    ),
}
"""What to do with an object that has a method. The first method in this order that it has decides."""

_WRITE_A_FUNCTION = (
    "Write a function of prompt and label_space, as docs/kernels.md shows, or pass load_kernel('hf:NAME')"
)


def refuse_unsuitable_function(value: object, argument: str = "the inference function") -> None:
    """Raise an error for an object that cannot be called as ``f(prompt=..., label_space=...)``.

    Args:
        value: What was given as inference function.
        argument: The name of the argument, for the message.

    Raises:
        ArgumentError: It is not callable, is a class of callable objects, is a benchmark, or an object of another
            library. The message says what was given, and what to pass instead.

    Example:
        >>> refuse_unsuitable_function(lambda prompt, label_space: 0)
    """
    if issubclass(type(value), str):
        raise ArgumentError(
            f"{argument} must be callable, not str. For a model by its name, pass load_kernel({value!r:.80})"
        )
    if issubclass(type(value), type):
        _refuse_class_of_functions(value, argument)
        return
    refuse_foreign_object(value, argument)
    kind = type(value).__name__
    if own_attribute(value, "auto_run") is not None:
        raise ArgumentError(f"{argument}: got a benchmark, {kind}. {_ADVICE_BY_METHOD['auto_run']}")
    if not callable(value):
        raise ArgumentError(f"{argument} must be callable, not {kind}. {_advice_by_methods(value)}")


def refuse_foreign_object(value: object, argument: str) -> None:
    """Raise an error for a model, a pipeline or a tokenizer of another library.

    A class of the user's own, which is derived from one of another library, may be an inference function: a call of it
    has parameters named prompt and label_space.

    Args:
        value: Any object.
        argument: The name of the argument, for the message.

    Raises:
        ArgumentError: It is one. The message says how to pass it.
    """
    foreign_class = _foreign_class(value)
    if foreign_class is None or _names_both_parameters(value):
        return
    kind = type(value).__name__
    raise ArgumentError(f"{argument}: got a {kind} of {foreign_class.package}. {foreign_class.advice}")


def _refuse_class_of_functions(cls: Any, argument: str) -> None:
    """Raise an error for a class whose objects are inference functions or models, such as the class of a kernel.

    A call of the class makes such an object, and no prediction. Other classes may be functions: what a call of them
    returns is checked.

    Args:
        cls: The class.
        argument: The name of the argument, for the message.
    """
    members = ("__call__", *_ADVICE_BY_METHOD)
    makes_functions = any(inspect.getattr_static(base, name, None) for base in cls.__mro__ for name in members)
    if not makes_functions:
        return
    name = cls.__name__
    parameters = ", ".join(_positional_parameters(cls))
    message = f"{argument}: got the class {name}, expected an object of it: {name}({parameters})"
    if hasattr(cls, "from_spec"):
        message += ". A kernel by the name of its model is load_kernel(NAME), such as load_kernel('hf:gpt2')"
    raise ArgumentError(message)


def _positional_parameters(cls: Any) -> list[str]:
    """Return the names of the parameters that a class takes by position."""
    try:
        parameters = inspect.signature(cls).parameters.values()
    except (TypeError, ValueError):  # some classes that are written in C have no signature
        return ["..."]
    return [parameter.name for parameter in parameters if parameter.kind is parameter.POSITIONAL_OR_KEYWORD]


def _foreign_class(value: object) -> _ForeignClass | None:
    """Return the class of another library of which a value is an object; ``None`` if there is none."""
    classes = [(base.__module__.partition(".")[0], base.__name__) for base in type(value).__mro__]
    for foreign_class in _FOREIGN_CLASSES:
        if (foreign_class.package, foreign_class.name) in classes:
            return foreign_class
    return None


def _names_both_parameters(value: object) -> bool:
    """Return whether a call of an object, or its method ``forward``, has parameters named prompt and label_space."""
    for base, method in itertools.product(type(value).__mro__, ("__call__", "forward")):
        function = vars(base).get(method)
        code = getattr(function, "__code__", None)
        if code is not None and {"prompt", "label_space"} <= set(code.co_varnames[: code.co_argcount]):
            return True
    return False


def _advice_by_methods(value: object) -> str:
    """Return what to do with an object that is not callable, by the methods that it has."""
    for method, advice in _ADVICE_BY_METHOD.items():
        if callable(own_attribute(value, method)):
            return advice
    return _WRITE_A_FUNCTION

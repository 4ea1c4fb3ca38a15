"""Inference functions that change between two runs under one name, and ordinary functions that do not.

``CHANGING_FUNCTIONS`` are generators: they yield the function as it was, change it, and yield it as it is then. At
least one in ten of its predictions differs. ``ORDINARY_FUNCTIONS`` make a function that predicts the same in every run.
"""

from __future__ import annotations

import dataclasses
import functools
import json
import math
import sys
import types
import weakref
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest

from StaICC.inference.identity import Identity
from StaICC.kernels.ppm import PPMKernel
from StaICC.prompting.prompt_writer import Query

LABELS = ("no", "yes")
WORDS = ("great", "dull", "fun", "sad", "b", "c", "lovely", "bad", "fine", "poor")
QUERIES = [
    Query(f"great . -> yes\ndull . -> no\n{word} {number} . -> ", LABELS, 0, 0, 0)
    for number in range(3)
    for word in WORDS
]
"""Three for each of ten words, 30 together: a recheck computes all of them again."""

Function = Callable[..., Any]
Change = Callable[[pytest.MonkeyPatch, Path], Iterator[Function]]
CHANGING_FUNCTIONS: dict[str, Change] = {}
ORDINARY_FUNCTIONS: dict[str, Callable[[], Function]] = {}


def register_change(make: Change) -> Change:
    """Add a generator to ``CHANGING_FUNCTIONS`` under its name."""
    CHANGING_FUNCTIONS[make.__name__] = make
    return make


def register_ordinary(make: Callable[[], Function]) -> Callable[[], Function]:
    """Add a function that makes an inference function to ``ORDINARY_FUNCTIONS`` under its name."""
    ORDINARY_FUNCTIONS[make.__name__] = make
    return make


def module_of_source(source: str, name: str = "made") -> Any:
    """Return a module with this source, which is in no file."""
    made = types.ModuleType(name)
    exec(compile(source, f"/nowhere/{name}.py", "exec"), made.__dict__)
    return made


def two_scores(prompt: Any, number: float) -> list[float]:
    """Return a given score for the first label, and one by the length of the prompt for the second."""
    return [number, 1.0 + len(prompt) / 100]


def closure_with_score(number: Any) -> Function:
    """Return a function that predicts this score for the first label."""

    def f(prompt: Any, label_space: Any) -> list[float]:
        return two_scores(prompt, number)

    return f


TABLE = {"great": 1.0, "dull": -1.0}


def lexicon(prompt: str, label_space: Any) -> list[float]:
    """Predict the sum of the scores in ``TABLE`` of the last four words."""
    last_words = prompt.split()[-4:]
    return two_scores(prompt, sum(TABLE.get(word, 0.0) for word in last_words))


class Scaled:
    """An object that predicts its factor as the score of the first label."""

    def __init__(self, factor: float) -> None:
        self.factor = factor

    def predict(self, prompt: Any, label_space: Any) -> list[float]:
        return two_scores(prompt, self.factor)

    def __call__(self, prompt: Any, label_space: Any) -> list[float]:
        return self.predict(prompt, label_space)


class ReversedScaled(Scaled):
    """Overrides the method that ``__call__`` calls: the scores are exchanged."""

    def predict(self, prompt: Any, label_space: Any) -> list[float]:
        return two_scores(prompt, self.factor)[::-1]


class Retrying:
    """A kernel that counts a retry of each request."""

    def __init__(self) -> None:
        self.retried = 0

    def identity(self) -> Identity:
        """Always the same."""
        return Identity({"model": "retrying"})

    def __call__(self, prompt: str, label_space: Sequence[str]) -> list[float]:
        """Count a retry."""
        self.retried += 1
        return two_scores(prompt, 0.5)


def documented(prompt: Any, label_space: Any, number: float = 0.0) -> list[float]:
    return two_scores(prompt, 1.0)


documented.batch = lambda prompts, label_space, **more: [two_scores(prompt, 1.0) for prompt in prompts]  # type: ignore[attr-defined]
documented.identity_for = lambda **keywords: Identity({"model": "documented"}, {"n": repr(keywords)})  # type: ignore[attr-defined]


# -- functions that change


def _with_reversed_scores(function: Function) -> Function:
    """Return a wrapper of a function that exchanges the scores of its two labels."""

    @functools.wraps(function)
    def wrapper(prompt: Any, label_space: Any) -> Any:
        return function(prompt, label_space)[::-1]

    return wrapper


def _add_pair(name: str, make: Callable[[], tuple[Function, Function]]) -> None:
    """Add two functions, of which the second one is used in place of the first."""
    CHANGING_FUNCTIONS[name] = lambda patch, folder: iter(make())


_add_pair("another_body", lambda: (closure_with_score(1.0), lambda prompt, label_space: two_scores(prompt, 2.0)))
_add_pair("another_closure", lambda: (closure_with_score(1.0), closure_with_score(2.0)))
_add_pair("a_subclass", lambda: (Scaled(1.0), ReversedScaled(1.0)))
_add_pair("a_decorator", lambda: (lexicon, _with_reversed_scores(lexicon)))
_add_pair(
    "a_partial", lambda: (functools.partial(_score_weight, weight=1.0), functools.partial(_score_weight, weight=2.0))
)
_add_pair("kernels_in_a_closure", lambda: (_closure_with_kernel(PPMKernel(0)), _closure_with_kernel(PPMKernel(5))))
_add_pair("a_subclass_of_a_kernel", lambda: (PPMKernel(), _ReversedPPM()))
_add_pair("the_same_source_without_a_file", lambda: (_function_without_file(1.0), _function_without_file(2.0)))
_add_pair(
    "the_same_name_in_another_module",
    lambda: (module_of_source(_SOURCE).f, module_of_source(_SOURCE.replace("1.0", "2.0"), "other").f),
)
_add_pair("a_kernel_that_states_too_little", lambda: (_StatesModelOnly(1.0), _StatesModelOnly(2.0)))

_SMALL_STEPS = "def f(prompt, label_space):\n    return [1e7 + N, 1e7 + 2]\n"


_SOURCE = "N = 1.0\ndef f(prompt, label_space):\n    return [N, 1.5]\n"


def _score_square_root(prompt: Any, label_space: Any) -> list[float]:
    return two_scores(prompt, math.sqrt(4.0))


def _score_weight(prompt: Any, label_space: Any, weight: float) -> list[float]:
    return two_scores(prompt, weight)


def _closure_with_kernel(kernel: PPMKernel) -> Function:
    return lambda prompt, label_space: kernel(prompt, label_space)


class _ReversedPPM(PPMKernel):
    def __call__(self, prompt: Any, label_space: Any) -> Any:
        return super().__call__(prompt, label_space)[::-1]

    def batch(self, prompts: Any, label_space: Any) -> Any:
        return [self(prompt, label_space) for prompt in prompts]


def _function_without_file(number: float) -> Function:
    return module_of_source(f"def f(prompt, label_space):\n    return [{number}, 1.5]\n").f


class _StatesModelOnly(Scaled):
    def identity(self) -> Identity:
        return Identity({"model": "stating"})


class _BatchedScaled(Scaled):
    def identity(self) -> Identity:
        return Identity({"model": "kernel"})

    def batch(self, prompts: Any, label_space: Any) -> Any:
        return [self(prompt, label_space) for prompt in prompts]


def _closure_with_batch() -> Function:
    function = closure_with_score(1.0)
    setattr(function, "batch", lambda prompts, label_space: [two_scores(prompt, 1.0) for prompt in prompts])  # noqa: B010
    return function


def _add_function_changed_in_place(
    name: str, make: Callable[[], Any], change: Callable[[Any, pytest.MonkeyPatch], object]
) -> None:
    """Add a function that is changed in place, or in what it uses.

    Args:
        name: The name of the change.
        make: Makes the function.
        change: Changes the function, or something else with the help of ``monkeypatch``.
    """

    def steps(patch: pytest.MonkeyPatch, folder: Path) -> Iterator[Function]:
        function = make()
        yield function
        change(function, patch)
        yield function

    CHANGING_FUNCTIONS[name] = steps


def _batch_with_score_2(prompts: Any, label_space: Any) -> list[list[float]]:
    return [two_scores(prompt, 2.0) for prompt in prompts]


def _set_global(name: str, value: object) -> Callable[[Any, pytest.MonkeyPatch], object]:
    """Return a change that sets a variable of the function's module."""
    return lambda function, patch: function.__globals__.update({name: value})


_add_function_changed_in_place(
    "small_steps_of_large_numbers", lambda: module_of_source(f"N = 0\n{_SMALL_STEPS}").f, _set_global("N", 4)
)
_add_function_changed_in_place("a_global", lambda: module_of_source(_SOURCE).f, _set_global("N", 2.0))
_add_function_changed_in_place(
    "one_entry_of_a_dictionary", lambda: lexicon, lambda _, patch: patch.setitem(TABLE, "sad", -3.0)
)  # 10 %
_add_function_changed_in_place(
    "another_code",
    lambda: module_of_source(_SOURCE).f,
    lambda f, patch: patch.setattr(f, "__code__", _function_without_file(2.0).__code__),
)
_add_function_changed_in_place(
    "another_batch_of_a_function", _closure_with_batch, lambda f, patch: setattr(f, "batch", _batch_with_score_2)
)
_add_function_changed_in_place(
    "a_method_of_the_object", lambda: Scaled(1.0), lambda model, patch: setattr(model, "predict", Scaled(2.0).predict)
)
_add_function_changed_in_place(
    "a_method_of_the_class",
    lambda: Scaled(1.0),
    lambda _, patch: patch.setattr(Scaled, "predict", ReversedScaled.predict),
)
_add_function_changed_in_place(
    "another_class", lambda: Scaled(1.0), lambda model, patch: setattr(model, "__class__", ReversedScaled)
)
_add_function_changed_in_place(
    "the_standard_library",
    lambda: _score_square_root,
    lambda _, patch: patch.setattr(math, "sqrt", lambda number: -number),
)
_add_function_changed_in_place(
    "the_batch_of_a_kernel",
    lambda: _BatchedScaled(1.0),
    lambda kernel, patch: setattr(kernel, "batch", _batch_with_score_2),
)
_add_function_changed_in_place(
    "the_batch_of_the_class_of_a_kernel",
    PPMKernel,
    lambda _, patch: patch.setattr(PPMKernel, "batch", lambda self, prompts, label_space: [[0.1, 0.9]] * len(prompts)),
)
_add_function_changed_in_place(
    "a_setting_of_a_kernel", PPMKernel, lambda kernel, patch: object.__setattr__(kernel, "order", 0)
)
_add_function_changed_in_place(
    "a_helper_of_a_kernel", PPMKernel, lambda _, patch: patch.setattr(math, "exp", lambda number: 0.3)
)


@register_change
def a_file(patch: pytest.MonkeyPatch, folder: Path) -> Iterator[Function]:
    path = folder / "weights.json"

    def f(prompt: Any, label_space: Any) -> list[float]:
        return two_scores(prompt, json.loads(path.read_text())[0])

    path.write_text("[1.0]")
    yield f
    path.write_text("[2.0]")
    yield f


@register_change
def a_module_that_is_edited(patch: pytest.MonkeyPatch, folder: Path) -> Iterator[Function]:
    patch.setattr(sys, "dont_write_bytecode", True)  # a cached file is reused after an edit within a second
    for number in (1.0, 2.0):
        (folder / "edited_model.py").write_text(f"def f(prompt, label_space):\n    return [{number}, 1.5] * 1\n")
        patch.syspath_prepend(folder)
        patch.delitem(sys.modules, "edited_model", raising=False)
        yield __import__("edited_model").f
        (folder / "edited_model.py").unlink()


# -- ordinary functions


class Fields:
    """Reads its attributes from a dictionary, so that one that is missing is a KeyError."""

    def __getattr__(self, name: str) -> Any:
        return {"factor": 0.5}[name]

    def __call__(self, prompt: Any, label_space: Any) -> list[float]:
        return two_scores(prompt, self.factor)


register_ordinary(Fields)


@register_ordinary
def a_lambda() -> Function:
    lazy = module_of_source(f"__file__ = {__file__!r}\ndef __getattr__(name):\n    return {{'factor': 0.5}}[name]")
    return lambda prompt, label_space: two_scores(prompt, lazy.factor)


@register_ordinary
def a_dictionary() -> Function:
    return lexicon


@register_ordinary
def a_method() -> Function:
    return Scaled(2.0).predict


@register_ordinary
def a_partial_with_a_cache() -> Function:
    def f(prompt: str, label_space: Any, cache: dict[str, list[float]]) -> list[float]:
        return cache.setdefault(prompt, two_scores(prompt, 1.0))

    return functools.partial(f, cache={})


@register_ordinary
def numpy_functions() -> Function:
    numpy = pytest.importorskip("numpy")
    weights = numpy.arange(3.0)
    return lambda prompt, label_space: numpy.exp(weights[: len(label_space)]) + len(prompt)


@register_ordinary
def a_layer_of_torch() -> Function:
    torch = pytest.importorskip("torch")
    layer = torch.nn.Linear(1, 2)

    def f(prompt: str, label_space: Any) -> Any:
        with torch.no_grad():
            return layer(torch.tensor([float(len(prompt))]))

    return f


@register_ordinary
def counts_of_calls() -> Function:
    calls: list[str] = []
    number = 0

    def f(prompt: str, label_space: Any) -> list[float]:
        nonlocal number
        number += 1
        calls.append(prompt)
        return two_scores(prompt, 1.0)

    return f


@register_ordinary
def an_object_that_counts() -> Function:
    class Counting(Scaled):
        number = 0

        def __call__(self, prompt: Any, label_space: Any) -> list[float]:
            self.number += 1
            return self.predict(prompt, label_space)

    return Counting(1.0)


@register_ordinary
def a_model_that_is_loaded_when_it_is_needed() -> Function:
    class LazyDictionary:
        @functools.cached_property
        def model(self) -> Function:
            return closure_with_score(3.0)

        def __call__(self, prompt: Any, label_space: Any) -> Any:
            return self.model(prompt, label_space)

    return LazyDictionary()


SOURCE_WITH_A_LAZY_GLOBAL = """
KERNEL = None

def f(prompt, label_space):
    global KERNEL
    if KERNEL is None:
        KERNEL = PPMKernel()
    return KERNEL(prompt, label_space)
"""


@register_ordinary
def a_kernel_in_a_global_that_is_loaded_when_it_is_needed() -> Function:
    module = module_of_source(SOURCE_WITH_A_LAZY_GLOBAL, "lazy")
    module.PPMKernel = PPMKernel
    return module.f


@register_ordinary
def a_record_of_settings() -> Function:
    @dataclasses.dataclass
    class Settings:
        weight: float = 2.0
        words: tuple[str, ...] = ("great",)

        def __call__(self, prompt: Any, label_space: Any) -> list[float]:
            return two_scores(prompt, self.weight * sum(word in prompt for word in self.words))

    return Settings()


class LazyDictionary(dict[str, float]):
    """Loads its content when it is used, and cannot be inspected before."""

    def values(self) -> Any:
        raise RuntimeError("not loaded")

    def __getattribute__(self, name: str) -> Any:
        raise RuntimeError("not loaded")


class NotInspectable:
    """An object whose attributes and whose class cannot be had."""

    @property
    def __dict__(self) -> Any:  # type: ignore[override]
        raise ZeroDivisionError

    @property
    def __class__(self) -> Any:
        raise ZeroDivisionError


@register_ordinary
def what_cannot_be_inspected() -> Function:
    """A closure with a reference to an object that is gone, and with objects that fail when they are inspected."""
    reference_to_nothing = weakref.proxy(Scaled(1.0))
    held = (reference_to_nothing, LazyDictionary(), NotInspectable())

    def f(prompt: Any, label_space: Any) -> Any:
        return two_scores(prompt, 1.0) if label_space else held

    return f


@register_ordinary
def a_function_that_names_the_label() -> Function:
    return lambda prompt, label_space: label_space[len(prompt) % 2]


@register_ordinary
def a_function_without_a_file() -> Function:
    return module_of_source(_SOURCE).f


@register_ordinary
def a_wrapper_of_a_kernel() -> Function:
    return _closure_with_kernel(PPMKernel())

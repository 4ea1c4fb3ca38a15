"""Inference functions that change between two runs under one name, and ordinary functions that do not.

``ATTACKS`` are generators: they yield the function as it was, change it, and yield it as it is then. At least one in
ten of its predictions differs. ``ORDINARY`` make a function that predicts the same in every run.
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
"""30: a recheck computes all of them again."""

Function = Callable[..., Any]
Attack = Callable[[pytest.MonkeyPatch, Path], Iterator[Function]]
ATTACKS: dict[str, Attack] = {}
ORDINARY: dict[str, Callable[[], Function]] = {}


def attack(make: Attack) -> Attack:
    ATTACKS[make.__name__] = make
    return make


def ordinary(make: Callable[[], Function]) -> Callable[[], Function]:
    ORDINARY[make.__name__] = make
    return make


def module(source: str, name: str = "made") -> Any:
    """A module from its text."""
    made = types.ModuleType(name)
    exec(compile(source, f"/nowhere/{name}.py", "exec"), made.__dict__)
    return made


def row(prompt: Any, number: float) -> list[float]:
    return [number, 1.0 + len(prompt) / 100]


def closure(number: Any) -> Function:
    def f(prompt: Any, label_space: Any) -> list[float]:
        return row(prompt, number)

    return f


TABLE = {"great": 1.0, "dull": -1.0}


def lexicon(prompt: str, label_space: Any) -> list[float]:
    return row(prompt, sum(TABLE.get(word, 0.0) for word in prompt.split()[-4:]))


class Scaled:
    """An object with a factor."""

    def __init__(self, factor: float) -> None:
        self.factor = factor

    def predict(self, prompt: Any, label_space: Any) -> list[float]:
        return row(prompt, self.factor)

    def __call__(self, prompt: Any, label_space: Any) -> list[float]:
        return self.predict(prompt, label_space)


class Turned(Scaled):
    """Overrides a helper."""

    def predict(self, prompt: Any, label_space: Any) -> list[float]:
        return row(prompt, self.factor)[::-1]


class Retrying:
    """Sends each request twice."""

    def __init__(self) -> None:
        self.retried = 0

    def identity(self) -> Identity:
        """Always the same."""
        return Identity({"model": "retrying"})

    def __call__(self, prompt: str, label_space: Sequence[str]) -> list[float]:
        """Count a retry."""
        self.retried += 1
        return row(prompt, 0.5)


def documented(prompt: Any, label_space: Any, number: float = 0.0) -> list[float]:
    return row(prompt, 1.0)


documented.batch = lambda prompts, label_space, **more: [row(prompt, 1.0) for prompt in prompts]  # type: ignore[attr-defined]
documented.identity_for = lambda **keywords: Identity({"model": "documented"}, {"n": repr(keywords)})  # type: ignore[attr-defined]


# -- functions that change


def _turned(function: Function) -> Function:
    @functools.wraps(function)
    def wrapper(prompt: Any, label_space: Any) -> Any:
        return function(prompt, label_space)[::-1]

    return wrapper


def _pair(name: str, make: Callable[[], tuple[Function, Function]]) -> None:
    ATTACKS[name] = lambda patch, folder: iter(make())


_pair("another_body", lambda: (closure(1.0), lambda prompt, label_space: row(prompt, 2.0)))
_pair("another_closure", lambda: (closure(1.0), closure(2.0)))
_pair("a_subclass", lambda: (Scaled(1.0), Turned(1.0)))
_pair("a_decorator", lambda: (lexicon, _turned(lexicon)))
_pair("a_partial", lambda: (functools.partial(_weighted, weight=1.0), functools.partial(_weighted, weight=2.0)))
_pair("kernels_in_a_closure", lambda: (_using(PPMKernel(0)), _using(PPMKernel(5))))
_pair("a_subclass_of_a_kernel", lambda: (PPMKernel(), _Flipped()))
_pair("the_same_source_without_a_file", lambda: (_exec(1.0), _exec(2.0)))
_pair("the_same_name_in_another_module", lambda: (module(_SOURCE).f, module(_SOURCE.replace("1.0", "2.0"), "other").f))
_pair("a_kernel_that_states_too_little", lambda: (_Stating(1.0), _Stating(2.0)))

_SMALL_STEPS = "def f(prompt, label_space):\n    return [1e7 + N, 1e7 + 2]\n"


_SOURCE = "N = 1.0\ndef f(prompt, label_space):\n    return [N, 1.5]\n"


def _root(prompt: Any, label_space: Any) -> list[float]:
    return row(prompt, math.sqrt(4.0))


def _weighted(prompt: Any, label_space: Any, weight: float) -> list[float]:
    return row(prompt, weight)


def _using(kernel: PPMKernel) -> Function:
    return lambda prompt, label_space: kernel(prompt, label_space)


class _Flipped(PPMKernel):
    def __call__(self, prompt: Any, label_space: Any) -> Any:
        return super().__call__(prompt, label_space)[::-1]

    def batch(self, prompts: Any, label_space: Any) -> Any:
        return [self(prompt, label_space) for prompt in prompts]


def _exec(number: float) -> Function:
    return module(f"def f(prompt, label_space):\n    return [{number}, 1.5]\n").f


class _Stating(Scaled):
    def identity(self) -> Identity:
        return Identity({"model": "stating"})


class _Batched(Scaled):
    def identity(self) -> Identity:
        return Identity({"model": "kernel"})

    def batch(self, prompts: Any, label_space: Any) -> Any:
        return [self(prompt, label_space) for prompt in prompts]


def _with_batch() -> Function:
    function = closure(1.0)
    setattr(function, "batch", lambda prompts, label_space: [row(prompt, 1.0) for prompt in prompts])  # noqa: B010
    return function


def _changed(name: str, make: Callable[[], Any], change: Callable[[Any, pytest.MonkeyPatch], object]) -> None:
    """Add a function that is changed in place, or in what it uses."""

    def steps(patch: pytest.MonkeyPatch, folder: Path) -> Iterator[Function]:
        function = make()
        yield function
        change(function, patch)
        yield function

    ATTACKS[name] = steps


def _doubled(prompts: Any, label_space: Any) -> list[list[float]]:
    return [row(prompt, 2.0) for prompt in prompts]


def _global(name: str, value: object) -> Callable[[Any, pytest.MonkeyPatch], object]:
    return lambda function, patch: function.__globals__.update({name: value})


_changed("small_steps_of_large_numbers", lambda: module(f"N = 0\n{_SMALL_STEPS}").f, _global("N", 4))
_changed("a_global", lambda: module(_SOURCE).f, _global("N", 2.0))
_changed("one_entry_of_a_dictionary", lambda: lexicon, lambda _, patch: patch.setitem(TABLE, "sad", -3.0))  # 10 %
_changed("another_code", lambda: module(_SOURCE).f, lambda f, patch: patch.setattr(f, "__code__", _exec(2.0).__code__))
_changed("another_batch_of_a_function", _with_batch, lambda f, patch: setattr(f, "batch", _doubled))
_changed(
    "a_method_of_the_object", lambda: Scaled(1.0), lambda model, patch: setattr(model, "predict", Scaled(2.0).predict)
)
_changed(
    "a_method_of_the_class", lambda: Scaled(1.0), lambda _, patch: patch.setattr(Scaled, "predict", Turned.predict)
)
_changed("another_class", lambda: Scaled(1.0), lambda model, patch: setattr(model, "__class__", Turned))
_changed("the_standard_library", lambda: _root, lambda _, patch: patch.setattr(math, "sqrt", lambda number: -number))
_changed("the_batch_of_a_kernel", lambda: _Batched(1.0), lambda kernel, patch: setattr(kernel, "batch", _doubled))
_changed(
    "the_batch_of_the_class_of_a_kernel",
    PPMKernel,
    lambda _, patch: patch.setattr(PPMKernel, "batch", lambda self, prompts, label_space: [[0.1, 0.9]] * len(prompts)),
)
_changed("a_setting_of_a_kernel", PPMKernel, lambda kernel, patch: object.__setattr__(kernel, "order", 0))
_changed("a_helper_of_a_kernel", PPMKernel, lambda _, patch: patch.setattr(math, "exp", lambda number: 0.3))


@attack
def a_file(patch: pytest.MonkeyPatch, folder: Path) -> Iterator[Function]:
    path = folder / "weights.json"

    def f(prompt: Any, label_space: Any) -> list[float]:
        return row(prompt, json.loads(path.read_text())[0])

    path.write_text("[1.0]")
    yield f
    path.write_text("[2.0]")
    yield f


@attack
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
        return row(prompt, self.factor)


ordinary(Fields)


@ordinary
def a_lambda() -> Function:
    lazy = module(f"__file__ = {__file__!r}\ndef __getattr__(name):\n    return {{'factor': 0.5}}[name]")
    return lambda prompt, label_space: row(prompt, lazy.factor)


@ordinary
def a_dictionary() -> Function:
    return lexicon


@ordinary
def a_method() -> Function:
    return Scaled(2.0).predict


@ordinary
def a_partial_with_a_cache() -> Function:
    def f(prompt: str, label_space: Any, cache: dict[str, list[float]]) -> list[float]:
        return cache.setdefault(prompt, row(prompt, 1.0))

    return functools.partial(f, cache={})


@ordinary
def numpy_functions() -> Function:
    numpy = pytest.importorskip("numpy")
    weights = numpy.arange(3.0)
    return lambda prompt, label_space: numpy.exp(weights[: len(label_space)]) + len(prompt)


@ordinary
def a_layer_of_torch() -> Function:
    torch = pytest.importorskip("torch")
    layer = torch.nn.Linear(1, 2)

    def f(prompt: str, label_space: Any) -> Any:
        with torch.no_grad():
            return layer(torch.tensor([float(len(prompt))]))

    return f


@ordinary
def counts_of_calls() -> Function:
    calls: list[str] = []
    number = 0

    def f(prompt: str, label_space: Any) -> list[float]:
        nonlocal number
        number += 1
        calls.append(prompt)
        return row(prompt, 1.0)

    return f


@ordinary
def an_object_that_counts() -> Function:
    class Counting(Scaled):
        number = 0

        def __call__(self, prompt: Any, label_space: Any) -> list[float]:
            self.number += 1
            return self.predict(prompt, label_space)

    return Counting(1.0)


@ordinary
def a_model_that_is_loaded_when_it_is_needed() -> Function:
    class Lazy:
        @functools.cached_property
        def model(self) -> Function:
            return closure(3.0)

        def __call__(self, prompt: Any, label_space: Any) -> Any:
            return self.model(prompt, label_space)

    return Lazy()


@ordinary
def a_kernel_in_a_global_that_is_loaded_when_it_is_needed() -> Function:
    lines = ["if KERNEL is None:", "    KERNEL = PPMKernel()", "return KERNEL(prompt, label_space)"]
    body = "".join(f"    {line}\n" for line in ["global KERNEL", *lines])
    made = module(f"KERNEL = None\ndef f(prompt, label_space):\n{body}", "lazy")
    made.PPMKernel = PPMKernel
    return made.f


@ordinary
def a_record_of_settings() -> Function:
    @dataclasses.dataclass
    class Settings:
        weight: float = 2.0
        words: tuple[str, ...] = ("great",)

        def __call__(self, prompt: Any, label_space: Any) -> list[float]:
            return row(prompt, self.weight * sum(word in prompt for word in self.words))

    return Settings()


class Lazy(dict[str, float]):
    """Loads its content when it is used, and cannot be inspected before."""

    def values(self) -> Any:
        raise RuntimeError("not loaded")

    def __getattribute__(self, name: str) -> Any:
        raise RuntimeError("not loaded")


@ordinary
def what_cannot_be_inspected() -> Function:
    dead, lazy, constant = weakref.proxy(type("Gone", (), {})()), Lazy(), property(lambda self: 1 / 0)
    hidden = type("Hidden", (), {"__dict__": constant, "__class__": constant})()
    return lambda prompt, label_space: row(prompt, 1.0) if label_space else (dead, lazy, hidden)


@ordinary
def a_function_that_names_the_label() -> Function:
    return lambda prompt, label_space: label_space[len(prompt) % 2]


@ordinary
def a_function_without_a_file() -> Function:
    return module(_SOURCE).f


@ordinary
def a_wrapper_of_a_kernel() -> Function:
    return _using(PPMKernel())

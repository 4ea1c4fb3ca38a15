"""Pairs of inference functions that differ, and pairs that are the same; a module that processes can import.

Each case makes two functions. ``DIFFERENT`` give different predictions on the queries; ``SAME`` do not.
"""

from __future__ import annotations

import array
import collections
import dataclasses
import decimal
import enum
import functools
import hashlib
import importlib.util
import math
import struct
import sys
import types
from collections import namedtuple
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from StaICC.inference.identity import Identity, combined, identity_of
from StaICC.kernels.ppm import PPMKernel
from StaICC.prompting import Query

LABELS = ("no", "yes")
QUERIES = [
    Query(f"great . -> yes\ndull . -> no\n{word} . -> ", LABELS, 0, 0, 0)
    for word in ("great", "dull", "fun", "sad", "b", "c", "")
]

Pair = tuple[Callable[..., Any], Callable[..., Any]]
DIFFERENT: dict[str, Callable[[], Pair]] = {}
UNIDENTIFIED: dict[str, Callable[[], Pair]] = {}
SAME: dict[str, Callable[[], Pair]] = {}


def different(make: Callable[[], Pair]) -> Callable[[], Pair]:
    DIFFERENT[make.__name__] = make
    return make


def unidentified(make: Callable[[], Pair]) -> Callable[[], Pair]:
    UNIDENTIFIED[make.__name__] = make
    return make


def same(make: Callable[[], Pair]) -> Callable[[], Pair]:
    SAME[make.__name__] = make
    return make


def module(source: str, name: str = "made") -> types.ModuleType:
    """A module from its text."""
    made = types.ModuleType(name)
    exec(compile(source, f"/nowhere/{name}.py", "exec"), made.__dict__)
    return made


def row(prompt: Any, number: float) -> list[float]:
    return [number, 1.0 + len(prompt) / 100]


# -- different


@different
def function_bodies() -> Pair:
    return (
        module("def f(prompt, label_space):\n    return [1.0, 2.0]\n").f,
        module("def f(prompt, label_space):\n    return [2.0, 1.0]\n").f,
    )


@different
def lambdas() -> Pair:
    return lambda prompt, label_space: [1.0, 2.0], lambda prompt, label_space: [2.0, 1.0]


@different
def constants_of_another_type() -> Pair:
    source = "def f(prompt, label_space):\n    return [1.0, 2.0] if type({}) is int else [2.0, 1.0]\n"
    return module(source.format("1")).f, module(source.format("True")).f


@different
def constants_in_a_set() -> Pair:
    source = "def f(prompt, label_space):\n    return [1.0, 2.0] if 'no' in {{'a', 'b', {!r}}} else [2.0, 1.0]\n"
    return module(source.format("no")).f, module(source.format("yes")).f


@different
def signs_of_zero() -> Pair:
    source = "from math import copysign\ndef f(prompt, label_space):\n    return [copysign(1.0, {}), 0.5]\n"
    return module(source.format("0.0")).f, module(source.format("-0.0")).f


@different
def defaults() -> Pair:
    def make(number: float) -> Callable[..., Any]:
        source = f"def f(prompt, label_space, number={number}):\n    return [number, 1.5]\n"
        return module(source).f  # type: ignore[no-any-return]

    return make(1.0), make(2.0)


@different
def keyword_defaults() -> Pair:
    def make(number: float) -> Callable[..., Any]:
        source = f"def f(prompt, label_space, *, number={number}):\n    return [number, 1.5]\n"
        return module(source).f  # type: ignore[no-any-return]

    return make(1.0), make(2.0)


def _closure(number: Any) -> Callable[..., Any]:
    def f(prompt: Any, label_space: Any) -> list[float]:
        return row(prompt, float(number))

    return f


@different
def closures() -> Pair:
    return _closure(1.0), _closure(2.0)


@different
def nested_closures() -> Pair:
    def make(number: float) -> Callable[..., Any]:
        def inner() -> float:
            return number

        def f(prompt: Any, label_space: Any) -> list[float]:
            return row(prompt, inner())

        return f

    return make(1.0), make(2.0)


@different
def functions_in_a_closure() -> Pair:
    def make(inner: Callable[[float], float]) -> Callable[..., Any]:
        return lambda prompt, label_space: row(prompt, inner(1.0))

    return make(lambda number: number), make(lambda number: number + 1)


@different
def global_constants() -> Pair:
    source = "NUMBER = {}\ndef f(prompt, label_space):\n    return [NUMBER, 1.5]\n"
    return module(source.format(1.0)).f, module(source.format(2.0)).f


@different
def global_functions() -> Pair:
    source = "def g():\n    return {}\ndef f(prompt, label_space):\n    return [g(), 1.5]\n"
    return module(source.format(1.0)).f, module(source.format(2.0)).f


@different
def globals_of_globals() -> Pair:
    source = (
        "N = {}\ndef h():\n    return N\ndef g():\n    return h()\ndef f(prompt, label_space):\n    return [g(), 1.5]\n"
    )
    return module(source.format(1.0)).f, module(source.format(2.0)).f


@different
def functions_that_call_each_other() -> Pair:
    source = (
        "def odd(n):\n    return n != 0 and even(n - 1)\n"
        "def even(n):\n    return (n == 0) is {} or (n > 0 and odd(n - 1))\n"
        "def f(prompt, label_space):\n    return [float(even(3)), 0.5]\n"
    )
    return module(source.format(True)).f, module(source.format(False)).f


@different
def names_from_modules() -> Pair:
    source = "from math import {} as chosen\ndef f(prompt, label_space):\n    return [float(chosen(1.5)), 1.5]\n"
    return module(source.format("floor")).f, module(source.format("ceil")).f


@different
def a_built_in_that_is_shadowed() -> Pair:
    source = "{}def f(prompt, label_space):\n    return [float(len(prompt)), 1.5]\n"
    return module(source.format("")).f, module(source.format("def len(text):\n    return 0\n")).f


@different
def partial_positions() -> Pair:
    def f(number: float, prompt: Any, label_space: Any) -> list[float]:
        return row(prompt, number)

    return functools.partial(f, 1.0), functools.partial(f, 2.0)


@different
def partial_keywords() -> Pair:
    def f(prompt: Any, label_space: Any, number: float) -> list[float]:
        return row(prompt, number)

    return functools.partial(f, number=1.0), functools.partial(f, number=2.0)


@different
def partials_of_different_functions() -> Pair:
    def one(prompt: Any, label_space: Any, number: float) -> list[float]:
        return row(prompt, number)

    def other(prompt: Any, label_space: Any, number: float) -> list[float]:
        return row(prompt, number + 1)

    return functools.partial(one, number=1.0), functools.partial(other, number=1.0)


@different
def partials_with_kernels() -> Pair:
    def f(prompt: Any, label_space: Any, kernel: Any) -> Any:
        return kernel(prompt, label_space)

    return functools.partial(f, kernel=PPMKernel(0)), functools.partial(f, kernel=PPMKernel(5))


@different
def kernels_in_a_closure() -> Pair:
    def make(kernel: Any) -> Callable[..., Any]:
        return lambda prompt, label_space: kernel(prompt, label_space)

    return make(PPMKernel(0)), make(PPMKernel(5))


def _batched(prompts: Any, label_space: Any) -> list[list[float]]:
    return [row(prompt, 1.0) for prompt in prompts]


def documented(prompt: Any, label_space: Any, number: float = 0.0) -> list[float]:
    return row(prompt, 1.0)


documented.batch = lambda prompts, label_space, **more: _batched(prompts, label_space)  # type: ignore[attr-defined]
documented.identity_for = lambda **keywords: Identity({"model": "documented"}, {"n": repr(keywords)})  # type: ignore[attr-defined]


@different
def a_wrapper_of_a_function_with_a_batch() -> Pair:
    @functools.wraps(documented)
    def wrapper(prompt: Any, label_space: Any) -> list[float]:
        return documented(prompt, label_space)[::-1]

    return documented, wrapper


@different
def partials_of_a_wrapper() -> Pair:
    @functools.wraps(documented)
    def wrapper(prompt: Any, label_space: Any, number: float = 0.0) -> list[float]:
        return documented(prompt, label_space)[::-1]

    return functools.partial(documented, number=1.0), functools.partial(wrapper, number=1.0)


class Reversed(functools.partial):  # type: ignore[type-arg]
    """Reverses the scores."""

    def __call__(self, *arguments: Any, **keywords: Any) -> Any:
        """Return the scores of the other label first."""
        return super().__call__(*arguments, **keywords)[::-1]


@different
def a_subclass_of_partial() -> Pair:
    def f(prompt: Any, label_space: Any) -> list[float]:
        return row(prompt, 1.0)

    return functools.partial(f), Reversed(f)


@different
def a_subclass_of_partial_over_a_batch() -> Pair:
    return functools.partial(documented, number=1.0), Reversed(documented, number=1.0)


@different
def orders_of_enums() -> Pair:
    source = "import enum\nE = enum.Enum('E', {})\ndef f(prompt, label_space):\n    return [next(iter(E)).value, 1.5]\n"
    return module(source.format({"A": 1.0, "B": 2.0})).f, module(source.format({"B": 2.0, "A": 1.0})).f


@different
def positions_in_patterns() -> Pair:
    source = (
        "class P:\n    __match_args__ = {}\n    a, b = 1.0, 2.0\ndef f(prompt, label_space):\n"
        "    match P():\n        case P(first):\n            return [first, 1.5]\n"
    )
    return module(source.format(("a",))).f, module(source.format(("b",))).f


@different
def metadata_of_fields() -> Pair:
    def make(number: float) -> Callable[..., Any]:
        @dataclasses.dataclass
        class Made:
            field: int = dataclasses.field(default=1, metadata={"n": number})

        return lambda prompt, label_space: row(prompt, dataclasses.fields(Made)[0].metadata["n"])

    return make(1.0), make(2.0)


@different
def wrappers_of_wrappers() -> Pair:
    def decorate(number: float) -> Callable[..., Any]:
        @functools.wraps(documented)
        def inner(prompt: Any, label_space: Any) -> list[float]:
            return [value + number for value in documented(prompt, label_space)]

        @functools.wraps(inner)
        def outer(prompt: Any, label_space: Any) -> Any:
            return inner(prompt, label_space)

        return outer

    return decorate(1.0), decorate(2.0)


@different
def kernel_settings() -> Pair:
    return PPMKernel(0), PPMKernel(5)


@different
def a_subclass_that_overrides_the_call() -> Pair:
    class Turned(PPMKernel):
        def __call__(self, prompt: Any, label_space: Sequence[str]) -> list[float]:
            return PPMKernel.__call__(self, prompt, label_space)[::-1]

    return PPMKernel(), Turned()


@different
def a_subclass_that_overrides_a_helper() -> Pair:
    class Turned(PPMKernel):
        def _continuation(self, prompt: Any, labels: Any) -> list[float]:
            return PPMKernel._continuation(self, prompt, labels)[::-1]

    return PPMKernel(), Turned()


@different
def subclasses_with_an_attribute_of_their_own() -> Pair:
    class Warm(PPMKernel):
        def __init__(self, warmth: float) -> None:
            super().__init__()
            object.__setattr__(self, "warmth", warmth)

        def __call__(self, prompt: Any, label_space: Sequence[str]) -> list[float]:
            return [value**self.warmth for value in PPMKernel.__call__(self, prompt, label_space)]  # type: ignore[attr-defined]

    return Warm(1.0), Warm(2.0)


@different
def a_mixin() -> Pair:
    class Turning:
        def _continuation(self, prompt: Any, labels: Any) -> list[float]:
            return PPMKernel._continuation(self, prompt, labels)[::-1]  # type: ignore[arg-type]

    class Turned(Turning, PPMKernel):
        pass

    return PPMKernel(), Turned()


@different
def a_subclass_that_has_a_batch_it_does_not_know() -> Pair:
    class Base:
        def identity(self) -> Identity:
            return Identity({"model": "base"})

        def __call__(self, prompt: Any, label_space: Any) -> list[float]:
            return row(prompt, 1.0)

        def batch(self, prompts: Any, label_space: Any) -> list[list[float]]:
            return [row(prompt, 1.0) for prompt in prompts]

    class Turned(Base):
        def __call__(self, prompt: Any, label_space: Any) -> list[float]:
            return row(prompt, 1.0)[::-1]

    return Base(), Turned()


class Scaled:
    def __init__(self, factor: float) -> None:
        self.factor = factor

    def set_factor(self, factor: float) -> None:
        self.factor = factor

    def predict(self, prompt: Any, label_space: Any) -> list[float]:
        return row(prompt, self.factor)

    def other(self, prompt: Any, label_space: Any) -> list[float]:
        return row(prompt, self.factor)[::-1]

    __call__ = predict


@different
def objects_with_different_attributes() -> Pair:
    return Scaled(1.0), Scaled(2.0)


@different
def bound_methods_of_different_objects() -> Pair:
    return Scaled(1.0).predict, Scaled(2.0).predict


@different
def bound_methods_of_one_object() -> Pair:
    one = Scaled(1.0)
    return one.predict, one.other


@different
def objects_with_slots() -> Pair:
    class Slotted:
        __slots__ = ("factor",)

        def __init__(self, factor: float) -> None:
            self.factor = factor

        def __call__(self, prompt: Any, label_space: Any) -> list[float]:
            return row(prompt, self.factor)

    return Slotted(1.0), Slotted(2.0)


class Mode(enum.Enum):
    LOW = 1.0
    HIGH = 2.0


@dataclasses.dataclass(frozen=True)
class Configuration:
    factor: float = 1.0
    mode: Mode = Mode.LOW


@different
def dataclasses_of_settings() -> Pair:
    @dataclasses.dataclass(frozen=True)
    class Model:
        configuration: Configuration

        def __call__(self, prompt: Any, label_space: Any) -> list[float]:
            return row(prompt, self.configuration.factor)

    return Model(Configuration(1.0)), Model(Configuration(2.0))


@different
def members_of_an_enumeration() -> Pair:
    def make(mode: Mode) -> Callable[..., Any]:
        return lambda prompt, label_space: row(prompt, mode.value)

    return make(Mode.LOW), make(Mode.HIGH)


@different
def named_tuples() -> Pair:
    Setting = namedtuple("Setting", "factor shift")

    def make(setting: Any) -> Callable[..., Any]:
        return lambda prompt, label_space: row(prompt, setting.factor + setting.shift)

    return make(Setting(1.0, 0.0)), make(Setting(1.0, 1.0))


@different
def class_attributes() -> Pair:
    source = (
        "class C:\n    factor = {}\n    def __call__(self, prompt, label_space):\n        return [self.factor, 1.5]\n"
    )
    return module(source.format(1.0)).C(), module(source.format(2.0)).C()


@different
def base_classes() -> Pair:
    source = (
        "class B:\n    def n(self):\n        return {}\n"
        "class C(B):\n    def __call__(self, prompt, label_space):\n        return [self.n(), 1.5]\n"
    )
    return module(source.format(1.0)).C(), module(source.format(2.0)).C()


@different
def properties() -> Pair:
    source = (
        "class C:\n    @property\n    def n(self):\n        return {}\n"
        "    def __call__(self, prompt, label_space):\n        return [self.n, 1.5]\n"
    )
    return module(source.format(1.0)).C(), module(source.format(2.0)).C()


@different
def attributes_of_functions() -> Pair:
    source = "def f(prompt, label_space):\n    return [f.number, 1.5]\nf.number = {}\n"
    return module(source.format(1.0)).f, module(source.format(2.0)).f


@unidentified
def remembered_functions() -> Pair:
    source = (
        "import functools\n@functools.lru_cache\ndef g(n):\n    return n + {}\n"
        "def f(prompt, label_space):\n    return [g(1), 1.5]\n"
    )
    return module(source.format(1.0)).f, module(source.format(2.0)).f


@different
def regular_expressions() -> Pair:
    source = (
        "import re\nP = re.compile('GREAT'{})\n"
        "def f(prompt, label_space):\n    return [2.0 if P.search(prompt) else 1.0, 1.5]\n"
    )
    return module(source.format("")).f, module(source.format(", re.I")).f


@different
def what_combines_kernels() -> Pair:
    class Noisy:
        def __init__(self, kernel: Any, variant: float) -> None:
            self.kernel, self.variant = kernel, variant

        def identity(self) -> Identity:
            return combined(identity_of(self.kernel), "noise", Identity({}, {"variant": str(self.variant)}))

        def __call__(self, prompt: Any, label_space: Any) -> list[float]:
            return [value + self.variant for value in self.kernel(prompt, label_space)]

    return Noisy(PPMKernel(), 1.0), Noisy(PPMKernel(), 2.0)


# -- not identified


@unidentified
def a_patched_method() -> Pair:
    patched = Scaled(1.0)
    patched.predict = lambda prompt, label_space: row(prompt, 3.0)  # type: ignore[method-assign]
    return Scaled(1.0), patched


@unidentified
def global_dictionaries() -> Pair:
    source = "TABLE = {{'n': {}}}\ndef f(prompt, label_space):\n    return [TABLE['n'], 1.5]\n"
    return module(source.format(1.0)).f, module(source.format(2.0)).f


@unidentified
def lists_in_a_closure() -> Pair:
    def make(numbers: list[float]) -> Callable[..., Any]:
        return lambda prompt, label_space: row(prompt, numbers[0])

    return make([1.0]), make([2.0])


@unidentified
def lists_in_attributes() -> Pair:
    class Model:
        def __init__(self, numbers: list[float]) -> None:
            self.numbers = numbers

        def __call__(self, prompt: Any, label_space: Any) -> list[float]:
            return row(prompt, self.numbers[0])

    return Model([1.0]), Model([2.0])


@unidentified
def global_objects() -> Pair:
    source = (
        "class C:\n    def __init__(self, n):\n        self.n = n\n"
        "c = C({})\ndef f(prompt, label_space):\n    return [c.n, 1.5]\n"
    )
    return module(source.format(1.0)).f, module(source.format(2.0)).f


@unidentified
def files_that_are_read() -> Pair:
    def make(path: str) -> Callable[..., Any]:
        def f(prompt: Any, label_space: Any) -> list[float]:
            with open(path) as stream:
                return row(prompt, float(len(stream.read(2))))

        return f

    return make(__file__), make("/dev/null")


@unidentified
def other_modules() -> Pair:
    source = "import os\ndef f(prompt, label_space):\n    return [float(os.getpid() * {}), 1.5]\n"
    return module(source.format(0)).f, module(source.format(1)).f


@unidentified
def modules_behind_a_pure_one() -> Pair:
    source = "import json\ndef f(prompt, label_space):\n    return [float(len(json.codecs.encode('a' * {}))), 0.5]\n"
    return module(source.format(0)).f, module(source.format(1)).f


@unidentified
def random_numbers() -> Pair:
    source = "from random import random\ndef f(prompt, label_space):\n    return [random() + {}, 1.5]\n"
    return module(source.format(1)).f, module(source.format(5)).f


@unidentified
def evaluated_texts() -> Pair:
    source = "def f(prompt, label_space):\n    return [eval('{}'), 1.5]\n"
    return module(source.format(1.0)).f, module(source.format(2.0)).f


@unidentified
def arrays() -> Pair:
    class Model:
        def __init__(self, *numbers: float) -> None:
            self.numbers = bytearray(map(int, numbers))

        def __call__(self, prompt: Any, label_space: Any) -> list[float]:
            return row(prompt, float(self.numbers[0]))

    return Model(1.0), Model(2.0)


# -- the same


@same
def the_same_object() -> Pair:
    one = _closure(1.0)
    return one, one


@same
def equal_objects() -> Pair:
    return Scaled(1.0), Scaled(1.0)


@same
def equal_kernels() -> Pair:
    return PPMKernel(3), PPMKernel(order=3)


@same
def equal_closures() -> Pair:
    def make(values: tuple[Any, ...]) -> Callable[..., Any]:
        return lambda prompt, label_space: row(prompt, float(len(values[2]) + values[0]))

    return make((1, "a", frozenset("abcdefgh"))), make((1, "a", frozenset("hgfedcba")))


def _numbered(text: str) -> Pair:
    source = "import math\nN = 2\ndef g(x):\n    return math.sqrt(x) + N\n"
    source += "def f(prompt, label_space):\n    return [g(4), 1.5]\n"
    return module(source).f, module(text.format(source), "elsewhere").f


@same
def comments_and_line_numbers() -> Pair:
    return _numbered("# a comment\n\n\n{}\n# another\n")


@same
def what_nothing_refers_to() -> Pair:
    return _numbered("import os\nUNUSED = [1]\ndef unused():\n    return open('x')\n{}")


@same
def another_path() -> Pair:
    def load(name: str) -> Any:
        spec = importlib.util.spec_from_file_location(name, Path(__file__).with_name("identity_module.py"))
        assert spec is not None
        assert spec.loader is not None
        made = sys.modules[name] = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(made)
        return made.predict

    return load("one_name"), load("another_name")


@same
def a_module_loaded_again() -> Pair:
    import identity_module

    first = identity_module.predict
    return first, importlib.reload(sys.modules["identity_module"]).predict


@same
def a_setting_changed_and_changed_back() -> Pair:
    changed = Scaled(1.0)
    changed.set_factor(2.0)
    changed.set_factor(1.0)
    return Scaled(1.0), changed


@unidentified
def remembered_values() -> Pair:
    class Model:
        @functools.cached_property
        def factor(self) -> float:
            return math.sqrt(4.0)

        def __call__(self, prompt: Any, label_space: Any) -> list[float]:
            return row(prompt, self.factor)

    used = Model()
    used.factor = 3.0
    return Model(), used


@different
def arguments_of_nested_partials() -> Pair:
    def inner(*args: Any, **keywords: Any) -> float:
        return float(len(args) + 10 * len(keywords))

    def make(held: Any) -> Callable[..., Any]:
        return lambda prompt, label_space: row(prompt, held())

    return make(functools.partial(inner, "x", 2)), make(functools.partial(inner, x=2))


@different
def docstrings_of_classes() -> Pair:
    source = (
        "class C:\n    '{}'\n    def __call__(self, prompt, label_space):\n"
        "        return [float(len(self.__doc__)), 1.5]\n"
    )
    return module(source.format("a")).C(), module(source.format("abc")).C()


@unidentified
def tables_of_enums() -> Pair:
    def make(number: float) -> Callable[..., Any]:
        made = enum.Enum("Made", {"A": 1})
        made.TABLE = {"n": number}  # type: ignore[attr-defined]
        return lambda prompt, label_space: row(prompt, made.TABLE["n"])  # type: ignore[attr-defined]

    return make(1.0), make(2.0)


@unidentified
def annotations_of_classes() -> Pair:
    source = (
        "class C:\n    {}: int = 0\n    def __call__(self, prompt, label_space):\n"
        "        return [float(len(list(type(self).__annotations__)[0])), 1.5]\n"
    )
    return module(source.format("a")).C(), module(source.format("abc")).C()


@unidentified
def the_time() -> Pair:
    source = (
        "from datetime import datetime\ndef f(prompt, label_space):\n"
        "    return [float(datetime.now().microsecond) + {}, 1.5]\n"
    )
    return module(source.format(1)).f, module(source.format(2)).f


def _in_a_closure(value: Any, use: Callable[[Any], float]) -> Callable[..., Any]:
    return lambda prompt, label_space: row(prompt, use(value))


_CONTENT: dict[str, tuple[Callable[[], tuple[Any, Any]], Callable[[Any], float]]] = {
    "an_array": (lambda: (array.array("d", [1.0]), array.array("d", [2.0])), lambda held: held[0]),
    "a_deque": (lambda: (collections.deque([1.0]), collections.deque([2.0])), lambda held: held[0]),
    "a_view_of_bytes": (lambda: (memoryview(b"1"), memoryview(b"2")), lambda held: float(held[0])),
    "items_of_a_dictionary": (lambda: ({"n": 1.0}.items(), {"n": 2.0}.items()), lambda held: sum(n for _, n in held)),
    "a_struct": (lambda: (struct.Struct("<h"), struct.Struct(">h")), lambda held: float(held.unpack(b"\1\2")[0])),
    "a_hash": (lambda: (hashlib.sha256(b"1"), hashlib.sha256(b"2")), lambda held: float(held.digest()[0])),
    "a_decimal_context": (
        lambda: (decimal.Context(prec=2), decimal.Context(prec=9)),
        lambda held: float(held.divide(decimal.Decimal(1), 3)),
    ),
    "a_bound_method_of_an_array": (
        lambda: (array.array("d", [1.0]).__getitem__, array.array("d", [2.0]).__getitem__),
        lambda held: held(0),
    ),
}
"""Objects whose content Python code cannot see in their attributes."""
for _name, (_values, _use) in _CONTENT.items():
    UNIDENTIFIED[_name] = functools.partial(  # type: ignore[assignment]
        lambda values, use: tuple(_in_a_closure(value, use) for value in values()), _values, _use
    )


@same
def keywords_in_another_order() -> Pair:
    def f(prompt: Any, label_space: Any, a: float, b: float) -> list[float]:
        return row(prompt, a - b)

    return functools.partial(f, a=1.0, b=3.0), functools.partial(f, b=3.0, a=1.0)


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

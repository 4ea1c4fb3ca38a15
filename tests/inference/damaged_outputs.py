"""Hundreds of things that an inference function may return or raise and that are no answer.

Each :class:`Damage` has a name and makes its value anew for a label space: damaged as a whole, or a good row with
damaged numbers in it. What raises does so when it is *made*. All of them are wrong by construction, not by what the
contract says of them.
"""

from __future__ import annotations

import builtins
import collections
import decimal
import itertools
import math
import sys
import weakref
from collections.abc import Callable, Iterator, Sequence
from typing import Any, NamedTuple

try:
    import numpy as np
except ImportError:  # the other kinds are enough for the core's tests
    np = None  # type: ignore[assignment]


class Damage(NamedTuple):
    """A kind of damage."""

    name: str
    make: Callable[[Sequence[str]], Any]


class OwnError(Exception):
    """An error of user code."""


class OwnBaseError(BaseException):
    """An error that ``except Exception`` does not see."""


class Silent(Exception):
    """An error that has no text."""

    def __str__(self) -> str:
        raise RuntimeError("no text today")


class Mute(Exception):
    def __str__(self) -> str:
        return None  # type: ignore[return-value]


def _raiser(error: Any) -> Callable[..., Any]:
    def method(*arguments: Any, **keywords: Any) -> Any:
        raise error

    return method


def _lying(name: str, base: type, **methods: Any) -> type:
    return type(name, (base,), methods)


class Endless(Sequence[float]):
    """A sequence that says how long it is, and never ends."""

    def __init__(self, said: int) -> None:
        self.said = said

    def __len__(self) -> int:
        return self.said

    def __getitem__(self, place: Any) -> Any:
        return 0.5


class Elsewhere(Endless):
    """A sequence that fails at one place."""

    def __init__(self, said: int, error: BaseException) -> None:
        super().__init__(said)
        self.error = error

    def __getitem__(self, place: Any) -> Any:
        if place == self.said - 1:
            raise self.error
        return 0.5


class Converting:
    """Has the ``tolist`` of an array."""

    def __init__(self, given: Any) -> None:
        self.given = given

    def tolist(self) -> Any:
        return self.given


class Indexing:
    def __init__(self, given: Any) -> None:
        self.given = given

    def __index__(self) -> Any:
        return self.given


class Floating:
    def __init__(self, given: Any) -> None:
        self.given = given

    def __float__(self) -> Any:
        if isinstance(self.given, BaseException):
            raise self.given
        return self.given


class Hostile:
    """Fails at whatever is asked of it."""

    def __getattribute__(self, name: str) -> Any:
        raise OwnError(f"no {name} here")


class Pretending:
    """Says that it is of another class."""

    def __init__(self, kind: Any) -> None:
        self.kind = kind

    @property
    def __class__(self) -> Any:
        if isinstance(self.kind, BaseException):
            raise self.kind
        return self.kind


def _dead() -> Any:
    return weakref.proxy(OwnError())


def _coroutine() -> Any:
    async def answer() -> int:
        return 0

    made = answer()
    made.close()
    return made


BAD_NUMBERS: dict[str, Callable[[], Any]] = {
    "nan": lambda: math.nan,
    "inf": lambda: math.inf,
    "None": lambda: None,
    "text": lambda: "0.5",
    "True": lambda: True,
    "complex": lambda: 1j,
    "object": object,
    "huge int": lambda: 10**400,
    "decimal nan": lambda: decimal.Decimal("NaN"),
    "type": lambda: float,
    "__float__ of None": lambda: Floating(None),
    "__float__ raising": lambda: Floating(OwnError("x")),
    "hostile": Hostile,
    "dead": _dead,
}

if np is not None:
    BAD_NUMBERS |= {
        "numpy nan": lambda: np.float64("nan"),
        "numpy bool": lambda: np.True_,
        "numpy masked": lambda: np.ma.masked,
        "numpy time": lambda: np.timedelta64(1, "ns"),
    }


def _row(labels: Sequence[str]) -> list[Any]:
    return [0.25 + place for place in range(len(labels))]


_CONTAINERS: dict[str, Callable[[list[Any]], Any]] = {"list": list, "deque": collections.deque, "tolist": Converting}


def _in_row(number: str, container: str, where: str) -> Damage:
    def make(labels: Sequence[str]) -> Any:
        row = _row(labels)
        row[0 if where == "first" else -1] = BAD_NUMBERS[number]()
        return _CONTAINERS[container](row)

    return Damage(f"{number}, {where} in a {container}", make)


def _row_damages() -> Iterator[Damage]:
    for number, container, where in itertools.product(BAD_NUMBERS, _CONTAINERS, ("first", "last")):
        yield _in_row(number, container, where)


def _whole_damages() -> Iterator[Damage]:
    n = len
    wholes: dict[str, Callable[[Sequence[str]], Any]] = {
        "None": lambda labels: None,
        "True": lambda labels: True,
        "a float": lambda labels: 1.0,
        "index -1": lambda labels: -1,
        "index past the end": n,
        "no label": lambda labels: "surely no label",
        "all labels": lambda labels: " ".join(labels),
        "a long text": lambda labels: "x" * 1_000_000,
        "empty list": lambda labels: [],
        "a million numbers": lambda labels: [0.5] * 1_000_000,
        "a row within a list": lambda labels: [_row(labels)],
        "minus infinity throughout": lambda labels: [-math.inf] * n(labels),
        "dictionary with a further label": lambda labels: dict.fromkeys([*labels, "another"], 0.5),
        "coroutine": lambda labels: _coroutine(),
        "object": lambda labels: object(),
        "an error": lambda labels: OwnError("returned, not raised"),
        "hostile": lambda labels: Hostile(),
        "dead": lambda labels: _dead(),
        "endless sequence": lambda labels: Endless(n(labels)),
        "sequence that fails": lambda labels: Elsewhere(n(labels), OwnError("x")),
        "__index__ past the end": lambda labels: Indexing(n(labels)),
        "tolist of nan": lambda labels: Converting([math.nan] * n(labels)),
    }
    for kind in (int, str, list, tuple, float, bool):
        wholes[f"pretending to be of {kind.__name__}"] = lambda labels, kind=kind: Pretending(kind)
    wholes["class that cannot be asked for"] = lambda labels: Pretending(OwnError("no class today"))
    for error in (OwnError, OwnBaseError, RecursionError, GeneratorExit, StopIteration, Silent):
        name = error.__name__
        wholes[f"tolist raising {name}"] = lambda labels, error=error: _lying("T", object, tolist=_raiser(error("x")))()
        wholes[f"__index__ raising {name}"] = lambda labels, error=error: _lying(
            "T", object, __index__=_raiser(error("x"))
        )()
        wholes[f"attributes raising {name}"] = lambda labels, error=error: _lying(
            "T", object, __getattr__=_raiser(error("x"))
        )()
    if np is not None:
        wholes |= {
            "numpy inf": lambda labels: np.full(n(labels), -np.inf),
            "numpy column": lambda labels: np.zeros((n(labels), 1)),
            "numpy masked": lambda labels: np.ma.array(_row(labels), mask=[True] * n(labels)),
        }
    for name, make in wholes.items():
        yield Damage(f"returns {name}", make)


def _errors() -> Iterator[type[BaseException]]:
    for value in vars(builtins).values():
        if isinstance(value, type) and issubclass(value, BaseException) and not issubclass(value, KeyboardInterrupt):
            yield value
    yield from (OwnError, OwnBaseError, Silent, Mute, decimal.InvalidOperation)


def _error(kind: type[BaseException]) -> BaseException:
    for arguments in ((), ("text",), ("utf-8", b"x", 0, 1, "text"), ("x", 0, 1, "text"), ("text", [OwnError()])):
        try:
            return kind(*arguments)
        except TypeError:
            pass
    raise AssertionError(kind)


def _raised_damages() -> Iterator[Damage]:
    for kind in dict.fromkeys(_errors()):

        def make(labels: Sequence[str], kind: type[BaseException] = kind) -> Any:
            raise _error(kind)

        yield Damage(f"raises {kind.__name__}", make)

    def long_text(labels: Sequence[str]) -> Any:
        raise OwnError("x" * 1_000_000)

    def odd_text(labels: Sequence[str]) -> Any:
        raise OwnError("\ud800\x00\n\r")

    def chained(labels: Sequence[str]) -> Any:
        try:
            raise Silent
        except Silent as error:
            raise OwnError("chained") from error

    def recursion(labels: Sequence[str]) -> Any:
        return recursion(labels)

    def exits(labels: Sequence[str]) -> Any:
        sys.exit("with a text")

    for function in (long_text, odd_text, chained, recursion, exits):
        yield Damage(f"raises {function.__name__}", function)


def all_damages() -> list[Damage]:
    """Every kind, in an order that is always the same."""
    return [*_whole_damages(), *_raised_damages(), *_row_damages()]


def exits(damage: Damage) -> bool:
    """Whether this kind asks the process to exit, which ends a run whatever its policy."""
    return damage.name in ("raises SystemExit", "raises exits")

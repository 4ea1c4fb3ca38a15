"""Nothing damaged reaches a score: more than a hundred kinds of it, in every way to run.

Each kind is made anew for a label space, and is wrong by construction, not by what the contract says of it.
"""

from __future__ import annotations

import builtins
import collections
import decimal
import json
import math
import random
import sys
import warnings
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import pytest
from durability_kernels import row_of
from hypothesis import given, settings
from hypothesis import strategies as st

from StaICC import Normal
from StaICC.benchmarks.task import Statistics
from StaICC.errors import OutputError, StaICCError
from StaICC.inference.replies import Failure
from StaICC.inference.runner import RunOptions, predict_queries
from StaICC.prompting.prompt_writer import Query

LABELS = ("no", "yes", "cannot tell")
GOOD, BAD = "a good prompt", "a bad prompt"
Make = Callable[[Sequence[str]], Any]


class OwnBaseError(BaseException):
    """An error that ``except Exception`` does not see."""


class Silent(Exception):
    """An error that has no text."""

    def __str__(self) -> str:
        raise RuntimeError("no text today")


class Endless(Sequence[float]):
    """A sequence that says how long it is, and never ends."""

    def __init__(self, said: int) -> None:
        self.said = said

    def __len__(self) -> int:
        return self.said

    def __getitem__(self, place: Any) -> Any:
        return 0.5


class Hostile:
    """Fails at whatever is asked of it."""

    def __getattribute__(self, name: str) -> Any:
        raise ValueError(f"no {name} here")


def having(**methods: Any) -> Any:
    """An object with methods that return a value, or raise an error."""

    def method(value: Any) -> Callable[..., Any]:
        def call(*arguments: Any) -> Any:
            if isinstance(value, BaseException):
                raise value
            return value

        return call

    return type("Made", (), {name: method(value) for name, value in methods.items()})()


def raising(kind: type[BaseException]) -> Make:
    def make(labels: Sequence[str]) -> Any:
        for arguments in (("text",), ("utf-8", b"x", 0, 1, "text"), ("x", 0, 1, "text"), ("text", [ValueError()])):
            try:
                error = kind(*arguments)
            except TypeError:
                continue
            raise error

    return make


def recursion(labels: Sequence[str]) -> Any:
    return recursion(labels)


def long_text(labels: Sequence[str]) -> Any:
    raise ValueError("\ud800\x00\n\r" * 250_000)


def exits(labels: Sequence[str]) -> Any:
    """Ask the process to exit, which ends a run whatever its policy."""
    sys.exit("with a text")


NUMBERS: dict[str, Any] = {
    **{f"{number!r}": number for number in (math.nan, math.inf, None, "0.5", True, 1j, float)},
    **{"huge": 10**400, "decimal": decimal.Decimal("NaN"), "object": object()},
    **{"float of None": having(__float__=None), "float that fails": having(__float__=ValueError("x"))},
}
WHOLES: dict[str, Make] = {
    "None": lambda labels: None,
    "True": lambda labels: True,
    "a float": lambda labels: 1.0,
    "index -1": lambda labels: -1,
    "index past the end": len,
    "index of an object": lambda labels: having(__index__=len(labels)),
    "no label": lambda labels: "surely no label",
    "all labels": " ".join,
    "a long text": lambda labels: "x" * 1_000_000,
    "an empty list": lambda labels: [],
    "a million numbers": lambda labels: [0.5] * 1_000_000,
    "a row within a list": lambda labels: [[0.5 for _ in labels]],
    "minus infinity": lambda labels: [-math.inf for _ in labels],
    "a further label": lambda labels: dict.fromkeys([*labels, "another"], 0.5),
    "an object": lambda labels: object(),
    "an error": lambda labels: ValueError("returned, not raised"),
    "hostile": lambda labels: Hostile(),
    "hostile in a row": lambda labels: [Hostile() for _ in labels],
    "endless": lambda labels: Endless(len(labels)),
    "tolist of nan": lambda labels: having(tolist=[math.nan for _ in labels]),
}
for kind in (ValueError, OwnBaseError, RecursionError, GeneratorExit, StopIteration, Silent):
    for name in ("tolist", "__index__", "__getattr__"):
        WHOLES[f"{name} that raises {kind.__name__}"] = lambda labels, kind=kind, name=name: having(**{name: kind("x")})
CONTAINERS: dict[str, Callable[[list[Any]], Any]] = {
    "list": list,
    "deque": collections.deque,
    "tolist": lambda row: having(tolist=row),
}
IN_ROWS: dict[str, Make] = {
    f"{name} in a {container}": lambda labels, number=number, make=make: make([0.25] * (len(labels) - 1) + [number])
    for name, number in NUMBERS.items()
    for container, make in CONTAINERS.items()
}
ERRORS = [error for error in vars(builtins).values() if isinstance(error, type) and issubclass(error, BaseException)]
DAMAGES: dict[str, Make] = {
    **WHOLES,
    **IN_ROWS,
    **{
        f"raises {error.__name__}": raising(error)
        for error in [*ERRORS, OwnBaseError, Silent]
        if not issubclass(error, (KeyboardInterrupt, SystemExit))
    },
    **{function.__name__: function for function in (recursion, long_text)},
}


@pytest.fixture(autouse=True)
def _quiet() -> Iterator[None]:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of NumPy, over what is done to it here
        yield


def queries(number: int = 3, bad: int = 1) -> list[Query]:
    """Return queries of which one has the bad prompt, by default the second of three."""
    return [Query(f"{BAD if place == bad else GOOD} {place}", LABELS, 0, place, 0) for place in range(number)]


def single(damage: Make) -> Any:
    """Return a function whose prediction is damaged at the bad prompt."""

    def predict(prompt: str, label_space: list[str]) -> Any:
        if prompt.startswith(BAD):
            return damage(label_space)
        return row_of(prompt, label_space)

    return predict


def batching(damage: Make) -> Any:
    answer = single(damage)

    class Batching:
        def __call__(self, prompt: str, label_space: list[str]) -> Any:
            raise AssertionError("asked one by one")

        def batch(self, prompts: Sequence[str], label_space: list[str]) -> list[Any]:
            return [answer(prompt, label_space) for prompt in prompts]

    return Batching()


def test_there_are_more_than_a_hundred_kinds_of_damage() -> None:
    assert len(DAMAGES) >= 130


@pytest.mark.parametrize("form", [single, batching])
def test_a_damaged_prediction_is_a_failure_and_the_others_are_kept(form: Any) -> None:
    longest_reason = 2500 * 6  # a character is six in JSON at most
    for name, damage in DAMAGES.items():
        first, failure, last = predict_queries(form(damage), queries(), "Test", RunOptions(on_error="collect"))
        assert first == row_of(f"{GOOD} 0", LABELS), name
        assert last == row_of(f"{GOOD} 2", LABELS), name
        assert isinstance(failure, Failure), name
        assert 0 < len(json.dumps(failure.reason)) < longest_reason, name


@pytest.mark.parametrize("form", [single, batching])
def test_a_damaged_prediction_ends_a_run_that_does_not_collect_failures(form: Any) -> None:
    for damage in DAMAGES.values():
        with pytest.raises(OutputError, match=r"^Test, query 1: "):
            predict_queries(form(damage), queries(), "Test")


@pytest.mark.parametrize("on_error", ["raise", "collect"])
@pytest.mark.parametrize(
    ("form", "message"),
    [(single, "query 1: .*raised SystemExit"), (batching, "query 0: .*raised SystemExit.* 3 queries")],
)
def test_a_function_that_exits_ends_the_run(form: Any, message: str, on_error: Any) -> None:
    with pytest.raises(OutputError, match=message):  # no batch is asked again after an exit
        predict_queries(form(exits), queries(), "Test", RunOptions(on_error=on_error))


def test_a_damaged_list_of_a_batched_function_is_refused() -> None:
    """The damage in place of the whole list of answers."""
    for damage in (*DAMAGES.values(), exits):

        def whole(prompts: list[str], label_space: list[str], damage: Make = damage) -> Any:
            return damage(label_space)

        with pytest.raises(OutputError, match=r"^Test"):
            predict_queries(whole, queries(), "Test", RunOptions(batched=True))


json_like = st.recursive(
    st.none() | st.booleans() | st.floats() | st.integers() | st.text(max_size=3) | st.binary(max_size=3),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=2), inner, max_size=3),
    max_leaves=8,
)


def is_label_index(value: Any) -> bool:
    return type(value) is int and 0 <= value < len(LABELS)


def is_label_text(value: Any) -> bool:
    return isinstance(value, str) and sum(value.strip() == label for label in LABELS) == 1


def is_row_of_numbers(value: Any) -> bool:
    """Return whether a value is a list of a number for each label."""
    if not isinstance(value, list) or len(value) != len(LABELS):
        return False
    return all(type(item) in (int, float) and abs(item) < 1e300 for item in value)


@settings(max_examples=150)
@given(json_like)
def test_a_value_is_accepted_if_it_is_a_prediction(value: Any) -> None:
    """An oracle of its own, for values of every shape. It leaves open whether other lists are accepted."""
    (answer,) = predict_queries(
        lambda prompt, label_space: value, queries(1, bad=-1), "Test", RunOptions(on_error="collect")
    )
    is_prediction = is_label_index(value) or is_label_text(value) or is_row_of_numbers(value)
    if isinstance(answer, Failure):
        assert not is_prediction
    else:
        assert is_prediction or isinstance(value, list)
    if isinstance(answer, list):
        assert len(answer) == len(LABELS)
        assert all(type(item) is float and math.isfinite(item) for item in answer), answer


EXTREME = [1e308, -1e308, 1.7976931348623157e308, 5e-324, -0.0, 0.0, 1.0, 1e-300, 2**1023, -(2**1023)]


@settings(max_examples=25, deadline=None)
@given(st.integers(0, 2**32))
def test_finite_answers_of_any_size_give_finite_scores_or_none(seed: int) -> None:
    draw = random.Random(seed)
    benchmark = Normal(datasets=["mini"], limit=4, statistics=Statistics(intervals=False))
    try:
        result = benchmark(lambda prompt, label_space: [draw.choice(EXTREME) for _ in label_space])
    except StaICCError:
        return
    json.dumps(result.to_dict(), allow_nan=False)

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
Damage = Callable[[Sequence[str]], Any]
"""A function of the label space that returns a damaged prediction, or raises an error in place of one."""


class OwnBaseError(BaseException):
    """An error that ``except Exception`` does not see."""


class ErrorWithoutText(Exception):
    """An error whose text cannot be had."""

    def __str__(self) -> str:
        raise RuntimeError("no text today")


class EndlessSequence(Sequence[float]):
    """A sequence that states its length, and never ends."""

    def __init__(self, stated_length: int) -> None:
        self.stated_length = stated_length

    def __len__(self) -> int:
        return self.stated_length

    def __getitem__(self, index: Any) -> Any:
        return 0.5


class FailsAtAnyAttribute:
    """An object of which every attribute raises an error."""

    def __getattribute__(self, name: str) -> Any:
        raise ValueError(f"no {name} here")


def object_with_methods(**results: Any) -> Any:
    """Return an object with methods of these names, which return a value, or raise it if it is an error."""

    def method_with(result: Any) -> Callable[..., Any]:
        def method(*arguments: Any) -> Any:
            if isinstance(result, BaseException):
                raise result
            return result

        return method

    methods = {name: method_with(result) for name, result in results.items()}
    return type("Made", (), methods)()


def raise_error(error_type: type[BaseException]) -> Damage:
    """Return a damage that raises an error of a type, with whatever arguments this type takes."""
    text, unicode_error = ("text",), ("utf-8", b"x", 0, 1, "text")
    encoding_error, group = ("x", 0, 1, "text"), ("text", [ValueError()])

    def damage(labels: Sequence[str]) -> Any:
        for arguments in (text, unicode_error, encoding_error, group):
            try:
                error = error_type(*arguments)
            except TypeError:
                continue  # the type takes other arguments
            raise error

    return damage


def call_itself_for_ever(labels: Sequence[str]) -> Any:
    return call_itself_for_ever(labels)


def raise_error_with_a_million_characters(labels: Sequence[str]) -> Any:
    raise ValueError("\ud800\x00\n\r" * 250_000)


def exit_process(labels: Sequence[str]) -> Any:
    """Ask the process to exit, which ends a run whatever its policy."""
    sys.exit("with a text")


NO_SCORES: dict[str, Any] = {
    "nan": math.nan,
    "inf": math.inf,
    "None": None,
    "'0.5'": "0.5",
    "True": True,
    "1j": 1j,
    "a type": float,
    "a huge integer": 10**400,
    "a decimal NaN": decimal.Decimal("NaN"),
    "an object": object(),
    "an object whose float is None": object_with_methods(__float__=None),
    "an object whose float fails": object_with_methods(__float__=ValueError("x")),
}
"""Values that are no score of a label."""

NO_PREDICTIONS: dict[str, Damage] = {
    "None": lambda labels: None,
    "True": lambda labels: True,
    "a float": lambda labels: 1.0,
    "index -1": lambda labels: -1,
    "index past the end": len,
    "index of an object": lambda labels: object_with_methods(__index__=len(labels)),
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
    "fails at any attribute": lambda labels: FailsAtAnyAttribute(),
    "a row of objects that fail": lambda labels: [FailsAtAnyAttribute() for _ in labels],
    "an endless sequence": lambda labels: EndlessSequence(len(labels)),
    "tolist of nan": lambda labels: object_with_methods(tolist=[math.nan for _ in labels]),
}
"""Damages that return something that is no prediction."""


def objects_whose_methods_raise() -> dict[str, Damage]:
    """Return damages that return an object of which one method, by which it is read, raises an error."""
    damages: dict[str, Damage] = {}
    for error_type in (ValueError, OwnBaseError, RecursionError, GeneratorExit, StopIteration, ErrorWithoutText):
        for method in ("tolist", "__index__", "__getattr__"):

            def damage(labels: Sequence[str], method: str = method, error_type: Any = error_type) -> Any:
                return object_with_methods(**{method: error_type("x")})

            damages[f"{method} that raises {error_type.__name__}"] = damage
    return damages


def rows_with_one_invalid_score() -> dict[str, Damage]:
    """Return damages that return a row whose last value is no score: as list, as deque, as object with ``tolist``."""
    containers: dict[str, Callable[[list[Any]], Any]] = {
        "list": list,
        "deque": collections.deque,
        "tolist": lambda row: object_with_methods(tolist=row),
    }
    damages: dict[str, Damage] = {}
    for name, no_score in NO_SCORES.items():
        for container, make_container in containers.items():

            def damage(labels: Sequence[str], no_score: Any = no_score, make: Any = make_container) -> Any:
                row = [0.25] * (len(labels) - 1) + [no_score]
                return make(row)

            damages[f"{name} in a {container}"] = damage
    return damages


def errors_of_every_type() -> dict[str, Damage]:
    """Return damages that raise an error of each built-in type; but not those that end a process."""
    built_in = [value for value in vars(builtins).values() if isinstance(value, type)]
    error_types = [kind for kind in built_in if issubclass(kind, BaseException)]
    damages = {}
    for error_type in [*error_types, OwnBaseError, ErrorWithoutText]:
        if not issubclass(error_type, (KeyboardInterrupt, SystemExit)):
            damages[f"raises {error_type.__name__}"] = raise_error(error_type)
    return damages


DAMAGES: dict[str, Damage] = {
    **NO_PREDICTIONS,
    **objects_whose_methods_raise(),
    **rows_with_one_invalid_score(),
    **errors_of_every_type(),
    "endless recursion": call_itself_for_ever,
    "an error with a long text": raise_error_with_a_million_characters,
}


@pytest.fixture(autouse=True)
def _ignore_warnings() -> Iterator[None]:
    """Ignore warnings of NumPy about what is done to it here."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        yield


GOOD_BAD_GOOD = [
    Query(f"{GOOD} 0", LABELS, label=0, row=0, repeat=0),
    Query(f"{BAD} 1", LABELS, label=0, row=1, repeat=0),
    Query(f"{GOOD} 2", LABELS, label=0, row=2, repeat=0),
]
"""Three queries, of which the second one has the bad prompt."""


def one_prompt_at_a_time(damage: Damage) -> Any:
    """Return a function whose prediction is damaged at the bad prompt."""

    def predict(prompt: str, label_space: list[str]) -> Any:
        if prompt.startswith(BAD):
            return damage(label_space)
        return row_of(prompt, label_space)

    return predict


def in_batches(damage: Damage) -> Any:
    """Return a kernel with a batched form, whose prediction is damaged at the bad prompt."""
    predict = one_prompt_at_a_time(damage)

    class BatchedKernel:
        def __call__(self, prompt: str, label_space: list[str]) -> Any:
            raise AssertionError("called with one prompt")

        def batch(self, prompts: Sequence[str], label_space: list[str]) -> list[Any]:
            return [predict(prompt, label_space) for prompt in prompts]

    return BatchedKernel()


BOTH_FORMS = pytest.mark.parametrize("function_with", [one_prompt_at_a_time, in_batches])
"""A function that takes a damage, and returns an inference function with it."""


def test_there_are_130_kinds_of_damage_or_more() -> None:
    assert len(DAMAGES) >= 130


@BOTH_FORMS
def test_a_damaged_prediction_is_a_failure_and_the_others_are_kept(function_with: Any) -> None:
    """The reason of a failure has 2,500 characters at most, each of which is six in JSON at most, such as "\\ud800"."""
    longest_reason = 2500 * 6
    for name, damage in DAMAGES.items():
        function = function_with(damage)

        first, failure, last = predict_queries(function, GOOD_BAD_GOOD, "Test", RunOptions(on_error="collect"))

        assert first == row_of(f"{GOOD} 0", LABELS), name
        assert last == row_of(f"{GOOD} 2", LABELS), name
        assert isinstance(failure, Failure), name
        assert 0 < len(json.dumps(failure.reason)) < longest_reason, name


@BOTH_FORMS
def test_a_damaged_prediction_ends_a_run_that_does_not_collect_failures(function_with: Any) -> None:
    for damage in DAMAGES.values():
        with pytest.raises(OutputError, match=r"^Test, query 1: "):
            predict_queries(function_with(damage), GOOD_BAD_GOOD, "Test")


@pytest.mark.parametrize("on_error", ["raise", "collect"])
def test_a_function_that_exits_ends_the_run(on_error: Any) -> None:
    function = one_prompt_at_a_time(exit_process)

    with pytest.raises(OutputError, match=r"query 1: .*raised SystemExit"):
        predict_queries(function, GOOD_BAD_GOOD, "Test", RunOptions(on_error=on_error))


@pytest.mark.parametrize("on_error", ["raise", "collect"])
def test_a_batched_function_that_exits_ends_the_run_with_its_batch(on_error: Any) -> None:
    """The batch is not divided to find the query, as it is after an error: another call could exit again."""
    function = in_batches(exit_process)

    with pytest.raises(OutputError, match=r"query 0: .*raised SystemExit.* 3 queries"):
        predict_queries(function, GOOD_BAD_GOOD, "Test", RunOptions(on_error=on_error))


def test_a_damaged_list_of_a_batched_function_is_refused() -> None:
    """The damage is in place of the whole list of predictions."""
    for damage in (*DAMAGES.values(), exit_process):

        def return_damage(prompts: list[str], label_space: list[str], damage: Damage = damage) -> Any:
            return damage(label_space)

        with pytest.raises(OutputError, match=r"^Test"):
            predict_queries(return_damage, GOOD_BAD_GOOD, "Test", RunOptions(batched=True))


VALUES_AS_IN_JSON = st.recursive(
    st.none() | st.booleans() | st.floats() | st.integers() | st.text(max_size=3) | st.binary(max_size=3),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=2), inner, max_size=3),
    max_leaves=8,
)


def is_label_index(value: Any) -> bool:
    return type(value) is int and 0 <= value < len(LABELS)


def is_label_text(value: Any) -> bool:
    return isinstance(value, str) and value.strip() in LABELS


def is_row_of_numbers(value: Any) -> bool:
    """Return whether a value is a list of a number for each label."""
    if not isinstance(value, list) or len(value) != len(LABELS):
        return False
    return all(type(item) in (int, float) and abs(item) < 1e300 for item in value)


def prediction_or_failure(value: Any) -> Any:
    """Return what a run makes of a function that returns this value for its only query."""
    query = Query(GOOD, LABELS, label=0, row=0, repeat=0)
    options = RunOptions(on_error="collect")
    (prediction,) = predict_queries(lambda prompt, label_space: value, [query], "Test", options)
    return prediction


@settings(max_examples=150)
@given(VALUES_AS_IN_JSON)
def test_a_value_is_accepted_only_if_it_is_a_prediction(value: Any) -> None:
    """An oracle of its own, for values of every shape. It leaves open whether other lists are accepted."""
    prediction = prediction_or_failure(value)

    is_prediction = is_label_index(value) or is_label_text(value) or is_row_of_numbers(value)
    if isinstance(prediction, Failure):
        assert not is_prediction
    else:
        assert is_prediction or isinstance(value, list)


@settings(max_examples=150)
@given(st.lists(st.none() | st.booleans() | st.floats() | st.integers(), max_size=4))
def test_a_list_that_is_accepted_becomes_a_finite_float_for_each_label(values: list[Any]) -> None:
    prediction = prediction_or_failure(values)

    if not isinstance(prediction, Failure):
        assert len(prediction) == len(LABELS)
        for score in prediction:
            assert type(score) is float
            assert math.isfinite(score)


EXTREME_SCORES = [1e308, -1e308, sys.float_info.max, 5e-324, -0.0, 0.0, 1.0, 1e-300, 2**1023, -(2**1023)]


@settings(max_examples=25, deadline=None)
@given(st.integers(0, 2**32))
def test_finite_predictions_of_any_size_give_a_result_of_finite_numbers_or_an_error(seed: int) -> None:
    draw = random.Random(seed)
    benchmark = Normal(datasets=["mini"], limit=4, statistics=Statistics(intervals=False))

    try:
        result = benchmark(lambda prompt, label_space: [draw.choice(EXTREME_SCORES) for _ in label_space])
    except StaICCError:
        return

    json.dumps(result.to_dict(), allow_nan=False)

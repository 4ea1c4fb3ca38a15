"""Whole numbers of every type, such as NumPy's, are accepted wherever an option is one, and become ``int``."""

from __future__ import annotations

import ast
import dataclasses
import enum
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any, Literal

import pytest

import StaICC
from StaICC import GLER, Dataset, DomainBias, Generalisation, LongICL, Normal, load_kernel
from StaICC.arguments import validate_integer, whole_number
from StaICC.datasets.catalogue import SplitSizes
from StaICC.errors import ArgumentError
from StaICC.inference.runner import RunOptions
from StaICC.kernels.huggingface.prompts import KernelOptions
from StaICC.kernels.text_inference import ReplySettings
from StaICC.long_icl.experiments import Experiment
from StaICC.methods.options import _accepts, make_options
from StaICC.methods.run import Method
from StaICC.metrics.classification import expected_calibration_error_1

ROWS = [(f"text {row}", f"kind {row % 20}") for row in range(400)]
KINDS = [f"kind {number}" for number in range(20)]


class OnlyIndex:
    """A class of integers that has nothing but ``__index__``."""

    def __init__(self, number: int) -> None:
        self.number = number

    def __index__(self) -> int:
        return self.number

    def __repr__(self) -> str:
        return f"OnlyIndex({self.number})"


class Two(enum.IntEnum):
    TWO = 2


def integer_types() -> list[Callable[[int], Any]]:
    """Return functions that make an integer of another type: NumPy's types, where it is installed, and a class."""
    try:
        import numpy
    except ImportError:
        return [OnlyIndex]
    return [OnlyIndex, numpy.int64, numpy.int32, numpy.uint8, numpy.array]


def experimentor_of_mini(**settings: Any) -> Any:
    return Normal(datasets=["mini"], **settings)[0]


def run_permutation_ensemble(orders: Any) -> Any:
    """Return the means of the method with this number of orders of demonstrations."""
    method = Method("permutation_ensemble", load_kernel("ppm"), orders=orders)
    return method.run(Normal(k=2, datasets=["mini"], limit=2)).averaged


def set_k_of_an_experimentor(k: Any) -> Any:
    """Return what depends on k after setting it: k itself, prompts, and settings in the signature."""
    experimentor = experimentor_of_mini()
    experimentor.set_k(k)
    return [experimentor.get_k(), experimentor.prompt_set()[:2], dict(experimentor.settings_for_signature())]


def run_long_icl(number: Any) -> Any:
    """Return the reproducible part of a result, with the number as its round and as its limit."""
    data = Dataset.from_rows(ROWS, name="kinds", label_space=KINDS, split=SplitSizes(0, 200, 200))
    benchmark = LongICL(datasets=[data], rounds=[number], limit=number)
    result = benchmark(lambda prompt, label_space: 0)
    return json.loads(json.dumps(result.reproducible()))


def options_of_ensemble(number: Any) -> Any:
    """Return the options of a method that was made with the number as two of them."""
    method = Method("ensemble", load_kernel("ppm"), calibration_number=number, sets=number)
    return method.calibration_number, dataclasses.asdict(method.options)


OPTIONS: dict[str, Callable[[Any], Any]] = {
    "k": lambda number: experimentor_of_mini(k=number).prompt_set()[:2],
    "set_k": set_k_of_an_experimentor,
    "example": lambda number: experimentor_of_mini().prompt_former.example(number),
    "limit": lambda number: str(Normal(datasets=["mini"], limit=number).signature()),
    "re_initialize": lambda number: Normal(datasets=["mini"]).re_initialize(number),
    "interpolations": lambda number: str(GLER(datasets=["mini"], interpolations=number).signature()),
    "draws, templates": lambda number: str(Generalisation(datasets=["mini"], draws=number, templates=number)[0].task),
    "orders": run_permutation_ensemble,
    "bins": lambda number: expected_calibration_error_1([0], [[1.0, 0.0]], number),
    "domain_query_length": lambda number: str(DomainBias(datasets=["mini"], domain_query_length=number).signature()),
    "split": lambda number: json.dumps(dataclasses.asdict(SplitSizes(number, number, number))),
    "tried": lambda number: json.dumps(dataclasses.asdict(StaICC.Statistics(tried=number))),
    "chunk_size": lambda number: repr(RunOptions(chunk_size=number)),
    "token_budget": lambda number: KernelOptions(token_budget=number, max_length=number).settings(),
    "max_tokens": lambda number: ReplySettings(max_tokens=number).reply_settings(),
    "order": lambda number: repr(load_kernel("ppm", order=number)),
    "levels": lambda number: repr(Experiment("order", [number], shots=number, seed=number)),
    "rounds, limit": run_long_icl,
    "method": options_of_ensemble,
    "label index": lambda number: Normal(datasets=["mini"], limit=3)(preentered_prediction=[[number] * 6]),
    "label of a row": lambda number: (
        Dataset.from_rows([("a", 0), ("b", number)], name="x", label_space=list("abcd")).table.digest
    ),
}


"""Functions of a number, which pass it as an option and return what depends on it, by the name of the option."""


@pytest.mark.parametrize("use_number", OPTIONS.values(), ids=OPTIONS)
def test_an_option_takes_integers_of_every_type(use_number: Callable[[Any], Any]) -> None:
    expected = use_number(2)

    for integer_type in (*integer_types(), Two):
        assert use_number(integer_type(2)) == expected, integer_type


@pytest.mark.parametrize("value", [True, 2.0, "3"], ids=repr)
@pytest.mark.parametrize("use_number", OPTIONS.values(), ids=OPTIONS)
def test_an_option_refuses_truth_values_floats_and_texts(use_number: Callable[[Any], Any], value: Any) -> None:
    with pytest.raises(StaICC.StaICCError):
        use_number(value)


LOWEST = dict.fromkeys(OPTIONS, 1) | {"interpolations": 2, "draws, templates": 2}
LOWEST |= dict.fromkeys(
    ("label index", "label of a row", "k", "set_k", "example", "re_initialize", "domain_query_length", "order"), 0
)
"""The lowest integer that each option accepts."""


@pytest.mark.parametrize(("option", "lowest"), LOWEST.items())
def test_an_option_accepts_its_lowest_integer_and_refuses_the_next_lower_one(option: str, lowest: int) -> None:
    use_number = OPTIONS[option]

    use_number(lowest)
    with pytest.raises(StaICC.StaICCError):
        use_number(lowest - 1)


@pytest.mark.parametrize("integer_type", [*integer_types(), Two, int])
def test_an_integer_of_any_type_becomes_an_int(integer_type: Any) -> None:
    number = whole_number(integer_type(2))
    validated_number = validate_integer("k", integer_type(2), 0)

    assert (number, validated_number) == (2, 2)
    assert type(number) is int
    assert type(validated_number) is int


@pytest.mark.parametrize("value", [True, OnlyIndex(True), 3.0, "3", None, [3]], ids=repr)
def test_other_values_are_no_whole_number(value: Any) -> None:
    assert whole_number(value) is None


def test_a_whole_number_above_the_highest_one_is_refused() -> None:
    with pytest.raises(ArgumentError, match="k must be an integer from 0 to 2, not"):
        validate_integer("k", OnlyIndex(3), 0, 2)


def test_an_option_of_a_kernel_takes_a_whole_number_of_any_type() -> None:
    assert make_options("x", KernelOptions, {"token_budget": OnlyIndex(5)}).token_budget == 5


@pytest.mark.parametrize(
    ("value", "is_accepted"), [(1, True), ("a", True), (None, True), (True, False), (2, False)], ids=repr
)
def test_an_option_with_listed_values_takes_these_only(value: Any, is_accepted: bool) -> None:
    """``True`` equals 1 in Python, but is another value."""
    assert _accepts(Literal[1, "a", None], value) is is_accepted


def test_no_checked_integer_is_discarded() -> None:
    """What ``validate_integer`` returns is used: the given value may be of another type."""
    discarded = []
    for path in Path(StaICC.__file__).parent.rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text("utf-8"))):
            match node:
                case ast.Expr(value=ast.Call(func=ast.Name(id="validate_integer"))):
                    discarded.append(f"{path.name}:{node.lineno}")
    assert discarded == []


def test_neighbouring_token_limits_are_other_settings() -> None:
    first, second = ReplySettings(max_tokens=1048576), ReplySettings(max_tokens=1048577)

    assert first.reply_settings()["max_tokens"] != second.reply_settings()["max_tokens"]


def test_neighbouring_temperatures_are_other_settings() -> None:
    first, second = ReplySettings(temperature=0.1234567), ReplySettings(temperature=0.1234568)

    assert first.reply_settings()["temperature"] != second.reply_settings()["temperature"]


TOO_LARGE = pytest.mark.parametrize("k", [100_001, 10**21, 10**5000], ids=["one more", "22 digits", "5,001 digits"])


@TOO_LARGE
def test_more_demonstrations_than_any_prompt_holds_are_an_error_at_once(k: int) -> None:
    with pytest.raises(ArgumentError, match="k: got more than 100,000 demonstrations"):
        Normal(k, datasets=["mini"])


@TOO_LARGE
def test_setting_more_demonstrations_than_any_prompt_holds_is_an_error_that_changes_nothing(k: int) -> None:
    experimentor_with_two = Normal(2, datasets=["mini"])[0]

    with pytest.raises(ArgumentError, match="k: got more than 100,000 demonstrations"):
        experimentor_with_two.set_k(k)
    assert experimentor_with_two.get_k() == 2

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


class Indexed:
    """What has nothing but an index."""

    def __init__(self, number: int) -> None:
        self.number = number

    def __index__(self) -> int:
        return self.number

    def __repr__(self) -> str:
        return f"Indexed({self.number})"


class Two(enum.IntEnum):
    TWO = 2


def kinds_of_numbers() -> list[Callable[[int], Any]]:
    """NumPy's integers, where it is installed, and any other class of integers."""
    try:
        import numpy
    except ImportError:
        return [Indexed]
    return [Indexed, numpy.int64, numpy.int32, numpy.uint8, numpy.array]


def experimentor(**settings: Any) -> Any:
    return Normal(datasets=["mini"], **settings)[0]


def mini() -> Any:
    return Normal(k=2, datasets=["mini"], limit=2)


def set_k_of_an_experimentor(number: Any) -> Any:
    """Return what depends on k after setting it: k itself, prompts, and what is signed."""
    own = experimentor()
    own.set_k(number)
    return [own.get_k(), own.prompt_set()[:2], dict(own.settings_for_signature())]


def long_icl(number: Any) -> Any:
    data = Dataset.from_rows(ROWS, name="kinds", label_space=KINDS, split=SplitSizes(0, 200, 200))
    benchmark = LongICL(datasets=[data], rounds=[number], limit=number)
    result = benchmark(lambda prompt, label_space: 0)
    return json.loads(json.dumps(result.reproducible()))


def method(number: Any) -> Any:
    kernel = load_kernel("ppm")
    made = Method("ensemble", kernel, calibration_number=number, sets=number)
    return made.calibration_number, dataclasses.asdict(made.options)


OPTIONS: dict[str, Callable[[Any], Any]] = {
    "k": lambda number: experimentor(k=number).prompt_set()[:2],
    "set_k": set_k_of_an_experimentor,
    "example": lambda number: experimentor().prompt_former.example(number),
    "limit": lambda number: str(Normal(datasets=["mini"], limit=number).signature()),
    "re_initialize": lambda number: Normal(datasets=["mini"]).re_initialize(number),
    "interpolations": lambda number: str(GLER(datasets=["mini"], interpolations=number).signature()),
    "draws, templates": lambda number: str(Generalisation(datasets=["mini"], draws=number, templates=number)[0].task),
    "orders": lambda number: Method("permutation_ensemble", load_kernel("ppm"), orders=number).run(mini()).averaged,
    "bins": lambda number: expected_calibration_error_1([0], [[1.0, 0.0]], number),
    "domain_query_length": lambda number: str(DomainBias(datasets=["mini"], domain_query_length=number).signature()),
    "split": lambda number: json.dumps(dataclasses.asdict(SplitSizes(number, number, number))),
    "tried": lambda number: json.dumps(dataclasses.asdict(StaICC.Statistics(tried=number))),
    "chunk_size": lambda number: repr(RunOptions(chunk_size=number)),
    "token_budget": lambda number: KernelOptions(token_budget=number, max_length=number).settings(),
    "max_tokens": lambda number: ReplySettings(max_tokens=number).reply_settings(),
    "order": lambda number: repr(load_kernel("ppm", order=number)),
    "levels": lambda number: repr(Experiment("order", [number], shots=number, seed=number)),
    "rounds, limit": long_icl,
    "method": method,
    "label index": lambda number: Normal(datasets=["mini"], limit=3)(preentered_prediction=[[number] * 6]),
    "label of a row": lambda number: (
        Dataset.from_rows([("a", 0), ("b", number)], name="x", label_space=list("abcd")).table.digest
    ),
}


@pytest.mark.parametrize("option", OPTIONS)
def test_whole_numbers_of_every_type_give_the_same(option: str) -> None:
    expected = OPTIONS[option](2)
    for kind in (*kinds_of_numbers(), Two):
        assert OPTIONS[option](kind(2)) == expected, kind


@pytest.mark.parametrize("option", OPTIONS)
def test_truth_values_and_other_numbers_are_refused(option: str) -> None:
    for value in (True, 2.0, "3"):
        with pytest.raises(StaICC.StaICCError):
            OPTIONS[option](value)


LOWEST = dict.fromkeys(OPTIONS, 1) | {"interpolations": 2, "draws, templates": 2}
LOWEST |= dict.fromkeys(
    ("label index", "label of a row", "k", "set_k", "example", "re_initialize", "domain_query_length", "order"), 0
)


@pytest.mark.parametrize(("option", "lowest"), LOWEST.items())
def test_the_lowest_number_is_accepted_and_no_lower_one(option: str, lowest: int) -> None:
    OPTIONS[option](lowest)
    with pytest.raises(StaICC.StaICCError):
        OPTIONS[option](lowest - 1)


@pytest.mark.parametrize("kind", [*kinds_of_numbers(), Two, int])
def test_a_whole_number_of_any_type_becomes_an_int(kind: Any) -> None:
    for number in (whole_number(kind(2)), validate_integer("k", kind(2), 0)):
        assert number == 2
        assert type(number) is int


@pytest.mark.parametrize("value", [True, Indexed(True), 3.0, "3", None, [3]], ids=repr)
def test_other_values_are_no_whole_number(value: Any) -> None:
    assert whole_number(value) is None


def test_a_whole_number_above_the_highest_one_is_refused() -> None:
    with pytest.raises(ArgumentError, match="k must be an integer from 0 to 2, not"):
        validate_integer("k", Indexed(3), 0, 2)


def test_an_option_of_a_kernel_takes_a_whole_number_of_any_type() -> None:
    assert make_options("x", KernelOptions, {"token_budget": Indexed(5)}).token_budget == 5


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

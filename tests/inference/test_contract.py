"""The contract of the inference function: what it may return, and what is said of everything else."""

from __future__ import annotations

import array
import collections
import decimal
import fractions
import functools
import math
from collections import OrderedDict
from collections.abc import Iterator
from types import MappingProxyType, SimpleNamespace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

import StaICC
from StaICC.errors import OutputError
from StaICC.inference.contract import batch_form, check_answer, usage

LABELS = ["no", "yes"]
NUMBERS = st.floats(allow_nan=False, allow_infinity=False)


class OwnSequence(collections.UserList):  # type: ignore[type-arg]
    """A sequence that is neither list nor tuple."""


class Odd:
    def __float__(self) -> float:
        raise ValueError("no number today")


# -- what is accepted


@pytest.mark.parametrize(
    "row",
    [
        [0.25, 0.75],
        (0.25, 0.75),
        OwnSequence([0.25, 0.75]),
        collections.deque([0.25, 0.75]),
        array.array("d", [0.25, 0.75]),
        [decimal.Decimal("0.25"), fractions.Fraction(3, 4)],
        collections.namedtuple("Row", "no yes")(0.25, 0.75),
    ],
)
def test_any_sequence_of_numbers_is_a_row_by_position(row: Any) -> None:
    """The release crashes on tuples and arrays (defect 10). A method named ``index`` is no index of labels."""
    answer = check_answer(row, LABELS)
    assert answer == [0.25, 0.75] == check_answer(row, LABELS[::-1])
    assert isinstance(answer, list)
    assert [value for value in answer if type(value) is not float] == []


@given(st.lists(NUMBERS, min_size=1, max_size=6))
def test_a_row_comes_back_with_its_bits(row: list[float]) -> None:
    labels = [str(place) for place in range(len(row))]
    answer = check_answer(row, labels)
    assert isinstance(answer, list)
    assert list(map(repr, answer)) == list(map(repr, row))
    assert answer is not row


@pytest.mark.parametrize(
    ("text", "labels", "expected"),
    [
        ("yes", LABELS, 1),
        (" yes", LABELS, 1),
        ("yes\n", LABELS, 1),
        ("yes", [" no", " yes"], 1),
        (" yes ", [" no", " yes"], 1),
        ("a", [" a", "a"], 1),
        (" a", [" a", "a"], 0),
        ("idk/skip", ["noHate", "hate", "idk/skip"], 2),
    ],
)
def test_the_text_of_a_label(text: str, labels: list[str], expected: int) -> None:
    assert check_answer(text, labels) == expected


# -- numbers by label


FOUR_LABELS = st.permutations(["no", "yes", "idk", "maybe"])
FOUR_NUMBERS = st.permutations([0.1, 0.2, 0.3, 0.4])


@given(FOUR_LABELS, FOUR_NUMBERS, st.data())
def test_a_mapping_is_read_by_label(labels: list[str], numbers: list[float], data: st.DataObject) -> None:
    number_of = dict(zip(labels, numbers, strict=True))
    mixed = {label: number_of[label] for label in data.draw(st.permutations(labels))}
    assert check_answer(mixed, labels) == numbers
    assert check_answer(OrderedDict(mixed), labels) == numbers
    assert check_answer(MappingProxyType(mixed), labels) == numbers


@given(FOUR_LABELS, FOUR_NUMBERS, st.data())
def test_a_series_of_labels_is_read_by_label(labels: list[str], numbers: list[float], data: st.DataObject) -> None:
    """A Series from a sorted frame has another order than the label space: its index counts, not its positions."""
    pandas = pytest.importorskip("pandas")
    order = data.draw(st.permutations(labels))
    in_order_of_labels = pandas.Series(numbers, index=labels)
    series = in_order_of_labels.loc[order]
    by_category = pandas.Series(numbers, index=pandas.CategoricalIndex(labels)).loc[order]

    assert check_answer(series, labels) == numbers
    assert check_answer(series.astype("float32").astype(float), labels) == pytest.approx(numbers)
    assert check_answer(by_category, labels) == numbers


@given(FOUR_LABELS, FOUR_NUMBERS, st.data())
def test_a_row_of_a_frame_is_read_by_label(labels: list[str], numbers: list[float], data: st.DataObject) -> None:
    """By its position in the frame, and in a loop over the rows."""
    pandas = pytest.importorskip("pandas")
    order = data.draw(st.permutations(labels))
    frame = pandas.DataFrame([numbers], columns=labels)[order]

    assert check_answer(frame.iloc[0], labels) == numbers
    for _, row_of_frame in frame.iterrows():
        assert check_answer(row_of_frame, labels) == numbers


@given(FOUR_LABELS, FOUR_NUMBERS)
def test_a_series_of_positions_is_read_by_position(labels: list[str], numbers: list[float]) -> None:
    pandas = pytest.importorskip("pandas")
    assert check_answer(pandas.Series(numbers), labels) == numbers
    assert check_answer(pandas.Series(numbers, index=[0, 1, 2, 3]), labels) == numbers


@pytest.mark.parametrize(
    "index",
    [[1, 0], [1, 2], ["no", "no"], ["No", "yes"], ["no ", "yes"], [("no", 0), ("yes", 0)], ["a", "b"], [0.5, 1.5]],
)
def test_a_series_with_another_index_is_refused(index: list[Any]) -> None:
    pandas = pytest.importorskip("pandas")
    with pytest.raises(OutputError, match=r"^got a Series with the index .*, expected each label once: 'no', 'yes'"):
        check_answer(pandas.Series([0.25, 0.75], index=index), LABELS)
    with pytest.raises(OutputError, match="got 3 values, expected 2"):
        check_answer(pandas.Series([0.25, 0.5, 0.25]), LABELS)


# -- what is refused, and how


def generator() -> Iterator[float]:
    yield 0.5
    yield 0.5


BAD: list[tuple[Any, str]] = [
    (None, "got None (does the function end without a return?)"),
    (0.5, "got '0.5' of type float; expected a sequence of 2 numbers"),
    (b"ab", "got \"b'ab'\" of type bytes"),
    (memoryview(b"ab"), "got '<memory at "),
    ({"no": 0.5}, "got a mapping with the keys \"['no']\", expected each label once: 'no', 'yes'"),
    ({"no": 0.5, "yes": 0.5, "idk": 0}, "got a mapping with the keys \"['no', 'yes', 'idk']\""),
    ({0: 0.25, 1: 0.75}, "got a mapping with the keys '[0, 1]'"),
    ({"yes": math.nan, "no": 0.5}, "the value for label 'yes' is nan"),
    ({0.25, 0.75}, "got a set, which has no order"),
    (generator, "got a generator (return a list)"),
    (True, "got 'True' of type bool; expected a sequence of 2 numbers"),
    (-1, "got label index -1, expected 0 to 1: 'no', 'yes'"),
    (2, "got label index 2, expected 0 to 1"),
    ("maybe", "got the text 'maybe', which is no label; expected one of 'no', 'yes'"),
    ("Yes", "got the text 'Yes', which is no label"),
    ("x" * 500, f"got the text '{'x' * 77}...', which is no label"),
    ([0.2, 0.3, 0.5], "got 3 values, expected 2"),
    ([[0.25, 0.75]], "got 1 values, expected 2, one for each label; return one row for one prompt"),
    ([[0.25, 0.75], [0.5, 0.5]], "the value for label 'no' is '[0.25, 0.75]' of type list"),
    ([math.nan, 0.5], "the value for label 'no' is nan"),
    ([0.5, math.inf], "the value for label 'yes' is inf"),
    ([-math.inf, -math.inf], "the value for each label is minus infinity"),
    (["0.5", "0.5"], "the value for label 'no' is '0.5' of type str"),
    ([0.5, True], "the value for label 'yes' is 'True' of type bool"),
    ([0.5, 10**400], "the value for label 'yes' cannot be read as a number: int too large"),
    ([0.5, Odd()], "the value for label 'yes' cannot be read as a number: no number today"),
]


@pytest.mark.parametrize(("value", "message"), BAD)
def test_everything_else_is_refused_with_its_reason(value: Any, message: str) -> None:
    """NaN passes silently in the release, and rows of a wrong length crash deep inside (defect 10)."""
    with pytest.raises(OutputError) as caught:
        check_answer(value() if value is generator else value, LABELS)
    assert str(caught.value).startswith(message)


# -- batched functions


class Kernel:
    """A kernel with a batched form."""

    def __call__(self, prompt: str, label_space: list[str], scale: float = 1.0) -> list[float]:
        raise AssertionError("the batched form is there to be used")

    def batch(self, prompts: list[str], label_space: list[str], scale: float = 1.0) -> list[list[float]]:
        return [[scale * len(prompt)] * len(label_space) for prompt in prompts]


def single(prompt: str, label_space: list[str], scale: float = 1.0) -> list[float]:
    raise AssertionError("the batched form is there to be used")


@pytest.mark.parametrize("function", [single, functools.partial(single), lambda prompt, label_space: 0])
def test_a_plain_function_has_no_batched_form(function: Any) -> None:
    assert batch_form(function) is None


def test_an_attribute_batch_that_is_no_function_is_no_batched_form(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(single, "batch", 32, raising=False)
    assert batch_form(single) is None


def test_a_wrapper_of_a_function_with_a_batched_form_has_none(monkeypatch: pytest.MonkeyPatch) -> None:
    """``functools.wraps`` copies the attribute, but the wrapper must be called."""
    monkeypatch.setattr(single, "batch", Kernel().batch, raising=False)
    wrapper = functools.wraps(single)(lambda prompt, label_space: 0)
    assert batch_form(wrapper) is None


@pytest.mark.parametrize(
    ("kernel", "scale"),
    [
        (Kernel(), 1.0),
        (functools.partial(Kernel(), scale=5.0), 5.0),
        (functools.partial(functools.partial(Kernel(), scale=2.0), scale=3.0), 3.0),
    ],
    ids=["kernel", "partial", "partial of a partial"],
)
def test_a_batched_form_has_what_a_partial_binds(kernel: Any, scale: float) -> None:
    """The kernel multiplies the length of each prompt."""
    form = batch_form(kernel)
    assert form is not None
    assert form(["a", "bcd"], LABELS) == [[scale, scale], [3 * scale, 3 * scale]]


def test_a_partial_of_a_function_with_a_batched_form_has_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(single, "batch", Kernel().batch, raising=False)
    form = batch_form(functools.partial(single, scale=5.0))
    assert form is not None
    assert form(["a"], LABELS) == [[5.0, 5.0]]


@pytest.mark.parametrize("bound", [{"label_space": ["x", "y"]}, {"prompt": "x"}, {"prompt": "x", "label_space": ["x"]}])
def test_a_call_overrides_what_a_partial_binds(bound: dict[str, Any]) -> None:
    kernel = StaICC.PPMKernel()
    benchmark = StaICC.Normal(datasets=["mini"], limit=4)
    expected = benchmark(kernel).divided["mini"]
    for function in (functools.partial(kernel, **bound), functools.partial(lambda **given: kernel(**given), **bound)):
        assert benchmark(function).divided["mini"] == expected
        assert benchmark[0](function) == benchmark[0](kernel)


def test_a_wrapper_counts_what_its_kernel_counts() -> None:
    kernel = SimpleNamespace(retried=3, tokens_used=(5, 1))
    assert usage(SimpleNamespace(kernel=SimpleNamespace(kernel=kernel))) == (3, 5, 1)
    assert usage(SimpleNamespace(kernel=kernel, tokens_used=(0, 0))) == (3, 0, 0)

"""Nothing damaged reaches a score: hundreds of kinds of it, in every way to run."""

from __future__ import annotations

import json
import math
import random
import warnings
from collections.abc import Iterator, Sequence
from typing import Any

import pytest
from damaged_outputs import Damage, all_damages, exits
from durability_kernels import row_of
from hypothesis import given, settings
from hypothesis import strategies as st

from StaICC import Normal
from StaICC.benchmarks import Statistics
from StaICC.errors import OutputError, StaICCError
from StaICC.inference import Failure, RunOptions, predict_queries
from StaICC.prompting import Query

LABELS = ("no", "yes", "cannot tell")
DAMAGES = all_damages()
GOOD, BAD = "a good prompt", "a bad prompt"


@pytest.fixture(autouse=True)
def _quiet() -> Iterator[None]:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of NumPy, over what is done to it here
        yield


def queries(number: int = 3, bad: int = 1) -> list[Query]:
    return [Query(f"{BAD if place == bad else GOOD} {place}", LABELS, 0, place, 0) for place in range(number)]


def single(damage: Damage) -> Any:
    def answer(prompt: str, label_space: list[str]) -> Any:
        return damage.make(label_space) if prompt.startswith(BAD) else row_of(prompt, label_space)

    return answer


def batching(damage: Damage) -> Any:
    answer = single(damage)

    class Batching:
        def __call__(self, prompt: str, label_space: list[str]) -> Any:
            raise AssertionError("asked one by one")

        def batch(self, prompts: Sequence[str], label_space: list[str]) -> list[Any]:
            return [answer(prompt, label_space) for prompt in prompts]

    return Batching()


def is_answer(answer: Any, prompt: str) -> bool:
    return type(answer) is list and answer == row_of(prompt, LABELS)


@pytest.mark.parametrize("form", [single, batching])
def test_a_damaged_output_is_a_failure_and_the_others_stand(form: Any) -> None:
    assert len(DAMAGES) >= 200
    for damage in DAMAGES:
        if not exits(damage):
            first, failure, last = predict_queries(form(damage), queries(), "Test", RunOptions(on_error="collect"))
            assert is_answer(first, f"{GOOD} 0"), damage.name
            assert is_answer(last, f"{GOOD} 2"), damage.name
            assert isinstance(failure, Failure), damage.name
            assert 0 < len(json.dumps(failure.reason)) < 2500 * 6


@pytest.mark.parametrize("form", [single, batching])
def test_by_default_a_damaged_output_ends_the_run_with_its_place(form: Any) -> None:
    for damage in DAMAGES:
        place = 0 if exits(damage) and form is batching else 1  # no batch is asked again after an exit
        with pytest.raises(OutputError, match=f"^Test, query {place}: "):
            predict_queries(form(damage), queries(), "Test")


@pytest.mark.parametrize(
    ("form", "message"),
    [(single, "query 1: .*raised SystemExit"), (batching, "query 0: .*raised SystemExit.* 3 queries")],
)
def test_a_function_that_exits_ends_the_run_even_if_failures_are_collected(form: Any, message: str) -> None:
    for damage in filter(exits, DAMAGES):
        with pytest.raises(OutputError, match=message):
            predict_queries(form(damage), queries(), "Test", RunOptions(on_error="collect"))


def test_a_damaged_list_of_a_batched_function_is_refused() -> None:
    """The damage in place of the whole list of answers."""
    for damage in DAMAGES:
        if damage.name in ("returns labels", "returns numpy texts", "returns rows"):
            continue  # for three queries and three labels, these are lists of answers

        def whole(prompts: list[str], label_space: list[str], damage: Damage = damage) -> Any:
            return damage.make(label_space)

        with pytest.raises(OutputError, match=r"^Test"):
            predict_queries(whole, queries(), "Test", RunOptions(batched=True))


def test_no_damage_reaches_a_score() -> None:
    """All kinds in one benchmark: the figures are those of the good answers alone."""
    chosen = [damage for damage in DAMAGES if not exits(damage)]
    random.Random(2).shuffle(chosen)
    benchmark = Normal(datasets=["mini"], statistics=Statistics(intervals=False))
    prompts = benchmark[0].prompt_set()
    while chosen:
        bad = dict(zip(prompts[::3], chosen, strict=False))
        chosen = chosen[len(bad) :]

        def answer(prompt: str, label_space: list[str], bad: dict[str, Damage] = bad) -> Any:
            return bad[prompt].make(label_space) if prompt in bad else row_of(prompt, label_space)

        result = benchmark(answer, on_error="collect")
        details = result.details["mini"]
        assert details.failed == len(bad) == len(details.failures)
        predictions = details.conditions[0].predictions
        assert {prompts[place] for place, label in enumerate(predictions) if label is None} == set(bad)
        truth = [
            label for label, answer in zip(details.conditions[0].truth, predictions, strict=True) if answer is not None
        ]
        right = [answer for answer in predictions if answer is not None]
        assert result["Divided results"]["mini"]["accuracy"] == sum(map(int.__eq__, truth, right)) / len(right)
        json.dumps(result.to_dict(), allow_nan=False)


json_like = st.recursive(
    st.none() | st.booleans() | st.floats() | st.integers() | st.text(max_size=3) | st.binary(max_size=3),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=2), inner, max_size=3),
    max_leaves=8,
)


@settings(max_examples=150)
@given(json_like)
def test_whatever_is_accepted_is_an_answer(value: Any) -> None:
    """An oracle of its own, for values of every shape."""

    def number(item: Any) -> bool:
        return type(item) in (int, float) and abs(item) < 1e300

    whole = type(value) is int and 0 <= value < len(LABELS)
    text = isinstance(value, str) and sum(value.strip() == label for label in LABELS) == 1
    row = isinstance(value, list) and len(value) == len(LABELS) and all(map(number, value))
    (answer,) = predict_queries(
        lambda prompt, label_space: value, queries(1, -1), "Test", RunOptions(on_error="collect")
    )
    if isinstance(answer, Failure):
        assert not any((whole, text, row))
    else:
        assert whole or text or row or isinstance(value, list)
        if isinstance(answer, list):
            assert len(answer) == len(LABELS)
            assert all(type(item) is float and math.isfinite(item) for item in answer)


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

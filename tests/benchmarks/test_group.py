"""Several benchmarks in one pass: each distinct query once, and the parts equal the separate runs."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import pytest

import StaICC
from StaICC import Diagnosis, Normal, Suite, Triplet_bias
from StaICC.benchmarks import BenchmarkGroup
from StaICC.datasets import Dataset
from StaICC.errors import ArgumentError, OutputError, UnknownNameError
from StaICC.results import Result, ResultGroup

PARTS = ["Normal", "Contextual_bias", "Domain_bias", "Post_bias", "GLER", "Template_sens", "Demo_sens"]


@pytest.fixture
def own(make_own: Callable[..., Dataset]) -> Dataset:
    return make_own(2)


def queries_of(group: BenchmarkGroup, place: int = 0) -> list[tuple[Any, tuple[str, ...]]]:
    return [
        (query.prompt, query.label_space) for member in group.members.values() for query in member[place].all_queries()
    ]


class Counting:
    """A model that remembers what it was asked."""

    def __init__(self, model: Callable[..., Any]) -> None:
        self.asked: list[tuple[Any, tuple[str, ...]]] = []
        self._model = model

    def __call__(self, prompt: Any, label_space: list[str]) -> Any:
        self.asked.append((tuple(prompt) if isinstance(prompt, list) else prompt, tuple(label_space)))
        return self._model(prompt, label_space)


# -- parts


@pytest.mark.parametrize("settings", [{}, {"k": 1}, {"noisy_channel": True}, {"metrics": "0.1.1"}, {"limit": 5}])
def test_the_parts_equal_the_separate_runs(own: Dataset, settings: dict[str, Any], stand_in: Any) -> None:
    datasets = [own, "mini"]
    result = Suite(datasets=datasets, **settings)(stand_in)
    assert list(result) == PARTS
    for part in PARTS:
        keywords = dict(settings)
        alone = getattr(StaICC, part)(datasets=datasets, **keywords)(stand_in)
        assert isinstance(result[part], Result)
        assert result[part] == alone, part
        assert result[part].signature == alone.signature


def test_diagnosis_is_the_suite_without_normal(stand_in: Any) -> None:
    diagnosis, suite = Diagnosis(datasets=["mini"])(stand_in), Suite(datasets=["mini"])(stand_in)
    assert list(diagnosis) == PARTS[1:]
    assert all(diagnosis[part] == suite[part] for part in PARTS[1:])


def test_triplet_bias_has_the_releases_keys(stand_in: Any) -> None:
    benchmark = Triplet_bias(datasets=["mini"], domain_query_length=5)
    result = benchmark(stand_in)
    assert list(result) == ["contextual", "domain", "post"]
    assert [list(part) for part in result.values()] == [["Divided results", "Averaged results"]] * 3
    assert result["contextual"] == StaICC.Contextual_bias(datasets=["mini"])(stand_in)
    assert result["domain"] == StaICC.Domain_bias(datasets=["mini"], domain_query_length=5)(stand_in)
    assert result["post"] == StaICC.Post_bias(datasets=["mini"])(stand_in)
    assert benchmark.contextual is benchmark["contextual"]
    assert benchmark.auto_run(stand_in, True, False) == result


def test_members_by_name(own: Dataset) -> None:
    suite = Suite(datasets=[own])
    assert len(suite) == 7
    assert list(suite) == PARTS
    assert suite["GLER"][0].name == "own"
    assert repr(suite) == f"<Suite: {', '.join(PARTS)}>"
    with pytest.raises(UnknownNameError, match=r"^there is no part of Suite 'gler'; did you mean 'GLER'\?"):
        suite["gler"]


# -- each distinct query once


@pytest.mark.parametrize("make", [Suite, Diagnosis, Triplet_bias])
def test_each_distinct_query_is_asked_once(make: Any, own: Dataset, stand_in: Any) -> None:
    group = make(datasets=[own])
    model = Counting(stand_in)
    group(model)
    every = queries_of(group)
    assert len(model.asked) == len(set(model.asked))
    assert set(model.asked) == set(every)
    if make is not Triplet_bias:  # its parts ask different queries
        assert len(model.asked) < len(every)


def test_prompts_that_share_a_prefix_stand_together(own: Dataset, stand_in: Any) -> None:
    model = Counting(stand_in)
    Suite(datasets=[own])(model)
    prompts = [prompt for prompt, _ in model.asked]
    assert prompts == sorted(prompts)


def test_equal_prompts_with_different_label_spaces_are_both_asked(stand_in: Any) -> None:
    suite = Suite(datasets=["mini"], limit=2, k=0)
    with pytest.warns(UserWarning, match="no longer the benchmark's"):
        suite["Normal"][0].prompt_former.change_label_space(["A", "B", "C"])
    model = Counting(stand_in)
    suite(model)
    assert {labels for _, labels in model.asked} == {("A", "B", "C"), ("food", "travel", "weather")}
    assert len(model.asked) == len(set(queries_of(suite)))


@pytest.mark.pack
@pytest.mark.slow
def test_how_many_queries_the_suite_has() -> None:
    suite = Suite()
    total, distinct = 0, 0
    for place in range(10):
        every = queries_of(suite, place)
        total += len(every)
        distinct += len(set(every))
    assert total == 111_400
    assert distinct == 87_360


# -- asking


def test_one_function_for_each_data_set(own: Dataset, stand_in: Any) -> None:
    result = Suite(datasets=[own, "mini"], limit=3)([lambda prompt, label_space: 0, stand_in])
    assert (
        result["Normal"]["Divided results"]["mini"]
        == (Normal(datasets=["mini"], limit=3)(stand_in)["Averaged results"])
    )
    assert result["Normal"].details["own"].conditions[0].output == "labels"


def test_batched_functions_get_every_condition_in_full(own: Dataset, stand_in: Any, anonymous: Any) -> None:
    lengths = []

    def batched(prompts: list[str], label_space: list[str]) -> list[list[float]]:
        lengths.append(len(prompts))
        return [stand_in(prompt, label_space) for prompt in prompts]

    group = Suite(datasets=[own])
    result = group(batched, batched_inference=True)
    assert lengths == [
        len(condition.queries) for member in group.members.values() for condition in member[0].conditions()
    ]
    assert anonymous(result) == anonymous(group(stand_in))


def test_a_failure_names_the_group_and_the_data_set(own: Dataset) -> None:
    with pytest.raises(
        OutputError, match=r"^Suite, own, query \d+: the inference function's answer cannot be scored: got"
    ):
        Suite(datasets=[own])(lambda prompt, label_space: None)


def test_a_partial_run_says_so_in_each_part(own: Dataset, stand_in: Any) -> None:
    group = Suite(datasets=[own])
    lost = Normal(datasets=[own])[0].prompt_set()[0]

    def function(prompt: str, label_space: list[str]) -> Any:
        return None if prompt == lost else stand_in(prompt, label_space)

    result = group(function, on_error="collect")
    assert not result.complete
    assert {part: result[part].complete for part in PARTS} == {
        part: lost not in group[part][0].prompt_set() for part in PARTS
    }
    assert not result["Normal"].complete
    assert result["Contextual_bias"].complete


# -- bad arguments


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ((None,), "the inference function must be callable, not NoneType"),
        (
            ("model",),
            "the inference function must be callable, not str. For a model by its name, pass load_kernel('model')",
        ),
        (([],), "0 inference functions given for 1 data sets"),
    ],
)
def test_bad_functions(own: Dataset, arguments: tuple[Any, ...], message: str) -> None:
    with pytest.raises(ArgumentError, match=f"^{re.escape(message)}$"):
        Suite(datasets=[own])(*arguments)


def test_a_suite_needs_a_named_metric_set(own: Dataset) -> None:
    with pytest.raises(
        ArgumentError, match="a suite scores by a named metric set, 'standard' or '0\\.1\\.1', for all its"
    ):
        Suite(datasets=[own], metrics={"mine": lambda truth, rows: 0.0})


def test_a_group_without_members_is_refused() -> None:
    with pytest.raises(ArgumentError, match=r"^the group 'mine' has no members; give at least one benchmark$"):
        BenchmarkGroup("mine", {})


def test_a_group_of_ones_own(own: Dataset, stand_in: Any) -> None:
    group = BenchmarkGroup("mine", {"k1": Normal(k=1, datasets=[own]), "k2": Normal(k=2, datasets=[own])})
    result = group(stand_in)
    assert isinstance(result, ResultGroup)
    assert result.name == "mine"
    assert result["k2"] == Normal(k=2, datasets=[own])(stand_in)

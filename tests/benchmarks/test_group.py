"""Several benchmarks in one pass: each distinct query once, and the parts equal the separate runs."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

import StaICC
from StaICC import Diagnosis, Normal, Suite, Triplet_bias
from StaICC.benchmarks import BenchmarkGroup
from StaICC.datasets import Dataset
from StaICC.errors import ArgumentError, OutputError, UnknownNameError

PARTS = ["Normal", "Contextual_bias", "Domain_bias", "Post_bias", "GLER", "Template_sens", "Demo_sens"]


@pytest.fixture
def own(make_own: Callable[..., Dataset]) -> Dataset:
    return make_own(2)


def queries_of(group: BenchmarkGroup, place: int = 0) -> list[tuple[Any, tuple[str, ...]]]:
    members = group.members.values()
    return [(query.prompt, query.label_space) for member in members for query in member[place].all_queries()]


# -- parts


@pytest.mark.parametrize("settings", [{}, {"k": 1}, {"noisy_channel": True}, {"metrics": "0.1.1"}, {"limit": 5}])
def test_the_parts_equal_the_separate_runs(own: Dataset, settings: dict[str, Any], stand_in: Any) -> None:
    datasets = [own, "mini"]
    suite = Suite(datasets=datasets, **settings)(stand_in)
    diagnosis = Diagnosis(datasets=datasets, **settings)(stand_in)
    assert (list(suite), list(diagnosis)) == (PARTS, PARTS[1:])
    for part in PARTS:
        alone = getattr(StaICC, part)(datasets=datasets, **settings)(stand_in)
        assert suite[part] == alone, part
        assert suite[part].signature == alone.signature
    assert all(diagnosis[part] == suite[part] for part in PARTS[1:])


def test_triplet_bias_has_the_releases_keys(stand_in: Any) -> None:
    benchmark = Triplet_bias(datasets=["mini"], domain_query_length=5)
    result = benchmark(stand_in)
    assert [list(part) for part in result.values()] == [["Divided results", "Averaged results"]] * 3
    members = {"contextual": "Contextual_bias", "domain": "Domain_bias", "post": "Post_bias"}
    for part, name in members.items():
        own_options = {"domain_query_length": 5} if part == "domain" else {}
        assert result[part] == getattr(StaICC, name)(datasets=["mini"], **own_options)(stand_in)
        assert getattr(benchmark, part) is benchmark[part]
    assert list(result) == list(members)
    assert benchmark.auto_run(stand_in, True, False) == result


def test_a_custom_group_and_members_by_name(own: Dataset, stand_in: Any) -> None:
    group = BenchmarkGroup("mine", {"k1": Normal(k=1, datasets=[own]), "k2": Normal(k=2, datasets=[own])})
    result = group(stand_in)
    assert result.name == "mine"
    assert result["k2"] == Normal(k=2, datasets=[own])(stand_in)
    assert (len(group), list(group), repr(group)) == (2, ["k1", "k2"], "<mine: k1, k2>")
    with pytest.raises(UnknownNameError, match=r"^there is no part of mine 'K2'; did you mean 'k2'\?"):
        group["K2"]
    with pytest.raises(ArgumentError, match="no members"):
        BenchmarkGroup("mine", {})
    with pytest.raises(ArgumentError, match="same data sets, but k1 has own and k2 has mini"):
        BenchmarkGroup("mine", {"k1": Normal(datasets=[own]), "k2": Normal(datasets=["mini"])})


# -- each distinct query once


@pytest.mark.parametrize("make", [Suite, Diagnosis, Triplet_bias])
def test_each_distinct_query_is_predicted_once_with_common_prefixes_together(
    make: Any, own: Dataset, stand_in: Any
) -> None:
    group, predicted = make(datasets=[own]), []
    if make is Suite:
        with pytest.warns(UserWarning, match="no longer the benchmark's"):
            group["Normal"][0].prompt_former.change_label_space(["A", "B"])

    def model(prompt: Any, label_space: list[str]) -> Any:
        predicted.append((prompt, tuple(label_space)))
        return stand_in(prompt, label_space)

    group(model)
    queries = queries_of(group)
    assert sorted(predicted) == sorted(set(queries))
    assert (len(predicted) < len(queries)) == (make is not Triplet_bias)  # its parts have different queries
    for space in {space for _, space in predicted}:
        prompts = [prompt for prompt, of_query in predicted if of_query == space]
        assert prompts == sorted(prompts)


@pytest.mark.pack
@pytest.mark.slow
def test_how_many_queries_the_suite_has() -> None:
    suite = Suite()
    queries = [queries_of(suite, place) for place in range(10)]
    assert (sum(map(len, queries)), sum(len(set(of_dataset)) for of_dataset in queries)) == (111_400, 87_360)


# -- predictions


def test_one_function_for_each_data_set(own: Dataset, stand_in: Any) -> None:
    result = Suite(datasets=[own, "mini"], limit=3)([lambda prompt, label_space: 0, stand_in])["Normal"]
    alone = Normal(datasets=["mini"], limit=3)(stand_in)
    assert result["Divided results"]["mini"] == alone["Averaged results"]
    assert result.details["own"].conditions[0].output == "labels"


def test_the_strictest_policy_for_unparsed_replies_counts(own: Dataset) -> None:
    members = {name: Normal(datasets=[own], limit=2, unparsed=name) for name in ("wrong", "error")}  # type: ignore
    with pytest.raises(OutputError, match="unparsed"):
        BenchmarkGroup("mine", members)(lambda prompt, label_space: "?")


def test_settings_that_change_during_a_run_are_refused(own: Dataset) -> None:
    """Prompts are written before the run: another signature afterwards would be that of other prompts."""
    group = Suite(datasets=[own, "mini"], limit=2)
    alone = Normal(datasets=[own], limit=2)

    def changes(prompt: Any, label_space: list[str]) -> int:
        for experimentor in (group["GLER"][0], alone[0]):
            experimentor.set_k(2)
        return 0

    with pytest.raises(ArgumentError, match=r"Suite, own, GLER: k changed from 4 to 2 during the run"):
        group(changes)
    alone[0].set_k(4)
    with pytest.raises(ArgumentError, match=r"Normal, own: k changed from 4 to 2 during the run"):
        alone(changes)


def test_batched_functions_get_every_condition_in_full(own: Dataset, stand_in: Any, anonymous: Any) -> None:
    lengths = []

    def batched(prompts: list[str], label_space: list[str]) -> list[list[float]]:
        lengths.append(len(prompts))
        return [stand_in(prompt, label_space) for prompt in prompts]

    group = Suite(datasets=[own])
    result = group(batched, batched_inference=True)
    members = group.members.values()
    assert lengths == [len(condition.queries) for member in members for condition in member[0].conditions()]
    assert anonymous(result) == anonymous(group(stand_in))


def test_failures_name_the_group_and_make_its_parts_partial(own: Dataset, stand_in: Any) -> None:
    group = Suite(datasets=[own])
    lost = Normal(datasets=[own])[0].prompt_set()[0]

    def function(prompt: str, label_space: list[str]) -> Any:
        return None if prompt == lost else stand_in(prompt, label_space)

    with pytest.raises(OutputError, match=r"^Suite, own, query \d+: .* got None"):
        group(function)
    result = group(function, on_error="collect")
    assert not result.complete
    complete = {part: result[part].complete for part in PARTS}
    assert complete == {part: lost not in group[part][0].prompt_set() for part in PARTS}
    assert (complete["Normal"], complete["Contextual_bias"]) == (False, True)


@pytest.mark.parametrize(
    ("argument", "message"),
    [(None, "NoneType"), ("model", r"not str.*load_kernel\('model'\)"), ([], "0 inference functions .* 1 data sets")],
)
def test_bad_functions_and_metrics(own: Dataset, argument: Any, message: str) -> None:
    with pytest.raises(ArgumentError, match=message):
        Suite(datasets=[own])(argument)
    with pytest.raises(ArgumentError, match="'standard' or '0\\.1\\.1'"):
        Suite(datasets=[own], metrics={"mine": lambda truth, rows: 0.0})

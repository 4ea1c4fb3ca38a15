"""Several benchmarks in one pass: each distinct query once, and the parts equal the separate runs."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import pytest

import StaICC
from StaICC import Diagnosis, Normal, Suite, Triplet_bias
from StaICC.benchmarks.exchange import identified_queries, score_predictions
from StaICC.benchmarks.group import BenchmarkGroup
from StaICC.datasets.dataset import Dataset
from StaICC.errors import ArgumentError, OutputError
from StaICC.results.result import Result, ResultGroup

if TYPE_CHECKING:
    from typing_extensions import assert_type

    from StaICC.kernels.protocol import LoadedKernel

    def types_of_parts(group: ResultGroup) -> None:  # checked by mypy: users' editors complete them
        assert_type(group["Normal"], Result)
        assert_type(StaICC.load_kernel("ppm"), LoadedKernel)


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
        assert (suite[part].signature, suite[part].outputs) == (alone.signature, None)
    assert [part for part in PARTS[1:] if diagnosis[part] != suite[part]] == []


def test_triplet_bias_has_the_releases_keys(stand_in: Any) -> None:
    benchmark = Triplet_bias(datasets=["mini"], domain_query_length=5)
    result = benchmark(stand_in)
    assert [list(part) for part in result.values()] == [["Divided results", "Averaged results"]] * 3
    alone = StaICC.DomainBias(datasets=["mini"])
    assert Triplet_bias(datasets=["mini"]).domain.signature() == alone.signature()
    members = {"contextual": "Contextual_bias", "domain": "Domain_bias", "post": "Post_bias"}
    for part, name in members.items():
        own_options = {"domain_query_length": 5} if part == "domain" else {}
        assert result[part] == getattr(StaICC, name)(datasets=["mini"], **own_options)(stand_in)
        assert getattr(benchmark, part) is benchmark[part]
    assert list(result) == list(members)
    assert benchmark.auto_run(stand_in, True, False) == result


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


@pytest.mark.parametrize("members", [{}, {"a": Suite(datasets=["mini"])}, {"a": Normal}, {"a": "Normal"}])
def test_members_are_benchmarks(members: Any) -> None:
    with pytest.raises(ArgumentError, match="benchmark"):
        BenchmarkGroup("mine", members)


def test_members_have_the_same_data_sets_in_the_same_order(own: Dataset) -> None:
    for other in ([own], [own, "mini"], ["mini"]):
        with pytest.raises(ArgumentError, match="a has mini, own; b has"):
            BenchmarkGroup("mine", {"a": Normal(datasets=["mini", own]), "b": Normal(datasets=other)})


def test_a_group_has_no_name_of_results_of_another_kind() -> None:
    """Verification would take it for a race, and contradict it."""
    with pytest.raises(ArgumentError, match="'Race'"):
        BenchmarkGroup("Race", {"a": Normal(datasets=["mini"])})


# -- predictions


def test_the_strictest_policy_for_unparsed_replies_counts(own: Dataset) -> None:
    members = {name: Normal(datasets=[own], limit=2, unparsed=name) for name in ("wrong", "error")}  # type: ignore
    group = BenchmarkGroup("mine", members)
    with pytest.raises(OutputError, match="unparsed"):
        group(lambda prompt, label_space: "?")
    with pytest.raises(OutputError, match="unparsed"):
        score_predictions(group, {query.id: {"reply": "?"} for query in identified_queries(group)})


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

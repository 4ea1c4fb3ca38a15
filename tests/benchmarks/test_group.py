"""Several benchmarks in one pass: each distinct query once, and the parts equal the separate runs."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

import StaICC
from StaICC import Diagnosis, Normal, Suite, Triplet_bias
from StaICC.benchmarks.exchange import identified_queries, score_predictions
from StaICC.benchmarks.group import BenchmarkGroup
from StaICC.datasets.dataset import Dataset
from StaICC.errors import ArgumentError, OutputError
from StaICC.results.result import Result, ResultGroup
from tests.benchmarks.conftest import invented_dataset

if TYPE_CHECKING:
    from typing_extensions import assert_type

    from StaICC.kernels.protocol import LoadedKernel

    def types_of_parts(group: ResultGroup) -> None:  # checked by mypy: users' editors complete them
        assert_type(group["Normal"], Result)
        assert_type(StaICC.load_kernel("ppm"), LoadedKernel)


PARTS = ["Normal", "Contextual_bias", "Domain_bias", "Post_bias", "GLER", "Template_sens", "Demo_sens"]


@pytest.fixture
def two_column_dataset() -> Dataset:
    return invented_dataset(columns=2)


def queries_of(group: BenchmarkGroup, dataset_number: int = 0) -> list[tuple[Any, tuple[str, ...]]]:
    """Return prompt and label space of all queries of a data set in all members of a group."""
    queries = []
    for member in group.members.values():
        queries.extend((query.prompt, query.label_space) for query in member[dataset_number].all_queries())
    return queries


# -- parts


@pytest.mark.parametrize(
    "settings", [{}, {"k": 1}, {"noisy_channel": True}, {"metrics": "0.1.1"}, {"limit": 5}], ids=str
)
def test_the_parts_equal_the_separate_runs(
    two_column_dataset: Dataset, settings: dict[str, Any], hash_model: Any
) -> None:
    datasets = [two_column_dataset, "mini"]

    suite = Suite(datasets=datasets, **settings)(hash_model)
    diagnosis = Diagnosis(datasets=datasets, **settings)(hash_model)

    assert list(suite) == PARTS
    assert list(diagnosis) == PARTS[1:], "all but Normal"
    for part in PARTS:
        alone = getattr(StaICC, part)(datasets=datasets, **settings)(hash_model)
        assert suite[part] == alone, part
        assert suite[part].signature == alone.signature, part
        assert suite[part].outputs is None, part
    for part in PARTS[1:]:
        assert diagnosis[part] == suite[part], part


PARTS_OF_TRIPLET_BIAS = {"contextual": "Contextual_bias", "domain": "Domain_bias", "post": "Post_bias"}
"""The benchmark of each part of Triplet_bias, by the release's key."""


def test_triplet_bias_has_the_releases_keys(hash_model: Any) -> None:
    benchmark = Triplet_bias(datasets=["mini"])

    result = benchmark(hash_model)

    assert list(result) == list(PARTS_OF_TRIPLET_BIAS)
    for part in PARTS_OF_TRIPLET_BIAS:
        assert list(result[part]) == ["Divided results", "Averaged results"], part
        assert getattr(benchmark, part) is benchmark[part], part


def test_the_parts_of_triplet_bias_equal_the_separate_runs(hash_model: Any) -> None:
    """The length of the queries is an option of domain bias alone."""
    result = Triplet_bias(datasets=["mini"], domain_query_length=5)(hash_model)

    for part, name in PARTS_OF_TRIPLET_BIAS.items():
        options = {"domain_query_length": 5} if part == "domain" else {}
        alone = getattr(StaICC, name)(datasets=["mini"], **options)
        assert result[part] == alone(hash_model), part


def test_triplet_bias_has_the_default_length_of_domain_bias() -> None:
    triplet, alone = Triplet_bias(datasets=["mini"]), StaICC.DomainBias(datasets=["mini"])

    assert triplet.domain.signature() == alone.signature()


def test_triplet_bias_is_run_by_auto_run_as_in_the_release(hash_model: Any) -> None:
    benchmark = Triplet_bias(datasets=["mini"])

    assert benchmark.auto_run(hash_model, True, False) == benchmark(hash_model)


# -- each distinct query once


def with_other_labels_in_normal(datasets: list[Dataset]) -> BenchmarkGroup:
    """Return a suite in which the prompts of Normal have the labels A and B."""
    suite = Suite(datasets=datasets)
    with pytest.warns(UserWarning, match="no longer the benchmark's"):
        suite["Normal"][0].prompt_former.change_label_space(["A", "B"])
    return suite


def queries_predicted(group: BenchmarkGroup, hash_model: Any) -> list[tuple[Any, tuple[str, ...]]]:
    """Return prompt and label space of each call of the model in a run of a group, in order."""
    predicted = []

    def model(prompt: Any, label_space: list[str]) -> Any:
        predicted.append((prompt, tuple(label_space)))
        return hash_model(prompt, label_space)

    group(model)
    return predicted


@pytest.mark.parametrize(
    "make",
    [Diagnosis, Triplet_bias, with_other_labels_in_normal],
    ids=["Diagnosis", "Triplet_bias", "Suite with two label spaces"],
)
def test_each_distinct_query_is_predicted_once(make: Any, two_column_dataset: Dataset, hash_model: Any) -> None:
    group = make(datasets=[two_column_dataset])

    predicted = queries_predicted(group, hash_model)

    assert sorted(predicted) == sorted(set(queries_of(group)))


@pytest.mark.parametrize("kind", [Suite, Diagnosis])
def test_the_parts_of_a_suite_share_queries(kind: Any, two_column_dataset: Dataset) -> None:
    queries = queries_of(kind(datasets=[two_column_dataset]))

    assert len(set(queries)) < len(queries)


def test_prompts_with_a_common_prefix_are_predicted_one_after_the_other(
    two_column_dataset: Dataset, hash_model: Any
) -> None:
    """The prompts of one label space are in alphabetical order, so that a kernel can keep the states of a prefix."""
    prompts_by_labels: dict[tuple[str, ...], list[Any]] = {}
    for prompt, label_space in queries_predicted(with_other_labels_in_normal([two_column_dataset]), hash_model):
        prompts_by_labels.setdefault(label_space, []).append(prompt)

    assert len(prompts_by_labels) == 2
    for label_space, prompts in prompts_by_labels.items():
        assert prompts == sorted(prompts), label_space


@pytest.mark.pack
@pytest.mark.slow
def test_how_many_queries_the_suite_has() -> None:
    suite = Suite()
    query_count, distinct_count = 0, 0
    for dataset_number in range(10):
        queries = queries_of(suite, dataset_number)
        query_count += len(queries)
        distinct_count += len(set(queries))

    assert (query_count, distinct_count) == (111_400, 87_360)


@pytest.mark.parametrize("members", [{}, {"a": Suite(datasets=["mini"])}, {"a": Normal}, {"a": "Normal"}])
def test_members_are_benchmarks(members: Any) -> None:
    with pytest.raises(ArgumentError, match="benchmark"):
        BenchmarkGroup("mine", members)


@pytest.mark.parametrize(
    "names", [["own"], ["own", "mini"], ["mini"]], ids=["one missing", "another order", "the other missing"]
)
def test_members_have_the_same_data_sets_in_the_same_order(two_column_dataset: Dataset, names: list[str]) -> None:
    first = Normal(datasets=["mini", two_column_dataset])
    second = Normal(datasets=[two_column_dataset if name == "own" else name for name in names])

    with pytest.raises(ArgumentError, match=f"a has mini, own; b has {', '.join(names)}"):
        BenchmarkGroup("mine", {"a": first, "b": second})


def test_a_group_has_no_name_of_results_of_another_kind() -> None:
    """Verification would take it for a race, and contradict it."""
    with pytest.raises(ArgumentError, match="'Race'"):
        BenchmarkGroup("Race", {"a": Normal(datasets=["mini"])})


# -- predictions


def group_with_two_policies(two_column_dataset: Dataset) -> BenchmarkGroup:
    """Return a group in which a reply without a label counts as wrong for one member, and is an error for the other."""
    members = {
        "counts as wrong": Normal(datasets=[two_column_dataset], limit=2, unparsed="wrong"),
        "is an error": Normal(datasets=[two_column_dataset], limit=2, unparsed="error"),
    }
    return BenchmarkGroup("mine", members)


def test_the_strictest_policy_for_unparsed_replies_counts_in_a_run(two_column_dataset: Dataset) -> None:
    group = group_with_two_policies(two_column_dataset)

    with pytest.raises(OutputError, match="unparsed"):
        group(lambda prompt, label_space: "?")


def test_the_strictest_policy_for_unparsed_replies_counts_for_given_predictions(two_column_dataset: Dataset) -> None:
    group = group_with_two_policies(two_column_dataset)
    replies = {query.id: {"reply": "?"} for query in identified_queries(group)}

    with pytest.raises(OutputError, match="unparsed"):
        score_predictions(group, replies)


def fails_for(failing_prompt: str, hash_model: Any) -> Any:
    """Return the model, but without a prediction for one prompt."""

    def function(prompt: str, label_space: list[str]) -> Any:
        return None if prompt == failing_prompt else hash_model(prompt, label_space)

    return function


def test_the_error_about_a_failed_query_names_the_group(two_column_dataset: Dataset, hash_model: Any) -> None:
    first_prompt_of_normal = Normal(datasets=[two_column_dataset])[0].prompt_set()[0]

    with pytest.raises(OutputError, match=r"^Suite, own, query \d+: .* got None"):
        Suite(datasets=[two_column_dataset])(fails_for(first_prompt_of_normal, hash_model))


def test_the_parts_that_have_a_failed_query_are_partial(two_column_dataset: Dataset, hash_model: Any) -> None:
    first_prompt_of_normal = Normal(datasets=[two_column_dataset])[0].prompt_set()[0]
    suite = Suite(datasets=[two_column_dataset])

    result = suite(fails_for(first_prompt_of_normal, hash_model), on_error="collect")

    assert not result.complete
    assert not result["Normal"].complete
    assert result["Contextual_bias"].complete
    for part in PARTS:
        has_failed_query = first_prompt_of_normal in suite[part][0].prompt_set()
        assert result[part].complete is not has_failed_query, part


def sets_k_of(experimentor: Any) -> Any:
    """Return a function that, when it is called for a prediction, sets the k of an experimentor to 2."""

    def function(prompt: Any, label_space: list[str]) -> int:
        experimentor.set_k(2)
        return 0

    return function


def test_settings_that_change_during_a_run_are_refused(two_column_dataset: Dataset) -> None:
    """Prompts are written before the run: another signature afterwards would be that of other prompts."""
    benchmark = Normal(datasets=[two_column_dataset], limit=2)

    with pytest.raises(ArgumentError, match=r"Normal, own: k changed from 4 to 2 during the run"):
        benchmark(sets_k_of(benchmark[0]))


def test_settings_of_a_part_that_change_during_the_run_of_a_group_are_refused(two_column_dataset: Dataset) -> None:
    suite = Suite(datasets=[two_column_dataset, "mini"], limit=2)

    with pytest.raises(ArgumentError, match=r"Suite, own, GLER: k changed from 4 to 2 during the run"):
        suite(sets_k_of(suite["GLER"][0]))

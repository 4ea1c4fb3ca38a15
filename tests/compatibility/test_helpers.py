"""The helpers of 0.1.1 without the released wheel: arguments, refusals, and what they leave unchanged."""

from __future__ import annotations

import math
import statistics
import warnings
from typing import Any

import pytest

import StaICC
import StaICC.diagnosis
from StaICC.errors import ArgumentError
from StaICC.metrics import released
from StaICC.metrics.metric_set import metric_set
from StaICC.util import dataset_interface, experimentor, functional, hgf_dataset_loader, stable_random

LOADERS = {
    "glue_sst2": "GLUE-SST2",
    "rotten_tomatoes": "rotten_tomatoes",
    "financial_phrasebank": "financial_phrasebank",
    "sst5": "SST5",
    "trec": "TREC",
    "agnews": "AGNews",
    "subjective": "Subjective",
    "tweet_eval_emotion": "tweet_eval_emotion",
    "tweet_eval_hate": "tweet_eval_hate",
    "hate_speech_18": "hate_speech_18",
}
"""The data set of each loader of 0.1.1."""


@pytest.mark.parametrize(("loader", "dataset"), LOADERS.items())
def test_a_loader_is_the_name_of_its_data_set(loader: str, dataset: str) -> None:
    assert getattr(hgf_dataset_loader, loader) == dataset


def test_there_is_a_loader_of_each_data_set() -> None:
    assert set(LOADERS.values()) == set(StaICC.Normal().dataset_names)


def test_benchmarks_of_the_modules_are_those_of_the_package() -> None:
    for name in ("Contextual_bias", "Demo_sens", "Domain_bias", "GLER", "Post_bias", "Template_sens", "Triplet_bias"):
        assert getattr(StaICC.diagnosis, name) is getattr(StaICC, name)
    assert StaICC.normal.Normal is StaICC.Normal


def test_single_experimentor_takes_a_data_set_and_metrics() -> None:
    metrics: dict[str, Any] = {"mine": lambda truth, rows: 0.25}
    made = experimentor.single_experimentor(original_dataset="mini", dividing=[10, 20, 30], metrics=metrics)

    scores, *_ = made(lambda prompt, label_space: 0)

    assert scores == {"mine": 0.25}


def test_single_experimentor_takes_a_split_that_was_cut() -> None:
    split = StaICC.Normal(datasets=["mini"])[0].triplet_dataset
    split.test.cut_by_index(3)

    assert len(experimentor.single_experimentor(split).test_set()) == 3


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({}, "got no data set"),
        ({"original_dataset": "mini", "triplet_dataset": "split"}, "expected one of them"),
        ({"triplet_dataset": "mini"}, r"expected benchmark\[i\].triplet_dataset"),
        ({"original_dataset": 3}, "original_dataset: got 3"),
        ({"original_dataset": "mini", "dividing": [10, 20]}, "dividing: got 2 numbers, expected 3"),
        ({"original_dataset": "mini", "dividing": [5, 0, 30]}, "there are no demonstrations to draw k = 4 from"),
    ],
)
def test_wrong_arguments_of_single_experimentor_are_named(arguments: dict[str, Any], message: str) -> None:
    if arguments.get("triplet_dataset") == "split":
        arguments = {**arguments, "triplet_dataset": StaICC.Normal(datasets=["mini"])[0].triplet_dataset}
    with pytest.raises(ArgumentError, match=message):
        experimentor.single_experimentor(**arguments)


def test_a_split_has_the_given_sizes() -> None:
    assert dataset_interface.triplet_dataset("mini", 10, 20, 30).sizes == (10, 20, 30)


def test_a_prompt_writer_takes_the_noisy_channel() -> None:
    """A prompt is a list of texts then, one for each label."""
    split = dataset_interface.triplet_dataset("mini", 10, 20, 30)

    prompt = dataset_interface.prompt_writter(split, True).write_prompt([0], 1)

    assert isinstance(prompt, list)


def test_a_split_of_another_seed_is_refused() -> None:
    with pytest.raises(ArgumentError, match="random_seed: got 7, expected 42"):
        dataset_interface.triplet_dataset("mini", 10, 20, 30, random_seed=7)


def test_a_distance_of_vectors_of_different_lengths_is_refused() -> None:
    with pytest.raises(ArgumentError, match="the vectors have 1 and 2 components"):
        functional.L2_dist([1.0], [1.0, 2.0])


def test_the_end_of_a_range_is_never_drawn() -> None:
    generator = stable_random.stable_random()
    drawn = {generator.get_int_from_range(3, 6) for _ in range(200)}
    assert drawn == {3, 4, 5}


def test_demonstrations_of_an_experimentor_are_an_instance_of_the_released_sampler() -> None:
    sampler = StaICC.Normal(datasets=["mini"])[0].demonstration_sampler

    assert isinstance(sampler, dataset_interface.demonstration_sampler)
    assert not isinstance([[0]], dataset_interface.demonstration_sampler)


def test_a_cut_set_reaches_methods_that_saw_the_whole_one() -> None:
    original = StaICC.Normal(datasets=["mini"])[0]
    assert len(original.without_labels().test_set()) > 8

    original.test_set().cut_by_index(8)

    assert len(original.without_labels().test_set()) == 8


def first_output(truth: list[int], rows: list[list[float]]) -> float:
    """A metric of the user: the first number that the model returned."""
    return rows[0][0]


def logits(prompt: str, label_space: list[str]) -> list[float]:
    return [-3.0, *range(1, len(label_space))]


def test_metrics_of_the_release_get_what_the_model_returned() -> None:
    """Standard metrics would get probabilities."""
    metrics = {"first": first_output, "old": functional.accuracy}
    benchmark = StaICC.Normal(datasets=["mini"], limit=4, metrics=metrics)

    assert benchmark(logits).averaged["first"] == -3.0


def test_a_metric_of_the_release_that_is_added_is_as_one_that_is_passed() -> None:
    passed = StaICC.Normal(datasets=["mini"], limit=4, metrics={"first": first_output, "old": functional.accuracy})
    added = StaICC.Normal(datasets=["mini"], limit=4, metrics={"first": first_output})
    added[0].add_metric("old", functional.accuracy)

    assert added(logits) == passed(logits)


def test_a_set_with_a_standard_metric_gets_probabilities_in_any_order() -> None:
    old_first = metric_set({"old": functional.accuracy, "new": StaICC.accuracy})
    new_first = metric_set({"new": StaICC.accuracy, "old": functional.accuracy})

    assert metric_set("0.1.1").as_released
    assert not old_first.as_released
    assert not new_first.as_released


def test_a_metric_of_the_release_has_the_facts_of_its_standard_one() -> None:
    (accuracy,) = metric_set({"old": functional.accuracy}).metrics

    assert accuracy.higher_is_better
    assert not accuracy.requires_probabilities
    assert functional.macro_F1 is released.macro_F1


def test_a_replaced_metric_warns_where_the_user_wrote_it() -> None:
    own = StaICC.Normal(datasets=["mini"])[0]
    with warnings.catch_warnings(record=True) as recorded:
        warnings.simplefilter("always")
        own.add_metric("accuracy", functional.accuracy)
    assert [warning.filename for warning in recorded] == [__file__]


def test_assigning_the_default_number_of_repeats_changes_nothing() -> None:
    experimentor_on_mini = StaICC.Normal(datasets=["mini"])[0]

    experimentor_on_mini._repeat_times = 2

    assert experimentor_on_mini.arguments()["changed"] == []


def test_resetting_the_demonstrations_also_resets_the_number_of_repeats() -> None:
    experimentor_on_mini = StaICC.Normal(datasets=["mini"])[0]
    experimentor_on_mini._repeat_times = 1
    experimentor_on_mini.set_demonstration_sampler([[0, 1, 2, 3]] * len(experimentor_on_mini.test_set()))

    experimentor_on_mini.reset_demonstration_sampler()

    assert experimentor_on_mini.arguments()["changed"] == []


def line_to_write_instead(name: str) -> str:
    """Return the Python expression that a removed function names: "<... is gone; write EXPRESSION>"."""
    _, _, expression = repr(getattr(functional, name)).partition("; write ")
    return expression.removesuffix(">")


@pytest.mark.parametrize(
    ("name", "variables", "expected"),
    [
        ("exp_to_list", {"values": [1, 2, 2]}, [math.e, math.e**2, math.e**2]),
        (
            "extend_onehot_prediction_to_logits",
            {"prediction": [2, 0, 2], "n_labels": 3},
            [[0.0, 0.0, 1.0], [1.0, 0.0, 0.0], [0.0, 0.0, 1.0]],
        ),
        ("compress_logits_prediction_to_onehot", {"prediction": [[0.25, 0.75], [0.5, 0.5]]}, [1, 0]),
        ("linspace", {"start": 0, "end": 1, "num": 5}, [0, 0.25, 0.5, 0.75, 1]),
        ("probability_matrix_check", {"matrix": [[0.25, 0.75], [0.5, 0.5]]}, True),
        ("probability_vector_check", {"row": [0.5, 0.5]}, True),
        ("single_consistency", {"prediction": [2, 0, 2]}, 2 / 3),
        ("two_dimensional_list_mean", {"matrix": [[0.25, 0.75], [0.5, 0.5]]}, [0.375, 0.625]),
        ("unique_check", {"values": [1, 2, 2]}, False),
    ],
)
def test_the_line_to_write_instead_of_a_removed_function_computes_its_value(
    name: str, variables: dict[str, Any], expected: Any
) -> None:
    modules = {"math": math, "statistics": statistics}

    computed = eval(line_to_write_instead(name), modules | variables)

    assert computed == expected or computed == pytest.approx(expected)

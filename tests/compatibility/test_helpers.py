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


def test_every_loader_is_its_data_set() -> None:
    names = {
        **{"glue_sst2": "GLUE-SST2", "rotten_tomatoes": "rotten_tomatoes", "sst5": "SST5", "trec": "TREC"},
        **{"financial_phrasebank": "financial_phrasebank", "agnews": "AGNews", "subjective": "Subjective"},
        **{"tweet_eval_emotion": "tweet_eval_emotion", "tweet_eval_hate": "tweet_eval_hate"},
        "hate_speech_18": "hate_speech_18",
    }
    assert {loader: getattr(hgf_dataset_loader, loader) for loader in names} == names
    assert set(names.values()) == set(StaICC.Normal().dataset_names)


def test_benchmarks_of_the_modules_are_those_of_the_package() -> None:
    for name in ("Contextual_bias", "Demo_sens", "Domain_bias", "GLER", "Post_bias", "Template_sens", "Triplet_bias"):
        assert getattr(StaICC.diagnosis, name) is getattr(StaICC, name)
    assert StaICC.normal.Normal is StaICC.Normal


def test_single_experimentor_uses_its_arguments() -> None:
    single = experimentor.single_experimentor
    metrics: dict[str, Any] = {"mine": lambda truth, rows: 0.25}
    made = single(original_dataset="mini", dividing=[10, 20, 30], metrics=metrics)
    assert made(lambda prompt, label_space: 0)[0] == {"mine": 0.25}
    split = StaICC.Normal(datasets=["mini"])[0].triplet_dataset
    split.test.cut_by_index(3)
    assert len(single(split).test_set()) == 3


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


def test_splits_and_prompt_writers_use_their_arguments() -> None:
    split = dataset_interface.triplet_dataset("mini", 10, 20, 30)
    assert split.sizes == (10, 20, 30)
    assert isinstance(dataset_interface.prompt_writter(split, True).write_prompt([0], 1), list)
    with pytest.raises(ArgumentError, match="random_seed: got 7, expected 42"):
        dataset_interface.triplet_dataset("mini", 10, 20, 30, random_seed=7)
    with pytest.raises(ArgumentError, match="the vectors have 1 and 2 components"):
        functional.L2_dist([1.0], [1.0, 2.0])


def test_the_end_of_a_range_is_never_drawn() -> None:
    generator = stable_random.stable_random()
    drawn = {generator.get_int_from_range(3, 6) for _ in range(200)}
    assert drawn == {3, 4, 5}


def test_samplers_of_experimentors_are_samplers() -> None:
    assert isinstance(
        StaICC.Normal(datasets=["mini"])[0].demonstration_sampler, dataset_interface.demonstration_sampler
    )
    assert not isinstance([[0]], dataset_interface.demonstration_sampler)


def test_a_cut_set_reaches_methods_that_saw_the_whole_one() -> None:
    own = StaICC.Normal(datasets=["mini"])[0]
    whole = len(own.without_labels().test_set())
    own.test_set().cut_by_index(8)
    assert (whole > 8, len(own.without_labels().test_set())) == (True, 8)


def test_metrics_of_the_release_get_what_the_function_returned_in_any_order() -> None:
    def first(truth: list[int], rows: list[list[float]]) -> float:
        return rows[0][0]

    together = StaICC.Normal(datasets=["mini"], limit=4, metrics={"first": first, "old": functional.accuracy})
    added = StaICC.Normal(datasets=["mini"], limit=4, metrics={"first": first})
    added[0].add_metric("old", functional.accuracy)
    scores = [own(lambda prompt, label_space: [-3.0, *range(1, len(label_space))]) for own in (together, added)]
    assert scores[0] == scores[1]
    assert scores[0]["Averaged results"]["first"] == -3.0
    mixed = metric_set({"old": functional.accuracy, "new": StaICC.accuracy})
    assert not mixed.as_released  # the standard metric needs probabilities
    assert metric_set({"new": StaICC.accuracy, "old": functional.accuracy}).as_released is mixed.as_released
    assert metric_set("0.1.1").as_released
    record = metric_set({"old": functional.accuracy}).metrics[0]
    assert (record.requires_probabilities, record.higher_is_better) == (False, True)
    assert functional.macro_F1 is released.macro_F1


def test_a_replaced_metric_warns_where_the_user_wrote_it() -> None:
    own = StaICC.Normal(datasets=["mini"])[0]
    with warnings.catch_warnings(record=True) as recorded:
        warnings.simplefilter("always")
        own.add_metric("accuracy", functional.accuracy)
    assert [warning.filename for warning in recorded] == [__file__]


def test_assigning_the_usual_number_of_repeats_changes_nothing() -> None:
    own = StaICC.Normal(datasets=["mini"])[0]
    own._repeat_times = 2
    assert own.arguments()["changed"] == []
    own._repeat_times = 1
    own.set_demonstration_sampler([[0, 1, 2, 3]] * len(own.test_set()))
    own.reset_demonstration_sampler()
    assert own.arguments()["changed"] == []


def test_the_lines_to_write_instead_compute_what_they_say() -> None:
    """Each line that a removed function of lists names is evaluated."""
    prediction, matrix, values = [2, 0, 2], [[0.25, 0.75], [0.5, 0.5]], [1, 2, 2]
    names = {
        **{"prediction": prediction, "matrix": matrix, "values": values, "row": [0.5, 0.5], "n_labels": 3},
        **{"start": 0, "end": 1, "num": 5, "x": [1, 2, 3], "y": [2, 4, 6], "math": math, "statistics": statistics},
    }
    expected = {
        "exp_to_list": [math.e, math.e**2, math.e**2],
        "extend_onehot_prediction_to_logits": [[0.0, 0.0, 1.0], [1.0, 0.0, 0.0], [0.0, 0.0, 1.0]],
        "linspace": [0, 0.25, 0.5, 0.75, 1],
        "probability_matrix_check": True,
        "probability_vector_check": True,
        "single_consistency": 2 / 3,
        "two_dimensional_list_mean": [0.375, 0.625],
        "unique_check": False,
    }
    for name, value in expected.items():
        line = repr(getattr(functional, name)).split("; write ")[1].rstrip(">")
        computed = eval(line, names)
        assert computed == value or computed == pytest.approx(value), name
    line = repr(functional.compress_logits_prediction_to_onehot).split("; write ")[1].rstrip(">")  # type: ignore[attr-defined]
    assert eval(line, {"prediction": matrix}) == [1, 0]

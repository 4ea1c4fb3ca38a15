"""Methods whose model has no features of some prompts, in runs that collect failures."""

from __future__ import annotations

import random
from typing import Any

import pytest

from StaICC.errors import ArgumentError, OutputError
from StaICC.methods.contract import MethodSpec
from StaICC.methods.run import Method
from StaICC.methods.training_prompts import labelled_prompts
from tests.methods.fakes import METHODS_WITH_VARIANTS, Kernel, benchmark_on_mini

BENCHMARK_PROMPTS = set(benchmark_on_mini()[0].prompt_set())


def kernel_with_features_of_some_prompts(share: float, seed: int) -> Kernel:
    """Return a kernel that has the features of all prompts of the benchmark, and of a random share of other prompts."""

    def error_of(feature: str, prompt: str) -> Exception | None:
        random_number = random.Random(f"{seed} {feature} {prompt}").random()
        if prompt in BENCHMARK_PROMPTS or random_number < share:
            return None
        return OutputError("gone")

    return Kernel(fails=error_of)


@pytest.mark.parametrize(("name", "variant"), METHODS_WITH_VARIANTS)
def test_a_run_that_collects_failures_has_a_result_whatever_prompts_fail(name: str, variant: str) -> None:
    """With few training prompts left, there is no anchor, no label, no batch that the method needs."""
    for seed, share in enumerate([1 / 2, 1 / 3, 1 / 5, 1 / 9, 1 / 40]):
        kernel = kernel_with_features_of_some_prompts(share, seed)
        method = Method(name, kernel, variant, calibration_number=8)

        result: Any = method.run(benchmark_on_mini(), on_error="collect")

        assert list(result.details) == ["mini"]


@pytest.mark.parametrize("name", ["knn_prompt_centroid", "hidden_calibration"])
def test_a_label_whose_training_prompts_all_failed_is_the_reason_of_the_failures(name: str) -> None:
    options = {"calibration_number": 12, "samples_per_label": 4}
    data = Method(name, Kernel(), **options).started(benchmark_on_mini()[0]).data
    prompts, labels = labelled_prompts(data, per_label=4)
    prompts_of_food = {prompt for prompt, label in zip(prompts, labels, strict=True) if label == 0}
    assert len(prompts_of_food) == 4

    kernel = Kernel(fails=lambda feature, prompt: OutputError("gone") if prompt in prompts_of_food else None)
    result: Any = Method(name, kernel, **options).run(benchmark_on_mini(), on_error="collect")

    failures = result.details["mini"].failures
    assert len(failures) == len(benchmark_on_mini()[0])
    (reason,) = {failure.reason for failure in failures}
    assert "none of the 8 calibration samples has the label 'food'" in reason
    assert "4 rows that it asked for are missing" in reason
    assert "gone" in reason


def test_a_wrong_option_that_is_found_late_ends_a_run_that_collects_failures() -> None:
    """The number of layers is known when the first rows are there; rows that are missing do not make it right."""
    kernel = kernel_with_features_of_some_prompts(share=1 / 2, seed=1)
    method = Method("task_vectors", kernel, calibration_number=8, layer=99)

    with pytest.raises(ArgumentError, match="layer must be an integer from 0 to 2, not 99"):
        method.run(benchmark_on_mini(), on_error="collect")


def kernel_of_one_prompt() -> Kernel:
    """Return a kernel that fails on all prompts but the first one of the benchmark."""
    first_prompt = benchmark_on_mini()[0].prompt_set()[0]
    return Kernel(fails=lambda feature, prompt: None if prompt == first_prompt else OutputError("gone"))


def test_a_single_prediction_that_is_left_is_too_few_for_batch_calibration() -> None:
    result: Any = Method("batch_calibration", kernel_of_one_prompt()).run(benchmark_on_mini(), on_error="collect")

    first_failure = result.details["mini"].failures[0]
    assert "batches of 1 makes every prediction uniform" in first_failure.reason


def test_a_batch_size_of_one_ends_a_run_that_collects_failures() -> None:
    method = Method("batch_calibration", kernel_of_one_prompt(), batch_size=1)

    with pytest.raises(ArgumentError, match="batches of 1"):
        method.run(benchmark_on_mini(), on_error="collect")


def test_a_method_that_refuses_complete_rows_ends_a_run_that_collects_failures() -> None:
    """The method is wrong, and not the model."""

    def refuse_rows(data: Any) -> Any:
        yield [data.ask()]
        raise ArgumentError("got rows, expected none")

    method = Method(MethodSpec("refuses", "Refuses", refuse_rows), Kernel())

    with pytest.raises(ArgumentError, match="got rows, expected none"):
        method.run(benchmark_on_mini(), on_error="collect")

"""Methods whose model has no features of some prompts, in runs that collect failures."""

from __future__ import annotations

import hashlib
from typing import Any

import pytest

from StaICC.errors import ArgumentError, OutputError
from StaICC.methods.contract import MethodSpec
from StaICC.methods.run import Method
from StaICC.methods.training_prompts import labelled_prompts
from tests.methods.fakes import METHODS_WITH_VARIANTS, Kernel, benchmark_on_mini

BENCHMARK_PROMPTS = set(benchmark_on_mini()[0].prompt_set())


def fails_on_other_prompts(one_of: int, seed: int) -> Kernel:
    """Return a kernel that has features of one of so many prompts that are not the benchmark's, and of all of these."""

    def error_of(feature: str, prompt: str) -> Exception | None:
        digest = hashlib.sha256(f"{seed}{feature}{prompt}".encode()).digest()
        is_known = prompt in BENCHMARK_PROMPTS or int.from_bytes(digest, "big") % one_of == 0
        return None if is_known else OutputError("gone")

    return Kernel(fails=error_of)


@pytest.mark.parametrize(("name", "variant"), METHODS_WITH_VARIANTS)
def test_a_run_that_collects_failures_has_a_result_whatever_prompts_fail(name: str, variant: str) -> None:
    """With few training prompts left, there is no anchor, no label, no batch that the method needs."""
    for seed, one_of in enumerate([2, 3, 5, 9, 40]):
        kernel = fails_on_other_prompts(one_of, seed)
        result: Any = Method(name, kernel, variant, calibration_number=8).run(benchmark_on_mini(), on_error="collect")
        assert list(result.details) == ["mini"]


@pytest.mark.parametrize("name", ["knn_prompt_centroid", "hidden_calibration"])
def test_a_label_whose_training_prompts_all_failed_is_the_reason_of_the_failures(name: str) -> None:
    method = Method(name, Kernel(), calibration_number=12, samples_per_label=4)
    prompts, labels = labelled_prompts(method.started(benchmark_on_mini()[0]).data, per_label=4)
    of_first_label = {prompt for prompt, label in zip(prompts, labels, strict=True) if label == 0}
    assert len(of_first_label) == 4

    gone = Kernel(fails=lambda feature, prompt: OutputError("gone") if prompt in of_first_label else None)
    method = Method(name, gone, calibration_number=12, samples_per_label=4)
    result: Any = method.run(benchmark_on_mini(), on_error="collect")
    failures = result.details["mini"].failures
    assert len(failures) == len(benchmark_on_mini()[0])
    (reason,) = {failure.reason for failure in failures}
    assert "none of the 8 calibration samples has the label 'food'" in reason
    assert "4 rows that it asked for are missing" in reason
    assert "gone" in reason


def test_a_wrong_option_that_is_found_late_ends_a_run_that_collects_failures() -> None:
    """The number of layers is known when the first rows are there; rows that are missing do not make it right."""
    method = Method("task_vectors", fails_on_other_prompts(2, 1), calibration_number=8, layer=99)
    with pytest.raises(ArgumentError, match="layer must be an integer from 0 to 2, not 99"):
        method.run(benchmark_on_mini(), on_error="collect")


def test_a_single_prediction_that_is_left_is_too_few_for_a_batch() -> None:
    first_prompt = next(iter(benchmark_on_mini()[0].prompt_set()))
    kernel = Kernel(fails=lambda feature, prompt: None if prompt == first_prompt else OutputError("gone"))
    result: Any = Method("batch_calibration", kernel).run(benchmark_on_mini(), on_error="collect")
    assert "batches of 1 makes every prediction uniform" in result.details["mini"].failures[0].reason

    with pytest.raises(ArgumentError, match="batches of 1"):
        Method("batch_calibration", kernel, batch_size=1).run(benchmark_on_mini(), on_error="collect")


def test_a_method_that_refuses_complete_rows_ends_a_run_that_collects_failures() -> None:
    """It is the method that is wrong, not the model."""

    def refuses(data: Any) -> Any:
        yield [data.ask()]
        raise ArgumentError("got rows, expected none")

    with pytest.raises(ArgumentError, match="got rows, expected none"):
        Method(MethodSpec("refuses", "Refuses", refuses), Kernel()).run(benchmark_on_mini(), on_error="collect")

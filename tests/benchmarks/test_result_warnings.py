"""Warnings of a result are the same on every path: alone, in a group, from a store, by methods, saved and loaded."""

from __future__ import annotations

import functools
import logging
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from StaICC import GLER, Dataset, Method, Normal, load, verify
from StaICC.benchmarks.findings import Contradicted, Recomputed
from StaICC.benchmarks.group import BenchmarkGroup
from StaICC.inference.contract import ScoredLabels, Text
from StaICC.inference.identity import Identity
from StaICC.kernels.server.endpoint import EndpointKernel
from StaICC.methods.run import run_all
from StaICC.results.result import Result
from tests.methods.fakes import Kernel

SHARED = ["x person", "y person", "number"]
"""Label names of which two end with the same token."""


def own_data(labels: Sequence[str], name: str = "own") -> Dataset:
    rows = [(f"who wrote number {number}?", number % len(labels)) for number in range(60)]
    return Dataset.from_rows(rows, name=name, label_space=labels)


def normal(labels: Sequence[str] = SHARED) -> Normal:
    return Normal(k=1, datasets=[own_data(labels)], limit=4)


class Rule:
    """A kernel whose prediction for each prompt is given by a rule."""

    reply_limit = "max_tokens=3"
    api, last_blank = "completions", "prompt"

    def __init__(self, rule: Any, fails_after: int | None = None) -> None:
        self.rule, self.fails_after, self.calls = rule, fails_after, 0

    def identity(self) -> Identity:
        return Identity({"model": "a rule"})

    def answer_warnings(self, answers: Sequence[object]) -> list[str]:
        return EndpointKernel.answer_warnings(self, answers)  # type: ignore[arg-type]

    def __call__(self, prompt: str, label_space: Sequence[str]) -> Any:
        self.calls += 1
        if self.fails_after is not None and self.calls > self.fails_after:
            raise KeyboardInterrupt
        return self.rule(prompt, label_space)


def number_of(prompt: str) -> int:
    return len(prompt) + sum(map(ord, prompt[-40:]))


RULES: dict[str, tuple[Any, list[str]]] = {
    "ties": (lambda prompt, labels: [0.41234, 0.41234, 0.17532], ["have a tie", "are the same"]),
    "low label mass": (
        lambda prompt, labels: ScoredLabels([0.5 + 1e-4 * (number_of(prompt) % 50), 0.3, 0.2], 0.001),
        ["the labels together have a probability below 0.01"],
    ),
    "what a server said": (
        lambda prompt, labels: ScoredLabels([0.5 + 1e-4 * (number_of(prompt) % 50), 0.3, 0.2], None, 0, 0.6, True),
        ["without visible text", "does not state how many tokens"],
    ),
    "replies that are cut": (
        lambda prompt, labels: Text("I think", "length"),
        ["stopped at max_tokens=3 without a label", "replies are unparsed"],
    ),
}


def benchmark_of_shared_labels(benchmark_type: Any = Normal) -> Any:
    """Return a benchmark of labels of which two end with the same token."""
    return benchmark_type(k=1, datasets=[own_data(SHARED)], limit=8, unparsed="wrong")


with_each_kind_of_warning = pytest.mark.parametrize(("rule", "texts"), RULES.values(), ids=RULES)


@with_each_kind_of_warning
def test_a_run_has_each_warning_once(rule: Any, texts: list[str]) -> None:
    result = benchmark_of_shared_labels()(Rule(rule))
    for text in texts:
        assert "\n".join(result.warnings).count(text) == 1
        assert str(result).count(text) == 1


@with_each_kind_of_warning
def test_a_member_of_a_group_warns_as_a_run_alone(rule: Any, texts: list[str]) -> None:
    group = BenchmarkGroup("Both", {"GLER": benchmark_of_shared_labels(GLER), "Normal": benchmark_of_shared_labels()})
    warnings_of_member = group(Rule(rule))["Normal"].warnings
    assert warnings_of_member == benchmark_of_shared_labels()(Rule(rule)).warnings


@with_each_kind_of_warning
def test_a_run_that_was_interrupted_and_resumed_warns_as_one_in_full(
    rule: Any, texts: list[str], tmp_path: Path
) -> None:
    store = tmp_path / "store.sqlite"
    with pytest.raises(KeyboardInterrupt):
        benchmark_of_shared_labels()(Rule(rule, fails_after=3), store=store)
    resumed = benchmark_of_shared_labels()(Rule(rule), store=store)
    assert resumed.warnings == benchmark_of_shared_labels()(Rule(rule)).warnings


@with_each_kind_of_warning
def test_a_run_from_a_store_warns_as_one_that_calls_the_model(rule: Any, texts: list[str], tmp_path: Path) -> None:
    store = tmp_path / "store.sqlite"
    first = benchmark_of_shared_labels()(Rule(rule), store=store)
    model = Rule(rule)
    second = benchmark_of_shared_labels()(model, store=store, recheck=False)
    assert model.calls == 0
    assert second.warnings == first.warnings


@with_each_kind_of_warning
def test_a_method_warns_as_the_model_alone(rule: Any, texts: list[str]) -> None:
    by_method = Method("vanilla", Rule(rule)).run(benchmark_of_shared_labels())
    assert set(by_method.warnings) == set(benchmark_of_shared_labels()(Rule(rule)).warnings)


@with_each_kind_of_warning
def test_a_loaded_result_has_its_warnings(rule: Any, texts: list[str], tmp_path: Path) -> None:
    result = benchmark_of_shared_labels()(Rule(rule))
    result.save(tmp_path / "result.json")
    assert load(tmp_path / "result.json").warnings == result.warnings


class PricedRule(Rule):
    """A kernel that warns about prompts and about predictions."""

    may_cost_money = True

    def prompt_warnings(self, prompts: Sequence[str], label_space: Sequence[str]) -> list[str]:
        return ["a warning about prompts"]

    def answer_warnings(self, answers: Sequence[object]) -> list[str]:
        return ["a warning about predictions"]


GLOBAL_KERNEL = PricedRule(lambda prompt, labels: [0.5, 0.3, 0.2])


def closure(kernel: Any) -> Any:
    return lambda prompt, label_space: kernel(prompt, label_space)


def wrapper(kernel: Any) -> Any:
    @functools.wraps(kernel)
    def call(prompt: str, label_space: Sequence[str]) -> Any:
        return kernel(prompt, label_space)

    return call


def with_a_kernel(prompt: str, label_space: Sequence[str], kernel: Any) -> Any:
    return kernel(prompt, label_space)


def calls_a_global(prompt: str, label_space: Sequence[str]) -> Any:
    def scores_of(text: str) -> Any:
        return GLOBAL_KERNEL(text, label_space)

    return scores_of(prompt)


class Attribute:
    """An object that calls the kernel in one of its attributes."""

    def __init__(self, kernel: Any) -> None:
        self.model = kernel

    def score(self, prompt: str, label_space: Sequence[str]) -> Any:
        return self.model(prompt, label_space)

    __call__ = score


@pytest.mark.parametrize(
    "function",
    [
        closure(GLOBAL_KERNEL),
        wrapper(GLOBAL_KERNEL),
        functools.partial(with_a_kernel, kernel=GLOBAL_KERNEL),
        calls_a_global,
        Attribute(GLOBAL_KERNEL),
        Attribute(GLOBAL_KERNEL).score,
        GLOBAL_KERNEL.__call__,
    ],
    ids=["closure", "wraps", "partial", "global in inner code", "attribute", "bound method", "method of the kernel"],
)
def test_a_function_that_calls_a_kernel_has_its_warnings_and_its_price(function: Any, tmp_path: Path) -> None:
    alone = normal()(GLOBAL_KERNEL)
    assert sum("a warning about" in warning for warning in alone.warnings) == 2
    assert normal()(function).warnings == alone.warnings
    store = tmp_path / "store.sqlite"
    normal()(function, store=store, model_name="mine")
    GLOBAL_KERNEL.calls = 0
    again = normal()(function, store=store, model_name="mine")
    assert GLOBAL_KERNEL.calls == 0  # no request that may cost money is sent again
    assert any("cost money" in warning for warning in again.warnings), f"got {again.warnings}"
    normal()(function, store=store, model_name="mine", recheck=True)
    assert GLOBAL_KERNEL.calls > 0


def test_remarks_on_predictions_are_logged_and_in_the_result(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.WARNING):
        result = normal()(lambda prompt, label_space: [0.41234, 0.3, 0.28766])
    (same,) = [warning for warning in result.warnings if "are the same" in warning]
    assert same.startswith("own: all 8 predictions")
    assert caplog.text.count(same) == 1


def test_a_warning_of_several_data_sets_is_one_line_of_the_table() -> None:
    def rule(prompt: str, labels: Sequence[str]) -> ScoredLabels:
        return ScoredLabels([0.5 + 1e-4 * (number_of(prompt) % 50), 0.3, 0.2], 0.001)

    warning = "the labels together have a probability below 0.01"
    of_all = Normal(k=1, datasets=[own_data(SHARED, "one"), own_data(SHARED, "two")], limit=4)(Rule(rule))
    assert sum(warning in text for text in of_all.warnings) == 2
    assert str(of_all).count(warning) == 1
    assert f"WARNING: all 2 data sets: {warning}" in str(of_all)

    alone = Normal(k=1, datasets=[own_data(SHARED, "one")], limit=4)(Rule(rule))
    assert f"WARNING: one: {warning}" in str(alone)


def test_a_result_without_the_warnings_that_follow_from_its_records_is_contradicted() -> None:
    result = normal()(lambda prompt, label_space: [0.41234, 0.3, 0.28766])
    assert {finding.status for finding in verify(result, normal())} == {Recomputed()}
    result.warnings = tuple(warning for warning in result.warnings if "are the same" not in warning)
    assert any(isinstance(finding.status, Contradicted) for finding in verify(result, normal())), (
        f"got {verify(result, normal())}"
    )


def test_a_complete_store_warns_of_labels_without_the_weights(
    make_model: Any, make_tokenizer: Any, tmp_path: Path
) -> None:
    from StaICC.kernels.huggingface.kernel import CausalLMKernel

    make_model("GPT2").save_pretrained(tmp_path / "model")
    make_tokenizer().save_pretrained(tmp_path / "model")

    def kernel() -> Any:
        return CausalLMKernel.from_spec(str(tmp_path / "model"), last_blank="label")

    alone = normal()(kernel())
    shared = [warning for warning in alone.warnings if "2 of 3 labels are scored by the same token" in warning]
    assert len(shared) == 1
    store = tmp_path / "store.sqlite"
    normal()(kernel(), store=store)
    again = kernel()
    assert normal()(again, store=store, recheck=False).warnings == alone.warnings
    assert not again.is_loaded


def test_every_method_warns_of_labels_that_share_a_token_and_the_table_prints_it(
    make_model: Any, make_tokenizer: Any
) -> None:
    from StaICC.kernels.huggingface.kernel import CausalLMKernel

    kernel = CausalLMKernel(make_model("GPT2"), make_tokenizer(), last_blank="label")
    alone = normal()(kernel)
    names = ["vanilla", "contextual_calibration", "domain_calibration", "hidden_calibration"]
    table = run_all(kernel, normal(), methods=names, calibration_number=8)
    for result in table.results():
        assert any("labels are scored by the same token" in warning for warning in result.warnings), (
            f"got {result.warnings}"
        )
    assert set(table["vanilla"].warnings) == set(alone.warnings)
    assert str(table).count("WARNING: own: 2 of 3 labels are scored by the same token") == 1


def test_the_function_that_the_release_documents_warns_as_its_kernel(make_model: Any, make_tokenizer: Any) -> None:
    from StaICC.prefabricate_inference.model_kernel import standard_ICL_inference_with_torch_Causal_LM

    function = functools.partial(
        standard_ICL_inference_with_torch_Causal_LM, model=make_model("GPT2"), tokenizer=make_tokenizer()
    )
    warnings = normal()(function).warnings
    assert any("2 of 3 labels are scored by the same token" in warning for warning in warnings), f"got {warnings}"


# -- fallbacks of methods


@pytest.mark.parametrize("name", ["knn_prompt", "knn_prompt_centroid", "hidden_calibration"])
def test_a_calibration_of_the_release_that_gives_up_says_so(name: str) -> None:
    rows = [(f"text {number}", 0 if number else 1) for number in range(120)]
    rare = Dataset.from_rows(rows, name="rare", label_space=["often", "once"])
    benchmark = Normal(k=1, datasets=[rare], limit=4)
    method = Method(name, Kernel(), "0.1.1", calibration_number=8).run(benchmark)
    assert isinstance(method, Result)
    assert method.averaged == benchmark(Kernel()).averaged
    (warning,) = [text for text in method.warnings if "those of the model without the method" in text]
    assert warning.startswith("rare: none of the 8 training prompts has the label 'once'")


def test_methods_without_what_their_paper_needs_say_what_they_do() -> None:
    def plain(prompt: str, label_space: Sequence[str]) -> list[float]:
        return [0.5 + 1e-4 * (number_of(prompt) % 50), 0.3, 0.2]

    contextual = Method("contextual_calibration", plain).run(normal())
    assert any("are normalised before they are averaged" in warning for warning in contextual.warnings), (
        f"got {contextual.warnings}"
    )

    asked: list[str] = []

    def sometimes(prompt: str, label_space: Sequence[str]) -> list[float]:
        asked.append(prompt)
        if len(asked) == 2:
            raise ValueError("lost")
        return plain(prompt, label_space)

    ensemble = Method("ensemble", sometimes, sets=2).run(normal(), on_error="collect")
    assert any("1 of 4 predictions are means over fewer than 2 prompts" in warning for warning in ensemble.warnings), (
        f"got {ensemble.warnings}"
    )

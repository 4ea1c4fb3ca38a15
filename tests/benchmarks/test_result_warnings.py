"""Warnings of a result are the same on every path: alone, in a group, from a store, by methods, saved and loaded."""

from __future__ import annotations

import functools
import logging
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from StaICC import GLER, Dataset, Method, Normal, load, verify
from StaICC.benchmarks.findings import Contradicted, Recomputed, status_of
from StaICC.benchmarks.group import BenchmarkGroup
from StaICC.inference.contract import ScoredLabels, Text
from StaICC.inference.identity import Identity
from StaICC.kernels.server.endpoint import EndpointKernel
from StaICC.methods.run import run_all
from StaICC.results.result import Result
from tests.methods.fakes import Kernel

LABELS = ["x person", "y person", "number"]
"""Label names of which the first two end with the same token."""


def questions(name: str = "own") -> Dataset:
    """Return a data set of 60 questions with the three labels by turns."""
    rows = [(f"who wrote number {number}?", number % 3) for number in range(60)]
    return Dataset.from_rows(rows, name=name, label_space=LABELS)


def normal_on_questions() -> Normal:
    """Return Normal on four test rows, which are eight queries."""
    return Normal(k=1, datasets=[questions()], limit=4)


class RuleKernel:
    """A kernel whose prediction for each prompt is given by a rule.

    Args:
        rule: The function of prompt and labels.
        fails_after: The number of predictions after which it is interrupted as by Ctrl-C.
    """

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


def different_scores(prompt: str) -> list[float]:
    """Return scores of three labels of which the first one differs between most prompts."""
    number = len(prompt) + sum(ord(character) for character in prompt[-40:])
    return [0.5 + 1e-4 * (number % 50), 0.3, 0.2]


def equal_scores_for_all(prompt: str, labels: Sequence[str]) -> list[float]:
    return [0.41234, 0.41234, 0.17532]


def low_label_mass(prompt: str, labels: Sequence[str]) -> ScoredLabels:
    """Predict scores of which the model gives all labels together the probability 0.001."""
    return ScoredLabels(different_scores(prompt), 0.001)


def reply_without_visible_text(prompt: str, labels: Sequence[str]) -> ScoredLabels:
    """Predict scores of a server that generated no visible text, and states no number of tokens."""
    return ScoredLabels(different_scores(prompt), None, 0, 0.6, True)


def cut_reply(prompt: str, labels: Sequence[str]) -> Text:
    return Text("I think", "length")


EACH_KIND_OF_WARNING = pytest.mark.parametrize(
    ("rule", "texts"),
    [
        (equal_scores_for_all, ["have a tie", "are the same"]),
        (low_label_mass, ["the labels together have a probability below 0.01"]),
        (reply_without_visible_text, ["without visible text", "does not state how many tokens"]),
        (cut_reply, ["stopped at max_tokens=3 without a label", "replies are unparsed"]),
    ],
)
"""A rule of a kernel, and the warnings that its predictions get."""


def benchmark_with_warnings(benchmark_type: Any = Normal) -> Any:
    """Return a benchmark on eight test rows in which replies without a label count as wrong."""
    return benchmark_type(k=1, datasets=[questions()], limit=8, unparsed="wrong")


@EACH_KIND_OF_WARNING
def test_a_run_has_each_warning_once(rule: Any, texts: list[str]) -> None:
    result = benchmark_with_warnings()(RuleKernel(rule))

    all_warnings = "\n".join(result.warnings)
    for text in texts:
        assert all_warnings.count(text) == 1
        assert str(result).count(text) == 1


@EACH_KIND_OF_WARNING
def test_a_member_of_a_group_warns_as_a_run_alone(rule: Any, texts: list[str]) -> None:
    group = BenchmarkGroup("Both", {"GLER": benchmark_with_warnings(GLER), "Normal": benchmark_with_warnings()})

    alone = benchmark_with_warnings()(RuleKernel(rule))
    in_group = group(RuleKernel(rule))["Normal"]

    assert in_group.warnings == alone.warnings


@EACH_KIND_OF_WARNING
def test_a_run_that_was_interrupted_and_resumed_warns_as_one_in_full(
    rule: Any, texts: list[str], tmp_path: Path
) -> None:
    store = tmp_path / "store.sqlite"
    with pytest.raises(KeyboardInterrupt):
        benchmark_with_warnings()(RuleKernel(rule, fails_after=3), store=store)

    resumed = benchmark_with_warnings()(RuleKernel(rule), store=store)

    in_full = benchmark_with_warnings()(RuleKernel(rule))
    assert resumed.warnings == in_full.warnings


@EACH_KIND_OF_WARNING
def test_a_run_from_a_store_warns_as_one_that_calls_the_model(rule: Any, texts: list[str], tmp_path: Path) -> None:
    store = tmp_path / "store.sqlite"
    first = benchmark_with_warnings()(RuleKernel(rule), store=store)
    kernel = RuleKernel(rule)

    from_store = benchmark_with_warnings()(kernel, store=store, recheck=False)

    assert kernel.calls == 0
    assert from_store.warnings == first.warnings


@EACH_KIND_OF_WARNING
def test_a_method_warns_as_the_model_alone(rule: Any, texts: list[str]) -> None:
    alone = benchmark_with_warnings()(RuleKernel(rule))

    by_method = Method("vanilla", RuleKernel(rule)).run(benchmark_with_warnings())

    assert set(by_method.warnings) == set(alone.warnings)


@EACH_KIND_OF_WARNING
def test_a_loaded_result_has_its_warnings(rule: Any, texts: list[str], tmp_path: Path) -> None:
    result = benchmark_with_warnings()(RuleKernel(rule))

    result.save(tmp_path / "result.json")

    assert load(tmp_path / "result.json").warnings == result.warnings


class PricedKernel(RuleKernel):
    """A kernel whose requests may cost money, and that warns about prompts and about predictions."""

    may_cost_money = True

    def prompt_warnings(self, prompts: Sequence[str], label_space: Sequence[str]) -> list[str]:
        return ["a warning about prompts"]

    def answer_warnings(self, answers: Sequence[object]) -> list[str]:
        return ["a warning about predictions"]


PRICED_KERNEL = PricedKernel(lambda prompt, labels: [0.5, 0.3, 0.2])


def closure_with(kernel: Any) -> Any:
    return lambda prompt, label_space: kernel(prompt, label_space)


def wrapper_of(kernel: Any) -> Any:
    @functools.wraps(kernel)
    def call(prompt: str, label_space: Sequence[str]) -> Any:
        return kernel(prompt, label_space)

    return call


def call_given_kernel(prompt: str, label_space: Sequence[str], kernel: Any) -> Any:
    return kernel(prompt, label_space)


def call_global_in_inner_function(prompt: str, label_space: Sequence[str]) -> Any:
    def scores_of(text: str) -> Any:
        return PRICED_KERNEL(text, label_space)

    return scores_of(prompt)


class HoldsKernel:
    """An object that calls the kernel in one of its attributes."""

    def __init__(self, kernel: Any) -> None:
        self.model = kernel

    def score(self, prompt: str, label_space: Sequence[str]) -> Any:
        return self.model(prompt, label_space)

    __call__ = score


FUNCTIONS_THAT_CALL_THE_PRICED_KERNEL = pytest.mark.parametrize(
    "function",
    [
        closure_with(PRICED_KERNEL),
        wrapper_of(PRICED_KERNEL),
        functools.partial(call_given_kernel, kernel=PRICED_KERNEL),
        call_global_in_inner_function,
        HoldsKernel(PRICED_KERNEL),
        HoldsKernel(PRICED_KERNEL).score,
        PRICED_KERNEL.__call__,
    ],
    ids=["closure", "wraps", "partial", "global in inner code", "attribute", "bound method", "method of the kernel"],
)


@FUNCTIONS_THAT_CALL_THE_PRICED_KERNEL
def test_a_function_that_calls_a_kernel_has_its_warnings(function: Any) -> None:
    of_kernel = normal_on_questions()(PRICED_KERNEL)

    of_function = normal_on_questions()(function)

    assert of_function.warnings == of_kernel.warnings
    text = "\n".join(of_kernel.warnings)
    assert text.count("a warning about prompts") == 1
    assert text.count("a warning about predictions") == 1


@FUNCTIONS_THAT_CALL_THE_PRICED_KERNEL
def test_a_function_that_calls_a_priced_kernel_sends_no_stored_query_again(function: Any, tmp_path: Path) -> None:
    store = tmp_path / "store.sqlite"
    normal_on_questions()(function, store=store, model_name="mine")
    PRICED_KERNEL.calls = 0

    from_store = normal_on_questions()(function, store=store, model_name="mine")

    assert PRICED_KERNEL.calls == 0
    assert "cost money" in "\n".join(from_store.warnings)


@FUNCTIONS_THAT_CALL_THE_PRICED_KERNEL
def test_a_function_that_calls_a_priced_kernel_sends_stored_queries_again_on_request(
    function: Any, tmp_path: Path
) -> None:
    store = tmp_path / "store.sqlite"
    normal_on_questions()(function, store=store, model_name="mine")
    PRICED_KERNEL.calls = 0

    normal_on_questions()(function, store=store, model_name="mine", recheck=True)

    assert PRICED_KERNEL.calls > 0


def equal_scores_without_tie(prompt: str, label_space: Sequence[str]) -> list[float]:
    return [0.41234, 0.3, 0.28766]


def test_a_warning_about_predictions_is_logged_once_and_in_the_result(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.WARNING):
        result = normal_on_questions()(equal_scores_without_tie)

    (warning,) = [warning for warning in result.warnings if "are the same" in warning]
    assert warning.startswith("own: all 8 predictions")
    assert caplog.text.count(warning) == 1


LOW_MASS = "the labels together have a probability below 0.01"


def test_a_warning_of_several_data_sets_is_one_line_of_the_table() -> None:
    benchmark = Normal(k=1, datasets=[questions("one"), questions("two")], limit=4)

    result = benchmark(RuleKernel(low_label_mass))

    about_mass = [warning for warning in result.warnings if LOW_MASS in warning]
    assert len(about_mass) == 2
    assert str(result).count(LOW_MASS) == 1
    assert f"WARNING: all 2 data sets: {LOW_MASS}" in str(result)


def test_a_warning_of_one_data_set_has_its_name_in_the_table() -> None:
    benchmark = Normal(k=1, datasets=[questions("one")], limit=4)

    result = benchmark(RuleKernel(low_label_mass))

    assert f"WARNING: one: {LOW_MASS}" in str(result)


def test_a_result_with_its_warnings_is_recomputed() -> None:
    result = normal_on_questions()(equal_scores_without_tie)

    assert status_of(verify(result, normal_on_questions())) == Recomputed()


def test_a_result_without_the_warnings_that_follow_from_its_records_is_contradicted() -> None:
    result = normal_on_questions()(equal_scores_without_tie)

    result.warnings = tuple(warning for warning in result.warnings if "are the same" not in warning)

    assert isinstance(status_of(verify(result, normal_on_questions())), Contradicted)


SAME_TOKEN = "2 of 3 labels are scored by the same token"


def test_a_complete_store_warns_of_labels_without_the_weights(
    make_model: Any, make_tokenizer: Any, tmp_path: Path
) -> None:
    from StaICC.kernels.huggingface.kernel import CausalLMKernel

    folder = str(tmp_path / "model")
    make_model("GPT2").save_pretrained(folder)
    make_tokenizer().save_pretrained(folder)
    store = tmp_path / "store.sqlite"
    first = normal_on_questions()(CausalLMKernel.from_spec(folder, last_blank="label"), store=store)
    kernel = CausalLMKernel.from_spec(folder, last_blank="label")

    from_store = normal_on_questions()(kernel, store=store, recheck=False)

    about_tokens = [warning for warning in first.warnings if SAME_TOKEN in warning]
    assert len(about_tokens) == 1
    assert from_store.warnings == first.warnings
    assert not kernel.is_loaded


@pytest.fixture
def gpt2_kernel(make_model: Any, make_tokenizer: Any) -> Any:
    """A tiny random GPT-2, which scores labels by their last token."""
    from StaICC.kernels.huggingface.kernel import CausalLMKernel

    return CausalLMKernel(make_model("GPT2"), make_tokenizer(), last_blank="label")


def test_every_method_warns_of_labels_that_share_a_token_and_the_table_says_it_once(gpt2_kernel: Any) -> None:
    methods = ["vanilla", "contextual_calibration", "domain_calibration", "hidden_calibration"]

    table = run_all(gpt2_kernel, normal_on_questions(), methods=methods, calibration_number=8)

    for result in table.results():
        assert "labels are scored by the same token" in "\n".join(result.warnings)
    assert str(table).count(f"WARNING: own: {SAME_TOKEN}") == 1


def test_the_method_vanilla_has_the_warnings_of_the_model_alone(gpt2_kernel: Any) -> None:
    alone = normal_on_questions()(gpt2_kernel)

    by_method = Method("vanilla", gpt2_kernel).run(normal_on_questions())

    assert set(by_method.warnings) == set(alone.warnings)


def test_the_function_that_the_release_documents_warns_as_its_kernel(make_model: Any, make_tokenizer: Any) -> None:
    from StaICC.prefabricate_inference.model_kernel import standard_ICL_inference_with_torch_Causal_LM

    function = functools.partial(
        standard_ICL_inference_with_torch_Causal_LM, model=make_model("GPT2"), tokenizer=make_tokenizer()
    )

    result = normal_on_questions()(function)

    assert SAME_TOKEN in "\n".join(result.warnings)


# -- fallbacks of methods


@pytest.mark.parametrize("name", ["knn_prompt", "knn_prompt_centroid", "hidden_calibration"])
def test_a_calibration_of_the_release_without_all_labels_keeps_the_predictions_of_the_model(name: str) -> None:
    """Of 120 rows, one has the label "once": it is in none of the eight training prompts."""
    rows = [("text 0", "once"), *((f"text {number}", "often") for number in range(1, 120))]
    rare = Dataset.from_rows(rows, name="rare", label_space=["often", "once"])
    benchmark = Normal(k=1, datasets=[rare], limit=4)

    result = Method(name, Kernel(), "0.1.1", calibration_number=8).run(benchmark)

    assert isinstance(result, Result)
    assert result.averaged == benchmark(Kernel()).averaged
    (warning,) = [text for text in result.warnings if "those of the model without the method" in text]
    assert warning.startswith("rare: none of the 8 training prompts has the label 'once'")


def predict_different_scores(prompt: str, label_space: Sequence[str]) -> list[float]:
    return different_scores(prompt)


def test_contextual_calibration_of_a_plain_function_says_that_it_normalises() -> None:
    result = Method("contextual_calibration", predict_different_scores).run(normal_on_questions())

    assert "are normalised before they are averaged" in "\n".join(result.warnings)


def test_an_ensemble_says_how_many_predictions_are_means_over_fewer_prompts() -> None:
    """The second prompt of the first query fails."""
    prompts: list[str] = []

    def fails_at_second_call(prompt: str, label_space: Sequence[str]) -> list[float]:
        prompts.append(prompt)
        if len(prompts) == 2:
            raise ValueError("lost")
        return different_scores(prompt)

    result = Method("ensemble", fails_at_second_call, sets=2).run(normal_on_questions(), on_error="collect")

    assert "1 of 4 predictions are means over fewer than 2 prompts" in "\n".join(result.warnings)

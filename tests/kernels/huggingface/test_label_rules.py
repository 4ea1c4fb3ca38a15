"""A label-scoring rule is one record; kernels, warnings and pages follow it."""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any, get_args

import pytest

torch = pytest.importorskip("torch")
pytest.importorskip("transformers")

from StaICC import Method, Normal  # noqa: E402
from StaICC.kernels.huggingface.kernel import CausalLMKernel  # noqa: E402
from StaICC.kernels.huggingface.label_rules import (  # noqa: E402
    LABEL_NORMALISATIONS,
    LABEL_RULES,
    LabelNormalisation,
    LabelRule,
    LabelScoring,
    NormalisationRule,
)

PAGE = Path(__file__).parents[3] / "docs" / "kernels.md"


def test_every_name_of_a_rule_has_a_record_and_a_line_on_the_page() -> None:
    assert list(get_args(LabelScoring)) == list(LABEL_RULES)
    page = PAGE.read_text("utf-8")
    for name in LABEL_RULES:
        assert f'* `"{name}"`: ' in page, name


def test_every_name_of_a_normalisation_has_a_record_and_is_on_the_page() -> None:
    assert list(get_args(LabelNormalisation)) == list(LABEL_NORMALISATIONS)
    (paragraph,) = [text for text in PAGE.read_text("utf-8").split("\n* ") if text.startswith('`"full"`: ')]
    for name in LABEL_NORMALISATIONS:
        assert f'"{name}"' in paragraph, name


@pytest.mark.parametrize(("name", "deciding"), [("last", (7,)), ("first", (5,)), ("full", (5, 6, 7))])
def test_the_tokens_that_decide(name: LabelScoring, deciding: tuple[int, ...]) -> None:
    rule = LABEL_RULES[name]
    assert rule.deciding_tokens((5, 6, 7)) == deciding
    assert rule.scores_all_tokens is (len(deciding) > 1)


def test_a_kernel_scores_labels_by_the_token_that_the_record_chooses(
    make_model: Any, make_tokenizer: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A record that chooses the token in the middle of a label replaces the record "last"."""

    def middle_token(label_tokens: Sequence[int]) -> int:
        return label_tokens[len(label_tokens) // 2]

    model, tokenizer = make_model("Llama"), make_tokenizer(add_start=True)
    monkeypatch.setitem(LABEL_RULES, "last", LabelRule(choose_token=middle_token))

    scores = CausalLMKernel(model, tokenizer, label_scoring="last").score(["label: "], ["abc", "adc"])

    with torch.no_grad():
        prompt_tokens = torch.tensor([tokenizer("label: ")["input_ids"]])
        logits = model(prompt_tokens).logits[0, -1]
    expected = []
    for label in ("abc", "adc"):
        label_tokens = tokenizer(label, add_special_tokens=False)["input_ids"]
        assert len(label_tokens) >= 2
        expected.append(logits[middle_token(label_tokens)].item())
    assert scores.log_scores == [pytest.approx(expected, abs=1e-4)]
    assert scores.issues == ()


@pytest.mark.parametrize("is_log_probability", [False, True])
def test_a_kernel_scores_labels_by_the_record_of_the_normalisation(
    make_model: Any, make_tokenizer: Any, monkeypatch: pytest.MonkeyPatch, is_log_probability: bool
) -> None:
    """A record that divides by the characters of a label replaces the record "sum"."""
    prompts, labels = ["label: ", "a label: "], ["ab", "abcde"]
    kernel = CausalLMKernel(make_model("Llama"), make_tokenizer(add_start=True), label_scoring="full")
    sums = kernel.score(prompts, labels)

    def per_character(label: str, token_logs: Sequence[float]) -> float:
        return sum(token_logs) / len(label)

    monkeypatch.setitem(LABEL_NORMALISATIONS, "sum", NormalisationRule(per_character, is_log_probability))
    means = kernel.score(prompts, labels)

    for means_of_prompt, (sum_of_ab, sum_of_abcde) in zip(means.log_scores, sums.log_scores, strict=True):
        assert means_of_prompt == pytest.approx([sum_of_ab / 2, sum_of_abcde / 5])
    assert means.label_mass == sums.label_mass
    assert ("log_probabilities" in kernel.joint_features) is is_log_probability


def test_the_rule_of_the_page_is_the_mean_for_each_character(
    make_model: Any, make_tokenizer: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The block of the page, saved as a module, has the method PER_CHARACTER."""
    blocks = re.findall(r"```python\n(.*?)```", PAGE.read_text("utf-8"), re.DOTALL)
    (block_of_rule,) = [block for block in blocks if "PER_" in block]
    (tmp_path / "my_rule.py").write_text(block_of_rule, "utf-8")
    monkeypatch.syspath_prepend(tmp_path)
    kernel = CausalLMKernel(make_model("Llama"), make_tokenizer(), label_scoring="full")
    benchmark = Normal(k=1, datasets=["mini"], limit=3)

    result: Any = Method("my_rule:PER_CHARACTER", kernel).run(benchmark, return_outputs=True)

    labels = benchmark[0].get_label_space()
    prompts = [query.prompt for query in benchmark[0].all_queries()]
    log_probabilities = kernel.features(prompts, labels, {"log_probabilities"})["log_probabilities"]
    for record, log_probabilities_of_query in zip(result.outputs["mini"], log_probabilities, strict=True):
        means = []
        for label, log_probability in zip(labels, log_probabilities_of_query, strict=True):
            means.append(log_probability / len(label))
        assert record["predicted_probabilities"] == pytest.approx(means)

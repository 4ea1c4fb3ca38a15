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
    prompt, labels = "label: ", ["abc", "adc"]
    model, tokenizer = make_model("Llama"), make_tokenizer(add_start=True)
    tokens = [tokenizer(label, add_special_tokens=False)["input_ids"] for label in labels]
    assert min(len(row) for row in tokens) >= 2

    middle = LabelRule(choose_token=lambda label_tokens: label_tokens[len(label_tokens) // 2])
    monkeypatch.setitem(LABEL_RULES, "last", middle)
    scores = CausalLMKernel(model, tokenizer, label_scoring="last").score([prompt], labels)

    with torch.no_grad():
        logits = model(torch.tensor([tokenizer(prompt)["input_ids"]])).logits[0, -1]
    expected = [logits[row[len(row) // 2]].item() for row in tokens]
    assert scores.log_scores == [pytest.approx(expected, abs=1e-4)]
    assert scores.issues == ()


@pytest.mark.parametrize("is_log_probability", [False, True])
def test_a_kernel_scores_labels_by_the_record_of_the_normalisation(
    make_model: Any, make_tokenizer: Any, monkeypatch: pytest.MonkeyPatch, is_log_probability: bool
) -> None:
    """A record is all that a normalisation is; what methods may ask follows what it says of its scores."""
    prompts, labels = ["label: ", "a label: "], ["ab", "abcde"]
    kernel = CausalLMKernel(make_model("Llama"), make_tokenizer(add_start=True), label_scoring="full")
    by_sum = kernel.score(prompts, labels)

    def per_character(label: str, token_logs: Sequence[float]) -> float:
        return sum(token_logs) / len(label)

    monkeypatch.setitem(LABEL_NORMALISATIONS, "sum", NormalisationRule(per_character, is_log_probability))
    scores = kernel.score(prompts, labels)
    for row, log_probabilities in zip(scores.log_scores, by_sum.log_scores, strict=True):
        assert row == pytest.approx([log_probabilities[0] / 2, log_probabilities[1] / 5])
    assert scores.label_mass == by_sum.label_mass
    assert ("log_probabilities" in kernel.joint_features) is is_log_probability


def test_the_rule_of_the_page_is_the_mean_for_each_character(
    make_model: Any, make_tokenizer: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (block,) = [
        text for text in re.findall(r"```python\n(.*?)```", PAGE.read_text("utf-8"), re.DOTALL) if "PER_" in text
    ]
    (tmp_path / "my_rule.py").write_text(block, "utf-8")
    monkeypatch.syspath_prepend(tmp_path)
    kernel = CausalLMKernel(make_model("Llama"), make_tokenizer(), label_scoring="full")
    benchmark = Normal(k=1, datasets=["mini"], limit=3)

    result: Any = Method("my_rule:PER_CHARACTER", kernel).run(benchmark, return_outputs=True)

    labels = benchmark[0].get_label_space()
    prompts = [query.prompt for query in benchmark[0].all_queries()]
    rows = kernel.features(prompts, labels, {"log_probabilities"})["log_probabilities"]
    for record, log_probabilities in zip(result.outputs["mini"], rows, strict=True):
        means = [score / len(label) for score, label in zip(log_probabilities, labels, strict=True)]
        assert record["predicted_probabilities"] == pytest.approx(means)

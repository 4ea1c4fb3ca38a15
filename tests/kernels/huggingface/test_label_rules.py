"""A label-scoring rule is one record; kernels, warnings and pages follow it."""

from __future__ import annotations

from pathlib import Path
from typing import Any, get_args

import pytest

torch = pytest.importorskip("torch")
pytest.importorskip("transformers")

from StaICC.kernels.huggingface.kernel import CausalLMKernel  # noqa: E402
from StaICC.kernels.huggingface.label_rules import LABEL_RULES, LabelRule, LabelScoring  # noqa: E402

PAGE = Path(__file__).parents[3] / "docs" / "kernels.md"


def test_every_name_of_a_rule_has_a_record_and_a_line_on_the_page() -> None:
    assert list(get_args(LabelScoring)) == list(LABEL_RULES)
    page = PAGE.read_text("utf-8")
    for name in LABEL_RULES:
        assert f'* `"{name}"`: ' in page, name


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

"""``last_blank="label"``: the model reads prompts without their last blank, and labels begin with one."""

from __future__ import annotations

from typing import Any, get_args

import pytest

from StaICC import Normal
from StaICC.inference.identity import identity_of

torch = pytest.importorskip("torch")
transformers = pytest.importorskip("transformers")

from StaICC.kernels.huggingface.kernel import CausalLMKernel  # noqa: E402
from StaICC.kernels.huggingface.label_rules import LabelScoring  # noqa: E402

LABELS = ["person", "location", "number of people", "city"]
PROMPTS = [f"question: who wrote {n}? answer: person\nquestion: the city {n % 3}? answer: " for n in range(5)]


@pytest.fixture(scope="module")
def parts(make_model: Any, make_tokenizer: Any) -> tuple[Any, Any]:
    """Return a tiny model and its tokenizer."""
    return make_model("Llama"), make_tokenizer(add_start=True)


def without_last_blank(prompt: str) -> str:
    return prompt.rstrip(" ")


def label_log_probabilities(model: Any, tokenizer: Any, prompt: str, label: str) -> list[float]:
    """Return the log-probability of each token of " " + label after a prompt, from one call of the model."""
    start = tokenizer(prompt)["input_ids"]
    ids = tokenizer(f"{prompt} {label}")["input_ids"]
    assert ids[: len(start)] == start, "the tokens of the prompt stay"
    with torch.no_grad():
        logs = model(torch.tensor([ids], device=model.device)).logits[0].double().log_softmax(-1)
    return [logs[index - 1, ids[index]].item() for index in range(len(start), len(ids))]


def first_or_last_log_probability(model: Any, tokenizer: Any, prompt: str, label: str, scoring: str) -> float:
    """Return the log-probability of the first or last token of " " + label as the next token of a prompt."""
    start = tokenizer(prompt)["input_ids"]
    label_tokens = tokenizer(f"{prompt} {label}")["input_ids"][len(start) :]
    token = label_tokens[0] if scoring == "first" else label_tokens[-1]
    with torch.no_grad():
        logs = model(torch.tensor([start], device=model.device)).logits[0, -1].double().log_softmax(-1)
    return logs[token].item()


def rows_of_the_papers(model: Any, tokenizer: Any, scoring: str) -> list[Any]:
    """Return what the methods' papers score: " " + label after a prompt without its last blank."""
    rows = []
    for prompt in map(without_last_blank, PROMPTS):
        if scoring == "full":
            scores = [sum(label_log_probabilities(model, tokenizer, prompt, label)) for label in LABELS]
        else:
            scores = [first_or_last_log_probability(model, tokenizer, prompt, label, scoring) for label in LABELS]
        probabilities = torch.tensor(scores, dtype=torch.float64).softmax(0).tolist()
        rows.append(pytest.approx(probabilities, abs=1e-6))
    return rows


every_scoring = pytest.mark.parametrize("scoring", ["last", "first", "full"])


@every_scoring
def test_labels_begin_with_the_blank_that_prompts_lose(parts: Any, scoring: Any) -> None:
    kernel = CausalLMKernel(*parts, label_scoring=scoring, last_blank="label")
    assert kernel.batch(PROMPTS, LABELS) == rows_of_the_papers(*parts, scoring)


@every_scoring
def test_prompts_may_have_no_last_blank(parts: Any, scoring: Any) -> None:
    kernel = CausalLMKernel(*parts, label_scoring=scoring, last_blank="label")
    prompts = [without_last_blank(prompt) for prompt in PROMPTS]
    assert kernel.batch(prompts, LABELS) == rows_of_the_papers(*parts, scoring)


@every_scoring
def test_methods_get_the_scores_of_labels_with_their_blank(parts: Any, scoring: Any) -> None:
    kernel = CausalLMKernel(*parts, label_scoring=scoring, last_blank="label")
    features = kernel.features(PROMPTS, LABELS, {"probabilities", "log_probabilities"})
    assert features["probabilities"] == rows_of_the_papers(*parts, scoring)


@pytest.mark.parametrize(("scoring", "is_same"), [("last", False), ("first", False), ("full", True)])
def test_the_place_of_the_blank_matters_unless_all_tokens_are_scored(parts: Any, scoring: Any, is_same: bool) -> None:
    """With all tokens, the blank is part of the text that is scored either way."""
    in_prompt = CausalLMKernel(*parts, label_scoring=scoring).batch(PROMPTS, LABELS)
    in_label = CausalLMKernel(*parts, label_scoring=scoring, last_blank="label").batch(PROMPTS, LABELS)
    assert (in_prompt == [pytest.approx(row, abs=0.01) for row in in_label]) is is_same


@pytest.mark.parametrize("scoring", get_args(LabelScoring))
def test_methods_get_the_scores_of_a_run(parts: Any, scoring: Any) -> None:
    kernel = CausalLMKernel(*parts, label_scoring=scoring)
    features = kernel.features(PROMPTS, LABELS, {"probabilities"})
    assert features["probabilities"] == [pytest.approx(row, abs=1e-6) for row in kernel.batch(PROMPTS, LABELS)]


def test_the_prompt_is_shown_as_it_is_read(parts: Any) -> None:
    kernel = CausalLMKernel(*parts, last_blank="label")
    assert kernel.rendered(["question: who? answer: "]) == ["question: who? answer:"]


@pytest.mark.parametrize("feature", ["hidden_states", "full_vocabulary_logits"])
def test_features_are_those_of_the_prompt_as_it_is_read(parts: Any, feature: str) -> None:
    found = getattr(CausalLMKernel(*parts, last_blank="label"), feature)(PROMPTS)
    expected = getattr(CausalLMKernel(*parts), feature)([without_last_blank(prompt) for prompt in PROMPTS])
    assert found == pytest.approx(expected, abs=1e-5)


def test_the_option_is_in_the_identity_unless_it_is_the_default(parts: Any) -> None:
    without_option = CausalLMKernel(*parts)
    with_default = CausalLMKernel(*parts, last_blank="prompt")
    with_other_value = CausalLMKernel(*parts, last_blank="label")

    assert identity_of(with_default) == identity_of(without_option)
    assert identity_of(with_other_value) != identity_of(without_option)


def test_the_option_is_in_the_signature_unless_it_is_the_default(parts: Any) -> None:
    benchmark = Normal(0, datasets=["mini"], limit=3)

    with_default = str(benchmark(CausalLMKernel(*parts, last_blank="prompt")).signature)
    with_other_value = str(benchmark(CausalLMKernel(*parts, last_blank="label")).signature)

    assert with_default == str(benchmark(CausalLMKernel(*parts)).signature)
    assert "last_blank" not in with_default
    assert "last_blank=label" in with_other_value


def test_a_store_does_not_mix_predictions_with_different_places_of_the_blank(parts: Any, tmp_path: Any) -> None:
    benchmark = Normal(0, datasets=["mini"], limit=3)
    store = tmp_path / "store.sqlite"
    benchmark(CausalLMKernel(*parts, last_blank="prompt"), store=store)
    kernel = CausalLMKernel(*parts, last_blank="label")

    result = benchmark(kernel, store=store, recheck=False, return_outputs=True)

    prompts = [query.prompt for query in benchmark[0].all_queries()]
    rows = kernel.batch(prompts, benchmark[0].get_label_space())
    for record, row in zip(result.outputs["mini"], rows, strict=True):
        assert record["predicted_probabilities"] == pytest.approx(row, abs=1e-5)

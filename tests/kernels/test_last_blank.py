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


def papers(model: Any, tokenizer: Any, prompt: str, labels: list[str], scoring: str) -> list[float]:
    """What the methods' papers score: " " + label after a prompt without a blank, one plain call for each label."""
    start = tokenizer(prompt.rstrip(" "))["input_ids"]
    scores = []
    for label in labels:
        ids = tokenizer(prompt.rstrip(" ") + " " + label)["input_ids"]
        assert ids[: len(start)] == start
        with torch.no_grad():
            logs = model(torch.tensor([ids], device=model.device)).logits[0].double().log_softmax(-1)
        rows = range(len(start), len(ids))
        if scoring == "full":
            scores.append(sum(logs[row - 1, ids[row]].item() for row in rows))
        else:
            scores.append(logs[len(start) - 1, ids[rows[-1 if scoring == "last" else 0]]].item())
    return torch.tensor(scores, dtype=torch.float64).softmax(0).tolist()


@pytest.fixture(scope="module")
def parts(make_model: Any, make_tokenizer: Any) -> tuple[Any, Any]:
    return make_model("Llama"), make_tokenizer(add_start=True)


@pytest.mark.parametrize("scoring", ["last", "first", "full"])
def test_labels_with_their_blank_after_a_prompt_without(parts: Any, scoring: Any) -> None:
    kernel = CausalLMKernel(*parts, label_scoring=scoring, last_blank="label")
    expected = [pytest.approx(papers(*parts, prompt, LABELS, scoring), abs=1e-6) for prompt in PROMPTS]
    assert kernel.batch(PROMPTS, LABELS) == expected
    assert kernel.batch([prompt.rstrip() for prompt in PROMPTS], LABELS) == expected
    joint = kernel.features(PROMPTS, LABELS, {"probabilities", "log_probabilities"})
    assert joint["probabilities"] == expected
    default = CausalLMKernel(*parts, label_scoring=scoring).batch(PROMPTS, LABELS)
    equal = default == [pytest.approx(row, abs=0.01) for row in joint["probabilities"]]
    assert equal is (scoring == "full")  # the blank is part of the text that is scored either way


@pytest.mark.parametrize("scoring", get_args(LabelScoring))
def test_methods_get_the_scores_of_a_run(parts: Any, scoring: Any) -> None:
    kernel = CausalLMKernel(*parts, label_scoring=scoring)
    joint = kernel.features(PROMPTS, LABELS, {"probabilities"})
    assert joint["probabilities"] == [pytest.approx(row, abs=1e-6) for row in kernel.batch(PROMPTS, LABELS)]


def test_features_are_those_of_the_prompt_as_it_is_read(parts: Any) -> None:
    kernel = CausalLMKernel(*parts, last_blank="label")
    assert kernel.rendered(PROMPTS) == [prompt.rstrip(" ") for prompt in PROMPTS]
    for feature in ("hidden_states", "full_vocabulary_logits"):
        found = getattr(kernel, feature)(PROMPTS)
        expected = getattr(CausalLMKernel(*parts), feature)([prompt.rstrip(" ") for prompt in PROMPTS])
        assert found == pytest.approx(expected, abs=1e-5)


def test_stores_and_signatures_never_mix_the_two(parts: Any, tmp_path: Any) -> None:
    benchmark, store = Normal(0, datasets=["mini"], limit=3), tmp_path / "store.sqlite"
    results = []
    for options in ({}, {"last_blank": "prompt"}, {"last_blank": "label"}):
        kernel = CausalLMKernel(*parts, **options)
        results.append((identity_of(kernel), benchmark(kernel, store=store, recheck=False, return_outputs=True)))
    (first, default), (second, same), (third, other) = results
    assert first == second != third
    assert "last_blank" not in str(default.signature)
    assert str(default.signature) == str(same.signature)
    assert "last_blank=label" in str(other.signature)
    prompts = [query.prompt for query in benchmark[0].all_queries()]
    expected = CausalLMKernel(*parts, last_blank="label").batch(prompts, benchmark[0].get_label_space())
    found = [record["predicted_probabilities"] for record in other.outputs["mini"]]
    assert found == [pytest.approx(row, abs=1e-5) for row in expected]
    assert default.outputs == same.outputs != other.outputs

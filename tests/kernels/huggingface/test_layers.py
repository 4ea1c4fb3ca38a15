"""States of layers and predictions with one replaced, against forward passes whose layers are called one by one."""

from __future__ import annotations

from typing import Any

import pytest

torch = pytest.importorskip("torch")
pytest.importorskip("transformers")

from StaICC.kernels.huggingface.kernel import CausalLMKernel  # noqa: E402

LABELS = ["person", "location", "number"]
PROMPTS = [f"question: who wrote {'good ' * n}{n}? answer: " for n in (3, 0, 5, 1)]


@pytest.mark.parametrize("family", ["Llama", "GPT2", "OPT", "GPTNeoX", "Gemma2"])
def test_states_are_those_of_single_passes(make_model: Any, tokenizer: Any, family: str) -> None:
    model = make_model(family)
    kernel = CausalLMKernel(model, tokenizer, token_budget=64)
    found = kernel.layer_states(PROMPTS)
    assert found.shape == (4, 2, 32)
    for prompt, states in zip(PROMPTS, found, strict=True):
        ids = torch.tensor([tokenizer(prompt)["input_ids"]])
        with torch.no_grad():
            hidden = model(ids, output_hidden_states=True).hidden_states  # the last one is normalised
        assert states[0] == pytest.approx(hidden[1][0, -1].numpy(), abs=1e-4)
    last = {}
    for layer in range(2):  # the state of the prompt itself changes nothing
        rows = [
            kernel.patched([prompt], LABELS, layer, row[layer])[0] for prompt, row in zip(PROMPTS, found, strict=True)
        ]
        assert rows == [pytest.approx(row, abs=1e-5) for row in kernel.batch(PROMPTS, LABELS)]
        last[layer] = kernel.patched(PROMPTS, LABELS, layer, found[2][layer])
    expected = kernel.batch(PROMPTS, LABELS)[2]
    assert last[1] == [pytest.approx(expected, abs=1e-5)] * 4  # after the last layer nothing else is read
    assert last[0] != last[1]
    assert kernel.batch(PROMPTS, LABELS)[2] == pytest.approx(expected, abs=1e-6)  # no hook is left


def test_patched_predictions_are_those_of_layers_called_one_by_one(model: Any, tokenizer: Any) -> None:
    kernel = CausalLMKernel(model, tokenizer, label_scoring="first", last_blank="label")
    vector = torch.linspace(-1, 1, 32)
    found = kernel.patched(PROMPTS, LABELS, 0, vector.tolist())
    tokens = [tokenizer(f" {label}")["input_ids"][0] for label in LABELS]
    for prompt, row in zip(PROMPTS, found, strict=True):
        ids = torch.tensor([tokenizer(prompt.rstrip(" "))["input_ids"]])
        places = torch.arange(ids.shape[1])[None]
        with torch.no_grad():
            state = model.model.embed_tokens(ids)
            turns = model.model.rotary_emb(state, places)
            mask = torch.full((ids.shape[1],) * 2, -torch.inf).triu(1)[None, None]
            for number, layer in enumerate(model.model.layers):
                state = layer(state, attention_mask=mask, position_ids=places, position_embeddings=turns)
                state = state[0] if isinstance(state, tuple) else state
                if number == 0:
                    state[0, -1] = vector
            logits = model.lm_head(model.model.norm(state))[0, -1, tokens]
        assert row == pytest.approx(logits.double().softmax(0).tolist(), abs=1e-5)

"""Warnings of a run about labels that share tokens and prompts near the length limit: each once, and never a score."""

from __future__ import annotations

import math

import pytest

from StaICC import Dataset, Normal, Suite
from StaICC.kernels.huggingface.kernel import CausalLMKernel

pytest.importorskip("torch")
pytest.importorskip("transformers")

ROWS = [(f"who wrote {i}?", i % 3) for i in range(40)]


def data(*labels):
    return Dataset.from_rows(ROWS, name="own", label_space=labels)


def said(result, text):
    return [warning for warning in result.warnings if text in warning]


@pytest.fixture(scope="module")
def model(make_model):
    return make_model("Llama")


@pytest.fixture(scope="module")
def tokenizer(make_tokenizer):
    return make_tokenizer()


def test_labels_that_share_their_token(model, tokenizer):
    shared = data("x person", "y person", "number")
    result = Suite(k=1, datasets=[shared], limit=1)(CausalLMKernel(model, tokenizer))
    (warning,) = said(result, "scored by the same token")
    assert warning == (
        "Suite, own: 2 of 3 labels are scored by the same token as another label, such as 'x person', 'y person', and "
        "cannot be told apart. Use label_scoring='full' or other label words"
    )
    full = CausalLMKernel(model, tokenizer, label_scoring="full")
    assert not said(Normal(k=1, datasets=[shared], limit=1)(full), "scored by the same token")
    apart = data("person", "location", "number")
    assert not said(Normal(k=1, datasets=[apart], limit=1)(CausalLMKernel(model, tokenizer)), "scored by")


def test_prompts_near_the_length_limit(model, tokenizer):
    benchmark = Normal(k=2, datasets=[data("person", "location", "number")], limit=2)
    longest = max(len(tokenizer(prompt)["input_ids"]) for prompt in benchmark[0].prompt_set())
    room = math.ceil(longest / 0.9)
    expected = (
        f"the longest prompt has {longest} tokens, and the model reads {longest + 2} at most. Longer prompts fail"
    )
    near = benchmark(CausalLMKernel(model, tokenizer, max_length=longest + 2))
    assert len(said(near, expected)) == 1
    far = benchmark(CausalLMKernel(model, tokenizer, max_length=room))
    assert not said(far, "the longest prompt")
    assert near.averaged == far.averaged

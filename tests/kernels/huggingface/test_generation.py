"""Continuations that are sampled."""

from __future__ import annotations

from typing import Any

import pytest

torch = pytest.importorskip("torch")
transformers = pytest.importorskip("transformers")

from StaICC.kernels.huggingface.generation import StoppingCriterion, generate  # noqa: E402
from StaICC.kernels.huggingface.kernel import CausalLMKernel  # noqa: E402


@pytest.mark.parametrize("prefix_reuse", [True, False])
def test_each_step_of_a_sample_has_noise_of_its_own(make_model: Any, tokenizer: Any, prefix_reuse: bool) -> None:
    """At a temperature of 100 the noise alone decides: the same noise at each step would choose one token again."""
    kernel = CausalLMKernel(make_model("Llama"), tokenizer, prefix_reuse=prefix_reuse)
    prompt = tuple(tokenizer("text: Rain and Snow\nlabel: ")["input_ids"])
    never = StoppingCriterion(tokenizer, end_tokens=[], stop=[])
    (tokens,) = generate(kernel.runner(), [prompt], max_new_tokens=8, stopping=never, temperature=100.0, seed=1)
    assert len(tokens) == 8
    assert len(set(tokens)) >= 5, f"eight steps chose only these tokens: {sorted(set(tokens))}"

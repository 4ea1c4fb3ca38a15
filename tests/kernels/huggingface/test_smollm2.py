"""The model that needs no hub: fetched, checked, kept once."""

from __future__ import annotations

import pytest

from StaICC.kernels.huggingface import source as smollm2


@pytest.mark.slow
@pytest.mark.usefixtures("smollm2")
def test_a_real_language_model():
    """Fetched, read, batched and one by one, and it knows a capital."""
    import torch

    from StaICC.kernels.huggingface.kernel import CausalLMKernel
    from StaICC.kernels.huggingface.kernel import standard_ICL_inference_with_torch_Causal_LM as standard

    kernel = CausalLMKernel.from_spec("smollm2", device="cpu")
    identity = kernel.identity()
    assert (identity.who["files"], identity.who["dtype"]) == (smollm2.GGUF_SHA256, "float32")
    demonstrations = "review: a joy to watch sentiment: positive\nreview: dull and long sentiment: negative\n"
    reviews = ["I loved it", "a waste of two hours", "moving and funny", "the worst film of the year"]
    labels = ["negative", "positive"]
    prompts = [f"{demonstrations}review: {review} sentiment: " for review in reviews]
    rows = kernel.batch(prompts, labels)
    assert kernel.identity() == identity
    tokens = [kernel.tokenizer(label)["input_ids"][-1] for label in labels]
    for prompt, row in zip(prompts, rows, strict=True):
        with torch.no_grad():
            logits = kernel.model(**kernel.tokenizer(prompt, return_tensors="pt")).logits[0, -1, tokens]
        assert row == pytest.approx(torch.softmax(logits.double(), 0).tolist(), abs=1e-4)
        alone = standard(prompt=prompt, model=kernel.model, tokenizer=kernel.tokenizer, label_space=labels)
        assert row == pytest.approx(alone, abs=1e-4)
    assert kernel.generate(["The capital of France is"], 4, ["\n", "."])[0].strip() == "Paris"

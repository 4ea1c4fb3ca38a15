"""Models that their user compiled run, and are unidentified."""

from __future__ import annotations

import pytest

from StaICC import Normal
from StaICC.errors import ArgumentError
from StaICC.kernels.huggingface.kernel import CausalLMKernel

torch = pytest.importorskip("torch")
pytest.importorskip("transformers")


def whole(model):
    return torch.compile(model, backend="eager")


def layers(model):
    for layer in model.model.layers:
        layer.compile(backend="eager")
    return model


@pytest.mark.parametrize("compiled", [whole, layers])
def test_they_run_without_a_store_or_with_a_name(compiled, make_model, make_tokenizer, tmp_path):
    benchmark = Normal(datasets=["mini"], limit=1, k=0)
    expected = benchmark(CausalLMKernel(make_model("Llama", max_position_embeddings=512), make_tokenizer()))
    kernel = CausalLMKernel(compiled(make_model("Llama", max_position_embeddings=512)), make_tokenizer())
    assert kernel.identity().unidentified
    assert benchmark(kernel, progress=False).divided["mini"]["accuracy"] == expected.divided["mini"]["accuracy"]
    with pytest.raises(ArgumentError, match="model_name"):
        benchmark(kernel, store=tmp_path / "run.sqlite")
    for _ in range(2):
        assert benchmark(kernel, store=tmp_path / "run.sqlite", model_name="compiled").complete

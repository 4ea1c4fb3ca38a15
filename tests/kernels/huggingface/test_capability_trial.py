"""The trial of how a model may be run: what it finds, and when it is repeated."""

from __future__ import annotations

from typing import Any

import pytest

from StaICC import load_kernel
from StaICC.kernels.huggingface.capability_trial import examined
from StaICC.kernels.huggingface.forward import Forward

torch = pytest.importorskip("torch")
pytest.importorskip("transformers")


@pytest.mark.usefixtures("smollm2")
def test_a_real_model_in_bfloat16_is_batched_on_every_processor() -> None:
    """Without instructions for bfloat16, products round otherwise in a batch, also that with the output matrix."""
    kernel = load_kernel("smollm2", dtype="bfloat16", device="cpu")
    threads = torch.get_num_threads()
    torch.set_num_threads(2)  # a single one rounds alike
    try:
        can = examined(Forward(kernel.model)).can
    finally:
        torch.set_num_threads(threads)
    assert can.reason == ""
    assert (can.head, can.transform, can.sharing) == ("rows", "", True)


@pytest.mark.parametrize(
    ("family", "transform"), [("Llama", ""), ("Gemma2", "final_logit_softcapping"), ("Cohere", "logit_scale")]
)
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_the_transformation_of_logits_is_found(make_model: Any, family: str, transform: str, dtype: Any) -> None:
    model = make_model(family, initializer_range=0.5).to(dtype)  # logits so large that the transformation matters
    can = examined(Forward(model)).can
    assert (can.reason, can.transform) == ("", transform)


def test_a_method_that_is_replaced_after_the_trial_is_noticed(make_model: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    model = make_model("Llama")
    assert examined(Forward(model)).can.reason == ""
    layer_class = type(model.model.layers[0].mlp)
    original = layer_class.forward
    monkeypatch.setattr(layer_class, "forward", lambda self, states: original(self, states))
    assert "forward" in examined(Forward(model)).can.reason

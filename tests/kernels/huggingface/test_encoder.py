"""A sentence encoder for retrieval: the mean of its states, and its files in the signature."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import pytest

from StaICC import Normal
from StaICC.kernels.ppm import PPMKernel
from StaICC.methods.run import Method
from StaICC.methods.text_encoders import encoder

torch = pytest.importorskip("torch")
transformers = pytest.importorskip("transformers")
numpy = pytest.importorskip("numpy")

TEXTS = ["a city", "the good people of the city", "?", "who wrote the play about good and bad people " * 20]


@pytest.fixture
def folder(make_tokenizer: Any, tmp_path: Path) -> Path:
    sizes = {"hidden_size": 16, "num_hidden_layers": 2, "num_attention_heads": 2, "intermediate_size": 32}
    with torch.random.fork_rng():
        torch.manual_seed(3)
        model = transformers.BertModel(transformers.BertConfig(vocab_size=384, max_position_embeddings=128, **sizes))
    model.save_pretrained(tmp_path / "encoder")
    make_tokenizer(pad_token="<|end|>").save_pretrained(tmp_path / "encoder")
    return tmp_path / "encoder"


def means(folder: Path, texts: list[str]) -> Any:
    """One text at a time, without padding."""
    model = transformers.BertModel.from_pretrained(folder).eval()
    tokenizer = transformers.AutoTokenizer.from_pretrained(folder)
    rows = [tokenizer(text)["input_ids"][:128] for text in texts]
    with torch.no_grad():
        return torch.stack([model(torch.tensor([row])).last_hidden_state[0].mean(0) for row in rows]).numpy()


def test_an_encoding_is_the_mean_of_the_last_states(folder: Path, caplog: pytest.LogCaptureFixture) -> None:
    assert encoder(f"hf:{folder}")(TEXTS * 9) == pytest.approx(means(folder, TEXTS * 9), abs=1e-5)
    assert "9 of 36 texts are longer" in caplog.text


def test_topk_shows_the_nearest_and_is_signed_by_the_files(folder: Path, tmp_path: Path) -> None:
    benchmark = Normal(2, datasets=["mini"], limit=3)
    method = Method("topk", PPMKernel(), encoder=f"hf:{folder}")
    shown = method.prepare(benchmark[0]).demonstration_lists()[:3]
    pool, tests = benchmark[0].demonstration_set(), benchmark[0].test_set()
    vectors = means(folder, [" ".join(pool[place][0]) for place in range(len(pool))])
    for number, places in enumerate(shown):
        distances = ((vectors - means(folder, [" ".join(tests.get_input_text(number))])) ** 2).sum(1)
        assert list(places) == distances.argsort(kind="stable")[:2].tolist()
    signature = str(method.run(benchmark).signature)
    copied = shutil.copytree(folder, tmp_path / "copy")
    other = Method("topk", PPMKernel(), encoder=f"hf:{copied}")
    assert str(other.run(benchmark).signature) == signature
    (copied / "config.json").write_text((copied / "config.json").read_text("utf-8") + " ", "utf-8")
    changed = str(other.run(benchmark).signature)
    assert "encoder=hf-" in changed
    assert changed != signature

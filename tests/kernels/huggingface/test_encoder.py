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


LIMIT = 128
"""Tokens that the encoder reads."""


@pytest.fixture
def folder(make_tokenizer: Any, tmp_path: Path) -> Path:
    """Return a folder with a tiny random encoder and its tokenizer."""
    sizes = {"hidden_size": 16, "num_hidden_layers": 2, "num_attention_heads": 2, "intermediate_size": 32}
    with torch.random.fork_rng():
        torch.manual_seed(3)
        model = transformers.BertModel(transformers.BertConfig(vocab_size=384, max_position_embeddings=LIMIT, **sizes))
    model.save_pretrained(tmp_path / "encoder")
    make_tokenizer(pad_token="<|end|>").save_pretrained(tmp_path / "encoder")
    return tmp_path / "encoder"


def mean_states(folder: Path, texts: list[str]) -> Any:
    """Return the mean of the last states of each text, one text at a time, without padding."""
    model = transformers.BertModel.from_pretrained(folder).eval()
    tokenizer = transformers.AutoTokenizer.from_pretrained(folder)
    means = []
    for text in texts:
        ids = torch.tensor([tokenizer(text)["input_ids"][:LIMIT]])
        with torch.no_grad():
            means.append(model(ids).last_hidden_state[0].mean(0))
    return torch.stack(means).numpy()


def test_an_encoding_is_the_mean_of_the_last_states(folder: Path) -> None:
    assert encoder(f"hf:{folder}")(TEXTS * 9) == pytest.approx(mean_states(folder, TEXTS * 9), abs=1e-5)


def test_texts_that_are_cut_are_counted_in_a_warning(folder: Path, caplog: pytest.LogCaptureFixture) -> None:
    encoder(f"hf:{folder}")(TEXTS * 9)  # the last one of four texts is too long
    assert "9 of 36 texts are longer" in caplog.text


def test_topk_shows_the_nearest_demonstrations(folder: Path) -> None:
    experimentor = Normal(2, datasets=["mini"], limit=3)[0]
    method = Method("topk", PPMKernel(), encoder=f"hf:{folder}")
    shown = method.prepare(experimentor).demonstration_lists()

    pool, tests = experimentor.demonstration_set(), experimentor.test_set()
    pool_vectors = mean_states(folder, [" ".join(pool[index][0]) for index in range(len(pool))])
    for number in range(3):
        test_vector = mean_states(folder, [" ".join(tests.get_input_text(number))])
        distances = ((pool_vectors - test_vector) ** 2).sum(1)
        two_nearest = distances.argsort(kind="stable")[:2].tolist()
        assert list(shown[number]) == two_nearest, f"test example {number}"


def signature_of_topk(folder: Path) -> str:
    """Return the signature of a run whose demonstrations are the nearest ones by an encoder."""
    method = Method("topk", PPMKernel(), encoder=f"hf:{folder}")
    return str(method.run(Normal(2, datasets=["mini"], limit=3)).signature)


def test_the_signature_is_the_same_for_a_copy_of_the_files(folder: Path, tmp_path: Path) -> None:
    copied = shutil.copytree(folder, tmp_path / "copy")
    assert "encoder=hf-" in signature_of_topk(folder)
    assert signature_of_topk(copied) == signature_of_topk(folder)


def test_the_signature_changes_with_a_file_of_the_encoder(folder: Path) -> None:
    before = signature_of_topk(folder)
    config = folder / "config.json"
    config.write_text(config.read_text("utf-8") + " ", "utf-8")
    assert signature_of_topk(folder) != before

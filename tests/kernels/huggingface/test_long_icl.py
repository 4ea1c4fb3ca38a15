"""LongICL through the prefix-reusing kernel: contexts once, limits named, text where it is due."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest

from StaICC.long_icl.cards import task_card
from tests.long_icl.conftest import make, write_small
from tests.tiny_models import random_llama, train_tokenizer

torch = pytest.importorskip("torch")
transformers = pytest.importorskip("transformers")
tokenizers = pytest.importorskip("tokenizers")

from StaICC.kernels.huggingface.kernel import CausalLMKernel  # noqa: E402
from StaICC.kernels.text_inference import text_inference  # noqa: E402

LABELS = list(enumerate(task_card("goemotions").labels))


@pytest.fixture(scope="module")
def tokenizer() -> Any:
    comments = [f'comment: train text {i} of {label} "yes"\nemotion category: {label}\n' for i, label in LABELS]
    return transformers.PreTrainedTokenizerFast(tokenizer_object=train_tokenizer(comments * 3, 600))


def model(tokenizer: Any, positions: int = 32768) -> Any:
    more = {"intermediate_size": 64, "num_key_value_heads": 1, "bos_token_id": None, "eos_token_id": None}
    return random_llama(tokenizer, max_position_embeddings=positions, **more)


@pytest.mark.parametrize(("on_error", "text"), [("raise", False), ("collect", True)])
def test_the_models_limit(tmp_path: Path, tokenizer: Any, on_error: Any, text: bool) -> None:
    benchmark = make(write_small(tmp_path), ["goemotions"], (1, 2, 3), 3)
    limit = len(tokenizer(benchmark[0].context(2)).input_ids)  # the context fits, the query does not
    kernel = CausalLMKernel(model(tokenizer, limit), tokenizer)
    result = benchmark(text_inference(kernel, 4) if text else kernel, on_error=on_error)
    own, details = result.divided["goemotions"], result.details["goemotions"]
    assert own["1R"] is not None
    assert own["2R"] is own["3R"] is own["mean"] is None
    for name in ("2R", "3R"):
        assert "longer than the model's limit (3 of 3 queries" in details.missing[name]
        assert re.search(r"has \d+ tokens.*the model reads \d+ at most", details.missing[name])
    assert (details.scored, details.failed) == (3, 6)
    assert set(details.conditions[2].predictions) == {None}

"""LongICL through the prefix-reusing kernel: contexts once, limits named, text where it is due."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest

from StaICC.long_icl.cards import task_card
from tests.long_icl.conftest import long_icl_on, write_small
from tests.tiny_models import random_llama, train_tokenizer

torch = pytest.importorskip("torch")
transformers = pytest.importorskip("transformers")
tokenizers = pytest.importorskip("tokenizers")

from StaICC.kernels.huggingface.kernel import CausalLMKernel  # noqa: E402
from StaICC.kernels.text_inference import text_inference  # noqa: E402

LABELS = task_card("goemotions").labels


@pytest.fixture(scope="module")
def tokenizer() -> Any:
    """Return a tokenizer that was trained on texts as those of the task."""
    comments = [
        f'comment: train text {number} of {label} "yes"\nemotion category: {label}\n'
        for number, label in enumerate(LABELS)
    ]
    return transformers.PreTrainedTokenizerFast(tokenizer_object=train_tokenizer(comments * 3, 600))


def model_that_reads(tokenizer: Any, tokens: int) -> Any:
    """Return a tiny model that reads so many tokens."""
    sizes = {"intermediate_size": 64, "num_key_value_heads": 1, "bos_token_id": None, "eos_token_id": None}
    return random_llama(tokenizer, max_position_embeddings=tokens, **sizes)


@pytest.mark.parametrize(("on_error", "writes_text"), [("raise", False), ("collect", True)])
def test_rounds_beyond_the_limit_of_the_model_are_undefined_with_the_reason(
    tmp_path: Path, tokenizer: Any, on_error: Any, writes_text: bool
) -> None:
    benchmark = long_icl_on(write_small(tmp_path), ["goemotions"], rounds=(1, 2, 3), limit=3)
    tokens_of_two_rounds = len(tokenizer(benchmark[0].context(2)).input_ids)
    model = model_that_reads(tokenizer, tokens_of_two_rounds)  # the context of two rounds fits, a query after it not
    kernel = CausalLMKernel(model, tokenizer)

    result = benchmark(text_inference(kernel, 4) if writes_text else kernel, on_error=on_error)

    scores, details = result.divided["goemotions"], result.details["goemotions"]
    assert scores["1R"] is not None
    for name in ("2R", "3R"):
        assert scores[name] is None
        assert "longer than the model's limit (3 of 3 queries" in details.missing[name]
        assert re.search(r"has \d+ tokens.*the model reads \d+ at most", details.missing[name])
    assert scores["mean"] is None
    assert (details.scored, details.failed) == (3, 6)
    predictions_of_round_3 = details.conditions[2].predictions
    assert predictions_of_round_3 == (None, None, None)

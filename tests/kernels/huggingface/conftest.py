"""What the tests of torch kernels share: a tokenizer, a model that no test changes, and the oracle."""

from __future__ import annotations

from collections.abc import Iterator
from types import SimpleNamespace
from typing import Any

import pytest


@pytest.fixture(autouse=True, scope="session")
def one_thread() -> Iterator[None]:
    """Small matrices are no faster on more threads, and much slower on a busy machine."""
    try:
        import torch
    except ImportError:  # some of the tests need none
        yield
        return
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


@pytest.fixture(scope="session")
def tokenizer(make_tokenizer: Any) -> Any:
    return make_tokenizer()


@pytest.fixture(scope="session")
def model(make_model: Any) -> Any:
    return make_model("Llama")


@pytest.fixture(scope="session")
def plain() -> Any:
    """The plainest way to the same numbers: one call of the complete model for each text, all positions."""
    import torch

    def call(model: Any, tokenizer: Any, text: str) -> Any:
        ids = tokenizer(text)["input_ids"]
        with torch.no_grad():
            given = torch.tensor([ids], device=next(model.parameters()).device)
            output = model(input_ids=given, output_hidden_states=True, use_cache=False)
        return ids, output.logits[0].double().cpu(), (output.hidden_states or [output.logits])[-1][0].cpu()

    def labels(model: Any, tokenizer: Any, text: str, labels: list[str]) -> list[float]:
        """Probabilities of the labels' last tokens."""
        tokens = [tokenizer(label)["input_ids"][-1] for label in labels]
        return call(model, tokenizer, text)[1][-1][tokens].softmax(0).tolist()

    def logs(model: Any, tokenizer: Any, text: str) -> list[float]:
        """Log-probability of each token after the first."""
        ids, logits, _ = call(model, tokenizer, text)
        rows = logits.log_softmax(-1)
        return [rows[place, token].item() for place, token in enumerate(ids[1:])]

    return SimpleNamespace(call=call, labels=labels, logs=logs)

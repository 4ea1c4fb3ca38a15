"""What the tests of torch kernels share: a tokenizer, a model that no test changes, and the oracle."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple

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
    """A tokenizer that was trained on a few texts."""
    return make_tokenizer()


@pytest.fixture(scope="session")
def model(make_model: Any) -> Any:
    """A tiny random Llama, which no test may change."""
    return make_model("Llama")


class PlainOutput(NamedTuple):
    """What one call of a model returns for a text, at each of its tokens."""

    ids: list[int]
    logits: Any
    states: Any
    """The last hidden states; for a model without any, the logits."""


class PlainCalls:
    """The plainest way to the numbers of a kernel: one call of the complete model for each text, without a cache."""

    @staticmethod
    def output(model: Any, tokenizer: Any, text: str) -> PlainOutput:
        import torch

        ids = tokenizer(text)["input_ids"]
        input_ids = torch.tensor([ids], device=next(model.parameters()).device)
        with torch.no_grad():
            output = model(input_ids=input_ids, output_hidden_states=True, use_cache=False)
        last_states = output.hidden_states[-1] if output.hidden_states else output.logits
        return PlainOutput(ids, output.logits[0].double().cpu(), last_states[0].cpu())

    @staticmethod
    def label_probabilities(model: Any, tokenizer: Any, prompt: str, labels: list[str]) -> list[float]:
        """Return the probabilities of the labels' last tokens as the next token of a prompt."""
        label_tokens = [tokenizer(label)["input_ids"][-1] for label in labels]
        next_token_logits = PlainCalls.output(model, tokenizer, prompt).logits[-1]
        probabilities: list[float] = next_token_logits[label_tokens].softmax(0).tolist()
        return probabilities

    @staticmethod
    def log_probabilities(model: Any, tokenizer: Any, text: str) -> list[float]:
        """Return the log-probability of each token of a text after the first one."""
        output = PlainCalls.output(model, tokenizer, text)
        log_probabilities = output.logits.log_softmax(-1)
        return [log_probabilities[index, token].item() for index, token in enumerate(output.ids[1:])]


@pytest.fixture(scope="session")
def plain() -> type[PlainCalls]:
    """The functions of ``PlainCalls``."""
    return PlainCalls

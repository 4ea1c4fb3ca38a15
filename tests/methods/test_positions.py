"""How many positions of a local model methods compute, beside the distinct prefixes of all that they need."""

from __future__ import annotations

import os
from itertools import pairwise
from typing import Any

import pytest

from StaICC import Normal
from StaICC.methods.many_shot import run_many_shot
from StaICC.methods.run import Method, run_all

pytestmark = pytest.mark.slow


class Positions:
    """Counts the positions that kernels compute from now on, and keeps their sequences."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        from StaICC.kernels.huggingface.batching import BatchRunner

        self.computed = 0
        self.sequences: set[tuple[int, ...]] = set()
        original = BatchRunner.run

        def run(runner: BatchRunner, sequences: Any, *arguments: Any, **keywords: Any) -> None:
            before = runner.computed
            original(runner, sequences, *arguments, **keywords)
            self.computed += runner.computed - before
            self.sequences.update(map(tuple, sequences))

        monkeypatch.setattr(BatchRunner, "run", run)

    @property
    def distinct(self) -> int:
        """Number of distinct prefixes of all sequences."""
        ordered = sorted(self.sequences)
        shared = sum(len(os.path.commonprefix(pair)) for pair in pairwise(ordered))  # noqa: RUF071
        return sum(map(len, ordered)) - shared


@pytest.fixture
def kernel(make_model: Any, make_tokenizer: Any, monkeypatch: pytest.MonkeyPatch) -> Any:
    """A small model for which attention costs nothing, as nearly in large models.

    Where attention between the prompts of a row costs more, some positions are computed twice.
    """
    from StaICC.kernels.huggingface.kernel import CausalLMKernel

    monkeypatch.setattr("StaICC.kernels.huggingface.forward.PAIR_COST", 0.0)
    return CausalLMKernel(make_model("Llama", max_position_embeddings=8192), make_tokenizer(), token_budget=1 << 14)


@pytest.mark.parametrize("variant", ["paper", "staicc"])
def test_all_methods(kernel: Any, variant: str, monkeypatch: pytest.MonkeyPatch) -> None:
    positions = Positions(monkeypatch)
    run_all(kernel, Normal(k=2, datasets=["mini"], limit=4), variant, 12)
    assert positions.computed <= 1.05 * positions.distinct


def test_several_k(kernel: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    def nested(k: int) -> Normal:
        return Normal(k, datasets=["mini"], limit=3, sampler="nested")

    method, positions = Method("vanilla", kernel), Positions(monkeypatch)
    for k in (2, 8, 32):
        method.run(nested(k))
    separate, positions.computed = positions.computed, 0
    run_many_shot(method, nested, [2, 8, 32])
    assert positions.computed <= 1.1 * positions.distinct
    assert positions.computed < 0.85 * separate

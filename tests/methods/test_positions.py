"""How many positions of a local model methods compute, next to the distinct prefixes of all that they need."""

from __future__ import annotations

import os
from typing import Any

import pytest

from StaICC import Normal
from StaICC.methods.many_shot import run_many_shot
from StaICC.methods.run import Method, run_all

pytestmark = pytest.mark.slow


class RecordedRuns:
    """Records what kernels compute: the number of positions, and the sequences of tokens that were to be computed."""

    def __init__(self) -> None:
        self.computed_positions = 0
        self.sequences: set[tuple[int, ...]] = set()

    def distinct_prefixes(self) -> int:
        """Return the number of positions that must be computed if each shared beginning is computed once.

        In sorted order, a sequence shares its longest beginning with the sequence before it.
        """
        count = 0
        sequence_before: tuple[int, ...] = ()
        for sequence in sorted(self.sequences):
            count += len(sequence) - len(os.path.commonprefix([sequence_before, sequence]))  # noqa: RUF071
            sequence_before = sequence
        return count


@pytest.fixture
def recorded(monkeypatch: pytest.MonkeyPatch) -> RecordedRuns:
    """What kernels compute from now on."""
    from StaICC.kernels.huggingface.batching import BatchRunner

    recorded = RecordedRuns()
    original_run = BatchRunner.run

    def run_and_record(runner: BatchRunner, sequences: Any, *arguments: Any, **keywords: Any) -> None:
        before = runner.computed
        original_run(runner, sequences, *arguments, **keywords)
        recorded.computed_positions += runner.computed - before
        recorded.sequences.update(map(tuple, sequences))

    monkeypatch.setattr(BatchRunner, "run", run_and_record)
    return recorded


@pytest.fixture
def kernel(make_model: Any, make_tokenizer: Any, monkeypatch: pytest.MonkeyPatch) -> Any:
    """A small model for which attention costs nothing, as nearly in large models.

    Where attention between the prompts of a row costs more, some positions are computed twice.
    """
    from StaICC.kernels.huggingface.kernel import CausalLMKernel

    monkeypatch.setattr("StaICC.kernels.huggingface.forward.PAIR_COST", 0.0)
    return CausalLMKernel(make_model("Llama", max_position_embeddings=8192), make_tokenizer(), token_budget=16_384)


@pytest.mark.parametrize("variant", ["paper", "staicc"])
def test_a_table_of_methods_computes_each_shared_beginning_about_once(
    kernel: Any, variant: str, recorded: RecordedRuns
) -> None:
    run_all(kernel, Normal(k=2, datasets=["mini"], limit=4), variant, calibration_number=12)

    assert recorded.computed_positions <= 1.05 * recorded.distinct_prefixes()


def nested_benchmark(k: int) -> Normal:
    """Return a benchmark in which the demonstrations of a smaller k are the first ones of a larger k."""
    return Normal(k, datasets=["mini"], limit=3, sampler="nested")


def test_runs_with_several_k_compute_each_shared_beginning_about_once(kernel: Any, recorded: RecordedRuns) -> None:
    run_many_shot(Method("vanilla", kernel), nested_benchmark, [2, 8, 32])

    assert recorded.computed_positions <= 1.1 * recorded.distinct_prefixes()


def test_runs_with_several_k_together_compute_less_than_separate_runs(kernel: Any, recorded: RecordedRuns) -> None:
    method = Method("vanilla", kernel)
    for k in (2, 8, 32):
        method.run(nested_benchmark(k))
    computed_separately = recorded.computed_positions

    recorded.computed_positions = 0
    run_many_shot(method, nested_benchmark, [2, 8, 32])

    assert recorded.computed_positions < 0.85 * computed_separately

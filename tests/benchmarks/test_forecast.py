"""Forecasts against the runs that they are about."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from StaICC import Normal, Suite, load_kernel
from StaICC.inference.identity import Identity


class Slow:
    """Predicts in a time that grows with the prompts, and counts its calls; like a served model, it counts tokens."""

    def __init__(self) -> None:
        self.prompts: list[str] = []
        self.tokens_used = (0, 0)
        self.seconds = 0.0

    def __call__(self, prompt: str, label_space: Sequence[str]) -> int:
        began = time.perf_counter()
        time.sleep(1e-4 * len(prompt))
        self.seconds += time.perf_counter() - began
        self.prompts.append(prompt)
        self.tokens_used = (self.tokens_used[0] + len(prompt.split()), self.tokens_used[1] + 2)
        return len(prompt) % len(label_space)


def test_counts_and_time_of_a_plain_function(tmp_path: Path) -> None:
    benchmark = Normal(datasets=["mini"], limit=20)
    function = Slow()
    found = benchmark.forecast(function, probe_seconds=0.3, model_name="slow", prices=(2.0, 10.0))
    probed = len(function.prompts)
    assert 0 < probed < 40
    function.seconds = 0.0
    result = benchmark(function, store=tmp_path / "run.sqlite", model_name="slow", progress=False)
    assert (found.queries, found.distinct, found.cached) == (40, 40, 0)
    assert result.provenance.predictors[0].computed == len(function.prompts) - probed == found.distinct
    assert found.seconds is not None
    assert function.seconds / 1.5 < found.seconds < function.seconds * 1.5
    words = sum(len(prompt.split()) for prompt in function.prompts[probed:])
    assert found.tokens == pytest.approx(words, rel=0.1)
    assert found.output_tokens == pytest.approx(80, rel=0.1)
    assert found.cost == pytest.approx((found.tokens * 2 + found.output_tokens * 10) / 1e6)
    assert not found.exact
    assert f"tokens          about {found.tokens:,}\n" in f"{found}\n"


def test_cached_predictions_and_a_store_that_does_not_exist(tmp_path: Path) -> None:
    kernel, path = load_kernel("ppm"), tmp_path / "run.sqlite"
    benchmark = Normal(datasets=["mini"], limit=10)
    assert benchmark.forecast(kernel, store=path, probe_seconds=0).cached == 0
    assert not path.exists()
    Normal(datasets=["mini"], limit=4)(kernel, store=path, progress=False)
    forecast = benchmark.forecast(kernel, store=path, probe_seconds=0.05)
    assert (forecast.queries, forecast.distinct, forecast.cached) == (20, 20, 8)
    benchmark(kernel, store=path, progress=False)
    done = benchmark.forecast(kernel, store=path, probe_seconds=0.05)
    assert (done.cached, done.seconds) == (20, 0.0)


def test_a_group_predicts_each_prompt_once() -> None:
    suite, function = Suite(datasets=["mini"], limit=3), Slow()
    forecast = suite.forecast(function, probe_seconds=0)
    assert (function.prompts, forecast.seconds) == ([], None)
    suite(function, progress=False)
    assert forecast.distinct == len(function.prompts) == len(set(function.prompts))
    assert forecast.queries == sum(len(experimentor) for member in suite.members.values() for experimentor in member)


@pytest.mark.parametrize(
    "options",
    [
        {},
        {"label_scoring": "first"},
        {"label_scoring": "full"},
        {"noisy_channel": True},
        {"noisy_channel": True, "variant": "0.1.1"},
        {"max_length": 90, "on_too_long": "drop-demonstrations"},
        {"prompt_format": "chat-turns"},
    ],
    ids=str,
)
def test_tokens_of_a_language_model_are_exact(
    make_model: Any, make_tokenizer: Any, options: dict[str, Any], counted: Counted
) -> None:
    from StaICC.kernels.huggingface.kernel import CausalLMKernel

    channel = options.pop("noisy_channel", False)
    tokenizer = make_tokenizer()
    tokenizer.chat_template = "{% for m in messages %}{{ m.role + m.content }}{% endfor %}reply:"
    kernel = CausalLMKernel(make_model("Llama", max_position_embeddings=4096), tokenizer, **options)
    benchmark = Normal(datasets=["mini"], limit=6, noisy_channel=channel)
    found = benchmark.forecast(kernel, probe_seconds=0, prices=(1e6, 0.0))
    benchmark(kernel, progress=False)
    assert found.exact
    assert found.tokens == counted.tokens == found.cost
    assert 0 < found.positions <= counted.positions
    assert found.output_tokens == 0
    assert found.limit == options.get("max_length", 4096)
    assert found.longest_prompt is not None
    assert found.longest_prompt <= found.limit


@dataclass
class Counted:
    """What models of transformers did."""

    tokens: int = 0
    """Of the prompts, without those that are computed again to check the first batch."""
    positions: int = 0
    """Without those of generated tokens."""
    kernel: Any = None
    """The class of kernels to use."""

    def clear(self) -> None:
        """Count from 0."""
        self.tokens = self.positions = 0


@pytest.fixture
def counted(monkeypatch: pytest.MonkeyPatch) -> Counted:
    """Count the work of all passes of models."""
    from StaICC.kernels.huggingface import batching
    from StaICC.kernels.huggingface.batching import BatchRunner
    from StaICC.kernels.huggingface.kernel import CausalLMKernel

    found = Counted()
    run, generate, check = BatchRunner.run, batching.generate_tokens, batching.last_positions

    def counting(self: Any, *arguments: Any) -> Any:
        counts = run(self, *arguments)
        found.tokens, found.positions = found.tokens + counts.tokens, found.positions + counts.computed
        return counts

    def generating(*arguments: Any) -> Any:
        tokens, counts = generate(*arguments)
        found.tokens += counts.tokens
        found.positions += counts.computed - sum(len(row) - 1 for row in tokens)
        return tokens, counts

    def checking(*arguments: Any) -> Any:
        before = found.tokens
        again = check(*arguments)
        found.tokens = before
        return again

    class CountedKernel(CausalLMKernel):
        """A kernel that states its identity, although its class is not the library's."""

        def identity(self) -> Identity:
            return super().identity()

        def generate(self, prompts: Any, *arguments: Any, **options: Any) -> Any:
            before = found.tokens
            texts = super().generate(prompts, *arguments, **options)
            found.tokens = before + sum(map(len, self.tokenizer(list(prompts))["input_ids"]))
            return texts

    found.kernel = CountedKernel
    monkeypatch.setattr(BatchRunner, "run", counting)
    monkeypatch.setattr(batching, "last_positions", checking)
    monkeypatch.setattr("StaICC.kernels.huggingface.kernel.generate_tokens", generating)
    return found

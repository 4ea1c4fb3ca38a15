"""Forecasts against the runs that they are about."""

from __future__ import annotations

import time
from collections.abc import Sequence
from pathlib import Path

import pytest

from StaICC import Normal, Suite
from StaICC.inference.forecast import Forecast
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


@pytest.mark.parametrize("probe_seconds", [1e-9, 60.0])
def test_the_tokens_of_a_probe_are_extrapolated_without_a_bias(probe_seconds: float) -> None:
    """A token for each character: however few prompts are predicted, all of them give the number of all tokens."""

    class Characters:
        def __init__(self) -> None:
            self.tokens_used = (1000, 50)  # of earlier runs, which are no part of the forecast
            self.prompts: list[str] = []

        def __call__(self, prompt: str, label_space: Sequence[str]) -> int:
            self.prompts.append(prompt)
            read, generated = self.tokens_used
            self.tokens_used = (read + len(prompt), generated + len(prompt))
            return 0

    benchmark = Normal(datasets=["mini"], limit=30)
    function = Characters()
    found = benchmark.forecast(function, probe_seconds=probe_seconds, model_name="characters")
    probed = len(function.prompts)
    assert 2 <= probed < found.distinct
    characters = sum(len(str(query.prompt)) for query in benchmark[0].all_queries())
    assert found.tokens == pytest.approx(characters, abs=1)
    assert found.output_tokens == pytest.approx(characters, abs=1)


def test_a_group_predicts_each_prompt_once() -> None:
    suite, function = Suite(datasets=["mini"], limit=3), Slow()
    forecast = suite.forecast(function, probe_seconds=0)
    assert (function.prompts, forecast.seconds) == ([], None)
    suite(function, progress=False)
    assert forecast.distinct == len(function.prompts) == len(set(function.prompts))
    assert forecast.queries == sum(len(experimentor) for member in suite.members.values() for experimentor in member)


def test_the_recheck_of_stored_predictions_is_in_the_forecast(tmp_path: Path) -> None:
    """Otherwise a resumed run with long prompts costs more than was said."""

    class Counting:
        tokens_used = (0, 0)

        def identity(self) -> Identity:
            return Identity({"model": "counting"})

        def forecast_prompts(self, prompts: Sequence[str], label_space: Sequence[str], **more: object) -> Forecast:
            return Forecast(tokens=sum(map(len, prompts)), positions=sum(map(len, prompts)), output_tokens=0)

        def batch(self, prompts: Sequence[str], label_space: Sequence[str]) -> list[list[float]]:
            self.tokens_used = self.tokens_used[0] + sum(map(len, prompts)), 0
            return [[0.5, 0.3, 0.2] for _ in prompts]

        def __call__(self, prompt: str, label_space: Sequence[str]) -> list[float]:
            return self.batch([prompt], label_space)[0]

    store = tmp_path / "run.sqlite"

    def benchmark(limit: int) -> Normal:
        return Normal(k=40, datasets=["mini"], limit=limit)

    benchmark(20)(Counting(), store=store)
    for limit in (25, 25):  # resumed, then complete
        forecast = benchmark(limit).forecast(Counting(), store=store, probe_seconds=0)
        kernel = Counting()
        result = benchmark(limit)(kernel, store=store)
        rechecked = result.provenance.predictors[0].rechecked  # another sample: as many characters, maybe one more
        assert rechecked > 0
        assert abs(forecast.rechecked - rechecked) <= 1
        assert forecast.tokens is not None
        assert abs(kernel.tokens_used[0] - forecast.tokens) <= 0.02 * sum(
            len(query.prompt) for query in benchmark(limit)[0].all_queries()
        )
    assert forecast.tokens == forecast.recheck_tokens
    assert "recheck tokens" in str(forecast)
    assert benchmark(25).forecast(Counting(), store=store, probe_seconds=0, recheck=False).tokens == 0

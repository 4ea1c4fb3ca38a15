"""Forecasts against the runs that they are about."""

from __future__ import annotations

import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from StaICC import Normal, Suite
from StaICC.inference.forecast import Forecast
from StaICC.inference.identity import Identity


class Slow:
    """Predicts in a time that grows with the prompts, by a clock of its own; like a served model, it counts tokens."""

    def __init__(self) -> None:
        self.prompts: list[str] = []
        self.tokens_used = (0, 0)
        self.seconds = 0.0

    def __call__(self, prompt: str, label_space: Sequence[str]) -> int:
        self.seconds += 1e-4 * len(prompt)
        self.prompts.append(prompt)
        self.tokens_used = (self.tokens_used[0] + len(prompt.split()), self.tokens_used[1] + 2)
        return len(prompt) % len(label_space)

    def clock(self) -> float:
        return self.seconds


class ForecastAndRun(NamedTuple):
    """A forecast, and the run that follows it: its result, its prompts and its seconds in the function."""

    forecast: Any
    result: Any
    prompts: list[str]
    seconds: float


@pytest.fixture(scope="module")
def forecast_and_run(tmp_path_factory: pytest.TempPathFactory) -> ForecastAndRun:
    """Twenty rows are in forty queries; prices are for a million tokens that are read, and that are generated."""
    benchmark = Normal(datasets=["mini"], limit=20)
    function = Slow()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("StaICC.benchmarks.forecast.CLOCK", function.clock)
        forecast = benchmark.forecast(function, probe_seconds=0.3, model_name="slow", prices=(2.0, 10.0))
    probed = len(function.prompts)
    assert 0 < probed < 40
    seconds_of_probe = function.seconds
    store = tmp_path_factory.mktemp("forecast") / "run.sqlite"
    result = benchmark(function, store=store, model_name="slow", progress=False)
    return ForecastAndRun(forecast, result, function.prompts[probed:], function.seconds - seconds_of_probe)


def test_a_forecast_has_the_queries_of_the_run(forecast_and_run: ForecastAndRun) -> None:
    forecast, result, prompts, _ = forecast_and_run

    assert (forecast.queries, forecast.distinct, forecast.cached) == (40, 40, 0)
    assert len(prompts) == forecast.distinct
    assert result.provenance.predictors[0].computed == forecast.distinct


def test_a_forecast_has_about_the_time_of_the_run(forecast_and_run: ForecastAndRun) -> None:
    forecast, _, _, seconds = forecast_and_run

    assert forecast.seconds is not None
    assert seconds / 1.5 < forecast.seconds < seconds * 1.5


def test_a_forecast_has_the_seconds_in_which_a_function_waits() -> None:
    """It waits 0.02 s for each of ten prompts. They take longer on a busy machine, but not 30 s."""

    def wait(prompt: str, label_space: Sequence[str]) -> int:
        time.sleep(0.02)
        return 0

    forecast = Normal(datasets=["mini"], limit=5).forecast(wait, probe_seconds=0.1, model_name="wait")

    assert forecast.distinct == 10
    assert forecast.seconds is not None
    assert 0.1 < forecast.seconds < 30


def test_a_forecast_has_about_the_tokens_and_the_cost_of_the_run(forecast_and_run: ForecastAndRun) -> None:
    """A token for each word of the prompts, and two for each of forty predictions."""
    forecast, _, prompts, _ = forecast_and_run

    words = sum(len(prompt.split()) for prompt in prompts)
    assert forecast.tokens == pytest.approx(words, rel=0.1)
    assert forecast.output_tokens == pytest.approx(2 * 40, rel=0.1)
    assert forecast.cost == pytest.approx((forecast.tokens * 2.0 + forecast.output_tokens * 10.0) / 1e6)


def test_the_text_of_a_forecast_says_that_it_is_an_estimate(forecast_and_run: ForecastAndRun) -> None:
    forecast = forecast_and_run.forecast

    assert not forecast.exact
    assert f"tokens          about {forecast.tokens:,}" in str(forecast).splitlines()


class Characters:
    """A model that reads and generates a token for each character of a prompt."""

    def __init__(self) -> None:
        self.tokens_used = (1000, 50)  # of earlier runs, which are no part of a forecast
        self.prompts: list[str] = []

    def __call__(self, prompt: str, label_space: Sequence[str]) -> int:
        self.prompts.append(prompt)
        read, generated = self.tokens_used
        self.tokens_used = (read + len(prompt), generated + len(prompt))
        return 0


@pytest.mark.parametrize("probe_seconds", [1e-9, 60.0], ids=["shortest probe", "longest probe"])
def test_the_tokens_of_a_probe_are_extrapolated_by_the_characters_of_all_prompts(probe_seconds: float) -> None:
    """However few prompts are predicted, all of them give the number of all tokens."""
    benchmark = Normal(datasets=["mini"], limit=30)
    function = Characters()

    forecast = benchmark.forecast(function, probe_seconds=probe_seconds, model_name="characters")

    assert 2 <= len(function.prompts) < forecast.distinct
    characters = sum(len(str(query.prompt)) for query in benchmark[0].all_queries())
    assert forecast.tokens == pytest.approx(characters, abs=1)
    assert forecast.output_tokens == pytest.approx(characters, abs=1)


def test_a_forecast_without_a_probe_predicts_nothing_and_has_no_time() -> None:
    function = Slow()

    forecast = Suite(datasets=["mini"], limit=3).forecast(function, probe_seconds=0)

    assert function.prompts == []
    assert forecast.seconds is None


def test_the_forecast_of_a_group_counts_each_prompt_once() -> None:
    suite, function = Suite(datasets=["mini"], limit=3), Slow()

    forecast = suite.forecast(function, probe_seconds=0)
    suite(function, progress=False)

    assert forecast.distinct == len(function.prompts)
    assert forecast.distinct == len(set(function.prompts))
    query_count = sum(len(experimentor) for member in suite.members.values() for experimentor in member)
    assert forecast.queries == query_count


class Counting:
    """A kernel that counts a token for each character of a prompt, and that forecasts its tokens itself."""

    def __init__(self) -> None:
        self.tokens_used = (0, 0)

    def identity(self) -> Identity:
        return Identity({"model": "counting"})

    def forecast_prompts(self, prompts: Sequence[str], label_space: Sequence[str], **more: object) -> Forecast:
        characters = sum(map(len, prompts))
        return Forecast(tokens=characters, positions=characters, output_tokens=0)

    def batch(self, prompts: Sequence[str], label_space: Sequence[str]) -> list[list[float]]:
        read, _ = self.tokens_used
        self.tokens_used = (read + sum(map(len, prompts)), 0)
        return [[0.5, 0.3, 0.2] for _ in prompts]

    def __call__(self, prompt: str, label_space: Sequence[str]) -> list[float]:
        return self.batch([prompt], label_space)[0]


def long_prompts(limit: int) -> Normal:
    """Return a benchmark with forty demonstrations in each prompt."""
    return Normal(k=40, datasets=["mini"], limit=limit)


@pytest.fixture
def store_of_twenty_rows(tmp_path: Path) -> Path:
    """A store with the predictions for the first 20 test rows."""
    store = tmp_path / "run.sqlite"
    long_prompts(limit=20)(Counting(), store=store)
    return store


@pytest.mark.parametrize("limit", [25, 20], ids=["a resumed run", "a complete store"])
def test_the_recheck_of_stored_predictions_is_in_the_forecast(store_of_twenty_rows: Path, limit: int) -> None:
    """Otherwise a resumed run with long prompts costs more than was said.

    The run draws another sample of the stored queries. Both samples fill the same budget of characters until the next
    prompt does not fit, so they differ by less than one prompt.
    """
    benchmark, kernel = long_prompts(limit), Counting()

    forecast = benchmark.forecast(Counting(), store=store_of_twenty_rows, probe_seconds=0)
    result = benchmark(kernel, store=store_of_twenty_rows)

    rechecked = result.provenance.predictors[0].rechecked
    assert rechecked > 0
    assert abs(forecast.rechecked - rechecked) <= 1
    assert forecast.tokens is not None
    tokens_of_run, _ = kernel.tokens_used
    tokens_of_longest_prompt = max(len(query.prompt) for query in benchmark[0].all_queries())
    assert abs(tokens_of_run - forecast.tokens) < tokens_of_longest_prompt


def test_a_complete_store_costs_its_recheck_only(store_of_twenty_rows: Path) -> None:
    forecast = long_prompts(limit=20).forecast(Counting(), store=store_of_twenty_rows, probe_seconds=0)

    assert forecast.tokens == forecast.recheck_tokens
    assert "recheck tokens" in str(forecast)


def test_a_complete_store_without_a_recheck_costs_nothing(store_of_twenty_rows: Path) -> None:
    forecast = long_prompts(limit=20).forecast(Counting(), store=store_of_twenty_rows, probe_seconds=0, recheck=False)

    assert forecast.tokens == 0

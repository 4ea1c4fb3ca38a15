"""A forecast of methods: they write their prompts with random features in the place of those of the model.

The prompts of most methods do not depend on what the model computes, so their number and tokens are exact. To find out,
methods write them twice, with different features: where the prompts differ, the forecast is an estimate.
"""

from __future__ import annotations

import random
from collections.abc import Sequence
from typing import Any

from StaICC.benchmarks import Benchmark, BenchmarkGroup
from StaICC.benchmarks.running import ForecastOptions, Tasks
from StaICC.errors import ArgumentError
from StaICC.inference import Answer, Failure, Inference, Part, RunOptions
from StaICC.inference.contract import Features, Forecast, Text
from StaICC.kernels.text_inference import TextInference
from StaICC.methods.features import Feature, FeatureCache, FeatureFunction, Key, packed_row
from StaICC.methods.run import Cost, Method, SharedFeatures, check_benchmark, chosen_methods, read_all, read_method
from StaICC.prompting import Query

_VOCABULARY = 8
"""Logits of the full vocabulary choose no prompt, so few are enough."""


def forecast_method(
    name: str,
    kernel: Inference,
    benchmarks: Sequence[Benchmark | BenchmarkGroup],
    variant: str = "paper",
    calibration_number: int = 128,
    options: Sequence[str] = (),
    **how: Any,
) -> Forecast:
    """Forecast the run of a method; the model computes the probe, and one hidden state where prompts depend on some.

    Args:
        name: A method, or ``"all"`` for the ten of Table 2.
        kernel: Any inference function.
        benchmarks: One benchmark, or one for each ``k``, smallest first.
        variant: As for a run.
        calibration_number: As for a run.
        options: Options of the method as ``NAME=VALUE``.
        **how: Those of :class:`~StaICC.benchmarks.running.ForecastOptions`.

    Returns:
        The forecast. ``exact`` is false where the prompts depend on what the model computes.

    Raises:
        ArgumentError: An argument is invalid, or the kernel lacks a required capability.
        OutputError: A prediction of the probe failed.

    Example:
        >>> from StaICC import Normal
        >>> from StaICC.kernels.ppm import PPMKernel
        >>> mini = Normal(datasets=["mini"], limit=4)
        >>> forecast_method("batch-calibration", PPMKernel(), [mini], probe_seconds=0).distinct
        8
    """
    chosen = ForecastOptions(**how)
    if name == "all":
        methods, _ = chosen_methods(kernel, variant, calibration_number, None, read_all(options))
    else:
        methods = [read_method(name, kernel, variant, calibration_number, options)]
    for benchmark in benchmarks:
        check_benchmark(benchmark)
    if len(methods) > 1 < len(benchmarks):
        raise ArgumentError(f"got {len(benchmarks)} benchmarks for all methods, expected one")
    groups = [benchmark for benchmark in benchmarks if isinstance(benchmark, BenchmarkGroup)]
    if groups and len(benchmarks) > 1:
        raise ArgumentError("several k need one benchmark: got a group. Run its members one by one")
    runs = [(method, benchmark) for method in methods for benchmark in benchmarks]
    first, second = (_tasks_of(runs, seed, chosen) for seed in (0, 1))
    certain = [chunk for _, chunk in first.chunks] == [chunk for _, chunk in second.chunks]
    return first.forecast(chosen, certain)


def _tasks_of(runs: Sequence[tuple[Method, Benchmark | BenchmarkGroup]], seed: int, options: ForecastOptions) -> Tasks:
    kernel = runs[0][0].kernel
    made_up = _MadeUp(kernel, seed)
    shared = SharedFeatures(runs, runs[0][1] is runs[-1][1])
    cache = FeatureCache(kernel, made_up)
    with options.context() as context:
        context.start([kernel])
        for method, benchmark in runs:
            members = benchmark.members.values() if isinstance(benchmark, BenchmarkGroup) else [benchmark]
            for member in members:
                if (error := method.refusal(member)) is not None:
                    if len(members) * len(runs) == 1:
                        raise error
                    continue
                for experimentor in member:
                    part = Part(f"{method.spec.title}, {experimentor.name}")
                    made_up.tasks.queries += len(experimentor)
                    with cache.running(context, recheck=False):
                        shared.compute(cache, experimentor, part)
                        method.predict(method.data(experimentor), cache, part, Cost(cache))
    return made_up.tasks


class _MadeUp:
    """Predictions in the place of those of a model: what the store has, and random features for all else."""

    def __init__(self, kernel: Inference, seed: int) -> None:
        self.kernel, self.tasks = kernel, Tasks(kernel)
        self._random = random.Random(seed)
        self._losses, self._sign = 0, 1 - 2 * seed  # in the second forecast, another text has the lowest loss
        self._width: int | None = None
        self._layers: Any = None

    def __call__(
        self, function: Inference, queries: Sequence[Query], part: Part, options: RunOptions
    ) -> list[Answer | Failure]:
        """Count the queries, and make up predictions of them."""
        stored = self.tasks.add(function, queries, options)
        keys = [(query.prompt, query.label_space) for query in queries]
        return [stored[key] if key in stored else self._prediction(function, key) for key in keys]

    def _prediction(self, function: Inference, key: Key) -> Answer:
        if isinstance(function, FeatureFunction):
            rows: dict[str, Any] = {
                name: packed_row(name, self._row(name, key), key[1]) for name in function.features(*key)
            }
            return Features(rows)
        if isinstance(function, TextInference):
            return Text(" ".join(str(self._random.randrange(10)) for _ in range(function.max_new_tokens)))
        row: list[float] = self._row("probabilities", key)
        return row

    def _row(self, feature: Feature, key: Key) -> Any:
        if feature == "losses":
            self._losses += 1
            return 1.0 + self._sign * self._losses * 1e-6
        kernel: Any = self.kernel
        if feature == "layers":
            self._layers = kernel.layer_states([key[0]])[0] if self._layers is None else self._layers
            return self._layers
        if feature == "hidden" and self._width is None:
            self._width = len(kernel.hidden_states([key[0]])[0])
        size = {"hidden": self._width or 0, "vocabulary": _VOCABULARY}.get(feature, len(key[1]))
        row = [self._random.uniform(-1.0, -0.01) for _ in range(size)]
        return [value / sum(row) for value in row] if feature == "probabilities" else row

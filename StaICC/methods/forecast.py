"""The forecast of methods: they write their prompts with random features in the place of those of the model.

The prompts of most methods do not depend on what the model computes, so their number and tokens are exact. To find out,
methods write them twice, with different features: where the prompts differ, the forecast is an estimate.
"""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from StaICC.benchmarks.benchmark import Benchmark
from StaICC.benchmarks.forecast import ForecastOptions, Tasks
from StaICC.benchmarks.group import BenchmarkGroup, members
from StaICC.errors import ArgumentError
from StaICC.inference.contract import Answer, Features, Inference, Text
from StaICC.inference.forecast import Forecast
from StaICC.inference.prompt_key import PromptKey
from StaICC.inference.replies import Failure
from StaICC.inference.runner import Part, RunOptions
from StaICC.kernels.text_inference import TextInference
from StaICC.methods.kernel_functions import FeatureFunction
from StaICC.methods.many_shot import refuse_groups
from StaICC.methods.model_caches import ModelCaches
from StaICC.methods.options import read_options
from StaICC.methods.packed_features import packed_row
from StaICC.methods.requests import VECTORS, Feature
from StaICC.methods.run import Method, check_benchmark, chosen_methods, log_skipped
from StaICC.methods.shared_features import SharedFeatures
from StaICC.prompting.prompt_writer import Query

_WIDTH = 8
"""Of made-up hidden states and logits of the full vocabulary."""


@dataclass(frozen=True, slots=True)
class _Variation:
    """How made-up features are chosen; the two forecasts of a method have different ones."""

    seed: int
    """Of the random features."""
    loss_step: float
    """By how much the loss of a text is above that of the text before."""


# Losses grow in the first forecast and fall in the second, so that another text has the lowest one.
_FIRST = _Variation(seed=0, loss_step=1e-6)
_SECOND = _Variation(seed=1, loss_step=-1e-6)


def forecast_method(
    name: str,
    kernel: Inference,
    benchmarks: Sequence[Benchmark | BenchmarkGroup],
    variant: str = "paper",
    calibration_number: int = 128,
    options: Sequence[str] = (),
    **how: Any,
) -> Forecast:
    """Forecast the run of a method; the model computes the probe, and for task vectors the states of one prompt.

    Args:
        name: A method, or ``"all"`` for the ten of Table 2.
        kernel: Any inference function.
        benchmarks: One benchmark, or one for each ``k``, smallest first.
        variant: As for a run.
        calibration_number: As for a run.
        options: Options of the method as ``NAME=VALUE``.
        **how: Those of :class:`~StaICC.benchmarks.forecast.ForecastOptions`.

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
    chosen, given = ForecastOptions(**how), read_options(options)
    methods, skipped = chosen_methods(kernel, None if name == "all" else [name], given, variant, calibration_number)
    log_skipped(skipped)
    for benchmark in benchmarks:
        check_benchmark(benchmark)
    if len(methods) > 1 < len(benchmarks):
        raise ArgumentError(f"got {len(benchmarks)} benchmarks for all methods, expected one")
    if len(benchmarks) > 1:
        refuse_groups(benchmarks)
    runs = [(method, benchmark) for method in methods for benchmark in benchmarks]
    fitting: list[tuple[Method, Any]] = []
    refusals = []
    for method, benchmark in runs:
        for member in members(benchmark).values():
            refusal = method.refusal(member)
            if refusal is None:
                fitting.append((method, member))
            else:
                refusals.append(refusal)
    if not fitting:
        raise refusals[0]
    first = _tasks_of(runs, fitting, _FIRST, chosen)
    second = _tasks_of(runs, fitting, _SECOND, chosen)
    first_prompts = [call.chunk for call in first.new_calls]
    second_prompts = [call.chunk for call in second.new_calls]
    return first.forecast(chosen, certain=first_prompts == second_prompts)


def _tasks_of(
    runs: Sequence[tuple[Method, Any]],
    fitting: Sequence[tuple[Method, Any]],
    variation: _Variation,
    options: ForecastOptions,
) -> Tasks:
    """Return what methods compute, with made-up features.

    Args:
        runs: The methods with their benchmarks, which may be groups.
        fitting: The methods with the members of their benchmarks that they can run on.
        variation: How the features are chosen.
        options: The options of the forecast.
    """
    first_method, _ = runs[0]
    kernel = first_method.kernel
    made_up = _MadeUp(kernel, variation)
    caches = ModelCaches(kernel, compute=made_up)
    same_data = runs[0][1] is runs[-1][1]
    first_requests = [(method.first_requests, benchmark) for method, benchmark in runs]
    shared = SharedFeatures(caches, first_requests, same_data)
    with options.context() as context:
        context.start([kernel])
        for method, benchmark in fitting:
            for number, experimentor in enumerate(benchmark):
                part = Part(f"{method.spec.title}, {experimentor.name}", number, len(benchmark))
                made_up.tasks.query_count += len(experimentor)
                caches.start(context, options.recheck)
                shared.compute(experimentor, part)
                method.outcome(experimentor, caches, part)
    return made_up.tasks


class _MadeUp:
    """Predictions in the place of those of a model: what the store has, and random features for all else."""

    def __init__(self, kernel: Inference, variation: _Variation) -> None:
        self.kernel = kernel
        self.tasks = Tasks(kernel)
        self._random = random.Random(variation.seed)
        self._loss_step = variation.loss_step
        self._loss_count = 0
        self._layers: Any = None

    def __call__(
        self, function: Inference, queries: Sequence[Query], part: Part, options: RunOptions
    ) -> list[Answer | Failure]:
        """Count the queries, and make up predictions of them."""
        stored = self.tasks.add(function, queries, options, part.parts - part.number)
        predictions: list[Answer | Failure] = []
        for query in queries:
            key = (query.prompt, query.label_space)
            predictions.append(stored[key] if key in stored else self._prediction(function, key))
        return predictions

    def _prediction(self, function: Inference, key: PromptKey) -> Answer:
        if isinstance(function, FeatureFunction):
            rows = {name: self._row(name, key) for name in function.features(*key)}
            return Features({name: packed_row(name, row, key[1]) for name, row in rows.items()})
        if isinstance(function, TextInference):
            return Text(" ".join(str(self._random.randrange(10)) for _ in range(function.max_new_tokens)))
        row: list[float] = self._row("probabilities", key)
        return row

    def _row(self, feature: Feature, key: PromptKey) -> Any:
        if feature == "losses":
            self._loss_count += 1
            return 1.0 + self._loss_count * self._loss_step
        if feature == "layers":  # whose number decides how many prompts follow
            if self._layers is None:
                kernel: Any = self.kernel
                prompt, _ = key
                self._layers = kernel.layer_states([prompt])[0]
            return self._layers
        _, label_space = key
        size = _WIDTH if feature in VECTORS else len(label_space)
        row = [self._random.uniform(-1.0, -0.01) for _ in range(size)]
        if feature == "probabilities":
            return [value / sum(row) for value in row]
        return row

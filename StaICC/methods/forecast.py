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
from StaICC.prompting.prompt_text import Prompt
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
    forecast_options = ForecastOptions(**how)
    method_options = read_options(options)
    names = None if name == "all" else [name]
    methods, skipped = chosen_methods(kernel, names, method_options, variant, calibration_number)
    log_skipped(skipped)
    _check_benchmarks(benchmarks, len(methods))

    runs = []
    for method in methods:
        for benchmark in benchmarks:
            runs.append(_PlannedRun(method, benchmark))
    runs_on_members = _runs_on_members(runs)
    first_tasks = _tasks_of(runs, runs_on_members, _FIRST, forecast_options)
    second_tasks = _tasks_of(runs, runs_on_members, _SECOND, forecast_options)
    # The methods ran twice with different made-up features. If they sent the same prompts, these do not depend on what
    # the model computes.
    first_prompts = [call.chunk for call in first_tasks.new_calls]
    second_prompts = [call.chunk for call in second_tasks.new_calls]
    prompts_are_known = first_prompts == second_prompts
    return first_tasks.forecast(forecast_options, certain=prompts_are_known)


@dataclass(frozen=True)
class _PlannedRun:
    """A run that is forecast."""

    method: Method
    benchmark: Any
    """A benchmark or a group."""


def _check_benchmarks(benchmarks: Sequence[Any], n_methods: int) -> None:
    """Refuse what methods cannot run on: several benchmarks are for the ``k`` of a single method."""
    for benchmark in benchmarks:
        check_benchmark(benchmark)
    if len(benchmarks) > 1:
        if n_methods > 1:
            raise ArgumentError(f"got {len(benchmarks)} benchmarks for all methods, expected one")
        refuse_groups(benchmarks)


def _runs_on_members(runs: Sequence[_PlannedRun]) -> list[_PlannedRun]:
    """Return the runs of which a set of runs consists: for each benchmark of a group, a run of its own.

    Benchmarks on which the method cannot run are left out.

    Args:
        runs: The runs, on benchmarks or groups.

    Raises:
        ArgumentError: No method can run on any of its benchmarks; the first reason is raised.
    """
    runs_on_members = []
    refusals = []
    for run in runs:
        for benchmark in members(run.benchmark).values():
            refusal = run.method.refusal(benchmark)
            if refusal is None:
                runs_on_members.append(_PlannedRun(run.method, benchmark))
            else:
                refusals.append(refusal)
    if not runs_on_members:
        raise refusals[0]
    return runs_on_members


def _tasks_of(
    runs: Sequence[_PlannedRun],
    runs_on_members: Sequence[_PlannedRun],
    variation: _Variation,
    options: ForecastOptions,
) -> Tasks:
    """Return the calls of the model that some runs would need; the methods run with made-up features.

    Args:
        runs: The runs, all with the same kernel. What their methods need first is computed for all together.
        runs_on_members: The runs of which these consist, each on a single benchmark (:func:`_runs_on_members`).
        variation: How the features are made up.
        options: The options of the forecast.
    """
    kernel = runs[0].method.kernel
    made_up = _MadeUp(kernel, variation)
    caches = ModelCaches(kernel, compute=made_up)
    # There are several methods on one benchmark, or one method on a benchmark for each k.
    same_data = runs[0].benchmark is runs[-1].benchmark
    first_requests_of_runs = [(run.method.first_requests, run.benchmark) for run in runs]
    shared = SharedFeatures(caches, first_requests_of_runs, same_data)
    with options.context() as context:
        context.start([kernel])
        for run in runs_on_members:
            for number, experimentor in enumerate(run.benchmark):
                part = Part(f"{run.method.spec.title}, {experimentor.name}", number, len(run.benchmark))
                made_up.tasks.query_count += len(experimentor)
                caches.start(context, options.recheck)
                shared.compute(experimentor, part)
                run.method.outcome(experimentor, caches, part)
    return made_up.tasks


class _MadeUp:
    """A function that takes the place of the runner: it collects queries, and makes up predictions for them.

    A prediction is the stored one if a store has it; otherwise it is random.

    Attributes:
        tasks: The queries that were collected, as calls of the kernel.
    """

    def __init__(self, kernel: Inference, variation: _Variation) -> None:
        """Begin without collected queries.

        Args:
            kernel: The kernel. It is not run, except for the states of its layers for one prompt, if a method uses
                these.
            variation: The seed of the random predictions, and by how much each made-up loss of a text is above the one
                before.
        """
        self.kernel = kernel
        self.tasks = Tasks(kernel)
        self._random = random.Random(variation.seed)
        self._loss_step = variation.loss_step
        self._loss_count = 0
        self._layers: Any = None  # not computed yet

    def __call__(
        self, function: Inference, queries: Sequence[Query], part: Part, options: RunOptions
    ) -> list[Answer | Failure]:
        """Add queries to the tasks, and return a prediction for each.

        The arguments are those of :func:`StaICC.inference.runner.predict_queries`.
        """
        remaining_parts = part.parts - part.number
        stored = self.tasks.add(function, queries, options, remaining_parts)
        predictions: list[Answer | Failure] = []
        for query in queries:
            key = (query.prompt, query.label_space)
            if key in stored:
                predictions.append(stored[key])
            else:
                predictions.append(self._prediction(function, key))
        return predictions

    def _prediction(self, function: Inference, key: PromptKey) -> Answer:
        """Return a made-up prediction of the kind that an inference function returns.

        Args:
            function: The inference function. One that computes features gets features, one that generates text gets
                random digits, and any other one gets random probabilities.
            key: The prompt with its labels.
        """
        if isinstance(function, FeatureFunction):
            prompt, label_space = key
            features = Features()
            for name in function.features(prompt, label_space):
                features[name] = packed_row(name, self._row(name, key), label_space)
            return features
        if isinstance(function, TextInference):
            words = [str(self._random.randrange(10)) for _ in range(function.max_new_tokens)]
            return Text(" ".join(words))
        probabilities: list[float] = self._row("probabilities", key)
        return probabilities

    def _row(self, feature: Feature, key: PromptKey) -> Any:
        """Return a made-up feature of a prompt: numbers in the form that the feature has.

        Args:
            feature: The name of the feature.
            key: The prompt with its labels.
        """
        prompt, label_space = key
        if feature == "losses":
            self._loss_count += 1
            return 1.0 + self._loss_count * self._loss_step
        if feature == "layers":
            return self._layer_states(prompt)
        size = _WIDTH if feature in VECTORS else len(label_space)
        row = [self._random.uniform(-1.0, -0.01) for _ in range(size)]
        if feature == "probabilities":
            total = sum(row)
            return [value / total for value in row]
        return row

    def _layer_states(self, prompt: Prompt) -> Any:
        """Return the states of all layers for the first prompt, the same for all prompts.

        The model computes them, since the number of layers decides how many prompts follow.
        """
        if self._layers is None:
            kernel: Any = self.kernel
            self._layers = kernel.layer_states([prompt])[0]
        return self._layers

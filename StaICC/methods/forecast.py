"""A forecast of methods: they write their prompts with random features in the place of those of the model.

The prompts of most methods do not depend on what the model computes, so their number and tokens are exact. To find out,
methods write them twice, with different features: where the prompts differ, the forecast is an estimate.
"""

from __future__ import annotations

import random
from collections.abc import Sequence
from typing import Any

from StaICC.benchmarks import Benchmark, BenchmarkGroup, Experimentor
from StaICC.benchmarks.forecast import ForecastOptions, Tasks
from StaICC.benchmarks.running import RunContext
from StaICC.errors import ArgumentError
from StaICC.inference import Answer, Failure, Inference, Part, RunOptions, ask
from StaICC.inference.contract import Features
from StaICC.inference.forecast import Forecast
from StaICC.kernels.text_inference import TextInference
from StaICC.methods.features import CachingKernel, Feature, FeatureFunction, Key, Request, packed_row
from StaICC.methods.run import Method, SharedFeatures, check_benchmark, chosen_methods, read_all, read_method
from StaICC.methods.specification import Prepared, Workbench
from StaICC.prompting import Query

_ALONE = RunOptions(on_error="collect", free_text=True)
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
    chosen = ForecastOptions(**how)
    if name == "all":
        methods, _ = chosen_methods(kernel, variant, calibration_number, None, read_all(options))
    else:
        methods = [read_method(name, kernel, variant, calibration_number, options)]
    for benchmark in benchmarks:
        check_benchmark(benchmark)
    if len(methods) > 1 < len(benchmarks):
        raise ArgumentError(f"got {len(benchmarks)} benchmarks for all methods, expected one")
    several = [one for one in benchmarks if isinstance(one, Benchmark)] if len(benchmarks) > 1 else None
    if several is not None and len(several) < len(benchmarks):
        raise ArgumentError("several k need one benchmark: got a group. Run its members one by one")
    members = [(method, benchmark) for method in methods for benchmark in benchmarks]
    first, second = (_tasks_of(members, several, seed, chosen) for seed in (0, 1))
    certain = [chunk for _, chunk in first.chunks] == [chunk for _, chunk in second.chunks]
    return first.forecast(chosen, certain)


def _tasks_of(
    members: Sequence[tuple[Method, Benchmark | BenchmarkGroup]],
    benchmarks: Sequence[Benchmark] | None,
    seed: int,
    options: ForecastOptions,
) -> Tasks:
    kernel = _ForecastKernel(members[0][0].kernel, seed)
    encoders: dict[str | int, Any] = {}
    rows = [(method, method.workbench(kernel, encoders=encoders), benchmark) for method, benchmark in members]
    plan = SharedFeatures([(method.spec, bench) for method, bench, _ in rows], benchmarks)
    with options.context() as context:
        context.start([kernel.kernel])
        for method, bench, benchmark in rows:
            group = benchmark.members.values() if isinstance(benchmark, BenchmarkGroup) else [benchmark]
            for one in (one for member in group for one in member):
                part = Part(f"{method.spec.title}, {one.name}")
                kernel.tasks.queries += len(one)
                with kernel.running(context, part, recheck=False):
                    plan.compute(kernel, one, part)
                    kernel.ask_all(method, one, bench, context, part)
    return kernel.tasks


class _ForecastKernel(CachingKernel):
    """Records what methods ask for. It returns what the store has, and random features for all else."""

    def __init__(self, kernel: Inference, seed: int) -> None:
        super().__init__(kernel)
        self.tasks = Tasks(kernel)
        self._asked = 0
        self._random = random.Random(seed)
        self._losses, self._sign = 0, 1 - 2 * seed  # in the second forecast, another text has the lowest loss
        self._width: int | None = None

    def ask_all(self, method: Method, one: Experimentor, bench: Workbench, context: RunContext, part: Part) -> None:
        """Prepare a method for a data set, and ask for the features of its test prompts."""
        prepared: Prepared = method.prepare(one, bench)
        if prepared.cached():
            self.several(prepared.requests(), part)
            return
        options = context.options_for(prepared.inference)
        queries = [query for view in prepared.views for query in view.all_queries()]
        found = Tasks(self.kernel)
        stored = found.add(prepared.inference, queries, options)
        if not self._is_asked_by(prepared.inference, queries[0]):
            self.tasks.extend(found)
            return
        self.tasks.distinct, self.tasks.cached = self.tasks.distinct + len(stored), self.tasks.cached + len(stored)
        rest = [query for query in queries if (query.prompt, query.label_space) not in stored]
        ask(prepared.inference, rest, part, _ALONE)

    def _is_asked_by(self, function: Inference, query: Query) -> bool:
        """Whether a function gets its predictions from this kernel."""
        kept, memory, asked = self.tasks, dict(self._memory), self._asked
        self.tasks = Tasks(self.kernel)
        ask(function, [query], "trial", _ALONE)
        self.tasks, self._memory = kept, memory
        return self._asked > asked

    def several(self, requests: Sequence[Request], *how: Any, **more: Any) -> list[list[Any]]:
        """Count the call; see the base class."""
        self._asked += 1
        return super().several(requests, *how, **more)

    def _ask(
        self, function: Inference, queries: Sequence[Query], part: Part, options: RunOptions
    ) -> list[Answer | Failure]:
        self._asked += 1
        stored = self.tasks.add(function, queries, options)
        keys = [(query.prompt, query.label_space) for query in queries]
        return [stored[key] if key in stored else self._made_up(function, key) for key in keys]

    def _made_up(self, function: Inference, key: Key) -> Answer:
        if isinstance(function, FeatureFunction):
            rows: dict[str, Any] = {
                name: packed_row(name, self._row(name, key), key[1]) for name in function.features(*key)
            }
            return Features(rows)
        if isinstance(function, TextInference):
            return " ".join(str(self._random.randrange(10)) for _ in range(function.max_new_tokens))
        row: list[float] = self._row("probabilities", key)
        return row

    def _row(self, feature: Feature, key: Key) -> Any:
        if feature == "losses":
            self._losses += 1
            return 1.0 + self._sign * self._losses * 1e-6
        if feature == "hidden" and self._width is None:
            kernel: Any = self.kernel
            self._width = len(kernel.hidden_states([key[0]])[0])
        size = {"hidden": self._width or 0, "vocabulary": _VOCABULARY}.get(feature, len(key[1]))
        row = [self._random.uniform(-1.0, -0.01) for _ in range(size)]
        return [value / sum(row) for value in row] if feature == "probabilities" else row

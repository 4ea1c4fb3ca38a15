"""A race: evaluate two models on the same test rows until the better one is known, or that they hardly differ."""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import TYPE_CHECKING

from StaICC.benchmarks.benchmark import Benchmark
from StaICC.benchmarks.predictions import Predictions
from StaICC.benchmarks.running import RunContext, RunSettings
from StaICC.benchmarks.sequential import StoppingRule, evaluate_in_rounds
from StaICC.inference import Inference
from StaICC.results import ResultGroup
from StaICC.results.early_stopping import RACE
from StaICC.results.provenance import utc_now

if TYPE_CHECKING:
    from typing_extensions import Unpack


def race(
    benchmark: Benchmark,
    first: Sequence[Inference] | Inference,
    second: Sequence[Inference] | Inference,
    margin: float = 0.02,
    score: str | None = None,
    return_outputs: bool = False,
    **run: Unpack[RunSettings],
) -> ResultGroup:
    """Return the results of two models on the rows that were needed to decide between them.

    Args:
        benchmark: A benchmark whose score is a mean over test rows, such as ``Normal()``.
        first: An inference function, or one for each data set.
        second: The other.
        margin: Stop also when the difference is certainly smaller than this.
        score: ``"accuracy"`` (the default) or ``"likelihood"``.
        return_outputs: Keep the prediction of each query in the results' ``outputs``.
        **run: Store, executor, progress; see :class:`~StaICC.benchmarks.running.RunSettings`.

    Returns:
        The results ``"first"`` and ``"second"``. The ``stopping`` of both has the difference, its interval and the
        decision.

    Raises:
        ArgumentError: An argument is invalid, or failed queries are collected.
        OutputError: A query has no usable prediction.

    Example:
        >>> from StaICC import Normal
        >>> from StaICC.datasets import load_dataset
        >>> rows = {" ".join(one.texts): one.label for one in load_dataset("mini").table}
        >>> def good(prompt, label_space):
        ...     return next(label for text, label in rows.items() if text in prompt.splitlines()[-2])
        >>> def poor(prompt, label_space):
        ...     return 0
        >>> found = race(Normal(datasets=["mini"]), good, poor)
        >>> found["first"].stopping.reason
        'the first model is better'
    """
    started, began = time.monotonic(), utc_now()
    rule = StoppingRule.for_experimentors("race", margin, score, benchmark.experimentor)
    models = {"first": benchmark.functions_for_datasets(first), "second": benchmark.functions_for_datasets(second)}
    with RunContext(False, **run) as context:
        context.start([function for functions in models.values() for function in functions])
        stopping, found = evaluate_in_rounds(rule, benchmark.experimentor, list(models.values()), context)
    seconds = time.monotonic() - started
    finished = benchmark.stopped(stopping)
    results = {}
    for (name, functions), runs in zip(models.items(), found, strict=True):
        predictions = Predictions.of_run(context, dict(zip(runs, functions, strict=True)), False, began)
        results[name] = finished.collect(runs, seconds, predictions, return_outputs)
    return context.deliver(ResultGroup(RACE, results))

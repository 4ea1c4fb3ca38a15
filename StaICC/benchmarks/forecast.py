"""The forecast of a run: how many prompts, tokens, seconds it costs before it is made."""

from __future__ import annotations

import math
import os
import time
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Any

from StaICC.benchmarks.context import RunContext, RunSettings
from StaICC.errors import ArgumentError, OutputError
from StaICC.inference.contract import Answer, Inference, tokens_used
from StaICC.inference.forecast import Forecast, forecast_prompts, token_cost
from StaICC.inference.prompt_key import PromptKey, characters
from StaICC.inference.replies import Chunk, Failure, solver
from StaICC.inference.runner import RunOptions, chunks_of, distinct_keys
from StaICC.inference.store import PredictionStore, refuse_stray_log
from StaICC.prompting.prompt_writer import Query

PROBE_SECONDS = 4.0
CLOCK = time.perf_counter
"""Returns the time in seconds."""
PROBED = 16
"""Chunks of the probe, and queries of each."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ForecastOptions:
    """Options of a forecast.

    Raises:
        ArgumentError: A value is invalid.
    """

    store: str | os.PathLike[str] | PredictionStore | None = None
    """The store of the run; its predictions are not computed again."""
    model_name: str | None = None
    """As for a run."""
    chunk_size: int | None = None
    """As for a run."""
    recheck: bool | None = None
    """As for a run."""
    probe_seconds: float = PROBE_SECONDS
    """Duration of the probe, in seconds; 0 predicts nothing."""
    prices: tuple[float, float] | None = None
    """Cost of a million tokens that the model reads, and of a million that it generates."""

    def __post_init__(self) -> None:
        seconds = self.probe_seconds
        if isinstance(seconds, bool) or not isinstance(seconds, (int, float)) or not 0 <= seconds < 1e6:
            raise ArgumentError(f"probe_seconds: got {seconds!r}, expected a number of seconds of at least 0")
        if self.prices is not None:
            token_cost(0, 0, self.prices)  # refuses wrong prices before the probe

    def context(self) -> RunContext:
        """Return the context of the run, with its store if there is one: a run would make it.

        Raises:
            SchemaError: There is no store, but its log.
        """
        store = self.store
        if isinstance(store, (str, os.PathLike)) and not os.path.exists(store):
            refuse_stray_log(store)
            store = None
        settings: RunSettings = {"model_name": self.model_name, "chunk_size": self.chunk_size, "progress": False}
        settings["recheck"] = self.recheck
        return RunContext(False, **settings | {"store": store})


def forecast(parts: Iterable[Sequence[Query]], function: Inference, grouped: bool = False, **options: Any) -> Forecast:
    """Forecast a run; nothing is stored.

    Args:
        parts: The queries of each part of the run.
        function: The inference function.
        grouped: Whether prompts with a common prefix follow each other, as in groups of benchmarks.
        **options: Those of :class:`ForecastOptions`.

    Raises:
        ArgumentError: An argument is invalid.
        OutputError: A prediction of the probe failed.
    """
    chosen, tasks = ForecastOptions(**options), Tasks(function)
    with chosen.context() as context:
        context.start([function])
        run = context.options_for(function, group_prefixes=grouped)
        listed = list(parts)
        for number, queries in enumerate(listed):
            tasks.add(function, queries, run, len(listed) - number)
            tasks.queries += len(queries)
        return tasks.forecast(chosen)


class Tasks:
    """What a run will compute, and for which function.

    Args:
        kernel: The inference function that counts the tokens of its requests, if one does.
    """

    def __init__(self, kernel: Inference) -> None:
        self.chunks: list[tuple[Inference, Chunk]] = []
        self.rechecked: list[tuple[Inference, Chunk]] = []
        self.queries = self.distinct = self.cached = 0
        self._kernel = kernel

    def add(
        self, function: Inference, queries: Sequence[Query], options: RunOptions, parts_left: int = 1
    ) -> dict[PromptKey, Answer]:
        """Add the queries of a part of the run; return the stored predictions.

        Args:
            function: The inference function.
            queries: The queries.
            options: How the run evaluates them.
            parts_left: How many parts of the run come, this one included.
        """
        keys = distinct_keys(queries, options.group_prefixes)
        stored = options.store.get_many(keys) if options.store is not None else {}
        options.counter.reuse(stored, lambda key: "", sum(characters(prompt) for prompt, _ in keys))
        again = [key for key, _, _ in options.counter.due(parts_left, len(stored) < len(keys))]
        self.rechecked += [(function, chunk) for chunk in chunks_of(again, {}, function, options)]
        self.chunks += [(function, chunk) for chunk in chunks_of(keys, stored, function, options)]
        self.distinct, self.cached = self.distinct + len(keys), self.cached + len(stored)
        return stored

    def forecast(self, options: ForecastOptions, certain: bool = True) -> Forecast:
        """Count the tokens and probe the rate; ``certain``: whether a run will have exactly these prompts."""
        total, fitting, weights = Forecast(self.queries, self.distinct, self.cached), [], 0
        for number, (function, chunk) in enumerate([*self.rechecked, *self.chunks]):
            part, weight = _forecast(function, chunk, total.kept)
            if number < len(self.rechecked):
                part = replace(part, rechecked=len(chunk), recheck_tokens=part.tokens)
            total += part
            weights += weight
            if (part.longest_prompt or 0) <= (part.limit or math.inf):
                fitting.append((function, chunk))
        total = replace(
            total, exact=certain and total.tokens is not None, seconds=None if self.chunks or self.rechecked else 0.0
        )
        # A kernel that forecasts its tokens counts them exactly; a server counts those of the probe, or none.
        before = tokens_used(self._kernel) if total.tokens is None else None
        if options.probe_seconds and fitting:
            share, seconds = _probe(fitting, weights, options.probe_seconds)
            total = replace(total, seconds=seconds)
            used = tokens_used(self._kernel)
            if used and before and used[0] > before[0]:
                read, written = (round((now - then) / share) for now, then in zip(used, before, strict=True))
                total = replace(total, tokens=read, output_tokens=written)
        if options.prices is not None and total.tokens is not None and total.output_tokens is not None:
            total = replace(total, cost=token_cost(total.tokens, total.output_tokens, options.prices))
        return total


def _forecast(function: Inference, chunk: Chunk, kept: tuple[int, ...] = ()) -> tuple[Forecast, int]:
    """Return the forecast of a chunk, and what its time is proportional to: positions, or else characters."""
    part = forecast_prompts(function, [prompt for prompt, _ in chunk], chunk[0][1], kept=kept)
    if part.positions is None:
        return part, sum(characters(prompt) for prompt, _ in chunk)
    return part, part.positions + (part.output_tokens or 0)


def _probe(tasks: Sequence[tuple[Inference, Chunk]], total: int, limit: float) -> tuple[float, float]:
    """Predict parts of some chunks, after one prompt that is not measured.

    Returns:
        The share of all prompts that was predicted, and the seconds of all at the measured rate.
    """
    began, seconds, predicted, measured = CLOCK(), 0.0, 0, 0
    function, chunk = tasks[0]
    parts = [(function, chunk[:1])]
    parts += [(own, some[len(some) // 3 :][:PROBED]) for own, some in tasks[:: max(1, len(tasks) // PROBED)]]
    for number, (function, part) in enumerate(parts):
        start = CLOCK()
        predictions = solver(function, "collect")(part)
        taken = CLOCK() - start
        failed = [prediction for prediction in predictions if isinstance(prediction, Failure)]
        if len(failed) == len(predictions):
            raise OutputError(f"the probe of the forecast failed: {failed[0].reason}") from failed[0].cause
        weight = _forecast(function, part)[1]
        predicted += weight
        if number:
            seconds, measured = seconds + taken, measured + weight
        if number and CLOCK() - began > limit:
            break
    return predicted / total, seconds * total / measured

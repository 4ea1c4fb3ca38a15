"""A forecast of a run: queries, tokens, time and cost, from the prompts and a probe of a few seconds."""

from __future__ import annotations

import math
import os
import time
from collections.abc import Container, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from StaICC.benchmarks.running import RunContext
from StaICC.errors import ArgumentError, OutputError
from StaICC.inference import Answer, Failure, Inference, RunOptions
from StaICC.inference.chunk import solve_chunk
from StaICC.inference.forecast import CountsTokens, Forecast, forecast_prompts
from StaICC.inference.runner import chunks_of, distinct_keys
from StaICC.prompting import Prompt, Query

if TYPE_CHECKING:
    from StaICC.inference.store import PredictionStore

PROBE_SECONDS = 4.0
CLOCK = time.perf_counter
"""Returns the time in seconds."""
PROBED = 16
"""Chunks of the probe, and queries of each."""
_Key = tuple[Prompt, tuple[str, ...]]
_Chunk = Sequence[_Key]


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
    probe_seconds: float = PROBE_SECONDS
    """Duration of the probe, in seconds; 0 predicts nothing."""
    prices: tuple[float, float] | None = None
    """Cost of a million tokens that the model reads, and of a million that it generates."""

    def __post_init__(self) -> None:
        seconds, prices = self.probe_seconds, self.prices
        if isinstance(seconds, bool) or not isinstance(seconds, (int, float)) or not 0 <= seconds < 1e6:
            raise ArgumentError(f"probe_seconds: got {seconds!r}, expected a number of seconds of at least 0")
        if prices is not None and (len(prices) != 2 or not all(0 <= price < math.inf for price in prices)):
            raise ArgumentError(
                f"prices: got {prices!r}, expected two numbers of at least 0, for a million tokens each"
            )

    def context(self) -> RunContext:
        """Return the context of the run, with its store if there is one: a run would make it."""
        missing = isinstance(self.store, (str, os.PathLike)) and not os.path.exists(self.store)
        return RunContext(
            False,
            store=None if missing else self.store,
            model_name=self.model_name,
            chunk_size=self.chunk_size,
            progress=False,
        )


def forecast(
    parts: Mapping[str, Sequence[Query]], function: Inference, grouped: bool = False, **options: Any
) -> Forecast:
    """Forecast a run; nothing is stored.

    Args:
        parts: The queries of each data set.
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
        seen: set[_Key] | None = set() if chosen.store is not None else None  # a store keeps them for the next part
        for queries in parts.values():
            tasks.add(function, queries, run, seen)
            tasks.queries += len(queries)
        return tasks.forecast(chosen)


class Tasks:
    """What a run will compute, and for which function.

    Args:
        kernel: The inference function that counts the tokens of its requests, if one does.
    """

    def __init__(self, kernel: Inference) -> None:
        self.chunks: list[tuple[Inference, _Chunk]] = []
        self.queries = self.distinct = self.cached = 0
        self._kernel = kernel

    def add(
        self, function: Inference, queries: Sequence[Query], options: RunOptions, seen: set[_Key] | None = None
    ) -> dict[_Key, Answer]:
        """Add queries but those that were ``seen`` before; return the stored predictions."""
        keys = distinct_keys(queries, options.group_prefixes)
        stored = options.store.get_many(keys) if options.store is not None else {}
        known: Container[_Key] = stored.keys() | (seen or ())
        self.chunks += [(function, chunk) for chunk in chunks_of(keys, known, function, options)]
        self.distinct, self.cached = self.distinct + len(keys), self.cached + len(stored)
        if seen is not None:
            self.distinct -= len(seen.intersection(keys) - stored.keys())
            seen.update(keys)
        return stored

    def extend(self, other: Tasks) -> None:
        """Add those of another list."""
        self.chunks += other.chunks
        self.distinct, self.cached = self.distinct + other.distinct, self.cached + other.cached

    def forecast(self, options: ForecastOptions, certain: bool = True) -> Forecast:
        """Count the tokens and probe the rate; ``certain``: whether a run will have exactly these prompts."""
        counter = self._kernel if isinstance(self._kernel, CountsTokens) else None
        total, fitting, weights = Forecast(self.queries, self.distinct, self.cached), [], 0
        for function, chunk in self.chunks:
            part = _forecast(function, chunk, total.kept)
            total += part
            weights += _weight(part, chunk)
            if (part.longest_prompt or 0) <= (part.limit or math.inf):
                fitting.append((function, chunk))
        total = replace(total, exact=certain and total.tokens is not None, seconds=None if self.chunks else 0.0)
        before = counter.tokens_used if counter is not None else None
        share = 0.0
        if options.probe_seconds and fitting:
            share, seconds = _probe(fitting, weights, options.probe_seconds)
            total = replace(total, seconds=seconds)
        used = counter.tokens_used if counter is not None else None
        if used is not None and before is not None and share and used[0] > before[0]:  # a server may count none
            read, written = (round((now - then) / share) for now, then in zip(used, before, strict=True))
            total = replace(total, tokens=read, output_tokens=written)
        if options.prices is not None and total.tokens is not None and total.output_tokens is not None:
            cost = total.tokens * options.prices[0] + total.output_tokens * options.prices[1]
            total = replace(total, cost=cost / 1e6)
        return total


def _forecast(function: Inference, chunk: _Chunk, kept: tuple[int, ...] = ()) -> Forecast:
    return forecast_prompts(function, [prompt for prompt, _ in chunk], chunk[0][1], kept=kept)


def _weight(part: Forecast, chunk: _Chunk) -> int:
    """Return what the time of a chunk is proportional to: positions, or characters where they are unknown."""
    if part.positions is not None:
        return part.positions + (part.output_tokens or 0)
    return sum(len(prompt) if isinstance(prompt, str) else sum(map(len, prompt)) for prompt, _ in chunk)


def _predict(function: Inference, chunk: _Chunk) -> float:
    """Predict a chunk; return the seconds that it took."""
    began = CLOCK()
    predictions = solve_chunk(function, [prompt for prompt, _ in chunk], chunk[0][1], "collect")
    failed = [prediction for prediction in predictions if isinstance(prediction, Failure)]
    if len(failed) == len(predictions):
        raise OutputError(f"the probe of the forecast failed: {failed[0].reason}") from failed[0].cause
    return CLOCK() - began


def _probe(tasks: Sequence[tuple[Inference, _Chunk]], total: int, limit: float) -> tuple[float, float]:
    """Predict parts of some chunks, after one prompt that is not measured.

    Returns:
        The share of all prompts that was predicted, and the seconds of all at the measured rate.
    """
    began, seconds, measured = CLOCK(), 0.0, 0
    function, chunk = tasks[0]
    _predict(function, chunk[:1])
    first = _weight(_forecast(function, chunk[:1]), chunk[:1])
    for function, chunk in tasks[:: max(1, len(tasks) // PROBED)]:
        part = chunk[len(chunk) // 3 :][:PROBED]
        seconds += _predict(function, part)
        measured += _weight(_forecast(function, part), part)
        if CLOCK() - began > limit:
            break
    return (first + measured) / total, seconds * total / measured

"""A forecast of a run: queries, tokens, time and cost, from the prompts and a probe of a few seconds."""

from __future__ import annotations

import os
import time
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, fields
from typing import TYPE_CHECKING, Any

from StaICC.benchmarks.running import RunContext
from StaICC.errors import ArgumentError, OutputError
from StaICC.inference import Failure, Inference
from StaICC.inference.runner import chunks_of, distinct_keys, solve_chunk
from StaICC.inference.workload import CountsTokens, MeasuresWork, Workload
from StaICC.prompting import Prompt, Query

if TYPE_CHECKING:
    from StaICC.inference.store import PredictionStore

__all__ = ["Forecast", "forecast"]

PROBE_SECONDS = 4.0
FIRST = 4
"""Queries of the first probe that counts; each further one has twice as many, up to a chunk."""
_Chunk = Sequence[tuple[Prompt, tuple[str, ...]]]


@dataclass(frozen=True, slots=True)
class Forecast:
    """What a run will do. A value that cannot be known is ``None``."""

    queries: int
    """Queries of all data sets."""
    distinct: int
    """Distinct pairs of prompt and label space; each is predicted once."""
    cached: int
    """Predictions that the store has."""
    tokens: int | None = None
    """Tokens that the model reads; exact if ``exact``, else estimated from the tokens of the probe."""
    positions: int | None = None
    """Positions to compute if every prefix that the prompts of a chunk share is computed once; a run computes more
    where sharing does not pay."""
    output_tokens: int | None = None
    """Maximum number of tokens that the model generates."""
    longest_prompt: int | None = None
    """Tokens of the longest prompt, with its label where labels are scored in full."""
    limit: int | None = None
    """Maximum number of tokens that the model reads."""
    seconds: float | None = None
    """Duration of the predictions in this process, without loading the model; ``None`` without a probe."""
    cost: float | None = None
    """Cost of the tokens for the given prices."""
    exact: bool = False
    """Whether the tokens were counted by the model's own tokenizer."""

    def __str__(self) -> str:
        """Return the values as a table."""
        rows = []
        for field in fields(self)[:-1]:
            value = getattr(self, field.name)
            text = "unknown" if value is None else f"{value:,.2f}" if isinstance(value, float) else f"{value:,}"
            about = "about " * (field.name in ("tokens", "output_tokens") and value is not None and not self.exact)
            rows.append(f"{field.name.replace('_', ' '):15} {about}{text}")
        if self.longest_prompt and self.limit and self.longest_prompt > self.limit:
            rows.append("The longest prompt does not fit: the run will fail there.")
        return "\n".join(rows)

    def to_dict(self) -> dict[str, Any]:
        """Return the values by name."""
        return asdict(self)


def forecast(
    parts: Mapping[str, Sequence[Query]],
    function: Inference,
    grouped: bool = False,
    *,
    store: str | os.PathLike[str] | PredictionStore | None = None,
    model_name: str | None = None,
    chunk_size: int | None = None,
    probe_seconds: float = PROBE_SECONDS,
    prices: tuple[float, float] | None = None,
) -> Forecast:
    """Forecast a run; nothing is stored.

    Args:
        parts: The queries of each data set.
        function: The inference function.
        grouped: Whether prompts with a common prefix follow each other, as in groups of benchmarks.
        store: The store of the run; its predictions are not computed again.
        model_name: As for a run.
        chunk_size: As for a run.
        probe_seconds: Duration of the probe, in seconds; 0 predicts nothing.
        prices: Cost of a million tokens that the model reads, and of a million that it generates.

    Raises:
        ArgumentError: An argument is invalid.
        OutputError: A prediction of the probe failed.
    """
    if isinstance(probe_seconds, bool) or not isinstance(probe_seconds, (int, float)) or not 0 <= probe_seconds < 1e6:
        raise ArgumentError(f"probe_seconds: got {probe_seconds!r}, expected a number of seconds of at least 0")
    if prices is not None and (len(prices) != 2 or not all(0 <= price < float("inf") for price in prices)):
        raise ArgumentError(f"prices: got {prices!r}, expected two numbers of at least 0, for a million tokens each")
    if isinstance(store, (str, os.PathLike)) and not os.path.exists(store):
        store = None  # a run would make it
    chunks: list[_Chunk] = []
    distinct = cached = 0
    with RunContext(False, store=store, model_name=model_name, chunk_size=chunk_size, progress=False) as context:
        context.start([function])
        options = context.options_for(function, group_prefixes=grouped)
        for queries in parts.values():
            keys = distinct_keys(queries, grouped)
            stored = frozenset(options.store.get_many(keys) if options.store is not None else ())
            chunks += chunks_of(keys, stored, function, options)
            distinct, cached = distinct + len(keys), cached + len(stored)
        work = sum((_work(function, chunk) for chunk in chunks), Workload())
        before = function.tokens_used if isinstance(function, CountsTokens) else (0, 0)
        share = 0.0
        seconds: float | None = None if chunks else 0.0
        if probe_seconds and chunks:
            share, seconds = _probe(function, chunks, work.positions, probe_seconds)
        exact = isinstance(function, MeasuresWork)
        total: tuple[int | None, int | None] = (work.tokens, work.output) if exact else (None, None)
        if isinstance(function, CountsTokens) and share:
            used = function.tokens_used
            total = (round((used[0] - before[0]) / share), round((used[1] - before[1]) / share))
    cost = None
    if prices is not None and total[0] is not None and total[1] is not None:
        cost = (total[0] * prices[0] + total[1] * prices[1]) / 1e6
    measured = (work.positions, work.longest, work.limit) if exact else (None, None, None)
    queries_in_all = sum(map(len, parts.values()))
    return Forecast(
        queries_in_all,
        distinct,
        cached,
        total[0],
        measured[0],
        total[1],
        measured[1],
        measured[2],
        seconds,
        cost,
        exact,
    )


def _work(function: Inference, chunk: _Chunk) -> Workload:
    """Return the work of a chunk; for a function that cannot measure it, characters count as tokens and positions."""
    prompts, label_space = [prompt for prompt, _ in chunk], chunk[0][1]
    if isinstance(function, MeasuresWork):
        return function.workload(prompts, label_space)
    size = sum(len(prompt) if isinstance(prompt, str) else sum(map(len, prompt)) for prompt in prompts)
    return Workload(size, size)


def _probe(function: Inference, chunks: Sequence[_Chunk], total: int, limit: float) -> tuple[float, float]:
    """Predict parts of chunks for some seconds, whose work is ``total``.

    Returns:
        The share of all work that was done, and the seconds that all will take.
    """

    def solve(chunk: _Chunk) -> float:
        began = time.perf_counter()
        answers = solve_chunk(function, [prompt for prompt, _ in chunk], chunk[0][1], "collect")
        failed = [answer for answer in answers if isinstance(answer, Failure)]
        if len(failed) == len(answers):
            raise OutputError(f"the probe of the forecast failed: {failed[0].reason}") from failed[0].cause
        return time.perf_counter() - began

    done = _work(function, chunks[0][:1]).positions
    solve(chunks[0][:1])  # loads the model and checks it
    began, spent, work, size = time.perf_counter(), 0.0, 0, FIRST
    while True:
        for chunk in chunks[:: max(1, len(chunks) // 8)]:
            part = chunk[len(chunk) // 3 :][:size]
            positions = _work(function, part).positions
            spent, work, done = spent + solve(part), work + positions, done + positions
            if time.perf_counter() - began > limit:
                return done / total, spent / work * total
        if size >= max(map(len, chunks)):
            return done / total, spent / work * total
        size, spent, work = size * 2, 0.0, 0  # small batches are slower

"""A forecast of a run: queries, tokens, time and cost, from the prompts and a probe of a few seconds."""

from __future__ import annotations

import math
import os
import time
from collections.abc import Container, Mapping, Sequence
from dataclasses import asdict, dataclass, fields, replace
from typing import TYPE_CHECKING, Any

from StaICC.benchmarks.running import RunContext
from StaICC.errors import ArgumentError, OutputError
from StaICC.inference import Answer, Failure, Inference, RunOptions, batch_form
from StaICC.inference.chunk import solve_chunk
from StaICC.inference.runner import chunks_of, distinct_keys
from StaICC.inference.workload import CountsTokens, Held, Workload, work_of
from StaICC.prompting import Prompt, Query

if TYPE_CHECKING:
    from StaICC.inference.store import PredictionStore

PROBE_SECONDS = 4.0
CLOCK = time.perf_counter
"""Returns the time in seconds."""
FIRST = 4
"""Queries of the first probe that counts; each further one has twice as many, up to a chunk."""
_Key = tuple[Prompt, tuple[str, ...]]
_Chunk = Sequence[_Key]


@dataclass(frozen=True, slots=True)
class Forecast:
    """What a run will do. A value that cannot be known is ``None``."""

    queries: int
    """Queries of all data sets."""
    distinct: int
    """Distinct pairs of prompt and label space, each of which is predicted once; for methods, those of training too."""
    cached: int
    """Predictions that the store has."""
    tokens: int | None = None
    """Tokens that the model reads; exact if ``exact``, else estimated."""
    positions: int | None = None
    """Positions that the model computes for the prompts. A shared prefix is computed once where that pays, and is not
    computed again while the model keeps it."""
    output_tokens: int | None = None
    """Maximum number of tokens that the model generates."""
    longest_prompt: int | None = None
    """Tokens of the longest prompt, with its label where labels are scored in full, and with the tokens to generate."""
    limit: int | None = None
    """Maximum number of tokens that the model reads."""
    seconds: float | None = None
    """Duration of the predictions in this process, without loading the model; ``None`` without a probe."""
    cost: float | None = None
    """Cost of the tokens for the given prices."""
    exact: bool = False
    """Whether the tokens were counted by the model's own tokenizer, in prompts that do not depend on predictions."""

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
        """Measure the work and probe it; ``certain``: whether a run will have exactly these prompts."""
        counter = self._kernel if isinstance(self._kernel, CountsTokens) else None
        works, work = [], Workload()
        begun: list[Inference] = []
        for function, chunk in self.chunks:
            held = work.held
            if not any(function is known for known in begun):  # a kernel checks the first prompts of each function
                begun.append(function)
                held = held and replace(held, checked=False)
            works.append(_work(function, chunk, held))
            work += works[-1][0]
        measured = all(known for _, known in works)
        before = counter.tokens_used if counter is not None else None
        share, seconds = 0.0, None if works else 0.0
        fitting = [
            task for task, (each, _) in zip(self.chunks, works, strict=True) if each.longest <= (each.limit or math.inf)
        ]
        if options.probe_seconds and fitting:
            share, seconds = _probe(fitting, work, options.probe_seconds)
        exact = measured and certain
        found = Forecast(self.queries, self.distinct, self.cached, seconds=seconds, exact=exact)
        if measured:
            found = replace(found, tokens=work.tokens, positions=work.positions, output_tokens=work.output)
        if measured and works:
            found = replace(found, longest_prompt=work.longest, limit=work.limit)
        used = counter.tokens_used if counter is not None else None
        if used is not None and before is not None and share and used[0] > before[0]:  # a server may count none
            read, written = (round((now - then) / share) for now, then in zip(used, before, strict=True))
            found = replace(found, tokens=read, output_tokens=written)
        if options.prices is not None and found.tokens is not None and found.output_tokens is not None:
            cost = found.tokens * options.prices[0] + found.output_tokens * options.prices[1]
            found = replace(found, cost=cost / 1e6)
        return found


def _work(function: Inference, chunk: _Chunk, held: Held | None = None) -> tuple[Workload, bool]:
    """Return the work of a chunk, and whether it was measured; otherwise characters and calls are counted."""
    prompts = [prompt for prompt, _ in chunk]
    work = work_of(function, prompts, chunk[0][1], held=held)
    if work is not None:
        return work, True
    size = sum(len(prompt) if isinstance(prompt, str) else sum(map(len, prompt)) for prompt in prompts)
    calls = len(prompts) if batch_form(function) is None else 1
    return Workload(size, size, calls=calls, effort=size), False


def _solve(function: Inference, chunk: _Chunk) -> float:
    """Predict a chunk; return the seconds that it took."""
    began = CLOCK()
    answers = solve_chunk(function, [prompt for prompt, _ in chunk], chunk[0][1], "collect")
    failed = [answer for answer in answers if isinstance(answer, Failure)]
    if len(failed) == len(answers):
        raise OutputError(f"the probe of the forecast failed: {failed[0].reason}") from failed[0].cause
    return CLOCK() - began


def _probe(tasks: Sequence[tuple[Inference, _Chunk]], total: Workload, limit: float) -> tuple[float, float]:
    """Predict parts of chunks for some seconds, of all work.

    Returns:
        The share of all work that was done, and the seconds that all will take.
    """
    samples: list[tuple[Workload, float]] = []
    began, size = CLOCK(), 1
    while True:
        for function, chunk in tasks[:1] if size == 1 else tasks[:: max(1, len(tasks) // 8)]:
            part = chunk[len(chunk) // 3 :][:size]
            work, _ = _work(function, part)
            samples.append((work, _solve(function, part)))
            if CLOCK() - began > limit and len(samples) > 1:
                break
        if (CLOCK() - began > limit and len(samples) > 1) or size >= max(len(chunk) for _, chunk in tasks):
            break
        size = FIRST if size == 1 else size * 2
    effort, call = _costs(samples)
    share = sum(work.effort for work, _ in samples) / total.effort
    return share, total.effort * effort + total.calls * call


def _costs(samples: Sequence[tuple[Workload, float]]) -> tuple[float, float]:
    """Return the seconds of a unit of effort and of a call: least squares, neither negative.

    The first sample has the cost of all that is done once.

    Example:
        >>> samples = [(Workload(effort=effort, calls=1), 0.5 + 0.01 * effort) for effort in (9.0, 100.0, 200.0)]
        >>> [round(cost, 6) for cost in _costs(samples)]
        [0.01, 0.5]
    """
    rows = [(work.effort, work.calls, seconds) for work, seconds in samples]
    xx, xy, yy = (sum(a[i] * a[j] for a in rows) for i, j in ((0, 0), (0, 1), (1, 1)))
    xt, yt = sum(x * t for x, _, t in rows), sum(y * t for _, y, t in rows)
    slope = xt / xx
    determinant = xx * yy - xy * xy
    if determinant <= 1e-6 * xx * yy:  # all samples are alike
        return slope, 0.0
    effort, call = (xt * yy - yt * xy) / determinant, (yt * xx - xt * xy) / determinant
    return (slope, 0.0) if call < 0 else (0.0, yt / yy) if effort < 0 else (effort, call)

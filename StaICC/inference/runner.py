"""The runner: one function drives the user's inference function for every benchmark.

It finds the distinct (prompt, label space) pairs among the queries, takes the answers that a store already has, asks
for the rest in chunks (:mod:`StaICC.inference.chunk`), here or in workers, keeps what was computed, and puts the
answers back in the order of the queries. Neither the order of asking nor the number of workers can change a result.

Chunks are cut from all distinct queries before the store is asked. A chunk is kept whole, so a run that goes on after
a kill hands a batched kernel the same batches as a run that was never killed, and rounding, which depends on the
batch, cannot make the results differ.

What it refuses to do: score. A query without an answer is a :class:`Failure`, never a wrong answer.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Container, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import Executor
from dataclasses import dataclass
from typing import Any, Protocol

from StaICC.errors import ArgumentError, OutputError
from StaICC.inference.chunk import (
    Failure,
    OnError,
    batch_answers,
    checked,
    ends,
    solve_chunk,
    solve_shipped,
)
from StaICC.inference.contract import Answer, Inference, batch_form, user_batch_form
from StaICC.inference.progress import Progress, ProgressCallback
from StaICC.inference.workers import WorkerPool, solve_in_workers
from StaICC.prompting import Prompt, Query

__all__ = ["AnswerStore", "Failure", "OnError", "Part", "RunOptions", "ask", "solve_chunk"]

_COMMIT_SECONDS = 1.0  # a plain function's answers wait at most this long (and one query) for their commit
_COMMIT_ANSWERS = 64
_BATCH = 256  # prompts handed to a batched kernel at once: what a kill may lose. It makes its own batches within
_WORKER_CHUNK = 32

_Key = tuple[Prompt, tuple[str, ...]]


class AnswerStore(Protocol):
    """What the runner needs of a prediction store, already bound to one model."""

    def get_many(self, queries: Sequence[_Key]) -> dict[_Key, Answer]:
        """Return the answers that are there."""

    def put_many(self, answers: Iterable[tuple[_Key, Answer]]) -> Mapping[_Key, Answer] | None:
        """Keep answers durably before returning; give those that were there already and differ, which stay."""


@dataclass(frozen=True, slots=True)
class RunOptions:
    """How to ask, apart from what."""

    batched: bool = False
    """The function takes the list of all prompts of a condition and returns the list of answers."""
    store: AnswerStore | None = None
    """Where answers are kept and looked up."""
    executor: Executor | Callable[[], Executor] | WorkerPool | None = None
    """Runs chunks elsewhere: an executor, a function that makes one, or a pool that stays open from call to call."""
    on_error: OnError = "raise"
    """Stop at the first query without an answer, or go on and report it."""
    chunk_size: int | None = None
    """Queries per chunk, and so per commit and per call of a batched kernel; ``None`` chooses."""
    progress: ProgressCallback | None = None
    """Told after each chunk."""
    group_prefixes: bool = False
    """Ask prompts that share a prefix one after the other."""
    free_text: bool = False
    """Texts are answers as they stand, to be parsed by the benchmark; otherwise a text must be a label."""

    def __post_init__(self) -> None:
        if self.on_error not in ("raise", "collect"):
            raise ArgumentError(f"on_error must be 'raise' or 'collect', not {self.on_error!r}")
        size = self.chunk_size
        if size is not None and (isinstance(size, bool) or not isinstance(size, int) or size < 1):
            raise ArgumentError(f"chunk_size must be a whole number of at least 1, not {size!r}")
        if self.executor is not None and not isinstance(self.executor, WorkerPool):
            WorkerPool(self.executor)  # refuses what is no executor
        if self.progress is not None and not callable(self.progress):
            raise ArgumentError(f"progress must be a function of one Progress, not {self.progress!r}")


@dataclass(frozen=True, slots=True)
class Part:
    """Where a list of queries stands in the whole run."""

    name: str
    """For messages and progress, such as ``"Normal, TREC"``."""
    number: int = 0
    """Counted from 0."""
    parts: int = 1
    """How many there are."""


def ask(
    function: Inference, queries: Sequence[Query], part: Part | str, options: RunOptions | None = None
) -> list[Answer | Failure]:
    """Ask the inference function every query.

    Args:
        function: The inference function.
        queries: What to ask.
        part: Name (and number) of these queries, for messages and progress.
        options: How to ask.

    Returns:
        One checked answer for each query, in order; a :class:`Failure` where there is none and ``on_error="collect"``.

    Raises:
        OutputError: A query has no answer and ``on_error="raise"``; what was computed before is kept in the store.
    """
    if not callable(function):
        raise ArgumentError(f"the inference function must be callable, not {type(function).__name__}")
    part = Part(part) if isinstance(part, str) else part
    options = options or RunOptions()
    if options.batched:
        return _ask_whole(user_batch_form(function), queries, part, options)
    numbers: dict[_Key, int] = {}
    for number, query in enumerate(queries):
        numbers.setdefault((query.prompt, query.label_space), number)
    keys = list(numbers)
    desk = _Desk(options, part, len(keys), options.store.get_many(keys) if options.store is not None else {})
    if options.group_prefixes:  # the channels may differ from part to part, and texts do not compare with tuples
        keys.sort(key=lambda key: (isinstance(key[0], str), *key))
    chunks = _chunks(keys, frozenset(desk.answers), function, options)
    if options.executor is None:
        _solve_here(function, chunks, options, desk)
    else:
        _solve_in_workers(function, chunks, options, desk)
    failed = [(numbers[key], failure) for key, failure in desk.failures if options.on_error == "raise" or failure.final]
    if failed:
        raise _error(part, *min(failed, key=lambda pair: pair[0]))
    lost = next((key for key in numbers if key not in desk.answers), None)
    if lost is not None:
        raise _error(part, numbers[lost], Failure("the executor gave no answer for it"))
    return [desk.answers[query.prompt, query.label_space] for query in queries]


def _error(part: Part, number: int, failure: Failure) -> OutputError:
    error = OutputError(f"{part.name}, query {number}: {failure.reason}")
    error.__cause__ = failure.cause
    return error


class _Desk:
    """Takes answers as they land: has the store keep them, counts them, tells the progress callback."""

    def __init__(self, options: RunOptions, part: Part, total: int, stored: Mapping[_Key, Answer]) -> None:
        self.answers: dict[_Key, Answer | Failure] = dict(stored)
        self.failures: list[tuple[_Key, Failure]] = []
        self._options, self._part, self._total, self._stored = options, part, total, len(stored)
        self._waiting: list[tuple[_Key, Answer]] = []
        self._committed = time.monotonic()
        self.tell()

    def take(self, keys: Sequence[_Key], found: Sequence[Answer | Failure]) -> bool:
        """Take the answers of a chunk (fewer than its queries if it ended early); says whether to go on."""
        for key, answer in zip(keys, found, strict=False):
            self.answers[key] = answer
            if isinstance(answer, Failure):
                self.failures.append((key, answer))
            elif self._options.store is not None:
                self._waiting.append((key, answer))
        return not ends(found, self._options.on_error)

    def commit(self) -> None:
        """Have the store keep what waits. Where it has another answer already, that one counts."""
        waiting, self._waiting = self._waiting, []
        if self._options.store is not None and waiting:
            try:
                kept = self._options.store.put_many(waiting)
            except KeyboardInterrupt:
                self._waiting = waiting + self._waiting  # nothing of it is stored yet
                raise
            self.answers.update(kept or {})
        self._committed = time.monotonic()

    def commit_now_and_then(self, size: int) -> None:
        """Commit if so many answers wait, or some for a second."""
        if len(self._waiting) >= size or time.monotonic() - self._committed >= _COMMIT_SECONDS:
            self.commit()

    def tell(self) -> None:
        """Tell the progress callback how far it is."""
        if self._options.progress is not None:
            part = self._part
            done, failed = len(self.answers), len(self.failures)
            self._options.progress(
                Progress(done, self._total, part.name, part.number, part.parts, self._stored, failed)
            )


def _ask_whole(
    batch: Callable[[Sequence[Any], list[str]], Any], queries: Sequence[Query], part: Part, options: RunOptions
) -> list[Answer | Failure]:
    """Hand over the whole list at once, as it stands: the function may depend on its batch (batch calibration does)."""
    if not queries:
        return []
    tell = options.progress or (lambda progress: None)
    tell(Progress(0, len(queries), part.name, part.number, part.parts))
    label_space = queries[0].label_space
    values = batch_answers(batch, [query.prompt for query in queries], label_space)
    if isinstance(values, Failure):
        if ends([values], options.on_error):
            raise OutputError(f"{part.name}: {values.reason}") from values.cause
        return [values] * len(queries)
    answers = [checked(value, label_space, options.free_text) for value in values]
    failed = sum(isinstance(answer, Failure) for answer in answers)
    tell(Progress(len(answers), len(answers), part.name, part.number, part.parts, 0, failed))
    for number, answer in enumerate(answers):
        if isinstance(answer, Failure) and ends([answer], options.on_error):
            raise _error(part, number, answer)
    return answers


def _chunks(
    keys: Sequence[_Key], answered: Container[_Key], function: Inference, options: RunOptions
) -> Iterator[list[_Key]]:
    """Cut the distinct queries into chunks that share their label space, keeping the order; leave out the answered."""
    size = options.chunk_size or (_WORKER_CHUNK if options.executor is not None else 1)
    if batch_form(function) is not None:
        size = options.chunk_size or _BATCH
    groups: dict[tuple[str, ...], list[_Key]] = {}
    for key in keys:
        groups.setdefault(key[1], []).append(key)
    for group in groups.values():
        for start in range(0, len(group), size):
            chunk = [key for key in group[start : start + size] if key not in answered]
            if chunk:
                yield chunk


def _solve_here(function: Inference, chunks: Iterable[list[_Key]], options: RunOptions, desk: _Desk) -> None:
    """Solve chunk after chunk in this process."""
    alone = batch_form(function) is None  # then a chunk is only what is committed together
    size = (options.chunk_size or _COMMIT_ANSWERS) if alone else 1
    try:
        for chunk in chunks:
            for keys in [[key] for key in chunk] if alone else [chunk]:
                found = solve_chunk(
                    function, [prompt for prompt, _ in keys], keys[0][1], options.on_error, options.free_text
                )
                going = desk.take(keys, found)
                desk.commit_now_and_then(size)
                desk.tell()
                if not going:
                    return
    finally:  # also when the user interrupts
        desk.commit()


def _solve_in_workers(function: Inference, chunks: Iterable[list[_Key]], options: RunOptions, desk: _Desk) -> None:
    """Solve chunks through the executor, keeping each as it lands; after a failure, finish what is in flight."""
    assert options.executor is not None
    executor = options.executor
    pool = executor if isinstance(executor, WorkerPool) else WorkerPool(executor)

    def task(keys: Sequence[_Key]) -> tuple[Callable[..., list[Answer | Failure]], tuple[object, ...]]:
        prompts = [prompt for prompt, _ in keys]
        return solve_shipped, (pool.shipment(function), prompts, keys[0][1], options.on_error, options.free_text)

    def land(keys: Sequence[_Key], found: list[Answer | Failure]) -> bool:
        going = desk.take(keys, found)
        desk.commit()
        desk.tell()
        return going

    hurry = True
    try:
        solve_in_workers(pool, chunks, task, Failure, land, ahead=options.store is None)
        hurry = False
    finally:
        if pool is not executor:
            pool.close(hurry)

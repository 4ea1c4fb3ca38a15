"""The runner: one function drives the user's inference function for every benchmark.

It finds the distinct (prompt, label space) pairs of the queries, reads cached predictions from the store, evaluates
the others in chunks (:mod:`StaICC.inference.workers`) in this process or in workers, stores the new predictions, and
returns all in the order of the queries. Neither the order of evaluation nor the number of workers changes a result.

Chunks are formed from all distinct queries before the store is read, and a chunk is stored as one. So a resumed run
gives a batched kernel the same batches as an uninterrupted run, and rounding that depends on the batch is the same.

A query without a prediction is a :class:`Failure`. It is never scored as a wrong prediction.
"""

from __future__ import annotations

import itertools
import math
import time
from collections.abc import Callable, Container, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import Executor
from dataclasses import dataclass, field, replace
from typing import Protocol

from StaICC.arguments import set_integers
from StaICC.errors import ArgumentError, MissingDependencyError, OutputError, StaICCError
from StaICC.inference import contract
from StaICC.inference.contract import (
    Answer,
    Inference,
    Text,
    Usage,
    announce_prompts,
    batch_form,
    loading_kernel,
    reads_parts,
    retried,
)
from StaICC.inference.model_warnings import FIRST_QUERIES
from StaICC.inference.prompt_key import PromptKey, characters, refuse_other_parts
from StaICC.inference.recheck import RunCounter
from StaICC.inference.replies import Failure, OnError, Unparsed, batch_answers, ends, read_reply, solver
from StaICC.inference.workers import WorkerPool, solve_in_workers
from StaICC.progress import LOADING, Progress, ProgressCallback
from StaICC.prompting.prompt_writer import Prompt, Query

_COMMIT_SECONDS = 1.0  # a plain function's answers wait at most this long (and one query) for their commit
_COMMIT_ANSWERS = 64
_BATCH = 256  # prompts handed to a batched kernel at once: what a kill may lose. It makes its own batches within
_WORKER_CHUNK = 32
_CHARACTERS = 1 << 24  # of the prompts of a chunk: 4 of a million tokens each, 256 of 16,000

_LOST = Failure("the executor gave no answer for it")


EarlyCheck = Callable[[Sequence[Query], Sequence[Answer]], "str | None"]
"""Returns a warning about the predictions of the first queries, or ``None``."""


class AnswerStore(Protocol):
    """Where the runner finds and keeps predictions; a prediction store that is bound to one model is one."""

    def get_many(self, keys: Sequence[PromptKey]) -> dict[PromptKey, Answer]:
        """Return the stored predictions."""

    def put_many(self, answers: Iterable[tuple[PromptKey, Answer]]) -> dict[PromptKey, Answer]:
        """Store predictions durably before returning; return those that were stored before and differ."""

    def refuse_read_only(self) -> None:
        """Raise an error if predictions cannot be stored."""


@dataclass(frozen=True, slots=True)
class RunOptions:
    """How to evaluate queries."""

    batched: bool = False
    """The function takes the list of all prompts of a condition and returns the list of answers."""
    store: AnswerStore | None = None
    """The prediction store."""
    executor: Executor | Callable[[], Executor] | WorkerPool | None = None
    """Runs chunks elsewhere: an executor, or a function that makes one, which is called once."""
    on_error: OnError = "raise"
    """Stop at the first query without a prediction, or continue and report it."""
    chunk_size: int | None = None
    """Queries per chunk, and so per commit and per call of a batched kernel; ``None``: fewer where prompts are long."""
    progress: ProgressCallback | None = None
    """Called after each chunk."""
    group_prefixes: bool = False
    """Evaluate prompts that share a prefix one after the other."""
    free_text: bool = False
    """A text is a completion that the benchmark parses; otherwise its label is looked for
    (:mod:`StaICC.inference.reply_parser`)."""
    unparsed: Unparsed = "error"
    """How a reply without a label counts."""
    before_computing: Callable[[], None] | None = None
    """Called before predictions of a part are computed; not called if all are stored."""
    counter: RunCounter = field(default_factory=lambda: RunCounter(recheck=False), repr=False)
    """Counts predictions over the whole run, and rechecks reused ones where it says so."""

    before_predicting: Callable[[], None] | None = None
    """Called when the model is loaded, before the first prediction of a part is computed; not if all are stored."""
    warn: Callable[[str], None] | None = None
    """Called with what went wrong in this run only, such as a recheck without a prediction. Warnings about prompts and
    predictions do not depend on the run (:mod:`StaICC.inference.model_warnings`)."""
    log: Callable[[str], None] | None = None
    """Called with warnings that the result will have, as soon as they are known."""
    watched: str | None = None
    """The name of the data set whose first queries :attr:`early_checks` get; ``None``: they are not called."""
    early_checks: Sequence[EarlyCheck] = ()
    """Called once with the first queries and their predictions: what is wrong with all of them is logged early."""

    def __post_init__(self) -> None:
        if self.on_error not in ("raise", "collect"):
            raise ArgumentError(f"on_error must be 'raise' or 'collect', not {self.on_error!r}")
        if self.chunk_size is not None:
            set_integers(self, chunk_size=1)
        if self.executor is not None and not isinstance(self.executor, WorkerPool):
            object.__setattr__(self, "executor", WorkerPool(self.executor))
        if self.progress is not None and not callable(self.progress):
            raise ArgumentError(f"progress must be a function of one Progress, not {self.progress!r}")


@dataclass(frozen=True, slots=True)
class Part:
    """One part of a run, such as one data set."""

    name: str
    """For messages and progress, such as ``"Normal, TREC"``."""
    number: int = 0
    """Counted from 0."""
    parts: int = 1
    """How many there are."""
    phase: str = ""
    """As for :class:`~StaICC.progress.Progress`."""


def distinct_keys(queries: Iterable[Query], group_prefixes: bool) -> list[PromptKey]:
    """Return the distinct pairs of prompt and label space, in order or so that common prefixes follow each other."""
    keys = list(dict.fromkeys((query.prompt, query.label_space) for query in queries))
    if group_prefixes:  # the channels may differ from part to part, and texts do not compare with tuples
        keys.sort(key=lambda key: (isinstance(key[0], str), *key))
    return keys


def predict_queries(
    function: Inference, queries: Sequence[Query], part: Part | str, options: RunOptions | None = None
) -> list[Answer | Failure]:
    """Evaluate the inference function on every query.

    Args:
        function: The inference function.
        queries: The queries.
        part: Name (and number) of these queries, for messages and progress.
        options: How to evaluate them.

    Returns:
        One checked prediction per query, in order; a :class:`Failure` where there is none and ``on_error="collect"``.

    Raises:
        OutputError: A query has no prediction and ``on_error="raise"``; earlier predictions are in the store.
    """
    if not callable(function):
        raise ArgumentError(f"the inference function must be callable, not {type(function).__name__}")
    part = Part(part) if isinstance(part, str) else part
    options = options or RunOptions()
    if options.batched:
        return _evaluate_in_one_call(function, queries, part, options)
    if reads_parts(function):
        refuse_other_parts(queries)
    numbers: dict[PromptKey, int] = {}
    for number, query in enumerate(queries):
        numbers.setdefault((query.prompt, query.label_space), number)
    keys = distinct_keys(queries, options.group_prefixes)
    counter, store, before = options.counter, options.store, retried(function)
    reused = store.get_many(keys) if store is not None else {}
    size = sum(characters(prompt) for prompt, _ in keys)
    counter.reuse(reused, lambda key: f"{part.name}, query {numbers[key]}", size)
    if reused and counter.remark and options.warn is not None:
        options.warn(counter.remark)
    alone = options.executor is None and batch_form(function) is None
    commit_size = (options.chunk_size or _COMMIT_ANSWERS) if alone else 1
    collector = AnswerCollector(options, part, len(keys), reused, commit_size, queries)
    try:
        computes = len(reused) < len(keys) and not collector.ended
        if computes and store is not None:
            store.refuse_read_only()
        rechecked = counter.due(part.parts - part.number, computes)
        if options.before_computing is not None and (computes or rechecked):
            options.before_computing()
        if (computes or rechecked) and options.executor is None:
            _load_model(function, part, options, collector)
        if computes:
            announce_prompts(function, [key[0] for key in keys if key not in reused])
            if options.before_predicting is not None:
                options.before_predicting()
        if rechecked:
            _recheck(function, part, options, rechecked)
        if computes:
            _solve(function, chunks_of(keys, reused, function, options), options, collector)
    finally:
        computed = len(collector.answers) - len(reused.keys() | collector.failures)
        failed, again = len(collector.failures), retried(function) - before
        counter.counts.update(computed=computed, failed=failed, retried=again)
    collector.refuse_failures(numbers)
    return [collector.answers[query.prompt, query.label_space] for query in queries]


def _recheck(
    function: Inference, part: Part, options: RunOptions, chosen: Sequence[tuple[PromptKey, Answer, str]]
) -> None:
    """Compute some of the reused predictions again, before the first new ones.

    Raises:
        IdentityError: A prediction differs from the stored one by more than the tolerance.
        OutputError: A prediction could not be computed and ``on_error="raise"``.
    """
    collector = AnswerCollector(replace(options, store=None, progress=None, free_text=True), part, len(chosen), {})
    _solve(function, chunks_of([key for key, _, _ in chosen], frozenset(), function, options), options, collector)
    different = 0
    for key, stored, where in chosen:
        again = collector.answers.get(key, _LOST)
        if not isinstance(again, Failure):
            difference = options.counter.compare(key, stored, again, where)
            if difference is not None:
                different += 1
                if options.log is not None:
                    options.log(difference)
        elif options.on_error == "raise" or again.final:
            raise OutputError(f"{where}, recheck of a stored prediction: {again.reason}") from again.cause
        elif options.warn is not None:
            options.warn(f"{part.name}: a reused prediction could not be computed again ({again.reason})")
    if different and options.warn is not None:
        options.warn(
            f"{part.name}: {different} of {len(chosen)} stored predictions that were computed again differ; the "
            "predictions of this kernel may change"
        )


def _error(where: str, failure: Failure) -> StaICCError:
    if isinstance(failure.cause, MissingDependencyError):
        return failure.cause  # it is not about a query
    error = OutputError(f"{where}: {failure.reason}")
    error.__cause__ = failure.cause
    return error


class AnswerCollector:
    """Collects predictions as chunks complete: stores them, counts them and reports progress."""

    def __init__(
        self,
        options: RunOptions,
        part: Part,
        total: int,
        stored: Mapping[PromptKey, Answer],
        commit_size: int = 1,
        queries: Sequence[Query] = (),
        prompts: Mapping[PromptKey, Prompt] | None = None,
    ) -> None:
        self._prompts = prompts or {}  # where keys have numbers in place of prompts
        self.answers: dict[PromptKey, Answer | Failure] = {}
        self.failures: dict[PromptKey, Failure] = {}
        """The failed queries, without replies that may have no label."""
        self.ended = False
        """Whether the run ends, after the chunks in flight."""
        self._options, self._part, self._total, self._stored = options, part, total, len(stored)
        self._commit_size, self._committed = commit_size, time.monotonic()
        self._uncommitted: list[tuple[PromptKey, Answer]] = []
        self._watched = list(queries[:FIRST_QUERIES]) if options.watched is not None else []
        self._take(stored)
        self.report()

    def _take(self, answers: Mapping[PromptKey, Answer | Failure]) -> None:
        """Keep predictions, with the labels of replies in place of their texts."""
        options = self._options
        for key, answer in answers.items():
            prompt = self._prompts.get(key, key[0])
            prediction = answer if options.free_text else read_reply(answer, key[1], options.unparsed, prompt)
            if isinstance(answer, Text):
                options.counter.replies |= not options.free_text
            if isinstance(prediction, Failure):
                self.ended |= ends([prediction], options.on_error)
                if prediction.reply is None:
                    self.failures[key] = prediction
            self.answers[key] = prediction
        if self._watched:
            self._check_watched()

    def refuse_failures(self, numbers: Mapping[PromptKey, int]) -> None:
        """Raise the failure of the first query that ends the run, if there is one; given the queries' numbers."""
        policy = self._options.on_error
        failed = {numbers[key]: failure for key, failure in self.failures.items() if ends([failure], policy)}
        failed = failed or {number: _LOST for key, number in numbers.items() if key not in self.answers}
        if failed:
            raise _error(f"{self._part.name}, query {min(failed)}", failed[min(failed)])

    def _check_watched(self) -> None:
        """Once all watched queries have a prediction, log what concerns the whole run."""
        watched, predictions = self._watched, []
        for query in watched:
            prediction = self.answers.get((query.prompt, query.label_space), _LOST)
            if isinstance(prediction, Failure):
                return
            predictions.append(prediction)
        self._watched = []
        for check in self._options.early_checks:
            warning = check(watched, predictions)
            if warning is not None and self._options.log is not None:
                self._options.log(f"{self._options.watched}: {warning}")

    def deliver(
        self, keys: Sequence[PromptKey], predictions: Sequence[Answer | Failure], usage: Usage = (0, 0, 0)
    ) -> None:
        """Take the predictions of a chunk (fewer than its queries if it ended early), and what a copy counted."""
        if any(usage):  # adding counts field by field takes 12 µs, for each query of a plain function
            self._options.counter.add(*usage)
        received = dict(zip(keys, predictions, strict=False))
        if self._options.store is not None:
            self._uncommitted += [(key, answer) for key, answer in received.items() if not isinstance(answer, Failure)]
        self._take(received)
        if len(self._uncommitted) >= self._commit_size or time.monotonic() - self._committed >= _COMMIT_SECONDS:
            self.commit()
        self.report()

    def commit(self) -> None:
        """Store the uncommitted predictions. Where the store has a different one already, that one is used."""
        if self._options.store is not None and self._uncommitted:
            self._take(self._options.store.put_many(self._uncommitted))
            self._uncommitted = []  # only now: after an interrupt, they are stored at the end of the run
        self._committed = time.monotonic()

    def report(self) -> None:
        """Call the progress callback."""
        if self._options.progress is not None:
            part = self._part
            done, failed = len(self.answers), len(self.failures)
            self._options.progress(
                Progress(done, self._total, part.name, part.number, part.parts, self._stored, failed, part.phase)
            )


def _evaluate_in_one_call(
    function: Inference, queries: Sequence[Query], part: Part, options: RunOptions
) -> list[Answer | Failure]:
    """Pass the full list in one call: predictions may depend on the batch (batch calibration)."""
    if not queries:
        return []
    label_space, before = queries[0].label_space, retried(function)
    keys: list[PromptKey] = [
        (str(number), label_space) for number in range(len(queries))
    ]  # equal prompts are kept apart
    if options.before_predicting is not None:
        options.before_predicting()
    batch, prompts = contract.user_batch_form(function), [query.prompt for query in queries]
    prompt_of = dict(zip(keys, prompts, strict=True))  # nor are the keys those of prompts
    collector = AnswerCollector(replace(options, store=None), part, len(keys), {}, prompts=prompt_of)
    values = batch_answers(batch, prompts, label_space, reads_parts(function))
    if isinstance(values, Failure):
        if ends([values], options.on_error):
            raise _error(part.name, values)
        values = [values] * len(keys)
    collector.deliver(keys, values)
    failed, again = len(collector.failures), retried(function) - before
    options.counter.counts.update(computed=len(keys) - failed, failed=failed, retried=again)
    collector.refuse_failures({key: number for number, key in enumerate(keys)})
    return list(collector.answers.values())


def chunks_of(
    keys: Sequence[PromptKey], cached: Container[PromptKey], function: Inference, options: RunOptions
) -> Iterator[list[PromptKey]]:
    """Split the distinct queries into chunks of one label space, in order, without those that are cached."""
    usual = _BATCH if batch_form(function) is not None else _WORKER_CHUNK if options.executor is not None else None
    size = options.chunk_size or usual if usual else 1  # a plain function has no chunks: they are commits
    served = contract.served_function(function) is not None
    alone = served and options.on_error == "raise"  # a fault there is mostly of all
    groups: dict[tuple[str, ...], list[PromptKey]] = {}
    for key in keys:
        groups.setdefault(key[1], []).append(key)
    for group in groups.values():
        for whole in _divided(group, size, math.inf if options.chunk_size else _CHARACTERS):
            chunk = [key for key in whole if key not in cached]
            if chunk and alone:
                yield chunk[:1]
                chunk, alone = chunk[1:], False
            if chunk:
                yield chunk


def _divided(keys: Sequence[PromptKey], size: int, most: float) -> Iterator[list[PromptKey]]:
    """Divide keys, in order, into lists of at most ``size`` keys and ``most`` characters, or of one key."""
    chunk: list[PromptKey] = []
    total = 0
    for key in keys:
        total += characters(key[0])
        if chunk and (len(chunk) == size or total > most):
            yield chunk
            chunk, total = [], characters(key[0])
        chunk.append(key)
    if chunk:
        yield chunk


def _load_model(function: Inference, part: Part, options: RunOptions, collector: AnswerCollector) -> None:
    """Load a model that is loaded when it is first needed, as a phase of its own: it may take a minute."""
    kernel = loading_kernel(function)
    if kernel is None or kernel.is_loaded:
        return
    if options.progress is not None:
        options.progress(Progress(0, 0, part.name, part.number, part.parts, phase=LOADING))
    kernel.load_model()
    collector.report()  # the first batch may take long, too, and it is no loading


def _solve(
    function: Inference, chunks: Iterable[list[PromptKey]], options: RunOptions, collector: AnswerCollector
) -> None:
    """Evaluate chunks in this process or through an executor, and store the results as they come.

    After a failure that ends the run, the chunks in flight are finished.
    """
    chunks = itertools.takewhile(lambda _: not collector.ended, chunks)
    if isinstance(options.executor, WorkerPool):
        deliver, ahead = collector.deliver, options.store is None
        solve_in_workers(options.executor, function, chunks, options.on_error, deliver, ahead)
        return
    solve = solver(function, options.on_error)
    try:
        for chunk in chunks:
            collector.deliver(chunk, solve(chunk))
    finally:  # also when the user interrupts
        collector.commit()

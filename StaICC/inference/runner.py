"""The runner: one function drives the user's inference function for every benchmark.

It finds the distinct (prompt, label space) pairs of the queries, reads cached predictions from the store, evaluates
the others in chunks (:mod:`StaICC.inference.pending`) in this process or in workers, stores the new predictions, and
returns all in the order of the queries. Neither the order of evaluation nor the number of workers changes a result.

There are four ways to evaluate:

- A function of one prompt is called query by query, and a kernel with a batched form chunk by chunk.
- A served model gets queries from threads, each in a call of its own, so that none waits for another one.
- An executor evaluates chunks in its workers (:mod:`StaICC.inference.workers`).

A prediction waits at most half a second for its commit, or until 1,024 are waiting. A kill loses these and what is in
flight; Ctrl-C loses what does not end within a moment.

A query without a prediction is a :class:`Failure`. It is never scored as a wrong prediction.
"""

from __future__ import annotations

import contextlib
import math
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import Executor
from dataclasses import dataclass, field, replace
from typing import Any, Protocol

from StaICC.arguments import set_integers
from StaICC.errors import ArgumentError, MissingDependencyError, StaICCError
from StaICC.inference import contract
from StaICC.inference.contract import (
    Answer,
    Inference,
    Text,
    Usage,
    announce_prompts,
    batch_form,
    first_batch,
    loading_kernel,
    queries_at_once,
    reads_parts,
    retried,
    served_function,
)
from StaICC.inference.function_check import refuse_unsuitable_function
from StaICC.inference.model_warnings import FIRST_QUERIES
from StaICC.inference.pending import (
    CHUNK_SECONDS,
    MOST_CHARACTERS,
    Pace,
    PendingQueries,
    SharedStore,
    blocks_of,
    by_label_space,
    divide_into_chunks,
)
from StaICC.inference.prompt_key import PromptKey, characters, refuse_other_parts
from StaICC.inference.recheck import ReusedPrediction, RunCounter
from StaICC.inference.replies import (
    Failure,
    OnError,
    Unparsed,
    batch_answers,
    chunk_evaluator,
    ends_run,
    output_error,
    read_reply,
)
from StaICC.inference.workers import RequestThreads, WorkerPool, evaluate_in_workers
from StaICC.progress import LOADING, Progress, ProgressCallback
from StaICC.prompting.prompt_text import Prompt
from StaICC.prompting.prompt_writer import Query

_COMMIT_SECONDS = CHUNK_SECONDS
"""How long a prediction waits for its commit, at most, and the query that is evaluated then."""
_COMMIT_ANSWERS = 1024
"""Predictions after which there is a commit in any case. A commit of few predictions takes more time for each of them:
the keys of a store are digests, so nearly each prediction changes another page of the file, and two predictions of one
commit that change the same page write it once."""
_CHUNK = 64
"""Queries of a chunk of a function of one prompt."""
CHUNK_OF_KERNELS = 256
"""Prompts of a chunk of a kernel with a batched form, which makes its own batches within: what a kill may lose."""

_LOST = Failure("the executor gave no answer for it")


EarlyCheck = Callable[[Sequence[Query], Sequence[Answer]], "str | None"]
"""Returns a warning about the predictions of the first queries, or ``None``."""


class AnswerStore(SharedStore, Protocol):
    """Where the runner finds and keeps predictions; a prediction store that is bound to one model is one."""

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
    """Queries of a chunk. ``None``: for a kernel with a batched form 256, fewer where prompts are long; else as many as
    take about half a second. A served model has no chunks but in workers: its queries are evaluated one by one."""
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
        """Refuse invalid values, and make a worker pool of an executor.

        Raises:
            ArgumentError: A value is invalid.
        """
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
    """A part of a run, such as the queries of one data set: its name and its number, for messages and progress."""

    name: str
    """For messages and progress, such as ``"Normal, TREC"``."""
    number: int = 0
    """Counted from 0."""
    parts: int = 1
    """How many there are."""
    phase: str = ""
    """As for :class:`~StaICC.progress.Progress`."""


def keys_of(queries: Iterable[Query]) -> list[PromptKey]:
    """Return the pair of prompt and label space of each query."""
    return [(query.prompt, query.label_space) for query in queries]


def distinct_keys(keys: Iterable[PromptKey], group_prefixes: bool) -> list[PromptKey]:
    """Return the distinct pairs of prompt and label space.

    Args:
        keys: The pairs of all queries.
        group_prefixes: Sort the pairs, so that prompts with a common prefix follow each other; otherwise they are in
            the order of the queries.
    """
    distinct = list(dict.fromkeys(keys))
    if group_prefixes:
        distinct.sort(key=_prefix_order)
    return distinct


def _prefix_order(key: PromptKey) -> tuple[Any, ...]:
    """Return by what queries are sorted so that prompts with a common prefix follow each other.

    Prompts of the noisy channel, which are tuples of texts, come first: texts do not compare with tuples.
    """
    prompt, label_space = key
    return isinstance(prompt, str), prompt, label_space


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
    refuse_unsuitable_function(function)
    if isinstance(part, str):
        part = Part(part)
    if options is None:
        options = RunOptions()
    if options.batched:
        return _evaluate_in_one_call(function, queries, part, options)
    if reads_parts(function):
        refuse_other_parts(queries)
    evaluation = _Evaluation(function, queries, part, options)
    evaluation.run()
    return evaluation.predictions()


class _Evaluation:
    """The evaluation of the queries of a part; arguments as for :func:`predict_queries`."""

    def __init__(self, function: Inference, queries: Sequence[Query], part: Part, options: RunOptions) -> None:
        """Look up which predictions of the queries are stored; nothing is predicted yet."""
        self._function = function
        self._keys_of_queries = keys_of(queries)
        """The pair of prompt and label space of each query."""
        self._part = part
        """The name and the number of the queries in the run, for messages and progress."""
        self._options = options
        self._numbers = _first_numbers(self._keys_of_queries)
        """The number of the first query with each key, for messages."""
        self._keys = distinct_keys(self._numbers, options.group_prefixes)
        """The distinct pairs of prompt and label space, in the order of their evaluation."""
        self._stored_meanwhile: dict[PromptKey, Answer] = {}
        """Predictions that another run on the store makes while this one runs."""
        self._stored_version: object = None
        """The version of the store when it was read; it changes when another run stores something."""
        # From here on, methods of this object are called, which use the attributes above.
        self._reused = self._read_store()
        """The stored predictions of the queries, by their keys."""
        self._collector = AnswerCollector(
            options,
            part,
            total=len(self._keys),
            stored=self._reused,
            commit_size=self._commit_size(),
            queries=queries,
        )

    def run(self) -> None:
        """Evaluate the queries that are not stored, after some of the stored ones again; count what was done."""
        retried_before = retried(self._function)
        try:
            self._evaluate()
        finally:
            self._count(retried(self._function) - retried_before)
        self._collector.refuse_failures(self._numbers)

    def predictions(self) -> list[Answer | Failure]:
        """Return one prediction for each query, in order."""
        answers = self._collector.answers
        return [answers[key] for key in self._keys_of_queries]

    def _read_store(self) -> dict[PromptKey, Answer]:
        """Return the stored predictions of the queries, by their keys; the run reuses them, and counts them here."""
        store = self._options.store
        reused: dict[PromptKey, Answer] = {}
        if store is not None:
            # Before the look-up: what another run stores from now on changes the version.
            self._stored_version = store.version()
            reused = store.get_many(self._keys)
        size = sum(characters(prompt) for prompt, _ in self._keys)
        self._count_reused(reused, size)
        return reused

    def _count_reused(self, stored: Mapping[PromptKey, Answer], size: int) -> None:
        """Count predictions that come from the store; the run later computes some of them again, as a check.

        Where this check is off because requests may cost money, the run warns here.

        Args:
            stored: The predictions.
            size: Characters of the prompts of all queries of this part, for the limit of the check; 0 at later calls.
        """

        def place_of(key: PromptKey) -> str:
            return f"{self._part.name}, query {self._numbers[key]}"

        counter = self._options.counter
        counter.count_reused(stored, place_of, size)
        warn = self._options.warn
        if stored and counter.remark and warn is not None:
            warn(counter.remark)

    def _commit_size(self) -> int:
        """Return the number of predictions after which they are stored at once, however short the time was."""
        if _is_batched(self._function):
            return 1  # so that each chunk is stored when it is complete
        return min(self._options.chunk_size or _COMMIT_ANSWERS, _COMMIT_ANSWERS)

    def _evaluate(self) -> None:
        """Compute the predictions that are not stored; before that, compute some stored ones again, as a check.

        Without either of the two, no model is loaded, and no function of the options is called.
        """
        options = self._options
        computes_new = len(self._reused) < len(self._keys) and not self._collector.ended
        if computes_new and options.store is not None:
            options.store.refuse_read_only()
        rechecked = options.counter.choose_for_recheck(self._parts_left, computes_new)
        if not computes_new and not rechecked:
            return

        if options.before_computing is not None:
            options.before_computing()
        if options.executor is None:  # else the workers load it
            _load_model(self._function, self._part, options, self._collector)
        if computes_new:
            new_keys = [key for key in self._keys if key not in self._reused]
            announce_prompts(self._function, [prompt for prompt, _ in new_keys])
            if options.before_predicting is not None:
                options.before_predicting()
        if rechecked:
            _recheck(self._function, self._part, options, rechecked)
        if computes_new:
            with self._pending() as pending:
                _evaluate_pending(self._function, pending, options, self._collector)
            self._recheck_stored_meanwhile()

    @property
    def _parts_left(self) -> int:
        """How many parts of the run come, this one included."""
        return self._part.parts - self._part.number

    def _recheck_stored_meanwhile(self) -> None:
        """Count the predictions that another run stored while this one evaluated, and compute some of them again.

        They are reused, too, so they are checked like those that the store had at the beginning.
        """
        if not self._stored_meanwhile or self._collector.ended:
            return
        self._count_reused(self._stored_meanwhile, size=0)  # the size of all prompts is counted already
        rechecked = self._options.counter.choose_for_recheck(self._parts_left, computes_new=False)
        if rechecked:
            _recheck(self._function, self._part, self._options, rechecked)

    @contextlib.contextmanager
    def _pending(self) -> Iterator[PendingQueries]:
        """Yield the queries that are not stored, for the time of the block.

        Within the block, other runs on the store see which of the queries this run has claimed, and evaluate others.
        After it, the claims end.
        """
        groups = _groups(self._keys, self._function, self._options)
        store = self._options.store
        claims = None if store is None else store.claims()
        pending = PendingQueries(
            blocks_of(groups, self._reused),
            fixed=_is_batched(self._function),
            store=store,
            claims=claims,
            stored_version=self._stored_version,
            take_stored=self._take_stored,
            most_characters=_most_characters(self._options),
        )
        try:
            yield pending
        finally:
            pending.close()

    def _take_stored(self, stored: Mapping[PromptKey, Answer]) -> None:
        """Use predictions that another run stored meanwhile."""
        self._stored_meanwhile.update(stored)
        self._collector.take_stored(stored)

    def _count(self, retried_requests: int) -> None:
        """Count the predictions of the part that were computed now, those that failed, and the repeated requests."""
        collector = self._collector
        not_computed = {*self._reused, *self._stored_meanwhile, *collector.failures}
        self._options.counter.counts.update(
            computed=len(collector.answers) - len(not_computed),
            failed=len(collector.failures),
            retried=retried_requests,
        )


def _most_characters(options: RunOptions) -> float:
    """Return the maximum number of characters of a chunk: unlimited if the user set the number of its queries."""
    return math.inf if options.chunk_size else MOST_CHARACTERS


def _first_numbers(keys: Sequence[PromptKey]) -> dict[PromptKey, int]:
    """Return the number of the first query of each distinct pair of prompt and label space.

    Args:
        keys: The pair of each query.
    """
    numbers: dict[PromptKey, int] = {}
    for number, key in enumerate(keys):
        numbers.setdefault(key, number)
    return numbers


def _is_batched(function: Inference) -> bool:
    """Return whether predictions of a function may depend on the other prompts of a batch, so that chunks are fixed."""
    is_served = queries_at_once(function) is not None
    return batch_form(function) is not None and not is_served


def _groups(keys: Sequence[PromptKey], function: Inference, options: RunOptions) -> list[list[PromptKey]]:
    """Divide the distinct queries into groups with one label space; for a batched kernel, each group is one batch.

    Args:
        keys: The distinct queries.
        function: The inference function.
        options: How the run evaluates them.
    """
    groups = by_label_space(keys)
    if not _is_batched(function):
        return groups
    batch_size = options.chunk_size or CHUNK_OF_KERNELS
    batches = []
    for group in groups:
        batches += divide_into_chunks(group, batch_size, _most_characters(options))
    return batches


def _recheck(function: Inference, part: Part, options: RunOptions, chosen: Sequence[ReusedPrediction]) -> None:
    """Compute some predictions again that the run reuses from the store, and compare them with the stored ones.

    If the predictions of the function may change (those of a server), differences and failures are warnings.

    Args:
        function: The inference function.
        part: The name and the number of the queries, for messages and progress.
        options: How to evaluate queries.
        chosen: The stored predictions.

    Raises:
        IdentityError: A prediction differs from the stored one by more than the tolerance.
        OutputError: A prediction could not be computed and ``on_error="raise"``.
    """
    predicted_again = _predict_again(function, part, options, chosen)
    different_count = 0
    for reused in chosen:
        again = predicted_again.get(reused.key, _LOST)
        if isinstance(again, Failure):
            _note_failed_recheck(again, reused, part, options)
            continue
        difference = options.counter.compare(reused.key, reused.stored, again, reused.where)
        if difference is None:
            continue
        different_count += 1
        if options.log is not None:
            options.log(difference)
    if different_count and options.warn is not None:
        options.warn(
            f"{part.name}: {different_count} of {len(chosen)} stored predictions that were computed again differ; the "
            "predictions of this kernel may change"
        )


def _note_failed_recheck(failure: Failure, reused: ReusedPrediction, part: Part, options: RunOptions) -> None:
    """Warn of a stored prediction that could not be computed again, or end the run.

    Args:
        failure: Why it could not.
        reused: The stored prediction, with the place of its query.
        part: The name and the number of the queries, for messages and progress.
        options: Whether the run ends at a failure, and where warnings go.

    Raises:
        OutputError: The run ends at a failure.
    """
    if options.on_error == "raise" or failure.final:
        raise output_error(f"{reused.where}, recheck of a stored prediction: {failure.reason}", failure)
    if options.warn is not None:
        options.warn(f"{part.name}: a reused prediction could not be computed again ({failure.reason})")


def _predict_again(
    function: Inference, part: Part, options: RunOptions, chosen: Sequence[ReusedPrediction]
) -> Mapping[PromptKey, Answer | Failure]:
    """Return new predictions, by query, of some queries whose predictions are stored.

    The new ones are compared with the stored ones: they are not stored, and replies stay texts, as in the store.
    Arguments as for :func:`_recheck`.
    """
    options_of_recheck = replace(options, store=None, progress=None, free_text=True)
    collector = AnswerCollector(options_of_recheck, part, total=len(chosen), stored={})
    groups = _groups([reused.key for reused in chosen], function, options)
    pending = PendingQueries(blocks_of(groups, cached={}), fixed=_is_batched(function))
    _evaluate_pending(function, pending, options_of_recheck, collector)
    return collector.answers


def _error(where: str, failure: Failure) -> StaICCError:
    """Return the exception for a query without a prediction.

    Args:
        where: The part and the number of the query.
        failure: Why it has none.
    """
    if isinstance(failure.cause, MissingDependencyError):
        # It is not about this query.
        return failure.cause
    return output_error(f"{where}: {failure.reason}", failure).at(where)


class AnswerCollector:
    """Collects the predictions of one part of a run, such as one data set: stores them and reports the progress.

    Attributes:
        answers: The prediction of each query, or the failure in its place.
        failures: The failed queries. Replies without a label are failures, too, but their queries did not fail.
        ended: Whether the run ends because of a failure, after the chunks in flight.
        after_commit: Called whenever all predictions are in the store.
    """

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
        """Begin with the stored predictions, and report the progress with them.

        Args:
            options: How the queries are evaluated.
            part: The name and the number of the part.
            total: Number of distinct queries of the part, for the progress.
            stored: The predictions that are in the store, by pair of prompt and label space.
            commit_size: Number of new predictions after which they are stored at once, however short the time was.
            queries: All queries of the part. The predictions of the first ones are checked early.
            prompts: The prompt of each key, where keys have numbers in place of prompts.
        """
        self._options = options
        self._part = part
        self._total = total
        self._stored_count = len(stored)
        """For the progress: how many predictions came from the store."""
        self._commit_size = commit_size
        self._prompts = prompts or {}
        self._watched: list[Query] = []
        """The first queries, until all of them have a prediction and were checked."""
        if options.watched is not None:
            self._watched = list(queries[:FIRST_QUERIES])

        self.answers: dict[PromptKey, Answer | Failure] = {}
        self.failures: dict[PromptKey, Failure] = {}
        self.ended = False
        self._uncommitted: list[tuple[PromptKey, Answer]] = []
        """New predictions that are not stored yet."""
        self._last_commit = time.monotonic()
        self.after_commit: Callable[[], None] | None = None
        self._keep(stored.items())
        self.report()

    def _keep(self, answers: Iterable[tuple[PromptKey, Answer | Failure]]) -> None:
        """Keep the predictions of some queries, in place of earlier ones of the same queries.

        A generated reply is kept as the label that is found in it, or as a failure without one, unless the run keeps
        texts (``free_text``).
        """
        for key, answer in answers:
            prediction = answer
            if isinstance(answer, (str, Failure)) and not self._options.free_text:
                prediction = self._read_label(key, answer)
            if isinstance(prediction, Failure):
                self._note_failure(key, prediction)
            self.answers[key] = prediction
        if self._watched:
            self._check_watched()

    def _read_label(self, key: PromptKey, answer: Answer | Failure) -> Answer | Failure:
        """Return the prediction in a text or a failure: the label of a reply, or a failure if it has none."""
        if isinstance(answer, Text):
            self._options.counter.replies = True  # the result says that replies were read
        text_of_prompt, label_space = key
        # The prompt with its parts, where the function gets them; a reply may repeat a part.
        prompt = self._prompts.get(key, text_of_prompt)
        return read_reply(answer, label_space, self._options.unparsed, prompt)

    def _note_failure(self, key: PromptKey, failure: Failure) -> None:
        """Keep the failure of a query; it may end the run."""
        if ends_run([failure], self._options.on_error):
            self.ended = True
        is_failed_query = failure.reply is None
        if is_failed_query:
            self.failures[key] = failure

    def refuse_failures(self, numbers: Mapping[PromptKey, int]) -> None:
        """Raise an error if a query failed and ends the run, or if a query has no prediction although the run is over.

        Of several such queries, it is the error of the first one. Failed queries come first: after a failure, others
        have no prediction since they were not evaluated any more.

        Args:
            numbers: The number of each query, by its key.

        Raises:
            StaICCError: There is such a query.
        """
        failure_by_number: dict[int, Failure] = {}
        for key, failure in self.failures.items():
            if ends_run([failure], self._options.on_error):
                failure_by_number[numbers[key]] = failure
        if not failure_by_number:
            for key, number in numbers.items():
                if key not in self.answers:
                    failure_by_number[number] = _LOST
        if failure_by_number:
            first_number = min(failure_by_number)
            raise _error(f"{self._part.name}, query {first_number}", failure_by_number[first_number])

    def _check_watched(self) -> None:
        """Check the predictions of the first queries, once all of them have one, and log what is wrong.

        So a mistake that concerns all queries, such as one predicted label, is seen long before the run ends.
        """
        first_queries = self._watched
        last = first_queries[-1]  # usually the last one that is predicted
        if (last.prompt, last.label_space) not in self.answers:
            return
        predictions = []
        for query in first_queries:
            prediction = self.answers.get((query.prompt, query.label_space))
            if prediction is None or isinstance(prediction, Failure):
                return
            predictions.append(prediction)
        self._watched = []  # they are checked once
        for check in self._options.early_checks:
            warning = check(first_queries, predictions)
            if warning is not None and self._options.log is not None:
                self._options.log(f"{self._options.watched}: {warning}")

    def deliver(
        self, keys: Sequence[PromptKey], predictions: Sequence[Answer | Failure], usage: Usage = (0, 0, 0)
    ) -> None:
        """Take the predictions of a chunk; they are stored now, or with those of later chunks.

        Args:
            keys: The queries of the chunk.
            predictions: Their predictions, in order; fewer if the chunk ended early.
            usage: What a copy of the function in a worker process counted.
        """
        if any(usage):  # adding nothing takes time, too: 12 microseconds for each query of a plain function
            self._options.counter.add(*usage)
        received = list(zip(keys, predictions, strict=False))
        if self._options.store is not None:
            for key, prediction in received:
                if not isinstance(prediction, Failure):
                    self._uncommitted.append((key, prediction))
        self._keep(received)
        self.commit_if_due()
        self.report()

    def take_stored(self, stored: Mapping[PromptKey, Answer]) -> None:
        """Take predictions that another run stored meanwhile."""
        self._keep(stored.items())
        self._stored_count += len(stored)
        self.report()

    def commit_if_due(self) -> None:
        """Store the uncommitted predictions if there are many, or if the last commit was long ago."""
        are_many = len(self._uncommitted) >= self._commit_size
        if are_many or time.monotonic() - self._last_commit >= _COMMIT_SECONDS:
            self.commit()

    def commit(self) -> None:
        """Store the new predictions that are not stored yet.

        Another run may have stored a different prediction of a query before. It stays in the store, so this run uses
        it, too, in place of its own.
        """
        if self._options.store is not None and self._uncommitted:
            stored_by_others = self._options.store.put_many(self._uncommitted)
            self._keep(stored_by_others.items())
            # Emptied after the storing, not before: if Ctrl-C ends this call, the commit at the end of the run stores
            # them.
            self._uncommitted = []
        self._last_commit = time.monotonic()
        if self.after_commit is not None:
            self.after_commit()

    def report(self) -> None:
        """Call the progress callback."""
        if self._options.progress is None:
            return
        progress = Progress(
            done=len(self.answers),
            total=self._total,
            where=self._part.name,
            number=self._part.number,
            parts=self._part.parts,
            stored=self._stored_count,
            failed=len(self.failures),
            phase=self._part.phase,
        )
        self._options.progress(progress)


def _evaluate_in_one_call(
    function: Inference, queries: Sequence[Query], part: Part, options: RunOptions
) -> list[Answer | Failure]:
    """Return the predictions of a function that gets all prompts in one call (``batched_inference=True``).

    Its predictions may depend on the batch, as in batch calibration. So queries with equal prompts are not merged, and
    nothing is read from the store or written to it. Arguments as for :func:`predict_queries`.
    """
    if not queries:
        return []
    label_space = queries[0].label_space
    # Equal prompts may have different predictions, so keys have the number of the query in place of its prompt.
    numbers: dict[PromptKey, int] = {}
    prompts: dict[PromptKey, Prompt] = {}
    for number, query in enumerate(queries):
        key = (str(number), label_space)
        numbers[key] = number
        prompts[key] = query.prompt
    keys = list(numbers)

    retried_before = retried(function)
    if options.before_predicting is not None:
        options.before_predicting()
    options_without_store = replace(options, store=None)
    collector = AnswerCollector(options_without_store, part, total=len(keys), stored={}, prompts=prompts)
    batch = contract.user_batch_form(function)
    returned = batch_answers(batch, list(prompts.values()), label_space, with_parts=reads_parts(function))
    if not isinstance(returned, Failure):
        predictions = returned
    elif ends_run([returned], options.on_error):
        raise _error(part.name, returned)
    else:
        predictions = [returned] * len(keys)  # the call failed, and so did all of its queries
    collector.deliver(keys, predictions)

    failed_count = len(collector.failures)
    options.counter.counts.update(
        computed=len(keys) - failed_count, failed=failed_count, retried=retried(function) - retried_before
    )
    collector.refuse_failures(numbers)
    return list(collector.answers.values())


def chunks_of(
    keys: Sequence[PromptKey], cached: Mapping[PromptKey, Answer], function: Inference, options: RunOptions
) -> Iterator[list[PromptKey]]:
    """Yield the queries that are not cached in the chunks of a batched kernel, and one by one for other functions.

    A run evaluates them in this way. A forecast counts the tokens of these chunks without evaluating them.

    Args:
        keys: All distinct queries.
        cached: The stored predictions.
        function: The inference function.
        options: How the run evaluates them.
    """
    size = 1
    if batch_form(function) is not None:
        size = options.chunk_size or CHUNK_OF_KERNELS
    for group in by_label_space(keys):
        for chunk in divide_into_chunks(group, size, _most_characters(options)):
            missing = [key for key in chunk if key not in cached]
            if missing:
                yield missing


def _load_model(function: Inference, part: Part, options: RunOptions, collector: AnswerCollector) -> None:
    """Load a model that would be loaded at the first query, so that the progress shows the loading: it may take long.

    Args:
        function: The inference function.
        part: The name and the number of the queries, for messages and progress.
        options: Where the progress goes.
        collector: Reports the progress when the model is loaded.
    """
    kernel = loading_kernel(function)
    if kernel is None or kernel.is_loaded:
        return
    if options.progress is not None:
        report = Progress(done=0, total=0, where=part.name, number=part.number, parts=part.parts, phase=LOADING)
        options.progress(report)
    kernel.load_model()
    collector.report()  # the first batch may take long, too, and it is no loading


def _evaluate_pending(
    function: Inference, pending: PendingQueries, options: RunOptions, collector: AnswerCollector
) -> None:
    """Evaluate queries in this process or through an executor, and store the predictions as they come.

    After a failure that ends the run, the chunks in flight are finished.

    Args:
        function: The inference function.
        pending: The queries.
        options: How to evaluate them.
        collector: Receives the predictions.
    """
    collector.after_commit = pending.release_finished
    at_once = None
    if batch_form(function) is not None:
        at_once = queries_at_once(function)
    try:
        if isinstance(options.executor, WorkerPool):
            evaluate_in_workers(
                options.executor,
                function,
                pending,
                on_error=options.on_error,
                receiver=collector,
                size=options.chunk_size,
            )
        elif at_once is not None:
            _evaluate_served(function, pending, options, collector, at_once)
        else:
            _evaluate_in_this_thread(function, pending, options, collector)
    finally:
        # Also when the user interrupts.
        collector.commit()
        # It refers to the collector: the circle would keep all prompts in memory.
        collector.after_commit = None


def _evaluate_in_this_thread(
    function: Inference, pending: PendingQueries, options: RunOptions, collector: AnswerCollector
) -> None:
    """Evaluate queries in this thread: of a batched kernel chunk by chunk, else one after the other.

    It ends when no query is left, or after a failure that ends the run. Queries that another run evaluates now are
    waited for.

    Args:
        function: The inference function.
        pending: The queries.
        options: How to evaluate them.
        collector: Receives the predictions.
    """
    evaluate_chunk = chunk_evaluator(function, options.on_error)
    is_batched = _is_batched(function)
    pace = Pace(min(options.chunk_size or _CHUNK, _CHUNK))
    while not collector.ended:
        chunk = pending.take(pace.size)
        if chunk is None:
            collector.commit()
            if not pending.wait_for_others():
                return
        elif is_batched:
            predictions = evaluate_chunk(chunk)
            pending.finish(chunk)
            collector.deliver(chunk, predictions)
        else:
            began = time.monotonic()
            for key in chunk:
                collector.deliver([key], evaluate_chunk([key]))
                if collector.ended:
                    return
            pending.finish(chunk)
            pace.note(len(chunk), time.monotonic() - began)


def _evaluate_served(
    function: Inference, pending: PendingQueries, options: RunOptions, collector: AnswerCollector, at_once: int
) -> None:
    """Give the queries of a served model to threads, each in a call of its own.

    A few queries come first: one alone, and then as many as the model wants to compare. Most faults are of all queries,
    so the first one shows them. And a provider that has read one long prompt reads what others have in common with it
    from its cache, at a lower price; prompts that are sent together all miss the cache.

    Args:
        function: The inference function.
        pending: The queries.
        options: How to evaluate them.
        collector: Receives the predictions.
        at_once: The number of threads.
    """
    compared_queries = first_batch(function)
    is_one_first = options.on_error == "raise" or compared_queries == 1
    if is_one_first and served_function(function) is not None:
        _evaluate_first(function, pending, options, collector, number=1)
    if compared_queries > 1:
        _evaluate_first(function, pending, options, collector, number=compared_queries)
    threads = RequestThreads(at_once)
    try:
        evaluate_in_workers(
            WorkerPool(threads), function, pending, on_error=options.on_error, receiver=collector, size=1
        )
    finally:
        threads.shutdown()


def _evaluate_first(
    function: Inference, pending: PendingQueries, options: RunOptions, collector: AnswerCollector, number: int
) -> None:
    """Evaluate the first queries that are left in one call, in this thread.

    Args:
        function: The inference function.
        pending: The queries.
        options: How to evaluate them.
        collector: Receives the predictions; nothing is evaluated if the run ends.
        number: The most queries.
    """
    if collector.ended:
        return
    chunk = pending.take(number)
    if chunk is None:
        return
    evaluate_chunk = chunk_evaluator(function, options.on_error)
    predictions = evaluate_chunk(chunk)
    pending.finish(chunk)
    collector.deliver(chunk, predictions)

"""Evaluation of chunks of queries, in this process and through an executor.

Any :class:`concurrent.futures.Executor` works: threads, processes, Dask's ``Client.get_executor()``, MPI. A bounded
number of chunks is in flight. Results are delivered as they complete; their order does not change the predictions.

A worker that dies ends the run. Its chunk is lost; completed chunks are delivered, so the same call with the same store
continues. If a run ends early, pending chunks are cancelled, and threads stop after their current query.

Each worker process loads the inference function once, and checks that it is the one that was sent: files may have been
overwritten, and a module may have other globals when it is imported again.

In a chunk, the user's function gets each prompt, and its return value is checked
(:mod:`StaICC.inference.contract`). An exception, a value that cannot be scored, or an object whose methods fail becomes
a :class:`Failure` with a reason. Only ``KeyboardInterrupt`` propagates.
"""

from __future__ import annotations

import contextlib
import dataclasses
import itertools
import os
import re
import signal
import sys
import threading
import traceback
import warnings
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import FIRST_COMPLETED, BrokenExecutor, CancelledError, Executor, Future, wait
from dataclasses import dataclass, field
from pathlib import PurePath
from typing import Any, Literal, TypeVar

from StaICC import errors
from StaICC.inference.contract import Answer, BatchForm, ReplyLabel, Usage, batch_form, check_answer, check_batch, usage
from StaICC.inference.identity import Identity, identity_of
from StaICC.inference.prompt_key import PromptKey
from StaICC.prompting import Prompt
from StaICC.prompting.prompt_writer import as_argument
from StaICC.safe_text import logger, one_line

_T = TypeVar("_T")

OnError = Literal["raise", "collect"]
"""Stop at the first query without a prediction, or continue and report it."""
Unparsed = Literal["error", "wrong", "excluded"]
"""How a reply without a label counts: as a failed query, as a wrong prediction, or not at all (with bounds)."""

Chunk = Sequence[PromptKey]
"""Prompts with their label space, which is the same for all."""

_LONGEST = 2000  # characters of a reason, which is saved in results

_FINAL = (SystemExit, errors.DataError, errors.RunEndingError, errors.MissingDependencyError)


@dataclass(frozen=True, slots=True)
class Failure:
    """A query without a prediction."""

    reason: str
    """The error message."""
    cause: BaseException | None = field(default=None, compare=False, repr=False)
    """The exception, if it was raised in this process."""
    final: bool = False
    """Whether it ends the run even with ``on_error="collect"``: the function exits, a package or data is missing, or
    every query would fail in the same way."""
    reply: str | None = None
    """The generated reply, if it has no label and the run does not count it as a failed query; empty if the server
    withheld it."""

    def __reduce__(self) -> tuple[Any, ...]:
        return Failure, (self.reason, None, self.final, self.reply)  # exceptions of user code may not be picklable


def ends(answers: Sequence[Answer | Failure], on_error: OnError) -> bool:
    """Return whether a run ends after these predictions."""
    failures = [answer for answer in answers if isinstance(answer, Failure)]
    return any(failure.final or (on_error == "raise" and failure.reply is None) for failure in failures)


def _describe(error: BaseException) -> str:
    """Describe an exception of user code, with file and line."""
    try:
        text = str(error)
    except Exception:
        text = "(its message cannot be shown)"
    place = ""
    for frame, line in traceback.walk_tb(error.__traceback__):
        place = f" (at {PurePath(frame.f_code.co_filename).name}:{line})"
    shown = text if len(text) <= _LONGEST else text[:_LONGEST] + " ..."
    return type(error).__name__ + (f": {shown}" if shown else "") + place


def _raised(said: str, error: BaseException) -> Failure:
    """Return the failure of a query whose exception is described after these words."""
    if isinstance(error, errors.MissingDependencyError):
        return Failure(str(error), error, final=True)
    hint, trace = "", error.__traceback__
    called = isinstance(error, TypeError) and trace is not None and trace.tb_next is None
    if called and "required positional argument" in str(error):
        hint = "; it is called with prompt and label_space only: bind other parameters with functools.partial"
    elif called and "unexpected keyword argument" in str(error):
        names = "prompt and label_space, or pass batched_inference=True if it takes a list of prompts"
        names = "prompts and label_space" if said.startswith("the batched") else names
        hint = f"; it is called with arguments by name: call its parameters {names}"
    withheld = "" if isinstance(error, errors.WithheldReplyError) else None
    return Failure(f"{said} {_describe(error)}{hint}", error, isinstance(error, _FINAL), withheld)


def _called(who: str, function: Callable[..., _T], *arguments: Any, **named: Any) -> _T | Failure:
    """Return what code of the user's returns, or a failure in the place of an exception."""
    try:
        return function(*arguments, **named)
    except KeyboardInterrupt:
        raise
    except BaseException as error:
        return _raised(f"{who} raised", error)


def checked(value: Any, label_space: Sequence[str]) -> Answer | Failure:
    """Check the return value for one query.

    Args:
        value: The return value. An exception, which batched functions may return for a query, is a failure.
        label_space: The labels of the query.

    Returns:
        The prediction (a text is a reply), or a failure with the reason.
    """
    if issubclass(type(value), BaseException):  # not isinstance, which asks the value for its class
        return _raised("the inference function gave an error:", value)
    who = f"reading the inference function's answer, a {type(value).__name__},"
    answer = _called(who, check_answer, value, label_space, True)
    if isinstance(answer, Failure) and isinstance(answer.cause, errors.OutputError):
        return Failure(f"the inference function's answer cannot be scored: {answer.cause}", answer.cause)
    return answer


def unparsed_reason(rule: str, reply: str) -> str:
    """Say why a reply has no label, with its beginning."""
    return f"unparsed reply ({rule}): {one_line(reply if len(reply) <= 80 else reply[:77] + '...')!r}"


def unlabelled(reason: str) -> Failure:
    """Return a reply without a label from its recorded reason: it is empty where the reason shows no text."""
    rule = reason.removeprefix("unparsed reply (")
    return Failure(reason, reply="" if rule == reason or rule.startswith("empty") else rule)


def read_reply(answer: Answer | Failure, label_space: Sequence[str], unparsed: Unparsed) -> Answer | Failure:
    """Return the label of a reply, or a failure that shows the reply; everything else is returned unchanged.

    Args:
        answer: A checked prediction: a text is a reply.
        label_space: The labels of the query.
        unparsed: How replies without a label count.
    """
    if isinstance(answer, Failure) and answer.reply is not None and unparsed == "error":
        return dataclasses.replace(answer, reply=None)
    if not isinstance(answer, str):
        return answer
    from StaICC.inference.reply_parser import parse_reply  # 25 patterns, for replies only

    parsed = parse_reply(answer, label_space)
    if parsed.label is not None:
        return ReplyLabel(parsed.label, answer)
    reason = unparsed_reason(parsed.rule, answer)
    if unparsed != "error":
        return Failure(reason, reply=answer)
    labels = ", ".join(map(repr, label_space[:10])) + ", ..." * (len(label_space) > 10)
    return Failure(f"{reason}; expected one of {labels}. unparsed='wrong' or 'excluded' (--unparsed) continues")


def batch_answers(
    batch: BatchForm, prompts: Sequence[Prompt], label_space: Sequence[str]
) -> list[Answer | Failure] | Failure:
    """Call a batched function.

    Args:
        batch: Takes prompts and label space.
        prompts: The prompts.
        label_space: Their label space.

    Returns:
        One prediction or failure per prompt, or a failure of the call.
    """
    arguments = [as_argument(prompt) for prompt in prompts], list(label_space)
    values = _called("the batched inference function", batch, *arguments)
    if type(values) is Failure:
        return values
    answers = _called("reading the batched inference function's answers", check_batch, values, len(prompts))
    if type(answers) is Failure and isinstance(answers.cause, errors.OutputError):
        if len(prompts) > 1:
            text = "batch() did not return a list with one prediction for each prompt; it gets fewer prompts again"
            warnings.warn(text, RuntimeWarning, stacklevel=1)  # a constant text at one place: shown once
        return Failure(str(answers.cause), answers.cause)
    return answers if isinstance(answers, Failure) else [checked(value, label_space) for value in answers]


def solver(
    function: Any, on_error: OnError, stopped: Callable[[], bool] = lambda: False
) -> Callable[[Chunk], list[Answer | Failure]]:
    """Return what evaluates chunks of queries with one label space.

    Args:
        function: The inference function.
        on_error: With ``"raise"`` a chunk ends at the first failure.
        stopped: Called before each prompt of a function that is not batched; if true, the chunk ends.

    Returns:
        A function that returns one prediction or failure per query, in order; fewer if the chunk ended early.
    """
    batch = batch_form(function)

    def solve(chunk: Chunk) -> list[Answer | Failure]:
        if batch is not None:
            return _solve_batch(batch, [prompt for prompt, _ in chunk], chunk[0][1], on_error)
        answers: list[Answer | Failure] = []
        for prompt, labels in chunk:
            if stopped():
                break
            value = _called("the inference function", function, prompt=as_argument(prompt), label_space=list(labels))
            answers.append(value if type(value) is Failure else checked(value, labels))
            if ends(answers[-1:], on_error):
                break
        return answers

    return solve


def _solve_batch(
    batch: BatchForm, prompts: Sequence[Prompt], label_space: tuple[str, ...], on_error: OnError
) -> list[Answer | Failure]:
    """Evaluate a chunk in one call; if it fails, halve it until the failing query is alone."""
    values = batch_answers(batch, prompts, label_space)
    if not isinstance(values, Failure):
        return values
    if len(prompts) == 1 or isinstance(values.cause, errors.MissingDependencyError):
        return [values]
    if values.final:
        reason = f"{values.reason}, asked for {len(prompts)} queries from this one on"
        return [dataclasses.replace(values, reason=reason)]
    half = len(prompts) // 2
    answers = _solve_batch(batch, prompts[:half], label_space, on_error)
    if ends(answers, on_error):
        return answers
    return answers + _solve_batch(batch, prompts[half:], label_space, on_error)


# Failure reasons. Kernels and servers have different messages, and a worker process returns only the message, so this
# searches for phrases. The result decides only whether on_error="raise" ends the run or continues with other rounds.

_TOO_LONG = re.compile(
    r"the model reads \d"
    r"|context[ _-](length|size|window|limit)"
    r"|\b(prompt|input|sequence|context|query|message)s?\b[^.;\n]{0,40}\b(is|are|was|were) too long\b"
    r"|maximum (model|sequence|prompt|input|position)[ _-]?(length|embeddings?)"
    r"|\bmax_(model_len|position_embeddings|seq_len|input_tokens)"
    r"|`inputs` (tokens \+|must have less)"
    r"|exceeds the maximum number of (input )?tokens|max_tokens must be at least 1, got -",
    re.IGNORECASE,
)
_PLACE = re.compile(r" \(at [^()\n]*:\d+\)")
_NUMBER = re.compile(r"\d[\d,.]*")


def is_too_long(reason: str) -> bool:
    """Return whether a failure reason says that a prompt exceeds the context length of the model.

    Example:
        >>> is_too_long("prompt 0 has 40123 tokens, but the model reads 32768 at most")
        True
        >>> is_too_long("the server took too long to answer")
        False
    """
    return _TOO_LONG.search(reason) is not None


def alike(reasons: Mapping[str, int]) -> tuple[tuple[str, int], ...]:
    """Merge failure reasons that differ only in numbers.

    Args:
        reasons: Number of queries for each reason.

    Returns:
        The first reason of each kind, without its code location, and the number of queries of the kind; the most
        frequent first.

    Example:
        >>> alike({"it has 3 tokens": 1, "refused": 1, "it has 51 tokens": 2})
        (('it has 3 tokens', 3), ('refused', 1))
    """
    merged: dict[str, tuple[str, int]] = {}
    for reason, count in reasons.items():
        message = _PLACE.sub("", reason)
        kind = _NUMBER.sub("#", message)
        first, before = merged.get(kind, (message, 0))
        merged[kind] = (first, before + count)
    return tuple(sorted(merged.values(), key=lambda pair: -pair[1]))


_LOG = logger(__name__)

_Deliver = Callable[[Chunk, list[Answer | Failure], Usage], None]
_Solved = tuple[list[Answer | Failure], Usage]

DEVICES = "CUDA_VISIBLE_DEVICES"
_THREADS = "OMP_NUM_THREADS"
_LOST = frozenset({"KilledWorker", "CommClosedError"})  # of Dask, by name, so that it need not be imported
_UNKNOWN_CAPACITY = 8
_POLL_SECONDS = 0.5
_GRACE_SECONDS = 0.8  # for threads to finish their query when a run ends early


# The inference function in a worker.

_LOADED: dict[str, Any] = {}  # in a worker process: the latest function by its identifier
_LOADING = threading.Lock()


@dataclass(eq=False)
class RemoteFunction:
    """An inference function for workers. Where it is unpickled, it loads the function once and checks its identity."""

    function: Any
    data: bytes | None = None
    """The pickled function. A process pool breaks without a reason if a worker cannot unpickle a chunk; these bytes are
    unpickled where the exception reaches the run."""
    identifier: str = ""
    """Which function this is, in a copy."""
    identity: Identity | None = None
    """Of the function that was sent, in a copy."""
    is_copy: bool = False
    """Whether it was unpickled in a worker process."""
    stopped: bool = False
    """Whether threads of this process end their chunks early."""

    def __reduce__(self) -> tuple[Any, ...]:
        if not self.identifier:
            self.identifier, self.identity = os.urandom(16).hex(), identity_of(self.function)
        function = self.function if self.data is None else None
        return RemoteFunction, (function, self.data, self.identifier, self.identity, True)

    def load(self) -> Any:
        """Return the function.

        Raises:
            ArgumentError: It cannot be unpickled in this process.
            IdentityError: The function in this process has another identity.
        """
        import pickle

        with _LOADING:
            if self.identifier in _LOADED:
                return _LOADED[self.identifier]
            _LOADED.clear()  # frees the memory of another model first
            try:
                function = self.function if self.data is None else pickle.loads(self.data)
            except errors.StaICCError:
                raise
            except Exception as error:
                raise errors.ArgumentError(
                    f"a worker process cannot load the inference function ({type(error).__name__}: {error}); define it "
                    "in a module, not in a notebook or the text of a command"
                ) from error
            loaded = identity_of(function)
            if self.identity is not None and loaded != self.identity:
                pairs = self.identity.differences(loaded).items()
                changes = [f"{name} was {before}, is {now}" for name, (before, now) in pairs]
                changes += sorted({*self.identity.unidentified} ^ {*loaded.unidentified})
                raise errors.IdentityError(
                    "a worker process has another inference function than the one that was sent to it: "
                    f"{'; '.join(changes)}. A change in memory does not reach it: make it in the files or in the module"
                )
            _LOADED[self.identifier] = function
            return function


def _solve(remote: RemoteFunction, chunk: Chunk, on_error: OnError) -> _Solved:
    """Evaluate one chunk in a worker; return the predictions, and what a copy of the function counted."""
    function = remote.load() if remote.is_copy else remote.function  # else in a thread of the process that runs
    before = usage(function)
    predictions = solver(function, on_error, lambda: remote.stopped)(chunk)
    again, read, generated = (after - value for after, value in zip(usage(function), before, strict=True))
    return predictions, (again, read, generated) if remote.is_copy else (0, 0, 0)


# The executor.


class WorkerPool:
    """An executor, made when the first chunk is submitted.

    Args:
        executor: An executor, or a function that makes one.

    Raises:
        ArgumentError: It is neither.
    """

    def __init__(self, executor: Executor | Callable[[], Executor]) -> None:
        if not isinstance(executor, Executor) and not callable(executor):
            hint = ". Dask's client has one: client.get_executor()" if hasattr(executor, "get_executor") else ""
            expected = f"expected an Executor, or a function that makes one{hint}"
            raise errors.ArgumentError(f"executor: got {executor!r}, {expected}")
        self._make = None if isinstance(executor, Executor) else executor
        self._executor = executor if isinstance(executor, Executor) else None
        self._remotes: dict[int, RemoteFunction] = {}  # by id of the function, which they keep

    @property
    def executor(self) -> Executor:
        """The executor to submit to.

        Raises:
            ArgumentError: The function that makes one made something else.
        """
        if self._executor is None:
            assert self._make is not None
            made = self._make()
            if not isinstance(made, Executor):
                raise errors.ArgumentError(f"the function given as executor must make an Executor; it made {made!r}")
            self._executor = made
        return self._executor

    def capacity(self) -> int:
        """Return how many chunks can run at once, or a default if the executor does not say."""
        workers = getattr(self.executor, "_max_workers", None) or getattr(self.executor, "num_workers", None)
        if isinstance(workers, int):
            return workers
        threads = getattr(getattr(self.executor, "_client", None), "nthreads", None)  # Dask's; a cluster may grow
        return sum(threads().values()) or 1 if callable(threads) else _UNKNOWN_CAPACITY

    def remote(self, function: Any) -> RemoteFunction:
        """Return the function in the form to submit; the same object for the same function."""
        if remote := self._remotes.get(id(function)):
            return remote
        made, executor = RemoteFunction(function), self.executor
        processes = sys.modules.get("concurrent.futures.process")  # loaded if the executor is a process pool
        if processes is not None and isinstance(executor, processes.ProcessPoolExecutor):
            import pickle

            made.data = pickle.dumps(function)
            if not identity_of(function).complete:
                _LOG.warning(
                    "worker processes load the inference function again, and changes since its module was imported may "
                    "be missing there: make them in the module"
                )
        self._remotes[id(function)] = made  # Dask and others pickle with cloudpickle, which can do more
        return made

    def stop_threads(self) -> None:
        """Let threads of this process stop after their current query."""
        for remote in self._remotes.values():
            remote.stopped = True
        self._remotes.clear()

    def close(self, hurry: bool = False) -> None:
        """Shut down the executor that this pool made; the user's own executor stays open.

        Args:
            hurry: Do not wait for running chunks; kill their processes.
        """
        executor = self._executor
        if executor is None or self._make is None:
            return
        self._executor = None
        processes = dict(getattr(executor, "_processes", None) or {}) if hurry else {}
        manager = getattr(executor, "_executor_manager_thread", None) if hurry else None
        executor.shutdown(wait=not hurry)
        for process in processes.values():
            with contextlib.suppress(ValueError, OSError):  # it has ended and was closed
                process.kill()
        if manager is not None:  # it closes the pool's pipes, which before Python 3.12 must not meet the end
            manager.join(_GRACE_SECONDS)


@contextlib.contextmanager
def _interrupts_held_back() -> Iterator[None]:
    """Deliver Ctrl-C after this: processes that start here inherit the mask, and have not yet chosen to ignore it."""
    if not hasattr(signal, "pthread_sigmask"):  # Windows
        yield
        return
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


@contextlib.contextmanager
def _explained() -> Iterator[None]:
    """Turn what an executor raises into an error that says what to do.

    Raises:
        RunEndingError: A worker died.
        ArgumentError: The executor cannot run the chunk.
    """
    try:
        yield
    except errors.StaICCError:
        raise
    except CancelledError as error:
        raise errors.ArgumentError(
            "the executor cancelled a chunk: was it shut down, the cluster restarted?"
        ) from error
    except Exception as error:
        reason = f"({type(error).__name__}: {error})"
        if isinstance(error, BrokenExecutor) or type(error).__name__ in _LOST:
            raise errors.RunEndingError(
                f"a worker died {reason}. Look at its messages on stderr and at the free memory. Completed predictions "
                "are in the store, if there is one: run the same again to continue"
            ) from error
        raise errors.ArgumentError(
            f"the executor could not run a chunk {reason}. If it was not shut down: the inference function must be "
            "picklable to run in other processes, such as a function of a module, or a kernel made from a name"
        ) from error


def solve_in_workers(
    pool: WorkerPool, function: Any, chunks: Iterable[Chunk], on_error: OnError, deliver: _Deliver, ahead: bool
) -> None:
    """Evaluate chunks through an executor.

    Args:
        pool: The executor; it stays open.
        function: The inference function.
        chunks: The chunks, each of one label space.
        on_error: See :func:`~StaICC.inference.workers.solver`.
        deliver: Receives each chunk with its predictions and what a copy of the function counted. After Ctrl-C it may
            receive the same chunk twice.
        ahead: Submit chunks ahead, so that no worker waits. Otherwise there are at most as many unfinished chunks as
            workers, so that a kill loses at most one per worker.

    Raises:
        ArgumentError: The executor cannot run the chunks.
        RunEndingError: A worker died.
    """
    source, in_flight = iter(chunks), dict[Future[_Solved], Chunk]()
    try:
        while True:
            with _explained():
                free = pool.capacity() * (1 + ahead) - len(in_flight)
            for chunk in itertools.islice(source, max(not in_flight, free)):
                with _explained():
                    remote = pool.remote(function)  # multiprocessing ends a mask where it starts its own process
                    with _interrupts_held_back():
                        future = pool.executor.submit(_solve, remote, chunk, on_error)
                in_flight[future] = chunk
            if not in_flight:
                return
            # With a timeout: a signal may arrive in another thread, and this one must notice it.
            done = wait(in_flight, _POLL_SECONDS, FIRST_COMPLETED).done
            for future in done:
                with _explained():
                    solved = future.result()
                deliver(in_flight[future], *solved)
                del in_flight[future]  # only now: after an interrupt during the delivery it is delivered again
    except BaseException:
        pool.stop_threads()
        for future in in_flight:
            future.cancel()
        wait(in_flight, _GRACE_SECONDS)
        for future, chunk in in_flight.items():
            if future.done() and not future.cancelled() and future.exception() is None:
                with contextlib.suppress(Exception):  # the first error is the one to raise
                    deliver(chunk, *future.result())
        raise


# Worker processes.


def _end_with_parent() -> None:
    import multiprocessing

    parent = multiprocessing.parent_process()
    if parent is not None:
        parent.join()
        os._exit(1)


def _begin(begun: Any, devices: tuple[str, ...], threads: int) -> None:
    """Prepare a worker process, before its first chunk."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the parent gets it too, and decides
    with begun.get_lock():
        number, begun.value = begun.value, begun.value + 1
    if devices:
        os.environ[DEVICES] = devices[number % len(devices)]
    else:
        os.environ.setdefault(_THREADS, str(threads))
    threading.Thread(target=_end_with_parent, daemon=True).start()


def worker_processes(workers: int, devices: Sequence[str | int] | None = None) -> Callable[[], Executor]:
    """Return a function that makes a pool of worker processes, for ``executor=``.

    Unlike those of a plain ``ProcessPoolExecutor``, these workers share nothing that the parent had open (the CUDA
    runtime does not survive a fork), each uses its own device, and they end when the parent is killed.

    Args:
        workers: How many processes.
        devices: GPUs by number or identifier, dealt to the workers in turn: each sees one only (through
            ``CUDA_VISIBLE_DEVICES``, which PyTorch for ROCm obeys too). By default those that this process's own
            ``CUDA_VISIBLE_DEVICES`` lists; if there are none, the processor's cores are divided among the workers
            (``OMP_NUM_THREADS``, unless it is set).

    Returns:
        The function. It makes a new pool at each call.

    Raises:
        ArgumentError: An argument is invalid.

    Example:
        >>> make = worker_processes(2)
        >>> with make() as pool:
        ...     pool.submit(max, 3, 4).result()
        4
    """
    workers = errors.validate_integer("workers", workers, 1)
    if isinstance(devices, str):
        raise errors.ArgumentError(f"devices must be a list such as [0, 1], not the text {devices!r}")
    given = os.environ.get(DEVICES, "").split(",") if devices is None else devices
    names = tuple(name for device in given if (name := str(device).strip()))
    threads = max(1, (os.cpu_count() or 1) // workers)

    def make() -> Executor:
        import multiprocessing  # most runs do not need it
        from concurrent.futures import ProcessPoolExecutor

        context = multiprocessing.get_context("spawn")
        return ProcessPoolExecutor(workers, context, _begin, (context.Value("i", 0), names, threads))

    return make

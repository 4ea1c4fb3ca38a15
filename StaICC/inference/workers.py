"""Evaluation of chunks of queries through an executor.

Any :class:`concurrent.futures.Executor` works: threads, processes, Dask's ``Client.get_executor()``, MPI. Each worker
has one chunk at a time, of about half a second, and returns after that time what it has. Results are delivered as they
complete; their order does not change the predictions.

A worker that dies ends the run. Its chunk is lost; completed chunks are delivered, so the same call with the same store
continues. If a run ends early, threads stop after their current query, and processes have a moment to end
their chunks.

Each worker process loads the inference function once, and checks that it is the one that was sent: files may have been
overwritten, and a module may have other globals when it is imported again. A worker with another version of this
library or of Python is refused.
"""

from __future__ import annotations

import contextlib
import os
import queue
import re
import signal
import sys
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import FIRST_COMPLETED, BrokenExecutor, CancelledError, Executor, Future, wait
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple, Protocol

from StaICC.argument_syntax import is_on_command_line, set_syntax
from StaICC.arguments import validate_integer
from StaICC.errors import ArgumentError, IdentityError, RunEndingError, StaICCError
from StaICC.inference.contract import Answer, Usage, batch_form, queries_at_once, stop_requests, usage
from StaICC.inference.identity import Identity, identity_of
from StaICC.inference.pending import CHUNK_SECONDS, Pace, PendingQueries
from StaICC.inference.replies import Chunk, Failure, OnError, chunk_evaluator, ends_run
from StaICC.safe_text import logger
from StaICC.version import __version__

_LOG = logger(__name__)

DEVICES = "CUDA_VISIBLE_DEVICES"
_THREADS = "OMP_NUM_THREADS"
_LOST = frozenset({"KilledWorker", "CommClosedError"})  # of Dask, by name, so that it need not be imported
_UNKNOWN_CAPACITY = 8
_MOST_QUERIES = 1024
"""Queries of a chunk of a function of one prompt, at most: their prompts are sent to the worker."""
_POLL_SECONDS = CHUNK_SECONDS / 2
_CUT_SECONDS = 1.5 * CHUNK_SECONDS
"""After this time a worker returns what it has of a chunk."""
_GRACE_SECONDS = 3 * CHUNK_SECONDS
"""How long chunks in flight may go on when a run ends early."""
_NO_WORKERS_SECONDS = 5.0
"""How long an executor may have no workers before the run says so: a cluster takes a moment to start some."""
_CONTINUE = "Completed predictions are in the store, if there is one: run the same again to continue"


# The inference function in a worker.

_LOADED: dict[str, Any] = {}  # in a worker process: the latest function by its identifier
NO_GUARD = (
    'The script has no `if __name__ == "__main__":`, and worker processes import it: put everything but imports and '
    "definitions below that line"
)
_LOADING = threading.Lock()


VERSIONS = (__version__, f"{sys.version_info.major}.{sys.version_info.minor}")
"""The versions of this library and of Python in this process."""


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
    versions: tuple[str, str] = VERSIONS
    """The versions of this library and of Python in the process that sent the function."""
    stopped: bool = False
    """Whether threads of this process end their chunks early."""

    def __reduce__(self) -> tuple[Any, ...]:
        """Return how pickle makes the copy for a worker process: a class, and the arguments to call it with.

        At the first call, the function gets an identifier, by which a worker finds the copy that it has loaded before,
        and its identity is noted, which the worker compares with that of its copy.
        """
        if not self.identifier:
            self.identifier = os.urandom(16).hex()
            self.identity = identity_of(self.function)
        # The bytes in ``data`` are the pickled function, which is then not pickled a second time.
        function = self.function if self.data is None else None
        is_copy = True
        return RemoteFunction, (function, self.data, self.identifier, self.identity, is_copy, self.versions)

    def load(self) -> Any:
        """Return the function.

        Raises:
            ArgumentError: It cannot be unpickled in this process, or was sent by another version.
            IdentityError: The function in this process has another identity.
        """
        self._check_versions()
        with _LOADING:
            if self.identifier in _LOADED:
                return _LOADED[self.identifier]
            _LOADED.clear()  # frees the memory of another model first
            function = self._unpickled()
            self._check_identity(function)
            _LOADED[self.identifier] = function
            return function

    def _check_versions(self) -> None:
        """Refuse a function that was sent by another version of this library or of Python."""
        if self.versions == VERSIONS:
            return
        own_library, own_python = VERSIONS
        sent_library, sent_python = self.versions
        raise ArgumentError(
            f"a worker has StaICC {own_library} with Python {own_python}, but the run has StaICC {sent_library} with "
            f"Python {sent_python}. Install the same versions for both"
        )

    def _unpickled(self) -> Any:
        """Return the function; unpickles it if it was sent in pickled form."""
        if self.data is None:
            return self.function
        import pickle

        try:
            return pickle.loads(self.data)
        except StaICCError:
            raise
        except Exception as error:
            raise ArgumentError(
                f"a worker process cannot load the inference function ({type(error).__name__}: {error}); define it in "
                "a module, not in a notebook or the text of a command"
            ) from error

    def _check_identity(self, function: Any) -> None:
        """Refuse a function that is not the one that was sent."""
        sent_identity = self.identity
        loaded_identity = identity_of(function)
        if sent_identity is None or loaded_identity == sent_identity:
            return
        changes = []
        for name, (before, now) in sent_identity.differences(loaded_identity).items():
            changes.append(f"{name} was {before}, is {now}")
        reasons_of_one_side = set(sent_identity.unidentified) ^ set(loaded_identity.unidentified)
        changes += sorted(reasons_of_one_side)
        raise IdentityError(
            "a worker process has another inference function than the one that was sent to it: "
            f"{'; '.join(changes)}. A change in memory does not reach it: make it in the files or in the module"
        )


class _ChunkResult(NamedTuple):
    """What a worker returns of a chunk."""

    predictions: list[Answer | Failure]
    """One for each query, in order; fewer if the chunk ended early."""
    usage: Usage
    """What a copy of the function counted."""
    seconds: float
    """How long the evaluation took."""
    is_cut: bool
    """Whether the other queries are still to be evaluated."""


def _evaluate_chunk(remote: RemoteFunction, chunk: Chunk, on_error: OnError) -> _ChunkResult:
    """Return the predictions of a chunk of queries; this is what runs in a worker.

    After :data:`_CUT_SECONDS`, or if the run ends early, they are those of the first queries of the chunk only.

    Args:
        remote: The inference function. In a worker process it is a copy, whose requests and tokens are counted here. In
            a thread it is the function of the run itself, and the run counts them.
        chunk: The queries.
        on_error: Whether the chunk ends at the first query without a prediction.
    """
    function = remote.load() if remote.is_copy else remote.function
    if remote.stopped:
        return _ChunkResult(predictions=[], usage=(0, 0, 0), seconds=0.0, is_cut=True)
    usage_before = usage(function)
    began = time.monotonic()

    def must_stop() -> bool:
        """Return whether the chunk ends before its next query."""
        return remote.stopped or time.monotonic() - began > _CUT_SECONDS

    evaluate = chunk_evaluator(function, on_error, must_stop)
    predictions = evaluate(chunk)
    seconds = time.monotonic() - began

    usage_of_chunk: Usage = (0, 0, 0)
    if remote.is_copy:
        usage_of_chunk = _difference_of_usage(usage(function), usage_before)
    run_ends = ends_run(predictions, on_error)
    if run_ends and not remote.is_copy:
        # All threads share this object, so that none begins another chunk before the run receives this one.
        remote.stopped = True
    is_cut = len(predictions) < len(chunk) and not run_ends
    return _ChunkResult(predictions, usage_of_chunk, seconds, is_cut)


def _difference_of_usage(after: Usage, before: Usage) -> Usage:
    """Return what was counted between two counts of a function."""
    retried_after, read_after, generated_after = after
    retried_before, read_before, generated_before = before
    return retried_after - retried_before, read_after - read_before, generated_after - generated_before


# The executor.


class WorkerPool:
    """An executor, made when the first chunk is submitted.

    Args:
        executor: An executor, or a function that makes one.

    Raises:
        ArgumentError: It is neither.
    """

    def __init__(self, executor: Executor | Callable[[], Executor]) -> None:
        """Keep the executor, or the function that makes one when the first chunk is submitted."""
        self._executor: Executor | None = None
        self._make: Callable[[], Executor] | None = None
        """Makes the executor; ``None`` if it is the user's own."""
        self._remotes: dict[int, RemoteFunction] = {}
        """The form in which each inference function is submitted, by the id of the function."""
        if isinstance(executor, Executor):
            self._executor = executor
        elif callable(executor):
            self._make = executor
        else:
            hint = ". Dask's client has one: client.get_executor()" if hasattr(executor, "get_executor") else ""
            expected = f"expected an Executor, or a function that makes one{hint}"
            raise ArgumentError(f"executor: got {executor!r}, {expected}")

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
                raise ArgumentError(f"the function given as executor must make an Executor; it made {made!r}")
            self._executor = made
        return self._executor

    def workers(self) -> int | None:
        """Return how many chunks can run at once now; ``None`` if the executor does not say.

        Raises:
            RunEndingError: The scheduler of a Dask cluster does not answer.
        """
        stated_number = getattr(self.executor, "_max_workers", None) or getattr(self.executor, "num_workers", None)
        if isinstance(stated_number, int):
            return stated_number
        dask_client = getattr(self.executor, "_client", None)
        threads_of_workers = getattr(dask_client, "nthreads", None)
        if not callable(threads_of_workers):
            return None
        try:
            threads: dict[str, int] = threads_of_workers()  # a cluster may grow
        except Exception as error:
            reason = f"({type(error).__name__}: {error})"
            raise RunEndingError(f"the scheduler of the cluster does not answer {reason}. {_CONTINUE}") from error
        return sum(threads.values())

    def remote(self, function: Any) -> RemoteFunction:
        """Return an inference function in the form in which chunks are submitted with it to the executor.

        It is the same object for the same function. For a process pool, it has the function in pickled form.
        """
        if id(function) in self._remotes:
            return self._remotes[id(function)]
        remote = RemoteFunction(function)
        # Other executors, such as Dask's, pickle with cloudpickle, which can do more.
        if self._is_process_pool():
            import pickle

            remote.data = pickle.dumps(function)
            if not identity_of(function).complete:
                _LOG.warning(
                    "worker processes load the inference function again, and changes since its module was imported may "
                    "be missing there: make them in the module"
                )
        self._remotes[id(function)] = remote
        return remote

    def _is_process_pool(self) -> bool:
        """Return whether the executor is a process pool of Python."""
        executor = self.executor
        # The module is loaded if there is such an executor.
        processes = sys.modules.get("concurrent.futures.process")
        return processes is not None and isinstance(executor, processes.ProcessPoolExecutor)

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
        is_own = self._make is not None
        if executor is None or not is_own:
            return
        self._executor = None
        if not hurry:
            executor.shutdown()
            return
        # A process pool of Python has these two attributes until its shutdown.
        process_by_id = getattr(executor, "_processes", None) or {}
        processes = list(process_by_id.values())
        manager_thread = getattr(executor, "_executor_manager_thread", None)
        executor.shutdown(wait=False)
        for process in processes:
            with contextlib.suppress(ValueError, OSError):  # it has ended and was closed
                process.kill()
        if manager_thread is not None:
            # It closes the pool's pipes, which before Python 3.12 must not meet the end of the interpreter.
            manager_thread.join(_GRACE_SECONDS)


@contextlib.contextmanager
def _interrupts_held_back() -> Iterator[None]:
    """Hold Ctrl-C and SIGHUP back within a with block that starts processes, and deliver them after it.

    The processes that start here inherit this mask, so that the signals end this process only, which then ends them.
    Workers choose to ignore Ctrl-C only once they run; SIGHUP stays masked in them, and in the process with which
    ``multiprocessing`` keeps track of them.
    """
    if not hasattr(signal, "pthread_sigmask"):  # Windows
        yield
        return
    mask_before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT, signal.SIGHUP})
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, mask_before)


def _lacks_guard() -> bool:
    """Return whether the running script has no ``if __name__ == "__main__":``; workers run its file again."""
    path = getattr(sys.modules.get("__main__"), "__file__", None)
    if path is None:
        return False
    try:
        source = Path(path).read_text("utf-8")
    except (OSError, ValueError):
        return False
    guard = re.search(r"""__name__\s*==\s*['"]__main__['"]""", source)
    return guard is None


@contextlib.contextmanager
def _errors_explained() -> Iterator[None]:
    """Turn what an executor raises into an error that says what to do.

    Raises:
        RunEndingError: A worker died, or the executor cancelled the chunk.
        ArgumentError: The executor cannot run the chunk.
    """
    try:
        yield
    except StaICCError:
        raise
    except CancelledError as error:
        reason = "was it shut down, or did the scheduler of its cluster end or restart?"
        raise RunEndingError(f"the executor cancelled a chunk: {reason} {_CONTINUE}") from error
    except Exception as error:
        reason = f"({type(error).__name__}: {error})"
        is_broken = isinstance(error, BrokenExecutor)
        if is_broken and _lacks_guard():
            raise RunEndingError(f"a worker died {reason}. {NO_GUARD}") from error
        if is_broken or type(error).__name__ in _LOST:
            raise RunEndingError(
                f"a worker died {reason}. Look at its messages on stderr and at the free memory. {_CONTINUE}"
            ) from error
        raise ArgumentError(
            f"the executor could not run a chunk {reason}. If it was not shut down: the inference function must be "
            "picklable to run in other processes, such as a function of a module, or a kernel made from a name"
        ) from error


class Receiver(Protocol):
    """Receives the predictions of a run."""

    @property
    def ended(self) -> bool:
        """Whether the run ends, after the chunks in flight."""

    def deliver(self, keys: Chunk, predictions: Sequence[Answer | Failure], usage: Usage) -> None:
        """Take the predictions of the first of these queries. It may get the same ones twice after Ctrl-C."""

    def commit(self) -> None:
        """Store the predictions that are not stored yet."""

    def commit_if_due(self) -> None:
        """Store them if they have waited for long enough."""


def evaluate_in_workers(
    pool: WorkerPool, function: Any, pending: PendingQueries, on_error: OnError, receiver: Receiver, size: int | None
) -> None:
    """Evaluate queries through an executor. Each worker has one chunk at a time.

    Args:
        pool: The executor; it stays open.
        function: The inference function.
        pending: The queries.
        on_error: See :func:`~StaICC.inference.replies.chunk_evaluator`.
        receiver: Receives the predictions.
        size: Queries of a chunk; ``None`` for as many as take about half a second.

    Raises:
        ArgumentError: The executor cannot run the chunks.
        RunEndingError: A worker died, or the executor was shut down.
    """
    run = _WorkerRun(pool, function, pending, on_error=on_error, receiver=receiver, size=size)
    try:
        while run.advance():
            pass
    except BaseException:
        run.end_early()
        raise


class _WorkerRun:
    """The evaluation of queries through an executor: the chunks that workers have, and those that are to come."""

    def __init__(
        self,
        pool: WorkerPool,
        function: Any,
        pending: PendingQueries,
        on_error: OnError,
        receiver: Receiver,
        size: int | None,
    ) -> None:
        """Begin without a chunk in flight; :meth:`advance` submits the first ones.

        Args:
            pool: The executor.
            function: The inference function.
            pending: The queries.
            on_error: Whether a chunk ends at its first failed query.
            receiver: Receives the predictions.
            size: Number of queries of a chunk; ``None`` for as many as take about half a second.
        """
        self._pool = pool
        self._function = function
        self._pending = pending
        self._on_error = on_error
        self._receiver = receiver
        self._in_flight: dict[Future[_ChunkResult], Chunk] = {}
        """The chunks that workers have, by the future of their predictions."""
        self._size = size
        self._pace = Pace(_MOST_QUERIES, _least_queries(function))
        """How many queries a chunk has if no size is set."""
        self._without_workers_since: float | None = None
        """Since when the executor has had no workers; ``None`` while it has some."""
        self._has_warned = False
        """Whether the log says that there are no workers."""

    def advance(self) -> bool:
        """Submit chunks to free workers, and deliver the predictions that arrive within a moment.

        Returns:
            Whether the run goes on: chunks are in flight, or queries are left.
        """
        self._submit_chunks()
        if not self._in_flight:
            self._receiver.commit()
            if self._receiver.ended:
                return False
            return self._pending.wait_for_others()
        # With a timeout: a signal may arrive in another thread, and this one must notice it.
        completed = wait(self._in_flight, _POLL_SECONDS, FIRST_COMPLETED).done
        for future in completed:
            self._receive(future)
        self._receiver.commit_if_due()
        return True

    def _submit_chunks(self) -> None:
        """Submit chunks until each worker has one, or no queries are left."""
        with _errors_explained():
            workers = self._pool.workers()
        self._warn_without_workers(workers)
        capacity = _UNKNOWN_CAPACITY if workers is None else max(1, workers)
        while len(self._in_flight) < capacity and not self._receiver.ended:
            chunk = self._pending.take(self._chunk_size(capacity))
            if chunk is None:
                return
            with _errors_explained():
                # Outside the block below: multiprocessing ends a mask where it starts its process.
                remote = self._pool.remote(self._function)
                with _interrupts_held_back():
                    future = self._pool.executor.submit(_evaluate_chunk, remote, chunk, self._on_error)
            self._in_flight[future] = chunk

    def _chunk_size(self, capacity: int) -> int:
        """Return the most queries of the next chunk.

        Args:
            capacity: How many chunks can run at once.
        """
        if self._size is not None:
            return self._size
        # Near the end, chunks are small, so that the workers end at about the same time: each still gets two or more.
        queries_left = len(self._pending)
        share_of_rest = queries_left // (2 * capacity)
        return max(1, min(self._pace.size, share_of_rest))

    def _warn_without_workers(self, workers: int | None) -> None:
        """Warn once if the executor has had no workers for some seconds.

        Args:
            workers: The number of workers now; ``None`` if it is unknown.
        """
        if workers != 0:
            self._without_workers_since = None
            return
        if self._without_workers_since is None:
            self._without_workers_since = time.monotonic()
        waited = time.monotonic() - self._without_workers_since
        if waited > _NO_WORKERS_SECONDS and not self._has_warned:
            self._has_warned = True
            _LOG.warning("the executor has no workers; the run waits for them")

    def _receive(self, future: Future[_ChunkResult]) -> None:
        """Take what a worker returned: deliver its predictions, and put the other queries of its chunk back.

        Args:
            future: The result of the worker, which has ended.
        """
        chunk = self._in_flight[future]
        with _errors_explained():
            result = future.result()
        predicted_count = len(result.predictions)
        if predicted_count:
            self._pending.finish(chunk[:predicted_count])
            self._pace.note(predicted_count, result.seconds)
        self._receiver.deliver(chunk, result.predictions, result.usage)
        del self._in_flight[future]  # only now: after an interrupt during the delivery it is delivered again
        if result.is_cut:
            self._pending.give_back(chunk[predicted_count:])

    def end_early(self) -> None:
        """Deliver what the workers have predicted, when an error or Ctrl-C ends the run.

        Chunks in flight have a moment to end; those that take longer are lost.
        """
        self._pool.stop_threads()
        stop_requests(self._function)
        wait(self._in_flight, _GRACE_SECONDS)
        for future, chunk in self._in_flight.items():
            future.cancel()
            has_ended = future.done() and not future.cancelled()
            if not has_ended or future.exception() is not None:
                continue
            with contextlib.suppress(Exception):  # the error that ended the run is the one to raise
                result = future.result()
                self._receiver.deliver(chunk, result.predictions, result.usage)


def _least_queries(function: Any) -> int:
    """Return the fewest queries of a chunk: a served model with a batched form evaluates several at once."""
    at_once = queries_at_once(function)
    if at_once is None or batch_form(function) is None:
        return 1
    return at_once


class RequestThreads(Executor):
    """Threads for requests. Nothing waits for them: neither the end of a run, nor the interpreter when it exits.

    Args:
        max_workers: The largest number of threads.
    """

    def __init__(self, max_workers: int) -> None:
        """Make an executor without threads; each of the first calls that are submitted starts one."""
        self._max_workers = max_workers
        self._running_threads = 0
        self._calls: queue.SimpleQueue[tuple[Future[Any], Callable[[], Any]] | None] = queue.SimpleQueue()
        """The submitted calls that no thread has begun, each with the future for its result. A thread that takes
        ``None`` ends."""

    def submit(self, function: Callable[..., Any], /, *arguments: Any, **named: Any) -> Future[Any]:
        """Return the future result of a function, which the next free thread calls."""
        future: Future[Any] = Future()
        self._calls.put((future, lambda: function(*arguments, **named)))
        if self._running_threads < self._max_workers:
            self._running_threads += 1
            threading.Thread(target=self._run_thread, daemon=True).start()
        return future

    def shutdown(self, wait: bool = True, *, cancel_futures: bool = False) -> None:
        """Let each thread end after the calls that were submitted before; return at once, whatever ``wait`` says."""
        for _ in range(self._running_threads):
            self._calls.put(None)
        self._running_threads = 0

    def _run_thread(self) -> None:
        """Make the submitted calls, one after the other, until the shutdown. This runs in each thread."""
        while True:
            next_call = self._calls.get()
            if next_call is None:
                return
            future, call = next_call
            if not future.set_running_or_notify_cancel():
                continue
            try:
                result = call()
            except BaseException as error:
                future.set_exception(error)
            else:
                future.set_result(result)


# Worker processes.


def _end_with_parent() -> None:
    """Wait until the parent of this process ends, also if it is killed, and end this process then.

    A thread of each worker process runs this: without its parent, a worker would wait for chunks for ever.
    """
    import multiprocessing

    parent = multiprocessing.parent_process()
    if parent is not None:
        parent.join()
        os._exit(1)


def _prepare_worker(begun: Any, devices: tuple[str, ...], threads: int, on_command_line: bool) -> None:
    """Prepare a worker process, before its first chunk: its device or threads, its signals, its end.

    Args:
        begun: An integer in shared memory: how many worker processes of the pool have begun. This one adds itself.
        devices: The devices that are dealt to the workers in turn.
        threads: Number of threads of a worker without a device.
        on_command_line: Whether the messages of the parent name options of the command line.
    """
    set_syntax(on_command_line)
    # The parent gets Ctrl-C, too, and decides.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    with begun.get_lock():
        number_of_worker = begun.value
        begun.value += 1
    if devices:
        os.environ[DEVICES] = devices[number_of_worker % len(devices)]
    else:
        os.environ.setdefault(_THREADS, str(threads))
    threading.Thread(target=_end_with_parent, daemon=True).start()


def _new_pool(workers: int, devices: tuple[str, ...], threads: int) -> Executor:
    """Return a pool of worker processes that are started anew, each prepared by :func:`_prepare_worker`.

    Args:
        workers: How many processes.
        devices: The devices that are dealt to the workers in turn.
        threads: Number of threads of a worker without a device.

    Raises:
        ArgumentError: This process is itself a worker that is just importing the script.
    """
    import multiprocessing  # most runs do not need it
    from concurrent.futures import ProcessPoolExecutor

    # A worker has this attribute while it imports the script.
    if getattr(multiprocessing.process.current_process(), "_inheriting", False):
        raise ArgumentError(f"a worker process cannot start workers. {NO_GUARD}")
    context = multiprocessing.get_context("spawn")
    # Shared memory makes multiprocessing start a process that keeps track of it. Ctrl-C must not end that process.
    with _interrupts_held_back():
        begun_workers = context.Value("i", 0)  # in shared memory: the workers that have begun count themselves here
        preparation_arguments = (begun_workers, devices, threads, is_on_command_line())
        return ProcessPoolExecutor(workers, context, initializer=_prepare_worker, initargs=preparation_arguments)


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
    workers = validate_integer("workers", workers, 1)
    if isinstance(devices, str):
        raise ArgumentError(f"devices must be a list such as [0, 1], not the text {devices!r}")
    if devices is None:
        devices = os.environ.get(DEVICES, "").split(",")
    stripped_names = [str(device).strip() for device in devices]
    device_names = tuple(name for name in stripped_names if name)
    threads = max(1, (os.cpu_count() or 1) // workers)

    def make() -> Executor:
        """Make a pool of new worker processes with the arguments of :func:`worker_processes`."""
        return _new_pool(workers, device_names, threads)

    return make

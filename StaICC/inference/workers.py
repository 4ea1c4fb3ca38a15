"""Chunks of queries through an executor.

Any :class:`concurrent.futures.Executor` works: threads, processes, Dask's ``Client.get_executor()``, MPI. A bounded
number of chunks is in flight. Results are delivered as they complete; their order does not change the predictions.

A worker that dies ends the run. Its chunk is lost; completed chunks are delivered, so the same call with the same store
continues. If a run ends early, pending chunks are cancelled, and threads stop after their current query.

Each worker process loads the inference function once, and checks that it is the one that was sent: files may have been
overwritten, and a module may have other globals when it is imported again.
"""

from __future__ import annotations

import concurrent.futures
import contextlib
import os
import signal
import sys
import threading
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import BrokenExecutor, CancelledError, Executor, Future
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from StaICC.errors import ArgumentError, IdentityError, RunEndingError, StaICCError, validate_integer
from StaICC.inference.chunk import Failure, OnError, solve_chunk
from StaICC.inference.contract import Answer, CountsRetries
from StaICC.inference.identity import Identity, identity_of
from StaICC.prompting import Prompt
from StaICC.safe_text import logger

if TYPE_CHECKING:
    from concurrent.futures import ProcessPoolExecutor

_LOG = logger(__name__)

_Chunk = Sequence[tuple[Prompt, tuple[str, ...]]]
_Deliver = Callable[[_Chunk, list[Answer | Failure], int], bool]
_Solved = tuple[list[Answer | Failure], int]

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
        with _LOADING:
            if self.identifier not in _LOADED:
                _LOADED.clear()  # frees the memory of another model first
                function = self.function if self.data is None else _unpickle(self.data)
                _check_identity(function, self.identity)
                _LOADED[self.identifier] = function
            return _LOADED[self.identifier]


def _unpickle(data: bytes) -> Any:
    import pickle

    try:
        return pickle.loads(data)
    except StaICCError:
        raise
    except Exception as error:
        raise ArgumentError(
            f"a worker process cannot load the inference function ({type(error).__name__}: {error}); define it in a "
            "module that can be imported, not in a notebook or the text of a command"
        ) from error


def _check_identity(function: Any, expected: Identity | None) -> None:
    """Refuse a function with another identity than the one that was sent."""
    if expected is None:
        return
    loaded = identity_of(function)
    if loaded != expected:
        changes = [f"{name} was {before}, is {now}" for name, (before, now) in expected.differences(loaded).items()]
        reasons = sorted({*expected.unidentified} ^ {*loaded.unidentified})
        raise IdentityError(
            "a worker process has another inference function than the one that was sent to it: "
            f"{'; '.join([*changes, *reasons])}. Its predictions are not used. A change in memory does not "
            "reach other processes: make it in the files or in the module, or run without worker processes"
        )


def _solve(remote: RemoteFunction, prompts: Sequence[Prompt], labels: tuple[str, ...], on_error: OnError) -> _Solved:
    """Evaluate one chunk in a worker; return the predictions, and how many requests a copy of the function retried."""
    if not remote.is_copy:  # a thread of the process that runs
        return solve_chunk(remote.function, prompts, labels, on_error, lambda: remote.stopped), 0
    function = remote.load()
    before = function.retried if isinstance(function, CountsRetries) else 0
    predictions = solve_chunk(function, prompts, labels, on_error)
    return predictions, function.retried - before if isinstance(function, CountsRetries) else 0


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
            hint = "; Dask's client has one: client.get_executor()" if hasattr(executor, "get_executor") else ""
            raise ArgumentError(
                f"executor must be a concurrent.futures.Executor, or a function that makes one, not {executor!r}{hint}"
            )
        self._make = None if isinstance(executor, Executor) else executor
        self._executor = executor if isinstance(executor, Executor) else None
        self._remotes: list[RemoteFunction] = []

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

    def capacity(self) -> int:
        """Return how many chunks can run at once, or a default if the executor does not say."""
        workers = getattr(self.executor, "_max_workers", None) or getattr(self.executor, "num_workers", None)
        if isinstance(workers, int):
            return workers
        threads = getattr(getattr(self.executor, "_client", None), "nthreads", None)  # Dask's; a cluster may grow
        return sum(threads().values()) or 1 if callable(threads) else _UNKNOWN_CAPACITY

    def remote(self, function: Any) -> RemoteFunction:
        """Return the function in the form to submit; the same object for the same function.

        Raises:
            ArgumentError: It cannot be sent to the workers.
        """
        for remote in self._remotes:
            if remote.function is function:
                return remote
        made, executor = RemoteFunction(function), self.executor
        processes = sys.modules.get("concurrent.futures.process")  # loaded if the executor is a process pool
        if processes is not None and isinstance(executor, processes.ProcessPoolExecutor):
            import pickle

            try:
                made.data = pickle.dumps(function)
            except Exception as error:
                raise _cannot_run(error) from error
            if not identity_of(function).complete:
                _LOG.warning(
                    "worker processes load the inference function again. What was changed in this process after its "
                    "module was imported cannot be compared and may be missing there: set it in the module"
                )
        self._remotes.append(made)  # Dask and others pickle with cloudpickle, which can do more
        return made

    def submit(self, chunk: _Chunk, function: Any, on_error: OnError) -> Future[_Solved]:
        """Submit a chunk.

        Raises:
            ArgumentError: The executor takes no chunks, or the function cannot be sent to it.
            RunEndingError: A worker died.
        """
        prompts = [prompt for prompt, _ in chunk]
        remote = self.remote(function)
        try:
            with _interrupts_held_back():
                return self.executor.submit(_solve, remote, prompts, chunk[0][1], on_error)
        except BrokenExecutor as error:
            raise _died(error) from error
        except RuntimeError as error:
            raise ArgumentError(f"the executor takes no chunks ({error}); was it shut down?") from error

    def stop_threads(self) -> None:
        """Let threads of this process stop after their current query."""
        for remote in self._remotes:
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
        try:
            executor.shutdown(wait=not hurry, cancel_futures=True)
        except TypeError:  # Dask's knows no cancel_futures
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


def _died(error: BaseException) -> RunEndingError:
    return RunEndingError(
        f"a worker died ({type(error).__name__}: {error}). Look at its messages on stderr and at the free memory. "
        "Completed predictions are in the store, if there is one: run the same again to continue"
    )


def _cannot_run(error: Exception) -> ArgumentError:
    return ArgumentError(
        f"the executor could not run a chunk ({type(error).__name__}: {error}); the inference function must be "
        "picklable to run in other processes: a function of a module, or a kernel made from a name"
    )


def _result(future: Future[_Solved]) -> _Solved:
    """Return the result of a chunk.

    Raises:
        RunEndingError: Its worker died.
        ArgumentError: The executor could not run it at all.
    """
    try:
        return future.result()
    except StaICCError:
        raise
    except CancelledError as error:
        raise ArgumentError(
            "the executor cancelled a chunk; was it shut down, or the cluster restarted? Completed predictions are kept"
        ) from error
    except Exception as error:
        dead = isinstance(error, BrokenExecutor) or type(error).__name__ in _LOST
        raise (_died(error) if dead else _cannot_run(error)) from error


def solve_in_workers(
    pool: WorkerPool, function: Any, chunks: Iterable[_Chunk], on_error: OnError, deliver: _Deliver, ahead: bool
) -> None:
    """Evaluate chunks through an executor.

    Args:
        pool: The executor; it stays open.
        function: The inference function.
        chunks: The chunks, each of one label space.
        on_error: See :func:`~StaICC.inference.chunk.solve_chunk`.
        deliver: Receives each chunk with its predictions and the number of retried requests, and returns whether to
            start further chunks. Chunks in flight are finished. After Ctrl-C it may receive the same chunk twice.
        ahead: Submit chunks ahead, so that no worker waits. Otherwise there are at most as many unfinished chunks as
            workers, so that a kill loses at most one per worker.

    Raises:
        ArgumentError: The executor cannot run the chunks.
        RunEndingError: A worker died.
    """
    source, in_flight, proceed = iter(chunks), dict[Future[_Solved], _Chunk](), True
    try:
        while True:
            while proceed and (not in_flight or len(in_flight) < pool.capacity() * (1 + ahead)):
                chunk = next(source, None)
                if chunk is None:
                    break
                in_flight[pool.submit(chunk, function, on_error)] = chunk
            if not in_flight:
                return
            # With a timeout: a signal may arrive in another thread, and this one must notice it.
            done = concurrent.futures.wait(in_flight, _POLL_SECONDS, concurrent.futures.FIRST_COMPLETED).done
            for future in done:
                proceed = deliver(in_flight[future], *_result(future)) and proceed
                del in_flight[future]  # only now: after an interrupt during the delivery it is delivered again
    except BaseException:
        pool.stop_threads()
        for future in in_flight:
            future.cancel()
        concurrent.futures.wait(in_flight, _GRACE_SECONDS)
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


def worker_processes(workers: int, devices: Sequence[str | int] | None = None) -> Callable[[], ProcessPoolExecutor]:
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
    if devices is None:
        devices = [name for name in os.environ.get(DEVICES, "").split(",") if name.strip()]
    if isinstance(devices, str):
        raise ArgumentError(f"devices must be a list such as [0, 1], not the text {devices!r}")
    names = tuple(str(device).strip() for device in devices)
    threads = max(1, (os.cpu_count() or 1) // workers)

    def make() -> ProcessPoolExecutor:
        import multiprocessing  # most runs do not need it
        from concurrent.futures import ProcessPoolExecutor

        context = multiprocessing.get_context("spawn")
        return ProcessPoolExecutor(workers, context, _begin, (context.Value("i", 0), names, threads))

    return make

"""Evaluation of chunks of queries through an executor.

Any :class:`concurrent.futures.Executor` works: threads, processes, Dask's ``Client.get_executor()``, MPI. A bounded
number of chunks is in flight. Results are delivered as they complete; their order does not change the predictions.

A worker that dies ends the run. Its chunk is lost; completed chunks are delivered, so the same call with the same store
continues. If a run ends early, pending chunks are cancelled, and threads stop after their current query.

Each worker process loads the inference function once, and checks that it is the one that was sent: files may have been
overwritten, and a module may have other globals when it is imported again.
"""

from __future__ import annotations

import contextlib
import itertools
import os
import re
import signal
import sys
import threading
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import FIRST_COMPLETED, BrokenExecutor, CancelledError, Executor, Future, wait
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from StaICC.arguments import validate_integer
from StaICC.errors import ArgumentError, IdentityError, RunEndingError, StaICCError
from StaICC.inference.contract import Answer, Usage, usage
from StaICC.inference.identity import Identity, identity_of
from StaICC.inference.replies import Chunk, Failure, OnError, solver
from StaICC.safe_text import logger

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
NO_GUARD = (
    'The script has no `if __name__ == "__main__":`, and worker processes import it: put everything but imports and '
    "definitions below that line"
)
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
            except StaICCError:
                raise
            except Exception as error:
                raise ArgumentError(
                    f"a worker process cannot load the inference function ({type(error).__name__}: {error}); define it "
                    "in a module, not in a notebook or the text of a command"
                ) from error
            loaded = identity_of(function)
            if self.identity is not None and loaded != self.identity:
                pairs = self.identity.differences(loaded).items()
                changes = [f"{name} was {before}, is {now}" for name, (before, now) in pairs]
                changes += sorted({*self.identity.unidentified} ^ {*loaded.unidentified})
                raise IdentityError(
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
            raise ArgumentError(f"executor: got {executor!r}, {expected}")
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
    """Deliver Ctrl-C and SIGHUP after this: processes that start here inherit the mask, and leave both to this one.

    Workers choose to ignore Ctrl-C only once they run; SIGHUP stays masked in them, and in the process with which
    ``multiprocessing`` keeps track of them.
    """
    if not hasattr(signal, "pthread_sigmask"):  # Windows
        yield
        return
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT, signal.SIGHUP})
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


def _lacks_guard() -> bool:
    """Return whether the running script has no ``if __name__ == "__main__":``; workers run its file again."""
    path = getattr(sys.modules.get("__main__"), "__file__", None)
    if path is None:
        return False
    try:
        source = Path(path).read_text("utf-8")
    except (OSError, ValueError):
        return False
    return re.search(r"""__name__\s*==\s*['"]__main__['"]""", source) is None


@contextlib.contextmanager
def _explained() -> Iterator[None]:
    """Turn what an executor raises into an error that says what to do.

    Raises:
        RunEndingError: A worker died.
        ArgumentError: The executor cannot run the chunk.
    """
    try:
        yield
    except StaICCError:
        raise
    except CancelledError as error:
        raise ArgumentError("the executor cancelled a chunk: was it shut down, the cluster restarted?") from error
    except Exception as error:
        reason = f"({type(error).__name__}: {error})"
        if isinstance(error, BrokenExecutor) and _lacks_guard():
            raise RunEndingError(f"a worker died {reason}. {NO_GUARD}") from error
        if isinstance(error, BrokenExecutor) or type(error).__name__ in _LOST:
            raise RunEndingError(
                f"a worker died {reason}. Look at its messages on stderr and at the free memory. Completed predictions "
                "are in the store, if there is one: run the same again to continue"
            ) from error
        raise ArgumentError(
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
        on_error: See :func:`~StaICC.inference.replies.solver`.
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
    workers = validate_integer("workers", workers, 1)
    if isinstance(devices, str):
        raise ArgumentError(f"devices must be a list such as [0, 1], not the text {devices!r}")
    given = os.environ.get(DEVICES, "").split(",") if devices is None else devices
    names = tuple(name for device in given if (name := str(device).strip()))
    threads = max(1, (os.cpu_count() or 1) // workers)

    def make() -> Executor:
        import multiprocessing  # most runs do not need it
        from concurrent.futures import ProcessPoolExecutor

        if getattr(multiprocessing.process.current_process(), "_inheriting", False):  # it still imports the script
            raise ArgumentError(f"a worker process cannot start workers. {NO_GUARD}")
        context = multiprocessing.get_context("spawn")
        with _interrupts_held_back():  # multiprocessing starts the process that keeps track of shared memory
            begun = context.Value("i", 0)
            return ProcessPoolExecutor(workers, context, _begin, (begun, names, threads))

    return make

"""Chunks of queries through an executor, surviving workers that die.

Any :class:`concurrent.futures.Executor` works: threads, processes, Dask's ``Client.get_executor()``, MPI. A bounded
number of chunks flies at a time, answers are handed over as they land, and the order of landing changes nothing.

A worker that dies takes its chunk along, and a process pool takes all its chunks along without saying which was
guilty. Suspects are then run again one by one, each alone; one that kills its worker once more is halved until a
single query is left, and a query that kills two workers while nothing else runs is reported as a
:class:`~StaICC.inference.runner.Failure`. If workers die over everything that they are given, the run ends: then it
is not the queries.

Whatever ends a run early (an error, Ctrl-C), chunks that have landed are handed over first, those that have not begun
are cancelled, and threads that are at work stop after their current query.
"""

from __future__ import annotations

import concurrent.futures
import contextlib
import os
import time
from collections import deque
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import BrokenExecutor, CancelledError, Executor, Future, ProcessPoolExecutor, ThreadPoolExecutor
from typing import Any, Generic, TypeVar

from StaICC.errors import ArgumentError, StaICCError
from StaICC.inference.shipping import Shipment, cannot_run, ship

__all__ = ["WorkerDeath", "WorkerPool", "solve_in_workers"]

Item = TypeVar("Item")
Answer = TypeVar("Answer")
_Task = Callable[[Sequence[Item]], tuple[Callable[..., list[Answer]], tuple[object, ...]]]

_LOST = frozenset({"KilledWorker", "CommClosedError"})  # of Dask, by name: it is not imported to ask
_NAMED = 3  # so many queries that kill, and none that was answered: it is not the queries
_UNKNOWN_CAPACITY = 8
_RECOUNT_SECONDS = 5.0  # a cluster grows and shrinks
_LOOK_SECONDS = 0.5
_GRACE_SECONDS = 0.8  # for threads to finish their query when the user interrupts


class WorkerDeath(Exception):
    """A worker died over a chunk that ran alone."""


class WorkerPool:
    """An executor that can be made anew.

    Args:
        executor: An executor, or a function that makes one; it is called when the first chunk is there.

    Raises:
        ArgumentError: It is neither.
    """

    def __init__(self, executor: Executor | Callable[[], Executor]) -> None:
        if not isinstance(executor, Executor) and not callable(executor):
            hint = "; Dask's client has one: client.get_executor()" if hasattr(executor, "get_executor") else ""
            raise ArgumentError(
                f"executor must be a concurrent.futures.Executor, or a function that makes one, not {executor!r}{hint}"
            )
        self._make = executor if not isinstance(executor, Executor) else None
        self._given = executor if isinstance(executor, Executor) else None
        self._own: Executor | None = None
        self._shipments: list[tuple[Any, Shipment]] = []
        self._counted = (-_RECOUNT_SECONDS, _UNKNOWN_CAPACITY)

    @property
    def current(self) -> Executor:
        """The executor to submit to.

        Raises:
            ArgumentError: The function that makes one made something else.
        """
        if self._own is not None:
            return self._own
        if self._make is None:
            assert self._given is not None
            return self._given
        made = self._make()
        if not isinstance(made, Executor):
            raise ArgumentError(f"the function given as executor must make an Executor; it made {made!r}")
        self._own = made
        return made

    def capacity(self) -> int:
        """Return how many chunks can run at once, as far as the executor says."""
        executor = self.current
        workers = getattr(executor, "_max_workers", None) or getattr(executor, "num_workers", None)
        if isinstance(workers, int):
            return workers
        threads = getattr(getattr(executor, "_client", None), "nthreads", None)  # Dask's
        counted, capacity = self._counted
        if callable(threads) and time.monotonic() - counted > _RECOUNT_SECONDS:
            capacity = sum(threads().values()) or 1
            self._counted = (time.monotonic(), capacity)
        return capacity

    def shipment(self, function: Any) -> Shipment:
        """Return what to submit for a function, always the same for the same one.

        Raises:
            ArgumentError: It cannot be sent to the workers.
        """
        for known, shipment in self._shipments:
            if known is function:
                return shipment
        made = ship(function, self.current)
        self._shipments.append((function, made))
        return made

    def stop_threads(self) -> None:
        """Have threads that are at work stop after their current query; what is shipped later runs."""
        for _, shipment in self._shipments:
            shipment.stopped = True
        self._shipments.clear()

    def renew(self) -> None:
        """Replace an executor that broke.

        Raises:
            ArgumentError: It cannot be made anew, or its workers die before they are given anything.
        """
        broken = self.current
        if self._make is None:
            if not isinstance(broken, ProcessPoolExecutor):
                raise ArgumentError(
                    f"the executor {type(broken).__name__} broke and cannot be made anew; pass a function that makes "
                    "one: executor=lambda: ..."
                )
            # A broken process pool cannot be revived, and it has no public way to tell how it was made.
            state = vars(broken)
            context, workers = state["_mp_context"], state["_max_workers"]
            initializer, arguments = state["_initializer"], state["_initargs"]
            self._make = lambda: ProcessPoolExecutor(workers, context, initializer, arguments)
        if self._own is not None:
            self._own.shutdown(wait=False)
            self._own = None
        try:
            self.current.submit(os.getpid).result()
        except BrokenExecutor as error:
            raise ArgumentError(
                "the executor's workers die before they are given anything to do; look at what they say on stderr, at "
                f"the executor's initializer, and at the memory that is left ({error})"
            ) from error

    def close(self, hurry: bool = False) -> None:
        """Shut down what was made here; an executor of the user's stays.

        Args:
            hurry: Do not wait for chunks that run; kill the processes that run them.
        """
        executor, self._own = self._own, None
        if executor is None:
            return
        processes = dict(getattr(executor, "_processes", None) or {}) if hurry else {}
        manager = getattr(executor, "_executor_manager_thread", None) if hurry else None
        try:
            executor.shutdown(wait=not hurry, cancel_futures=True)
        except TypeError:  # Dask's knows no cancel_futures
            executor.shutdown(wait=not hurry)
        for process in processes.values():
            with contextlib.suppress(ValueError, OSError):  # it has ended and was closed
                process.kill()
        if manager is not None:
            # It closes the pool's pipes, which before Python 3.12 must not meet the interpreter's end.
            manager.join(_GRACE_SECONDS)


class _Flight(Generic[Item, Answer]):
    """Chunks in flight, and those that must run alone."""

    def __init__(
        self, pool: WorkerPool, task: _Task[Item, Answer], land: Callable[[Sequence[Item], list[Answer]], bool]
    ) -> None:
        self.pool = pool
        self._task = task
        self._land = land
        self.flying: dict[Future[list[Answer]], Sequence[Item]] = {}
        self.suspects: deque[Sequence[Item]] = deque()
        self.broken = False
        """Whether the executor takes no more chunks."""
        self.going = True
        """Whether further chunks may begin."""
        self._landing = True
        self._answered = False
        self._named = 0

    def submit(self, chunk: Sequence[Item]) -> Future[list[Answer]] | None:
        """Send a chunk off; ``None`` if the executor turns out to be broken."""
        function, arguments = self._task(chunk)
        try:
            future = self.pool.current.submit(function, *arguments)
        except BrokenExecutor:
            self.broken = True
            return None
        except RuntimeError as error:
            raise ArgumentError(f"the executor takes no chunks ({error}); was it shut down?") from error
        self.flying[future] = chunk
        return future

    def send(self, chunk: Sequence[Item]) -> None:
        """Send a chunk off among others."""
        if self.submit(chunk) is None:
            self.suspects.append(chunk)

    def wait(self) -> None:
        """Wait for some chunk to land; one that was lost becomes a suspect."""
        for future in _landed(self.flying):
            chunk = self.flying[future]
            if self._settle(future) is not None:
                self.suspects.append(chunk)
        if self.broken and not self.flying:  # everything that it lost is accounted for
            self._mend()

    def _settle(self, future: Future[list[Answer]]) -> str | None:
        """Hand over what a future gives; returns how its worker died, if it did."""
        reason = None
        try:
            answers = _result(future)
        except WorkerDeath as death:
            reason = str(death)
            self.broken = self.broken or isinstance(future.exception(), BrokenExecutor)
        else:
            self._hand_over(self.flying[future], answers)
        del self.flying[future]  # only now: what interrupts the handing over leaves it here
        return reason

    def _hand_over(self, chunk: Sequence[Item], answers: list[Answer]) -> None:
        self._answered = True
        try:
            self.going = self._land(chunk, answers) and self.going
        except Exception:
            self._landing = False
            raise

    def _mend(self) -> None:
        self.pool.renew()
        self.broken = False

    def interrogate(self, failure: Callable[[str], Answer]) -> None:
        """Run one suspect alone; halve it while it kills."""
        parts = [self.suspects.popleft()]
        while parts and self.going:
            part = parts.pop()
            reason = self._alone(part)
            if reason is not None and len(part) == 1:
                reason = self._alone(part)
            if reason is None:
                continue
            if len(part) > 1:
                half = len(part) // 2
                parts += [part[half:], part[:half]]
                continue
            self._named += 1
            if self._named == _NAMED and not self._answered:
                raise ArgumentError(
                    f"workers died over each of {_NAMED} queries, each run alone, and answered none ({reason}); look "
                    "at what they say on stderr, and at the memory that is left: the model may not fit"
                )
            named = failure(f"its worker died 2 times while nothing else ran ({reason})")
            self.going = self._land(part, [named]) and self.going

    def _alone(self, chunk: Sequence[Item]) -> str | None:
        """Run a chunk while nothing else runs; returns how its worker died, if it did."""
        if self.broken:
            self._mend()
        future = self.submit(chunk)
        if future is None:
            return "the executor broke"
        _landed([future])
        reason = self._settle(future)
        if self.broken:
            self._mend()
        return reason

    def abandon(self) -> None:
        """Cancel what has not begun, let threads finish their query, and hand over what has landed."""
        self.pool.stop_threads()
        for future in self.flying:
            future.cancel()
        if self.flying and isinstance(self.pool.current, ThreadPoolExecutor):
            concurrent.futures.wait(self.flying, timeout=_GRACE_SECONDS)
        for future, chunk in self.flying.items():
            if self._landing and future.done() and not future.cancelled() and future.exception() is None:
                self._hand_over(chunk, future.result())


def _landed(flying: Iterable[Future[list[Answer]]]) -> set[Future[list[Answer]]]:
    """Wait until some of the futures are done, and give them."""
    futures = list(flying)
    while True:  # not one long wait: where a signal wakes another thread, this one must look whether there was one
        done = concurrent.futures.wait(futures, _LOOK_SECONDS, concurrent.futures.FIRST_COMPLETED).done
        if done:
            return done


def _result(future: Future[list[Answer]]) -> list[Answer]:
    """Give a chunk's answers.

    Raises:
        WorkerDeath: Its worker died.
        ArgumentError: The executor could not run it at all.
    """
    try:
        return future.result()
    except StaICCError:
        raise
    except CancelledError as error:
        raise ArgumentError(
            "the executor cancelled a chunk; was it shut down, or the cluster restarted? What was answered is kept"
        ) from error
    except Exception as error:
        if isinstance(error, BrokenExecutor) or type(error).__name__ in _LOST:
            raise WorkerDeath(str(error)) from error
        raise cannot_run(error) from error


def solve_in_workers(
    pool: WorkerPool,
    chunks: Iterable[Sequence[Item]],
    task: _Task[Item, Answer],
    failure: Callable[[str], Answer],
    land: Callable[[Sequence[Item], list[Answer]], bool],
    ahead: bool = True,
) -> None:
    """Solve chunks through an executor.

    Args:
        pool: The executor; it stays open.
        chunks: What to solve.
        task: Gives the (picklable) function and arguments that solve a chunk.
        failure: Makes the answer of an item that kills its workers.
        land: Takes a chunk with its answers as they land, and says whether to begin further chunks; what flies is
            still finished. After Ctrl-C it may get the same chunk twice.
        ahead: Send chunks ahead, so that no worker ever waits. Without it no more chunks are unfinished than there
            are workers, so that a kill loses one for each at most.

    Raises:
        ArgumentError: The executor cannot run the task, or broke and cannot be made anew.
    """
    flight: _Flight[Item, Answer] = _Flight(pool, task, land)
    source = iter(chunks)
    try:
        while True:
            while (
                flight.going
                and not (flight.suspects or flight.broken)
                and (not flight.flying or len(flight.flying) < pool.capacity() * (1 + ahead))
            ):
                chunk = next(source, None)
                if chunk is None:
                    break
                flight.send(chunk)
            if flight.flying:
                flight.wait()
            elif flight.suspects and flight.going:
                flight.interrogate(failure)
            else:
                return
    except BaseException:
        flight.abandon()
        raise

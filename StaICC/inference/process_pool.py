"""Worker processes for long runs: each on its own device, none left over when the run dies.

:func:`worker_processes` returns a value for ``executor=``. A plain ``ProcessPoolExecutor`` works too, but its workers

* share what the parent had open (with ``fork``, which the CUDA runtime does not survive),
* all choose the same device,
* live on, with their memory, when the parent is killed, and
* print a traceback each at Ctrl-C.
"""

from __future__ import annotations

import multiprocessing
import os
import signal
import threading
from collections.abc import Callable, Sequence
from concurrent.futures import Future, ProcessPoolExecutor
from typing import Any

from StaICC.errors import ArgumentError, validate_integer

DEVICES = "CUDA_VISIBLE_DEVICES"
_THREADS = "OMP_NUM_THREADS"
_HAS_MASK = hasattr(signal, "pthread_sigmask")


def _end_with_parent() -> None:
    parent = multiprocessing.parent_process()
    if parent is not None:
        parent.join()
        os._exit(1)


def _begin(begun: Any, devices: tuple[str, ...], threads: int | None) -> None:
    """Prepare a worker process, before it is given anything."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the parent hears it too, and decides
    if _HAS_MASK:
        signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGINT})  # see _Pool.submit
    with begun.get_lock():
        number, begun.value = begun.value, begun.value + 1
    if devices:
        os.environ[DEVICES] = devices[number % len(devices)]
    elif threads is not None:
        os.environ.setdefault(_THREADS, str(threads))
    threading.Thread(target=_end_with_parent, daemon=True).start()


class _Pool(ProcessPoolExecutor):
    """A pool whose processes cannot be interrupted before :func:`_begin` has run in them.

    A process starts while work is submitted, and inherits the signals that are blocked then. Without this, Ctrl-C in
    the tenths of a second in which it imports its modules makes it print a traceback.
    """

    def submit(self, fn: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Future[Any]:
        if not _HAS_MASK:
            return super().submit(fn, *args, **kwargs)
        before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
        try:
            return super().submit(fn, *args, **kwargs)
        finally:
            signal.pthread_sigmask(signal.SIG_SETMASK, before)


def worker_processes(workers: int, devices: Sequence[str | int] | None = None) -> Callable[[], ProcessPoolExecutor]:
    """Return a function that makes a pool of worker processes, for ``executor=``.

    Args:
        workers: How many processes.
        devices: GPUs by number or identifier, dealt to the workers in turn: each sees one only (through
            ``CUDA_VISIBLE_DEVICES``, which PyTorch for ROCm obeys too). By default those that this process's own
            ``CUDA_VISIBLE_DEVICES`` lists; if there are none, the processor's cores are divided among the workers
            (``OMP_NUM_THREADS``, unless it is set).

    Returns:
        The function. It makes a new pool at each call, so a pool that broke is replaced.

    Raises:
        ArgumentError: A number is not of a kind that has a meaning.

    Example:
        >>> make = worker_processes(2)
        >>> with make() as pool:
        ...     pool.submit(max, 3, 4).result()
        4
    """
    validate_integer("workers", workers, 1)
    if devices is None:
        devices = [name for name in os.environ.get(DEVICES, "").split(",") if name.strip()]
    if isinstance(devices, str):
        raise ArgumentError(f"devices must be a list such as [0, 1], not the text {devices!r}")
    names = tuple(str(device).strip() for device in devices)
    threads = max(1, (os.cpu_count() or 1) // workers)

    def make() -> ProcessPoolExecutor:
        context = multiprocessing.get_context("spawn")
        return _Pool(workers, context, _begin, (context.Value("i", 0), names, threads))

    return make

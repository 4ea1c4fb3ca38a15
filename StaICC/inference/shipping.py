"""The inference function on its way to workers: loaded once by each, with a reason when it cannot be.

An executor pickles what it is given with every chunk. A kernel that was made from a name is small on the way, but loads
its weights when it is first used, so every chunk would load them anew. A :class:`Shipment` therefore carries a mark,
and a worker keeps the function that came under the latest mark. Executors that run in this process pickle nothing:
the function stays the same object.

A process pool dies when a worker cannot unpickle a chunk, and does not say why. So for a process pool the function
travels as bytes, which the worker reads where an exception finds its way back.
"""

from __future__ import annotations

import os
import pickle
import threading
from concurrent.futures import Executor, ProcessPoolExecutor
from typing import Any

from StaICC.errors import ArgumentError, StaICCError

__all__ = ["Shipment", "cannot_run", "ship"]

_KEPT: dict[str, Any] = {}  # of this worker: the function under the latest mark
_KEEPING = threading.Lock()


class Shipment:
    """An inference function for workers; made by :func:`ship`.

    Attributes:
        stopped: Whether workers in this process shall end their chunks early. Other processes never hear of it.
    """

    def __init__(self, mark: str, function: Any = None, data: bytes | None = None) -> None:
        self.stopped = False
        self._mark = mark
        self._function = function
        self._data = data

    def __reduce__(self) -> tuple[Any, ...]:
        return (Shipment, (self._mark, None, self._data)) if self._data is not None else (_receive, self._parts())

    def _parts(self) -> tuple[str, Any]:
        return self._mark, self._function

    def unpack(self) -> Any:
        """Give the function.

        Raises:
            StaICCError: It cannot be read here.
        """
        if self._function is None and self._data is not None:
            with _KEEPING:
                if self._mark not in _KEPT:
                    _KEPT.clear()  # its memory is free before another model is read
                    _KEPT[self._mark] = _read(self._data)
                self._function = _KEPT[self._mark]
        return self._function


def _receive(mark: str, function: Any) -> Shipment:
    """Unpickle a shipment: if its function was here before, go on with that one."""
    with _KEEPING:
        if mark not in _KEPT:
            _KEPT.clear()
            _KEPT[mark] = function
        return Shipment(mark, _KEPT[mark])


def _read(data: bytes) -> Any:
    try:
        return pickle.loads(data)
    except StaICCError:
        raise
    except Exception as error:
        raise ArgumentError(
            f"a worker process cannot load the inference function ({type(error).__name__}: {error}); define it in a "
            "module that can be imported, not in a notebook or the text of a command"
        ) from error


def ship(function: Any, executor: Executor) -> Shipment:
    """Make an inference function ready for an executor.

    Args:
        function: The inference function.
        executor: Where it will run.

    Returns:
        What to submit in its place.

    Raises:
        ArgumentError: The executor is a process pool and the function cannot be pickled.
    """
    mark = os.urandom(16).hex()
    if not isinstance(executor, ProcessPoolExecutor):
        return Shipment(mark, function)  # cloudpickle, which Dask and others use, knows more ways than pickle
    try:
        return Shipment(mark, function, pickle.dumps(function))
    except Exception as error:
        raise cannot_run(error) from error


def cannot_run(error: Exception) -> ArgumentError:
    """Make the error of an executor that cannot run the function: it is not picklable, mostly.

    Args:
        error: What was raised on the way.
    """
    return ArgumentError(
        f"the executor could not run a chunk ({type(error).__name__}: {error}); the inference function must be "
        "picklable to run in other processes: a function of a module, or a kernel made from a name"
    )

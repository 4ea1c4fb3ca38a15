"""The inference function in worker processes: each worker loads it once, and checks that it is the same function.

An executor pickles its arguments for every chunk. A kernel that was made from a name is small when pickled, but loads
its weights when it is first used, so every chunk would load them again. A :class:`RemoteFunction` therefore carries an
identifier, and a worker keeps the function of the latest identifier. Executors of this process pickle nothing.

A worker may load another function than the parent has: files were overwritten, a model was edited in memory, a module
has other globals when it is imported again. A remote function therefore carries its identity, and a worker refuses a
function whose identity differs.

A process pool breaks without a reason when a worker cannot unpickle a chunk. So for a process pool the function is
sent as bytes, which the worker unpickles where an exception reaches the parent.
"""

from __future__ import annotations

import logging
import os
import sys
import threading
from concurrent.futures import Executor
from dataclasses import dataclass
from typing import Any

from StaICC.errors import ArgumentError, IdentityError, StaICCError
from StaICC.inference.identity import Identity, identity_of
from StaICC.inference.run_record import CountsRetries

_LOG = logging.getLogger(__name__)

_CACHE: dict[str, Any] = {}  # in a worker: the latest function by its identifier
_REPORTED: dict[str, int] = {}  # in a worker: the retries of this function that the parent knows
_LOCK = threading.Lock()


@dataclass(eq=False)
class RemoteFunction:
    """An inference function for workers; made by :func:`make_remote`.

    Attributes:
        stopped: Whether workers in this process end their chunks early. Other processes do not see it.
    """

    _identifier: str
    _function: Any
    _data: bytes | None = None
    _identity: Identity | None = None
    _copied: bool = False
    stopped: bool = False

    def __reduce__(self) -> tuple[Any, ...]:
        if self._identity is None:
            self._identity = identity_of(self._function)
        function = self._function if self._data is None else None
        return RemoteFunction, (self._identifier, function, self._data, self._identity, True)

    def load(self) -> Any:
        """Return the function.

        Raises:
            StaICCError: It cannot be unpickled in this process.
            IdentityError: The function in this process has another identity.
        """
        if not self._copied:
            return self._function
        with _LOCK:
            if self._identifier not in _CACHE:
                _CACHE.clear()  # frees the memory of another model first
                _REPORTED.clear()
                function = self._function if self._data is None else _unpickle(self._data)
                _check_identity(function, self._identity)
                _CACHE[self._identifier] = function
                _REPORTED[self._identifier] = function.retried if isinstance(function, CountsRetries) else 0
            return _CACHE[self._identifier]

    def new_retries(self) -> int:
        """Count the retries since the last call, if this is a copy of the parent's function."""
        with _LOCK:
            function = _CACHE.get(self._identifier) if self._copied else None
            if not isinstance(function, CountsRetries):
                return 0
            total = function.retried
            new = total - _REPORTED[self._identifier]
            _REPORTED[self._identifier] = total
        return new


def _check_identity(function: Any, expected: Identity | None) -> None:
    """Refuse a function with another identity than the one that was sent.

    Raises:
        IdentityError: It has another one.
    """
    if expected is None:
        return
    found = identity_of(function)
    if (found.digest, found.unidentified) != (expected.digest, expected.unidentified):
        changes = [f"{name} was {before}, is {now}" for name, (before, now) in expected.differences(found).items()]
        reasons = sorted({*expected.unidentified} ^ {*found.unidentified})
        raise IdentityError(
            "a worker process has another inference function than the one that was sent to it: "
            f"{'; '.join([*changes, *reasons])}. Its predictions are not used. A change in memory does not "
            "reach other processes: make it in the files or in the module, or run without worker processes"
        )


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


def make_remote(function: Any, executor: Executor) -> RemoteFunction:
    """Prepare an inference function for an executor.

    Args:
        function: The inference function.
        executor: Where it will run.

    Raises:
        ArgumentError: The executor is a process pool and the function cannot be pickled.
    """
    identifier = os.urandom(16).hex()
    processes = sys.modules.get("concurrent.futures.process")  # loaded if the executor is a process pool
    if processes is None or not isinstance(executor, processes.ProcessPoolExecutor):
        return RemoteFunction(identifier, function)  # Dask and others pickle with cloudpickle, which can do more
    import pickle

    try:
        identity = identity_of(function)
        made = RemoteFunction(identifier, function, pickle.dumps(function), identity)
    except Exception as error:
        raise cannot_run(error) from error
    if identity.unidentified:
        _LOG.warning(
            "worker processes load the inference function again; parts of it cannot be compared with this process: %s. "
            "Make sure that these parts are set when the module is imported, not later.",
            "; ".join(identity.unidentified),
        )
    return made


def cannot_run(error: Exception) -> ArgumentError:
    """Return the error for an executor that cannot run the function, mostly because it cannot be pickled.

    Args:
        error: The original exception.
    """
    return ArgumentError(
        f"the executor could not run a chunk ({type(error).__name__}: {error}); the inference function must be "
        "picklable to run in other processes: a function of a module, or a kernel made from a name"
    )

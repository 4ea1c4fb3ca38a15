"""How a run asks: the settings that every benchmark's call takes beside the inference function."""

from __future__ import annotations

import os
from collections.abc import Callable
from concurrent.futures import Executor
from types import TracebackType
from typing import TYPE_CHECKING, TypedDict

from StaICC.errors import ArgumentError
from StaICC.inference import Inference, OnError, ProgressCallback, RunOptions
from StaICC.inference.workers import WorkerPool

if TYPE_CHECKING:
    from typing_extensions import Unpack

    from StaICC.inference.store import PredictionStore

__all__ = ["RunSettings", "Running"]


class RunSettings(TypedDict, total=False):
    """How to ask, apart from what."""

    store: str | os.PathLike[str] | PredictionStore | None
    """Where answers are kept; the same call again goes on where the last one ended."""
    model_name: str | None
    """Tells the answers of a plain function from all others' in the store; kernels have a fingerprint of their own."""
    executor: Executor | Callable[[], Executor] | None
    """Runs chunks of queries elsewhere: threads, processes, Dask, MPI. An executor, which stays open, or a function
    that makes one: it is called when the first query must be asked and again when the executor breaks, and what it
    made is shut down when the run ends."""
    on_error: OnError
    """``"raise"`` stops at the first query without an answer; ``"collect"`` goes on and gives a partial result that
    says so."""
    chunk_size: int | None
    """Queries per chunk; chosen by default."""
    progress: ProgressCallback | None
    """Told how far the run is."""


class Running:
    """The settings of one run, with the store open and the workers there while it lasts.

    Args:
        batched: The user calls the function batched.
        **settings: How to ask.

    Raises:
        ArgumentError: The settings do not go together.
    """

    def __init__(self, batched: bool, **settings: Unpack[RunSettings]) -> None:
        unknown = [name for name in settings if name not in RunSettings.__annotations__]
        if unknown:
            known = ", ".join(RunSettings.__annotations__)
            raise ArgumentError(f"a run has no setting {unknown[0]!r}; there are: {known}")
        self._batched = batched
        self._settings = settings
        self._opened: PredictionStore | None = None
        self._store: PredictionStore | None = None
        self._named: list[object] = []
        executor = settings.get("executor")
        self._pool = WorkerPool(executor) if executor is not None else None
        if batched and (settings.get("store") is not None or settings.get("executor") is not None):
            raise ArgumentError(
                "batched_inference=True hands over whole lists, whose answers may depend on each other; they can "
                "neither be stored one by one nor be split over workers. Give the function a 'batch' attribute "
                "instead, if each answer depends on its own prompt only"
            )

    def __enter__(self) -> Running:
        given = self._settings.get("store")
        if isinstance(given, (str, os.PathLike)):
            from StaICC.inference.store import PredictionStore  # sqlite3 is loaded only by those who use it

            self._opened = self._store = PredictionStore(given)
        else:
            self._store = given
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        try:
            if self._pool is not None:
                self._pool.close(hurry=kind is not None)
        finally:
            if self._opened is not None:
                self._opened.close()

    def options_for(
        self, function: Inference | None, group_prefixes: bool = False, free_text: bool = False
    ) -> RunOptions:
        """Return the options for asking one function.

        Args:
            function: The inference function; ``None`` where predictions are given.
            group_prefixes: Ask prompts that share a prefix one after the other.
            free_text: Texts are answers as they stand.

        Raises:
            ArgumentError: There is a store, and the function has neither fingerprint nor name.
        """
        bound = None
        if self._store is not None and function is not None:
            from StaICC.inference.bound_store import BoundStore, fingerprint_of

            bound = BoundStore(self._store, fingerprint_of(function, self._name_of(function)), free_text)
        return RunOptions(
            batched=self._batched,
            store=bound,
            executor=self._pool,
            on_error=self._settings.get("on_error", "raise"),
            chunk_size=self._settings.get("chunk_size"),
            progress=self._settings.get("progress"),
            group_prefixes=group_prefixes,
            free_text=free_text,
        )

    def _name_of(self, function: Inference) -> str | None:
        """Give the name that the user gave; numbered from the second function on, for they are different models."""
        name = self._settings.get("model_name")
        if name is None:
            return None
        number = next((number for number, known in enumerate(self._named) if known is function), None)
        if number is None:
            number = len(self._named)
            self._named.append(function)
        return name if number == 0 else f"{name}, function {number}"

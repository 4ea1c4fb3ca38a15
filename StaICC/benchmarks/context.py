"""The context of a run: its settings, store, workers, progress, identities of models."""

from __future__ import annotations

import contextlib
import os
import time
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import Executor
from dataclasses import dataclass, field, replace
from functools import cached_property
from types import TracebackType
from typing import TYPE_CHECKING, Any, TypedDict, TypeVar

from StaICC.errors import ArgumentError, IdentityError
from StaICC.inference.contract import Inference, reads_parts, served_function
from StaICC.inference.identity import Identity, display_name, identity_of
from StaICC.inference.model_name import check_model_name, name_in_store
from StaICC.inference.recheck import NOT_RECHECKED, RunCounter, RunRecord, rechecks, tolerance_of
from StaICC.inference.replies import Failure, OnError
from StaICC.inference.runner import RunOptions
from StaICC.inference.store import BoundStore, PredictionStore, can_be_written
from StaICC.inference.workers import WorkerPool
from StaICC.progress import ProgressCallback, ProgressLine, drawn_progress
from StaICC.results.details import DatasetDetails
from StaICC.results.files import json_row
from StaICC.results.predictor import GIVEN, Provenance, predictors_of, utc_now
from StaICC.results.result import Result, ResultGroup
from StaICC.results.signature import common, digest, scoring_field, short_digest
from StaICC.safe_text import logger

if TYPE_CHECKING:
    from typing_extensions import Unpack


_LOG = logger(__name__)
Delivered = TypeVar("Delivered", Result, ResultGroup)
_Raised = tuple[type[BaseException] | None, BaseException | None, TracebackType | None]
"""An exception, as the end of a with-block gets it."""


class RunSettings(TypedDict, total=False):
    """Settings of a run that do not change its queries."""

    store: str | os.PathLike[str] | PredictionStore | None
    """Where predictions are cached; the same call again continues where the last one ended."""
    model_name: str | None
    """A name under which the store keeps the predictions, in addition to the identity of the inference function; needed
    with a store for plain functions and for kernels that cannot be identified completely."""
    executor: Executor | Callable[[], Executor] | None
    """Runs chunks of queries elsewhere: threads, processes, Dask, MPI. An executor, which stays open, or a function
    that makes one: it is called before the first query and again if the executor breaks, and its executors are shut
    down when the run ends."""
    on_error: OnError
    """``"raise"`` stops at the first failed query; ``"collect"`` continues, and the result says that it is partial."""
    chunk_size: int | None
    """Queries per chunk; chosen automatically by default."""
    progress: ProgressCallback | bool | None
    """By default, a line on stderr where it is a terminal or a notebook. ``False``: nothing; ``True``: also one line
    per minute where stderr is a file; a function: called with the progress instead."""
    recheck: bool | None
    """Whether to compute some of the reused predictions again (about 30, fewer where prompts are long), and to end the
    run if they differ. By default (``None``) unless these requests may cost money; the result then says so."""

    on_result: Callable[[Result | ResultGroup], object] | None
    """Called with the finished result, such as to log it in an experiment tracker. If it fails, the run warns of it and
    returns its result."""


EarlySettings = tuple[bool, bool, bool, RunSettings]
"""Batched or not, whether outputs are kept, whether scores of data sets are shown, and the settings of the run."""


class _Tracked:
    """One inference function in a run: its identity at the start, its part of the store, its counts."""

    def __init__(self, function: Inference, recheck: bool | None) -> None:
        self.function = function
        self.identity = identity_of(function)
        self.started = utc_now()
        self.counter = RunCounter(
            tolerance_of(function),
            rechecks(function, recheck),
            unidentified=bool(self.identity.unidentified),
            remark=NOT_RECHECKED if recheck is None and not rechecks(function, recheck) else "",
        )
        self.name_in_store: str | None = None
        self.bound: BoundStore | None = None
        self._served = served_function(function)
        self._pinned = False

    def record(self, model_name: str | None) -> RunRecord:
        """Return what the run records about this function."""
        editions = self._served.editions if self._pinned and self._served is not None else ()
        counts, name = self.counter.counts, model_name or display_name(self.function)
        return RunRecord(self.identity, name, self.started, utc_now(), counts, editions, self.counter.replies)

    def pin_edition(self) -> None:
        """Once in a run, hold a served model to the edition that it has now.

        Raises:
            EditionError: The store has predictions of another one.
        """
        if not self._pinned and self._served is not None:
            if self.bound is None:
                self._served.pin_edition()
            else:
                self.bound.pin_edition(self._served)
            self._pinned = True

    def verify(self) -> str | None:
        """Compute the identity again. Return what changed, if that ends the run; what the run stored is then removed.

        A change of a function without a complete identity, in a run without a store, is only logged and recorded.
        """
        try:
            now = identity_of(self.function)
        except Exception as error:  # such as a deleted checkpoint: what cannot be verified is not kept
            reason = f"the identity cannot be computed any more ({type(error).__name__}: {error})"
            now = replace(self.identity, unidentified=(reason,))
        changes = [
            f"{name} was {before or 'absent'}, is {after or 'absent'}"
            for name, (before, after) in self.identity.differences(now).items()
        ] + [reason for reason in now.unidentified if reason not in self.identity.unidentified]
        if not changes:
            return None
        change = f"the inference function changed during the run: {'; '.join(changes)}"
        if self.bound is None and not self.identity.complete:
            self.identity = replace(self.identity, unidentified=(*self.identity.unidentified, change))
            _LOG.warning("%s.", change)
            return None
        stored = self.bound.remove_written() if self.bound is not None else 0
        if stored:
            return f"{change}. The {stored} predictions that this run stored are removed."
        return f"{change}."


class RunContext:
    """The context manager of one run: it opens the store, keeps the workers, and checks identities.

    The identity of each inference function is computed when the run starts and again when it ends. If it changed, the
    predictions that the run stored are removed, and the run fails. (A function without a complete identity that
    changes in a run without a store is only reported, in the log and in its record: it may load what it needs when it
    is first called.)

    Args:
        batched: Whether the function is called with the list of all prompts.
        **settings: The settings of the run.

    Raises:
        ArgumentError: The settings do not go together.

    Attributes:
        warnings: What went wrong in this run, in order; not what its data, prompts and predictions warn of.
        logged: The warnings that were logged; runs that share the set log each once.
        progress: Called with the progress of the run; ``None`` if it is not shown.
        batched: Whether the functions are called with the list of all prompts.
    """

    def __init__(self, batched: bool, /, **settings: Unpack[RunSettings]) -> None:
        unknown = [name for name in settings if name not in RunSettings.__annotations__]
        if unknown:
            known = ", ".join(["batched_inference", *RunSettings.__annotations__])
            raise ArgumentError(f"a run has no setting {unknown[0]!r}; there are: {known}")
        self.warnings: dict[str, None] = {}
        self.logged: set[str] = set()
        self.progress: ProgressCallback | None = None
        self.batched = batched
        self._began = time.monotonic()
        self._closing = contextlib.ExitStack()
        self._settings = settings
        self._tracked: dict[int, _Tracked] = {}
        self._records: dict[int, RunRecord] = {}
        executor = settings.get("executor")
        self._pool = WorkerPool(executor) if executor is not None else None
        if not isinstance(settings.get("recheck"), bool | None):
            raise ArgumentError(f"recheck must be True, False or None, not {settings['recheck']!r}")
        check_model_name(settings.get("model_name"))
        if batched and (settings.get("store") is not None or settings.get("executor") is not None):
            raise ArgumentError(
                "batched_inference=True passes complete lists, which can neither be cached query by query nor be split "
                "over workers. If each prediction depends on its own prompt only, use the attribute 'batch' instead"
            )

    def deliver(self, result: Delivered) -> Delivered:
        """Log its warnings, call ``on_result`` with the finished result, and return the result.

        Args:
            result: The result of the run.
        """
        self.log(*result.warnings)
        callback = self._settings.get("on_result")
        try:
            if callback is not None:
                callback(result)
        except Exception as error:  # hours of predictions are not lost with a tracker's connection
            _LOG.warning("on_result failed with %s: %s. The result is complete", type(error).__name__, error)
        return result

    def __enter__(self) -> RunContext:
        drawing = contextlib.ExitStack()
        self.progress = drawing.enter_context(drawn_progress(self._settings.get("progress")))
        given = self._settings.get("store")
        if given is not None and not isinstance(given, (str, os.PathLike, PredictionStore)):
            raise ArgumentError(f"store must be the path of a file or a PredictionStore, not {given!r:.60}")
        own: dict[str, Any] = {key: self._settings[key] for key in ("on_error", "chunk_size") if key in self._settings}
        self._options = RunOptions(
            self.batched, executor=self._pool, progress=self.progress, warn=self.warn, log=self.log, **own
        )
        self._opened = self._closing.enter_context(contextlib.ExitStack())  # closed last
        self._closing.push(self._end)
        if (pool := self._pool) is not None:
            self._closing.push(lambda *raised: pool.close(hurry=raised[0] is not None))
        self._closing.push(drawing)  # closed first: what follows may log
        return self

    def __exit__(self, *raised: Unpack[_Raised]) -> None:
        self._closing.__exit__(*raised)

    @cached_property
    def _store(self) -> PredictionStore:
        """The store. A new file is made when the first options are, so a run that is refused makes none.

        A file that cannot be written is only read: a run needs no more if all its predictions are stored.
        """
        given: Any = self._settings.get("store")
        if isinstance(given, PredictionStore):
            self._opened.callback(given.checkpoint)  # it stays open
            return given
        store = PredictionStore(given, read_only=not can_be_written(given))
        return self._opened.enter_context(store)

    def _end(self, *raised: Unpack[_Raised]) -> None:
        """Verify the identities, and remove predictions that were stored under a changed one.

        Raises:
            IdentityError: An inference function changed during the run. (After Ctrl-C it is only logged.)
        """
        error = raised[1]
        changes = [change for tracked in self._tracked.values() if (change := tracked.verify()) is not None]
        if error is None:
            name = self._settings.get("model_name")
            self._records = {key: tracked.record(name) for key, tracked in self._tracked.items()}
        if changes and isinstance(error, Exception | None):
            raise IdentityError(
                f"{' '.join(changes)} Its predictions are not those of one model. Keep the model, its settings and the "
                "variables that it refers to as they are while it runs, and run again"
            ) from error
        for change in changes:
            _LOG.warning("%s", change)

    def start(self, functions: Iterable[Inference | None]) -> None:
        """Compute the identities of the inference functions, before the first query.

        Args:
            functions: The functions of the run; ``None`` where predictions are given.

        Raises:
            ArgumentError: There is a store, and a function can neither be identified nor has a name, or two functions
                have the same name and nothing else tells them apart.
        """
        unclear: dict[str, Inference | None] = {}
        for function in functions:
            identity = None if function is None else self._track(function).identity
            if identity is None or self._settings.get("store") is None or identity.complete:
                continue
            if unclear.setdefault(identity.digest, function) is not function:
                raise ArgumentError(
                    f"two inference functions of the list have the same model_name "
                    f"{self._settings.get('model_name')!r}, and nothing else tells their predictions apart. Run them "
                    "one by one, each with a name and the data sets of its own"
                )

    def options_for(
        self, function: Inference | None, group_prefixes: bool = False, free_text: bool = False
    ) -> RunOptions:
        """Return the options with which one inference function runs.

        Args:
            function: The inference function; ``None`` where predictions are given.
            group_prefixes: Order prompts so that those with a common prefix follow each other.
            free_text: The predictions are texts, not label scores.

        Raises:
            ArgumentError: There is a store, and the function can neither be identified nor has a name.
        """
        options = replace(self._options, group_prefixes=group_prefixes, free_text=free_text)
        if function is None:
            return options
        tracked = self._track(function)
        if tracked.bound is None and tracked.name_in_store is not None:
            tracked.bound = BoundStore(self._store, tracked.name_in_store, reads_parts(function))
        return replace(options, store=tracked.bound, before_computing=tracked.pin_edition, counter=tracked.counter)

    def checkpoint(self) -> None:
        """End a part of the run: what it stored moves from the log of the store into its file."""
        for tracked in self._tracked.values():
            if tracked.bound is not None:
                tracked.bound.store.checkpoint()

    def warn(self, *warnings: str) -> None:
        """Keep warnings of what went wrong in this run for the result, and log them."""
        self.warnings |= dict.fromkeys(warnings)
        self.log(*warnings)

    def log(self, *warnings: str) -> None:
        """Log warnings, each once in this run."""
        for warning in warnings:
            if warning not in self.logged:
                self.logged.add(warning)
                if isinstance(self.progress, ProgressLine):
                    self.progress.close()  # the next report draws it again
                _LOG.warning("%s", warning)

    def _track(self, function: Inference) -> _Tracked:
        key = id(function)  # what is tracked keeps the function
        if key not in self._tracked:
            tracked = _Tracked(function, self._settings.get("recheck"))
            if self._settings.get("store") is not None:  # refuses a function without a name
                model_name = self._settings.get("model_name")
                tracked.name_in_store = name_in_store(tracked.identity, model_name)
            self._tracked[key] = tracked
        return self._tracked[key]

    def identity_of(self, function: Inference) -> Identity:
        """Return the identity of an inference function as it was when the run started."""
        return self._track(function).identity

    def predictions(self, functions: Mapping[str, Inference | None]) -> Predictions:
        """Return the provenance of the predictions, after the with-block.

        Args:
            functions: The inference function of each data set, in the order of the run; ``None`` for given predictions.
        """
        records = {name: self._records[id(function)] for name, function in functions.items() if function is not None}
        seconds = time.monotonic() - self._began
        return Predictions(records, self.batched, warnings=tuple(self.warnings), seconds=seconds)


@dataclass(frozen=True, slots=True)
class Predictions:
    """The provenance of the predictions of a run.

    Args:
        records: The record of each data set's inference function; data sets without one have given predictions.
        batched: Whether the functions were called with the list of all prompts.
        given: The signature's field ``scoring`` for given predictions.
    """

    records: Mapping[str, RunRecord] = field(default_factory=dict)
    batched: bool = False
    given: str = "given"
    warnings: tuple[str, ...] = ()
    """What went wrong in the run."""
    seconds: float = 0.0
    """The duration of the run."""

    def scoring(self, datasets: Sequence[str]) -> str | None:
        """Return the signature's field ``scoring``: how the label scores of all data sets are computed."""
        parser = ""
        if any(record.replies for record in self.records.values()):
            from StaICC.inference.reply_parser import PARSER_VERSION

            parser = f";parser={PARSER_VERSION}"
        own = {name: scoring_field(record.identity.settings) for name, record in self.records.items()}
        ways = [own[name] + ";batched" * self.batched if name in own else self.given for name in datasets]
        return f"{common(ways)}{parser}" if datasets else None

    def provenance(self, answers: Mapping[str, Sequence[Any]], details: Mapping[str, DatasetDetails]) -> Provenance:
        """Return the provenance.

        Args:
            answers: The predictions by data set; a digest of given predictions is kept.
            details: The details of each data set.
        """
        records = [(record, name) for name, record in self.records.items()]
        given = {
            name: [json_row(None if isinstance(answer, Failure) else answer) for answer in of_dataset]
            for name, of_dataset in answers.items()
            if name not in self.records
        }
        if given:
            record = RunRecord(Identity({GIVEN: digest(given)}), None, utc_now(), utc_now(), Counter())
            records += [(record, name) for name in given]
        failed = [[name, query.condition, query.query] for name, own in details.items() for query in own.failures]
        return Provenance(predictors_of(records, details), failures=short_digest(failed) if failed else None)

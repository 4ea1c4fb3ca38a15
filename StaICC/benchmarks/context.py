"""The context of a run: its settings, store, workers, progress, identities of models."""

from __future__ import annotations

import contextlib
import os
import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
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


class RunSettings(TypedDict, total=False):
    """Settings of a run that do not change its queries."""

    store: str | os.PathLike[str] | PredictionStore | None
    """Where predictions are cached; the same call again continues where the last one ended."""
    model_name: str | None
    """The name of the model, which tables, comparisons and reports show, also for given predictions. A store keeps the
    predictions under it, in addition to the identity of the inference function; it is needed with a store for plain
    functions and for kernels that cannot be identified completely."""
    executor: Executor | Callable[[], Executor] | None
    """Runs chunks of queries elsewhere: threads, processes, Dask, MPI. An executor, which stays open, or a function
    that makes one: it is called before the first query and again if the executor breaks, and its executors are shut
    down when the run ends."""
    on_error: OnError
    """``"raise"`` stops at the first failed query; ``"collect"`` continues, and the result says that it is partial."""
    chunk_size: int | None
    """Queries of a chunk, which a local model or a worker computes together. By default 256 for a kernel with a batched
    form; otherwise as many as take about half a second."""
    progress: ProgressCallback | bool | None
    """By default, a line on stderr where it is a terminal or a notebook. ``False``: nothing; ``True``: also one line
    per minute where stderr is a file; a function: called with the progress instead."""
    recheck: bool | None
    """Whether to compute some of the reused predictions again (about 30, fewer where prompts are long), and to end the
    run if they differ. By default (``None``) unless these requests may cost money; the result then says so."""

    on_result: Callable[[Result | ResultGroup], object] | None
    """Called with the finished result, such as to log it in an experiment tracker. If it fails, the run warns of it and
    returns its result."""


@dataclass(frozen=True, slots=True)
class EarlySettings:
    """The settings of a run that stops early."""

    batched: bool
    """Whether the functions are called with the list of all prompts."""
    keep_outputs: bool
    """Whether the result keeps the prediction of each query."""
    divided: bool
    """Whether the result's dictionary shows the scores of each data set."""
    run: RunSettings
    """Store, executor, progress and the like."""


class _TrackedFunction:
    """An inference function together with what a run knows of it.

    If its model is served, the server may name the edition of the model: its version, such as a dated name or a
    fingerprint.

    Attributes:
        function: The inference function.
        identity: Its identity when the run began.
        started: When the run began to use it.
        counter: Counts its predictions, computed and reused.
        name_in_store: The name under which the store keeps its predictions; ``None`` without a store.
        predictions_in_store: Its predictions in the store; ``None`` without a store, and before its first query.
    """

    def __init__(self, function: Inference, recheck: bool | None) -> None:
        """Begin to follow a function.

        Args:
            function: The inference function.
            recheck: Whether reused predictions are computed again, as for :class:`RunSettings`.
        """
        self.function = function
        self.identity = identity_of(function)
        self.started = utc_now()
        self.counter = _new_counter(function, self.identity, recheck)
        self.name_in_store: str | None = None
        self.predictions_in_store: BoundStore | None = None
        # The part of the function that asks a server; None for a model on this machine.
        self._served = served_function(function)
        # Whether this run has asked the server for the edition of its model.
        self._is_pinned = False

    def record(self, model_name: str | None) -> RunRecord:
        """Return the record of this function for the provenance of a result.

        Its editions are empty if the model is not served, or if this run sent no request to its server.

        Args:
            model_name: The name that the user gave the model; ``None`` for the name of the function.
        """
        editions: tuple[str, ...] = ()
        if self._served is not None and self._is_pinned:
            editions = self._served.editions
        return RunRecord(
            identity=self.identity,
            model_name=model_name or display_name(self.function),
            started=self.started,
            finished=utc_now(),
            counts=self.counter.counts,
            editions=editions,
            replies=self.counter.replies,
        )

    def pin_edition(self) -> None:
        """Ask the server for the edition of its model, so that a response of another edition is an error.

        Only the first call in a run asks. A function whose model is not served has no edition.

        Raises:
            EditionError: The store has predictions of another edition.
        """
        if self._is_pinned or self._served is None:
            return
        if self.predictions_in_store is None:
            self._served.pin_edition()
        else:
            self.predictions_in_store.pin_edition(self._served)
        self._is_pinned = True

    def verify(self) -> str | None:
        """Return the error message of a run in which the identity changed; ``None`` if there is no error.

        The identity is computed again, and compared with that at the start of the run:

        * The identity did not change: the method returns ``None``.
        * It changed in a run with a store: the predictions that the run stored are removed. The message has their
          number.
        * It changed in a run without a store, and it was complete: the method returns the message.
        * It changed in a run without a store, and it was incomplete: the function may only have loaded what it needs.
          So the change is logged and recorded, and the method returns ``None``.
        """
        changes = _changes(self.identity, self._identity_now())
        if not changes:
            return None
        sentence = f"the inference function changed during the run: {'; '.join(changes)}"
        if self.predictions_in_store is None:
            if self.identity.complete:
                return f"{sentence}."
            self.identity = replace(self.identity, unidentified=(*self.identity.unidentified, sentence))
            _LOG.warning("%s.", sentence)
            return None
        removed_count = self.predictions_in_store.remove_written()
        if removed_count == 0:
            return f"{sentence}."
        return f"{sentence}. The {removed_count} predictions that this run stored are removed."

    def _identity_now(self) -> Identity:
        """Return the identity of the function, computed again.

        If the computation fails, for example because a checkpoint was deleted, the method returns the old identity with
        the error among its unidentified parts. So the function counts as changed.
        """
        try:
            return identity_of(self.function)
        except Exception as error:  # Code of the user computes it, which may raise anything.
            reason = f"the identity cannot be computed any more ({type(error).__name__}: {error})"
            return replace(self.identity, unidentified=(reason,))


def _new_counter(function: Inference, identity: Identity, recheck: bool | None) -> RunCounter:
    """Return a new counter of the predictions of a function in a run: computed, reused from the store, or failed.

    The counter also chooses the reused predictions that are rechecked: computed again and compared with those of the
    store.

    Args:
        function: The inference function.
        identity: The identity of the function.
        recheck: Whether reused predictions are rechecked. ``None`` rechecks them unless requests may cost money. If
            they may, the counter has a remark, with which the result says that nothing was rechecked.
    """
    is_rechecked = rechecks(function, recheck)
    remark = ""
    if recheck is None and not is_rechecked:
        remark = NOT_RECHECKED
    has_unidentified_parts = bool(identity.unidentified)
    return RunCounter(tolerance_of(function), is_rechecked, unidentified=has_unidentified_parts, remark=remark)


def _changes(before: Identity, after: Identity) -> list[str]:
    """Return the differences between two identities of a function, one phrase each; empty if they are equal.

    An identity is what is known of a function: facts such as the digest of its code, and the reasons why some facts are
    not known. A changed fact is a difference, such as ``code was 1a2b, is 3c4d``. A reason is a difference if only the
    second identity has it.

    Args:
        before: The identity when the run started.
        after: The identity when the run ended.
    """
    changes = []
    for name, (old_value, new_value) in before.differences(after).items():
        changes.append(f"{name} was {old_value or 'absent'}, is {new_value or 'absent'}")
    for reason in after.unidentified:
        if reason not in before.unidentified:
            changes.append(reason)
    return changes


class RunContext:
    """The context manager of one run: it opens the store, keeps the workers, and checks identities.

    The identity of each inference function is computed when the run starts and again when it ends. If it changed, the
    predictions that the run stored are removed, and the run fails. There is one exception: a run without a store, and a
    function whose identity is incomplete. Such a function may load what it needs when it is first called, so the change
    is only logged and recorded.

    Args:
        batched: Whether the function is called with the list of all prompts.
        **settings: The settings of the run.

    Raises:
        ArgumentError: The settings do not go together.

    Attributes:
        warnings: Warnings of what went wrong in this run, in order. Warnings about data, prompts and predictions are
            not among them.
        logged: The warnings that were logged. Runs that share this set log each warning once.
        progress: Called with the progress of the run; ``None`` if it is not shown.
        batched: Whether the functions are called with the list of all prompts.
    """

    def __init__(self, batched: bool, /, **settings: Unpack[RunSettings]) -> None:
        """Check the settings. The store and other resources are opened when the context is entered."""
        _refuse_unknown_run_settings(settings)
        self.warnings: dict[str, None] = {}
        self.logged: set[str] = set()
        self.progress: ProgressCallback | None = None
        self.batched = batched
        self._began = time.monotonic()
        self._settings = settings
        self._tracked: dict[int, _TrackedFunction] = {}
        """The tracked function of each inference function, by its :func:`id`. It holds the function, so that no other
        object gets this id."""
        self._records: dict[int, RunRecord] = {}
        """The record of each inference function, by its :func:`id`; empty until the run ends."""
        self._opened_store = contextlib.ExitStack()
        """Closes the store at the end of the run, if the run opened it."""
        self._resources = self._open()
        """The context manager that opens and closes everything that the run needs; entered with the run itself."""
        executor = settings.get("executor")
        self._pool: WorkerPool | None = None
        if executor is not None:
            self._pool = WorkerPool(executor)
        _check_run_settings(batched, settings)

    @property
    def recheck(self) -> bool | None:
        """Whether some of the reused predictions are computed again; ``None``: unless requests may cost money."""
        return self._settings.get("recheck")

    @property
    def collects_failures(self) -> bool:
        """Whether the run goes on after a query without a prediction."""
        return self._settings.get("on_error") == "collect"

    def deliver(self, result: Delivered) -> Delivered:
        """Log the warnings of a finished result, call ``on_result`` with it, and return it.

        Args:
            result: The result of the run.
        """
        self.log(*result.warnings)
        callback = self._settings.get("on_result")
        if callback is None:
            return result
        try:
            callback(result)
        except Exception as error:  # A tracker without a connection must not cost hours of predictions.
            _LOG.warning("on_result failed with %s: %s. The result is complete", type(error).__name__, error)
        return result

    def __enter__(self) -> RunContext:
        self._resources.__enter__()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self._resources.__exit__(kind, error, traceback)

    @contextlib.contextmanager
    def _open(self) -> Iterator[None]:
        """Open what the run needs, and close it at the end of the run, also after an exception.

        The end of the run has four steps, in this order. A step is taken also if a step before it fails.

        1. The progress is no longer shown, because the other steps may log.
        2. The workers are closed.
        3. The identities are verified, which may remove predictions from the store.
        4. The store is closed.
        """
        with (  # Closed from the last line to the first.
            self._opened_store,
            self._identities_verified(),
            self._workers_closed(),
            drawn_progress(self._settings.get("progress")) as self.progress,
        ):
            self._options = self._run_options()
            yield

    def _run_options(self) -> RunOptions:
        """Return the options that all functions of the run share.

        Raises:
            ArgumentError: The store is neither a path nor a store, or an option is invalid.
        """
        store = self._settings.get("store")
        if store is not None and not isinstance(store, (str, os.PathLike, PredictionStore)):
            raise ArgumentError(f"store must be the path of a file or a PredictionStore, not {store!r:.60}")
        options = RunOptions(self.batched, executor=self._pool, progress=self.progress, warn=self.warn, log=self.log)
        if "on_error" in self._settings:
            options = replace(options, on_error=self._settings["on_error"])
        if "chunk_size" in self._settings:
            options = replace(options, chunk_size=self._settings["chunk_size"])
        return options

    @contextlib.contextmanager
    def _workers_closed(self) -> Iterator[None]:
        """Close the pool of workers at the end. After an exception, do not wait for running chunks."""
        try:
            yield
        except BaseException:
            if self._pool is not None:
                self._pool.close(hurry=True)
            raise
        if self._pool is not None:
            self._pool.close()

    @contextlib.contextmanager
    def _identities_verified(self) -> Iterator[None]:
        """Verify the identities of the inference functions at the end of the run, also after an exception."""
        try:
            yield
        except BaseException as error:
            self._verify_identities(error)
            raise
        self._verify_identities(None)

    @cached_property
    def _store(self) -> PredictionStore:
        """The store of the run.

        It is opened at its first use, so a run whose settings are refused creates no file. A file that cannot be
        written is opened for reading, which is enough if all predictions are in it.
        """
        setting: Any = self._settings.get("store")
        if isinstance(setting, PredictionStore):
            self._opened_store.callback(setting.checkpoint)  # The user opened it, so it is not closed.
            return setting
        store = PredictionStore(setting, read_only=not can_be_written(setting))
        return self._opened_store.enter_context(store)

    def _verify_identities(self, error: BaseException | None) -> None:
        """Compute the identity of each inference function again, and raise an error if one changed.

        The predictions that the run stored under a changed identity are removed. If the run is complete, this also
        makes the record of each function for the result.

        Args:
            error: The exception that ended the run; ``None`` if the run is complete.

        Raises:
            IdentityError: An inference function changed during the run. After Ctrl-C, the change is only logged.
        """
        changes = []
        for tracked in self._tracked.values():
            change = tracked.verify()
            if change is not None:
                changes.append(change)
        if error is None:
            model_name = self._settings.get("model_name")
            self._records = {key: tracked.record(model_name) for key, tracked in self._tracked.items()}
        if not changes:
            return
        is_interrupted = error is not None and not isinstance(error, Exception)
        if is_interrupted:  # Such as by Ctrl-C, which must end the program.
            for change in changes:
                _LOG.warning("%s", change)
            return
        raise IdentityError(
            f"{' '.join(changes)} Its predictions are not those of one model. Keep the model, its settings and the "
            "variables that it refers to as they are while it runs, and run again"
        ) from error

    def start(self, functions: Iterable[Inference | None]) -> None:
        """Compute the identities of the inference functions, before the first query.

        Args:
            functions: The function of each data set; ``None`` for a data set with given predictions.

        Raises:
            ArgumentError: There is a store, and its predictions could be mixed up: a function can neither be identified
                nor has a name, or two functions have the same name and nothing else tells them apart.
        """
        function_of_identity: dict[str, Inference] = {}
        for function in functions:
            if function is None:
                continue
            identity = self._track(function).identity
            if self._settings.get("store") is None or identity.complete:
                continue
            if identity.digest not in function_of_identity:
                function_of_identity[identity.digest] = function
            elif function_of_identity[identity.digest] is not function:
                raise ArgumentError(
                    f"two inference functions of the list have the same model_name "
                    f"{self._settings.get('model_name')!r}, and nothing else tells their predictions apart. Run them "
                    "one by one, each with a name and the data sets of its own"
                )

    def options_for(
        self, function: Inference | None, group_prefixes: bool = False, free_text: bool = False
    ) -> RunOptions:
        """Return the options with which the runner calls one inference function.

        Args:
            function: The inference function; ``None`` if predictions are given.
            group_prefixes: Order prompts so that those with a common prefix follow each other.
            free_text: The predictions are texts, not label scores.

        Raises:
            ArgumentError: There is a store, and the function can neither be identified nor has a name.
        """
        options = replace(self._options, group_prefixes=group_prefixes, free_text=free_text)
        if function is None:
            return options
        tracked = self._track(function)
        if tracked.predictions_in_store is None and tracked.name_in_store is not None:
            tracked.predictions_in_store = BoundStore(self._store, tracked.name_in_store, reads_parts(function))
        return replace(
            options, store=tracked.predictions_in_store, before_computing=tracked.pin_edition, counter=tracked.counter
        )

    def checkpoint(self) -> None:
        """Move the predictions stored so far from the log of the store into its file. Call it after each data set."""
        for tracked in self._tracked.values():
            if tracked.predictions_in_store is not None:
                tracked.predictions_in_store.store.checkpoint()

    def warn(self, *warnings: str) -> None:
        """Log warnings of what went wrong in this run, and keep them for its result."""
        self.warnings |= dict.fromkeys(warnings)
        self.log(*warnings)

    def log(self, *warnings: str) -> None:
        """Log warnings, each once in this run."""
        for warning in warnings:
            if warning in self.logged:
                continue
            self.logged.add(warning)
            if isinstance(self.progress, ProgressLine):
                self.progress.close()  # the next report draws it again
            _LOG.warning("%s", warning)

    def _track(self, function: Inference) -> _TrackedFunction:
        """Return what this run knows of an inference function, as one :class:`_TrackedFunction`.

        The first call for a function makes this object and computes the identity of the function. Later calls return
        the same object.

        Raises:
            ArgumentError: The run has a store, and ``name_in_store`` finds no name for the function: its identity is
                incomplete, and the user gave no ``model_name``.
        """
        tracked = self._tracked.get(id(function))
        if tracked is None:
            tracked = _TrackedFunction(function, self.recheck)
            if self._settings.get("store") is not None:
                tracked.name_in_store = name_in_store(tracked.identity, self._settings.get("model_name"))
            self._tracked[id(function)] = tracked
        return tracked

    def identity_of(self, function: Inference) -> Identity:
        """Return the identity of an inference function as it was when the run started."""
        return self._track(function).identity

    def predictions(self, functions: Mapping[str, Inference | None]) -> Predictions:
        """Return the provenance of the predictions: which inference function predicted each data set.

        Call it after the with-block of the run, because the end of the block makes the records of the functions.

        Args:
            functions: The inference function of each data set, by its name and in the order of the run; ``None`` for
                given predictions.
        """
        records = {}
        for name, function in functions.items():
            if function is not None:
                records[name] = self._records[id(function)]
        seconds = time.monotonic() - self._began
        return Predictions(
            records,
            self.batched,
            given_name=self._settings.get("model_name"),
            warnings=tuple(self.warnings),
            seconds=seconds,
        )


def _refuse_unknown_run_settings(settings: RunSettings) -> None:
    """Raise an ArgumentError if a keyword argument of a run is not one of :class:`RunSettings`."""
    for name in settings:
        if name not in RunSettings.__annotations__:
            known = ", ".join(["batched_inference", *RunSettings.__annotations__])
            raise ArgumentError(f"a run has no setting {name!r}; there are: {known}")


def _check_run_settings(batched: bool, settings: RunSettings) -> None:
    """Raise an error if a setting of a run has a wrong value, or if settings do not go together.

    Args:
        batched: Whether the inference function is called with the list of all prompts.
        settings: The settings of the run.

    Raises:
        ArgumentError: ``recheck`` or ``model_name`` has a wrong value, or complete lists of prompts should be stored or
            split over workers.
    """
    if not isinstance(settings.get("recheck"), bool | None):
        raise ArgumentError(f"recheck must be True, False or None, not {settings['recheck']!r}")
    check_model_name(settings.get("model_name"))
    has_store = settings.get("store") is not None
    has_workers = settings.get("executor") is not None
    if batched and (has_store or has_workers):
        raise ArgumentError(
            "batched_inference=True passes complete lists, which can neither be cached query by query nor be split "
            "over workers. If each prediction depends on its own prompt only, use the attribute 'batch' instead"
        )


@dataclass(frozen=True, slots=True)
class Predictions:
    """The provenance of the predictions of a run: for each data set, the inference function that made them.

    A data set without a record has given predictions, which no inference function of this run computed.
    """

    records: Mapping[str, RunRecord] = field(default_factory=dict)
    """The record of the inference function of each data set, by the name of the data set."""
    batched: bool = False
    """Whether the functions were called with the list of all prompts."""
    given: str = "given"
    """The signature's field ``scoring`` for given predictions."""
    given_name: str | None = None
    """The name of the model that made the given predictions, as the user or a log states it. Nothing checks it."""
    warnings: tuple[str, ...] = ()
    """What went wrong in the run."""
    seconds: float = 0.0
    """The duration of the run."""

    def scoring(self, datasets: Sequence[str]) -> str | None:
        """Return the field ``scoring`` of the signature, which says how label scores are computed.

        The field ends with ``;parser=`` and the version of the parser if labels were read from replies.

        Args:
            datasets: The names of the data sets. If there are none, the field is ``None``.
        """
        if not datasets:
            return None
        fields = []
        for name in datasets:
            if name not in self.records:
                fields.append(self.given)
                continue
            field_of_function = scoring_field(self.records[name].identity.settings)
            if self.batched:
                field_of_function += ";batched"
            fields.append(field_of_function)
        scoring = str(common(fields))
        if any(record.replies for record in self.records.values()):
            from StaICC.inference.reply_parser import PARSER_VERSION

            scoring += f";parser={PARSER_VERSION}"
        return scoring

    def provenance(self, answers: Mapping[str, Sequence[Any]], details: Mapping[str, DatasetDetails]) -> Provenance:
        """Return which models predicted the data sets, as results save it, with a digest of the failed queries.

        A given prediction was computed elsewhere, so this run knows no model for it. All given predictions together
        have one record. The digest of these predictions takes the place of the identity of a model. The name of their
        model is only stated, so it is no part of the identity.

        Args:
            answers: The predictions of each data set, by its name.
            details: The details of each data set, by its name.
        """
        records_with_dataset = [(record, name) for name, record in self.records.items()]
        given_predictions = {}
        for name, answers_of_dataset in answers.items():
            if name not in self.records:
                given_predictions[name] = _json_rows(answers_of_dataset)
        if given_predictions:
            record_of_given = _record_of_given_predictions(digest(given_predictions), self.given_name)
            for name in given_predictions:
                records_with_dataset.append((record_of_given, name))

        failed_queries = []
        for name, details_of_dataset in details.items():
            for query in details_of_dataset.failures:
                failed_queries.append([name, query.condition, query.query])
        digest_of_failures = None
        if failed_queries:
            digest_of_failures = short_digest(failed_queries)
        return Provenance(predictors_of(records_with_dataset, details), failures=digest_of_failures)


def _json_rows(answers: Sequence[Any]) -> list[Any]:
    """Return predictions as JSON values; ``None`` for a failed query."""
    rows = []
    for answer in answers:
        if isinstance(answer, Failure):
            rows.append(json_row(None))
        else:
            rows.append(json_row(answer))
    return rows


def _record_of_given_predictions(predictions_digest: str, model_name: str | None) -> RunRecord:
    """Return the record of given predictions, which no inference function of this run computed.

    Args:
        predictions_digest: The digest of the predictions, which is their identity.
        model_name: The name of their model, as the user or a log states it; ``None`` if neither does.
    """
    now = utc_now()
    identity = Identity({GIVEN: predictions_digest})
    return RunRecord(identity, model_name=model_name, started=now, finished=now, counts=Counter())

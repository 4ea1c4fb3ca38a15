"""A run: its context (settings, store, workers, identities), its forecast, and what all benchmarks share.

A benchmark is a sequence of data sets, one inference function for each, the run, and its result.
"""

from __future__ import annotations

import contextlib
import math
import os
import time
from abc import abstractmethod
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import Executor
from dataclasses import dataclass, field, replace
from functools import cached_property
from types import TracebackType
from typing import TYPE_CHECKING, Any, ClassVar, Generic, Protocol, TypedDict, TypeVar

from StaICC.benchmarks.evaluation import DatasetRun, RunsByDataset, digest_prompts, means_of, records_of
from StaICC.benchmarks.task import Condition
from StaICC.datasets import Dataset
from StaICC.errors import ArgumentError, FixedAttributes, IdentityError, OutputError, unknown_name
from StaICC.inference import Answer, Failure, Inference, OnError, Part, ProgressCallback, RunOptions
from StaICC.inference import identity as identities
from StaICC.inference.contract import Forecast, forecast_prompts, served_function, token_cost, tokens_used
from StaICC.inference.identity import Identity, RunCounter, RunRecord, identity_of, tolerance_of
from StaICC.inference.prompt_key import PromptKey
from StaICC.inference.runner import characters, chunks_of, distinct_keys
from StaICC.inference.store import BoundStore, PredictionStore
from StaICC.inference.workers import Chunk, WorkerPool, solver
from StaICC.layout import Block, Displayed, Line, TextTable
from StaICC.progress import ProgressLine, drawn_progress
from StaICC.prompting import Query
from StaICC.prompting.prompt_writer import as_argument
from StaICC.results import DatasetDetails, Signature, describe_environment, digest, short_digest
from StaICC.results.provenance import GIVEN, Provenance, common, predictors_of, scoring_field, utc_now
from StaICC.results.result import Result, ResultGroup, json_row
from StaICC.results.result import mean as mean
from StaICC.safe_text import logger, one_line
from StaICC.version import __version__

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
    recheck: bool
    """Whether to compute about 30 of the reused predictions again, and to end the run if they differ; true by
    default."""

    on_result: Callable[[Result | ResultGroup], object] | None
    """Called with the finished result, such as to log it in an experiment tracker. If it fails, the run warns of it and
    returns its result."""


class _Tracked:
    """One inference function in a run: its identity at the start, its part of the store, its counts."""

    def __init__(self, function: Inference, recheck: bool) -> None:
        self.function = function
        self.identity = identity_of(function)
        self.started = utc_now()
        self.counter = RunCounter(tolerance_of(function), recheck, unidentified=bool(self.identity.unidentified))
        self.name_in_store: str | None = None
        self.bound: BoundStore | None = None
        self._served = served_function(function)
        self._pinned = False

    def record(self, model_name: str | None) -> RunRecord:
        """Return what the run records about this function."""
        editions = self._served.editions if self._pinned and self._served is not None else ()
        counts, name = self.counter.counts, model_name or identities.display_name(self.function)
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
        return f"{change}.{f' The {stored} predictions that this run stored are removed.' * bool(stored)}"


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
        warnings: What the run warned of, in order.
        progress: Called with the progress of the run; ``None`` if it is not shown.
        batched: Whether the functions are called with the list of all prompts.
    """

    def __init__(self, batched: bool, /, **settings: Unpack[RunSettings]) -> None:
        unknown = [name for name in settings if name not in RunSettings.__annotations__]
        if unknown:
            known = ", ".join(["batched_inference", *RunSettings.__annotations__])
            raise ArgumentError(f"a run has no setting {unknown[0]!r}; there are: {known}")
        self.warnings: dict[str, None] = {}
        self.progress: ProgressCallback | None = None
        self.batched = batched
        self._began = time.monotonic()
        self._closing = contextlib.ExitStack()
        self._settings = settings
        self._tracked: dict[int, _Tracked] = {}
        self._records: dict[int, RunRecord] = {}
        executor = settings.get("executor")
        self._pool = WorkerPool(executor) if executor is not None else None
        if not isinstance(settings.get("recheck", True), bool):
            raise ArgumentError(f"recheck must be True or False, not {settings['recheck']!r}")
        identities.check_model_name(settings.get("model_name"))
        if batched and (settings.get("store") is not None or settings.get("executor") is not None):
            raise ArgumentError(
                "batched_inference=True passes complete lists, which can neither be cached query by query nor be split "
                "over workers. If each prediction depends on its own prompt only, use the attribute 'batch' instead"
            )

    def deliver(self, result: Delivered) -> Delivered:
        """Call ``on_result`` with the finished result, and return the result.

        Args:
            result: The result of the run.
        """
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
        self._options = RunOptions(self.batched, executor=self._pool, progress=self.progress, warn=self.warn, **own)
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
        """The store. A new file is made when the first options are, so a run that is refused makes none."""
        given: Any = self._settings.get("store")
        return given if isinstance(given, PredictionStore) else self._opened.enter_context(PredictionStore(given))

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
            tracked.bound = BoundStore(self._store, tracked.name_in_store)
        return replace(options, store=tracked.bound, before_computing=tracked.pin_edition, counter=tracked.counter)

    def warn(self, *warnings: str) -> None:
        """Keep warnings for the result, and log each once in this run."""
        for warning in warnings:
            if warning not in self.warnings:
                self.warnings[warning] = None
                if isinstance(self.progress, ProgressLine):
                    self.progress.close()  # the next report draws it again
                _LOG.warning("%s", warning)

    def _track(self, function: Inference) -> _Tracked:
        key = id(function)  # what is tracked keeps the function
        if key not in self._tracked:
            tracked = _Tracked(function, self._settings.get("recheck", True))
            if self._settings.get("store") is not None:  # refuses a function without a name
                model_name = self._settings.get("model_name")
                tracked.name_in_store = identities.name_in_store(tracked.identity, model_name)
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


PROBE_SECONDS = 4.0
CLOCK = time.perf_counter
"""Returns the time in seconds."""
PROBED = 16
"""Chunks of the probe, and queries of each."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ForecastOptions:
    """Options of a forecast.

    Raises:
        ArgumentError: A value is invalid.
    """

    store: str | os.PathLike[str] | PredictionStore | None = None
    """The store of the run; its predictions are not computed again."""
    model_name: str | None = None
    """As for a run."""
    chunk_size: int | None = None
    """As for a run."""
    probe_seconds: float = PROBE_SECONDS
    """Duration of the probe, in seconds; 0 predicts nothing."""
    prices: tuple[float, float] | None = None
    """Cost of a million tokens that the model reads, and of a million that it generates."""

    def __post_init__(self) -> None:
        seconds = self.probe_seconds
        if isinstance(seconds, bool) or not isinstance(seconds, (int, float)) or not 0 <= seconds < 1e6:
            raise ArgumentError(f"probe_seconds: got {seconds!r}, expected a number of seconds of at least 0")
        if self.prices is not None:
            token_cost(0, 0, self.prices)  # refuses wrong prices before the probe

    def context(self) -> RunContext:
        """Return the context of the run, with its store if there is one: a run would make it."""
        missing = isinstance(self.store, (str, os.PathLike)) and not os.path.exists(self.store)
        settings: RunSettings = {"model_name": self.model_name, "chunk_size": self.chunk_size, "progress": False}
        return RunContext(False, **settings | {"store": None if missing else self.store})


def forecast(parts: Iterable[Sequence[Query]], function: Inference, grouped: bool = False, **options: Any) -> Forecast:
    """Forecast a run; nothing is stored.

    Args:
        parts: The queries of each part of the run.
        function: The inference function.
        grouped: Whether prompts with a common prefix follow each other, as in groups of benchmarks.
        **options: Those of :class:`ForecastOptions`.

    Raises:
        ArgumentError: An argument is invalid.
        OutputError: A prediction of the probe failed.
    """
    chosen, tasks = ForecastOptions(**options), Tasks(function)
    with chosen.context() as context:
        context.start([function])
        run = context.options_for(function, group_prefixes=grouped)
        for queries in parts:
            tasks.add(function, queries, run)
            tasks.queries += len(queries)
        return tasks.forecast(chosen)


class Tasks:
    """What a run will compute, and for which function.

    Args:
        kernel: The inference function that counts the tokens of its requests, if one does.
    """

    def __init__(self, kernel: Inference) -> None:
        self.chunks: list[tuple[Inference, Chunk]] = []
        self.queries = self.distinct = self.cached = 0
        self._kernel = kernel

    def add(self, function: Inference, queries: Sequence[Query], options: RunOptions) -> dict[PromptKey, Answer]:
        """Add the queries of a part of the run; return the stored predictions."""
        keys = distinct_keys(queries, options.group_prefixes)
        stored = options.store.get_many(keys) if options.store is not None else {}
        self.chunks += [(function, chunk) for chunk in chunks_of(keys, stored, function, options)]
        self.distinct, self.cached = self.distinct + len(keys), self.cached + len(stored)
        return stored

    def forecast(self, options: ForecastOptions, certain: bool = True) -> Forecast:
        """Count the tokens and probe the rate; ``certain``: whether a run will have exactly these prompts."""
        total, fitting, weights = Forecast(self.queries, self.distinct, self.cached), [], 0
        for function, chunk in self.chunks:
            part, weight = _forecast(function, chunk, total.kept)
            total += part
            weights += weight
            if (part.longest_prompt or 0) <= (part.limit or math.inf):
                fitting.append((function, chunk))
        total = replace(total, exact=certain and total.tokens is not None, seconds=None if self.chunks else 0.0)
        # A kernel that forecasts its tokens counts them exactly; a server counts those of the probe, or none.
        before = tokens_used(self._kernel) if total.tokens is None else None
        if options.probe_seconds and fitting:
            share, seconds = _probe(fitting, weights, options.probe_seconds)
            total = replace(total, seconds=seconds)
            used = tokens_used(self._kernel)
            if used and before and used[0] > before[0]:
                read, written = (round((now - then) / share) for now, then in zip(used, before, strict=True))
                total = replace(total, tokens=read, output_tokens=written)
        if options.prices is not None and total.tokens is not None and total.output_tokens is not None:
            total = replace(total, cost=token_cost(total.tokens, total.output_tokens, options.prices))
        return total


def _forecast(function: Inference, chunk: Chunk, kept: tuple[int, ...] = ()) -> tuple[Forecast, int]:
    """Return the forecast of a chunk, and what its time is proportional to: positions, or else characters."""
    part = forecast_prompts(function, [prompt for prompt, _ in chunk], chunk[0][1], kept=kept)
    if part.positions is None:
        return part, sum(characters(prompt) for prompt, _ in chunk)
    return part, part.positions + (part.output_tokens or 0)


def _probe(tasks: Sequence[tuple[Inference, Chunk]], total: int, limit: float) -> tuple[float, float]:
    """Predict parts of some chunks, after one prompt that is not measured.

    Returns:
        The share of all prompts that was predicted, and the seconds of all at the measured rate.
    """
    began, seconds, predicted, measured = CLOCK(), 0.0, 0, 0
    function, chunk = tasks[0]
    parts = [(function, chunk[:1])]
    parts += [(own, some[len(some) // 3 :][:PROBED]) for own, some in tasks[:: max(1, len(tasks) // PROBED)]]
    for number, (function, part) in enumerate(parts):
        start = CLOCK()
        predictions = solver(function, "collect")(part)
        taken = CLOCK() - start
        failed = [prediction for prediction in predictions if isinstance(prediction, Failure)]
        if len(failed) == len(predictions):
            raise OutputError(f"the probe of the forecast failed: {failed[0].reason}") from failed[0].cause
        weight = _forecast(function, part)[1]
        predicted += weight
        if number:
            seconds, measured = seconds + taken, measured + weight
        if number and CLOCK() - began > limit:
            break
    return predicted / total, seconds * total / measured


Goal = tuple[float | None, str | None]
"""Half the width of an interval, and the score that it is of."""
EarlySettings = tuple[bool, bool, bool, RunSettings]
"""Batched or not, whether outputs are kept, whether scores of data sets are shown, and the settings of the run."""


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
    """What the run warned of."""
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


class DatasetTask(Protocol):
    """One data set of a benchmark: writes the queries, and scores their predictions."""

    free_text: ClassVar[bool] = False
    """Whether predictions may be texts that the task parses."""

    @property
    def name(self) -> str:
        """The name of the data set."""

    @property
    def steps(self) -> int:
        """How many parts a run reports."""
        return 1

    @property
    def row_scores(self) -> Sequence[str]:
        """The scores that are means over test rows, so that a run can stop early."""
        return ()

    def get_label_space(self) -> list[str]:
        """Return the label names."""

    def conditions(self) -> Sequence[Condition]:
        """Return the conditions: the same every time."""

    def all_queries(self) -> list[Query]:
        """Return the queries of all conditions, in order."""
        return [query for condition in self.conditions() for query in condition.queries]

    def prompt_set(self) -> list[Any]:
        """Return all prompts, in order: texts, or in the noisy channel lists with one text for each label."""
        return [as_argument(query.prompt) for query in self.all_queries()]

    def run(
        self, forward_inference: Inference | None, preentered_prediction: Any, options: RunOptions, part: Part
    ) -> DatasetRun:
        """Predict, or take given predictions, and score."""

    def assemble(self, conditions: Sequence[Condition], answers: Sequence[Any]) -> DatasetRun:
        """Score the predictions of all conditions."""

    def query_records(self, run: DatasetRun) -> list[dict[str, Any]]:
        """Return one record for each query of a run."""
        return records_of(run.outcomes)

    @property
    def unrecorded(self) -> str | None:
        """Why results have no records of the predictions; ``None`` if they have."""
        return None

    @property
    def data_digest(self) -> str:
        """The digest by which comparisons know the data."""

    def read_again(self, number: int, answer: Answer | Failure) -> Answer | Failure:
        """Return a new prediction of a query, by its number, as results record it."""
        return answer


_E = TypeVar("_E", bound=DatasetTask)


class BaseBenchmark(Displayed, FixedAttributes, Generic[_E]):
    """A benchmark as a sequence of experimentors, one for each data set.

    Attributes:
        experimentor: The experimentors, in order.
    """

    __slots__ = ("experimentor",)
    _assignable = ("experimentor",)
    experimentor: list[_E]

    @property
    @abstractmethod
    def benchmark_name(self) -> str:
        """The name in results and messages."""

    @property
    def absent(self) -> RunsByDataset:
        """Data sets that were asked for and have no files, with the result that says so."""
        return {}

    def display_blocks(self) -> list[Block]:
        """Return the data sets with their labels."""
        spaces = zip(self.dataset_names, self.get_label_spaces_for_experimentors(), strict=True)
        rows = [[name, str(len(labels)), ", ".join(labels)] for name, labels in spaces]
        return [
            Line(self.benchmark_name, "title"),
            TextTable(["data set", "labels", "names of the labels"], rows, (0, 2)),
        ]

    def own_data(self) -> Sequence[Dataset]:
        """Return the data sets whose origin results record if it is a file of the user's own."""
        return ()

    def data_warnings(self) -> Sequence[str]:
        """Return the warnings about the data sets."""
        return ()

    def __repr__(self) -> str:
        return one_line(f"<{self.benchmark_name} over {', '.join(self.dataset_names)}>")

    def __len__(self) -> int:
        return len(self.experimentor)

    def __iter__(self) -> Iterator[_E]:
        return iter(self.experimentor)

    def __getitem__(self, index: int | str) -> _E:
        """Return an experimentor by position or by the name of its data set.

        Raises:
            UnknownNameError: This benchmark has no data set of this name.
            IndexError: It has none at this position.
        """
        if not isinstance(index, str):
            with contextlib.suppress(IndexError):
                return self.experimentor[index]
            known = one_line(", ".join(self.dataset_names))
            raise IndexError(f"there is no data set {index}; this benchmark has {len(self)}: {known}")
        for experimentor in self.experimentor:
            if experimentor.name.casefold() == index.casefold():
                return experimentor
        raise unknown_name("data set in this benchmark", index, self.dataset_names)

    @property
    def dataset_names(self) -> list[str]:
        """The names of the data sets, in order."""
        return [experimentor.name for experimentor in self.experimentor]

    def get_experimentors(self) -> list[_E]:
        """Return the experimentors."""
        return self.experimentor

    def get_label_spaces_for_experimentors(self) -> list[list[str]]:
        """Return the label space of each data set."""
        return [experimentor.get_label_space() for experimentor in self.experimentor]

    def functions_for_datasets(
        self, functions: Inference | Sequence[Inference] | Mapping[str, Inference]
    ) -> Sequence[Inference]:
        """Return one inference function for each data set.

        Args:
            functions: One function for all data sets (or a list with it), a list with one for each, or a mapping by
                data set name.

        Raises:
            ArgumentError: A function is not callable, or there is not one for each data set.
        """
        if isinstance(functions, Sequence) and not isinstance(functions, (str, bytes)) and len(functions) == 1:
            functions = functions[0]
        if callable(functions):
            return [functions] * len(self)
        if isinstance(functions, (str, bytes)) or not isinstance(functions, (Sequence, Mapping)):
            loading = f". For a model by its name, pass load_kernel({functions!r:.80})" * isinstance(functions, str)
            raise ArgumentError(f"the inference function must be callable, not {type(functions).__name__}{loading}")
        chosen = self._for_datasets(functions, "inference functions")
        for number, function in enumerate(chosen):
            if not callable(function):
                raise ArgumentError(f"inference function {number} must be callable, not {type(function).__name__}")
        return chosen

    def _for_datasets(self, values: Any, what: str) -> Sequence[Any]:
        """Return one value for each data set, from a list in their order or from a mapping by their names."""
        if isinstance(values, Mapping) and values.keys() == {*self.dataset_names}:
            return [values[name] for name in self.dataset_names]
        sized = hasattr(values, "__len__") and not isinstance(values, (str, bytes, Mapping))
        if not sized or len(values) != len(self):
            got = f"those of {', '.join(map(str, values))}" if isinstance(values, Mapping) else f"{values!r:.60}"
            names = ", ".join(self.dataset_names)
            raise ArgumentError(f"{what}: got {got}, expected {len(self)}, one for each data set: {names}")
        return values  # type: ignore[no-any-return]

    @staticmethod
    def given_functions(by_position: Any, by_keyword: Any) -> Any:
        """Return the inference functions of a call, which have two names in 0.1.1.

        Raises:
            ArgumentError: Both are given.
        """
        if by_position is not None and by_keyword is not None:
            raise ArgumentError("got list_of_forward_inference and forward_inference, which mean the same; give one")
        return by_keyword if by_position is None else by_position

    # -- running

    def auto_run(
        self,
        list_of_forward_inference: Sequence[Inference] | Inference | Mapping[str, Inference] | None = None,
        return_divided_results: bool = True,
        batched_inference: bool = False,
        *,
        forward_inference: Inference | Sequence[Inference] | None = None,
        preentered_prediction: Sequence[Any] | Mapping[str, Any] | None = None,
        return_outputs: bool = False,
        precision: float | None = None,
        score: str | None = None,
        **run: Unpack[RunSettings],
    ) -> Result:
        """Run the benchmark.

        Args:
            list_of_forward_inference: One inference function for all data sets, a list with one for each, or a mapping
                by data set name.
            return_divided_results: Whether the dictionary shows the scores of each data set.
            batched_inference: The functions take the list of all prompts and return the list of predictions.
            forward_inference: Another name of ``list_of_forward_inference``.
            preentered_prediction: Instead of functions: for each data set, in order or by name, one prediction
                for each prompt.
            return_outputs: Keep the prediction of each query in ``result.outputs``.
            precision: Evaluate test rows in a fixed random order, and stop when half the width of the interval of the
                score is at most this; ``result.stopping`` has the interval (see docs/early_stopping.md).
            score: The score that ``precision`` is about: ``"accuracy"`` (the default) or ``"likelihood"``.
            **run: Store, executor, failure policy, progress; see
                :class:`~StaICC.benchmarks.running.RunSettings`.

        Returns:
            The result: a dictionary with the documented keys.

        Raises:
            ArgumentError: An argument is invalid, such as a list of functions of another length than the data sets.
            OutputError: A query has no usable prediction and ``on_error="raise"``.
        """
        given = self.given_functions(list_of_forward_inference, forward_inference)
        if (given is None) == (preentered_prediction is None):
            raise ArgumentError(
                f"got {'neither' if given is None else 'both'}, expected an inference function (the function itself, "
                "not what it returns), a list with one for each data set, or preentered_prediction"
            )
        nothing: Sequence[Any] = [None] * len(self)
        functions = nothing if given is None else self.functions_for_datasets(given)
        what = "lists of predictions (preentered_prediction)"
        predictions_given = self._for_datasets(preentered_prediction, what) if given is None else nothing
        if precision is not None or score is not None:
            settings = (batched_inference, return_outputs, return_divided_results, run)
            return self.run_to_precision((precision, score), functions, settings)
        runs: dict[str, DatasetRun] = {}
        steps = [experimentor.steps for experimentor in self]
        with RunContext(batched_inference, **run) as context:
            context.start(functions)
            context.warn(*self.data_warnings())
            for number, experimentor in enumerate(self):
                part = Part(f"{self.benchmark_name}, {experimentor.name}", sum(steps[:number]), sum(steps))
                options = context.options_for(functions[number])
                runs[experimentor.name] = experimentor.run(functions[number], predictions_given[number], options, part)
        predictions = context.predictions(dict(zip(runs, functions, strict=True)))
        return context.deliver(self.collect(runs, predictions, return_outputs, return_divided_results))

    __call__ = auto_run

    def run_to_precision(self, goal: Goal, functions: Sequence[Inference], settings: EarlySettings) -> Result:
        """Run until half the width of the interval of a score is at most ``precision``; arguments as for a run.

        Raises:
            ArgumentError: The score is no mean over test rows.
        """
        raise ArgumentError(f"early stopping needs scores that are means over test rows: got {self.benchmark_name}")

    def forecast(self, function: Inference, **options: Any) -> Forecast:
        """Forecast the run of a function: queries, tokens, time and cost.

        Args:
            function: The inference function.
            **options: ``store``, ``model_name``, ``chunk_size``, ``probe_seconds`` and ``prices``; see
                :class:`~StaICC.benchmarks.running.ForecastOptions`.
        """
        return forecast([own.all_queries() for own in self.experimentor], function, **options)

    def collect(
        self, runs: RunsByDataset, predictions: Predictions, keep_outputs: bool = False, divided: bool = True
    ) -> Result:
        """Build the result of the runs over all data sets.

        Args:
            runs: One run for each data set, by name.
            predictions: The provenance of the predictions.
            keep_outputs: Keep the prediction of each query.
            divided: Whether the dictionary shows the scores of each data set.

        Returns:
            The result.
        """
        runs = {**runs, **self.absent}
        keys = list(dict.fromkeys(key for run in runs.values() for key in run.averaged))
        averaged = {key: mean([run.averaged.get(key) for run in runs.values()]) for key in keys}
        details = {name: run.details for name, run in runs.items()}
        answers = {name: runs[name].answers for name in self.dataset_names}
        return Result(
            benchmark=self.benchmark_name,
            divided={name: dict(run.values) for name, run in runs.items()},
            averaged=averaged,
            signature=self.signature(runs, predictions),
            arguments=self.arguments(),
            provenance=predictions.provenance(answers, details),
            environment=describe_environment(),
            details=details,
            means=means_of(runs),
            timing={
                **{key: value for run in runs.values() for key, value in run.timing.items()},
                "seconds": predictions.seconds,
            },
            outputs={own.name: own.query_records(runs[own.name]) for own in self} if keep_outputs else None,
            with_divided=divided,
            warnings=tuple(dict.fromkeys([*self.data_warnings(), *predictions.warnings])),
            files={data.card.name: record for data in self.own_data() if (record := data.file_record())},
        )

    @abstractmethod
    def arguments(self) -> dict[str, Any]:
        """Return the arguments of this benchmark as JSON values: results save them, verification makes it from them."""

    @abstractmethod
    def signature(self, runs: RunsByDataset | None = None, predictions: Predictions | None = None) -> Signature:
        """Return every setting that can change a number of this benchmark.

        Args:
            runs: The runs over the data sets; without them, the prompts are written to compute their digests.
            predictions: The provenance of the predictions; without it, the signature has no ``scoring``.

        Returns:
            The signature.
        """

    def common_fields(self, runs: RunsByDataset | None, predictions: Predictions | None) -> dict[str, str | None]:
        """Return the fields of the signature that all benchmarks have; arguments as for :meth:`signature`."""
        prompts = {
            own.name: digest_prompts(query for condition in own.conditions() for query in condition.queries)[0]
            if runs is None
            else runs[own.name].details.prompts
            for own in self
        }
        failed = sum(run.details.failed for run in (runs or {}).values())
        return {
            "scoring": predictions.scoring(self.dataset_names) if predictions is not None else None,
            "prompts": short_digest(prompts),
            "failed": str(failed) if failed else None,
            "version": __version__,
        }

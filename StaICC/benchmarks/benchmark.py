"""A benchmark, one task over several data sets, and a group: several benchmarks in one pass over their prompts.

The parts of StaICC share many prompts: Normal, posterior bias and GLER without noise have the same queries. A group
collects the queries of all its members, data set by data set, and predicts each distinct (prompt, label space) once;
prompts with a common prefix follow each other. The parts of its result equal the results of its members.

What all benchmarks share: a sequence of data sets, one inference function for each, the run, and its result.
"""

from __future__ import annotations

import math
from abc import abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, ClassVar, Generic, Protocol, TypedDict, TypeVar

from StaICC.benchmarks.evaluation import DatasetRun, digest_prompts, means_of, records_of
from StaICC.benchmarks.experimentor import Experimentor, MetricTable, data_warnings, run_together
from StaICC.benchmarks.running import RunContext, RunSettings, forecast
from StaICC.benchmarks.task import Condition, Statistics, Task
from StaICC.datasets import Dataset, names
from StaICC.errors import ArgumentError, FixedAttributes, unknown_name
from StaICC.inference import Answer, Failure, Inference, Part, RunOptions, Unparsed
from StaICC.inference.contract import Forecast
from StaICC.inference.identity import RunRecord, code_mark, in_library
from StaICC.layout import Block, Displayed, Line, TextTable
from StaICC.metrics import Kind, Metric, MetricFunction, MetricSet
from StaICC.prompting import Query
from StaICC.registry import labelled, origin_of
from StaICC.results import DatasetDetails, Result, ResultGroup, Signature, describe_environment, escaped, short_digest
from StaICC.results.provenance import (
    Provenance,
    common,
    digest_failures,
    given_predictor,
    predictors_of,
    scoring_field,
    utc_now,
)
from StaICC.safe_text import one_line
from StaICC.version import SAMPLER_VERSION, __version__

if TYPE_CHECKING:
    from typing_extensions import Unpack


@dataclass(frozen=True, slots=True)
class Predictions:
    """The provenance of the predictions of a run.

    Args:
        records: The record of each data set's inference function; data sets without one have given predictions.
        batched: Whether the functions were called with the list of all prompts.
        started: When the run began, in UTC.
        given: The signature's field ``scoring`` for given predictions.
    """

    records: Mapping[str, RunRecord] = field(default_factory=dict)
    batched: bool = False
    started: str = field(default_factory=utc_now)
    given: str = "given"
    warnings: tuple[str, ...] = ()
    """What the run warned of."""

    @classmethod
    def of_run(cls, context: RunContext, functions: Mapping[str, Inference | None]) -> Predictions:
        """Return the predictions of a run that has ended.

        Args:
            context: The context of the run.
            functions: The inference function of each data set, in the order of the run; ``None`` for given predictions.
        """
        records = {name: context.record_of(function) for name, function in functions.items() if function is not None}
        return cls(records, context.batched, context.started, warnings=tuple(context.warnings))

    def scoring(self, datasets: Sequence[str]) -> str | None:
        """Return the signature's field ``scoring``: how the label scores of all data sets are computed."""
        parser = ""
        if any(record.replies for record in self.records.values()):
            from StaICC.inference.reply_parser import PARSER_VERSION

            parser = f";parser={PARSER_VERSION}"
        return f"{common([self._scoring(name) for name in datasets])}{parser}" if datasets else None

    def _scoring(self, dataset: str) -> str:
        if dataset not in self.records:
            return self.given
        settings = self.records[dataset].identity.settings
        return scoring_field(settings) + (";batched" if self.batched else "")

    def provenance(self, answers: Mapping[str, Sequence[Any]], details: Mapping[str, DatasetDetails]) -> Provenance:
        """Return the provenance.

        Args:
            answers: The predictions by data set; a digest of given predictions is kept.
            details: The details of each data set.
        """
        predictors = predictors_of(((record, name) for name, record in self.records.items()), details)
        given = {
            name: [_plain(answer) for answer in of_dataset]
            for name, of_dataset in answers.items()
            if name not in self.records
        }
        if given:
            served = {name: details[name] for name in given}
            predictors += (given_predictor(given, self.started, served),)
        return Provenance(predictors, failures=digest_failures(details))


def _plain(answer: Any) -> Any:
    """Return a checked prediction as a JSON value; ``None`` for a failed query, ``"-inf"`` for minus infinity."""
    if isinstance(answer, Failure):
        return None
    if hasattr(answer, "tolist"):
        return answer.tolist()
    if isinstance(answer, (str, int, float)):
        return answer
    return [number if number > -math.inf else "-inf" for number in map(float, answer)]


class DatasetTask(Protocol):
    """One data set of a benchmark: writes the queries, and scores their predictions."""

    __slots__ = ()

    @property
    def name(self) -> str:
        """The name of the data set."""

    @property
    def steps(self) -> int:
        """How many parts a run reports."""
        return 1

    def get_label_space(self) -> list[str]:
        """Return the label names."""

    def conditions(self) -> Sequence[Condition]:
        """Return the conditions: the same every time."""

    def all_queries(self) -> list[Query]:
        """Return the queries of all conditions, in order."""
        return [query for condition in self.conditions() for query in condition.queries]

    def run(
        self,
        forward_inference: Inference | None,
        preentered_prediction: Sequence[Any] | None,
        options: RunOptions,
        part: Part,
    ) -> DatasetRun:
        """Predict, or take given predictions, and score."""

    def assemble(self, conditions: Sequence[Condition], answers: Sequence[Any]) -> DatasetRun:
        """Score the predictions of all conditions."""

    def query_records(self, run: DatasetRun) -> list[dict[str, Any]]:
        """Return one record for each query of a run."""
        return records_of(run.outcomes)

    @property
    def free_text(self) -> bool:
        """Whether predictions may be texts that the task parses."""
        return False

    @property
    def unrecorded(self) -> str | None:
        """Why results have no records of the predictions; ``None`` if they have."""
        return None

    def known_details(self) -> dict[str, Any]:
        """Return the details that do not depend on predictions, for results without records."""
        return {}

    def stored_predictions(self, run: DatasetRun) -> Sequence[Answer | Failure]:
        """Return the prediction of each query as results record it."""
        return run.answers

    def read_again(self, predicted: Mapping[int, Answer | Failure]) -> Mapping[int, Answer | Failure]:
        """Return new predictions, by the number of their query, in the form of the stored ones."""
        return predicted


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
    def absent(self) -> Mapping[str, DatasetRun]:
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

    def __len__(self) -> int:
        return len(self.experimentor)

    def __iter__(self) -> Iterator[_E]:
        return iter(self.experimentor)

    def __getitem__(self, index: int | str) -> _E:
        """Return an experimentor by position or by the name of its data set.

        Raises:
            UnknownNameError: This benchmark has no such data set.
        """
        if not isinstance(index, str):
            try:
                return self.experimentor[index]
            except IndexError:
                known = one_line(", ".join(self.dataset_names))
                raise IndexError(f"there is no data set {index}; this benchmark has {len(self)}: {known}") from None
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
        if callable(functions):
            return [functions] * len(self)
        if isinstance(functions, Mapping):
            functions = self._by_name(functions, "inference functions")
        if isinstance(functions, (str, bytes)) or not isinstance(functions, Sequence):
            hint = (
                f". For a model by its name, pass load_kernel({functions!r:.80})" if isinstance(functions, str) else ""
            )
            raise ArgumentError(f"the inference function must be callable, not {type(functions).__name__}{hint}")
        if len(functions) not in (1, len(self)):
            raise ArgumentError(f"{len(functions)} inference functions given for {len(self)} data sets")
        for number, function in enumerate(functions):
            if not callable(function):
                raise ArgumentError(f"inference function {number} must be callable, not {type(function).__name__}")
        return functions if len(functions) == len(self) else [functions[0]] * len(self)

    def functions_and_predictions(self, functions: Any, predictions: Any) -> tuple[Sequence[Any], Sequence[Any]]:
        """Return an inference function and a list of predictions for each data set, of which one is ``None``.

        Args:
            functions: As for :meth:`functions_for_datasets`; ``None`` if predictions are given.
            predictions: As for :meth:`predictions_for_datasets`.

        Raises:
            ArgumentError: Both are given, or neither, or there is not one for each data set.
        """
        if functions is not None and predictions is not None:
            raise ArgumentError("got an inference function and preentered_prediction; give one of the two")
        chosen = [None] * len(self) if functions is None else self.functions_for_datasets(functions)
        given = self.predictions_for_datasets(predictions)
        for experimentor, function, own in zip(self, chosen, given, strict=True):
            if function is None and own is None:
                raise ArgumentError(
                    "give an inference function (the function itself, not what it returns), a list with one for each "
                    f"data set, or preentered_prediction; {experimentor.name} has neither"
                )
        return chosen, given

    @staticmethod
    def given_functions(by_position: Any, by_keyword: Any) -> Any:
        """Return the inference functions of a call, which have two names in 0.1.1.

        Raises:
            ArgumentError: Both are given.
        """
        if by_position is not None and by_keyword is not None:
            raise ArgumentError("got list_of_forward_inference and forward_inference, which mean the same; give one")
        return by_keyword if by_position is None else by_position

    def predictions_for_datasets(self, predictions: Sequence[Any] | Mapping[str, Any] | None) -> Sequence[Any]:
        """Return one list of predictions for each data set; ``None`` for each if there are none.

        Args:
            predictions: A list with one list for each data set, or a mapping by data set name.

        Raises:
            ArgumentError: There is not one list for each data set.
        """
        if predictions is None:
            return [None] * len(self)
        if isinstance(predictions, Mapping):
            return self._by_name(predictions, "preentered_prediction")
        is_list = hasattr(predictions, "__len__") and not isinstance(predictions, (str, bytes))
        if not is_list or len(predictions) != len(self):
            raise ArgumentError(
                f"preentered_prediction needs one list of predictions for each of the {len(self)} data sets (a list "
                f"of {len(self)} lists), not {predictions!r:.60}"
            )
        return predictions

    def _by_name(self, values: Mapping[str, Any], what: str) -> list[Any]:
        missing = [name for name in self.dataset_names if name not in values]
        if missing or len(values) != len(self):
            raise ArgumentError(f"{what} needs exactly the data sets of this benchmark; lacks {missing}")
        return [values[name] for name in self.dataset_names]

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
        functions, predictions_given = self.functions_and_predictions(given, preentered_prediction)
        if precision is not None or score is not None:
            if precision is None or preentered_prediction is not None:
                got = "no precision" if precision is None else "preentered_prediction"
                raise ArgumentError(f"early stopping needs precision=... and an inference function: got {got}")
            arguments = (batched_inference, return_outputs, return_divided_results, run)
            return self.run_to_precision(precision, score, functions, *arguments)
        runs: dict[str, DatasetRun] = {}
        steps = [experimentor.steps for experimentor in self]
        with RunContext(batched_inference, **run) as context:
            context.start(functions)
            context.warn(*self.data_warnings())
            for number, experimentor in enumerate(self):
                part = Part(f"{self.benchmark_name}, {experimentor.name}", sum(steps[:number]), sum(steps))
                options = context.options_for(functions[number])
                runs[experimentor.name] = experimentor.run(functions[number], predictions_given[number], options, part)
        predictions = Predictions.of_run(context, dict(zip(runs, functions, strict=True)))
        return context.deliver(self.collect(runs, context.seconds, predictions, return_outputs, return_divided_results))

    __call__ = auto_run

    def run_to_precision(
        self, precision: float, score: str | None, functions: Sequence[Inference], *how: Any
    ) -> Result:
        """Run until half the width of the interval of a score is at most ``precision``.

        Args:
            precision: The target.
            score: Name of the score; accuracy by default.
            functions: The inference function of each data set.
            *how: The last four arguments of :func:`~StaICC.benchmarks.race.run_early`.

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
        return forecast({own.name: own.all_queries() for own in self.experimentor}, function, **options)

    def collect(
        self,
        runs: Mapping[str, DatasetRun],
        seconds: float,
        predictions: Predictions,
        keep_outputs: bool = False,
        with_divided: bool = True,
    ) -> Result:
        """Build the result of the runs over all data sets.

        Args:
            runs: One run for each data set, by name.
            seconds: Their duration.
            predictions: The provenance of the predictions.
            keep_outputs: Keep the prediction of each query.
            with_divided: Whether the dictionary shows the scores of each data set.

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
            timing={**{key: value for run in runs.values() for key, value in run.timing.items()}, "seconds": seconds},
            outputs={own.name: own.query_records(runs[own.name]) for own in self} if keep_outputs else None,
            with_divided=with_divided,
            warnings=tuple(dict.fromkeys([*self.data_warnings(), *predictions.warnings])),
            files={data.card.name: record for data in self.own_data() if (record := data.file_record())},
        )

    @abstractmethod
    def arguments(self) -> dict[str, Any]:
        """Return the arguments of this benchmark as JSON values: results save them, verification makes it from them."""

    @abstractmethod
    def signature(
        self, runs: Mapping[str, DatasetRun] | None = None, predictions: Predictions | None = None
    ) -> Signature:
        """Return every setting that can change a number of this benchmark.

        Args:
            runs: The runs over the data sets; without them, the prompts are written to compute their digests.
            predictions: The provenance of the predictions; without it, the signature has no ``scoring``.

        Returns:
            The signature.
        """

    def common_fields(
        self, runs: Mapping[str, DatasetRun] | None, predictions: Predictions | None
    ) -> dict[str, str | None]:
        """Return the fields of the signature that all benchmarks have; arguments as for :meth:`signature`."""
        prompts = {
            own.name: digest_prompts(own.all_queries())[0] if runs is None else runs[own.name].details.prompts
            for own in self
        }
        failed = sum(run.details.failed for run in (runs or {}).values())
        return {
            "scoring": predictions.scoring(self.dataset_names) if predictions is not None else None,
            "prompts": short_digest(prompts),
            "failed": str(failed) if failed else None,
            "version": __version__,
        }


def mean(values: Sequence[float | None]) -> float | None:
    """Return the mean of the data sets' scores; it is undefined (``None``) if one of them is."""
    if not values or any(value is None for value in values):
        return None
    return math.fsum(value for value in values if value is not None) / len(values)


Datasets = Sequence[str | Dataset] | str | Dataset | None
Metrics = str | MetricSet | Mapping[str, MetricFunction | Metric]


class Settings(TypedDict, total=False):
    """Arguments of every benchmark, in addition to its own."""

    limit: int | None
    """The maximum number of test rows per data set; the signature contains it."""
    outputs: Kind
    """Read rows of numbers as ``"probabilities"`` or ``"logits"``; ``"auto"`` decides once for each condition."""
    statistics: Statistics | None
    """Options of the confidence intervals and random baselines."""
    sampler: str
    """How demonstrations are drawn: ``"default"``; ``"nested"``: those of a smaller ``k`` are the first of a larger;
    ``"nested-shared"``: the same list for all test rows of a repeat. The signature contains it."""
    unparsed: Unparsed
    """How generated replies without a label count: ``"error"`` (the default) ends the run, ``"wrong"`` scores them as
    wrong predictions, ``"excluded"`` leaves them out and reports the scores if all were wrong and if all were right."""


class Benchmark(BaseBenchmark[Experimentor]):
    """A task over data sets, called with the user's inference function.

    Args:
        task: Writes the queries of each data set and scores their predictions.
        k: Demonstrations per prompt.
        noisy_channel: Score the text given the label (noisy channel).
        metrics: Metric set by name, or functions by name.
        datasets: Names or data sets; the ten by default.
        **settings: See :class:`~StaICC.benchmarks.benchmark.Settings`.

    Attributes:
        experimentor: One experimentor for each data set, in order.
        task: The task.
        metrics: The metric functions by name, which the experimentors share. Assigning an item adds or replaces a
            metric.
    """

    __slots__ = ("_noisy_channel", "_settings", "metrics", "task")
    task_name: ClassVar[str]
    """The name that results carry."""

    def __init__(
        self,
        task: Task,
        k: int = 4,
        noisy_channel: bool = False,
        metrics: Metrics = "standard",
        datasets: Datasets = None,
        **settings: Unpack[Settings],
    ) -> None:
        unknown = [name for name in settings if name not in Settings.__annotations__]
        if unknown:
            legal = ["k", "noisy_channel", "metrics", "datasets", *Settings.__annotations__]
            error = unknown_name(
                f"argument of {type(self).__name__}", unknown[0], legal, "The benchmark may have further arguments."
            )
            raise TypeError(str(error))
        if callable(k) or isinstance(k, (str, list, tuple, Dataset)):
            name = type(self).__name__
            use = f"{name}()(function)" if callable(k) else f"{name}(datasets=[...])"
            raise ArgumentError(
                f"k must be an integer of at least 0, not {k!r:.60}. For data sets or a function, write {use}"
            )
        self.task = task
        self.metrics = MetricTable(metrics)
        self._settings = settings
        self._noisy_channel = noisy_channel
        self.experimentor = self._make(_read_datasets(datasets), k)
        names: dict[str, str] = {}
        for name in self.dataset_names:
            if (before := names.setdefault(name.casefold(), name)) == name and self.dataset_names.count(name) > 1:
                raise ArgumentError(f"the data set {name!r} was given twice; give each data set once")
            if before != name:
                raise ArgumentError(f"the data sets {before!r} and {name!r} differ only in case; rename one of them")

    def _make(self, datasets: Sequence[str | Dataset], k: int) -> list[Experimentor]:
        return [
            Experimentor(
                dataset, self.task, k=k, noisy_channel=self.noisy_channel, metrics=self.metrics, **self._settings
            )
            for dataset in datasets
        ]

    @property
    def noisy_channel(self) -> bool:
        """Whether the text is scored given the label; :meth:`re_initialize` changes it."""
        return self._noisy_channel

    def __repr__(self) -> str:
        return one_line(f"<{self.task.name} over {', '.join(self.dataset_names)}>")

    def re_initialize(self, k: int = 4, noisy_channel: bool = False, keep_prompter: bool = False) -> None:
        """Build the experimentors again.

        Args:
            k: Demonstrations per prompt.
            noisy_channel: Score the text given the label (noisy channel).
            keep_prompter: Keep the prompt writers with their changes.
        """
        before = self.experimentor
        self._noisy_channel = noisy_channel
        self.experimentor = self._make([experimentor.dataset for experimentor in before], k)
        if keep_prompter:
            for old, new in zip(before, self.experimentor, strict=True):
                new.prompt_former = old.prompt_former

    def get_experiment_data(self) -> list[Any]:
        """Return the split of each data set."""
        return [experimentor.triplet_dataset for experimentor in self.experimentor]

    @property
    def benchmark_name(self) -> str:
        """The name in results and messages."""
        return self.task.name

    def own_data(self) -> Sequence[Dataset]:
        """Return the data sets whose origin results record if it is a file of the user's own."""
        return [experimentor.dataset for experimentor in self.experimentor]

    def data_warnings(self) -> Sequence[str]:
        """Return the warnings about the data sets."""
        return data_warnings(self.experimentor)

    def run_to_precision(
        self, precision: float, score: str | None, functions: Sequence[Inference], *how: Any
    ) -> Result:
        """Run until half the width of the interval of a score is at most ``precision``; arguments as for the base."""
        from StaICC.benchmarks.race import StoppingRule, run_early  # few runs stop early

        rule = StoppingRule.for_experimentors("precision", precision, score, self.experimentor)
        context, (result,) = run_early(rule, self, [functions], *how)
        return context.deliver(result)

    def collect(self, *arguments: Any, **settings: Any) -> Result:
        """Build the result; arguments as for :meth:`~StaICC.benchmarks.benchmark.BaseBenchmark.collect`."""
        result = super().collect(*arguments, **settings)
        own = [metric for metric in self.metrics.metric_set.metrics if not metric.of_library]
        result.higher_is_better = {metric.name: metric.higher_is_better for metric in own}
        return result

    def arguments(self) -> dict[str, Any]:
        """Return the arguments of this benchmark as JSON values: results save them, verification makes it from them.

        ``changed`` names what they do not say: settings that the user changed, or that differ between data sets.
        """
        of_datasets = [experimentor.arguments() for experimentor in self.experimentor]
        first = of_datasets[0]
        by_hand = [name for arguments in of_datasets for name in arguments["changed"]]
        differ = [key for key in first.keys() - {"changed"} if any(other[key] != first[key] for other in of_datasets)]
        options = {
            key: value if isinstance(value, (int, str)) else str(value) for key, value in self.task.options().items()
        }
        own = {"options": options, "changed": list(dict.fromkeys([*by_hand, *sorted(differ)]))}
        return {"datasets": self.dataset_names, **first, **own}

    def signature(
        self, runs: Mapping[str, DatasetRun] | None = None, predictions: Predictions | None = None
    ) -> Signature:
        """Return every setting that can change a number of this benchmark; arguments as for the base class."""
        all_settings = [experimentor.settings_for_signature() for experimentor in self.experimentor]
        fields = {key: common([settings[key] for settings in all_settings]) for key in all_settings[0]}
        limits = [settings["limit"] for settings in all_settings if settings["limit"] is not None]
        fields["limit"] = limits[0] if limits else None  # data sets with fewer rows than the limit have none
        chosen = tuple(self.dataset_names)
        tables = [[own.dataset.table.digest, list(own.card.label_space)] for own in self.experimentor]
        options = ",".join(f"{key}={value}" for key, value in self.task.options().items())
        return Signature(
            {
                **fields,
                "benchmark": labelled(self.task.name, self._origin()),
                "datasets": None
                if chosen == names()
                else "+".join(labelled(escaped(own.name), own.dataset.origin) for own in self.experimentor),
                "data": short_digest(tables),
                "sampler": SAMPLER_VERSION,
                "options": options or None,
                **self.common_fields(runs, predictions),
            }
        )

    def _origin(self) -> str:
        """Return the plug-in that the benchmark is from, or a digest of the code of a task of the user's own."""
        plugin = origin_of(self.task) or origin_of(self)
        return plugin if plugin or in_library(type(self.task)) else code_mark(self.task)


class TaskBenchmark(Benchmark):
    """A benchmark whose task has no arguments of its own: a subclass names the class of its task.

    Args:
        k: Demonstrations per prompt.
        noisy_channel: Score the text given the label (noisy channel).
        metrics: Metric set by name, or functions by name.
        datasets: Names or data sets; the ten by default.
        **settings: See :class:`~StaICC.benchmarks.benchmark.Settings`.
    """

    __slots__ = ()
    task_class: ClassVar[type[Task]]

    def __init__(
        self,
        k: int = 4,
        noisy_channel: bool = False,
        metrics: Metrics = "standard",
        datasets: Datasets = None,
        **settings: Unpack[Settings],
    ) -> None:
        super().__init__(self.task_class(), k, noisy_channel, metrics, datasets, **settings)


def _read_datasets(datasets: Datasets) -> Sequence[str | Dataset]:
    if datasets is None:
        return names()
    if not isinstance(datasets, (str, Dataset, Sequence)):
        raise ArgumentError(f"datasets must be names or data sets in a list, not {datasets!r}")
    chosen = [datasets] if isinstance(datasets, (str, Dataset)) else list(datasets)
    for dataset in chosen:
        if not isinstance(dataset, (str, Dataset)):
            raise ArgumentError(f"a data set is given by its name or as a Dataset, not {dataset!r}")
    if not chosen:
        raise ArgumentError("no data set was chosen; leave datasets out for all ten, or name at least one")
    return chosen


class BenchmarkGroup(Displayed, FixedAttributes):
    """Benchmarks that run together.

    Args:
        name: Name of the group.
        members: The benchmarks, by the name of their part; all over the same data sets.

    Raises:
        ArgumentError: There are no members, or they run over different data sets.

    Attributes:
        members: The benchmarks.
    """

    __slots__ = ("members", "name")
    task_name: ClassVar[str] = ""
    """The name of the groups of a class whose constructor says which members they have; results carry it."""

    def __init__(self, name: str, members: Mapping[str, Benchmark]) -> None:
        self.name = name
        self.members = dict(members)
        over = {part: member.dataset_names for part, member in self.members.items()}
        if not over:
            raise ArgumentError(f"the group {name!r} has no members; give at least one benchmark")
        first = next(iter(over))
        for part, datasets in over.items():
            if datasets != over[first]:
                raise ArgumentError(
                    f"the members of {name!r} must run over the same data sets, but {first} has "
                    f"{', '.join(over[first])} and {part} has {', '.join(datasets)}"
                )

    def __len__(self) -> int:
        return len(self.members)

    def __iter__(self) -> Iterator[str]:
        return iter(self.members)

    def __getitem__(self, part: str) -> Benchmark:
        """Return a member by the name of its part."""
        if part not in self.members:
            raise unknown_name(f"part of {self.name}", part, self.members)
        return self.members[part]

    def __repr__(self) -> str:
        return one_line(f"<{self.name}: {', '.join(self.members)}>")

    def display_blocks(self) -> list[Block]:
        """Return the benchmarks, and the data sets that they share."""
        _, datasets = next(iter(self.members.values())).display_blocks()
        return [Line(self.name, "title"), Line(f"benchmarks: {', '.join(self.members)}"), datasets]

    def auto_run(
        self,
        list_of_forward_inference: Sequence[Inference] | Inference | None = None,
        return_divided_results: bool = True,
        batched_inference: bool = False,
        *,
        forward_inference: Sequence[Inference] | Inference | None = None,
        return_outputs: bool = False,
        **run: Unpack[RunSettings],
    ) -> ResultGroup:
        """Run all members.

        Args:
            list_of_forward_inference: One inference function for all data sets, or a list with one for each.
            return_divided_results: Whether the dictionaries show the scores of each data set.
            batched_inference: The functions take the list of all prompts of a condition; equal prompts of several
                conditions are then predicted several times.
            forward_inference: Another name of ``list_of_forward_inference``.
            return_outputs: Keep the prediction of each query in the results' ``outputs``.
            **run: Store, executor, failure policy, progress; see
                :class:`~StaICC.benchmarks.running.RunSettings`.

        Returns:
            The results, by part. The times and counts of each are those of the complete run.

        Raises:
            ArgumentError: An argument is invalid.
            OutputError: A query has no usable prediction and ``on_error="raise"``.
        """
        first = next(iter(self.members.values()))
        functions = first.functions_for_datasets(first.given_functions(list_of_forward_inference, forward_inference))
        runs: dict[str, dict[str, DatasetRun]] = {part: {} for part in self.members}
        with RunContext(batched_inference, **run) as context:
            context.start(functions)
            context.warn(*data_warnings(experimentor for member in self.members.values() for experimentor in member))
            for number, function in enumerate(functions):
                name = first[number].name
                where = Part(f"{self.name}, {name}", number, len(functions))
                experimentors = {f"{where.name}, {part}": member[number] for part, member in self.members.items()}
                options = context.options_for(function, group_prefixes=True)
                for part, dataset_run in zip(
                    self.members, run_together(function, experimentors, where, options), strict=True
                ):
                    runs[part][name] = dataset_run
        used = dict(zip(first.dataset_names, functions, strict=True))
        predictions, seconds = Predictions.of_run(context, used), context.seconds
        results = {
            part: member.collect(runs[part], seconds, predictions, return_outputs, return_divided_results)
            for part, member in self.members.items()
        }
        return context.deliver(ResultGroup(self.name, results))

    __call__ = auto_run

    def forecast(self, function: Inference, **options: Any) -> Forecast:
        """Forecast the run of a function: as for a single benchmark, with each distinct prompt once."""
        parts: dict[str, list[Query]] = {}
        for member in self.members.values():
            for experimentor in member:
                parts.setdefault(experimentor.name, []).extend(experimentor.all_queries())
        return forecast(parts, function, True, **options)


def members(benchmark: Benchmark | BenchmarkGroup) -> dict[str, Benchmark]:
    """Return the single benchmarks, by the name of their part (a single benchmark by its own name).

    Args:
        benchmark: A benchmark or a group of benchmarks.
    """
    return benchmark.members if isinstance(benchmark, BenchmarkGroup) else {benchmark.task.name: benchmark}

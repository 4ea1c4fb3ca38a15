"""What all benchmarks share: a sequence of data sets, the run of an inference function over them, its result."""

from __future__ import annotations

from abc import abstractmethod
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Generic, TypeGuard, TypeVar, cast

from StaICC import habits
from StaICC.argument_syntax import argument
from StaICC.benchmarks.base_experimentor import BaseExperimentor, queries_of_conditions
from StaICC.errors import ArgumentError, unknown_name
from StaICC.frozen import FixedAttributes
from StaICC.inference.contract import without_overridden_arguments
from StaICC.inference.function_check import refuse_unsuitable_function
from StaICC.layout import Displayed, Line, TextTable
from StaICC.numerics import mean
from StaICC.safe_text import one_line
from StaICC.version import __version__

if TYPE_CHECKING:
    from typing_extensions import Unpack

    from StaICC.benchmarks.context import EarlySettings, Predictions, RunContext, RunSettings
    from StaICC.benchmarks.evaluation import DatasetRun, RunsByDataset
    from StaICC.datasets.dataset import Dataset
    from StaICC.inference.contract import Inference
    from StaICC.inference.forecast import Forecast
    from StaICC.layout import Block
    from StaICC.results.result import Result
    from StaICC.results.signature import Signature


@dataclass(frozen=True, slots=True)
class Goal:
    """The goal of a run that stops early: a score is known with this precision.

    Raises:
        ArgumentError: A score is given without a precision.
    """

    precision: float | None
    """Half the width of the confidence interval of the score."""
    score: str | None
    """The score; ``None`` for accuracy."""

    def __post_init__(self) -> None:
        """Refuse a score without a precision: it would have no effect."""
        if self.precision is None and self.score is not None:
            raise ArgumentError(
                f"{argument('score', self.score)} belongs to {argument('precision')}, which was not given. Add it, as "
                f"in {argument('precision', 0.02)}"
            )


_E = TypeVar("_E", bound=BaseExperimentor)


class BaseBenchmark(Displayed, FixedAttributes, Generic[_E]):
    """A benchmark as a sequence of experimentors, one for each data set.

    An experimentor writes the queries of its data set and scores their predictions.

    Attributes:
        experimentor: The experimentors, in order.
    """

    __slots__ = ("experimentor",)
    _assignable = ("experimentor",)
    _advice = habits.OF_BENCHMARKS
    experimentor: list[_E]

    @property
    @abstractmethod
    def benchmark_name(self) -> str:
        """The name in results and messages."""

    @property
    def absent(self) -> RunsByDataset:
        """The data sets of the benchmark whose files are missing. Each has an empty run, which says what is missing."""
        return {}

    def display_blocks(self) -> list[Block]:
        """Return the data sets with their labels."""
        rows = []
        for experimentor in self.experimentor:
            labels = experimentor.get_label_space()
            rows.append([experimentor.name, str(len(labels)), ", ".join(labels)])
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
            ArgumentError: A function is not callable or cannot be scored on its data set, or there is not one for each.
        """
        if _is_list(functions) and len(functions) == 1:
            functions = functions[0]
        is_collection = _is_list(functions) or isinstance(functions, Mapping)
        if callable(functions) or not is_collection:
            refuse_unsuitable_function(functions)
            function_for_all = cast("Inference", functions)
            for experimentor in self:
                experimentor.refuse_function(function_for_all)
            return [without_overridden_arguments(function_for_all)] * len(self)

        function_of_datasets = self._for_datasets(functions, "the inference functions", "a function")
        for number, function in enumerate(function_of_datasets):
            refuse_unsuitable_function(function, f"inference function {number}")
        for experimentor, function in zip(self, function_of_datasets, strict=True):
            experimentor.refuse_function(function)
        return [without_overridden_arguments(function) for function in function_of_datasets]

    def _for_datasets(self, values: Any, argument_name: str, value_description: str) -> Sequence[Any]:
        """Return one value for each data set, from a list in their order or from a mapping by their names.

        Args:
            values: The list or the mapping.
            argument_name: What was given, for the message, such as ``"preentered_prediction"``.
            value_description: What belongs to a data set, for the message, such as ``"a list of predictions"``.

        Raises:
            ArgumentError: There is not one value for each data set.
        """
        is_list_or_array = hasattr(values, "__len__") and not isinstance(values, (str, bytes, Mapping))
        if isinstance(values, Mapping):
            if values.keys() == set(self.dataset_names):
                return [values[name] for name in self.dataset_names]
            got = f"a mapping with the names {', '.join(map(str, values))}"
        elif is_list_or_array:
            if len(values) == len(self):
                return values  # type: ignore[no-any-return]
            items = "1 item" if len(values) == 1 else f"{len(values)} items"
            got = f"{items}, {values!r:.60}"
        else:
            got = f"{values!r:.60}"
        names = ", ".join(self.dataset_names)
        if len(self) == 1:
            expected = f"a list of 1 item: {value_description} for the data set {names}"
        else:
            expected = f"a list of {len(self)} items: {value_description} for each data set, {names}"
        message = f"{argument_name}: got {got}, expected {expected}"
        if len(self) == 1 and is_list_or_array:
            message += ". Put yours into a list: [values]"
        raise ArgumentError(message)

    @staticmethod
    def given_functions(by_position: Any, by_keyword: Any) -> Any:
        """Return the inference functions of a call, from the one of two arguments that is given; ``None`` for neither.

        The argument has two names, as in StaICC 0.1.1.

        Raises:
            ArgumentError: Both are given.
        """
        if by_position is not None and by_keyword is not None:
            raise ArgumentError("got list_of_forward_inference and forward_inference, which mean the same; give one")
        if by_position is None:
            return by_keyword
        return by_position

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
                :class:`~StaICC.benchmarks.context.RunSettings`.

        Returns:
            The result: a dictionary with the documented keys.

        Raises:
            ArgumentError: An argument is invalid, such as a list of functions of another length than the data sets.
            OutputError: A query has no usable prediction and ``on_error="raise"``.
        """
        from StaICC.benchmarks.context import EarlySettings, RunContext

        given_functions = self.given_functions(list_of_forward_inference, forward_inference)
        if given_functions is None and preentered_prediction is None:
            raise _not_one_source("neither")
        if given_functions is not None and preentered_prediction is not None:
            raise _not_one_source("both")
        self._check_different_names()
        functions: Sequence[Any] = [None] * len(self)
        predictions_of_datasets: Sequence[Any] = [None] * len(self)
        if given_functions is not None:
            functions = self.functions_for_datasets(given_functions)
        else:
            for name in ("store", "recheck"):
                if run.get(name) is not None:
                    raise ArgumentError(
                        f"{name} is about predictions of a function: got preentered_prediction, which are known. Leave "
                        "one of them out"
                    )
            predictions_of_datasets = self._for_datasets(
                preentered_prediction, "preentered_prediction", "a list of predictions"
            )
            for name, predictions in zip(self.dataset_names, predictions_of_datasets, strict=True):
                if predictions is None:
                    raise ArgumentError(f"preentered_prediction: got None for {name}, expected a list of predictions")
        if precision is not None or score is not None:
            settings = EarlySettings(
                batched=batched_inference, keep_outputs=return_outputs, divided=return_divided_results, run=run
            )
            return self.run_to_precision(Goal(precision, score), functions, settings)

        with RunContext(batched_inference, **run) as context:
            context.start(functions)
            context.log(*self.data_warnings())
            runs = self._run_datasets(functions, predictions_of_datasets, context)
        predictions = context.predictions(dict(zip(runs, functions, strict=True)))
        return context.deliver(self.collect(runs, predictions, return_outputs, return_divided_results))

    def _run_datasets(
        self, functions: Sequence[Any], predictions: Sequence[Any], context: RunContext
    ) -> dict[str, DatasetRun]:
        """Return the run over each data set, by name. The data sets run one after the other.

        Args:
            functions: The inference function of each data set; ``None`` for a data set with given predictions.
            predictions: The given predictions of each data set; ``None`` for a data set with an inference function.
            context: The context of the run.
        """
        from StaICC.inference.runner import Part

        runs: dict[str, DatasetRun] = {}
        part_counts = [experimentor.part_count for experimentor in self]
        done_part_count = 0
        for number, experimentor in enumerate(self):
            part = Part(f"{self.benchmark_name}, {experimentor.name}", number=done_part_count, parts=sum(part_counts))
            options = context.options_for(functions[number])
            runs[experimentor.name] = experimentor.run(functions[number], predictions[number], options, part)
            context.checkpoint()
            done_part_count += part_counts[number]
        return runs

    def _check_different_names(self) -> None:
        """Raise an ArgumentError if two data sets have the same name."""
        for name, count in Counter(self.dataset_names).items():
            if count > 1:
                raise ArgumentError(
                    f"{self.benchmark_name} has {count} data sets named {name!r}; expected each name once"
                )

    def __call__(self, *arguments: Any, **keywords: Any) -> Any:
        """Run the benchmark; the arguments are those of :meth:`auto_run`, which a derived class may replace."""
        return self.auto_run(*arguments, **keywords)

    def run_to_precision(self, goal: Goal, functions: Sequence[Inference], settings: EarlySettings) -> Result:
        """Run until half the width of the interval of a score is at most ``goal.precision``.

        Benchmarks whose scores are means over test rows define this. Others cannot stop early.

        Args:
            goal: The precision, and the score.
            functions: The inference function of each data set.
            settings: The settings of the run.

        Raises:
            ArgumentError: The scores of this benchmark are no means over test rows.
        """
        raise ArgumentError(f"early stopping needs scores that are means over test rows: got {self.benchmark_name}")

    def forecast(self, function: Inference, **options: Any) -> Forecast:
        """Forecast the run of a function: queries, tokens, time and cost.

        Args:
            function: The inference function.
            **options: ``store``, ``model_name``, ``chunk_size``, ``probe_seconds`` and ``prices``; see
                :class:`~StaICC.benchmarks.forecast.ForecastOptions`.
        """
        from StaICC.benchmarks.forecast import forecast

        queries_by_dataset = [experimentor.all_queries() for experimentor in self.experimentor]
        return forecast(queries_by_dataset, function, **options)

    def collect(
        self, runs: RunsByDataset, predictions: Predictions, keep_outputs: bool = False, divided: bool = True
    ) -> Result:
        """Build the result of the runs over all data sets, and of empty runs for those whose files are missing.

        Args:
            runs: One run for each data set, by name, without those whose files are missing.
            predictions: The provenance of the predictions.
            keep_outputs: Keep the prediction of each query.
            divided: Whether the dictionary shows the scores of each data set.

        Returns:
            The result.
        """
        from StaICC.benchmarks.evaluation import means_of
        from StaICC.benchmarks.result_warnings import all_warnings
        from StaICC.results.predictor import describe_environment
        from StaICC.results.result import Result

        runs = {**runs, **self.absent}
        details = {name: run.details for name, run in runs.items()}
        answers = {}
        outputs: dict[str, Any] = {}
        for experimentor in self:
            run = runs[experimentor.name]
            answers[experimentor.name] = run.answers
            if keep_outputs:
                outputs[experimentor.name] = experimentor.query_records(run)
        provenance = predictions.provenance(answers, details)
        # Further models are those that the method uses in addition to the one that predicts.
        all_models = [*provenance.predictors, *provenance.further_models]
        return Result(
            benchmark=self.benchmark_name,
            divided={name: dict(run.values) for name, run in runs.items()},
            averaged=_means(runs),  # the means over data sets
            signature=self.signature(runs, predictions),
            arguments=self.arguments(),
            provenance=provenance,
            environment=describe_environment(all_models),
            details=details,
            means=means_of(runs),  # their intervals and baselines
            timing=_timing(runs, predictions.seconds),
            outputs=outputs if keep_outputs else None,
            with_divided=divided,
            warnings=all_warnings(self.data_warnings(), runs, predictions.warnings),
            files=self._file_records(),
        )

    def _file_records(self) -> dict[str, Mapping[str, Any]]:
        """Return the records of the files of data sets, by the name of the data set.

        Data sets that were not read from a file are left out.
        """
        records: dict[str, Mapping[str, Any]] = {}
        for dataset in self.own_data():
            record = dataset.file_record()
            if record:
                records[dataset.card.name] = record
        return records

    @abstractmethod
    def arguments(self) -> dict[str, Any]:
        """Return the arguments of this benchmark as JSON values.

        Results save them, and verification makes the benchmark from them again.
        """

    @abstractmethod
    def signature(self, runs: RunsByDataset | None = None, predictions: Predictions | None = None) -> Signature:
        """Return the signature: every setting that can change a score of this benchmark.

        Args:
            runs: The runs over the data sets, which have the digests of their prompts. ``None`` before a run: the
                prompts are then written to compute their digests.
            predictions: The provenance of the predictions. ``None`` before a run: the signature then has no
                ``scoring``.
        """

    def common_fields(self, runs: RunsByDataset | None, predictions: Predictions | None) -> dict[str, str | None]:
        """Return the fields of the signature that all benchmarks have. A field with the value ``None`` is left out.

        Args:
            runs: As for :meth:`signature`.
            predictions: As for :meth:`signature`.
        """
        from StaICC.results.signature import short_digest

        digest_of_prompts = {}
        failed_count = 0
        for experimentor in self:
            if runs is None:
                digest_of_prompts[experimentor.name] = _prompts_digest(experimentor)
            else:
                digest_of_prompts[experimentor.name] = runs[experimentor.name].details.prompts
        if runs is not None:
            failed_count = sum(run.details.failed for run in runs.values())

        fields: dict[str, str | None] = {
            "scoring": None,
            "prompts": short_digest(digest_of_prompts),
            "failed": None,
            "version": __version__,
        }
        if predictions is not None:
            fields["scoring"] = predictions.scoring(self.dataset_names)
        if failed_count > 0:
            fields["failed"] = str(failed_count)
        return fields


def _is_list(value: object) -> TypeGuard[Sequence[Any]]:
    """Return whether a value is a list, a tuple or another sequence, but no text and no bytes."""
    return isinstance(value, Sequence) and not isinstance(value, (str, bytes))


def _not_one_source(got: str) -> ArgumentError:
    """Return the error for a run that got neither inference functions nor predictions, or that got both.

    Args:
        got: ``"neither"`` or ``"both"``.
    """
    return ArgumentError(
        f"predictions come from one source: got {got}, expected an inference function, as in benchmark(my_inference) "
        "(the function itself, not what it returns), a list with one for each data set, or preentered_prediction=[...]"
    )


def _prompts_digest(experimentor: BaseExperimentor) -> str:
    """Return the digest of all prompts of a data set. Only one prompt at a time is in memory."""
    from StaICC.benchmarks.prompt_digests import digest_prompts

    return digest_prompts(queries_of_conditions(experimentor.conditions())).of_all


def _means(runs: RunsByDataset) -> dict[str, float | None]:
    """Return the mean over data sets of each score, by its key. Some scores have no mean and are left out.

    The mean is ``None`` if the score is undefined on a data set.
    """
    from StaICC.benchmarks.evaluation import averaged_keys

    means = {}
    for key in averaged_keys(runs):
        means[key] = mean([run.averaged.get(key) for run in runs.values()])
    return means


def _timing(runs: RunsByDataset, seconds: float) -> dict[str, float]:
    """Return the duration of the complete run under ``seconds``, and the times that the data sets measured.

    Args:
        runs: The run over each data set, by name.
        seconds: The duration of the complete run.
    """
    timing: dict[str, float] = {}
    for run in runs.values():
        timing.update(run.timing)
    timing["seconds"] = seconds
    return timing

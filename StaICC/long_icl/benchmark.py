"""The LongICL benchmark: six data sets, one to five rounds each, or the conditions of an experiment.

:class:`LongICL` loads the available data sets, evaluates an inference function round by round, and returns a
:class:`~StaICC.results.result.Result`. It passes all queries of a round together, so a kernel or server with prefix
caching computes the context once.
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict
from typing import TYPE_CHECKING, Any, ClassVar, Literal

from StaICC import benchmark_names
from StaICC.benchmarks.context import Predictions
from StaICC.benchmarks.evaluation import DatasetRun
from StaICC.benchmarks.forecast import forecast
from StaICC.benchmarks.rebuilding import ReadsItsData, UnknownBenchmarkError, refuse_unknown_arguments
from StaICC.benchmarks.running import BaseBenchmark
from StaICC.benchmarks.task import Statistics
from StaICC.datasets.dataset import Dataset
from StaICC.errors import DataMissingError, SchemaError, UnknownNameError
from StaICC.inference.contract import Inference
from StaICC.inference.replies import Unparsed
from StaICC.inference.reply_parser import PARSER_VERSION
from StaICC.long_icl.available import load_available
from StaICC.long_icl.cards import cards, task_card
from StaICC.long_icl.experimentor import LongICLExperimentor
from StaICC.long_icl.experiments import DESIGNS, Experiment
from StaICC.long_icl.install import default_folder
from StaICC.long_icl.loading import show_notice
from StaICC.long_icl.options import (
    ALL_ROUNDS,
    LongICLOptions,
    checked_experiment,
    default_limit,
    default_parsing,
)
from StaICC.long_icl.queries import round_name
from StaICC.results.details import DatasetDetails
from StaICC.results.result import Result
from StaICC.results.signature import Signature, escaped, short_digest

if TYPE_CHECKING:
    from StaICC.inference.forecast import Forecast


class LongICL(BaseBenchmark[LongICLExperimentor], ReadsItsData):
    """The benchmark of classification with many labels and long contexts.

    Args:
        data_dir: Folder with the published files; None for the folder of ``python -m StaICC data install long-icl``.
        datasets: Names, such as ``["banking77", "tacred"]``, and data sets of your own
            (:class:`~StaICC.datasets.dataset.Dataset`) with 20 or more labels; None for all six (in an experiment: for
            those with one label per item; in ``helmet``: for the five of HELMET). Data sets without files are skipped;
            a warning and the result say how to get the files.
        rounds: Rounds to evaluate, in order.
        limit: Maximum number of test items (DialogRE: pairs); None for all; by default 500, or 100 in an
            experiment other than ``helmet``.
        instruct: Show the label list in the prompt.
        parsing: How responses are parsed: ``published``, or ``library`` with the parser of all benchmarks
            (reasoning, "the answer is ...", JSON, bold, lists). By default, the published rounds and ``helmet`` are
            parsed as published, own data and the other experiments by the library.
        unparsed: How a response without a label, or one that the server withheld, counts: ``wrong`` as published,
            ``excluded`` with bounds on the score, or ``error``, which ends the run.
        experiment: An :class:`~StaICC.long_icl.experiments.Experiment`, or the name of one with its default options:
            ``context``, ``length``, ``shots``, ``order``, ``position``, ``controls``, ``retrieval``, ``budget``,
            ``helmet``. Its conditions replace the rounds.
        verify: Refuse files whose digest is not the published one.
        statistics: Options of the confidence intervals and baselines.
        announce: Called with the licence notice of each data set before its files are opened; by default, the notice is
            logged as a warning.

    Attributes:
        experimentor: One experimentor for each available data set, in order.
        skipped: The other data sets, with reasons and instructions.

    Raises:
        DataMissingError: No data set is available.
        DataDamagedError: A file is damaged, or not the published one.
        ArgumentError: An argument is invalid.
        UnknownNameError: The data set or parsing is unknown.

    Example:
        >>> benchmark = LongICL("my_data", ["banking77"], rounds=(1, 2))  # doctest: +SKIP
        >>> result = benchmark(my_kernel)  # doctest: +SKIP
        >>> result["Divided results"]["banking77"]["1R"]  # doctest: +SKIP
        0.702
    """

    __slots__ = ("_notes", "skipped")
    task_name: ClassVar[str] = benchmark_names.LONG_ICL
    """The name that results carry."""
    benchmark_name = task_name

    def __init__(
        self,
        data_dir: str | os.PathLike[str] | None = None,
        datasets: Iterable[str | Dataset] | Dataset | None = None,
        rounds: Iterable[int] = ALL_ROUNDS,
        limit: int | Literal["default"] | None = "default",
        instruct: bool = False,
        *,
        parsing: str | None = None,
        unparsed: Unparsed = "wrong",
        experiment: Experiment | str | None = None,
        verify: bool = True,
        statistics: Statistics | None = None,
        announce: Callable[[str], object] = show_notice,
    ) -> None:
        folder = default_folder() if data_dir is None else os.fspath(data_dir)
        chosen = checked_experiment(experiment)
        if datasets is None and chosen is not None:
            offered = cards(DESIGNS[chosen.name].suite)
            datasets = [name for name, card in offered.items() if not card.structured]
        loaded, self.skipped = load_available(folder, datasets, verify=verify, announce=announce)
        if not loaded:
            listed = "\n".join(f"{skipped.dataset}: {skipped}" for skipped in self.skipped)
            raise DataMissingError(f"none of the data sets of LongICL is in {folder}:\n{listed}")
        has_own_data = any(data.dataset is not None for data in loaded)
        options = LongICLOptions(
            rounds,
            limit=default_limit(chosen) if limit == "default" else limit,
            instruct=instruct,
            parsing=default_parsing(chosen, has_own_data) if parsing is None else parsing,
            unparsed=unparsed,
            experiment=chosen,
            statistics=statistics or Statistics(),
        )
        self._notes = {skipped.dataset: (f"SKIPPED: {skipped}",) for skipped in self.skipped}
        self.experimentor = [LongICLExperimentor(data, **vars(options)) for data in loaded]

    def __getitem__(self, index: int | str) -> LongICLExperimentor:
        """Return an experimentor by position or by the name of its data set.

        Raises:
            DataMissingError: The data set was skipped.
            UnknownNameError: This benchmark has no such data set.
        """
        for skipped in self.skipped:
            if isinstance(index, str) and skipped.dataset == index.casefold():
                raise DataMissingError(f"{index} was skipped: {skipped}")
        return super().__getitem__(index)

    @property
    def absent(self) -> Mapping[str, DatasetRun]:
        """The skipped data sets, without scores."""
        queries = self.experimentor[0].queries
        names = [*map(round_name, queries.rounds), *queries.unavailable, "mean", "uniform", "majority"]
        if self.experimentor[0].options.experiment is None:
            names.append("nearest")
        values: dict[str, float | None] = dict.fromkeys(names)
        runs = {}
        for name, notes in self._notes.items():
            details = DatasetDetails(
                asked=0,
                distinct=0,
                scored=0,
                failed=0,
                prompts="",
                query_digests="",
                conditions=(),
                notes=notes,
            )
            runs[name] = DatasetRun(values, values, details, (), {}, ())
        return runs

    def own_data(self) -> Sequence[Dataset]:
        """Return the data sets of the user's own."""
        return [experimentor.data.dataset for experimentor in self if experimentor.data.dataset is not None]

    def data_warnings(self) -> Sequence[str]:
        """Return the warnings about the data sets of the user's own."""
        warnings = []
        for dataset in self.own_data():
            for remark in dataset.remarks:
                warnings.append(f"{dataset.card.name}: {remark}")
        return warnings

    def forecast(self, function: Inference, **options: Any) -> Forecast:
        """Forecast the run of a function; see :meth:`StaICC.benchmarks.benchmark.Benchmark.forecast`."""
        self.functions_for_datasets(function)
        parts = []
        for experimentor in self:
            parts += [condition.queries for condition in experimentor.conditions()]
        return forecast(parts, function, True, **options)

    def arguments(self) -> dict[str, Any]:
        """Return the arguments of this benchmark as JSON values: results save them, verification makes it from them."""
        options = {"datasets": self.dataset_names, **asdict(self.experimentor[0].options)}
        # A data set with fewer test items than the limit has none: the result is that without a limit.
        limits = [experimentor.limit for experimentor in self if experimentor.limit is not None]
        options["limit"] = max(limits, default=None)
        arguments: dict[str, Any] = json.loads(json.dumps(options))
        return arguments

    @classmethod
    def remade(
        cls, result: Result, data_dir: str | os.PathLike[str] | None, own_datasets: Mapping[str, Dataset]
    ) -> LongICL:
        """Return the benchmark of a result, over the data sets for which the result has predictions.

        Args:
            result: A result of LongICL.
            data_dir: Folder with the data; by default, the installed data.
            own_datasets: The data sets of the user's own, by name.

        Raises:
            DataMissingError: No data set is available.
            UnknownBenchmarkError: Another version of StaICC wrote the result, with an argument that is gone; or a data
                set is not one of LongICL.
        """
        recorded = dict(result.arguments)
        del recorded["datasets"]
        recorded["statistics"] = Statistics(**recorded["statistics"])
        refuse_unknown_arguments(cls, recorded)
        if recorded["experiment"] is not None:
            recorded["experiment"] = Experiment(**recorded["experiment"])

        datasets: list[str | Dataset] = []
        notes: dict[str, tuple[str, ...]] = {}
        for name, details in result.details.items():
            if not details.asked:
                notes[name] = details.notes  # The run skipped this data set.
            elif name in own_datasets:
                datasets.append(own_datasets[name])
            else:
                datasets.append(_recorded_name(name))
        benchmark = cls(data_dir, datasets, **recorded, verify=False)  # Verification compares the prompts.
        return benchmark.copy_with(_notes=benchmark._notes | notes)

    def signature(
        self, runs: Mapping[str, DatasetRun] | None = None, predictions: Predictions | None = None
    ) -> Signature:
        """Return every option of this benchmark that can change a score; arguments as for the base class."""
        options = self.experimentor[0].options
        datasets = None  # the published ones
        if self.dataset_names != list(cards()):
            datasets = "+".join(escaped(name) for name in self.dataset_names)
        file_identities = []
        for experimentor in self:
            file_identities.append(experimentor.data.train_file.identity)
            file_identities.append(experimentor.data.test_file.identity)
        limit = self.arguments()["limit"]
        if limit is not None:
            limit = str(limit)
        unparsed = None
        if options.unparsed != "wrong":
            unparsed = options.unparsed
        return Signature(
            {
                "benchmark": self.task_name,
                "datasets": datasets,
                "data": short_digest(file_identities),
                "limit": limit,
                "options": _options_in_signature(options),
                "unparsed": unparsed,
                "statistics": options.statistics.for_signature(),
                **self.common_fields(runs, predictions),
            }
        )


def _options_in_signature(options: LongICLOptions) -> str:
    """Return the options that change prompts or parses, as the signature has them."""
    values: dict[str, Any] = {}
    if options.experiment is None:
        values["rounds"] = "+".join(str(number) for number in options.rounds)
    if options.instruct:
        values["instruct"] = "yes"
    if options.parsing != "published":
        values["parsing"] = options.parsing
    if options.parsing == "library":
        values["parser"] = PARSER_VERSION
    if options.experiment is not None:
        values |= options.experiment.options()
    return ",".join(f"{name}={value}" for name, value in values.items() if value is not None)


def _recorded_name(name: str) -> str:
    """Return the name of a published data set in a result.

    Raises:
        UnknownBenchmarkError: There is no such data set.
        SchemaError: A run would have recorded another name: it writes the exact one, and finds any spelling.
    """
    try:
        exact_name = task_card(name).name
    except UnknownNameError as error:
        raise UnknownBenchmarkError(f"the result is over the user's own data ({error})") from error
    if exact_name != name:
        raise SchemaError(f"the data set {name!r:.60} is recorded with the name {exact_name!r:.60}")
    return exact_name

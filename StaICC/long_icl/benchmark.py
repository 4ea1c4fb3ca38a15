"""The LongICL benchmark: six data sets, one to five rounds each, or the conditions of an experiment."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict
from typing import Any, ClassVar, Literal

from StaICC import benchmark_names
from StaICC.benchmarks.context import Predictions
from StaICC.benchmarks.evaluation import DatasetRun
from StaICC.benchmarks.rebuilding import refuse_unknown_arguments
from StaICC.benchmarks.task import Statistics
from StaICC.datasets.dataset import Dataset
from StaICC.inference.replies import Unparsed
from StaICC.inference.reply_parser import PARSER_VERSION
from StaICC.long_icl.base_benchmark import LongContextBenchmark, load_data, notes_of_skipped, recorded_name
from StaICC.long_icl.cards import cards
from StaICC.long_icl.experimentor import LongICLExperimentor
from StaICC.long_icl.experiments import Experiment
from StaICC.long_icl.install import default_folder
from StaICC.long_icl.loading import show_notice
from StaICC.long_icl.options import (
    ALL_ROUNDS,
    LongICLOptions,
    checked_experiment,
    default_limit,
    default_parsing,
)
from StaICC.results.result import Result
from StaICC.results.signature import Signature, escaped


class LongICL(LongContextBenchmark):
    """The benchmark of classification with many labels and long contexts.

    Args:
        data_dir: Folder with the published files; None for the folder of ``python -m StaICC data install long-icl``.
        datasets: Names, such as ``["banking77", "tacred"]``, and data sets of your own
            (:class:`~StaICC.datasets.dataset.Dataset`) with 20 or more labels; None for all six (in an experiment: for
            those with one label per item). Data sets without files are skipped; a warning and the result say how to get
            the files.
        rounds: Rounds to evaluate, in order.
        limit: Maximum number of test items (DialogRE: pairs); None for all; by default 500, or 100 in an experiment.
        instruct: Show the label list in the prompt.
        parsing: How responses are parsed: ``published``, or ``library`` with the parser of all benchmarks
            (reasoning, "the answer is ...", JSON, bold, lists). By default, the published rounds are parsed as
            published, own data and experiments by the library.
        unparsed: How a response without a label, or one that the server withheld, counts: ``wrong`` as published,
            ``excluded`` with bounds on the score, or ``error``, which ends the run.
        experiment: An :class:`~StaICC.long_icl.experiments.Experiment`, or the name of one with its default options:
            ``context``, ``length``, ``shots``, ``order``, ``position``, ``controls``, ``retrieval``, ``budget``. Its
            conditions replace the rounds.
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

    __slots__ = ()
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
        chosen_experiment = checked_experiment(experiment)
        if datasets is None and chosen_experiment is not None:
            # Experiments are not defined for the items with several labels of the published data sets.
            datasets = [name for name, card in cards().items() if not card.structured]
        loaded, skipped = load_data(self.task_name, folder, datasets, verify=verify, announce=announce)
        if limit == "default":
            limit = default_limit(chosen_experiment)
        if parsing is None:
            has_own_data = any(data.dataset is not None for data in loaded)
            parsing = default_parsing(chosen_experiment, has_own_data)
        options = LongICLOptions(
            rounds,
            limit=limit,
            instruct=instruct,
            parsing=parsing,
            unparsed=unparsed,
            experiment=chosen_experiment,
            statistics=statistics or Statistics(),
        )
        super().__init__([LongICLExperimentor(data, **vars(options)) for data in loaded], skipped)

    def data_warnings(self) -> Sequence[str]:
        """Return the warnings about the data sets of the user's own, and about the parser of the published ones."""
        return [*super().data_warnings(), *self._parsing_warnings()]

    def _parsing_warnings(self) -> Sequence[str]:
        """Return a warning that published data sets are read by another parser than without own data in the run."""
        options = self.experimentor[0].options
        usual_parsing = default_parsing(options.experiment, has_own_data=False)
        published_names = [experimentor.data.card.name for experimentor in self if experimentor.data.dataset is None]
        if not self.own_data() or not published_names or options.parsing == usual_parsing:
            return []
        return [
            f"{', '.join(published_names)}: replies are read by the parser {options.parsing!r}, as those of the own "
            f"data, because a run has one parser; the default without own data is {usual_parsing!r}"
        ]

    def arguments(self) -> dict[str, Any]:
        """Return the arguments of this benchmark as JSON values: results save them, verification makes it from them."""
        options = {"datasets": self.dataset_names, **asdict(self.experimentor[0].options)}
        options["limit"] = self._recorded_limit()
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
            SchemaError: A data set is recorded with a name that no run writes.
        """
        recorded = dict(result.arguments)
        del recorded["datasets"]
        recorded["statistics"] = Statistics(**recorded["statistics"])
        refuse_unknown_arguments(cls, recorded)
        if recorded["experiment"] is not None:
            recorded["experiment"] = Experiment(**recorded["experiment"])

        notes = notes_of_skipped(result)
        datasets: list[str | Dataset] = []
        for name in result.details:
            if name in own_datasets:
                datasets.append(own_datasets[name])
            elif name not in notes:
                datasets.append(recorded_name(name))
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
        limit = None
        if self._recorded_limit() is not None:
            limit = str(self._recorded_limit())
        unparsed = None
        if options.unparsed != "wrong":
            unparsed = options.unparsed
        return Signature(
            {
                "benchmark": self.task_name,
                "datasets": datasets,
                "data": self._data_digest(),
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

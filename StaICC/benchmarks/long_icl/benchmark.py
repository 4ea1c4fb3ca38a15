"""The LongICL benchmark: six data sets, one to five rounds each.

:class:`LongICL` loads the available data sets, evaluates an inference function round by round, and returns a
:class:`~StaICC.results.Result`. It passes all queries of a round together, so a kernel or server with prefix caching
computes the context once.

The score of a round with a failed query is undefined. If a prompt exceeds the context length of the model, the run
continues with the next round, also with ``on_error="raise"``.
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict
from typing import TYPE_CHECKING, Any, ClassVar, Literal

from StaICC.benchmarks.base import BaseBenchmark, Predictions
from StaICC.benchmarks.evaluation import DatasetRun
from StaICC.benchmarks.long_icl.data import Skipped, load_available, show_notice
from StaICC.benchmarks.long_icl.experiments import EXPERIMENT_ITEMS, Experiment
from StaICC.benchmarks.long_icl.installing import default_folder
from StaICC.benchmarks.long_icl.task import ALL_ROUNDS, OPTIONS, LongICLExperimentor, round_name
from StaICC.benchmarks.long_icl.task_cards import cards
from StaICC.benchmarks.task import Statistics
from StaICC.datasets import Dataset
from StaICC.errors import ArgumentError, DataMissingError
from StaICC.inference import Inference, Unparsed
from StaICC.inference.reply_parser import PARSER_VERSION
from StaICC.results import DatasetDetails, Result, Signature, escaped, short_digest
from StaICC.safe_text import one_line

if TYPE_CHECKING:
    from StaICC.inference.forecast import Forecast


class LongICL(BaseBenchmark[LongICLExperimentor]):
    """The benchmark of classification with many labels and long contexts.

    Args:
        data_dir: Folder with the published files; None for the folder of ``python -m StaICC data install long-icl``.
        datasets: Names, such as ``["banking77", "tacred"]``, and data sets of your own
            (:class:`~StaICC.datasets.Dataset`) with 20 or more labels; None for all six (in an experiment: for those
            with one label per item). Data sets without files are skipped; a warning and the result say how to get the
            files.
        rounds: Rounds to evaluate, in order.
        test_number: Maximum number of test items (DialogRE: pairs); None for all; by default 500, or 100 in an
            experiment.
        instruct: Show the label list in the prompt.
        variant: ``published``, or ``strict`` (see :mod:`StaICC.benchmarks.long_icl.scoring`).
        arrangement: Order of the demonstrations: ``interleaved`` as published, or ``grouped`` by label.
        parsing: How responses are parsed: ``published``, ``strict``, or ``tolerant`` with the parser of all benchmarks
            (reasoning, "the answer is ...", JSON, bold, lists); None for the variant's.
        unparsed: How a response without a label, or one that the server withheld, counts: ``wrong`` as published,
            ``excluded`` with bounds on the score, or ``error``, which ends the run.
        experiment: An :class:`~StaICC.benchmarks.long_icl.Experiment`, or the name of one with its default options:
            ``context``, ``shots``, ``order``, ``position``, ``controls``, ``retrieval``. Its conditions replace the
            rounds.
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
        UnknownNameError: The data set, variant or arrangement is unknown.

    Example:
        >>> benchmark = LongICL("my_data", ["banking77"], rounds=(1, 2))  # doctest: +SKIP
        >>> result = benchmark(my_kernel)  # doctest: +SKIP
        >>> result["Divided results"]["banking77"]["1R"]  # doctest: +SKIP
        0.702
    """

    task_name: ClassVar[str] = "LongICL"
    """The name that results carry."""

    def __init__(
        self,
        data_dir: str | os.PathLike[str] | None = None,
        datasets: Iterable[str | Dataset] | Dataset | None = None,
        rounds: Iterable[int] = ALL_ROUNDS,
        test_number: int | Literal["default"] | None = "default",
        instruct: bool = False,
        variant: str = "published",
        arrangement: str = "interleaved",
        *,
        parsing: str | None = None,
        unparsed: Unparsed = "wrong",
        experiment: Experiment | str | None = None,
        verify: bool = True,
        statistics: Statistics | None = None,
        announce: Callable[[str], object] = show_notice,
    ) -> None:
        folder = default_folder() if data_dir is None else os.fspath(data_dir)
        rounds = tuple(rounds) if isinstance(rounds, Iterable) else rounds  # an iterator serves six data sets
        experiment = Experiment(experiment) if isinstance(experiment, str) else experiment
        if experiment is not None and not isinstance(experiment, Experiment):
            raise ArgumentError(f"experiment must be an Experiment or its name, not {experiment!r}")
        if test_number == "default":
            test_number = 500 if experiment is None else EXPERIMENT_ITEMS
        if experiment is not None and datasets is None:
            datasets = [name for name, card in cards().items() if not card.structured]
        loaded, self.skipped = load_available(folder, datasets, verify=verify, announce=announce)
        if not loaded:
            listed = "\n".join(f"{skipped.dataset}: {skipped}" for skipped in self.skipped)
            raise DataMissingError(f"none of the data sets of LongICL is in {folder}:\n{listed}")
        self.experimentor = [
            LongICLExperimentor(
                data, rounds, test_number, instruct, variant, arrangement, parsing, unparsed, experiment, statistics
            )
            for data in loaded
        ]

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

    def __repr__(self) -> str:
        return one_line(f"<LongICL over {', '.join(one.name for one in self)}>")

    @property
    def benchmark_name(self) -> str:
        """The name in results and messages."""
        return self.task_name

    @property
    def absent(self) -> Mapping[str, DatasetRun]:
        """The skipped data sets, without scores."""
        values: dict[str, float | None] = dict.fromkeys(self.figures)
        counts: dict[str, Any] = dict.fromkeys(("asked", "distinct", "scored", "failed"), 0)
        runs = {}
        for skipped in self.skipped:
            note = f"{_SKIPPED}{skipped}"
            details = DatasetDetails(**counts, prompts="", query_digests="", conditions=(), notes=(note,))
            runs[skipped.dataset] = DatasetRun(values, values, details, (), {}, ())
        return runs

    @property
    def figures(self) -> list[str]:
        """The names of the scores of each data set."""
        first = self.experimentor[0]
        return [*map(round_name, first.rounds), *first.unavailable, "mean", "uniform", "majority"]

    def own_data(self) -> Sequence[Dataset]:
        """Return the data sets of the user's own."""
        return [experimentor.data.dataset for experimentor in self if experimentor.data.dataset is not None]

    def data_warnings(self) -> Sequence[str]:
        """Return the warnings about the data sets of the user's own."""
        return [f"{dataset.card.name}: {remark}" for dataset in self.own_data() for remark in dataset.remarks]

    def functions_for_datasets(
        self, functions: Inference | Sequence[Inference] | Mapping[str, Inference]
    ) -> Sequence[Inference]:
        """Return one inference function for each data set; those that cannot predict several labels are refused."""
        chosen = super().functions_for_datasets(functions)
        for experimentor, function in zip(self, chosen, strict=True):
            experimentor.check_function(function)
        return chosen

    def forecast(self, function: Inference, **options: Any) -> Forecast:
        """Forecast the run of a function; see :meth:`StaICC.benchmarks.Benchmark.forecast`."""
        from StaICC.benchmarks.forecast import forecast  # few runs are forecast

        self.functions_for_datasets(function)
        parts = {f"{one.name}, {part.name}": part.queries for one in self for part in one.conditions()}
        return forecast(parts, function, True, **options)

    def arguments(self) -> dict[str, Any]:
        """Return the arguments of this benchmark as JSON values: results save them, verification makes it from them."""
        first = self.experimentor[0]
        return {
            "datasets": self.dataset_names,
            "rounds": list(first.rounds if first.experiment is None else ALL_ROUNDS),
            **{name: getattr(first, name) for name in OPTIONS},
            "test_number": next((one.test_number for one in self if one.test_number is not None), None),
            "experiment": json.loads(json.dumps(asdict(first.experiment))) if first.experiment is not None else None,
            "statistics": asdict(first.statistics),
        }

    def signature(
        self, runs: Mapping[str, DatasetRun] | None = None, predictions: Predictions | None = None
    ) -> Signature:
        """Return every option of this benchmark that can change a score; arguments as for the base class."""
        first, datasets = self.experimentor[0], self.dataset_names
        files = [file.identity for one in self for file in (one.data.train_file, one.data.test_file)]
        options = {
            "variant": first.variant,
            "rounds": "+".join(map(str, first.rounds)) if first.experiment is None else None,
            "instruct": "yes" if first.instruct else None,
            "arrangement": None if first.arrangement == "interleaved" else first.arrangement,
            "parsing": None if first.parsing == first.variant else first.parsing,
            "parser": PARSER_VERSION if first.parsing == "tolerant" else None,
            **({} if first.experiment is None else first.experiment.options()),
        }
        return Signature(
            {
                "benchmark": self.task_name,
                "datasets": None if datasets == list(cards()) else "+".join(map(escaped, datasets)),
                "data": short_digest(files),
                "rows": str(self.arguments()["test_number"] or "all"),
                "options": ",".join(f"{key}={value}" for key, value in options.items() if value is not None),
                "unparsed": None if first.unparsed == "wrong" else first.unparsed,
                "statistics": first.statistics.for_signature(),
                **self.common_fields(runs, predictions),
            }
        )


_SKIPPED = "SKIPPED: "


def rebuild_long_icl(
    result: Result, data_dir: str | os.PathLike[str] | None, datasets: Sequence[str | Dataset], statistics: Statistics
) -> LongICL:
    """Return the benchmark of a result, made with the arguments that the result records.

    Args:
        result: A result of LongICL.
        data_dir: Folder with the data; by default, the installed data.
        datasets: The data sets that the result has scores of; the others are skipped, as in the run.
        statistics: Options of the confidence intervals and baselines.

    Raises:
        DataMissingError: No data set is available.
    """
    recorded = {name: value for name, value in result.arguments.items() if name not in ("datasets", "statistics")}
    if recorded["experiment"] is not None:
        recorded["experiment"] = Experiment(**recorded["experiment"])
    benchmark = LongICL(data_dir, datasets, **recorded, verify=False, statistics=statistics)  # the prompts are compared
    for name, details in result.details.items():
        if not details.asked:
            reason, _, instructions = "".join(details.notes).removeprefix(_SKIPPED).partition(". ")
            benchmark.skipped += (Skipped(name, reason, instructions),)
    return benchmark

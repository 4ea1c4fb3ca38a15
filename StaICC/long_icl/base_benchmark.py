"""What the benchmarks with long contexts share: LongICL, HELMET.

Such a benchmark loads the available data sets, evaluates an inference function condition by condition, and returns a
:class:`~StaICC.results.result.Result`. It passes all queries of a condition together, so a kernel or server with prefix
caching computes a shared context once.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from StaICC.argument_syntax import argument
from StaICC.benchmarks.evaluation import DatasetRun
from StaICC.benchmarks.forecast import forecast
from StaICC.benchmarks.rebuilding import ReadsItsData, UnknownBenchmarkError
from StaICC.benchmarks.running import BaseBenchmark
from StaICC.datasets.dataset import Dataset
from StaICC.errors import DataMissingError, SchemaError, UnknownNameError
from StaICC.inference.contract import Inference
from StaICC.long_icl.available import load_available
from StaICC.long_icl.cards import task_card
from StaICC.long_icl.experimentor import LongICLExperimentor
from StaICC.long_icl.install import default_folder
from StaICC.long_icl.loading import LongICLData, Skipped
from StaICC.long_icl.queries import round_name
from StaICC.results.details import DatasetDetails
from StaICC.results.result import Result
from StaICC.results.signature import short_digest
from StaICC.safe_text import visible

if TYPE_CHECKING:
    from StaICC.inference.forecast import Forecast


class LongContextBenchmark(BaseBenchmark[LongICLExperimentor], ReadsItsData):
    """A benchmark with long contexts.

    Args:
        experimentors: One experimentor for each available data set, in order.
        skipped: The other data sets, with reasons and instructions.
    """

    __slots__ = ("_notes", "skipped")

    def __init__(self, experimentors: Sequence[LongICLExperimentor], skipped: Sequence[Skipped]) -> None:
        self.experimentor = list(experimentors)
        self.skipped = tuple(skipped)
        self._notes = {missing.dataset: (f"SKIPPED: {missing}",) for missing in skipped}

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
        """For each skipped data set a run without queries: its scores are ``None``, its notes say why.

        It has the same scores as the data sets that are evaluated: those of the rounds or conditions, their mean, and
        the baselines.
        """
        first_experimentor = self.experimentor[0]
        score_names = [round_name(number) for number in first_experimentor.rounds]
        score_names += [*first_experimentor.queries.unavailable, "mean", "uniform", "majority"]
        if first_experimentor.options.experiment is None:
            score_names.append("nearest")
        no_scores: dict[str, float | None] = dict.fromkeys(score_names)
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
            runs[name] = DatasetRun(no_scores, no_scores, details, (), {}, ())
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

    def _recorded_limit(self) -> int | None:
        """Return the maximum number of test items; ``None`` if it leaves none out of any data set."""
        # A data set with fewer test items than the limit has none: the result is that without a limit.
        limits = [experimentor.limit for experimentor in self if experimentor.limit is not None]
        return max(limits, default=None)

    def _data_digest(self) -> str:
        """Return the digest of all files, for the signature."""
        identities = []
        for experimentor in self:
            identities += [experimentor.data.train_file.identity, experimentor.data.test_file.identity]
        return short_digest(identities)


def load_data(
    benchmark: str,
    folder: str | Path,
    datasets: Iterable[str | Dataset] | Dataset | None,
    *,
    verify: bool,
    announce: Callable[[str], object],
) -> tuple[tuple[LongICLData, ...], tuple[Skipped, ...]]:
    """Return the data sets of a benchmark whose files are there, and a record for each of the others.

    Args:
        benchmark: The name of the benchmark, for the message.
        folder: Folder with the files.
        datasets: As for :func:`~StaICC.long_icl.available.load_available`.
        verify: Refuse files whose digest is not the published one.
        announce: Called with the licence notice of each data set before its files are opened.

    Raises:
        DataMissingError: No data set is available.
    """
    loaded, skipped = load_available(folder, datasets, verify=verify, announce=announce)
    if not loaded:
        raise _no_data_error(benchmark, folder, skipped)
    return loaded, skipped


def _no_data_error(benchmark: str, folder: str | Path, skipped: Sequence[Skipped]) -> DataMissingError:
    """Return the error that a folder has no data set of a benchmark, in one line.

    Of one data set, it says which files are missing; of several, how to install them.

    Args:
        benchmark: The name of the benchmark.
        folder: The folder of the files.
        skipped: The data sets that were wanted.
    """
    state = "" if Path(folder).is_dir() else ", which does not exist"
    if len(skipped) == 1:
        return DataMissingError(f"{skipped[0].dataset} of {benchmark} is not in {folder}{state}: {skipped[0]}")
    names = [missing.dataset for missing in skipped]
    names_on_hub = [name for name in names if task_card(name).hub is not None]
    message = f"none of the data sets of {benchmark} is in {folder}{state}: {', '.join(names)}."
    command = "python -m StaICC data install long-icl"
    if names_on_hub:
        message += f" From the hub: {command} --hub --datasets {' '.join(names_on_hub)}."
    message += f" From files: {command} --from DIR (python -m StaICC data list says which)."
    if Path(folder) != Path(default_folder()):
        message += f" Both install them in {default_folder()}, which is used without {argument('data_dir')}."
    return DataMissingError(visible(message))


def notes_of_skipped(result: Result) -> dict[str, tuple[str, ...]]:
    """Return the notes of the data sets that the run of a result skipped."""
    return {name: details.notes for name, details in result.details.items() if not details.asked}


def recorded_name(name: str) -> str:
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

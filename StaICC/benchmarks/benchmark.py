"""A benchmark: one task over several data sets; building, running, aggregating and signing are written here, once."""

from __future__ import annotations

import math
import time
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, ClassVar, TypedDict

from StaICC.benchmarks.arguments import Metric
from StaICC.benchmarks.experimentor import DatasetRun, Experimentor
from StaICC.benchmarks.recording import digest_prompts, records_of
from StaICC.benchmarks.running import Running, RunSettings
from StaICC.benchmarks.statistics import Statistics
from StaICC.benchmarks.task import Task
from StaICC.datasets import Dataset, names
from StaICC.errors import ArgumentError, unknown_name
from StaICC.inference import Inference, Part
from StaICC.metrics import Kind, MetricSet
from StaICC.results import Result, Signature, describe_environment, escaped, short_digest
from StaICC.version import SAMPLER_VERSION, __version__

if TYPE_CHECKING:
    from typing_extensions import Unpack

__all__ = ["Benchmark", "DatasetChoice", "MetricChoice", "Settings"]

DatasetChoice = Sequence[str | Dataset] | str | Dataset | None
MetricChoice = str | MetricSet | Mapping[str, Metric]


class Settings(TypedDict, total=False):
    """What every benchmark can be told beside its own arguments."""

    limit: int | None
    """Ask only the first so many test rows of each data set: a trial, and the signature says so."""
    outputs: Kind
    """Read f's numbers as ``"probabilities"`` or ``"logits"``; ``"auto"`` decides for each condition as a whole."""
    statistics: Statistics | None
    """Intervals and baselines beside the scores."""


class Benchmark:
    """A task over data sets, called with the user's inference function.

    Args:
        task: What to ask of each data set and how to score it.
        k: Demonstrations per prompt.
        noisy_channel: Ask for the text given the label.
        metrics: Metric set by name, or functions by name.
        datasets: Names or data sets; the ten by default.
        **settings: See :class:`~StaICC.benchmarks.benchmark.Settings`.

    Attributes:
        experimentor: One experimentor for each data set, in order.
    """

    task_name: ClassVar[str]
    """The name that results carry."""

    def __init__(
        self,
        task: Task,
        k: int = 4,
        noisy_channel: bool = False,
        metrics: MetricChoice = "standard",
        datasets: DatasetChoice = None,
        **settings: Unpack[Settings],
    ) -> None:
        unknown = [name for name in settings if name not in Settings.__annotations__]
        if unknown:
            legal = ["k", "noisy_channel", "metrics", "datasets", *Settings.__annotations__]
            error = unknown_name(
                f"argument of {type(self).__name__}", unknown[0], legal, "It may have some of its own."
            )
            raise TypeError(str(error))
        self.task = task
        self._metrics = metrics
        self._settings = settings
        self.noisy_channel = noisy_channel
        self.experimentor = self._make(_read_datasets(datasets), k)
        seen = [one.name for one in self.experimentor]
        doubled = next((name for name in seen if seen.count(name) > 1), None)
        if doubled is not None:
            raise ArgumentError(f"the data set {doubled!r} was given twice; results are kept by name")

    def _make(self, datasets: Sequence[str | Dataset], k: int) -> list[Experimentor]:
        return [
            Experimentor(
                dataset, self.task, k=k, noisy_channel=self.noisy_channel, metrics=self._metrics, **self._settings
            )
            for dataset in datasets
        ]

    def __len__(self) -> int:
        return len(self.experimentor)

    def __getitem__(self, index: int | str) -> Experimentor:
        """Return an experimentor by position or by the name of its data set."""
        if isinstance(index, str):
            for one in self.experimentor:
                if one.name.casefold() == index.casefold():
                    return one
            raise unknown_name("data set in this benchmark", index, [one.name for one in self.experimentor])
        return self.experimentor[index]

    def __iter__(self) -> Iterator[Experimentor]:
        return iter(self.experimentor)

    def __repr__(self) -> str:
        return f"<{self.task.name} over {', '.join(one.name for one in self.experimentor)}>"

    def re_initialize(self, k: int = 4, noisy_channel: bool = False, keep_prompter: bool = False) -> None:
        """Make the experimentors anew.

        Args:
            k: Demonstrations per prompt.
            noisy_channel: Ask for the text given the label.
            keep_prompter: Keep the prompt writers with everything that was changed in them.
        """
        before = self.experimentor
        self.noisy_channel = noisy_channel
        self.experimentor = self._make([one.dataset for one in before], k)
        if keep_prompter:
            for old, new in zip(before, self.experimentor, strict=True):
                new.prompt_former = old.prompt_former

    def get_experimentors(self) -> list[Experimentor]:
        """Return the experimentors."""
        return self.experimentor

    def get_label_spaces_for_experimentors(self) -> list[list[str]]:
        """Return the label space of each data set."""
        return [one.get_label_space() for one in self.experimentor]

    def get_experiment_data(self) -> list[Any]:
        """Return the split of each data set."""
        return [one.triplet_dataset for one in self.experimentor]

    # -- running

    def auto_run(
        self,
        list_of_forward_inference: Sequence[Inference] | Inference | None = None,
        return_divided_results: bool = True,
        batched_inference: bool = False,
        *,
        preentered_prediction: Sequence[Any] | Mapping[str, Any] | None = None,
        return_outputs: bool = False,
        **run: Unpack[RunSettings],
    ) -> Result:
        """Run the benchmark.

        Args:
            list_of_forward_inference: One inference function for all data sets, or a list with one for each.
            return_divided_results: Whether the dictionary shows the scores of each data set.
            batched_inference: The functions take the list of all prompts and return the list of answers.
            preentered_prediction: Instead of functions: for each data set, in order or by name, one answer for
                each prompt.
            return_outputs: Keep the answers of each query in ``result.outputs``.
            **run: How to ask: store, executor, failure policy, progress; see
                :class:`~StaICC.benchmarks.running.RunSettings`.

        Returns:
            The result: a dictionary with the documented keys.

        Raises:
            ArgumentError: An argument is unfit, such as a list of functions of another length than the data sets.
            OutputError: A query has no usable answer and ``on_error="raise"``.
        """
        started = time.monotonic()
        functions: Sequence[Inference | None] = [None] * len(self)
        if list_of_forward_inference is not None:
            functions = self.functions_for_datasets(list_of_forward_inference)
        elif preentered_prediction is None:
            raise ArgumentError(
                "give an inference function, a list with one for each data set, or preentered_prediction"
            )
        given = self._given_each(preentered_prediction)
        runs = {}
        with Running(batched_inference, **run) as running:
            for number, one in enumerate(self.experimentor):
                part = Part(f"{self.task.name}, {one.name}", number, len(self))
                options = running.options_for(functions[number])
                runs[one.name] = one.run(functions[number], given[number], options, part)
        return self.collect(runs, time.monotonic() - started, return_outputs, return_divided_results)

    __call__ = auto_run

    def functions_for_datasets(self, functions: Sequence[Inference] | Inference) -> Sequence[Inference]:
        """Give one function for each data set, from one for all or a list.

        Raises:
            ArgumentError: It is no function, or the list has another length than the data sets.
        """
        if callable(functions):
            return [functions] * len(self)
        if isinstance(functions, (str, bytes)) or not isinstance(functions, Sequence):
            raise ArgumentError(f"the inference function must be callable, not {type(functions).__name__}")
        if len(functions) != len(self):
            raise ArgumentError(f"{len(functions)} inference functions given for {len(self)} data sets")
        for number, function in enumerate(functions):
            if not callable(function):
                raise ArgumentError(f"inference function {number} must be callable, not {type(function).__name__}")
        return functions

    def _given_each(self, given: Sequence[Any] | Mapping[str, Any] | None) -> Sequence[Any]:
        if given is None:
            return [None] * len(self)
        if isinstance(given, Mapping):
            missing = [one.name for one in self.experimentor if one.name not in given]
            if missing or len(given) != len(self):
                raise ArgumentError(
                    f"preentered_prediction needs exactly the data sets of this benchmark; lacks {missing}"
                )
            by_name: Mapping[str, Any] = given
            return [by_name[one.name] for one in self.experimentor]
        if isinstance(given, (str, bytes)) or not hasattr(given, "__len__") or len(given) != len(self):
            raise ArgumentError(
                f"preentered_prediction needs one list of answers for each of the {len(self)} data sets (here a list "
                f"of {len(self)} lists), not {given!r:.60}"
            )
        return given

    def collect(
        self, runs: Mapping[str, DatasetRun], seconds: float, keep_outputs: bool = False, with_divided: bool = True
    ) -> Result:
        """Put the runs over the data sets together.

        Args:
            runs: One run for each data set, by name.
            seconds: How long they took.
            keep_outputs: Keep the answers of each query.
            with_divided: Whether the dictionary shows the scores of each data set.

        Returns:
            The result.
        """
        keys = list(dict.fromkeys(key for run in runs.values() for key in run.averaged))
        averaged = {key: _mean([run.averaged.get(key) for run in runs.values()]) for key in keys}
        details = {name: run.details for name, run in runs.items()}
        return Result(
            self.task.name,
            {name: run.values for name, run in runs.items()},
            averaged,
            self.signature(runs),
            describe_environment(),
            details,
            {"seconds": seconds},
            {name: records_of(run.outcomes) for name, run in runs.items()} if keep_outputs else None,
            with_divided,
        )

    def signature(self, runs: Mapping[str, DatasetRun] | None = None) -> Signature:
        """Return what can move a number of this benchmark.

        Args:
            runs: The runs over the data sets; without them, prompts are written only to be digested.

        Returns:
            The signature.
        """
        each = [one.settings_for_signature() for one in self.experimentor]
        fields: dict[str, str | None] = (
            {key: _common([settings[key] for settings in each]) for key in each[0]} if each else {}
        )
        chosen = tuple(one.name for one in self.experimentor)
        if runs is None:
            prompts = {one.name: digest_prompts(one.all_queries())[0] for one in self.experimentor}
            failed = 0
        else:
            prompts = {name: run.details.prompts for name, run in runs.items()}
            failed = sum(run.details.failed for run in runs.values())
        options = ",".join(f"{key}={value}" for key, value in self.task.options().items())
        return Signature(
            {
                **fields,
                "benchmark": self.task.name,
                "datasets": None if chosen == names() else "+".join(map(escaped, chosen)),
                "data": short_digest(
                    [[one.dataset.table.digest, list(one.card.label_space)] for one in self.experimentor]
                ),
                "sampler": SAMPLER_VERSION,
                "options": options or None,
                "prompts": short_digest(prompts),
                "failed": str(failed) if failed else None,
                "version": __version__,
            }
        )


def _common(values: Sequence[str | None]) -> str | None:
    """Give the value that all share, or a digest of the list."""
    return values[0] if len(set(values)) == 1 else f"mixed-{short_digest(list(values))}"


def _mean(values: Sequence[float | None]) -> float | None:
    """Give the mean; one missing part makes it missing."""
    if not values or any(value is None for value in values):
        return None
    return math.fsum(value for value in values if value is not None) / len(values)


def _read_datasets(datasets: DatasetChoice) -> Sequence[str | Dataset]:
    if datasets is None:
        return names()
    if not isinstance(datasets, (str, Dataset, Sequence)):
        raise ArgumentError(f"datasets must be names or data sets in a list, not {datasets!r}")
    chosen = [datasets] if isinstance(datasets, (str, Dataset)) else list(datasets)
    for one in chosen:
        if not isinstance(one, (str, Dataset)):
            raise ArgumentError(f"a data set is given by its name or as a Dataset, not {one!r}")
    if not chosen:
        raise ArgumentError("no data set was chosen; leave datasets out for all ten, or name at least one")
    return chosen

"""LongICL as a benchmark: data sets, rounds, one table.

:class:`LongICL` loads the data sets whose files are there, asks an inference function round by round, and returns the
library's own :class:`~StaICC.results.Result`. All queries of a round are handed over together, so that a kernel which
keeps the computation of a shared beginning (or a server with prefix caching) pays for the context once.

A round in which a query has no answer has no score. Where the reason is that the prompt is longer than the model's
limit, the run goes on with the other rounds, whatever ``on_error`` says: the limit is the model's, not a fault.
"""

from __future__ import annotations

import logging
import os
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, ClassVar

from StaICC.benchmarks.long_icl.cards import cards
from StaICC.benchmarks.long_icl.collecting import (
    details_of,
    divided_of,
    mean,
    records_of,
    round_name,
    skipped_details,
)
from StaICC.benchmarks.long_icl.experimentor import LongICLExperimentor
from StaICC.benchmarks.long_icl.installing import default_folder
from StaICC.benchmarks.long_icl.limits import alike, is_too_long
from StaICC.benchmarks.long_icl.loading import LoadedFile, load_available, show_notice
from StaICC.benchmarks.long_icl.records import DataSetScore
from StaICC.benchmarks.running import Running, RunSettings
from StaICC.benchmarks.statistics import Statistics
from StaICC.errors import ArgumentError, DataMissingError, OutputError, unknown_name
from StaICC.inference import Failure, Inference, Part, RunOptions, ask
from StaICC.results import Result, Signature, describe_environment, short_digest
from StaICC.version import __version__

if TYPE_CHECKING:
    from typing_extensions import Unpack

__all__ = ["LongICL", "rebuild_long_icl"]

_log = logging.getLogger(__name__)

Functions = Inference | Sequence[Inference] | Mapping[str, Inference]


class LongICL:
    """Classification with many labels and long contexts.

    Args:
        data_dir: Folder with the published files; None for the folder where ``python -m StaICC data install long-icl``
            puts them.
        datasets: Names, such as ``["banking77", "tacred"]``; None for all six. One whose files are not there is
            skipped: it is reported by a warning and in the result, with what to do about it.
        rounds: Rounds, in the order in which they are asked.
        test_number: Number of test items (DialogRE: pairs); None for all.
        instruct: Show the label list in the prompt.
        variant: ``published``, or ``strict`` (see :mod:`StaICC.benchmarks.long_icl.strict`).
        arrangement: ``interleaved`` as published, or ``grouped`` by label (positional study).
        verify: Refuse files that are known not to be the published ones.
        statistics: Intervals and baselines beside the scores.
        announce: Gets the licence notice of each data set before its files are opened; by default it is logged as a
            warning, so that it is seen.

    Attributes:
        experimentor: One experimentor for each data set that is there, in order.
        skipped: The others, with the reason and instructions.

    Raises:
        DataMissingError: None of the data sets is there.
        DataDamagedError: A file is there, but cannot be used.
        ArgumentError: An argument is unfit.
        UnknownNameError: There is no such data set, variant or arrangement.

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
        datasets: Iterable[str] | None = None,
        rounds: Iterable[int] = (1, 2, 3, 4, 5),
        test_number: int | None = 500,
        instruct: bool = False,
        variant: str = "published",
        arrangement: str = "interleaved",
        *,
        verify: bool = True,
        statistics: Statistics | None = None,
        announce: Callable[[str], object] = show_notice,
    ) -> None:
        folder = default_folder() if data_dir is None else os.fspath(data_dir)
        rounds = tuple(rounds) if isinstance(rounds, Iterable) else rounds  # an iterator serves six data sets
        loaded, self.skipped = load_available(folder, datasets, verify=verify, announce=announce)
        if not loaded:
            listed = "\n".join(f"{one.dataset}: {one.reason}. {one.instructions}" for one in self.skipped)
            raise DataMissingError(f"none of the data sets of LongICL is in {folder}:\n{listed}")
        self.statistics = statistics or Statistics()
        self.experimentor = [
            LongICLExperimentor(data, rounds, test_number, instruct, variant, arrangement) for data in loaded
        ]

    def __len__(self) -> int:
        return len(self.experimentor)

    def __getitem__(self, index: int | str) -> LongICLExperimentor:
        """Return an experimentor by position or by the name of its data set.

        Raises:
            DataMissingError: The data set was skipped.
            UnknownNameError: This benchmark has no such data set.
        """
        if not isinstance(index, str):
            return self.experimentor[index]
        for one in self.experimentor:
            if one.name == index.casefold():
                return one
        for left_out in self.skipped:
            if left_out.dataset == index.casefold():
                raise DataMissingError(f"{index} was skipped: {left_out.reason}. {left_out.instructions}")
        raise unknown_name("data set in this benchmark", index, [one.name for one in self.experimentor])

    def __iter__(self) -> Iterator[LongICLExperimentor]:
        return iter(self.experimentor)

    def __repr__(self) -> str:
        return f"<LongICL over {', '.join(one.name for one in self.experimentor)}>"

    def get_experimentors(self) -> list[LongICLExperimentor]:
        """Return the experimentors."""
        return self.experimentor

    def get_label_spaces_for_experimentors(self) -> list[list[str]]:
        """Return the label space of each data set."""
        return [one.get_label_space() for one in self.experimentor]

    # -- running

    def auto_run(
        self,
        list_of_forward_inference: Functions | None = None,
        return_divided_results: bool = True,
        batched_inference: bool = False,
        *,
        preentered_prediction: Sequence[Any] | Mapping[str, Any] | None = None,
        return_outputs: bool = False,
        **run: Unpack[RunSettings],
    ) -> Result:
        """Run the benchmark.

        Args:
            list_of_forward_inference: One inference function for all data sets, a list with one for each, or functions
                by the name of the data set. It answers by text, by label index, or by one number for each label;
                Few-NERD and DialogRE need text (see :func:`~StaICC.prefabricate_inference.text_inference`).
            return_divided_results: Whether the dictionary shows the scores of each data set.
            batched_inference: The functions take the list of all prompts of a round and return the list of answers.
            preentered_prediction: Instead of functions: for each data set, in order or by name, one answer for each
                prompt of its ``prompt_set()``.
            return_outputs: Keep the answers of each query in ``result.outputs``.
            **run: How to ask: store, executor, failure policy, progress; see
                :class:`~StaICC.benchmarks.running.RunSettings`.

        Returns:
            The result: for each data set the scores ``1R`` to ``5R``, their mean and the baselines.

        Raises:
            ArgumentError: An argument is unfit.
            OutputError: A query has no usable answer and ``on_error="raise"``. (A prompt that is longer than the
                model's limit does not raise; its round has no score, and the result says so.)
        """
        started = time.monotonic()
        functions = self._by_dataset(list_of_forward_inference, "an inference function", callable)
        given = self._by_dataset(preentered_prediction, "a list of answers", lambda _: False)
        if list_of_forward_inference is None and preentered_prediction is None:
            raise ArgumentError("give an inference function, one for each data set, or preentered_prediction")
        for one, function, answered in zip(self.experimentor, functions, given, strict=True):
            if function is None and answered is None:
                raise ArgumentError(f"{one.name} has neither an inference function nor preentered_prediction")
            _check_function(one, function)
        timing: dict[str, float] = {}
        answers: dict[str, list[Any]] = {}
        parts = sum(len(one.rounds) for one in self.experimentor)
        with Running(batched_inference, **run) as running:
            for number, one in enumerate(self.experimentor):
                function = functions[number]
                if function is None:
                    answers[one.name] = list(given[number])
                    continue
                options = running.options_for(function, group_prefixes=True, free_text=True)
                answers[one.name] = []
                for asked in one.rounds:
                    name = f"{one.name}, {round_name(asked)}"
                    before = time.monotonic()
                    part = Part(f"{self.task_name}, {name}", len(timing), parts)
                    answers[one.name] += _ask_round(one, asked, function, part, options)
                    timing[name] = time.monotonic() - before
        scores = {one.name: one.score(answers[one.name]) for one in self.experimentor}
        timing["seconds"] = time.monotonic() - started
        return self._collect(scores, answers, timing, return_outputs, return_divided_results)

    __call__ = auto_run

    def _by_dataset(self, given: Any, what: str, serves_all: Callable[[Any], bool]) -> list[Any]:
        """One thing for each data set: from one for all, a list, or a mapping by name."""
        if given is None or serves_all(given):
            return [given] * len(self)
        names = [one.name for one in self.experimentor]
        if isinstance(given, Mapping):
            if set(given) != set(names):
                raise ArgumentError(f"{what} is needed for each of {', '.join(names)}; given: {', '.join(given)}")
            return [given[name] for name in names]
        if isinstance(given, (str, bytes)) or not isinstance(given, Sequence) or len(given) != len(self):
            count = f"{len(given)} were given" if isinstance(given, Sequence) else f"got {type(given).__name__}"
            raise ArgumentError(f"{what} is needed for each of the {len(self)} data sets ({', '.join(names)}); {count}")
        return list(given)

    def _collect(
        self,
        scores: Mapping[str, DataSetScore],
        answers: Mapping[str, Sequence[Any]],
        timing: Mapping[str, float],
        keep_outputs: bool,
        with_divided: bool,
    ) -> Result:
        divided = {one.name: divided_of(scores[one.name]) for one in self.experimentor}
        details = {
            one.name: details_of(one, scores[one.name], answers[one.name], self.statistics) for one in self.experimentor
        }
        figures = [*map(round_name, self.experimentor[0].rounds), "mean", "uniform", "majority"]
        for left_out in self.skipped:
            divided[left_out.dataset] = dict.fromkeys(figures)
            details[left_out.dataset] = skipped_details(left_out)
        outputs = (
            {one.name: records_of(one, scores[one.name], answers[one.name]) for one in self.experimentor}
            if keep_outputs
            else None
        )
        failed = sum(one.failed for one in details.values())
        prompts = {one.name: details[one.name].prompts for one in self.experimentor}
        return Result(
            self.task_name,
            divided,
            {key: mean([own[key] for own in divided.values()]) for key in figures},
            self._signed(prompts, failed),
            describe_environment(),
            details,
            timing,
            outputs,
            with_divided,
        )

    def signature(self) -> Signature:
        """Return what can move a number of this benchmark."""
        return self._signed({one.name: one.digests()[0] for one in self.experimentor}, 0)

    def _signed(self, prompts: Mapping[str, str], failed: int) -> Signature:
        first = self.experimentor[0]
        chosen = [one.name for one in self.experimentor]
        options = {
            "variant": first.variant,
            "rounds": "+".join(map(str, first.rounds)),
            "instruct": "yes" if first.instruct else None,
            "arrangement": None if first.arrangement == "interleaved" else first.arrangement,
        }
        return Signature(
            {
                "benchmark": self.task_name,
                "datasets": None if chosen == list(cards()) else "+".join(chosen),
                "data": short_digest(
                    [_identity(file) for one in self.experimentor for file in (one.data.train_file, one.data.test_file)]
                ),
                "rows": "all" if first.test_number is None else str(first.test_number),
                "options": ",".join(f"{key}={value}" for key, value in options.items() if value is not None),
                "statistics": self.statistics.for_signature(),
                "prompts": short_digest(prompts),
                "failed": str(failed) if failed else None,
                "version": __version__,
            }
        )


def rebuild_long_icl(result: Result, data_dir: str | os.PathLike[str] | None = None) -> LongICL:
    """Make the benchmark that a result's signature describes, to verify its prompts.

    Args:
        result: A result of LongICL.
        data_dir: Folder with the data; by default, where they are installed.

    Returns:
        The benchmark over the data sets that the result has scores of.

    Raises:
        ArgumentError: The signature is not one of LongICL.
        DataMissingError: None of the data sets is there.
    """
    fields = result.signature.fields
    options = dict(option.split("=", 1) for option in (fields.get("options") or "").split(",") if "=" in option)
    rows, rounds = fields.get("rows") or "", options.get("rounds", "").split("+")
    if not (rows == "all" or rows.isdigit()) or not all(map(str.isdigit, rounds)):
        raise ArgumentError(f"{result.signature} is no signature of LongICL; pass the benchmark itself")
    return LongICL(
        data_dir,
        [name for name, details in result.details.items() if details.asked],
        tuple(map(int, rounds)),
        None if rows == "all" else int(rows),
        options.get("instruct") == "yes",
        options.get("variant", "published"),
        options.get("arrangement", "interleaved"),
        verify=False,  # the prompts are what is compared
    )


def _identity(file: LoadedFile) -> str:
    """Tell a file's rows from all others'; published rows are the same however they are written."""
    if file.verified:
        return file.spec.rows_sha256 or file.spec.sha256[0]
    return file.sha256


def _check_function(one: LongICLExperimentor, function: Inference | None) -> None:
    """Refuse, before anything is asked, what cannot be called, and kernels that give labels where text is due."""
    if function is not None and not callable(function):
        raise ArgumentError(f"{one.name}: the inference function must be callable, not {type(function).__name__}")
    if one.card.structured and callable(getattr(function, "generate", None)):
        raise ArgumentError(
            f"{one.card.title} asks for several labels at once, so it needs text, and {type(function).__name__} scores "
            "labels; wrap it: text_inference(kernel), from StaICC.prefabricate_inference.text_inference"
        )


def _ask_round(
    one: LongICLExperimentor, number: int, function: Inference, part: Part, options: RunOptions
) -> list[Any]:
    """Ask the queries of a round together."""
    queries = one.round_queries(number)
    try:
        answers: list[Any] = list(ask(function, queries, part, options))
    except OutputError as error:
        ((reason, _),) = alike({str(error).removeprefix(f"{part.name}, "): 1})
        if options.on_error != "raise" or not is_too_long(reason):
            raise
        _log.warning("%s: not scored: a prompt is longer than the model's limit: %s", part.name, reason)
        return [Failure(reason)] * len(queries)
    if one.card.structured:
        for place, answer in enumerate(answers):
            if not isinstance(answer, (str, Failure)):
                reason = f"{one.card.title} asks for several labels at once, so the answer must be text"
                if options.on_error == "raise":
                    raise OutputError(f"{part.name}, query {place}: {reason}, not {type(answer).__name__}")
                answers[place] = Failure(reason)
    return answers

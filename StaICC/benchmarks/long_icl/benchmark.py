"""The LongICL benchmark: six data sets, one to five rounds each.

:class:`LongICL` loads the available data sets, evaluates an inference function round by round, and returns a
:class:`~StaICC.results.Result`. It passes all queries of a round together, so a kernel or server with prefix caching
computes the context once.

The score of a round with a failed query is undefined. If a prompt exceeds the context length of the model, the run
continues with the next round, also with ``on_error="raise"``.
"""

from __future__ import annotations

import itertools
import logging
import os
import re
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, ClassVar, Literal, cast

from StaICC.benchmarks.benchmark import mean
from StaICC.benchmarks.experimentor_list import ExperimentorList
from StaICC.benchmarks.long_icl.aggregate import (
    details_of,
    divided_of,
    means_of,
    records_of,
    skipped_details,
)
from StaICC.benchmarks.long_icl.data.cards import cards
from StaICC.benchmarks.long_icl.data.installing import default_folder
from StaICC.benchmarks.long_icl.data.loading import show_notice
from StaICC.benchmarks.long_icl.data.own import load_chosen
from StaICC.benchmarks.long_icl.experimentor import LongICLExperimentor
from StaICC.benchmarks.long_icl.experiments import EXPERIMENT_ITEMS, Experiment
from StaICC.benchmarks.long_icl.records import DataSetScore, round_name
from StaICC.benchmarks.predictions import Predictions
from StaICC.benchmarks.running import RunContext, RunSettings
from StaICC.benchmarks.statistics import Statistics
from StaICC.datasets import Dataset
from StaICC.datasets.own_data import record_of
from StaICC.errors import ArgumentError, DataMissingError, OutputError
from StaICC.inference import Failure, Inference, Part, RunOptions, Unparsed, ask
from StaICC.inference.failure_reasons import alike, is_too_long
from StaICC.inference.reply_parser import PARSER_VERSION
from StaICC.inference.workload import GuidesReplies, work_of
from StaICC.results import Result, Signature, describe_environment, escaped, short_digest
from StaICC.results.provenance import utc_now
from StaICC.version import __version__

if TYPE_CHECKING:
    from typing_extensions import Unpack

    from StaICC.benchmarks.forecast import Forecast

_log = logging.getLogger(__name__)

Functions = Inference | Sequence[Inference] | Mapping[str, Inference]


class LongICL(ExperimentorList[LongICLExperimentor]):
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
        variant: ``published``, or ``strict`` (see :mod:`StaICC.benchmarks.long_icl.protocol.strict`).
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
        rounds: Iterable[int] = (1, 2, 3, 4, 5),
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
            datasets = [name for name, one in cards().items() if not one.structured]
        loaded, self.skipped = load_chosen(folder, datasets, verify=verify, announce=announce)
        if not loaded:
            listed = "\n".join(f"{one.dataset}: {one.reason}. {one.instructions}" for one in self.skipped)
            raise DataMissingError(f"none of the data sets of LongICL is in {folder}:\n{listed}")
        self.statistics = statistics or Statistics()
        self.experimentor = [
            LongICLExperimentor(
                data, rounds, test_number, instruct, variant, arrangement, parsing, unparsed, experiment
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
                raise DataMissingError(f"{index} was skipped: {skipped.reason}. {skipped.instructions}")
        return super().__getitem__(index)

    def __repr__(self) -> str:
        return f"<LongICL over {', '.join(one.name for one in self)}>"

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
            list_of_forward_inference: One inference function for all data sets, a list with one for each, or a mapping
                by data set name. It returns text, a label index, or one score per label; Few-NERD and DialogRE need
                text (see :func:`~StaICC.kernels.text_inference`).
            return_divided_results: Whether the dictionary shows the scores of each data set.
            batched_inference: The functions take the list of all prompts of a round and return a list of predictions.
            preentered_prediction: Predictions instead of functions: for each data set, in order or by name, one
                prediction for each prompt of its ``prompt_set()``.
            return_outputs: Keep the prediction of each query in ``result.outputs``.
            **run: Store, executor, failure policy, progress; see
                :class:`~StaICC.benchmarks.running.RunSettings`.

        Returns:
            The result: for each data set the scores ``1R`` to ``5R``, their mean and the baselines.

        Raises:
            ArgumentError: An argument is invalid.
            OutputError: A query fails and ``on_error="raise"``. A prompt that exceeds the context length of the model
                does not raise; the score of its round is undefined.
        """
        started, began = time.monotonic(), utc_now()
        functions, given = self.functions_and_predictions(list_of_forward_inference, preentered_prediction)
        for one, function in zip(self, functions, strict=True):
            _check_function(one, function)
        timing: dict[str, float] = {}
        answers: dict[str, list[Any]] = {}
        parts, asked = sum(len(one.rounds) for one in self.experimentor), itertools.count()
        with RunContext(batched_inference, **run) as running:
            running.start(functions)
            for one, function, predictions in zip(self, functions, given, strict=True):
                if function is None:
                    answers[one.name] = list(predictions)
                    continue
                options = running.options_for(function, group_prefixes=True, free_text=True)
                answers[one.name] = []
                for number in one.rounds:
                    name = f"{one.name}, {round_name(number)}"
                    before = time.monotonic()
                    part = Part(f"{self.task_name}, {name}", next(asked), parts)
                    answers[one.name] += (found := _ask_round(one, number, function, part, options))
                    if one.unparsed == "error":
                        one.score_round(number, found)  # ends the run now, not after all rounds
                    timing[name] = time.monotonic() - before
                    if one.experiment is None:
                        continue
                    longest = max(one.round_queries(number), key=lambda query: len(query.prompt))
                    work = work_of(function, [longest.prompt], longest.label_space)
                    if work is not None:  # of one prompt, without what the model may generate
                        scores_labels = any(not isinstance(one, (str, Failure)) for one in found)
                        timing[f"{name}, tokens"] = float(work.longest - (0 if scores_labels else work.output))
        scores = {one.name: one.score(answers[one.name]) for one in self.experimentor}
        timing["seconds"] = time.monotonic() - started
        used = {one.name: function for one, function in zip(self.experimentor, functions, strict=True)}
        origin = Predictions.of_run(running, used, batched_inference, began)
        result = self._collect(scores, answers, timing, origin, return_outputs, return_divided_results)
        return running.deliver(result)

    __call__ = auto_run

    def forecast(self, function: Inference, **options: Any) -> Forecast:
        """Forecast the run of a function; see :meth:`StaICC.benchmarks.Benchmark.forecast`."""
        from StaICC.benchmarks.forecast import forecast  # few runs are forecast

        for one in self:
            _check_function(one, function)
        parts = {
            f"{one.name}, {round_name(number)}": one.round_queries(number) for one in self for number in one.rounds
        }
        return forecast(parts, function, True, **options)

    def _collect(
        self,
        scores: Mapping[str, DataSetScore],
        answers: Mapping[str, Sequence[Any]],
        timing: Mapping[str, float],
        predictions: Predictions,
        keep_outputs: bool,
        with_divided: bool,
    ) -> Result:
        divided, details, outputs = {}, {}, {}
        for one in self.experimentor:
            scored, given = scores[one.name], answers[one.name]
            divided[one.name] = divided_of(one, scored, self.statistics)
            details[one.name] = details_of(one, scored, given, self.statistics)
            if keep_outputs:
                outputs[one.name] = records_of(one, scored, given)
        first = self.experimentor[0]
        figures = [*map(round_name, first.rounds), *first.unavailable, "mean", "uniform", "majority"]
        for skipped in self.skipped:
            divided[skipped.dataset] = dict.fromkeys(figures)
            details[skipped.dataset] = skipped_details(skipped)
        failed = sum(one.failed for one in details.values())
        prompts = {one.name: details[one.name].prompts for one in self.experimentor}
        own = [one.data.dataset for one in self.experimentor if one.data.dataset is not None]
        return Result(
            benchmark=self.task_name,
            divided=divided,
            averaged={key: mean([values.get(key) for values in divided.values()]) for key in figures},
            signature=self._signed(prompts, failed, predictions),
            provenance=predictions.provenance(answers, details),
            environment=describe_environment(),
            details=details,
            means=means_of(divided, details),
            timing=dict(timing),
            outputs=outputs if keep_outputs else None,
            with_divided=with_divided,
            warnings=tuple(dict.fromkeys(f"{one.card.name}: {text}" for one in own for text in one.remarks)),
            files={one.card.name: record for one in own if (record := record_of(one.source, one.card))},
        )

    def signature(self) -> Signature:
        """Return every option of this benchmark that can change a score."""
        return self._signed({one.name: one.digests()[0] for one in self.experimentor}, 0)

    def _signed(self, prompts: Mapping[str, str], failed: int, predictions: Predictions | None = None) -> Signature:
        first = self.experimentor[0]
        chosen = [one.name for one in self.experimentor]
        experiment = first.experiment
        options = {
            "variant": first.variant,
            "rounds": "+".join(map(str, first.rounds)) if experiment is None else None,
            "instruct": "yes" if first.instruct else None,
            "arrangement": None if first.arrangement == "interleaved" else first.arrangement,
            "parsing": None if first.parsing == first.variant else first.parsing,
            "parser": PARSER_VERSION if first.parsing == "tolerant" else None,
            **({} if experiment is None else experiment.options()),
        }
        return Signature(
            {
                "benchmark": self.task_name,
                "datasets": None if chosen == list(cards()) else "+".join(map(escaped, chosen)),
                "data": short_digest(
                    [file.identity for one in self.experimentor for file in (one.data.train_file, one.data.test_file)]
                ),
                "rows": str(next((one.test_number for one in self if one.test_number is not None), "all")),
                "options": ",".join(f"{key}={value}" for key, value in options.items() if value is not None),
                "scoring": predictions.scoring(chosen) if predictions is not None else None,
                "unparsed": None if first.unparsed == "wrong" else first.unparsed,
                "statistics": self.statistics.for_signature(),
                "prompts": short_digest(prompts),
                "failed": str(failed) if failed else None,
                "version": __version__,
            }
        )


def rebuild_long_icl(
    result: Result,
    data_dir: str | os.PathLike[str] | None = None,
    own: Mapping[str, Dataset] | None = None,
) -> LongICL:
    """Return the benchmark that a result's signature describes, to verify its prompts.

    Args:
        result: A result of LongICL.
        data_dir: Folder with the data; by default, the installed data.
        own: The user's own data sets by name.

    Returns:
        The benchmark over the data sets that the result has scores of.

    Raises:
        ArgumentError: The signature is not one of LongICL, or the user's own data are not given.
        DataMissingError: No data set is available.
    """
    fields = result.signature.fields
    options = dict(option.split("=", 1) for option in (fields.get("options") or "").split(",") if "=" in option)
    rows, rounds, levels = fields.get("rows") or "", options.get("rounds", "1+2+3+4+5"), options.get("levels", "")
    numbers = f"{rounds}+{levels or 0}+{options.get('shots', 3)}+{options.get('seed', 0)}"
    if not re.fullmatch("all|[0-9]{1,9}", rows) or not re.fullmatch(r"[0-9]{1,9}(\+[0-9]{1,9})*", numbers):
        raise ArgumentError(f"{result.signature} is not a signature of LongICL; pass the benchmark itself")
    names = [name for name, details in result.details.items() if details.asked]
    own = own or {}
    unknown = next((name for name in names if name not in cards() and name not in own), None)
    if unknown is not None:
        raise ArgumentError(f"the rows of {unknown} are the user's own; pass the benchmark itself")
    experiment = None
    if "experiment" in options:
        experiment = Experiment(
            options["experiment"],
            tuple(map(int, levels.split("+"))) if levels else (),
            int(options.get("shots", 3)),
            int(options.get("seed", 0)),
        )
    return LongICL(
        data_dir,
        [own.get(name, name) for name in names],
        tuple(map(int, rounds.split("+"))),
        None if rows == "all" else int(rows),
        options.get("instruct") == "yes",
        options.get("variant", "published"),
        options.get("arrangement", "interleaved"),
        parsing=options.get("parsing"),
        unparsed=cast("Unparsed", fields.get("unparsed") or "wrong"),
        experiment=experiment,
        verify=False,  # the prompts are compared
    )


def _check_function(one: LongICLExperimentor, function: Inference | None) -> None:
    """Refuse kernels that score labels, or let the model write one label, if the data set needs text."""
    if one.card.structured and isinstance(function, GuidesReplies) and function.guided:
        raise ArgumentError(
            f"{one.card.title}: items have several labels, but guided={function.guided!r} allows one. Leave guided out"
        )
    if one.card.structured and callable(getattr(function, "generate", None)):
        raise ArgumentError(
            f"{one.card.title}: items have several labels, so predictions must be text, but {type(function).__name__} "
            "scores labels; wrap it: text_inference(kernel), from StaICC.kernels.text_inference"
        )


def _ask_round(
    one: LongICLExperimentor, number: int | str, function: Inference, part: Part, options: RunOptions
) -> list[Any]:
    """Return the predictions or failures of a round."""
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
                reason = f"items of {one.card.title} have several labels, so the prediction must be text"
                if options.on_error == "raise":
                    raise OutputError(f"{part.name}, query {place}: {reason}, not {type(answer).__name__}")
                answers[place] = Failure(reason)
    return answers

"""The experimentor: one data set of a benchmark, with every control that a user has over it.

It is the ``single_experimentor`` of 0.1.1: ``benchmark[i]`` is one. It owns the data set's split, the prompt writer,
and the choice of demonstrations; asks its task for conditions; and has the runner ask and the task score. It keeps
nothing from run to run, so a second run equals the first.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, Literal

from StaICC.benchmarks.arguments import (
    Metric,
    check_k,
    check_limit,
    check_outputs,
    given_answers,
    read_metrics,
)
from StaICC.benchmarks.recording import details_of, outputs_of
from StaICC.benchmarks.statistics import Statistics
from StaICC.benchmarks.task import Condition, Outcome, Task
from StaICC.datasets import Card, Dataset, load_dataset
from StaICC.errors import ArgumentError, OutputError, StaICCError
from StaICC.inference import Answer, Failure, Inference, Part, RunOptions, ask
from StaICC.metrics import Kind, MetricSet, metric_set
from StaICC.prompting import (
    DemonstrationLists,
    PromptRenderer,
    PromptSettings,
    PromptWriter,
    Query,
    StableRandom,
    SubsetView,
    TripletSplit,
    as_argument,
    check_demonstration_lists,
    restrict_to_domain,
    sample_demonstrations,
    split_dataset,
)
from StaICC.results import DatasetDetails, digest, escaped

__all__ = ["DatasetRun", "Experimentor", "Metric"]

_Mode = Literal["default", "in-domain", "out-of-domain", "manual"]


@dataclass(frozen=True, slots=True)
class DatasetRun:
    """What a run over one data set gives."""

    values: Mapping[str, Any]
    """Scores under the documented keys."""
    averaged: Mapping[str, float | None]
    """The figures that enter the mean over data sets."""
    details: DatasetDetails
    outcomes: Sequence[Outcome]


class Experimentor:
    """One data set of a benchmark.

    Args:
        dataset: A data set, or the name of one of the benchmark's.
        task: What to ask and how to score.
        k: Demonstrations per prompt.
        noisy_channel: Ask for the text given the label.
        metrics: The metric set, by name (``"standard"``, ``"0.1.1"``) or as functions by name.
        limit: Ask only the first so many test rows (a trial; the signature says so).
        outputs: How to read the numbers that f returns; ``"auto"`` decides for the whole matrix.
        statistics: Intervals and baselines beside the scores; the defaults by default.
    """

    def __init__(
        self,
        dataset: Dataset | str,
        task: Task,
        *,
        k: int = 4,
        noisy_channel: bool = False,
        metrics: str | MetricSet | Mapping[str, Metric] = "standard",
        limit: int | None = None,
        outputs: Kind = "auto",
        statistics: Statistics | None = None,
    ) -> None:
        self.dataset = load_dataset(dataset) if isinstance(dataset, str) else dataset
        self.task = task
        self.metric_set, self._own_metrics = read_metrics(metrics)
        check_outputs(outputs, self.metric_set)
        if statistics is not None and not isinstance(statistics, Statistics):
            raise ArgumentError(f"statistics must be a Statistics, not {statistics!r}")
        if not isinstance(noisy_channel, bool):
            raise ArgumentError(f"noisy_channel must be True or False, not {noisy_channel!r}")
        self.outputs: Kind = outputs
        self.statistics = statistics or Statistics()
        self._limit = check_limit(limit)
        self._starts_noisy = noisy_channel
        self._k = check_k(k)
        self._mode: _Mode = "default"
        self._manual: DemonstrationLists = ()

    # -- what stands

    @cached_property
    def _split(self) -> TripletSplit:
        """The three sets, drawn when they are first needed: making a benchmark is cheap."""
        split, rows = split_dataset(self.dataset), self.task.test_rows
        if rows is None or rows >= len(split.test):
            return split
        test = SubsetView(split.test.name, self.dataset.table, split.test.indexes[:rows], self.card.label_space)
        return TripletSplit(split.calibration, split.demonstration, test)

    @cached_property
    def prompt_former(self) -> PromptWriter:
        """The prompt writer; it may be replaced."""
        writer = PromptWriter(self.card, self._split, self._starts_noisy)
        pseudo = getattr(self.task, "pseudo_queries", None)  # tasks that ask meaningless queries have them
        if pseudo is not None:
            writer.pseudo_prompt = pseudo(self)
        return writer

    @property
    def card(self) -> Card:
        """The data set's card."""
        return self.dataset.card

    @property
    def name(self) -> str:
        """The data set's name."""
        return self.dataset.card.name

    def demonstration_set(self) -> SubsetView:
        """Return the rows that demonstrations are drawn from."""
        return self._split.demonstration

    def test_set(self) -> SubsetView:
        """Return the rows that are asked."""
        return self._split.test

    def calibration_set(self) -> SubsetView:
        """Return the rows that are left for training a calibration."""
        return self._split.calibration

    @property
    def triplet_dataset(self) -> TripletSplit:
        """The three sets."""
        return self._split

    def get_label_space(self) -> list[str]:
        """Return the labels that the inference function is given."""
        return self.prompt_former.get_label_space()

    def get_prompt_writter_from_dataline(self) -> Callable[..., str | list[str]]:
        """Return the function that writes a prompt from given texts."""
        return self.prompt_former.write_prompt_from_dataline

    @property
    def limit(self) -> int | None:
        """How many test rows are asked, if that was limited."""
        return self._limit

    # -- demonstrations

    def get_k(self) -> int:
        """Return how many demonstrations a prompt has."""
        return self._k

    def set_k(self, k: int) -> None:
        """Set how many demonstrations a prompt has; demonstrations are sampled anew.

        Raises:
            ArgumentError: ``k`` is no whole number of at least 0.
        """
        self._k = check_k(k)
        self.reset_demonstration_sampler()

    def get_repeat_times(self) -> int:
        """Return how often each test row is asked: once with demonstrations set by hand."""
        return 1 if self._mode == "manual" else self.task.repeats

    def set_demonstration_sampler(self, sampler: Sequence[Sequence[int]]) -> None:
        """Choose the demonstrations by hand; each test row is asked once then.

        Args:
            sampler: For each test row, ``k`` positions of the demonstration set, in the order shown.

        Raises:
            ArgumentError: Wrong number of rows, a row of other length than ``k``, or a position that does not exist.
        """
        self._manual = check_demonstration_lists(
            sampler, len(self._split.test), self._k, len(self._split.demonstration)
        )
        self._mode = "manual"

    def set_in_domain_mode(self) -> None:
        """Redraw demonstrations so that each query's label occurs among its demonstrations."""
        self._set_mode("in-domain")

    def set_out_of_domain_mode(self) -> None:
        """Redraw demonstrations so that no query's label occurs among its demonstrations."""
        self._set_mode("out-of-domain")

    def _set_mode(self, mode: _Mode) -> None:
        before = self._mode
        self._mode = mode
        try:
            self.demonstration_lists()
        except StaICCError:
            self._mode = before
            raise

    def reset_demonstration_sampler(self) -> None:
        """Go back to the benchmark's demonstrations."""
        self._mode = "default"
        self._manual = ()

    def demonstration_lists(self) -> DemonstrationLists:
        """Return the demonstrations of each prompt; prompt ``i + r * rows`` asks test row ``i`` in repeat ``r``."""
        if self._mode == "manual":
            return self._manual
        pool, test = len(self._split.demonstration), self._split.test
        if self._mode == "default":
            return sample_demonstrations(pool, self._k, self.task.repeats * len(test))
        labels = [test.label(row) for row in range(len(test))] * self.task.repeats
        inside = self._mode == "in-domain"
        return restrict_to_domain(pool, self._k, labels, self._split.demonstration.label, inside, self.name)

    @property
    def demonstration_sampler(self) -> list[list[int]]:
        """The demonstrations of each prompt, as lists; change them by :meth:`set_demonstration_sampler`."""
        return [list(positions) for positions in self.demonstration_lists()]

    # -- queries

    def queries(
        self,
        settings: PromptSettings | None = None,
        pseudo: Iterator[tuple[str, ...]] | None = None,
        noise: StableRandom | None = None,
    ) -> tuple[Query, ...]:
        """Write the queries of all repeats of all test rows.

        Args:
            settings: Prompt settings; those of the prompt writer by default.
            pseudo: Replaces the texts of the queries, one after the other.
            noise: Generator of the label noise; a fresh one by default.

        Returns:
            The queries, repeat by repeat, rows beyond the limit left out.
        """
        settings = settings or self.prompt_former.settings
        renderer = PromptRenderer(self._split, settings)
        generator = noise or StableRandom()
        test = self._split.test
        asked = [test.row(number) for number in range(len(test))]
        found = []
        for number, positions in enumerate(self.demonstration_lists()):
            repeat, row = divmod(number, len(asked))
            texts = asked[row].texts if pseudo is None else next(pseudo)
            if self._limit is not None and row >= self._limit and not settings.label_wrong_rate:
                continue
            prompt = renderer.render(positions, texts, generator)  # past the limit too: noise is drawn query by query
            if self._limit is None or row < self._limit:
                found.append(Query(prompt, settings.label_space, asked[row].label, row, repeat))
        return tuple(found)

    def conditions(self) -> Sequence[Condition]:
        """Return what is asked: named lists of queries."""
        return self.task.conditions(self)

    def all_queries(self) -> list[Query]:
        """Return the queries of all conditions, in order."""
        return [query for condition in self.conditions() for query in condition.queries]

    def prompt_set(self) -> list[Any]:
        """Return all prompts, in order: texts, or in the noisy channel lists with one text for each label."""
        return [as_argument(query.prompt) for query in self.all_queries()]

    def __len__(self) -> int:
        return len(self.all_queries())

    # -- running

    @property
    def metrics(self) -> dict[str, Any]:
        """The metrics by name, those added by hand last."""
        return {**{metric.name: metric.function for metric in self.metric_set.metrics}, **self._own_metrics}

    @property
    def own_metrics(self) -> Mapping[str, Metric]:
        """The metrics that the user added."""
        return dict(self._own_metrics)

    def add_metric(self, name: str, metric: Metric) -> None:
        """Add a metric of one's own.

        Args:
            name: Its name among the results.
            metric: A function of (true label indexes, rows as the inference function returned them; a label index
                comes as a row with a single 1). A value that is no finite number is reported as undefined.

        Raises:
            ArgumentError: It cannot be called, or the name is taken.
        """
        if not callable(metric):
            raise ArgumentError(f"the metric {name!r} must be callable, not {type(metric).__name__}")
        if not isinstance(name, str) or name in self.metrics:
            raise ArgumentError(f"a metric needs a name of its own; {name!r} is taken or no text")
        self._own_metrics[name] = metric

    def run(
        self,
        forward_inference: Inference | None = None,
        preentered_prediction: Sequence[Any] | None = None,
        options: RunOptions | None = None,
        part: Part | None = None,
    ) -> DatasetRun:
        """Ask, or take given predictions, and score.

        Args:
            forward_inference: The inference function.
            preentered_prediction: One answer for each prompt of :meth:`prompt_set` instead.
            options: How to ask.
            part: Name and number of this data set within a larger run.

        Returns:
            Scores and details.

        Raises:
            ArgumentError: Neither or an unfit one of the two was given.
            OutputError: A query has no usable answer.
        """
        part = part or Part(f"{self.task.name}, {self.name}")
        conditions = self.conditions()
        if preentered_prediction is not None:
            answers = given_answers(preentered_prediction, [q for one in conditions for q in one.queries], part.name)
        elif forward_inference is None:
            raise ArgumentError(
                "give forward_inference (a function) or preentered_prediction (one answer for each prompt)"
            )
        elif options is not None and options.batched:
            answers = [
                answer
                for condition in conditions
                for answer in ask(forward_inference, condition.queries, part, options)
            ]
        else:
            queries = [query for condition in conditions for query in condition.queries]
            answers = ask(forward_inference, queries, part, options)
        return self.assemble(conditions, answers, part.name)

    def assemble(
        self, conditions: Sequence[Condition], answers: Sequence[Answer | Failure], where: str | None = None
    ) -> DatasetRun:
        """Score the answers of all conditions.

        Args:
            conditions: What was asked.
            answers: The answers of all conditions, in order.
            where: Name of this data set's run, for messages.

        Returns:
            Scores and details.
        """
        outcomes = []
        start = 0
        for condition in conditions:
            end = start + len(condition.queries)
            try:
                outcomes.append(Outcome(condition, answers[start:end], self.outputs))
                _ = outcomes[-1].kind  # reads the numbers now, so that what cannot be read is named here
            except OutputError as error:
                place = f", condition {condition.name}" if len(conditions) > 1 else ""
                raise OutputError(f"{where or self.name}{place}: {error}") from error
            start = end
        scores = self.task.score(self, outcomes)
        details = self._details(outcomes, scores.missing)
        return DatasetRun(scores.values, scores.averaged, details, outcomes)

    def _details(self, outcomes: Sequence[Outcome], missing: Mapping[str, str]) -> DatasetDetails:
        wanted = self.statistics.resamples > 0 and not self.metric_set.as_released
        scorable = all(outcome.queries for outcome in outcomes)
        intervals = self.task.intervals(self, outcomes, self.statistics) if wanted and scorable else {}
        scored = {metric.name for metric in self.metric_set.metrics}
        if self.task.scores_accuracy:  # of the known metrics only those that were asked for; a task's own figures stay
            left_out = {metric.name for metric in metric_set("standard").metrics} - scored
            intervals = {key: value for key, value in intervals.items() if _metric_of(key) not in left_out}
        tried = self.statistics.tried if self.task.scores_accuracy and "accuracy" in scored else None
        return details_of(outcomes, missing, intervals, tried)

    def auto_run(
        self,
        forward_inference: Inference | None = None,
        preentered_prediction: Sequence[Any] | None = None,
        batched_inference: bool = False,
        return_outputs: bool = False,
        *,
        options: RunOptions | None = None,
    ) -> tuple[dict[str, Any], bool] | tuple[dict[str, Any], bool, dict[str, Any]]:
        """Run the experiment.

        Args:
            forward_inference: The inference function.
            preentered_prediction: One answer for each prompt of :meth:`prompt_set` instead.
            batched_inference: The function takes the list of all prompts and returns the list of answers.
            return_outputs: Return the answers too.
            options: How to ask (store, executor, ...).

        Returns:
            The scores under the documented keys, whether every query has an answer, and with ``return_outputs`` a
            dictionary of ``ground_truth``, ``predictions`` and ``predicted_probabilities``.
        """
        if batched_inference:
            options = replace(options or RunOptions(), batched=True)
        run = self.run(forward_inference, preentered_prediction, options)
        scores, success = dict(run.values), run.details.failed == 0
        return (scores, success, outputs_of(run.outcomes)) if return_outputs else (scores, success)

    __call__ = auto_run

    def __repr__(self) -> str:
        return f"<{self.task.name} on {self.name}: k = {self._k}, {self._mode} demonstrations>"

    def settings_for_signature(self) -> dict[str, str | None]:
        """Return what can move a number of this data set, as text by signature field."""
        writer = self.prompt_former
        demonstrations: str | None = None if self._mode == "default" else self._mode
        if self._mode == "manual":
            demonstrations = f"manual-{digest([list(positions) for positions in self._manual])[:12]}"
        return {
            "k": str(self._k),
            "repeats": str(self.get_repeat_times()),
            "demonstrations": demonstrations,
            "template": f"changed-{digest([writer.get_config_dict(), writer.cut_by_length])[:12]}"
            if writer.changed
            else None,
            "channel": "noisy" if writer.settings.noisy_channel else "direct",
            "limit": None if self._limit is None else str(self._limit),
            "metrics": "+".join(map(escaped, [self.metric_set.name, *self._own_metrics])),
            "outputs": None if self.outputs == "auto" else self.outputs,
            "statistics": None if self.metric_set.as_released else self.statistics.for_signature(),
        }


def _metric_of(key: str) -> str:
    """Give the metric that an interval's key belongs to."""
    return key.removeprefix("sensitivity.").removesuffix(" (bootstrap)")

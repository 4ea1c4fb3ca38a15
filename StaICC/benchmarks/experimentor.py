"""The experimentor: one data set of a benchmark, with the settings that a user can change.

``benchmark[i]`` is one (0.1.1: ``single_experimentor``). It holds the data set's split, the prompt writer and the
choice of demonstrations. The task writes the conditions, the runner predicts, and
:mod:`~StaICC.benchmarks.evaluation` scores. A run leaves no state, so a second run equals the first.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, MutableMapping, Sequence
from dataclasses import asdict, replace
from itertools import islice
from typing import TYPE_CHECKING, Any, get_args

from StaICC.arguments import keywords_of_release, known_name, validate_integer
from StaICC.benchmarks.running import DatasetTask
from StaICC.benchmarks.task import Condition, Scoring, Statistics, TaskInput
from StaICC.datasets.catalogue import PUBLISHED_SPLIT, get_card
from StaICC.datasets.dataset import load_dataset
from StaICC.datasets.source import BuiltIn, ReleasedWheel
from StaICC.errors import ArgumentError, OutputError
from StaICC.frozen import FixedAttributes, FrozenList
from StaICC.inference.contract import check_answer, check_batch
from StaICC.inference.replies import Failure, Unparsed
from StaICC.metrics.classification import Kind
from StaICC.metrics.metric_set import MetricFunction, MetricSet, metric_set
from StaICC.prompting.demonstrations import (
    DemonstrationSampler,
    check_demonstration_lists,
    restrict_to_domain,
    sample_demonstrations,
    sample_nested,
)
from StaICC.prompting.prompt_writer import PromptWriter
from StaICC.prompting.views import split_dataset
from StaICC.registry import origin_of
from StaICC.safe_text import one_line

if TYPE_CHECKING:
    from StaICC.benchmarks.evaluation import DatasetRun
    from StaICC.benchmarks.task import Answers, Task
    from StaICC.datasets.catalogue import Card
    from StaICC.datasets.dataset import Dataset
    from StaICC.inference.contract import Answer, Inference
    from StaICC.inference.runner import Part, RunOptions
    from StaICC.metrics.metric_set import Metric
    from StaICC.prompting.demonstrations import DemonstrationLists
    from StaICC.prompting.prompt_writer import Query
    from StaICC.prompting.views import SubsetView, TripletSplit

METRIC_SETS = ("standard", "0.1.1")
"""The metric sets of this library."""


def metrics_field(metrics: MetricSet) -> str:
    """Return the metrics as text; a digest of the code distinguishes functions of the same name.

    Args:
        metrics: The metric set.

    Returns:
        The name of the set; unless it is one of the library's, its further metrics. A metric of the user is written
        ``name@digest`` (with the distribution of a plug-in before the digest), and with ``unidentified`` where its
        source is not available.

    Example:
        >>> metrics_field(metric_set("standard"))
        'standard'
    """
    from StaICC.results.signature import escaped

    first, *_ = metrics.parts
    known = next((own for own in map(metric_set, METRIC_SETS) if own.name == first), None)
    inherited = () if known is None or known.as_released != metrics.as_released else known.metrics
    parts = [escaped(first)] if inherited or not metrics.metrics or first != metrics.metrics[0].label else []
    parts += [_member(metric) for metric in metrics.metrics if metric not in inherited]
    parts += [f"without {escaped(metric.name)}" for metric in inherited if metric not in metrics.metrics]
    return "+".join([*parts, "as released"] if metrics.as_released and not inherited else parts)


def metrics_record(metrics: MetricSet) -> dict[str, Any]:
    """Return the metrics as JSON values.

    Args:
        metrics: The metric set.

    Returns:
        ``set``: the name of a metric set of this library (:func:`~StaICC.metrics.metric_set`); ``names``: the metrics
        of this library; ``own``: the others.
    """
    of_library, others = [], []
    for metric in metrics.metrics:
        read_as_standard = metric.of_release and "0.1.1" not in metrics.parts  # the name alone would be read so
        if metric.of_library and not read_as_standard:
            of_library.append(metric.name)
        else:
            others.append(metric.name)
    named = [part for part in metrics.parts if part in METRIC_SETS or part in of_library]
    unknown = [part for part in metrics.parts if part not in (*named, *(metric.label for metric in metrics.metrics))]
    return {"set": "+".join(named), "names": of_library, "own": list(dict.fromkeys([*others, *unknown]))}


def _member(metric: Metric) -> str:
    from StaICC.inference.identity import code_mark
    from StaICC.results.signature import escaped, short_digest

    if metric.of_release:
        return f"{escaped(metric.name)}@0.1.1"
    if metric.of_library:
        return escaped(metric.name)
    code, _, mark = code_mark(metric.function).partition("-")
    parts = [origin_of(metric.function).replace(" ", "-"), short_digest([code, metric.requires_probabilities]), mark]
    return f"{escaped(metric.name)}@{'-'.join(part for part in parts if part)}"


class MetricTable(MutableMapping[str, MetricFunction]):
    """The metric functions of a benchmark by name. All of its data sets share it, so that each metric has a mean.

    Args:
        metrics: The name of a metric set, a metric set, or functions by name.

    Attributes:
        metric_set: The metrics as an immutable set.
    """

    __slots__ = ("metric_set",)
    metric_set: MetricSet

    def __init__(self, metrics: str | MetricSet | Mapping[str, MetricFunction | Metric] | MetricTable) -> None:
        self.metric_set = metrics.metric_set if isinstance(metrics, MetricTable) else metric_set(metrics)

    def __getitem__(self, name: str) -> MetricFunction:
        return {metric.name: metric.function for metric in self.metric_set.metrics}[name]

    def __setitem__(self, name: str, metric: MetricFunction | Metric) -> None:
        """Add a metric, or replace one.

        Raises:
            ArgumentError: The name is not a text, or the metric cannot be called.
        """
        (added,) = metric_set({name: metric}).metrics
        self.metric_set = self.metric_set.adding(added)

    def __delitem__(self, name: str) -> None:
        _ = self[name]  # raises for an unknown name
        kept = tuple(metric for metric in self.metric_set.metrics if metric.name != name)
        self.metric_set = replace(self.metric_set, metrics=kept)

    def __iter__(self) -> Iterator[str]:
        return (metric.name for metric in self.metric_set.metrics)

    def __len__(self) -> int:
        return len(self.metric_set.metrics)

    def __repr__(self) -> str:
        return repr(dict(self))


def read_predictions(given: Any, queries: Sequence[Query], run_name: str) -> list[Answer | Failure]:
    """Validate predictions that were computed elsewhere, as those of an inference function are.

    Args:
        given: One prediction for each query, in order: a sequence or an array.
        queries: The queries.
        run_name: Benchmark and data set, for messages.

    Raises:
        ArgumentError: It is not a list, has another length than the queries, or an index of its own.
        OutputError: A prediction cannot be used; the message names its query.
    """
    try:
        predictions = check_batch(given, len(queries), "got", "Give one for each prompt of prompt_set()")
    except OutputError as error:
        raise ArgumentError(f"{run_name}, preentered_prediction: {error}") from error
    checked: list[Answer | Failure] = []
    for number, (prediction, query) in enumerate(zip(predictions, queries, strict=True)):
        try:
            checked.append(check_answer(prediction, query.label_space))
        except OutputError as error:
            raise OutputError(f"{run_name}, query {number}: {error}") from error
    return checked


SAMPLERS = ("default", "nested", "nested-shared")
"""How demonstrations are drawn: as published; so that those of a smaller ``k`` are the first ones of a larger; the
latter with one list for all test rows of a repeat."""


class Experimentor(FixedAttributes, DatasetTask):
    """One data set of a benchmark.

    Args:
        dataset: A data set, or its name.
        task: Writes the conditions and scores their outcomes.
        k: Demonstrations per prompt.
        noisy_channel: Score the text given the label (noisy channel).
        metrics: The metric set, by name (``"standard"``, ``"0.1.1"``) or as functions by name; or the metrics of a
            benchmark, which are shared.
        limit: The maximum number of test rows; the signature contains it.
        outputs: How to read rows of numbers; ``"auto"`` decides once for each condition.
        statistics: Options of the confidence intervals and random baselines.
        sampler: How demonstrations are drawn, one of :data:`SAMPLERS`.
        unparsed: How generated replies without a label count: ``"error"``, ``"wrong"`` or ``"excluded"``.

    Attributes:
        dataset: The data set.
        task: The task.
        metrics: The metric functions by name. Assigning an item adds or replaces a metric, for all data sets of the
            benchmark.
        limit: The maximum number of test rows.
        starts_noisy: Whether the prompts are for the noisy channel unless the prompt writer is changed.
        statistics: Options of the confidence intervals and random baselines.
        unparsed: How generated replies without a label count.
    """

    __slots__ = (
        *("_domain_lists", "_drawn_sizes", "_k", "_manual", "_mode", "_outputs", "_repeats", "_rows", "_sampler"),
        *("_triplet", "_writer"),
        *("dataset", "limit", "metrics", "starts_noisy", "statistics", "task", "unparsed"),
    )

    def __init__(
        self,
        dataset: Dataset | str,
        task: Task,
        *,
        k: int = 4,
        noisy_channel: bool = False,
        metrics: str | MetricSet | Mapping[str, MetricFunction | Metric] | MetricTable = "standard",
        limit: int | None = None,
        outputs: Kind = "auto",
        statistics: Statistics | None = None,
        sampler: str = "default",
        unparsed: Unparsed = "error",
    ) -> None:
        self.dataset = load_dataset(dataset) if isinstance(dataset, str) else dataset
        self.task = task
        self.metrics = metrics if isinstance(metrics, MetricTable) else MetricTable(metrics)
        self.outputs = outputs
        if statistics is not None and not isinstance(statistics, Statistics):
            raise ArgumentError(f"statistics must be a Statistics, not {statistics!r}")
        if not isinstance(noisy_channel, bool):
            raise ArgumentError(f"noisy_channel must be True or False, not {noisy_channel!r}")
        self.statistics = statistics or Statistics()
        self.unparsed = known_name("value of unparsed", unparsed, get_args(Unparsed))
        self.limit = None if limit is None else validate_integer("limit", limit, 1)
        self.starts_noisy = noisy_channel
        self._k = validate_integer("k", k, 0)
        self._sampler = known_name("sampler", sampler, SAMPLERS)
        self._mode = sampler
        self._manual: DemonstrationLists = ()
        self._domain_lists: DemonstrationLists = ()
        self._drawn_sizes: tuple[int, int] | None = None
        self._repeats: int | None = None
        self._rows: frozenset[int] | None = None
        self._triplet: TripletSplit | None = None
        self._writer: PromptWriter | None = None

    # -- data and prompts

    @property
    def triplet_dataset(self) -> TripletSplit:
        """The three sets; drawn at first use, so that building a benchmark is cheap."""
        if self._triplet is None:
            split, rows = split_dataset(self.dataset), self.task.test_rows
            (test,) = split.test.split([range(len(split.test))[:rows]])
            self._triplet = replace(split, test=test)
        return self._triplet

    @property
    def prompt_former(self) -> PromptWriter:
        """The prompt writer; it may be replaced."""
        if self._writer is None:
            self._writer = PromptWriter(self.card, self.triplet_dataset, self.starts_noisy)
            self._writer.set_pseudo_queries(self.task.pseudo_queries(self.card, self.triplet_dataset.demonstration))
        return self._writer

    @prompt_former.setter
    def prompt_former(self, writer: PromptWriter) -> None:
        if not isinstance(writer, PromptWriter):
            raise ArgumentError(f"prompt_former: got {writer!r:.60}, expected a PromptWriter")
        self._writer = writer

    @property
    def outputs(self) -> Kind:
        """How to read rows of numbers."""
        return self._outputs

    @outputs.setter
    def outputs(self, outputs: Kind) -> None:
        known_name("reading of outputs", outputs, get_args(Kind))
        if self.metric_set.as_released and outputs != "auto":
            raise ArgumentError(
                f"the metric set {self.metric_set.name!r} reads rows of numbers by the rule of StaICC 0.1.1; "
                f"leave outputs at 'auto', or use the metric set 'standard' with outputs={outputs!r}"
            )
        self._outputs: Kind = outputs

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
        return self.triplet_dataset.demonstration

    def test_set(self) -> SubsetView:
        """Return the test rows."""
        return self.triplet_dataset.test

    def calibration_set(self) -> SubsetView:
        """Return the rows for training a calibration."""
        return self.triplet_dataset.calibration

    def get_label_space(self) -> list[str]:
        """Return the label names that the inference function receives."""
        return self.prompt_former.get_label_space()

    def get_prompt_writter_from_dataline(self) -> Callable[..., str | list[str]]:
        """Return the function that writes a prompt from given texts."""
        return self.prompt_former.write_prompt_from_dataline

    # -- demonstrations

    def get_k(self) -> int:
        """Return the number of demonstrations per prompt."""
        return self._k

    def set_k(self, k: int) -> None:
        """Set the number of demonstrations per prompt, and go back to the benchmark's demonstrations.

        Raises:
            ArgumentError: ``k`` is not an integer of at least 0.
        """
        self._k = validate_integer("k", k, 0)
        self._drawn_sizes = len(self.triplet_dataset.demonstration), len(self.triplet_dataset.test)
        self.reset_demonstration_sampler()

    def get_repeat_times(self) -> int:
        """Return how often each test row is used: once with demonstrations set by hand."""
        if self._mode == "manual":
            return 1
        return self.task.repeats if self._repeats is None else self._repeats

    @property
    def _repeat_times(self) -> int:
        """How often each test row is used, under the name of 0.1.1; assigning 1 leaves out the other repeats.

        As in 0.1.1, the benchmark's value returns with new demonstrations (:meth:`set_k`, a mode, a reset).
        """
        return self.get_repeat_times()

    @_repeat_times.setter
    def _repeat_times(self, times: int) -> None:
        largest = 1 if self._mode == "manual" else self.task.repeats
        repeats = validate_integer("_repeat_times", times, 1, largest)
        self._repeats = None if repeats == largest else repeats

    def set_demonstration_sampler(self, sampler: Sequence[Sequence[int]]) -> None:
        """Set the demonstrations by hand; each test row is then used once.

        Args:
            sampler: For each test row, ``k`` positions of the demonstration set, in the order shown.

        Raises:
            ArgumentError: The number of rows is wrong, or a row is not a list of ``k`` existing positions.
        """
        rows, shown = len(self.triplet_dataset.test), len(self.triplet_dataset.demonstration)
        self._manual = check_demonstration_lists(sampler, rows, self._k, shown)
        self._mode = "manual"
        self._repeats = None

    def set_in_domain_mode(self) -> None:
        """Redraw demonstrations so that each query's label occurs among its demonstrations."""
        self._draw_by_label("in-domain")

    def set_out_of_domain_mode(self) -> None:
        """Redraw demonstrations so that no query's label occurs among its demonstrations."""
        self._draw_by_label("out-of-domain")

    def _draw_by_label(self, mode: str) -> None:
        shown, test = self.triplet_dataset.demonstration, self.triplet_dataset.test
        labels = tuple(shown.label(position) for position in range(len(shown)))
        query_labels = tuple(test.label(row) for row in range(len(test))) * self.task.repeats
        _, drawn_rows = self._sizes_of_draw()
        self._domain_lists = restrict_to_domain(
            labels, self._k, query_labels, mode == "in-domain", self.name, self.task.repeats * drawn_rows
        )
        self._mode = mode
        self._repeats = None

    def _sizes_of_draw(self) -> tuple[int, int]:
        """Return how many demonstrations and test rows there were when the demonstrations were drawn.

        As in 0.1.1, a set that is cut later does not redraw them; :meth:`set_k` does.
        """
        if self._drawn_sizes is not None:
            return self._drawn_sizes
        return self.card.split.demonstration, self._uncut_test_rows()

    def _uncut_test_rows(self) -> int:
        rows, most = self.card.split.test, self.task.test_rows
        return rows if most is None else min(rows, most)

    def reset_demonstration_sampler(self) -> None:
        """Go back to the benchmark's demonstrations."""
        self._mode = self._sampler
        self._manual = ()
        self._repeats = None

    def demonstration_lists(self) -> DemonstrationLists:
        """Return the demonstrations of each prompt; prompt ``i + r * rows`` is for test row ``i`` in repeat ``r``."""
        lists = self._drawn_lists()[: self.get_repeat_times() * len(self.triplet_dataset.test)]
        size, (drawn_from, _) = len(self.triplet_dataset.demonstration), self._sizes_of_draw()
        if size < drawn_from and any(position >= size for positions in lists for position in positions):
            raise ArgumentError(
                f"{self.name}: the demonstration set was cut to {size} rows, and demonstrations were drawn from "
                f"{drawn_from}; set_k({self._k}) draws from those that are left"
            )
        return lists

    def _drawn_lists(self) -> DemonstrationLists:
        """Return the demonstrations for all repeats of the benchmark."""
        if self._mode == "manual":
            return self._manual
        if self._mode != self._sampler:
            return self._domain_lists
        pool, rows = self._sizes_of_draw()
        prompts = self.task.repeats * rows
        if self._mode == "default":
            return sample_demonstrations(pool, self._k, prompts)
        return sample_nested(pool, self._k, prompts, rows if self._mode == "nested-shared" else 1)

    @property
    def demonstration_sampler(self) -> DemonstrationSampler:
        """The demonstrations for all repeats, whatever :attr:`_repeat_times` is.

        Assigning one list for each test row is the same as :meth:`set_demonstration_sampler`.
        """
        return DemonstrationSampler(FrozenList(positions) for positions in self._drawn_lists())

    @demonstration_sampler.setter
    def demonstration_sampler(self, sampler: Sequence[Sequence[int]]) -> None:
        self.set_demonstration_sampler(sampler)

    # -- queries

    def task_input(self) -> TaskInput:
        """Return the input of the task's conditions.

        Raises:
            ArgumentError: The user assigned pseudo-queries, which only prompts written one by one use.
        """
        if self.prompt_former.has_own_pseudo_queries:
            raise ArgumentError(
                f"{self.name}: prompt_former.pseudo_prompt was assigned; the prompts of a run do not use it. Write "
                "them with prompt_former.write_prompt(positions), use Contextual_bias or Domain_bias, or set it to None"
            )
        return TaskInput(
            card=self.card,
            split=self.triplet_dataset,
            k=self._k,
            repeats=self.get_repeat_times(),
            settings=self.prompt_former.settings,
            demonstration_lists=self.demonstration_lists(),
            limit=self.limit,
        )

    def conditions(self) -> Sequence[Condition]:
        """Return the conditions: named lists of queries."""
        conditions, rows = self.task.conditions(self.task_input()), self._rows
        if rows is None:
            return conditions
        return [Condition(own.name, tuple(query for query in own.queries if query.row in rows)) for own in conditions]

    @property
    def row_scores(self) -> Sequence[str]:
        """The scores that are means over test rows, so that a run can stop early."""
        return self.task.row_scores

    @property
    def row_count(self) -> int:
        """The number of test rows within the limit."""
        rows = len(self.triplet_dataset.test)
        return rows if self.limit is None else min(rows, self.limit)

    def restricted_to(self, rows: Collection[int]) -> Experimentor:
        """Return this data set with some of its test rows only, as after early stopping.

        Its runs have no intervals or baselines: those assume that the number of rows was fixed.

        Args:
            rows: The test rows.
        """
        without = Statistics(level=self.statistics.level, intervals=False)
        return self.copy_with(_rows=frozenset(rows), statistics=without)

    def __len__(self) -> int:
        return len(self.all_queries())

    # -- running

    @property
    def metric_set(self) -> MetricSet:
        """The metrics as an immutable set."""
        return self.metrics.metric_set

    @keywords_of_release(metric_name="name", metric_function="metric")
    def add_metric(self, name: str, metric: MetricFunction | Metric) -> None:
        """Add a metric to the benchmark, for all of its data sets. A metric of this name is replaced, with a warning.

        Args:
            name: Its name in the results.
            metric: A function of (true label indexes, one row of probabilities for each query; one-hot rows
                for predicted label indexes), or the record of one. A value that is not a finite number is reported as
                undefined.

        Raises:
            ArgumentError: It cannot be called, or the name is not a text.
        """
        replaced = name in self.metrics
        self.metrics[name] = metric
        if replaced:
            warnings.warn(f"the metric {name!r} is replaced", stacklevel=3)  # 2 is the decorator

    def run(
        self,
        forward_inference: Inference | None = None,
        preentered_prediction: Sequence[Any] | None = None,
        options: RunOptions | None = None,
        part: Part | None = None,
    ) -> DatasetRun:
        """Predict, or take given predictions, and score.

        Args:
            forward_inference: The inference function.
            preentered_prediction: One prediction for each prompt of :meth:`prompt_set` instead.
            options: Options of the run.
            part: Name and number of this data set within a larger run.

        Returns:
            Scores and details.

        Raises:
            ArgumentError: Neither is given, or the predictions do not fit the prompts.
            OutputError: A query has no usable prediction.
        """
        from StaICC.inference.runner import Part, RunOptions

        part = part or Part(f"{self.task.name}, {self.name}")
        if preentered_prediction is not None:
            given = read_predictions(preentered_prediction, self.all_queries(), part.name)
            return self.assemble(self.conditions(), given, part.name)
        if forward_inference is None:
            raise ArgumentError("got neither, expected forward_inference or preentered_prediction (for each prompt)")
        (run,) = run_together(forward_inference, {part.name: self}, part, options or RunOptions())
        return run

    def assemble(self, conditions: Sequence[Condition], answers: Answers, where: str | None = None) -> DatasetRun:
        """Score the predictions of all conditions.

        Args:
            conditions: The conditions.
            answers: The predictions of all conditions, in order.
            where: Name of this data set's run, for messages.

        Returns:
            Scores and details.
        """
        from StaICC.benchmarks.evaluation import evaluate
        from StaICC.benchmarks.scored_columns import score_rows

        run = evaluate(self.task, self._scoring(), conditions, answers, where or self.name)
        details = replace(run.details, data=self.data_digest)
        if self._rows is not None:  # a run that stopped early: its verification reads the queries with their prompts
            return replace(run, details=replace(details, baselines={}))
        scores = score_rows(answers)
        first = 0
        for outcome in run.outcomes:
            after = first + len(outcome.answers)
            outcome.keep_columns(None if scores is None else scores[first:after])
            first = after
        return replace(run, details=details, answers=answers if scores is None else scores)

    @property
    def data_digest(self) -> str:
        """The digest by which comparisons know the data: labels may be renamed or in another order."""
        from StaICC.results.signature import digest

        test = self.triplet_dataset.test
        return self.dataset.table.digest if self.task.content_free else digest([*map(test.texts, range(len(test)))])

    def _scoring(self) -> Scoring:
        return Scoring(self.metric_set, self._k, self.statistics, self.outputs, self.unparsed)

    @keywords_of_release(input_prediction="preentered_prediction")
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
            preentered_prediction: One prediction for each prompt of :meth:`prompt_set` instead.
            batched_inference: The function takes the list of all prompts and returns the list of predictions.
            return_outputs: Return the predictions too.
            options: Options of the run (store, executor, ...).

        Returns:
            The scores under the documented keys, whether every query has a prediction, and with ``return_outputs``
            a dictionary of ``ground_truth``, ``predictions``, ``predicted_probabilities`` (the rows that the function
            returned) and ``normalised_probabilities`` (what the metrics read them as; ``None`` if ambiguous).
        """
        from StaICC.benchmarks.records import outputs_of
        from StaICC.inference.runner import RunOptions

        if batched_inference:
            options = replace(options or RunOptions(), batched=True)
        run = self.run(forward_inference, preentered_prediction, options)
        scores, success = dict(run.values), run.details.failed == 0
        return (scores, success, outputs_of(run.outcomes)) if return_outputs else (scores, success)

    def __call__(self, *arguments: Any, **keywords: Any) -> Any:
        """Run the experiment; arguments as for :meth:`auto_run`, also that of a class derived from this one."""
        return self.auto_run(*arguments, **keywords)

    def __repr__(self) -> str:
        return one_line(f"<{self.task.name} on {self.name}: k = {self._k}, {self._mode} demonstrations>")

    def arguments(self) -> dict[str, Any]:
        """Return the settings as JSON values: the arguments of the constructor, and what the user changed since."""
        return {
            "k": self._k,
            "noisy_channel": self.prompt_former.settings.noisy_channel,
            "metrics": metrics_record(self.metric_set),
            "limit": self.limit,
            "outputs": self.outputs,
            "unparsed": self.unparsed,
            "sampler": self._sampler,
            "demonstrations": self._mode,
            "statistics": asdict(self.statistics),
            "changed": self._changed_by_hand(),
        }

    def _changed_by_hand(self) -> list[str]:
        """Return the settings that the arguments of the constructor do not contain."""
        changed = []
        if self.prompt_former.changed:
            changed.append("template")
        if self._mode == "manual":
            changed.append("demonstrations")
        if self._repeats is not None:
            changed.append("repeats")
        built_in = isinstance(self.dataset.source, (BuiltIn, ReleasedWheel))
        if self._cut_sets() or (built_in and not self._published_split()):  # own data record their split
            changed.append("split")
        return changed

    def _cut_sets(self) -> bool:
        """Return whether a set was cut (:meth:`~StaICC.prompting.views.SubsetView.cut_by_index`)."""
        split = self.card.split
        return self.triplet_dataset.sizes != (split.calibration, split.demonstration, self._uncut_test_rows())

    def _published_split(self) -> bool:
        """Return whether the split is the one that the benchmark publishes for the data set."""
        split = self.card.split
        if not isinstance(self.dataset.source, (BuiltIn, ReleasedWheel)):
            return split == PUBLISHED_SPLIT
        return split == get_card(self.name).split

    def _split_field(self) -> str | None:
        """Return the split for the signature; ``None`` for the published one."""
        if self._cut_sets():
            sizes = "+".join(map(str, self.triplet_dataset.sizes))
            return f"{self.card.split}-cut-to-{sizes}"
        return None if self._published_split() else str(self.card.split)

    def settings_for_signature(self) -> dict[str, str | None]:
        """Return every setting that can change a number of this data set, as text by signature field."""
        from StaICC.benchmarks.evaluation import settings_tried
        from StaICC.results.signature import digest

        writer, arguments = self.prompt_former, self.arguments()
        writer_settings = [writer.get_config_dict(), writer.cut_by_length]
        tried = settings_tried(self.task, self._scoring())
        demonstrations: str | None = None if self._mode == "default" else self._mode
        if self._mode == "manual":
            demonstrations = f"manual-{digest([list(positions) for positions in self._manual])[:12]}"
        return {
            "split": self._split_field(),
            "k": str(arguments["k"]),
            "repeats": str(self.get_repeat_times()),
            "demonstrations": demonstrations,
            "template": f"changed-{digest(writer_settings)[:12]}" if writer.changed else None,
            "channel": "noisy" if arguments["noisy_channel"] else "direct",
            "limit": None if self.limit is None or self.limit >= len(self.triplet_dataset.test) else str(self.limit),
            "metrics": metrics_field(self.metric_set),
            "outputs": None if arguments["outputs"] == "auto" else arguments["outputs"],
            "unparsed": None if arguments["unparsed"] == "error" else arguments["unparsed"],
            "statistics": self.statistics.for_signature(not self.metric_set.as_released, tried is not None),
        }


def strictest_policy(experimentors: Iterable[Experimentor]) -> Unparsed:
    """Return how replies without a label count that several experimentors share."""
    policies = [experimentor.unparsed for experimentor in experimentors]
    return "error" if "error" in policies else policies[0]


def run_together(
    function: Inference, experimentors: Mapping[str, Experimentor], part: Part, options: RunOptions
) -> list[DatasetRun]:
    """Run experimentors of one data set in one pass: each distinct query is predicted once, unless in batches.

    Args:
        function: The inference function.
        experimentors: The experimentors, by the name of their run.
        part: Name and number of this data set within the run.
        options: Options of the run.

    Raises:
        ArgumentError: The settings of an experimentor changed during the run.
        OutputError: A query has no usable prediction.
    """
    from StaICC.benchmarks.early_checks import early_checks
    from StaICC.benchmarks.result_warnings import (
        answers_by_key,
        log_dataset_warnings,
        log_prompt_warnings,
        with_model_warnings,
    )
    from StaICC.inference.runner import predict_queries
    from StaICC.progress import Progress

    first, unparsed = next(iter(experimentors.values())), strictest_policy(experimentors.values())
    settings = [experimentor.settings_for_signature() for experimentor in experimentors.values()]
    written = [experimentor.conditions() for experimentor in experimentors.values()]
    lists = [condition.queries for conditions in written for condition in conditions]
    queries = [query for of_condition in lists for query in of_condition]
    queries_of = [[query for condition in conditions for query in condition.queries] for conditions in written]
    log = options.log  # the options refer to the function below: if it refers to them, the queries stay in memory

    def log_warnings() -> None:
        for experimentor, own in zip(experimentors.values(), queries_of, strict=True):
            log_prompt_warnings(experimentor.name, function, own, log)

    options = replace(
        options,
        unparsed=unparsed,
        before_predicting=log_warnings,
        watched=first.name,
        early_checks=early_checks(first.outputs, one_label_is_suspicious=first.task.scores_accuracy),
    )
    calls = lists if options.batched else [queries]
    answers = [answer for call in calls for answer in predict_queries(function, call, part, options)]
    for (name, experimentor), before in zip(experimentors.items(), settings, strict=True):
        for field, value in experimentor.settings_for_signature().items():
            if value != before[field]:
                raise ArgumentError(
                    f"{name}: {field} changed from {before[field]} to {value} during the run, so the result "
                    "would have another signature than its prompts. Change settings before or after a run"
                )
    if options.progress is not None:
        known = {(query.prompt, query.label_space): answer for query, answer in zip(queries, answers, strict=True)}
        failed = sum(isinstance(answer, Failure) for answer in known.values())
        options.progress(Progress(len(known), len(known), part.name, part.number, part.parts, 0, failed, "statistics"))
    left = iter(answers)
    runs = []
    for (name, experimentor), conditions, own in zip(experimentors.items(), written, queries_of, strict=True):
        predictions = list(islice(left, len(own)))
        run = with_model_warnings(experimentor.assemble(conditions, predictions, name), function, own, predictions)
        log_dataset_warnings(experimentor.name, run, function, answers_by_key(own, predictions), options.log)
        runs.append(run)
    return runs

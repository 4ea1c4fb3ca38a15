"""What the experimentors of all benchmarks share: how the queries of one data set are predicted, how they are scored.

An experimentor writes the queries of one data set of a benchmark (its *conditions*), and its task scores their
predictions. The queries of :class:`~StaICC.benchmarks.experimentor.Experimentor` come from a triplet split and a
demonstration sampler; those of :class:`~StaICC.long_icl.experimentor.LongICLExperimentor` have long contexts.
"""

from __future__ import annotations

import bisect
import functools
from abc import abstractmethod
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, ClassVar

from StaICC.errors import ArgumentError, OutputError
from StaICC.frozen import FixedAttributes
from StaICC.inference.contract import check_answer, check_batch
from StaICC.inference.replies import Failure
from StaICC.lazy_sequence import LazySequence
from StaICC.prompting.prompt_writer import as_argument

if TYPE_CHECKING:
    from typing_extensions import Self

    from StaICC.benchmarks.evaluation import DatasetRun
    from StaICC.benchmarks.task import Answers, Condition, Scorer, Scoring, Statistics
    from StaICC.inference.contract import Answer, Inference
    from StaICC.inference.replies import Unparsed
    from StaICC.inference.runner import Part, RunOptions
    from StaICC.metrics.classification import Kind
    from StaICC.progress import ProgressCallback
    from StaICC.prompting.demonstrations import DemonstrationLists
    from StaICC.prompting.prompt_writer import PromptWriter, Query
    from StaICC.prompting.views import SubsetView
    from StaICC.results.details import DatasetDetails


@dataclass(frozen=True, slots=True)
class PredictedQueries:
    """The predictions of queries, with the times that were measured."""

    answers: list[Answer | Failure]
    """One prediction or failure for each query, in order."""
    timing: Mapping[str, float] = field(default_factory=dict)
    """What was measured in addition to the duration of the run: seconds, or a number of tokens, by name."""


class BaseExperimentor(FixedAttributes):
    """One data set of a benchmark: its queries, the run of an inference function over them, and their scores.

    A subclass defines :attr:`name`, :attr:`data_digest`, :meth:`get_label_space`, :meth:`conditions` and
    :meth:`scoring`; the other members have defaults.

    Attributes:
        task: Scores the predictions.
        statistics: Options of the confidence intervals and random baselines.
        unparsed: How generated replies without a label count.
    """

    __slots__ = ()
    task: Scorer
    statistics: Statistics
    unparsed: Unparsed
    has_separate_conditions: ClassVar[bool] = False
    """Whether each condition is predicted and reported as a part of the run by itself, one after the other.

    This is so for LongICL: the prompts of a condition share a context of up to a million tokens, and conditions have no
    prompt in common. In other benchmarks, conditions have prompts in common, which are predicted once for all of them.
    """

    @property
    @abstractmethod
    def name(self) -> str:
        """The name of the data set."""

    @property
    @abstractmethod
    def data_digest(self) -> str:
        """The digest by which comparisons recognise the data."""

    @abstractmethod
    def get_label_space(self) -> list[str]:
        """Return the label names."""

    @abstractmethod
    def conditions(self) -> Sequence[Condition]:
        """Return the conditions: named lists of queries. Every call returns the same ones."""

    @abstractmethod
    def scoring(self) -> Scoring:
        """Return the settings with which the task scores outcomes."""

    # -- queries

    def all_queries(self) -> list[Query]:
        """Return the queries of all conditions, in order."""
        return list(queries_of_conditions(self.conditions()))

    def __len__(self) -> int:
        """Return the number of queries of all conditions."""
        return sum(len(condition.queries) for condition in self.conditions())

    def prompt_set(self) -> list[Any]:
        """Return all prompts, in order.

        A prompt is a text. In the noisy channel, it is a list with one text for each label.
        """
        return [as_argument(query.prompt) for query in self.all_queries()]

    def get_k(self) -> int | None:
        """Return the number of demonstrations per prompt; ``None`` if it differs between the conditions."""
        return None

    @property
    def outputs(self) -> Kind:
        """How to read rows of numbers."""
        return "auto"

    @property
    def row_scores(self) -> Sequence[str]:
        """The keys of the scores that are means over test rows. A run can stop early only by such a score."""
        return ()

    def restricted_to(self, rows: Collection[int]) -> Self:
        """Return a copy with some of the test rows only, as after early stopping.

        Args:
            rows: The test rows.

        Raises:
            ArgumentError: No score of this data set is a mean over test rows.
        """
        raise ArgumentError(f"early stopping needs scores that are means over test rows: got {self!r}")

    def recorded_settings(self) -> Mapping[str, Any]:
        """Return what a result records with the scores of this data set and what needs no predictions; here nothing."""
        return {}

    def settings_for_signature(self) -> dict[str, str | None]:
        """Return every setting of this data set that a user can change and that can change a number, as text by field.

        ``None``: the default.
        """
        return {}

    def refuse_function(self, function: Inference) -> None:
        """Raise an error if the return values of an inference function cannot be scored on this data set.

        Args:
            function: The inference function.

        Raises:
            ArgumentError: They cannot be scored.
        """

    # -- what methods use

    @property
    def is_noisy(self) -> bool:
        """Whether the prompts are those of the noisy channel, which scores the text given each label."""
        return False

    @property
    def text_count(self) -> int:
        """The number of input texts of a query."""
        return 1

    @abstractmethod
    def without_labels(self) -> Self:
        """Return a copy without the labels of the test rows; its prompts are the same."""

    @abstractmethod
    def with_labels_of(self, original: Self) -> Self:
        """Return a copy with the labels of the test rows, which :meth:`without_labels` removed.

        Args:
            original: The data set that this one is a changed copy of.
        """

    @abstractmethod
    def with_query(self, texts: Sequence[str]) -> Self:
        """Return a copy in which these texts take the place of every query.

        Args:
            texts: The input texts.
        """

    def calibration_set(self) -> SubsetView:
        """Return the rows for training a calibration.

        Raises:
            ArgumentError: There are none.
        """
        raise self._lacks("a calibration set")

    def demonstration_set(self) -> SubsetView:
        """Return the rows that demonstrations are drawn from.

        Raises:
            ArgumentError: A method cannot choose among them.
        """
        raise self._lacks("a demonstration set that a method chooses from")

    def demonstration_lists(self) -> DemonstrationLists:
        """Return the demonstrations of each prompt, as positions in the demonstration set.

        Raises:
            ArgumentError: A method cannot choose them.
        """
        raise self._lacks("a demonstration set that a method chooses from")

    @property
    def prompt_former(self) -> PromptWriter:
        """The prompt writer.

        Raises:
            ArgumentError: A method cannot change the prompts.
        """
        raise self._lacks("prompts that a method can change")

    def _lacks(self, needed: str) -> ArgumentError:
        """Return the error about something that a method needs and this data set does not have."""
        return ArgumentError(f"the method needs {needed}, which {self.task.name} does not have")

    # -- running

    @property
    def part_count(self) -> int:
        """The number of parts in which the progress of a run over this data set is reported.

        It is 1, or the number of conditions if these are predicted one after the other.
        """
        if self.has_separate_conditions:
            return len(self.conditions())
        return 1

    def run(
        self,
        forward_inference: Inference | None = None,
        preentered_prediction: Sequence[Any] | None = None,
        options: RunOptions | None = None,
        part: Part | None = None,
    ) -> DatasetRun:
        """Return the scores of this data set, from an inference function or from predictions that were computed before.

        Give one of the two. If both are given, the function is not called.

        Args:
            forward_inference: The inference function, which predicts the label of each prompt.
            preentered_prediction: The given predictions: one for each prompt of :meth:`prompt_set`, in order.
            options: Options of the run (store, executor, ...); the defaults if ``None``. Given predictions need none.
            part: The name of this data set in messages, and for the progress its number among the data sets of a
                larger run. ``None`` if this data set is run alone.

        Returns:
            The scores, with details such as intervals, baselines and warnings.

        Raises:
            ArgumentError: Neither is given, or the predictions do not fit the prompts.
            OutputError: A query has no usable prediction.
        """
        from StaICC.inference.runner import Part, RunOptions

        part = part or Part(f"{self.task.name}, {self.name}", parts=self.part_count)
        if preentered_prediction is not None:
            given = self._read_predictions(preentered_prediction, part.name)
            return self.assemble(self.conditions(), given, part.name)
        if forward_inference is None:
            raise ArgumentError("got neither, expected forward_inference or preentered_prediction (for each prompt)")
        (run,) = run_together(forward_inference, {part.name: self}, part, options or RunOptions())
        return run

    def _read_predictions(self, given: Any, run_name: str) -> list[Answer | Failure]:
        """Return predictions that were computed elsewhere, after the checks that those of an inference function get.

        Args:
            given: One prediction for each query, in order: a sequence or an array.
            run_name: Benchmark and data set, for messages.

        Raises:
            ArgumentError: The predictions are not a list, are not as many as the queries, or have an index of their
                own.
            OutputError: A prediction cannot be used; the message names its query.
        """
        queries = self.all_queries()
        try:
            predictions = check_batch(given, len(queries), "got", "Give one for each prompt of prompt_set()")
        except OutputError as error:
            raise ArgumentError(f"{run_name}, preentered_prediction: {error}") from error
        checked: list[Answer | Failure] = []
        for number, (prediction, query) in enumerate(zip(predictions, queries, strict=True)):
            try:
                checked.append(self.read_given(prediction, query))
            except OutputError as error:
                raise OutputError(f"{run_name}, query {number}: {error}") from error
        return checked

    def read_given(self, prediction: Any, query: Query) -> Answer | Failure:
        """Return a prediction that was computed elsewhere, after the checks that the runner makes.

        Args:
            prediction: The prediction.
            query: Its query.

        Raises:
            OutputError: It cannot be used.
        """
        is_completion = isinstance(prediction, (str, Failure)) and self.task.free_text
        if is_completion:
            return prediction  # type: ignore[no-any-return]  # the task parses it
        return check_answer(prediction, query.label_space)

    def predict_condition(
        self, function: Inference, condition: Condition, part: Part, options: RunOptions
    ) -> PredictedQueries:
        """Return the predictions of one condition, for runs that predict the conditions one after the other.

        Args:
            function: The inference function.
            condition: The condition.
            part: The part of the run that predicts it: its name for messages, and its number for the progress.
            options: Options of the run.

        Raises:
            OutputError: A query has no usable prediction.
        """
        from StaICC.inference.runner import predict_queries

        return PredictedQueries(predict_queries(function, condition.queries, part, options))

    def assemble(self, conditions: Sequence[Condition], answers: Answers, where: str | None = None) -> DatasetRun:
        """Return the scores of the predictions of all conditions, with details such as intervals and baselines.

        Args:
            conditions: The conditions.
            answers: The predictions of all conditions, in order.
            where: Name of this data set's run, for messages; by default the name of the data set.
        """
        from StaICC.benchmarks.evaluation import evaluate

        run = evaluate(self.task, self.scoring(), conditions, answers, where or self.name, self.clusters)
        return replace(run, details=replace(run.details, data=self.data_digest, subgroups=self.subgroups))

    # -- records and verification

    @property
    def clusters(self) -> tuple[int, ...] | None:
        """The number of the cluster of each test row; ``None`` if rows are assumed to be independent."""
        return None

    @property
    def subgroups(self) -> dict[str, tuple[str, ...]] | None:
        """For each column of subgroups the subgroup of each test row; ``None`` without such columns."""
        return None

    def query_records(self, run: DatasetRun) -> list[dict[str, Any]]:
        """Return one record for each query of a run."""
        from StaICC.benchmarks.records import records_of

        return records_of(run.outcomes)

    @property
    def unrecorded(self) -> str | None:
        """The reason why results have no records of the predictions; ``None`` if they have them."""
        return None

    def recorded_label_lists(self, details: DatasetDetails, scores: Mapping[str, Any]) -> Sequence[Any] | None:
        """Return the recorded predictions of queries with several labels, as :meth:`assemble` takes them.

        ``None`` if queries have one label: their predictions are in ``details.conditions``.

        Args:
            details: The saved details of this data set.
            scores: Its saved scores.

        Raises:
            SchemaError: The records are not those of the queries.
        """
        return None

    def read_again(self, number: int, answer: Answer | Failure) -> Answer | Failure:
        """Return a prediction in the form in which results record it, to compare it with the saved one.

        Args:
            number: The number of its query, counted from 0.
            answer: The prediction that was computed again.
        """
        return answer


# -- experimentors that are run together


def queries_of_conditions(conditions: Sequence[Condition]) -> Sequence[Query]:
    """Return the queries of all conditions, in order. Each is taken from its condition when it is read."""
    first_numbers = []  # For each condition the number of its first query: the number of queries before it.
    query_count = 0
    for condition in conditions:
        first_numbers.append(query_count)
        query_count += len(condition.queries)

    def query_at(number: int) -> Query:
        """Return the query with a number, counted over all conditions: of the last condition that begins before it."""
        condition_number = bisect.bisect_right(first_numbers, number) - 1
        position_in_condition = number - first_numbers[condition_number]
        return conditions[condition_number].queries[position_in_condition]

    return LazySequence(query_at, query_count)


def strictest_policy(experimentors: Iterable[BaseExperimentor]) -> Unparsed:
    """Return how replies without a label are treated while several experimentors share their predictions.

    If one experimentor has the policy ``"error"``, it is returned, because the run has to end at such a reply.
    Otherwise the policy of the first experimentor is returned. It makes no difference then: every other policy keeps
    the reply, and each experimentor scores it later by its own policy.
    """
    policies = [experimentor.unparsed for experimentor in experimentors]
    if "error" in policies:
        return "error"
    return policies[0]


@dataclass(frozen=True, slots=True)
class _PreparedRun:
    """An experimentor with its queries and settings, before predictions are computed."""

    name: str
    """The name of its run."""
    experimentor: BaseExperimentor
    settings: Mapping[str, str | None]
    """The settings with which the queries were written, as text by field of the signature."""
    conditions: Sequence[Condition]

    @classmethod
    def of(cls, name: str, experimentor: BaseExperimentor) -> _PreparedRun:
        """Return an experimentor with its conditions, and with a record of its settings.

        The record is made before the conditions. :meth:`refuse_changes` compares it with the settings after the run.

        Args:
            name: The name of the run of the experimentor, for messages.
            experimentor: The experimentor.
        """
        settings = experimentor.settings_for_signature()
        conditions = experimentor.conditions()
        return cls(name, experimentor, settings, conditions)

    @property
    def queries(self) -> Sequence[Query]:
        """The queries of all conditions, in order.

        Long prompts of a million tokens take 4 MiB each. So they are not listed here: a query of an experimentor that
        writes its queries when they are read is written again each time.
        """
        return queries_of_conditions(self.conditions)

    def refuse_changes(self) -> None:
        """Raise an error if a setting was changed after the queries were written.

        The signature of the result would then state other settings than those of its prompts.

        Raises:
            ArgumentError: A setting was changed.
        """
        for field_name, value in self.experimentor.settings_for_signature().items():
            before = self.settings[field_name]
            if value != before:
                raise ArgumentError(
                    f"{self.name}: {field_name} changed from {before} to {value} during the run, so the result "
                    "would have another signature than its prompts. Change settings before or after a run"
                )


def run_together(
    function: Inference, experimentors: Mapping[str, BaseExperimentor], part: Part, options: RunOptions
) -> list[DatasetRun]:
    """Return the scored run of each of several experimentors, which are run together on one data set.

    The benchmarks of a group, such as Normal and GLER, each have an experimentor for the data set, and many of their
    queries are equal. So the queries of all experimentors are predicted in one pass, and each distinct query once.

    With ``options.batched`` the function gets all prompts of a condition in one call, as in StaICC 0.1.1. A query that
    several conditions have is then predicted in each of them, because a prediction may depend on the other prompts of
    its call.

    Args:
        function: The inference function.
        experimentors: The experimentors, by the name of their run.
        part: The name of this data set in messages, and its number among the data sets of the run, for the progress.
        options: Options of the run.

    Raises:
        ArgumentError: The settings of an experimentor changed during the run.
        OutputError: A query has no usable prediction.
    """
    from StaICC.benchmarks.early_checks import early_checks
    from StaICC.benchmarks.result_warnings import log_prompt_warnings

    prepared = [_PreparedRun.of(name, experimentor) for name, experimentor in experimentors.items()]

    @functools.cache  # once, also if the conditions are predicted one after the other
    def log_warnings_of_prompts() -> None:
        """Log the warnings about the prompts, before the first one is predicted."""
        for run in prepared:
            log_prompt_warnings(run.experimentor.name, function, run.queries, options.log)

    first = prepared[0].experimentor
    pass_options = replace(
        options,
        unparsed=strictest_policy(experimentors.values()),
        before_predicting=log_warnings_of_prompts,
        free_text=first.task.free_text,
    )
    if not first.task.free_text:
        pass_options = replace(
            pass_options,
            watched=first.name,  # the name of the data set, in the warnings of the early checks
            early_checks=early_checks(first.outputs, one_label_is_suspicious=first.task.scores_accuracy),
        )
    predicted = _predict(function, prepared, part, pass_options)
    for run in prepared:
        run.refuse_changes()
    if pass_options.progress is not None:
        last_part = replace(part, number=part.number + first.part_count - 1)  # of this data set
        _report_statistics(prepared, predicted, last_part, pass_options.progress)
    return _score_in_turn(function, prepared, predicted, pass_options)


def _predict(
    function: Inference, prepared: Sequence[_PreparedRun], part: Part, options: RunOptions
) -> list[PredictedQueries]:
    """Return the predictions of the queries of each experimentor, in order.

    Args:
        function: The inference function.
        prepared: The experimentors with their queries.
        part: The part of the run that is this data set: its name for messages, and its number for the progress.
        options: Options of the run.
    """
    from StaICC.inference.runner import predict_queries

    have_separate_conditions = any(run.experimentor.has_separate_conditions for run in prepared)
    if have_separate_conditions or options.batched:
        return [_predict_condition_by_condition(function, run, part, options) for run in prepared]

    # The queries of all experimentors are predicted in one pass, so that equal ones are predicted once.
    all_queries: list[Query] = []
    for run in prepared:
        all_queries += run.queries
    answers = predict_queries(function, all_queries, part, options)
    predicted = []
    start = 0
    for run in prepared:
        end = start + len(run.queries)
        predicted.append(PredictedQueries(list(answers[start:end])))
        start = end
    return predicted


def _predict_condition_by_condition(
    function: Inference, run: _PreparedRun, part: Part, options: RunOptions
) -> PredictedQueries:
    """Return the predictions of one experimentor, whose conditions are predicted one after the other.

    There are two reasons to do so. The conditions are separate
    (:attr:`~BaseExperimentor.has_separate_conditions`): then each is reported as a part of the run, with a name and a
    number of its own. Or the inference function gets all prompts of a condition in one call (``options.batched``): then
    all conditions are reported as the one part that the data set is.

    Args:
        function: The inference function.
        run: The experimentor with its queries.
        part: The part of the run that is this data set, or its first part if the conditions are separate. The parts of
            a run over several data sets are numbered through: those of this data set from ``part.number`` on.
        options: Options of the run.
    """
    answers: list[Answer | Failure] = []
    timing: dict[str, float] = {}
    for condition_number, condition in enumerate(run.conditions):
        part_of_condition = part
        if run.experimentor.has_separate_conditions:
            part_of_condition = replace(
                part, name=f"{part.name}, {condition.name}", number=part.number + condition_number
            )
        predicted = run.experimentor.predict_condition(function, condition, part_of_condition, options)
        answers += predicted.answers
        timing.update(predicted.timing)
    return PredictedQueries(answers, timing)


def _report_statistics(
    prepared: Sequence[_PreparedRun], predicted: Sequence[PredictedQueries], part: Part, report: ProgressCallback
) -> None:
    """Call the progress callback with the state after the last prediction: the statistics are computed next.

    Equal queries count once, also those of different experimentors.

    Args:
        prepared: The experimentors with their queries.
        predicted: The predictions of each experimentor.
        part: The last part of the run that is about this data set: its name, and its number for the progress.
        report: The progress callback.
    """
    from StaICC.progress import Progress

    answer_by_hash: dict[int, Answer | Failure] = {}  # prompts as keys would all stay in memory
    for run, predictions in zip(prepared, predicted, strict=True):
        for query, answer in zip(run.queries, predictions.answers, strict=True):
            # A hash has 64 bits. Two of them that are equal by chance would only change the count that is shown.
            hash_of_key = hash((query.prompt, query.label_space))
            answer_by_hash[hash_of_key] = answer
    n_distinct = len(answer_by_hash)
    n_failed = sum(isinstance(answer, Failure) for answer in answer_by_hash.values())
    report(
        Progress(
            done=n_distinct,
            total=n_distinct,
            where=part.name,
            number=part.number,
            parts=part.parts,
            failed=n_failed,
            phase="statistics",
        )
    )


def _score_in_turn(
    function: Inference, prepared: Sequence[_PreparedRun], predicted: Sequence[PredictedQueries], options: RunOptions
) -> list[DatasetRun]:
    """Return the scored run of each experimentor, in order, and log the warnings about its predictions.

    Args:
        function: The inference function.
        prepared: The experimentors with their queries.
        predicted: The predictions of each experimentor.
        options: Options of the run.
    """
    from StaICC.benchmarks.result_warnings import log_dataset_warnings, with_model_warnings

    runs = []
    for prepared_run, predictions in zip(prepared, predicted, strict=True):
        experimentor = prepared_run.experimentor
        answers = predictions.answers
        run = experimentor.assemble(prepared_run.conditions, answers, prepared_run.name)
        run = with_model_warnings(run, function, prepared_run.queries, answers)
        log_dataset_warnings(experimentor.name, run, function, prepared_run.queries, answers, options.log)
        runs.append(replace(run, timing={**run.timing, **predictions.timing}))
    return runs

"""What a task is: named lists of queries (its conditions) with a rule that scores their predictions.

A *task* writes *conditions* (lists of queries, such as one for each rate of label noise) and scores their *outcomes*:
all that a sub-benchmark adds. Building a benchmark over data sets, running, aggregating, printing and saving are
written once, in :mod:`~StaICC.benchmarks.experimentor`, :mod:`~StaICC.benchmarks.evaluation` and
:mod:`~StaICC.benchmarks.running`. Tasks are pure: the same input gives the same queries every time.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING, Any, ClassVar, Literal, Protocol, TypeVar

from StaICC.arguments import set_integers
from StaICC.benchmarks.scored_columns import ScoredQueries, ScoreRows
from StaICC.datasets.catalogue import Card
from StaICC.errors import ArgumentError, OutputError, UndefinedMetricError
from StaICC.inference.contract import Answer
from StaICC.inference.replies import Failure, Unparsed
from StaICC.metrics.classification import Kind, normalise
from StaICC.metrics.intervals import INTERVAL_VERSION
from StaICC.metrics.metric_set import MetricSet
from StaICC.metrics.statistics import Sample
from StaICC.prompting.demonstrations import DemonstrationLists
from StaICC.prompting.prompt_writer import PromptRenderer, PromptSettings, Query
from StaICC.prompting.pseudo_queries import skip_query
from StaICC.prompting.stable_random import StableRandom
from StaICC.prompting.views import TripletSplit

if TYPE_CHECKING:
    from StaICC.metrics.classification import Normalised
    from StaICC.metrics.intervals import Interval, NoInterval
    from StaICC.metrics.statistics import Mean, Statistic
    from StaICC.prompting.views import SubsetView

_T = TypeVar("_T")


@dataclass(frozen=True, slots=True)
class Statistics:
    """Options of the confidence intervals and random baselines.

    Raises:
        ArgumentError: A value has another type or is out of range.
    """

    level: float = 0.95
    """Nominal coverage of the confidence intervals, from 0.5 to 0.9999."""
    tried: int = 1
    """Number of settings that were tried; if this is the best of them, the random baseline is the best of as many."""
    intervals: bool = True
    """Whether intervals are computed."""

    def __post_init__(self) -> None:
        set_integers(self, tried=1)
        is_number = isinstance(self.level, int | float) and not isinstance(self.level, bool)
        if not is_number or not 0.5 <= self.level <= 0.9999:
            raise ArgumentError(f"level must be a number of at least 0.5 and at most 0.9999, not {self.level!r}")
        if not isinstance(self.intervals, bool):
            raise ArgumentError(f"intervals must be True or False, not {self.intervals!r}")

    def for_signature(self, intervals: bool = True, baselines: bool = True) -> str | None:
        """Return the options on which the intervals and the random baselines depend, as text.

        Args:
            intervals: Whether the benchmark has intervals.
            baselines: Whether random baselines are computed.

        Returns:
            The text; ``None`` if neither is computed, or only the baselines of a single setting.
        """
        parts = []
        if baselines and self.tried > 1:
            parts.append(f"tried{self.tried}")
        if intervals and self.intervals:
            parts.append(f"{INTERVAL_VERSION}-{self.level!r}")
        if not parts:
            return None
        return "+".join(parts)


Assumed = Literal["wrong", "right"] | None
"""What is assumed of unparsed replies."""
Answers = Sequence[Answer | Failure]
"""One prediction or failure for each query, in order."""
OutputKind = Literal["probabilities", "logits", "labels", "ambiguous", "none"]
"""How the predictions of a condition were read; ``"none"`` if it has none."""


@dataclass(frozen=True, slots=True)
class Condition:
    """A named list of queries."""

    name: str
    """Unique within its task."""
    queries: Sequence[Query]


def argmax(row: Sequence[float]) -> int:
    """Return the position of the largest value, the first of equals."""
    return max(range(len(row)), key=row.__getitem__)


class Outcome:
    """A condition with its predictions.

    Scores use only queries with a prediction; the others are counted as failed, or as unparsed replies.

    Args:
        condition: The condition.
        answers: One prediction or failure for each query, in order.
        outputs: How to read numbers: ``"auto"``, ``"probabilities"`` or ``"logits"``.
        assume: Score each unparsed reply as a wrong prediction (the label after the true one), or as a right one;
            ``None`` leaves it out.

    Raises:
        OutputError: Some predictions are labels and some are rows of numbers.
    """

    def __init__(self, condition: Condition, answers: Answers, outputs: Kind, assume: Assumed = None) -> None:
        self.condition = condition
        self.answers = answers
        self.outputs = outputs
        self._kind: Kind = outputs
        self._ambiguous: Normalised | None = None
        self.given: Answers = answers
        """The answers with the assumed predictions."""
        if assume is not None:
            self._fix_reading_of_rows()
            self.given = self._with_assumed(assume)

        scored_queries: list[Query] = []
        scored_answers: list[Answer] = []
        for query, answer in zip(condition.queries, self.given, strict=True):
            if not isinstance(answer, Failure):
                scored_queries.append(query)
                scored_answers.append(answer)
        label_count = sum(isinstance(answer, int) for answer in scored_answers)
        if 0 < label_count < len(scored_answers):
            raise _mixed_kinds(answers)
        self.hard = label_count > 0
        """Whether the predictions are bare labels."""
        self.queries: Sequence[Query] = scored_queries
        """The scored queries."""
        self.truth = [query.label for query in scored_queries]
        """The true label index of each scored query."""
        rows = []
        for query, answer in zip(scored_queries, scored_answers, strict=True):
            rows.append(_row(answer, len(query.label_space)))
        self.rows: Sequence[list[float]] = rows
        """The row of numbers of each scored query; for a label a one-hot row."""

    def _fix_reading_of_rows(self) -> None:
        """Decide how rows of numbers are read, before rows are assumed: the model's own rows decide."""
        if not self.returned_rows or not any(map(_is_unparsed, self.answers)):
            return
        read = normalise(self.returned_rows, self.outputs)
        if read.kind == "ambiguous":
            self._ambiguous = read
        else:
            self._kind = read.kind

    def _with_assumed(self, assume: Literal["wrong", "right"]) -> Answers:
        """Return the predictions, with a label or a row that is certain of it for each unparsed reply."""
        answers_are_rows = len(self.returned_rows) > 0
        answers: list[Answer | Failure] = []
        for query, answer in zip(self.condition.queries, self.answers, strict=True):
            if not _is_unparsed(answer):
                answers.append(answer)
                continue
            label_count = len(query.label_space)  # two labels or more
            label = query.label
            if assume == "wrong":
                label = (query.label + 1) % label_count
            if not answers_are_rows:
                answers.append(label)
            elif self._kind == "logits":
                answers.append(_row(label, label_count, others=-math.inf, certain=0.0))
            else:
                answers.append(_row(label, label_count))
        return answers

    def keep_columns(self, scores: ScoreRows | None) -> None:
        """Keep what is read after scoring, as columns: labels, rows and predictions of the queries, not the prompts.

        Args:
            scores: The label scores of all queries, if each has them.
        """
        if scores is not None:
            self.answers = scores
            self.given = scores
            self.rows = scores
        all_queries = ScoredQueries(self.condition.queries)
        all_are_scored = len(self.queries) == len(all_queries)
        self.queries = all_queries if all_are_scored else ScoredQueries(self.queries)
        self.condition = Condition(self.condition.name, all_queries)
        self.__dict__.pop("normalised", None)  # the cached property; it is computed again from the columns if needed

    @cached_property
    def normalised(self) -> Normalised:
        """The predictions as probabilities, if they can be read so (see :mod:`StaICC.metrics.classification`)."""
        if self._ambiguous is not None:
            return self._ambiguous
        return normalise(self.rows, "probabilities" if self.hard else self._kind)

    @property
    def returned_rows(self) -> list[list[float]]:
        """The rows of numbers that were returned: without those that are assumed for unparsed replies."""
        return [answer for answer in self.answers if isinstance(answer, list)]

    @cached_property
    def sample(self) -> Sample:
        """The scored queries."""
        return _sample_of(self.queries, len(self.rows[0]) if self.rows else 0)

    @property
    def sample_of_all(self) -> Sample:
        """All queries of the condition."""
        queries = self.condition.queries
        return _sample_of(queries, len(queries[0].label_space))

    def read(self, statistic: Statistic) -> Sequence[Any] | None:
        """Return what a statistic reads of the scored predictions; ``None`` if they have no probabilities.

        A statistic that reads anything reads probabilities if there are any, and the rows otherwise.
        """
        if statistic.reads == "labels":
            return self.answered
        if statistic.reads == "rows":
            return self.rows
        if statistic.reads == "any":
            if self.hard or self.normalised.probabilities is None:
                return self.rows
            return self.normalised.probabilities
        if statistic.reads == "probabilities" and self.hard:
            return None
        return self.normalised.probabilities

    def query_scores(self, mean: Mean) -> tuple[float | None, ...] | None:
        """Return the score of each query of the condition, of which a statistic is the mean; ``None`` if undefined."""
        if not self.queries:
            return None
        predictions = self.read(mean)
        if predictions is None:
            return None
        try:
            scores = mean.scores(self.sample, predictions)
        except UndefinedMetricError:
            return None
        return tuple(self.by_query(scores))

    def by_query(self, values: Iterable[_T]) -> list[_T | None]:
        """Return the values of the scored queries by query of the condition; ``None`` for one that is not scored."""
        remaining = iter(values)
        return [None if isinstance(answer, Failure) else next(remaining) for answer in self.given]

    @property
    def scored(self) -> int:
        """The number of queries that are scored."""
        return len(self.queries)

    @property
    def kind(self) -> OutputKind:
        """How the predictions were read; ``"none"`` if there are none."""
        if not self.queries:
            return "none"
        if self.hard:
            return "labels"
        return self.normalised.kind

    @cached_property
    def answered(self) -> list[int]:
        """The predicted label index of each scored query."""
        return [argmax(row) for row in self.rows]

    @property
    def scored_predictions(self) -> list[int | None]:
        """The predicted label index of each query as it is scored; ``None`` for one that scores leave out."""
        return self.by_query(self.answered)

    @cached_property
    def predictions(self) -> list[int | None]:
        """The predicted label index of each query of the condition; ``None`` for a failed query or unparsed reply."""
        predictions = []
        for answer, predicted in zip(self.answers, self.scored_predictions, strict=True):
            # An assumed prediction is scored, but the model did not make it.
            predictions.append(None if isinstance(answer, Failure) else predicted)
        return predictions


def _mixed_kinds(answers: Answers) -> OutputError:
    """Return the error about predictions of which some are labels and some are rows of numbers."""
    first_of_kind: dict[bool, int] = {}
    for number, answer in enumerate(answers):
        first_of_kind.setdefault(isinstance(answer, int), number)
    return OutputError(
        f"the prediction of query {first_of_kind[True]} is a label, that of query {first_of_kind[False]} is a row of "
        "numbers; return the same kind for every query of a run"
    )


def _sample_of(queries: Sequence[Query], n_labels: int) -> Sample:
    """Return queries as a sample, with their test rows numbered from 0."""
    number_of_row = {row: number for number, row in enumerate(sorted({query.row for query in queries}))}
    return Sample(
        truth=[query.label for query in queries],
        rows=[number_of_row[query.row] for query in queries],
        n_rows=len(number_of_row),
        n_labels=n_labels,
    )


def _is_unparsed(answer: Answer | Failure) -> bool:
    """Return whether a query has a reply of which no label could be read."""
    return isinstance(answer, Failure) and answer.reply is not None


def _row(answer: Answer, label_count: int, others: float = 0.0, certain: float = 1.0) -> list[float]:
    """Return the numbers of a prediction; for a label, a row in which it is certain."""
    if isinstance(answer, list):
        return answer
    return [certain if label == answer else others for label in range(label_count)]


@dataclass(frozen=True, slots=True)
class Scores:
    """The scores of one data set."""

    values: Mapping[str, Any]
    """The documented keys and their values; ``None`` where undefined."""
    averaged: Mapping[str, float | None]
    """The scores that enter the mean over data sets."""
    missing: Mapping[str, str] = field(default_factory=dict)
    """The reason for each undefined value (``None``), by its key."""


def compute_or_explain(missing: dict[str, str], key: str, function: Callable[..., Any], *arguments: Any) -> Any:
    """Compute a value that may be undefined.

    Args:
        missing: The reason is added to it under the key.
        key: Name of the value.
        function: Computes the value.
        arguments: The arguments of the function.

    Returns:
        The value; ``None`` if it is undefined or not finite.
    """
    try:
        value = function(*arguments)
    except UndefinedMetricError as error:
        missing[key] = str(error)
        return None
    numbers = value if isinstance(value, list) else [value]
    if not all(map(math.isfinite, numbers)):
        missing[key] = f"the value is {value}"
        return None
    return value


@dataclass(frozen=True, slots=True)
class TaskInput:
    """What a task writes its conditions from: one data set with the settings of its prompts."""

    card: Card
    split: TripletSplit
    k: int
    """Demonstrations per prompt."""
    repeats: int
    """How often each test row is used."""
    settings: PromptSettings
    """Template, label space, label noise and channel."""
    demonstration_lists: DemonstrationLists
    """The demonstrations of each prompt; prompt ``i + r * rows`` is for test row ``i`` in repeat ``r``."""
    limit: int | None = None
    """The maximum number of test rows that are evaluated."""

    def queries(
        self,
        settings: PromptSettings | None = None,
        pseudo: Iterator[tuple[str, ...]] | None = None,
        noise: StableRandom | None = None,
    ) -> tuple[Query, ...]:
        """Write the queries of all repeats of all test rows.

        Args:
            settings: Other prompt settings than :attr:`settings`.
            pseudo: Replaces the texts of the queries, one after the other.
            noise: Generator of the label noise; a fresh one by default.

        Returns:
            The queries, repeat by repeat, without the rows beyond the limit.
        """
        settings = settings or self.settings
        renderer = PromptRenderer(self.split, settings)
        generator = noise or StableRandom()
        noisy_labels = bool(settings.label_wrong_rate)
        test_rows = [self.split.test.row(position) for position in range(len(self.split.test))]
        queries = []
        for number, demonstrations in enumerate(self.demonstration_lists):
            repeat, row = divmod(number, len(test_rows))
            beyond_limit = self.limit is not None and row >= self.limit
            if beyond_limit and not noisy_labels:
                if pseudo is not None:
                    skip_query(pseudo)
                continue
            texts = test_rows[row].texts if pseudo is None else next(pseudo)
            # With label noise a prompt beyond the limit is written, too: it draws from the generator of all prompts.
            prompt = renderer.render(demonstrations, texts, generator)
            if beyond_limit:
                continue
            last_label = None
            if demonstrations and not noisy_labels:
                last_label = self.split.demonstration.label(demonstrations[-1])
            queries.append(Query(prompt, settings.label_space, test_rows[row].label, row, repeat, last_label))
        return tuple(queries)


@dataclass(frozen=True, slots=True)
class Scoring:
    """How a task scores its outcomes."""

    metric_set: MetricSet
    k: int
    """Demonstrations per prompt."""
    statistics: Statistics
    """Options of the confidence intervals."""
    outputs: Kind = "auto"
    """How to read rows of numbers."""
    unparsed: Unparsed = "error"
    """How replies without a label count."""


class Scorer(Protocol):
    """How predictions become scores."""

    scores_accuracy: ClassVar[bool] = False
    """Whether accuracy is among the scores of each condition, so that it gets baselines."""
    scores_metric_set: ClassVar[bool] = False
    """Whether all metrics of the data set's metric set are scored, macro F1 among them."""
    content_free: ClassVar[bool] = False
    """Whether the queries have no content, so that one label for all of them is no fault."""
    free_text: ClassVar[bool] = False
    """Whether predictions may be texts that :meth:`read_outcome` parses, so that there are no label scores."""

    def read_outcome(self, condition: Condition, answers: Answers, outputs: Kind, assume: Assumed) -> Outcome:
        """Return the outcome of a condition; arguments as for :class:`Outcome`."""
        return Outcome(condition, answers, outputs, assume)

    def score(self, outcomes: Sequence[Outcome], scoring: Scoring) -> Scores:
        """Return the scores of the outcomes, one outcome for each condition in order."""

    def intervals(self, outcomes: Sequence[Outcome], scoring: Scoring) -> Mapping[str, Interval | NoInterval]:
        """Return confidence intervals of the scores, by key (nested keys joined by a dot); none by default.

        Raises:
            UndefinedMetricError: There are no intervals (too few test rows); the reason becomes a remark.
        """
        return {}


class Task(Scorer, Protocol):
    """What a sub-benchmark adds to the common machinery. Derive from it: optional members have defaults."""

    name: ClassVar[str]
    """The name in messages and signatures, such as ``"Normal"``."""
    row_scores: ClassVar[Sequence[str]] = ()
    """The scores that are means over test rows, so that a run can stop early."""

    @property
    def test_rows(self) -> int | None:
        """The maximum number of test rows; ``None`` (the default) for all."""
        return None

    @property
    def repeats(self) -> int:
        """How often each test row is used, with other demonstrations each time; 1 by default."""
        return 1

    def options(self) -> Mapping[str, Any]:
        """Return the settings of this task that can change a score, for the signature; none by default."""
        return {}

    def pseudo_queries(self, card: Card, demonstration_set: SubsetView) -> Iterator[tuple[str, ...]] | None:
        """Return query texts that replace those of the test rows: an endless iterator, always the same.

        The prompt writer of the experimentor uses them as well. ``None`` (the default) keeps the test rows' texts.
        """
        return None

    def conditions(self, task_input: TaskInput) -> Sequence[Condition]:
        """Return the conditions: the same for equal inputs."""

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
from StaICC.metrics.scores import STATISTICS
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
    """Number of settings, such as templates, that were tried, if the result is the best of them. It is compared with
    the best of as many random guessers, because the best of several looks good by chance."""
    intervals: bool = True
    """Whether intervals are computed."""

    def __post_init__(self) -> None:
        """Check the types and the ranges of all options."""
        set_integers(self, tried=1)
        is_number = isinstance(self.level, int | float) and not isinstance(self.level, bool)
        if not is_number or not 0.5 <= self.level <= 0.9999:
            raise ArgumentError(f"level must be a number of at least 0.5 and at most 0.9999, not {self.level!r}")
        if not isinstance(self.intervals, bool):
            raise ArgumentError(f"intervals must be True or False, not {self.intervals!r}")

    def for_signature(self, intervals: bool = True, baselines: bool = True) -> str | None:
        """Return the options on which the reported intervals and random baselines depend, as a field of the signature.

        An example is ``tried10+`` followed by the version of the intervals and their level.

        Args:
            intervals: Whether the benchmark has intervals.
            baselines: Whether the benchmark has random baselines.

        Returns:
            The text. ``None`` if it would be empty: the benchmark has no intervals, and no random baseline of several
            settings.
        """
        words = []
        if baselines and self.tried > 1:
            words.append(f"tried{self.tried}")
        if intervals and self.intervals:
            words.append(f"{INTERVAL_VERSION}-{self.level!r}")
        if not words:
            return None
        return "+".join(words)


Assumed = Literal["wrong", "right"] | None
"""How unparsed replies are scored: as wrong or as right predictions; ``None`` leaves them out."""
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
    """Return the position of the largest value, which is the predicted label. Of equal values, the first one counts."""
    return max(range(len(row)), key=row.__getitem__)


class Outcome:
    """A condition with its predictions.

    Scores use only queries with a prediction. The other queries are counted as failed, or as unparsed replies, which
    are generated texts without a label.

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
        """Collect the queries that have a prediction, or for whose reply one is assumed, with their rows of numbers."""
        self.condition = condition
        self.answers = answers
        self.outputs = outputs
        self._reading: Kind = outputs  # how the rows are read: as the argument says, or as decided before assuming rows
        self._ambiguous_reading: Normalised | None = None  # set if the rows of the model were ambiguous before that
        self.clusters: Sequence[int] | None = None
        """The cluster of each test row of the data set, the unit of intervals and tests; ``None`` if rows are
        independent. Set before :attr:`sample` is read."""
        self.given: Answers = answers
        """The predictions as they are scored: those of the model, and those that are assumed for unparsed replies."""
        if assume is not None:
            self._fix_reading_of_rows()
            self.given = self._with_assumed(assume)

        queries: list[Query] = []
        rows: list[list[float]] = []
        count_of_labels = 0
        for query, answer in zip(condition.queries, self.given, strict=True):
            if isinstance(answer, Failure):
                continue
            queries.append(query)
            rows.append(_row(answer, len(query.label_space)))
            if isinstance(answer, int):
                count_of_labels += 1
        if 0 < count_of_labels < len(queries):
            raise _mixed_kinds(answers)
        self.hard = count_of_labels > 0
        """Whether the predictions are bare labels."""
        self.queries: Sequence[Query] = queries
        """The scored queries."""
        self.truth = [query.label for query in queries]
        """The true label index of each scored query."""
        self.rows: Sequence[list[float]] = rows
        """The row of numbers of each scored query; for a label a one-hot row."""

    def _fix_reading_of_rows(self) -> None:
        """Decide whether the rows of the model are probabilities or logits, before rows are assumed for replies.

        So an assumed row does not change how the rows of the model are read. The decision is kept in ``_reading``. If
        the rows may be either, they stay ambiguous, and ``_ambiguous_reading`` keeps the reason.
        """
        has_unparsed_replies = any(map(_is_unparsed, self.answers))
        if not self.returned_rows or not has_unparsed_replies:
            return  # No row will be assumed.
        normalised = normalise(self.returned_rows, self.outputs)
        if normalised.kind == "ambiguous":
            self._ambiguous_reading = normalised
        else:
            self._reading = normalised.kind

    def _with_assumed(self, assume: Literal["wrong", "right"]) -> Answers:
        """Return the predictions, with an assumed prediction in the place of each unparsed reply.

        The assumed prediction is a label index. If the model returns rows of numbers, the assumed prediction is a row
        that gives this label the probability 1: for label 1 of three, ``[0, 1, 0]``, as logits ``[-inf, 0, -inf]``.

        Args:
            assume: Whether the label is the true one, or a wrong one.
        """
        answers_are_rows = len(self.returned_rows) > 0
        answers: list[Answer | Failure] = []
        for query, answer in zip(self.condition.queries, self.answers, strict=True):
            if not _is_unparsed(answer):
                answers.append(answer)
                continue
            label_count = len(query.label_space)  # There are two labels or more.
            label = query.label
            if assume == "wrong":
                label = (query.label + 1) % label_count
            if not answers_are_rows:
                answers.append(label)
            elif self._reading == "logits":
                answers.append(_row(label, label_count, others=-math.inf, certain=0.0))
            else:
                answers.append(_row(label, label_count))
        return answers

    def keep_columns(self, scores: ScoreRows | None) -> None:
        """Replace the queries and their label scores by columns of numbers, which need much less memory.

        This object is changed. Its queries have empty prompts afterwards; all numbers stay the same.

        Args:
            scores: The label scores of all queries of the condition, as columns. ``None`` keeps the predictions as
                they are. A run passes ``None`` if one of its queries has no label scores: the query failed, or its
                prediction is a label.
        """
        if scores is not None:
            # Every query has a row of scores. So these rows are the predictions of the model, the predictions as they
            # are scored (no reply is unparsed), and the rows of the scored queries (no query failed).
            self.answers = scores
            self.given = scores
            self.rows = scores
        all_queries = ScoredQueries(self.condition.queries)
        all_are_scored = len(self.queries) == len(all_queries)
        if all_are_scored:
            self.queries = all_queries
        else:
            self.queries = ScoredQueries(self.queries)
        self.condition = Condition(self.condition.name, all_queries)
        # Forget the cached value of the property "normalised", which has long lists, too. The property computes its
        # value again from the columns when it is read.
        self.__dict__.pop("normalised", None)

    @cached_property
    def normalised(self) -> Normalised:
        """The predictions as probabilities, or the reason why they have none (:mod:`StaICC.metrics.classification`).

        Logits become probabilities by a softmax, labels become one-hot rows. Rows that may be probabilities or logits
        are ambiguous, and have no probabilities.
        """
        if self._ambiguous_reading is not None:
            return self._ambiguous_reading  # found before rows were assumed for replies, which must not change it
        if self.hard:
            return normalise(self.rows, "probabilities")  # one-hot rows
        return normalise(self.rows, self._reading)

    @property
    def returned_rows(self) -> list[list[float]]:
        """The rows of numbers that the model returned, without those that are assumed for unparsed replies."""
        return [answer for answer in self.answers if isinstance(answer, list)]

    @cached_property
    def sample(self) -> Sample:
        """The scored queries as a sample, as statistics read them."""
        n_labels = len(self.rows[0]) if self.rows else 0
        return sample_of(self.queries, n_labels, self.clusters)

    @property
    def sample_of_all(self) -> Sample:
        """All queries of the condition as a sample, including queries without a prediction."""
        queries = self.condition.queries
        if len(self.queries) == len(queries):
            return self.sample
        return sample_of(queries, len(queries[0].label_space), self.clusters)

    def read(self, statistic: Statistic) -> Sequence[Any] | None:
        """Return the scored predictions in the form that a statistic reads, one for each scored query.

        Args:
            statistic: The statistic. It reads label indexes, rows of numbers or probabilities. One that reads any of
                these gets probabilities if there are any, and rows otherwise.

        Returns:
            The predictions. ``None`` if the statistic needs probabilities, and the predictions are labels, or their
            numbers may be probabilities or logits.
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
        """Return the score of each query of the condition, for a statistic that is the mean of such scores.

        For the accuracy, a correct prediction has the score 1, a wrong one 0. A query without a prediction has
        ``None``. If the statistic is undefined, ``None`` is returned instead of the scores: no query has a prediction,
        or the predictions have no probabilities.

        Args:
            mean: The statistic.
        """
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
        """Return one value for each query of the condition; ``None`` for a query that is not scored.

        If the second of three queries failed, the values ``[a, b]`` of the scored ones become ``[a, None, b]``.

        Args:
            values: One value for each scored query, in order.
        """
        if len(self.queries) == len(self.given):
            return list(values)  # every query is scored
        by_query: list[_T | None] = []
        values_of_scored = iter(values)
        for answer in self.given:
            if isinstance(answer, Failure):
                by_query.append(None)
            else:
                by_query.append(next(values_of_scored))
        return by_query

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
    def last_labels(self) -> list[int | None]:
        """The label of the last demonstration of each query of the condition; ``None`` if it is not known."""
        return [query.last_label for query in self.condition.queries]

    @cached_property
    def answered(self) -> list[int]:
        """The predicted label index of each scored query: of the largest number, and of several the first."""
        return [row.index(max(row)) for row in self.rows]

    @property
    def scored_predictions(self) -> list[int | None]:
        """The label index with which each query is scored: the predicted one, or the one assumed for an unparsed reply.

        ``None`` for a query that is not scored.
        """
        return self.by_query(self.answered)

    @cached_property
    def predictions(self) -> list[int | None]:
        """The label index that the model predicted for each query of the condition.

        ``None`` for a failed query or an unparsed reply, also if a label is assumed for the reply in the scores.
        """
        predictions: list[int | None] = []
        for answer, scored_label in zip(self.answers, self.scored_predictions, strict=True):
            if isinstance(answer, Failure):  # A label may be assumed for it, but the model did not predict it.
                predictions.append(None)
            else:
                predictions.append(scored_label)
        return predictions


def _mixed_kinds(answers: Answers) -> OutputError:
    """Return the error about predictions of which some are labels and some are rows of numbers.

    Its message names the first query of each kind. Failed queries are of neither.
    """
    label_numbers = []
    other_numbers = []
    for number, answer in enumerate(answers):
        if isinstance(answer, int):
            label_numbers.append(number)
        elif not isinstance(answer, Failure):
            other_numbers.append(number)
    return OutputError(
        f"the prediction of query {label_numbers[0]} is a label, that of query {other_numbers[0]} is a row of "
        "numbers; return the same kind for every query of a run"
    )


def sample_of(queries: Sequence[Query], n_labels: int, clusters: Sequence[int] | None = None) -> Sample:
    """Return queries as a sample, with their test rows numbered from 0.

    Queries of the test rows 4, 9 and 4 have the row numbers 0, 1 and 0.

    Args:
        queries: The queries.
        n_labels: The number of labels; 0 if it is not known.
        clusters: The cluster of each test row of the data set; ``None`` if rows are independent.
    """
    rows = sorted({query.row for query in queries})
    number_of_row = {row: number for number, row in enumerate(rows)}
    clusters_of_rows = None
    if clusters is not None:
        clusters_of_rows = [clusters[row] for row in rows]
    return Sample(
        truth=[query.label for query in queries],
        rows=[number_of_row[query.row] for query in queries],
        n_rows=len(number_of_row),
        n_labels=n_labels,
        clusters=clusters_of_rows,
    )


def _is_unparsed(answer: Answer | Failure) -> bool:
    """Return whether the prediction of a query is an unparsed reply: no label could be read from it."""
    return isinstance(answer, Failure) and answer.reply is not None


def _row(answer: Answer, label_count: int, others: float = 0.0, certain: float = 1.0) -> list[float]:
    """Return the row of numbers of a prediction, one number for each label.

    A row of numbers is returned unchanged. A label becomes a one-hot row: label 1 of three is ``[0, 1, 0]``.

    Args:
        answer: The prediction: a row of numbers, or a label index.
        label_count: The number of labels.
        others: If the prediction is a label, the number that all other labels get.
        certain: If the prediction is a label, the number that this label gets.
    """
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
    """Return the value of a function, or ``None`` if the value is undefined or not finite.

    If it returns ``None``, it also writes the reason into ``missing``.

    Args:
        missing: Gets the reason under the key of the value.
        key: The key of the value.
        function: Computes a number, or a list of numbers. It raises an UndefinedMetricError if it is undefined.
        arguments: The arguments of the function.
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
    """The input from which a task writes its conditions: one data set with the settings of its prompts."""

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
        """Return the queries of all test rows within the limit, ordered by repeat, then by test row.

        A limit does not change the queries within it. Pseudo-queries and label noise are random, and are drawn one
        after the other, so those of the queries beyond the limit are drawn, too, and are not used.

        Args:
            settings: Prompt settings instead of :attr:`settings`.
            pseudo: Pseudo-queries, whose texts replace those of the test rows: one item for each query, also beyond the
                limit. ``None`` keeps the texts of the test rows.
            noise: Random generator of the label noise; a new one by default.
        """
        settings = settings or self.settings
        renderer = PromptRenderer(self.split, settings)
        generator = noise or StableRandom()
        has_label_noise = settings.label_wrong_rate > 0
        test_rows = [self.split.test.row(position) for position in range(len(self.split.test))]
        queries = []
        for number, demonstrations in enumerate(self.demonstration_lists):
            repeat, row = divmod(number, len(test_rows))
            test_row = test_rows[row]
            is_beyond_limit = self.limit is not None and row >= self.limit
            if is_beyond_limit:
                if pseudo is not None:
                    skip_query(pseudo)
                if has_label_noise:
                    renderer.render(demonstrations, test_row.texts, generator)  # only to draw its noise
                continue

            texts = test_row.texts
            if pseudo is not None:
                texts = next(pseudo)
            prompt = renderer.render(demonstrations, texts, generator)
            # With label noise, the prompt may show another label than the demonstration set has.
            last_label = None
            if demonstrations and not has_label_noise:
                last_label = self.split.demonstration.label(demonstrations[-1])
            queries.append(
                Query(
                    prompt,
                    settings.label_space,
                    label=test_row.label,
                    row=row,
                    repeat=repeat,
                    last_label=last_label,
                )
            )
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

    name: ClassVar[str]
    """The name in messages and signatures, such as ``"Normal"``."""
    scores_accuracy: ClassVar[bool] = False
    """Whether accuracy is among the scores of each condition, so that it gets baselines."""
    scores_metric_set: ClassVar[bool] = False
    """Whether all metrics of the data set's metric set are scored, macro F1 among them."""
    content_free: ClassVar[bool] = False
    """Whether the queries have no content. A good model may then predict one label for all of them."""
    free_text: ClassVar[bool] = False
    """Whether predictions may be texts, which :meth:`read_outcome` parses. Such predictions have no label scores."""

    def read_outcome(self, condition: Condition, answers: Answers, outputs: Kind, assume: Assumed) -> Outcome:
        """Return the outcome of a condition. The arguments are those of :class:`Outcome`."""
        return Outcome(condition, answers, outputs, assume)

    def score(self, outcomes: Sequence[Outcome], scoring: Scoring) -> Scores:
        """Return the scores of a data set.

        Args:
            outcomes: The outcome of each condition, in order.
            scoring: Metrics and options.
        """

    def intervals(self, outcomes: Sequence[Outcome], scoring: Scoring) -> Mapping[str, Interval | NoInterval]:
        """Return the confidence intervals of the scores, by key. Nested keys are joined by a dot.

        By default, no score has an interval.

        Raises:
            UndefinedMetricError: No score has an interval, for example because there are too few test rows. The
                result records the reason.
        """
        return {}

    def range_of(self, key: str, outcomes: Sequence[Outcome], scoring: Scoring) -> tuple[float, float]:
        """Return the lowest and the highest possible value of an averaged score, for the interval of its mean.

        By default, it is the range of the metric with this key (:func:`range_of_metric`).

        Args:
            key: The key of the averaged score.
            outcomes: The outcome of each condition.
            scoring: How the task scores.
        """
        return range_of_metric(key, outcomes, scoring)


def range_of_metric(key: str, outcomes: Sequence[Outcome], scoring: Scoring) -> tuple[float, float]:
    """Return the lowest and the highest possible value of a metric, which may depend on the number of labels.

    It is 0 to 1 for a score that is none of the metrics of the task or of this library, and if there are no queries.

    Args:
        key: The key of the metric.
        outcomes: The outcome of each condition.
        scoring: How the task scores.
    """
    statistic = scoring.metric_set.statistics.get(key) or STATISTICS.get(key)
    label_counts = {len(query.label_space) for outcome in outcomes for query in outcome.condition.queries}
    if statistic is None or not label_counts:
        return 0.0, 1.0
    return statistic.range(max(label_counts))


class Task(Scorer, Protocol):
    """Writes the queries of a sub-benchmark, and scores their predictions.

    Derive your task from it. A task must define :meth:`conditions` and :meth:`score`; the other members have defaults.
    """

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
        """Return an endless iterator of query texts without content, which replace the texts of the test rows.

        Each call returns an iterator of the same texts. The prompt writer of the experimentor uses them, too. ``None``
        (the default) keeps the texts of the test rows.

        Args:
            card: The card of the data set.
            demonstration_set: The rows that demonstrations are drawn from.
        """
        return None

    def conditions(self, task_input: TaskInput) -> Sequence[Condition]:
        """Return the conditions of a data set. Equal inputs must give equal conditions."""

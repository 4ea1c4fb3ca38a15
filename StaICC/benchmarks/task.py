"""What a task is: named lists of queries (its conditions) with a rule that scores their predictions.

A *task* writes *conditions* (lists of queries, such as one for each rate of label noise) and scores their *outcomes*:
all that a sub-benchmark adds. Building a benchmark over data sets, running, aggregating, printing and saving are
written once, in :mod:`~StaICC.benchmarks.experimentor`, :mod:`~StaICC.benchmarks.evaluation` and
:mod:`~StaICC.benchmarks.running`. Tasks are pure: the same input gives the same queries every time.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING, Any, ClassVar, Literal, Protocol

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
        if isinstance(self.level, bool) or not isinstance(self.level, int | float) or not 0.5 <= self.level <= 0.9999:
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
        parts = [f"tried{self.tried}"] if baselines and self.tried > 1 else []
        if intervals and self.intervals:
            parts.append(f"{INTERVAL_VERSION}-{self.level!r}")
        return "+".join(parts) or None


Assumed = Literal["wrong", "right"] | None
"""What is assumed of unparsed replies."""
Answers = Sequence[Answer | Failure]
"""One prediction or failure for each query, in order."""
OutputKind = Literal["probabilities", "logits", "labels", "ambiguous", "none"]


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
        self.condition, self.answers, self.outputs = condition, answers, outputs
        self._kind: Kind = outputs
        self._ambiguous: Normalised | None = None
        self.given: Answers = answers if assume is None else self._assumed(assume)
        """The answers with the assumed predictions."""
        answered = zip(condition.queries, self.given, strict=True)
        scored = [(query, answer) for query, answer in answered if not isinstance(answer, Failure)]
        labels = sum(isinstance(answer, int) for _, answer in scored)
        if 0 < labels < len(scored):
            first = {isinstance(answer, int): number for number, answer in reversed(list(enumerate(answers)))}
            raise OutputError(
                f"the prediction of query {first[True]} is a label, that of query {first[False]} is a row of numbers; "
                "return the same kind for every query of a run"
            )
        self.hard = labels > 0
        self.queries: Sequence[Query] = [query for query, _ in scored]
        self.truth = [query.label for query, _ in scored]
        self.rows: Sequence[list[float]] = [_row(answer, len(query.label_space)) for query, answer in scored]

    def _assumed(self, assume: Literal["wrong", "right"]) -> Answers:
        """Return the predictions, with a label or a one-hot row for each unparsed reply."""
        rows = self.returned_rows
        if rows and any(map(_unparsed, self.answers)):
            read = normalise(rows, self.outputs)  # of the predictions, without those that are assumed
            if read.kind == "ambiguous":
                self._ambiguous = read
            else:
                self._kind = read.kind
        certain = (-math.inf, 0.0) if self._kind == "logits" else (0.0, 1.0)
        given: list[Answer | Failure] = []
        for query, answer in zip(self.condition.queries, self.answers, strict=True):
            size = len(query.label_space)  # two labels or more
            label = (query.label + (assume == "wrong")) % size
            assumed = _row(label, size, *certain) if rows else label
            given.append(assumed if _unparsed(answer) else answer)
        return given

    def keep_columns(self, scores: ScoreRows | None) -> None:
        """Keep what is read after scoring, as columns: labels, rows and predictions of the queries, not the prompts.

        Args:
            scores: The label scores of all queries, if each has them.
        """
        if scores is not None:
            self.answers = self.given = self.rows = scores
        all_queries = ScoredQueries(self.condition.queries)
        self.queries = all_queries if len(self.queries) == len(all_queries) else ScoredQueries(self.queries)
        self.condition = Condition(self.condition.name, all_queries)
        self.__dict__.pop("normalised", None)

    @cached_property
    def normalised(self) -> Normalised:
        """The predictions as probabilities, if they can be read so (see :mod:`StaICC.metrics.classification`)."""
        return self._ambiguous or normalise(self.rows, "probabilities" if self.hard else self._kind)

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
        """Return what a statistic reads of the scored predictions; ``None`` if they have no probabilities."""
        if statistic.reads == "labels":
            return self.answered
        if statistic.reads == "rows" or (statistic.reads == "any" and self.hard):
            return self.rows
        probabilities = None if self.hard and statistic.reads == "probabilities" else self.normalised.probabilities
        return self.rows if probabilities is None and statistic.reads == "any" else probabilities

    def query_scores(self, mean: Mean) -> tuple[float | None, ...] | None:
        """Return the score of each query of the condition, of which a statistic is the mean; ``None`` if undefined."""
        predictions = self.read(mean) if self.queries else None
        if predictions is None:
            return None
        try:
            scores = iter(mean.scores(self.sample, predictions))
        except UndefinedMetricError:
            return None
        return tuple(None if isinstance(answer, Failure) else next(scores) for answer in self.given)

    @property
    def scored(self) -> int:
        """The number of queries that are scored."""
        return len(self.queries)

    @property
    def kind(self) -> OutputKind:
        """How the predictions were read; ``"none"`` if there are none."""
        if not self.queries:
            return "none"
        return "labels" if self.hard else self.normalised.kind

    @cached_property
    def answered(self) -> list[int]:
        """The predicted label index of each scored query."""
        return [argmax(row) for row in self.rows]

    @property
    def scored_predictions(self) -> list[int | None]:
        """The predicted label index of each query as it is scored; ``None`` for one that scores leave out."""
        guesses = iter(self.answered)
        return [None if isinstance(given, Failure) else next(guesses) for given in self.given]

    @cached_property
    def predictions(self) -> list[int | None]:
        """The predicted label index of each query of the condition; ``None`` for a failed query or unparsed reply."""
        pairs = zip(self.answers, self.scored_predictions, strict=True)
        return [None if isinstance(answer, Failure) else guess for answer, guess in pairs]


def _sample_of(queries: Sequence[Query], n_labels: int) -> Sample:
    """Return queries as a sample."""
    places = {row: place for place, row in enumerate(sorted({query.row for query in queries}))}
    rows = [places[query.row] for query in queries]
    return Sample([query.label for query in queries], rows, len(places), n_labels)


def _unparsed(answer: Answer | Failure) -> bool:
    return isinstance(answer, Failure) and answer.reply is not None


def _row(answer: Answer, width: int, others: float = 0.0, certain: float = 1.0) -> list[float]:
    """Return the numbers of a prediction; for a label, a row in which it is certain."""
    if isinstance(answer, list):
        return answer
    return [certain if label == answer else others for label in range(width)]


@dataclass(frozen=True, slots=True)
class Scores:
    """The scores of one data set."""

    values: Mapping[str, Any]
    """The documented keys and their values; ``None`` where undefined."""
    averaged: Mapping[str, float | None]
    """The scores that enter the mean over data sets."""
    missing: Mapping[str, str] = field(default_factory=dict)
    """The reason for each undefined value (``None``), by its key."""


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
        rows = [self.split.test.row(place) for place in range(len(self.split.test))]
        queries = []
        for number, positions in enumerate(self.demonstration_lists):
            repeat, place = divmod(number, len(rows))
            beyond_limit = self.limit is not None and place >= self.limit
            if beyond_limit and not settings.label_wrong_rate:
                if pseudo is not None:
                    skip_query(pseudo)
                continue
            texts = rows[place].texts if pseudo is None else next(pseudo)
            prompt = renderer.render(positions, texts, generator)  # beyond the limit too: each query draws noise
            if not beyond_limit:
                known = positions and not settings.label_wrong_rate
                last = self.split.demonstration.label(positions[-1]) if known else None
                queries.append(Query(prompt, settings.label_space, rows[place].label, place, repeat, last))
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

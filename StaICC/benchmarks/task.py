"""The protocol of a task: all that a sub-benchmark adds.

A *task* writes *conditions* (lists of queries, such as one for each rate of label noise) and scores their *outcomes*.
Building a benchmark over data sets, running, aggregating, printing and saving are written once, in
:mod:`~StaICC.benchmarks.experimentor`, :mod:`~StaICC.benchmarks.evaluation` and :mod:`~StaICC.benchmarks.benchmark`.
Tasks are pure: the same input gives the same queries every time.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Protocol

from StaICC.benchmarks.outcome import Condition, Outcome, Scores
from StaICC.benchmarks.statistics import Statistics
from StaICC.datasets import Card
from StaICC.metrics import MetricSet
from StaICC.metrics.intervals import Interval
from StaICC.metrics.score_intervals import Withheld
from StaICC.prompting import (
    DemonstrationLists,
    PromptRenderer,
    PromptSettings,
    Query,
    StableRandom,
    SubsetView,
    TripletSplit,
)


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
    renderer: type[PromptRenderer] = PromptRenderer
    """Writes the prompts."""

    @property
    def demonstration_set(self) -> SubsetView:
        """The rows that demonstrations are drawn from."""
        return self.split.demonstration

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
        renderer = self.renderer(self.split, settings)
        generator = noise or StableRandom()
        rows = [self.split.test.row(place) for place in range(len(self.split.test))]
        queries = []
        for number, positions in enumerate(self.demonstration_lists):
            repeat, place = divmod(number, len(rows))
            texts = rows[place].texts if pseudo is None else next(pseudo)
            beyond_limit = self.limit is not None and place >= self.limit
            if beyond_limit and not settings.label_wrong_rate:
                continue
            prompt = renderer.render(positions, texts, generator)  # beyond the limit too: each query draws noise
            if not beyond_limit:
                known = positions and not settings.label_wrong_rate
                last = self.demonstration_set.label(positions[-1]) if known else None
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


class Task(Protocol):
    """What a sub-benchmark adds to the common machinery. Derive from it: optional members have defaults."""

    name: ClassVar[str]
    """The name in messages and signatures, such as ``"Normal"``."""

    @property
    def test_rows(self) -> int | None:
        """The maximum number of test rows; ``None`` (the default) for all."""
        return None

    @property
    def repeats(self) -> int:
        """How often each test row is used, with other demonstrations each time; 1 by default."""
        return 1

    @property
    def scores_accuracy(self) -> bool:
        """Whether accuracy is among the scores of each condition, so that it gets baselines; no by default."""
        return False

    @property
    def content_free(self) -> bool:
        """Whether the queries have no content, so that one label for all of them is no fault; no by default."""
        return False

    @property
    def row_scores(self) -> Sequence[str]:
        """The scores that are means over test rows, so that a run can stop early; none by default."""
        return ()

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

    def score(self, outcomes: Sequence[Outcome], scoring: Scoring) -> Scores:
        """Return the scores of the outcomes, one outcome for each condition in order."""

    def intervals(self, outcomes: Sequence[Outcome], scoring: Scoring) -> Mapping[str, Interval | Withheld]:
        """Return confidence intervals of the scores, by key (nested keys joined by a dot); none by default.

        Raises:
            UndefinedMetricError: There are no intervals (too few test rows); the reason becomes a remark.
        """
        return {}

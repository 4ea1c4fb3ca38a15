"""Sensitivity: how often predictions change with the template, or with the demonstrations.

* Template sensitivity: nine templates, an orthogonal array of instruction, input prefix, label prefix, label affix.
* Demonstration sensitivity: eight lists of demonstrations for the same query.

Both report consistency: per query the share of its most frequent predicted label, averaged over queries.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar, Protocol

from StaICC import benchmark_names, errors
from StaICC.benchmarks.benchmark import Benchmark
from StaICC.benchmarks.task import Condition, Scores, Task, compute_or_explain
from StaICC.benchmarks.tasks.label_noise import L9, queries_by_repeat
from StaICC.metrics import diagnosis, released
from StaICC.metrics.scores import CONSISTENCY

if TYPE_CHECKING:
    from typing_extensions import Unpack

    from StaICC.benchmarks.benchmark import ChannelSettings, Datasets, Metrics, ScoringSettings
    from StaICC.benchmarks.score_intervals import Intervals
    from StaICC.benchmarks.task import Outcome, Scoring, TaskInput
    from StaICC.prompting.prompt_writer import PromptSettings


class _ConsistencyTask(Task, Protocol):
    """A task that scores the consistency of predictions over its conditions, which have the same queries.

    A query without a prediction in some condition is left out.
    """

    def prompts(self, task_input: TaskInput) -> Sequence[PromptSettings]:
        """Return the prompt settings with which each query is written; by default only those of the benchmark."""
        return [task_input.settings]

    def conditions(self, task_input: TaskInput) -> Sequence[Condition]:
        """Return one condition for each repeat and each prompt settings, repeat by repeat. Their names are numbers."""
        conditions = []
        for number, queries in enumerate(queries_by_repeat(task_input, self.prompts(task_input))):
            conditions.append(Condition(str(number), queries))
        return conditions

    def score(self, outcomes: Sequence[Outcome], scoring: Scoring) -> Scores:
        """Return the consistency of predictions over the conditions."""
        reasons_if_undefined: dict[str, str] = {}  # filled by compute_or_explain()
        consistency = compute_or_explain(
            reasons_if_undefined, "sensitivity.consistency", _consistency, outcomes, scoring
        )
        return Scores(
            values={"sensitivity": {"consistency": consistency}},
            averaged={"consistency": consistency},
            missing=reasons_if_undefined,
        )

    def intervals(self, outcomes: Sequence[Outcome], scoring: Scoring) -> Intervals:
        """Return the confidence interval of the consistency, under ``sensitivity.consistency``."""
        from StaICC.benchmarks import score_intervals

        interval = score_intervals.interval_over_conditions(outcomes, CONSISTENCY, scoring.statistics.level)
        return {"sensitivity.consistency": interval}


def _consistency(outcomes: Sequence[Outcome], scoring: Scoring) -> float:
    """Return the consistency: per query the share of its most frequent predicted label, averaged over queries.

    Args:
        outcomes: The outcome of each condition; all have the same queries.
        scoring: How the task scores. The metric set of StaICC 0.1.1 is computed by its code if no prediction is
            missing.

    Raises:
        UndefinedMetricError: There is one condition only, or no query has a prediction in every condition.
    """
    if len(outcomes) < 2:
        raise errors.UndefinedMetricError(
            "there is only one condition to compare (demonstrations set by hand give one list for each query)"
        )
    predictions_by_condition = [outcome.predictions for outcome in outcomes]
    labels_by_query = []
    for predictions_of_query in zip(*predictions_by_condition, strict=True):
        labels = [label for label in predictions_of_query if label is not None]
        if len(labels) == len(outcomes):
            labels_by_query.append(labels)
    if not labels_by_query:
        raise errors.UndefinedMetricError("no query has a prediction in every condition")
    no_prediction_is_missing = len(labels_by_query) == len(outcomes[0].answers)
    if scoring.metric_set.as_released and no_prediction_is_missing:
        rows: list[Sequence[float]] = []
        for outcome in outcomes:
            rows += outcome.rows
        return released.consistency(rows, len(labels_by_query))
    return diagnosis.consistency(labels_by_query)


@dataclass(frozen=True, slots=True)
class TemplateSensitivityTask(_ConsistencyTask):
    """Predicts the same queries with nine templates."""

    name: ClassVar[str] = benchmark_names.TEMPLATE_SENSITIVITY
    test_rows: int | None = 100
    repeats: int = 1

    def prompts(self, task_input: TaskInput) -> Sequence[PromptSettings]:
        """Return the prompt settings with each of the nine templates of the orthogonal array."""
        return [template_of_levels(task_input, levels) for levels in L9]


def template_of_levels(task_input: TaskInput, levels: str) -> PromptSettings:
    """Return the prompt settings with the template of one row of the orthogonal array.

    Args:
        task_input: The data set, whose card has three alternatives for each part of the template.
        levels: The row, such as ``"1012"``. It has one digit for each part of the template: the position of the
            alternative that is taken, from 0 to 2. The parts are instruction, input prefix, label prefix, label affix.

    Raises:
        ArgumentError: The card of the data set has no alternatives, or the row is none.
    """
    alternatives = task_input.card.alternatives
    if alternatives is None:
        raise errors.ArgumentError(
            f"the card of {task_input.card.name} has no alternative templates, which template sensitivity needs; give "
            "its card 'alternatives' (three levels of instruction, input prefixes, label prefix, label affix)"
        )
    part_names = [field.name for field in dataclasses.fields(alternatives)]
    if len(levels) != len(part_names) or not set(levels) <= set("012"):
        raise errors.ArgumentError(
            f"template: got {levels!r}, expected a template, or {len(part_names)} digits from 0 to 2, such as '1012'"
        )
    parts = {}
    for name, level in zip(part_names, levels, strict=True):
        alternatives_of_part = getattr(alternatives, name)
        parts[name] = alternatives_of_part[int(level)]
    template = dataclasses.replace(task_input.settings.template, **parts)
    return dataclasses.replace(task_input.settings, template=template)


@dataclass(frozen=True, slots=True)
class DemonstrationSensitivityTask(_ConsistencyTask):
    """Predicts the same queries with eight lists of demonstrations."""

    name: ClassVar[str] = benchmark_names.DEMONSTRATION_SENSITIVITY
    test_rows: int | None = 128
    repeats: int = 8


class TemplateSensitivity(Benchmark):
    """Consistency over nine templates on the ten data sets (100 test rows each).

    Args:
        k: Demonstrations per prompt.
        metrics: Metric set.
        datasets: Data sets; the ten by default.
        **settings: See :class:`~StaICC.benchmarks.benchmark.ChannelSettings`.
    """

    task_name = TemplateSensitivityTask.name

    def __init__(
        self, k: int = 4, metrics: Metrics = "standard", datasets: Datasets = None, **settings: Unpack[ChannelSettings]
    ) -> None:
        super().__init__(TemplateSensitivityTask(), k, metrics=metrics, datasets=datasets, **settings)


class DemonstrationSensitivity(Benchmark):
    """Consistency over eight lists of demonstrations on the ten data sets (128 test rows each).

    Args:
        k: Demonstrations per prompt.
        datasets: Data sets; the ten by default.
        **settings: See :class:`~StaICC.benchmarks.benchmark.ScoringSettings`.
    """

    task_name = DemonstrationSensitivityTask.name

    def __init__(self, k: int = 4, datasets: Datasets = None, **settings: Unpack[ScoringSettings]) -> None:
        super().__init__(DemonstrationSensitivityTask(), k, datasets=datasets, **settings)

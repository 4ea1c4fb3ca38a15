"""GLER: the slope of accuracy over the share of correct demonstration labels (Yoo et al. 2022, arXiv 2205.12685)."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar

from StaICC import benchmark_names
from StaICC.arguments import set_integers
from StaICC.benchmarks.benchmark import Benchmark, classification_scores, condition_missing
from StaICC.benchmarks.task import Condition, Scores, Task, compute_or_explain, range_of_metric
from StaICC.errors import UndefinedMetricError
from StaICC.metrics import diagnosis, released
from StaICC.prompting.stable_random import StableRandom

if TYPE_CHECKING:
    from typing_extensions import Unpack

    from StaICC.benchmarks.benchmark import ChannelSettings, Datasets, Metrics
    from StaICC.benchmarks.score_intervals import Intervals
    from StaICC.benchmarks.task import Outcome, Scoring, TaskInput
    from StaICC.prompting.prompt_writer import PromptSettings, Query


L9 = ("0000", "0111", "0222", "1012", "1120", "1201", "2021", "2102", "2210")
"""The orthogonal array L9(3^4). A row is a template: levels of instruction, input prefix, label prefix, label affix."""


@dataclass(frozen=True, slots=True)
class GLERTask(Task):
    """Predicts Normal's queries with an increasing share of wrong labels in the demonstrations."""

    name: ClassVar[str] = benchmark_names.GLER
    repeats: int = 2
    scores_accuracy: ClassVar[bool] = True
    interpolations: int = 5

    def __post_init__(self) -> None:
        set_integers(self, interpolations=2)

    def options(self) -> Mapping[str, Any]:
        """Return the options of the task: ``interpolations``, the number of noise rates."""
        return {"interpolations": self.interpolations}

    def conditions(self, task_input: TaskInput) -> Sequence[Condition]:
        """Return one condition for each noise rate: 0, 0.25, 0.5, 0.75 and 1 by default.

        The noise rate is the share of the demonstrations in a prompt that get a wrong label; their number is rounded
        down. All conditions share one random generator, so the noise of a condition depends on the conditions before
        it.
        """
        noise = StableRandom()
        conditions = []
        for step in range(self.interpolations):
            wrong_rate = step / (self.interpolations - 1)
            settings = dataclasses.replace(task_input.settings, label_wrong_rate=wrong_rate)
            conditions.append(Condition(str(step), task_input.queries(settings, noise=noise)))
        return conditions

    def score(self, outcomes: Sequence[Outcome], scoring: Scoring) -> Scores:
        """Return the metrics of each condition, and the regression line of each metric over the conditions.

        The x-axis of the line is the share of correct demonstration labels. A positive slope of the accuracy means that
        the model learns from these labels. The slope enters the mean over data sets.
        """
        values: dict[str, Any] = {}
        missing: dict[str, str] = {}
        for outcome in outcomes:
            name = outcome.condition.name
            values[name], reasons = classification_scores(outcome, scoring.metric_set)
            missing |= condition_missing(name, reasons)

        lines: dict[str, list[float] | None] = {}
        slopes: dict[str, float | None] = {}
        first_condition = outcomes[0].condition.name
        for metric in values[first_condition]:
            value_by_condition = [values_of_condition[metric] for values_of_condition in values.values()]
            line = compute_or_explain(missing, f"sensitivity.{metric}", self._line, value_by_condition, scoring)
            lines[metric] = line
            slopes[metric] = None
            if line is not None:
                slope, _intercept = line
                slopes[metric] = slope
        return Scores({**values, "sensitivity": lines}, averaged=slopes, missing=missing)

    def _line(self, by_condition: Sequence[float | None], scoring: Scoring) -> list[float]:
        """Return the regression line of a metric over the share of correct labels: its slope, then its intercept.

        Args:
            by_condition: The value of the metric at each noise rate; ``None`` where it is undefined.
            scoring: How the task scores.

        Raises:
            UndefinedMetricError: A value is undefined, or there are no demonstrations.
        """
        values = [value for value in by_condition if value is not None]
        if len(values) < len(by_condition):
            raise UndefinedMetricError("the metric is undefined at some noise rate")
        if scoring.metric_set.as_released:
            return list(released.gler(values))
        correct_shares = diagnosis.noisy_label_shares(scoring.k, len(values))
        if len(set(correct_shares)) < 2:
            raise UndefinedMetricError("without demonstrations, labels cannot be wrong")
        return list(diagnosis.gler(values, correct_shares))

    def intervals(self, outcomes: Sequence[Outcome], scoring: Scoring) -> Intervals:
        """Return the confidence intervals of the slopes, by ``sensitivity.`` and the key of the metric."""
        from StaICC.benchmarks import score_intervals

        shares = diagnosis.noisy_label_shares(scoring.k, self.interpolations)
        return score_intervals.slope_intervals(
            outcomes, shares, scoring.metric_set.statistics, scoring.statistics.level
        )

    def range_of(self, key: str, outcomes: Sequence[Outcome], scoring: Scoring) -> tuple[float, float]:
        """Return the lowest and the highest possible slope of a metric. A slope may have either sign."""
        from StaICC.benchmarks import score_intervals

        shares = diagnosis.noisy_label_shares(scoring.k, self.interpolations)
        return score_intervals.slope_range(range_of_metric(key, outcomes, scoring), shares)


def queries_by_repeat(task_input: TaskInput, prompts: Sequence[PromptSettings]) -> Iterator[tuple[Query, ...]]:
    """Yield the queries of each condition, for tasks with one condition for each repeat and each prompt settings.

    With two repeats and the settings A and B, the order is: repeat 0 with A, repeat 0 with B, repeat 1 with A, repeat 1
    with B. A repeat is one list of demonstrations for each test row.

    Args:
        task_input: The data set.
        prompts: The prompt settings, such as one for each template.
    """
    queries_of_settings = [task_input.queries(settings) for settings in prompts]
    for repeat in range(task_input.repeats):
        for queries in queries_of_settings:
            yield tuple(query for query in queries if query.repeat == repeat)


class GLER(Benchmark):
    """Sensitivity to label noise over the ten data sets.

    ``Averaged results`` holds the slopes: the change of each metric from no correct label to all correct labels.

    Args:
        k: Demonstrations per prompt.
        metrics: Metric set, or functions by name.
        datasets: Data sets; the ten by default.
        interpolations: Number of noise rates, from 0 to 1 in equal steps.
        **settings: See :class:`~StaICC.benchmarks.benchmark.ChannelSettings`.
    """

    task_name = GLERTask.name

    def __init__(
        self,
        k: int = 4,
        metrics: Metrics = "standard",
        datasets: Datasets = None,
        interpolations: int = 5,
        **settings: Unpack[ChannelSettings],
    ) -> None:
        """Make the benchmark with a task of the given number of noise rates."""
        super().__init__(GLERTask(interpolations=interpolations), k, metrics=metrics, datasets=datasets, **settings)

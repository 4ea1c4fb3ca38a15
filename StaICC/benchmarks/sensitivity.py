"""StaICC-Diagnosis, robustness: how much do predictions depend on irrelevant changes of the prompt?

* GLER (Yoo et al. 2022, arXiv 2205.12685): the slope of accuracy over the share of correct demonstration labels.
* Template sensitivity: nine templates, an orthogonal array of instruction, input prefix, label prefix, label affix.
* Demonstration sensitivity: eight lists of demonstrations for the same query.

The latter two report consistency: per query the share of its most frequent predicted label, averaged over queries.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar, Protocol

from StaICC.benchmarks.benchmark import Benchmark, DatasetChoice, MetricChoice, Settings
from StaICC.benchmarks.intervals import Intervals, consistency_intervals, slope_intervals
from StaICC.benchmarks.outcome import Condition, Outcome, Scores
from StaICC.benchmarks.scoring import attempt, classification_scores, condition_missing
from StaICC.benchmarks.task import Scoring, Task, TaskInput
from StaICC.errors import ArgumentError, UndefinedMetricError, validate_integer
from StaICC.metrics import consistency, gler, released
from StaICC.prompting import PromptSettings, StableRandom

if TYPE_CHECKING:
    from typing_extensions import Unpack


L9 = ("0000", "0111", "0222", "1012", "1120", "1201", "2021", "2102", "2210")
"""The orthogonal array L9(3^4). A row is a template: levels of instruction, input prefix, label prefix, label affix."""


@dataclass(frozen=True, slots=True)
class GLERTask(Task):
    """Predicts Normal's queries with an increasing share of wrong labels in the demonstrations."""

    name: ClassVar[str] = "GLER"
    repeats: int = 2
    scores_accuracy: ClassVar[bool] = True
    interpolations: int = 5

    def __post_init__(self) -> None:
        validate_integer("interpolations", self.interpolations, 2)

    def options(self) -> Mapping[str, Any]:
        """Return the number of noise rates."""
        return {"interpolations": self.interpolations}

    def _rates(self) -> list[float]:
        return [step / (self.interpolations - 1) for step in range(self.interpolations)]

    def conditions(self, task_input: TaskInput) -> Sequence[Condition]:
        """Return one condition for each rate of label noise, from 0 to 1; all conditions share one generator."""
        settings = task_input.settings
        noise = StableRandom()
        return [
            Condition(str(step), task_input.queries(dataclasses.replace(settings, label_wrong_rate=rate), noise=noise))
            for step, rate in enumerate(self._rates())
        ]

    def shares_of_correct_labels(self, k: int) -> list[float]:
        """Return the share of demonstrations with their true label, condition by condition.

        Args:
            k: Demonstrations per prompt; ``int(k * rate)`` of them have a wrong label.
        """
        return [1 - int(k * rate) / k if k else 1.0 for rate in self._rates()]

    def score(self, outcomes: Sequence[Outcome], scoring: Scoring) -> Scores:
        """Return each condition's metrics, and each metric's regression line on the share of correct labels."""
        values: dict[str, Any] = {}
        missing: dict[str, str] = {}
        for outcome in outcomes:
            values[outcome.condition.name], reasons = classification_scores(outcome, scoring.metric_set)
            missing |= condition_missing(outcome.condition.name, reasons)
        shares = self.shares_of_correct_labels(scoring.k)
        lines: dict[str, list[float] | None] = {}
        for metric in values["0"]:
            series = [values[outcome.condition.name][metric] for outcome in outcomes]
            if any(not isinstance(value, (int, float)) for value in series):
                lines[metric], missing[f"sensitivity.{metric}"] = None, "the metric is undefined at some noise rate"
            elif scoring.metric_set.as_released:
                lines[metric] = list(released.gler(series))
            elif len(set(shares)) < 2:
                lines[metric], missing[f"sensitivity.{metric}"] = None, "without demonstrations, labels cannot be wrong"
            else:
                lines[metric] = list(gler(series, shares))
        values["sensitivity"] = lines
        return Scores(values, {metric: line[0] if line else None for metric, line in lines.items()}, missing)

    def intervals(self, outcomes: Sequence[Outcome], scoring: Scoring) -> Intervals:
        """Return the intervals of the slopes."""
        return slope_intervals(outcomes, self.shares_of_correct_labels(scoring.k), scoring.statistics)


class _ConsistencyTask(Task, Protocol):
    """Scores how often the conditions agree on a query, over the queries with a prediction in every condition."""

    def score(self, outcomes: Sequence[Outcome], scoring: Scoring) -> Scores:
        """Return the consistency over the conditions."""
        missing: dict[str, str] = {}
        value = attempt(missing, "sensitivity.consistency", _consistency, outcomes, scoring)
        return Scores({"sensitivity": {"consistency": value}}, {"consistency": value}, missing)

    def intervals(self, outcomes: Sequence[Outcome], scoring: Scoring) -> Intervals:
        """Return the interval of the consistency."""
        return consistency_intervals(outcomes, scoring.statistics)


def _consistency(outcomes: Sequence[Outcome], scoring: Scoring) -> float:
    if len(outcomes) < 2:
        raise UndefinedMetricError(
            "there is only one condition to compare (demonstrations set by hand give one list for each query)"
        )
    by_query = zip(*(outcome.predictions for outcome in outcomes), strict=True)
    complete = [[label for label in labels if label is not None] for labels in by_query if None not in labels]
    if not complete:
        raise UndefinedMetricError("no query has a prediction in every condition")
    if scoring.metric_set.as_released and len(complete) == len(outcomes[0].answers):
        return released.consistency([row for outcome in outcomes for row in outcome.rows], len(complete))
    return consistency(complete)


@dataclass(frozen=True, slots=True)
class TemplateSensitivityTask(_ConsistencyTask):
    """Predicts the same queries with nine templates."""

    name: ClassVar[str] = "Template_sens"
    test_rows: int | None = 100
    repeats: int = 1

    def conditions(self, task_input: TaskInput) -> Sequence[Condition]:
        """Return one condition for each template of the orthogonal array."""
        settings = [template_of_levels(task_input, row) for row in L9]
        return [Condition(str(place), task_input.queries(each)) for place, each in enumerate(settings)]


def template_of_levels(task_input: TaskInput, levels: str) -> PromptSettings:
    """Return the settings with the template of one row of the array."""
    alternatives = task_input.card.alternatives
    if alternatives is None:
        raise ArgumentError(
            f"the card of {task_input.card.name} has no alternative templates, which template sensitivity needs; give "
            "the data set's card 'alternatives' (three levels of instruction, input prefixes, label prefix, label "
            "affix)"
        )
    instruction, prefixes, label_prefix, label_affix = map(int, levels)
    settings = task_input.settings
    template = dataclasses.replace(
        settings.template,
        instruction=alternatives.instruction[instruction],
        input_text_prefixes=alternatives.input_text_prefixes[prefixes],
        label_prefix=alternatives.label_prefix[label_prefix],
        label_affix=alternatives.label_affix[label_affix],
    )
    return dataclasses.replace(settings, template=template)


@dataclass(frozen=True, slots=True)
class DemonstrationSensitivityTask(_ConsistencyTask):
    """Predicts the same queries with eight lists of demonstrations."""

    name: ClassVar[str] = "Demo_sens"
    test_rows: int | None = 128
    repeats: int = 8

    def conditions(self, task_input: TaskInput) -> Sequence[Condition]:
        """Return one condition for each repeat."""
        queries = task_input.queries()
        return [
            Condition(str(repeat), tuple(query for query in queries if query.repeat == repeat))
            for repeat in range(task_input.repeats)
        ]


class GLER(Benchmark):
    """Sensitivity to label noise over the ten data sets.

    ``Averaged results`` holds the slopes: the change of each metric from no correct label to all correct labels.

    Args:
        k: Demonstrations per prompt.
        metrics: Metric set, or functions by name.
        datasets: Data sets; the ten by default.
        interpolations: Number of noise rates, from 0 to 1 in equal steps.
        noisy_channel: Score the text given the label (noisy channel).
        **settings: See :class:`~StaICC.benchmarks.benchmark.Settings`.
    """

    __slots__ = ()
    task_name = GLERTask.name

    def __init__(
        self,
        k: int = 4,
        metrics: MetricChoice = "standard",
        datasets: DatasetChoice = None,
        interpolations: int = 5,
        *,
        noisy_channel: bool = False,
        **settings: Unpack[Settings],
    ) -> None:
        task = GLERTask(interpolations=interpolations)
        super().__init__(task, k, noisy_channel, metrics, datasets, **settings)


class TemplateSensitivity(Benchmark):
    """Consistency over nine templates on the ten data sets (100 test rows each).

    Args:
        k: Demonstrations per prompt.
        metrics: Metric set.
        datasets: Data sets; the ten by default.
        noisy_channel: Score the text given the label (noisy channel).
        **settings: See :class:`~StaICC.benchmarks.benchmark.Settings`.
    """

    __slots__ = ()
    task_name = TemplateSensitivityTask.name

    def __init__(
        self,
        k: int = 4,
        metrics: MetricChoice = "standard",
        datasets: DatasetChoice = None,
        *,
        noisy_channel: bool = False,
        **settings: Unpack[Settings],
    ) -> None:
        super().__init__(TemplateSensitivityTask(), k, noisy_channel, metrics, datasets, **settings)


class DemonstrationSensitivity(Benchmark):
    """Consistency over eight lists of demonstrations on the ten data sets (128 test rows each).

    Args:
        k: Demonstrations per prompt.
        datasets: Data sets; the ten by default.
        metrics: Metric set.
        noisy_channel: Score the text given the label (noisy channel).
        **settings: See :class:`~StaICC.benchmarks.benchmark.Settings`.
    """

    __slots__ = ()
    task_name = DemonstrationSensitivityTask.name

    def __init__(
        self,
        k: int = 4,
        datasets: DatasetChoice = None,
        *,
        metrics: MetricChoice = "standard",
        noisy_channel: bool = False,
        **settings: Unpack[Settings],
    ) -> None:
        super().__init__(DemonstrationSensitivityTask(), k, noisy_channel, metrics, datasets, **settings)

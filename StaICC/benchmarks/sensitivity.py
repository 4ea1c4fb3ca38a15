"""StaICC-Diagnosis, robustness: how much do predictions move with what should not matter?

* GLER (Yoo et al. 2022, arXiv 2205.12685): accuracy against the share of correct labels in the demonstrations; the
slope. * Template sensitivity: nine templates, an orthogonal array over instruction, input prefix, label prefix and
label affix. * Demonstration sensitivity: eight lists of demonstrations for the same query.

The latter two report consistency: per query the share of its most frequent predicted label, averaged over queries.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar

from StaICC.benchmarks.benchmark import Benchmark, DatasetChoice, MetricChoice, Settings
from StaICC.benchmarks.scoring import attempt, classification_scores, condition_missing
from StaICC.benchmarks.statistics import Statistics, consistency_intervals, slope_intervals
from StaICC.benchmarks.task import Condition, Outcome, Scores
from StaICC.errors import ArgumentError
from StaICC.metrics import consistency, gler, released
from StaICC.prompting import StableRandom

if TYPE_CHECKING:
    from typing_extensions import Unpack

    from StaICC.benchmarks.experimentor import Experimentor
    from StaICC.metrics.intervals import Interval
    from StaICC.prompting import PromptSettings

__all__ = [
    "GLER",
    "L9",
    "DemonstrationSensitivity",
    "DemonstrationSensitivityTask",
    "GLERTask",
    "TemplateSensitivity",
    "TemplateSensitivityTask",
]

L9 = ("0000", "0111", "0222", "1012", "1120", "1201", "2021", "2102", "2210")
"""The orthogonal array L9(3^4), one row a template: levels of instruction, input prefix, label prefix, label affix."""


@dataclass(frozen=True, slots=True)
class GLERTask:
    """Ask Normal's queries with more and more falsified labels in the demonstrations."""

    name: ClassVar[str] = "GLER"
    test_rows: int | None = None
    repeats: int = 2
    scores_accuracy: ClassVar[bool] = True
    interpolations: int = 5

    def __post_init__(self) -> None:
        if not isinstance(self.interpolations, int) or self.interpolations < 2:
            raise ArgumentError(f"interpolations must be a whole number of at least 2, not {self.interpolations!r}")

    def options(self) -> Mapping[str, Any]:
        """Return the number of noise rates."""
        return {"interpolations": self.interpolations}

    def _rates(self) -> list[float]:
        return [step / (self.interpolations - 1) for step in range(self.interpolations)]

    def conditions(self, experimentor: Experimentor) -> Sequence[Condition]:
        """Return one condition for each rate of label noise, from none to all; one generator runs through all."""
        settings = experimentor.prompt_former.settings
        noise = StableRandom()
        return [
            Condition(
                str(step), experimentor.queries(dataclasses.replace(settings, label_wrong_rate=rate), noise=noise)
            )
            for step, rate in enumerate(self._rates())
        ]

    def shares_of_correct_labels(self, k: int) -> list[float]:
        """Return the share of demonstrations with their true label, condition by condition.

        Args:
            k: Demonstrations per prompt; ``int(k * rate)`` of them are falsified.
        """
        return [1 - int(k * rate) / k if k else 1.0 for rate in self._rates()]

    def score(self, experimentor: Experimentor, outcomes: Sequence[Outcome]) -> Scores:
        """Return each condition's metrics, and each metric's regression line on the share of correct labels."""
        values: dict[str, Any] = {}
        missing: dict[str, str] = {}
        for outcome in outcomes:
            values[outcome.condition.name], absent = classification_scores(experimentor, outcome)
            missing |= condition_missing(outcome.condition.name, absent)
        shares = self.shares_of_correct_labels(experimentor.get_k())
        lines: dict[str, list[float] | None] = {}
        for metric in values["0"]:
            series = [values[outcome.condition.name][metric] for outcome in outcomes]
            if any(not isinstance(value, (int, float)) for value in series):
                lines[metric], missing[f"sensitivity.{metric}"] = None, "the metric is undefined at some noise rate"
            elif experimentor.metric_set.as_released:
                lines[metric] = list(released.gler(series))
            elif len(set(shares)) < 2:
                lines[metric], missing[f"sensitivity.{metric}"] = (
                    None,
                    "without demonstrations no label can be falsified",
                )
            else:
                lines[metric] = list(gler(series, shares))
        values["sensitivity"] = lines
        return Scores(values, {metric: line[0] if line else None for metric, line in lines.items()}, missing)

    def intervals(
        self, experimentor: Experimentor, outcomes: Sequence[Outcome], statistics: Statistics
    ) -> Mapping[str, Interval]:
        """Return the intervals of the slopes."""
        return slope_intervals(outcomes, self.shares_of_correct_labels(experimentor.get_k()), statistics)


def _consistency_scores(experimentor: Experimentor, outcomes: Sequence[Outcome]) -> Scores:
    """Score how often the conditions agree, query by query, where every condition has an answer."""
    if len(outcomes) < 2:
        return _no_consistency(
            "there is only one condition, so there is nothing to agree with (demonstrations set by hand ask once)"
        )
    by_query = zip(*(outcome.predictions for outcome in outcomes), strict=True)
    answered = [list(labels) for labels in by_query if None not in labels]
    if not answered:
        return _no_consistency("no query has an answer in every condition")
    missing: dict[str, str] = {}
    if experimentor.metric_set.as_released and len(answered) == len(outcomes[0].answers):
        rows = [row for outcome in outcomes for row in outcome.rows]
        value = attempt(missing, "sensitivity.consistency", released.consistency, rows, len(answered))
    else:
        value = consistency([[label for label in labels if label is not None] for labels in answered])
    return Scores({"sensitivity": {"consistency": value}}, {"consistency": value}, missing)


def _no_consistency(reason: str) -> Scores:
    return Scores({"sensitivity": {"consistency": None}}, {"consistency": None}, {"sensitivity.consistency": reason})


@dataclass(frozen=True, slots=True)
class TemplateSensitivityTask:
    """Ask the same queries through nine templates."""

    name: ClassVar[str] = "Template_sens"
    test_rows: int | None = 100
    repeats: int = 1
    scores_accuracy: ClassVar[bool] = False

    def options(self) -> Mapping[str, Any]:
        """Return no settings."""
        return {}

    def conditions(self, experimentor: Experimentor) -> Sequence[Condition]:
        """Return one condition for each template of the orthogonal array."""
        return [
            Condition(str(place), experimentor.queries(_template(experimentor, row))) for place, row in enumerate(L9)
        ]

    def score(self, experimentor: Experimentor, outcomes: Sequence[Outcome]) -> Scores:
        """Return the consistency over the templates."""
        return _consistency_scores(experimentor, outcomes)

    def intervals(
        self, experimentor: Experimentor, outcomes: Sequence[Outcome], statistics: Statistics
    ) -> Mapping[str, Interval]:
        """Return the interval of the consistency."""
        return consistency_intervals(outcomes, statistics)


def _template(experimentor: Experimentor, levels: str) -> PromptSettings:
    """Give the settings with the template of one row of the array."""
    alternatives = experimentor.card.alternatives
    if alternatives is None:
        raise ArgumentError(
            f"the card of {experimentor.name} has no alternative templates, which template sensitivity needs; give the "
            "data set's card 'alternatives' (three levels of instruction, input prefixes, label prefix, label affix)"
        )
    instruction, prefixes, label_prefix, label_affix = map(int, levels)
    settings = experimentor.prompt_former.settings
    template = dataclasses.replace(
        settings.template,
        instruction=alternatives.instruction[instruction],
        input_text_prefixes=alternatives.input_text_prefixes[prefixes],
        label_prefix=alternatives.label_prefix[label_prefix],
        label_affix=alternatives.label_affix[label_affix],
    )
    return dataclasses.replace(settings, template=template)


@dataclass(frozen=True, slots=True)
class DemonstrationSensitivityTask:
    """Ask the same queries after eight lists of demonstrations."""

    name: ClassVar[str] = "Demo_sens"
    test_rows: int | None = 128
    repeats: int = 8
    scores_accuracy: ClassVar[bool] = False

    def options(self) -> Mapping[str, Any]:
        """Return no settings."""
        return {}

    def conditions(self, experimentor: Experimentor) -> Sequence[Condition]:
        """Return one condition for each repeat."""
        queries = experimentor.queries()
        return [
            Condition(str(repeat), tuple(query for query in queries if query.repeat == repeat))
            for repeat in range(experimentor.get_repeat_times())
        ]

    def score(self, experimentor: Experimentor, outcomes: Sequence[Outcome]) -> Scores:
        """Return the consistency over the lists of demonstrations."""
        return _consistency_scores(experimentor, outcomes)

    def intervals(
        self, experimentor: Experimentor, outcomes: Sequence[Outcome], statistics: Statistics
    ) -> Mapping[str, Interval]:
        """Return the interval of the consistency."""
        return consistency_intervals(outcomes, statistics)


class GLER(Benchmark):
    """Sensitivity to label noise over the ten data sets.

    ``Averaged results`` holds the slopes: the change of each metric from no correct label to all correct labels.

    Args:
        k: Demonstrations per prompt.
        metrics: Metric set, or functions by name.
        datasets: Data sets; the ten by default.
        interpolations: How many noise rates, from 0 to 1 in equal steps.
        noisy_channel: Ask for the text given the label.
        **settings: See :class:`~StaICC.benchmarks.benchmark.Settings`.
    """

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
        noisy_channel: Ask for the text given the label.
        **settings: See :class:`~StaICC.benchmarks.benchmark.Settings`.
    """

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
        task = TemplateSensitivityTask()
        super().__init__(task, k, noisy_channel, metrics, datasets, **settings)


class DemonstrationSensitivity(Benchmark):
    """Consistency over eight lists of demonstrations on the ten data sets (128 test rows each).

    Args:
        k: Demonstrations per prompt.
        datasets: Data sets; the ten by default.
        metrics: Metric set.
        noisy_channel: Ask for the text given the label.
        **settings: See :class:`~StaICC.benchmarks.benchmark.Settings`.
    """

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
        task = DemonstrationSensitivityTask()
        super().__init__(task, k, noisy_channel, metrics, datasets, **settings)

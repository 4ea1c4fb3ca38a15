"""StaICC-Diagnosis, prediction bias: does the model prefer a label before it knows the query?

* Contextual bias (Zhao et al. 2021, arXiv 2102.09690): the query is empty.
* Domain bias (Fei et al. 2023, arXiv 2305.19148): the query is random words of the demonstrations.
* Posterior bias, the paper's "empirical bias": the queries of StaICC-Normal; how far the averaged prediction is from
  the frequencies of the true labels.

``entropy`` is the README's figure, the entropy of the averaged prediction; ``contextual_bias`` and ``domain_bias``
are the paper's (Eq. 2), minus the average entropy of the single predictions. ``DL div.`` is the release's name of the
divergence that the paper calls ``empirical_bias`` (Eq. 3).
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar

from StaICC.benchmarks.benchmark import Benchmark, DatasetChoice, MetricChoice, Settings
from StaICC.benchmarks.scoring import NO_ANSWERS, attempt
from StaICC.benchmarks.statistics import Statistics, bias_intervals
from StaICC.benchmarks.task import Condition, Outcome, Scores
from StaICC.errors import ArgumentError
from StaICC.metrics import bias, released
from StaICC.prompting import DOMAIN_QUERY_LENGTH, domain_queries, empty_queries

if TYPE_CHECKING:
    from typing_extensions import Unpack

    from StaICC.benchmarks.experimentor import Experimentor
    from StaICC.metrics.intervals import Interval

__all__ = [
    "ContextualBias",
    "ContextualBiasTask",
    "DomainBias",
    "DomainBiasTask",
    "PosteriorBias",
    "PosteriorBiasTask",
]


def _undefined(keys: Sequence[str], reason: str) -> Scores:
    averaged = [key for key in keys if key != "distribution"]  # label spaces differ: there is no mean distribution
    return Scores(dict.fromkeys(keys), dict.fromkeys(averaged), dict.fromkeys(keys, reason))


def _unreadable(outcome: Outcome) -> str | None:
    """Say why an outcome has no probabilities."""
    if not outcome.queries:
        return NO_ANSWERS
    return outcome.normalised.reason if outcome.normalised.probabilities is None else None


@dataclass(frozen=True, slots=True)
class _PriorBiasTask:
    """Ask meaningless queries; report the entropy of what comes back."""

    name: ClassVar[str]
    figure: ClassVar[str]
    test_rows: int | None = None
    repeats: int = 2
    scores_accuracy: ClassVar[bool] = False

    def options(self) -> Mapping[str, Any]:
        """Return no settings."""
        return {}

    def pseudo_queries(self, experimentor: Experimentor) -> Iterator[tuple[str, ...]]:
        """Give the meaningless queries, without end, always the same."""
        raise NotImplementedError

    def conditions(self, experimentor: Experimentor) -> Sequence[Condition]:
        """Return Normal's queries with their texts replaced."""
        return [Condition(self.figure, experimentor.queries(pseudo=self.pseudo_queries(experimentor)))]

    def score(self, experimentor: Experimentor, outcomes: Sequence[Outcome]) -> Scores:
        """Return the entropy of the mean prediction, the mean prediction, and the paper's figure."""
        outcome = outcomes[0]
        missing: dict[str, str] = {}
        if experimentor.metric_set.as_released:
            values = {
                "entropy": attempt(missing, "entropy", released.entropy_of_mean, outcome.rows),
                "distribution": attempt(missing, "distribution", released.mean_distribution, outcome.rows),
            }
            return Scores(values, {"entropy": values["entropy"], "distribution": 0.0}, missing)
        reason = _unreadable(outcome)
        rows = outcome.normalised.probabilities if reason is None else None
        if rows is None:
            return _undefined(["entropy", "distribution", self.figure], reason or NO_ANSWERS)
        values = {"entropy": bias.entropy_of_mean(rows), "distribution": bias.mean_distribution(rows)}
        if outcome.hard:
            values[self.figure] = None
            missing[self.figure] = "the function returned labels, whose single predictions have no entropy"
        else:
            values[self.figure] = bias.negated_mean_entropy(rows)
        return Scores(values, {"entropy": values["entropy"], self.figure: values[self.figure]}, missing)

    def intervals(
        self, experimentor: Experimentor, outcomes: Sequence[Outcome], statistics: Statistics
    ) -> Mapping[str, Interval]:
        """Return the intervals of both figures."""
        names = {"entropy": "entropy of mean"} | ({} if outcomes[0].hard else {self.figure: "mean entropy"})
        return bias_intervals(outcomes[0], statistics, names, divergence=False)


@dataclass(frozen=True, slots=True)
class ContextualBiasTask(_PriorBiasTask):
    """Ask empty queries."""

    name: ClassVar[str] = "Contextual_bias"
    figure: ClassVar[str] = "contextual_bias"

    def pseudo_queries(self, experimentor: Experimentor) -> Iterator[tuple[str, ...]]:
        """Give empty queries."""
        return empty_queries(len(experimentor.card.template.input_text_prefixes))


@dataclass(frozen=True, slots=True)
class DomainBiasTask(_PriorBiasTask):
    """Ask random words of the demonstrations."""

    name: ClassVar[str] = "Domain_bias"
    figure: ClassVar[str] = "domain_bias"
    domain_query_length: int = DOMAIN_QUERY_LENGTH

    def __post_init__(self) -> None:
        length = self.domain_query_length
        if isinstance(length, bool) or not isinstance(length, int) or length < 0:
            raise ArgumentError(f"domain_query_length must be a number of words of at least 0, not {length!r}")

    def options(self) -> Mapping[str, Any]:
        """Return the number of words."""
        return {"domain_query_length": self.domain_query_length}

    def pseudo_queries(self, experimentor: Experimentor) -> Iterator[tuple[str, ...]]:
        """Give queries of random words."""
        return domain_queries(experimentor.demonstration_set(), self.domain_query_length)


@dataclass(frozen=True, slots=True)
class PosteriorBiasTask:
    """Ask Normal's queries; report how far the mean prediction is from the label frequencies."""

    name: ClassVar[str] = "Post_bias"
    test_rows: int | None = None
    repeats: int = 2
    scores_accuracy: ClassVar[bool] = False

    def options(self) -> Mapping[str, Any]:
        """Return no settings."""
        return {}

    def conditions(self, experimentor: Experimentor) -> Sequence[Condition]:
        """Return Normal's queries."""
        return [Condition("posterior_bias", experimentor.queries())]

    def score(self, experimentor: Experimentor, outcomes: Sequence[Outcome]) -> Scores:
        """Return the divergence and the mean prediction."""
        outcome = outcomes[0]
        missing: dict[str, str] = {}
        if experimentor.metric_set.as_released:
            given = outcome.truth, outcome.rows
            values = {
                "DL div.": attempt(missing, "DL div.", released.divergence, *given),
                "distribution": attempt(missing, "distribution", released.excess_distribution, *given),
            }
            return Scores(values, {"DL div.": values["DL div."], "distribution": 0.0}, missing)
        reason = _unreadable(outcome)
        rows = outcome.normalised.probabilities if reason is None else None
        if rows is None:
            return _undefined(["DL div.", "distribution", "empirical_bias"], reason or NO_ANSWERS)
        found: float | None = bias.empirical_bias(rows, outcome.truth)
        if found is None or math.isinf(found):
            reason = "infinite: the function gives probability to a label that no asked row has"
            found, missing = None, {"DL div.": reason, "empirical_bias": reason}
        values = {"DL div.": found, "distribution": bias.mean_distribution(rows), "empirical_bias": found}
        return Scores(values, {"DL div.": found, "empirical_bias": found}, missing)

    def intervals(
        self, experimentor: Experimentor, outcomes: Sequence[Outcome], statistics: Statistics
    ) -> Mapping[str, Interval]:
        """Return the interval of the divergence."""
        names = {"DL div.": "divergence", "empirical_bias": "divergence"}
        return bias_intervals(outcomes[0], statistics, names, divergence=True)


class ContextualBias(Benchmark):
    """Contextual bias over the ten data sets (arguments as :class:`~StaICC.benchmarks.normal.Normal`)."""

    task_name = ContextualBiasTask.name

    def __init__(
        self,
        k: int = 4,
        noisy_channel: bool = False,
        metrics: MetricChoice = "standard",
        datasets: DatasetChoice = None,
        **settings: Unpack[Settings],
    ) -> None:
        super().__init__(
            ContextualBiasTask(),
            k,
            noisy_channel,
            metrics,
            datasets,
            **settings,
        )


class DomainBias(Benchmark):
    """Domain bias over the ten data sets.

    Args:
        k: Demonstrations per prompt.
        noisy_channel: Ask for the text given the label.
        metrics: Metric set.
        datasets: Data sets; the ten by default.
        domain_query_length: Words in a query.
        **settings: See :class:`~StaICC.benchmarks.benchmark.Settings`.
    """

    task_name = DomainBiasTask.name

    def __init__(
        self,
        k: int = 4,
        noisy_channel: bool = False,
        metrics: MetricChoice = "standard",
        datasets: DatasetChoice = None,
        domain_query_length: int = DOMAIN_QUERY_LENGTH,
        **settings: Unpack[Settings],
    ) -> None:
        task = DomainBiasTask(domain_query_length=domain_query_length)
        super().__init__(task, k, noisy_channel, metrics, datasets, **settings)


class PosteriorBias(Benchmark):
    """Posterior (empirical) bias over the ten data sets (arguments as :class:`~StaICC.benchmarks.normal.Normal`).

    ``domain_query_length`` is accepted because 0.1.1 accepts it; nothing depends on it.
    """

    task_name = PosteriorBiasTask.name

    def __init__(
        self,
        k: int = 4,
        noisy_channel: bool = False,
        metrics: MetricChoice = "standard",
        datasets: DatasetChoice = None,
        domain_query_length: int = DOMAIN_QUERY_LENGTH,
        **settings: Unpack[Settings],
    ) -> None:
        super().__init__(
            PosteriorBiasTask(),
            k,
            noisy_channel,
            metrics,
            datasets,
            **settings,
        )

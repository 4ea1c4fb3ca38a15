"""StaICC-Diagnosis, prediction bias: does the model prefer a label independent of the query?

* Contextual bias (Zhao et al. 2021, arXiv 2102.09690): the query is empty.
* Domain bias (Fei et al. 2023, arXiv 2305.19148): the query is random words of the demonstrations.
* Posterior bias, the paper's "empirical bias": the queries of StaICC-Normal; how far the averaged prediction is from
  the frequencies of the true labels.

``entropy`` is the score of the README, the entropy of the averaged prediction; ``contextual_bias`` and ``domain_bias``
are the paper's (Eq. 2), minus the average entropy of the single predictions. ``DL div.`` is the release's name of the
divergence that the paper calls ``empirical_bias`` (Eq. 3).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar

from StaICC.benchmarks.benchmark import Benchmark, DatasetChoice, MetricChoice, Settings, TaskBenchmark
from StaICC.benchmarks.intervals import Intervals, bias_intervals
from StaICC.benchmarks.outcome import Condition, Outcome, Scores
from StaICC.benchmarks.scoring import NO_PREDICTIONS, attempt
from StaICC.benchmarks.task import Scoring, Task, TaskInput
from StaICC.datasets import Card
from StaICC.errors import validate_integer
from StaICC.metrics import bias, released
from StaICC.prompting import DOMAIN_QUERY_LENGTH, SubsetView, domain_queries, empty_queries

if TYPE_CHECKING:
    from typing_extensions import Unpack


def _undefined(keys: Sequence[str], reason: str) -> Scores:
    averaged = [key for key in keys if key != "distribution"]  # label spaces differ: there is no mean distribution
    return Scores(dict.fromkeys(keys), dict.fromkeys(averaged), dict.fromkeys(keys, reason))


def _released(key: str, score: Callable[..., Any], distribution: Callable[..., Any], *data: Any) -> Scores:
    """Return a score and the mean prediction as 0.1.1 computes them; it reports zero as the mean of distributions."""
    missing: dict[str, str] = {}
    values = {
        key: attempt(missing, key, score, *data),
        "distribution": attempt(missing, "distribution", distribution, *data),
    }
    return Scores(values, {key: values[key], "distribution": 0.0}, missing)


def _readable(outcome: Outcome) -> tuple[Sequence[Sequence[float]] | None, str]:
    """Return the probabilities of an outcome, or ``None`` and the reason."""
    if not outcome.queries:
        return None, NO_PREDICTIONS
    return outcome.normalised.probabilities, outcome.normalised.reason or NO_PREDICTIONS


@dataclass(frozen=True, slots=True)
class _PriorBiasTask(Task):
    """Predicts queries without content, and reports the entropy of the predictions."""

    name: ClassVar[str]
    bias_key: ClassVar[str]
    content_free: ClassVar[bool] = True
    repeats: int = 2

    def pseudo_queries(self, card: Card, demonstration_set: SubsetView) -> Iterator[tuple[str, ...]]:
        """Return the queries without content."""
        raise NotImplementedError

    def conditions(self, task_input: TaskInput) -> Sequence[Condition]:
        """Return Normal's queries with their texts replaced."""
        return [
            Condition(
                self.bias_key,
                task_input.queries(pseudo=self.pseudo_queries(task_input.card, task_input.demonstration_set)),
            )
        ]

    def score(self, outcomes: Sequence[Outcome], scoring: Scoring) -> Scores:
        """Return the entropy of the mean prediction, the mean prediction, and the paper's score."""
        outcome = outcomes[0]
        missing: dict[str, str] = {}
        if scoring.metric_set.as_released:
            return _released("entropy", released.entropy_of_mean, released.mean_distribution, outcome.rows)
        rows, reason = _readable(outcome)
        if rows is None:
            return _undefined(["entropy", "distribution", self.bias_key], reason)
        values: dict[str, Any] = {"entropy": bias.entropy_of_mean(rows), "distribution": bias.mean_distribution(rows)}
        if outcome.hard:
            values[self.bias_key] = None
            missing[self.bias_key] = "the predictions are bare labels, which have no entropy"
        else:
            values[self.bias_key] = bias.negated_mean_entropy(rows)
        return Scores(values, {"entropy": values["entropy"], self.bias_key: values[self.bias_key]}, missing)

    def intervals(self, outcomes: Sequence[Outcome], scoring: Scoring) -> Intervals:
        """Return the intervals of both entropies."""
        names = {"entropy": "entropy of mean"} | ({} if outcomes[0].hard else {self.bias_key: "mean entropy"})
        return bias_intervals(outcomes[0], scoring.statistics, names)


@dataclass(frozen=True, slots=True)
class ContextualBiasTask(_PriorBiasTask):
    """Predicts empty queries."""

    name: ClassVar[str] = "Contextual_bias"
    bias_key: ClassVar[str] = "contextual_bias"

    def pseudo_queries(self, card: Card, demonstration_set: SubsetView) -> Iterator[tuple[str, ...]]:
        """Return empty queries."""
        return empty_queries(len(card.template.input_text_prefixes))


@dataclass(frozen=True, slots=True)
class DomainBiasTask(_PriorBiasTask):
    """Predicts queries of random words of the demonstrations."""

    name: ClassVar[str] = "Domain_bias"
    bias_key: ClassVar[str] = "domain_bias"
    domain_query_length: int = DOMAIN_QUERY_LENGTH

    def __post_init__(self) -> None:
        validate_integer("domain_query_length", self.domain_query_length, 0)

    def options(self) -> Mapping[str, Any]:
        """Return the number of words per query."""
        return {"domain_query_length": self.domain_query_length}

    def pseudo_queries(self, card: Card, demonstration_set: SubsetView) -> Iterator[tuple[str, ...]]:
        """Return queries of random words."""
        return domain_queries(demonstration_set, self.domain_query_length)


@dataclass(frozen=True, slots=True)
class PosteriorBiasTask(Task):
    """Predicts Normal's queries, and reports the divergence of the mean prediction from the label frequencies."""

    name: ClassVar[str] = "Post_bias"
    repeats: int = 2

    def conditions(self, task_input: TaskInput) -> Sequence[Condition]:
        """Return Normal's queries."""
        return [Condition("posterior_bias", task_input.queries())]

    def score(self, outcomes: Sequence[Outcome], scoring: Scoring) -> Scores:
        """Return the divergence and the mean prediction."""
        outcome = outcomes[0]
        missing: dict[str, str] = {}
        if scoring.metric_set.as_released:
            data = outcome.truth, outcome.rows
            return _released("DL div.", released.divergence, released.excess_distribution, *data)
        rows, reason = _readable(outcome)
        if rows is None:
            return _undefined(["DL div.", "distribution", "empirical_bias"], reason)
        divergence: float | None = bias.empirical_bias(rows, outcome.truth)
        if divergence is None or math.isinf(divergence):
            reason = "infinite: a label that no test row has gets a positive probability"
            divergence, missing = None, {"DL div.": reason, "empirical_bias": reason}
        values = {"DL div.": divergence, "distribution": bias.mean_distribution(rows), "empirical_bias": divergence}
        return Scores(values, {"DL div.": divergence, "empirical_bias": divergence}, missing)

    def intervals(self, outcomes: Sequence[Outcome], scoring: Scoring) -> Intervals:
        """Return the interval of the divergence."""
        names = {"DL div.": "divergence", "empirical_bias": "divergence"}
        return bias_intervals(outcomes[0], scoring.statistics, names)


class ContextualBias(TaskBenchmark):
    """Contextual bias over the ten data sets (arguments as :class:`~StaICC.benchmarks.normal.Normal`)."""

    __slots__ = ()
    task_name = ContextualBiasTask.name
    task_class = ContextualBiasTask


class DomainBias(Benchmark):
    """Domain bias over the ten data sets.

    Args:
        k: Demonstrations per prompt.
        noisy_channel: Score the text given the label (noisy channel).
        metrics: Metric set.
        datasets: Data sets; the ten by default.
        domain_query_length: Words per query.
        **settings: See :class:`~StaICC.benchmarks.benchmark.Settings`.
    """

    __slots__ = ()
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

    ``domain_query_length`` has no effect; it is accepted because 0.1.1 accepts it.
    """

    __slots__ = ()
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
        super().__init__(PosteriorBiasTask(), k, noisy_channel, metrics, datasets, **settings)

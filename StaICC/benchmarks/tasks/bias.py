"""The bias tests of StaICC-Diagnosis: does the model prefer a label independent of the query?

* Contextual bias (Zhao et al. 2021, arXiv 2102.09690): the query is empty.
* Domain bias (Fei et al. 2023, arXiv 2305.19148): the query is random words of the demonstrations.
* Posterior bias, the paper's "empirical bias": the queries of StaICC-Normal; how far the averaged prediction is from
  the frequencies of the true labels.

``entropy`` is the score of the README, the entropy of the averaged prediction; ``contextual_bias`` and ``domain_bias``
are the paper's (Eq. 2), minus the average entropy of the single predictions. ``DL div.`` is the release's name of the
divergence that the paper calls ``empirical_bias`` (Eq. 3).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar, Protocol

from StaICC import benchmark_names
from StaICC.arguments import set_integers
from StaICC.benchmarks.benchmark import NO_PREDICTIONS, Benchmark, TaskBenchmark
from StaICC.benchmarks.group import BenchmarkGroup
from StaICC.benchmarks.task import Condition, Scores, Task, compute_or_explain
from StaICC.errors import UndefinedMetricError
from StaICC.metrics import diagnosis, released
from StaICC.metrics.scores import STATISTICS
from StaICC.prompting import pseudo_queries

if TYPE_CHECKING:
    from typing_extensions import Unpack

    from StaICC.benchmarks.benchmark import Datasets, Metrics, Settings
    from StaICC.benchmarks.score_intervals import Intervals
    from StaICC.benchmarks.task import Outcome, Scoring, TaskInput
    from StaICC.datasets.catalogue import Card
    from StaICC.prompting.views import SubsetView


_Released = Callable[[Sequence[int], Sequence[Sequence[float]]], Any]
"""A function of StaICC 0.1.1 that computes a score from the true labels and the rows of all queries."""


def _bias_score(outcome: Outcome, key: str) -> float:
    """Return a bias score of an outcome, such as the entropy of its mean prediction.

    Args:
        outcome: The condition with its predictions.
        key: The key of the score in :data:`~StaICC.metrics.scores.STATISTICS`.

    Raises:
        UndefinedMetricError: There are no predictions, the predictions are labels and the score is an entropy, or
            numbers may be probabilities or logits.
    """
    _probabilities(outcome)  # It raises an error if there are no predictions, or their numbers are ambiguous.
    statistic = STATISTICS[key]
    predictions = outcome.read(statistic)
    if predictions is None:
        raise UndefinedMetricError("the predictions are bare labels, which have no entropy")
    return statistic.value(outcome.sample, predictions)


def _mean_prediction(outcome: Outcome) -> list[float]:
    """Return the mean prediction of an outcome, one probability for each label."""
    return diagnosis.mean_distribution(_probabilities(outcome))


def _probabilities(outcome: Outcome) -> Sequence[Sequence[float]]:
    """Return the predictions of an outcome as probabilities, one row for each scored query.

    Raises:
        UndefinedMetricError: There are no predictions, or it is unclear whether their numbers are probabilities or
            logits.
    """
    if not outcome.queries:
        raise UndefinedMetricError(NO_PREDICTIONS)
    normalised = outcome.normalised
    if normalised.probabilities is None:
        raise UndefinedMetricError(normalised.reason or NO_PREDICTIONS)
    return normalised.probabilities


class _BiasTask(Task, Protocol):
    """A task with one condition, which reports two scores of the bias and the mean prediction over all queries.

    One score is defined in the README of StaICC 0.1.1, the other one in the paper (see the module).
    """

    score_keys: ClassVar[tuple[str, ...]]
    """The keys of the two scores: that of the README, which StaICC 0.1.1 reports, and that of the paper."""

    released_functions: ClassVar[tuple[_Released, _Released]]
    """The functions of StaICC 0.1.1 for the score of the README and for the mean prediction."""

    def score(self, outcomes: Sequence[Outcome], scoring: Scoring) -> Scores:
        """Return the score of the README, the mean prediction (``distribution``), and the score of the paper.

        The metric set of StaICC 0.1.1 lacks the score of the paper. The other two are then computed by the functions
        of StaICC 0.1.1.

        Args:
            outcomes: The outcomes of the task. There is only one, because the task has one condition.
            scoring: How the task scores.
        """
        outcome = outcomes[0]
        if scoring.metric_set.as_released:
            return self._released_scores(outcome)
        readme_key, paper_key = self.score_keys
        missing: dict[str, str] = {}
        values = {
            readme_key: compute_or_explain(missing, readme_key, _bias_score, outcome, readme_key),
            "distribution": compute_or_explain(missing, "distribution", _mean_prediction, outcome),
            paper_key: compute_or_explain(missing, paper_key, _bias_score, outcome, paper_key),
        }
        # Label spaces differ, so there is no mean distribution over data sets.
        averaged = {readme_key: values[readme_key], paper_key: values[paper_key]}
        return Scores(values, averaged=averaged, missing=missing)

    def _released_scores(self, outcome: Outcome) -> Scores:
        """Return the bias score and the mean prediction as StaICC 0.1.1 computes them.

        The bias score is the one that the README of StaICC 0.1.1 describes (first of ``score_keys``).
        """
        bias_key, _ = self.score_keys
        bias_function, mean_prediction_function = self.released_functions
        truth = outcome.truth
        predictions = outcome.rows
        missing: dict[str, str] = {}  # compute_or_explain() adds the reason for each undefined value
        bias = compute_or_explain(missing, bias_key, bias_function, truth, predictions)
        mean_prediction = compute_or_explain(missing, "distribution", mean_prediction_function, truth, predictions)
        # A mean prediction is a list of probabilities, and data sets have different labels, so it has no mean over data
        # sets. StaICC 0.1.1 reports 0.0 for it.
        return Scores(
            values={bias_key: bias, "distribution": mean_prediction},
            averaged={bias_key: bias, "distribution": 0.0},
            missing=missing,
        )

    def intervals(self, outcomes: Sequence[Outcome], scoring: Scoring) -> Intervals:
        """Return the confidence intervals of the two scores in :attr:`score_keys`, by key.

        For example, contextual bias has an interval of ``entropy`` and one of ``contextual_bias``. An entropy needs
        probabilities, so its interval is left out if the predictions are labels.

        Args:
            outcomes: The outcomes of the task. There is only one, because the task has one condition.
            scoring: How the task scores.
        """
        from StaICC.benchmarks import score_intervals

        statistics = {key: STATISTICS[key] for key in self.score_keys}
        return score_intervals.score_intervals(outcomes[0], statistics, scoring.statistics.level)


def _released_entropy(truth: Sequence[int], rows: Sequence[Sequence[float]]) -> Any:
    """Return the entropy of the mean prediction as StaICC 0.1.1 computes it. The true labels are ignored."""
    return released.entropy_of_mean(rows)


def _released_distribution(truth: Sequence[int], rows: Sequence[Sequence[float]]) -> Any:
    """Return the mean prediction as StaICC 0.1.1 computes it. The true labels are ignored."""
    return released.mean_distribution(rows)


@dataclass(frozen=True, slots=True)
class _PriorBiasTask(_BiasTask):
    """Predicts queries without content, and reports the entropy of the predictions.

    A query without content has no right label. So a model without bias predicts all labels with equal probability.
    """

    content_free: ClassVar[bool] = True
    released_functions: ClassVar[tuple[_Released, _Released]] = (
        _released_entropy,
        _released_distribution,
    )
    repeats: int = 2

    def conditions(self, task_input: TaskInput) -> Sequence[Condition]:
        """Return the one condition of the task: the queries of StaICC-Normal with pseudo-query texts.

        Each prompt keeps its demonstrations. The text of the test row is replaced by a text without content: empty for
        contextual bias, random words of the demonstration set for domain bias. The name of the condition is the key of
        the paper's score, such as ``contextual_bias``.
        """
        _, paper_key = self.score_keys
        texts = self.pseudo_queries(task_input.card, task_input.split.demonstration)
        return [Condition(paper_key, task_input.queries(pseudo=texts))]


@dataclass(frozen=True, slots=True)
class ContextualBiasTask(_PriorBiasTask):
    """Predicts empty queries."""

    name: ClassVar[str] = benchmark_names.CONTEXTUAL_BIAS
    score_keys: ClassVar[tuple[str, ...]] = ("entropy", "contextual_bias")

    def pseudo_queries(self, card: Card, demonstration_set: SubsetView) -> Iterator[tuple[str, ...]]:
        """Return an endless iterator of empty queries."""
        texts_per_query = len(card.template.input_text_prefixes)
        return pseudo_queries.empty_queries(texts_per_query)


@dataclass(frozen=True, slots=True)
class DomainBiasTask(_PriorBiasTask):
    """Predicts queries of random words of the demonstrations."""

    name: ClassVar[str] = benchmark_names.DOMAIN_BIAS
    score_keys: ClassVar[tuple[str, ...]] = ("entropy", "domain_bias")
    domain_query_length: int = pseudo_queries.DOMAIN_QUERY_LENGTH

    def __post_init__(self) -> None:
        set_integers(self, domain_query_length=0)

    def options(self) -> Mapping[str, Any]:
        """Return the number of words per query."""
        return {"domain_query_length": self.domain_query_length}

    def pseudo_queries(self, card: Card, demonstration_set: SubsetView) -> Iterator[tuple[str, ...]]:
        """Return an endless iterator of queries of random words, drawn from the demonstration set."""
        return pseudo_queries.domain_queries(demonstration_set, self.domain_query_length)


@dataclass(frozen=True, slots=True)
class PosteriorBiasTask(_BiasTask):
    """Predicts the queries of StaICC-Normal, and compares the mean prediction with the true labels.

    The score is the divergence of the mean prediction from the frequencies of the true labels.
    """

    name: ClassVar[str] = benchmark_names.POSTERIOR_BIAS
    score_keys: ClassVar[tuple[str, ...]] = ("DL div.", "empirical_bias")
    released_functions: ClassVar[tuple[_Released, _Released]] = (released.divergence, released.excess_distribution)
    domain_query_length: int = pseudo_queries.DOMAIN_QUERY_LENGTH
    """It has no effect. It is accepted because StaICC 0.1.1 accepts it."""
    repeats: int = 2

    def conditions(self, task_input: TaskInput) -> Sequence[Condition]:
        """Return one condition: Normal's queries."""
        return [Condition("posterior_bias", task_input.queries())]


class ContextualBias(TaskBenchmark):
    """Contextual bias over the ten data sets.

    The arguments are those of :class:`~StaICC.benchmarks.tasks.normal.Normal`.
    """

    task_name = ContextualBiasTask.name
    task_class = ContextualBiasTask


class _QueryLengthBenchmark(Benchmark):
    """A benchmark of bias with the parameters that it has in StaICC 0.1.1.

    Args:
        k: Demonstrations per prompt.
        noisy_channel: Score the text given the label (noisy channel).
        metrics: Metric set.
        datasets: Data sets; the ten by default.
        domain_query_length: Words per query.
        **settings: See :class:`~StaICC.benchmarks.benchmark.Settings`.
    """

    task_class: ClassVar[type[DomainBiasTask | PosteriorBiasTask]]

    def __init__(
        self,
        k: int = 4,
        noisy_channel: bool = False,
        metrics: Metrics = "standard",
        datasets: Datasets = None,
        domain_query_length: int = pseudo_queries.DOMAIN_QUERY_LENGTH,
        **settings: Unpack[Settings],
    ) -> None:
        """Make the benchmark with a task whose pseudo-queries have the given number of words."""
        task = self.task_class(domain_query_length=domain_query_length)
        super().__init__(task, k, noisy_channel, metrics, datasets, **settings)


class DomainBias(_QueryLengthBenchmark):
    """Domain bias over the ten data sets, with queries of ``domain_query_length`` words."""

    task_name = DomainBiasTask.name
    task_class = DomainBiasTask


class PosteriorBias(_QueryLengthBenchmark):
    """Posterior (empirical) bias over the ten data sets.

    ``domain_query_length`` has no effect; it is accepted because 0.1.1 accepts it.
    """

    task_name = PosteriorBiasTask.name
    task_class = PosteriorBiasTask


class TripletBias(BenchmarkGroup):
    """Contextual, domain and posterior bias in one pass (parts ``contextual``, ``domain``, ``post``).

    Args:
        k: Demonstrations per prompt.
        noisy_channel: Score the text given the label (noisy channel).
        metrics: Metric set.
        datasets: Data sets; the ten by default.
        domain_query_length: Words in a domain query.
        **settings: See :class:`~StaICC.benchmarks.benchmark.Settings`.

    Attributes:
        contextual: The benchmark of contextual bias.
        domain: The benchmark of domain bias.
        post: The benchmark of posterior bias.
    """

    __slots__ = ("contextual", "domain", "post")
    task_name: ClassVar[str] = benchmark_names.TRIPLET_BIAS

    def __init__(
        self,
        k: int = 4,
        noisy_channel: bool = False,
        metrics: Metrics = "standard",
        datasets: Datasets = None,
        domain_query_length: int = 128,
        **settings: Unpack[Settings],
    ) -> None:
        """Make the three benchmarks with the same arguments; only domain bias has a length of its queries."""
        self.contextual = ContextualBias(k, noisy_channel, metrics, datasets, **settings)
        self.domain = DomainBias(k, noisy_channel, metrics, datasets, domain_query_length, **settings)
        self.post = PosteriorBias(k, noisy_channel, metrics, datasets, **settings)
        super().__init__(self.task_name, {"contextual": self.contextual, "domain": self.domain, "post": self.post})

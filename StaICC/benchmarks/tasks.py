"""The tasks of StaICC-Normal and StaICC-Diagnosis, their benchmarks and groups, and all benchmarks by name.

StaICC-Normal is the published benchmark of in-context classification (Cho and Inoue 2025, arXiv 2501.15708, section
3.2). Each of 512 test rows of ten data sets is used twice, with other demonstrations each time. Scores: accuracy,
averaged true-label likelihood, macro F1, and expected calibration error (ECE-1, 10 bins), per data set and as means.

StaICC-Diagnosis measures bias (does the model prefer a label independent of the query?):

* Contextual bias (Zhao et al. 2021, arXiv 2102.09690): the query is empty.
* Domain bias (Fei et al. 2023, arXiv 2305.19148): the query is random words of the demonstrations.
* Posterior bias, the paper's "empirical bias": the queries of StaICC-Normal; how far the averaged prediction is from
  the frequencies of the true labels.

``entropy`` is the score of the README, the entropy of the averaged prediction; ``contextual_bias`` and ``domain_bias``
are the paper's (Eq. 2), minus the average entropy of the single predictions. ``DL div.`` is the release's name of the
divergence that the paper calls ``empirical_bias`` (Eq. 3).

It also measures robustness against irrelevant changes of the prompt:

* GLER (Yoo et al. 2022, arXiv 2205.12685): the slope of accuracy over the share of correct demonstration labels.
* Template sensitivity: nine templates, an orthogonal array of instruction, input prefix, label prefix, label affix.
* Demonstration sensitivity: eight lists of demonstrations for the same query.

The latter two report consistency: per query the share of its most frequent predicted label, averaged over queries.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar, Protocol

from StaICC.benchmarks.benchmark import (
    Benchmark,
    BenchmarkGroup,
    ChannelSettings,
    Datasets,
    Metrics,
    ScoringSettings,
    Settings,
    TaskBenchmark,
)
from StaICC.benchmarks.evaluation import Intervals, consistency_intervals, score_intervals, slope_intervals
from StaICC.benchmarks.task import (
    NO_PREDICTIONS,
    Condition,
    Outcome,
    Scores,
    Scoring,
    Task,
    TaskInput,
    attempt,
    classification_scores,
    condition_missing,
)
from StaICC.datasets import Card
from StaICC.errors import ArgumentError, UndefinedMetricError, set_integers
from StaICC.metrics import diagnosis, metric_set, released
from StaICC.metrics.registry import STATISTICS
from StaICC.prompting import (
    DOMAIN_QUERY_LENGTH,
    PromptSettings,
    StableRandom,
    SubsetView,
    domain_queries,
    empty_queries,
)
from StaICC.registry import Registry, callable_entry, fold

if TYPE_CHECKING:
    from typing_extensions import Unpack


@dataclass(frozen=True, slots=True)
class NormalTask(Task):
    """Predicts with the unchanged prompts and scores the classification."""

    name: ClassVar[str] = "Normal"
    repeats: int = 2
    scores_accuracy: ClassVar[bool] = True
    row_scores: ClassVar[Sequence[str]] = ("accuracy", "averaged_truelabel_likelihood")

    def conditions(self, task_input: TaskInput) -> Sequence[Condition]:
        """Return the one condition."""
        return [Condition("normal", task_input.queries())]

    def score(self, outcomes: Sequence[Outcome], scoring: Scoring) -> Scores:
        """Score the one outcome."""
        values, missing = classification_scores(outcomes[0], scoring.metric_set)
        return Scores(values, values, missing)

    def intervals(self, outcomes: Sequence[Outcome], scoring: Scoring) -> Intervals:
        """Return the intervals of the metrics."""
        return score_intervals(outcomes[0], scoring.metric_set.statistics, scoring.statistics.level)


class Normal(TaskBenchmark):
    """StaICC-Normal over the ten data sets.

    Args:
        k: Demonstrations per prompt.
        noisy_channel: Score the text given the label (noisy channel); the prompt is a list with one text for each
            label.
        metrics: ``"standard"``, ``"0.1.1"`` (the release bug for bug), or functions by name.
        datasets: Names of data sets (or data sets of your own); the ten by default.
        limit: The maximum number of test rows per data set.
        outputs: Read rows of numbers as ``"probabilities"`` or ``"logits"``; ``"auto"`` decides once for each data set.
        statistics: Options of the confidence intervals and random baselines.

    Example:
        >>> def always_first(prompt, label_space):
        ...     return 0
        >>> result = Normal(datasets=["mini"])(always_first)
        >>> round(result["Averaged results"]["accuracy"], 2)
        0.26
    """

    task_name = NormalTask.name
    task_class = NormalTask


_Released = Callable[[Sequence[int], Sequence[Sequence[float]]], Any]
"""A function of true labels and rows."""


def _value(outcome: Outcome, key: str) -> float:
    """Return a score of readable predictions."""
    predictions = outcome.read(STATISTICS[key])
    if predictions is None:
        raise UndefinedMetricError("the predictions are bare labels, which have no entropy")
    return STATISTICS[key].value(outcome.sample, predictions)


class _BiasTask(Task, Protocol):
    """Reports two scores of the mean prediction, and the mean prediction itself."""

    score_keys: ClassVar[tuple[str, ...]]
    """The score of 0.1.1, and that of the paper."""

    released_functions: ClassVar[tuple[_Released, _Released]]
    """The score and the mean prediction of 0.1.1."""

    def score(self, outcomes: Sequence[Outcome], scoring: Scoring) -> Scores:
        """Return the score of the README, the mean prediction, and the paper's score."""
        (outcome,), missing = outcomes, dict[str, str]()
        key, *others = self.score_keys
        if scoring.metric_set.as_released:
            places = zip((key, "distribution"), self.released_functions, strict=True)
            values = {at: attempt(missing, at, function, outcome.truth, outcome.rows) for at, function in places}
            return Scores(values, {key: values[key], "distribution": 0.0}, missing)  # 0.1.1's mean of distributions
        rows = outcome.normalised.probabilities if outcome.queries else None
        if rows is None:
            reason = (outcome.normalised.reason if outcome.queries else None) or NO_PREDICTIONS
            missing = dict.fromkeys((key, "distribution", *others), reason)
            return Scores(dict.fromkeys(missing), dict.fromkeys(self.score_keys), missing)
        averaged = {key: attempt(missing, key, _value, outcome, key) for key in self.score_keys}
        # Label spaces differ, so there is no mean distribution over data sets.
        divided = {key: averaged[key], "distribution": diagnosis.mean_distribution(rows), **averaged}
        return Scores(divided, averaged, missing)

    def intervals(self, outcomes: Sequence[Outcome], scoring: Scoring) -> Intervals:
        """Return the intervals of both scores; bare labels have no entropy."""
        statistics = {key: STATISTICS[key] for key in self.score_keys}
        return score_intervals(outcomes[0], statistics, scoring.statistics.level)


@dataclass(frozen=True, slots=True)
class _PriorBiasTask(_BiasTask):
    """Predicts queries without content, and reports the entropy of the predictions."""

    content_free: ClassVar[bool] = True
    released_functions: ClassVar[tuple[_Released, _Released]] = (
        lambda truth, rows: released.entropy_of_mean(rows),
        lambda truth, rows: released.mean_distribution(rows),
    )
    repeats: int = 2

    def conditions(self, task_input: TaskInput) -> Sequence[Condition]:
        """Return Normal's queries with their texts replaced."""
        pseudo = self.pseudo_queries(task_input.card, task_input.demonstration_set)
        return [Condition(self.score_keys[1], task_input.queries(pseudo=pseudo))]


@dataclass(frozen=True, slots=True)
class ContextualBiasTask(_PriorBiasTask):
    """Predicts empty queries."""

    name: ClassVar[str] = "Contextual_bias"
    score_keys: ClassVar[tuple[str, ...]] = ("entropy", "contextual_bias")

    def pseudo_queries(self, card: Card, demonstration_set: SubsetView) -> Iterator[tuple[str, ...]]:
        """Return empty queries."""
        return empty_queries(len(card.template.input_text_prefixes))


@dataclass(frozen=True, slots=True)
class DomainBiasTask(_PriorBiasTask):
    """Predicts queries of random words of the demonstrations."""

    name: ClassVar[str] = "Domain_bias"
    score_keys: ClassVar[tuple[str, ...]] = ("entropy", "domain_bias")
    domain_query_length: int = DOMAIN_QUERY_LENGTH

    def __post_init__(self) -> None:
        set_integers(self, domain_query_length=0)

    def options(self) -> Mapping[str, Any]:
        """Return the number of words per query."""
        return {"domain_query_length": self.domain_query_length}

    def pseudo_queries(self, card: Card, demonstration_set: SubsetView) -> Iterator[tuple[str, ...]]:
        """Return queries of random words."""
        return domain_queries(demonstration_set, self.domain_query_length)


@dataclass(frozen=True, slots=True)
class PosteriorBiasTask(_BiasTask):
    """Predicts Normal's queries, and reports the divergence of the mean prediction from the label frequencies."""

    name: ClassVar[str] = "Post_bias"
    score_keys: ClassVar[tuple[str, ...]] = ("DL div.", "empirical_bias")
    released_functions: ClassVar[tuple[_Released, _Released]] = (released.divergence, released.excess_distribution)
    domain_query_length: int = DOMAIN_QUERY_LENGTH
    """Accepted because 0.1.1 accepts it; without an effect."""
    repeats: int = 2

    def conditions(self, task_input: TaskInput) -> Sequence[Condition]:
        """Return Normal's queries."""
        return [Condition("posterior_bias", task_input.queries())]


class ContextualBias(TaskBenchmark):
    """Contextual bias over the ten data sets (arguments as :class:`~StaICC.benchmarks.tasks.Normal`)."""

    task_name = ContextualBiasTask.name
    task_class = ContextualBiasTask


class _QueryLengthBenchmark(Benchmark):
    """A benchmark of bias with the parameters of 0.1.1.

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
        domain_query_length: int = DOMAIN_QUERY_LENGTH,
        **settings: Unpack[Settings],
    ) -> None:
        super().__init__(
            self.task_class(domain_query_length=domain_query_length), k, noisy_channel, metrics, datasets, **settings
        )


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
        set_integers(self, interpolations=2)

    def options(self) -> Mapping[str, Any]:
        """Return the number of noise rates."""
        return {"interpolations": self.interpolations}

    def conditions(self, task_input: TaskInput) -> Sequence[Condition]:
        """Return one condition for each rate of label noise, from 0 to 1; all conditions share one generator."""
        noise, last = StableRandom(), self.interpolations - 1
        noisy = [dataclasses.replace(task_input.settings, label_wrong_rate=step / last) for step in range(last + 1)]
        return [Condition(str(step), task_input.queries(own, noise=noise)) for step, own in enumerate(noisy)]

    def score(self, outcomes: Sequence[Outcome], scoring: Scoring) -> Scores:
        """Return each condition's metrics, and each metric's regression line on the share of correct labels."""
        values: dict[str, Any] = {}
        missing: dict[str, str] = {}
        for outcome in outcomes:
            values[outcome.condition.name], reasons = classification_scores(outcome, scoring.metric_set)
            missing |= condition_missing(outcome.condition.name, reasons)
        shares = diagnosis.noisy_label_shares(scoring.k, self.interpolations)
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
                lines[metric] = list(diagnosis.gler(series, shares))
        values["sensitivity"] = lines
        return Scores(values, {metric: line[0] if line else None for metric, line in lines.items()}, missing)

    def intervals(self, outcomes: Sequence[Outcome], scoring: Scoring) -> Intervals:
        """Return the intervals of the slopes."""
        shares = diagnosis.noisy_label_shares(scoring.k, self.interpolations)
        return slope_intervals(outcomes, shares, scoring.metric_set.statistics, scoring.statistics.level)


class _ConsistencyTask(Task, Protocol):
    """Scores how often the conditions agree on a query, over the queries with a prediction in every condition."""

    def score(self, outcomes: Sequence[Outcome], scoring: Scoring) -> Scores:
        """Return the consistency over the conditions."""
        missing: dict[str, str] = {}
        value = attempt(missing, "sensitivity.consistency", _consistency, outcomes, scoring)
        return Scores({"sensitivity": {"consistency": value}}, {"consistency": value}, missing)

    def intervals(self, outcomes: Sequence[Outcome], scoring: Scoring) -> Intervals:
        """Return the interval of the consistency."""
        return consistency_intervals(outcomes, scoring.statistics.level)


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
    return diagnosis.consistency(complete)


@dataclass(frozen=True, slots=True)
class TemplateSensitivityTask(_ConsistencyTask):
    """Predicts the same queries with nine templates."""

    name: ClassVar[str] = "Template_sens"
    test_rows: int | None = 100
    repeats: int = 1

    def conditions(self, task_input: TaskInput) -> Sequence[Condition]:
        """Return one condition for each template of the orthogonal array."""
        return [
            Condition(str(place), task_input.queries(template_of_levels(task_input, levels)))
            for place, levels in enumerate(L9)
        ]


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


_GENERALISATION_ROWS = 128


@dataclass(frozen=True, slots=True)
class GeneralisationTask(Task):
    """Predicts the same queries with every pair of a list of demonstrations and a template, and scores the accuracy."""

    name: ClassVar[str] = "Generalisation"
    test_rows: int | None = _GENERALISATION_ROWS
    scores_accuracy: ClassVar[bool] = True
    draws: int = 4
    templates: int = 3

    def __post_init__(self) -> None:
        set_integers(self, draws=2, templates=2)
        if self.templates > len(L9):
            raise ArgumentError(f"templates: got {self.templates}, expected at most {len(L9)}, all that there are")

    @property
    def repeats(self) -> int:
        """How many lists of demonstrations there are."""
        return self.draws

    def options(self) -> Mapping[str, Any]:
        """Return the numbers of draws and of templates, and of test rows if there can be more than by default."""
        more = {} if self.test_rows == _GENERALISATION_ROWS else {"rows": self.test_rows}
        return {"draws": self.draws, "templates": self.templates, **more}

    def conditions(self, task_input: TaskInput) -> Sequence[Condition]:
        """Return one condition for each draw and template, draw by draw.

        Raises:
            ArgumentError: The test rows of a draw have different demonstrations: draws are then no factor.
        """
        lists, rows = task_input.demonstration_lists, len(task_input.split.test)
        if task_input.repeats < 2 or any(lists[place] != lists[place - place % rows] for place in range(len(lists))):
            raise ArgumentError(
                f"{self.name}: got other demonstrations for each test row, or one draw, expected "
                f"{self.draws} lists that all test rows share (sampler='nested-shared', the default)"
            )
        levels = [L9[place] for place in _TEMPLATE_ORDER[: self.templates]]
        by_template = [task_input.queries(template_of_levels(task_input, level)) for level in levels]
        return [
            Condition(f"draw{draw + 1}-template{number + 1}", tuple(query for query in queries if query.repeat == draw))
            for draw in range(self.draws)
            for number, queries in enumerate(by_template)
        ]

    def score(self, outcomes: Sequence[Outcome], scoring: Scoring) -> Scores:
        """Return the accuracy over the queries of all conditions."""
        values, missing = classification_scores(_pooled(outcomes), metric_set("accuracy"))
        return Scores(values, values, missing)

    def intervals(self, outcomes: Sequence[Outcome], scoring: Scoring) -> Intervals:
        """Return the interval over test rows, with draws and templates fixed."""
        statistics = {"accuracy": STATISTICS["accuracy"]}
        return score_intervals(_pooled(outcomes), statistics, scoring.statistics.level)


_TEMPLATE_ORDER = (0, 3, 7, 1, 2, 4, 5, 6, 8)
"""Templates in the order in which they are used: the first three have all instructions, and no level three times."""


def _pooled(outcomes: Sequence[Outcome]) -> Outcome:
    """Return the queries of all conditions as one."""
    queries = [query for outcome in outcomes for query in outcome.condition.queries]
    return Outcome(Condition("all", queries), [a for outcome in outcomes for a in outcome.given], outcomes[0].outputs)


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
        super().__init__(GLERTask(interpolations=interpolations), k, metrics=metrics, datasets=datasets, **settings)


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


class Generalisation(Benchmark):
    """Accuracy over draws of demonstrations x templates, with their variance components, on the ten data sets.

    128 test rows each, or more with a larger ``limit``, and by default 4 x 3 prompts for a row: a draw is one list of
    demonstrations for all rows.
    :func:`~StaICC.results.generalisation.variance_components` reads the result.

    Args:
        k: Demonstrations per prompt.
        datasets: Data sets; the ten by default.
        draws: Number of lists of demonstrations.
        templates: Number of templates, at most nine, those of template sensitivity.
        **settings: See :class:`~StaICC.benchmarks.benchmark.ScoringSettings`; ``sampler`` is ``"nested-shared"``.
    """

    task_name = GeneralisationTask.name

    def __init__(
        self,
        k: int = 4,
        datasets: Datasets = None,
        draws: int = 4,
        templates: int = 3,
        **settings: Unpack[ScoringSettings],
    ) -> None:
        settings.setdefault("sampler", "nested-shared")
        limit = settings.get("limit")
        rows = max(_GENERALISATION_ROWS, limit if isinstance(limit, int) else 0)
        super().__init__(GeneralisationTask(rows, draws, templates), k, datasets=datasets, **settings)


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
    task_name: ClassVar[str] = "Triplet_bias"

    def __init__(
        self,
        k: int = 4,
        noisy_channel: bool = False,
        metrics: Metrics = "standard",
        datasets: Datasets = None,
        domain_query_length: int = 128,
        **settings: Unpack[Settings],
    ) -> None:
        common = (k, noisy_channel, metrics, datasets)
        self.contextual = ContextualBias(*common, **settings)
        self.domain = DomainBias(*common, domain_query_length, **settings)
        self.post = PosteriorBias(*common, **settings)
        super().__init__(self.task_name, {part: getattr(self, part) for part in ("contextual", "domain", "post")})


class _Parts(BenchmarkGroup):
    """A group with a benchmark for each of its :attr:`parts`.

    Args:
        k: Demonstrations per prompt.
        noisy_channel: Score the text given the label (noisy channel).
        metrics: Metric set by name, such as ``"0.1.1"``.
        datasets: Data sets; the ten by default.
        **settings: See :class:`~StaICC.benchmarks.benchmark.Settings`.
    """

    parts: ClassVar[Mapping[str, type[Benchmark]]]
    """The benchmark of each part."""

    def __init__(
        self,
        k: int = 4,
        noisy_channel: bool = False,
        metrics: Metrics = "standard",
        datasets: Datasets = None,
        **settings: Unpack[Settings],
    ) -> None:
        if "Normal" in self.parts and not isinstance(metrics, str):
            raise ArgumentError("a suite scores by a named metric set, 'standard' or '0.1.1', for all its parts")
        common: dict[str, Any] = {"k": k, "noisy_channel": noisy_channel, "metrics": metrics, "datasets": datasets}
        super().__init__(self.task_name, {part: kind(**common, **settings) for part, kind in self.parts.items()})


class Diagnosis(_Parts):
    """All of StaICC-Diagnosis in one pass over the distinct prompts (arguments as :class:`Suite`)."""

    task_name: ClassVar[str] = "Diagnosis"
    parts: ClassVar[Mapping[str, type[Benchmark]]] = {
        "Contextual_bias": ContextualBias,
        "Domain_bias": DomainBias,
        "Post_bias": PosteriorBias,
        "GLER": GLER,
        "Template_sens": TemplateSensitivity,
        "Demo_sens": DemonstrationSensitivity,
    }


class Suite(_Parts):
    """StaICC-Normal and all of StaICC-Diagnosis in one pass over the distinct prompts.

    Args:
        k: Demonstrations per prompt.
        noisy_channel: Score the text given the label (noisy channel).
        metrics: Metric set by name, such as ``"0.1.1"``.
        datasets: Data sets; the ten by default.
        **settings: See :class:`~StaICC.benchmarks.benchmark.Settings`.

    Example:
        >>> result = Suite(datasets=["mini"], limit=8)(lambda prompt, label_space: 0)
        >>> list(result)
        ['Normal', 'Contextual_bias', 'Domain_bias', 'Post_bias', 'GLER', 'Template_sens', 'Demo_sens']
    """

    task_name: ClassVar[str] = "Suite"
    parts: ClassVar[Mapping[str, type[Benchmark]]] = {"Normal": Normal, **Diagnosis.parts}


_BUILTIN = {
    "normal": "StaICC.benchmarks.tasks:Normal",
    "contextual-bias": "StaICC.benchmarks.tasks:ContextualBias",
    "domain-bias": "StaICC.benchmarks.tasks:DomainBias",
    "post-bias": "StaICC.benchmarks.tasks:PosteriorBias",
    "triplet-bias": "StaICC.benchmarks.tasks:TripletBias",
    "gler": "StaICC.benchmarks.tasks:GLER",
    "template": "StaICC.benchmarks.tasks:TemplateSensitivity",
    "demonstration": "StaICC.benchmarks.tasks:DemonstrationSensitivity",
    "generalisation": "StaICC.benchmarks.tasks:Generalisation",
    "diagnosis": "StaICC.benchmarks.tasks:Diagnosis",
    "suite": "StaICC.benchmarks.tasks:Suite",
}
_SPELLINGS = {"template_sens": "template", "demo_sens": "demonstration"}
"""Names of 0.1.1 that are not those of the classes."""


def _spellings() -> dict[str, str]:
    """Return the built-in names by folded spelling: their own, those of their classes, and those of 0.1.1."""
    classes = {place.rpartition(":")[2]: name for name, place in _BUILTIN.items()}
    named = {**{name: name for name in _BUILTIN}, **classes, **_SPELLINGS}
    return {fold(spelling): name for spelling, name in named.items()}


BENCHMARKS: Registry[Callable[..., Any]] = Registry(
    "benchmark",
    "staicc.benchmarks",
    _BUILTIN,
    callable_entry("a class or function that makes a Benchmark or a BenchmarkGroup"),
    folded=_spellings(),
)
"""All benchmarks that run over frozen classification data. To add one, add its line here."""


def make_benchmark(name: str, **arguments: Any) -> Any:
    """Make a benchmark by name.

    Args:
        name: A name of :data:`BENCHMARKS`, a plug-in's benchmark, or ``package.module:name``.
        **arguments: For the benchmark: ``k``, ``noisy_channel``, ``metrics``, ``datasets``, ``limit``, ``outputs``.

    Returns:
        The benchmark, to be called with an inference function.

    Raises:
        UnknownNameError: There is no such benchmark.
        PluginError: A plug-in is broken, or two plug-ins have that benchmark.
    """
    return BENCHMARKS.find(name).value(**arguments)

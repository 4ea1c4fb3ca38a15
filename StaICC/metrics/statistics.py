"""Statistics: what a score is as a function of a sample of rows.

A :class:`Statistic` computes the range of a score, its confidence interval, and the contribution of each test row to a
paired test (:class:`Contributions`).

A test row can have several queries, such as one for each demonstration set. Queries of one row depend on each other;
rows do not. So the *test row* is the unit of all intervals and tests: the values of its queries are added up first.
If the rows of a data set are in clusters (:attr:`Sample.clusters`), the cluster takes the place of the row: the values
of all queries of its rows are added up.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from itertools import chain
from operator import mul
from typing import Any, ClassVar, Literal, NamedTuple

from StaICC.errors import ArgumentError, UndefinedMetricError
from StaICC.metrics import classification, intervals
from StaICC.metrics.clusters import level_over_clusters, too_few_clusters
from StaICC.metrics.diagnosis import entropy
from StaICC.metrics.intervals import Interval, MetricTerm, NoInterval

Reads = Literal["labels", "distributions", "probabilities", "rows", "any"]
"""What a score reads of the prediction for a query:

- ``labels``: the index of the predicted label;
- ``distributions``: a distribution over the labels; a predicted label without probabilities becomes one with all
  probability on this label;
- ``probabilities``: the probabilities of the model;
- ``rows``: the list of numbers that the inference function returned;
- ``any``: the probabilities, or the returned list if there are none.
"""

RangeEnd = Literal["lowest", "highest"]
"""The lower or the upper end of the range of possible scores."""


@dataclass(frozen=True, slots=True)
class Contributions:
    """The value of a metric for one run, and the contribution of each test row.

    The contribution of a row to a mean is the sum of its scores, divided by the number of queries. For other metrics it
    is the influence of the row: how much the value changes with its weight in the sample (Hampel 1974).
    """

    value: float
    rows: Sequence[float]
    """The contribution of each test row."""
    lowest_after_row: float
    """The lowest value that the metric could have after one more test row."""
    highest_after_row: float
    """The highest value that the metric could have after one more test row."""
    range_width: float
    """The highest minus the lowest possible value of the metric; infinite if it is unbounded."""
    upward_bias: float = 0.0
    """How far the expected value in samples of this size may be above the true value."""
    downward_bias: float = 0.0
    """How far the expected value in samples of this size may be below the true value."""
    lower_rows: Sequence[float] | None = None
    """Contributions that add up to an estimate whose expected value is at most the true value. The claim that the run
    has the larger value is tested with them. ``None``: the same as :attr:`rows`."""
    upper_rows: Sequence[float] | None = None
    """Contributions that add up to an estimate whose expected value is at least the true value. The claim that the run
    has the smaller value is tested with them. ``None``: the same as :attr:`rows`."""
    lower_alternatives: tuple[Sequence[float], ...] = ()
    """Other contributions that could be in the place of the lower estimate. The claim that the run has the larger value
    is tested with those that make it hardest."""
    uncertain_terms: tuple[Sequence[float], ...] = ()
    """The terms of the contributions that might have the opposite sign; each has one number for each test row.

    A metric that is a sum of absolute values ``|a|``, such as the calibration error, has one term for each of them. The
    contributions contain it with the sign of the observed ``a``. If ``a`` is near 0, the true sign may be the opposite.
    They matter for the claim that the run has the smaller value.
    """

    @property
    def has_one_sided_estimates(self) -> bool:
        """Whether claims about the run are tested with an estimate that differs from its value."""
        return self.lower_rows is not None or self.upper_rows is not None or bool(self.lower_alternatives)


@dataclass(frozen=True, slots=True)
class Sample:
    """The queries that a score of one condition counts."""

    truth: Sequence[int]
    """True label index of each query."""
    rows: Sequence[int]
    """Test row of each query, from 0 on."""
    n_rows: int
    """Number of test rows; some of them may have no query."""
    n_labels: int
    """Number of labels; 0 if it is not known."""
    clusters: Sequence[int] | None = None
    """The cluster of each test row; ``None`` if rows are independent."""
    unit: str = "test row"
    """What the members of :attr:`rows` are: a test row, or a cluster of test rows (:meth:`by_cluster`)."""

    @property
    def row_names(self) -> list[int]:
        """The numbers of the clusters of a sample by cluster, in the order of its rows; else those of the rows."""
        if self.unit == "cluster" and self.clusters is not None:
            return list(self.clusters)
        return list(range(self.n_rows))

    def by_cluster(self) -> Sample:
        """Return the sample with clusters in the place of test rows; unchanged if rows are independent.

        The clusters are numbered from 0, in the order of their numbers in the data set.

        Example:
            >>> Sample([1, 0, 1], [0, 1, 2], 3, 2, clusters=[7, 4, 7]).by_cluster().rows
            [1, 0, 1]
        """
        if self.clusters is None or self.unit == "cluster":
            return self
        clusters = sorted(set(self.clusters))
        number_of_cluster = {cluster: number for number, cluster in enumerate(clusters)}
        return Sample(
            truth=self.truth,
            rows=[number_of_cluster[self.clusters[row]] for row in self.rows],
            n_rows=len(clusters),
            n_labels=self.n_labels,
            clusters=clusters,
            unit="cluster",
        )

    @property
    def cluster_shares(self) -> list[float] | None:
        """The share of each cluster in the queries of a sample by cluster; ``None`` for a sample by test row."""
        if self.unit != "cluster":
            return None
        return [size / len(self.rows) for size in self.sizes]

    def level_of_formulas(self, level: float) -> float:
        """Return the level at which the formulas of intervals have this coverage.

        It is the same level, except for a sample by cluster whose clusters have different sizes.

        Args:
            level: Nominal coverage.
        """
        shares = self.cluster_shares
        if shares is None:
            return level
        return level_over_clusters(level, shares)

    def sums(self, values: Iterable[float]) -> list[float]:
        """Return the sum of the values of the queries of each test row."""
        totals = [0.0] * self.n_rows
        for value, row in zip(values, self.rows, strict=True):
            totals[row] += value
        return totals

    def of_queries(self, query_indexes: Sequence[int]) -> Sample:
        """Return the sample of some of the queries.

        The test rows keep their numbers, and ``n_rows`` stays that of the whole sample. So rows may have no query.

        Args:
            query_indexes: The indexes of the queries.
        """
        return Sample(
            truth=[self.truth[index] for index in query_indexes],
            rows=[self.rows[index] for index in query_indexes],
            n_rows=self.n_rows,
            n_labels=self.n_labels,
            clusters=self.clusters,
            unit=self.unit,
        )

    @property
    def sizes(self) -> list[float]:
        """The number of queries of each test row."""
        return self.sums([1.0] * len(self.rows))

    @property
    def most_queries_per_row(self) -> int:
        """The largest number of queries of a test row."""
        return max(Counter(self.rows).values())

    @property
    def few_rows_reason(self) -> str | None:
        """The reason why labels have too few test rows for an interval; ``None`` if each label has enough.

        A label needs :data:`~StaICC.metrics.intervals.LEAST_ROWS` test rows, or clusters, that have a query with it.
        """
        # A row with several queries of a label is counted once. A cluster can have several labels, a row has one.
        labels_of_rows = set(zip(self.rows, self.truth, strict=True))
        row_counts = Counter(label for _, label in labels_of_rows)
        labels_with_few = 0
        labels_with_none = 0
        for label in range(self.n_labels):
            if row_counts[label] < intervals.LEAST_ROWS:
                labels_with_few += 1
            if row_counts[label] == 0:
                labels_with_none += 1
        if labels_with_few == 0:
            return None
        text = f"{labels_with_few} of {self.n_labels} labels have fewer than {intervals.LEAST_ROWS} {self.unit}s"
        if labels_with_none > 0:
            return f"{text}, {labels_with_none} of them none"
        return text


class OtherRun(NamedTuple):
    """The run with which a run is compared, on the same test rows. It may have more or fewer queries of each row."""

    sample: Sample
    """Its queries."""
    predictions: Sequence[Any]
    """Its predictions, one for each query."""

    def weight(self, sample: Sample) -> float:
        """Return what a query of this run counts next to one of another sample, so that both runs count the same."""
        return len(sample.truth) / len(self.sample.truth)


def lacks_score(prediction: Any) -> bool:
    """Return whether a query has no score.

    A query that failed, or whose reply was left out, has the prediction ``None``. A query of several conditions has a
    list of predictions, and no score if one of them is ``None``.
    """
    if isinstance(prediction, (list, tuple)):
        return None in prediction
    return prediction is None


NOT_OVER_CLUSTERS = "the rows are in clusters, and its coverage over clusters is not measured"
"""Why a score has neither an interval nor a test over clusters of test rows."""


class Statistic:
    """A score as a function of a sample: its range, its confidence interval, and its contributions to a paired test.

    All methods take the predictions as :attr:`reads` says, one for each query of the sample.
    """

    reads: Reads = "labels"
    method: ClassVar[str] = "Wilson score, design effect and t, unit: test row"
    """How its confidence interval is computed."""
    of_classification: ClassVar[bool] = False
    """Whether the score measures how correct predictions are, so that unparsed replies can count as wrong."""
    weighs_labels: ClassVar[bool] = False
    """Whether an interval needs some test rows of each label, because each label has a weight of its own."""
    tested_over_clusters: ClassVar[bool] = False
    """Whether test and interval are also valid with clusters of test rows as the unit (measured by simulation)."""
    independent: ClassVar[bool] = True
    """Whether the contributions of a run are the same whatever run it is compared with."""
    compares_conditions: ClassVar[bool] = False
    """Whether the score compares the predictions of a query in all conditions, which have the same queries. Its
    prediction for a query is then the list of the predicted labels, one for each condition."""

    def range(self, labels: int) -> tuple[float, float]:
        """Return the lowest and the highest possible value for a number of labels."""
        return 0.0, 1.0

    def value(self, sample: Sample, predictions: Sequence[Any]) -> float:
        """Return the value of the score. Metrics of classification need no such method: they have a function."""
        raise self._not_defined("value", "the value of a score that is no metric of classification")

    def part(self, sample: Sample, predictions: Sequence[Any], level: float) -> MetricTerm:
        """Return the value with the distances to its confidence limits, and the influence of each test row."""
        raise self._not_defined("part", "the confidence interval of a score, and that of its slope")

    def _interval(self, sample: Sample, predictions: Sequence[Any], level: float) -> Interval:
        """Return the confidence interval, even if labels have too few test rows."""
        return self.part(sample, predictions, level).interval(level, self.method)

    def interval(self, sample: Sample, predictions: Sequence[Any], level: float) -> Interval | NoInterval:
        """Return the confidence interval, or the reason why it is withheld (:meth:`withheld`).

        If the test rows are in clusters, the interval is over clusters.
        """
        units = sample.by_cluster()
        return self.withheld(units, lambda: self._interval_over_units(units, predictions, level))

    def _interval_over_units(self, units: Sample, predictions: Sequence[Any], level: float) -> Interval:
        """Return the confidence interval over test rows, or over clusters, with its nominal coverage."""
        interval = self._interval(units, predictions, units.level_of_formulas(level))
        return replace(interval, level=level)

    def withheld(self, sample: Sample, compute_interval: Callable[[], Interval]) -> Interval | NoInterval:
        """Return a confidence interval, or a record with the reason why it is withheld: not shown, as too unreliable.

        A score such as macro F1 gives each label a weight of its own (:attr:`weighs_labels`). Its interval is withheld
        if a label has too few test rows. If each label has at least one row, the interval is still computed, and is
        part of the record: the interval of the mean over data sets needs it as an approximation.

        :meth:`part`, which the computation calls, may refuse predictions that are too few or too equal. The message
        of its :class:`~StaICC.errors.UndefinedMetricError` is then the reason, and there is no approximation.

        Args:
            sample: The queries.
            compute_interval: Computes the interval.
        """
        try:
            return self._withheld_for_few_rows(sample, compute_interval)
        except UndefinedMetricError as refusal:
            return NoInterval(str(refusal), approximate=None)

    def _withheld_for_few_rows(self, sample: Sample, compute_interval: Callable[[], Interval]) -> Interval | NoInterval:
        """Return the interval, or a record with the reason why there are too few test rows or clusters for it."""
        if sample.unit == "cluster":
            return self._withheld_over_clusters(sample, compute_interval)
        if not self.weighs_labels:
            return compute_interval()
        reason = sample.few_rows_reason
        if reason is None:
            return compute_interval()
        each_label_has_rows = len(set(sample.truth)) == sample.n_labels
        if each_label_has_rows:
            return NoInterval(reason, approximate=compute_interval())
        return NoInterval(reason, approximate=None)

    def _withheld_over_clusters(
        self, sample: Sample, compute_interval: Callable[[], Interval]
    ) -> Interval | NoInterval:
        """Return an interval over clusters, or a record with the reason why it is withheld.

        Args:
            sample: The queries, by cluster.
            compute_interval: Computes the interval.
        """
        reason = self._why_not_over_clusters(sample)
        if reason is not None:
            return NoInterval(reason, approximate=None)
        try:
            over_clusters = compute_interval()
        except UndefinedMetricError as error:  # the sizes of the clusters differ too much
            return NoInterval(str(error), approximate=None)
        return replace(over_clusters, method=over_clusters.method.replace("unit: test row", "unit: cluster"))

    def _why_not_over_clusters(self, sample: Sample) -> str | None:
        """Return why the score has no interval over the clusters of a sample; ``None`` if it can have one."""
        if not self.tested_over_clusters:
            return NOT_OVER_CLUSTERS
        reason = too_few_clusters(sample.sizes)
        if reason is None and self.weighs_labels:
            return sample.few_rows_reason
        return reason

    def of_run(self, sample: Sample, predictions: Sequence[Any], other: OtherRun | None = None) -> Contributions:
        """Return the value of one run, and the contribution of each test row, for a paired test with another run.

        Args:
            sample: The queries.
            predictions: The predictions of the run, one for each query.
            other: The run that it is compared with. ``None`` if there is none, or the run is compared with itself. It
                is not used if :attr:`independent` is true.
        """
        raise self._not_defined("of_run", "the paired test of two runs")

    def _not_defined(self, method: str, purpose: str) -> NotImplementedError:
        """Return the error that says which method a class lacks, and what the method is for."""
        return NotImplementedError(
            f"{type(self).__name__} does not define {method}(), which computes {purpose}. Define it in the class; "
            "a mean over queries can derive from Mean instead."
        )


class ValueOnly(Statistic):
    """A score that has a value, but neither a confidence interval nor a paired test."""

    reason: ClassVar[str]
    """Why it has none."""

    def withheld(self, sample: Sample, compute_interval: Callable[[], Interval]) -> Interval | NoInterval:
        """Return the reason why there is no interval."""
        return NoInterval(self.reason, approximate=None)

    def of_run(self, sample: Sample, predictions: Sequence[Any], other: OtherRun | None = None) -> Contributions:
        """Return the value of one run. The contributions of its rows are unknown, so that any row could change it."""
        return Contributions(
            value=self.value(sample, predictions),
            rows=[0.0] * sample.n_rows,
            lowest_after_row=-math.inf,
            highest_after_row=math.inf,
            range_width=math.inf,
        )


# -- means over queries


class Mean(Statistic):
    """The mean over the queries of a score of each query.

    In this class the predictions are the scores themselves. A derived class computes them in :meth:`scores`.

    Args:
        low: The lowest possible score.
        high: The highest possible score.
    """

    tested_over_clusters = True

    def __init__(self, low: float = 0.0, high: float = 1.0) -> None:
        """Keep the range of the scores. The arguments are those of the class."""
        self._low = low
        self._high = high

    def range(self, labels: int) -> tuple[float, float]:
        """Return the lowest and the highest possible score."""
        return self._low, self._high

    def scores(self, sample: Sample, predictions: Sequence[Any]) -> Sequence[float]:
        """Return the score of each query."""
        return predictions

    def value(self, sample: Sample, predictions: Sequence[Any]) -> float:
        """Return the mean."""
        scores = self.scores(sample, predictions)
        return math.fsum(scores) / len(scores)

    def _interval(self, sample: Sample, predictions: Sequence[Any], level: float) -> Interval:
        """Return the confidence interval of the mean of scores that have a lowest and a highest possible value.

        The share of a query is ``(highest - score) / (highest - lowest)``, a number from 0 to 1. The mean of the shares
        has a confidence interval, which :func:`~StaICC.metrics.intervals.ratio_part` computes from the sum of the
        shares and the number of queries of each test row. Its limits are converted back:
        ``score = highest - share * (highest - lowest)``.
        """
        scores = self.scores(sample, predictions)
        mean = math.fsum(scores) / len(scores)
        low, high = self.range(sample.n_labels)
        width = high - low
        if not width:  # all scores are equal, so all shares are 0, whatever they are divided by
            width = 1.0
        distances_by_row = sample.sums([high - score for score in scores])
        shares_by_row = [distance / width for distance in distances_by_row]
        mean_share = intervals.ratio_part(shares_by_row, sample.sizes, level, continuous=True)
        interval_of_share = mean_share.interval(level, self.method)
        return interval_from_distance(mean, interval_of_share, low=low, high=high, unit=width)

    def of_run(self, sample: Sample, predictions: Sequence[Any], other: OtherRun | None = None) -> Contributions:
        """Return the mean of one run, and the contribution of each test row."""
        scores = self.scores(sample, predictions)
        return mean_contributions(sample, scores, self.possible(sample, predictions))

    def with_missing(self, sample: Sample, predictions: Sequence[Any], missing_at: RangeEnd) -> Contributions:
        """Return the mean and the contribution of each test row, with an extreme score for each missing prediction.

        What a comparison says with the lowest and with the highest possible score for these queries holds whatever
        their predictions would have been.

        Args:
            sample: All queries.
            predictions: One for each query; some or all of them may be missing (:func:`lacks_score`).
            missing_at: Whether each missing query gets the lowest or the highest possible score.
        """
        known_indexes = [index for index, prediction in enumerate(predictions) if not lacks_score(prediction)]
        known_predictions = [predictions[index] for index in known_indexes]
        known_scores = self.scores(sample.of_queries(known_indexes), known_predictions)

        lowest, highest = self.possible(sample, predictions)
        missing_score = lowest if missing_at == "lowest" else highest
        scores = [missing_score] * len(predictions)
        for index, score in zip(known_indexes, known_scores, strict=True):
            scores[index] = score
        return mean_contributions(sample, scores, (lowest, highest))

    def possible(self, sample: Sample, predictions: Sequence[Any]) -> tuple[float, float]:
        """Return the lowest and the highest possible score of a query in this sample."""
        return self.range(sample.n_labels)


def mean_contributions(sample: Sample, scores: Sequence[float], ends: tuple[float, float]) -> Contributions:
    """Return the mean of the scores of queries, with the contribution of each test row to it.

    The contribution of a row is the sum of the scores of its queries, divided by the number of all queries. The
    returned record also has the lowest and the highest mean after one more test row. This row is assumed to have as
    many queries as the largest row of the sample, all with the lowest or all with the highest score.

    Args:
        sample: The queries.
        scores: The score of each query.
        ends: The lowest and the highest possible score of a query.
    """
    total = math.fsum(scores)
    count = len(scores)
    new_queries = sample.most_queries_per_row
    lowest, highest = ends
    return Contributions(
        value=total / count,
        rows=[row_sum / count for row_sum in sample.sums(scores)],
        lowest_after_row=(total + new_queries * lowest) / (count + new_queries),
        highest_after_row=(total + new_queries * highest) / (count + new_queries),
        range_width=highest - lowest,
    )


def interval_from_distance(value: float, distance: Interval, *, low: float, high: float, unit: float = 1.0) -> Interval:
    """Return the interval of a value, given the interval of its distance to the highest possible value.

    A large distance is a small value, so the upper limit of the distance becomes the lower limit of the value.

    Args:
        value: The value.
        distance: The interval of the distance, as a multiple of the unit.
        low: The lowest possible value.
        high: The highest possible value.
        unit: The unit of the distance.
    """
    centre = None
    if distance.centre is not None:
        centre = high - distance.centre

    # Rounding may have put the value outside the range by an ulp.
    value_in_range = min(high, max(low, value))
    # The interval contains the value,
    lower_limit = min(high - distance.high * unit, value_in_range)
    upper_limit = max(high - distance.low * unit, value_in_range)
    # and is within the range.
    lower_end = max(low, lower_limit)
    upper_end = min(high, upper_limit)
    # Adding 0 turns a negative zero into 0.
    return Interval(lower_end + 0.0, upper_end + 0.0, distance.level, distance.method, centre=centre)


class MeanOfUnknownRange(Mean):
    """The mean of scores whose range is not known. It has a value, but neither an interval nor a paired test."""

    def __init__(self) -> None:
        """Take a range without ends."""
        super().__init__(-math.inf, math.inf)


class MeanOf:
    """A custom metric that is the mean of a score of each query; it has confidence intervals and paired tests.

    Args:
        score: Computes the score of one query from its true label index and its row of numbers.
        low: The lowest possible score.
        high: The highest possible score.

    Example:
        >>> brier = MeanOf(lambda label, row: (1 - row[label]) ** 2)
        >>> brier([0, 1], [[1.0, 0.0], [0.5, 0.5]])
        0.125
    """

    def __init__(self, score: Callable[[int, list[float]], float], low: float = 0.0, high: float = 1.0) -> None:
        """Check the arguments, which are those of the class.

        Raises:
            ArgumentError: The score is no function, or the range is empty or not finite.
        """
        message = f"MeanOf: got {score!r:.60}, {low!r} and {high!r}, expected a function and a range"
        if not callable(score):
            raise ArgumentError(message)
        if not -math.inf < low < high < math.inf:
            raise ArgumentError(message)
        self.__module__ = getattr(score, "__module__", __name__)  # so that signatures name the plug-in of the score
        self.score = score
        self.low = low
        self.high = high

    def scores(self, ground_truth: Sequence[int], rows: Sequence[Sequence[float]]) -> list[float]:
        """Return the score of each query.

        Raises:
            ArgumentError: A score is outside the range, so that intervals and tests would not be valid.
        """
        scores = [float(self.score(label, list(row))) for label, row in zip(ground_truth, rows, strict=True)]
        for number, value in enumerate(scores):
            if not self.low <= value <= self.high:
                raise ArgumentError(f"the score of query {number} is {value}, expected {self.low:g} to {self.high:g}")
        return scores

    def __call__(self, ground_truth: Sequence[int], rows: Sequence[Sequence[float]]) -> float:
        """Return the mean."""
        return math.fsum(self.scores(ground_truth, rows)) / len(rows)


class QueryMean(Mean):
    """The mean over the queries of a custom score (:class:`MeanOf`)."""

    def __init__(self, metric: MeanOf, reads: Reads) -> None:
        """Take the range of a custom metric.

        Args:
            metric: The custom metric.
            reads: What its function reads of the prediction for a query.
        """
        super().__init__(metric.low, metric.high)
        self._metric = metric
        self.reads = reads

    def scores(self, sample: Sample, predictions: Sequence[Any]) -> list[float]:
        """Return the custom score of each query."""
        return self._metric.scores(sample.truth, predictions)

    def interval(self, sample: Sample, predictions: Sequence[Any], level: float) -> Interval | NoInterval:
        """Return the confidence interval of the mean of the scores.

        If the function of the user says that its score is undefined, only this metric has no interval.
        """
        try:
            scores = self.scores(sample, predictions)
        except UndefinedMetricError as error:
            return NoInterval(str(error), approximate=None)
        return Mean(self._low, self._high).interval(sample, scores, level)


class Share(Mean):
    """A mean of scores that are mostly 0 or 1, such as wrong or correct.

    Its interval is that of a share, which allows for rare events: few correct predictions, or few wrong ones.
    """

    def part(self, sample: Sample, predictions: Sequence[Any], level: float) -> MetricTerm:
        """Return the share with the distances to its Wilson limits, and the influence of each test row."""
        row_sums = sample.sums(self.scores(sample, predictions))
        return intervals.ratio_part(row_sums, sample.sizes, level)

    def _interval(self, sample: Sample, predictions: Sequence[Any], level: float) -> Interval:
        """Return the Wilson interval of the share; :class:`Mean` has an interval for arbitrary scores instead."""
        return self.part(sample, predictions, level).interval(level, self.method)


class Accuracy(Share):
    """The share of correct predictions."""

    of_classification = True

    def scores(self, sample: Sample, predictions: Sequence[Any]) -> list[float]:
        """Return 1 for each correct prediction and 0 for each wrong one."""
        return [float(guess == label) for guess, label in zip(predictions, sample.truth, strict=True)]


class Consistency(Share):
    """How often the conditions of a run agree: the mean over the queries of the share of the most frequent label.

    The prediction for a query is the list of its predicted labels, one for each condition.
    """

    compares_conditions = True

    def scores(self, sample: Sample, predictions: Sequence[Any]) -> list[float]:
        """Return for each query the share of its most frequent label among its predicted labels."""
        scores = []
        for labels in predictions:
            largest_count = max(map(labels.count, labels))
            scores.append(largest_count / len(labels))
        return scores

    def _interval(self, sample: Sample, predictions: Sequence[Any], level: float) -> Interval:
        """Return the confidence interval. Its lower end is at least 1 / conditions, the share of a single label."""
        part = self.part(sample, predictions, level)
        n_conditions = len(predictions[0])
        return part.interval(level, self.method, low=1.0 / n_conditions)

    def possible(self, sample: Sample, predictions: Sequence[Any]) -> tuple[float, float]:
        """Return the lowest and the highest possible score of a query.

        By the pigeonhole principle, n conditions that predict k labels have at least ``ceil(n / k)`` equal predictions.
        """
        n_conditions = len(predictions[0])
        n_labels = sample.n_labels
        if not n_labels:  # unknown, so each condition may predict another label
            n_labels = n_conditions
        fewest_equal_predictions = math.ceil(n_conditions / n_labels)
        return fewest_equal_predictions / n_conditions, 1.0


class Likelihood(Share):
    """The mean probability of the true label."""

    reads = "probabilities"
    method = "variance recovery, correct and wrong predictions, unit: test row"
    of_classification = True

    def scores(self, sample: Sample, predictions: Sequence[Any]) -> list[float]:
        """Return the probability of the true label of each query."""
        return [row[label] for row, label in zip(predictions, sample.truth, strict=True)]

    def part(self, sample: Sample, predictions: Sequence[Any], level: float) -> MetricTerm:
        """Return the likelihood with the distances to its confidence limits, and the influence of each test row.

        The limits take correct and wrong predictions apart (:func:`~StaICC.metrics.intervals.likelihood_part`), because
        wrong predictions of a confident model are rare, and their likelihood is near 0.
        """
        likelihoods = self.scores(sample, predictions)
        hits = [float(row.index(max(row)) == label) for row, label in zip(predictions, sample.truth, strict=True)]
        likelihoods_of_hits = map(mul, likelihoods, hits)
        return intervals.likelihood_part(
            likelihoods=sample.sums(likelihoods),
            correct=sample.sums(hits),
            of_correct=sample.sums(likelihoods_of_hits),
            queries=sample.sizes,
            level=level,
        )


class Brier(Mean):
    """The Brier score: the mean squared distance of the probabilities to the true label."""

    reads = "probabilities"
    of_classification = True

    def __init__(self) -> None:
        """Take the range of a squared distance: 0, or up to 2 for a certain prediction of a wrong label."""
        super().__init__(low=0.0, high=2.0)

    def scores(self, sample: Sample, predictions: Sequence[Any]) -> list[float]:
        """Return the squared distance of each query."""
        return [classification.brier_of_query(label, row) for row, label in zip(predictions, sample.truth, strict=True)]

    def part(self, sample: Sample, predictions: Sequence[Any], level: float) -> MetricTerm:
        """Return the Brier score with the distances to its confidence limits, and the influence of each test row.

        Half of the score is a number from 0 to 1, which has the Wilson limits of a share.
        """
        halves = [score / 2.0 for score in self.scores(sample, predictions)]
        half_of_score = intervals.ratio_part(sample.sums(halves), sample.sizes, level, continuous=True)
        return half_of_score.scaled(2.0)


class NegativeLogLikelihood(Mean):
    """The mean negative logarithm of the probability of the true label.

    It has no largest value. So it has neither a confidence interval nor a paired test: whatever a sample shows, the
    population may have rare rows with so large a value that they determine the mean (Bahadur and Savage 1956).
    """

    reads = "probabilities"
    of_classification = True

    def __init__(self) -> None:
        """Take a range from 0 on, without a largest value."""
        super().__init__(low=0.0, high=math.inf)

    def scores(self, sample: Sample, predictions: Sequence[Any]) -> list[float]:
        """Return the negative logarithm of the probability of the true label of each query; infinity for 0."""
        return [
            classification.negative_logarithm(row[label]) for row, label in zip(predictions, sample.truth, strict=True)
        ]

    def withheld(self, sample: Sample, compute_interval: Callable[[], Interval]) -> Interval | NoInterval:
        """Return the reason why there is no interval."""
        return NoInterval(
            "it has no largest value, so that rare rows which the sample lacks may determine the mean", approximate=None
        )


# -- F1


class _LabelCount(NamedTuple):
    """The counts that an F1 needs: ``F1 = 2 * hits / size``."""

    hits: float
    """Number of queries with a label that are predicted correctly (true positives)."""
    size: float
    """Number of queries with the label plus number of predictions of it."""

    @property
    def f1(self) -> float:
        """The F1; 0 if no query has the label and no prediction is it."""
        if not self.size:
            return 0.0
        return 2.0 * self.hits / self.size

    def f1_with(self, *, new_hits: int, new_size: int) -> float:
        """Return the F1 after some more queries."""
        return 2.0 * (self.hits + new_hits) / (self.size + new_size)

    def f1_without(self, *, hits: int, size: int) -> float:
        """Return the F1 without some of the queries; 0 if these are all that have the label."""
        if self.size <= size:
            return 0.0
        return 2.0 * (self.hits - hits) / (self.size - size)


def _label_counts(truth: Sequence[int], predictions: Sequence[int], n_labels: int) -> list[_LabelCount]:
    """Return for each label the counts that its F1 needs."""
    true_labels = Counter(truth)
    predicted_labels = Counter(predictions)
    hits = Counter(label for label, guess in zip(truth, predictions, strict=True) if label == guess)
    return [_LabelCount(hits[label], true_labels[label] + predicted_labels[label]) for label in range(n_labels)]


def _pooled_f1(own: _LabelCount, other: _LabelCount, other_weight: float) -> float:
    """Return the F1 of two runs together: twice the hits of both, divided by the sizes of both.

    It is 0 if both sizes are 0.

    Args:
        own: The counts of the run.
        other: The counts of the other run.
        other_weight: What a query of the other run counts (:meth:`OtherRun.weight`).
    """
    pooled_hits = own.hits + other_weight * other.hits
    pooled_size = own.size + other_weight * other.size
    return 2.0 * pooled_hits / max(1.0, pooled_size)


class MacroF1(Statistic):
    """The macro F1: the mean of the F1 of all labels."""

    method = "variance recovery over labels, unit: test row"
    of_classification = True
    weighs_labels = True
    tested_over_clusters = True
    independent = False  # if the number of labels is not known, it is that of both runs

    def part(self, sample: Sample, predictions: Sequence[Any], level: float) -> MetricTerm:
        """Return the macro F1 with the distances to its confidence limits, and the influence of each test row."""
        # F1 = (2 * hits) / size: numerator and denominator of each label, as sums over the queries of each row.
        numerators = [[0.0] * sample.n_rows for _ in range(sample.n_labels)]
        denominators = [[0.0] * sample.n_rows for _ in range(sample.n_labels)]
        for row, label, guess in zip(sample.rows, sample.truth, predictions, strict=True):
            denominators[label][row] += 1.0
            denominators[guess][row] += 1.0
            if label == guess:
                numerators[label][row] += 2.0
        return intervals.macro_part(numerators, denominators, level)

    def of_run(self, sample: Sample, predictions: Sequence[Any], other: OtherRun | None = None) -> Contributions:
        """Return the macro F1 of one run, and the contribution of each test row.

        The macro F1 is the mean of the F1 of all labels. The contributions are its derivatives
        (:func:`_f1_contributions`). The bias is estimated by the jackknife.

        Args:
            sample: The queries.
            predictions: The predicted label of each query.
            other: The run with which this one is compared; ``None`` if there is none. If the number of labels is not
                known, its labels count, too.
        """
        if other is None:
            other = OtherRun(sample, predictions)
        n_labels = sample.n_labels
        if not n_labels:  # unknown, so it is taken from the labels that occur
            n_labels = 1 + max(*sample.truth, *predictions, *other.sample.truth, *other.predictions)
        counts = _label_counts(sample.truth, predictions, n_labels)

        new_queries = sample.most_queries_per_row
        scores = _f1_contributions(sample.truth, predictions, counts, new_queries)
        value = math.fsum(label_count.f1 for label_count in counts) / n_labels
        bias = _jackknife_bias(sample, predictions, counts) / n_labels
        return Contributions(
            value=value,
            rows=sample.sums(scores),
            lowest_after_row=value - _largest_f1_loss(counts, new_queries) / n_labels,
            highest_after_row=value + _largest_f1_gain(counts, new_queries) / n_labels,
            range_width=1.0,
            upward_bias=max(0.0, bias),
            downward_bias=max(0.0, -bias),
        )


def _largest_f1_loss(counts: Sequence[_LabelCount], new_queries: int) -> float:
    """Return by how much one more test row can lower the sum of F1 over all labels.

    It does so most if all its queries have one label and get another one as prediction: the size of both labels grows,
    and their hits do not.

    Args:
        counts: The counts of each label.
        new_queries: Number of queries of the row.
    """
    losses = []
    for label_count in counts:
        losses.append(label_count.f1 - label_count.f1_with(new_hits=0, new_size=new_queries))
    two_largest_losses = sorted(losses)[-2:]
    return sum(two_largest_losses)


def _largest_f1_gain(counts: Sequence[_LabelCount], new_queries: int) -> float:
    """Return by how much one more test row can raise the sum of F1 over all labels.

    It does so most if all its queries are hits of one label. Each adds one true label and one prediction to its size.

    Args:
        counts: The counts of each label.
        new_queries: Number of queries of the row.
    """
    gains = []
    for label_count in counts:
        gains.append(label_count.f1_with(new_hits=new_queries, new_size=2 * new_queries) - label_count.f1)
    return max(gains)


def _f1_contributions(
    truth: Sequence[int],
    predictions: Sequence[int],
    counts: Sequence[_LabelCount],
    row_queries: int,
) -> list[float]:
    """Return the contribution of each query to the macro F1 of a run: its derivative by the weight of the query.

    A label has ``F1 = 2 hits / s``, where the size s is its number of true labels plus its number of predictions. A
    query that adds h hits and d to the size changes F1 by ``(2 h - F1 d) / s`` to first order. So with L labels, a
    query contributes the sum of::

        -F1 / s / L   for its true label, and the same for its predicted label (penalties)
        2 / s / L     if the two labels are the same (reward)

    F1 is that of the run itself. The F1 of both runs together would be wrong if a label has another F1 in one run than
    in the other, which runs of equal macro F1 can have: the frequency of such a label in a sample then changes their
    difference, and this would be missed (``docs/error_rates.md``).

    s is the size without the largest test row, which is cautious. A row of a rare label moves the F1 of this label
    itself (leverage), which makes its contribution too small.

    Args:
        truth: True label of each query.
        predictions: Predicted label of each query.
        counts: The counts of each label in this run.
        row_queries: Number of queries of the largest test row. Each has one true and one predicted label.
    """
    n_labels = len(counts)
    penalties = []
    rewards = []
    for label_count in counts:
        size = label_count.size
        if not size:
            penalties.append(0.0)
            rewards.append(0.0)
            continue
        if size > 2 * row_queries:
            size -= 2 * row_queries
        penalties.append(label_count.f1 / size / n_labels)
        rewards.append(2.0 / size / n_labels)

    contributions = []
    for label, guess in zip(truth, predictions, strict=True):
        reward = rewards[label] if label == guess else 0.0
        contributions.append(reward - penalties[label] - penalties[guess])
    return contributions


def _jackknife_bias(sample: Sample, predictions: Sequence[int], counts: Sequence[_LabelCount]) -> float:
    """Return the jackknife estimate of the bias of the sum of F1 over all labels (Quenouille 1956).

    With n test rows, it is::

        (n - 1) / n * sum over rows of (value without the row - value)

    It is positive if a sample has a higher value on average than the population: leaving out rows then raises the
    value.

    Args:
        sample: The queries.
        predictions: Predicted label of each query.
        counts: The counts of each label.
    """
    # The true and the predicted label of each query of a row.
    pairs_by_row: dict[int, list[tuple[int, int]]] = {}
    for row, label, guess in zip(sample.rows, sample.truth, predictions, strict=True):
        pairs_by_row.setdefault(row, []).append((label, guess))
    # Leaving out any of the rows with the same labels and predictions has the same effect, which is computed once.
    equal_rows = Counter(tuple(sorted(pairs)) for pairs in pairs_by_row.values())

    total_change = 0.0
    for pairs, n_equal in equal_rows.items():
        hits_of_row = Counter(label for label, guess in pairs if label == guess)
        sizes_of_row = Counter(chain.from_iterable(pairs))
        for label, size_of_row in sizes_of_row.items():
            f1_without_row = counts[label].f1_without(hits=hits_of_row[label], size=size_of_row)
            total_change += n_equal * (f1_without_row - counts[label].f1)
    return (sample.n_rows - 1) / sample.n_rows * total_change


class MicroF1(Statistic):
    """The micro F1 of queries that have several labels: ``2 * hits / size``, summed over all queries and labels.

    The prediction for a query is a pair: its number of hits (correct labels), and its size, the number of its true
    labels plus the number of its predicted labels.

    Args:
        most: The largest possible number of true labels of a query, and that of predicted labels.
    """

    independent = False

    def __init__(self, most: tuple[float, float]) -> None:
        """Keep the largest numbers of labels of a query. The arguments are those of the class."""
        self._most_true, self._most_predicted = most

    def of_run(self, sample: Sample, predictions: Sequence[Any], other: OtherRun | None = None) -> Contributions:
        """Return the micro F1 of one run, and the contribution of each test row.

        A query with h hits and the size d contributes ``(2 h - F1 d) / size``, the derivative of F1 = 2 hits / size. F1
        in this formula is that of both runs together. For runs of equal micro F1 it is their own.
        """
        if other is None:
            other = OtherRun(sample, predictions)
        total = _summed_counts(predictions)
        pooled_f1 = _pooled_f1(total, _summed_counts(other.predictions), other.weight(sample))
        scores = [0.0] * len(predictions)
        if total.size:
            for index, (hits, size) in enumerate(predictions):
                scores[index] = (2.0 * hits - pooled_f1 * size) / total.size

        # One more test row lowers F1 most with as many true and predicted labels as possible and no hit. It raises F1
        # most with as many true labels as possible, if exactly these are predicted.
        new_true = sample.most_queries_per_row * self._most_true
        new_predicted = sample.most_queries_per_row * self._most_predicted
        return Contributions(
            value=total.f1,
            rows=sample.sums(scores),
            lowest_after_row=2.0 * total.hits / (total.size + new_true + new_predicted),
            highest_after_row=2.0 * (total.hits + new_true) / (total.size + 2.0 * new_true),
            range_width=1.0,
        )


def _summed_counts(predictions: Sequence[tuple[float, float]]) -> _LabelCount:
    """Return the hits of all queries together, and their sizes together.

    Args:
        predictions: For each query its number of hits, and its size: its true labels plus its predicted labels.
    """
    hits = sum(query_hits for query_hits, _ in predictions)
    size = sum(query_size for _, query_size in predictions)
    return _LabelCount(hits, size)


# -- entropy


class MeanEntropy(Mean):
    """Minus the mean over the queries of the entropy of the prediction."""

    reads = "probabilities"

    def range(self, labels: int) -> tuple[float, float]:
        """Return the lowest and the highest possible value."""
        return -math.log(labels), 0.0

    def scores(self, sample: Sample, predictions: Sequence[Any]) -> list[float]:
        """Return minus the entropy of the prediction for each query."""
        return [-entropy(row) for row in predictions]

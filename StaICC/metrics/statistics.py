"""Statistics: what a score is as a function of a sample of rows.

A :class:`Statistic` has the range of a score, its confidence interval, and what each test row contributes to a paired
test.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from itertools import chain
from operator import add, mul
from typing import Any, ClassVar, Literal, NamedTuple

from StaICC.errors import ArgumentError, UndefinedMetricError
from StaICC.metrics import classification, intervals
from StaICC.metrics.diagnosis import empirical_bias, entropy, entropy_of_mean, label_frequencies
from StaICC.metrics.intervals import Interval, MetricTerm, NoInterval

Reads = Literal["labels", "distributions", "probabilities", "rows", "any"]
"""What a score reads: predicted labels; a distribution over the labels, also of a bare label; probabilities of the
model; the rows as they were returned; or probabilities where there are any, else the rows."""

RangeEnd = Literal["lowest", "highest"]
"""An end of the range of scores."""


@dataclass(frozen=True, slots=True)
class Contributions:
    """A metric of one run, and what each test row contributes to it."""

    value: float
    rows: Sequence[float]
    """One contribution for each test row."""
    lowest_after_row: float
    """The lowest value that the metric could have after one more test row."""
    highest_after_row: float
    """The highest value that it could have after one more test row."""
    range_width: float
    """The highest minus the lowest value of the metric; infinite if it has no bound."""
    upward_bias: float = 0.0
    """How far chance can have raised the value in a sample of this size (its bias)."""
    downward_bias: float = 0.0
    """How far chance can have lowered it."""
    uncertain_terms: tuple[Sequence[float], ...] = ()
    """Terms of the contributions whose sign is uncertain, each with one number for each test row.

    A sum of absolute values, such as the calibration error, has one term for each absolute value. Its sign is uncertain
    if the sum inside may have the other sign in truth.
    """


@dataclass(frozen=True, slots=True)
class Sample:
    """The queries that a score of one condition counts."""

    truth: Sequence[int]
    """True label index of each query."""
    rows: Sequence[int]
    """Test row of each query, from 0 on."""
    n_rows: int
    n_labels: int
    """0 if it is not known."""

    def sums(self, values: Iterable[float]) -> list[float]:
        """Return the sum of the values of the queries of each test row."""
        totals = [0.0] * self.n_rows
        for value, row in zip(values, self.rows, strict=True):
            totals[row] += value
        return totals

    def of_queries(self, places: Sequence[int]) -> Sample:
        """Return the sample of the queries at some places of this one; test rows keep their numbers."""
        return Sample(
            truth=[self.truth[place] for place in places],
            rows=[self.rows[place] for place in places],
            n_rows=self.n_rows,
            n_labels=self.n_labels,
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
        """Why a score that weighs all labels has no interval (labels with few test rows); ``None`` if it has one."""
        label_of_row = dict(zip(self.rows, self.truth, strict=True))
        row_counts = Counter(label_of_row.values())
        rows_by_label = [row_counts[label] for label in range(self.n_labels)]
        n_with_few = sum(count < intervals.LEAST_ROWS for count in rows_by_label)
        n_with_none = rows_by_label.count(0)
        if not n_with_few:
            return None
        text = f"{n_with_few} of {self.n_labels} labels have fewer than {intervals.LEAST_ROWS} test rows"
        if n_with_none:
            return f"{text}, {n_with_none} of them none"
        return text


def lacks_score(prediction: Any) -> bool:
    """Return whether a query has no score: it failed, its reply is left out, or one of its conditions is missing."""
    if isinstance(prediction, (list, tuple)):
        return None in prediction
    return prediction is None


class Statistic:
    """What a score measures: its range, its interval, and what each test row contributes to a paired test.

    The predictions of a sample are those that the statistic reads, one for each query.
    """

    reads: Reads = "labels"
    method: ClassVar[str] = "Wilson score, design effect and t, unit: test row"
    """How its confidence interval is computed."""
    of_classification: ClassVar[bool] = False
    """Whether it says how right predictions are, so that unparsed replies can count as wrong ones."""
    weighs_labels: ClassVar[bool] = False
    """Whether each label needs some test rows for an interval."""
    independent: ClassVar[bool] = True
    """Whether the contributions of a run do not depend on the run that it is compared with."""

    def range(self, labels: int) -> tuple[float, float]:
        """Return the lowest and the highest possible value, by the number of labels."""
        return 0.0, 1.0

    def value(self, sample: Sample, predictions: Sequence[Any]) -> float:
        """Return the value; metrics of classification have a function instead."""
        raise self._not_defined("value", "the value of a score that is no metric of classification")

    def part(self, sample: Sample, predictions: Sequence[Any], level: float) -> MetricTerm:
        """Return the value with its limits and the influence of each test row."""
        raise self._not_defined("part", "the confidence interval of a score, and that of its slope")

    def _interval(self, sample: Sample, predictions: Sequence[Any], level: float) -> Interval:
        """Return the confidence interval, also if labels have too few test rows."""
        return self.part(sample, predictions, level).interval(level, self.method)

    def interval(self, sample: Sample, predictions: Sequence[Any], level: float) -> Interval | NoInterval:
        """Return the confidence interval; it is withheld if labels have too few test rows."""
        return self.withheld(sample, lambda: self._interval(sample, predictions, level))

    def withheld(self, sample: Sample, interval: Callable[[], Interval]) -> Interval | NoInterval:
        """Return an interval, or the reason why it is withheld.

        It is withheld if each label needs some test rows, and some have too few. The approximate interval, for the mean
        over data sets, needs at least one row of each label.

        Args:
            sample: The queries.
            interval: Computes the interval.
        """
        if not self.weighs_labels:
            return interval()
        reason = sample.few_rows_reason
        if reason is None:
            return interval()
        if len(set(sample.truth)) == sample.n_labels:
            return NoInterval(reason, approximate=interval())
        return NoInterval(reason, approximate=None)

    def of_run(self, sample: Sample, predictions: Sequence[Any], others: Sequence[Any] = ()) -> Contributions:
        """Return the value of one run, and what each test row contributes to it.

        Args:
            sample: The queries.
            predictions: Those of the run.
            others: Those of the run that it is compared with; only read if :attr:`independent` is false.
        """
        raise self._not_defined("of_run", "the paired test of two runs")

    def _not_defined(self, method: str, purpose: str) -> NotImplementedError:
        """Return the error for a method that a statistic lacks."""
        return NotImplementedError(
            f"{type(self).__name__} does not define {method}(), which computes {purpose}. Define it in the class; "
            "a mean over queries can derive from Mean instead."
        )


# -- means over queries


class Mean(Statistic):
    """The mean of a score of each query; here the predictions are these scores.

    Args:
        low: The lowest possible score.
        high: The highest possible score.
    """

    def __init__(self, low: float = 0.0, high: float = 1.0) -> None:
        self._ends = (low, high)

    def range(self, labels: int) -> tuple[float, float]:
        """Return the lowest and the highest possible score."""
        return self._ends

    def scores(self, sample: Sample, predictions: Sequence[Any]) -> Sequence[float]:
        """Return the score of each query."""
        return predictions

    def value(self, sample: Sample, predictions: Sequence[Any]) -> float:
        """Return the mean."""
        scores = self.scores(sample, predictions)
        return math.fsum(scores) / len(scores)

    def _interval(self, sample: Sample, predictions: Sequence[Any], level: float) -> Interval:
        """Return the confidence interval: that of the mean distance to the highest score, as a share of the range."""
        scores = self.scores(sample, predictions)
        low, high = self.range(sample.n_labels)
        width = high - low
        if not width:
            width = 1.0
        distances = sample.sums([high - score for score in scores])
        share = intervals.ratio_part([distance / width for distance in distances], sample.sizes, level, continuous=True)
        return _from_the_top(
            math.fsum(scores) / len(scores), share.interval(level, self.method), low=low, high=high, width=width
        )

    def of_run(self, sample: Sample, predictions: Sequence[Any], others: Sequence[Any] = ()) -> Contributions:
        """Return the mean, and what each test row contributes to it."""
        scores = self.scores(sample, predictions)
        return mean_contributions(sample, scores, self.possible(sample, predictions))

    def with_missing(self, sample: Sample, predictions: Sequence[Any], missing_at: RangeEnd) -> Contributions:
        """Return the mean, and what each test row contributes to it, with missing queries at an end of the range.

        Args:
            sample: All queries.
            predictions: One for each query; some or all of them may be missing (:func:`lacks_score`).
            missing_at: Whether each missing query has the lowest or the highest possible score.
        """
        known = [place for place, prediction in enumerate(predictions) if not lacks_score(prediction)]
        known_predictions = [predictions[place] for place in known]
        known_scores = self.scores(sample.of_queries(known), known_predictions)

        lowest, highest = self.possible(sample, predictions)
        missing_score = lowest if missing_at == "lowest" else highest
        scores = [missing_score] * len(predictions)
        for place, score in zip(known, known_scores, strict=True):
            scores[place] = score
        return mean_contributions(sample, scores, (lowest, highest))

    def possible(self, sample: Sample, predictions: Sequence[Any]) -> tuple[float, float]:
        """Return the lowest and the highest possible score of a query."""
        return self.range(sample.n_labels)


def mean_contributions(sample: Sample, scores: Sequence[float], ends: tuple[float, float]) -> Contributions:
    """Return the mean of the scores of queries, and what each test row contributes to it.

    Args:
        sample: The queries.
        scores: The score of each query.
        ends: The lowest and the highest possible score.
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


def _from_the_top(value: float, distance: Interval, *, low: float, high: float, width: float = 1.0) -> Interval:
    """Return the interval of a value from that of its distance to the top of its range.

    Args:
        value: The value.
        distance: The interval of the distance, in units of the width.
        low: The lowest possible value.
        high: The highest possible value.
        width: The unit of the distance.
    """
    centre = None
    if distance.centre is not None:
        centre = high - distance.centre
    value = min(high, max(low, value))  # rounding may have put it outside
    lower_end = max(low, min(high - distance.high * width, value))
    upper_end = min(high, max(high - distance.low * width, value))
    # Adding 0 turns a negative zero into 0.
    return Interval(lower_end + 0.0, upper_end + 0.0, distance.level, distance.method, centre=centre)


class MeanOf:
    """A metric of your own that is the mean of a score of each query: it has confidence intervals and paired tests.

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
            ArgumentError: A score is outside the range: its test would not be valid.
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
    """The mean of the scores that a metric gives to each query."""

    def __init__(self, metric: MeanOf, reads: Reads) -> None:
        super().__init__(metric.low, metric.high)
        self._metric = metric
        self.reads = reads

    def scores(self, sample: Sample, predictions: Sequence[Any]) -> list[float]:
        """Return the score of each query."""
        return self._metric.scores(sample.truth, predictions)

    def interval(self, sample: Sample, predictions: Sequence[Any], level: float) -> Interval | NoInterval:
        """Return the confidence interval."""
        try:
            scores = self.scores(sample, predictions)
        except UndefinedMetricError as error:  # the other metrics keep their intervals
            return NoInterval(str(error), approximate=None)
        return Mean(*self._ends).interval(sample, scores, level)


class _Share(Mean):
    """A mean of scores of which most are 0 or 1, such as correct or wrong: its interval allows for rare events."""

    def part(self, sample: Sample, predictions: Sequence[Any], level: float) -> MetricTerm:
        """Return the value with its limits and the influence of each test row."""
        row_sums = sample.sums(self.scores(sample, predictions))
        return intervals.ratio_part(row_sums, sample.sizes, level)

    def _interval(self, sample: Sample, predictions: Sequence[Any], level: float) -> Interval:
        """Return the confidence interval of a share, not that of a mean of any scores."""
        return self.part(sample, predictions, level).interval(level, self.method)


class Accuracy(_Share):
    """The share of correct predictions."""

    of_classification = True

    def scores(self, sample: Sample, predictions: Sequence[Any]) -> list[float]:
        """Return 1 for each correct prediction and 0 for each wrong one."""
        return [float(guess == label) for guess, label in zip(predictions, sample.truth, strict=True)]


class Consistency(_Share):
    """The share of the conditions that predict the most frequent label of a query, in the mean over the queries.

    The predictions of a query are its labels in all conditions.
    """

    def scores(self, sample: Sample, predictions: Sequence[Any]) -> list[float]:
        """Return for each query the share of the conditions that predict its most frequent label."""
        scores = []
        for labels in predictions:
            largest_count = max(map(labels.count, labels))
            scores.append(largest_count / len(labels))
        return scores

    def _interval(self, sample: Sample, predictions: Sequence[Any], level: float) -> Interval:
        """Return the confidence interval; at least one condition predicts the most frequent label."""
        part = self.part(sample, predictions, level)
        n_conditions = len(predictions[0])
        return part.interval(level, self.method, low=1.0 / n_conditions)

    def possible(self, sample: Sample, predictions: Sequence[Any]) -> tuple[float, float]:
        """Return the lowest and the highest value that this sample could have."""
        n_conditions = len(predictions[0])
        n_labels = sample.n_labels or n_conditions
        # With fewer labels than conditions, some conditions agree.
        least_count = math.ceil(n_conditions / n_labels)
        return least_count / n_conditions, 1.0


class Likelihood(_Share):
    """The mean probability of the true label."""

    reads = "probabilities"
    method = "variance recovery, correct and wrong predictions, unit: test row"
    of_classification = True

    def scores(self, sample: Sample, predictions: Sequence[Any]) -> list[float]:
        """Return the probability of the true label of each query."""
        return [row[label] for row, label in zip(predictions, sample.truth, strict=True)]

    def part(self, sample: Sample, predictions: Sequence[Any], level: float) -> MetricTerm:
        """Return the value with its limits and the influence of each test row."""
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


# -- F1


class _LabelCount(NamedTuple):
    """Counts of a label in the predictions of a run; its F1 is two times the hits divided by the size."""

    hits: int
    """Queries with this label that are predicted correctly."""
    size: int
    """Queries with this label plus predictions of it."""


def _label_counts(truth: Sequence[int], predictions: Sequence[int], n_labels: int) -> list[_LabelCount]:
    """Return the counts of each label."""
    true_labels = Counter(truth)
    predicted_labels = Counter(predictions)
    hits = Counter(label for label, guess in zip(truth, predictions, strict=True) if label == guess)
    return [_LabelCount(hits[label], true_labels[label] + predicted_labels[label]) for label in range(n_labels)]


class MacroF1(Statistic):
    """The mean over the labels of their F1."""

    method = "variance recovery over labels, unit: test row"
    of_classification = True
    weighs_labels = True
    independent = False

    def part(self, sample: Sample, predictions: Sequence[Any], level: float) -> MetricTerm:
        """Return the value with its limits and the influence of each test row."""
        hits = [[0.0] * sample.n_rows for _ in range(sample.n_labels)]
        sizes = [[0.0] * sample.n_rows for _ in range(sample.n_labels)]
        for row, label, guess in zip(sample.rows, sample.truth, predictions, strict=True):
            sizes[label][row] += 1.0
            sizes[guess][row] += 1.0
            if label == guess:
                hits[label][row] += 2.0
        return intervals.macro_part(hits, sizes, level)

    def of_run(self, sample: Sample, predictions: Sequence[Any], others: Sequence[Any] = ()) -> Contributions:
        """Return the macro F1 of one run.

        F1 of a label is compared at the pooled F1 of both runs, not at each run's own: with few rows of a label, a run
        that never predicts it would otherwise seem to have no sampling error. As each row moves the F1 of a rare label,
        the rows' terms are those of a sample without the row (leverage), and the bias is that of the jackknife.
        """
        new_queries = sample.most_queries_per_row
        others = others or predictions
        n_labels = sample.n_labels
        if not n_labels:
            n_labels = 1 + max(*sample.truth, *predictions, *others)
        counts = _label_counts(sample.truth, predictions, n_labels)
        other_counts = _label_counts(sample.truth, others, n_labels)
        scores = _f1_contributions(sample.truth, predictions, counts, other_counts, new_queries)

        # One more row lowers macro F1 most if all its queries have one label and are predicted to have another one.
        # It raises it most if all of them are hits of one label.
        f1s = [2.0 * hits / size if size else 0.0 for hits, size in counts]
        losses = []
        gains = []
        for f1, (hits, size) in zip(f1s, counts, strict=True):
            losses.append(f1 - 2.0 * hits / (size + new_queries))
            gains.append(2.0 * (hits + new_queries) / (size + 2 * new_queries) - f1)
        two_largest_losses = sorted(losses)[-2:]
        value = math.fsum(f1s) / n_labels
        bias = _jackknife_bias(sample, predictions, counts) / n_labels
        return Contributions(
            value=value,
            rows=sample.sums(scores),
            lowest_after_row=value - sum(two_largest_losses) / n_labels,
            highest_after_row=value + max(gains) / n_labels,
            range_width=1.0,
            upward_bias=max(0.0, bias),
            downward_bias=max(0.0, -bias),
        )


def _f1_contributions(
    truth: Sequence[int],
    predictions: Sequence[int],
    counts: Sequence[_LabelCount],
    other_counts: Sequence[_LabelCount],
    row_queries: int,
) -> list[float]:
    """Return what each query contributes to macro F1, by the derivative at the pooled F1 of two runs.

    With F the pooled F1 of a label and s its size, a query adds ``-F / s`` for its true label, ``-F / s`` for its
    prediction, and ``2 / s`` if both are the same; all of it is divided by the number of labels.

    Args:
        truth: True label of each query.
        predictions: Predicted label of each query.
        counts: The counts of each label.
        other_counts: Those of the other run.
        row_queries: Number of queries of the largest test row.
    """
    n_labels = len(counts)
    penalties = []
    rewards = []
    for own, other in zip(counts, other_counts, strict=True):
        pooled_f1 = 2.0 * (own.hits + other.hits) / max(1, own.size + other.size)
        size = own.size
        if size > 2 * row_queries:  # without the true and predicted labels of the row itself
            size -= 2 * row_queries
        penalties.append(pooled_f1 / size / n_labels if size else 0.0)
        rewards.append(2.0 / size / n_labels if size else 0.0)

    contributions = []
    for label, guess in zip(truth, predictions, strict=True):
        reward = rewards[label] if label == guess else 0.0
        contributions.append(reward - penalties[label] - penalties[guess])
    return contributions


def _jackknife_bias(sample: Sample, predictions: Sequence[int], counts: Sequence[_LabelCount]) -> float:
    """Return the bias of the sum of F1 over labels.

    It is ``(n - 1) / n`` times the sum over all n test rows of what the sum of F1 gains without the row.

    Args:
        sample: The queries.
        predictions: Predicted label of each query.
        counts: The counts of each label.
    """
    pairs_by_row: dict[int, list[tuple[int, int]]] = {}
    for row, label, guess in zip(sample.rows, sample.truth, predictions, strict=True):
        pairs_by_row.setdefault(row, []).append((label, guess))
    # Rows with the same labels and predictions gain the same.
    equal_rows = Counter(tuple(sorted(pairs)) for pairs in pairs_by_row.values())

    total_gain = 0.0
    for pairs, n_equal in equal_rows.items():
        row_hits = Counter(label for label, guess in pairs if label == guess)
        row_sizes = Counter(chain.from_iterable(pairs))
        for label, row_size in row_sizes.items():
            hits, size = counts[label]
            f1_without_row = 0.0
            if size > row_size:
                f1_without_row = 2.0 * (hits - row_hits[label]) / (size - row_size)
            total_gain += n_equal * (f1_without_row - 2.0 * hits / size)
    return (sample.n_rows - 1) / sample.n_rows * total_gain


class MicroF1(Statistic):
    """F1 over all labels; a prediction is the number of correct labels, and that of true and predicted ones together.

    Args:
        most: The largest possible numbers of true and of predicted labels of a query.
    """

    independent = False

    def __init__(self, most: tuple[float, float]) -> None:
        self._most = most

    def of_run(self, sample: Sample, predictions: Sequence[Any], others: Sequence[Any] = ()) -> Contributions:
        """Return the micro F1 of one run, and what each test row contributes to it."""
        hits = sum(query_hits for query_hits, _ in predictions)
        size = sum(query_size for _, query_size in predictions)
        others = others or predictions
        other_hits = sum(query_hits for query_hits, _ in others)
        other_size = sum(query_size for _, query_size in others)

        pooled_f1 = 2.0 * (hits + other_hits) / max(1.0, size + other_size)
        scores = [0.0] * len(predictions)
        if size:
            scores = [(2.0 * query_hits - pooled_f1 * query_size) / size for query_hits, query_size in predictions]

        # One more test row has, at worst, as many labels as possible and no hit; at best, as many hits as labels.
        most_true, most_predicted = self._most
        new_true = sample.most_queries_per_row * most_true
        new_predicted = sample.most_queries_per_row * most_predicted
        return Contributions(
            value=2.0 * hits / size if size else 0.0,
            rows=sample.sums(scores),
            lowest_after_row=2.0 * hits / (size + new_true + new_predicted),
            highest_after_row=2.0 * (hits + new_true) / (size + 2.0 * new_true),
            range_width=1.0,
        )


# -- calibration error


@dataclass(slots=True)
class _ConfidenceBin:
    """The queries of one confidence bin, as sums for each test row."""

    hits: list[float]
    """Correct predictions."""
    queries: list[float]
    errors: list[float]
    """Correct minus confidence."""


class CalibrationError(Statistic):
    """The expected calibration error in bins of equal width (ECE-1)."""

    reads = "probabilities"
    method = "inverted test of the folded normal, unit: test row"
    of_classification = True

    def _bins(self, sample: Sample, predictions: Sequence[Any]) -> dict[int, _ConfidenceBin]:
        """Return the bins that have queries, by their numbers, in the order of their first queries."""
        bins: dict[int, _ConfidenceBin] = {}
        for row, label, distribution in zip(sample.rows, sample.truth, predictions, strict=True):
            confidence = max(distribution)
            hit = float(distribution.index(confidence) == label)
            number = classification.confidence_bin(confidence)
            if number not in bins:
                bins[number] = _ConfidenceBin(
                    hits=[0.0] * sample.n_rows, queries=[0.0] * sample.n_rows, errors=[0.0] * sample.n_rows
                )
            confidence_bin = bins[number]
            confidence_bin.hits[row] += hit
            confidence_bin.queries[row] += 1.0
            confidence_bin.errors[row] += hit - confidence
        return bins

    def part(self, sample: Sample, predictions: Sequence[Any], level: float) -> MetricTerm:
        """Return the value with its limits and the influence of each test row."""
        bins = self._bins(sample, predictions)
        columns = []
        for number in sorted(bins):
            columns.append((bins[number].hits, bins[number].queries, bins[number].errors))
        return intervals.calibration_part(columns, sample.sizes, level)

    def of_run(self, sample: Sample, predictions: Sequence[Any], others: Sequence[Any] = ()) -> Contributions:
        """Return the calibration error of one run.

        Chance raises it: the errors of the bins add up whatever their sign. The sign of a bin is uncertain if, with one
        more row, its error could be within two standard deviations of 0.
        """
        count = len(predictions)
        new_queries = sample.most_queries_per_row
        contributions = [0.0] * sample.n_rows
        sizes = []
        uncertain_terms = []
        bias = 0.0
        for confidence_bin in self._bins(sample, predictions).values():
            error_sum = math.fsum(confidence_bin.errors)
            if error_sum >= 0.0:
                terms = [error / count for error in confidence_bin.errors]
            else:
                terms = [-error / count for error in confidence_bin.errors]
            contributions = list(map(add, contributions, terms))

            size = abs(error_sum)
            sizes.append(size)
            squares = math.fsum(error * error for error in confidence_bin.errors)
            variance = max(0.0, squares - error_sum**2 / sample.n_rows)
            if size < 2.0 * math.sqrt(variance + new_queries * new_queries):
                uncertain_terms.append(terms)
            bias += _bias_of_size(size, math.sqrt(variance)) / count

        total = math.fsum(sizes)
        return Contributions(
            value=total / count,
            rows=contributions,
            # One more row moves one bin by up to its number of queries; no bin has an error below 0.
            lowest_after_row=(total - min(new_queries, max(sizes))) / (count + new_queries),
            highest_after_row=(total + new_queries) / (count + new_queries),
            range_width=1.0,
            upward_bias=bias,
            uncertain_terms=tuple(uncertain_terms),
        )


def _bias_of_size(size: float, deviation: float) -> float:
    """Return how far chance can raise the absolute value of a sum, on average.

    The bias is larger the nearer the true sum is to 0. The true size is assumed to be two standard deviations below the
    observed one.

    Args:
        size: The observed absolute value.
        deviation: Standard deviation of the sum.
    """
    true_size = max(0.0, size - 2.0 * deviation)
    mean_size, _ = intervals.folded_moments(true_size, deviation)
    return mean_size - true_size


# -- entropy and divergence


class MeanEntropy(Mean):
    """Minus the mean entropy."""

    reads = "probabilities"

    def range(self, labels: int) -> tuple[float, float]:
        """Return the lowest and the highest possible value."""
        return -math.log(labels), 0.0

    def scores(self, sample: Sample, predictions: Sequence[Any]) -> list[float]:
        """Return minus the entropy of the prediction of each query."""
        return [-entropy(row) for row in predictions]


class EntropyOfMean(Statistic):
    """The entropy of the mean prediction."""

    reads = "distributions"

    def range(self, labels: int) -> tuple[float, float]:
        """Return the lowest and the highest possible value."""
        return 0.0, math.log(labels)

    def value(self, sample: Sample, predictions: Sequence[Any]) -> float:
        """Return the entropy of the mean prediction."""
        return entropy_of_mean(predictions)

    def _interval(self, sample: Sample, predictions: Sequence[Any], level: float) -> Interval:
        """Return the confidence interval, from that of the divergence from uniform frequencies.

        The entropy is log(labels) minus this divergence.
        """
        divergence = intervals.divergence_interval(
            _row_sums_by_label(sample, predictions), frequencies=None, queries=sample.sizes, level=level
        )
        value = entropy_of_mean(predictions)
        highest = math.log(sample.n_labels)
        if not highest:  # there is one label only
            highest = 1.0
        return _from_the_top(value, divergence, low=0.0, high=highest)

    def of_run(self, sample: Sample, predictions: Sequence[Any], others: Sequence[Any] = ()) -> Contributions:
        """Return the entropy of the mean prediction of one run. Chance lowers it.

        With m the mean probability of each label, a query with the probabilities p contributes
        ``-sum(p * log(m))``, divided by the number of queries.
        """
        count = len(predictions)
        label_sums = _label_sums(predictions)
        surprises = [-math.log(total / count) if total > 0.0 else 0.0 for total in label_sums]
        scores = [math.fsum(map(mul, row, surprises)) for row in predictions]

        # One more row lowers the entropy most if it is certain of the likeliest label, and raises it most if it makes
        # the mean as even as possible.
        new_queries = sample.most_queries_per_row
        likeliest = label_sums.index(max(label_sums))
        certain_sums = list(label_sums)
        certain_sums[likeliest] += new_queries
        even_sums = _made_proportional(label_sums, [1.0] * len(label_sums), new_queries)
        new_count = count + new_queries
        return Contributions(
            value=entropy_of_mean(predictions),
            rows=[row_sum / count for row_sum in sample.sums(scores)],
            lowest_after_row=entropy([total / new_count for total in certain_sums]),
            highest_after_row=entropy([total / new_count for total in even_sums]),
            range_width=math.log(len(label_sums)),
            downward_bias=_bias_of_entropy(len(label_sums), sample.n_rows),
        )


class Divergence(Statistic):
    """The divergence of the mean prediction from the frequencies of the true labels."""

    reads = "distributions"
    weighs_labels = True

    def range(self, labels: int) -> tuple[float, float]:
        """Return the lowest and the highest possible value."""
        return 0.0, math.inf

    def value(self, sample: Sample, predictions: Sequence[Any]) -> float:
        """Return the divergence.

        Raises:
            UndefinedMetricError: It is infinite.
        """
        value = empirical_bias(predictions, sample.truth)
        if math.isinf(value):
            raise UndefinedMetricError("infinite: a label that no test row has gets a positive probability")
        return value

    def _interval(self, sample: Sample, predictions: Sequence[Any], level: float) -> Interval:
        """Return the confidence interval, also if labels have too few test rows."""
        frequencies = []
        for label in range(sample.n_labels):
            frequencies.append(sample.sums([float(label == true_label) for true_label in sample.truth]))
        return intervals.divergence_interval(
            _row_sums_by_label(sample, predictions), frequencies, queries=sample.sizes, level=level
        )

    def of_run(self, sample: Sample, predictions: Sequence[Any], others: Sequence[Any] = ()) -> Contributions:
        """Return the divergence of the mean prediction of one run from the frequencies of the true labels.

        Chance raises it. The value is infinite if a label that is never true has a positive mean probability. After one
        more row, it could be infinite if any label is never true.

        With m the mean probability and f the frequency of each label, a query with the probabilities p and the true
        label t contributes ``sum(p * log(m / f)) + 1 - m[t] / f[t]``, divided by the number of queries.
        """
        count = len(predictions)
        new_queries = sample.most_queries_per_row
        label_sums = _label_sums(predictions)
        mean = [total / count for total in label_sums]
        frequencies = label_frequencies(sample.truth, len(mean))
        if any(p > 0.0 and f == 0.0 for p, f in zip(mean, frequencies, strict=True)):
            return Contributions(
                math.inf,
                rows=[0.0] * sample.n_rows,
                lowest_after_row=0.0,
                highest_after_row=math.inf,
                range_width=math.inf,
            )

        logarithms = [math.log(p / f) if p > 0.0 else 0.0 for p, f in zip(mean, frequencies, strict=True)]
        scores = []
        for row, label in zip(predictions, sample.truth, strict=True):
            of_prediction = math.fsum(map(mul, row, logarithms))
            of_label = 1.0 - mean[label] / frequencies[label]
            scores.append(of_prediction + of_label)

        label_counts = [frequency * count for frequency in frequencies]
        possible_values = _divergences_after_one_row(
            label_sums, label_counts, new_queries=new_queries, new_count=count + new_queries
        )
        return Contributions(
            value=max(0.0, math.fsum(map(mul, mean, logarithms))),
            rows=[row_sum / count for row_sum in sample.sums(scores)],
            lowest_after_row=min(possible_values),
            highest_after_row=max(possible_values),
            range_width=math.inf,
            upward_bias=_bias_of_entropy(len(mean), sample.n_rows),
        )


def _divergences_after_one_row(
    label_sums: Sequence[float], label_counts: Sequence[float], new_queries: int, new_count: int
) -> list[float]:
    """Return the divergences after one more test row: with each true label, and each certain or the best prediction.

    Args:
        label_sums: For each label the sum of its probabilities.
        label_counts: For each label its number of queries.
        new_queries: Number of queries of the new row.
        new_count: Number of all queries with those of the new row.
    """
    divergences = []
    for true_label in range(len(label_sums)):
        new_counts = list(label_counts)
        new_counts[true_label] += new_queries
        outcomes = [_made_proportional(label_sums, new_counts, new_queries)]
        for predicted_label in range(len(label_sums)):
            certain_sums = list(label_sums)
            certain_sums[predicted_label] += new_queries
            outcomes.append(certain_sums)
        for new_sums in outcomes:
            divergences.append(_divergence_of_sums(new_sums, new_counts, new_count))
    return divergences


def _divergence_of_sums(label_sums: Sequence[float], label_counts: Sequence[float], count: int) -> float:
    """Return the divergence of the mean prediction of a number of queries from the frequencies of their labels."""
    terms = []
    for p, f in zip(label_sums, label_counts, strict=True):
        if p <= 0.0:
            continue
        if not f:
            return math.inf
        terms.append(p * math.log(p / f))
    return max(0.0, math.fsum(terms) / count)


def _bias_of_entropy(n_labels: int, n_rows: int) -> float:
    """Return how far chance can lower the entropy of a mean prediction, or raise a divergence from it, on average.

    The expected divergence of the mean of independent distributions from the true mean is at most log(1 + chi2), and
    chi2 at most (labels - 1) / rows, which certain predictions reach (Paninski 2003, "Estimation of entropy and mutual
    information", Neural Computation 15). It is not estimated: a sample does not show the labels that it lacks.
    """
    return math.log1p((n_labels - 1) / n_rows)


def _made_proportional(sums: Sequence[float], weights: Sequence[float], amount: float) -> list[float]:
    """Return sums to which an amount is added so that they become as proportional to weights as possible.

    The smallest sums, in proportion to their weights, are raised to a common level: ``max(sum, level * weight)``.

    Args:
        sums: The sums.
        weights: The weight of each sum; sums with the weight 0 get nothing.
        amount: What is added in all.
    """
    ratios = []
    for value, weight in zip(sums, weights, strict=True):
        if weight:
            ratios.append((value / weight, weight))
    level = 0.0
    raised_total = amount
    raised_weight = 0.0
    for ratio, weight in sorted(ratios):
        if raised_weight and level <= ratio:  # this sum, and all that follow, are above the level
            break
        raised_total += ratio * weight
        raised_weight += weight
        level = raised_total / raised_weight
    return [max(value, level * weight) for value, weight in zip(sums, weights, strict=True)]


def _label_sums(distributions: Sequence[Sequence[float]]) -> list[float]:
    """Return for each label the sum of its probabilities."""
    columns = zip(*distributions, strict=True)
    return list(map(math.fsum, columns))


def _row_sums_by_label(sample: Sample, distributions: Sequence[Sequence[float]]) -> list[list[float]]:
    """Return for each label the sum of its probabilities over the queries of each test row."""
    columns = zip(*distributions, strict=True)
    return list(map(sample.sums, columns))

"""Statistics: what a score is as a function of a sample of rows.

A :class:`Statistic` has the range of a score, its confidence interval, and what each test row contributes to a paired
test.
"""

from __future__ import annotations

import math
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import chain
from operator import add, mul
from typing import Any, ClassVar, Literal

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
    low: float
    """The lowest value that the metric could have after one more test row."""
    high: float
    """The highest value that it could have after one more test row."""
    span: float
    """The highest minus the lowest value of the metric; infinite if it has no bound."""
    raised: float = 0.0
    """How far chance can have raised the value in a sample of this size (its bias)."""
    lowered: float = 0.0
    """How far chance can have lowered it."""
    kinks: tuple[Sequence[float], ...] = ()
    """Terms of the contributions whose sign is uncertain: sizes of sums that can be positive or negative in truth."""


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
        """Return the sample of some of the queries, by their places; test rows keep their numbers."""
        truth = [self.truth[place] for place in places]
        return Sample(truth, [self.rows[place] for place in places], self.n_rows, self.n_labels)

    @property
    def sizes(self) -> list[float]:
        """The number of queries of each test row."""
        return self.sums([1.0] * len(self.rows))

    @property
    def most(self) -> int:
        """The largest number of queries of a test row."""
        return max(Counter(self.rows).values())

    @property
    def few_rows(self) -> str | None:
        """Why labels have too few test rows for a score that weighs all labels; ``None`` if they have enough."""
        rows_of = Counter(dict(zip(self.rows, self.truth, strict=True)).values())
        counts = [rows_of[label] for label in range(self.n_labels)]
        few, without = sum(count < intervals.LEAST_ROWS for count in counts), counts.count(0)
        text = f"{few} of {len(counts)} labels have fewer than {intervals.LEAST_ROWS} test rows"
        if without:
            return f"{text}, {without} of them none"
        return text if few else None


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
        raise NotImplementedError

    def part(self, sample: Sample, predictions: Sequence[Any], level: float) -> MetricTerm:
        """Return the value with its limits and the influence of each test row."""
        raise NotImplementedError

    def _interval(self, sample: Sample, predictions: Sequence[Any], level: float) -> Interval:
        return self.part(sample, predictions, level).interval(level, self.method)

    def interval(self, sample: Sample, predictions: Sequence[Any], level: float) -> Interval | NoInterval:
        """Return the confidence interval; it is withheld if labels have too few test rows."""
        return self.withheld(sample, lambda: self._interval(sample, predictions, level))

    def withheld(self, sample: Sample, interval: Callable[[], Interval]) -> Interval | NoInterval:
        """Return an interval, or why it is withheld: the samples of some labels are too small."""
        reason = sample.few_rows if self.weighs_labels else None
        if reason is None:
            return interval()
        return NoInterval(reason, interval() if len(set(sample.truth)) == sample.n_labels else None)

    def of_run(self, sample: Sample, predictions: Sequence[Any], others: Sequence[Any] = ()) -> Contributions:
        """Return the value of one run, and what each test row contributes to it.

        Args:
            sample: The queries.
            predictions: Those of the run.
            others: Those of the run that it is compared with; only read if :attr:`independent` is false.
        """
        raise NotImplementedError


class Mean(Statistic):
    """The mean of a score of each query; here the predictions are these scores.

    Args:
        low: The lowest possible score.
        high: The highest possible score.
    """

    def __init__(self, low: float = 0.0, high: float = 1.0) -> None:
        self._ends = low, high

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
        scores, (low, high) = self.scores(sample, predictions), self.range(sample.n_labels)
        width = high - low or 1.0
        distances = [distance / width for distance in sample.sums([high - score for score in scores])]
        part = intervals.ratio_part(distances, sample.sizes, level, continuous=True)
        return _from_the_top(math.fsum(scores) / len(scores), part.interval(level, self.method), low, high, width)

    def of_run(self, sample: Sample, predictions: Sequence[Any], others: Sequence[Any] = ()) -> Contributions:
        """Return the mean, and what each test row contributes to it."""
        scores, ends = self.scores(sample, predictions), self.possible(sample, predictions)
        return mean_contributions(sample, scores, ends)

    def with_missing(self, sample: Sample, predictions: Sequence[Any], missing_at: RangeEnd) -> Contributions:
        """Return the mean, and what each test row contributes to it, with missing queries at an end of the range.

        Args:
            sample: All queries.
            predictions: One for each query, which may be missing (:func:`lacks_score`), also all of them.
            missing_at: Whether each missing query has the lowest or the highest possible score.
        """
        known = [place for place, prediction in enumerate(predictions) if not lacks_score(prediction)]
        known_sample = sample.of_queries(known)
        known_predictions = [predictions[place] for place in known]
        ends = self.possible(sample, predictions)
        scores = [ends[0] if missing_at == "lowest" else ends[1]] * len(predictions)
        for place, score in zip(known, self.scores(known_sample, known_predictions), strict=True):
            scores[place] = score
        return mean_contributions(sample, scores, ends)

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
    total, count, more = math.fsum(scores), len(scores), sample.most
    low, high = ((total + more * end) / (count + more) for end in ends)
    rows = [of_row / count for of_row in sample.sums(scores)]
    return Contributions(total / count, rows, low, high, ends[1] - ends[0])


def _from_the_top(value: float, distance: Interval, low: float, high: float, width: float = 1.0) -> Interval:
    """Return the interval of a value from that of its distance to the top of its range, in units of the width."""
    centre = None if distance.centre is None else high - distance.centre
    value = min(high, max(low, value))  # after rounding
    ends = max(low, min(high - distance.high * width, value)), min(high, max(high - distance.low * width, value))
    return Interval(ends[0] + 0.0, ends[1] + 0.0, distance.level, distance.method, centre=centre)  # no negative zero


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
        if not callable(score) or not -math.inf < low < high < math.inf:
            raise ArgumentError(f"MeanOf: got {score!r:.60}, {low!r} and {high!r}, expected a function and a range")
        self.__module__ = getattr(score, "__module__", __name__)  # so that signatures name the plug-in of the score
        self.score, self.low, self.high = score, low, high

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
        self._metric, self.reads = metric, reads

    def scores(self, sample: Sample, predictions: Sequence[Any]) -> list[float]:
        """Return one score for each query."""
        return self._metric.scores(sample.truth, predictions)

    def interval(self, sample: Sample, predictions: Sequence[Any], level: float) -> Interval | NoInterval:
        """Return the confidence interval."""
        try:
            scores = self.scores(sample, predictions)
        except UndefinedMetricError as error:  # the other metrics keep their intervals
            return NoInterval(str(error), None)
        return Mean(*self._ends).interval(sample, scores, level)


class _Share(Mean):
    """A mean of scores that are counts: its interval knows rare events."""

    def part(self, sample: Sample, predictions: Sequence[Any], level: float) -> MetricTerm:
        return intervals.ratio_part(sample.sums(self.scores(sample, predictions)), sample.sizes, level)

    _interval = Statistic._interval


class Accuracy(_Share):
    """The share of correct predictions."""

    of_classification = True

    def scores(self, sample: Sample, predictions: Sequence[Any]) -> list[float]:
        """Return one score for each query."""
        return [float(guess == label) for guess, label in zip(predictions, sample.truth, strict=True)]


class Consistency(_Share):
    """The predictions of a query are its labels in all conditions."""

    def scores(self, sample: Sample, predictions: Sequence[Any]) -> list[float]:
        """Return one score for each query."""
        return [max(map(labels.count, labels)) / len(labels) for labels in predictions]

    def _interval(self, sample: Sample, predictions: Sequence[Any], level: float) -> Interval:
        part = self.part(sample, predictions, level)
        return part.interval(level, self.method, 1.0 / len(predictions[0]))

    def possible(self, sample: Sample, predictions: Sequence[Any]) -> tuple[float, float]:
        """Return the lowest and the highest value that this sample could have."""
        conditions = len(predictions[0])
        return math.ceil(conditions / (sample.n_labels or conditions)) / conditions, 1.0


class Likelihood(_Share):
    """The mean probability of the true label."""

    reads = "probabilities"
    method = "variance recovery, correct and wrong predictions, unit: test row"
    of_classification = True

    def scores(self, sample: Sample, predictions: Sequence[Any]) -> list[float]:
        """Return one score for each query."""
        return [row[label] for row, label in zip(predictions, sample.truth, strict=True)]

    def part(self, sample: Sample, predictions: Sequence[Any], level: float) -> MetricTerm:
        """Return the term of the confidence interval."""
        scores = self.scores(sample, predictions)
        hits = [float(row.index(max(row)) == true) for row, true in zip(predictions, sample.truth, strict=True)]
        of_hits = sample.sums(map(mul, scores, hits))
        return intervals.likelihood_part(sample.sums(scores), sample.sums(hits), of_hits, sample.sizes, level)


class MacroF1(Statistic):
    """The mean over the labels of their F1."""

    method = "variance recovery over labels, unit: test row"
    of_classification = True
    weighs_labels = True
    independent = False

    def part(self, sample: Sample, predictions: Sequence[Any], level: float) -> MetricTerm:
        """Return the term of the confidence interval."""
        hits, sizes = ([[0.0] * sample.n_rows for _ in range(sample.n_labels)] for _ in range(2))
        for row, true, guess in zip(sample.rows, sample.truth, predictions, strict=True):
            sizes[true][row] += 1.0
            sizes[guess][row] += 1.0
            hits[true][row] += 2.0 * (true == guess)
        return intervals.macro_part(hits, sizes, level)

    def of_run(self, sample: Sample, predictions: Sequence[Any], others: Sequence[Any] = ()) -> Contributions:
        """Return the macro F1 of one run.

        F1 of a label is compared at the pooled F1 of both runs, not at each run's own: with few rows of a label, a run
        that never predicts it would otherwise seem to have no sampling error. As each row moves the F1 of a rare label,
        the rows' terms are those of a sample without the row (leverage), and the bias is that of the jackknife.
        """
        truth, true, more = sample.truth, Counter(sample.truth), sample.most
        others = others or predictions
        labels = range(sample.n_labels or 1 + max(*truth, *predictions, *others))

        def counted(run: Sequence[int]) -> list[tuple[int, int]]:
            """Return for each label its hits, and the number of queries with it as true plus as predicted label."""
            guesses = Counter(run)
            hits = Counter(label for label, guess in zip(truth, run, strict=True) if label == guess)
            return [(hits[label], true[label] + guesses[label]) for label in labels]

        counts = counted(predictions)
        pooled = [2.0 * (a + b) / max(1, m + n) for (a, m), (b, n) in zip(counts, counted(others), strict=True)]
        rest = [size - 2 * more if size > 2 * more else size for _, size in counts]
        miss = [f1 / size / len(labels) if size else 0.0 for f1, size in zip(pooled, rest, strict=True)]
        hit = [2.0 / size / len(labels) if size else 0.0 for size in rest]
        scores = [
            (hit[label] if label == guess else 0.0) - miss[label] - miss[guess]
            for label, guess in zip(truth, predictions, strict=True)
        ]
        f1s = [2.0 * hits / size if size else 0.0 for hits, size in counts]
        value = math.fsum(f1s) / len(labels)
        losses = sorted(f1 - 2.0 * hits / (size + more) for f1, (hits, size) in zip(f1s, counts, strict=True))
        gains = [2.0 * (hits + more) / (size + 2 * more) - f1 for f1, (hits, size) in zip(f1s, counts, strict=True)]
        low, high = value - sum(losses[-2:]) / len(labels), value + max(gains) / len(labels)
        bias = _jackknife_bias(zip(sample.rows, truth, predictions, strict=True), counts, sample.n_rows) / len(labels)
        return Contributions(value, sample.sums(scores), low, high, 1.0, max(0.0, bias), max(0.0, -bias))


def _jackknife_bias(guesses: Iterable[tuple[int, int, int]], counts: Sequence[tuple[int, int]], n_rows: int) -> float:
    """Return the bias of the sum of F1 over labels, by leaving out each test row; guesses: (row, truth, guess)."""
    of_rows: dict[int, list[tuple[int, int]]] = {}
    for row, label, guess in guesses:
        of_rows.setdefault(row, []).append((label, guess))
    total = 0.0
    for pairs, count in Counter(tuple(sorted(pairs)) for pairs in of_rows.values()).items():
        hits = Counter(label for label, guess in pairs if label == guess)
        for label, less in Counter(chain.from_iterable(pairs)).items():
            correct, size = counts[label]
            without = 2.0 * (correct - hits[label]) / (size - less) if size > less else 0.0
            total += count * (without - 2.0 * correct / size)
    return (n_rows - 1) / n_rows * total


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
        (correct, size), (hits, sizes) = (
            map(sum, zip(*run, strict=True)) for run in (predictions, others or predictions)
        )
        pooled = 2.0 * (correct + hits) / max(1.0, size + sizes)
        gold, predicted = (sample.most * number for number in self._most)
        scores = [(2.0 * hit - pooled * labels) / size if size else 0.0 for hit, labels in predictions]
        low, high = 2.0 * correct / (size + gold + predicted), 2.0 * (correct + gold) / (size + 2.0 * gold)
        return Contributions(2.0 * correct / size if size else 0.0, sample.sums(scores), low, high, 1.0)


class CalibrationError(Statistic):
    """The expected calibration error in bins of equal width (ECE-1)."""

    reads = "probabilities"
    method = "inverted test of the folded normal, unit: test row"
    of_classification = True

    def _bins(self, sample: Sample, predictions: Sequence[Any]) -> dict[int, list[list[float]]]:
        """Return the bins that have queries: hits, queries, and hits minus confidence of each row."""
        bins: dict[int, list[list[float]]] = defaultdict(lambda: [[0.0] * sample.n_rows for _ in range(3)])
        for row, true, distribution in zip(sample.rows, sample.truth, predictions, strict=True):
            confidence = max(distribution)
            hit = float(distribution.index(confidence) == true)
            columns = bins[classification.confidence_bin(confidence)]
            for column, value in zip(columns, (hit, 1.0, hit - confidence), strict=True):
                column[row] += value
        return bins

    def part(self, sample: Sample, predictions: Sequence[Any], level: float) -> MetricTerm:
        """Return the term of the confidence interval."""
        bins = self._bins(sample, predictions)
        return intervals.calibration_part([bins[number] for number in sorted(bins)], sample.sizes, level)

    def of_run(self, sample: Sample, predictions: Sequence[Any], others: Sequence[Any] = ()) -> Contributions:
        """Return the calibration error of one run.

        Chance raises it: the errors of the bins add up whatever their sign. The bias is at most that of bins whose true
        error is two standard deviations below the observed one. The sign of a bin that is no further from 0 is
        uncertain.
        """
        count, more = len(predictions), sample.most
        contributions, sizes, kinks, bias = [0.0] * sample.n_rows, [], [], 0.0
        for *_, errors in self._bins(sample, predictions).values():
            excess = math.fsum(errors)
            terms = [(error if excess >= 0.0 else -error) / count for error in errors]
            contributions = list(map(add, contributions, terms))
            variance = max(0.0, math.fsum(error * error for error in errors) - excess**2 / sample.n_rows)
            deviation = math.sqrt(variance)
            if abs(excess) < 2.0 * math.sqrt(variance + more * more):  # with one more row
                kinks.append(terms)
            sizes.append(abs(excess))
            centre = max(0.0, abs(excess) - 2.0 * deviation)
            bias += (intervals.folded_moments(centre, deviation)[0] - centre) / count
        total = math.fsum(sizes)
        low, high = (total - min(more, max(sizes))) / (count + more), (total + more) / (count + more)
        return Contributions(total / count, contributions, low, high, 1.0, raised=bias, kinks=tuple(kinks))


class MeanEntropy(Mean):
    """Minus the mean entropy."""

    reads = "probabilities"

    def range(self, labels: int) -> tuple[float, float]:
        """Return the lowest and the highest possible value."""
        return -math.log(labels), 0.0

    def scores(self, sample: Sample, predictions: Sequence[Any]) -> list[float]:
        """Return one score for each query."""
        return [-entropy(row) for row in predictions]


class EntropyOfMean(Statistic):
    """The entropy of the mean prediction."""

    reads = "distributions"

    def range(self, labels: int) -> tuple[float, float]:
        """Return the lowest and the highest possible value."""
        return 0.0, math.log(labels)

    def value(self, sample: Sample, predictions: Sequence[Any]) -> float:
        """Return the value."""
        return entropy_of_mean(predictions)

    def _interval(self, sample: Sample, predictions: Sequence[Any], level: float) -> Interval:
        interval = intervals.divergence_interval(_sums_of_labels(sample, predictions), None, sample.sizes, level)
        return _from_the_top(entropy_of_mean(predictions), interval, 0.0, math.log(sample.n_labels) or 1.0)

    def of_run(self, sample: Sample, predictions: Sequence[Any], others: Sequence[Any] = ()) -> Contributions:
        """Return the entropy of the mean prediction of one run. Chance lowers it."""
        count, more = len(predictions), sample.most
        sums = list(map(math.fsum, zip(*predictions, strict=True)))
        surprise = [-math.log(total / count) if total > 0.0 else 0.0 for total in sums]
        scores = [math.fsum(map(mul, row, surprise)) for row in predictions]
        most = sums.index(max(sums))
        certain = [total + more * (label == most) for label, total in enumerate(sums)]
        even = _filled(sums, [1.0] * len(sums), more)
        low, high = (entropy([total / (count + more) for total in new]) for new in (certain, even))
        rows = [of_row / count for of_row in sample.sums(scores)]
        bias = _bias_of_entropy(len(sums), sample.n_rows)
        return Contributions(entropy_of_mean(predictions), rows, low, high, math.log(len(sums)), lowered=bias)


class Divergence(Statistic):
    """The divergence of the mean prediction from the frequencies of the true labels."""

    reads = "distributions"
    weighs_labels = True

    def range(self, labels: int) -> tuple[float, float]:
        """Return the lowest and the highest possible value."""
        return 0.0, math.inf

    def value(self, sample: Sample, predictions: Sequence[Any]) -> float:
        """Return the value."""
        value = empirical_bias(predictions, sample.truth)
        if math.isinf(value):
            raise UndefinedMetricError("infinite: a label that no test row has gets a positive probability")
        return value

    def _interval(self, sample: Sample, predictions: Sequence[Any], level: float) -> Interval:
        counts = [sample.sums([float(label == true) for true in sample.truth]) for label in range(sample.n_labels)]
        return intervals.divergence_interval(_sums_of_labels(sample, predictions), counts, sample.sizes, level)

    def of_run(self, sample: Sample, predictions: Sequence[Any], others: Sequence[Any] = ()) -> Contributions:
        """Return the divergence of the mean prediction of one run from the frequencies of the true labels.

        Chance raises it. The value is infinite if a label that is never true has a positive mean probability, and the
        highest value if there is a label that is never true.
        """
        count, more = len(predictions), sample.most
        sums = list(map(math.fsum, zip(*predictions, strict=True)))
        mean, labels = [total / count for total in sums], range(len(sums))
        shares = label_frequencies(sample.truth, len(mean))
        if any(p > 0.0 and q == 0.0 for p, q in zip(mean, shares, strict=True)):
            return Contributions(math.inf, [0.0] * sample.n_rows, 0.0, math.inf, math.inf)
        logarithms = [math.log(p / q) if p > 0.0 else 0.0 for p, q in zip(mean, shares, strict=True)]
        scores = [
            math.fsum(map(mul, row, logarithms)) + (1.0 - mean[label] / shares[label])
            for row, label in zip(predictions, sample.truth, strict=True)
        ]

        def after(true: int) -> Iterator[float]:
            """Yield the divergences after one more row: with each certain prediction, and with the best one."""
            frequencies = [share * count + more * (label == true) for label, share in enumerate(shares)]
            rows = [[total + more * (label == predicted) for label, total in enumerate(sums)] for predicted in labels]
            for new in (*rows, _filled(sums, frequencies, more)):
                pairs = [(p, q) for p, q in zip(new, frequencies, strict=True) if p > 0.0]
                terms = (p * math.log(p / q) if q else math.inf for p, q in pairs)
                yield max(0.0, math.fsum(terms) / (count + more))

        ends = [value for true in labels for value in after(true)]
        value = max(0.0, math.fsum(map(mul, mean, logarithms)))
        rows = [of_row / count for of_row in sample.sums(scores)]
        bias = _bias_of_entropy(len(mean), sample.n_rows)
        return Contributions(value, rows, min(ends), max(ends), math.inf, raised=bias)


def _bias_of_entropy(n_labels: int, n_rows: int) -> float:
    """Return how far chance can lower the entropy of a mean prediction, or raise a divergence from it, on average.

    The expected divergence of the mean of independent distributions from the true mean is at most log(1 + chi2), and
    chi2 at most (labels - 1) / rows, which certain predictions reach (Paninski 2003, "Estimation of entropy and mutual
    information", Neural Computation 15). It is not estimated: a sample does not show the labels that it lacks.
    """
    return math.log1p((n_labels - 1) / n_rows)


def _filled(sums: Sequence[float], shares: Sequence[float], more: float) -> list[float]:
    """Return sums to which an amount is added so that they become as proportional to shares as possible."""
    level, total, weight = 0.0, more, 0.0
    for ratio, share in sorted((a / share, share) for a, share in zip(sums, shares, strict=True) if share):
        if weight and total / weight <= ratio:
            break
        total, weight = total + ratio * share, weight + share
        level = total / weight
    return [max(a, level * share) for a, share in zip(sums, shares, strict=True)]


def _sums_of_labels(sample: Sample, distributions: Sequence[Sequence[float]]) -> list[list[float]]:
    """Return for each label the sum of its probabilities over the queries of each test row."""
    return list(map(sample.sums, zip(*distributions, strict=True)))

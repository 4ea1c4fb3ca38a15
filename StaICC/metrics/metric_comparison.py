"""Paired comparison of two runs by any metric: what each test row contributes to the difference.

Every metric of this library is, at the runs' own predictions, a sum over test rows: the difference of two runs is then
the sum of one *step* per row (all queries of a row together). For means (accuracy, likelihood, consistency) the step is
the difference of the row's scores. For F1 it is the row's term of ``2 correct - F (true + predicted)``, for calibration
error and entropies the row's term at the run's own bins and mean prediction (the influence function; Hampel 1974).

- :func:`sign_flip_p_value` tests the sum: exchanging the runs on a row flips its step. It does not assume that equal
  scores come from equal predictions: steps are weighed by each run's own predictions, so that two runs with the same F1
  but other precision, or with biases towards different labels, are tested as what they are.
- :func:`bounded_p_value` tests means of scores with a known range, such as likelihood. The steps of confident models
  are small, except for rare errors, and a sample without such a row does not show them. So there is a pseudo-row with
  the largest possible step against the difference.
- :func:`difference_interval` gives the interval of the sum, or of the mean over data sets.

``tests/performance/comparison.py`` measures type I error, power and coverage; ``docs/comparing.md`` has the table.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import accumulate, chain, repeat
from statistics import NormalDist

from StaICC.metrics.bias import label_frequencies
from StaICC.metrics.classification import confidence_bin
from StaICC.metrics.intervals import Interval
from StaICC.metrics.null_models import sign_flip_sums, upper_tail
from StaICC.metrics.score_intervals import folded_moments

INTERVAL_METHOD = "paired test rows, two pseudo-rows (Bonett and Price 2012)"
BOUNDED_METHOD = "paired test rows, one pseudo-row with the largest possible step (Gaffke 2005)"
_NORMAL = NormalDist()
_EXACT_PLACES = 4_000
"""Sums of the exact distribution of a sign-flip test; with more of them, the saddlepoint approximation is used."""
_FAR = 1e-9
"""Below this probability, a sum of two terms has too few digits."""
_GRID = 10**9
"""Steps that differ by less than this part of the largest one are equal."""


@dataclass(frozen=True, slots=True)
class Part:
    """A metric of one run, and what each test row contributes to it."""

    value: float
    rows: Sequence[float]
    """One contribution for each test row."""
    bias: float = 0.0
    """How far chance can raise (or, if negative, lower) the value in a sample of this size."""
    bound: float | None = None
    """Range of a row's contribution, for scores with a known range that take many values."""
    leverage: bool = False
    """Whether the contributions are enlarged by the row's leverage, so that they do not add up to the difference."""


@dataclass(frozen=True)
class RowSteps:
    """The difference of two runs as a sum over test rows."""

    first: float
    second: float
    steps: Sequence[float]
    """What each test row contributes to first minus second; the sum is the difference (for macro F1 only nearly)."""
    bias: tuple[float, float] = (0.0, 0.0)
    """How far chance can raise the value of each run."""
    strata: tuple[int, ...] = ()
    """Number of test rows of each data set, in order; by default, one data set."""
    alike: frozenset[int] = frozenset()
    """Places of rows on which the runs have the same predictions. Their steps are small, but not always 0: the runs'
    other rows decide what a prediction counts."""
    bound: float | None = None
    """Largest possible step of a row, for means of scores with a known range that take many values."""

    def __post_init__(self) -> None:
        if not self.strata:
            object.__setattr__(self, "strata", (len(self.steps),))

    @property
    def difference(self) -> float:
        """First minus second."""
        return self.first - self.second

    @cached_property
    def variance(self) -> float:
        """Variance of the difference: test rows are drawn within each data set."""
        total, start = 0.0, 0
        for size in self.strata:
            part = self.steps[start : start + size]
            mean = math.fsum(part) / size
            total += math.fsum((step - mean) ** 2 for step in part)
            start += size
        return total

    @property
    def tested(self) -> float:
        """The difference without what unequal bias of the two values can explain."""
        bias = self.bias[0] - self.bias[1]
        if bias * self.difference <= 0.0:
            return self.difference
        return math.copysign(max(0.0, abs(self.difference) - abs(bias)), self.difference)


def combine(
    first: Sequence[tuple[float, Part]], second: Sequence[tuple[float, Part]], alike: frozenset[int] = frozenset()
) -> RowSteps:
    """Return the difference of two weighted sums of metrics, such as a slope or a mean over rounds.

    Args:
        first: Weights and parts of the first run, over the same test rows.
        second: Those of the second run.
        alike: Places of the rows on which the runs have the same predictions.

    Example:
        >>> combine([(1.0, Part(0.5, [0.5, 0.0]))], [(1.0, Part(0.5, [0.0, 0.5]))]).steps
        [0.5, -0.5]
    """
    values = [math.fsum(weight * part.value for weight, part in run) for run in (first, second)]
    terms = [[weight * x for x in part.rows] for weight, part in first]
    terms += [[-weight * x for x in part.rows] for weight, part in second]
    steps = [math.fsum(column) for column in zip(*terms, strict=True)]
    rest = (values[0] - values[1] - math.fsum(steps)) / len(steps)
    enlarged = any(part.leverage for _, part in first)
    if not enlarged and abs(rest) * len(steps) > 1e-12:  # weights of the runs differ; equal steps stay equal otherwise
        steps = [step + rest for step in steps]
    bias = [math.fsum(weight * part.bias for weight, part in run) for run in (first, second)]
    bounds = [None if part.bound is None else abs(weight) * part.bound for weight, part in (*first, *second)]
    bound = None if None in bounds else math.fsum(filter(None, bounds)) / 2.0
    return RowSteps(values[0], values[1], steps, (bias[0], bias[1]), alike=alike, bound=bound)


def mean_steps(differences: Sequence[RowSteps]) -> RowSteps:
    """Return the difference of the means over data sets.

    Args:
        differences: The difference on each data set; their rows stay apart.
    """
    count = len(differences)
    first, second = (
        math.fsum(values) / count for values in zip(*((d.first, d.second) for d in differences), strict=True)
    )
    bias = [math.fsum(d.bias[run] for d in differences) / count for run in (0, 1)]
    steps = [step / count for one in differences for step in one.steps]
    strata = tuple(size for one in differences for size in one.strata)
    starts = accumulate((len(one.steps) for one in differences), initial=0)
    alike = frozenset(start + place for start, one in zip(starts, differences, strict=False) for place in one.alike)
    bounds = [d.bound for d in differences]
    bound = None if None in bounds else max(filter(None, bounds), default=0.0) / count
    return RowSteps(first, second, steps, (bias[0], bias[1]), strata, alike, bound)


# -- metrics


def _sums(values: Sequence[float], rows: Sequence[int], n_rows: int, divisor: float) -> list[float]:
    totals = [0.0] * n_rows
    for value, row in zip(values, rows, strict=True):
        totals[row] += value
    return [total / divisor for total in totals]


def mean_part(scores: Sequence[float], rows: Sequence[int], n_rows: int, score_range: float | None = None) -> Part:
    """Return the mean score of the queries, such as accuracy or likelihood.

    Args:
        scores: Score of each query.
        rows: Test row of each query, from 0 to `n_rows` - 1.
        n_rows: Number of test rows.
        score_range: Largest minus smallest possible score, for scores that take many values; ``None`` for counts.
    """
    bound = None if score_range is None else score_range * max(Counter(rows).values()) / len(scores)
    return Part(math.fsum(scores) / len(scores), _sums(scores, rows, n_rows, len(scores)), bound=bound)


def f1_parts(first: Sequence[tuple[float, float]], second: Sequence[tuple[float, float]]) -> tuple[Part, Part]:
    """Return two F1 scores: twice the correct labels over the sum of true and predicted labels.

    Args:
        first: For each test row of the first run the number of correct labels, and of true and predicted ones together.
        second: Those of the second run.
    """
    totals = [(sum(correct for correct, _ in run), sum(size for _, size in run)) for run in (first, second)]
    pooled = 2.0 * sum(correct for correct, _ in totals) / max(1.0, sum(size for _, size in totals))
    parts = []
    for run, (correct, size) in zip((first, second), totals, strict=True):
        rows = [(2.0 * hits - pooled * each) / size if size else 0.0 for hits, each in run]
        parts.append(Part(2.0 * correct / size if size else 0.0, rows))
    return parts[0], parts[1]


def macro_f1_parts(
    truth: Sequence[int], first: Sequence[int], second: Sequence[int], rows: Sequence[int], n_rows: int, n_labels: int
) -> tuple[Part, Part]:
    """Return the macro F1 of two runs.

    F1 of a label is compared at the pooled F1 of both runs, not at each run's own: with few rows of a label, a run that
    never predicts it would otherwise seem to have no sampling error. As each row moves the F1 of a rare label, the
    rows' terms are those of a sample without the row (leverage), and the bias is that of the jackknife.

    Args:
        truth: True label index of each query.
        first: Label indexes that the first run predicted.
        second: Those of the second run.
        rows: Test row of each query, from 0 to `n_rows` - 1.
        n_rows: Number of test rows.
        n_labels: Size of the label space.
    """
    true = Counter(truth)
    correct: list[list[int]] = []
    sizes: list[list[int]] = []
    for run in (first, second):
        hits = Counter(label for label, guess in zip(truth, run, strict=True) if label == guess)
        guesses = Counter(run)
        correct.append([hits[label] for label in range(n_labels)])
        sizes.append([true[label] + guesses[label] for label in range(n_labels)])
    each = 2 * max(Counter(rows).values())
    pooled = [2.0 * (a + b) / max(1, m + n) for a, b, m, n in zip(*correct, *sizes, strict=True)]
    parts = []
    for run, hits_of, size_of in zip((first, second), correct, sizes, strict=True):
        rest = [size - each if size > each else size for size in size_of]
        miss = [pooled[label] / rest[label] / n_labels if rest[label] else 0.0 for label in range(n_labels)]
        hit = [2.0 / rest[label] / n_labels if rest[label] else 0.0 for label in range(n_labels)]
        scores = [
            (hit[label] if label == guess else 0.0) - miss[label] - miss[guess]
            for label, guess in zip(truth, run, strict=True)
        ]
        value = math.fsum(2 * c / size for c, size in zip(hits_of, size_of, strict=True) if c) / n_labels
        bias = _jackknife_bias(zip(rows, truth, run, strict=True), hits_of, size_of, n_rows) / n_labels
        parts.append(Part(value, _sums(scores, rows, n_rows, 1.0), bias, leverage=True))
    return parts[0], parts[1]


def _jackknife_bias(
    guesses: Iterable[tuple[int, int, int]], correct: Sequence[int], sizes: Sequence[int], n_rows: int
) -> float:
    """Return the bias of the sum of F1 over labels, by leaving out each test row; guesses: (row, truth, guess)."""
    of_rows: dict[int, list[tuple[int, int]]] = {}
    for row, label, guess in guesses:
        of_rows.setdefault(row, []).append((label, guess))
    total = 0.0
    for pairs, count in Counter(tuple(sorted(pairs)) for pairs in of_rows.values()).items():
        hits = Counter(label for label, guess in pairs if label == guess)
        for label, less in Counter(chain.from_iterable(pairs)).items():
            size = sizes[label] - less
            without = 2.0 * (correct[label] - hits[label]) / size if size else 0.0
            total += count * (without - 2.0 * correct[label] / sizes[label])
    return (n_rows - 1) / n_rows * total


def calibration_part(
    truth: Sequence[int], probabilities: Sequence[Sequence[float]], rows: Sequence[int], n_rows: int
) -> Part:
    """Return the expected calibration error (ECE-1, ten bins).

    Chance raises it: the errors of the bins add up whatever their sign. The bias is at most that of bins whose true
    error is one standard deviation below the observed one.

    Args:
        truth: True label index of each query.
        probabilities: One distribution per query.
        rows: Test row of each query, from 0 to `n_rows` - 1.
        n_rows: Number of test rows.
    """
    bins: dict[int, dict[int, float]] = {}
    for true, row, place in zip(truth, probabilities, rows, strict=True):
        confidence = max(row)
        one = bins.setdefault(confidence_bin(confidence), {})
        one[place] = one.get(place, 0.0) + (row.index(confidence) == true) - confidence
    total, value, bias = [0.0] * n_rows, 0.0, 0.0
    for one in bins.values():
        excess = math.fsum(one.values())
        for place, error in one.items():
            total[place] += (error if excess >= 0.0 else -error) / len(truth)
        deviation = math.sqrt(max(0.0, math.fsum(error * error for error in one.values()) - excess**2 / n_rows))
        value += abs(excess) / len(truth)
        centre = max(0.0, abs(excess) - deviation)
        bias += (folded_moments(centre, deviation)[0] - centre) / len(truth)
    return Part(value, total, bias)


def _curvature(
    probabilities: Sequence[Sequence[float]], rows: Sequence[int], n_rows: int, mean: Sequence[float]
) -> float:
    """Return the size of the second-order term of an entropy of a mean prediction."""
    total = 0.0
    for label, centre in enumerate(mean):
        if centre > 0.0:
            sums = _sums([row[label] - centre for row in probabilities], rows, n_rows, len(rows))
            total += math.fsum(value * value for value in sums) / centre
    return total


def _entropy_part(
    probabilities: Sequence[Sequence[float]], rows: Sequence[int], n_rows: int, truth: Sequence[int] | None
) -> Part:
    """Return the divergence from the label frequencies; without true labels, from 1: the negated entropy."""
    mean = [math.fsum(column) / len(rows) for column in zip(*probabilities, strict=True)]
    shares = [1.0] * len(mean) if truth is None else label_frequencies(truth, len(mean))
    if any(p > 0.0 and q == 0.0 for p, q in zip(mean, shares, strict=True)):
        return Part(math.inf, [0.0] * n_rows)
    logarithms = [math.log(p / q) if p > 0.0 else 0.0 for p, q in zip(mean, shares, strict=True)]
    scores = [math.fsum(p * log for p, log in zip(row, logarithms, strict=True)) for row in probabilities]
    if truth is not None:
        scores = [score + 1.0 - mean[label] / shares[label] for score, label in zip(scores, truth, strict=True)]
    part = mean_part(scores, rows, n_rows)
    return replace(part, bias=_curvature(probabilities, rows, n_rows, mean))


def entropy_part(probabilities: Sequence[Sequence[float]], rows: Sequence[int], n_rows: int) -> Part:
    """Return the entropy of the mean prediction, in nats.

    Args:
        probabilities: One distribution per query.
        rows: Test row of each query, from 0 to `n_rows` - 1.
        n_rows: Number of test rows.
    """
    part = _entropy_part(probabilities, rows, n_rows, None)
    return Part(-part.value, [-value for value in part.rows], -part.bias)


def divergence_part(
    truth: Sequence[int], probabilities: Sequence[Sequence[float]], rows: Sequence[int], n_rows: int
) -> Part:
    """Return the divergence of the mean prediction from the frequencies of the true labels, in nats.

    Args:
        truth: True label index of each query.
        probabilities: One distribution per query.
        rows: Test row of each query, from 0 to `n_rows` - 1.
        n_rows: Number of test rows.

    Returns:
        The part; its value is infinite if a label that is never true has a positive mean probability.
    """
    part = _entropy_part(probabilities, rows, n_rows, truth)
    return replace(part, value=max(0.0, part.value))


# -- inference


def sign_flip_p_value(
    steps: Sequence[float], difference: float | None = None, alike: frozenset[int] = frozenset()
) -> float:
    """Return the p-value of the sign-flip test: two-sided, mid-p.

    Exchanging the runs on a test row flips the sign of its step. The distribution over all exchanges is computed
    exactly if there are few different sums, else by the saddlepoint approximation (Lugannani and Rice 1980); nothing
    is drawn at random.

    Args:
        steps: What each test row contributes to the difference.
        difference: The difference to test; the sum of the steps by default.
        alike: Places of rows on which the runs have the same predictions. Sums that differ by the steps of such rows
            only count as equal; else they would decide ties, always for the better run.

    Returns:
        Twice the probability of a larger sum plus half that of an equal one (Lancaster 1961). 1 if the difference is 0.

    Example:
        >>> sign_flip_p_value([1, 1, 1, 1, 1, 0])
        0.03125
        >>> sign_flip_p_value([0, 0]), sign_flip_p_value([1, -1])
        (1.0, 1.0)
    """
    largest = max(map(abs, steps), default=0.0)
    observed = abs(math.fsum(steps) if difference is None else difference)
    if largest == 0.0 or observed <= largest / _GRID:
        return 1.0
    scaled = [round(abs(step) / largest * _GRID) for step in steps]
    least = observed / largest * _GRID
    chances = sign_flip_sums(
        Counter(unit for place, unit in enumerate(scaled) if unit and place not in alike), _EXACT_PLACES
    )
    if chances is None:
        return _saddlepoint(Counter(filter(None, scaled)), least)
    small = [scaled[place] for place in alike]
    noise = math.sqrt(math.fsum(unit * unit for unit in small))
    slack = len(steps) + min(2 * sum(small), _GRID // 2)

    def above(gap: float) -> float:
        if abs(gap) <= slack:
            return 0.5
        return _NORMAL.cdf(-gap / noise) if noise else float(gap < 0.0)

    return min(1.0, 2.0 * math.fsum(chance * above(least - place) for place, chance in chances.items()))


def _saddlepoint(units: Mapping[int, int], observed: float) -> float:
    """Return the two-sided tail probability of a sum of units with random signs."""
    least = math.ldexp(1.0, -min(1000, sum(units.values())))
    total = math.fsum(unit * count for unit, count in units.items())
    if observed >= total * (1.0 - 1e-9):
        return least
    guesses = [(2.0 * unit / total, 2, count) for unit, count in units.items()]  # a sign guesses one of two labels
    return min(1.0, max(least, 2.0 * upper_tail(guesses, 1.0 + observed / total)))


def _negative_tail(terms: Sequence[float]) -> float:
    """Return the probability that a sum of terms, each times an exponential variable, is not positive.

    Source: the saddlepoint approximation of Lugannani and Rice (1980).
    """
    largest = max(map(abs, terms)) or 1.0
    counts = Counter(term / largest for term in terms if term)
    if not counts or max(counts) <= 0.0:
        return 1.0
    if min(counts) >= 0.0:
        return 0.0
    low, high, place = 1.0 / min(counts), 1.0 / max(counts), 0.0
    for _ in range(100):
        ratios = [(count, term / (1.0 - place * term)) for term, count in counts.items()]
        slope = math.fsum(count * ratio for count, ratio in ratios)
        curve = math.fsum(count * ratio * ratio for count, ratio in ratios)
        low, high = (low, place) if slope > 0.0 else (place, high)
        if abs(slope) < 1e-9 * math.sqrt(curve):
            break
        newton = place - slope / curve
        place = newton if low < newton < high else (low + high) / 2.0
    exponent = 2.0 * math.fsum(count * math.log1p(-place * term) for term, count in counts.items())
    root = math.copysign(math.sqrt(max(0.0, exponent)), place)
    if abs(root) < 1e-4:
        third = math.fsum(count * ratio * ratio * ratio for count, ratio in ratios)
        return 0.5 + third / (3.0 * math.sqrt(math.tau * curve) * curve)
    scale = place * math.sqrt(curve)
    tail = _NORMAL.cdf(root) + _NORMAL.pdf(root) * (1.0 / root - 1.0 / scale)
    if tail < _FAR:  # the terms cancel out: the form of Barndorff-Nielsen (1986) has one term
        return 0.5 * math.erfc(-(root + math.log(scale / root) / root) / math.sqrt(2.0))
    return min(1.0, tail)


def _bounded_tail(steps: RowSteps, least: float, sign: float = 1.0) -> float:
    """Return the p-value of "the difference (times the sign) is at most `least`", for steps with a bound."""
    assert steps.bound is not None
    weights = [1.0 / size / len(steps.strata) for size in steps.strata]
    each = chain.from_iterable(map(repeat, weights, steps.strata))
    terms = [sign * step - least * weight for step, weight in zip(steps.steps, each, strict=True)]
    return _negative_tail([*terms, min(0.0, -steps.bound - least * max(weights))])


def bounded_p_value(steps: RowSteps) -> float:
    """Return the two-sided p-value of a difference of means of scores with a known range.

    One pseudo-row has the largest possible step against the observed difference, and all rows have random (Dirichlet)
    weights: the p-value is twice the probability that the weighted mean has the other sign. For scores of 0 and 1 and
    one run this is the exact binomial (Clopper-Pearson) test.

    Args:
        steps: The difference, with a bound.

    Source:
        Gaffke 2005, "Three test statistics for a nonparametric one-sided hypothesis on the mean of a nonnegative
        variable", Mathematical Methods of Statistics 14. Learned-Miller and Thomas 2019, "A new confidence interval for
        the mean of a bounded random variable", arXiv:1905.06208. The level is measured, not proven.
    """
    return min(1.0, 2.0 * min(_bounded_tail(steps, 0.0, sign) for sign in (1.0, -1.0)))


def difference_p_value(steps: RowSteps) -> float:
    """Return the two-sided p-value of a difference: :func:`bounded_p_value` or :func:`sign_flip_p_value`."""
    if steps.bound is not None:
        return bounded_p_value(steps)
    return sign_flip_p_value(steps.steps, steps.tested, steps.alike)


def _bounded_end(steps: RowSteps, chance: float, sign: float) -> float:
    """Return the lower end of the difference (times the sign) by :func:`_bounded_tail`."""
    assert steps.bound is not None
    high = sign * steps.difference
    low = -steps.bound * len(steps.strata) * max(steps.strata)
    while high - low > 1e-6 * steps.bound * len(steps.strata) * min(steps.strata):
        middle = (low + high) / 2.0
        low, high = (middle, high) if _bounded_tail(steps, middle, sign) < chance else (low, middle)
    return low


def _centre(steps: RowSteps) -> tuple[float, float]:
    """Return centre and standard error of the interval, with two pseudo-rows in which the runs differ both ways."""
    n = len(steps.steps)
    shrink = n / (n + 2)
    largest = max(map(abs, steps.steps)) or 1.0 / n
    correction, start = 0.0, 0
    for size in steps.strata:
        total = math.fsum(steps.steps[start : start + size])
        correction += total * total * (1.0 / size - 1.0 / (size + 2))
        start += size
    return shrink * steps.difference, shrink * math.sqrt(steps.variance + 2.0 * largest**2 + correction)


def _reach(steps: RowSteps) -> tuple[float, float]:
    """Return how far bias can have raised, and lowered, the difference."""
    first, second = steps.bias
    return max(0.0, first) + max(0.0, -second), max(0.0, second) + max(0.0, -first)


def difference_interval(steps: RowSteps, level: float = 0.95) -> Interval:
    """Return the confidence interval of the difference of two runs, on other test rows of the same kind.

    Args:
        steps: The difference.
        level: Nominal coverage.

    Returns:
        The adjusted Wald interval of Bonett and Price, whose two pseudo-rows are those with the largest step of either
        sign; it reaches further by the bias of the values. For steps with a bound, the differences that
        :func:`bounded_p_value` does not reject.

    Source:
        Bonett and Price 2012, "Adjusted Wald confidence interval for a difference of binomial proportions based on
        paired data", Journal of Educational and Behavioral Statistics 37.
    """
    if steps.bound is not None:
        low, high = (sign * _bounded_end(steps, (1.0 - level) / 2.0, sign) for sign in (1.0, -1.0))
        return Interval(low, high, level, BOUNDED_METHOD)
    centre, error = _centre(steps)
    reach = _NORMAL.inv_cdf((1.0 + level) / 2.0) * error
    down, up = _reach(steps)
    return Interval(
        min(steps.difference, centre - reach - down), max(steps.difference, centre + reach + up), level, INTERVAL_METHOD
    )


def non_inferiority_p_value(steps: RowSteps, margin: float, higher_is_better: bool) -> float:
    """Return the one-sided p-value of "the first run is worse than the second by the margin or more".

    Args:
        steps: The difference.
        margin: The largest difference that does not matter, positive.
        higher_is_better: Whether larger values are better.
    """
    if steps.bound is not None:
        return _bounded_tail(steps, -margin, 1.0 if higher_is_better else -1.0)
    centre, error = _centre(steps)
    down, up = _reach(steps)
    gain = centre - down if higher_is_better else -centre - up
    return _NORMAL.cdf(-(gain + margin) / error)

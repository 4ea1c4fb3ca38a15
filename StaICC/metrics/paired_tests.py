"""Paired tests of two runs by any metric.

The unit is the test row with all its queries. Every metric is written as a sum of one *contribution* per row: the row's
mean score for means (accuracy, likelihood, consistency), its influence for F1, calibration error and entropies (Hampel
1974). The difference of two runs is the sum of the differences of their contributions, the *steps*.

One rule makes the tests of all metrics valid. A sample may lack the rare rows that outweigh the common ones: a run that
is a little worse on every row, and much better on one row of a hundred, looks worse in most samples of fifty rows. So
the test adds a *pseudo-row* with the largest step that a row of this metric can have, against the observed difference,
and gives all rows random (Dirichlet) weights: the p-value of "the difference is at most 0" is the probability that the
weighted sum is not positive (Gaffke 2005). For shares this is the exact binomial test, and for the accuracies of two
runs with one query for each row the exact test of McNemar. The two-sided p-value is twice the smaller one, and the
interval has the differences that this test does not reject. Where even the same steps, all in one direction, would not
be significant, nothing is tested.

Chance can raise or lower some metrics on average (calibration error, entropies, macro F1). An observed difference
counts without what this could explain. The calibration error is a sum of absolute values: where the sign of a bin is
uncertain, the sign with the larger variance of the steps is used.

Nothing is drawn at random: the probabilities are contour integrals (see :func:`_chance`), in which few values stand
for the many steps in the middle (:func:`condensed`).
``tests/performance/comparison.py`` measures type I error, power and coverage; ``docs/comparing.md`` has the tables.

Sources:
    Gaffke 2005, "Three test statistics for a nonparametric one-sided hypothesis on the mean of a nonnegative variable",
    Mathematical Methods of Statistics 14. Learned-Miller and Thomas 2019, "A new confidence interval for the mean of a
    bounded random variable", arXiv:1905.06208. The validity of Gaffke's test is measured here, not proven.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import accumulate, islice
from operator import mul
from statistics import NormalDist

from StaICC.errors import ArgumentError
from StaICC.metrics.intervals import Interval
from StaICC.metrics.statistics import Contributions

INTERVAL_METHOD = "paired test rows, pseudo-row with the largest possible step (Gaffke 2005)"
SIGNIFICANCE_LEVEL = 0.05
"""Level at which differences are called significant."""
_NORMAL = NormalDist()


@dataclass(frozen=True)
class PairedDifference:
    """The difference of two runs as a sum over test rows."""

    first: float
    second: float
    steps: Sequence[float]
    """What each test row contributes to first minus second; the sum is the difference."""
    low: float
    """The lowest possible step of a row, negative or 0."""
    high: float
    """The highest possible step of a row, positive or 0."""
    span: float = math.inf
    """The largest possible size of the difference."""
    raised: float = 0.0
    """How far chance can have raised the difference (biases of both values)."""
    lowered: float = 0.0
    """How far chance can have lowered it."""
    strata: tuple[int, ...] = ()
    """Number of test rows of each data set, in order; by default, one data set."""

    def __post_init__(self) -> None:
        if not self.strata:
            object.__setattr__(self, "strata", (len(self.steps),))

    @property
    def difference(self) -> float:
        """First minus second."""
        return self.first - self.second

    @property
    def unbounded(self) -> bool:
        """Whether one more row could change the difference without limit."""
        return math.isinf(self.low) or math.isinf(self.high)

    @property
    def negated(self) -> PairedDifference:
        """Second minus first."""
        steps = [-step for step in self.steps]
        return PairedDifference(
            self.second, self.first, steps, -self.high, -self.low, self.span, self.lowered, self.raised, self.strata
        )

    @cached_property
    def condensed(self) -> list[tuple[float, Mapping[float, float]]]:
        """The steps as few values with their numbers; for each size of data sets, with the weight of a test row."""
        steps = iter(self.steps)
        of_size: dict[int, list[float]] = {}
        for size in self.strata:
            of_size.setdefault(size, []).extend(islice(steps, size))
        return [(1.0 / size / len(self.strata), condensed(own)) for size, own in of_size.items()]

    @cached_property
    def variance(self) -> float:
        """Variance of the difference: test rows are drawn within each data set."""
        steps = iter(self.steps)
        return math.fsum(_spread(list(islice(steps, size))) for size in self.strata)


def _spread(steps: Sequence[float]) -> float:
    """Return the variance of a sum of steps."""
    mean = math.fsum(steps) / len(steps)
    return math.fsum((step - mean) ** 2 for step in steps)


def paired_difference(
    first: Sequence[tuple[float, Contributions]], second: Sequence[tuple[float, Contributions]]
) -> PairedDifference:
    """Return the difference of two weighted sums of metrics, such as a slope or a mean over rounds.

    Args:
        first: Weights and metrics of the first run, over the same test rows.
        second: Those of the second run.

    Example:
        >>> half = Contributions(0.5, [0.5, 0.0], low=1 / 3, high=2 / 3, span=1.0)
        >>> other = Contributions(0.5, [0.0, 0.5], low=1 / 3, high=2 / 3, span=1.0)
        >>> paired_difference([(1.0, half)], [(1.0, other)]).steps
        [0.5, -0.5]
    """
    signed = [*first, *((-weight, part) for weight, part in second)]
    values = [math.fsum(weight * part.value for weight, part in run) for run in (first, second)]
    difference = values[0] - values[1]
    steps = [math.fsum(column) for column in zip(*([w * x for x in part.rows] for w, part in signed), strict=True)]
    n = len(steps)
    kinks = [[2.0 * weight * x for x in terms] for weight, part in signed for terms in part.kinks] if any(steps) else []
    while kinks:
        flipped = [[step - term for step, term in zip(steps, kink, strict=True)] for kink in kinks]
        spreads = list(map(_spread, flipped))
        place = spreads.index(max(spreads))
        if spreads[place] <= _spread(steps):
            break
        steps = flipped[place]
        del kinks[place]
    rest = (difference - math.fsum(steps)) / n
    if abs(rest) * n > 1e-12:  # weights of the runs differ; equal steps stay equal otherwise
        steps = [step + rest for step in steps]

    def end(low: bool) -> float:
        """Return the step of one more row that makes the difference as low (or as high) as it can be."""
        value = math.fsum(weight * (part.low if (weight > 0.0) == low else part.high) for weight, part in signed)
        return (value - difference) * (n + 1) / n + difference / n

    def bias(up: bool) -> float:
        return math.fsum(abs(w) * (part.raised if (w > 0.0) == up else part.lowered) for w, part in signed)

    span = math.fsum(abs(weight) * part.span for weight, part in signed) / 2.0
    ends = min(0.0, end(low=True)), max(0.0, end(low=False))
    return PairedDifference(values[0], values[1], steps, *ends, span, bias(up=True), bias(up=False))


def mean_difference(differences: Sequence[PairedDifference]) -> PairedDifference:
    """Return the difference of the means over data sets.

    Args:
        differences: The difference on each data set; their rows stay apart.
    """
    count = len(differences)
    fields = ("first", "second", "span", "raised", "lowered")
    return PairedDifference(
        **{name: math.fsum(getattr(part, name) for part in differences) / count for name in fields},
        steps=[step / count for part in differences for step in part.steps],
        low=min(part.low for part in differences) / count,
        high=max(part.high for part in differences) / count,
        strata=tuple(size for part in differences for size in part.strata),
    )


# -- inference


_EXACT, _NODES = 16, 12


def condensed(steps: Sequence[float]) -> Mapping[float, float]:
    """Return few values, and how often each counts, for which sums of smooth functions are those over many steps.

    The outermost steps are kept. Sums over the others are those of the polynomial that interpolates the function at
    the Chebyshev nodes. Where the integrand of :func:`_chance` matters, its logarithm has no singularity near them,
    because the outermost steps are larger: it is exact to about nine digits.

    Args:
        steps: The steps.

    Example:
        >>> values = condensed([n / 1000 for n in range(1000)])
        >>> len(values), round(sum(count * math.exp(value) for value, count in values.items()), 6)
        (44, 1717.422831)
    """
    counts = Counter(steps)
    if len(counts) <= 3 * _EXACT:
        return dict(counts)
    ordered = sorted(steps)
    low, high = ordered[_EXACT], ordered[-_EXACT - 1]
    center, half = (low + high) / 2.0, (high - low) / 2.0
    middle = [step for step in counts if low <= step <= high]
    if len(middle) <= _NODES:
        return dict(counts)
    numbers = [counts.pop(step) for step in middle]
    scaled = [(step - center) / half for step in middle]
    before, now = numbers, list(map(mul, scaled, numbers))
    moments = [math.fsum(before), math.fsum(now)]  # sums of the Chebyshev polynomials
    while len(moments) < _NODES:
        before, now = now, [2.0 * x * b - a for x, a, b in zip(scaled, before, now, strict=True)]
        moments.append(math.fsum(now))
    values: dict[float, float] = dict(counts)
    for number in range(_NODES):
        angle = math.pi * (number + 0.5) / _NODES
        total = moments[0] + 2.0 * math.fsum(math.cos(k * angle) * moments[k] for k in range(1, _NODES))
        values[center + half * math.cos(angle)] = total / _NODES
    return values


def _chance(terms: Mapping[float, float]) -> float:
    """Return the probability that a sum of terms, each times an exponential variable of its own, is not positive.

    Args:
        terms: How often each term occurs.

    Source:
        Inversion of the moment generating function, ``product(1 / (1 - s * term))``, along a vertical line near its
        saddlepoint, by the trapezoidal rule after the substitution y = sinh(u). The relative error is about 1e-6 for
        probabilities above 1e-30.
    """
    largest = max(map(abs, terms)) or 1.0
    counts = [(term / largest, count) for term, count in terms.items() if term]
    least, most = (end(counts, default=(0.0, 1))[0] for end in (min, max))
    if least >= 0.0 or most <= 0.0:
        return float(most <= 0.0)
    line, below, above = 0.0, 1.0 / least, 1.0 / most
    for _ in range(60):
        ratios = [(count, term / (1.0 - line * term)) for term, count in counts]
        slope = math.fsum(count * ratio for count, ratio in ratios)
        scale = 1.0 / math.sqrt(math.fsum(count * ratio * ratio for count, ratio in ratios))
        below, above = (below, line) if slope > 0.0 else (line, above)
        if abs(slope) * scale < 0.05:
            break
        newton = line - slope * scale * scale
        line = newton if below < newton < above else (below + above) / 2.0
    if abs(line) < 0.5 * scale:  # not too near the pole at 0
        line = max(0.5 / least, -0.5 * scale) if line <= 0.0 else min(0.5 / most, 0.5 * scale)
    exponent = -math.fsum(count * math.log1p(-line * term) for term, count in counts)
    turned = [(term / (1.0 - line * term) * scale, count) for term, count in counts]
    total, peak = 0.0, 0.0
    for node in range(400):
        y = math.sinh(0.1 * node)
        turn = -1j * y
        product = math.prod([(1.0 + turn * ratio) ** count for ratio, count in turned], start=complex(line, y * scale))
        value = math.cosh(0.1 * node) * (0.05 if node == 0 else 0.1) * scale / product
        if not abs(value) > 1e-14 * peak:
            break
        total += value.real
        peak = max(peak, abs(value))
    tail = math.exp(exponent) * total / math.pi
    return min(1.0, max(1e-300, -tail if line < 0.0 else 1.0 - tail))


def upper_p_value(difference: PairedDifference, least: float = 0.0) -> float:
    """Return the one-sided p-value of "the difference is at most `least`".

    Args:
        difference: The difference.
        least: The tested difference.
    """
    least += difference.raised
    terms: Counter[float] = Counter()
    for weight, values in difference.condensed:
        for step, count in values.items():
            terms[step - least * weight] += count  # type: ignore[assignment]
    terms[min(0.0, difference.low - least / min(difference.strata) / len(difference.strata))] += 1
    return _chance(terms)


def p_value(difference: PairedDifference) -> float:
    """Return the two-sided p-value of a difference; 1 if the runs have the same contributions on all rows.

    Args:
        difference: The difference.

    Example:
        >>> steps = [1 / 7] * 6 + [0.0]  # six of seven rows differ, all in one direction: twice 1/64
        >>> round(p_value(PairedDifference(6 / 7, 0.0, steps, low=-1 / 7, high=1 / 7)), 6)
        0.03125
    """
    if not any(difference.steps):
        return 1.0
    sides = (difference, difference.negated) if difference.difference > 0.0 else (difference.negated, difference)
    first = upper_p_value(sides[0])  # both together are at least 1
    return 2.0 * first if first <= 0.5 else min(1.0, 2.0 * min(first, upper_p_value(sides[1])))


def too_few_rows(difference: PairedDifference) -> str | None:
    """Return why no outcome on these rows could be significant; ``None`` if one could, or if no row differs.

    Args:
        difference: The difference; the sizes of its steps are kept, and their signs do not matter.
    """
    if difference.unbounded:
        return "one more row could change the metric without limit"
    steps = [abs(step) for step in difference.steps]
    pseudo_row = min(difference.low, -difference.high)
    if not any(steps) or not pseudo_row:
        return None
    bound = 2.0 * math.exp(-math.fsum(math.log1p(step / -pseudo_row / 2.0) for step in steps))  # Chernoff's inequality
    if 2.0 * bound <= SIGNIFICANCE_LEVEL or 2.0 * _chance(Counter([*steps, pseudo_row])) <= SIGNIFICANCE_LEVEL:
        return None
    return (
        f"too few rows differ: p would be above {SIGNIFICANCE_LEVEL:g} even if all their differences had one direction"
    )


def difference_interval(difference: PairedDifference, level: float = 0.95) -> Interval | None:
    """Return the confidence interval of the difference of two runs, on other test rows of the same kind.

    Args:
        difference: The difference.
        level: Nominal coverage.

    Returns:
        The differences that the test of :func:`p_value` does not reject at one minus the level; ``None`` if one more
        row could change the metric without limit.
    """
    if difference.unbounded:
        return None
    low, high = (_lower_end(side, (1.0 - level) / 2.0) for side in (difference, difference.negated))
    ends = max(-difference.span, low), min(difference.span, -high)
    return Interval(min(difference.difference, ends[0]), max(difference.difference, ends[1]), level, INTERVAL_METHOD)


def _lower_end(difference: PairedDifference, chance: float) -> float:
    """Return the least difference that is not rejected in one direction, by secants on the normal scale (Illinois)."""
    wanted = _NORMAL.inv_cdf(chance)

    def distance(least: float) -> float:
        p = upper_p_value(difference, least)
        return _NORMAL.inv_cdf(min(1.0 - 1e-12, max(1e-300, p))) - wanted

    step = math.sqrt(difference.variance) - difference.low + difference.raised
    high = difference.difference
    low = high - 2.0 * step
    at_low, at_high = distance(low), distance(high)
    while at_low > 0.0:
        high, at_high, step = low, at_low, 2.0 * step
        low = high - step
        at_low = distance(low)
    replaced = 0
    for _ in range(60):
        if high - low < 1e-7 * step or at_high <= 0.0:
            break
        middle = low - at_low * (high - low) / (at_high - at_low)
        at_middle = distance(middle)
        if abs(at_middle) < 1e-8:
            return middle
        if at_middle < 0.0:
            low, at_low, at_high = middle, at_middle, at_high / (2.0 if replaced < 0 else 1.0)
        else:
            high, at_high, at_low = middle, at_middle, at_low / (2.0 if replaced > 0 else 1.0)
        replaced = -1 if at_middle < 0.0 else 1
    return low


def detectable_difference(difference: PairedDifference) -> float | None:
    """Return the smallest true difference that the test finds at level 0.05 with probability 0.8.

    Args:
        difference: The observed difference; the variation of its steps is used, not its size.

    Returns:
        The difference d with d = b + z_a sqrt(variance + b^2 + d^2 / rows) + z_b sqrt(variance), a normal approximation
        of the test with its pseudo-row b; ``None`` if the runs differ on too few rows (:func:`too_few_rows`), or if
        these rows could not add up to it.

    Example:
        >>> steps = [1 / 512] * 80 + [-1 / 512] * 40 + [0] * 392
        >>> round(detectable_difference(PairedDifference(0.6, 0.52, steps, -1 / 512, 1 / 512, 1.0)), 3)
        0.062
    """
    if not any(difference.steps) or too_few_rows(difference):
        return None
    z_a, z_b = _NORMAL.inv_cdf(1.0 - SIGNIFICANCE_LEVEL / 2.0), _NORMAL.inv_cdf(0.8)
    rows = len(difference.strata) ** 2 / math.fsum(1.0 / size for size in difference.strata)
    pseudo_row = max(-difference.low, difference.high)
    least = pseudo_row + max(difference.raised, difference.lowered) + z_b * math.sqrt(difference.variance)
    rest = 1.0 - z_a * z_a / rows
    if rest <= 0.0:
        return None
    spread = z_a * z_a * (difference.variance + pseudo_row**2)
    detectable = (least + math.sqrt(least * least - rest * (least * least - spread))) / rest
    return detectable if 0.0 < detectable <= math.fsum(map(abs, difference.steps)) else None


def bonferroni(p_value: float | None, tests: int) -> float | None:
    """Return the p-value of a test that was chosen from several by its value; ``None`` without one.

    Tests of pairs of runs share runs and test rows, so they depend on each other: two pairs with the same run on
    opposite sides are small together. Bonferroni's correction holds however they do. ``1 - (1 - p) ** tests``, as for
    independent tries against a baseline (:func:`~StaICC.metrics.random_baselines.p_value_of_best`), would not.

    Args:
        p_value: The p-value.
        tests: Number of tests, made or not.

    Example:
        >>> bonferroni(0.01, 3), bonferroni(0.5, 3), bonferroni(None, 3)
        (0.03, 1.0, None)
    """
    if p_value is None:
        return None
    return min(1.0, p_value * tests)


def holm(p_values: Sequence[float | None]) -> list[float | None]:
    """Correct the p-values of several tests, so that any false alarm among them is as rare as promised.

    Args:
        p_values: One p-value for each test, such as one a data set. None is a test that could not be made; it stays
            None, and is counted among the tests, so that a failure never makes the others more significant.

    Returns:
        The adjusted p-values, in the same order: the k-th smallest is multiplied by the number of tests from
        it on, is never below a smaller one's, and is at most 1. Equal p-values get equal results.

    Raises:
        ArgumentError: An entry is no probability.

    Source:
        Holm 1979, "A simple sequentially rejective multiple test procedure".

    Example:
        >>> holm([0.01, 0.04, None, 0.03])
        [0.04, 0.09, None, 0.09]
    """
    for position, p in enumerate(p_values):
        if p is not None and not (isinstance(p, int | float) and 0.0 <= p <= 1.0):
            raise ArgumentError(f"p-value {position} is {p!r}; expected a number from 0 to 1, or None")
    made = sorted((p, position) for position, p in enumerate(p_values) if p is not None)
    scaled = (min(1.0, p * (len(p_values) - rank)) for rank, (p, _) in enumerate(made))
    adjusted: list[float | None] = [None] * len(p_values)
    for (_, position), value in zip(made, accumulate(scaled, max), strict=True):
        adjusted[position] = value
    return adjusted


def directional_holm(p_values: Sequence[float | None]) -> list[float | None]:
    """Correct the two-sided p-values of all pairs of runs, so that the *directions* of all differences hold together.

    With n pairs there are 2n hypotheses "the first is not better" and "the second is not better". The one-sided p-value
    of each direction is corrected for all 2n. So the probability that any run is called better than one that is as
    good or better is at most the level, however the tests depend on each other; Holm's method for n two-sided tests has
    no such proof for directions (Shaffer 1980, "Control of directional errors with stagewise multiple test procedures",
    Annals of Statistics 8). For one pair the result is the two-sided p-value.

    Args:
        p_values: As for :func:`holm`, twice the smaller one-sided p-value of each pair.

    Returns:
        The adjusted p-values, in the same order.

    Example:
        >>> directional_holm([0.03]), directional_holm([0.01, None, 0.02])
        ([0.03], [0.03, None, 0.05])
    """
    return holm([*(None if p is None else p / 2.0 for p in p_values), *[1.0] * len(p_values)])[: len(p_values)]

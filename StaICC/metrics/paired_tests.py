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

Nothing is drawn at random: the probabilities are contour integrals (see :func:`_probability_not_positive`), in which
few values stand for the many steps in the middle (:func:`condensed`).
``tests/performance/comparison.py`` measures type I error, power and coverage; ``docs/comparing.md`` has the tables.

Sources:
    Gaffke 2005, "Three test statistics for a nonparametric one-sided hypothesis on the mean of a nonnegative variable",
    Mathematical Methods of Statistics 14. Learned-Miller and Thomas 2019, "A new confidence interval for the mean of a
    bounded random variable", arXiv:1905.06208. The validity of Gaffke's test is measured here, not proven.
"""

from __future__ import annotations

import math
from collections import Counter, defaultdict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from operator import mul
from statistics import NormalDist
from typing import NamedTuple

from StaICC.errors import ArgumentError
from StaICC.metrics.intervals import Interval
from StaICC.metrics.statistics import Contributions, RangeEnd

INTERVAL_METHOD = "paired test rows, pseudo-row with the largest possible step (Gaffke 2005)"
SIGNIFICANCE_LEVEL = 0.05
"""Level at which differences are called significant."""
_NORMAL = NormalDist()


class CondensedSteps(NamedTuple):
    """The steps of all data sets of one size, as few values."""

    row_weight: float
    """The share of one test row in the mean over data sets."""
    counts: Mapping[float, float]
    """How often each step counts (see :func:`condensed`)."""


@dataclass(frozen=True)
class PairedDifference:
    """The difference of two runs as a sum over test rows."""

    first: float
    second: float
    steps: Sequence[float]
    """What each test row contributes to first minus second; the sum is the difference."""
    lowest_step: float
    """The lowest possible step of a row, negative or 0."""
    highest_step: float
    """The highest possible step of a row, positive or 0."""
    largest_size: float = math.inf
    """The largest possible size of the difference."""
    upward_bias: float = 0.0
    """How far chance can have raised the difference (biases of both values)."""
    downward_bias: float = 0.0
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
        return math.isinf(self.lowest_step) or math.isinf(self.highest_step)

    @property
    def negated(self) -> PairedDifference:
        """The difference of the same runs in the other order, second minus first."""
        return PairedDifference(
            first=self.second,
            second=self.first,
            steps=[-step for step in self.steps],
            lowest_step=-self.highest_step,
            highest_step=-self.lowest_step,
            largest_size=self.largest_size,
            upward_bias=self.downward_bias,
            downward_bias=self.upward_bias,
            strata=self.strata,
        )

    @property
    def _steps_by_dataset(self) -> list[Sequence[float]]:
        """The steps of the test rows of each data set."""
        steps_by_dataset = []
        start = 0
        for size in self.strata:
            steps_by_dataset.append(self.steps[start : start + size])
            start += size
        return steps_by_dataset

    @cached_property
    def condensed(self) -> list[CondensedSteps]:
        """The steps as few values; data sets of one size are taken together, because their rows have one weight."""
        steps_by_size: dict[int, list[float]] = defaultdict(list)
        for size, steps in zip(self.strata, self._steps_by_dataset, strict=True):
            steps_by_size[size].extend(steps)
        n_datasets = len(self.strata)
        return [
            CondensedSteps(row_weight=1.0 / size / n_datasets, counts=condensed(steps))
            for size, steps in steps_by_size.items()
        ]

    @cached_property
    def variance(self) -> float:
        """Variance of the difference: test rows are drawn within each data set."""
        return math.fsum(_variance_of_sum(steps) for steps in self._steps_by_dataset)


def _variance_of_sum(steps: Sequence[float]) -> float:
    """Return the variance of the sum of the steps of independent rows."""
    mean = math.fsum(steps) / len(steps)
    return math.fsum((step - mean) ** 2 for step in steps)


# -- statistic


def paired_difference(
    first: Sequence[tuple[float, Contributions]], second: Sequence[tuple[float, Contributions]]
) -> PairedDifference:
    """Return the difference of two weighted sums of metrics, such as a slope or a mean over rounds.

    Args:
        first: Weights and metrics of the first run, over the same test rows.
        second: Those of the second run.

    Example:
        >>> half = Contributions(0.5, [0.5, 0.0], lowest_after_row=1 / 3, highest_after_row=2 / 3, range_width=1.0)
        >>> other = Contributions(0.5, [0.0, 0.5], lowest_after_row=1 / 3, highest_after_row=2 / 3, range_width=1.0)
        >>> paired_difference([(1.0, half)], [(1.0, other)]).steps
        [0.5, -0.5]
    """
    signed_terms = list(first)
    for weight, term in second:
        signed_terms.append((-weight, term))
    first_value = math.fsum(weight * term.value for weight, term in first)
    second_value = math.fsum(weight * term.value for weight, term in second)
    difference = first_value - second_value

    steps = _row_steps(signed_terms)
    if any(steps):
        steps = _with_largest_variance(steps, _sign_changes(signed_terms))
    # Where the weights of the runs differ, the steps do not add up to the difference, and each row gets an equal share
    # of what is missing. A rounding error is not shared, so that equal steps stay equal.
    missing_share = (difference - math.fsum(steps)) / len(steps)
    if abs(missing_share) * len(steps) > 1e-12:
        steps = [step + missing_share for step in steps]

    # Both runs have the same range, so that the difference is at most half the sum of the ranges.
    largest_size = math.fsum(abs(weight) * term.range_width for weight, term in signed_terms) / 2.0
    return PairedDifference(
        first=first_value,
        second=second_value,
        steps=steps,
        lowest_step=min(0.0, _extreme_step(signed_terms, "lowest", difference, n_rows=len(steps))),
        highest_step=max(0.0, _extreme_step(signed_terms, "highest", difference, n_rows=len(steps))),
        largest_size=largest_size,
        upward_bias=_bias(signed_terms, upward=True),
        downward_bias=_bias(signed_terms, upward=False),
    )


_SignedTerms = Sequence[tuple[float, Contributions]]
"""Weights and metrics of both runs; the weights of the second run are negated."""


def _row_steps(signed_terms: _SignedTerms) -> list[float]:
    """Return for each row the weighted sum of its contributions."""
    weighted_contributions = []
    for weight, term in signed_terms:
        weighted_contributions.append([weight * contribution for contribution in term.rows])
    contributions_by_row = zip(*weighted_contributions, strict=True)
    return [math.fsum(contributions) for contributions in contributions_by_row]


def _sign_changes(signed_terms: _SignedTerms) -> list[list[float]]:
    """Return for each uncertain sign what is subtracted from the steps if it changes: two times the terms with it."""
    changes = []
    for weight, term in signed_terms:
        for kink in term.uncertain_terms:
            changes.append([2.0 * weight * contribution for contribution in kink])
    return changes


def _with_largest_variance(steps: list[float], sign_changes: list[list[float]]) -> list[float]:
    """Return the steps with the signs that make their variance largest, by a greedy search.

    Args:
        steps: One step for each row.
        sign_changes: For each uncertain sign, what is subtracted from the steps if it changes.
    """
    remaining_changes = list(sign_changes)
    while remaining_changes:
        changed_steps = []
        for changes in remaining_changes:
            changed_steps.append([step - change for step, change in zip(steps, changes, strict=True)])
        variances = [_variance_of_sum(changed) for changed in changed_steps]
        largest = max(variances)
        if largest <= _variance_of_sum(steps):
            break
        index = variances.index(largest)
        steps = changed_steps[index]
        del remaining_changes[index]
    return steps


def _extreme_step(signed_terms: _SignedTerms, end: RangeEnd, difference: float, *, n_rows: int) -> float:
    """Return the step of one more row that makes the difference as low or as high as it can be.

    With n rows, the sum of n steps is the difference D. With one more row, the sum of n + 1 steps, each divided by
    n + 1 instead of n, is E. So the step of that row is ``E * (n + 1) / n - D = (E - D) * (n + 1) / n + D / n``.
    """
    extremes = []
    for weight, term in signed_terms:
        if (weight > 0.0) == (end == "lowest"):
            extremes.append(weight * term.lowest_after_row)
        else:
            extremes.append(weight * term.highest_after_row)
    extreme_difference = math.fsum(extremes)
    return (extreme_difference - difference) * (n_rows + 1) / n_rows + difference / n_rows


def _bias(signed_terms: _SignedTerms, *, upward: bool) -> float:
    """Return how far chance can have raised the difference, or lowered it.

    A term with a negative weight raises the difference where chance has lowered the term.
    """
    biases = []
    for weight, term in signed_terms:
        if (weight > 0.0) == upward:
            biases.append(abs(weight) * term.upward_bias)
        else:
            biases.append(abs(weight) * term.downward_bias)
    return math.fsum(biases)


def mean_difference(differences: Sequence[PairedDifference]) -> PairedDifference:
    """Return the difference of the means over data sets.

    Args:
        differences: The difference on each data set; their rows stay apart.
    """
    count = len(differences)
    steps: list[float] = []
    strata: list[int] = []
    for difference in differences:
        steps.extend(step / count for step in difference.steps)
        strata.extend(difference.strata)
    return PairedDifference(
        first=math.fsum(difference.first for difference in differences) / count,
        second=math.fsum(difference.second for difference in differences) / count,
        steps=steps,
        lowest_step=min(difference.lowest_step for difference in differences) / count,
        highest_step=max(difference.highest_step for difference in differences) / count,
        largest_size=math.fsum(difference.largest_size for difference in differences) / count,
        upward_bias=math.fsum(difference.upward_bias for difference in differences) / count,
        downward_bias=math.fsum(difference.downward_bias for difference in differences) / count,
        strata=tuple(strata),
    )


# -- tail of a weighted sum of steps


_OUTERMOST_STEPS = 16
"""Number of steps at each end that are kept."""

_NODES = 12
"""Number of values that stand for all other steps."""


def condensed(steps: Sequence[float]) -> Mapping[float, float]:
    """Replace many steps by few values with weights, so that sums of smooth functions over them are the same.

    The outermost steps are kept. The function is replaced by the polynomial that interpolates it at the Chebyshev nodes
    between them, and the sum over the other steps is that of the polynomial: a weighted sum over the nodes. Where the
    integrand of :func:`_probability_not_positive` matters, its logarithm has no singularity near the middle steps,
    because the outermost steps are larger: it is exact to about nine digits.

    Args:
        steps: The steps.

    Returns:
        The values with their weights: for a step that is kept, how often it occurs; for a node a number that need not
        be whole or positive.

    Example:
        >>> values = condensed([n / 1000 for n in range(1000)])
        >>> len(values), round(sum(count * math.exp(value) for value, count in values.items()), 6)
        (44, 1717.422831)
    """
    counts = Counter(steps)
    if len(counts) <= 3 * _OUTERMOST_STEPS:
        return dict(counts)
    ordered = sorted(steps)
    low = ordered[_OUTERMOST_STEPS]
    high = ordered[-_OUTERMOST_STEPS - 1]
    middle_steps = [step for step in counts if low <= step <= high]
    if len(middle_steps) <= _NODES:
        return dict(counts)

    middle_counts = [counts.pop(step) for step in middle_steps]
    weights: dict[float, float] = dict(counts)
    weights.update(_node_weights(middle_steps, middle_counts, low, high))
    return weights


def _node_weights(steps: Sequence[float], counts: Sequence[int], low: float, high: float) -> dict[float, float]:
    """Return the Chebyshev nodes between two ends with weights that stand for steps.

    With x the steps, scaled to -1 to 1, and ``moment[k]`` the sum of the Chebyshev polynomials T_k(x), the weight of
    the node ``cos(angle)`` is ``(moment[0] + 2 * sum over k >= 1 of cos(k * angle) * moment[k]) / nodes``.

    Args:
        steps: The steps, each once.
        counts: How often each occurs.
        low: The lowest step.
        high: The highest step.
    """
    center = (low + high) / 2.0
    half_width = (high - low) / 2.0
    scaled = [(step - center) / half_width for step in steps]

    # T_0 = 1, T_1 = x, and T_(k+1) = 2 x T_k - T_(k-1); each value counts as often as its step.
    before_last: Sequence[float] = counts
    last = list(map(mul, scaled, counts))
    moments = [math.fsum(before_last), math.fsum(last)]
    while len(moments) < _NODES:
        polynomial = [2.0 * x * b - a for x, a, b in zip(scaled, before_last, last, strict=True)]
        moments.append(math.fsum(polynomial))
        before_last = last
        last = polynomial

    weights = {}
    for number in range(_NODES):
        angle = math.pi * (number + 0.5) / _NODES
        higher_moments = math.fsum(math.cos(k * angle) * moments[k] for k in range(1, _NODES))
        weights[center + half_width * math.cos(angle)] = (moments[0] + 2.0 * higher_moments) / _NODES
    return weights


_ScaledTerms = Sequence[tuple[float, float]]
"""Terms other than 0, divided by the largest size, each with the number of times that it occurs."""


def _probability_not_positive(terms: Mapping[float, float]) -> float:
    """Return the probability that a sum of terms with independent exponential weights is not positive.

    Args:
        terms: How often each term occurs.

    Source:
        Inversion of the moment generating function, ``product(1 / (1 - s * term))``, along a vertical line near its
        saddlepoint, by the trapezoidal rule after the substitution y = sinh(u). The relative error is about 1e-6 for
        probabilities above 1e-30.
    """
    largest = max(map(abs, terms))
    if largest == 0.0:
        return 1.0
    lowest = min(terms) / largest
    highest = max(terms) / largest
    if highest <= 0.0:
        return 1.0
    if lowest >= 0.0:
        return 0.0

    scaled_terms = [(term / largest, count) for term, count in terms.items() if term]
    line, scale = _saddlepoint(scaled_terms, lowest, highest)
    tail = _line_integral(scaled_terms, line, scale)
    # To the left of the pole at 0, the integral is minus the wanted probability, to the right that of a positive sum.
    probability = -tail if line < 0.0 else 1.0 - tail
    return min(1.0, max(1e-300, probability))


def _saddlepoint(terms: _ScaledTerms, lowest: float, highest: float) -> tuple[float, float]:
    """Return a real number s near the saddlepoint of the moment generating function, and the width of its peak there.

    The saddlepoint is the zero of ``slope(s) = sum(count * term / (1 - s * term))``, the derivative of the logarithm,
    between the poles of the lowest and the highest term. It is found by the steps of Newton, or by bisection where they
    leave the interval. The width is one over the root of the second derivative.

    Args:
        terms: The terms.
        lowest: The lowest term, negative.
        highest: The highest term, positive.
    """
    line = 0.0
    below = 1.0 / lowest
    above = 1.0 / highest
    for _ in range(60):
        ratios = [(count, term / (1.0 - line * term)) for term, count in terms]
        slope = math.fsum(count * ratio for count, ratio in ratios)
        scale = 1.0 / math.sqrt(math.fsum(count * ratio * ratio for count, ratio in ratios))
        if abs(slope) * scale < 0.05:
            break
        if slope > 0.0:
            above = line
        else:
            below = line
        newton = line - slope * scale * scale
        if below < newton < above:
            line = newton
        else:
            line = (below + above) / 2.0

    # The integrand has a pole at 0. The line keeps half a width away from it, or half way to the next pole.
    if abs(line) < 0.5 * scale:
        if line <= 0.0:
            line = max(0.5 / lowest, -0.5 * scale)
        else:
            line = min(0.5 / highest, 0.5 * scale)
    return line, scale


def _line_integral(terms: _ScaledTerms, line: float, scale: float) -> float:
    """Return the integral of the moment generating function, divided by ``2 pi i s``, along ``s = line + i y``.

    With y = scale * sinh(u), the trapezoidal rule has the step 0.1 in u. Both halves of the line have the same real
    part, so that only the upper one is summed; its first node counts half.

    Args:
        terms: The terms.
        line: The real part of s.
        scale: The width of the peak of the integrand.
    """
    at_real_axis = math.exp(-math.fsum(count * math.log1p(-line * term) for term, count in terms))
    ratios = [(term / (1.0 - line * term) * scale, count) for term, count in terms]
    total = 0.0
    peak = 0.0
    for node in range(400):
        y = math.sinh(0.1 * node)
        minus_iy = -1j * y
        factors = [(1.0 + minus_iy * ratio) ** count for ratio, count in ratios]
        denominator = math.prod(factors, start=complex(line, y * scale))
        node_width = 0.05 if node == 0 else 0.1
        value = math.cosh(0.1 * node) * node_width * scale / denominator
        if not abs(value) > 1e-14 * peak:  # the others are negligible
            break
        total += value.real
        peak = max(peak, abs(value))
    return at_real_axis * total / math.pi


# -- p-values


def upper_p_value(difference: PairedDifference, least: float = 0.0) -> float:
    """Return the one-sided p-value of "the difference is at most `least`".

    Args:
        difference: The difference.
        least: The tested difference.
    """
    # Statistic: the steps minus those of the tested difference, which gives each row the same. Chance can have raised
    # the difference by its bias, so that a difference of this size is tested as none.
    tested = least + difference.upward_bias
    counts: dict[float, float] = {}
    for row_weight, step_counts in difference.condensed:
        tested_step = tested * row_weight
        for step, count in step_counts.items():
            term = step - tested_step
            counts[term] = counts.get(term, 0) + count

    # Least favourable row: the sample may lack one with the lowest possible step.
    pseudo_row = min(0.0, difference.lowest_step - tested / min(difference.strata) / len(difference.strata))
    counts[pseudo_row] = counts.get(pseudo_row, 0) + 1

    # Tail: with random (Dirichlet) weights of all rows, the weighted sum is not positive with this probability. Such
    # weights are exponential variables, divided by their sum.
    return _probability_not_positive(counts)


def p_value(difference: PairedDifference) -> float:
    """Return the two-sided p-value of a difference; 1 if the runs have the same contributions on all rows.

    Args:
        difference: The difference.

    Example:
        >>> steps = [1 / 7] * 6 + [0.0]  # six of seven rows differ, all in one direction: twice 1/64
        >>> round(p_value(PairedDifference(6 / 7, 0.0, steps, lowest_step=-1 / 7, highest_step=1 / 7)), 6)
        0.03125
    """
    if not any(difference.steps):
        return 1.0
    if difference.difference > 0.0:
        observed_side = difference
        other_side = difference.negated
    else:
        observed_side = difference.negated
        other_side = difference

    observed_p = upper_p_value(observed_side)
    if observed_p <= 0.5:  # the other one is at least 1 minus this one, so not smaller
        return 2.0 * observed_p
    return min(1.0, 2.0 * min(observed_p, upper_p_value(other_side)))


def too_few_rows(difference: PairedDifference) -> str | None:
    """Return why no outcome on these rows could be significant; ``None`` if one could, or if no row differs.

    Args:
        difference: The difference; the sizes of its steps are kept, and their signs do not matter.
    """
    if difference.unbounded:
        return "one more row could change the metric without limit"
    # The most significant outcome: all steps are positive, but for the least favourable row.
    steps = [abs(step) for step in difference.steps]
    pseudo_row = min(difference.lowest_step, -difference.highest_step)
    if not any(steps) or not pseudo_row:
        return None

    # Chernoff's inequality is quick, and enough where many rows differ.
    bound = 2.0 * math.exp(-math.fsum(math.log1p(step / -pseudo_row / 2.0) for step in steps))
    if 2.0 * bound <= SIGNIFICANCE_LEVEL:
        return None
    smallest_p_value = 2.0 * _probability_not_positive(Counter([*steps, pseudo_row]))
    if smallest_p_value <= SIGNIFICANCE_LEVEL:
        return None
    return (
        f"too few rows differ: p would be above {SIGNIFICANCE_LEVEL:g} even if all their differences had one direction"
    )


# -- interval and power


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
    one_sided_level = (1.0 - level) / 2.0
    low = max(-difference.largest_size, _lower_end(difference, one_sided_level))
    high = min(difference.largest_size, -_lower_end(difference.negated, one_sided_level))
    observed = difference.difference
    return Interval(min(observed, low), max(observed, high), level, INTERVAL_METHOD)


def _lower_end(difference: PairedDifference, one_sided_level: float) -> float:
    """Return the smallest difference that the one-sided test does not reject.

    The normal quantile of the p-value is nearly linear in the tested difference, so that secants find the difference
    whose p-value is the level.
    """
    wanted = _NORMAL.inv_cdf(one_sided_level)

    def excess(tested: float) -> float:
        """Return the normal quantile of the p-value minus that of the level; it is negative if the test rejects."""
        p = upper_p_value(difference, tested)
        return _NORMAL.inv_cdf(min(1.0 - 1e-12, max(1e-300, p))) - wanted

    # The end is below the observed difference. If two steps below it are not rejected, the distance is doubled.
    step = math.sqrt(difference.variance) - difference.lowest_step + difference.upward_bias
    high = difference.difference
    if step == 0.0:  # rows do not vary, and no row can lower the difference
        return high
    low = high - 2.0 * step
    excess_at_low = excess(low)
    excess_at_high = excess(high)
    while excess_at_low > 0.0:
        step *= 2.0
        high = low
        excess_at_high = excess_at_low
        low = high - step
        excess_at_low = excess(low)

    return _root_by_secants(excess, low, high, excess_at_low, excess_at_high, tolerance=1e-7 * step)


def _root_by_secants(
    function: Callable[[float], float], low: float, high: float, at_low: float, at_high: float, *, tolerance: float
) -> float:
    """Return the root of an increasing function, by secants with the rule of Illinois.

    The rule halves the value at one end if the other end was replaced two times in a row. So both ends come near.

    Args:
        function: The function.
        low: A number below the root.
        high: A number above the root.
        at_low: The value of the function at the lower number, at most 0.
        at_high: The value at the higher number. If it is not positive, the lower number is returned.
        tolerance: The largest error of the root.
    """
    last_replaced = None
    for _ in range(60):
        if high - low < tolerance or at_high <= 0.0:
            break
        middle = low - at_low * (high - low) / (at_high - at_low)
        at_middle = function(middle)
        if abs(at_middle) < 1e-8:
            return middle
        if at_middle < 0.0:
            low = middle
            at_low = at_middle
            if last_replaced == "low":
                at_high /= 2.0
            last_replaced = "low"
        else:
            high = middle
            at_high = at_middle
            if last_replaced == "high":
                at_low /= 2.0
            last_replaced = "high"
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
    z_a = _NORMAL.inv_cdf(1.0 - SIGNIFICANCE_LEVEL / 2.0)
    z_b = _NORMAL.inv_cdf(0.8)
    # The number of rows that one data set would need for the same weights of rows.
    rows = len(difference.strata) ** 2 / math.fsum(1.0 / size for size in difference.strata)
    pseudo_row = max(-difference.lowest_step, difference.highest_step)
    bias = max(difference.upward_bias, difference.downward_bias)

    # With the fixed part f = b + bias + z_b sqrt(variance) and s = z_a^2 (variance + b^2), the equation is
    # (d - f)^2 = s + z_a^2 d^2 / rows, a quadratic one: (1 - z_a^2 / rows) d^2 - 2 f d + f^2 - s = 0.
    fixed = pseudo_row + bias + z_b * math.sqrt(difference.variance)
    spread = z_a * z_a * (difference.variance + pseudo_row**2)
    leading = 1.0 - z_a * z_a / rows
    if leading <= 0.0:
        return None
    detectable = (fixed + math.sqrt(fixed * fixed - leading * (fixed * fixed - spread))) / leading

    largest = math.fsum(map(abs, difference.steps))
    if 0.0 < detectable <= largest:
        return detectable
    return None


# -- several tests


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
    made_tests = []
    for index, p in enumerate(p_values):
        if p is None:
            continue
        if not isinstance(p, int | float) or not 0.0 <= p <= 1.0:
            raise ArgumentError(f"p-value {index} is {p!r}; expected a number from 0 to 1, or None")
        made_tests.append((p, index))

    adjusted: list[float | None] = [None] * len(p_values)
    largest_before = 0.0
    for rank, (p, index) in enumerate(sorted(made_tests)):
        multiplied = min(1.0, p * (len(p_values) - rank))
        largest_before = max(largest_before, multiplied)
        adjusted[index] = largest_before
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
    one_sided: list[float | None] = []
    for p in p_values:
        one_sided.append(None if p is None else p / 2.0)
    # The p-values of the other directions are larger than those. 1 makes the correction no smaller.
    other_directions = [1.0] * len(p_values)
    return holm([*one_sided, *other_directions])[: len(p_values)]

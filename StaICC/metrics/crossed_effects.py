r"""Variance components of a crossed design: test rows x draws of demonstrations x templates, all of them random.

The outcome of row i with draw d and template t is a sum of independent effects of mean 0,

    y_idt = mu + r_i + d_d + t_t + (rd)_id + (rt)_it + (dt)_dt + e_idt,

with one outcome for each cell, so that the interaction of all three and the rest are one component. In a balanced
design with sizes n, D, T the expected mean square of a source S (a set of factors) is

    E MS_S = sum over all sources U that contain S of var_U * (product of the sizes of the factors outside U)

(Cornfield and Tukey 1956, "Average values of mean squares in factorials"). Solving for the components gives the
unbiased ANOVA estimators (Searle, Casella and McCulloch 1992, "Variance Components", chapter 4). A source contributes
``var_S / (product of its sizes)`` to the variance of the mean, estimated by

    sum over all U that contain S of (-1)^(|U| - |S|) MS_U / (n D T),

which can be negative. Educational measurement calls this a generalisability study (Brennan 2001).

The variance of the mean is MS_r / (n D T), with draws and templates fixed (the intervals of
:mod:`~StaICC.metrics.intervals` estimate it), plus that of draws and templates:

    V = (MS_d - MS_rd) / (n D T) + (MS_t - MS_rt) / (n D T) - (MS_dt - MS_e) / (n D T).

The first two terms, cut off at 0, both contain the interaction of draws and templates, which the third subtracts; V is
at least each of them. Its degrees of freedom are those of Satterthwaite (1946, "An approximate distribution of
estimates of variance components") with the squares of MS_d and MS_t in the denominator, from which nothing is
subtracted, rounded down, and at least those of draws or of templates. Both rules make the interval wider. The distance
of the mean to a limit is the root of the sum of the squares of the distances that come from the rows, and of
``t(df)^2 V`` (Zou and Donner 2008). So a generalising interval is never narrower than that with draws and templates
fixed. Accuracies near 0 or 1 vary more towards the middle: there the distance is that of Wilson's interval with the
same variance, where it is larger.

**Intervals of the components.** Each mean square has the limits of a scaled chi-square with ``2 MS^2 / variance``
degrees of freedom. The variance is the larger one of two: that of effects with a Beta distribution, which has their
mean and variance (effects on accuracies near 1 are skewed), and the infinitesimal jackknife over rows, draws and
templates, because the variances of 0-1 outcomes depend on the levels of the other factors. The part of each factor has
the square of Student's t over that of the normal quantile. A mean square of draws or of templates has the first only.
The distances to the limits are combined as by Ting, Burdick, Graybill, Jeyaratnam and Lu (1990, "Confidence intervals
on linear combinations of variance components that are unrestricted in sign"), without their terms for pairs: the root
of the sum of the squares, or the sum where rows are no part of the source, because the mean squares have few degrees of
freedom. Variances of accuracies are at most 1/4. With less than two degrees of freedom, and without any variation, the
interval is undefined.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from itertools import product
from statistics import NormalDist
from statistics import variance as sample_variance

from StaICC.errors import UndefinedMetricError
from StaICC.metrics.intervals import Interval, student_quantile, wilson_distances

VarianceSource = tuple[int, ...]
"""Factors in rising order: 0 for rows, 1 for draws, 2 for templates."""

SOURCES: Mapping[VarianceSource, str] = {
    (0,): "rows",
    (1,): "draws",
    (2,): "templates",
    (0, 1): "rows x draws",
    (0, 2): "rows x templates",
    (1, 2): "draws x templates",
    (0, 1, 2): "rest",
}
"""The sources of variance and their names."""

_DRAWS = (1,)
_TEMPLATES = (2,)
_ROWS_DRAWS = (0, 1)
_ROWS_TEMPLATES = (0, 2)
_DRAWS_TEMPLATES = (1, 2)
_REST = (0, 1, 2)

_ROUNDING = 1e-18
"""Sums of squares up to this size are rounding errors."""

METHOD = "rows, and Satterthwaite's t for draws and templates"


@dataclass(frozen=True, slots=True)
class CrossedEffects:
    """The mean squares of a crossed design, divided by the number of outcomes."""

    sizes: tuple[int, int, int]
    """Rows, draws and templates."""
    template_means: tuple[float, ...]
    mean_squares: Mapping[VarianceSource, float]
    """In units of the variance of the mean."""
    degrees_of_freedom: Mapping[VarianceSource, float]
    """Degrees of freedom of the squares."""
    mean_square_variances: Mapping[VarianceSource, float] = field(default_factory=dict)
    """The variances of the squares; nothing for expected ones."""

    @property
    def contributions(self) -> dict[str, float]:
        """The unbiased estimate of what each source adds to the variance of the mean; it can be negative."""
        contributions = {}
        for source, name in SOURCES.items():
            terms = []
            for containing in _sources_containing(source):
                if _is_added(containing, source):
                    terms.append(self.mean_squares[containing])
                else:
                    terms.append(-self.mean_squares[containing])
            contributions[name] = math.fsum(terms)
        return contributions

    @property
    def components(self) -> dict[str, float]:
        """The unbiased estimate of the variance of each effect; it can be negative."""
        contributions = self.contributions
        return {name: contributions[name] * _number_of_cells(source, self.sizes) for source, name in SOURCES.items()}

    def intervals(self, level: float = 0.95) -> dict[str, tuple[float, float] | None]:
        """Return the limits of what each source adds to the variance of an accuracy; ``None`` where undefined."""
        limits = {
            source: _limits(square, self.mean_square_variances[source], level)
            for source, square in self.mean_squares.items()
        }
        contributions = self.contributions
        intervals: dict[str, tuple[float, float] | None] = {}
        for source, name in SOURCES.items():
            if self.degrees_of_freedom[source] < 2 or not self.mean_squares[source]:
                intervals[name] = None
            else:
                intervals[name] = self._interval(source, contributions[name], limits)
        return intervals

    def _interval(
        self, source: VarianceSource, contribution: float, limits: Mapping[VarianceSource, tuple[float, float]]
    ) -> tuple[float, float]:
        """Return the limits of the contribution of a source, from those of all mean squares."""
        lower_distances = []
        upper_distances = []
        for containing in _sources_containing(source):
            square = self.mean_squares[containing]
            low, high = limits[containing]
            if _is_added(containing, source):
                lower_distances.append(square - low)
                upper_distances.append(high - square)
            else:  # a large mean square that is subtracted makes the contribution small
                lower_distances.append(high - square)
                upper_distances.append(square - low)

        if 0 in source:
            below = math.hypot(*lower_distances)
            above = math.hypot(*upper_distances)
        else:  # mean squares without rows have few degrees of freedom
            below = math.fsum(lower_distances)
            above = math.fsum(upper_distances)

        # The variance of an effect on accuracies is at most 1/4.
        largest = max(contribution, 0.25 / _number_of_cells(source, self.sizes))
        lower_end = min(largest, max(0.0, contribution - below))
        upper_end = min(largest, max(0.0, contribution + above))
        return lower_end, upper_end

    @property
    def variance_of_levels(self) -> tuple[float, float]:
        """The variance of the mean that comes from draws and templates, and its degrees of freedom."""
        squares = self.mean_squares
        draws = max(0.0, squares[_DRAWS] - squares[_ROWS_DRAWS])
        templates = max(0.0, squares[_TEMPLATES] - squares[_ROWS_TEMPLATES])
        interaction = max(0.0, squares[_DRAWS_TEMPLATES] - squares[_REST])
        variance = max(draws, templates, draws + templates - interaction)

        least_freedom = min(self.degrees_of_freedom[_DRAWS], self.degrees_of_freedom[_TEMPLATES])
        if not variance:
            return variance, least_freedom
        denominator = 0.0
        if draws:
            denominator += squares[_DRAWS] ** 2 / self.degrees_of_freedom[_DRAWS]
        if templates:
            denominator += squares[_TEMPLATES] ** 2 / self.degrees_of_freedom[_TEMPLATES]
        return variance, max(least_freedom, variance**2 / denominator)

    def half_width(self, level: float) -> float:
        """Return the distance of the mean to a limit that comes from draws and templates."""
        variance, freedom = self.variance_of_levels
        return student_quantile(level, 1 + int(freedom)) * math.sqrt(variance)


def _sources_containing(source: VarianceSource) -> list[VarianceSource]:
    """Return the sources that have all factors of a source, itself included."""
    return [containing for containing in SOURCES if set(source) <= set(containing)]


def _is_added(containing: VarianceSource, source: VarianceSource) -> bool:
    """Return whether a mean square counts positively in the contribution of a source: (-1)^(|U| - |S|) is 1."""
    return (len(containing) - len(source)) % 2 == 0


def _number_of_cells(source: VarianceSource, sizes: Sequence[int]) -> int:
    """Return the number of combinations of levels of the factors of a source."""
    return math.prod(sizes[factor] for factor in source)


def _degrees_of_freedom(source: VarianceSource, sizes: Sequence[int]) -> int:
    """Return the degrees of freedom of the mean square of a source in one design."""
    return math.prod(sizes[factor] - 1 for factor in source)


# -- analysis of variance


_Levels = tuple[int, ...]
"""The levels of the factors of a source, such as row 3 and template 1."""

_Effects = dict[_Levels, float]
"""The effects of a source by levels of its factors."""


def crossed_effects(values: Sequence[Sequence[Sequence[float]]]) -> CrossedEffects:
    """Return the mean squares of ``values[row][draw][template]``.

    Raises:
        UndefinedMetricError: A factor has fewer than two levels.

    Example:
        >>> effects = crossed_effects([[[0, 1], [1, 1]], [[0, 0], [0, 1]], [[1, 1], [1, 1]]])
        >>> effects.sizes, round(effects.components["rows"], 4)
        ((3, 2, 2), 0.1667)
    """
    sizes = _sizes(values)
    if min(sizes) < 2:
        text = f"{sizes[0]} rows, {sizes[1]} draws and {sizes[2]} templates"
        raise UndefinedMetricError(f"variance components need two of each: got {text}")
    outcomes: dict[_Levels, float] = {}
    for row, draw, template in product(*map(range, sizes)):
        outcomes[row, draw, template] = float(values[row][draw][template])
    mean = math.fsum(outcomes.values()) / len(outcomes)
    effects = _effects(outcomes, mean)

    squares = {}
    freedom = {}
    spread = {}
    for source in SOURCES:
        levels = len(effects[source])
        freedom[source] = float(_degrees_of_freedom(source, sizes))
        sum_of_squares = math.fsum(effect * effect for effect in effects[source].values())
        squares[source] = 0.0
        if sum_of_squares > _ROUNDING:
            squares[source] = sum_of_squares / levels / freedom[source]
        spread[source] = max(
            _theoretical_spread(squares[source], levels, freedom[source], mean),
            _observed_spread(source, effects, sizes) / freedom[source] ** 2,
        )
    template_means = tuple(mean + effect for effect in effects[_TEMPLATES].values())
    return CrossedEffects(sizes, template_means, squares, freedom, spread)


def _sizes(values: Sequence[Sequence[Sequence[float]]]) -> tuple[int, int, int]:
    """Return the numbers of rows, draws and templates."""
    if not values:
        return 0, 0, 0
    draws = values[0]
    if not draws:
        return len(values), 0, 0
    return len(values), len(draws), len(draws[0])


def _effects(outcomes: Mapping[_Levels, float], mean: float) -> dict[VarianceSource, _Effects]:
    """Return the estimated effects of each source.

    The effect of some levels is the mean outcome with these levels, minus the mean of all outcomes, minus the effects
    of all sources with fewer factors.

    Args:
        outcomes: The outcome of each row, draw and template.
        mean: The mean of all outcomes.
    """
    effects: dict[VarianceSource, _Effects] = {}
    for source in SOURCES:
        sums: _Effects = {}
        for cell, outcome in outcomes.items():
            levels = tuple(cell[factor] for factor in source)
            sums[levels] = sums.get(levels, 0.0) + outcome - mean
        contained_sources = [contained for contained in effects if set(contained) < set(source)]
        effects[source] = {}
        for levels, total in sums.items():
            deviation = total * len(sums) / len(outcomes)  # each sum has len(outcomes) / len(sums) outcomes
            contained_effects = [
                effects[contained][_levels_of(contained, source, levels)] for contained in contained_sources
            ]
            effects[source][levels] = deviation - math.fsum(contained_effects)
    return effects


def _levels_of(contained: VarianceSource, source: VarianceSource, levels: _Levels) -> _Levels:
    """Return the levels of the factors of a contained source among the levels of a source."""
    return tuple(levels[source.index(factor)] for factor in contained)


# -- variances of the mean squares


def _theoretical_spread(square: float, levels: int, freedom: float, mean: float) -> float:
    """Return the variance of a mean square of effects with a Beta distribution.

    The distribution has the mean of the outcomes and the variance of the effects. With a and b its parameters and
    s = a + b, its excess kurtosis is ``6 ((a - b)^2 (s + 1) - a b (s + 2)) / (a b (s + 2) (s + 3))``. The variance of a
    mean square is ``square^2 (2 / freedom + excess / levels)``; a negative excess counts as 0.

    Args:
        square: The mean square, in units of the variance of the mean.
        levels: Number of effects.
        freedom: Degrees of freedom.
        mean: The mean of the outcomes.
    """
    largest_variance = mean * (1.0 - mean)  # that of outcomes of 0 and 1
    if square <= 0.0 or largest_variance <= 0.0:
        return 2.0 * square * square / freedom
    a_plus_b = max(1e-3, largest_variance / (square * levels) - 1.0)
    a_times_b = a_plus_b * a_plus_b * largest_variance
    a_minus_b = a_plus_b * (2.0 * mean - 1.0)
    numerator = a_minus_b**2 * (a_plus_b + 1.0) - a_times_b * (a_plus_b + 2.0)
    excess = 6.0 * numerator / (a_times_b * (a_plus_b + 2.0) * (a_plus_b + 3.0))
    return square * square * (2.0 / freedom + max(0.0, excess) / levels)


def _observed_spread(source: VarianceSource, effects: Mapping[VarianceSource, _Effects], sizes: Sequence[int]) -> float:
    """Return the jackknife variance of a mean square times its degrees of freedom; 0 for one of few levels.

    It is the sum over the three factors of the variance that comes from drawing their levels.

    Args:
        source: The source of the mean square.
        effects: The effects of all sources.
        sizes: Numbers of rows, draws and templates.
    """
    if source in (_DRAWS, _TEMPLATES):
        return 0.0
    spread = 0.0
    for factor in range(3):
        # What each level of the factor adds to the sum of squared effects of the source.
        joint_source = tuple(sorted({*source, factor}))
        additions = [0.0] * sizes[factor]
        for levels, joint_effect in effects[joint_source].items():
            level = levels[joint_source.index(factor)]
            additions[level] += joint_effect * effects[source][_levels_of(source, joint_source, levels)]

        # A level of a factor of the source has effects of its own. A level of another factor is a part of each effect,
        # whose square changes twice as much.
        weight = sizes[factor] if factor in source else 2.0
        scale = weight / len(effects[source])
        # For few levels, Student's t replaces the normal quantile.
        inflation = student_quantile(0.95, sizes[factor]) / NormalDist().inv_cdf(0.975)
        spread += (scale * inflation) ** 2 * sample_variance(additions) / sizes[factor]
    return spread


def _limits(square: float, spread: float, level: float) -> tuple[float, float]:
    """Return the limits of an expected mean square.

    The observed one is a scaled chi-square, whose degrees of freedom follow from its mean and its variance.

    Args:
        square: The observed mean square.
        spread: Its variance.
        level: Nominal coverage.
    """
    freedom = 1.0
    if spread:
        freedom = max(0.5, 2.0 * square * square / spread)
    low_quantile = chi_square_quantile((1.0 - level) / 2.0, freedom)
    high_quantile = chi_square_quantile((1.0 + level) / 2.0, freedom)
    return square * freedom / high_quantile, square * freedom / low_quantile


def chi_square_quantile(probability: float, freedom: float) -> float:
    """Return a quantile of the chi-square distribution, by bisection.

    The distribution function is a series (Abramowitz and Stegun 1964, 6.5.29). Above 50 degrees of freedom the
    quantile is that of Wilson and Hilferty (1931), with an error below 0.2 %.
    """
    if freedom > 50.0:
        scale = 2.0 / (9.0 * freedom)
        return freedom * (1.0 - scale + NormalDist().inv_cdf(probability) * math.sqrt(scale)) ** 3
    low = 0.0
    high = 4.0 * freedom + 40.0
    for _ in range(60):
        middle = (low + high) / 2.0
        if _chi_square_probability(middle, freedom) < probability:
            low = middle
        else:
            high = middle
    return high


def _chi_square_probability(x: float, freedom: float) -> float:
    """Return the probability that a chi-square variable is at most x.

    With h = freedom / 2 and y = x / 2 it is
    ``y^h exp(-y) / gamma(h + 1) * (1 + y / (h + 1) + y^2 / ((h + 1) (h + 2)) + ...)``.
    """
    half_freedom = freedom / 2.0
    half_x = x / 2.0
    term = 1.0
    series = 1.0
    count = 0
    while term > 1e-16 * series:
        count += 1
        term *= half_x / (half_freedom + count)
        series += term
    return series * math.exp(half_freedom * math.log(half_x) - half_x - math.lgamma(half_freedom + 1.0))


# -- designs of several data sets


def expected_effects(
    components: Mapping[str, float], sizes: tuple[int, int, int], datasets: int = 1, shared: float = 0.0
) -> CrossedEffects:
    """Return the expected mean squares of the mean over data sets, each with a design of the given sizes.

    Args:
        components: The variance of each effect, by the names of :data:`SOURCES`.
        sizes: Rows, draws and templates of each data set.
        datasets: Number of data sets.
        shared: The part of the variance of templates that is common to all data sets.

    Example:
        >>> effects = expected_effects({"rows": 0.2, "draws": 0.01}, (50, 4, 3))
        >>> {name: round(part, 4) for name, part in effects.components.items() if part}
        {'rows': 0.2, 'draws': 0.01}
    """
    _, n_draws, n_templates = sizes
    contributions = {}
    freedom = {}
    for source, name in SOURCES.items():
        contributions[source] = components.get(name, 0.0) / _number_of_cells(source, sizes) / datasets
        freedom[source] = float(datasets * _degrees_of_freedom(source, sizes))
    # What is common to all data sets is not divided by their number.
    contributions[_TEMPLATES] += shared * (1.0 - 1.0 / datasets) / n_templates

    squares = {}
    for source in SOURCES:
        squares[source] = math.fsum(contributions[containing] for containing in _sources_containing(source))

    # What mean_effects estimates: fewer than that of all data sets, because squares of mean squares are too large on
    # average.
    draws_freedom = n_draws - 1.0
    freedom[_DRAWS] = draws_freedom * (datasets * draws_freedom + 2.0) / (draws_freedom + 2.0)
    freedom[_TEMPLATES] = n_templates - 1.0
    return CrossedEffects(sizes, template_means=(), mean_squares=squares, degrees_of_freedom=freedom)


def mean_effects(designs: Sequence[CrossedEffects]) -> CrossedEffects:
    """Return the mean squares of the mean over data sets.

    Rows and draws of the data sets are independent. A template is not: template t of all data sets has the same kinds
    of instruction, prefixes and affixes. So the variation of templates is that of the mean over data sets.

    Args:
        designs: The design of each data set, with the same numbers of draws and templates.
    """
    _, n_draws, n_templates = designs[0].sizes
    fewest_rows = min(design.sizes[0] for design in designs)
    scale = len(designs) ** 2
    squares = {}
    spread = {}
    for source in SOURCES:
        squares[source] = math.fsum(design.mean_squares[source] for design in designs) / scale
        spread[source] = math.fsum(design.mean_square_variances.get(source, 0.0) for design in designs) / scale**2

    # Draws: Satterthwaite's degrees of freedom of a sum of mean squares, (sum)^2 / sum of (square^2 / freedom).
    freedom = dict(designs[0].degrees_of_freedom)
    denominators = [design.mean_squares[_DRAWS] ** 2 / design.degrees_of_freedom[_DRAWS] for design in designs]
    denominator = math.fsum(denominators) / scale**2
    if denominator:
        freedom[_DRAWS] = squares[_DRAWS] ** 2 / denominator

    # Templates: the mean square of the means over data sets.
    template_means = []
    for template in range(n_templates):
        template_sum = math.fsum(design.template_means[template] for design in designs)
        template_means.append(template_sum / len(designs))
    mean = math.fsum(template_means) / n_templates
    sum_of_squares = math.fsum((template_mean - mean) ** 2 for template_mean in template_means)
    squares[_TEMPLATES] = sum_of_squares / (n_templates - 1) / n_templates
    spread[_TEMPLATES] = _theoretical_spread(squares[_TEMPLATES], n_templates, freedom[_TEMPLATES], mean)
    return CrossedEffects(
        sizes=(fewest_rows, n_draws, n_templates),
        template_means=tuple(template_means),
        mean_squares=squares,
        degrees_of_freedom=freedom,
        mean_square_variances=spread,
    )


# -- inference over draws and templates


def generalise(value: float, interval: Interval, effects: CrossedEffects, *, difference: bool = False) -> Interval:
    """Return the interval of an accuracy, or of a difference of two, over rows, draws and templates.

    Args:
        value: The accuracy, or the difference.
        interval: Its interval with draws and templates fixed.
        effects: The mean squares.
        difference: Whether it is a difference.
    """
    variance, freedom = effects.variance_of_levels
    quantile = student_quantile(interval.level, 1 + int(freedom))
    below = quantile * math.sqrt(variance)
    above = below
    lowest = -1.0
    if not difference:  # accuracies near 0 or 1 vary more towards the middle
        wilson_below, wilson_above = wilson_distances(value, variance, quantile)
        below = max(below, wilson_below)
        above = max(above, wilson_above)
        lowest = 0.0
    low = value - math.hypot(value - interval.low, below)
    high = value + math.hypot(interval.high - value, above)
    return Interval(max(lowest, low), min(1.0, high), interval.level, METHOD)


def generalising_p_value(difference: float, p_value: float, effects: CrossedEffects) -> float:
    """Return the two-sided p-value of a difference, over rows, draws and templates.

    It is the level at which the interval around the difference ends at 0, and at least 1e-12; the p-value with fixed
    draws and templates says how far the limits are that come from the rows.

    Args:
        difference: The difference of two means.
        p_value: Its p-value with draws and templates fixed.
        effects: The mean squares of the differences.
    """
    if not difference or p_value >= 1.0:
        return 1.0
    normal = NormalDist()
    # The standard deviation from the rows, up to its sign: with it, the p-value of a normal variable is the given one.
    rows_deviation = difference / normal.inv_cdf(max(p_value, 1e-300) / 2.0)
    low = max(p_value, 1e-12)
    high = 1.0
    for _ in range(40):
        middle = (low + high) / 2.0
        rows_distance = rows_deviation * normal.inv_cdf(middle / 2.0)
        distance = math.hypot(rows_distance, effects.half_width(1.0 - middle))
        if distance > abs(difference):
            low = middle
        else:
            high = middle
    return high

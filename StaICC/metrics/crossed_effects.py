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

The first two terms, cut off at 0, both contain the interaction of draws and templates, which the third subtracts. V is
at least each of the first two terms. Its degrees of freedom are those of Satterthwaite (1946, "An approximate
distribution of estimates of variance components"): ``V^2 / (MS_d^2 / df_d + MS_t^2 / df_t)``, here with the whole mean
squares in the denominator, although V contains differences of them, and rounded down. Both make the interval wider.
They are at least the degrees of freedom of draws or of templates, whichever are fewer.

The distance of the mean to a limit is ``sqrt(rows_distance^2 + t(df)^2 V)``, where rows_distance is the distance with
draws and templates fixed (Zou and Donner 2008, the method MOVER). So a generalising interval is never narrower than
that with draws and templates fixed. Accuracies near 0 or 1 have a skewed distribution with the long tail towards the
middle. So ``t(df)^2 V`` is replaced by the squared distance to the Wilson limit with the same variance, where this is
larger.

**Intervals of the components.** Each mean square has the limits of a scaled chi-square with ``2 MS^2 / variance``
degrees of freedom. The variance is the larger one of two estimates:

- that of effects with a Beta distribution that has their mean and variance, because effects on accuracies near 1 are
  skewed;
- the infinitesimal jackknife over rows, draws and templates, because the variances of 0-1 outcomes depend on the levels
  of the other factors. Student's t replaces the normal quantile for factors with few levels. Draws or templates alone
  have too few levels for a jackknife, so that their mean squares have the first estimate only.

The distances to the limits of mean squares are combined as by Ting, Burdick, Graybill, Jeyaratnam and Lu (1990,
"Confidence intervals on linear combinations of variance components that are unrestricted in sign"), without their terms
for pairs: the root of the sum of the squares. For sources without rows it is the sum, which is wider, because their
mean squares have few degrees of freedom. Variances of accuracies are at most 1/4. With less than two degrees of
freedom, or without any variation, the interval is undefined.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from itertools import product
from statistics import NormalDist
from statistics import variance as sample_variance
from typing import NamedTuple

from StaICC.errors import UndefinedMetricError
from StaICC.metrics.intervals import Interval, student_quantile, wilson_distances

VarianceSource = tuple[int, ...]
"""The factors of a source of variance, in rising order: 0 for rows, 1 for draws, 2 for templates.

One factor is a main effect, and several are an interaction: ``(0, 2)`` is that of rows and templates.
"""

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

_ROW_FACTOR = 0
_DRAWS = (1,)
_TEMPLATES = (2,)
_ROWS_DRAWS = (0, 1)
_ROWS_TEMPLATES = (0, 2)
_DRAWS_TEMPLATES = (1, 2)
_REST = (0, 1, 2)

_ROUNDING = 1e-18
"""Sums of squares up to this size are rounding errors."""

METHOD = "rows, and Satterthwaite's t for draws and templates"


class VarianceOfLevels(NamedTuple):
    """The variance of a mean that comes from drawing the levels of draws and templates."""

    variance: float
    degrees_of_freedom: float
    """Those of the estimate of the variance (Satterthwaite 1946)."""


@dataclass(frozen=True, slots=True)
class CrossedEffects:
    """The mean squares of a crossed design, divided by the number of outcomes.

    Divided in this way, the mean square MS of a source is its ``MS / (n D T)`` in the formulas at the top of the
    module.
    """

    sizes: tuple[int, int, int]
    """Numbers of rows, draws and templates."""
    template_means: tuple[float, ...]
    """The mean outcome with each template; empty for expected mean squares."""
    mean_squares: Mapping[VarianceSource, float]
    """The mean square of each source, divided by the number of outcomes: ``MS / (n D T)``."""
    degrees_of_freedom: Mapping[VarianceSource, float]
    """The degrees of freedom of each mean square."""
    mean_square_variances: Mapping[VarianceSource, float] = field(default_factory=dict)
    """The sampling variance of each mean square; empty for expected mean squares."""

    @property
    def contributions(self) -> dict[str, float]:
        """The unbiased estimate of the part of each source in the variance of the mean; it can be negative.

        For a source S it is the sum of ``(-1)^(|U| - |S|) * mean_squares[U]`` over all sources U that contain S.
        """
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
        """Return the confidence interval of the part of each source in the variance of a mean accuracy.

        Args:
            level: Nominal coverage.

        Returns:
            The lower and the upper limit by the name of the source; ``None`` where they are undefined: with less than
            two degrees of freedom, or without variation.
        """
        limits_of_squares = {}
        for source, mean_square in self.mean_squares.items():
            limits_of_squares[source] = _limits(mean_square, self.mean_square_variances[source], level)
        contributions = self.contributions
        intervals: dict[str, tuple[float, float] | None] = {}
        for source, name in SOURCES.items():
            has_too_little_freedom = self.degrees_of_freedom[source] < 2
            has_no_variation = self.mean_squares[source] == 0.0
            if has_too_little_freedom or has_no_variation:
                intervals[name] = None
            else:
                intervals[name] = self._interval(source, contributions[name], limits_of_squares)
        return intervals

    def _interval(
        self, source: VarianceSource, contribution: float, limits: Mapping[VarianceSource, tuple[float, float]]
    ) -> tuple[float, float]:
        """Return the confidence limits of the contribution of a source, combined as by Ting et al. (1990).

        The contribution is a sum of mean squares, some of which are subtracted. Each has a distance to its own lower
        and upper limit. The distance from the contribution to its lower limit is the root of the sum of the squares of
        these: to the lower limit of a mean square that is added, and to the upper limit of one that is subtracted. For
        the upper limit it is the other way round. Mean squares without rows have few degrees of freedom, so that their
        distances are added up instead, which is wider.

        Args:
            source: The source.
            contribution: Its contribution.
            limits: The confidence limits of each mean square.
        """
        lower_distances = []
        upper_distances = []
        for containing in _sources_containing(source):
            square = self.mean_squares[containing]
            low, high = limits[containing]
            if _is_added(containing, source):
                lower_distances.append(square - low)
                upper_distances.append(high - square)
            else:
                lower_distances.append(high - square)
                upper_distances.append(square - low)

        if _ROW_FACTOR in source:
            below = math.hypot(*lower_distances)
            above = math.hypot(*upper_distances)
        else:
            below = math.fsum(lower_distances)
            above = math.fsum(upper_distances)

        # A variance is at least 0.
        lower_limit = max(0.0, contribution - below)
        upper_limit = max(0.0, contribution + above)
        # The variance of an effect on accuracies is at most 1/4. An estimate above that is kept.
        largest = max(contribution, 0.25 / _number_of_cells(source, self.sizes))
        return min(largest, lower_limit), min(largest, upper_limit)

    @property
    def variance_of_levels(self) -> VarianceOfLevels:
        """The variance of the mean that comes from drawing draws and templates, with its degrees of freedom.

        With the mean squares divided by the number of outcomes, it is ``V = draws + templates - interaction``, where::

            draws       = MS_d - MS_rd    (0 if negative)
            templates   = MS_t - MS_rt    (0 if negative)
            interaction = MS_dt - MS_e    (0 if negative)

        draws and templates both contain the interaction, which is subtracted once. V is at least each of them, so that
        an estimate of the interaction that is too large by chance cannot make it too small. The degrees of freedom are
        ``V^2 / (MS_d^2 / df_d + MS_t^2 / df_t)`` (Satterthwaite 1946), over those of draws and templates that are not
        0. They are at least the degrees of freedom of draws or of templates, whichever are fewer.
        """
        squares = self.mean_squares
        freedom = self.degrees_of_freedom
        draws = max(0.0, squares[_DRAWS] - squares[_ROWS_DRAWS])
        templates = max(0.0, squares[_TEMPLATES] - squares[_ROWS_TEMPLATES])
        interaction = max(0.0, squares[_DRAWS_TEMPLATES] - squares[_REST])
        variance = max(draws, templates, draws + templates - interaction)

        least_freedom = min(freedom[_DRAWS], freedom[_TEMPLATES])
        if variance == 0.0:
            return VarianceOfLevels(variance, least_freedom)
        denominator = 0.0
        if draws > 0.0:
            denominator += squares[_DRAWS] ** 2 / freedom[_DRAWS]
        if templates > 0.0:
            denominator += squares[_TEMPLATES] ** 2 / freedom[_TEMPLATES]
        return VarianceOfLevels(variance, max(least_freedom, variance**2 / denominator))

    def half_width(self, level: float) -> float:
        """Return half the width of the interval of the mean over draws and templates, with rows fixed: t * sqrt(V)."""
        variance, freedom = self.variance_of_levels
        return student_quantile(level, 1 + int(freedom)) * math.sqrt(variance)


def _sources_containing(source: VarianceSource) -> list[VarianceSource]:
    """Return the sources whose factors include all factors of a source: itself, and interactions with it."""
    return [containing for containing in SOURCES if set(source) <= set(containing)]


def _is_added(containing: VarianceSource, source: VarianceSource) -> bool:
    """Return whether the mean square of a containing source U is added in the contribution of S, and not subtracted.

    The sign is ``(-1)^(|U| - |S|)``, by inclusion-exclusion. The mean square of S contains the variances of all
    interactions with S. Subtracting the mean squares of the sources with one more factor removes these, but removes the
    interaction of all three factors twice, so that it is added again.
    """
    return (len(containing) - len(source)) % 2 == 0


def _number_of_cells(source: VarianceSource, sizes: Sequence[int]) -> int:
    """Return the number of combinations of levels of the factors of a source."""
    return math.prod(sizes[factor] for factor in source)


def _degrees_of_freedom(source: VarianceSource, sizes: Sequence[int]) -> int:
    """Return the degrees of freedom of the mean square of a source in one design."""
    return math.prod(sizes[factor] - 1 for factor in source)


# -- analysis of variance


_Levels = tuple[int, ...]
"""One level of each factor of a source, such as ``(3, 1)`` for row 3 and template 1."""

_Effects = dict[_Levels, float]
"""The effect of each combination of levels of the factors of a source."""


def crossed_effects(values: Sequence[Sequence[Sequence[float]]]) -> CrossedEffects:
    """Return the mean squares of a crossed design, with their degrees of freedom and sampling variances.

    The analysis of variance has one mean square for each source: rows, draws, templates, and their interactions. The
    sampling variance of each is estimated in two ways, which allow for different things: that effects on accuracies are
    skewed (:func:`_beta_variance`), and that the variance of 0-1 outcomes depends on the levels of the other factors
    (:func:`_jackknife_variance`). The larger one is taken, so that confidence intervals are rather too wide than too
    narrow.

    Args:
        values: The outcomes, as ``values[row][draw][template]``.

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
    mean_outcome = math.fsum(outcomes.values()) / len(outcomes)
    effects = _effects(outcomes, mean_outcome)

    mean_squares = {}
    degrees_of_freedom = {}
    mean_square_variances = {}
    for source in SOURCES:
        freedom = float(_degrees_of_freedom(source, sizes))
        mean_square = _mean_square(effects[source], freedom)
        beta_variance = _beta_variance(
            mean_square, n_effects=len(effects[source]), degrees_of_freedom=freedom, mean_outcome=mean_outcome
        )
        # The mean square is the mean squared effect divided by `freedom`, so its variance is divided by freedom^2.
        jackknife_variance = _jackknife_variance(source, effects, sizes) / freedom**2
        mean_squares[source] = mean_square
        degrees_of_freedom[source] = freedom
        mean_square_variances[source] = max(beta_variance, jackknife_variance)
    template_means = tuple(mean_outcome + effect for effect in effects[_TEMPLATES].values())
    return CrossedEffects(
        sizes=sizes,
        template_means=template_means,
        mean_squares=mean_squares,
        degrees_of_freedom=degrees_of_freedom,
        mean_square_variances=mean_square_variances,
    )


def _mean_square(effects: _Effects, degrees_of_freedom: float) -> float:
    """Return the mean square MS of the effects of a source, divided by the number N of outcomes.

    Each of the m effects of the source belongs to N / m outcomes. So
    ``MS = (N / m) * (sum of squared effects) / degrees_of_freedom``, and
    ``MS / N = (sum of squared effects) / m / degrees_of_freedom``.

    Args:
        effects: The m effects.
        degrees_of_freedom: The degrees of freedom of the source.
    """
    sum_of_squares = math.fsum(effect * effect for effect in effects.values())
    if sum_of_squares <= _ROUNDING:
        return 0.0
    return sum_of_squares / len(effects) / degrees_of_freedom


def _sizes(values: Sequence[Sequence[Sequence[float]]]) -> tuple[int, int, int]:
    """Return the numbers of rows, draws and templates of ``values[row][draw][template]``."""
    if not values:
        return 0, 0, 0
    draws = values[0]
    if not draws:
        return len(values), 0, 0
    return len(values), len(draws), len(draws[0])


def _effects(outcomes: Mapping[_Levels, float], mean: float) -> dict[VarianceSource, _Effects]:
    """Return the estimated effects of each source of variance.

    An effect belongs to a combination of levels, such as row 3 with template 1. It is the mean of the outcomes with
    these levels, minus the mean of all outcomes, minus the effects of each part of the combination: here the effect of
    row 3 and the effect of template 1. What remains is the interaction of the two.

    Args:
        outcomes: The outcome of each row, draw and template.
        mean: The mean of all outcomes.

    Returns:
        For each source its effects, by the levels of its factors: ``effects[0, 2][3, 1]`` is that of row 3 and template
        1.
    """
    effects: dict[VarianceSource, _Effects] = {}
    for source in SOURCES:  # single factors come before their interactions
        contained_sources = [contained for contained in effects if set(contained) < set(source)]
        effects[source] = {}
        for levels, deviation in _mean_deviations(outcomes, mean, source).items():
            contained_effects = []
            for contained in contained_sources:
                contained_effects.append(effects[contained][_levels_of(contained, source, levels)])
            effects[source][levels] = deviation - math.fsum(contained_effects)
    return effects


def _mean_deviations(outcomes: Mapping[_Levels, float], mean: float, source: VarianceSource) -> _Effects:
    """Return the mean of the outcomes with each combination of levels of a source, minus the mean of all outcomes.

    Args:
        outcomes: The outcome of each row, draw and template.
        mean: The mean of all outcomes.
        source: The factors that are combined, such as ``(0, 2)`` for rows and templates.
    """
    sums: _Effects = {}
    for cell, outcome in outcomes.items():
        levels = tuple(cell[factor] for factor in source)
        sums[levels] = sums.get(levels, 0.0) + outcome - mean
    # Each combination has equally many outcomes, len(outcomes) / len(sums). So a sum is multiplied by the inverse.
    return {levels: total * len(sums) / len(outcomes) for levels, total in sums.items()}


def _levels_of(contained: VarianceSource, source: VarianceSource, levels: _Levels) -> _Levels:
    """Return the levels that belong to the factors of a contained source.

    Args:
        contained: A source whose factors are all in ``source``.
        source: A source.
        levels: One level of each factor of ``source``.

    Example:
        >>> _levels_of((2,), (0, 2), (3, 1))  # of row 3 and template 1, the template
        (1,)
    """
    return tuple(levels[source.index(factor)] for factor in contained)


# -- variances of the mean squares


def _beta_variance(mean_square: float, n_effects: int, degrees_of_freedom: float, mean_outcome: float) -> float:
    """Return the sampling variance of a mean square, if the effects of its source have a Beta distribution.

    A mean square is ``s^2 / n``, where ``s^2`` is the sample variance of n effects. The variance of a sample variance
    is ``s^4 * (2 / degrees_of_freedom + excess kurtosis / n)``, so that of the mean square is the same with
    ``(s^2 / n)^2`` in the place of ``s^4``.

    Effects on accuracies near 0 or 1 are skewed, as a Beta distribution is. Its parameters a and b follow from the mean
    of the outcomes and the variance of the effects, and its excess kurtosis from these::

        a + b  = mean (1 - mean) / s^2 - 1
        excess = 6 ((a - b)^2 (a + b + 1) - a b (a + b + 2)) / (a b (a + b + 2) (a + b + 3))

    A negative excess counts as 0, that of a normal distribution: the variance is then rather too large than too small.

    Args:
        mean_square: The mean square ``s^2 / n``, as :class:`CrossedEffects` has it.
        n_effects: Number n of effects of the source, such as the number of templates.
        degrees_of_freedom: Degrees of freedom of the mean square.
        mean_outcome: The mean of the outcomes.
    """
    largest_variance = mean_outcome * (1.0 - mean_outcome)  # that of outcomes that are all 0 or 1
    if mean_square <= 0.0 or largest_variance <= 0.0:  # there is no such Beta distribution: the excess counts as 0
        return 2.0 * mean_square * mean_square / degrees_of_freedom
    variance_of_effects = mean_square * n_effects
    # An estimated variance can reach the largest possible one, for which a + b is 0, and the excess infinite.
    a_plus_b = max(1e-3, largest_variance / variance_of_effects - 1.0)
    a_times_b = a_plus_b * a_plus_b * largest_variance  # a = mean (a + b) and b = (1 - mean) (a + b)
    a_minus_b = a_plus_b * (2.0 * mean_outcome - 1.0)
    numerator = a_minus_b**2 * (a_plus_b + 1.0) - a_times_b * (a_plus_b + 2.0)
    excess = 6.0 * numerator / (a_times_b * (a_plus_b + 2.0) * (a_plus_b + 3.0))
    return mean_square * mean_square * (2.0 / degrees_of_freedom + max(0.0, excess) / n_effects)


def _jackknife_variance(
    source: VarianceSource, effects: Mapping[VarianceSource, _Effects], sizes: Sequence[int]
) -> float:
    """Return the sampling variance of the mean squared effect of a source, by the infinitesimal jackknife.

    The levels of all three factors are drawn at random: with other rows, draws or templates, the mean squared effect M
    would be another. The influence of a level on M is the derivative of M by the weight of the level (Jaeckel 1972).
    The variance of M is the sum over the three factors of
    ``variance of the influences of its levels / number of its levels``.

    With m effects e of the source, ``M = sum(e^2) / m``, the influence of a level is, up to a constant:

    - If its factor is one of the source: ``n_levels * (sum of e^2 over the effects with this level) / m``, because M is
      the mean over the levels of this number.
    - If not: ``2 * (sum of i * e) / m``, where i is the effect of the cell in which the levels of e meet this level.
      For example, the source is rows, e the effect of a row, the level a template: i is the effect of rows x templates
      for this row and this template. More weight on the template moves e by i, and so ``e^2`` by ``2 * i * e``.

    Args:
        source: The source of the mean square.
        effects: The effects of all sources.
        sizes: Numbers of rows, draws and templates.

    Returns:
        The variance; 0 for draws or templates alone, which have too few levels for this estimate.
    """
    if source in (_DRAWS, _TEMPLATES):
        return 0.0
    n_effects = len(effects[source])  # m
    normal_quantile = NormalDist().inv_cdf(0.975)  # of a two-sided interval of 95 %
    variance = 0.0
    for factor, n_levels in enumerate(sizes):
        # For each level of the factor the sum of e^2, or the sum of i * e.
        sums_by_level = _sums_of_products(source, factor, effects, n_levels)
        weight = float(n_levels) if factor in source else 2.0
        # A variance from few levels is uncertain. So it is enlarged by the squared ratio of two quantiles, both for a
        # two-sided interval of 95 %: that of Student's t and the normal one.
        inflation = student_quantile(0.95, n_levels) / normal_quantile
        scale = weight / n_effects * inflation
        variance += scale**2 * sample_variance(sums_by_level) / n_levels
    return variance


def _sums_of_products(
    source: VarianceSource, factor: int, effects: Mapping[VarianceSource, _Effects], n_levels: int
) -> list[float]:
    """Return for each level of a factor the sum that its influence on the mean squared effect of a source needs.

    With e the effects of the source (:func:`_jackknife_variance`), it is:

    - If the factor is one of the source, the sum of ``e^2`` over the effects with this level. For example, the source
      is rows x templates, and the factor templates: the sum is over all rows with this template.
    - If not, the sum of ``i * e`` over all effects, where i is the effect of the cell in which the levels of e meet
      this level. For example, the source is rows, and the factor templates: i is the effect of rows x templates for
      this row and this template.

    Both are computed in one way. The joint source has the factors of the source and this factor. In the first case it
    is the source itself, so that i is e.

    Args:
        source: The source of the effects e.
        factor: The factor: 0 for rows, 1 for draws, 2 for templates.
        effects: The effects of all sources.
        n_levels: Number of levels of the factor.
    """
    joint_source = tuple(sorted({*source, factor}))
    position_of_factor = joint_source.index(factor)
    sums = [0.0] * n_levels
    for joint_levels, joint_effect in effects[joint_source].items():
        levels_of_source = _levels_of(source, joint_source, joint_levels)
        level_of_factor = joint_levels[position_of_factor]
        sums[level_of_factor] += joint_effect * effects[source][levels_of_source]
    return sums


def _limits(mean_square: float, variance: float, level: float) -> tuple[float, float]:
    """Return the lower and the upper confidence limit of an expected mean square.

    The observed mean square MS is taken as ``expected * chi2 / f``, where chi2 is a chi-square variable with f degrees
    of freedom. So the limits of the expected one are ``MS * f / quantile of chi2``, the upper quantile for the lower
    limit.

    f follows from the sampling variance of MS, which is then ``2 * expected^2 / f``: ``f = 2 * MS^2 / variance``. It is
    at least 0.5, because the quantiles, by which the limits are divided, vanish for smaller numbers.

    Args:
        mean_square: The observed mean square.
        variance: Its sampling variance.
        level: Nominal coverage.
    """
    freedom = 1.0  # without variance, the mean square is 0, and any number gives the limits 0
    if variance > 0.0:
        freedom = max(0.5, 2.0 * mean_square * mean_square / variance)
    low_quantile = chi_square_quantile((1.0 - level) / 2.0, freedom)
    high_quantile = chi_square_quantile((1.0 + level) / 2.0, freedom)
    return mean_square * freedom / high_quantile, mean_square * freedom / low_quantile


def chi_square_quantile(probability: float, freedom: float) -> float:
    """Return a quantile of the chi-square distribution.

    Up to 50 degrees of freedom it is found by bisection of the distribution function. Above, it is the approximation of
    Wilson and Hilferty (1931), whose error is below 0.2 % there.

    Args:
        probability: The probability of a value up to the quantile.
        freedom: Degrees of freedom; they need not be whole.
    """
    if freedom > 50.0:
        scale = 2.0 / (9.0 * freedom)
        return freedom * (1.0 - scale + NormalDist().inv_cdf(probability) * math.sqrt(scale)) ** 3
    low = 0.0
    high = 4.0 * freedom + 40.0
    for _ in range(60):
        middle = (low + high) / 2.0
        if chi_square_probability(middle, freedom) < probability:
            low = middle
        else:
            high = middle
    return high


def chi_square_probability(x: float, freedom: float) -> float:
    """Return the probability that a chi-square variable is at most x.

    It is the regularized incomplete gamma function (Abramowitz and Stegun 1964, 6.5.29). With h = freedom / 2 and
    y = x / 2::

        y^h exp(-y) / gamma(h + 1) * (1 + y / (h + 1) + y^2 / ((h + 1) (h + 2)) + ...)

    The series ends when a term changes no digit.

    Args:
        x: The number, above 0.
        freedom: Degrees of freedom; they need not be whole.
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
    """Return the expected mean squares of the mean over data sets, for designs that are planned.

    Each data set has a design of the given sizes. A source with the variance v of its effects contributes
    ``v / (number of its effects) / (number of data sets)`` to the variance of the mean. The expected mean square of a
    source is the sum of the contributions of all sources that contain it (at the top of the module).

    Args:
        components: The variance of each effect, by the names of :data:`SOURCES`.
        sizes: Rows, draws and templates of each data set.
        datasets: Number of data sets.
        shared: The part of the variance of templates that all data sets have in common, so that their mean does not
            reduce it.

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
    # The variance that is common to all data sets was divided by their number: the other part is added.
    contributions[_TEMPLATES] += shared * (1.0 - 1.0 / datasets) / n_templates
    freedom[_DRAWS] = _expected_freedom_of_draws(n_draws, datasets)
    freedom[_TEMPLATES] = n_templates - 1.0

    squares = {}
    for source in SOURCES:
        squares[source] = math.fsum(contributions[containing] for containing in _sources_containing(source))
    return CrossedEffects(sizes, template_means=(), mean_squares=squares, degrees_of_freedom=freedom)


def _expected_freedom_of_draws(n_draws: int, datasets: int) -> float:
    """Return the degrees of freedom that :func:`mean_effects` is expected to estimate for the mean square of draws.

    For D data sets with f degrees of freedom each, they are ``f (sum of MS)^2 / (sum of MS^2)``. With E MS = 1 and
    E MS^2 = 1 + 2 / f, the expected numerator over the expected denominator is
    ``f (D^2 + 2 D / f) / (D (1 + 2 / f)) = f (D f + 2) / (f + 2)``.

    Args:
        n_draws: Number of draws of each data set.
        datasets: Number of data sets.
    """
    freedom = n_draws - 1.0
    return freedom * (datasets * freedom + 2.0) / (freedom + 2.0)


def mean_effects(designs: Sequence[CrossedEffects]) -> CrossedEffects:
    """Return the mean squares of the mean over data sets, from those of each data set.

    Rows and draws of different data sets are independent. So the mean square of the mean is the sum of the mean squares
    of the data sets, divided by the square of their number, as the variance of a mean is. Its sampling variance is the
    sum, divided by the fourth power of their number.
    For draws, the degrees of freedom are those of a sum of mean squares (Satterthwaite 1946):
    ``(sum of MS)^2 / sum of (MS^2 / df)``.

    Templates of different data sets are not independent: template t has the same kinds of instruction, prefixes and
    affixes on all data sets. So the mean square of templates is that of the means over data sets with each template.

    Args:
        designs: The design of each data set, with the same numbers of draws and templates.
    """
    _, n_draws, n_templates = designs[0].sizes
    fewest_rows = min(design.sizes[0] for design in designs)
    scale = len(designs) ** 2  # the variance of a mean is the sum of the variances, divided by this
    squares = {}
    variances = {}
    for source in SOURCES:
        squares[source] = math.fsum(design.mean_squares[source] for design in designs) / scale
        variances[source] = math.fsum(design.mean_square_variances.get(source, 0.0) for design in designs) / scale**2

    # Draws: the degrees of freedom of a sum.
    freedom = dict(designs[0].degrees_of_freedom)
    denominators = [design.mean_squares[_DRAWS] ** 2 / design.degrees_of_freedom[_DRAWS] for design in designs]
    denominator = math.fsum(denominators) / scale**2
    if denominator:
        freedom[_DRAWS] = squares[_DRAWS] ** 2 / denominator

    # Templates: the mean square of the means over data sets.
    template_means = _means_by_template(designs)
    mean = math.fsum(template_means) / n_templates
    sum_of_squares = math.fsum((template_mean - mean) ** 2 for template_mean in template_means)
    squares[_TEMPLATES] = sum_of_squares / (n_templates - 1) / n_templates
    variances[_TEMPLATES] = _beta_variance(squares[_TEMPLATES], n_templates, freedom[_TEMPLATES], mean)
    return CrossedEffects(
        sizes=(fewest_rows, n_draws, n_templates),
        template_means=tuple(template_means),
        mean_squares=squares,
        degrees_of_freedom=freedom,
        mean_square_variances=variances,
    )


def _means_by_template(designs: Sequence[CrossedEffects]) -> list[float]:
    """Return for each template the mean outcome with it, over all data sets."""
    means_by_dataset = [design.template_means for design in designs]
    return [math.fsum(means) / len(designs) for means in zip(*means_by_dataset, strict=True)]


# -- inference over draws and templates


def generalise(value: float, interval: Interval, effects: CrossedEffects, *, difference: bool = False) -> Interval:
    """Return the interval of an accuracy, or of a difference of two, for other rows, draws and templates.

    The given interval is for other rows, with the same draws and templates. The variance V that comes from drawing
    draws and templates is added by MOVER (Zou and Donner 2008): the squared distances to a limit are added up. The
    distance from V is ``t * sqrt(V)``, with the quantile t of Student's t for the degrees of freedom of V.

    An accuracy near 0 or 1 has a skewed distribution with its long tail towards the middle. So its distance from V is
    at least that to the Wilson limit with the variance V. A difference has no such skewness.

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
    lowest_possible = -1.0
    if not difference:
        wilson_below, wilson_above = wilson_distances(value, variance, quantile)
        below = max(below, wilson_below)
        above = max(above, wilson_above)
        lowest_possible = 0.0
    low = value - math.hypot(value - interval.low, below)
    high = value + math.hypot(interval.high - value, above)
    return Interval(max(lowest_possible, low), min(1.0, high), interval.level, METHOD)


def generalising_p_value(difference: float, p_value: float, effects: CrossedEffects) -> float:
    """Return the two-sided p-value of a difference, for other rows, draws and templates.

    It is the number p for which the interval of the difference with the coverage 1 - p ends at 0. The distance from the
    difference to the end of this interval has two sources, which are combined as in :func:`generalise`::

        distance = sqrt(rows_distance^2 + half_width^2)

    - rows_distance is that of a normal variable, ``deviation * quantile(p / 2)``. Its standard deviation follows from
      the p-value with draws and templates fixed: ``difference / quantile(p_value / 2)``.
    - half_width comes from draws and templates (:meth:`CrossedEffects.half_width`).

    A larger p makes the interval narrower, so that p is found by bisection. It is at least 1e-12.

    Args:
        difference: The difference of two means, of any sign.
        p_value: Its two-sided p-value with draws and templates fixed.
        effects: The mean squares of the differences.
    """
    if not difference or p_value >= 1.0:
        return 1.0
    normal = NormalDist()
    # The deviation may be negative, which has no effect: hypot() uses the absolute value of the distance.
    quantile_of_p = normal.inv_cdf(max(p_value, 1e-300) / 2.0)
    rows_deviation = difference / quantile_of_p
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

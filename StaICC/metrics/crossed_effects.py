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
from statistics import NormalDist, variance

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
_ROWS, _DRAWS, _TEMPLATES = (0,), (1,), (2,)
_ROUNDING = 1e-18
METHOD = "rows, and Satterthwaite's t for draws and templates"


@dataclass(frozen=True, slots=True)
class CrossedEffects:
    """The mean squares of a crossed design, divided by the number of outcomes."""

    sizes: tuple[int, int, int]
    """Rows, draws and templates."""
    template_means: tuple[float, ...]
    squares: Mapping[VarianceSource, float]
    """In units of the variance of the mean."""
    freedom: Mapping[VarianceSource, float]
    """Degrees of freedom of the squares."""
    spread: Mapping[VarianceSource, float] = field(default_factory=dict)
    """The variances of the squares; nothing for expected ones."""

    @property
    def contributions(self) -> dict[str, float]:
        """The unbiased estimate of what each source adds to the variance of the mean; it can be negative."""
        return {
            name: math.fsum(
                (-1) ** (len(other) - len(source)) * square
                for other, square in self.squares.items()
                if set(source) <= set(other)
            )
            for source, name in SOURCES.items()
        }

    @property
    def components(self) -> dict[str, float]:
        """The unbiased estimate of the variance of each effect; it can be negative."""
        return {
            SOURCES[source]: contribution * math.prod(self.sizes[factor] for factor in source)
            for source, contribution in zip(SOURCES, self.contributions.values(), strict=True)
        }

    def intervals(self, level: float = 0.95) -> dict[str, tuple[float, float] | None]:
        """Return the limits of what each source adds to the variance of an accuracy; ``None`` where undefined."""
        limits = {source: _limits(square, self.spread[source], level) for source, square in self.squares.items()}
        found: dict[str, tuple[float, float] | None] = {}
        for (source, name), value in zip(SOURCES.items(), self.contributions.values(), strict=True):
            below, above = [], []
            for other, square in self.squares.items():
                if set(source) <= set(other):
                    distances = square - limits[other][0], limits[other][1] - square
                    added = len(other) % 2 == len(source) % 2
                    below.append(distances[not added])
                    above.append(distances[added])
            reach = [math.hypot(*side) if 0 in source else math.fsum(side) for side in (below, above)]
            most = max(value, 0.25 / math.prod(self.sizes[factor] for factor in source))
            ends = (min(most, max(0.0, end)) for end in (value - reach[0], value + reach[1]))
            found[name] = None if self.freedom[source] < 2 or not self.squares[source] else (next(ends), next(ends))
        return found

    @property
    def between_levels(self) -> tuple[float, float]:
        """The variance of the mean that comes from draws and templates, and its degrees of freedom."""
        squares, freedom = self.squares, self.freedom
        draws = max(0.0, squares[_DRAWS] - squares[0, 1])
        templates = max(0.0, squares[_TEMPLATES] - squares[0, 2])
        shared = max(0.0, squares[1, 2] - squares[0, 1, 2])
        variance = max(draws, templates, draws + templates - shared)
        least = min(freedom[_DRAWS], freedom[_TEMPLATES])
        spread = (draws and squares[_DRAWS]) ** 2 / freedom[_DRAWS]
        spread += (templates and squares[_TEMPLATES]) ** 2 / freedom[_TEMPLATES]
        return variance, max(least, variance**2 / spread) if variance else least

    def reach(self, level: float) -> float:
        """Return the distance of the mean to a limit that comes from draws and templates."""
        variance, freedom = self.between_levels
        return student_quantile(level, 1 + int(freedom)) * math.sqrt(variance)


def crossed_effects(values: Sequence[Sequence[Sequence[float]]]) -> CrossedEffects:
    """Return the mean squares of ``values[row][draw][template]``.

    Raises:
        UndefinedMetricError: A factor has fewer than two levels.

    Example:
        >>> effects = crossed_effects([[[0, 1], [1, 1]], [[0, 0], [0, 1]], [[1, 1], [1, 1]]])
        >>> effects.sizes, round(effects.components["rows"], 4)
        ((3, 2, 2), 0.1667)
    """
    sizes = len(values), len(values[0]) if values else 0, len(values[0][0]) if values and values[0] else 0
    if min(sizes) < 2:
        text = f"{sizes[0]} rows, {sizes[1]} draws and {sizes[2]} templates"
        raise UndefinedMetricError(f"variance components need two of each: got {text}")
    cells = list(product(*map(range, sizes)))
    number = len(cells)
    outcomes = [float(values[row][draw][template]) for row, draw, template in cells]
    mean = math.fsum(outcomes) / number
    effects: dict[VarianceSource, _Effects] = {}
    squares: dict[VarianceSource, float] = {}
    freedom: dict[VarianceSource, float] = {}
    for source in SOURCES:
        sums: _Effects = {}
        for cell, outcome in zip(cells, outcomes, strict=True):
            place = tuple(cell[factor] for factor in source)
            sums[place] = sums.get(place, 0.0) + outcome - mean
        within = [part for part in effects if set(part) < set(source)]
        effects[source] = {
            place: total * len(sums) / number - math.fsum(effects[part][_at(place, source, part)] for part in within)
            for place, total in sums.items()
        }
        freedom[source] = float(math.prod(sizes[factor] - 1 for factor in source))
        sum_of_squares = math.fsum(effect * effect for effect in effects[source].values())
        squares[source] = sum_of_squares / len(sums) / freedom[source] if sum_of_squares > _ROUNDING else 0.0
    template_means = tuple(mean + effect for effect in effects[_TEMPLATES].values())
    spread = {
        source: max(
            _theoretical_spread(square, len(effects[source]), freedom[source], mean),
            _observed_spread(source, effects, sizes) / freedom[source] ** 2,
        )
        for source, square in squares.items()
    }
    return CrossedEffects(sizes, template_means, squares, freedom, spread)


_Effects = dict[tuple[int, ...], float]
"""Effects by levels of the factors of a source."""


def _at(place: tuple[int, ...], source: VarianceSource, part: VarianceSource) -> tuple[int, ...]:
    """Return the levels of the factors of a part of the source."""
    return tuple(place[source.index(factor)] for factor in part)


def _theoretical_spread(square: float, levels: int, freedom: float, mean: float) -> float:
    """Return the variance of a mean square of effects with a Beta distribution."""
    binary = mean * (1.0 - mean)
    if square <= 0.0 or binary <= 0.0:
        return 2.0 * square * square / freedom
    total = max(1e-3, binary / (square * levels) - 1.0)
    product_of_both = total * total * binary
    skewed = (total * (2.0 * mean - 1.0)) ** 2 * (total + 1.0) - product_of_both * (total + 2.0)
    excess = 6.0 * skewed / (product_of_both * (total + 2.0) * (total + 3.0))
    return square * square * (2.0 / freedom + max(0.0, excess) / levels)


def _observed_spread(source: VarianceSource, effects: Mapping[VarianceSource, _Effects], sizes: Sequence[int]) -> float:
    """Return the jackknife variance of a mean square times its degrees of freedom; 0 for one of few levels."""
    spread = 0.0
    for factor in range(3) if source not in (_DRAWS, _TEMPLATES) else ():
        whole = tuple(sorted({*source, factor}))
        slopes = [0.0] * sizes[factor]
        for place, effect in effects[whole].items():
            slopes[place[whole.index(factor)]] += effect * effects[source][_at(place, whole, source)]
        scale = (sizes[factor] if factor in source else 2.0) / len(effects[source])
        quantile = student_quantile(0.95, sizes[factor]) / NormalDist().inv_cdf(0.975)
        spread += (scale * quantile) ** 2 * variance(slopes) / sizes[factor]
    return spread


def _limits(square: float, spread: float, level: float) -> tuple[float, float]:
    """Return the limits of an expected mean square: the observed one is a scaled chi-square."""
    freedom = max(0.5, 2.0 * square * square / spread) if spread else 1.0
    high, low = (chi_square_quantile((1.0 + sign * level) / 2.0, freedom) for sign in (-1.0, 1.0))
    return square * freedom / low, square * freedom / high


def chi_square_quantile(probability: float, freedom: float) -> float:
    """Return a quantile of the chi-square distribution, by bisection.

    The distribution function is a series (Abramowitz and Stegun 1964, 6.5.29). Above 50 degrees of freedom the
    quantile is that of Wilson and Hilferty (1931), with an error below 0.2 %.
    """
    if freedom > 50.0:
        scale = 2.0 / (9.0 * freedom)
        return freedom * (1.0 - scale + NormalDist().inv_cdf(probability) * math.sqrt(scale)) ** 3
    low, high, half = 0.0, 4.0 * freedom + 40.0, freedom / 2.0
    for _ in range(60):
        middle = (low + high) / 2.0
        total = term = 1.0
        count = 0
        while term > 1e-16 * total:
            count += 1
            term *= middle / 2.0 / (half + count)
            total += term
        reached = total * math.exp(half * math.log(middle / 2.0) - middle / 2.0 - math.lgamma(half + 1.0))
        low, high = (middle, high) if reached < probability else (low, middle)
    return high


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
    parts = {
        source: components.get(name, 0.0) / math.prod(sizes[factor] for factor in source) / datasets
        for source, name in SOURCES.items()
    }
    parts[_TEMPLATES] += shared * (1.0 - 1.0 / datasets) / sizes[2]
    squares = {
        source: math.fsum(part for other, part in parts.items() if set(source) <= set(other)) for source in SOURCES
    }
    freedom = {source: float(datasets * math.prod(sizes[factor] - 1 for factor in source)) for source in SOURCES}
    draws = sizes[1] - 1.0
    # what mean_effects estimates: fewer than datasets * draws, because squares of mean squares are too large on average
    freedom |= {_DRAWS: draws * (datasets * draws + 2.0) / (draws + 2.0), _TEMPLATES: sizes[2] - 1.0}
    return CrossedEffects(sizes, (), squares, freedom)


def mean_effects(designs: Sequence[CrossedEffects]) -> CrossedEffects:
    """Return the mean squares of the mean over data sets.

    Rows and draws of the data sets are independent. A template is not: template t of all data sets has the same kinds
    of instruction, prefixes and affixes. So the variation of templates is that of the mean over data sets.

    Args:
        designs: The design of each data set, with the same numbers of draws and templates.
    """
    scale = len(designs) ** 2
    squares = {source: math.fsum(design.squares[source] for design in designs) / scale for source in SOURCES}
    freedom = dict(designs[0].freedom)
    spread = math.fsum(design.squares[_DRAWS] ** 2 / design.freedom[_DRAWS] for design in designs) / scale**2
    freedom[_DRAWS] = squares[_DRAWS] ** 2 / spread if spread else freedom[_DRAWS]
    means = tuple(math.fsum(column) / len(designs) for column in zip(*(d.template_means for d in designs), strict=True))
    middle, levels = math.fsum(means) / len(means), len(means)
    squares[_TEMPLATES] = math.fsum((mean - middle) ** 2 for mean in means) / (levels - 1) / levels
    variances = {source: math.fsum(d.spread.get(source, 0.0) for d in designs) / scale**2 for source in SOURCES}
    variances[_TEMPLATES] = _theoretical_spread(squares[_TEMPLATES], levels, freedom[_TEMPLATES], middle)
    return CrossedEffects((min(d.sizes[0] for d in designs), *designs[0].sizes[1:]), means, squares, freedom, variances)


def generalise(value: float, interval: Interval, effects: CrossedEffects, *, difference: bool = False) -> Interval:
    """Return the interval of an accuracy, or of a difference of two, over rows, draws and templates.

    Args:
        value: The accuracy, or the difference.
        interval: Its interval with draws and templates fixed.
        effects: The mean squares.
        difference: Whether it is a difference.
    """
    variance, freedom = effects.between_levels
    quantile = student_quantile(interval.level, 1 + int(freedom))
    reach = quantile * math.sqrt(variance)
    below, above = (0.0, 0.0) if difference else wilson_distances(value, variance, quantile)
    low = value - math.hypot(value - interval.low, max(reach, below))
    high = value + math.hypot(interval.high - value, max(reach, above))
    return Interval(max(-1.0 if difference else 0.0, low), min(1.0, high), interval.level, METHOD)


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
    scale = difference / normal.inv_cdf(max(p_value, 1e-300) / 2.0)
    low, high = max(p_value, 1e-12), 1.0
    for _ in range(40):
        middle = (low + high) / 2.0
        reach = math.hypot(scale * normal.inv_cdf(middle / 2.0), effects.reach(1.0 - middle))
        low, high = (middle, high) if reach > abs(difference) else (low, middle)
    return high

"""Plans: how many test rows, draws, templates, data sets a precision or a difference needs.

A plan has the lowest cost in tokens.

The components of variance are those of a pilot run, or :data:`MEASURED`. Mean squares of few draws and templates vary,
and the interval with them. So precision and power of a design are means over 128 quasi-random points (Halton) of these
mean squares, which are scaled chi-squares (quantiles by Wilson and Hilferty 1931). The estimate of the difference is
normal and independent of them. The interval of an accuracy is that of
:func:`~StaICC.metrics.crossed_effects.generalise`, at the accuracy of the pilot.

If the rows of the pilot are in clusters, the cluster is the unit in the place of the row: components are those of
clusters, and a design has a number of clusters. More rows of the same clusters are no more units.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from itertools import product
from statistics import NormalDist, fmean

from StaICC.argument_syntax import argument
from StaICC.arguments import validate_integer
from StaICC.comparing.comparison import compare
from StaICC.comparing.generalisation import clusters_of_either, effects_of
from StaICC.errors import ArgumentError
from StaICC.metrics import crossed_effects as crossed
from StaICC.metrics.clusters import LEAST_CLUSTERS, student_tail
from StaICC.metrics.crossed_effects import SOURCES, CrossedEffects, generalise, mean_effects
from StaICC.metrics.intervals import Interval, expected_distances, mean_interval, student_quantile
from StaICC.metrics.paired_tests import favourable_weight
from StaICC.results.result import Result

CONFIDENCE_LEVEL = 0.95
LEAST_LEVELS = 3
"""Fewest draws and templates: with two, intervals cover 0.90 only."""
MOST_TEMPLATES = 9
"""Most templates of a plan."""
LEAST_ROWS = 20
"""Fewest test rows of each data set of a plan."""
MOST_ROWS = 512
"""Most test rows for which the coverage of intervals is measured."""
_DRAWS = (3, 4, 5, 6, 8, 10, 12, 16, 24, 32)
"""The numbers of draws among which a plan chooses."""
_POINT_COUNT = 128
"""Number of quasi-random points over which precision and power are means."""
_LEAST_VARIANCE = 1e-18
"""Takes the place of a variance of 0, with which no normal distribution can be made."""
_NORMAL = NormalDist()
_TWO_SIDED_QUANTILE = _NORMAL.inv_cdf((1.0 + CONFIDENCE_LEVEL) / 2.0)
"""The normal quantile of a two-sided interval: 1.96 for 0.95."""
_ROWS = (0,)
"""The source of variance that is the rows alone."""
_SOURCES_WITH_FEW_LEVELS = ((1,), (2,), (1, 2))
"""The sources whose mean squares have few degrees of freedom: draws, templates, and their interaction."""


@dataclass(frozen=True, slots=True)
class Components:
    """Variances of the effects on the predictions of a model, or on the differences between two models."""

    variances: Mapping[str, float]
    """The variance of each source, by the names of :data:`~StaICC.metrics.crossed_effects.SOURCES`: the mean over the
    data sets, at least 0. A source that is absent has the variance 0."""
    shared: float
    """The part of the variance of templates that the data sets have in common."""
    of_difference: bool
    """Whether the variances are those of the difference between two models."""
    source: str
    """The runs that were measured, in words."""
    accuracy: float | None = None
    """The accuracy of the run. Near 0 and 1, its interval is wider than the variances alone would make it. ``None`` if
    it is not known, and for a difference."""
    cluster_rows: float | None = None
    """The mean number of test rows of a cluster, if the variances are those of clusters; ``None`` if they are those of
    rows."""

    def __post_init__(self) -> None:
        """Raise an error for unknown names and impossible variances, with which a plan would be too small."""
        unknown = set(self.variances) - set(SOURCES.values())
        are_possible = all(0.0 <= variance < math.inf for variance in self.variances.values())
        if unknown or not are_possible:
            names = ", ".join(SOURCES.values())
            raise ArgumentError(f"variances: got {dict(self.variances)}, expected numbers of at least 0 for {names}")
        if self.cluster_rows is not None and not 1.0 <= self.cluster_rows < math.inf:
            raise ArgumentError(f"cluster_rows: got {self.cluster_rows}, expected a number of rows of at least 1")
        if not 0.0 <= self.shared <= self.variances.get("templates", 0.0):
            raise ArgumentError(f"shared: got {self.shared}, expected a part of the variance of templates")


_ONE_MODEL = dict(zip(SOURCES.values(), (0.055, 0.0036, 0.0002, 0.09, 0.0036, 0.0068, 0.068), strict=True))
_TWO_MODELS = dict(zip(SOURCES.values(), (0.085, 0.0083, 0.0, 0.138, 0.001, 0.0075, 0.0965), strict=True))
_MEASURED_DATA = "GLUE-SST2, TREC and AGNews, k = 4 (docs/comparing.md)"
MEASURED = {
    False: Components(
        _ONE_MODEL,
        shared=0.0002,
        of_difference=False,
        source=f"SmolLM2-135M with two label scorings on {_MEASURED_DATA}",
    ),
    True: Components(
        _TWO_MODELS,
        shared=0.0,
        of_difference=True,
        source=f"SmolLM2-135M minus ppm, and two label scorings, on {_MEASURED_DATA}",
    ),
}
"""The measured components of variance, by whether they are those of a difference between two models."""


def components_of(first: Result, second: Result | None = None) -> Components:
    """Return the components of variance of a pilot run, or of the difference between two.

    Args:
        first: A result of ``Generalisation``.
        second: A second result, on the same rows, draws and templates, for the difference of two models; ``None`` for
            the components of one run.

    Raises:
        ArgumentError: The results are of another benchmark, or cannot be compared.
        UndefinedMetricError: Fewer than two rows have predictions of all draws and templates.
    """
    if second is None:
        datasets = list(first.details)
    else:
        datasets = [line.dataset for line in compare(first, second, "accuracy").datasets]
    effects = list(effects_of(first, second, datasets).values())
    variances = {}
    for name in SOURCES.values():
        mean_component = fmean(of_dataset.components[name] for of_dataset in effects)
        variances[name] = max(0.0, mean_component)  # an unbiased estimate of a variance can be negative
    accuracy = None
    if second is None:
        accuracies = [fmean(of_dataset.template_means) for of_dataset in effects]
        accuracy = fmean(accuracies)
    return Components(
        variances,
        shared=_shared_variance(effects, variances["templates"]),
        of_difference=second is not None,
        source=f"pilot on {', '.join(datasets)}",
        accuracy=accuracy,
        cluster_rows=_mean_cluster_rows(first, second, datasets),
    )


def _mean_cluster_rows(first: Result, second: Result | None, datasets: Sequence[str]) -> float | None:
    """Return the mean number of test rows of a cluster, over all clusters of the data sets.

    ``None`` if no data set has clusters. A row of a data set without clusters is a cluster of its own.

    Args:
        first: A result.
        second: The other run of a difference, of which the test rows count that both have; ``None`` for one run.
        datasets: The data sets.
    """
    row_count = 0
    cluster_count = 0
    has_clusters = False
    for dataset in datasets:
        rows = _test_rows(first, dataset)
        if second is not None:
            rows = rows & _test_rows(second, dataset)
        row_count += len(rows)
        clusters = clusters_of_either(first, second, dataset)
        if clusters is None:
            cluster_count += len(rows)
        else:
            has_clusters = True
            cluster_count += len({clusters[row] for row in rows})
    if not has_clusters:
        return None
    return row_count / cluster_count


def _test_rows(result: Result, dataset: str) -> set[int]:
    """Return the test rows of a data set."""
    return {row for record in result.details[dataset].conditions for row in record.rows}


def _shared_variance(effects: Sequence[CrossedEffects], templates: float) -> float:
    """Return the part of the variance of templates that the data sets have in common.

    A template has a shared effect on all data sets, with the variance s, and an own effect on each data set, with the
    variance t - s. Averaged over n data sets, the own effects have the variance (t - s) / n. So the variance v of the
    mean over the data sets is s + (t - s) / n, and::

        s = (n v - t) / (n - 1)

    The estimate is limited to the range from 0 to t. Of one data set, the variance is all shared.

    Args:
        effects: The mean squares of each data set.
        templates: The mean variance of templates, t.
    """
    n = len(effects)
    if n == 1:
        return templates
    variance_of_mean = mean_effects(effects).components["templates"]
    shared = (variance_of_mean * n - templates) / (n - 1)
    return min(templates, max(0.0, shared))


@dataclass(frozen=True, slots=True)
class SampleDesign:
    """The sizes of a run, with the half width of its interval and its power."""

    datasets: int
    """Number of data sets."""
    rows: int
    """Number of test rows of each data set."""
    draws: int
    """Number of draws of demonstrations on each data set."""
    templates: int
    """Number of templates on each data set."""
    half_width: float
    """Expected half width of the 95 % interval over rows, draws and templates. For a difference between two models, it
    is the expected smallest significant difference."""
    power: float | None
    """Probability that the true difference is found to be significant; ``None`` without a difference."""
    clusters: int | None = None
    """Number of clusters of the test rows of each data set; ``None`` if rows are independent."""

    @property
    def queries(self) -> int:
        """The number of predictions of one model."""
        return self.datasets * self.rows * self.draws * self.templates


def evaluate_design(
    components: Components, sizes: tuple[int, int, int], datasets: int = 1, difference: float | None = None
) -> SampleDesign:
    """Return a design with the expected half width of its interval and its expected power.

    The interval of a run depends on its mean squares, which vary from run to run. So both figures are means over 128
    possible sets of mean squares.

    Args:
        components: The components of variance.
        sizes: Numbers of rows (or of clusters, if the components are those of clusters), draws and templates of each
            data set.
        datasets: Number of data sets.
        difference: The true difference between two models, for the power at level 0.05; ``None`` for no power.
    """
    over_clusters = components.cluster_rows is not None
    effects = crossed.expected_effects(components.variances, sizes, datasets, components.shared)
    half_widths = []
    for possible_effects in _effects_with_quantiles(effects):
        if components.of_difference:
            half_widths.append(_least_significant(possible_effects, datasets, over_clusters))
        else:
            half_widths.append(_half_width(possible_effects, components.accuracy, datasets))
    power = None
    if difference is not None:
        power = _expected_power(difference, effects, half_widths)

    units, draws, templates = sizes
    rows = units
    clusters = None
    if components.cluster_rows is not None:
        rows = math.ceil(units * components.cluster_rows)
        clusters = units
    return SampleDesign(
        datasets=datasets,
        rows=rows,
        draws=draws,
        templates=templates,
        half_width=math.fsum(half_widths) / len(half_widths),
        power=power,
        clusters=clusters,
    )


def _expected_power(difference: float, effects: CrossedEffects, least_significant: Sequence[float]) -> float:
    """Return the probability that a true difference is found to be significant.

    It is significant if its estimate, a normal variable, is larger than the least significant difference.

    Args:
        difference: The true difference.
        effects: The expected mean squares, which give the variance of the estimate.
        least_significant: The least significant difference in each possible run, over which the mean is taken.
    """
    variance = math.fsum(effects.contributions.values())
    positive_variance = max(_LEAST_VARIANCE, variance)
    estimate = NormalDist(abs(difference), math.sqrt(positive_variance))
    probabilities = [1.0 - estimate.cdf(least) for least in least_significant]
    return math.fsum(probabilities) / len(probabilities)


def _half_width(effects: CrossedEffects, accuracy: float | None, datasets: int) -> float:
    """Return half the width of the interval of an accuracy over rows, draws and templates.

    Args:
        effects: The mean squares of the mean over the data sets.
        accuracy: The accuracy; ``None`` if it is not known, so that the interval is symmetric (Student's t).
        datasets: Number of data sets.
    """
    rows, _, _ = effects.sizes
    variance_over_rows = effects.mean_squares[_ROWS]  # of the mean over the rows of all data sets
    if accuracy is None:
        half_width_over_rows = student_quantile(CONFIDENCE_LEVEL, rows) * math.sqrt(variance_over_rows)
        # The errors by rows, and by draws and templates, are independent: their half widths add as squares.
        return math.hypot(half_width_over_rows, effects.half_width(CONFIDENCE_LEVEL))
    # All data sets are expected to have the same accuracy, and so the same interval over rows. The variance of a mean
    # over n independent rows is that of one row divided by n.
    variance_of_one_row = variance_over_rows * rows * datasets
    below, above = expected_distances(accuracy, variance_of_one_row, rows, CONFIDENCE_LEVEL)
    dataset_interval = Interval(accuracy - below, accuracy + above, CONFIDENCE_LEVEL, "")
    accuracies = [accuracy] * datasets
    dataset_intervals = [dataset_interval] * datasets
    over_rows_interval = mean_interval(accuracies, dataset_intervals)
    interval = generalise(accuracy, over_rows_interval, effects)
    return (interval.high - interval.low) / 2.0


def _least_significant(effects: CrossedEffects, datasets: int, over_clusters: bool) -> float:
    """Return the smallest positive difference that is significant over rows, draws and templates, by bisection.

    The test over rows gives a difference d the one-sided p-value p. A normal variable with this p-value has the
    standard error e = d / z, where z is the normal quantile of 1 - p. The interval over draws and templates alone has
    the half width h. Over rows, draws and templates, d is significant if it is larger than the half width of the
    combined interval (Zou and Donner's MOVER)::

        d > sqrt((1.96 e) ** 2 + h ** 2)

    Args:
        effects: The mean squares of the mean over the data sets.
        datasets: Number of data sets.
        over_clusters: Whether the unit is the cluster, with a t test in the place of the test over rows.
    """
    rows_of_dataset, _, _ = effects.sizes
    rows = datasets * rows_of_dataset
    half_width_over_levels = effects.half_width(CONFIDENCE_LEVEL)  # h: over draws and templates
    deviation = math.sqrt(effects.mean_squares[_ROWS])  # of the mean over rows
    positive_deviation = max(1e-9, deviation)  # it is a divisor
    low = 0.0  # not significant
    high = 1.0  # the largest difference of two accuracies
    for _ in range(30):  # The result is exact to 2 ** -30.
        difference = (low + high) / 2.0
        if over_clusters:
            p_value = student_tail(difference / positive_deviation, rows - datasets)
        else:
            p_value = _tail_over_rows(difference, positive_deviation, rows)
        standard_error = _standard_error(difference, p_value)
        half_width = math.hypot(standard_error * _TWO_SIDED_QUANTILE, half_width_over_levels)
        is_significant = difference >= half_width
        if is_significant:
            high = difference
        else:
            low = difference
    return high


def _standard_error(difference: float, p_value: float) -> float:
    """Return the standard error with which a normal variable of this mean has the one-sided p-value.

    It is infinite if the p-value is 0.5 or more: a test that does not favour a positive difference at all.
    """
    if p_value >= 0.5:
        return math.inf
    positive_p_value = max(p_value, 1e-300)  # the quantile of 0 is infinite
    z = -_NORMAL.inv_cdf(positive_p_value)
    return difference / z


def _tail_over_rows(difference: float, deviation: float, rows: int) -> float:
    """Return the approximate one-sided p-value of the paired test of a difference over rows.

    The test adds a pseudo-row with the lowest possible difference, -1, or with the highest one, 1, and gives all rows
    Dirichlet weights. The p-value is the probability that the weighted sum of the rows is not positive, a weighted mean
    over both pseudo-rows (:mod:`~StaICC.metrics.paired_tests`).

    Let N be the weighted mean of the test rows, and X the weight of the pseudo-row divided by that of all test rows.
    Then the two probabilities are::

        P(N - X <= 0) = P(N <= 0) + P(0 < N <= X)       pseudo-row -1
        P(N + X <= 0) = P(N <= 0) - P(-X < N <= 0)      pseudo-row 1

    N is nearly normal. X exceeds x with the probability ``(1 + x) ** -rows``, because a Dirichlet weight of n + 1 rows
    has the beta distribution (1, n). This is nearly ``exp(-rate * x)``, the tail of an exponential distribution.

    Args:
        difference: The observed difference, which is positive: the mean of N.
        deviation: The standard deviation of the difference: that of N.
        rows: Number of test rows.
    """
    z = difference / deviation
    n_is_negative = _NORMAL.cdf(-z)
    # P(0 < N <= X): N is mostly near the difference, so the rate is the one with which both tails are equal there.
    rate_at_difference = rows * math.log1p(difference) / difference
    n_is_positive_and_below_x = _mean_of_exponential(rate_at_difference * deviation - z, z)
    # P(-X < N <= 0): negative values of N are near 0, where the rate of the tail is the number of rows.
    n_is_negative_and_above_minus_x = _mean_of_exponential(rows * deviation + z, z)

    with_lowest = n_is_negative + n_is_positive_and_below_x
    with_highest = n_is_negative - n_is_negative_and_above_minus_x
    weight = favourable_weight(rows)
    # The approximation of a small probability can be negative.
    return (1.0 - weight) * with_lowest + weight * max(0.0, with_highest)


def _mean_of_exponential(b: float, z: float) -> float:
    """Return the mean of exp(-rate |N|) over the values of a normal variable N on one side of 0.

    Let N have the mean m and the standard deviation s. With phi and Phi, the density and the distribution function of
    the standard normal distribution, the mean over positive values is (complete the square in the exponent)::

        phi(z) / phi(b) * Phi(-b),   z = m / s,   b = rate * s - z

    Over negative values it is the same with ``b = rate * s + z``.

    Args:
        b: As in the formula.
        z: The mean in standard deviations.
    """
    if b > 10.0:  # phi(b) may be 0 in floating point; Phi(-b) / phi(b) is nearly 1 / b (Mills' ratio)
        density_at_z = math.exp(-z * z / 2.0) / math.sqrt(2.0 * math.pi)
        return density_at_z / b
    ratio_of_densities = math.exp((b * b - z * z) / 2.0)  # phi(z) / phi(b)
    tail = math.erfc(b / math.sqrt(2.0)) / 2.0  # Phi(-b)
    return ratio_of_densities * tail


def _effects_with_quantiles(effects: CrossedEffects) -> Iterator[CrossedEffects]:
    """Yield the effects of possible runs: 128 sets of mean squares, spread evenly over their distributions.

    The mean squares of draws, of templates and of their interaction vary from run to run, because they have few degrees
    of freedom. Those of the other sources keep their expectation. A mean square with f degrees of freedom is a
    chi-square variable times its expectation / f. Its quantile, by the approximation of Wilson and Hilferty (1931) with
    the normal quantile z, is::

        expectation * max(0, 1 - c + z sqrt(c)) ** 3,   c = 2 / (9 f)

    Args:
        effects: The expected mean squares.
    """
    for normal_quantiles in _normal_quantile_points():
        mean_squares = dict(effects.mean_squares)
        for source, z in zip(_SOURCES_WITH_FEW_LEVELS, normal_quantiles, strict=True):
            c = 2.0 / (9.0 * effects.degrees_of_freedom[source])
            cube_root = max(0.0, 1.0 - c + z * math.sqrt(c))
            mean_squares[source] *= cube_root**3
        yield replace(effects, mean_squares=mean_squares)


@lru_cache(maxsize=1)
def _normal_quantile_points() -> list[tuple[float, float, float]]:
    """Return 128 points of a Halton sequence in three dimensions, with the normal quantile of each coordinate.

    The sequence fills a cube evenly: its coordinates are the radical inverses of the numbers 1, 2, 3, ... in three
    prime bases (Halton 1960). So a mean over its points is close to the mean over the cube.
    """
    points = []
    for number in range(1, _POINT_COUNT + 1):
        first = _NORMAL.inv_cdf(_radical_inverse(number, 2))
        second = _NORMAL.inv_cdf(_radical_inverse(number, 3))
        third = _NORMAL.inv_cdf(_radical_inverse(number, 5))
        points.append((first, second, third))
    return points


def _radical_inverse(number: int, base: int) -> float:
    """Return a number between 0 and 1: the digits of an integer, mirrored at the point.

    In base 2, the integer 6 is 110. Mirrored it is 0.011, which is 3/8.
    """
    if number == 0:
        return 0.0
    last_digit = number % base
    return (last_digit + _radical_inverse(number // base, base)) / base


@dataclass(frozen=True, slots=True)
class Plan:
    """The cheapest design for each number of data sets."""

    designs: Sequence[SampleDesign]
    """The designs that reach the target, the one with the fewest queries first."""
    components: Components
    """The components of variance of the plan."""
    half_width: float | None
    """The wanted half width; ``None`` if the target is a difference."""
    difference: float | None
    """The difference that is to be found; ``None`` if the target is a half width."""


def plan(
    components: Components | None = None,
    *,
    half_width: float | None = None,
    difference: float | None = None,
    power: float = 0.8,
    max_datasets: int = 1,
    max_rows: int = 128,
    max_templates: int = MOST_TEMPLATES,
) -> Plan:
    """Return the designs that reach a precision, or the power for a difference, with the fewest queries.

    Args:
        components: The components of variance; :data:`MEASURED` by default.
        half_width: The wanted half width of the 95 % interval over rows, draws and templates: of an accuracy, or of a
            difference, as the components are. It is reached on average.
        difference: The true difference between two models that is to be found significant at level 0.05, over rows,
            draws and templates. Either half_width or difference is given.
        power: The wanted probability that a true difference of this size is found to be significant.
        max_datasets: Most data sets, over which the mean is taken.
        max_rows: Most test rows of each data set, at most 512; by default those of ``Generalisation`` without a limit.
        max_templates: Most templates.

    Raises:
        ArgumentError: A value is invalid, or no design reaches the target.

    Example:
        >>> components = Components({"rows": 0.1, "draws": 0.002, "rest": 0.1}, 0.0, False, "an example")
        >>> plan(components, half_width=0.06).designs[0].draws
        24
    """
    target = _checked_target(half_width, difference)
    _check_share("power", power)
    max_datasets = validate_integer("max_datasets", max_datasets, 1)
    max_rows = validate_integer("max_rows", max_rows, LEAST_ROWS, MOST_ROWS)
    max_templates = validate_integer("max_templates", max_templates, LEAST_LEVELS, MOST_TEMPLATES)
    if components is None:
        plans_for_difference = difference is not None
        components = MEASURED[plans_for_difference]
    if difference is not None and not components.of_difference:
        raise ArgumentError("difference: got the components of one run, expected those of the difference of two")

    max_units = max_rows
    if components.cluster_rows is not None:
        max_units = math.floor(max_rows / components.cluster_rows)
    least_units = _least_units(components)
    if max_units < least_units:
        raise ArgumentError(
            f"max_rows: got {max_rows}, which are about {max_units} clusters of {components.cluster_rows:.3g} rows, "
            f"expected at least {least_units} clusters. Allow more rows"
        )
    search = _Search(components, half_width, difference, power, max_units, max_templates)
    dataset_counts = {count for count in (1, 2, 3, 5, 10) if count < max_datasets}
    dataset_counts.add(max_datasets)
    designs = []
    for datasets in sorted(dataset_counts):
        cheapest = search.cheapest(datasets)
        if cheapest is not None:
            designs.append(cheapest)
    if not designs:
        largest = search.design(max_datasets, _DRAWS[-1], max_templates, max_units)
        reached = f"half width {largest.half_width:.3f}"
        remedy = "Ask for a larger half width, or raise max_datasets"
        if largest.power is not None:
            reached = f"power {largest.power:.2f}"
            remedy = "Ask for a larger difference or less power, or raise max_datasets"
        raise ArgumentError(
            f"{target.name}: got {target.value}, expected what {max_rows} rows, {_DRAWS[-1]} draws, {max_templates} "
            f"templates and {max_datasets} data sets reach: {reached}. {remedy}"
        )
    return Plan(
        designs=sorted(designs, key=lambda design: design.queries),
        components=components,
        half_width=half_width,
        difference=difference,
    )


def _least_units(components: Components) -> int:
    """Return the fewest rows of a plan, or the fewest clusters if the components are those of clusters."""
    if components.cluster_rows is None:
        return LEAST_ROWS
    return LEAST_CLUSTERS


@dataclass(frozen=True, slots=True)
class _Target:
    """The precision or the difference that a plan must reach."""

    name: str
    """The argument of :func:`plan` that has the target: ``half_width`` or ``difference``."""
    value: float
    """The value of this argument."""


def _checked_target(half_width: float | None, difference: float | None) -> _Target:
    """Return the target of a plan: either the half width or the difference. The other one is ``None``.

    Raises:
        ArgumentError: Neither or both are given, or the target is not between 0 and 1.
    """
    if half_width is not None and difference is None:
        target = _Target("half_width", half_width)
    elif difference is not None and half_width is None:
        target = _Target("difference", difference)
    else:
        got = "none" if half_width is None else "both"
        targets = f"{argument('half_width')} or {argument('difference')}"
        raise ArgumentError(f"a plan needs a target: got {got}, expected either {targets}")
    _check_share(target.name, target.value)
    return target


def _check_share(name: str, value: float) -> None:
    """Raise an error unless an argument is a number between 0 and 1."""
    is_number = isinstance(value, (int, float)) and not isinstance(value, bool)
    if not is_number or not 0.0 < value < 1.0:
        raise ArgumentError(f"{argument(name)}: got {value!r}, expected a share between 0 and 1, such as 0.05")


@dataclass(frozen=True, slots=True)
class _Search:
    """The search for the designs with the fewest queries. Its fields are arguments of :func:`plan`.

    If the components are those of clusters, rows are clusters here.
    """

    components: Components
    half_width: float | None
    difference: float | None
    power: float
    max_rows: int
    max_templates: int

    def cheapest(self, datasets: int) -> SampleDesign | None:
        """Return the design with the fewest queries that reaches the target, for a number of data sets.

        All numbers of draws and templates are tried, small products first. For each of them, the fewest rows that reach
        the target are searched among the designs with fewer queries than the cheapest one so far.

        Returns:
            The design; ``None`` if no design reaches the target.
        """
        draws_and_templates = list(product(_DRAWS, range(LEAST_LEVELS, self.max_templates + 1)))
        cheapest: SampleDesign | None = None
        for draws, templates in sorted(draws_and_templates, key=math.prod):
            most_rows = self.max_rows
            if cheapest is not None:
                most_rows = min(most_rows, self._rows_of_fewer_queries(cheapest, datasets * draws * templates))
            if most_rows < _least_units(self.components):
                continue
            if self._reaches_target(self.design(datasets, draws, templates, most_rows)):
                rows = self._fewest_rows(datasets, draws, templates, most_rows)
                cheapest = self.design(datasets, draws, templates, rows)
        return cheapest

    def _rows_of_fewer_queries(self, design: SampleDesign, queries_of_row: int) -> int:
        """Return the most rows with which another design has fewer queries than this one.

        Args:
            design: This design.
            queries_of_row: Number of queries of the other design with a single test row.
        """
        if self.components.cluster_rows is not None:
            queries_of_row *= math.ceil(self.components.cluster_rows)
        return (design.queries - 1) // queries_of_row

    def _fewest_rows(self, datasets: int, draws: int, templates: int, most_rows: int) -> int:
        """Return the smallest number of test rows with which a design reaches the target, by bisection.

        Args:
            datasets: Number of data sets of the design.
            draws: Number of draws of demonstrations.
            templates: Number of templates.
            most_rows: A number of rows that is known to reach the target. More rows than enough reach it, too.
        """
        low = _least_units(self.components)
        high = most_rows
        while low < high:
            rows = (low + high) // 2
            if self._reaches_target(self.design(datasets, draws, templates, rows)):
                high = rows
            else:
                low = rows + 1
        return low

    def design(self, datasets: int, draws: int, templates: int, rows: int) -> SampleDesign:
        """Return a design of these numbers, with the expected half width of its interval and its expected power."""
        return evaluate_design(self.components, (rows, draws, templates), datasets, self.difference)

    def _reaches_target(self, design: SampleDesign) -> bool:
        """Return whether a design has the wanted half width, or the wanted power for the difference."""
        if self.half_width is not None:
            return design.half_width <= self.half_width
        return design.power is not None and design.power >= self.power

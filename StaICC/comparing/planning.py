"""Plans: how many test rows, draws, templates, data sets a precision or a difference needs.

A plan has the lowest cost in tokens.

The components of variance are those of a pilot run, or :data:`MEASURED`. Mean squares of few draws and templates vary,
and the interval with them. So precision and power of a design are means over 128 quasi-random points (Halton) of these
mean squares, which are scaled chi-squares (quantiles by Wilson and Hilferty 1931). The estimate of the difference is
normal and independent of them. The interval of an accuracy is that of
:func:`~StaICC.metrics.crossed_effects.generalise`, at the accuracy of the pilot.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from itertools import product
from statistics import NormalDist, fmean

from StaICC.arguments import validate_integer
from StaICC.comparing.comparison import compare
from StaICC.comparing.generalisation import effects_of
from StaICC.errors import ArgumentError
from StaICC.metrics import crossed_effects as crossed
from StaICC.metrics.crossed_effects import SOURCES, CrossedEffects, generalise, mean_effects
from StaICC.metrics.intervals import Interval, expected_distances, mean_interval, student_quantile
from StaICC.results.result import Result

CONFIDENCE_LEVEL = 0.95
LEAST_LEVELS = 3
"""Fewest draws and templates: with two, intervals cover 0.90 only."""
MOST_TEMPLATES = 9
LEAST_ROWS = 20
MOST_ROWS = 512
"""Most test rows for which the coverage of intervals is measured."""
_DRAWS = (3, 4, 5, 6, 8, 10, 12, 16, 24, 32)
"""The numbers of draws among which a plan chooses."""
_POINTS = 128
"""Number of quasi-random points over which precision and power are means."""
_LEAST_VARIANCE = 1e-18
"""Takes the place of a variance of 0, with which no normal distribution can be made."""
_NORMAL = NormalDist()
_QUANTILE = _NORMAL.inv_cdf((1.0 + CONFIDENCE_LEVEL) / 2.0)
_VARYING = ((1,), (2,), (1, 2))
"""The mean squares with few degrees of freedom: those of draws, of templates, and of both."""


@dataclass(frozen=True, slots=True)
class Components:
    """Variances of the effects on the predictions of a model, or on the differences between two models."""

    variances: Mapping[str, float]
    """By the names of :data:`~StaICC.metrics.crossed_effects.SOURCES`; means over data sets, at least 0."""
    shared: float
    """The part of the variance of templates that the data sets have in common."""
    of_difference: bool
    source: str
    """The runs that were measured."""
    accuracy: float | None = None
    """Of a run: near 0 and 1, its interval is wider than by the variances. ``None``: not known."""

    def __post_init__(self) -> None:
        """Refuse unknown names and impossible variances: a plan would be too small."""
        unknown = set(self.variances) - set(SOURCES.values())
        are_possible = all(0.0 <= variance < math.inf for variance in self.variances.values())
        if unknown or not are_possible:
            names = ", ".join(SOURCES.values())
            raise ArgumentError(f"variances: got {dict(self.variances)}, expected numbers of at least 0 for {names}")
        if not 0.0 <= self.shared <= self.variances.get("templates", 0.0):
            raise ArgumentError(f"shared: got {self.shared}, expected a part of the variance of templates")


_ONE_MODEL = dict(zip(SOURCES.values(), (0.055, 0.0036, 0.0002, 0.09, 0.0036, 0.0068, 0.068), strict=True))
_TWO_MODELS = dict(zip(SOURCES.values(), (0.085, 0.0083, 0.0, 0.138, 0.001, 0.0075, 0.0965), strict=True))
_RUNS = "GLUE-SST2, TREC and AGNews, k = 4 (docs/comparing.md)"
MEASURED = {
    False: Components(_ONE_MODEL, 0.0002, False, f"SmolLM2-135M with two label scorings on {_RUNS}"),
    True: Components(_TWO_MODELS, 0.0, True, f"SmolLM2-135M minus ppm, and two label scorings, on {_RUNS}"),
}
"""For one model, and for a difference (True)."""


def components_of(first: Result, second: Result | None = None) -> Components:
    """Return the components of variance of a pilot run, or of the difference between two.

    Args:
        first: A result of ``Generalisation``.
        second: Another, on the same rows, draws and templates.

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
        variances[name] = max(0.0, fmean(of_dataset.components[name] for of_dataset in effects))
    accuracy = None
    if second is None:
        accuracy = fmean(fmean(of_dataset.template_means) for of_dataset in effects)
    return Components(
        variances,
        shared=_shared_variance(effects, variances["templates"]),
        of_difference=second is not None,
        source=f"pilot on {', '.join(datasets)}",
        accuracy=accuracy,
    )


def _shared_variance(effects: Sequence[CrossedEffects], templates: float) -> float:
    """Return the part of the variance of templates that the data sets have in common.

    With n data sets, the variance t of templates has a shared part s, and a part t - s of each data set, of which the
    mean over the data sets has 1 / n. So the variance v of the mean is s + (t - s) / n, and::

        s = (n v - t) / (n - 1)

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
    rows: int
    """Of each data set, as are draws and templates."""
    draws: int
    templates: int
    half_width: float
    """Mean half width of the interval over rows, draws and templates."""
    power: float | None
    """Probability that the difference is significant; ``None`` for a precision."""

    @property
    def queries(self) -> int:
        """Predictions of one model."""
        return self.datasets * self.rows * self.draws * self.templates


def evaluate_design(
    components: Components, sizes: tuple[int, int, int], datasets: int = 1, difference: float | None = None
) -> SampleDesign:
    """Return a design with the half width of its interval and its power, both as means over possible mean squares.

    Args:
        components: The components of variance.
        sizes: Rows, draws and templates of each data set.
        datasets: Number of data sets.
        difference: The true difference between two models, for the power at level 0.05.
    """
    effects = crossed.expected_effects(components.variances, sizes, datasets, components.shared)
    widths = []
    for sample in _samples(effects):
        if components.of_difference:
            widths.append(_least_significant(sample, datasets))
        else:
            widths.append(_half_width(sample, components.accuracy, datasets))
    power = None
    if difference is not None:
        # A difference is found if its estimate is larger than the least significant one.
        variance = math.fsum(effects.contributions.values())
        positive_variance = max(_LEAST_VARIANCE, variance)
        estimate = NormalDist(abs(difference), math.sqrt(positive_variance))
        power = math.fsum(1.0 - estimate.cdf(width) for width in widths) / len(widths)
    rows, draws, templates = sizes
    return SampleDesign(datasets, rows, draws, templates, half_width=math.fsum(widths) / len(widths), power=power)


def _half_width(effects: CrossedEffects, accuracy: float | None, datasets: int) -> float:
    """Return half the width of the interval of an accuracy over rows, draws and templates."""
    rows, _, _ = effects.sizes
    square_of_rows = effects.mean_squares[(0,)]
    if accuracy is None:
        over_rows = student_quantile(CONFIDENCE_LEVEL, rows) * math.sqrt(square_of_rows)
        return math.hypot(over_rows, effects.half_width(CONFIDENCE_LEVEL))
    below, above = expected_distances(accuracy, square_of_rows * rows * datasets, rows, CONFIDENCE_LEVEL)
    of_dataset = Interval(accuracy - below, accuracy + above, CONFIDENCE_LEVEL, "")
    over_rows_interval = mean_interval([accuracy] * datasets, [of_dataset] * datasets)
    interval = generalise(accuracy, over_rows_interval, effects)
    return (interval.high - interval.low) / 2.0


def _least_significant(effects: CrossedEffects, datasets: int) -> float:
    """Return the smallest difference that is significant over rows, draws and templates, by bisection.

    A difference d has the p-value p over rows, and so the standard error e = d / z(p) of a normal variable. Over draws
    and templates too, it is significant if it is larger than the half width of the interval,
    sqrt((1.96 e) ** 2 + reach ** 2).
    """
    rows = datasets * effects.sizes[0]
    reach = effects.half_width(CONFIDENCE_LEVEL)
    deviation = max(1e-9, math.sqrt(effects.mean_squares[(0,)]))
    low = 0.0
    high = 1.0
    for _ in range(30):
        difference = (low + high) / 2.0
        p_value = _tail_over_rows(difference, deviation, rows)
        standard_error = math.inf
        if p_value < 0.5:
            standard_error = difference / -_NORMAL.inv_cdf(max(p_value, 1e-300))
        if math.hypot(standard_error * _QUANTILE, reach) > difference:
            low = difference
        else:
            high = difference
    return high


def _tail_over_rows(difference: float, deviation: float, rows: int) -> float:
    """Return the one-sided p-value of a difference over rows.

    The test has a pseudo-row of difference -1 and Dirichlet weights (:mod:`~StaICC.metrics.paired_tests`). The ratio of
    its weight to the others exceeds x with probability ``(1 + x) ** -rows``; around the difference, x is nearly
    exponential. The weighted sum of the other rows is nearly normal.
    """
    rate = rows * math.log1p(difference) / difference
    z = difference / deviation
    # With the normal sum N of the rows, and the exponential ratio X of the pseudo-row, the p-value is
    # P(N <= 0) + P(0 < N <= X), and the second term is the mean of exp(-rate N) over positive N.
    beyond = rate * deviation - z
    if beyond > 10.0:  # the tail of the normal distribution, by its density
        of_pseudo_row = math.exp(-z * z / 2.0) / math.sqrt(2.0 * math.pi) / beyond
    else:
        of_pseudo_row = math.exp(rate * deviation * (beyond - z) / 2.0) * math.erfc(beyond / math.sqrt(2.0)) / 2.0
    return _NORMAL.cdf(-z) + of_pseudo_row


def _samples(effects: CrossedEffects) -> Iterator[CrossedEffects]:
    """Yield designs whose mean squares of draws and templates are quantiles of their distributions.

    A mean square with f degrees of freedom is a scaled chi-square. With the normal quantile z, its quantile is that of
    Wilson and Hilferty, times its expectation::

        (1 - c + z sqrt(c)) ** 3,   c = 2 / (9 f)
    """
    for quantiles in _points():
        squares = dict(effects.mean_squares)
        for source, z in zip(_VARYING, quantiles, strict=True):
            c = 2.0 / (9.0 * effects.degrees_of_freedom[source])
            squares[source] *= max(0.0, 1.0 - c + z * math.sqrt(c)) ** 3
        yield replace(effects, mean_squares=squares)


@lru_cache(maxsize=1)
def _points() -> list[tuple[float, float, float]]:
    """Return normal quantiles of a Halton sequence in three dimensions."""
    points = []
    for number in range(1, _POINTS + 1):
        first = _NORMAL.inv_cdf(_radical_inverse(number, 2))
        second = _NORMAL.inv_cdf(_radical_inverse(number, 3))
        third = _NORMAL.inv_cdf(_radical_inverse(number, 5))
        points.append((first, second, third))
    return points


def _radical_inverse(number: int, base: int) -> float:
    """Return the number with its digits mirrored at the point: 6, in base 2 written 110, is 0.011, which is 3/8."""
    if number == 0:
        return 0.0
    last_digit = number % base
    return (last_digit + _radical_inverse(number // base, base)) / base


@dataclass(frozen=True, slots=True)
class Plan:
    """The cheapest design for each number of data sets; the cheapest of all is the first."""

    designs: Sequence[SampleDesign]
    components: Components
    half_width: float | None
    difference: float | None


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
        half_width: Mean half width of the 95 % interval of an accuracy, or of a difference, over rows, draws and
            templates.
        difference: The difference between two models that is to be detected at level 0.05 over all three.
        power: The probability that it is.
        max_datasets: Most data sets, over which the mean is taken.
        max_rows: Most test rows of each data set; by default those of ``Generalisation`` without a limit.
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
        components = MEASURED[difference is not None]
    if difference is not None and not components.of_difference:
        raise ArgumentError("difference: got the components of one run, expected those of the difference of two")

    search = _Search(components, half_width, difference, power, max_rows, max_templates)
    dataset_counts = {count for count in (1, 2, 3, 5, 10) if count < max_datasets}
    dataset_counts.add(max_datasets)
    designs = []
    for datasets in sorted(dataset_counts):
        cheapest = search.cheapest(datasets)
        if cheapest is not None:
            designs.append(cheapest)
    if not designs:
        largest = search.design(max_datasets, _DRAWS[-1], max_templates, max_rows)
        reached = f"half width {largest.half_width:.3f}"
        if largest.power is not None:
            reached = f"power {largest.power:.2f}"
        raise ArgumentError(
            f"{target.name}: got {target.value}, expected what {max_rows} rows, {_DRAWS[-1]} draws, {max_templates} "
            f"templates and {max_datasets} data sets reach: {reached}. Aim lower, or allow more of them"
        )
    return Plan(sorted(designs, key=lambda design: design.queries), components, half_width, difference)


@dataclass(frozen=True, slots=True)
class _Target:
    """What a plan must reach."""

    name: str
    """The argument of :func:`plan`."""
    value: float


def _checked_target(half_width: float | None, difference: float | None) -> _Target:
    """Return the target that was given.

    Raises:
        ArgumentError: None or both were given, or the target is no share.
    """
    if half_width is not None and difference is None:
        target = _Target("half_width", half_width)
    elif difference is not None and half_width is None:
        target = _Target("difference", difference)
    else:
        raise ArgumentError("a plan needs a target: got none or both, expected either half_width or difference")
    _check_share(target.name, target.value)
    return target


def _check_share(name: str, value: float) -> None:
    """Raise an error unless an argument is a number between 0 and 1."""
    is_number = isinstance(value, (int, float)) and not isinstance(value, bool)
    if not is_number or not 0.0 < value < 1.0:
        raise ArgumentError(f"{name}: got {value!r}, expected a share between 0 and 1, such as 0.05")


@dataclass(frozen=True, slots=True)
class _Search:
    """The search for the cheapest designs; its fields are arguments of :func:`plan`."""

    components: Components
    half_width: float | None
    difference: float | None
    power: float
    max_rows: int
    max_templates: int

    def cheapest(self, datasets: int) -> SampleDesign | None:
        """Return the design of a number of data sets with the fewest queries that reaches the target.

        Returns:
            The design; ``None`` if no design reaches the target.
        """
        levels = list(product(_DRAWS, range(LEAST_LEVELS, self.max_templates + 1)))
        cheapest = None
        for draws, templates in sorted(levels, key=math.prod):
            most_rows = self.max_rows
            if cheapest is not None:
                # Only a design with fewer queries than the cheapest one so far is of interest.
                rows_of_fewer_queries = (cheapest.queries - 1) // (datasets * draws * templates)
                most_rows = min(self.max_rows, rows_of_fewer_queries)
            if most_rows < LEAST_ROWS:
                continue
            if self._reaches_target(self.design(datasets, draws, templates, most_rows)):
                rows = self._fewest_rows(datasets, draws, templates, most_rows)
                cheapest = self.design(datasets, draws, templates, rows)
        return cheapest

    def _fewest_rows(self, datasets: int, draws: int, templates: int, most_rows: int) -> int:
        """Return the fewest rows that reach the target, by bisection; the most are known to reach it."""
        low = LEAST_ROWS
        high = most_rows
        while low < high:
            rows = (low + high) // 2
            if self._reaches_target(self.design(datasets, draws, templates, rows)):
                high = rows
            else:
                low = rows + 1
        return low

    def design(self, datasets: int, draws: int, templates: int, rows: int) -> SampleDesign:
        """Return a design with the half width of its interval and its power."""
        return evaluate_design(self.components, (rows, draws, templates), datasets, self.difference)

    def _reaches_target(self, design: SampleDesign) -> bool:
        if self.half_width is not None:
            return design.half_width <= self.half_width
        return design.power is not None and design.power >= self.power

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
from bisect import bisect_left
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache, partial
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
_POINTS = 128
_NORMAL = NormalDist()
_QUANTILE = _NORMAL.inv_cdf((1.0 + CONFIDENCE_LEVEL) / 2.0)
_VARYING = ((1,), (2,), (1, 2))
"""The mean squares with few degrees of freedom."""


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
        if unknown or not all(0.0 <= variance < math.inf for variance in self.variances.values()):
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
    names = list(first.details)
    if second is not None:
        names = [line.dataset for line in compare(first, second, "accuracy").datasets]
    designs = list(effects_of(first, second, names).values())
    number = len(designs)
    means = {name: max(0.0, fmean(design.components[name] for design in designs)) for name in SOURCES.values()}
    shared = means["templates"]
    if number > 1:  # of the variance of the mean over data sets, own effects are one part of ``number``
        common = (mean_effects(designs).components["templates"] * number - shared) / (number - 1)
        shared = min(shared, max(0.0, common))
    accuracy = fmean(fmean(design.template_means) for design in designs) if second is None else None
    return Components(means, shared, second is not None, f"pilot on {', '.join(names)}", accuracy)


@dataclass(frozen=True, slots=True)
class SampleDesign:
    """The sizes of a run, and what it will reach."""

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
    """Return what a design will reach.

    Args:
        components: The components of variance.
        sizes: Rows, draws and templates of each data set.
        datasets: Number of data sets.
        difference: The true difference between two models, for the power at level 0.05.
    """
    effects = crossed.expected_effects(components.variances, sizes, datasets, components.shared)
    if components.of_difference:
        widths = [_least_significant(sample, datasets) for sample in _samples(effects)]
    else:
        widths = [_half_width(sample, components.accuracy, datasets) for sample in _samples(effects)]
    power = None
    if difference is not None:
        estimate = NormalDist(abs(difference), math.sqrt(max(1e-18, math.fsum(effects.contributions.values()))))
        power = math.fsum(1.0 - estimate.cdf(width) for width in widths) / len(widths)
    return SampleDesign(datasets, *sizes, math.fsum(widths) / len(widths), power)


def _half_width(effects: CrossedEffects, accuracy: float | None, datasets: int) -> float:
    """Return half the width of the interval of an accuracy over rows, draws and templates."""
    rows, of_rows = effects.sizes[0], effects.squares[0,]
    if accuracy is None:
        return math.hypot(
            student_quantile(CONFIDENCE_LEVEL, rows) * math.sqrt(of_rows), effects.reach(CONFIDENCE_LEVEL)
        )
    below, above = expected_distances(accuracy, of_rows * rows * datasets, rows, CONFIDENCE_LEVEL)
    of_each = Interval(accuracy - below, accuracy + above, CONFIDENCE_LEVEL, "")
    fixed = mean_interval([accuracy] * datasets, [of_each] * datasets)
    interval = generalise(accuracy, fixed, effects)
    return (interval.high - interval.low) / 2.0


def _least_significant(effects: CrossedEffects, datasets: int) -> float:
    """Return the smallest difference that is significant over rows, draws and templates."""
    rows, of_levels = datasets * effects.sizes[0], effects.reach(CONFIDENCE_LEVEL)
    deviation = max(1e-9, math.sqrt(effects.squares[0,]))
    low, high = 0.0, 1.0
    for _ in range(30):
        middle = (low + high) / 2.0
        tail = _tail_over_rows(middle, deviation, rows)
        scale = middle / -_NORMAL.inv_cdf(max(tail, 1e-300)) if tail < 0.5 else math.inf
        low, high = (middle, high) if math.hypot(scale * _QUANTILE, of_levels) > middle else (low, middle)
    return high


def _tail_over_rows(difference: float, deviation: float, rows: int) -> float:
    """Return the one-sided p-value of a difference over rows.

    The test has a pseudo-row of difference -1 and Dirichlet weights (:mod:`~StaICC.metrics.paired_tests`). The ratio of
    its weight to the others exceeds x with probability ``(1 + x) ** -rows``; around the difference, x is nearly
    exponential. The weighted sum of the other rows is nearly normal.
    """
    rate = rows * math.log1p(difference) / difference
    z = difference / deviation
    beyond = rate * deviation - z
    if beyond > 10.0:  # the tail of the normal distribution, by its density
        of_row = math.exp(-z * z / 2.0) / math.sqrt(2.0 * math.pi) / beyond
    else:
        of_row = math.exp(rate * deviation * (beyond - z) / 2.0) * math.erfc(beyond / math.sqrt(2.0)) / 2.0
    return _NORMAL.cdf(-z) + of_row


def _samples(effects: CrossedEffects) -> Iterator[CrossedEffects]:
    """Yield designs whose mean squares of draws and templates are quantiles of their distributions."""
    for point in _points():
        squares = dict(effects.squares)
        for source, z in zip(_VARYING, point, strict=True):
            scale = 2.0 / (9.0 * effects.freedom[source])
            squares[source] *= max(0.0, 1.0 - scale + z * math.sqrt(scale)) ** 3
        yield replace(effects, squares=squares)


@lru_cache(maxsize=1)
def _points() -> list[tuple[float, ...]]:
    """Return normal quantiles of a Halton sequence in three dimensions."""
    return [
        tuple(_NORMAL.inv_cdf(_radical_inverse(number, base)) for base in (2, 3, 5)) for number in range(1, _POINTS + 1)
    ]


def _radical_inverse(number: int, base: int) -> float:
    return (number % base + _radical_inverse(number // base, base)) / base if number else 0.0


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
    if (half_width is None) == (difference is None):
        raise ArgumentError("a plan needs a target: got none or both, expected either half_width or difference")
    name, target = ("half_width", half_width) if half_width is not None else ("difference", difference)
    for key, value in ((name, target), ("power", power)):
        if isinstance(value, bool) or not isinstance(value, (int, float)) or not 0.0 < value < 1.0:
            raise ArgumentError(f"{key}: got {value!r}, expected a share between 0 and 1, such as 0.05")
    max_datasets = validate_integer("max_datasets", max_datasets, 1)
    max_rows = validate_integer("max_rows", max_rows, LEAST_ROWS, MOST_ROWS)
    max_templates = validate_integer("max_templates", max_templates, LEAST_LEVELS, MOST_TEMPLATES)
    components = MEASURED[difference is not None] if components is None else components
    if difference is not None and not components.of_difference:
        raise ArgumentError("difference: got the components of one run, expected those of the difference of two")

    def reaches(design: SampleDesign) -> bool:
        return design.half_width <= (half_width or 0.0) if design.power is None else design.power >= power

    def of(number: int, draws: int, templates: int, rows: int) -> SampleDesign:
        return evaluate_design(components, (rows, draws, templates), number, difference)

    designs = []
    for number in sorted({*(count for count in (1, 2, 3, 5, 10) if count < max_datasets), max_datasets}):
        cheapest = None
        for draws, kinds in sorted(product(_DRAWS, range(LEAST_LEVELS, max_templates + 1)), key=math.prod):
            most = max_rows
            if cheapest is not None:
                most = min(max_rows, (cheapest.queries - 1) // (number * draws * kinds))
            design = partial(of, number, draws, kinds)
            if most >= LEAST_ROWS and reaches(design(most)):
                cheapest = design(bisect_left(range(most), True, LEAST_ROWS, key=lambda rows: reaches(design(rows))))
        if cheapest is not None:
            designs.append(cheapest)
    if not designs:
        best = of(max_datasets, _DRAWS[-1], max_templates, max_rows)
        text = f"half width {best.half_width:.3f}" if best.power is None else f"power {best.power:.2f}"
        raise ArgumentError(
            f"{name}: got {target}, expected what {max_rows} rows, {_DRAWS[-1]} draws, {max_templates} templates "
            f"and {max_datasets} data sets reach: {text}. Aim lower, or allow more of them"
        )
    return Plan(sorted(designs, key=lambda design: design.queries), components, half_width, difference)

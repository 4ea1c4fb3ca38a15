"""Intervals and comparisons over rows, draws and templates: coverage, width and type I error with known components.

Usage::

    python tests/performance/generalising.py --samples 400

A prediction is correct if a sum of normal effects of test row, draw, template and their interactions is positive. So
the true accuracy is known, and each component can be zero. The oracle's interval has the true variance. Cells with a
coverage below 0.94, or a type I error above 0.05, are computed again from ten times as many new samples. Prints the
worst cells. For intervals of the components, from a quarter of the samples, it prints the root of the median upper
limit over the truth, and the coverage.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import product
from statistics import NormalDist
from typing import Any, NamedTuple

import numpy as np
from records import arguments, markdown, record
from scipy.stats import beta, multivariate_normal
from skewed_nulls import contributions_to_mean, difference_of_contributions

from StaICC.metrics import paired_tests
from StaICC.metrics.crossed_effects import SOURCES, CrossedEffects, generalise, generalising_p_value, mean_effects
from StaICC.metrics.intervals import Interval, MetricTerm, mean_interval, ratio_part, student_quantile

EFFECTS = {  # standard deviations in the order of SOURCES
    "none": (0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 1.0),
    "rows": (1.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.6),
    "rows, their interactions": (1.0, 0.0, 0.0, 0.6, 0.6, 0.0, 0.5),
    "draws": (1.0, 0.4, 0.0, 0.3, 0.0, 0.0, 0.6),
    "templates": (1.0, 0.0, 0.4, 0.0, 0.3, 0.0, 0.6),
    "draws x templates": (1.0, 0.0, 0.0, 0.3, 0.3, 0.4, 0.6),
    "all, small": (1.0, 0.1, 0.1, 0.3, 0.3, 0.1, 0.6),
    "all": (1.0, 0.3, 0.3, 0.4, 0.4, 0.2, 0.6),
    "all but rows": (0.0, 0.15, 0.15, 0.5, 0.5, 0.1, 0.8),
}
LEVELS = ((4, 3), (8, 3), (4, 9), (8, 9))
COMPONENT_SIZES = ((20, (4, 3)), (20, (8, 9)), (128, (4, 3)), (128, (8, 9)), (512, (8, 3)), (512, (4, 9)))
BATCH = 50
"""The number of samples that are drawn together."""
ROWS = 0
"""The number of this factor in a source."""
DRAWS_ALONE = (1,)
TEMPLATES_ALONE = (2,)
SHAPES: dict[str, Callable[[np.random.Generator, Any], Any]] = {
    "normal": lambda draw, shape: draw.standard_normal(shape, dtype=np.float32),
    "skewed": lambda draw, shape: draw.exponential(size=shape) - 1,
    "two groups": lambda draw, shape: draw.choice([-1.0, 1.0], size=shape),
}
"""Distributions of the effects of draws and of templates."""


def latent(draw: np.random.Generator, sizes: Sequence[int], effects: Sequence[float], kind: str = "normal") -> Any:
    """Return sums of effects: sample x row x draw x template.

    Args:
        draw: The generator of random numbers.
        sizes: Numbers of rows, draws and templates.
        effects: The standard deviation of the effects of each source.
        kind: The distribution of the effects of draws and of templates, a key of :data:`SHAPES`; the effects of rows
            and of their interactions are normal.
    """
    total = np.zeros((BATCH, *sizes), dtype=np.float32)
    for source, deviation in zip(SOURCES, effects, strict=True):
        if deviation:
            shape = [size if factor in source else 1 for factor, size in enumerate(sizes)]
            draw_effects = SHAPES["normal" if ROWS in source else kind]
            total += deviation * draw_effects(draw, (BATCH, *shape))
    return total


def location_of(share: float, effects: Sequence[float]) -> float:
    """Return what is added to a sum of normal effects, so that this share of the sums is positive."""
    return NormalDist().inv_cdf(share) * math.hypot(*effects)


def correct(draw: np.random.Generator, sizes: Sequence[int], effects: Sequence[float], share: float) -> Any:
    """Return 1 for correct predictions and 0 for others; the true accuracy is the share."""
    return (latent(draw, sizes, effects) + location_of(share, effects) > 0).astype(np.float64)


def levels_of(source: tuple[int, ...], sizes: Sequence[int]) -> int:
    """Return the number of levels of a source: of rows and draws, for example, rows times draws."""
    return math.prod(sizes[factor] for factor in source)


def degrees_of_freedom(source: tuple[int, ...], sizes: Sequence[int]) -> float:
    return float(math.prod(sizes[factor] - 1 for factor in source))


def effects_of_sources(values: Any) -> dict[tuple[int, ...], Any]:
    """Return the effects of each source: its mean over the other factors, minus the effects of its parts."""
    centred = values - values.mean((1, 2, 3), keepdims=True)
    effects: dict[tuple[int, ...], Any] = {}
    for source in SOURCES:
        other_axes = tuple(factor + 1 for factor in range(3) if factor not in source)
        of_parts = sum(effects[part] for part in effects if set(part) < set(source))
        effects[source] = centred.mean(other_axes, keepdims=True) - of_parts
    return effects


def observed_variances(effects: Mapping[tuple[int, ...], Any], source: tuple[int, ...], sizes: Sequence[int]) -> Any:
    """Return for each sample the variance of a mean square, as that of the influences of the levels of each factor.

    The influence of a level is a sum of products: of the effects of the source, and of those of the source with the
    factor. Few levels count more, by the quantile of Student's t over that of the normal distribution.
    """
    variances = 0.0
    for factor in range(3):
        with_factor = tuple(sorted({*source, factor}))
        products = effects[with_factor] * effects[source]
        other_axes = tuple(other + 1 for other in range(3) if other != factor)
        scale = (sizes[factor] if factor in source else 2.0) / levels_of(source, sizes)
        quantile_ratio = student_quantile(0.95, sizes[factor]) / 1.96
        variance_of_levels = products.sum(other_axes).var(1, ddof=1)
        variances = variances + (scale * quantile_ratio) ** 2 * variance_of_levels / sizes[factor]
    return variances / degrees_of_freedom(source, sizes) ** 2


def theoretical_variances(squares: Any, source: tuple[int, ...], sizes: Sequence[int], accuracies: Any) -> Any:
    """Return for each sample the variance of a mean square of effects with a beta distribution.

    It is that of a chi-square variable, plus what the excess kurtosis of the effects adds if it is positive.
    """
    levels = levels_of(source, sizes)
    share = np.clip(accuracies, 1e-9, 1 - 1e-9)
    concentration = np.maximum(1e-3, share * (1 - share) / np.maximum(squares * levels, 1e-12) - 1)
    kurtosis = beta.stats(share * concentration, (1 - share) * concentration, moments="k")
    excess = np.maximum(0, kurtosis)
    return squares**2 * (2 / degrees_of_freedom(source, sizes) + excess / levels)


def designs(values: Any) -> Iterator[CrossedEffects]:
    """Yield the mean squares of each sample; the tests compare those of the library with another computation.

    Args:
        values: Outcomes: sample x row x draw x template.
    """
    samples, rows, draws, templates = values.shape
    sizes = (rows, draws, templates)
    effects = effects_of_sources(values)
    template_means = values.mean((1, 2))
    squares, variances = {}, {}
    freedom = {source: degrees_of_freedom(source, sizes) for source in SOURCES}
    for source in SOURCES:
        sums_of_squares = (effects[source] ** 2).sum((1, 2, 3)) / levels_of(source, sizes)
        squares[source] = sums_of_squares / freedom[source]
        variances[source] = theoretical_variances(squares[source], source, sizes, template_means.mean(1))
        if source not in (DRAWS_ALONE, TEMPLATES_ALONE):  # these have too few levels
            variances[source] = np.maximum(variances[source], observed_variances(effects, source, sizes))
    for sample in range(samples):
        yield CrossedEffects(
            sizes,
            tuple(template_means[sample].tolist()),
            {source: float(squares[source][sample]) for source in SOURCES},
            freedom,
            {source: float(variances[source][sample]) for source in SOURCES},
        )


def sampled(
    samples: int,
    is_bad: Callable[[Any], bool],
    draw_batch: Callable[..., list[tuple[float, ...]]],
    *cell: Any,
) -> Any:
    """Return the figures of a cell, one row for each sample; if they are bad, those of ten times as many new samples.

    Of hundreds of cells some are bad by chance, and more samples added to these would stay biased.

    Args:
        samples: The least number of samples.
        is_bad: Whether the means of the figures are bad.
        draw_batch: Returns the figures of some more samples.
        *cell: The arguments of ``draw_batch``.
    """
    figures = _at_least(samples, draw_batch, *cell)
    if is_bad(figures.mean(axis=0)):
        figures = _at_least(10 * samples, draw_batch, *cell)
    return figures


def _at_least(samples: int, draw_batch: Callable[..., list[tuple[float, ...]]], *cell: Any) -> Any:
    figures: list[tuple[float, ...]] = []
    while len(figures) < samples:
        figures += draw_batch(*cell)
    return np.array(figures)


class IntervalFigures(NamedTuple):
    """What a sample says of two intervals of a score: that over rows, and the generalising one."""

    covers_over_rows: float
    covers: float
    width_over_rows: float
    width: float
    score: float


def figures_of(truth: float, score: float, over_rows: Interval, generalising: Interval) -> IntervalFigures:
    return IntervalFigures(
        covers_over_rows=float(over_rows.low <= truth <= over_rows.high),
        covers=float(generalising.low <= truth <= generalising.high),
        width_over_rows=over_rows.high - over_rows.low,
        width=generalising.high - generalising.low,
        score=score,
    )


def too_low(means: Any) -> bool:
    """Return whether the generalising interval covers too rarely, by the means of the figures."""
    return bool(IntervalFigures(*means).covers < 0.94)


class Summary(NamedTuple):
    """The means of the figures of a cell. Widths are over that of an interval with the true variance of the score."""

    coverage_over_rows: float
    coverage: float
    width_over_rows: float
    width: float


def summary(figures: Any) -> Summary:
    means = IntervalFigures(*figures.mean(axis=0))
    scores = figures[:, IntervalFigures._fields.index("score")]
    width_with_true_variance = 2 * 1.96 * float(np.std(scores)) or math.inf
    return Summary(
        float(means.covers_over_rows),
        float(means.covers),
        float(means.width_over_rows) / width_with_true_variance,
        float(means.width) / width_with_true_variance,
    )


def accuracy_part(outcomes: Any) -> MetricTerm:
    """Return the accuracy with its interval over rows, of outcomes: row x draw x template."""
    queries_of_row = float(math.prod(outcomes.shape[1:]))
    return ratio_part(outcomes.sum((1, 2)).tolist(), [queries_of_row] * len(outcomes), 0.95)


def of_data_set(
    draw: np.random.Generator, sizes: Any, effects: Sequence[float], kind: str, location: float, truth: float
) -> list[tuple[float, ...]]:
    """Return the figures of samples of one data set."""
    samples = (latent(draw, sizes, effects, kind) + location > 0).astype(np.float64)
    figures: list[tuple[float, ...]] = []
    for outcomes, design in zip(samples, designs(samples), strict=True):
        part = accuracy_part(outcomes)
        over_rows = part.interval(0.95, "")
        figures.append(figures_of(truth, part.value, over_rows, generalise(part.value, over_rows, design)))
    return figures


def coverage(samples: int, draw: np.random.Generator) -> Iterator[tuple[Any, ...]]:
    """Yield for each cell the coverage of both intervals, and their mean widths over the oracle's."""
    for name, rows, levels, share in product(EFFECTS, (20, 50, 128, 512), LEVELS, (0.5, 0.7, 0.9, 0.97)):
        cell = ((rows, *levels), EFFECTS[name], "normal", location_of(share, EFFECTS[name]), share)
        yield name, rows, levels, share, *summary(sampled(samples, too_low, of_data_set, draw, *cell))


FIVE_DATASETS = 5
LOCATION_OF_FIVE = 0.5
"""Over the standard deviation of the sum of all effects."""


def of_five(
    draw: np.random.Generator, rows: int, levels: Any, effects: Sequence[float], shared: float
) -> list[tuple[float, ...]]:
    """Return the figures of samples of five data sets, which share a part of the variance of the templates."""
    draws_effect, templates_effect = effects[1], effects[2]
    own_effects = [effects[0], draws_effect, templates_effect * math.sqrt(1 - shared), *effects[3:]]
    n_templates = levels[1]
    common = templates_effect * math.sqrt(shared) * draw.standard_normal((BATCH, 1, 1, n_templates))
    common = common + LOCATION_OF_FIVE * math.hypot(*effects)
    datasets = []
    for _ in range(FIVE_DATASETS):
        datasets.append((latent(draw, (rows, *levels), own_effects) + common > 0).astype(np.float64))
    designs_of_datasets = [list(designs(outcomes)) for outcomes in datasets]

    truth = NormalDist().cdf(LOCATION_OF_FIVE)
    figures: list[tuple[float, ...]] = []
    for sample in range(BATCH):
        parts = [accuracy_part(outcomes[sample]) for outcomes in datasets]
        accuracies = [part.value for part in parts]
        mean = sum(accuracies) / FIVE_DATASETS
        over_rows = mean_interval(accuracies, [part.interval(0.95, "") for part in parts])
        effects_of_mean = mean_effects([of_dataset[sample] for of_dataset in designs_of_datasets])
        figures.append(figures_of(truth, mean, over_rows, generalise(mean, over_rows, effects_of_mean)))
    return figures


def coverage_of_means(samples: int, draw: np.random.Generator) -> Iterator[tuple[Any, ...]]:
    """Yield the same for means over five data sets, which share half of the variance of the templates, or nothing."""
    for name, rows, levels, shared in product(EFFECTS, (20, 128), ((4, 3), (8, 9)), (0.0, 0.5)):
        figures = sampled(samples, too_low, of_five, draw, rows, levels, EFFECTS[name], shared)
        yield name, rows, levels, shared, *summary(figures)


def coverage_of_shapes(samples: int, draw: np.random.Generator) -> Iterator[tuple[Any, ...]]:
    """Yield the same where the effects of draws and templates are not normal, or have two levels only."""
    for shape, name, rows, levels, location in product(
        SHAPES, ("draws", "templates", "all"), (20, 128), ((2, 2), (4, 3), (8, 9)), (0.0, 0.7)
    ):
        truth = float(np.mean([latent(draw, (1, 1, 1), EFFECTS[name], shape) + location > 0 for _ in range(4000)]))
        cell = ((rows, *levels), EFFECTS[name], shape, location, truth)
        kind = f"{shape}, {levels[0]} x {levels[1]}"
        yield kind, rows, name, location, *summary(sampled(samples, too_low, of_data_set, draw, *cell))


def true_components(effects: Sequence[float], share: float) -> list[float]:
    """Return the variance of each source of the 0-1 outcomes, whose mean is the share.

    Two queries that have the same levels of a source share a part of the variance of the latent sums, which is their
    correlation. The probability that both are correct, minus the square of the share, is their covariance: the sum of
    the variances of the source and of its parts.
    """
    total_variance = sum(effect * effect for effect in effects)
    location = NormalDist().inv_cdf(share)
    variances: dict[tuple[int, ...], float] = {}
    for source in SOURCES:
        shared_variance = 0.0
        for part, effect in zip(SOURCES, effects, strict=True):
            if set(part) <= set(source):
                shared_variance += effect * effect
        correlation = shared_variance / total_variance
        both_correct = share
        if correlation < 1 - 1e-9:
            covariance = [[1, correlation], [correlation, 1]]
            both_correct = float(multivariate_normal.cdf([location, location], cov=covariance))
        of_parts = sum(variances[part] for part in variances if set(part) < set(source))
        variances[source] = both_correct - share * share - of_parts
    negligible = 1e-6
    return [variance if variance > negligible else 0.0 for variance in variances.values()]


def of_components(
    draw: np.random.Generator, sizes: Any, effects: Sequence[float], share: float, truth: Sequence[float]
) -> list[tuple[float, ...]]:
    """Return for each sample whether the interval of each component covers it, then the upper limit of each.

    They are NaN for a component without an interval.
    """
    figures: list[tuple[float, ...]] = []
    for design in designs(correct(draw, sizes, effects, share)):
        covered, upper_limits = [], []
        for interval, source, true in zip(design.intervals().values(), SOURCES, truth, strict=True):
            if interval is None:
                covered.append(math.nan)
                upper_limits.append(math.nan)
                continue
            # The library states the variance of a mean over all levels.
            low, high = (limit * levels_of(source, sizes) for limit in interval)
            covered.append(float(low <= true <= high))
            upper_limits.append(high)
        figures.append((*covered, *upper_limits))
    return figures


def component_covers_too_rarely(means: Any) -> bool:
    """Return whether any interval does, by the means of the figures of :func:`of_components`."""
    return bool(min(means[: len(SOURCES)]) < 0.94)


def coverage_of_components(samples: int, draw: np.random.Generator) -> Iterator[tuple[Any, ...]]:
    """Yield for each source the root of the median upper limit over the truth, and the coverage of the interval."""
    for name, (rows, levels), share in product(EFFECTS, COMPONENT_SIZES, (0.5, 0.7, 0.9, 0.97)):
        truth = true_components(EFFECTS[name], share)
        cell = ((rows, *levels), EFFECTS[name], share, truth)
        figures = sampled(samples // 4, component_covers_too_rarely, of_components, draw, *cell)
        covered, upper_limits = np.split(figures, 2, axis=1)
        for number, (source, true) in enumerate(zip(SOURCES.values(), truth, strict=True)):
            coverage_of_source = float(np.nanmean(covered[:, number]))
            ratio = 0.0
            if true:
                ratio = math.sqrt(float(np.nanmedian(upper_limits[:, number])) / true)
            kind = source if true else f"{source} (0)"
            yield kind, f"{name}, {rows} rows", levels, share, ratio, coverage_of_source


class PairOutcome(NamedTuple):
    """Whether two runs differ at level 0.05: 1 or 0, by the test over rows and by the generalising one."""

    over_rows: float
    generalising: float


def of_pairs(
    draw: np.random.Generator, sizes: Any, pair: Sequence[Sequence[float]], share: float
) -> list[tuple[float, ...]]:
    """Return for each pair of runs, which have these effects, whether it differs by the test of each kind."""
    rows, draws, templates = sizes
    first_samples, second_samples = (correct(draw, sizes, effects, share) for effects in pair)
    row_of_query = np.repeat(np.arange(rows), draws * templates).tolist()
    outcomes: list[tuple[float, ...]] = []
    for first, second, design in zip(
        first_samples, second_samples, designs(first_samples - second_samples), strict=True
    ):
        of_first = contributions_to_mean(first.reshape(-1).tolist(), row_of_query, rows)
        of_second = contributions_to_mean(second.reshape(-1).tolist(), row_of_query, rows)
        difference = difference_of_contributions([of_first, of_second])
        p_over_rows = paired_tests.p_value(difference)
        p_generalising = generalising_p_value(difference.difference, p_over_rows, design)
        outcomes.append(PairOutcome(float(p_over_rows <= 0.05), float(p_generalising <= 0.05)))
    return outcomes


def rejects_too_often(means: Any) -> bool:
    return bool(PairOutcome(*means).generalising > 0.05)


def type_one(samples: int, draw: np.random.Generator) -> Iterator[tuple[Any, ...]]:
    """Yield for each cell the shares of pairs of equal models that differ at level 0.05, by the test of each kind."""
    pairs = [*((name, name) for name in EFFECTS), ("all", "rows")]
    for (first, second), rows, levels, share in product(pairs, (20, 128), ((4, 3), (4, 9)), (0.5, 0.8, 0.95)):
        cell = ((rows, *levels), (EFFECTS[first], EFFECTS[second]), share)
        figures = sampled(samples, rejects_too_often, of_pairs, draw, *cell)
        yield (f"{first} and {second}", rows, levels, share, *map(float, figures.mean(axis=0)))


FIRST_FIGURE = 4
"""A cell begins with its name and three settings; its figures follow."""
DECIDING_FIGURE = 5
"""The coverage, or the type I error, of the generalising interval or test."""


def print_table(title: str, cells: Sequence[tuple[Any, ...]], worst: Callable[[Sequence[float]], float]) -> None:
    """Print the median and the worst cell of each kind of model."""
    print(f"\n{title}\n")
    figures_by_name: dict[str, list[tuple[float, ...]]] = {}
    for cell in cells:
        figures_by_name.setdefault(cell[0], []).append(cell[FIRST_FIGURE:])
    rows = []
    for name, figures in figures_by_name.items():
        columns = list(zip(*figures, strict=True))
        rows.append([name, *(f"{worst(column):.3f}, {float(np.median(column)):.3f}" for column in columns)])
    numbers_of_figures = [str(number) for number in range(len(rows[0]) - 1)]
    print(markdown(["components", *numbers_of_figures], rows), flush=True)


TABLES = {
    "coverage": (coverage, min),
    "components": (coverage_of_components, min),
    "means": (coverage_of_means, min),
    "shapes": (coverage_of_shapes, min),
    "type one": (type_one, max),
}
"""For each table its cells, and whether the lowest or the highest figure is the worst."""


def main() -> None:
    """Print each table, with its eight worst cells."""
    options = arguments(__doc__, {"--samples": 400, "--only": list(TABLES)})
    draw = np.random.default_rng(28)
    figures: dict[str, float] = {}
    for title in options.only:
        cells_of, worst = TABLES[title]
        cells = list(cells_of(options.samples, draw))
        print_table(title, cells, worst)
        worst_first = sorted(cells, key=lambda cell: cell[DECIDING_FIGURE], reverse=worst is max)
        for cell in worst_first[:8]:
            print(cell)
        figures[title] = worst(cell[DECIDING_FIGURE] for cell in cells)
    record(__file__, figures, {"samples": options.samples})


if __name__ == "__main__":
    main()

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
from collections.abc import Callable, Iterator, Sequence
from itertools import product
from statistics import NormalDist
from typing import Any

import numpy as np
from records import arguments, markdown, record
from scipy.stats import beta, multivariate_normal
from skewed_nulls import of_mean, of_pair

from StaICC.metrics import paired_tests
from StaICC.metrics.crossed_effects import SOURCES, CrossedEffects, generalise, generalising_p_value, mean_effects
from StaICC.metrics.intervals import mean_interval, ratio_part, student_quantile

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
SHAPES: dict[str, Callable[[np.random.Generator, Any], Any]] = {
    "normal": lambda draw, shape: draw.standard_normal(shape, dtype=np.float32),
    "skewed": lambda draw, shape: draw.exponential(size=shape) - 1,
    "two groups": lambda draw, shape: draw.choice([-1.0, 1.0], size=shape),
}
"""Distributions of the effects of draws and of templates."""


def latent(draw: np.random.Generator, sizes: Sequence[int], effects: Sequence[float], kind: str = "normal") -> Any:
    """Return sums of effects: sample x row x draw x template."""
    total = np.zeros((BATCH, *sizes), dtype=np.float32)
    for source, deviation in zip(SOURCES, effects, strict=True):
        shape = [size if factor in source else 1 for factor, size in enumerate(sizes)]
        if deviation:
            total += deviation * SHAPES["normal" if 0 in source else kind](draw, (BATCH, *shape))
    return total


def correct(draw: np.random.Generator, sizes: Sequence[int], effects: Sequence[float], share: float) -> Any:
    """Return 1 for correct predictions and 0 for others; the true accuracy is the share."""
    location = NormalDist().inv_cdf(share) * math.hypot(*effects)
    return (latent(draw, sizes, effects) + location > 0).astype(np.float64)


def designs(values: Any) -> Iterator[CrossedEffects]:
    """Yield the mean squares of each sample; the tests compare those of the library with another computation."""
    _, *sizes = values.shape
    centred = values - values.mean((1, 2, 3), keepdims=True)
    effects: dict[tuple[int, ...], Any] = {}
    squares = {}
    freedom = {source: float(math.prod(sizes[factor] - 1 for factor in source)) for source in SOURCES}
    for source in SOURCES:
        others = tuple(factor + 1 for factor in range(3) if factor not in source)
        within = sum(effect for part, effect in effects.items() if set(part) < set(source))
        effects[source] = centred.mean(others, keepdims=True) - within
        share = math.prod(sizes[factor] for factor in source)
        squares[source] = (effects[source] ** 2).sum((1, 2, 3)) / share / freedom[source]
    means = values.mean((1, 2))
    spread = {}
    for source, square in squares.items():
        observed = 0.0
        for factor in range(3):
            whole = effects[tuple(sorted({*source, factor}))] * effects[source]
            others = tuple(other + 1 for other in range(3) if other != factor)
            scale = (sizes[factor] if factor in source else 2.0) / math.prod(sizes[own] for own in source)
            quantile = student_quantile(0.95, sizes[factor]) / 1.96
            observed += (scale * quantile) ** 2 * whole.sum(others).var(1, ddof=1) / sizes[factor]
        levels = math.prod(sizes[own] for own in source)
        share = np.clip(means.mean(1), 1e-9, 1 - 1e-9)
        total = np.maximum(1e-3, share * (1 - share) / np.maximum(square * levels, 1e-12) - 1)
        excess = np.maximum(0, beta.stats(share * total, (1 - share) * total, moments="k"))
        theory = square**2 * (2 / freedom[source] + excess / levels)
        few = source in ((1,), (2,))
        spread[source] = theory if few else np.maximum(theory, observed / freedom[source] ** 2)
    for sample in range(len(values)):
        yield CrossedEffects(
            (sizes[0], sizes[1], sizes[2]),
            tuple(means[sample].tolist()),
            {source: float(square[sample]) for source, square in squares.items()},
            freedom,
            {source: float(variance[sample]) for source, variance in spread.items()},
        )


def sampled(samples: int, bad: Callable[[Any], bool], batch: Callable[..., list[tuple[float, ...]]], *cell: Any) -> Any:
    """Return the figures of a cell, one row for each sample; if they are bad, those of ten times as many new samples.

    Of hundreds of cells some are bad by chance, and more samples added to these would stay biased.
    """
    rows: list[tuple[float, ...]] = []
    for number in (samples, 10 * samples):
        rows = []
        while len(rows) < number:
            rows += batch(*cell)
        if not bad(np.mean(rows, axis=0)):
            break
    return np.array(rows)


def too_low(means: Any) -> bool:
    return bool(means[1] < 0.94)


def of_data_set(
    draw: np.random.Generator, sizes: Any, effects: Sequence[float], kind: str, location: float, truth: float
) -> list[tuple[float, ...]]:
    """Return the figures of samples of one data set."""
    samples = (latent(draw, sizes, effects, kind) + location > 0).astype(np.float64)
    figures = []
    for value, design in zip(samples, designs(samples), strict=True):
        queries = [float(math.prod(value.shape[1:]))] * len(value)
        part = ratio_part(value.sum((1, 2)).tolist(), queries, 0.95)
        fixed = part.interval(0.95, "")
        figures.append(_figures(truth, part.value, fixed, generalise(part.value, fixed, design)))
    return figures


def coverage(samples: int, draw: np.random.Generator) -> Iterator[tuple[Any, ...]]:
    """Yield for each cell the coverage of both intervals, and their mean widths over the oracle's."""
    for name, rows, levels, share in product(EFFECTS, (20, 50, 128, 512), LEVELS, (0.5, 0.7, 0.9, 0.97)):
        location = NormalDist().inv_cdf(share) * math.hypot(*EFFECTS[name])
        cell = ((rows, *levels), EFFECTS[name], "normal", location, share)
        yield name, rows, levels, share, *_summary(sampled(samples, too_low, of_data_set, draw, *cell))


def of_five(
    draw: np.random.Generator, rows: int, levels: Any, effects: Sequence[float], shared: float
) -> list[tuple[float, ...]]:
    """Return the figures of samples of five data sets."""
    deviation, location = effects[2], 0.5 * math.hypot(*effects)
    own = [*effects[:2], deviation * math.sqrt(1 - shared), *effects[3:]]
    common = deviation * math.sqrt(shared) * draw.standard_normal((BATCH, 1, 1, levels[1])) + location
    sets = [(latent(draw, (rows, *levels), own) + common > 0).astype(np.float64) for _ in range(5)]
    queries = [float(math.prod(levels))] * rows
    figures = []
    for values, of_sets in zip(zip(*sets, strict=True), zip(*map(designs, sets), strict=True), strict=True):
        parts = [ratio_part(value.sum((1, 2)).tolist(), queries, 0.95) for value in values]
        accuracies = [part.value for part in parts]
        fixed = mean_interval(accuracies, [part.interval(0.95, "") for part in parts])
        mean = sum(accuracies) / len(accuracies)
        general = generalise(mean, fixed, mean_effects(of_sets))
        figures.append(_figures(NormalDist().cdf(0.5), mean, fixed, general))
    return figures


def coverage_of_means(samples: int, draw: np.random.Generator) -> Iterator[tuple[Any, ...]]:
    """Yield the same for means over five data sets, which share half of the variance of the templates, or nothing."""
    for name, rows, levels, shared in product(EFFECTS, (20, 128), ((4, 3), (8, 9)), (0.0, 0.5)):
        figures = sampled(samples, too_low, of_five, draw, rows, levels, EFFECTS[name], shared)
        yield name, rows, levels, shared, *_summary(figures)


def coverage_of_shapes(samples: int, draw: np.random.Generator) -> Iterator[tuple[Any, ...]]:
    """Yield the same where the effects of draws and templates are not normal, or have two levels only."""
    for shape, name, rows, levels, location in product(
        SHAPES, ("draws", "templates", "all"), (20, 128), ((2, 2), (4, 3), (8, 9)), (0.0, 0.7)
    ):
        truth = float(np.mean([latent(draw, (1, 1, 1), EFFECTS[name], shape) + location > 0 for _ in range(4000)]))
        cell = ((rows, *levels), EFFECTS[name], shape, location, truth)
        kind = f"{shape}, {levels[0]} x {levels[1]}"
        yield kind, rows, name, location, *_summary(sampled(samples, too_low, of_data_set, draw, *cell))


def true_components(effects: Sequence[float], share: float) -> list[float]:
    """Return the components of the 0-1 outcomes."""
    total, location = sum(effect * effect for effect in effects), NormalDist().inv_cdf(share)
    found: dict[tuple[int, ...], float] = {}
    for source in SOURCES:
        of_parts = zip(SOURCES, effects, strict=True)
        shared = sum(effect * effect for part, effect in of_parts if set(part) <= set(source)) / total
        both = share
        if shared < 1 - 1e-9:
            both = float(multivariate_normal.cdf([location] * 2, cov=[[1, shared], [shared, 1]]))
        within = sum(own for part, own in found.items() if set(part) < set(source))
        found[source] = both - share * share - within
    return [component if component > 1e-6 else 0.0 for component in found.values()]


def of_components(
    draw: np.random.Generator, sizes: Any, effects: Sequence[float], share: float, truth: Sequence[float]
) -> list[tuple[float, ...]]:
    """Return for each sample whether the interval of each component covers it, and its upper limit."""
    figures = []
    for design in designs(correct(draw, sizes, effects, share)):
        row = []
        for limits, source, true in zip(design.intervals().values(), SOURCES, truth, strict=True):
            scale = math.prod(sizes[factor] for factor in source)
            low, high = (end * scale for end in limits) if limits else (math.nan, math.nan)
            row += [float(low <= true <= high) if limits else math.nan, high]
        figures.append(tuple(row))
    return figures


def coverage_of_components(samples: int, draw: np.random.Generator) -> Iterator[tuple[Any, ...]]:
    """Yield for each source the coverage of the interval of its component, and the median upper limit over truth."""
    for name, (rows, levels), share in product(EFFECTS, COMPONENT_SIZES, (0.5, 0.7, 0.9, 0.97)):
        truth = true_components(EFFECTS[name], share)
        cell = ((rows, *levels), EFFECTS[name], share, truth)
        figures = sampled(samples // 4, lambda means: min(means[::2]) < 0.94, of_components, draw, *cell)
        for place, (source, true) in enumerate(zip(SOURCES.values(), truth, strict=True)):
            covered, high = (figures[:, 2 * place + column] for column in (0, 1))
            ratio = math.sqrt(float(np.nanmedian(high)) / true) if true else 0.0
            kind = source if true else f"{source} (0)"
            yield kind, f"{name}, {rows} rows", levels, share, ratio, float(np.nanmean(covered))


def _figures(truth: float, value: float, *intervals: Any) -> tuple[float, ...]:
    covered = [interval.low <= truth <= interval.high for interval in intervals]
    return *covered, *(interval.high - interval.low for interval in intervals), value


def _summary(figures: Any) -> tuple[float, ...]:
    oracle = 2 * 1.96 * float(np.std(figures[:, 4])) or math.inf
    means = figures.mean(axis=0)
    return float(means[0]), float(means[1]), float(means[2]) / oracle, float(means[3]) / oracle


def of_pairs(
    draw: np.random.Generator, sizes: Any, pair: Sequence[Sequence[float]], share: float
) -> list[tuple[float, ...]]:
    """Return for each pair of runs whether it differs at level 0.05, by the test of each kind."""
    runs = [correct(draw, sizes, effects, share) for effects in pair]
    of_query = np.repeat(np.arange(sizes[0]), math.prod(sizes[1:])).tolist()
    figures: list[tuple[float, ...]] = []
    for ours, others, design in zip(*runs, designs(runs[0] - runs[1]), strict=True):
        parts = [of_mean(run.reshape(-1).tolist(), of_query, sizes[0]) for run in (ours, others)]
        difference = of_pair(parts)
        p = paired_tests.p_value(difference)
        general = generalising_p_value(difference.difference, p, design)
        figures.append((float(p <= 0.05), float(general <= 0.05)))
    return figures


def type_one(samples: int, draw: np.random.Generator) -> Iterator[tuple[Any, ...]]:
    """Yield for each cell the shares of pairs of equal models that differ at level 0.05, by the test of each kind."""
    pairs = [*zip(EFFECTS, EFFECTS, strict=True), ("all", "rows")]
    for (name, other), rows, levels, share in product(pairs, (20, 128), ((4, 3), (4, 9)), (0.5, 0.8, 0.95)):
        cell = ((rows, *levels), (EFFECTS[name], EFFECTS[other]), share)
        figures = sampled(samples, lambda means: means[1] > 0.05, of_pairs, draw, *cell)
        yield (f"{name} and {other}", rows, levels, share, *map(float, figures.mean(axis=0)))


def _print(title: str, cells: Sequence[tuple[Any, ...]], worst: Callable[[Sequence[float]], float]) -> None:
    """Print the median and the worst cell of each kind of model."""
    print(f"\n{title}\n")
    rows = []
    for name in dict.fromkeys(cell[0] for cell in cells):
        of_name = [cell[4:] for cell in cells if cell[0] == name]
        columns = list(zip(*of_name, strict=True))
        rows.append([name, *(f"{worst(column):.3f}, {float(np.median(column)):.3f}" for column in columns)])
    print(markdown(["components", *(str(place) for place in range(len(rows[0]) - 1))], rows), flush=True)


TABLES = {
    "coverage": (coverage, min),
    "components": (coverage_of_components, min),
    "means": (coverage_of_means, min),
    "shapes": (coverage_of_shapes, min),
    "type one": (type_one, max),
}

if __name__ == "__main__":
    options = arguments(__doc__, {"--samples": 400, "--only": list(TABLES)})
    draw = np.random.default_rng(28)
    figures: dict[str, float] = {}
    for title in options.only:
        measure, worst = TABLES[title]
        cells = list(measure(options.samples, draw))
        _print(title, cells, worst)
        for cell in sorted(cells, key=lambda cell: cell[5], reverse=worst is max)[:8]:
            print(cell)
        figures[title] = worst(cell[5] for cell in cells)
    record(__file__, figures, {"samples": options.samples})

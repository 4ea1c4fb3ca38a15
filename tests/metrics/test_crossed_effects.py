"""Variance components against the linear model of statsmodels, and the rules of generalising intervals."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import replace
from statistics import NormalDist
from typing import Any

import numpy as np
import pandas as pd
import pytest
from scipy.stats import beta, chi2
from statsmodels.formula.api import ols
from statsmodels.stats.anova import anova_lm

from StaICC.metrics.crossed_effects import (
    SOURCES,
    chi_square_quantile,
    crossed_effects,
    expected_effects,
    generalise,
    generalising_p_value,
    mean_effects,
)
from StaICC.metrics.intervals import Interval, student_quantile

TERMS = ["C(r)", "C(d)", "C(t)", "C(r):C(d)", "C(r):C(t)", "C(d):C(t)"]


def normal_outcomes(variances: Mapping[str, float], sizes: tuple[int, ...], draw: Any) -> Any:
    """Sums of normal effects with these variances."""
    values = np.zeros(sizes)
    for source, name in SOURCES.items():
        shape = [size if factor in source else 1 for factor, size in enumerate(sizes)]
        values = values + variances.get(name, 0.0) ** 0.5 * draw.normal(size=shape)
    return values


def outcomes(rows: int, draws: int, templates: int, seed: int, binary: bool = True) -> Any:
    draw = np.random.default_rng(seed)
    variances = {"rows": 1.0, "draws": 0.25, "templates": 0.16, "rows x templates": 1.0, "rest": 0.25}
    total = normal_outcomes(variances, (rows, draws, templates), draw)
    return (total > 0).astype(float) if binary else total


@pytest.mark.parametrize("binary", [False, True])
@pytest.mark.parametrize("sizes", [(6, 4, 3), (5, 2, 2), (3, 3, 5)])
def test_mean_squares_and_components_are_those_of_an_analysis_of_variance(
    sizes: tuple[int, int, int], binary: bool
) -> None:
    values = outcomes(*sizes, seed=sum(sizes), binary=binary)
    effects = crossed_effects(values.tolist())
    places = np.indices(sizes).reshape(3, -1)
    data = pd.DataFrame({"y": values.reshape(-1), "r": places[0], "d": places[1], "t": places[2]})
    full = anova_lm(ols(f"y ~ {' + '.join(TERMS)}", data).fit())
    squares = [full.loc[term, "sum_sq"] / full.loc[term, "df"] for term in TERMS]
    squares.append(full.loc["Residual", "sum_sq"] / full.loc["Residual", "df"])
    found = [square * values.size for square in effects.mean_squares.values()]
    assert found == pytest.approx(squares, abs=1e-9)
    n, draws, templates = sizes
    rows, draw, template, rd, rt, dt, rest = squares
    expected = {
        "rows": (rows - rd - rt + rest) / (draws * templates),
        "draws": (draw - rd - dt + rest) / (n * templates),
        "templates": (template - rt - dt + rest) / (n * draws),
        "rows x draws": (rd - rest) / templates,
        "rows x templates": (rt - rest) / draws,
        "draws x templates": (dt - rest) / n,
        "rest": rest,
    }
    assert effects.components == pytest.approx(expected, abs=1e-9)
    assert effects.template_means == pytest.approx(values.mean((0, 1)))


def test_components_are_unbiased_also_where_they_are_zero() -> None:
    draw = np.random.default_rng(5)
    variances = {"rows": 0.49, "templates": 0.25, "rows x draws": 0.16, "rest": 0.36}
    samples = [normal_outcomes(variances, (8, 4, 3), draw) for _ in range(600)]
    found = [list(crossed_effects(values.tolist()).components.values()) for values in samples]
    truth = [variances.get(name, 0.0) for name in SOURCES.values()]
    errors = np.std(found, axis=0) / math.sqrt(len(found))
    assert np.all(np.abs(np.mean(found, axis=0) - truth) < 4 * errors)


def mean_square(values: Any, source: tuple[int, ...], weights: list[Any]) -> float:
    """The mean square of a source, over the number of outcomes, where levels have weights."""
    shares = [own / own.sum() for own in weights]

    def average(part: tuple[int, ...]) -> Any:
        found = values
        for factor in range(3):
            if factor not in part:
                shape = [-1 if place == factor else 1 for place in range(3)]
                found = (found * shares[factor].reshape(shape)).sum(factor, keepdims=True)
        return found

    parts = [part for part in [(), *SOURCES] if set(part) <= set(source)]
    effects = sum((-1) ** (len(source) - len(part)) * average(part) for part in parts)
    for factor in source:
        shape = [-1 if place == factor else 1 for place in range(3)]
        effects = effects * np.sqrt(shares[factor]).reshape(shape)
    freedom = math.prod(values.shape[factor] - 1 for factor in source)
    return float((effects**2).sum()) / freedom


@pytest.mark.parametrize("seed", range(4))
def test_variances_of_mean_squares_against_derivatives_by_weights_and_beta_effects(seed: int) -> None:
    sizes = (7, 4, 3)
    values = outcomes(*sizes, seed)
    found = crossed_effects(values.tolist())
    mean = float(values.mean())
    for source, square in found.mean_squares.items():
        assert mean_square(values, source, [np.ones(size) for size in sizes]) == pytest.approx(square)
        observed = 0.0
        for factor, size in enumerate(sizes):
            slopes = []
            for level in range(size):
                ends = []
                for step in (1e-5, -1e-5):
                    weights = [np.ones(own) for own in sizes]
                    weights[factor][level] += step
                    ends.append(mean_square(values, source, weights))
                slopes.append((ends[0] - ends[1]) / 2e-5)
            if source not in ((1,), (2,)):  # a slope is the influence over the number of levels
                quantile = student_quantile(0.95, size) / 1.959964
                observed += quantile**2 * np.var(slopes, ddof=1) * size
        levels = math.prod(sizes[factor] for factor in source)
        total = max(1e-3, mean * (1 - mean) / max(1e-20, square * levels) - 1)
        excess = max(0.0, float(beta.stats(mean * total, (1 - mean) * total, moments="k")))
        theory = square**2 * (2 / found.degrees_of_freedom[source] + excess / levels)
        assert found.mean_square_variances[source] == pytest.approx(max(theory, observed), rel=1e-5)


def test_intervals_of_components_are_undefined_or_cover_them() -> None:
    draw = np.random.default_rng(8)
    truth = {"rows": 0.1**2, "draws": 0.05**2, "draws x templates": 0.03**2, "rest": 0.05**2}
    covered = []
    for _ in range(150):
        values = 0.5 + normal_outcomes(truth, (12, 5, 4), draw)
        limits = crossed_effects(values.tolist()).intervals()
        sizes = [math.prod(values.shape[factor] for factor in source) for source in SOURCES]
        ends = [(own[0] * size, own[1] * size) for own, size in zip(limits.values(), sizes, strict=True) if own]
        covered.append([low <= truth.get(name, 0.0) <= high for name, (low, high) in zip(limits, ends, strict=True)])
    assert np.mean(covered, axis=0) == pytest.approx(0.97, abs=0.031)
    few = crossed_effects(outcomes(9, 2, 3, 1).tolist()).intervals()
    assert [name for name, own in few.items() if own is None] == ["draws"]
    designs = [crossed_effects(outcomes(9, 3, 4, seed).tolist()) for seed in (1, 2, 3)]
    of_mean = [
        sum(design.mean_square_variances[0,] for design in designs),
        sum(design.mean_squares[0,] for design in designs),
    ]
    assert [mean_effects(designs).mean_square_variances[0,], mean_effects(designs).mean_squares[0,]] == pytest.approx(
        [of_mean[0] / 81, of_mean[1] / 9]
    )
    same = crossed_effects([[[value] * 3] * 4 for value in (0, 1, 1, 0, 1)]).intervals()
    assert [name for name, own in same.items() if own is not None] == ["rows"]


def test_interval_of_one_mean_square_is_that_of_a_chi_square() -> None:
    """Draws without any other effect: variances of normal samples."""
    of_draw = [0.42, 0.55, 0.48, 0.57]
    (low, high) = crossed_effects([[[value] * 3 for value in of_draw]] * 10).intervals(0.9)["draws"] or (0, 0)
    variance = float(np.var(of_draw, ddof=1)) / 4
    assert (low, high) == pytest.approx((variance * 3 / chi2.ppf(0.95, 3), variance * 3 / chi2.ppf(0.05, 3)))


@pytest.mark.parametrize("freedom", [0.5, 1, 2, 3.7, 12, 49, 51, 300, 1e6])
def test_chi_square_quantiles(freedom: float) -> None:
    for probability in (0.005, 0.025, 0.5, 0.975, 0.995):
        tolerance = 1e-9 if freedom <= 50 else 2e-3
        expected = chi2.ppf(probability, freedom)
        assert chi_square_quantile(probability, freedom) == pytest.approx(expected, rel=tolerance)


def test_variance_between_levels_is_never_below_that_of_draws_or_of_templates() -> None:
    for seed in range(40):
        effects = crossed_effects(outcomes(8, 4, 3, seed).tolist())
        squares = effects.mean_squares
        variance, freedom = effects.variance_of_levels
        parts = squares[1,] - squares[0, 1], squares[2,] - squares[0, 2]  # each with the interaction of both
        assert variance >= max(*parts, sum(parts) - max(0.0, squares[1, 2] - squares[0, 1, 2])) - 1e-15
        assert 2 <= freedom <= 5 or variance == 0


def test_variance_between_levels_counts_the_interaction_of_draws_and_templates_once() -> None:
    """That of a mean of independent effects: four of draws, three of templates, twelve of both."""
    variances = {"draws": 0.04, "templates": 0.09, "draws x templates": 0.24}
    with_rows = {"rows": 0.5, "rows x draws": 0.3, "rows x templates": 0.2, "rest": 0.6}
    expected = 0.04 / 4 + 0.09 / 3 + 0.24 / 12
    for components in (variances, {**variances, **with_rows}):
        variance, _ = expected_effects(components, sizes=(50, 4, 3)).variance_of_levels
        assert variance == pytest.approx(expected)


@pytest.mark.parametrize("datasets", [1, 2, 5])
def test_more_data_sets_are_more_draws_but_no_more_templates(datasets: int) -> None:
    """All data sets have the same templates, so that their mean square keeps its degrees of freedom.

    With f degrees of freedom, a mean square is a scaled chi-square with the relative variance 2 / f.
    """
    sizes = (2, 4, 3)
    draw = np.random.default_rng(datasets)
    design = crossed_effects(outcomes(*sizes, seed=datasets, binary=False).tolist())
    squares = []
    for _ in range(1000):
        means = tuple(draw.normal(size=sizes[2]).tolist())  # of all rows and draws of a data set, with each template
        run = mean_effects([replace(design, template_means=means)] * datasets)
        squares.append(run.mean_squares[2,])

    expected = expected_effects({"draws": 0.5, "templates": 1.0}, sizes, datasets, shared=1.0)
    assert expected.degrees_of_freedom[2,] == run.degrees_of_freedom[2,]
    freedom_of_sample = 2.0 * float(np.mean(squares)) ** 2 / float(np.var(squares))
    assert freedom_of_sample == pytest.approx(expected.degrees_of_freedom[2,], rel=0.2)
    assert expected.degrees_of_freedom[1,] >= sizes[1] - 1
    if datasets > 1:
        assert expected.degrees_of_freedom[1,] > sizes[1] - 1


def test_interval_of_draws_only_is_that_of_a_mean_of_draws() -> None:
    """Without other effects the draws are a sample of four numbers."""
    of_draw = [0.2, 0.5, 0.4, 0.7]
    effects = crossed_effects([[[value] * 3 for value in of_draw]] * 10)
    mean, deviation = float(np.mean(of_draw)), float(np.std(of_draw, ddof=1))
    interval = generalise(mean, Interval(mean, mean, 0.95, ""), effects, difference=True)
    reach = student_quantile(0.95, 4) * deviation / 2
    assert (interval.low, interval.high) == pytest.approx((mean - reach, mean + reach))
    assert generalise(0.95, Interval(0.9, 1.0, 0.95, ""), effects, difference=True).high == 1.0


def test_near_an_end_the_interval_is_wider_towards_the_middle() -> None:
    effects = crossed_effects([[[value] * 3 for value in (0.99, 0.95, 0.97, 0.97)]] * 10)
    interval = generalise(0.97, Interval(0.96, 0.98, 0.95, ""), effects)
    symmetric = generalise(0.97, Interval(0.96, 0.98, 0.95, ""), effects, difference=True)
    assert interval.low < symmetric.low
    assert interval.high == min(1.0, symmetric.high)
    assert generalise(1.0, Interval(0.9, 1.0, 0.95, ""), crossed_effects([[[1, 1], [1, 1]]] * 3)).low == 0.9


def test_p_value_is_the_level_at_which_the_interval_ends_at_zero() -> None:
    effects = crossed_effects(outcomes(20, 4, 3, 3).tolist())
    difference, fixed_p = 0.9, 1e-6
    p = generalising_p_value(difference, fixed_p, effects)
    assert fixed_p < p < 1
    quantile = NormalDist().inv_cdf
    reach = difference / quantile(fixed_p / 2) * quantile(p / 2)
    rows = Interval(difference - reach, difference + reach, 1 - p, "")
    assert generalise(difference, rows, effects, difference=True).low == pytest.approx(0.0, abs=1e-6)
    assert generalising_p_value(0.0, 0.5, effects) == 1.0
    without = crossed_effects([[[value] * 2] * 2 for value in (0.0, 1.0, 1.0)])
    assert generalising_p_value(0.4, 0.03, without) == pytest.approx(0.03)

"""Variance components against the linear model of statsmodels, and the rules of generalising intervals."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
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
    _beta_variance,
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
    """Return sums of normal effects with these variances, for each row, draw and template.

    Args:
        variances: The variance of the effects of each source, by its name; 0 if it is absent.
        sizes: The numbers of rows, draws and templates.
        draw: A generator of numpy.
    """
    values = np.zeros(sizes)
    for source, name in SOURCES.items():
        shape = [size if factor in source else 1 for factor, size in enumerate(sizes)]
        values = values + variances.get(name, 0.0) ** 0.5 * draw.normal(size=shape)
    return values


def outcomes(rows: int, draws: int, templates: int, seed: int, binary: bool = True) -> Any:
    """Return outcomes with effects of rows, draws, templates, and rows with templates; by default, 1 if positive."""
    draw = np.random.default_rng(seed)
    variances = {"rows": 1.0, "draws": 0.25, "templates": 0.16, "rows x templates": 1.0, "rest": 0.25}
    total = normal_outcomes(variances, (rows, draws, templates), draw)
    return (total > 0).astype(float) if binary else total


def equal_templates(outcome_of_row: Sequence[float], draws: int, templates: int) -> Any:
    """Return the effects of rows whose outcome is the same with all draws and templates."""
    return crossed_effects([[[outcome] * templates] * draws for outcome in outcome_of_row])


def equal_rows_and_templates(outcome_of_draw: Sequence[float], rows: int = 10, templates: int = 3) -> Any:
    """Return the effects of draws whose outcome is the same in all rows and with all templates."""
    return crossed_effects([[[outcome] * templates for outcome in outcome_of_draw]] * rows)


def mean_squares_of_statsmodels(values: Any) -> list[float]:
    """Return the mean squares of the seven sources by an analysis of variance of the outcomes."""
    row, draw, template = np.indices(values.shape).reshape(3, -1)
    data = pd.DataFrame({"y": values.reshape(-1), "r": row, "d": draw, "t": template})
    table = anova_lm(ols(f"y ~ {' + '.join(TERMS)}", data).fit())
    return [table.loc[term, "sum_sq"] / table.loc[term, "df"] for term in [*TERMS, "Residual"]]


CROSSED_SIZES = pytest.mark.parametrize("sizes", [(6, 4, 3), (5, 2, 2), (3, 3, 5)], ids=str)
"""Numbers of rows, draws and templates."""


@CROSSED_SIZES
@pytest.mark.parametrize("binary", [False, True], ids=["numbers", "0 or 1"])
def test_mean_squares_are_those_of_an_analysis_of_variance(sizes: tuple[int, int, int], binary: bool) -> None:
    """Ours are over the number of outcomes."""
    values = outcomes(*sizes, seed=sum(sizes), binary=binary)

    effects = crossed_effects(values.tolist())

    found = [square * values.size for square in effects.mean_squares.values()]
    assert found == pytest.approx(mean_squares_of_statsmodels(values), abs=1e-9)


@CROSSED_SIZES
@pytest.mark.parametrize("binary", [False, True], ids=["numbers", "0 or 1"])
def test_components_are_those_of_an_analysis_of_variance(sizes: tuple[int, int, int], binary: bool) -> None:
    """The expected mean squares of a crossed design with random effects, solved for the variances."""
    values = outcomes(*sizes, seed=sum(sizes), binary=binary)
    rows, draws, templates = sizes

    found = crossed_effects(values.tolist()).components

    r, d, t, rd, rt, dt, rest = mean_squares_of_statsmodels(values)
    expected = {
        "rows": (r - rd - rt + rest) / (draws * templates),
        "draws": (d - rd - dt + rest) / (rows * templates),
        "templates": (t - rt - dt + rest) / (rows * draws),
        "rows x draws": (rd - rest) / templates,
        "rows x templates": (rt - rest) / draws,
        "draws x templates": (dt - rest) / rows,
        "rest": rest,
    }
    assert found == pytest.approx(expected, abs=1e-9)


def test_the_effects_have_the_mean_of_each_template() -> None:
    values = outcomes(6, 4, 3, seed=13)

    effects = crossed_effects(values.tolist())

    assert effects.template_means == pytest.approx(values.mean(axis=(0, 1)))


def test_components_are_unbiased_also_where_they_are_zero() -> None:
    """The means over 600 samples are within four standard errors of the true variances."""
    draw = np.random.default_rng(5)
    variances = {"rows": 0.49, "templates": 0.25, "rows x draws": 0.16, "rest": 0.36}
    found = []
    for _ in range(600):
        values = normal_outcomes(variances, (8, 4, 3), draw)
        found.append(list(crossed_effects(values.tolist()).components.values()))

    truth = [variances.get(name, 0.0) for name in SOURCES.values()]
    standard_errors = np.std(found, axis=0) / math.sqrt(len(found))
    assert np.all(np.abs(np.mean(found, axis=0) - truth) < 4 * standard_errors)


def mean_square(values: Any, source: tuple[int, ...], weights: list[Any]) -> float:
    """Return the mean square of a source, over the number of outcomes, where levels have weights.

    With the factors 0 (rows), 1 (draws) and 2 (templates), the source (0, 1) is rows x draws, for example. Its effect
    is the alternating sum over its subsets: ``average(rows, draws) - average(rows) - average(draws) + average()``,
    where ``average(rows)`` is the weighted average over all factors but rows.

    Args:
        values: The outcomes, with an axis for each factor.
        source: The factors of the source.
        weights: For each factor, an array with the weight of each of its levels.
    """
    shares_of_rows = weights[0].reshape(-1, 1, 1) / weights[0].sum()
    shares_of_draws = weights[1].reshape(1, -1, 1) / weights[1].sum()
    shares_of_templates = weights[2].reshape(1, 1, -1) / weights[2].sum()
    shares = [shares_of_rows, shares_of_draws, shares_of_templates]

    effects: Any = 0.0
    for subset in [(), *SOURCES]:
        if set(subset) <= set(source):
            average = values
            for factor in range(3):
                if factor not in subset:
                    average = (average * shares[factor]).sum(axis=factor, keepdims=True)
            sign = (-1) ** (len(source) - len(subset))
            effects = effects + sign * average

    weighted_squares = effects**2
    for factor in source:
        weighted_squares = weighted_squares * shares[factor]
    degrees_of_freedom = math.prod(values.shape[factor] - 1 for factor in source)
    return float(weighted_squares.sum()) / degrees_of_freedom


CROSSED = (7, 4, 3)
"""The numbers of rows, draws and templates of the following tests."""


def slopes_by_weight(values: Any, source: tuple[int, ...], factor: int) -> list[float]:
    """Return the derivative of a mean square by the weight of each level of a factor, from two points."""
    step = 1e-5
    slopes = []
    for level in range(CROSSED[factor]):
        higher_weights = [np.ones(size) for size in CROSSED]
        higher_weights[factor][level] += step
        lower_weights = [np.ones(size) for size in CROSSED]
        lower_weights[factor][level] -= step
        rise = mean_square(values, source, higher_weights) - mean_square(values, source, lower_weights)
        slopes.append(rise / (2 * step))
    return slopes


def observed_variance(values: Any, source: tuple[int, ...]) -> float:
    """Return the variance of a mean square from the influences of all levels; 0 for draws and for templates alone.

    The influence of a level is its slope times the number n of levels of the factor. The variance of a mean of n
    influences is ``variance(influences) / n = n * variance(slopes)``. Few levels count more, by the squared ratio of
    the 95 % quantiles of Student's t and of the normal distribution.
    """
    draws, templates = (1,), (2,)
    if source in (draws, templates):
        return 0.0
    variance = 0.0
    normal_quantile = 1.959964
    for factor, level_count in enumerate(CROSSED):
        slopes = slopes_by_weight(values, source, factor)
        variance_of_factor = level_count * float(np.var(slopes, ddof=1))
        ratio_of_quantiles = student_quantile(0.95, level_count) / normal_quantile
        variance += ratio_of_quantiles**2 * variance_of_factor
    return variance


def theoretical_variance(values: Any, source: tuple[int, ...], square: float, freedom: float) -> float:
    """Return the variance of the mean square of effects with a beta distribution.

    It is ``square^2 * (2 / freedom + excess kurtosis / levels)``: the first term is that of chi-square, the second
    counts if it is positive. The beta distribution has the mean of the outcomes and the variance of the effects,
    ``mean * (1 - mean) / (concentration + 1)``.
    """
    mean = float(values.mean())
    levels = math.prod(CROSSED[factor] for factor in source)
    variance_of_effects = max(1e-20, square * levels)
    concentration = max(1e-3, mean * (1 - mean) / variance_of_effects - 1)
    excess_kurtosis = float(beta.stats(mean * concentration, (1 - mean) * concentration, moments="k"))
    return square**2 * (2 / freedom + max(0.0, excess_kurtosis) / levels)


@pytest.mark.parametrize("source", SOURCES, ids=SOURCES.values())
@pytest.mark.parametrize("seed", range(4))
def test_the_variance_of_a_mean_square_is_the_larger_one_of_theory_and_observation(
    seed: int, source: tuple[int, ...]
) -> None:
    values = outcomes(*CROSSED, seed)

    found = crossed_effects(values.tolist())

    square = found.mean_squares[source]
    equal_weights = [np.ones(size) for size in CROSSED]
    assert mean_square(values, source, equal_weights) == pytest.approx(square)
    theory = theoretical_variance(values, source, square, found.degrees_of_freedom[source])
    observation = observed_variance(values, source)
    assert found.mean_square_variances[source] == pytest.approx(max(theory, observation), rel=1e-5)


@pytest.mark.parametrize("mean", [0.02, 0.95, 0.99])
def test_a_mean_square_near_an_end_has_a_variance_with_the_excess_kurtosis_of_beta_effects(mean: float) -> None:
    """Effects on scores near 0 or 1 are skewed, so that their excess kurtosis is above 0."""
    n_templates = 4
    variance_of_effects = 0.3 * mean * (1 - mean)
    mean_square = variance_of_effects / n_templates

    variance = _beta_variance(mean_square, n_templates, degrees_of_freedom=3.0, mean_outcome=mean)

    concentration = mean * (1 - mean) / variance_of_effects - 1
    excess_kurtosis = float(beta.stats(mean * concentration, (1 - mean) * concentration, moments="k"))
    assert excess_kurtosis > 1.0
    assert variance == pytest.approx(mean_square**2 * (2 / 3.0 + excess_kurtosis / n_templates))


def test_intervals_of_components_cover_them() -> None:
    """Intervals of 95 % over 150 samples; the limits are over the number of levels of a source."""
    samples = 150
    draw = np.random.default_rng(8)
    variances = {"rows": 0.1**2, "draws": 0.05**2, "draws x templates": 0.03**2, "rest": 0.05**2}
    sizes = (12, 5, 4)
    covered = dict.fromkeys(SOURCES.values(), 0)
    for _ in range(samples):
        values = 0.5 + normal_outcomes(variances, sizes, draw)
        intervals = crossed_effects(values.tolist()).intervals()
        for source, name in SOURCES.items():
            interval = intervals[name]
            assert interval is not None
            levels = math.prod(sizes[factor] for factor in source)
            low, high = interval[0] * levels, interval[1] * levels
            if low <= variances.get(name, 0.0) <= high:
                covered[name] += 1

    for name, count in covered.items():
        assert count / samples >= 0.939, name


def test_the_component_of_two_draws_has_no_interval() -> None:
    intervals = crossed_effects(outcomes(rows=9, draws=2, templates=3, seed=1).tolist()).intervals()

    assert [name for name, interval in intervals.items() if interval is None] == ["draws"]


def test_only_sources_that_vary_have_an_interval() -> None:
    intervals = equal_templates([0, 1, 1, 0, 1], draws=4, templates=3).intervals()

    assert [name for name, interval in intervals.items() if interval is not None] == ["rows"]


def test_the_mean_over_data_sets_has_their_mean_squares_over_the_square_of_their_number() -> None:
    """The variance of a mean of three is a ninth of the sum, and the variance of that variance an eighty-first."""
    designs = [crossed_effects(outcomes(9, 3, 4, seed).tolist()) for seed in (1, 2, 3)]
    of_rows = (0,)

    of_mean = mean_effects(designs)

    squares = [design.mean_squares[of_rows] for design in designs]
    variances = [design.mean_square_variances[of_rows] for design in designs]
    assert of_mean.mean_squares[of_rows] == pytest.approx(sum(squares) / 3**2)
    assert of_mean.mean_square_variances[of_rows] == pytest.approx(sum(variances) / 3**4)


def test_interval_of_one_mean_square_is_that_of_a_chi_square() -> None:
    """Draws without any other effect: the interval of the variance of a normal sample, with 3 degrees of freedom.

    The limits are over the number of draws.
    """
    outcome_of_draw = [0.42, 0.55, 0.48, 0.57]

    interval = equal_rows_and_templates(outcome_of_draw).intervals(0.9)["draws"]

    assert interval is not None
    sum_of_squares = 3 * float(np.var(outcome_of_draw, ddof=1))
    low_variance = sum_of_squares / chi2.ppf(0.95, 3)
    high_variance = sum_of_squares / chi2.ppf(0.05, 3)
    assert interval == pytest.approx((low_variance / 4, high_variance / 4))


@pytest.mark.parametrize("freedom", [0.5, 1, 2, 3.7, 12, 49, 51, 300, 1e6])
def test_chi_square_quantiles(freedom: float) -> None:
    for probability in (0.005, 0.025, 0.5, 0.975, 0.995):
        tolerance = 1e-9 if freedom <= 50 else 2e-3
        expected = chi2.ppf(probability, freedom)
        assert chi_square_quantile(probability, freedom) == pytest.approx(expected, rel=tolerance)


@pytest.mark.parametrize("seed", range(40))
def test_variance_between_levels_is_never_below_that_of_draws_or_of_templates(seed: int) -> None:
    """That of draws, and that of templates, each have the interaction of both, which counts once in their sum."""
    effects = crossed_effects(outcomes(8, 4, 3, seed).tolist())
    rows_draws, rows_templates, draws_templates, rest = (0, 1), (0, 2), (1, 2), (0, 1, 2)
    squares = effects.mean_squares

    variance, freedom = effects.variance_of_levels

    of_draws = squares[1,] - squares[rows_draws]
    of_templates = squares[2,] - squares[rows_templates]
    of_interaction = max(0.0, squares[draws_templates] - squares[rest])
    rounding = 1e-15
    assert variance >= of_draws - rounding
    assert variance >= of_templates - rounding
    assert variance >= of_draws + of_templates - of_interaction - rounding
    assert 2 <= freedom <= 5 or variance == 0


def test_variance_between_levels_counts_the_interaction_of_draws_and_templates_once() -> None:
    """That of a mean of independent effects: four of draws, three of templates, twelve of both."""
    without_rows = {"draws": 0.04, "templates": 0.09, "draws x templates": 0.24}
    with_rows = {**without_rows, "rows": 0.5, "rows x draws": 0.3, "rows x templates": 0.2, "rest": 0.6}

    for variances in (without_rows, with_rows):
        variance, _ = expected_effects(variances, sizes=(50, 4, 3)).variance_of_levels

        assert variance == pytest.approx(0.04 / 4 + 0.09 / 3 + 0.24 / 12)


@pytest.mark.parametrize("datasets", [1, 2, 5])
def test_more_data_sets_are_no_more_templates(datasets: int) -> None:
    """All data sets have the same templates, so that their mean square keeps its degrees of freedom.

    With f degrees of freedom, a mean square is a scaled chi-square with the relative variance 2 / f.
    """
    of_templates = (2,)
    sizes = (2, 4, 3)
    draw = np.random.default_rng(datasets)
    design = crossed_effects(outcomes(*sizes, seed=datasets, binary=False).tolist())
    mean_squares = []
    for _ in range(1000):
        means = tuple(draw.normal(size=3).tolist())  # of all rows and draws of a data set, with each template
        run = mean_effects([replace(design, template_means=means)] * datasets)
        mean_squares.append(run.mean_squares[of_templates])

    expected = expected_effects({"draws": 0.5, "templates": 1.0}, sizes, datasets, shared=1.0)

    freedom = expected.degrees_of_freedom[of_templates]
    assert freedom == run.degrees_of_freedom[of_templates]
    relative_variance = float(np.var(mean_squares)) / float(np.mean(mean_squares)) ** 2
    assert 2.0 / relative_variance == pytest.approx(freedom, rel=0.2)


def test_more_data_sets_are_more_draws() -> None:
    """Each data set has its own draws of demonstrations."""
    of_draws = (1,)
    rows_draws_templates = (2, 4, 3)

    freedom_by_datasets = {}
    for datasets in (1, 2, 5):
        effects = expected_effects({"draws": 0.5, "templates": 1.0}, rows_draws_templates, datasets, shared=1.0)
        freedom_by_datasets[datasets] = effects.degrees_of_freedom[of_draws]

    assert freedom_by_datasets[1] >= 4 - 1
    assert freedom_by_datasets[2] > 4 - 1
    assert freedom_by_datasets[5] > 4 - 1


def test_interval_of_draws_only_is_that_of_a_mean_of_draws() -> None:
    """Without other effects the draws are a sample of four numbers, with an interval by Student's t."""
    outcome_of_draw = [0.2, 0.5, 0.4, 0.7]
    mean, deviation = float(np.mean(outcome_of_draw)), float(np.std(outcome_of_draw, ddof=1))
    without_width = Interval(mean, mean, 0.95, "")

    interval = generalise(mean, without_width, equal_rows_and_templates(outcome_of_draw), difference=True)

    half_width = student_quantile(0.95, 4) * deviation / math.sqrt(4)
    assert (interval.low, interval.high) == pytest.approx((mean - half_width, mean + half_width))


def test_an_interval_of_a_difference_ends_at_one() -> None:
    effects = equal_rows_and_templates([0.2, 0.5, 0.4, 0.7])

    assert generalise(0.95, Interval(0.9, 1.0, 0.95, ""), effects, difference=True).high == 1.0


def test_near_an_end_the_interval_is_wider_towards_the_middle() -> None:
    """That of a score; that of a difference, which is symmetric, has the same upper limit."""
    effects = equal_rows_and_templates([0.99, 0.95, 0.97, 0.97])
    over_rows = Interval(0.96, 0.98, 0.95, "")

    of_score = generalise(0.97, over_rows, effects)
    of_difference = generalise(0.97, over_rows, effects, difference=True)

    assert of_score.low < of_difference.low
    assert of_score.high == min(1.0, of_difference.high)


def test_a_score_that_is_always_one_keeps_the_interval_over_rows() -> None:
    always_right = crossed_effects([[[1, 1], [1, 1]]] * 3)

    assert generalise(1.0, Interval(0.9, 1.0, 0.95, ""), always_right).low == 0.9


def test_p_value_is_the_level_at_which_the_interval_ends_at_zero() -> None:
    """The interval over rows at the level 1 - p is that of a normal estimate whose two-sided p-value is ``fixed_p``."""
    effects = crossed_effects(outcomes(20, 4, 3, seed=3).tolist())
    difference, fixed_p = 0.9, 1e-6

    p = generalising_p_value(difference, fixed_p, effects)

    assert fixed_p < p < 1
    quantile = NormalDist().inv_cdf
    standard_error = -difference / quantile(fixed_p / 2)
    half_width = -standard_error * quantile(p / 2)
    over_rows = Interval(difference - half_width, difference + half_width, 1 - p, "")
    assert generalise(difference, over_rows, effects, difference=True).low == pytest.approx(0.0, abs=1e-6)


def test_a_difference_of_zero_has_the_p_value_one() -> None:
    effects = crossed_effects(outcomes(20, 4, 3, seed=3).tolist())

    assert generalising_p_value(0.0, 0.5, effects) == 1.0


def test_without_effects_of_draws_and_templates_the_p_value_is_that_over_rows() -> None:
    effects = equal_templates([0.0, 1.0, 1.0], draws=2, templates=2)

    assert generalising_p_value(0.4, 0.03, effects) == pytest.approx(0.03)

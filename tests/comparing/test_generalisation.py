"""Generalisation: the benchmark, its variance components, comparison and figure; plans of sizes."""

from __future__ import annotations

import copy
import hashlib
from collections.abc import Callable, Sequence
from dataclasses import replace
from itertools import combinations, product
from pathlib import Path
from statistics import covariance, fmean
from typing import Any, NamedTuple

import numpy as np
import pytest

from StaICC import Generalisation, load_kernel
from StaICC.benchmarks.findings import Recomputed
from StaICC.benchmarks.verify import verify
from StaICC.cli import main
from StaICC.comparing.comparison import compare
from StaICC.comparing.generalisation import compare_generalising, variance_components
from StaICC.comparing.planning import Components, _tail_over_rows, components_of, evaluate_design, plan
from StaICC.errors import ArgumentError, UndefinedMetricError
from StaICC.metrics import paired_tests
from StaICC.metrics.crossed_effects import (
    SOURCES,
    CrossedEffects,
    crossed_effects,
    expected_effects,
    generalise,
    generalising_p_value,
    mean_effects,
)
from StaICC.metrics.intervals import Interval, mean_interval, ratio_part, student_quantile
from StaICC.report.figures.variance_plot import variance_chart
from StaICC.results.result import Result, load
from tests.metrics.test_crossed_effects import normal_outcomes
from tests.performance.skewed_nulls import contributions_to_mean, difference_of_contributions

Model = Callable[[Any, Sequence[str]], int]


def guessing(name: str) -> Model:
    """Return a model that guesses: the label is a digest of its name and the prompt."""

    def predict(prompt: Any, label_space: Sequence[str]) -> int:
        return hashlib.sha256((name + prompt).encode()).digest()[0] % len(label_space)

    return predict


@pytest.fixture(scope="module")
def results() -> dict[str, Result]:
    """Runs over 30 rows with four draws and three templates, of which one is right with one template only."""
    benchmark = Generalisation(datasets=["mini"], limit=30)
    true_labels = {query.prompt: query.label for query in benchmark[0].all_queries()}
    conditions_of_first_template = benchmark[0].conditions()[::3]
    prompts_of_first_template = {
        query.prompt for condition in conditions_of_first_template for query in condition.queries
    }

    def right_with_one_template(prompt: Any, label_space: Sequence[str]) -> int:
        is_right = prompt in prompts_of_first_template
        return true_labels[prompt] if is_right else (true_labels[prompt] + 1) % 3

    return {
        "guesses": benchmark(guessing("a")),
        "others": benchmark(guessing("b")),
        "one template": benchmark(right_with_one_template),
        "right": benchmark(lambda prompt, label_space: true_labels[prompt]),
    }


def result_over(details: list[Any], result: Result) -> Result:
    """Return a result over data sets with these details, whose names are 0, 1, ..."""
    several = copy.copy(result)
    several.details = {str(number): of_dataset for number, of_dataset in enumerate(details)}
    return several


def test_every_row_has_all_pairs_of_a_shared_list_and_a_template() -> None:
    experimentor = Generalisation(datasets=["mini"], limit=5, draws=3, templates=4)[0]

    conditions = experimentor.conditions()

    rows, pairs_of_list_and_template = 5, 3 * 4
    assert [len(condition.queries) for condition in conditions] == [rows] * pairs_of_list_and_template
    distinct_prompts = {query.prompt for condition in conditions for query in condition.queries}
    assert len(distinct_prompts) == rows * pairs_of_list_and_template
    assert len(set(experimentor.demonstration_lists())) == 3


def test_the_rows_of_a_condition_share_their_demonstrations() -> None:
    first_condition = Generalisation(datasets=["mini"], limit=5, draws=3, templates=4)[0].conditions()[0]

    assert len({query.last_label for query in first_condition.queries}) == 1


def test_the_first_conditions_have_different_templates() -> None:
    """The first four of 12 conditions share a list of demonstrations, which each template formats in its way."""
    conditions = Generalisation(datasets=["mini"], limit=5, draws=3, templates=4)[0].conditions()

    first_demonstrations = {condition.queries[0].prompt.splitlines()[0] for condition in conditions[:4]}

    assert len(first_demonstrations) > 1


def prompts_of_last_condition(limit: int | None) -> list[Any]:
    """Return the prompts of the last one of four conditions."""
    benchmark = Generalisation(datasets=["AGNews"], limit=limit, draws=2, templates=2)
    return [query.prompt for query in benchmark[0].conditions()[3].queries]


def test_a_larger_limit_adds_test_rows_and_changes_no_prompt() -> None:
    default, larger = prompts_of_last_condition(limit=None), prompts_of_last_condition(limit=130)

    assert len(default) == 128
    assert len(larger) == 130
    assert larger[:128] == default


def test_a_run_with_a_larger_limit_than_the_default_is_recomputed() -> None:
    result = Generalisation(datasets=["AGNews"], limit=130, draws=2, templates=2)(guessing("a"))

    assert "rows=130" in str(result.signature)
    assert [finding for finding in verify(result) if finding.status != Recomputed()] == []


def test_the_components_of_a_run_with_a_larger_limit_are_over_all_its_rows() -> None:
    result = Generalisation(datasets=["AGNews"], limit=130, draws=2, templates=2)(guessing("a"))

    rows, draws, templates = variance_components(result).lines[0].effects.sizes

    assert (rows, draws, templates) == (130, 2, 2)


def test_a_limit_that_is_no_number_is_refused() -> None:
    with pytest.raises(ArgumentError, match="limit"):
        Generalisation(datasets=["mini"], limit="many")  # type: ignore[arg-type]


def test_the_score_is_the_mean_accuracy_of_the_conditions(results: dict[str, Result]) -> None:
    result = results["guesses"]
    accuracies = []
    for record in result.details["mini"].conditions:
        hits = [truth == prediction for truth, prediction in zip(record.truth, record.predictions, strict=True)]
        accuracies.append(fmean(hits))

    assert len(accuracies) == 4 * 3, "of four draws and three templates"
    assert result.averaged["accuracy"] == pytest.approx(fmean(accuracies))


def test_every_query_of_every_condition_is_another_one(results: dict[str, Result]) -> None:
    details = results["guesses"].details["mini"]

    assert details.asked == 30 * 12
    assert details.distinct == 30 * 12


def test_the_generalising_interval_holds_that_over_rows(results: dict[str, Result]) -> None:
    result = results["guesses"]

    (on_mini,) = variance_components(result).lines

    over_rows = result.details["mini"].intervals["accuracy"]
    assert on_mini.fixed == over_rows
    assert on_mini.generalising.low <= over_rows.low
    assert over_rows.low < on_mini.value < over_rows.high
    assert over_rows.high <= on_mini.generalising.high


def test_an_interval_at_a_lower_level_is_narrower(results: dict[str, Result]) -> None:
    at_95_percent = variance_components(results["guesses"]).lines[0].fixed
    at_90_percent = variance_components(results["guesses"], 0.9).lines[0].fixed

    assert at_90_percent.high < at_95_percent.high


def test_a_model_that_is_right_with_one_template_varies_over_templates_only(results: dict[str, Result]) -> None:
    """Of three templates with the accuracies 1, 0 and 0, the variance is 1/3 (with the divisor 2)."""
    (line,) = variance_components(results["one template"]).lines

    assert line.effects.components["templates"] == pytest.approx(1 / 3)
    assert line.effects.components["rows"] == pytest.approx(0)
    assert line.generalising.high - line.generalising.low > 0.9


@pytest.mark.parametrize(
    "names",
    [
        ("one template", "one template"),
        ("one template", "guesses", "one template"),
        ("one template", "others"),
        ("guesses", "guesses"),
    ],
    ids=", ".join,
)
def test_the_shared_variance_is_the_covariance_of_the_template_means_of_data_sets(
    results: dict[str, Result], names: tuple[str, ...]
) -> None:
    """It is the mean over all pairs of data sets, limited to the range from 0 to the variance between templates."""
    several = result_over([results[name].details["mini"] for name in names], results["one template"])
    *lines_of_datasets, _mean = variance_components(several).lines

    components = components_of(several)

    covariances = []
    for first, second in combinations(lines_of_datasets, 2):
        covariances.append(covariance(first.effects.template_means, second.effects.template_means))
    limited = min(max(0.0, fmean(covariances)), components.variances["templates"])
    assert components.shared == pytest.approx(limited)


def test_the_line_of_the_mean_has_the_mean_effects_of_the_data_sets(results: dict[str, Result]) -> None:
    several = result_over([results[name].details["mini"] for name in ("guesses", "others")], results["guesses"])

    first, second, mean = variance_components(several).lines

    assert mean.effects == mean_effects([first.effects, second.effects])
    assert mean.value == (first.value + second.value) / 2


def test_negative_components_are_set_to_zero_after_they_are_averaged(results: dict[str, Result]) -> None:
    """If they were set to zero before, the mean over the data sets would be too large."""
    several = result_over([results[name].details["mini"] for name in ("guesses", "others")], results["guesses"])
    first, second, _mean = variance_components(several).lines
    zero_after, zero_before = {}, {}
    for source in SOURCES.values():
        of_first = first.effects.components[source]
        of_second = second.effects.components[source]
        zero_after[source] = max(0.0, fmean([of_first, of_second]))
        zero_before[source] = fmean([max(0.0, of_first), max(0.0, of_second)])
    assert zero_after != pytest.approx(zero_before)

    assert components_of(several).variances == pytest.approx(zero_after)


def test_components_of_a_difference_are_over_the_data_sets_that_both_runs_have(results: dict[str, Result]) -> None:
    with_another = copy.copy(results["one template"])
    with_another.details = {"others": results["others"].details["mini"], **results["one template"].details}

    difference = components_of(with_another, results["right"])

    assert difference == components_of(results["one template"], results["right"])
    assert difference.accuracy is None


def test_a_difference_on_the_rows_that_one_template_decides_is_not_shown_over_templates(
    results: dict[str, Result],
) -> None:
    over_rows = compare(results["right"], results["one template"]).overall
    over_templates = compare_generalising(results["right"], results["one template"]).overall

    assert over_rows.p_value is not None
    assert over_rows.p_value < 1e-4
    assert over_templates.p_value is not None
    assert over_templates.p_value > 0.05


def test_a_generalising_comparison_has_the_difference_of_that_over_rows(results: dict[str, Result]) -> None:
    generalising = compare_generalising(results["right"], results["guesses"]).overall
    over_rows = compare(results["right"], results["guesses"]).overall

    assert generalising.difference == over_rows.difference
    assert generalising.rows == over_rows.rows
    assert generalising.values == over_rows.values


def test_the_command_components_names_the_runs_by_their_files(
    results: dict[str, Result], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    files = [str(tmp_path / f"{name}.json") for name in ("right", "guesses")]
    for name, file in zip(("right", "guesses"), files, strict=True):
        results[name].save(file)

    assert main(["components", *files]) == 0

    assert "Generalisation: first right, second guesses\n" in capsys.readouterr().out


def test_a_generalising_comparison_has_a_wider_interval_and_a_larger_p_value(results: dict[str, Result]) -> None:
    generalising = compare_generalising(results["right"], results["guesses"]).overall
    over_rows = compare(results["right"], results["guesses"]).overall

    assert generalising.interval is not None
    assert over_rows.interval is not None
    assert generalising.interval.low <= over_rows.interval.low
    assert generalising.interval.high >= over_rows.interval.high
    assert generalising.p_value is not None
    assert over_rows.p_value is not None
    assert over_rows.p_value <= generalising.p_value < 0.001
    assert generalising.holm == generalising.p_value, "one comparison needs no correction"


def test_a_run_does_not_differ_from_itself_over_draws_and_templates(results: dict[str, Result]) -> None:
    same = compare_generalising(results["right"], results["right"]).overall

    assert same.p_value in (None, 1.0)


def failing(prompts: set[Any]) -> Model:
    """Return a model that fails for these prompts."""

    def predict(prompt: Any, label_space: Sequence[str]) -> int:
        if prompt in prompts:
            raise ValueError("no reply")
        return len(prompt) % 3

    return predict


TEN_ROWS = {"datasets": ["mini"], "limit": 10}


def test_a_row_that_lacks_one_prediction_counts_for_the_accuracy_only() -> None:
    """The components need all predictions of a row, so nine of ten rows are left."""
    benchmark = Generalisation(**TEN_ROWS)  # type: ignore[arg-type]
    one_query = benchmark[0].conditions()[4].queries[3]
    result = benchmark(failing({one_query.prompt}), on_error="collect")

    components = variance_components(result)

    (on_mini,) = components.lines
    rows, draws, templates = on_mini.effects.sizes
    assert (rows, draws, templates) == (9, 4, 3)
    assert components.left_out == {"mini": 1}
    assert on_mini.value == pytest.approx(result.averaged["accuracy"])
    assert on_mini.fixed == result.details["mini"].intervals["accuracy"]


def test_a_row_without_any_prediction_is_left_out_of_the_components() -> None:
    benchmark = Generalisation(**TEN_ROWS)  # type: ignore[arg-type]
    prompts_of_first_row = {condition.queries[0].prompt for condition in benchmark[0].conditions()}

    result = benchmark(failing(prompts_of_first_row), on_error="collect")

    assert variance_components(result).left_out == {"mini": 1}


def test_components_of_one_complete_row_are_undefined() -> None:
    benchmark = Generalisation(**TEN_ROWS)  # type: ignore[arg-type]
    all_rows_but_one = benchmark[0].conditions()[0].queries[1:]

    result = benchmark(failing({query.prompt for query in all_rows_but_one}), on_error="collect")

    with pytest.raises(UndefinedMetricError, match="mini: 1 of 10 test rows"):
        variance_components(result)


def test_a_saved_result_has_the_same_sources_of_variance(results: dict[str, Result], tmp_path: Path) -> None:
    results["guesses"].save(tmp_path / "a.json")

    loaded = load(tmp_path / "a.json")

    assert isinstance(loaded, Result)
    assert variance_components(loaded) == variance_components(results["guesses"])


def test_a_saved_result_with_draws_and_templates_is_recomputed(results: dict[str, Result], tmp_path: Path) -> None:
    results["guesses"].save(tmp_path / "a.json")

    findings = verify(load(tmp_path / "a.json"))  # type: ignore[arg-type]

    assert findings
    assert [finding for finding in findings if finding.status != Recomputed()] == []


def test_the_table_has_the_interval_of_the_deviation_of_a_source(results: dict[str, Result]) -> None:
    components = variance_components(results["guesses"])
    *_, (name, interval_of_rest) = components.lines[0].deviations
    assert interval_of_rest is not None
    low, high = interval_of_rest

    _header, (_row_of_deviations, row_of_intervals, *_) = components.table()

    assert row_of_intervals[-1] == f"{low:.3f} .. {high:.3f}", name


def test_json_has_the_interval_of_the_variance_of_one_query(results: dict[str, Result]) -> None:
    """The line has intervals of standard deviations of the mean over 30 rows in 12 conditions."""
    (on_mini,) = variance_components(results["guesses"]).lines
    *_, (_name, interval_of_rest) = on_mini.deviations
    assert interval_of_rest is not None
    low_deviation, high_deviation = interval_of_rest

    saved = on_mini.to_dict()

    low_variance, high_variance = saved["component_intervals"]["rest"]
    queries = 30 * 12
    assert low_variance == pytest.approx(low_deviation**2 * queries)
    assert high_variance == pytest.approx(high_deviation**2 * queries)
    assert low_variance < saved["components"]["rest"] < high_variance


def test_the_figure_shows_the_source_that_varies(results: dict[str, Result]) -> None:
    """The run is right with one template of three, so nothing but the template matters: rows have no deviation."""
    figure = variance_chart(results["one template"])

    row_of_rows, _row_of_draws, row_of_templates, *_ = figure.rows
    assert row_of_rows[2:] == ["rows", "0.0000", "-"]
    _, _, source, deviation, interval = row_of_templates
    assert source == "templates"
    assert deviation == "0.3333"
    low, high = interval.split(" .. ")
    assert 0 < float(low) < 0.3
    assert high == "0.333"
    assert "rows x draws" in figure.svg()


def test_an_interval_of_a_source_without_variance_is_undefined(results: dict[str, Result]) -> None:
    header, (_deviations, intervals, *_) = variance_components(results["one template"]).table()

    assert intervals[header.index("rows x draws")] == "undefined"


def test_a_figure_of_two_runs_has_seven_lines_for_each(results: dict[str, Result]) -> None:
    figure = variance_chart({"guesses": results["guesses"], "others": results["others"]})

    sources = 7  # rows, draws, templates, and their interactions
    assert len(figure.rows) == 2 * sources


# -- plans of sizes: expected mean squares, the test over rows, the cheapest design, and the command


VARIANCES = {"rows": 0.3, "draws": 0.04, "templates": 0.05, "rows x draws": 0.1, "draws x templates": 0.02, "rest": 0.2}
ONE_RUN = Components(VARIANCES, 0.03, False, "")
DIFFERENCE = Components({"rows": 0.1, "draws": 0.003, "rows x draws": 0.1, "rest": 0.2}, 0.0, True, "")


def draw_datasets(components: Components, sizes: tuple[int, int, int], datasets: int, draw: Any) -> list[Any]:
    """Draw normal outcomes with the variances of some components: for each data set, row x draw x template.

    The part ``shared`` of the variance of the templates is that of effects which all data sets have in common.
    """
    n_templates = sizes[2]
    own_variance_of_templates = components.variances.get("templates", 0.0) - components.shared
    own_variances = {**components.variances, "templates": own_variance_of_templates}
    shared_effects = components.shared**0.5 * draw.normal(size=(1, 1, n_templates))
    return [shared_effects + normal_outcomes(own_variances, sizes, draw) for _ in range(datasets)]


def effects_of_mean(values_of_datasets: list[Any]) -> CrossedEffects:
    """Return the mean squares of the mean over data sets."""
    return mean_effects([crossed_effects(values.tolist()) for values in values_of_datasets])


def difference_with_steps(steps: Any) -> paired_tests.PairedDifference:
    """Return the difference of two runs whose scores differ by these steps: 0.5 plus and minus half a step."""
    n_rows = len(steps)
    first = contributions_to_mean((0.5 + steps / 2).tolist(), range(n_rows), n_rows)
    second = contributions_to_mean((0.5 - steps / 2).tolist(), range(n_rows), n_rows)
    return difference_of_contributions([first, second])


SIX_FOUR_THREE = (6, 4, 3)
"""Numbers of rows, draws and templates."""


@pytest.fixture(scope="module")
def effects_of_400_samples() -> list[CrossedEffects]:
    """The effects of the mean over three data sets, whose templates share a variance of 0.03."""
    draw = np.random.default_rng(1)
    samples = []
    for _ in range(400):
        samples.append(effects_of_mean(draw_datasets(ONE_RUN, SIX_FOUR_THREE, datasets=3, draw=draw)))
    return samples


@pytest.mark.parametrize("source", SOURCES, ids=SOURCES.values())
def test_expected_mean_squares_are_the_means_of_those_of_samples(
    source: tuple[int, ...], effects_of_400_samples: list[CrossedEffects]
) -> None:
    """Within four standard errors."""
    expected = expected_effects(VARIANCES, SIX_FOUR_THREE, datasets=3, shared=0.03).mean_squares[source]

    of_samples = [effects.mean_squares[source] for effects in effects_of_400_samples]

    standard_error = float(np.std(of_samples)) / 400**0.5
    assert float(np.mean(of_samples)) == pytest.approx(expected, abs=4 * standard_error)


def test_expected_degrees_of_freedom_of_draws_are_the_mean_of_those_of_samples(
    effects_of_400_samples: list[CrossedEffects],
) -> None:
    """The degrees of freedom depend on the sample, because each data set has its own draws."""
    draws = (1,)
    expected = expected_effects(VARIANCES, SIX_FOUR_THREE, datasets=3, shared=0.03)

    freedoms = [effects.degrees_of_freedom[draws] for effects in effects_of_400_samples]

    assert expected.degrees_of_freedom[draws] == pytest.approx(np.mean(freedoms), rel=0.1)


def test_expected_effects_of_one_data_set_have_the_given_variances() -> None:
    components = expected_effects(VARIANCES, SIX_FOUR_THREE).components

    assert components == pytest.approx({**dict.fromkeys(SOURCES.values(), 0.0), **VARIANCES}, abs=1e-12)


def test_degrees_of_freedom_of_one_data_set_are_those_of_the_design(
    effects_of_400_samples: list[CrossedEffects],
) -> None:
    """Of four draws there are 3; those of the other sources do not depend on the number of data sets."""
    draws = (1,)

    found = expected_effects(VARIANCES, SIX_FOUR_THREE).degrees_of_freedom

    assert found == {**effects_of_400_samples[0].degrees_of_freedom, draws: 3.0}


def half_width_of(interval: Interval) -> float:
    return (interval.high - interval.low) / 2


def test_the_planned_half_width_is_the_mean_of_that_of_intervals() -> None:
    """The intervals of 200 samples, around 0. That over rows is Student's t with the mean square of the rows."""
    rows_draws_templates = (25, 4, 3)
    draw = np.random.default_rng(2)
    half_widths = []
    for _ in range(200):
        effects = effects_of_mean(draw_datasets(ONE_RUN, rows_draws_templates, datasets=1, draw=draw))
        half_width_over_rows = student_quantile(0.95, 25) * effects.mean_squares[0,] ** 0.5
        over_rows = Interval(-half_width_over_rows, half_width_over_rows, 0.95, "")
        half_widths.append(half_width_of(generalise(0.0, over_rows, effects, difference=True)))

    planned = evaluate_design(ONE_RUN, rows_draws_templates).half_width

    assert planned == pytest.approx(np.mean(half_widths), rel=0.08)


def generalising_interval_of_accuracies(outcomes: Any) -> Interval:
    """Return the interval of the mean accuracy of 0-1 outcomes: data set x row x draw x template."""
    _, rows, draws, templates = outcomes.shape
    queries_of_rows = [float(draws * templates)] * rows
    parts = [ratio_part(of_dataset.sum((1, 2)).tolist(), queries_of_rows, 0.95) for of_dataset in outcomes]
    over_rows = mean_interval([part.value for part in parts], [part.interval(0.95, "") for part in parts])
    return generalise(outcomes.mean(), over_rows, effects_of_mean(list(outcomes)))


@pytest.mark.parametrize(
    ("accuracy", "datasets"),
    [(0.8, 1), (0.96, 1), (1.0, 1), (0.8, 2), (1.0, 4)],
)
def test_the_planned_half_width_of_independent_predictions_is_the_mean_of_that_of_intervals(
    accuracy: float, datasets: int
) -> None:
    """Near 1, Wilson's interval is up to twice as wide as the normal one of the same variances."""
    draw = np.random.default_rng(3)
    half_widths = []
    for _ in range(100 // datasets):
        outcomes = (draw.random((datasets, 20, 3, 3)) < accuracy).astype(float)
        half_widths.append(half_width_of(generalising_interval_of_accuracies(outcomes)))

    components = Components({"rest": accuracy * (1 - accuracy)}, 0.0, False, "", accuracy)
    planned = evaluate_design(components, (20, 3, 3), datasets).half_width

    assert planned == pytest.approx(np.mean(half_widths), rel=0.08)


def test_the_planned_half_width_of_rows_with_equal_predictions_is_the_mean_of_that_of_intervals() -> None:
    """A row is right or wrong with all draws and templates, so that the variance is between rows."""
    draw = np.random.default_rng(3)
    half_widths = []
    for _ in range(50):
        outcome_of_row = draw.random((2, 20, 1, 1)) < 0.8
        outcomes = np.broadcast_to(outcome_of_row, (2, 20, 3, 3)).astype(float)
        half_widths.append(half_width_of(generalising_interval_of_accuracies(outcomes)))

    components = Components({"rows": 0.8 * 0.2}, 0.0, False, "", 0.8)
    planned = evaluate_design(components, (20, 3, 3), datasets=2).half_width

    assert planned == pytest.approx(np.mean(half_widths), rel=0.08)


@pytest.mark.parametrize(
    ("rows", "difference", "step"),
    [(30, 0.15, 0.2), (60, 0.1, 0.2), (200, 0.05, 0.2), (220, 0.12, 0.8), (300, 0.1, 0.8)],
)
def test_the_tail_that_plans_use_is_half_the_p_value_of_the_paired_test(
    rows: int, difference: float, step: float
) -> None:
    """The differences of rows are plus or minus a step, moved so that their mean is the difference."""
    differences_of_rows = np.random.default_rng(rows).choice([-step, step], rows)
    differences_of_rows += difference - differences_of_rows.mean()
    paired_difference = difference_with_steps(differences_of_rows)
    standard_error = paired_difference.variance**0.5

    tail = _tail_over_rows(paired_difference.difference, standard_error, rows)

    assert tail == pytest.approx(paired_tests.p_value(paired_difference) / 2, rel=0.1)


def with_variances_times(factor: float, components: Components) -> Components:
    return replace(components, variances={name: factor * variance for name, variance in components.variances.items()})


class SampledTests(NamedTuple):
    """The tests of a difference in 40 samples."""

    mean_half_width: float
    share_of_significant: float

    @classmethod
    def draw(
        cls, components: Components, sizes: tuple[int, int, int], datasets: int, difference: float
    ) -> SampledTests:
        generator = np.random.default_rng(5)
        half_widths, significant = [], []
        for _ in range(40):
            sample = [difference + values for values in draw_datasets(components, sizes, datasets, generator)]
            effects = effects_of_mean(sample)
            differences_of_datasets = [difference_with_steps(values.mean((1, 2))) for values in sample]
            mean = paired_tests.mean_difference(differences_of_datasets)
            over_rows = paired_tests.difference_interval(mean)
            assert over_rows is not None
            interval = generalise(mean.difference, over_rows, effects, difference=True)
            p_value = generalising_p_value(mean.difference, paired_tests.p_value(mean), effects)
            half_widths.append(half_width_of(interval))
            significant.append(p_value <= 0.05)
        return cls(float(np.mean(half_widths)), float(np.mean(significant)))


@pytest.mark.parametrize(
    ("sizes", "datasets", "difference", "variance_factor"),
    [((20, 4, 3), 2, 0.2, 1.0), ((80, 6, 2), 1, 0.05, 0.1)],
)
def test_planned_half_width_and_power_of_a_difference_are_those_of_tests_of_samples(
    sizes: tuple[int, int, int], datasets: int, difference: float, variance_factor: float
) -> None:
    components = with_variances_times(variance_factor, DIFFERENCE)

    design = evaluate_design(components, sizes, datasets, difference)
    tests = SampledTests.draw(components, sizes, datasets, difference)

    assert design.half_width == pytest.approx(tests.mean_half_width, rel=0.08)
    assert design.power == pytest.approx(tests.share_of_significant, abs=0.1)


def test_a_difference_in_the_other_direction_has_the_same_plan() -> None:
    upwards = evaluate_design(DIFFERENCE, (20, 4, 3), 2, 0.2)
    downwards = evaluate_design(DIFFERENCE, (20, 4, 3), 2, -0.2)

    assert downwards.half_width == upwards.half_width
    assert downwards.power == pytest.approx(upwards.power)


@pytest.mark.parametrize(("sizes", "datasets", "variance_factor"), [((20, 4, 3), 2, 1.0), ((80, 6, 2), 1, 0.1)])
def test_the_power_for_hardly_any_difference_is_at_most_half_the_level(
    sizes: tuple[int, int, int], datasets: int, variance_factor: float
) -> None:
    """Each direction has half of the level of 0.05. With few draws and templates, the test rejects less often."""
    design = evaluate_design(with_variances_times(variance_factor, DIFFERENCE), sizes, datasets, 1e-6)

    assert design.power is not None
    assert 0.0 < design.power <= 0.025


DESIGNS_TO_TRY = list(product((20, 25, 30, 35, 40), (3, 4, 5), (3, 4)))
"""Numbers of rows, draws and templates."""


def test_no_design_with_fewer_queries_reaches_the_half_width() -> None:
    (best,) = plan(ONE_RUN, max_rows=40, max_templates=4, half_width=0.45).designs

    for rows, draws, templates in DESIGNS_TO_TRY:
        if rows * draws * templates < best.queries:
            assert evaluate_design(ONE_RUN, (rows, draws, templates)).half_width > 0.45, (rows, draws, templates)


def test_no_design_with_fewer_queries_reaches_the_power() -> None:
    (best,) = plan(DIFFERENCE, max_rows=40, max_templates=4, difference=0.25).designs

    for rows, draws, templates in DESIGNS_TO_TRY:
        if rows * draws * templates < best.queries:
            power = evaluate_design(DIFFERENCE, (rows, draws, templates), 1, 0.25).power
            assert power is not None
            assert power < 0.8, (rows, draws, templates)


NOISY = Components({"rows": 0.2, "rest": 0.05}, 0.0, False, "")


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({}, "needs a target"),
        ({"half_width": 0.1, "difference": 0.1}, "needs a target"),
        *[({"half_width": value}, f"half_width: got {value!r}") for value in (0.0, 1.0, True, "0.1")],
        *[({"difference": value}, f"difference: got {value!r}") for value in (0.0, 1.0, True, "0.1")],
        ({"difference": 0.1, "power": 1.0}, "power: got 1.0"),
        ({"difference": 0.1}, "difference: .* components of one run"),
        ({"half_width": 0.05}, r"128 rows, 32 draws, 9 templates and 1 data sets reach: half width 0\.078"),
        ({"half_width": 0.1, "max_rows": 19}, "rows"),
        ({"half_width": 0.1, "max_templates": 10}, "templates"),
        ({"half_width": 0.1, "max_datasets": 0}, "datasets"),
    ],
)
def test_a_plan_with_these_settings_is_refused(settings: dict[str, Any], message: str) -> None:
    with pytest.raises(ArgumentError, match=message):
        plan(NOISY, **settings)


def test_the_message_about_a_half_width_that_is_not_reached_says_what_to_do() -> None:
    with pytest.raises(ArgumentError, match="Ask for a larger half width, or raise max_datasets"):
        plan(NOISY, half_width=0.05)

    assert plan(NOISY, half_width=0.1).designs, "a larger half width is reached"


def test_the_message_about_a_difference_that_is_not_found_says_what_to_do() -> None:
    with pytest.raises(ArgumentError, match="Ask for a larger difference or less power, or raise max_datasets"):
        plan(difference=0.03)

    assert plan(difference=0.3, max_datasets=10).designs, "a larger difference is found"


@pytest.mark.parametrize("variances", [{"row": 0.1}, {"rows": -0.1}, {"rows": float("nan")}], ids=str)
def test_variances_that_are_no_variances_of_a_source_are_refused(variances: dict[str, float]) -> None:
    with pytest.raises(ArgumentError, match=r"variances: got .* for rows, draws"):
        Components(variances, 0.0, False, "")


@pytest.mark.parametrize(("variances", "shared"), [({"templates": 0.1}, 0.2), ({}, -0.1)], ids=str)
def test_a_shared_variance_is_from_zero_to_that_of_templates(variances: dict[str, float], shared: float) -> None:
    with pytest.raises(ArgumentError, match="shared: got"):
        Components(variances, shared, False, "")


def test_a_plan_may_have_more_rows_than_the_benchmark() -> None:
    (design,) = plan(NOISY, half_width=0.05, max_rows=512).designs

    assert 128 < design.rows <= 512


def test_a_plan_lists_a_design_for_each_number_of_data_sets_by_its_queries() -> None:
    designs = plan(NOISY, half_width=0.07, max_datasets=4).designs

    queries = [design.queries for design in designs]
    assert queries == sorted(queries)
    assert {design.datasets for design in designs} == {2, 3, 4}, "one data set does not reach the half width"


def test_a_planned_design_has_the_fewest_rows_that_reach_the_half_width() -> None:
    for design in plan(NOISY, half_width=0.07, max_datasets=4).designs:
        with_these_rows = (design.rows, design.draws, design.templates)
        with_one_row_less = (design.rows - 1, design.draws, design.templates)

        assert evaluate_design(NOISY, with_these_rows, design.datasets) == design
        assert design.half_width < 0.07
        assert evaluate_design(NOISY, with_one_row_less, design.datasets).half_width > 0.07


@pytest.fixture
def pilot(tmp_path: Path) -> Path:
    """The file of a run with two demonstrations."""
    path = tmp_path / "pilot.json"
    Generalisation(2, datasets=["mini"], limit=8)(load_kernel("ppm")).save(path)
    return path


def test_the_command_of_a_plan_has_the_demonstrations_of_its_pilot(
    pilot: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["plan", str(pilot), "--half-width", "0.1"]) == 0

    assert capsys.readouterr().out.endswith(" --k 2\n")


def test_a_plan_of_two_pilots_has_the_command_of_each(
    pilot: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """The second one has the default number of demonstrations, which the command need not state."""
    with_default_k = tmp_path / "other.json"
    Generalisation(datasets=["mini"], limit=8)(load_kernel("ppm")).save(with_default_k)

    assert main(["plan", str(pilot), str(with_default_k), "--difference", "0.4", "--max-datasets", "3"]) == 0

    first_command, second_command = capsys.readouterr().out.splitlines()[-2:]
    assert first_command == f"{second_command} --k 2"


def test_components_of_one_run_have_its_accuracy(pilot: Path) -> None:
    result = load(pilot)

    assert isinstance(result, Result)
    assert components_of(result).accuracy == result.averaged["accuracy"]

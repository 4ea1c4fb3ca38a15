"""Generalisation: the benchmark, its variance components, comparison and figure; plans of sizes."""

from __future__ import annotations

import copy
import hashlib
from collections.abc import Callable, Sequence
from dataclasses import replace
from itertools import product
from pathlib import Path
from statistics import fmean
from typing import Any

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
from tests.performance.skewed_nulls import of_mean, of_pair

Model = Callable[[Any, Sequence[str]], int]


def guessing(name: str) -> Model:
    """A model whose predictions are a digest of the prompt."""

    def predict(prompt: Any, label_space: Sequence[str]) -> int:
        return hashlib.sha256((name + prompt).encode()).digest()[0] % len(label_space)

    return predict


@pytest.fixture(scope="module")
def results() -> dict[str, Result]:
    benchmark = Generalisation(datasets=["mini"], limit=30)
    truth = {query.prompt: query.label for part in benchmark[0].conditions() for query in part.queries}
    instruction = {query.prompt for part in benchmark[0].conditions()[::3] for query in part.queries}

    def one_template(prompt: Any, label_space: Sequence[str]) -> int:
        return (truth[prompt] + (prompt not in instruction)) % 3

    return {
        "guesses": benchmark(guessing("a")),
        "others": benchmark(guessing("b")),
        "one template": benchmark(one_template),
        "right": benchmark(lambda prompt, label_space: truth[prompt]),
    }


def test_every_row_has_all_pairs_of_a_shared_list_and_a_template() -> None:
    experimentor = Generalisation(datasets=["mini"], limit=5, draws=3, templates=4)[0]
    conditions = experimentor.conditions()
    assert [len(condition.queries) for condition in conditions] == [5] * 12
    assert len({query.prompt for condition in conditions for query in condition.queries}) == 60
    lists = experimentor.demonstration_lists()
    assert len(set(lists)) == 3
    assert len({query.last_label for query in conditions[0].queries}) == 1
    assert len({condition.queries[0].prompt.split("\n")[0] for condition in conditions[:4]}) > 1


def test_a_larger_limit_adds_test_rows_and_changes_no_prompt() -> None:
    prompts = []
    for limit in (None, 130):
        benchmark = Generalisation(datasets=["AGNews"], limit=limit, draws=2, templates=2)
        prompts.append([query.prompt for query in benchmark[0].conditions()[3].queries])
    assert [len(of_limit) for of_limit in prompts] == [128, 130]
    assert prompts[0] == prompts[1][:128]
    result = benchmark(guessing("a"))
    assert "rows=130" in str(result.signature)
    assert variance_components(result).lines[0].effects.sizes == (130, 2, 2)
    assert [finding for finding in verify(result) if finding.status != Recomputed()] == []
    with pytest.raises(ArgumentError, match="limit"):
        Generalisation(datasets=["mini"], limit="many")  # type: ignore[arg-type]


def test_the_score_is_the_mean_accuracy_of_the_conditions(results: dict[str, Result]) -> None:
    result = results["guesses"]
    details = result.details["mini"]
    means = [
        fmean(truth == label for truth, label in zip(record.truth, record.predictions, strict=True))
        for record in details.conditions
    ]
    assert result["Averaged results"]["accuracy"] == pytest.approx(fmean(means))
    assert details.asked == details.distinct == 30 * 12
    (line,) = variance_components(result).lines
    assert line.fixed == details.intervals["accuracy"]
    assert line.generalising.low <= line.fixed.low < line.value < line.fixed.high <= line.generalising.high
    assert variance_components(result, 0.9).lines[0].fixed.high < line.fixed.high


def test_a_model_that_knows_one_template_only(results: dict[str, Result]) -> None:
    effects = variance_components(results["one template"]).lines[0].effects
    assert effects.components["templates"] == pytest.approx(1 / 3)
    assert effects.components["rows"] == pytest.approx(0)
    interval = variance_components(results["one template"]).lines[0].generalising
    assert interval.high - interval.low > 0.9
    both = copy.copy(results["one template"])
    for names in (
        ["one template"] * 2,
        ["one template", "guesses", "one template"],
        ["one template", "others"],
        ["guesses"] * 2,
    ):
        both.details = {str(number): results[name].details["mini"] for number, name in enumerate(names)}
        means = [line.effects.template_means for line in variance_components(both).lines[:-1]]
        covariance = np.cov(means)[np.triu_indices(len(means), 1)].mean()  # what data sets share
        components = components_of(both)
        assert components.shared == pytest.approx(min(max(0.0, covariance), components.variances["templates"]))
    both.details = {name: results[name].details["mini"] for name in ("guesses", "others")}
    *lines, mean = variance_components(both).lines
    assert mean.effects == mean_effects([line.effects for line in lines])
    assert mean.value == fmean(line.value for line in lines)
    parts = [line.effects.components for line in lines]
    of_mean = {name: fmean(part[name] for part in parts) for name in parts[0]}
    assert components_of(both).variances == pytest.approx({name: max(0.0, value) for name, value in of_mean.items()})
    assert any(
        value != pytest.approx(fmean(max(0.0, part[name]) for part in parts)) for name, value in of_mean.items()
    ), f"got {of_mean.items()}"
    both.details["mini"] = results["one template"].details["mini"]
    difference = components_of(both, results["right"])  # of the data set that both have
    assert difference == components_of(results["one template"], results["right"])
    assert difference.accuracy is None
    comparison = compare_generalising(results["right"], results["one template"])
    fixed = compare(results["right"], results["one template"]).overall
    assert fixed.p_value is not None
    assert fixed.p_value < 1e-4
    assert comparison.overall.p_value is not None
    assert comparison.overall.p_value > 0.05


def test_comparison_starts_from_that_with_fixed_levels(results: dict[str, Result]) -> None:
    comparison = compare_generalising(results["right"], results["guesses"])
    line, fixed = comparison.overall, compare(results["right"], results["guesses"]).overall
    assert (line.difference, line.rows, line.values) == (fixed.difference, fixed.rows, fixed.values)
    assert line.p_value is not None
    assert line.interval is not None
    assert fixed.interval is not None
    assert line.interval.low <= fixed.interval.low < fixed.interval.high <= line.interval.high
    assert fixed.p_value is not None
    assert fixed.p_value <= line.p_value < 0.001
    assert line.holm == line.p_value
    same = compare_generalising(results["right"], results["right"]).overall
    assert same.p_value in (None, 1.0)


def failing(queries: set[Any]) -> Model:
    """A model that fails for some prompts."""

    def predict(prompt: Any, label_space: Sequence[str]) -> int:
        if prompt in queries:
            raise ValueError("no reply")
        return len(prompt) % 3

    return predict


def test_rows_without_a_prediction_count_for_the_accuracy_only() -> None:
    benchmark = Generalisation(datasets=["mini"], limit=10)
    conditions = benchmark[0].conditions()
    result = benchmark(failing({conditions[4].queries[3].prompt}), on_error="collect")
    found = variance_components(result)
    (line,) = found.lines
    assert found.left_out == {"mini": 1}
    assert line.effects.sizes == (9, 4, 3)
    assert line.value == pytest.approx(result["Averaged results"]["accuracy"])
    assert line.fixed == result.details["mini"].intervals["accuracy"]
    of_row = {query.prompt for condition in conditions for query in condition.queries[:1]}
    assert variance_components(benchmark(failing(of_row), on_error="collect")).left_out == {"mini": 1}
    rows = {query.prompt for query in conditions[0].queries[1:]}
    with pytest.raises(UndefinedMetricError, match="mini: 1 of 10 test rows"):
        variance_components(benchmark(failing(rows), on_error="collect"))


def test_sources_of_variance_of_a_saved_result_in_table_json_and_figure(
    results: dict[str, Result], tmp_path: Path
) -> None:
    results["guesses"].save(tmp_path / "a.json")
    loaded = load(tmp_path / "a.json")
    assert isinstance(loaded, Result)
    assert [finding for finding in verify(loaded) if finding.status != Recomputed()] == []
    components = variance_components(loaded)
    assert components == variance_components(results["guesses"])
    (line,) = components.lines
    low, high = line.deviations[-1][1] or (0.0, 0.0)
    assert components.table()[1][1][-1] == f"{low:.3f} .. {high:.3f}"
    saved = line.to_dict()
    of_rest = saved["component_intervals"]["rest"]
    assert of_rest == pytest.approx([end**2 * 30 * 12 for end in (low, high)])
    assert of_rest[0] < saved["components"]["rest"] < of_rest[1]
    figure = variance_chart(results["one template"])
    assert figure.rows[0][2:] == ["rows", "0.0000", "-"]
    low_text, end = figure.rows[2][-1].split(" .. ")
    assert [*figure.rows[2][2:4], end] == ["templates", "0.3333", "0.333"]
    assert 0 < float(low_text) < 0.3
    assert variance_components(results["one template"]).table()[1][1][5] == "undefined"
    assert "rows x draws" in figure.svg()
    assert len(variance_chart({name: results[name] for name in ("guesses", "others")}).rows) == 14


# -- plans of sizes: expected mean squares, the test over rows, the cheapest design, and the command


VARIANCES = {"rows": 0.3, "draws": 0.04, "templates": 0.05, "rows x draws": 0.1, "draws x templates": 0.02, "rest": 0.2}
ONE_RUN = Components(VARIANCES, 0.03, False, "")
DIFFERENCE = Components({"rows": 0.1, "draws": 0.003, "rows x draws": 0.1, "rest": 0.2}, 0.0, True, "")


def outcomes(components: Components, sizes: tuple[int, int, int], datasets: int, draw: Any) -> list[Any]:
    """Of each data set: sums of normal effects with the variances of the components."""
    own = {**components.variances, "templates": components.variances.get("templates", 0.0) - components.shared}
    common = components.shared**0.5 * draw.normal(size=(1, 1, sizes[2]))
    return [common + normal_outcomes(own, sizes, draw) for _ in range(datasets)]


def effects_of(values: list[Any]) -> CrossedEffects:
    """The mean squares of the mean over data sets."""
    return mean_effects([crossed_effects(of_each.tolist()) for of_each in values])


def paired_of(steps: Any) -> paired_tests.PairedDifference:
    """The difference of two runs whose rows differ by the steps."""
    halves = [(0.5 + sign * steps / 2).tolist() for sign in (1, -1)]
    return of_pair([of_mean(half, range(len(steps)), len(steps)) for half in halves])


def test_expected_mean_squares_are_the_means_of_those_of_designs() -> None:
    sizes, datasets = (6, 4, 3), 3
    draw = np.random.default_rng(1)
    found = [effects_of(outcomes(ONE_RUN, sizes, datasets, draw)) for _ in range(400)]
    expected = expected_effects(VARIANCES, sizes, datasets, ONE_RUN.shared)
    for source in SOURCES:
        squares = [effects.mean_squares[source] for effects in found]
        error = float(np.std(squares)) / len(squares) ** 0.5
        assert abs(float(np.mean(squares)) - expected.mean_squares[source]) < 4 * error, source
    assert expected.degrees_of_freedom[1,] == pytest.approx(
        np.mean([effects.degrees_of_freedom[1,] for effects in found]), rel=0.1
    )
    single = expected_effects(VARIANCES, sizes)
    assert {name: part for name, part in single.components.items() if part > 1e-12} == pytest.approx(VARIANCES)
    assert single.degrees_of_freedom == found[0].degrees_of_freedom | {(1,): 3.0}


def test_half_width_is_the_mean_of_intervals() -> None:
    sizes, draw, reached = (25, 4, 3), np.random.default_rng(2), []
    for _ in range(200):
        effects = effects_of(outcomes(ONE_RUN, sizes, 1, draw))
        of_rows = student_quantile(0.95, sizes[0]) * effects.mean_squares[0,] ** 0.5
        interval = generalise(0.0, Interval(-of_rows, of_rows, 0.95, ""), effects, difference=True)
        reached.append((interval.high - interval.low) / 2)
    assert evaluate_design(ONE_RUN, sizes).half_width == pytest.approx(np.mean(reached), rel=0.08)


@pytest.mark.parametrize(
    ("accuracy", "datasets", "source"),
    [(0.8, 1, "rest"), (0.96, 1, "rest"), (1.0, 1, "rest"), (0.8, 2, "rest"), (1.0, 4, "rest"), (0.8, 2, "rows")],
)
def test_half_width_is_the_mean_of_intervals_of_accuracies(accuracy: float, datasets: int, source: str) -> None:
    """Near 1, Wilson's interval is up to twice as wide as the normal one of the same variances."""
    draw, sizes, reached = np.random.default_rng(3), (20, 3, 3), []
    for _ in range(100 // datasets):
        outcomes = draw.random((datasets, *(sizes if source == "rest" else (20, 1, 1)))) < accuracy
        runs = np.broadcast_to(outcomes, (datasets, *sizes)).astype(float)
        parts = [ratio_part(cells.sum((1, 2)).tolist(), [9.0] * 20, 0.95) for cells in runs]
        fixed = mean_interval([part.value for part in parts], [part.interval(0.95, "") for part in parts])
        interval = generalise(runs.mean(), fixed, effects_of(list(runs)))
        reached.append((interval.high - interval.low) / 2)
    components = Components({source: accuracy * (1 - accuracy)}, 0.0, False, "", accuracy)
    assert evaluate_design(components, sizes, datasets).half_width == pytest.approx(np.mean(reached), rel=0.08)


@pytest.mark.parametrize(
    ("rows", "difference", "size"),
    [(30, 0.15, 0.2), (60, 0.1, 0.2), (200, 0.05, 0.2), (220, 0.12, 0.8), (300, 0.1, 0.8)],
)
def test_tail_over_rows_is_that_of_the_paired_test(rows: int, difference: float, size: float) -> None:
    steps = np.random.default_rng(rows).choice([-size, size], rows)
    steps += difference - steps.mean()
    found = paired_of(steps)
    p = 2 * _tail_over_rows(found.difference, found.variance**0.5, rows)
    assert p == pytest.approx(paired_tests.p_value(found), rel=0.1)


@pytest.mark.parametrize(
    ("sizes", "datasets", "difference", "scale"), [((20, 4, 3), 2, 0.2, 1.0), ((80, 6, 2), 1, 0.05, 0.1)]
)
def test_width_and_power_of_a_difference_are_those_of_its_tests(
    sizes: tuple[int, int, int], datasets: int, difference: float, scale: float
) -> None:
    components = replace(DIFFERENCE, variances={name: scale * part for name, part in DIFFERENCE.variances.items()})
    draw, widths, significant = np.random.default_rng(5), [], []
    for _ in range(40):
        values = [difference + of_each for of_each in outcomes(components, sizes, datasets, draw)]
        effects = effects_of(values)
        found = paired_tests.mean_difference([paired_of(of_each.mean((1, 2))) for of_each in values])
        of_rows = paired_tests.difference_interval(found) or pytest.fail("no interval")
        interval = generalise(found.difference, of_rows, effects, difference=True)
        widths.append((interval.high - interval.low) / 2)
        significant.append(generalising_p_value(found.difference, paired_tests.p_value(found), effects) <= 0.05)
    for true in (difference, -difference):
        design = evaluate_design(components, sizes, datasets, true)
        assert design.half_width == pytest.approx(np.mean(widths), rel=0.08)
        assert design.power == pytest.approx(np.mean(significant), abs=0.1)
    assert (evaluate_design(components, sizes, datasets, 1e-6).power or 1.0) < 0.03


def test_no_design_with_fewer_queries_reaches_the_target() -> None:
    for components, target in ((ONE_RUN, {"half_width": 0.45}), (DIFFERENCE, {"difference": 0.25})):
        (best,) = plan(components, max_rows=40, max_templates=4, **target).designs
        for draws, templates, rows in product((3, 4, 5), (3, 4), (20, 25, 30, 35, 40)):
            if rows * draws * templates < best.queries:
                design = evaluate_design(components, (rows, draws, templates), 1, target.get("difference"))
                power = design.power
                assert design.half_width > 0.45 if power is None else power < 0.8


NOISY = Components({"rows": 0.2, "rest": 0.05}, 0.0, False, "")


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({}, "needs a target"),
        ({"half_width": 0.1, "difference": 0.1}, "needs a target"),
        *(({key: n}, f"{key}: got {n!r}") for key in ("half_width", "difference") for n in (0.0, 1.0, True, "0.1")),
        ({"difference": 0.1, "power": 1.0}, "power: got 1.0"),
        ({"difference": 0.1}, "difference: .* components of one run"),
        ({"half_width": 0.05}, r"128 rows, 32 draws, 9 templates and 1 data sets reach: half width 0\.078"),
        *(({"half_width": 0.1, f"max_{key}": n}, key) for key, n in (("rows", 19), ("templates", 10), ("datasets", 0))),
    ],
)
def test_plans_that_are_refused(settings: dict[str, Any], message: str) -> None:
    with pytest.raises(ArgumentError, match=message):
        plan(NOISY, **settings)


def test_a_plan_that_reaches_too_little_says_in_which_direction_to_change_the_target() -> None:
    with pytest.raises(ArgumentError, match="Ask for a larger half width, or raise max_datasets"):
        plan(NOISY, half_width=0.05)
    plan(NOISY, half_width=0.1)  # a larger one is reached
    with pytest.raises(ArgumentError, match="Ask for a larger difference or less power, or raise max_datasets"):
        plan(difference=0.03)
    plan(difference=0.3, max_datasets=10)  # a larger one is reached


@pytest.mark.parametrize(
    ("variances", "shared"),
    [({"row": 0.1}, 0.0), ({"rows": -0.1}, 0.0), ({"rows": float("nan")}, 0.0), ({"templates": 0.1}, 0.2), ({}, -0.1)],
)
def test_variances_that_are_refused(variances: dict[str, float], shared: float) -> None:
    with pytest.raises(ArgumentError, match="variances: got .* for rows, draws" if not shared else "shared: got"):
        Components(variances, shared, False, "")


def test_more_rows_and_more_data_sets() -> None:
    assert 128 < plan(NOISY, half_width=0.05, max_rows=512).designs[0].rows <= 512
    designs = plan(NOISY, half_width=0.07, max_datasets=4).designs
    assert [design.queries for design in designs] == sorted(design.queries for design in designs)
    assert {design.datasets for design in designs} == {2, 3, 4}
    for design in designs:
        sizes = design.rows, design.draws, design.templates
        assert evaluate_design(NOISY, sizes, design.datasets) == design
        assert evaluate_design(NOISY, (sizes[0] - 1, *sizes[1:]), design.datasets).half_width > 0.07 > design.half_width


def test_the_command_of_a_plan_has_the_demonstrations_of_its_pilot(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    pilot = tmp_path / "pilot.json"
    Generalisation(2, datasets=["mini"], limit=8)(load_kernel("ppm")).save(pilot)
    assert main(["plan", str(pilot), "--half-width", "0.1"]) == 0
    assert capsys.readouterr().out.endswith(" --k 2\n")
    result = load(pilot)
    assert isinstance(result, Result)
    assert components_of(result).accuracy == result.averaged["accuracy"]
    Generalisation(datasets=["mini"], limit=8)(load_kernel("ppm")).save(tmp_path / "other.json")
    assert main(["plan", str(pilot), str(tmp_path / "other.json"), "--difference", "0.4", "--max-datasets", "3"]) == 0
    with_k, without = capsys.readouterr().out.splitlines()[-2:]
    assert with_k == f"{without} --k 2"

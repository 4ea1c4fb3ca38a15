"""Plans of sizes: expected mean squares, the test over rows, the cheapest design, and the command."""

from __future__ import annotations

from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from StaICC import Generalisation, load_kernel
from StaICC.cli import main
from StaICC.errors import ArgumentError
from StaICC.metrics import paired_tests
from StaICC.metrics.crossed_effects import SOURCES, crossed_effects, expected_effects, generalise, mean_effects
from StaICC.metrics.intervals import Interval, ratio_part, student_quantile
from StaICC.metrics.registry import Mean, Sample
from StaICC.results import Components, Result, load, plan
from StaICC.results.generalisation import Design, _tail_over_rows, components_of, evaluate_design

VARIANCES = {"rows": 0.3, "draws": 0.04, "templates": 0.05, "rows x draws": 0.1, "draws x templates": 0.02, "rest": 0.2}
ONE_RUN = Components(VARIANCES, 0.03, False, "")
DIFFERENCE = Components({"rows": 0.1, "draws": 0.003, "rows x draws": 0.1, "rest": 0.2}, 0.0, True, "")


def samples(number: int, sizes: tuple[int, int, int], datasets: int, draw: Any) -> list[Any]:
    """Mean squares of the mean over data sets, of normal effects with the variances of ONE_RUN."""
    found = []
    for _ in range(number):
        common = ONE_RUN.shared**0.5 * draw.normal(size=(1, 1, sizes[2]))
        designs = []
        for _ in range(datasets):
            values = common + np.zeros(sizes)
            for source, name in SOURCES.items():
                variance = VARIANCES.get(name, 0.0) - ONE_RUN.shared * (name == "templates")
                shape = [size if factor in source else 1 for factor, size in enumerate(sizes)]
                values = values + variance**0.5 * draw.normal(size=shape)
            designs.append(crossed_effects(values.tolist()))
        found.append(mean_effects(designs))
    return found


def test_expected_mean_squares_are_the_means_of_those_of_designs() -> None:
    sizes, datasets = (6, 4, 3), 3
    found = samples(400, sizes, datasets, np.random.default_rng(1))
    expected = expected_effects(VARIANCES, sizes, datasets, ONE_RUN.shared)
    for source in SOURCES:
        squares = [effects.squares[source] for effects in found]
        error = float(np.std(squares)) / len(squares) ** 0.5
        assert abs(float(np.mean(squares)) - expected.squares[source]) < 4 * error, source
    assert expected.freedom[1,] == pytest.approx(np.mean([effects.freedom[1,] for effects in found]), rel=0.1)
    single = expected_effects(VARIANCES, sizes)
    assert {name: part for name, part in single.components.items() if part > 1e-12} == pytest.approx(VARIANCES)
    assert single.freedom == found[0].freedom | {(1,): 3.0}


def test_half_width_is_the_mean_of_intervals() -> None:
    sizes = (25, 4, 3)
    reached = []
    for effects in samples(200, sizes, 1, np.random.default_rng(2)):
        of_rows = student_quantile(0.95, sizes[0]) * effects.squares[0,] ** 0.5
        interval = generalise(0.0, Interval(-of_rows, of_rows, 0.95, ""), effects, difference=True)
        reached.append((interval.high - interval.low) / 2)
    assert evaluate_design(ONE_RUN, sizes).half_width == pytest.approx(np.mean(reached), rel=0.08)


@pytest.mark.parametrize("accuracy", [0.8, 0.96, 1.0])
def test_half_width_is_the_mean_of_intervals_of_accuracies(accuracy: float) -> None:
    """Near 1, Wilson's interval is up to twice as wide as the normal one of the same variances."""
    draw, sizes, reached = np.random.default_rng(3), (20, 3, 3), []
    for _ in range(100):
        cells = (draw.random(sizes) < accuracy).astype(float)
        part = ratio_part(cells.sum((1, 2)).tolist(), [9.0] * 20, 0.95)
        interval = generalise(part.value, part.interval(0.95, ""), crossed_effects(cells.tolist()))
        reached.append((interval.high - interval.low) / 2)
    components = Components({"rest": accuracy * (1 - accuracy)}, 0.0, False, "", accuracy)
    assert evaluate_design(components, sizes).half_width == pytest.approx(np.mean(reached), rel=0.08)


@pytest.mark.parametrize(("rows", "difference"), [(30, 0.15), (60, 0.1), (200, 0.05)])
def test_tail_over_rows_is_that_of_the_paired_test(rows: int, difference: float) -> None:
    draw = np.random.default_rng(rows)
    steps = draw.normal(difference, 0.2, rows)
    steps += difference - steps.mean()
    halves = [(0.5 + sign * steps / 2).clip(0, 1) for sign in (1, -1)]
    parts = [Mean().of_run(Sample([0] * rows, range(rows), rows, 0), half.tolist()) for half in halves]
    found = paired_tests.paired_difference([(1.0, parts[0])], [(1.0, parts[1])])
    p = 2 * _tail_over_rows(found.difference, found.variance**0.5, rows)
    assert p == pytest.approx(paired_tests.p_value(found), rel=0.25)


def test_no_design_with_fewer_queries_reaches_the_target() -> None:
    for components, target in ((ONE_RUN, {"half_width": 0.45}), (DIFFERENCE, {"difference": 0.25})):
        (best,) = plan(components, max_rows=40, max_templates=4, **target).designs
        for draws, templates, rows in product((3, 4, 5), (3, 4), (20, 25, 30, 35, 40)):
            if rows * draws * templates < best.queries:
                design = evaluate_design(components, (rows, draws, templates), 1, target.get("difference"))
                power = design.power
                assert design.half_width > 0.45 if power is None else power < 0.8


def test_more_rows_than_by_default() -> None:
    noisy = Components({"rows": 0.2, "rest": 0.05}, 0.0, False, "")
    with pytest.raises(ArgumentError, match="128 rows"):
        plan(noisy, half_width=0.05)
    assert 128 < plan(noisy, half_width=0.05, max_rows=512).designs[0].rows <= 512


def test_power_and_width_move_with_the_sizes() -> None:
    def design(**changes: int) -> Design:
        sizes = {"rows": 60, "draws": 4, "templates": 3, "datasets": 2} | changes
        datasets = sizes.pop("datasets")
        return evaluate_design(DIFFERENCE, (sizes["rows"], sizes["draws"], sizes["templates"]), datasets, 0.07)

    first = design()
    assert first.power is not None
    for larger in (design(rows=90), design(draws=6), design(datasets=3)):
        assert larger.half_width < first.half_width
        assert larger.power is not None
        assert larger.power > first.power
    none = Components(DIFFERENCE.variances, 0.0, True, "")
    weak = evaluate_design(none, (60, 4, 3), 1, 1e-6).power
    assert weak is not None
    assert weak < 0.03


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

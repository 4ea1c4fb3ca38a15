"""Plans of sizes: expected mean squares, the test over rows, the cheapest design, and the command."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Sequence
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from StaICC import Generalisation, Normal
from StaICC.cli import main
from StaICC.errors import ArgumentError
from StaICC.metrics import paired_tests
from StaICC.metrics.crossed_effects import SOURCES, crossed_effects, expected_effects, generalise, mean_effects
from StaICC.metrics.intervals import Interval, student_quantile
from StaICC.results import Components, components_of, plan, variance_components
from StaICC.results.planning import Design, _tail_over_rows, evaluate_design

VARIANCES = {"rows": 0.3, "draws": 0.04, "templates": 0.05, "rows x draws": 0.1, "draws x templates": 0.02, "rest": 0.2}
ONE_RUN = Components(VARIANCES, 0.03, False, "")
DIFFERENCE = Components({"rows": 0.1, "draws": 0.003, "rows x draws": 0.1, "rest": 0.2}, 0.0, True, "")


def guessing(name: str) -> Callable[[Any, Sequence[str]], int]:
    """A model whose predictions are a digest of the prompt."""

    def predict(prompt: Any, label_space: Sequence[str]) -> int:
        return hashlib.sha256((name + prompt).encode()).digest()[0] % len(label_space)

    return predict


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


@pytest.mark.parametrize(("rows", "difference"), [(30, 0.15), (60, 0.1), (200, 0.05)])
def test_tail_over_rows_is_that_of_the_paired_test(rows: int, difference: float) -> None:
    draw = np.random.default_rng(rows)
    steps = draw.normal(difference, 0.2, rows)
    steps += difference - steps.mean()
    halves = [(0.5 + sign * steps / 2).clip(0, 1) for sign in (1, -1)]
    parts = [paired_tests.of_mean(half.tolist(), range(rows), rows) for half in halves]
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


@pytest.mark.parametrize(
    ("components", "target", "message"),
    [
        (None, {}, "either half_width or difference"),
        (None, {"half_width": 0.1, "difference": 0.1}, "either half_width or difference"),
        (None, {"half_width": 5.0}, "half_width: got 5.0"),
        (None, {"difference": -0.1}, "difference: got -0.1"),
        (None, {"difference": 0.1, "power": 1.0}, "power: got 1.0"),
        (None, {"half_width": 0.1, "max_rows": 3}, "max_rows"),
        (None, {"half_width": 0.1, "max_rows": 129}, "max_rows"),
        (None, {"half_width": 0.1, "max_templates": 10}, "max_templates"),
        (ONE_RUN, {"half_width": 0.1}, "half width 0\\.[12]"),
        (ONE_RUN, {"difference": 0.1}, "difference of two"),
        (DIFFERENCE, {"half_width": float("nan")}, "half_width: got nan"),
    ],
)
def test_impossible_plans(components: Components | None, target: dict[str, Any], message: str) -> None:
    with pytest.raises(ArgumentError, match=message):
        plan(components, **target)


def test_pilot_on_the_command_line(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    benchmark = Generalisation(datasets=["mini"], limit=25)
    results = [benchmark(guessing(name)) for name in "ab"]
    paths = [str(tmp_path / f"{number}.json") for number in range(2)]
    for path, result in zip(paths, results, strict=True):
        result.save(path)
    (line,) = variance_components(results[0]).lines
    found = components_of(results[0])
    assert found.variances == {name: max(0.0, part) for name, part in line.effects.components.items()}
    capsys.readouterr()
    assert main(["plan", *paths, "--difference", "0.3", "--tokens", "100", "10", "--prices", "1", "2", "--json"]) == 0
    document = json.loads(capsys.readouterr().out)
    (design,) = document["designs"]
    expected = plan(components_of(*results), difference=0.3).designs[0]
    assert design["queries"] == expected.queries
    assert design["cost"] == pytest.approx(expected.queries * 120 / 1e6)
    assert main(["plan", paths[0], "--half-width", "0.2"]) == 0
    rows, draws, templates = (
        getattr(plan(found, half_width=0.2).designs[0], n) for n in ("rows", "draws", "templates")
    )
    assert f"--limit {rows} --draws {draws} --templates {templates}" in capsys.readouterr().out
    assert main(["plan", *paths, "--half-width", "0.2", "--tokens", "-1", "0"]) == 2
    Normal(datasets=["mini"], limit=5)(guessing("a")).save(tmp_path / "normal.json")
    assert main(["plan", str(tmp_path / "normal.json"), "--half-width", "0.2"]) == 2
    assert "run generalisation" in capsys.readouterr().err

"""Tables of results: what a reader sees, rounded here only, and safe to show."""

from __future__ import annotations

import re
from typing import Any

import pytest

import StaICC
from StaICC.results import Result
from StaICC.results.result import result_rows


def numbers(cell: str) -> tuple[float, ...]:
    """Return a score and the ends of its interval."""
    found = re.fullmatch(r"(-?\d\.\d{4}) \[(-?\d*\.\d{3}), (-?\d*\.\d{3})\]", cell)
    assert found, cell
    return tuple(map(float, found.groups()))


def test_the_table_of_normal(result: Result) -> None:
    head, (row,) = result_rows(result)
    assert head == ["data set", "accuracy", "random", "majority", "likelihood", "macro F1", "ECE-1"]
    scores, details = result.divided["mini"], result.details["mini"]
    baselines = details.baselines["normal"]
    assert (row[0], row[5]) == ("mini", f"{scores['macro_F1']:.4f}")
    assert "interval of macro_F1" in details.missing
    assert row[2:4] == [f"{baselines.max_random:.4f}", f"{baselines.majority:.4f}"]
    keys = ("accuracy", "averaged_truelabel_likelihood", "expected_calibration_error_1")
    for key, cell in zip(keys, (row[1], row[4], row[6]), strict=True):
        interval = details.intervals[key]
        assert cell.startswith(f"{scores[key]:.4f} [")
        assert numbers(cell) == pytest.approx((scores[key], interval.low, interval.high), abs=5e-4)
    for shown in (str(result), result._repr_html_()):
        assert "In brackets: 95 % intervals." in shown


@pytest.mark.parametrize(
    ("name", "first"),
    [
        ("ContextualBias", "entropy"),
        ("PosteriorBias", "DL div."),
        ("GLER", "slope of accuracy"),
        ("DemonstrationSensitivity", "consistency"),
    ],
)
def test_the_other_tables(name: str, first: str, make_model: Any) -> None:
    result = getattr(StaICC, name)(datasets=["mini"])(make_model)
    head, rows = result_rows(result)
    assert head[:2] == ["data set", first]
    assert all(len(row) == len(head) for row in rows)
    for cell, column in zip(rows[0][1:], head[1:], strict=True):
        if column not in ("random", "majority"):
            value, low, high = numbers(cell)
            assert low - 1e-3 <= value <= high + 1e-3
    lines = str(result).split("\n")
    assert lines[0] == result.benchmark
    assert lines[-1] == str(result.signature)


def test_what_is_undefined_is_a_dash_with_its_reason() -> None:
    result = StaICC.Normal(datasets=["mini"], limit=3)(lambda prompt, label_space: 0)
    _, ((*_, likelihood, f1, ece),) = result_rows(result)
    assert (likelihood, ece) == ("-", "-")
    assert re.match(r"0\.\d{4}", f1)
    assert "mini: averaged_truelabel_likelihood is undefined: the predictions are bare labels" in str(result)

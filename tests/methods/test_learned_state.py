"""What methods learn, saved and read again: any frozen dataclass, checked against its fields."""

from __future__ import annotations

import io
import json
import zipfile
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Literal

import numpy
import pytest

from StaICC.errors import ArgumentError, SchemaError
from StaICC.methods.learned_state import ANY, LABELS, Array, learned, load_state, save_state

LABEL_SPACE = ["no", "yes"]


@dataclass(frozen=True, eq=False)
class Mixed:
    """One field of each type."""

    scale: float
    rounds: int
    kind: Literal["row", "column"]
    steps: tuple[float, ...]
    weights: tuple[tuple[float, ...], ...] = learned(LABELS, ANY)
    means: Array = learned(LABELS, ANY, array=True)
    remark: str | None = None


def mixed(**changes: Any) -> Mixed:
    """Return a state for two labels, with changed fields."""
    state = Mixed(
        scale=0.1,
        rounds=3,
        kind="row",
        steps=(1.0, 2.5),
        weights=((0.5,), (1.5,)),
        means=numpy.array([[0.1, 1 / 3], [2.0, 1e-300]]),
    )
    return replace(state, **changes)


@pytest.mark.parametrize("suffix", ["json", "npz"])
def test_a_state_of_any_class_is_read_as_it_was_saved(tmp_path: Path, suffix: str) -> None:
    path = tmp_path / f"state.{suffix}"
    state = mixed(remark="with a remark")

    save_state(path, state, LABEL_SPACE, {"prompts": 12})
    saved = load_state(path, Mixed)

    assert saved.label_space == ["no", "yes"]
    assert saved.facts == {"prompts": 12}
    assert saved.state.scale == 0.1
    assert saved.state.rounds == 3
    assert saved.state.kind == "row"
    assert saved.state.steps == (1.0, 2.5)
    assert saved.state.weights == ((0.5,), (1.5,))
    assert saved.state.remark == "with a remark"
    assert saved.state.means.tolist() == [[0.1, 1 / 3], [2.0, 1e-300]]


@pytest.mark.parametrize(
    ("name", "value", "message"),
    [
        ("scale", "0.1", "scale: got '0.1', expected .*float"),
        ("scale", True, "scale: got True, expected .*float"),
        ("rounds", 3.5, "rounds: got 3.5, expected .*int"),
        ("kind", "diagonal", "kind: got 'diagonal', expected"),
        ("steps", [1.0, "2"], "steps: got '2', expected .*float"),
        ("steps", 1.0, "steps: got 1.0, expected tuple"),
        ("weights", [[0.5]], "weights: got .* does not fit the label space"),
        ("weights", [[0.5], [1.5, 2.0]], "weights: got .* does not fit the label space"),
        ("weights", [[], []], "weights: got .* does not fit the label space"),
        ("means", [[1.0, 2.0]], "means: got .* does not fit the label space"),
        ("means", [[1.0], ["a"]], "cannot be read"),
        ("remark", 3, "remark: got 3, expected"),
        ("unknown", 3, "got the values .*'unknown'.*, expected"),
    ],
)
def test_a_value_that_does_not_fit_its_field_is_refused(tmp_path: Path, name: str, value: Any, message: str) -> None:
    path = tmp_path / "state.json"
    save_state(path, mixed(), LABEL_SPACE)
    content = json.loads(path.read_text())
    content["values"][name] = value
    path.write_text(json.dumps(content))
    with pytest.raises(SchemaError, match=message):
        load_state(path, Mixed)


def test_numbers_that_are_not_finite_are_refused(tmp_path: Path) -> None:
    path = tmp_path / "state.npz"
    save_state(path, mixed(means=numpy.array([[1.0], [numpy.nan]])), LABEL_SPACE)
    with pytest.raises(SchemaError, match="means: not all numbers are finite"):
        load_state(path, Mixed)


def test_numbers_that_are_not_real_are_refused(tmp_path: Path) -> None:
    path = tmp_path / "state.npz"
    save_state(path, mixed(means=numpy.array([[1.0], [1j]])), LABEL_SPACE)
    with pytest.raises(SchemaError, match="means: expected real numbers"):
        load_state(path, Mixed)


TABLE_OF_CONTENTS = b"PK\x01\x02"
"""The bytes that begin the entry of a file in the table of contents of a ZIP archive."""


@pytest.mark.parametrize(
    ("offset", "value"),
    [pytest.param(8, 1, id="flag of encryption"), pytest.param(10, 99, id="unknown compression")],
)
def test_an_archive_with_a_forged_entry_is_refused(tmp_path: Path, offset: int, value: int) -> None:
    path = tmp_path / "state.npz"
    save_state(path, mixed(), LABEL_SPACE)
    content = bytearray(path.read_bytes())
    first_entry = content.find(TABLE_OF_CONTENTS)

    content[first_entry + offset] = value
    path.write_bytes(content)

    with pytest.raises(SchemaError, match="the saved state cannot be read"):
        load_state(path, Mixed)


def test_an_array_that_claims_a_huge_shape_is_refused(tmp_path: Path) -> None:
    """The array would have 8 * 10**15 bytes."""
    path = tmp_path / "state.npz"
    save_state(path, mixed(), LABEL_SPACE)
    with zipfile.ZipFile(path) as archive:
        head = archive.read("head.npy")
    array = io.BytesIO()
    header = {"descr": "<f8", "fortran_order": False, "shape": (10**9, 10**6)}
    numpy.lib.format.write_array_header_1_0(array, header)  # type: ignore[no-untyped-call]

    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("head.npy", head)
        archive.writestr("means.npy", array.getvalue())

    with pytest.raises(SchemaError, match="the saved state cannot be read"):
        load_state(path, Mixed)


@dataclass(frozen=True)
class ScaleOnly:
    """Another learned state."""

    scale: float


def test_a_state_of_another_class_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "state.json"
    save_state(path, ScaleOnly(1.0), LABEL_SPACE)

    with pytest.raises(SchemaError, match=r"state\.json: it holds a ScaleOnly, expected Mixed"):
        load_state(path, Mixed)


def test_a_state_of_one_of_several_classes_is_loaded(tmp_path: Path) -> None:
    path = tmp_path / "state.json"
    save_state(path, ScaleOnly(1.0), LABEL_SPACE)

    assert load_state(path, Mixed, ScaleOnly).state == ScaleOnly(1.0)


def test_a_state_that_is_no_dataclass_is_not_saved(tmp_path: Path) -> None:
    with pytest.raises(ArgumentError, match="expected a frozen dataclass"):
        save_state(tmp_path / "state.json", {"scale": 1.0}, LABEL_SPACE)

"""Results to report: small real runs, and one whose every name looks like markup."""

from __future__ import annotations

import hashlib
from typing import Any

import pytest

import StaICC
from StaICC.datasets.catalogue import SplitSizes, TemplateAlternatives
from StaICC.datasets.dataset import Dataset
from StaICC.results.result import Result, ResultGroup
from tests.results.conftest import partial as partial

SCRIPT = '<script>document.title = "owned"</script>'
LABELS = ('"><b onclick="x()">yes</b>', "$\\frac{1}{2}$ _no_", "maybe & \x00\x1b\u202e")


def model(prompt: str, label_space: list[str]) -> list[float]:
    """Probabilities from a hash."""
    rows = [1 + hashlib.sha256(f"{prompt}\0{label}".encode()).digest()[0] for label in label_space]
    return [row / sum(rows) for row in rows]


def own_sets(count: int, rows: int = 60) -> list[Dataset]:
    """Data sets of different label spaces, with alternatives for the templates."""
    return [
        Dataset.from_rows(
            [(f"text {row} of set {number}", row % (2 + number % 5)) for row in range(rows)],
            name=f"set_{number}",
            label_space=[f"label {label}" for label in range(2 + number % 5)],
            split=SplitSizes(calibration=0, demonstration=rows - 24, test=24),
            alternatives=TemplateAlternatives(
                ("", "Choose. ", "Answer. "), (("a: ",), ("b: ",), ("c: ",)), ("l: ", "m: ", "n: "), ("\n", " ", "\t")
            ),
        )
        for number in range(count)
    ]


@pytest.fixture(scope="session")
def suite() -> ResultGroup:
    """A suite of ten data sets."""
    return StaICC.Suite(datasets=own_sets(10))(model)


@pytest.fixture(scope="session")
def normal() -> Result:
    return StaICC.Normal(datasets=["mini", *own_sets(2)], limit=12)(model)


@pytest.fixture(scope="session")
def nasty() -> Result:
    rows = [(f"text {row} <img src=x onerror=alert(1)>", row % 3) for row in range(60)]
    own = Dataset.from_rows(rows, name=SCRIPT, label_space=LABELS)
    return StaICC.Normal(datasets=[own, "mini"], limit=8)(model)


@pytest.fixture(scope="session")
def long_icl() -> Result:
    """A result of LongICL as it is saved, made by hand: its data are not the library's to ship."""
    from StaICC.results.signature import Signature

    divided: dict[str, Any] = {
        "banking77": {f"{n}R": 0.1 * n for n in range(1, 6)} | {"mean": 0.3, "uniform": 1 / 77, "majority": 0.02},
        "tacred": {f"{n}R": None for n in range(1, 6)} | {"mean": None, "uniform": None, "majority": None},
    }
    divided["banking77"]["metric"] = "accuracy"
    details = StaICC.Normal(datasets=["mini"], limit=2)(model).details["mini"]
    signature = Signature({"benchmark": "LongICL", "version": "0"})
    return Result(
        benchmark="LongICL",
        divided=divided,
        averaged={"mean": None},
        signature=signature,
        details=dict.fromkeys(divided, details),
    )

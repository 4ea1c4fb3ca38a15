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
    """Return probabilities that depend on a hash of the prompt and of each label."""
    weights = [1 + hashlib.sha256(f"{prompt}\0{label}".encode()).digest()[0] for label in label_space]
    return [weight / sum(weights) for weight in weights]


def dataset_with_alternatives(number: int) -> Dataset:
    """Return a data set with 24 test rows, two to six labels, and alternatives for its template."""
    n_labels = 2 + number % 5
    rows = [(f"text {row} of set {number}", row % n_labels) for row in range(60)]
    return Dataset.from_rows(
        rows,
        name=f"set_{number}",
        label_space=[f"label {label}" for label in range(n_labels)],
        split=SplitSizes(calibration=0, demonstration=36, test=24),
        alternatives=TemplateAlternatives(
            instruction=("", "Choose. ", "Answer. "),
            input_text_prefixes=(("a: ",), ("b: ",), ("c: ",)),
            label_prefix=("l: ", "m: ", "n: "),
            label_affix=("\n", " ", "\t"),
        ),
    )


@pytest.fixture(scope="session")
def suite() -> ResultGroup:
    """The results of a suite on ten data sets."""
    return StaICC.Suite(datasets=[dataset_with_alternatives(number) for number in range(10)])(model)


@pytest.fixture(scope="session")
def normal() -> Result:
    """The result of one benchmark on three data sets."""
    datasets = ["mini", dataset_with_alternatives(0), dataset_with_alternatives(1)]
    return StaICC.Normal(datasets=datasets, limit=12)(model)


@pytest.fixture(scope="session")
def result_with_markup() -> Result:
    """A result of a data set whose name, texts and labels have markup."""
    rows = [(f"text {row} <img src=x onerror=alert(1)>", row % 3) for row in range(60)]
    dataset = Dataset.from_rows(rows, name=SCRIPT, label_space=LABELS)
    return StaICC.Normal(datasets=[dataset, "mini"], limit=8)(model)


@pytest.fixture(scope="session")
def long_icl() -> Result:
    """A result of five rounds of LongICL, of which one data set is undefined; its data cannot be loaded here."""
    from StaICC.results.signature import Signature

    divided: dict[str, Any] = {
        "banking77": {
            **{"1R": 0.1, "2R": 0.2, "3R": 0.3, "4R": 0.4, "5R": 0.5},
            **{"mean": 0.3, "uniform": 1 / 77, "majority": 0.02, "metric": "accuracy"},
        },
        "tacred": {
            **{"1R": None, "2R": None, "3R": None, "4R": None, "5R": None},
            **{"mean": None, "uniform": None, "majority": None},
        },
    }
    details = StaICC.Normal(datasets=["mini"], limit=2)(model).details["mini"]
    return Result(
        benchmark="LongICL",
        divided=divided,
        averaged={"mean": None},
        signature=Signature({"benchmark": "LongICL", "version": "0"}),
        details={"banking77": details, "tacred": details},
    )

"""What the tests of the benchmarks share: the golden file's stand-in model, and small data sets of one's own."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable
from typing import Any

import pytest

from StaICC.datasets.catalogue import SplitSizes, TemplateAlternatives
from StaICC.datasets.dataset import Dataset

Model = Callable[..., list[float]]


def stand_in_logits(prompt: str | list[str], label_space: list[str]) -> list[float]:
    """The deterministic stand-in model that the golden file describes under ``hash_logits``."""
    text = prompt if isinstance(prompt, str) else "\x1e".join(prompt)
    return [
        4 * int.from_bytes(hashlib.sha256(f"{text}\0{label}".encode()).digest()[:8], "big") / 2**64
        for label in label_space
    ]


@pytest.fixture(scope="session")
def stand_in() -> Model:
    return stand_in_logits


@pytest.fixture(scope="session")
def sha() -> Callable[[Any], str]:
    """The digest that the golden file describes, written again so that the library's own is tested too."""
    return lambda value: hashlib.sha256(
        json.dumps(value, ensure_ascii=False, separators=(",", ":")).encode()
    ).hexdigest()


def own_dataset(columns: int, name: str = "own", rows: int = 60, labels: tuple[str, ...] = ("no", "yes")) -> Dataset:
    """A data set of one's own with any number of input texts; every row is different."""
    texts = [tuple(f"text {row} of column {column}" for column in range(columns)) for row in range(rows)]
    levels = tuple(tuple(f"{level}{column}: " for column in range(columns)) for level in "abc")
    return Dataset.from_rows(
        [(texts[row] if columns > 1 else texts[row][0], row * 7 % len(labels)) for row in range(rows)],
        name=name,
        label_space=labels,
        split=SplitSizes(calibration=5, demonstration=30, test=12),
        alternatives=TemplateAlternatives(
            ("", "Choose. ", "Answer. "), levels, ("l: ", "m: ", "n: "), ("\n", " ", "\t")
        ),
    )


@pytest.fixture(scope="session")
def make_own() -> Callable[..., Dataset]:
    return own_dataset

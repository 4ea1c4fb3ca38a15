"""What the tests of the benchmarks share: a model whose logits are hashes, small data sets whose texts are invented."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable
from typing import Any

import pytest

from StaICC.datasets.catalogue import SplitSizes, TemplateAlternatives
from StaICC.datasets.dataset import Dataset

Model = Callable[..., list[float]]


def hash_logits(prompt: str | list[str], label_space: list[str]) -> list[float]:
    """Return a logit from 0 to 4 for each label: a hash of prompt and label, as the golden file describes it.

    A prompt of the noisy channel is a list of texts.
    """
    text = prompt if isinstance(prompt, str) else "\x1e".join(prompt)
    logits = []
    for label in label_space:
        digest = hashlib.sha256(f"{text}\0{label}".encode()).digest()
        logits.append(4 * int.from_bytes(digest[:8], "big") / 2**64)
    return logits


@pytest.fixture(scope="session")
def hash_model() -> Model:
    """A deterministic model: its logits are hashes of prompt and label."""
    return hash_logits


@pytest.fixture(scope="session")
def sha256_of_json() -> Callable[[Any], str]:
    """A function that returns the SHA-256 of a value as compact JSON: the digests of the golden files.

    It is written again here, so that the library's own digest is tested, too.
    """

    def digest(value: Any) -> str:
        text = json.dumps(value, ensure_ascii=False, separators=(",", ":"))
        return hashlib.sha256(text.encode()).hexdigest()

    return digest


def invented_dataset(
    columns: int, name: str = "own", rows: int = 60, labels: tuple[str, ...] = ("no", "yes")
) -> Dataset:
    """Return a data set with so many input texts for each row, which are all different.

    The split has 5 calibration rows, 30 demonstrations and 12 test rows; there are three levels of each template part.
    """
    dataset_rows: list[tuple[Any, int]] = []
    for row in range(rows):
        texts = tuple(f"text {row} of column {column}" for column in range(columns))
        label = row * 7 % len(labels)
        dataset_rows.append((texts if columns > 1 else texts[0], label))

    alternatives = TemplateAlternatives(
        instruction=("", "Choose. ", "Answer. "),
        input_text_prefixes=tuple(tuple(f"{level}{column}: " for column in range(columns)) for level in "abc"),
        label_prefix=("l: ", "m: ", "n: "),
        label_affix=("\n", " ", "\t"),
    )
    split = SplitSizes(calibration=5, demonstration=30, test=12)
    return Dataset.from_rows(dataset_rows, name=name, label_space=labels, split=split, alternatives=alternatives)

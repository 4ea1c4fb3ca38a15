"""The real frozen data against the golden file of the release."""

from __future__ import annotations

import os
import random
import shutil
from pathlib import Path
from typing import Any

import pytest

from StaICC.datasets import FrozenTable, load_dataset, names, table_digest
from StaICC.datasets import pack as pack_module
from StaICC.errors import DataDamagedError

pytestmark = pytest.mark.pack
ORDER = (
    *("GLUE-SST2", "rotten_tomatoes", "financial_phrasebank", "SST5", "TREC"),
    *("AGNews", "Subjective", "tweet_eval_emotion", "tweet_eval_hate", "hate_speech_18"),
)


@pytest.mark.parametrize("name", ORDER)
def test_rows_are_the_release(name: str, golden: dict[str, Any]) -> None:
    dataset, wanted = load_dataset(name), golden["datasets"][name]
    assert len(dataset.table) == wanted["rows"]
    assert dataset.table.columns == 1
    assert dataset.table.digest == table_digest(dataset.table) == wanted["table_sha256"]


@pytest.mark.parametrize("name", ORDER)
def test_labels_and_lengths(name: str) -> None:
    dataset = load_dataset(name)
    labels, longest = set(), 0
    for row in dataset.table:
        labels.add(row.label)
        longest = max(longest, sum(map(len, row.texts)))
    assert labels == set(range(len(dataset.card.label_space))), "every label occurs, and no other"
    assert longest <= 1024


def test_everything_verifies() -> None:
    assert [(one.name, one.state) for one in pack_module.verify()] == [(name, "verified") for name in names()]


def test_a_flipped_byte_anywhere_is_refused(tmp_path: Path) -> None:
    path, digest = pack_module.table_path("TREC"), pack_module.expected_digest("TREC")
    copy = tmp_path / path.name
    shutil.copyfile(path, copy)
    size, generator = copy.stat().st_size, random.Random(7)
    for number, position in enumerate([0, 8, 16, 100, size - 1, *generator.choices(range(size), k=60)]):
        with copy.open("r+b") as file:
            file.seek(position)
            byte = file.read(1)[0]
            file.seek(position)
            file.write(bytes([byte ^ (1 << generator.randrange(8))]))
        os.utime(copy, ns=(number, number))
        with pytest.raises(DataDamagedError) as caught:
            FrozenTable(copy, digest)
        assert str(copy) in str(caught.value)
        assert digest in str(caught.value)
        with copy.open("r+b") as file:
            file.seek(position)
            file.write(bytes([byte]))
    os.utime(copy, ns=(10**9, 10**9))
    assert len(FrozenTable(copy, digest)) == 5952

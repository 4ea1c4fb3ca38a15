"""The real frozen data against the golden file of the release."""

from __future__ import annotations

from typing import Any

import pytest

import StaICC.datasets.pack as pack
from StaICC.datasets import load_dataset, names, table_digest


@pytest.mark.pack
@pytest.mark.parametrize("name", names())
def test_rows_are_the_release(name: str, golden: dict[str, Any]) -> None:
    dataset, wanted = load_dataset(name), golden["datasets"][name]
    assert len(dataset.table) == wanted["rows"]
    assert dataset.table.columns == 1
    rows = list(dataset.table)
    assert dataset.table.digest == table_digest(rows) == wanted["table_sha256"]
    assert {row.label for row in rows} == set(range(len(dataset.card.label_space))), "every label occurs, and no other"
    assert max(sum(map(len, row.texts)) for row in rows) <= 1024


@pytest.mark.pack
def test_everything_verifies() -> None:
    assert [(table.name, table.state) for table in pack.verify()] == [(name, "verified") for name in names()]

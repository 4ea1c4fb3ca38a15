"""Data sets of users' own rows, and mini."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from StaICC.datasets import Dataset, SplitSizes, Template, get_card, load_dataset, table_digest
from StaICC.datasets.dataset import default_split
from StaICC.errors import DataDamagedError

PAIRS = [((f"premise {i}", f"hypothesis {i}"), i % 2) for i in range(20)]


def test_pairs() -> None:
    dataset = Dataset.from_rows(PAIRS, name="pairs", label_space=["no", "yes"], task="entailment", licence="CC0")
    assert dataset.table[3] == (("premise 3", "hypothesis 3"), 1)
    card = dataset.card
    assert card.template == Template("", ("sentence1: ", "sentence2: "), (" ", " "), "label: ", "\n", "")
    assert (card.name, card.title, card.task, card.licence) == ("pairs", "pairs", "entailment", "CC0")
    assert card.full_label_space == card.label_space == ("no", "yes")
    assert card.rows == card.split.total == 20
    assert card.digests is not None
    assert card.digests.table == table_digest(PAIRS)
    assert card.digests.file is None
    assert not card.offensive


def test_everything_can_be_given() -> None:
    template = Template("Classify. ", ("Text: ",), ("\n",), "Class: ", "\n\n", "Now: ")
    alternatives = get_card("TREC").alternatives
    dataset = Dataset.from_rows(
        [("a", 0), ("b", 1), ("c", 1)],
        name="own",
        label_space=("x", "y"),
        full_label_space=("the x", "the y"),
        template=template,
        split=SplitSizes(0, 1, 2),
        source="https://example.org/",
        citation="@misc{own}",
        alternatives=alternatives,
        offensive=True,
        notes="note",
    )
    card = dataset.card
    assert card.template == template
    assert card.split == SplitSizes(0, 1, 2)
    assert card.full_label_space == ("the x", "the y")
    assert card.alternatives == alternatives
    assert (card.source, card.citation, card.offensive, card.notes) == (
        "https://example.org/",
        "@misc{own}",
        True,
        "note",
    )


@given(st.integers(1, 10_000))
def test_default_split(rows: int) -> None:
    split = default_split(rows)
    assert split.stratified
    assert split.test == max(1, min(512, rows * 2 // 5))
    assert split.calibration == min(1024, rows // 5)
    assert split.demonstration == min(4096, rows - split.test - split.calibration)
    assert rows < 2 or split.demonstration >= 1


def test_damage_in_mini_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    import StaICC.datasets.catalogue as module
    from StaICC.datasets import source

    known = module.catalogue()
    data = source.shipped("mini.json")
    data["rows"][100][0] += "."
    monkeypatch.setattr(source, "shipped", lambda _: data)
    assert module.catalogue() is known  # read before
    with pytest.raises(DataDamagedError, match="the rows are not the published ones"):
        load_dataset("mini")
    data["label_space"] = data["label_space"][::-1]
    with pytest.raises(DataDamagedError, match="label space"):
        load_dataset("mini")

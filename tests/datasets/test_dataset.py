"""Data sets of users' own rows, and mini."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from StaICC.datasets import Dataset, SplitSizes, Template, get_card, load_dataset, table_digest
from StaICC.datasets.dataset import default_split, default_template
from StaICC.errors import ArgumentError, DataDamagedError

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


@pytest.mark.parametrize(
    ("rows", "changes", "message"),
    [
        ([("a", 0), ("b", 2)], {}, r"row 1: the label index is 2, but the label space of 'n' has 2 labels"),
        ([], {}, "there is no row"),
        ([("a", 0)], {"name": " "}, "'name' is empty"),
        ([("a", 0)], {"label_space": "ab"}, "label names: got 'ab', expected at least two labels"),
        ([("a", 0)], {"label_space": None}, "Classification needs at least two labels"),
        ([("a", 0)], {"label_space": []}, r"label names: got \[\], expected at least two"),
        ([("a", 0)], {"label_space": ["a", "a"]}, r"label names: got \['a', 'a'\], expected .* each once"),
        ([(" ", 0), ("a", 1)], {}, r"^row 0 has no text \(1 of 2 rows"),
        ([("a", None), ("b", 1)], {}, r"^row 0 has no label \(1 of 2 rows"),
        ([("a", 0)], {"full_label_space": ["a"]}, "'label_space' names 2 labels, 'full_label_space' 1"),
        ([("a", 0)], {"split": SplitSizes(0, 1, 1)}, "the split takes 0 \\+ 1 \\+ 1 = 2 rows, but there are 1"),
        ([("a", 0)], {"split": (0, 0, 1)}, "'split' must be a SplitSizes"),
        ([(("a", "b"), 0)], {"template": default_template(1)}, "rows have 2 input texts, the template 1 prefixes"),
        ([(("a", "b"), 0)], {"alternatives": get_card("TREC").alternatives}, "the template has 2 input texts"),
        ([("a", 0)], {"template": "input: "}, "'template' must be a Template"),
    ],
)
def test_bad_data_sets(rows: Any, changes: dict[str, Any], message: str) -> None:
    with pytest.raises(ArgumentError, match=message):
        Dataset.from_rows(rows, **({"name": "n", "label_space": ["a", "b"]} | changes))


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

"""Cards refuse what cannot be right, and name it."""

from __future__ import annotations

import dataclasses
import re
from typing import Any

import pytest

from StaICC.datasets import Card, SplitSizes, Template, get_card
from StaICC.errors import ArgumentError, SchemaError

CARD = get_card("TREC")


@pytest.mark.parametrize(
    ("record", "changes", "message"),
    [
        (CARD, {"name": ""}, "'name' is empty"),
        (CARD, {"task": None}, "'task'"),
        (CARD, {"notes": "\ud800"}, "lone surrogate"),
        (CARD, {"label_space": ()}, "'label_space' is empty"),
        (CARD, {"label_space": ("a", "b", "a", "d", "e", "f")}, "names the label 'a' twice"),
        (CARD, {"label_space": ("a", "b")}, "'label_space' names 2 labels, 'full_label_space' 6"),
        (CARD, {"template": None}, "'template'"),
        (CARD, {"template": Template("", ("a", "b"), ("", ""), "", "")}, "2 input texts, its alternatives have 1"),
        (CARD, {"split": (1, 2, 3)}, "'split'"),
        (CARD, {"rows": 5631}, "the split takes 1024 + 4096 + 512 = 5632 rows, but there are 5631"),
        (CARD, {"rows": -1}, "'rows'"),
        (CARD.template, {"instruction": None}, "'instruction'"),
        (CARD.template, {"query_prefix": "\udfff"}, "lone surrogate"),
        (CARD.template, {"input_text_prefixes": ()}, "'input_text_prefixes' is empty"),
        (CARD.template, {"input_text_affixes": (" ", " ")}, "1 'input_text_prefixes' but 2"),
        (CARD.alternatives, {"instruction": ("", "a")}, "'instruction' has 2 levels; there must be 3"),
        (CARD.alternatives, {"input_text_prefixes": (("a",), ("b",), ("c", "d"))}, "the levels have 1, 1, 2"),
    ],
)
def test_bad_records(record: Any, changes: dict[str, Any], message: str) -> None:
    with pytest.raises(ArgumentError, match=re.escape(message)):
        dataclasses.replace(record, **changes)


@pytest.mark.parametrize("sizes", [(1, 1, 0), (-1, 1, 1), (1, 1.0, 1), (True, 1, 1), ("1", 1, 1), (0, 0, -1)])
def test_bad_splits(sizes: Any) -> None:
    with pytest.raises(ArgumentError, match="split: "):
        SplitSizes(*sizes)


def test_from_dict_names_missing_and_unknown_keys() -> None:
    for field in dataclasses.fields(Card):
        if field.default is dataclasses.MISSING:
            plain = CARD.to_dict()
            del plain[field.name]
            with pytest.raises(SchemaError, match=f"the field {field.name!r} is missing"):
                Card.from_dict(plain)
    for record in (None, "template", "alternatives", "split", "digests"):
        plain = CARD.to_dict()
        (plain if record is None else plain[record])["colour"] = "red"
        with pytest.raises(SchemaError, match="no field 'colour'"):
            Card.from_dict(plain)

"""Cards refuse what cannot be right, and name it."""

from __future__ import annotations

import dataclasses
import re
from typing import Any

import pytest

from StaICC.datasets import Card, Digests, SplitSizes, Template, TemplateAlternatives, get_card
from StaICC.errors import ArgumentError, SchemaError

CARD = get_card("TREC")
TEMPLATE = CARD.template
ALTERNATIVES = CARD.alternatives


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"name": ""}, "'name' is empty"),
        ({"name": 3}, "'name'"),
        ({"task": None}, "'task'"),
        ({"notes": "\ud800"}, "lone surrogate"),
        ({"offensive": 1}, "'offensive'"),
        ({"label_space": ()}, "'label_space' is empty"),
        ({"label_space": "abcdef"}, "'label_space'"),
        ({"label_space": ("a", "b", "c", "d", "e", 6)}, "'label_space'"),
        ({"label_space": ("a", "b", "a", "d", "e", "f")}, "names the label 'a' twice"),
        ({"label_space": ("a", "b")}, "'label_space' names 2 labels, 'full_label_space' 6"),
        ({"full_label_space": ("a",) * 6}, "'full_label_space' names the label 'a' twice"),
        ({"template": None}, "'template'"),
        ({"split": (1, 2, 3)}, "'split'"),
        ({"alternatives": {}}, "'alternatives'"),
        ({"digests": "0" * 64}, "'digests'"),
        ({"rows": 5631}, "the split takes 1024 + 4096 + 512 = 5632 rows, but there are 5631"),
        ({"rows": -1}, "'rows'"),
        ({"rows": True}, "'rows'"),
        ({"rows": 6000.0}, "'rows'"),
        (
            {"template": Template("", ("a", "b"), ("", ""), "", "")},
            "the template has 2 input texts, its alternatives have 1",
        ),
    ],
)
def test_bad_cards(changes: dict[str, Any], message: str) -> None:
    pattern = message if "\\[" in message else re.escape(message)
    with pytest.raises(ArgumentError, match=pattern):
        dataclasses.replace(CARD, **changes)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"instruction": None}, "'instruction'"),
        ({"label_affix": 1}, "'label_affix'"),
        ({"query_prefix": "\udfff"}, "lone surrogate"),
        ({"input_text_prefixes": ()}, "'input_text_prefixes' is empty"),
        ({"input_text_prefixes": "text: "}, "'input_text_prefixes'"),
        ({"input_text_affixes": (" ", " ")}, "1 'input_text_prefixes' but 2 'input_text_affixes'"),
    ],
)
def test_bad_templates(changes: dict[str, Any], message: str) -> None:
    with pytest.raises(ArgumentError, match=re.escape(message)):
        dataclasses.replace(TEMPLATE, **changes)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"instruction": ("", "a")}, "'instruction' has 2 levels; there must be 3"),
        ({"label_prefix": "abc"}, "'label_prefix'"),
        ({"input_text_prefixes": ("a", "b", "c")}, "'input_text_prefixes'"),
        ({"input_text_prefixes": 3}, "'input_text_prefixes'"),
        ({"input_text_prefixes": (("a",), ("b",), ("c", "d"))}, "the levels have 1, 1, 2"),
        ({"input_text_prefixes": ((), (), ())}, "the levels have 0, 0, 0"),
    ],
)
def test_bad_alternatives(changes: dict[str, Any], message: str) -> None:
    assert ALTERNATIVES is not None
    with pytest.raises(ArgumentError, match=re.escape(message)):
        dataclasses.replace(ALTERNATIVES, **changes)


@pytest.mark.parametrize("sizes", [(1, 1, 0), (-1, 1, 1), (1, 1.0, 1), (True, 1, 1), ("1", 1, 1), (0, 0, -1)])
def test_bad_splits(sizes: Any) -> None:
    with pytest.raises(ArgumentError, match="split: "):
        SplitSizes(*sizes)


def test_split_total() -> None:
    assert SplitSizes(0, 0, 1).total == 1
    assert CARD.split.total == 5632


@pytest.mark.parametrize("digest", ["", "0" * 63, "0" * 65, "A" * 64, "g" * 64, None, 0, b"0" * 64])
def test_bad_digests(digest: Any) -> None:
    with pytest.raises(ArgumentError, match="'table' must be 64 lower-case hexadecimal digits"):
        Digests(digest)
    if digest is not None:
        with pytest.raises(ArgumentError, match="'file' must be"):
            Digests("0" * 64, digest)


def test_lists_become_tuples_so_that_cards_are_immutable_and_hashable() -> None:
    assert ALTERNATIVES is not None
    plain = CARD.to_dict()
    assert isinstance(plain["label_space"], list)
    card = dataclasses.replace(
        CARD,
        label_space=list(CARD.label_space),
        template=Template("", ["question: "], [" "], "target: ", "\n"),
        alternatives=TemplateAlternatives(
            list(ALTERNATIVES.instruction),
            [["question: "], ["text: "], ["sentence: "]],
            list(ALTERNATIVES.label_prefix),
            list(ALTERNATIVES.label_affix),
        ),
    )
    assert card == CARD
    assert hash(card) == hash(CARD)
    with pytest.raises(dataclasses.FrozenInstanceError):
        card.name = "other"  # type: ignore[misc]


@pytest.mark.parametrize("key", [one.name for one in dataclasses.fields(Card) if one.default is dataclasses.MISSING])
def test_from_dict_names_the_missing_key(key: str) -> None:
    plain = CARD.to_dict()
    del plain[key]
    with pytest.raises(SchemaError, match=f"the field {key!r} is missing"):
        Card.from_dict(plain)


@pytest.mark.parametrize("record", [None, "template", "alternatives", "split", "digests"])
def test_from_dict_names_the_unknown_key(record: str | None) -> None:
    plain = CARD.to_dict()
    (plain if record is None else plain[record])["colour"] = "red"
    with pytest.raises(SchemaError, match="no field 'colour'"):
        Card.from_dict(plain)


@pytest.mark.parametrize("value", [None, [], "x", 3])
def test_from_dict_needs_records(value: Any) -> None:
    with pytest.raises(SchemaError, match="must be an object"):
        Card.from_dict(value)
    with pytest.raises(SchemaError, match="split must be an object"):
        Card.from_dict(CARD.to_dict() | {"split": value})


def test_optional_records_may_be_none() -> None:
    bare = Card.from_dict(CARD.to_dict() | {"alternatives": None, "digests": None})
    assert bare.alternatives is None
    assert bare.digests is None
    assert Card.from_dict(bare.to_dict()) == bare

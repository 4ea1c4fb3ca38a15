"""Cards, the catalogue against what the release says, and data sets of users' rows."""

from __future__ import annotations

import dataclasses
import json
import re
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

import StaICC.datasets.catalogue as module
from StaICC.datasets.catalogue import Card, SplitSizes, Template, TemplateAlternatives, cite, find, get_card, names
from StaICC.datasets.dataset import Dataset, load_dataset
from StaICC.datasets.defaults import default_split, default_template, generated_alternatives
from StaICC.datasets.source import shipped
from StaICC.datasets.table import table_digest
from StaICC.errors import ArgumentError, DataDamagedError, SchemaError

CARD = get_card("TREC")


@pytest.mark.parametrize(
    ("record", "changes", "message"),
    [
        (CARD, {"name": ""}, "'name' is empty"),
        (CARD, {"task": None}, "'task'"),
        (CARD, {"notes": "\ud800"}, "lone surrogate"),
        (CARD, {"label_space": ()}, "'label_space' is []"),
        (CARD, {"label_space": ("a", "b", "a", "d", "e", "f")}, "'label_space' is ['a', 'b', 'a', 'd', 'e', 'f']"),
        (CARD, {"label_space": ("a", "b")}, "'label_space' names 2 labels, 'full_label_space' 6"),
        (CARD, {"template": None}, "'template'"),
        (CARD, {"template": Template("", ("a", "b"), ("", ""), "", "")}, "2 input texts, its alternatives have 1"),
        (CARD, {"split": (1, 2, 3)}, "'split'"),
        (CARD, {"rows": 5631}, "the split takes 1024 + 4096 + 512 = 5632 rows, but there are 5631"),
        (CARD, {"rows": -1}, "'rows'"),
        (CARD.template, {"instruction": None}, "'instruction'"),
        (CARD.template, {"query_prefix": "\udfff"}, "lone surrogate"),
        (CARD.template, {"input_text_prefixes": ()}, "0 'input_text_prefixes' and 1"),
        (CARD.template, {"input_text_affixes": (" ", " ")}, "1 'input_text_prefixes' and 2"),
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


# -- the catalogue against what the release says, entry by entry


ORDER = names()
ALL = (*ORDER, "mini")


@pytest.fixture(scope="module")
def release() -> dict[str, Any]:
    path = Path(__file__).parents[1] / "golden" / "datasets.json"
    return json.loads(path.read_text("utf-8"))["datasets"]


def test_the_ten_in_the_order_of_the_benchmark(release: dict[str, Any]) -> None:
    assert [release[name]["index"] for name in names()] == list(range(10))
    assert len(names()) == 10


@pytest.mark.parametrize("name", ORDER)
def test_card_is_the_release(name: str, release: dict[str, Any], golden: dict[str, Any]) -> None:
    card, theirs = get_card(name), release[name]
    plain = card.to_dict()
    assert card.rows == theirs["length"] == golden["datasets"][name]["rows"]
    assert card.title == theirs["paper_name"]
    for key, value in plain["template"].items():
        assert value == theirs[key], key
    for key, value in plain["alternatives"].items():
        assert value == theirs["alternate_template"][key], key
    assert plain["label_space"] == theirs["label_space"]
    assert plain["full_label_space"] == (theirs["full_label_space"] or theirs["label_space"])
    assert list(plain["split"].values()) == list(theirs["split"].values()) == golden["datasets"][name]["split_sizes"]
    assert plain["digests"]["table"] == golden["datasets"][name]["table_sha256"]


@pytest.mark.parametrize("name", ORDER)
def test_source_and_citation(name: str) -> None:
    card = get_card(name)
    assert re.match(r"https://(aclanthology\.org|arxiv\.org|doi\.org)/", card.source)
    entries = re.findall(r"@(\w+)\{(\w+),", cite(name))
    assert entries
    assert cite(name).count("{") == cite(name).count("}")
    for field in ("title", "author", "year", "url"):
        assert len(re.findall(rf"^  {field} = ", cite(name), re.M)) == len(entries), field
    assert cite(name) == card.citation


SPELLINGS = {"SST-2": "GLUE-SST2", "sst2": "GLUE-SST2", "MR": "rotten_tomatoes", "SST-5": "SST5", "AG News": "AGNews"}
SPELLINGS |= {"subj": "Subjective", "TEH": "tweet_eval_hate"}


def test_spellings() -> None:
    for spelling, expected in SPELLINGS.items():
        assert find(spelling) == expected == get_card(spelling).name
    for name in ALL:
        plain = name.replace("_", " ").replace("-", "")
        for spelling in (name, name.upper(), name.lower(), get_card(name).title, plain):
            assert find(spelling) == name


@pytest.mark.parametrize(
    ("part", "key", "value", "message"),
    [
        ("published", "lisence", "", "no field 'lisence'"),
        ("published", "template", {}, "template cannot be read: the field 'instruction'"),
        ("prose", "licence", None, "card 'TREC' cannot be read: the field 'licence' is missing"),
    ],
)
def test_a_catalogue_with_a_mistake_is_refused(part: str, key: str, value: Any, message: str) -> None:
    data = shipped("catalogue.json")
    data["datasets"]["TREC"][part][key] = value
    if value is None:
        del data["datasets"]["TREC"][part][key]
    with pytest.raises(SchemaError, match=re.escape(message)):
        module._parse(data)


# -- data sets of users' own rows, and mini


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


@pytest.mark.parametrize(
    ("columns", "labels", "listed", "text"),
    [(1, 10, "Choose one of: 0, 1, 2, 3, 4, 5, 6, 7, 8, 9. ", "text"), (2, 11, "Choose the right label. ", "texts")],
)
def test_generated_alternatives(columns: int, labels: int, listed: str, text: str) -> None:
    prefixes = [("text: ",), ("input: ",), ("Text: ",)]
    if columns == 2:
        prefixes = [("sentence1: ", "sentence2: "), ("text 1: ", "text 2: "), ("input 1: ", "input 2: ")]
    affixes = ["label: ", "answer: ", "Label: "], ["\n", " ", "\t"]
    expected = TemplateAlternatives(["", listed, f"Classify the {text}. "], prefixes, *affixes)  # type: ignore[arg-type]
    names = [str(number) for number in range(labels)]
    assert generated_alternatives(default_template(columns), names) == expected
    own = dataclasses.replace(default_template(1), instruction="Classify the text. ", label_affix=" ")
    made = generated_alternatives(own, names)  # a level that is there already is passed over
    assert made.instruction[::2] == ("Classify the text. ", "Classify: ")
    assert made.label_affix == (" ", "\n", "\t")


def test_everything_can_be_given() -> None:
    facts: dict[str, Any] = {
        "label_space": ("x", "y"),
        "full_label_space": ("the x", "the y"),
        "template": Template("Classify. ", ("Text: ",), ("\n",), "Class: ", "\n\n", "Now: "),
        "split": SplitSizes(0, 1, 2),
        "source": "https://example.org/",
        "citation": "@misc{own}",
        "alternatives": get_card("TREC").alternatives,
        "offensive": True,
        "notes": "note",
    }
    card = Dataset.from_rows([("a", 0), ("b", 1), ("c", 1)], name="own", **facts).card
    assert {name: getattr(card, name) for name in facts} == facts


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

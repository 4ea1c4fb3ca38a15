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
from StaICC.datasets import source
from StaICC.datasets.catalogue import (
    Card,
    Digests,
    SplitSizes,
    Template,
    TemplateAlternatives,
    cite,
    find,
    get_card,
    names,
)
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


REQUIRED_FIELDS = [field.name for field in dataclasses.fields(Card) if field.default is dataclasses.MISSING]


@pytest.mark.parametrize("field", REQUIRED_FIELDS)
def test_a_card_without_a_required_field_is_refused(field: str) -> None:
    record = CARD.to_dict()
    del record[field]

    with pytest.raises(SchemaError, match=f"the field {field!r} is missing"):
        Card.from_dict(record)


def test_a_card_with_an_unknown_field_is_refused() -> None:
    record = {**CARD.to_dict(), "colour": "red"}

    with pytest.raises(SchemaError, match="no field 'colour'"):
        Card.from_dict(record)


@pytest.mark.parametrize("part", ["template", "alternatives", "split", "digests"])
def test_a_part_of_a_card_with_an_unknown_field_is_refused(part: str) -> None:
    record = CARD.to_dict()
    record[part]["colour"] = "red"

    with pytest.raises(SchemaError, match="no field 'colour'"):
        Card.from_dict(record)


# -- the catalogue against what the release says, entry by entry


ORDER = names()
ALL = (*ORDER, "mini")


@pytest.fixture(scope="module")
def release() -> dict[str, Any]:
    """The entries of the data sets in the released 0.1.1, by name."""
    path = Path(__file__).parents[1] / "golden" / "datasets.json"
    return json.loads(path.read_text("utf-8"))["datasets"]


def test_the_ten_in_the_order_of_the_benchmark(release: dict[str, Any]) -> None:
    assert [release[name]["index"] for name in names()] == list(range(10))
    assert len(names()) == 10


@pytest.mark.parametrize("name", ORDER)
def test_the_texts_of_a_card_are_those_of_the_release(name: str, release: dict[str, Any]) -> None:
    card = get_card(name).to_dict()
    configuration = release[name]

    assert card["title"] == configuration["paper_name"]
    for key, text in card["template"].items():
        assert text == configuration[key], key
    for key, texts in card["alternatives"].items():
        assert texts == configuration["alternate_template"][key], key
    assert card["label_space"] == configuration["label_space"]
    assert card["full_label_space"] == (configuration["full_label_space"] or configuration["label_space"])


@pytest.mark.parametrize("name", ORDER)
def test_the_rows_of_a_card_are_those_of_the_release(
    name: str, release: dict[str, Any], golden: dict[str, Any]
) -> None:
    """The release has a configuration of each data set; what its code really read was measured."""
    card = get_card(name).to_dict()
    configuration = release[name]
    measured = golden["datasets"][name]

    assert card["rows"] == configuration["length"]
    assert card["rows"] == measured["rows"]
    assert list(card["split"].values()) == list(configuration["split"].values())
    assert list(card["split"].values()) == measured["split_sizes"]
    assert card["digests"]["table"] == measured["table_sha256"]


@pytest.mark.parametrize("name", ORDER)
def test_the_source_of_a_card_is_an_address_of_a_paper(name: str) -> None:
    assert re.match(r"https://(aclanthology\.org|arxiv\.org|doi\.org)/", get_card(name).source)


@pytest.mark.parametrize("name", ORDER)
def test_the_citation_of_a_card_is_bibtex_with_the_usual_fields(name: str) -> None:
    citation = cite(name)

    entry_count = len(re.findall(r"@\w+\{\w+,", citation))
    assert entry_count >= 1
    assert citation.count("{") == citation.count("}")
    for field in ("title", "author", "year", "url"):
        assert len(re.findall(rf"^  {field} = ", citation, re.M)) == entry_count, field
    assert citation == get_card(name).citation


SPELLINGS = {
    "SST-2": "GLUE-SST2",
    "sst2": "GLUE-SST2",
    "MR": "rotten_tomatoes",
    "SST-5": "SST5",
    "AG News": "AGNews",
    "subj": "Subjective",
    "TEH": "tweet_eval_hate",
}
SPELLINGS |= {"subj": "Subjective", "TEH": "tweet_eval_hate"}


@pytest.mark.parametrize(("spelling", "name"), SPELLINGS.items())
def test_the_usual_spellings_are_found(spelling: str, name: str) -> None:
    assert find(spelling) == name
    assert get_card(spelling).name == name


@pytest.mark.parametrize("name", ALL)
def test_a_name_is_found_without_its_case_and_its_marks(name: str) -> None:
    without_marks = name.replace("_", " ").replace("-", "")
    for spelling in (name, name.upper(), name.lower(), without_marks, get_card(name).title):
        assert find(spelling) == name, spelling


@pytest.mark.parametrize(
    ("part", "key", "value", "message"),
    [
        ("published", "lisence", "", "no field 'lisence'"),
        ("published", "template", {}, "template cannot be read: the field 'instruction'"),
    ],
)
def test_a_catalogue_with_a_mistake_is_refused(part: str, key: str, value: Any, message: str) -> None:
    data = shipped("catalogue.json")
    data["datasets"]["TREC"][part][key] = value

    with pytest.raises(SchemaError, match=re.escape(message)):
        module._parse(data)


def test_a_catalogue_without_a_licence_is_refused() -> None:
    data = shipped("catalogue.json")
    del data["datasets"]["TREC"]["prose"]["licence"]

    with pytest.raises(SchemaError, match="card 'TREC' cannot be read: the field 'licence' is missing"):
        module._parse(data)


# -- data sets of users' own rows, and mini


TEXT_PAIRS = [((f"premise {i}", f"hypothesis {i}"), i % 2) for i in range(20)]
"""Rows with two input texts."""


def test_rows_with_two_texts_have_a_template_with_two_prefixes() -> None:
    dataset = Dataset.from_rows(TEXT_PAIRS, name="pairs", label_space=["no", "yes"])

    assert dataset.table[3] == (("premise 3", "hypothesis 3"), 1)
    assert dataset.card.template == Template(
        instruction="",
        input_text_prefixes=("sentence1: ", "sentence2: "),
        input_text_affixes=(" ", " "),
        label_prefix="label: ",
        label_affix="\n",
    )


def test_the_card_of_own_rows_says_what_they_are() -> None:
    card = Dataset.from_rows(TEXT_PAIRS, name="pairs", label_space=["no", "yes"], task="nli", licence="CC0").card

    assert (card.name, card.title, card.task, card.licence) == ("pairs", "pairs", "nli", "CC0")
    assert card.label_space == ("no", "yes")
    assert card.full_label_space == ("no", "yes")
    assert not card.offensive


def test_the_card_of_own_rows_counts_them_and_has_their_digest() -> None:
    """There is no file, so there is no digest of a file."""
    card = Dataset.from_rows(TEXT_PAIRS, name="pairs", label_space=["no", "yes"]).card

    assert card.rows == 20
    assert card.split.total == 20
    assert card.digests == Digests(table=table_digest(TEXT_PAIRS), file=None)


def test_alternatives_for_one_text_and_ten_labels_are_generated() -> None:
    labels = [str(number) for number in range(10)]

    assert generated_alternatives(default_template(1), labels) == TemplateAlternatives(
        instruction=("", "Choose one of: 0, 1, 2, 3, 4, 5, 6, 7, 8, 9. ", "Classify the text. "),
        input_text_prefixes=(("text: ",), ("input: ",), ("Text: ",)),
        label_prefix=("label: ", "answer: ", "Label: "),
        label_affix=("\n", " ", "\t"),
    )


def test_alternatives_for_two_texts_and_eleven_labels_are_generated() -> None:
    """More than ten labels are not listed."""
    labels = [str(number) for number in range(11)]

    alternatives = generated_alternatives(default_template(2), labels)

    assert alternatives.instruction == ("", "Choose the right label. ", "Classify the texts. ")
    assert alternatives.input_text_prefixes == (
        ("sentence1: ", "sentence2: "),
        ("text 1: ", "text 2: "),
        ("input 1: ", "input 2: "),
    )


def test_a_generated_alternative_that_the_template_has_is_passed_over() -> None:
    template = dataclasses.replace(default_template(1), instruction="Classify the text. ", label_affix=" ")

    alternatives = generated_alternatives(template, ["a", "b"])

    assert alternatives.instruction == ("Classify the text. ", "Choose one of: a, b. ", "Classify: ")
    assert alternatives.label_affix == (" ", "\n", "\t")


def test_every_field_of_a_card_can_be_given() -> None:
    fields: dict[str, Any] = {
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

    card = Dataset.from_rows([("a", 0), ("b", 1), ("c", 1)], name="own", **fields).card

    assert {name: getattr(card, name) for name in fields} == fields


@given(st.integers(1, 10_000))
def test_the_default_split_has_two_fifths_of_the_rows_for_the_test_and_one_fifth_for_calibration(rows: int) -> None:
    split = default_split(rows)

    assert split.stratified
    assert split.test == max(1, min(512, rows * 2 // 5))
    assert split.calibration == min(1024, rows // 5)
    assert split.demonstration == min(4096, rows - split.test - split.calibration)


@given(st.integers(2, 10_000))
def test_the_default_split_of_two_rows_and_more_has_a_demonstration(rows: int) -> None:
    assert default_split(rows).demonstration >= 1


def test_damage_in_mini_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    module.catalogue()  # read before, from the files that are not damaged
    damaged = shipped("mini.json")
    damaged["rows"][100][0] += "."
    monkeypatch.setattr(source, "shipped", lambda file: damaged)

    with pytest.raises(DataDamagedError, match="the rows are not the published ones"):
        load_dataset("mini")

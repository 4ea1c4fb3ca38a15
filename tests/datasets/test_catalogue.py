"""The catalogue against what the release says, entry by entry."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest

import StaICC.datasets.catalogue as module
from StaICC.datasets import cite, get_card, names
from StaICC.datasets.catalogue import find
from StaICC.datasets.source import shipped
from StaICC.errors import SchemaError

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


SPELLINGS = {
    "SST-2": "GLUE-SST2",
    "sst2": "GLUE-SST2",
    "MR": "rotten_tomatoes",
    "SST-5": "SST5",
    "AG News": "AGNews",
    "subj": "Subjective",
    "TEH": "tweet_eval_hate",
}


def test_spellings() -> None:
    for given, expected in SPELLINGS.items():
        assert find(given) == expected == get_card(given).name
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

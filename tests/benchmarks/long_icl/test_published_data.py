"""Every digest of the golden file, from the published files (and from made-up files of their shape)."""

from __future__ import annotations

import hashlib
import json
from pathlib import Path
from typing import Any

import pytest

from StaICC.benchmarks.long_icl import LongICLExperimentor, card, load
from StaICC.benchmarks.long_icl.data import find
from StaICC.benchmarks.long_icl.files import READERS
from StaICC.benchmarks.long_icl.prompts import at_most, by_passes, by_turns, write_answer
from StaICC.benchmarks.long_icl.task import LongICLQuery

SETS = [
    "banking77",
    "goemotions",
    "few_nerd",
    "synthetic_discovery",
    "synthetic_tacred",
    "synthetic_dialogre",
    "dialogre",
]


def sha(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()


def joined(numbers: list[int]) -> str:
    return sha(",".join(map(str, numbers)))


def place(published: Path, key: str) -> tuple[str, Path]:
    """Name and folder of a golden data set; skipped where it may not be shipped and is not there."""
    name = key.removeprefix("synthetic_")
    folder = published / "synthetic" if key.startswith("synthetic_") else published
    if find(name, folder, "train") is None:
        pytest.skip(f"{key} is not in {folder}: {card(name).instructions()}")
    return name, folder


@pytest.mark.parametrize("key", SETS)
def test_test_items(published: Path, golden: dict[str, Any], key: str) -> None:
    name, folder = place(published, key)
    expected = golden["datasets"][key]["test_selection"]
    data = load(name, folder)
    items = data.test_items(expected["test_number"])
    assert joined([item.row for item in items]) == expected["indices_sha256"]
    assert len(items) == expected["used"]
    if "selected_before_cut_indices_sha256" in expected:
        rows = [data.test[i].item().row for i in by_turns([row.label for row in data.test], expected["turns"])]
        assert len(rows) == expected["selected_before_cut"]
        assert joined(rows) == expected["selected_before_cut_indices_sha256"]
    elif "pairs" in expected:
        assert len(data.test) == expected["selected_before_cut"]
        assert sum(len(item.gold) for item in items) == expected["pairs"]
    elif "turns" in expected:
        places = at_most([row.label for row in data.test], data.card.labels, expected["turns"])
        assert len(places) == expected["selected_before_cut"]
    else:
        assert len(data.test) == expected["selected_before_cut"]


@pytest.mark.parametrize("mode", ["plain", "instruct"])
@pytest.mark.parametrize("key", SETS)
def test_prompts(published: Path, golden: dict[str, Any], key: str, mode: str) -> None:
    name, folder = place(published, key)
    entry = golden["datasets"][key]
    data = load(name, folder)
    arrangements = ["interleaved", "grouped"] if name == "tacred" else ["interleaved"]
    for arrangement in arrangements:
        own = LongICLExperimentor(
            data,
            rounds=[1, 3, 5],
            test_number=entry["test_selection"]["test_number"],
            instruct=mode == "instruct",
            arrangement=arrangement,
        )
        prompts = own.prompt_set()
        each = len(own.test_items)
        for i, number in enumerate(own.rounds):
            expected = entry["rounds"][str(number)][mode]
            digests = [sha(prompt) for prompt in prompts[i * each : (i + 1) * each]]
            digest = sha("\n".join(digests))
            assert own.prompts_digest(number) == digest
            if arrangement == "grouped":
                assert sha(own.context(number)) == expected["grouped_demo_prompt_sha256"]
                assert digest == expected["grouped_final_prompts_digest"]
                continue
            chosen = data.demonstration_rows(number)
            assert len(chosen) == expected["demonstrations"]
            assert joined([item.row for item in chosen]) == expected["demo_indices_sha256"]
            assert len(own.context(number)) == expected["demo_prompt_chars"]
            assert sha(own.context(number)) == expected["demo_prompt_sha256"]
            assert digests[:3] == expected["final_prompt_sha256_first3"]
            assert digest == expected["final_prompts_digest"]
            if "demo_dialogues" in expected:
                assert len(data.demonstrations(number)) == expected["demo_dialogues"]


LOADERS = {
    "banking77": "banking77",
    "goemotions": "goemotions",
    "fewnerd": "few_nerd",
    "synthetic_discovery": "discovery",
}


@pytest.mark.parametrize("split", ["train", "test"])
@pytest.mark.parametrize("key", LOADERS)
def test_rows_as_read(published: Path, golden: dict[str, Any], key: str, split: str) -> None:
    name = LOADERS[key]
    expected = golden["loaders"][f"{key}_{split}"]
    found = find(name, published / "synthetic" if "synthetic" in key else published, split)
    assert found is not None
    rows = list(READERS[found[1].format](found[0], card(name)))
    assert len(rows) == expected["rows"]
    assert sha(json.dumps([row.form for row in rows], separators=(",", ":"))) == expected["rows_sha256"]
    if "single_label_rows" in expected:
        assert sum(row.label is not None for row in rows) == expected["single_label_rows"]
    if "entities" in expected:
        assert sum(len(row.item().gold) for row in rows) == expected["entities"]
    if "utf8_bytes_of_text" in expected:
        assert sum(len(row.form[0].encode()) for row in rows) == expected["utf8_bytes_of_text"]
    spec = found[1]
    if spec.rows_sha256 is not None:
        assert (spec.rows, spec.rows_sha256) == (expected["rows"], expected["rows_sha256"])


def plain(rows: list[Any]) -> str:
    return sha(json.dumps(rows, sort_keys=True, separators=(",", ":")))


@pytest.mark.parametrize("split", ["train", "test"])
def test_tacred_as_text(published: Path, golden: dict[str, Any], split: str) -> None:
    """All rows are detokenised as the reference program does it."""
    found = find("tacred", published / "synthetic", split)
    assert found is not None
    rows = []
    for row in READERS[found[1].format](found[0], card("tacred")):
        item = row.item()
        sentence, subject, object_ = item.texts
        rows.append({**_pair(subject, object_, item.gold[0]), "sentence": sentence})
    assert plain(rows) == golden["datasets"]["synthetic_tacred"]["data"][f"processed_{split}_sha256"]


@pytest.mark.parametrize("key", ["synthetic_dialogre", "dialogre"])
def test_dialogre_as_processed(published: Path, golden: dict[str, Any], key: str) -> None:
    """Pairs, order of the training rows, and texts are those of the benchmark's processed files."""
    name, folder = place(published, key)
    expected = golden["datasets"][key]["data"]
    data = load(name, folder)
    assert len(data.train) == expected["kept_train_rows"]
    train = []
    for one in (i for taken in by_passes([row.label for row in data.train], len(data.train)) for i in taken):
        item = data.train[one].item()
        train.append({"dialogue": item.texts[0], **_pair(*item.arguments[0], item.gold[0])})
    assert plain(train) == expected["processed_train_sha256"]
    test = []
    for row in data.test:
        item = row.item()
        pairs = zip(item.arguments, item.gold, strict=True)
        test.append({"dialogue": item.texts[0], "relations": [_pair(*pair, relation) for pair, relation in pairs]})
    assert plain(test) == expected["processed_test_sha256"]


def _pair(subject: str, object_: str, relation: str) -> dict[str, str]:
    return {"object_entity": object_, "relation": relation, "subject_entity": subject}


def answers(queries: tuple[LongICLQuery, ...], name: str, *, echo: bool) -> list[str]:
    own = card(name)
    return [
        (query.prompt if echo else "") + write_answer(own, query.item) + ("\nand so on" if echo else "")
        for query in queries
    ]


@pytest.mark.parametrize("echo", [False, True])
@pytest.mark.parametrize("key", ["banking77", "goemotions", "few_nerd", "dialogre"])
def test_perfect_answers(published: Path, golden: dict[str, Any], key: str, echo: bool) -> None:
    name, folder = place(published, key)
    expected = golden["oracle"][name]
    own = LongICLExperimentor(load(name, folder), rounds=[1])
    score = own.score(answers(own.queries(), name, echo=echo)).values["rounds"]["1R"]["score"]
    for part in ("accuracy", "gold", "predicted", "correct", "precision", "recall", "f1"):
        if part in expected:
            assert score[part] == pytest.approx(expected[part], abs=1e-12)


@pytest.mark.parametrize("echo", [False, True])
@pytest.mark.parametrize("key", SETS)
def test_perfect_answers_are_perfect_in_the_strict_variant(published: Path, key: str, echo: bool) -> None:
    name, folder = place(published, key)
    own = LongICLExperimentor(load(name, folder), rounds=[1], variant="strict")
    assert own.score(answers(own.queries(), name, echo=echo)).values["1R"] == 1.0


def test_strict_test_set_of_goemotions(published: Path) -> None:
    """No label takes another's place; the rule of the published variant gives joy 26 items."""
    data = load("goemotions", published)
    for strict, joy, size in ((False, 26, 20), (True, 19, 20)):
        labels = [label for item in data.test_items(strict=strict) for label in item.gold]
        assert len(labels) == 500
        assert labels.count("joy") == joy
        assert max(labels.count(label) for label in data.card.labels if label != "joy") == size


def test_few_nerd_demonstrations_are_the_published_beginnings(published: Path) -> None:
    """The rule that chooses them gives exactly the fixed table of the published code."""
    data = load("few_nerd", published)
    for number, size in enumerate(data.card.demonstrations.expected, 1):
        assert [item.row for item in data.demonstrations(number)] == list(range(size))

"""Every digest of the golden file, from the published files (and from made-up files of their shape)."""

from __future__ import annotations

import hashlib
import json
import tempfile
from pathlib import Path
from typing import Any

import pytest

from StaICC.long_icl.cards import task_card
from StaICC.long_icl.experimentor import LongICLExperimentor
from StaICC.long_icl.loading import LongICLData, find, load
from StaICC.long_icl.parsing import PARSINGS
from StaICC.long_icl.prompts import as_shown
from StaICC.long_icl.readers import READERS
from StaICC.long_icl.selection import selected
from tests.long_icl.conftest import right_answers, scored

SYNTHETIC = ["synthetic_discovery", "synthetic_tacred", "synthetic_dialogre"]
SETS = ["banking77", "goemotions", "few_nerd", *SYNTHETIC, "dialogre"]
_loaded: dict[str, LongICLData] = {}
_renamed = tempfile.TemporaryDirectory()


def sha(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()


def joined(numbers: list[int]) -> str:
    return sha(",".join(map(str, numbers)))


def folder_of(published: Path, key: str) -> Path:
    """The folder with the files of a golden data set, under their published names."""
    if not key.startswith("synthetic"):
        return published
    for path in (published / "synthetic").glob("*_shape_*"):
        if not (link := Path(_renamed.name) / path.name.replace("_shape", "")).exists():
            link.symlink_to(path)
    return Path(_renamed.name)


def data_of(published: Path, key: str) -> LongICLData:
    """A golden data set, read once; skipped where it may not be shipped and is not there."""
    name, folder = key.removeprefix("synthetic_"), folder_of(published, key)
    if not find(name, folder):
        pytest.skip(f"{key} may not be shipped with the tests and is not in {folder}: {task_card(name).instructions()}")
    if key not in _loaded:
        _loaded[key] = load(name, folder, verify=folder == published)
    return _loaded[key]


@pytest.mark.parametrize("key", SETS)
def test_test_items(published: Path, golden: dict[str, Any], key: str) -> None:
    expected, data = golden["datasets"][key]["test_selection"], data_of(published, key)
    items = data.test_items(expected["test_number"])
    assert joined([item.row for item in items]) == expected["indices_sha256"]
    assert len(items) == expected["used"]
    labels, before_cut = [row.label for row in data.test], len(data.test)
    if "selected_before_cut_indices_sha256" in expected:
        rows = [data.test[place].item().row for place in selected("turns", labels, expected["turns"])]
        assert joined(rows) == expected["selected_before_cut_indices_sha256"]
        before_cut = len(rows)
    elif "pairs" in expected:
        assert sum(len(item.gold) for item in items) == expected["pairs"]
    elif "turns" in expected:
        before_cut = len(selected("at_most", labels, expected["turns"]))
    assert before_cut == expected["selected_before_cut"]


@pytest.mark.parametrize("mode", ["plain", "instruct"])
@pytest.mark.parametrize("key", SETS)
def test_prompts(published: Path, golden: dict[str, Any], key: str, mode: str) -> None:
    data, entry = data_of(published, key), golden["datasets"][key]
    own = LongICLExperimentor(
        data,
        rounds=[1, 3, 5],
        limit=entry["test_selection"]["test_number"],
        instruct=mode == "instruct",
    )
    prompts = own.prompt_set()
    each = len(own.test_items)
    for i, number in enumerate(own.rounds):
        expected = entry["rounds"][str(number)][mode]
        digests = [sha(prompt) for prompt in prompts[i * each : (i + 1) * each]]
        digest = sha("\n".join(digests))
        assert own.prompt_digests[number] == digest
        chosen = data.demonstration_rows(number)
        assert len(chosen) == expected["demonstrations"]
        assert joined([item.row for item in chosen]) == expected["demo_indices_sha256"]
        assert len(own.context(number)) == expected["demo_prompt_chars"]
        assert sha(own.context(number)) == expected["demo_prompt_sha256"]
        assert digests[:3] == expected["final_prompt_sha256_first3"]
        assert digest == expected["final_prompts_digest"]
        if "demo_dialogues" in expected:
            assert len(as_shown(data.card, chosen)) == expected["demo_dialogues"]


LOADERS = {
    **{"banking77": "banking77", "goemotions": "goemotions", "fewnerd": "few_nerd"},
    "synthetic_discovery": "discovery",
}


@pytest.mark.parametrize("split", ["train", "test"])
@pytest.mark.parametrize("key", LOADERS)
def test_rows_as_read(published: Path, golden: dict[str, Any], key: str, split: str) -> None:
    name, expected = LOADERS[key], golden["loaders"][f"{key}_{split}"]
    path, spec = find(name, folder_of(published, key))[split], task_card(name).files[split]
    rows = list(READERS[spec.format](path, task_card(name)))
    found = {
        "rows": len(rows),
        "rows_sha256": sha(json.dumps([row.form for row in rows], separators=(",", ":"))),
        "single_label_rows": sum(row.label is not None for row in rows),
        "entities": sum(len(row.item().gold) for row in rows),
        "utf8_bytes_of_text": sum(len(row.form[0].encode()) for row in rows),
    }
    assert not {part for part in found.keys() & expected.keys() if found[part] != expected[part]}
    if spec.rows_sha256 is not None:
        assert (spec.rows, spec.rows_sha256) == (expected["rows"], expected["rows_sha256"])


@pytest.mark.parametrize("split", ["train", "test"])
def test_tacred_as_text(published: Path, golden: dict[str, Any], split: str) -> None:
    """All rows are detokenised as the reference program does it."""
    path, spec = find("tacred", folder_of(published, "synthetic"))[split], task_card("tacred").files[split]
    rows = []
    for row in READERS[spec.format](path, task_card("tacred")):
        sentence, subject, object_ = row.item().texts
        entities = {"object_entity": object_, "subject_entity": subject}
        rows.append({**entities, "relation": row.item().gold[0], "sentence": sentence})
    digest = sha(json.dumps(rows, sort_keys=True, separators=(",", ":")))
    assert digest == golden["datasets"]["synthetic_tacred"]["data"][f"processed_{split}_sha256"]


@pytest.mark.parametrize("echo", [False, True])
@pytest.mark.parametrize("key", SETS)
def test_perfect_answers(published: Path, golden: dict[str, Any], key: str, echo: bool) -> None:
    data = data_of(published, key)
    assert key.startswith("synthetic") or key in golden["oracle"]
    for parsing in PARSINGS:
        own = LongICLExperimentor(data, rounds=[1], parsing=parsing)
        answers = right_answers(own)
        if echo:  # "and" and "so" are labels of Discovery: the library's parser takes back an answer that others follow
            tail = "and so on" if parsing == "published" else "End of file"
            answers = [f"{prompt}{text}\n{tail}" for prompt, text in zip(own.prompt_set(), answers, strict=True)]
        score = scored(own, answers).values["rounds"]["1R"]["score"]
        expected = golden["oracle"].get(key, {}) if parsing == "published" else {}
        for part in {"accuracy", "gold", "predicted", "correct", "precision", "recall", "f1"} & expected.keys():
            assert score[part] == pytest.approx(expected[part], abs=1e-12)
        assert parsing == "published" or list(score.values())[-1] == pytest.approx(1.0, abs=1e-7)

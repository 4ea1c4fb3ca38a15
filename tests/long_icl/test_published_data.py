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
from StaICC.long_icl.prompts import as_shown
from StaICC.long_icl.readers import READERS
from StaICC.long_icl.selection import selected
from tests.long_icl.conftest import right_answers, score_replies

INVENTED_DATASETS = ["synthetic_discovery", "synthetic_tacred", "synthetic_dialogre"]
ALL_DATASETS = ["banking77", "goemotions", "few_nerd", *INVENTED_DATASETS, "dialogre"]
_loaded: dict[str, LongICLData] = {}
_renamed = tempfile.TemporaryDirectory()


def sha256_of(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()


def sha256_of_numbers(numbers: list[int]) -> str:
    return sha256_of(",".join(map(str, numbers)))


def folder_of(published_folder: Path, key: str) -> Path:
    """Return the folder with the files of a golden data set, under their published names.

    Files such as ``tacred_shape_train.json`` in ``synthetic`` are made up; they are linked as ``tacred_train.json``.
    """
    if not key.startswith("synthetic"):
        return published_folder
    links = Path(_renamed.name)
    for path in (published_folder / "synthetic").glob("*_shape_*"):
        link = links / path.name.replace("_shape", "")
        if not link.exists():
            link.symlink_to(path)
    return links


def data_of(published_folder: Path, key: str) -> LongICLData:
    """Return a golden data set, read once; the test is skipped where it may not be shipped and is not there."""
    name = key.removeprefix("synthetic_")
    folder = folder_of(published_folder, key)
    if not find(name, folder):
        pytest.skip(f"{key} may not be shipped with the tests and is not in {folder}: {task_card(name).instructions()}")
    if key not in _loaded:
        _loaded[key] = load(name, folder, verify=folder == published_folder)
    return _loaded[key]


@pytest.mark.parametrize("key", ALL_DATASETS)
def test_items_are_those_of_the_published_code(published_folder: Path, golden: dict[str, Any], key: str) -> None:
    expected = golden["datasets"][key]["test_selection"]

    items = data_of(published_folder, key).test_items(expected["test_number"])

    assert len(items) == expected["used"]
    assert sha256_of_numbers([item.row for item in items]) == expected["indices_sha256"]
    if "pairs" in expected:
        assert sum(len(item.gold) for item in items) == expected["pairs"]


@pytest.mark.parametrize("key", ALL_DATASETS)
def test_rows_chosen_by_turns_before_the_limit_are_those_of_the_published_code(
    published_folder: Path, golden: dict[str, Any], key: str
) -> None:
    """The golden file has the digest of the rows, or their number only; data sets without turns take all rows."""
    expected, data = golden["datasets"][key]["test_selection"], data_of(published_folder, key)
    labels = [row.label for row in data.test]

    if "selected_before_cut_indices_sha256" in expected:
        chosen = selected("turns", labels, expected["turns"])
        rows = [data.test[place].item().row for place in chosen]
        assert sha256_of_numbers(rows) == expected["selected_before_cut_indices_sha256"]
    elif "turns" in expected and "pairs" not in expected:
        chosen = selected("at_most", labels, expected["turns"])
    else:
        chosen = list(range(len(labels)))
    assert len(chosen) == expected["selected_before_cut"]


@pytest.mark.parametrize("number", [1, 3, 5])
@pytest.mark.parametrize("mode", ["plain", "instruct"])
@pytest.mark.parametrize("key", ALL_DATASETS)
def test_contexts_are_those_of_the_published_code(
    published_folder: Path, golden: dict[str, Any], key: str, mode: str, number: int
) -> None:
    data, expected = data_of(published_folder, key), golden["datasets"][key]["rounds"][str(number)][mode]

    experimentor = LongICLExperimentor(data, rounds=[number], limit=1, instruct=mode == "instruct")

    demonstrations = data.demonstration_rows(number)
    assert len(demonstrations) == expected["demonstrations"]
    assert sha256_of_numbers([item.row for item in demonstrations]) == expected["demo_indices_sha256"]
    assert len(experimentor.context(number)) == expected["demo_prompt_chars"]
    assert sha256_of(experimentor.context(number)) == expected["demo_prompt_sha256"]
    if "demo_dialogues" in expected:
        assert len(as_shown(data.card, demonstrations)) == expected["demo_dialogues"]


@pytest.mark.parametrize("number", [1, 3, 5])
@pytest.mark.parametrize("mode", ["plain", "instruct"])
@pytest.mark.parametrize("key", ALL_DATASETS)
def test_prompts_are_those_of_the_published_code(
    published_folder: Path, golden: dict[str, Any], key: str, mode: str, number: int
) -> None:
    entry = golden["datasets"][key]
    expected, limit = entry["rounds"][str(number)][mode], entry["test_selection"]["test_number"]

    experimentor = LongICLExperimentor(
        data_of(published_folder, key), rounds=[number], limit=limit, instruct=mode == "instruct"
    )

    digests = [sha256_of(prompt) for prompt in experimentor.prompt_set()]
    assert digests[:3] == expected["final_prompt_sha256_first3"]
    assert sha256_of("\n".join(digests)) == expected["final_prompts_digest"]
    assert experimentor.prompt_digests[number] == expected["final_prompts_digest"]


NAME_OF_KEY = {
    "banking77": "banking77",
    "goemotions": "goemotions",
    "fewnerd": "few_nerd",
    "synthetic_discovery": "discovery",
}
"""By the key of the golden file: the name of the data set."""


@pytest.mark.parametrize("split", ["train", "test"])
@pytest.mark.parametrize("key", NAME_OF_KEY)
def test_rows_are_read_as_by_the_published_loaders(
    published_folder: Path, golden: dict[str, Any], key: str, split: str
) -> None:
    name, expected = NAME_OF_KEY[key], golden["loaders"][f"{key}_{split}"]
    path = find(name, folder_of(published_folder, key))[split]
    file = task_card(name).files[split]

    rows = list(READERS[file.format](path, task_card(name)))

    facts = {
        "rows": len(rows),
        "rows_sha256": sha256_of(json.dumps([row.form for row in rows], separators=(",", ":"))),
        "single_label_rows": sum(row.label is not None for row in rows),
        "entities": sum(len(row.item().gold) for row in rows),
        "utf8_bytes_of_text": sum(len(row.form[0].encode()) for row in rows),
    }
    golden_facts = {fact: value for fact, value in expected.items() if fact in facts}
    assert golden_facts
    assert {fact: facts[fact] for fact in golden_facts} == golden_facts
    if file.rows_sha256 is not None:
        assert (file.rows, file.rows_sha256) == (expected["rows"], expected["rows_sha256"])


@pytest.mark.parametrize("split", ["train", "test"])
def test_all_rows_of_tacred_are_detokenised_as_by_the_reference_program(
    published_folder: Path, golden: dict[str, Any], split: str
) -> None:
    path = find("tacred", folder_of(published_folder, "synthetic"))[split]
    file = task_card("tacred").files[split]

    rows = []
    for row in READERS[file.format](path, task_card("tacred")):
        item = row.item()
        sentence, subject, object_ = item.texts
        rows.append(
            {
                "object_entity": object_,
                "subject_entity": subject,
                "relation": item.gold[0],
                "sentence": sentence,
            }
        )

    digest = sha256_of(json.dumps(rows, sort_keys=True, separators=(",", ":")))
    assert digest == golden["datasets"]["synthetic_tacred"]["data"][f"processed_{split}_sha256"]


def one_round(published_folder: Path, key: str, parsing: str) -> LongICLExperimentor:
    return LongICLExperimentor(data_of(published_folder, key), rounds=[1], parsing=parsing)


def right_answers_after_their_prompts(experimentor: LongICLExperimentor, continued: str) -> list[str]:
    """Return right replies of a base model, which repeats the prompt, and continues after its answer."""
    replies = []
    for prompt, answer in zip(experimentor.prompt_set(), right_answers(experimentor), strict=True):
        replies.append(f"{prompt}{answer}\n{continued}")
    return replies


@pytest.mark.parametrize("is_echo", [False, True], ids=["the answer only", "prompt, answer and more text"])
@pytest.mark.parametrize("key", ALL_DATASETS)
def test_right_answers_have_the_score_of_the_published_code(
    published_folder: Path, golden: dict[str, Any], key: str, is_echo: bool
) -> None:
    """The golden file has no scores of the made-up data sets."""
    experimentor = one_round(published_folder, key, "published")
    replies = right_answers(experimentor)
    if is_echo:
        replies = right_answers_after_their_prompts(experimentor, continued="and so on")

    score = score_replies(experimentor, replies).values["rounds"]["1R"]["score"]

    assert key.startswith("synthetic") or key in golden["oracle"]
    expected = golden["oracle"].get(key, {})
    for name in {"accuracy", "gold", "predicted", "correct", "precision", "recall", "f1"} & expected.keys():
        assert score[name] == pytest.approx(expected[name], abs=1e-12), name


@pytest.mark.parametrize("is_echo", [False, True], ids=["the answer only", "prompt, answer and more text"])
@pytest.mark.parametrize("key", ALL_DATASETS)
def test_right_answers_have_the_best_score_with_the_library_s_parser(
    published_folder: Path, key: str, is_echo: bool
) -> None:
    """The text after the answer may not be "and so on": "and" and "so" are labels of Discovery."""
    experimentor = one_round(published_folder, key, "library")
    replies = right_answers(experimentor)
    if is_echo:
        replies = right_answers_after_their_prompts(experimentor, continued="End of file")

    *_, last_score = score_replies(experimentor, replies).values["rounds"]["1R"]["score"].values()

    assert last_score == pytest.approx(1.0, abs=1e-7)

"""What the LongICL tests share: the golden file, the published data where it can be had, and small data of our own."""

from __future__ import annotations

import csv
import json
import os
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from StaICC.long_icl.benchmark import LongICL
from StaICC.long_icl.cards import task_card
from StaICC.long_icl.experimentor import LongICLExperimentor
from StaICC.long_icl.prompts import Item, write_answer
from tests.benchmarks.conftest import sha256_of_json as sha256_of_json

GOLDEN = Path(__file__).parents[1] / "golden" / "long_icl.json"
DATA = "STAICC_LONGICL_DATA"
"""Environment variable: the folder with the published files (and the made-up ones in ``synthetic``)."""
REQUIRE = "STAICC_REQUIRE_LONGICL"
"""Environment variable: with ``1``, tests that need that folder fail where it is not given."""

_absent: list[str] = []


@pytest.fixture(scope="session")
def golden() -> dict[str, Any]:
    """What the published protocol gives."""
    return json.loads(GOLDEN.read_text("utf-8"))


@pytest.fixture(scope="session")
def published_folder() -> Path:
    """The folder with the published files."""
    folder = os.environ.get(DATA, "")
    if folder and Path(folder).is_dir():
        return Path(folder)
    reason = f"{DATA} names no folder ({folder!r})"
    _absent.append(reason)
    if os.environ.get(REQUIRE) == "1":
        pytest.fail(f"{REQUIRE}=1, but {reason}", pytrace=False)
    pytest.skip(reason)


def pytest_terminal_summary(terminalreporter: Any) -> None:
    if _absent:
        terminalreporter.section("TESTS OF THE PUBLISHED LONGICL DATA DID NOT RUN", yellow=True, bold=True)
        terminalreporter.line(f"{_absent[0]}; set it to the folder with banking77_train.csv and the others")


ALL_DATASETS = ("banking77", "goemotions", "discovery", "tacred", "few_nerd", "dialogre")
SINGLE_LABEL_DATASETS = ALL_DATASETS[:4]
"""The data sets with one label per item."""


def long_icl_on(folder: Any, datasets: Any = None, rounds: Any = (1, 2), limit: Any = 12, **more: Any) -> LongICL:
    if "experiment" in more:
        rounds = (1, 2, 3, 4, 5)  # conditions replace them
    options = {"verify": False, "announce": lambda notice: None, **more}
    return LongICL(folder, datasets, rounds, limit, **options)


def text_item(text: str, label: str, row: int = 0) -> Item:
    return Item("text", row, (text,), (label,))


def score_replies(experimentor: LongICLExperimentor, predictions: list[Any]) -> Any:
    return experimentor.assemble(experimentor.conditions(), predictions)


def right_answers(experimentor: LongICLExperimentor) -> list[str]:
    """What the demonstrations would show, for each prompt."""
    return [write_answer(experimentor.card, item) for item in experimentor.test_items] * len(experimentor.rounds)


def _rows(name: str, per_label: int, split: str) -> list[tuple[str, str]]:
    """Invented texts with labels: label by label, then once more."""
    return [
        (f"{split} text {turn} of {label} ", label) for turn in range(per_label) for label in task_card(name).labels
    ]


def _tacred(name: str, per_label: int, split: str) -> list[dict[str, Any]]:
    found = []
    for turn in range(per_label):
        for label in (*task_card(name).labels, "no_relation"):
            token = [split.capitalize(), "Beck", "sold", f"kettle-{turn}-{label}", ",", "did", "n't", "she", "?"]
            spans = {"subj_start": 0, "subj_end": 1, "obj_start": 3, "obj_end": 3}
            found.append({"id": f"{split}{len(found)}", "relation": label, "token": token, **spans})
    return found


def _few_nerd(name: str, sentences: int, split: str) -> list[dict[str, Any]]:
    labels = task_card(name).labels
    found = []
    for place in range(sentences):
        kinds = [labels[(place * 2 + i) % len(labels)] for i in range(2)]
        entities = {f"Ox{place}": kinds[0], f"Vega: Part {place}": kinds[1]}
        found.append({"sentence": f"{split} saw {' and '.join(entities)}.", "entities": entities})
    return found


def _dialogre(name: str, dialogues: int, split: str) -> list[Any]:
    labels = [*task_card(name).labels, "unanswerable"]
    found: list[Any] = []
    for place in range(dialogues):
        kinds = [labels[(place * 3 + i) % len(labels)] for i in range(3)]
        turns = [f"Speaker 1: {split} hello {place}", "Speaker 2: Hi, Zoë."]
        instances = [{"x": "Mara O'Dell", "y": f"thing {i}", "r": [kind, "per:age"]} for i, kind in enumerate(kinds)]
        found.append([turns, instances])
    return found


def write_small(folder: Path) -> Path:
    """All six data sets in their published formats, some hundred invented rows each."""
    for split, size in (("train", 6), ("test", 3)):
        with open(folder / f"banking77_{split}.csv", "w", encoding="utf-8", newline="") as file:
            writer = csv.writer(file)
            writer.writerow(["text", "category"])
            writer.writerows(_rows("banking77", size, split))
        labels = task_card("goemotions").labels
        with open(folder / f"goemotions_{split}.tsv", "w", encoding="utf-8", newline="") as file:
            for i, (text, label) in enumerate(_rows("goemotions", size, split)):
                both = ",1" if i % 7 == 3 and split == "test" else ""
                file.write(f'"{text}""yes"""\t{labels.index(label)}{both}\tc{i}\n')
        with open(folder / f"discovery_{split}.tsv", "w", encoding="utf-8", newline="") as file:
            file.write("sentence1\tsentence2\tlabel\tidx\n")
            for i, (text, label) in enumerate(_rows("discovery", size, split)):
                cell = label if i % 2 else str(task_card("discovery").labels.index(label))
                file.write(f'"{text}\tso it " goes {i}\t{cell}\t{i}\n')
        for name, rows in (
            ("tacred", _tacred("tacred", size, split)),
            ("fewnerd", _few_nerd("few_nerd", size * 33, split)),
            ("dialogre", _dialogre("dialogre", size * 12, split)),
        ):
            text = "[\n" + ",\n".join(json.dumps(row, ensure_ascii=False) for row in rows) + "\n]\n"
            (folder / f"{name}_{split}.json").write_text(text, encoding="utf-8", newline="")
    return folder


@pytest.fixture(scope="session")
def data_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_small(tmp_path_factory.mktemp("small"))


@pytest.fixture
def data_folder_copy(data_folder: Path, tmp_path: Path) -> Path:
    """A folder with small data of all six data sets, which a test may change."""
    return Path(shutil.copytree(data_folder, tmp_path / "small"))


@pytest.fixture
def write_file(tmp_path: Path) -> Callable[[str | bytes], Path]:
    """Writes a file and gives its path."""

    def put(content: str | bytes) -> Path:
        path = tmp_path / "file"
        path.write_bytes(content.encode() if isinstance(content, str) else content)
        return path

    return put

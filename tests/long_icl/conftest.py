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
    """Digests, parses and scores of the code that LongICLBench published, from tests/golden/long_icl.json."""
    return json.loads(GOLDEN.read_text("utf-8"))


@pytest.fixture(scope="session")
def published_folder() -> Path:
    """The folder with the published files; without it, the test is skipped, or fails where it is required."""
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
SINGLE_LABEL_DATASETS = ("banking77", "goemotions", "discovery", "tacred")
"""The data sets with one label for each item; the others have several."""


def long_icl_on(folder: Any, datasets: Any = None, rounds: Any = (1, 2), limit: Any = 12, **options: Any) -> LongICL:
    """Return LongICL on the files of a folder, which need not be the published ones.

    Args:
        folder: The folder.
        datasets: Names of data sets, by default all six.
        rounds: The rounds, by default the first two; an experiment has conditions in place of them.
        limit: The limit of labels to predict in each round, by default twelve.
        options: Other arguments of LongICL.
    """
    if "experiment" in options:
        rounds = (1, 2, 3, 4, 5)  # the default, as conditions replace them
    options = {"verify": False, "announce": lambda notice: None, **options}
    return LongICL(folder, datasets, rounds, limit, **options)


def text_item(text: str, label: str, row: int = 0) -> Item:
    return Item("text", row, (text,), (label,))


def score_replies(experimentor: LongICLExperimentor, predictions: list[Any]) -> Any:
    """Return the scores and details of predictions, one for each query in the order of all conditions."""
    return experimentor.assemble(experimentor.conditions(), predictions)


def right_answers(experimentor: LongICLExperimentor) -> list[str]:
    """Return the right reply to each query of all rounds: what a demonstration would show after it."""
    replies_of_round = [write_answer(experimentor.card, item) for item in experimentor.test_items]
    return replies_of_round * len(experimentor.rounds)


# -- small files of the six data sets, with invented rows


def invented_texts(dataset: str, split: str, texts_per_label: int) -> list[tuple[str, str]]:
    """Return rows such as ("train text 0 of joy ", "joy"): one of each label, then the next one of each label."""
    rows = []
    for number in range(texts_per_label):
        for label in task_card(dataset).labels:
            rows.append((f"{split} text {number} of {label} ", label))
    return rows


def tacred_records(split: str, sentences_per_label: int) -> list[dict[str, Any]]:
    """Return records of TACRED, whose sentences are "Train Beck sold kettle-0-per:age , did n't she ?".

    The subject is the first two tokens, the object the fourth one. Records of "no_relation" are left out on reading.
    """
    records: list[dict[str, Any]] = []
    for number in range(sentences_per_label):
        for label in (*task_card("tacred").labels, "no_relation"):
            object_token = f"kettle-{number}-{label}"
            records.append(
                {
                    "id": f"{split}{len(records)}",
                    "relation": label,
                    "token": [split.capitalize(), "Beck", "sold", object_token, ",", "did", "n't", "she", "?"],
                    "subj_start": 0,
                    "subj_end": 1,
                    "obj_start": 3,
                    "obj_end": 3,
                }
            )
    return records


def few_nerd_records(split: str, sentences: int) -> list[dict[str, Any]]:
    """Return records of Few-NERD with two entities each, whose types go through all labels in order."""
    labels = task_card("few_nerd").labels
    records = []
    for number in range(sentences):
        first_type, second_type = labels[number * 2 % len(labels)], labels[(number * 2 + 1) % len(labels)]
        entities = {f"Ox{number}": first_type, f"Vega: Part {number}": second_type}
        records.append({"sentence": f"{split} saw {' and '.join(entities)}.", "entities": entities})
    return records


def dialogre_records(split: str, dialogues: int) -> list[Any]:
    """Return records of DialogRE with three pairs of entities each, whose relations go through all labels in order.

    Each pair has a second relation, which does not count.
    """
    labels = [*task_card("dialogre").labels, "unanswerable"]
    records: list[Any] = []
    for number in range(dialogues):
        turns = [f"Speaker 1: {split} hello {number}", "Speaker 2: Hi, Zoë."]
        pairs = []
        for pair_number in range(3):
            relation = labels[(number * 3 + pair_number) % len(labels)]
            pairs.append({"x": "Mara O'Dell", "y": f"thing {pair_number}", "r": [relation, "per:age"]})
        records.append([turns, pairs])
    return records


def write_banking77(path: Path, rows: list[tuple[str, str]]) -> None:
    with open(path, "w", encoding="utf-8", newline="") as file:
        csv.writer(file).writerows([("text", "category"), *rows])


def write_goemotions(path: Path, rows: list[tuple[str, str]], split: str) -> None:
    """Write lines of text, numbers of labels and id; in the test file, every seventh row has a second label."""
    labels = task_card("goemotions").labels
    with open(path, "w", encoding="utf-8", newline="") as file:
        for number, (text, label) in enumerate(rows):
            label_ids = str(labels.index(label))
            if split == "test" and number % 7 == 3:
                label_ids += ",1"
            file.write(f'"{text}""yes"""\t{label_ids}\tc{number}\n')


def write_discovery(path: Path, rows: list[tuple[str, str]]) -> None:
    """Write lines of two sentences, label and id; every second label is given by its number."""
    labels = task_card("discovery").labels
    with open(path, "w", encoding="utf-8", newline="") as file:
        file.write("sentence1\tsentence2\tlabel\tidx\n")
        for number, (text, label) in enumerate(rows):
            label_cell = label if number % 2 == 1 else str(labels.index(label))
            file.write(f'"{text}\tso it " goes {number}\t{label_cell}\t{number}\n')


def write_records(path: Path, records: list[Any]) -> None:
    """Write records as a JSON list, one to a line."""
    lines = ",\n".join(json.dumps(record, ensure_ascii=False) for record in records)
    path.write_text(f"[\n{lines}\n]\n", encoding="utf-8", newline="")


def write_small(folder: Path) -> Path:
    """Write all six data sets in their published formats, with some hundred invented rows each; return the folder."""
    for split, per_label in (("train", 6), ("test", 3)):
        write_banking77(folder / f"banking77_{split}.csv", invented_texts("banking77", split, per_label))
        write_goemotions(folder / f"goemotions_{split}.tsv", invented_texts("goemotions", split, per_label), split)
        write_discovery(folder / f"discovery_{split}.tsv", invented_texts("discovery", split, per_label))
        write_records(folder / f"tacred_{split}.json", tacred_records(split, per_label))
        write_records(folder / f"fewnerd_{split}.json", few_nerd_records(split, sentences=per_label * 33))
        write_records(folder / f"dialogre_{split}.json", dialogre_records(split, dialogues=per_label * 12))
    return folder


@pytest.fixture(scope="session")
def data_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with small files of all six data sets, which no test changes (see ``write_small``)."""
    return write_small(tmp_path_factory.mktemp("small"))


@pytest.fixture
def data_folder_copy(data_folder: Path, tmp_path: Path) -> Path:
    """A folder with small files of all six data sets, which a test may change."""
    return Path(shutil.copytree(data_folder, tmp_path / "small"))


@pytest.fixture
def write_file(tmp_path: Path) -> Callable[[str | bytes], Path]:
    """A function that writes a content to a file, and returns the path of the file."""

    def write(content: str | bytes) -> Path:
        path = tmp_path / "file"
        path.write_bytes(content.encode() if isinstance(content, str) else content)
        return path

    return write

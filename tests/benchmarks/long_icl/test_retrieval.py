"""The experiment ``retrieval``: a few similar demonstrations for each test item against all of them for all."""

from __future__ import annotations

import math
import re
from pathlib import Path

import pytest

from StaICC import LongICL
from StaICC.benchmarks.long_icl import Experiment
from StaICC.benchmarks.verify import Recomputed, verify_file
from StaICC.errors import ArgumentError

WORDS = "red blue green fast slow late lost paid card bank door"


def words(text: str) -> list[str]:
    return re.findall(r"\w+", text.lower())


def okapi(query: str, texts: list[str]) -> list[float]:
    """BM25 with k1 = 1.5 and b = 0.75, text by text."""
    bags = [words(text) for text in texts]
    mean = sum(map(len, bags)) / len(bags)
    scores = []
    for bag in bags:
        score = 0.0
        for word in words(query):
            having = sum(word in other for other in bags)
            weight = math.log(1 + (len(bags) - having + 0.5) / (having + 0.5))
            count = bag.count(word)
            score += weight * count * 2.5 / (count + 1.5 * (0.25 + 0.75 * len(bag) / mean))
        scores.append(score)
    return scores


@pytest.fixture
def folder(small: Path) -> Path:
    """BANKING77 of the published format with texts of a few words each."""
    known = WORDS.split()
    for split, step in (("train", 3), ("test", 7)):
        path = small / f"banking77_{split}.csv"
        head, *lines = path.read_text("utf-8").splitlines()
        for place, line in enumerate(lines):
            text = " ".join(known[(place * step + turn * turn) % len(known)] for turn in range(1 + place % 5))
            lines[place] = f"{text} {place},{line.rpartition(',')[2]}"
        path.write_text("\n".join([head, *lines]) + "\n", "utf-8", newline="")
    return small


def made(folder: Path, experiment: Experiment | str, **options: object) -> LongICL:
    quiet = {"announce": lambda notice: None, "verify": False, "test_number": 12}
    return LongICL(folder, ["banking77"], experiment=experiment, **{**quiet, **options})  # type: ignore[arg-type]


def demonstrations(context: str) -> list[tuple[str, str]]:
    return re.findall(r"service query: (.*)\nintent category: (.+)\n", context)


@pytest.mark.parametrize("shots", [1, 2])
def test_the_most_similar_demonstrations_come_last(folder: Path, shots: int) -> None:
    one = made(folder, Experiment("retrieval", (1, 5), shots))[0]
    pool = demonstrations(one.context("full context"))
    assert one.context("full context") == made(folder, Experiment("shots", (shots,)))[0].context(f"{shots} shots")
    assert len(pool) == 77 * shots
    for place, item in enumerate(one.test_items):
        scores = okapi(item.texts[0], [text for text, _ in pool])
        best = sorted(range(len(pool)), key=lambda number: (-round(scores[number], 9), number))
        for number in (1, 5):
            shown = demonstrations(one.context(f"{number} retrieved", place))
            assert shown == [pool[position] for position in reversed(best[:number])]
    assert len({one.context("5 retrieved", place) for place in range(12)}) > 6


def test_prompts_of_items_do_not_depend_on_other_items(folder: Path) -> None:
    few, many = (made(folder, "retrieval", test_number=number)[0] for number in (3, 12))
    for name in few.rounds:
        assert [few.context(name, place) for place in range(3)] == [many.context(name, place) for place in range(3)]


def test_scores_and_costs(folder: Path, tmp_path: Path) -> None:
    def nearest(prompt: str, label_space: list[str]) -> str:
        return demonstrations(prompt)[-1][1]  # as a model that copies the last answer

    benchmark = made(folder, Experiment("retrieval", (1, 5, 77), 1))
    assert benchmark[0].unavailable == {"77 retrieved": "the full context has 77 demonstrations"}
    result = benchmark(nearest, progress=False)
    rows = result["Divided results"]["banking77"]["experiment"]["conditions"]
    one = benchmark[0]
    for name in one.rounds:
        contexts = {one.context(name, place) for place in range(12)}
        sizes = [math.ceil(len(context.encode()) / 4) for context in contexts]
        assert (rows[name]["reference_tokens"], rows[name]["all_contexts"]) == (max(sizes), sum(sizes))
    gold = [item.gold[0] for item in one.test_items]
    for number in (1, 5):
        last = [demonstrations(one.context(f"{number} retrieved", place))[-1][1] for place in range(12)]
        expected = sum(a == b for a, b in zip(gold, last, strict=True)) / 12
        assert rows[f"{number} retrieved"]["score"] == pytest.approx(expected)
    assert "all contexts" in str(result)
    assert "all contexts" not in str(made(folder, Experiment("shots", (0, 1)))(nearest_or_none))
    result.save(tmp_path / "result.json")
    assert result.signature.fields["options"] is not None
    assert "experiment=retrieval,levels=1+5+77,shots=1" in result.signature.fields["options"]
    found = verify_file(tmp_path / "result.json", data_dir=folder)
    assert found[1].same is True
    assert all(one.status == Recomputed() for one in found)


def nearest_or_none(prompt: str, label_space: list[str]) -> str:
    return ([("", ""), *demonstrations(prompt)])[-1][1]


def test_levels_are_checked(folder: Path) -> None:
    with pytest.raises(ArgumentError, match="a level of the experiment retrieval"):
        Experiment("retrieval", (0,))
    with pytest.raises(ArgumentError, match="items have several labels"):
        LongICL(folder, ["dialogre"], experiment="retrieval", verify=False, announce=lambda notice: None)

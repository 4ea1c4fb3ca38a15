"""Commands that take several results: their work grows as it should with the number of results.

Calls of Python functions are counted instead of seconds, so that the figures do not depend on the machine.
"""

from __future__ import annotations

import random
import shutil
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

import StaICC
from StaICC.cli import main
from StaICC.results import comparison


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("many")
    benchmark = StaICC.Normal(datasets=["mini"], limit=4)
    labels = [query.label for query in benchmark.experimentor[0].all_queries()]
    for number in range(8):
        draw = random.Random(number)
        predictions = [label if draw.random() < 0.7 else draw.randrange(3) for label in labels]
        benchmark(preentered_prediction=[predictions]).save(path / f"{number:03}.json")
    return path


def calls_of(function: Callable[[], object]) -> int:
    """The number of Python functions that are called."""
    count = 0

    def count_calls(frame: object, event: str, argument: object) -> None:
        nonlocal count
        count += event == "call"

    before = sys.getprofile()
    sys.setprofile(count_calls)
    try:
        function()
    finally:
        sys.setprofile(before)
    return count


@pytest.mark.parametrize(
    ("runs", "few", "most", "line"),
    [
        (50, 4, 4.4, "compare FILES"),  # all pairs
        (3, 4, 2.3, "compare FILES"),  # more than MOST_RUNS: each with the best one
        (3, 2, 2.3, "report FILES -o page.html"),
        (50, 4, 2.2, "verify FILES"),
        (50, 4, 2.2, "export queries FILES"),
        (3, 4, 2.2, "export latex FILES"),
        (3, 2, 2.2, "leaderboard FOLDER -o site"),
    ],
)
def test_the_work_of_a_command_grows_with_the_results(
    runs: int, few: int, most: float, line: str, folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(comparison, "MOST_RUNS", runs)
    counts = []
    for number in (2, few, 2 * few):  # the first loads what is loaded once
        files = [str(path) for path in sorted(folder.iterdir())[:number]]
        if "FOLDER" in line:
            (tmp_path / f"{number}").mkdir(exist_ok=True)
            for file in files:
                shutil.copy(file, tmp_path / f"{number}")
        words = [word for part in line.split() for word in (files if part == "FILES" else [part])]
        words = [f"{number}" if word == "FOLDER" else word for word in words]
        counts.append(calls_of(lambda words=words: main(words)))  # type: ignore[misc]
    assert counts[2] / counts[1] < most

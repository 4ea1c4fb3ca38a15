"""Commands that take several results: their work grows as it should with the number of results.

Calls of Python functions are counted instead of seconds, so that the figures do not depend on the machine.
"""

from __future__ import annotations

import random
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
    benchmark = StaICC.Normal(datasets=["mini"], limit=8)
    labels = [query.label for query in benchmark.experimentor[0].all_queries()]
    for number in range(40):
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
    ("few", "most", "command"),
    [
        (5, 4.4, ["compare"]),  # all pairs
        (10, 2.3, ["compare"]),  # more than MOST_RUNS: each with the best one
        (10, 2.3, ["report", "-o", "page.html"]),
        (8, 2.2, ["verify"]),
        (8, 2.2, ["export", "scores"]),
        (8, 2.2, ["export", "queries"]),
        (10, 2.2, ["export", "latex"]),
    ],
    ids=str,
)
def test_the_work_of_a_command_grows_with_the_results(
    few: int,
    most: float,
    command: list[str],
    folder: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(comparison, "MOST_RUNS", 9 if few == 10 else 50)
    files = [str(path) for path in sorted(folder.iterdir())]
    name, *options = command
    inputs = [*options, *files[:2]] if name == "export" else [*files[:2], *options]
    assert main([name, *inputs]) == 0  # what is loaded once
    counts = []
    for number in (few, 2 * few, 4 * few):
        shown = [*options, *files[:number]] if name == "export" else [*files[:number], *options]
        counts.append(calls_of(lambda shown=shown: main([name, *shown])))  # type: ignore[misc]
    assert counts[2] / counts[1] < most
    capsys.readouterr()


def test_a_leaderboard_grows_with_its_files(
    folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(comparison, "MOST_RUNS", 3)
    counts = []
    for number in (2, 4, 8, 16):
        (tmp_path / f"{number}").mkdir()
        for path in sorted(folder.iterdir())[:number]:
            (tmp_path / f"{number}" / path.name).write_bytes(path.read_bytes())
        counts.append(calls_of(lambda number=number: main(["leaderboard", f"{number}", "-o", f"site {number}"])))  # type: ignore[misc]
    assert counts[3] / counts[2] < 2.2
    capsys.readouterr()

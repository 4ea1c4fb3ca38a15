"""The figures of the pages are computed again: the embedded model on the ten data sets, by both metric sets."""

from __future__ import annotations

import math
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from StaICC import Normal, Suite, load_kernel
from StaICC.benchmarks.task import Statistics
from tests.test_docs_blocks import BLOCKS

pytestmark = [pytest.mark.pack, pytest.mark.slow]

PAGE = (Path(__file__).parents[1] / "docs" / "published_figures.md").read_text(encoding="utf-8")
LIKELIHOOD, ERROR = "averaged_truelabel_likelihood", "expected_calibration_error_1"


def table(head: str) -> Iterator[list[str]]:
    """The rows of the table that begins with a head, as cells without backticks."""
    lines = PAGE[PAGE.index(head) :].split("\n\n")[0].splitlines()
    for line in lines[2:]:
        yield [cell.strip().strip("`") for cell in line.strip("|").split("|")]


class Answers:
    """The embedded model's answers, in three forms; each distinct prompt is asked once."""

    def __init__(self) -> None:
        self.kernel, self.known = load_kernel("ppm"), dict[tuple[str, tuple[str, ...]], list[float]]()

    def probabilities(self, prompt: str, label_space: list[str]) -> list[float]:
        key = (prompt, tuple(label_space))
        if key not in self.known:
            self.known[key] = self.kernel(prompt=prompt, label_space=label_space)
        return self.known[key]

    def logits(self, prompt: str, label_space: list[str]) -> list[float]:
        return [math.log(max(value, 1e-300)) for value in self.probabilities(prompt, label_space)]

    def labels(self, prompt: str, label_space: list[str]) -> int:
        row = self.probabilities(prompt, label_space)
        return row.index(max(row))


@pytest.fixture(scope="module")
def results(pack: None) -> dict[str, Any]:
    """Results of the suite, by the head of their column."""
    answers = Answers()
    runs = {
        "default": ("standard", answers.probabilities),
        "0.1.1, probabilities": ("0.1.1", answers.probabilities),
        "0.1.1, logits": ("0.1.1", answers.logits),
        "0.1.1, labels": ("0.1.1", answers.labels),
        "default, logits": ("standard", answers.logits),
    }
    return {
        name: Suite(metrics=metrics, statistics=Statistics(intervals=False))(function)
        for name, (metrics, function) in runs.items()
    }


def shown(value: float | None) -> str:
    return "None" if value is None else f"{value:.4f}"


def test_the_sets_side_by_side(results: dict[str, Any]) -> None:
    head = re.search(r"\| part \| key \| (.*) \|\n", PAGE)
    assert head is not None
    columns = head[1].split(" | ")
    rows = list(table("| part | key |"))
    assert len(rows) == 8
    for part, key, *cells in rows:
        assert cells == [shown(results[column][part]["Averaged results"][key]) for column in columns], (part, key)
        assert cells[0] == shown(results["default, logits"][part]["Averaged results"][key])


def test_the_first_table_of_the_readme(pack: None, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    (block,) = (block for block in BLOCKS if block.rule == "output of the ten data sets")
    table, _, rest = block.code.rpartition("...")
    assert table
    assert not rest.strip()
    assert str(Normal()(load_kernel("ppm"))).startswith(table.rstrip("\n"))

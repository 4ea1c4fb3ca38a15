"""The worked comparison in docs/comparing.md was computed by two models that a test does not load.

What can be checked without them is checked here: its figures agree with each other, and the text quotes them.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import NamedTuple

import pytest

from StaICC.metrics.paired_tests import holm
from tests.test_docs_blocks import BLOCKS, FENCE

PAGE = (Path(__file__).parents[1] / "docs" / "comparing.md").read_text("utf-8")
SECTION = PAGE.split("## One comparison, line by line")[1].split("\n## ")[0]
ROUNDING = 0.00011  # of differences of two numbers with four decimals


class Line(NamedTuple):
    """A line of the table that ``compare`` printed."""

    name: str
    first: float
    second: float
    difference: float
    low: float
    high: float
    p: float
    corrected: float


def example() -> str:
    """Return the output of ``compare`` on the page."""
    (block,) = (block for block in BLOCKS if block.page.name == "comparing.md" and block.rule.startswith("example"))
    return block.code


def lines() -> list[Line]:
    """Return the lines of the table: those of the data sets, the mean last."""
    number = r" +([+-]?\d[\d.e-]*)"
    pattern = rf"^(\S.*?) +\d+{number}{number}{number} +(\S+) \.\. (\S+){number}{number}"
    found = re.findall(pattern, example(), re.MULTILINE)
    return [Line(name, *map(float, numbers)) for name, *numbers in found]


def test_the_table_has_the_ten_data_sets_with_their_mean() -> None:
    assert len(lines()) == 11
    assert lines()[-1].name == "mean of 10 data sets"


@pytest.mark.parametrize("line", lines(), ids=lambda line: line.name)
def test_a_line_agrees_with_itself(line: Line) -> None:
    assert line.difference == pytest.approx(line.first - line.second, abs=ROUNDING)
    assert line.low < line.difference < line.high
    excludes_zero = line.low > 0 or line.high < 0
    assert excludes_zero == (line.p <= 0.05)
    assert line.corrected >= line.p


def test_the_mean_is_that_of_the_lines() -> None:
    *datasets, mean = lines()
    assert sum(line.first for line in datasets) / 10 == pytest.approx(mean.first, abs=ROUNDING)
    assert sum(line.second for line in datasets) / 10 == pytest.approx(mean.second, abs=ROUNDING)


def test_corrected_p_values_are_those_of_holm() -> None:
    *datasets, mean = lines()
    assert [line.corrected for line in datasets] == pytest.approx(holm([line.p for line in datasets]), rel=0.01)
    assert mean.corrected == mean.p  # a single test


def test_the_text_quotes_figures_of_the_output() -> None:
    prose = FENCE.sub("", SECTION)
    quoted = set(re.findall(r"(?<![\d.])0\.\d{3,}", prose))
    assert len(quoted) >= 8
    printed = [abs(float(number)) for number in re.findall(r"[+-]?\d\.\d+(?:e-\d+)?", example())]
    invented = []
    for number in sorted(quoted):
        digits = len(number) - len("0.")
        if float(number) not in [round(figure, digits) for figure in printed]:
            invented.append(number)
    assert invented == []

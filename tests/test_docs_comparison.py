"""The worked comparison in docs/comparing.md was computed by two models that a test does not load.

What can be checked without them is checked here: its figures agree with each other, and the text quotes them.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from StaICC import load_kernel
from StaICC.comparing.setting_differences import field_in_words
from StaICC.kernels.registry import options_by_kind
from StaICC.metrics.paired_tests import holm
from StaICC.results.signature import FIELDS
from tests.test_docs_blocks import BLOCKS, FENCE

PAGE = (Path(__file__).parents[1] / "docs" / "comparing.md").read_text("utf-8")
CONCEPTS = (Path(__file__).parents[1] / "docs" / "concepts.md").read_text("utf-8")
NAMES = PAGE.split("### The names of settings and facts")[1].split("\n### ")[0]
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


def output_of_compare() -> str:
    """Return the output of ``compare`` that the page shows."""
    (block,) = (block for block in BLOCKS if block.page.name == "comparing.md" and block.rule.startswith("example"))
    return block.code


def lines_of_table() -> list[Line]:
    """Return the lines of the table that ``compare`` printed: those of the data sets, the mean last."""
    number = r" +([+-]?\d[\d.e-]*)"
    pattern = rf"^(\S.*?) +\d+{number}{number}{number} +(\S+) \.\. (\S+){number}{number}"
    cells_of_lines = re.findall(pattern, output_of_compare(), re.MULTILINE)
    return [Line(name, *map(float, numbers)) for name, *numbers in cells_of_lines]


def test_the_table_has_the_ten_data_sets_with_their_mean() -> None:
    lines = lines_of_table()
    assert len(lines) == 10 + 1
    assert lines[-1].name == "mean of 10 data sets"


@pytest.mark.parametrize("line", lines_of_table(), ids=lambda line: line.name)
def test_the_difference_of_a_line_is_that_of_its_scores(line: Line) -> None:
    assert line.difference == pytest.approx(line.first - line.second, abs=ROUNDING)


@pytest.mark.parametrize("line", lines_of_table(), ids=lambda line: line.name)
def test_the_interval_of_a_line_has_its_difference_and_excludes_zero_if_p_is_at_most_5_percent(line: Line) -> None:
    assert line.low < line.difference < line.high
    excludes_zero = line.low > 0 or line.high < 0
    assert excludes_zero == (line.p <= 0.05)


def test_the_scores_of_the_mean_are_the_means_of_the_ten_data_sets() -> None:
    *datasets, mean = lines_of_table()
    assert sum(line.first for line in datasets) / 10 == pytest.approx(mean.first, abs=ROUNDING)
    assert sum(line.second for line in datasets) / 10 == pytest.approx(mean.second, abs=ROUNDING)


def test_corrected_p_values_are_those_of_holm() -> None:
    *datasets, mean = lines_of_table()
    p_values = [line.p for line in datasets]
    corrected_p_values = [line.corrected for line in datasets]
    assert corrected_p_values == pytest.approx(holm(p_values), rel=0.01)  # rounded for the table
    assert mean.corrected == mean.p, "a single test needs no correction"


@pytest.mark.parametrize("line", lines_of_table(), ids=lambda line: line.name)
def test_a_corrected_p_value_is_not_lower_than_the_p_value(line: Line) -> None:
    assert line.corrected >= line.p


def test_numbers_in_the_text_are_numbers_of_the_output() -> None:
    """A number of the text may have fewer digits than in the output, and no sign."""
    text = FENCE.sub("", SECTION)
    numbers_in_text = set(re.findall(r"(?<![\d.])0\.\d{3,}", text))
    assert len(numbers_in_text) >= 8, "the search finds no numbers"
    printed = [abs(float(number)) for number in re.findall(r"[+-]?\d\.\d+(?:e-\d+)?", output_of_compare())]

    for number in numbers_in_text:
        digits = len(number.removeprefix("0."))
        assert float(number) in [round(printed_number, digits) for printed_number in printed]


def facts_and_settings_of(kernel: Any) -> set[str]:
    """Return the names of the facts about a kernel that comparisons print, as users read them, and of its settings."""
    identity = kernel.identity()
    return {field_in_words(name) for name in identity.who} | set(identity.settings)


@pytest.mark.parametrize("name", [*FIELDS, "model_name", "source", "function"])
def test_a_setting_or_fact_that_comparisons_print_is_explained(name: str) -> None:
    """Settings are explained with the parts of the signature, unless they have another name in comparisons."""
    shown_name = field_in_words(name)
    pages = CONCEPTS + PAGE if shown_name == name else PAGE
    assert f"| `{shown_name}`" in pages or f"| {shown_name} |" in pages or f"`{shown_name}` is the part" in pages


def test_the_settings_and_facts_of_kernels_are_explained() -> None:
    pytest.importorskip("transformers")
    listed_by_command = {option.name for kind in ("ppm", "hf") for option in options_by_kind()[kind]}
    for name in ("ppm", "smollm2"):
        for word in facts_and_settings_of(load_kernel(name)):
            is_explained = f"`{word}`" in NAMES or f"| {word} |" in NAMES or word in listed_by_command
            assert is_explained, f"{name}: {word} is not explained in docs/comparing.md"

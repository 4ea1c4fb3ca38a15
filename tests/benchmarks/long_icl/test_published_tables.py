"""The published tables, and results beside them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from StaICC import Normal
from StaICC.benchmarks.long_icl import LongICL, card, compare_with_published, published_tables
from StaICC.errors import ArgumentError

TABLES = published_tables()


def run(folder: Path, datasets: list[str], function: Any, **options: Any) -> Any:
    made = {"rounds": (1, 3), "test_number": 10, **options}
    return LongICL(folder, datasets, **made, verify=False, announce=lambda notice: None)(function)


def test_tables() -> None:
    assert {name: table.source for name, table in TABLES.items()} == {
        "banking77": "Table 3",
        "tacred": "Table 4",
        "dialogre": "Table 5",
        "discovery": "Table 6",
    }
    for name, table in TABLES.items():
        assert (table.metric == "accuracy") == (card(name).scoring.metric == "accuracy")
        assert len(table.rows) == 16
        assert len({row.model for row in table.rows}) == 16
        figures = [value for row in table.rows for value in row.figures if value is not None]
        assert all(0 <= value <= 84.4 for value in figures)
        assert all(len(row.figures) == 5 for row in table.rows)
        assert [row.model for row in table.rows if row.single is not None] == [table.rows[-1].model]
    missing = {
        (name, row.model, place + 1)
        for name, table in TABLES.items()
        for row in table.rows[:-1]
        for place, value in enumerate(row.figures)
        if value is None
    }
    assert missing == {
        ("discovery", "LLaMA-2-7B-32K", 5),
        ("discovery", "ChatGLM3-6B-32K", 4),
        ("discovery", "ChatGLM3-6B-32K", 5),
    }
    assert sum(len(table.rows) * 5 for table in TABLES.values()) - 23 == 297  # figures in all


def test_zeros_of_contexts_that_are_too_long() -> None:
    table = TABLES["banking77"]
    rows = {row.model: row for row in table.rows}
    assert [table.too_long(rows["Gemma-7B-base"], number) for number in range(1, 6)] == [
        False,
        False,
        False,
        True,
        True,
    ]
    assert not any(table.too_long(rows["Gemini-1.5-Pro"], number) for number in range(1, 6))  # 10M
    assert not table.too_long(rows["RWKV-5-World"], 2)  # 4K of 4K
    assert table.too_long(rows["RWKV-5-World"], 3)
    assert not table.too_long(table.rows[-1], 5)  # no limit is given


def test_a_result_beside_the_tables(small: Path) -> None:
    found = compare_with_published(
        run(small, ["banking77", "few_nerd"], lambda prompt, label_space: "card_arrival"), "mine"
    )
    (table,) = found.tables
    assert found.without == ("few_nerd",)
    assert table.figures[0] is not None
    assert (table.figures[1], table.figures[3], table.figures[4]) == (None, None, None)
    assert table.uniform == pytest.approx(100 / 77)
    assert table.caveats == (
        "NOT ALIKE: the run asked 10 test items, not 500.",
        "NOT ALIKE: the run used files that are not known to be the published ones.",
    )
    text = str(found)
    lines = {line.split("  ")[0]: line.split() for line in text.splitlines()}
    assert lines["Gemma-7B-base"][1:] == ["0", "0", "0", "0*", "0*", "7B", "8K"]
    assert lines["Mistral-7B-v0.2-base"][1:6] == ["29.8", "43.6", "66.4", "67.8", "64.0"]
    assert lines["mine"] == ["mine", f"{table.figures[0]:.1f}", "-", f"{table.figures[2]:.1f}", "-", "-"]
    assert "SoTA (RoBERTA + ICDA): 94.4" in text
    assert "No published figures are included for Few-NERD." in text
    assert TABLES["banking77"].warnings[0] in text
    assert "arXiv 2404.02060" in text


@pytest.mark.parametrize(
    ("options", "answer", "said"),
    [
        ({"variant": "strict"}, "x", "was scored by the variant 'strict'"),
        ({"instruct": True}, "x", "showed the label list in its prompts"),
        ({"arrangement": "grouped"}, "x", "showed its demonstrations grouped"),
        ({"test_number": None}, "x", "asked all test items, not 500"),
        ({}, 3, "was answered by labels, a choice among the labels; the paper's were text"),
    ],
)
def test_caveats(small: Path, options: dict[str, Any], answer: Any, said: str) -> None:
    result = run(small, ["tacred"], lambda prompt, label_space: answer, **options)
    assert f"NOT ALIKE: the run {said}." in compare_with_published(result).tables[0].caveats


def test_a_published_run_has_no_caveats(published: Path) -> None:
    benchmark = LongICL(published, ["banking77"], [1], announce=lambda notice: None)
    (table,) = compare_with_published(benchmark(lambda prompt, label_space: "card_arrival")).tables
    assert table.caveats == ()
    assert table.figures[0] == pytest.approx(1.4)  # 7 of 500


def test_made_up_rows(published: Path) -> None:
    result = LongICL(published / "synthetic", ["tacred"], [1], announce=lambda notice: None)(
        lambda prompt, label_space: 0
    )
    assert "NOT ALIKE: the run used made-up rows." in compare_with_published(result).tables[0].caveats


def test_skipped_data_sets_have_no_table(small: Path) -> None:
    (small / "tacred_test.json").unlink()
    found = compare_with_published(run(small, ["banking77", "tacred"], lambda prompt, label_space: 0))
    assert [table.published.dataset for table in found.tables] == ["banking77"]


def test_only_results_of_this_benchmark() -> None:
    result = Normal(datasets=["mini"], limit=2)(lambda prompt, label_space: 0)
    with pytest.raises(ArgumentError, match=r"only results of LongICL .*: got one of Normal"):
        compare_with_published(result)

"""Plain tables of scores: one sample in each row."""

from __future__ import annotations

import gzip
import json
from pathlib import Path
from typing import Any

import pytest

from StaICC.comparing.comparison import compare
from StaICC.errors import ArgumentError, SchemaError, StaICCError
from StaICC.logs.reading import read_logs
from StaICC.results.result import Result


def write(path: Path, text: str) -> Path:
    path.write_text(text, "utf-8")
    return path


def only(results: dict[str, Result]) -> Result:
    (result,) = results.values()
    return result


def test_each_column_of_numbers_is_a_metric(tmp_path: Path) -> None:
    """The column "note" has words, and row 9 has no score."""
    table = write(tmp_path / "first.csv", "row,acc,note,rouge1\n7,1,good,.5\n8,0,bad,0.25\n9,,late,\n")

    results = read_logs(table)

    assert list(results) == ["first"]
    assert results["first"].averaged == {"acc": 0.5, "rouge1": 0.375}
    assert results["first"].details["scores"].failed == 1
    assert "note" in results["first"].details["scores"].missing


def share_of_observed_outcome(rows: int) -> float:
    """Return how much of the probability of the observed outcome a p-value of an exact test counts."""
    return 1 - 0.0214 * rows**0.5


def test_json_lines_and_csv_with_the_same_rows_are_compared(tmp_path: Path) -> None:
    """The first model is right on 15 of 30 rows, the second one on all: 15 rows differ, all in one direction."""
    lines = [json.dumps({"row": row, "acc": row % 2}) for row in range(30)]
    json_lines = write(tmp_path / "first.jsonl", "\n".join(lines))
    csv = write(tmp_path / "second.csv", "row,acc\n" + "".join(f"{row},1\n" for row in range(30)))
    results = read_logs(json_lines, csv)

    (comparison,) = compare(results["first"], results["second"]).datasets

    assert comparison.rows == 30
    assert comparison.p_value == pytest.approx(2 * 0.5**15 * share_of_observed_outcome(30))


def table_of_repeats(scores: list[int]) -> str:
    """Return a table with the score of each row in each of three repeats."""
    table = "row,repeat,acc\n"
    for row, score in enumerate(scores):
        table += f"{row},0,{score}\n{row},1,{score}\n{row},2,{score}\n"
    return table


def test_repeats_of_a_row_are_one_test_row(tmp_path: Path) -> None:
    """Three repeats of ten rows: ten independent units, however many samples there are."""
    first = write(tmp_path / "first.csv", table_of_repeats([1, 1, 1, 1, 1, 1, 1, 1, 0, 0]))
    second = write(tmp_path / "second.csv", table_of_repeats([0, 0, 0, 0, 0, 0, 0, 0, 1, 1]))
    results = read_logs(first, second)

    (comparison,) = compare(results["first"], results["second"]).datasets

    assert comparison.rows == 10
    assert comparison.queries == (30, 30)
    # The sign test of 8 rows against 2, on both sides: 1 + 10 of 1024 outcomes are more extreme, 45 as extreme, and
    # these count in part. 24 against 6 would be .0014.
    assert comparison.p_value == pytest.approx(2 * (11 + 45 * share_of_observed_outcome(10)) / 1024)


def test_tasks_and_models_are_columns(tmp_path: Path) -> None:
    table = (
        "task,model,row,score\n"
        "x,a,0,0\nx,a,1,1\n"  # task x of model a
        "x,b,0,0\nx,b,1,1\n"
        "y,a,0,0\ny,a,1,1\n"
        "y,b,0,0\ny,b,1,1\n"
    )
    results = read_logs(write(tmp_path / "all.csv", table))
    assert sorted(results) == ["a", "b"]
    assert list(results["a"].divided) == ["x", "y"]


def test_digests_of_the_documents_are_compared(tmp_path: Path) -> None:
    first = write(tmp_path / "first.csv", "row,digest,acc\n1,aa,1\n2,bb,0\n")
    second = write(tmp_path / "second.csv", "row,digest,acc\n1,aa,1\n2,cc,0\n")
    results = read_logs(first, second)
    with pytest.raises(StaICCError, match="other documents or targets under the same id"):
        compare(results["first"], results["second"])


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("id,score\n1,2\n", "expected row"),
        ("row,score\n1,good\n2,bad\n", "no column has numbers only"),
        ("row\n1\n2\n", "no column has numbers only"),
        ("row,score\n1,0\n1,1\n", "the row 1 appears twice with the repeat 0"),
        ("row,repeat,score\n1,x,0\n", "got the repeat 'x'"),
        ("row,repeat,score\n1,-1,0\n", "got the repeat '-1'"),
        ("row,score\n,0\n", "the row has no id"),
        ("row,score\n1,0\n2\n", "line 3"),
        ("row,score,score\n1,0,1\n", "2 columns are called 'score'"),
        ("row,score\n1,1e999\n", "no column has numbers only"),
        ("row,score\n", "no rows"),
        ("", "no rows|no columns|empty"),
    ],
)
def test_tables_that_are_no_scores_are_refused(text: str, reason: str, tmp_path: Path) -> None:
    with pytest.raises(StaICCError, match=reason):
        read_logs(write(tmp_path / "table.csv", text))


def test_a_table_in_another_encoding_is_refused(tmp_path: Path) -> None:
    (tmp_path / "table.csv").write_bytes("row,score,n\xf6te\n1,2,3\n".encode("latin-1"))
    with pytest.raises(StaICCError, match="UTF-8"):
        read_logs(tmp_path / "table.csv")


def test_a_stated_range_that_a_value_leaves_is_refused(tmp_path: Path) -> None:
    table = write(tmp_path / "table.csv", "row,score\n1,2\n2,150\n")
    with pytest.raises(StaICCError, match="150, which is outside the stated range 0 to 100"):
        read_logs(table, value_range=(0, 100))


@pytest.mark.parametrize("value_range", [(1, 0), (0, 0), (0, float("inf")), "01", (0, True), 3])
def test_a_range_is_two_numbers_in_order(value_range: object, tmp_path: Path) -> None:
    table = write(tmp_path / "table.csv", "row,score\n1,2\n")
    with pytest.raises(StaICCError, match="value_range"):
        read_logs(table, value_range=value_range)  # type: ignore[arg-type]


@pytest.mark.parametrize("direction", ["lower", 1, {"loss": "no"}])
def test_a_direction_is_a_truth_value(tmp_path: Path, direction: Any) -> None:
    """The text "lower" is true, so that it would mean the opposite."""
    table = write(tmp_path / "first.csv", "row,loss\n0,1\n1,0\n")
    with pytest.raises(ArgumentError, match=r"higher_is_better: got .*, expected True or False"):
        read_logs(table, value_range=(0, 1), higher_is_better=direction)


def test_a_compressed_table_that_expands_too_far_is_refused(tmp_path: Path) -> None:
    bomb = tmp_path / "first.csv.gz"
    bomb.write_bytes(gzip.compress(b"row,acc\n" + b" " * 100_000_000))
    with pytest.raises(SchemaError, match="expands to more than 67108864, which is no table"):
        read_logs(bomb)

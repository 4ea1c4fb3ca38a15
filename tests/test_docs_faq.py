"""The table of test rows in docs/faq.md is computed again."""

from __future__ import annotations

from pathlib import Path

from StaICC.metrics.paired_tests import PairedDifference, detectable_difference, mean_difference

PAGE = (Path(__file__).parents[1] / "docs" / "faq.md").read_text("utf-8")
SECTION = PAGE.split("## How many test rows do I need?")[1].split("\n## ")[0]


def detectable_difference_of(rows: int, share: float, datasets: int) -> float:
    """Return the detectable difference in accuracy of two runs.

    Args:
        rows: Number of test rows of each data set.
        share: Share of the rows on which one run is right and the other is wrong; each run is right on half of them.
        datasets: Number of data sets, all alike.
    """
    rows_of_each_run = round(rows * share) // 2
    equal_rows = rows - 2 * rows_of_each_run
    steps = [1 / rows] * rows_of_each_run + [-1 / rows] * rows_of_each_run + [0.0] * equal_rows
    difference = PairedDifference(0.5, 0.5, steps, -1 / rows, 1 / rows)
    detectable = detectable_difference(mean_difference([difference] * datasets))
    assert detectable is not None
    return detectable


def test_the_table_has_the_detectable_differences_that_the_library_computes() -> None:
    """The columns of the table are three shares of different rows, each for one data set and for ten."""
    _, _, *lines = [line for line in SECTION.splitlines() if line.startswith("|")]
    assert len(lines) == 3
    for line in lines:
        heading, *cells = line.strip("| ").split(" | ")
        rows = int(heading.split()[0])
        expected = []
        for share in (0.1, 0.2, 0.3):
            for datasets in (1, 10):
                expected.append(f"{detectable_difference_of(rows, share, datasets):.3f}")
        assert cells == expected


def test_256_rows_of_ten_data_sets_detect_three_points_and_128_do_not() -> None:
    assert detectable_difference_of(rows=256, share=0.2, datasets=10) <= 0.03
    assert detectable_difference_of(rows=128, share=0.2, datasets=10) > 0.03


def test_512_rows_of_one_data_set_do_not_detect_three_points() -> None:
    assert detectable_difference_of(rows=512, share=0.1, datasets=1) > 0.03

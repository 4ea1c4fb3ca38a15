"""The table of test rows in docs/faq.md is computed again."""

from __future__ import annotations

from pathlib import Path

from StaICC.metrics.paired_tests import PairedDifference, detectable_difference, mean_difference

PAGE = (Path(__file__).parents[1] / "docs" / "faq.md").read_text("utf-8")
SECTION = PAGE.split("## How many test rows do I need?")[1].split("\n## ")[0]


def detectable(rows: int, share: float, datasets: int) -> float:
    """Return the detectable difference if a share of the rows differs, half of them for each run."""
    for_each = round(rows * share) // 2
    steps = [1 / rows] * for_each + [-1 / rows] * for_each + [0.0] * (rows - 2 * for_each)
    difference = PairedDifference(0.5, 0.5, steps, -1 / rows, 1 / rows)
    found = detectable_difference(mean_difference([difference] * datasets))
    assert found is not None
    return found


def test_the_table_of_rows_is_computed_by_the_library() -> None:
    lines = [line for line in SECTION.splitlines() if line.startswith("|")][2:]
    assert len(lines) == 3
    for line in lines:
        rows, *cells = line.strip("| ").split(" | ")
        expected = []
        for share in (0.1, 0.2, 0.3):
            for datasets in (1, 10):
                expected.append(f"{detectable(int(rows.split()[0]), share, datasets):.3f}")
        assert cells == expected


def test_the_rows_for_three_points_are_those_of_the_text() -> None:
    assert detectable(256, 0.2, 10) <= 0.03 < detectable(128, 0.2, 10)
    assert detectable(512, 0.1, 1) > 0.03

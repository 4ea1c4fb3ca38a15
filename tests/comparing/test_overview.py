"""Three or more runs on one screen: each fact once."""

from __future__ import annotations

import pytest

from StaICC import Normal, load_kernel
from StaICC.comparing.benchmark_comparison import display_comparisons
from StaICC.comparing.comparison import compare_runs
from StaICC.comparing.setting_differences import shown_value
from StaICC.layout import layout


@pytest.fixture(scope="module")
def text() -> str:
    runs = {f"k = {k}": Normal(k, datasets=["mini"], limit=96)(load_kernel("ppm")) for k in (1, 2, 3)}
    return layout(display_comparisons([compare_runs(runs)]), width=100, wrap=True)


def test_three_runs_fit_a_screen(text: str) -> None:
    assert len(text.splitlines()) <= 34  # ten data sets have ten rows more
    assert all(len(line) <= 100 for line in text.splitlines() if not line.startswith("StaICC|"))


def test_each_fact_is_there_once(text: str) -> None:
    assert text.count("ppm [") == 1
    assert text.count("metric: accuracy") == 1
    assert text.count("StaICC|benchmark:Normal|") == 1
    (line,) = [line for line in text.splitlines() if line.startswith("they differ in k: ")]
    assert sorted(line.removeprefix("they differ in k: ").split(", ")) == ["1 (k = 1)", "2 (k = 2)", "3 (k = 3)"]


def test_each_pair_has_a_line(text: str) -> None:
    for first, second in (("k = 1", "k = 2"), ("k = 1", "k = 3"), ("k = 2", "k = 3")):
        assert f"\n{first}  {second} " in text


def test_a_digest_is_shown_by_its_first_digits() -> None:
    assert shown_value(f"weights {'0123456789abcdef' * 4}") == "weights 0123456789ab"
    assert shown_value("0123456789ab") == "0123456789ab"

"""Warnings about data and prompts in the report: each once, with its runs, escaped."""

from __future__ import annotations

from typing import Any

from StaICC import Dataset, Normal, Suite
from StaICC.results.report import report_html


def first(prompt: Any, label_space: list[str]) -> list[float]:
    return [1.0] + [0.0] * (len(label_space) - 1)


def test_each_warning_is_shown_once_with_its_runs() -> None:
    rows = [(f"t{i}", i % 2) for i in range(40)]
    data = Dataset.from_rows(rows, name="<b>own</b>", label_space=["a", "b"])
    suite = Suite(k=64, datasets=[data], limit=1)(first)
    runs = {"one": suite, "two": Normal(k=64, datasets=[data], limit=1)(first)}
    assert len({text for one in suite.results() for text in one.warnings}) == 2
    page = report_html(runs)
    assert "Warnings about data and prompts: 2" in page
    assert page.count("k = 64 is larger than the demonstration set") == 1
    assert "<strong>one, two</strong>: &lt;b&gt;own&lt;/b&gt;: k = 64 is larger" in page
    assert "<b>own" not in page
    clean = report_html({"one": Normal(datasets=["mini"], limit=2)(first)})
    assert "Warnings about data" not in clean

"""Reports: saved results as one self-contained page, and each of its figures as a function for a notebook.

``docs/reports.md`` shows what a report holds.

Example:
    >>> from StaICC.results.report import accuracy_by_dataset, write_report
    >>> write_report(result, "report.html")  # doctest: +SKIP
    >>> accuracy_by_dataset({"mine": result, "theirs": other}).save("accuracy.svg")  # doctest: +SKIP
"""

from __future__ import annotations

from StaICC.results.report.figures import (
    accuracy_by_dataset,
    bias_distributions,
    experiment_chart,
    model_size_chart,
    noise_lines,
    reliability_diagrams,
    rounds_chart,
    shots_chart,
)
from StaICC.results.report.html import Figure
from StaICC.results.report.page import report_html, write_report

__all__ = [
    "Figure",
    "accuracy_by_dataset",
    "bias_distributions",
    "experiment_chart",
    "model_size_chart",
    "noise_lines",
    "reliability_diagrams",
    "report_html",
    "rounds_chart",
    "shots_chart",
    "write_report",
]

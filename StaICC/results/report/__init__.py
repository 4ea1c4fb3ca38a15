"""Reports: saved results as one self-contained page, and each of its figures as a function for a notebook.

``docs/reports.md`` shows what a report holds.

Example:
    >>> from StaICC.results.report import accuracy_by_dataset, write_report
    >>> write_report(result, "report.html")  # doctest: +SKIP
    >>> accuracy_by_dataset({"mine": result, "theirs": other}).save("accuracy.pdf")  # doctest: +SKIP
"""

from __future__ import annotations

from StaICC.results.report.figures import (
    accuracy_by_dataset,
    bias_distributions,
    confusion_matrices,
    cost_chart,
    differences,
    experiment_chart,
    figure_of,
    forest,
    model_size_chart,
    noise_lines,
    reliability_diagrams,
    rounds_chart,
    shots_chart,
    variance_chart,
)
from StaICC.results.report.page import report_html, write_report
from StaICC.results.report.plots import Figure

__all__ = [
    "Figure",
    "accuracy_by_dataset",
    "bias_distributions",
    "confusion_matrices",
    "cost_chart",
    "differences",
    "experiment_chart",
    "figure_of",
    "forest",
    "model_size_chart",
    "noise_lines",
    "reliability_diagrams",
    "report_html",
    "rounds_chart",
    "shots_chart",
    "variance_chart",
    "write_report",
]

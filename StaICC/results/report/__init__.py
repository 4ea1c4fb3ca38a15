"""Reports: saved results as one self-contained page, and each of its figures as a function for a notebook.

The figures need ``matplotlib`` (extra ``report``), which is imported when the first one is drawn.
``docs/reports.md`` shows what a report holds.

Example:
    >>> from StaICC.results.report import accuracy_by_dataset, write_report
    >>> write_report(result, "report.html")  # doctest: +SKIP
    >>> accuracy_by_dataset({"mine": result, "theirs": other})  # doctest: +SKIP
"""

from __future__ import annotations

from StaICC.results.report.accuracy import accuracy_by_dataset
from StaICC.results.report.bias import bias_distributions
from StaICC.results.report.confusion import confusion_matrices
from StaICC.results.report.long_icl import rounds_chart
from StaICC.results.report.model_sizes import model_size_chart
from StaICC.results.report.page import report_html, write_report
from StaICC.results.report.reliability import reliability_diagrams
from StaICC.results.report.robustness import consistency_chart, noise_lines
from StaICC.results.report.shots import shots_chart

__all__ = [
    "accuracy_by_dataset",
    "bias_distributions",
    "confusion_matrices",
    "consistency_chart",
    "model_size_chart",
    "noise_lines",
    "reliability_diagrams",
    "report_html",
    "rounds_chart",
    "shots_chart",
    "write_report",
]

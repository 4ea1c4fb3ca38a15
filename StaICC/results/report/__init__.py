"""Reports: saved results as one self-contained page, and each of its figures as a function for a notebook.

``docs/reports.md`` shows what a report holds.

Example:
    >>> from StaICC.results.report import accuracy_by_dataset, write_report
    >>> write_report(result, "report.html")  # doctest: +SKIP
    >>> accuracy_by_dataset({"mine": result, "theirs": other}).save("accuracy.pdf")  # doctest: +SKIP
"""

from __future__ import annotations

from StaICC.results.report.figures import accuracy_by_dataset as accuracy_by_dataset
from StaICC.results.report.figures import bias_distributions as bias_distributions
from StaICC.results.report.figures import confusion_matrices as confusion_matrices
from StaICC.results.report.figures import cost_chart as cost_chart
from StaICC.results.report.figures import differences as differences
from StaICC.results.report.figures import experiment_chart as experiment_chart
from StaICC.results.report.figures import figure_of as figure_of
from StaICC.results.report.figures import forest as forest
from StaICC.results.report.figures import model_size_chart as model_size_chart
from StaICC.results.report.figures import noise_lines as noise_lines
from StaICC.results.report.figures import reliability_diagrams as reliability_diagrams
from StaICC.results.report.figures import rounds_chart as rounds_chart
from StaICC.results.report.figures import shots_chart as shots_chart
from StaICC.results.report.figures import variance_chart as variance_chart
from StaICC.results.report.page import report_html as report_html
from StaICC.results.report.page import write_report as write_report
from StaICC.results.report.plots import Figure as Figure

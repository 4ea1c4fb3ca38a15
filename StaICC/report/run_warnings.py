"""What a reader must know before the scores: partial runs, early stopping, warnings."""

from __future__ import annotations

from collections.abc import Iterator

from StaICC.report.comparable_groups import Group, each_result
from StaICC.report.html import Markup, element, fold, items, join


def run_warnings(benchmarks: Group) -> Iterator[Markup]:
    """Yield what a reader must know before the scores; warnings of the runs are listed once, with their runs.

    Args:
        benchmarks: All results.
    """
    partial = []
    stopped_early = []
    runs_by_warning: dict[str, dict[str, None]] = {}
    for run, benchmark, result in each_result(benchmarks):
        if not result.complete:
            partial.append(f"{run}, {benchmark}")
        if result.stopping is not None:
            stopped_early.append(f"{run}, {benchmark}")
        for warning in result.warnings:
            runs_by_warning.setdefault(warning, {})[run] = None
    if partial:
        yield element("p", f"PARTIAL, failed queries: {'; '.join(partial)}.", class_="warn")
    if stopped_early:
        text = f"STOPPED EARLY, do not compare with full runs: {'; '.join(stopped_early)}."
        yield element("p", text, class_="warn")
    if runs_by_warning:
        lines = []
        for warning, runs in runs_by_warning.items():
            lines.append(join([element("strong", ", ".join(runs)), f": {warning}"]))
        yield fold(f"Warnings: {len(lines)}", items(lines))

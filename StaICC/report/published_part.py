"""Runs next to the published figures, or why they are not comparable."""

from __future__ import annotations

from StaICC.comparing.published_comparison import compare_with_published, display_published
from StaICC.metrics.scores import HEADLINE
from StaICC.report.comparable_groups import Group, each_result, listed
from StaICC.report.html import element, fold, join
from StaICC.report.tables import printed


def published_part(group: Group) -> str:
    """Compare runs with the published figures, or say why not.

    Args:
        group: Comparable results.
    """
    parts: list[str] = []
    benchmarks_by_reason: dict[str, dict[str, list[str]]] = {}
    for run, benchmark, result in each_result(group):
        if benchmark not in HEADLINE:
            continue
        compared = compare_with_published(result)
        usable = [figure for figure in compared if figure.reason is None]
        if usable:
            title = f"{benchmark}, {run}: comparison with the published figures"
            parts.append(fold(title, printed(display_published(usable), title)))
        for reason in dict.fromkeys(figure.reason for figure in compared):
            if reason is not None:
                benchmarks_by_reason.setdefault(reason, {}).setdefault(run, []).append(benchmark)
    for reason, benchmarks_by_run in benchmarks_by_reason.items():
        runs = [f"{run} ({listed(benchmarks, 'benchmarks')})" for run, benchmarks in benchmarks_by_run.items()]
        text = f"Not comparable with the published figures: {', '.join(runs)}: {reason}."
        parts.append(element("p", text, class_="soft"))
    return join(parts)

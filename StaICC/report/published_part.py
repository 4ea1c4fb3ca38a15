"""Runs next to the published figures, or why they are not comparable."""

from __future__ import annotations

from StaICC.comparing.published_comparison import compare_with_published, display_published
from StaICC.metrics.scores import HEADLINE
from StaICC.report.comparable_groups import Group, each_result, listed
from StaICC.report.html import element, fold, join
from StaICC.report.tables import printed


def published_part(group: Group) -> str:
    """Return a table for each result that is comparable with published figures, then why the others are not.

    A sentence names all runs and benchmarks that are not comparable for the same reason.

    Args:
        group: Comparable results.
    """
    tables: list[str] = []
    # For each reason the runs that are not comparable for it, each with its benchmarks.
    runs_by_reason: dict[str, dict[str, list[str]]] = {}
    for run, benchmark, result in each_result(group):
        is_of_library = benchmark in HEADLINE  # No figures are published for other benchmarks.
        if not is_of_library:
            continue
        compared_figures = compare_with_published(result)
        comparable = [figure for figure in compared_figures if figure.reason is None]
        if comparable:
            title = f"{benchmark}, {run}: comparison with the published figures"
            tables.append(fold(title, printed(display_published(comparable), title)))
        for reason in dict.fromkeys(figure.reason for figure in compared_figures):
            if reason is not None:
                runs_by_reason.setdefault(reason, {}).setdefault(run, []).append(benchmark)

    sentences = []
    for reason, benchmarks_by_run in runs_by_reason.items():
        runs = [f"{run} ({listed(benchmarks, 'benchmarks')})" for run, benchmarks in benchmarks_by_run.items()]
        text = f"Not comparable with the published figures: {', '.join(runs)}: {reason}."
        sentences.append(element("p", text, class_="soft"))
    return join([*tables, *sentences])

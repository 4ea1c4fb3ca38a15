"""Comparison of runs with the published figures, or the reasons why they are not comparable."""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Sequence

from StaICC.results.published import PublishedComparison, compare_with_published
from StaICC.results.report.html import Markup, element, fold, join, table
from StaICC.results.report.leaderboard import figure_name
from StaICC.results.report.runs import Runs, Score


def _where(one: PublishedComparison) -> str:
    return figure_name(one.benchmark, one.metric) if one.dataset is None else f"{one.dataset}, {one.metric}"


def _listed(which: Iterable[PublishedComparison]) -> str:
    """Return the names of figures, grouped by data set."""
    parts = []
    for dataset, own in itertools.groupby(which, lambda one: one.dataset):
        if dataset is None:
            parts += [_where(one) for one in own]
        else:
            parts.append(" ".join([dataset, *(one.metric for one in own)]))
    return ", ".join(parts)


def _refusals(refused: Sequence[tuple[str, PublishedComparison]]) -> list[Markup]:
    """Return each reason once, with the runs and figures that it concerns."""
    by_run: dict[tuple[str, str], list[PublishedComparison]] = {}
    for name, one in refused:
        by_run.setdefault((one.reason or "", name), []).append(one)
    runs: dict[tuple[str, str], list[str]] = {}
    for (reason, name), which in by_run.items():
        runs.setdefault((reason, _listed(which)), []).append(name)
    return [
        element(
            "p", f"Not comparable with the published figures: {', '.join(names)} ({which}): {reason}.", class_="soft"
        )
        for (reason, which), names in runs.items()
    ]


def published_figures(runs: Runs) -> Markup:
    """Return the comparison of the runs of one benchmark with the published figures, or the reasons against it.

    Args:
        runs: Results of one benchmark by the name of their run.
    """
    rows: list[list[str]] = []
    cautions: dict[str, None] = {}
    differences: dict[str, None] = {}
    refused: list[tuple[str, PublishedComparison]] = []
    for name, result in runs.items():
        for one in compare_with_published(result):
            if one.reason is not None:
                refused.append((name, one))
                continue
            near = "; ".join(f"{other.model} {other.value:.4f}" for other in one.nearest())
            rows.append(
                [
                    name,
                    _where(one),
                    Score(one.value, reason="undefined").cell,
                    f"{one.better_than} of {len(one.figures)}",
                    near,
                ]
            )
            differences |= {f"{name}: {difference}": None for difference in one.differences}
            cautions |= {f"{_where(one)}: {caution}": None for caution in one.cautions}
    parts: list[str] = []
    if differences:  # before the figures
        parts.append(element("ul", *(element("li", one) for one in differences)))
    if rows:
        head = ["run", "figure", "value", "better than", "nearest published"]
        benchmark = next(iter(runs.values())).benchmark
        parts.append(table(f"{benchmark}: comparison with the published figures", head, rows, words=(1, 4)))
    parts += _refusals(refused)
    if cautions:
        parts.append(fold("Cautions", element("ul", *(element("li", one) for one in cautions)), class_="short"))
    return join(parts)

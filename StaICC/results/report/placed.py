"""The published figures beside those of the runs, or the reasons why they may not stand there."""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Sequence

from StaICC.results.published import Placement, beside
from StaICC.results.report.html import Markup, element, fold, join, table
from StaICC.results.report.runs import Runs
from StaICC.results.report.summary import figure_name

__all__ = ["placed"]


def _where(one: Placement) -> str:
    return figure_name(one.benchmark, one.metric) if one.dataset is None else f"{one.dataset}, {one.metric}"


def _listed(which: Iterable[Placement]) -> str:
    """Name figures briefly: those of one data set together."""
    parts = []
    for dataset, own in itertools.groupby(which, lambda one: one.dataset):
        if dataset is None:
            parts += [_where(one) for one in own]
        else:
            parts.append(" ".join([dataset, *(one.metric for one in own)]))
    return ", ".join(parts)


def _refusals(refused: Sequence[tuple[str, Placement]]) -> list[Markup]:
    """Give each reason once, with the runs and the figures that it is about."""
    by_run: dict[tuple[str, str], list[Placement]] = {}
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


def placed(runs: Runs) -> Markup:
    """Set the published figures beside those of runs of one benchmark, or say why they may not stand there.

    Args:
        runs: Results of one benchmark by the name of their run.
    """
    rows: list[list[str]] = []
    cautions: dict[str, None] = {}
    refused: list[tuple[str, Placement]] = []
    for name, result in runs.items():
        for one in beside(result):
            if one.reason is not None:
                refused.append((name, one))
                continue
            near = "; ".join(f"{other.model} {other.value:.4f}" for other in one.nearest())
            value = "-" if one.value is None else f"{one.value:.4f}"
            rows.append([name, _where(one), value, f"{one.better_than} of {len(one.figures)}", near])
            cautions |= {f"{_where(one)}: {caution}": None for caution in one.cautions}
    parts: list[str] = []
    if rows:
        head = ["run", "figure", "value", "better than", "nearest published"]
        benchmark = next(iter(runs.values())).benchmark
        parts.append(table(f"{benchmark}: the runs' figures among the published ones", head, rows, words=(1, 4)))
    parts += _refusals(refused)
    if cautions:
        parts.append(fold("Cautions", element("ul", *(element("li", one) for one in cautions)), class_="short"))
    return join(parts)

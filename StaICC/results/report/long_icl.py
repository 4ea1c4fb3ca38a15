"""LongICL: scores by rounds, with the published models."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from StaICC.errors import ArgumentError
from StaICC.results.published import figures
from StaICC.results.report.accuracy import legend_label
from StaICC.results.report.drawing import ROLES, clip, draw_interval, new_grid, plain_axes, series, styled
from StaICC.results.report.runs import (
    Given,
    Runs,
    dataset_names,
    figure,
    interval_of,
    named,
    number_cell,
)

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

__all__ = ["rounds_chart", "rounds_rows"]

_ROUNDS = range(1, 6)


def _draw_published(axes: Axes, dataset: str) -> None:
    """Draw the published models as thin lines."""
    lines: dict[str, list[tuple[int, float]]] = {}
    for one in figures("LongICL"):
        if one.dataset == dataset and one.value is not None and one.metric[0].isdigit():
            lines.setdefault(one.model, []).append((int(one.metric[0]), one.value))
    label: str | None = "published models"
    for line in lines.values():
        axes.plot([x for x, _ in line], [y for _, y in line], color=ROLES["mark"], linewidth=0.6, label=label)
        label = None


@styled
def rounds_chart(given: Given) -> Figure:
    """Draw the score of each data set by rounds of demonstrations, with the published models in the background.

    Args:
        given: A result of LongICL, or several by the name of their run.

    Returns:
        A matplotlib figure.

    Raises:
        ArgumentError: No result has a score of a round.
        MissingDependencyError: ``matplotlib`` is not installed.
    """
    runs = named(given)
    keys = [f"{number}R" for number in _ROUNDS]
    datasets = [
        name
        for name in dataset_names(runs)
        if any(figure(result.divided.get(name), key) is not None for result in runs.values() for key in keys)
    ]
    if not datasets:
        raise ArgumentError("no result has a score of a round. Use results of LongICL")
    drawing, panels = new_grid(len(datasets), 3, 3.0, 2.3, sharey=True)
    handles: dict[str, Any] = {}
    for axes, dataset in zip(panels, datasets, strict=True):
        _draw_published(axes, dataset)
        uniform = next(
            (result.divided[dataset].get("uniform") for result in runs.values() if dataset in result.divided), 0
        )
        if uniform is not None:
            axes.axhline(uniform, color=ROLES["mark"], linewidth=1, linestyle=(0, (3, 2)), label="random baseline")
        for number, (name, result) in enumerate(runs.items()):
            own = series(number)
            at = [(place, figure(result.divided.get(dataset), f"{place}R")) for place in _ROUNDS]
            for place in _ROUNDS:
                draw_interval(axes, interval_of(result, dataset, f"{place}R"), place, own, upright=True)
            known = [(x, y) for x, y in at if y is not None]
            rounds, scores = [x for x, _ in known], [y for _, y in known]
            style: dict[str, Any] = {"linestyle": "-", "color": own.colour, "markersize": 5.5}
            axes.plot(rounds, scores, own.mark, label=legend_label(name), **style)
        axes.set_title(clip(dataset, 24), parse_math=False)
        axes.set_xlim(0.7, 5.3)
        axes.set_xticks(list(_ROUNDS))
        axes.set_ylim(-0.02, 1.02)
        plain_axes(axes, "y")
        for handle, label in zip(*axes.get_legend_handles_labels(), strict=True):
            handles.setdefault(label, handle)
    drawing.legend(list(handles.values()), list(handles), loc="outside upper left", ncols=4, frameon=False)
    drawing.supxlabel("rounds of demonstrations", fontsize=9, color=ROLES["soft"])
    drawing.supylabel("accuracy or micro F1", fontsize=9, color=ROLES["soft"])
    return drawing


def rounds_rows(runs: Runs) -> tuple[list[str], list[list[str]]]:
    """Return the scores by rounds as a table.

    Args:
        runs: Results of LongICL.

    Returns:
        Head and rows.
    """
    rows = []
    for name, result in runs.items():
        for dataset, values in result.divided.items():
            keys = [*(f"{number}R" for number in _ROUNDS), "mean", "uniform", "majority"]
            cells = [number_cell(figure(values, key)) for key in keys]
            rows.append([dataset, name, str(values.get("metric") or "-"), *cells])
    rounds = [f"{number}R" for number in _ROUNDS]
    return ["data set", "run", "metric", *rounds, "mean", "random baseline", "majority baseline"], rows

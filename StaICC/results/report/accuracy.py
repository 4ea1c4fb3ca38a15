"""Accuracy by data set, with confidence intervals and baselines."""

from __future__ import annotations

from typing import TYPE_CHECKING

from StaICC.results.details import Baselines
from StaICC.results.report.drawing import ROLES, clip, draw_interval, new_figure, plain_axes, series, set_names, styled
from StaICC.results.report.runs import (
    Given,
    Runs,
    dataset_names,
    figure,
    interval_cell,
    interval_of,
    named,
    number_cell,
)
from StaICC.results.result import Result

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

__all__ = ["accuracy_by_dataset", "accuracy_rows", "baselines_of", "legend_label"]

MEAN = "mean"


def baselines_of(runs: Runs, dataset: str) -> Baselines | None:
    """Return the baselines of a data set, from the first run that has them.

    Args:
        runs: The runs.
        dataset: Name of the data set.
    """
    for result in runs.values():
        details = result.details.get(dataset)
        if details is not None and details.baselines:
            return next(iter(details.baselines.values()))
    return None


def _draw_run(axes: Axes, result: Result, names: list[str], offset: float, number: int, name: str) -> None:
    own = series(number)
    label: str | None = name
    for place, dataset in enumerate(names):
        value = figure(result.averaged if dataset == MEAN else result.divided.get(dataset), "accuracy")
        if value is None:
            continue
        draw_interval(axes, interval_of(result, dataset, "accuracy"), place + offset, own)
        axes.plot([value], [place + offset], own.mark, color=own.colour, markersize=6.5, label=label)
        label = None


@styled
def accuracy_by_dataset(given: Given) -> Figure:
    """Draw accuracy by data set, with confidence intervals, the random baseline and the majority baseline.

    Args:
        given: A result of a benchmark that scores accuracy by data set (Normal), or several by the name of their run.

    Returns:
        A matplotlib figure.

    Raises:
        ArgumentError: There are no results.
        MissingDependencyError: ``matplotlib`` is not installed.
    """
    runs = named(given)
    datasets = dataset_names(runs)
    names = [*datasets, MEAN] if len(datasets) > 1 else datasets
    step = 0.72 / len(runs)
    drawing = new_figure(8.2, 0.9 + len(names) * (0.2 + 0.13 * len(runs)))
    axes = drawing.subplots()
    for place, dataset in enumerate(datasets):
        known = baselines_of(runs, dataset)
        if known is None:
            continue
        ends = (place - 0.42, place + 0.42)
        first = place == next((i for i, name in enumerate(datasets) if baselines_of(runs, name)), None)
        label = "random baseline" if first else None
        axes.plot([known.max_random] * 2, ends, color=ROLES["soft"], linewidth=1.6, label=label)
        label, dotted = "majority baseline" if first else None, (0, (1.5, 1.5))
        axes.plot([known.majority] * 2, ends, color=ROLES["soft"], linewidth=1.4, linestyle=dotted, label=label)
    for number, (name, result) in enumerate(runs.items()):
        _draw_run(axes, result, names, step * (number - (len(runs) - 1) / 2), number, legend_label(name))
    if len(names) > len(datasets):
        axes.axhline(len(datasets) - 0.5, color=ROLES["mark"], linewidth=0.8)
    set_names(axes, names)
    axes.set_xlim(-0.01, 1.01)
    axes.set_xlabel("accuracy")
    plain_axes(axes, "x")
    drawing.legend(loc="outside upper left", ncols=4, frameon=False)
    return drawing


def legend_label(name: str) -> str:
    """Return the label of a run in a legend; matplotlib would hide a name with a leading underscore.

    Args:
        name: The run.
    """
    return clip(name).replace("_", "\u200b_", 1) if name.startswith("_") else clip(name)


def accuracy_rows(runs: Runs) -> tuple[list[str], list[list[str]]]:
    """Return the numbers of :func:`accuracy_by_dataset` as a table.

    Args:
        runs: The runs.

    Returns:
        Head and rows.
    """
    head = ["data set"]
    for name in runs:
        head += [f"accuracy, {name}", "interval"] if len(runs) > 1 else ["accuracy", "interval"]
    head += ["random baseline", "majority baseline"]
    rows = []
    for dataset in dataset_names(runs):
        row = [dataset]
        for result in runs.values():
            row.append(number_cell(figure(result.divided.get(dataset), "accuracy")))
            row.append(interval_cell(interval_of(result, dataset, "accuracy")))
        known = baselines_of(runs, dataset)
        row += ["-", "-"] if known is None else [f"{known.max_random:.4f}", f"{known.majority:.4f}"]
        rows.append(row)
    return head, rows

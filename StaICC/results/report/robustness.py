"""Robustness: accuracy against label noise (GLER), and consistency over templates and demonstrations."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from StaICC.errors import ArgumentError
from StaICC.metrics import gler
from StaICC.results.report.accuracy import legend_label
from StaICC.results.report.drawing import (
    ROLES,
    clip,
    draw_interval,
    new_figure,
    new_grid,
    plain_axes,
    series,
    set_names,
    styled,
)
from StaICC.results.report.runs import (
    Given,
    Runs,
    accuracy_of,
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

__all__ = ["consistency_chart", "consistency_rows", "noise_lines", "noise_rows", "noise_series"]

_VARIED = {"Template_sens": ("templates", "template"), "Demo_sens": ("demonstrations", "list of demonstrations")}


def noise_series(result: Result) -> dict[str, list[tuple[float, float]]]:
    """Return for each data set the share of correct labels and the accuracy, from no noise to all labels wrong.

    Args:
        result: A result of GLER.
    """
    k = result.signature.fields.get("k")
    demonstrations = int(k) if k is not None and k.isdigit() else None
    found = {}
    for dataset, values in result.divided.items():
        steps = sorted(int(key) for key in values if key.isdigit())
        points = []
        for step in steps:
            value = figure(values, str(step), "accuracy")
            rate = step / (len(steps) - 1) if len(steps) > 1 else 0.0
            # int(k * rate) of k demonstration labels are wrong.
            share = 1 - int(demonstrations * rate) / demonstrations if demonstrations else 1 - rate
            if value is not None:
                points.append((share, value))
        if points:
            found[dataset] = points
    return found


@styled
def noise_lines(given: Given) -> Figure:
    """Draw accuracy against the share of correct labels in the demonstrations, with the GLER regression line.

    Args:
        given: A result of GLER, or several by the name of their run.

    Returns:
        A matplotlib figure.

    Raises:
        ArgumentError: No result has accuracies by noise rate.
        MissingDependencyError: ``matplotlib`` is not installed.
    """
    runs = named(given)
    points = {name: noise_series(result) for name, result in runs.items()}
    datasets = [name for name in dataset_names(runs) if any(name in own for own in points.values())]
    if not datasets:
        raise ArgumentError("no result has an accuracy by noise rate. Use results of GLER")
    drawing, panels = new_grid(len(datasets), 5, 1.95, 1.95, sharex=True, sharey=True)
    for axes, dataset in zip(panels, datasets, strict=True):
        for number, name in enumerate(runs):
            own, at = series(number), points[name].get(dataset, [])
            shares, values = [x for x, _ in at], [y for _, y in at]
            axes.plot(shares, values, own.mark, color=own.colour, markersize=4.5, label=legend_label(name))
            if len(set(shares)) > 1:
                # Fitted to the points: with the metrics of 0.1.1, the line in the result uses other x values.
                slope, intercept = gler(values, shares)
                axes.plot([0, 1], [intercept, intercept + slope], color=own.colour, linewidth=1.2)
                if len(runs) == 1:
                    text = f"slope {slope:+.3f}"
                    axes.text(0.04, 0.97, text, transform=axes.transAxes, va="top", color=ROLES["soft"])
        axes.set_title(clip(dataset, 20), parse_math=False)
        axes.set_xlim(-0.04, 1.04)
        axes.set_ylim(0, 1.02)
        axes.set_xticks([0, 0.5, 1])
        plain_axes(axes, "y")
    if len(runs) > 1:
        drawing.legend(*panels[0].get_legend_handles_labels(), loc="outside upper left", ncols=4, frameon=False)
    drawing.supxlabel("share of demonstrations with the correct label", fontsize=9, color=ROLES["soft"])
    drawing.supylabel("accuracy", fontsize=9, color=ROLES["soft"])
    return drawing


def noise_rows(runs: Runs) -> tuple[list[str], list[list[str]]]:
    """Return the accuracies by noise rate as a table.

    Args:
        runs: Results of GLER.

    Returns:
        Head and rows.
    """
    rows = []
    for name, result in runs.items():
        for dataset, points in noise_series(result).items():
            line = result.divided[dataset].get("sensitivity", {}).get("accuracy")
            slope = f"{line[0]:+.4f}" if isinstance(line, (list, tuple)) else "-"
            for share, value in points:
                rows.append([dataset, name, f"{share:.2f}", f"{value:.4f}", slope])
    return ["data set", "run", "share of correct labels", "accuracy", "slope (GLER)"], rows


def _spread(result: Result, dataset: str) -> list[float]:
    """Return the accuracy of each template, or of each list of demonstrations."""
    details = result.details.get(dataset)
    found = [accuracy_of(record) for record in details.conditions] if details else []
    return [value for value in found if value is not None]


def _draw_consistency(axes: Axes, runs: Runs, datasets: Sequence[str], title: str) -> None:
    step = 0.6 / max(1, len(runs))
    for number, (name, result) in enumerate(runs.items()):
        own, label = series(number), legend_label(name)
        for place, dataset in enumerate(datasets):
            at = place + step * (number - (len(runs) - 1) / 2)
            draw_interval(axes, interval_of(result, dataset, "sensitivity.consistency"), at, own)
            value = figure(result.divided.get(dataset), "sensitivity", "consistency")
            if value is not None:
                axes.plot([value], [at], own.mark, color=own.colour, markersize=6, label=label)
                label = "_nolegend_"
    axes.set_xlim(0, 1.03)
    axes.set_title(title)
    axes.set_xlabel("consistency")
    plain_axes(axes, "x")


def _draw_spread(axes: Axes, runs: Runs, datasets: Sequence[str], varied: str) -> None:
    step = 0.6 / max(1, len(runs))
    for number, result in enumerate(runs.values()):
        own = series(number)
        for place, dataset in enumerate(datasets):
            at = place + step * (number - (len(runs) - 1) / 2)
            values = _spread(result, dataset)
            if values:
                axes.plot([min(values), max(values)], [at, at], color=own.colour, linewidth=0.9)
                axes.plot(values, [at] * len(values), "|", color=own.colour, markersize=8, markeredgewidth=1.4)
    axes.set_xlim(0, 1.02)
    axes.set_title(f"accuracy of each {varied}")
    axes.set_xlabel("accuracy")
    plain_axes(axes, "x")


@styled
def consistency_chart(given: Given) -> Figure:
    """Draw the consistency over templates or demonstrations, and the accuracy of each of them.

    Args:
        given: A result of template or demonstration sensitivity, or several of the same by the name of their run.

    Returns:
        A matplotlib figure.

    Raises:
        ArgumentError: There are no results, or they are of another benchmark.
        MissingDependencyError: ``matplotlib`` is not installed.
    """
    runs = named(given)
    benchmark = next(iter(runs.values())).benchmark
    if benchmark not in _VARIED or any(result.benchmark != benchmark for result in runs.values()):
        raise ArgumentError(f"consistency_chart shows one of {', '.join(_VARIED)}: got results of {benchmark}")
    datasets = dataset_names(runs)
    drawing = new_figure(8.6, 0.95 + len(datasets) * (0.16 + 0.12 * len(runs)))
    left, right = drawing.subplots(1, 2, sharey=True, gridspec_kw={"wspace": 0.08})
    _draw_consistency(left, runs, datasets, f"consistency over {_VARIED[benchmark][0]}")
    _draw_spread(right, runs, datasets, _VARIED[benchmark][1])
    set_names(left, datasets)
    right.tick_params(labelleft=False)
    if len(runs) > 1:
        drawing.legend(*left.get_legend_handles_labels(), loc="outside upper left", ncols=4, frameon=False)
    return drawing


def consistency_rows(runs: Runs) -> tuple[list[str], list[list[str]]]:
    """Return consistency and the range of accuracies as a table.

    Args:
        runs: Results of template or demonstration sensitivity.

    Returns:
        Head and rows.
    """
    rows = []
    for name, result in runs.items():
        for dataset, values in result.divided.items():
            value = figure(values, "sensitivity", "consistency")
            interval = interval_of(result, dataset, "sensitivity.consistency")
            spread = _spread(result, dataset)
            ends = [number_cell(min(spread, default=None)), number_cell(max(spread, default=None))]
            rows.append([dataset, name, number_cell(value), interval_cell(interval), *ends])
    return ["data set", "run", "consistency", "interval", "lowest accuracy", "highest accuracy"], rows

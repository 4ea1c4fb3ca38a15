"""Confusion matrices: true labels against predicted labels."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from StaICC.errors import ArgumentError
from StaICC.results.details import ConditionRecord
from StaICC.results.report.drawing import ROLES, SERIES, clip, new_grid, styled
from StaICC.results.report.runs import Given, labels_of, one_run
from StaICC.results.result import Result

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

__all__ = ["MOST_LABELS", "confusion_counts", "confusion_matrices", "confusion_rows"]

MOST_LABELS = 12
"""Larger label spaces are not styled; the table lists their most frequent confusions."""

_MOST_ROWS = 20
_STRONGEST = 0.55  # maximum opacity at which the numbers keep their contrast


def _matrix(record: ConditionRecord, width: int) -> list[list[int]]:
    counts = [[0] * width for _ in range(width)]
    for truth, prediction in zip(record.truth, record.predictions, strict=True):
        if prediction is not None and 0 <= prediction < width:
            counts[truth][prediction] += 1
    return counts


def confusion_counts(result: Result) -> dict[str, tuple[tuple[str, ...], list[list[int]]]]:
    """Return for each data set its labels, and the counts of predicted labels (columns) by true label (rows).

    Args:
        result: A result; its first condition is counted (Normal).
    """
    found = {}
    for dataset, details in result.details.items():
        labels = labels_of(details)
        if details.conditions and labels:
            found[dataset] = (labels, _matrix(details.conditions[0], len(labels)))
    return found


def _draw(axes: Axes, labels: Sequence[str], counts: Sequence[Sequence[int]]) -> None:
    from matplotlib.patches import Rectangle

    width = len(labels)
    for truth, row in enumerate(counts):
        total = sum(row)
        for prediction, count in enumerate(row):
            if not count:
                continue
            corner, colour = (prediction - 0.5, truth - 0.5), SERIES[0 if truth == prediction else 1].colour
            opacity = _STRONGEST * count / total
            axes.add_patch(Rectangle(corner, 1, 1, facecolor=colour, edgecolor="none", alpha=opacity))
            axes.text(prediction, truth, str(count), ha="center", va="center", fontsize=7.5 if width > 4 else 8.5)
    axes.set_xlim(-0.5, width - 0.5)
    axes.set_ylim(width - 0.5, -0.5)
    axes.set_aspect("equal")
    names = [clip(label, 11) for label in labels]
    axes.set_xticks(range(width))
    axes.set_xticklabels(names, rotation=40, ha="right", rotation_mode="anchor", parse_math=False, fontsize=7.5)
    axes.set_yticks(range(width))
    axes.set_yticklabels(names, parse_math=False, fontsize=7.5)
    axes.tick_params(length=0)
    for edge in axes.spines.values():
        edge.set_color(ROLES["grid"])


@styled
def confusion_matrices(result: Given) -> Figure:
    """Draw a confusion matrix for each data set with at most :data:`MOST_LABELS` labels.

    Rows are true labels, columns are predicted labels. Numbers count queries; the opacity is the share of the row.

    Args:
        result: A result of Normal.

    Returns:
        A matplotlib figure.

    Raises:
        ArgumentError: No data set can be drawn.
        MissingDependencyError: ``matplotlib`` is not installed.
    """
    found = {name: one for name, one in confusion_counts(one_run(result)).items() if len(one[0]) <= MOST_LABELS}
    if not found:
        raise ArgumentError(f"no data set of the result has predictions and at most {MOST_LABELS} labels")
    drawing, panels = new_grid(len(found), 4, 2.45, 2.5)
    for axes, (dataset, (labels, counts)) in zip(panels, found.items(), strict=True):
        _draw(axes, labels, counts)
        axes.set_title(clip(dataset, 22), parse_math=False)
    drawing.supxlabel("predicted label", fontsize=9, color=ROLES["soft"])
    drawing.supylabel("true label", fontsize=9, color=ROLES["soft"])
    return drawing


def confusion_rows(result: Result) -> tuple[list[str], list[list[str]]]:
    """Return the counts as a table: all cells of small label spaces, the most frequent confusions of large ones.

    Args:
        result: The result.

    Returns:
        Head and rows, the most frequent first within a data set; empty cells are omitted.
    """
    rows = []
    for dataset, (labels, counts) in confusion_counts(result).items():
        small = len(labels) <= MOST_LABELS
        cells = [
            (count, truth, prediction, sum(row))
            for truth, row in enumerate(counts)
            for prediction, count in enumerate(row)
            if count and (small or truth != prediction)
        ]
        cells.sort(key=lambda cell: (-cell[0], cell[1], cell[2]))
        rows += [
            [dataset, labels[truth], labels[prediction], str(count), f"{count / total:.3f}"]
            for count, truth, prediction, total in (cells if small else cells[:_MOST_ROWS])
        ]
    return ["data set", "true label", "predicted label", "queries", "share of true label"], rows

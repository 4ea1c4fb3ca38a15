"""Bias distributions: which labels does the model prefer?

For each data set, the mean prediction for empty queries (contextual bias), for random words (domain bias) and for the
test queries (posterior bias), with the frequencies of the true labels and the uniform distribution.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from StaICC.errors import ArgumentError
from StaICC.results.report.drawing import ROLES, SERIES, clip, faint, new_grid, plain_axes, set_names, styled
from StaICC.results.report.runs import labels_of, shares_of
from StaICC.results.result import Result

if TYPE_CHECKING:
    from matplotlib.figure import Figure

__all__ = ["bias_distributions", "bias_rows", "distributions"]

_SOURCES = {"Contextual_bias": "empty query", "Domain_bias": "random words", "Post_bias": "test queries"}
TRUE = "true labels"


def distributions(results: Mapping[str, Result]) -> dict[str, tuple[tuple[str, ...], dict[str, list[float]]]]:
    """Return for each data set its labels, and the distributions over them by their source.

    Args:
        results: Results of one run, by benchmark; only bias benchmarks are read.
    """
    found: dict[str, tuple[tuple[str, ...], dict[str, list[float]]]] = {}
    for benchmark, source in _SOURCES.items():
        result = results.get(benchmark)
        for dataset, values in result.divided.items() if result is not None else ():
            assert result is not None
            distribution = values.get("distribution")
            details = result.details.get(dataset)
            if not isinstance(distribution, (list, tuple)) or details is None or not details.conditions:
                continue
            labels = details.labels or tuple(str(label) for label in range(len(distribution)))
            known = found.setdefault(dataset, (labels or labels_of(details), {}))[1]
            known[source] = [float(value) for value in distribution]
            if benchmark == "Post_bias":
                known[TRUE] = shares_of(details.conditions[0].truth, len(labels))
    return found


@styled
def bias_distributions(results: Mapping[str, Result]) -> Figure:
    """Draw the mean predictions of the bias benchmarks over the labels of each data set.

    Args:
        results: Results of one run by benchmark, such as a group of results: ``Contextual_bias``, ``Domain_bias``,
            ``Post_bias``, as available.

    Returns:
        A matplotlib figure.

    Raises:
        ArgumentError: There are no distributions.
        MissingDependencyError: ``matplotlib`` is not installed.
    """
    found = distributions(results)
    if not found:
        raise ArgumentError("no result has a mean prediction. Use results of the bias benchmarks")
    most = max(len(labels) for labels, _ in found.values())
    drawing, panels = new_grid(len(found), 4, 2.45, 0.75 + 0.27 * most, sharex=True)
    styles = {source: SERIES[number] for number, source in enumerate(_SOURCES.values())}
    handles: dict[str, Any] = {}
    for axes, (dataset, (labels, known)) in zip(panels, found.items(), strict=True):
        axes.axvline(1 / len(labels), color=ROLES["mark"], linewidth=1, linestyle=(0, (3, 2)))
        if TRUE in known:
            style: dict[str, Any] = {
                "height": 0.7,
                "facecolor": faint("mark"),
                "edgecolor": ROLES["mark"],
                "linewidth": 0.7,
            }
            handles.setdefault(TRUE, axes.barh(range(len(labels)), known[TRUE], **style))
        for number, source in enumerate(source for source in _SOURCES.values() if source in known):
            own = styles[source]
            places = [place + 0.2 * (number - 1) for place in range(len(labels))]
            (marks,) = axes.plot(known[source], places, own.mark, color=own.colour, markersize=5)
            handles.setdefault(source, marks)
        set_names(axes, labels, 13)
        axes.set_xlim(0, 1)
        axes.set_xticks([0, 0.5, 1])
        axes.set_title(clip(dataset, 22), parse_math=False)
        plain_axes(axes)
    drawing.legend(list(handles.values()), list(handles), loc="outside upper left", ncols=len(handles), frameon=False)
    drawing.supxlabel("probability of the label", fontsize=9, color=ROLES["soft"])
    return drawing


def bias_rows(results: Mapping[str, Result]) -> tuple[list[str], list[list[str]]]:
    """Return the distributions as a table.

    Args:
        results: Results of one run by benchmark.

    Returns:
        Head and rows.
    """
    found = distributions(results)
    present = {source for _, known in found.values() for source in known}
    columns = [source for source in (*_SOURCES.values(), TRUE) if source in present]
    rows = [
        [
            dataset,
            label,
            *(f"{known[source][place]:.3f}" if source in known else "-" for source in columns),
            f"{1 / len(labels):.3f}",
        ]
        for dataset, (labels, known) in found.items()
        for place, label in enumerate(labels)
    ]
    return ["data set", "label", *columns, "uniform"], rows

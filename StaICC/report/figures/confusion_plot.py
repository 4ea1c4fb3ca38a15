"""The figure of confusion matrices."""

from __future__ import annotations

from collections import Counter

from StaICC.errors import ArgumentError
from StaICC.report.figure import Figure
from StaICC.report.label_names import labels_of
from StaICC.report.runs_by_name import Given, named
from StaICC.report.shapes import Panel, Shape, row_axis
from StaICC.results.details import DatasetDetails
from StaICC.results.result import Result


def confusion_counts(details: DatasetDetails) -> list[list[int]]:
    """Return the number of queries of all conditions by true label (rows) and predicted label.

    Args:
        details: The details of a data set.
    """
    if not details.conditions:
        return []
    counts: Counter[tuple[int, int | None]] = Counter()
    for condition in details.conditions:
        counts.update(zip(condition.truth, condition.predictions, strict=True))
    labels = range(len(labels_of(details)))
    return [[counts[truth, predicted] for predicted in labels] for truth in labels]


def confusion_note(result: Result) -> str:
    """Return what confusion matrices of a result leave out; an empty text if it is nothing.

    Args:
        result: The result.
    """
    queries = 0
    without_label = 0
    for details in result.details.values():
        for condition in details.conditions:
            queries += len(condition.predictions)
            without_label += sum(label is None or label < 0 for label in condition.predictions)
    if not without_label:
        return ""
    return f" {without_label} of {queries} queries have no predicted label."


def confusion_matrices(given: Given) -> Figure:
    """Return the confusion matrices of a result: a panel for each data set.

    Args:
        given: One result, or one result by the name of its run.

    Raises:
        ArgumentError: There are several results, or the result has no predictions.
    """
    runs = named(given)
    if len(runs) > 1:
        raise ArgumentError(f"expected one result, got {len(runs)}. Plot them one by one")
    (result,) = runs.values()
    panels = []
    rows = []
    for dataset, details in result.details.items():
        counts = confusion_counts(details)
        if not counts:
            continue
        labels = labels_of(details)
        panels.append(_matrix_panel(dataset, labels, counts))
        for truth, counts_of_truth in enumerate(counts):
            for predicted, queries in enumerate(counts_of_truth):
                rows.append([dataset, labels[truth], labels[predicted], str(queries)])
    if not panels:
        raise ArgumentError("the result has no predictions of queries")
    return Figure(
        "Confusion matrices",
        "Queries of all conditions by true label (row) and predicted label (column). Blue is correct, orange is wrong."
        + confusion_note(result),
        panels,
        ["data set", "true label", "predicted label", "queries"],
        rows,
        words=(1, 2),
    )


def _matrix_panel(dataset: str, labels: tuple[str, ...], counts: list[list[int]]) -> Panel:
    """Return the confusion matrix of a data set as a panel.

    The shade of a cell is its share of the queries of the true label. Correct predictions have the first colour, wrong
    ones the second.

    Args:
        dataset: The name of the data set.
        labels: Its label names.
        counts: The number of queries of each predicted label (columns), by true label (rows).
    """
    cells = []
    for truth, counts_of_truth in enumerate(counts):
        total = sum(counts_of_truth) or 1  # A label without queries has the shares 0.
        for predicted, queries in enumerate(counts_of_truth):
            colour = 0 if truth == predicted else 1
            middle = (predicted, truth)
            cells.append(Shape([middle], series=colour, kind="cell", text=str(queries), size=queries / total))
    across = row_axis(labels, 7)._replace(ends=(-0.5, len(labels) - 0.5), label="predicted label")
    return Panel(dataset, across, row_axis(labels), cells, width=124 + 52 * len(labels))

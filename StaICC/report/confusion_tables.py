"""Confusion matrices as tables, whose cells select queries."""

from __future__ import annotations

import json
from collections.abc import Sequence

from StaICC.report.figures.confusion_plot import confusion_counts, confusion_note
from StaICC.report.html import Markup, element, join
from StaICC.report.label_names import labels_of
from StaICC.report.runs_by_name import ResultsByRun
from StaICC.report.tables import table
from StaICC.safe_text import json_escaped, valid_unicode

_MOST_LABELS = 12
"""Of larger label spaces, only the most frequent confusions are listed."""
_MOST_CONFUSIONS = 20
"""How many of them."""


def confusion_tables(run: str, results: ResultsByRun) -> str:
    """Return a confusion matrix for each data set; of a large label space, its most frequent confusions.

    Args:
        run: Name of the run.
        results: Its result of a benchmark.
    """
    (result,) = results.values()
    tables: list[str] = []
    for dataset, details in result.details.items():
        counts = confusion_counts(details)
        if not counts:
            continue
        labels = labels_of(details)
        cells = _cells(counts, data_of_table=[valid_unicode(run), result.benchmark, dataset])
        if len(labels) > _MOST_LABELS:
            head = ["true label", "predicted label", "queries"]
            rows = _most_frequent_confusions(counts, labels, cells)
            tables.append(table(f"{dataset}, {run}: confusions", head, rows, words=(1,), classes="sortable heat"))
        else:
            rows = [[label, *row] for label, row in zip(labels, cells, strict=True)]
            tables.append(table(f"{dataset}, {run}", ["true \\ predicted", *labels], rows, classes="heat"))
    colours = "Rows are true labels. Blue is correct, orange is wrong."
    return join([element("p", colours + confusion_note(result), class_="soft"), *tables])


def _cells(counts: Sequence[Sequence[int]], data_of_table: Sequence[str]) -> list[list[Markup]]:
    """Return the cells of a matrix, each shaded by its share of the queries of the true label.

    A click on a cell shows its queries. The script of the page finds them by the cell's attribute ``data-queries``: the
    run, the benchmark, the data set, the true label and the predicted label.

    Args:
        counts: The number of queries by true label and predicted label.
        data_of_table: The run, the benchmark and the data set.
    """
    cells = []
    for truth, counts_of_truth in enumerate(counts):
        total = sum(counts_of_truth) or 1  # a label without queries has only zeros
        row = []
        for predicted, n_queries in enumerate(counts_of_truth):
            colour = "h" if truth == predicted else "e"  # hit, error
            shade = round(10 * n_queries / total)
            address = json_escaped(json.dumps([*data_of_table, truth, predicted]), only_ascii=True)
            row.append(element("td", str(n_queries), class_=f"{colour}{shade}", data_queries=address))
        cells.append(row)
    return cells


def _most_frequent_confusions(
    counts: Sequence[Sequence[int]], labels: Sequence[str], cells: Sequence[Sequence[Markup]]
) -> list[list[str]]:
    """Return the rows of the table of the most frequent confusions: true label, predicted label and number of queries.

    A confusion is a pair of a true label and another predicted label. Pairs with the same number of queries are in the
    order of the labels.

    Args:
        counts: The number of queries by true label and predicted label.
        labels: The names of the labels.
        cells: The cells of the matrix, which have these numbers.
    """
    confusions: list[tuple[int, int]] = []
    for truth, counts_of_truth in enumerate(counts):
        for predicted, n_queries in enumerate(counts_of_truth):
            if n_queries > 0 and truth != predicted:
                confusions.append((truth, predicted))
    confusions.sort(key=lambda confusion: counts[confusion[0]][confusion[1]], reverse=True)
    rows = []
    for truth, predicted in confusions[:_MOST_CONFUSIONS]:
        rows.append([labels[truth], labels[predicted], cells[truth][predicted]])
    return rows

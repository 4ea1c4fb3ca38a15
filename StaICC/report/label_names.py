"""The label names of a data set, as figures show them."""

from __future__ import annotations

from StaICC.results.details import DatasetDetails


def labels_of(details: DatasetDetails) -> tuple[str, ...]:
    """Return the label names of a data set; label indices if the result has no names.

    Args:
        details: The details of the data set.
    """
    if details.labels:
        return details.labels
    highest = -1
    for condition in details.conditions:
        for label in (*condition.truth, *condition.predictions):
            if label is not None:
                highest = max(highest, label)
    return tuple(str(label) for label in range(highest + 1))

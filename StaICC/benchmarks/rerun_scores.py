"""What a rerun says about a score.

A prediction that is computed again may differ from the saved one by the tolerance of its kernel. So the saved label of
a close prediction proves little: whoever writes the file could have chosen the right one of two labels. The accuracy of
the queries that were predicted again is therefore shown as it was recomputed. That of all queries is confirmed as a
range only: from the accuracy with all close predictions wrong to that with all of them right.

A query without a saved label counts as wrong in the accuracy of all queries, although the accuracy in the file may
leave it out: whoever writes the file could have called a wrong prediction failed.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from StaICC.inference.contract import Answer
from StaICC.inference.replies import Failure
from StaICC.safe_text import one_line


@dataclass(frozen=True, slots=True)
class RerunScore:
    """The accuracies of a result whose queries were predicted again in part."""

    benchmark: str
    queries: int
    """How many queries were predicted again."""
    recomputed: float
    """Their accuracy with the new predictions."""
    saved: float
    """Their accuracy with the saved predictions."""
    all_queries: int
    """How many queries the data sets of these queries have."""
    saved_of_all: float
    """The accuracy of all of these with the saved predictions."""
    low: float
    """The same with all close predictions wrong, and with the new predictions."""
    high: float
    """The same with all close predictions right, and with the new predictions."""
    missing: int = 0
    """How many of all queries have no saved label. They count as wrong here; the accuracy in the file may leave them
    out."""

    def __str__(self) -> str:
        text = (
            f"{one_line(self.benchmark)}: accuracy of the {self.queries} queries {self.recomputed:.4f} recomputed, "
            f"{self.saved:.4f} saved; of all {self.all_queries} queries {self.saved_of_all:.4f} saved, confirmed as "
            f"{self.low:.4f} to {self.high:.4f}"
        )
        if self.missing:
            text += (
                f" ({self.missing} of them without a saved label count as wrong here; the accuracy in the file may "
                "leave them out)"
            )
        return text


def possible_labels(answer: Answer | Failure, tolerance: float) -> set[int | None]:
    """Return the labels that a prediction may name if it is computed again.

    Args:
        answer: A saved prediction; a failed query has no label.
        tolerance: The accepted difference of two predictions, as the recheck measures it
            (:func:`StaICC.inference.recheck.difference`).
    """
    if isinstance(answer, int):
        return {answer}
    if not isinstance(answer, list):
        return set()
    top = max(answer)
    span = max(1.0, top - min(answer))
    return {label for label, score in enumerate(answer) if score == top or (top - score) / 2 / span <= tolerance}


def label_of(answer: Answer | Failure) -> int | None:
    """Return the label that a prediction names; ``None`` if it names none."""
    if isinstance(answer, int):
        return int(answer)
    return answer.index(max(answer)) if isinstance(answer, list) else None


@dataclass(frozen=True, slots=True)
class DatasetRerun:
    """A data set of which some queries were predicted again."""

    truth: Sequence[int]
    """The true label of each query."""
    saved: Sequence[Answer | Failure]
    """The saved prediction of each query."""
    again: Mapping[int, Answer | Failure]
    """The new prediction of some queries, by their number; at least one."""

    def right(self, answers: Sequence[Answer | Failure]) -> list[bool]:
        """Return for each query whether a prediction names its true label."""
        return [label_of(answer) == label for answer, label in zip(answers, self.truth, strict=True)]

    def accuracy_range(self, tolerance: float) -> tuple[float, float]:
        """Return the accuracies with all close predictions wrong and with all of them right."""
        certain = possible = 0
        for number, (answer, label) in enumerate(zip(self.saved, self.truth, strict=True)):
            labels = possible_labels(answer, tolerance)
            if number in self.again:
                labels = {label_of(self.again[number])}
            possible += label in labels
            certain += labels == {label}
        return certain / len(self.truth), possible / len(self.truth)


def rerun_score(benchmark: str, datasets: Sequence[DatasetRerun], tolerance: float) -> RerunScore:
    """Return the accuracies of a result, of which some queries were predicted again.

    Args:
        benchmark: Its name.
        datasets: Its data sets with such queries; accuracies of all queries are means over them.
        tolerance: The accepted difference.
    """
    recomputed: list[bool] = []
    saved: list[bool] = []
    for dataset in datasets:
        right = dataset.right(dataset.saved)
        recomputed += [label_of(answer) == dataset.truth[number] for number, answer in dataset.again.items()]
        saved += [right[number] for number in dataset.again]
    ranges = [dataset.accuracy_range(tolerance) for dataset in datasets]
    accuracies = [mean_of(dataset.right(dataset.saved)) for dataset in datasets]
    return RerunScore(
        benchmark,
        queries=len(recomputed),
        recomputed=mean_of(recomputed),
        saved=mean_of(saved),
        all_queries=sum(len(dataset.truth) for dataset in datasets),
        saved_of_all=mean_of(accuracies),
        low=mean_of([low for low, _ in ranges]),
        high=mean_of([high for _, high in ranges]),
        missing=sum(label_of(answer) is None for dataset in datasets for answer in dataset.saved),
    )


def mean_of(values: Sequence[float]) -> float:
    """Return the mean of some numbers, of which there is at least one."""
    return math.fsum(values) / len(values)

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
from typing import NamedTuple

from StaICC.inference.contract import Answer
from StaICC.inference.replies import Failure
from StaICC.safe_text import one_line


@dataclass(frozen=True, slots=True)
class RerunScore:
    """The accuracies of a result of which some queries were predicted again."""

    benchmark: str
    """The name of the benchmark."""
    queries: int
    """The number of queries that were predicted again."""
    recomputed: float
    """The accuracy of these queries with the new predictions."""
    saved: float
    """The accuracy of these queries with the saved predictions."""
    all_queries: int
    """The number of all queries of the data sets in which queries were predicted again."""
    saved_of_all: float
    """The accuracy of all queries with the saved predictions."""
    low: float
    """The lowest possible accuracy of all queries: with the new predictions, and all close predictions wrong."""
    high: float
    """The highest possible accuracy of all queries: with the new predictions, and all close predictions right."""
    missing: int = 0
    """The number of queries without a saved label. They count as wrong here, but the accuracy in the file may leave
    them out."""

    def __str__(self) -> str:
        """Return the accuracies in one line, with the number of queries that each is about."""
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
    """Return the labels that a prediction may have if it is computed again; an empty set for a failed query.

    Each score may change by the tolerance times the range of the scores (at least 1). The highest score may fall and
    another one rise, so a label is possible if

    ``(highest score - score of the label) / 2 / range <= tolerance``.

    For the scores ``[0.5, 0.499, 0.001]`` and the tolerance 0.001, the range is 1, and the labels 0 and 1 are possible.
    A recheck measures differences in the same way (:func:`StaICC.inference.recheck.difference`).

    Args:
        answer: A saved prediction: a label index, or one score for each label.
        tolerance: The largest accepted difference of two predictions.
    """
    if isinstance(answer, int):
        return {answer}
    if not isinstance(answer, list):
        return set()
    highest_score = max(answer)
    score_range = max(1.0, highest_score - min(answer))
    labels: set[int | None] = set()
    for label, score in enumerate(answer):
        # Infinite scores have no distance, but a score that is equal to the highest one is possible.
        if score == highest_score or (highest_score - score) / 2 / score_range <= tolerance:
            labels.add(label)
    return labels


def label_of(answer: Answer | Failure) -> int | None:
    """Return the label of a prediction; ``None`` if the query failed.

    Of label scores, it is the label with the highest score, the first one of several.
    """
    if isinstance(answer, int):
        return int(answer)
    if isinstance(answer, list):
        return answer.index(max(answer))
    return None


class AccuracyRange(NamedTuple):
    """The lowest and the highest possible accuracy of all queries of a data set."""

    lowest: float
    highest: float


@dataclass(frozen=True, slots=True)
class DatasetRerun:
    """The saved predictions of all queries of a data set, and the new predictions of some of them."""

    truth: Sequence[int]
    """The true label of each query."""
    saved: Sequence[Answer | Failure]
    """The saved prediction of each query."""
    again: Mapping[int, Answer | Failure]
    """The new prediction of some queries, by their number; at least one."""

    @property
    def saved_accuracy(self) -> float:
        """The accuracy of all queries with the saved predictions."""
        is_right = []
        for answer, true_label in zip(self.saved, self.truth, strict=True):
            is_right.append(label_of(answer) == true_label)
        return mean_of(is_right)

    @property
    def missing(self) -> int:
        """The number of queries without a saved label."""
        return sum(label_of(answer) is None for answer in self.saved)

    def accuracy_range(self, tolerance: float) -> AccuracyRange:
        """Return the lowest and the highest possible accuracy of all queries of the data set.

        A query that was predicted again counts with its new prediction. For any other query, several labels may be
        possible within the tolerance (:func:`possible_labels`). In the lowest accuracy, the query is right if the true
        label is the only possible one. In the highest accuracy, the query is right if the true label is possible.

        Args:
            tolerance: The largest accepted difference of two predictions.
        """
        certainly_right = 0
        possibly_right = 0
        for number, (saved_answer, true_label) in enumerate(zip(self.saved, self.truth, strict=True)):
            if number in self.again:
                labels = {label_of(self.again[number])}
            else:
                labels = possible_labels(saved_answer, tolerance)
            if labels == {true_label}:
                certainly_right += 1
            if true_label in labels:
                possibly_right += 1
        n = len(self.truth)
        return AccuracyRange(lowest=certainly_right / n, highest=possibly_right / n)


def rerun_score(benchmark: str, datasets: Sequence[DatasetRerun], tolerance: float) -> RerunScore:
    """Return the accuracies of a result of which some queries were predicted again.

    The accuracy of all queries is the mean of the accuracies of the data sets, as in the result. The accuracy of the
    queries that were predicted again is the share of right predictions among them, over all data sets together.

    Args:
        benchmark: The name of its benchmark.
        datasets: The data sets with queries that were predicted again.
        tolerance: The largest accepted difference of two predictions.
    """
    # The queries that were predicted again, over all data sets together.
    recomputed_right: list[bool] = []
    saved_right: list[bool] = []
    for dataset in datasets:
        for number, answer in dataset.again.items():
            recomputed_right.append(label_of(answer) == dataset.truth[number])
            saved_right.append(label_of(dataset.saved[number]) == dataset.truth[number])

    # All queries, data set by data set.
    ranges = [dataset.accuracy_range(tolerance) for dataset in datasets]
    return RerunScore(
        benchmark,
        queries=len(recomputed_right),
        recomputed=mean_of(recomputed_right),
        saved=mean_of(saved_right),
        all_queries=sum(len(dataset.truth) for dataset in datasets),
        saved_of_all=mean_of([dataset.saved_accuracy for dataset in datasets]),
        low=mean_of([possible.lowest for possible in ranges]),
        high=mean_of([possible.highest for possible in ranges]),
        missing=sum(dataset.missing for dataset in datasets),
    )


def mean_of(values: Sequence[float]) -> float:
    """Return the mean of one or more numbers."""
    return math.fsum(values) / len(values)

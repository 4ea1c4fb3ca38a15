"""The classification metrics from sums over test rows, for whoever has to compute them a thousand times.

Accuracy, likelihood, macro F1 and calibration error are functions of sums over queries. Summed up once for
each test row, they can be had for any resample or exchange of rows without scoring again.
:mod:`StaICC.metrics.classification` defines the metrics; a test holds the two together.
"""

from __future__ import annotations

import math
from bisect import bisect_right
from collections.abc import Sequence
from dataclasses import dataclass

from StaICC.errors import ArgumentError
from StaICC.metrics.classification import check_labels, check_probabilities
from StaICC.metrics.normalise import numeric_rows
from StaICC.metrics.resampling import group_by_row

__all__ = ["ClassificationSums"]

_BINS = 10
_EDGES = [number / _BINS for number in range(1, _BINS)]
"""Inner edges of the confidence bins; the last bin is closed, as in :mod:`StaICC.metrics.classification`."""


@dataclass(frozen=True, slots=True)
class ClassificationSums:
    """The sums over queries from which the four classification metrics follow.

    Columns: for each label how often it was predicted and true, how often predicted, how often true; then the
        likelihood
    of the true label; then for each confidence bin by how much right answers exceed confidence. The last two
    parts need probabilities and are left out without them.

    Attributes:
        n_labels: Size of the label space.
        likelihood: Whether the rows are probabilities. Without it there are only accuracy and macro F1.

    Example:
        >>> sums = ClassificationSums(2)
        >>> columns = sums.of_rows([0, 1], [[0.75, 0.25], [0.75, 0.25]], rows=[0, 1])
        >>> sums.metrics([sum(column) for column in zip(*columns)])["accuracy"]
        0.5
    """

    n_labels: int
    likelihood: bool = True

    def of_rows(
        self, ground_truth: Sequence[int], prediction: Sequence[Sequence[float]], rows: Sequence[int]
    ) -> list[list[float]]:
        """Sum up each test row.

        Args:
            ground_truth: One label index per query.
            prediction: One row per query, one number per label; probabilities if `likelihood` is set.
            rows: Test row of each query.

        Returns:
            The columns of each test row, in rising order of the row.

        Raises:
            ArgumentError: True labels, predictions, rows and label space do not fit each other.
            OutputError: A row of the predictions cannot be read as numbers, or is no distribution where it
                must be.
        """
        checked = check_probabilities(prediction) if self.likelihood else numeric_rows(prediction)
        if checked and len(checked[0]) != self.n_labels:
            raise ArgumentError(f"the predictions have {len(checked[0])} columns, but there are {self.n_labels} labels")
        truth = check_labels(ground_truth, len(checked), self.n_labels)
        L = self.n_labels
        summed = []
        for group in group_by_row(rows, len(checked)):
            counts = [0] * (3 * L)
            likelihoods: list[float] = []
            excess: list[list[float]] = [[] for _ in range(_BINS)]
            for position in group:
                true, row = truth[position], checked[position]
                confidence = max(row)
                predicted = row.index(confidence)
                counts[true] += predicted == true
                counts[L + predicted] += 1
                counts[2 * L + true] += 1
                if self.likelihood:
                    likelihoods.append(row[true])
                    excess[bisect_right(_EDGES, confidence)].append((predicted == true) - confidence)
            summed.append([*counts, *([math.fsum(likelihoods), *map(math.fsum, excess)] if self.likelihood else [])])
        return summed

    def metrics(self, sums: Sequence[float]) -> dict[str, float]:
        """Compute the metrics from column sums.

        Args:
            sums: Sum of each column of :meth:`of_rows` over any rows, at least one.

        Returns:
            The metrics by the name of their function in :mod:`StaICC.metrics.classification`.
        """
        L = self.n_labels
        n = sum(sums[2 * L : 3 * L])
        scores = [
            2 * hits / (predicted + true) if hits else 0.0
            for hits, predicted, true in zip(sums[:L], sums[L : 2 * L], sums[2 * L : 3 * L], strict=True)
        ]
        values = {"accuracy": sum(sums[:L]) / n, "macro_F1": math.fsum(scores) / L}
        if self.likelihood:
            values["averaged_truelabel_likelihood"] = sums[3 * L] / n
            values["expected_calibration_error_1"] = math.fsum(map(abs, self.excess(sums))) / n
        return values

    def excess(self, sums: Sequence[float]) -> Sequence[float]:
        """Take the sums of the confidence bins: right answers minus confidence.

        Args:
            sums: Sum of each column of :meth:`of_rows`.

        Returns:
            One number a bin.
        """
        return sums[3 * self.n_labels + 1 :]

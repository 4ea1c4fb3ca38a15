r"""Batch calibration (Zhou et al. 2024, "Batch Calibration"): divide by the batch's mean prediction.

Predictions become :math:`p_{iy} / \bar p_y`, divided by their sum, with the mean :math:`\bar p` over the batch: a
subtraction of logarithms. It needs no training, but all predictions at once.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from StaICC.arguments import validate_integer
from StaICC.errors import ArgumentError, TooFewRowsError
from StaICC.methods.batches import in_batches
from StaICC.methods.contract import MethodData, MethodSpec, Steps
from StaICC.methods.label_scores import divided, label_rows, mean_row, read_probabilities
from StaICC.methods.present_rows import apply_present

_OF_ONE_PREDICTION = (
    "batch calibration over batches of 1 makes every prediction uniform; it needs two predictions at least, and better "
    "a hundred"
)


@dataclass(frozen=True, slots=True)
class BatchOptions:
    """Options of batch calibration."""

    batch_size: int = 128
    """Predictions in a batch."""


def batch_calibrated(rows: Sequence[Any], batch_size: int = 128) -> list[list[float]]:
    r"""Return predictions divided by the mean prediction of their batch: :math:`p_{iy} / \bar p_y`, divided by the sum.

    Batches are consecutive predictions. A last batch that is not full takes the mean of the last ``batch_size``
    predictions, since the mean of a few says nothing. A label that has probability 0 throughout a batch keeps it.

    Args:
        rows: One row for each prompt: probabilities or logits.
        batch_size: Predictions in a batch.

    Raises:
        ArgumentError: The batch size is no integer of at least 1, or it is 1: a prediction that is divided by itself
            is uniform, whatever it was.
        TooFewRowsError: There is a single prediction.
        OutputError: A row cannot be read.

    Example:
        >>> calibrated = batch_calibrated([[0.8, 0.2], [0.8, 0.2], [0.2, 0.8]])
        >>> [round(11 * value, 6) for value in calibrated[0]]  # 0.8 / 0.6 : 0.2 / 0.4 = 8 : 3
        [8.0, 3.0]
    """
    size = validate_integer("batch_size", batch_size, 1)
    scores = label_rows(rows, None, "prediction")
    if not scores:
        return []
    has_several_labels = len(scores[0]) > 1
    if has_several_labels and size == 1:
        raise ArgumentError(_OF_ONE_PREDICTION)
    if has_several_labels and len(scores) == 1:
        raise TooFewRowsError(_OF_ONE_PREDICTION)
    probabilities, _ = read_probabilities(scores, "auto")

    calibrated = []
    for batch in in_batches(probabilities, size):
        is_full = len(batch) == size
        rows_of_mean = batch if is_full else probabilities[-size:]
        mean = mean_row(rows_of_mean)
        calibrated += [divided(row, mean) for row in batch]
    return calibrated


def batch_calibration(data: MethodData) -> Steps:
    """Divide each prediction by the mean prediction of a batch, each condition of the benchmark alone."""
    (rows,) = yield [data.ask()]

    def calibrate(known_rows: list[Any]) -> list[list[float]]:
        """Return the calibrated predictions of the queries of one condition that did not fail."""
        return batch_calibrated(known_rows, data.options.batch_size)

    calibrated: list[Any] = []
    for rows_of_condition in data.rows_by_condition(rows):
        calibrated += apply_present(rows_of_condition, calibrate)  # failures keep their places
    return data.predictions(calibrated)


BATCH_CALIBRATION = MethodSpec("batch_calibration", "Batch calibration", batch_calibration, options=BatchOptions)

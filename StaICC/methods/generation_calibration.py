"""Calibrated replies: the labels' shares among samples, divided by their mean over a batch.

The correction is that of batch calibration (Zhou et al. 2024), with shares in the place of probabilities, so that it
works where a model returns text only.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

from StaICC.arguments import validate_integer
from StaICC.kernels.protocol import Capability
from StaICC.methods.batch_calibration import batch_calibrated
from StaICC.methods.contract import MethodData, MethodSpec, Steps
from StaICC.methods.generate import GenerationOptions, sampled_shares
from StaICC.methods.present_rows import apply_present


@dataclass(frozen=True, slots=True)
class CalibratedGenerationOptions(GenerationOptions):
    """Options of calibrated replies."""

    samples: int = 10
    """Texts for each query, whose labels are counted."""
    batch_size: int = 128
    """Queries in a batch."""


def generation_calibration(data: MethodData) -> Steps:
    r"""Predict labels from the texts that the model writes, with batch calibration.

    The model writes several texts after each query. With :math:`s_y` the share of them that name the label :math:`y`,
    and :math:`\bar s_y` the mean share in a batch of queries, the predictions are :math:`s_y / \bar s_y`, divided by
    their sum. Batches have queries of one condition of the benchmark.
    """
    sample_count = validate_integer("samples", data.options.samples, 2)
    shares_of_queries = yield from sampled_shares(data, replace(data.options, samples=sample_count))

    def calibrate(shares: list[Any]) -> list[Any]:
        """Return the predictions of queries of one condition from the shares of their texts."""
        return _calibrated_shares(data, shares)

    predictions: list[Any] = []
    for shares_of_condition in data.rows_by_condition(shares_of_queries):
        # Queries without any text have a failure, which is their prediction.
        predictions += apply_present(shares_of_condition, calibrate)
    return data.predictions(predictions)


def _calibrated_shares(data: MethodData, shares: Sequence[Any]) -> list[Any]:
    """Return the shares of queries, divided by their mean in a batch (:func:`batch_calibrated`).

    Args:
        data: The data of the method; it gets a warning if a single query has shares.
        shares: For each query the share of each label among its texts; a text if none of them names a label.

    Returns:
        The predictions. A text stays as it is: it is scored as a reply without a label.
    """
    positions = []  # of the queries that have shares
    for position, row in enumerate(shares):
        if not isinstance(row, str):
            positions.append(position)
    predictions = list(shares)
    if len(positions) == 1:
        data.warn("one reply only has a label, so it is not calibrated: there is no mean of a batch")
        return predictions
    calibrated = batch_calibrated([shares[position] for position in positions], data.options.batch_size)
    for position, prediction in zip(positions, calibrated, strict=True):
        predictions[position] = prediction
    return predictions


GENERATION_CALIBRATION = MethodSpec(
    "generation_calibration",
    "Calibrated replies",
    generation_calibration,
    frozenset({Capability.TEXT}),
    options=CalibratedGenerationOptions,
)

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
    """Divide the share of samples that name each label by its mean; queries without a label stay unparsed."""
    options = replace(data.options, samples=validate_integer("samples", data.options.samples, 2))
    rows = yield from sampled_shares(data, options)
    calibrated: list[Any] = []
    for rows_of_condition in data.rows_by_condition(rows):
        calibrated += apply_present(rows_of_condition, lambda present_rows: _calibrated(data, present_rows))
    return data.predictions(calibrated)


def _calibrated(data: MethodData, rows: Sequence[Any]) -> list[Any]:
    """Return the predictions of a condition, calibrated; replies without a label stay as they are."""
    scored = [row for row in rows if not isinstance(row, str)]
    if len(scored) == 1:
        data.warn("one reply only has a label, so it is not calibrated: there is no mean of a batch")
        return list(rows)
    calibrated = iter(batch_calibrated(scored, data.options.batch_size))
    return [row if isinstance(row, str) else next(calibrated) for row in rows]


GENERATION_CALIBRATION = MethodSpec(
    "generation_calibration",
    "Calibrated replies",
    generation_calibration,
    frozenset({Capability.TEXT}),
    options=CalibratedGenerationOptions,
)

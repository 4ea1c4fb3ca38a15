"""Calibrated replies: the labels' shares among samples, divided by their mean over a batch.

The correction is that of batch calibration (Zhou et al. 2024), with shares in the place of probabilities, so that it
works where a model returns text only.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, cast

from StaICC.arguments import validate_integer
from StaICC.kernels.protocol import Capability
from StaICC.methods.calibration.prior import batch_calibration
from StaICC.methods.generate import GenerationOptions, generate
from StaICC.methods.specification import MethodData, MethodSpec, Steps


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
    rows = yield from generate(replace(data, options=options))
    return data.by_condition(cast("Sequence[Any]", rows), [partial(_calibrated, data)])


def _calibrated(data: MethodData, rows: Sequence[Any]) -> list[Any]:
    """Return the predictions of a condition, calibrated; replies without a label stay as they are."""
    scored = [row for row in rows if not isinstance(row, str)]
    if len(scored) == 1:
        data.warnings.append("one reply only has a label, so it is not calibrated: there is no mean of a batch")
        return list(rows)
    calibrated = iter(batch_calibration(scored, data.options.batch_size, variant=data.variant))
    return [row if isinstance(row, str) else next(calibrated) for row in rows]


_TEXT = frozenset({Capability.TEXT})


GENERATION_CALIBRATION = MethodSpec(
    "generation_calibration", "Calibrated replies", generation_calibration, _TEXT, options=CalibratedGenerationOptions
)

r"""Hidden calibration (Cho et al. 2024, "Token-based Decision Criteria Are Suboptimal in In-context Learning").

Each label's centroid is the mean of the last hidden states of its calibration prompts; a prompt belongs to the nearest
centroid. Probabilities are :math:`\operatorname{softmax}_y(-\lVert h - \bar h_y \rVert_2)`. It needs hidden states, and
no output matrix at all.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

from StaICC.kernels.protocol import Capability
from StaICC.methods.contract import MethodData, MethodSpec, Steps
from StaICC.methods.learned_state import ANY, LABELS, Array, learned
from StaICC.methods.nearness import centroids, check_width, euclidean, finite_matrix, softmax_rows
from StaICC.methods.trained_calibration import Calibration, TrainingPrompts, TrainingRows, calibrate
from StaICC.methods.training_prompts import TrainingSource, labelled_prompts

AUTHORS_SAMPLES = 16
"""Rows of each label with which the authors train."""


@dataclass(frozen=True, slots=True)
class SampleOptions:
    """Options of calibrations from labelled prompts."""

    samples_per_label: int | None = None
    """Calibration rows of each label; none: in variant paper 16 for hidden calibration and equal shares of
    calibration_number for k-NN, otherwise calibration_number rows of any label."""


@dataclass(frozen=True, eq=False)
class CentroidState:
    """The mean vector of each label."""

    centroids: Array = learned(LABELS, ANY, array=True)


def learn(states: Any, labels: Sequence[int], label_space: Sequence[str]) -> CentroidState:
    """Return the mean hidden state of the prompts of each label.

    Raises:
        ArgumentError: A label has no prompt.
    """
    points = finite_matrix(states, "calibration hidden state")
    return CentroidState(centroids(points, labels, label_space))


def apply(state: CentroidState, states: Any, label_space: Sequence[str]) -> list[list[float]]:
    """Return the softmax of minus the distances to the centroids."""
    points = finite_matrix(states, "hidden state")
    check_width(points, state.centroids)
    probabilities: list[list[float]] = softmax_rows(-euclidean(points, state.centroids)).tolist()
    return probabilities


def write_labelled(per_label: int | None, source: TrainingSource) -> TrainingPrompts:
    """Write labelled prompts.

    Args:
        per_label: Rows of each label; ``None`` for ``calibration_number`` rows of any label.
        source: What they are written from.
    """
    prompts, labels = labelled_prompts(source, per_label)
    return TrainingPrompts(labelled=prompts, labels=labels)


def _learn(rows: TrainingRows, label_space: Sequence[str]) -> CentroidState:
    """Return the centroid of the hidden states after the prompts of each label (:func:`learn`)."""
    return learn(rows.labelled, rows.labels, label_space)


def hidden(per_label: int | None = None) -> Calibration:
    """Return the calibration.

    Args:
        per_label: Training rows of each label; ``None`` for ``calibration_number`` rows of any label.
    """
    return Calibration(CentroidState, partial(write_labelled, per_label), _learn, apply, "hidden")


def hidden_calibration(data: MethodData) -> Steps:
    """Predict the label whose centroid of hidden states is nearest."""
    per_label = data.options.samples_per_label
    if per_label is None and data.variant == "paper":
        per_label = AUTHORS_SAMPLES
    return (yield from calibrate(data, hidden(per_label)))


HIDDEN_CALIBRATION = MethodSpec(
    "hidden_calibration",
    "Hidden calibration",
    hidden_calibration,
    frozenset({Capability.HIDDEN_STATES}),
    options=SampleOptions,
)

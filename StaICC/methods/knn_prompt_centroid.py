r"""k-nearest-neighbour prompting with one centroid for each label, the form of StaICC's Table 2 (its appendix B.2).

The divergence of k-NN prompting, between each label's mean distribution over the vocabulary and that of the prompt:
:math:`\operatorname{softmax}_y(-D_{KL}(\bar p_y \Vert p))`. It needs the logits of the full vocabulary.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Any

from StaICC.kernels.protocol import Capability
from StaICC.methods.contract import MethodData, MethodSpec, Steps
from StaICC.methods.hidden_calibration import CentroidState, write_labelled
from StaICC.methods.knn_prompt import AnchorOptions, calibrate_with_anchors, samples_per_label
from StaICC.methods.nearness import (
    centroids,
    check_width,
    distributions,
    finite_matrix,
    kullback_leibler,
    softmax_rows,
)
from StaICC.methods.trained_calibration import Calibration, TrainingRows


def learn(logits: Any, labels: Sequence[int], label_space: Sequence[str]) -> CentroidState:
    """Return the mean distribution after the prompts of each label.

    Raises:
        ArgumentError: A label has no prompt.
    """
    points = finite_matrix(logits, "calibration row of logits")
    return CentroidState(centroids(distributions(points), labels, label_space))


def apply(state: CentroidState, logits: Any, label_space: Sequence[str]) -> list[list[float]]:
    """Return the softmax of minus the divergences from the centroids."""
    points = finite_matrix(logits, "row of logits")
    check_width(points, state.centroids)
    probabilities: list[list[float]] = softmax_rows(-kullback_leibler(points, state.centroids)).tolist()
    return probabilities


def _learn(rows: TrainingRows, label_space: Sequence[str]) -> CentroidState:
    """Return the mean distribution of the next token after the prompts of each label (:func:`learn`)."""
    return learn(rows.labelled, rows.labels, label_space)


def nearest_centroid(per_label: int | None = None) -> Calibration:
    """Return the calibration.

    Args:
        per_label: Training rows of each label; ``None`` for ``calibration_number`` rows of any label.
    """
    return Calibration(CentroidState, partial(write_labelled, per_label), _learn, apply, "vocabulary")


def knn_prompt_centroid(data: MethodData) -> Steps:
    """Predict the label whose mean distribution is nearest."""
    calibration = nearest_centroid(samples_per_label(data))
    return (yield from calibrate_with_anchors(data, calibration, data.templates()))


KNN_PROMPT_CENTROID = MethodSpec(
    "knn_prompt_centroid",
    "k-NN (centroids)",
    knn_prompt_centroid,
    frozenset({Capability.FULL_VOCABULARY}),
    options=AnchorOptions,
)

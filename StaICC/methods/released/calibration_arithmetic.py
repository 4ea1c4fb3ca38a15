"""The arithmetic of the calibrations of 0.1.1, equal to the released wheel within 1.4e-15 in 870 random cases.

Scores are taken as they are, probabilities or not. Calibrations by nearness give up where a label was not drawn: they
then predict as the model does (:class:`NotCalibrated`). A second training continues the first: see each ``learn``.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

from StaICC.arguments import validate_integer
from StaICC.methods import knn_prompt
from StaICC.methods.batches import in_batches
from StaICC.methods.hidden_calibration import CentroidState
from StaICC.methods.knn_prompt import AnchorState
from StaICC.methods.label_prior import PriorState
from StaICC.methods.label_scores import label_rows, mean_row
from StaICC.methods.nearness import (
    centroids,
    check_width,
    euclidean,
    finite_matrix,
    labels_without_rows,
    softmax_rows,
)
from StaICC.methods.packed_features import numpy
from StaICC.methods.released import training_prompts
from StaICC.methods.requests import Feature
from StaICC.methods.trained_calibration import Calibration, TrainingPrompts, TrainingRows
from StaICC.methods.training_prompts import TrainingSource
from StaICC.metrics.classification import softmax

FLOOR = 1e-5
"""0.1.1 adds this to the sum of the predictions before dividing by their number."""
SAMPLE_LENGTH = 64
"""Words of a domain text."""

# -- label priors


def learn_prior(rows: TrainingRows, label_space: Sequence[str], before: PriorState | None = None) -> PriorState:
    r"""Return the label prior :math:`\hat p_y = (c_y + \sum_t p_{ty}) / n` over n content-free prompts t.

    The constant :math:`c_y` is :data:`FLOOR`. In a second training, it is the earlier prior.

    Args:
        rows: The predictions for the prompts.
        label_space: The labels.
        before: The state after an earlier training; ``None`` in the first one.
    """
    scores = label_rows(rows.content_free, len(label_space), "calibration prompt")
    if before is None:
        constants: Sequence[float] = [FLOOR] * len(label_space)
    else:
        constants = before.prior
    scores_of_labels = list(zip(*scores, strict=True))
    prior = []
    for scores_of_label, constant in zip(scores_of_labels, constants, strict=True):
        prior.append((math.fsum(scores_of_label) + constant) / len(scores))
    return PriorState(tuple(prior))


def apply_prior(state: PriorState, rows: Sequence[Any], label_space: Sequence[str]) -> list[list[float]]:
    r"""Return :math:`\operatorname{softmax}(p / \hat p)` of each prediction :math:`p` with the prior :math:`\hat p`."""
    calibrated = []
    for row in label_rows(rows, len(label_space), "prompt"):
        quotients = [value / prior for value, prior in zip(row, state.prior, strict=True)]
        calibrated.append(softmax(quotients))
    return calibrated


def batch_calibration(rows: Sequence[Sequence[float]], batch_size: int) -> list[list[float]]:
    r"""Return :math:`\operatorname{softmax}(p - \bar p)` of each prediction :math:`p`, as the release computes it.

    :math:`\bar p` is the mean prediction of the batch. The last batch has the remaining rows, perhaps a single one.

    Args:
        rows: The predictions, as scores of the labels.
        batch_size: The number of rows of a batch.
    """
    batch_size = validate_integer("batch_size", batch_size, 1)
    calibrated = []
    for batch in in_batches(rows, batch_size):
        mean = mean_row(batch)
        for row in batch:
            differences = [value - mean_value for value, mean_value in zip(row, mean, strict=True)]
            calibrated.append(softmax(differences))
    return calibrated


# -- nearness


@dataclass(frozen=True)
class NotCalibrated:
    """The state where a label was not drawn: predictions stay as the model gives them."""

    labels_without_prompts: tuple[str, ...]
    training_prompts: int


def _not_calibrated(labels: Sequence[int], label_space: Sequence[str]) -> NotCalibrated | None:
    """Return the state where a label was not drawn; ``None`` if all were drawn."""
    missing = labels_without_rows(labels, label_space)
    if not missing:
        return None
    return NotCalibrated(tuple(missing), len(labels))


def learn_hidden_centroids(rows: TrainingRows, label_space: Sequence[str], before: Any = None) -> Any:
    """Return the mean hidden state of the training prompts of each label.

    If no training prompt has some label, nothing is calibrated, also after further trainings. Otherwise a further
    training changes nothing.

    Args:
        rows: The hidden states of the training prompts, and the labels of these.
        label_space: The labels.
        before: The state after an earlier training; ``None`` in the first one.
    """
    points = finite_matrix(rows.labelled, "calibration hidden state")
    if isinstance(before, NotCalibrated):
        return before
    not_calibrated = _not_calibrated(rows.labels, label_space)
    if not_calibrated is not None:
        return not_calibrated
    if before is not None:
        return before
    return CentroidState(centroids(points, rows.labels, label_space))


def learn_logit_centroids(rows: TrainingRows, label_space: Sequence[str], before: Any = None) -> Any:
    """Return the mean logits after the training prompts of each label.

    If no training prompt has some label, nothing is calibrated. A further training changes nothing.

    Args:
        rows: The logits after the training prompts, and the labels of these.
        label_space: The labels.
        before: The state after an earlier training; ``None`` in the first one.
    """
    points = finite_matrix(rows.labelled, "calibration row of logits")
    if before is not None:
        return before
    not_calibrated = _not_calibrated(rows.labels, label_space)
    if not_calibrated is not None:
        return not_calibrated
    return CentroidState(centroids(points, rows.labels, label_space))


def _apply_centroids(what: str, state: Any, rows: Any, label_space: Sequence[str]) -> list[list[float]]:
    """Return the softmax of minus the Euclidean distances to the centroids.

    Args:
        what: What a row is, for messages.
        state: The centroids, or :class:`NotCalibrated`.
        rows: Hidden states or logits; if nothing is calibrated, label scores, which are returned.
        label_space: The labels.
    """
    if isinstance(state, NotCalibrated):
        return label_rows(rows, len(label_space), "prompt")
    points = finite_matrix(rows, what)
    check_width(points, state.centroids)
    probabilities: list[list[float]] = softmax_rows(-euclidean(points, state.centroids)).tolist()
    return probabilities


def learn_anchors(voters: int, rows: TrainingRows, label_space: Sequence[str], before: Any = None) -> Any:
    """Return the logits after the training prompts with their labels, as anchors.

    A further training adds its anchors to those before. If no anchor has some label, nothing is calibrated, also after
    further trainings.

    Args:
        voters: How many of the nearest anchors vote.
        rows: The logits after the training prompts, and the labels of these.
        label_space: The labels.
        before: The state after an earlier training; ``None`` in the first one.
    """
    points = finite_matrix(rows.labelled, "calibration row of logits")
    labels = tuple(rows.labels)
    if isinstance(before, NotCalibrated):
        return before
    if before is not None:
        points = numpy.concatenate([before.anchors, points])
        labels = before.labels + labels
    not_calibrated = _not_calibrated(labels, label_space)
    if not_calibrated is not None:
        return not_calibrated
    knn_prompt.check_anchor_number(len(labels), voters)
    return AnchorState(points, labels, voters)


def apply_anchors(state: Any, rows: Any, label_space: Sequence[str]) -> list[list[float]]:
    """Return the softmax of how many of the nearest anchors (by Euclidean distance of logits) each label has.

    Args:
        state: The anchors, or :class:`NotCalibrated`.
        rows: Logits; if nothing is calibrated, label scores, which are returned.
        label_space: The labels.
    """
    if isinstance(state, NotCalibrated):
        return label_rows(rows, len(label_space), "prompt")
    points = finite_matrix(rows, "row of logits")
    check_width(points, state.anchors)
    counts = knn_prompt.votes(euclidean(points, state.anchors), state, len(label_space))
    probabilities: list[list[float]] = softmax_rows(counts).tolist()
    return probabilities


def warning(state: Any, label_space: Sequence[str]) -> str | None:
    """Return that predictions are not calibrated, where that is so."""
    if not isinstance(state, NotCalibrated):
        return None
    missing = ", ".join(map(repr, state.labels_without_prompts))
    return (
        f"none of the {state.training_prompts} training prompts has the label {missing}, so all predictions are those "
        "of the model without the method, as the release does. Use a larger calibration_number, or variant 'paper'"
    )


# -- the calibrations


@dataclass(frozen=True)
class ReleasedCalibration(Calibration):
    """A calibration as the release computes it."""

    learn_again: Callable[[TrainingRows, Sequence[str], Any], Any] = learn_prior
    """Returns the state after a further training from rows, label space and the state before."""

    def feature_for(self, state: Any) -> Feature:
        """Return label probabilities where the calibration gave up."""
        return "probabilities" if isinstance(state, NotCalibrated) else self.feature


def _write_empty(source: TrainingSource) -> TrainingPrompts:
    """Write prompts about empty texts."""
    return TrainingPrompts(content_free=training_prompts.empty_prompts(source))


def _write_random_words(sample_length: int, source: TrainingSource) -> TrainingPrompts:
    """Write prompts about texts of ``sample_length`` random words of the calibration set."""
    return TrainingPrompts(content_free=training_prompts.random_word_prompts(source, sample_length))


def _write_labelled(source: TrainingSource) -> TrainingPrompts:
    """Write prompts about labelled rows, which are drawn with repetition."""
    prompts, labels = training_prompts.labelled_prompts(source)
    return TrainingPrompts(labelled=prompts, labels=labels)


def _write_anchors(voters: int, source: TrainingSource) -> TrainingPrompts:
    """Write prompts about labelled rows, whose logits will be the anchors; refuse fewer than ``voters``."""
    prompts = _write_labelled(source)
    knn_prompt.check_anchor_number(len(prompts.labels), voters)
    return prompts


CONTEXTUAL = ReleasedCalibration(PriorState, _write_empty, learn_prior, apply_prior)
HIDDEN = ReleasedCalibration(
    CentroidState,
    _write_labelled,
    learn_hidden_centroids,
    partial(_apply_centroids, "hidden state"),
    "hidden",
    warning,
    learn_hidden_centroids,
)
CENTROID = ReleasedCalibration(
    CentroidState,
    _write_labelled,
    learn_logit_centroids,
    partial(_apply_centroids, "row of logits"),
    "vocabulary",
    warning,
    learn_logit_centroids,
)


def domain(sample_length: int = SAMPLE_LENGTH) -> ReleasedCalibration:
    """Return domain calibration.

    Args:
        sample_length: Words in a text of random words.
    """
    return ReleasedCalibration(PriorState, partial(_write_random_words, sample_length), learn_prior, apply_prior)


def nearest_anchors(voters: int = knn_prompt.VOTERS) -> ReleasedCalibration:
    """Return k-nearest-neighbour prompting.

    Args:
        voters: How many of the nearest anchors vote.
    """
    voters = validate_integer("knn_k", voters, 1)
    learn = partial(learn_anchors, voters)
    write_prompts = partial(_write_anchors, voters)
    return ReleasedCalibration(AnchorState, write_prompts, learn, apply_anchors, "vocabulary", warning, learn)

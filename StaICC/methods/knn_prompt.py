r"""k-nearest-neighbour prompting (Xu et al. 2023, "kNN Prompting").

The distributions over the full vocabulary that follow the calibration prompts are anchors. Of the anchors nearest to a
prompt's distribution :math:`p` by :math:`D_{KL}(p_i \Vert p)`, each has one vote for its label. Probabilities are the
shares of the votes; a label without an anchor gets none. It needs the logits of the full vocabulary, and keeps one row
of the vocabulary's length for each anchor.

The paper has fixed demonstrations for all prompts; here each prompt has its own, unless ``shared_demonstrations``.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

from StaICC.arguments import validate_integer
from StaICC.errors import TooFewRowsError
from StaICC.kernels.protocol import Capability
from StaICC.methods.contract import MethodData, MethodSpec, Steps
from StaICC.methods.hidden_calibration import SampleOptions, write_labelled
from StaICC.methods.learned_state import ANY, Array, learned
from StaICC.methods.nearness import (
    check_width,
    distributions,
    finite_matrix,
    kullback_leibler,
    labels_without_rows,
    nearest,
)
from StaICC.methods.packed_features import numpy
from StaICC.methods.trained_calibration import Calibration, TrainingPrompts, TrainingRows, calibrate
from StaICC.methods.training_prompts import SameDemonstrations, TrainingSource

VOTERS = 3
"""Nearest anchors that vote."""


@dataclass(frozen=True, slots=True)
class AnchorOptions(SampleOptions):
    """Options of k-NN prompting by centroids."""

    shared_demonstrations: bool = False
    """The same demonstrations for anchors and all test examples, as in the authors' code."""


@dataclass(frozen=True, slots=True)
class NeighbourOptions(AnchorOptions):
    """Options of k-NN prompting."""

    knn_k: int = VOTERS
    """Nearest neighbours that vote."""


@dataclass(frozen=True, eq=False)
class AnchorState:
    """Anchors with their labels."""

    anchors: Array = learned(ANY, ANY, array=True)
    """A distribution over the vocabulary in each row; in variant 0.1.1 logits."""
    labels: tuple[int, ...] = learned(ANY)
    """The label index of each anchor."""
    voters: int = VOTERS
    """How many of the nearest anchors vote."""

    def __post_init__(self) -> None:
        """Refuse anchors without a label each, labels that are no index, and more voters than anchors."""
        if len(self.labels) != len(self.anchors) or min(self.labels) < 0:
            raise ValueError("the labels do not fit the anchors")
        if not 1 <= self.voters <= len(self.labels):
            raise ValueError(f"voters: got {self.voters}, expected 1 to {len(self.labels)}, the number of anchors")


def check_anchor_number(number: int, voters: int) -> None:
    """Refuse fewer anchors than voters."""
    if number < voters:
        raise TooFewRowsError(
            f"{number} calibration samples have no {voters} nearest; lower knn_k or raise calibration_number"
        )


def learn(logits: Any, labels: Sequence[int], voters: int) -> AnchorState:
    """Return the distributions after labelled prompts as anchors."""
    points = finite_matrix(logits, "calibration row of logits")
    anchors = distributions(points)
    check_anchor_number(len(labels), voters)
    return AnchorState(anchors, tuple(labels), voters)


def votes(distances: Any, state: AnchorState, width: int) -> Any:
    """Return for each prompt how many of its nearest anchors have each label.

    Args:
        distances: The distance of each prompt to each anchor, an array (prompts, anchors).
        state: The anchors, with ``voters``, the number of nearest anchors that vote.
        width: How many labels there are.

    Returns:
        Array (prompts, labels).
    """
    nearest_anchors_of_prompts = nearest(distances, count=state.voters)  # (prompts, voters)
    label_of_voter = numpy.asarray(state.labels)[nearest_anchors_of_prompts]
    # A voter gives the row of the identity matrix that has its 1 at the voter's label.
    one_hot = numpy.eye(width)[label_of_voter]  # (prompts, voters, labels)
    return one_hot.sum(axis=1)


def apply(state: AnchorState, logits: Any, label_space: Sequence[str]) -> list[list[float]]:
    """Return for each row of logits the share of its nearest anchors that have each label."""
    points = finite_matrix(logits, "row of logits")
    check_width(points, state.anchors)
    divergences = kullback_leibler(points, state.anchors)
    votes_for_labels = votes(divergences, state, len(label_space))
    shares: list[list[float]] = (votes_for_labels / state.voters).tolist()
    return shares


def warning(state: AnchorState, label_space: Sequence[str]) -> str | None:
    """Return which labels can never be predicted, because no anchor has them."""
    missing = labels_without_rows(state.labels, label_space)
    if not missing:
        return None
    names = ", ".join(map(repr, missing))
    return (
        f"none of the {len(state.labels)} training prompts has the label {names}, so it is never predicted. Use a "
        "larger calibration_number"
    )


def _write_prompts(per_label: int | None, voters: int, source: TrainingSource) -> TrainingPrompts:
    """Write labelled prompts, whose predictions will be the anchors; refuse fewer than ``voters``.

    Args:
        per_label: Rows of each label; ``None`` for ``calibration_number`` rows of any label.
        voters: How many of the nearest anchors will vote.
        source: What the prompts are written from.
    """
    prompts = write_labelled(per_label, source)
    check_anchor_number(len(prompts.labels), voters)
    return prompts


def _learn(voters: int, rows: TrainingRows, label_space: Sequence[str]) -> AnchorState:
    """Return the anchors that are learned from the logits after labelled prompts (:func:`learn`)."""
    return learn(rows.labelled, rows.labels, voters)


def nearest_anchors(voters: int = VOTERS, per_label: int | None = None) -> Calibration:
    """Return the calibration that predicts each label's share of the nearest anchors, by Kullback-Leibler divergence.

    Args:
        voters: How many of the nearest anchors vote.
        per_label: Training rows of each label; ``None`` for ``calibration_number`` rows of any label.
    """
    voters = validate_integer("knn_k", voters, 1)
    write_prompts = partial(_write_prompts, per_label, voters)
    return Calibration(AnchorState, write_prompts, partial(_learn, voters), apply, "vocabulary", warning)


# -- as methods


def samples_per_label(data: MethodData) -> int | None:
    """Return the anchors of each label; ``None`` for ``calibration_number`` anchors of any label."""
    given: int | None = data.options.samples_per_label
    if given is None and data.variant == "paper":
        return max(1, data.calibration_number // len(data.label_space))
    return given


def calibrate_with_anchors(data: MethodData, calibration: Calibration, templates: Sequence[MethodData]) -> Steps:
    """Train a calibration on labelled prompts (anchors), and return the calibrated predictions for all queries.

    With the option ``shared_demonstrations``, all anchors and all queries have the demonstrations of the first query.
    Otherwise each has demonstrations of its own.

    Args:
        data: The method's data.
        calibration: The calibration.
        templates: The data with each template that training prompts have.
    """
    if not data.options.shared_demonstrations:
        return (yield from calibrate(data, calibration, templates))
    data.refuse_several_lists()
    shared_positions = data.demonstrations[0]
    shared_rows = [data.demonstration_set[position] for position in shared_positions]
    data_with_shared = data.on(demonstrations=[shared_positions] * data.test_size)
    sources = [SameDemonstrations(template, shared_rows) for template in templates]
    return (yield from calibrate(data_with_shared, calibration, sources))


def knn_prompt(data: MethodData) -> Steps:
    """Predict the shares of the labels of the nearest anchors."""
    calibration = nearest_anchors(data.options.knn_k, samples_per_label(data))
    return (yield from calibrate_with_anchors(data, calibration, data.templates()))


KNN_PROMPT = MethodSpec(
    "knn_prompt", "k-NN", knn_prompt, frozenset({Capability.FULL_VOCABULARY}), options=NeighbourOptions
)

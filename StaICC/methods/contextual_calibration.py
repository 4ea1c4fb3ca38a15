r"""Contextual calibration (Zhao et al. 2021, "Calibrate Before Use", section 5).

The mean prediction on content-free queries, :math:`\hat p_{cf}`, is the bias of the model. Predictions become
:math:`\operatorname{softmax}(W p + b)` with :math:`W = \operatorname{diag}(\hat p_{cf})^{-1}` and :math:`b = 0`.

In variant ``paper``, each query has the :math:`\hat p_{cf}` of its own demonstrations with the paper's three texts.
In variant ``staicc``, all queries have one, from ``calibration_number`` content-free prompts with demonstrations of the
calibration set.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from StaICC.methods.contract import MethodData, MethodSpec, Steps
from StaICC.methods.label_prior import PriorState, calibrate_in_context, corrected_by_prior, learn_prior
from StaICC.methods.trained_calibration import Calibration, TrainingPrompts, TrainingRows, calibrate
from StaICC.methods.training_prompts import CONTENT_FREE, TrainingSource, content_free_prompts
from StaICC.metrics.classification import softmax


@dataclass(frozen=True, slots=True)
class ContextOptions:
    """Options of contextual calibration."""

    shared_contexts: bool = False
    """Variant paper: one prior from calibration_number prompts, not one for each query; fewer requests."""


def softmax_of_quotients(row: Sequence[float], prior: Sequence[float]) -> list[float]:
    r"""Return :math:`\operatorname{softmax}(p / \hat p_{cf})`."""
    return softmax([value / label_prior for value, label_prior in zip(row, prior, strict=True)])


def _write_prompts(source: TrainingSource) -> TrainingPrompts:
    """Write prompts about content-free texts, such as "N/A"."""
    return TrainingPrompts(content_free=content_free_prompts(source))


def _learn(rows: TrainingRows, label_space: Sequence[str]) -> PriorState:
    """Return the label prior that is learned from the predictions for content-free texts."""
    return learn_prior(rows.content_free, label_space)


def apply(state: PriorState, rows: Sequence[Any], label_space: Sequence[str]) -> list[list[float]]:
    """Return the predictions, corrected by one prior."""
    return corrected_by_prior(state, rows, label_space, softmax_of_quotients)


ONE_PRIOR = Calibration(PriorState, _write_prompts, _learn, apply)
"""The calibration with one prior for all queries."""


def contextual_calibration(data: MethodData) -> Steps:
    """Correct each prediction by those for content-free texts after the same demonstrations, or by one prior."""
    if data.variant != "paper" or data.options.shared_contexts:
        return (yield from calibrate(data, ONE_PRIOR))
    texts = [(text,) * data.text_count for text in CONTENT_FREE]
    return (yield from calibrate_in_context(data, texts, softmax_of_quotients))


CONTEXTUAL_CALIBRATION = MethodSpec(
    "contextual_calibration", "Contextual calibration", contextual_calibration, options=ContextOptions
)

r"""Domain-context calibration (Fei et al. 2023, "Mitigating Label Biases for In-context Learning").

As contextual calibration, with queries of random words of the domain. Predictions become :math:`p_y / \hat p_y`,
divided by their sum, with the mean prediction :math:`\hat p` for these queries.

In variant ``paper``, each query has the :math:`\hat p` of its own demonstrations with 20 texts. In variant ``staicc``,
all queries have one, from ``calibration_number`` prompts with demonstrations of the calibration set.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial

from StaICC.methods.contextual_calibration import ContextOptions
from StaICC.methods.contract import MethodData, MethodSpec, Steps
from StaICC.methods.label_prior import PriorState, calibrate_in_context, corrected_by_prior, learn_prior
from StaICC.methods.label_scores import divided
from StaICC.methods.trained_calibration import Calibration, TrainingPrompts, TrainingRows, calibrate
from StaICC.methods.training_prompts import TrainingSource, checked_rows, domain_texts, random_word_prompts

SHARED_LENGTH = 64
"""Words in a text of random words where all queries have one prior, as in StaICC's Table 2."""


@dataclass(frozen=True, slots=True)
class DomainOptions(ContextOptions):
    """Options of domain calibration."""

    sample_length: int | None = None
    """Words in a text of random words; none: the average of the data set, or 64 with shared contexts."""
    texts: int = 20
    """Variant paper: random texts for each query."""


def _write_prompts(sample_length: int, source: TrainingSource) -> TrainingPrompts:
    """Write prompts about texts of ``sample_length`` random words of the calibration set."""
    return TrainingPrompts(content_free=random_word_prompts(source, sample_length))


def _learn(rows: TrainingRows, label_space: Sequence[str]) -> PriorState:
    """Return the label prior that is learned from the predictions for texts of random words."""
    return learn_prior(rows.content_free, label_space)


def one_prior(sample_length: int = SHARED_LENGTH) -> Calibration:
    """Return the calibration with one prior for all queries.

    Args:
        sample_length: Words in a text of random words.
    """
    return Calibration(PriorState, partial(_write_prompts, sample_length), _learn, corrected_by_prior)


def domain_calibration(data: MethodData) -> Steps:
    """Correct each prediction by those for random words after the same demonstrations, or by one prior."""
    length = data.options.sample_length
    has_one_prior = data.variant != "paper" or data.options.shared_contexts
    if has_one_prior and length is None:
        return (yield from calibrate(data, one_prior()))
    if has_one_prior:
        return (yield from calibrate(data, one_prior(length)))
    texts = domain_texts(checked_rows(data), data.options.texts, length)
    return (yield from calibrate_in_context(data, texts, divided))


DOMAIN_CALIBRATION = MethodSpec("domain_calibration", "Domain calibration", domain_calibration, options=DomainOptions)

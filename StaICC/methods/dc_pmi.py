r"""Domain-conditional PMI (Holtzman et al. 2021, "Surface Form Competition").

Predictions become :math:`P(y \mid x) / P(y \mid x_{domain})`, divided by their sum. :math:`x_{domain}` is the domain
premise: the text between query and label, without query and demonstrations. It costs one prompt.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial

from StaICC.errors import ArgumentError
from StaICC.methods.contract import MethodData, MethodSpec, Steps
from StaICC.methods.label_prior import PriorState, corrected_by_prior, learn_prior
from StaICC.methods.trained_calibration import Calibration, TrainingPrompts, TrainingRows, calibrate
from StaICC.methods.training_prompts import TrainingSource
from StaICC.prompting.prompt_text import question_only


@dataclass(frozen=True, slots=True)
class PremiseOptions:
    """Options of DC-PMI."""

    premise: str | None = None
    """The domain premise; none: the text between query and label."""


QUERY_MARK = "\N{REPLACEMENT CHARACTER}"
"""A query text that no template contains: what a prompt has after it is the text between query and label."""


def domain_premise(source: TrainingSource) -> str:
    """Return the text that prompts have between query and label; empty in the noisy channel, which has none.

    A prompt is written about a mark in the place of the query. The text is what follows the last mark.
    """
    prompt = source.write([], [QUERY_MARK] * source.text_count)
    if not isinstance(prompt, str):  # the noisy channel has a text for each label
        return ""
    _, _, text_after_mark = str(prompt).rpartition(QUERY_MARK)
    return text_after_mark


def _write_prompts(premise: str | None, source: TrainingSource) -> TrainingPrompts:
    """Return the only training prompt: the domain premise, by default the text between query and label.

    Raises:
        ArgumentError: The premise is no text, or is blank.
    """
    if premise is None:
        premise = domain_premise(source)
    if not isinstance(premise, str) or not premise.strip():
        raise ArgumentError("no text between query and label for the domain premise. Give the option premise")
    return TrainingPrompts(content_free=[question_only(premise)])


def _learn(rows: TrainingRows, label_space: Sequence[str]) -> PriorState:
    """Return the label prior that is learned from the predictions for the domain premise."""
    return learn_prior(rows.content_free, label_space)


def domain_pmi(premise: str | None = None) -> Calibration:
    """Return the calibration.

    Args:
        premise: The domain premise; ``None`` for the text between query and label.
    """
    return Calibration(PriorState, partial(_write_prompts, premise), _learn, corrected_by_prior)


def dc_pmi(data: MethodData) -> Steps:
    """Divide each prediction by that for the domain premise."""
    return (yield from calibrate(data, domain_pmi(data.options.premise)))


DC_PMI = MethodSpec("dc_pmi", "DC-PMI", dc_pmi, options=PremiseOptions)

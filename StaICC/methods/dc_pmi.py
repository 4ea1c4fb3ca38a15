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
    """Return the text between query and label; an empty one if there is none, as in the noisy channel."""
    prompt = source.write([], [QUERY_MARK] * source.text_count)
    if not isinstance(prompt, str):  # one prompt for each label
        return ""
    return str(prompt).rpartition(QUERY_MARK)[2]


def _write_prompts(premise: str | None, source: TrainingSource) -> TrainingPrompts:
    if premise is None:
        premise = domain_premise(source)
    if not isinstance(premise, str) or not premise.strip():
        raise ArgumentError("no text between query and label for the domain premise. Give the option premise")
    return TrainingPrompts(content_free=[question_only(premise)])


def _learn(rows: TrainingRows, label_space: Sequence[str]) -> PriorState:
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

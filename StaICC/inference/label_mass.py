"""The total probability of the labels, a check of the prompt format.

Label scores are normalised over the labels. Where the model would continue with something else in nearly all cases,
they say little: the prompt format, the chat template or the label words are probably wrong. Predictions of kernels
record the label mass (:class:`~StaICC.inference.contract.ScoredLabels`); of other functions it is unknown.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from typing import Protocol

from StaICC.inference.contract import ScoredLabels, loading_kernel, own_attribute
from StaICC.prompting.prompt_writer import Prompt

LOW_LABEL_MASS = 0.01
"""A mean label mass below it is a warning."""
LIKELY_TOKENS = 3
"""How many more probable tokens the warning names."""


class NamesTokens(Protocol):
    """A kernel that can name the most probable next tokens."""

    def likely_tokens(self, prompt: str, count: int) -> list[tuple[str, float]]:
        """Return the most probable tokens after a prompt, with their probabilities."""


def mean_label_mass(predictions: Iterable[object]) -> float | None:
    """Return the mean label mass of predictions; ``None`` if it is known of none.

    Example:
        >>> mean_label_mass([ScoredLabels([0.5, 0.5], 0.25), [0.5, 0.5], ScoredLabels([1.0, 0.0], 0.75)])
        0.5
    """
    masses = []
    for prediction in predictions:
        if isinstance(prediction, ScoredLabels) and prediction.label_mass is not None:
            masses.append(prediction.label_mass)
    if not masses:
        return None
    return math.fsum(masses) / len(masses)


def low_mass_warning(function: object, prompts: Sequence[Prompt], predictions: Sequence[object]) -> str | None:
    """Return a warning if the mean label mass is low; ``None`` if not, or if it is unknown.

    Args:
        function: The inference function; a loaded kernel names what the model would write instead, after the prompt
            with the least label mass.
        prompts: The prompts.
        predictions: The prediction of each prompt.
    """
    mean = mean_label_mass(predictions)
    if mean is None or mean >= LOW_LABEL_MASS:
        return None
    text = f"the labels together have a probability of {mean:.2g} on average, so their scores say little"
    known = [
        (prediction.label_mass, number)
        for number, prediction in enumerate(predictions)
        if isinstance(prediction, ScoredLabels) and prediction.label_mass is not None
    ]
    prompt = prompts[min(known)[1]]
    kernel = _kernel_with_tokens(function)
    if kernel is not None and isinstance(prompt, str):
        likely = ", ".join(f"{token!r} ({share:.2g})" for token, share in kernel.likely_tokens(prompt, LIKELY_TOKENS))
        text += f"; after one of the prompts, the model would rather write {likely}"
    return f"{text}. Check the prompt format (last_blank, the chat template) and the label words"


def _kernel_with_tokens(function: object) -> NamesTokens | None:
    """Return the kernel behind an inference function if it is loaded and can name the most probable tokens."""
    kernel = loading_kernel(function)
    if kernel is None or not kernel.is_loaded or own_attribute(kernel, "likely_tokens") is None:
        return None
    named: NamesTokens = kernel  # type: ignore[assignment]
    return named

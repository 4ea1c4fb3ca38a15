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
from StaICC.inference.prompt_key import PromptKey

LOW_LABEL_MASS = 0.01
"""A mean label mass below it is a warning."""
LIKELY_TOKENS = 3
"""How many more probable tokens the hint names."""


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


def low_mass_warning(predictions: Iterable[object]) -> str | None:
    """Return a warning if the mean label mass of predictions is low; ``None`` if not, or if it is unknown.

    It has no figure, so that data sets with a low label mass share one line; the figures are in the remarks.
    """
    mean = mean_label_mass(predictions)
    if mean is None or mean >= LOW_LABEL_MASS:
        return None
    return (
        f"the labels together have a probability below {LOW_LABEL_MASS} on average, so their scores say little. Check "
        "the prompt format (last_blank, the chat template) and the label words"
    )


def likely_tokens_hint(function: object, keys: Sequence[PromptKey], answers: Sequence[object]) -> str | None:
    """Return a sentence about what the model would rather write than a label, if the label mass is low.

    It names the most probable tokens after the prompt with the least label mass. The sentence is for the log only: it
    needs the model, so a run whose predictions are all stored could not say it.

    Args:
        function: The inference function.
        keys: Distinct pairs of a prompt and its label space. A prompt may be written only when it is read.
        answers: The prediction of each prompt.

    Returns:
        The sentence; ``None`` if the label mass is not low, or the model is not loaded or cannot name tokens.
    """
    kernel = _kernel_with_tokens(function)
    if kernel is None or low_mass_warning(answers) is None:
        return None
    least_mass = math.inf
    prompt_with_least_mass = None
    labels_of_prompt: Sequence[str] = ()
    for (prompt, label_space), answer in zip(keys, answers, strict=True):
        if not isinstance(prompt, str) or not isinstance(answer, ScoredLabels):
            continue
        if answer.label_mass is not None and answer.label_mass < least_mass:
            least_mass = answer.label_mass
            prompt_with_least_mass = prompt
            labels_of_prompt = label_space
    if prompt_with_least_mass is None:
        return None
    tokens = kernel.likely_tokens(prompt_with_least_mass, LIKELY_TOKENS)
    listed = ", ".join(f"{token!r} ({probability:.2g})" for token, probability in tokens)
    hint = f"after one of the prompts, the model would rather write {listed} than a label"
    if any(token.startswith(" ") and token.strip() in labels_of_prompt for token, _ in tokens):
        hint += ". Labels with a blank in front are scored with last_blank=label"
    return hint


def _kernel_with_tokens(function: object) -> NamesTokens | None:
    """Return the kernel behind an inference function if it is loaded and can name the most probable tokens."""
    kernel = loading_kernel(function)
    if kernel is None or not kernel.is_loaded or own_attribute(kernel, "likely_tokens") is None:
        return None
    return kernel  # type: ignore[return-value]

"""Features of prompts, as a kernel computes them: the one place that calls its methods."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import Any

from StaICC.errors import ArgumentError
from StaICC.inference.contract import batch_form, check_batch
from StaICC.kernels import protocol
from StaICC.methods.requests import CAPABILITIES, Feature


def compute_features(
    kernel: Any, features: Collection[Feature], prompts: list[Any], label_space: list[str]
) -> Mapping[Feature, Any]:
    """Return a sequence of rows for each feature: from one run of the model if there are several.

    Args:
        kernel: A kernel with the features; several, or log-probabilities, are among its joint features.
        features: The features.
        prompts: The prompts.
        label_space: The labels.
    """
    if len(features) > 1 or "log_probabilities" in features:
        rows = kernel.features(prompts, label_space, set(features))
        return {feature: rows[feature] for feature in features}
    return {feature: features_of(kernel, prompts, label_space, feature) for feature in features}


def features_of(function: Any, prompts: Sequence[Any], label_space: Sequence[str], feature: Feature) -> Any:
    """Return a feature of the model for each prompt.

    Args:
        function: A kernel with the capability. For ``"vocabulary"`` and ``"hidden"`` also a function that returns a
            tuple: label probabilities, then the hidden state and the logits as requested.
        prompts: The prompts.
        label_space: The labels.
        feature: The feature.

    Returns:
        For ``"probabilities"`` a list of unchecked predictions, otherwise a sequence of rows, one for each prompt.

    Raises:
        ArgumentError: The function does not return the feature.
    """
    capability = CAPABILITIES[feature]
    method = protocol.method_of(function, capability)
    if method is not None:
        return method(list(prompts))
    answers = _answers(function, prompts, label_space)
    if feature == "probabilities":
        return answers
    rows = []
    for answer in answers:
        if not isinstance(answer, tuple) or len(answer) < 2:
            got = f"it returned a {type(answer).__name__}, expected a tuple of label probabilities and features"
            name = protocol.kernel_name(function)
            raise ArgumentError(f"{name} does not provide {capability.value}: {got}. {protocol.USE_LOCAL_MODEL}")
        # The logits are last; the hidden state follows the label probabilities.
        rows.append(answer[1] if feature == "hidden" else answer[-1])
    return rows


def _answers(function: Any, prompts: Sequence[Any], label_space: Sequence[str]) -> list[Any]:
    """Return what an inference function returns for prompts, batched if it can be."""
    batch = batch_form(function)
    if batch is not None:
        return list(check_batch(batch(list(prompts), list(label_space)), len(prompts)))
    return [function(prompt=prompt, label_space=list(label_space)) for prompt in prompts]

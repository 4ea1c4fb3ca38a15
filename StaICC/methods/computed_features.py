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
    """Return for each feature its rows: the value of the feature for each prompt.

    A kernel has a method for each single feature. Several features, and log-probabilities, are computed by its method
    ``features``, in one run of the model.

    Args:
        kernel: A kernel that can compute the features.
        features: The features.
        prompts: The prompts.
        label_space: The labels.
    """
    are_joint = len(features) > 1 or "log_probabilities" in features
    if are_joint:
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
    returned_values = _returned_values(function, prompts, label_space)
    if feature == "probabilities":
        return returned_values
    rows = []
    for returned in returned_values:
        if not isinstance(returned, tuple) or len(returned) < 2:
            got = f"it returned a {type(returned).__name__}, expected a tuple of label probabilities and features"
            name = protocol.kernel_name(function)
            raise ArgumentError(f"{name} does not provide {capability.value}: {got}. {protocol.USE_LOCAL_MODEL}")
        if feature == "hidden":
            rows.append(returned[1])  # the hidden state follows the label probabilities
        else:
            rows.append(returned[-1])  # the logits are last
    return rows


def _returned_values(function: Any, prompts: Sequence[Any], label_space: Sequence[str]) -> list[Any]:
    """Return what an inference function returns for each prompt, from one call if the function takes several."""
    batch = batch_form(function)
    if batch is not None:
        return list(check_batch(batch(list(prompts), list(label_space)), len(prompts)))
    return [function(prompt=prompt, label_space=list(label_space)) for prompt in prompts]

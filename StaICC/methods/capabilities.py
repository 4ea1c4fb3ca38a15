"""What a kernel computes for methods: the one place that asks it for a feature.

A kernel that lacks a feature is refused here, before anything is computed.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Any

from StaICC.errors import ArgumentError
from StaICC.inference.contract import batch_form, check_batch
from StaICC.kernels import protocol
from StaICC.kernels.protocol import Capability
from StaICC.methods.requests import CAPABILITIES, OF_TEXTS, Feature, Request


def extra_features(kernel: Any) -> frozenset[str]:
    """Return what a kernel computes beyond its capabilities: joint features, and methods that bypass no override.

    These are ``"noisy_channel"`` (in two variants) and ``"patched"`` (with the state of a layer replaced).
    """
    names = set(protocol.joint_features_of(kernel))
    for method in ("noisy_channel", "patched"):
        if protocol.can_call_directly(kernel, method):
            names.add(method)
    return frozenset(names)


def check_capabilities(user: str, kernel: Any, required: frozenset[Capability], features: Iterable[Any] = ()) -> None:
    """Refuse a kernel that lacks a capability.

    Args:
        user: The name of the method that requires the capabilities, for the message.
        kernel: A kernel or any inference function.
        required: The required capabilities.
        features: The requested features. Label probabilities are not checked: every inference function returns
            predictions, which need not be probabilities.

    Raises:
        CapabilityError: The kernel lacks one. The message names method, capability and kernel.
    """
    names = [feature for feature in features if isinstance(feature, str)]
    of_features = {CAPABILITIES[name] for name in names if name in OF_TEXTS}  # type: ignore[index]
    protocol.require_capabilities(user, kernel, required | of_features, log_probabilities="log_probabilities" in names)


def check_requests(user: str, kernel: Any, requests: object) -> None:
    """Refuse what is no list of requests, and a kernel that lacks a requested feature.

    Args:
        user: The name of the method, for the message.
        kernel: The kernel of the method.
        requests: What the method yielded.

    Raises:
        ArgumentError: It is something else.
        CapabilityError: The kernel, or another one that a request names, lacks a feature.
    """
    if not isinstance(requests, Sequence) or not all(isinstance(request, Request) for request in requests):
        raise ArgumentError(f"{user}: the method yielded {requests!r:.80}, expected a list of data.ask(...)")
    for request in requests:
        asked_kernel = kernel if request.kernel is None else request.kernel
        check_capabilities(user, asked_kernel, frozenset(), [request.feature])


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

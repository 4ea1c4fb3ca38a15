"""What a kernel computes for methods: one that lacks a feature is refused here, before anything is computed."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from StaICC.errors import ArgumentError
from StaICC.kernels import protocol
from StaICC.kernels.protocol import Capability
from StaICC.kernels.text_inference import TextInference
from StaICC.methods.kernel_functions import KernelFunction
from StaICC.methods.requests import CAPABILITIES, OF_TEXTS, Request, is_named


def extra_features(kernel: Any) -> frozenset[str]:
    """Return what a kernel computes beyond its capabilities: joint features, and methods that bypass no override.

    These are ``"noisy_channel"`` (in two variants), ``"patched"`` (with the state of a layer replaced) and
    ``"steered"`` (with all layers turned to vectors).
    """
    names = set(protocol.joint_features_of(kernel))
    for method in ("noisy_channel", "patched", "steered"):
        if protocol.can_call_directly(kernel, method):
            names.add(method)
    return frozenset(names)


def needed_capability(feature: Any) -> Capability | None:
    """Return the capability that a kernel needs for a feature; ``None`` if every inference function has it.

    Label probabilities need none: every inference function returns predictions, which need not be probabilities.
    """
    if isinstance(feature, TextInference):
        return Capability.TEXT
    if isinstance(feature, KernelFunction):
        return feature.capability
    if is_named(feature) and feature in OF_TEXTS:
        return CAPABILITIES[feature]
    return None


def check_capabilities(user: str, kernel: Any, required: frozenset[Capability], features: Iterable[Any] = ()) -> None:
    """Refuse a kernel that lacks a capability.

    Args:
        user: The name of the method that requires the capabilities, for the message.
        kernel: A kernel or any inference function.
        required: The required capabilities.
        features: The requested features, which may need further ones.

    Raises:
        CapabilityError: The kernel lacks one. The message names method, capability and kernel.
    """
    needed = set(required)
    needs_log_probabilities = False
    for feature in features:
        capability = needed_capability(feature)
        if capability is not None:
            needed.add(capability)
        if feature == "log_probabilities":
            needs_log_probabilities = True
    protocol.require_capabilities(user, kernel, frozenset(needed), log_probabilities=needs_log_probabilities)


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
    if isinstance(requests, Request):
        raise ArgumentError("the method yielded a request, expected a list of requests: yield [data.ask(...)]")
    if not isinstance(requests, Sequence) or not all(isinstance(request, Request) for request in requests):
        raise ArgumentError(f"the method yielded {requests!r:.80}, expected a list of requests: yield [data.ask(...)]")
    for request in requests:
        asked_kernel = kernel if request.kernel is None else request.kernel
        check_capabilities(user, asked_kernel, frozenset(), [request.feature])

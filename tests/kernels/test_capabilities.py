"""Capabilities of kernels are checked in one place, with one error."""

from __future__ import annotations

from typing import Any

import pytest

from StaICC.errors import ArgumentError
from StaICC.kernels.protocol import (
    Capability,
    CapabilityError,
    capabilities_of,
    joint_features_of,
    method_of,
    require_capabilities,
)


def label_only(prompt: str, label_space: list[str]) -> int:
    """An inference function, which provides label scores only."""
    return 0


class WithStates:
    """An inference function that declares nothing; it has a method for hidden states."""

    def __call__(self, prompt: Any, label_space: list[str]) -> int:
        return 0

    def hidden_states(self, prompts: list[Any]) -> list[list[float]]:
        return [[float(len(prompt))] for prompt in prompts]


def test_a_missing_capability_is_an_error_that_names_user_capability_and_kernel() -> None:
    with pytest.raises(CapabilityError) as caught:
        require_capabilities("k-NN", label_only, frozenset({Capability.LOSSES, Capability.HIDDEN_STATES}))
    assert str(caught.value) == (
        "k-NN needs hidden states and losses, which label_only does not provide; it provides label scores. "
        "Use a local model, such as hf:NAME, with its default options"
    )
    assert isinstance(caught.value, ArgumentError)


def test_a_function_that_provides_what_is_required_is_accepted() -> None:
    require_capabilities("a method", label_only, frozenset({Capability.LABEL_SCORES}))


def test_log_probabilities_are_more_than_label_scores() -> None:
    assert joint_features_of(label_only) == frozenset()
    with pytest.raises(CapabilityError, match="a method needs log-probabilities, which label_only"):
        require_capabilities("a method", label_only, frozenset({Capability.LABEL_SCORES}), log_probabilities=True)


def test_a_function_has_no_method_for_what_it_does_not_provide() -> None:
    for capability in Capability:
        assert method_of(label_only, capability) is None, capability


def test_a_method_of_a_kernel_is_a_capability() -> None:
    kernel = WithStates()
    with_method = {capability for capability in Capability if method_of(kernel, capability) is not None}
    assert with_method == {Capability.HIDDEN_STATES}
    assert Capability.HIDDEN_STATES in capabilities_of(kernel)

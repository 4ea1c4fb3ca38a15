"""Capabilities of kernels are checked in one place, with one error."""

from __future__ import annotations

from typing import Any

import pytest

from StaICC.errors import ArgumentError
from StaICC.kernels.protocol import (
    METHODS,
    Capability,
    CapabilityError,
    capabilities_of,
    joint_features_of,
    method_of,
    require_capabilities,
)


def plain_function(prompt: str, label_space: list[str]) -> int:
    return 0


class WithStates:
    """Declares nothing; it has a method for hidden states."""

    def __call__(self, prompt: Any, label_space: list[str]) -> int:
        return 0

    def hidden_states(self, prompts: list[Any]) -> list[list[float]]:
        return [[float(len(prompt))] for prompt in prompts]


def test_a_missing_capability_is_an_error_that_names_user_capability_and_kernel() -> None:
    expected = (
        "k-NN needs hidden states and losses, which plain_function does not provide; it provides label scores. "
        "Use a local model, such as hf:NAME, with its default options"
    )
    with pytest.raises(CapabilityError) as caught:
        require_capabilities("k-NN", plain_function, frozenset({Capability.LOSSES, Capability.HIDDEN_STATES}))
    assert str(caught.value) == expected
    assert isinstance(caught.value, ArgumentError)


def test_log_probabilities_are_more_than_label_scores() -> None:
    required = frozenset({Capability.LABEL_SCORES})
    require_capabilities("a method", plain_function, required)
    with pytest.raises(CapabilityError, match="a method needs log-probabilities, which plain_function"):
        require_capabilities("a method", plain_function, required, log_probabilities=True)
    assert joint_features_of(plain_function) == frozenset()


@pytest.mark.parametrize("kernel", [plain_function, WithStates()])
def test_a_kernel_has_a_method_for_each_of_its_capabilities_and_for_no_other(kernel: Any) -> None:
    available = capabilities_of(kernel)
    for capability in Capability:
        has_method = capability in METHODS and capability in available
        assert (method_of(kernel, capability) is not None) is has_method

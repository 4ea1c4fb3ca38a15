"""Kernels that compute several features of a prompt in one run of the model."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Any, Protocol, runtime_checkable


@runtime_checkable
class JointFeatures(Protocol):
    """A kernel that computes several features of a prompt in one run of the model."""

    @property
    def joint_features(self) -> frozenset[str]:
        """Their names: probabilities, log_probabilities (of the labels, over the vocabulary), hidden, vocabulary."""

    def features(self, prompts: Sequence[str], label_space: Sequence[str], wanted: Collection[str]) -> dict[str, Any]:
        """Return one sequence of rows for each wanted feature."""

"""What a kernel is: an inference function with declared capabilities and an identity.

The library asks for capabilities; it never probes attributes. A capability that a kernel declares comes with the method
that :data:`METHODS` lists.
"""

from __future__ import annotations

import enum
import hashlib
from collections.abc import Collection, Sequence
from typing import Any, Protocol, runtime_checkable

from StaICC.errors import ArgumentError, validate_integer
from StaICC.inference.contract import DeclaresCapabilities, Interface, batch_form, check_interfaces
from StaICC.inference.identity import Identity, replaced_methods


class Capability(enum.Enum):
    """What a kernel can compute."""

    LABEL_SCORES = "label scores"
    NOISY_CHANNEL = "noisy channel"
    TEXT = "text"
    HIDDEN_STATES = "hidden states"
    FULL_VOCABULARY = "full vocabulary"
    LOSSES = "losses"
    BATCH = "batch"


TEXT_SCORES = frozenset({Capability.NOISY_CHANNEL, Capability.LOSSES})
"""The capabilities that score the text of a prompt."""

METHODS = {
    Capability.LABEL_SCORES: "__call__",
    Capability.NOISY_CHANNEL: "__call__",
    Capability.TEXT: "generate",
    Capability.HIDDEN_STATES: "hidden_states",
    Capability.FULL_VOCABULARY: "full_vocabulary_logits",
    Capability.LOSSES: "losses",
    Capability.BATCH: "batch",
}
"""The method that provides each capability."""

_NO_SCORES = frozenset({"capabilities", "identity", "recheck_tolerance"})
"""Members of a kernel that compute no score."""


@runtime_checkable
class Kernel(Protocol):
    """An inference function of a ready-made model."""

    @property
    def capabilities(self) -> frozenset[Capability]:
        """What this kernel can compute."""

    def identity(self) -> Identity:
        """What determines the predictions, computed now."""

    def __call__(self, prompt: str | Sequence[str], label_space: Sequence[str]) -> Any:
        """Return a probability or logit for each label."""


@runtime_checkable
class NoisyChannelVariants(Interface, Protocol):
    """A kernel that computes the noisy channel in the paper's and in the release's variant."""

    def noisy_channel(self, prompts: Sequence[Sequence[str]], label_space: Sequence[str], variant: Any = None) -> Any:
        """Return probabilities of the labels from the probability of the text given the label."""


@runtime_checkable
class RendersPrompts(Interface, Protocol):
    """A kernel whose model reads another text than the prompt, such as a chat template's."""

    def rendered(self, prompts: Sequence[str]) -> Sequence[str]:
        """Return prompts as the model reads them."""


def represents(kernel: Any, method: str) -> bool:
    """Tell whether a method of a kernel may be called instead of ``batch`` or ``__call__``.

    It may not where a subclass or the object itself overrides something of the class that defines the method, or where
    a wrapper only passes the method on: predictions would not be those of the override.

    Args:
        kernel: A kernel or any inference function.
        method: The name of the method, such as ``"features"``.
    """
    classes = type(kernel).__mro__
    owner = next((base for base in classes if method in vars(base)), None)
    if owner is None or replaced_methods(kernel):
        return False
    overrides = {name for base in classes[: classes.index(owner)] for name in vars(base)} & {*dir(owner)}
    return all(name in _NO_SCORES or (name.startswith("__") and name != "__call__") for name in overrides)


def stable_seed(*parts: object) -> int:
    """Return the seed below 2**31 that belongs to some values."""
    return int.from_bytes(hashlib.sha256(repr(parts).encode()).digest()[:4], "big") >> 1


def check_generation(max_new_tokens: int, stop: Sequence[str], temperature: float = 0.0) -> int:
    """Return the number of new tokens; refuse it below 1, stop strings that are no list of texts, odd temperatures.

    Raises:
        ArgumentError: An argument has another value or type.
    """
    max_new_tokens = validate_integer("max_new_tokens", max_new_tokens, 1)
    if isinstance(stop, str) or not all(isinstance(text, str) and text for text in stop):
        raise ArgumentError(f"stop must be a list of non-empty texts, not {stop!r}")
    if isinstance(temperature, bool) or not (isinstance(temperature, (int, float)) and 0 <= temperature <= 100):
        raise ArgumentError(f"temperature: got {temperature!r}, expected a number from 0 (most probable token) to 100")
    return max_new_tokens


def capabilities_of(function: Any) -> frozenset[Capability]:
    """What an inference function can compute, known before it is called.

    A kernel declares it. For an object that declares nothing, this is the one place that looks for methods: it has the
    capabilities whose methods it has.

    Args:
        function: A kernel or any inference function.

    Returns:
        Its capabilities; those of a plain function are its label scores.

    Raises:
        ArgumentError: An attribute is of another kind than a protocol says, or a declared capability is unknown.

    Example:
        >>> capabilities_of(lambda prompt, label_space: 0) == {Capability.LABEL_SCORES}
        True
    """
    check_interfaces(function)
    if isinstance(function, DeclaresCapabilities):
        if not all(isinstance(item, Capability) for item in function.capabilities):
            raise ArgumentError(f"capabilities: got {function.capabilities!r:.80}, expected a set of Capability")
        return frozenset(function.capabilities)
    found = {Capability.LABEL_SCORES}
    for capability, method in METHODS.items():
        if method != "__call__" and capability is not Capability.BATCH and callable(getattr(function, method, None)):
            found.add(capability)
    if batch_form(function) is not None:
        found.add(Capability.BATCH)
    if callable(getattr(function, "noisy_channel", None)):
        found.add(Capability.NOISY_CHANNEL)
    return frozenset(found)


@runtime_checkable
class JointFeatures(Interface, Protocol):
    """A kernel that computes several features of a prompt in one run of the model."""

    @property
    def joint_features(self) -> frozenset[str]:
        """Their names: probabilities, log_probabilities (of the labels, over the vocabulary), hidden, vocabulary."""

    def features(self, prompts: Sequence[str], label_space: Sequence[str], wanted: Collection[str]) -> dict[str, Any]:
        """Return one sequence of rows for each wanted feature."""

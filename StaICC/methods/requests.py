"""What a method asks of a model: a feature of some prompts."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any, Literal, TypeGuard, get_args

from StaICC.benchmarks.base_experimentor import BaseExperimentor
from StaICC.errors import ArgumentError, unknown_name
from StaICC.inference.contract import Inference
from StaICC.inference.prompt_key import PromptKey
from StaICC.kernels.protocol import Capability, check_generation
from StaICC.methods.unlabelled_queries import UnlabelledQuery

if TYPE_CHECKING:
    from StaICC.kernels.text_inference import TextInference

Feature = Literal["probabilities", "log_probabilities", "vocabulary", "hidden", "layers", "losses"]
"""Label probabilities; log-probabilities of the labels over the vocabulary; logits over the full vocabulary; the last
hidden state; the states of all layers; the mean loss of a text."""

MODEL_ITSELF: Feature = "probabilities"
"""The feature that is the prediction of the model itself."""

CAPABILITIES: dict[Feature, Capability] = {
    "probabilities": Capability.LABEL_SCORES,
    "log_probabilities": Capability.LABEL_SCORES,
    "vocabulary": Capability.FULL_VOCABULARY,
    "hidden": Capability.HIDDEN_STATES,
    "layers": Capability.LAYER_STATES,
    "losses": Capability.LOSSES,
}
"""The capability that computes a feature. Its value names the feature in messages."""

VECTORS = frozenset({"hidden", "vocabulary"})
"""The features that are a vector of numbers for each prompt."""

OF_TEXTS = VECTORS | {"layers", "losses"}
"""The features that do not depend on labels."""

Role = Literal["train", "test"]
"""What prompts are for: ``"train"`` if the method learns from them, ``"test"`` if they are about the test queries. The
costs of a result are counted by role."""


def is_named(feature: object) -> TypeGuard[Feature]:
    """Return whether a feature has a name, so that the model itself computes it; other features are functions."""
    return isinstance(feature, str)


@dataclass(frozen=True)
class Request:
    """Prompts of which a method needs a feature. :meth:`~StaICC.methods.contract.MethodData.ask` makes one.

    Raises:
        UnknownNameError: There is no such feature or role.
        ArgumentError: The feature is neither a name nor a function.
    """

    feature: Any
    """A :data:`Feature`; an inference function without its kernel, such as a
    :class:`~StaICC.kernels.text_inference.TextInference`; or a function that returns a vector for each text of a
    list."""
    prompts: Sequence[PromptKey] | BaseExperimentor
    """Prompts with their label spaces, or all queries of a data set."""
    role: Role = "test"
    """What the prompts are for."""
    ahead: bool = False
    """The method will ask this when it has learned something. It gets no rows now; they are computed now only if other
    methods run too, together with what these ask."""
    kernel: Inference | None = None
    """Another model than that of the method; ``None`` for that of the method."""
    queries: Sequence[UnlabelledQuery] = ()
    """The queries that the prompts are, if all of them are queries."""

    def __post_init__(self) -> None:
        """Refuse a feature that is neither a known name nor a function, and an unknown role."""
        if isinstance(self.feature, str) and self.feature not in CAPABILITIES:
            raise unknown_name("feature", self.feature, CAPABILITIES)
        if not isinstance(self.feature, str) and not callable(self.feature):
            raise ArgumentError(
                f"feature: got {self.feature!r:.80}, expected a name or a function; prompts have a name: "
                "data.ask(prompts=...)"
            )
        if self.role not in get_args(Role):
            raise unknown_name("role", self.role, get_args(Role))

    @cached_property
    def conditions(self) -> list[list[PromptKey]]:
        """The prompts of each condition."""
        if not isinstance(self.prompts, BaseExperimentor):
            return [list(self.prompts)]
        keys_of_conditions = []
        for condition in self.prompts.conditions():
            keys_of_conditions.append([(query.prompt, query.label_space) for query in condition.queries])
        return keys_of_conditions

    @property
    def keys(self) -> list[PromptKey]:
        """All prompts with their label spaces."""
        return [key for condition in self.conditions for key in condition]


def generated_text(
    max_new_tokens: int = 16, stop: Sequence[str] = ("\n",), temperature: float = 0.0, seed: int = 0, sample: int = 0
) -> TextInference:
    """Return the feature that is the text which the model writes after a prompt.

    Args:
        max_new_tokens: Maximum number of tokens of a text.
        stop: Texts before which it ends.
        temperature: 0 for the most probable tokens; above 0, tokens are sampled.
        seed: Seed of the samples.
        sample: Number of the sample. Samples with the same seed and other numbers are different.

    Raises:
        ArgumentError: An argument is invalid.
    """
    from StaICC.kernels.text_inference import TextInference

    max_new_tokens = check_generation(max_new_tokens, stop, temperature)
    return TextInference(None, max_new_tokens, tuple(stop), float(temperature), seed, sample)


def prompt_keys(prompts: Sequence[Any], label_space: Sequence[str] = ()) -> list[PromptKey]:
    """Return prompts with their label spaces, as a :class:`Request` takes them.

    Args:
        prompts: Texts; in the noisy channel, lists with one text for each label; or queries, which have a label space.
        label_space: The labels of the prompts that are no queries.

    Raises:
        ArgumentError: A prompt is none of these.
    """
    if isinstance(prompts, str):
        raise ArgumentError(f"prompts: got the text {prompts!r:.80}, expected a list of texts")
    labels = tuple(label_space)
    keys: list[PromptKey] = []
    for prompt in prompts:
        if isinstance(prompt, UnlabelledQuery):
            keys.append((prompt.prompt, prompt.label_space))
        elif isinstance(prompt, str):
            keys.append((prompt, labels))
        elif isinstance(prompt, (tuple, list)):
            keys.append((tuple(prompt), labels))
        else:
            raise ArgumentError(f"prompts: got {prompts!r:.80}, expected a list of texts")
    return keys

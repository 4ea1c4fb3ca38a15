"""What a kernel is: an inference function that declares what it can compute.

The library asks for capabilities. A capability that a kernel declares comes with the method that :data:`METHODS` lists.
Further methods of a kernel's class are used where they are defined: ``noisy_channel`` (in both variants), ``patched``
and ``layer_states``, ``rendered(prompts, label_space=())`` (prompts with these labels, as the model reads them),
``features`` with ``joint_features`` (several features from one run of the model).

Label scores are a softmax. The noisy channel scores the text given the label, instead of the label given the text.

Min, Lewis, Hajishirzi and Zettlemoyer (2022), "Noisy Channel Language Model Prompting for Few-Shot Text
Classification", predict the label ``c`` with the highest ``P(x | c)`` (uniform prior). There is one prompt for each
label; they differ in the label only, and the query's text follows it. The score is the sum of the log-probabilities of
the query's tokens.

0.1.1 took the mean loss over *all* tokens of the prompt instead, demonstrations included, which leaves nearly uniform
probabilities. That is ``variant="0.1.1"``.
"""

from __future__ import annotations

import enum
import hashlib
import math
from collections.abc import Callable, Sequence, Set
from dataclasses import replace
from os.path import commonprefix
from types import FunctionType
from typing import Any, Literal, Protocol, runtime_checkable

from StaICC import numerics
from StaICC.arguments import validate_integer
from StaICC.errors import ArgumentError, OutputError, PromptError
from StaICC.inference.contract import batch_form, own_attribute
from StaICC.inference.identity import Identity, in_library, replaced_methods
from StaICC.prompting.prompt_text import PromptText


class Capability(enum.Enum):
    """What a kernel can compute."""

    LABEL_SCORES = "label scores"
    NOISY_CHANNEL = "noisy channel"
    TEXT = "text"
    HIDDEN_STATES = "hidden states"
    LAYER_STATES = "layer states"
    FULL_VOCABULARY = "full vocabulary"
    LOSSES = "losses"
    BATCH = "batch"


TEXT_SCORES = frozenset({Capability.NOISY_CHANNEL, Capability.LOSSES})
"""The capabilities that score the text of a prompt."""

METHODS = {
    Capability.NOISY_CHANNEL: "noisy_channel",
    Capability.TEXT: "generate",
    Capability.HIDDEN_STATES: "hidden_states",
    Capability.LAYER_STATES: "layer_states",
    Capability.FULL_VOCABULARY: "full_vocabulary_logits",
    Capability.LOSSES: "losses",
}
"""The methods that provide capabilities. Label scores and batches are those of calls and of ``batch``."""

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


class LoadedKernel(Kernel, Protocol):
    """A kernel of any kind: what all kernels have, and the attributes of its class, whose types are not known."""

    def __getattr__(self, name: str) -> Any:
        """Return an attribute of the kernel's class."""

    def __setattr__(self, name: str, value: Any) -> None:
        """Set an attribute of the kernel's class."""


def can_call_directly(kernel: Any, method: str) -> bool:
    """Return whether a method of a kernel may be called instead of ``batch`` or ``__call__``.

    It may not if that could bypass code of the user, which may change scores. There is such code if a subclass of the
    class that defines the method overrides a member of it, if a method of the object was replaced, or if the object is
    a wrapper that passes the method on.

    Args:
        kernel: A kernel or any inference function.
        method: The name of the method, such as ``"features"``.
    """
    if replaced_methods(kernel):
        return False
    classes = type(kernel).__mro__  # the class of the kernel, then its base classes
    defining_classes = [cls for cls in classes if method in vars(cls)]
    if not defining_classes:  # a wrapper passes the method on
        return False

    defining_class = defining_classes[0]
    subclasses = classes[: classes.index(defining_class)]
    members = set(dir(defining_class))
    for subclass in subclasses:
        if in_library(subclass):
            continue
        for name in vars(subclass):
            is_override = name in members
            if is_override and _can_change_scores(name):
                return False
    return True


def _can_change_scores(name: str) -> bool:
    """Return whether a subclass that overrides this member of a kernel can change its scores."""
    if name == "__call__":
        return True
    is_special_method = name.startswith("__")
    return name not in _NO_SCORES and not is_special_method


def stable_seed(*parts: object) -> int:
    """Return the seed that belongs to some values: the first 31 bits of the SHA-256 of their texts."""
    digest = hashlib.sha256(repr(parts).encode()).digest()
    first_32_bits = int.from_bytes(digest[:4], "big")
    return first_32_bits >> 1


def check_generation(max_new_tokens: int, stop: Sequence[str], temperature: float = 0.0) -> int:
    """Return the number of new tokens, after a check of the arguments of a generation.

    Raises:
        ArgumentError: The number is below 1, the stop strings are no list of texts, or the temperature is not from 0 to
            100.
    """
    max_new_tokens = validate_integer("max_new_tokens", max_new_tokens, 1)
    if isinstance(stop, str) or not all(isinstance(text, str) and text for text in stop):
        raise ArgumentError(f"stop must be a list of non-empty texts, not {stop!r}")
    is_number = isinstance(temperature, (int, float)) and not isinstance(temperature, bool)
    if not is_number or not 0 <= temperature <= 100:
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
        ArgumentError: A declared capability is unknown.

    Example:
        >>> capabilities_of(lambda prompt, label_space: 0) == {Capability.LABEL_SCORES}
        True
    """
    declared = own_attribute(function, "capabilities")
    if declared is not None:
        if not isinstance(declared, Set) or not all(isinstance(item, Capability) for item in declared):
            raise ArgumentError(f"capabilities: got {declared!r:.80}, expected a set of Capability")
        return frozenset(declared)

    capabilities = {Capability.LABEL_SCORES}
    for capability, method in METHODS.items():
        if callable(own_attribute(function, method)):
            capabilities.add(capability)
    if batch_form(function) is not None:
        capabilities.add(Capability.BATCH)
    return frozenset(capabilities)


class CapabilityError(ArgumentError):
    """A kernel lacks a capability."""


def require_capabilities(
    user: str, kernel: Any, required: frozenset[Capability], *, log_probabilities: bool = False
) -> None:
    """Refuse a kernel that lacks a capability. This is the one check before the methods of a kernel are called.

    Args:
        user: What requires the capabilities, for the message, such as the name of a method.
        kernel: A kernel or any inference function.
        required: The required capabilities.
        log_probabilities: Whether the label scores must be log-probabilities over the vocabulary, which not every
            kernel with label scores has (:func:`joint_features_of`).

    Raises:
        CapabilityError: The kernel lacks one. The message names user, capability and kernel.
    """
    available = capabilities_of(kernel)
    missing = [capability.value for capability in Capability if capability in required - available]
    if log_probabilities and "log_probabilities" not in joint_features_of(kernel):
        missing.append("log-probabilities")
    if missing:
        provided = ", ".join(capability.value for capability in Capability if capability in available)
        raise CapabilityError(
            f"{user} needs {' and '.join(missing)}, which {kernel_name(kernel)} does not provide; it provides "
            f"{provided}. {USE_LOCAL_MODEL}, with its default options"
        ).at(user)


USE_LOCAL_MODEL = "Use a local model, such as hf:NAME"
"""What to do about a missing capability."""


def kernel_name(function: Any) -> str:
    """Return the name of an inference function in messages: of a function, or of the class of a kernel."""
    if isinstance(function, FunctionType):
        return function.__name__
    return type(function).__name__


def method_of(function: Any, capability: Capability) -> Callable[..., Any] | None:
    """Return the method of a kernel that provides a capability; ``None`` if the kernel has no such capability.

    Args:
        function: A kernel or any inference function.
        capability: One of :data:`METHODS`.
    """
    if capability not in METHODS or capability not in capabilities_of(function):
        return None
    method: Callable[..., Any] = getattr(function, METHODS[capability])
    return method


def joint_features_of(kernel: Any) -> frozenset[str]:
    """Return the features that one run of the model computes; none where that would bypass what a subclass adds."""
    if not hasattr(type(kernel), "joint_features") or not can_call_directly(kernel, "features"):
        return frozenset()
    features: frozenset[str] = kernel.joint_features
    return features


def label_probabilities(scores: Sequence[float]) -> list[float]:
    """Return probabilities that are proportional to the exponentials of the scores (softmax).

    Raises:
        OutputError: A score is NaN, the largest is infinite, or all are -inf.

    Example:
        >>> label_probabilities([1.0, 1.0])
        [0.5, 0.5]
    """
    if any(map(math.isnan, scores)) or not math.isfinite(max(scores)):
        raise OutputError(f"the model's scores {list(scores)} are not finite")
    return numerics.softmax(scores)


LastBlank = Literal["prompt", "label"]
"""What the blank between a prompt and a label belongs to.

``"prompt"``, as in StaICC: the model reads the prompt with the blank at its end, and the label is scored after it.
``"label"``, as in the papers of most methods: the model reads the prompt without it, and the label begins with it."""


def without_blank(prompt: str) -> str:
    """Return a prompt without the blanks at its end: most tokens of words begin with one, and do not follow another.

    Example:
        >>> without_blank("label: ")
        'label:'
    """
    if isinstance(prompt, PromptText):
        question = prompt.parts.question.rstrip(" ")
        if question:
            return PromptText(replace(prompt.parts, question=question))
    return prompt.rstrip(" ")


def with_blank(labels: Sequence[str]) -> list[str]:
    """Return labels that begin with a blank.

    Example:
        >>> with_blank(["good", " bad"])
        [' good', ' bad']
    """
    return [label if label.startswith(" ") else f" {label}" for label in labels]


def checked_labels(label_space: Sequence[str]) -> list[str]:
    """Return the labels as a list.

    Raises:
        ArgumentError: It is no list of at least one text.
    """
    is_list = isinstance(label_space, Sequence) and not isinstance(label_space, (str, bytes))
    if not is_list or not label_space or not all(isinstance(label, str) for label in label_space):
        raise ArgumentError(f"label_space: got {label_space!r}, expected a list of at least one text")
    return list(label_space)


def check_channel(prompts: Sequence[str], label_space: Sequence[str], index: int) -> None:
    """Refuse what is not one prompt for each label.

    Args:
        prompts: The prompts of one query.
        label_space: The labels.
        index: Number of the query, for the message.

    Raises:
        PromptError: The prompts are no list of texts, or their number is another one.
    """
    is_list = isinstance(prompts, Sequence) and not isinstance(prompts, str)
    if not is_list or not all(isinstance(prompt, str) for prompt in prompts):
        raise PromptError(f"query {index} of a noisy channel must be a list of strings, one for each label", index)
    if len(prompts) != len(label_space):
        raise PromptError(
            f"query {index} has {len(prompts)} prompts for {len(label_space)} labels; a noisy channel needs one for "
            "each label (noisy_channel=True)",
            index,
        )


def after_label(prompts: Sequence[str], label_space: Sequence[str]) -> list[int]:
    """Return where the label ends in each prompt of a noisy channel; the query's text follows there.

    All prompts should be ``head + label + tail`` with the same head and tail. If they are not, because they write the
    labels in another way, the tail is the longest common ending that begins with white space. A single prompt is cut
    after the last occurrence of its label.

    Args:
        prompts: One prompt for each label.
        label_space: The labels, in the same order.

    Returns:
        For each prompt, the number of characters before the tail.

    Example:
        >>> after_label(["label: good text: fine", "label: bad text: fine"], ["good", "bad"])
        [11, 10]
    """
    if len(prompts) == 1:
        label = label_space[0]
        label_start = max(prompts[0].rfind(label), 0)
        return [label_start + len(label)]

    head_length = _head_length(prompts, label_space)
    if head_length is not None:
        return [head_length + len(label) for label in label_space]

    common_ending = _common_ending(prompts)
    tail = common_ending
    for index, character in enumerate(common_ending):
        if character.isspace():
            tail = common_ending[index:]
            break
    return [len(prompt) - len(tail) for prompt in prompts]


def _head_length(prompts: Sequence[str], label_space: Sequence[str]) -> int | None:
    """Return the length of the head of prompts that are ``head + label + tail`` with the same head and tail.

    Args:
        prompts: One prompt for each label.
        label_space: The labels, in the same order.

    Returns:
        The length; ``None`` if the prompts are not so.
    """
    first_prompt = prompts[0]
    first_label = label_space[0]
    common_beginning = commonprefix(list(prompts))  # noqa: RUF071 - characters are meant
    # Labels may begin alike, so the head may be shorter than what the prompts have in common: all lengths are tried.
    for head_length in range(len(common_beginning), -1, -1):
        if not first_prompt.startswith(first_label, head_length):
            continue
        head = common_beginning[:head_length]
        tail = first_prompt[head_length + len(first_label) :]
        expected_prompts = [head + label + tail for label in label_space]
        if list(prompts) == expected_prompts:
            return head_length
    return None


def _common_ending(texts: Sequence[str]) -> str:
    """Return the longest text with which all texts end."""
    reversed_texts = [text[::-1] for text in texts]
    return commonprefix(reversed_texts)[::-1]  # noqa: RUF071 - characters are meant


def channel_scores(rows: Sequence[Sequence[float]], width: int, mean: bool) -> list[list[float]]:
    """Return the scores of each query's labels: sums (or means) of log-probabilities.

    Args:
        rows: For each prompt, the log-probabilities in nats of its scored tokens. The prompts are those of the first
            query, one for each label, then those of the next one.
        width: Number of labels.
        mean: Whether to take means per token (as 0.1.1) instead of sums.

    Raises:
        PromptError: A prompt has no scored token.
    """
    scores = []
    for prompt_index, row in enumerate(rows):
        if not row:
            query_index = prompt_index // width
            raise PromptError(f"query {query_index} has no token after its label, so it cannot be scored", query_index)
        score = math.fsum(row)
        if mean:
            score /= len(row)
        scores.append(score)
    return [scores[start : start + width] for start in range(0, len(scores), width)]

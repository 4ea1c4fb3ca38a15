"""What a method reads of a model: label probabilities, logits of the whole vocabulary, or the last hidden state.

Kernels give the last two by methods; a function may return them beside the label probabilities. Everything is asked in
one batch where the model has one, each distinct prompt once.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, Literal

from StaICC.errors import ArgumentError, OutputError
from StaICC.inference import Inference, batch_form
from StaICC.inference.contract import check_batch

__all__ = ["AT_ONCE", "NEEDS", "Feature", "ask_model", "check_answered", "features_of", "kernel_name"]

Feature = Literal["probabilities", "vocabulary", "hidden"]
"""Label probabilities, logits of the whole vocabulary, or the last hidden state."""

AT_ONCE = 256
"""Prompts whose features are held at once: logits of a whole vocabulary are large."""

NEEDS: dict[Feature, str] = {
    "probabilities": "label probabilities",
    "vocabulary": "the logits of the whole vocabulary",
    "hidden": "hidden states",
}
"""Features in words."""

_KERNEL_METHOD: dict[Feature, str] = {"vocabulary": "full_vocabulary_logits", "hidden": "hidden_states"}


def ask_model(function: Inference, prompts: Sequence[Any], label_space: Sequence[str]) -> list[Any]:
    """Ask an inference function for many prompts, each distinct one once, in one batch where it has one.

    Args:
        function: The inference function.
        prompts: The prompts.
        label_space: The labels.

    Returns:
        What it returned for each prompt, unchecked, in order.

    Raises:
        OutputError: It did not return one answer for each prompt.
    """
    keys = [prompt if isinstance(prompt, str) else tuple(prompt) for prompt in prompts]
    distinct = dict(zip(keys, prompts, strict=True))
    batch = batch_form(function)
    if batch is not None:
        found = check_batch(batch(list(distinct.values()), list(label_space)), len(distinct))
    else:
        found = [function(prompt=prompt, label_space=list(label_space)) for prompt in distinct.values()]
    answers = dict(zip(distinct, found, strict=True))
    return [answers[key] for key in keys]


def features_of(function: Inference, prompts: Sequence[Any], label_space: Sequence[str], feature: Feature) -> Any:
    """Read a feature off a model for many prompts.

    Args:
        function: A kernel that has the feature, or for ``"vocabulary"`` and ``"hidden"`` also a function that returns a
            tuple of label probabilities, the hidden state if asked for, and the logits if asked for.
        prompts: The prompts.
        label_space: The labels.
        feature: What to read.

    Returns:
        For ``"probabilities"`` a list of answers, otherwise a sequence of rows, one for each prompt.

    Raises:
        ArgumentError: The function does not give the feature.
    """
    if feature == "probabilities":
        return ask_model(function, prompts, label_space)
    method = getattr(function, _KERNEL_METHOD[feature], None)
    if callable(method):
        return method(list(prompts))
    # The first prompt alone shows a function that does not give the feature; the others need not be paid for then.
    answers = ask_model(function, prompts[:1], label_space)
    for number in range(len(prompts)):
        if number == 1:
            answers += ask_model(function, prompts[1:], label_space)
        answer = answers[number]
        if not isinstance(answer, tuple) or len(answer) < 2:
            raise ArgumentError(
                f"this needs {NEEDS[feature]}; {kernel_name(function)} has no method {_KERNEL_METHOD[feature]}, and "
                f"what it returned ({type(answer).__name__}) is no tuple of label probabilities and feature. Use a "
                "local model, such as hf:NAME"
            )
    return [answer[1 if feature == "hidden" else -1] for answer in answers]


def kernel_name(kernel: Any) -> str:
    """Name a kernel, or the one that it wraps, for a message."""
    inner = getattr(kernel, "kernel", kernel)
    return str(getattr(inner, "__name__", type(inner).__name__))


def check_answered(rows: Iterable[Any], what: str) -> list[Any]:
    """Refuse an answer that is an exception: some kernels return it in the place of a row.

    Args:
        rows: Answers of a kernel.
        what: What they are, for the message.

    Returns:
        The answers.

    Raises:
        OutputError: One is an exception.
    """
    kept = list(rows)
    for number, row in enumerate(kept):
        if isinstance(row, BaseException):
            raise OutputError(f"{what} {number} has no answer: {row}") from row
    return kept

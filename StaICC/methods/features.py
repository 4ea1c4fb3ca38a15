"""The features of a model that methods use: label scores, full-vocabulary logits, last hidden states, losses.

Kernels have a method for each of the last two; a plain function may return them with the label probabilities. Distinct
prompts are computed once, in one batch if the kernel has ``batch``.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable, Sequence
from types import FunctionType
from typing import Any, Literal

from StaICC.errors import ArgumentError, OutputError
from StaICC.inference import Failure, Inference, batch_form
from StaICC.inference.contract import check_batch
from StaICC.kernels.protocol import Capability, capabilities_of

_log = logging.getLogger(__name__)

Feature = Literal["probabilities", "log_probabilities", "vocabulary", "hidden", "losses"]
"""Label probabilities; log-probabilities of the labels over the vocabulary; logits over the full vocabulary; the last
hidden state; the mean loss of a text."""

AT_ONCE = 256
"""Maximum number of prompts whose features are in memory: full-vocabulary logits are large."""

NEEDS: dict[Feature, str] = {
    "probabilities": "label probabilities",
    "log_probabilities": "log-probabilities of the labels",
    "vocabulary": "the logits of the full vocabulary",
    "hidden": "hidden states",
    "losses": "losses of texts",
}
"""Features in words, for messages."""

_LOCAL = "Use a local model, such as hf:NAME"

_CAPABILITIES: dict[Feature, Capability] = {
    "vocabulary": Capability.FULL_VOCABULARY,
    "hidden": Capability.HIDDEN_STATES,
}


def ask_model(function: Inference, prompts: Sequence[Any], label_space: Sequence[str]) -> list[Any]:
    """Return the unchecked prediction for each prompt, in order.

    Each distinct prompt is computed once, in one batch if the function has ``batch``.

    Raises:
        OutputError: The batch has another length than the list of prompts.
    """
    keys = [prompt if isinstance(prompt, str) else tuple(prompt) for prompt in prompts]
    distinct = dict(zip(keys, prompts, strict=True))
    batch = batch_form(function)
    if batch is not None:
        predictions = check_batch(batch(list(distinct.values()), list(label_space)), len(distinct))
    else:
        predictions = [function(prompt=prompt, label_space=list(label_space)) for prompt in distinct.values()]
    by_prompt = dict(zip(distinct, predictions, strict=True))
    return [by_prompt[key] for key in keys]


def features_of(function: Inference, prompts: Sequence[Any], label_space: Sequence[str], feature: Feature) -> Any:
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
    if feature == "probabilities":
        return ask_model(function, prompts, label_space)
    capability = _CAPABILITIES[feature]
    if capability in capabilities_of(function):
        kernel: Any = function
        return (kernel.hidden_states if feature == "hidden" else kernel.full_vocabulary_logits)(list(prompts))
    # One prompt is enough to find out that a function does not return the feature.
    answers = ask_model(function, prompts[:1], label_space)
    for number in range(len(prompts)):
        if number == 1:
            answers += ask_model(function, prompts[1:], label_space)
        answer = answers[number]
        if not isinstance(answer, tuple) or len(answer) < 2:
            raise ArgumentError(
                f"{_name(function)} does not provide {NEEDS[feature]}: it returned a {type(answer).__name__}, expected "
                f"a tuple of label probabilities and features. {_LOCAL}"
            )
    return [answer[1 if feature == "hidden" else -1] for answer in answers]


def _name(function: Any) -> str:
    return str(function.__name__) if isinstance(function, FunctionType) else type(function).__name__


def check_capabilities(user: str, kernel: Any, requires: frozenset[Capability]) -> None:
    """Refuse a kernel that lacks a capability.

    Args:
        user: The name of the method that requires the capabilities, for the message.
        kernel: A kernel or any inference function.
        requires: The required capabilities.

    Raises:
        ArgumentError: The kernel lacks one. The message names method, capability and kernel.
    """
    available = capabilities_of(kernel)
    missing = [capability.value for capability in Capability if capability in requires - available]
    if missing:
        provided = ", ".join(capability.value for capability in Capability if capability in available)
        raise ArgumentError(
            f"{user} needs {' and '.join(missing)}, which {_name(kernel)} does not provide; "
            f"it provides {provided}. {_LOCAL}"
        )


def without_failures(rows: Any, *others: Sequence[Any]) -> tuple[Any, ...]:
    """Leave out the rows without a prediction, and what belongs to them in other lists.

    Args:
        rows: Predictions or features; failures occur only in runs that collect them.
        *others: Lists of the same length.

    Returns:
        The rows, and the other lists.

    Raises:
        OutputError: All rows are failures.
    """
    if not isinstance(rows, list) or not any(isinstance(row, Failure) for row in rows):
        return (rows, *others)
    kept = [number for number, row in enumerate(rows) if not isinstance(row, Failure)]
    if not kept:
        check_answered(rows[:1], "calibration prompt")
    _log.warning("%d of %d training prompts have no prediction and are left out", len(rows) - len(kept), len(rows))
    return tuple([part[number] for number in kept] for part in (rows, *others))


def check_answered(rows: Iterable[Any], what: str) -> list[Any]:
    """Return the predictions as a list; some kernels return an exception in the place of a prediction.

    Args:
        rows: Predictions of a kernel.
        what: What a row is, for the message, such as ``"calibration prompt"``.

    Raises:
        OutputError: A prediction is an exception.
    """
    predictions = list(rows)
    for number, row in enumerate(predictions):
        if isinstance(row, Failure):
            raise OutputError(f"{what} {number} has no prediction: {row.reason}") from row.cause
        if isinstance(row, BaseException):
            raise OutputError(f"{what} {number} has no prediction: {row}") from row
    return predictions

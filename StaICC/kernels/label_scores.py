"""Label scores: the softmax, and the noisy channel.

The noisy channel scores the text given the label, instead of the label given the text.

Min, Lewis, Hajishirzi and Zettlemoyer (2022), "Noisy Channel Language Model Prompting for Few-Shot Text
Classification", predict the label ``c`` with the highest ``P(x | c)`` (uniform prior). There is one prompt for each
label; they differ in the label only, and the query's text follows it. The score is the sum of the log-probabilities of
the query's tokens.

0.1.1 took the mean loss over *all* tokens of the prompt instead, demonstrations included, which leaves nearly uniform
probabilities. That is ``variant="0.1.1"``.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

from StaICC.errors import ArgumentError, OutputError, PromptError


def softmax(scores: Sequence[float]) -> list[float]:
    """Probabilities proportional to the exponentials of the scores.

    Example:
        >>> softmax([1.0, 1.0])
        [0.5, 0.5]
    """
    top = max(scores)
    if not math.isfinite(top):
        raise OutputError(f"the model's scores {list(scores)} are not finite; use a wider number type, such as float32")
    parts = [math.exp(score - top) for score in scores]
    total = math.fsum(parts)
    return [part / total for part in parts]


def checked_labels(label_space: Sequence[str]) -> list[str]:
    """Return the labels as a list.

    Raises:
        ArgumentError: It is no list of at least one text.
    """
    usable = isinstance(label_space, Sequence) and not isinstance(label_space, (str, bytes)) and len(label_space) > 0
    if not usable or not all(isinstance(label, str) for label in label_space):
        raise ArgumentError(f"label_space: got {label_space!r}, expected a list of at least one text")
    return list(label_space)


def check_channel(prompts: Sequence[str], label_space: Sequence[str], index: int) -> None:
    """Refuse what is not one prompt for each label.

    Args:
        prompts: The prompts of one query.
        label_space: The labels.
        index: Number of the query, for the message.
    """
    if isinstance(prompts, str) or not isinstance(prompts, Sequence) or not all(isinstance(p, str) for p in prompts):
        raise PromptError(f"query {index} of a noisy channel must be a list of strings, one for each label", index)
    if len(prompts) != len(label_space):
        raise PromptError(
            f"query {index} has {len(prompts)} prompts for {len(label_space)} labels; a noisy channel needs one "
            "for each label (load the benchmark with noisy_channel=True)",
            index,
        )


def _shared(texts: Sequence[str]) -> str:
    """The longest text with which all begin."""
    first, last = min(texts), max(texts)
    return first[: next((i for i, c in enumerate(first) if i >= len(last) or c != last[i]), len(first))]


def after_label(prompts: Sequence[str], label_space: Sequence[str]) -> list[int]:
    """Where the query's text begins in each prompt: right after the candidate label.

    The prompts are taken apart as ``head + label + tail`` with the same head and tail for all labels. Where that is
    impossible (labels written otherwise than in the label space), the tail is the longest common ending that begins
    with white space.

    Args:
        prompts: One prompt for each label.
        label_space: The labels, in the same order.

    Returns:
        For each prompt, the number of characters before the tail.

    Example:
        >>> prompts = ["label: good text: fine", "label: bad text: fine"]
        >>> [prompt[start:] for prompt, start in zip(prompts, after_label(prompts, ["good", "bad"]))]
        [' text: fine', ' text: fine']
    """
    if len(prompts) == 1:
        return [max(prompts[0].rfind(label_space[0]), 0) + len(label_space[0])]
    head = _shared(prompts)
    # Labels may begin alike, so the heads may be shorter than what the prompts have in common.
    for start in range(len(head), -1, -1):
        if not prompts[0].startswith(label_space[0], start):
            continue
        tail = prompts[0][start + len(label_space[0]) :]
        if all(p == head[:start] + label + tail for p, label in zip(prompts, label_space, strict=True)):
            return [start + len(label) for label in label_space]
    ending = _shared([prompt[::-1] for prompt in prompts])[::-1]
    space = next((i for i, character in enumerate(ending) if character.isspace()), 0)
    return [len(prompt) - len(ending) + space for prompt in prompts]


def channel_scores(rows: Sequence[Sequence[float]], width: int, mean: bool) -> list[list[float]]:
    """Return the scores of each query's labels: sums (or means) of log-probabilities.

    Args:
        rows: The log-probabilities of the scored tokens of each prompt, one prompt for each label.
        width: Number of labels.
        mean: Take means, as 0.1.1.

    Raises:
        PromptError: A prompt has no scored token.
    """
    for number, row in enumerate(rows):
        if not row:
            index = number // width
            raise PromptError(f"query {index} has no token after its label, so it cannot be scored", index)
    values = [math.fsum(row) / (len(row) if mean else 1) for row in rows]
    return [values[start : start + width] for start in range(0, len(values), width)]

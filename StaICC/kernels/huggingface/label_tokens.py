"""Which tokens represent a label, and what can be wrong with them.

A causal language model scores tokens, not labels. In 0.1.1 a label is scored by the *last* token of its own
tokenization (``"last"``); scoring the *first* token, or *all* of them in the context of the prompt (``"full"``), are
the alternatives. Every choice can go wrong without a sign: two labels may share the token that decides, the token may
be a special one that a tokenizer adds at the end, or prompt and label together may be split elsewhere than each alone.
:func:`audit_labels` finds these before anything is run.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal, get_args

from StaICC.errors import ArgumentError
from StaICC.kernels.huggingface.prefix_plan import shared_length
from StaICC.kernels.huggingface.prompt_tokens import encode

LabelScoring = Literal["last", "first", "full"]
_DECIDES = {"last": slice(-1, None), "first": slice(1), "full": slice(None)}
"""Which tokens of a label decide, for each value of ``LabelScoring``."""

IssueKind = Literal["no-token", "shared-token", "special-token", "boundary", "space"]


@dataclass(frozen=True, slots=True)
class LabelIssue:
    """Something about a label's tokens that can spoil its score.

    Attributes:
        kind: ``"no-token"``: the label has no token to score; ``"shared-token"``: labels share the deciding token, so
            the model cannot tell them apart; ``"special-token"``: the deciding token is special (end of sequence,
            unknown); ``"boundary"``: the tokenizer splits prompt + label elsewhere than at their border; ``"space"``:
            the label would have other tokens if the space at the end of the prompt belonged to it.
        labels: The labels concerned.
        tokens: The tokens concerned, as the tokenizer names them.
        message: The finding in one sentence.
        fatal: Whether the scores mean nothing (the rest only moves them).
    """

    kind: IssueKind
    labels: tuple[str, ...]
    tokens: tuple[str, ...]
    message: str
    fatal: bool


def check_labels(label_space: Sequence[str], scoring: str) -> None:
    """Refuse a label space or a way of scoring that cannot be used."""
    if scoring not in get_args(LabelScoring):
        raise ArgumentError(f"label_scoring must be one of {', '.join(get_args(LabelScoring))}, not {scoring!r}")
    if isinstance(label_space, str) or not all(isinstance(label, str) for label in label_space) or not label_space:
        raise ArgumentError(f"label_space must be a non-empty list of strings, not {label_space!r}")


def deciding_tokens(tokenizer: Any, label_space: Sequence[str], scoring: str = "last") -> list[int]:
    """The token that decides each label.

    Args:
        tokenizer: A tokenizer of ``transformers``.
        label_space: The labels.
        scoring: ``"last"``: last token of ``tokenizer(label)``, special tokens included, as in 0.1.1; ``"first"``:
            first token of the label without special tokens.

    Returns:
        One token id for each label.

    Raises:
        ArgumentError: A label has no token.
    """
    check_labels(label_space, scoring)
    found = encode(tokenizer, label_space, special=scoring == "last")
    for label, ids in zip(label_space, found, strict=True):
        if not ids:
            raise ArgumentError(f"the label {label!r} has no token; every label needs at least one to be scored")
    return [ids[_DECIDES[scoring]][0] for ids in found]


def continuations(
    tokenizer: Any, prompts: Sequence[str], label_space: Sequence[str], special: bool = True
) -> list[tuple[int, list[tuple[int, ...]]]]:
    """Tokens of each prompt followed by each label, split as the tokenizer splits the whole text.

    Where the border of prompt and label is no border of tokens (a space at the end of the prompt that goes with the
    label), the score starts at the last border that all labels have in common, so that all of them are scored given
    the same tokens.

    Args:
        tokenizer: A tokenizer of ``transformers``.
        prompts: The prompts.
        label_space: The labels.
        special: Whether the tokenizer adds its special tokens (never at the end).

    Returns:
        For each prompt, the number of tokens that are given, and the whole token sequence for each label.
    """
    alone = encode(tokenizer, prompts, special)
    joined = encode(tokenizer, [prompt + label for prompt in prompts for label in label_space], special)
    bare = encode(tokenizer, [""], special)[0]
    end = getattr(tokenizer, "eos_token_id", None)
    closes = bool(bare) and bare[-1] == end and end != getattr(tokenizer, "bos_token_id", None)
    found = []
    for index, prompt in enumerate(alone):
        rows = joined[index * len(label_space) : (index + 1) * len(label_space)]
        if closes:
            prompt = prompt[:-1]
            rows = [row[:-1] for row in rows]
        given = min(len(prompt), *(shared_length(prompt, row) for row in rows))
        found.append((given, rows))
    return found


def _named(tokenizer: Any, ids: Sequence[int]) -> tuple[str, ...]:
    return tuple(str(name) for name in tokenizer.convert_ids_to_tokens(list(ids)))


def reply_tokens(tokenizer: Any, label_space: Sequence[str], context: str) -> tuple[list[tuple[int, ...]], int]:
    """Tokens of each label directly after a text that writes its own special tokens.

    Args:
        tokenizer: A tokenizer of ``transformers``.
        label_space: The labels.
        context: The text, such as the end of a chat prompt.

    Returns:
        For each label its tokens, from the first one that is not the same for all texts; and how many tokens at the end
        of the context alone belong to the labels in this way.
    """
    (alone,) = encode(tokenizer, [context], special=False)
    ((given, rows),) = continuations(tokenizer, [context], label_space, special=False)
    return [row[given:] for row in rows], len(alone) - given


def audit_labels(
    tokenizer: Any,
    label_space: Sequence[str],
    scoring: str = "last",
    prompt: str | None = None,
    context: str = "",
) -> tuple[LabelIssue, ...]:
    """Look for what can spoil the labels' scores.

    Args:
        tokenizer: A tokenizer of ``transformers``.
        label_space: The labels.
        scoring: ``"last"``, ``"first"`` or ``"full"``.
        prompt: A prompt that the labels follow, for the findings that depend on it.
        context: The end of every prompt, if labels are scored with the tokens that they have there.

    Returns:
        The findings, the fatal ones first; empty if there are none.
    """
    check_labels(label_space, scoring)
    whole = (
        reply_tokens(tokenizer, label_space, context)[0]
        if context
        else encode(tokenizer, label_space, special=scoring == "last")
    )
    special = set(getattr(tokenizer, "all_special_ids", ()))
    issues: list[LabelIssue] = []
    deciding: dict[tuple[int, ...], list[str]] = {}
    for label, ids in zip(label_space, whole, strict=True):
        if not ids:
            issues.append(LabelIssue("no-token", (label,), (), f"the label {label!r} has no token", True))
            continue
        decides = ids[_DECIDES[scoring]]
        deciding.setdefault(decides, []).append(label)
        if hit := [token for token in decides if token in special]:
            names = _named(tokenizer, hit)
            message = f"the label {label!r} is scored by the special token {', '.join(names)}"
            issues.append(LabelIssue("special-token", (label,), names, message, True))
    for decides, labels in deciding.items():
        if len(labels) > 1:
            names = _named(tokenizer, decides)
            listed = ", ".join(map(repr, labels))
            message = f"the labels {listed} are scored by the same token {' '.join(names)} and cannot be told apart"
            issues.append(LabelIssue("shared-token", tuple(labels), names, message, True))
    if prompt is not None:
        issues.extend(_in_context(tokenizer, label_space, prompt))
    return tuple(sorted(issues, key=lambda issue: not issue.fatal))


def _in_context(tokenizer: Any, label_space: Sequence[str], prompt: str) -> list[LabelIssue]:
    """Find issues that depend on the prompt before the label."""
    bare = encode(tokenizer, label_space, special=False)
    start = encode(tokenizer, [prompt], special=False)[0]
    joined = encode(tokenizer, [prompt + label for label in label_space], special=False)
    moved = [label for label, ids, both in zip(label_space, bare, joined, strict=True) if both != start + ids]
    issues: list[LabelIssue] = []
    if moved:
        listed = ", ".join(map(repr, moved))
        message = (
            f"prompt + label is split otherwise than prompt and label alone, for {listed}; "
            "single-token scoring asks for a token that the tokenizer would not write there"
        )
        issues.append(LabelIssue("boundary", tuple(moved), (), message, False))
    stripped = prompt.rstrip(" ")
    if stripped != prompt:
        shorter = encode(tokenizer, [stripped], special=False)[0]
        spaced = encode(tokenizer, [" " + label for label in label_space], special=False)
        changed = [
            label for label, ids, other in zip(label_space, bare, spaced, strict=True) if shorter + other != start + ids
        ]
        if changed:
            listed = ", ".join(map(repr, changed))
            message = (
                f"the tokens change when the space at the end of the prompt moves to the label, for {listed}; "
                "models that learnt words with their space may score them low"
            )
            issues.append(LabelIssue("space", tuple(changed), (), message, False))
    return issues

"""What an inference function returned for each query of a chunk: a checked prediction, or a failure with its reason.

In a chunk, the user's function gets each prompt, and its return value is checked
(:mod:`StaICC.inference.contract`). An exception, a value that cannot be scored, or an object whose methods fail becomes
a :class:`Failure` with a reason. Only ``KeyboardInterrupt`` propagates.
"""

from __future__ import annotations

import dataclasses
import re
import traceback
import warnings
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import PurePath
from typing import Any, Literal, TypeVar

from StaICC import errors
from StaICC.inference.contract import (
    Answer,
    BatchForm,
    ReplyLabel,
    batch_form,
    check_answer,
    check_batch,
    reads_parts,
)
from StaICC.inference.prompt_key import PromptKey
from StaICC.prompting.prompt_text import prefixes_of
from StaICC.prompting.prompt_writer import Prompt, as_argument
from StaICC.safe_text import one_line

_T = TypeVar("_T")

OnError = Literal["raise", "collect"]
"""Stop at the first query without a prediction, or continue and report it."""
Unparsed = Literal["error", "wrong", "excluded"]
"""How a reply without a label counts: as a failed query, as a wrong prediction, or not at all (with bounds)."""

Chunk = Sequence[PromptKey]
"""Prompts with their label space, which is the same for all."""

_LONGEST = 2000  # characters of a reason, which is saved in results

_FINAL = (SystemExit, errors.DataError, errors.RunEndingError, errors.MissingDependencyError)


@dataclass(frozen=True, slots=True)
class Failure:
    """A query without a prediction."""

    reason: str
    """The error message."""
    cause: BaseException | None = field(default=None, compare=False, repr=False)
    """The exception, if it was raised in this process."""
    final: bool = False
    """Whether it ends the run even with ``on_error="collect"``: the function exits, a package or data is missing, or
    every query would fail in the same way."""
    reply: str | None = None
    """The generated reply, if it has no label and the run does not count it as a failed query; empty if the server
    withheld it."""
    unread: str | None = field(default=None, compare=False, repr=False)
    """The generated reply, if it has no label and the run counts it as a failed query."""

    def __reduce__(self) -> tuple[Any, ...]:
        cause = None  # exceptions of user code may not be picklable
        return Failure, (self.reason, cause, self.final, self.reply, self.unread)


def ends(answers: Sequence[Answer | Failure], on_error: OnError) -> bool:
    """Return whether a run ends after these predictions."""
    failures = [answer for answer in answers if isinstance(answer, Failure)]
    return any(failure.final or (on_error == "raise" and failure.reply is None) for failure in failures)


def _describe(error: BaseException) -> str:
    """Describe an exception of user code, with file and line."""
    try:
        text = str(error)
    except Exception:
        text = "(its message cannot be shown)"
    place = ""
    for frame, line in traceback.walk_tb(error.__traceback__):
        place = f" (at {PurePath(frame.f_code.co_filename).name}:{line})"
    shown = text if len(text) <= _LONGEST else text[:_LONGEST] + " ..."
    return type(error).__name__ + (f": {shown}" if shown else "") + place


def _raised(said: str, error: BaseException) -> Failure:
    """Return the failure of a query whose exception is described after these words."""
    if isinstance(error, errors.MissingDependencyError):
        return Failure(str(error), error, final=True)
    hint, trace = "", error.__traceback__
    called = isinstance(error, TypeError) and trace is not None and trace.tb_next is None
    if called and "required positional argument" in str(error):
        hint = "; it is called with prompt and label_space only: bind other parameters with functools.partial"
    elif called and "unexpected keyword argument" in str(error):
        names = "prompt and label_space, or pass batched_inference=True if it takes a list of prompts"
        names = "prompts and label_space" if said.startswith("the batched") else names
        hint = f"; it is called with arguments by name: call its parameters {names}"
    withheld = "" if isinstance(error, errors.WithheldReplyError) else None
    return Failure(f"{said} {_describe(error)}{hint}", error, isinstance(error, _FINAL), withheld)


def _called(who: str, function: Callable[..., _T], *arguments: Any, **named: Any) -> _T | Failure:
    """Return what code of the user's returns, or a failure in the place of an exception."""
    try:
        return function(*arguments, **named)
    except KeyboardInterrupt:
        raise
    except BaseException as error:
        return _raised(f"{who} raised", error)


def checked(value: Any, label_space: Sequence[str]) -> Answer | Failure:
    """Check the return value for one query.

    Args:
        value: The return value. An exception, which batched functions may return for a query, is a failure.
        label_space: The labels of the query.

    Returns:
        The prediction (a text is a reply), or a failure with the reason.
    """
    if issubclass(type(value), BaseException):  # not isinstance, which asks the value for its class
        return _raised("the inference function gave an error:", value)
    who = f"reading the inference function's answer, a {type(value).__name__},"
    answer = _called(who, check_answer, value, label_space, True)
    if isinstance(answer, Failure) and isinstance(answer.cause, errors.OutputError):
        return Failure(f"the inference function's answer cannot be scored: {answer.cause}", answer.cause)
    return answer


def unparsed_reason(rule: str, reply: str) -> str:
    """Say why a reply has no label, with its beginning."""
    return f"unparsed reply ({rule}): {one_line(reply if len(reply) <= 80 else reply[:77] + '...')!r}"


def unlabelled(reason: str) -> Failure:
    """Return a reply without a label from its recorded reason: it is empty where the reason shows no text."""
    rule = reason.removeprefix("unparsed reply (")
    return Failure(reason, reply="" if rule == reason or rule.startswith("empty") else rule)


def read_reply(
    answer: Answer | Failure, label_space: Sequence[str], unparsed: Unparsed, prompt: Prompt = ""
) -> Answer | Failure:
    """Return the label of a reply, or a failure that shows the reply; everything else is returned unchanged.

    Args:
        answer: A checked prediction: a text is a reply.
        label_space: The labels of the query.
        unparsed: How replies without a label count.
        prompt: The prompt; a reply may repeat its template, if the prompt knows its parts.
    """
    if isinstance(answer, Failure) and answer.reply is not None and unparsed == "error":
        return dataclasses.replace(answer, reply=None)
    if not isinstance(answer, str):
        return answer
    from StaICC.inference.reply_parser import parse_reply  # its patterns are made for replies only

    label_prefix, text_prefixes = prefixes_of(prompt)
    parsed = parse_reply(answer, label_space, label_prefix, text_prefixes)
    if parsed.label is not None:
        return ReplyLabel(parsed.label, answer)
    reason = unparsed_reason(parsed.rule, answer)
    if unparsed != "error":
        return Failure(reason, reply=answer)
    labels = ", ".join(map(repr, label_space[:10])) + ", ..." * (len(label_space) > 10)
    remedy = "unparsed='wrong' or 'excluded' (--unparsed) continues"
    return Failure(f"{reason}; expected one of {labels}. {remedy}", unread=answer)


def batch_answers(
    batch: BatchForm, prompts: Sequence[Prompt], label_space: Sequence[str], with_parts: bool = False
) -> list[Answer | Failure] | Failure:
    """Call a batched function.

    Args:
        batch: Takes prompts and label space.
        prompts: The prompts.
        label_space: Their label space.
        with_parts: Whether the function reads the parts of prompts.

    Returns:
        One prediction or failure per prompt, or a failure of the call.
    """
    arguments = [as_argument(prompt, with_parts) for prompt in prompts], list(label_space)
    values = _called("the batched inference function", batch, *arguments)
    if type(values) is Failure:
        return values
    answers = _called("reading the batched inference function's answers", check_batch, values, len(prompts))
    if type(answers) is Failure and isinstance(answers.cause, errors.OutputError):
        if len(prompts) > 1:
            text = "batch() did not return a list with one prediction for each prompt; it gets fewer prompts again"
            warnings.warn(text, RuntimeWarning, stacklevel=1)  # a constant text at one place: shown once
        return Failure(str(answers.cause), answers.cause)
    return answers if isinstance(answers, Failure) else [checked(value, label_space) for value in answers]


def solver(
    function: Any, on_error: OnError, stopped: Callable[[], bool] = lambda: False
) -> Callable[[Chunk], list[Answer | Failure]]:
    """Return what evaluates chunks of queries with one label space.

    Args:
        function: The inference function.
        on_error: With ``"raise"`` a chunk ends at the first failure.
        stopped: Called before each prompt of a function that is not batched; if true, the chunk ends.

    Returns:
        A function that returns one prediction or failure per query, in order; fewer if the chunk ended early.
    """
    batch, with_parts = batch_form(function), reads_parts(function)

    def solve(chunk: Chunk) -> list[Answer | Failure]:
        if batch is not None:
            return _solve_batch(batch, [prompt for prompt, _ in chunk], chunk[0][1], on_error, with_parts)
        answers: list[Answer | Failure] = []
        for prompt, labels in chunk:
            if stopped():
                break
            argument = as_argument(prompt, with_parts)
            value = _called("the inference function", function, prompt=argument, label_space=list(labels))
            answers.append(value if type(value) is Failure else checked(value, labels))
            if ends(answers[-1:], on_error):
                break
        return answers

    return solve


def _solve_batch(
    batch: BatchForm, prompts: Sequence[Prompt], label_space: tuple[str, ...], on_error: OnError, with_parts: bool
) -> list[Answer | Failure]:
    """Evaluate a chunk in one call; if it fails, halve it until the failing query is alone."""
    values = batch_answers(batch, prompts, label_space, with_parts)
    if not isinstance(values, Failure):
        return values
    if len(prompts) == 1 or isinstance(values.cause, errors.MissingDependencyError):
        return [values]
    if values.final:
        reason = f"{values.reason}, asked for {len(prompts)} queries from this one on"
        return [dataclasses.replace(values, reason=reason)]
    half = len(prompts) // 2
    answers = _solve_batch(batch, prompts[:half], label_space, on_error, with_parts)
    if ends(answers, on_error):
        return answers
    return answers + _solve_batch(batch, prompts[half:], label_space, on_error, with_parts)


# Failure reasons. Kernels and servers have different messages, and a worker process returns only the message, so this
# searches for phrases. The result decides only whether on_error="raise" ends the run or continues with other rounds.

_TOO_LONG = re.compile(
    r"the model reads \d"
    r"|context[ _-](length|size|window|limit)"
    r"|\b(prompt|input|sequence|context|query|message)s?\b[^.;\n]{0,40}\b(is|are|was|were) too long\b"
    r"|maximum (model|sequence|prompt|input|position)[ _-]?(length|embeddings?)"
    r"|\bmax_(model_len|position_embeddings|seq_len|input_tokens)"
    r"|`inputs` (tokens \+|must have less)"
    r"|exceeds the maximum number of (input )?tokens|max_tokens must be at least 1, got -",
    re.IGNORECASE,
)
_PLACE = re.compile(r" \(at [^()\n]*:\d+\)")
_NUMBER = re.compile(r"\d[\d,.]*")


def is_too_long(reason: str) -> bool:
    """Return whether a failure reason says that a prompt exceeds the context length of the model.

    Example:
        >>> is_too_long("prompt 0 has 40123 tokens, but the model reads 32768 at most")
        True
        >>> is_too_long("the server took too long to answer")
        False
    """
    return _TOO_LONG.search(reason) is not None


def alike(reasons: Mapping[str, int]) -> tuple[tuple[str, int], ...]:
    """Merge failure reasons that differ only in numbers.

    Args:
        reasons: Number of queries for each reason.

    Returns:
        The first reason of each kind, without its code location, and the number of queries of the kind; the most
        frequent first.

    Example:
        >>> alike({"it has 3 tokens": 1, "refused": 1, "it has 51 tokens": 2})
        (('it has 3 tokens', 3), ('refused', 1))
    """
    merged: dict[str, tuple[str, int]] = {}
    for reason, count in reasons.items():
        message = _PLACE.sub("", reason)
        kind = _NUMBER.sub("#", message)
        first, before = merged.get(kind, (message, 0))
        merged[kind] = (first, before + count)
    return tuple(sorted(merged.values(), key=lambda pair: -pair[1]))

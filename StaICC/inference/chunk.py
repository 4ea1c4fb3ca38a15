"""Evaluation of one chunk of queries, in this process or in a worker.

The user's function gets each prompt, and its return value is checked (:mod:`StaICC.inference.contract`). An exception,
a value that cannot be scored, or an object whose methods fail becomes a :class:`Failure` with a reason. Only
``KeyboardInterrupt`` propagates.
"""

from __future__ import annotations

import dataclasses
import re
import warnings
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import PurePath
from typing import Any, Literal

from StaICC.errors import DataError, MissingDependencyError, OutputError, RunEndingError, WithheldReplyError
from StaICC.inference.contract import Answer, BatchForm, Inference, batch_form, check_answer, check_batch
from StaICC.prompting import Prompt, as_argument
from StaICC.safe_text import one_line

OnError = Literal["raise", "collect"]
"""Stop at the first query without a prediction, or continue and report it."""
Unparsed = Literal["error", "wrong", "excluded"]
"""How a reply without a label counts: as a failed query, as a wrong prediction, or not at all (with bounds)."""

_LONGEST = 2000  # characters of a reason, which is saved in results

_FINAL = (SystemExit, DataError, RunEndingError, MissingDependencyError)


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

    def __reduce__(self) -> tuple[Any, ...]:
        return Failure, (self.reason, None, self.final, self.reply)  # exceptions of user code may not be picklable


def ends(answers: Sequence[Answer | Failure], on_error: OnError) -> bool:
    """Return whether a run ends after these predictions."""
    return any(
        isinstance(answer, Failure) and (answer.final or (on_error == "raise" and answer.reply is None))
        for answer in answers
    )


def _describe(error: BaseException) -> str:
    """Describe an exception of user code, with file and line."""
    try:
        text = str(error)
    except Exception:
        text = "(its message cannot be shown)"
    place, trace = "", error.__traceback__
    while trace is not None:
        place, trace = f" (at {PurePath(trace.tb_frame.f_code.co_filename).name}:{trace.tb_lineno})", trace.tb_next
    shown = text if len(text) <= _LONGEST else text[:_LONGEST] + " ..."
    return type(error).__name__ + (f": {shown}" if shown else "") + place


def _raised(who: str, error: BaseException) -> Failure:
    if isinstance(error, MissingDependencyError):
        return Failure(str(error), error, final=True)
    hint = ""
    called = isinstance(error, TypeError) and error.__traceback__ is not None and error.__traceback__.tb_next is None
    if called and "required positional argument" in str(error):
        hint = "; it is called with prompt and label_space only: bind other parameters with functools.partial"
    elif called and "unexpected keyword argument" in str(error):
        hint = "; it is called with arguments by name: call its parameters "
        if who.startswith("the batched"):
            hint += "prompts and label_space"
        else:
            hint += "prompt and label_space, or pass batched_inference=True if it takes a list of prompts"
    withheld = "" if isinstance(error, WithheldReplyError) else None
    return Failure(f"{who} raised {_describe(error)}{hint}", error, isinstance(error, _FINAL), withheld)


def checked(value: object, label_space: Sequence[str]) -> Answer | Failure:
    """Check the return value for one query.

    Args:
        value: The return value. An exception, which batched functions may return for a query, is a failure.
        label_space: The labels of the query.

    Returns:
        The prediction (a text is a reply), or a failure with the reason.
    """
    try:
        if isinstance(value, BaseException):
            reason = f"the inference function gave an error: {_describe(value)}"
            withheld = "" if isinstance(value, WithheldReplyError) else None
            return Failure(reason, value, isinstance(value, RunEndingError), withheld)
        return check_answer(value, label_space, free_text=True)
    except OutputError as error:
        return Failure(f"the inference function's answer cannot be scored: {error}", error)
    except KeyboardInterrupt:
        raise
    except BaseException as error:  # of the value's own methods
        return _raised(f"reading the inference function's answer, a {type(value).__name__},", error)


def unparsed_reason(rule: str, reply: str) -> str:
    """Say why a reply has no label, with its beginning."""
    return f"unparsed reply ({rule}): {one_line(reply if len(reply) <= 80 else reply[:77] + '...')!r}"


def unlabelled(reason: str) -> Failure:
    """Return a reply without a label from its recorded reason: it is empty where the reason shows no text."""
    rule = reason.removeprefix("unparsed reply (")
    return Failure(reason, reply="" if rule == reason or rule.startswith("empty") else rule)


def read_reply(answer: Answer | Failure, label_space: Sequence[str], unparsed: Unparsed) -> Answer | Failure:
    """Return the label of a reply, or a failure that shows the reply; everything else is returned unchanged.

    Args:
        answer: A checked prediction: a text is a reply.
        label_space: The labels of the query.
        unparsed: How replies without a label count.
    """
    if isinstance(answer, Failure) and answer.reply is not None and unparsed == "error":
        return dataclasses.replace(answer, reply=None)
    if not isinstance(answer, str):
        return answer
    from StaICC.inference.reply_parser import parse_reply  # 25 patterns, for replies only

    parsed = parse_reply(answer, label_space)
    if parsed.label is not None:
        return parsed.label
    reason = unparsed_reason(parsed.rule, answer)
    if unparsed != "error":
        return Failure(reason, reply=answer)
    labels = ", ".join(map(repr, label_space[:10])) + ", ..." * (len(label_space) > 10)
    return Failure(f"{reason}; expected one of {labels}. unparsed='wrong' or 'excluded' continues without its label")


def batch_answers(
    batch: BatchForm, prompts: Sequence[Prompt], label_space: Sequence[str]
) -> Sequence[object] | Failure:
    """Call a batched function. The single predictions are not checked yet.

    Args:
        batch: Takes prompts and label space.
        prompts: The prompts.
        label_space: Their label space.

    Returns:
        One value per prompt, or a failure with the reason.
    """
    try:
        values = batch([as_argument(prompt) for prompt in prompts], list(label_space))
    except KeyboardInterrupt:
        raise
    except BaseException as error:
        return _raised("the batched inference function", error)
    try:
        return check_batch(values, len(prompts))
    except OutputError as error:
        if len(prompts) > 1:
            warnings.warn(  # a constant text at one place: shown once
                "batch() did not return a list with one prediction for each prompt; its prompts are evaluated again in "
                "smaller batches",
                RuntimeWarning,
                stacklevel=1,
            )
        return Failure(str(error), error)
    except KeyboardInterrupt:
        raise
    except BaseException as error:
        return _raised("reading the batched inference function's answers", error)


def solve_chunk(
    function: Inference,
    prompts: Sequence[Prompt],
    label_space: tuple[str, ...],
    on_error: OnError,
    stopped: Callable[[], bool] | None = None,
) -> list[Answer | Failure]:
    """Evaluate one chunk.

    Args:
        function: The inference function.
        prompts: The prompts of the chunk.
        label_space: Their label space.
        on_error: With ``"raise"`` the chunk ends at the first failure.
        stopped: Called before each prompt; if true, the chunk ends.

    Returns:
        One prediction or failure per prompt, in order; fewer if the chunk ended early.
    """
    batch = batch_form(function)
    if batch is not None:
        return _solve_batch(batch, prompts, label_space, on_error)
    answers: list[Answer | Failure] = []
    for prompt in prompts:
        if stopped is not None and stopped():
            break
        answer: Answer | Failure
        try:
            value = function(prompt=as_argument(prompt), label_space=list(label_space))
        except KeyboardInterrupt:
            raise
        except BaseException as error:
            answer = _raised("the inference function", error)
        else:
            answer = checked(value, label_space)
        answers.append(answer)
        if ends([answer], on_error):
            break
    return answers


def _solve_batch(
    batch: BatchForm, prompts: Sequence[Prompt], label_space: tuple[str, ...], on_error: OnError
) -> list[Answer | Failure]:
    """Evaluate a chunk in one call; if it fails, halve it until the failing query is alone."""
    values = batch_answers(batch, prompts, label_space)
    if not isinstance(values, Failure):
        return [checked(value, label_space) for value in values]
    if len(prompts) == 1 or isinstance(values.cause, MissingDependencyError):
        return [values]
    if values.final:
        return [
            dataclasses.replace(values, reason=f"{values.reason}, asked for {len(prompts)} queries from this one on")
        ]
    half = len(prompts) // 2
    answers = _solve_batch(batch, prompts[:half], label_space, on_error)
    if ends(answers, on_error):
        return answers
    return answers + _solve_batch(batch, prompts[half:], label_space, on_error)


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

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
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import PurePath
from typing import Any, Literal, TypeVar

from StaICC import errors
from StaICC.argument_syntax import argument_and_option
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
from StaICC.prompting.prompt_text import Prompt, prefixes_of
from StaICC.prompting.prompt_writer import as_argument
from StaICC.safe_text import one_line

_T = TypeVar("_T")

OnError = Literal["raise", "collect"]
"""Stop at the first query without a prediction, or continue and report it."""
Unparsed = Literal["error", "wrong", "excluded"]
"""How a reply without a label counts: as a failed query, as a wrong prediction, or not at all (with bounds)."""

Chunk = Sequence[PromptKey]
"""Prompts with their label space, which is the same for all."""

_LONGEST_MESSAGE = 2000
"""Characters of an exception's message in a reason, which is saved in results."""
_LONGEST_REPLY = 80
"""Characters of a reply in a reason."""
_MOST_LABELS = 10
"""Labels that a reason lists."""

_FINAL_ERRORS = (SystemExit, errors.DataError, errors.RunEndingError, errors.MissingDependencyError)


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
    is_too_long: bool = field(default=False, compare=False, repr=False)
    """Whether the prompt exceeds the context length of the model (:func:`failure_of_error`)."""

    def __reduce__(self) -> tuple[Any, ...]:
        cause = None  # exceptions of user code may not be picklable
        return Failure, (self.reason, cause, self.final, self.reply, self.unread, self.is_too_long)


def failure_of_error(error: BaseException, reason: str, *, final: bool = False, reply: str | None = None) -> Failure:
    """Return the failure of a query for which a kernel or a function of the user raised or returned an exception.

    Args:
        error: The exception.
        reason: What the failure says, with the message of the exception.
        final: Whether it ends the run.
        reply: The reply, if it was withheld.
    """
    is_too_long = isinstance(error, errors.PromptTooLongError) or says_too_long(reason)
    return Failure(reason, cause=error, final=final, reply=reply, is_too_long=is_too_long)


def recorded_failure(reason: str) -> Failure:
    """Return the failure of a query from its reason, which is all that a saved result has of it."""
    return Failure(reason, is_too_long=says_too_long(reason))


def output_error(message: str, failure: Failure) -> errors.OutputError:
    """Return the exception for a query without a prediction, with the exception of its failure as the cause."""
    error_type = errors.OutputError
    if failure.is_too_long:
        error_type = errors.PromptTooLongError
    error = error_type(message)
    error.__cause__ = failure.cause
    return error


def ends_run(answers: Sequence[Answer | Failure], on_error: OnError) -> bool:
    """Return whether a run ends after these predictions of queries.

    It ends after a failure that is final, and with ``on_error="raise"`` after any failed query. A reply without a label
    is a :class:`Failure`, too, but the query did not fail: the failure has the reply.

    Args:
        answers: The predictions and failures, in any order.
        on_error: Whether a failed query ends the run (``"raise"``).
    """
    for answer in answers:
        if not isinstance(answer, Failure):
            continue
        if answer.final:
            return True
        has_reply = answer.reply is not None
        if on_error == "raise" and not has_reply:
            return True
    return False


def _describe(error: BaseException) -> str:
    """Return the type and message of an exception of user code, with file and line."""
    try:
        message = str(error)
    except Exception:
        message = "(its message cannot be shown)"
    if len(message) > _LONGEST_MESSAGE:
        message = f"{message[:_LONGEST_MESSAGE]} ..."
    description = type(error).__name__
    if message:
        description = f"{description}: {message}"

    frames = list(traceback.walk_tb(error.__traceback__))
    if not frames:
        return description
    innermost_frame, line = frames[-1]
    file_name = PurePath(innermost_frame.f_code.co_filename).name
    return f"{description} (at {file_name}:{line})"


def _raised(source: str, error: BaseException) -> Failure:
    """Return the failure of a query for which user code raised an exception.

    Args:
        source: What raised it, the first words of the reason.
        error: The exception.
    """
    if isinstance(error, errors.MissingDependencyError):
        return Failure(str(error), cause=error, final=True)
    reply = None
    if isinstance(error, errors.WithheldReplyError):
        # A withheld reply is a reply without a label: it is empty.
        reply = ""
    reason = f"{source} {_describe(error)}{_calling_hint(source, error)}"
    return failure_of_error(error, reason, final=isinstance(error, _FINAL_ERRORS), reply=reply)


def _calling_hint(source: str, error: BaseException) -> str:
    """Return how this library calls a function, if the parameters of the function do not allow that; else empty.

    Args:
        source: What raised the error: the function, or its batched form.
        error: What it raised.
    """
    trace = error.__traceback__
    # The call itself fails where no frame of the function is in the traceback.
    is_error_of_call = isinstance(error, TypeError) and trace is not None and trace.tb_next is None
    if not is_error_of_call:
        return ""
    if "required positional argument" in str(error):
        return "; it is called with prompt and label_space only: bind other parameters with functools.partial"
    if "unexpected keyword argument" not in str(error):
        return ""
    if source.startswith("the batched"):
        return "; it is called with arguments by name: call its parameters prompts and label_space"
    return (
        "; it is called with arguments by name: call its parameters prompt and label_space, or pass "
        "batched_inference=True if it takes a list of prompts"
    )


def _call_user_code(caller: str, function: Callable[..., _T], *arguments: Any, **keywords: Any) -> _T | Failure:
    """Call a function that runs code of the user, and return its value; an exception is returned as a failure.

    Args:
        caller: The first words of the failure's reason, such as "the inference function".
        function: The function.
        *arguments: Its arguments.
        **keywords: Its keyword arguments.
    """
    try:
        return function(*arguments, **keywords)
    except KeyboardInterrupt:
        raise
    except BaseException as error:
        return _raised(f"{caller} raised", error)


def checked_prediction(value: Any, label_space: Sequence[str]) -> Answer | Failure:
    """Check the return value for one query.

    Args:
        value: The return value. An exception, which batched functions may return for a query, is a failure.
        label_space: The labels of the query.

    Returns:
        The prediction (a text is a reply), or a failure with the reason.
    """
    if issubclass(type(value), BaseException):  # not isinstance, which asks the value for its class
        return _raised("the inference function gave an error:", value)
    try:
        return check_answer(value, label_space, free_text=True)
    except KeyboardInterrupt:
        raise
    except errors.OutputError as error:
        return Failure(f"the inference function's answer cannot be scored: {error}", error)
    except BaseException as error:  # the check calls methods of an object of the user's
        return _raised(f"reading the inference function's answer, a {type(value).__name__}, raised", error)


def unparsed_reason(rule: str, reply: str) -> str:
    """Say why a reply has no label, with its beginning."""
    if len(reply) > _LONGEST_REPLY:
        reply = reply[: _LONGEST_REPLY - 3] + "..."
    return f"unparsed reply ({rule}): {one_line(reply)!r}"


def continue_without_labels() -> str:
    """Return the sentence that says which settings continue a run after a reply without a label.

    It is part of the reasons of failed queries, which are saved.
    """
    wrong = argument_and_option("unparsed", "wrong")
    excluded = argument_and_option("unparsed", "excluded")
    return f"To continue, {wrong} counts such replies as wrong, and {excluded} leaves them out"


def recorded_unlabelled(reason: str) -> Failure:
    """Return the failure of a reply without a label from its reason, which is all that a saved result has of it.

    Args:
        reason: As :func:`unparsed_reason` writes it: "unparsed reply (no label): 'I do not know'", "unparsed reply
            (empty): ''". Every other reason is that of a reply that the server withheld.

    Returns:
        The failure. Its reply is empty if the reply was empty or withheld. The text of another reply is not saved in
        full, so the end of the reason takes its place: "no label): 'I do not know'".
    """
    beginning = "unparsed reply ("
    rule_and_reply = reason.removeprefix(beginning)
    was_withheld = not reason.startswith(beginning)
    was_empty = rule_and_reply.startswith("empty")
    if was_withheld or was_empty:
        return Failure(reason, reply="")
    return Failure(reason, reply=rule_and_reply)


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
        # A reply that the server withheld counts as a failed query.
        return dataclasses.replace(answer, reply=None)
    if not isinstance(answer, str):
        return answer
    # The patterns of this module are made for replies only.
    from StaICC.inference.reply_parser import first_mentioned_label, parse_reply

    label_prefix, text_prefixes = prefixes_of(prompt)
    parsed = parse_reply(answer, label_space, label_prefix, text_prefixes)
    if parsed.label is not None:
        return ReplyLabel(parsed.label, answer)

    reason = unparsed_reason(parsed.rule, answer)
    if unparsed != "error":
        return Failure(reason, reply=answer)
    # The query fails, and the message says what to do.
    expected = f"expected one of {_first_labels(label_space)}"
    mentioned = first_mentioned_label(answer, label_space)
    if parsed.rule == "no label" and mentioned is not None:
        expected = f"it mentions {label_space[mentioned]!r}, but not as the answer; {expected}"
    return Failure(f"{reason}; {expected}. {continue_without_labels()}", unread=answer)


def _first_labels(label_space: Sequence[str]) -> str:
    """Return the labels for a message, of many the first ones."""
    labels = ", ".join(repr(label) for label in label_space[:_MOST_LABELS])
    if len(label_space) > _MOST_LABELS:
        return f"{labels}, ..."
    return labels


def batch_answers(
    batch: BatchForm, prompts: Sequence[Prompt], label_space: Sequence[str], with_parts: bool = False
) -> list[Answer | Failure] | Failure:
    """Call a batched inference function once, with all prompts, and check what it returns.

    Args:
        batch: Takes prompts and label space.
        prompts: The prompts.
        label_space: Their label space.
        with_parts: Whether the function reads the parts of prompts.

    Returns:
        One prediction or failure per prompt; a single failure if the call raised an exception, or did not return one
        value for each prompt.
    """
    arguments = [as_argument(prompt, with_parts) for prompt in prompts]
    returned = _call_user_code("the batched inference function", batch, arguments, list(label_space))
    # type() and not isinstance(), which asks a value of the user's for its class.
    if type(returned) is Failure:
        return returned
    values = _call_user_code("reading the batched inference function's answers", check_batch, returned, len(prompts))
    if not isinstance(values, Failure):
        return [checked_prediction(value, label_space) for value in values]

    failure = values
    has_wrong_shape = isinstance(failure.cause, errors.OutputError)  # else the user's object raised an exception
    if not has_wrong_shape:
        return failure
    if len(prompts) > 1:
        # Python shows this once, since the text and the line are always the same.
        text = "batch() did not return a list with one prediction for each prompt; it gets fewer prompts again"
        warnings.warn(text, RuntimeWarning, stacklevel=1)
    return Failure(str(failure.cause), cause=failure.cause)


def chunk_evaluator(
    function: Any, on_error: OnError, stopped: Callable[[], bool] = lambda: False
) -> Callable[[Chunk], list[Answer | Failure]]:
    """Return a function that evaluates a chunk of queries: in one call if the inference function has a batched form.

    Args:
        function: The inference function.
        on_error: With ``"raise"`` a chunk ends at the first failure.
        stopped: Called before each prompt of a function that is not batched; if true, the chunk ends.

    Returns:
        A function of a chunk, whose queries have one label space. It returns one prediction or failure per query, in
        order; fewer if the chunk ended early.
    """
    batch = batch_form(function)
    with_parts = reads_parts(function)

    def evaluate_one_by_one(chunk: Chunk) -> list[Answer | Failure]:
        """Call the function once for each query, up to the first failure that ends the run."""
        answers: list[Answer | Failure] = []
        for prompt, labels in chunk:
            if stopped():
                break
            argument = as_argument(prompt, with_parts)
            value = _call_user_code("the inference function", function, prompt=argument, label_space=list(labels))
            answer = value if type(value) is Failure else checked_prediction(value, labels)
            answers.append(answer)
            if isinstance(answer, Failure) and ends_run([answer], on_error):
                break
        return answers

    if batch is None:
        return evaluate_one_by_one

    def evaluate_in_batches(chunk: Chunk) -> list[Answer | Failure]:
        """Call the batched form with all queries, or with fewer ones where it fails."""
        prompts = [prompt for prompt, _ in chunk]
        _, label_space = chunk[0]  # that of all queries
        return _evaluate_batch(batch, prompts, label_space, on_error, with_parts)

    return evaluate_in_batches


def _evaluate_batch(
    batch: BatchForm, prompts: Sequence[Prompt], label_space: tuple[str, ...], on_error: OnError, with_parts: bool
) -> list[Answer | Failure]:
    """Evaluate queries in one call of a batched function; if it fails, halve them until the failing query is alone.

    Args:
        batch: The batched function.
        prompts: The prompts.
        label_space: Their label space.
        on_error: Whether the run ends at the first failure, so that the queries after it are not evaluated.
        with_parts: Whether the function reads the parts of prompts.
    """
    answers = batch_answers(batch, prompts, label_space, with_parts)
    if not isinstance(answers, Failure):
        return answers
    failure = answers
    if len(prompts) == 1 or isinstance(failure.cause, errors.MissingDependencyError):
        return [failure]
    if failure.final:
        reason = f"{failure.reason}, asked for {len(prompts)} queries from this one on"
        return [dataclasses.replace(failure, reason=reason)]

    half = len(prompts) // 2
    first_answers = _evaluate_batch(batch, prompts[:half], label_space, on_error, with_parts)
    if ends_run(first_answers, on_error):
        return first_answers
    return first_answers + _evaluate_batch(batch, prompts[half:], label_space, on_error, with_parts)


# The phrases by which others than our kernels say that a prompt exceeds the context length. Our kernels raise a
# PromptTooLongError; its name is in the reason, and is found where only a saved reason is left.
_TOO_LONG = re.compile(
    r"\b(PromptTooLongError|LongPromptError)\b"
    # Our kernels: "prompt 0 has 40123 tokens, but the model reads 32768 at most".
    r"|the model reads \d"
    # OpenAI ("This model's maximum context length is ...", "context_length_exceeded"), vLLM, llama.cpp ("the request
    # exceeds the available context size"), Anthropic ("exceed context limit").
    r"|context[ _-](length|size|window|limit)"
    # Anthropic ("prompt is too long: 210000 tokens > 200000 maximum"), functions of users.
    r"|\b(prompt|input|sequence|context|query|message)s?\b[^.;\n]{0,40}\b(is|are|was|were) too long\b"
    # transformers ("longer than the specified maximum sequence length"), vLLM ("longer than the maximum model length").
    r"|maximum (model|sequence|prompt|input|position)[ _-]?(length|embeddings?)"
    # Settings of vLLM, of configurations of transformers, and of TensorRT-LLM and TGI.
    r"|\bmax_(model_len|position_embeddings|seq_len|input_tokens)"
    # TGI ("`inputs` tokens + `max_new_tokens` must be <= 4096", "`inputs` must have less than 1024 tokens").
    r"|`inputs` (tokens \+|must have less)"
    # Google ("The input token count exceeds the maximum number of tokens allowed"), and vLLM where the prompt leaves no
    # token for the reply.
    r"|exceeds the maximum number of (input )?tokens|max_tokens must be at least 1, got -",
    re.IGNORECASE,
)
_CODE_LOCATION = re.compile(r" \(at [^()\n]*:\d+\)")
_NUMBER = re.compile(r"\d[\d,.]*")


def says_too_long(message: str) -> bool:
    """Return whether a message says that a prompt exceeds the context length of the model.

    Only the message of a server or of a package says it. Of a failure, ask :attr:`Failure.is_too_long`.

    Example:
        >>> says_too_long("prompt 0 has 40123 tokens, but the model reads 32768 at most")
        True
        >>> says_too_long("the server took too long to answer")
        False
    """
    return _TOO_LONG.search(message) is not None


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
    first_message_by_kind: dict[str, str] = {}
    count_by_kind: Counter[str] = Counter()
    for reason, count in reasons.items():
        message = _CODE_LOCATION.sub("", reason)
        kind = _NUMBER.sub("#", message)
        first_message_by_kind.setdefault(kind, message)
        count_by_kind[kind] += count
    return tuple((first_message_by_kind[kind], count) for kind, count in count_by_kind.most_common())

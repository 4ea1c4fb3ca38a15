"""Evaluation of one chunk of queries, in this process or in a worker.

The user's function gets each prompt, and its return value is checked (:mod:`StaICC.inference.contract`). An exception,
a value that cannot be scored, or an object whose methods fail becomes a :class:`Failure` with a reason. Only
``KeyboardInterrupt`` propagates.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import PurePath
from typing import Any, Literal

from StaICC.errors import DataError, EditionError, MissingDependencyError, OutputError
from StaICC.inference.contract import Answer, Inference, batch_form, check_answer, check_batch
from StaICC.inference.remote_function import RemoteFunction
from StaICC.prompting import Prompt, as_argument

__all__ = ["Failure", "OnError", "batch_answers", "checked", "ends", "solve_chunk", "solve_remotely"]

OnError = Literal["raise", "collect"]

_LONGEST = 2000  # characters of a reason, which is saved in results

_FINAL = (SystemExit, DataError, EditionError, MissingDependencyError)

Batch = Callable[[Sequence[Any], list[str]], Any]


@dataclass(frozen=True, slots=True)
class Failure:
    """A query without a prediction."""

    reason: str
    """The error message."""
    cause: BaseException | None = field(default=None, compare=False, repr=False)
    """The exception, if it was raised in this process."""
    final: bool = False
    """Whether it ends the run even with ``on_error="collect"``: the function exits, or a package or data is missing."""

    def __reduce__(self) -> tuple[Any, ...]:
        return Failure, (self.reason, None, self.final)  # exceptions of user code may not be picklable


def ends(answers: Sequence[Answer | Failure], on_error: OnError) -> bool:
    """Return whether a run ends after these predictions."""
    return any(isinstance(answer, Failure) and (on_error == "raise" or answer.final) for answer in answers)


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
    if isinstance(error, TypeError) and "unexpected keyword argument 'prompt" in str(error):
        hint = "; it is called with arguments by name: call its parameters "
        if who.startswith("the batched"):
            hint += "prompts and label_space"
        else:
            hint += "prompt and label_space, or pass batched_inference=True if it takes a list of prompts"
    return Failure(f"{who} raised {_describe(error)}{hint}", error, final=isinstance(error, _FINAL))


def checked(value: object, label_space: Sequence[str], free_text: bool) -> Answer | Failure:
    """Check the return value for one query.

    Args:
        value: The return value. An exception, which batched functions may return for a query, is a failure.
        label_space: The labels of the query.
        free_text: A text is a completion that the benchmark parses.

    Returns:
        The prediction, or a failure with the reason.
    """
    try:
        if isinstance(value, BaseException):
            reason = f"the inference function gave an error: {_describe(value)}"
            return Failure(reason, value, final=isinstance(value, EditionError))
        return check_answer(value, label_space, free_text)
    except OutputError as error:
        return Failure(f"the inference function's answer cannot be scored: {error}", error)
    except KeyboardInterrupt:
        raise
    except BaseException as error:  # of the value's own methods
        return _raised(f"reading the inference function's answer, a {type(value).__name__},", error)


def batch_answers(batch: Batch, prompts: Sequence[Prompt], label_space: Sequence[str]) -> Sequence[object] | Failure:
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
    free_text: bool = False,
    stopped: Callable[[], bool] | None = None,
) -> list[Answer | Failure]:
    """Evaluate one chunk.

    Args:
        function: The inference function.
        prompts: The prompts of the chunk.
        label_space: Their label space.
        on_error: With ``"raise"`` the chunk ends at the first failure.
        free_text: A text is a completion that the benchmark parses.
        stopped: Called before each prompt; if true, the chunk ends.

    Returns:
        One prediction or failure per prompt, in order; fewer if the chunk ended early.
    """
    batch = batch_form(function)
    if batch is not None:
        return _solve_batch(batch, prompts, label_space, on_error, free_text)
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
            answer = checked(value, label_space, free_text)
        answers.append(answer)
        if ends([answer], on_error):
            break
    return answers


def solve_remotely(
    remote: RemoteFunction,
    prompts: Sequence[Prompt],
    label_space: tuple[str, ...],
    on_error: OnError,
    free_text: bool,
) -> tuple[list[Answer | Failure], int]:
    """Evaluate one chunk in a worker; returns what :func:`solve_chunk` does, and the number of new retries."""
    predictions = solve_chunk(remote.load(), prompts, label_space, on_error, free_text, lambda: remote.stopped)
    return predictions, remote.new_retries()


def _solve_batch(
    batch: Batch,
    prompts: Sequence[Prompt],
    label_space: tuple[str, ...],
    on_error: OnError,
    free_text: bool,
) -> list[Answer | Failure]:
    """Evaluate a chunk in one call; if it fails, halve it until the failing query is alone."""
    values = batch_answers(batch, prompts, label_space)
    if not isinstance(values, Failure):
        return [checked(value, label_space, free_text) for value in values]
    if len(prompts) == 1 or isinstance(values.cause, MissingDependencyError):
        return [values]
    if values.final:
        return [
            dataclasses.replace(values, reason=f"{values.reason}, asked for {len(prompts)} queries from this one on")
        ]
    half = len(prompts) // 2
    answers = _solve_batch(batch, prompts[:half], label_space, on_error, free_text)
    if ends(answers, on_error):
        return answers
    return answers + _solve_batch(batch, prompts[half:], label_space, on_error, free_text)

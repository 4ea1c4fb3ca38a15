"""One chunk of queries: what a worker runs, here or elsewhere.

Each prompt goes to the user's function and its answer through the contract (:mod:`StaICC.inference.contract`). Whatever
comes of it that is no answer (an exception of any kind, a value that cannot be scored, an object that lies about
itself) becomes a :class:`Failure` with its reason. Only Ctrl-C passes through.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import PurePath
from typing import Any, Literal

from StaICC.errors import DataError, MissingDependencyError, OutputError
from StaICC.inference.contract import Answer, Inference, batch_form, check_answer, check_batch
from StaICC.inference.shipping import Shipment
from StaICC.prompting import Prompt, as_argument

__all__ = ["Failure", "OnError", "batch_answers", "checked", "ends", "solve_chunk", "solve_shipped"]

OnError = Literal["raise", "collect"]

_LONGEST = 2000  # characters of a reason: it stands in results

_FINAL = (SystemExit, DataError, MissingDependencyError)

Batch = Callable[[Sequence[Any], list[str]], Any]


@dataclass(frozen=True, slots=True)
class Failure:
    """A query that has no answer."""

    reason: str
    """What went wrong, in words."""
    cause: BaseException | None = field(default=None, compare=False, repr=False)
    """The exception, where it was raised in this process."""
    final: bool = False
    """It ends the run even where failures are collected: the function asked to exit, or lacks a package or
    data, whatever it is asked."""

    def __reduce__(self) -> tuple[Any, ...]:
        return Failure, (self.reason, None, self.final)  # exceptions of user code may not be picklable


def ends(answers: Sequence[Answer | Failure], on_error: OnError) -> bool:
    """Tell whether a run ends with these answers."""
    return any(isinstance(answer, Failure) and (on_error == "raise" or answer.final) for answer in answers)


def _say(error: BaseException) -> str:
    """Name an exception of user code and the place that raised it."""
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
    hint = ""
    if isinstance(error, TypeError) and "unexpected keyword argument 'prompt" in str(error):
        names = "prompts and label_space" if who.startswith("the batched") else "prompt and label_space"
        hint = f"; it is called with arguments by name: call its parameters {names}"
    return Failure(f"{who} raised {_say(error)}{hint}", error, final=isinstance(error, _FINAL))


def checked(value: object, label_space: Sequence[str], free_text: bool) -> Answer | Failure:
    """Check what the function gave for one query.

    Args:
        value: What it gave; an exception, as batched functions put in the place of an answer, is a failure.
        label_space: The labels of the query.
        free_text: Texts are answers as they stand.

    Returns:
        The answer, or why there is none.
    """
    try:
        if isinstance(value, BaseException):
            return Failure(f"the inference function gave an error: {_say(value)}", value)
        return check_answer(value, label_space, free_text)
    except OutputError as error:
        return Failure(f"the inference function's answer cannot be scored: {error}", error)
    except KeyboardInterrupt:
        raise
    except BaseException as error:  # of the value's own methods
        return _raised(f"reading the inference function's answer, a {type(value).__name__},", error)


def batch_answers(batch: Batch, prompts: Sequence[Prompt], label_space: Sequence[str]) -> Sequence[object] | Failure:
    """Ask a batched function; its answers are not yet checked one by one.

    Args:
        batch: Takes prompts and label space.
        prompts: The prompts.
        label_space: Their label space.

    Returns:
        One value for each prompt, or why there are none.
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
    """Ask one chunk.

    Args:
        function: The inference function.
        prompts: The prompts of the chunk.
        label_space: Their label space.
        on_error: With ``"raise"`` nothing is asked after a failure.
        free_text: Texts are answers as they stand.
        stopped: Asked before each prompt; if it says yes, the chunk ends.

    Returns:
        One answer or failure for each prompt, in order; fewer if the chunk ended early.
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


def solve_shipped(
    shipment: Shipment,
    prompts: Sequence[Prompt],
    label_space: tuple[str, ...],
    on_error: OnError,
    free_text: bool,
) -> list[Answer | Failure]:
    """Ask one chunk of a function that was sent to this worker; see :func:`solve_chunk`."""
    return solve_chunk(shipment.unpack(), prompts, label_space, on_error, free_text, lambda: shipment.stopped)


def _solve_batch(
    batch: Batch,
    prompts: Sequence[Prompt],
    label_space: tuple[str, ...],
    on_error: OnError,
    free_text: bool,
) -> list[Answer | Failure]:
    """Ask a chunk at once; if that fails, halve it until the guilty query is alone."""
    values = batch_answers(batch, prompts, label_space)
    if not isinstance(values, Failure):
        return [checked(value, label_space, free_text) for value in values]  # all are kept, whatever failed among them
    if len(prompts) == 1:
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

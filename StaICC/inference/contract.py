"""The contract of the user's inference function, checked at this one boundary.

A function ``f(prompt, label_space)`` is called by keyword. ``prompt`` is a text (in the noisy channel a list with one
text for each label) and ``label_space`` the list of the labels' texts. It returns

* a number for each label: probabilities or logits, as any sequence of real numbers (NumPy arrays and torch tensors
  too; neither is imported to find out), or
* the index of a label, or
* the text of a label.

Everything else is refused with the reason: a wrong answer that slipped through would be a wrong figure in a paper. What
is accepted comes out as plain lists, floats, integers and texts, so that no object of the user's, which may say
different things of itself at different times, goes further than here.

A function with a ``batch`` attribute (or a :func:`functools.partial` of one) is asked for many prompts at once:
``batch(prompts=[...], label_space=[...])`` returns one such answer for each prompt, in order. Kernels have one.
"""

from __future__ import annotations

import functools
import inspect
import itertools
import math
from collections.abc import Callable, Mapping, Sequence, Set
from typing import Any

from StaICC.errors import OutputError

__all__ = ["Answer", "Inference", "batch_form", "check_answer", "check_batch", "user_batch_form"]

Inference = Callable[..., Any]
"""The user's function."""

Answer = list[float] | int | str
"""A checked answer: a finite number for each label, a label index, or (only where free text is asked for) a text."""

BatchForm = Callable[[Sequence[Any], list[str]], Any]

_MOST_OVER = 1000  # values more than expected that are read to be counted


def check_answer(value: object, label_space: Sequence[str], free_text: bool = False) -> Answer:
    """Check what the inference function returned for one query.

    Args:
        value: What it returned.
        label_space: The labels of the query.
        free_text: Texts are answers as they stand, to be parsed by the benchmark; otherwise a text must be a label.

    Returns:
        A list of finite floats, one for each label, or a label index, or a text if free text is asked for.

    Raises:
        OutputError: The value is none of the accepted kinds; the message gives the reason.

    Example:
        >>> check_answer((1, 3), ["no", "yes"]), check_answer("yes", ["no", "yes"])
        ([1.0, 3.0], 1)
    """
    try:
        return _checked(value, label_space, free_text)
    except OutputError:
        raise
    except Exception as error:  # of the value's own methods
        raise OutputError(f"got a {type(value).__name__} that cannot be read: {_error(error)}") from error


def _checked(value: object, label_space: Sequence[str], free_text: bool) -> Answer:
    if isinstance(value, str):
        text = str.__str__(value)  # of a subclass, too
        return text if free_text else _index_of_text(text, label_space)
    plain = _plain(value, len(label_space))
    if isinstance(plain, (list, tuple)):
        return _row(plain, label_space)
    if isinstance(plain, bool):
        raise OutputError(
            f"got {plain!r}, a truth value; expected a number for each label, a label index, or a label's text"
        )
    if isinstance(plain, int):
        index = int.__add__(plain, 0)  # of a subclass, too
        if not 0 <= index < len(label_space):
            shown = index if index.bit_length() < 64 else f"of {index.bit_length()} bits"
            raise OutputError(f"got label index {shown}, expected 0 to {len(label_space) - 1}: {_labels(label_space)}")
        return index
    raise OutputError(
        f"got {_describe(value)}; expected a sequence of {len(label_space)} numbers (a probability or logit for each "
        f"label), a label index, or the text of a label: {_labels(label_space)}"
    )


def _plain(value: object, expected: int) -> object:
    """Turn arrays and tensors into lists or numbers, NumPy integers into ints, other sequences into lists.

    A sequence is read up to a bound beyond the expected number: it may have no end, whatever length it says it has.
    """
    if isinstance(value, type):
        return value
    if _is_time(value):
        raise OutputError(f"got {_describe(value)}: a date or a span of time is no number")
    value = _converted(value)
    if type(value) in (list, tuple, bool, int):
        return value
    if isinstance(value, (list, tuple)) or (
        isinstance(value, Sequence) and not isinstance(value, (str, bytes, bytearray, memoryview))
    ):
        return list(itertools.islice(value, expected + _MOST_OVER))
    if not isinstance(value, int) and hasattr(value, "__index__"):
        return value.__index__()
    return value


def _converted(value: object) -> object:
    """Give what an array or a tensor holds, as lists and numbers; anything else as it is."""
    if isinstance(value, type) or (isinstance(value, memoryview) and value.itemsize == 1):  # the latter: bytes
        return value
    convert = getattr(value, "tolist", None)
    return convert() if callable(convert) else value


def _is_time(value: object) -> bool:
    """Tell NumPy's dates and spans of time, which turn into integers."""
    return getattr(getattr(value, "dtype", None), "kind", None) in ("m", "M")


def _row(row: Sequence[object], label_space: Sequence[str]) -> list[float]:
    try:  # the common case, at the speed of the C loop
        numbers = [*map(float, row)]  # type: ignore[arg-type]
    except Exception:
        numbers = []
    if len(row) != len(label_space):
        hint = "; return one row for one prompt" if len(row) == 1 and isinstance(row[0], (list, tuple)) else ""
        raise OutputError(f"got {len(row)} values, expected {len(label_space)}, one for each label{hint}")
    if len(numbers) != len(row) or not {*map(type, row)} <= {float, int}:
        numbers = [_number(value, place, label_space) for place, value in enumerate(row)]
    for place, number in enumerate(numbers):
        if not math.isfinite(number):
            advice = " (for a label that is ruled out, return a large negative logit)" if number == -math.inf else ""
            raise OutputError(
                f"the value for label {label_space[place]!r} is {number}, expected a finite number{advice}"
            )
    return numbers


def _number(value: object, place: int, label_space: Sequence[str]) -> float:
    plain = _converted(value)
    if plain is not value and isinstance(plain, list) and len(plain) == 1:
        plain = plain[0]  # an array or a tensor of one number
    if (
        isinstance(plain, (bool, str, bytes, list, tuple, complex))
        or not hasattr(plain, "__float__")
        or isinstance(plain, type)
        or _is_time(value)
    ):
        raise OutputError(f"the value for label {label_space[place]!r} is {_describe(value)}, expected a number")
    try:
        return float(plain)
    except Exception as error:
        raise OutputError(
            f"the value for label {label_space[place]!r} cannot be read as a number: {_error(error)}"
        ) from error


def _index_of_text(text: str, label_space: Sequence[str]) -> int:
    if text in label_space:
        return label_space.index(text)
    for candidate in (text, text.strip()):
        matches = [place for place, label in enumerate(label_space) if candidate in (label, label.strip())]
        if len(matches) == 1:
            return matches[0]
    raise OutputError(f"got the text {_clip(text)}, which is no label; expected one of {_labels(label_space)}")


def _labels(label_space: Sequence[str]) -> str:
    shown = ", ".join(repr(label) for label in label_space[:10])
    return shown + (f", ... ({len(label_space)} labels)" if len(label_space) > 10 else "")


def _clip(text: str) -> str:
    return repr(text if len(text) <= 80 else text[:77] + "...")


def _describe(value: object) -> str:
    kind = type(value).__name__
    if value is None:
        return "None (does the function end without a return?)"
    if isinstance(value, (Mapping, Set)):
        return f"a {kind}, which has no order of labels"
    if inspect.isgenerator(value) or inspect.iscoroutine(value):
        return (
            f"a {kind} (return a list)"
            if inspect.isgenerator(value)
            else "a coroutine (asynchronous functions are not awaited)"
        )
    try:
        return f"{_clip(str(value))} of type {kind}"
    except Exception:
        return f"an object of type {kind} that cannot be shown"


def _error(error: Exception) -> str:
    try:
        return f"{error}" or type(error).__name__
    except Exception:
        return type(error).__name__


def check_batch(values: object, number: int) -> Sequence[object]:
    """Check the outer shape of what a batched inference function returned.

    Args:
        values: What it returned.
        number: How many prompts it was given.

    Returns:
        One value for each prompt, not yet checked one by one.

    Raises:
        OutputError: It is no sequence, or has another length.
    """
    try:
        plain = _plain(values, number)
    except OutputError:
        raise
    except Exception as error:  # of the value's own methods
        raise OutputError(
            f"the batched function returned a {type(values).__name__} that cannot be read: {_error(error)}"
        ) from error
    if not isinstance(plain, (list, tuple)):
        raise OutputError(f"the batched function returned {_describe(values)}, expected a list of {number} answers")
    if len(plain) != number:
        raise OutputError(f"the batched function returned {len(plain)} answers for {number} prompts")
    return plain


def batch_form(function: Inference) -> BatchForm | None:
    """Find the batched form that a kernel declares.

    Args:
        function: The inference function, or a :func:`functools.partial` of one.

    Returns:
        A callable of (prompts, label space), or ``None`` if the function answers one prompt at a time.
    """
    batch = getattr(function, "batch", None)
    if callable(batch):
        return lambda prompts, label_space: batch(prompts=prompts, label_space=label_space)
    if isinstance(function, functools.partial) and not function.args:
        inner, keywords = getattr(function.func, "batch", None), function.keywords
        if callable(inner):
            return lambda prompts, label_space: inner(prompts=prompts, label_space=label_space, **keywords)
    return None


def user_batch_form(function: Inference) -> BatchForm:
    """Find how to call a function that its user calls batched (``batched_inference=True``).

    0.1.1 passes the list as ``prompt``, its README calls the parameter ``prompts``; both work, and so does any other
    name.
    """
    try:
        parameters = inspect.signature(function).parameters
    except (TypeError, ValueError):  # built-ins and extension functions may have none
        parameters = {}  # type: ignore[assignment]
    takes_any = any(parameter.kind is parameter.VAR_KEYWORD for parameter in parameters.values())
    labels = {"label_space"} if "label_space" in parameters or takes_any else set()
    name = next((name for name in ("prompt", "prompts") if name in parameters), "prompt" if takes_any else None)
    if name is None or not labels:
        return lambda prompts, label_space: function(prompts, label_space)
    return lambda prompts, label_space: function(**{name: prompts, "label_space": label_space})

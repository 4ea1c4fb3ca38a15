"""The contract of the user's inference function, checked at this one boundary.

A function ``f(prompt, label_space)`` is called by keyword. ``prompt`` is a text (in the noisy channel a list with one
text for each label) and ``label_space`` the list of the labels' texts. It returns

* a number for each label: probabilities or logits, as any sequence of real numbers (NumPy arrays and torch tensors
  too; neither is imported to find out). A mapping from each label to its number, and a pandas Series whose index has
  the labels, are read by label; a Series with the default index is read by position. The logit of a label that is ruled
  out is minus infinity. Or
* the index of a label, or
* the text of a label.

Every other value is refused with a reason. Accepted values are converted to plain lists, floats, integers and texts.

A function with a ``batch`` attribute (or a :func:`functools.partial` of one) gets many prompts in one call:
``batch(prompts=[...], label_space=[...])`` returns one such prediction per prompt, in order. Kernels have one.
"""

from __future__ import annotations

import functools
import inspect
import itertools
import math
from collections.abc import Callable, Mapping, Sequence, Set
from typing import TYPE_CHECKING, Any, Protocol

from StaICC.arguments import whole_number
from StaICC.errors import OutputError

if TYPE_CHECKING:
    from StaICC.inference.planned_requests import PlannedRequest

Inference = Callable[..., Any]
"""The user's function."""


class Features(dict[str, Any]):
    """What a method needs of a prompt, by name: JSON values that the kernel computed. No label is read from them."""


class Text(str):
    """A generated reply, and how it ended. It equals its text.

    Args:
        reply: The text.
        finish_reason: ``"stop"`` (the end of the text, or a stop string), ``"length"`` (the maximum number of tokens),
            or ``None`` if it is unknown.
        dropped: How many demonstrations of the prompt the model did not read, because the prompt was too long.
        unmeasured: Whether the prompt is so long that a server may cut it, and the server does not say how much it
            read.

    Example:
        >>> Text("a label", "stop") == "a label", Text("a lab", "length").finish_reason
        (True, 'length')
    """

    __slots__ = ("dropped", "finish_reason", "unmeasured")
    finish_reason: str | None
    dropped: int
    unmeasured: bool

    def __new__(cls, reply: str, finish_reason: str | None = None, dropped: int = 0, unmeasured: bool = False) -> Text:
        """Make a reply."""
        text = super().__new__(cls, reply)
        text.finish_reason = finish_reason
        text.dropped = dropped
        text.unmeasured = unmeasured
        return text

    def __reduce__(self) -> tuple[type[Text], tuple[str, str | None, int, bool]]:
        return Text, (str(self), self.finish_reason, self.dropped, self.unmeasured)


class ScoredLabels(list[float]):
    """A number for each label, with what a kernel knows of the prompt. It equals the list.

    Args:
        numbers: Probabilities or logits.
        label_mass: The total probability of the labels among all continuations, in [0, 1]; ``None`` if it is unknown.
        dropped: How many demonstrations of the prompt the model did not read, because the prompt was too long.
        mass_without_text: The probability of next tokens without visible text, such as blanks, in [0, 1]; ``None`` if
            it is unknown.
        unmeasured: As for :class:`Text`.
    """

    __slots__ = ("dropped", "label_mass", "mass_without_text", "unmeasured")

    def __init__(
        self,
        numbers: Sequence[float],
        label_mass: float | None = None,
        dropped: int = 0,
        mass_without_text: float | None = None,
        unmeasured: bool = False,
    ) -> None:
        """Make a list of the numbers, with the facts as attributes."""
        super().__init__(numbers)
        self.label_mass = label_mass
        self.dropped = dropped
        self.mass_without_text = mass_without_text
        self.unmeasured = unmeasured

    def __reduce__(self) -> tuple[type[ScoredLabels], tuple[list[float], float | None, int, float | None, bool]]:
        arguments = (list(self), self.label_mass, self.dropped, self.mass_without_text, self.unmeasured)
        return ScoredLabels, arguments


class ReplyLabel(int):
    """The label index that a generated reply names, with the reply."""

    reply: str

    def __new__(cls, label: int, reply: str = "") -> ReplyLabel:
        """Make a label index."""
        index = super().__new__(cls, label)
        index.reply = reply
        return index


# The reasons that servers and engines state for the end of a reply.
_STOP = ("stop", "eos", "eos_token", "stop_sequence", "end_turn", "complete", "completed", "finish", "endoftext")
_LENGTH = ("length", "max_tokens", "max_output_tokens", "model_length")
_WITHHELD = ("content_filter", "safety", "refusal", "recitation", "blocklist", "prohibited_content")
_ENDINGS = {**dict.fromkeys(_STOP, "stop"), **dict.fromkeys(_LENGTH, "length"), **dict.fromkeys(_WITHHELD, "withheld")}


def ending(finish_reason: object) -> str | None:
    """Return how a reply ended: ``"stop"``, ``"length"`` or ``"withheld"``.

    Args:
        finish_reason: The reason that a server or an engine states.

    Returns:
        ``None`` for all other reasons, such as ``"error"`` and ``"abort"``: the reply may be incomplete.

    Example:
        >>> ending("eos_token"), ending("MAX_TOKENS"), ending("error"), ending(None)
        ('stop', 'length', None, None)
    """
    return _ENDINGS.get(str(finish_reason).casefold())


Answer = list[float] | int | Text | Features
"""A checked prediction: a number for each label (a logit may be minus infinity), a label index, (only with free text)
a reply, or features for a method."""


def dropped_demonstrations(answer: object) -> int:
    """Return how many demonstrations of its prompt the model did not read, as a prediction or failure records it."""
    if isinstance(answer, ScoredLabels):
        return answer.dropped
    # A label that was read from a reply, and the failure of a reply without a label, have the reply as an attribute.
    reply = getattr(answer, "reply", answer)
    if isinstance(reply, Text):
        return reply.dropped
    return 0


def is_unmeasured(answer: object) -> bool:
    """Return whether it is unknown if the server read the whole prompt, as a prediction or failure records it."""
    if isinstance(answer, ScoredLabels):
        return answer.unmeasured
    for reply in (answer, getattr(answer, "reply", None), getattr(answer, "unread", None)):
        if isinstance(reply, Text):
            return reply.unmeasured
    return False


Usage = tuple[int, int, int]
"""Requests that were sent again, tokens that were read and generated."""

BatchForm = Callable[[Sequence[Any], list[str]], Any]


def check_answer(value: object, label_space: Sequence[str], free_text: bool = False) -> Answer:
    """Check what the inference function returned for one query.

    Args:
        value: What it returned.
        label_space: The labels of the query.
        free_text: A text is a completion that the benchmark parses; otherwise a text must be a label.

    Returns:
        A list of floats, one for each label, or a label index, or a text with ``free_text``, or features. The floats
        are neither NaN nor plus infinity, and one of them is finite.

    Raises:
        OutputError: The value is none of the accepted kinds.

    Example:
        >>> check_answer((1, 3), ["no", "yes"]), check_answer("yes", ["no", "yes"])
        ([1.0, 3.0], 1)
        >>> check_answer({"yes": 3, "no": 1}, ["no", "yes"])
        [1.0, 3.0]
    """
    if type(value) is list or type(value) is tuple:  # the common case: the numbers are in the order of the labels
        return _numbers_of_row(value, label_space)
    if isinstance(value, str):
        text = _as_text(value)
        return text if free_text else _index_of_text(text, label_space)
    if isinstance(value, Features):
        return value

    plain = _plain(_by_position(value, label_space))
    if isinstance(plain, (list, tuple)):
        numbers = _numbers_of_row(plain, label_space)
        if isinstance(value, ScoredLabels):
            return _with_checked_facts(numbers, value)
        return numbers

    index = whole_number(plain)
    if index is None:
        raise OutputError(
            f"got {_describe(value)}; expected a sequence of {len(label_space)} numbers (a probability or logit for "
            f"each label), a label index, or the text of a label: {_labels(label_space)}"
        )
    if not 0 <= index < len(label_space):
        # Python refuses to show integers of thousands of digits.
        shown = str(index) if index.bit_length() < 64 else f"of {index.bit_length()} bits"
        raise OutputError(f"got label index {shown}, expected 0 to {len(label_space) - 1}: {_labels(label_space)}")
    return index


def _as_text(value: str) -> Text:
    """Return a text of any subclass of ``str`` as a reply."""
    # The method of str itself, since a subclass may define another one.
    reply = str.__str__(value)
    if isinstance(value, Text):
        return Text(reply, value.finish_reason, value.dropped, value.unmeasured)
    return Text(reply)


def _with_checked_facts(numbers: list[float], scored: ScoredLabels) -> ScoredLabels:
    """Return label scores whose numbers and facts about the prompt are checked.

    Args:
        numbers: The checked numbers of the label scores, as floats.
        scored: The label scores as the inference function returned them, with facts such as the label mass.

    Raises:
        OutputError: A mass is no probability, or the number of dropped demonstrations is negative or no integer.
    """
    dropped = whole_number(scored.dropped)
    # A store keeps the number in 32 bits.
    if dropped is None or not 0 <= dropped < 2**32:
        raise OutputError(f"got {scored.dropped!r} dropped demonstrations, expected a number of at least 0")
    return ScoredLabels(
        numbers,
        label_mass=_checked_mass("the label mass", scored.label_mass),
        dropped=dropped,
        mass_without_text=_checked_mass("the mass of tokens without visible text", scored.mass_without_text),
        unmeasured=bool(scored.unmeasured),
    )


def _checked_mass(name: str, mass: object) -> float | None:
    """Return a probability as a float; ``None`` for ``None``.

    Raises:
        OutputError: It is no probability.
    """
    if mass is None:
        return None
    if not isinstance(mass, (int, float)) or not 0 <= mass <= 1:
        raise OutputError(f"got {name} {mass!r}, expected None or a number from 0 to 1")
    return float(mass)


def _by_position(value: Any, label_space: Sequence[str]) -> object:
    """Return the numbers of a mapping or a Series in the order of the labels, and other values unchanged.

    Raises:
        OutputError: The keys of the mapping, or the index of the Series, are not the labels.
    """
    if isinstance(value, Mapping):
        labels, numbers = list(value), list(value.values())
        if labels == list(label_space):
            return numbers
        return _reordered(labels, numbers, label_space, kind="mapping with the keys", advice="")

    index = _series_index(value)
    if index is None:
        return value
    numbers = value.tolist()
    is_default_index = index == list(range(len(index)))
    if is_default_index or index == list(label_space):
        return numbers
    advice = ". To read it by position, return its tolist()"
    return _reordered(index, numbers, label_space, kind="Series with the index", advice=advice)


def _reordered(
    labels: Sequence[object], numbers: Sequence[object], label_space: Sequence[str], kind: str, advice: str
) -> list[object]:
    """Return numbers in the order of the label space.

    Args:
        labels: The label of each number.
        numbers: The numbers.
        label_space: The labels in their order.
        kind: What has the labels, for the message.
        advice: The end of the message.

    Raises:
        OutputError: The label of a number is none, is missing or occurs twice.
    """
    number_by_label = dict(zip(labels, numbers, strict=True))
    has_duplicates = len(number_by_label) != len(labels)
    if has_duplicates or number_by_label.keys() != set(label_space):
        shown = _clip(str(labels))
        raise OutputError(f"got a {kind} {shown}, expected each label once: {_labels(label_space)}{advice}")
    return [number_by_label[label] for label in label_space]


def _series_index(value: object) -> list[object] | None:
    """Return the index of a pandas Series (or what has one like it); ``None`` for other values."""
    if isinstance(value, (type, list, tuple)) or not callable(getattr(value, "tolist", None)):
        return None
    index = getattr(value, "index", None)
    # The index of a list-like object may be a method, which searches an item.
    if callable(index):
        return None
    to_list = getattr(index, "tolist", None)
    if not callable(to_list):
        return None
    labels = to_list()
    return labels if isinstance(labels, list) else None


def _plain(value: object) -> object:
    """Return an array or a tensor as a list or a number, another sequence as a list, and every other value unchanged.

    Raises:
        OutputError: It is an array of times, which NumPy would turn into integers.
    """
    if isinstance(value, (type, list, tuple, bytes, bytearray, memoryview)):
        return value
    to_list = getattr(value, "tolist", None)
    if callable(to_list):
        # The kind of the type of an array: "f" for floats. What has no kind, such as a tensor, has numbers.
        number_type = getattr(value, "dtype", None)
        kind = getattr(number_type, "kind", "f")
        if kind not in _KINDS_OF_NUMBERS_AND_TEXTS:
            raise OutputError(f"got {_describe(value)}, expected numbers, a label index, or a label's text")
        return to_list()
    if isinstance(value, Sequence) and not isinstance(value, str):
        # A sequence may have no end, whatever length it says it has.
        return list(itertools.islice(value, len(value) + 1))
    return value


_KINDS_OF_NUMBERS_AND_TEXTS = "biufcOSU"
"""The kinds of NumPy's types of booleans, integers, numbers, objects and texts; ``m`` and ``M`` are times."""


def _numbers_of_row(row: Sequence[object], label_space: Sequence[str]) -> list[float]:
    """Return what a function returned for one prompt, a sequence of numbers, as floats in the order of the labels.

    Raises:
        OutputError: There are more or fewer values than labels, a value is no number, NaN or plus infinity, or all are
            minus infinity.
    """
    if len(row) != len(label_space):
        has_outer_list = len(row) == 1 and isinstance(row[0], (list, tuple))
        hint = "; return one row for one prompt" if has_outer_list else ""
        raise OutputError(f"got {len(row)} values, expected {len(label_space)}, one for each label{hint}")
    if set(map(type, row)) == {float}:  # the common case
        numbers: list[float] = list(row)  # type: ignore[arg-type]
    else:
        numbers = [_number(value, label) for value, label in zip(row, label_space, strict=True)]
    if all(map(math.isfinite, numbers)):
        return numbers
    for label, number in zip(label_space, numbers, strict=True):
        if math.isnan(number) or number == math.inf:
            raise OutputError(f"the value for label {label!r} is {number}, expected a finite number")
    if max(numbers) == -math.inf:
        raise OutputError("the value for each label is minus infinity, expected a finite number for one label or more")
    return numbers


def _number(value: object, label: str) -> float:
    """Return the value for a label as a float.

    Raises:
        OutputError: It is no number.
    """
    plain = _plain(value)
    was_array = plain is not value and isinstance(plain, list)
    if was_array and len(plain) == 1:  # type: ignore[arg-type]
        plain = plain[0]  # type: ignore[index]
    if isinstance(plain, (bool, str, complex, type)) or not hasattr(plain, "__float__"):
        raise OutputError(f"the value for label {label!r} is {_describe(value)}, expected a number")
    try:
        return float(plain)
    except Exception as error:
        raise OutputError(f"the value for label {label!r} cannot be read as a number: {error}") from error


def _index_of_text(text: str, label_space: Sequence[str]) -> int:
    """Return the label that a text is, as written or without the white space around both.

    Raises:
        OutputError: It is no label, or without white space several ones.
    """
    if text in label_space:
        return label_space.index(text)
    matching_labels = [index for index, label in enumerate(label_space) if label.strip() == text.strip()]
    if len(matching_labels) == 1:
        return matching_labels[0]
    raise OutputError(f"got the text {_clip(text)}, which is no label; expected one of {_labels(label_space)}")


_MOST_LABELS_SHOWN = 10
"""Labels that a message lists."""
_LONGEST_VALUE_SHOWN = 80
"""Characters of a value that a message shows."""


def _labels(label_space: Sequence[str]) -> str:
    """Return the labels for a message, of many the first ones and their number."""
    listed = ", ".join(repr(label) for label in label_space[:_MOST_LABELS_SHOWN])
    if len(label_space) > _MOST_LABELS_SHOWN:
        return f"{listed}, ... ({len(label_space)} labels)"
    return listed


def _clip(text: str) -> str:
    """Return a text in quotes for a message, of a long one the beginning."""
    if len(text) > _LONGEST_VALUE_SHOWN:
        text = text[: _LONGEST_VALUE_SHOWN - 3] + "..."
    return repr(text)


def _describe(value: object) -> str:
    """Return what a refused value is, for a message, with advice where a common mistake explains it."""
    kind = type(value).__name__
    if value is None:
        return "None (does the function end without a return?)"
    if isinstance(value, (Mapping, Set)):
        return f"a {kind}, which has no order"
    if hasattr(value, "columns") and hasattr(value, "to_numpy"):
        return f"a {kind} (sort its columns by label, and return to_numpy())"
    if inspect.isgenerator(value):
        return f"a {kind} (return a list)"
    if inspect.iscoroutine(value):
        return "a coroutine (asynchronous functions are not awaited)"
    try:
        return f"{_clip(str(value))} of type {kind}"
    except Exception:
        return f"an object of type {kind} that cannot be shown"


def refuse_other_order(values: object) -> None:
    """Refuse a DataFrame, and a Series whose index does not count from 0: their order may not be that of the prompts.

    Raises:
        OutputError: It is one of these.
    """
    if hasattr(values, "columns") and hasattr(values, "to_numpy"):
        raise OutputError(f"got {_describe(values)}")
    index = _series_index(values)
    if index is not None and index != list(range(len(index))):
        advice = "expected the default index (0, 1, 2, ...). If it is in the order of the prompts, use its tolist()"
        raise OutputError(f"got a Series with the index {_clip(str(index))}, {advice}")


_ONE_PROMPT = "It gets a list of prompts; if it takes one prompt, leave out batched_inference=True"


def check_batch(
    values: object, number: int, source: str = "the batched function returned", hint: str = _ONE_PROMPT
) -> Sequence[object]:
    """Check the outer shape of what a batched inference function returned.

    Args:
        values: What it returned.
        number: How many prompts it was given.
        source: Where the values are from, for messages.
        hint: What to do, for messages.

    Returns:
        One value for each prompt, not yet checked one by one.

    Raises:
        OutputError: It is no sequence, has another length, or is a Series whose index does not count from 0.
    """
    refuse_other_order(values)
    plain = _plain(values)
    if not isinstance(plain, (list, tuple)):
        raise OutputError(f"{source} {_describe(values)}, expected a list of {number} answers. {hint}")
    if len(plain) != number:
        raise OutputError(f"{source} {len(plain)} answers for {number} prompts. {hint}")
    return plain


class Served(Protocol):
    """An inference function whose model is served, under a name that may move to another edition."""

    @property
    def allow_edition_change(self) -> bool:
        """Whether predictions of several editions may be in one run or store."""

    def pin_edition(self) -> str | None:
        """Ask the server which edition it serves now; until the next call, responses of another one are errors.

        Workers to which the function is sent afterwards hold their responses to the same edition.

        Returns:
            The edition; ``None`` if the server does not name one.
        """

    @property
    def editions(self) -> tuple[str, ...]:
        """The editions seen in this process since the last :meth:`pin_edition`, in order; for the provenance."""


def queries_at_once(function: object) -> int | None:
    """Return how many queries of a served model a run gives to threads at once, each in a call of its own.

    Returns:
        ``None`` if the model is not served: its queries are given one after the other, or in batches.
    """
    if type(function) is functools.partial and not function.args:
        return queries_at_once(function.func)
    number: int | None = own_attribute(function, "queries_at_once")
    return number


def first_batch(function: object) -> int:
    """Return how many queries a served model gets in one call, before all others.

    A kernel states the number in its attribute ``first_batch``, if it refuses a server whose first predictions are all
    alike (such as equal scores for all labels): it must see several of them together. Without the attribute it is 1.
    """
    if type(function) is functools.partial:  # of a kernel with some arguments: it is the kernel that states the number
        return first_batch(function.func)
    number: int | None = own_attribute(function, "first_batch")
    return 1 if number is None else number


def stop_requests(function: object) -> None:
    """Let a served model request nothing more, in all threads; requests in flight are finished."""
    if type(function) is functools.partial:
        stop_requests(function.func)
        return
    stop = own_attribute(function, "stop_requests")
    if stop is not None:
        stop()


def served_function(function: object) -> Served | None:
    """Return the inference function itself, or what it wraps, if a server runs its model; ``None`` otherwise.

    What it wraps is what its method ``served`` returns. A served function has the method ``pin_edition``.
    """
    served: Any = function
    served_of = own_attribute(function, "served")
    if callable(served_of):
        served = served_of()
    if own_attribute(served, "pin_edition") is None:
        return None
    return served  # type: ignore[no-any-return]


def own_attribute(function: Any, name: str) -> Any:
    """Return an attribute of a function or object; ``None`` if it has none, or only that of what it wraps.

    :func:`functools.wraps` copies the attributes of the wrapped function, and ``__getattr__`` passes on those of
    another object. They describe that function or object, not the wrapper.
    """
    is_own = inspect.getattr_static(function, name, None) is not None  # this does not call __getattr__
    if not is_own:
        return None
    value = getattr(function, name, None)
    wrapped = getattr(function, "__wrapped__", None)
    is_copied = wrapped is not None and value is getattr(wrapped, name, None)
    return None if is_copied else value


def inner_kernel(function: object) -> Any:
    """Return the kernel that a function wraps, its attribute ``kernel``; ``None`` if it wraps none."""
    kernel = own_attribute(function, "kernel")
    return None if kernel is function else kernel


def _own_or_kernels(function: object, name: str) -> Any:
    """Return the attribute of a function, or else of the kernel that it wraps; ``None`` if neither declares it."""
    value = own_attribute(function, name)
    if value is not None:
        return value
    kernel = inner_kernel(function)
    if kernel is None:
        return None
    return _own_or_kernels(kernel, name)


class LoadsModel:
    """A kernel whose model is loaded when it is first needed; a run then shows the loading as a phase of its own.

    It is a base class and no protocol, since a function of the user may have a ``load_model`` that means another thing.
    """

    @property
    def is_loaded(self) -> bool:
        """Whether the model is in memory."""
        raise NotImplementedError

    def load_model(self) -> None:
        """Load the model, unless it is in memory."""
        raise NotImplementedError


def loading_kernel(function: object) -> LoadsModel | None:
    """Return the inference function, or the kernel that it wraps, if its model is loaded when it is first needed."""
    if isinstance(function, LoadsModel):
        return function
    kernel = inner_kernel(function)
    if kernel is None:
        return None
    return loading_kernel(kernel)


def reads_parts(function: object) -> bool:
    """Return whether an inference function reads the parts of its prompts, not only their texts.

    Such a function gets prompts as :class:`~StaICC.prompting.prompt_text.PromptText`. A kernel with certain options is
    one, and so is what wraps it in the attribute ``kernel``; a function of the user's own declares ``reads_parts``.
    """
    if type(function) is functools.partial:
        return reads_parts(function.func)
    declared = own_attribute(function, "reads_parts")
    if declared is not None:
        return declared is True
    kernel = inner_kernel(function)
    return kernel is not None and reads_parts(kernel)


def retried(function: object) -> int:
    """Return how many requests an inference function sent again since it was made; 0 if it does not count them."""
    return _own_or_kernels(function, "retried") or 0


def tokens_used(function: object) -> tuple[int, int] | None:
    """Return the tokens that an inference function read and generated since it was made.

    ``None`` if it does not count them, or calls a server that does not state them.
    """
    return _own_or_kernels(function, "tokens_used")  # type: ignore[no-any-return]


def planned_requests(function: object) -> Callable[[Any, Sequence[str]], Sequence[PlannedRequest]] | None:
    """Return the method of a served model that returns the requests it will send for a prompt and its label space.

    Args:
        function: An inference function: the served model, or one that wraps it.

    Returns:
        ``None`` if the function has no such method: it sends no requests, or they are unknown.
    """
    return _own_or_kernels(function, "planned_requests")  # type: ignore[no-any-return]


def planned_checks(function: object) -> Callable[[Any, str], Sequence[PlannedRequest]] | None:
    """Return the method of a served model that returns the requests by which it checks its server.

    A run sends them before the prompts of each of its parts, such as a data set.

    Args:
        function: An inference function: the served model, or one that wraps it.

    Returns:
        A method of the longest prompt of a part, and the longest prompt of the parts before it (empty for the first
        part). ``None`` if the function has none: it sends no such requests, or they are unknown.
    """
    return _own_or_kernels(function, "planned_checks")  # type: ignore[no-any-return]


def announce_prompts(function: object, prompts: Sequence[Any]) -> None:
    """Tell an inference function, or the kernel that it wraps, which prompts follow; most do not need to know."""
    announce = _own_or_kernels(function, "announce_prompts")
    if announce is not None:
        announce(prompts)


def usage(function: object) -> Usage:
    """Return requests that were sent again, and tokens that were read and generated."""
    read, generated = tokens_used(function) or (0, 0)
    return retried(function), read, generated


_PASSED_BY_NAME = frozenset({"prompt", "label_space"})
"""The parameters of each call: a call overrides what a partial binds to them, so a batched form ignores that, too."""


def without_overridden_arguments(function: Inference) -> Inference:
    """Return a function without partials around it that change nothing; of all others, the function itself.

    A partial that binds only ``prompt`` or ``label_space`` changes nothing, because each call passes both. So
    ``functools.partial(kernel, label_space=[...])`` is the kernel, with its identity.
    """
    while type(function) is functools.partial:
        if function.args or not function.keywords.keys() <= _PASSED_BY_NAME:
            return function
        function = function.func
    return function


def batch_form(function: Inference) -> BatchForm | None:
    """Return the batched form of an inference function, which predicts many prompts in one call.

    It is the method ``batch`` of a kernel, or that of the kernel in a :func:`functools.partial`. A function without a
    batched form is called for each prompt. To these belong, although they seem to have the method:

    - a wrapper of a kernel that copies or passes on its attributes. Calling them would leave out the wrapper.
    - an object of a class that overrides ``__call__`` of a kernel, but not ``batch``. It would leave out the override.

    Args:
        function: The inference function.

    Returns:
        A callable of (prompts, label space); ``None`` if there is no batched form.
    """
    batch = own_attribute(function, "batch")
    if callable(batch) and not _overrides_call(function):
        return lambda prompts, label_space, **more: batch(prompts=prompts, label_space=label_space, **more)
    if type(function) is not functools.partial or function.args:
        return None
    # Python merges a partial of a partial into one, unless the inner one is a subclass or has attributes of its own.
    has_special_partial_inside = isinstance(function.func, functools.partial)
    if has_special_partial_inside:
        return None
    batch_of_inner = batch_form(function.func)
    if batch_of_inner is None:
        return None
    bound = {name: value for name, value in function.keywords.items() if name not in _PASSED_BY_NAME}
    return functools.partial(batch_of_inner, **bound)


def _overrides_call(function: Inference) -> bool:
    """Return whether a class below the one that defines ``batch`` defines ``__call__``, and no ``batch`` of its own.

    Args:
        function: An object with the method ``batch``.
    """
    has_own_batch = "batch" in getattr(function, "__dict__", {})  # of the object, not of its class
    if has_own_batch:
        return False
    defines_call_below = False
    for base in type(function).__mro__:  # the class of the object first, and then its bases
        if "batch" in vars(base):
            return defines_call_below
        if "__call__" in vars(base):
            defines_call_below = True
    return False


def user_batch_form(function: Inference) -> BatchForm:
    """Return a function ``f(prompts, label_space)`` that calls a batched function of the user by its parameters' names.

    The user's parameter for the list of prompts may be called ``prompt``, as in the code of 0.1.1, or ``prompts``, as
    in its README. If the function has parameters of other names, prompts and label space are passed to it by position.

    Args:
        function: An inference function that gets all prompts in one call (``batched_inference=True``).
    """
    try:
        parameters = inspect.signature(function).parameters
    except (TypeError, ValueError):  # built-ins and extension functions may have none
        parameters = {}  # type: ignore[assignment]
    takes_any_name = any(parameter.kind is parameter.VAR_KEYWORD for parameter in parameters.values())
    takes_label_space = takes_any_name or "label_space" in parameters
    takes_prompts = "prompts" in parameters and "prompt" not in parameters
    takes_prompt = takes_any_name or "prompt" in parameters

    if takes_label_space and takes_prompts:
        return lambda prompts, label_space: function(prompts=prompts, label_space=label_space)
    if takes_label_space and takes_prompt:
        return lambda prompts, label_space: function(prompt=prompts, label_space=label_space)
    return lambda prompts, label_space: function(prompts, label_space)

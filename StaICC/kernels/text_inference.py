"""A kernel that generates text, as an inference function that returns its replies.

:func:`text_inference` makes an inference function of any kernel with ``generate(prompts, max_new_tokens, stop)``:
``CausalLMKernel``, ``EndpointKernel``, your own. A run finds the label of each reply
(:mod:`StaICC.inference.reply_parser`); ``LongICL`` has parsers of its own.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, ClassVar, TypeVar

from StaICC.argument_syntax import in_each_syntax
from StaICC.errors import ArgumentError, OutputError, PromptTooLongError, WithheldReplyError
from StaICC.inference.called_kernels import warning_methods
from StaICC.inference.contract import Text, planned_requests, queries_at_once, served_function, stop_requests
from StaICC.inference.forecast import Forecast, forecast_prompts
from StaICC.inference.identity import Identity, combined, identity_of
from StaICC.inference.planned_requests import PlannedRequest
from StaICC.inference.recheck import TOLERANCE, tolerance_of
from StaICC.kernels.protocol import Capability, capabilities_of, check_generation, stable_seed, without_blank
from StaICC.kernels.registry import check_types, load_kernel, names_option
from StaICC.kernels.server.tool_calls import finish_reason_of, tool_call_text
from StaICC.kernels.server.transport import EndpointError, clip, only_choice, token_counts
from StaICC.lazy_sequence import LazySequence
from StaICC.prompting.prompt_text import parts_of

Value = TypeVar("Value")

NEW_TOKENS = 100
"""Maximum number of tokens of a reply, by default; that of the published runs of LongICLBench."""
THINKING_TOKENS = 8192
"""Maximum number of tokens of a reply that the default cuts during its reasoning; it is requested again."""


@dataclass(frozen=True, kw_only=True)
class ReplySettings:
    """The settings of the requests for replies. ``None`` leaves a setting out of the request."""

    max_tokens: int | None = NEW_TOKENS
    """Maximum number of tokens of a reply. One that the default cuts during its reasoning gets up to 8192."""

    max_completion_tokens: int | None = None
    """Replaces ``max_tokens`` for models that refuse that name; it includes the tokens of the reasoning."""

    temperature: float | None = field(default=0, metadata={"least": 0})
    """Sampling temperature; some reasoning models accept no value (``None``)."""

    top_p: float | None = field(default=None, metadata={"least": 0})
    """Nucleus sampling: the share of probability from which tokens are drawn."""

    reasoning_effort: str | None = None
    """How much a reasoning model reasons, such as ``"low"``."""

    stop: tuple[str, ...] | None = None
    """Texts before which a reply ends; ``None`` for the kernel's default."""

    system: str = ""
    """A system message before the prompt."""

    turns: bool = False
    """Send each demonstration as two messages, the text of the user and the label of the assistant."""

    cache_control: bool = False
    """Mark the end of the demonstrations for the provider's prompt cache (the field ``cache_control`` of Anthropic)."""

    def __post_init__(self) -> None:
        """Check the settings, and make a tuple of the texts of ``stop``.

        Raises:
            ArgumentError: A setting is invalid, or does not fit another one.
        """
        check_types(self)
        if self.cache_control and not self.turns:
            raise ArgumentError("cache_control marks the last demonstration: got turns=False, expected turns=True")
        if self.stop is not None:
            check_generation(1, self.stop)
            object.__setattr__(self, "stop", tuple(self.stop))

    def reply_settings(self) -> dict[str, str]:
        """Return the settings of replies for the identity: JSON texts by name, without those that are not sent."""
        settings = self.reply_request(None, ())
        settings["stop"] = self.stop
        settings["system"] = self.system or None
        settings["turns"] = self.turns or None
        texts = {}
        for name, value in settings.items():
            if value is None:
                continue
            if isinstance(value, float) and value.is_integer():
                value = int(value)  # 1.0 and 1 are the same setting
            texts[name] = json.dumps(value)
        if self._repeats_cut_thoughts(max_new_tokens=None):
            texts["max_tokens"] += _THINKING_NOTE  # the longer limit is a setting, too
        return texts

    def _limit_option(self) -> str:
        """Return the name of the option that limits the tokens of a reply."""
        return "max_tokens" if self.max_completion_tokens is None else "max_completion_tokens"

    def _repeats_cut_thoughts(self, max_new_tokens: int | None) -> bool:
        """Return whether a reply that is cut during its reasoning is requested again, with a higher limit.

        Args:
            max_new_tokens: The limit of the request; ``None`` for that of the settings.
        """
        limit = self.max_tokens if max_new_tokens is None else max_new_tokens
        return limit == NEW_TOKENS and self.max_completion_tokens is None

    def reply_request(self, max_new_tokens: int | None, stop: Sequence[str]) -> dict[str, Any]:
        """Return the fields of a request for a reply, without prompt and system message.

        Args:
            max_new_tokens: Another maximum number of tokens; ``None`` for that of the settings.
            stop: Texts before which the reply ends.
        """
        limit_option = self._limit_option()
        limit = max_new_tokens
        if limit is None:
            limit = getattr(self, limit_option)
        fields: dict[str, Any] = {
            limit_option: limit,
            "temperature": self.temperature,
            "top_p": self.top_p,
            "reasoning_effort": self.reasoning_effort,
            "stop": list(stop) or None,
        }
        return {name: value for name, value in fields.items() if value is not None}

    @property
    def reads_parts(self) -> bool:
        """Whether the parts of a prompt matter (:func:`~StaICC.inference.contract.reads_parts`)."""
        return self.turns

    def messages(self, prompt: str) -> list[Mapping[str, Any]]:
        """Return the messages of a chat: the system message, if there is one, and the prompt.

        With ``turns``, each demonstration of the prompt is two messages: its text, from the user, and its label, from
        the assistant. The last message is the text of the query.
        """
        messages: list[Mapping[str, Any]] = []
        if self.system:
            messages.append({"role": "system", "content": self.system})
        if not self.turns:
            messages.append({"role": "user", "content": str(prompt)})
            return messages
        parts = parts_of(prompt, "turns=True")  # an error about this option if the prompt has no parts
        turns = parts.turns()  # text, label, text, label, ..., text of the query
        number_of_last_label = len(turns) - 2
        for number, turn in enumerate(turns):
            is_label = number % 2 == 1
            role = "assistant" if is_label else "user"
            content: Any = turn
            if self.cache_control and is_label and number == number_of_last_label:
                # The provider may cache what comes before: the demonstrations, which prompts have in common.
                content = [{"type": "text", "text": turn, "cache_control": {"type": "ephemeral"}}]
            messages.append({"role": role, "content": content})
        return messages


_THINKING_NOTE = f" (with reasoning {THINKING_TOKENS})"
"""What follows the limit of a reply where a reply that is cut during its reasoning is requested again."""


def first_result(results: Sequence[Value | OutputError]) -> Value:
    """Return the first of the results; raise it if it is an error."""
    if isinstance(results[0], OutputError):
        raise results[0]
    return results[0]


def reply(body: Mapping[str, Any]) -> Text:
    """Return the text of a completion or chat completion, and how it ended.

    The arguments of tool calls belong to the text (:mod:`StaICC.kernels.server.tool_calls`). A reply that was cut off
    during its reasoning begins with ``<think>``, so that no parser takes it for an answer.

    Raises:
        EndpointError: There is no text.
        WithheldReplyError: The server withheld the text (a content filter).
    """
    choice = only_choice(body)
    reason = finish_reason_of(choice)
    if reason == "withheld":
        raise WithheldReplyError("the server withheld the reply (content filter)")

    message = choice.get("message")
    if isinstance(message, Mapping):  # of a chat
        text = _message_text(message)
        fields = message
    else:
        text = choice.get("text")
        fields = choice
    reasoning = fields.get("reasoning_content") or fields.get("reasoning")

    ending_is_known = reason is not None
    has_reasoning = bool(reasoning or token_counts(body).get("reasoning_tokens"))
    if ending_is_known and has_reasoning and text in (None, ""):
        text = f"<think>{reasoning or ''}"  # all tokens were those of the reasoning
    # An empty text is a reply, too, but null is none.
    if not isinstance(text, str):
        raise EndpointError(f"the server's reply holds no text (finish reason {clip(choice.get('finish_reason'))})")
    return Text(text, reason)


def _message_text(message: Mapping[str, Any]) -> object:
    """Return the text of a message: its content, and after it the arguments of its tool calls.

    Returns:
        The text; the refusal, if there is neither content nor a call. What the server sent in place of a text, such as
        ``None``, is returned unchanged.
    """
    content = message.get("content")
    if isinstance(content, list):  # of parts such as {"type": "text", "text": "food"}
        values = [part.get("text") for part in content if isinstance(part, Mapping)]
        texts = [value for value in values if isinstance(value, str)]
        content = "".join(texts) if texts else None
    arguments = tool_call_text(message)
    if arguments is not None:
        if isinstance(content, str) and content.strip():
            return f"{content}\n{arguments}"
        return arguments
    if content is None and isinstance(message.get("refusal"), str):
        return message["refusal"]
    return content


def _text_of_content(content: object) -> str:
    """Return the text of a message that is sent: a text, or parts with one (:attr:`ReplySettings.cache_control`)."""
    if isinstance(content, str):
        return content
    assert isinstance(content, list)
    return "".join(part["text"] for part in content)


def with_thoughts(
    replies: Sequence[str | OutputError],
    prompts: Sequence[str],
    request_longer_replies: Callable[[list[str]], Sequence[Any]],
) -> Sequence[str | OutputError]:
    """Return replies; those that were cut during their reasoning are replaced by longer ones.

    Args:
        replies: The replies.
        prompts: Their prompts.
        request_longer_replies: Returns replies to prompts, with a higher limit of tokens. Where there is a
            ``PromptTooLongError`` in the place of one, the prompt leaves no room for it, and the first reply stays.
    """
    # The patterns of this module take long to load, and are made for replies only.
    from StaICC.inference.reply_parser import is_cut_thought

    cut_indexes = [index for index, reply in enumerate(replies) if is_cut_thought(reply)]
    if not cut_indexes:
        return replies
    prompts_of_cut_replies = [prompts[index] for index in cut_indexes]
    longer_replies = request_longer_replies(prompts_of_cut_replies)
    completed_replies = list(replies)
    for index, longer_reply in zip(cut_indexes, longer_replies, strict=True):
        if not isinstance(longer_reply, PromptTooLongError):
            completed_replies[index] = longer_reply
    return completed_replies


class ReplyKernel(ReplySettings):
    """A kernel that returns a failure in the place of a reply, so that the other replies are kept."""

    recheck_tolerance: ClassVar[None] = None
    """No tolerance: a server may not respond alike twice, so that a prediction that differs is only a warning."""

    def replies(
        self,
        prompts: Sequence[str],
        max_new_tokens: int | None = None,
        stop: Sequence[str] | None = None,
        sampling: Mapping[str, Any] | None = None,
    ) -> Sequence[str | OutputError]:
        """Return the reply to each prompt, or the error in its place.

        Replies that were cut during their reasoning are requested again with a higher limit, if the limit is the
        default.

        Args:
            prompts: The prompts.
            max_new_tokens: Maximum number of tokens of a reply; ``None`` for that of the kernel's settings.
            stop: Texts before which a reply ends; ``None`` for those of the kernel's settings.
            sampling: Other fields of the request, such as ``temperature`` and ``seed``.
        """
        if stop is None:
            stop = self.stop
        more_fields = dict(sampling or {})
        replies = self._replies(prompts, max_new_tokens, stop, more_fields)
        if not self._repeats_cut_thoughts(max_new_tokens):
            return replies

        def request_longer_replies(cut_prompts: list[str]) -> Sequence[str | OutputError]:
            """Return the replies to prompts whose replies were cut during their reasoning."""
            return self._replies(cut_prompts, THINKING_TOKENS, stop, more_fields)

        return with_thoughts(replies, prompts, request_longer_replies)

    def _replies(
        self,
        prompts: Sequence[str],
        max_new_tokens: int | None,
        stop: Sequence[str] | None,
        more_fields: Mapping[str, Any],
    ) -> Sequence[str | OutputError]:
        """Return the reply to each prompt, or the error that took its place, of one request each.

        Args:
            prompts: The prompts.
            max_new_tokens: Maximum number of tokens of a reply; ``None`` for that of the settings.
            stop: Texts before which a reply ends; ``None`` for the kernel's default.
            more_fields: Other fields of the requests.
        """
        raise NotImplementedError

    @property
    def reply_limit(self) -> str:
        """The option that limits the tokens of a reply, with its value."""
        name = self._limit_option()
        limit = f"{name}={getattr(self, name)}"
        if self._repeats_cut_thoughts(None):
            return limit + _THINKING_NOTE
        return limit

    def planned_requests(self, prompt: str, label_space: Sequence[str]) -> list[PlannedRequest]:
        """Return the request that this kernel will send for a prompt, for forecasts.

        Args:
            prompt: The prompt.
            label_space: The labels.
        """
        return [self._planned_chat(prompt, self._reply_limit())]

    def _planned_chat(self, prompt: str, output_tokens: int | None) -> PlannedRequest:
        """Return the chat for a prompt, as a forecast counts it."""
        messages = self.messages(prompt)
        text = "\n".join(_text_of_content(message["content"]) for message in messages)
        return PlannedRequest(text, message_count=len(messages), output_tokens=output_tokens)

    def _reply_limit(self) -> int | None:
        """Return the maximum number of tokens of a reply; ``None`` if the server decides."""
        limit: int | None = getattr(self, self._limit_option())
        return limit

    def batch(self, prompts: Sequence[str], label_space: Sequence[str]) -> Sequence[Any]:
        """Return the reply to each prompt, or the error in its place."""
        return self.replies(prompts)

    def __call__(self, prompt: str, label_space: Sequence[str]) -> Any:
        """Return what :meth:`batch` returns for one prompt; raise it if it is an error.

        Raises:
            OutputError: The server or provider failed, withheld the reply, or gave what cannot be used.
        """
        return first_result(self.batch([prompt], label_space))

    def generate(
        self,
        prompts: Sequence[str],
        max_new_tokens: int = 32,
        stop: Sequence[str] = (),
        temperature: float = 0.0,
        seed: int = 0,
    ) -> list[str]:
        """Continue each prompt, or reply to it.

        Args:
            prompts: The prompts.
            max_new_tokens: Maximum number of tokens of a continuation.
            stop: Texts before which a continuation ends.
            temperature: Above 0, the text is sampled; 0 for the temperature of the settings.
            seed: Seed of the sample, for servers that keep to it.

        Returns:
            The continuations.

        Raises:
            ArgumentError: An argument is invalid.
            OutputError: The server failed or withheld a reply.
        """
        max_new_tokens = check_generation(max_new_tokens, stop, temperature)
        sampling: dict[str, Any] = {}
        if temperature:
            sampling = {"temperature": temperature, "seed": seed}
        return [first_result([reply]) for reply in self.replies(prompts, max_new_tokens, stop, sampling)]


@dataclass(frozen=True, slots=True)
class TextInference:
    """An inference function that returns what a kernel writes; see :func:`text_inference`."""

    kernel: Any
    max_new_tokens: int = NEW_TOKENS
    stop: tuple[str, ...] = ()
    temperature: float = 0.0
    """Above 0, tokens are sampled."""
    seed: int = 0
    sample: int = 0
    """Number of the sample. Samples with the same seed and other numbers are different."""
    strip_blank: bool = False
    """Remove the blank at the end of a prompt; see :func:`~StaICC.kernels.protocol.without_blank`."""

    capabilities: ClassVar[frozenset[Capability]] = frozenset({Capability.BATCH})
    """A reply names a label, which has no score."""

    def identity(self) -> Identity:
        """The identity of the kernel, with the most tokens, the stop strings and how tokens are sampled."""
        settings = {"max_new_tokens": self._limit_text(), "stop": repr(list(self.stop))}
        if self.strip_blank:
            settings["last blank"] = "removed"
        if self.temperature:
            settings["temperature"] = repr(self.temperature)
            settings["seed"] = str(self.seed)
            settings["sample"] = str(self.sample)
        return combined(identity_of(self.kernel), "text", Identity({}, settings))

    @property
    def recheck_tolerance(self) -> float | None:
        """The tolerance of the kernel; ``None``, which only warns, where the kernel's scores vary.

        One token that differs changes all of the text behind it.
        """
        tolerance = tolerance_of(self.kernel)
        if tolerance is None or tolerance > TOLERANCE:
            return None
        return tolerance

    @property
    def guided(self) -> str:
        """How the kernel lets the model write nothing but a label; empty if it does not."""
        options = getattr(self.kernel, "options", None)
        return getattr(options, "guided", "")

    @property
    def reply_limit(self) -> str:
        """The option that limits the tokens of a reply, with its value."""
        return f"max_tokens={self._limit_text()}"

    def _limit_text(self) -> str:
        """Return the maximum number of tokens of a reply, with a note if a cut reasoning gets more."""
        if self._repeats_cut_thoughts:
            return f"{self.max_new_tokens}{_THINKING_NOTE}"
        return str(self.max_new_tokens)

    @property
    def _repeats_cut_thoughts(self) -> bool:
        """Whether a reply that is cut during its reasoning is generated again, with a higher limit."""
        return self.max_new_tokens == NEW_TOKENS

    def forecast_prompts(
        self, prompts: Sequence[Any], label_space: Sequence[str], kept: tuple[int, ...] = ()
    ) -> Forecast:
        """Return the forecast of generating the texts."""
        return forecast_prompts(self.kernel, self._read(prompts), label_space, self.max_new_tokens, kept=kept)

    @property
    def planned_requests(self) -> Callable[[Any, Sequence[str]], Sequence[PlannedRequest]] | None:
        """The function ``f(prompt, label_space)`` that returns the requests for a prompt.

        None if no server runs the kernel's model.
        """
        requests_of_kernel = planned_requests(self.kernel)
        if requests_of_kernel is None:
            return None

        def requests_with_this_limit(prompt: Any, label_space: Sequence[str]) -> list[PlannedRequest]:
            """Return the requests of the kernel for a prompt, with the maximum number of tokens of this object."""
            (read_prompt,) = self._read([prompt])
            requests = []
            for request in requests_of_kernel(read_prompt, label_space):
                requests.append(replace(request, output_tokens=self.max_new_tokens))
            return requests

        return requests_with_this_limit

    def prompt_warnings(self, prompts: Sequence[Any], label_space: Sequence[str]) -> list[str]:
        """Return the warnings of the kernel about what it reads of prompts; no label is scored here."""

        def read_prompt_at(position: int) -> Any:
            (read_prompt,) = self._read([prompts[position]])
            return read_prompt

        # Prompts may be long, so they are read one at a time, when the kernel looks at them.
        read_prompts = LazySequence(read_prompt_at, len(prompts))
        warnings: list[str] = []
        for prompt_warnings in warning_methods(self.kernel, "prompt_warnings"):
            warnings += prompt_warnings(read_prompts, label_space, new_tokens=self.max_new_tokens)
        return warnings

    def _read(self, prompts: Sequence[Any]) -> list[Any]:
        """Return prompts as they are given to the kernel."""
        if self.strip_blank:
            return [without_blank(prompt) for prompt in prompts]
        return list(prompts)

    def served(self) -> Any:
        """The kernel, if a server runs its model."""
        return served_function(self.kernel)

    @property
    def queries_at_once(self) -> int | None:
        """How many queries a run gives to threads at once, if a server runs the kernel's model."""
        return queries_at_once(self.kernel)

    def stop_requests(self) -> None:
        """Let no thread request anything more of a served model."""
        stop_requests(self.kernel)

    def __call__(self, prompt: str, label_space: Sequence[str] = ()) -> str:
        """Continue one prompt.

        Args:
            prompt: The prompt.
            label_space: Not used; the model writes what it likes.
        """
        return first_result(self.batch([prompt], label_space))

    def batch(self, prompts: Sequence[str], label_space: Sequence[str] = ()) -> Sequence[str | OutputError]:
        """Continue many prompts; a context that they share is computed once, where the kernel can do that.

        Args:
            prompts: The prompts.
            label_space: The texts that are allowed, if the kernel has the option ``guided``; else not used.
        """
        # Further arguments of the kernel.
        arguments: dict[str, Any] = {}
        if self.temperature:
            arguments = {"temperature": self.temperature, "seed": stable_seed(self.seed, self.sample)}
        if self.guided:
            # Where the blank was removed from the prompt, it begins the label.
            blank = " " if self.strip_blank else ""
            arguments["choices"] = [blank + label for label in label_space]
        prompts = self._read(prompts)
        if isinstance(self.kernel, ReplyKernel):
            return self.kernel.replies(prompts, self.max_new_tokens, self.stop, arguments)

        replies = self._generate(prompts, self.max_new_tokens, arguments)
        if not self._repeats_cut_thoughts:
            return replies

        def request_longer_replies(cut_prompts: list[str]) -> Sequence[str]:
            """Return the replies to prompts whose replies were cut during their reasoning, with a higher limit."""
            longer_limit = self._limit_for_thoughts(cut_prompts, label_space)
            return self._generate(cut_prompts, longer_limit, arguments)

        return with_thoughts(replies, prompts, request_longer_replies)

    def _generate(self, prompts: Sequence[str], max_new_tokens: int, arguments: Mapping[str, Any]) -> Sequence[str]:
        """Return the continuations that the kernel generates.

        Args:
            prompts: The prompts as they are given to the kernel.
            max_new_tokens: Maximum number of tokens of a continuation.
            arguments: Further arguments of the kernel: how tokens are sampled, and which texts are allowed.
        """
        texts: Sequence[str] = self.kernel.generate(
            prompts, max_new_tokens=max_new_tokens, stop=list(self.stop), **arguments
        )
        return texts

    def _limit_for_thoughts(self, prompts: Sequence[str], label_space: Sequence[str]) -> int:
        """Return the maximum number of tokens of replies with their reasoning: 8192, or what the model can read.

        Args:
            prompts: The prompts, which are generated together.
            label_space: Their labels.
        """
        new_tokens = 1  # the least that can be forecast
        forecast = forecast_prompts(self.kernel, prompts, label_space, new_tokens)
        if forecast.limit is None:
            return THINKING_TOKENS
        longest_prompt = (forecast.longest_prompt or 0) - new_tokens
        room_for_reply = forecast.limit - longest_prompt
        return max(NEW_TOKENS, min(room_for_reply, THINKING_TOKENS))


def load_for_text(
    spec: str,
    max_tokens: int | None = None,
    stop: Sequence[str] | None = None,
    *,
    strip_blank: bool = False,
    **options: Any,
) -> Any:
    """Make an inference function that returns the replies of the model that a string names.

    Args:
        spec: As for ``load_kernel``.
        max_tokens: Maximum number of tokens of a reply; ``None`` for the kernel's, or 100.
        stop: Texts before which a reply ends; ``None`` for the kernel's.
        strip_blank: Remove the blank at the end of prompts, if the kernel continues them verbatim: not for chats, which
            do not need it, and not for servers.
        **options: Further options of the kernel.
    """
    if spec.startswith("openai:") and not names_option(spec, "scoring"):
        options = {"scoring": "text", **options}
    kernel = load_kernel(spec, **options)
    capabilities = capabilities_of(kernel)
    returns_replies_itself = isinstance(kernel, ReplySettings) and Capability.LABEL_SCORES not in capabilities
    if returns_replies_itself:
        return _with_settings(kernel, max_tokens, stop)
    limit = NEW_TOKENS if max_tokens is None else max_tokens
    function = text_inference(kernel, limit, stop or ())
    # A kernel that scores texts continues prompts verbatim.
    continues_verbatim = Capability.LOSSES in capabilities
    return replace(function, strip_blank=strip_blank and continues_verbatim)


def _with_settings(kernel: Any, max_tokens: int | None, stop: Sequence[str] | None) -> Any:
    """Return a kernel of replies with other settings.

    Args:
        kernel: The kernel, a :class:`ReplySettings`.
        max_tokens: Maximum number of tokens of a reply; ``None`` for the kernel's.
        stop: Texts before which a reply ends; ``None`` for the kernel's.

    Raises:
        ArgumentError: A setting was also given as an option of the model, with another value.
    """
    changes: dict[str, Any] = {}
    if max_tokens is not None:
        limit_option = kernel._limit_option()
        accepted_values = [getattr(ReplySettings, limit_option)]  # the default: the option was not given
        # The other option, max_completion_tokens, is another limit, even with an equal value.
        if limit_option == "max_tokens":
            accepted_values.append(max_tokens)
        _refuse_second_value(kernel, limit_option, max_tokens, accepted_values)
        changes["max_tokens"] = max_tokens
    if stop is not None:
        stop_texts = tuple(stop)
        default_stop = ReplySettings.stop
        _refuse_second_value(kernel, "stop", stop_texts, accepted_values=[default_stop, stop_texts])
        changes["stop"] = stop_texts
    return replace(kernel, **changes)


def _refuse_second_value(kernel: Any, option: str, value: object, accepted_values: Sequence[object]) -> None:
    """Refuse a second value of an option of a model.

    Args:
        kernel: The model.
        option: The option.
        value: The second value.
        accepted_values: Values of the model that do not contradict it, such as the default.

    Raises:
        ArgumentError: The model has another value.
    """
    value_of_model = getattr(kernel, option)
    if value_of_model not in accepted_values:
        raise ArgumentError(f"option {option} of the model: got {value_of_model} and {value}, expected one")


def text_inference(kernel: Any, max_new_tokens: int = NEW_TOKENS, stop: Sequence[str] = ()) -> TextInference:
    """Make an inference function that answers by text.

    Args:
        kernel: Anything with ``generate(prompts, max_new_tokens=..., stop=...)``, which returns the continuations.
        max_new_tokens: Most tokens of an answer.
        stop: Texts before which an answer ends, such as ``["service query"]``. None by default, as in the published
            runs. A line feed is no good choice for LongICL: an answer may begin with one, and the published parsers
            pass over it.

    Returns:
        ``f(prompt, label_space)`` with ``batch`` and ``identity``; it can be pickled if the kernel can.

    Raises:
        ArgumentError: The kernel cannot generate, or an argument has no meaning.

    Example:
        >>> class Parrot:
        ...     def generate(self, prompts, max_new_tokens=32, stop=()):
        ...         return [prompt[-max_new_tokens:] for prompt in prompts]
        >>> f = text_inference(Parrot(), 3)
        >>> f("one two", ["a", "b"]), dict(f.identity().settings)
        ('two', {'text max_new_tokens': '3', 'text stop': '[]'})
    """
    if not callable(getattr(kernel, "generate", None)):
        advice = in_each_syntax("Pass it to the benchmark itself", "Leave --answers text out")
        raise ArgumentError(
            f"{type(kernel).__name__} cannot generate text, it has no method generate. {advice}, or choose a model "
            "that generates text, such as hf:NAME"
        )
    return TextInference(kernel, check_generation(max_new_tokens, stop), tuple(stop))

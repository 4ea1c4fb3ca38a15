"""Hosted models without an OpenAI-compatible interface, called through the package litellm (extra ``litellm``).

A model is ``litellm:PROVIDER/MODEL``, such as ``litellm:anthropic/claude-sonnet-4-5``. The kernel returns replies,
whose labels a run finds (:mod:`StaICC.inference.reply_parser`); it computes no scores. litellm reads the provider's key
from its environment variable, and repeats requests after transient failures.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import KW_ONLY, dataclass, field
from typing import Any, ClassVar

from StaICC.errors import ArgumentError, OutputError, PromptTooLongError, RunEndingError, WithheldReplyError
from StaICC.inference.contract import Text
from StaICC.inference.identity import Identity
from StaICC.kernels.protocol import Capability
from StaICC.kernels.registry import option_types, split_options
from StaICC.kernels.server.tool_calls import finish_reason_of
from StaICC.kernels.server.transport import EndpointUsage, Requests, clip, only_choice, redact, token_counts
from StaICC.kernels.text_inference import ReplyKernel, reply
from StaICC.optional import require

# The names of errors of litellm.
_ENDS_RUN = frozenset({"AuthenticationError", "PermissionDeniedError", "NotFoundError", "BudgetExceededError"})
_WITHHELD = "ContentPolicyViolationError"
_TOO_LONG = "ContextWindowExceededError"


@dataclass(frozen=True)
class LiteLLMKernel(ReplyKernel):
    """A model that litellm calls, as a chat. Use it as ``f(prompt, label_space)``, or give it to a benchmark.

    Raises:
        ArgumentError: A setting is invalid.

    Example:
        >>> LiteLLMKernel("anthropic/claude-sonnet-4-5").identity().who["model"]
        'anthropic/claude-sonnet-4-5'
    """

    model: str
    """The model as litellm calls it."""

    _: KW_ONLY

    concurrency: int = 8
    """Maximum number of requests in flight."""

    timeout: float = 60.0
    """Timeout of one request, in seconds."""

    retries: int = field(default=6, metadata={"least": 0})
    """Maximum number of retries after a transient failure."""

    mock_response: str | None = None
    """A reply that litellm returns without a request, for trials."""

    _requests: ClassVar[Requests]
    """The requests of this object; not an option, so not a field."""

    def __post_init__(self) -> None:
        """Check the options.

        Raises:
            ArgumentError: One is invalid, or the model is not named.
        """
        super().__post_init__()
        self._set_requests()
        if not self.model:
            raise ArgumentError("model: got none, expected a name such as 'anthropic/claude-sonnet-4-5'")

    @classmethod
    def from_spec(cls, text: str, **options: Any) -> LiteLLMKernel:
        """Make a kernel from a text, ``"litellm:MODEL;option=value"``.

        Raises:
            ArgumentError: The text names no model, or an option has no meaning.
        """
        name, given = split_options(text, option_types(cls), given=options)
        return cls(name.removeprefix("litellm").removeprefix(":"), **given)

    may_cost_money: ClassVar[bool] = True

    capabilities: ClassVar[frozenset[Capability]] = frozenset({Capability.TEXT, Capability.BATCH})
    """Text; no scores of labels."""

    def __getstate__(self) -> dict[str, Any]:
        return {name: value for name, value in self.__dict__.items() if name != "_requests"}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state)
        self._set_requests()

    def _set_requests(self) -> None:
        """Set what sends the requests: ``concurrency`` at once, from the first one on.

        (By default, the first request is sent alone, until there was a response.)
        """
        requests = Requests(self.concurrency, had_response=True)
        object.__setattr__(self, "_requests", requests)  # the dataclass is frozen

    @property
    def usage(self) -> EndpointUsage:
        """Requests and tokens of this kernel so far, in this process; litellm does not tell how often it retried."""
        return EndpointUsage(**self._requests.counts)

    @property
    def tokens_used(self) -> tuple[int, int]:
        """Tokens of prompts and of completions so far, in this process, as the provider counted them."""
        return self.usage.prompt_tokens, self.usage.completion_tokens

    @property
    def queries_at_once(self) -> int:
        """How many queries a run gives to threads at once."""
        return self.concurrency

    def stop_requests(self) -> None:
        """Let no thread request anything more; requests in flight are finished."""
        self._requests.interrupt()

    def identity(self) -> Identity:
        """Return the model and the settings of its replies; the provider may move the name to another edition."""
        who = {"kernel": "litellm 1", "model": self.model}
        if self.mock_response:
            who["mock"] = self.mock_response
        return Identity(who, self.reply_settings())

    def _replies(
        self,
        prompts: Sequence[str],
        max_new_tokens: int | None,
        stop: Sequence[str] | None,
        more_fields: Mapping[str, Any],
    ) -> Sequence[str | OutputError]:
        """Return the reply to each prompt, or the error in its place, of one request each; see the base class."""
        litellm = require("litellm", "litellm", "the litellm kernel")
        settings = {**self.reply_request(max_new_tokens, stop or ()), **more_fields}
        if "seed" in settings:
            known_fields = litellm.get_supported_openai_params(self.model)
            if known_fields and "seed" not in known_fields:
                del settings["seed"]  # litellm would refuse it; the provider draws other samples each time without it
        settings |= {"timeout": self.timeout, "num_retries": self.retries, "mock_response": self.mock_response}

        return self._requests.map(prompts, lambda prompt: self._complete_reply(litellm, prompt, settings))

    def _complete_reply(self, litellm: Any, prompt: str, settings: Mapping[str, Any]) -> Text:
        """Return the reply to a prompt; an incomplete one is requested again.

        Args:
            litellm: The package.
            prompt: The prompt.
            settings: The other fields of the request.

        Raises:
            OutputError: The request failed, or all replies were incomplete.
        """
        finish_reason: object = None
        for _ in range(self.retries + 1):
            body = self._response(litellm, prompt, settings)
            choice = only_choice(body)
            finish_reason = _finish_reason(choice)  # of the provider, which litellm may have replaced
            corrected_choice = {**choice, "finish_reason": finish_reason}
            is_complete = finish_reason_of(corrected_choice) is not None
            if is_complete:
                return reply({**body, "choices": [corrected_choice]})
        expected = f"got the finish reason {clip(finish_reason)}, expected stop or length"
        raise OutputError(f"{self.model}: the reply may be incomplete: {expected} ({self.retries + 1} requests)")

    def _response(self, litellm: Any, prompt: str, settings: Mapping[str, Any]) -> dict[str, Any]:
        """Send one request, and return the response.

        Raises:
            OutputError: It failed. The error is a :class:`RunEndingError` if every other request would fail, too.
        """
        try:
            response = litellm.completion(self.model, messages=self.messages(prompt), **settings)
        except Exception as error:
            error_type = _error_type(error)
            raise error_type(f"{self.model}: {type(error).__name__}: {redact(str(error))[:300]}") from None
        body: dict[str, Any] = response.model_dump()
        with self._requests.counts_lock:
            self._requests.counts.update(requests=1, **token_counts(body))
        return body


def _error_type(error: Exception) -> type[OutputError]:
    """Return the class of our errors for an error of litellm, which is recognised by the names of its classes."""
    names = {base.__name__ for base in type(error).__mro__}
    if names & _ENDS_RUN:
        return RunEndingError
    if _TOO_LONG in names:
        return PromptTooLongError
    if _WITHHELD in names:
        return WithheldReplyError
    return OutputError


def _finish_reason(choice: Mapping[str, Any]) -> object:
    """Return the finish reason of the provider, if litellm's is the word that it uses for all unknown reasons."""
    reason = choice.get("finish_reason")
    if reason != "stop":
        return reason
    # litellm writes "stop" for every reason that it does not know, also for errors.
    provider_fields = choice.get("provider_specific_fields") or {}
    return provider_fields.get("native_finish_reason", reason)

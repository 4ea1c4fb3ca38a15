"""Hosted models without an OpenAI-compatible interface, through the package litellm (extra ``litellm``).

``litellm:PROVIDER/MODEL``, such as ``litellm:anthropic/claude-sonnet-4-5``. The kernel returns replies, whose labels a
run finds (:mod:`StaICC.inference.reply_parser`); it computes no scores. litellm reads the provider's key from its
environment variable, and repeats requests after transient failures.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import KW_ONLY, dataclass
from typing import Any

from StaICC.errors import ArgumentError, OutputError, RunEndingError, WithheldReplyError, set_integers
from StaICC.inference.identity import Identity
from StaICC.kernels.protocol import Capability
from StaICC.kernels.registry import OptionFact, option_types, options_of, split_options
from StaICC.kernels.text_inference import ReplyKernel, ReplySettings, first_result
from StaICC.kernels.transport import redact
from StaICC.optional import require

_ENDS_RUN = ("AuthenticationError", "PermissionDeniedError", "NotFoundError", "BudgetExceededError")
_WITHHELD = "ContentPolicyViolationError"


@dataclass(frozen=True)
class LiteLLMKernel(ReplyKernel, ReplySettings):
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

    retries: int = 6
    """Maximum number of retries after a transient failure."""

    mock_response: str | None = None
    """A reply that litellm returns without a request, for trials."""

    def __post_init__(self) -> None:
        super().__post_init__()
        if not isinstance(self.model, str) or not self.model:
            raise ArgumentError(f"model: got {self.model!r}, expected a name such as 'anthropic/claude-sonnet-4-5'")
        set_integers(self, concurrency=1, retries=0)

    @classmethod
    def declared_options(cls) -> list[OptionFact]:
        """Return the settings that may follow the name of the model."""
        return options_of(cls, "model")

    @classmethod
    def from_spec(cls, text: str, **options: Any) -> LiteLLMKernel:
        """Make a kernel from a text, ``"litellm:MODEL;option=value"``.

        Raises:
            ArgumentError: The text names no model, or an option has no meaning.
        """
        name, given = split_options(text, option_types(cls, "model"), None, given=options)
        return cls(name.removeprefix("litellm").removeprefix(":"), **given)

    @property
    def capabilities(self) -> frozenset[Capability]:
        """Text; no scores of labels."""
        return frozenset({Capability.TEXT, Capability.BATCH})

    def identity(self) -> Identity:
        """Return the model and the settings of its replies; the provider may move the name to another edition."""
        who = {"kernel": "litellm 1", "model": self.model}
        return Identity(who | ({"mock": self.mock_response} if self.mock_response else {}), self.reply_settings())

    @property
    def recheck_tolerance(self) -> None:
        """No tolerance: a provider may not respond alike twice, so that another reply is only a warning."""
        return None

    def __call__(self, prompt: str, label_space: Sequence[str]) -> str:
        """Return the reply to one prompt.

        Raises:
            OutputError: The provider failed or withheld the reply.
        """
        return first_result(self.replies([prompt]))

    def batch(self, prompts: Sequence[str], label_space: Sequence[str]) -> list[str | OutputError]:
        """Return the reply to each prompt, or the error in its place."""
        return self.replies(prompts)

    def replies(
        self,
        prompts: Sequence[str],
        max_new_tokens: int | None = None,
        stop: Sequence[str] | None = None,
        sampling: Mapping[str, Any] | None = None,
    ) -> list[str | OutputError]:
        """Return the reply to each prompt, or the error in its place; see the base class."""
        litellm = require("litellm", "litellm", "the litellm kernel")
        settings = self.reply_request(max_new_tokens, self.stop or () if stop is None else stop)
        settings |= sampling or {}
        if "seed" in settings and "seed" not in (litellm.get_supported_openai_params(self.model) or ["seed"]):
            del settings["seed"]  # litellm refuses it; the samples differ all the same
        settings |= {"timeout": self.timeout, "num_retries": self.retries, "mock_response": self.mock_response}
        ended: list[OutputError] = []

        def reply(prompt: str) -> str | OutputError:
            if ended:
                return ended[0]
            try:
                response = litellm.completion(self.model, messages=self.messages(prompt), **settings)
            except Exception as error:
                names = {base.__name__ for base in type(error).__mro__}
                kind: type[OutputError] = WithheldReplyError if _WITHHELD in names else OutputError
                kind = RunEndingError if names & {*_ENDS_RUN} else kind
                failure = kind(f"{self.model}: {type(error).__name__}: {redact(str(error))[:300]}")
                if kind is RunEndingError:
                    ended.append(failure)
                return failure
            (choice,) = response.choices
            if choice.finish_reason == "content_filter":
                return WithheldReplyError(f"{self.model}: the provider withheld the reply (content filter)")
            return choice.message.content or ""

        with ThreadPoolExecutor(self.concurrency) as pool:
            return list(pool.map(reply, prompts))

"""How a served model generates replies: the settings of its requests, for all kernels that send some."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields
from typing import Any

from StaICC.errors import ArgumentError, OutputError, validate_integer
from StaICC.kernels.protocol import check_generation

NEW_TOKENS = 100
"""Maximum number of tokens of a reply, by default; that of the published runs of LongICLBench."""


@dataclass(frozen=True, kw_only=True)
class ReplySettings:
    """The settings of the requests for replies. ``None`` leaves a setting out of the request."""

    max_tokens: int | None = NEW_TOKENS
    """Maximum number of tokens of a reply."""

    max_completion_tokens: int | None = None
    """Replaces ``max_tokens`` for models that refuse that name; it includes the tokens of the reasoning."""

    temperature: float | None = 0
    """Sampling temperature; some reasoning models accept no value (``None``)."""

    top_p: float | None = None
    """Nucleus sampling: the share of probability from which tokens are drawn."""

    reasoning_effort: str | None = None
    """How much a reasoning model reasons, such as ``"low"``."""

    stop: tuple[str, ...] | None = None
    """Texts before which a reply ends; ``None`` for the kernel's default."""

    system: str = ""
    """A system message before the prompt."""

    def __post_init__(self) -> None:
        for name in ("max_tokens", "max_completion_tokens"):
            if getattr(self, name) is not None:
                validate_integer(name, getattr(self, name), 1)
        for name in ("temperature", "top_p"):
            value = getattr(self, name)
            number = isinstance(value, (int, float)) and not isinstance(value, bool)
            if value is not None and not (number and 0 <= value < math.inf):
                raise ArgumentError(f"{name}: got {value!r}, expected a number of at least 0, or none")
        if self.stop is not None:
            check_generation(1, self.stop)
            object.__setattr__(self, "stop", tuple(self.stop))

    def reply_settings(self) -> dict[str, str]:
        """Return the settings that are sent, as text, for the identity."""
        values = {one.name: getattr(self, one.name) for one in fields(ReplySettings)}
        if self.max_completion_tokens is not None:
            values["max_tokens"] = None
        sent = {name: value for name, value in values.items() if value not in (None, "")}
        plain = {name: f"{value:g}" for name, value in sent.items() if isinstance(value, (int, float))}
        return {name: plain.get(name) or json.dumps(value) for name, value in sent.items()}

    def reply_request(self, max_new_tokens: int | None, stop: Sequence[str]) -> dict[str, Any]:
        """Return the fields of a request for a reply, without prompt and system message.

        Args:
            max_new_tokens: Another maximum number of tokens; ``None`` for that of the settings.
            stop: Texts before which the reply ends.
        """
        name = "max_tokens" if self.max_completion_tokens is None else "max_completion_tokens"
        request = {
            name: getattr(self, name) if max_new_tokens is None else max_new_tokens,
            "temperature": self.temperature,
            "top_p": self.top_p,
            "reasoning_effort": self.reasoning_effort,
            "stop": list(stop) or None,
        }
        return {name: value for name, value in request.items() if value is not None}

    def messages(self, prompt: str) -> list[Mapping[str, str]]:
        """Return the messages of a chat: the system message, if there is one, and the prompt."""
        messages = [{"role": "system", "content": self.system}] if self.system else []
        return [*messages, {"role": "user", "content": prompt}]


class ReplyKernel:
    """A kernel that returns a failure in the place of a reply, so that the other replies are kept."""

    def replies(
        self,
        prompts: Sequence[str],
        max_new_tokens: int | None = None,
        stop: Sequence[str] | None = None,
        sampling: Mapping[str, Any] | None = None,
    ) -> list[str | OutputError]:
        """Return the reply to each prompt, or the error that took its place.

        Args:
            prompts: The prompts.
            max_new_tokens: Maximum number of tokens of a reply; ``None`` for that of the kernel's settings.
            stop: Texts before which a reply ends; ``None`` for those of the kernel's settings.
            sampling: Other fields of the request: ``temperature`` and ``seed``.
        """
        raise NotImplementedError

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
        check_generation(max_new_tokens, stop, temperature)
        sampling = {"temperature": temperature, "seed": seed} if temperature else {}
        texts: list[str] = []
        for reply in self.replies(prompts, max_new_tokens, stop, sampling):
            if isinstance(reply, OutputError):
                raise reply
            texts.append(reply)
        return texts

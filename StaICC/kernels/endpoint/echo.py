"""Echoed prompts: asking for them, and finding out whether a server's echo can be trusted.

Some servers echo a prompt with log-probabilities that belong to other tokens (llama-cpp-python: those of the token
before, where a model has no start token). No single echo shows it. But a token can be asked for twice: generated
after a text, and echoed at the end of text + token. Both are the same number, or the echo is wrong.
"""

from __future__ import annotations

import asyncio
import logging
import re
from collections.abc import Awaitable, Callable, Mapping
from typing import Any, TypeAlias

from StaICC.kernels.endpoint.scoring import EchoedTokens, UnusableEndpointError, echoed_tokens

Ask: TypeAlias = Callable[[Mapping[str, Any]], Awaitable[Mapping[str, Any]]]

DOUBT = 0.5
"""Nats by which the two may differ: servers compute in 16 bits, and batch as they like."""

_ATTEMPTS = 5  # places in the prompt that are compared
_AGREEMENTS = 2  # enough comparisons with equal values

_LOG = logging.getLogger(__name__)


async def echo(ask: Ask, text: str) -> EchoedTokens:
    """Ask for a text's tokens and their log-probabilities.

    One token is generated behind the text and thrown away: some servers take 0 for "no limit".
    """
    body = await ask({"prompt": text, "max_tokens": 1, "temperature": 0, "echo": True, "logprobs": 1})
    return echoed_tokens(body, text)


async def _generated(ask: Ask, text: str) -> tuple[str, float] | None:
    """The most probable next token and its log-probability; None if the server's answer does not say."""
    body = await ask({"prompt": text, "max_tokens": 1, "temperature": 0, "logprobs": 1})
    try:
        choice = body["choices"][0]
        (token,), (value,) = choice["logprobs"]["tokens"], choice["logprobs"]["token_logprobs"]
    except (KeyError, IndexError, TypeError, ValueError):
        return None
    if not isinstance(token, str) or not token.strip() or token != choice.get("text") or not isinstance(value, float):
        return None
    return token, value


class EchoTrust:
    """Whether one server's echo has been checked; asked before each query, costs four requests or a few more, once."""

    def __init__(self) -> None:
        self._lock = asyncio.Lock()
        self._done = False
        self._failure: str | None = None

    async def check(self, ask: Ask, prompt: str) -> None:
        """Check the server's echo on a prompt, unless that was done.

        Raises:
            UnusableEndpointError: The log-probabilities of echo and generation differ.
            EndpointError: The server failed.
        """
        async with self._lock:
            if not self._done:
                self._done = await self._try(ask, prompt)
        if self._failure is not None:
            raise UnusableEndpointError(self._failure)

    async def _try(self, ask: Ask, prompt: str) -> bool:
        """Compare at the end of the prompt, then before its last words, until that tells something."""
        text = prompt.rstrip()
        agreements = 0
        for _ in range(_ATTEMPTS):
            agreements += bool(text) and await self._compare(ask, text)
            if agreements == _AGREEMENTS or self._failure is not None:
                return True
            text = "".join(re.split(r"(\s+)", text)[:-2])
        if not agreements:
            _LOG.warning(
                "a server's echoed log-probabilities could not be compared with generated ones; they are believed"
            )
        return True

    async def _compare(self, ask: Ask, text: str) -> bool:
        generated = await _generated(ask, text)
        if generated is None:
            return False
        token, value = generated
        echoed = await echo(ask, text + token)
        again = echoed.log_probabilities[-1]
        if echoed.tokens[-1] != token or not isinstance(again, float):
            return False
        if abs(again - value) > DOUBT:
            self._failure = (
                f"the server's echo cannot be trusted: the token {token!r} has log-probability {value:.3f} when it is "
                f"generated, but {again:.3f} in the echoed prompt (a server may shift them by one token); use "
                "scoring='top-logprobs' or 'text' for this server"
            )
        return True

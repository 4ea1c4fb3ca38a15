"""A provider with a prompt cache: it counts the tokens of each request, and bills them."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from typing import Any

from tests.kernels.server.endpoint_server import send, split

LEAST = 1024
"""The shortest beginning in tokens that it caches."""
BLOCK = 128
"""It caches beginnings in steps of so many tokens."""

FORMS: dict[str, Callable[[int], dict[str, Any]]] = {
    "OpenAI": lambda cached: {"prompt_tokens_details": {"cached_tokens": cached, "audio_tokens": 0}},
    "DeepSeek": lambda cached: {"prompt_cache_hit_tokens": cached, "prompt_tokens_details": None},
    "Moonshot": lambda cached: {"cached_tokens": cached},
    "Anthropic's gateways": lambda cached: {"cache_read_input_tokens": cached, "cache_creation_input_tokens": 0},
    "silent": lambda cached: {},
}
"""How providers state the tokens that they read from the cache."""


def count_tokens(text: str) -> int:
    """The tokens of a text are its words; that is what the provider counts, too."""
    return len(split(text))


def read_words(body: dict[str, Any]) -> list[str]:
    """Return the tokens of a request: those of its prompt, or of its messages with what a chat template adds."""
    if "prompt" in body:
        return split(body["prompt"])
    words = []
    for message in body["messages"]:
        words += ["<template>"] * 4 + split(message["content"])
    return words + ["<template>"] * 3  # the beginning of the reply


class Provider:
    """Replies to requests of :class:`~tests.kernels.server.endpoint_server.Server`: give it as ``always``.

    Args:
        form: How it states the cached tokens, one of :data:`FORMS`.
        reply: The text of all replies.
        output_tokens: The tokens of a reply that it bills.
        seconds: How long it reads a prompt; requests at the same time do not find it in the cache.
    """

    def __init__(self, form: str, reply: str = "food", output_tokens: int = 1, seconds: float = 0.01) -> None:
        self.prompt_tokens = 0
        self.cached_tokens = 0
        self.output_tokens = 0
        self._form = FORMS[form]
        self._reply = reply
        self._output_tokens = output_tokens
        self._seconds = seconds
        self._read_beginnings: set[tuple[str, ...]] = set()
        self._lock = threading.Lock()

    def __call__(self, handler: Any, answer: dict[str, Any]) -> None:
        """Answer a request with the reply, and with the usage that the bill is made of."""
        words = read_words(handler.body)
        cached = self._read(words)
        with self._lock:
            self.prompt_tokens += len(words)
            self.cached_tokens += cached
            self.output_tokens += self._output_tokens

        choice: dict[str, Any] = {"index": 0, "finish_reason": "stop"}
        if "messages" in handler.body:
            choice["message"] = {"role": "assistant", "content": self._reply}
        else:
            choice["text"] = self._reply
        usage = {
            "prompt_tokens": len(words),
            "completion_tokens": self._output_tokens,
            **self._form(cached),
        }
        send(handler, {**answer, "choices": [choice], "usage": usage})

    def _read(self, words: list[str]) -> int:
        """Read a prompt, keep its beginnings in the cache, and return how many of its tokens were there before."""
        cached = 0
        beginnings = [tuple(words[:end]) for end in range(BLOCK, len(words) + 1, BLOCK)]
        with self._lock:
            for beginning in beginnings:
                if beginning not in self._read_beginnings:
                    break
                cached = len(beginning)
        time.sleep(self._seconds)
        with self._lock:
            self._read_beginnings.update(beginnings)
        return cached if cached >= LEAST else 0

    def bill(self, read: float, generated: float, cached: float) -> float:
        """What all requests cost, for prices of a million tokens."""
        uncached_tokens = self.prompt_tokens - self.cached_tokens
        return (uncached_tokens * read + self.cached_tokens * cached + self.output_tokens * generated) / 1e6

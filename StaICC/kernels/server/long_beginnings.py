"""One request first for each long beginning of prompts: a provider caches a beginning when it has read it once.

Requests that are in flight together all miss the cache, and the full price of a long context is paid for each. So of
prompts that begin alike, one is sent first, and the others when it was answered.
"""

from __future__ import annotations

import contextlib
import json
import threading
from collections.abc import Iterator, Mapping
from typing import Any

_SHORTEST = 4096
"""Characters of the shortest beginning: about the 1,024 tokens from which on providers cache."""


class FirstRequests:
    """Knows which long beginnings of prompts were sent."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._answered: dict[int, threading.Event] = {}
        """For each beginning that was sent, by its hash: whether a request with it was answered."""

    @contextlib.contextmanager
    def turn(self, text: str) -> Iterator[None]:
        """Wait until a request with each long beginning of a text was answered, unless this request is the first.

        A request only waits for requests that came before it, so that no two wait for each other.

        Args:
            text: What is sent.
        """
        answered = threading.Event()
        earlier_requests = []
        with self._lock:
            for beginning in _beginnings(text):
                earlier = self._answered.setdefault(beginning, answered)
                if earlier is not answered:
                    earlier_requests.append(earlier)
        try:
            for earlier in earlier_requests:
                earlier.wait()
            yield
        finally:
            # Also after a failure: the others must not wait for ever.
            answered.set()


def _beginnings(text: str) -> list[int]:
    """Return the hashes of the long beginnings of a text, each twice as long as the one before."""
    hashes = []
    length = _SHORTEST
    while length <= len(text):
        hashes.append(hash(text[:length]))
        length *= 2
    return hashes


def sent_text(payload: Mapping[str, Any]) -> str:
    """Return the text of a request: the prompt of a completion, or the messages of a chat."""
    prompt = payload.get("prompt")
    if isinstance(prompt, str):
        return prompt
    return json.dumps(payload.get("messages"), ensure_ascii=False)

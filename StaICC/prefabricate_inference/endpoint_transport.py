"""Asking an OpenAI-compatible server: many requests at once, each with a deadline, retries, and an honest error.

The official ``openai`` client makes the requests. Around it this module sets what an evaluation of many hours needs:

- one event loop in a thread of its own, so that threads, notebooks and worker processes can all call it, with a limit
  on the requests in flight;
- a deadline for the whole answer (a server that sends one byte a minute is late too), and a limit on its size;
- retries after what may pass (no connection, 408, 409, 425, 429, 5xx, a broken body), with waits that double and a
  jitter that is derived from the request, not drawn. A Retry-After (seconds or date) is obeyed, by all requests
  together, up to a cap; a server that asks for more ends the query, with the time it asked for;
- no redirects (a POST that is redirected loses its body, or hands the key to another host).

The key is read from OPENAI_API_KEY when the client is made. It is in no attribute of ours, and cut out of all that a
server sends back before it gets into a message.
"""

from __future__ import annotations

import asyncio
import concurrent.futures
import contextlib
import email.utils
import hashlib
import json
import logging
import math
import os
import threading
import time
import weakref
from collections.abc import Coroutine, Mapping
from dataclasses import dataclass
from typing import Any, Literal, NamedTuple, TypeVar

from StaICC.errors import ArgumentError
from StaICC.optional import require
from StaICC.prefabricate_inference.endpoint_scoring import EndpointError, clip

__all__ = ["Api", "EndpointUsage", "Limits", "Transport", "key_from_environment", "retry_after"]

Api = Literal["completions", "chat"]
Value = TypeVar("Value")

KEY_VARIABLE = "OPENAI_API_KEY"
_LARGEST_BODY = 64 * 2**20
_LARGEST_ERROR_BODY = 2**16
_LONGEST_BACKOFF = 30.0
_MOST_DOUBLINGS = 64  # of the backoff: after a thousand it would be no number any more
_NETWORK_PACKAGES = ("anyio", "h11", "httpcore", "httpx", "ssl")
_MAY_PASS = frozenset({408, 409, 425, 429, 500, 502, 503, 504})

_LOG = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class EndpointUsage:
    """What a kernel cost in this process so far."""

    requests: int
    """Requests sent, retries included."""

    retries: int
    """Requests that were sent again."""

    prompt_tokens: int
    """Tokens of prompts, as the server counted them."""

    completion_tokens: int
    """Tokens of completions, as the server counted them."""

    uncounted: int
    """Answers in which the server did not say how many tokens there were."""


@dataclass(frozen=True, slots=True)
class Limits:
    """How hard and how long to try."""

    concurrency: int
    """Most requests in flight."""

    timeout: float
    """Seconds for one request and its whole answer."""

    retries: int
    """How often a request is sent again."""

    backoff: float
    """Seconds before the first retry; doubled for each further one, up to 30."""

    longest_wait: float
    """Most seconds that a Retry-After is obeyed for."""


class _Fault(NamedTuple):
    """Why an attempt gave nothing."""

    reason: str
    may_pass: bool = False
    fatal: bool = False
    wait: float | None = None


class _Secret:
    """A key that shows itself to no repr, and can be cut out of texts."""

    __slots__ = ("_key",)

    def __init__(self, key: str) -> None:
        self._key = key

    def cut(self, text: str) -> str:
        """The text without the key."""
        return text.replace(self._key, "[key]") if self._key else text

    def cut_bytes(self, data: bytes) -> bytes:
        """The bytes without the key."""
        return data.replace(self._key.encode(), b"[key]") if self._key else data


class _StatusError(Exception):
    """An answer whose status is not 200, on its way through the client."""

    def __init__(self, status: int, headers: Mapping[str, str], body: bytes) -> None:
        super().__init__(f"status {status}")
        self.status, self.headers, self.body = status, headers, body


def key_from_environment() -> str | None:
    """Read the key; None if there is none (a server of one's own needs none).

    Raises:
        ArgumentError: It holds characters that cannot be sent. The message does not show it.
    """
    key = os.environ.get(KEY_VARIABLE, "").strip()
    if not key:
        return None
    if not key.isascii() or not key.isprintable() or " " in key:
        raise ArgumentError(
            f"the key in {KEY_VARIABLE} holds spaces or characters that no header can carry; set it again"
        )
    return key


def retry_after(headers: Mapping[str, str], now: float) -> float | None:
    """Seconds that a server asks to wait, by Retry-After-Ms or Retry-After (RFC 9110, section 10.2.3).

    Args:
        headers: The answer's headers, by lower-case name.
        now: Seconds since 1970, for a server that does not say its own time.

    Returns:
        The seconds, at least 0; None if it does not ask, or not in a way that can be read.

    Example:
        >>> retry_after({"retry-after": "7"}, 0.0)
        7.0
        >>> retry_after({"retry-after": "Thu, 01 Jan 1970 00:01:00 GMT"}, 20.0)
        40.0
    """
    for name, scale in (("retry-after-ms", 1e-3), ("retry-after", 1.0)):
        try:
            seconds = float(headers[name]) * scale
        except (KeyError, ValueError):
            continue
        if math.isfinite(seconds):
            return max(seconds, 0.0)
    try:
        until = email.utils.parsedate_to_datetime(headers["retry-after"]).timestamp()
    except (KeyError, ValueError, TypeError, OverflowError):
        return None
    with contextlib.suppress(KeyError, ValueError, TypeError, OverflowError):
        now = email.utils.parsedate_to_datetime(headers["date"]).timestamp()  # the server's clock, not ours
    return max(until - now, 0.0)


def _jitter(payload: Mapping[str, Any], attempt: int) -> float:
    """A number from 0 to 1 that depends on the request and the attempt only."""
    text = json.dumps([payload, attempt], sort_keys=True)
    return int.from_bytes(hashlib.sha256(text.encode()).digest()[:7], "big") / 2**56


async def _refuse_status(response: Any) -> None:
    """Look at an answer before the client does: anything but success ends here, with a bounded part of its body."""
    if 200 <= response.status_code < 300:
        return
    body = b""
    async for part in response.aiter_bytes():
        body += part
        if len(body) > _LARGEST_ERROR_BODY:
            break
    headers = {str(name).lower(): str(value) for name, value in response.headers.items()}
    raise _StatusError(response.status_code, headers, body[:_LARGEST_ERROR_BODY])


def _stop(loop: asyncio.AbstractEventLoop, process: int) -> None:
    """End the thread; in a forked child, which shares the loop's pipe, do nothing."""
    if process == os.getpid() and not loop.is_closed():
        loop.call_soon_threadsafe(loop.stop)


def _spin(loop: asyncio.AbstractEventLoop, client: Any) -> None:
    """Run the loop until it is stopped; then end what other threads still wait for, and close the connections."""
    asyncio.set_event_loop(loop)
    try:
        loop.run_forever()
        while left := asyncio.all_tasks(loop):
            for task in left:
                task.cancel()
            loop.run_until_complete(asyncio.gather(*left, return_exceptions=True))
        loop.run_until_complete(client.close())
    finally:
        loop.close()


class Transport:
    """Requests to one server, for one process.

    Args:
        base_url: The server's address, such as ``http://localhost:8000/v1``.
        model: The model to ask for.
        served_model: The model that the server may name in its answers instead.
        limits: How hard and how long to try.

    Raises:
        MissingDependencyError: The package ``openai`` is not installed.
    """

    def __init__(self, base_url: str, model: str, served_model: str | None, limits: Limits) -> None:
        self._openai = require("openai", "endpoint", "the endpoint kernel")
        self.process = os.getpid()
        self._base_url, self._model, self._limits = base_url, model, limits
        self._named = served_model
        key = key_from_environment()
        self._has_key = key is not None
        self._key = _Secret(key or "")
        self._client = self._openai.AsyncOpenAI(
            base_url=base_url,
            api_key=key or "none",
            max_retries=0,
            timeout=limits.timeout,
            http_client=self._openai.DefaultAsyncHttpxClient(
                follow_redirects=False, event_hooks={"response": [_refuse_status]}
            ),
        )
        self._free = asyncio.Semaphore(limits.concurrency)
        self._not_before = 0.0
        self._counts = dict.fromkeys(("requests", "retries", "prompt_tokens", "completion_tokens", "uncounted"), 0)
        loop = self._loop = asyncio.new_event_loop()
        threading.Thread(target=_spin, args=(loop, self._client), name="staicc-endpoint", daemon=True).start()
        self.close = weakref.finalize(self, _stop, loop, self.process)

    def usage(self) -> EndpointUsage:
        """What was asked so far."""
        return EndpointUsage(**self._counts)

    def run(self, work: Coroutine[Any, Any, Value]) -> Value:
        """Run a coroutine in the event loop and wait for it; an interrupt ends it there too.

        Raises:
            EndpointError: Another thread closed the connections meanwhile.
        """
        future = asyncio.run_coroutine_threadsafe(work, self._loop)
        try:
            return future.result()
        except concurrent.futures.CancelledError:
            raise EndpointError(f"{self._base_url}: the connections were closed while it was asked") from None
        except BaseException:
            future.cancel()
            raise

    async def ask(self, api: Api, payload: Mapping[str, Any]) -> dict[str, Any]:
        """Send a request until it is answered, or until it will not be.

        Args:
            api: Which of the server's interfaces.
            payload: The request, without the model.

        Returns:
            The answer, an object of JSON in which the server names the right model.

        Raises:
            EndpointError: It is not answered, or not usably.
        """
        async with self._free:
            attempt = 0
            while True:
                while (early := self._not_before - time.monotonic()) > 0:
                    await asyncio.sleep(early)
                outcome = await self._attempt(api, payload)
                if not isinstance(outcome, _Fault):
                    return self._accepted(outcome)
                wait = self._wait(outcome, attempt, payload)
                if wait is None:
                    tries = f" (asked {attempt + 1} times)" if attempt else ""
                    failure = EndpointError(f"{self._base_url}: {outcome.reason}{tries}")
                    failure.fatal = outcome.fatal
                    raise failure
                _LOG.info("%s: asking again in %.1f s (%s)", self._base_url, wait, outcome.reason)
                attempt += 1
                self._counts["retries"] += 1
                await asyncio.sleep(wait)

    def _wait(self, fault: _Fault, attempt: int, payload: Mapping[str, Any]) -> float | None:
        """Seconds until the next attempt; None if there is none."""
        if not fault.may_pass or attempt >= self._limits.retries:
            return None
        jitter = _jitter(payload, attempt)
        if not fault.wait:
            doubled = math.ldexp(self._limits.backoff, min(attempt, _MOST_DOUBLINGS))
            return min(doubled, _LONGEST_BACKOFF) * (0.5 + jitter / 2)
        self._not_before = max(self._not_before, time.monotonic() + fault.wait)
        return fault.wait + jitter * min(1.0, 0.1 * fault.wait)

    async def _attempt(self, api: Api, payload: Mapping[str, Any]) -> dict[str, Any] | _Fault:
        """Send a request once. Failures are returned, not raised: nothing of the client's clings to our errors."""
        self._counts["requests"] += 1
        try:
            return await asyncio.wait_for(self._exchange(api, payload), self._limits.timeout)
        except asyncio.TimeoutError:
            return _Fault(
                f"no whole answer within {self._limits.timeout:g} s; raise timeout if the server is slow", True
            )
        except Exception as error:
            return self._fault(error)

    async def _exchange(self, api: Api, payload: Mapping[str, Any]) -> dict[str, Any] | _Fault:
        completions = self._client.chat.completions if api == "chat" else self._client.completions
        parts, size = [], 0
        async with completions.with_streaming_response.create(model=self._model, **payload) as response:
            kind = str(response.headers.get("content-type", "")).split(";")[0]
            async for part in response.iter_bytes():
                parts.append(part)
                size += len(part)
                if size > _LARGEST_BODY:
                    return _Fault(f"the answer is longer than {_LARGEST_BODY // 2**20} MiB")
        text = self._key.cut_bytes(b"".join(parts))
        try:
            body = json.loads(text)
        except (ValueError, RecursionError):
            shown = clip(text[:400].decode("utf-8", "replace"))
            where = " (is the address right? It mostly ends in /v1)" if "html" in kind else ""
            return _Fault(
                f"the answer is not JSON, but {kind or 'of unknown type'}, {size} bytes: {shown}{where}", True
            )
        if not isinstance(body, dict):
            return _Fault(f"the answer is JSON, but no object: {clip(str(body)[:400])}", True)
        if body.get("error"):
            return _Fault(f"the server answered with the error {clip(self._key.cut(str(body['error'])))}", True)
        return body

    def _fault(self, error: Exception) -> _Fault:
        """Put what the client raised into words."""
        cause: BaseException | None = error
        while cause is not None and not isinstance(cause, _StatusError):
            cause = cause.__cause__
        if cause is not None:
            return self._status_fault(cause.status, cause.headers, cause.body)
        if isinstance(error, self._openai.APITimeoutError):
            return _Fault(f"no answer within {self._limits.timeout:g} s", True)
        inner = error.__cause__ or error
        known = type(inner).__module__.partition(".")[0].rstrip("0123456789") in _NETWORK_PACKAGES
        text = clip(self._key.cut(f"{type(inner).__name__}: {inner}"))
        if isinstance(error, self._openai.APIConnectionError) or known or isinstance(inner, OSError):
            return _Fault(f"the connection failed ({text}); is the server running at this address?", True)
        return _Fault(f"the request could not be made ({text})")

    def _status_fault(self, status: int, headers: Mapping[str, str], body: bytes) -> _Fault:
        text = self._key.cut(body.decode("utf-8", "replace"))
        code = ""
        try:
            told = json.loads(text)
            inside = told.get("error", told) if isinstance(told, dict) else told
            if isinstance(inside, dict):
                code = str(inside.get("code") or inside.get("type") or "")
                text = str(inside.get("message") or inside.get("detail") or text)
        except (ValueError, RecursionError):
            pass
        said = f"status {status}" + (f": {clip(self._key.cut(text))}" if text.strip() else "")
        if 300 <= status < 400:
            place = clip(self._key.cut(headers.get("location", "nowhere")).partition("?")[0])
            return _Fault(f"the server redirects to {place} ({said}); give the address that it really has", fatal=True)
        if status in (401, 403):
            advice = "check it" if self._has_key else "there is none"
            return _Fault(f"the server wants a valid key from {KEY_VARIABLE}; {advice} ({said})", fatal=True)
        if status == 404:
            return _Fault(f"the server has no such address, or no model {self._model!r} ({said})", fatal=True)
        if status == 429 and "quota" in code:
            return _Fault(f"the quota is used up ({said})", fatal=True)
        may_pass = status in _MAY_PASS or status > 505
        wait = retry_after(headers, time.time()) if may_pass else None
        if wait is not None and wait > self._limits.longest_wait:
            return _Fault(
                f"the server asks to wait {wait:.0f} s, more than longest_wait ({self._limits.longest_wait:g} s); run "
                f"again later, or raise it ({said})"
            )
        return _Fault(f"the server failed or refused ({said})", may_pass, wait=wait)

    def _accepted(self, body: dict[str, Any]) -> dict[str, Any]:
        """Count an answer's cost and check whose it is."""
        usage = body.get("usage")
        counts = [
            usage.get(name) if isinstance(usage, dict) else None for name in ("prompt_tokens", "completion_tokens")
        ]
        for name, count in zip(("prompt_tokens", "completion_tokens"), counts, strict=True):
            if type(count) is int and count >= 0:
                self._counts[name] += count
        self._counts["uncounted"] += not any(type(count) is int for count in counts)
        named = body.get("model")
        if named is None or named == "":
            return body
        if not _same_model(self._model, self._named, named):
            failure = EndpointError(
                f"{self._base_url}: the model {self._named or self._model!r} was asked, but {clip(named)} answered; "
                "ask for that one, or accept its name with served_model=..."
            )
            failure.fatal = True
            raise failure
        self._named = str(named)  # from now on it must stay the same
        return body


def _same_model(asked: str, accepted: str | None, named: object) -> bool:
    """Whether the model that answered is the one that was asked, or a dated edition of it (``NAME-2025-01-31``)."""
    if not isinstance(named, str):
        return False
    if accepted is not None:
        return named == accepted
    rest = named[len(asked) :].replace("-", "")
    return named == asked or (named.startswith(asked + "-") and rest.isdigit() and len(rest) in (4, 8))

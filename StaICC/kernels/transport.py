"""Concurrent requests to an OpenAI-compatible server, with deadlines, retries and error messages.

The standard library makes the requests. What an evaluation of many hours needs:

- connections that are kept open, with a limit on the requests in flight over all threads of a process;
- a deadline for the complete response (also if the server sends one byte a minute), and a limit on its size;
- retries after transient failures (no connection, 408, 409, 425, 429, 5xx, a broken body), with waits that double and a
  jitter that is derived from the request, not drawn. A Retry-After (seconds or date) is obeyed, by all requests
  together, up to a cap; a server that asks for more ends the query, with the time it asked for;
- no redirects (a POST that is redirected loses its body, or hands the key to another host);
- the proxies that the environment names.

The key is read from OPENAI_API_KEY when the first request is made, and never stored. Responses are parsed as the server
sent them. In messages and failure reasons, a key is replaced by ``[key]`` where it appears verbatim or URL-encoded. A
key of fewer than :data:`MIN_LENGTH` characters (``x``, ``EMPTY``, as local servers take) is an ordinary word, and
stays.

Every response names the edition that served it (``model`` and ``system_fingerprint``). The first one of a run is
pinned; a response from another one is an :class:`~StaICC.errors.EditionError`, unless that is allowed.
"""

from __future__ import annotations

import base64
import contextlib
import email.utils
import hashlib
import http.client
import json
import math
import os
import re
import selectors
import socket
import ssl
import threading
import time
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import KW_ONLY, dataclass
from typing import Any, Literal, NamedTuple
from urllib.parse import quote, unquote, urlsplit
from urllib.request import getproxies, proxy_bypass

from StaICC.errors import ArgumentError, EditionError, OutputError, RunEndingError, WithheldReplyError
from StaICC.inference.contract import ending
from StaICC.inference.workers import is_too_long
from StaICC.safe_text import logger
from StaICC.version import __version__

KEY_VARIABLE = "OPENAI_API_KEY"
MIN_LENGTH = 12

_SHOWN = "[key]"
_NAMES = re.compile("KEY|TOKEN|SECRET|PASSWORD|CREDENTIAL", re.IGNORECASE)
_READ: set[str] = set()  # the keys that this process sends


def key_from_environment() -> str | None:
    """Read the key; ``None`` if there is none (a local server needs none).

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
    _READ.add(key)
    return key


def _replaced(text: str, keys: Iterable[str]) -> str:
    long = {key for key in keys if len(key) >= MIN_LENGTH}
    forms = long | {quote(key) for key in long} | {quote(key, safe="") for key in long}
    for form in sorted(forms, key=len, reverse=True):
        text = re.sub(re.escape(form), _SHOWN, text, flags=re.IGNORECASE)
    return text


def has_key(text: str) -> bool:
    """Return whether a text holds the key that is sent, verbatim or URL-encoded."""
    return _replaced(text, [*_READ, os.environ.get(KEY_VARIABLE, "").strip()]) != text


def redact(text: str) -> str:
    """Return the text without keys: those that are sent, and all environment variables that are named like one."""
    named = [value.strip() for name, value in os.environ.items() if _NAMES.search(name)]
    return _replaced(text, [*_READ, *named])


Api = Literal["completions", "chat"]
_PATHS = {"completions": "completions", "chat": "chat/completions"}

_LARGEST_BODY = 64 * 2**20
_LARGEST_ERROR_BODY = 2**16
_LONGEST_BACKOFF = 30.0
_MOST_DOUBLINGS = 64  # of the backoff: after a thousand it would be no number any more
_MAY_PASS = frozenset({408, 409, 425, 429, 500, 502, 503, 504})
_WITHHELD = re.compile(r"content[ _-]?(filter|policy|management|moderation)|flagged|safety", re.I)
_QUOTA = re.compile(r"quota|billing|credit balance|insufficient (balance|funds)", re.I)
_SETTING = re.compile(
    r"(unsupported|unknown|unrecognized|invalid)[ _](request[ _])?(parameter|value|argument)|not permitted"
    r"|not supported with this model|does not support",
    re.I,
)

_LOG = logger(__name__)


class EndpointError(OutputError):
    """The server failed, or answered what cannot be used."""


class UnusableEndpointError(EndpointError, RunEndingError):
    """Every other query would fail in the same way."""


def clip(text: object, length: int = 160) -> str:
    r"""Show a piece of a text in a message: one line, not too long, without the API key.

    Example:
        >>> clip("a  b\n" * 3, 6)
        "'a b...'"
    """
    line = " ".join(redact(str(text)).split())
    return repr(line if len(line) <= length else line[: length - 3] + "...")


@dataclass(frozen=True, slots=True)
class EndpointUsage:
    """Requests and tokens of a kernel in this process so far."""

    requests: int = 0
    """Requests sent, retries included."""

    retries: int = 0
    """Number of retries."""

    prompt_tokens: int = 0
    """Tokens of prompts, as the server counted them."""

    completion_tokens: int = 0
    """Tokens of completions, as the server counted them; reasoning included."""

    reasoning_tokens: int = 0
    """Tokens of reasoning, which a reply may hide, where the server counted them."""

    uncounted: int = 0
    """Responses without token counts."""

    failed: int = 0
    """Requests without a usable response, after all retries."""


def reasoning_tokens(body: Mapping[str, Any]) -> int:
    """Return the number of tokens of reasoning that a response states; 0 if it states none."""
    match body.get("usage"):
        case {"completion_tokens_details": {"reasoning_tokens": int(count)}}:
            return max(count, 0)
    return 0


class Edition(NamedTuple):
    """Which edition of a model served a response, as far as the response says."""

    model: str | None = None
    """The model that the server names."""

    system_fingerprint: str | None = None
    """The ``system_fingerprint`` of the response: model and configuration of the server."""

    def __str__(self) -> str:
        parts = [(name, value) for name, value in zip(self._fields, self, strict=True) if value is not None]
        return "; ".join(f"{name} {clip(value)}" for name, value in parts)

    def merged(self, other: Edition) -> Edition | None:
        """Return what both say together; ``None`` if they contradict each other."""
        pairs = list(zip(self, other, strict=True))
        if any(None not in pair and pair[0] != pair[1] for pair in pairs):
            return None
        return Edition(*(theirs if mine is None else mine for mine, theirs in pairs))


@dataclass(frozen=True)
class ServerOptions:
    """Which model on which server, and the limits of requests and retries."""

    base_url: str
    """The server's address, up to and with ``/v1``; without user name, password and query."""

    model: str
    """The name of the model on the server."""

    _: KW_ONLY

    served_model: str | None = None
    """The model name in the server's responses, if it is not ``model``."""

    concurrency: int = 8
    """Maximum number of requests in flight, over all threads of a process."""

    timeout: float = 60.0
    """Timeout of one request with its complete response, in seconds."""

    retries: int = 6
    """Maximum number of retries after a transient failure."""

    backoff: float = 0.5
    """Seconds before the first retry; doubled for each further one, up to 30 (less up to a half, by jitter)."""

    longest_wait: float = 120.0
    """Maximum Retry-After in seconds. If the server asks for more, the query fails."""

    allow_edition_change: bool = False
    """Whether responses may come from several editions of the model (``EndpointKernel.pin_edition``)."""


class _Fault(NamedTuple):
    """Why an attempt failed."""

    reason: str
    may_pass: bool = False
    error: type[OutputError] = EndpointError
    wait: float | None = None


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


def _read_body(data: bytes, kind: str, payload: Mapping[str, Any]) -> dict[str, Any] | _Fault:
    """Return the JSON object of a response, if the reply in it is complete."""
    try:
        body = json.loads(data)
    except (ValueError, RecursionError):
        shown = clip(data[:_LARGEST_ERROR_BODY].decode("utf-8", "replace"))
        where = " (is the address right? It mostly ends in /v1)" if "html" in kind else ""
        size = f"{kind or 'of unknown type'}, {len(data)} bytes"
        return _Fault(f"the answer is not JSON, but {size}: {shown}{where}", True)
    if not isinstance(body, dict):
        return _Fault(f"the answer is JSON, but no object: {clip(body)}", True)
    if body.get("error"):
        return _Fault(f"the server answered with the error {clip(body['error'])}", True)
    match body.get("choices"):
        case [Mapping() as choice]:
            reason = choice.get("finish_reason")
            one_token = 1 in (payload.get("max_tokens"), payload.get("max_completion_tokens"))
            whole = one_token or "logprobs" in payload  # the log-probabilities show what is missing
            if ending(reason) is None and not (reason is None and whole):
                expected = f"got the finish reason {clip(reason)}, expected stop or length"
                return _Fault(f"the reply may be incomplete: {expected}", True)
    return body


def _is_stale(connection: http.client.HTTPConnection) -> bool:
    """Tell whether the server has closed an idle connection; closes it then."""
    with selectors.DefaultSelector() as selector:
        selector.register(connection.sock, selectors.EVENT_READ)
        stale = bool(selector.select(0))
    if stale:
        connection.close()
    return stale


def _cut(connection: socket.socket) -> None:
    """End a request that has reached its deadline: the thread that reads the response gets an error."""
    with contextlib.suppress(OSError):
        connection.shutdown(socket.SHUT_RDWR)


class Transport:
    """Requests to one server, for one process, from any number of threads.

    Args:
        options: The server, the model and the limits.
        editions: The editions seen so far, to which this transport adds.
        counts: The fields of :class:`EndpointUsage` so far, to which this transport adds.
    """

    def __init__(self, options: ServerOptions, editions: list[Edition], counts: Counter[str]) -> None:
        self.process = os.getpid()
        self._options = options
        self._editions = editions
        self._counts = counts
        key = key_from_environment()
        self._has_key = key is not None
        self._headers = {
            "Authorization": f"Bearer {key or 'none'}",
            "Content-Type": "application/json",
            "User-Agent": f"StaICC/{__version__}",
        }
        self._address = urlsplit(options.base_url)
        host = str(self._address.hostname)
        proxies = {} if proxy_bypass(host) else getproxies()
        proxy = proxies.get(self._address.scheme) or proxies.get("all") or ""
        self._proxy = urlsplit(proxy if not proxy or "//" in proxy else f"//{proxy}")
        self._proxy_headers = {}
        if self._proxy.username is not None:
            user = f"{unquote(self._proxy.username)}:{unquote(self._proxy.password or '')}"
            self._proxy_headers["Proxy-Authorization"] = f"Basic {base64.b64encode(user.encode()).decode()}"
        self._path = self._address.path
        if proxy and self._address.scheme == "http":  # the proxy reads the whole address
            self._path = options.base_url
            self._headers |= self._proxy_headers
        self._lock = threading.Lock()
        self._idle: list[http.client.HTTPConnection] = []
        self._free = threading.Semaphore(options.concurrency)
        self._not_before = 0.0
        self.understood = False
        """Whether a query had a usable response."""
        self.ended: RunEndingError | None = None
        """The fault that every further request would meet; none is sent until this is ``None`` again."""
        self.echo_lock = threading.Lock()
        self.echo_fault: str | None = None
        """What is wrong with the server's echo; empty if nothing, ``None`` before the check."""

    def close(self) -> None:
        """Close the idle connections."""
        while self._idle:
            self._idle.pop().close()

    def request(self, api: Api, payload: Mapping[str, Any]) -> dict[str, Any]:
        """Send a request, with retries.

        Args:
            api: Which of the server's interfaces.
            payload: The request, without the model.

        Returns:
            The response, a JSON object in which the server names the requested model.

        Raises:
            EndpointError: There is no usable response.
        """
        with self._free:
            try:
                return self._retried(api, payload)
            except RunEndingError as error:
                self.ended = error
                raise

    def _retried(self, api: Api, payload: Mapping[str, Any]) -> dict[str, Any]:
        attempt = 0
        while True:
            while (early := self._not_before - time.monotonic()) > 0:
                time.sleep(early)
            if self.ended is not None:
                raise self.ended
            outcome = self._attempt(api, payload)
            with self._lock:
                if not isinstance(outcome, _Fault):
                    return self._accepted(outcome)
                wait = self._wait(outcome, attempt, payload)
                self._counts["failed" if wait is None else "retries"] += 1
            if wait is None:
                tries = f" (asked {attempt + 1} times)" if attempt else ""
                raise outcome.error(f"{self._options.base_url}: {outcome.reason}{tries}")
            _LOG.info("%s: asking again in %.1f s (%s)", self._options.base_url, wait, outcome.reason)
            attempt += 1
            time.sleep(wait)

    def _wait(self, fault: _Fault, attempt: int, payload: Mapping[str, Any]) -> float | None:
        """Seconds until the next attempt; None if there is none."""
        if not fault.may_pass or attempt >= self._options.retries:
            return None
        jitter = _jitter(payload, attempt)
        if not fault.wait:
            doubled = math.ldexp(self._options.backoff, min(attempt, _MOST_DOUBLINGS))
            return min(doubled, _LONGEST_BACKOFF) * (0.5 + jitter / 2)
        self._not_before = max(self._not_before, time.monotonic() + fault.wait)
        return fault.wait + jitter * min(1.0, 0.1 * fault.wait)

    def _attempt(self, api: Api, payload: Mapping[str, Any]) -> dict[str, Any] | _Fault:
        """Send a request once. Failures are returned, not raised: nothing of the connection clings to our errors."""
        deadline = time.monotonic() + self._options.timeout
        try:
            status, headers, data = self._exchange(api, payload, deadline)
        except Exception as error:
            if time.monotonic() >= deadline or isinstance(error, TimeoutError):
                said = f"no whole answer within {self._options.timeout:g} s; raise timeout if the server is slow"
                return _Fault(said, True)
            text = clip(f"{type(error).__name__}: {error}")
            if isinstance(error, (OSError, http.client.HTTPException)):
                return _Fault(f"the connection failed ({text}); is the server running at this address?", True)
            return _Fault(f"the request could not be made ({text})")
        if not 200 <= status < 300:
            return self._status_fault(status, headers, data[:_LARGEST_ERROR_BODY])
        if len(data) > _LARGEST_BODY:
            return _Fault(f"the answer is longer than {_LARGEST_BODY // 2**20} MiB")
        return _read_body(data, headers.get("content-type", "").split(";")[0], payload)

    def _exchange(self, api: Api, payload: Mapping[str, Any], deadline: float) -> tuple[int, dict[str, str], bytes]:
        """Return status, headers and body of the response; of a body that is too long only a part."""
        with self._lock:
            self._counts["requests"] += 1
            connection = self._idle.pop() if self._idle else None
        if connection is None or _is_stale(connection):
            connection = self._connection()
        body = json.dumps({"model": self._options.model, **payload}).encode()
        timer = threading.Timer(deadline - time.monotonic(), _cut, [connection.sock])
        timer.daemon = True
        timer.start()
        kept = False
        try:
            connection.request("POST", f"{self._path}/{_PATHS[api]}", body, self._headers)
            response = connection.getresponse()
            most = _LARGEST_BODY if 200 <= response.status < 300 else _LARGEST_ERROR_BODY
            data = response.read(most + 1)
            if len(data) <= most and response.length:
                raise http.client.IncompleteRead(data, response.length)
            kept = response.isclosed() and not response.will_close
            return response.status, {name.lower(): value for name, value in response.getheaders()}, data
        finally:
            timer.cancel()
            if kept:
                with self._lock:
                    self._idle.append(connection)
            else:
                connection.close()

    def _connection(self) -> http.client.HTTPConnection:
        """Connect to the server, through the proxy of the environment if there is one."""
        address, timeout = self._address, self._options.timeout
        via = self._proxy if self._proxy.hostname else address
        if address.scheme == "http":
            connection = http.client.HTTPConnection(str(via.hostname), via.port, timeout=timeout)
        else:
            context = ssl.create_default_context()
            with contextlib.suppress(ImportError):  # some installations of Python have no certificates
                import certifi

                context.load_verify_locations(certifi.where())
            port = address.port if via is address else via.port or 80
            connection = http.client.HTTPSConnection(str(via.hostname), port, timeout=timeout, context=context)
            if via is not address:
                connection.set_tunnel(str(address.hostname), address.port, self._proxy_headers)
        connection.connect()
        return connection

    def _status_fault(self, status: int, headers: Mapping[str, str], body: bytes) -> _Fault:
        """Describe a response whose status is not 200."""
        text = body.decode("utf-8", "replace")
        code = ""
        with contextlib.suppress(ValueError, RecursionError):
            decoded = json.loads(text)
            decoded = decoded[0] if isinstance(decoded, list) and decoded else decoded
            inside = decoded.get("error", decoded) if isinstance(decoded, dict) else decoded
            if isinstance(inside, dict):
                code = f"{inside.get('code') or ''} {inside.get('type') or ''}"
                text = str(inside.get("message") or inside.get("detail") or text)
        said = f"status {status}" + (f": {clip(text)}" if text.strip() else "")
        lasting = self._lasting_fault(status, headers.get("location", "nowhere"), code, text)
        if lasting is not None:
            return _Fault(f"{lasting[0]} ({said})", error=lasting[1])
        may_pass = status in _MAY_PASS or status > 505
        wait = retry_after(headers, time.time()) if may_pass else None
        if wait is not None and wait > self._options.longest_wait:
            return _Fault(
                f"the server asks to wait {wait:.0f} s, more than longest_wait ({self._options.longest_wait:g} s); run "
                f"again later, or raise it ({said})"
            )
        return _Fault(f"the server failed or refused ({said})", may_pass, wait=wait)

    def _lasting_fault(self, status: int, location: str, code: str, text: str) -> tuple[str, type[OutputError]] | None:
        """Return why a request would fail again, and the error that says so."""
        if 300 <= status < 400:
            place = clip(redact(location).partition("?")[0])
            return f"the server redirects to {place}; give the address that it really has", UnusableEndpointError
        if status in (400, 403) and _WITHHELD.search(f"{code} {text}"):
            return "the server withheld the reply, by a content filter", WithheldReplyError
        if status in (400, 413, 422, 500) and is_too_long(f"{code.replace('_', ' ')} {text}"):
            return "the prompt is longer than the model's context length; shorten it or use fewer k", EndpointError
        if status == 402 or (status in (400, 403, 429) and _QUOTA.search(code if status == 429 else text)):
            return "the quota is used up", UnusableEndpointError
        if status in (401, 403):
            key = "check it" if self._has_key else "there is none"
            return f"the server wants a valid key from {KEY_VARIABLE}; {key}", UnusableEndpointError
        if status == 404:
            return f"the server has no such address, or no model {self._options.model!r}", UnusableEndpointError
        if status in (400, 422) and _SETTING.search(f"{code} {text}"):
            advice = "change it or leave it out (temperature=none); max_completion_tokens=N replaces max_tokens"
            return f"the server refuses a setting; {advice}", UnusableEndpointError
        return None

    def _accepted(self, body: dict[str, Any]) -> dict[str, Any]:
        """Count the tokens of a response and check which model served it."""
        usage = body.get("usage")
        usage = usage if isinstance(usage, dict) else {}
        counts = {name: usage.get(name) for name in ("prompt_tokens", "completion_tokens")}
        for name, count in counts.items():
            if type(count) is int and count >= 0:
                self._counts[name] += count
        self._counts["reasoning_tokens"] += reasoning_tokens(body)
        self._counts["uncounted"] += not any(type(count) is int for count in counts.values())
        self._check_edition(body)
        return body

    def _check_edition(self, body: Mapping[str, Any]) -> None:
        """Compare the edition that served a response with the pinned one.

        Raises:
            EndpointError: Another model than the requested one served it.
            EditionError: Another edition served it.
        """
        named, fingerprint = body.get("model"), body.get("system_fingerprint")
        if named not in (None, "") and not _same_model(self._options.model, self._options.served_model, named):
            self._counts["failed"] += 1
            asked = self._options.served_model or self._options.model
            raise UnusableEndpointError(
                f"{self._options.base_url}: the model {asked!r} was asked, but {clip(named)} answered; ask for that "
                "one, or accept its name with served_model=..."
            )
        seen = Edition(*(redact(str(value)) if value not in (None, "") else None for value in (named, fingerprint)))
        for place, known in enumerate(self._editions):
            merged = known.merged(seen)
            if merged is not None:
                self._editions[place] = merged
                return
        if self._editions and not self._options.allow_edition_change:
            self._counts["failed"] += 1
            raise EditionError(
                f"{self._options.base_url}: the served edition of {self._options.model!r} changed from "
                f"{self._editions[0]} to {seen}. Use a new store, or accept the change with allow_edition_change=True"
            )
        self._editions.append(seen)


def _same_model(asked: str, accepted: str | None, named: object) -> bool:
    """Whether the model that answered is the one that was asked, or a dated edition of it (``NAME-2025-01-31``)."""
    if not isinstance(named, str):
        return False
    if accepted is not None:
        return named == accepted
    rest = named[len(asked) :].replace("-", "")
    return named == asked or (named.startswith(asked + "-") and rest.isdigit() and len(rest) in (4, 8))

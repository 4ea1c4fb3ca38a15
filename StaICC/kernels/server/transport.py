"""Concurrent requests to an OpenAI-compatible server: deadlines, retries, error messages.

The HTTP client of the ``openai`` package makes the requests. Around it is what an evaluation of many hours needs:

- a limit on the requests in flight, over all threads of a process;
- a deadline for the body of a response (also if the server sends one byte a minute), and a limit on its size;
- retries after transient failures (no connection, 408, 409, 425, 429, 5xx, a broken body), with waits that double (only
  twice while the server answers other requests) and a jitter that is derived from the request, not drawn. A Retry-After
  (seconds or date) is obeyed, by all requests together, up to a cap; a server that asks for more ends the query, with
  the time it asked for;
- no redirects (a POST that is redirected loses its body, or hands the key to another host).

The key is read from OPENAI_API_KEY when the client is made, and never stored. Responses are parsed as the server sent
them. In messages, failure reasons and log records, a key is replaced by ``[key]`` where it appears verbatim or
URL-encoded. A key of fewer than :data:`MIN_LENGTH` characters (``x``, ``EMPTY``, as local servers take) is an ordinary
word, and stays.

Every response names the edition that served it (``model`` and ``system_fingerprint``). The first one of a run is
pinned; a response from another one is an :class:`~StaICC.errors.EditionError`, unless that is allowed.
"""

from __future__ import annotations

import contextlib
import email.utils
import itertools
import json
import logging
import math
import os
import random
import re
import threading
import time
import traceback
import weakref
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import KW_ONLY, dataclass, field
from typing import Any, Literal, NamedTuple, TypeAlias, TypeVar
from urllib.parse import quote

from StaICC.errors import ArgumentError, EditionError, OutputError, RunEndingError, WithheldReplyError
from StaICC.inference.contract import ending
from StaICC.inference.replies import is_too_long
from StaICC.optional import require
from StaICC.safe_text import logger

KEY_VARIABLE = "OPENAI_API_KEY"
MIN_LENGTH = 12

_SHOWN = "[key]"
_CLIENTS = frozenset({"httpcore", "httpx", "openai"})  # their debug logs show the headers of responses
_NAMES = re.compile("KEY|TOKEN|SECRET|PASSWORD|CREDENTIAL", re.IGNORECASE)
_READ: set[str] = set()  # the keys that this process sends
_CREATION = threading.Lock()


def key_from_environment() -> str | None:
    """Read the key; ``None`` if there is none (a local server needs none).

    Raises:
        ArgumentError: It holds characters that cannot be sent. The message does not show it.
    """
    key = os.environ.get(KEY_VARIABLE, "").strip()
    if not key:
        return None
    if not key.isascii() or not key.isprintable() or " " in key:
        raise ArgumentError(f"the key in {KEY_VARIABLE} has spaces or characters that no header has. Set it again")
    _READ.add(key)
    return key


def _replaced(text: str, keys: Iterable[str]) -> str:
    forms = {form for key in keys if len(key) >= MIN_LENGTH for form in (key, quote(key), quote(key, safe=""))}
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


def _redact_record(record: logging.LogRecord) -> bool:
    try:
        message = record.getMessage()
    except Exception:  # logging reports it when the record is written
        return True
    if redact(message) != message:
        record.msg, record.args = redact(message), None
    if record.exc_info:
        record.exc_text = redact("".join(traceback.format_exception(*record.exc_info)).rstrip())
    return True


def redact_logs() -> None:
    """Remove keys from the log records of the HTTP client."""
    for name in list(logging.root.manager.loggerDict):
        if name.split(".")[0].rstrip("0123456789") in _CLIENTS:
            logging.getLogger(name).addFilter(_redact_record)  # once, however often it is added


Api = Literal["completions", "chat"]

Value = TypeVar("Value")

_LARGEST_BODY = 64 * 2**20
_LARGEST_ERROR_BODY = 2**16
_LONGEST_BACKOFF = 30.0
_DOUBLINGS_WHILE_ANSWERING = 2
"""How often the wait before a retry doubles, at most, while the server answers other requests: it is not down."""
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


class PromptTooLongError(EndpointError):
    """The server refuses a prompt that is longer than the model's context length."""


def clip(text: object, length: int = 160) -> str:
    r"""Show a piece of a text in a message: one line, not too long, without the API key.

    Example:
        >>> clip("a  b\n" * 3, 6)
        "'a b...'"
    """
    line = " ".join(redact(str(text)).split())
    return repr(line if len(line) <= length else line[: length - 3] + "...")


def only_choice(body: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return the choice of a response that has one."""
    match body.get("choices"):
        case [Mapping() as choice]:
            return choice
        case list() as choices:
            raise EndpointError(f"the server answered with {len(choices)} choices, where one was expected")
    raise EndpointError("the server answered with no list of choices")


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


def token_counts(body: Mapping[str, Any]) -> dict[str, int]:
    """Return the tokens that a response states, by the names of :class:`EndpointUsage`."""
    usage = body.get("usage")
    usage = usage if isinstance(usage, Mapping) else {}
    details = usage.get("completion_tokens_details")
    counts = {**usage, "reasoning_tokens": details.get("reasoning_tokens") if isinstance(details, Mapping) else None}
    names = ("prompt_tokens", "completion_tokens", "reasoning_tokens")
    return {name: counts[name] for name in names if type(counts.get(name)) is int and counts[name] >= 0}


Edition: TypeAlias = "dict[str, str]"
"""Which edition of a model served responses: ``model`` and ``system_fingerprint``, as far as they name them."""


def edition_text(edition: Edition) -> str:
    """Return an edition in one line."""
    return "; ".join(f"{name} {clip(value)}" for name, value in sorted(edition.items()))


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

    retries: int = field(default=6, metadata={"least": 0})
    """Maximum number of retries after a transient failure."""

    backoff: float = 0.5
    """Seconds before the first retry; doubled for each further one, up to 30 (less up to a half, by jitter). It is
    doubled only twice while the server answers other requests, unless it limits their rate."""

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
    """Seconds that the server asks to wait."""
    is_rate_limit: bool = False
    """Whether the server refuses the request because there are too many."""


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
        with contextlib.suppress(KeyError, ValueError):
            if math.isfinite(seconds := float(headers[name]) * scale):
                return max(seconds, 0.0)
    with contextlib.suppress(KeyError, ValueError, TypeError, OverflowError):
        until = email.utils.parsedate_to_datetime(headers["retry-after"]).timestamp()
        with contextlib.suppress(KeyError, ValueError, TypeError, OverflowError):
            now = email.utils.parsedate_to_datetime(headers["date"]).timestamp()  # the server's clock, not ours
        return max(until - now, 0.0)
    return None


class _Ending:
    """Whether the requests of one call of :meth:`Requests.all` go on."""

    def __init__(self) -> None:
        self.error: RunEndingError | None = None
        """Why nothing more is requested."""
        self.is_interrupted = False
        """Whether the user ended it: requests of later calls may succeed."""
        self._ended = threading.Event()

    def end(self, error: RunEndingError) -> None:
        """Let nothing more be requested, because of a fault that every request would meet; waits for retries end."""
        self.error = error
        self._ended.set()

    def interrupt(self) -> None:
        """Let nothing more be requested, because the user ended the run."""
        self.is_interrupted = True
        self.end(RunEndingError("the run was interrupted"))

    def wait(self, seconds: float) -> None:
        """Wait so long, or until nothing more is requested.

        Raises:
            RunEndingError: Nothing more is requested.
        """
        self._ended.wait(seconds)
        if self.error is not None:
            raise self.error


class Requests:
    """Requests of one process, some at a time; an error that all would meet ends them.

    Several threads may call :meth:`all` at once.

    Args:
        concurrency: The maximum number of requests in flight.
        understood: Whether a query had a usable response; until then, the first one of a call is sent alone.
    """

    def __init__(self, concurrency: int, understood: bool = False) -> None:
        self.concurrency = concurrency
        self.understood = understood
        self._calls: set[_Ending] = set()
        self._calls_lock = threading.Lock()
        self._of_thread = threading.local()

    def all(self, prompts: Sequence[str], work: Callable[[str], Value]) -> list[Value | OutputError]:
        """Return the result of ``work`` for each prompt; an error, without key and traceback, takes its place."""
        ending = self._begin_call()
        try:
            outcomes = self._outcomes(prompts, work, ending)
        except BaseException:
            ending.interrupt()
            raise
        finally:
            with self._calls_lock:
                self._calls.discard(ending)
        self.understood |= any(not isinstance(outcome, OutputError) for outcome in outcomes)
        return outcomes

    def _begin_call(self) -> _Ending:
        """Return the state of a new call: it requests nothing if the calls of other threads met a fault of all."""
        ending = _Ending()
        with self._calls_lock:
            for other in self._calls:
                if other.error is not None and not other.is_interrupted:
                    ending.end(other.error)
            self._calls.add(ending)
        return ending

    def interrupt(self) -> None:
        """Let the calls of all threads request nothing more; their requests in flight are finished."""
        with self._calls_lock:
            for ending in self._calls:
                ending.interrupt()

    @property
    def ending(self) -> _Ending:
        """Whether the requests of the call go on for which this thread works."""
        ending: _Ending = getattr(self._of_thread, "ending", None) or _Ending()
        return ending

    def _outcomes(
        self, prompts: Sequence[str], work: Callable[[str], Value], ending: _Ending
    ) -> list[Value | OutputError]:
        """Return the results in order: of the first prompt alone, if nothing was understood yet, then of the others."""
        outcomes: dict[int, Value | OutputError] = {}

        def work_off(numbers: Iterator[int]) -> None:
            self._of_thread.ending = ending
            for number in numbers:
                outcomes[number] = self._outcome(prompts[number], work, ending)

        numbers = iter(range(len(prompts)))
        if not self.understood or len(prompts) == 1:  # most faults are of all queries
            work_off(itertools.islice(numbers, 1))
        if len(prompts) > 1:
            # Daemons: after an interrupt, nothing waits for their requests.
            threads = [
                threading.Thread(target=work_off, args=(numbers,), daemon=True) for _ in prompts[: self.concurrency]
            ]
            for thread in threads:
                thread.start()
            for thread in threads:
                thread.join()
        return [outcomes[number] for number in range(len(prompts))]

    def _outcome(self, prompt: str, work: Callable[[str], Value], ending: _Ending) -> Value | OutputError:
        """Return the result for one prompt, or the error in its place; an error that all would meet stops all calls."""
        if ending.error is not None:
            return ending.error
        try:
            return work(prompt)
        except Exception as error:
            shown = _redacted(error)
            if isinstance(shown, RunEndingError):
                with self._calls_lock:
                    for call in self._calls:
                        call.end(shown)
            return shown


def _redacted(error: Exception) -> OutputError:
    """The error without the key and without its traceback."""
    if not isinstance(error, OutputError):  # a response that no check expected
        error = EndpointError(f"the response could not be read ({type(error).__name__}: {clip(error)})")
    if (shown := redact(str(error))) != str(error):
        error = type(error)(shown)
    error.__cause__ = error.__context__ = None
    return error.with_traceback(None)


class Transport(Requests):
    """Requests to one server. It connects with the first one; a copy in another process has its own connections.

    Args:
        options: The server, the model and the limits.
        editions: The editions seen so far.
    """

    def __init__(self, options: ServerOptions, editions: Iterable[Edition] = ()) -> None:
        super().__init__(options.concurrency)
        self._options = options
        self.editions = list(editions)
        """The editions seen so far."""
        self.counts: Counter[str] = Counter()
        """The fields of :class:`EndpointUsage` so far, in this process."""
        self._process: int | None = None

    def __reduce__(self) -> tuple[Any, ...]:
        return Transport, (self._options, self.editions)

    def all(self, prompts: Sequence[str], work: Callable[[str], Value]) -> list[Value | OutputError]:
        """Return the result of ``work`` for each prompt, or the error in its place.

        Raises:
            MissingDependencyError: The package ``openai`` is not installed.
        """
        with _CREATION:
            if self._process != os.getpid():  # a forked child has connections of its own
                self._connect()
        return super().all(prompts, work)

    def _connect(self) -> None:
        openai = require("openai", "endpoint", "the endpoint kernel")
        key = key_from_environment()
        self._has_key = key is not None
        url = self._options.base_url
        given = openai.OpenAI(base_url=url, api_key=key or "none").default_headers  # organisation, project
        self._headers = {name: text for name, text in given.items() if isinstance(text, str)}
        self._headers["Authorization"] = f"Bearer {key or 'none'}"
        self._client = openai.DefaultHttpxClient(timeout=self._options.timeout, follow_redirects=False)
        self._end = weakref.finalize(self, self._client.close)
        self._free = threading.Semaphore(self._options.concurrency)
        self._lock = threading.Lock()  # of the counts and editions
        self._not_before = 0.0
        self._faults_in_a_row = 0
        self.checking = threading.Lock()
        self.echo_fault: str | None = ""
        """Why the server's echo is wrong, if it is; empty before the check."""
        redact_logs()
        self.understood, self._process = False, os.getpid()

    def close(self) -> None:
        """Close the connections of this process; the next query opens them again."""
        if self._process is not None:
            self._end()
            self._process = None

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
        attempt = 0
        while True:
            outcome = self._attempt_when_free(api, payload, is_retry=attempt > 0)
            if not isinstance(outcome, _Fault):
                with self._lock:
                    self._faults_in_a_row = 0
                    return self._accepted(outcome)
            with self._lock:
                self._faults_in_a_row += 1
            wait = self._wait(outcome, attempt, payload)
            if wait is None:
                tries = f" ({attempt + 1} requests)" if attempt else ""
                raise outcome.error(f"{self._options.base_url}: {outcome.reason}{tries}")
            _LOG.info("%s: asking again in %.1f s (%s)", self._options.base_url, wait, outcome.reason)
            attempt += 1
            self.ending.wait(wait)

    def _attempt_when_free(self, api: Api, payload: Mapping[str, Any], is_retry: bool) -> dict[str, Any] | _Fault:
        """Send a request once, when fewer than ``concurrency`` are in flight and the server asks for no wait.

        Between two attempts others are sent, so a wait before a retry keeps nobody else waiting.

        Raises:
            RunEndingError: Nothing more is requested.
        """
        ending = self.ending
        with self._free:
            ending.wait(0)
            while (early := self._not_before - time.monotonic()) > 0:
                ending.wait(early)
            with self._lock:
                self.counts.update(requests=1, retries=int(is_retry))
            return self._attempt(api, payload)

    def _wait(self, fault: _Fault, attempt: int, payload: Mapping[str, Any]) -> float | None:
        """Seconds until the next attempt; None if there is none."""
        if not fault.may_pass or attempt >= self._options.retries:
            return None
        jitter = random.Random(json.dumps([payload, attempt], sort_keys=True)).random()
        if not fault.wait:
            doublings = attempt
            is_answering = self._faults_in_a_row <= attempt  # since this request failed first
            if is_answering and not fault.is_rate_limit:
                doublings = min(attempt, _DOUBLINGS_WHILE_ANSWERING)
            doubled = self._options.backoff * 2.0 ** min(doublings, 64)  # a thousand give no number any more
            return min(doubled, _LONGEST_BACKOFF) * (0.5 + jitter / 2)
        self._not_before = max(self._not_before, time.monotonic() + fault.wait)
        return fault.wait + jitter * min(1.0, 0.1 * fault.wait)

    def _attempt(self, api: Api, payload: Mapping[str, Any]) -> dict[str, Any] | _Fault:
        """Send a request once. Failures are returned, not raised, so that errors hold no traceback of the client."""
        try:
            return self._exchange(api, payload, time.monotonic() + self._options.timeout)
        except Exception as error:
            kinds, text = {base.__name__ for base in type(error).__mro__}, clip(f"{type(error).__name__}: {error}")
            if kinds & {"TimeoutError", "TimeoutException"}:
                limit = f"{self._options.timeout:g} s"
                return _Fault(f"no whole answer within {limit}; raise timeout if the server is slow", True)
            if kinds & {"OSError", "TransportError"}:
                return _Fault(f"the connection failed ({text}); is the server running at this address?", True)
            return _Fault(f"the request could not be made ({text})")

    def _exchange(self, api: Api, payload: Mapping[str, Any], end: float) -> dict[str, Any] | _Fault:
        url = f"{self._options.base_url}/{'chat/' * (api == 'chat')}completions"
        request, data = {"model": self._options.model, **payload}, bytearray()
        with self._client.stream("POST", url, json=request, headers=self._headers) as response:
            fine = response.is_success
            for part in response.iter_bytes():
                data += part
                late = time.monotonic() > end
                if late and fine:
                    raise TimeoutError
                if late or len(data) > (_LARGEST_BODY if fine else _LARGEST_ERROR_BODY):
                    break
        start = data[:_LARGEST_ERROR_BODY].decode("utf-8", "replace")
        if not fine:
            return self._status_fault(response.status_code, response.headers, start)
        if len(data) > _LARGEST_BODY:
            return _Fault(f"the answer is longer than {_LARGEST_BODY // 2**20} MiB")
        try:
            body = json.loads(data)
        except (ValueError, RecursionError):
            kind = response.headers.get("content-type", "").split(";")[0]
            where = " (is the address right? It mostly ends in /v1)" if "html" in kind else ""
            size = f"{kind or 'of unknown type'}, {len(data)} bytes"
            return _Fault(f"the answer is not JSON, but {size}: {clip(start)}{where}", True)
        if not isinstance(body, dict):
            return _Fault(f"the answer is JSON, but no object: {clip(body)}", True)
        if body.get("error"):
            return _Fault(f"the server answered with the error {clip(body['error'])}", True)
        match body.get("choices"):
            case [Mapping() as choice]:
                reason = choice.get("finish_reason")
                one_token = 1 in (payload.get("max_tokens"), payload.get("max_completion_tokens"))
                if ending(reason) is None and not (reason is None and one_token):  # all requests for scores
                    expected = f"got the finish reason {clip(reason)}, expected stop or length"
                    return _Fault(f"the reply may be incomplete: {expected}", True)
        return body

    def _status_fault(self, status: int, headers: Mapping[str, str], text: str) -> _Fault:
        """Describe a response whose status is not 200."""
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
            most = f"longest_wait ({self._options.longest_wait:g} s); run again later, or raise it"
            return _Fault(f"the server asks to wait {wait:.0f} s, more than {most} ({said})")
        return _Fault(f"the server failed or refused ({said})", may_pass, wait=wait, is_rate_limit=status == 429)

    def _lasting_fault(self, status: int, location: str, code: str, text: str) -> tuple[str, type[OutputError]] | None:
        """Return why a request would fail again, and the error that says so."""
        if 300 <= status < 400:
            place = clip(redact(location).partition("?")[0])
            return f"the server redirects to {place}; give the address that it really has", UnusableEndpointError
        if status in (400, 403) and _WITHHELD.search(f"{code} {text}"):
            return "the server withheld the reply, by a content filter", WithheldReplyError
        if status in (400, 413, 422, 500) and is_too_long(f"{code.replace('_', ' ')} {text}"):
            return "the prompt is longer than the model's context length; shorten it or use fewer k", PromptTooLongError
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
        """Count the tokens of a response, and compare the edition that served it with the pinned one.

        Raises:
            EndpointError: Another model than the requested one served it.
            EditionError: Another edition served it.
        """
        self.counts.update(token_counts(body))
        named, url = body.get("model"), self._options.base_url
        asked = self._options.served_model or self._options.model
        dated = "" if self._options.served_model else r"(-+(\d-*){4}((\d-*){4})?)?"  # such as NAME-2025-01-31
        if named not in (None, "") and not re.fullmatch(re.escape(asked) + dated, str(named)):
            raise UnusableEndpointError(
                f"{url}: the model {asked!r} was asked, but {clip(named)} answered; ask for it, or set served_model=..."
            )
        names = {"model": named, "system_fingerprint": body.get("system_fingerprint")}
        seen = {name: redact(str(value)) for name, value in names.items() if value not in (None, "")}
        for place, known in enumerate(self.editions):
            if {**known, **seen} == {**seen, **known}:  # they name nothing otherwise
                self.editions[place] = known | seen
                return body
        if self.editions and not self._options.allow_edition_change:
            change = f"{edition_text(self.editions[0])} to {edition_text(seen)}"
            advice = "Use a new store, or allow_edition_change=True"
            raise EditionError(f"{url}: the served edition of {self._options.model!r} changed from {change}. {advice}")
        self.editions.append(seen)
        return body

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
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import KW_ONLY, dataclass, field
from typing import Any, Literal, NamedTuple, TypeAlias, TypeVar
from urllib.parse import quote

from StaICC.argument_syntax import in_both_syntaxes
from StaICC.errors import (
    ArgumentError,
    EditionError,
    OutputError,
    PromptTooLongError,
    RunEndingError,
    WithheldReplyError,
)
from StaICC.inference.prices import token_cost
from StaICC.inference.replies import says_too_long
from StaICC.kernels.server.tool_calls import finish_reason_of
from StaICC.optional import require
from StaICC.safe_text import logger

KEY_VARIABLE = "OPENAI_API_KEY"
MIN_LENGTH = 12
"""Number of characters from which on a key is replaced in texts. Shorter ones are ordinary words."""

_SHOWN = "[key]"
"""What texts show instead of a key."""
_CLIENTS = frozenset({"httpcore", "httpx", "openai"})
"""Packages whose debug logs show the headers of requests and responses."""
_NAMES = re.compile("KEY|TOKEN|SECRET|PASSWORD|CREDENTIAL", re.IGNORECASE)
"""Names of environment variables that hold secrets."""
_SENT_KEYS: set[str] = set()
"""The keys that this process sends."""
_CONNECT_LOCK = threading.Lock()
"""Held while a transport connects, so that it connects once."""


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
    _SENT_KEYS.add(key)
    return key


def _without_keys(text: str, keys: Iterable[str]) -> str:
    """Return a text with ``[key]`` in place of keys, written verbatim or URL-encoded, whatever the case of letters."""
    spellings = set()
    for key in keys:
        if len(key) >= MIN_LENGTH:
            spellings |= {key, quote(key), quote(key, safe="")}
    # The longest first: one key may begin with another one.
    for spelling in sorted(spellings, key=len, reverse=True):
        text = re.sub(re.escape(spelling), _SHOWN, text, flags=re.IGNORECASE)
    return text


def has_key(text: str) -> bool:
    """Return whether a text holds the key that is sent, verbatim or URL-encoded."""
    sent_keys = [*_SENT_KEYS, os.environ.get(KEY_VARIABLE, "").strip()]
    return _without_keys(text, sent_keys) != text


def redact(text: str) -> str:
    """Return the text without keys: those that are sent, and all environment variables that are named like one."""
    secrets = [value.strip() for name, value in os.environ.items() if _NAMES.search(name)]
    return _without_keys(text, [*_SENT_KEYS, *secrets])


def _redact_record(record: logging.LogRecord) -> bool:
    """Replace keys in a log record; a filter of ``logging``, which lets every record pass."""
    try:
        message = record.getMessage()
    except Exception:  # logging reports it when the record is written
        return True
    redacted_message = redact(message)
    if redacted_message != message:
        record.msg = redacted_message
        record.args = None
    if record.exc_info:
        record.exc_text = redact("".join(traceback.format_exception(*record.exc_info)).rstrip())
    return True


def redact_logs() -> None:
    """Remove keys from the log records of the HTTP client."""
    for name in list(logging.root.manager.loggerDict):
        package = name.split(".")[0].rstrip("0123456789")  # a number may follow its name
        if package in _CLIENTS:
            # A filter that a logger has already is not added again.
            logging.getLogger(name).addFilter(_redact_record)


Api = Literal["completions", "chat"]

Value = TypeVar("Value")

_PATHS: Mapping[Api, str] = {"chat": "chat/completions", "completions": "completions"}
"""Where a server has its interfaces, after its address."""
_LARGEST_BODY = 64 * 2**20
"""Maximum size of a response in bytes."""
_LARGEST_ERROR_BODY = 2**16
"""Of a response that reports an error, this many bytes are read."""
_LONGEST_BACKOFF = 30.0
"""Maximum number of seconds before a retry, if the server does not ask for more."""
_LARGEST_POWER = 64
"""The wait is doubled this many times at most; a float has no 2 to the power of 1,024."""
_DOUBLINGS_WHILE_ANSWERING = 2
"""How often the wait before a retry doubles, at most, while the server answers other requests: it is not down."""
_TEMPORARY_STATUSES = frozenset({408, 409, 425, 429, 500, 502, 503, 504})
"""Statuses of failures that may pass."""
_LAST_STANDARD_STATUS = 505
"""Statuses above it are those of content networks (such as 520 to 529), whose failures may pass, too."""
# How servers name the reasons of refusals, in their codes and messages.
_WITHHELD = re.compile(r"content[ _-]?(filter|policy|management|moderation)|flagged|safety", re.I)
_QUOTA = re.compile(r"quota|billing|credit balance|insufficient (balance|funds)", re.I)
_SETTING = re.compile(
    r"(unsupported|unknown|unrecognized|invalid)[ _](request[ _])?(parameter|value|argument)|not permitted"
    r"|not supported with this model|does not support",
    re.I,
)
_LOGPROBS = re.compile("logprobs", re.I)
_FIELDS_BY_PROMPT = re.compile(r"prompt|messages|input|max_tokens|max_completion_tokens")
"""The beginnings of the names of those fields of a request that can be wrong for one prompt and right for another."""
_FIELD_NAME = re.compile(r"(?!(none|null)$)[a-z][\w.\[\]]*", re.I)
"""The name of a field. Some servers write ``None`` or a blank where they name none."""

_LOG = logger(__name__)


_END_OF_ADDRESSES = "/v1"
"""How the base address of most servers with this protocol ends."""


def for_a_chat_server() -> str:
    """Return the settings for a server that chats and does not complete texts, as the end of a message."""
    in_python = "scoring='text', prompt_format='chat-turns'"
    return f"for a model that only chats: {in_both_syntaxes(in_python, '--answers text --prompt-format chat-turns')}"


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
    if len(line) > length:
        line = line[: length - 3] + "..."
    return repr(line)


def only_choice(body: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return the choice of a response that has one.

    Raises:
        EndpointError: It has none, or several.
    """
    match body.get("choices"):
        case [Mapping() as choice]:
            return choice
        case list() as choices if choices:
            raise EndpointError(f"the server answered with {len(choices)} choices, where one was expected")
        case list():
            raise EndpointError(f"the server answered with 0 choices, where one was expected. {_REMEDY_FOR_CHOICES}")
    raise EndpointError(f"the server answered with no list of choices. {_REMEDY_FOR_CHOICES}")


_REMEDY_FOR_CHOICES = "Is its API that of OpenAI, and the address right? It mostly ends in /v1"
"""What to do if a response has not the form of an OpenAI-compatible API."""


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

    cached_tokens: int | None = None
    """Tokens of prompts that the server read from its prompt cache; ``None`` if no response states any."""

    def cost(self, prices: Sequence[float]) -> float:
        """Return the cost of these tokens; without a statement of the server, no token is a cached one.

        Args:
            prices: Cost of a million tokens read, of a million generated, and maybe of a million read from the cache.

        Raises:
            ArgumentError: The prices are not two or three numbers of at least 0.
        """
        return token_cost(self.prompt_tokens, self.completion_tokens, prices, self.cached_tokens or 0)


def token_counts(body: Mapping[str, Any]) -> dict[str, int]:
    """Return the tokens that a response states, by the names of :class:`EndpointUsage`."""
    usage = body.get("usage")
    if not isinstance(usage, Mapping):
        return {}
    details = usage.get("completion_tokens_details")
    if not isinstance(details, Mapping):
        details = {}
    stated = {
        "prompt_tokens": usage.get("prompt_tokens"),
        "completion_tokens": usage.get("completion_tokens"),
        "reasoning_tokens": details.get("reasoning_tokens"),
        "cached_tokens": _cached_tokens(usage),
    }
    # A count may be null, and some servers send -1 or a number with a point.
    counts = {name: count for name, count in stated.items() if type(count) is int and count >= 0}
    if counts.get("cached_tokens", 0) > counts.get("prompt_tokens", 0):
        # The cached tokens are some of those of the prompt. A larger number means something else.
        del counts["cached_tokens"]
    return counts


def _cached_tokens(usage: Mapping[str, Any]) -> object:
    """Return how many tokens of a prompt a server read from its cache, as it states them; ``None`` if it does not."""
    # OpenAI, Azure, vLLM, xAI, Mistral, OpenRouter and litellm.
    details = usage.get("prompt_tokens_details")
    if isinstance(details, Mapping) and details.get("cached_tokens") is not None:
        return details["cached_tokens"]
    # DeepSeek; Moonshot; gateways to Anthropic.
    for name in ("prompt_cache_hit_tokens", "cached_tokens", "cache_read_input_tokens"):
        if usage.get(name) is not None:
            return usage[name]
    return None


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
    """Why an attempt to send a request failed."""

    reason: str
    is_temporary: bool = False
    """Whether the same request may succeed later, so that it is sent again."""
    error: type[OutputError] = EndpointError
    """The class of the error that is raised if it is not sent again."""
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
    # A number of milliseconds or of seconds.
    for name, seconds_per_unit in (("retry-after-ms", 1e-3), ("retry-after", 1.0)):
        with contextlib.suppress(KeyError, ValueError):
            seconds = float(headers[name]) * seconds_per_unit
            if math.isfinite(seconds):
                return max(seconds, 0.0)

    # Or a date.
    until = _seconds_of_date(headers.get("retry-after"))
    if until is None:
        return None
    # The difference is taken on the server's clock, which may differ from ours.
    server_now = _seconds_of_date(headers.get("date"))
    if server_now is not None:
        now = server_now
    return max(until - now, 0.0)


def _seconds_of_date(date: str | None) -> float | None:
    """Return the seconds since 1970 of a date in a header; None if there is none that can be read."""
    if date is None:
        return None
    try:
        return email.utils.parsedate_to_datetime(date).timestamp()
    except (ValueError, TypeError, OverflowError):
        return None


class _CallState:
    """Whether a call of :meth:`Requests.map` may send further requests."""

    def __init__(self) -> None:
        """Begin with a call that may."""
        self.error: RunEndingError | None = None
        """Why the call sends no further request; ``None`` while it may."""
        self.is_interrupted = False
        """Whether the user ended it: requests of later calls may succeed."""
        self._ended = threading.Event()

    def end(self, error: RunEndingError) -> None:
        """Let the call send no further request, because every request would meet this error; waits end at once."""
        self.error = error
        self._ended.set()

    def interrupt(self) -> None:
        """Let the call send no further request, because the user ended the run."""
        self.is_interrupted = True
        self.end(RunEndingError("the run was interrupted"))

    def wait(self, seconds: float) -> None:
        """Wait for some seconds, or until the call is ended.

        Raises:
            RunEndingError: The call was ended.
        """
        self._ended.wait(seconds)
        if self.error is not None:
            raise self.error


class Requests:
    """Requests of one process, some at a time; an error that all would meet ends them.

    Several threads may call :meth:`map` at once.

    Args:
        concurrency: The maximum number of requests in flight.
        had_response: Whether a query had a usable response; until then, the first one of a call is sent alone.
    """

    def __init__(self, concurrency: int, had_response: bool = False) -> None:
        """Begin without any request."""
        self.concurrency = concurrency
        self.had_response = had_response
        self.counts: Counter[str] = Counter()
        """The fields of :class:`EndpointUsage` so far, in this process."""
        self.counts_lock = threading.Lock()
        self._calls: set[_CallState] = set()
        """For each call of :meth:`map` in progress, whether it goes on."""
        self._calls_lock = threading.Lock()
        """Held while the calls in progress are read or changed."""
        self._of_thread = threading.local()
        """Has, in each thread, the attribute ``call``: the state of the call for which the thread works."""

    def map(self, prompts: Sequence[str], process: Callable[[str], Value]) -> list[Value | OutputError]:
        """Return the result of ``process`` for each prompt, or the error in its place, without key and traceback.

        Args:
            prompts: The prompts.
            process: Sends the requests for one prompt, and returns the result; called in several threads at once.
        """
        call = self._begin_call()
        try:
            outcomes = self._outcomes(prompts, process, call)
        except BaseException:  # such as a KeyboardInterrupt: the threads that work must not go on
            call.interrupt()
            raise
        finally:
            with self._calls_lock:
                self._calls.discard(call)
        if any(not isinstance(outcome, OutputError) for outcome in outcomes):
            self.had_response = True
        return outcomes

    def _begin_call(self) -> _CallState:
        """Add a new call to those in progress, and return its state.

        If a call of another thread was ended by an error that every request would meet, the new call is ended, too.
        """
        new_call = _CallState()
        with self._calls_lock:
            for call in self._calls:
                if call.error is not None and not call.is_interrupted:
                    new_call.end(call.error)
            self._calls.add(new_call)
        return new_call

    def end_calls(self, error: RunEndingError) -> None:
        """Let the calls of all threads send no further request, because of an error that every request would meet."""
        with self._calls_lock:
            for call in self._calls:
                call.end(error)

    def interrupt(self) -> None:
        """Let the calls of all threads send no further request; their requests in flight are finished."""
        with self._calls_lock:
            for call in self._calls:
                call.interrupt()

    @property
    def current_call(self) -> _CallState:
        """The call of :meth:`map` for which the current thread works; outside of a call, one that is never ended."""
        call: _CallState | None = getattr(self._of_thread, "call", None)
        if call is None:
            return _CallState()
        return call

    def _outcomes(
        self, prompts: Sequence[str], process: Callable[[str], Value], call: _CallState
    ) -> list[Value | OutputError]:
        """Return the result for each prompt, or the error in its place; several threads work at once.

        Args:
            prompts: The prompts.
            process: Returns the result for one prompt.
            call: The state of this call.
        """
        outcomes: dict[int, Value | OutputError] = {}

        def process_in_this_thread(indexes: Iterable[int]) -> None:
            """Process the prompts at these indexes in the current thread."""
            self._of_thread.call = call
            for index in indexes:
                outcomes[index] = self._outcome(prompts[index], process, call)

        # All threads take the indexes of their prompts from this one iterator.
        remaining_indexes = iter(range(len(prompts)))
        # Most errors (no server, a wrong key) are of all prompts, so one is sent alone until there was a response.
        if not self.had_response or len(prompts) == 1:
            first_index = itertools.islice(remaining_indexes, 1)
            process_in_this_thread(first_index)
        if len(prompts) > 1:
            threads = []
            for _ in range(min(self.concurrency, len(prompts))):
                # Daemons: after an interrupt, nothing waits for their requests.
                thread = threading.Thread(target=process_in_this_thread, args=(remaining_indexes,), daemon=True)
                threads.append(thread)
            for thread in threads:
                thread.start()
            for thread in threads:
                thread.join()
        return [outcomes[index] for index in range(len(prompts))]

    def _outcome(self, prompt: str, process: Callable[[str], Value], call: _CallState) -> Value | OutputError:
        """Return the result for one prompt, or the error in its place.

        An error that every request would meet ends the calls of all threads.

        Args:
            prompt: The prompt.
            process: Returns the result.
            call: The state of the call. If it was ended, nothing is requested, and the result is its error.
        """
        if call.error is not None:
            return call.error
        try:
            return process(prompt)
        except Exception as error:
            redacted_error = _redacted(error)
            if isinstance(redacted_error, RunEndingError):
                self.end_calls(redacted_error)
            return redacted_error


def _redacted(error: Exception) -> OutputError:
    """Return the error without the key and without its traceback."""
    if not isinstance(error, OutputError):  # a response that no check expected
        error = EndpointError(f"the response could not be read ({type(error).__name__}: {clip(error)})")
    message = str(error)
    redacted_message = redact(message)
    if redacted_message != message:
        error = type(error)(redacted_message)
    error.__cause__ = None
    error.__context__ = None
    return error.with_traceback(None)


class Transport(Requests):
    """Requests to one server. It connects with the first one; a copy in another process has its own connections.

    Args:
        options: The server, the model and the limits.
        editions: The editions seen so far.
    """

    def __init__(self, options: ServerOptions, editions: Iterable[Edition] = ()) -> None:
        """Keep the options; the first request connects."""
        super().__init__(options.concurrency)
        self._options = options
        self.editions = list(editions)
        """The editions seen so far."""
        self._process: int | None = None
        """The number of the process that has connected; ``None`` before."""

    def __reduce__(self) -> tuple[Any, ...]:
        return Transport, (self._options, self.editions)

    def map(self, prompts: Sequence[str], process: Callable[[str], Value]) -> list[Value | OutputError]:
        """Return the result of ``process`` for each prompt, or the error in its place; connects before.

        Raises:
            MissingDependencyError: The package ``openai`` is not installed.
        """
        with _CONNECT_LOCK:
            if self._process != os.getpid():  # a forked child has connections of its own
                self._connect()
        return super().map(prompts, process)

    def _connect(self) -> None:
        """Open the connections of this process, and forget what was known of the server."""
        openai = require("openai", "endpoint", "the endpoint kernel")
        key = key_from_environment()
        self._has_key = key is not None
        base_url = self._options.base_url
        sent_key = key or "none"  # servers without keys take any
        # The package adds headers for the organisation and the project, which it reads from the environment.
        default_headers = openai.OpenAI(base_url=base_url, api_key=sent_key).default_headers
        self._headers = {name: text for name, text in default_headers.items() if isinstance(text, str)}
        self._headers["Authorization"] = f"Bearer {sent_key}"
        self._client = openai.DefaultHttpxClient(timeout=self._options.timeout, follow_redirects=False)
        self._end = weakref.finalize(self, self._client.close)
        self._slots = threading.Semaphore(self._options.concurrency)
        """Held during a request: one for each request in flight."""
        self._lock = threading.Lock()
        """Held while the counts and the editions are changed."""
        self._not_before = 0.0
        """The time (of ``time.monotonic``) before which the server wants no request."""
        self._faults_in_a_row = 0
        """Number of failed requests since the server's last answer."""
        self.check_lock = threading.Lock()
        """Held by a thread that checks the server (its echo, or whether it cuts prompts); the others wait for it."""
        self.echo_fault: str | None = ""
        """Why the server's echo is wrong; None if it is right, empty before the check."""
        self._accepted_settings: set[str] = set()
        """The settings (:func:`_settings_of`) of requests that had an answer."""
        redact_logs()
        self.had_response = False
        self._process = os.getpid()

    def close(self) -> None:
        """Close the connections of this process; the next query opens them again."""
        if self._process is not None:
            self._end()
            self._process = None

    def request(self, api: Api, payload: Mapping[str, Any]) -> dict[str, Any]:
        """Send a request, again after failures that may be temporary, and return the response.

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
            body_or_fault = self._attempt_when_free(api, payload, attempt)
            if not isinstance(body_or_fault, _Fault):
                with self._lock:
                    self._faults_in_a_row = 0
                    return self._accepted(body_or_fault)

            fault = body_or_fault
            with self._lock:
                self._faults_in_a_row += 1
            if not fault.is_temporary or attempt >= self._options.retries:
                raise self._error_of(fault, attempt)
            seconds = self._seconds_before_retry(fault, attempt, payload)
            _LOG.info("%s: asking again in %.1f s (%s)", self._options.base_url, seconds, fault.reason)
            attempt += 1
            self.current_call.wait(seconds)  # raises an error if the call was ended meanwhile

    def _error_of(self, fault: _Fault, attempt: int) -> OutputError:
        """Return the error of a request that is not sent again.

        Args:
            fault: Why the last attempt failed.
            attempt: Its number, from 0.
        """
        message = f"{self._options.base_url}: {fault.reason}"
        if attempt > 0:
            message += f" ({attempt + 1} requests)"
        return fault.error(message)

    def _attempt_when_free(self, api: Api, payload: Mapping[str, Any], attempt: int) -> dict[str, Any] | _Fault:
        """Send a request once, as soon as fewer than ``concurrency`` are in flight and the server asks for no wait.

        Between two attempts others are sent, so other requests do not wait for the retry of this one.

        Args:
            api: Which of the server's interfaces.
            payload: The request, without the model.
            attempt: The number of this attempt, from 0.

        Returns:
            The body of the response, or why there is none.

        Raises:
            RunEndingError: The current call was ended.
        """
        call = self.current_call
        with self._slots:
            self._wait_until_allowed(call)
            with self._lock:
                self.counts.update(requests=1, retries=int(attempt > 0))
            outcome = self._attempt(api, payload)
            if isinstance(outcome, _Fault) and not outcome.is_temporary:
                error = _redacted(self._error_of(outcome, attempt))
                if isinstance(error, RunEndingError):
                    self.end_calls(error)  # here, before another request takes the place of this one
            return outcome

    def _wait_until_allowed(self, call: _CallState) -> None:
        """Wait for as long as the server asked all requests to wait.

        Args:
            call: The state of the current call.

        Raises:
            RunEndingError: The call was ended.
        """
        call.wait(0)  # raises the error of a call that was ended
        while True:
            # Computed again after each wait, in which the server may have asked another thread to wait longer.
            seconds_left = self._not_before - time.monotonic()
            if seconds_left <= 0:
                return
            call.wait(seconds_left)

    def _seconds_before_retry(self, fault: _Fault, attempt: int, payload: Mapping[str, Any]) -> float:
        """Return for how many seconds to wait before a request is sent again.

        If the server asks to wait, all requests do so from now on, and this one waits up to a second more. Otherwise
        the wait doubles with each attempt (``backoff * 2 ** attempt``, with limits), and a jitter shortens it by up to
        a half.

        Args:
            fault: Why the last attempt failed.
            attempt: Its number, from 0.
            payload: The request.
        """
        # From 0 to 1, derived from the request, so that a run waits equally long each time.
        jitter = random.Random(json.dumps([payload, attempt], sort_keys=True)).random()
        if fault.wait:
            self._not_before = max(self._not_before, time.monotonic() + fault.wait)
            return fault.wait + jitter * min(1.0, 0.1 * fault.wait)

        doublings = attempt
        # This request had attempt + 1 faults. If all requests together had fewer in a row, others succeeded meanwhile.
        is_answering = self._faults_in_a_row <= attempt
        if is_answering and not fault.is_rate_limit:
            doublings = min(attempt, _DOUBLINGS_WHILE_ANSWERING)
        doubled_backoff = self._options.backoff * 2.0 ** min(doublings, _LARGEST_POWER)
        return min(doubled_backoff, _LONGEST_BACKOFF) * (0.5 + jitter / 2)

    def _attempt(self, api: Api, payload: Mapping[str, Any]) -> dict[str, Any] | _Fault:
        """Send a request once, and return the body of the response, or why there is none.

        Failures of the client are returned, not raised, so that errors hold no traceback of it.

        Args:
            api: Which of the server's interfaces.
            payload: The request, without the model.
        """
        deadline = time.monotonic() + self._options.timeout
        try:
            return self._exchange(api, payload, deadline)
        except Exception as error:
            # Recognised by name: the client raises its own errors, and its package may not be imported here.
            class_names = {base.__name__ for base in type(error).__mro__}
            description = clip(f"{type(error).__name__}: {error}")
            if class_names & {"TimeoutError", "TimeoutException"}:
                limit = f"{self._options.timeout:g} s"
                return _Fault(f"no whole answer within {limit}; raise timeout if the server is slow", is_temporary=True)
            if class_names & {"OSError", "TransportError"}:
                return _Fault(
                    f"the connection failed ({description}); is the server running at this address?", is_temporary=True
                )
            return _Fault(f"the request could not be made ({description})")

    def _exchange(self, api: Api, payload: Mapping[str, Any], deadline: float) -> dict[str, Any] | _Fault:
        """Send a request once, and return the body of the response, a JSON object, or why it cannot be used.

        Args:
            api: Which of the server's interfaces.
            payload: The request, without the model.
            deadline: The time (of ``time.monotonic``) until which the response must be there.

        Raises:
            TimeoutError: The response is not there in time.
        """
        url = f"{self._options.base_url}/{_PATHS[api]}"
        settings = _settings_of(payload)
        request = {"model": self._options.model, **payload}
        with self._client.stream("POST", url, json=request, headers=self._headers) as response:
            data = _read_response(response, deadline)
        beginning = data[:_LARGEST_ERROR_BODY].decode("utf-8", "replace")
        if not response.is_success:
            were_accepted = settings in self._accepted_settings
            return self._status_fault(response.status_code, response.headers, beginning, were_accepted)
        self._accepted_settings.add(settings)
        if len(data) > _LARGEST_BODY:
            return _Fault(f"the answer is longer than {_LARGEST_BODY // 2**20} MiB")
        try:
            body: dict[str, Any] = json.loads(data)
        except (ValueError, RecursionError):
            content_type = response.headers.get("content-type", "").split(";")[0]
            return _not_json(content_type, len(data), beginning)
        fault = _fault_of_body(body, payload)
        if fault is not None:
            return fault
        return body

    def _status_fault(self, status: int, headers: Mapping[str, str], text: str, settings_were_accepted: bool) -> _Fault:
        """Return the fault of a response that reports an error.

        Args:
            status: Its status.
            headers: Its headers, by lower-case name.
            text: The beginning of its body.
            settings_were_accepted: Whether another request with the same settings had an answer.
        """
        stated_error = _error_of_body(text)
        description = f"status {status}"
        if stated_error.message.strip():
            description = f"{description}: {clip(stated_error.message)}"
        location = headers.get("location", "nowhere")
        lasting_fault = self._lasting_fault(status, location, stated_error, settings_were_accepted)
        if lasting_fault is not None:
            return _Fault(f"{lasting_fault.reason} ({description})", error=lasting_fault.error)

        is_temporary = status in _TEMPORARY_STATUSES or status > _LAST_STANDARD_STATUS
        wait = retry_after(headers, time.time()) if is_temporary else None
        longest_wait = self._options.longest_wait
        if wait is not None and wait > longest_wait:
            return _Fault(
                f"the server asks to wait {wait:.0f} s, more than longest_wait ({longest_wait:g} s); run again later, "
                f"or raise it ({description})"
            )
        reason = f"the server failed or refused ({description})"
        return _Fault(reason, is_temporary=is_temporary, wait=wait, is_rate_limit=status == 429)

    def _lasting_fault(
        self, status: int, location: str, stated_error: _StatedError, settings_were_accepted: bool
    ) -> _Fault | None:
        """Return why a request would fail again; None if it may succeed.

        Args:
            status: The status of the response.
            location: Where it redirects to.
            stated_error: The error that its body describes.
            settings_were_accepted: Whether another request with the same settings had an answer.
        """
        code = stated_error.code
        text = stated_error.message
        if 300 <= status < 400:
            new_address = clip(redact(location).partition("?")[0])
            reason = f"the server redirects to {new_address}; give the address that it really has"
            return _Fault(reason, error=UnusableEndpointError)
        if status in (400, 403) and _WITHHELD.search(f"{code} {text}"):
            return _Fault("the server withheld the reply, by a content filter", error=WithheldReplyError)
        if status in (400, 413, 422, 500) and says_too_long(f"{code.replace('_', ' ')} {text}"):
            reason = "the prompt is longer than the model's context length; shorten it or use fewer demonstrations"
            return _Fault(reason, error=PromptTooLongError)
        if _is_quota_used_up(status, stated_error):
            return _Fault("the quota is used up", error=UnusableEndpointError)
        if status in (401, 403):
            advice = "check it" if self._has_key else "there is none"
            reason = f"the server wants a valid key from {KEY_VARIABLE}; {advice}"
            return _Fault(reason, error=UnusableEndpointError)
        if status == 404:
            reason = f"the server has no such address, or no model {self._options.model!r}; {self._other_address()}"
            return _Fault(reason, error=UnusableEndpointError)
        if status in (400, 422) and _refuses_setting(stated_error, settings_were_accepted):
            advice = (
                "change it or leave it out (temperature=none); max_completion_tokens=N replaces max_tokens, and "
                "top_n=N is the number of next tokens"
            )
            return _Fault(f"the server refuses a setting; {advice}", error=UnusableEndpointError)
        return None

    def _other_address(self) -> str:
        """Return what to try where the server has no such address."""
        if not self._options.base_url.rstrip("/").endswith(_END_OF_ADDRESSES):
            return f"most servers have their addresses under {_END_OF_ADDRESSES}: {self._options.base_url}/v1"
        return for_a_chat_server()

    def _accepted(self, body: dict[str, Any]) -> dict[str, Any]:
        """Return the body of a response after its tokens were counted, and the model that served it was checked.

        Raises:
            EndpointError: Another model than the requested one served it.
            EditionError: Another edition of the model served it than the pinned one (:func:`_edition_of`).
        """
        self.counts.update(token_counts(body))
        served_model = body.get("model")
        if served_model not in (None, "") and not self._is_requested_model(str(served_model)):
            requested_model = self._options.served_model or self._options.model
            raise UnusableEndpointError(
                f"{self._options.base_url}: the model {requested_model!r} was asked, but {clip(served_model)} "
                "answered; ask for it, or set served_model=..."
            )
        self._note_edition(_edition_of(body))
        return body

    def _note_edition(self, edition: Edition) -> None:
        """Add the edition of the model that served a response to those seen so far.

        A response may name the model only, or its system fingerprint only. Two editions are different if both name one
        of these, and name it differently.

        Raises:
            EditionError: It is another one than the first edition, and the options allow no change.
        """
        for index, known_edition in enumerate(self.editions):
            is_different = any(known_edition.get(name, value) != value for name, value in edition.items())
            if not is_different:
                self.editions[index] = known_edition | edition  # with what either of them names
                return
        if self.editions and not self._options.allow_edition_change:
            change = f"{edition_text(self.editions[0])} to {edition_text(edition)}"
            raise EditionError(
                f"{self._options.base_url}: the served edition of {self._options.model!r} changed from {change}. Use a "
                "new store, or allow_edition_change=True"
            )
        self.editions.append(edition)

    def _is_requested_model(self, served_model: str) -> bool:
        """Return whether a response's model is the requested one, or the same with a date, as in ``NAME-2025-01-31``.

        Args:
            served_model: The name of the model in the response.
        """
        if self._options.served_model:
            return served_model == self._options.served_model
        optional_date = r"(-+(\d-*){4}((\d-*){4})?)?"  # four or eight digits: month and day, or with the year
        name_with_date = re.escape(self._options.model) + optional_date
        return re.fullmatch(name_with_date, served_model) is not None


def _edition_of(body: Mapping[str, Any]) -> Edition:
    """Return the edition that a response names."""
    edition: Edition = {}
    for name in ("model", "system_fingerprint"):
        value = body.get(name)
        if value not in (None, ""):
            edition[name] = redact(str(value))
    return edition


def _read_response(response: Any, deadline: float) -> bytes:
    """Return the body of a response of the HTTP client; of an error its beginning.

    Args:
        response: The response, which is still open.
        deadline: The time (of ``time.monotonic``) until which it must be there.

    Returns:
        The body. One that is too large is cut, and still too large.

    Raises:
        TimeoutError: It is not there in time.
    """
    largest = _LARGEST_BODY if response.is_success else _LARGEST_ERROR_BODY
    data = bytearray()
    for chunk in response.iter_bytes():
        data += chunk
        is_late = time.monotonic() > deadline
        if is_late and response.is_success:
            raise TimeoutError
        # Of an error, what has come so far is enough.
        if is_late or len(data) > largest:
            break
    return bytes(data)


def _not_json(content_type: str, size: int, beginning: str) -> _Fault:
    """Return the fault of a body that is not JSON.

    Args:
        content_type: The type that the server states; empty if it states none.
        size: Number of bytes.
        beginning: The beginning of the body.
    """
    description = f"{content_type or 'of unknown type'}, {size} bytes"
    advice = ""
    if "html" in content_type:
        advice = " (is the address right? It mostly ends in /v1)"
    return _Fault(f"the answer is not JSON, but {description}: {clip(beginning)}{advice}", is_temporary=True)


def _fault_of_body(body: object, payload: Mapping[str, Any]) -> _Fault | None:
    """Return why the body of a response cannot be used; None if it can.

    Args:
        body: The body, as read from JSON.
        payload: The request.
    """
    if not isinstance(body, dict):
        return _Fault(f"the answer is JSON, but no object: {clip(body)}", is_temporary=True)
    if body.get("error"):
        reason = f"the server answered with the error {clip(body['error'])}"
        if says_too_long(reason):
            return _Fault(reason, error=PromptTooLongError, is_temporary=True)
        return _Fault(reason, is_temporary=True)
    choices = body.get("choices")
    if not isinstance(choices, list) or len(choices) != 1 or not isinstance(choices[0], Mapping):
        return None  # an error where the choice is read (only_choice)
    choice = choices[0]
    if finish_reason_of(choice) is not None:
        return None
    finish_reason = choice.get("finish_reason")
    # Requests for scores ask for one token, and some servers state no reason for its end.
    asks_one_token = payload.get("max_tokens") == 1 or payload.get("max_completion_tokens") == 1
    if finish_reason is None and asks_one_token:
        return None
    expected = f"got the finish reason {clip(finish_reason)}, expected stop or length"
    return _Fault(f"the reply may be incomplete: {expected}", is_temporary=True)


class _StatedError(NamedTuple):
    """The error that the body of a response describes."""

    code: str
    """Its code, with its type."""
    message: str
    field: str = ""
    """The field of the request that it names as wrong; empty if it names none."""


_PROMPT_FIELDS = ("prompt", "messages")
"""The fields of a request that have the prompt."""


def _settings_of(payload: Mapping[str, Any]) -> str:
    """Return the fields of a request but for the prompt, as one text that is equal for equal settings."""
    settings = {name: value for name, value in payload.items() if name not in _PROMPT_FIELDS}
    return json.dumps(settings, sort_keys=True, default=str)


def _is_quota_used_up(status: int, stated_error: _StatedError) -> bool:
    """Return whether a response says that the quota of the account is used up.

    Args:
        status: Its status.
        stated_error: The error that its body describes.
    """
    if status == 402:
        return True
    if status in (400, 403):
        return _QUOTA.search(stated_error.message) is not None
    # Messages about rate limits speak of quotas, too, so only the code of a 429 says that the quota is used up.
    return status == 429 and _QUOTA.search(stated_error.code) is not None


def _refuses_setting(stated_error: _StatedError, settings_were_accepted: bool) -> bool:
    """Return whether a server refuses a request because of one of its settings, which every other request has, too.

    Args:
        stated_error: The error that the body of the response describes.
        settings_were_accepted: Whether another request with the same settings had an answer. Then the name of a setting
            in the error, which may quote the prompt, does not mean that all requests fail.
    """
    if _SETTING.search(f"{stated_error.code} {stated_error.message}"):
        return True
    wrong_field = stated_error.field
    may_be_right_for_other_prompts = _FIELDS_BY_PROMPT.match(wrong_field) is not None
    names_field = _FIELD_NAME.fullmatch(wrong_field) is not None and not may_be_right_for_other_prompts
    names_setting = names_field or _LOGPROBS.search(stated_error.message) is not None
    return names_setting and not settings_were_accepted


def _error_of_body(text: str) -> _StatedError:
    """Return the error that a body describes.

    Args:
        text: The body. It is the message itself, if it is no JSON object that states one.
    """
    try:
        body = json.loads(text)
    except (ValueError, RecursionError):
        return _StatedError("", text)
    if isinstance(body, list) and body:
        body = body[0]  # some servers send a list of one error
    error = body
    if isinstance(body, dict) and "error" in body:
        error = body["error"]
    if not isinstance(error, dict):
        return _StatedError("", text)
    code = f"{error.get('code') or ''} {error.get('type') or ''}"
    # FastAPI: one record for each wrong field, such as {"loc": ["body", "logprobs"], "msg": "..."}.
    match error.get("detail"):
        case [{"loc": ["body", str(wrong_field), *_], "msg": str(reason)}, *_]:
            return _StatedError(code, f"{wrong_field}: {reason}", wrong_field)
    message = error.get("message") or error.get("detail") or text
    parameter = error.get("param")
    return _StatedError(code, str(message), parameter if isinstance(parameter, str) else "")

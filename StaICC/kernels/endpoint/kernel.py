"""A served model as an inference function: vLLM, llama.cpp, TGI, hosted services, every OpenAI-compatible server.

:class:`EndpointKernel` sends requests and computes label scores from the responses, in one of three ways:

``scoring="prompt-logprobs"``
    The log-probability of all tokens of each label after the prompt, from the completions interface with ``echo``:
    one request for each label. The local kernel calls this ``label_scoring="full"``. vLLM and SGLang support it; most
    hosted services do not. Before the first query the kernel requests one token twice, generated and echoed, and
    refuses a server whose two log-probabilities differ (llama-cpp-python shifts its echo by one token if a model has
    no start token).
``scoring="top-logprobs"``
    The probability that the next token begins the label, from the list of the ``top_n`` most probable next tokens:
    one request. A label that is not listed is a :class:`NoMatch`, unless ``unlisted="bound"``.
``scoring="text"``
    The reply: one request, no probabilities. A run finds its label (:mod:`StaICC.inference.reply_parser`). With
    ``guided`` the server lets the model write nothing but a label.

A query without a prediction is an exception. A call of the kernel raises it; ``batch`` returns it in the query's
place, so that the other predictions are kept. After an error that every query would meet (key, model, quota, a refused
setting) nothing more is requested, and the run ends. The key is read from OPENAI_API_KEY and sent in the request only
(:mod:`StaICC.kernels.endpoint.redaction`).

A server may move a model's name to another edition. :meth:`EndpointKernel.pin_edition` requests the current one. Every
response is compared with the first one; a change is an :class:`~StaICC.errors.EditionError`, which ends a run.

Needs the package ``openai`` (extra ``endpoint``), imported with the first query.
"""

from __future__ import annotations

import asyncio
import functools
import json
import math
import os
import threading
from collections.abc import Callable, Coroutine, Iterable, Iterator, Mapping, Sequence
from dataclasses import KW_ONLY, dataclass, fields
from typing import Any, ClassVar, Literal, NamedTuple, TypeVar, get_args
from urllib.parse import urlsplit

from StaICC.errors import ArgumentError, OutputError, RunEndingError, unknown_name, validate_integer
from StaICC.inference.identity import Identity
from StaICC.kernels.endpoint.echo import EchoTrust, echo
from StaICC.kernels.endpoint.redaction import KEY_VARIABLE, Secret, occurs, redact
from StaICC.kernels.endpoint.scoring import (
    EndpointError,
    NoMatch,
    Unlisted,
    clip,
    joint_log_probabilities,
    next_token_scores,
    next_tokens,
    reply,
)
from StaICC.kernels.endpoint.transport import Api, Edition, EndpointUsage, Limits, Transport
from StaICC.kernels.label_scores import softmax
from StaICC.kernels.option_text import OptionFact, option_types, options_of, split_options
from StaICC.kernels.protocol import Capability
from StaICC.kernels.reply_settings import ReplyKernel, ReplySettings

__all__ = ["EndpointError", "EndpointKernel", "EndpointUsage", "NoMatch"]

Scoring = Literal["prompt-logprobs", "top-logprobs", "text"]
Guided = Literal["", "choice", "json"]
Answer = list[float] | str
Value = TypeVar("Value")

_TIES = 8  # from this many queries on, exact ties in all of them are no accident
_CREATION = threading.Lock()

_VERSION = 3  # part of the identity; raise it with any change that can move a score

WHO = frozenset({"base_url", "model", "served_model"})
"""The options that identify the model."""

NO_NUMBERS = frozenset({"allow_edition_change", "backoff", "concurrency", "longest_wait", "retries", "timeout"})
"""The options that change no number. All others are settings of the identity."""

_FORMATS = {"plain": "completions", "chat": "chat"}
REPLY_SETTINGS = tuple(one.name for one in fields(ReplySettings))

_APPLIES: dict[str, tuple[str, str]] = {
    "guided": ("scoring", "text"),
    "max_tokens": ("scoring", "text"),
    "top_n": ("scoring", "top-logprobs"),
    "unlisted": ("scoring", "top-logprobs"),
}
"""Options that change numbers only where another option has this value."""


class _Session(NamedTuple):
    """The connections of one process and the result of its echo check."""

    transport: Transport
    trust: EchoTrust


def _checked_labels(label_space: Sequence[str]) -> list[str]:
    if isinstance(label_space, str) or not label_space or not all(isinstance(label, str) for label in label_space):
        raise ArgumentError(f"label_space must be a list of texts, and not empty; got {label_space!r}")
    if not all(label.strip() for label in label_space):
        raise ArgumentError(f"no label may be empty; got {list(label_space)!r}")
    return list(label_space)


def _check_prompts(prompts: Sequence[str]) -> None:
    if isinstance(prompts, str):
        raise ArgumentError("prompts must be a list of texts, not one text")
    for place, prompt in enumerate(prompts):
        if not isinstance(prompt, str):
            raise ArgumentError(
                f"prompt {place} is a {type(prompt).__name__}, not a text; noisy-channel prompts (one text for each "
                "label) need a local kernel, such as hf:NAME"
            )


def _check_no_key(texts: Mapping[str, str | None]) -> None:
    """Refuse options that hold the key: they are shown in results."""
    secret = Secret(os.environ.get(KEY_VARIABLE, "").strip())
    for name, text in texts.items():
        if isinstance(text, str) and secret.occurs(text):
            raise ArgumentError(f"{name} holds the key from {KEY_VARIABLE}, and would get into results; leave it out")


def _redacted(error: Exception) -> OutputError:
    """The error without the key, and without what it was raised in."""
    if not isinstance(error, OutputError):  # a response that no check expected
        error = EndpointError(f"the response could not be read ({type(error).__name__}: {clip(error)})")
    shown = redact(str(error))
    if shown != str(error):
        error = type(error)(shown)
    error.__cause__ = error.__context__ = None
    return error.with_traceback(None)


def _checked_url(given: object) -> str:
    """Normalise an address, and refuse parts that an identity or an error must not show."""
    if not isinstance(given, str):
        raise ArgumentError(f"base_url must be a text such as 'http://localhost:8000/v1', not {type(given).__name__}")
    try:
        parts = urlsplit(given.strip())
        port = parts.port
    except ValueError:
        raise ArgumentError("base_url is no address; expected one such as 'http://localhost:8000/v1'") from None
    if parts.username is not None or parts.password is not None or parts.query or parts.fragment:
        raise ArgumentError(
            "base_url must hold no user name, password, query or fragment, which would get into results; a key belongs "
            "into the environment variable OPENAI_API_KEY"
        )
    if parts.scheme not in ("http", "https") or not parts.hostname:
        raise ArgumentError("base_url must begin with http:// or https:// and name a host")
    host = f"[{parts.hostname}]" if ":" in parts.hostname else parts.hostname
    if port is not None and port != {"http": 80, "https": 443}[parts.scheme]:
        host += f":{port}"
    return f"{parts.scheme}://{host}{parts.path.rstrip('/')}"


@dataclass(frozen=True)
class EndpointKernel(ReplyKernel, ReplySettings):
    """A model behind an OpenAI-compatible server. Use it as ``f(prompt, label_space)``, or give it to a benchmark.

    The settings are frozen. A kernel can be pickled to workers; each process opens its own connections.

    Raises:
        ArgumentError: A setting has no meaning, or two exclude each other.

    Example:
        >>> kernel = EndpointKernel("http://localhost:8000/v1/", "my-model", scoring="text")
        >>> kernel.identity().who
        {'kernel': 'endpoint 3', 'server': 'http://localhost:8000/v1', 'model': 'my-model'}
    """

    _live: ClassVar[dict[str, Any]]
    """Connections, counts and editions of this process and object; not an option, so not a field."""

    base_url: str
    """The server's address, up to and with ``/v1``; without user name, password and query."""

    model: str
    """The name of the model on the server."""

    _: KW_ONLY

    scoring: Scoring = "prompt-logprobs"
    """How labels are scored (see the module)."""

    api: Api = "completions"
    """``"completions"`` continues the unchanged prompt; ``"chat"`` sends it as a user's message, to which the server
    applies the model's chat template (for ``"top-logprobs"`` and ``"text"``)."""

    top_n: int = 20
    """Number of requested next tokens (``"top-logprobs"``); most servers allow 5 to 20."""

    unlisted: Unlisted = "refuse"
    """How to treat a label that is not listed: ``"refuse"`` leaves the query without a prediction; ``"bound"`` uses an
    upper bound (the smallest listed probability, or the unlisted probability mass if that is smaller). With the bound
    the predicted label is correct, but the probabilities of unlisted labels are too high."""

    guided: Guided = ""
    """Allow no reply but a label (``"text"``): ``"choice"`` by ``structured_outputs`` (vLLM), ``"json"`` by
    ``response_format`` with a JSON schema (``api="chat"``; most servers)."""

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
    """Whether responses may come from several editions of the model (see :meth:`pin_edition`)."""

    def __post_init__(self) -> None:
        object.__setattr__(self, "base_url", _checked_url(self.base_url))
        self._open(())
        super().__post_init__()
        for name, legal in (("scoring", Scoring), ("api", Api), ("unlisted", Unlisted), ("guided", Guided)):
            if getattr(self, name) not in get_args(legal):
                raise unknown_name(f"value of {name}", getattr(self, name), get_args(legal))
        if not isinstance(self.model, str) or not self.model:
            raise ArgumentError(f"model must be the name of a model as the server calls it, not {self.model!r}")
        for name, least in (("top_n", 2), ("concurrency", 1), ("retries", 0)):
            validate_integer(name, getattr(self, name), least)
        for name in ("timeout", "backoff", "longest_wait"):
            value = getattr(self, name)
            if isinstance(value, bool) or not isinstance(value, (int, float)) or not 0 < value < math.inf:
                raise ArgumentError(f"{name} must be a number of seconds above 0, not {value!r}")
        if not isinstance(self.allow_edition_change, bool):
            raise ArgumentError(f"allow_edition_change must be True or False, not {self.allow_edition_change!r}")
        _check_no_key({name: getattr(self, name) for name in ("base_url", "model", "served_model", "system")})
        if self.api == "chat" and self.scoring == "prompt-logprobs":
            raise ArgumentError(
                "the chat interface does not echo prompts, so scoring='prompt-logprobs' needs api='completions'; "
                "with api='chat' use scoring='top-logprobs' or 'text'"
            )
        for name, given in (("system", self.system), ("guided", self.guided == "json")):
            if given and self.api != "chat":
                raise ArgumentError(f"{name}: got {getattr(self, name)!r} with api='completions', expected api='chat'")

    @classmethod
    def declared_options(cls) -> list[OptionFact]:
        """Return the settings that may follow the name of the model."""
        return options_of(cls, "base_url", "model")

    @classmethod
    def from_spec(cls, spec: str, **options: Any) -> EndpointKernel:
        """Make a kernel from a text, such as the command line's ``--model``.

        Args:
            spec: ``openai:BASE_URL#MODEL``, with settings behind it if need be: ``;scoring=text;api=chat``.
            **options: Further settings.

        Raises:
            ArgumentError: The text is not of this form, or a setting has no meaning.
            UnknownNameError: There is no such setting.

        Example:
            >>> EndpointKernel.from_spec("openai:http://localhost:8000/v1#org/model:7b;scoring=text").model
            'org/model:7b'
        """
        address, mark, rest = spec.removeprefix("openai:").partition("#")
        types = {**option_types(cls, "base_url", "model"), "prompt_format": "str"}
        model, given = split_options(rest, types, None, "a served model", options)
        if (written := given.pop("prompt_format", None)) is not None:  # the other kernels' word for it
            if "api" in given or written not in _FORMATS:
                raise ArgumentError(f"got prompt_format={written!r}, expected plain or chat, and no api")
            given["api"] = _FORMATS[written]
        if not mark or not model or not address:
            raise ArgumentError(
                "a served model is given as openai:BASE_URL#MODEL, such as openai:http://localhost:8000/v1#my-model; "
                f"{'the model' if address else 'the address'} is missing"
            )
        return cls(address, model, **given)

    @property
    def capabilities(self) -> frozenset[Capability]:
        """The capabilities of this kernel; with ``scoring="text"`` it predicts labels without scores."""
        others = frozenset({Capability.TEXT, Capability.BATCH})
        return others if self.scoring == "text" else others | {Capability.LABEL_SCORES}

    def identity(self) -> Identity:
        """Who predicts and how, without asking the server; the served edition is in :attr:`editions`."""
        given = {one.name: getattr(self, one.name) for one in fields(self)}
        who = {"kernel": f"endpoint {_VERSION}", "server": self.base_url, "model": self.model}
        if self.served_model is not None:
            who["served_model"] = self.served_model
        texts = {name: str(value) for name, value in given.items()} | dict.fromkeys(REPLY_SETTINGS, "")
        texts |= self.reply_settings()
        settings = {}
        for name in given.keys() - WHO - NO_NUMBERS:
            other, value = _APPLIES.get(name, (name, given[name]))
            if given[other] == value and texts[name]:
                settings[name] = texts[name]
        return Identity(who, settings)

    @property
    def recheck_tolerance(self) -> None:
        """No tolerance: a server may not respond alike twice, so that a prediction that differs is only a warning."""
        return None

    def pin_edition(self) -> str | None:
        """Ask the server which edition it serves now, with a request for one token, and hold all responses to it.

        A run calls this before it computes predictions; a copy that is sent to workers afterwards holds the responses
        there to the same edition.

        Returns:
            The model and the system fingerprint that the server names; ``None`` if it names neither.

        Raises:
            EndpointError: The server failed.
        """
        self._editions.clear()

        async def probe(session: _Session, prompt: str) -> str:
            await session.transport.ask(self.api, self._request(prompt, self.reply_request(1, ())))
            return ""

        (outcome,) = self._all(["a"], probe)
        if isinstance(outcome, OutputError):
            raise outcome
        return next(iter(self.editions), None)

    @property
    def editions(self) -> tuple[str, ...]:
        """The editions seen in this process since the last :meth:`pin_edition`, in order of appearance."""
        return tuple(text for text in map(str, self._editions) if text)

    @property
    def _editions(self) -> list[Edition]:
        found: list[Edition] = self._live["editions"]
        return found

    @property
    def usage(self) -> EndpointUsage:
        """Requests and tokens of this kernel so far, in this process."""
        return EndpointUsage(**self._live["counts"])

    @property
    def tokens_used(self) -> tuple[int, int]:
        """Tokens of prompts and of completions so far, in this process, as the server counted them."""
        return self.usage.prompt_tokens, self.usage.completion_tokens

    @property
    def retried(self) -> int:
        """Number of retries so far, in this process."""
        return self.usage.retries

    def __call__(self, prompt: str, label_space: Sequence[str]) -> Answer:
        """Answer one query.

        Args:
            prompt: The prompt.
            label_space: The labels.

        Returns:
            A probability for each label, or with ``scoring="text"`` the reply.

        Raises:
            ArgumentError: The prompt is not a text (noisy-channel prompts need a local kernel), or a label is empty.
            NoMatch: The listed tokens do not tell which label the model predicts.
            WithheldReplyError: The server withheld the reply.
            EndpointError: The server failed, or its answer cannot be used.
            MissingDependencyError: The package ``openai`` is not installed.
        """
        (outcome,) = self.batch([prompt], label_space)
        if isinstance(outcome, OutputError):
            raise outcome
        return outcome

    def batch(self, prompts: Sequence[str], label_space: Sequence[str]) -> list[Answer | OutputError]:
        """Answer many queries, up to ``concurrency`` requests at once.

        Args:
            prompts: The prompts.
            label_space: The labels of all of them.

        Returns:
            For each prompt, in order, what a call returns or the error that a call raises. After an error that every
            query would meet (wrong key, wrong model, ...) the queries not yet begun get that error without being
            asked.

        Raises:
            ArgumentError: As for a call.
            MissingDependencyError: The package ``openai`` is not installed.
        """
        labels = _checked_labels(label_space)
        _check_prompts(prompts)

        if self.scoring == "text":
            return list(self._replies(prompts, None, self.stop, self._guide(labels)))

        async def answer(session: _Session, prompt: str) -> list[float]:
            return await self._scores(session, prompt, labels)

        outcomes = self._all(prompts, answer)
        if len(labels) > 1 and len(outcomes) >= _TIES:
            scored = [outcome for outcome in outcomes if isinstance(outcome, list)]
            if len(scored) >= _TIES and all(len(set(row)) == 1 for row in scored):
                reason = f"the server returned exactly the same score for all labels in each of {len(scored)} queries"
                return [EndpointError(reason) if isinstance(outcome, list) else outcome for outcome in outcomes]
        return list(outcomes)

    def replies(
        self,
        prompts: Sequence[str],
        max_new_tokens: int | None = None,
        stop: Sequence[str] | None = None,
        sampling: Mapping[str, Any] | None = None,
    ) -> list[str | OutputError]:
        """Return the reply to each prompt (the continuation, with ``api="completions"``), or the error in its place."""
        _check_prompts(prompts)
        return self._replies(prompts, max_new_tokens, self.stop or () if stop is None else stop, dict(sampling or {}))

    def _replies(
        self, prompts: Sequence[str], most: int | None, stop: Sequence[str] | None, more: dict[str, Any]
    ) -> list[str | OutputError]:
        if stop is None:  # a label is one line, and a completion goes on
            stop = ["\n"] if self.api == "completions" else []
        settings = {**self.reply_request(most, stop), **more}

        async def work(session: _Session, prompt: str) -> str:
            text = reply(await session.transport.ask(self.api, self._request(prompt, settings)))
            if occurs(text):
                raise EndpointError(f"the reply holds the key from {KEY_VARIABLE}, so it is not used: {clip(text)}")
            return text

        return self._all(prompts, work)

    def _guide(self, labels: Sequence[str]) -> dict[str, Any]:
        """The fields of a request that allow no reply but a label."""
        if self.guided == "choice":
            return {"extra_body": {"structured_outputs": {"choice": list(labels)}}}
        if not self.guided:
            return {}
        schema = {
            "type": "object",
            "properties": {"label": {"type": "string", "enum": list(labels)}},
            "required": ["label"],
            "additionalProperties": False,
        }
        form = {"name": "label", "strict": True, "schema": schema}
        return {"response_format": {"type": "json_schema", "json_schema": form}}

    def rendered(self, prompts: Sequence[str]) -> list[str]:
        """Return prompts as they are sent: verbatim, or as the messages of a conversation (JSON)."""
        sent = [self._request(prompt, {}) for prompt in prompts]
        return [one["prompt"] if "prompt" in one else json.dumps(one["messages"], ensure_ascii=False) for one in sent]

    def close(self) -> None:
        """Close the connections of this process; the next query opens them again."""
        session: _Session | None = self._live.pop("session", None)
        if session is not None:
            session.transport.close()

    def __getstate__(self) -> dict[str, Any]:
        editions = [tuple(edition) for edition in self._editions]
        return {**{one.name: getattr(self, one.name) for one in fields(self)}, "editions": editions}

    def __setstate__(self, state: Mapping[str, Any]) -> None:
        self.__dict__.update({name: value for name, value in state.items() if name != "editions"})
        self._open(Edition(*pair) for pair in state.get("editions", ()))

    def _open(self, editions: Iterable[Edition]) -> None:
        """Start without connections and with all counts 0."""
        counts = {one.name: 0 for one in fields(EndpointUsage)}
        self.__dict__["_live"] = {"editions": list(editions), "counts": counts}

    def _session(self) -> _Session:
        """The connections of this process."""
        live = self._live
        with _CREATION:
            session: _Session | None = live.get("session")
            if session is None or session.transport.process != os.getpid():  # a forked child has no event loop yet
                limits = Limits(self.concurrency, self.timeout, self.retries, self.backoff, self.longest_wait)
                names = (self.base_url, self.model, self.served_model)
                transport = Transport(*names, limits, self.allow_edition_change, live["editions"], live["counts"])
                live["session"] = session = _Session(transport, EchoTrust())
            return session

    def _all(
        self, prompts: Sequence[str], work: Callable[[_Session, str], Coroutine[Any, Any, Value]]
    ) -> list[Value | OutputError]:
        """Run ``work`` for each prompt, ``concurrency`` at a time; a failure takes the place of its result."""
        if not prompts:
            return []
        session = self._session()
        outcomes: dict[int, Value | OutputError] = {}
        stop: list[OutputError] = []

        async def worker(places: Iterator[int]) -> None:
            for place in places:
                try:
                    outcomes[place] = stop[0] if stop else await work(session, prompts[place])
                except Exception as error:
                    outcomes[place] = shown = _redacted(error)
                    if isinstance(shown, RunEndingError):
                        stop.append(shown)

        async def whole() -> None:
            places = iter(range(len(prompts)))
            workers = [asyncio.create_task(worker(places)) for _ in range(min(self.concurrency, len(prompts)))]
            try:
                await asyncio.gather(*workers)
            finally:
                for one in workers:
                    one.cancel()

        session.transport.run(whole())
        return [outcomes[place] for place in range(len(prompts))]

    def _request(self, prompt: str, settings: Mapping[str, Any]) -> dict[str, Any]:
        content = {"prompt": prompt} if self.api == "completions" else {"messages": self.messages(prompt)}
        return {**content, **settings}

    async def _scores(self, session: _Session, prompt: str, labels: Sequence[str]) -> list[float]:
        ask = session.transport.ask
        if self.scoring == "top-logprobs":
            listed = {"logprobs": True, "top_logprobs": self.top_n} if self.api == "chat" else {"logprobs": self.top_n}
            body = await ask(self.api, self._request(prompt, self.reply_request(1, ()) | listed))
            return softmax(next_token_scores(next_tokens(body, self.top_n), labels, self.unlisted))
        complete = functools.partial(ask, "completions")
        await session.trust.check(complete, prompt)
        found = await asyncio.gather(*(echo(complete, prompt + label) for label in labels), return_exceptions=True)
        echoes = [one for one in found if not isinstance(one, BaseException)]
        errors = [one for one in found if isinstance(one, BaseException)]
        if errors:
            raise next((error for error in errors if isinstance(error, RunEndingError)), errors[0])
        return softmax(joint_log_probabilities(echoes, prompt, labels))

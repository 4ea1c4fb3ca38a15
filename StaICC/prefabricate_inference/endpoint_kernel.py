"""A served model as an inference function: vLLM, llama.cpp, TGI, hosted services, all that speak OpenAI's protocol.

:class:`EndpointKernel` asks a server and turns its answers into label scores, in one of three ways that say honestly
what they know:

``scoring="prompt-logprobs"``
    The log-probability of each whole label after the prompt, from the completions interface with ``echo``: one
    request for each label. What the local kernel calls ``label_scoring="full"``. vLLM and SGLang can do it; most
    hosted services do not. Before the first query the kernel asks for one token twice, generated and echoed, and
    refuses a server whose two log-probabilities differ (llama-cpp-python shifts its echo by one token where a model
    has no start token).
``scoring="top-logprobs"``
    The probability that the next token begins the label, from the list of the ``top_n`` most probable next tokens:
    one request. A label that is not listed is a :class:`NoMatch`, unless ``unlisted="bound"``.
``scoring="text"``
    The label with which the reply begins: one request, no probabilities. A reply that begins with no label is a
    :class:`NoMatch`.

A query that has no answer is an exception, never a made-up row: calling the kernel raises it, ``batch`` returns it in
the query's place, so that the other answers are kept. The key comes from OPENAI_API_KEY and goes nowhere but into the
request.

Needs the package ``openai`` (extra ``endpoint``), imported when the first query is asked.
"""

from __future__ import annotations

import asyncio
import functools
import hashlib
import math
import os
import threading
from collections.abc import Callable, Coroutine, Iterator, Mapping, Sequence
from dataclasses import KW_ONLY, dataclass, fields
from typing import Any, Literal, NamedTuple, TypeVar, get_args
from urllib.parse import urlsplit

from StaICC.errors import ArgumentError, OutputError, unknown_name
from StaICC.prefabricate_inference.endpoint_echo import EchoTrust, echo
from StaICC.prefabricate_inference.endpoint_scoring import (
    EndpointError,
    NoMatch,
    Unlisted,
    joint_log_probabilities,
    match_label,
    next_token_scores,
    next_tokens,
    probabilities,
    reply,
)
from StaICC.prefabricate_inference.endpoint_transport import Api, EndpointUsage, Limits, Transport

__all__ = ["EndpointError", "EndpointKernel", "EndpointUsage", "NoMatch"]

Scoring = Literal["prompt-logprobs", "top-logprobs", "text"]
Answer = list[float] | int
Value = TypeVar("Value")

_TIES = 8  # from this many queries on, exact ties in all of them are no accident
_CREATION = threading.Lock()

_SETTINGS: dict[str, Callable[[str], Any]] = {
    "api": str,
    "backoff": float,
    "concurrency": int,
    "instruction": str,
    "longest_wait": float,
    "max_tokens": int,
    "retries": int,
    "scoring": str,
    "served_model": str,
    "timeout": float,
    "top_n": int,
    "unlisted": str,
}
"""Settings that a text may give, and how to read them."""


class _Session(NamedTuple):
    """What one process holds open for a kernel."""

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


def _constant(queries: int) -> EndpointError:
    return EndpointError(
        f"the server gave all labels exactly the same score in each of {queries} queries; it does not score them"
    )


def _checked_url(given: object) -> str:
    """Bring an address into one form, and refuse what a fingerprint or an error must not show."""
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
class EndpointKernel:
    """A model behind an OpenAI-compatible server. Use it as ``f(prompt, label_space)``, or give it to a benchmark.

    The settings are frozen. A kernel can be pickled to workers; each process opens its own connections.

    Raises:
        ArgumentError: A setting has no meaning, or two exclude each other.

    Example:
        >>> kernel = EndpointKernel("http://localhost:8000/v1/", "my-model", scoring="text")
        >>> kernel.fingerprint
        'endpoint|http://localhost:8000/v1|my-model|completions|text|max_tokens:16'
    """

    base_url: str
    """The server's address, up to and with ``/v1``; without user name, password and query."""

    model: str
    """The model to ask for, as the server calls it."""

    _: KW_ONLY

    scoring: Scoring = "prompt-logprobs"
    """How labels are scored (see the module)."""

    api: Api = "completions"
    """``"completions"`` continues the prompt as it stands; ``"chat"`` sends it as a user's message, which the server
    wraps into the model's chat template (for ``"top-logprobs"`` and ``"text"``)."""

    instruction: str = ""
    """A system message to send before the prompt (``api="chat"``)."""

    top_n: int = 20
    """How many next tokens to ask for (``"top-logprobs"``); servers allow 5 to 20 mostly."""

    unlisted: Unlisted = "refuse"
    """What becomes of a label that is not among them: ``"refuse"`` leaves the query without an answer, ``"bound"``
    gives it the most that it can have (the least listed probability, or what the list leaves over if that is less).
    With the bound the predicted label is right, but the unlisted labels' probabilities are too high."""

    max_tokens: int = 16
    """Most tokens of a reply (``"text"``)."""

    served_model: str | None = None
    """The name under which the server answers, where it is not ``model``."""

    concurrency: int = 8
    """Most requests in flight, over all threads of a process."""

    timeout: float = 60.0
    """Seconds for one request and its whole answer."""

    retries: int = 6
    """How often a request is sent again after a fault that may pass."""

    backoff: float = 0.5
    """Seconds before the first retry; doubled for each further one, up to 30 (less up to a half, by jitter)."""

    longest_wait: float = 120.0
    """Most seconds that a server's Retry-After is obeyed for; a query for which it asks more has no answer."""

    def __post_init__(self) -> None:
        object.__setattr__(self, "base_url", _checked_url(self.base_url))
        self.__dict__["_live"] = {}  # what this process holds open; no setting, so no field
        for name, legal in (("scoring", Scoring), ("api", Api), ("unlisted", Unlisted)):
            if getattr(self, name) not in get_args(legal):
                raise unknown_name(f"value of {name}", getattr(self, name), get_args(legal))
        if not isinstance(self.model, str) or not self.model:
            raise ArgumentError(f"model must be the name of a model as the server calls it, not {self.model!r}")
        for name, least in (("top_n", 2), ("max_tokens", 1), ("concurrency", 1), ("retries", 0)):
            value = getattr(self, name)
            if isinstance(value, bool) or not isinstance(value, int) or value < least:
                raise ArgumentError(f"{name} must be a whole number of at least {least}, not {value!r}")
        for name in ("timeout", "backoff", "longest_wait"):
            value = getattr(self, name)
            if isinstance(value, bool) or not isinstance(value, (int, float)) or not 0 < value < math.inf:
                raise ArgumentError(f"{name} must be a number of seconds above 0, not {value!r}")
        if self.api == "chat" and self.scoring == "prompt-logprobs":
            raise ArgumentError(
                "the chat interface does not echo prompts, so scoring='prompt-logprobs' needs api='completions'; "
                "with api='chat' use scoring='top-logprobs' or 'text'"
            )
        if self.instruction and self.api != "chat":
            raise ArgumentError("an instruction is a system message, which needs api='chat'")

    @classmethod
    def from_spec(cls, spec: str, **options: Any) -> EndpointKernel:
        """Make a kernel from a text, such as the command line's ``--model``.

        Args:
            spec: ``openai:BASE_URL#MODEL``, with settings behind it if need be: ``;scoring=text;api=chat``.
            **options: Settings; they come before those of the text.

        Raises:
            ArgumentError: The text is not of this form, or a setting has no meaning.
            UnknownNameError: There is no such setting.

        Example:
            >>> EndpointKernel.from_spec("openai:http://localhost:8000/v1#org/model:7b;scoring=text").model
            'org/model:7b'
        """
        address, mark, rest = spec.removeprefix("openai:").partition("#")
        model, *settings = rest.split(";")
        if not mark or not model or not address:
            raise ArgumentError(
                "a served model is given as openai:BASE_URL#MODEL, such as openai:http://localhost:8000/v1#my-model; "
                f"{'the model' if address else 'the address'} is missing"
            )
        given: dict[str, Any] = {}
        for setting in settings:
            name, _, value = setting.partition("=")
            if name not in _SETTINGS:
                raise unknown_name("setting of a served model", name, _SETTINGS)
            try:
                given[name] = _SETTINGS[name](value)
            except ValueError:
                raise ArgumentError(f"the setting {name} must be a number, not {value!r}") from None
        return cls(address, model, **{**given, **options})

    @property
    def fingerprint(self) -> str:
        """What identifies the numbers of this kernel: address, model, interface and scoring; no key."""
        parts = ["endpoint", self.base_url, self.model, self.api, self.scoring]
        if self.scoring == "top-logprobs":
            parts += [f"top:{self.top_n}", self.unlisted]
        elif self.scoring == "text":
            parts.append(f"max_tokens:{self.max_tokens}")
        if self.instruction:
            parts.append(f"instruction:{hashlib.sha256(self.instruction.encode()).hexdigest()[:16]}")
        return "|".join(parts)

    @property
    def usage(self) -> EndpointUsage:
        """What was asked through this kernel so far, in this process."""
        session: _Session | None = self.__dict__["_live"].get("session")
        return session.transport.usage() if session is not None else EndpointUsage(0, 0, 0, 0, 0)

    def __call__(self, prompt: str, label_space: Sequence[str]) -> Answer:
        """Answer one query.

        Args:
            prompt: The prompt.
            label_space: The labels.

        Returns:
            A probability for each label, or with ``scoring="text"`` the index of a label.

        Raises:
            ArgumentError: The prompt is not a text (noisy-channel prompts need a local kernel), or a label is empty.
            NoMatch: The model's answer is none of the labels.
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

        async def answer(session: _Session, prompt: str) -> Answer:
            return await self._answer(session, prompt, labels)

        outcomes = self._all(prompts, answer)
        if self.scoring != "text" and len(labels) > 1 and len(outcomes) >= _TIES:
            scored = [outcome for outcome in outcomes if isinstance(outcome, list)]
            if len(scored) >= _TIES and all(len(set(row)) == 1 for row in scored):
                return [_constant(len(scored)) if isinstance(outcome, list) else outcome for outcome in outcomes]
        return outcomes

    def generate(self, prompts: Sequence[str], max_new_tokens: int = 32, stop: Sequence[str] = ()) -> list[str]:
        """Continue each prompt (or with ``api="chat"`` reply to it) with the most probable tokens.

        Args:
            prompts: The prompts.
            max_new_tokens: Most tokens of a continuation.
            stop: Texts before which a continuation ends.

        Returns:
            The continuations.

        Raises:
            ArgumentError: An argument has no meaning.
            NoMatch: The server withheld a reply.
            EndpointError: The server failed, or its answer cannot be used.
        """
        if isinstance(max_new_tokens, bool) or not isinstance(max_new_tokens, int) or max_new_tokens < 1:
            raise ArgumentError(f"max_new_tokens must be a positive integer, not {max_new_tokens!r}")
        if isinstance(stop, str) or not all(isinstance(text, str) and text for text in stop):
            raise ArgumentError(f"stop must be a list of non-empty texts, not {stop!r}")
        _check_prompts(prompts)
        more = {"stop": list(stop)} if stop else {}

        async def continuation(session: _Session, prompt: str) -> str:
            body = await session.transport.ask(self.api, self._request(prompt, max_new_tokens, more))
            return reply(body)[0]

        found = self._all(prompts, continuation)
        texts = [outcome for outcome in found if isinstance(outcome, str)]
        for outcome in found:
            if isinstance(outcome, OutputError):
                raise outcome
        return texts

    def close(self) -> None:
        """Close the connections of this process; the next query opens them again."""
        session: _Session | None = self.__dict__["_live"].pop("session", None)
        if session is not None:
            session.transport.close()

    def __getstate__(self) -> dict[str, Any]:
        return {one.name: getattr(self, one.name) for one in fields(self)}

    def __setstate__(self, state: Mapping[str, Any]) -> None:
        self.__dict__.update(state, _live={})

    def _session(self) -> _Session:
        """The connections of this process."""
        live = self.__dict__["_live"]
        with _CREATION:
            session: _Session | None = live.get("session")
            if session is None or session.transport.process != os.getpid():  # a forked child has no event loop yet
                limits = Limits(self.concurrency, self.timeout, self.retries, self.backoff, self.longest_wait)
                session = _Session(Transport(self.base_url, self.model, self.served_model, limits), EchoTrust())
                live["session"] = session
            return session

    def _all(
        self, prompts: Sequence[str], work: Callable[[_Session, str], Coroutine[Any, Any, Value]]
    ) -> list[Value | OutputError]:
        """Do the same for each prompt, some at a time; failures stand in their prompts' places."""
        if not prompts:
            return []
        session = self._session()
        outcomes: dict[int, Value | OutputError] = {}
        stop: list[OutputError] = []

        async def worker(places: Iterator[int]) -> None:
            for place in places:
                try:
                    outcomes[place] = stop[0] if stop else await work(session, prompts[place])
                except OutputError as error:
                    outcomes[place] = error.with_traceback(None)
                    if getattr(error, "fatal", False):
                        stop.append(error)

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

    def _request(self, prompt: str, max_tokens: int, more: Mapping[str, Any]) -> dict[str, Any]:
        request: dict[str, Any] = {"max_tokens": max_tokens, "temperature": 0, **more}
        if self.api == "completions":
            return {"prompt": prompt, **request}
        messages = [{"role": "user", "content": prompt}]
        if self.instruction:
            messages.insert(0, {"role": "system", "content": self.instruction})
        return {"messages": messages, **request}

    async def _answer(self, session: _Session, prompt: str, labels: Sequence[str]) -> Answer:
        ask = session.transport.ask
        if self.scoring == "text":
            stop = {"stop": ["\n"]} if self.api == "completions" else {}
            text, cut = reply(await ask(self.api, self._request(prompt, self.max_tokens, stop)))
            return match_label(text, labels, cut)
        if self.scoring == "top-logprobs":
            chat = {"logprobs": True, "top_logprobs": self.top_n}
            body = await ask(
                self.api, self._request(prompt, 1, chat if self.api == "chat" else {"logprobs": self.top_n})
            )
            return probabilities(next_token_scores(next_tokens(body, self.top_n), labels, self.unlisted))
        complete = functools.partial(ask, "completions")
        await session.trust.check(complete, prompt)
        found = await asyncio.gather(*(echo(complete, prompt + label) for label in labels), return_exceptions=True)
        echoes = []
        for one in found:
            if isinstance(one, BaseException):
                raise one
            echoes.append(one)
        return probabilities(joint_log_probabilities(echoes, prompt, labels))

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
(:mod:`StaICC.kernels.server.transport`).

A server may move a model's name to another edition. :meth:`EndpointKernel.pin_edition` requests the current one. Every
response is compared with the first one; a change is an :class:`~StaICC.errors.EditionError`, which ends a run.

Needs the package ``openai`` (extra ``endpoint``), imported with the first query.

A server may also cut long prompts silently. Echoes show that; otherwise, the tokens that the server counts do
(:mod:`StaICC.kernels.server.prompt_cuts`), and the query fails.

A server may return invalid content with status 200, so everything is checked: the tokens must spell the text that was
sent, every used number must be a log-probability, and missing values are errors, never defaults.

*Prompt log-probabilities* (``joint_log_probabilities``). The server echoes prompt + label with the
log-probability of each token. A label's score is the sum over its tokens. Where a token holds the end of the prompt
and the start of the label (a space, mostly), the sum starts at the last border of tokens that all labels have in
common, so that all are scored given the same text; this is what ``label_scoring="full"`` of the local kernel does.

*Top log-probabilities* (``next_token_scores``). The server lists the N most probable next tokens. A label's score
is the probability that the next token begins this label and no other: the sum over the listed tokens that
:func:`~StaICC.kernels.server.label_tokens.begun_labels` counts for it, in all spellings. Tokens that may begin several
labels, or be another word, count for none; where they weigh more than what tells the labels apart, the query has no
prediction. Tokens without visible text (blanks, line breaks) begin no label and are left out. Where they have much of
the probability, the run has a warning (:meth:`EndpointKernel.answer_warnings`). A label none of whose tokens is listed
is either a :class:`NoMatch` (the default), or gets an upper bound: it can have no more than the least probable listed
token, and no more than what the list leaves over.

Some servers echo a prompt with log-probabilities that belong to other tokens (llama-cpp-python: those of the token
before, where a model has no start token). No single echo shows it. But a token can be asked for twice: generated
after a text, and echoed at the end of text + token. Both are the same number, or the echo is wrong.
"""

from __future__ import annotations

import copy
import functools
import ipaddress
import json
import math
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import KW_ONLY, dataclass, field, fields
from os.path import commonprefix
from typing import Any, ClassVar, Literal, NamedTuple, TypeAlias
from urllib.parse import urlsplit

from StaICC.errors import ArgumentError, OutputError
from StaICC.inference.contract import ScoredLabels, Text, is_unmeasured
from StaICC.inference.identity import Identity
from StaICC.kernels.protocol import (
    Capability,
    LastBlank,
    checked_labels,
    label_probabilities,
    with_blank,
    without_blank,
)
from StaICC.kernels.registry import option_types, split_options
from StaICC.kernels.server.label_tokens import mass_without_text, token_masses
from StaICC.kernels.server.prompt_cuts import CANNOT_COUNT, PromptCheck
from StaICC.kernels.server.transport import (
    KEY_VARIABLE,
    Api,
    ServerOptions,
    Transport,
    UnusableEndpointError,
    clip,
    edition_text,
    has_key,
    only_choice,
    token_counts,
)
from StaICC.kernels.server.transport import EndpointError as EndpointError
from StaICC.kernels.server.transport import EndpointUsage as EndpointUsage
from StaICC.kernels.text_inference import ReplyKernel, ReplySettings, first_result, reply
from StaICC.numerics import log_sum_exp
from StaICC.prompting.prompt_text import Demonstration, PromptParts, PromptText, question_only
from StaICC.safe_text import logger

Unlisted = Literal["refuse", "bound"]

_SPECIAL = re.compile(r"(?:<\|[^<>|\s]+\|>|</?[A-Za-z_]+>|\[[A-Z]+\])$")  # <|im_start|>, </s>, [BOS]
_MOSTLY = 0.5
_SLACK = 1e-3  # servers compute in 16 bits: a log-probability may come out this much above zero


_OTHER_SCORING = "use scoring='top-logprobs' or 'text'"


class EchoError(EndpointError):
    """A response has no usable echo of the prompt."""


class NoMatch(OutputError):
    """The listed next tokens do not tell which label the model predicts."""


def _log_probability(value: object, what: str) -> float:
    if isinstance(value, bool) or not isinstance(value, (int, float)) or not math.isfinite(value) or value > _SLACK:
        shown = "no log-probability" if value is None else f"{value!r} as log-probability"
        raise EndpointError(f"the server gave {shown} of {what}; a number of at most 0 was expected")
    return min(float(value), 0.0)


# -- prompt log-probabilities ---------------------------------------------------------------------------------------


class EchoedToken(NamedTuple):
    """A token of a text that a server echoed."""

    start: int
    """Position in the text at which it begins."""

    text: str

    log_probability: object
    """What the server gave for it; not yet checked."""


def echoed_tokens(body: Mapping[str, Any], text: str) -> list[EchoedToken]:
    """Return the last tokens of a text that the server echoed, as far back as they spell it.

    The text is followed by the few tokens that were generated after it; special tokens may come before it.

    Args:
        body: The server's answer to a completion with ``echo``.
        text: The text that was sent.

    Raises:
        EchoError: The echo is of another text, or its log-probabilities are missing, cut short, constant, or not
            those of the text's tokens.
    """
    choice = only_choice(body)
    echoed = choice.get("text")
    if not isinstance(echoed, str) or not echoed.startswith(text):
        raise EchoError(
            f"the server did not echo the text that was sent, but {clip(echoed)}: it cut or changed the prompt, or "
            f"does not know echo; {_OTHER_SCORING}"
        )
    logprobs = choice.get("logprobs")
    logprobs = logprobs if isinstance(logprobs, Mapping) else {}
    tokens, values = logprobs.get("tokens"), logprobs.get("token_logprobs")
    if not isinstance(tokens, list) or not isinstance(values, list) or not tokens:
        raise EchoError(f"no log-probabilities of the prompt's tokens; {_OTHER_SCORING}")
    if len(tokens) != len(values) or not all(isinstance(token, str) for token in tokens):
        raise EchoError(f"{len(values)} log-probabilities for {len(tokens)} tokens of the server are cut short")
    numbers = [value for value in values if value is not None]
    if len(values) >= 4 and numbers and all(value == numbers[0] for value in numbers):
        raise EchoError(f"the server computes none: the same log-probability, {numbers[0]!r}, for every token")
    counted = token_counts(body).get("completion_tokens")
    for after in dict.fromkeys([1 if counted is None else counted, 1, 0]):
        last = len(tokens) - after
        if not 0 < last <= len(tokens) or (starts := _spell_backwards(tokens[:last], text)) is None:
            continue
        if after == 0 and (echoed != text or counted):
            raise EchoError(f"no log-probability of the generated token: cut short or shifted; {_OTHER_SCORING}")
        first = last - len(starts)
        return list(map(EchoedToken, starts, tokens[first:last], values[first:last]))
    raise EchoError(
        f"the server's tokens do not spell the text that was sent (they end in {clip(''.join(tokens[-4:]))}, the text "
        f"in {clip(text[-30:])}); they are cut short or shifted"
    )


def _spell_backwards(tokens: Sequence[str], text: str) -> list[int] | None:
    """Starts of the last tokens as far as they spell a text; None if they do not.

    Spelling ends at the text's start (tokens before it are special ones that the server added), or at a character that
    is no ASCII: several tokens may share it, and then none of them shows it. Special tokens that the text names may be
    shown without text, or not at all.
    """
    starts: list[int] = []
    end, left = len(text), len(tokens)
    while end > 0:
        token = tokens[left - 1] if left else None
        if token is not None and text.endswith(token, 0, end):  # also a token without text
            end -= len(token)
            starts.append(end)
            left -= 1
        elif special := _SPECIAL.search(text, 0, end):
            end = special.start()
        elif token is not None and not text[end - 1].isascii():
            break
        else:
            return None
    return starts[::-1] or None


def joint_log_probabilities(
    echoes: Sequence[Sequence[EchoedToken]], prompt: str, label_space: Sequence[str]
) -> list[float]:
    """Sum the log-probabilities of each label's tokens.

    Args:
        echoes: The echo of prompt + label, for each label.
        prompt: The prompt.
        label_space: The labels.

    Returns:
        For each label, the log-probability in nats of the text from the last common border of tokens on, given the
        text before it.

    Raises:
        EndpointError: A label's tokens cannot be separated from the prompt's, or lack a log-probability, or all labels
            have exactly the same score.
    """
    known = max(echo[0].start for echo in echoes)
    spelled = [[token for token in echo if token.text] for echo in echoes]  # the others are at no place of their own
    # Where tokens begin, up to the one that reaches into the label, as far as all labels are split alike.
    before = [[token.start for token in echo if known <= token.start <= len(prompt)] for echo in spelled]
    borders = commonprefix(before)  # noqa: RUF071 - of lists
    if not borders:
        raise EndpointError(
            f"the echoed tokens do not tell where the labels {', '.join(map(repr, label_space))} begin; "
            "a label with characters that no single token shows cannot be scored this way"
        )
    scores = []
    for echo, label in zip(echoes, label_space, strict=True):
        first = next(place for place, token in enumerate(echo) if token.text and token.start == borders[-1])
        of = f"of the label {label!r}"
        scores.append(math.fsum(_log_probability(value, f"the token {text!r} {of}") for _, text, value in echo[first:]))
    if len(scores) >= 3 and len(set(scores)) == 1:
        raise EndpointError(f"the server gave all {len(scores)} labels exactly the same log-probability, {scores[0]!r}")
    return scores


# -- top log-probabilities of the next token ------------------------------------------------------------------------


def next_tokens(body: Mapping[str, Any], most: int) -> dict[str, float]:
    """Read the list of the most probable next tokens.

    Args:
        body: The server's answer to a completion or a chat completion.
        most: How many were asked for; what is listed beyond them (the token that was drawn) is left out.

    Returns:
        Log-probabilities by the tokens' texts, the most probable first.

    Raises:
        EndpointError: The list is missing, too short to be one, constant, or not of log-probabilities.
    """
    listed: list[tuple[object, object]] = []
    match only_choice(body).get("logprobs"):
        case {"content": [{"top_logprobs": list(entries)}, *_]}:  # of chat completions
            listed = [(entry.get("token"), entry.get("logprob")) for entry in entries if isinstance(entry, Mapping)]
        case {"top_logprobs": [Mapping() as entry, *_]}:  # of completions
            listed = list(entry.items())
    if not listed:
        raise EndpointError("the server gave no list of the most probable next tokens; use scoring='text'")
    tokens: dict[str, float] = {}
    for token, value in listed:
        if not isinstance(token, str):
            raise EndpointError(f"the server lists {clip(token)} as a next token, which is no text")
        if value != -math.inf:
            number = _log_probability(value, f"the next token {token!r}")
            tokens[token] = log_sum_exp([tokens[token], number]) if token in tokens else number
    tokens = dict(sorted(tokens.items(), key=lambda item: -item[1])[:most])
    if len(tokens) < 2:
        raise EndpointError(
            f"the server lists {len(tokens)} next tokens, where {most} were asked for (or applied its temperature)"
        )
    if len(tokens) >= 3 and len(set(tokens.values())) == 1:
        same = next(iter(tokens.values()))
        raise EndpointError(f"the server computes none: the same log-probability, {same!r}, for every next token")
    total = math.fsum(map(math.exp, tokens.values()))
    if total > 1 + len(tokens) * _SLACK:
        raise EndpointError(f"the probabilities of the listed next tokens add up to {total:.4g}, above 1")
    return tokens


def next_token_scores(tokens: Mapping[str, float], label_space: Sequence[str], unlisted: Unlisted) -> list[float]:
    """Score labels by the listed next tokens that begin them.

    Args:
        tokens: Log-probabilities of the listed tokens (:func:`next_tokens`).
        label_space: The labels.
        unlisted: How to score a label without a listed token: ``"refuse"`` raises, ``"bound"`` uses an upper
            bound.

    Returns:
        For each label, the log-probability in nats that the next token begins it and no other (with ``"bound"``: an
        upper bound of it, for labels that are not listed).

    Raises:
        NoMatch: A label, or with ``"bound"`` every label, is not listed, or the listed tokens do not tell labels
            apart.

    Example:
        >>> tokens = {"pos": math.log(0.5), " positive": math.log(0.25), "ne": math.log(0.125)}
        >>> [round(math.exp(score), 6) for score in next_token_scores(tokens, ["negative", "positive"], "refuse")]
        [0.125, 0.75]
    """
    own, shared = token_masses(tokens, label_space)
    left = 1 - math.fsum(map(math.exp, tokens.values()))
    # Where the list leaves nothing over, an unlisted label is as good as ruled out, and its score is still finite.
    bound = min(*tokens.values(), math.log(max(left, math.ulp(0.0))))
    scores = []
    for own_values, shared_values in zip(own, shared, strict=True):
        if own_values:
            scores.append(log_sum_exp(own_values))
        else:
            scores.append(log_sum_exp([bound, *shared_values]))

    best = max((score for score, own_values in zip(scores, own, strict=True) if own_values), default=-math.inf)
    for label, score, own_values, shared_values in zip(label_space, scores, own, shared, strict=True):
        if not shared_values:
            continue
        if own_values:
            doubtful = log_sum_exp(shared_values) > score
        else:
            doubtful = unlisted == "refuse" or score > best
        if doubtful:
            raise NoMatch(
                f"the next token does not tell the label {label!r} from others that begin alike, or from another word "
                f"(listed: {_shown(tokens)}); use scoring='prompt-logprobs' or 'text' for these labels"
            )
    missing = [label for label, parts in zip(label_space, own, strict=True) if not parts]
    if missing and (unlisted == "refuse" or len(missing) == len(label_space)):
        advice = ""
        if math.exp(mass_without_text(tokens)) > _MOSTLY:
            advice = "; most of the probability is of tokens without visible text, such as a blank or a line break"
        elif len(missing) < len(label_space):
            advice = "; raise top_n, or take the bound with unlisted='bound'"
        raise NoMatch(
            f"{', '.join(map(repr, missing))} not among the {len(tokens)} most probable next tokens "
            f"({_shown(tokens)}){advice}"
        )
    return scores


def _shown(tokens: Mapping[str, float]) -> str:
    shown = [f"{token!r} {math.exp(value):.3g}" for token, value in list(tokens.items())[:6]]
    return ", ".join(shown) + (", ..." if len(tokens) > 6 else "")


SendRequest: TypeAlias = Callable[[Mapping[str, Any]], Mapping[str, Any]]

DOUBT = 0.5
"""Nats by which the two may differ: servers compute in 16 bits, and batch as they like."""

_ATTEMPTS = 5  # places in the prompt that are compared
_AGREEMENTS = 2  # enough comparisons with equal values
_SHORT = "text: a label:"  # a fault of its echo is not of one prompt

_LOG = logger(__name__)


def echo(request: SendRequest, text: str) -> list[EchoedToken]:
    """Ask for a text's tokens and their log-probabilities.

    One token is generated behind the text and thrown away: some servers take 0 for "no limit".
    """
    body = request({"prompt": text, "max_tokens": 1, "temperature": 0, "echo": True, "logprobs": 1})
    return echoed_tokens(body, text)


def _compared(request: SendRequest, text: str) -> tuple[str, float, float] | None:
    """Generate a token after a text, and echo both; return the token and its two log-probabilities."""
    body = request({"prompt": text, "max_tokens": 1, "temperature": 0, "logprobs": 1})
    match body.get("choices"):
        case [{"text": written, "logprobs": {"tokens": [str(token)], "token_logprobs": [float(value)]}}]:
            if token.strip() and token == written:
                _, last, again = echo(request, text + token)[-1]
                return (token, value, again) if last == token and isinstance(again, float) else None
    return None


def _echo_fault(request: SendRequest, prompt: str) -> str | None:
    """Compare at the end of the prompt, then before its last words, until two tokens agree; return the fault."""
    try:
        echo(request, _SHORT)
    except EchoError as error:
        return str(error)
    text, agreements = prompt.rstrip(), 0
    for _ in range(_ATTEMPTS):
        compared = _compared(request, text) if text else None
        if compared is not None:
            token, value, again = compared
            if abs(again - value) > DOUBT:
                return (
                    f"the server's echo cannot be trusted: the token {token!r} has log-probability {value:.3f} when it "
                    f"is generated, but {again:.3f} in the echoed prompt; {_OTHER_SCORING}"
                )
            agreements += 1
            if agreements == _AGREEMENTS:
                return None
        text = "".join(re.split(r"(\s+)", text)[:-2])
    if not agreements:
        _LOG.warning("a server's echoed log-probabilities could not be compared with generated ones; they are believed")
    return None


ServerScoring = Literal["prompt-logprobs", "top-logprobs", "text"]
Guided = Literal["", "choice", "json"]
ScoresOrReply = list[float] | str

MUCH_WITHOUT_TEXT = 0.1
"""Mean probability of next tokens without visible text from which on a run has a warning."""

_TIES = 8  # from this many queries on, exact ties in all of them are no accident


class _TieCheck:
    """Whether a server tells labels apart.

    Once it did, ties are believed: which queries have one after the other depends on the threads.
    """

    def __init__(self) -> None:
        self.tells_labels_apart = False
        """Whether the labels of a query had different scores."""
        self._ties = 0

    def fault(self, scores: Sequence[Sequence[float]]) -> str | None:
        """Return why the scores of these queries cannot be believed; ``None`` if they can.

        Args:
            scores: For each query, a score for each label.
        """
        if any(len(set(row)) > 1 for row in scores):
            self.tells_labels_apart = True
        if self.tells_labels_apart:
            return None
        self._ties += sum(len(row) > 1 for row in scores)
        if self._ties < _TIES:
            return None
        return f"the server returned exactly the same score for all labels in each of {self._ties} queries"


_VERSION = 4  # part of the identity; raise it with any change that can move a score

WHO = frozenset({"base_url", "model", "served_model"})
"""The options that identify the model."""

NO_NUMBERS = frozenset(
    {"allow_edition_change", "backoff", "cache_control", "concurrency", "longest_wait", "retries", "timeout"}
)
"""The options that change no number. All others are settings of the identity."""

_FORMATS = {"plain": "completions", "chat": "chat", "chat-turns": "chat"}
"""The interface for each prompt format of the other kernels."""

_NEEDS = (
    ("guided", "scoring", ("text",)),
    ("max_tokens", "scoring", ("text",)),
    ("top_n", "scoring", ("top-logprobs",)),
    ("unlisted", "scoring", ("top-logprobs",)),
    ("last_blank", "scoring", ("prompt-logprobs", "top-logprobs")),
    ("last_blank", "api", ("completions",)),
    ("system", "api", ("chat",)),
    ("turns", "api", ("chat",)),
)
"""Options that change numbers only where another option has one of these values."""


def check_prompts(prompts: Sequence[str]) -> None:
    """Refuse prompts that are no list of texts, such as those of the noisy channel."""
    if isinstance(prompts, str) or not all(isinstance(prompt, str) for prompt in prompts):
        advice = "expected a list of texts; the noisy channel needs a local kernel"
        raise ArgumentError(f"prompts: got {prompts!r:.80}, {advice}")


def is_local(url: str) -> bool:
    """Return whether a server is in this machine or its network, where requests have no price.

    Example:
        >>> is_local("http://localhost:8000/v1"), is_local("http://10.0.0.7:8000"), is_local("http://gpu-node-3:8000")
        (True, True, True)
        >>> is_local("https://api.example.com/v1"), is_local("https://8.8.8.8/v1")
        (False, False)
    """
    host = urlsplit(url).hostname or ""
    try:
        address = ipaddress.ip_address(host)
    except ValueError:
        return "." not in host or host.endswith((".local", ".localhost", ".internal", ".lan"))
    return address.is_private or address.is_loopback


def _checked_url(given: object) -> str:
    """Normalise an address, and refuse parts that an identity or an error must not show."""
    try:
        parts = urlsplit(given.strip() if isinstance(given, str) else "")
        port, host = parts.port, parts.hostname or ""
    except ValueError:
        raise ArgumentError("base_url is no address; expected one such as 'http://localhost:8000/v1'") from None
    if parts.username is not None or parts.password is not None or parts.query or parts.fragment:
        raise ArgumentError(f"base_url must have no user name, password, query or fragment; the key is {KEY_VARIABLE}")
    if parts.scheme not in ("http", "https") or not host:
        raise ArgumentError("base_url must be a text that begins with http:// or https:// and names a host")
    host = f"[{host}]" if ":" in host else host
    usual = {"http": 80, "https": 443}[parts.scheme]
    return f"{parts.scheme}://{host}{'' if port in (None, usual) else f':{port}'}{parts.path.rstrip('/')}"


@dataclass(frozen=True)
class EndpointKernel(ReplyKernel, ServerOptions):
    """A model behind an OpenAI-compatible server. Use it as ``f(prompt, label_space)``, or give it to a benchmark.

    The settings are frozen. A kernel can be pickled to workers; each process opens its own connections.

    Raises:
        ArgumentError: A setting has no meaning, or two exclude each other.

    Example:
        >>> kernel = EndpointKernel("http://localhost:8000/v1/", "my-model", scoring="text")
        >>> kernel.identity().who
        {'kernel': 'endpoint 4', 'server': 'http://localhost:8000/v1', 'model': 'my-model'}
    """

    _transport: ClassVar[Transport]
    """Connections, counts and editions of this process and object; not an option, so not a field."""

    _prompt_check: ClassVar[PromptCheck]
    """How long the prompts are that the server is known to read in full, in this process."""

    _tie_check: ClassVar[_TieCheck]
    """Whether the server was seen to tell labels apart, in this process."""

    _: KW_ONLY

    scoring: ServerScoring = "prompt-logprobs"
    """How labels are scored (see the module)."""

    api: Api = "completions"
    """``"completions"`` continues the unchanged prompt; ``"chat"`` sends it as a user's message, to which the server
    applies the model's chat template (for ``"top-logprobs"`` and ``"text"``)."""

    last_blank: LastBlank = "prompt"
    """The blank before a label: the end of the prompt, or, as in most methods' papers, the beginning of the
    ``"label"``: prompts are sent without the blank at their end."""

    top_n: int = field(default=20, metadata={"least": 2})
    """Number of requested next tokens (``"top-logprobs"``); most servers allow 5 to 20."""

    unlisted: Unlisted = "refuse"
    """How to treat a label that is not listed: ``"refuse"`` leaves the query without a prediction; ``"bound"`` uses an
    upper bound (the smallest listed probability, or the unlisted probability mass if that is smaller). With the bound
    the predicted label is correct, but the probabilities of unlisted labels are too high."""

    guided: Guided = ""
    """Allow no reply but a label (``"text"``): ``"choice"`` by ``structured_outputs`` (vLLM), ``"json"`` by
    ``response_format`` with a JSON schema (``api="chat"``; most servers)."""

    def __post_init__(self) -> None:
        object.__setattr__(self, "base_url", _checked_url(self.base_url))
        super().__post_init__()
        options = ServerOptions(**{field.name: getattr(self, field.name) for field in fields(ServerOptions)})
        object.__setattr__(self, "_transport", Transport(options))
        object.__setattr__(self, "_prompt_check", PromptCheck())
        object.__setattr__(self, "_tie_check", _TieCheck())
        if not self.model:
            raise ArgumentError("model must be the name of a model as the server calls it, not empty")
        for name in ("base_url", "model", "served_model", "system"):
            if has_key(getattr(self, name) or ""):
                raise ArgumentError(f"{name} holds the key from {KEY_VARIABLE}, and is shown in results; leave it out")
        if self.api == "chat" and self.scoring == "prompt-logprobs":
            raise ArgumentError(f"api: got 'chat', which does not echo prompts; {_OTHER_SCORING}")
        for name, other, values in (*_NEEDS, *[("guided", "api", ("chat",))] * (self.guided == "json")):
            if getattr(self, name) != getattr(type(self), name) and getattr(self, other) not in values:
                got = f"got {getattr(self, name)!r} with {other}={getattr(self, other)!r}"
                expected = f"expected {other}={' or '.join(map(repr, values))}"
                raise ArgumentError(f"{name}: {got}, {expected}. Leave {name} out, or change {other}")

    def __getstate__(self) -> dict[str, Any]:
        # A copy pins editions of its own, and sees scores of its own process.
        return {**self.__dict__, "_transport": copy.copy(self._transport), "_tie_check": _TieCheck()}

    @property
    def may_cost_money(self) -> bool:
        """Whether requests may have a price: the server is not in this machine or its network."""
        return not is_local(self.base_url)

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
        types = {**option_types(cls), "prompt_format": "str"}
        model, given = split_options(rest, types, False, "a served model", options)
        if (written := given.pop("prompt_format", None)) is not None:  # the other kernels' word for it
            if "api" in given or written not in _FORMATS:
                both = " and api: give one of the two" if "api" in given else f", expected {', '.join(_FORMATS)}"
                raise ArgumentError(f"got prompt_format={written!r}{both}")
            given["api"] = _FORMATS[written]
            if written == "chat-turns":
                given["turns"] = True
        if not mark or not model or not address:
            missing = "the model" if address else "the address"  # what was given may hold a password
            example = "openai:BASE_URL#MODEL, such as openai:http://localhost:8000/v1#my-model"
            raise ArgumentError(f"{missing} is missing: a served model is given as {example}")
        return cls(address, model, **given)

    @property
    def capabilities(self) -> frozenset[Capability]:
        """The capabilities of this kernel; with ``scoring="text"`` it predicts labels without scores."""
        scores = set() if self.scoring == "text" else {Capability.LABEL_SCORES}
        return frozenset({Capability.TEXT, Capability.BATCH, *scores})

    def identity(self) -> Identity:
        """Who predicts and how, without asking the server; the served edition is in :attr:`editions`."""
        who = {"kernel": f"endpoint {_VERSION}", "server": self.base_url, "model": self.model}
        if self.served_model is not None:
            who["served_model"] = self.served_model
        replies = {field.name for field in fields(ReplySettings)}
        texts = {field.name: str(getattr(self, field.name)) for field in fields(self) if field.name not in replies}
        texts |= self.reply_settings()
        unused = {name for name, other, values in _NEEDS if getattr(self, other) not in values}
        without = WHO | NO_NUMBERS | unused | ({"last_blank"} if self.last_blank == "prompt" else set())
        return Identity(who, {name: text for name, text in texts.items() if text and name not in without})

    def pin_edition(self) -> str | None:
        """Ask the server which edition it serves now, with a request for one token, and hold all responses to it.

        A run calls this before it computes predictions; a copy that is sent to workers afterwards holds the responses
        there to the same edition.

        Returns:
            The model and the system fingerprint that the server names; ``None`` if it names neither.

        Raises:
            EndpointError: The server failed.
        """
        self._transport.editions.clear()
        request = self._request(question_only("a"), self.reply_request(1, ()))
        first_result(self._transport.all(["a"], lambda _: self._transport.request(self.api, request)))
        return next(iter(self.editions), None)

    @property
    def editions(self) -> tuple[str, ...]:
        """The editions seen in this process since the last :meth:`pin_edition`, in order of appearance."""
        return tuple(filter(None, map(edition_text, self._transport.editions)))

    @property
    def usage(self) -> EndpointUsage:
        """Requests and tokens of this kernel so far, in this process."""
        return EndpointUsage(**self._transport.counts)

    @property
    def tokens_used(self) -> tuple[int, int]:
        """Tokens of prompts and of completions so far, in this process, as the server counted them."""
        return self.usage.prompt_tokens, self.usage.completion_tokens

    @property
    def retried(self) -> int:
        """Number of retries so far, in this process."""
        return self.usage.retries

    @property
    def queries_at_once(self) -> int:
        """How many queries a run gives to threads at once: some wait for a retry, and keep no request waiting."""
        return 2 * self.concurrency

    @property
    def first_batch(self) -> int:
        """How many queries a run gives first, in one call, so that a server whose scores are all ties is refused."""
        if self.scoring == "text" or self._tie_check.tells_labels_apart:
            return 1
        return _TIES

    def stop_requests(self) -> None:
        """Let no thread request anything more; requests in flight are finished."""
        self._transport.interrupt()

    def batch(self, prompts: Sequence[str], label_space: Sequence[str]) -> list[ScoresOrReply | OutputError]:
        """Answer many queries, up to ``concurrency`` requests at once.

        Args:
            prompts: The prompts.
            label_space: The labels of all of them.

        Returns:
            For each prompt, in order, a probability for each label, or with ``scoring="text"`` the reply; or the error
            that a call raises. After an error that every query would meet (wrong key, wrong model, ...) the queries not
            yet begun get that error without being asked.

        Raises:
            ArgumentError: A prompt is not a text (noisy-channel prompts need a local kernel), or a label is empty.
            MissingDependencyError: The package ``openai`` is not installed.
        """
        labels = checked_labels(label_space)
        if not all(label.strip() for label in labels):
            raise ArgumentError(f"label_space: got {labels!r}, expected labels that are not empty")
        check_prompts(prompts)

        if self.scoring == "text":
            return list(self.replies(prompts, sampling=self._guide(labels)))

        self._prompt_check.announce(prompts)
        outcomes = self._transport.all(prompts, lambda prompt: self._scores(prompt, labels))
        scored = [outcome for outcome in outcomes if isinstance(outcome, list)]
        reason = self._tie_check.fault(scored)
        if reason is not None:
            return [EndpointError(reason) if isinstance(outcome, list) else outcome for outcome in outcomes]
        return list(outcomes)

    def _replies(
        self, prompts: Sequence[str], most: int | None, stop: Sequence[str] | None, more: dict[str, Any]
    ) -> Sequence[str | OutputError]:
        check_prompts(prompts)
        if stop is None:  # a label is one line, and a completion goes on
            stop = ["\n"] if self.api == "completions" else []
        settings = {**self.reply_request(most, stop), **more}

        self._prompt_check.announce(prompts)

        def work(prompt: str) -> Text:
            self._refuse_if_cut(prompt)
            text = reply(self._transport.request(self.api, self._request(prompt, settings)))
            if has_key(text):
                raise EndpointError(f"the reply holds the key from {KEY_VARIABLE}, so it is not used: {clip(text)}")
            return Text(text, text.finish_reason, unmeasured=self._prompt_check.is_unmeasured(prompt))

        return self._transport.all(prompts, work)

    def _guide(self, labels: Sequence[str]) -> dict[str, Any]:
        """The fields of a request that allow no reply but a label."""
        if self.guided == "choice":
            return {"structured_outputs": {"choice": list(labels)}}
        if not self.guided:
            return {}
        label = {"label": {"type": "string", "enum": list(labels)}}
        schema = {"type": "object", "properties": label, "required": ["label"], "additionalProperties": False}
        form = {"name": "label", "strict": True, "schema": schema}
        return {"response_format": {"type": "json_schema", "json_schema": form}}

    def rendered(self, prompts: Sequence[str]) -> list[str]:
        """Return prompts as they are sent: verbatim, or as the messages of a conversation (JSON)."""
        sent = [next(iter(self._request(prompt, {}).values())) for prompt in prompts]
        return [part if isinstance(part, str) else json.dumps(part, ensure_ascii=False) for part in sent]

    def answer_warnings(self, answers: Sequence[object]) -> list[str]:
        """Return warnings about what the responses to prompts said, which their predictions record.

        Args:
            answers: Predictions of this kernel.
        """
        warnings = []
        masses = [
            answer.mass_without_text
            for answer in answers
            if isinstance(answer, ScoredLabels) and answer.mass_without_text is not None
        ]
        if masses and math.fsum(masses) / len(masses) >= MUCH_WITHOUT_TEXT:
            mean = math.fsum(masses) / len(masses)
            mostly = sum(mass > _MOSTLY for mass in masses)
            advice = ""
            if self.api == "completions" and self.last_blank == "prompt":
                advice = ". With last_blank='label' the model can write the blank and the label in one token"
            warnings.append(
                f"next tokens without visible text, such as blanks and line breaks, have probability {mean:.2f} on "
                f"average, and more than {_MOSTLY} in {mostly} of {len(masses)} prompts. They begin no label, and the "
                f"scores leave them out{advice}"
            )
        if any(is_unmeasured(answer) for answer in answers):
            warnings.append(CANNOT_COUNT)
        return warnings

    def close(self) -> None:
        """Close the connections of this process; the next query opens them again."""
        self._transport.close()

    def _request(self, prompt: str, settings: Mapping[str, Any]) -> dict[str, Any]:
        if self.last_blank == "label":
            prompt = without_blank(prompt)
        content = {"prompt": str(prompt)} if self.api == "completions" else {"messages": self.messages(prompt)}
        return {**content, **settings}

    def _refuse_if_cut(self, prompt: str) -> None:
        """Raise an error if the server cuts the prompt (:mod:`StaICC.kernels.server.prompt_cuts`)."""
        if not self._prompt_check.is_known_to_be_read(prompt):
            with self._transport.checking:
                self._prompt_check.refuse_if_cut(prompt, self._count_tokens)

    def _count_tokens(self, text: str) -> int | None:
        """Return the tokens of a prompt as the server counts them, with a request for one token."""
        shown = [
            Demonstration("a", "a", "")
        ] * self._prompt_check.most_demonstrations  # a message has tokens of its own
        prompt = PromptText(PromptParts(text, shown, "a")) if self.turns else text
        body = self._transport.request(self.api, self._request(prompt, self.reply_request(1, ())))
        return token_counts(body).get("prompt_tokens")

    def announce_prompts(self, prompts: Sequence[str]) -> None:
        """Note the longest prompt of a run, which is the first that is measured."""
        self._prompt_check.announce(prompts)

    def _scores(self, prompt: str, labels: Sequence[str]) -> list[float]:
        transport = self._transport
        if self.scoring == "top-logprobs":
            self._refuse_if_cut(prompt)
            listed = {"logprobs": True, "top_logprobs": self.top_n} if self.api == "chat" else {"logprobs": self.top_n}
            body = transport.request(self.api, self._request(prompt, self.reply_request(1, ()) | listed))
            tokens = next_tokens(body, self.top_n)
            without_text = min(1.0, math.exp(mass_without_text(tokens)))
            scores = label_probabilities(next_token_scores(tokens, labels, self.unlisted))
            unmeasured = self._prompt_check.is_unmeasured(prompt)
            return ScoredLabels(scores, mass_without_text=without_text, unmeasured=unmeasured)
        complete = functools.partial(transport.request, "completions")
        if self.last_blank == "label":
            prompt, labels = without_blank(prompt), with_blank(labels)
        with transport.checking:  # once, with five requests or a few more
            if transport.echo_fault == "":
                transport.echo_fault = _echo_fault(complete, prompt)
        if transport.echo_fault is not None:
            raise UnusableEndpointError(transport.echo_fault)
        echoes = [echo(complete, prompt + label) for label in labels]
        return label_probabilities(joint_log_probabilities(echoes, prompt, labels))


Provider = Literal["openai", "anthropic"]

ANTHROPIC_FIELDS = {
    "stop": "stop_sequences",
    "max_tokens": "max_tokens",
    "temperature": "temperature",
    "top_p": "top_p",
}
"""The fields of a request that Anthropic has too, with its names."""


def response_body(record: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return the response as a chat completion.

    Raises:
        EndpointError: The request failed.
    """
    match record:
        case {"response": {"status_code": 200, "body": Mapping() as body}} if not record.get("error"):
            return body
        case {"result": {"type": "succeeded", "message": {"content": list(parts)} as message}}:
            typed = [part for part in parts if isinstance(part, Mapping)]
            thoughts = "".join(str(part.get("thinking") or "") for part in typed)
            written = {"content": [part for part in typed if part.get("type") == "text"], "reasoning_content": thoughts}
            choice = {"message": written, "finish_reason": message.get("stop_reason")}
            return {"model": message.get("model"), "choices": [choice]}
    said = record.get("error") or record.get("response") or record.get("result")
    raise EndpointError(f"the request failed: {clip(said)}")

"""Label scores from the responses of an OpenAI-compatible server, in three ways.

Everything here is a function of the response; requests are in ``transport``. A server may return invalid content with
status 200, so everything is checked: the tokens must spell the text that was sent, every used number must be a
log-probability, and missing values are errors, never defaults.

*Prompt log-probabilities* (:func:`joint_log_probabilities`). The server echoes prompt + label with the
log-probability of each token. A label's score is the sum over its tokens. Where a token holds the end of the prompt
and the start of the label (a space, mostly), the sum starts at the last border of tokens that all labels have in
common, so that all are scored given the same text; this is what ``label_scoring="full"`` of the local kernel does.

*Top log-probabilities* (:func:`next_token_scores`). The server lists the N most probable next tokens. A label's score
is the probability that the next token begins this label and no other: the sum over the listed tokens whose text,
without white space in front, is a beginning of it. Tokens that begin several labels count for none; where they weigh
more than what tells the labels apart, the query has no answer. A label none of whose tokens is listed is either a
:class:`NoMatch` (the default), or gets an upper bound: it can have no more than the least probable listed token, and
no more than what the list leaves over.

*Text* (:func:`reply`). The reply is returned; :mod:`StaICC.inference.reply_parser` finds its label.
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal, TypeAlias

from StaICC.errors import OutputError, RunEndingError, WithheldReplyError
from StaICC.kernels.endpoint.redaction import redact

Json: TypeAlias = "Mapping[str, Any]"
Unlisted = Literal["refuse", "bound"]

_SPECIAL = re.compile(r"(?:<\|[^<>|\s]+\|>|</?[A-Za-z_]+>|\[[A-Z]+\])$")  # <|im_start|>, </s>, [BOS]
_SLACK = 1e-3  # servers compute in 16 bits: a log-probability may come out this much above zero


class EndpointError(OutputError):
    """The server failed, or answered what cannot be used."""


class UnusableEndpointError(EndpointError, RunEndingError):
    """Every other query would fail in the same way."""


class NoMatch(OutputError):
    """The listed next tokens do not tell which label the model predicts."""


def clip(text: object, length: int = 160) -> str:
    r"""Show a piece of a text in a message: one line, not too long, without the API key.

    Example:
        >>> clip("a  b\n" * 3, 6)
        "'a b...'"
    """
    line = " ".join(redact(str(text)).split())
    return repr(line if len(line) <= length else line[: length - 3] + "...")


def _log_sum(values: Sequence[float]) -> float:
    """Logarithm of the sum of the exponentials; exact where they underflow (some servers give -9999 for "hardly")."""
    top = max(values)
    return top + math.log(math.fsum(math.exp(value - top) for value in values))


def _log_probability(value: object, what: str) -> float:
    if isinstance(value, bool) or not isinstance(value, (int, float)) or not math.isfinite(value) or value > _SLACK:
        shown = "no log-probability" if value is None else f"{value!r} as log-probability"
        raise EndpointError(f"the server gave {shown} of {what}; a number of at most 0 was expected")
    return min(float(value), 0.0)


def _choice(body: Json) -> Json:
    choices = body.get("choices")
    if not isinstance(choices, list) or len(choices) != 1 or not isinstance(choices[0], Mapping):
        found = f"{len(choices)} choices" if isinstance(choices, list) else "no list of choices"
        raise EndpointError(f"the server answered with {found}, where one was expected")
    return choices[0]


# -- prompt log-probabilities ---------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class EchoedTokens:
    """The last tokens of a text that a server echoed, as far back as they spell it."""

    tokens: tuple[str, ...]
    """The tokens' texts, in order; together they are the end of the text."""

    starts: tuple[int, ...]
    """Position in the text at which each begins."""

    log_probabilities: tuple[object, ...]
    """What the server gave for each; not yet checked."""


def echoed_tokens(body: Json, text: str) -> EchoedTokens:
    """Find the tokens of a text in the server's echo of it.

    The text is followed by the few tokens that were generated after it; special tokens may come before it.

    Args:
        body: The server's answer to a completion with ``echo``.
        text: The text that was sent.

    Raises:
        EndpointError: The echo is of another text, or its log-probabilities are missing, cut short, constant, or not
            those of the text's tokens.
    """
    choice = _choice(body)
    echoed = choice.get("text")
    if not isinstance(echoed, str) or not echoed.startswith(text):
        raise EndpointError(
            f"the server did not echo the text that was sent (it sent back {clip(echoed)}); it cut or changed the "
            "prompt, or does not know echo. Use scoring='top-logprobs' or 'text' for such a server"
        )
    generated = echoed[len(text) :]
    found = choice.get("logprobs")
    tokens, values = (found.get("tokens"), found.get("token_logprobs")) if isinstance(found, Mapping) else (None, None)
    if not isinstance(tokens, list) or not isinstance(values, list) or not tokens:
        raise EndpointError(
            "the server gave no log-probabilities of the prompt's tokens; use scoring='top-logprobs' or 'text' for it"
        )
    if len(tokens) != len(values) or not all(isinstance(token, str) for token in tokens):
        raise EndpointError(
            f"the server gave {len(values)} log-probabilities for {len(tokens)} tokens; they are cut short"
        )
    numbers = [value for value in values if value is not None]
    if len(values) >= 4 and numbers and all(value == numbers[0] for value in numbers):
        raise EndpointError(
            f"the server gave the same log-probability, {numbers[0]!r}, for every token; it computes none"
        )
    usage = body.get("usage")
    counted = usage.get("completion_tokens") if isinstance(usage, Mapping) else None
    guesses = [counted] if type(counted) is int and 0 <= counted < len(tokens) else []
    for after in dict.fromkeys([*guesses, 1, 0]):
        if after >= len(tokens):
            continue
        spelled = _spell_backwards(tokens[: len(tokens) - after], text)
        if spelled is not None:
            if after == 0 and (generated or counted):
                raise EndpointError(
                    "the server generated a token after the prompt, but its log-probability is not behind those of the "
                    "prompt; they are cut short or shifted. Use scoring='top-logprobs' for such a server"
                )
            first = len(tokens) - after - len(spelled)
            last = len(tokens) - after
            return EchoedTokens(tuple(tokens[first:last]), tuple(spelled), tuple(values[first:last]))
    raise EndpointError(
        f"the tokens whose log-probabilities the server gave do not spell the text that was sent (they end in "
        f"{clip(''.join(tokens[-4:]))}, the text in {clip(text[-30:])}); they are cut short or shifted"
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


def joint_log_probabilities(echoes: Sequence[EchoedTokens], prompt: str, label_space: Sequence[str]) -> list[float]:
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
    known = max(echo.starts[0] for echo in echoes)
    # Where tokens begin, up to the one that reaches into the label. Tokens without text are at no place of their own.
    before = [
        [
            start
            for start, token in zip(echo.starts, echo.tokens, strict=True)
            if token and known <= start <= len(prompt)
        ]
        for echo in echoes
    ]
    border = None  # the last place where a token begins, with all labels split alike up to there
    for places in zip(*before, strict=False):
        if len(set(places)) > 1:
            break
        border = places[0]
    if border is None:
        raise EndpointError(
            f"the echoed tokens do not tell where the labels {', '.join(map(repr, label_space))} begin; "
            "a label with characters that no single token shows cannot be scored this way"
        )
    scores = []
    for echo, label in zip(echoes, label_space, strict=True):
        first = next(i for i, token in enumerate(echo.tokens) if token and echo.starts[i] == border)
        scores.append(
            math.fsum(
                _log_probability(value, f"the token {token!r} of the label {label!r}")
                for token, value in zip(echo.tokens[first:], echo.log_probabilities[first:], strict=True)
            )
        )
    if len(scores) >= 3 and len(set(scores)) == 1:
        raise EndpointError(
            f"the server gave all {len(scores)} labels exactly the same log-probability, {scores[0]!r}; it does not "
            "score them"
        )
    return scores


# -- top log-probabilities of the next token ------------------------------------------------------------------------


def _first(steps: object) -> object:
    return steps[0] if isinstance(steps, list) and steps else None


def next_tokens(body: Json, most: int) -> dict[str, float]:
    """Read the list of the most probable next tokens.

    Args:
        body: The server's answer to a completion or a chat completion.
        most: How many were asked for; what is listed beyond them (the token that was drawn) is left out.

    Returns:
        Log-probabilities by the tokens' texts, the most probable first.

    Raises:
        EndpointError: The list is missing, too short to be one, constant, or not of log-probabilities.
    """
    found = _choice(body).get("logprobs")
    listed: list[tuple[object, object]] = []
    if isinstance(found, Mapping):
        chat, plain = _first(found.get("content")), _first(found.get("top_logprobs"))
        if isinstance(chat, Mapping) and isinstance(chat.get("top_logprobs"), list):  # as in chat completions
            entries = [entry for entry in chat["top_logprobs"] if isinstance(entry, Mapping)]
            listed = [(entry.get("token"), entry.get("logprob")) for entry in entries]
        elif isinstance(plain, Mapping):  # as in completions
            listed = list(plain.items())
    if not listed:
        raise EndpointError(
            "the server gave no list of the most probable next tokens; use scoring='text' for such a server"
        )
    tokens: dict[str, float] = {}
    for token, value in listed:
        if not isinstance(token, str):
            raise EndpointError(f"the server lists {clip(token)} as a next token, which is no text")
        if isinstance(value, float) and value == -math.inf:
            continue
        number = _log_probability(value, f"the next token {token!r}")
        tokens[token] = _log_sum([tokens[token], number]) if token in tokens else number
    tokens = dict(sorted(tokens.items(), key=lambda item: -item[1])[:most])
    if len(tokens) < 2:
        raise EndpointError(
            f"the server lists {len(tokens)} next tokens, where {most} were asked for; their log-probabilities are "
            "missing, or given after its temperature was applied"
        )
    if len(tokens) >= 3 and len(set(tokens.values())) == 1:
        raise EndpointError(
            f"the server gave the same log-probability, {next(iter(tokens.values()))!r}, for every next token; it "
            "computes none"
        )
    total = math.fsum(map(math.exp, tokens.values()))
    if total > 1 + len(tokens) * _SLACK:
        raise EndpointError(
            f"the probabilities of the next tokens that the server lists add up to {total:.4g}, above 1"
        )
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
    own: list[list[float]] = [[] for _ in label_space]
    shared: dict[int, list[float]] = {}
    bare = [label.lstrip() for label in label_space]
    for token, value in tokens.items():
        if not token:
            continue  # a special token, or a piece of a character
        start = token.lstrip(" \t")  # a line break begins no label: it ends the answer
        begun = [place for place, label in enumerate(bare) if label.startswith(start)]
        if len(begun) == 1:
            own[begun[0]].append(value)
        else:
            for place in begun:
                shared.setdefault(place, []).append(value)
    for place, parts in shared.items():
        if not own[place] or _log_sum(parts) > _log_sum(own[place]):
            raise NoMatch(
                f"the next token does not tell the label {label_space[place]!r} from others that begin alike (listed: "
                f"{_shown(tokens)}); use scoring='prompt-logprobs' or 'text' for these labels"
            )
    missing = [label for label, parts in zip(label_space, own, strict=True) if not parts]
    if missing and (unlisted == "refuse" or len(missing) == len(label_space)):
        advice = "" if len(missing) == len(label_space) else "; raise top_n, or take the bound with unlisted='bound'"
        raise NoMatch(
            f"{', '.join(map(repr, missing))} not among the {len(tokens)} most probable next tokens "
            f"({_shown(tokens)}){advice}"
        )
    left = 1 - math.fsum(map(math.exp, tokens.values()))
    # Where the list leaves nothing over, an unlisted label is as good as ruled out, and its score is still finite.
    bound = min(*tokens.values(), math.log(max(left, math.ulp(0.0))))
    return [_log_sum(parts) if parts else bound for parts in own]


def _shown(tokens: Mapping[str, float]) -> str:
    shown = [f"{token!r} {math.exp(value):.3g}" for token, value in list(tokens.items())[:6]]
    return ", ".join(shown) + (", ..." if len(tokens) > 6 else "")


# -- text -----------------------------------------------------------------------------------------------------------


def reply(body: Json) -> str:
    """Return the text of a completion or chat completion.

    A reply that was cut off during its reasoning begins with ``<think>``, so that no parser takes it for an answer.

    Raises:
        EndpointError: There is no text.
        WithheldReplyError: The server withheld the text (a content filter).
    """
    choice = _choice(body)
    message = choice.get("message")
    source = message if isinstance(message, Mapping) else choice
    reason = choice.get("finish_reason")
    if reason == "content_filter":
        raise WithheldReplyError("the server withheld the reply (content filter)")
    text = source.get("content") if source is message else source.get("text")
    if isinstance(text, list):  # parts of a message
        text = "".join(str(part.get("text") or "") for part in text if isinstance(part, Mapping))
    if text is None and isinstance(source.get("refusal"), str):
        text = source["refusal"]
    if text is None and reason in ("length", "stop"):  # all tokens were spent on reasoning, or there was nothing to say
        reasoning = source.get("reasoning_content") or source.get("reasoning")
        text = f"<think>{reasoning}" if reasoning else ""
    if not isinstance(text, str):
        raise EndpointError(f"the server's reply holds no text (finish reason {clip(reason)})")
    return text

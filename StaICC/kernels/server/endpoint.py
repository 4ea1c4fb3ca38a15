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
from typing import Any, ClassVar, Literal, NamedTuple, TypeAlias
from urllib.parse import urlsplit

from StaICC.argument_syntax import argument_and_option
from StaICC.errors import ArgumentError, OutputError
from StaICC.inference.contract import ScoredLabels, Text, is_unmeasured
from StaICC.inference.identity import Identity
from StaICC.inference.planned_requests import PlannedRequest, byte_size
from StaICC.kernels.protocol import (
    Capability,
    LastBlank,
    checked_labels,
    label_probabilities,
    with_blank,
    without_blank,
)
from StaICC.kernels.registry import option_types, split_options
from StaICC.kernels.server.guided_replies import IGNORED, allows_reply
from StaICC.kernels.server.label_tokens import (
    ListedTokens,
    listed_tokens_of_labels,
    mass_without_text,
    unknown_mark,
)
from StaICC.kernels.server.prompt_cuts import CANNOT_COUNT, NEVER_CUT, PromptCheck, measured_texts
from StaICC.kernels.server.transport import (
    KEY_VARIABLE,
    Api,
    ServerOptions,
    Transport,
    UnusableEndpointError,
    clip,
    edition_text,
    for_a_chat_server,
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

_SPECIAL = re.compile(r"(?:<\|[^<>|\s]+\|>|</?[A-Za-z_]+>|\[[A-Z]+\])$")
"""The name of a special token at the end of a text, such as ``<|im_start|>``, ``</s>`` or ``[BOS]``."""
_MOSTLY = 0.5
"""Tokens without visible text that have more than this probability are most of what the model predicts."""
_SLACK = 1e-3
"""By how much a log-probability may be above zero: servers compute in 16 bits."""


def other_scoring() -> str:
    """Return what to use with a server that returns no log-probabilities of the prompt."""
    other = argument_and_option("scoring", "top-logprobs")
    return f"use {other}, or {for_a_chat_server()}"


class EchoError(EndpointError):
    """A response has no usable echo of the prompt."""


class NoMatch(OutputError):
    """The listed next tokens do not tell which label the model predicts."""


def _log_probability(value: object, what: str) -> float:
    """Return a log-probability that a server sent.

    Args:
        value: What the server sent.
        what: What it is the log-probability of, for the message.

    Raises:
        EndpointError: It is no number of at most 0, within rounding.
    """
    is_number = isinstance(value, (int, float)) and not isinstance(value, bool)
    if is_number and math.isfinite(value) and value <= _SLACK:  # type: ignore[arg-type, operator]
        return min(float(value), 0.0)  # type: ignore[arg-type]
    got = "no log-probability" if value is None else f"{value!r} as log-probability"
    raise EndpointError(f"the server gave {got} of {what}; a number of at most 0 was expected")


# -- prompt log-probabilities ---------------------------------------------------------------------------------------


class EchoedToken(NamedTuple):
    """A token of a text that a server echoed."""

    start: int
    """Position in the text at which it begins."""

    text: str

    log_probability: object
    """What the server sent as its log-probability; not yet checked."""


def echoed_tokens(body: Mapping[str, Any], text: str) -> list[EchoedToken]:
    """Return the tokens of a text that a server echoed; where not all of them can be found, the last ones.

    The server lists three kinds of tokens in one list: special ones before the text, those of the text, and those that
    it generated after the text. The text's tokens are those that spell it.

    Args:
        body: The server's answer to a completion with ``echo``.
        text: The text that was sent.

    Raises:
        EchoError: The echo is of another text, or its log-probabilities are missing, cut short, constant, or not
            those of the text's tokens.
    """
    choice = only_choice(body)
    echoed_text = choice.get("text")
    if not isinstance(echoed_text, str) or not echoed_text.startswith(text):
        raise EchoError(
            f"the server returned {clip(echoed_text)}, which does not begin with the text that was sent: it cut or "
            f"changed the prompt, or does not know echo; {other_scoring()}"
        )
    listed_tokens = _listed_tokens(choice)
    tokens = [listed.text for listed in listed_tokens]

    # Tokens that were generated are listed behind those of the text: as many as the server states, or the one that was
    # requested, or none. The first of these numbers with which the tokens before spell the text is right.
    stated_count = token_counts(body).get("completion_tokens")
    possible_counts = [1, 0]
    if stated_count is not None:
        possible_counts = [stated_count, 1, 0]
    for generated_count in possible_counts:
        text_end = len(tokens) - generated_count  # the index of the first token behind the text
        if not 0 < text_end <= len(tokens):
            continue
        starts = _spell_backwards(tokens[:text_end], text)
        if starts is None:
            continue
        generated_a_token = echoed_text != text or bool(stated_count)
        if generated_a_token and generated_count == 0:
            raise EchoError(f"no log-probability of the generated token: cut short or shifted; {other_scoring()}")
        tokens_of_text = listed_tokens[text_end - len(starts) : text_end]
        echoed = []
        for start, listed in zip(starts, tokens_of_text, strict=True):
            echoed.append(EchoedToken(start, listed.text, listed.log_probability))
        return echoed
    raise EchoError(
        f"the server's tokens do not spell the text that was sent (they end in {clip(''.join(tokens[-4:]))}, the text "
        f"in {clip(text[-30:])}); they are cut short or shifted"
    )


class _ListedToken(NamedTuple):
    """A token of a completion with ``echo``."""

    text: str
    log_probability: object
    """What the server sent as its log-probability; not yet checked."""


def _listed_tokens(choice: Mapping[str, Any]) -> list[_ListedToken]:
    """Return the tokens of a completion with ``echo``.

    Raises:
        EchoError: They are missing, their numbers differ, a token is no text, or four and more log-probabilities are
            the same.
    """
    logprobs = choice.get("logprobs")
    if not isinstance(logprobs, Mapping):
        logprobs = {}
    tokens = logprobs.get("tokens")
    values = logprobs.get("token_logprobs")
    if not isinstance(tokens, list) or not isinstance(values, list) or not tokens:
        raise EchoError(f"no log-probabilities of the prompt's tokens; {other_scoring()}")
    if len(tokens) != len(values):
        raise EchoError(f"{len(values)} log-probabilities for {len(tokens)} tokens of the server are cut short")
    if not all(isinstance(token, str) for token in tokens):
        raise EchoError("the server lists tokens that are no texts")
    # The first token of a text has no log-probability, so servers send null for it.
    present_values = [value for value in values if value is not None]
    if len(values) >= 4 and present_values and all(value == present_values[0] for value in present_values):
        raise EchoError(f"the server computes none: the same log-probability, {present_values[0]!r}, for every token")
    return [_ListedToken(token, value) for token, value in zip(tokens, values, strict=True)]


def _spell_backwards(tokens: Sequence[str], text: str) -> list[int] | None:
    """Return where tokens start in a text, found from the last one backwards; None if the tokens do not spell the text.

    The last token must be the end of the text, the token before it the end of what is left, and so on. The search ends
    at the beginning of the text: tokens before it are special ones that the server added. It also ends at a character
    that is not ASCII and that the token does not show: several tokens may share its bytes.

    Args:
        tokens: The tokens that the server listed; the last ones are those of the text.
        text: The text.

    Returns:
        The positions of the last tokens, as many as were found, ascending.

    Example:
        >>> _spell_backwards(["<s>", "I", " see"], "I see"), _spell_backwards(["I", " say"], "I see")
        ([0, 1], None)
    """
    starts_backwards: list[int] = []
    remaining_tokens = list(tokens)
    unspelled_length = len(text)  # the number of characters at the beginning that no token spells yet
    while unspelled_length > 0:
        token = remaining_tokens[-1] if remaining_tokens else None
        if token is not None and text.endswith(token, 0, unspelled_length):
            unspelled_length -= len(token)  # by nothing for a token without text: it is where the next one starts
            starts_backwards.append(unspelled_length)
            remaining_tokens.pop()
            continue
        special_token = _SPECIAL.search(text, 0, unspelled_length)
        if special_token is not None:
            # The text names a special token here, whose name the server does not list. It is skipped.
            unspelled_length = special_token.start()
            continue
        last_character = text[unspelled_length - 1]
        may_be_shared_by_tokens = not last_character.isascii()
        if token is not None and may_be_shared_by_tokens:
            break  # what was found so far counts
        return None
    if not starts_backwards:
        return None
    return starts_backwards[::-1]


def joint_log_probabilities(
    echoes: Sequence[Sequence[EchoedToken]], prompt: str, label_space: Sequence[str]
) -> list[float]:
    """Return the log-probability of each label after a prompt: the sum of those of its tokens, in nats.

    A tokenizer may join the end of the prompt with the beginning of a label. So what is scored begins where the last
    token ends that all echoes have in common. That is the end of the prompt, or a position shortly before it.

    Args:
        echoes: For each label, the tokens of prompt + label with their log-probabilities.
        prompt: The prompt.
        label_space: The labels.

    Raises:
        EndpointError: A label's tokens cannot be separated from the prompt's, or lack a log-probability, or all labels
            have exactly the same score.
    """
    scored_from = _last_common_border(echoes, prompt)
    if scored_from is None:
        raise EndpointError(
            f"the echoed tokens do not tell where the labels {', '.join(map(repr, label_space))} begin; "
            "a label with characters that no single token shows cannot be scored this way"
        )
    scores = []
    for echo, label in zip(echoes, label_space, strict=True):
        log_probabilities = []
        for token in _tokens_from(echo, scored_from):
            what = f"the token {token.text!r} of the label {label!r}"
            log_probabilities.append(_log_probability(token.log_probability, what))
        scores.append(math.fsum(log_probabilities))
    if len(scores) >= 3 and len(set(scores)) == 1:
        raise EndpointError(f"the server gave all {len(scores)} labels exactly the same log-probability, {scores[0]!r}")
    return scores


def _last_common_border(echoes: Sequence[Sequence[EchoedToken]], prompt: str) -> int | None:
    """Return the position in a prompt from which labels are scored: there, the last common token of all echoes ends.

    A tokenizer may join the end of the prompt with the beginning of a label, so the position can be before the end of
    the prompt. To find it, the positions at which tokens start are compared, token by token. The result is the last one
    before the first token that starts at different positions.

    Args:
        echoes: The echo of prompt + label, for each label.
        prompt: The prompt.

    Returns:
        The number of characters before the position; None if the echoes differ from the first token on.

    Example:
        >>> joined_to_blank = [EchoedToken(0, "a:", None), EchoedToken(2, " yes", None)]
        >>> after_blank = [EchoedToken(0, "a:", None), EchoedToken(2, " ", None), EchoedToken(3, "no", None)]
        >>> _last_common_border([joined_to_blank, after_blank], "a: ")
        2
    """
    # An echo may show the end of the prompt only, so positions are compared from the first one that all echoes show.
    first_shown = max(echo[0].start for echo in echoes)
    starts_by_echo = []
    for echo in echoes:
        starts = []
        for token in echo:
            if token.text and first_shown <= token.start <= len(prompt):
                starts.append(token.start)
        starts_by_echo.append(starts)

    last_common_start = None
    for starts_of_token in zip(*starts_by_echo, strict=False):  # up to the end of the shortest
        if len(set(starts_of_token)) > 1:
            break
        last_common_start = starts_of_token[0]
    return last_common_start


def _tokens_from(echo: Sequence[EchoedToken], border: int) -> Sequence[EchoedToken]:
    """Return the tokens of an echo that begin at a position or after it; none if no token begins there.

    Tokens without text that are listed before the first one with text are left out.
    """
    for index, token in enumerate(echo):
        if token.text and token.start == border:
            return echo[index:]
    return []


# -- top log-probabilities of the next token ------------------------------------------------------------------------


def next_tokens(body: Mapping[str, Any], requested_count: int) -> dict[str, float]:
    """Return the most probable next tokens of a response, by their texts, with their log-probabilities.

    Args:
        body: The response to a completion or a chat completion.
        requested_count: How many were requested. If a server lists one more, the token that was drawn, the least
            probable one is left out.

    Returns:
        The log-probabilities in nats by the tokens' texts, the most probable first.

    Raises:
        EndpointError: The list is missing, too short to be one, constant, or not of log-probabilities.
    """
    entries = _listed_next_tokens(only_choice(body))
    if not entries:
        raise EndpointError(
            f"the server gave no list of the most probable next tokens; use {argument_and_option('scoring', 'text')}"
        )

    # Several tokens may have the same text: their probabilities add up.
    log_probabilities: dict[str, float] = {}
    for token, value in entries:
        if not isinstance(token, str):
            raise EndpointError(f"the server lists {clip(token)} as a next token, which is no text")
        if value == -math.inf:
            continue
        log_probability = _log_probability(value, f"the next token {token!r}")
        if token in log_probabilities:
            log_probability = log_sum_exp([log_probabilities[token], log_probability])
        log_probabilities[token] = log_probability
    most_probable_first = sorted(log_probabilities.items(), key=lambda item: -item[1])
    tokens = dict(most_probable_first[:requested_count])
    _check_next_tokens(tokens, requested_count)
    return tokens


def _listed_next_tokens(choice: Mapping[str, Any]) -> list[tuple[object, object]]:
    """Return the most probable next tokens that a response lists, as pairs of a token and its log-probability.

    Neither of them is checked. The list is empty if the response has none.

    Args:
        choice: The choice of the response to a completion or a chat completion.
    """
    match choice.get("logprobs"):
        # A chat completion: {"content": [{"top_logprobs": [{"token": "yes", "logprob": -0.1}, ...]}]}
        case {"content": [{"top_logprobs": list(entries)}, *_]}:
            records = [entry for entry in entries if isinstance(entry, Mapping)]
            return [(record.get("token"), record.get("logprob")) for record in records]
        # A completion: {"top_logprobs": [{"yes": -0.1, ...}]}
        case {"top_logprobs": [Mapping() as log_probabilities, *_]}:
            return list(log_probabilities.items())
    return []


def _check_next_tokens(tokens: Mapping[str, float], requested_count: int) -> None:
    """Refuse a list of the most probable next tokens whose log-probabilities no model can have computed.

    Args:
        tokens: The log-probabilities of the listed tokens.
        requested_count: How many were requested.

    Raises:
        EndpointError: It has fewer than two tokens, all have the same probability, or their sum is above 1.
    """
    if len(tokens) < 2:
        raise EndpointError(
            f"the server lists {len(tokens)} next tokens, where {requested_count} were asked for (or applied its "
            "temperature)"
        )
    values = list(tokens.values())
    if len(values) >= 3 and len(set(values)) == 1:
        raise EndpointError(f"the server computes none: the same log-probability, {values[0]!r}, for every next token")
    total = math.fsum(map(math.exp, values))
    if total > 1 + len(values) * _SLACK:
        raise EndpointError(f"the probabilities of the listed next tokens add up to {total:.4g}, above 1")


def next_token_scores(tokens: Mapping[str, float], label_space: Sequence[str], unlisted: Unlisted) -> list[float]:
    """Score labels by a server's list of the most probable next tokens: by those that begin the label.

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
    tokens_by_label = listed_tokens_of_labels(tokens, label_space)
    bound_of_unlisted_token = _bound_of_unlisted_token(tokens)
    scores = []
    missing_labels = []
    best_listed_score = -math.inf
    for label, tokens_of_label in zip(label_space, tokens_by_label, strict=True):
        if tokens_of_label.unambiguous:
            score = log_sum_exp(tokens_of_label.unambiguous)
            best_listed_score = max(best_listed_score, score)
        else:
            # An upper bound: a token that is not listed may begin the label, and all ambiguous ones may belong to it.
            score = log_sum_exp([bound_of_unlisted_token, *tokens_of_label.ambiguous])
            missing_labels.append(label)
        scores.append(score)

    for label, tokens_of_label, score in zip(label_space, tokens_by_label, scores, strict=True):
        if _is_indistinct(tokens_of_label, score, best_listed_score, unlisted):
            raise _indistinct_label_error(label, tokens)
    all_are_missing = len(missing_labels) == len(label_space)
    if all_are_missing or (missing_labels and unlisted == "refuse"):
        raise _missing_labels_error(missing_labels, tokens, all_are_missing)
    return scores


def _indistinct_label_error(label: str, tokens: Mapping[str, float]) -> NoMatch:
    """Return the error for a label that the listed next tokens do not tell from others, or from another word."""
    return NoMatch(
        f"the next token does not tell the label {label!r} from others that begin alike, or from another word "
        f"(listed: {_first_tokens(tokens)}); use {argument_and_option('scoring', 'prompt-logprobs')} or "
        f"{argument_and_option('scoring', 'text')} for these labels"
    )


def _missing_labels_error(labels: Sequence[str], tokens: Mapping[str, float], all_are_missing: bool) -> NoMatch:
    """Return the error for labels that none of the listed next tokens begins.

    Args:
        labels: These labels.
        tokens: Log-probabilities of the listed tokens.
        all_are_missing: Whether these are all labels of the label space.
    """
    names = ", ".join(map(repr, labels))
    advice = _advice_about_missing_labels(tokens, labels, all_are_missing)
    return NoMatch(f"{names} not among the {len(tokens)} most probable next tokens ({_first_tokens(tokens)}){advice}")


def _bound_of_unlisted_token(tokens: Mapping[str, float]) -> float:
    """Return the largest log-probability that a token which is not listed can have.

    It has at most the probability of the least probable listed token, and at most one minus those of all listed tokens.

    Args:
        tokens: Log-probabilities of the listed tokens, which are the most probable ones.
    """
    listed_probability = math.fsum(map(math.exp, tokens.values()))
    smallest_positive_number = math.ulp(0.0)  # its logarithm is finite
    remaining_probability = max(1 - listed_probability, smallest_positive_number)
    return min(*tokens.values(), math.log(remaining_probability))


def _is_indistinct(tokens_of_label: ListedTokens, score: float, best_listed_score: float, unlisted: Unlisted) -> bool:
    """Return whether it is open if a label is predicted, because next tokens may begin it, but also something else.

    Args:
        tokens_of_label: The listed tokens that may begin the label.
        score: The score of the label; if it has no unambiguous token, an upper bound with all ambiguous ones.
        best_listed_score: The largest score of a label that has an unambiguous token.
        unlisted: As for :func:`next_token_scores`.
    """
    if not tokens_of_label.ambiguous:
        return False
    if tokens_of_label.unambiguous:
        # The score is that of the unambiguous tokens. The ambiguous ones must not have more probability.
        return log_sum_exp(tokens_of_label.ambiguous) > score
    if unlisted == "refuse":
        return True
    # With its upper bound, the label could be more probable than all labels whose scores are known.
    return score > best_listed_score


def _advice_about_missing_labels(
    tokens: Mapping[str, float], missing_labels: Sequence[str], all_are_missing: bool
) -> str:
    """Return what to do about labels that are not listed, as the end of a message; empty if nothing is known."""
    mark = unknown_mark(tokens, missing_labels)
    if mark is not None:
        return (
            f"; the server writes {mark!r} in front of labels, which is not known as the mark of a blank. Use "
            f"{argument_and_option('scoring', 'text')}, or report it"
        )
    if math.exp(mass_without_text(tokens)) > _MOSTLY:
        return "; most of the probability is of tokens without visible text, such as a blank or a line break"
    if all_are_missing:
        return ""
    bound_setting = argument_and_option("unlisted", "bound")
    return f"; raise {argument_and_option('top_n')}, or take the bound with {bound_setting}"


def _first_tokens(tokens: Mapping[str, float]) -> str:
    """Return the first six of the listed next tokens with their probabilities, for a message."""
    entries = [f"{token!r} {math.exp(value):.3g}" for token, value in list(tokens.items())[:6]]
    if len(tokens) > 6:
        entries.append("...")
    return ", ".join(entries)


SendRequest: TypeAlias = Callable[[Mapping[str, Any]], Mapping[str, Any]]

DOUBT = 0.5
"""Nats by which the log-probabilities of a generated and of an echoed token may differ: servers compute in 16 bits, and
batch as they like."""

_ATTEMPTS = 5
"""Number of places in a prompt at which a generated token is compared with its echo, at most."""
_AGREEMENTS = 2
"""Number of comparisons that must agree."""
_SHORT = "text: a label:"
"""A prompt without anything special: if its echo is wrong, all are."""

_LOG = logger(__name__)


def echo(request: SendRequest, text: str) -> list[EchoedToken]:
    """Request a text's tokens with their log-probabilities from a server, and return them.

    One token is generated behind the text and not used, because some servers take ``max_tokens=0`` for "no limit".

    Args:
        request: Sends a request, and returns the response.
        text: The text.

    Raises:
        EchoError: The response has no usable echo of the text.
    """
    body = request({"prompt": text, "max_tokens": 1, "temperature": 0, "echo": True, "logprobs": 1})
    return echoed_tokens(body, text)


class _ComparedToken(NamedTuple):
    """A token that a server generated after a text, and then echoed at the end of that text."""

    token: str
    generated: float
    """Its log-probability when it was generated."""
    echoed: float
    """Its log-probability in the echo."""


def _compare_at_end(request: SendRequest, text: str) -> _ComparedToken | None:
    """Return the log-probabilities of a token after a text: when the server generates it, and when it echoes it.

    Args:
        request: Sends a request, and returns the response.
        text: The text.

    Returns:
        The token with both; None if the server generates no visible text, or the echo has another token at its end.
    """
    body = request({"prompt": text, "max_tokens": 1, "temperature": 0, "logprobs": 1})
    match body.get("choices"):
        case [{"text": generated_text, "logprobs": {"tokens": [str(token)], "token_logprobs": [float(generated)]}}]:
            pass
        case _:
            return None
    if not token.strip() or token != generated_text:
        return None
    last_token = echo(request, text + token)[-1]
    echoed = last_token.log_probability
    if last_token.text != token or not isinstance(echoed, float):
        return None
    return _ComparedToken(token, generated, echoed)


def _echo_fault(request: SendRequest, prompt: str) -> str | None:
    """Return why the server's echo cannot be used; None if it can.

    An echo is right if a token has the same log-probability when it is generated after a text and when text + token is
    echoed. That is compared after the prompt, after the prompt without its last word, without its last two words, and
    so on, until two comparisons agree.

    Args:
        request: Sends a request, and returns the response.
        prompt: A prompt of the run.
    """
    try:
        echo(request, _SHORT)  # a text without anything special, for which an echo must have all that it needs
    except EchoError as error:
        return str(error)
    text = prompt.rstrip()
    agreements = 0
    for _ in range(_ATTEMPTS):
        compared = _compare_at_end(request, text) if text else None
        text = _without_last_word(text)
        if compared is None:  # nothing can be compared after this text
            continue
        if abs(compared.echoed - compared.generated) > DOUBT:
            return (
                f"the server's echo cannot be trusted: the token {compared.token!r} has log-probability "
                f"{compared.generated:.3f} when it is generated, but {compared.echoed:.3f} in the echoed prompt; "
                f"{other_scoring()}"
            )
        agreements += 1
        if agreements == _AGREEMENTS:
            return None
    if not agreements:
        _LOG.warning("a server's echoed log-probabilities could not be compared with generated ones; they are believed")
    return None


def _without_last_word(text: str) -> str:
    """Return a text without its last word and the white space before it."""
    words_and_spaces = re.split(r"(\s+)", text)
    return "".join(words_and_spaces[:-2])


ServerScoring = Literal["prompt-logprobs", "top-logprobs", "text"]
Guided = Literal["", "choice", "json"]
ScoresOrReply = list[float] | str

MUCH_WITHOUT_TEXT = 0.1
"""A run has a warning if next tokens without visible text have this probability on average."""

_TIES = 8
"""Exact ties of all labels in this many queries, one after the other, are no accident."""


class _TieCheck:
    """Finds a server whose scores are made up: in its first queries, all labels have exactly the same score.

    As soon as one query has different scores, later ties are believed. They may be accidents, and which queries follow
    one another depends on the threads.
    """

    def __init__(self) -> None:
        """Begin without any query."""
        self.tells_labels_apart = False
        """Whether the labels of any query so far had different scores."""
        self._tied_queries = 0
        """Number of queries so far in which all labels (two at least) had exactly the same score."""

    def fault(self, scores: Sequence[Sequence[float]]) -> str | None:
        """Return why the scores of queries cannot be right; ``None`` if they can.

        A server computes no scores if all labels have exactly the same score in each of its first queries, at least
        :data:`_TIES` of them. Once a query had different scores, queries with equal ones are accepted.

        Args:
            scores: The scores of the labels for each query that was scored since the last call.
        """
        if any(len(set(row)) > 1 for row in scores):
            self.tells_labels_apart = True
        if self.tells_labels_apart:
            return None
        # All scores of each query are equal. One label alone is no tie.
        self._tied_queries += sum(len(row) > 1 for row in scores)
        if self._tied_queries < _TIES:
            return None
        return f"the server returned exactly the same score for all labels in each of {self._tied_queries} queries"


_VERSION = 4
"""Part of the identity. Raised with any change that can move a score."""

WHO = frozenset({"base_url", "model", "served_model"})
"""The options that identify the model."""

NO_NUMBERS = frozenset(
    {"allow_edition_change", "backoff", "cache_control", "concurrency", "longest_wait", "retries", "timeout"}
)
"""The options that change no number. All others are settings of the identity."""

_FORMATS = {"plain": "completions", "chat": "chat", "chat-turns": "chat", "chat-labels": "chat"}
"""The interface for each prompt format of the other kernels."""


INSTRUCTION = "Complete the last line with its label. Answer with nothing but one of these labels:"
"""The instruction of the prompt format ``chat-labels``; the labels follow."""


class _Requirement(NamedTuple):
    """An option that changes numbers only where another option has one of these values."""

    option: str
    other_option: str
    values: tuple[str, ...]


_REQUIREMENTS = (
    _Requirement("guided", "scoring", ("text",)),
    _Requirement("max_tokens", "scoring", ("text",)),
    _Requirement("top_n", "scoring", ("top-logprobs",)),
    _Requirement("unlisted", "scoring", ("top-logprobs",)),
    _Requirement("last_blank", "scoring", ("prompt-logprobs", "top-logprobs")),
    _Requirement("last_blank", "api", ("completions",)),
    _Requirement("system", "api", ("chat",)),
    _Requirement("turns", "api", ("chat",)),
    _Requirement("label_list", "api", ("chat",)),
    _Requirement("label_list", "scoring", ("text",)),
)
_GUIDED_JSON = _Requirement("guided", "api", ("chat",))
"""What ``guided="json"`` needs in addition: completions have no response format."""


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


def _checked_url(base_url: object) -> str:
    """Return the address of a server in its shortest form: without the default port and a slash at the end.

    Args:
        base_url: What was given as the address.

    Raises:
        ArgumentError: It is no address, or has a part that identities and messages must not show, such as a password.
    """
    try:
        text = base_url.strip() if isinstance(base_url, str) else ""
        parts = urlsplit(text)
        port = parts.port
        host = parts.hostname or ""
    except ValueError:
        raise ArgumentError("base_url is no address; expected one such as 'http://localhost:8000/v1'") from None
    has_account = parts.username is not None or parts.password is not None
    if has_account or parts.query or parts.fragment:
        raise ArgumentError(f"base_url must have no user name, password, query or fragment; the key is {KEY_VARIABLE}")
    if parts.scheme not in ("http", "https") or not host:
        raise ArgumentError(
            "base_url must be a text that begins with http:// or https:// and names a host, as in "
            "openai:http://localhost:8000/v1#NAME"
        )
    if ":" in host:  # an IPv6 address
        host = f"[{host}]"
    default_port = {"http": 80, "https": 443}[parts.scheme]
    if port is not None and port != default_port:
        host = f"{host}:{port}"
    return f"{parts.scheme}://{host}{parts.path.rstrip('/')}"


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
    the probabilities of unlisted labels are too high, and the predicted label is correct unless the best listed label
    has that bound itself: then all tie."""

    guided: Guided = ""
    """Allow no reply but a label (``"text"``): ``"choice"`` by ``structured_outputs`` (vLLM), ``"json"`` by
    ``response_format`` with a JSON schema (``api="chat"``; most servers). A server that ignores it ends the run."""

    label_list: bool = False
    """Begin the message of each prompt with an instruction that lists the labels (``api="chat"``, ``"text"``). The
    option ``prompt_format=chat-labels`` sets it."""

    def __post_init__(self) -> None:
        """Check the options, and set what this process keeps about the server: its connections and its checks.

        Raises:
            ArgumentError: An option is invalid, or does not fit another one.
        """
        # The dataclass is frozen, so its attributes cannot be assigned.
        object.__setattr__(self, "base_url", _checked_url(self.base_url))
        super().__post_init__()
        server_options = {field.name: getattr(self, field.name) for field in fields(ServerOptions)}
        object.__setattr__(self, "_transport", Transport(ServerOptions(**server_options)))
        object.__setattr__(self, "_prompt_check", PromptCheck())
        object.__setattr__(self, "_tie_check", _TieCheck())
        if not self.model:
            raise ArgumentError("model must be the name of a model as the server calls it, not empty")
        for name in ("base_url", "model", "served_model", "system"):
            if has_key(getattr(self, name) or ""):
                raise ArgumentError(f"{name} holds the key from {KEY_VARIABLE}, and is shown in results; leave it out")
        if self.api == "chat" and self.scoring == "prompt-logprobs":
            raise ArgumentError(f"api: got 'chat', which does not echo prompts; {other_scoring()}")
        if self.label_list and self.turns:
            raise ArgumentError("label_list is for a prompt in one message: got turns=True, expected turns=False")
        self._check_requirements()

    def _check_requirements(self) -> None:
        """Refuse options that would have no effect.

        Raises:
            ArgumentError: An option is not the default, and another option that it needs has another value.
        """
        requirements = list(_REQUIREMENTS)
        if self.guided == "json":
            requirements.append(_GUIDED_JSON)
        for option, other_option, values in requirements:
            value = getattr(self, option)
            other_value = getattr(self, other_option)
            default = getattr(type(self), option)
            if value != default and other_value not in values:
                expected = " or ".join(map(repr, values))
                raise ArgumentError(
                    f"{option}: got {value!r} with {other_option}={other_value!r}, expected {other_option}={expected}. "
                    f"Leave {option} out, or change {other_option}"
                )

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
        address, _, model_and_options = spec.removeprefix("openai:").partition("#")
        # Other kernels have the option prompt_format. Here it is accepted as a short form of other options.
        type_by_option = {**option_types(cls), "prompt_format": "str"}
        model, all_options = split_options(model_and_options, type_by_option, model="a served model", given=options)
        prompt_format = all_options.pop("prompt_format", None)
        if prompt_format is not None:
            all_options |= _options_of_format(prompt_format, is_api_given="api" in all_options)
        if not model or not address:
            # The message does not show what was given, because an address may hold a password.
            missing = "the model" if address else "the address"
            example = "openai:BASE_URL#MODEL, such as openai:http://localhost:8000/v1#my-model"
            raise ArgumentError(f"{missing} is missing: a served model is given as {example}")
        return cls(address, model, **all_options)

    @property
    def capabilities(self) -> frozenset[Capability]:
        """The capabilities of this kernel; with ``scoring="text"`` it predicts labels without scores."""
        capabilities = frozenset({Capability.TEXT, Capability.BATCH})
        if self.scoring == "text":
            return capabilities
        return capabilities | {Capability.LABEL_SCORES}

    def identity(self) -> Identity:
        """Return which model on which server predicts, and the settings that change its predictions.

        Nothing is requested from the server. The edition of the model that it serves is in :attr:`editions`.
        """
        who = {"kernel": f"endpoint {_VERSION}", "server": self.base_url, "model": self.model}
        if self.served_model is not None:
            who["served_model"] = self.served_model
        # The settings of replies are those that are sent, with the values that the server gets.
        names_of_reply_settings = {field.name for field in fields(ReplySettings)}
        settings = {}
        for option in fields(self):
            if option.name not in names_of_reply_settings:
                settings[option.name] = str(getattr(self, option.name))
        settings |= self.reply_settings()

        left_out = WHO | NO_NUMBERS | self._options_without_effect()
        named_settings = {name: text for name, text in settings.items() if text and name not in left_out}
        return Identity(who, named_settings)

    def _options_without_effect(self) -> set[str]:
        """Return the options that change no number with the other options of this kernel, or have a silent default."""
        names = set()
        for requirement in _REQUIREMENTS:
            if getattr(self, requirement.other_option) not in requirement.values:
                names.add(requirement.option)
        if self.last_blank == "prompt":
            names.add("last_blank")
        if not self.label_list:
            names.add("label_list")
        return names

    def pin_edition(self) -> str | None:
        """Return which edition of the model the server serves now; a response of another one is an error from now on.

        This is a request for one token. A run calls this before it computes predictions. Responses to a copy of this
        kernel that is sent to workers afterwards must come from the same edition.

        Returns:
            The model and the system fingerprint that the server names; ``None`` if it names neither.

        Raises:
            EndpointError: The server failed.
        """
        prompt = "a"  # any prompt will do
        request = self._request(question_only(prompt), self.reply_request(1, ()))

        def send(_: str) -> Any:
            """Send the request; the transport adds the edition of the response to its editions."""
            return self._transport.request(self.api, request)

        self._transport.editions.clear()
        outcomes = self._transport.map([prompt], send)
        first_result(outcomes)  # raises the error if the request failed
        if not self.editions:
            return None
        return self.editions[0]

    @property
    def editions(self) -> tuple[str, ...]:
        """The editions seen in this process since the last :meth:`pin_edition`, in order of appearance."""
        texts = [edition_text(edition) for edition in self._transport.editions]
        # The text of an edition is empty where the server names neither a model nor a fingerprint.
        return tuple(text for text in texts if text)

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
        """Return the prediction for each of many prompts, with up to ``concurrency`` requests at once.

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
            sent_prompts = [self._with_label_list(prompt, labels) for prompt in prompts]
            replies = super().replies(sent_prompts, sampling=self._guide(labels))
            return [self._refused_if_unguided(reply, labels) for reply in replies]

        self._prompt_check.announce(prompts)
        scores_or_errors = self._transport.map(prompts, lambda prompt: self._scores(prompt, labels))
        scores_of_queries = [outcome for outcome in scores_or_errors if isinstance(outcome, list)]
        why_not_believed = self._tie_check.fault(scores_of_queries)
        if why_not_believed is None:
            return list(scores_or_errors)
        outcomes: list[ScoresOrReply | OutputError] = []
        for outcome in scores_or_errors:
            if isinstance(outcome, OutputError):
                outcomes.append(outcome)
            else:
                outcomes.append(EndpointError(why_not_believed))
        return outcomes

    def replies(
        self,
        prompts: Sequence[str],
        max_new_tokens: int | None = None,
        stop: Sequence[str] | None = None,
        sampling: Mapping[str, Any] | None = None,
    ) -> Sequence[str | OutputError]:
        """Return the reply to each prompt, as :meth:`ReplyKernel.replies` does.

        Raises:
            ArgumentError: The kernel has ``label_list``, but the labels of the prompts are not known here.
        """
        if self.label_list:
            raise ArgumentError(
                "label_list, which prompt_format=chat-labels sets, is not for generated texts (text_inference, the "
                "method generate): the labels to list are not known there. Use prompt_format=chat"
            )
        return super().replies(prompts, max_new_tokens, stop, sampling)

    def _replies(
        self,
        prompts: Sequence[str],
        max_new_tokens: int | None,
        stop: Sequence[str] | None,
        more_fields: Mapping[str, Any],
    ) -> Sequence[str | OutputError]:
        """Return the reply to each prompt, or the error in its place; each prompt is one request.

        Args:
            prompts: The prompts.
            max_new_tokens: The maximum number of tokens of a reply; ``None``: as the kernel's settings say.
            stop: Texts that end a reply; ``None``: the end of the line for completions, none for chat.
            more_fields: Further fields of each request.
        """
        check_prompts(prompts)
        if stop is None:
            # A label is one line, and a completion goes on after it; a chat reply ends by itself.
            stop = ["\n"] if self.api == "completions" else []
        settings = {**self.reply_request(max_new_tokens, stop), **more_fields}
        self._prompt_check.announce(prompts)
        return self._transport.map(prompts, lambda prompt: self._reply(prompt, settings))

    def _reply(self, prompt: str, settings: Mapping[str, Any]) -> Text:
        """Return the reply to one prompt.

        Args:
            prompt: The prompt.
            settings: The fields of the request but the prompt and the model.

        Raises:
            EndpointError: The server failed, cuts the prompt, or wrote the key into the reply.
        """
        self._refuse_if_cut(prompt)
        body = self._transport.request(self.api, self._request(prompt, settings))
        text = reply(body)
        if has_key(text):
            raise EndpointError(f"the reply holds the key from {KEY_VARIABLE}, so it is not used: {clip(text)}")
        may_be_cut = self._prompt_check.is_unmeasured(prompt)  # the server states no numbers of tokens
        return Text(text, text.finish_reason, unmeasured=may_be_cut)

    def _with_label_list(self, prompt: str, labels: Sequence[str]) -> str:
        """Return a prompt with the instruction that lists the labels before it, if the kernel has one."""
        if not self.label_list:
            return prompt
        return f"{INSTRUCTION} {', '.join(labels)}.\n\n{prompt}"

    def _guide(self, labels: Sequence[str]) -> dict[str, Any]:
        """Return the fields of a request that allow no reply but a label; none without ``guided``."""
        if not self.guided:
            return {}
        if self.guided == "choice":
            return {"structured_outputs": {"choice": list(labels)}}
        properties = {"label": {"type": "string", "enum": list(labels)}}
        schema = {"type": "object", "properties": properties, "required": ["label"], "additionalProperties": False}
        json_schema = {"name": "label", "strict": True, "schema": schema}
        return {"response_format": {"type": "json_schema", "json_schema": json_schema}}

    def _refused_if_unguided(self, reply: str | OutputError, labels: Sequence[str]) -> str | OutputError:
        """Return a reply, or the error in its place if ``guided`` does not allow it."""
        if not self.guided or not isinstance(reply, Text) or allows_reply(self.guided, reply, labels):
            return reply
        expected = {"choice": "a label", "json": "JSON with a label"}[self.guided]
        return UnusableEndpointError(IGNORED.format(guided=self.guided, expected=expected, reply=clip(reply)))

    def rendered(self, prompts: Sequence[str], label_space: Sequence[str] = ()) -> list[str]:
        """Return prompts as they are sent: verbatim, or as the messages of a conversation (JSON).

        Args:
            prompts: The prompts.
            label_space: The labels of all of them, which the instruction of ``label_list`` names.

        Raises:
            ArgumentError: ``label_list`` needs the labels.
        """
        if self.label_list and not label_space:
            raise ArgumentError("rendered: got no label_space, expected the labels, which label_list names in prompts")
        texts = []
        for prompt in prompts:
            request = self._request(self._with_label_list(prompt, label_space), {})
            if self.api == "completions":
                texts.append(request["prompt"])
            else:
                texts.append(json.dumps(request["messages"], ensure_ascii=False))
        return texts

    def answer_warnings(self, answers: Sequence[object]) -> list[str]:
        """Return warnings about what the responses to prompts said, which their predictions record.

        Args:
            answers: Predictions of this kernel.
        """
        warnings = []
        masses = []
        for answer in answers:
            if isinstance(answer, ScoredLabels) and answer.mass_without_text is not None:
                masses.append(answer.mass_without_text)
        if masses:
            mean = math.fsum(masses) / len(masses)
            if mean >= MUCH_WITHOUT_TEXT:
                prompt_ends_in_blank = self.api == "completions" and self.last_blank == "prompt"
                warnings.append(_warning_without_text(masses, prompt_ends_in_blank))
        if any(is_unmeasured(answer) for answer in answers):
            warnings.append(CANNOT_COUNT)
        return warnings

    def close(self) -> None:
        """Close the connections of this process; the next query opens them again."""
        self._transport.close()

    def _request(self, prompt: str, settings: Mapping[str, Any]) -> dict[str, Any]:
        """Return the fields of a request for a prompt, without the model."""
        if self.last_blank == "label":
            prompt = without_blank(prompt)
        if self.api == "completions":
            return {"prompt": str(prompt), **settings}
        return {"messages": self.messages(prompt), **settings}

    def _refuse_if_cut(self, prompt: str) -> None:
        """Raise an error if the server reads less than the prompt, such as its last 4,096 tokens only.

        To find out, the server counts tokens (:mod:`StaICC.kernels.server.prompt_cuts`). A prompt that is not longer
        than one that was read in full needs no count.

        Raises:
            EndpointError: The server cuts the prompt, or its count failed.
        """
        if self._prompt_check.is_known_to_be_read(prompt):
            return
        # A lock: one thread counts at a time. The others wait, and use what it found.
        with self._transport.check_lock:
            self._prompt_check.refuse_if_cut(prompt, self._count_tokens)

    def _count_tokens(self, text: str) -> int | None:
        """Return the tokens of a prompt as the server counts them, with a request for one token."""
        prompt = self._measured_prompt(text, self._prompt_check.most_demonstrations)
        body = self._transport.request(self.api, self._request(prompt, self.reply_request(1, ())))
        return token_counts(body).get("prompt_tokens")

    def _measured_prompt(self, text: str, demonstration_count: int) -> str:
        """Return a text as a prompt of which the server counts the tokens.

        If demonstrations are sent as turns, every message has tokens of its own. So the text gets demonstrations of one
        letter, as many as the prompts of the run have.

        Args:
            text: The text.
            demonstration_count: The most demonstrations that a prompt of the run has.
        """
        if not self.turns:
            return text
        demonstrations = [Demonstration("a", "a", "")] * demonstration_count
        return PromptText(PromptParts(text, demonstrations, "a"))

    def planned_requests(self, prompt: str, label_space: Sequence[str]) -> list[PlannedRequest]:
        """Return the requests that this kernel will send for a prompt, for forecasts.

        Args:
            prompt: The prompt.
            label_space: The labels.
        """
        if self.scoring == "text":
            return [self._planned(self._with_label_list(prompt, label_space), self._reply_limit())]
        if self.scoring == "top-logprobs":
            return [self._planned(prompt, 1)]
        return [self._planned(prompt + label, 1) for label in label_space]

    def planned_checks(self, longest: str, longest_before: str) -> list[PlannedRequest]:
        """Return the requests that check the server before prompts are sent, for forecasts of the cost of a run.

        A run sends its prompts in several groups. Before the first group, one request asks for the served edition
        (:meth:`pin_edition`), and with scores of echoed tokens some compare the echo (:func:`_echo_fault`). With other
        scores, the tokens of the longest prompt of each group are counted, if it is longer than those before
        (:mod:`StaICC.kernels.server.prompt_cuts`).

        Args:
            longest: The longest prompt of the group.
            longest_before: The longest prompt of all groups before; empty before the first one.
        """
        checks = []
        reads_echo = self.scoring == "prompt-logprobs"
        is_first_group = not longest_before
        if is_first_group:
            checks.append(self._planned(question_only("a"), output_tokens=1))
        if is_first_group and reads_echo:
            checks.append(self._planned(_SHORT, output_tokens=1))
            # Usually all comparisons agree. Each has two requests: a token is generated, and then echoed.
            comparison_requests = 2 * _AGREEMENTS
            checks += [self._planned(longest, output_tokens=1)] * comparison_requests

        size = byte_size(longest)
        is_counted = not reads_echo and size > NEVER_CUT and size > byte_size(longest_before)
        if is_counted:
            demonstration_count = 0
            if isinstance(longest, PromptText):
                demonstration_count = len(longest.parts.demonstrations)
            for text in measured_texts(longest):
                measured_prompt = self._measured_prompt(text, demonstration_count)
                checks.append(self._planned(measured_prompt, output_tokens=1))
        return checks

    def _planned(self, prompt: str, output_tokens: int | None) -> PlannedRequest:
        """Return the request for a prompt, as a forecast counts it."""
        if self.api == "completions":
            text = self._request(prompt, {})["prompt"]
            return PlannedRequest(text, message_count=0, output_tokens=output_tokens)
        return self._planned_chat(prompt, output_tokens)

    def announce_prompts(self, prompts: Sequence[str]) -> None:
        """Note the longest prompt of a run, which is the first that is measured."""
        self._prompt_check.announce(prompts)

    def _scores(self, prompt: str, labels: Sequence[str]) -> list[float]:
        """Return the probabilities of the labels for one prompt."""
        if self.scoring == "top-logprobs":
            return self._scores_of_next_tokens(prompt, labels)
        return self._scores_of_echo(prompt, labels)

    def _scores_of_next_tokens(self, prompt: str, labels: Sequence[str]) -> list[float]:
        """Return the probabilities of the labels after a prompt, from the list of the most probable next tokens.

        Raises:
            EndpointError: The server failed, cuts the prompt, or lists no usable tokens.
            NoMatch: The listed tokens do not tell which label the model predicts.
        """
        self._refuse_if_cut(prompt)
        settings = self.reply_request(1, ())
        if self.api == "chat":
            settings |= {"logprobs": True, "top_logprobs": self.top_n}
        else:
            settings |= {"logprobs": self.top_n}
        body = self._transport.request(self.api, self._request(prompt, settings))
        tokens = next_tokens(body, self.top_n)
        scores = next_token_scores(tokens, labels, self.unlisted)
        probability_without_text = min(1.0, math.exp(mass_without_text(tokens)))
        return ScoredLabels(
            label_probabilities(scores),
            mass_without_text=probability_without_text,
            unmeasured=self._prompt_check.is_unmeasured(prompt),  # whether the server may have cut the prompt
        )

    def _scores_of_echo(self, prompt: str, labels: Sequence[str]) -> list[float]:
        """Return the probabilities of the labels after a prompt, from the echoed log-probabilities of all their tokens.

        Raises:
            EndpointError: The server failed, or its echo cannot be used.
        """
        transport = self._transport
        complete = functools.partial(transport.request, "completions")
        if self.last_blank == "label":
            prompt = without_blank(prompt)
            labels = with_blank(labels)
        # The server's echo is checked once in a process, by the first prompt. The threads of other prompts wait.
        with transport.check_lock:
            was_checked = transport.echo_fault != ""
            if not was_checked:
                transport.echo_fault = _echo_fault(complete, prompt)
        if transport.echo_fault is not None:
            raise UnusableEndpointError(transport.echo_fault)
        echoes = [echo(complete, prompt + label) for label in labels]
        return label_probabilities(joint_log_probabilities(echoes, prompt, labels))


def _options_of_format(prompt_format: str, is_api_given: bool) -> dict[str, Any]:
    """Return the options of a served model that mean the same as a value of ``prompt_format`` of other kernels.

    Args:
        prompt_format: The value: ``"plain"``, ``"chat"``, ``"chat-turns"`` or ``"chat-labels"``.
        is_api_given: Whether the option ``api`` is given, too.

    Raises:
        ArgumentError: There is no such format, or ``api`` is given, too.
    """
    if is_api_given:
        got = f"got prompt_format={prompt_format!r} and api"
        raise ArgumentError(f"{got}: give one of the two: the format chooses the interface")
    if prompt_format not in _FORMATS:
        raise ArgumentError(f"got prompt_format={prompt_format!r}, expected {', '.join(_FORMATS)}")
    options: dict[str, Any] = {"api": _FORMATS[prompt_format]}
    if prompt_format == "chat-turns":
        options["turns"] = True
    if prompt_format == "chat-labels":
        options["label_list"] = True
    return options


def _warning_without_text(masses: Sequence[float], prompt_ends_in_blank: bool) -> str:
    """Return the warning that a model often predicts blanks and line breaks next, instead of a label.

    Args:
        masses: For each prompt, the total probability of next tokens without visible text.
        prompt_ends_in_blank: Whether prompts are sent with a blank at their end, as in ``"Label: "``.
    """
    mean = math.fsum(masses) / len(masses)
    prompts_mostly_without = sum(mass > _MOSTLY for mass in masses)  # whose next token has mostly no visible text
    advice = ""
    if prompt_ends_in_blank:
        advice = ". With last_blank='label' the model can write the blank and the label in one token"
    return (
        f"next tokens without visible text, such as blanks and line breaks, have probability {mean:.2f} on "
        f"average, and more than {_MOSTLY} in {prompts_mostly_without} of {len(masses)} prompts. They begin no "
        f"label, and the scores leave them out{advice}"
    )

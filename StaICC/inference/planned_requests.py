"""The tokens of requests to a served model before they are sent: read, read from the provider's cache, generated.

A server counts the tokens of a request only when it is sent. Before, a tokenizer on this machine counts them, or an
estimate by bytes.

Providers keep the beginnings of prompts for some minutes, and read equal beginnings of later prompts at a lower price.
Their rules are alike: a beginning of at least 1,024 tokens is kept, in blocks of 128 tokens. That is how they are
counted here, with the prompt before as what is kept: a run sends prompts with equal beginnings one after the other.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

BYTES_PER_TOKEN = 4
"""UTF-8 bytes of a token in an estimate. With the tokenizer of SmolLM2, the prompts of the ten data sets have 3.7 to
4.6."""

BYTE_ESTIMATE = f"estimate of {BYTES_PER_TOKEN} bytes a token"

TOKENS_OF_A_MESSAGE = 3
"""Tokens that a chat template adds to each message. OpenAI documents four for its models, and templates of open models
are similar; the fourth is the line's end after each message but the last (:attr:`PlannedRequest.text`)."""
TOKENS_OF_A_CHAT = 4
"""Tokens that it adds besides: three where the reply begins, and the line's end of the last message."""

LEAST_CACHED = 1024
"""The shortest beginning in tokens that OpenAI, Google and most models of Anthropic cache."""
CACHED_BLOCK = 128
"""OpenAI caches beginnings in steps of so many tokens."""

_LONGEST_LINE = 4096
"""Characters after which the end of the last line is too far away to divide a text there."""

_COMPARED_CHARACTERS = 2**16
"""Characters that are compared at once, to find where two texts differ."""


@dataclass(frozen=True, slots=True)
class PlannedRequest:
    """A request that a run will send."""

    text: str
    """What the model reads, without what a chat template adds: the prompt, or the lines of messages."""
    message_count: int = 0
    """Number of messages of a chat; 0 for a completion."""
    output_tokens: int | None = None
    """Maximum number of tokens that the model generates; ``None`` if it is unknown."""


@dataclass(frozen=True, slots=True)
class TokenCounter:
    """Counts the tokens of texts."""

    name: str
    """The name of the tokenizer, as a forecast shows it."""
    count: Callable[[str], int]
    """Returns the number of tokens of a text."""


def byte_size(text: str) -> int:
    """Return the length of a text in UTF-8 bytes."""
    return len(text.encode("utf-8", "surrogatepass"))


def byte_estimate(text: str) -> int:
    """Return the estimated number of tokens of a text: one for :data:`BYTES_PER_TOKEN` bytes, rounded up.

    Example:
        >>> byte_estimate("12345678"), byte_estimate("123456789"), byte_estimate("")
        (2, 3, 0)
    """
    return math.ceil(byte_size(text) / BYTES_PER_TOKEN)


ESTIMATE = TokenCounter(BYTE_ESTIMATE, byte_estimate)


@dataclass(frozen=True, slots=True)
class RequestTokens:
    """The tokens of a request."""

    read: int
    """Tokens that the model reads."""
    cached: int
    """Tokens among them that the provider may read from its cache."""


class RequestCounter:
    """Counts the tokens of requests in the order in which a run sends them.

    A beginning that a text shares with the text before is counted once, so that many questions about one long context
    take little time.
    """

    def __init__(self, counter: TokenCounter) -> None:
        """Begin without a previous request.

        Args:
            counter: Counts the tokens of a text.
        """
        self._count_tokens = counter.count
        self._previous_text = ""
        self._prefix_length = 0
        """Characters of the beginning of the previous text whose tokens were counted."""
        self._prefix_tokens = 0
        """Number of tokens of this beginning."""

    def count(self, request: PlannedRequest) -> RequestTokens:
        """Return the tokens that the model reads for the next request, and how many of them the provider has cached.

        It has cached the beginning that the text of this request shares with that of the request before. A chat
        template adds tokens to each message, which are counted for the shared beginning in proportion to its length.
        """
        text = request.text
        prefix_length = _at_boundary(text, common_length(self._previous_text, text))
        if prefix_length != self._prefix_length:  # else it is the beginning that was counted for the request before
            self._prefix_length = prefix_length
            self._prefix_tokens = self._count_tokens(text[:prefix_length])
        self._previous_text = text
        prefix_tokens = self._prefix_tokens
        tokens = prefix_tokens + self._count_tokens(text[prefix_length:])

        if request.message_count:
            template_tokens = request.message_count * TOKENS_OF_A_MESSAGE + TOKENS_OF_A_CHAT
            tokens += template_tokens
            if text:
                prefix_tokens += round(template_tokens * prefix_length / len(text))
        return RequestTokens(read=tokens, cached=_cached_tokens(prefix_tokens))


def _cached_tokens(tokens: int) -> int:
    """Return how many tokens providers cache of a beginning with so many tokens: whole blocks, from 1,024 tokens on."""
    if tokens < LEAST_CACHED:
        return 0
    return tokens - tokens % CACHED_BLOCK


def common_length(first: str, second: str) -> int:
    """Return the number of characters with which two texts begin alike.

    Example:
        >>> common_length("a common beginning", "a common end"), common_length("", "a")
        (9, 0)
    """
    shorter_length = min(len(first), len(second))
    common = 0  # the texts are equal in this many characters at least
    # Block by block, since slices are compared much faster than single characters.
    while common < shorter_length:
        block = slice(common, common + _COMPARED_CHARACTERS)
        if first[block] != second[block]:
            break
        common += _COMPARED_CHARACTERS
    if common >= shorter_length:
        return shorter_length
    # They differ, or one ends, in this block. Bisection: equal in ``common`` characters, but not in ``too_many``.
    too_many = min(common + _COMPARED_CHARACTERS, shorter_length) + 1
    while common + 1 < too_many:
        middle = (common + too_many) // 2
        if first[common:middle] == second[common:middle]:
            common = middle
        else:
            too_many = middle
    return common


def _at_boundary(text: str, length: int) -> int:
    """Return the last position of a text at which it can be divided so that no token is divided.

    That is after the last line break; if that is more than 4,096 characters away, in front of the last blank.

    Args:
        text: The text.
        length: The position is not behind this one.
    """
    line_end = text.rfind("\n", 0, length) + 1
    if length - line_end <= _LONGEST_LINE:
        return line_end
    return max(line_end, text.rfind(" ", 0, length))

"""Whether a server reads prompts in full: some keep the last 4,096 tokens of a longer prompt, without an error.

The only trace is ``usage.prompt_tokens``, and one such number shows nothing: how many tokens a text should have depends
on the tokenizer. But a text that is split at a blank has as many tokens as its two halves, but for a few at the border.
So the server counts four texts: the prompt, its first half, its second half, and none. If

    tokens(prompt) < tokens(first half) + tokens(second half) - tokens(no text) - tolerance

then the server read less than the prompt. What a chat template adds is in all four numbers and cancels. If the halves
are cut too, the difference is only larger.

Servers may leave tokens in their prefix cache out of ``prompt_tokens``, with or without ``cached_tokens``. So a line of
four random digits is put in front of each counted text, and of every :data:`CHUNK` characters of it, since a cut text
begins anywhere: no earlier prompt begins like it. Nothing more is cached than a template's beginning, which all four
texts have, and ``cached_tokens`` is not needed. A difference must appear twice before a prompt is refused, since
replicas of a server have caches of their own.

The longest prompt of a run is measured first. If it was read in full, prompts that are not longer need no measurement.
A prompt of fewer than :data:`NEVER_CUT` bytes is not measured: it has fewer tokens than the shortest limit in use.

This check cannot see:

* that a server cuts fewer tokens than the tolerance (:func:`tolerance`), or fewer than those of a cached template;
* that it cuts a prompt with more tokens, but no more bytes than the measured one;
* that it counts tokens which the model does not read;
* anything, if it states no ``prompt_tokens``, or the same number for all texts. That is a warning of the run.
"""

from __future__ import annotations

import contextlib
import secrets
from collections.abc import Callable, Sequence
from typing import NamedTuple

from StaICC.errors import PromptTooLongError, WithheldReplyError
from StaICC.inference.planned_requests import byte_size
from StaICC.kernels.server.transport import EndpointError
from StaICC.prompting.prompt_text import PromptText

NEVER_CUT = 500
"""Prompts of fewer UTF-8 bytes have fewer tokens than this, which is less than any context length in use."""

CHUNK = 500
"""Characters of a measured text after which there is a line of digits again."""

CLEARLY_LONGER = 1.25
"""A prompt that has so many times the bytes of a prompt that was cut is refused without a measurement."""

CANNOT_COUNT = (
    "the server does not state how many tokens of a prompt it read (usage.prompt_tokens), so prompts that it cuts are "
    "not noticed. Check that its context length has room for the longest prompt"
)

CountTokens = Callable[[str], "int | None"]
"""Sends a text as a prompt and returns the server's ``prompt_tokens``; ``None`` if it states none."""


class PromptCutError(EndpointError):
    """The server read less than the prompt."""


class PromptTokens(NamedTuple):
    """Numbers of tokens of a prompt with lines of digits."""

    read: int
    """As many as the server read of the prompt."""

    expected: int
    """As many as it read of the halves of the prompt, together."""

    @property
    def cut(self) -> bool:
        """Whether the server read less than the prompt."""
        return self.read < self.expected - tolerance(self.expected)


class _CutPrompt(NamedTuple):
    """A prompt of which the server read a part only."""

    size: int
    """Its length in bytes."""
    tokens: PromptTokens


def tolerance(tokens: int) -> int:
    """Return how many tokens a prompt and its halves may differ by, although the server reads them in full.

    With the tokenizers of SmolLM2 and Gemma 3 they differ by none, in 780 texts of ten languages and scripts. Other
    tokenizers may split the text at a line of digits in another way, and long prompts have many such lines.

    Example:
        >>> tolerance(100), tolerance(4000)
        (8, 16)
    """
    return 8 + tokens // 500


def chunks(text: str) -> list[str]:
    """Split a text into two or more chunks of about :data:`CHUNK` characters, in front of a blank if one is near.

    Example:
        >>> chunks("one two three")
        ['one two', ' three']
    """
    length = min(CHUNK, max(1, len(text) // 2))
    text_chunks = []
    start = 0
    while start < len(text):
        end = start + length
        last_end = min(end + length // 2, len(text))
        for position in range(end, last_end):
            if text[position].isspace():
                end = position
                break
        text_chunks.append(text[start:end])
        start = end
    return text_chunks


def marked(text_chunks: Sequence[str]) -> str:
    """Return a text with a line of random digits at its beginning and in front of each chunk.

    Single digits have as many tokens whatever they are, so they add the same number to each chunk.
    """
    text = f"{_line_of_digits()}\n"
    for chunk in text_chunks:
        text += f"{_line_of_digits()}\n{chunk}"
    return text


def _line_of_digits() -> str:
    """Return four random digits with blanks between them, such as ``"0 7 3 1"``."""
    digits = f"{secrets.randbelow(10_000):04d}"
    return " ".join(digits)


def measured_texts(prompt: str) -> list[str]:
    """Return the texts whose tokens the server counts: the prompt, its first half, its second half, and none.

    Each has its lines of digits. The prompt is first: where a template is cached from then on and left out, that must
    not look like a cut.
    """
    text_chunks = chunks(prompt)
    middle = len(text_chunks) // 2
    return [marked(text_chunks), marked(text_chunks[:middle]), marked(text_chunks[middle:]), marked([])]


def measure(prompt: str, count_tokens: CountTokens) -> PromptTokens | None:
    """Return how many tokens the server reads of a prompt, and how many it should read: as many as of its halves.

    Args:
        prompt: The prompt.
        count_tokens: Sends a text to the server, and returns how many tokens the server counted.

    Returns:
        The numbers; ``None`` if the server states none, or numbers that do not grow with the text.
    """
    counts = []
    for text in measured_texts(prompt):
        count = count_tokens(text)
        if count is None:
            return None
        counts.append(count)
    whole, first_half, second_half, without_text = counts
    if first_half <= without_text or second_half <= without_text:
        return None
    return PromptTokens(whole, first_half + second_half - without_text)


def _cut_error(tokens: PromptTokens, prompt: str) -> PromptCutError:
    """Return the error for a cut prompt.

    Args:
        tokens: Its tokens.
        prompt: What to call it: ``"a prompt"``, or ``"a shorter prompt"``.
    """
    return PromptCutError(
        f"the server reads {tokens.read:,} tokens of {prompt} of about {tokens.expected:,}, and cuts the rest. "
        "Raise its context length (Ollama: num_ctx or OLLAMA_CONTEXT_LENGTH, llama.cpp: --ctx-size), or use fewer or "
        "shorter demonstrations"
    )


class PromptCheck:
    """What is known of how long the prompts are that a server reads in full.

    Args:
        longest_read: Length of the longest prompt that is known to be read in full, in bytes.
    """

    def __init__(self, longest_read: int = NEVER_CUT) -> None:
        """Begin without any measurement of this process."""
        self.longest_read = longest_read
        """Length of the longest prompt that is known to be read in full, in bytes."""
        self.most_demonstrations = 0
        """The most demonstrations of a prompt: sent as messages, each has tokens of the template."""
        self._shortest_cut: _CutPrompt | None = None
        """The shortest prompt that the server was seen to cut."""
        self._longest_announced = ""
        """The longest announced prompt that was not measured yet; empty if there is none."""
        self._cannot_count = False
        """Whether the server states no usable numbers of tokens, so that nothing can be measured."""

    def __reduce__(self) -> tuple[type[PromptCheck], tuple[int]]:
        return PromptCheck, (self.longest_read,)

    def announce(self, prompts: Sequence[object]) -> None:
        """Note the longest of the prompts that follow. It is measured before the first of them."""
        texts = [prompt for prompt in prompts if isinstance(prompt, str)]
        for text in texts:
            self._note_demonstrations(text)
        self._longest_announced = max([self._longest_announced, *texts], key=byte_size)

    def _note_demonstrations(self, prompt: str) -> None:
        if isinstance(prompt, PromptText):
            self.most_demonstrations = max(self.most_demonstrations, len(prompt.parts.demonstrations))

    def is_unmeasured(self, prompt: str) -> bool:
        """Return whether a prompt may be cut, and the server cannot be asked how much of it it reads."""
        return self._cannot_count and byte_size(prompt) > self.longest_read

    def is_known_to_be_read(self, prompt: str) -> bool:
        """Return whether a prompt needs no measurement, or none is possible."""
        return self._cannot_count or byte_size(prompt) <= self.longest_read

    def refuse_if_cut(self, prompt: str, count_tokens: CountTokens) -> None:
        """Raise an error if the server cuts a prompt.

        At first, the longest of all announced prompts is measured. If the server reads it in full, it reads all shorter
        prompts in full, so they need no measurement. Otherwise each prompt is measured.

        Args:
            prompt: The prompt.
            count_tokens: Sends a text to the server, and returns how many tokens the server counted.

        Raises:
            PromptCutError: The server reads less than this prompt.
            EndpointError: The server failed.
        """
        self._note_demonstrations(prompt)
        longest_prompt = self._longest_announced
        self._longest_announced = ""  # it is measured once
        tokens_of_longest: PromptTokens | None = None
        if not self.is_known_to_be_read(longest_prompt):
            # If the server refuses or withholds the longest prompt, that is an error of its own query only.
            with contextlib.suppress(PromptTooLongError, WithheldReplyError):
                tokens_of_longest = self._measure(longest_prompt, count_tokens)
        if self.is_known_to_be_read(prompt):
            return

        # The longest prompt was cut, or could not be measured, and this prompt may be cut, too.
        shortest_cut = self._shortest_cut
        if shortest_cut is not None and byte_size(prompt) >= CLEARLY_LONGER * shortest_cut.size:
            raise _cut_error(shortest_cut.tokens, "a shorter prompt")
        tokens: PromptTokens | None
        if prompt == longest_prompt and tokens_of_longest is not None:
            tokens = tokens_of_longest
        else:
            tokens = self._measure(prompt, count_tokens)
        if tokens is not None and tokens.cut:
            raise _cut_error(tokens, "a prompt")

    def _measure(self, prompt: str, count_tokens: CountTokens) -> PromptTokens | None:
        """Let the server count the tokens of a prompt, and keep what that says about which prompts the server cuts.

        Returns:
            The numbers of tokens; ``None`` if the server states none.
        """
        tokens = measure(prompt, count_tokens)
        is_first_cut = tokens is not None and tokens.cut and self._shortest_cut is None
        if is_first_cut:
            # It must appear twice: replicas of a server have caches of their own.
            tokens = measure(prompt, count_tokens)
        size = byte_size(prompt)
        if tokens is None:
            self._cannot_count = True
        elif not tokens.cut:
            self.longest_read = max(self.longest_read, size)
        elif self._shortest_cut is None or size < self._shortest_cut.size:
            self._shortest_cut = _CutPrompt(size, tokens)
        return tokens

"""Prompts in the format that a model was trained on: plain text, or a conversation through its chat template.

A chat prompt is the text of the tokenizer's own template, with the beginning of the reply
(``add_generation_prompt=True``), tokenized without further special tokens. Its token ids are those of
``tokenizer.apply_chat_template``. Labels are scored where the reply starts, with the tokens that they have there: with
a blank before them if the template writes one before a reply.

A template that shows the current date gets a constant one, so that the same prompt has the same tokens on every day.
"""

from __future__ import annotations

import datetime
import json
import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from StaICC.errors import ArgumentError, PromptError, StaICCError
from StaICC.kernels.huggingface.label_tokens import LabelIssue, audit_labels, deciding_tokens, reply_tokens
from StaICC.kernels.huggingface.options import KernelOptions
from StaICC.kernels.huggingface.prefix_plan import shared_length
from StaICC.kernels.huggingface.prompt_tokens import PromptReader, Reading, encode
from StaICC.kernels.noisy_channel import after_label

DATE = datetime.datetime(2024, 7, 26)
"""The date that templates show."""
_DATED = f"{{%- macro strftime_now(form) -%}}{DATE:%d %b %Y}{{%- endmacro %}}"
"""What is put before a template, for formats that are no literals."""
_NOW = re.compile(r"strftime_now\(\s*(['\"])(.*?)\1\s*\)")
_PROBE, _REPLY = "text: a label: ", "reply"


def split_turns(prompt: str, separator: str = "\n") -> list[str]:
    r"""Split a prompt into turns of the user and of the assistant, beginning and ending with the user.

    A demonstration ends with the word that ends the prompt (such as ``"label: "``), a label, and the separator.

    Args:
        prompt: The prompt.
        separator: The text at the end of each demonstration.

    Raises:
        PromptError: The prompt seems to have demonstrations, but none ends so.

    Example:
        >>> split_turns("text: sun label: good\ntext: rain label: ")
        ['text: sun label: ', 'good', 'text: rain label: ']
    """
    word = re.search(r"\S+\s*$", prompt)
    if word is None:
        return [prompt]
    end = re.escape(separator)
    turns, start = [], 0
    for found in re.finditer(f"{re.escape(word[0])}((?:(?!{end}).)+){end}", prompt, re.DOTALL):
        turns += [prompt[start : found.start(1)], found[1]]
        start = found.end()
    if not turns and prompt.count(word[0].strip()) > 1:
        raise PromptError(
            f"prompt_format='chat-turns': no demonstration ends with {word[0]!r}, a label and {separator!r}: got "
            f"{prompt[:80]!r}. Set demonstration_separator, or use prompt_format='chat'",
            0,
        )
    return [*turns, prompt[start:]]


@dataclass(frozen=True, slots=True)
class PromptFormat:
    """How a kernel writes prompts and labels for a tokenizer."""

    tokenizer: Any
    options: KernelOptions

    @property
    def special(self) -> bool:
        """Whether the tokenizer adds its special tokens; a chat template writes them itself."""
        return self.options.add_special_tokens and not self.options.is_chat

    def messages(self, prompt: str) -> list[dict[str, str]]:
        """Return a prompt as the messages of a conversation."""
        turns = [prompt]
        if self.options.prompt_format == "chat-turns":
            turns = split_turns(prompt, self.options.demonstration_separator)
        found = [{"role": ("user", "assistant")[n % 2], "content": turn} for n, turn in enumerate(turns)]
        return [{"role": "system", "content": self.options.system}] * bool(self.options.system) + found

    def render(self, prompt: str) -> str:
        """Return the text that the model reads.

        Raises:
            StaICCError: The tokenizer has no chat template, or the template refuses the messages.
        """
        return self._written(self.messages(prompt), True) if self.options.is_chat else prompt

    def _written(self, messages: list[dict[str, str]], begins_reply: bool) -> str:
        template = getattr(self.tokenizer, "chat_template", None)
        if isinstance(template, dict):  # several by name
            template = template.get("default")
        if not template:
            raise StaICCError(
                f"prompt_format={self.options.prompt_format!r} needs a chat template: the tokenizer has none. Use a "
                "model that was trained on conversations, or prompt_format='plain'"
            )
        more = json.loads(self.options.template_arguments or "{}")
        if "strftime_now" in template:
            more["chat_template"] = _DATED + _NOW.sub(lambda found: json.dumps(DATE.strftime(found[2])), template)
        try:
            return str(
                self.tokenizer.apply_chat_template(messages, tokenize=False, add_generation_prompt=begins_reply, **more)
            )
        except Exception as error:  # of the template, which is a program
            raise StaICCError(f"the chat template cannot write this prompt: {error}") from error

    def labels(self, label_space: Sequence[str]) -> list[str]:
        """Return the labels as they begin a reply: after the blank that the template writes before one, if any."""
        if not self.options.is_chat:
            return list(label_space)
        messages = self.messages(_PROBE)
        begun = self._written(messages, True)
        try:
            whole = self._written([*messages, {"role": "assistant", "content": _REPLY}], False)
        except StaICCError:  # a template may refuse to end with a reply
            whole = ""
        before = whole[len(begun) :].partition(_REPLY)[0] if whole.startswith(begun) else ""
        return [before + label for label in label_space] if not before.strip() else list(label_space)

    def deciding(self, label_space: Sequence[str]) -> tuple[list[int], int]:
        """Return the token that decides each label, and how many tokens at the end of a prompt belong to the labels.

        The second number is 0, except where a template ends with a blank that the tokenizer joins to a label.
        """
        scoring = self.options.label_scoring
        if not self.options.is_chat:
            return deciding_tokens(self.tokenizer, label_space, scoring), 0
        rows, shared = reply_tokens(self.tokenizer, self.labels(label_space), self.render(_PROBE))
        for label, row in zip(label_space, rows, strict=True):
            if not row:
                raise ArgumentError(f"the label {label!r} has no token; every label needs at least one to be scored")
        return [row[-1] if scoring == "last" else row[0] for row in rows], shared

    def audit(self, label_space: Sequence[str], text: str | None = None) -> tuple[LabelIssue, ...]:
        """Return what can spoil the labels' scores.

        Args:
            label_space: The labels.
            text: A prompt as the model reads it, for the issues that depend on it.
        """
        context = self.render(_PROBE) if self.options.is_chat else ""
        return audit_labels(self.tokenizer, self.labels(label_space), self.options.label_scoring, text, context)

    def reader(self, limit: int | None) -> PromptReader:
        """Return the reader of prompts of at most so many tokens."""
        drop = self.options.on_too_long == "drop-demonstrations"
        separator = self.options.demonstration_separator
        return PromptReader(self.tokenizer, limit, self.special, drop, separator, self.render)

    def channel_starts(self, reading: Reading, label_space: Sequence[str], variant: str) -> list[int]:
        """Return the position before the first token that is scored, for each prompt of a noisy channel."""
        if variant == "0.1.1":
            return [0] * sum(map(len, reading.ids))
        heads = [
            prompt[:cut]
            for query in reading.texts
            for prompt, cut in zip(query, after_label(query, label_space), strict=True)
        ]
        whole = (ids for rows in reading.ids for ids in rows)
        given = encode(self.tokenizer, heads, self.special)
        return [max(shared_length(a, b) - 1, 0) for a, b in zip(given, whole, strict=True)]

    def refuse_chat(self, what: str) -> None:
        """Refuse what has no meaning in a conversation.

        Raises:
            ArgumentError: The prompts are chat prompts.
        """
        if self.options.is_chat:
            raise ArgumentError(
                f"{what} scores the text of a prompt, which a reply does not contain: got prompt_format="
                f"{self.options.prompt_format!r}. Use prompt_format='plain'"
            )

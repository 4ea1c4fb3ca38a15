"""From prompts to tokens: tokenization, length, label tokens, chat templates, with the options that change them.

**Prompts.** A prompt may come out of a tokenizer with its beginning-of-sequence token doubled (the text has one and the
tokenizer adds another) or missing (the tokenizer should add it and does not); it may be longer than the model can read;
it may be empty. All four are errors that name the prompt. So is an end token that the tokenizer appends, and text
that it drops or changes (:mod:`~StaICC.kernels.huggingface.tokenizer_check`). Nothing is cut off: a prompt that is too
long can only be shortened by whole demonstrations, from the front, if the user says so.

**Labels.** A rule says which tokens of a label score it (:mod:`~StaICC.kernels.huggingface.label_rules`). Labels may
share the token that decides, or it may be a special one that a tokenizer adds at the end: :meth:`PromptFormat.audit`
finds these before anything is run.

**Chat.** A chat prompt is the text of the tokenizer's own template, with the beginning of the reply
(``add_generation_prompt=True``), tokenized without further special tokens. Labels are scored where the reply starts,
with the tokens that they have there: with a blank before them if the template writes one before a reply. A template
that shows the current date gets a constant one, so that the same prompt has the same tokens on every day. What a
template wrote is compared with the messages (:mod:`~StaICC.kernels.huggingface.template_check`).
"""

from __future__ import annotations

import datetime
import json
import re
from bisect import bisect_left
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any, Literal

from StaICC.errors import ArgumentError, LongPromptError, PromptError, RunEndingError, StaICCError
from StaICC.kernels.huggingface import text_config
from StaICC.kernels.huggingface.label_rules import LABEL_RULES, LabelRule, LabelScoring, Tokens
from StaICC.kernels.huggingface.shared_encoding import encode
from StaICC.kernels.huggingface.template_check import ConversationLayout, in_parts, known_layout
from StaICC.kernels.huggingface.token_trie import shared_length
from StaICC.kernels.huggingface.tokenizer_check import check_reply_begins, check_special_tokens, refuse_damage
from StaICC.kernels.protocol import LastBlank, after_label, with_blank, without_blank
from StaICC.kernels.registry import check_types
from StaICC.prompting.prompt_text import PromptText, parts_of, question_only

NEUTRAL = frozenset({"token_budget", "prefix_reuse", "label_mass"})
"""Options that change no prediction beyond rounding, only speed, memory, or what is reported in addition."""
UNNAMED = frozenset({("last_blank", "prompt")})
"""Defaults that identities and signatures do not name."""
DATE = datetime.datetime(2024, 7, 26)
"""The date that templates show."""
_DATED = f"{{%- macro strftime_now(form) -%}}{DATE:%d %b %Y}{{%- endmacro %}}"
"""What is put before a template, for formats that are no literals."""
_NOW = re.compile(r"strftime_now\(\s*(['\"])(.*?)\1\s*\)")
_PROBE = question_only("text: a label: ")
"""A prompt after which it is seen how labels are written and tokenized."""
_REPLY = "reply"
_UNLIMITED = 10**9
"""Tokenizers that know no limit give a very large number instead."""

IssueKind = Literal["no-token", "shared-token", "special-token"]
KernelVariant = Literal["paper", "0.1.1"]


@dataclass(frozen=True, slots=True, kw_only=True)
class KernelOptions:
    """How a kernel scores; the fields are explained at :class:`~StaICC.kernels.huggingface.kernel.CausalLMKernel`.

    Every field that is not in :data:`NEUTRAL` is part of the kernel's identity, so a new option is by default.

    Raises:
        ArgumentError: A value is illegal.
    """

    label_scoring: LabelScoring = "last"
    """The rule of :data:`~StaICC.kernels.huggingface.label_rules.LABEL_RULES` that says which tokens score a label."""

    label_normalisation: Literal["sum", "mean"] = "sum"
    """For ``"full"``: the sum of the log-probabilities, or their mean per token."""

    last_blank: LastBlank = "prompt"
    """The blank before a label: the end of the prompt, or, as in most methods' papers, the beginning of the
    ``"label"``: the model reads prompts without the blank at their end."""

    variant: KernelVariant = "paper"
    """Noisy channel: the sum over the query's tokens, or, as in 0.1.1, minus the mean loss over the prompt."""

    token_budget: int | None = None
    """Maximum number of positions in one call of the model. By default 1,024 on the CPU in float32, 2,048 there in
    bfloat16, and 65,536 on a GPU of NVIDIA."""

    max_length: int | None = None
    """Maximum number of tokens of a prompt. By default the model's limit."""

    on_too_long: Literal["error", "drop-demonstrations"] = "error"
    """What to do with a longer prompt: fail, or drop demonstrations from the front."""

    prompt_format: Literal["plain", "chat", "chat-turns"] = "plain"
    """The prompt as it is; as one turn of a user, through the chat template; or with demonstrations as turns."""

    system: str = ""
    """Text of a system turn before a chat prompt."""

    template_arguments: str = ""
    """Arguments of the chat template as a JSON object, such as ``{"enable_thinking": false}``."""

    prefix_reuse: bool = True
    """Compute shared prefixes once."""

    compile: bool = False
    """Compile the layers of a model on a CPU, which is faster in bfloat16; needs a C++ compiler."""

    add_special_tokens: bool = True
    """Let the tokenizer add its special tokens to plain prompts."""

    label_mass: bool = True
    """Also report the total probability of the labels."""

    def __post_init__(self) -> None:
        check_types(self)
        for name in ("system", "template_arguments"):
            if getattr(self, name) and not self.is_chat:
                raise ArgumentError(f"{name} is for chat prompts: got prompt_format='plain', expected 'chat'")
        if self.label_normalisation != "sum" and not self.scores_all_tokens:
            problem = f"needs label_scoring='full': got {self.label_scoring!r}, which is one token"
            raise ArgumentError(f"label_normalisation={self.label_normalisation!r} {problem}")
        if self.last_blank == "label" and self.is_chat:
            raise ArgumentError(
                f"last_blank='label' is for plain prompts, because a chat template writes what precedes a reply: got "
                f"prompt_format={self.prompt_format!r}, expected 'plain'"
            )
        try:
            arguments = json.loads(self.template_arguments or "{}")
        except ValueError:
            arguments = None
        if not isinstance(arguments, dict):
            raise ArgumentError(f"template_arguments: got {self.template_arguments!r}, expected a JSON object")

    @property
    def is_chat(self) -> bool:
        """Whether prompts are written by the chat template."""
        return self.prompt_format != "plain"

    @property
    def reads_parts(self) -> bool:
        """Whether the parts of a prompt matter, not only its text."""
        return self.prompt_format == "chat-turns" or self.on_too_long == "drop-demonstrations"

    @property
    def label_rule(self) -> LabelRule:
        """Which tokens of a label decide its score."""
        return LABEL_RULES[self.label_scoring]

    @property
    def scores_all_tokens(self) -> bool:
        """Whether all tokens of a label are scored, in the context of the prompt."""
        return self.label_rule.scores_all_tokens

    def settings(self) -> dict[str, str]:
        """The options that change predictions, as texts by name."""
        texts = {
            name: str(value)
            for name, value in asdict(self).items()
            if name not in NEUTRAL and value != "" and (name, value) not in UNNAMED
        }
        return {name: text if text.isprintable() else repr(text) for name, text in texts.items()}


@dataclass(frozen=True, slots=True)
class LabelIssue:
    """Something about labels' tokens because of which their scores mean nothing.

    Attributes:
        kind: ``"no-token"``: the label has no token to score; ``"shared-token"``: labels share the deciding token, so
            the model cannot tell them apart; ``"special-token"``: the deciding token is special (end of sequence,
            unknown).
        labels: The labels concerned.
        tokens: The tokens concerned, as the tokenizer names them.
        message: The finding in one sentence.
    """

    kind: IssueKind
    labels: tuple[str, ...]
    tokens: tuple[str, ...]
    message: str


@dataclass(frozen=True, slots=True)
class Reading:
    """Queries as a model gets them.

    Attributes:
        texts: The prompts of each query, shortened where that was needed and allowed.
        ids: Their tokens, in the same order.
        dropped: How many demonstrations each query lost.
    """

    texts: list[list[str]]
    ids: list[list[Tokens]]
    dropped: list[int]

    def before(self, shared: int = 0) -> list[Tokens]:
        """Return the tokens of queries of one prompt each, without those at the end that belong to the labels."""
        return [row[: len(row) - shared] for (row,) in self.ids]


@dataclass(frozen=True, slots=True)
class PromptFormat:
    """How a kernel writes prompts and labels for a tokenizer."""

    tokenizer: Any
    options: KernelOptions

    @property
    def special(self) -> bool:
        """Whether the tokenizer adds its special tokens; a chat template writes them itself."""
        return self.options.add_special_tokens and not self.options.is_chat

    def encode(self, texts: Sequence[str]) -> list[Tokens]:
        """Return the tokens of texts as the model reads them."""
        return encode(self.tokenizer, texts, self.special)

    # Prompts

    def limit(self, model_config: Any) -> int | None:
        """Return the maximum number of tokens of a prompt: the user's, the model's, or the tokenizer's, if any."""
        config = text_config(model_config)
        sizes = [getattr(config, name, None) for name in ("max_position_embeddings", "n_positions", "max_seq_len")]
        sizes.append(getattr(self.tokenizer, "model_max_length", None))
        known = (size for size in sizes if isinstance(size, int) and 0 < size < _UNLIMITED)
        return self.options.max_length or next(known, None)

    def messages(self, prompt: str) -> list[dict[str, str]]:
        """Return a prompt as the messages of a conversation."""
        messages = []
        if self.options.system:
            messages.append({"role": "system", "content": self.options.system})
        if self.options.prompt_format == "chat":
            return [*messages, {"role": "user", "content": prompt}]
        turns = parts_of(prompt, "prompt_format='chat-turns'").turns()
        for number, turn in enumerate(turns):
            role = "assistant" if number % 2 else "user"
            messages.append({"role": role, "content": turn})
        return messages

    def render(self, prompt: str) -> str:
        """Return the text that the model reads.

        Raises:
            RunEndingError: The chat template does not write each message once, unchanged, in its place.
            StaICCError: The tokenizer has no chat template, or the template refuses the messages.
        """
        if self.options.is_chat:
            messages = self.messages(prompt)
            layout = self.layout(messages)
            text = self._written(in_parts(messages) if layout.needs_parts else messages, True)
            layout.check(messages, text)
            return text
        return without_blank(prompt) if self.options.last_blank == "label" else prompt

    def layout(self, messages: Sequence[dict[str, str]]) -> ConversationLayout:
        """Return what the chat template writes around messages, by their roles."""
        words = getattr(self.tokenizer, "special_tokens_map", None)
        template = json.dumps([self._template(), self.options.template_arguments, words], default=str)
        roles = [message["role"] for message in messages]
        return known_layout(template, lambda marked: self._written(marked, True), roles)

    def _template(self) -> str:
        template = getattr(self.tokenizer, "chat_template", None)
        if isinstance(template, dict):  # several by name
            template = template.get("default")
        if not template:
            raise StaICCError(
                f"prompt_format={self.options.prompt_format!r} needs a chat template: the tokenizer has none. Use a "
                "model that was trained on conversations, or prompt_format='plain'"
            )
        return str(template)

    def _written(self, messages: Sequence[Mapping[str, Any]], begins_reply: bool) -> str:
        template = self._template()
        more = {"add_generation_prompt": begins_reply, **json.loads(self.options.template_arguments or "{}")}
        if "strftime_now" in template:
            more["chat_template"] = _DATED + _NOW.sub(lambda match: json.dumps(DATE.strftime(match[2])), template)
        try:
            return str(self.tokenizer.apply_chat_template(list(messages), tokenize=False, **more))
        except Exception as error:  # of the template, which is a program
            raise StaICCError(
                f"the chat template cannot write this prompt: {error}. What it needs besides messages, such as a list "
                "of tools, is given as template_arguments"
            ) from error

    def read(self, queries: Sequence[Sequence[str]], limit: int | None, label_space: Sequence[str] = ()) -> Reading:
        """Tokenize queries, all in one call; shorten those that are too long where the options say so.

        Args:
            queries: The prompts of each query: one, or one for each label of a noisy channel.
            limit: Maximum number of tokens of a prompt; None for no limit.
            label_space: Labels that will follow each prompt and must fit too.

        Returns:
            Texts and tokens.

        Raises:
            PromptError: A prompt is no string, is empty, begins wrongly, or is too long. It is named by its query's
                number.
        """
        texts: list[list[str]] = []
        for index, query in enumerate(queries):
            for prompt in query:
                if not isinstance(prompt, str):
                    raise PromptError(f"prompt {index} must be a string, not {type(prompt).__name__}", index)
            try:
                texts.append([self.render(prompt) for prompt in query])
            except PromptError as error:
                raise PromptError(f"prompt {index}: {error}", index) from None
            except RunEndingError as error:
                raise RunEndingError(f"prompt {index}: {error}") from None
        flat = iter(self.encode([text for query in texts for text in query]))
        ids = [[next(flat) for _ in query] for query in texts]
        labels = self.labels(label_space) if label_space else []
        # A label rarely has more tokens in context than alone, never many more.
        room = 2 * max(map(len, encode(self.tokenizer, labels, special=False)), default=0)
        dropped = [0] * len(texts)
        for index, rows in enumerate(ids):
            for text, row in zip(texts[index], rows, strict=True):
                check_special_tokens(self.tokenizer, text, row, self.special, index)
                if self.options.is_chat:
                    check_reply_begins(self.tokenizer, text, row, index)
            if limit is not None and max(map(len, rows)) + room > limit:
                shorter, count = self._fitted(queries[index], labels or [""], limit, index)
                if count:
                    dropped[index] = count
                    texts[index] = [self.render(prompt) for prompt in shorter]
                    ids[index] = self.encode(texts[index])
        refuse_damage(self.tokenizer, [query[0] for query in texts], [rows[0] for rows in ids])
        return Reading(texts, ids, dropped)

    def _fitted(self, query: Sequence[str], labels: Sequence[str], limit: int, index: int) -> tuple[Sequence[str], int]:
        """Drop as few demonstrations as possible from the front, so that a query fits.

        Args:
            query: Its prompts: one, or one for each label of a noisy channel, which lose the same demonstrations.
            labels: Labels that follow each prompt.
            limit: The maximum number of tokens.
            index: Number of the query, for messages.

        Returns:
            The prompts, and how many demonstrations were dropped.
        """
        drops = self.options.on_too_long == "drop-demonstrations"
        parts = [parts_of(prompt, "on_too_long='drop-demonstrations'") for prompt in query] if drops else []

        def without(count: int) -> Sequence[str]:
            return query if count == 0 else [PromptText(of_prompt.without_first(count)) for of_prompt in parts]

        def longest(count: int) -> int:
            texts = [self.render(prompt) + label for prompt in without(count) for label in labels]
            return max(map(len, self.encode(texts)))

        size = longest(0)
        if size <= limit:
            return query, 0
        what = "tokens with its label" if any(labels) else "tokens"
        problem = f"prompt {index} has {size} {what}, but the model reads {limit} at most"
        if not drops:
            remedy = (
                "use fewer demonstrations, a model with a longer context, a larger max_length if the model can read "
                "it, or on_too_long='drop-demonstrations'"
            )
            raise LongPromptError(f"{problem}; {remedy}", index)
        most = len(parts[0].demonstrations)
        count = bisect_left(range(most + 1), True, key=lambda count: longest(count) <= limit)
        if count > most:
            raise LongPromptError(
                f"{problem}, and its query alone is too long; pass a larger max_length if the model can read it", index
            )
        return without(count), count

    # Labels

    def labels(self, label_space: Sequence[str]) -> list[str]:
        """Return the labels as they begin a reply: after the blank that the template writes before one, if any.

        After a plain prompt, they begin with a blank if the last blank belongs to the label.
        """
        if not self.options.is_chat:
            return with_blank(label_space) if self.options.last_blank == "label" else list(label_space)
        messages = self.messages(_PROBE)
        begun = self.render(_PROBE)
        reply = [*messages, {"role": "assistant", "content": _REPLY}]
        try:
            whole = self._written(in_parts(reply) if self.layout(messages).needs_parts else reply, False)
        except StaICCError:  # a template may refuse to end with a reply
            whole = ""
        before = whole[len(begun) :].partition(_REPLY)[0] if whole.startswith(begun) else ""
        return [before + label for label in label_space] if not before.strip() else list(label_space)

    def _joined(self, texts: Sequence[str], label_space: Sequence[str]) -> list[tuple[int, list[Tokens]]]:
        labels = self.labels(label_space)
        joined = iter(self.encode([text + label for text in texts for label in labels]))
        sequences = []
        for alone in self.encode(texts):
            rows = [next(joined) for _ in labels]
            sequences.append((min(len(alone), *(shared_length(alone, row) for row in rows)), rows))
        return sequences

    def continuations(
        self, texts: Sequence[str], label_space: Sequence[str], first: int = 0
    ) -> list[tuple[int, list[Tokens]]]:
        """Tokens of each prompt followed by each label, split as the tokenizer splits the whole text.

        Where the border of prompt and label is no border of tokens (a space at the end of the prompt that goes with the
        label), the score starts at the last border that all labels have in common, so that all of them are scored given
        the same tokens.

        Args:
            texts: The prompts as the model reads them.
            label_space: The labels.
            first: Number of the first prompt, for messages.

        Returns:
            For each prompt, the number of tokens that are given, and the whole token sequence for each label.

        Raises:
            PromptError: Nothing is given, or a label adds nothing.
        """
        sequences = self._joined(texts, label_space)
        for index, (given, rows) in enumerate(sequences, start=first):
            if given < 1:
                raise PromptError(f"prompt {index} has no token that all labels follow; begin it with some text", index)
            if any(len(row) == given for row in rows):
                raise PromptError(f"a label adds no token to prompt {index}, so it cannot be scored", index)
        return sequences

    def _label_tokens(self, label_space: Sequence[str]) -> tuple[list[Tokens], int]:
        """Tokens of each label where it is scored, and how many tokens at the end of a prompt belong to the labels."""
        if not self.options.is_chat and self.options.last_blank == "prompt":
            return encode(self.tokenizer, label_space, special=False), 0
        context = self.render(_PROBE)
        ((given, rows),) = self._joined([context], label_space)
        return [row[given:] for row in rows], len(self.encode([context])[0]) - given

    def deciding(self, label_space: Sequence[str]) -> tuple[list[int], int]:
        """Return the token that decides each label, and how many tokens at the end of a prompt belong to the labels.

        The rule of the options chooses it among the tokens of the label alone, without special tokens. In chat prompts,
        and for labels that begin with the last blank, it chooses among those after a prompt. The second number is 0,
        except where a prompt ends with a blank that the tokenizer joins to a label.

        Raises:
            ArgumentError: A label has no token.
        """
        rows, shared = self._label_tokens(label_space)
        for label, row in zip(label_space, rows, strict=True):
            if not row:
                raise ArgumentError(f"the label {label!r} has no token; every label needs at least one to be scored")
        rule = self.options.label_rule
        return [rule.deciding_tokens(row)[0] for row in rows], shared

    def audit(self, label_space: Sequence[str]) -> tuple[LabelIssue, ...]:
        """Return what spoils the labels' scores."""
        special = set(getattr(self.tokenizer, "all_special_ids", ()))
        issues: list[LabelIssue] = []
        sharing: dict[Tokens, list[str]] = {}

        def report(kind: IssueKind, labels: Sequence[str], tokens: Sequence[int], message: str) -> None:
            names = tuple(map(str, self.tokenizer.convert_ids_to_tokens(list(tokens)))) if tokens else ()
            message = message.format(labels=", ".join(map(repr, labels)), tokens=", ".join(names))
            issues.append(LabelIssue(kind, tuple(labels), names, message))

        for label, ids in zip(self.labels(label_space), self._label_tokens(label_space)[0], strict=True):
            if not ids:
                report("no-token", [label], (), "the label {labels} has no token")
                continue
            decides = self.options.label_rule.deciding_tokens(ids)
            sharing.setdefault(decides, []).append(label)
            if hit := [token for token in decides if token in special]:
                report("special-token", [label], hit, "the label {labels} is scored by the special token {tokens}")
        message = "the labels {labels} are scored by the same token {tokens} and are not distinguished"
        for tokens, labels in sharing.items():
            if len(labels) > 1:
                report("shared-token", labels, tokens, message)
        return tuple(issues)

    # Texts that are scored

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
        return [max(shared_length(a, b) - 1, 0) for a, b in zip(self.encode(heads), whole, strict=True)]

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

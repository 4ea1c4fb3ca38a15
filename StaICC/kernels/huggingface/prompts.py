"""From prompts to tokens: tokenization, length, label tokens, chat templates, with the options that change them.

**Prompts.** A prompt may come out of a tokenizer with its beginning-of-sequence token doubled (the text has one and the
tokenizer adds another) or missing (the tokenizer should add it and does not); it may be longer than the model can read;
it may be empty. All four are errors that name the prompt. So is an end token that the tokenizer appends, and text
that it drops or changes (:mod:`~StaICC.kernels.huggingface.tokenizer_check`). Nothing is cut off: a prompt that is too
long can only be shortened by whole demonstrations, from the front, if the user says so.

**Labels.** A rule says which tokens of a label score it (:mod:`~StaICC.kernels.huggingface.label_rules`). Labels may
share the token that decides, or it may be a special one that a tokenizer adds at the end:
:meth:`PromptFormat.label_issues` finds these before anything is run.

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
from typing import Any, Literal, NamedTuple

from StaICC.errors import ArgumentError, LongPromptError, PromptError, RunEndingError, StaICCError
from StaICC.kernels.huggingface import text_config
from StaICC.kernels.huggingface.label_rules import (
    LABEL_NORMALISATIONS,
    LABEL_RULES,
    LabelNormalisation,
    LabelRule,
    LabelScoring,
    NormalisationRule,
    Tokens,
)
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
_DATE_MACRO = f"{{%- macro strftime_now(form) -%}}{DATE:%d %b %Y}{{%- endmacro %}}"
"""A macro that is put before a template. It replaces ``strftime_now`` where the format of the date is no literal."""
_DATE_CALL = re.compile(r"strftime_now\(\s*(['\"])(.*?)\1\s*\)")
"""A call of ``strftime_now`` in a template; the second group is the format of the date."""
_TRIAL_PROMPT = question_only("text: a label: ")
"""A prompt after which it is seen how labels are written and tokenized."""
_TRIAL_REPLY = "reply"
"""What the assistant replies to it."""
_DROPS_DEMONSTRATIONS = "on_too_long='drop-demonstrations'"
"""The setting that needs the parts of prompts, for messages."""
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

    label_normalisation: LabelNormalisation = "sum"
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
        """Refuse options with a wrong type, and options that have no effect together with the others.

        Raises:
            ArgumentError: The message names the option, and the value that another option must have.
        """
        check_types(self)
        for name in ("system", "template_arguments"):
            if getattr(self, name) and not self.is_chat:
                raise ArgumentError(f"{name} is for chat prompts: got prompt_format='plain', expected 'chat'")
        if self.label_normalisation != "sum" and not self.scores_all_tokens:
            raise ArgumentError(
                f"label_normalisation={self.label_normalisation!r} needs label_scoring='full': got "
                f"{self.label_scoring!r}, which is one token"
            )
        if self.last_blank == "label" and self.is_chat:
            raise ArgumentError(
                f"last_blank='label' is for plain prompts, because a chat template writes what precedes a reply: got "
                f"prompt_format={self.prompt_format!r}, expected 'plain'"
            )
        if not _is_json_object(self.template_arguments or "{}"):
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
    def normalisation_rule(self) -> NormalisationRule:
        """How the log-probabilities of all tokens of a label become its score."""
        return LABEL_NORMALISATIONS[self.label_normalisation]

    @property
    def scores_all_tokens(self) -> bool:
        """Whether all tokens of a label are scored, in the context of the prompt."""
        return self.label_rule.scores_all_tokens

    def settings(self) -> dict[str, str]:
        """Return the options that change predictions, as texts by name."""
        texts = {}
        for name, value in asdict(self).items():
            changes_no_prediction = name in NEUTRAL
            is_left_out = value == "" or (name, value) in UNNAMED
            if changes_no_prediction or is_left_out:
                continue
            text = str(value)
            if not text.isprintable():
                text = repr(text)
            texts[name] = text
        return texts


def _is_json_object(text: str) -> bool:
    """Return whether a text is a JSON object."""
    try:
        return isinstance(json.loads(text), dict)
    except ValueError:
        return False


@dataclass(frozen=True, slots=True)
class LabelIssue:
    """A problem of labels' tokens because of which the scores of the labels mean nothing.

    Attributes:
        kind: ``"no-token"``: the label has no token to score; ``"shared-token"``: labels share the deciding token, so
            the model cannot tell them apart; ``"special-token"``: the deciding token is special (end of sequence,
            unknown).
        labels: The labels concerned.
        tokens: The tokens concerned, as the tokenizer names them.
        message: The problem in one sentence.
    """

    kind: IssueKind
    labels: tuple[str, ...]
    tokens: tuple[str, ...]
    message: str


@dataclass(frozen=True, slots=True)
class TokenizedPrompts:
    """The prompts of queries as a model reads them: one prompt, or one for each label of a noisy channel.

    Attributes:
        texts: For each query, the texts of its prompts, without demonstrations that were dropped.
        ids: For each query, the tokens of its prompts.
        dropped: For each query, how many demonstrations were dropped because a prompt was too long.
    """

    texts: list[list[str]]
    ids: list[list[Tokens]]
    dropped: list[int]

    def sequences(self, without_last: int = 0) -> list[Tokens]:
        """Return the tokens of the one prompt of each query.

        Args:
            without_last: How many tokens at the end of each are left out: those that belong to the labels.
        """
        return [tokens[: len(tokens) - without_last] for (tokens,) in self.ids]


@dataclass(frozen=True, slots=True)
class PromptWithLabels:
    """A prompt followed by each label, as tokens.

    Attributes:
        prompt_length: The number of tokens with which the prompt and all sequences begin. Every label is scored by the
            tokens that follow these.
        sequences: For each label, the tokens of the prompt and the label.
    """

    prompt_length: int
    sequences: list[Tokens]


class LabelTokens(NamedTuple):
    """The tokens of each label as it is scored after a prompt."""

    rows: list[Tokens]
    joined_prompt_tokens: int
    """How many tokens at the end of a prompt the tokenizer joins to a label, so that the model reads the prompt without
    them: 0, except where a prompt ends with a blank."""


class ScoringTokens(NamedTuple):
    """The one token by which each label is scored."""

    tokens: list[int]
    joined_prompt_tokens: int
    """As in :class:`LabelTokens`."""


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
        if self.options.max_length:
            return self.options.max_length
        config = text_config(model_config)
        stated_limits = [
            getattr(config, "max_position_embeddings", None),
            getattr(config, "n_positions", None),
            getattr(config, "max_seq_len", None),
            getattr(self.tokenizer, "model_max_length", None),
        ]
        for limit in stated_limits:
            if isinstance(limit, int) and 0 < limit < _UNLIMITED:
                return limit
        return None

    def messages(self, prompt: str) -> list[dict[str, str]]:
        """Return a prompt as the messages of a conversation."""
        messages = []
        if self.options.system:
            messages.append({"role": "system", "content": self.options.system})
        if self.options.prompt_format == "chat":
            messages.append({"role": "user", "content": prompt})
            return messages
        # The texts of demonstrations and their labels alternate; the question is the last turn.
        turns = parts_of(prompt, "prompt_format='chat-turns'").turns()
        for number, turn in enumerate(turns):
            role = "user" if number % 2 == 0 else "assistant"
            messages.append({"role": role, "content": turn})
        return messages

    def render(self, prompt: str) -> str:
        """Return the text that the model reads.

        Raises:
            RunEndingError: The chat template does not write each message once, unchanged, in its place.
            StaICCError: The tokenizer has no chat template, or the template refuses the messages.
        """
        if not self.options.is_chat:
            if self.options.last_blank == "label":
                return without_blank(prompt)
            return prompt
        messages = self.messages(prompt)
        layout = self.layout(messages)
        if layout.needs_parts:
            text = self._written(in_parts(messages), begins_reply=True)
        else:
            text = self._written(messages, begins_reply=True)
        layout.check(messages, text)
        return text

    def layout(self, messages: Sequence[dict[str, str]]) -> ConversationLayout:
        """Return what the chat template writes around messages with these roles, whatever their contents are.

        It is found by a trial, once for each template.
        """
        special_tokens = getattr(self.tokenizer, "special_tokens_map", None)
        # All that determines what the template writes: the layout is remembered by this text.
        template_key = json.dumps([self._template(), self.options.template_arguments, special_tokens], default=str)
        roles = [message["role"] for message in messages]

        def write_prompt(trial_messages: Sequence[Mapping[str, Any]]) -> str:
            """Return the text that the chat template writes for trial messages, and the beginning of a reply."""
            return self._written(trial_messages, begins_reply=True)

        return known_layout(template_key, write_prompt, roles)

    def _template(self) -> str:
        """Return the chat template of the tokenizer; of several ones the default.

        Raises:
            StaICCError: The tokenizer has none.
        """
        template = getattr(self.tokenizer, "chat_template", None)
        if isinstance(template, dict):
            template = template.get("default")
        if not template:
            raise StaICCError(
                f"prompt_format={self.options.prompt_format!r} needs a chat template: the tokenizer has none. Use a "
                "model that was trained on conversations, or prompt_format='plain'"
            )
        return str(template)

    def _written(self, messages: Sequence[Mapping[str, Any]], begins_reply: bool) -> str:
        """Return messages as the chat template writes them.

        Args:
            messages: The messages.
            begins_reply: Whether the beginning of a reply of the assistant follows them.

        Raises:
            StaICCError: The tokenizer has no chat template, or the template refuses the messages.
        """
        template = self._template()
        arguments = {"add_generation_prompt": begins_reply, **json.loads(self.options.template_arguments or "{}")}
        if "strftime_now" in template:
            arguments["chat_template"] = _with_constant_date(template)
        try:
            return str(self.tokenizer.apply_chat_template(list(messages), tokenize=False, **arguments))
        except Exception as error:  # of the template, which is a program
            raise StaICCError(
                f"the chat template cannot write this prompt: {error}. What it needs besides messages, such as a list "
                "of tools, is given as template_arguments"
            ) from error

    def tokenize(
        self, queries: Sequence[Sequence[str]], limit: int | None, label_space: Sequence[str] = ()
    ) -> TokenizedPrompts:
        """Return the texts and the tokens of queries as the model reads them.

        A query that is longer than the limit loses its first demonstrations if ``on_too_long`` is
        ``"drop-demonstrations"``. Otherwise it is an error.

        Args:
            queries: The prompts of each query: one, or one for each label of a noisy channel.
            limit: Maximum number of tokens of a prompt; None for no limit.
            label_space: Labels that will follow each prompt and must fit too.

        Raises:
            PromptError: A prompt is no string, is empty, begins wrongly, or is too long. It is named by its query's
                number.
            RunEndingError: The chat template or the tokenizer damages a prompt.
        """
        texts = [self._rendered_query(query, index) for index, query in enumerate(queries)]
        ids = self._encoded_lists(texts)
        labels: list[str] = []
        most_label_tokens = 0
        if label_space:
            labels = self.labels(label_space)
            longest_alone = max(len(tokens) for tokens in encode(self.tokenizer, labels, special=False))
            # After a prompt, a label rarely has more tokens than alone, and never twice as many.
            most_label_tokens = 2 * longest_alone

        dropped = [0] * len(queries)  # demonstrations of each query
        for index, query in enumerate(queries):
            self._check_ends(texts[index], ids[index], index)
            longest_prompt = max(len(tokens) for tokens in ids[index])
            fits_with_any_label = limit is None or longest_prompt + most_label_tokens <= limit
            if limit is None or fits_with_any_label:
                continue
            # The query may be too long. Now its prompts are tokenized with each label, which takes longer.
            dropped[index] = self._demonstrations_to_drop(query, labels, limit, index)
            if dropped[index] > 0:
                shortened_query = _without_demonstrations(query, dropped[index])
                texts[index] = [self.render(prompt) for prompt in shortened_query]
                ids[index] = self.encode(texts[index])

        # The prompts of one query differ in a label only, so the text of one is compared with its tokens.
        first_texts = [texts_of_query[0] for texts_of_query in texts]
        first_tokens = [tokens_of_query[0] for tokens_of_query in ids]
        refuse_damage(self.tokenizer, first_texts, first_tokens)
        return TokenizedPrompts(texts, ids, dropped)

    def _encoded_lists(self, text_lists: Sequence[Sequence[str]]) -> list[list[Tokens]]:
        """Return the tokens of the texts of several lists, such as those of the prompts of each query.

        All texts are tokenized in one call, so that what they begin with is tokenized once.

        Args:
            text_lists: The lists of texts, as the model reads them.
        """
        all_texts: list[str] = []
        for texts in text_lists:
            all_texts += texts
        all_tokens = self.encode(all_texts)

        token_lists = []
        start = 0
        for texts in text_lists:
            end = start + len(texts)
            token_lists.append(all_tokens[start:end])
            start = end
        return token_lists

    def _check_ends(self, texts: Sequence[str], token_lists: Sequence[Tokens], index: int) -> None:
        """Refuse the prompts of a query if the beginning or the end of one has the wrong special tokens.

        Args:
            texts: The prompts as the model reads them.
            token_lists: The tokens of each prompt.
            index: Number of the query, for messages.

        Raises:
            PromptError: A prompt is empty, or begins wrongly.
            RunEndingError: A prompt ends wrongly.
        """
        for text, tokens in zip(texts, token_lists, strict=True):
            check_special_tokens(self.tokenizer, text, tokens, self.special, index)
            if self.options.is_chat:
                check_reply_begins(self.tokenizer, text, tokens, index)

    def _rendered_query(self, query: Sequence[str], index: int) -> list[str]:
        """Return the prompts of a query as the model reads them.

        Args:
            query: The prompts.
            index: The number of the query, which errors name.

        Raises:
            PromptError: A prompt is no string; or it is a plain string where its parts are needed (its instruction,
                demonstrations and query, which a chat with a turn for each demonstration has as messages).
            RunEndingError: The text that the chat template writes lacks a message of the prompt, or changes it.
        """
        for prompt in query:
            if not isinstance(prompt, str):
                raise PromptError(f"prompt {index} must be a string, not {type(prompt).__name__}", index)
        try:
            return [self.render(prompt) for prompt in query]
        except PromptError as error:
            raise PromptError(f"prompt {index}: {error}", index) from None
        except RunEndingError as error:
            raise RunEndingError(f"prompt {index}: {error}") from None

    def _demonstrations_to_drop(self, query: Sequence[str], labels: Sequence[str], limit: int, index: int) -> int:
        """Return how many demonstrations must be dropped from the front, at least, so that a query fits.

        Args:
            query: Its prompts: one, or one for each label of a noisy channel, which lose the same demonstrations.
            labels: Labels that follow each prompt and must fit, too; empty for none.
            limit: The maximum number of tokens.
            index: Number of the query, for messages.

        Raises:
            PromptError: Demonstrations may be dropped, but a prompt does not know its parts.
            LongPromptError: It does not fit, and no demonstrations may be dropped, or the query alone is too long.
        """
        may_drop = self.options.on_too_long == "drop-demonstrations"
        demonstration_count = 0
        if may_drop:
            parts_of_prompts = [parts_of(prompt, _DROPS_DEMONSTRATIONS) for prompt in query]
            demonstration_count = len(parts_of_prompts[0].demonstrations)  # the same for all prompts of the query
        size = self._longest(query, labels)
        if size <= limit:
            return 0
        unit = "tokens with its label" if any(labels) else "tokens"
        problem = f"prompt {index} has {size} {unit}, but the model reads {limit} at most"
        if not may_drop:
            raise LongPromptError(
                f"{problem}; use fewer demonstrations, a model with a longer context, a larger max_length if the model "
                "can read it, or on_too_long='drop-demonstrations'",
                index,
            )

        def fits_without(dropped_count: int) -> bool:
            """Return whether the query fits after this number of demonstrations is dropped."""
            return self._longest(_without_demonstrations(query, dropped_count), labels) <= limit

        # The more demonstrations are dropped, the shorter is the query. So bisection finds the smallest number without
        # which it fits: the first True of fits_without(0), fits_without(1), ..., or the end if there is none.
        possible_counts = range(demonstration_count + 1)
        fewest = bisect_left(possible_counts, True, key=fits_without)
        if fewest == len(possible_counts):
            raise LongPromptError(
                f"{problem}, and its query alone is too long; pass a larger max_length if the model can read it", index
            )
        return fewest

    def _longest(self, prompts: Sequence[str], labels: Sequence[str]) -> int:
        """Return the number of tokens of the longest prompt, with the longest label behind it if there are labels."""
        endings = labels or [""]
        texts = []
        for prompt in prompts:
            rendered_prompt = self.render(prompt)
            for ending in endings:
                texts.append(rendered_prompt + ending)
        return max(len(tokens) for tokens in self.encode(texts))

    # Labels

    def labels(self, label_space: Sequence[str]) -> list[str]:
        """Return the labels as they follow a prompt.

        After a plain prompt, they begin with a blank if the last blank belongs to the label. In a chat, they begin with
        the white space that the template writes before a reply, if any.
        """
        if self.options.is_chat:
            blank = self._blank_before_reply()
            return [blank + label for label in label_space]
        if self.options.last_blank == "label":
            return with_blank(label_space)
        return list(label_space)

    def _blank_before_reply(self) -> str:
        """Return the white space that the chat template writes right before the text of a reply; empty for none.

        The template writes a trial prompt without a reply, and the same prompt with one. The second text begins with
        the first one, and the white space follows there.
        """
        messages = self.messages(_TRIAL_PROMPT)
        without_reply = self.render(_TRIAL_PROMPT)
        conversation: list[dict[str, Any]] = [*messages, {"role": "assistant", "content": _TRIAL_REPLY}]
        if self.layout(messages).needs_parts:
            conversation = in_parts(conversation)
        try:
            with_reply = self._written(conversation, begins_reply=False)
        except StaICCError:  # a template may refuse to end with a reply
            return ""
        if not with_reply.startswith(without_reply):
            return ""
        added_text = with_reply[len(without_reply) :]
        before_reply, _, _ = added_text.partition(_TRIAL_REPLY)
        is_white_space = not before_reply.strip()
        return before_reply if is_white_space else ""

    def _tokens_with_labels(self, texts: Sequence[str], label_space: Sequence[str]) -> list[PromptWithLabels]:
        """Return the tokens of each prompt followed by each label, and how many of them belong to the prompt.

        A tokenizer may join the end of a prompt with the beginning of a label. So the tokens of the prompt are those
        with which the prompt alone, and the prompt with each label, begin.

        Args:
            texts: The prompts as the model reads them.
            label_space: The labels.
        """
        labels = self.labels(label_space)
        texts_with_labels = []
        for text in texts:
            texts_with_labels.append([text + label for label in labels])
        sequences_by_text = self._encoded_lists(texts_with_labels)
        prompts = []
        for text_tokens, sequences in zip(self.encode(texts), sequences_by_text, strict=True):
            prompt_length = len(text_tokens)
            for sequence in sequences:
                prompt_length = min(prompt_length, shared_length(text_tokens, sequence))
            prompts.append(PromptWithLabels(prompt_length, sequences))
        return prompts

    def continuations(self, texts: Sequence[str], label_space: Sequence[str], first: int = 0) -> list[PromptWithLabels]:
        """Return the tokens of each prompt followed by each label, split as the tokenizer splits the whole text.

        A tokenizer may join the end of a prompt with the beginning of a label: ``"Label: "`` and ``"yes"`` may become
        ``"Label:"``, ``" yes"``. So each result says how many tokens the prompt and all its continuations have in
        common (``prompt_length``).

        Args:
            texts: The prompts as the model reads them.
            label_space: The labels.
            first: Number of the first prompt, for messages.

        Raises:
            PromptError: No token is common to all, or a label adds no token.
        """
        prompts = self._tokens_with_labels(texts, label_space)
        for index, prompt in enumerate(prompts, start=first):
            if prompt.prompt_length < 1:
                raise PromptError(f"prompt {index} has no token that all labels follow; begin it with some text", index)
            if any(len(sequence) == prompt.prompt_length for sequence in prompt.sequences):
                raise PromptError(f"a label adds no token to prompt {index}, so it cannot be scored", index)
        return prompts

    def _label_tokens(self, label_space: Sequence[str]) -> LabelTokens:
        """Return the tokens of each label where it is scored, and how many tokens at the end of a prompt belong to it.

        After a plain prompt that ends with the blank, a label is tokenized alone. In a chat, and where the blank
        belongs to the label, its tokens depend on what is before it. There they are found with a trial prompt.
        """
        labels_are_tokenized_alone = not self.options.is_chat and self.options.last_blank == "prompt"
        if labels_are_tokenized_alone:
            rows = encode(self.tokenizer, label_space, special=False)
            return LabelTokens(rows, joined_prompt_tokens=0)

        trial_text = self.render(_TRIAL_PROMPT)
        (trial_tokens,) = self.encode([trial_text])
        (trial_with_labels,) = self._tokens_with_labels([trial_text], label_space)
        label_start = trial_with_labels.prompt_length
        rows = [sequence[label_start:] for sequence in trial_with_labels.sequences]
        return LabelTokens(rows, joined_prompt_tokens=len(trial_tokens) - label_start)

    def scoring_tokens(self, label_space: Sequence[str]) -> ScoringTokens:
        """Return the token by which each label is scored: its first or its last one (option ``label_scoring``).

        The result also says how many tokens at the end of a prompt belong to the labels (:class:`LabelTokens`).

        Raises:
            ArgumentError: A label has no token.
        """
        label_tokens = self._label_tokens(label_space)
        rule = self.options.label_rule
        scoring_tokens = []
        for label, tokens in zip(label_space, label_tokens.rows, strict=True):
            if not tokens:
                raise ArgumentError(f"the label {label!r} has no token; every label needs at least one to be scored")
            deciding_tokens = rule.deciding_tokens(tokens)  # one, except where all tokens are scored
            scoring_tokens.append(deciding_tokens[0])
        return ScoringTokens(scoring_tokens, label_tokens.joined_prompt_tokens)

    def label_issues(self, label_space: Sequence[str]) -> tuple[LabelIssue, ...]:
        """Return the problems of the labels' tokens: no token, a special token that decides, a shared token."""
        special_tokens = set(getattr(self.tokenizer, "all_special_ids", ()))
        issues: list[LabelIssue] = []
        labels_by_deciding_tokens: dict[Tokens, list[str]] = {}
        rows = self._label_tokens(label_space).rows
        for label, tokens in zip(self.labels(label_space), rows, strict=True):
            if not tokens:
                issues.append(LabelIssue("no-token", (label,), (), f"the label {label!r} has no token"))
                continue
            deciding_tokens = self.options.label_rule.deciding_tokens(tokens)
            labels_by_deciding_tokens.setdefault(deciding_tokens, []).append(label)
            special = [token for token in deciding_tokens if token in special_tokens]
            if special:
                names = self._token_names(special)
                message = f"the label {label!r} is scored by the special token {', '.join(names)}"
                issues.append(LabelIssue("special-token", (label,), names, message))

        for deciding_tokens, labels in labels_by_deciding_tokens.items():
            if len(labels) == 1:
                continue
            names = self._token_names(deciding_tokens)
            listed = ", ".join(repr(label) for label in labels)
            message = f"the labels {listed} are scored by the same token {', '.join(names)} and are not distinguished"
            issues.append(LabelIssue("shared-token", tuple(labels), names, message))
        return tuple(issues)

    def _token_names(self, tokens: Sequence[int]) -> tuple[str, ...]:
        """Return tokens as the tokenizer names them."""
        return tuple(str(name) for name in self.tokenizer.convert_ids_to_tokens(list(tokens)))

    # Texts that are scored

    def channel_starts(self, tokenized: TokenizedPrompts, label_space: Sequence[str], variant: str) -> list[int]:
        """Return for each prompt of a noisy channel the position before the first token that is scored.

        Args:
            tokenized: The prompts of each query, one for each label.
            label_space: The labels.
            variant: ``"paper"``: the tokens after the label are scored; ``"0.1.1"``: all tokens but the first.

        Returns:
            The positions: those of the prompts of the first query, then those of the next one.
        """
        tokens_of_prompts: list[Tokens] = []
        for tokens_of_query in tokenized.ids:
            tokens_of_prompts += tokens_of_query
        if variant == "0.1.1":
            return [0] * len(tokens_of_prompts)

        texts_up_to_label = []  # each prompt without what follows its label
        for texts_of_query in tokenized.texts:
            label_ends = after_label(texts_of_query, label_space)
            for text, label_end in zip(texts_of_query, label_ends, strict=True):
                texts_up_to_label.append(text[:label_end])
        starts = []
        for tokens_up_to_label, tokens in zip(self.encode(texts_up_to_label), tokens_of_prompts, strict=True):
            # The tokens that both begin with are not scored. A tokenizer may join the end of the label and what follows
            # it to one token: it is not among these, so it is scored.
            unscored_count = shared_length(tokens_up_to_label, tokens)
            last_unscored_position = max(unscored_count - 1, 0)
            starts.append(last_unscored_position)
        return starts

    def refuse_chat(self, what: str) -> None:
        """Refuse to score the text of a prompt if prompts are sent as a conversation.

        Args:
            what: What scores the text, for the message, such as ``"the noisy channel"``.

        Raises:
            ArgumentError: The prompts are chat prompts.
        """
        if self.options.is_chat:
            raise ArgumentError(
                f"{what} scores the text of a prompt, which a reply does not contain: got prompt_format="
                f"{self.options.prompt_format!r}. Use prompt_format='plain'"
            )


def _without_demonstrations(query: Sequence[str], count: int) -> list[str]:
    """Return the prompts of a query without the first demonstrations of each, of which there are ``count``."""
    shortened: list[str] = []
    for prompt in query:
        parts = parts_of(prompt, _DROPS_DEMONSTRATIONS)
        shortened.append(PromptText(parts.without_first(count)))
    return shortened


def _with_constant_date(template: str) -> str:
    """Return a chat template that shows :data:`DATE` in place of the current date."""

    def date_literal(call: re.Match[str]) -> str:
        """Return the constant date in the format of a call that shows the current date, as a text in quotes."""
        return json.dumps(DATE.strftime(call[2]))

    return _DATE_MACRO + _DATE_CALL.sub(date_literal, template)

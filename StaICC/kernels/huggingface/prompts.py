"""From prompts and labels to tokens: options, tokenization, length, label tokens, chat templates.

**Prompts.** A prompt may come out of a tokenizer with its beginning-of-sequence token doubled (the text has one and the
tokenizer adds another) or missing (the tokenizer should add it and does not); it may be longer than the model can read;
it may be empty. All four are errors that name the prompt. Nothing is cut off: a prompt that is too long can only be
shortened by whole demonstrations, from the front, if the user says so.

**Shared beginnings.** Prompts with long contexts begin with the same thousands of tokens; scoring whole labels repeats
them for each label. They are tokenized once. Tokenizers are not made to be cut, so a cut is made only

* after a line feed before a character that is no white space, where the tokenizer's own pre-tokenizer splits too (no
  token spans such a place), well inside of what all texts share;
* if two of the texts, the first and the last in order, give the same tokens whole and in two parts.

**Labels.** A causal language model scores tokens, not labels. In 0.1.1 a label is scored by the *last* token of its own
tokenization (``"last"``); scoring the *first* token, or *all* of them in the context of the prompt (``"full"``), are
the alternatives. Two labels may share the token that decides, the token may be a special one that a tokenizer adds at
the end, or prompt and label together may be split elsewhere than each alone: :func:`audit_labels` finds these before
anything is run.

**Chat.** A chat prompt is the text of the tokenizer's own template, with the beginning of the reply
(``add_generation_prompt=True``), tokenized without further special tokens. Labels are scored where the reply starts,
with the tokens that they have there: with a blank before them if the template writes one before a reply. A template
that shows the current date gets a constant one, so that the same prompt has the same tokens on every day.
"""

from __future__ import annotations

import datetime
import json
import re
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from os.path import commonprefix
from typing import Any, Literal, TypeVar, get_args

from StaICC.errors import ArgumentError, PromptError, StaICCError, set_integers, validate_integer
from StaICC.kernels.huggingface.prefix_plan import shared_length
from StaICC.kernels.label_scores import after_label
from StaICC.safe_text import logger

LEAST_SAVING = 100_000
"""Characters that must be saved before texts are looked at for a common beginning."""
WHOLE = 3
"""Texts that are tokenized whole in any case: two to compare with, and the shared beginning."""
MARGIN = 32
"""Characters that must follow a cut within what all texts share."""
WINDOW = 400
"""Characters on each side of a cut that are shown to the pre-tokenizer."""


def _whole(tokenizer: Any, texts: Sequence[str], special: bool) -> list[tuple[int, ...]]:
    ids = tokenizer(list(texts), add_special_tokens=special)["input_ids"]
    return [tuple(row) for row in ids]


def _splits_at(tokenizer: Any, text: str, place: int) -> bool:
    """Whether the tokenizer's pre-tokenizer ends a piece at this place."""
    splitter = getattr(getattr(tokenizer, "backend_tokenizer", None), "pre_tokenizer", None)
    if splitter is None:
        return False
    start = max(0, place - WINDOW)
    pieces = splitter.pre_tokenize_str(text[start : place + WINDOW])
    return any(start + begin == place for _, (begin, _) in pieces)


def _cut(tokenizer: Any, shared: str) -> int:
    """The last place of a shared beginning at which it may be cut; 0 if there is none."""
    place = len(shared) - MARGIN
    while (place := shared.rfind("\n", 0, max(place, 0)) + 1) > 0:
        if not shared[place].isspace():
            return place if _splits_at(tokenizer, shared, place) else 0
        place -= 1
    return 0


def encode(tokenizer: Any, texts: Sequence[str], special: bool = True) -> list[tuple[int, ...]]:
    """Tokenize texts, what they all begin with once.

    Args:
        tokenizer: A tokenizer of ``transformers``.
        texts: The texts.
        special: Whether the tokenizer adds its special tokens.

    Returns:
        Token ids of each text, equal to those of the complete text.
    """
    if len(texts) <= WHOLE or (len(texts) - WHOLE) * max(map(len, texts)) < LEAST_SAVING:
        return _whole(tokenizer, texts, special) if texts else []
    ends = [min(texts), max(texts)]  # what these two share, all share
    shared = commonprefix(ends)  # noqa: RUF071 - characters are meant
    place = _cut(tokenizer, shared) if (len(texts) - WHOLE) * len(shared) >= LEAST_SAVING else 0
    if not place:
        return _whole(tokenizer, texts, special)
    *expected, head = _whole(tokenizer, [*ends, shared[:place]], special)
    found = [head + tail for tail in _whole(tokenizer, [text[place:] for text in texts], False)]
    if [found[texts.index(end)] for end in ends] != expected:
        return _whole(tokenizer, texts, special)
    return found


_log = logger(__name__)

_UNLIMITED = 10**9
"""Tokenizers that know no limit give a very large number instead."""


def check_start(tokenizer: Any, ids: Sequence[int], index: int, special: bool = True) -> None:
    """Refuse a prompt whose beginning-of-sequence token is doubled or missing, and an empty one.

    Args:
        tokenizer: The tokenizer that made the ids.
        ids: Token ids of the prompt.
        index: Number of the prompt, for the message.
        special: Whether the tokenizer was to add its special tokens.

    Raises:
        PromptError: The prompt has no tokens, two such tokens, or none where the tokenizer should have added one.
    """
    if not ids:
        raise PromptError(f"prompt {index} has no tokens; a model needs at least one to predict what follows", index)
    start = getattr(tokenizer, "bos_token_id", None)
    if start is None or not special:
        return
    name = f"the beginning-of-sequence token {getattr(tokenizer, 'bos_token', start)!r}"
    if len(ids) > 1 and ids[0] == start and ids[1] == start:
        raise PromptError(
            f"prompt {index} begins with {name} twice: its text has one and the tokenizer adds another; "
            "take it out of the text, or pass add_special_tokens=False",
            index,
        )
    if getattr(tokenizer, "add_bos_token", False) is True and ids[0] != start:
        raise PromptError(
            f"prompt {index} lacks {name}, although the tokenizer says that it adds it (add_bos_token is True); "
            "update the tokenizer, or put the token into the text and pass add_special_tokens=False",
            index,
        )


def length_limit(model_config: Any, tokenizer: Any, given: int | None = None) -> int | None:
    """Most tokens that the model can read.

    Args:
        model_config: Configuration of the model.
        tokenizer: The tokenizer.
        given: The user's own limit, which comes first.

    Returns:
        The limit, or None where neither knows one.
    """
    if given is not None:
        return validate_integer("max_length", given, 1)
    get = getattr(model_config, "get_text_config", None)
    text = get() if callable(get) else model_config
    for name in ("max_position_embeddings", "n_positions", "max_seq_len"):
        value = getattr(text, name, None)
        if isinstance(value, int) and value > 0:
            return value
    value = getattr(tokenizer, "model_max_length", None)
    return value if isinstance(value, int) and 0 < value < _UNLIMITED else None


def _parts(prompt: str, separator: str) -> tuple[list[str], str]:
    """Demonstrations, each with the separator that ends it, and the query."""
    body = prompt.rstrip(separator) if separator.strip() == "" else prompt
    tail = prompt[len(body) :]
    pieces = body.split(separator)
    return [piece + separator for piece in pieces[:-1]], pieces[-1] + tail


def drop_demonstrations(
    prompts: Sequence[str], fits: Callable[[Sequence[str]], bool], separator: str = "\n"
) -> tuple[list[str], int] | None:
    r"""Shorten the prompts of one query by whole demonstrations, from the front, equally for all, until they fit.

    Args:
        prompts: The prompts of one query: one, or one for each label of a noisy channel.
        fits: Whether prompts are short enough.
        separator: What ends a demonstration in the text.

    Returns:
        The shortened prompts and how many demonstrations each lost (as few as possible), or None if the query alone is
        too long.

    Example:
        >>> drop_demonstrations(["a x\nb y\nc "], lambda found: len(found[0]) <= 6)
        (['b y\nc '], 1)
    """
    parts = [_parts(prompt, separator) for prompt in prompts]
    most = min(len(demonstrations) for demonstrations, _ in parts)

    def without(count: int) -> list[str]:
        return ["".join(demonstrations[count:]) + query for demonstrations, query in parts]

    if not fits(without(most)):
        return None
    low, high = 0, most
    while low < high:
        middle = (low + high) // 2
        if fits(without(middle)):
            high = middle
        else:
            low = middle + 1
    return without(low), low


@dataclass(frozen=True, slots=True)
class Reading:
    """Queries as a model gets them.

    Attributes:
        texts: The prompts of each query, shortened where that was needed and allowed.
        ids: Their tokens, in the same order.
        dropped: How many demonstrations a query lost, by its number; only those that lost any.
    """

    texts: list[list[str]]
    ids: list[list[tuple[int, ...]]]
    dropped: dict[int, int]

    def before(self, shared: int = 0) -> list[tuple[int, ...]]:
        """Return the tokens of queries of one prompt each, without those at the end that belong to the labels."""
        return [row[: len(row) - shared] for (row,) in self.ids]


class PromptReader:
    """Tokenizes prompts, and refuses or shortens those that the model cannot read.

    Args:
        tokenizer: A tokenizer of ``transformers``.
        limit: Most tokens of a prompt; None for no limit.
        special: Whether the tokenizer adds its special tokens.
        drop: Whether whole demonstrations may be dropped from prompts that are too long.
        separator: What ends a demonstration in the text.
        render: Writes a prompt as the model reads it, such as a conversation.
    """

    def __init__(
        self,
        tokenizer: Any,
        limit: int | None,
        special: bool = True,
        drop: bool = False,
        separator: str = "\n",
        render: Callable[[str], str] = str,
    ) -> None:
        self.tokenizer = tokenizer
        self.limit = limit
        self.special = special
        self.drop = drop
        self.separator = separator
        self.render = render

    def read(self, queries: Sequence[Sequence[str]], labels: Sequence[str] = ()) -> Reading:
        """Tokenize queries, all in one call.

        Args:
            queries: The prompts of each query: one, or one for each label of a noisy channel.
            labels: Labels that will follow each prompt and must fit too.

        Returns:
            Texts and tokens.

        Raises:
            PromptError: A prompt is no string, is empty, begins wrongly, or is too long. It is named by its query's
                number.
        """
        for index, query in enumerate(queries):
            for prompt in query:
                if not isinstance(prompt, str):
                    raise PromptError(f"prompt {index} must be a string, not {type(prompt).__name__}", index)
        texts = [[self._written(prompt, index) for prompt in query] for index, query in enumerate(queries)]
        flat = iter(encode(self.tokenizer, [prompt for query in texts for prompt in query], self.special))
        ids = [[next(flat) for _ in query] for query in texts]
        for index, rows in enumerate(ids):
            for row in rows:
                check_start(self.tokenizer, row, index, self.special)
        dropped: dict[int, int] = {}
        if self.limit is not None:
            room = max((len(row) for row in encode(self.tokenizer, labels, special=False)), default=0)
            for index, rows in enumerate(ids):
                # A label rarely has more tokens in context than alone, never many more.
                if max(map(len, rows)) + 2 * room > self.limit:
                    shorter, count = self._fitted(queries[index], labels, index)
                    if count:
                        dropped[index] = count
                        texts[index] = [self.render(prompt) for prompt in shorter]
                        ids[index] = encode(self.tokenizer, texts[index], self.special)
        if dropped:
            _log.warning(
                "%d of %d prompts were too long and lost %d demonstrations in all",
                len(dropped),
                len(texts),
                sum(dropped.values()),
            )
        return Reading(texts, ids, dropped)

    def _written(self, prompt: str, index: int) -> str:
        try:
            return self.render(prompt)
        except PromptError as error:
            raise PromptError(f"prompt {index}: {error}", index) from None

    def _fitted(self, query: Sequence[str], labels: Sequence[str], index: int) -> tuple[Sequence[str], int]:
        """A query's prompts that are short enough, and how many demonstrations they lost."""
        assert self.limit is not None
        limit = self.limit

        def longest(prompts: Sequence[str]) -> int:
            whole = [self.render(prompt) + label for prompt in prompts for label in labels or ("",)]
            return max(map(len, encode(self.tokenizer, whole, self.special)))

        size = longest(query)
        if size <= limit:
            return query, 0
        what = "tokens with its label" if labels else "tokens"
        problem = f"prompt {index} has {size} {what}, but the model reads {limit} at most"
        if not self.drop:
            raise PromptError(
                f"{problem}; use fewer demonstrations, a model with a longer context, or "
                "on_too_long='drop-demonstrations'",
                index,
            )
        shorter = drop_demonstrations(query, lambda found: longest(found) <= limit, self.separator)
        if shorter is None:
            raise PromptError(f"{problem}, and its query alone is too long", index)
        return shorter


LabelScoring = Literal["last", "first", "full"]
_DECIDES = {"last": slice(-1, None), "first": slice(1), "full": slice(None)}
"""Which tokens of a label decide, for each value of ``LabelScoring``."""

IssueKind = Literal["no-token", "shared-token", "special-token", "boundary", "space"]


@dataclass(frozen=True, slots=True)
class LabelIssue:
    """Something about a label's tokens that can spoil its score.

    Attributes:
        kind: ``"no-token"``: the label has no token to score; ``"shared-token"``: labels share the deciding token, so
            the model cannot tell them apart; ``"special-token"``: the deciding token is special (end of sequence,
            unknown); ``"boundary"``: the tokenizer splits prompt + label elsewhere than at their border; ``"space"``:
            the label would have other tokens if the space at the end of the prompt belonged to it.
        labels: The labels concerned.
        tokens: The tokens concerned, as the tokenizer names them.
        message: The finding in one sentence.
        fatal: Whether the scores mean nothing (the rest only moves them).
    """

    kind: IssueKind
    labels: tuple[str, ...]
    tokens: tuple[str, ...]
    message: str
    fatal: bool


def check_labels(label_space: Sequence[str], scoring: str) -> None:
    """Refuse a label space or a way of scoring that cannot be used."""
    if scoring not in get_args(LabelScoring):
        raise ArgumentError(f"label_scoring must be one of {', '.join(get_args(LabelScoring))}, not {scoring!r}")
    if isinstance(label_space, str) or not all(isinstance(label, str) for label in label_space) or not label_space:
        raise ArgumentError(f"label_space must be a non-empty list of strings, not {label_space!r}")


def deciding_tokens(tokenizer: Any, label_space: Sequence[str], scoring: str = "last") -> list[int]:
    """The token that decides each label.

    Args:
        tokenizer: A tokenizer of ``transformers``.
        label_space: The labels.
        scoring: ``"last"``: last token of ``tokenizer(label)``, special tokens included, as in 0.1.1; ``"first"``:
            first token of the label without special tokens.

    Returns:
        One token id for each label.

    Raises:
        ArgumentError: A label has no token.
    """
    check_labels(label_space, scoring)
    found = encode(tokenizer, label_space, special=scoring == "last")
    for label, ids in zip(label_space, found, strict=True):
        if not ids:
            raise ArgumentError(f"the label {label!r} has no token; every label needs at least one to be scored")
    return [ids[_DECIDES[scoring]][0] for ids in found]


def continuations(
    tokenizer: Any, prompts: Sequence[str], label_space: Sequence[str], special: bool = True
) -> list[tuple[int, list[tuple[int, ...]]]]:
    """Tokens of each prompt followed by each label, split as the tokenizer splits the whole text.

    Where the border of prompt and label is no border of tokens (a space at the end of the prompt that goes with the
    label), the score starts at the last border that all labels have in common, so that all of them are scored given
    the same tokens.

    Args:
        tokenizer: A tokenizer of ``transformers``.
        prompts: The prompts.
        label_space: The labels.
        special: Whether the tokenizer adds its special tokens (never at the end).

    Returns:
        For each prompt, the number of tokens that are given, and the whole token sequence for each label.
    """
    alone = encode(tokenizer, prompts, special)
    joined = encode(tokenizer, [prompt + label for prompt in prompts for label in label_space], special)
    bare = encode(tokenizer, [""], special)[0]
    end = getattr(tokenizer, "eos_token_id", None)
    closes = bool(bare) and bare[-1] == end and end != getattr(tokenizer, "bos_token_id", None)
    found = []
    for index, prompt in enumerate(alone):
        rows = joined[index * len(label_space) : (index + 1) * len(label_space)]
        if closes:
            prompt = prompt[:-1]
            rows = [row[:-1] for row in rows]
        given = min(len(prompt), *(shared_length(prompt, row) for row in rows))
        found.append((given, rows))
    return found


def _named(tokenizer: Any, ids: Sequence[int]) -> tuple[str, ...]:
    return tuple(str(name) for name in tokenizer.convert_ids_to_tokens(list(ids)))


def reply_tokens(tokenizer: Any, label_space: Sequence[str], context: str) -> tuple[list[tuple[int, ...]], int]:
    """Tokens of each label directly after a text that writes its own special tokens.

    Args:
        tokenizer: A tokenizer of ``transformers``.
        label_space: The labels.
        context: The text, such as the end of a chat prompt.

    Returns:
        For each label its tokens, from the first one that is not the same for all texts; and how many tokens at the end
        of the context alone belong to the labels in this way.
    """
    (alone,) = encode(tokenizer, [context], special=False)
    ((given, rows),) = continuations(tokenizer, [context], label_space, special=False)
    return [row[given:] for row in rows], len(alone) - given


def audit_labels(
    tokenizer: Any,
    label_space: Sequence[str],
    scoring: str = "last",
    prompt: str | None = None,
    context: str = "",
) -> tuple[LabelIssue, ...]:
    """Look for what can spoil the labels' scores.

    Args:
        tokenizer: A tokenizer of ``transformers``.
        label_space: The labels.
        scoring: ``"last"``, ``"first"`` or ``"full"``.
        prompt: A prompt that the labels follow, for the findings that depend on it.
        context: The end of every prompt, if labels are scored with the tokens that they have there.

    Returns:
        The findings, the fatal ones first; empty if there are none.
    """
    check_labels(label_space, scoring)
    whole = (
        reply_tokens(tokenizer, label_space, context)[0]
        if context
        else encode(tokenizer, label_space, special=scoring == "last")
    )
    special = set(getattr(tokenizer, "all_special_ids", ()))
    issues: list[LabelIssue] = []
    deciding: dict[tuple[int, ...], list[str]] = {}
    for label, ids in zip(label_space, whole, strict=True):
        if not ids:
            issues.append(LabelIssue("no-token", (label,), (), f"the label {label!r} has no token", True))
            continue
        decides = ids[_DECIDES[scoring]]
        deciding.setdefault(decides, []).append(label)
        if hit := [token for token in decides if token in special]:
            names = _named(tokenizer, hit)
            message = f"the label {label!r} is scored by the special token {', '.join(names)}"
            issues.append(LabelIssue("special-token", (label,), names, message, True))
    for decides, labels in deciding.items():
        if len(labels) > 1:
            names = _named(tokenizer, decides)
            listed = ", ".join(map(repr, labels))
            message = f"the labels {listed} are scored by the same token {' '.join(names)} and cannot be told apart"
            issues.append(LabelIssue("shared-token", tuple(labels), names, message, True))
    if prompt is not None:
        issues.extend(_in_context(tokenizer, label_space, prompt))
    return tuple(sorted(issues, key=lambda issue: not issue.fatal))


def _in_context(tokenizer: Any, label_space: Sequence[str], prompt: str) -> list[LabelIssue]:
    """Find issues that depend on the prompt before the label."""
    bare = encode(tokenizer, label_space, special=False)
    start = encode(tokenizer, [prompt], special=False)[0]
    joined = encode(tokenizer, [prompt + label for label in label_space], special=False)
    moved = [label for label, ids, both in zip(label_space, bare, joined, strict=True) if both != start + ids]
    issues: list[LabelIssue] = []
    if moved:
        listed = ", ".join(map(repr, moved))
        message = (
            f"prompt + label is split otherwise than prompt and label alone, for {listed}; "
            "single-token scoring asks for a token that the tokenizer would not write there"
        )
        issues.append(LabelIssue("boundary", tuple(moved), (), message, False))
    stripped = prompt.rstrip(" ")
    if stripped != prompt:
        shorter = encode(tokenizer, [stripped], special=False)[0]
        spaced = encode(tokenizer, [" " + label for label in label_space], special=False)
        changed = [
            label for label, ids, other in zip(label_space, bare, spaced, strict=True) if shorter + other != start + ids
        ]
        if changed:
            listed = ", ".join(map(repr, changed))
            message = (
                f"the tokens change when the space at the end of the prompt moves to the label, for {listed}; "
                "models that learnt words with their space may score them low"
            )
            issues.append(LabelIssue("space", tuple(changed), (), message, False))
    return issues


OnTooLong = Literal["error", "drop-demonstrations"]
Variant = Literal["paper", "0.1.1"]
Normalisation = Literal["sum", "mean"]
PromptFormatName = Literal["plain", "chat", "chat-turns"]
Choice = TypeVar("Choice")

LEGAL: dict[str, Any] = {
    "label_scoring": LabelScoring,
    "label_normalisation": Normalisation,
    "variant": Variant,
    "on_too_long": OnTooLong,
    "prompt_format": PromptFormatName,
}
"""Options whose values are names."""
NEUTRAL = frozenset({"token_budget", "prefix_reuse", "label_mass"})
"""Options that change no prediction beyond rounding, only speed, memory, or what is reported in addition."""


def choose(name: str, value: Choice, legal: Any) -> Choice:
    """The value, if it is one of a closed set of names; an error that lists them if not."""
    if value not in get_args(legal):
        raise ArgumentError(f"{name} must be one of {', '.join(map(repr, get_args(legal)))}, not {value!r}")
    return value


@dataclass(frozen=True, slots=True, kw_only=True)
class KernelOptions:
    """How a kernel scores; the fields are explained at :class:`~StaICC.kernels.huggingface.kernel.CausalLMKernel`.

    Every field that is not in :data:`NEUTRAL` is part of the kernel's identity, so a new option is by default.

    Raises:
        ArgumentError: A value is illegal.
    """

    label_scoring: LabelScoring = "last"
    """The tokens that score a label: ``"last"``, ``"first"``, or ``"full"``: all, in the context of the prompt."""

    label_normalisation: Normalisation = "sum"
    """For ``"full"``: the sum of the log-probabilities, or their mean per token."""

    variant: Variant = "paper"
    """Noisy channel: the sum over the query's tokens, or, as in 0.1.1, minus the mean loss over the prompt."""

    token_budget: int | None = None
    """Maximum number of positions in one call of the model. By default 1,024 on the CPU in float32, 2,048 there in
    bfloat16, and 16,384 on a GPU."""

    max_length: int | None = None
    """Maximum number of tokens of a prompt. By default the model's limit."""

    on_too_long: OnTooLong = "error"
    """What to do with a longer prompt: fail, or drop demonstrations from the front."""

    demonstration_separator: str = "\n"
    """The text at the end of each demonstration."""

    prompt_format: PromptFormatName = "plain"
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
        for name in ("token_budget", "max_length"):
            if getattr(self, name) is not None:
                set_integers(self, **{name: 1})
        if not isinstance(self.demonstration_separator, str) or not self.demonstration_separator:
            raise ArgumentError("demonstration_separator must not be empty")
        for name, legal in LEGAL.items():
            choose(name, getattr(self, name), legal)
        for name, text in (("system", self.system), ("template_arguments", self.template_arguments)):
            if not isinstance(text, str):
                raise ArgumentError(f"{name} must be a text, not {text!r}")
            if text and not self.is_chat:
                raise ArgumentError(f"{name} is for chat prompts: got prompt_format='plain', expected 'chat'")
        try:
            arguments = json.loads(self.template_arguments or "{}")
        except ValueError:
            arguments = None
        if not isinstance(arguments, dict):
            raise ArgumentError(f"template_arguments: got {self.template_arguments!r}, expected a JSON object")
        for name in ("prefix_reuse", "compile", "add_special_tokens", "label_mass"):
            if not isinstance(flag := getattr(self, name), bool):
                raise ArgumentError(f"{name} must be True or False, not {flag!r}")

    @property
    def is_chat(self) -> bool:
        """Whether prompts are written by the chat template."""
        return self.prompt_format != "plain"

    def settings(self) -> dict[str, str]:
        """The options that change predictions, as texts by name."""
        texts = {name: str(value) for name, value in asdict(self).items() if name not in NEUTRAL and value != ""}
        return {name: text if text.isprintable() else repr(text) for name, text in texts.items()}


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

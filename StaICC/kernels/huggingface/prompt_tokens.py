"""From prompts to tokens, refusing what would spoil a measurement quietly.

A prompt may come out of a tokenizer with its beginning-of-sequence token doubled (the text has one and the tokenizer
adds another) or missing (the tokenizer should add it and does not); it may be longer than the model can read; it may
be nothing at all. All four are errors that name the prompt. Nothing is cut off: a prompt that is too long can only be
shortened by whole demonstrations, from the front, if the user says so.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from StaICC.errors import PromptError, validate_integer
from StaICC.kernels.huggingface.shared_encoding import encode_shared

_log = logging.getLogger(__name__)

_UNLIMITED = 10**9
"""Tokenizers that know no limit give a very large number instead."""


def encode(tokenizer: Any, texts: Sequence[str], special: bool = True) -> list[tuple[int, ...]]:
    """Tokenize texts, what they all begin with once where it is long.

    Args:
        tokenizer: A tokenizer of ``transformers``.
        texts: The texts.
        special: Whether the tokenizer adds its special tokens.

    Returns:
        Token ids of each text; nothing is padded or cut.
    """
    return encode_shared(tokenizer, texts, special)


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

"""Whether the tokens of a prompt are those of its text, with the special tokens that belong there.

**Special tokens** (:func:`check_special_tokens`). A prompt begins with the beginning-of-sequence token at most once. It
does not end with a special token that is not in its text: after an end token a model begins another text, so the
labels, the reply and the hidden state would not belong to the prompt. Both are errors, for plain and chat prompts.

**Text** (:func:`compare_texts`). The tokens are decoded and compared with the prompt. White space within a line is not
compared, since tokenizers decode it differently.

* ``"loses"``: some characters are always lost or replaced (case, accents, unknown characters, line feeds). Models are
  trained with such tokenizers, so it is a warning with the share of prompts (:func:`loss_warning`).
* ``"damages"``: letters or digits are missing in one place and kept in another, are repeated or in another order. That
  is an error (:func:`refuse_damage`).
"""

from __future__ import annotations

import unicodedata
from collections.abc import Sequence
from os.path import commonprefix
from typing import Any, Literal, NamedTuple

from StaICC.errors import PromptError, RunEndingError

COMPARED = 50
"""Maximum number of prompts of a run whose texts are compared for the warning; they are spread evenly."""
COMPARED_PER_CALL = 4
"""Maximum number of prompts of each call that are compared to refuse damage."""
EXCERPT = 30
"""Maximum number of characters of a text in a message."""

Tokens = tuple[int, ...]
Difference = Literal["", "loses", "damages"]


def spread(count: int, most: int) -> list[int]:
    """Return some of the numbers below a count, spread evenly.

    Example:
        >>> spread(10, 4), spread(2, 4)
        ([0, 2, 5, 7], [0, 1])
    """
    chosen = min(count, most)
    return [number * count // chosen for number in range(chosen)]


def check_special_tokens(tokenizer: Any, text: str, ids: Tokens, adds_special: bool, index: int) -> None:
    """Refuse a prompt without tokens, or with a wrong special token at one of its ends.

    Args:
        tokenizer: The tokenizer.
        text: The prompt as the model reads it.
        ids: Its tokens.
        adds_special: Whether the tokenizer was to add its special tokens; a chat template writes them itself.
        index: The number of the prompt, for messages.

    Raises:
        PromptError: The prompt is empty, or begins wrongly.
        RunEndingError: It ends with a special token that is not in the text.
    """
    if not ids:
        raise PromptError(f"prompt {index} has no tokens; a model needs at least one to predict what follows", index)
    _check_beginning(tokenizer, ids, adds_special, index)
    _check_end(tokenizer, text, ids, index)


def _check_beginning(tokenizer: Any, ids: Tokens, adds_special: bool, index: int) -> None:
    """Refuse a prompt that begins with two beginning-of-sequence tokens, or with none where one should be added."""
    begin_token = getattr(tokenizer, "bos_token_id", None)
    if begin_token is None:
        return
    should_be_added = adds_special and getattr(tokenizer, "add_bos_token", False) is True
    if ids[:2] == (begin_token, begin_token):
        how_often = "twice"
    elif should_be_added and ids[0] != begin_token:
        how_often = "not"
    else:
        return
    name = getattr(tokenizer, "bos_token", begin_token)
    raise PromptError(
        f"prompt {index} begins {how_often} with the beginning-of-sequence token {name!r}, which the tokenizer "
        "should add once. Change the text, the chat template or the tokenizer, or pass add_special_tokens=False",
        index,
    )


def check_reply_begins(tokenizer: Any, text: str, ids: Tokens, index: int) -> None:
    """Refuse a conversation that the chat template ends with the end token, so that the reply would follow the end.

    Args:
        tokenizer: The tokenizer.
        text: The conversation as the template wrote it.
        ids: Its tokens.
        index: The number of the prompt, for messages.

    Raises:
        RunEndingError: It ends so.
    """
    end_token = getattr(tokenizer, "eos_token_id", None)
    if end_token is not None and len(ids) > 1 and ids[-1] == end_token:
        name = getattr(tokenizer, "eos_token", end_token)
        raise RunEndingError(
            f"the chat template ends prompt {index} with the end token {name!r}: labels and replies would follow the "
            f"end, got {text[-EXCERPT:]!r}. Use another template, or prompt_format='plain'"
        )


def _check_end(tokenizer: Any, text: str, ids: Tokens, index: int) -> None:
    """Refuse a prompt that ends with a special token that is not in its text.

    A prompt of one token is accepted: that token is at its beginning, too.
    """
    last_token = ids[-1]
    if len(ids) == 1 or last_token not in _special_tokens(tokenizer):
        return
    end_token = getattr(tokenizer, "eos_token_id", None)
    unknown_token = getattr(tokenizer, "unk_token_id", None)
    if last_token == unknown_token and last_token != end_token:
        # An unknown word of the text. Some tokenizers have one token for both: it counts as the end.
        return
    (name,) = tokenizer.convert_ids_to_tokens([last_token])
    if not text.rstrip().endswith(str(name)):
        raise RunEndingError(
            f"prompt {index} ends with the special token {name!r}, which the tokenizer appends to every text: labels "
            'and replies would follow the end of the prompt. Set "add_eos_token": false in tokenizer_config.json (or '
            "remove the token from the post-processor of tokenizer.json), or pass add_special_tokens=False, which "
            "leaves out all special tokens"
        )


def _special_tokens(tokenizer: Any) -> frozenset[int]:
    """Return the numbers of the special tokens of a tokenizer."""
    return frozenset(getattr(tokenizer, "all_special_ids", ()))


def decoded(tokenizer: Any, text: str, ids: Tokens) -> str | None:
    """Return the text of the tokens that a text was tokenized to, to compare the two texts.

    Special tokens that the tokenizer put in front are left out. One whose name is in the text itself is not.

    Args:
        tokenizer: The tokenizer.
        text: The text that was tokenized.
        ids: Its tokens.

    Returns:
        The text; ``None`` if the tokenizer cannot decode.
    """
    decode = getattr(tokenizer, "decode", None)
    if decode is None:
        return None
    added_count = _added_at_beginning(tokenizer, text, ids)
    return str(decode(list(ids[added_count:]), skip_special_tokens=False))


def _added_at_beginning(tokenizer: Any, text: str, ids: Tokens) -> int:
    """Return how many special tokens the tokenizer put in front of the tokens of a text."""
    special_tokens = _special_tokens(tokenizer)
    for count, token in enumerate(ids):
        if token not in special_tokens:
            return count
        (name,) = tokenizer.convert_ids_to_tokens([token])
        is_in_text = text.lstrip().startswith(str(name))
        if is_in_text:
            return count
    return len(ids)


def compare_texts(text: str, decoded_text: str, unknown: str | None = None) -> Difference:
    """Return how the text that is decoded from tokens differs from the text that was tokenized.

    Args:
        text: The text that was tokenized.
        decoded_text: The text that is decoded from its tokens.
        unknown: The name of the token for unknown words, if there is one.

    Returns:
        ``""`` if both are equal but for white space within lines, ``"loses"`` or ``"damages"``.

    Example:
        >>> compare_texts("One  two", "One two"), compare_texts("Ein Käse", "ein kase"), compare_texts("abc b", "abc")
        ('', 'loses', 'damages')
    """
    if _is_equal_but_for_blanks(text, decoded_text):
        return ""
    letters = _letters(text)
    if unknown and unknown in decoded_text and unknown not in text:
        # Between the pieces that the tokenizer knows, the text may have anything.
        known_pieces = [_letters(piece) for piece in decoded_text.split(unknown)]
        is_only_loss = _in_order(known_pieces, letters)
    else:
        # A letter that the tokenizer does not know is lost in all places. One that it knows must be kept in all.
        decoded_letters = _letters(decoded_text)
        known_letters = set(decoded_letters)
        expected_letters = "".join(letter for letter in letters if letter in known_letters)
        is_only_loss = decoded_letters == expected_letters
    return "loses" if is_only_loss else "damages"


def _is_equal_but_for_blanks(first: str, second: str) -> bool:
    """Return whether two texts have the same characters, apart from white space, and as many line feeds."""
    characters_are_equal = "".join(first.split()) == "".join(second.split())
    line_feeds_are_equal = first.strip().count("\n") == second.strip().count("\n")
    return characters_are_equal and line_feeds_are_equal


def _letters(text: str) -> str:
    """Return the letters and digits of a text without case and accents."""
    # Decomposed before the case is folded, since compatible forms have a case of their own, and again after it.
    folded = unicodedata.normalize("NFKD", text).casefold()
    decomposed = unicodedata.normalize("NFKD", folded)
    return "".join(character for character in decomposed if character.isalnum())


def _in_order(pieces: Sequence[str], text: str) -> bool:
    """Return whether a text begins with the first piece, ends with the last, and has all of them in order."""
    if not text.startswith(pieces[0]) or not text.endswith(pieces[-1]):
        return False
    end_of_last = 0
    for piece in pieces:
        start = text.find(piece, end_of_last)
        if start < 0:
            return False
        end_of_last = start + len(piece)
    return True


class TextDifference(NamedTuple):
    """How the tokens of a text differ from it."""

    kind: Difference
    excerpt: str
    """What the tokens say and what the text says where they begin to differ, for messages; empty without one."""


_NO_DIFFERENCE = TextDifference("", "")


def difference_of(tokenizer: Any, text: str, ids: Tokens) -> TextDifference:
    """Return how the tokens of a text differ from it.

    Args:
        tokenizer: The tokenizer. If it cannot decode, nothing is known to differ.
        text: The text.
        ids: Its tokens.
    """
    decoded_text = decoded(tokenizer, text, ids)
    if decoded_text is None:
        return _NO_DIFFERENCE
    kind = compare_texts(text, decoded_text, getattr(tokenizer, "unk_token", None))
    if not kind:
        return _NO_DIFFERENCE
    expected, got = text.strip(), decoded_text.strip()
    first_difference = len(commonprefix([expected, got]))  # noqa: RUF071 - characters are meant
    start = max(0, first_difference - EXCERPT // 2)
    end = start + EXCERPT
    return TextDifference(kind, f"{got[start:end]!r} for {expected[start:end]!r}")


def refuse_damage(tokenizer: Any, texts: Sequence[str], ids: Sequence[Tokens]) -> None:
    """Refuse a tokenizer that drops, cuts, repeats or reorders text.

    Args:
        tokenizer: The tokenizer.
        texts: The prompts of a call, as the model reads them; some of them are compared.
        ids: Their tokens.

    Raises:
        RunEndingError: It does.
    """
    for number in spread(len(texts), COMPARED_PER_CALL):
        difference = difference_of(tokenizer, texts[number], ids[number])
        if difference.kind == "damages":
            raise RunEndingError(
                f"the tokenizer drops, repeats or reorders text: the tokens of a prompt say {difference.excerpt}. "
                "Repair the files of the tokenizer, or load the one that belongs to the model"
            )


def loss_warning(tokenizer: Any, texts: Sequence[str], ids: Sequence[Tokens]) -> str | None:
    """Return a warning with the share of prompts whose text the tokenizer does not keep; ``None`` if it keeps all.

    Args:
        tokenizer: The tokenizer.
        texts: The prompts that are compared, as the model reads them.
        ids: Their tokens.
    """
    excerpts = []
    for text, tokens in zip(texts, ids, strict=True):
        difference = difference_of(tokenizer, text, tokens)
        if difference.kind:
            excerpts.append(difference.excerpt)
    if not excerpts:
        return None
    share = len(excerpts) / len(texts)
    return (
        f"the tokenizer loses characters of {len(excerpts)} of {len(texts)} prompts that were compared ({share:.0%}), "
        f"such as case, accents, line feeds or unknown characters: the model reads {excerpts[0]}"
    )

"""Tokens of prompts and labels: what is refused, shortened and reported; nothing is cut, whatever the tokenizer."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from StaICC.errors import ArgumentError, PromptError
from StaICC.kernels.huggingface import shared_encoding
from StaICC.kernels.huggingface.prompts import KernelOptions, PromptFormat
from StaICC.kernels.huggingface.shared_encoding import encode
from StaICC.prompting.prompt_text import Demonstration, PromptParts, PromptText

tokenizers = pytest.importorskip("tokenizers")
transformers = pytest.importorskip("transformers")


class Characters:
    """A tokenizer of one token per character; ``^`` is the beginning-of-sequence token."""

    bos_token, bos_token_id, add_bos_token = "^", ord("^"), False

    def __call__(self, texts: list[str], add_special_tokens: bool = True) -> dict[str, Any]:
        return {"input_ids": [[ord(c) for c in text] for text in texts]}


def ids(text: str) -> tuple[int, ...]:
    return tuple(map(ord, text))


def read(queries: Any, limit: int | None = None, labels: Any = (), tokenizer: Any = None, **options: Any) -> Any:
    return PromptFormat(tokenizer or Characters(), KernelOptions(**options)).read(queries, limit, labels)


DROP: dict[str, Any] = {"on_too_long": "drop-demonstrations"}


def parted(demonstrations: list[str], question: str, instruction: str = "") -> PromptText:
    """A prompt whose demonstrations have a label of one character, and end with a line feed."""
    shown = [Demonstration(text[:-1], text[-1:], "\n") for text in demonstrations]
    return PromptText(PromptParts(instruction, shown, question))


def test_whole_demonstrations_are_dropped_and_counted() -> None:
    found = read([[parted(["aaa", "bb", "cc"], "q ")], ["short"]], 8, **DROP)
    assert (found.texts, found.ids) == ([["bb\ncc\nq "], ["short"]], [[ids("bb\ncc\nq ")], [ids("short")]])
    assert found.dropped == [1, 0]
    found = read([[parted(["aaaa", "bbbb"], "x q\n"), parted(["aaaa", "bbbb"], "long q\n")]], 12, **DROP)
    assert found.texts == [["bbbb\nx q\n", "bbbb\nlong q\n"]]  # equally for every label
    with pytest.raises(PromptError, match="begins twice with the beginning-of-sequence token '\\^'"):
        read([["^^q"]])


def test_an_instruction_is_never_dropped() -> None:
    lines = "Answer with a label.\nLabels:\na\nb\n"
    found = read([[parted(["long\nlong\na", "two\nb"], "q", lines)]], len(lines) + 8, **DROP)
    assert found.texts == [[lines + "two\nb\nq"]]
    assert found.dropped == [1]


@pytest.mark.parametrize("options", [DROP, {"prompt_format": "chat-turns"}])
def test_a_plain_text_is_not_split_by_guess(options: dict[str, Any]) -> None:
    with pytest.raises(PromptError, match=r"needs a prompt with its parts, and 'aaa.* is a plain text"):
        read([["aaa\nbb\ncc\nq "]], 8, **options)
    if options is DROP:
        assert read([["aaa\nbb"]], 8, **options).texts == [["aaa\nbb"]]  # it fits


@given(
    st.lists(st.text("ab\n", min_size=1, max_size=5), max_size=6),
    st.lists(st.text("q\n", min_size=1, max_size=5), min_size=1, max_size=3),
    st.sampled_from([(), ("x",), ("x", "yyyy"), ("yyyy", "x")]),
    st.text("i\n", max_size=4),
    st.integers(1, 30),
)
def test_as_few_are_dropped_as_possible(
    demonstrations: Any, queries: list[str], labels: Any, instruction: str, limit: int
) -> None:
    def without(count: int) -> list[str]:
        return [parted(demonstrations[count:], query, instruction) for query in queries]

    def longest(count: int) -> int:
        return max(map(len, without(count))) + max(map(len, labels), default=0)

    if longest(len(demonstrations)) > limit:
        with pytest.raises(PromptError, match="too long"):
            read([without(0)], limit, labels, **DROP)
        return
    found = read([without(0)], limit, labels, **DROP)
    (count,) = found.dropped
    assert found.texts == [without(count)]
    assert longest(count) <= limit
    assert not count or longest(count - 1) > limit


# Labels


class Words:
    """Tokens are words with the space before them; a space alone is a token; ``</s>`` may be added at the end."""

    bos_token_id = None

    def __init__(self, ends: bool = False) -> None:
        self.words = {"</s>": 0, "<unk>": 1}
        self.ends = ends
        self.eos_token_id = 0
        self.all_special_ids = [0, 1]

    def split(self, text: str) -> list[str]:
        pieces, start = [], 0
        for i in range(1, len(text) + 1):
            if i == len(text) or (text[i] == " " and i > start) or (text[i].isdigit() and i > start):
                pieces.append(text[start:i])
                start = i
        return pieces if text else []

    def __call__(self, texts: list[str], add_special_tokens: bool = True) -> dict[str, Any]:
        rows = [
            [1 if piece == "?" else self.words.setdefault(piece, len(self.words)) for piece in self.split(text)]
            + ([0] if self.ends and add_special_tokens else [])
            for text in texts
        ]
        return {"input_ids": rows}

    def convert_ids_to_tokens(self, ids: Any) -> list[str]:
        names = {number: word for word, number in self.words.items()}
        return [names[number] for number in ids]


def words(scoring: Any = "last", ends: bool = False) -> PromptFormat:
    return PromptFormat(Words(ends), KernelOptions(label_scoring=scoring))


@pytest.mark.parametrize(
    ("scoring", "ends", "expected"),
    [
        ("last", False, [" good", "bad"]),
        ("first", False, ["very", "bad"]),
        ("last", True, [" good", "bad"]),  # in 0.1.1 the end token of both
        ("first", True, ["very", "bad"]),
    ],
)
def test_deciding_tokens(scoring: str, ends: bool, expected: list[str]) -> None:
    form = words(scoring, ends)
    tokens, shared = form.deciding(["very good", "bad"])
    assert form.tokenizer.convert_ids_to_tokens(tokens) == expected
    assert shared == 0
    with pytest.raises(ArgumentError, match="the label '' has no token"):
        words("first").deciding(["good", ""])


# What is tokenized in two parts has the tokens of the whole

CORPUS = [
    "service query: Where is my card?\nintent category: card_arrival\n",
    "ab  ba\n\n12 it's no\tway, ",
    "\n a\nb c\r\n",
]
LLAMA3 = (
    r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+"
    r"|\s+(?!\S)|\s+"
)


def trained(pre_tokenizer: Any, template: str = "") -> Any:
    made = tokenizers.Tokenizer(tokenizers.models.BPE(unk_token="<u>"))
    made.pre_tokenizer = pre_tokenizer
    trainer = tokenizers.trainers.BpeTrainer(
        vocab_size=400,
        special_tokens=["<u>", "<s>", "</s>"],
        initial_alphabet=tokenizers.pre_tokenizers.ByteLevel.alphabet(),
        show_progress=False,
    )
    made.train_from_iterator(CORPUS * 20, trainer)
    if template:
        made.post_processor = tokenizers.processors.TemplateProcessing(
            single=template, special_tokens=[("<s>", 1), ("</s>", 2)]
        )
    names = {"unk_token": "<u>", "bos_token": "<s>", "eos_token": "</s>"}
    return transformers.PreTrainedTokenizerFast(tokenizer_object=made, **names)


def llama3() -> Any:
    pre = tokenizers.pre_tokenizers
    pattern = pre.Split(tokenizers.Regex(LLAMA3), "isolated")
    return trained(pre.Sequence([pattern, pre.ByteLevel(add_prefix_space=False, use_regex=False)]), "<s> $A")


def byte_level(template: str = "", space: bool = False) -> Any:
    return trained(tokenizers.pre_tokenizers.ByteLevel(add_prefix_space=space), template)


KINDS: dict[str, Callable[[], Any]] = {
    "gpt2": byte_level,
    "gpt2 with a beginning": lambda: byte_level("<s> $A"),
    "gpt2 with an end": lambda: byte_level("$A </s>"),
    "llama3": llama3,
    "prefix space": lambda: byte_level(space=True),
    "metaspace": lambda: trained(tokenizers.pre_tokenizers.Metaspace()),
    "whitespace": lambda: trained(tokenizers.pre_tokenizers.Whitespace()),
    "nothing": lambda: trained(tokenizers.pre_tokenizers.Split(tokenizers.Regex("$^"), "isolated")),
}
SHARES = {"gpt2", "gpt2 with a beginning", "llama3", "whitespace"}
"""Where the two parts give the whole's tokens, so that the beginning need not be tokenized again."""
SAMPLE = "".join(f"service query: my card no. {i} isn't here\nintent category: card_{i % 7}\n" for i in range(400))


class Counting:
    """A tokenizer that counts the characters that it is given."""

    def __init__(self, inner: Any) -> None:
        self.inner, self.characters = inner, 0
        self.backend_tokenizer = inner.backend_tokenizer

    def __call__(self, texts: list[str], add_special_tokens: bool) -> Any:
        self.characters += sum(map(len, texts))
        return self.inner(texts, add_special_tokens=add_special_tokens)


@pytest.fixture(scope="module")
def made() -> dict[str, Any]:
    return {name: make() for name, make in KINDS.items()}


def whole(tokenizer: Any, texts: list[str], special: bool) -> list[tuple[int, ...]]:
    return [tuple(tokenizer(text, add_special_tokens=special)["input_ids"]) for text in texts]


@pytest.mark.parametrize("special", [True, False])
@pytest.mark.parametrize("kind", KINDS)
def test_a_long_context(made: dict[str, Any], kind: str, special: bool) -> None:
    questions = [f"service query: {word}\nintent category: " for word in ("why", "a b", " x", "\n", "12's", "", "why")]
    texts = [SAMPLE + question for question in questions]
    tokenizer = Counting(made[kind])
    assert encode(tokenizer, texts, special) == whole(made[kind], texts, special)
    if kind in SHARES:
        assert tokenizer.characters < 4 * len(SAMPLE)
    elif kind != "gpt2 with an end" or special:
        assert tokenizer.characters >= len(texts) * len(SAMPLE)


PIECES = st.lists(
    st.sampled_from(["a", "b", " ", "\n", "card", "'s", "12", "\r\n", "é", "<s>", "_", ".\n"]), max_size=12
)


@settings(max_examples=150, deadline=None)
@given(st.sampled_from(sorted(KINDS)), PIECES, st.lists(PIECES, min_size=4, max_size=6), st.booleans())
def test_any_texts(made: dict[str, Any], kind: str, start: list[str], ends: list[list[str]], special: bool) -> None:
    texts = ["".join(start) * 9 + "\nab" * 12 + "".join(end) for end in ends]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(shared_encoding, "LEAST_SAVING", 1)
        patch.setattr(shared_encoding, "MARGIN", 2)
        assert encode(made[kind], texts, special) == whole(made[kind], texts, special)

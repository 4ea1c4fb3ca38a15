"""Tokens of prompts and labels: what is refused, shortened and reported; nothing is cut, whatever the tokenizer."""

from __future__ import annotations

import functools
import re
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
    """Return the token ids of a text."""
    return tuple(map(ord, text))


def read(queries: Any, limit: int | None = None, labels: Any = (), **options: Any) -> Any:
    """Return what a model with one token per character reads of queries, each a list of prompts."""
    return PromptFormat(Characters(), KernelOptions(**options)).tokenize(queries, limit, labels)


DROP: dict[str, Any] = {"on_too_long": "drop-demonstrations"}


def with_parts(demonstrations: list[str], question: str, instruction: str = "") -> PromptText:
    """A prompt whose demonstrations have a label of one character, and end with a line feed."""
    shown = [Demonstration(text[:-1], text[-1:], "\n") for text in demonstrations]
    return PromptText(PromptParts(instruction, shown, question))


def test_the_first_demonstrations_of_a_prompt_that_is_too_long_are_dropped() -> None:
    prompt = with_parts(["aaa", "bb", "cc"], "q ")
    assert str(prompt) == "aaa\nbb\ncc\nq "

    reading = read([[prompt]], limit=8, **DROP)

    assert reading.texts == [["bb\ncc\nq "]]
    assert reading.ids == [[ids("bb\ncc\nq ")]]
    assert reading.dropped == [1]


def test_a_prompt_that_fits_keeps_its_demonstrations() -> None:
    reading = read([[with_parts(["aaa"], "q ")]], limit=8, **DROP)
    assert reading.texts == [["aaa\nq "]]
    assert reading.dropped == [0]


def test_all_prompts_of_a_query_lose_the_same_demonstrations() -> None:
    short, long = with_parts(["aaaa", "bbbb"], "x q\n"), with_parts(["aaaa", "bbbb"], "long q\n")
    reading = read([[short, long]], limit=12, **DROP)
    assert reading.texts == [["bbbb\nx q\n", "bbbb\nlong q\n"]]


def test_a_prompt_that_begins_twice_with_the_beginning_token_is_refused() -> None:
    with pytest.raises(PromptError, match="begins twice with the beginning-of-sequence token '\\^'"):
        read([["^^q"]])


def test_an_instruction_is_never_dropped() -> None:
    instruction = "Answer with a label.\nLabels:\na\nb\n"
    prompt = with_parts(["long\nlong\na", "two\nb"], "q", instruction)

    reading = read([[prompt]], limit=len(instruction + "two\nb\nq"), **DROP)

    assert reading.texts == [[instruction + "two\nb\nq"]]
    assert reading.dropped == [1]


@pytest.mark.parametrize("options", [DROP, {"prompt_format": "chat-turns"}])
def test_a_plain_text_that_has_to_be_split_is_refused(options: dict[str, Any]) -> None:
    with pytest.raises(PromptError, match=r"needs a prompt with its parts, and 'aaa.* is a plain text"):
        read([["aaa\nbb\ncc\nq "]], limit=8, **options)


def test_a_plain_text_that_fits_is_read_as_it_is() -> None:
    assert read([["aaa\nbb"]], limit=8, **DROP).texts == [["aaa\nbb"]]


@given(
    st.lists(st.text("ab\n", min_size=1, max_size=5), max_size=6),
    st.lists(st.text("q\n", min_size=1, max_size=5), min_size=1, max_size=3),
    st.sampled_from([(), ("x",), ("x", "yyyy"), ("yyyy", "x")]),
    st.text("i\n", max_size=4),
    st.integers(1, 30),
)
def test_as_few_demonstrations_are_dropped_as_possible(
    demonstrations: Any, questions: list[str], labels: Any, instruction: str, limit: int
) -> None:
    """The longest prompt of a query and its longest label must fit, with one token per character."""

    def prompts_without(dropped: int) -> list[str]:
        return [with_parts(demonstrations[dropped:], question, instruction) for question in questions]

    def size_without(dropped: int) -> int:
        return max(map(len, prompts_without(dropped))) + max(map(len, labels), default=0)

    sizes = [size_without(dropped) for dropped in range(len(demonstrations) + 1)]
    fitting = [dropped for dropped, size in enumerate(sizes) if size <= limit]
    if not fitting:
        with pytest.raises(PromptError, match="too long"):
            read([prompts_without(0)], limit, labels, **DROP)
    else:
        reading = read([prompts_without(0)], limit, labels, **DROP)
        assert reading.dropped == [fitting[0]]
        assert reading.texts == [prompts_without(fitting[0])]


# Labels


class Words:
    """A tokenizer whose tokens are words with the blank before them; it may add ``</s>`` at the end of a text."""

    bos_token_id = None
    eos_token_id = 0
    all_special_ids = (0, 1)

    def __init__(self, adds_end: bool = False) -> None:
        self.ids = {"</s>": 0, "<unk>": 1}
        self.adds_end = adds_end

    def __call__(self, texts: list[str], add_special_tokens: bool = True) -> dict[str, Any]:
        rows = []
        for text in texts:
            words = re.findall(" ?[^ ]+", text)
            row = [self.ids.setdefault(word, len(self.ids)) for word in words]
            if self.adds_end and add_special_tokens:
                row.append(self.eos_token_id)
            rows.append(row)
        return {"input_ids": rows}

    def convert_ids_to_tokens(self, ids: Any) -> list[str]:
        names = {number: word for word, number in self.ids.items()}
        return [names[number] for number in ids]


@pytest.mark.parametrize("adds_end", [False, True])
@pytest.mark.parametrize(("scoring", "expected"), [("last", [" good", "bad"]), ("first", ["very", "bad"])])
def test_the_token_that_decides_is_one_of_the_label(scoring: Any, expected: list[str], adds_end: bool) -> None:
    """In 0.1.1, the end token was the last one of all labels."""
    prompt_format = PromptFormat(Words(adds_end), KernelOptions(label_scoring=scoring))
    tokens, shared = prompt_format.scoring_tokens(["very good", "bad"])
    assert prompt_format.tokenizer.convert_ids_to_tokens(tokens) == expected
    assert shared == 0


def test_a_label_without_a_token_is_refused() -> None:
    prompt_format = PromptFormat(Words(), KernelOptions(label_scoring="first"))
    with pytest.raises(ArgumentError, match="the label '' has no token"):
        prompt_format.scoring_tokens(["good", ""])


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


def trained_tokenizer(pre_tokenizer: Any, template: str = "") -> Any:
    """Return a tokenizer with this pre-tokenizer, and with the special tokens of a template around each text."""
    trained = tokenizers.Tokenizer(tokenizers.models.BPE(unk_token="<u>"))
    trained.pre_tokenizer = pre_tokenizer
    trainer = tokenizers.trainers.BpeTrainer(
        vocab_size=400,
        special_tokens=["<u>", "<s>", "</s>"],
        initial_alphabet=tokenizers.pre_tokenizers.ByteLevel.alphabet(),
        show_progress=False,
    )
    trained.train_from_iterator(CORPUS * 20, trainer)
    if template:
        trained.post_processor = tokenizers.processors.TemplateProcessing(
            single=template, special_tokens=[("<s>", 1), ("</s>", 2)]
        )
    names = {"unk_token": "<u>", "bos_token": "<s>", "eos_token": "</s>"}
    return transformers.PreTrainedTokenizerFast(tokenizer_object=trained, **names)


def llama3() -> Any:
    """Return a tokenizer that splits texts as that of Llama 3."""
    pre = tokenizers.pre_tokenizers
    pattern = pre.Split(tokenizers.Regex(LLAMA3), "isolated")
    return trained_tokenizer(pre.Sequence([pattern, pre.ByteLevel(add_prefix_space=False, use_regex=False)]), "<s> $A")


def byte_level(template: str = "", prefix_space: bool = False) -> Any:
    """Return a tokenizer that splits texts as that of GPT-2."""
    return trained_tokenizer(tokenizers.pre_tokenizers.ByteLevel(add_prefix_space=prefix_space), template)


KINDS: dict[str, Callable[[], Any]] = {
    "gpt2": byte_level,
    "gpt2 with a beginning": lambda: byte_level("<s> $A"),
    "gpt2 with an end": lambda: byte_level("$A </s>"),
    "llama3": llama3,
    "prefix space": lambda: byte_level(prefix_space=True),
    "metaspace": lambda: trained_tokenizer(tokenizers.pre_tokenizers.Metaspace()),
    "whitespace": lambda: trained_tokenizer(tokenizers.pre_tokenizers.Whitespace()),
    "nothing": lambda: trained_tokenizer(tokenizers.pre_tokenizers.Split(tokenizers.Regex("$^"), "isolated")),
}
REUSED = ["gpt2", "gpt2 with a beginning", "llama3", "whitespace"]
"""Kinds for which two parts of a text have the tokens of the whole, so that a beginning is tokenized once."""
NOT_REUSED = ["prefix space", "metaspace", "nothing"]
"""Kinds for which they have not. With an end token, it depends on whether special tokens are added."""
CONTEXT = "".join(f"service query: my card no. {i} isn't here\nintent category: card_{i % 7}\n" for i in range(400))
TEXTS_IN_CONTEXT = [
    f"{CONTEXT}service query: {question}\nintent category: "
    for question in ("why", "a b", " x", "\n", "12's", "", "why")
]
"""Seven texts with the same long beginning."""


class Counting:
    """A tokenizer that counts the characters that it is given."""

    def __init__(self, tokenizer: Any) -> None:
        self.tokenizer = tokenizer
        self.characters = 0
        self.backend_tokenizer = tokenizer.backend_tokenizer

    def __call__(self, texts: list[str], add_special_tokens: bool) -> Any:
        self.characters += sum(map(len, texts))
        return self.tokenizer(texts, add_special_tokens=add_special_tokens)


@pytest.fixture(scope="module")
def tokenizer_of() -> Callable[[str], Any]:
    """A function that returns the tokenizer of a kind, trained once."""
    return functools.cache(lambda kind: KINDS[kind]())


def tokens_one_by_one(tokenizer: Any, texts: list[str], special: bool) -> list[tuple[int, ...]]:
    """Return the tokens of texts, each tokenized as a whole."""
    return [tuple(tokenizer(text, add_special_tokens=special)["input_ids"]) for text in texts]


@pytest.mark.parametrize("special", [True, False])
@pytest.mark.parametrize("kind", KINDS)
def test_texts_with_a_long_common_beginning_have_the_tokens_of_the_whole(
    tokenizer_of: Any, kind: str, special: bool
) -> None:
    tokenizer = tokenizer_of(kind)
    assert encode(tokenizer, TEXTS_IN_CONTEXT, special) == tokens_one_by_one(tokenizer, TEXTS_IN_CONTEXT, special)


@pytest.mark.parametrize("special", [True, False])
@pytest.mark.parametrize("kind", REUSED)
def test_a_long_common_beginning_is_not_tokenized_for_each_text(tokenizer_of: Any, kind: str, special: bool) -> None:
    tokenizer = Counting(tokenizer_of(kind))
    encode(tokenizer, TEXTS_IN_CONTEXT, special)
    assert tokenizer.characters < 4 * len(CONTEXT), f"{len(TEXTS_IN_CONTEXT)} texts begin with the context"


@pytest.mark.parametrize("special", [True, False])
@pytest.mark.parametrize("kind", NOT_REUSED)
def test_each_text_is_tokenized_as_a_whole_where_parts_have_other_tokens(
    tokenizer_of: Any, kind: str, special: bool
) -> None:
    tokenizer = Counting(tokenizer_of(kind))
    encode(tokenizer, TEXTS_IN_CONTEXT, special)
    assert tokenizer.characters >= len(TEXTS_IN_CONTEXT) * len(CONTEXT)


def test_each_text_is_tokenized_as_a_whole_if_an_end_token_is_added(tokenizer_of: Any) -> None:
    tokenizer = Counting(tokenizer_of("gpt2 with an end"))
    encode(tokenizer, TEXTS_IN_CONTEXT, True)
    assert tokenizer.characters >= len(TEXTS_IN_CONTEXT) * len(CONTEXT)


PIECES = st.lists(
    st.sampled_from(["a", "b", " ", "\n", "card", "'s", "12", "\r\n", "é", "<s>", "_", ".\n"]), max_size=12
)


@settings(max_examples=150, deadline=None)
@given(st.sampled_from(sorted(KINDS)), PIECES, st.lists(PIECES, min_size=4, max_size=6), st.booleans())
def test_any_texts_with_a_common_beginning_have_the_tokens_of_the_whole(
    tokenizer_of: Any, kind: str, start: list[str], ends: list[list[str]], special: bool
) -> None:
    tokenizer, beginning = tokenizer_of(kind), "".join(start) * 9 + "\nab" * 12
    texts = [beginning + "".join(end) for end in ends]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(shared_encoding, "LEAST_SAVING", 1)  # else texts so short would be tokenized as a whole
        patch.setattr(shared_encoding, "MARGIN", 2)
        assert encode(tokenizer, texts, special) == tokens_one_by_one(tokenizer, texts, special)

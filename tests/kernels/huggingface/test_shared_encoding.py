"""What is tokenized in two parts has the tokens of the whole, with tokenizers of every kind."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from StaICC.kernels.huggingface import prompts
from StaICC.kernels.huggingface.prompts import encode

tokenizers = pytest.importorskip("tokenizers")
transformers = pytest.importorskip("transformers")

CORPUS = [
    "service query: Where is my card?\nintent category: card_arrival\n",
    "ab  ba\n\n12 it's no\tway, ",
    "\n a\nb c\r\n",
]


def trained(pre_tokenizer: Any, **special: Any) -> Any:
    made = tokenizers.Tokenizer(tokenizers.models.BPE(unk_token="<u>"))
    made.pre_tokenizer = pre_tokenizer
    trainer = tokenizers.trainers.BpeTrainer(
        vocab_size=400,
        special_tokens=["<u>", "<s>", "</s>"],
        initial_alphabet=tokenizers.pre_tokenizers.ByteLevel.alphabet(),
        show_progress=False,
    )
    made.train_from_iterator(CORPUS * 20, trainer)
    if special:
        made.post_processor = tokenizers.processors.TemplateProcessing(
            single=special["template"], special_tokens=[("<s>", 1), ("</s>", 2)]
        )
    return transformers.PreTrainedTokenizerFast(
        tokenizer_object=made, unk_token="<u>", bos_token="<s>", eos_token="</s>"
    )


def split(pattern: str) -> Any:
    pre = tokenizers.pre_tokenizers
    return pre.Sequence(
        [pre.Split(tokenizers.Regex(pattern), "isolated"), pre.ByteLevel(add_prefix_space=False, use_regex=False)]
    )


LLAMA3 = (
    r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+"
    r"|\s+(?!\S)|\s+"
)
KINDS: dict[str, Callable[[], Any]] = {
    "gpt2": lambda: trained(tokenizers.pre_tokenizers.ByteLevel(add_prefix_space=False)),
    "gpt2 with a beginning": lambda: trained(
        tokenizers.pre_tokenizers.ByteLevel(add_prefix_space=False), template="<s> $A"
    ),
    "gpt2 with an end": lambda: trained(
        tokenizers.pre_tokenizers.ByteLevel(add_prefix_space=False), template="$A </s>"
    ),
    "llama3": lambda: trained(split(LLAMA3), template="<s> $A"),
    "prefix space": lambda: trained(tokenizers.pre_tokenizers.ByteLevel(add_prefix_space=True)),
    "metaspace": lambda: trained(tokenizers.pre_tokenizers.Metaspace()),
    "whitespace": lambda: trained(tokenizers.pre_tokenizers.Whitespace()),
    "nothing": lambda: trained(tokenizers.pre_tokenizers.Split(tokenizers.Regex("$^"), "isolated")),
}
SHARES = {"gpt2", "gpt2 with a beginning", "llama3", "whitespace"}
"""Where the two parts give the whole's tokens, so that the beginning need not be tokenized again."""


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


CONTEXT = "".join(f"service query: my card no. {i} isn't here\nintent category: card_{i % 7}\n" for i in range(400))


@pytest.mark.parametrize("special", [True, False])
@pytest.mark.parametrize("kind", KINDS)
def test_a_long_context(made: dict[str, Any], kind: str, special: bool) -> None:
    questions = [f"service query: {word}\nintent category: " for word in ("why", "a b", " x", "\n", "12's", "", "why")]
    texts = [CONTEXT + question for question in questions]
    tokenizer = Counting(made[kind])
    assert encode(tokenizer, texts, special) == whole(made[kind], texts, special)
    if kind in SHARES:
        assert tokenizer.characters < 4 * len(CONTEXT)
    elif kind != "gpt2 with an end" or special:
        assert tokenizer.characters >= len(texts) * len(CONTEXT)


pieces = st.lists(
    st.sampled_from(["a", "b", " ", "\n", "card", "'s", "12", "\r\n", "é", "<s>", "_", ".\n"]), max_size=12
)


@settings(max_examples=150, deadline=None)
@given(
    kind=st.sampled_from(sorted(KINDS)),
    start=pieces,
    ends=st.lists(pieces, min_size=4, max_size=6),
    special=st.booleans(),
)
def test_any_texts(made: dict[str, Any], kind: str, start: list[str], ends: list[list[str]], special: bool) -> None:
    texts = ["".join(start) * 9 + "\nab" * 12 + "".join(end) for end in ends]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(prompts, "LEAST_SAVING", 1)
        patch.setattr(prompts, "MARGIN", 2)
        assert encode(made[kind], texts, special) == whole(made[kind], texts, special)


def test_short_lists_are_tokenized_whole(made: dict[str, Any]) -> None:
    tokenizer = Counting(made["gpt2"])
    assert encode(tokenizer, []) == []
    encode(tokenizer, [CONTEXT] * 3)
    assert tokenizer.characters == 3 * len(CONTEXT)
    encode(tokenizer, ["ab\ncd"] * 50)
    assert tokenizer.characters == 3 * len(CONTEXT) + 250


def test_nothing_in_common(made: dict[str, Any]) -> None:
    texts = [f"{i}{CONTEXT}" for i in range(6)]
    assert encode(made["gpt2"], texts) == whole(made["gpt2"], texts, True)


def test_a_slow_tokenizer_is_asked_for_whole_texts() -> None:
    class Slow:
        def __call__(self, texts: list[str], add_special_tokens: bool) -> Any:
            return {"input_ids": [[*map(ord, text)] for text in texts]}

    texts = [CONTEXT + str(i) for i in range(9)]
    assert encode(Slow(), texts) == [tuple(map(ord, text)) for text in texts]

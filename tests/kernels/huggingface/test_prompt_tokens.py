"""Tokenizing prompts: what is refused, what is shortened, and that nothing is cut."""

from __future__ import annotations

import pickle
from types import SimpleNamespace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from StaICC.errors import ArgumentError, PromptError
from StaICC.kernels.huggingface.prompts import (
    PromptReader,
    check_start,
    drop_demonstrations,
    encode,
    length_limit,
)


class Characters:
    """A tokenizer of one token per character; ``^`` is the beginning-of-sequence token."""

    def __init__(self, adds_start=False, says_so=None):
        self.bos_token = "^"
        self.bos_token_id = ord("^")
        self.adds_start = adds_start
        self.add_bos_token = adds_start if says_so is None else says_so
        self.calls = 0

    def __call__(self, texts, add_special_tokens=True):
        self.calls += 1
        start = [ord("^")] if self.adds_start and add_special_tokens else []
        return {"input_ids": [start + [ord(c) for c in text] for text in texts]}


def ids(text):
    return tuple(map(ord, text))


def test_all_in_one_call():
    tokenizer = Characters()
    assert encode(tokenizer, ["ab", "c"]) == [ids("ab"), ids("c")]
    assert tokenizer.calls == 1
    assert encode(tokenizer, []) == []


def test_a_doubled_start_is_refused():
    with pytest.raises(PromptError, match=r"prompt 1 begins with .*'\^' twice.*add_special_tokens=False") as caught:
        PromptReader(Characters(adds_start=True), None).read([["fine"], ["^twice"]])
    assert caught.value.index == 1
    assert PromptReader(Characters(adds_start=True), None, special=False).read([["^once"]]).ids == [[ids("^once")]]


def test_a_missing_start_is_refused():
    with pytest.raises(PromptError, match=r"prompt 0 lacks .*add_bos_token is True"):
        PromptReader(Characters(adds_start=False, says_so=True), None).read([["x"]])


def test_no_start_where_none_is_promised():
    check_start(Characters(), ids("x"), 0)
    check_start(SimpleNamespace(), ids("x"), 0)


@pytest.mark.parametrize(
    ("query", "message"),
    [([""], "prompt 0 has no tokens"), ([None], "prompt 0 must be a string, not NoneType"), ([b"x"], "not bytes")],
)
def test_what_is_no_prompt(query, message):
    with pytest.raises(PromptError, match=message):
        PromptReader(Characters(), None).read([query])


def test_too_long_is_an_error_that_names_the_query():
    with pytest.raises(PromptError, match=r"prompt 1 has 9 tokens, but the model reads 8 at most") as caught:
        PromptReader(Characters(), 8).read([["12345678"], ["123456789"]])
    assert caught.value.index == 1
    assert pickle.loads(pickle.dumps(caught.value)).index == 1


def test_labels_count_for_the_length():
    reader = PromptReader(Characters(), 8)
    assert reader.read([["12345"]], ["abc", "a"]).ids == [[ids("12345")]]
    with pytest.raises(PromptError, match=r"prompt 0 has 9 tokens with its label"):
        reader.read([["123456"]], ["abc", "a"])


def test_whole_demonstrations_are_dropped_and_counted(caplog):
    reader = PromptReader(Characters(), 8, drop=True)
    found = reader.read([["aaa\nbb\ncc\nq "], ["short"]])
    assert found.texts == [["bb\ncc\nq "], ["short"]]
    assert found.ids == [[ids("bb\ncc\nq ")], [ids("short")]]
    assert found.dropped == {0: 1}
    assert "1 of 2 prompts were too long and lost 1 demonstrations" in caplog.text


def test_dropped_equally_for_every_label():
    reader = PromptReader(Characters(), 12, drop=True)
    found = reader.read([["aaaa\nbbbb\nx q\n", "aaaa\nbbbb\nlong q\n"]])
    assert found.texts == [["bbbb\nx q\n", "bbbb\nlong q\n"]]
    assert found.dropped == {0: 1}


def test_a_query_that_is_too_long_alone():
    with pytest.raises(PromptError, match="its query alone is too long"):
        PromptReader(Characters(), 4, drop=True).read([["a\nb\n12345"]])


@given(st.lists(st.text("ab", max_size=5), max_size=6), st.text("q", min_size=1, max_size=5), st.integers(1, 30))
def test_as_few_are_dropped_as_possible(demonstrations, query, limit):
    prompt = "".join(d + "\n" for d in demonstrations) + query
    found = drop_demonstrations([prompt], lambda texts: len(texts[0]) <= limit)
    if found is None:
        assert len(query) > limit
        return
    (text,), count = found
    assert text == "".join(d + "\n" for d in demonstrations[count:]) + query
    assert len(text) <= limit
    if count:
        assert len("".join(d + "\n" for d in demonstrations[count - 1 :]) + query) > limit


@pytest.mark.parametrize(
    ("config", "tokenizer", "given", "expected"),
    [
        ({"max_position_embeddings": 64}, {"model_max_length": 32}, None, 64),
        ({"n_positions": 16}, {}, None, 16),
        ({}, {"model_max_length": 32}, None, 32),
        ({}, {"model_max_length": 10**30}, None, None),
        ({"max_position_embeddings": 64}, {}, 100, 100),
    ],
)
def test_limits(config, tokenizer, given, expected):
    assert length_limit(SimpleNamespace(**config), SimpleNamespace(**tokenizer), given) == expected


@pytest.mark.parametrize("given", [0, -1, True, 2.5])
def test_bad_limits(given):
    with pytest.raises(ArgumentError, match="max_length must be an integer of at least 1"):
        length_limit(SimpleNamespace(), SimpleNamespace(), given)

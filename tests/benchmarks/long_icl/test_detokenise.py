from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from StaICC.benchmarks.long_icl.data.detokenise import detokenise


def test_cases_of_the_reference_program(golden: dict[str, Any]) -> None:
    assert len(golden["detokenise"]) == 17
    for case in golden["detokenise"]:
        assert detokenise(case["tokens"]) == case["expected"], case


@pytest.mark.parametrize(
    ("tokens", "text"),
    [
        ([], ""),
        (["  "], "  "),
        (["<b", "c>"], "<b c>"),
        (["a"], "a"),
        (["a", "", "b"], "a b"),
        (["x", "'s", "y"], "x's y"),
        (["!", "'s"], "! 's"),
        (["-LRB-", "a", "-RRB-"], "-LRB- a -RRB-"),
        (["I", "ca", "n't"], "I ca n't"),
    ],
)
def test_plain_cases(tokens: list[str], text: str) -> None:
    assert detokenise(tokens) == text


words = st.text(alphabet="ab中.,'\"()[]$€`%\\“„0", min_size=1, max_size=3)


@given(st.lists(words, min_size=1))
def test_only_blanks_are_changed(tokens: list[str]) -> None:
    text = detokenise(tokens)
    assert text.replace(" ", "") == "".join(tokens)
    assert "  " not in text
    assert text == text.strip(" ")


@given(st.lists(st.text(alphabet="abcXYZ", min_size=1)))
def test_plain_words_are_joined_with_blanks(tokens: list[str]) -> None:
    assert detokenise(tokens) == " ".join(tokens)

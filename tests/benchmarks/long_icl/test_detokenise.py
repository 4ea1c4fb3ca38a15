from __future__ import annotations

import hashlib
import random
from typing import Any

import pytest
from hypothesis import strategies as st

from StaICC.benchmarks.long_icl.files import detokenise


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


# The Perl program of mosestokenizer 1.2.1, which LongICLBench uses, wrote these expectations (Perl 5.36, Unicode 14).


ALPHABETS = (
    *("abcsnt'", "ABZ019x", "'\"`", ",.?!:;\\%}])", "([{$€£¿¡", "„“”`'\"", "<>&-@/", "½²ⅷ٣०éß", "中文ハ한ｱ￠"),
    "e\u0301\u093e\u00a0\u2028\t",
)
WORDS = (
    *("@-@", "``", "''", "'s", "n't", "-LRB-", "&apos;", "&quot;", "&lt;", "&gt;", "&amp;", "&#91;", "&#93;", "&#124;"),
    *("&bar;", "&bra;", "&ket;", "&amp;lt;", "'", "s'", "<s>", ""),
)


def fuzzed_lines(number: int) -> list[str]:
    """Return lines of words that the rules treat differently; they follow from the numbers of one seed."""
    uniform = random.Random(18).random  # the documented generator: the same in all versions of Python

    def one(choices: Any) -> Any:
        return choices[int(uniform() * len(choices))]

    def word() -> str:
        alphabet = ALPHABETS[0] if uniform() < 0.3 else one(ALPHABETS)
        return str(one(WORDS)) if uniform() < 0.2 else "".join(one(alphabet) for _ in range(1 + int(uniform() * 3)))

    return [" ".join(word() for _ in range(1 + int(uniform() * 12))) for _ in range(number)]


def test_6000_fuzzed_lines_are_those_of_the_perl_program() -> None:
    lines = fuzzed_lines(6000)
    digests = [
        hashlib.sha256("\n".join(part).encode()).hexdigest()
        for part in (lines, [detokenise(line.split(" ")) for line in lines])
    ]
    assert digests == [
        "dab9800bf3ebba5b859298e6bf61e32a5cf29c6eeca119a538433dccc535d997",
        "f7ce31f16d09093382a7e14e6e34eb999fed1ddfe98215d4d2fb2f8db7a4f7f4",  # by the Perl program
    ]

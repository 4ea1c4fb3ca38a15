"""Texts are found in others without regard to case, where they are in the text itself."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from StaICC.inference.reply_grammar.letter_case import span_without_case

LETTERS_THAT_BECOME_LONGER = "\u00df\u0130\ufb01\u0149\u1f80"
TEXTS = st.text(alphabet="aAsS:i " + LETTERS_THAT_BECOME_LONGER, max_size=12)


@pytest.mark.parametrize(
    ("text", "part", "span"),
    [
        ("Labels: late", "labels:", (0, 7)),
        ("wei\u00df. LABELS: late", "labels:", (6, 13)),
        ("STRASSE: late", "stra\u00dfe:", (0, 8)),
        ("stra\u00dfe: late", "STRASSE:", (0, 7)),
        ("no cue", "labels:", None),
        ("", "labels:", None),
    ],
)
def test_a_part_is_found_in_any_case(text: str, part: str, span: tuple[int, int] | None) -> None:
    assert span_without_case(text, part) == span


def test_a_part_does_not_begin_in_the_middle_of_a_letter() -> None:
    """The sharp s becomes two letters s, of which the second one would be found."""
    assert span_without_case("\u00df: s:", "s:") == (3, 5)
    assert span_without_case("\u00df:", "s:") is None


@given(TEXTS, TEXTS.filter(bool))
def test_the_span_is_the_first_one_whose_text_equals_the_part_without_case(text: str, part: str) -> None:
    spans = [(begin, end) for begin in range(len(text)) for end in range(begin + 1, len(text) + 1)]
    equal_spans = [(begin, end) for begin, end in spans if text[begin:end].casefold() == part.casefold()]

    assert span_without_case(text, part) == (equal_spans[0] if equal_spans else None)

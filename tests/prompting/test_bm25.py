"""The similarity of texts by their words: the most similar texts are those with the highest score."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from StaICC.prompting.bm25 import BM25Index, bm25_scores

# Few words, so that texts are often equal, and a word that every text may have.
WORDS = st.sampled_from(["the", "the", "the", "lost", "card", "where", "my", "丢了"])
TEXTS = st.lists(WORDS, max_size=8).map(" ".join)


@given(st.lists(TEXTS, min_size=1, max_size=30), TEXTS)
@settings(max_examples=300, deadline=None)
def test_the_most_similar_texts_are_those_with_the_highest_score(texts: list[str], query: str) -> None:
    (scores,) = bm25_scores([query], texts)
    highest_score = max(scores)
    with_highest_score = [index for index, score in enumerate(scores) if score == highest_score]

    assert BM25Index(texts).most_similar(query) == with_highest_score


class CountedLookups(list[int]):
    """A list whose items can be looked up one by one, which counts, and that cannot be iterated over."""

    lookups = 0

    def __getitem__(self, index: Any) -> Any:
        self.lookups += 1
        return super().__getitem__(index)

    def __iter__(self) -> Iterator[int]:
        raise AssertionError("a word that all texts have was added for every text")


def count_lookups(index: BM25Index, word: str) -> CountedLookups:
    """Let an index count how often it looks up a text with a word, and return the counting list."""
    terms = index._terms_by_word[word]
    counted = CountedLookups(terms.text_indexes)
    index._terms_by_word[word] = replace(terms, text_indexes=counted)
    return counted


def test_words_that_all_texts_have_are_not_added_for_every_text() -> None:
    frequent_words = ["where", "is", "my", "lost", "card"]
    question = "where is my lost card"
    index = BM25Index([f"{question} {number}" for number in range(100)])
    counted = [count_lookups(index, word) for word in frequent_words]

    assert index.most_similar("where is my lost card 7") == [7]

    all_lookups = sum(text_indexes.lookups for text_indexes in counted)
    assert all_lookups < 100, "one for each text at least, if all texts were scored"

"""The similarity of texts by their words: the most similar texts are those with the highest score."""

from __future__ import annotations

import time

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
    highest = max(scores)
    expected = [index for index, score in enumerate(scores) if score == highest]
    assert BM25Index(texts).most_similar(query) == expected


def test_words_that_all_texts_have_cost_little() -> None:
    frequent = " ".join(f"word{number}" for number in range(60))
    index = BM25Index([f"text {number}: {frequent}" for number in range(1500)])
    queries = [f"{frequent} {number}" for number in range(40)]
    began = time.process_time()
    all_scores = [index.scores(query) for query in queries]
    seconds_of_all_scores = time.process_time() - began
    began = time.process_time()
    most_similar = [index.most_similar(query) for query in queries]
    seconds_of_most_similar = time.process_time() - began
    assert most_similar == [[scores.index(max(scores))] for scores in all_scores] == [[n] for n in range(40)]
    assert seconds_of_most_similar < seconds_of_all_scores / 4  # about a thirtieth

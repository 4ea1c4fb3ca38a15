"""The similarity of texts by their words: Okapi BM25."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterator, Sequence

from StaICC.prompting.words import words_of

_K1 = 1.5
_B = 0.75
"""The usual parameters of Okapi BM25: ``_K1`` bounds the weight of a repeated word, ``_B`` corrects for long texts."""
_SMALLEST_MEAN_LENGTH = 1e-12
"""In place of a mean length of 0, when no text has a word, so that it can be divided by."""


def bm25_scores(queries: Sequence[str], texts: Sequence[str]) -> list[list[float]]:
    """Return the score of each text for each query; higher is more similar.

    Okapi BM25 (Robertson and Zaragoza 2009) with k1 = 1.5, b = 0.75, and the words of
    :func:`~StaICC.prompting.words.words_of`: in lower case, without punctuation. For each word of the query, with ``f``
    occurrences in the text and ``n`` of the ``N`` texts that have it, the score is the sum of
    ``idf * f * (k1 + 1) / (f + k1 * (1 - b + b * length / mean length))``, where ``idf`` is
    ``log(1 + (N - n + 0.5) / (n + 0.5))``.

    Example:
        >>> [round(score, 3) for score in bm25_scores(["a lost card"], ["My card is lost.", "Where is it?"])[0]]
        [1.303, 0.0]
    """
    return list(_iterate_bm25_scores(queries, texts))


def nearest_texts(queries: Sequence[str], texts: Sequence[str]) -> list[int]:
    """Return for each query the index of the text with the highest score (:func:`bm25_scores`).

    Of texts with the same score, the first one is returned. It is also that of a query without a word in any text.

    Example:
        >>> nearest_texts(["a lost card", "!"], ["Where is it?", "My card is lost."])
        [1, 0]
    """
    nearest = []
    for scores in _iterate_bm25_scores(queries, texts):  # the scores of all queries would need much memory
        nearest.append(scores.index(max(scores)))
    return nearest


def _iterate_bm25_scores(queries: Sequence[str], texts: Sequence[str]) -> Iterator[list[float]]:
    """Yield for each query the score of each text."""
    text_count = len(texts)
    word_counts = [Counter(words_of(text)) for text in texts]
    lengths = [counts.total() for counts in word_counts]
    mean_length = max(sum(lengths) / max(text_count, 1), _SMALLEST_MEAN_LENGTH)
    length_terms = [_K1 * (1 - _B + _B * length / mean_length) for length in lengths]
    occurrences_of_word: dict[str, list[tuple[int, int]]] = {}  # for each text that has it: its index, the count
    for text_index, counts in enumerate(word_counts):
        for word, count in counts.items():
            occurrences_of_word.setdefault(word, []).append((text_index, count))

    numerator_factor = _K1 + 1
    for query in queries:
        scores = [0.0] * text_count
        for word in words_of(query):
            occurrences = occurrences_of_word.get(word, [])
            idf = math.log(1 + (text_count - len(occurrences) + 0.5) / (len(occurrences) + 0.5))
            for text_index, count in occurrences:
                scores[text_index] += idf * count * numerator_factor / (count + length_terms[text_index])
        yield scores

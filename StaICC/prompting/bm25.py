"""The similarity of texts by their words: Okapi BM25."""

from __future__ import annotations

import math
from array import array
from bisect import bisect_left
from collections import Counter, defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, field

from StaICC.prompting.words import words_of

_K1 = 1.5
_B = 0.75
"""The usual parameters of Okapi BM25: ``_K1`` bounds the weight of a repeated word, ``_B`` corrects for long texts."""
_SMALLEST_MEAN_LENGTH = 1e-12
"""In place of a mean length of 0, when no text has a word, so that it can be divided by."""
_ROUNDING = 1e-9
"""A relative difference of sums that the order of their terms cannot make."""
_SMALL_REMAINDER = 0.1
"""Share of the highest score below which the terms of further words are only added for the texts that may be first."""


@dataclass(frozen=True, slots=True)
class WordTerms:
    """The terms of the sum of BM25 that one word of a query contributes."""

    text_indexes: Sequence[int]
    """The texts that have the word, in increasing order."""
    terms: Sequence[float]
    """For each of these texts, the term of the word in the text's score."""
    largest: float
    """The largest of these terms."""

    def term_of(self, text_index: int) -> float:
        """Return the term of a text; 0 for a text that does not have the word."""
        position = bisect_left(self.text_indexes, text_index)
        if position == len(self.text_indexes) or self.text_indexes[position] != text_index:
            return 0.0
        return self.terms[position]


@dataclass(frozen=True, slots=True)
class _Occurrences:
    """The texts that have a word, in increasing order, and how often each of them has it."""

    text_indexes: array[int] = field(default_factory=lambda: array("q"))
    counts: array[int] = field(default_factory=lambda: array("q"))


@dataclass(frozen=True, slots=True)
class _PartialScores:
    """The scores of texts for some words of a query, those with the largest terms."""

    scores: Sequence[float]
    """For each text, the sum of its terms of these words."""
    highest: float
    """The highest of these scores."""
    remaining: float
    """The largest sum of terms that the other words can add to a score."""


class BM25Index:
    """An inverted index of texts, with which queries are compared by Okapi BM25 (Robertson and Zaragoza 2009).

    The parameters are k1 = 1.5 and b = 0.75, and the words are those of :func:`~StaICC.prompting.words.words_of`: in
    lower case, without punctuation. For each word of the query, with ``f`` occurrences in the text and ``n`` of the
    ``N`` texts that have it, the score of a text is the sum of
    ``idf * f * (k1 + 1) / (f + k1 * (1 - b + b * length / mean length))``, where ``idf`` is
    ``log(1 + (N - n + 0.5) / (n + 0.5))``.

    Args:
        texts: The texts.
    """

    def __init__(self, texts: Sequence[str]) -> None:
        """Count the words of the texts, and compute the term of each word in the score of each text that has it."""
        self._text_count = len(texts)
        lengths = []  # for each text, its number of words
        occurrences_by_word: defaultdict[str, _Occurrences] = defaultdict(_Occurrences)
        for text_index, text in enumerate(texts):
            words = words_of(text)
            lengths.append(len(words))
            for word, count in Counter(words).items():
                occurrences = occurrences_by_word[word]
                occurrences.text_indexes.append(text_index)
                occurrences.counts.append(count)

        mean_length = max(sum(lengths) / max(self._text_count, 1), _SMALLEST_MEAN_LENGTH)
        # The part of the denominator that depends on the text only: k1 * (1 - b + b * length / mean length).
        length_terms = [_K1 * (1 - _B + _B * length / mean_length) for length in lengths]
        self._terms_by_word: dict[str, WordTerms] = {}
        for word, occurrences in occurrences_by_word.items():
            texts_with_word = len(occurrences.text_indexes)
            # idf = log(1 + (N - n + 0.5) / (n + 0.5)), for n of the N texts
            idf = math.log(1 + (self._text_count - texts_with_word + 0.5) / (texts_with_word + 0.5))
            terms = array("d")
            for text_index, count in zip(occurrences.text_indexes, occurrences.counts, strict=True):
                terms.append(idf * count * (_K1 + 1) / (count + length_terms[text_index]))
            self._terms_by_word[word] = WordTerms(occurrences.text_indexes, terms, max(terms))

    def scores(self, query: str) -> list[float]:
        """Return the score of each text; higher is more similar."""
        scores = [0.0] * self._text_count
        for word_terms in self._terms_of_words(query):
            for text_index, term in zip(word_terms.text_indexes, word_terms.terms, strict=True):
                scores[text_index] += term
        return scores

    def most_similar(self, query: str) -> list[int]:
        """Return the indexes of the texts with the highest score, in increasing order: several if they are equal.

        The result is that of :meth:`scores`. Words that most texts have are frequent and add little, so that they are
        left out for most texts (MaxScore, Turtle and Flood 1995): words are added from the largest term to the smallest
        one, until those that are left can add only a small share of the highest score. Only the texts that may still be
        first are then scored in full.
        """
        terms_of_words = self._terms_of_words(query)
        if not terms_of_words:
            return list(range(self._text_count))

        largest_sum = sum(word_terms.largest for word_terms in terms_of_words)
        partial = self._partial_scores(terms_of_words, largest_sum)
        # The text with the highest partial score has at least this score in full, so a text whose partial score is
        # lower by more than the remaining terms cannot be first.
        least_score = partial.highest - partial.remaining - _ROUNDING * largest_sum
        full_scores = {}
        for text_index, partial_score in enumerate(partial.scores):
            may_be_first = partial_score >= least_score
            if may_be_first:
                full_scores[text_index] = _score_of(text_index, terms_of_words)
        highest = max(full_scores.values())
        return [text_index for text_index, score in full_scores.items() if score == highest]

    def _partial_scores(self, terms_of_words: Sequence[WordTerms], largest_sum: float) -> _PartialScores:
        """Return the scores of all texts for some words of a query, from the word with the largest term on.

        It ends when the words that are left can add only a small share of the highest score (:data:`_SMALL_REMAINDER`).

        Args:
            terms_of_words: The terms of each word of the query.
            largest_sum: The sum of the largest terms of these words.
        """
        scores = [0.0] * self._text_count
        highest = 0.0
        remaining = largest_sum
        for word_terms in sorted(terms_of_words, key=_largest_term, reverse=True):
            if remaining < _SMALL_REMAINDER * highest:
                break
            for text_index, term in zip(word_terms.text_indexes, word_terms.terms, strict=True):
                score = scores[text_index] + term
                scores[text_index] = score
                if score > highest:
                    highest = score
            remaining -= word_terms.largest
        return _PartialScores(scores, highest, remaining)

    def _terms_of_words(self, query: str) -> list[WordTerms]:
        """Return the terms of each word of a query that is in a text, in the order of the query."""
        terms_of_words = []
        for word in words_of(query):
            if word in self._terms_by_word:
                terms_of_words.append(self._terms_by_word[word])
        return terms_of_words


def _score_of(text_index: int, terms_of_words: Sequence[WordTerms]) -> float:
    """Return the score of one text.

    The terms are added one by one in the order of the query, as for the scores of all texts: the sum in another order,
    or that of :func:`sum`, may differ in its last digit, and equal scores would no longer be equal.
    """
    score = 0.0
    for word_terms in terms_of_words:
        score += word_terms.term_of(text_index)
    return score


def _largest_term(word_terms: WordTerms) -> float:
    """Return the largest term of a word, by which words are sorted."""
    return word_terms.largest


def bm25_scores(queries: Sequence[str], texts: Sequence[str]) -> list[list[float]]:
    """Return the score of each text for each query (:class:`BM25Index`); higher is more similar.

    Example:
        >>> [round(score, 3) for score in bm25_scores(["a lost card"], ["My card is lost.", "Where is it?"])[0]]
        [1.303, 0.0]
    """
    index = BM25Index(texts)
    return [index.scores(query) for query in queries]

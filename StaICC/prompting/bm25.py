"""Similarity of texts by their words: Okapi BM25 (Robertson and Zaragoza 2009)."""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Sequence


def _words(text: str) -> list[str]:
    return re.findall(r"\w+", text.casefold())


def bm25_scores(queries: Sequence[str], texts: Sequence[str]) -> list[list[float]]:
    """Return the score of each text for each query; higher is more similar.

    With k1 = 1.5, b = 0.75, the inverse document frequency ``log(1 + (N - n + 0.5) / (n + 0.5))``, and words in lower
    case without punctuation.

    Example:
        >>> [round(score, 3) for score in bm25_scores(["a lost card"], ["My card is lost.", "Where is it?"])[0]]
        [1.303, 0.0]
    """
    bags = [Counter(_words(text)) for text in texts]
    lengths = [bag.total() for bag in bags]
    mean = max(sum(lengths) / max(len(lengths), 1), 1e-12)
    norm = [1.5 * (0.25 + 0.75 * length / mean) for length in lengths]
    places: dict[str, list[tuple[int, int]]] = {}
    for place, bag in enumerate(bags):
        for word, count in bag.items():
            places.setdefault(word, []).append((place, count))
    found = []
    for query in queries:
        scores = [0.0] * len(texts)
        for word in _words(query):
            there = places.get(word, [])
            weight = math.log(1 + (len(texts) - len(there) + 0.5) / (len(there) + 0.5))
            for place, count in there:
                scores[place] += weight * count * 2.5 / (count + norm[place])
        found.append(scores)
    return found

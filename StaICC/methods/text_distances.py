"""Distances between texts: of their encodings, or by their words."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Protocol

from StaICC.errors import ArgumentError
from StaICC.methods.nearness import euclidean, finite_matrix
from StaICC.methods.packed_features import numpy
from StaICC.methods.present_rows import check_answered
from StaICC.prompting.bm25 import bm25_scores


class TextDistances(Protocol):
    """Compares texts."""

    def distances(self, texts: Sequence[str], others: Sequence[str]) -> Any:
        """Return the distance of each text to each of the others: array (texts, others)."""

    def cosines(self, texts: Sequence[str], others: Sequence[str]) -> Any:
        """Return the cosine of the angle between each text and each of the others: array (texts, others).

        Raises:
            ArgumentError: The texts are not compared by vectors.
        """


class EncodedTexts:
    """Texts that are compared by their encodings: vectors, such as the model's last hidden states."""

    def __init__(self, texts: Sequence[str], encodings: Any) -> None:
        """Keep the encodings of texts.

        Args:
            texts: The texts, all different.
            encodings: The vector of each text.

        Raises:
            OutputError: An encoding is missing, or has NaN or an infinity.
        """
        self._encodings = finite_matrix(check_answered(encodings, "encoding"), "encoding")
        self._row_of = {text: row for row, text in enumerate(texts)}

    def distances(self, texts: Sequence[str], others: Sequence[str]) -> Any:
        """Return the Euclidean distances of the encodings."""
        return euclidean(self._encodings_of(texts), self._encodings_of(others))

    def cosines(self, texts: Sequence[str], others: Sequence[str]) -> Any:
        """Return the cosines of the encodings; that of an encoding of zeros is 0."""
        return _unit_rows(self._encodings_of(texts)) @ _unit_rows(self._encodings_of(others)).T

    def _encodings_of(self, texts: Sequence[str]) -> Any:
        """Return the encodings of some of the texts, an array (texts, width)."""
        return self._encodings[[self._row_of[text] for text in texts]]


class WordOverlap:
    """Texts that are compared by their words: the distance is minus the score of Okapi BM25."""

    def distances(self, texts: Sequence[str], others: Sequence[str]) -> Any:
        """Return minus the score of each of the others for each text."""
        return -numpy.array(bm25_scores(list(texts), list(others)))

    def cosines(self, texts: Sequence[str], others: Sequence[str]) -> Any:
        """Refuse: words are no vectors here."""
        raise ArgumentError(
            "encoder='bm25' has no vectors, whose angles rule='dpp' needs. Use another encoder, or another rule"
        )


def _unit_rows(vectors: Any) -> Any:
    """Return vectors divided by their lengths; a vector of zeros stays as it is."""
    lengths = numpy.sqrt((vectors**2).sum(axis=1, keepdims=True))
    return vectors / numpy.where(lengths > 0, lengths, 1.0)

"""Distances between texts: of their encodings, or by their words.

An encoding is a vector, such as the model's last hidden state at the text's last token; the distances of all queries to
all demonstrations are one matrix product.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import lru_cache
from typing import Any

from StaICC.errors import unknown_name
from StaICC.methods.calibration.neighbours import euclidean, finite_matrix
from StaICC.methods.features import check_answered, numpy
from StaICC.optional import require
from StaICC.prompting.bm25 import bm25_scores

Distances = Callable[[list[str], list[str]], Any]
"""Returns the distance of each of some texts to each of others: array (texts, others)."""


def vector_distances(texts: Sequence[str], states: Any) -> Distances:
    """Return the Euclidean distances between texts by their encodings.

    Args:
        texts: The texts, all different.
        states: The encoding of each.

    Raises:
        OutputError: An encoding is missing, or has NaN or an infinity.
    """
    matrix = finite_matrix(check_answered(states, "encoding"), "encoding")
    places = {text: place for place, text in enumerate(texts)}

    def distances(some: list[str], others: list[str]) -> Any:
        first, second = (matrix[[places[text] for text in part]] for part in (some, others))
        return euclidean(first, second)

    return distances


def bm25_distances(some: list[str], others: list[str]) -> Any:
    """Return distances by words: minus the score of :func:`StaICC.prompting.bm25.bm25_scores`."""
    return -numpy.array(bm25_scores(some, others))


def encoder(choice: Any) -> Any:
    """Return the feature that encodes texts.

    Args:
        choice: ``"hidden"``: the hidden states of the kernel; ``"hf:NAME_OR_FOLDER"``;
            ``"sentence-transformers:NAME"``; or a function that returns a vector for each text of a list.
    """
    kind, _, name = str(choice).partition(":")
    if isinstance(choice, str) and kind == "hf" and name:
        from StaICC.kernels.huggingface.sentence_encoder import SentenceEncoder

        return SentenceEncoder.from_spec(choice)
    if isinstance(choice, str) and kind == "sentence-transformers" and name:
        return _sentence_encoder(name)
    if choice != "hidden" and not callable(choice):
        raise unknown_name("encoder", choice, ["hidden", "bm25", "hf:NAME_OR_FOLDER", "sentence-transformers:NAME"])
    return choice


@lru_cache(maxsize=4)
def _sentence_encoder(name: str) -> Any:
    package = require("sentence_transformers", "hf", "encoding demonstrations")
    return package.SentenceTransformer(name).encode

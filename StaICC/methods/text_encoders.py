"""Encoders of texts: what returns a vector for each text."""

from __future__ import annotations

from functools import lru_cache
from typing import Any

from StaICC.errors import unknown_name
from StaICC.optional import require

ENCODERS = ("hidden", "bm25", "hf:NAME_OR_FOLDER", "sentence-transformers:NAME")
"""What the option ``encoder`` accepts besides functions. ``"bm25"`` compares words and encodes nothing."""


def encoder(choice: Any) -> Any:
    """Return the feature that encodes texts, as a method asks for it.

    Args:
        choice: ``"hidden"``: the hidden states of the kernel; ``"hf:NAME_OR_FOLDER"``;
            ``"sentence-transformers:NAME"``; or a function that returns a vector for each text of a list.

    Raises:
        UnknownNameError: It is none of these.
    """
    if choice == "hidden" or callable(choice):
        return choice
    if isinstance(choice, str):
        kind, _, name = choice.partition(":")
        if kind == "hf" and name:
            from StaICC.kernels.huggingface.sentence_encoder import SentenceEncoder

            return SentenceEncoder.from_spec(choice)
        if kind == "sentence-transformers" and name:
            return _sentence_transformer(name)
    raise unknown_name("encoder", choice, ENCODERS)


def encoder_signature(choice: Any) -> str | None:
    """Return what signatures say of an encoder: of one of transformers, the digest of its files; else ``None``."""
    if isinstance(choice, str) and choice.startswith("hf:"):
        return f"hf-{encoder(choice).files[:12]}"
    return None


@lru_cache(maxsize=4)
def _sentence_transformer(name: str) -> Any:
    """Return the function of a model of the package sentence-transformers that encodes a list of texts."""
    package = require("sentence_transformers", "hf", "encoding demonstrations")
    return package.SentenceTransformer(name).encode

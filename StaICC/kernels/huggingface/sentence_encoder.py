"""A sentence encoder of ``transformers``: the mean of a text's last hidden states.

It is identified by the digest of its files, in signatures too: the same name may hold other files tomorrow.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, NamedTuple

from StaICC.errors import ArgumentError, StaICCError
from StaICC.kernels.huggingface import torch
from StaICC.kernels.huggingface.source import ModelSource
from StaICC.optional import require
from StaICC.safe_text import logger

AT_ONCE = 32
"""Texts in one call of the model."""
_UNLIMITED = 10**9
"""More tokens than a text has."""

_log = logger(__name__)


@dataclass(frozen=True)
class SentenceEncoder:
    """Encodes texts by a model of the hub or of a folder; equal files make equal encoders.

    Attributes:
        folder: The folder of the files.
        files: The digest of all of them.
    """

    folder: str
    files: str

    @classmethod
    def from_spec(cls, spec: str) -> SentenceEncoder:
        """Return the encoder of ``"hf:NAME_OR_FOLDER"``; downloads it if necessary.

        Raises:
            ArgumentError: The name is empty, or names a GGUF file.
            StaICCError: The model is not found.
        """
        source = ModelSource(spec, device="cpu", dtype="float32")
        location = source.location()
        if location.kind == "gguf":
            raise ArgumentError(f"encoder: got {spec!r}, expected hf:NAME or hf:FOLDER of a model of transformers")
        if location.kind == "hub":
            _download(location.name, location.revision)
        folder = str(source._folder())
        content = ModelSource(folder, device="cpu", dtype="float32").content()
        return cls(folder, content["files"])

    def __call__(self, texts: Sequence[str]) -> Any:
        """Return the mean of the last hidden states of each text's tokens, an array (texts, width).

        Texts that are longer than the model reads are cut, with a warning.
        """
        model, tokenizer = _loaded_encoder(self.folder, self.files)
        # A text can be as long as the model and the tokenizer both allow.
        limit_of_model = getattr(model.config, "max_position_embeddings", _UNLIMITED)
        limit = min(tokenizer.model_max_length, limit_of_model)
        _warn_of_cut_texts(tokenizer, texts, limit)
        means = []
        for start in range(0, len(texts), AT_ONCE):
            inputs = tokenizer(
                list(texts[start : start + AT_ONCE]),
                padding=True,
                truncation=True,
                max_length=limit,
                return_tensors="pt",
            )
            with torch.inference_mode():
                states = model(**inputs).last_hidden_state
            # 1 for a token, 0 for padding, of shape (texts, positions, 1).
            weights = inputs["attention_mask"][..., None].to(states.dtype)
            means.append((states * weights).sum(1) / weights.sum(1))
        return torch.cat(means).numpy()


def _download(name: str, revision: str | None) -> None:
    """Download the files of a model of the hub that are missing. Loading the model does that.

    Raises:
        StaICCError: The model is not found.
    """
    transformers = require("transformers", "hf", "a sentence encoder")
    try:
        transformers.AutoTokenizer.from_pretrained(name, revision=revision, trust_remote_code=False)
        transformers.AutoModel.from_pretrained(name, revision=revision, trust_remote_code=False)
    except (OSError, ValueError) as error:
        raise StaICCError(f"the encoder {name!r} could not be loaded: {error}") from error


def _warn_of_cut_texts(tokenizer: Any, texts: Sequence[str], limit: int) -> None:
    """Log a warning if texts have more tokens than the model reads."""
    cut_count = 0
    for tokens in tokenizer(list(texts))["input_ids"]:
        if len(tokens) > limit:
            cut_count += 1
    if cut_count > 0:
        _log.warning(
            "%d of %d texts are longer than the encoder reads (%d tokens) and cut", cut_count, len(texts), limit
        )


class _LoadedEncoder(NamedTuple):
    """An encoder in memory."""

    model: Any
    tokenizer: Any


@lru_cache(maxsize=2)
def _loaded_encoder(folder: str, files: str) -> _LoadedEncoder:
    """Return the model and the tokenizer of a folder.

    Args:
        folder: The folder.
        files: The digest of its files: with other files in the same folder, the cache has no entry.
    """
    transformers = require("transformers", "hf", "a sentence encoder")
    model = transformers.AutoModel.from_pretrained(folder, trust_remote_code=False).float().eval()
    tokenizer = transformers.AutoTokenizer.from_pretrained(folder, trust_remote_code=False)
    return _LoadedEncoder(model, tokenizer)

"""A sentence encoder of ``transformers``: the mean of a text's last hidden states.

It is identified by the digest of its files, in signatures too: the same name may hold other files tomorrow.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

from StaICC.errors import ArgumentError, StaICCError
from StaICC.kernels.huggingface import torch
from StaICC.kernels.huggingface.source import ModelSource
from StaICC.optional import require
from StaICC.safe_text import logger

AT_ONCE = 32
"""Texts in one call of the model."""

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
        source = ModelSource(spec, "cpu", "float32")
        kind, name, revision = source.where()
        if kind == "gguf":
            raise ArgumentError(f"encoder: got {spec!r}, expected hf:NAME or hf:FOLDER of a model of transformers")
        if kind == "hub":
            transformers = require("transformers", "hf", "a sentence encoder")
            try:  # loading downloads what is missing
                for auto in (transformers.AutoTokenizer, transformers.AutoModel):
                    auto.from_pretrained(name, revision=revision, trust_remote_code=False)
            except (OSError, ValueError) as error:
                raise StaICCError(f"the encoder {name!r} could not be loaded: {error}") from error
        folder = str(source._folder())
        return cls(folder, ModelSource(folder, "cpu", "float32").content()["files"])

    def __call__(self, texts: Sequence[str]) -> Any:
        """Return the mean of the last hidden states of each text's tokens, an array (texts, width).

        Texts that are longer than the model reads are cut, with a warning.
        """
        model, tokenizer = _loaded_encoder(self.folder, self.files)
        limit = min(tokenizer.model_max_length, getattr(model.config, "max_position_embeddings", 10**9))
        sizes = [len(row) for row in tokenizer(list(texts))["input_ids"]]
        if max(sizes, default=0) > limit:
            longer = sum(size > limit for size in sizes)
            counts = longer, len(sizes), limit
            _log.warning("%d of %d texts are longer than the encoder reads (%d tokens) and cut", *counts)
        rows = []
        for start in range(0, len(texts), AT_ONCE):
            options = {"padding": True, "truncation": True, "max_length": limit, "return_tensors": "pt"}
            inputs = tokenizer(list(texts[start : start + AT_ONCE]), **options)
            with torch.inference_mode():
                states = model(**inputs).last_hidden_state
            shares = inputs["attention_mask"][..., None].to(states.dtype)
            rows.append((states * shares).sum(1) / shares.sum(1))
        return torch.cat(rows).numpy()


@lru_cache(maxsize=2)
def _loaded_encoder(folder: str, files: str) -> tuple[Any, Any]:
    """Return model and tokenizer of files with this digest."""
    transformers = require("transformers", "hf", "a sentence encoder")
    model = transformers.AutoModel.from_pretrained(folder, trust_remote_code=False).float().eval()
    return model, transformers.AutoTokenizer.from_pretrained(folder, trust_remote_code=False)

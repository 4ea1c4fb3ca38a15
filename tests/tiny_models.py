"""Tokenizers that are trained on a few texts, for models with random weights."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any


def train_tokenizer(texts: Sequence[str], vocabulary: int, special: Sequence[str] = ()) -> Any:
    """Return a byte-level tokenizer of the ``tokenizers`` library.

    Args:
        texts: What it is trained on.
        vocabulary: Number of its tokens.
        special: The first of these.
    """
    import tokenizers

    made = tokenizers.Tokenizer(tokenizers.models.BPE())
    made.pre_tokenizer = tokenizers.pre_tokenizers.ByteLevel(add_prefix_space=False)
    made.decoder = tokenizers.decoders.ByteLevel()
    alphabet = tokenizers.pre_tokenizers.ByteLevel.alphabet()
    trainer = tokenizers.trainers.BpeTrainer(
        vocab_size=vocabulary, initial_alphabet=alphabet, special_tokens=list(special), show_progress=False
    )
    made.train_from_iterator(texts, trainer)
    return made


def random_llama(tokenizer: Any, width: int = 32, layers: int = 2, heads: int = 2, **config: Any) -> Any:
    """Return a Llama with random weights, always the same."""
    import torch
    import transformers

    torch.manual_seed(0)
    sizes = {"hidden_size": width, "num_hidden_layers": layers, "num_attention_heads": heads}
    shape = {"vocab_size": len(tokenizer), **sizes, "max_position_embeddings": 32768, **config}
    return transformers.LlamaForCausalLM(transformers.LlamaConfig(**shape)).eval()

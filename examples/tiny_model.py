"""A tiny random language model for notebooks, without downloads.

It has two layers and a tokenizer of single bytes. It never learned anything, so its figures mean nothing; with it, each
way through the library can be run in seconds, without a network.
"""

from __future__ import annotations

import tokenizers
import torch
import transformers

from StaICC import CausalLMKernel

__all__ = ["tiny_kernel"]


def tiny_kernel(seed: int = 0, positions: int = 4096) -> CausalLMKernel:
    """Make a kernel of a random Llama.

    Args:
        seed: Of its weights; the same seed gives the same model.
        positions: Most tokens (here: bytes) of a prompt.

    Returns:
        The kernel. Labels are scored by all their tokens, since a single byte could not tell them apart, and by the
        mean, since a random model finds short labels likelier.
    """
    letters = sorted(tokenizers.pre_tokenizers.ByteLevel.alphabet())
    vocabulary = {letter: number for number, letter in enumerate([*letters, "<end>"])}
    inner = tokenizers.Tokenizer(tokenizers.models.BPE(vocabulary, []))
    inner.pre_tokenizer = tokenizers.pre_tokenizers.ByteLevel(add_prefix_space=False)
    inner.decoder = tokenizers.decoders.ByteLevel()
    tokenizer = transformers.PreTrainedTokenizerFast(tokenizer_object=inner, eos_token="<end>")
    config = transformers.LlamaConfig(
        vocab_size=len(vocabulary),
        hidden_size=32,
        intermediate_size=64,
        num_hidden_layers=2,
        num_attention_heads=2,
        max_position_embeddings=positions,
        initializer_range=0.1,  # large enough that texts differ in their hidden states
        bos_token_id=None,
        eos_token_id=vocabulary["<end>"],
    )
    torch.set_num_threads(1)  # for so small a model, several threads only wait for each other
    with torch.random.fork_rng():
        torch.manual_seed(seed)
        model = transformers.AutoModelForCausalLM.from_config(config)
    return CausalLMKernel(model.eval(), tokenizer, label_scoring="full", label_normalisation="mean")

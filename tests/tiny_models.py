"""Tokenizers that are trained on a few texts, for models with random weights."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any


def train_tokenizer(texts: Sequence[str], vocabulary: int, special: Sequence[str] = ()) -> Any:
    """Return a byte-level tokenizer of the ``tokenizers`` library.

    Args:
        texts: What it is trained on.
        vocabulary: Number of its tokens.
        special: The first of these.
    """
    import tokenizers

    tokenizer = tokenizers.Tokenizer(tokenizers.models.BPE())
    tokenizer.pre_tokenizer = tokenizers.pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = tokenizers.decoders.ByteLevel()
    alphabet = tokenizers.pre_tokenizers.ByteLevel.alphabet()
    trainer = tokenizers.trainers.BpeTrainer(
        vocab_size=vocabulary, initial_alphabet=alphabet, special_tokens=list(special), show_progress=False
    )
    tokenizer.train_from_iterator(texts, trainer)
    return tokenizer


def random_llama(tokenizer: Any, width: int = 32, layers: int = 2, heads: int = 2, **config: Any) -> Any:
    """Return a Llama with random weights, always the same."""
    import torch
    import transformers

    torch.manual_seed(0)
    sizes = {"hidden_size": width, "num_hidden_layers": layers, "num_attention_heads": heads}
    shape = {"vocab_size": len(tokenizer), **sizes, "max_position_embeddings": 32768, **config}
    return transformers.LlamaForCausalLM(transformers.LlamaConfig(**shape)).eval()


def write_gguf(path: Path, seed: int = 0) -> Path:
    """Write a tiny random Llama with quantised weights and a byte-level tokenizer as a GGUF file."""
    import gguf
    import numpy

    generator = numpy.random.default_rng(seed)
    width, layers = 64, 2
    tokens = ["<unk>", "<s>", "</s>", *map(chr, range(33, 127)), "Ġ", "Ċ", "th", "he", "an", "in"]
    writer = gguf.GGUFWriter(path, "llama")
    writer.add_vocab_size(len(tokens))
    writer.add_context_length(256)
    writer.add_embedding_length(width)
    writer.add_block_count(layers)
    writer.add_feed_forward_length(2 * width)
    writer.add_head_count(4)
    writer.add_head_count_kv(4)
    writer.add_rope_dimension_count(width // 4)
    writer.add_layer_norm_rms_eps(1e-5)
    writer.add_rope_freq_base(10000.0)
    writer.add_tokenizer_model("gpt2")
    writer.add_tokenizer_pre("gpt-2")
    writer.add_token_list(tokens)
    writer.add_token_types([3, 3, 3] + [1] * (len(tokens) - 3))
    writer.add_token_merges(["t h", "h e", "a n", "i n"])
    writer.add_unk_token_id(0)
    writer.add_bos_token_id(1)
    writer.add_eos_token_id(2)

    def add_random_matrix(name: str, rows: int, columns: int) -> None:
        weight = (0.05 * generator.standard_normal((rows, columns))).astype(numpy.float32)
        quantisation = gguf.GGMLQuantizationType.Q8_0
        writer.add_tensor(f"{name}.weight", gguf.quants.quantize(weight, quantisation), raw_dtype=quantisation)

    def add_ones(name: str) -> None:
        writer.add_tensor(f"{name}.weight", numpy.ones(width, numpy.float32))

    add_random_matrix("token_embd", len(tokens), width)
    for number in range(layers):
        layer = f"blk.{number}"
        for name in ("attn_q", "attn_k", "attn_v", "attn_output"):
            add_random_matrix(f"{layer}.{name}", width, width)
        add_random_matrix(f"{layer}.ffn_gate", 2 * width, width)
        add_random_matrix(f"{layer}.ffn_up", 2 * width, width)
        add_random_matrix(f"{layer}.ffn_down", width, 2 * width)
    add_ones("output_norm")
    for number in range(layers):
        add_ones(f"blk.{number}.attn_norm")
        add_ones(f"blk.{number}.ffn_norm")
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    return path

"""Tiny random models of many families, and tokenizers made on the spot: nothing is fetched."""

from __future__ import annotations

from typing import Any

import pytest

VOCABULARY = 384
COMMON: dict[str, Any] = {
    "vocab_size": VOCABULARY,
    "hidden_size": 32,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "intermediate_size": 64,
    "max_position_embeddings": 256,
    "initializer_range": 0.3,  # large enough that a wrong mask or position shows
    "bos_token_id": 0,
    "eos_token_id": 0,
    "pad_token_id": 0,
}
SIZES: dict[str, dict[str, Any]] = {
    "GPT2": {"n_embd": 32, "n_layer": 2, "n_head": 4, "n_positions": 256},
    "Llama": {"num_key_value_heads": 2},
    "OPT": {"ffn_dim": 64, "word_embed_proj_dim": 24, "init_std": 0.3},
    "GPTNeoX": {"rotary_pct": 0.25},
    "Falcon": {"alibi": False, "new_decoder_architecture": False},
    "Qwen2": {"num_key_value_heads": 2},
    "Gemma": {"num_key_value_heads": 2, "head_dim": 8},
    "Mamba": {"state_size": 4},
    "Gemma2": {
        "num_key_value_heads": 2, "head_dim": 8, "final_logit_softcapping": 5.0, "query_pre_attn_scalar": 8,
        "sliding_window": 24,
    },
    "Cohere": {"num_key_value_heads": 2, "logit_scale": 0.25},
    "Granite": {"num_key_value_heads": 2, "logits_scaling": 3.0},
    "Bloom": {"n_layer": 2, "n_head": 4},
    "Mistral": {"num_key_value_heads": 2, "sliding_window": 24},
    "GPTJ": {"n_embd": 32, "n_layer": 2, "n_head": 4, "n_positions": 256, "rotary_dim": 4},
    "Mixtral": {"num_key_value_heads": 2, "num_local_experts": 4},
}  # fmt: skip
TEXT = "question: who wrote the play about good and bad people in the city? answer: person location number entity"


@pytest.fixture(scope="session")
def make_model() -> Any:
    """Builds a tiny random model of a family, in float32 and evaluation mode, the same for the same arguments."""
    torch = pytest.importorskip("torch")
    transformers = pytest.importorskip("transformers")

    def make(family: str, seed: int = 0, **more: Any) -> Any:
        config_class = getattr(transformers, f"{family}Config", None)
        if config_class is None:
            pytest.skip(f"this release of transformers has no {family}")
        with torch.random.fork_rng():
            torch.manual_seed(seed)
            config = config_class(**{**COMMON, **SIZES.get(family, {}), **more})
            return transformers.AutoModelForCausalLM.from_config(config).float().eval()

    return make


@pytest.fixture(scope="session")
def make_tokenizer() -> Any:
    """Builds a byte-level tokenizer that knows the words of one sentence."""
    transformers = pytest.importorskip("transformers")
    tokenizers = pytest.importorskip("tokenizers")

    def make(**more: Any) -> Any:
        made = tokenizers.Tokenizer(tokenizers.models.BPE())
        made.pre_tokenizer = tokenizers.pre_tokenizers.ByteLevel(add_prefix_space=False)
        made.decoder = tokenizers.decoders.ByteLevel()
        trainer = tokenizers.trainers.BpeTrainer(
            vocab_size=VOCABULARY,
            initial_alphabet=tokenizers.pre_tokenizers.ByteLevel.alphabet(),
            special_tokens=["<|end|>"],
            show_progress=False,
        )
        made.train_from_iterator([TEXT, TEXT], trainer)
        start = more.pop("add_start", False)
        if start:
            made.post_processor = tokenizers.processors.TemplateProcessing(
                single="<|end|> $A", special_tokens=[("<|end|>", 0)]
            )
        names = {"eos_token": "<|end|>", "bos_token": "<|end|>", **more}
        return transformers.PreTrainedTokenizerFast(tokenizer_object=made, **names)

    return make

"""BANKING77, five rounds, through the prefix-reusing kernel: positions computed, and those without reuse.

The model is small and has random weights (a Llama with 32,768 positions), so the figures are about cost. The data are
the published files, in a folder or installed. Usage::

    python tests/performance/long_icl.py --data DIR [--scoring last|first|full] [--queries 20]
"""

from __future__ import annotations

import os
import time
from typing import Any

import torch
import transformers
from records import arguments, markdown, record

from StaICC import LongICL
from StaICC.kernels.huggingface.kernel import CausalLMKernel

POSITIONS = 32768


def trained_tokenizer(texts: list[str]) -> Any:
    """A byte-level tokenizer made from the prompts."""
    import tokenizers

    made = tokenizers.Tokenizer(tokenizers.models.BPE())
    made.pre_tokenizer = tokenizers.pre_tokenizers.ByteLevel(add_prefix_space=False)
    made.decoder = tokenizers.decoders.ByteLevel()
    alphabet = tokenizers.pre_tokenizers.ByteLevel.alphabet()
    trainer = tokenizers.trainers.BpeTrainer(vocab_size=8000, initial_alphabet=alphabet, show_progress=False)
    made.train_from_iterator(texts, trainer)
    return transformers.PreTrainedTokenizerFast(tokenizer_object=made)


class Reports:
    """The kernel, with the report of every call."""

    def __init__(self, kernel: CausalLMKernel) -> None:
        self.kernel = kernel
        self.rows: list[list[float]] = []

    def __call__(self, prompt: str, label_space: list[str]) -> list[float]:
        return self.batch([prompt], label_space)[0]

    def batch(self, prompts: list[str], label_space: list[str]) -> list[list[float]]:
        started = time.perf_counter()
        rows = self.kernel.batch(prompts, label_space)
        assert self.kernel.last_scores is not None
        report = self.kernel.last_scores.report
        self.rows.append([report.computed, report.tokens, time.perf_counter() - started])
        return rows


if __name__ == "__main__":
    options = arguments(
        __doc__, {"--data": os.environ.get("STAICC_LONGICL_DATA", str), "--queries": 20, "--scoring": "last"}
    )
    benchmark = LongICL(options.data, ["banking77"], test_number=options.queries, announce=lambda notice: None)
    tokenizer = trained_tokenizer([benchmark[0].context(5)])
    torch.manual_seed(0)
    config = transformers.LlamaConfig(
        vocab_size=len(tokenizer),
        hidden_size=384,
        intermediate_size=1536,
        num_hidden_layers=6,
        num_attention_heads=6,
        num_key_value_heads=2,
        max_position_embeddings=POSITIONS,
    )
    model = transformers.LlamaForCausalLM(config).eval()
    kernel = Reports(CausalLMKernel(model, tokenizer, label_scoring=options.scoring))
    benchmark(kernel, progress=False)
    rows = [*kernel.rows, [sum(column) for column in zip(*kernel.rows, strict=True)]]
    print(markdown(["positions computed", "without reuse", "seconds"], rows))
    del options.data
    record(__file__, {"rounds": rows[:-1], "all": rows[-1]}, vars(options))

"""Positions that a model computes for several ``k`` together, against the sum of separate runs.

A tiny random model with a long context and the tokenizer of SmolLM2. Usage::

    python tests/performance/many_shot.py [--dataset TREC] [--k 4 16 64 256] [--limit 4] [--sampler nested]
"""

from __future__ import annotations

import argparse
from typing import Any

from methods import counted  # type: ignore[import-not-found]
from records import record

from StaICC import Normal
from StaICC.kernels.huggingface.kernel import CausalLMKernel
from StaICC.methods.run import Method, run_many_shot


def tiny_kernel() -> CausalLMKernel:
    import torch
    import transformers

    tokenizer = CausalLMKernel.from_spec("smollm2").tokenizer
    torch.manual_seed(0)
    config = transformers.LlamaConfig(
        vocab_size=len(tokenizer),
        hidden_size=32,
        intermediate_size=64,
        num_hidden_layers=2,
        num_attention_heads=4,
        num_key_value_heads=2,
        max_position_embeddings=65536,
    )
    return CausalLMKernel(transformers.AutoModelForCausalLM.from_config(config).eval(), tokenizer)


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--dataset", default="TREC")
    parser.add_argument("--k", type=int, nargs="+", default=[4, 16, 64, 256])
    parser.add_argument("--limit", type=int, default=4)
    parser.add_argument("--sampler", nargs="+", default=["default", "nested", "nested-shared"])
    options = parser.parse_args()
    kernel = tiny_kernel()
    figures: dict[str, Any] = {}
    for sampler in options.sampler:

        def make(k: int, sampler: str = sampler) -> Normal:
            return Normal(k, datasets=[options.dataset], limit=options.limit, sampler=sampler)

        separate = []
        for k in options.k:
            with counted() as alone:
                Method("vanilla", kernel).run(make(k))
            separate.append(alone.computed)
        with counted() as together:
            run_many_shot(Method("vanilla", kernel), make, options.k)
        figures[sampler] = {
            "separate": sum(separate),
            "together": together.computed,
            "distinct": together.distinct,
            "share": together.computed / sum(separate),
        }
        print(
            f"{sampler}: separate {separate}, sum {sum(separate)}; together {together.computed} "
            f"({together.computed / sum(separate):.3f}), distinct prefixes {together.distinct}",
            flush=True,
        )
    record(__file__, figures, vars(options))


if __name__ == "__main__":
    main()

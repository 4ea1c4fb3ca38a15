"""BANKING77, five rounds, through the prefix-reusing kernel: positions computed, and those without reuse.

The model is small and has random weights (a Llama with 32,768 positions), so the figures are about cost. The data are
the published files, in a folder or installed. Usage::

    python tests/performance/long_icl.py --data DIR [--scoring last|first|full] [--queries 20]
"""

from __future__ import annotations

import os
import time

import transformers
from records import arguments, markdown, record

from StaICC import LongICL
from StaICC.kernels.huggingface.kernel import CausalLMKernel
from tests.tiny_models import random_llama, train_tokenizer


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
    made = train_tokenizer([benchmark[0].context(5)], 8000)
    tokenizer = transformers.PreTrainedTokenizerFast(tokenizer_object=made)
    model = random_llama(tokenizer, 384, 6, 6, intermediate_size=1536, num_key_value_heads=2)
    kernel = Reports(CausalLMKernel(model, tokenizer, label_scoring=options.scoring))
    benchmark(kernel, progress=False)
    rows = [*kernel.rows, [sum(column) for column in zip(*kernel.rows, strict=True)]]
    print(markdown(["positions computed", "without reuse", "seconds"], rows))
    del options.data
    record(__file__, {"rounds": rows[:-1], "all": rows[-1]}, vars(options))

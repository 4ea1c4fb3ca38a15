"""How long a GGUF file takes until the first prediction: plain transformers, a first load, and a second load, in turns.

Each measurement is a process of its own; seconds are those of the processor. A first load has an empty data home, so it
writes the converted copy; a second load reads it::

    python tests/performance/gguf_loading.py SmolLM2.gguf gemma-3-270m-q4_k_m.gguf

Phases: import of torch, transformers and its code of these models, load, identity, first batch (with the checks of the
engine), next batch.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from itertools import product
from pathlib import Path
from typing import Any

from records import arguments, markdown, record

PHASES = ("import", "load", "identity", "first batch", "next batch")
WAYS = ("transformers", "first", "second")


def phases_of(way: str, path: Path, dtype: str) -> Iterator[tuple[str, float]]:
    """Yield each phase with the processor time at its end."""
    import torch
    import transformers
    import transformers.models.gemma3.modeling_gemma3
    import transformers.models.llama.modeling_llama

    assert transformers.AutoModelForCausalLM
    transformers.utils.logging.disable_progress_bar()
    yield "import", time.process_time()
    if way == "transformers":
        options: dict[str, Any] = {"gguf_file": path.name, "dtype": getattr(torch, dtype)}
        if hasattr(transformers, "GgufConfig"):
            options["quantization_config"] = transformers.GgufConfig(dequantize=True)
        transformers.AutoTokenizer.from_pretrained(path.parent, gguf_file=path.name)
        transformers.AutoModelForCausalLM.from_pretrained(path.parent, **options)
        yield "load", time.process_time()
        return
    from StaICC import CausalLMKernel, Normal

    kernel = CausalLMKernel.from_spec(str(path), device="cpu", dtype=dtype)
    kernel.load_model()
    yield "load", time.process_time()
    kernel.identity()
    yield "identity", time.process_time()
    experimentor = Normal(datasets=["mini"], limit=8)[0]
    prompts, labels = experimentor.prompt_set(), experimentor.get_label_space()
    half = len(prompts) // 2
    for phase, batch in (("first batch", prompts[:half]), ("next batch", prompts[half:])):
        kernel.batch(batch, labels)
        yield phase, time.process_time()


def measure(way: str, path: Path, dtype: str) -> dict[str, float]:
    """Return the seconds of each phase of this process, and its largest memory."""
    import resource

    seconds, before = {}, time.process_time()
    for phase, now in phases_of(way, path, dtype):
        seconds[phase], before = round(now - before, 2), now
    return {**seconds, "MiB": round(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024)}


def measure_in_process(way: str, path: Path, dtype: str, home: str) -> dict[str, float]:
    """Return the seconds of each phase, and the largest memory, of a process of its own with a data home."""
    command = [sys.executable, __file__, "--one", json.dumps([way, str(path), dtype])]
    environment = {**os.environ, "STAICC_HOME": home}
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=True)
    figures: dict[str, float] = json.loads(done.stdout.splitlines()[-1])
    return figures


def fastest_of_rounds(path: Path, dtype: str, rounds: int) -> dict[str, dict[str, float]]:
    """Return the figures of each way in the round in which it loads fastest; ways take turns."""
    fastest: dict[str, dict[str, float]] = {}
    for _ in range(rounds):
        with tempfile.TemporaryDirectory() as home:
            for way in WAYS:
                figures = measure_in_process(way, path, dtype, home)
                if way not in fastest or figures["load"] < fastest[way]["load"]:
                    fastest[way] = figures
    return fastest


def main() -> None:
    """Measure each way for each model and number type, in turns."""
    options = {"--dtypes": ["float32", "bfloat16"], "--rounds": 1, "--one": str}
    if "--one" in sys.argv:
        way, path, dtype = json.loads(arguments(__doc__, options).one)
        print(json.dumps(measure(way, Path(path), dtype)))
        return
    models = [Path(text).absolute() for text in sys.argv[1:] if text.endswith(".gguf")]
    given = arguments(__doc__, options, [text for text in sys.argv[1:] if not text.endswith(".gguf")])
    figures: dict[str, Any] = {}
    rows = []
    for path, dtype in product(models, given.dtypes):
        fastest = fastest_of_rounds(path, dtype, given.rounds)
        figures[f"{path.name}, {dtype}"] = fastest
        for way in WAYS:
            cells = [str(fastest[way].get(phase, "")) for phase in (*PHASES, "MiB")]
            ratio = fastest[way]["load"] / fastest["transformers"]["load"]
            rows.append([path.name, dtype, way, *cells, f"{ratio:.2f}"])
    print(markdown(["model", "type", "load", *PHASES, "MiB", "load / transformers"], rows))
    record(__file__, figures, vars(given) | {"models": [path.name for path in models]})


if __name__ == "__main__":
    main()

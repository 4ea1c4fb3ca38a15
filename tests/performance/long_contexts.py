"""Seconds and memory of a prompt with a context of 128K or 1M tokens: in a run, in a forecast, in a batch file.

The part ``levels`` is a run of three conditions, whose contexts have about as many tokens. Each part runs in processes
of its own, with few and with many prompts; the differences, divided by the number of further prompts, are those of one
prompt. The inference function only reads the length of the prompt. Not on Windows. Usage::

    python tests/performance/long_contexts.py [--levels 128K 1M] [--parts run levels forecast batch] [--prompts 12 48]
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from typing import Any

from records import arguments, markdown, record

from StaICC import Dataset, Experiment, LongICL
from StaICC.datasets.catalogue import SplitSizes

LABELS = [f"intent {number}" for number in range(40)]
WORDS_OF_TEXT = {"128K": 60, "1M": 300}
"""Words of a text, so that a context has one to three thousand demonstrations."""
TOKENS = {"128K": 131_072, "1M": 1_048_576}
DEMONSTRATION_ROWS = 3200
TEST_ROWS = 400


def benchmark(level: str, prompt_count: int, condition_count: int) -> LongICL:
    """Return the experiment ``context`` on made-up rows.

    Args:
        level: The tokens of a context, a key of :data:`TOKENS`.
        prompt_count: The number of prompts of all conditions.
        condition_count: The number of conditions. Their contexts differ by a thousand tokens.
    """
    filler = " ".join(f"word{number}" for number in range(WORDS_OF_TEXT[level]))
    rows = []
    for number in range(DEMONSTRATION_ROWS + TEST_ROWS + 40):
        label = LABELS[number % len(LABELS)]
        rows.append((f"Question {number} about {label}: {filler}", label))
    split = SplitSizes(40, DEMONSTRATION_ROWS, TEST_ROWS)
    data = Dataset.from_rows(rows, label_space=LABELS, name="intents", split=split)
    tokens = TOKENS[level]
    levels = tuple(tokens - 1000 * number for number in reversed(range(condition_count)))
    experiment = Experiment("context", levels=levels)
    return LongICL(datasets=[data], experiment=experiment, limit=prompt_count // condition_count)


def answer(prompt: str, label_space: Sequence[str]) -> int:
    return len(prompt) % len(label_space)


def run(made: LongICL) -> None:
    made(answer)


def forecast(made: LongICL) -> None:
    made.forecast(answer, probe_seconds=0, tokenizer=lambda text: text.count(" "))


def batch(made: LongICL) -> None:
    """Write a batch file to nowhere."""
    from StaICC import batch_requests
    from StaICC.benchmarks.exchange import batch_prompts, json_lines

    with open(os.devnull, "w", encoding="utf-8") as file:
        file.writelines(json_lines(batch_requests("openai", "m", batch_prompts(made))))


PARTS: dict[str, Callable[[LongICL], None]] = {"run": run, "levels": run, "forecast": forecast, "batch": batch}
CONDITIONS = {"levels": 3}
"""The number of conditions of the parts that have several."""


def measure(part: str, level: str, prompt_count: int) -> dict[str, float]:
    """Measure a part in this process: its seconds, the peak of the memory in MiB, and the length of a prompt."""
    import resource  # Windows has none

    made = benchmark(level, prompt_count, CONDITIONS.get(part, 1))
    began = time.perf_counter()
    PARTS[part](made)
    seconds = time.perf_counter() - began
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    last_condition = made[0].conditions()[-1]
    return {"seconds": seconds, "MiB": peak, "characters": len(str(last_condition.queries[0].prompt))}


def measured_elsewhere(part: str, level: str, prompt_count: int) -> dict[str, float]:
    """Measure a part in a process of its own."""
    command = [sys.executable, __file__, "--one", part, level, str(prompt_count)]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    figures: dict[str, float] = json.loads(done.stdout.splitlines()[-1])
    return figures


def main() -> None:
    if sys.argv[1:2] == ["--one"]:
        part, level, prompt_count = sys.argv[2:]
        print(json.dumps(measure(part, level, int(prompt_count))))
        return
    options = arguments(__doc__, {"--levels": list(WORDS_OF_TEXT), "--parts": list(PARTS), "--prompts": [12, 48]})
    few, many = options.prompts
    figures: dict[str, Any] = {}
    rows = []
    for part in options.parts:
        for level in options.levels:
            first = measured_elsewhere(part, level, few)
            second = measured_elsewhere(part, level, many)
            seconds = (second["seconds"] - first["seconds"]) / (many - few)
            memory = (second["MiB"] - first["MiB"]) / (many - few)
            rows.append([part, level, int(second["characters"]), seconds, memory])
            figures[f"{part}, {level}"] = {"seconds": seconds, "MiB": memory, "characters": second["characters"]}
    print(markdown(["part", "context", "characters", "s per prompt", "MiB per prompt"], rows))
    record(__file__, figures, vars(options))


if __name__ == "__main__":
    main()

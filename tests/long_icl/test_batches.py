"""Batches of providers with long contexts: written, replied to by a made-up provider, read and scored."""

from __future__ import annotations

import csv
import json
import random
import tracemalloc
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from StaICC import Dataset, Experiment, LongICL, batch_requests
from StaICC.benchmarks.exchange import batch_prompts, json_lines
from StaICC.cli import main
from StaICC.datasets.catalogue import SplitSizes
from StaICC.results.result import load

LABELS = [f"kind {number}" for number in range(25)]
WORDS = " ".join(f"word{number}" for number in range(60))
ROWS = [(f"Text {turn} of {label}: {WORDS}", label) for turn in range(60) for label in LABELS]


def label_of(prompt: str) -> str:
    """The label in the last text: every second reply is right."""
    question = prompt[prompt.rindex("Text ") :]
    turn = int(question.split()[1])
    label = question.split(" of ")[1].split(":")[0]
    return label if turn % 2 == 0 else LABELS[0]


class BatchProvider:
    """Replies to the requests of a batch file, as OpenAI and Anthropic document it, and counts their tokens."""

    def __init__(self, provider: str) -> None:
        self.longest_prompt = 0
        self.request_count = 0
        self._provider = provider

    def results(self, requests: Path) -> Iterator[dict[str, Any]]:
        with requests.open(encoding="utf-8") as lines:
            for line in lines:
                request = json.loads(line)
                body = request["body"] if self._provider == "openai" else request["params"]
                (message,) = body["messages"]
                prompt = message["content"]
                assert body["max_tokens"] == 20
                self.request_count += 1
                self.longest_prompt = max(self.longest_prompt, len(prompt))
                yield self._result(request["custom_id"], label_of(prompt))

    def _result(self, key: str, reply: str) -> dict[str, Any]:
        if self._provider == "openai":
            choice = {"index": 0, "message": {"role": "assistant", "content": reply}, "finish_reason": "stop"}
            return {"custom_id": key, "response": {"status_code": 200, "body": {"model": "m", "choices": [choice]}}}
        block = {"type": "tool_use", "id": "t", "name": "classify", "input": {"label": reply}}
        message = {"model": "m", "content": [block], "stop_reason": "tool_use"}
        return {"custom_id": key, "result": {"type": "succeeded", "message": message}}


@pytest.fixture
def tickets(tmp_path: Path) -> Path:
    path = tmp_path / "tickets.csv"
    with path.open("w", encoding="utf-8", newline="") as file:
        csv.writer(file).writerows([("text", "intent"), *ROWS])
    return path


@pytest.mark.parametrize("provider", ["openai", "anthropic"])
def test_a_batch_at_32k_goes_out_and_comes_back(tickets: Path, tmp_path: Path, provider: str) -> None:
    """Anthropic's model replies with tool calls here."""
    own_data = ["--data", str(tickets), "--text", "text", "--label", "intent"]
    words = [*own_data, "--experiment", "context", "--levels", "32K", "--limit", "12"]
    requests = tmp_path / "requests.jsonl"
    model = ["--model", "m;max_tokens=20", "-o", str(requests)]
    assert main(["export", f"{provider}-batch", "--benchmark", "long-icl", *words, *model]) == 0

    served = BatchProvider(provider)
    results = list(served.results(requests))
    assert served.request_count == 12
    assert 32_000 * 3.5 < served.longest_prompt < 32_000 * 4.5  # characters of 32K tokens
    random.Random(1).shuffle(results)
    returned = tmp_path / "results.jsonl"
    returned.write_text("".join(json.dumps(result) + "\n" for result in results), encoding="utf-8")

    scored = tmp_path / "scored.json"
    assert main(["score", "long-icl", str(returned), *words, "--json", str(scored)]) == 0
    data = Dataset.from_file(tickets, texts=["text"], label="intent")
    benchmark = LongICL(datasets=[data], experiment=Experiment("context", levels=(32_768,)), limit=12)
    run = benchmark(lambda prompt, label_space: label_of(prompt))
    loaded = load(scored)
    assert loaded.divided == run.divided
    (scores,) = loaded.divided.values()
    condition_scores = [score for name, score in scores.items() if "32" in name]
    assert condition_scores
    assert 0 < condition_scores[0] < 1


def peak_of_writing(prompt_count: int) -> tuple[float, float]:
    """Return the MiB that writing a batch at 128K needs at most, and those of the file."""
    data = Dataset.from_rows(
        [(f"Text {turn} of {label}: {WORDS * 4}", label) for turn in range(60) for label in LABELS],
        label_space=LABELS,
        name="kinds",
        split=SplitSizes(25, 1000, 400),
    )
    benchmark = LongICL(datasets=[data], experiment=Experiment("context", levels=(131_072,)), limit=prompt_count)
    written = 0
    tracemalloc.start()
    try:
        for line in json_lines(batch_requests("openai", "m", batch_prompts(benchmark))):
            written += len(line)
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    return peak / 2**20, written / 2**20


def test_a_batch_at_128k_is_written_with_the_memory_of_a_few_prompts() -> None:
    """Five hundred prompts would be 250 MB."""
    few, size_of_few = peak_of_writing(5)
    many, size_of_many = peak_of_writing(40)
    assert size_of_many - size_of_few > 15
    assert many - few < 1

"""Batches of providers with long contexts: written, replied to by a made-up provider, read and scored."""

from __future__ import annotations

import csv
import json
import random
import tracemalloc
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from StaICC import Dataset, Experiment, LongICL, batch_requests
from StaICC.benchmarks.exchange import batch_prompts, json_lines
from StaICC.cli import main
from StaICC.datasets.catalogue import SplitSizes
from StaICC.results.result import load

LABELS = [f"kind {number}" for number in range(25)]
WORDS = " ".join(f"word{number}" for number in range(60))
ROWS = [(f"Text {number} of {label}: {WORDS}", label) for number in range(60) for label in LABELS]


def right_for_even_numbers(prompt: str, label_space: Any = None) -> str:
    """Reply to the query "Text 12 of kind 3: ..." with its label, if its number is even, else with the first label."""
    query = prompt[prompt.rindex("Text ") :]
    number = int(query.split()[1])
    label = query.split(" of ")[1].split(":")[0]
    return label if number % 2 == 0 else LABELS[0]


class BatchProvider:
    """Replies to the requests of a batch file as OpenAI or Anthropic document it; counts requests and characters."""

    def __init__(self, provider: str) -> None:
        self.longest_prompt = 0
        self.request_count = 0
        self._provider = provider

    def results(self, requests: Path) -> list[dict[str, Any]]:
        """Return the result of each request, in another order."""
        results = []
        for line in requests.read_text(encoding="utf-8").splitlines():
            request = json.loads(line)
            body = request["body"] if self._provider == "openai" else request["params"]
            (message,) = body["messages"]
            assert body["max_tokens"] == 20
            self.request_count += 1
            self.longest_prompt = max(self.longest_prompt, len(message["content"]))
            results.append(self._result(request["custom_id"], right_for_even_numbers(message["content"])))
        random.Random(1).shuffle(results)
        return results

    def _result(self, request_id: str, reply: str) -> dict[str, Any]:
        """Return the result with a reply; Anthropic's model replies with a call of a tool."""
        if self._provider == "openai":
            choice = {"index": 0, "message": {"role": "assistant", "content": reply}, "finish_reason": "stop"}
            body = {"model": "m", "choices": [choice]}
            return {"custom_id": request_id, "response": {"status_code": 200, "body": body}}
        call = {"type": "tool_use", "id": "t", "name": "classify", "input": {"label": reply}}
        message = {"model": "m", "content": [call], "stop_reason": "tool_use"}
        return {"custom_id": request_id, "result": {"type": "succeeded", "message": message}}


@pytest.fixture
def tickets(tmp_path: Path) -> Path:
    """A CSV file with the texts and their labels."""
    path = tmp_path / "tickets.csv"
    with path.open("w", encoding="utf-8", newline="") as file:
        csv.writer(file).writerows([("text", "intent"), *ROWS])
    return path


@pytest.mark.parametrize("provider", ["openai", "anthropic"])
def test_a_batch_at_32k_goes_out_and_comes_back(tickets: Path, tmp_path: Path, provider: str) -> None:
    """The results of the provider have the scores of a run with the same replies."""
    requests, results, saved = tmp_path / "requests.jsonl", tmp_path / "results.jsonl", tmp_path / "scored.json"
    own_data = ["--data", str(tickets), "--text", "text", "--label", "intent"]
    options = [*own_data, "--experiment", "context", "--levels", "32K", "--limit", "12"]
    model = ["--model", "m;max_tokens=20"]
    server = BatchProvider(provider)

    assert main(["export", f"{provider}-batch", "--benchmark", "long-icl", *options, *model, "-o", str(requests)]) == 0
    results.write_text("\n".join(map(json.dumps, server.results(requests))), encoding="utf-8")
    assert main(["score", "long-icl", str(results), *options, "--json", str(saved)]) == 0

    assert server.request_count == 12
    assert 32_000 * 3.5 < server.longest_prompt < 32_000 * 4.5  # characters of 32K tokens
    data = Dataset.from_file(tickets, texts=["text"], label="intent")
    benchmark = LongICL(datasets=[data], experiment=Experiment("context", levels=(32_768,)), limit=12)
    run = benchmark(right_for_even_numbers)
    assert load(saved).divided == run.divided
    assert 0 < run.divided["tickets"]["32K"] < 1


class BatchMemory(NamedTuple):
    peak_mib: float
    file_mib: float


def memory_of_a_batch(prompt_count: int) -> BatchMemory:
    """Write a batch of prompts with 128K tokens each; return the memory that it needs, and the size of the file."""
    data = Dataset.from_rows(
        [(f"Text {number} of {label}: {WORDS * 4}", label) for number in range(60) for label in LABELS],
        label_space=LABELS,
        name="kinds",
        split=SplitSizes(25, 1000, 400),
    )
    benchmark = LongICL(datasets=[data], experiment=Experiment("context", levels=(131_072,)), limit=prompt_count)
    file_size = 0
    tracemalloc.start()
    try:
        for line in json_lines(batch_requests("openai", "m", batch_prompts(benchmark))):
            file_size += len(line)
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    return BatchMemory(peak / 2**20, file_size / 2**20)


def test_a_batch_at_128k_is_written_with_the_memory_of_a_few_prompts() -> None:
    """Five hundred prompts would be 250 MB."""
    few_prompts, many_prompts = memory_of_a_batch(prompt_count=5), memory_of_a_batch(prompt_count=40)

    assert many_prompts.file_mib - few_prompts.file_mib > 15
    assert many_prompts.peak_mib - few_prompts.peak_mib < 1

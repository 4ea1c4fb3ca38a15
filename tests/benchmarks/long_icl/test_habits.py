"""LongICL with models that answer in the habits of eight families: a score, the unparsed count, and bounds."""

from __future__ import annotations

import sys
import zlib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("openai")
sys.path.insert(0, str(Path(__file__).parents[2] / "kernels" / "endpoint"))

import endpoint_server

from StaICC.benchmarks.long_icl import LongICL
from StaICC.errors import OutputError
from StaICC.kernels.endpoint import EndpointKernel
from tests.benchmarks.long_icl.conftest import make

ITEMS = 20
LABELS = ["admiration", "joy", "anger", "confusion"]


HABITS = {
    "plain": "{label}\n",
    "reasoning": "<think>Could be anger, or joy. I'd say {label}.</think>\n\n{label}",
    "a sentence": "The answer is {label}.",
    "JSON": '```json\n{{"emotion category": "{label}", "confidence": 0.9}}\n```',
    "bold": "Considering the tone, the emotion category is **{label}**.",
    "numbered": "1. {label}",
}
"""How model families reply with a label."""
WITHOUT_LABEL = {
    "refusing": ("I'm sorry, but I can't classify this comment.", "stop"),
    "truncated": ("<think>Let me see. It might be joy, or", "length"),
    "filtered": ("", "content_filter"),
}
"""What others reply to every fifth prompt, and why the reply ends."""


def fifth(prompt: str) -> bool:
    return zlib.crc32(prompt.encode()) % 5 == 0


def guess(prompt: str, gold: str) -> str:
    return gold if zlib.crc32(prompt.encode()[::-1]) % 3 else LABELS[len(prompt) % 4]


@pytest.fixture
def served(monkeypatch: pytest.MonkeyPatch) -> Any:
    monkeypatch.setenv("OPENAI_API_KEY", "sk-test-0123456789abcdef")
    monkeypatch.setenv("NO_PROXY", "127.0.0.1")
    server = endpoint_server.Server()
    yield server
    server.close()


def oracle(benchmark: LongICL, habit: str) -> tuple[Callable[..., None], dict[str, str]]:
    """Return how the server replies, and the true label of each prompt."""
    own = benchmark[0]
    gold = {str(query.prompt): own.card.labels[query.label] for query in own.all_queries()}

    def reply(handler: Any, right: Any) -> None:
        prompt = handler.body["messages"][-1]["content"]
        known = guess(prompt, gold.get(prompt, "joy"))
        text, reason = WITHOUT_LABEL[habit] if fifth(prompt) else (f"<think>Short.</think>{known}", "stop")
        endpoint_server.answering(lambda body: text, reason)(handler, right)

    return reply, gold


def kernel_of(served: Any) -> EndpointKernel:
    return EndpointKernel(served.url, endpoint_server.MODEL, scoring="text", api="chat", backoff=0.01)


def test_habits_are_read(small_files: Path) -> None:
    for parsing, right in (("tolerant", list(HABITS)), ("published", ["plain"])):
        own = make(small_files, ["goemotions"], [1], ITEMS, parsing=parsing)[0]
        gold = [item.gold[0] for item in own.test_items]
        runs = {name: own.score([text.format(label=label) for label in gold]) for name, text in HABITS.items()}
        assert [name for name, run in runs.items() if run.values["mean"] == 1.0] == right
    unread = runs["reasoning"].details
    assert len(unread.unparsed) == ITEMS
    note = f'{ITEMS} of {ITEMS} replies are unparsed and count as wrong, such as (no label): "<think>Could be'
    assert any(text.startswith(note) for text in unread.notes)


def test_a_reply_without_a_label_may_end_the_run(served: Any, small_files: Path) -> None:
    benchmark = make(small_files, ["goemotions"], test_number=ITEMS, parsing="tolerant", unparsed="error")
    served.always, gold = oracle(benchmark, "filtered")
    kernel = kernel_of(served)
    with pytest.raises(OutputError, match=r"GoEmotions, round 1, query \d+ .*withheld the reply"):
        benchmark(kernel)
    assert len(served.requests) == len(gold) // 2 + 1  # the second round is not asked
    kernel.close()

"""LongICL with models that answer in the habits of eight families: a score, the unparsed count, and bounds."""

from __future__ import annotations

import json
import sys
import zlib
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import pytest

pytest.importorskip("openai")
sys.path.insert(0, str(Path(__file__).parents[2] / "kernels" / "endpoint"))

import endpoint_server

from StaICC.benchmarks.long_icl import LongICL
from StaICC.benchmarks.verify import Recomputed, verify
from StaICC.errors import OutputError
from StaICC.kernels.endpoint import EndpointKernel
from StaICC.kernels.text_inference import text_inference
from StaICC.results import Result
from tests.benchmarks.long_icl.conftest import make

ITEMS = 20
LABELS = ["admiration", "joy", "anger", "confusion"]


class Habit(NamedTuple):
    """How a model family replies with a label, and to every fifth prompt instead."""

    says: str
    fifth: str | None = None
    reason: str = "stop"


HABITS = {
    "plain": Habit("{label}\n"),
    "reasoning": Habit("<think>Could be anger, or joy. I'd say {label}.</think>\n\n{label}"),
    "a sentence": Habit("The answer is {label}."),
    "JSON": Habit('```json\n{{"emotion category": "{label}", "confidence": 0.9}}\n```'),
    "bold": Habit("Considering the tone, the emotion category is **{label}**."),
    "numbered": Habit("1. {label}"),
    "refusing": Habit("{label}", "I'm sorry, but I can't classify this comment."),
    "truncated": Habit("<think>Short.</think>{label}", "<think>Let me see. It might be joy, or", "length"),
    "filtered": Habit("{label}", "", "content_filter"),
}


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


def oracle(benchmark: LongICL, habit: Habit) -> tuple[Callable[..., None], dict[str, str]]:
    """Return how the server replies, and the true label of each prompt."""
    own = benchmark[0]
    gold = {str(query.prompt): own.card.labels[query.label] for query in own.all_queries()}

    def reply(handler: Any, right: Any) -> None:
        prompt = handler.body["messages"][-1]["content"]
        other = habit.fifth is not None and fifth(prompt)
        text = habit.fifth if other else habit.says.format(label=guess(prompt, gold.get(prompt, "joy")))
        endpoint_server.answering(lambda body: text, habit.reason if other else "stop")(handler, right)

    return reply, gold


def kernel_of(served: Any) -> EndpointKernel:
    return EndpointKernel(served.url, endpoint_server.MODEL, scoring="text", api="chat", backoff=0.01)


@pytest.mark.parametrize(
    ("name", "policy"),
    [(name, policy) for name in HABITS for policy in ("wrong", "excluded")[: 1 + bool(HABITS[name].fifth is not None)]],
)
def test_each_family_gets_its_score(served: Any, small_files: Path, name: str, policy: str) -> None:
    habit = HABITS[name]
    benchmark = make(small_files, ["goemotions"], test_number=ITEMS, parsing="tolerant", unparsed=policy)
    served.always, gold = oracle(benchmark, habit)
    kernel = kernel_of(served)
    result = benchmark(kernel)
    assert kernel.usage.requests == len(gold) + 1  # one asks for the edition
    kernel.close()
    details = result.details["goemotions"]
    lost = 0
    for number, prompts in ((1, list(gold)[:ITEMS]), (2, list(gold)[ITEMS:])):
        unparsed = [prompt for prompt in prompts if habit.fifth is not None and fifth(prompt)]
        right = sum(guess(prompt, gold[prompt]) == gold[prompt] for prompt in prompts if prompt not in unparsed)
        left = len(prompts) - len(unparsed) * (policy == "excluded")
        assert result.divided["goemotions"][f"{number}R"] == right / left
        if policy == "excluded" and unparsed:
            assert details.bounds[f"{number}R"] == (right / ITEMS, (right + len(unparsed)) / ITEMS)
        lost += len(unparsed)
    assert len(details.unparsed) == lost
    assert bool(lost) == (habit.fifth is not None)
    if lost:
        assert f"{lost} of {2 * ITEMS} replies are unparsed" in str(result)
        assert f"{lost} ({lost / 2 / ITEMS:.1%})" in str(result)
    assert result.complete
    assert "parsing=tolerant,parser=3" in str(result.signature)
    again = Result.from_dict(json.loads(json.dumps(result.to_dict())))
    assert again == result
    assert all(one.status == Recomputed() for one in verify(again, benchmark))


def test_published_parsing_counts_what_it_cannot_read(served: Any, small_files: Path) -> None:
    benchmark = make(small_files, ["goemotions"], test_number=ITEMS)
    served.always, _ = oracle(benchmark, HABITS["reasoning"])
    kernel = kernel_of(served)
    result = benchmark(text_inference(kernel))
    kernel.close()
    assert result.divided["goemotions"]["mean"] == 0
    assert len(result.details["goemotions"].unparsed) == 2 * ITEMS
    assert (
        f'{2 * ITEMS} of {2 * ITEMS} replies are unparsed and count as wrong, such as (no label): "<think>Could be'
        in str(result)
    )


def test_a_reply_without_a_label_may_end_the_run(served: Any, small_files: Path) -> None:
    benchmark = make(small_files, ["goemotions"], test_number=ITEMS, parsing="tolerant", unparsed="error")
    served.always, gold = oracle(benchmark, HABITS["filtered"])
    kernel = kernel_of(served)
    with pytest.raises(OutputError, match=r"GoEmotions, round 1, query \d+ .*withheld the reply"):
        benchmark(kernel)
    assert len(served.requests) == len(gold) // 2 + 1  # the second round is not asked
    kernel.close()

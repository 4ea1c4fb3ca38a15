"""Generate-then-parse: votes of samples, cached texts, chain of thought, and sampling of a local model."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from StaICC import Normal
from StaICC.errors import OutputError
from StaICC.inference.identity import Identity
from StaICC.inference.replies import Failure
from StaICC.kernels.protocol import Capability
from StaICC.methods.generate import ANSWER, REASONING, shares
from StaICC.methods.run import Method


class Writer:
    """Writes label names, chosen by prompt and seed, and counts what it is asked for."""

    capabilities = frozenset({Capability.TEXT})

    def __init__(self) -> None:
        self.asked: list[tuple[str, dict[str, Any]]] = []

    def identity(self) -> Identity:
        return Identity({"model": "writer"})

    @property
    def retried(self) -> int:
        return len(self.asked)

    def __call__(self, prompt: str, label_space: Sequence[str]) -> int:
        return 0

    def generate(self, prompts: Sequence[str], **how: Any) -> list[str]:
        self.asked += [(prompt, how) for prompt in prompts]
        labels = mini()[0].get_label_space()
        place = [(len(prompt) + how.get("seed", 0)) % len(labels) for prompt in prompts]
        return [f"{labels[number]}\nmore" for number in place]


def mini() -> Normal:
    return Normal(k=2, datasets=["mini"], limit=4)


def test_the_majority_of_those_that_name_a_label() -> None:
    labels = ["a", "b", "c"]
    assert shares(["b", "a", "The answer is b.", "I do not know"], labels) == [1 / 3, 2 / 3, 0.0]
    tied: Any = shares(["c", "a", "a", "c"], labels)
    assert tied == pytest.approx([0.5, 0.0, 0.5])
    assert tied.index(max(tied)) == 2  # sampled first
    mixed: Any = shares(["b", "c", "a", "a", "c"], labels)
    assert mixed.index(max(mixed)) == 2  # the first of those with most votes
    assert shares(["a or b?", "perhaps"], labels) == "a or b?"
    lost: Any = shares([Failure("the server is gone"), Failure("gone too")], labels)
    assert "the server is gone" in lost.reason
    assert shares([Failure("gone"), "c"], labels) == [0.0, 0.0, 1.0]


def test_samples_are_cached_one_by_one(tmp_path: Path) -> None:
    store = tmp_path / "store.sqlite"

    def run(kernel: Writer, **options: Any) -> Any:
        return Method("generate", kernel, **options).run(mini(), store=store, recheck=False)

    first = Writer()
    three = run(first, samples=3)
    assert len(first.asked) == 3 * 8
    assert sum(entry.retried for entry in three.provenance.predictors) == first.retried == 3 * 8
    assert len({how["seed"] for _, how in first.asked}) == 3
    again = Writer()
    assert run(again, samples=3) == three
    assert again.asked == []
    five, other = Writer(), Writer()
    run(five, samples=5)
    assert len(five.asked) == 2 * 8  # the first three samples are those of before
    run(other, samples=3, seed=1)
    assert len(other.asked) == 3 * 8
    assert "samples=5" in str(run(Writer(), samples=5).signature)
    greedy = Writer()
    run(greedy)
    assert [(prompt, how) for prompt, how in greedy.asked if "seed" in how or prompt.endswith(" ")] == []


def test_reasoning_is_written_before_the_answer() -> None:
    kernel = Writer()
    result = Method("generate", kernel, reasoning=True).run(mini())
    assert result.complete
    thoughts, answers = kernel.asked[:8], kernel.asked[8:]
    assert [
        (prompt, how) for prompt, how in thoughts if not (prompt.endswith(REASONING) and how["max_new_tokens"] == 128)
    ] == []
    end = ANSWER.format(labels=", ".join(mini()[0].get_label_space()))
    assert [(prompt, how) for prompt, how in answers if not (prompt.endswith(end) and how["stop"] == ["\n"])] == []
    assert [
        (thought, answer)
        for thought, answer in zip(thoughts, answers, strict=True)
        if not answer[0].startswith(thought[0])
    ] == []


@pytest.mark.parametrize(("unparsed", "undefined"), [("wrong", False), ("excluded", True)])
@pytest.mark.parametrize("name", ["vanilla", "topk", "ensemble"])
def test_methods_count_unparsed_replies_as_the_benchmark_does(name: str, unparsed: Any, undefined: bool) -> None:
    options = {"encoder": "bm25"} if name == "topk" else {}
    method = Method(name, lambda prompt, label_space: "well, who knows", **options)
    with pytest.raises(OutputError, match="unparsed reply"):
        method.run(mini())
    result = method.run(Normal(k=2, datasets=["mini"], limit=4, unparsed=unparsed))
    details = result.details["mini"]
    assert (details.failed, len(details.unparsed)) == (0, details.asked)
    assert result.divided["mini"]["accuracy"] == (None if undefined else 0)

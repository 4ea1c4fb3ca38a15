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
    """Writes label names, chosen by the length of the prompt and the seed, and keeps what it is asked for."""

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

    def generate(self, prompts: Sequence[str], **settings: Any) -> list[str]:
        labels = benchmark_on_mini()[0].get_label_space()
        texts = []
        for prompt in prompts:
            self.asked.append((prompt, settings))
            number = (len(prompt) + settings.get("seed", 0)) % len(labels)
            texts.append(f"{labels[number]}\nmore")
        return texts


QUERIES = 8
"""Four test rows, each with two lists of demonstrations."""


def benchmark_on_mini() -> Normal:
    return Normal(k=2, datasets=["mini"], limit=4)


@pytest.mark.parametrize(
    ("replies", "expected"),
    [
        (["b", "a", "The answer is b.", "I do not know"], [1 / 3, 2 / 3, 0.0]),
        ([Failure("gone"), "c"], [0.0, 0.0, 1.0]),
    ],
    ids=["a reply without a label", "a failed reply"],
)
def test_shares_are_those_of_the_replies_with_a_label(replies: list[Any], expected: list[float]) -> None:
    assert shares(replies, ["a", "b", "c"]) == expected


@pytest.mark.parametrize(
    ("replies", "expected"),
    [(["c", "a", "a", "c"], [0.5, 0.0, 0.5]), (["b", "c", "a", "a", "c"], [0.4, 0.2, 0.4])],
    ids=["first of all replies", "after another label"],
)
def test_of_labels_with_equally_many_replies_the_first_reply_wins(replies: list[str], expected: list[float]) -> None:
    """Here "c", by a difference that no score shows."""
    found: Any = shares(replies, ["a", "b", "c"])

    assert found == pytest.approx(expected)
    assert found.index(max(found)) == 2


def test_replies_without_any_label_are_one_unparsed_reply() -> None:
    assert shares(["a or b?", "perhaps"], ["a", "b", "c"]) == "a or b?"


def test_replies_that_all_failed_are_a_failure_with_the_first_reason() -> None:
    failure: Any = shares([Failure("the server is gone"), Failure("gone too")], ["a", "b", "c"])

    assert "the server is gone" in failure.reason


def run_with_store(store: Path, kernel: Writer, **options: Any) -> Any:
    return Method("generate", kernel, **options).run(benchmark_on_mini(), store=store, recheck=False)


def test_samples_have_different_seeds_and_are_counted(tmp_path: Path) -> None:
    kernel = Writer()

    result = run_with_store(tmp_path / "store.sqlite", kernel, samples=3)

    assert len(kernel.asked) == 3 * QUERIES
    assert len({settings["seed"] for _, settings in kernel.asked}) == 3
    assert kernel.retried == 3 * QUERIES
    assert sum(entry.retried for entry in result.provenance.predictors) == kernel.retried
    assert "samples=3" in str(result.signature)


def test_cached_samples_are_not_written_again(tmp_path: Path) -> None:
    store, second_kernel = tmp_path / "store.sqlite", Writer()
    first = run_with_store(store, Writer(), samples=3)

    second = run_with_store(store, second_kernel, samples=3)

    assert second == first
    assert second_kernel.asked == []


def test_of_five_samples_the_first_three_may_be_cached_already(tmp_path: Path) -> None:
    store, second_kernel = tmp_path / "store.sqlite", Writer()
    run_with_store(store, Writer(), samples=3)

    run_with_store(store, second_kernel, samples=5)

    assert len(second_kernel.asked) == 2 * QUERIES


def test_samples_with_another_seed_are_other_samples(tmp_path: Path) -> None:
    store, second_kernel = tmp_path / "store.sqlite", Writer()
    run_with_store(store, Writer(), samples=3)

    run_with_store(store, second_kernel, samples=3, seed=1)

    assert len(second_kernel.asked) == 3 * QUERIES


def test_without_samples_there_is_no_seed_and_no_mark_of_a_sample_in_the_prompt(tmp_path: Path) -> None:
    kernel = Writer()

    run_with_store(tmp_path / "store.sqlite", kernel)

    assert kernel.asked
    for prompt, settings in kernel.asked:
        assert "seed" not in settings
        assert not prompt.endswith(" ")


def test_reasoning_is_written_before_the_answer() -> None:
    """First the thoughts of all queries, then their answers, whose prompts begin with those of the thoughts."""
    kernel = Writer()
    labels = ", ".join(benchmark_on_mini()[0].get_label_space())

    result = Method("generate", kernel, reasoning=True).run(benchmark_on_mini())

    assert result.complete
    thoughts, answers = kernel.asked[:QUERIES], kernel.asked[QUERIES:]
    for (thought_prompt, thought_settings), (answer_prompt, answer_settings) in zip(thoughts, answers, strict=True):
        assert thought_prompt.endswith(REASONING)
        assert thought_settings["max_new_tokens"] == 128
        assert answer_prompt.startswith(thought_prompt)
        assert answer_prompt.endswith(ANSWER.format(labels=labels))
        assert answer_settings["stop"] == ["\n"]


def method_without_labels(name: str) -> Method:
    """Return a method of a model whose replies have no label."""
    options = {"encoder": "bm25"} if name == "topk" else {}
    return Method(name, lambda prompt, label_space: "well, who knows", **options)


METHODS = pytest.mark.parametrize("name", ["vanilla", "topk", "ensemble"])


@METHODS
def test_unparsed_replies_end_a_run_of_a_method_by_default(name: str) -> None:
    with pytest.raises(OutputError, match="unparsed reply"):
        method_without_labels(name).run(benchmark_on_mini())


@METHODS
@pytest.mark.parametrize(("unparsed", "accuracy"), [("wrong", 0), ("excluded", None)])
def test_methods_count_unparsed_replies_as_the_benchmark_does(name: str, unparsed: Any, accuracy: int | None) -> None:
    benchmark = Normal(k=2, datasets=["mini"], limit=4, unparsed=unparsed)

    result = method_without_labels(name).run(benchmark)

    details = result.details["mini"]
    assert result.divided["mini"]["accuracy"] == accuracy
    assert details.failed == 0
    assert len(details.unparsed) == details.asked

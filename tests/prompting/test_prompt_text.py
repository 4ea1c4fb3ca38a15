"""The parts of a prompt: they make its text, travel with it, and are the turns of a conversation."""

from __future__ import annotations

import copy
import dataclasses
import json
import pickle

import pytest
from hypothesis import given
from hypothesis import strategies as st

import StaICC
from StaICC.benchmarks.builtin import make_benchmark
from StaICC.errors import ArgumentError, PromptError
from StaICC.inference.prompt_key import refuse_other_parts, structured_key
from StaICC.prompting.prompt_text import Demonstration, PromptParts, PromptText, parts_of
from StaICC.prompting.prompt_writer import Query, as_argument

TEXT = st.text("ab \n\t\u2028é", max_size=6)
PARTS = st.builds(PromptParts, TEXT, st.lists(st.builds(Demonstration, TEXT, TEXT, TEXT), max_size=4).map(tuple), TEXT)
BENCHMARKS = ["normal", "gler", "template_sens", "demo_sens", "contextual_bias", "domain_bias", "post_bias"]


@given(PARTS)
def test_a_prompt_is_the_text_of_its_parts(parts: PromptParts) -> None:
    prompt = PromptText(parts)
    shown = "".join(own.before + own.label + own.after for own in parts.demonstrations)
    assert prompt == parts.instruction + shown + parts.question
    assert hash(prompt) == hash(str(prompt))
    assert json.dumps(prompt) == json.dumps(str(prompt))
    for twin in (pickle.loads(pickle.dumps(prompt)), copy.copy(prompt), copy.deepcopy(prompt)):
        assert (twin, twin.parts) == (prompt, parts)


@given(PARTS)
def test_turns_lose_nothing_but_white_space_after_labels(parts: PromptParts) -> None:
    turns = parts.turns()
    assert len(turns) == 2 * len(parts.demonstrations) + 1
    assert turns[1::2] == [own.label for own in parts.demonstrations]
    kept = [dataclasses.replace(own, after=own.after if own.after.strip() else "") for own in parts.demonstrations]
    assert "".join(turns) == dataclasses.replace(parts, demonstrations=kept).text


@pytest.mark.parametrize("name", BENCHMARKS)
def test_every_prompt_of_a_benchmark_has_its_parts(name: str) -> None:
    benchmark = make_benchmark(name, k=3, datasets=["mini"], limit=4)
    for query in benchmark[0].all_queries():
        parts = query.parts
        assert parts is not None
        assert parts.text == query.prompt
        assert len(parts.demonstrations) == 3
        assert [own for own in parts.demonstrations if own.label not in query.label_space] == []


@pytest.mark.parametrize("cut", [1, 8, 10_000])
def test_characters_are_cut_off_the_question_first(cut: int) -> None:
    experimentor = StaICC.Normal(datasets=["mini"], limit=2)[0]
    whole = experimentor.all_queries()[0]
    experimentor.prompt_former.cut_by_length = cut
    short = experimentor.all_queries()[0]
    assert short.prompt == whole.prompt[:-cut]
    if cut < 100:
        assert short.parts is not None
        assert short.parts.demonstrations == whole.parts.demonstrations  # type: ignore[union-attr]
    else:
        assert short.parts is None  # the cut goes beyond the question


def test_in_the_noisy_channel_every_text_has_its_parts() -> None:
    for query in StaICC.Normal(noisy_channel=True, datasets=["mini"], limit=2)[0].all_queries():
        assert isinstance(query.prompt, tuple)
        for text, label in zip(query.prompt, query.label_space, strict=True):
            parts = parts_of(text, "the test")
            assert parts.text == text
            assert label in parts.question


def test_plain_functions_get_plain_texts() -> None:
    seen = []
    StaICC.Normal(datasets=["mini"], limit=2)(lambda prompt, label_space: seen.append(prompt) or 0)
    assert {type(prompt) for prompt in seen} == {str}
    assert type(as_argument(PromptText(PromptParts("", (), "q")))) is str


def test_a_function_that_declares_it_gets_the_parts() -> None:
    seen = []

    def reads(prompt: str, label_space: list[str]) -> int:
        seen.append(parts_of(prompt, "the test"))
        return 0

    with pytest.raises(StaICC.OutputError, match="needs a prompt with its parts"):
        StaICC.Normal(datasets=["mini"], limit=2)(reads)
    reads.reads_parts = True  # type: ignore[attr-defined]
    StaICC.Normal(k=2, datasets=["mini"], limit=2)(reads)
    assert {len(parts.demonstrations) for parts in seen} == {2}


def test_a_plain_text_has_no_parts() -> None:
    with pytest.raises(PromptError, match="chat turns needs a prompt with its parts, and 'plain' is a plain text"):
        parts_of("plain", "chat turns")


ONE = PromptText(PromptParts("", (Demonstration("a", "b", "c"),), "q"))
OTHER = PromptText(PromptParts("", (Demonstration("a", "bc", ""),), "q"))


def test_equal_texts_with_other_parts_are_refused_where_parts_matter() -> None:
    queries = [Query(prompt, ("x", "y"), 0, row, 0) for row, prompt in enumerate((ONE, ONE, OTHER))]
    refuse_other_parts(queries[:2])
    with pytest.raises(ArgumentError, match="query 2 has the same text as an earlier one, divided into other parts"):
        refuse_other_parts(queries)


def test_a_key_with_structure_differs_where_the_parts_do(tmp_path: object) -> None:
    keys = {structured_key((prompt, ("x",))) for prompt in (ONE, OTHER, str(ONE), (ONE, OTHER), (OTHER, ONE))}
    assert len(keys) == 5
    assert structured_key((ONE, ("x",))) == structured_key((PromptText(ONE.parts), ("x",)))

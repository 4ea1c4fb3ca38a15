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
from StaICC.benchmarks.experimentor import Experimentor
from StaICC.errors import ArgumentError, PromptError
from StaICC.inference.prompt_key import refuse_other_parts, structured_key
from StaICC.prompting.prompt_text import Demonstration, PromptParts, PromptText, parts_of
from StaICC.prompting.prompt_writer import Query, as_argument

TEXT = st.text("ab \n\t\u2028é", max_size=6)
PARTS = st.builds(PromptParts, TEXT, st.lists(st.builds(Demonstration, TEXT, TEXT, TEXT), max_size=4).map(tuple), TEXT)
pytestmark = pytest.mark.filterwarnings("ignore::StaICC.TemplateWarning")

BENCHMARKS = ["normal", "gler", "template_sens", "demo_sens", "contextual_bias", "domain_bias", "post_bias"]


@given(PARTS)
def test_a_prompt_is_the_text_of_its_parts(parts: PromptParts) -> None:
    demonstrations = [shown.before + shown.label + shown.after for shown in parts.demonstrations]

    assert PromptText(parts) == parts.instruction + "".join(demonstrations) + parts.question


@given(PARTS)
def test_a_prompt_can_be_used_as_its_text(parts: PromptParts) -> None:
    prompt = PromptText(parts)

    assert hash(prompt) == hash(str(prompt))
    assert json.dumps(prompt) == json.dumps(str(prompt))


@given(PARTS)
def test_a_copied_prompt_keeps_its_parts(parts: PromptParts) -> None:
    prompt = PromptText(parts)
    for copied in (pickle.loads(pickle.dumps(prompt)), copy.copy(prompt), copy.deepcopy(prompt)):
        assert copied == prompt
        assert copied.parts == parts


WEATHER = PromptParts(
    "Classify. ", (Demonstration("sun: ", "good", "\n"), Demonstration("rain: ", "bad", "; ")), "snow: "
)


def test_the_assistant_says_the_labels_and_the_user_the_rest() -> None:
    """White space after a label, here a line feed, is left out; other text begins the next turn of the user."""
    assert WEATHER.turns() == ["Classify. sun: ", "good", "rain: ", "bad", "; snow: "]


def without_white_space_after_labels(parts: PromptParts) -> PromptParts:
    """Return the parts without what follows a label, where that is white space only."""
    demonstrations = []
    for shown in parts.demonstrations:
        is_white_space_only = shown.after.strip() == ""
        if is_white_space_only:
            demonstrations.append(dataclasses.replace(shown, after=""))
        else:
            demonstrations.append(shown)
    return dataclasses.replace(parts, demonstrations=demonstrations)


@given(PARTS)
def test_turns_lose_nothing_but_white_space_after_labels(parts: PromptParts) -> None:
    assert "".join(parts.turns()) == without_white_space_after_labels(parts).text


@given(PARTS)
def test_every_second_turn_is_a_label(parts: PromptParts) -> None:
    assert parts.turns()[1::2] == [shown.label for shown in parts.demonstrations]


@pytest.mark.parametrize("name", BENCHMARKS)
def test_every_prompt_of_a_benchmark_has_its_parts(name: str) -> None:
    benchmark = make_benchmark(name, k=3, datasets=["mini"], limit=4)
    for query in benchmark[0].all_queries():
        parts = query.parts
        assert parts is not None
        assert parts.text == query.prompt
        assert len(parts.demonstrations) == 3
        for demonstration in parts.demonstrations:
            assert demonstration.label in query.label_space


@pytest.fixture
def experimentor() -> Experimentor:
    """An experimentor on ``mini`` with two test rows."""
    return StaICC.Normal(datasets=["mini"], limit=2)[0]


@pytest.mark.parametrize("cut", [1, 8, 10_000])
def test_characters_are_cut_off_the_end_of_a_prompt(experimentor: Experimentor, cut: int) -> None:
    full_prompt = experimentor.all_queries()[0].prompt

    experimentor.prompt_former.cut_by_length = cut

    assert experimentor.all_queries()[0].prompt == full_prompt[:-cut]


def test_a_cut_within_the_question_keeps_the_demonstrations(experimentor: Experimentor) -> None:
    full = experimentor.all_queries()[0].parts
    assert full is not None

    experimentor.prompt_former.cut_by_length = len(full.question) - 1

    cut = experimentor.all_queries()[0].parts
    assert cut is not None
    assert cut.demonstrations == full.demonstrations
    assert cut.question == full.question[0]


def test_a_prompt_that_is_cut_beyond_its_question_has_no_parts(experimentor: Experimentor) -> None:
    full = experimentor.all_queries()[0].parts
    assert full is not None

    experimentor.prompt_former.cut_by_length = len(full.question) + 1

    assert experimentor.all_queries()[0].parts is None


def test_in_the_noisy_channel_every_text_has_its_parts() -> None:
    """A prompt of the noisy channel has one text for each label, and its question contains the label."""
    experimentor = StaICC.Normal(noisy_channel=True, datasets=["mini"], limit=2)[0]
    for query in experimentor.all_queries():
        for text, label in zip(query.prompt, query.label_space, strict=True):
            parts = parts_of(text, "the test")
            assert parts.text == text
            assert label in parts.question


def test_a_function_gets_plain_texts() -> None:
    prompts = []

    def predict_first(prompt: str, label_space: list[str]) -> int:
        prompts.append(prompt)
        return 0

    StaICC.Normal(datasets=["mini"], limit=2)(predict_first)

    assert len(prompts) == 4, "two test rows, in two repeats"
    assert {type(prompt) for prompt in prompts} == {str}


def test_the_argument_of_a_function_is_a_plain_text() -> None:
    prompt = PromptText(PromptParts("", (), "question"))

    assert type(as_argument(prompt)) is str
    assert as_argument(prompt) == "question"


def test_a_function_that_declares_it_gets_the_parts() -> None:
    demonstration_counts = []

    def predict_first(prompt: str, label_space: list[str]) -> int:
        demonstration_counts.append(len(parts_of(prompt, "the test").demonstrations))
        return 0

    predict_first.reads_parts = True  # type: ignore[attr-defined]
    StaICC.Normal(k=2, datasets=["mini"], limit=2)(predict_first)

    assert demonstration_counts == [2, 2, 2, 2]


def test_a_function_that_does_not_declare_it_gets_no_parts() -> None:
    def predict_first(prompt: str, label_space: list[str]) -> int:
        parts_of(prompt, "the test")
        return 0

    with pytest.raises(StaICC.OutputError, match="needs a prompt with its parts"):
        StaICC.Normal(datasets=["mini"], limit=2)(predict_first)


def test_a_plain_text_has_no_parts() -> None:
    with pytest.raises(PromptError, match="chat turns needs a prompt with its parts, and 'plain' is a plain text"):
        parts_of("plain", "chat turns")


def prompt_with_label(label: str, after: str) -> PromptText:
    """Return the prompt ``sun: `` LABEL AFTER ``snow: ``, of one demonstration and the question."""
    demonstration = Demonstration(before="sun: ", label=label, after=after)
    return PromptText(PromptParts(instruction="", demonstrations=(demonstration,), question="snow: "))


def query_of(prompt: str | tuple[str, ...]) -> Query:
    """Return a query with a prompt."""
    return Query(prompt, ("x", "y"), 0, 0, 0)


def test_equal_texts_with_equal_parts_are_accepted() -> None:
    first = query_of(prompt_with_label("good", after=".\n"))
    second = query_of(prompt_with_label("good", after=".\n"))
    refuse_other_parts([first, second])


def test_equal_texts_with_other_parts_are_refused() -> None:
    """The label is ``good`` in the first two queries and ``good.`` in the last one."""
    queries = [
        query_of(prompt_with_label("good", after=".\n")),
        query_of(prompt_with_label("good", after=".\n")),
        query_of(prompt_with_label("good.", after="\n")),
    ]
    with pytest.raises(ArgumentError, match="query 2 has the same text as an earlier one, divided into other parts"):
        refuse_other_parts(queries)


def key_of_prompt(prompt: str | tuple[str, ...]) -> object:
    """Return the structured key of a prompt with the label space ``x``."""
    return structured_key((prompt, ("x",)))


def test_the_structured_keys_of_other_parts_differ() -> None:
    first = prompt_with_label("good", after=".\n")
    second = prompt_with_label("good.", after="\n")

    assert first == second
    assert key_of_prompt(first) != key_of_prompt(second)


def test_the_structured_key_of_a_plain_text_is_another_one() -> None:
    prompt = prompt_with_label("good", after=".\n")

    assert key_of_prompt(prompt) != key_of_prompt(str(prompt))


def test_the_structured_key_of_the_noisy_channel_is_another_one() -> None:
    """In the noisy channel, a query has a prompt for each label."""
    first = prompt_with_label("good", after=".\n")
    second = prompt_with_label("good.", after="\n")

    assert key_of_prompt(first) != key_of_prompt((first, second))


def test_the_structured_key_of_the_noisy_channel_depends_on_the_order_of_the_texts() -> None:
    first = prompt_with_label("good", after=".\n")
    second = prompt_with_label("good.", after="\n")

    assert key_of_prompt((first, second)) != key_of_prompt((second, first))


def test_the_structured_keys_of_equal_parts_are_equal() -> None:
    first = prompt_with_label("good", after=".\n")
    second = prompt_with_label("good", after=".\n")

    assert key_of_prompt(first) == key_of_prompt(second)

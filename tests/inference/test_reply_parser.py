"""Labels in generated replies: replies in the styles of current models, and properties over all label spaces."""

from __future__ import annotations

import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from StaICC.inference.reply_parser import parse_reply
from tests.inference.replies import REPLIES, SPACES

MISSED = {"A: positive", "negative / bearish", "The target is a person"}  # no label rather than a guess
BY_SPACE = st.sampled_from(sorted(SPACES)).flatmap(
    lambda space: st.tuples(st.just(SPACES[space]), st.integers(0, len(SPACES[space]) - 1))
)


def test_no_label_is_invented_and_few_are_missed() -> None:
    missed = set()
    for space, replies in REPLIES.items():
        for label, reply in replies:
            parsed = parse_reply(reply, SPACES[space])
            if parsed.label is None and label is not None:
                missed.add(reply)
            else:
                assert (None if parsed.label is None else SPACES[space][parsed.label]) == label, (space, reply, parsed)
    assert missed == MISSED


@pytest.mark.parametrize("reply", ["3.7", "3.7/9", "4:30", "1,8", "Rating: 3.7"])
def test_a_number_that_begins_like_a_label_is_none(reply: str) -> None:
    assert parse_reply(reply, SPACES["stars"]).label is None
    assert parse_reply("3. The review is mixed.", SPACES["stars"]).label == 2


@pytest.mark.parametrize("form", ["{}", "**{}**"])
@pytest.mark.parametrize(
    "before", ["The wrong answer is", "It cannot be labeled as", "Not", "I don't think the answer is"]
)
def test_a_negated_cue_or_bold_label_is_no_prediction(before: str, form: str) -> None:
    assert parse_reply(f"{before} {form.format('negative')}.", ["negative", "positive"]).label is None


@pytest.mark.parametrize("form", ["{}", "{}.", "**{}**", "The answer is {}.", '{{"label": {}}}', "\\boxed{{{}}}"])
def test_a_minus_sign_is_a_part_of_a_number(form: str) -> None:
    assert parse_reply(form.format(-1), ["1", "2", "3"]).label is None
    assert parse_reply(form.format(-1), ["0", "-1", "1"]).label == 1
    assert parse_reply(form.format(1), ["0", "-1", "1"]).label == 2


@pytest.mark.parametrize(
    ("form", "rule"),
    [
        ("{}", "exact"),
        ("  {}\n", "exact"),
        ("**{}**.", "exact"),
        ('"{}"', "exact"),
        ("<think>{other}</think>{}", "exact"),
        ('{{"label": "{}"}}', "json"),
        ("The answer is {}.", "cue"),
        ("Label: {}", "cue"),
        ("\\boxed{{{}}}", "final"),
        ("{other} was my first idea. Final answer: {}", "final"),
        ("{}\nsentence: another\nlabel: {other}", "first line"),
        ("Some reasons.\n\n{}", "last line"),
        ("The words point to **{}** here.", "bold"),
    ],
)
def test_each_rule_on_each_label(form: str, rule: str) -> None:
    for space in SPACES.values():
        for index, label in enumerate(space):
            reply = form.format(label, other=space[index - 1])
            parsed = parse_reply(reply, space)
            assert parsed.label == index, reply
            assert parsed.rule == rule, reply


@pytest.mark.parametrize("value", ["true", "1.5", "null", "{}", "[true]"])
def test_json_that_is_no_text_and_no_integer_names_no_label(value: str) -> None:
    assert parse_reply(f'{{"label": {value}}}', ["True", "False", "1.5", "None", "{}"]).rule != "json"


@given(BY_SPACE, st.sampled_from([" or ", " and ", "/", ", ", " vs. ", " | "]), st.sampled_from(["", "The answer is "]))
def test_two_labels_are_no_prediction(chosen: tuple[list[str], int], joint: str, cue: str) -> None:
    space, index = chosen
    reply = cue + space[index] + joint + space[index - 1]
    assert parse_reply(reply, space).label is None


@given(BY_SPACE, st.text(max_size=40).filter(lambda text: "<" not in text and "[" not in text))
def test_reasoning_has_no_influence(chosen: tuple[list[str], int], reasoning: str) -> None:
    space, index = chosen
    assert parse_reply(f"<think>{reasoning}</think>\n\n{space[index]}", space).label == index
    assert parse_reply(f"<think>{reasoning} {space[index]}", space).label is None


@given(st.lists(st.text(min_size=1, max_size=8), min_size=2, max_size=6, unique=True), st.data())
def test_any_label_is_itself(space: list[str], data: st.DataObject) -> None:
    index = data.draw(st.integers(0, len(space) - 1))
    parsed = parse_reply(space[index], space)
    assert parsed.label == index or sum(label.strip() == space[index].strip() for label in space) > 1


@pytest.mark.parametrize(
    ("space", "labels"),
    [
        (["us", "US"], {"us": 0, "US": 1, "Us": None, "The answer is US.": 1}),
        (["C", "C++"], {"C": 0, "C++": 1, "Answer: C++": 1, "Answer: C.": 0}),
        (["entity", "entity type"], {"entity type": 1, "The answer is entity type.": 1}),
    ],
)
def test_labels_that_differ_in_case_or_marks_need_the_exact_form(space: list[str], labels: dict[str, int]) -> None:
    assert {reply: parse_reply(reply, space).label for reply in labels} == labels


REPEATED = ["a ", "*", "the answer is ", "{", "[", "<think>", "the ", "positive or ", "**a", "if ", "\n", "<b>"]


@pytest.mark.parametrize("piece", [*REPEATED, "<answer>", "<answer> <label> ", "answer " + " " * 9])
def test_long_replies_take_linear_time(piece: str) -> None:
    start = time.process_time()
    parse_reply(piece * (150_000 // len(piece)), [f"label_{number} x" for number in range(150)])
    assert time.process_time() - start < 5

"""Labels in generated replies: replies in the styles of current models, and properties over all label spaces."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from StaICC import Normal
from StaICC.inference.contract import Text
from StaICC.inference.reply_parser import ParsedReply, parse_reply, reply_text
from StaICC.methods.generate import shares
from StaICC.prompting.prompt_text import PromptParts, PromptText
from tests.inference.denied_replies import FORMS, LABEL_SPACES
from tests.inference.replies import REPLIES, SPACES
from tests.inference.rule_replies import CASES
from tests.inference.unread_replies import DENIED_ACROSS_LINES, LINE_BREAKS, UNREAD
from tests.processor_time import check_growth

MISSED = ["A: positive", "negative / bearish", "Yes, the premise entails the hypothesis.", "No, it does not follow."]
"""Replies of ``REPLIES`` in which the parser finds no label, though a person does: no label rather than a guess."""

READ = [
    (space, reply, expected) for space, replies in REPLIES.items() for expected, reply in replies if reply not in MISSED
]
READ_BY_A_RULE = [(kind, reply, expected) for kind, (_, replies) in CASES.items() for expected, reply in replies]

LABEL_SPACES_WITH_AN_INDEX = st.sampled_from(sorted(SPACES)).flatmap(
    lambda space: st.tuples(st.just(SPACES[space]), st.integers(0, len(SPACES[space]) - 1))
)


def parsed(reply: str, label_space: list[str]) -> ParsedReply:
    """Return the parsed reply to a prompt whose texts begin with "sentence: " and whose labels with "label: "."""
    return parse_reply(reply, label_space, "label: ", ["sentence: "])


def label_in(reply: str, label_space: list[str]) -> str | None:
    """Return the label that the parser finds in a reply, or ``None``."""
    index = parsed(reply, label_space).label
    return None if index is None else label_space[index]


@pytest.mark.parametrize(("space", "reply", "expected"), READ)
def test_the_label_of_a_reply_is_the_one_that_a_person_reads(space: str, reply: str, expected: str | None) -> None:
    assert label_in(reply, SPACES[space]) == expected


@pytest.mark.parametrize("reply", MISSED)
def test_a_label_is_missed_rather_than_guessed(reply: str) -> None:
    (space,) = (space for space, replies in REPLIES.items() if reply in [text for _, text in replies])
    assert label_in(reply, SPACES[space]) is None


@pytest.mark.parametrize(("kind", "reply", "expected"), READ_BY_A_RULE)
def test_each_rule_reads_what_it_is_for(kind: str, reply: str, expected: str | None) -> None:
    label_space, _ = CASES[kind]
    assert label_in(reply, label_space) == expected


def labels_in_forms(form: str, label_space: list[str]) -> dict[str, str | None]:
    """Put each label of a label space into a form of a reply: return the label that is found in each reply."""
    labels = {}
    for index, label in enumerate(label_space):
        reply = form.format(label=label, other=label_space[index - 1])
        labels[reply] = label_in(reply, label_space)
    return labels


@pytest.mark.parametrize("space", LABEL_SPACES)
@pytest.mark.parametrize("form", FORMS)
def test_a_label_that_is_denied_taken_back_or_given_a_value_is_no_prediction(form: str, space: str) -> None:
    """The form has the label as ``{label}``, such as "The answer is not {label}."."""
    labels = labels_in_forms(form, LABEL_SPACES[space])
    assert labels == dict.fromkeys(labels, None)


@pytest.mark.parametrize("space", LABEL_SPACES)
@pytest.mark.parametrize("form", UNREAD)
def test_what_is_around_a_label_counts(form: str, space: str) -> None:
    labels = labels_in_forms(form, LABEL_SPACES[space])
    assert labels == dict.fromkeys(labels, None)


@pytest.mark.parametrize("line_break", LINE_BREAKS)
@pytest.mark.parametrize("space", LABEL_SPACES)
@pytest.mark.parametrize("form", DENIED_ACROSS_LINES)
def test_a_line_break_ends_no_denial(form: str, space: str, line_break: str) -> None:
    labels = labels_in_forms(form.replace("{line}", line_break), LABEL_SPACES[space])
    assert labels == dict.fromkeys(labels, None)


@pytest.mark.parametrize("reply", ["3.7", "3.7/9", "4:30", "1,8", "Rating: 3.7", "1. First, read the review."])
def test_a_number_that_begins_like_a_label_is_none(reply: str) -> None:
    assert parse_reply(reply, ["1", "2", "3", "4", "5"]).label is None


def test_a_full_stop_may_follow_a_number_that_is_a_label() -> None:
    assert label_in("3. The review is mixed.", ["1", "2", "3", "4", "5"]) == "3"


@pytest.mark.parametrize("label", ["negative", "**negative**"])
@pytest.mark.parametrize(
    "denial", ["The wrong answer is", "It cannot be labeled as", "Not", "I don't think the answer is"]
)
def test_a_negated_cue_or_bold_label_is_no_prediction(denial: str, label: str) -> None:
    assert label_in(f"{denial} {label}.", ["negative", "positive"]) is None


@pytest.mark.parametrize("form", ["{}", "{}.", "**{}**", "The answer is {}.", '{{"label": {}}}', "\\boxed{{{}}}"])
def test_a_minus_sign_is_a_part_of_a_number(form: str) -> None:
    assert label_in(form.format(-1), ["1", "2", "3"]) is None
    assert label_in(form.format(-1), ["0", "-1", "1"]) == "-1"
    assert label_in(form.format(1), ["0", "-1", "1"]) == "1"


@pytest.mark.parametrize(
    ("form", "rule"),
    [
        ("{}", "exact"),
        ("  {}\n", "exact"),
        ("<think>{other}</think>{}", "exact"),
        ("**{}**.", "statement"),
        ('"{}"', "statement"),
        ("The answer is {}.", "statement"),
        ("Label: {}", "statement"),
        ("\\boxed{{{}}}", "statement"),
        ("{other} was my first idea. Final answer: {}", "statement"),
        ("{}\nsentence: another\nlabel: {other}", "statement"),
        ("Some reasons.\n\n{}", "statement"),
        ("Answer: {}\n\nThe text praises it.", "statement"),
        ('{{"label": "{}"}}', "json"),
    ],
)
@pytest.mark.parametrize("space", SPACES)
def test_each_rule_on_each_label(form: str, rule: str, space: str) -> None:
    """The form has the label as ``{}``; ``{other}`` is another label of the label space."""
    label_space = SPACES[space]
    for index, label in enumerate(label_space):
        reply = form.format(label, other=label_space[index - 1])
        assert parsed(reply, label_space) == ParsedReply(index, rule), reply


@pytest.mark.parametrize("value", ["true", "1.5", "null", "{}", "[true]"])
def test_json_that_is_no_text_and_no_integer_names_no_label(value: str) -> None:
    assert parse_reply(f'{{"label": {value}}}', ["True", "False", "1.5", "None", "{}"]).rule != "json"


@given(
    space_and_index=LABEL_SPACES_WITH_AN_INDEX,
    conjunction=st.sampled_from([" or ", " and ", "/", ", ", " vs. ", " | "]),
    cue=st.sampled_from(["", "The answer is "]),
)
def test_two_labels_are_no_prediction(space_and_index: tuple[list[str], int], conjunction: str, cue: str) -> None:
    label_space, index = space_and_index
    first_label, second_label = label_space[index], label_space[index - 1]
    assert label_in(f"{cue}{first_label}{conjunction}{second_label}", label_space) is None


WITHOUT_BRACKETS = st.text(max_size=40).filter(lambda text: "<" not in text and "[" not in text)


@given(LABEL_SPACES_WITH_AN_INDEX, WITHOUT_BRACKETS)
def test_reasoning_before_a_label_has_no_influence(space_and_index: tuple[list[str], int], reasoning: str) -> None:
    label_space, index = space_and_index
    reply = f"<think>{reasoning}</think>\n\n{label_space[index]}"
    assert parse_reply(reply, label_space).label == index


@given(LABEL_SPACES_WITH_AN_INDEX, WITHOUT_BRACKETS)
def test_a_label_in_unfinished_reasoning_is_no_prediction(
    space_and_index: tuple[list[str], int], reasoning: str
) -> None:
    label_space, index = space_and_index
    assert parse_reply(f"<think>{reasoning} {label_space[index]}", label_space).label is None


@pytest.mark.parametrize(
    ("start", "end"),
    [
        ("<think>", "</think>"),
        ("<reason>", "</reason>"),
        ("<seed:think>", "</seed:think>"),
        ("[THINK]", "[/THINK]"),
        ("\u25c1think\u25b7", "\u25c1/think\u25b7"),
        ("<|START_THINKING|>", "<|END_THINKING|>"),
        ("<|inner_prefix|>", "<|inner_suffix|>"),
        ("<|begin_of_thought|>", "<|end_of_thought|>"),
        ("<unused94>thought\n", "<unused95>"),
        ("<|channel>thought\n", "<channel|>"),
        ("<|channel|>analysis<|message|>", "<|end|><|start|>assistant<|channel|>final<|message|>"),
    ],
)
def test_thoughts_in_the_marks_of_current_models_are_cut(start: str, end: str) -> None:
    thought = f"{start}The answer is negative.{end}"
    assert parse_reply(f"{thought}positive", ["negative", "positive"]).label == 1
    assert parse_reply(thought, ["negative", "positive"]) == ParsedReply(None, "empty")
    unfinished = f"{start}The answer is negative."
    assert parse_reply(unfinished, ["negative", "positive"]) == ParsedReply(None, "cut off in reasoning")


@given(st.lists(st.text(min_size=1, max_size=8), min_size=2, max_size=6, unique_by=str.strip))
def test_a_reply_that_is_a_label_is_read_as_this_label(label_space: list[str]) -> None:
    """Whatever the labels are, as long as blanks around them are not all that differs."""
    for index, label in enumerate(label_space):
        assert parse_reply(label, label_space).label == index


@pytest.mark.parametrize(
    ("space", "labels"),
    [
        (["us", "US"], {"us": 0, "US": 1, "Us": None, "The answer is US.": 1}),
        (["C", "C++"], {"C": 0, "C++": 1, "Answer: C++": 1, "Answer: C.": 0}),
        (["entity", "entity type"], {"entity type": 1, "The answer is entity type.": 1}),
        (["A", "A-"], {"A": 0, "A-": 1, "**A-**": 1, "The grade is A-.": 1, "A--": None}),
        (["why?", "how?"], {"why?": 0, "**how?**": 1, "The topic is why?": 0, "why": None}),
    ],
)
def test_labels_that_differ_in_case_or_marks_need_the_exact_form(space: list[str], labels: dict[str, int]) -> None:
    assert {reply: parse_reply(reply, space).label for reply in labels} == labels


@pytest.mark.parametrize("form", ["{}. Billing", "{}) Billing", "({}) Billing", "{}. billing of kind {}", "{}."])
@pytest.mark.parametrize(
    "reply",
    [
        "{}\ntext: other\nlabel: {other}",
        "{}\n\nThe text is about money.",
        "**{}**\n",
        "- {}\n\nThe text is about money.",
        "30. {}\n",
    ],
)
def test_the_number_of_a_label_is_no_mark_of_a_line(form: str, reply: str) -> None:
    space = [form.format(number, number) for number in range(1, 26)]
    for index in (1, 2, 11, 24):  # the labels of the numbers 2, 3, 12 and 25
        text = reply.format(space[index], other=space[0])
        assert parse_reply(text, space, "label: ", ["text: "]).label == index, text


def test_a_full_stop_may_follow_a_label_with_a_number() -> None:
    assert label_in("1. Billing.", ["1. Billing", "2. Refund"]) == "1. Billing"
    assert label_in("1. Refund.", ["Billing", "Refund"]) == "Refund"
    assert label_in("1. 2. Refund.", ["1. Billing", "2. Refund"]) == "2. Refund"


def test_a_model_that_writes_the_next_example_has_answered_before_it() -> None:
    """The parser knows how texts ("text: ") and labels ("label: ") of the prompt begin."""
    reply = "-\ntext: another film label: +"
    assert parse_reply(reply, ["-", "+"], "label: ", ["text: "]).label == 0


def test_without_the_template_a_second_label_may_be_a_correction() -> None:
    reply = "-\ntext: another film label: +"
    assert parse_reply(reply, ["-", "+"]).label is None


def test_a_reply_that_is_an_example_as_in_the_prompt_is_no_prediction() -> None:
    reply = "text: another film label: +"
    assert parse_reply(reply, ["-", "+"], "label: ", ["text: "]) == ParsedReply(None, "repeats the prompt")


def test_a_label_prefix_of_any_words_is_a_cue() -> None:
    """The prefix, with which the prompt asks for the label, may come again in the reply."""
    reply = "the most suitable word is however"
    assert parse_reply(reply, ["however", "so"], label_prefix="the most suitable word is").label == 0
    assert parse_reply(reply, ["however", "so"]).label is None


def write_next_example(prompt: str, label_space: list[str]) -> str:
    """Reply with the first label, and with further examples of the prompt's template."""
    return f"{label_space[0]}\nsentence: another text topic: {label_space[1]}\nsentence: one more"


def explain(prompt: str, label_space: list[str]) -> str:
    """Reply with the first label and a reason."""
    return f"Answer: {label_space[0]}\n\nThe text praises it."


def batched(function: Callable[[str, list[str]], str]) -> Callable[[list[str], list[str]], list[str]]:
    """Make an inference function of one prompt one of several prompts."""
    return lambda prompts, label_space: [function(prompt, label_space) for prompt in prompts]


@pytest.mark.parametrize("function", [write_next_example, explain])
@pytest.mark.parametrize("in_batches", [False, True])
def test_benchmarks_give_the_parser_the_template_of_their_prompts(function: Any, in_batches: bool) -> None:
    """The replies, which name the first label, then score as the first label does."""
    benchmark = Normal(datasets=["mini"], limit=8)
    result = benchmark(batched(function) if in_batches else function, batched_inference=in_batches)
    result_of_first_label = benchmark(lambda prompt, label_space: 0)
    assert not result.details["mini"].unparsed
    assert result.divided["mini"]["accuracy"] == result_of_first_label.divided["mini"]["accuracy"]


@pytest.mark.parametrize(
    ("space", "reply"),
    [(["C", "C++"], "The language is C"), (["card", "card_arrival"], "card"), (["1", "10"], "Label: 1")],
)
def test_a_label_at_the_end_of_a_cut_reply_may_be_a_longer_one(space: list[str], reply: str) -> None:
    """The reply ends with the first label, with which the second one begins."""
    complete = Text(reply, finish_reason="stop")
    cut = Text(reply, finish_reason="length")
    cut_after_the_label = Text(f"{reply}\nThe", finish_reason="length")
    cut_after_the_longer_label = Text(space[1], finish_reason="length")
    assert parse_reply(complete, space).label == 0
    assert parse_reply(cut, space) == ParsedReply(None, "cut off in a label")
    assert parse_reply(cut_after_the_label, space).label == 0
    assert parse_reply(cut_after_the_longer_label, space).label == 1


def test_methods_that_generate_give_the_parser_the_template() -> None:
    """The label of an example that the reply adds has then no share of the predictions."""
    prompt = PromptText(PromptParts("", (), "text: fine label: ", "label: ", ("text: ",)))
    assert shares(["a\ntext: dull label: b"], ["a", "b"], prompt) == [1.0, 0.0]


@pytest.mark.parametrize(
    "reply", ["(" * 9_000 + "a", "A) " * 9_000 + "a", "a, not b" + " or b" * 9_000, "[" * 900 + '"b"']
)
def test_nested_and_repeated_parts_end(reply: str) -> None:
    assert parse_reply(reply, ["a", "b"]).label is None


def test_the_text_of_a_reply_is_out_of_its_code_block() -> None:
    assert reply_text("<think>Hm.</think>```\none, two\n```") == "one, two"
    assert reply_text("<think>Hm.") == ""


REPEATED = [
    "a ",
    "*",
    "the answer is ",
    "{",
    "[",
    "<think>",
    "the ",
    "positive or ",
    "**a",
    "if ",
    "\n",
    "<b>",
    '"',
    "[\n",
]
LABEL_REPEATED = ["label_1 x or ", "label_1 x is good. ", "not label_2 x, ", '"label_3 x ', "label_1 x\n"]


@pytest.mark.parametrize(
    "piece", [*REPEATED, *LABEL_REPEATED, "<answer>", "<answer> <label> ", "answer " + " " * 9, "\\boxed{", "sure, "]
)
@pytest.mark.parametrize("letters", [30_000, pytest.param(90_000, marks=pytest.mark.slow)])
def test_long_replies_take_linear_time(piece: str, letters: int) -> None:
    a_third = parsing_of(piece * (letters // 3 // len(piece)))
    whole = parsing_of(piece * (letters // len(piece)))
    check_growth(a_third, whole, below=6)  # linear: 3 times the seconds of a third; quadratic: 9 times


@pytest.mark.parametrize(
    "reply",
    [
        lambda size: "label_1 x " * (4 * size) + ":\n" + "y\n" * (4 * size),
        lambda size: "label_1 x not " * (2 * size // 5) + "\n" + "y\n" * (8 * size),
    ],
    ids=["labels", "denied labels"],
)
@pytest.mark.parametrize("size", [400, pytest.param(800, marks=pytest.mark.slow)])
def test_a_long_heading_of_many_lines_takes_linear_time(reply: Callable[[int], str], size: int) -> None:
    a_quarter, whole = parsing_of(reply(size // 4)), parsing_of(reply(size))
    check_growth(a_quarter, whole, below=10)  # linear: 4 times the seconds of a quarter; quadratic: 16 times


def parsing_of(reply: str) -> Callable[[], object]:
    """Return the work to parse a reply. More labels cost more for each letter, and would hide a quadratic term."""
    labels = [f"label_{number} x" for number in range(15)]
    return lambda: parse_reply(reply, labels)

"""Reading label scores out of a server's answers: right ones give the oracle's numbers, wrong ones give errors."""

from __future__ import annotations

import copy
import math
import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from StaICC.kernels.protocol import label_probabilities
from StaICC.kernels.server.endpoint import (
    NoMatch,
    echoed_tokens,
    joint_log_probabilities,
    next_token_scores,
    next_tokens,
)
from StaICC.kernels.server.label_tokens import unknown_mark
from StaICC.kernels.server.transport import EndpointError
from tests.result_edits import edited, every_place

# -- prompt log-probabilities ---------------------------------------------------------------------------------------


def echo_body(tokens, values, generated=(), front=()):
    """What a server sends that splits a text so; ``front`` are special tokens that are no part of the text."""
    values = [*([None] * len(front)), *values, *[-0.5] * len(generated)]
    logprobs = {"tokens": [*front, *tokens, *generated], "token_logprobs": values}
    choice = {"text": "".join([*tokens, *generated]), "logprobs": logprobs}
    return {"choices": [choice], "usage": {"completion_tokens": len(generated)}}


def read(prompt, labels, splits, **more):
    """Scores of labels whose echo is split so, with log-probabilities -1, -2, -4, ... counted from the text's start."""
    echoes = []
    for label, tokens in zip(labels, splits, strict=True):
        assert "".join(tokens) == prompt + label
        values = [None, *(-(2.0 ** (i - 1)) for i in range(1, len(tokens)))]
        echoes.append(echoed_tokens(echo_body(tokens, values, **more), prompt + label))
    return joint_log_probabilities(echoes, prompt, labels)


@pytest.mark.parametrize("generated", [(), (" so",), ("",)])
@pytest.mark.parametrize("front", [(), ("<s>",), ("<|begin|>", "x")])
def test_a_label_is_the_sum_over_its_tokens(generated, front):
    splits = [["a ", "b ", "no"], ["a ", "b ", "ma", "y", "be"]]
    assert read("a b ", ["no", "maybe"], splits, generated=generated, front=front) == [-2.0, -2.0 - 4 - 8]


def test_a_space_that_goes_with_the_label_counts_for_all_labels():
    # " no" holds the prompt's last space, "#" does not: both are scored from the border before the space.
    splits = [["a", " b:", " no"], ["a", " b:", " ", "#"]]
    assert read("a b: ", ["no", "#"], splits) == [-2.0, -2.0 - 4]


def test_labels_that_change_the_prompts_last_word_are_scored_from_before_it():
    splits = [["a", " b", "c", "d"], ["a", " bc", "e"], ["a", " b", "cf"]]
    assert read("a bc", ["d", "e", "f"], splits) == [-1 - 2 - 4.0, -1 - 2.0, -1 - 2.0]


def test_a_first_token_without_log_probability_cannot_be_part_of_a_label():
    with pytest.raises(EndpointError, match="no log-probability of the token 'no' of the label 'no'"):
        read("", ["no", "yes"], [["no"], ["yes"]])


def test_a_label_begun_inside_a_character_is_refused():
    body = echo_body(["a:", "\ufffd", "\ufffd"], [None, -1.0, -1.5])
    body["choices"][0]["text"] = "a:é"
    with pytest.raises(EndpointError, match="do not spell the text that was sent"):
        echoed_tokens(body, "a:é")


def test_equal_scores_of_three_labels_are_no_scores():
    splits = [["a ", "x"], ["a ", "y"], ["a ", "z"]]
    with pytest.raises(EndpointError, match=r"all 3 labels exactly the same log-probability, -1.0"):
        read("a ", ["x", "y", "z"], splits)
    assert read("a ", ["x", "y"], splits[:2]) == [-1.0, -1.0]  # two may tie, in 16 bits


GOOD = echo_body(["a", " b", ":", " no"], [None, -1.0, -2.0, -3.0], generated=(" so",))


def without_choices(body):
    del body["choices"]


def with_two_choices(body):
    body["choices"] *= 2


def with_the_reply_only(body):
    body["choices"][0]["text"] = " so"


def without_log_probabilities(body):
    body["choices"][0]["logprobs"] = None


def without_tokens(body):
    listed(body)["tokens"] = []


def with_a_missing_value(body):
    listed(body)["token_logprobs"].pop()


def with_a_number_as_token(body):
    listed(body)["tokens"][2] = 7


def without_the_last_token(body):
    for column in listed(body).values():
        column.pop()


def with_the_first_tokens_only(body):
    for column in listed(body).values():
        del column[3:]


def with_one_value_for_all_tokens(body):
    listed(body)["token_logprobs"] = [-1.5] * 5


def with_zeros(body):
    listed(body)["token_logprobs"] = [None, 0.0, 0.0, 0.0, 0.0]


def with_numbers_of_tokens(body):
    listed(body)["tokens"] = ["token_id:7"] * 5


def listed(body):
    """The tokens and their log-probabilities."""
    return body["choices"][0]["logprobs"]


@pytest.mark.parametrize(
    ("spoil", "message"),
    [
        (without_choices, "no list of choices"),
        (with_two_choices, "with 2 choices"),
        (with_the_reply_only, "it cut or changed the prompt, or does not know echo"),
        (without_log_probabilities, "no log-probabilities of the prompt's tokens"),
        (without_tokens, "no log-probabilities"),
        (with_a_missing_value, "4 log-probabilities for 5 tokens.*cut short"),
        (with_a_number_as_token, "tokens that are no texts"),
        (without_the_last_token, "cut short or shifted"),
        (with_the_first_tokens_only, "do not spell the text"),
        (with_one_value_for_all_tokens, "the same log-probability, -1.5, for every"),
        (with_zeros, "the same log-probability, 0.0"),
        (with_numbers_of_tokens, "do not spell the text that was sent"),
    ],
)
def test_a_wrong_echo_is_an_error(spoil, message):
    body = copy.deepcopy(GOOD)
    spoil(body)
    with pytest.raises(EndpointError, match=message):
        echoed_tokens(body, "a b: no")


@pytest.mark.parametrize("value", [None, "x", True, 0.5, math.nan, -math.inf, math.inf, [-1.0], 2e-4])
def test_what_is_no_log_probability_is_an_error_but_rounding_is_allowed(value):
    echoes = [echoed_tokens(echo_body(["a", " no"], [None, value]), "a no")]
    if value == 2e-4:
        assert joint_log_probabilities(echoes, "a", [" no"]) == [0.0]
    else:
        with pytest.raises(EndpointError, match="of the token ' no' of the label"):
            joint_log_probabilities(echoes, "a", [" no"])


BROKEN = [None, "x", "", "a b: no", "\ufffd", "<s>", 3.0, math.nan, -math.inf, True, {}, [], [None]]
"""What a value becomes; no valid log-probability, because a wrong one looks like a right one."""


@given(st.randoms(use_true_random=False), st.integers(1, 4))
def test_whatever_is_broken_the_score_is_right_or_refused(draw: random.Random, times):
    """Damage an echo in random places: what comes out is the true score, or an error of ours."""
    truth = [-5.0, -6.25]
    bodies = [
        echo_body(["a", " b", ":", " no"], [None, -1.0, -2.0, -5.0], generated=(" so",)),
        echo_body(["a", " b", ":", " y", "es"], [None, -1.0, -2.0, -6.0, -0.25], generated=(" so",)),
    ]
    for _ in range(times):
        number = draw.randrange(2)
        path, value = draw.choice([*every_place(bodies[number])])
        shorter = value[:-1] if isinstance(value, (list, str)) else None
        bodies[number] = edited(bodies[number], path, draw.choice([shorter, *BROKEN]))
    try:
        echoes = [echoed_tokens(body, text) for body, text in zip(bodies, ["a b: no", "a b: yes"], strict=True)]
        scores = joint_log_probabilities(echoes, "a b:", [" no", " yes"])
    except EndpointError:
        return
    assert scores == truth


# -- top log-probabilities ------------------------------------------------------------------------------------------


def plain(**tokens):
    return {"choices": [{"logprobs": {"tokens": ["x"], "token_logprobs": [-1.0], "top_logprobs": [tokens]}}]}


def chat(*pairs):
    listed = [{"token": token, "logprob": value} for token, value in pairs]
    return {"choices": [{"logprobs": {"content": [{"token": "x", "logprob": -1.0, "top_logprobs": listed}]}}]}


@pytest.mark.parametrize(("value", "total"), [(math.log(0.25), math.log(0.5)), (-9999.0, -9999.0 + math.log(2))])
def test_two_tokens_with_one_text_add_up(value, total):
    listed = next_tokens(chat(("a", value), ("a", value), ("b", -3.0)), 5)
    assert listed["a"] == pytest.approx(total)


@pytest.mark.parametrize("most", [2, 3, 5])
@pytest.mark.parametrize("form", ["plain", "chat"])
def test_of_a_longer_list_the_most_probable_tokens_count(most, form):
    """Servers may list one token more, the drawn one. With it, the same prompt would have other scores each time."""
    listed = {"d": -4.0, "a": -1.0, "c": -3.0, "b": -2.0, "drawn": -9.0}
    body = plain(**listed) if form == "plain" else chat(*listed.items())
    expected = dict(sorted(listed.items(), key=lambda item: -item[1])[:most])
    assert list(next_tokens(body, most).items()) == list(expected.items())


@pytest.mark.parametrize(
    ("body", "message"),
    [
        ({"choices": []}, "0 choices"),
        ({"choices": [{"logprobs": None}]}, "no list of the most probable"),
        ({"choices": [{"logprobs": {"top_logprobs": [None]}}]}, "no list of the most probable"),
        (plain(), "no list of the most probable"),
        (plain(a=-1.0), "lists 1 next tokens, where 20 were asked for"),
        (plain(a=0.0, b=-math.inf, c=-math.inf), "applied its temperature"),
        (plain(a=-1.0, b=None), "no log-probability of the next token 'b'"),
        (plain(a=-1.0, b=12.5), "12.5 as log-probability"),
        (plain(a=-1.0, b=math.nan), "nan as log-probability"),
        (plain(a=-2.0, b=-2.0, c=-2.0), "the same log-probability, -2.0, for every next token"),
        (plain(a=-0.1, b=-0.2), "add up to 1.72"),
        (chat((None, -1.0), ("b", -2.0)), "'None' as a next token, which is no text"),
    ],
)
def test_a_wrong_list_is_an_error(body, message):
    with pytest.raises(EndpointError, match=message):
        next_tokens(body, 20)


def logs(**masses):
    return {name.replace("_", " "): math.log(mass) for name, mass in masses.items()}


def test_a_label_is_the_mass_of_the_tokens_that_begin_it():
    tokens = logs(_positive=0.3, pos=0.2, negative=0.1, the=0.2, Positive=0.05)
    scores = next_token_scores(tokens, ["negative", "positive"], "refuse")
    assert [round(math.exp(score), 12) for score in scores] == [0.1, 0.55]
    assert [round(p, 12) for p in label_probabilities(scores)] == [round(2 / 13, 12), round(11 / 13, 12)]


def test_a_token_that_goes_beyond_the_label_is_not_the_label():
    with pytest.raises(NoMatch, match=r"'pos' not among the 2 most probable next tokens \('positive' 0.6, 'neg' 0.3\)"):
        next_token_scores(logs(positive=0.6, neg=0.3), ["pos", "neg"], "refuse")


def test_an_unlisted_label_is_no_match_or_gets_the_most_it_can_have():
    tokens = logs(positive=0.5, the=0.3, a=0.15)
    advice = r"raise top_n \(--top-n\), or take the bound with unlisted='bound' \(--unlisted bound\)"
    with pytest.raises(NoMatch, match=rf"'negative' not among the 3 .* {advice}"):
        next_token_scores(tokens, ["negative", "positive"], "refuse")
    low, high = next_token_scores(tokens, ["negative", "positive"], "bound")
    assert math.isclose(math.exp(high), 0.5)
    assert math.isclose(math.exp(low), 0.05)  # what the list leaves over is less than the last listed
    low, _ = next_token_scores(logs(positive=0.5, the=0.1), ["negative", "positive"], "bound")
    assert math.isclose(math.exp(low), 0.1)  # the least that is listed is less than what is left over


def test_the_bound_is_finite_when_nothing_is_left_over():
    low, high = next_token_scores(
        {"positive": math.log(0.75), "the": math.log(0.25)}, ["negative", "positive"], "bound"
    )
    assert low < -700 < high
    assert label_probabilities([low, high]) == [pytest.approx(0, abs=1e-300), 1.0]


def test_probabilities_that_underflow_are_still_scored():
    tokens = {"other": -1e-9, "positive": -900.0, "negative": -9999.0, " positive": -900.0}
    scores = next_token_scores(tokens, ["negative", "positive"], "refuse")
    assert scores == [-9999.0, pytest.approx(-900.0 + math.log(2))]
    assert label_probabilities(scores) == [0.0, 1.0]
    assert next_token_scores({"positive": -1e-9, "other": -9999.0}, ["negative", "positive"], "bound")[0] == -9999.0


@pytest.mark.parametrize("unlisted", ["refuse", "bound"])
def test_a_beginning_that_labels_share_tells_nothing(unlisted):
    with pytest.raises(NoMatch, match="does not tell the label 'very bad' from others that begin alike"):
        next_token_scores(logs(very=0.8, good=0.1, bad=0.02), ["very bad", "very good", "good", "bad"], unlisted)
    scores = next_token_scores(logs(n=0.01, ne=0.5, no=0.25), ["neutral", "no"], unlisted)
    assert [round(math.exp(score), 12) for score in scores] == [0.5, 0.25]


# -- spellings of a label -------------------------------------------------------------------------------------------


@pytest.mark.parametrize("blank", [" ", "\t", "▁", "Ġ", "\n", "Ċ", "\u200b", ""])
@pytest.mark.parametrize("unlisted", ["refuse", "bound"])
def test_a_token_without_visible_text_is_left_out(blank, unlisted):
    """It was taken for a beginning of every label, and the query was refused."""
    assert next_token_scores({blank: -0.1, "yes": -3.0, "no": -4.0}, ["yes", "no"], unlisted) == [-3.0, -4.0]


def test_only_blanks_in_the_list_leave_every_label_unlisted_and_the_message_says_so():
    with pytest.raises(NoMatch, match="most of the probability is of tokens without visible text"):
        next_token_scores({" ": -0.1, "\n": -3.0}, ["yes", "no"], "bound")


@pytest.mark.parametrize("unlisted", ["refuse", "bound"])
def test_an_unknown_mark_of_a_blank_is_named(unlisted):
    with pytest.raises(NoMatch, match="the server writes '␣' in front of labels, which is not known as the mark of a"):
        next_token_scores({"␣food": -0.5, "␣travel": -1.0}, ["food", "travel"], unlisted)


@pytest.mark.parametrize("token", ["«food", "“food", '"food', "*food", "xfood", "éfood", "▁food", "food", "␣foods"])
def test_what_else_is_in_front_of_labels_is_no_unknown_mark(token):
    assert unknown_mark([token, ""], ["food", "travel"]) is None


@pytest.mark.parametrize("spelling", ["Food", "FOOD", " Food", "▁food", "Ġfood", "▁Food", "foo", "Fo"])
def test_all_spellings_of_a_label_are_added_up(spelling):
    """The first spelling has nearly all of the probability, and was not counted."""
    tokens = {spelling: math.log(0.82), "food": math.log(0.018), "travel": math.log(0.02)}
    food, travel = next_token_scores(tokens, ["food", "travel"], "refuse")
    assert (math.exp(food), math.exp(travel)) == (pytest.approx(0.838), pytest.approx(0.02))


def test_case_tells_labels_apart_that_differ_in_nothing_else():
    tokens = {"US": math.log(0.5), "us": math.log(0.25), "Us": math.log(0.125)}
    scores = next_token_scores(tokens, ["US", "us"], "refuse")
    assert [math.exp(score) for score in scores] == [pytest.approx(0.5), pytest.approx(0.25)]


@pytest.mark.parametrize(
    ("token", "labels"),
    [
        ("N", ["Negative", "neutral"]),  # N begins the one, or the other in capitals
        ("No", ["no", "North"]),
        ("Ġa", ["Ġa", "a"]),  # the letter itself, or a blank
        ("A", ["animal", "plant"]),  # an article, or the letter of an option
    ],
)
def test_a_token_with_two_readings_counts_for_none_and_refuses_where_it_outweighs(token, labels):
    first, second = labels
    light = {first: math.log(0.5), second: math.log(0.25), token: math.log(0.125)}
    if token != first:
        scores = next_token_scores(light, labels, "refuse")
        assert [math.exp(score) for score in scores] == [pytest.approx(0.5), pytest.approx(0.25)]
    heavy = {first: math.log(0.05), second: math.log(0.02), token: math.log(0.9)}
    with pytest.raises(NoMatch, match="does not tell the label"):
        next_token_scores(heavy, labels, "refuse")


def test_the_bound_of_an_unlisted_label_includes_what_may_begin_it():
    tokens = {"plant": math.log(0.5), "A": math.log(0.2), "the": math.log(0.1)}
    animal, plant = next_token_scores(tokens, ["animal", "plant"], "bound")
    assert (math.exp(animal), math.exp(plant)) == (pytest.approx(0.3), pytest.approx(0.5))
    with pytest.raises(NoMatch, match="does not tell the label 'animal'"):
        next_token_scores({**tokens, "A": math.log(0.55), "plant": math.log(0.3)}, ["animal", "plant"], "bound")

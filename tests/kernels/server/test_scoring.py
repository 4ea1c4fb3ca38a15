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
    """Return the body of a server that echoes a text in these tokens, with their log-probabilities.

    ``generated`` are tokens after the text, ``front`` special tokens that are no part of it.
    """
    values = [*([None] * len(front)), *values, *[-0.5] * len(generated)]
    logprobs = {"tokens": [*front, *tokens, *generated], "token_logprobs": values}
    choice = {"text": "".join([*tokens, *generated]), "logprobs": logprobs}
    return {"choices": [choice], "usage": {"completion_tokens": len(generated)}}


def scores_of(prompt, labels, splits, **more):
    """Return the scores of labels after a prompt, given how the server splits each prompt with its label into tokens.

    The log-probabilities of the tokens after the first one are -1, -2, -4, and so on.
    """
    echoes = []
    for label, tokens in zip(labels, splits, strict=True):
        assert "".join(tokens) == prompt + label
        values = [None] + [-(2.0**index) for index in range(len(tokens) - 1)]
        body = echo_body(tokens, values, **more)
        echoes.append(echoed_tokens(body, prompt + label))
    return joint_log_probabilities(echoes, prompt, labels)


@pytest.mark.parametrize("generated", [(), (" so",), ("",)])
@pytest.mark.parametrize("front", [(), ("<s>",), ("<|begin|>", "x")])
def test_a_label_is_the_sum_over_its_tokens(generated, front):
    splits = [["a ", "b ", "no"], ["a ", "b ", "ma", "y", "be"]]
    scores = scores_of("a b ", ["no", "maybe"], splits, generated=generated, front=front)
    assert scores == [-2.0, -2.0 - 4.0 - 8.0]


def test_a_space_that_goes_with_the_label_counts_for_all_labels():
    """The last space of the prompt is in " no" but not in "#": both are scored from before the space."""
    splits = [["a", " b:", " no"], ["a", " b:", " ", "#"]]
    assert scores_of("a b: ", ["no", "#"], splits) == [-2.0, -2.0 - 4.0]


def test_labels_that_change_the_prompts_last_word_are_scored_from_before_it():
    splits = [["a", " b", "c", "d"], ["a", " bc", "e"], ["a", " b", "cf"]]
    assert scores_of("a bc", ["d", "e", "f"], splits) == [-1.0 - 2.0 - 4.0, -1.0 - 2.0, -1.0 - 2.0]


def test_a_first_token_without_log_probability_cannot_be_part_of_a_label():
    with pytest.raises(EndpointError, match="no log-probability of the token 'no' of the label 'no'"):
        scores_of("", ["no", "yes"], [["no"], ["yes"]])


def test_a_label_begun_inside_a_character_is_refused():
    body = echo_body(["a:", "\ufffd", "\ufffd"], [None, -1.0, -1.5])
    body["choices"][0]["text"] = "a:é"
    with pytest.raises(EndpointError, match="do not spell the text that was sent"):
        echoed_tokens(body, "a:é")


def test_equal_scores_of_three_labels_are_no_scores():
    splits = [["a ", "x"], ["a ", "y"], ["a ", "z"]]
    with pytest.raises(EndpointError, match=r"all 3 labels exactly the same log-probability, -1.0"):
        scores_of("a ", ["x", "y", "z"], splits)


def test_two_labels_may_have_equal_scores():
    """In sixteen bits that happens by chance."""
    assert scores_of("a ", ["x", "y"], [["a ", "x"], ["a ", "y"]]) == [-1.0, -1.0]


GOOD = echo_body(["a", " b", ":", " no"], [None, -1.0, -2.0, -3.0], generated=(" so",))


def listed(body):
    """Return the tokens and their log-probabilities."""
    return body["choices"][0]["logprobs"]


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


def score_of_one_token(value):
    """Return the score of a label with one token that has this log-probability."""
    echo = echoed_tokens(echo_body(["a", " no"], [None, value]), "a no")
    (score,) = joint_log_probabilities([echo], "a", [" no"])
    return score


@pytest.mark.parametrize("value", [None, "x", True, 0.5, math.nan, -math.inf, math.inf, [-1.0]])
def test_what_is_no_log_probability_is_an_error(value):
    with pytest.raises(EndpointError, match="of the token ' no' of the label"):
        score_of_one_token(value)


def test_a_log_probability_may_be_above_zero_by_rounding():
    assert score_of_one_token(2e-4) == 0.0


BROKEN = [None, "x", "", "a b: no", "\ufffd", "<s>", 3.0, math.nan, -math.inf, True, {}, [], [None]]
"""What a value becomes; no valid log-probability, because a wrong one looks like a right one."""


def with_damage(body, draw):
    """Return a body with one value, at a random place, that is cut or replaced by a random one."""
    path, value = draw.choice(list(every_place(body)))
    replacements = list(BROKEN)
    if isinstance(value, (list, str)):
        replacements.append(value[:-1])
    return edited(body, path, draw.choice(replacements))


@given(st.randoms(use_true_random=False), st.integers(1, 4))
def test_scores_of_a_damaged_echo_are_right_or_refused(draw: random.Random, damages):
    no = echo_body(["a", " b", ":", " no"], [None, -1.0, -2.0, -5.0], generated=(" so",))
    yes = echo_body(["a", " b", ":", " y", "es"], [None, -1.0, -2.0, -6.0, -0.25], generated=(" so",))
    bodies = [no, yes]
    for _ in range(damages):
        damaged = draw.randrange(2)
        bodies[damaged] = with_damage(bodies[damaged], draw)

    try:
        echoes = [echoed_tokens(bodies[0], "a b: no"), echoed_tokens(bodies[1], "a b: yes")]
        scores = joint_log_probabilities(echoes, "a b:", [" no", " yes"])
    except EndpointError:
        return

    assert scores == [-5.0, -6.0 - 0.25]


# -- top log-probabilities ------------------------------------------------------------------------------------------


def plain(**tokens):
    """Return a completion that lists these next tokens."""
    return {"choices": [{"logprobs": {"tokens": ["x"], "token_logprobs": [-1.0], "top_logprobs": [tokens]}}]}


def chat(*pairs):
    """Return a chat completion that lists next tokens with their log-probabilities."""
    listed_tokens = [{"token": token, "logprob": value} for token, value in pairs]
    return {"choices": [{"logprobs": {"content": [{"token": "x", "logprob": -1.0, "top_logprobs": listed_tokens}]}}]}


@pytest.mark.parametrize("value", [math.log(0.25), -9999.0])
def test_two_tokens_with_one_text_add_up(value):
    tokens = next_tokens(chat(("a", value), ("a", value), ("b", -3.0)), 5)
    assert tokens["a"] == pytest.approx(value + math.log(2))


UNSORTED = {"d": -4.0, "a": -1.0, "c": -3.0, "b": -2.0, "drawn": -9.0}


@pytest.mark.parametrize("body", [plain(**UNSORTED), chat(*UNSORTED.items())], ids=["completion", "chat"])
@pytest.mark.parametrize(
    ("most", "expected"),
    [
        (2, [("a", -1.0), ("b", -2.0)]),
        (3, [("a", -1.0), ("b", -2.0), ("c", -3.0)]),
        (5, [("a", -1.0), ("b", -2.0), ("c", -3.0), ("d", -4.0), ("drawn", -9.0)]),
    ],
)
def test_of_a_longer_list_the_most_probable_tokens_count(body, most, expected):
    """Servers may list one token more, the drawn one. With it, the same prompt would have other scores each time."""
    assert list(next_tokens(body, most).items()) == expected


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


def logs(**probabilities):
    """Return the log-probabilities of tokens; an underscore is a blank."""
    return {name.replace("_", " "): math.log(probability) for name, probability in probabilities.items()}


def probabilities_of(tokens, labels, unlisted="refuse"):
    """Return the probability that the listed next tokens give to each label."""
    return [math.exp(score) for score in next_token_scores(tokens, labels, unlisted)]


def test_a_label_is_the_mass_of_the_tokens_that_begin_it():
    tokens = logs(_positive=0.3, pos=0.2, negative=0.1, the=0.2, Positive=0.05)
    negative, positive = probabilities_of(tokens, ["negative", "positive"])
    assert negative == pytest.approx(0.1)
    assert positive == pytest.approx(0.3 + 0.2 + 0.05)


def test_a_token_that_goes_beyond_the_label_is_not_the_label():
    with pytest.raises(NoMatch, match=r"'pos' not among the 2 most probable next tokens \('positive' 0.6, 'neg' 0.3\)"):
        next_token_scores(logs(positive=0.6, neg=0.3), ["pos", "neg"], "refuse")


def test_an_unlisted_label_is_no_match():
    tokens = logs(positive=0.5, the=0.3, a=0.15)
    advice = r"raise top_n \(--top-n\), or take the bound with unlisted='bound' \(--unlisted bound\)"
    with pytest.raises(NoMatch, match=rf"'negative' not among the 3 .* {advice}"):
        next_token_scores(tokens, ["negative", "positive"], "refuse")


def test_the_bound_of_an_unlisted_label_is_what_the_list_leaves_over():
    tokens = logs(positive=0.5, the=0.3, a=0.15)
    negative, positive = probabilities_of(tokens, ["negative", "positive"], "bound")
    assert negative == pytest.approx(1 - 0.5 - 0.3 - 0.15)
    assert positive == pytest.approx(0.5)


def test_the_bound_of_an_unlisted_label_is_at_most_the_last_listed_token():
    tokens = logs(positive=0.5, the=0.1)  # which leaves over 0.4
    negative, _ = probabilities_of(tokens, ["negative", "positive"], "bound")
    assert negative == pytest.approx(0.1)


def test_the_bound_is_finite_when_nothing_is_left_over():
    scores = next_token_scores(logs(positive=0.75, the=0.25), ["negative", "positive"], "bound")
    negative, positive = scores
    assert negative < -700 < positive
    assert label_probabilities(scores) == [pytest.approx(0, abs=1e-300), 1.0]


def test_probabilities_that_underflow_are_still_scored():
    tokens = {"other": -1e-9, "positive": -900.0, "negative": -9999.0, " positive": -900.0}
    scores = next_token_scores(tokens, ["negative", "positive"], "refuse")
    assert scores == [-9999.0, pytest.approx(-900.0 + math.log(2))]
    assert label_probabilities(scores) == [0.0, 1.0]


def test_the_bound_of_an_unlisted_label_may_underflow():
    tokens = {"positive": -1e-9, "other": -9999.0}
    negative, _ = next_token_scores(tokens, ["negative", "positive"], "bound")
    assert negative == -9999.0


@pytest.mark.parametrize("unlisted", ["refuse", "bound"])
def test_a_beginning_that_labels_share_is_refused_where_it_outweighs_a_label(unlisted):
    labels = ["very bad", "very good", "good", "bad"]
    with pytest.raises(NoMatch, match="does not tell the label 'very bad' from others that begin alike"):
        next_token_scores(logs(very=0.8, good=0.1, bad=0.02), labels, unlisted)


@pytest.mark.parametrize("unlisted", ["refuse", "bound"])
def test_a_beginning_that_labels_share_counts_for_none_where_it_is_less_than_each(unlisted):
    neutral, no = probabilities_of(logs(n=0.01, ne=0.5, no=0.25), ["neutral", "no"], unlisted)
    assert neutral == pytest.approx(0.5)
    assert no == pytest.approx(0.25)


# -- spellings of a label -------------------------------------------------------------------------------------------


@pytest.mark.parametrize("blank", [" ", "\t", "▁", "Ġ", "\n", "Ċ", "\u200b", ""])
@pytest.mark.parametrize("unlisted", ["refuse", "bound"])
def test_a_token_without_visible_text_is_left_out(blank, unlisted):
    """Such a token begins no label, although it is a beginning of every text."""
    tokens = {blank: -0.1, "yes": -3.0, "no": -4.0}
    assert next_token_scores(tokens, ["yes", "no"], unlisted) == [-3.0, -4.0]


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
    tokens = {spelling: math.log(0.82), "food": math.log(0.018), "travel": math.log(0.02)}
    food, travel = probabilities_of(tokens, ["food", "travel"])
    assert food == pytest.approx(0.82 + 0.018)
    assert travel == pytest.approx(0.02)


def test_case_tells_labels_apart_that_differ_in_nothing_else():
    capitals, small = probabilities_of(logs(US=0.5, us=0.25, Us=0.125), ["US", "us"])
    assert capitals == pytest.approx(0.5)
    assert small == pytest.approx(0.25)


@pytest.mark.parametrize(
    ("token", "labels"),
    [
        ("N", ["Negative", "neutral"]),  # N begins the one, or the other in capitals
        ("No", ["no", "North"]),
        ("A", ["animal", "plant"]),  # an article, or the letter of an option
    ],
)
def test_a_token_with_two_readings_counts_for_none_where_it_is_less_than_each(token, labels):
    first, second = labels
    tokens = {first: math.log(0.5), second: math.log(0.25), token: math.log(0.125)}
    assert probabilities_of(tokens, labels) == [pytest.approx(0.5), pytest.approx(0.25)]


@pytest.mark.parametrize(
    ("token", "labels"),
    [
        ("N", ["Negative", "neutral"]),
        ("No", ["no", "North"]),
        ("A", ["animal", "plant"]),
        ("Ġa", ["Ġa", "a"]),  # the first label, or the second one with a blank before it
    ],
)
def test_a_token_with_two_readings_is_refused_where_it_outweighs_a_label(token, labels):
    first, second = labels
    tokens = {first: math.log(0.05), second: math.log(0.02), token: math.log(0.9)}
    with pytest.raises(NoMatch, match="does not tell the label"):
        next_token_scores(tokens, labels, "refuse")


def test_the_bound_of_an_unlisted_label_includes_what_may_begin_it():
    """Left over are 0.2, of which 0.1 (the last listed one) bounds a single token; "A" may begin the label."""
    tokens = logs(plant=0.5, A=0.2, the=0.1)
    animal, plant = probabilities_of(tokens, ["animal", "plant"], "bound")
    assert animal == pytest.approx(0.1 + 0.2)
    assert plant == pytest.approx(0.5)


def test_an_unlisted_label_that_an_unclear_token_may_begin_is_refused_where_that_outweighs_the_others():
    tokens = logs(plant=0.3, A=0.55, the=0.1)
    with pytest.raises(NoMatch, match="does not tell the label 'animal'"):
        next_token_scores(tokens, ["animal", "plant"], "bound")

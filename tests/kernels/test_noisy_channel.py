"""Where the query's text begins in the prompts of a noisy channel."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from StaICC.errors import PromptError
from StaICC.kernels.protocol import after_label, channel_scores, check_channel

WORDS = st.text("ab :\n", max_size=12)
LABELS = st.lists(st.text("abc", min_size=1, max_size=4), min_size=2, max_size=4, unique=True)


@given(WORDS, LABELS, WORDS)
def test_the_text_after_the_label_is_the_same_in_all_prompts(head, labels, tail):
    prompts = [head + label + tail for label in labels]
    starts = after_label(prompts, labels)
    tails = {prompt[start:] for prompt, start in zip(prompts, starts, strict=True)}
    assert len(tails) == 1


@given(WORDS, LABELS, WORDS)
def test_the_text_begins_after_the_label(head, labels, tail):
    prompts = [head + label + tail for label in labels]
    starts = after_label(prompts, labels)
    for prompt, start, label in zip(prompts, starts, labels, strict=True):
        assert prompt[:start].endswith(label), prompt


def texts_after_the_label(prompts, labels):
    """Return the part of each prompt that a noisy channel scores."""
    return [prompt[start:] for prompt, start in zip(prompts, after_label(prompts, labels), strict=True)]


def test_a_label_that_ends_as_another_one_is_found():
    prompts = ["not bad y\nlabel: not bad text: nod", "not bad y\nlabel: nod text: nod"]
    assert texts_after_the_label(prompts, ["not bad", "nod"]) == [" text: nod", " text: nod"]


def test_labels_may_be_written_otherwise_in_the_prompts():
    prompts = ["label: A text: fine", "label: B text: fine"]
    assert texts_after_the_label(prompts, ["good", "bad"]) == [" text: fine", " text: fine"]


def test_of_a_single_label_the_last_occurrence_counts():
    assert texts_after_the_label(["a good b good c"], ["good"]) == [" c"]


@pytest.mark.parametrize(
    ("prompts", "message"),
    [
        ("one prompt", "query 3 of a noisy channel must be a list of strings"),
        (["a", 1], "query 3 of a noisy channel must be a list of strings"),
        (["a"], "query 3 has 1 prompts for 2 labels.*noisy_channel=True"),
    ],
)
def test_a_query_without_one_prompt_for_each_label_is_refused(prompts, message):
    with pytest.raises(PromptError, match=message) as caught:
        check_channel(prompts, ["x", "y"], 3)
    assert caught.value.index == 3


def test_a_channel_scores_the_sum_or_the_mean_of_log_probabilities():
    first_query, second_query = [[-1.0], [-2.0, -4.0]], [[-3.0], [-5.0]]
    logs = [*first_query, *second_query]
    assert channel_scores(logs, 2, True) == [[-1.0, -3.0], [-3.0, -5.0]]
    assert channel_scores(logs, 2, False) == [[-1.0, -6.0], [-3.0, -5.0]]


def test_the_query_without_a_scored_token_is_named():
    first_query, second_query = [[-1.0], [-1.0]], [[-2.0], []]
    with pytest.raises(PromptError, match="query 1 has no token") as caught:
        channel_scores([*first_query, *second_query], 2, False)
    assert caught.value.index == 1

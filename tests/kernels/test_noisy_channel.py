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
def test_the_tail_is_the_same_and_follows_the_label(head, labels, tail):
    prompts = [head + label + tail for label in labels]
    starts = after_label(prompts, labels)
    tails = {prompt[start:] for prompt, start in zip(prompts, starts, strict=True)}
    assert len(tails) == 1
    for prompt, start, label in zip(prompts, starts, labels, strict=True):
        assert prompt[:start].endswith(label)


@pytest.mark.parametrize(
    ("prompts", "labels", "tail"),
    [
        (["not bad y\nlabel: not bad text: nod", "not bad y\nlabel: nod text: nod"], ["not bad", "nod"], " text: nod"),
        (["label: A text: fine", "label: B text: fine"], ["good", "bad"], " text: fine"),  # labels written otherwise
        (["a good b good c"], ["good"], " c"),
    ],
)
def test_where_the_text_begins(prompts, labels, tail):
    starts = after_label(prompts, labels)
    assert [prompt[start:] for prompt, start in zip(prompts, starts, strict=True)] == [tail] * len(prompts)


@pytest.mark.parametrize(
    ("prompts", "message"),
    [
        ("one prompt", "query 3 of a noisy channel must be a list of strings"),
        (["a", 1], "query 3 of a noisy channel must be a list of strings"),
        (["a"], "query 3 has 1 prompts for 2 labels.*noisy_channel=True"),
    ],
)
def test_what_is_not_one_prompt_for_each_label(prompts, message):
    with pytest.raises(PromptError, match=message) as caught:
        check_channel(prompts, ["x", "y"], 3)
    assert caught.value.index == 3


def test_the_query_without_a_scored_token_is_named():
    assert channel_scores([[-1.0], [-2.0, -4.0], [-3.0], [-5.0]], 2, True) == [[-1.0, -3.0], [-3.0, -5.0]]
    with pytest.raises(PromptError, match="query 1 has no token") as caught:
        channel_scores([[-1.0], [-1.0], [-2.0], []], 2, False)
    assert caught.value.index == 1

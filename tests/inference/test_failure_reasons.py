"""Which failures say that a prompt is longer than the model's limit."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from StaICC.inference.workers import alike, is_too_long

TOO_LONG = [
    "prompt 3 has 40123 tokens, but the model reads 32768 at most; use fewer demonstrations",
    "Error code: 400 - This model's maximum context length is 4096 tokens, however you requested 5012 tokens",
    "context_length_exceeded",
    "input length and `max_tokens` exceed context limit: 199000 + 8192 > 200000",
    "the request exceeds the available context size. try increasing the context size or enable context shift",
    "prompt is too long: 210000 tokens > 200000 maximum",
    "Input validation error: `inputs` tokens + `max_new_tokens` must be <= 4096",
    "the inference function raised ValueError: the prompt (40123 tokens) is too long for this model (at f.py:3)",
    "input length 9000 exceeds max_model_len 8192",
    "This is longer than the maximum sequence length (512)",
]
OTHERS = [
    "the server took too long to answer",
    "the query timed out; waiting was too long",
    "got label index 99, expected 0 to 76",
    "the inference function raised KeyError: 'length'",
    "",
]


@pytest.mark.parametrize("reason", [*TOO_LONG, *OTHERS])
def test_which_failures_say_that_a_prompt_is_too_long(reason: str) -> None:
    assert is_too_long(reason) is (reason in TOO_LONG)


@given(st.lists(st.tuples(st.sampled_from(["has {} tokens", "refused", "{} (at /x/y.py:{})"]), st.integers(0, 10**6))))
def test_alike_counts_everything_once(reported: list[tuple[str, int]]) -> None:
    reasons: dict[str, int] = {}
    for form, number in reported:
        reason = form.format(number, number)
        reasons[reason] = reasons.get(reason, 0) + 1
    found = alike(reasons)
    assert sum(count for _, count in found) == len(reported)
    assert len(found) == len({form for form, _ in reported})
    assert [count for _, count in found] == sorted((count for _, count in found), reverse=True)
    assert not any(".py" in reason for reason, _ in found)

"""The litellm kernel, with litellm's own mock responses: no request leaves the machine."""

from __future__ import annotations

import pytest

from StaICC import Normal
from StaICC.errors import ArgumentError, OutputError, RunEndingError, UnknownNameError, WithheldReplyError
from StaICC.inference.identity import identity_of
from StaICC.kernels.litellm_kernel import LiteLLMKernel
from StaICC.kernels.registry import load_kernel

SPEC = "litellm:anthropic/claude-sonnet-4-5"


def test_names_and_settings() -> None:
    kernel = load_kernel(f"{SPEC};max_completion_tokens=50;temperature=none;system=Be brief.", mock_response="food")
    assert kernel.reply_request(None, ()) == {"max_completion_tokens": 50}
    assert kernel.messages("a")[0] == {"role": "system", "content": "Be brief."}
    assert identity_of(kernel).settings == {"max_completion_tokens": "50", "system": '"Be brief."'}
    assert not identity_of(kernel).unidentified
    for spec, error in (("litellm", ArgumentError), ("litellm:", ArgumentError), (f"{SPEC};heat=1", UnknownNameError)):
        with pytest.raises(error):
            load_kernel(spec)


def test_a_run_with_mock_responses() -> None:
    pytest.importorskip("litellm")
    result = Normal(datasets=["mini"], limit=8)(LiteLLMKernel("gpt-4o", mock_response="The answer is **food**."))
    assert set(result.details["mini"].conditions[0].predictions) == {0}
    result = Normal(datasets=["mini"], limit=8, unparsed="wrong")(LiteLLMKernel("gpt-4o", mock_response="I cannot."))
    assert len(result.details["mini"].unparsed) == 16


def test_failures_take_the_place_of_replies(monkeypatch: pytest.MonkeyPatch) -> None:
    litellm = pytest.importorskip("litellm")
    kernel = LiteLLMKernel("gpt-4o", concurrency=1, retries=0)
    asked = []

    def completion(model: str, messages: list[dict[str, str]], **settings: object) -> object:
        asked.append(messages[-1]["content"])
        common = {"message": "no", "model": model, "llm_provider": "openai"}
        if asked[-1] == "bad":
            raise litellm.ContentPolicyViolationError(**common)
        if asked[-1] == "key":
            raise litellm.AuthenticationError(**common)
        if asked[-1] == "down":
            raise litellm.APIConnectionError(**common)
        return litellm.mock_completion(model, messages, mock_response="food")

    monkeypatch.setattr(litellm, "completion", completion)
    replies = kernel.batch(["a", "bad", "down", "b", "key", "c"], ["food"])
    assert [type(one) for one in replies] == [str, WithheldReplyError, OutputError, str, RunEndingError, RunEndingError]
    assert asked == ["a", "bad", "down", "b", "key"]
    with pytest.raises(WithheldReplyError):
        kernel("bad", ["food"])

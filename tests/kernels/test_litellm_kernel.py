"""The litellm kernel, with litellm's own mock responses: no request leaves the machine."""

from __future__ import annotations

import base64
import json
from pathlib import Path
from typing import Any

import pytest

from StaICC import Normal
from StaICC.errors import ArgumentError, OutputError, RunEndingError, UnknownNameError, WithheldReplyError
from StaICC.inference.contract import Text
from StaICC.inference.identity import identity_of
from StaICC.kernels.registry import load_kernel
from StaICC.kernels.text_inference import LiteLLMKernel, TextInference
from StaICC.methods.run import Method
from tests.kernels.endpoint import endpoint_server

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
    assert [type(one) for one in replies] == [
        Text,
        WithheldReplyError,
        OutputError,
        Text,
        RunEndingError,
        RunEndingError,
    ]
    assert asked == ["a", "bad", "down", "b", "key"]
    with pytest.raises(WithheldReplyError):
        kernel("bad", ["food"])


@pytest.fixture
def requests(server: endpoint_server.Server, monkeypatch: pytest.MonkeyPatch) -> list[dict[str, Any]]:
    """The requests to a server whose reply depends on their seed, in order."""
    pytest.importorskip("litellm")
    server.always = endpoint_server.answering(lambda body: ("food", "service", "ambience")[body.get("seed", 0) % 3])
    monkeypatch.setenv("OPENAI_API_BASE", server.url)
    monkeypatch.setenv("OPENAI_API_KEY", "sk-nothing-of-value")
    return server.requests


def test_samples_have_their_own_seeds_and_cache_keys(requests: list[dict[str, Any]], tmp_path: Path) -> None:
    kernel = LiteLLMKernel("openai/words", concurrency=2)
    benchmark = Normal(datasets=["mini"], limit=3)
    how: dict[str, Any] = {"store": tmp_path / "run.sqlite", "progress": False, "on_error": "collect"}
    method = Method("generate", kernel, samples=3, seed=5)
    first = method.run(benchmark, **how)
    assert len(requests) == 18
    assert len({request["seed"] for request in requests}) == 3
    assert {request["temperature"] for request in requests} == {0.7}
    again = Method("generate", kernel, samples=3, seed=5).run(benchmark, **how)
    assert len(requests) == 18  # all samples are in the store
    assert again["Divided results"] == first["Divided results"]
    Method("generate", kernel, samples=2, seed=6).run(benchmark, **how)
    assert len(requests) == 30  # another seed: other samples
    Method("generate", kernel, samples=4, seed=5).run(benchmark, **how)
    assert len(requests) == 36  # one more sample of each query
    assert len({request["seed"] for request in requests}) == 6
    texts = TextInference(kernel, temperature=0.7, seed=5, sample=1).batch(["a", "a", "b"])
    assert len(set(map(str, texts))) == 1


KEYS = {
    "ANTHROPIC_API_KEY": "sk-ant-api03-Ab_9-xYz0123456789abcdefgh",
    "AWS_SECRET_ACCESS_KEY": "wJalrXUtnFEMI/K7MDENG+bPxRfiCYEXAMPLEKEY",
    "DATABRICKS_PASSWORD": "dapi-p@ss w0rd-9876543210",
}


@pytest.mark.parametrize("name", KEYS)
def test_no_key_of_a_provider_is_in_a_failure(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    litellm = pytest.importorskip("litellm")
    key = KEYS[name]
    monkeypatch.setenv(name, key)
    forms = [key, json.dumps({"key": key}), repr(key), key.upper(), base64.b64encode(f"user:{key}".encode()).decode()]

    def completion(model: str, messages: Any, **settings: Any) -> Any:
        text = f"{'x' * 255} {messages[-1]['content']}"
        raise litellm.AuthenticationError(message=text, model=model, llm_provider="openai")

    monkeypatch.setattr(litellm, "completion", completion)
    for form in forms:
        kernel = LiteLLMKernel("gpt-4o", retries=0)
        (failure,) = kernel.batch([f"used {form} here"], ["food"])
        shown = f"{failure} {failure!r} {failure.__cause__} {failure.__context__}"  # type: ignore[union-attr]
        assert "AuthenticationError" in shown
        for start in range(0, len(key) - 8):
            assert key[start : start + 8].lower() not in shown.lower()
        assert base64.b64encode(key.encode()).decode()[4:20] not in shown
        with pytest.raises(RunEndingError) as ended:
            kernel("used " + form, ["food"])
        assert key not in str(ended.value)

"""Kernels that write, as inference functions; litellm; how replies end: what is stored, retried and said."""

from __future__ import annotations

import base64
import json
import pickle
import sys
import types
from pathlib import Path
from typing import Any

import pytest

from StaICC import Normal
from StaICC.errors import (
    ArgumentError,
    OutputError,
    PromptTooLongError,
    RunEndingError,
    UnknownNameError,
    WithheldReplyError,
)
from StaICC.inference.contract import Text, batch_form
from StaICC.inference.forecast import Forecast
from StaICC.inference.identity import Identity, identity_of
from StaICC.inference.store import PredictionStore
from StaICC.kernels.registry import load_kernel
from StaICC.kernels.server.endpoint import EndpointKernel
from StaICC.kernels.server.litellm import LiteLLMKernel
from StaICC.kernels.text_inference import TextInference, load_for_text, text_inference, with_thoughts
from StaICC.kernels.text_inference import reply as reply_of
from StaICC.methods.forecast import forecast_method
from StaICC.methods.run import Method
from tests.kernels.server import endpoint_server


class Parrot:
    def identity(self) -> Identity:
        return Identity({"model": "parrot"})

    def generate(self, prompts: list[str], max_new_tokens: int = 32, stop: Any = ()) -> list[str]:
        assert isinstance(prompts, list)
        return [f"{prompt}|{max_new_tokens}|{stop}" for prompt in prompts]


def test_answers() -> None:
    function = text_inference(Parrot())
    assert function(prompt="a", label_space=["x"]) == "a|100|[]"
    assert function.batch(prompts=("a", "b"), label_space=["x"]) == ["a|100|[]", "b|100|[]"]
    asked = batch_form(function)
    assert asked is not None
    assert asked(["c"], ["x"]) == ["c|100|[]"]
    assert text_inference(Parrot(), 7, ["\n", "Q:"])("a") == "a|7|['\\n', 'Q:']"
    refused = {"message": {"content": None, "refusal": "I can't"}, "finish_reason": "stop"}
    assert reply_of({"choices": [refused]}) == Text("I can't", "stop")
    cut, too_long, down = Text("<think>so", "length"), PromptTooLongError("9 tokens"), OutputError("down")
    for again, kept in ((too_long, cut), (down, down), (Text("yes", "stop"), "yes")):
        assert with_thoughts(["no", cut], ["a", "b"], lambda _, again=again: [again]) == ["no", kept]


@pytest.mark.parametrize(("limit", "tokens"), [(None, 8192), (10_000, 8192), (1000, 960), (120, 100)])
def test_a_thought_that_was_cut_gets_the_room_that_the_model_has(limit: int | None, tokens: int) -> None:
    def generate(prompts: list[str], max_new_tokens: int, **more: Any) -> list[Text]:
        whole, thought = Text(f"</think>{max_new_tokens}", "stop"), Text("<think>so", "length")
        return [whole if max_new_tokens > 100 or limit == 120 else thought for _ in prompts]

    def forecast(prompts: list[str], labels: Any, new_tokens: int, **more: Any) -> Forecast:
        return Forecast(limit=limit, longest_prompt=max(map(len, prompts)) + new_tokens)

    function = text_inference(types.SimpleNamespace(generate=generate, forecast_prompts=forecast))
    assert function.batch(["a" * 40, "b"]) == [f"</think>{tokens}"] * 2


def test_a_named_model_writes_text_whether_it_scores_labels_or_not() -> None:
    spec = "openai:http://localhost:1/v1#m"
    scoring = f"{spec};scoring=top-logprobs"
    assert load_for_text(scoring, 7, ["x"]) == TextInference(load_kernel(scoring), 7, ("x",))
    assert load_for_text(spec, 7, ["x"]) == load_kernel(f"{spec};scoring=text;max_tokens=7;stop=x")
    for given in (f"{spec};max_tokens=5", "litellm:m;max_completion_tokens=5"):
        assert load_for_text(given) == load_for_text(given, stop=None)
        with pytest.raises(ArgumentError, match=r"tokens of the model: got 5 and 7"):
            load_for_text(given, 7)


def test_identities() -> None:
    functions = [text_inference(Parrot(), tokens, stop) for tokens in (5, 100) for stop in ((), ["\n"], ["a", "b"])]
    identities = [identity_of(function) for function in functions]
    assert len({identity.digest for identity in identities}) == 6
    assert [one for one in identities if not (dict(one.who) == {"model": "parrot"} and not one.unidentified)] == []
    assert text_inference(Parrot()).identity() == text_inference(Parrot(), 100, []).identity()
    assert pickle.loads(pickle.dumps(functions[-1])).identity() == identities[-1]


def test_methods_that_calibrate_scores_are_refused_before_the_run() -> None:
    for forecast_or_run in (forecast_method, lambda name, kernel, _: Method(name, kernel)):
        with pytest.raises(ArgumentError, match="Contextual calibration needs label scores, which TextInference"):
            forecast_or_run("contextual-calibration", text_inference(Parrot()), [Normal(datasets=["mini"], limit=1)])


# -- how replies end


STOP = ["stop", "STOP", "eos_token", "stop_sequence", "eos", "end_turn", "FINISH"]
LENGTH = ["length", "MAX_TOKENS", "model_length"]
WITHHELD = ["content_filter", "SAFETY"]
INCOMPLETE = ["error", "abort", "load", "insufficient_system_resource", "tool_calls", "", None, 3]
EXPECTED = {
    **dict.fromkeys(STOP, "stop"),
    **dict.fromkeys(LENGTH, "length"),
    **dict.fromkeys(WITHHELD, "withheld"),
    **dict.fromkeys(INCOMPLETE, "retried"),
}


@pytest.fixture
def litellm(monkeypatch: pytest.MonkeyPatch) -> Any:
    """A module whose completions end as its list ``endings`` says, then with ``"stop"``."""
    module: Any = types.ModuleType("litellm")
    module.endings = []

    def completion(*_: Any, **__: Any) -> Any:
        text, reason = module.endings.pop(0) if module.endings else ("food", "stop")
        native = {"finish_reason": "stop", "provider_specific_fields": {"native_finish_reason": reason}}  # as litellm
        ended = native if reason in INCOMPLETE[:-2] else {"finish_reason": reason}
        body = {"choices": [{"message": {"content": text}, **ended}]}
        return types.SimpleNamespace(model_dump=lambda: body)

    module.completion = completion
    monkeypatch.setitem(sys.modules, "litellm", module)
    return module


def check(reply: object, expected: str, retries: int) -> None:
    if expected == "withheld":
        assert isinstance(reply, WithheldReplyError)
    else:
        assert isinstance(reply, Text)
        assert (reply, reply.finish_reason) == (("food", "stop") if expected == "retried" else ("foo", expected))
    assert retries == (expected == "retried")


@pytest.mark.parametrize("api", ["chat", "completions"])
@pytest.mark.parametrize("reason", EXPECTED)
def test_endings_of_servers(server: endpoint_server.Server, api: Any, reason: Any) -> None:
    pytest.importorskip("openai")
    server.wrong = [endpoint_server.answering(lambda body: "foo", reason)]
    server.always = endpoint_server.answering(lambda body: "food")
    kernel = EndpointKernel(server.url, endpoint_server.MODEL, scoring="text", api=api, backoff=0.01)
    (reply,) = kernel.batch(["a"], ["food"])
    check(reply, EXPECTED[reason], kernel.usage.retries)


@pytest.mark.parametrize("reason", EXPECTED)
def test_endings_of_litellm(litellm: Any, reason: Any) -> None:
    litellm.endings = [("foo", reason), ("food", "stop")]
    (reply,) = LiteLLMKernel("a/b").batch(["a"], ["food"])
    check(reply, EXPECTED[reason], 1 - len(litellm.endings))


def test_a_reply_that_never_ends_is_a_failure(server: endpoint_server.Server, litellm: Any, tmp_path: Path) -> None:
    pytest.importorskip("openai")
    server.always = endpoint_server.answering(lambda body: "food", "error")
    litellm.endings = [("food", "error")] * 1000
    kernels = (
        EndpointKernel(server.url, endpoint_server.MODEL, scoring="text", api="chat", backoff=0.01, retries=1),
        LiteLLMKernel("a/b", retries=1),
    )
    for number, kernel in enumerate(kernels):
        path = tmp_path / f"{number}.sqlite"
        with pytest.raises(OutputError, match="'error'"):
            Normal(datasets=["mini"], limit=2)(kernel, store=path)
        with PredictionStore(path, read_only=True) as store:
            assert store.info().answers == 0


class Writer:
    """A kernel that writes one text for all prompts."""

    def __init__(self, text: str) -> None:
        self.text = text

    def identity(self) -> Identity:
        return Identity({"model": "writer"})

    def generate(self, prompts: Any, max_new_tokens: int = 32, stop: Any = ()) -> list[str]:
        return [self.text for _ in prompts]


CUT = Text("I think", "length")
WARNED = {
    "cut": (CUT, "max_tokens=7"),
    "cut and empty": (Text("", "length"), "max_tokens=7"),
    "unknown": ("I think", "how they ended"),
    "ended": (Text("I think", "stop"), None),
    "cut after the label": (Text("food, because", "length"), None),
}


@pytest.mark.parametrize("kind", WARNED)
def test_replies_that_are_cut_before_a_label(kind: str, tmp_path: Path) -> None:
    reply, warned = WARNED[kind]
    benchmark = Normal(datasets=["mini"], limit=4, unparsed="excluded")
    for _ in range(2):  # the second run reads the store
        result = benchmark(text_inference(Writer(reply), 7), store=tmp_path / "run.sqlite")
        warnings = [text for text in result.warnings if "of 8 replies" in text and "unparsed" not in text]
        assert [warned in text for text in warnings] == [True] * (warned is not None)
        unparsed = [text for text in result.warnings if "of 8 replies are unparsed and are excluded" in text]
        assert bool(unparsed) is (kind != "cut after the label")


def test_a_reply_with_another_ending_is_no_other_prediction(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """A reply may be stored without how it ended."""
    key = bytes(32)
    for name, reply in (("old", Text("a")), ("new", Text("a", "stop")), ("other", Text("b", "stop"))):
        with PredictionStore(tmp_path / name) as store:
            store.put_many("model", [(key, reply)])
    with PredictionStore(tmp_path / "old") as store:
        assert store.merge(tmp_path / "new").different == 0
        assert store.merge(tmp_path / "other").different == 1
        kept: Any = store.put_many("model", [(key, Text("a", "length"))])
        assert (kept[key], kept[key].finish_reason, caplog.text) == ("a", None, "")
        store.put_many("model", [(key, Text("b", "stop"))])
        assert "1 queries differently" in caplog.text


# -- litellm, with its own mock responses: no request leaves the machine


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
    kinds = [Text, WithheldReplyError, OutputError, Text, RunEndingError, RunEndingError]
    assert [type(one) for one in replies] == kinds
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

"""Kernels that write, as inference functions; litellm; how replies end: what is stored, retried and said."""

from __future__ import annotations

import base64
import functools
import json
import pickle
import sys
import types
from pathlib import Path
from typing import Any, NamedTuple

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
    """A kernel whose texts say what it was given."""

    def identity(self) -> Identity:
        return Identity({"model": "parrot"})

    def generate(self, prompts: list[str], max_new_tokens: int = 32, stop: Any = ()) -> list[str]:
        assert isinstance(prompts, list)
        return [f"{prompt}|{max_new_tokens}|{stop}" for prompt in prompts]


def test_a_kernel_that_writes_is_an_inference_function() -> None:
    assert text_inference(Parrot())(prompt="a", label_space=["x"]) == "a|100|[]"


def test_an_inference_function_of_texts_has_a_batched_form() -> None:
    batched = batch_form(text_inference(Parrot()))
    assert batched is not None
    assert batched(("a", "b"), ["x"]) == ["a|100|[]", "b|100|[]"]


def test_the_limit_of_tokens_and_the_texts_that_end_a_reply_are_given_to_the_kernel() -> None:
    assert text_inference(Parrot(), 7, ["\n", "Q:"])("a") == "a|7|['\\n', 'Q:']"


def test_the_text_of_a_refusal_is_the_reply() -> None:
    refusal = {"message": {"content": None, "refusal": "I can't"}, "finish_reason": "stop"}
    assert reply_of({"choices": [refusal]}) == Text("I can't", "stop")


CUT = Text("<think>so", "length")
"""A reply that was cut before its reasoning ended."""


@pytest.mark.parametrize(
    ("second", "expected"),
    [
        pytest.param(Text("yes", "stop"), "yes", id="a complete reply"),
        pytest.param(PromptTooLongError("9 tokens"), CUT, id="no room for more tokens"),
    ],
)
def test_a_reply_whose_reasoning_was_cut_is_requested_once_more(second: Any, expected: str) -> None:
    assert with_thoughts(["no", CUT], ["a", "b"], lambda _: [second]) == ["no", expected]


def test_a_failure_of_the_second_request_is_the_outcome() -> None:
    failure = OutputError("down")
    assert with_thoughts(["no", CUT], ["a", "b"], lambda _: [failure]) == ["no", failure]


@pytest.mark.parametrize(
    ("limit", "tokens"),
    [
        pytest.param(None, 8192, id="unknown limit"),
        pytest.param(10_000, 8192, id="much room"),
        pytest.param(1000, 1000 - 40, id="the limit without the longest prompt"),
        pytest.param(120, 100, id="not less than at first"),
    ],
)
def test_a_thought_that_was_cut_gets_the_room_that_the_model_has(limit: int | None, tokens: int) -> None:
    """A model of one token per character, whose thought is cut in the first request, which allows 100 tokens.

    The reply names the tokens that its request allowed. A model with a limit of 120 tokens has no more room for the
    second request.
    """

    class ThinkingModel:
        def generate(self, prompts: list[str], max_new_tokens: int, **options: Any) -> list[Text]:
            is_cut = max_new_tokens == 100 and limit != 120
            reply = CUT if is_cut else Text(f"</think>{max_new_tokens}", "stop")
            return [reply] * len(prompts)

        def forecast_prompts(self, prompts: list[str], labels: Any, new_tokens: int, **options: Any) -> Forecast:
            longest_prompt = max(len(prompt) for prompt in prompts)
            return Forecast(limit=limit, longest_prompt=longest_prompt + new_tokens)

    prompt_of_forty_tokens = "a" * 40
    replies = text_inference(ThinkingModel()).batch([prompt_of_forty_tokens, "b"])

    assert replies == [f"</think>{tokens}", f"</think>{tokens}"]


SERVED = "openai:http://localhost:1/v1#m"


def test_a_named_model_that_scores_labels_writes_text_as_well() -> None:
    scoring = f"{SERVED};scoring=top-logprobs"
    assert load_for_text(scoring, 7, ["x"]) == TextInference(load_kernel(scoring), 7, ("x",))


def test_a_named_model_without_a_scoring_writes_text() -> None:
    assert load_for_text(SERVED, 7, ["x"]) == load_kernel(f"{SERVED};scoring=text;max_tokens=7;stop=x")


@pytest.mark.parametrize("name", [f"{SERVED};max_tokens=5", "litellm:m;max_completion_tokens=5"])
def test_two_limits_of_tokens_are_refused(name: str) -> None:
    with pytest.raises(ArgumentError, match=r"tokens of the model: got 5 and 7"):
        load_for_text(name, 7)


@pytest.mark.parametrize("name", [f"{SERVED};max_tokens=5", "litellm:m;max_completion_tokens=5"])
def test_no_texts_that_end_a_reply_are_the_default(name: str) -> None:
    assert load_for_text(name, stop=None) == load_for_text(name)


def test_the_limit_of_tokens_and_the_texts_that_end_a_reply_are_in_the_identity() -> None:
    identities = [
        identity_of(text_inference(Parrot(), max_new_tokens=5, stop=())),
        identity_of(text_inference(Parrot(), max_new_tokens=5, stop=["\n"])),
        identity_of(text_inference(Parrot(), max_new_tokens=5, stop=["a", "b"])),
        identity_of(text_inference(Parrot(), max_new_tokens=100, stop=())),
        identity_of(text_inference(Parrot(), max_new_tokens=100, stop=["\n"])),
        identity_of(text_inference(Parrot(), max_new_tokens=100, stop=["a", "b"])),
    ]
    digests = {identity.digest for identity in identities}
    assert len(digests) == 6
    for identity in identities:
        assert dict(identity.who) == {"model": "parrot"}
        assert not identity.unidentified


def test_defaults_that_are_given_change_no_identity() -> None:
    assert text_inference(Parrot(), 100, []).identity() == text_inference(Parrot()).identity()


def test_a_copy_has_the_identity_of_its_function() -> None:
    function = text_inference(Parrot(), 5, ["a", "b"])
    assert pickle.loads(pickle.dumps(function)).identity() == function.identity()


@pytest.mark.parametrize(
    "forecast_or_run",
    [
        pytest.param(forecast_method, id="forecast"),
        pytest.param(lambda name, kernel, benchmarks: Method(name, kernel), id="run"),
    ],
)
def test_methods_that_calibrate_scores_are_refused_before_the_run(forecast_or_run: Any) -> None:
    with pytest.raises(ArgumentError, match="Contextual calibration needs label scores, which TextInference"):
        forecast_or_run("contextual-calibration", text_inference(Parrot()), [Normal(datasets=["mini"], limit=1)])


# -- how replies end


ENDED = ["stop", "STOP", "eos_token", "stop_sequence", "eos", "end_turn", "FINISH"]
CUT_OFF = ["length", "MAX_TOKENS", "model_length"]
WITHHELD = ["content_filter", "SAFETY"]
INCOMPLETE = ["error", "abort", "load", "insufficient_system_resource", "tool_calls", "", None, 3]
"""Finish reasons, by what they mean; an incomplete reply is requested again."""


def litellm_ending(reason: Any) -> dict[str, Any]:
    """Return how litellm states a finish reason.

    It replaces a reason that it does not know by "stop", and states the provider's own next to it.
    """
    is_unknown = reason in INCOMPLETE and isinstance(reason, str) and reason != ""
    if is_unknown:
        return {"finish_reason": "stop", "provider_specific_fields": {"native_finish_reason": reason}}
    return {"finish_reason": reason}


@pytest.fixture
def litellm(monkeypatch: pytest.MonkeyPatch) -> Any:
    """A module in the place of litellm that counts requests.

    It replies with the pairs (text, finish reason) of its list ``replies``, and with "food" after them.
    """
    module: Any = types.ModuleType("litellm")
    module.replies = []
    module.n_requests = 0

    def completion(*arguments: Any, **options: Any) -> Any:
        module.n_requests += 1
        text, reason = ("food", "stop")
        if module.replies:
            text, reason = module.replies.pop(0)
        body = {"choices": [{"message": {"content": text}, **litellm_ending(reason)}]}
        return types.SimpleNamespace(model_dump=lambda: body)

    module.completion = completion
    monkeypatch.setitem(sys.modules, "litellm", module)
    return module


class QueryOutcome(NamedTuple):
    """The outcome of a query, and how often it was requested again."""

    outcome: Any
    retries: int


def outcome_of_server(server: endpoint_server.Server, api: Any, reason: Any) -> QueryOutcome:
    """Return the outcome of a query whose first reply from a server is "foo" with this ending, then "food"."""
    pytest.importorskip("openai")
    server.next_answers = [endpoint_server.reply_with(lambda body: "foo", reason)]
    server.usual_answer = endpoint_server.reply_with(lambda body: "food")
    kernel = EndpointKernel(server.url, endpoint_server.MODEL, scoring="text", api=api, backoff=0.01)
    (outcome,) = kernel.batch(["a"], ["food"])
    return QueryOutcome(outcome, kernel.usage.retries)


def outcome_of_litellm(litellm: Any, reason: Any) -> QueryOutcome:
    """Return the outcome of a query whose first reply through litellm is "foo" with this ending, then "food"."""
    litellm.replies = [("foo", reason), ("food", "stop")]
    (outcome,) = LiteLLMKernel("a/b").batch(["a"], ["food"])
    return QueryOutcome(outcome, retries=litellm.n_requests - 1)


@pytest.fixture(params=["completions", "chat", "litellm"])
def outcome_of_foo(request: pytest.FixtureRequest, server: endpoint_server.Server, litellm: Any) -> Any:
    """A function that returns the outcome of a query whose first reply is "foo" with a finish reason, then "food"."""
    if request.param == "litellm":
        return functools.partial(outcome_of_litellm, litellm)
    return functools.partial(outcome_of_server, server, request.param)


@pytest.mark.parametrize("reason", ENDED)
def test_a_reply_that_ended_is_complete(outcome_of_foo: Any, reason: Any) -> None:
    reply, retries = outcome_of_foo(reason)

    assert reply == "foo"
    assert reply.finish_reason == "stop"
    assert retries == 0


@pytest.mark.parametrize("reason", CUT_OFF)
def test_a_reply_that_was_cut_off_is_marked(outcome_of_foo: Any, reason: Any) -> None:
    reply, retries = outcome_of_foo(reason)

    assert reply == "foo"
    assert reply.finish_reason == "length"
    assert retries == 0


@pytest.mark.parametrize("reason", WITHHELD)
def test_a_reply_that_was_withheld_is_an_error(outcome_of_foo: Any, reason: Any) -> None:
    error, retries = outcome_of_foo(reason)

    assert isinstance(error, WithheldReplyError)
    assert retries == 0


@pytest.mark.parametrize("reason", INCOMPLETE)
def test_a_reply_that_is_incomplete_is_requested_again(outcome_of_foo: Any, reason: Any) -> None:
    reply, retries = outcome_of_foo(reason)

    assert reply == "food"
    assert reply.finish_reason == "stop"
    assert retries == 1


@pytest.fixture(params=["endpoint", "litellm"])
def never_ending(request: pytest.FixtureRequest, server: endpoint_server.Server, litellm: Any) -> Any:
    """Return a kernel all of whose replies are incomplete."""
    if request.param == "litellm":
        litellm.replies = [("food", "error")] * 1000
        return LiteLLMKernel("a/b", retries=1)
    pytest.importorskip("openai")
    server.usual_answer = endpoint_server.reply_with(lambda body: "food", "error")
    return EndpointKernel(server.url, endpoint_server.MODEL, scoring="text", api="chat", backoff=0.01, retries=1)


def test_a_reply_that_never_ends_is_a_failure_and_not_stored(never_ending: Any, tmp_path: Path) -> None:
    with pytest.raises(OutputError, match="'error'"):
        Normal(datasets=["mini"], limit=2)(never_ending, store=tmp_path / "s.sqlite")
    with PredictionStore(tmp_path / "s.sqlite", read_only=True) as store:
        assert store.info().answers == 0


class Writer:
    """A kernel that writes one text for all prompts."""

    def __init__(self, text: str) -> None:
        self.text = text

    def identity(self) -> Identity:
        return Identity({"model": "writer"})

    def generate(self, prompts: Any, max_new_tokens: int = 32, stop: Any = ()) -> list[str]:
        return [self.text for _ in prompts]


def warnings_of_run(reply: str, store: Path) -> list[str]:
    """Return the warnings about the replies of a run with a limit of seven tokens, all of which are this text."""
    benchmark = Normal(datasets=["mini"], limit=4, unparsed="excluded")
    result = benchmark(text_inference(Writer(reply), 7), store=store)
    return [warning for warning in result.warnings if "of 8 replies" in warning]


UNPARSED = "of 8 replies are unparsed and are excluded"


@pytest.mark.parametrize(
    ("reply", "warning"),
    [
        pytest.param(Text("I think", "length"), "max_tokens=7", id="cut"),
        pytest.param(Text("", "length"), "max_tokens=7", id="cut and empty"),
        pytest.param("I think", "how they ended", id="unknown ending"),
    ],
)
def test_replies_that_may_be_cut_before_a_label_have_a_warning(reply: str, warning: str, tmp_path: Path) -> None:
    """Also in a second run, which reads the replies from the store."""
    for _ in range(2):
        about_ending, about_unparsed = sorted(
            warnings_of_run(reply, tmp_path / "run.sqlite"), key=lambda text: "unparsed" in text
        )
        assert warning in about_ending
        assert UNPARSED in about_unparsed


def test_complete_replies_without_a_label_are_unparsed_and_not_said_to_be_cut(tmp_path: Path) -> None:
    (warning,) = warnings_of_run(Text("I think", "stop"), tmp_path / "run.sqlite")
    assert UNPARSED in warning


def test_replies_that_are_cut_after_the_label_have_no_warning(tmp_path: Path) -> None:
    assert warnings_of_run(Text("food, because", "length"), tmp_path / "run.sqlite") == []


KEY = bytes(32)
"""The key of the only prediction in a store."""


def store_with(path: Path, reply: Text) -> PredictionStore:
    """Return a store with one reply."""
    with PredictionStore(path) as store:
        store.put_many("model", [(KEY, reply)])
    return PredictionStore(path)


def test_a_reply_with_another_ending_is_no_other_prediction(tmp_path: Path) -> None:
    store_with(tmp_path / "with ending", Text("a", "stop")).close()
    with store_with(tmp_path / "old", Text("a")) as store:
        assert store.merge(tmp_path / "with ending").different == 0


def test_another_reply_is_another_prediction(tmp_path: Path) -> None:
    store_with(tmp_path / "other", Text("b", "stop")).close()
    with store_with(tmp_path / "old", Text("a")) as store:
        assert store.merge(tmp_path / "other").different == 1


def test_a_stored_reply_keeps_its_ending(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    with store_with(tmp_path / "old", Text("a")) as store:
        kept: Any = store.put_many("model", [(KEY, Text("a", "length"))])[KEY]
    assert kept == "a"
    assert kept.finish_reason is None
    assert caplog.text == ""


def test_another_reply_to_a_stored_query_is_a_warning(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    with store_with(tmp_path / "old", Text("a")) as store:
        store.put_many("model", [(KEY, Text("b", "stop"))])
    assert "1 queries differently" in caplog.text


# -- litellm, with its own mock responses: no request leaves the machine


SPEC = "litellm:anthropic/claude-sonnet-4-5"


def test_settings_in_the_name_are_sent_and_in_the_identity() -> None:
    kernel = load_kernel(f"{SPEC};max_completion_tokens=50;temperature=none;system=Be brief.", mock_response="food")
    assert kernel.reply_request(None, ()) == {"max_completion_tokens": 50}
    assert kernel.messages("a")[0] == {"role": "system", "content": "Be brief."}
    assert identity_of(kernel).settings == {"max_completion_tokens": "50", "system": '"Be brief."'}
    assert not identity_of(kernel).unidentified


@pytest.mark.parametrize("name", ["litellm", "litellm:"])
def test_a_name_without_a_model_is_refused(name: str) -> None:
    with pytest.raises(ArgumentError):
        load_kernel(name)


def test_an_unknown_setting_is_refused() -> None:
    with pytest.raises(UnknownNameError):
        load_kernel(f"{SPEC};heat=1")


def test_a_run_with_mock_responses_reads_their_label() -> None:
    pytest.importorskip("litellm")
    result = Normal(datasets=["mini"], limit=8)(LiteLLMKernel("gpt-4o", mock_response="The answer is **food**."))
    food = 0
    assert set(result.details["mini"].conditions[0].predictions) == {food}


def test_a_run_with_mock_responses_without_a_label_is_unparsed() -> None:
    pytest.importorskip("litellm")
    result = Normal(datasets=["mini"], limit=8, unparsed="wrong")(LiteLLMKernel("gpt-4o", mock_response="I cannot."))
    assert len(result.details["mini"].unparsed) == 16


@pytest.fixture
def prompts_sent(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Return the list of the prompts that litellm gets; it raises its errors for "bad", "key" and "down"."""
    litellm = pytest.importorskip("litellm")
    errors = {
        "bad": litellm.ContentPolicyViolationError,
        "key": litellm.AuthenticationError,
        "down": litellm.APIConnectionError,
    }
    prompts: list[str] = []

    def completion(model: str, messages: list[dict[str, str]], **settings: object) -> object:
        prompt = messages[-1]["content"]
        prompts.append(prompt)
        if prompt in errors:
            raise errors[prompt](message="no", model=model, llm_provider="openai")
        return litellm.mock_completion(model, messages, mock_response="food")

    monkeypatch.setattr(litellm, "completion", completion)
    return prompts


def test_failures_of_litellm_take_the_place_of_replies(prompts_sent: list[str]) -> None:
    kernel = LiteLLMKernel("gpt-4o", concurrency=1, retries=0)
    a, bad, down, b = kernel.batch(["a", "bad", "down", "b"], ["food"])
    assert isinstance(a, Text)
    assert isinstance(bad, WithheldReplyError)
    assert isinstance(down, OutputError)
    assert isinstance(b, Text)


def test_after_a_wrong_key_litellm_is_asked_nothing_more(prompts_sent: list[str]) -> None:
    kernel = LiteLLMKernel("gpt-4o", concurrency=1, retries=0)
    _, key, never_sent = kernel.batch(["a", "key", "c"], ["food"])
    assert isinstance(key, RunEndingError)
    assert isinstance(never_sent, RunEndingError)
    assert prompts_sent == ["a", "key"]


def test_a_single_call_of_litellm_raises_its_failure(prompts_sent: list[str]) -> None:
    with pytest.raises(WithheldReplyError):
        LiteLLMKernel("gpt-4o", retries=0)("bad", ["food"])


@pytest.fixture
def requests(server: endpoint_server.Server, monkeypatch: pytest.MonkeyPatch) -> list[dict[str, Any]]:
    """The requests to a server whose reply depends on their seed, in order."""
    pytest.importorskip("litellm")
    server.usual_answer = endpoint_server.reply_with(
        lambda body: ("food", "service", "ambience")[body.get("seed", 0) % 3]
    )
    monkeypatch.setenv("OPENAI_API_BASE", server.url)
    monkeypatch.setenv("OPENAI_API_KEY", "sk-nothing-of-value")
    return server.requests


def run_samples(store: Path, samples: int, seed: int) -> Any:
    """Run six queries with so many samples of each."""
    method = Method("generate", LiteLLMKernel("openai/words", concurrency=2), samples=samples, seed=seed)
    return method.run(Normal(datasets=["mini"], limit=3), store=store, progress=False, on_error="collect")


def test_each_sample_has_a_seed_of_its_own(requests: list[dict[str, Any]], tmp_path: Path) -> None:
    run_samples(tmp_path / "run.sqlite", samples=3, seed=5)
    assert len(requests) == 6 * 3
    assert len({request["seed"] for request in requests}) == 3
    assert {request["temperature"] for request in requests} == {0.7}


def test_samples_are_stored(requests: list[dict[str, Any]], tmp_path: Path) -> None:
    first = run_samples(tmp_path / "run.sqlite", samples=3, seed=5)
    requests.clear()
    again = run_samples(tmp_path / "run.sqlite", samples=3, seed=5)
    assert requests == []
    assert again["Divided results"] == first["Divided results"]


def test_another_seed_has_samples_of_its_own(requests: list[dict[str, Any]], tmp_path: Path) -> None:
    run_samples(tmp_path / "run.sqlite", samples=3, seed=5)
    requests.clear()
    run_samples(tmp_path / "run.sqlite", samples=2, seed=6)
    assert len(requests) == 6 * 2


def test_of_more_samples_only_the_new_ones_are_requested(requests: list[dict[str, Any]], tmp_path: Path) -> None:
    run_samples(tmp_path / "run.sqlite", samples=3, seed=5)
    requests.clear()
    run_samples(tmp_path / "run.sqlite", samples=4, seed=5)
    assert len(requests) == 6 * 1


def test_prompts_of_one_sample_have_one_seed(requests: list[dict[str, Any]]) -> None:
    TextInference(LiteLLMKernel("openai/words"), temperature=0.7, seed=5, sample=1).batch(["a", "a", "b"])
    assert len({request["seed"] for request in requests}) == 1


KEYS = {
    "ANTHROPIC_API_KEY": "sk-ant-api03-Ab_9-xYz0123456789abcdefgh",
    "AWS_SECRET_ACCESS_KEY": "wJalrXUtnFEMI/K7MDENG+bPxRfiCYEXAMPLEKEY",
    "DATABRICKS_PASSWORD": "dapi-p@ss w0rd-9876543210",
}


FORMS = {
    "verbatim": lambda key: key,
    "in JSON": lambda key: json.dumps({"key": key}),
    "as Python writes it": repr,
    "in capitals": str.upper,
    "encoded": lambda key: base64.b64encode(f"user:{key}".encode()).decode(),
}


def assert_no_part_of_key(key: str, text: str) -> None:
    """Check that a text has no eight characters of a key, whatever their case, and no part of its encoding."""
    for start in range(len(key) - 8):
        assert key[start : start + 8].lower() not in text.lower()
    assert base64.b64encode(key.encode()).decode()[4:20] not in text


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("name", KEYS)
def test_no_key_of_a_provider_is_in_a_failure(name: str, form: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """The provider's message repeats the prompt, and has the key where the message is cut."""
    litellm = pytest.importorskip("litellm")
    monkeypatch.setenv(name, KEYS[name])

    def completion(model: str, messages: Any, **settings: Any) -> Any:
        message = f"{'x' * 255} {messages[-1]['content']}"
        raise litellm.AuthenticationError(message=message, model=model, llm_provider="openai")

    monkeypatch.setattr(litellm, "completion", completion)
    prompt = f"used {FORMS[form](KEYS[name])} here"
    (failure,) = LiteLLMKernel("gpt-4o", retries=0).batch([prompt], ["food"])

    shown = f"{failure} {failure!r} {failure.__cause__} {failure.__context__}"  # type: ignore[union-attr]
    assert "AuthenticationError" in shown
    assert_no_part_of_key(KEYS[name], shown)


@pytest.mark.parametrize("name", KEYS)
def test_no_key_of_a_provider_is_in_the_error_of_a_call(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    litellm = pytest.importorskip("litellm")
    monkeypatch.setenv(name, KEYS[name])

    def completion(model: str, messages: Any, **settings: Any) -> Any:
        message = f"the key {KEYS[name]} is wrong"
        raise litellm.AuthenticationError(message=message, model=model, llm_provider="openai")

    monkeypatch.setattr(litellm, "completion", completion)
    with pytest.raises(RunEndingError) as caught:
        LiteLLMKernel("gpt-4o", retries=0)("a", ["food"])
    assert_no_part_of_key(KEYS[name], str(caught.value))

"""Kernels that write, as inference functions; how replies end, by engine: what is stored, retried and said."""

from __future__ import annotations

import pickle
import sys
import types
from pathlib import Path
from typing import Any

import pytest

from StaICC import Normal
from StaICC.errors import ArgumentError, OutputError, WithheldReplyError
from StaICC.inference.contract import Text, batch_form
from StaICC.inference.identity import Identity, identity_of
from StaICC.inference.store import PredictionStore
from StaICC.kernels.endpoint import EndpointKernel
from StaICC.kernels.text_inference import LiteLLMKernel, text_inference
from StaICC.methods.run import Method, forecast_method
from tests.kernels.endpoint import endpoint_server


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


def test_identities() -> None:
    functions = [text_inference(Parrot(), tokens, stop) for tokens in (5, 100) for stop in ((), ["\n"], ["a", "b"])]
    identities = [identity_of(function) for function in functions]
    assert len({identity.digest for identity in identities}) == 6
    assert all(dict(one.who) == {"model": "parrot"} and not one.unidentified for one in identities)
    assert text_inference(Parrot()).identity() == text_inference(Parrot(), 100, []).identity()
    assert pickle.loads(pickle.dumps(functions[-1])).identity() == identities[-1]


def test_methods_that_calibrate_scores_are_refused_before_the_run() -> None:
    for forecast_or_run in (forecast_method, lambda name, kernel, _: Method(name, kernel)):
        with pytest.raises(ArgumentError, match="Contextual calibration needs label scores, which TextInference"):
            forecast_or_run("contextual-calibration", text_inference(Parrot()), [Normal(datasets=["mini"], limit=1)])


# -- how replies end


STOP = ["stop", "STOP", "eos_token", "stop_sequence", "eos", "end_turn"]
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
        message = types.SimpleNamespace(content=text)
        return types.SimpleNamespace(choices=[types.SimpleNamespace(message=message, finish_reason=reason)])

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
        warnings = [text for text in result.warnings if "of 8 replies" in text]
        assert [warned in text for text in warnings] == [True] * (warned is not None)


def test_a_store_keeps_how_replies_ended(tmp_path: Path) -> None:
    replies = [Text("a", "stop"), Text("", "length"), Text("b"), Text('["a", "stop"]')]
    items = {bytes([number]) * 32: reply for number, reply in enumerate(replies)}
    with PredictionStore(tmp_path / "run.sqlite") as store:
        store.put_many("model", items.items())
        kept: Any = store.get_many("model", list(items))
        assert kept == items
        assert [kept[key].finish_reason for key in items] == ["stop", "length", None, None]


def test_a_reply_with_another_ending_is_no_other_prediction(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """Stores of earlier versions do not know how replies ended."""
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

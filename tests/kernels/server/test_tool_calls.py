"""Replies that are tool calls: the label is in the arguments, and nothing else ends the run."""

from __future__ import annotations

import sys
import types
from typing import Any

import pytest

from StaICC import Normal
from StaICC.errors import OutputError
from StaICC.inference.contract import Text
from StaICC.inference.replies import Failure
from StaICC.kernels.registry import load_kernel
from StaICC.kernels.server.batch_files import batch_reply
from tests.kernels.server import endpoint_server

pytest.importorskip("openai")

LABELS = ["food", "weather", "travel"]
LABELS_OF_MINI = ["food", "travel", "weather"]


def call(arguments: object) -> dict[str, Any]:
    """Return the call of a tool with these arguments, in the form of OpenAI."""
    return {"id": "call_1", "type": "function", "function": {"name": "classify", "arguments": arguments}}


MESSAGES: dict[str, tuple[dict[str, Any], str]] = {
    "OpenAI": ({"content": None, "tool_calls": [call('{"label": "food"}')]}, "tool_calls"),
    "forced tool": ({"content": None, "tool_calls": [call('{"label": "food"}')]}, "stop"),
    "Ollama": ({"content": "", "tool_calls": [call({"label": "food"})]}, "tool_calls"),
    "older server": (
        {"content": None, "function_call": {"name": "f", "arguments": '{"label": "food"}'}},
        "function_call",
    ),
    "custom tool": ({"content": None, "tool_calls": [{"type": "custom", "custom": {"input": "food"}}]}, "tool_calls"),
    "with a text": ({"content": "Let me classify this.", "tool_calls": [call('{"label": "food"}')]}, "tool_calls"),
    "same label twice": ({"content": None, "tool_calls": [call('{"label": "food"}')] * 2}, "tool_calls"),
    "after reasoning": (
        {"content": None, "reasoning_content": "Pasta.", "tool_calls": [call('{"label": "food"}')]},
        "tool_calls",
    ),
}
WITHOUT_LABEL: dict[str, dict[str, Any]] = {
    "another argument": {"content": None, "tool_calls": [call('{"city": "Rome"}')]},
    "two labels": {"content": None, "tool_calls": [call('{"label": "food"}'), call('{"label": "travel"}')]},
    "no argument": {"content": None, "tool_calls": [call("{}")]},
    "broken JSON": {"content": None, "tool_calls": [call('{"label": "fo')]},
}
NO_CALL: dict[str, object] = {
    "nothing": None,
    "an empty list": [],
    "no objects": [None, "food", 3],
    "no function": [{"type": "function"}],
    "arguments are a number": [call(3)],
    "not a list": {"function": 1},
}


def sending(message: object, reason: str = "tool_calls") -> Any:
    """Answer with a message that ended for this reason."""

    def change(answer: dict[str, Any]) -> dict[str, Any]:
        return {**answer, "choices": [{"index": 0, "message": message, "finish_reason": reason}]}

    return endpoint_server.changed_body(change)


def chat_kernel(server: endpoint_server.Server) -> Any:
    """Return a kernel that has the server of the test write replies."""
    return load_kernel(f"openai:{server.url}#words;scoring=text;api=chat", backoff=0.01, retries=1)


@pytest.mark.parametrize("form", MESSAGES)
def test_a_call_with_the_label_is_a_complete_reply(server: endpoint_server.Server, form: str) -> None:
    server.usual_answer = sending(*MESSAGES[form])
    kernel = chat_kernel(server)
    (reply,) = kernel.batch(["a text "], LABELS)
    assert isinstance(reply, Text)
    assert reply.finish_reason == "stop"
    assert kernel.retried == 0


@pytest.mark.parametrize("form", MESSAGES)
def test_the_label_in_the_arguments_is_the_prediction(server: endpoint_server.Server, form: str) -> None:
    server.usual_answer = sending(*MESSAGES[form])
    result = Normal(datasets=["mini"], limit=3)(chat_kernel(server))
    assert result.complete
    assert set(result.details["mini"].conditions[0].predictions) == {LABELS_OF_MINI.index("food")}


@pytest.mark.parametrize("form", WITHOUT_LABEL)
def test_a_call_without_a_label_is_an_unparsed_reply(server: endpoint_server.Server, form: str) -> None:
    server.usual_answer = sending(WITHOUT_LABEL[form])
    result = Normal(datasets=["mini"], limit=3, unparsed="wrong")(chat_kernel(server))
    assert len(result.details["mini"].unparsed) == 6


@pytest.mark.parametrize("form", WITHOUT_LABEL)
def test_a_call_without_a_label_is_a_failure_where_unparsed_replies_are(
    server: endpoint_server.Server, form: str
) -> None:
    server.usual_answer = sending(WITHOUT_LABEL[form])
    result = Normal(datasets=["mini"], limit=3)(chat_kernel(server), on_error="collect")
    for failure in result.details["mini"].failures:
        assert "unparsed reply" in failure.reason
    assert result.details["mini"].failures


@pytest.mark.parametrize("form", NO_CALL)
def test_a_finish_reason_of_a_call_that_is_not_there_is_an_incomplete_reply(
    server: endpoint_server.Server, form: str
) -> None:
    server.usual_answer = sending({"content": None, "tool_calls": NO_CALL[form]}, "tool_calls")
    kernel = chat_kernel(server)
    (outcome,) = kernel.batch(["a text "], LABELS)
    assert isinstance(outcome, OutputError)
    assert "may be incomplete" in str(outcome)
    assert kernel.retried == 1


@pytest.mark.parametrize("form", NO_CALL)
def test_a_complete_reply_without_text_and_call_is_an_error(server: endpoint_server.Server, form: str) -> None:
    server.usual_answer = sending({"content": None, "tool_calls": NO_CALL[form]}, "stop")
    (outcome,) = chat_kernel(server).batch(["a text "], LABELS)
    assert isinstance(outcome, OutputError)
    assert "holds no text" in str(outcome)


def anthropic_record(content: list[dict[str, Any]]) -> dict[str, Any]:
    """Return a line of the results of a batch in the form of Anthropic."""
    message = {"type": "message", "model": "m", "content": content, "stop_reason": "tool_use"}
    return {"custom_id": "a", "result": {"type": "succeeded", "message": message}}


def test_a_call_in_the_results_of_a_batch_of_anthropic_is_read() -> None:
    record = anthropic_record([{"type": "tool_use", "id": "t", "name": "classify", "input": {"label": "food"}}])
    assert batch_reply("line 1", record, {}) == ("a", {"reply": '{"label": "food"}'})


def test_a_missing_call_in_the_results_of_a_batch_is_a_failure() -> None:
    _, outcome = batch_reply("line 1", anthropic_record([]), {})
    assert isinstance(outcome, Failure)


def test_a_call_in_the_results_of_a_batch_of_openai_is_read() -> None:
    message = {"content": None, "tool_calls": [call('{"label": "food"}')]}
    body = {"model": "m", "choices": [{"message": message, "finish_reason": "tool_calls"}]}
    record = {"custom_id": "a", "response": {"status_code": 200, "body": body}}
    assert batch_reply("line 1", record, {}) == ("a", {"reply": '{"label": "food"}'})


def test_a_call_through_litellm_is_read(monkeypatch: pytest.MonkeyPatch) -> None:
    """litellm writes the calls of all providers in the form of OpenAI."""
    message = {"content": None, "tool_calls": [call('{"label": "food"}')], "function_call": None}
    body = {"choices": [{"message": message, "finish_reason": "tool_calls"}]}
    module: Any = types.ModuleType("litellm")
    module.completion = lambda *_, **__: types.SimpleNamespace(model_dump=lambda: body)
    monkeypatch.setitem(sys.modules, "litellm", module)
    assert load_kernel("litellm:provider/model").batch(["a text "], LABELS) == ['{"label": "food"}']

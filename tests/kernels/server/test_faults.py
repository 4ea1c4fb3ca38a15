"""A run against a server with one fault: no received prediction is lost, few requests, the right error."""

from __future__ import annotations

import hashlib
import re
from typing import NamedTuple

import pytest

pytest.importorskip("openai")

import endpoint_server as wrong

from StaICC import Normal
from StaICC.errors import OutputError
from StaICC.inference.runner import predict_queries
from StaICC.kernels.server.endpoint import EndpointKernel
from StaICC.kernels.server.transport import UnusableEndpointError
from StaICC.kernels.text_inference import text_inference
from StaICC.prompting.prompt_writer import Query

LABELS = ["food", "travel", "weather"]
BETWEEN = 8
"""Requests without a fault before each fault."""


def label_of(body):
    prompt = body["messages"][-1]["content"]
    return f"The answer is **{LABELS[hashlib.sha256(prompt.encode()).digest()[0] % 3]}**."


RIGHT = wrong.answering(label_of)


class Fault(NamedTuple):
    """A fault, what it makes of its query (or of the run), and what the error says."""

    fault: object
    kind: str
    says: str = ""


def refused(code, message, status=400):
    return wrong.status(status, body={"error": {"message": message, "code": code}})


def content(text, reason="stop"):
    return wrong.answering(lambda body: text, reason)


TOO_LONG = "the prompt is longer than the model's context length; shorten it or use fewer demonstrations"


def error(message, code=400, kind=None):
    return {"error": {"message": message, "code": code, "type": kind}}


CONTEXT = {
    "vLLM": (400, error("The decoder prompt (length 5012) is longer than the maximum model length of 4096.")),
    "TGI": (422, {"error": "`inputs` tokens + `max_new_tokens` must be <= 4096. Given: 5012 `inputs` tokens and 100"}),
    "llama.cpp": (400, error("the request exceeds the available context size", 400, "exceed_context_size_error")),
    "OpenAI": (400, error("Your input exceeds the limit of this model.", "context_length_exceeded")),
    "Gemini": (400, [error("The input token count (1200000) exceeds the maximum number of tokens allowed (1048576).")]),
}

AT_MOST = "Input should be less than or equal to 5"


def fastapi(*location):
    return {"detail": [{"type": "less_than_equal", "loc": [*location], "msg": AT_MOST, "input": 20, "ctx": {"le": 5}}]}


TOP_N = "refuses a setting; .*top_n=N is the number of next tokens"
WRONG_FIELDS = {
    "FastAPI": (422, fastapi("body", "logprobs"), "ends", f"{TOP_N} .*'logprobs: {AT_MOST}'"),
    "a name of its own": (422, fastapi("body", "n_probs"), "ends", f"{TOP_N} .*'n_probs: {AT_MOST}'"),
    "param": (400, {"error": {"message": "At most 5.", "param": "top_tokens"}}, "ends", TOP_N),
    "a message": (400, error("Requested sample logprobs of 20, which is greater than max allowed: 5"), "ends", TOP_N),
    "the prompt": (422, fastapi("body", "messages", 0, "content"), "query", f"status 422: 'messages: {AT_MOST}'"),
    "its length": (400, {"error": {"message": "At least 1.", "param": "max_tokens"}}, "query", "At least 1"),
}

FAULTS = {
    **{
        f"context: {name}": Fault(wrong.status(status, body=body), "query", TOO_LONG)
        for name, (status, body) in CONTEXT.items()
    },
    "filtered reply": Fault(content("", "content_filter"), "unparsed", r"withheld the reply \(content filter\)"),
    "filtered prompt": Fault(refused("content_filter", "The content management policy."), "unparsed", "withheld"),
    "truncated reply": Fault(content("The answer is", "length"), "unparsed", r"\(no label\): 'The answer is'"),
    "reasoning cut": Fault(content("<think>It may be food, or travel", "length"), "passes"),
    "reasoning only": Fault(content("<think>It may be food, or travel"), "unparsed", "cut off in reasoning"),
    "a refusal": Fault(content("I'm sorry, but I can't help with that."), "unparsed", "I'm sorry"),
    "no text": Fault(content(None), "query", "holds no text"),
    "an empty text": Fault(content(""), "unparsed", "empty"),
    "reasoning text": Fault(wrong.answering(lambda body: f"<think>Not food.</think>{label_of(body)}"), "passes"),
    "dropped connection": Fault(wrong.drop, "retried"),
    "half a body": Fault(wrong.drop_in_body, "retried"),
    "rate limit": Fault(wrong.status(429, [("retry-after", "0")]), "retried"),
    "wrong key": Fault(refused("invalid_api_key", "Incorrect API key", status=401), "ends", "wants a valid key"),
    "unknown model": Fault(refused("model_not_found", "no such model", status=404), "ends", "no model 'words'"),
    "quota": Fault(refused("insufficient_quota", "You exceeded your quota", status=429), "ends", "quota is used up"),
    "balance": Fault(refused(None, "Insufficient Balance", status=402), "ends", "quota is used up"),
    "max_completion_tokens required": Fault(
        refused("unsupported_parameter", "Unsupported parameter: 'max_tokens' is not supported with this model."),
        "ends",
        "max_completion_tokens=N replaces max_tokens",
    ),
    "temperature refused": Fault(
        refused("unsupported_value", "Unsupported value: 'temperature' does not support 0 with this model."),
        "ends",
        "temperature=none",
    ),
    **{
        f"a wrong field: {name}": Fault(wrong.status(status, body=body), "query", f"status {status}")
        for name, (status, body, _, _) in WRONG_FIELDS.items()
    },
    "a bad request": Fault(refused(None, "no"), "query", "status 400: 'no'"),
    "no choices": Fault(wrong.changed(lambda answer: answer.update(choices=[])), "query", "0 choices"),
}


@pytest.fixture(scope="module")
def server():
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("OPENAI_API_KEY", "sk-test-0123456789abcdef")
        patch.setenv("NO_PROXY", "127.0.0.1")
        running = wrong.Server()
        yield running
        running.close()


def run(server, path, way="kernel", **more):
    """Run once, and return the result and the kernel's usage."""
    kernel = EndpointKernel(server.url, wrong.MODEL, scoring="text", api="chat", backoff=0.01)
    function = kernel if way == "kernel" else text_inference(kernel)
    settings = {"unparsed": "excluded", "on_error": "collect", "recheck": False, "store": str(path), **more}
    try:
        return Normal(datasets=["mini"], limit=20, unparsed=settings.pop("unparsed"))(
            function, **settings
        ), kernel.usage
    finally:
        kernel.close()


@pytest.fixture(scope="module")
def truth(server, tmp_path_factory):
    server.wrong, server.always = [], RIGHT
    result, usage = run(server, tmp_path_factory.mktemp("faults") / "s.sqlite")
    assert usage.requests == result.details["mini"].distinct + 1  # one asks for the edition
    return result


TEXTS = ["truncated reply", "dropped connection", "wrong key", "a bad request"]


@pytest.mark.parametrize(
    ("name", "way"), [*((name, "kernel") for name in FAULTS), *((name, "generate") for name in TEXTS)]
)
def test_a_fault_costs_its_own_query_only(server, truth, tmp_path, name, way):
    fault, kind, says = FAULTS[name]
    queries, path = truth.details["mini"].distinct, tmp_path / "s.sqlite"
    server.always, server.wrong = RIGHT, ([RIGHT] * BETWEEN + [fault]) * 3
    server.requests.clear()
    if kind == "ends":
        server.always, server.wrong = fault, [RIGHT] * BETWEEN
        with pytest.raises(OutputError, match=says):
            run(server, path, way)
        assert len(server.requests) <= BETWEEN + 8  # those in flight
        received = BETWEEN - 1
    else:
        result, usage = run(server, path, way)
        details, own = result.details["mini"], details_of_three(result)
        longer = sum(request.get("max_tokens") == 8192 for request in server.requests)
        assert longer == 3 * (name == "reasoning cut")
        assert usage.requests == len(server.requests) == queries + 1 + usage.retries + longer
        assert usage.retries == (3 if kind == "retried" else 0)
        assert (len(details.failures), len(details.unparsed)) == {"query": (3, 0), "unparsed": (0, 3)}.get(kind, (0, 0))
        for reason in own:
            assert re.search(says, reason), reason
        if kind in ("passes", "retried"):
            assert result.divided == truth.divided
        received = queries - 3 * (kind == "query" or "filtered" in name)
    server.always, server.wrong = RIGHT, []
    again, usage = run(server, path, way)
    assert usage.requests == (queries - received + 1 if received < queries else 0)  # what was received is not lost
    if kind != "unparsed" or "filtered" in name:
        assert again.divided == truth.divided


@pytest.mark.parametrize("name", WRONG_FIELDS)
def test_a_setting_that_is_refused_from_the_first_query_on_ends_the_run(server, tmp_path, name):
    """Later, a named setting is no reason: other queries with the same settings had an answer (the faults above)."""
    status, body, kind, says = WRONG_FIELDS[name]
    server.always, server.wrong = wrong.status(status, body=body), []
    server.requests.clear()
    with pytest.raises(OutputError, match=says) as caught:
        run(server, tmp_path / "s.sqlite")
    assert isinstance(caught.value, UnusableEndpointError) == (kind == "ends")
    assert len(server.requests) <= 8  # those in flight


@pytest.mark.parametrize("parameter", ["None", "null", " ", "", None])
def test_a_refusal_that_names_no_field_costs_its_query(server, tmp_path, parameter):
    refusal = {"error": {"message": "no", "type": "None", "param": parameter, "code": "400"}}
    server.always, server.wrong = wrong.status(400, body=refusal), []
    with pytest.raises(OutputError, match="refused") as caught:
        run(server, tmp_path / "s.sqlite")
    assert not isinstance(caught.value, UnusableEndpointError)


def details_of_three(result):
    details = result.details["mini"]
    return [one.reason for one in (*details.failures, *details.unparsed)]


def test_a_run_that_stops_at_the_first_failure_sends_one_query_alone(server):
    server.wrong, server.always = [], wrong.status(422)
    server.requests.clear()
    kernel = EndpointKernel(server.url, wrong.MODEL, scoring="text")
    with pytest.raises(OutputError, match="status 422"):
        predict_queries(kernel, [Query(f"film {row}", ("no", "yes"), 0, row, 0) for row in range(20)], "x")
    kernel.close()
    assert len(server.requests) == 1

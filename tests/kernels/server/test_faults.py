"""A run against a server with one fault: no received prediction is lost, few requests, the right error."""

from __future__ import annotations

import hashlib
import re
from typing import NamedTuple

import pytest

pytest.importorskip("openai")

import endpoint_server

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


RIGHT = endpoint_server.reply_with(label_of)


class Fault(NamedTuple):
    """A fault of a server.

    Attributes:
        answer: How the server answers with it.
        kind: What it makes of its query: "query" (the query fails), "unparsed" (its reply is unparsed), "retried" and
            "passes" (it has a right prediction, after a retry or without one); or "ends": it ends the run.
        says: What the error or the reason says.
    """

    answer: object
    kind: str
    says: str = ""


def refused(code, message, status=400):
    """Refuse a request with an error in the form of OpenAI."""
    return endpoint_server.status(status, body={"error": {"message": message, "code": code}})


def content(text, reason="stop"):
    """Reply with one text to all requests."""
    return endpoint_server.reply_with(lambda body: text, reason)


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
        f"context: {name}": Fault(endpoint_server.status(status, body=body), "query", TOO_LONG)
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
    "reasoning text": Fault(
        endpoint_server.reply_with(lambda body: f"<think>Not food.</think>{label_of(body)}"), "passes"
    ),
    "dropped connection": Fault(endpoint_server.no_answer, "retried"),
    "half a body": Fault(endpoint_server.half_a_body, "retried"),
    "rate limit": Fault(endpoint_server.status(429, [("retry-after", "0")]), "retried"),
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
        f"a wrong field: {name}": Fault(endpoint_server.status(status, body=body), "query", f"status {status}")
        for name, (status, body, _, _) in WRONG_FIELDS.items()
    },
    "a bad request": Fault(refused(None, "no"), "query", "status 400: 'no'"),
    "no choices": Fault(endpoint_server.changed_body(lambda answer: answer.update(choices=[])), "query", "0 choices"),
}


@pytest.fixture(scope="module")
def server():
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("OPENAI_API_KEY", "sk-test-0123456789abcdef")
        patch.setenv("NO_PROXY", "127.0.0.1")
        running = endpoint_server.Server()
        yield running
        running.close()


def run(server, path, way="kernel"):
    """Run once with a store, collecting failures, and return the result and the kernel's usage."""
    kernel = EndpointKernel(server.url, endpoint_server.MODEL, scoring="text", api="chat", backoff=0.01)
    function = kernel if way == "kernel" else text_inference(kernel)
    benchmark = Normal(datasets=["mini"], limit=20, unparsed="excluded")
    try:
        return benchmark(function, on_error="collect", recheck=False, store=path), kernel.usage
    finally:
        kernel.close()


@pytest.fixture(scope="module")
def right_result(server, tmp_path_factory):
    """Return the result of a run without a fault."""
    server.next_answers, server.usual_answer = [], RIGHT
    result, usage = run(server, tmp_path_factory.mktemp("faults") / "s.sqlite")
    assert usage.requests == result.details["mini"].distinct + 1  # one asks for the edition
    return result


def names_of(*kinds):
    """Return the names of the faults of some kinds."""
    return [name for name, fault in FAULTS.items() if fault.kind in kinds]


def with_three_faults(server, fault):
    """Let the server have a fault three times, each after eight right answers, and forget its requests."""
    server.next_answers = ([RIGHT] * BETWEEN + [fault.answer]) * 3
    server.usual_answer = RIGHT
    server.requests.clear()


def run_without_fault(server, path, way="kernel"):
    """Run again with the same store and a server without a fault."""
    server.next_answers, server.usual_answer = [], RIGHT
    return run(server, path, way)


STORED_REPLIES = [name for name in names_of("unparsed") if "filtered" not in name]
"""Faults whose replies are texts, which are stored and not requested again."""


@pytest.mark.parametrize("way", ["kernel", "generate"])
@pytest.mark.parametrize("name", names_of("query"))
def test_a_fault_of_a_query_fails_that_query_only(server, right_result, tmp_path, name, way):
    with_three_faults(server, FAULTS[name])
    result, usage = run(server, tmp_path / "s.sqlite", way)

    details = result.details["mini"]
    assert len(details.failures) == 3
    assert not details.unparsed
    for failure in details.failures:
        assert re.search(FAULTS[name].says, failure.reason), failure.reason
    assert usage.retries == 0
    assert usage.requests == len(server.requests) == right_result.details["mini"].distinct + 1


@pytest.mark.parametrize("way", ["kernel", "generate"])
@pytest.mark.parametrize("name", names_of("unparsed"))
def test_a_reply_without_a_label_is_unparsed(server, right_result, tmp_path, name, way):
    with_three_faults(server, FAULTS[name])
    result, usage = run(server, tmp_path / "s.sqlite", way)

    details = result.details["mini"]
    assert len(details.unparsed) == 3
    assert not details.failures
    for unparsed in details.unparsed:
        assert re.search(FAULTS[name].says, unparsed.reason), unparsed.reason
    assert usage.requests == len(server.requests) == right_result.details["mini"].distinct + 1


@pytest.mark.parametrize("way", ["kernel", "generate"])
@pytest.mark.parametrize("name", names_of("retried"))
def test_a_fault_that_passes_costs_a_retry(server, right_result, tmp_path, name, way):
    with_three_faults(server, FAULTS[name])
    result, usage = run(server, tmp_path / "s.sqlite", way)

    assert result.divided == right_result.divided
    assert usage.retries == 3
    assert usage.requests == len(server.requests) == right_result.details["mini"].distinct + 1 + 3


def test_reasoning_before_a_label_changes_nothing(server, right_result, tmp_path):
    with_three_faults(server, FAULTS["reasoning text"])
    result, usage = run(server, tmp_path / "s.sqlite")
    assert result.divided == right_result.divided
    assert usage.requests == right_result.details["mini"].distinct + 1


def test_a_reply_whose_reasoning_is_cut_is_requested_with_more_tokens(server, right_result, tmp_path):
    with_three_faults(server, FAULTS["reasoning cut"])
    result, usage = run(server, tmp_path / "s.sqlite")

    longer = [request for request in server.requests if request.get("max_tokens") == 8192]
    assert len(longer) == 3
    assert usage.requests == right_result.details["mini"].distinct + 1 + 3
    assert result.divided == right_result.divided


@pytest.mark.parametrize("way", ["kernel", "generate"])
@pytest.mark.parametrize("name", names_of("ends"))
def test_a_fault_of_the_server_ends_the_run_with_few_requests(server, tmp_path, name, way):
    server.next_answers, server.usual_answer = [RIGHT] * BETWEEN, FAULTS[name].answer
    server.requests.clear()
    with pytest.raises(OutputError, match=FAULTS[name].says):
        run(server, tmp_path / "s.sqlite", way)
    in_flight = 8
    assert len(server.requests) <= BETWEEN + in_flight


@pytest.mark.parametrize("name", [*names_of("query"), "filtered reply", "filtered prompt"])
def test_the_next_run_requests_only_what_failed(server, right_result, tmp_path, name):
    with_three_faults(server, FAULTS[name])
    run(server, tmp_path / "s.sqlite")

    result, usage = run_without_fault(server, tmp_path / "s.sqlite")

    assert usage.requests == 3 + 1  # one asks for the edition
    assert result.divided == right_result.divided


@pytest.mark.parametrize("name", [*STORED_REPLIES, *names_of("retried", "passes")])
def test_the_next_run_requests_no_reply_again(server, tmp_path, name):
    with_three_faults(server, FAULTS[name])
    first, _ = run(server, tmp_path / "s.sqlite")

    result, usage = run_without_fault(server, tmp_path / "s.sqlite")

    assert usage.requests == 0
    assert result.divided == first.divided


@pytest.mark.parametrize("name", names_of("ends"))
def test_what_was_received_before_the_end_of_a_run_is_stored(server, right_result, tmp_path, name):
    server.next_answers, server.usual_answer = [RIGHT] * BETWEEN, FAULTS[name].answer
    with pytest.raises(OutputError):
        run(server, tmp_path / "s.sqlite")

    result, usage = run_without_fault(server, tmp_path / "s.sqlite")

    received = BETWEEN - 1  # one of these requests asked for the edition
    assert usage.requests == right_result.details["mini"].distinct - received + 1
    assert result.divided == right_result.divided


@pytest.mark.parametrize("name", WRONG_FIELDS)
def test_a_setting_that_is_refused_from_the_first_query_on_ends_the_run(server, tmp_path, name):
    """Later, a named setting is no reason: other queries with the same settings had an answer (the faults above)."""
    status, body, kind, says = WRONG_FIELDS[name]
    server.usual_answer, server.next_answers = endpoint_server.status(status, body=body), []
    server.requests.clear()
    with pytest.raises(OutputError, match=says) as caught:
        run(server, tmp_path / "s.sqlite")
    assert isinstance(caught.value, UnusableEndpointError) == (kind == "ends")
    assert len(server.requests) <= 8  # those in flight


@pytest.mark.parametrize("parameter", ["None", "null", " ", "", None])
def test_a_refusal_that_names_no_field_costs_its_query(server, tmp_path, parameter):
    refusal = {"error": {"message": "no", "type": "None", "param": parameter, "code": "400"}}
    server.usual_answer, server.next_answers = endpoint_server.status(400, body=refusal), []
    with pytest.raises(OutputError, match="refused") as caught:
        run(server, tmp_path / "s.sqlite")
    assert not isinstance(caught.value, UnusableEndpointError)


def test_a_run_that_stops_at_the_first_failure_sends_one_query_alone(server):
    server.next_answers, server.usual_answer = [], endpoint_server.status(422)
    server.requests.clear()
    kernel = EndpointKernel(server.url, endpoint_server.MODEL, scoring="text")
    queries = [Query(f"film {row}", ("no", "yes"), 0, row, 0) for row in range(20)]
    with pytest.raises(OutputError, match="status 422"):
        predict_queries(kernel, queries, "x")
    kernel.close()
    assert len(server.requests) == 1

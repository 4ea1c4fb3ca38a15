"""Responses as llama.cpp's server, Ollama and LM Studio write them, with the recipes of docs/kernels.md."""

from __future__ import annotations

import math
from typing import Any

import pytest

pytest.importorskip("openai")

import endpoint_server

from StaICC.errors import OutputError
from StaICC.kernels.registry import load_kernel

LABELS = ["negative", "positive"]
PROMPT = "sentence: fine sentiment: "
LISTED = [("positive", 0.5), (" pos", 0.125), ("negative", 0.25), ("the", 0.0625)]
"""The next tokens with their probabilities."""
ENTRIES = [
    {"id": number, "token": token, "bytes": [*token.encode()], "logprob": math.log(probability)}
    for number, (token, probability) in enumerate(LISTED)
]
CONTENT = {"content": [{**ENTRIES[0], "top_logprobs": ENTRIES}]}
USAGE = {"prompt_tokens": 9, "completion_tokens": 1, "total_tokens": 10}


def message(text, **more):
    """Return a choice of a chat completion."""
    return {"index": 0, "message": {"role": "assistant", "content": text, **more}}


TEXT: dict[str, Any] = {
    "llama.cpp": {
        "choices": [{"text": "positive", "index": 0, "logprobs": None, "finish_reason": "stop"}],
        "created": 1764097200,
        "model": "words",
        "system_fingerprint": "b6710-74b8fc17f",
        "object": "text_completion",
        "usage": USAGE,
        "id": "chatcmpl-1",
        "timings": {"prompt_n": 9, "predicted_n": 1},
    },
    "Ollama": {
        "id": "chatcmpl-2",
        "object": "chat.completion",
        "created": 1764097200,
        "model": "words",
        "system_fingerprint": "fp_ollama",
        "choices": [{**message("positive", reasoning="It is fine."), "finish_reason": "stop"}],
        "usage": USAGE,
    },
}
RECIPES = {"llama.cpp": "scoring=text", "Ollama": "scoring=text;api=chat"}


def reply_of(name, finish_reason="stop"):
    """Answer as a server writes a reply that ended for this reason."""
    (choice,) = TEXT[name]["choices"]
    body = {**TEXT[name], "choices": [{**choice, "finish_reason": finish_reason}]}
    return endpoint_server.changed_body(lambda _: body)


@pytest.fixture(params=TEXT)
def served(request, server):
    """Return the name of a server, and a kernel with its recipe."""
    kernel = load_kernel(f"openai:{server.url}#words;{RECIPES[request.param]}", backoff=0.01)
    return request.param, kernel


@pytest.mark.parametrize("finish_reason", ["stop", "length"])
def test_a_reply_in_the_format_of_a_server_is_read(server, served, finish_reason):
    name, kernel = served
    server.usual_answer = reply_of(name, finish_reason)
    (reply,) = kernel.batch([PROMPT], LABELS)
    assert reply == "positive"
    assert reply.finish_reason == finish_reason


def test_a_reply_that_the_server_did_not_end_is_requested_again(server, served):
    """A server that loads its model answers with the finish reason "load"."""
    name, kernel = served
    server.next_answers, server.usual_answer = [reply_of(name, "load")], reply_of(name)
    assert kernel.batch([PROMPT], LABELS) == ["positive"]
    assert kernel.usage.retries == 1


def test_tokens_and_edition_are_read_in_the_format_of_a_server(server, served):
    name, kernel = served
    server.usual_answer = reply_of(name)
    kernel.batch([PROMPT], LABELS)
    assert kernel.tokens_used == (9, 1)
    assert kernel.editions == (f"model 'words'; system_fingerprint '{TEXT[name]['system_fingerprint']}'",)


def next_tokens_of_llama_cpp(api, finish_reason="length"):
    """Answer with the next tokens, which both interfaces of llama.cpp list as chat completions do."""
    choice = {"index": 0, "finish_reason": finish_reason, "logprobs": CONTENT}
    choice |= {"text": "positive"} if api == "completions" else message("positive")
    return endpoint_server.changed_body(lambda _: {**TEXT["llama.cpp"], "choices": [choice]})


@pytest.mark.parametrize("api", ["completions", "chat"])
def test_next_tokens_in_the_format_of_llama_cpp_are_read(server, api):
    server.usual_answer = next_tokens_of_llama_cpp(api)
    kernel = load_kernel(f"openai:{server.url}#words;scoring=top-logprobs;api={api};top_n=4")
    negative, positive = 0.25, 0.5 + 0.125
    total = negative + positive
    assert kernel(PROMPT, LABELS) == pytest.approx([negative / total, positive / total])


@pytest.mark.parametrize("api", ["completions", "chat"])
def test_next_tokens_that_the_server_did_not_end_are_requested_again(server, api):
    server.next_answers, server.usual_answer = [next_tokens_of_llama_cpp(api, "load")], next_tokens_of_llama_cpp(api)
    kernel = load_kernel(f"openai:{server.url}#words;scoring=top-logprobs;api={api};top_n=4;backoff=0.01")
    kernel(PROMPT, LABELS)
    assert kernel.retried == 1


@pytest.fixture
def server_with_file_name(server):
    """Return a server that names the file of its model as the model."""
    server.usual_answer = endpoint_server.changed_body(lambda _: {**TEXT["llama.cpp"], "model": "words-Q4_1.gguf"})
    return server


def test_a_server_that_names_its_file_as_the_model_is_refused_with_advice(server_with_file_name):
    kernel = load_kernel(f"openai:{server_with_file_name.url}#words;scoring=text")
    with pytest.raises(OutputError, match="served_model"):
        kernel(PROMPT, LABELS)


def test_a_served_model_may_be_named_otherwise(server_with_file_name):
    kernel = load_kernel(f"openai:{server_with_file_name.url}#words;scoring=text;served_model=words-Q4_1.gguf")
    assert kernel(PROMPT, LABELS) == "positive"

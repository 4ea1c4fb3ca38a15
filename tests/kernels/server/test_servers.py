"""Responses as llama.cpp's server, Ollama and LM Studio write them, with the recipes of docs/kernels.md."""

from __future__ import annotations

import math

import pytest

pytest.importorskip("openai")

import endpoint_server as wrong

from StaICC.kernels.registry import load_kernel

LABELS = ["negative", "positive"]
PROMPT = "sentence: fine sentiment: "
LISTED = [("positive", 0.5), (" pos", 0.125), ("negative", 0.25), ("the", 0.0625)]
ENTRIES = [
    {"id": place, "token": token, "bytes": [*token.encode()], "logprob": math.log(share)}
    for place, (token, share) in enumerate(LISTED)
]
CONTENT = {"content": [{**ENTRIES[0], "top_logprobs": ENTRIES}]}
USAGE = {"prompt_tokens": 9, "completion_tokens": 1, "total_tokens": 10}


def message(text, **more):
    return {"index": 0, "message": {"role": "assistant", "content": text, **more}}


TEXT = {
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


@pytest.mark.parametrize("name", TEXT)
def test_replies_in_the_format_of_a_server(server, name):
    kernel = load_kernel(f"openai:{server.url}#words;{RECIPES[name]}", backoff=0.01)
    cut = {**TEXT[name], "choices": [{**TEXT[name]["choices"][0], "finish_reason": "length"}]}
    half = {**TEXT[name], "choices": [{**TEXT[name]["choices"][0], "finish_reason": "load"}]}
    server.wrong = [wrong.changed(lambda _, body=body: body) for body in (TEXT[name], cut, half, TEXT[name])]
    replies = [kernel.batch([PROMPT], LABELS)[0] for _ in range(3)]
    ends = [("positive", "stop"), ("positive", "length"), ("positive", "stop")]
    assert [(reply, reply.finish_reason) for reply in replies] == ends
    assert kernel.usage.retries == 1  # "load" is no ending
    assert kernel.tokens_used == (27, 3)
    assert kernel.editions == (f"model 'words'; system_fingerprint '{TEXT[name]['system_fingerprint']}'",)


@pytest.mark.parametrize("api", ["completions", "chat"])
def test_next_tokens_in_the_format_of_llama_cpp(server, api):
    """Both of its interfaces list them as chat completions do."""
    choice = {"index": 0, "finish_reason": "length", "logprobs": CONTENT}
    choice |= {"text": "positive"} if api == "completions" else message("positive")
    server.always = wrong.changed(lambda _: {**TEXT["llama.cpp"], "choices": [choice]})
    half = choice | {"finish_reason": "load"}  # is no ending, also where one token is scored
    server.wrong = [wrong.changed(lambda _: {**TEXT["llama.cpp"], "choices": [half]})]
    kernel = load_kernel(f"openai:{server.url}#words;scoring=top-logprobs;api={api};top_n=4;backoff=0.01")
    assert (kernel(PROMPT, LABELS), kernel.retried) == (pytest.approx([0.25 / 0.875, 0.625 / 0.875]), 1)


def test_a_server_that_names_its_file_as_the_model(server):
    server.always = wrong.changed(lambda _: {**TEXT["llama.cpp"], "model": "words-Q4_1.gguf"})
    spec = f"openai:{server.url}#words;scoring=text"
    with pytest.raises(Exception, match="served_model"):
        load_kernel(spec)(PROMPT, LABELS)
    assert load_kernel(f"{spec};served_model=words-Q4_1.gguf")(PROMPT, LABELS) == "positive"

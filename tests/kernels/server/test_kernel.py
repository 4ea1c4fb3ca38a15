"""The endpoint kernel against a server that answers wrongly on purpose: a right result or a clear error, for each."""

from __future__ import annotations

import email.utils
import json
import math
import os
import signal
import threading
import time
from typing import Any

import pytest

pytest.importorskip("openai")

import endpoint_server as wrong

from StaICC.errors import RunEndingError
from StaICC.inference.contract import Text
from StaICC.kernels.registry import load_kernel
from StaICC.kernels.server.endpoint import NoMatch
from StaICC.kernels.server.guided_replies import allows_reply
from StaICC.kernels.server.transport import EndpointError, retry_after

KEY = "sk-test-0123456789abcdef"
LABELS = ["negative", "positive"]
PROMPTS = [f"sentence: a film number {number} , good or not sentiment: " for number in range(12)]
QUICK = {"backoff": 0.01, "timeout": 5.0}


@pytest.fixture(autouse=True)
def key(server, monkeypatch):
    monkeypatch.setenv("OPENAI_API_KEY", KEY)


def mass(prompt, label):
    """The oracle of the top log-probabilities: what of the list begins this label only."""
    listed = wrong.best(prompt, 20)
    others = [other for other in LABELS if other != label]
    begins = [
        word
        for word in listed
        if label.startswith(word.lstrip(" ")) and not any(other.startswith(word.lstrip(" ")) for other in others)
    ]
    return math.fsum(math.exp(listed[word]) for word in begins)


def normalised(masses):
    return [value / math.fsum(masses) for value in masses]


# -- right answers --------------------------------------------------------------------------------------------------


def test_prompt_log_probabilities_are_the_joint_ones(make, server):
    server.always = wrong.changed(lambda answer: answer["choices"][0].update(finish_reason=None))  # of one token
    kernel = make("prompt-logprobs")
    for prompt, row in zip(PROMPTS, kernel.batch(PROMPTS, LABELS), strict=True):
        oracle = normalised([math.exp(score) for score in wrong.joint(prompt, LABELS)])
        assert row == pytest.approx(oracle, rel=1e-12)
    assert len(server.requests) == 5 + len(PROMPTS) * len(LABELS)  # the check of the echo
    assert kernel(PROMPTS[3], LABELS) == kernel.batch(PROMPTS, LABELS)[3]
    assert {request["path"] for request in server.requests} == {"/v1/completions"}
    assert [
        request for request in server.requests if not (request["temperature"] == 0 and request["max_tokens"] == 1)
    ] == []


def test_labels_of_several_words_and_shared_beginnings(make):
    labels = ["very good", "very bad", "good", "a.b"]
    for prompt in ("say x: ", "say x:", "say very", "say a very "):
        row = make("prompt-logprobs")(prompt, labels)
        assert row == pytest.approx(normalised([math.exp(score) for score in wrong.joint(prompt, labels)]), rel=1e-12)


@pytest.mark.parametrize("api", ["completions", "chat"])
def test_top_log_probabilities_are_the_listed_ones(make, server, api):
    kernel = make("top-logprobs", api=api)
    for prompt, row in zip(PROMPTS, kernel.batch(PROMPTS, LABELS), strict=True):
        assert row == pytest.approx(normalised([mass(prompt, label) for label in LABELS]), rel=1e-12)
    asked = server.requests[0]
    if api == "chat":
        assert (asked["logprobs"], asked["top_logprobs"], asked["path"]) == (True, 20, "/v1/chat/completions")
    else:
        assert (asked["logprobs"], asked["path"]) == (20, "/v1/completions")


@pytest.mark.parametrize("scoring", ["prompt-logprobs", "top-logprobs"])
def test_the_last_blank_can_belong_to_the_label(make, server, scoring):
    kernel = make(scoring, last_blank="label")
    for prompt, row in zip(PROMPTS, kernel.batch(PROMPTS, LABELS), strict=True):
        bare = prompt.rstrip(" ")
        scores = wrong.joint(bare, [f" {label}" for label in LABELS])
        masses = [mass(bare, label) for label in LABELS] if scoring == "top-logprobs" else map(math.exp, scores)
        assert row == pytest.approx(normalised(list(masses)), rel=1e-12)
    assert [request for request in server.requests if request["prompt"].endswith(" ")] == []
    assert kernel.identity().settings == {**make(scoring).identity().settings, "last_blank": "label"}


SENT: dict[str, Any] = {
    "max_tokens": 7,
    "max_completion_tokens": 8,
    "temperature": 0.5,
    "top_p": 0.25,
    "reasoning_effort": "low",
    "stop": ("a", "b"),
    "system": "Say it.",
}


@pytest.mark.parametrize("name", SENT)
def test_each_setting_of_a_reply_is_sent_omitted_and_recorded(make, server, name):
    spec = f"openai:{server.url}#words;scoring=text;api=chat;{name}="
    value = json.dumps(SENT[name]) if name == "stop" else str(SENT[name])
    kernel = load_kernel(spec + value, **QUICK)
    server.always = wrong.answering(lambda body: "positive")
    assert kernel.batch(PROMPTS[:1], LABELS) == ["positive"]
    (request,) = server.requests
    assert type(kernel.usage.retries) is int
    assert request["messages"][-1] == {"role": "user", "content": PROMPTS[0]}
    sent = request["messages"][0]["content"] if name == "system" else request[name]
    assert sent == (["a", "b"] if name == "stop" else SENT[name])
    assert ("max_tokens" in request) == (name != "max_completion_tokens")
    assert json.dumps(sent) in kernel.identity().settings[name] or kernel.identity().settings[name] == sent
    kernel.close()
    kernel = load_kernel(spec + ("" if name == "system" else "none"), **QUICK) if name != "system" else make("text")
    kernel.batch(PROMPTS[:1], LABELS)
    assert name not in server.requests[-1]
    assert name not in kernel.identity().settings
    kernel.close()


def test_guided_replies_are_labels_of_the_label_space(make, server):
    make("text", guided="choice").batch(PROMPTS[:1], LABELS)
    make("text", api="chat", guided="json").batch(PROMPTS[:1], LABELS)
    assert server.requests[0]["structured_outputs"] == {"choice": LABELS}
    schema = server.requests[1]["response_format"]["json_schema"]["schema"]
    assert schema["properties"]["label"]["enum"] == LABELS


GUIDED = {
    "choice": ("positive", "It is positive.", {}),
    "json": ('{"label": "positive"}', '{"label": "fine"}', {"api": "chat"}),
}
"""For each value of ``guided``: a reply that it allows, one that it does not, and the options that it needs."""


@pytest.mark.parametrize(("guided", "reply"), [("choice", "good"), ("json", '{"label": "good"}')])
def test_white_space_at_the_ends_of_a_label_may_be_missing(guided, reply):
    assert allows_reply(guided, Text(reply, "stop"), [" good", "bad"])
    assert not allows_reply(guided, Text(reply.replace("good", "goo"), "stop"), [" good", "bad"])


@pytest.mark.parametrize("guided", GUIDED)
def test_a_server_that_ignores_guided_ends_the_run(make, server, guided):
    allowed, forbidden, options = GUIDED[guided]
    kernel = make("text", guided=guided, **options)
    replies = iter([allowed, f"<think>{forbidden}</think>{allowed}", forbidden])
    server.always = wrong.answering(lambda _: next(replies))
    first, after_reasoning, refused = (kernel.batch([prompt], LABELS)[0] for prompt in PROMPTS[:3])
    assert first == allowed
    assert after_reasoning.endswith(allowed)
    assert isinstance(refused, RunEndingError)
    assert f"the server ignores guided='{guided}'" in str(refused)
    assert forbidden in str(refused)


@pytest.mark.parametrize("guided", GUIDED)
def test_a_guided_reply_that_is_cut_is_no_fault_of_the_server(make, server, guided):
    _, forbidden, options = GUIDED[guided]
    server.always = wrong.answering(lambda _: forbidden, reason="length")
    assert make("text", guided=guided, **options).batch(PROMPTS[:1], LABELS) == [forbidden]


def test_an_unlisted_label_is_no_match_by_default(make):
    with pytest.raises(NoMatch, match="'zebra' not among the 14 most probable next tokens"):
        make("top-logprobs", unlisted="refuse")(PROMPTS[0], ["positive", "zebra"])
    row = make("top-logprobs", unlisted="bound")(PROMPTS[0], ["positive", "zebra"])
    bound = min(0.1, math.exp(min(wrong.best(PROMPTS[0], 20).values())))
    assert row == pytest.approx(normalised([mass(PROMPTS[0], "positive"), bound]))


# -- faults that pass -----------------------------------------------------------------------------------------------

PASSING = {
    "429": (wrong.status(429), "status 429: 'failed on request'"),
    "429 with Retry-After": (wrong.status(429, [("retry-after", "0.2")]), "status 429"),
    "500": (wrong.status(500), "status 500"),
    "502 in HTML": (wrong.status(502, body=b"<html><body>Bad", kind="text/html"), "status 502: '<html><body>Bad"),
    "dropped": (wrong.drop, "the connection failed"),
    "dropped in the body": (wrong.drop_in_body, "the connection failed"),
    "HTML": (wrong.status(200, body=b"<!DOCTYPE html>", kind="text/html"), "text/html, .*is the address"),
    "no JSON object": (wrong.status(200, body=b"[1, 2]"), "no object"),
    "nested deep": (wrong.status(200, body=b"[" * 100_000), "not JSON"),
    "an error with status 200": (wrong.status(200, body={"error": {"message": "overloaded"}}), "error .*overloaded"),
}


@pytest.mark.parametrize("name", PASSING)
def test_a_fault_that_passes_changes_nothing_and_one_that_stays_is_an_error(make, server, name):
    fault, said = PASSING[name]
    truth = make("prompt-logprobs").batch(PROMPTS[:2], LABELS)
    server.wrong = [fault, None, fault, fault]
    kernel = make("prompt-logprobs", retries=2)
    assert kernel.batch(PROMPTS[:2], LABELS) == truth
    assert kernel.usage.retries == 3
    server.always = fault
    server.requests.clear()
    with pytest.raises(EndpointError, match=said) as caught:
        kernel(PROMPTS[0], LABELS[:1])
    message = str(caught.value)
    assert message.startswith(server.url + ": ")
    assert message.endswith("(3 requests)")
    assert len(server.requests) == 3
    assert len(message) < 500
    assert caught.value.__cause__ is None
    assert caught.value.__context__ is None  # nothing of the client's, and so no header, clings to it


def test_waits_double_and_do_not_depend_on_chance(make, server):
    server.always = wrong.status(500)
    kernel = make(retries=4, backoff=0.05)
    gaps = []
    for _ in range(2):
        server.times.clear()
        with pytest.raises(EndpointError):
            kernel(PROMPTS[0], LABELS)
        gaps.append([later - earlier for earlier, later in zip(server.times, server.times[1:], strict=False)])
    for number, (first, second) in enumerate(zip(*gaps, strict=True)):
        assert 0.025 * 2**number <= first <= 0.05 * 2**number + 0.1
        assert abs(first - second) < 0.1


@pytest.mark.parametrize("form", ["seconds", "date"])
def test_a_server_that_asks_for_too_long_is_not_waited_for(make, server, form):
    asked = "3600" if form == "seconds" else email.utils.formatdate(time.time() + 3600, usegmt=True)
    server.always = wrong.status(429, [("retry-after", asked)])
    start = time.monotonic()
    with pytest.raises(
        EndpointError, match=r"asks to wait 3(600|599) s, more than longest_wait \(120 s\); run again later"
    ):
        make()(PROMPTS[0], LABELS)
    assert time.monotonic() - start < 2
    assert len(server.requests) == 1


@pytest.mark.parametrize(
    ("headers", "seconds"),
    [
        ({}, None),
        ({"retry-after": " 1.5 "}, 1.5),
        ({"retry-after": "-3"}, 0.0),
        ({"retry-after": "soon"}, None),
        ({"retry-after": "nan"}, None),
        ({"retry-after-ms": "250", "retry-after": "9"}, 0.25),
        ({"retry-after-ms": "x", "retry-after": "9"}, 9.0),
        ({"retry-after": "Thu, 01 Jan 1970 00:02:00 GMT"}, 20.0),
        ({"retry-after": "Thu, 01 Jan 1970 00:01:00 GMT"}, 0.0),
        ({"retry-after": "Thu, 01 Jan 1970 00:02:00 GMT", "date": "Thu, 01 Jan 1970 00:01:59 GMT"}, 1.0),
        ({"retry-after": "Thu, 01 Jan 1970 00:02:00 GMT", "date": "never"}, 20.0),
        ({"retry-after": "Thu, 99 Jan 1970 00:02:00 GMT"}, None),
    ],
)
def test_retry_after(headers, seconds):
    assert retry_after(headers, 100.0) == seconds


# -- slowness -------------------------------------------------------------------------------------------------------


def test_a_huge_answer_is_cut_off(make, server):
    server.always = wrong.drip(200, 30, b" " * 2**20, 0)
    with pytest.raises(EndpointError, match="longer than 64 MiB"):
        make(timeout=30)(PROMPTS[0], LABELS)
    server.always = wrong.drip(500, 30, b"x" * 2**20, 0)
    start = time.monotonic()
    with pytest.raises(EndpointError, match="status 500"):
        make(timeout=30, retries=0)(PROMPTS[0], LABELS)
    assert time.monotonic() - start < 5


@pytest.mark.parametrize(("status", "said"), [(200, "no whole answer within 0.5 s"), (500, "status 500")])
def test_an_answer_that_never_ends_is_cut_off_at_the_timeout(make, server, status, said):
    server.always = wrong.drip(status, 10)
    start = time.monotonic()
    with pytest.raises(EndpointError, match=said):
        make(timeout=0.5, retries=0)(PROMPTS[0], LABELS)
    assert time.monotonic() - start < 3


@pytest.mark.posix
def test_after_an_interrupt_the_rest_is_never_sent_not_even_in_the_next_run(make, server):
    server.delay = 0.2
    kernel = make(concurrency=2)
    threading.Timer(0.5, os.kill, (os.getpid(), signal.SIGINT)).start()
    with pytest.raises(KeyboardInterrupt):
        kernel.batch(PROMPTS, LABELS)
    assert isinstance(kernel("another prompt: ", LABELS), list)  # clears the fault that stopped the others
    sent = len(server.requests)
    assert sent < len(PROMPTS) - 3
    time.sleep(0.7)
    assert len(server.requests) == sent


# -- faults that stay -----------------------------------------------------------------------------------------------


def test_a_redirect_is_not_followed_to_where_the_key_would_go(make, server):
    other = wrong.Server()
    server.always = wrong.status(308, [("location", other.url + "/completions")])
    with pytest.raises(EndpointError, match="give the address that it really has"):
        make()(PROMPTS[0], LABELS)
    assert other.requests == []
    other.close()


# -- an echo that is wrong -------------------------------------------------------------------------------------------


def shift(answer):
    """What llama-cpp-python does without a start token: each token gets the number that belongs to the next place."""
    choice = answer["choices"][0]
    words = choice["logprobs"]["tokens"]
    if len(words) > 1:
        values = [wrong.log_probability("".join(words[: i + 1]), word) for i, word in enumerate(words)]
        choice["logprobs"]["token_logprobs"] = [None, *values[1:]]


def test_a_shifted_echo_is_found_out_before_the_first_query(make, server):
    server.always = wrong.changed(shift)
    kernel = make("prompt-logprobs", concurrency=1)
    outcomes = kernel.batch(PROMPTS, LABELS)
    for outcome in outcomes:
        assert isinstance(outcome, EndpointError)
        assert "the server's echo cannot be trusted" in str(outcome)
    asked = len(server.requests)
    assert asked <= 10
    with pytest.raises(EndpointError, match="cannot be trusted"):
        kernel(PROMPTS[5], LABELS)
    assert len(server.requests) == asked

"""The endpoint kernel against a server that answers wrongly on purpose: a right result or a clear error, for each."""

from __future__ import annotations

import concurrent.futures
import email.utils
import json
import math
import multiprocessing
import os
import socket
import subprocess
import sys
import threading
import time
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("openai")

import endpoint_server as wrong

from StaICC.errors import ArgumentError, MissingDependencyError, UnknownNameError
from StaICC.kernels.endpoint import (
    EndpointError,
    EndpointKernel,
    EndpointUsage,
    NoMatch,
)
from StaICC.kernels.registry import load_kernel
from StaICC.kernels.transport import retry_after

ROOT = Path(wrong.__file__).parents[3]
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
    kernel = make("prompt-logprobs")
    for prompt, row in zip(PROMPTS, kernel.batch(PROMPTS, LABELS), strict=True):
        oracle = normalised([math.exp(score) for score in wrong.joint(prompt, LABELS)])
        assert row == pytest.approx(oracle, rel=1e-12)
    assert kernel(PROMPTS[3], LABELS) == kernel.batch(PROMPTS, LABELS)[3]
    assert {request["path"] for request in server.requests} == {"/v1/completions"}
    assert all(request["temperature"] == 0 and request["max_tokens"] == 1 for request in server.requests)


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
    assert not any(request["prompt"].endswith(" ") for request in server.requests)
    assert kernel.identity().settings == {**make(scoring).identity().settings, "last_blank": "label"}


@pytest.mark.parametrize("api", ["completions", "chat"])
def test_text_is_the_reply(make, server, api):
    assert make("text", api=api).batch(PROMPTS, LABELS) == [next(iter(wrong.best(p, 1))) for p in PROMPTS]
    assert server.requests[0].get("stop") == (["\n"] if api == "completions" else None)


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
    with pytest.raises(ArgumentError, match="guided: got 'json' with api='completions', expected api='chat'"):
        make("text", guided="json")


def test_an_unlisted_label_is_no_match_by_default(make):
    with pytest.raises(NoMatch, match="'zebra' not among the 14 most probable next tokens"):
        make("top-logprobs", unlisted="refuse")(PROMPTS[0], ["positive", "zebra"])
    row = make("top-logprobs", unlisted="bound")(PROMPTS[0], ["positive", "zebra"])
    bound = min(0.1, math.exp(min(wrong.best(PROMPTS[0], 20).values())))
    assert row == pytest.approx(normalised([mass(PROMPTS[0], "positive"), bound]))


def test_the_limit_holds_over_threads_and_a_closed_kernel_opens_again(make, server, monkeypatch):
    monkeypatch.setenv("OPENAI_API_KEY", f" {KEY}\n")  # spaces around a key do not matter
    server.delay = 0.03
    kernel = make("prompt-logprobs", concurrency=2)
    with concurrent.futures.ThreadPoolExecutor(6) as pool:
        rows = list(pool.map(lambda prompt: kernel(prompt, LABELS), PROMPTS[:6]))
    assert server.most == 2
    assert server.headers[0]["authorization"] == f"Bearer {KEY}"
    kernel.close()
    kernel.close()
    assert rows == kernel.batch(PROMPTS[:6], LABELS)


def test_generate(make, server):
    kernel = make("text")
    assert kernel.generate(PROMPTS, max_new_tokens=3, stop=["\n"]) == [next(iter(wrong.best(p, 1))) for p in PROMPTS]
    assert server.requests[-1]["temperature"] == 0
    assert "seed" not in server.requests[-1]
    kernel.generate(PROMPTS[:1], temperature=0.5, seed=7)
    assert (server.requests[-1]["temperature"], server.requests[-1]["seed"]) == (0.5, 7)
    asked = len(server.requests)
    illegal = [{"temperature": number} for number in (-1, math.nan, True)]
    for arguments in (*illegal, {"max_new_tokens": 0}, {"stop": "x"}, {"stop": [""]}):
        with pytest.raises(ArgumentError):
            kernel.generate(PROMPTS, **arguments)
    assert kernel.batch([], LABELS) == []
    assert len(server.requests) == asked


def test_usage_counts_what_the_server_counts(make, server):
    kernel = make(concurrency=1)
    assert kernel.usage == EndpointUsage(0, 0, 0, 0, 0)
    without_counts = wrong.changed(lambda answer: answer.pop("usage") and None)
    server.wrong = [wrong.status(500), without_counts, wrong.status(400)]
    kernel.batch(PROMPTS, LABELS)
    counted = sum(len(wrong.split(request["prompt"])) for request in server.requests[3:])
    usage = kernel.usage
    assert (usage.requests, usage.retries, usage.uncounted, usage.failed) == (13, 1, 1, 1)
    assert (usage.completion_tokens, usage.requests, kernel.retried) == (10, len(server.requests), 1)
    assert kernel.tokens_used == (usage.prompt_tokens, 10)
    assert usage.prompt_tokens == counted
    kernel.close()
    assert kernel.usage == usage  # closing the connections forgets nothing


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
    "an error with status 200": (
        wrong.status(200, body={"error": {"message": "overloaded"}}),
        "error .*overloaded",
    ),
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
    assert message.endswith("(asked 3 times)")
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


def test_retry_after_is_obeyed_by_all_requests(make, server):
    server.wrong = [wrong.status(429, [("retry-after", "0.5")])]
    kernel = make(concurrency=1)
    kernel.batch(PROMPTS[:2], LABELS)
    assert server.times[1] - server.times[0] >= 0.5
    server.times.clear()
    server.wrong = [wrong.status(503, [("retry-after-ms", "400")])]
    server.delay = 0.1
    make(concurrency=4).batch(PROMPTS, LABELS)
    since = [moment - server.times[0] for moment in server.times]
    assert not [moment for moment in since if 0.2 < moment < 0.5]  # those on their way at 0.1 s were not held
    assert sum(moment >= 0.5 for moment in since) >= 4


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


@pytest.mark.parametrize(
    "fault",
    [wrong.slow(3), wrong.drip(), wrong.drip(500), wrong.drip_headers],
    ids=["slow", "endless body", "endless error body", "endless headers"],
)
def test_a_late_answer_is_given_up_at_the_deadline_and_asked_again(make, server, fault):
    truth = make()(PROMPTS[0], LABELS)
    server.wrong = [fault]
    kernel = make(timeout=0.6)
    start = time.monotonic()
    assert kernel(PROMPTS[0], LABELS) == truth
    assert 0.6 <= time.monotonic() - start < 2.5
    server.wrong = [fault]
    with pytest.raises(EndpointError, match=r"within 0\.6 s"):
        make(timeout=0.6, retries=0)(PROMPTS[0], LABELS)


def test_a_huge_answer_is_cut_off(make, server):
    server.always = wrong.drip(200, 30, b" " * 2**20, 0)
    with pytest.raises(EndpointError, match="longer than 64 MiB"):
        make(timeout=30)(PROMPTS[0], LABELS)
    server.always = wrong.drip(500, 30, b"x" * 2**20, 0)
    start = time.monotonic()
    with pytest.raises(EndpointError, match="status 500"):
        make(timeout=30, retries=0)(PROMPTS[0], LABELS)
    assert time.monotonic() - start < 5


def test_nobody_listens(make):
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        address = f"http://127.0.0.1:{free.getsockname()[1]}/v1"
    kernel = EndpointKernel(address, "m", retries=1, backoff=0.01)
    with pytest.raises(EndpointError, match=r"is the server running at this address\? \(asked 2"):
        kernel(PROMPTS[0], LABELS)
    kernel.close()


# -- faults that stay -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("fault", "said", "fatal"),
    [
        (wrong.status(401), "wants a valid key from OPENAI_API_KEY; check it", True),
        (wrong.status(307, [("location", "http://127.0.0.1:1/v1?a=b")]), "redirects to 'http://127.0.0.1:1/v1';", True),
        (wrong.status(429, body={"error": {"message": "pay", "code": "insufficient_quota"}}), "quota is used up", True),
        (wrong.changed(lambda a: a.update(model="other")), "'words' was asked, but 'other' answered", True),
        (wrong.changed(lambda a: a.update(model="words-large")), "'words-large' answered.*served_model=", True),
        (wrong.status(400, body={"error": {"message": "too long"}}), "status 400: 'too long'", False),
        (wrong.status(422, body={"detail": "top_logprobs > 5"}), "status 422: 'top_logprobs > 5'", False),
        (wrong.status(418, body=b"", kind="text/plain"), r"\(status 418\)", False),
    ],
)
def test_a_fault_that_will_not_pass_is_not_asked_again(make, server, fault, said, fatal):
    server.always = fault
    kernel = make(concurrency=1)
    outcomes = kernel.batch(PROMPTS, LABELS)
    assert all(isinstance(outcome, EndpointError) for outcome in outcomes)
    with pytest.raises(EndpointError, match=said):
        raise outcomes[0]
    assert len(server.requests) == (1 if fatal else 12)
    assert kernel.usage.retries == 0


def test_a_redirect_is_not_followed_to_where_the_key_would_go(make, server):
    other = wrong.Server()
    server.always = wrong.status(308, [("location", other.url + "/completions")])
    with pytest.raises(EndpointError, match="give the address that it really has"):
        make()(PROMPTS[0], LABELS)
    assert other.requests == []
    other.close()


def test_one_query_that_fails_leaves_the_others(make, server):
    truth = make(concurrency=1).batch(PROMPTS, LABELS)
    server.wrong = [None, None, wrong.status(400), None, wrong.changed(lambda a: a.update(choices=[]))]
    outcomes = make(concurrency=1).batch(PROMPTS, LABELS)
    assert [number for number, outcome in enumerate(outcomes) if isinstance(outcome, EndpointError)] == [2, 4]
    assert [outcome for number, outcome in enumerate(outcomes) if number not in (2, 4)] == [
        row for number, row in enumerate(truth) if number not in (2, 4)
    ]


def test_another_name_can_be_accepted(make, server):
    server.always = wrong.changed(lambda a: a.update(model="/models/words.gguf"))
    assert make(served_model="/models/words.gguf")(PROMPTS[0], LABELS)


def test_scores_that_always_tie_are_no_scores(make, server):
    """A server that scores all labels alike, though its numbers vary, is found out in a batch."""

    def tie(answer):
        top = answer["choices"][0]["logprobs"]["top_logprobs"][0]
        for word in ("pos", " pos", " negative", " positive"):
            top.pop(word)
        top.update(negative=-2.5, positive=-2.5)

    server.always = wrong.changed(tie)
    outcomes = make().batch(PROMPTS, LABELS)
    assert all(isinstance(outcome, EndpointError) for outcome in outcomes)
    assert "exactly the same score for all labels in each of 12 queries" in str(outcomes[0])
    assert make()(PROMPTS[0], LABELS) == [0.5, 0.5]  # once, it may be a tie


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


def test_the_echo_is_checked_once(make, server):
    kernel = make("prompt-logprobs")
    kernel.batch(PROMPTS, LABELS)
    checks = len(server.requests) - 2 * 12
    assert 4 <= checks <= 10
    kernel.batch(PROMPTS, LABELS)
    assert len(server.requests) == checks + 2 * 12 * 2


def test_a_check_that_tells_nothing_is_given_up(make, server, caplog):
    def mute(answer):
        if len(answer["choices"][0]["logprobs"]["tokens"]) == 1:
            answer["choices"][0]["logprobs"]["tokens"] = []

    server.always = wrong.changed(mute)
    kernel = make("prompt-logprobs", concurrency=1)
    rows = kernel.batch(PROMPTS, LABELS)
    assert all(isinstance(row, list) for row in rows)
    assert sum(not request.get("echo") for request in server.requests) == 5
    assert "could not be compared with generated ones; they are believed" in caplog.text


# -- the key --------------------------------------------------------------------------------------------------------


def test_a_server_of_ones_own_needs_no_key(make, server, monkeypatch):
    monkeypatch.delenv("OPENAI_API_KEY")
    assert make()(PROMPTS[0], LABELS)
    server.always = wrong.status(401)
    with pytest.raises(EndpointError, match="wants a valid key from OPENAI_API_KEY; there is none"):
        make()(PROMPTS[0], LABELS)


# -- settings -------------------------------------------------------------------------------------------------------


def test_one_server_has_one_address():
    for url in ("HTTP://Host:80/v1/", "http://host/v1", " http://host/v1// "):
        assert EndpointKernel(url, "m").base_url == "http://host/v1"
    assert EndpointKernel("https://[::1]:8443", "m").base_url == "https://[::1]:8443"


URLS = ["", "host/v1", "ftp://host/v1", "http://", None, 3, "http://host:secret/v1", "http://secret@host/v1"]
ILLEGAL: dict[str, list[Any]] = {
    "base_url": [*URLS, "http://u:secret@host", "http://host?key=secret", "http://host#secret"],
    "model": ["", None, 3],
    "scoring": ["logprobs"],
    "api": ["responses", "chat"],  # a chat echoes no prompt
    "unlisted": ["zero"],
    "system": ["x"],  # of a chat
    "concurrency": [0, True],
    "retries": [-1],
    "top_n": [1],
    "max_tokens": [0],
    "timeout": [0, math.inf],
    "backoff": ["1"],
    "longest_wait": [math.nan],
    "allow_edition_change": [1],
}


@pytest.mark.parametrize("name", ILLEGAL)
def test_settings_without_meaning_are_refused(name):
    for value in ILLEGAL[name]:
        with pytest.raises((ArgumentError, UnknownNameError), match=name) as caught:
            EndpointKernel(**{"base_url": "http://host/v1", "model": "m", name: value})
        assert "secret" not in str(caught.value)


def test_from_spec():
    kernel = EndpointKernel.from_spec("openai:http://host:8000/v1#org/model:7b")
    assert kernel == EndpointKernel("http://host:8000/v1", "org/model:7b")
    spec = "openai:http://host/v1#m;scoring=top-logprobs;api=chat;top_n=5;timeout=2.5;system=a=b"
    options = {"scoring": "top-logprobs", "api": "chat", "top_n": 5, "timeout": 2.5, "system": "a=b", "concurrency": 2}
    assert EndpointKernel.from_spec(spec, concurrency=2) == EndpointKernel("http://host/v1", "m", **options)
    assert EndpointKernel.from_spec("openai:http://h/v1#m;allow_edition_change=true").allow_edition_change
    for text in ("", "http://host/v1", "http://u:secret@host/v1", "#m", "http://h/v1#"):
        with pytest.raises(ArgumentError, match="is given as openai:BASE_URL#MODEL") as caught:
            EndpointKernel.from_spec(f"openai:{text}")
        assert "secret" not in str(caught.value)


@pytest.mark.parametrize(
    ("prompt", "labels", "error"),
    [
        (["a", "b"], LABELS, "prompt 0 is a list, not a text; noisy-channel prompts"),
        (None, LABELS, "is a NoneType"),
        ("a", [], "label_space"),
        ("a", "yes", "label_space: got 'yes'"),
        ("a", ["yes", 3], "label_space"),
        ("a", ["yes", " "], "not empty"),
    ],
)
def test_what_is_no_query_is_refused_before_anything_is_asked(make, server, prompt, labels, error):
    with pytest.raises(ArgumentError, match=error):
        make()(prompt, labels)
    with pytest.raises(ArgumentError, match="not one text"):
        make().batch("abc", LABELS)
    assert server.requests == []


def test_without_the_package_the_error_says_what_to_install(monkeypatch):
    monkeypatch.setitem(sys.modules, "openai", None)
    kernel = EndpointKernel("http://host/v1", "m")  # making one needs nothing
    with pytest.raises(MissingDependencyError, match=r"pip install .*\[endpoint\]"):
        kernel("a", LABELS)


# -- processes, interrupts ------------------------------------------------------------------------------------------


def ask(arguments):
    kernel, prompt = arguments
    return kernel(prompt, LABELS)


def test_workers_open_their_own_connections(make):
    kernel = make()
    rows = kernel.batch(PROMPTS[:4], LABELS)  # the parent has connections and a thread when the workers start
    context = multiprocessing.get_context("spawn")
    with concurrent.futures.ProcessPoolExecutor(2, mp_context=context) as pool:
        assert list(pool.map(ask, [(kernel, prompt) for prompt in PROMPTS[:4]])) == rows
    assert kernel.batch(PROMPTS[:4], LABELS) == rows


@pytest.mark.posix
@pytest.mark.filterwarnings("ignore:.*fork.*:DeprecationWarning")
def test_a_forked_child_does_not_use_the_parents_connections(make):
    kernel = make()
    row = kernel(PROMPTS[0], LABELS)
    child = os.fork()
    if child == 0:
        status = 1
        try:
            status = 0 if kernel(PROMPTS[0], LABELS) == row else 2
        finally:
            os._exit(status)
    assert os.waitpid(child, 0)[1] == 0
    assert kernel(PROMPTS[1], LABELS)


def test_closing_ends_what_another_thread_still_asks(make, server):
    server.delay = 30.0
    kernel = make(timeout=60.0, concurrency=2)
    found = []

    def ask():
        try:
            kernel.batch(PROMPTS, LABELS)
        except Exception as error:
            found.append(error)

    asking = threading.Thread(target=ask, daemon=True)
    asking.start()
    end = time.monotonic() + 20
    while not server.now and time.monotonic() < end:
        time.sleep(0.02)
    kernel.close()
    asking.join(5)
    server.delay = 0.0
    (error,) = found
    assert isinstance(error, EndpointError)
    assert "closed" in str(error)
    assert make()(PROMPTS[0], LABELS)


def test_dropped_kernels_leave_no_threads(make, server):
    import gc

    before = threading.active_count()
    for _ in range(3):
        EndpointKernel(server.url, wrong.MODEL, scoring="text").batch(PROMPTS[:1], LABELS)
    gc.collect()
    end = time.monotonic() + 5
    while sum(thread.name == "staicc-endpoint" for thread in threading.enumerate()) > 0 and time.monotonic() < end:
        time.sleep(0.02)
    assert sum(thread.name == "staicc-endpoint" for thread in threading.enumerate()) == 0
    assert threading.active_count() <= before + 2


def test_an_interrupt_ends_it_at_once(server):
    code = (
        "import sys\n"
        "from StaICC.kernels.endpoint import EndpointKernel\n"
        f"kernel = EndpointKernel({server.url!r}, 'words', scoring='text')\n"
        "print('ready', flush=True)\n"
        "try:\n"
        "    kernel.batch(['a'] * 100, ['b'])\n"
        "except KeyboardInterrupt:\n"
        "    sys.exit(42)\n"
    )
    server.delay = 3.0
    child = subprocess.Popen(
        [sys.executable, "-c", code], stdout=subprocess.PIPE, text=True, env={**os.environ, "PYTHONPATH": str(ROOT)}
    )
    assert child.stdout.readline() == "ready\n"
    end = time.monotonic() + 20
    while not server.now and time.monotonic() < end:
        time.sleep(0.02)
    start = time.monotonic()
    child.send_signal(2)
    assert child.wait(20) == 42
    assert time.monotonic() - start < 15  # all replies would take 39 s
    child.stdout.close()
    assert len(server.requests) <= 8

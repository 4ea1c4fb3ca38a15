"""The endpoint kernel against a server that answers wrongly on purpose: a right result or a clear error, for each."""

from __future__ import annotations

import email.utils
import itertools
import math
import os
import signal
import threading
import time
from typing import Any, NamedTuple

import pytest

pytest.importorskip("openai")

import endpoint_server

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


def listed_mass(prompt, label):
    """Return the probability of the listed next tokens that begin this label and no other one."""
    other_labels = [other for other in LABELS if other != label]
    total = 0.0
    for word, log_probability in endpoint_server.best(prompt, 20).items():
        beginning = word.lstrip(" ")
        is_unclear = any(other.startswith(beginning) for other in other_labels)
        if label.startswith(beginning) and not is_unclear:
            total += math.exp(log_probability)
    return total


def listed_row(prompt):
    """Return the label probabilities by the listed next tokens."""
    return normalised([listed_mass(prompt, label) for label in LABELS])


def joint_row(prompt, labels):
    """Return the label probabilities by the log-probabilities of all words of the labels."""
    return normalised([math.exp(score) for score in endpoint_server.joint(prompt, labels)])


def normalised(masses):
    """Return numbers as shares of their sum."""
    return [value / math.fsum(masses) for value in masses]


# -- right answers --------------------------------------------------------------------------------------------------


def test_prompt_log_probabilities_are_the_joint_ones(make_kernel):
    rows = make_kernel("prompt-logprobs").batch(PROMPTS, LABELS)
    for prompt, row in zip(PROMPTS, rows, strict=True):
        assert row == pytest.approx(joint_row(prompt, LABELS), rel=1e-12), prompt


def test_one_prompt_has_the_row_that_it_has_in_a_batch(make_kernel):
    kernel = make_kernel("prompt-logprobs")
    assert kernel(PROMPTS[3], LABELS) == kernel.batch(PROMPTS, LABELS)[3]


def test_prompt_log_probabilities_need_a_request_for_each_label_and_five_for_the_echo(make_kernel, server):
    make_kernel("prompt-logprobs").batch(PROMPTS, LABELS)

    assert len(server.requests) == 12 * 2 + 5
    for request in server.requests:
        assert request["path"] == "/v1/completions"
        assert request["temperature"] == 0
        assert request["max_tokens"] == 1


def test_prompt_log_probabilities_need_no_finish_reason(make_kernel, server):
    server.usual_answer = endpoint_server.changed_body(lambda answer: answer["choices"][0].update(finish_reason=None))
    row = make_kernel("prompt-logprobs")(PROMPTS[0], LABELS)
    assert row == pytest.approx(joint_row(PROMPTS[0], LABELS), rel=1e-12)


@pytest.mark.parametrize("prompt", ["say x: ", "say x:", "say very", "say a very "])
def test_labels_of_several_words_with_a_common_beginning_are_scored(make_kernel, prompt):
    labels = ["very good", "very bad", "good", "a.b"]
    row = make_kernel("prompt-logprobs")(prompt, labels)
    assert row == pytest.approx(joint_row(prompt, labels), rel=1e-12)


@pytest.mark.parametrize("api", ["completions", "chat"])
def test_top_log_probabilities_are_the_listed_ones(make_kernel, api):
    rows = make_kernel("top-logprobs", api=api).batch(PROMPTS, LABELS)
    for prompt, row in zip(PROMPTS, rows, strict=True):
        assert row == pytest.approx(listed_row(prompt), rel=1e-12), prompt


def test_completions_are_asked_for_twenty_next_tokens(make_kernel, server):
    make_kernel("top-logprobs", api="completions")(PROMPTS[0], LABELS)
    request = server.requests[0]
    assert request["path"] == "/v1/completions"
    assert request["logprobs"] == 20


def test_chats_are_asked_for_twenty_next_tokens(make_kernel, server):
    make_kernel("top-logprobs", api="chat")(PROMPTS[0], LABELS)
    request = server.requests[0]
    assert request["path"] == "/v1/chat/completions"
    assert request["logprobs"] is True
    assert request["top_logprobs"] == 20


def test_the_last_blank_may_belong_to_the_label_of_prompt_log_probabilities(make_kernel):
    rows = make_kernel("prompt-logprobs", last_blank="label").batch(PROMPTS, LABELS)
    for prompt, row in zip(PROMPTS, rows, strict=True):
        expected = joint_row(prompt.rstrip(" "), [" negative", " positive"])
        assert row == pytest.approx(expected, rel=1e-12), prompt


def test_the_last_blank_may_belong_to_the_label_of_top_log_probabilities(make_kernel):
    rows = make_kernel("top-logprobs", last_blank="label").batch(PROMPTS, LABELS)
    for prompt, row in zip(PROMPTS, rows, strict=True):
        assert row == pytest.approx(listed_row(prompt.rstrip(" ")), rel=1e-12), prompt


@pytest.mark.parametrize("scoring", ["prompt-logprobs", "top-logprobs"])
def test_a_last_blank_that_belongs_to_the_label_is_not_sent(make_kernel, server, scoring):
    make_kernel(scoring, last_blank="label").batch(PROMPTS, LABELS)
    for request in server.requests:
        assert not request["prompt"].endswith(" "), request


@pytest.mark.parametrize("scoring", ["prompt-logprobs", "top-logprobs"])
def test_the_place_of_the_last_blank_is_in_the_identity(make_kernel, scoring):
    default = make_kernel(scoring).identity().settings
    assert make_kernel(scoring, last_blank="label").identity().settings == {**default, "last_blank": "label"}


FIELDS: dict[str, tuple[str, Any]] = {
    "max_tokens": ("7", 7),
    "max_completion_tokens": ("8", 8),
    "temperature": ("0.5", 0.5),
    "top_p": ("0.25", 0.25),
    "reasoning_effort": ("low", "low"),
    "stop": ('["a", "b"]', ["a", "b"]),
}
"""For each setting of a reply that is a field of requests: how it is written in a name of a model, and its value."""


def reply_request(server, setting=""):
    """Return the request and the identity of a kernel that has one reply written, with a setting."""
    server.usual_answer = endpoint_server.reply_with(lambda body: "positive")
    kernel = load_kernel(f"openai:{server.url}#words;scoring=text;api=chat{setting}", **QUICK)
    assert kernel.batch(PROMPTS[:1], LABELS) == ["positive"]
    kernel.close()
    return server.requests[-1], kernel.identity()


@pytest.mark.parametrize("name", FIELDS)
def test_a_setting_of_a_reply_is_sent(server, name):
    written, value = FIELDS[name]
    request, _ = reply_request(server, f";{name}={written}")
    assert request[name] == value


@pytest.mark.parametrize("name", FIELDS)
def test_a_setting_of_a_reply_is_in_the_identity(server, name):
    written, _ = FIELDS[name]
    _, identity = reply_request(server, f";{name}={written}")
    assert written in identity.settings[name]


@pytest.mark.parametrize("name", FIELDS)
def test_a_setting_of_a_reply_can_be_left_out(server, name):
    request, identity = reply_request(server, f";{name}=none")
    assert name not in request
    assert name not in identity.settings


def test_one_of_the_two_limits_of_tokens_is_sent(server):
    request, _ = reply_request(server, ";max_completion_tokens=8")
    assert "max_tokens" not in request


def test_a_system_text_is_the_first_message_and_in_the_identity(server):
    request, identity = reply_request(server, ";system=Say it.")
    assert request["messages"] == [
        {"role": "system", "content": "Say it."},
        {"role": "user", "content": PROMPTS[0]},
    ]
    assert identity.settings["system"] == '"Say it."'


def test_without_a_system_text_the_prompt_is_the_only_message(server):
    request, identity = reply_request(server)
    assert request["messages"] == [{"role": "user", "content": PROMPTS[0]}]
    assert "system" not in identity.settings


def test_guided_choice_sends_the_labels(make_kernel, server):
    make_kernel("text", guided="choice").batch(PROMPTS[:1], LABELS)
    assert server.requests[0]["structured_outputs"] == {"choice": LABELS}


def test_guided_json_sends_a_schema_with_the_labels(make_kernel, server):
    make_kernel("text", api="chat", guided="json").batch(PROMPTS[:1], LABELS)
    schema = server.requests[0]["response_format"]["json_schema"]["schema"]
    assert schema["properties"]["label"]["enum"] == LABELS


class GuidedReplies(NamedTuple):
    """A reply that a value of ``guided`` allows, one that it does not, and the other options that it needs."""

    allowed: str
    forbidden: str
    options: dict[str, str]


GUIDED = {
    "choice": GuidedReplies("positive", "It is positive.", {}),
    "json": GuidedReplies('{"label": "positive"}', '{"label": "fine"}', {"api": "chat"}),
}
"""For each value of ``guided``: a reply that it allows, one that it does not, and the options that it needs."""


@pytest.mark.parametrize(("guided", "reply"), [("choice", "good"), ("json", '{"label": "good"}')])
def test_a_guided_reply_may_lack_the_white_space_at_the_ends_of_a_label(guided, reply):
    assert allows_reply(guided, Text(reply, "stop"), [" good", "bad"])


@pytest.mark.parametrize(("guided", "reply"), [("choice", "goo"), ("json", '{"label": "goo"}')])
def test_a_guided_reply_that_is_a_part_of_a_label_is_not_allowed(guided, reply):
    assert not allows_reply(guided, Text(reply, "stop"), [" good", "bad"])


@pytest.mark.parametrize("guided", GUIDED)
def test_a_server_that_ignores_guided_ends_the_run(make_kernel, server, guided):
    replies = GUIDED[guided]
    server.usual_answer = endpoint_server.reply_with(lambda _: replies.forbidden)

    (outcome,) = make_kernel("text", guided=guided, **replies.options).batch(PROMPTS[:1], LABELS)

    assert isinstance(outcome, RunEndingError)
    assert f"the server ignores guided='{guided}'" in str(outcome)
    assert replies.forbidden in str(outcome)


@pytest.mark.parametrize("guided", GUIDED)
def test_a_guided_reply_is_read_after_the_reasoning(make_kernel, server, guided):
    replies = GUIDED[guided]
    with_reasoning = f"<think>{replies.forbidden}</think>{replies.allowed}"
    server.usual_answer = endpoint_server.reply_with(lambda _: with_reasoning)

    outcomes = make_kernel("text", guided=guided, **replies.options).batch(PROMPTS[:1], LABELS)

    assert outcomes == [with_reasoning]


@pytest.mark.parametrize("guided", GUIDED)
def test_a_guided_reply_that_is_cut_is_no_fault_of_the_server(make_kernel, server, guided):
    replies = GUIDED[guided]
    server.usual_answer = endpoint_server.reply_with(lambda _: replies.forbidden, reason="length")

    outcomes = make_kernel("text", guided=guided, **replies.options).batch(PROMPTS[:1], LABELS)

    assert outcomes == [replies.forbidden]


def test_a_query_with_an_unlisted_label_may_be_refused(make_kernel):
    with pytest.raises(NoMatch, match="'zebra' not among the 14 most probable next tokens"):
        make_kernel("top-logprobs", unlisted="refuse")(PROMPTS[0], ["positive", "zebra"])


def test_an_unlisted_label_may_get_the_most_that_it_can_have(make_kernel):
    """What the list leaves over is 0.1, and an unlisted token has at most the probability of the last listed one."""
    row = make_kernel("top-logprobs", unlisted="bound")(PROMPTS[0], ["positive", "zebra"])
    last_listed = math.exp(min(endpoint_server.best(PROMPTS[0], 20).values()))
    assert row == pytest.approx(normalised([listed_mass(PROMPTS[0], "positive"), min(0.1, last_listed)]))


# -- faults that pass -----------------------------------------------------------------------------------------------

UNFINISHED = {
    "429": (endpoint_server.status(429), "status 429: 'failed on request'"),
    "429 with Retry-After": (endpoint_server.status(429, [("retry-after", "0.2")]), "status 429"),
    "500": (endpoint_server.status(500), "status 500"),
    "502 in HTML": (
        endpoint_server.status(502, body=b"<html><body>Bad", kind="text/html"),
        "status 502: '<html><body>Bad",
    ),
    "dropped": (endpoint_server.no_answer, "the connection failed"),
    "dropped in the body": (endpoint_server.half_a_body, "the connection failed"),
    "HTML": (endpoint_server.status(200, body=b"<!DOCTYPE html>", kind="text/html"), "text/html, .*is the address"),
    "no JSON object": (endpoint_server.status(200, body=b"[1, 2]"), "no object"),
    "nested deep": (endpoint_server.status(200, body=b"[" * 100_000), "not JSON"),
    "an error with status 200": (
        endpoint_server.status(200, body={"error": {"message": "overloaded"}}),
        "error .*overloaded",
    ),
}


@pytest.mark.parametrize("name", UNFINISHED)
def test_a_fault_that_passes_changes_no_prediction(make_kernel, server, name):
    fault, _ = UNFINISHED[name]
    expected = make_kernel("prompt-logprobs").batch(PROMPTS[:2], LABELS)

    server.next_answers = [fault, None, fault, fault]  # the first request, and the second one twice
    kernel = make_kernel("prompt-logprobs", retries=2, concurrency=1)

    assert kernel.batch(PROMPTS[:2], LABELS) == expected
    assert kernel.usage.retries == 3


@pytest.mark.parametrize("name", UNFINISHED)
def test_a_fault_that_stays_is_an_error_after_all_retries(make_kernel, server, name):
    server.usual_answer, message = UNFINISHED[name]
    with pytest.raises(EndpointError, match=rf"^{server.url}: (.|\n)*{message}(.|\n)*\(3 requests\)$") as caught:
        make_kernel("prompt-logprobs", retries=2)(PROMPTS[0], LABELS[:1])
    assert len(server.requests) == 3
    assert len(str(caught.value)) < 500


@pytest.mark.parametrize("name", UNFINISHED)
def test_an_error_has_no_exception_of_the_client_with_its_headers(make_kernel, server, name):
    server.usual_answer, _ = UNFINISHED[name]
    with pytest.raises(EndpointError) as caught:
        make_kernel("prompt-logprobs", retries=0)(PROMPTS[0], LABELS[:1])
    assert caught.value.__cause__ is None
    assert caught.value.__context__ is None


def test_waits_before_retries_double(make_kernel, server, waits):
    """A jitter shortens each of them by up to a half."""
    server.usual_answer = endpoint_server.status(500)
    with pytest.raises(EndpointError):
        make_kernel(retries=4, backoff=0.05)(PROMPTS[0], LABELS)

    first, second, third, fourth = waits
    assert 0.025 <= first <= 0.05
    assert 0.05 <= second <= 0.1
    assert 0.1 <= third <= 0.2
    assert 0.2 <= fourth <= 0.4


def test_waits_before_retries_do_not_depend_on_chance(make_kernel, server, waits):
    server.usual_answer = endpoint_server.status(500)
    for _ in range(2):
        with pytest.raises(EndpointError):
            make_kernel(retries=4, backoff=0.05)(PROMPTS[0], LABELS)
    assert waits[:4] == waits[4:]


@pytest.mark.parametrize(
    ("in_an_hour", "seconds"),
    [
        (lambda: "3600", "3600"),
        # A date has whole seconds, and time passes until it is read.
        (lambda: email.utils.formatdate(time.time() + 3600, usegmt=True), r"3[56]\d\d"),
    ],
    ids=["seconds", "date"],
)
def test_a_server_that_asks_for_too_long_is_not_waited_for(make_kernel, server, waits, in_an_hour, seconds):
    server.usual_answer = endpoint_server.status(429, [("retry-after", in_an_hour())])
    too_long = rf"asks to wait {seconds} s, more than longest_wait \(120 s\); run again later"
    with pytest.raises(EndpointError, match=too_long):
        make_kernel()(PROMPTS[0], LABELS)
    assert waits == []
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


def test_a_huge_answer_is_cut_off(make_kernel, server):
    server.usual_answer = endpoint_server.endless_body(200, seconds=300, part=b" " * 2**20, pause=0)
    with pytest.raises(EndpointError, match="longer than 64 MiB"):
        make_kernel(timeout=300)(PROMPTS[0], LABELS)


def test_a_huge_error_is_cut_off(make_kernel, server):
    """The error would last five minutes, and the client would wait for it as long."""
    server.usual_answer = endpoint_server.endless_body(500, seconds=300, part=b"x" * 2**20, pause=0)
    with pytest.raises(EndpointError, match="status 500"):
        make_kernel(timeout=300, retries=0)(PROMPTS[0], LABELS)


@pytest.mark.parametrize(("status", "message"), [(200, "no whole answer within 0.5 s"), (500, "status 500")])
def test_an_answer_that_never_ends_is_cut_off_at_the_timeout(make_kernel, server, status, message):
    """The answer would last five minutes, with a byte every twentieth of a second."""
    server.usual_answer = endpoint_server.endless_body(status, seconds=300)
    with pytest.raises(EndpointError, match=message):
        make_kernel(timeout=0.5, retries=0)(PROMPTS[0], LABELS)


@pytest.fixture
def interrupt_at_third_request(server):
    """Let the server interrupt this process at its third request; further answers come after the interrupt."""
    was_interrupted = threading.Event()
    request_numbers = itertools.count(1)  # the length of server.requests may grow by two between two looks

    def on_signal(number, frame):
        was_interrupted.set()
        raise KeyboardInterrupt

    def answer_after_interrupt(handler, right_answer):
        request_number = next(request_numbers)
        if request_number == 3:
            os.kill(os.getpid(), signal.SIGINT)
        if request_number >= 3:
            was_interrupted.wait(60)
            time.sleep(0.05)
        endpoint_server.send(handler, right_answer)

    server.usual_answer = answer_after_interrupt
    handler_before = signal.signal(signal.SIGINT, on_signal)
    yield
    signal.signal(signal.SIGINT, handler_before)


@pytest.mark.posix
@pytest.mark.usefixtures("interrupt_at_third_request")
def test_after_an_interrupt_the_rest_is_never_sent_not_even_in_the_next_run(make_kernel, server):
    kernel = make_kernel(concurrency=2)
    with pytest.raises(KeyboardInterrupt):
        kernel.batch(PROMPTS, LABELS)

    another_prompt = "another prompt: "
    assert isinstance(kernel(another_prompt, LABELS), list)

    sent = [request["prompt"] for request in server.requests]
    assert sent[-1] == another_prompt
    assert len(sent) < len(PROMPTS)


# -- faults that stay -----------------------------------------------------------------------------------------------


def test_a_redirect_is_not_followed_to_where_the_key_would_go(make_kernel, server):
    other = endpoint_server.Server()
    server.usual_answer = endpoint_server.status(308, [("location", other.url + "/completions")])
    with pytest.raises(EndpointError, match="give the address that it really has"):
        make_kernel()(PROMPTS[0], LABELS)
    assert other.requests == []
    other.close()


# -- an echo that is wrong -------------------------------------------------------------------------------------------


def shift_values(answer):
    """Give each token the log-probability of the next place, as llama-cpp-python does without a start token."""
    logprobs = answer["choices"][0]["logprobs"]
    words = logprobs["tokens"]
    if len(words) > 1:
        shifted = [
            endpoint_server.log_probability("".join(words[: index + 1]), word) for index, word in enumerate(words)
        ]
        logprobs["token_logprobs"] = [None, *shifted[1:]]


def test_a_shifted_echo_is_an_error_of_every_query(make_kernel, server):
    server.usual_answer = endpoint_server.changed_body(shift_values)
    for outcome in make_kernel("prompt-logprobs", concurrency=1).batch(PROMPTS, LABELS):
        assert isinstance(outcome, EndpointError)
        assert "the server's echo cannot be trusted" in str(outcome)


def test_after_a_shifted_echo_nothing_more_is_sent(make_kernel, server):
    server.usual_answer = endpoint_server.changed_body(shift_values)
    kernel = make_kernel("prompt-logprobs", concurrency=1)
    kernel.batch(PROMPTS, LABELS)
    sent = len(server.requests)
    assert sent <= 10, "the check of the echo has two tries of five requests"

    with pytest.raises(EndpointError, match="cannot be trusted"):
        kernel(PROMPTS[5], LABELS)
    assert len(server.requests) == sent

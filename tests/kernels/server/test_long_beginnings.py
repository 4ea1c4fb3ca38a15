"""Requests that wait for the first one with their long beginning."""

from __future__ import annotations

import threading
from collections.abc import Callable

import pytest

from StaICC.kernels.server.long_beginnings import FirstRequests

CONTEXT = "".join(f"line {number}\n" for number in range(3000))


def started(work: Callable[[], None]) -> threading.Thread:
    thread = threading.Thread(target=work, daemon=True)
    thread.start()
    return thread


def sent_while_the_first_is_in_flight(first_text: str, text: str) -> bool:
    """Return whether a request is sent before the first one was answered; it must be sent afterwards."""
    requests = FirstRequests()
    first_is_sent, first_may_end, other_is_sent = threading.Event(), threading.Event(), threading.Event()

    def first() -> None:
        with requests.turn(first_text):
            first_is_sent.set()
            first_may_end.wait(10)

    def other() -> None:
        with requests.turn(text):
            other_is_sent.set()

    started(first)
    assert first_is_sent.wait(10)
    started(other)
    sent_before = other_is_sent.wait(0.1)
    first_may_end.set()
    assert other_is_sent.wait(10)
    return sent_before


def test_requests_with_the_same_long_beginning_wait() -> None:
    assert not sent_while_the_first_is_in_flight(CONTEXT + "first", CONTEXT + "second")


@pytest.mark.parametrize(
    ("first_text", "text"),
    [("short", "short"), (CONTEXT, "another" + CONTEXT), (CONTEXT, CONTEXT[:2000])],
    ids=["short prompts", "another beginning", "a shared beginning too short to be cached"],
)
def test_all_others_are_sent_at_once(first_text: str, text: str) -> None:
    assert sent_while_the_first_is_in_flight(first_text, text)


def test_a_first_request_that_fails_keeps_no_other_waiting() -> None:
    requests = FirstRequests()

    def fail() -> None:
        with requests.turn(CONTEXT):
            raise OSError("the connection failed")

    with pytest.raises(OSError, match="the connection failed"):
        fail()
    sent = threading.Event()

    def other() -> None:
        with requests.turn(CONTEXT + "other"):
            sent.set()

    started(other)
    assert sent.wait(10)

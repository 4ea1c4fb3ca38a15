"""A run gives the queries of a served model to threads, each in a call of its own: none waits for another one."""

from __future__ import annotations

import os
import signal
import time

import pytest

pytest.importorskip("openai")

import endpoint_server as wrong

from StaICC.benchmarks.context import RunContext
from StaICC.errors import OutputError
from StaICC.inference.contract import first_batch, queries_at_once
from StaICC.inference.runner import predict_queries
from StaICC.inference.store import PredictionStore
from StaICC.kernels.server.endpoint import EndpointKernel
from StaICC.kernels.text_inference import text_inference
from StaICC.prompting.prompt_writer import Query

LABELS = ("negative", "positive")
SLOW = "query 5 "
"""The prompt whose response takes long."""


@pytest.fixture
def server(monkeypatch):
    monkeypatch.setenv("OPENAI_API_KEY", "sk-test-0123456789abcdef")
    monkeypatch.setenv("NO_PROXY", "127.0.0.1")
    running = wrong.Server()
    running.always = wrong.answering(lambda body: "positive")
    yield running
    running.close()


def slow_at(prompt, is_over):
    """Answer one prompt when a condition holds (or after some seconds), all others at once."""

    def answer(handler, right):
        end = time.monotonic() + 20
        while handler.body["prompt"].startswith(prompt) and not is_over() and time.monotonic() < end:
            time.sleep(0.05)
        wrong.answering(lambda body: "positive")(handler, right)

    return answer


def queries(number):
    return [Query(f"query {place} of the list: ", LABELS, 0, place, 0) for place in range(number)]


def predict(kernel, number, store, **settings):
    with RunContext(False, store=store, progress=settings.pop("progress", False), **settings) as context:
        context.start([kernel])
        return predict_queries(kernel, queries(number), "Test", context.options_for(kernel))


def stored_in(path):
    with PredictionStore(path, read_only=True) as store:
        return store.info().answers


def test_replies_are_stored_while_a_slow_one_is_awaited(server, tmp_path):
    seen = []

    def all_others_are_stored():
        seen.append(stored_in(tmp_path / "s"))
        return seen[-1] == 39

    server.always = slow_at(SLOW, all_others_are_stored)
    kernel = EndpointKernel(server.url, wrong.MODEL, scoring="text", concurrency=2)
    predict(kernel, 40, tmp_path / "s")
    kernel.close()
    assert seen[-1] == 39
    assert len(server.requests) == 40 + 1  # one asks for the edition


def test_a_query_that_waits_for_a_retry_keeps_no_other_one_waiting(server, tmp_path):
    answer = wrong.answering(lambda body: "positive")
    server.wrong = [answer, answer, wrong.status(500)]  # for the edition, the first query, the second one
    kernel = EndpointKernel(server.url, wrong.MODEL, scoring="text", concurrency=1, backoff=2.0)
    predict(kernel, 10, tmp_path / "s")
    kernel.close()
    asked = [request["prompt"] for request in server.requests]
    assert len(asked) == 1 + 10 + 1
    assert asked[-1] == asked[2]  # all others were answered before it was asked again


@pytest.mark.posix
def test_after_ctrl_c_replies_in_flight_are_stored_and_nothing_more_is_requested(server, tmp_path):
    server.delay = 0.4
    kernel = EndpointKernel(server.url, wrong.MODEL, scoring="text", concurrency=4)

    signals = iter([signal.SIGINT])

    def interrupt_at_ten(progress):
        if progress.done == 10:
            for number in signals:
                os.kill(os.getpid(), number)

    with pytest.raises(KeyboardInterrupt):
        predict(kernel, 40, tmp_path / "s", progress=interrupt_at_ten)
    requested = len(server.requests) - 1
    assert 10 <= requested <= 10 + 4 + 4
    time.sleep(1)
    kernel.close()
    assert len(server.requests) - 1 == requested == stored_in(tmp_path / "s")


@pytest.mark.parametrize("on_error", ["raise", "collect"])
def test_predictions_of_a_server_whose_scores_are_all_ties_are_not_stored(on_error, server, tmp_path):
    def tie(answer):
        if answer["choices"][0]["logprobs"] is not None:  # none for the request for the edition
            (listed,) = answer["choices"][0]["logprobs"]["top_logprobs"]
            listed.clear()
            listed.update({"negative": -1.0, "positive": -1.0, "other": -2.0})

    server.always = wrong.changed(tie)
    kernel = EndpointKernel(server.url, wrong.MODEL, scoring="top-logprobs")
    if on_error == "raise":
        with pytest.raises(OutputError, match="exactly the same score"):
            predict(kernel, 30, tmp_path / "s", on_error=on_error)
    else:
        predict(kernel, 30, tmp_path / "s", on_error=on_error)
    kernel.close()
    sent_alone = 1 if on_error == "raise" else 0  # before the eight that are compared
    assert stored_in(tmp_path / "s") == sent_alone


@pytest.mark.parametrize("concurrency", [1, 8])
def test_a_server_that_told_labels_apart_may_have_any_number_of_ties(concurrency, server, tmp_path):
    def tie_but_for_query_three(handler, right):
        def answer(body):
            if body["choices"][0]["logprobs"] is not None:
                (listed,) = body["choices"][0]["logprobs"]["top_logprobs"]
                listed.clear()
                positive = -1.5 if handler.body["prompt"].startswith("query 3 ") else -1.0
                listed.update({"negative": -1.0, "positive": positive, "other": -2.0})

        wrong.changed(answer)(handler, right)

    server.always = tie_but_for_query_three
    kernel = EndpointKernel(server.url, wrong.MODEL, scoring="top-logprobs", concurrency=concurrency)
    rows = predict(kernel, 30, tmp_path / "s")
    kernel.close()
    assert [number for number, row in enumerate(rows) if row[0] != row[1]] == [3]


def test_a_reply_of_a_served_model_is_given_to_threads_as_its_scores_are(server):
    kernel = EndpointKernel(server.url, wrong.MODEL, scoring="top-logprobs", concurrency=3)
    assert queries_at_once(kernel) == queries_at_once(text_inference(kernel)) == 6
    assert first_batch(kernel) == 8
    assert first_batch(text_inference(kernel)) == 1
    assert queries_at_once(len) is None

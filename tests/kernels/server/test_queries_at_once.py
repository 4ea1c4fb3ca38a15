"""A run gives the queries of a served model to threads, each in a call of its own: none waits for another one."""

from __future__ import annotations

import os
import signal
import time

import pytest

pytest.importorskip("openai")

import endpoint_server

from StaICC.benchmarks.context import RunContext
from StaICC.errors import OutputError
from StaICC.inference.contract import first_batch, queries_at_once
from StaICC.inference.runner import predict_queries
from StaICC.inference.store import PredictionStore
from StaICC.kernels.server.endpoint import EndpointKernel
from StaICC.kernels.text_inference import text_inference
from StaICC.prompting.prompt_writer import Query

LABELS = ("negative", "positive")


@pytest.fixture
def server(monkeypatch):
    """A server that replies "positive" to every request."""
    monkeypatch.setenv("OPENAI_API_KEY", "sk-test-0123456789abcdef")
    monkeypatch.setenv("NO_PROXY", "127.0.0.1")
    running = endpoint_server.Server()
    running.usual_answer = endpoint_server.reply_with(lambda body: "positive")
    yield running
    running.close()


def queries(count):
    """Return queries whose prompts begin with "query 0 ", "query 1 ", ..."""
    return [Query(f"query {number} of the list: ", LABELS, 0, number, 0) for number in range(count)]


def predict(kernel, count, store, progress=False, **settings):
    """Return what a kernel predicts for the first ``count`` queries, in a run that saves its predictions in a store.

    Args:
        kernel: The kernel.
        count: The number of queries.
        store: The path of the store.
        progress: The function that is called with the progress, or ``False`` for none.
        **settings: Further settings of the run.
    """
    with RunContext(False, store=store, progress=progress, **settings) as context:
        context.start([kernel])
        return predict_queries(kernel, queries(count), "Test", context.options_for(kernel))


def stored_in(path):
    """Return the number of predictions in a store."""
    with PredictionStore(path, read_only=True) as store:
        return store.info().answers


@pytest.fixture
def kernel_for(server):
    """A function that returns a kernel for the server of the test."""
    kernels = []

    def make(scoring="text", **options):
        kernel = EndpointKernel(server.url, endpoint_server.MODEL, scoring=scoring, **options)
        kernels.append(kernel)
        return kernel

    yield make
    for kernel in kernels:
        kernel.close()


def test_replies_are_stored_while_a_slow_one_is_awaited(kernel_for, server, tmp_path):
    """The server answers query 5 only after the 39 others are stored (or after a minute, for the test to fail)."""
    reply = endpoint_server.reply_with(lambda body: "positive")
    stored_before_query_5 = []

    def answer_query_5_last(handler, right_answer):
        if handler.body["prompt"].startswith("query 5 "):
            end = time.monotonic() + 60
            while stored_in(tmp_path / "s") < 39 and time.monotonic() < end:
                time.sleep(0.05)
            stored_before_query_5.append(stored_in(tmp_path / "s"))
        reply(handler, right_answer)

    server.usual_answer = answer_query_5_last
    predict(kernel_for(concurrency=2), 40, tmp_path / "s")

    assert stored_before_query_5 == [39]


def test_a_query_that_waits_for_a_retry_keeps_no_other_one_waiting(kernel_for, server, tmp_path):
    reply = endpoint_server.reply_with(lambda body: "positive")
    for_edition, for_first_query, for_second_query = reply, reply, endpoint_server.status(500)
    server.next_answers = [for_edition, for_first_query, for_second_query]

    predict(kernel_for(concurrency=1, backoff=2.0), 10, tmp_path / "s")

    prompts = [request["prompt"] for request in server.requests]
    failed_prompt = prompts[2]
    assert len(prompts) == 1 + 10 + 1, "one for the edition, and one retry"
    assert prompts[-1] == failed_prompt, "all others had their replies before it was requested again"


@pytest.fixture
def interrupted_run(kernel_for, server, tmp_path):
    """Interrupt a run of 40 queries when ten are done, and return the kernel; four requests are then in flight."""
    server.delay = 0.4
    kernel = kernel_for(concurrency=4)
    was_interrupted = False

    def interrupt_once(progress):
        nonlocal was_interrupted
        if progress.done >= 10 and not was_interrupted:
            was_interrupted = True
            os.kill(os.getpid(), signal.SIGINT)

    with pytest.raises(KeyboardInterrupt):
        predict(kernel, 40, tmp_path / "s", progress=interrupt_once)
    return kernel


@pytest.mark.posix
def test_after_ctrl_c_replies_in_flight_are_stored(interrupted_run, server, tmp_path):
    requested = len(server.requests) - 1  # one asked for the edition
    assert 10 <= requested < 40
    assert stored_in(tmp_path / "s") == requested


@pytest.mark.posix
def test_after_ctrl_c_nothing_more_is_requested(interrupted_run, server):
    requested = len(server.requests)
    time.sleep(1)
    assert len(server.requests) == requested


def with_listed_tokens(answer, tokens):
    """Put next tokens into an answer, unless it is the one to the request for the edition, which lists none."""
    logprobs = answer["choices"][0]["logprobs"]
    if logprobs is not None:
        logprobs["top_logprobs"] = [tokens]


TIE = {"negative": -1.0, "positive": -1.0, "other": -2.0}


@pytest.fixture
def tying_server(server):
    """Return a server whose labels have the same score for each prompt."""
    server.usual_answer = endpoint_server.changed_body(lambda answer: with_listed_tokens(answer, TIE))
    return server


def test_a_server_whose_scores_are_all_ties_ends_a_run(kernel_for, tying_server, tmp_path):
    with pytest.raises(OutputError, match="exactly the same score"):
        predict(kernel_for("top-logprobs"), 30, tmp_path / "s", on_error="raise")
    sent_alone = 1  # before the eight that are compared
    assert stored_in(tmp_path / "s") == sent_alone


def test_predictions_of_a_server_whose_scores_are_all_ties_are_not_stored(kernel_for, tying_server, tmp_path):
    predict(kernel_for("top-logprobs"), 30, tmp_path / "s", on_error="collect")
    assert stored_in(tmp_path / "s") == 0


@pytest.mark.parametrize("concurrency", [1, 8])
def test_a_server_that_told_labels_apart_once_may_have_any_number_of_ties(kernel_for, concurrency, server, tmp_path):
    def answer_query_3_without_tie(handler, right_answer):
        tokens = dict(TIE)
        if handler.body["prompt"].startswith("query 3 "):
            tokens["positive"] = -1.5
        with_listed_tokens(right_answer, tokens)
        endpoint_server.send(handler, right_answer)

    server.usual_answer = answer_query_3_without_tie
    rows = predict(kernel_for("top-logprobs", concurrency=concurrency), 30, tmp_path / "s")

    queries_without_tie = [query for query, (negative, positive) in enumerate(rows) if negative != positive]
    assert queries_without_tie == [3]


def test_twice_the_concurrency_of_a_served_model_are_queried_at_once(kernel_for):
    """For its scores as for its replies."""
    kernel = kernel_for("top-logprobs", concurrency=3)
    assert queries_at_once(kernel) == 6
    assert queries_at_once(text_inference(kernel)) == 6


def test_a_function_that_is_no_served_model_has_no_queries_at_once():
    assert queries_at_once(len) is None


def test_scores_of_a_served_model_are_compared_in_a_first_batch_of_eight_and_replies_are_not(kernel_for):
    kernel = kernel_for("top-logprobs", concurrency=3)
    assert first_batch(kernel) == 8
    assert first_batch(text_inference(kernel)) == 1

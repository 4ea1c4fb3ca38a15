"""Runs against a server whose model moves to another edition between them."""

from __future__ import annotations

import concurrent.futures
import multiprocessing
import sys
from pathlib import Path

import pytest

pytest.importorskip("openai")
sys.path.insert(0, str(Path(__file__).parent))

import endpoint_server as wrong

from StaICC import Normal
from StaICC.benchmarks.running import RunContext
from StaICC.errors import EditionError, OutputError
from StaICC.inference.runner import ask
from StaICC.kernels.endpoint.kernel import EndpointKernel
from StaICC.kernels.text_inference import text_inference
from StaICC.prompting import Query

OLD = wrong.changed(lambda answer: answer.update(system_fingerprint="fp_old"))
NEW = wrong.changed(lambda answer: answer.update(system_fingerprint="fp_new"))
CHANGED = "the store has predictions of .*'fp_old', the server now serves .*'fp_new'"


@pytest.fixture
def server(monkeypatch):
    monkeypatch.setenv("NO_PROXY", "127.0.0.1")
    monkeypatch.delenv("OPENAI_API_KEY", raising=False)
    running = wrong.Server()
    running.always = OLD
    yield running
    running.close()


@pytest.fixture
def make(server):
    kernels = []

    def kernel(**options):
        kernels.append(EndpointKernel(server.url, wrong.MODEL, backoff=0.01, **options))
        return kernels[-1]

    yield kernel
    for one in kernels:
        one.close()


@pytest.mark.parametrize("on_error", ["raise", "collect"])
def test_a_run_that_goes_on_with_another_edition_is_refused(make, server, tmp_path, on_error):
    path = str(tmp_path / "s.sqlite")
    short, longer = Normal(datasets=["mini"], limit=4), Normal(datasets=["mini"], limit=8)
    first = short(make(), store=path)
    server.always = NEW
    server.requests.clear()
    assert short(make(), store=path, on_error=on_error) == first  # complete: nothing is asked
    assert server.requests == []
    with pytest.raises(EditionError, match=CHANGED):
        longer(make(), store=path, on_error=on_error)
    assert len(server.requests) == 1  # the one that asks for the edition
    assert longer(make(allow_edition_change=True), store=path, on_error=on_error).complete
    with pytest.raises(EditionError):
        Normal(datasets=["mini"], limit=12)(make(), store=path)
    other = str(tmp_path / "other.sqlite")
    assert longer(make(), store=other).complete
    server.always = OLD
    with pytest.raises(EditionError):
        Normal(datasets=["mini"], limit=12)(make(), store=other)


def test_the_same_edition_goes_on(make, server, tmp_path):
    path = str(tmp_path / "s.sqlite")
    Normal(datasets=["mini"], limit=4)(make(), store=path)
    assert Normal(datasets=["mini"], limit=8)(make(), store=path) == Normal(datasets=["mini"], limit=8)(make())


def test_one_kernel_may_be_used_for_two_editions_without_a_store(make, server):
    kernel = make()
    assert Normal(datasets=["mini"], limit=4)(kernel).complete
    server.always = NEW
    assert Normal(datasets=["mini"], limit=4)(kernel).complete


def test_workers_hold_to_the_edition_of_the_run(make, server, tmp_path):
    server.wrong = [OLD]
    server.always = NEW
    with (
        concurrent.futures.ProcessPoolExecutor(2, mp_context=multiprocessing.get_context("spawn")) as pool,
        pytest.raises(OutputError, match=r"changed from .*'fp_old' to .*'fp_new'"),
    ):
        Normal(datasets=["mini"], limit=8)(make(), executor=pool, on_error="collect", store=str(tmp_path / "s.sqlite"))


def test_the_record_of_a_run_has_editions_and_retries(make, server):
    kernel = make(scoring="text")
    server.wrong = [OLD, wrong.status(500)]
    for function, retried in ((text_inference(kernel, 3), 1), (text_inference(kernel, 3), 0)):
        with RunContext(False) as running:
            queries = [Query(text, ("b",), 0, 0, 0) for text in "ac"]
            ask(function, queries, "p", running.options_for(function, free_text=True))
        (record,) = running.records
        assert record.editions == ("model 'words'; system_fingerprint 'fp_old'",)
        assert record.counts.retried == retried
        assert record.counts.computed == 2
        assert function.recheck_tolerance is None

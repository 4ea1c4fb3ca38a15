"""A served model that moves to another edition: in the middle of a run, between runs, in workers; and the identity."""

from __future__ import annotations

import contextlib
import copy
import dataclasses
import pickle

import pytest

pytest.importorskip("openai")

import endpoint_server as wrong

from StaICC import Normal
from StaICC.errors import ArgumentError, EditionError, OutputError
from StaICC.inference.store import PredictionStore
from StaICC.kernels.registry import load_kernel
from StaICC.kernels.server.endpoint import EndpointKernel
from StaICC.prompting.prompt_text import Demonstration, PromptParts, PromptText
from tests.kernels.test_model_options import OTHER, REPLY

LABELS = ["the", "very", "good"]
PROMPTS = [f"film {number} is " for number in range(12)]
SHOWN = PromptText(PromptParts("", (Demonstration("film 1 is ", "good", "\n"),), "film 2 is "))


def served_by(**names):
    return wrong.changed(lambda answer: answer.update(names))


OLD, NEW = {"system_fingerprint": "fp_old"}, {"system_fingerprint": "fp_new"}
CHANGES = {
    "system fingerprint": (OLD, NEW, "from model 'words'; system_fingerprint 'fp_old' to .*'fp_new'"),
    "date": ({"model": "words-2025-01-31"}, {"model": "words-20250601"}, "'words-2025-01-31' to .*'words-20250601'"),
    "alias to date": ({"model": "words"}, {"model": "words-2025-01-31"}, "model 'words' to model 'words-2025-01-31'"),
    "both": ({"model": "words-0101", **OLD}, {"model": "words-0202", **NEW}, "'fp_old' to model 'words-0202'"),
    "fingerprint without model": ({"model": None, **OLD}, {"model": None, **NEW}, "from system_fingerprint 'fp_old'"),
}


@pytest.mark.parametrize(
    ("change", "scoring"),
    [*((change, "text") for change in CHANGES), ("both", "prompt-logprobs"), ("both", "top-logprobs")],
)
def test_a_change_in_a_batch_stops_it(make, server, change, scoring):
    old, new, said = CHANGES[change]
    calm = make(scoring, concurrency=1)
    server.always = served_by(**old)
    truth = calm.batch(PROMPTS, LABELS)
    needed = len(server.requests)
    per_query = 3 if scoring == "prompt-logprobs" else 1
    server.wrong = [served_by(**old)] * (needed - 4 * per_query)
    server.always = served_by(**new)
    server.requests.clear()
    kernel = make(scoring, concurrency=1)
    outcomes = kernel.batch(PROMPTS, LABELS)
    assert [str(one) for one in outcomes[:8]] == [str(one) for one in truth[:8]]
    assert [outcome for outcome in outcomes[8:] if not isinstance(outcome, EditionError)] == []
    with pytest.raises(EditionError, match=said):
        raise outcomes[8]
    assert len(server.requests) <= needed - 3 * per_query
    with pytest.raises(EditionError):
        kernel(PROMPTS[0], LABELS)
    assert copy.copy(kernel).pin_edition() not in kernel.editions
    assert len(kernel.editions) == 1


@pytest.mark.parametrize("on_error", ["raise", "collect"])
def test_a_change_ends_a_run_also_where_failures_are_collected(make, server, tmp_path, on_error):
    server.wrong = [served_by(**OLD)] * 20
    server.always = served_by(**NEW)
    kernel = make("prompt-logprobs", concurrency=1)
    with PredictionStore(tmp_path / "s.sqlite") as store:
        with pytest.raises(OutputError, match=r"the served edition of 'words' changed from .*'fp_old' to .*'fp_new'"):
            Normal(datasets=["mini"], limit=24)(kernel, store=store, on_error=on_error, chunk_size=2)
        assert 20 < len(server.requests) < 30  # it did not go on
        assert 1 <= store.info().answers <= 6  # three labels a query: only of the old one
        stored = store.info()
        with pytest.raises(OutputError, match="the served edition"):
            Normal(datasets=["mini"], limit=24)(kernel, store=store, on_error=on_error)
        assert store.info() == stored


# -- runs ----------------------------------------------------------------------------------------------------------

CHANGED = "the store has predictions of .*'fp_old', the server now serves .*'fp_new'"


@pytest.mark.parametrize("on_error", ["raise", "collect"])
def test_a_run_that_goes_on_with_another_edition_is_refused(make, server, tmp_path, on_error):
    server.always = served_by(**OLD)
    path = str(tmp_path / "s.sqlite")
    short, longer = Normal(datasets=["mini"], limit=4), Normal(datasets=["mini"], limit=8)
    first = short(make("prompt-logprobs"), store=path)
    server.always = served_by(**NEW)
    server.requests.clear()
    assert short(make("prompt-logprobs"), store=path, on_error=on_error) == first  # complete: nothing is asked
    assert server.requests == []
    with pytest.raises(EditionError, match=CHANGED):
        longer(make("prompt-logprobs"), store=path, on_error=on_error)
    assert len(server.requests) == 1  # the one that asks for the edition
    server.always = served_by(**OLD)
    assert longer(make("prompt-logprobs"), store=path) == longer(make("prompt-logprobs"))  # the same edition goes on
    longer = Normal(datasets=["mini"], limit=10)
    server.always = served_by(**NEW)
    assert longer(make("prompt-logprobs", allow_edition_change=True), store=path, on_error=on_error).complete
    with pytest.raises(EditionError):
        Normal(datasets=["mini"], limit=12)(make("prompt-logprobs"), store=path)
    other = str(tmp_path / "other.sqlite")
    assert longer(make("prompt-logprobs"), store=other).complete
    server.always = served_by(**OLD)
    with pytest.raises(EditionError):
        Normal(datasets=["mini"], limit=12)(make("prompt-logprobs"), store=other)


# -- identity -------------------------------------------------------------------------------------------------------

BASES = [
    {"scoring": "top-logprobs"},
    {"scoring": "top-logprobs", "api": "chat", "system": "a"},
    {"scoring": "text"},
    {"scoring": "text", "api": "chat", "system": "a"},
]
READ_ONLY = {"unlisted", "last_blank"}
"""Options that decide how a response is read, or which prompts are sent; ``PROMPTS`` end without a blank."""


def test_what_is_sent_is_what_the_identity_says(make, server):
    """An option that is not in the identity changes no request, and one that is changes some."""
    options = {field.name for field in dataclasses.fields(EndpointKernel)} - {"base_url", "model", "served_model"}
    seen, effects = {}, {}

    def observe(given):
        kernel = load_kernel(f"openai:{server.url}#{wrong.MODEL}" + "".join(f";{name}={given[name]}" for name in given))
        server.requests.clear()
        kernel.batch([SHOWN], LABELS)
        kernel.close()
        digest, sent = kernel.identity().digest, str(sorted(map(str, server.requests)))
        assert seen.setdefault(digest, sent) == sent, given
        return digest, sent

    for base in BASES:
        base = {"unlisted": "bound", **base} if base["scoring"] == "top-logprobs" else base
        usual = observe(base)
        for name in options:
            with contextlib.suppress(ArgumentError):
                digest, sent = observe({**base, name: OTHER[name]})
                effects.setdefault(name, set()).add((digest != usual[0], sent != usual[1]))
    tried = {name: effect for name, effect in effects.items() if any(stated for stated, _ in effect)}
    assert {name for name, effect in tried.items() if (True, True) not in effect} <= READ_ONLY
    assert {"guided", "temperature", "stop", "max_tokens", "top_n", "system", "turns"} <= tried.keys()


def test_identity_asks_nothing_and_shows_no_secret(make, server):
    kernel = make("text", api="chat", system="Say\nyes.")
    identity = kernel.identity()
    assert server.requests == []
    assert identity.who == {"kernel": "endpoint 4", "server": server.url, "model": "words"}
    assert identity.settings == REPLY | {"api": "chat", "system": '"Say\\nyes."'}
    kernel.generate(PROMPTS)
    assert kernel.identity() == identity == pickle.loads(pickle.dumps(kernel)).identity()
    for one in ("http://HOST:80/v1/", "http://host/v1"):
        assert EndpointKernel(one, "m").identity() == EndpointKernel("http://host/v1", "m").identity()

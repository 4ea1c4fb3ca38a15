"""A served model that moves to another edition: in the middle of a run, between runs, in workers; and the identity."""

from __future__ import annotations

import contextlib
import copy
import dataclasses
import pickle
import re

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
    """Answer right, with these names of the served model."""
    return wrong.changed(lambda answer: answer.update(names))


OLD, NEW = {"system_fingerprint": "fp_old"}, {"system_fingerprint": "fp_new"}
CHANGES = {
    "system fingerprint": (OLD, NEW, "from model 'words'; system_fingerprint 'fp_old' to .*'fp_new'"),
    "date": ({"model": "words-2025-01-31"}, {"model": "words-20250601"}, "'words-2025-01-31' to .*'words-20250601'"),
    "alias to date": ({"model": "words"}, {"model": "words-2025-01-31"}, "model 'words' to model 'words-2025-01-31'"),
    "both": ({"model": "words-0101", **OLD}, {"model": "words-0202", **NEW}, "'fp_old' to model 'words-0202'"),
    "fingerprint without model": ({"model": None, **OLD}, {"model": None, **NEW}, "from system_fingerprint 'fp_old'"),
}
"""For each kind of change: the names of the old edition, those of the new one, and what the error says."""


@pytest.fixture
def changing_batch(make, server):
    """A function that returns a kernel and the outcomes of a batch whose edition changes in its ninth query.

    It takes the scoring, the names of both editions, and the requests of a query.
    """

    def run(scoring, old, new, requests_per_query):
        server.always = served_by(**old)
        make(scoring, concurrency=1).batch(PROMPTS[:8], LABELS)
        requests_of_eight_queries = len(server.requests)

        server.requests.clear()
        server.wrong = [served_by(**old)] * requests_of_eight_queries
        server.always = served_by(**new)
        kernel = make(scoring, concurrency=1)
        outcomes = kernel.batch(PROMPTS, LABELS)
        assert len(server.requests) <= requests_of_eight_queries + requests_per_query, "it did not go on"
        return kernel, outcomes

    return run


every_change = pytest.mark.parametrize(
    ("change", "scoring", "requests_per_query"),
    [
        *((change, "text", 1) for change in CHANGES),
        ("both", "prompt-logprobs", 3),
        ("both", "top-logprobs", 1),
    ],
)


@every_change
def test_a_change_in_a_batch_is_the_error_of_all_later_queries(changing_batch, change, scoring, requests_per_query):
    old, new, message = CHANGES[change]
    _, outcomes = changing_batch(scoring, old, new, requests_per_query)
    for outcome in outcomes[8:]:
        assert isinstance(outcome, EditionError)
        assert re.search(message, str(outcome))


@every_change
def test_queries_before_a_change_in_a_batch_have_their_predictions(
    changing_batch, make, server, change, scoring, requests_per_query
):
    old, new, _ = CHANGES[change]
    _, outcomes = changing_batch(scoring, old, new, requests_per_query)

    server.always = served_by(**old)
    assert outcomes[:8] == make(scoring).batch(PROMPTS[:8], LABELS)


@every_change
def test_after_a_change_a_kernel_predicts_nothing_more(changing_batch, change, scoring, requests_per_query):
    old, new, _ = CHANGES[change]
    kernel, _ = changing_batch(scoring, old, new, requests_per_query)
    with pytest.raises(EditionError):
        kernel(PROMPTS[0], LABELS)


@every_change
def test_a_kernel_names_the_edition_of_its_predictions_only(changing_batch, change, scoring, requests_per_query):
    old, new, _ = CHANGES[change]
    kernel, _ = changing_batch(scoring, old, new, requests_per_query)
    new_edition = copy.copy(kernel).pin_edition()
    assert len(kernel.editions) == 1
    assert new_edition not in kernel.editions


@pytest.fixture
def changing_server(server):
    """Return a server whose edition changes after twenty requests."""
    server.wrong = [served_by(**OLD)] * 20
    server.always = served_by(**NEW)
    return server


@pytest.mark.parametrize("on_error", ["raise", "collect"])
def test_a_change_ends_a_run_also_where_failures_are_collected(make, changing_server, on_error):
    kernel = make("prompt-logprobs", concurrency=1)
    with pytest.raises(OutputError, match=r"the served edition of 'words' changed from .*'fp_old' to .*'fp_new'"):
        Normal(datasets=["mini"], limit=24)(kernel, on_error=on_error, chunk_size=2)
    assert 20 < len(changing_server.requests) < 30, "48 queries would need 144 requests"


@pytest.mark.parametrize("on_error", ["raise", "collect"])
def test_a_run_with_a_change_stores_predictions_of_the_old_edition_only(make, changing_server, tmp_path, on_error):
    kernel, benchmark = make("prompt-logprobs", concurrency=1), Normal(datasets=["mini"], limit=24)
    with PredictionStore(tmp_path / "s.sqlite") as store:
        with pytest.raises(OutputError, match="the served edition"):
            benchmark(kernel, store=store, on_error=on_error, chunk_size=2)
        after_first_run = store.info()
        with pytest.raises(OutputError, match="the served edition"):
            benchmark(kernel, store=store, on_error=on_error)
        assert store.info() == after_first_run
    assert 1 <= after_first_run.answers <= 20 // 3, "a query has three requests, one for each label"


# -- runs ----------------------------------------------------------------------------------------------------------


@pytest.fixture
def store_of_old_edition(make, server, tmp_path):
    """Return the path of a store with the predictions of an old edition for a benchmark with limit 4."""
    server.always = served_by(**OLD)
    Normal(datasets=["mini"], limit=4)(make("prompt-logprobs"), store=tmp_path / "s.sqlite")
    server.requests.clear()
    return tmp_path / "s.sqlite"


@pytest.mark.parametrize("on_error", ["raise", "collect"])
def test_a_run_that_goes_on_with_another_edition_is_refused(make, server, store_of_old_edition, on_error):
    server.always = served_by(**NEW)
    message = r"the store has predictions of .*'fp_old', the server now serves .*'fp_new'"
    with pytest.raises(EditionError, match=message):
        Normal(datasets=["mini"], limit=8)(make("prompt-logprobs"), store=store_of_old_edition, on_error=on_error)
    assert len(server.requests) == 1, "one asks for the edition"


def test_a_run_that_is_complete_asks_for_no_edition(make, server, store_of_old_edition):
    server.always = served_by(**NEW)
    assert Normal(datasets=["mini"], limit=4)(make("prompt-logprobs"), store=store_of_old_edition).complete
    assert server.requests == []


def test_a_run_goes_on_with_the_same_edition(make, server, store_of_old_edition):
    longer = Normal(datasets=["mini"], limit=8)
    assert longer(make("prompt-logprobs"), store=store_of_old_edition) == longer(make("prompt-logprobs"))


@pytest.mark.parametrize("on_error", ["raise", "collect"])
def test_a_run_may_go_on_with_another_edition_if_that_is_allowed(make, server, store_of_old_edition, on_error):
    server.always = served_by(**NEW)
    kernel = make("prompt-logprobs", allow_edition_change=True)
    assert Normal(datasets=["mini"], limit=8)(kernel, store=store_of_old_edition, on_error=on_error).complete


def test_after_an_allowed_change_the_next_one_needs_to_be_allowed_too(make, server, store_of_old_edition):
    server.always = served_by(**NEW)
    kernel = make("prompt-logprobs", allow_edition_change=True)
    Normal(datasets=["mini"], limit=8)(kernel, store=store_of_old_edition)

    with pytest.raises(EditionError):
        Normal(datasets=["mini"], limit=12)(make("prompt-logprobs"), store=store_of_old_edition)


def test_a_run_that_first_allowed_changes_is_refused_with_an_older_edition(make, server, tmp_path):
    server.always = served_by(**NEW)
    kernel = make("prompt-logprobs", allow_edition_change=True)
    Normal(datasets=["mini"], limit=4)(kernel, store=tmp_path / "s.sqlite")

    server.always = served_by(**OLD)
    with pytest.raises(EditionError):
        Normal(datasets=["mini"], limit=8)(make("prompt-logprobs"), store=tmp_path / "s.sqlite")


# -- identity -------------------------------------------------------------------------------------------------------

BASES = [
    {"scoring": "top-logprobs", "unlisted": "bound"},
    {"scoring": "top-logprobs", "unlisted": "bound", "api": "chat", "system": "a"},
    {"scoring": "text"},
    {"scoring": "text", "api": "chat", "system": "a"},
]
READ_ONLY = {"unlisted", "last_blank"}
"""Options that decide how a response is read, or which prompts are sent; ``PROMPTS`` end without a blank."""
FIELDS = {field.name for field in dataclasses.fields(EndpointKernel)}
OPTIONS = FIELDS - {"base_url", "model", "served_model"}


def identity_and_requests(server, options):
    """Return the digest of the identity of a kernel, and what it sends for a prompt."""
    written = "".join(f";{name}={value}" for name, value in options.items())
    kernel = load_kernel(f"openai:{server.url}#{wrong.MODEL}{written}")
    server.requests.clear()
    kernel.batch([SHOWN], LABELS)
    kernel.close()
    return kernel.identity().digest, str(sorted(map(str, server.requests)))


@pytest.fixture(scope="module")
def observed():
    """Return (base, changed option, digest of the identity, requests) for each base, as it is and with each option."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("NO_PROXY", "127.0.0.1")
        patch.delenv("OPENAI_API_KEY", raising=False)
        server = wrong.Server()
        rows = []
        for number, base in enumerate(BASES):
            rows.append((number, None, *identity_and_requests(server, base)))
            for option in sorted(OPTIONS):
                with contextlib.suppress(ArgumentError):  # it does not fit the base
                    rows.append((number, option, *identity_and_requests(server, {**base, option: OTHER[option]})))
        server.close()
    return rows


def test_kernels_with_one_identity_send_the_same(observed):
    requests_by_digest = {}
    for base, option, digest, requests in observed:
        assert requests_by_digest.setdefault(digest, requests) == requests, f"{BASES[base]} with {option}"


def test_an_option_in_the_identity_changes_a_request_unless_it_only_reads(observed):
    usual = {base: (digest, requests) for base, option, digest, requests in observed if option is None}
    in_identity, changing_requests = set(), set()
    for base, option, digest, requests in observed:
        usual_digest, usual_requests = usual[base]
        if option is not None and digest != usual_digest:
            in_identity.add(option)
            if requests != usual_requests:
                changing_requests.add(option)
    assert in_identity - changing_requests <= READ_ONLY
    assert {"guided", "temperature", "stop", "max_tokens", "top_n", "system", "turns"} <= in_identity


def test_an_identity_names_server_model_and_settings_and_asks_nothing(make, server):
    identity = make("text", api="chat", system="Say\nyes.").identity()
    assert server.requests == []
    assert identity.who == {"kernel": "endpoint 4", "server": server.url, "model": "words"}
    assert identity.settings == REPLY | {"api": "chat", "system": '"Say\\nyes."'}


def test_an_identity_is_the_same_after_use_and_in_a_copy(make):
    kernel = make("text", api="chat")
    before = kernel.identity()
    kernel.generate(PROMPTS)
    assert kernel.identity() == before
    assert pickle.loads(pickle.dumps(kernel)).identity() == before


@pytest.mark.parametrize("address", ["http://HOST:80/v1/", "http://host:80/v1", "http://host/v1/"])
def test_addresses_of_one_server_have_one_identity(address):
    assert EndpointKernel(address, "m").identity() == EndpointKernel("http://host/v1", "m").identity()

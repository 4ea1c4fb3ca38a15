"""A served model that moves to another edition: in the middle of a run, between runs, in workers; and the identity."""

from __future__ import annotations

import contextlib
import copy
import dataclasses
import pickle
import re
from typing import NamedTuple

import pytest

pytest.importorskip("openai")

import endpoint_server

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
    return endpoint_server.changed_body(lambda answer: answer.update(names))


OLD, NEW = {"system_fingerprint": "fp_old"}, {"system_fingerprint": "fp_new"}
CHANGES = {
    "system fingerprint": (OLD, NEW, "from model 'words'; system_fingerprint 'fp_old' to .*'fp_new'"),
    "date": ({"model": "words-2025-01-31"}, {"model": "words-20250601"}, "'words-2025-01-31' to .*'words-20250601'"),
    "alias to date": ({"model": "words"}, {"model": "words-2025-01-31"}, "model 'words' to model 'words-2025-01-31'"),
    "both": ({"model": "words-0101", **OLD}, {"model": "words-0202", **NEW}, "'fp_old' to model 'words-0202'"),
    "fingerprint without model": ({"model": None, **OLD}, {"model": None, **NEW}, "from system_fingerprint 'fp_old'"),
}
"""For each kind of change: the names of the old edition, those of the new one, and what the error says."""


class ChangingBatch(NamedTuple):
    """A batch of twelve queries, in whose ninth query the served edition changes."""

    kernel: EndpointKernel
    outcomes: list
    old_names: dict[str, str]
    """The names that the server gives to the old edition of its model."""
    message: str
    """What the error about the change says."""


@pytest.fixture
def changing_batch(make_kernel, server):
    """A function that runs a batch with a change of ``CHANGES``, which ends it after the requests of nine queries."""

    def run(change, scoring, requests_per_query):
        old_names, new_names, message = CHANGES[change]
        server.usual_answer = served_by(**old_names)
        make_kernel(scoring, concurrency=1).batch(PROMPTS[:8], LABELS)
        requests_of_eight_queries = len(server.requests)

        server.requests.clear()
        server.next_answers = [served_by(**old_names)] * requests_of_eight_queries
        server.usual_answer = served_by(**new_names)
        kernel = make_kernel(scoring, concurrency=1)
        outcomes = kernel.batch(PROMPTS, LABELS)
        assert len(server.requests) <= requests_of_eight_queries + requests_per_query, "it did not go on"
        return ChangingBatch(kernel, outcomes, old_names, message)

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
    batch = changing_batch(change, scoring, requests_per_query)

    for outcome in batch.outcomes[8:]:
        assert isinstance(outcome, EditionError)
        assert re.search(batch.message, str(outcome))


@every_change
def test_queries_before_a_change_in_a_batch_have_their_predictions(
    changing_batch, make_kernel, server, change, scoring, requests_per_query
):
    batch = changing_batch(change, scoring, requests_per_query)

    server.usual_answer = served_by(**batch.old_names)
    without_change = make_kernel(scoring).batch(PROMPTS[:8], LABELS)
    assert batch.outcomes[:8] == without_change


@every_change
def test_after_a_change_a_kernel_predicts_nothing_more(changing_batch, change, scoring, requests_per_query):
    batch = changing_batch(change, scoring, requests_per_query)

    with pytest.raises(EditionError):
        batch.kernel(PROMPTS[0], LABELS)


@every_change
def test_a_kernel_names_the_edition_of_its_predictions_only(changing_batch, change, scoring, requests_per_query):
    batch = changing_batch(change, scoring, requests_per_query)

    new_edition = copy.copy(batch.kernel).pin_edition()
    assert len(batch.kernel.editions) == 1
    assert new_edition not in batch.kernel.editions


@pytest.fixture
def changing_server(server):
    """Return a server whose edition changes after twenty requests."""
    server.next_answers = [served_by(**OLD)] * 20
    server.usual_answer = served_by(**NEW)
    return server


@pytest.mark.parametrize("on_error", ["raise", "collect"])
def test_a_change_ends_a_run_also_where_failures_are_collected(make_kernel, changing_server, on_error):
    """The edition changes after 20 requests; the run would need 144 (24 rows, two repeats, three labels)."""
    kernel = make_kernel("prompt-logprobs", concurrency=1)

    with pytest.raises(OutputError, match=r"the served edition of 'words' changed from .*'fp_old' to .*'fp_new'"):
        Normal(datasets=["mini"], limit=24)(kernel, on_error=on_error, chunk_size=2)
    assert 20 < len(changing_server.requests) < 30


@pytest.mark.parametrize("on_error", ["raise", "collect"])
def test_a_run_with_a_change_stores_predictions_of_the_old_edition_only(
    make_kernel, changing_server, tmp_path, on_error
):
    kernel = make_kernel("prompt-logprobs", concurrency=1)
    benchmark = Normal(datasets=["mini"], limit=24)
    with PredictionStore(tmp_path / "s.sqlite") as store:
        with pytest.raises(OutputError, match="the served edition"):
            benchmark(kernel, store=store, on_error=on_error, chunk_size=2)
        after_first_run = store.info()

        with pytest.raises(OutputError, match="the served edition"):
            benchmark(kernel, store=store, on_error=on_error)

        assert store.info() == after_first_run
    assert 1 <= after_first_run.answers <= 20 // 3, "each query has three requests, and twenty met the old edition"


# -- runs ----------------------------------------------------------------------------------------------------------


@pytest.fixture
def store_of_old_edition(make_kernel, server, tmp_path):
    """Return the path of a store with the predictions of an old edition for a benchmark with limit 4."""
    server.usual_answer = served_by(**OLD)
    Normal(datasets=["mini"], limit=4)(make_kernel("prompt-logprobs"), store=tmp_path / "s.sqlite")
    server.requests.clear()
    return tmp_path / "s.sqlite"


@pytest.mark.parametrize("on_error", ["raise", "collect"])
def test_a_run_that_goes_on_with_another_edition_is_refused(make_kernel, server, store_of_old_edition, on_error):
    server.usual_answer = served_by(**NEW)
    longer = Normal(datasets=["mini"], limit=8)

    message = r"the store has predictions of .*'fp_old', the server now serves .*'fp_new'"
    with pytest.raises(EditionError, match=message):
        longer(make_kernel("prompt-logprobs"), store=store_of_old_edition, on_error=on_error)
    assert len(server.requests) == 1, "one asks for the edition"


def test_a_run_that_is_complete_asks_for_no_edition(make_kernel, server, store_of_old_edition):
    server.usual_answer = served_by(**NEW)
    assert Normal(datasets=["mini"], limit=4)(make_kernel("prompt-logprobs"), store=store_of_old_edition).complete
    assert server.requests == []


def test_a_run_goes_on_with_the_same_edition(make_kernel, server, store_of_old_edition):
    longer = Normal(datasets=["mini"], limit=8)
    assert longer(make_kernel("prompt-logprobs"), store=store_of_old_edition) == longer(make_kernel("prompt-logprobs"))


@pytest.mark.parametrize("on_error", ["raise", "collect"])
def test_a_run_may_go_on_with_another_edition_if_that_is_allowed(make_kernel, server, store_of_old_edition, on_error):
    server.usual_answer = served_by(**NEW)
    kernel = make_kernel("prompt-logprobs", allow_edition_change=True)
    assert Normal(datasets=["mini"], limit=8)(kernel, store=store_of_old_edition, on_error=on_error).complete


def test_after_an_allowed_change_the_next_one_needs_to_be_allowed_too(make_kernel, server, store_of_old_edition):
    server.usual_answer = served_by(**NEW)
    kernel = make_kernel("prompt-logprobs", allow_edition_change=True)
    Normal(datasets=["mini"], limit=8)(kernel, store=store_of_old_edition)

    with pytest.raises(EditionError):
        Normal(datasets=["mini"], limit=12)(make_kernel("prompt-logprobs"), store=store_of_old_edition)


def test_a_run_that_first_allowed_changes_is_refused_with_an_older_edition(make_kernel, server, tmp_path):
    server.usual_answer = served_by(**NEW)
    kernel = make_kernel("prompt-logprobs", allow_edition_change=True)
    Normal(datasets=["mini"], limit=4)(kernel, store=tmp_path / "s.sqlite")

    server.usual_answer = served_by(**OLD)
    with pytest.raises(EditionError):
        Normal(datasets=["mini"], limit=8)(make_kernel("prompt-logprobs"), store=tmp_path / "s.sqlite")


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


class ObservedKernel(NamedTuple):
    """A kernel with one option that differs from those of its base (``None``: with those of the base)."""

    base: int
    option: str | None
    digest: str
    """Of the identity."""
    requests: list[str]
    """What it sends for one prompt."""


def observe_kernel(server, base, option=None):
    """Score a prompt with a kernel, and return its identity with what it sent."""
    options = dict(BASES[base])
    if option is not None:
        options[option] = OTHER[option]
    written = "".join(f";{name}={value}" for name, value in options.items())
    kernel = load_kernel(f"openai:{server.url}#{endpoint_server.MODEL}{written}")
    server.requests.clear()
    kernel.batch([SHOWN], LABELS)
    kernel.close()
    return ObservedKernel(base, option, kernel.identity().digest, sorted(map(str, server.requests)))


@pytest.fixture(scope="module")
def observed_kernels():
    """Return each kernel of ``BASES``, as it is and with each option that fits it."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("NO_PROXY", "127.0.0.1")
        patch.delenv("OPENAI_API_KEY", raising=False)
        server = endpoint_server.Server()
        kernels = []
        for base in range(len(BASES)):
            kernels.append(observe_kernel(server, base))
            for option in sorted(OPTIONS):
                with contextlib.suppress(ArgumentError):  # it does not fit the base
                    kernels.append(observe_kernel(server, base, option))
        server.close()
    return kernels


def test_kernels_with_one_identity_send_the_same(observed_kernels):
    requests_of_identity = {}
    for kernel in observed_kernels:
        expected = requests_of_identity.setdefault(kernel.digest, kernel.requests)
        assert kernel.requests == expected, f"{BASES[kernel.base]} with {kernel.option}"


def test_an_option_in_the_identity_changes_a_request_unless_it_only_reads(observed_kernels):
    without_option = {kernel.base: kernel for kernel in observed_kernels if kernel.option is None}
    in_identity = set()
    changes_requests = set()
    for kernel in observed_kernels:
        if kernel.digest != without_option[kernel.base].digest:
            in_identity.add(kernel.option)
        if kernel.requests != without_option[kernel.base].requests:
            changes_requests.add(kernel.option)

    assert in_identity - changes_requests <= READ_ONLY
    assert {"guided", "temperature", "stop", "max_tokens", "top_n", "system", "turns"} <= in_identity


def test_an_identity_names_server_model_and_settings_and_asks_nothing(make_kernel, server):
    identity = make_kernel("text", api="chat", system="Say\nyes.").identity()
    assert server.requests == []
    assert identity.who == {"kernel": "endpoint 4", "server": server.url, "model": "words"}
    assert identity.settings == REPLY | {"api": "chat", "system": '"Say\\nyes."'}


def test_an_identity_is_the_same_after_use_and_in_a_copy(make_kernel):
    kernel = make_kernel("text", api="chat")
    before = kernel.identity()
    kernel.generate(PROMPTS)
    assert kernel.identity() == before
    assert pickle.loads(pickle.dumps(kernel)).identity() == before


@pytest.mark.parametrize("address", ["http://HOST:80/v1/", "http://host:80/v1", "http://host/v1/"])
def test_addresses_of_one_server_have_one_identity(address):
    assert EndpointKernel(address, "m").identity() == EndpointKernel("http://host/v1", "m").identity()

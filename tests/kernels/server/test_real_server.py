"""llama.cpp's server, as the package xllamacpp has it, with SmolLM2: refusals, labels, too long prompts."""

from __future__ import annotations

import subprocess
import sys

import pytest

from StaICC import Normal
from StaICC.errors import OutputError
from StaICC.kernels.registry import load_kernel
from StaICC.kernels.server.prompt_cuts import measure

pytestmark = [pytest.mark.slow, pytest.mark.pack]

pytest.importorskip("openai")
pytest.importorskip("xllamacpp")

SERVE = """
import sys, time, xllamacpp
settings = xllamacpp.CommonParams()
settings.model.path = sys.argv[1]
settings.n_ctx, settings.n_parallel, settings.port = 2048, 1, 0
server = xllamacpp.Server(settings)
print(server.listening_address, flush=True)
sys.stdin.read()
"""

DATASETS = ("TREC", "financial_phrasebank", "rotten_tomatoes")


@pytest.fixture(scope="module")
def address(smollm2):
    command = [sys.executable, "-c", SERVE, str(smollm2)]
    with subprocess.Popen(command, stdin=-1, stdout=-1, stderr=subprocess.DEVNULL, text=True) as process:
        yield f"openai:{process.stdout.readline().strip()}/v1#{smollm2}"
        process.kill()


@pytest.fixture(scope="module")
def queries():
    """For each data set, the labels and fifteen prompts."""
    recorded = {}

    def record(prompt, label_space):
        recorded[name][prompt] = label_space
        return 0

    for name in DATASETS:
        recorded[name] = {}
        Normal(datasets=[name], limit=15)(record)
    return {name: (next(iter(prompts.values())), [*prompts][:15]) for name, prompts in recorded.items()}


def predicted(row):
    return row.index(max(row))


def test_no_query_is_refused_for_a_token_of_blanks_and_labels_are_those_of_the_local_kernel(address, queries, smollm2):
    served = load_kernel(
        address, scoring="top-logprobs", top_n=200, unlisted="bound", last_blank="label", timeout=300.0
    )
    local = load_kernel(f"hf:{smollm2}", label_scoring="first", last_blank="label", dtype="float32")
    equal = 0
    for labels, prompts in queries.values():
        outcomes = served.batch(prompts, labels)
        assert not [outcome for outcome in outcomes if isinstance(outcome, OutputError)]
        for outcome, row in zip(outcomes, local.batch(prompts, labels), strict=True):
            equal += predicted(outcome) == predicted(row)
    assert equal >= 38  # of 45; the server computes with activations of eight bits


def test_the_server_reads_prompts_in_full_or_refuses_them(address, queries):
    kernel = load_kernel(address, scoring="text", timeout=300.0, retries=0)
    labels, prompts = queries["rotten_tomatoes"]
    reply, refused = kernel.batch([prompts[0], "".join(prompts)], labels)
    assert isinstance(reply, str)
    with pytest.raises(OutputError, match="longer than the model's context length"):
        raise refused


def test_the_tokens_of_a_prompt_are_those_of_its_halves(address, queries):
    kernel = load_kernel(address, scoring="text", timeout=300.0)
    kernel.batch(["a"], ["b"])  # connects
    for _, prompts in queries.values():
        tokens = measure(prompts[0], kernel._count_tokens)
        assert tokens.read == tokens.expected

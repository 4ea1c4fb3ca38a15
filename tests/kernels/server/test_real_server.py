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
    """Return (labels, fifteen prompts) for each data set of ``DATASETS``."""
    found = {}
    for name in DATASETS:
        benchmark = Normal(datasets=[name], limit=15)
        prompts = [str(query.prompt) for query in benchmark[0].all_queries()]
        found[name] = (benchmark[0].get_label_space(), prompts[:15])
    return found


@pytest.fixture(scope="module")
def outcomes(address, queries):
    """Return what the server answers to the prompts of each data set: a row of label scores, or an error."""
    options = {"scoring": "top-logprobs", "top_n": 200, "unlisted": "bound", "last_blank": "label", "timeout": 300.0}
    kernel = load_kernel(address, **options)
    return {name: kernel.batch(prompts, labels) for name, (labels, prompts) in queries.items()}


def predicted(row):
    """Return the index of the label with the highest score."""
    return row.index(max(row))


@pytest.mark.parametrize("dataset", DATASETS)
def test_no_query_is_refused_for_a_token_of_blanks(outcomes, dataset):
    assert not [outcome for outcome in outcomes[dataset] if isinstance(outcome, OutputError)]


def test_the_predicted_labels_are_those_of_the_local_kernel(outcomes, queries, smollm2):
    """For 38 of 45 prompts at least: the server computes with activations of eight bits."""
    local = load_kernel(f"hf:{smollm2}", label_scoring="first", last_blank="label", dtype="float32")
    equal = 0
    for name, (labels, prompts) in queries.items():
        for served_scores, local_scores in zip(outcomes[name], local.batch(prompts, labels), strict=True):
            equal += predicted(served_scores) == predicted(local_scores)
    assert equal >= 38


def test_the_server_reads_prompts_in_full_or_refuses_them(address, queries):
    """One prompt fits into the context of 2,048 tokens; fifteen prompts in one text do not."""
    kernel = load_kernel(address, scoring="text", timeout=300.0, retries=0)
    labels, prompts = queries["rotten_tomatoes"]
    one_prompt, too_long = prompts[0], "".join(prompts)
    reply, error = kernel.batch([one_prompt, too_long], labels)
    assert isinstance(reply, str)
    with pytest.raises(OutputError, match="longer than the model's context length"):
        raise error


@pytest.mark.parametrize("dataset", DATASETS)
def test_the_tokens_of_a_prompt_are_those_of_its_halves(address, queries, dataset):
    kernel = load_kernel(address, scoring="text", timeout=300.0)
    kernel.batch(["a"], ["b"])  # connects
    _, prompts = queries[dataset]
    tokens = measure(prompts[0], kernel._count_tokens)
    assert tokens.read == tokens.expected

"""Compiled layers return what the layers return, and leave the model as it was."""

from __future__ import annotations

import shutil

import pytest

from StaICC.errors import RunEndingError
from StaICC.kernels.huggingface.batching import LastPosition
from StaICC.kernels.huggingface.kernel import CausalLMKernel

torch = pytest.importorskip("torch")
pytest.importorskip("transformers")
# torch.compile imports it, which fails on Python 3.11 and older after an import of pip, as by another test.
pytest.importorskip("setuptools")
needs_compiler = pytest.mark.skipif(shutil.which("g++") is None, reason="torch.compile needs a C++ compiler")

LABELS = ["person", "number", "the good city"]
STEM = "who is the good person ? it is "
PROMPTS = [STEM + end for end in ("the city", "the city of the number", "a number", "", "who who who who")] + [
    "good " * count for count in range(1, 60, 7)
]
"""Trees and chains of many lengths."""
QUERIES = [[f"{label} {text}" for label in LABELS] for text in ("the city is good", "who", "it is the number ?")]


@pytest.fixture
def both(make_model, tokenizer):
    torch._dynamo.reset()  # code that other tests compiled for the same class counts towards its limit of versions

    def make(family="Llama", dtype="float32", **options):
        model = make_model(family).to(getattr(torch, dtype))
        return [CausalLMKernel(model, tokenizer, compile=flag, **options) for flag in (False, True)]

    return make


def close(rows, abs=1e-5):
    return [pytest.approx(row, abs=abs) for row in rows]


@needs_compiler
@pytest.mark.parametrize(
    "family",
    ["Llama", "GPT2", *(pytest.param(name, marks=pytest.mark.slow) for name in ("OPT", "GPTNeoX", "Qwen2", "Gemma"))],
)
def test_compiled_layers_return_what_the_layers_return(both, family):
    for scoring in ("last", "full"):
        plain, compiled = both(family, label_scoring=scoring)
        for prompts in (PROMPTS, QUERIES, PROMPTS[:1]):
            assert compiled.batch(prompts, LABELS) == close(plain.batch(prompts, LABELS))
        assert compiled.hidden_states(PROMPTS).tolist() == close(plain.hidden_states(PROMPTS).tolist(), 1e-4)
    assert plain.runner().forward.compiled is None
    before = torch._dynamo.utils.counters["stats"]["unique_graphs"]
    for count in range(2, 40):  # other lengths need no other code
        compiled.batch(["the " * count, "who " * (2 * count)], LABELS)
    assert torch._dynamo.utils.counters["stats"]["unique_graphs"] == before


@needs_compiler
def test_compiled_layers_that_differ_on_prompts_of_the_run_are_refused(both, monkeypatch):
    """Without them, the numbers would not be those of an identity that says compile=True."""
    plain, compiled = both()
    monkeypatch.setattr(LastPosition, "deviation", lambda self, number, logits: 9.0)
    for _ in range(2):
        with pytest.raises(RunEndingError, match=r"compiled layers .*\(9\.0 times"):
            compiled.batch(PROMPTS, LABELS)
    plain.batch(PROMPTS, LABELS)
    with pytest.raises(RunEndingError, match=r"cannot be compiled here \(batches differ"):
        CausalLMKernel(plain.model, plain.tokenizer, compile=True).batch(PROMPTS, LABELS)

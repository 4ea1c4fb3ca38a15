"""Compiled layers return what the layers return, and leave the model as it was."""

from __future__ import annotations

import shutil

import pytest

from StaICC import Normal
from StaICC.errors import OutputError, RunEndingError
from StaICC.kernels.huggingface import forward
from StaICC.kernels.huggingface.batching import LastPosition
from StaICC.kernels.huggingface.forward import CompiledLayers
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
def test_with_products_of_another_library(both, monkeypatch):
    """On processors where float32 products are given to oneDNN, compiled layers are run without it."""
    monkeypatch.setattr(forward, "uses_onednn", lambda: True)
    plain, compiled = both()
    found = compiled.batch(PROMPTS, LABELS)
    assert compiled.runner().forward.can.onednn
    assert found == close(plain.batch(PROMPTS, LABELS))


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        ("eager", "attn_implementation='eager'"),
        ("no layers", "no layers were found"),
        ("hook", "hook"),
        ("unknown logits", "cannot be compiled here"),
        ("other numbers", "return other numbers"),
    ],
)
def test_models_that_cannot_be_compiled_are_refused(make_model, tokenizer, monkeypatch, change, reason):
    options = {"attn_implementation": "eager"} if change == "eager" else {}
    model = make_model("Granite" if change == "unknown logits" else "Llama", **options)
    if change == "no layers":
        model._no_split_modules = None
    elif change == "hook":
        model.model.layers[0].register_forward_hook(lambda module, inputs, output: None)
    elif change == "unknown logits":
        monkeypatch.setattr(forward, "TRANSFORMS", {})
    elif change == "other numbers":

        def wrong(self, model):
            self.torch = torch
            self.layers = [(layer, lambda states, *args, **more: 2 * states) for layer in model.model.layers]

        monkeypatch.setattr(CompiledLayers, "__init__", wrong)
    kernel = CausalLMKernel(model, tokenizer, compile=True, max_length=512)
    with pytest.raises(RunEndingError, match=reason):
        kernel.batch(PROMPTS, LABELS)
    with pytest.raises(OutputError, match=reason):  # no query can be answered
        Normal(datasets=["mini"], limit=2)(kernel, on_error="collect", progress=False)


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


def test_without_a_compiler_the_error_says_so(both):
    torch._dynamo.reset()
    with torch._inductor.config.patch({"cpp.cxx": ("no-such-compiler",), "force_disable_caches": True}):
        _, kernel = both()
        with pytest.raises(RunEndingError, match="cannot be compiled here"):
            kernel.batch(PROMPTS, LABELS)
    assert all(vars(module).get("_compiled_call_impl") is None for module in kernel.model.modules())


def test_before_torch_2_4_models_run_and_cannot_be_compiled(both, monkeypatch):
    expected = both()[0].batch(PROMPTS, LABELS)
    monkeypatch.delattr(torch.library, "custom_op")
    monkeypatch.setattr(forward, "_attention", forward._attention.__wrapped__)
    plain, compiled = both()
    assert plain.runner().forward.can.flat
    assert plain.batch(PROMPTS, LABELS) == close(expected, 1e-6)
    with pytest.raises(RunEndingError, match="cannot be compiled here"):
        compiled.batch(PROMPTS, LABELS)

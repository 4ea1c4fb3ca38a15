"""Compiled layers return what the layers return, and leave the model as it was."""

from __future__ import annotations

import shutil

import pytest

from StaICC import Normal
from StaICC.errors import OutputError, RunEndingError
from StaICC.kernels.huggingface import forward
from StaICC.kernels.huggingface.batching import LastPosition
from StaICC.kernels.huggingface.kernel import CausalLMKernel
from StaICC.kernels.huggingface.operators import CompiledLayers

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


def both(make_model, make_tokenizer, family, dtype="float32", **options):
    model = make_model(family).to(getattr(torch, dtype))
    return [CausalLMKernel(model, make_tokenizer(), compile=flag, **options) for flag in (False, True)]


@needs_compiler
@pytest.mark.parametrize(
    "family",
    ["Llama", "GPT2", *(pytest.param(name, marks=pytest.mark.slow) for name in ("OPT", "GPTNeoX", "Qwen2", "Gemma"))],
)
def test_compiled_layers_return_what_the_layers_return(make_model, make_tokenizer, family):
    for scoring in ("last", "full"):
        plain, compiled = both(make_model, make_tokenizer, family, label_scoring=scoring)
        for prompts in (PROMPTS, QUERIES, PROMPTS[:1]):
            found = compiled.batch(prompts, LABELS)
            for row, expected in zip(found, plain.batch(prompts, LABELS), strict=True):
                assert row == pytest.approx(expected, abs=1e-5)
        assert torch.allclose(
            torch.tensor(compiled.hidden_states(PROMPTS)), torch.tensor(plain.hidden_states(PROMPTS)), atol=1e-4
        )
        assert plain.runner().forward.compiled is None
        assert compiled.runner().forward.compiled is not None


@needs_compiler
def test_the_code_is_used_and_the_model_stays_as_it_is(make_model, make_tokenizer):
    plain, compiled = both(make_model, make_tokenizer, "Llama", "bfloat16")
    before = plain.identity()
    compiled.batch(PROMPTS, LABELS)
    used = compiled.runner().forward.compiled
    assert len(used.layers) == compiled.model.config.num_hidden_layers
    assert all(layer._compiled_call_impl is None for layer, _ in used.layers)
    assert plain.identity() == before
    calls = []
    used.layers = [
        (layer, lambda *args, code=code, **more: calls.append(1) or code(*args, **more)) for layer, code in used.layers
    ]
    compiled.batch(PROMPTS, LABELS)
    assert calls


@needs_compiler
def test_other_lengths_need_no_other_code(make_model, make_tokenizer):
    _, compiled = both(make_model, make_tokenizer, "Llama")
    compiled.batch(PROMPTS, LABELS)
    before = torch._dynamo.utils.counters["stats"]["unique_graphs"]
    for count in range(2, 40):
        compiled.batch(["the " * count, "who " * (2 * count)], LABELS)
    assert torch._dynamo.utils.counters["stats"]["unique_graphs"] == before


@needs_compiler
def test_with_products_of_another_library(make_model, make_tokenizer, monkeypatch):
    """On processors where float32 products are given to oneDNN, compiled layers give them to it, too."""
    monkeypatch.setattr(forward, "uses_onednn", lambda: True)
    plain, compiled = both(make_model, make_tokenizer, "Llama")
    found = compiled.batch(PROMPTS, LABELS)
    assert compiled.runner().forward.can.onednn
    for row, expected in zip(found, plain.batch(PROMPTS, LABELS), strict=True):
        assert row == pytest.approx(expected, abs=1e-5)


def test_the_option_is_part_of_the_identity(make_model, make_tokenizer):
    plain, compiled = both(make_model, make_tokenizer, "Llama")
    assert plain.options.settings()["compile"] == "False"
    assert compiled.options.settings()["compile"] == "True"


def without_layers(model):
    model._no_split_modules = None


def with_hook(model):
    model.model.layers[0].register_forward_hook(lambda module, inputs, output: None)


@pytest.mark.parametrize(
    ("family", "options", "change", "reason"),
    [
        ("Llama", {"attn_implementation": "eager"}, None, "attn_implementation='eager'"),
        ("Llama", {}, without_layers, "no layers were found"),
        ("Llama", {}, with_hook, "hook"),
        ("Granite", {}, "unknown logits", "cannot be compiled here"),
    ],
)
def test_models_that_cannot_be_compiled_are_refused(
    make_model, make_tokenizer, monkeypatch, family, options, change, reason
):
    model = make_model(family, **options)
    if change == "unknown logits":
        monkeypatch.setattr(forward, "logit_transforms", lambda config: {})
    elif change is not None:
        change(model)
    kernel = CausalLMKernel(model, make_tokenizer(), compile=True, max_length=512)
    with pytest.raises(RunEndingError, match=reason):
        kernel.batch(PROMPTS, LABELS)
    with pytest.raises(OutputError, match=reason):  # no query can be answered
        Normal(datasets=["mini"], limit=2)(kernel, on_error="collect", progress=False)


@needs_compiler
def test_compiled_layers_that_differ_on_prompts_of_the_run_are_refused(make_model, make_tokenizer, monkeypatch):
    """Without them, the numbers would not be those of an identity that says compile=True."""
    plain, compiled = both(make_model, make_tokenizer, "Llama")
    monkeypatch.setattr(LastPosition, "deviation", lambda self, number, logits: 9.0)
    for _ in range(2):
        with pytest.raises(RunEndingError, match=r"compiled layers .* differ from single calls .*\(9\.0 times"):
            compiled.batch(PROMPTS, LABELS)
    plain.batch(PROMPTS, LABELS)
    with pytest.raises(RunEndingError, match=r"cannot be compiled here \(batches differ"):
        CausalLMKernel(plain.model, make_tokenizer(), compile=True).batch(PROMPTS, LABELS)


@needs_compiler
def test_logits_that_are_scaled_need_few_rows_in_half_precision(make_model, make_tokenizer):
    plain, compiled = both(make_model, make_tokenizer, "Granite", "bfloat16")
    found = compiled.batch(PROMPTS, LABELS)
    assert compiled.runner().forward.can.head == "rows"
    for row, expected in zip(found, plain.batch(PROMPTS, LABELS), strict=True):
        assert row == pytest.approx(expected, abs=0.02)


def test_without_a_compiler_the_error_says_so(make_model, make_tokenizer, monkeypatch):
    torch._dynamo.reset()
    with torch._inductor.config.patch({"cpp.cxx": ("no-such-compiler",), "force_disable_caches": True}):
        _, kernel = both(make_model, make_tokenizer, "Llama")
        with pytest.raises(RunEndingError, match="cannot be compiled here"):
            kernel.batch(PROMPTS, LABELS)
    assert all(
        "_compiled_call_impl" not in vars(module) or module._compiled_call_impl is None
        for module in kernel.model.modules()
    )


def test_other_numbers_are_refused(make_model, make_tokenizer, monkeypatch):
    _, kernel = both(make_model, make_tokenizer, "Llama")

    def wrong(self, model):
        self.torch = torch
        self.layers = [(layer, lambda states, *args, **more: 2 * states) for layer in model.model.layers]

    monkeypatch.setattr(CompiledLayers, "__init__", wrong)
    with pytest.raises(RunEndingError, match="return other numbers"):
        kernel.batch(PROMPTS, LABELS)


def test_before_torch_2_4_models_run_and_cannot_be_compiled(make_model, make_tokenizer, monkeypatch):
    from StaICC.kernels.huggingface import operators

    plain, compiled = both(make_model, make_tokenizer, "Llama")
    expected = plain.batch(PROMPTS, LABELS)
    monkeypatch.delattr(torch.library, "custom_op")
    for name in ("_products", "_attention"):
        monkeypatch.setattr(operators, name, getattr(operators, name).__wrapped__)
    plain, compiled = both(make_model, make_tokenizer, "Llama")
    assert plain.runner().forward.can.flat
    for row, old in zip(plain.batch(PROMPTS, LABELS), expected, strict=True):
        assert row == pytest.approx(old, abs=1e-6)
    with pytest.raises(RunEndingError, match="cannot be compiled here"):
        compiled.batch(PROMPTS, LABELS)

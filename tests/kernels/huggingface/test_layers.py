"""Layers: their states, compiled, and with replaced operators; against passes whose layers are called one by one."""

from __future__ import annotations

import shutil
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

from StaICC.errors import ArgumentError, RunEndingError
from StaICC.kernels.huggingface import batching, capability_trial
from StaICC.kernels.huggingface.forward import Forward
from StaICC.kernels.huggingface.kernel import CausalLMKernel
from StaICC.kernels.huggingface.token_trie import TrieRow
from StaICC.kernels.huggingface.torch_replacements import Segment, fast_products, segmented_attention

numpy = pytest.importorskip("numpy")
torch = pytest.importorskip("torch")
pytest.importorskip("transformers")
try:  # torch.compile imports it, which fails on Python 3.11 and older after an import of pip, as by another test
    import setuptools
except ImportError:
    setuptools = None

LABELS = ["person", "location", "number"]
PROMPTS = [f"question: who wrote {'good ' * n}{n}? answer: " for n in (3, 0, 5, 1)]


@pytest.mark.parametrize("family", ["Llama", "GPT2", "OPT", "GPTNeoX", "Gemma2"])
def test_states_are_those_of_single_passes(make_model: Any, tokenizer: Any, family: str) -> None:
    model = make_model(family)
    kernel = CausalLMKernel(model, tokenizer, token_budget=64)
    found = kernel.layer_states(PROMPTS)
    assert found.shape == (4, 2, 32)
    for prompt, states in zip(PROMPTS, found, strict=True):
        ids = torch.tensor([tokenizer(prompt)["input_ids"]])
        with torch.no_grad():
            hidden = model(ids, output_hidden_states=True).hidden_states  # the last one is normalised
        assert states[0] == pytest.approx(hidden[1][0, -1].numpy(), abs=1e-4)
    last = {}
    for layer in range(2):  # the state of the prompt itself changes nothing
        rows = [
            kernel.patched([prompt], LABELS, layer, row[layer])[0] for prompt, row in zip(PROMPTS, found, strict=True)
        ]
        assert rows == [pytest.approx(row, abs=1e-5) for row in kernel.batch(PROMPTS, LABELS)]
        last[layer] = kernel.patched(PROMPTS, LABELS, layer, found[2][layer])
    expected = kernel.batch(PROMPTS, LABELS)[2]
    assert last[1] == [pytest.approx(expected, abs=1e-5)] * 4  # after the last layer nothing else is read
    assert last[0] != last[1]
    assert kernel.batch(PROMPTS, LABELS)[2] == pytest.approx(expected, abs=1e-6)  # no hook is left


def steered_by_hand(network: Any, vector: Any, strength: float) -> Any:
    """Let a feed-forward network return what the paper's formula makes of its output, position by position."""

    def hook(module: Any, inputs: Any, output: Any) -> Any:
        changed = output.clone().double().numpy()
        target = numpy.array(vector, float) / numpy.linalg.norm(vector)
        for row in changed:
            for position, x in enumerate(row):
                length = numpy.linalg.norm(x)
                against = max(0.0, -float(x @ target) / length)
                moved = x / length + strength * (1 + against) * target
                row[position] = length * moved / numpy.linalg.norm(moved)
        return torch.tensor(changed, dtype=output.dtype)

    return network.register_forward_hook(hook)


@pytest.mark.parametrize("family", ["Llama", "GPT2", "GPTNeoX", "Gemma2"])
def test_steered_models_turn_the_feed_forward_output_at_all_positions(
    make_model: Any, tokenizer: Any, family: str
) -> None:
    model = make_model(family)
    kernel = CausalLMKernel(model, tokenizer, token_budget=64)
    usual = kernel.batch(PROMPTS, LABELS)
    vectors = numpy.random.default_rng(3).normal(size=(2, 32)).tolist()
    found = kernel.steered(PROMPTS, LABELS, vectors, 0.8)

    networks = [module for name, module in model.named_modules() if name.endswith(".mlp")]
    handles = [steered_by_hand(network, vector, 0.8) for network, vector in zip(networks, vectors, strict=True)]
    tokens = kernel.format.deciding(LABELS)[0]
    for prompt, row in zip(PROMPTS, found, strict=True):
        ids = torch.tensor([tokenizer(prompt)["input_ids"]])
        with torch.no_grad():
            logits = model(ids, use_cache=False).logits[0, -1, tokens]
        assert row == pytest.approx(logits.double().softmax(-1).tolist(), abs=1e-5)
    for handle in handles:
        handle.remove()

    assert found != [pytest.approx(row, abs=1e-3) for row in usual]
    assert kernel.steered(PROMPTS, LABELS, vectors, 0.0) == [pytest.approx(row, abs=1e-5) for row in usual]
    longer = [[5 * number for number in vector] for vector in vectors]
    assert kernel.steered(PROMPTS, LABELS, longer, 0.8) == [pytest.approx(row, abs=1e-5) for row in found]
    assert kernel.batch(PROMPTS, LABELS) == [pytest.approx(row, abs=1e-6) for row in usual]  # no hook is left


def test_vectors_that_do_not_fit_are_refused(make_model: Any, tokenizer: Any) -> None:
    kernel = CausalLMKernel(make_model("Llama"), tokenizer)
    with pytest.raises(ArgumentError, match=r"vectors: got 1, expected 2, one for each layer"):
        kernel.steered(PROMPTS, LABELS, [[1.0] * 32], 0.1)
    with pytest.raises(ArgumentError, match=r"vector of layer 1: got 31 numbers, expected 32"):
        kernel.steered(PROMPTS, LABELS, [[1.0] * 32, [1.0] * 31], 0.1)
    with pytest.raises(ArgumentError, match=r"layer 0 of OPTForCausalLM has no module mlp"):
        CausalLMKernel(make_model("OPT"), tokenizer).steered(PROMPTS, LABELS, [[1.0] * 32] * 2, 0.1)
    whole = CausalLMKernel(make_model("Llama"), tokenizer, label_scoring="full")
    with pytest.raises(ArgumentError, match=r"label_scoring: got 'full'"):
        whole.steered(PROMPTS, LABELS, [[1.0] * 32] * 2, 0.1)


# -- replaced operators return what those of torch return, only where they may; others see NaN or the usual result


CHAIN = TrieRow((5, 6, 7), (0, 1, 2), {0: (0, 1, 2)})
TREE = TrieRow((5, 6, 8, 9, 4, 3), (0, 1, 2, 2, 3, 1), {1: (0, 1, 2), 2: (0, 1, 3, 4), 3: (0, 5)})
FOREST = TrieRow((5, 6, 7), (0, 0, 1), {4: (0,), 5: (1, 2)})
"""The second sequence begins anew."""


def attention_inputs(size):
    query, key, value = (torch.randn(1, 2, size, 8) for _ in range(3))
    return query, key, value, torch.full((1, 1, 1, 1), torch.nan).expand(1, 1, size, size)


def test_all_other_uses_of_the_mask_give_nan():
    """Outside the context, in another thread, or with other sizes."""
    query, key, value, mask = attention_inputs(4)
    attention = torch.nn.functional.scaled_dot_product_attention
    assert attention(query, key, value, mask).isnan().all()
    with segmented_attention(mask, [Segment(row_start=0, start=0, end=4, mask=None)]), ThreadPoolExecutor(1) as pool:
        assert pool.submit(attention, query, key, value, mask).result().isnan().all()
        assert attention(query[:, :, :3], key, value, mask[:, :, :3]).isnan().all()
        twice = torch.cat([mask, mask], -1)
        assert attention(query, torch.cat([key, key], -2), torch.cat([value, value], -2), twice).isnan().all()
        assert attention(query, key, value, mask).isfinite().all()


@pytest.mark.parametrize("family", ["GPT2", "Llama", "OPT", "GPTNeoX", "Qwen2", "Gemma", "Mixtral"])
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_rows_one_after_the_other_have_the_states_of_single_calls(make_model, family, dtype):
    forward = capability_trial.examined(Forward(make_model(family).to(dtype)))
    assert forward.can.flat
    rows = [CHAIN, TREE, FOREST, TREE, CHAIN]
    found = forward.flat(rows)
    assert found.shape[:2] == (1, 21)
    start = 0
    for row in rows:
        for path in row.picks.values():
            alone = forward.padded([TrieRow([row.tokens[i] for i in path], range(len(path)), {})])[0]
            together = found[0, [start + i for i in path]]
            assert torch.allclose(together, alone, atol=1e-5 if dtype is torch.float32 else 0.1)
        start += len(row.tokens)


# Matrix products


@pytest.fixture
def redirected():
    """Inside, products are redirected whatever the processor is."""
    if not torch.backends.mkldnn.is_available():
        pytest.skip("this build of torch has no oneDNN")
    return fast_products()


@pytest.mark.parametrize(
    ("inputs", "weight", "bias"),
    [
        *(
            (torch.randn(shape), torch.randn(24, 16), torch.randn(24))
            for shape in ((40, 16), (2, 30, 16), (1, 1, 9, 16))
        ),
        (torch.randn(40, 16), torch.randn(24, 16), None),
        (torch.randn(3, 16), torch.randn(24, 16), None),  # few rows
        (torch.randn(30, 16, dtype=torch.float64), torch.randn(24, 16, dtype=torch.float64), None),
        (torch.randn(30, 16).bfloat16(), torch.randn(24, 16).bfloat16(), None),
        (torch.randn(0, 16), torch.randn(24, 16), None),
        (torch.randn(16, 30).t(), torch.randn(24, 32)[:, ::2], None),  # strides
    ],
)
def test_linear_is_the_same(redirected, inputs, weight, bias):
    with torch.inference_mode():
        expected = torch.nn.functional.linear(inputs, weight, bias)
        with redirected:
            found = torch.nn.functional.linear(inputs, weight, bias)
    assert (found.dtype, found.shape) == (expected.dtype, expected.shape)
    assert torch.allclose(found, expected, atol=1e-4)


# -- compiled layers return what the layers return, and leave the model as it was


no_compiler = setuptools is None or shutil.which("g++") is None
needs_compiler = pytest.mark.skipif(no_compiler, reason="torch.compile needs setuptools and a C++ compiler")

WORDS = ["person", "number", "the good city"]
STEM = "who is the good person ? it is "
TREES = [STEM + end for end in ("the city", "the city of the number", "a number", "", "who who who who")] + [
    "good " * count for count in range(1, 60, 7)
]
"""Trees and chains of many lengths."""
QUERIES = [[f"{label} {text}" for label in WORDS] for text in ("the city is good", "who", "it is the number ?")]


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
        for prompts in (TREES, QUERIES, TREES[:1]):
            assert compiled.batch(prompts, WORDS) == close(plain.batch(prompts, WORDS))
        assert compiled.hidden_states(TREES).tolist() == close(plain.hidden_states(TREES).tolist(), 1e-4)
    assert plain.runner().forward.compiled is None
    before = torch._dynamo.utils.counters["stats"]["unique_graphs"]
    for count in range(2, 40):  # other lengths need no other code
        compiled.batch(["the " * count, "who " * (2 * count)], WORDS)
    assert torch._dynamo.utils.counters["stats"]["unique_graphs"] == before


@needs_compiler
def test_compiled_layers_that_differ_on_prompts_of_the_run_are_refused(both, monkeypatch):
    """Without them, the numbers would not be those of an identity that says compile=True."""
    plain, compiled = both()
    monkeypatch.setattr(batching, "_deviation", lambda *_: 9.0)
    for _ in range(2):
        with pytest.raises(RunEndingError, match=r"compiled layers .*\(9\.0 times"):
            compiled.batch(TREES, WORDS)
        with pytest.raises(RunEndingError):  # again, also for one prompt
            compiled.batch(TREES[:1], WORDS)
    plain.batch(TREES, WORDS)
    with pytest.raises(RunEndingError, match=r"cannot be compiled here \(batches differ"):
        CausalLMKernel(plain.model, plain.tokenizer, compile=True).batch(TREES, WORDS)

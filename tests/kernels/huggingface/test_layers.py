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
"""Four prompts of different lengths."""
LAYERS, WIDTH = 2, 32
"""The size of the tiny models."""


def close(rows, abs=1e-5):
    """Return what equals rows of numbers but for rounding."""
    return [pytest.approx(row, abs=abs) for row in rows]


# -- states of layers, and predictions with replaced states


@pytest.fixture(params=["Llama", "GPT2", "OPT", "GPTNeoX", "Gemma2"])
def family_kernel(request: pytest.FixtureRequest, make_model: Any, tokenizer: Any) -> CausalLMKernel:
    """Return the kernel of a tiny model of a family, which needs several batches for the prompts."""
    return CausalLMKernel(make_model(request.param), tokenizer, token_budget=64)


def test_there_is_one_state_for_each_prompt_and_layer(family_kernel: Any) -> None:
    assert family_kernel.layer_states(PROMPTS).shape == (len(PROMPTS), LAYERS, WIDTH)


def test_the_state_of_a_layer_is_that_of_the_last_token_in_a_single_pass(family_kernel: Any, tokenizer: Any) -> None:
    """Of the first layer: after the last one, transformers returns states that are normalised."""
    states_of_prompts = family_kernel.layer_states(PROMPTS)

    for prompt, states in zip(PROMPTS, states_of_prompts, strict=True):
        ids = torch.tensor([tokenizer(prompt)["input_ids"]])
        with torch.no_grad():
            outputs = family_kernel.model(ids, output_hidden_states=True)
        _embeddings, after_first_layer, _after_last_layer = outputs.hidden_states
        last_token = after_first_layer[0, -1].numpy()
        assert states[0] == pytest.approx(last_token, abs=1e-4), prompt


@pytest.mark.parametrize("layer", range(LAYERS))
def test_the_state_of_the_prompt_itself_changes_no_prediction(family_kernel: Any, layer: int) -> None:
    states_of_prompts = family_kernel.layer_states(PROMPTS)
    usual_rows = family_kernel.batch(PROMPTS, LABELS)

    for prompt, states, usual_row in zip(PROMPTS, states_of_prompts, usual_rows, strict=True):
        (row,) = family_kernel.patched([prompt], LABELS, layer, states[layer])
        assert row == pytest.approx(usual_row, abs=1e-5), prompt


def test_the_state_of_the_last_layer_alone_decides_the_prediction(family_kernel: Any) -> None:
    """With the state of one prompt there, all prompts have its prediction."""
    last_layer = LAYERS - 1
    (states,) = family_kernel.layer_states([PROMPTS[2]])
    (row_of_prompt_2,) = family_kernel.batch([PROMPTS[2]], LABELS)

    rows = family_kernel.patched(PROMPTS, LABELS, last_layer, states[last_layer])

    assert rows == close([row_of_prompt_2] * len(PROMPTS))


def test_after_the_state_of_the_first_layer_the_prompt_still_matters(family_kernel: Any) -> None:
    """The second layer reads the other positions."""
    first_layer = 0
    (states,) = family_kernel.layer_states([PROMPTS[2]])
    (row_of_prompt_2,) = family_kernel.batch([PROMPTS[2]], LABELS)

    rows = family_kernel.patched(PROMPTS, LABELS, first_layer, states[first_layer])

    assert rows != close([row_of_prompt_2] * len(PROMPTS))


def test_a_replaced_state_leaves_no_hook_in_the_model(family_kernel: Any) -> None:
    before = family_kernel.batch(PROMPTS, LABELS)
    state = [1.0] * WIDTH
    family_kernel.patched(PROMPTS, LABELS, 0, state)

    assert family_kernel.batch(PROMPTS, LABELS) == close(before, 1e-6)


# -- steering


def steered_state(state: Any, vector: list[float], strength: float) -> Any:
    """Return a state that is moved towards a vector and keeps its length: with unit vectors x and v,

    x + strength * (1 + max(0, -cos(x, v))) * v, scaled to the length of the state.
    """
    length = numpy.linalg.norm(state)
    x = state / length
    v = numpy.array(vector) / numpy.linalg.norm(vector)
    cosine = float(x @ v)
    moved = x + strength * (1 + max(0.0, -cosine)) * v
    return length * moved / numpy.linalg.norm(moved)


def steer_by_hand(network: Any, vector: list[float], strength: float) -> None:
    """Let a feed-forward network steer its output to a vector, position by position."""

    def hook(module: Any, inputs: Any, output: Any) -> Any:
        (states,) = output.double().numpy()
        steered = [steered_state(state, vector, strength) for state in states]
        return torch.tensor(numpy.array([steered]), dtype=output.dtype)

    network.register_forward_hook(hook)


def feed_forward_networks(model: Any) -> list[Any]:
    """Return the feed-forward network of each layer."""
    return [module for name, module in model.named_modules() if name.endswith(".mlp")]


VECTORS = numpy.random.default_rng(3).normal(size=(LAYERS, WIDTH)).tolist()
"""One for each layer."""


@pytest.fixture(params=["Llama", "GPT2", "GPTNeoX", "Gemma2"])
def steerable_kernel(request: pytest.FixtureRequest, make_model: Any, tokenizer: Any) -> CausalLMKernel:
    """Return the kernel of a tiny model whose layers have a feed-forward network with the name mlp."""
    return CausalLMKernel(make_model(request.param), tokenizer, token_budget=64)


def label_probabilities_of(model: Any, tokenizer: Any, prompt: str) -> list[float]:
    """Return the probabilities of the last tokens of the labels after a prompt, from one call of the model."""
    ids = torch.tensor([tokenizer(prompt)["input_ids"]])
    label_tokens = [tokenizer(label)["input_ids"][-1] for label in LABELS]
    with torch.no_grad():
        logits = model(ids, use_cache=False).logits[0, -1, label_tokens]
    probabilities: list[float] = logits.double().softmax(-1).tolist()
    return probabilities


def test_steered_models_turn_the_feed_forward_output_at_all_positions(steerable_kernel: Any, tokenizer: Any) -> None:
    steered = steerable_kernel.steered(PROMPTS, LABELS, VECTORS, 0.8)

    model = steerable_kernel.model
    for network, vector in zip(feed_forward_networks(model), VECTORS, strict=True):
        steer_by_hand(network, vector, 0.8)
    for prompt, row in zip(PROMPTS, steered, strict=True):
        expected = label_probabilities_of(model, tokenizer, prompt)
        assert row == pytest.approx(expected, abs=1e-5), prompt


def test_steering_changes_predictions(steerable_kernel: Any) -> None:
    usual = steerable_kernel.batch(PROMPTS, LABELS)
    assert steerable_kernel.steered(PROMPTS, LABELS, VECTORS, 0.8) != close(usual, 1e-3)


def test_steering_of_strength_zero_changes_no_prediction(steerable_kernel: Any) -> None:
    usual = steerable_kernel.batch(PROMPTS, LABELS)
    assert steerable_kernel.steered(PROMPTS, LABELS, VECTORS, 0.0) == close(usual)


def test_the_length_of_a_steering_vector_does_not_matter(steerable_kernel: Any) -> None:
    longer = [[5 * number for number in vector] for vector in VECTORS]
    steered = steerable_kernel.steered(PROMPTS, LABELS, VECTORS, 0.8)
    assert steerable_kernel.steered(PROMPTS, LABELS, longer, 0.8) == close(steered)


def test_steering_leaves_no_hook_in_the_model(steerable_kernel: Any) -> None:
    before = steerable_kernel.batch(PROMPTS, LABELS)
    steerable_kernel.steered(PROMPTS, LABELS, VECTORS, 0.8)
    assert steerable_kernel.batch(PROMPTS, LABELS) == close(before, 1e-6)


def test_steering_needs_a_vector_for_each_layer(make_model: Any, tokenizer: Any) -> None:
    kernel = CausalLMKernel(make_model("Llama"), tokenizer)
    with pytest.raises(ArgumentError, match=r"vectors: got 1, expected 2, one for each layer"):
        kernel.steered(PROMPTS, LABELS, [[1.0] * 32], 0.1)


def test_steering_needs_vectors_as_wide_as_the_states(make_model: Any, tokenizer: Any) -> None:
    kernel = CausalLMKernel(make_model("Llama"), tokenizer)
    with pytest.raises(ArgumentError, match=r"vector of layer 1: got 31 numbers, expected 32"):
        kernel.steered(PROMPTS, LABELS, [[1.0] * 32, [1.0] * 31], 0.1)


def test_steering_needs_layers_with_a_module_mlp(make_model: Any, tokenizer: Any) -> None:
    kernel = CausalLMKernel(make_model("OPT"), tokenizer)
    with pytest.raises(ArgumentError, match=r"layer 0 of OPTForCausalLM has no module mlp"):
        kernel.steered(PROMPTS, LABELS, VECTORS, 0.1)


def test_steering_needs_labels_of_one_token(make_model: Any, tokenizer: Any) -> None:
    kernel = CausalLMKernel(make_model("Llama"), tokenizer, label_scoring="full")
    with pytest.raises(ArgumentError, match=r"label_scoring: got 'full'"):
        kernel.steered(PROMPTS, LABELS, VECTORS, 0.1)


# -- replaced operators return what those of torch return, only where they may; others see NaN or the usual result


def random_tensor(*shape: int) -> Any:
    """Return a tensor of normal random numbers, the same for the same shape."""
    return torch.randn(shape, generator=torch.Generator().manual_seed(0))


QUERY, KEY, VALUE = random_tensor(3, 1, 2, 4, 8)
"""What attention needs for one sequence, two heads, four positions and a width of eight."""


@pytest.fixture
def nan_mask() -> Any:
    """Return a mask of four positions that gives NaN wherever it is used, instead of being replaced by segments."""
    return torch.full((1, 1, 4, 4), torch.nan)


WHOLE = [Segment(row_start=0, start=0, end=4, mask=None)]
"""All four positions are one segment with causal attention."""


def attention(query: Any, key: Any, value: Any, mask: Any) -> Any:
    return torch.nn.functional.scaled_dot_product_attention(query, key, value, mask)


def test_attention_by_segments_does_not_use_the_mask(nan_mask: Any) -> None:
    with segmented_attention(nan_mask, WHOLE):
        by_segments = attention(QUERY, KEY, VALUE, nan_mask)

    causal = torch.nn.functional.scaled_dot_product_attention(QUERY, KEY, VALUE, is_causal=True)
    assert torch.allclose(by_segments, causal, atol=1e-6)


def test_after_the_context_the_mask_is_used(nan_mask: Any) -> None:
    with segmented_attention(nan_mask, WHOLE):
        pass
    assert attention(QUERY, KEY, VALUE, nan_mask).isnan().all()


def test_another_thread_uses_the_mask(nan_mask: Any) -> None:
    with segmented_attention(nan_mask, WHOLE), ThreadPoolExecutor(1) as other_thread:
        result = other_thread.submit(attention, QUERY, KEY, VALUE, nan_mask).result()
    assert result.isnan().all()


def test_attention_of_fewer_queries_uses_the_mask(nan_mask: Any) -> None:
    with segmented_attention(nan_mask, WHOLE):
        result = attention(QUERY[:, :, :3], KEY, VALUE, nan_mask[:, :, :3])
    assert result.isnan().all()


def test_attention_to_more_keys_uses_the_mask(nan_mask: Any) -> None:
    keys, values = torch.cat([KEY, KEY], dim=-2), torch.cat([VALUE, VALUE], dim=-2)
    with segmented_attention(nan_mask, WHOLE):
        result = attention(QUERY, keys, values, torch.cat([nan_mask, nan_mask], dim=-1))
    assert result.isnan().all()


CHAIN = TrieRow(tokens=(5, 6, 7), depths=(0, 1, 2), wanted_positions={0: (0, 1, 2)})
"""One sequence: 5 6 7."""
TREE = TrieRow((5, 6, 8, 9, 4, 3), (0, 1, 2, 2, 3, 1), {1: (0, 1, 2), 2: (0, 1, 3, 4), 3: (0, 5)})
"""Three sequences with the same beginning: 5 6 8, 5 6 9 4 and 5 3."""
FOREST = TrieRow((5, 6, 7), (0, 0, 1), {4: (0,), 5: (1, 2)})
"""Two sequences, of which the second one begins anew: 5, and 6 7."""


def states_of_single_call(forward, sequence):
    """Return the states of the tokens of one sequence, which is computed without others."""
    unbranched = TrieRow(sequence, range(len(sequence)), {})
    (states,) = forward.padded([unbranched])
    return states


@pytest.mark.parametrize("family", ["GPT2", "Llama", "OPT", "GPTNeoX", "Qwen2", "Gemma", "Mixtral"])
@pytest.mark.parametrize(("dtype", "rounding"), [(torch.float32, 1e-5), (torch.bfloat16, 0.1)])
def test_rows_one_after_the_other_have_the_states_of_single_calls(make_model, family, dtype, rounding):
    forward = capability_trial.examined(Forward(make_model(family).to(dtype)))
    assert forward.capabilities.flat, forward.capabilities.reason

    rows = [CHAIN, TREE, FOREST, TREE, CHAIN]
    (states_of_all_rows,) = forward.flat(rows)

    states_of_rows = states_of_all_rows.split([len(row.tokens) for row in rows])
    for row, states in zip(rows, states_of_rows, strict=True):
        for positions in row.wanted_positions.values():
            sequence = [row.tokens[position] for position in positions]
            states_in_row = states[list(positions)]
            states_alone = states_of_single_call(forward, sequence)
            assert torch.allclose(states_in_row, states_alone, atol=rounding), f"the sequence {sequence} of {row}"


# Matrix products


@pytest.fixture
def redirected():
    """Inside, products are redirected whatever the processor is."""
    if not torch.backends.mkldnn.is_available():
        pytest.skip("this build of torch has no oneDNN")
    return fast_products()


INPUTS, WEIGHT, BIAS = random_tensor(40, 16), random_tensor(24, 16), random_tensor(24)


@pytest.mark.parametrize(
    ("inputs", "weight", "bias"),
    [
        pytest.param(INPUTS, WEIGHT, BIAS, id="rows"),
        pytest.param(random_tensor(2, 30, 16), WEIGHT, BIAS, id="rows of two sequences"),
        pytest.param(random_tensor(1, 1, 9, 16), WEIGHT, BIAS, id="four dimensions"),
        pytest.param(INPUTS, WEIGHT, None, id="no bias"),
        pytest.param(INPUTS[:3], WEIGHT, None, id="few rows"),
        pytest.param(INPUTS[:0], WEIGHT, None, id="no rows"),
        pytest.param(INPUTS.double(), WEIGHT.double(), None, id="float64"),
        pytest.param(INPUTS.bfloat16(), WEIGHT.bfloat16(), None, id="bfloat16"),
        pytest.param(random_tensor(16, 30).t(), random_tensor(24, 32)[:, ::2], None, id="strides"),
    ],
)
def test_redirected_products_are_those_of_torch(redirected, inputs, weight, bias):
    with torch.inference_mode():
        expected = torch.nn.functional.linear(inputs, weight, bias)
        with redirected:
            product = torch.nn.functional.linear(inputs, weight, bias)

    assert product.dtype == expected.dtype
    assert product.shape == expected.shape
    assert torch.allclose(product, expected, atol=1e-4)


# -- compiled layers return what the layers return, and leave the model as it was


no_compiler = setuptools is None or shutil.which("g++") is None
needs_compiler = pytest.mark.skipif(no_compiler, reason="torch.compile needs setuptools and a C++ compiler")

WORDS = ["person", "number", "the good city"]
STEM = "who is the good person ? it is "
TREES = [STEM + end for end in ("the city", "the city of the number", "a number", "", "who who who who")] + [
    "good " * count for count in range(1, 60, 7)
]
"""Prompts that share beginnings, and prompts of many lengths."""
QUERIES = [[f"{label} {text}" for label in WORDS] for text in ("the city is good", "who", "it is the number ?")]
"""The three prompts of each query of a noisy channel."""


@pytest.fixture
def kernel_pair(make_model, tokenizer):
    """A function that returns two kernels of one model: without and with compiled layers."""
    torch._dynamo.reset()  # code that other tests compiled for the same class counts towards its limit of versions

    def make(family="Llama", **options):
        model = make_model(family)
        return [CausalLMKernel(model, tokenizer, compile=flag, **options) for flag in (False, True)]

    return make


def compiled_graphs() -> int:
    """Return how many graphs torch has compiled in this process."""
    return torch._dynamo.utils.counters["stats"]["unique_graphs"]


families_to_compile = pytest.mark.parametrize(
    "family",
    ["Llama", "GPT2", *(pytest.param(name, marks=pytest.mark.slow) for name in ("OPT", "GPTNeoX", "Qwen2", "Gemma"))],
)


@needs_compiler
@families_to_compile
@pytest.mark.parametrize("scoring", ["last", "full"])
def test_compiled_layers_return_what_the_layers_return(kernel_pair, family, scoring):
    plain, compiled = kernel_pair(family, label_scoring=scoring)

    for prompts in (TREES, QUERIES, TREES[:1]):
        assert compiled.batch(prompts, WORDS) == close(plain.batch(prompts, WORDS)), prompts
    assert compiled.hidden_states(TREES).tolist() == close(plain.hidden_states(TREES).tolist(), 1e-4)


@needs_compiler
@families_to_compile
def test_prompts_of_other_lengths_need_no_other_compiled_code(kernel_pair, family):
    _, compiled = kernel_pair(family)
    compiled.batch(TREES, WORDS)
    graphs_before = compiled_graphs()

    for count in range(2, 40):
        prompts_of_new_lengths = ["the " * count, "who " * (2 * count)]
        compiled.batch(prompts_of_new_lengths, WORDS)

    assert compiled_graphs() == graphs_before


@needs_compiler
def test_a_compiled_kernel_leaves_the_other_kernel_of_its_model_as_it_was(kernel_pair):
    plain, compiled = kernel_pair()
    compiled.batch(TREES, WORDS)
    plain.batch(TREES, WORDS)
    assert plain.runner().forward.compiled is None


@pytest.fixture
def batches_that_differ(monkeypatch):
    """Let each comparison of a batch with a single call find nine times what rounding explains."""
    monkeypatch.setattr(batching, "_deviation", lambda *_: 9.0)


@needs_compiler
@pytest.mark.usefixtures("batches_that_differ")
def test_compiled_layers_that_differ_on_prompts_of_the_run_are_refused_each_time(kernel_pair):
    """Without them, the numbers would not be those of an identity that says compile=True."""
    _, compiled = kernel_pair()
    for prompts in (TREES, TREES[:1], TREES):
        with pytest.raises(RunEndingError, match=r"compiled layers .*\(9\.0 times"):
            compiled.batch(prompts, WORDS)


@needs_compiler
@pytest.mark.usefixtures("batches_that_differ")
def test_a_model_whose_batches_differ_without_compilation_cannot_be_compiled(kernel_pair):
    plain, _ = kernel_pair()
    plain.batch(TREES, WORDS)  # finds that batches of the model differ

    compiled = CausalLMKernel(plain.model, plain.tokenizer, compile=True)
    with pytest.raises(RunEndingError, match=r"cannot be compiled here \(batches differ"):
        compiled.batch(TREES, WORDS)

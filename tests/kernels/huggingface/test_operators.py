"""Replaced operators return what those of torch return, only where they may; others see NaN or the usual result."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from contextlib import nullcontext

import pytest

from StaICC.kernels.huggingface import forward as operators
from StaICC.kernels.huggingface.forward import Forward, Segment, segmented_attention
from StaICC.kernels.huggingface.kernel import CausalLMKernel
from StaICC.kernels.huggingface.prefix_plan import Row

torch = pytest.importorskip("torch")
pytest.importorskip("transformers")

LABELS = ["person", "number"]
CHAIN = Row((5, 6, 7), (-1, 0, 1), ((0, 2),), 0)
TREE = Row((5, 6, 8, 9, 4, 3), (-1, 0, 1, 1, 3, 0), ((1, 2), (2, 4), (3, 5)), 0)
FOREST = Row((5, 6, 7), (-1, -1, 1), ((4, 0), (5, 2)), 0)
"""The second sequence begins anew."""


def attention_inputs(size):
    query, key, value = (torch.randn(1, 2, size, 8) for _ in range(3))
    return query, key, value, torch.full((1, 1, 1, 1), torch.nan).expand(1, 1, size, size)


def test_all_other_uses_of_the_mask_give_nan():
    """Outside the context, in another thread, or with other sizes."""
    query, key, value, mask = attention_inputs(4)
    attention = torch.nn.functional.scaled_dot_product_attention
    assert attention(query, key, value, mask).isnan().all()
    with segmented_attention(mask, [Segment(0, 0, 4)]), ThreadPoolExecutor(1) as pool:
        assert pool.submit(attention, query, key, value, mask).result().isnan().all()
        assert attention(query[:, :, :3], key, value, mask[:, :, :3]).isnan().all()
        twice = torch.cat([mask, mask], -1)
        assert attention(query, torch.cat([key, key], -2), torch.cat([value, value], -2), twice).isnan().all()
        assert attention(query, key, value, mask).isfinite().all()


@pytest.mark.parametrize("family", ["GPT2", "Llama", "OPT", "GPTNeoX", "Qwen2", "Gemma", "Mixtral"])
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_rows_one_after_the_other_have_the_states_of_single_calls(make_model, family, dtype):
    forward = Forward(make_model(family).to(dtype))
    assert forward.can.flat
    rows = [CHAIN, TREE, FOREST, TREE, CHAIN]
    found = forward.flat(rows).states
    assert found.shape[:2] == (1, 21)
    start = 0
    for row in rows:
        for _, end in row.ends:
            path = row.path(end, 0)
            alone = forward.chains([[row.tokens[i] for i in path]]).states[0]
            together = found[0, [start + i for i in path]]
            assert torch.allclose(together, alone, atol=1e-5 if dtype is torch.float32 else 0.1)
        start += len(row.tokens)


def test_a_model_with_other_attention_is_padded(make_model, model, tokenizer):
    kernel = CausalLMKernel(make_model("Llama", attn_implementation="eager"), tokenizer)
    assert not kernel.runner().forward.can.flat
    assert kernel.runner().forward.flat([CHAIN, CHAIN]).states.isnan().any()
    prompts = ["the good city", "who", "a"]
    found = kernel.score(prompts, LABELS)
    assert found.report.padding > 0
    usual = CausalLMKernel(model, tokenizer)
    assert found.probabilities == [pytest.approx(row, abs=1e-5) for row in usual.batch(prompts, LABELS)]
    # transformers lays out the queries of one position in another way where heads share keys.
    assert usual.batch(["a"], LABELS)[0] == pytest.approx(found.probabilities[2], abs=1e-5)


def test_prompts_of_all_lengths_are_one_call_without_padding(model, tokenizer):
    kernel = CausalLMKernel(model, tokenizer)
    report = kernel.score(["good " * count for count in range(1, 30)], LABELS).report
    assert (report.calls, report.padding) == (1, 0)


# Matrix products


@pytest.fixture
def redirected():
    """Inside, products are redirected whatever the processor is."""
    if operators._product(torch) is None:
        pytest.skip("this build of torch has no oneDNN")
    return operators.fast_linear(True)


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


def test_products_with_weights_the_other_way_round(redirected):
    inputs, weight, bias = torch.randn(30, 16), torch.randn(16, 24), torch.randn(24)
    expected = torch.addmm(bias, inputs, weight)
    with torch.inference_mode(), redirected:
        assert torch.allclose(torch.addmm(bias, inputs, weight), expected, atol=1e-4)


@pytest.mark.parametrize(
    ("capability", "facts", "mkl", "expected"),
    [
        ("AVX512", "vendor_id : AuthenticAMD", True, True),
        ("AVX512_BF16", "vendor_id : AuthenticAMD", True, True),
        ("AVX512", "vendor_id : GenuineIntel", True, False),
        ("AVX512", "vendor_id : GenuineIntel", False, True),
        ("AVX2", "vendor_id : AuthenticAMD", True, False),
        ("DEFAULT", "", True, False),
    ],
)
def test_the_processor_decides(monkeypatch, redirected, capability, facts, mkl, expected):
    """A timing trial would let results depend on how busy the machine is."""
    monkeypatch.setattr(torch.backends.cpu, "get_cpu_capability", lambda: capability)
    monkeypatch.setattr(torch.backends.mkl, "is_available", lambda: mkl)
    monkeypatch.setattr(operators.Path, "read_text", lambda *_: facts)
    assert operators.uses_onednn.__wrapped__() is expected
    monkeypatch.setattr(operators, "_product", lambda torch: None)  # a missing operator is no error
    assert operators.uses_onednn.__wrapped__() is False
    assert isinstance(operators.fast_linear(False), nullcontext)

"""Replaced operators return what those of torch return, only where they may; others see NaN or the usual result."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor

import pytest

from StaICC.kernels.huggingface import forward as operators
from StaICC.kernels.huggingface.forward import Forward, Row, Segment, segmented_attention

torch = pytest.importorskip("torch")
pytest.importorskip("transformers")

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
            path = row.path(end, row.depths()[end] + 1)
            alone = forward.chains([[row.tokens[i] for i in path]]).states[0]
            together = found[0, [start + i for i in path]]
            assert torch.allclose(together, alone, atol=1e-5 if dtype is torch.float32 else 0.1)
        start += len(row.tokens)


# Matrix products


@pytest.fixture
def redirected():
    """Inside, products are redirected whatever the processor is."""
    if not torch.backends.mkldnn.is_available():
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

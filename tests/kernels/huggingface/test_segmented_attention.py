"""Attention by segments gives what the complete mask gives, and a model that does not use it gives NaN."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor

import pytest

from StaICC.kernels.huggingface.forward import ModelCalls, examine
from StaICC.kernels.huggingface.kernel import CausalLMKernel
from StaICC.kernels.huggingface.operators import Segment, segmented_attention
from StaICC.kernels.huggingface.prefix_plan import Row

torch = pytest.importorskip("torch")
pytest.importorskip("transformers")

LABELS = ["person", "number"]
CHAIN = Row((5, 6, 7), (-1, 0, 1), ((0, 2),), 0)
TREE = Row((5, 6, 8, 9, 4, 3), (-1, 0, 1, 1, 3, 0), ((1, 2), (2, 4), (3, 5)), 0)
FOREST = Row((5, 6, 7), (-1, -1, 1), ((4, 0), (5, 2)), 0)
"""The second sequence begins anew."""


def random_inputs(size, heads=2):
    return [torch.randn(1, heads, size, 8) for _ in range(3)]


def test_segments_equal_the_complete_mask():
    """The oracle is softmax attention with the complete mask, written out."""
    torch.manual_seed(0)
    query, key, value = random_inputs(9)
    own = torch.tensor([[1, 0, 1, 0], [0, 1, 0, 1]]).bool()
    allowed = torch.zeros(9, 9, dtype=torch.bool)
    allowed[:3, :3] = torch.ones(3, 3).tril().bool()
    allowed[3:5, 3:5] = torch.ones(2, 2).tril().bool()
    allowed[5:7, 3:7] = own
    allowed[7:, 7:] = torch.ones(2, 2).tril().bool()
    weights = (query @ key.transpose(-1, -2) / 8**0.5).masked_fill(~allowed, -torch.inf).softmax(-1)
    mask = torch.full((1, 1, 1, 1), torch.nan).expand(1, 1, 9, 9)
    additive = torch.zeros(2, 4).masked_fill(~own, torch.finfo(torch.float32).min)[None, None]
    pieces = [Segment(0, 0, 3), Segment(3, 3, 5), Segment(3, 5, 7, additive), Segment(7, 7, 9)]
    attention = torch.nn.functional.scaled_dot_product_attention
    with segmented_attention(mask, pieces):
        found = attention(query, key, value, attn_mask=mask)
        positional = attention(query, key, value, mask[:, :, :, :9])
        without_mask = attention(query, key, value, is_causal=True)
        other_mask = attention(query, key, value, torch.zeros(9, 9))
    assert torch.allclose(found, weights @ value, atol=1e-5)
    assert torch.equal(found, positional)
    assert torch.allclose(without_mask, attention(query, key, value, is_causal=True), atol=1e-6)
    assert torch.allclose(other_mask, attention(query, key, value), atol=1e-6)


@pytest.mark.parametrize("change", ["shorter mask", "longer keys", "outside"])
def test_all_other_uses_of_the_mask_give_nan(change):
    query, key, value = random_inputs(4)
    mask = torch.full((1, 1, 1, 1), torch.nan).expand(1, 1, 4, 4)
    attention = torch.nn.functional.scaled_dot_product_attention
    if change == "outside":
        assert attention(query, key, value, mask).isnan().all()
        return
    with segmented_attention(mask, [Segment(0, 0, 4)]):
        if change == "shorter mask":
            query, used = query[:, :, :3], mask[:, :, :3]
        else:
            key, value, used = torch.cat([key, key], -2), torch.cat([value, value], -2), mask.expand(1, 1, 4, 4)
            used = torch.cat([used, used], -1)
        assert attention(query, key, value, used).isnan().all()


@pytest.mark.parametrize("family", ["GPT2", "Llama", "OPT", "GPTNeoX", "Qwen2", "Gemma", "Mixtral"])
@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
def test_rows_one_after_the_other_have_the_states_of_single_calls(make_model, family, dtype):
    model = make_model(family).to(getattr(torch, dtype))
    calls = ModelCalls(model)
    assert examine(calls).can.flat
    rows = [CHAIN, TREE, FOREST, TREE, CHAIN]
    found = calls.flat(rows).states
    assert found.shape[:2] == (1, 21)
    start = 0
    for row in rows:
        for _, end in row.ends:
            path = row.path(end, 0)
            alone = calls.chains([[row.tokens[i] for i in path]]).states[0]
            together = found[0, [start + i for i in path]]
            assert torch.allclose(together, alone, atol=1e-5 if dtype == "float32" else 0.1)
        start += len(row.tokens)


def test_a_model_with_other_attention_is_padded(make_model, make_tokenizer):
    model = make_model("Llama", attn_implementation="eager")
    calls = ModelCalls(model)
    assert calls.flat([CHAIN, CHAIN]).states.isnan().any()
    kernel = CausalLMKernel(model, make_tokenizer())
    assert not kernel.runner().forward.can.flat
    found = kernel.score(["the good city", "who"], LABELS)
    assert found.report.padding > 0
    usual = CausalLMKernel(make_model("Llama"), make_tokenizer())
    for row, expected in zip(found.probabilities, usual.batch(["the good city", "who"], LABELS), strict=True):
        assert row == pytest.approx(expected, abs=1e-5)


def test_prompts_of_all_lengths_are_one_call_without_padding(make_model, make_tokenizer):
    kernel = CausalLMKernel(make_model("Llama"), make_tokenizer())
    prompts = ["good " * count for count in range(1, 30)]
    kernel.score(prompts, LABELS)
    report = kernel.score(prompts, LABELS).report
    assert (report.calls, report.padding) == (1, 0)


@pytest.mark.parametrize("family", ["Llama", "GPT2"])
def test_a_prompt_of_one_token_alone(make_model, make_tokenizer, family):
    """transformers lays out the queries of one position in another way where heads share keys."""
    kernel = CausalLMKernel(make_model(family), make_tokenizer())
    together = kernel.batch(["a", "who is the good person ?"], LABELS)
    assert kernel.runner().forward.can.flat
    assert kernel.batch(["a"], LABELS)[0] == pytest.approx(together[0], abs=1e-5)


@pytest.mark.parametrize(("dtype", "budget"), [("float32", 1024), ("bfloat16", 2048), ("float64", 512)])
def test_calls_on_a_cpu_are_limited_by_their_bytes(make_model, make_tokenizer, dtype, budget):
    assert CausalLMKernel(make_model("Llama"), make_tokenizer(), dtype=dtype).runner().budget == budget
    assert CausalLMKernel(make_model("Llama"), make_tokenizer(), dtype=dtype, token_budget=77).runner().budget == 77


def test_threads_do_not_share_segments():
    """A call in another thread uses the complete mask."""
    query, key, value = random_inputs(4)
    mask = torch.full((1, 1, 1, 1), torch.nan).expand(1, 1, 4, 4)
    attention = torch.nn.functional.scaled_dot_product_attention
    with segmented_attention(mask, [Segment(0, 0, 4)]), ThreadPoolExecutor(1) as pool:
        assert pool.submit(attention, query, key, value, mask).result().isnan().all()
        assert attention(query, key, value, mask).isfinite().all()

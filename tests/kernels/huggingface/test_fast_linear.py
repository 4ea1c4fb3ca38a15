"""Redirected products give the same numbers, and only plain float32 products on the CPU are redirected."""

from __future__ import annotations

from contextlib import nullcontext

import pytest

from StaICC.kernels.huggingface import operators as module

torch = pytest.importorskip("torch")


@pytest.fixture
def redirected():
    """Inside, products are redirected whatever the processor is."""
    if module._product(torch) is None:
        pytest.skip("this build of torch has no oneDNN")
    return module.fast_linear(True)


@pytest.mark.parametrize("shape", [(40, 16), (2, 30, 16), (1, 1, 9, 16)])
@pytest.mark.parametrize("bias", [True, False])
def test_linear_is_the_same(redirected, shape, bias):
    layer = torch.nn.Linear(16, 24, bias=bias)
    inputs = torch.randn(shape)
    with torch.inference_mode():
        expected = layer(inputs)
        with redirected:
            found = layer(inputs)
    assert found.shape == expected.shape
    assert torch.allclose(found, expected, atol=1e-5)


def test_products_with_weights_the_other_way_round(redirected):
    inputs, weight, bias = torch.randn(30, 16), torch.randn(16, 24), torch.randn(24)
    expected = torch.addmm(bias, inputs, weight)
    with torch.inference_mode(), redirected:
        assert torch.allclose(torch.addmm(bias, inputs, weight), expected, atol=1e-4)


@pytest.mark.parametrize(
    ("inputs", "weight"),
    [
        (torch.randn(3, 16), torch.randn(24, 16)),  # few rows
        (torch.randn(30, 16, dtype=torch.float64), torch.randn(24, 16, dtype=torch.float64)),
        (torch.randn(30, 16).bfloat16(), torch.randn(24, 16).bfloat16()),
        (torch.randn(0, 16), torch.randn(24, 16)),
        (torch.randn(16, 30).t(), torch.randn(24, 32)[:, ::2]),  # strides
    ],
)
def test_what_is_not_plain_gives_the_same_too(redirected, inputs, weight):
    with torch.inference_mode():
        expected = torch.nn.functional.linear(inputs, weight)
        with redirected:
            found = torch.nn.functional.linear(inputs, weight)
    assert found.dtype == expected.dtype
    assert torch.allclose(found, expected, atol=1e-4)


def test_elsewhere_nothing_happens():
    assert isinstance(module.fast_linear(False), nullcontext)


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
def test_the_processor_decides(monkeypatch, capability, facts, mkl, expected):
    """A timing trial would let results depend on how busy the machine is."""
    if module._product(torch) is None:
        pytest.skip("this build of torch has no oneDNN")
    monkeypatch.setattr(torch.backends.cpu, "get_cpu_capability", lambda: capability)
    monkeypatch.setattr(torch.backends.mkl, "is_available", lambda: mkl)
    monkeypatch.setattr(module.Path, "read_text", lambda *_: facts)
    assert module.uses_onednn.__wrapped__() is expected


def test_a_missing_operator_is_no_error(monkeypatch):
    monkeypatch.setattr(module, "_product", lambda torch: None)
    assert module.uses_onednn.__wrapped__() is False

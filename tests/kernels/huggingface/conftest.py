"""Settings of all tests of torch kernels."""

from __future__ import annotations

from collections.abc import Iterator

import pytest


@pytest.fixture(autouse=True, scope="session")
def one_thread() -> Iterator[None]:
    """Small matrices are no faster on more threads, and much slower on a busy machine."""
    try:
        import torch
    except ImportError:  # some of the tests need none
        yield
        return
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)

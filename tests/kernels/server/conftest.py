"""Kernels for the server that answers wrongly on purpose."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parent))

import endpoint_server

from StaICC.kernels.server import transport
from StaICC.kernels.server.endpoint import EndpointKernel


@pytest.fixture
def make_kernel(server):
    """A function that returns a kernel for the server of the test, which retries after a hundredth of a second."""
    pytest.importorskip("openai")
    kernels = []

    def new_kernel(scoring="top-logprobs", **options):
        if scoring == "top-logprobs":
            options.setdefault("unlisted", "bound")
        options = {"backoff": 0.01, "timeout": 5.0, **options}
        kernel = EndpointKernel(server.url, endpoint_server.MODEL, scoring=scoring, **options)
        kernels.append(kernel)
        return kernel

    yield new_kernel
    for kernel in kernels:
        kernel.close()


@pytest.fixture
def waits(monkeypatch):
    """Return the list of the seconds that requests wait for retries; nothing really waits."""
    seconds_waited = []

    def wait(ending, seconds):
        if seconds > 0:
            seconds_waited.append(seconds)
        if ending.error is not None:
            raise ending.error

    monkeypatch.setattr(transport._CallState, "wait", wait)
    return seconds_waited

"""Kernels for the server that answers wrongly on purpose."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parent))

import endpoint_server as wrong

from StaICC.kernels.server.endpoint import EndpointKernel


@pytest.fixture
def make(server):
    kernels = []

    def kernel(scoring="top-logprobs", **options):
        if scoring == "top-logprobs":
            options.setdefault("unlisted", "bound")
        options = {"backoff": 0.01, "timeout": 5.0, **options}
        kernels.append(EndpointKernel(server.url, wrong.MODEL, scoring=scoring, **options))
        return kernels[-1]

    yield kernel
    for made in kernels:
        made.close()

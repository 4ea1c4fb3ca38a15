"""Small results of real runs."""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from typing import Any

import pytest

import StaICC
from StaICC.results.result import Result, ResultGroup


def model(prompt: str, label_space: list[str]) -> list[float]:
    """Return a logit from -8 to 8 for each label, which is a hash of the prompt and the label."""
    logits = []
    for label in label_space:
        digest = hashlib.sha256(f"{prompt}\0{label}".encode()).digest()
        first_byte = digest[0]
        logits.append(first_byte / 16 - 8)
    return logits


def sometimes_failing_model(prompt: str, label_space: list[str]) -> list[float] | None:
    """Return the logits of :func:`model`, but no prediction where the first logit is one of the largest."""
    logits = model(prompt, label_space)
    if logits[0] > 6:
        return None
    return logits


@pytest.fixture(scope="session")
def make_model() -> Callable[..., Any]:
    return model


@pytest.fixture
def result() -> Result:
    return StaICC.Normal(datasets=["mini"], limit=6)(model)


@pytest.fixture
def partial() -> Result:
    return StaICC.GLER(datasets=["mini"], limit=6)(sometimes_failing_model, on_error="collect", return_outputs=True)


@pytest.fixture
def group() -> ResultGroup:
    return StaICC.Suite(datasets=["mini"], limit=3)(model)

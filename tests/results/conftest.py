"""Small results of real runs."""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from typing import Any

import pytest

import StaICC
from StaICC.results.result import Result, ResultGroup


def model(prompt: str, label_space: list[str]) -> list[float]:
    """Logits from a hash."""
    return [hashlib.sha256(f"{prompt}\0{label}".encode()).digest()[0] / 16 - 8 for label in label_space]


def unsure(prompt: str, label_space: list[str]) -> Any:
    """A model that fails now and then."""
    row = model(prompt, label_space)
    return None if row[0] > 6 else row


@pytest.fixture(scope="session")
def make_model() -> Callable[..., Any]:
    return model


@pytest.fixture
def result() -> Result:
    return StaICC.Normal(datasets=["mini"], limit=6)(model)


@pytest.fixture
def partial() -> Result:
    return StaICC.GLER(datasets=["mini"], limit=6)(unsure, on_error="collect", return_outputs=True)


@pytest.fixture
def group() -> ResultGroup:
    return StaICC.Suite(datasets=["mini"], limit=3)(model)

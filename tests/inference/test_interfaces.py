"""Optional attributes of an inference function: one of another kind is refused before the first prompt."""

from __future__ import annotations

from typing import Any
from unittest.mock import MagicMock, Mock

import pytest

import StaICC
import StaICC.benchmarks.running
from StaICC.errors import ArgumentError
from StaICC.inference.identity import Identity
from StaICC.kernels.protocol import Capability, capabilities_of
from StaICC.methods.run import Method


class Model:
    def __call__(self, prompt: str, label_space: list[str]) -> int:
        return 0


class Never(Model):
    def __call__(self, prompt: str, label_space: list[str]) -> int:
        pytest.fail("it was called")


def test_functions_that_pass_attributes_on_or_have_all_or_none_of_them_run() -> None:
    class Inner(Model):
        def identity(self) -> Identity:
            return Identity({"weights": "1"})

    class Wrapper(Model):
        def __init__(self) -> None:
            self.inner = Inner()

        def __getattr__(self, name: str) -> Any:
            if name == "inner":
                raise AttributeError(name)
            return getattr(self.inner, name)

    class Plain(Model):
        identity = batch = None

    class CatchAll(Model):
        def __getattr__(self, name: str) -> Any:
            return lambda *arguments, **more: None

    for function in (Wrapper(), Plain(), CatchAll(), Mock(return_value=0), MagicMock(return_value=0)):
        assert StaICC.Normal(datasets=["mini"], limit=2)(function).complete
    assert capabilities_of(Plain()) == capabilities_of(CatchAll()) == {Capability.LABEL_SCORES}


def test_a_property_that_the_wrapped_object_lacks_is_no_member() -> None:
    class Wrapper(Model):
        """Passes on what not every object has."""

        inner = Model()

        @property
        def tokens_used(self) -> Any:
            return self.inner.tokens_used  # type: ignore[attr-defined]

        @property
        def capabilities(self) -> Any:
            return self.inner.capabilities  # type: ignore[attr-defined]

    assert StaICC.Normal(datasets=["mini"], limit=2)(Wrapper()).complete
    assert capabilities_of(Wrapper()) == {Capability.LABEL_SCORES}
    assert "test_tokens_read" not in Method("vanilla", Wrapper()).run(StaICC.Normal(datasets=["mini"], limit=2)).timing


def test_a_method_says_that_what_is_passed_on_does_not_count() -> None:
    class Wrapper(Model):
        def __getattr__(self, name: str) -> Any:
            if name != "hidden_states":
                raise AttributeError(name)
            return lambda prompts: [[0.0] for _ in prompts]

    with pytest.raises(ArgumentError, match="Define hidden_states in its class"):
        Method("hidden_calibration", Wrapper())


@pytest.mark.parametrize("declared", [{"text"}, [Capability.LABEL_SCORES], "text", {3}, None])
def test_capabilities_of_another_type_are_refused(declared: Any) -> None:
    class Mine(Never):
        capabilities = declared

    with pytest.raises(ArgumentError, match="capabilit"):
        capabilities_of(Mine())
    with pytest.raises(ArgumentError, match="capabilit"):
        Method("hidden_calibration", Mine()).run(StaICC.Normal(datasets=["mini"], limit=2))

"""Kernels that write, as inference functions."""

from __future__ import annotations

import pickle
from typing import Any

import pytest

from StaICC import Normal
from StaICC.errors import ArgumentError
from StaICC.inference.contract import batch_form
from StaICC.inference.identity import Identity, identity_of
from StaICC.kernels.text_inference import text_inference
from StaICC.methods.run import Method, forecast_method


class Parrot:
    def identity(self) -> Identity:
        return Identity({"model": "parrot"})

    def generate(self, prompts: list[str], max_new_tokens: int = 32, stop: Any = ()) -> list[str]:
        assert isinstance(prompts, list)
        return [f"{prompt}|{max_new_tokens}|{stop}" for prompt in prompts]


def test_answers() -> None:
    function = text_inference(Parrot())
    assert function(prompt="a", label_space=["x"]) == "a|100|[]"
    assert function.batch(prompts=("a", "b"), label_space=["x"]) == ["a|100|[]", "b|100|[]"]
    asked = batch_form(function)
    assert asked is not None
    assert asked(["c"], ["x"]) == ["c|100|[]"]
    assert text_inference(Parrot(), 7, ["\n", "Q:"])("a") == "a|7|['\\n', 'Q:']"


def test_identities() -> None:
    functions = [text_inference(Parrot(), tokens, stop) for tokens in (5, 100) for stop in ((), ["\n"], ["a", "b"])]
    identities = [identity_of(function) for function in functions]
    assert len({identity.digest for identity in identities}) == 6
    assert all(dict(one.who) == {"model": "parrot"} and not one.unidentified for one in identities)
    assert text_inference(Parrot()).identity() == text_inference(Parrot(), 100, []).identity()
    assert pickle.loads(pickle.dumps(functions[-1])).identity() == identities[-1]


def test_methods_that_calibrate_scores_are_refused_before_the_run() -> None:
    for forecast_or_run in (forecast_method, lambda name, kernel, _: Method(name, kernel)):
        with pytest.raises(ArgumentError, match="Contextual calibration needs label scores, which TextInference"):
            forecast_or_run("contextual-calibration", text_inference(Parrot()), [Normal(datasets=["mini"], limit=1)])

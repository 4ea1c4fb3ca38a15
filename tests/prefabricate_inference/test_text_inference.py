"""Kernels that write, as inference functions."""

from __future__ import annotations

import pickle
from types import SimpleNamespace
from typing import Any

import pytest

from StaICC.errors import ArgumentError
from StaICC.inference.bound_store import fingerprint_of
from StaICC.inference.contract import batch_form
from StaICC.prefabricate_inference.ppm_kernel import PPMKernel
from StaICC.prefabricate_inference.text_inference import TextInference, text_inference


class Parrot:
    fingerprint = "parrot"

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


def test_fingerprints() -> None:
    found = {
        fingerprint_of(text_inference(Parrot(), tokens, stop))
        for tokens in (5, 100)
        for stop in ((), ["\n"], ["a", "b"])
    }
    assert len(found) == 6
    assert all(one.startswith("text|") and one.endswith("|parrot") for one in found)
    assert text_inference(Parrot()).fingerprint == text_inference(Parrot(), 100, []).fingerprint


def test_a_kernel_without_fingerprint_needs_a_name() -> None:
    class Nameless:
        generate = Parrot.generate

    function = text_inference(Nameless())
    with pytest.raises(ArgumentError, match="Nameless has no fingerprint"):
        fingerprint_of(function)
    assert fingerprint_of(function, "m") == "name:m"


def test_pickling() -> None:
    function = text_inference(SimpleNamespace(generate=zip, fingerprint="zip"), 9, ["x"])
    again = pickle.loads(pickle.dumps(function))
    assert isinstance(again, TextInference)
    assert again == function
    assert again.fingerprint == function.fingerprint == "text|9|['x']|zip"


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ((PPMKernel(),), "PPMKernel has no method generate"),
        ((Parrot(), 0), "max_new_tokens must be a positive integer, not 0"),
        ((Parrot(), True), "not True"),
        ((Parrot(), 5, "\n"), "stop must be a list of non-empty texts"),
        ((Parrot(), 5, [""]), "stop must be a list of non-empty texts"),
    ],
)
def test_bad_arguments(arguments: tuple[Any, ...], said: str) -> None:
    with pytest.raises(ArgumentError, match=said):
        text_inference(*arguments)

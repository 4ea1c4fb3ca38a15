"""Kernels that write, as inference functions."""

from __future__ import annotations

import pickle
from typing import Any

import pytest

from StaICC.errors import ArgumentError
from StaICC.inference.contract import batch_form
from StaICC.inference.identity import Identity, identity_of
from StaICC.inference.store_names import name_in_store
from StaICC.kernels.ppm import PPMKernel
from StaICC.kernels.text_inference import TextInference, text_inference


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
    found = [
        identity_of(text_inference(Parrot(), tokens, stop)) for tokens in (5, 100) for stop in ((), ["\n"], ["a", "b"])
    ]
    assert len({one.digest for one in found}) == 6
    assert all(dict(one.who) == {"model": "parrot"} and not one.unidentified for one in found)
    assert text_inference(Parrot()).identity() == text_inference(Parrot(), 100, []).identity()


def test_a_kernel_that_cannot_be_identified_needs_a_name() -> None:
    class Nameless:
        def __init__(self) -> None:
            self.table = {"a": "b"}

        def generate(self, prompts: list[str], max_new_tokens: int = 32, stop: Any = ()) -> list[str]:
            return [self.table[prompt] for prompt in prompts]

    identity = identity_of(text_inference(Nameless()))
    assert identity.unidentified == ("attribute 'table' is a dict, which can change",)
    with pytest.raises(ArgumentError, match="attribute 'table' is a dict, which can change"):
        name_in_store(identity)
    assert name_in_store(identity, "m").endswith(" name:m")


def test_pickling() -> None:
    function = text_inference(Parrot(), 9, ["x"])
    again = pickle.loads(pickle.dumps(function))
    assert isinstance(again, TextInference)
    assert again.identity() == function.identity()
    assert (again.max_new_tokens, again.stop) == (9, ("x",))


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ((PPMKernel(),), "PPMKernel has no method generate"),
        ((Parrot(), 0), "max_new_tokens must be an integer of at least 1, not 0"),
        ((Parrot(), True), "not True"),
        ((Parrot(), 5, "\n"), "stop must be a list of non-empty texts"),
        ((Parrot(), 5, [""]), "stop must be a list of non-empty texts"),
    ],
)
def test_bad_arguments(arguments: tuple[Any, ...], said: str) -> None:
    with pytest.raises(ArgumentError, match=said):
        text_inference(*arguments)

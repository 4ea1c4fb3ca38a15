"""Kernels by name: what a reference may be, and options that are unknown or given twice."""

from __future__ import annotations

import sys
import types

import pytest

from StaICC import Normal, load_kernel
from StaICC.errors import ArgumentError


def scores(prompt: str, label_space: list[str]) -> list[float]:
    return [1.0, *[0.0] * (len(label_space) - 1)]


class Scorer:
    def __call__(self, prompt: str, label_space: list[str]) -> list[float]:
        return scores(prompt, label_space)


@pytest.mark.parametrize("name", ["scores", "scorer"])
def test_an_inference_function_is_used_as_it_is(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "mine_of_the_test", types.SimpleNamespace(scores=scores, scorer=Scorer()))  # type: ignore[arg-type]
    function = load_kernel(f"mine_of_the_test:{name}")
    benchmark = Normal(datasets=["mini"], limit=4)
    assert benchmark(function)["Averaged results"] == benchmark(scores)["Averaged results"]
    for rest, options in ((":argument", {}), ("", {"order": 1})):
        with pytest.raises(
            ArgumentError, match=r"is an inference function: got .*, expected no argument and no option"
        ):
            load_kernel(f"mine_of_the_test:{name}{rest}", **options)


def test_the_prompt_format_of_a_served_model() -> None:
    kernel = load_kernel("openai:http://localhost:1/v1#m;scoring=text;prompt_format=chat;system=Be brief.")
    assert kernel.api == "chat"
    assert kernel.identity().settings["api"] == "chat"
    assert kernel.rendered(["a: "]) == [
        '[{"role": "system", "content": "Be brief."}, {"role": "user", "content": "a: "}]'
    ]
    assert load_kernel("openai:http://localhost:1/v1#m;prompt_format=plain").rendered(["a: "]) == ["a: "]
    for wrong, message in (("chat-turns", "expected plain or chat"), ("chat;api=chat", "one of the two")):
        with pytest.raises(ArgumentError, match=message):
            load_kernel(f"openai:http://localhost:1/v1#m;scoring=text;prompt_format={wrong}")

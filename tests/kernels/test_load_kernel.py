"""Kernels by name: what a reference may be, and options that are unknown or given twice."""

from __future__ import annotations

import sys
import types
from typing import Any

import pytest

from StaICC import Normal, load_kernel
from StaICC.errors import ArgumentError, PluginError, StaICCError, UnknownNameError
from StaICC.kernels.ppm import PPMKernel


def scores(prompt: str, label_space: list[str]) -> list[float]:
    return [1.0, *[0.0] * (len(label_space) - 1)]


class Scorer:
    def __call__(self, prompt: str, label_space: list[str]) -> list[float]:
        return scores(prompt, label_space)


@pytest.fixture(autouse=True)
def mine(monkeypatch: pytest.MonkeyPatch) -> None:
    module: Any = types.ModuleType("mine_of_the_test")
    module.scores, module.scorer, module.Scorer, module.number = scores, Scorer(), Scorer, 3
    module.make = lambda text, **options: PPMKernel(**options)
    module.nothing = lambda text: None
    module.no_text = lambda: scores
    monkeypatch.setitem(sys.modules, "mine_of_the_test", module)


@pytest.mark.parametrize("name", ["scores", "scorer"])
def test_an_inference_function_is_used_as_it_is(name: str) -> None:
    function = load_kernel(f"mine_of_the_test:{name}")
    benchmark = Normal(datasets=["mini"], limit=4)
    assert benchmark(function)["Averaged results"] == benchmark(scores)["Averaged results"]
    for rest, options in ((":argument", {}), ("", {"order": 1})):
        with pytest.raises(
            ArgumentError, match=r"is an inference function: got .*, expected no argument and no option"
        ):
            load_kernel(f"mine_of_the_test:{name}{rest}", **options)


def test_a_function_that_makes_a_kernel_gets_the_options() -> None:
    assert load_kernel("mine_of_the_test:make", order=3) == PPMKernel(order=3)


@pytest.mark.parametrize(
    ("name", "kind"),
    [
        ("os:getcwd", ArgumentError),
        ("builtins:print", ArgumentError),
        ("mine_of_the_test:nothing", ArgumentError),
        ("mine_of_the_test:no_text", ArgumentError),
        ("mine_of_the_test:Scorer", PluginError),
        ("mine_of_the_test:number", PluginError),
        ("os:path", PluginError),
    ],
)
def test_a_reference_to_something_else_is_refused(name: str, kind: type[StaICCError]) -> None:
    with pytest.raises(kind, match=r"xpected an inference function f\(prompt, label_space\), a class with from_spec"):
        load_kernel(name)


@pytest.mark.parametrize(
    ("spec", "options", "kind", "message"),
    [
        ("ppm;order=3", {"order": 4}, ArgumentError, "order of ppm: given twice"),
        ("hf:x;dtype=float32", {"dtype": "float32"}, ArgumentError, "dtype of hf:x: given twice"),
        ("openai:http://x#m;api=chat", {"api": "chat"}, ArgumentError, "given twice"),
        ("vllm:x;label_scoring=full", {"label_scoring": "full"}, ArgumentError, "given twice"),
        ("ppm", {"ordr": 2}, UnknownNameError, "'ordr'; did you mean 'order'"),
        ("hf:x", {"label_scorin": "full"}, UnknownNameError, "'label_scoring'"),
        ("openai:http://x#m", {"scorin": "text"}, UnknownNameError, "'scoring'"),
        ("vllm", {}, ArgumentError, "got 'vllm'"),
        ("vllm:", {}, ArgumentError, "got 'vllm:'"),
    ],
)
def test_options_given_twice_or_unknown_and_names_without_a_model(
    spec: str, options: dict[str, Any], kind: type[StaICCError], message: str
) -> None:
    with pytest.raises(kind, match=message):
        load_kernel(spec, **options)
    assert load_kernel("ppm;order=3", escape="A") == PPMKernel(order=3, escape="A")


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

"""Comparisons of models of which one did not read all demonstrations, because its context was too short."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from StaICC import Normal, Text
from StaICC.comparing.comparison import compare
from StaICC.results.result import Result


def model_that_loses(dropped: int) -> Callable[[str, list[str]], Text]:
    """Return a model whose prompts lose this number of demonstrations, and which predicts the first label."""

    def model(prompt: str, label_space: list[str]) -> Text:
        return Text(label_space[0], dropped=dropped)

    return model


def normal(dropped: int) -> Any:
    return Normal(datasets=["mini"], k=4, limit=5)(model_that_loses(dropped))


def differences_about_demonstrations(first: Result, second: Result) -> list[str]:
    differences = compare(first, second).differences
    return [str(difference) for difference in differences if "left out" in difference.field]


def test_a_comparison_says_how_many_demonstrations_each_model_did_not_read() -> None:
    three_of_four_lost, none_lost = normal(dropped=3), normal(dropped=0)

    differences = differences_about_demonstrations(three_of_four_lost, none_lost)

    prompts = 2 * 5  # two repeats of five test rows
    assert differences == [f"demonstrations left out of prompts that were too long, mini: {3 * prompts} and 0"]


def test_a_comparison_of_models_that_read_as_many_demonstrations_says_nothing_about_them() -> None:
    assert differences_about_demonstrations(normal(dropped=3), normal(dropped=3)) == []

"""The hint that names what a model would rather write than a label."""

from __future__ import annotations

import pytest

from StaICC.inference.contract import LoadsModel, ScoredLabels
from StaICC.inference.label_mass import likely_tokens_hint

LABELS = ("negative", "positive")
KEYS = [("first prompt", LABELS), ("second prompt", LABELS)]


class LoadedModel(LoadsModel):
    """A model whose most probable next tokens are given."""

    is_loaded = True

    def __init__(self, *tokens: str) -> None:
        self.tokens = tokens

    def likely_tokens(self, prompt: str, count: int) -> list[tuple[str, float]]:
        return [(token, 0.25) for token in self.tokens if prompt == "second prompt"]


def predictions(first_mass: float, second_mass: float) -> list[ScoredLabels]:
    return [ScoredLabels([0.5, 0.5], first_mass), ScoredLabels([0.5, 0.5], second_mass)]


def test_the_hint_names_the_tokens_after_the_prompt_with_the_least_label_mass() -> None:
    hint = likely_tokens_hint(LoadedModel("The", "A"), KEYS, predictions(0.002, 0.001))

    assert hint == "after one of the prompts, the model would rather write 'The' (0.25), 'A' (0.25) than a label"


def test_the_hint_says_how_labels_with_a_blank_in_front_are_scored() -> None:
    hint = likely_tokens_hint(LoadedModel("The", " positive"), KEYS, predictions(0.002, 0.001))

    assert hint is not None
    assert hint.endswith("than a label. Labels with a blank in front are scored with last_blank=label")


@pytest.mark.parametrize(
    ("first_mass", "second_mass"), [(0.9, 0.8), (0.1, 0.001)], ids=["high label mass", "high mean label mass"]
)
def test_there_is_no_hint_for_labels_that_are_probable(first_mass: float, second_mass: float) -> None:
    assert likely_tokens_hint(LoadedModel("The"), KEYS, predictions(first_mass, second_mass)) is None


def test_there_is_no_hint_for_a_function_without_tokens() -> None:
    assert likely_tokens_hint(lambda prompt, label_space: 0, KEYS, predictions(0.002, 0.001)) is None

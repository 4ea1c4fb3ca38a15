"""Prompts as pure functions: every string of the template in its place, in both channels."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from StaICC.datasets.catalogue import Template
from StaICC.datasets.dataset import Dataset
from StaICC.prompting.prompt_writer import PromptRenderer, PromptSettings
from StaICC.prompting.stable_random import StableRandom
from StaICC.prompting.views import TripletSplit, split_dataset

LABELS = ("no", "yes", "maybe")
TEXT = st.text(st.characters(codec="utf-8"), max_size=6)


def template(columns: int = 1) -> Template:
    """A template whose every part is another word."""
    return Template(
        "<I>",
        tuple(f"<P{column}>" for column in range(columns)),
        tuple(f"<A{column}>" for column in range(columns)),
        "<L>",
        "<E>",
        "<Q>",
    )


def naive(
    shown: list[tuple[list[str], str]], asked: list[str], form: Template, noisy: bool, labels: tuple[str, ...]
) -> str | tuple[str, ...]:
    """The order of parts that the README of 0.1.1 shows."""

    def texts(given: list[str]) -> str:
        return "".join(
            form.input_text_prefixes[column] + text + form.input_text_affixes[column]
            for column, text in enumerate(given)
        )

    if not noisy:
        demonstrations = "".join(texts(given) + form.label_prefix + label + form.label_affix for given, label in shown)
        return form.instruction + demonstrations + form.query_prefix + texts(asked) + form.label_prefix
    demonstrations = "".join(form.label_prefix + label + form.label_affix + texts(given) for given, label in shown)
    return tuple(
        form.instruction
        + demonstrations
        + form.label_prefix
        + label
        + form.label_affix
        + form.query_prefix
        + texts(asked)
        for label in labels
    )


@pytest.mark.parametrize("noisy", [False, True])
@pytest.mark.parametrize("columns", [1, 2, 3])
@pytest.mark.parametrize("k", [0, 1, 4])
def test_every_part_in_its_place(small: Callable[..., Dataset], columns: int, k: int, noisy: bool) -> None:
    split = split_dataset(small(columns))
    renderer = PromptRenderer(split, PromptSettings(template(columns), LABELS, noisy_channel=noisy))
    positions = [7, 0, 19, 7][:k]
    shown = [(split.demonstration[position][0], split.demonstration.get_label(position)) for position in positions]
    asked = split.test[3][0]
    prompt = renderer.render(positions, asked, StableRandom())
    assert prompt == naive(shown, asked, template(columns), noisy, LABELS)


@given(st.tuples(*[TEXT] * 6), st.lists(st.tuples(TEXT, st.integers(0, 2)), max_size=4), TEXT, st.booleans())
def test_any_strings(parts: tuple[str, ...], shown: list[tuple[str, int]], asked: str, noisy: bool) -> None:
    instruction, prefix, affix, *rest = parts
    form = Template(instruction, (prefix,), (affix,), *rest)
    renderer = PromptRenderer(SPLIT, PromptSettings(form, LABELS, noisy_channel=noisy))
    lines = [renderer.demonstration([text], label) for text, label in shown]
    expected = naive([([text], LABELS[label]) for text, label in shown], [asked], form, noisy, LABELS)
    assert renderer.assemble(lines, [asked]) == expected


SPLIT = split_dataset(
    Dataset.from_rows([(f"text {row}", row % 3) for row in range(30)], name="thirty", label_space=LABELS)
)


@given(st.integers(0, 12), st.floats(0, 1), st.integers(0, 2**32 - 1))
def test_label_noise_falsifies_exactly_so_many_labels(k: int, rate: float, seed: int) -> None:
    form = Template("", ("",), ("|",), "", ";")
    positions = list(range(k))
    noise = StableRandom(seed)
    prompt = PromptRenderer(SPLIT, PromptSettings(form, LABELS, label_wrong_rate=rate)).render(positions, [""], noise)
    labels = [part.split("|")[1] for part in str(prompt).split(";")[:-1]]
    falsified = set(StableRandom(seed).sample(positions, int(k * rate)))
    for position, label in enumerate(labels):
        true = SPLIT.demonstration.label(position)
        assert label == LABELS[(true + (position in falsified)) % 3]
    assert len(falsified) == int(k * rate)
    drawn = StableRandom(seed)
    list(drawn.floats(int(k * rate)))
    assert noise.state == drawn.state  # nothing more is drawn than is falsified, and nothing while that is 0


@pytest.mark.parametrize("cut", [1, 5, 10_000])
@pytest.mark.parametrize("noisy", [False, True])
def test_characters_are_cut_off_the_end(triplet: TripletSplit, cut: int, noisy: bool) -> None:
    settings = PromptSettings(template(), LABELS, noisy_channel=noisy)
    whole = PromptRenderer(triplet, settings).render([1], ["q"], StableRandom())
    short = PromptRenderer(triplet, dataclasses.replace(settings, cut_by_length=cut)).render([1], ["q"], StableRandom())
    if isinstance(whole, str):
        assert short == whole[:-cut]
    else:
        assert short == tuple(text[:-cut] for text in whole)

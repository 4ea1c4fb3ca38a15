"""Prompts as pure functions: every string of the template in its place, in both channels."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from StaICC.datasets.catalogue import Template
from StaICC.datasets.dataset import Dataset
from StaICC.prompting.prompt_text import PromptText
from StaICC.prompting.prompt_writer import PromptRenderer, PromptSettings
from StaICC.prompting.stable_random import StableRandom
from StaICC.prompting.views import TripletSplit, split_dataset

LABELS = ("no", "yes", "maybe")
TEXT = st.text(st.characters(codec="utf-8"), max_size=6)


def template(columns: int = 1) -> Template:
    """Return a template whose every part is another word."""
    return Template(
        instruction="<I>",
        input_text_prefixes=tuple(f"<P{column}>" for column in range(columns)),
        input_text_affixes=tuple(f"<A{column}>" for column in range(columns)),
        label_prefix="<L>",
        label_affix="<E>",
        query_prefix="<Q>",
    )


Shown = Sequence[tuple[Sequence[str], str]]
"""The demonstrations of a prompt: for each its input texts and its label."""


def naive_input(texts: Sequence[str], form: Template) -> str:
    """Return the input texts of a row, each between its prefix and its affix."""
    pieces = []
    for prefix, text, affix in zip(form.input_text_prefixes, texts, form.input_text_affixes, strict=True):
        pieces.append(prefix + text + affix)
    return "".join(pieces)


def naive_prompt(shown: Shown, query: Sequence[str], form: Template) -> str:
    """Return a prompt of the direct channel, in the order of parts that the README of 0.1.1 shows."""
    prompt = form.instruction
    for texts, label in shown:
        prompt += naive_input(texts, form) + form.label_prefix + label + form.label_affix
    return prompt + form.query_prefix + naive_input(query, form) + form.label_prefix


def naive_noisy_prompts(shown: Shown, query: Sequence[str], form: Template) -> tuple[str, ...]:
    """Return the prompts of the noisy channel, one for each label, with the labels before the texts."""
    beginning = form.instruction
    for texts, label in shown:
        beginning += form.label_prefix + label + form.label_affix + naive_input(texts, form)
    prompts = []
    for label in LABELS:
        candidate = form.label_prefix + label + form.label_affix
        prompts.append(beginning + candidate + form.query_prefix + naive_input(query, form))
    return tuple(prompts)


def test_the_parts_of_a_prompt_are_in_their_order() -> None:
    renderer = PromptRenderer(SPLIT, PromptSettings(template(columns=2), LABELS))
    demonstration = renderer.demonstration(["a", "b"], 1)

    prompt = renderer.assemble([demonstration], ["c", "d"])

    assert prompt == "<I><P0>a<A0><P1>b<A1><L>yes<E><Q><P0>c<A0><P1>d<A1><L>"


def test_the_parts_of_the_prompts_of_the_noisy_channel_are_in_their_order() -> None:
    renderer = PromptRenderer(SPLIT, PromptSettings(template(), LABELS, noisy_channel=True))
    demonstration = renderer.demonstration(["a"], 1)

    prompts = renderer.assemble([demonstration], ["b"])

    assert prompts == (
        "<I><L>yes<E><P0>a<A0><L>no<E><Q><P0>b<A0>",
        "<I><L>yes<E><P0>a<A0><L>yes<E><Q><P0>b<A0>",
        "<I><L>yes<E><P0>a<A0><L>maybe<E><Q><P0>b<A0>",
    )


@pytest.mark.parametrize("columns", [1, 2, 3])
@pytest.mark.parametrize("positions", [[], [7], [7, 0, 19, 7]])
def test_a_prompt_shows_the_demonstrations_at_its_positions(
    small: Callable[..., Dataset], columns: int, positions: list[int]
) -> None:
    split = split_dataset(small(columns))
    query = split.test[3][0]
    renderer = PromptRenderer(split, PromptSettings(template(columns), LABELS))

    prompt = renderer.render(positions, query, StableRandom())

    shown = [split.demonstration[position] for position in positions]
    assert prompt == naive_prompt(shown, query, template(columns))


@pytest.mark.parametrize("cut_by_length", [0, 2])
@pytest.mark.parametrize("noisy_channel", [False, True])
def test_the_parts_of_a_prompt_are_those_of_its_text(
    small: Callable[..., Dataset], noisy_channel: bool, cut_by_length: int
) -> None:
    """The text is written first, the parts when they are read."""
    split = split_dataset(small(2))
    settings = PromptSettings(template(2), LABELS, noisy_channel=noisy_channel, cut_by_length=cut_by_length)
    renderer = PromptRenderer(split, settings)

    prompt = renderer.render([7, 0], split.test[3][0], StableRandom())

    texts = [prompt] if isinstance(prompt, str) else list(prompt)
    shown = [split.demonstration[position] for position in (7, 0)]
    for text in texts:
        assert isinstance(text, PromptText)
        assert text.parts.text == text
        assert [demonstration.label for demonstration in text.parts.demonstrations] == [label for _, label in shown]
        assert [demonstration.position for demonstration in text.parts.demonstrations] == [7, 0]


TEMPLATES = st.builds(Template, TEXT, st.tuples(TEXT), st.tuples(TEXT), TEXT, TEXT, TEXT)
DEMONSTRATIONS = st.lists(st.tuples(TEXT, st.integers(0, 2)), max_size=4)
"""For each demonstration its text and the index of its label."""


@given(TEMPLATES, DEMONSTRATIONS, TEXT)
def test_any_text_is_in_the_prompt_unchanged(form: Template, demonstrations: list[tuple[str, int]], query: str) -> None:
    shown = [([text], LABELS[label]) for text, label in demonstrations]
    direct = PromptRenderer(SPLIT, PromptSettings(form, LABELS))
    noisy = PromptRenderer(SPLIT, PromptSettings(form, LABELS, noisy_channel=True))

    prompt = direct.assemble([direct.demonstration([text], label) for text, label in demonstrations], [query])
    prompts = noisy.assemble([noisy.demonstration([text], label) for text, label in demonstrations], [query])

    assert prompt == naive_prompt(shown, [query], form)
    assert prompts == naive_noisy_prompts(shown, [query], form)


SPLIT = split_dataset(
    Dataset.from_rows([(f"text {row}", row % 3) for row in range(30)], name="thirty", label_space=LABELS)
)


def labels_with_noise(k: int, rate: float, noise: StableRandom) -> list[str]:
    """Return the labels (their indexes) that a prompt shows of the demonstrations 0 to k - 1, with label noise."""
    label_on_each_line = Template("", ("",), ("|",), "", "\n")
    settings = PromptSettings(label_on_each_line, ("0", "1", "2"), label_wrong_rate=rate)
    prompt = str(PromptRenderer(SPLIT, settings).render(range(k), ["query"], noise))
    return [line.partition("|")[2] for line in prompt.split("\n")[:k]]


@given(st.integers(0, 12), st.floats(0, 1), st.integers(0, 2**32 - 1))
def test_label_noise_falsifies_exactly_so_many_labels(k: int, rate: float, seed: int) -> None:
    """A falsified label is the next one of the label space."""
    true_labels = labels_with_noise(k, 0.0, StableRandom(seed))
    expected = list(true_labels)
    for position in StableRandom(seed).sample(range(k), int(k * rate)):
        expected[position] = str((int(true_labels[position]) + 1) % 3)

    assert labels_with_noise(k, rate, StableRandom(seed)) == expected


@given(st.integers(0, 12), st.floats(0, 1), st.integers(0, 2**32 - 1))
def test_label_noise_draws_one_number_for_each_falsified_label(k: int, rate: float, seed: int) -> None:
    generator = StableRandom(seed)
    expected = StableRandom(seed)

    labels_with_noise(k, rate, generator)

    falsified_labels = int(k * rate)
    expected.skip(falsified_labels)
    assert generator.state == expected.state


@pytest.mark.parametrize("cut", [1, 5, 10_000])
def test_characters_are_cut_off_the_end(triplet: TripletSplit, cut: int) -> None:
    settings = PromptSettings(template(), LABELS)
    full = PromptRenderer(triplet, settings).render([1], ["q"], StableRandom())

    cut_settings = dataclasses.replace(settings, cut_by_length=cut)

    assert PromptRenderer(triplet, cut_settings).render([1], ["q"], StableRandom()) == full[:-cut]


@pytest.mark.parametrize("cut", [1, 5, 10_000])
def test_characters_are_cut_off_every_text_of_the_noisy_channel(triplet: TripletSplit, cut: int) -> None:
    settings = PromptSettings(template(), LABELS, noisy_channel=True)
    full_texts = PromptRenderer(triplet, settings).render([1], ["q"], StableRandom())

    cut_settings = dataclasses.replace(settings, cut_by_length=cut)

    cut_texts = PromptRenderer(triplet, cut_settings).render([1], ["q"], StableRandom())
    assert cut_texts == tuple(text[:-cut] for text in full_texts)

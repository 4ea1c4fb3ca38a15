"""The experiment ``controls``: demonstrations whose content is changed or missing."""

from __future__ import annotations

import random
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from StaICC.long_icl.cards import TaskCard
from StaICC.long_icl.contexts import Conditions
from StaICC.long_icl.material import DesignOptions, Material
from StaICC.long_icl.prompts import Item, write_context
from StaICC.long_icl.reference_tokens import byte_size
from StaICC.long_icl.shuffling import shuffled


@dataclass(frozen=True, slots=True)
class _Relabelled:
    """Demonstrations with the labels of a control."""

    demonstrations: list[Item]
    card: TaskCard
    """The card with the names of these labels."""


def controls_conditions(options: DesignOptions, material: Material) -> Conditions:
    """Return conditions whose demonstrations have other labels, or which show no demonstrations.

    - ``normal``: the demonstrations with their true labels.
    - ``zero shots``: no demonstrations.
    - ``shuffled labels``: the true labels in random order, so that their frequencies stay the same.
    - ``random labels``: labels drawn at random.
    - ``symbols``: a symbol, such as ``S07``, in place of each label name.
    - ``irrelevant text``: no demonstrations, but a text about something else.

    All contexts but that of ``zero shots`` have the same length.

    Args:
        options: The options of the experiment: demonstrations of each label, seed of random labels.
        material: The training rows and the test items.

    Sources:
        Min et al. 2022, "Rethinking the Role of Demonstrations: What Makes In-Context Learning Work?" (random labels);
        Wei et al. 2023, "Symbol tuning improves in-context learning in language models" (symbols as labels).
    """
    demonstrations = material.shots(options.shots)
    relabelled = _relabelled_demonstrations(material.data.card, demonstrations, options.seed)
    sizes = []
    for control in relabelled.values():
        context = write_context(control.card, control.demonstrations, instruct=material.instruct)
        sizes.append(byte_size(context.text))
    size = max(sizes)

    conditions: Conditions = {
        "normal": material.shared_context(demonstrations, size),
        "zero shots": material.shared_context(()),
        "shuffled labels": material.shared_context(relabelled["shuffled labels"].demonstrations, size),
        "random labels": material.shared_context(relabelled["random labels"].demonstrations, size),
    }
    symbols = relabelled["symbols"]
    conditions["symbols"] = material.renamed_context(symbols.card, symbols.demonstrations, size)
    conditions["irrelevant text"] = material.shared_context((), size)
    return conditions


def _relabelled_demonstrations(card: TaskCard, demonstrations: list[Item], seed: int) -> dict[str, _Relabelled]:
    """Return the demonstrations of each condition that has some, with the labels that they have there."""
    true_labels = [item.gold for item in demonstrations]
    shuffled_labels = shuffled(true_labels, seed)
    random_labels = _random_labels(card, true_labels, seed)
    symbol_of_label = _symbols(card.labels, seed)
    symbols = [_renamed(labels, symbol_of_label) for labels in true_labels]
    symbol_card = replace(card, labels=tuple(symbol_of_label.values()))
    return {
        "normal": _Relabelled(demonstrations, card),
        "shuffled labels": _Relabelled(_with_labels(demonstrations, shuffled_labels), card),
        "random labels": _Relabelled(_with_labels(demonstrations, random_labels), card),
        "symbols": _Relabelled(_with_labels(demonstrations, symbols), symbol_card),
    }


def _with_labels(demonstrations: Sequence[Item], labels: Sequence[tuple[str, ...]]) -> list[Item]:
    """Return copies of demonstrations with other labels.

    Args:
        demonstrations: The demonstrations.
        labels: The labels of each copy.
    """
    relabelled = []
    for item, labels_of_item in zip(demonstrations, labels, strict=True):
        relabelled.append(replace(item, gold=labels_of_item))
    return relabelled


def _renamed(labels: tuple[str, ...], name_of_label: Mapping[str, str]) -> tuple[str, ...]:
    """Return the names that replace those of labels."""
    return tuple(name_of_label[label] for label in labels)


def _symbols(labels: Sequence[str], seed: int) -> dict[str, str]:
    """Return a symbol for each label, such as ``S07``. The numbers are assigned at random."""
    numbers = shuffled(range(len(labels)), seed)
    largest_number = len(labels) - 1
    digit_count = len(str(largest_number))
    symbol_of_label = {}
    for label, number in zip(labels, numbers, strict=True):
        symbol_of_label[label] = "S" + str(number).zfill(digit_count)
    return symbol_of_label


def _random_labels(card: TaskCard, true_labels: Sequence[tuple[str, ...]], seed: int) -> list[tuple[str, ...]]:
    """Return as many random labels for each demonstration as it has true ones.

    All labels are drawn again until they have together no more bytes than the true labels. So this context is not
    longer than the normal one.

    Args:
        card: Card of the data set, with its labels.
        true_labels: The true labels of each demonstration.
        seed: Seed of the draws.
    """
    generator = random.Random(f"random labels {seed}")
    most_bytes = _byte_size_of_labels(true_labels)
    while True:
        random_labels = [_draw_labels(card, len(labels), generator) for labels in true_labels]
        if _byte_size_of_labels(random_labels) <= most_bytes:
            return random_labels


def _draw_labels(card: TaskCard, count: int, generator: random.Random) -> tuple[str, ...]:
    """Return a number of different labels, drawn at random."""
    labels: list[str] = []
    while len(labels) < count:
        label_index = int(generator.random() * len(card.labels))
        label = card.labels[label_index]
        if label not in labels:
            labels.append(label)
    return tuple(labels)


def _byte_size_of_labels(labels_of_demonstrations: Sequence[tuple[str, ...]]) -> int:
    """Return the bytes of all labels together."""
    size = 0
    for labels in labels_of_demonstrations:
        size += sum(byte_size(label) for label in labels)
    return size

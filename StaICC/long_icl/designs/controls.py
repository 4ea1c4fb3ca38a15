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
    """Demonstrations with other labels."""

    demonstrations: list[Item]
    card: TaskCard
    """The card with the names of these labels."""


def controls_conditions(options: DesignOptions, material: Material) -> Conditions:
    """Show no demonstrations, wrong labels, symbols as labels, and a text about something else, at equal length.

    Sources:
        Min et al. 2022, "Rethinking the Role of Demonstrations: What Makes In-Context Learning Work?" (random labels);
        Wei et al. 2023, "Symbol tuning improves in-context learning in language models" (symbols as labels).
    """
    card = material.data.card
    demonstrations = material.shots(options.shots)
    true_labels = [item.gold for item in demonstrations]
    symbol_of_label = _symbols(card.labels, options.seed)
    symbol_card = replace(card, labels=tuple(symbol_of_label.values()))

    relabelled = {
        "normal": _Relabelled(demonstrations, card),
        "shuffled labels": _Relabelled(_with_labels(demonstrations, shuffled(true_labels, options.seed)), card),
        "random labels": _Relabelled(
            _with_labels(demonstrations, _random_labels(card, true_labels, options.seed)), card
        ),
        "symbols": _Relabelled(
            _with_labels(demonstrations, [_renamed(labels, symbol_of_label) for labels in true_labels]), symbol_card
        ),
    }
    sizes = []
    for changed in relabelled.values():
        context = write_context(changed.card, changed.demonstrations, instruct=material.instruct)
        sizes.append(byte_size(context.text))
    size = max(sizes)

    normal = relabelled.pop("normal")
    conditions: Conditions = {
        "normal": material.contexts(normal.demonstrations, normal.card, size),
        "zero shots": material.contexts(()),
    }
    for name, changed in relabelled.items():
        conditions[name] = material.contexts(changed.demonstrations, changed.card, size)
    conditions["irrelevant text"] = material.contexts((), size=size)
    return conditions


def _with_labels(demonstrations: Sequence[Item], labels: Sequence[tuple[str, ...]]) -> list[Item]:
    """Return demonstrations with the labels of others."""
    return [replace(item, gold=gold) for item, gold in zip(demonstrations, labels, strict=True)]


def _renamed(labels: tuple[str, ...], name_of_label: Mapping[str, str]) -> tuple[str, ...]:
    """Return other names of labels."""
    return tuple(name_of_label[label] for label in labels)


def _symbols(labels: Sequence[str], seed: int) -> dict[str, str]:
    """Return a symbol for each label, such as ``S07``; which label has which one is random."""
    numbers = shuffled(range(len(labels)), seed)
    digits = len(str(len(labels) - 1))
    return {label: f"S{number:0{digits}d}" for label, number in zip(labels, numbers, strict=True)}


def _random_labels(card: TaskCard, true_labels: Sequence[tuple[str, ...]], seed: int) -> list[tuple[str, ...]]:
    """Return as many random labels for each demonstration as it has true ones.

    They are drawn again until they are together not longer than the true labels, so that all contexts fit into the
    length of the normal one.
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
        label = card.labels[int(generator.random() * len(card.labels))]
        if label not in labels:
            labels.append(label)
    return tuple(labels)


def _byte_size_of_labels(labels_of_demonstrations: Sequence[tuple[str, ...]]) -> int:
    """Return the bytes of all labels together."""
    size = 0
    for labels in labels_of_demonstrations:
        size += sum(byte_size(label) for label in labels)
    return size

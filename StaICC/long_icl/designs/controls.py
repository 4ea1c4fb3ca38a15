"""The experiment ``controls``: demonstrations whose content is changed or missing."""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import replace

from StaICC.long_icl.cards import TaskCard
from StaICC.long_icl.contexts import Conditions
from StaICC.long_icl.material import DesignOptions, Material
from StaICC.long_icl.prompts import Item, write_context
from StaICC.long_icl.reference_tokens import byte_size
from StaICC.long_icl.shuffling import shuffled


def _random_labels(card: TaskCard, shown: Sequence[Item], seed: int) -> list[str]:
    """Draw a label for each demonstration; draws again until they are together not longer than the true labels."""
    draw, most = random.Random(f"random labels {seed}").random, sum(byte_size(item.gold[0]) for item in shown)
    while True:
        labels = [card.labels[int(draw() * len(card.labels))] for _ in shown]
        if sum(map(byte_size, labels)) <= most:
            return labels


def controls_conditions(options: DesignOptions, material: Material) -> Conditions:
    """Show no demonstrations, wrong labels, symbols as labels, and a text about something else, at equal length."""
    card, shown = material.data.card, material.shots(options.shots)
    codes = shuffled(range(len(card.labels)), options.seed)
    digits, true = len(str(len(codes) - 1)), [item.gold[0] for item in shown]
    symbols = {label: f"S{code:0{digits}d}" for label, code in zip(card.labels, codes, strict=True)}
    labels = {
        "normal": (true, card),
        "shuffled labels": (shuffled(true, options.seed), card),
        "random labels": (_random_labels(card, shown, options.seed), card),
        "symbols": ([symbols[label] for label in true], replace(card, labels=(*symbols.values(),))),
    }
    written = {
        name: ([replace(item, gold=(label,)) for item, label in zip(shown, names, strict=True)], own)
        for name, (names, own) in labels.items()
    }
    size = max(byte_size(write_context(own, items, instruct=material.instruct).text) for items, own in written.values())
    conditions = {name: material.contexts(items, own, size) for name, (items, own) in written.items()}
    normal = conditions.pop("normal")
    others = {"irrelevant text": material.contexts((), size=size)}
    return {"normal": normal, "zero shots": material.contexts(()), **conditions, **others}

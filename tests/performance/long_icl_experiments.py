"""All experiments of LongICL: error rates of their tests and intervals, and models with known habits.

The parts ``conditions`` and ``position`` simulate predictions, which are analysed as those of a run; ``position`` has
models with known effects, and fewer redraws: its test is exact with any number. The part ``habits`` runs functions that
read the prompts, on made-up rows with the labels of BANKING77. Usage::

    python tests/performance/long_icl_experiments.py [--simulations 400] [--items 100] [--redraws 199]
    python tests/performance/long_icl_experiments.py --parts position --simulations 2000
"""

from __future__ import annotations

import csv
import hashlib
import random
import tempfile
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

from records import arguments, markdown, record

from StaICC.long_icl import position_test
from StaICC.long_icl.analysis import analyse
from StaICC.long_icl.benchmark import LongICL
from StaICC.long_icl.cards import task_card
from StaICC.long_icl.contexts import SharedContext
from StaICC.long_icl.designs.orders import blocks_of
from StaICC.long_icl.experimentor import LongICLExperimentor
from StaICC.long_icl.experiments import Experiment
from StaICC.long_icl.loading import LongICLData, load
from StaICC.long_icl.position_test import position_p_value
from StaICC.long_icl.queries import round_name
from StaICC.long_icl.scoring import Tally
from StaICC.prompting.prompt_text import PromptParts

EXPERIMENTS = {
    "context": Experiment("context", (512, 1024, 2048)),
    "length": Experiment("length", (512, 1024, 2048)),
    "shots": Experiment("shots", (0, 1, 2)),
    "order": Experiment("order", shots=2),
    "controls": Experiment("controls", shots=2),
    "retrieval": Experiment("retrieval", shots=2),
}
POSITION = Experiment("position", shots=2)
PARTS = 5
"""Parts and orders of ``position``."""

LABELS = task_card("banking77").labels
RIGHT = [Tally((label,), (label,), (label,)) for label in LABELS]
WRONG = [Tally((label,), (), ()) for label in LABELS]

Chance = Callable[[int, int, int, int], float]
"""Probability of a correct prediction, from the item, its label, the number of the condition, and the part."""


def independent(draw: random.Random) -> Chance:
    return lambda item, label, condition, part: 0.6


def by_item(draw: random.Random) -> Chance:
    """Easy and hard items, predicted anew in each condition."""
    known = [draw.betavariate(0.6, 0.4) for _ in range(1000)]
    return lambda item, label, condition, part: known[item]


def rare_changes(draw: random.Random) -> Chance:
    """Nearly the same prediction for an item in all conditions."""
    known = [0.98 if draw.random() < 0.6 else 0.03 for _ in range(1000)]
    return lambda item, label, condition, part: known[item]


def lower(draw: random.Random) -> Chance:
    return lambda item, label, condition, part: 0.6 if condition == 0 else 0.45


MODELS: dict[str, tuple[Callable[[random.Random], Chance], Callable[[int], float]]] = {
    "no effect": (independent, lambda condition: 0.6),
    "no effect, easy and hard items": (by_item, lambda condition: 0.6),
    "no effect, rare changes": (rare_changes, lambda condition: 0.6 * 0.98 + 0.4 * 0.03),
    "lower in all conditions but the first": (lower, lambda condition: 0.6 if condition == 0 else 0.45),
}
"""Models, each with its true score by condition."""


def repeated(draw: random.Random) -> Chance:
    """The same prediction for an item under all orders."""
    known = [float(draw.random() < 0.6) for _ in range(1000)]
    return lambda item, label, order, part: known[item]


def constant(draw: random.Random) -> Chance:
    """Always the same label."""
    chosen = draw.randrange(len(LABELS))
    return lambda item, label, order, part: float(label == chosen)


def by_label(draw: random.Random) -> Chance:
    """Good on some labels, bad on others."""
    known = [draw.betavariate(0.5, 0.5) for _ in LABELS]
    return lambda item, label, order, part: known[label]


def by_label_and_order(draw: random.Random) -> Chance:
    """Each order suits other labels, wherever their demonstrations are: items of a label go together."""
    known = [[float(draw.random() < 0.5) for _ in range(PARTS)] for _ in LABELS]
    return lambda item, label, order, part: known[label][order]


def last_fifth(draw: random.Random) -> Chance:
    return lambda item, label, order, part: 0.8 if part == PARTS - 1 else 0.4


def first_fifth(draw: random.Random) -> Chance:
    return lambda item, label, order, part: 0.8 if part == 0 else 0.4


def small_effect(draw: random.Random) -> Chance:
    return lambda item, label, order, part: 0.55 if part == PARTS - 1 else 0.4


OF_POSITION: dict[str, tuple[Callable[[random.Random], Chance], int, float]] = {
    "no effect": (independent, PARTS - 1, 0.0),
    "one constant label": (constant, PARTS - 1, 0.0),
    "label-dependent accuracy": (by_label, PARTS - 1, 0.0),
    "label- and order-dependent accuracy": (by_label_and_order, PARTS - 1, 0.0),
    "last fifth only": (last_fifth, PARTS - 1, 0.4),
    "first fifth only": (first_fifth, 0, 0.4),
    "no effect, same prediction under all orders": (repeated, PARTS - 1, 0.0),
    "last fifth, small": (small_effect, PARTS - 1, 0.15),
}
"""Models, each with the part of interest and the true difference between that part and the mean of the others."""


def made_up(folder: Path, shots: int) -> LongICLData:
    """Write rows with the labels of BANKING77, and load them."""
    for split, turns in (("train", shots), ("test", 7)):
        with open(folder / f"banking77_{split}.csv", "w", encoding="utf-8", newline="") as file:
            writer = csv.writer(file)
            writer.writerow(["text", "category"])
            writer.writerows([f"{split} {turn} {label}", label] for turn in range(turns) for label in LABELS)
    return load("banking77", folder, verify=False, announce=lambda notice: None)


def predictions(
    draw: random.Random, chance: Chance, gold: Sequence[int], names: Iterable[str], blocks: Sequence[int]
) -> dict[str, list[Tally]]:
    """Draw whether the items are predicted correctly in each condition; the blocks of their labels move with it."""
    return {
        name: [
            (RIGHT if draw.random() < chance(item, label, number, (block + number) % PARTS) else WRONG)[label]
            for item, (label, block) in enumerate(zip(gold, blocks, strict=True))
        ]
        for number, name in enumerate(names)
    }


def simulate(own: LongICLExperimentor, name: str, model: str, seed: int) -> tuple[bool, list[bool], bool]:
    """Return whether a difference is significant, whether each interval covers it, and whether the band covers all."""
    make, truth = MODELS[model]
    draw = random.Random(f"{model} {name} {seed}")
    chance, gold = make(draw), [draw.randrange(len(LABELS)) for _ in own.test_items]
    contexts = {}
    for key, context in own.contexts.items():  # without their texts, which the scores do not need
        contexts[round_name(key)] = SharedContext(PromptParts("-", (), ""), 0, compared=context.compared)
    truths = {key: truth(number) for number, key in enumerate(contexts)}
    tallies = predictions(draw, chance, gold, contexts, [0] * len(gold))
    items = [replace(item, gold=(LABELS[label],)) for item, label in zip(own.test_items, gold, strict=True)]
    found = analyse(EXPERIMENTS[name], own.card, items, contexts, tallies, 0.95)
    rows, first, covered = found["conditions"], next(iter(contexts)), []
    for key, row in rows.items():
        if row["difference"] is not None:
            true = truths[key] - truths[contexts[key].compared or first]
            covered.append(row["difference_low"] <= true <= row["difference_high"])
    significant = any(row["p_value"] is not None and row["p_value"] <= 0.05 for row in rows.values())
    return significant, covered, all(row["band_low"] <= truths[key] <= row["band_high"] for key, row in rows.items())


def simulate_position(own: LongICLExperimentor, model: str, seed: int) -> list[float]:
    """Return whether the test rejects, difference, whether its sign is right, and whether the interval covers it."""
    make, part, truth = OF_POSITION[model]
    draw = random.Random(f"{make.__name__} {seed}")
    block, chance = blocks_of(LABELS, PARTS, seed), make(draw)
    labels = [item.gold[0] for item in own.test_items]
    names = [f"order {number + 1}" for number in range(PARTS)]
    tallies = predictions(draw, chance, list(map(LABELS.index, labels)), names, [block[label] for label in labels])
    contexts = {str(name): context for name, context in own.contexts.items()}
    design = Experiment("position", (PARTS,), 1, seed)
    found = analyse(design, own.card, own.test_items, contexts, tallies, 0.95)
    row = found["conditions"][f"part {part + 1}"]
    covered = row["difference_low"] <= truth <= row["difference_high"]
    return [found["p_value"] <= 0.05, row["difference"], row["difference"] * truth > 0, covered]


def shown(prompt: str) -> list[tuple[str, str]]:
    parts = (part.split("\nintent category: ") for part in prompt.split("service query: ")[1:])
    return [(text, label.strip().split("\n")[0]) for text, label in parts]


def copier(prompt: str, label_space: Sequence[str]) -> str:
    *before, (query, _) = shown(prompt)
    words = set(query.split())
    return max(before, key=lambda pair: len(words & set(pair[0].split())))[1] if before else label_space[0]


def prior_only(prompt: str, label_space: Sequence[str]) -> str:
    return shown(prompt)[-1][0].split()[-1]


def recency(prompt: str, label_space: Sequence[str]) -> str:
    return [(label_space[0], label_space[0]), *shown(prompt)][-2][1]


def primacy(prompt: str, label_space: Sequence[str]) -> str:
    return shown(prompt)[0][1] or label_space[0]


def guesses(prompt: str, label_space: Sequence[str]) -> str:
    return label_space[int(hashlib.sha256(prompt.encode()).hexdigest(), 16) % len(label_space)]


def noise_sensitive(prompt: str, label_space: Sequence[str]) -> str:
    """Knows the labels, unless most demonstrations contradict them."""
    *before, _ = shown(prompt)
    wrong = sum(label in LABELS and text.split()[-1] != label for text, label in before)
    return guesses(prompt, label_space) if 2 * wrong > len(before) else prior_only(prompt, label_space)


def disturbed(prompt: str, label_space: Sequence[str]) -> str:
    """Knows the labels, in prompts of less than 3,000 characters."""
    return prior_only(prompt, label_space) if len(prompt) < 3000 else label_space[0]


READERS = (copier, prior_only, recency, primacy, guesses, noise_sensitive, disturbed)


def verdict(benchmark: LongICL, model: Callable[[str, Sequence[str]], str]) -> str:
    """Return the significant differences of a run (``position``: the p-value)."""
    found = benchmark(model, progress=False).divided["banking77"]["experiment"]
    if found["name"] == "position":
        return f"p = {found['p_value']:.4f}"
    tested = {key: row for key, row in found["conditions"].items() if row["p_value"] is not None}
    significant = [f"{key} {row['difference']:+.2f}" for key, row in tested.items() if row["p_value"] <= 0.05]
    return ", ".join(significant) or "none"


def of_conditions(folder: Path, items: int, simulations: int) -> list[list[Any]]:
    data, lines = made_up(folder, 6), []
    for name, experiment in EXPERIMENTS.items():
        own = LongICLExperimentor(data, limit=items, experiment=experiment)
        for model in MODELS:
            runs = [simulate(own, name, model, seed) for seed in range(simulations)]
            intervals = [covers for _, covered, _ in runs for covers in covered]
            rejected, band = (sum(run[place] for run in runs) / len(runs) for place in (0, 2))
            lines.append([name, model, rejected, sum(intervals) / len(intervals), band])
    return lines


def of_position(folder: Path, items: int, simulations: int) -> list[list[Any]]:
    own = LongICLExperimentor(made_up(folder, 1), limit=items, experiment=Experiment("position", (PARTS,), 1))
    lines = []
    for model, (_, _, truth) in OF_POSITION.items():
        runs = [simulate_position(own, model, seed) for seed in range(simulations)]
        lines.append([model, truth, *(sum(column) / len(runs) for column in zip(*runs, strict=True))])
    return lines


def of_habits(folder: Path, items: int, simulations: int) -> list[list[Any]]:
    made_up(folder, 6)
    lines = []
    for name, experiment in {**EXPERIMENTS, "position": POSITION}.items():
        benchmark = LongICL(folder, ["banking77"], limit=items, experiment=experiment, verify=False, announce=str)
        lines += [[name, reader.__name__, verdict(benchmark, reader)] for reader in READERS]
    return lines


TABLES = {
    "conditions": (of_conditions, ["experiment", "model", "significant", "intervals cover", "band covers"]),
    "position": (of_position, ["model", "truth", "rejected at 0.05", "mean difference", "right sign", "coverage"]),
    "habits": (of_habits, ["experiment", "model", "significant differences"]),
}

if __name__ == "__main__":
    options = arguments(__doc__, {"--simulations": 400, "--items": 100, "--redraws": 199, "--parts": list(TABLES)})
    figures = {}
    for part in options.parts:
        measure, heads = TABLES[part]
        redraws = partial(position_p_value, redraws=options.redraws) if part == "position" else position_p_value
        position_test.position_p_value = redraws
        with tempfile.TemporaryDirectory() as folder:
            figures[part] = measure(Path(folder), options.items, options.simulations)
        print(markdown(heads, figures[part]))
    record(__file__, figures, vars(options))

"""The experiment ``position`` of LongICL on synthetic models with a known effect: type I error, power, sign and size.

Each simulation draws a design (the seed of the experiment) and the predictions of a model, and analyses them as a run
does, with fewer redraws: the test is exact with any number. The data are made up, with the labels of BANKING77. Usage::

    python tests/performance/position_study.py [--simulations 2000] [--items 100] [--redraws 199]
"""

from __future__ import annotations

import csv
import random
import tempfile
from collections.abc import Callable
from functools import partial
from pathlib import Path

from records import arguments, markdown, record

from StaICC.benchmarks.long_icl import Experiment, LongICLExperimentor, card, experiments, load
from StaICC.benchmarks.long_icl.data import LongICLData
from StaICC.benchmarks.long_icl.experiments import analyse, blocks_of, position_p_value
from StaICC.benchmarks.long_icl.protocol import Tally

PARTS = 5
LABELS = card("banking77").labels
Chance = Callable[[int, int, int, int], float]
"""Probability of a correct prediction, from the item, its label, the order and the part."""


def independent(draw: random.Random) -> Chance:
    return lambda item, label, order, part: 0.6


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


MODELS: dict[str, tuple[Callable[[random.Random], Chance], int, float]] = {
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


RIGHT = [Tally((label,), (label,), (label,)) for label in LABELS]
WRONG = [Tally((label,), (), ()) for label in LABELS]


def simulate(own: LongICLExperimentor, make: Callable[[random.Random], Chance], part: int, seed: int) -> list[float]:
    """Return p-value, difference and its limits of one simulated run."""
    draw = random.Random(f"{make.__name__} {seed}")
    experiment = Experiment("position", (PARTS,), 1, seed)
    blocks, chance = blocks_of(LABELS, PARTS, seed), make(draw)
    labels = [(LABELS.index(item.gold[0]), blocks[item.gold[0]]) for item in own.test_items]
    tallies = {}
    for order in range(PARTS):
        tallies[f"order {order + 1}"] = [
            (RIGHT if draw.random() < chance(place, label, order, (block + order) % PARTS) else WRONG)[label]
            for place, (label, block) in enumerate(labels)
        ]
    contexts = {str(name): one for name, one in own.contexts.items()}
    found = analyse(experiment, own.card, own.variant, own.test_items, contexts, tallies, 0.95)
    row = found["conditions"][f"part {part + 1}"]
    return [found["p_value"], row["difference"], row["difference_low"], row["difference_high"]]


def made_up(folder: Path, shots: int = 1) -> LongICLData:
    """Write rows with the labels of BANKING77, and load them."""
    for split, turns in (("train", shots), ("test", 7)):
        with open(folder / f"banking77_{split}.csv", "w", encoding="utf-8", newline="") as file:
            writer = csv.writer(file)
            writer.writerow(["text", "category"])
            writer.writerows([f"{split} {turn} {label}", label] for turn in range(turns) for label in LABELS)
    return load("banking77", folder, verify=False, announce=lambda notice: None)


if __name__ == "__main__":
    options = arguments(__doc__, {"--simulations": 2000, "--items": 100, "--redraws": 199, "--models": list(MODELS)})
    experiments.position_p_value = partial(position_p_value, redraws=options.redraws)
    figures = {}
    with tempfile.TemporaryDirectory() as folder:
        design = Experiment("position", (PARTS,), 1)
        own = LongICLExperimentor(made_up(Path(folder)), test_number=options.items, experiment=design)
        for name in options.models:
            make, part, truth = MODELS[name]
            found = [simulate(own, make, part, seed) for seed in range(options.simulations)]
            sums = {
                "rejected at 0.05": sum(p <= 0.05 for p, *_ in found),
                "mean difference": sum(difference for _, difference, _, _ in found),
                "right sign": sum(difference * truth > 0 for _, difference, _, _ in found),
                "coverage": sum(low <= truth <= high for _, _, low, high in found),
            }
            figures[name] = {"truth": truth} | {key: value / len(found) for key, value in sums.items()}
    print(markdown(["model", "truth", *sums], ([name, *row.values()] for name, row in figures.items())))
    record(__file__, figures, vars(options))

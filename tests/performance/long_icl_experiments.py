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
from typing import Any, NamedTuple

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


def draw_tallies(
    draw: random.Random, chance: Chance, true_labels: Sequence[int], names: Iterable[str], first_parts: Sequence[int]
) -> dict[str, list[Tally]]:
    """Draw whether the items are predicted correctly, and return the tallies of each condition.

    Args:
        draw: The generator of random numbers.
        chance: The probability of a correct prediction.
        true_labels: The index of the label of each item.
        names: The names of the conditions.
        first_parts: The part of the context, in the first condition, that has the demonstrations of the item's label.
            In each further condition they are in the next part.
    """
    tallies: dict[str, list[Tally]] = {}
    for condition, name in enumerate(names):
        tallies[name] = []
        for item, label in enumerate(true_labels):
            part = (first_parts[item] + condition) % PARTS
            is_right = draw.random() < chance(item, label, condition, part)
            tallies[name].append(RIGHT[label] if is_right else WRONG[label])
    return tallies


class ConditionsRun(NamedTuple):
    """What the analysis of a simulated run says."""

    is_significant: bool
    """Whether any difference of two conditions is."""
    intervals_cover: list[bool]
    """Whether the interval of each difference contains the true one."""
    band_covers: bool
    """Whether the band of all conditions contains all true scores."""


def contexts_without_texts(experimentor: LongICLExperimentor) -> dict[str, SharedContext]:
    """Return the contexts of an experiment by their names; the scores do not need their texts."""
    contexts = {}
    for key, context in experimentor.contexts.items():
        contexts[round_name(key)] = SharedContext(PromptParts("-", (), ""), 0, compared=context.compared)
    return contexts


def simulate(experimentor: LongICLExperimentor, name: str, model: str, seed: int) -> ConditionsRun:
    """Draw the predictions of a model in an experiment, and analyse them."""
    model_of_draw, true_score = MODELS[model]
    draw = random.Random(f"{model} {name} {seed}")
    chance = model_of_draw(draw)
    true_labels = [draw.randrange(len(LABELS)) for _ in experimentor.test_items]
    contexts = contexts_without_texts(experimentor)
    true_scores = {condition: true_score(number) for number, condition in enumerate(contexts)}
    tallies = draw_tallies(draw, chance, true_labels, contexts, first_parts=[0] * len(true_labels))
    items = []
    for item, label in zip(experimentor.test_items, true_labels, strict=True):
        items.append(replace(item, gold=(LABELS[label],)))

    rows = analyse(EXPERIMENTS[name], experimentor.card, items, contexts, tallies, 0.95)["conditions"]

    reference = next(iter(contexts))
    intervals_cover = []
    for condition, row in rows.items():
        if row["difference"] is not None:
            compared = contexts[condition].compared or reference
            true_difference = true_scores[condition] - true_scores[compared]
            intervals_cover.append(row["difference_low"] <= true_difference <= row["difference_high"])
    return ConditionsRun(
        is_significant=any(row["p_value"] is not None and row["p_value"] <= 0.05 for row in rows.values()),
        intervals_cover=intervals_cover,
        band_covers=all(row["band_low"] <= true_scores[key] <= row["band_high"] for key, row in rows.items()),
    )


class PositionRun(NamedTuple):
    """What the experiment ``position`` says of a simulated run."""

    rejects: bool
    difference: float
    """Between the part of interest and the mean of the others."""
    has_right_sign: bool
    interval_covers: bool


def simulate_position(experimentor: LongICLExperimentor, model: str, seed: int) -> PositionRun:
    """Draw the predictions of a model under all orders, and analyse them."""
    model_of_draw, part, true_difference = OF_POSITION[model]
    draw = random.Random(f"{model_of_draw.__name__} {seed}")
    chance = model_of_draw(draw)
    first_part_of_label = blocks_of(LABELS, PARTS, seed)
    labels = [item.gold[0] for item in experimentor.test_items]
    tallies = draw_tallies(
        draw,
        chance,
        true_labels=[LABELS.index(label) for label in labels],
        names=[f"order {number + 1}" for number in range(PARTS)],
        first_parts=[first_part_of_label[label] for label in labels],
    )
    contexts = {str(name): context for name, context in experimentor.contexts.items()}
    design = Experiment("position", (PARTS,), 1, seed)

    found = analyse(design, experimentor.card, experimentor.test_items, contexts, tallies, 0.95)

    row = found["conditions"][f"part {part + 1}"]
    return PositionRun(
        rejects=found["p_value"] <= 0.05,
        difference=row["difference"],
        has_right_sign=row["difference"] * true_difference > 0,
        interval_covers=row["difference_low"] <= true_difference <= row["difference_high"],
    )


class Shown(NamedTuple):
    """A text in a prompt, and the label behind it, which is empty for the query."""

    text: str
    label: str


def read_prompt(prompt: str) -> list[Shown]:
    """Return the demonstrations of a prompt, and then the query."""
    shown = []
    for part in prompt.split("service query: ")[1:]:
        text, rest = part.split("\nintent category: ")
        shown.append(Shown(text, rest.strip().split("\n")[0]))
    return shown


def copier(prompt: str, label_space: Sequence[str]) -> str:
    """Return the label of the demonstration that shares the most words with the query."""
    *demonstrations, query = read_prompt(prompt)
    if not demonstrations:
        return label_space[0]
    words_of_query = set(query.text.split())
    return max(demonstrations, key=lambda shown: len(words_of_query & set(shown.text.split()))).label


def prior_only(prompt: str, label_space: Sequence[str]) -> str:
    """Return the label that the made-up query ends with, whatever is demonstrated."""
    *_, query = read_prompt(prompt)
    return query.text.split()[-1]


def recency(prompt: str, label_space: Sequence[str]) -> str:
    """Return the label of the last demonstration, or the first label."""
    *demonstrations, _ = read_prompt(prompt)
    return demonstrations[-1].label if demonstrations else label_space[0]


def primacy(prompt: str, label_space: Sequence[str]) -> str:
    """Return the label of the first demonstration, or the first label."""
    return read_prompt(prompt)[0].label or label_space[0]


def guesses(prompt: str, label_space: Sequence[str]) -> str:
    """Return a label that looks random."""
    return label_space[int(hashlib.sha256(prompt.encode()).hexdigest(), 16) % len(label_space)]


def noise_sensitive(prompt: str, label_space: Sequence[str]) -> str:
    """Knows the labels, unless most demonstrations contradict them."""
    *demonstrations, _ = read_prompt(prompt)
    wrong = 0
    for shown in demonstrations:
        true_label = shown.text.split()[-1]
        if shown.label in LABELS and shown.label != true_label:
            wrong += 1
    most_are_wrong = wrong > len(demonstrations) / 2
    return guesses(prompt, label_space) if most_are_wrong else prior_only(prompt, label_space)


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
    """Return for each experiment and model how often differences are significant, and intervals and bands cover."""
    data = made_up(folder, 6)
    lines: list[list[Any]] = []
    for name, experiment in EXPERIMENTS.items():
        experimentor = LongICLExperimentor(data, limit=items, experiment=experiment)
        for model in MODELS:
            runs = [simulate(experimentor, name, model, seed) for seed in range(simulations)]
            all_intervals = [covers for run in runs for covers in run.intervals_cover]
            significant = sum(run.is_significant for run in runs) / simulations
            bands = sum(run.band_covers for run in runs) / simulations
            lines.append([name, model, significant, sum(all_intervals) / len(all_intervals), bands])
    return lines


def of_position(folder: Path, items: int, simulations: int) -> list[list[Any]]:
    """Return for each model its true difference, and the means of what is said of its runs."""
    experiment = Experiment("position", (PARTS,), 1)
    experimentor = LongICLExperimentor(made_up(folder, 1), limit=items, experiment=experiment)
    lines: list[list[Any]] = []
    for model, (_, _, true_difference) in OF_POSITION.items():
        runs = [simulate_position(experimentor, model, seed) for seed in range(simulations)]
        columns = zip(*runs, strict=True)
        lines.append([model, true_difference, *(sum(column) / simulations for column in columns)])
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

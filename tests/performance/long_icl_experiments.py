"""All experiments of LongICL: error rates of their tests and intervals, and models with known habits.

The first table simulates the predictions of models without an effect of the condition, and of one whose accuracy is
lower in all conditions but the first; the analysis is that of a run. The test of ``position`` has its own script. The
second table runs functions that read the prompts, on made-up rows with the labels of BANKING77. Usage::

    python tests/performance/long_icl_experiments.py [--simulations 400] [--items 100]
"""

from __future__ import annotations

import hashlib
import random
import tempfile
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path

from position_study import LABELS, RIGHT, WRONG, made_up
from records import arguments, markdown, record

from StaICC.benchmarks.long_icl import Experiment, LongICL, LongICLExperimentor
from StaICC.benchmarks.long_icl.benchmark import round_name
from StaICC.benchmarks.long_icl.experiments import analyse

EXPERIMENTS = {
    "context": Experiment("context", (512, 1024, 2048)),
    "length": Experiment("length", (512, 1024, 2048)),
    "shots": Experiment("shots", (0, 1, 2)),
    "order": Experiment("order", shots=2),
    "controls": Experiment("controls", shots=2),
    "retrieval": Experiment("retrieval", shots=2),
}
POSITION = Experiment("position", shots=2)

Chance = Callable[[int, int, int], float]
"""Probability of a correct prediction, from the item, its label and the number of the condition."""


def independent(draw: random.Random) -> Chance:
    return lambda item, label, condition: 0.6


def by_item(draw: random.Random) -> Chance:
    """Easy and hard items, predicted anew in each condition."""
    known = [draw.betavariate(0.6, 0.4) for _ in range(1000)]
    return lambda item, label, condition: known[item]


def rare_changes(draw: random.Random) -> Chance:
    """Nearly the same prediction for an item in all conditions."""
    known = [0.98 if draw.random() < 0.6 else 0.03 for _ in range(1000)]
    return lambda item, label, condition: known[item]


def lower(draw: random.Random) -> Chance:
    return lambda item, label, condition: 0.6 if condition == 0 else 0.45


MODELS: dict[str, tuple[Callable[[random.Random], Chance], Callable[[int], float]]] = {
    "no effect": (independent, lambda condition: 0.6),
    "no effect, easy and hard items": (by_item, lambda condition: 0.6),
    "no effect, rare changes": (rare_changes, lambda condition: 0.6 * 0.98 + 0.4 * 0.03),
    "lower in all conditions but the first": (lower, lambda condition: 0.6 if condition == 0 else 0.45),
}
"""Models, each with its true score by condition."""


def simulate(own: LongICLExperimentor, name: str, model: str, seed: int) -> tuple[bool, list[bool], bool]:
    """Return whether a difference is significant, whether each interval covers it, and whether the band covers all."""
    make, truth = MODELS[model]
    draw = random.Random(f"{model} {name} {seed}")
    chance, gold = make(draw), [draw.choice(LABELS) for _ in own.test_items]
    contexts = {round_name(key): replace(one, context="-") for key, one in own.contexts.items()}
    truths = {key: truth(number) for number, key in enumerate(contexts)}
    tallies = {
        key: [
            (RIGHT if draw.random() < chance(place, LABELS.index(label), number) else WRONG)[LABELS.index(label)]
            for place, label in enumerate(gold)
        ]
        for number, key in enumerate(contexts)
    }
    items = [replace(item, gold=(label,)) for item, label in zip(own.test_items, gold, strict=True)]
    found = analyse(EXPERIMENTS[name], own.card, own.variant, items, contexts, tallies, 0.95)
    rows, first, covered = found["conditions"], next(iter(contexts)), []
    for key, row in rows.items():
        if row["difference"] is not None:
            true = truths[key] - truths[contexts[key].compared or first]
            covered.append(row["difference_low"] <= true <= row["difference_high"])
    significant = any(row["p_value"] is not None and row["p_value"] <= 0.05 for row in rows.values())
    return significant, covered, all(row["band_low"] <= truths[key] <= row["band_high"] for key, row in rows.items())


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


if __name__ == "__main__":
    options = arguments(__doc__, {"--simulations": 400, "--items": 100})
    errors: list[list[object]] = []
    habits: list[list[str]] = []
    with tempfile.TemporaryDirectory() as folder:
        data = made_up(Path(folder), 6)
        for name, experiment in EXPERIMENTS.items():
            own = LongICLExperimentor(data, test_number=options.items, experiment=experiment)
            for model in MODELS:
                runs = [simulate(own, name, model, seed) for seed in range(options.simulations)]
                intervals = [covers for _, covered, _ in runs for covers in covered]
                rejected, band = (sum(run[place] for run in runs) / len(runs) for place in (0, 2))
                errors.append([name, model, rejected, sum(intervals) / len(intervals), band])
        for name, experiment in {**EXPERIMENTS, "position": POSITION}.items():
            benchmark = LongICL(
                folder, ["banking77"], test_number=options.items, experiment=experiment, verify=False, announce=str
            )
            habits += [[name, reader.__name__, verdict(benchmark, reader)] for reader in READERS]
    print(markdown(["experiment", "model", "significant", "intervals cover", "band covers"], errors))
    print(markdown(["experiment", "model", "significant differences"], habits))
    record(__file__, {"errors": errors, "habits": habits}, vars(options))

"""Early stopping by simulation: how often its intervals and decisions are wrong, and how many queries it saves.

Each simulation draws new orders of the test rows of a fixed population (ten data sets of 512 rows with two repeats,
except where it says otherwise) and follows the rule of the library. "Ever" is the share of simulations in which the
interval excludes the score after *any* of the rounds, to the last: no stopping rule, however it is chosen, can be wrong
more often.

Finished lines are kept in ``--resume``, so a script that was stopped continues. Usage:

    python tests/performance/early_stopping.py [--simulations 1000] [--resume early_stopping.jsonl]
"""

from __future__ import annotations

import random
import statistics
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

from records import arguments, markdown, record, resumed

from StaICC.benchmarks.race import StoppingRule, follow
from StaICC.metrics.confidence_sequences import ConfidenceSequence

Population = list[list[float]]

LABELS = (2, 2, 3, 5, 6, 4, 2, 4, 2, 4)
"""Numbers of labels of the ten data sets."""
USUAL = (0.93, 0.91, 0.72, 0.44, 0.68, 0.83, 0.61, 0.76, 0.58, 0.71)
ROWS = 512
PRECISIONS = (0.01, 0.02, 0.05)
DIFFERENCES = (0.0, 0.02, 0.05, 0.1)
AGREEMENTS = {"related models": 0.7, "independent models": 0.0}
MARGIN = 0.02


def draw_accuracies(
    rng: random.Random, chances: Sequence[float], sizes: Sequence[int], agreement: float = 0.8
) -> Population:
    """Return the accuracies of rows with two repeats, which agree in a share of the rows and are drawn anew in others.

    Args:
        rng: The generator of random numbers.
        chances: The probability of a correct prediction in each data set.
        sizes: The number of rows of each data set.
        agreement: The share of the rows whose repeats agree.
    """
    population = []
    for chance, size in zip(chances, sizes, strict=True):
        rows = []
        for _ in range(size):
            first = rng.random() < chance
            second = first if rng.random() < agreement else rng.random() < chance
            rows.append((first + second) / 2)
        population.append(rows)
    return population


def populations() -> Iterator[tuple[str, Population]]:
    """Yield the name and the scores of each population whose mean is estimated."""
    rng = random.Random("populations")
    same_sizes = [ROWS] * 10
    all_right = [1.0] * ROWS
    yield "usual accuracies", draw_accuracies(rng, USUAL, same_sizes)
    yield "chance", draw_accuracies(rng, [1 / n_labels for n_labels in LABELS], same_sizes)
    yield "all right", [all_right] * 10
    yield "all wrong", [[0.0] * ROWS] * 10
    yield "one error in 200", draw_accuracies(rng, [0.995] * 10, same_sizes)
    two_errors = [0.0, 0.0] + [1.0] * (ROWS - 2)
    yield "two errors in one data set", [all_right] * 9 + [two_errors]
    yield "five data sets right, five wrong", [[float(number % 2)] * ROWS for number in range(10)]
    half_right = [float(row % 2) for row in range(ROWS)]
    yield "half of one data set, rest right", [half_right] + [all_right] * 9
    yield "repeats always agree", draw_accuracies(rng, [0.5] * 10, same_sizes, agreement=1.0)
    yield "likelihood, calibrated", [[rng.betavariate(4 * mean, 4 - 4 * mean) for _ in range(ROWS)] for mean in USUAL]

    def likelihood_near_1() -> float:
        return rng.betavariate(50, 0.5) if rng.random() < 0.99 else 1e-6

    yield "likelihood, near 1 with rare zeros", [[likelihood_near_1() for _ in range(ROWS)] for _ in range(10)]
    yield "likelihood, near chance", [[rng.gauss(1 / n_labels, 0.01) for _ in range(ROWS)] for n_labels in LABELS]
    other_sizes = (12, 60, 96, 200, ROWS)
    yield "data sets of 12, 60, 96, 200 and 512 rows", draw_accuracies(rng, USUAL[2:7], other_sizes)


class PairOfModels(NamedTuple):
    """Two models whose mean accuracies differ by exactly this."""

    kind: str
    difference: float
    differences_of_rows: Population


Correct = list[list[list[bool]]]
"""Whether each prediction of a model is correct: by data set, row and repeat."""


def number_correct(model: Correct) -> int:
    return sum(sum(row) for rows in model for row in rows)


def draw_pair(rng: random.Random, agreement: float, difference: float) -> Population:
    """Return the differences of the rows of two models, which share a prediction with the probability ``agreement``.

    Predictions of the second model are changed until the mean difference is the wanted one.
    """
    first: Correct = [[[rng.random() < chance for _ in range(2)] for _ in range(ROWS)] for chance in USUAL]
    second: Correct = []
    for rows, chance in zip(first, USUAL, strict=True):
        second.append([[same if rng.random() < agreement else rng.random() < chance for same in row] for row in rows])

    wanted_excess = round(difference * ROWS * 10 * 2)
    excess = number_correct(first) - number_correct(second)
    while excess != wanted_excess:
        row = second[rng.randrange(10)][rng.randrange(ROWS)]
        repeat = rng.randrange(2)
        if excess < wanted_excess and row[repeat]:
            row[repeat] = False
            excess += 1
        elif excess > wanted_excess and not row[repeat]:
            row[repeat] = True
            excess -= 1

    differences = []
    for first_rows, second_rows in zip(first, second, strict=True):
        pairs = zip(first_rows, second_rows, strict=True)
        differences.append([(sum(first_row) - sum(second_row)) / 2 for first_row, second_row in pairs])
    return differences


def pairs() -> Iterator[PairOfModels]:
    """Yield each kind of models with each difference."""
    for kind, agreement in AGREEMENTS.items():
        for difference in DIFFERENCES:
            rng = random.Random(f"{kind} {difference}")
            yield PairOfModels(kind, difference, draw_pair(rng, agreement, difference))


class Simulation(NamedTuple):
    """What happened in one random order of the rows."""

    reason: str
    """Why the rule stopped."""
    wrong: bool
    """Whether the interval excludes the score when the rule stops."""
    rows: int
    """The number of rows that were predicted."""
    ever_wrong: bool | None
    """Whether the interval excludes the score after any round; ``None`` if this was not followed."""


def excludes(sequence: ConfidenceSequence, truth: float) -> bool:
    """Return whether the interval of the rounds so far excludes a score.

    It is the intersection of the intervals of all rounds, so that an exclusion is never taken back.
    """
    low, high = sequence.interval
    rounding = 1e-9
    return not low - rounding <= truth <= high + rounding


def simulate(rule: StoppingRule, population: Population, rng: random.Random, to_the_end: bool) -> Simulation:
    """Follow a rule over one random order of the rows, and the interval to the end after it."""
    truth = statistics.fmean(statistics.fmean(rows) for rows in population)
    shuffled = [rng.sample(rows, len(rows)) for rows in population]
    sizes = [len(rows) for rows in population]
    values_of_rounds = []
    for number in range(max(sizes)):  # a round has the next row of each data set
        values_of_rounds.append([rows[number] if number < len(rows) else None for rows in shuffled])

    sequence, reason = follow(rule, sizes, lambda look: values_of_rounds[look.start : look.stop])

    wrong = excludes(sequence, truth)
    predicted_rows = sum(min(sequence.rounds, size) for size in sizes)
    ever_wrong = None
    if to_the_end:
        last_inexact_round = sequence.all_rounds - 1  # the last one is exact by construction
        for number in range(sequence.rounds, last_inexact_round):
            sequence.update(values_of_rounds[number], *rule.gaps(sequence))
        ever_wrong = excludes(sequence, truth)
    return Simulation(str(reason), wrong, predicted_rows, ever_wrong)


def cell(name: str, rule: StoppingRule, population: Population, simulations: int, to_the_end: bool) -> dict[str, Any]:
    """Return the shares of simulations with wrong intervals and with each decision, and of saved queries."""
    runs = [simulate(rule, population, random.Random(f"{name} {n}"), to_the_end) for n in range(simulations)]
    all_rows = sum(len(rows) for rows in population)
    saved = sorted(1 - run.rows / all_rows for run in runs)

    def share_of(outcome: str) -> float:
        return sum(outcome in run.reason for run in runs) / simulations

    return {
        "wrong": sum(run.wrong for run in runs) / simulations,
        "ever": sum(run.ever_wrong is True for run in runs) / simulations if to_the_end else "",
        "first better": share_of("first"),
        "second better": share_of("second"),
        "equivalent within the margin": share_of("equivalent"),
        "saved": statistics.fmean(saved),
        "saved in 9 of 10": saved[simulations // 10],
    }


def study(simulations: int) -> Iterator[tuple[str, Callable[[], dict[str, Any]]]]:
    """Yield the cells by name: races by true difference, then populations by precision."""
    race = StoppingRule("race", "accuracy", MARGIN, 0.95)
    for pair in pairs():
        name = f"race, {pair.kind}, {pair.difference}"
        yield name, partial(cell, name, race, pair.differences_of_rows, simulations, to_the_end=False)
    for kind, population in populations():
        for precision in PRECISIONS:
            name = f"{kind}, {precision}"
            rule = StoppingRule("precision", "accuracy", precision, 0.95)
            # Followed to the end for one precision, because the interval does not depend on it.
            yield name, partial(cell, name, rule, population, simulations, to_the_end=precision == 0.02)


if __name__ == "__main__":
    options = arguments(__doc__, {"--simulations": 1000, "--resume": Path})
    done = resumed(options.resume, study(options.simulations))
    heads = ["case", *next(iter(done.values()))]
    print(markdown(heads, ([name, *figures.values()] for name, figures in done.items())))
    record(__file__, done, {"simulations": options.simulations})

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
from typing import Any

from records import arguments, markdown, record, resumed

from StaICC.benchmarks.race import StoppingRule, follow

Population = list[list[float]]

LABELS = (2, 2, 3, 5, 6, 4, 2, 4, 2, 4)
USUAL = (0.93, 0.91, 0.72, 0.44, 0.68, 0.83, 0.61, 0.76, 0.58, 0.71)
ROWS = 512
PRECISIONS = (0.01, 0.02, 0.05)
DIFFERENCES = (0.0, 0.02, 0.05, 0.1)
AGREEMENTS = {"related models": 0.7, "independent models": 0.0}
MARGIN = 0.02


def right(rng: random.Random, chances: Sequence[float], sizes: Sequence[int], same: float = 0.8) -> Population:
    """Accuracies of rows with two repeats, which agree in a share of the rows."""
    found = []
    for chance, size in zip(chances, sizes, strict=True):
        rows = []
        for _ in range(size):
            first = rng.random() < chance
            second = first if rng.random() < same else rng.random() < chance
            rows.append((first + second) / 2)
        found.append(rows)
    return found


def populations() -> Iterator[tuple[str, Population]]:
    """The populations whose mean is estimated."""
    rng = random.Random("populations")
    usual = [ROWS] * 10
    yield "usual accuracies", right(rng, USUAL, usual)
    yield "chance", right(rng, [1 / one for one in LABELS], usual)
    yield "all right", [[1.0] * ROWS for _ in range(10)]
    yield "all wrong", [[0.0] * ROWS for _ in range(10)]
    yield "one error in 200", right(rng, [0.995] * 10, usual)
    yield "two errors in one data set", [[1.0] * ROWS] * 9 + [[0.0, 0.0] + [1.0] * (ROWS - 2)]
    yield "five data sets right, five wrong", [[float(number % 2)] * ROWS for number in range(10)]
    yield "half of one data set, rest right", [[float(row % 2) for row in range(ROWS)]] + [[1.0] * ROWS] * 9
    yield "repeats always agree", right(rng, [0.5] * 10, usual, 1.0)
    yield "likelihood, calibrated", [[rng.betavariate(4 * one, 4 - 4 * one) for _ in range(ROWS)] for one in USUAL]
    yield (
        "likelihood, near 1 with rare zeros",
        [[rng.betavariate(50, 0.5) if rng.random() < 0.99 else 1e-6 for _ in range(ROWS)] for _ in range(10)],
    )
    yield "likelihood, near chance", [[rng.gauss(1 / one, 0.01) for _ in range(ROWS)] for one in LABELS]
    sizes = (12, 60, 96, 200, ROWS)
    yield "data sets of 12, 60, 96, 200 and 512 rows", right(rng, USUAL[2:7], sizes)


def pairs() -> Iterator[tuple[str, float, Population]]:
    """Differences of the rows of two models, whose mean is exactly the named difference."""
    for kind, agreement in AGREEMENTS.items():
        for difference in DIFFERENCES:
            rng = random.Random(f"{kind} {difference}")
            first = [[[rng.random() < one for _ in range(2)] for _ in range(ROWS)] for one in USUAL]
            second = [
                [[one if rng.random() < agreement else rng.random() < chance for one in row] for row in rows]
                for rows, chance in zip(first, USUAL, strict=True)
            ]
            wanted = round(difference * ROWS * 10 * 2)
            total = sum(sum(map(sum, rows)) for rows in first) - sum(sum(map(sum, rows)) for rows in second)
            while total != wanted:
                row, place = second[rng.randrange(10)][rng.randrange(ROWS)], rng.randrange(2)
                if row[place] == (total < wanted):
                    row[place] = total > wanted
                    total += 1 if total < wanted else -1
            yield (
                kind,
                difference,
                [
                    [(sum(a) - sum(b)) / 2 for a, b in zip(one, other, strict=True)]
                    for one, other in zip(first, second, strict=True)
                ],
            )


def one_run(rule: StoppingRule, population: Population, rng: random.Random, to_the_end: bool) -> dict[str, Any]:
    """Follow a rule over one random order."""
    truth = statistics.fmean(statistics.fmean(rows) for rows in population)
    orders = [rng.sample(range(len(rows)), len(rows)) for rows in population]
    rows = [[of_set[row] for row in order] for of_set, order in zip(population, orders, strict=True)]
    values = [
        [of_set[place] if place < len(of_set) else None for of_set in rows] for place in range(max(map(len, rows)))
    ]
    sequence, reason = follow(rule, list(map(len, rows)), lambda look: values[look.start : look.stop])
    low, high = sequence.interval  # the intersection of all rounds so far: an exclusion is never taken back
    found = {
        "reason": reason,
        "wrong": not low - 1e-9 <= truth <= high + 1e-9,
        "rows": sum(min(sequence.rounds, len(rows)) for rows in population),
    }
    if to_the_end:
        for place in range(sequence.rounds, sequence.all_rounds - 1):  # the last one is exact by construction
            sequence.update(values[place], *rule.gaps(sequence))
        low, high = sequence.interval
        found["ever"] = not low - 1e-9 <= truth <= high + 1e-9
    return found


def cell(name: str, rule: StoppingRule, population: Population, simulations: int, to_the_end: bool) -> dict[str, Any]:
    """Shares of simulations: wrong intervals and decisions, and queries that were saved."""
    runs = [one_run(rule, population, random.Random(f"{name} {n}"), to_the_end) for n in range(simulations)]
    saved = sorted(1 - run["rows"] / sum(map(len, population)) for run in runs)
    reasons = [str(run["reason"]) for run in runs]
    share = {}
    for outcome in ("first", "second", "equivalent"):
        share[outcome] = sum(outcome in reason for reason in reasons) / simulations
    return {
        "wrong": sum(run["wrong"] for run in runs) / simulations,
        "ever": sum(run["ever"] for run in runs) / simulations if to_the_end else "",
        "first better": share["first"],
        "second better": share["second"],
        "equivalent within the margin": share["equivalent"],
        "saved": statistics.fmean(saved),
        "saved in 9 of 10": saved[simulations // 10],
    }


def study(simulations: int) -> Iterator[tuple[str, Callable[[], dict[str, Any]]]]:
    """The cells by name: races by true difference, then populations by precision."""
    race = StoppingRule("race", "accuracy", MARGIN, 0.95)
    for kind, difference, population in pairs():
        name = f"race, {kind}, {difference}"
        yield name, partial(cell, name, race, population, simulations, False)
    for kind, population in populations():
        for precision in PRECISIONS:
            name, rule = f"{kind}, {precision}", StoppingRule("precision", "accuracy", precision, 0.95)
            yield name, partial(cell, name, rule, population, simulations, precision == 0.02)


if __name__ == "__main__":
    options = arguments(__doc__, {"--simulations": 1000, "--resume": Path})
    done = resumed(options.resume, study(options.simulations))
    heads = ["case", *next(iter(done.values()))]
    print(markdown(heads, ([name, *figures.values()] for name, figures in done.items())))
    record(__file__, done, {"simulations": options.simulations})

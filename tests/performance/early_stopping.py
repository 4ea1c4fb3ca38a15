"""Early stopping by simulation: how often its intervals and decisions are wrong, and how many queries it saves.

Each simulation draws new orders of the test rows of a fixed population (ten data sets of 512 rows with two repeats,
except where it says otherwise) and follows the rule of the library. "Ever" is the share of simulations in which the
interval excludes the score after *any* of the rounds, to the last: no stopping rule, however it is chosen, can be wrong
more often.

Finished lines are kept in ``--results``, so a script that was stopped continues. Usage:

    python tests/performance/early_stopping.py [--simulations 1000] [--results early_stopping.jsonl] [--markdown]
"""

from __future__ import annotations

import argparse
import json
import platform
import random
import statistics
import sys
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from StaICC.benchmarks.race import StoppingRule, follow
from StaICC.version import __version__

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
            total = sum(one[place] for rows in first for one in rows for place in (0, 1))
            total -= sum(one[place] for rows in second for one in rows for place in (0, 1))
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


def mean(population: Population) -> float:
    return statistics.fmean(statistics.fmean(rows) for rows in population)


def one_run(rule: StoppingRule, population: Population, rng: random.Random, to_the_end: bool) -> dict[str, Any]:
    """Follow a rule over one random order."""
    truth = mean(population)
    orders = [rng.sample(range(len(rows)), len(rows)) for rows in population]
    sequence, reason = follow(rule, orders, lambda look: None, lambda number, row: population[number][row])
    low, high = sequence.interval  # the intersection of all rounds so far: an exclusion is never taken back
    found = {
        "reason": reason,
        "wrong": not low - 1e-9 <= truth <= high + 1e-9,
        "rows": sum(min(sequence.rounds, len(rows)) for rows in population),
    }
    if to_the_end:
        for place in range(sequence.rounds, sequence.all_rounds):
            if sequence.rounds == sequence.all_rounds - 1:  # the last one is exact by construction
                break
            values = [
                rows[order[place]] if place < len(rows) else None
                for rows, order in zip(population, orders, strict=True)
            ]
            sequence.update(values, *rule.gaps(sequence))
        low, high = sequence.interval
        found["ever"] = not low - 1e-9 <= truth <= high + 1e-9
    return found


def study(simulations: int, done: set[str]) -> Iterator[dict[str, Any]]:
    """Yield one line for each population and rule."""
    for kind, difference, population in pairs():
        name = f"race, {kind}, {difference}"
        if name not in done:
            rule = StoppingRule("race", "accuracy", MARGIN, 0.95)
            began = time.perf_counter()
            runs = [one_run(rule, population, random.Random(f"{name} {n}"), False) for n in range(simulations)]
            reasons = [str(one["reason"]) for one in runs]
            better = sum("first" in one for one in reasons)
            worse = sum("second" in one for one in reasons)
            below = sum("below" in one for one in reasons)
            errors = worse + (better if difference == 0 else 0) + (below if difference >= MARGIN else 0)
            yield line(name, population, runs, began) | {"errors": errors / simulations, "better": better / simulations}
    for name, population in populations():
        for precision in PRECISIONS:
            key = f"{name}, {precision}"
            if key not in done:
                rule = StoppingRule("precision", "accuracy", precision, 0.95)
                began = time.perf_counter()
                to_the_end = precision == 0.02
                runs = [one_run(rule, population, random.Random(f"{key} {n}"), to_the_end) for n in range(simulations)]
                yield line(key, population, runs, began)


def line(name: str, population: Population, runs: Sequence[dict[str, Any]], began: float) -> dict[str, Any]:
    rows = sum(map(len, population))
    shares = sorted(1 - one["rows"] / rows for one in runs)
    return {
        "name": name,
        "simulations": len(runs),
        "wrong": sum(one["wrong"] for one in runs) / len(runs),
        **({"ever": sum(one["ever"] for one in runs) / len(runs)} if "ever" in runs[0] else {}),
        "saved": statistics.fmean(shares),
        "saved_p10": shares[len(shares) // 10],
        "microseconds_per_row": 1e6 * (time.perf_counter() - began) / sum(one["rows"] for one in runs),
        "version": __version__,
        "date": time.strftime("%Y-%m-%d"),
        "machine": f"{platform.machine()}, Python {platform.python_version()}",
    }


def markdown(lines: dict[str, dict[str, Any]]) -> str:
    """The two tables of docs/early_stopping.md."""
    out = [
        "| models | difference | wrong decision | names the better | saved (mean) | saved (9 of 10) |",
        "|---|---:|---:|---:|---:|---:|",
    ]
    for name, one in lines.items():
        if name.startswith("race"):
            _, kind, difference = name.split(", ")
            shown_better = f"{one['better']:.3f}" if float(difference) else "-"
            out.append(
                f"| {kind} | {float(difference):.2f} | {one['errors']:.3f} | {shown_better} | "
                f"{one['saved']:.0%} | {one['saved_p10']:.0%} |"
            )
    out += ["", "| population | ever wrong | " + " | ".join(f"wrong at {p} | saved" for p in PRECISIONS) + " |"]
    out.append("|---|---:|" + "---:|---:|" * len(PRECISIONS))
    for name in dict.fromkeys(name.rpartition(", ")[0] for name in lines if not name.startswith("race")):
        cells = [lines.get(f"{name}, {p}") for p in PRECISIONS]
        ever = f"{cells[1]['ever']:.3f}" if cells[1] else ""
        shown = [f"{one['wrong']:.3f} | {one['saved']:.0%}" if one else " | " for one in cells]
        out.append(f"| {name} | {ever} | {' | '.join(shown)} |")
    return "\n".join(out)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--simulations", type=int, default=1000)
    parser.add_argument("--results", type=Path, default=Path("early_stopping.jsonl"))
    parser.add_argument("--markdown", action="store_true", help="print the tables of the finished lines")
    args = parser.parse_args()
    texts = args.results.read_text("utf-8").splitlines() if args.results.exists() else []
    lines = {one["name"]: one for one in map(json.loads, texts)}
    if args.markdown:
        print(markdown(lines))
        return
    for found in study(args.simulations, set(lines)):
        with args.results.open("a", encoding="utf-8") as file:
            file.write(json.dumps(found) + "\n")
        print(found, flush=True)


if __name__ == "__main__":
    main()

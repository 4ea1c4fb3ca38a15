"""Error rates of what experiments of LongICL say: effective length, spread over orders, interactions of two runs.

Predictions of models with known scores are drawn, and analysed as those of a run. Items are independent, or easy and
hard ones, which all conditions have in common. Usage::

    python tests/performance/long_icl_known_models.py [--simulations 200] [--items 100]
    python tests/performance/long_icl_known_models.py --parts length order interaction

- ``length``: how often the bounds cover the true effective length, how often either is wrong.
- ``order``: how often the intervals cover the true deviation and the true range.
- ``interaction``: how often any of three interactions is significant, and how often the interval covers the first one.
"""

from __future__ import annotations

import math
import random
from collections.abc import Callable, Sequence
from typing import Any

from records import arguments, markdown, record

from StaICC.comparing.alignment import corrected
from StaICC.comparing.missing_queries import RunDifference, difference_outcome, interval_of_difference
from StaICC.comparing.verdicts import Tested
from StaICC.long_icl.cards import task_card
from StaICC.long_icl.condition_scores import ScoredItems
from StaICC.long_icl.effective_length import effective_length
from StaICC.long_icl.order_spread import order_spread
from StaICC.long_icl.scoring import Tally
from StaICC.metrics.paired_tests import paired_difference
from StaICC.metrics.statistics import Sample, mean_contributions

CARD = task_card("banking77")
LABEL = CARD.labels[0]
RIGHT = Tally((LABEL,), (LABEL,), (LABEL,))
WRONG = Tally((LABEL,), (), ())

Draw = Callable[[random.Random, Sequence[float], int], list[list[float]]]
"""Draws the chance of each item to be right in each condition, given the scores of the conditions."""


def independent(draw: random.Random, scores: Sequence[float], item_count: int) -> list[list[float]]:
    """All items have the same chance."""
    return [[score] * item_count for score in scores]


def easy_and_hard(draw: random.Random, scores: Sequence[float], item_count: int) -> list[list[float]]:
    """An item is right in all conditions whose score is above its difficulty: predictions rarely change otherwise."""
    difficulties = [draw.random() for _ in range(item_count)]
    return [[float(difficulty < score) for difficulty in difficulties] for score in scores]


def mixed(draw: random.Random, scores: Sequence[float], item_count: int) -> list[list[float]]:
    """Half of the items are independent; the others have a difficulty."""
    alone = independent(draw, scores, item_count)
    sharing = easy_and_hard(draw, scores, item_count)
    is_alone = [draw.random() < 0.5 for _ in range(item_count)]
    chances = []
    for of_alone, of_sharing in zip(alone, sharing, strict=True):
        chances.append([a if choice else b for a, b, choice in zip(of_alone, of_sharing, is_alone, strict=True)])
    return chances


ITEMS: dict[str, Draw] = {"independent": independent, "easy and hard": easy_and_hard, "mixed": mixed}


def outcomes(draw: random.Random, chances: Sequence[Sequence[float]]) -> list[list[bool]]:
    """Draw whether each item is right in each condition."""
    return [[draw.random() < chance for chance in of_condition] for of_condition in chances]


def tallies_of(right: Sequence[Sequence[bool]]) -> dict[str, list[Tally]]:
    """Return the tallies of conditions that are called 0, 1, 2, ..."""
    tallies = {}
    for number, of_condition in enumerate(right):
        tallies[str(number)] = [RIGHT if is_right else WRONG for is_right in of_condition]
    return tallies


def scored_items(item_count: int) -> ScoredItems:
    return ScoredItems(CARD, [LABEL] * item_count, list(range(item_count)))


# -- effective length

LENGTHS = {
    "the same at all lengths": (0.7,) * 5,
    "falls slowly": (0.8, 0.76, 0.72, 0.66, 0.6),
    "falls to the threshold": (0.8, 0.8, 0.68, 0.68, 0.68),
    "just below the threshold": (0.8, 0.8, 0.67, 0.67, 0.67),
    "breaks after the second": (0.9, 0.88, 0.3, 0.2, 0.1),
    "low": (0.2, 0.17, 0.15, 0.1, 0.1),
    "near 1": (0.99, 0.98, 0.97, 0.83, 0.8),
    "recovers": (0.8, 0.5, 0.75, 0.5, 0.5),
}
"""Models, each with its scores from the shortest to the longest context."""


def of_lengths(item_count: int, simulations: int) -> list[list[Any]]:
    items = scored_items(item_count)
    lines = []
    for name, scores in LENGTHS.items():
        true_length = max(number for number, score in enumerate(scores) if score >= 0.85 * scores[0] - 1e-12)
        for kind, draw_chances in ITEMS.items():
            covered, too_high, too_low, exact = 0, 0, 0, 0
            for seed in range(simulations):
                draw = random.Random(f"length {name} {kind} {seed}")
                tallies = tallies_of(outcomes(draw, draw_chances(draw, scores, item_count)))
                found = effective_length(items, tallies, guessing_score=1 / 77, share=0.85, level=0.95)
                if found["length"] is None:  # not above guessing: nothing is said
                    covered += 1
                    continue
                too_high += int(found["low"]) > true_length
                too_low += int(found["high"]) < true_length
                covered += int(found["low"]) <= true_length <= int(found["high"])
                exact += int(found["length"]) == true_length
            counts = [covered, too_high, too_low, exact]
            lines.append([name, kind, *(count / simulations for count in counts)])
    return lines


# -- spread over orders

ORDER_DEVIATIONS = (0.0, 0.02, 0.05, 0.1, 0.2)


def of_orders(item_count: int, simulations: int) -> list[list[Any]]:
    items = scored_items(item_count)
    lines = []
    for base in (0.6, 0.95):
        for deviation in ORDER_DEVIATIONS:
            for kind, draw_chances in ITEMS.items():
                covered, covered_range, wrongly_above, estimates = 0, 0, 0, []
                truths = []
                for seed in range(simulations):
                    draw = random.Random(f"order {base} {deviation} {kind} {seed}")
                    scores = [min(1.0, max(0.0, draw.gauss(base, deviation))) for _ in range(9)]
                    mean = sum(scores) / 9
                    true_deviation = math.sqrt(sum((score - mean) ** 2 for score in scores) / 8)
                    true_range = max(scores) - min(scores)
                    tallies = tallies_of(outcomes(draw, draw_chances(draw, scores, item_count)))
                    found = order_spread(items, tallies, 0.95)
                    covered += found["deviation_low"] - 1e-9 <= true_deviation <= found["deviation_high"] + 1e-9
                    covered_range += found["range_low"] - 1e-9 <= true_range <= found["range_high"] + 1e-9
                    wrongly_above += deviation == 0.0 and found["deviation_low"] > 0.0
                    estimates.append(found["deviation"])
                    truths.append(true_deviation)
                shares = [count / simulations for count in (covered, covered_range, wrongly_above)]
                means = [sum(values) / simulations for values in (truths, estimates)]
                lines.append([base, deviation, kind, *means, *shares])
    return lines


# -- interactions

RUNS: dict[str, tuple[tuple[float, ...], tuple[float, ...]]] = {
    "no effects, equal": ((0.6, 0.6, 0.6, 0.6), (0.6, 0.6, 0.6, 0.6)),
    "no effects, one run better": ((0.8, 0.8, 0.8, 0.8), (0.5, 0.5, 0.5, 0.5)),
    "equal fall": ((0.8, 0.6, 0.5, 0.4), (0.6, 0.4, 0.3, 0.2)),
    "equal fall, near the ends": ((0.98, 0.9, 0.9, 0.9), (0.1, 0.02, 0.02, 0.02)),
    "fall of the second run": ((0.7, 0.7, 0.7, 0.7), (0.7, 0.45, 0.45, 0.45)),
    "small fall of the second run": ((0.7, 0.7, 0.7, 0.7), (0.7, 0.6, 0.6, 0.6)),
}
"""Two runs, each with its scores in the reference and in three other conditions."""


def interaction(first: Sequence[Sequence[bool]], second: Sequence[Sequence[bool]], condition: int) -> RunDifference:
    """Return the interaction of two runs in one condition, as :mod:`StaICC.comparing.interactions` computes it."""
    item_count = len(first[0])
    sample = Sample([0] * item_count, list(range(item_count)), item_count, 2)
    terms = []
    changes = []
    for right in (first, second):
        scores = [[float(is_right) for is_right in right[number]] for number in (condition, 0)]
        in_condition, in_reference = (mean_contributions(sample, of_condition, (0.0, 1.0)) for of_condition in scores)
        terms.append([(1.0, in_condition), (-1.0, in_reference)])
        changes.append(in_condition.value - in_reference.value)
    difference = paired_difference(*terms)
    return RunDifference((changes[0], changes[1]), item_count, (0, 0), (difference, difference))


def of_interactions(item_count: int, simulations: int) -> list[list[Any]]:
    lines = []
    for name, (first_scores, second_scores) in RUNS.items():
        truth = (first_scores[1] - first_scores[0]) - (second_scores[1] - second_scores[0])
        for kind, draw_chances in ITEMS.items():
            rejected, covered, alone = 0, 0, 0
            for seed in range(simulations):
                draw = random.Random(f"interaction {name} {kind} {seed}")
                # Both runs have the same easy and hard items: one sequence of chances for all eight conditions.
                chances = draw_chances(draw, [*first_scores, *second_scores], item_count)
                right = outcomes(draw, chances)
                found = [interaction(right[:4], right[4:], condition) for condition in (1, 2, 3)]
                tests = corrected([difference_outcome(of_condition) for of_condition in found])
                rejected += any(isinstance(test, Tested) and test.significant for test in tests)
                single = difference_outcome(found[0])
                alone += isinstance(single, Tested) and single.p_value <= 0.05
                interval = interval_of_difference(found[0], 0.95)
                covered += interval is not None and interval.low <= truth + 1e-12 and truth - 1e-12 <= interval.high
            lines.append([name, kind, truth, *(count / simulations for count in (alone, rejected, covered))])
    return lines


TABLES = {
    "length": (of_lengths, ["scores", "items", "covered", "lower bound too high", "upper bound too low", "exact"]),
    "order": (
        of_orders,
        ["mean", "deviation", "items", "true", "estimate", "deviation covered", "range covered", "wrongly above 0"],
    ),
    "interaction": (of_interactions, ["scores", "items", "truth", "significant", "any of three", "covered"]),
}

if __name__ == "__main__":
    options = arguments(__doc__, {"--simulations": 200, "--items": 100, "--parts": list(TABLES)})
    figures = {}
    for part in options.parts:
        measure, heads = TABLES[part]
        figures[part] = measure(options.items, options.simulations)
        print(markdown(heads, figures[part]), flush=True)
    record(__file__, figures, vars(options))

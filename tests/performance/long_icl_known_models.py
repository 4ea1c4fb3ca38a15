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
from itertools import product
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
    chances_of_independent = independent(draw, scores, item_count)
    chances_of_others = easy_and_hard(draw, scores, item_count)
    is_independent = [draw.random() < 0.5 for _ in range(item_count)]
    chances: list[list[float]] = []
    for condition in range(len(scores)):
        chances.append([])
        for item in range(item_count):
            source = chances_of_independent if is_independent[item] else chances_of_others
            chances[condition].append(source[condition][item])
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


THRESHOLD = 0.85
"""The effective length is the last one whose score is at least this share of the first score."""


def true_effective_length(scores: Sequence[float]) -> int:
    """Return the number of the effective length, from 0 for the shortest context."""
    rounding = 1e-12
    return max(number for number, score in enumerate(scores) if score >= THRESHOLD * scores[0] - rounding)


def of_lengths(item_count: int, simulations: int) -> list[list[Any]]:
    """Return for each model how often the bounds of the effective length cover the true one, or are wrong."""
    items = scored_items(item_count)
    lines: list[list[Any]] = []
    for (name, scores), (kind, draw_chances) in product(LENGTHS.items(), ITEMS.items()):
        true_length = true_effective_length(scores)
        counts = dict.fromkeys(("covered", "lower bound too high", "upper bound too low", "exact"), 0)
        for seed in range(simulations):
            draw = random.Random(f"length {name} {kind} {seed}")
            tallies = tallies_of(outcomes(draw, draw_chances(draw, scores, item_count)))
            found = effective_length(items, tallies, guessing_score=1 / 77, share=THRESHOLD, level=0.95)
            if found["length"] is None:  # not above guessing: nothing is said
                counts["covered"] += 1
                continue
            low, high = int(found["low"]), int(found["high"])
            counts["covered"] += low <= true_length <= high
            counts["lower bound too high"] += low > true_length
            counts["upper bound too low"] += high < true_length
            counts["exact"] += int(found["length"]) == true_length
        lines.append([name, kind, *(count / simulations for count in counts.values())])
    return lines


# -- spread over orders

ORDER_DEVIATIONS = (0.0, 0.02, 0.05, 0.1, 0.2)


ORDERS = 9


def draw_scores_of_orders(draw: random.Random, mean: float, deviation: float) -> list[float]:
    """Draw the score of each order: normal variables, cut at 0 and 1."""
    return [min(1.0, max(0.0, draw.gauss(mean, deviation))) for _ in range(ORDERS)]


def standard_deviation(scores: Sequence[float]) -> float:
    mean = sum(scores) / ORDERS
    return math.sqrt(sum((score - mean) ** 2 for score in scores) / (ORDERS - 1))


def of_orders(item_count: int, simulations: int) -> list[list[Any]]:
    """Return for each model the mean true and estimated deviation over orders, and how often intervals cover."""
    items = scored_items(item_count)
    rounding = 1e-9
    lines: list[list[Any]] = []
    for mean, deviation, (kind, draw_chances) in product((0.6, 0.95), ORDER_DEVIATIONS, ITEMS.items()):
        covered = 0
        range_covered = 0
        wrongly_above_0 = 0
        estimates = []
        true_deviations = []
        for seed in range(simulations):
            draw = random.Random(f"order {mean} {deviation} {kind} {seed}")
            scores = draw_scores_of_orders(draw, mean, deviation)
            true_deviation = standard_deviation(scores)
            true_range = max(scores) - min(scores)
            tallies = tallies_of(outcomes(draw, draw_chances(draw, scores, item_count)))
            found = order_spread(items, tallies, 0.95)
            covered += found["deviation_low"] - rounding <= true_deviation <= found["deviation_high"] + rounding
            range_covered += found["range_low"] - rounding <= true_range <= found["range_high"] + rounding
            wrongly_above_0 += deviation == 0.0 and found["deviation_low"] > 0.0
            estimates.append(found["deviation"])
            true_deviations.append(true_deviation)
        shares = [count / simulations for count in (covered, range_covered, wrongly_above_0)]
        mean_true_deviation = sum(true_deviations) / simulations
        mean_estimate = sum(estimates) / simulations
        lines.append([mean, deviation, kind, mean_true_deviation, mean_estimate, *shares])
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


def change_terms(sample: Sample, scores: Sequence[float], scores_in_reference: Sequence[float]) -> list[Any]:
    """Return the weighted contributions of the items to a change: in a condition minus in the reference."""
    in_condition = mean_contributions(sample, scores, (0.0, 1.0))
    in_reference = mean_contributions(sample, scores_in_reference, (0.0, 1.0))
    return [(1.0, in_condition), (-1.0, in_reference)]


def interaction(first: Sequence[Sequence[bool]], second: Sequence[Sequence[bool]], condition: int) -> RunDifference:
    """Return the interaction of two runs in one condition, as :mod:`StaICC.comparing.interactions` computes it.

    Args:
        first: Whether the first run is right on each item, in the reference and in further conditions.
        second: The same for the second run.
        condition: The number of the condition; 0 is the reference.
    """
    item_count = len(first[0])
    sample = Sample([0] * item_count, list(range(item_count)), item_count, 2)
    terms_of_runs = []
    changes = []
    for is_right in (first, second):
        terms = change_terms(
            sample, [float(right) for right in is_right[condition]], [float(right) for right in is_right[0]]
        )
        (_, in_condition), (_, in_reference) = terms
        terms_of_runs.append(terms)
        changes.append(in_condition.value - in_reference.value)
    difference = paired_difference(*terms_of_runs)
    return RunDifference((changes[0], changes[1]), item_count, (0, 0), (difference, difference))


def of_interactions(item_count: int, simulations: int) -> list[list[Any]]:
    """Return for each pair of runs how often an interaction is significant, and how often the first one is covered."""
    rounding = 1e-12
    lines: list[list[Any]] = []
    for (name, (first_scores, second_scores)), (kind, draw_chances) in product(RUNS.items(), ITEMS.items()):
        true_change_of_first = first_scores[1] - first_scores[0]
        true_change_of_second = second_scores[1] - second_scores[0]
        truth = true_change_of_first - true_change_of_second
        first_is_significant = 0
        any_is_significant = 0
        covered = 0
        for seed in range(simulations):
            draw = random.Random(f"interaction {name} {kind} {seed}")
            # Both runs have the same easy and hard items: one sequence of chances for all eight conditions.
            is_right = outcomes(draw, draw_chances(draw, [*first_scores, *second_scores], item_count))
            interactions = [interaction(is_right[:4], is_right[4:], condition) for condition in (1, 2, 3)]
            corrected_outcomes = corrected([difference_outcome(difference) for difference in interactions])
            any_is_significant += any(
                isinstance(outcome, Tested) and outcome.significant for outcome in corrected_outcomes
            )
            first_outcome = difference_outcome(interactions[0])
            first_is_significant += isinstance(first_outcome, Tested) and first_outcome.p_value <= 0.05
            interval = interval_of_difference(interactions[0], 0.95)
            covered += interval is not None and interval.low - rounding <= truth <= interval.high + rounding
        shares = [count / simulations for count in (first_is_significant, any_is_significant, covered)]
        lines.append([name, kind, truth, *shares])
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

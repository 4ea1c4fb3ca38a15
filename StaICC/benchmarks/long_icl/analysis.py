"""What the conditions of an experiment show: scores and differences with intervals, and the test of positions.

The scores of ``position`` are not those of its conditions, but of the parts of the context: a part has each test item
once, in the condition in which the demonstrations of its true label are in this part.
"""

from __future__ import annotations

import random
from collections import defaultdict
from collections.abc import Hashable, Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from StaICC.benchmarks.intervals import aligned
from StaICC.benchmarks.long_icl.experimentor import LongICLExperimentor
from StaICC.benchmarks.long_icl.experiments import blocks_of, reference_tokens
from StaICC.benchmarks.long_icl.records import DataSetScore, LongICLOutcome, round_name
from StaICC.benchmarks.long_icl.scoring import score_tallies, scored
from StaICC.metrics.intervals import Interval
from StaICC.metrics.score_intervals import Part, combine, of_difference, ratio_part

REDRAWS = 1999
"""Designs that the test of positions draws; its smallest p-value is 1 / 2000."""
_METHOD = "Wilson score, design effect and t, unit: "


def score_part(
    own: LongICLExperimentor,
    outcomes: Sequence[LongICLOutcome],
    level: float,
    units: Sequence[Hashable] | None = None,
) -> Part | None:
    """Return a score with its limits and the influence of each unit; ``None`` with fewer than two units.

    Args:
        own: The experimentor.
        outcomes: One for each test item.
        level: Of the limits.
        units: The unit of each item: what another sample would draw again; ``None``: the item.
    """
    units = range(len(outcomes)) if units is None else units
    kept = [(unit, one.tally) for unit, one in zip(units, outcomes, strict=True) if one.tally is not None]
    tallies = scored(own.card.scoring, [tally for _, tally in kept], own.variant)
    hits: dict[Hashable, float] = defaultdict(float)
    sizes: dict[Hashable, float] = defaultdict(float)
    for (unit, _), tally in zip(kept, tallies, strict=False):
        accuracy = own.card.scoring.metric == "accuracy"
        size = 1 if accuracy else len(tally.gold) + len(tally.predicted)
        hits[unit] += len(tally.correct) if accuracy else min(2 * len(tally.correct), size)
        sizes[unit] += size
    if len(sizes) < 2:
        return None
    part = ratio_part(list(hits.values()), list(sizes.values()), level)
    return aligned(part, list(sizes), list(dict.fromkeys(units)))


def _shared(outcomes: Iterable[Sequence[LongICLOutcome]]) -> list[tuple[LongICLOutcome, ...]]:
    """Return the outcomes of conditions; an item that has no tally in one of them has none in the others."""
    items = [
        one if all(outcome.tally for outcome in one) else tuple(replace(outcome, tally=None) for outcome in one)
        for one in zip(*outcomes, strict=True)
    ]
    return list(zip(*items, strict=True))


def analyse(own: LongICLExperimentor, score: DataSetScore, level: float | None) -> dict[str, Any]:
    """Return the scores of an experiment, their differences, and the p-value of the test of positions.

    Args:
        own: The experimentor, which has an experiment.
        score: Its scores.
        level: Of the intervals; ``None`` for none.

    Returns:
        For each condition (``position``: each part of the context) ``items``, ``demonstrations``, ``reference_tokens``
        (of the longest context), ``all_contexts`` (reference tokens of all distinct contexts together), ``score``, and
        ``difference`` from the first condition (from the mean of the other parts). Scores and
        differences are followed by ``low`` and ``high``.
    """
    assert own.experiment is not None
    by_position = own.experiment.name == "position"
    labels = [item.gold[0] for item in own.test_items]
    outcomes = {round_name(one.round): one.outcomes if one.score is not None else () for one in score.rounds}
    units: Sequence[Hashable] | None = None
    p_value = None
    if by_position:
        units = labels
        count = len(own.rounds)
        blocks = blocks_of(own.card.labels, count, own.experiment.seed)
        orders = list(outcomes.values())
        complete = all(orders)
        outcomes = {
            f"part {part + 1}": tuple(
                orders[(part - blocks[label]) % count][place] for place, label in enumerate(labels) if complete
            )
            for part in range(count)
        }
        if complete:
            correct: dict[str, list[int]] = {label: [0] * count for label in own.card.labels}
            for order, own_outcomes in enumerate(_shared(orders)):
                for label, one in zip(labels, own_outcomes, strict=True):
                    correct[label][order] += bool(one.tally and one.tally.correct)
            p_value = position_p_value(correct, blocks)
    parts = {name: score_part(own, found, level or 0.95, units) if found else None for name, found in outcomes.items()}

    def difference(name: str, others: Sequence[str]) -> Part | None:
        """Return the difference from the mean of other conditions, on the items that have a tally in all of them."""
        compared = [outcomes[one] for one in (name, *others)]
        if not others or not all(compared):
            return None
        scores = [score_part(own, one, level or 0.95, units) for one in _shared(compared)]
        known = [of_difference(one, level or 0.95) for one in scores if one is not None]
        return combine(known, [1.0, *[-1.0 / len(others)] * len(others)]) if len(known) == len(scores) else None

    found, first = {}, next(iter(outcomes))
    for number, (name, part) in enumerate(parts.items()):
        others = [other for other in outcomes if other != name] if by_position else [first] * bool(number)
        key = own.rounds[number]
        contexts = {own.context(key, place) for place in range(len(labels))}
        tallies = [one.tally for one in outcomes[name] if one.tally is not None]
        limits = _with_limits("score", part, level, 0.0)
        if part is None and tallies:  # one unit: a score without an interval
            limits["score"] = score_tallies(own.card.scoring, tallies, own.variant).value
        found[name] = {
            "items": len(tallies),
            "demonstrations": own.conditions[key].demonstrations,
            "reference_tokens": max(map(reference_tokens, contexts)),
            "all_contexts": sum(map(reference_tokens, contexts)),
            **limits,
            **_with_limits("difference", difference(name, others), level, -1.0),
        }
    return {"name": own.experiment.name, "conditions": found, **({"p_value": p_value} if by_position else {})}


def _with_limits(name: str, part: Part | None, level: float | None, least: float) -> dict[str, float | None]:
    interval: Interval | None = None if part is None or level is None else part.interval(level, _METHOD, least)
    return {
        name: None if part is None else part.value,
        f"{name}_low": None if interval is None else interval.low,
        f"{name}_high": None if interval is None else interval.high,
    }


def position_p_value(
    correct: Mapping[str, Sequence[int]], blocks: Mapping[str, int], redraws: int = REDRAWS, seed: int = 0
) -> float:
    """Return the p-value of the hypothesis that the position of a label in the context changes no prediction.

    The design assigned labels to blocks at random. If positions change nothing, the predictions would be the same
    under every assignment. So the statistic, the variance of the number of correct predictions over the parts, is
    compared with that under other random assignments. The test is exact for any model: a constant one, one that is
    better on some labels or under some orders, and one whose predictions depend on each other.

    Args:
        correct: For each label the number of correct predictions in each condition.
        blocks: The block of each label (:func:`~StaICC.benchmarks.long_icl.experiments.blocks_of`).
        redraws: Number of other assignments.
        seed: Of the draws.

    Source:
        Fisher 1935, "The Design of Experiments"; the p-value counts the observed assignment as one of the drawn ones.

    Example:
        >>> position_p_value({"a": [1, 0], "b": [0, 1], "c": [1, 0], "d": [0, 1]}, {"a": 0, "b": 1, "c": 0, "d": 1}, 9)
        0.4
    """
    draw = random.Random(seed).random
    slots = list(blocks.values())
    labels = [label for label in blocks if len(set(correct[label])) > 1]  # the others add the same to all parts
    count = max(slots) + 1
    by_block = [
        [tuple(correct[label][(part - block) % count] for part in range(count)) for block in range(count)]
        for label in labels
    ]

    def statistic(assigned: Sequence[int]) -> int:
        columns = zip(*(rows[block] for rows, block in zip(by_block, assigned, strict=False)), strict=True)
        return sum(number * number for number in map(sum, columns))

    observed = statistic([blocks[label] for label in labels])
    extreme = 0
    for _ in range(redraws):
        order = sorted((draw(), slot) for slot in slots)
        extreme += statistic([slot for _, slot in order]) >= observed
    return (1 + extreme) / (1 + redraws)

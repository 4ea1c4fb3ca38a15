"""Baselines of an outcome, and of the mean over data sets: accuracies without a model, and p-values against them.

The random baseline follows Yauney and Mimno (2024, arXiv 2404.13020).
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache

from StaICC.benchmarks.outcome import Outcome
from StaICC.metrics.null_models import Guesses, expected_best, guessing_p_value, sign_test
from StaICC.results import Baselines

_expected_best = lru_cache(maxsize=64)(expected_best)  # ten data sets have four shapes


@dataclass(frozen=True, slots=True)
class AccuracyCounts:
    """What the baselines of one accuracy are computed from."""

    labels: int
    sizes: tuple[int, ...]
    """Queries of each test row."""
    correct: tuple[int, ...]
    """Correct predictions of each row."""
    majority: tuple[int, ...]
    """Correct predictions of each row, if the most frequent true label were always predicted."""
    last: tuple[int, ...] | None
    """The same for the label of the last demonstration; ``None`` if a prompt shows none, or a falsified one."""


def count_outcome(outcome: Outcome) -> AccuracyCounts | None:
    """Count the correct predictions of an outcome and of its deterministic baselines; ``None`` without predictions."""
    if not outcome.queries:
        return None
    label, _ = max(Counter(outcome.truth).items(), key=lambda item: (item[1], -item[0]))
    shown = [query.last_label for query in outcome.queries]

    def count(predictions: Sequence[int | None]) -> tuple[int, ...]:
        return tuple(sum(predictions[i] == outcome.truth[i] for i in group) for group in outcome.groups)

    return AccuracyCounts(
        len(outcome.queries[0].label_space),
        tuple(map(len, outcome.groups)),
        count(outcome.answered),
        count([label] * len(outcome.truth)),
        None if None in shown else count(shown),
    )


def baselines_of(counts: Sequence[AccuracyCounts], tried: int) -> Baselines:
    """Return the baselines of the mean accuracy over data sets, of which there may be one.

    Args:
        counts: The counts of each data set.
        tried: The number of settings that were tried.
    """
    totals = [sum(one.sizes) for one in counts]
    scale = len(counts)

    def mean(sums: Sequence[Sequence[int]]) -> float:
        return math.fsum(sum(rows) / total for rows, total in zip(sums, totals, strict=True)) / scale

    def beaten(others: Sequence[Sequence[int]]) -> float:
        unit = 1 if len(set(totals)) == 1 else 0
        return sign_test(
            [
                (a - b) * unit or (a - b) / total
                for one, rows, total in zip(counts, others, totals, strict=True)
                for a, b in zip(one.correct, rows, strict=True)
            ]
        )

    per_query: Guesses = tuple(
        (1 / (total * scale), one.labels, total) for one, total in zip(counts, totals, strict=True)
    )
    per_row: Guesses = tuple(
        (size / (total * scale), one.labels, rows)
        for one, total in zip(counts, totals, strict=True)
        for size, rows in sorted(Counter(one.sizes).items())
    )
    score = mean([one.correct for one in counts])
    last = [one.last for one in counts if one.last is not None]
    complete = len(last) == len(counts)
    return Baselines(
        queries=sum(totals),
        labels=counts[0].labels if scale == 1 else 0,
        uniform=math.fsum(1 / one.labels for one in counts) / scale,
        majority=mean([one.majority for one in counts]),
        tried=tried,
        max_random=_expected_best(per_query, tried),
        p_value=guessing_p_value(per_query, score, tried),
        p_value_rows=guessing_p_value(per_row, score, tried),
        p_value_majority=beaten([one.majority for one in counts]),
        last_demonstration=mean(last) if complete else None,
        p_value_last_demonstration=beaten(last) if complete else None,
    )

"""Warnings about broken models: renamed labels, echoes of the last demonstration, leaks of the true label.

An honest model may be weak, prefer a label or lean to recent demonstrations; its accuracy may then be far below
``1 / L``. So nothing here compares with uniform guessing. The null hypothesis is that predictions and labels are
independent, whatever the frequencies of both: :func:`_association` has the mean and variance of the number of matches
over all permutations of the labels over the test rows (Hoeffding 1951, "A combinatorial central limit theorem").
All queries of a row stay together, because they are not independent.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from operator import eq, mul
from typing import NamedTuple

from StaICC.benchmarks.task import Outcome

_Z = 4.5
"""Standard errors of a warning: a normal variable exceeds them in 3 of a million cases; small samples are skewed."""
_ECHO = 0.9
"""Smallest agreement with the last demonstration, after the correction for chance."""
_OTHER_LABELS = 10
"""Fewest queries for an echo whose last demonstration has a wrong label; models that are right agree with the rest."""
_LEAK_ROWS = 256
"""Fewest test rows for a leak: an accuracy of 0.97 has no error on so many in 0.04 % of cases."""
_CONSTANT = 1e-9
"""Smaller sums of squares are rounding: all units, or all labels, are the same."""


class _Unit(NamedTuple):
    """A test row or a query, and how many are equal to it."""

    matches: Sequence[float]
    """For each label, the matches of the unit if this were its label."""
    label: int
    number: int


def _association(units: Sequence[_Unit]) -> tuple[float, float, float]:
    """Compare matches with those of randomly permuted labels.

    Args:
        units: The independent units.

    Returns:
        The mean number of matches under permutation, the excess of the observed mean, and this excess in standard
        errors: the larger one of the permutations and of the sample, for excesses that are not zero under the null.
    """
    size = sum(number for _, _, number in units)
    if size < 2:
        return 0.0, 0.0, 0.0
    shares = [0.0] * len(units[0][0])
    for _, label, number in units:
        shares[label] += number / size
    of_unit = [math.fsum(map(mul, row, shares)) for row, _, _ in units]
    of_label = [math.fsum(row[label] * number for row, _, number in units) / size for label in range(len(shares))]
    mean = math.fsum(map(mul, shares, of_label))
    residuals = [
        [match - unit - average + mean for match, average in zip(row, of_label, strict=True)]
        for (row, _, _), unit in zip(units, of_unit, strict=True)
    ]
    numbers = [number for _, _, number in units]
    squares = [math.fsum(share * value**2 for value, share in zip(row, shares, strict=True)) for row in residuals]
    permuted = math.fsum(map(mul, squares, numbers))
    observed = [row[label] for row, (_, label, _) in zip(residuals, units, strict=True)]
    excess = math.fsum(map(mul, observed, numbers)) / size
    if permuted < _CONSTANT:
        return mean, 0.0, 0.0
    sample = math.fsum((value - excess) ** 2 * number for value, number in zip(observed, numbers, strict=True))
    return mean, excess, excess / math.sqrt(max(permuted, sample) / (size * (size - 1)))


def _units(rows: Iterable[tuple[tuple[int, ...], int]], outcome: Outcome) -> list[_Unit]:
    """Return the units of test rows (predictions, true label): the share of their predictions that are each label."""
    width = len(outcome.rows[0]) if outcome.rows else 0
    return [
        _Unit([predictions.count(label) / len(predictions) for label in range(width)], truth, number)
        for (predictions, truth), number in Counter(rows).items()
    ]


def _rows(outcome: Outcome) -> list[tuple[tuple[int, ...], int]]:
    """Return the predictions of each test row and its true label, sorted by the latter."""
    groups = sorted(outcome.groups, key=lambda group: outcome.truth[group[0]])
    return [(tuple(outcome.answered[place] for place in group), outcome.truth[group[0]]) for group in groups]


def _renaming(units: Sequence[_Unit]) -> list[int]:
    """Return for each predicted label the true one that it goes with: the largest excess first, each label once."""
    width = len(units[0][0])
    size = sum(number for _, _, number in units)
    together = [[0.0] * width for _ in range(width)]
    for row, true, number in units:
        for predicted, share in enumerate(row):
            together[predicted][true] += share * number
    sizes = [sum(number for _, label, number in units if label == true) for true in range(width)]
    excess = {
        (predicted, true): column[true] - math.fsum(column) * sizes[true] / size
        for predicted, column in enumerate(together)
        for true in range(width)
    }
    renaming = dict[int, int]()
    for predicted, true in sorted(excess, key=lambda pair: (-excess[pair], pair[0] != pair[1])):
        if predicted not in renaming and true not in renaming.values():
            renaming[predicted] = true
    return [renaming[label] for label in range(width)]


def _renamed(outcome: Outcome) -> tuple[list[int], float]:
    """Return the best renaming of the predictions in one half of the rows, and its gain of accuracy in the other half.

    The half that tests the renaming did not choose it, so the test needs no correction for the number of renamings.
    The gain is 0 unless it is significant, and so is the renamed accuracy, compared with chance.
    """
    rows = _rows(outcome)
    if len(rows) < 4:
        return [], 0.0
    renaming = _renaming(_units(rows[::2], outcome))
    if renaming == sorted(renaming):
        return renaming, 0.0
    tested = _units(rows[1::2], outcome)
    renamed = [
        unit._replace(matches=[unit.matches[renaming.index(label)] for label in range(len(renaming))])
        for unit in tested
    ]
    gains = [
        unit._replace(matches=[new - old for new, old in zip(unit.matches, before.matches, strict=True)])
        for unit, before in zip(renamed, tested, strict=True)
    ]
    _, gain, z = _association(gains)
    return renaming, gain if min(z, _association(renamed)[2]) > _Z else 0.0


def _renamed_count(outcome: Outcome) -> int:
    return len(outcome.rows) if _renamed(outcome)[1] else 0


def _renamed_text(count: int, total: int, outcome: Outcome) -> str:
    space, (renaming, gain) = outcome.queries[0].label_space, _renamed(outcome)
    pairs = [f"{space[old]!r} to {space[new]!r}" for old, new in enumerate(renaming) if old != new]
    more = f" and {len(pairs) - 3} more" if len(pairs) > 3 else ""
    return (
        f"the labels of {count} predictions may be exchanged: renaming {', '.join(pairs[:3])}{more} raises the "
        f"accuracy by {gain:.2f}, on rows that did not choose the names"
    )


def _below_chance(outcome: Outcome) -> int:
    """The accuracy is below that of random predictions with the same frequencies, and no renaming explains it."""
    below = _association(_units(_rows(outcome), outcome))[2] < -_Z
    return len(outcome.rows) if below and not _renamed_count(outcome) else 0


def _below_chance_text(count: int, total: int, outcome: Outcome) -> str:
    chance, excess, _ = _association(_units(_rows(outcome), outcome))
    return (
        f"the accuracy of {count} predictions is {chance + excess:.3f}, below the {chance:.3f} of random predictions "
        "with the same frequencies: are the scores negated, or the labels in another order?"
    )


def _echo(outcome: Outcome) -> int:
    """The predictions are the label of the last demonstration, also where this label is wrong."""
    shown = [query.last_label for query in outcome.queries if query.last_label is not None]
    agreeing = sum(map(eq, outcome.answered, shown))
    if not shown or len(shown) < len(outcome.queries) or agreeing < _ECHO * len(shown):
        return 0
    wrong = [place for place, label in enumerate(shown) if label != outcome.truth[place]]
    queries = _units(zip(((label,) for label in outcome.answered), shown, strict=True), outcome)
    chance, excess, z = _association(queries)
    if len(wrong) < _OTHER_LABELS or z <= _Z or excess < _ECHO * (1 - chance):
        return 0
    also_wrong = sum(outcome.answered[place] == shown[place] for place in wrong)
    return agreeing if also_wrong >= _ECHO * len(wrong) else 0


def _leak(outcome: Outcome) -> int:
    """All predictions are right."""
    return len(outcome.rows) if len(outcome.groups) >= _LEAK_ROWS and outcome.answered == outcome.truth else 0


BROKEN_MODELS: Mapping[Callable[[Outcome], int], Callable[[int, int, Outcome], str]] = {
    _renamed_count: _renamed_text,
    _below_chance: _below_chance_text,
    _echo: lambda count, total, _: (
        f"{count} of {total} predictions are the label of the last demonstration, also where it is wrong"
    ),
    _leak: lambda count, total, _: f"all {count} predictions are right: does the model see the true labels?",
}
"""Checks (the number of predictions that a warning concerns, 0 for none) and the texts of their warnings."""

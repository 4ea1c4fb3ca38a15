"""Warnings about predictions: independence of the query, collapse, ties, label order, saturation, ambiguous numbers.

A warning never changes a score. There is one of each kind for a data set; its counts are sums over the conditions in
which it holds. The thresholds keep false alarms below 1 % (``tests/performance/prediction_warnings.py``,
``docs/warnings.md``).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from itertools import pairwise

from StaICC.benchmarks.task import Outcome

_ROUNDING = 1e-6
"""Scores whose relative difference is smaller are tied: single precision with a few operations is not more exact."""
_TIED = 0.01
"""Smallest share of tied predictions that is reported."""
_SATURATED = 1 - 2.0**-24
"""Single precision rounds larger probabilities to 1."""
_MOSTLY = 0.9
"""Smallest share of saturated predictions that is reported."""
_PREDICTIONS = 29
"""Fewest predictions for a collapse or saturation: a label with a share of 0.85 fills so many in 0.9 % of cases."""
_OTHER_ROWS = 10
"""Fewest test rows with another true label for a collapse: a model that recognises 0.4 of them misses all in 0.6 %."""
_ORDERED_LABELS = 4
"""Fewest labels for a preference for their order: a fixed ranking of three labels is in order in 2 of 6 cases."""


def find_warnings(outcomes: Sequence[Outcome], content_free: bool = False) -> tuple[str, ...]:
    """Return the warnings about the predictions of all conditions, one of each kind.

    Args:
        outcomes: The conditions with their predictions.
        content_free: Whether the queries have no content, so that one ranking of the labels for all is no fault.
    """
    warnings = []
    for check in (_same, _collapsed, _tied, _ordered, _saturated, _ambiguous):
        if content_free and check in (_collapsed, _ordered):
            continue
        found = [(outcome, count) for outcome in outcomes if (count := check(outcome))]
        if found:
            count, total = sum(count for _, count in found), sum(len(outcome.rows) for outcome, _ in found)
            warnings.append(_TEXTS[check](count, total, found[0][0]) + _where([one for one, _ in found], len(outcomes)))
    return tuple(warnings)


def _where(found: Sequence[Outcome], conditions: int) -> str:
    if len(found) == conditions:
        return ""
    return f" (condition{'s' * (len(found) > 1)} {', '.join(outcome.condition.name for outcome in found)})"


# -- checks: each returns the number of predictions that a warning concerns, 0 for no warning


def _same(outcome: Outcome) -> int:
    """All scores are equal to rounding, although the prompts and the test rows differ."""
    if not outcome.rows or not _equal_scores(outcome) or len({query.prompt for query in outcome.queries}) < 2:
        return 0
    coarse = all(math.isclose(value, round(value, 2)) for value in outcome.rows[0] if math.isfinite(value))
    enough = _other_rows(outcome) >= _OTHER_ROWS if coarse else len({query.row for query in outcome.queries}) > 1
    return len(outcome.rows) if enough else 0


def _other_rows(outcome: Outcome) -> int:
    """Return the number of test rows whose true label is not the first prediction."""
    return len({query.row for query in outcome.queries if query.label != outcome.answered[0]})


def _equal_scores(outcome: Outcome) -> bool:
    """Return whether all rows are equal; rows that only name a label may be, as several queries have one label."""
    if any(_only_label(row) for row in outcome.rows[:1]):
        return False
    return all(_equal(a, b) for row in outcome.rows for a, b in zip(row, outcome.rows[0], strict=True))


def _only_label(row: Sequence[float]) -> bool:
    """Return whether a row is one-hot: one value is larger, and the others are equal (of two labels: 0 or -inf)."""
    *others, largest = sorted(row)
    return bool(others) and others[0] == others[-1] < largest and (len(row) > 2 or others[0] in (0, -math.inf))


def _equal(a: float, b: float) -> bool:
    return math.isclose(a, b, rel_tol=_ROUNDING)


def _collapsed(outcome: Outcome) -> int:
    """All predictions are one label, whatever their probabilities."""
    if len(outcome.rows) < _PREDICTIONS or len(set(outcome.answered)) > 1 or _equal_scores(outcome):
        return 0
    return len(outcome.rows) if _other_rows(outcome) >= _OTHER_ROWS else 0


def _tied(outcome: Outcome) -> int:
    """The largest scores are equal, or differ by rounding only."""
    if outcome.hard:
        return 0
    largest = [sorted(row)[:-3:-1] for row in outcome.rows if len(row) > 1]
    tied = sum(_equal(*pair) for pair in largest)
    return tied if tied >= _TIED * len(outcome.rows) else 0


def _ordered(outcome: Outcome) -> int:
    """The scores of every row rise, or fall, in the order of the labels."""
    rows = outcome.rows
    if outcome.hard or not rows or len(rows[0]) < _ORDERED_LABELS or _equal_scores(outcome):
        return 0
    falls = all(a > b for row in rows for a, b in pairwise(row))
    return len(rows) if falls or all(a < b for row in rows for a, b in pairwise(row)) else 0


def _saturated(outcome: Outcome) -> int:
    """The largest probability is 1 to rounding in most rows."""
    rows = () if outcome.hard or not outcome.rows else outcome.normalised.probabilities or ()
    saturated = sum(max(row) > _SATURATED for row in rows if len(row) > 1)
    return saturated if len(rows) >= _PREDICTIONS and saturated >= _MOSTLY * len(rows) else 0


def _ambiguous(outcome: Outcome) -> int:
    return len(outcome.rows) if outcome.kind == "ambiguous" else 0


def _collapsed_text(count: int, total: int, outcome: Outcome) -> str:
    label = outcome.answered[0]
    place = " (the first label)" if label == 0 else ""
    return f"all {count} predictions are one label, {outcome.queries[0].label_space[label]!r}{place}"


_TEXTS: dict[Callable[[Outcome], int], Callable[[int, int, Outcome], str]] = {
    _same: lambda count, total, _: f"all {count} predictions are the same: they do not depend on the query",
    _collapsed: _collapsed_text,
    _tied: lambda count, total, _: (
        f"{count} of {total} predictions have a tie for the largest score, to rounding: the first, or rounding, decides"
    ),
    _ordered: lambda count, total, _: f"the scores of all {count} predictions follow the order of the labels",
    _saturated: lambda count, total, _: (
        f"in {count} of {total} predictions the largest probability is 1 to rounding: "
        "likelihood and ECE-1 add nothing to accuracy"
    ),
    _ambiguous: lambda *_: (
        "the numbers are not clearly probabilities or logits: set outputs='probabilities' or outputs='logits'"
    ),
}

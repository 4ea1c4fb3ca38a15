"""Warnings about predictions that look like those of a broken model.

They never change a score. There is one of each kind for a data set; its counts are sums over the conditions in which it
holds. The thresholds keep false alarms below 1 % (``tests/performance/prediction_warnings.py``, ``docs/warnings.md``).

Three warnings are about broken models: renamed labels, echoes of the last demonstration, leaks of the true label. An
honest model may be weak, prefer a label or lean to recent demonstrations; its accuracy may then be far below ``1 / L``.
So nothing here compares with uniform guessing. The null hypothesis is that predictions and labels are independent,
whatever the frequencies of both: :func:`_association` has the mean and variance of the number of matches over all
permutations of the labels over the test rows (Hoeffding 1951, "A combinatorial central limit theorem"). All queries of
a row stay together, because they are not independent.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Sequence
from itertools import pairwise
from operator import eq, mul, sub

from StaICC.benchmarks.task import Outcome
from StaICC.inference.model_warnings import FIRST_QUERIES, one_label_at_first

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


_Unit = tuple[Sequence[float], int, int]
"""A test row or a query: for each label the matches if this were its label; its label; how many units are equal."""


def _association(units: Sequence[_Unit]) -> tuple[float, float, float]:
    """Compare matches with those of randomly permuted labels.

    Args:
        units: The independent units.

    Returns:
        The mean number of matches under permutation, the excess of the observed mean, and this excess in standard
        errors: the larger one of the permutations and of the sample, for excesses that are not zero under the null.
    """
    size = sum(number for _, _, number in units)
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
    width = len(outcome.rows[0])
    return [
        ([predictions.count(label) / len(predictions) for label in range(width)], truth, number)
        for (predictions, truth), number in Counter(rows).items()
    ]


def _rows(outcome: Outcome) -> list[tuple[tuple[int, ...], int]]:
    """Return the predictions of each test row and its true label, sorted by the latter."""
    of_rows: dict[tuple[int, int], list[int]] = {}
    for query, predicted in zip(outcome.queries, outcome.answered, strict=True):
        of_rows.setdefault((query.label, query.row), []).append(predicted)
    return [(tuple(predictions), label) for (label, _), predictions in sorted(of_rows.items())]


def _renaming(units: Sequence[_Unit]) -> list[int]:
    """Return for each predicted label the true one that it goes with: the largest excess first, each label once."""
    labels = range(len(units[0][0]))
    size = sum(number for _, _, number in units)
    shares = [sum(number for _, label, number in units if label == true) / size for true in labels]
    excess = {
        (predicted, true): math.fsum(
            number * row[predicted] * ((label == true) - shares[true]) for row, label, number in units
        )
        for predicted in labels
        for true in labels
    }
    renaming = dict[int, int]()
    for predicted, true in sorted(excess, key=lambda pair: (-excess[pair], pair[0] != pair[1])):
        if predicted not in renaming and true not in renaming.values():
            renaming[predicted] = true
    return [renaming[label] for label in labels]


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


_Found = tuple[int, str]
"""How many predictions a warning concerns (0: there is none), and its text, with places for both numbers."""


def find_warnings(outcomes: Sequence[Outcome], content_free: bool = False, watched: bool = False) -> tuple[str, ...]:
    """Return the warnings about the predictions of all conditions, one of each kind.

    Args:
        outcomes: The conditions with their predictions.
        content_free: Whether the queries have no content, so that one ranking of the labels for all is no fault.
        watched: Whether a run watches the first queries for a model that predicts one label only.
    """
    warnings = []
    answered = [outcome for outcome in outcomes if outcome.queries]
    shown = [outcome for outcome in answered if outcome.queries[0].last_label is not None]
    for check in _CHECKS:
        if content_free and check in (_collapsed, _ordered, *_BROKEN_MODELS):
            continue
        checked = shown if shown and check in _BROKEN_MODELS else answered  # models may follow demonstrations' noise
        found = [(outcome, *warned) for outcome in checked if (warned := check(outcome))[0]]
        if found:
            count, total = sum(count for _, count, _ in found), sum(len(outcome.rows) for outcome, _, _ in found)
            warning = found[0][2].replace("{count}", str(count), 1).replace("{total}", str(total), 1)
            if len(found) < len(outcomes):
                names = ", ".join(outcome.condition.name for outcome, _, _ in found)
                warning += f" (condition{'s' * (len(found) > 1)} {names})"
            warnings.append(warning)
    first = _first_queries(outcomes[0]) if outcomes and watched else None
    if first is not None:
        warnings.append(first)
    return tuple(warnings)


def _first_queries(outcome: Outcome) -> str | None:
    """Return the warning about the first queries of a data set, which a run logs as soon as they are predicted."""
    if len(outcome.queries) < len(outcome.condition.queries):
        return None  # some failed, so that others would be the first
    return one_label_at_first(outcome.queries[:FIRST_QUERIES], outcome.answered[:FIRST_QUERIES])


# -- checks of a condition with predictions


_NONE: _Found = (0, "")


def _same(outcome: Outcome) -> _Found:
    """All scores are equal to rounding, although the prompts and the test rows differ."""
    if not _equal_scores(outcome) or len({query.prompt for query in outcome.queries}) < 2:
        return _NONE
    coarse = all(math.isclose(value, round(value, 2)) for value in outcome.rows[0] if math.isfinite(value))
    enough = _other_rows(outcome) >= _OTHER_ROWS if coarse else len({query.row for query in outcome.queries}) > 1
    return enough * len(outcome.rows), "all {count} predictions are the same: they do not depend on the query"


def _other_rows(outcome: Outcome) -> int:
    """Return the number of test rows whose true label is not the first prediction."""
    return len({query.row for query in outcome.queries if query.label != outcome.answered[0]})


def _equal_scores(outcome: Outcome) -> bool:
    """Return whether all rows are equal; rows that only name a label may be, as several queries have one label."""
    if _only_label(outcome.rows[0]):
        return False
    return all(_equal(a, b) for row in outcome.rows for a, b in zip(row, outcome.rows[0], strict=True))


def _only_label(row: Sequence[float]) -> bool:
    """Return whether a row is one-hot: one value is larger, and the others are equal (of two labels: 0 or -inf)."""
    *others, largest = sorted(row)
    return bool(others) and others[0] == others[-1] < largest and (len(row) > 2 or others[0] in (0, -math.inf))


def _equal(a: float, b: float) -> bool:
    return math.isclose(a, b, rel_tol=_ROUNDING)


def _collapsed(outcome: Outcome) -> _Found:
    """All predictions are one label, whatever their probabilities."""
    label, count = outcome.answered[0], len(outcome.rows)
    collapsed = count >= _PREDICTIONS and len(set(outcome.answered)) == 1 and _other_rows(outcome) >= _OTHER_ROWS
    named = f"{outcome.queries[0].label_space[label]!r}{' (the first label)' * (label == 0)}"
    text = f"all {{count}} predictions are one label, {named}"
    return (collapsed and not _equal_scores(outcome)) * count, text


def _tied(outcome: Outcome) -> _Found:
    """The largest scores are equal, or differ by rounding only."""
    largest = [sorted(row)[:-3:-1] for row in outcome.rows if len(row) > 1 and not outcome.hard]
    tied = sum(_equal(*pair) for pair in largest)
    text = "predictions have a tie for the largest score, to rounding: the first, or rounding, decides"
    return tied * (tied >= _TIED * len(outcome.rows)), f"{{count}} of {{total}} {text}"


def _ordered(outcome: Outcome) -> _Found:
    """The scores of every row rise, or fall, in the order of the labels."""
    rows = outcome.rows
    if outcome.hard or len(rows[0]) < _ORDERED_LABELS or _equal_scores(outcome):
        return _NONE
    ordered = any(all(sign * a > sign * b for row in rows for a, b in pairwise(row)) for sign in (1, -1))
    return ordered * len(rows), "the scores of all {count} predictions follow the order of the labels"


def _saturated(outcome: Outcome) -> _Found:
    """The largest probability is 1 to rounding in most rows."""
    rows = () if outcome.hard else outcome.normalised.probabilities or ()
    saturated = sum(max(row) > _SATURATED for row in rows if len(row) > 1)
    text = "in {count} of {total} predictions the largest probability is 1 to rounding: "
    many = len(rows) >= _PREDICTIONS and saturated >= _MOSTLY * len(rows)
    return many * saturated, f"{text}likelihood and ECE-1 add nothing to accuracy"


def _ambiguous(outcome: Outcome) -> _Found:
    text = "the numbers are not clearly probabilities or logits: set outputs='probabilities' or outputs='logits'"
    return (outcome.kind == "ambiguous") * len(outcome.rows), text


def _renamed(outcome: Outcome) -> _Found:
    """A renaming that one half of the rows chooses raises the accuracy on the other half, also above chance.

    The half that tests the renaming did not choose it, so the test needs no correction for the number of renamings.
    """
    rows, space = _rows(outcome), outcome.queries[0].label_space
    renaming = _renaming(_units(rows[::2], outcome)) if len(rows) > 3 else []
    pairs = [f"{space[old]!r} to {space[new]!r}" for old, new in enumerate(renaming) if old != new]
    if not pairs:
        return _NONE
    tested = _units(rows[1::2], outcome)
    places = [renaming.index(label) for label in range(len(renaming))]
    renamed = [([row[place] for place in places], label, number) for row, label, number in tested]
    gains = [([*map(sub, new[0], old[0])], *old[1:]) for new, old in zip(renamed, tested, strict=True)]
    _, gain, z = _association(gains)
    if min(z, _association(renamed)[2]) <= _Z:
        return _NONE
    more = f" and {len(pairs) - 3} more" if len(pairs) > 3 else ""
    return (
        len(outcome.rows),
        f"the labels of {{count}} predictions may be exchanged: renaming {', '.join(pairs[:3])}{more} raises the "
        f"accuracy by {gain:.2f}, on rows that did not choose the names",
    )


def _below_chance(outcome: Outcome) -> _Found:
    """The accuracy is below that of random predictions with the same frequencies, and no renaming explains it."""
    chance, excess, z = _association(_units(_rows(outcome), outcome))
    if z >= -_Z or _renamed(outcome)[0]:
        return _NONE
    return (
        len(outcome.rows),
        f"the accuracy of {{count}} predictions is {chance + excess:.3f}, below the {chance:.3f} of random predictions "
        "with the same frequencies: are the scores negated, or the labels in another order?",
    )


def _echo(outcome: Outcome) -> _Found:
    """The predictions are the label of the last demonstration, also where this label is wrong."""
    shown = [query.last_label for query in outcome.queries if query.last_label is not None]
    agreeing = sum(map(eq, outcome.answered, shown))
    if not shown or len(shown) < len(outcome.queries) or agreeing < _ECHO * len(shown):
        return _NONE
    echoed = [
        last == given for last, given, true in zip(shown, outcome.answered, outcome.truth, strict=True) if last != true
    ]
    chance, excess, z = _association(_units(zip(((label,) for label in outcome.answered), shown, strict=True), outcome))
    echo = len(echoed) >= _OTHER_LABELS and sum(echoed) >= _ECHO * len(echoed) and z > _Z
    text = "{count} of {total} predictions are the label of the last demonstration, also where it is wrong"
    return (echo and excess >= _ECHO * (1 - chance)) * agreeing, text


def _leak(outcome: Outcome) -> _Found:
    """All predictions are right."""
    leaked = outcome.sample.n_rows >= _LEAK_ROWS and outcome.answered == outcome.truth
    return leaked * len(outcome.rows), "all {count} predictions are right: does the model see the true labels?"


_BROKEN_MODELS = (_renamed, _below_chance, _echo, _leak)
_CHECKS = (_same, _collapsed, _tied, _ordered, _saturated, _ambiguous, *_BROKEN_MODELS)

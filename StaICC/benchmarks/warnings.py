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
from collections import Counter, defaultdict, deque
from collections.abc import Iterable, Mapping, Sequence
from itertools import pairwise
from operator import eq
from typing import NamedTuple

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
_HALVED_ROWS = 4
"""Fewest test rows of which one half chooses a renaming and the other half tests it."""
_CONSTANT = 1e-9
"""Smaller sums of squares are rounding: all units, or all labels, are the same."""


class _Unit(NamedTuple):
    """A test row or a query, with all others that are equal to it."""

    matches: Mapping[int, float]
    """The matches if this label were the true one; labels without a match are left out."""
    label: int
    """The true label."""
    number: int
    """How many units are equal."""


def _association(units: Sequence[_Unit]) -> tuple[float, float, float]:
    """Compare matches with those of randomly permuted labels.

    The residual of a unit and a label is the number of matches, less the mean of the unit, less the mean of the label,
    plus the mean of all. The variance over permutations is the sum of the squared residuals of all units and labels.
    Only labels that a unit matches are visited: for all labels together, the squares are known as if none matched.

    Args:
        units: The independent units.

    Returns:
        The mean number of matches under permutation, the excess of the observed mean, and this excess in standard
        errors: the larger one of the permutations and of the sample, for excesses that are not zero under the null.
    """
    size = sum(unit.number for unit in units)
    units_of_label = Counter[int]()
    matches_of_label = defaultdict[int, float](float)
    for unit in units:
        units_of_label[unit.label] += unit.number
        for label, matches in unit.matches.items():
            matches_of_label[label] += matches * unit.number
    share = {label: number / size for label, number in units_of_label.items()}
    label_mean = {label: matches_of_label[label] / size for label in share}
    mean = math.fsum(share[label] * label_mean[label] for label in share)
    label_variance = math.fsum(share[label] * (label_mean[label] - mean) ** 2 for label in share)

    observed = []
    squares = []
    for unit in units:
        matched = {label: matches for label, matches in unit.matches.items() if label in share}
        unit_mean = math.fsum(share[label] * matches for label, matches in matched.items())
        observed.append(unit.matches.get(unit.label, 0.0) - unit_mean - label_mean[unit.label] + mean)
        squares_of_unit = [unit_mean**2, label_variance]  # the sum if the unit matched no label
        for label, matches in matched.items():
            without_match = mean - unit_mean - label_mean[label]
            with_matches = matches + without_match
            squares_of_unit.append(share[label] * (with_matches**2 - without_match**2))
        squares.append(math.fsum(squares_of_unit) * unit.number)

    permuted = math.fsum(squares)
    excess = math.fsum(value * unit.number for value, unit in zip(observed, units, strict=True)) / size
    if permuted < _CONSTANT:
        return mean, 0.0, 0.0
    sample = math.fsum((value - excess) ** 2 * unit.number for value, unit in zip(observed, units, strict=True))
    standard_error = math.sqrt(max(permuted, sample) / (size * (size - 1)))
    return mean, excess, excess / standard_error


def _mean_matches(units: Sequence[_Unit]) -> float:
    """Return the mean number of matches with the true labels."""
    size = sum(unit.number for unit in units)
    return math.fsum(unit.matches.get(unit.label, 0.0) * unit.number for unit in units) / size


_TestRow = tuple[tuple[int, ...], int]
"""The predictions of the queries of a test row, and its true label."""


def _units(rows: Iterable[_TestRow]) -> list[_Unit]:
    """Return the units of test rows: the share of their predictions that are each label."""
    units = []
    for (predictions, truth), number in Counter(rows).items():
        shares = {label: count / len(predictions) for label, count in Counter(predictions).items()}
        units.append(_Unit(shares, truth, number))
    return units


def _rows(outcome: Outcome) -> list[_TestRow]:
    """Return the predictions of each test row and its true label, sorted by the latter."""
    of_rows: dict[tuple[int, int], list[int]] = {}
    for query, predicted in zip(outcome.queries, outcome.answered, strict=True):
        of_rows.setdefault((query.label, query.row), []).append(predicted)
    return [(tuple(predictions), label) for (label, _), predictions in sorted(of_rows.items())]


class _FreeLabels:
    """Labels that have no partner yet, with the frequency of each.

    Args:
        frequencies: The frequency of each label.
    """

    def __init__(self, frequencies: Sequence[int]) -> None:
        self.frequencies = frequencies
        self._taken = set[int]()
        self._in_order = deque(range(len(frequencies)))
        self._rarest_first = deque(sorted(range(len(frequencies)), key=lambda label: frequencies[label]))

    def __contains__(self, label: int) -> bool:
        return label not in self._taken

    def take(self, label: int) -> None:
        """Give a label a partner."""
        self._taken.add(label)

    def first(self) -> int:
        """Return the first label."""
        return self._first_of(self._in_order)

    def rarest(self) -> int:
        """Return the label with the smallest frequency; of several, the first."""
        return self._first_of(self._rarest_first)

    def _first_of(self, labels: deque[int]) -> int:
        while labels[0] in self._taken:
            labels.popleft()
        return labels[0]


def _rarest_pair(predicted: _FreeLabels, true: _FreeLabels) -> tuple[int, int]:
    """Return the predicted and the true label with the smallest product of frequencies; of several pairs, the first."""
    rarest_predicted, rarest_true = predicted.rarest(), true.rarest()
    if true.frequencies[rarest_true] == 0:  # the product is 0 for each predicted label
        first_predicted = predicted.first()
        if predicted.frequencies[first_predicted] == 0:
            return first_predicted, true.first()
        return first_predicted, rarest_true
    if predicted.frequencies[rarest_predicted] == 0:  # the product is 0 for each true label
        return rarest_predicted, true.first()
    return rarest_predicted, rarest_true


def _renaming(rows: Sequence[_TestRow], width: int) -> list[int]:
    """Return for each predicted label the true one that it goes with: the largest excess first, each label once.

    The excess of a pair of labels is the frequency with which it occurs, less the one that is expected if predictions
    and labels are independent. Of pairs with the same excess, those of a label with itself are first. Pairs that do not
    occur are not listed: the one with the largest excess is that with the smallest expected frequency.

    Args:
        rows: The test rows. Each has the same weight, however many predictions it has.
        width: The number of labels.
    """
    row_weight = math.lcm(*{len(predictions) for predictions, _ in rows})  # so that all frequencies are integers
    predicted_frequencies, true_frequencies = [0] * width, [0] * width
    pair_frequencies = Counter[tuple[int, int]]()
    for predictions, true in rows:
        true_frequencies[true] += 1
        weight = row_weight // len(predictions)
        for predicted in predictions:
            predicted_frequencies[predicted] += weight
            pair_frequencies[predicted, true] += weight

    def rank(pair: tuple[int, int]) -> tuple[int, bool, int, int]:
        predicted, true = pair
        expected = predicted_frequencies[predicted] * true_frequencies[true]
        excess = pair_frequencies[pair] * len(rows) - expected
        return -excess, predicted != true, predicted, true

    same_label = {(label, label) for label in range(width)}
    pairs = deque(sorted(same_label.union(pair_frequencies), key=rank))
    free_predicted, free_true = _FreeLabels(predicted_frequencies), _FreeLabels(true_frequencies)
    renaming = [0] * width
    for _ in range(width):
        while pairs and not (pairs[0][0] in free_predicted and pairs[0][1] in free_true):
            pairs.popleft()
        best = _rarest_pair(free_predicted, free_true)
        if pairs:
            best = min(best, pairs[0], key=rank)
        predicted, true = best
        renaming[predicted] = true
        free_predicted.take(predicted)
        free_true.take(true)
    return renaming


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
    if coarse:  # such scores are often equal
        enough = _other_rows(outcome) >= _OTHER_ROWS
    else:
        enough = len({query.row for query in outcome.queries}) > 1
    if not enough:
        return _NONE
    return len(outcome.rows), "all {count} predictions are the same: they do not depend on the query"


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
    count = len(outcome.rows)
    if count < _PREDICTIONS or len(set(outcome.answered)) > 1 or _other_rows(outcome) < _OTHER_ROWS:
        return _NONE
    if _equal_scores(outcome):
        return _NONE
    label = outcome.answered[0]
    name = repr(outcome.queries[0].label_space[label])
    if label == 0:
        name += " (the first label)"
    return count, f"all {{count}} predictions are one label, {name}"


def _tied(outcome: Outcome) -> _Found:
    """The largest scores are equal, or differ by rounding only."""
    if outcome.hard:
        return _NONE
    tied = 0
    for row in outcome.rows:
        if len(row) > 1:
            *_, second, largest = sorted(row)
            tied += _equal(largest, second)
    if tied < _TIED * len(outcome.rows):
        return _NONE
    text = "predictions have a tie for the largest score, to rounding: the first, or rounding, decides"
    return tied, f"{{count}} of {{total}} {text}"


def _ordered(outcome: Outcome) -> _Found:
    """The scores of every row rise, or fall, in the order of the labels."""
    rows = outcome.rows
    if outcome.hard or len(rows[0]) < _ORDERED_LABELS or _equal_scores(outcome):
        return _NONE
    falling = all(a > b for row in rows for a, b in pairwise(row))
    rising = all(a < b for row in rows for a, b in pairwise(row))
    if not falling and not rising:
        return _NONE
    return len(rows), "the scores of all {count} predictions follow the order of the labels"


def _saturated(outcome: Outcome) -> _Found:
    """The largest probability is 1 to rounding in most rows."""
    if outcome.hard:
        return _NONE
    rows = outcome.normalised.probabilities or ()
    saturated = sum(max(row) > _SATURATED for row in rows if len(row) > 1)
    if len(rows) < _PREDICTIONS or saturated < _MOSTLY * len(rows):
        return _NONE
    text = "in {count} of {total} predictions the largest probability is 1 to rounding: "
    return saturated, f"{text}likelihood and ECE-1 add nothing to accuracy"


def _ambiguous(outcome: Outcome) -> _Found:
    if outcome.kind != "ambiguous":
        return _NONE
    text = "the numbers are not clearly probabilities or logits: set outputs='probabilities' or outputs='logits'"
    return len(outcome.rows), text


def _renamed(outcome: Outcome) -> _Found:
    """A renaming that one half of the rows chooses raises the accuracy on the other half, also above chance.

    The half that tests the renaming did not choose it, so the test needs no correction for the number of renamings.
    """
    rows, space = _rows(outcome), outcome.queries[0].label_space
    if len(rows) < _HALVED_ROWS:
        return _NONE
    renaming = _renaming(rows[::2], len(space))
    pairs = [f"{space[old]!r} to {space[new]!r}" for old, new in enumerate(renaming) if old != new]
    if not pairs:
        return _NONE
    tested = _units(rows[1::2])
    renamed = [_renamed_unit(unit, renaming) for unit in tested]
    gains = [_gain(old, new) for old, new in zip(tested, renamed, strict=True)]
    _, gain, gain_z = _association(gains)
    _, _, renamed_z = _association(renamed)
    if gain_z <= _Z or renamed_z <= _Z:
        return _NONE
    shown = ", ".join(pairs[:3])
    if len(pairs) > 3:
        shown += f" and {len(pairs) - 3} more"
    return (
        len(outcome.rows),
        f"the labels of {{count}} predictions may be exchanged: renaming {shown} raises the "
        f"accuracy by {gain:.2f}, on rows that did not choose the names",
    )


def _renamed_unit(unit: _Unit, renaming: Sequence[int]) -> _Unit:
    """Return a unit after its predictions are renamed."""
    matches = {renaming[predicted]: share for predicted, share in unit.matches.items()}
    return _Unit(matches, unit.label, unit.number)


def _gain(old: _Unit, new: _Unit) -> _Unit:
    """Return the matches that a unit gains by a renaming, for each label that could be the true one."""
    gains = dict(new.matches)
    for label, matches in old.matches.items():
        gains[label] = gains.get(label, 0.0) - matches
    return _Unit(gains, old.label, old.number)


def _below_chance(outcome: Outcome) -> _Found:
    """The accuracy is below that of random predictions with the same frequencies, and no renaming explains it."""
    units = _units(_rows(outcome))
    chance, _, z = _association(units)
    if z >= -_Z:
        return _NONE
    renamed_count, _ = _renamed(outcome)
    if renamed_count:
        return _NONE
    accuracy = _mean_matches(units)
    return (
        len(outcome.rows),
        f"the accuracy of {{count}} predictions is {accuracy:.3f}, below the {chance:.3f} of random predictions "
        "with the same frequencies: are the scores negated, or the labels in another order?",
    )


def _echo(outcome: Outcome) -> _Found:
    """The predictions are the label of the last demonstration, also where this label is wrong."""
    shown = [query.last_label for query in outcome.queries if query.last_label is not None]
    if not shown or len(shown) < len(outcome.queries):
        return _NONE
    agreeing = sum(map(eq, outcome.answered, shown))
    if agreeing < _ECHO * len(shown):
        return _NONE
    echoed = [
        last == given for last, given, true in zip(shown, outcome.answered, outcome.truth, strict=True) if last != true
    ]
    if len(echoed) < _OTHER_LABELS or sum(echoed) < _ECHO * len(echoed):
        return _NONE
    pairs = [((predicted,), last) for predicted, last in zip(outcome.answered, shown, strict=True)]
    chance, excess, z = _association(_units(pairs))
    if z <= _Z or excess < _ECHO * (1 - chance):
        return _NONE
    return agreeing, "{count} of {total} predictions are the label of the last demonstration, also where it is wrong"


def _leak(outcome: Outcome) -> _Found:
    """All predictions are right."""
    if outcome.sample.n_rows < _LEAK_ROWS or outcome.answered != outcome.truth:
        return _NONE
    return len(outcome.rows), "all {count} predictions are right: does the model see the true labels?"


_BROKEN_MODELS = (_renamed, _below_chance, _echo, _leak)
_CHECKS = (_same, _collapsed, _tied, _ordered, _saturated, _ambiguous, *_BROKEN_MODELS)

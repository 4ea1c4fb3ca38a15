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
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
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


@dataclass(frozen=True, slots=True)
class Finding:
    """What a check finds in the predictions of one condition."""

    count: int
    """How many predictions the warning concerns."""
    template: str
    """The warning. It has the placeholder ``{count}``, and may have ``{total}`` for the number of predictions."""


Check = Callable[[Outcome], Finding | None]
"""A check of a condition that has predictions; ``None`` if it finds nothing."""


def find_warnings(outcomes: Sequence[Outcome], content_free: bool = False, watched: bool = False) -> tuple[str, ...]:
    """Return the warnings about the predictions of all conditions, one of each kind.

    Args:
        outcomes: The conditions with their predictions.
        content_free: Whether the queries have no content, so that one ranking of the labels for all is no fault.
        watched: Whether a run watches the first queries for a model that predicts one label only.
    """
    warnings = []
    for check in _CHECKS:
        if content_free and check in _NEED_CONTENT:
            continue
        warning = _warning_of_check(check, outcomes)
        if warning is not None:
            warnings.append(warning)
    if watched and outcomes:
        warning = _warning_of_first_queries(outcomes[0])
        if warning is not None:
            warnings.append(warning)
    return tuple(warnings)


def _warning_of_check(check: Check, outcomes: Sequence[Outcome]) -> str | None:
    """Return the warning of one check over all conditions; ``None`` if it finds nothing in any."""
    findings = []
    names = []
    total = 0
    for outcome in _checked_conditions(check, outcomes):
        finding = check(outcome)
        if finding is not None:
            findings.append(finding)
            names.append(outcome.condition.name)
            total += len(outcome.rows)
    if not findings:
        return None

    count = sum(finding.count for finding in findings)
    # Not str.format: names of labels in the text may have braces.
    warning = findings[0].template.replace("{count}", str(count), 1)
    warning = warning.replace("{total}", str(total), 1)
    if len(findings) == len(outcomes):
        return warning
    if len(findings) == 1:
        return f"{warning} (condition {names[0]})"
    return f"{warning} (conditions {', '.join(names)})"


def _checked_conditions(check: Check, outcomes: Sequence[Outcome]) -> list[Outcome]:
    """Return the conditions that a check is made for: those with predictions.

    A check for a broken model leaves out conditions whose demonstrations are falsified or absent, unless there is no
    other: a model may follow the wrong labels of demonstrations.
    """
    with_predictions = [outcome for outcome in outcomes if outcome.queries]
    if check not in _BROKEN_MODELS:
        return with_predictions
    with_true_demonstrations = [outcome for outcome in with_predictions if outcome.queries[0].last_label is not None]
    if with_true_demonstrations:
        return with_true_demonstrations
    return with_predictions


def _warning_of_first_queries(outcome: Outcome) -> str | None:
    """Return the warning about the first queries of a data set, which a run logs as soon as they are predicted."""
    if len(outcome.queries) < len(outcome.condition.queries):
        # Some queries failed, so the first scored ones are not those that the run watched.
        return None
    return one_label_at_first(outcome.queries[:FIRST_QUERIES], outcome.answered[:FIRST_QUERIES])


# -- checks of scores: what they are looks wrong, whatever the true labels


def _same(outcome: Outcome) -> Finding | None:
    """All scores are equal to rounding, although the prompts and the test rows differ."""
    if not _equal_scores(outcome):
        return None
    prompts = {query.prompt for query in outcome.queries}
    if len(prompts) < 2:
        return None
    if _rounded_to_two_decimals(outcome.rows[0]):
        # Such scores are often equal, so many rows must have another true label.
        enough_rows = _rows_with_other_label(outcome) >= _OTHER_ROWS
    else:
        enough_rows = len({query.row for query in outcome.queries}) > 1
    if not enough_rows:
        return None
    return Finding(len(outcome.rows), "all {count} predictions are the same: they do not depend on the query")


def _rounded_to_two_decimals(scores: Sequence[float]) -> bool:
    finite_scores = [score for score in scores if math.isfinite(score)]
    return all(math.isclose(score, round(score, 2)) for score in finite_scores)


def _rows_with_other_label(outcome: Outcome) -> int:
    """Return the number of test rows whose true label is not the first prediction."""
    first_prediction = outcome.answered[0]
    rows = {query.row for query in outcome.queries if query.label != first_prediction}
    return len(rows)


def _equal_scores(outcome: Outcome) -> bool:
    """Return whether all rows of scores are equal to rounding.

    Rows that only name a label do not count as equal, because several queries have the same label.
    """
    first_row = outcome.rows[0]
    if _only_label(first_row):
        return False
    for row in outcome.rows:
        for score, first_score in zip(row, first_row, strict=True):
            if not _equal(score, first_score):
                return False
    return True


def _only_label(row: Sequence[float]) -> bool:
    """Return whether a row only names a label: its largest score is larger than the others, which are all equal.

    Of two labels, the other score is always "all equal", so it must also be 0 or minus infinity.
    """
    if len(row) < 2:
        return False
    ascending = sorted(row)
    smallest, second_largest, largest = ascending[0], ascending[-2], ascending[-1]
    if smallest != second_largest or second_largest >= largest:
        return False
    if len(row) == 2:
        return smallest in (0, -math.inf)
    return True


def _equal(a: float, b: float) -> bool:
    return math.isclose(a, b, rel_tol=_ROUNDING)


def _collapsed(outcome: Outcome) -> Finding | None:
    """All predictions are one label, whatever their probabilities."""
    count = len(outcome.rows)
    if count < _PREDICTIONS or len(set(outcome.answered)) > 1:
        return None
    if _rows_with_other_label(outcome) < _OTHER_ROWS:
        return None
    if _equal_scores(outcome):  # the check _same reports these
        return None
    label = outcome.answered[0]
    name = repr(outcome.queries[0].label_space[label])
    if label == 0:
        name += " (the first label)"
    return Finding(count, f"all {{count}} predictions are one label, {name}")


def _tied(outcome: Outcome) -> Finding | None:
    """The largest scores are equal, or differ by rounding only."""
    if outcome.hard:
        return None
    tied_count = 0
    for row in outcome.rows:
        if len(row) < 2:
            continue
        ascending = sorted(row)
        if _equal(ascending[-1], ascending[-2]):
            tied_count += 1
    if tied_count == 0 or tied_count < _TIED * len(outcome.rows):
        return None
    return Finding(
        tied_count,
        "{count} of {total} predictions have a tie for the largest score, to rounding: the first, or rounding, decides",
    )


def _ordered(outcome: Outcome) -> Finding | None:
    """The scores of every row rise, or fall, in the order of the labels."""
    rows = outcome.rows
    if outcome.hard or len(rows[0]) < _ORDERED_LABELS:
        return None
    if _equal_scores(outcome):
        return None
    falling = all(score > next_score for row in rows for score, next_score in pairwise(row))
    rising = all(score < next_score for row in rows for score, next_score in pairwise(row))
    if not falling and not rising:
        return None
    return Finding(len(rows), "the scores of all {count} predictions follow the order of the labels")


def _saturated(outcome: Outcome) -> Finding | None:
    """The largest probability is 1 to rounding in most rows."""
    if outcome.hard:
        return None
    rows = outcome.normalised.probabilities
    if rows is None or len(rows) < _PREDICTIONS:
        return None
    saturated_count = 0
    for row in rows:
        if len(row) > 1 and max(row) > _SATURATED:
            saturated_count += 1
    if saturated_count < _MOSTLY * len(rows):
        return None
    return Finding(
        saturated_count,
        "in {count} of {total} predictions the largest probability is 1 to rounding: likelihood and ECE-1 add nothing "
        "to accuracy",
    )


def _ambiguous(outcome: Outcome) -> Finding | None:
    """The numbers may be probabilities or logits."""
    if outcome.kind != "ambiguous":
        return None
    return Finding(
        len(outcome.rows),
        "the numbers are not clearly probabilities or logits: set outputs='probabilities' or outputs='logits'",
    )


# -- checks for a broken model: predictions and true labels do not go together as those of an honest model


def _renamed(outcome: Outcome) -> Finding | None:
    """A renaming that one half of the rows chooses raises the accuracy on the other half, also above chance.

    The half that tests the renaming did not choose it, so the test needs no correction for the number of renamings.
    """
    rows = _test_rows(outcome)
    if len(rows) < _HALVED_ROWS:
        return None
    label_space = outcome.queries[0].label_space
    choosing_rows = rows[::2]
    testing_rows = rows[1::2]
    renaming = _renaming(choosing_rows, len(label_space))
    changes = []
    for old_label, new_label in enumerate(renaming):
        if old_label != new_label:
            changes.append(f"{label_space[old_label]!r} to {label_space[new_label]!r}")
    if not changes:
        return None

    units = _units(testing_rows)
    renamed_units = [_renamed_unit(unit, renaming) for unit in units]
    gains = [_gain(unit, renamed_unit) for unit, renamed_unit in zip(units, renamed_units, strict=True)]
    gain = _association(gains)
    after_renaming = _association(renamed_units)
    if gain.standard_errors <= _Z or after_renaming.standard_errors <= _Z:
        return None

    listed = ", ".join(changes[:3])
    if len(changes) > 3:
        listed += f" and {len(changes) - 3} more"
    return Finding(
        len(outcome.rows),
        f"the labels of {{count}} predictions may be exchanged: renaming {listed} raises the "
        f"accuracy by {gain.excess:.2f}, on rows that did not choose the names",
    )


def _below_chance(outcome: Outcome) -> Finding | None:
    """The accuracy is below that of random predictions with the same frequencies, and no renaming explains it."""
    units = _units(_test_rows(outcome))
    association = _association(units)
    if association.standard_errors >= -_Z:
        return None
    if _renamed(outcome) is not None:
        return None
    accuracy = _mean_matches(units)
    return Finding(
        len(outcome.rows),
        f"the accuracy of {{count}} predictions is {accuracy:.3f}, below the {association.chance:.3f} of random "
        "predictions with the same frequencies: are the scores negated, or the labels in another order?",
    )


def _echo(outcome: Outcome) -> Finding | None:
    """The predictions are the label of the last demonstration, also where this label is wrong."""
    last_labels = [query.last_label for query in outcome.queries if query.last_label is not None]
    if not last_labels or len(last_labels) < len(outcome.queries):
        return None
    agreeing = sum(map(eq, outcome.answered, last_labels))
    if agreeing < _ECHO * len(last_labels):
        return None

    # Where the last demonstration has the true label, a model that is right agrees with it, too.
    wrong_count = 0
    wrong_echoed = 0
    for last_label, predicted, true_label in zip(last_labels, outcome.answered, outcome.truth, strict=True):
        if last_label != true_label:
            wrong_count += 1
            wrong_echoed += predicted == last_label
    if wrong_count < _OTHER_LABELS or wrong_echoed < _ECHO * wrong_count:
        return None

    pairs = [((predicted,), last_label) for predicted, last_label in zip(outcome.answered, last_labels, strict=True)]
    association = _association(_units(pairs))
    largest_excess = 1 - association.chance
    if association.standard_errors <= _Z or association.excess < _ECHO * largest_excess:
        return None
    return Finding(
        agreeing, "{count} of {total} predictions are the label of the last demonstration, also where it is wrong"
    )


def _leak(outcome: Outcome) -> Finding | None:
    """All predictions are right."""
    if outcome.sample.n_rows < _LEAK_ROWS or outcome.answered != outcome.truth:
        return None
    return Finding(len(outcome.rows), "all {count} predictions are right: does the model see the true labels?")


_BROKEN_MODELS: tuple[Check, ...] = (_renamed, _below_chance, _echo, _leak)
_CHECKS: tuple[Check, ...] = (_same, _collapsed, _tied, _ordered, _saturated, _ambiguous, *_BROKEN_MODELS)
"""All checks, in the order of their warnings."""
_NEED_CONTENT: tuple[Check, ...] = (_collapsed, _ordered, *_BROKEN_MODELS)
"""Checks that queries without content fail without a fault."""


# -- the number of matches of predictions and labels, against that of permuted labels


_TestRow = tuple[tuple[int, ...], int]
"""The predictions of the queries of a test row, and its true label."""


@dataclass(frozen=True, slots=True)
class _Unit:
    """A test row or a query, with all others that are equal to it."""

    matches: Mapping[int, float]
    """The matches if this label were the true one; labels without a match are left out."""
    label: int
    """The true label."""
    count: int
    """How many units are equal."""


class _Association(NamedTuple):
    """How far predictions match labels more often than by chance."""

    chance: float
    """The mean number of matches over all permutations of the labels."""
    excess: float
    """The mean number of matches of the observed labels, minus :attr:`chance`."""
    standard_errors: float
    """The excess in standard errors."""


def _test_rows(outcome: Outcome) -> list[_TestRow]:
    """Return the predictions of each test row and its true label, sorted by the latter."""
    predictions_of_row: dict[tuple[int, int], list[int]] = {}
    for query, predicted in zip(outcome.queries, outcome.answered, strict=True):
        predictions_of_row.setdefault((query.label, query.row), []).append(predicted)
    return [(tuple(predictions), label) for (label, _), predictions in sorted(predictions_of_row.items())]


def _units(rows: Iterable[_TestRow]) -> list[_Unit]:
    """Return the units of test rows; the matches with a label are the share of the row's predictions that are it."""
    units = []
    for (predictions, label), count in Counter(rows).items():
        matches = {predicted: number / len(predictions) for predicted, number in Counter(predictions).items()}
        units.append(_Unit(matches, label, count))
    return units


def _renamed_unit(unit: _Unit, renaming: Sequence[int]) -> _Unit:
    """Return a unit after its predictions are renamed."""
    matches = {renaming[predicted]: share for predicted, share in unit.matches.items()}
    return _Unit(matches, unit.label, unit.count)


def _gain(before: _Unit, after: _Unit) -> _Unit:
    """Return the matches that a unit gains by a renaming, for each label that could be the true one."""
    gains = dict(after.matches)
    for label, matches in before.matches.items():
        gains[label] = gains.get(label, 0.0) - matches
    return _Unit(gains, before.label, before.count)


def _mean_matches(units: Sequence[_Unit]) -> float:
    """Return the mean number of matches with the true labels."""
    size = sum(unit.count for unit in units)
    return math.fsum(unit.matches.get(unit.label, 0.0) * unit.count for unit in units) / size


def _association(units: Sequence[_Unit]) -> _Association:
    """Compare the matches with the true labels with those of randomly permuted labels.

    ``m[u, l]`` are the matches of unit ``u`` if ``l`` were its label. All means below weight a label by its share of
    the ``n`` units. The residual of a unit and a label is ::

        r[u, l] = m[u, l] - mean of m[u, .] - mean of m[., l] + mean of m

    The excess is the mean of ``r[u, label of u]`` over the units. Over permutations of the labels, its variance is the
    sum over ``u`` of the mean of ``r[u, .] ** 2``, divided by ``n * (n - 1)`` (Hoeffding 1951). Where the null
    hypothesis is wrong, the sample has another variance; the standard error is of the larger one.

    Args:
        units: The independent units.
    """
    size = sum(unit.count for unit in units)
    label_share, label_mean = _shares_and_means_of_labels(units)
    chance = math.fsum(share * label_mean[label] for label, share in label_share.items())
    label_variance = math.fsum(share * (label_mean[label] - chance) ** 2 for label, share in label_share.items())

    residuals = []
    squares = []
    for unit in units:
        matches = {label: number for label, number in unit.matches.items() if label in label_share}
        unit_mean = math.fsum(label_share[label] * number for label, number in matches.items())
        residuals.append(unit.matches.get(unit.label, 0.0) - unit_mean - label_mean[unit.label] + chance)
        # The mean of r[u, .] ** 2 as if the unit matched no label; then what each label that it matches changes. So
        # labels without a match are not visited.
        terms = [unit_mean**2, label_variance]
        for label, number in matches.items():
            residual_without_match = chance - unit_mean - label_mean[label]
            residual = number + residual_without_match
            terms.append(label_share[label] * (residual**2 - residual_without_match**2))
        squares.append(math.fsum(terms) * unit.count)

    permuted_squares = math.fsum(squares)
    counts = [unit.count for unit in units]
    excess = math.fsum(residual * count for residual, count in zip(residuals, counts, strict=True)) / size
    if permuted_squares < _CONSTANT:
        return _Association(chance, 0.0, 0.0)
    sample_squares = math.fsum(
        (residual - excess) ** 2 * count for residual, count in zip(residuals, counts, strict=True)
    )
    standard_error = math.sqrt(max(permuted_squares, sample_squares) / (size * (size - 1)))
    return _Association(chance, excess, excess / standard_error)


def _shares_and_means_of_labels(units: Sequence[_Unit]) -> tuple[dict[int, float], dict[int, float]]:
    """Return the share of the units that have each label, and the mean of their matches with it.

    Labels that no unit has are left out.
    """
    size = sum(unit.count for unit in units)
    unit_count = Counter[int]()
    match_sum = defaultdict[int, float](float)
    for unit in units:
        unit_count[unit.label] += unit.count
        for label, number in unit.matches.items():
            match_sum[label] += number * unit.count
    shares = {label: count / size for label, count in unit_count.items()}
    means = {label: match_sum[label] / size for label in unit_count}
    return shares, means


# -- the renaming of labels under which predictions and true labels agree most


class _FreeLabels:
    """Labels that have no partner yet, with the frequency of each.

    Args:
        frequencies: The frequency of each label.
    """

    def __init__(self, frequencies: Sequence[int]) -> None:
        self.frequencies = frequencies
        self._taken = set[int]()
        labels = range(len(frequencies))
        self._in_order = deque(labels)
        self._rarest_first = deque(sorted(labels, key=lambda label: frequencies[label]))

    def __contains__(self, label: int) -> bool:
        return label not in self._taken

    def take(self, label: int) -> None:
        """Give a label a partner."""
        self._taken.add(label)

    def first(self) -> int:
        """Return the first label."""
        return self._first_free(self._in_order)

    def rarest(self) -> int:
        """Return the label with the smallest frequency; of several, the first."""
        return self._first_free(self._rarest_first)

    def _first_free(self, labels: deque[int]) -> int:
        while labels[0] in self._taken:
            labels.popleft()
        return labels[0]


def _rarest_pair(predicted: _FreeLabels, true: _FreeLabels) -> tuple[int, int]:
    """Return the predicted and the true label with the smallest product of frequencies; of several pairs, the first."""
    rarest_predicted = predicted.rarest()
    rarest_true = true.rarest()
    predicted_can_be_zero = predicted.frequencies[rarest_predicted] == 0
    true_can_be_zero = true.frequencies[rarest_true] == 0
    if true_can_be_zero:
        # Each predicted label has a product of 0 with this label, so the first one is taken.
        first_predicted = predicted.first()
        if predicted.frequencies[first_predicted] == 0:
            return first_predicted, true.first()
        return first_predicted, rarest_true
    if predicted_can_be_zero:
        # Each true label has a product of 0 with this label, so the first one is taken.
        return rarest_predicted, true.first()
    return rarest_predicted, rarest_true


def _renaming(rows: Sequence[_TestRow], label_count: int) -> list[int]:
    """Return for each predicted label the true one that it goes with: the largest excess first, each label once.

    The excess of a pair of labels is the frequency with which it occurs, less the one that is expected if predictions
    and labels are independent. Of pairs with the same excess, those of a label with itself are first.

    Args:
        rows: The test rows. Each has the same weight, however many predictions it has.
        label_count: The number of labels.
    """
    # Frequencies are counted in a fraction of a row of which each row's predictions are whole numbers, so that equal
    # excesses are equal without rounding.
    row_weight = math.lcm(*{len(predictions) for predictions, _ in rows})
    predicted_frequencies = [0] * label_count
    true_frequencies = [0] * label_count
    pair_frequencies = Counter[tuple[int, int]]()
    for predictions, true in rows:
        true_frequencies[true] += 1
        weight = row_weight // len(predictions)
        for predicted in predictions:
            predicted_frequencies[predicted] += weight
            pair_frequencies[predicted, true] += weight

    def rank(pair: tuple[int, int]) -> tuple[int, bool, int, int]:
        """Return the key by which pairs are sorted; that of the largest excess is the smallest."""
        predicted, true = pair
        expected = predicted_frequencies[predicted] * true_frequencies[true]
        excess = pair_frequencies[pair] * len(rows) - expected
        return -excess, predicted != true, predicted, true

    # Of the many pairs that do not occur, only the best one is looked at: the one with the smallest expected frequency.
    same_label_pairs = {(label, label) for label in range(label_count)}
    pairs = deque(sorted(same_label_pairs.union(pair_frequencies), key=rank))
    free_predicted = _FreeLabels(predicted_frequencies)
    free_true = _FreeLabels(true_frequencies)
    renaming = [0] * label_count
    for _ in range(label_count):
        while pairs and not (pairs[0][0] in free_predicted and pairs[0][1] in free_true):
            pairs.popleft()
        best_pair = _rarest_pair(free_predicted, free_true)
        if pairs:
            best_pair = min(best_pair, pairs[0], key=rank)
        predicted, true = best_pair
        renaming[predicted] = true
        free_predicted.take(predicted)
        free_true.take(true)
    return renaming

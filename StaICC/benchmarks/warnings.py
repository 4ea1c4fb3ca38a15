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
from typing import NamedTuple

from StaICC.benchmarks.task import Outcome
from StaICC.inference.model_warnings import FIRST_QUERIES, one_label_at_first
from StaICC.metrics.classification import LOSSES, SUM_TOLERANCE, sum_or_infinity

_LEAST_STANDARD_ERRORS = 4.5
"""Fewest standard errors from chance for a warning. A normal variable exceeds them in 3 of a million cases; sums over
few rows are skewed and exceed them more often."""
_LEAST_AGREEMENT = 0.9
"""Smallest share of predictions that agree with the last demonstration for an echo."""
_LEAST_WRONG_LAST_LABELS = 10
"""Fewest queries whose last demonstration has another label than their own, for an echo. On all other queries, a right
prediction agrees with the last demonstration, too."""
_LEAST_LEAK_ROWS = 256
"""Fewest test rows for a leak: an accuracy of 0.97 has no error on so many in 0.04 % of cases."""
_LEAST_HALVED_ROWS = 4
"""Fewest test rows for exchanged labels: one half of them chooses a renaming of the labels, the other half tests it."""
_SMALLEST_SUM_OF_SQUARES = 1e-9
"""A smaller sum of squared residuals is due to rounding: all predictions, or all true labels, are the same."""
_RELATIVE_ROUNDING = 1e-6
"""Two scores are equal to rounding if their relative difference is smaller: single precision with a few operations is
not more exact."""
_LEAST_TIED_SHARE = 0.01
"""Smallest share of predictions with a tie that is reported."""
_ROUNDED_TO_ONE = 1 - 2.0**-24
"""A larger probability is 1 in single precision, and is called saturated."""
_LEAST_SATURATED_SHARE = 0.9
"""Smallest share of saturated predictions that is reported."""
_LEAST_PREDICTIONS = 29
"""Fewest predictions for a collapse to one label, or saturation. If 85 % of the predictions are a label, all of so many
are this label in 0.9 % of cases."""
_LEAST_OTHER_ROWS = 10
"""Fewest test rows with another true label than the predicted one for a collapse. A model that recognises 40 % of such
rows misses all of so many in 0.6 % of cases."""
_LEAST_ORDERED_LABELS = 4
"""Fewest labels for scores in the order of the labels: of three labels, 2 of the 6 possible rankings are in order."""


@dataclass(frozen=True, slots=True)
class Finding:
    """A warning about the predictions of one condition, with the number of predictions that it concerns."""

    count: int
    """How many predictions the warning concerns."""
    template: str
    """The warning. It has the placeholder ``{count}``, and may have ``{total}`` for the number of predictions."""


Check = Callable[[Outcome], Finding | None]
"""A check of one condition with predictions. It returns what it finds, or ``None`` if it finds nothing."""


def find_warnings(outcomes: Sequence[Outcome], content_free: bool = False, watched: bool = False) -> tuple[str, ...]:
    """Return the warnings about the predictions of all conditions, one of each kind.

    Args:
        outcomes: The conditions with their predictions.
        content_free: Whether the queries have no content. A model may then rank the labels in the same way for all.
        watched: Whether a run checks its first queries for a model that predicts one label only. That warning is then
            among these, too.
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
    """Return the warning of one check over all conditions; ``None`` if the check finds nothing in any of them.

    A warning has one text, that of the first finding. The findings of one check differ only in the labels and numbers
    that they name. ``{count}`` and ``{total}`` are replaced by sums over the conditions with a finding. The conditions
    are named at the end, unless all have a finding.
    """
    findings = []
    names = []
    prediction_count = 0
    for outcome in _checked_conditions(check, outcomes):
        finding = check(outcome)
        if finding is not None:
            findings.append(finding)
            names.append(outcome.condition.name)
            prediction_count += len(outcome.rows)
    if not findings:
        return None

    concerned_count = sum(finding.count for finding in findings)
    # Not str.format: names of labels in the text may have braces.
    warning = findings[0].template.replace("{count}", str(concerned_count), 1)
    warning = warning.replace("{total}", str(prediction_count), 1)
    if len(findings) == len(outcomes):
        return warning
    if len(findings) == 1:
        return f"{warning} (condition {names[0]})"
    return f"{warning} (conditions {', '.join(names)})"


def _checked_conditions(check: Check, outcomes: Sequence[Outcome]) -> list[Outcome]:
    """Return the conditions that a check examines.

    Most checks examine all conditions with predictions. A check for a broken model examines only those whose
    demonstrations have their true labels: a good model may follow wrong labels. If there is no such condition, it also
    examines all conditions with predictions.

    Args:
        check: The check.
        outcomes: The conditions with their predictions.
    """
    with_predictions = [outcome for outcome in outcomes if outcome.queries]
    if check not in _BROKEN_MODELS:
        return with_predictions
    # A query has the true label of its last demonstration. It is None if the condition has no demonstrations, or shows
    # wrong labels; this is the same for all queries of a condition.
    with_true_demonstrations = [outcome for outcome in with_predictions if outcome.queries[0].last_label is not None]
    if with_true_demonstrations:
        return with_true_demonstrations
    return with_predictions


def _warning_of_first_queries(outcome: Outcome) -> str | None:
    """Return the warning that the first queries of a condition all got one label.

    A run checks its first queries as soon as they are predicted, and logs this warning then. ``None`` means that they
    got several labels, that they are few or have one true label, or that a query of the condition failed.
    """
    if len(outcome.queries) < len(outcome.condition.queries):
        # Some queries failed, so the first scored queries may be others than those that the run checked.
        return None
    return one_label_at_first(outcome.queries[:FIRST_QUERIES], outcome.answered[:FIRST_QUERIES])


# -- checks of predictions alone, without the true labels


def _equal_predictions(outcome: Outcome) -> Finding | None:
    """Return a finding if the scores of all queries are equal to rounding, although prompts and test rows differ.

    Scores with two decimals are often equal by chance. They are reported only if the predicted label is wrong on at
    least 10 test rows. ``None`` is returned if the scores, the prompts or the rows are no reason for a warning.
    """
    if not _equal_scores(outcome):
        return None
    different_prompts = {query.prompt for query in outcome.queries}
    different_rows = {query.row for query in outcome.queries}
    if len(different_prompts) < 2:
        return None
    if _rounded_to_two_decimals(outcome.rows[0]):
        is_suspicious = _count_rows_with_other_label(outcome) >= _LEAST_OTHER_ROWS
    else:
        is_suspicious = len(different_rows) > 1
    if not is_suspicious:
        return None
    return Finding(len(outcome.rows), "all {count} predictions are the same: they do not depend on the query")


def _rounded_to_two_decimals(scores: Sequence[float]) -> bool:
    """Return whether all finite scores of a query are multiples of 0.01."""
    finite_scores = [score for score in scores if math.isfinite(score)]
    return all(math.isclose(score, round(score, 2)) for score in finite_scores)


def _count_rows_with_other_label(outcome: Outcome) -> int:
    """Return the number of test rows whose true label is not the label that the first query got.

    The checks use it if all queries got the same label. It is then the number of rows with a wrong prediction.
    """
    first_prediction = outcome.answered[0]
    rows = {query.row for query in outcome.queries if query.label != first_prediction}
    return len(rows)


def _equal_scores(outcome: Outcome) -> bool:
    """Return whether the scores of all queries are equal to rounding.

    The answer is ``False`` if the scores only name a label, such as 0, 1, 0: queries with the same label have these.
    """
    first_row = outcome.rows[0]
    if _only_names_label(first_row):
        return False
    for row in outcome.rows:
        if row == first_row:
            continue
        for score, first_score in zip(row, first_row, strict=True):
            if not _equal(score, first_score):
                return False
    return True


def _only_names_label(row: Sequence[float]) -> bool:
    """Return whether the scores of a query only name a label.

    They do if one score is larger than the others, and all others are equal. With two labels there is only one other
    score. It must then be 0 or minus infinity.
    """
    if len(row) < 2:
        return False
    ascending = sorted(row)
    smallest = ascending[0]
    second_largest = ascending[-2]
    largest = ascending[-1]
    if smallest != second_largest or second_largest >= largest:
        return False
    if len(row) == 2:
        return smallest in (0, -math.inf)
    return True


def _equal(a: float, b: float) -> bool:
    """Return whether two scores are equal to rounding."""
    return math.isclose(a, b, rel_tol=_RELATIVE_ROUNDING)


def _one_label_for_all(outcome: Outcome) -> Finding | None:
    """Return a finding if all predictions are one label, although at least 10 test rows have another true label.

    ``None`` is also returned for fewer than 29 predictions, and for equal scores: :func:`_equal_predictions` reports
    these.
    """
    count = len(outcome.rows)
    if count < _LEAST_PREDICTIONS or len(set(outcome.answered)) > 1:
        return None
    if _count_rows_with_other_label(outcome) < _LEAST_OTHER_ROWS:
        return None
    if _equal_scores(outcome):
        return None
    label = outcome.answered[0]
    name = repr(outcome.queries[0].label_space[label])
    if label == 0:
        name += " (the first label)"
    return Finding(count, f"all {{count}} predictions are one label, {name}")


def _ties(outcome: Outcome) -> Finding | None:
    """Return a finding if the two largest scores are equal to rounding in at least 1 % of the predictions.

    Labels have no scores, so ``None`` is returned for them.
    """
    if outcome.hard:
        return None
    tied_count = 0
    for row in outcome.rows:
        if len(row) < 2:
            continue
        ascending = sorted(row)
        if _equal(ascending[-1], ascending[-2]):
            tied_count += 1
    if tied_count == 0 or tied_count < _LEAST_TIED_SHARE * len(outcome.rows):
        return None
    return Finding(
        tied_count,
        "{count} of {total} predictions have a tie for the largest score, to rounding: the first, or rounding, decides",
    )


def _scores_in_order_of_labels(outcome: Outcome) -> Finding | None:
    """Return a finding if the scores of every query rise from label to label, or if those of every query fall.

    For example, the scores 0.1, 0.2, 0.3 and 0.4 rise. Such scores may depend on the position of a label only, and not
    on the query.

    ``None`` is also returned for bare labels, which have no scores; for fewer than 4 labels, whose scores are often in
    order by chance; and for equal scores in all queries, which :func:`_equal_predictions` reports.
    """
    rows = outcome.rows
    if outcome.hard or len(rows[0]) < _LEAST_ORDERED_LABELS:  # hard: bare labels
        return None
    if _equal_scores(outcome):
        return None
    scores_are_in_order = all(map(_rises, rows)) or all(map(_falls, rows))
    if not scores_are_in_order:
        return None
    return Finding(len(rows), "the scores of all {count} predictions follow the order of the labels")


def _rises(scores: Sequence[float]) -> bool:
    """Return whether each score of a query is larger than the one before it."""
    return all(score < next_score for score, next_score in pairwise(scores))


def _falls(scores: Sequence[float]) -> bool:
    """Return whether each score of a query is smaller than the one before it."""
    return all(score > next_score for score, next_score in pairwise(scores))


def _saturated_probabilities(outcome: Outcome) -> Finding | None:
    """Return a finding if at least 90 % of the predictions are saturated.

    A prediction is saturated if its largest probability is 1 in single precision. The true label then has a
    probability of about 1 or 0, so likelihood and calibration error say no more than the accuracy.

    Returns:
        The finding. ``None`` if fewer predictions are saturated, if there are fewer than 29 predictions, or if the
        predictions have no probabilities: they are labels, or their numbers may be probabilities or logits.
    """
    if outcome.hard:
        return None
    rows = outcome.normalised.probabilities
    if rows is None or len(rows) < _LEAST_PREDICTIONS:
        return None
    saturated_count = 0
    for row in rows:
        if len(row) > 1 and max(row) > _ROUNDED_TO_ONE:
            saturated_count += 1
    if saturated_count < _LEAST_SATURATED_SHARE * len(rows):
        return None
    return Finding(
        saturated_count,
        "in {count} of {total} predictions the largest probability is 1 to rounding: likelihood and ECE-1 add nothing "
        "to accuracy",
    )


def _ambiguous_numbers(outcome: Outcome) -> Finding | None:
    """Return a finding if the numbers of the predictions may be probabilities or logits; ``None`` if this is clear."""
    if outcome.kind != "ambiguous":
        return None
    return Finding(
        len(outcome.rows),
        "the numbers are not clearly probabilities or logits: set outputs='probabilities' or outputs='logits'; "
        f"{LOSSES}",
    )


_ROUNDING = 0.005
"""The largest error of a probability that was rounded to two decimals."""

_LEAST_PERCENTAGE = 50
"""Scores are taken for percentages if their largest sum is above this number, and at most 100."""


def _unequal_sums_above_one(outcome: Outcome) -> Finding | None:
    """Return a finding if stated probabilities sum to more than 1, and not all to the same number.

    Each row is divided by its sum. That is right for the probabilities of labels among other words, which sum to less
    than 1, or as percentages to less than 100; for shares of a fixed number of votes, whose sums are equal; and for
    counts, which are whole numbers. Probabilities that were rounded may sum to a little more than 1. Other scores that
    sum to more than 1 may be logits, or probabilities of each label on its own.

    ``None`` is returned for these, for labels, and for numbers that are no probabilities.
    """
    if outcome.hard or outcome.kind != "probabilities":
        return None
    sums = []
    large_sums = []
    for row in outcome.rows:
        total = sum_or_infinity(row)
        sums.append(total)
        if total > 1 + _ROUNDING * len(row) + SUM_TOLERANCE:
            large_sums.append(total)
    if not large_sums or _are_whole(outcome.rows):
        return None
    highest = max(sums)
    if highest - min(sums) <= SUM_TOLERANCE * highest:
        return None
    are_percentages = _LEAST_PERCENTAGE < highest <= 100 * (1 + SUM_TOLERANCE)
    if are_percentages:
        return None
    return Finding(
        len(large_sums),
        f"the scores of {{count}} of {{total}} predictions sum to more than 1, the largest to {highest:.3g}: they are "
        "divided by their sum, as outputs='probabilities' says. For logits, set outputs='logits'",
    )


def _are_whole(rows: Sequence[Sequence[float]]) -> bool:
    """Return whether all scores are whole numbers, such as counts."""
    for row in rows:
        for score in row:
            if not float(score).is_integer():
                return False
    return True


# -- checks for a broken model, which compare the predictions with the true labels


def _exchanged_labels(outcome: Outcome) -> Finding | None:
    """Return a finding if the predicted labels seem to be exchanged; ``None`` if they do not.

    An example is a model that is right on most rows, but returns label 0 for label 1 and label 1 for label 0. A
    renaming gives each predicted label a new label. Here it is ``[1, 0]``, and it raises the accuracy.

    The test rows are split into two halves:

    1. The first half chooses the renaming: the one under which predictions and true labels agree most.
    2. The second half tests it. The renaming must raise the accuracy significantly, and the accuracy after the
       renaming must be significantly above chance.

    The second half did not choose the renaming, so the test needs no correction for the number of possible renamings.
    """
    rows = _test_rows(outcome)
    if len(rows) < _LEAST_HALVED_ROWS:
        return None
    label_space = outcome.queries[0].label_space
    choosing_rows = rows[::2]
    testing_rows = rows[1::2]
    renaming = _best_renaming(choosing_rows, len(label_space))
    if renaming == list(range(len(label_space))):
        return None  # Predictions and true labels agree most if each label keeps its name.

    renamed_units = []
    gains = []
    for unit in _units(testing_rows):
        renamed_unit = _renamed_unit(unit, renaming)
        renamed_units.append(renamed_unit)
        gains.append(_gain(unit, renamed_unit))
    gain = _association(gains)
    after_renaming = _association(renamed_units)
    if gain.standard_errors <= _LEAST_STANDARD_ERRORS or after_renaming.standard_errors <= _LEAST_STANDARD_ERRORS:
        return None
    # The f-string keeps {{count}} as the placeholder {count}, which find_warnings replaces.
    return Finding(
        len(outcome.rows),
        f"the labels of {{count}} predictions may be exchanged: renaming {_listed_changes(renaming, label_space)} "
        f"raises the accuracy by {gain.excess:.2f}, on rows that did not choose the names",
    )


def _listed_changes(renaming: Sequence[int], label_space: Sequence[str]) -> str:
    """Return the changes of a renaming in words, such as ``'no' to 'yes', 'yes' to 'no'``.

    After three changes, only the number of further ones is stated.

    Args:
        renaming: The new label of each label.
        label_space: The names of the labels.
    """
    changes = []
    for old_label, new_label in enumerate(renaming):
        if old_label != new_label:
            changes.append(f"{label_space[old_label]!r} to {label_space[new_label]!r}")
    listed = ", ".join(changes[:3])
    if len(changes) > 3:
        listed += f" and {len(changes) - 3} more"
    return listed


def _below_chance(outcome: Outcome) -> Finding | None:
    """Return a finding if the accuracy is significantly below chance; ``None`` if it is not.

    Chance is the mean accuracy of the same predictions over all permutations of the true labels. If exchanged labels
    explain the low accuracy, :func:`_exchanged_labels` reports them, and this check returns ``None``.
    """
    units = _units(_test_rows(outcome))
    association = _association(units)
    if association.standard_errors >= -_LEAST_STANDARD_ERRORS:
        return None
    if _exchanged_labels(outcome) is not None:
        return None
    accuracy = _mean_matches(units)
    return Finding(
        len(outcome.rows),
        f"the accuracy of {{count}} predictions is {accuracy:.3f}, below the {association.chance:.3f} of random "
        "predictions with the same frequencies: are the scores negated, or the labels in another order?",
    )


def _echo_of_last_demonstration(outcome: Outcome) -> Finding | None:
    """Return a finding if most predictions are the label of the last demonstration, also where this label is wrong.

    The check has three conditions:

    1. At least 90 % of all predictions are the label of the last demonstration in their prompt.
    2. So are at least 90 % of the predictions for queries whose last demonstration has a wrong label. There must be at
       least 10 such queries.
    3. Predictions agree with the last demonstrations significantly more often than by chance, and the agreement above
       chance is at least 90 % of the largest possible one.

    It returns ``None`` also if a prompt has no demonstrations.
    """
    last_labels = [query.last_label for query in outcome.queries if query.last_label is not None]
    if not last_labels or len(last_labels) < len(outcome.queries):
        return None
    agreeing_count = 0
    # Where the last demonstration has the true label, a right prediction agrees with it, too. So the others decide.
    wrong_count = 0
    wrong_and_agreeing_count = 0
    for last_label, predicted, true_label in zip(last_labels, outcome.answered, outcome.truth, strict=True):
        agrees = predicted == last_label
        if agrees:
            agreeing_count += 1
        if last_label != true_label:
            wrong_count += 1
            if agrees:
                wrong_and_agreeing_count += 1
    if agreeing_count < _LEAST_AGREEMENT * len(last_labels):
        return None
    if wrong_count < _LEAST_WRONG_LAST_LABELS or wrong_and_agreeing_count < _LEAST_AGREEMENT * wrong_count:
        return None

    # If one label is frequent, predictions agree with the last demonstration by chance.
    queries = []
    for predicted, last_label in zip(outcome.answered, last_labels, strict=True):
        queries.append(_LabelledRow(predictions=(predicted,), label=last_label))
    association = _association(_units(queries))
    if association.standard_errors <= _LEAST_STANDARD_ERRORS:
        return None
    largest_excess = 1 - association.chance
    if association.excess < _LEAST_AGREEMENT * largest_excess:
        return None
    return Finding(
        agreeing_count, "{count} of {total} predictions are the label of the last demonstration, also where it is wrong"
    )


def _leaked_labels(outcome: Outcome) -> Finding | None:
    """Return a finding if the predictions on at least 256 test rows are all right; ``None`` if they are not.

    On so many rows, even a good model makes errors. So the true labels may be in the prompts.
    """
    if outcome.sample.n_rows < _LEAST_LEAK_ROWS or outcome.answered != outcome.truth:
        return None
    return Finding(len(outcome.rows), "all {count} predictions are right: does the model see the true labels?")


_BROKEN_MODELS: tuple[Check, ...] = (_exchanged_labels, _below_chance, _echo_of_last_demonstration, _leaked_labels)
_CHECKS: tuple[Check, ...] = (
    _equal_predictions,
    _one_label_for_all,
    _ties,
    _scores_in_order_of_labels,
    _saturated_probabilities,
    _ambiguous_numbers,
    _unequal_sums_above_one,
    *_BROKEN_MODELS,
)
"""All checks, in the order of their warnings."""
_NEED_CONTENT: tuple[Check, ...] = (_one_label_for_all, _scores_in_order_of_labels, *_BROKEN_MODELS)
"""Checks that a good model may fail on queries without content."""


# -- the number of matches of predictions and labels, against that of permuted labels


class _LabelledRow(NamedTuple):
    """The predictions of a test row, one for each of its queries, and the label with which they are compared.

    The label is the true label. For an echo, a row has one query, and the label is that of its last demonstration.
    """

    predictions: tuple[int, ...]
    label: int


@dataclass(frozen=True, slots=True)
class _Unit:
    """An independent unit of the permutation test: a test row with all its queries, or a single query.

    Equal units are one object with a count. For example, 30 rows that have the true label 1 and two predictions, 0 and
    1, are ``_Unit(matches={0: 0.5, 1: 0.5}, label=1, count=30)``.
    """

    matches: Mapping[int, float]
    """For each label, the share of the unit's predictions that are this label; 0 for a label that is left out."""
    label: int
    """The label with which the predictions are compared, such as the true label."""
    count: int
    """How many equal units there are."""


@dataclass(frozen=True, slots=True)
class _LabelStatistics:
    """How frequent a label is among the units, and how often predictions match it."""

    share: float
    """The share of the units that have this label."""
    mean_matches: float
    """The mean, over all units, of their matches with this label."""


class _Association(NamedTuple):
    """How much more often predictions match their labels than they match randomly permuted labels."""

    chance: float
    """The mean number of matches over all permutations of the labels."""
    excess: float
    """The mean number of matches with the observed labels, minus :attr:`chance`; negative for fewer than by chance."""
    standard_errors: float
    """The excess divided by its standard error, with the sign of the excess."""


def _test_rows(outcome: Outcome) -> list[_LabelledRow]:
    """Return the predictions of each test row with its true label.

    The rows are sorted by true label, then by row number. So every second row is a half of the test set with nearly the
    same frequencies of the true labels.
    """
    predictions_by_row: dict[tuple[int, int], list[int]] = {}
    for query, predicted in zip(outcome.queries, outcome.answered, strict=True):
        predictions_by_row.setdefault((query.label, query.row), []).append(predicted)
    test_rows = []
    for (label, _), predictions in sorted(predictions_by_row.items()):
        test_rows.append(_LabelledRow(tuple(predictions), label))
    return test_rows


def _units(rows: Iterable[_LabelledRow]) -> list[_Unit]:
    """Return the units of the permutation test. Equal rows are one unit, with their number as its count."""
    units = []
    for row, count in Counter(rows).items():
        matches = {label: number / len(row.predictions) for label, number in Counter(row.predictions).items()}
        units.append(_Unit(matches, row.label, count))
    return units


def _renamed_unit(unit: _Unit, renaming: Sequence[int]) -> _Unit:
    """Return a unit whose predicted labels are renamed. Its true label is unchanged.

    Args:
        unit: The unit.
        renaming: The new label of each label. No two labels have the same new label.
    """
    matches = {renaming[predicted]: share for predicted, share in unit.matches.items()}
    return _Unit(matches, unit.label, unit.count)


def _gain(before: _Unit, after: _Unit) -> _Unit:
    """Return a unit whose matches are the differences that a renaming makes.

    For each label, it is the share of predictions that are this label after the renaming, minus the share before. So
    the mean number of matches of these units is the accuracy that the renaming gains; it is negative for a loss.

    Args:
        before: The unit with its own predictions.
        after: The unit with renamed predictions.
    """
    gains = dict(after.matches)
    for label, matches in before.matches.items():
        gains[label] = gains.get(label, 0.0) - matches
    return _Unit(gains, before.label, before.count)


def _mean_matches(units: Sequence[_Unit]) -> float:
    """Return the mean number of matches with the true labels over all units: the accuracy."""
    unit_count = sum(unit.count for unit in units)
    return math.fsum(unit.matches.get(unit.label, 0.0) * unit.count for unit in units) / unit_count


def _association(units: Sequence[_Unit]) -> _Association:
    """Return the excess of matches over chance, with its standard error from a permutation test.

    The null hypothesis is that predictions and labels are independent. Then all permutations of the labels over the
    ``n`` units are equally likely. Let ``m[u, l]`` be the matches of unit ``u`` with label ``l``. All means over
    labels weight each label by the share of the units that have it.

    1. Chance is the mean of ``m[u, l]`` over all units and labels.
    2. A residual is what is left of a match after the means of its unit and of its label are removed::

           r[u, l] = m[u, l] - mean of m[u, .] - mean of m[., l] + chance

    3. The excess is the mean over all units of ``r[u, label of u]``. It is the mean number of observed matches minus
       chance.
    4. The variance of the excess over all permutations is the sum over all units of the mean of ``r[u, .] ** 2``,
       divided by ``n * (n - 1)`` (Hoeffding 1951).
    5. If predictions and labels are not independent, the sample variance of ``r[u, label of u]`` may be larger. The
       standard error is computed from the larger sum of squares.

    For example, four units with the predictions 0, 0, 1, 1 and the same labels have a chance of 0.5, an excess of 0.5,
    and a variance of ``4 * 0.25 / (4 * 3) = 1 / 12``. So the excess is 1.73 standard errors.

    Args:
        units: The independent units.

    Returns:
        The association. Excess and standard errors are 0 if all predictions, or all labels, are the same.
    """
    n = sum(unit.count for unit in units)
    labels = _statistics_of_labels(units)
    chance = math.fsum(label.share * label.mean_matches for label in labels.values())
    label_variance = math.fsum(label.share * (label.mean_matches - chance) ** 2 for label in labels.values())

    weighted_residuals = []
    residuals = []
    permuted_squares = []
    for unit in units:
        unit_mean = _mean_over_labels(unit, labels)
        residual = unit.matches.get(unit.label, 0.0) - unit_mean - labels[unit.label].mean_matches + chance
        residuals.append(residual)
        weighted_residuals.append(residual * unit.count)
        permuted_squares.append(_mean_square(unit, unit_mean, labels, chance, label_variance) * unit.count)
    excess = math.fsum(weighted_residuals) / n
    permuted_sum = math.fsum(permuted_squares)
    if permuted_sum < _SMALLEST_SUM_OF_SQUARES:
        return _Association(chance=chance, excess=0.0, standard_errors=0.0)

    observed_squares = []
    for unit, residual in zip(units, residuals, strict=True):
        observed_squares.append((residual - excess) ** 2 * unit.count)
    sum_of_squares = max(permuted_sum, math.fsum(observed_squares))
    standard_error = math.sqrt(sum_of_squares / (n * (n - 1)))
    return _Association(chance=chance, excess=excess, standard_errors=excess / standard_error)


def _mean_over_labels(unit: _Unit, labels: Mapping[int, _LabelStatistics]) -> float:
    """Return the mean of the matches of a unit over the labels, weighted by their shares: the mean of ``m[u, .]``."""
    return math.fsum(labels[label].share * number for label, number in unit.matches.items() if label in labels)


def _mean_square(
    unit: _Unit, unit_mean: float, labels: Mapping[int, _LabelStatistics], chance: float, label_variance: float
) -> float:
    """Return the mean of the squared residuals of a unit over the labels: the mean of ``r[u, .] ** 2``.

    Without any match, ``r[u, l]`` would be ``chance - unit_mean - mean_matches of l``, and the mean of its squares is
    ``unit_mean ** 2 + label_variance``. The squares of the labels that the unit does match are then replaced, so labels
    without a match are not visited.

    Args:
        unit: The unit.
        unit_mean: The mean of its matches over the labels.
        labels: The statistics of each label.
        chance: The mean of the matches over all units and labels.
        label_variance: The variance of the mean matches of the labels.
    """
    terms = [unit_mean**2, label_variance]
    for label, number in unit.matches.items():
        if label not in labels:
            continue
        residual_without_match = chance - unit_mean - labels[label].mean_matches
        residual = number + residual_without_match
        change_of_square = residual**2 - residual_without_match**2
        terms.append(labels[label].share * change_of_square)
    return math.fsum(terms)


def _statistics_of_labels(units: Sequence[_Unit]) -> dict[int, _LabelStatistics]:
    """Return the statistics of each label that a unit has as its label."""
    n = sum(unit.count for unit in units)
    unit_count = Counter[int]()
    match_sum = defaultdict[int, float](float)
    for unit in units:
        unit_count[unit.label] += unit.count
        for label, number in unit.matches.items():
            match_sum[label] += number * unit.count
    statistics = {}
    for label, count in unit_count.items():
        statistics[label] = _LabelStatistics(share=count / n, mean_matches=match_sum[label] / n)
    return statistics


# -- the renaming of labels under which predictions and true labels agree most


class _FreeLabels:
    """The labels that have no partner yet, while predicted labels are paired with true labels one after the other.

    Args:
        frequencies: The frequency of each label among the predictions, or among the true labels.
    """

    def __init__(self, frequencies: Sequence[int]) -> None:
        """Begin with all labels free, in two orders: by index, and from the rarest to the most frequent one."""
        self.frequencies = frequencies
        self._taken = set[int]()
        labels = range(len(frequencies))
        self._in_order = deque(labels)
        self._rarest_first = deque(sorted(labels, key=lambda label: frequencies[label]))

    def __contains__(self, label: int) -> bool:
        return label not in self._taken

    def take(self, label: int) -> None:
        """Remove a label from the free labels, because it has a partner now."""
        self._taken.add(label)

    def first(self) -> int:
        """Return the free label with the smallest index."""
        return self._first_free(self._in_order)

    def rarest(self) -> int:
        """Return the free label with the smallest frequency; of several, the one with the smallest index."""
        return self._first_free(self._rarest_first)

    def _first_free(self, labels: deque[int]) -> int:
        """Return the first label of a queue that is still free; those before it are removed from the queue."""
        while labels[0] in self._taken:
            labels.popleft()
        return labels[0]


def _rarest_pair(predicted: _FreeLabels, true: _FreeLabels) -> tuple[int, int]:
    """Return the pair of a free predicted and a free true label with the smallest product of their frequencies.

    The product is the frequency that is expected if predictions and true labels are independent, up to a factor. Of
    several pairs with the smallest product, it is the first one, by predicted and then by true label.

    Args:
        predicted: The free predicted labels.
        true: The free true labels.
    """
    rarest_predicted = predicted.rarest()
    rarest_true = true.rarest()
    a_label_is_never_predicted = predicted.frequencies[rarest_predicted] == 0
    a_label_is_never_true = true.frequencies[rarest_true] == 0
    if a_label_is_never_true:
        # Each predicted label has a product of 0 with this label, so the first one is taken.
        first_predicted = predicted.first()
        if predicted.frequencies[first_predicted] == 0:
            return first_predicted, true.first()
        return first_predicted, rarest_true
    if a_label_is_never_predicted:
        # Each true label has a product of 0 with this label, so the first one is taken.
        return rarest_predicted, true.first()
    return rarest_predicted, rarest_true


def _best_renaming(rows: Sequence[_LabelledRow], label_count: int) -> list[int]:
    """Return the renaming of labels under which predictions and true labels agree most: the new label of each label.

    A renaming pairs each predicted label with one true label, its new label. For example, ``[1, 0, 2]`` exchanges the
    labels 0 and 1. Pairs are chosen greedily, the pair with the largest excess first. The excess of a pair is its
    frequency minus the frequency that is expected if predictions and true labels are independent. Of pairs with the
    same excess, pairs of a label with itself are first.

    Args:
        rows: The test rows. Each has the same weight, however many predictions it has.
        label_count: The number of labels.
    """
    frequencies = _Frequencies.of(rows, label_count)
    free_predicted = _FreeLabels(frequencies.of_predicted)
    free_true = _FreeLabels(frequencies.of_true)
    # Only the pairs that occur, and those of a label with itself, are sorted. There may be very many other pairs. The
    # excess of a pair that never occurs is minus its expected frequency. So the best of them is the pair with the
    # smallest expected frequency, which is computed when it is needed.
    same_label_pairs = {(label, label) for label in range(label_count)}
    sorted_pairs = deque(sorted(same_label_pairs.union(frequencies.of_pair), key=frequencies.rank))
    renaming = [0] * label_count
    for _ in range(label_count):
        while sorted_pairs and not _is_free(sorted_pairs[0], free_predicted, free_true):
            sorted_pairs.popleft()
        best_pair = _rarest_pair(free_predicted, free_true)
        if sorted_pairs:
            best_pair = min(best_pair, sorted_pairs[0], key=frequencies.rank)
        predicted, true = best_pair
        renaming[predicted] = true
        free_predicted.take(predicted)
        free_true.take(true)
    return renaming


def _is_free(pair: tuple[int, int], free_predicted: _FreeLabels, free_true: _FreeLabels) -> bool:
    """Return whether neither the predicted nor the true label of a pair has a partner yet."""
    predicted, true = pair
    return predicted in free_predicted and true in free_true


@dataclass(frozen=True, slots=True)
class _Frequencies:
    """How often labels are predicted, are true, and are predicted for a true label, in test rows of equal weight.

    They are integers, so that equal excesses are equal without rounding. A row counts 1 among the true labels. Among
    the predictions, a row counts as the same multiple of the number of its predictions in total.
    """

    row_count: int
    of_predicted: Sequence[int]
    of_true: Sequence[int]
    of_pair: Counter[tuple[int, int]]
    """By predicted and true label."""

    @classmethod
    def of(cls, rows: Sequence[_LabelledRow], label_count: int) -> _Frequencies:
        """Return the frequencies in test rows."""
        row_weight = math.lcm(*{len(row.predictions) for row in rows})
        of_predicted = [0] * label_count
        of_true = [0] * label_count
        of_pair = Counter[tuple[int, int]]()
        for row in rows:
            of_true[row.label] += 1
            weight = row_weight // len(row.predictions)
            for predicted in row.predictions:
                of_predicted[predicted] += weight
                of_pair[predicted, row.label] += weight
        return cls(len(rows), of_predicted, of_true, of_pair)

    def rank(self, pair: tuple[int, int]) -> tuple[int, bool, int, int]:
        """Return the sort key of a pair of predicted and true label. The best pair has the smallest key."""
        predicted, true = pair
        expected = self.of_predicted[predicted] * self.of_true[true]
        excess = self.of_pair[pair] * self.row_count - expected
        return -excess, predicted != true, predicted, true

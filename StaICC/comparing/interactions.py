"""Interactions: does a change of the condition of an experiment change one run more than another?

An experiment of LongICL compares conditions, such as 4K and 32K tokens. Let a_0 and a_c be the scores of the first run
in the reference condition, such as 4K, and in another one, and b_0 and b_c those of the second run. The *change* of a
run is ``a_c - a_0``. The interaction is the difference of the two changes::

    interaction = (a_c - a_0) - (b_c - b_0)

Two runs can differ in every condition and have no interaction, and a change can be significant for one run and not for
another although there is no interaction (Gelman and Stern 2006, "The Difference Between 'Significant' and 'Not
Significant' is not Itself Statistically Significant"). All four scores are those of the same test rows, so the paired
test of runs (:mod:`StaICC.metrics.paired_tests`) tests their weighted sum, in the mean over data sets.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from StaICC.comparing.alignment import AlignedRuns, corrected_in_groups
from StaICC.comparing.cells import interval_cell, number_cell
from StaICC.comparing.missing_queries import (
    RunDifference,
    difference_outcome,
    interval_of_difference,
    mean_of_differences,
)
from StaICC.comparing.pairing import PairedScores
from StaICC.comparing.run_scores import WeightedContributions
from StaICC.comparing.verdicts import Tested, TestOutcome, Untested, p_text
from StaICC.metrics.intervals import Interval
from StaICC.results.result import Result
from StaICC.safe_text import one_line


@dataclass(frozen=True, slots=True)
class Interaction:
    """The changes of two runs from a reference condition to another one, and their difference."""

    condition: str
    reference: str
    rows: int
    """Test rows that both runs have in both conditions, over all data sets."""
    changes: tuple[float | None, float | None]
    """The change of the first and of the second run: the score in the condition minus that in the reference."""
    difference: float | None
    """The interaction: the change of the first run minus that of the second."""
    interval: Interval | None
    """Its confidence interval; ``None`` if it has no bound."""
    outcome: TestOutcome
    """The paired test over test rows. Missing queries count at their worst for each direction. The p-value is corrected
    for both directions of all interactions of all pairs of runs (Holm)."""

    def __str__(self) -> str:
        """Return the conclusion as a sentence: whether the runs change differently, or why that is untested."""
        change = f"{self.condition} against {self.reference}"
        if isinstance(self.outcome, Untested):
            return one_line(f"untested interaction: {change} ({self.outcome.reason})")
        verdict = "the runs are not shown to change differently"
        if self.outcome.significant:
            verdict = "the runs change differently"
        return one_line(f"{change}: {verdict} ({p_text(self.outcome.corrected_p_value)})")

    def cells(self) -> dict[str, str]:
        """Return the cells of the interaction in a table, by column head."""
        first, second = self.changes
        p_value: float | None = None
        corrected_p_value: float | None = None
        if isinstance(self.outcome, Tested):
            p_value = self.outcome.p_value
            corrected_p_value = self.outcome.corrected_p_value
        return {
            "change of the condition": f"{self.reference} to {self.condition}",
            "rows": str(self.rows),
            "first": number_cell(first, "+.4f"),
            "second": number_cell(second, "+.4f"),
            "interaction": number_cell(self.difference, "+.4f"),
            "interval": interval_cell(self.interval),
            "p": number_cell(p_value, ".3g"),
            "p (corrected)": number_cell(corrected_p_value, ".3g"),
        }


def interactions_of(
    aligned: Mapping[str, AlignedRuns], pairs: Sequence[tuple[str, str]], coverage: float, chosen_from: int = 0
) -> dict[tuple[str, str], tuple[Interaction, ...]]:
    """Return the interactions of each pair of runs; a pair without interactions has no entry.

    P-values are corrected for the number of all interactions of all pairs (Holm).

    Args:
        aligned: The aligned runs of an experiment, by condition, in order.
        pairs: The pairs of runs that are compared.
        coverage: Nominal coverage of the intervals.
        chosen_from: Number of interactions from which these were chosen by the values of the runs; 0 if they were not
            (:func:`~StaICC.comparing.alignment.corrected`).
    """
    by_pair: dict[tuple[str, str], list[Interaction]] = {}
    for pair in pairs:
        for condition, in_condition in aligned.items():
            reference = _reference_of(condition, in_condition, list(aligned))
            if reference is None:
                continue
            in_reference = aligned[reference]
            if not _has_runs([in_condition, in_reference], pair):
                continue
            interaction = _interaction(condition, reference, in_condition, in_reference, pair, coverage)
            by_pair.setdefault(pair, []).append(interaction)

    tests_by_pair = []
    for interactions in by_pair.values():
        tests_by_pair.append([interaction.outcome for interaction in interactions])
    outcomes_by_pair = corrected_in_groups(tests_by_pair, chosen_from=chosen_from)

    corrected_by_pair: dict[tuple[str, str], tuple[Interaction, ...]] = {}
    for (pair, interactions), outcomes in zip(by_pair.items(), outcomes_by_pair, strict=True):
        with_outcomes = []
        for interaction, outcome in zip(interactions, outcomes, strict=True):
            with_outcomes.append(replace(interaction, outcome=outcome))
        corrected_by_pair[pair] = tuple(with_outcomes)
    return corrected_by_pair


def _reference_of(condition: str, aligned: AlignedRuns, conditions: Sequence[str]) -> str | None:
    """Return the condition from which the change to a condition is measured.

    It is the one from which the experiment computes the difference of the condition: the first condition, or another
    one that the experiment names. The conditions of ``position`` are orders, which exchange the parts of the context,
    so they have no reference.

    Args:
        condition: The condition.
        aligned: The aligned runs in this condition.
        conditions: All conditions, in order.

    Returns:
        The reference; ``None`` for the first condition, for ``position``, and if the runs lack the reference.
    """
    any_run = next(iter(aligned.runs.values()))  # all runs have the same experiment
    experiment = _experiment_record(any_run)
    if experiment.get("name") == "position":
        return None
    reference = (experiment.get("compared") or {}).get(condition, conditions[0])
    if reference == condition or reference not in conditions:
        return None
    return str(reference)


def _experiment_record(result: Result) -> Mapping[str, Any]:
    """Return the record of the experiment of a result, from its first data set that has one."""
    for scores in result.divided.values():
        if scores.get("experiment"):
            record: Mapping[str, Any] = scores["experiment"]
            return record
    return {}


def _has_runs(conditions: Sequence[AlignedRuns], pair: tuple[str, str]) -> bool:
    """Return whether both runs of a pair are compared in all conditions."""
    return all(run in aligned.runs for aligned in conditions for run in pair)


def _interaction(
    condition: str,
    reference: str,
    in_condition: AlignedRuns,
    in_reference: AlignedRuns,
    pair: tuple[str, str],
    coverage: float,
) -> Interaction:
    """Return the interaction of two runs in one condition, in the mean over the data sets of both conditions.

    Args:
        condition: The condition.
        reference: The reference condition.
        in_condition: The aligned runs in the condition.
        in_reference: The aligned runs in the reference condition.
        pair: The names of the two runs.
        coverage: Nominal coverage of the interval.
    """
    datasets = in_condition.pair(*pair).datasets
    datasets_of_reference = in_reference.pair(*pair).datasets
    differences = []
    for dataset, paired in datasets.items():
        if dataset in datasets_of_reference:
            differences.append(_difference_of_changes(paired, datasets_of_reference[dataset]))
    if not differences:
        return Interaction(
            condition=condition,
            reference=reference,
            rows=0,
            changes=(None, None),
            difference=None,
            interval=None,
            outcome=Untested("the conditions share no data set"),
        )
    mean = mean_of_differences(differences)
    return Interaction(
        condition=condition,
        reference=reference,
        rows=mean.rows,
        changes=mean.values,
        difference=mean.difference,
        interval=interval_of_difference(mean, coverage),
        outcome=difference_outcome(mean),
    )


def _difference_of_changes(in_condition: PairedScores, in_reference: PairedScores) -> RunDifference:
    """Return the difference of the changes of two runs on one data set: that of the first run minus that of the second.

    Missing queries count at their worst for each direction, so there are a lowest and a highest difference. The
    difference ``(a_c - a_0) - (b_c - b_0)`` is lowest with the lowest a_c and b_0 and the highest a_0 and b_c. It is
    highest the other way round.

    Args:
        in_condition: The runs in the condition.
        in_reference: The runs in the reference condition.
    """
    changes = (
        _change(in_condition.first.value, in_reference.first.value),
        _change(in_condition.second.value, in_reference.second.value),
    )
    missing = (
        in_condition.first.missing + in_reference.first.missing,
        in_condition.second.missing + in_reference.second.missing,
    )
    reason = _why_untested(in_condition, in_reference)
    if reason is not None:
        return RunDifference(values=changes, rows=in_condition.rows, missing=missing, bounds=None, reason=reason)

    first, first_reference = in_condition.first, in_reference.first
    second, second_reference = in_condition.second, in_reference.second
    lowest = in_condition.weighted_difference(
        [*first.contributions("lowest"), *_negated(first_reference.contributions("highest"))],
        [*second.contributions("highest"), *_negated(second_reference.contributions("lowest"))],
    )
    highest = lowest
    if missing != (0, 0):
        highest = in_condition.weighted_difference(
            [*first.contributions("highest"), *_negated(first_reference.contributions("lowest"))],
            [*second.contributions("lowest"), *_negated(second_reference.contributions("highest"))],
        )
    return RunDifference(values=changes, rows=in_condition.rows, missing=missing, bounds=(lowest, highest))


def _why_untested(in_condition: PairedScores, in_reference: PairedScores) -> str | None:
    """Return why the changes of two runs cannot be tested on a data set; ``None`` if they can."""
    if in_condition.first.row_numbers.keys() != in_reference.first.row_numbers.keys():
        return "the conditions have different test rows"
    return in_condition.why_not_comparable() or in_reference.why_not_comparable()


def _change(score: float | None, reference_score: float | None) -> float | None:
    """Return the score of a run in a condition minus that in the reference; ``None`` if one of them is undefined."""
    if score is None or reference_score is None:
        return None
    return score - reference_score


def _negated(weighted_contributions: WeightedContributions) -> WeightedContributions:
    """Return contributions with the opposite weights."""
    return [(-weight, contributions) for weight, contributions in weighted_contributions]
